//! Trust in a project, and the content that trust is about: settings that do more than forbid, skills, commands,
//! subagents, rules files.
//!
//! Owns the list of trusted directories in the user's data folder. A project is trusted by its root, not by folders
//! above or below it. Headless runs treat every project as trusted, because whoever starts them decides. Nothing of the
//! project runs to find out what it contains.

pub(crate) mod content;
pub(crate) mod scripts;

use crate::environment::Environment;
use std::io;
use std::path::{Path, PathBuf};

/// Settings, commands, subagents and skills, by their paths below the root.
const SETTINGS: [&str; 2] = [".becket/config.toml", ".becket/config.local.toml"];
const COMMANDS: [&str; 5] =
    [".becket/commands", ".claude/commands", ".opencode/commands", ".opencode/command", ".codex/prompts"];
const AGENTS: [&str; 4] = [".becket/agents", ".claude/agents", ".opencode/agents", ".opencode/agent"];
const SKILLS: [&str; 7] = [
    ".becket/skills",
    ".agents/skills",
    ".claude/skills",
    ".codex/skills",
    ".opencode/skills",
    ".opencode/skill",
    ".github/skills",
];

/// Kinds of content that a project has in folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentKind {
    Commands,
    Agents,
    Skills,
}

/// Returns the folders of the project that may contain `what`: from the working directory up to the root, the nearest
/// first.
pub(crate) fn folders(what: ContentKind, root: &Path, cwd: &Path) -> Vec<PathBuf> {
    let names: &[&str] = match what {
        ContentKind::Commands => &COMMANDS,
        ContentKind::Agents => &AGENTS,
        ContentKind::Skills => &SKILLS,
    };
    let mut places: Vec<&Path> = cwd.ancestors().take_while(|dir| dir.starts_with(root)).collect();
    if places.is_empty() {
        places.push(root);
    }
    let all = places.iter().flat_map(|place| names.iter().map(|name| place.join(name)));
    all.filter(|folder| !leads_outside(root, folder)).collect()
}

/// True if a path of the project is a link out of the project, or is below such a link. The texts there are not the
/// project's, and would be sent to the model.
pub(crate) fn leads_outside(root: &Path, path: &Path) -> bool {
    // Few of these paths exist, and checking that is cheaper than resolving them.
    path.symlink_metadata().is_ok()
        && path.canonicalize().is_ok_and(|real| root.canonicalize().is_ok_and(|root| !real.starts_with(root)))
}

/// Returns a note about folders that are not used because they are links out of the project.
pub(crate) fn note_about_links(root: &Path, cwd: &Path) -> Option<String> {
    let places = cwd.ancestors().take_while(|dir| dir.starts_with(root)).chain([root]);
    let names = [&COMMANDS[..], &AGENTS, &SKILLS].concat();
    let mut outside: Vec<String> = places
        .flat_map(|place| names.iter().map(|name| place.join(name)))
        .filter(|folder| leads_outside(root, folder))
        .map(|folder| becket_tool::text::clean(&folder.to_string_lossy()).replace('\n', "\\n"))
        .collect();
    outside.sort();
    outside.dedup();
    (!outside.is_empty()).then(|| {
        format!(
            "Not used, because these are links to files or folders outside of the project: {}. Copy the files \
             here, or put them into your own configuration folder.",
            outside.join(", ")
        )
    })
}

/// Maximum number of bytes of the list.
const MAX_LIST: u64 = 16 << 20;

fn list(environment: &Environment) -> PathBuf {
    environment.data_dir.join("trusted-directories")
}

/// Encodes a root as one line of the list, whatever characters its path contains.
fn line(root: &Path) -> String {
    serde_json::Value::from(root.to_string_lossy()).to_string()
}

pub(crate) fn is_trusted(environment: &Environment, root: &Path) -> bool {
    let wanted = line(root);
    becket_files::read_text(&list(environment), MAX_LIST)
        .is_ok_and(|text| text.lines().any(|line| line == wanted))
}

/// Records the root as trusted from now on.
pub(crate) fn remember(environment: &Environment, root: &Path) -> io::Result<()> {
    becket_files::private::append(&list(environment), format!("{}\n", line(root)).as_bytes())
}

