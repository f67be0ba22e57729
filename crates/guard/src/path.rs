//! Compares paths for rules: by their text, component by component. The list of places that git, shells or editors obey
//! later is in `becket_types`; becket's own folders are added here.
//!
//! Nothing is looked up on disk: a place is sensitive by its name, even if it does not exist.

use std::path::{Component, Path, PathBuf};

/// True if `path` is one of `roots` or below one. Paths under `/proc` and `/dev` belong to no root.
pub(crate) fn inside(path: &Path, roots: &[PathBuf]) -> bool {
    path.is_absolute()
        && !path.components().any(|c| c == Component::ParentDir)
        && !["/proc", "/dev", "/sys"].iter().any(|kernel| path.starts_with(kernel))
        && roots.iter().any(|root| root.is_absolute() && path.starts_with(root))
}

/// True for devices such as `/dev/null`. Reading them reveals nothing, and writing them changes nothing.
pub(crate) fn is_sink(path: &Path) -> bool {
    ["/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/zero"]
        .iter()
        .any(|p| path == Path::new(p))
}

/// The component of `path` that makes writing it dangerous, because other programs obey the file later. `own` are becket's
/// own folders.
pub(crate) fn protected(path: &Path, own: &[PathBuf]) -> Option<String> {
    if let Some(folder) = own.iter().find(|folder| path.starts_with(folder)) {
        return Some(folder.display().to_string());
    }
    becket_types::obeyed(path).or_else(|| becket_types::obeyed(&as_windows_reads(path)?))
}

/// The path as a file system of Windows reads it, if that differs: dots and blanks at the end of a name do not count, `::` begins
/// a stream of the same file, and `GIT~1` is a short name of `.git`. Work trees can be on such a file system, too.
fn as_windows_reads(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        let Component::Normal(name) = part else {
            out.push(part);
            continue;
        };
        let name = name.to_string_lossy();
        let plain = name.split("::").next().unwrap_or_default().trim_end_matches(['.', ' ']);
        let is_short = plain.eq_ignore_ascii_case("git~1");
        out.push(if is_short { ".git" } else { plain });
    }
    (out != path).then_some(out)
}

/// The first folder of the workspace that is or contains the home folder. There, the settings of all programs of the user
/// would be files of the workspace.
pub(crate) fn wide_root<'a>(roots: &'a [PathBuf], home: &Path) -> Option<&'a PathBuf> {
    roots.iter().find(|root| root.is_absolute() && home.starts_with(root))
}

/// The component by which `path` belongs to the settings or programs of the user, if the workspace contains the home folder.
pub(crate) fn of_home(path: &Path, home: &Path) -> Option<String> {
    let Ok(below) = path.strip_prefix(home) else { return Some(path.display().to_string()) };
    let first = below.components().next()?.as_os_str().to_string_lossy().into_owned();
    (first.starts_with('.') || ["bin", "Library", "snap"].contains(&first.as_str())).then_some(first)
}

/// Files of a git directory besides [`becket_types::OBEYED_IN_GIT_DIR`]. Together with `HEAD` they turn any folder into a
/// repository, and git then obeys the configuration in it.
const IN_GIT_DIR: &[&str] = &["HEAD", "objects", "refs", "packed-refs"];

/// The component by which a write of `path` would turn a folder into a repository, or change an existing repository. `has_head`:
/// true if a folder has a file `HEAD`, without which git takes no folder for a repository.
pub(crate) fn makes_repository(path: &Path, has_head: &dyn Fn(&Path) -> bool) -> Option<String> {
    if path.file_name().is_some_and(|name| name == "HEAD" || name == "commondir") {
        return path.file_name().map(|name| name.to_string_lossy().into_owned());
    }
    let is_part = |below: &Path| {
        IN_GIT_DIR.iter().chain(becket_types::OBEYED_IN_GIT_DIR).any(|part| below.starts_with(part))
    };
    path.ancestors().skip(1).find_map(|folder| {
        let below = path.strip_prefix(folder).ok().filter(|below| is_part(below))?;
        let first = below.components().next()?.as_os_str().to_string_lossy().into_owned();
        has_head(folder).then_some(first)
    })
}

/// Matches a pattern in which `*` stands for any text, even none. Linear in practice, quadratic at worst.
pub(crate) fn wild(pattern: &str, text: &str) -> bool {
    let (p, t): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut pi, mut ti) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while ti < t.len() {
        if pi < p.len() && p[pi] == '*' {
            retry = Some((pi + 1, ti));
            pi += 1;
        } else if pi < p.len() && p[pi] == t[ti] {
            pi += 1;
            ti += 1;
        } else if let Some((after, from)) = retry {
            pi = after;
            ti = from + 1;
            retry = Some((after, from + 1));
        } else {
            return false;
        }
    }
    p[pi..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_will_be_obeyed_later_is_protected() {
        let own = [PathBuf::from("/home/u/data/b")];
        for path in [
            "/p/.git/hooks/pre-commit",
            "/p/.git",
            "/p/.GIT/config",
            "/p/.becket/config.toml",
            "/home/u/.bashrc",
            "/home/u/.config/fish/config.fish",
            "/p/.vscode/tasks.json",
            "/home/u/data/b/x",
            "/p/evil.git/hooks/post-update",
            "/p/GIT~1/config",
            "/p/.git /config",
            "/p/.Git./hooks/x",
            "/p/.git::$INDEX_ALLOCATION/config",
            "/p/.envrc.",
        ] {
            assert!(protected(Path::new(path), &own).is_some(), "{path}");
        }
        for path in ["/p/.gitignore", "/p/src/git.rs", "/p/fish/main.rs", "/p/.github/workflows/ci.yml"] {
            assert_eq!(protected(Path::new(path), &own), None, "{path}");
        }
    }

    #[test]
    fn settings_of_the_home_folder_are_known_where_it_is_the_workspace() {
        let home = Path::new("/home/u");
        let wide = |root: &str| wide_root(&[PathBuf::from(root)], home).is_some();
        assert!(wide("/home/u") && wide("/home") && wide("/"));
        assert!(!wide("/home/u/p") && !wide("/home/v") && !wide(""));
        assert!(wide_root(&[PathBuf::from("/")], Path::new("")).is_none());
        for (path, want) in [
            ("/home/u/.config/nvim/init.lua", Some(".config")),
            ("/home/u/.profile.d", Some(".profile.d")),
            ("/home/u/bin/ls", Some("bin")),
            ("/home/u/p/.env.example", None),
            ("/home/u/notes.txt", None),
            ("/etc/profile", Some("/etc/profile")),
        ] {
            assert_eq!(of_home(Path::new(path), home).as_deref(), want, "{path}");
        }
    }

    #[test]
    fn a_write_that_makes_a_repository_of_a_folder_is_known() {
        let has_head = |folder: &Path| folder == Path::new("/p/bare");
        for (path, want) in [
            ("/p/sub/HEAD", Some("HEAD")),
            ("/p/commondir", Some("commondir")),
            ("/p/bare/config", Some("config")),
            ("/p/bare/hooks/post-update", Some("hooks")),
            ("/p/bare/objects/info/x", Some("objects")),
            ("/p/bare/info/attributes", Some("info")),
            ("/p/bare/info/exclude", None),
            ("/p/bare/README", None),
            ("/p/config", None),
            ("/p/src/hooks/use.ts", None),
            ("/p/head", None),
        ] {
            assert_eq!(makes_repository(Path::new(path), &has_head).as_deref(), want, "{path}");
        }
    }

    #[test]
    fn inside_is_by_component() {
        let roots = [PathBuf::from("/a/proj")];
        assert!(inside(Path::new("/a/proj/x"), &roots) && inside(Path::new("/a/proj"), &roots));
        for path in ["/a/proj-evil/x", "/a", "/a/proj/../x", "relative", "/proc/self/root/a/proj"] {
            assert!(!inside(Path::new(path), &roots), "{path}");
        }
        assert!(!inside(Path::new("/dev/tcp/evil/80"), &[PathBuf::from("/")]));
        assert!(!inside(Path::new("/x"), &[]) && !inside(Path::new("/x"), &[PathBuf::new()]));
    }

    proptest! {
        #[test]
        fn a_star_matches_whatever_stands_between(a in "[a-z]{0,6}", b in "[a-z *]{0,9}", c in "[a-z]{0,6}") {
            let (pattern, text) = (format!("{a}*{c}"), format!("{a}{b}{c}"));
            prop_assert!(wild(&pattern, &text));
            prop_assert!(wild(&text, &text) || text.contains('*'));
            let other = format!("{a}!{c}");
            prop_assert!(!wild(&other, &text));
        }
    }
}