/// Describes the content of the project that trust is about, one line each: what it is and where. Empty: there is
/// nothing to ask.
pub(crate) fn content_lines(root: &Path, cwd: &Path) -> Vec<String> {
    let mut out = Vec::new();
    for name in SETTINGS.iter().filter(|name| root.join(name).is_file()) {
        out.push(format!("{:<9} {name}", "settings"));
    }
    for (what, kind) in [
        ("commands", ContentKind::Commands),
        ("agents", ContentKind::Agents),
        ("skills", ContentKind::Skills),
    ] {
        for folder in folders(kind, root, cwd).into_iter().filter(|folder| folder.is_dir()) {
            let shown = folder.strip_prefix(root).unwrap_or(&folder).to_string_lossy();
            out.push(format!("{what:<9} {}", becket_tool::text::clean(&shown).replace('\n', "\\n")));
        }
    }
    for file in becket_agent::rules::project_files(cwd) {
        let shown = file.strip_prefix(root).unwrap_or(&file).to_string_lossy();
        out.push(format!("{:<9} {}", "rules", becket_tool::text::clean(&shown).replace('\n', "\\n")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir_without_links() -> &'static Path {
        Path::new("/nowhere")
    }

    #[test]
    fn folders_go_from_the_nearest_up_to_the_root() {
        let (root, cwd) = (Path::new("/p"), Path::new("/p/a/b"));
        let found = folders(ContentKind::Agents, root, cwd);
        assert_eq!(found.len(), 3 * AGENTS.len());
        assert_eq!(found[0], Path::new("/p/a/b/.becket/agents"));
        assert_eq!(found.last().unwrap(), Path::new("/p/.opencode/agent"));
        assert!(found.iter().all(|folder| folder.starts_with(root)));
        assert_eq!(folders(ContentKind::Skills, root, root).len(), SKILLS.len());
        // If the working directory is outside of the project, only the project's root counts.
        assert!(
            folders(ContentKind::Skills, root, Path::new("/q")).iter().all(|folder| folder.starts_with(root))
        );
        // A folder that is a link is used only if it stays inside.
        let linked = tempfile::tempdir().unwrap();
        let (inner, outer) = (linked.path().join("p"), linked.path().join("outer"));
        for folder in [inner.join("tools/skills"), inner.join(".claude"), outer.clone()] {
            std::fs::create_dir_all(folder).unwrap();
        }
        for (name, target) in [
            ("commands", outer.clone()),
            ("agents", "../../outer".into()),
            ("skills", "../tools/skills".into()),
        ] {
            std::os::unix::fs::symlink(target, inner.join(".claude").join(name)).unwrap();
        }
        assert_eq!(content_lines(&inner, &inner), ["skills    .claude/skills"]);
        let note = note_about_links(&inner, &inner).unwrap();
        assert!(note.contains(".claude/agents, ") && note.contains(".claude/commands."), "{note}");
        assert_eq!(note_about_links(dir_without_links(), dir_without_links()), None);
        // Content is reported wherever it is in the project.
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b");
        for folder in [".github/skills", "a/.codex/skills", "a/b/.claude/agents", "a/c/.claude/agents"] {
            std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        std::fs::create_dir_all(&deep).unwrap();
        assert_eq!(
            content_lines(dir.path(), &deep),
            ["agents    a/b/.claude/agents", "skills    a/.codex/skills", "skills    .github/skills"]
        );
    }

    #[test]
    fn a_root_is_trusted_by_itself_and_only_what_it_brings_is_asked_about() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::below(dir.path());
        let root = dir.path().join("a\nb");
        std::fs::create_dir_all(root.join(".claude/commands")).unwrap();
        assert_eq!(content_lines(dir.path(), dir.path()), Vec::<String>::new());
        assert_eq!(content_lines(&root, &root), ["commands  .claude/commands"]);
        assert!(!is_trusted(&environment, &root));
        remember(&environment, &root).unwrap();
        assert!(is_trusted(&environment, &root));
        for other in [dir.path().to_path_buf(), root.join("sub"), dir.path().join("b")] {
            assert!(!is_trusted(&environment, &other), "{}", other.display());
        }
    }
}
