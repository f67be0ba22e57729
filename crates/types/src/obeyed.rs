//! Files and folders that other programs act on later: git, shells, editors, package managers, other agents.
//!
//! This is the only list of them. The guard asks before a call writes one of them, anywhere. The sandbox
//! keeps confined commands from writing those in the workspace. Paths are matched by name, even if they do
//! not exist yet.
//!
//! Does not look at the disk. Does not list secrets, which are protected from reading.

use std::path::{Path, PathBuf};

/// The part of a listed folder that is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObeyedPart {
    Whole,
    /// Confined commands may not write these paths in the folder, but may write others there: the program to which the
    /// folder belongs needs that while it works. The guard asks before a write anywhere in the folder.
    Only(&'static [&'static str]),
    /// The guard and the sandbox protect only these paths in the folder, because people and other programs keep their own
    /// files beside them.
    Just(&'static [&'static str]),
}

use ObeyedPart::{Just, Only, Whole};

/// Files in a git directory that change what git runs. `commondir` names the folder with the configuration and the hooks.
pub const OBEYED_IN_GIT_DIR: &[&str] =
    &["hooks", "config", "config.worktree", "info/attributes", "commondir", "remotes", "branches"];

/// Folder names, in lower case.
pub(crate) const OBEYED_FOLDERS: &[(&str, ObeyedPart)] = &[
    // Version control systems and what runs at their commits.
    (".git", Only(OBEYED_IN_GIT_DIR)),
    (".hg", Only(&["hgrc", "hgrc-not-shared", "sharedpath"])),
    (".sl", Only(&["config", "sharedpath"])),
    (".jj", Only(&["repo/config.toml", "workspace-config.toml"])),
    ("_darcs", Only(&["prefs/defaults"])),
    (".pijul", Only(&["config"])),
    (".bzr", Only(&["branch/branch.conf"])),
    (".repo", Only(&["hooks", "repo"])),
    (".fossil-settings", Whole),
    // Subversion keeps its settings in the home folder, so confined commands may write all of `.svn`.
    (".svn", Only(&[])),
    (".subversion", Whole),
    (".husky", Whole),
    (".githooks", Whole),
    // Agents: hooks, servers, skills, extensions and commands of theirs.
    (".agent", Whole),
    (".agents", Whole),
    (".amazonq", Whole),
    (".amp", Whole),
    (".augment", Whole),
    (".becket", Whole),
    (".claude", Whole),
    (".claude-plugin", Whole),
    (".cline", Whole),
    (".clinerules", Whole),
    (".codebuddy", Whole),
    (".codex", Whole),
    (".continue", Whole),
    (".copilot", Whole),
    (".crush", Whole),
    (".cursor", Whole),
    (".factory", Whole),
    (".gemini", Whole),
    (".goose", Whole),
    (".iflow", Whole),
    (".junie", Whole),
    (".kilocode", Whole),
    (".kiro", Whole),
    (".opencode", Whole),
    (".openhands", Whole),
    (".pi", Whole),
    (".qwen", Whole),
    (".roo", Whole),
    (".rovodev", Whole),
    (".trae", Whole),
    (".vibe", Whole),
    (".windsurf", Whole),
    // The rest of the folder is for the service, not for programs on this machine.
    (".github", Just(&["agents", "hooks", "prompts", "skills"])),
    // Editors and environments of projects.
    (".vscode", Whole),
    (".vs", Whole),
    (".theia", Whole),
    (".idea", Whole),
    (".run", Whole),
    (".fleet", Whole),
    (".nova", Whole),
    (".zed", Whole),
    (".helix", Whole),
    (".vim", Whole),
    (".emacs.d", Whole),
    (".direnv", Whole),
    (".devcontainer", Whole),
    (".mise", Whole),
    ("mise", Just(&["config.toml", "config.local.toml"])),
    // Package managers and build tools keep their downloads in the same folders, so confined commands may write
    // those.
    (".cargo", Only(&["config", "config.toml"])),
    (".bundle", Only(&["config"])),
    (".yarn", Only(&["plugins", "releases"])),
    (".mvn", Only(&["extensions.xml", "jvm.config", "maven.config", "wrapper"])),
    (".gradle", Only(&["gradle.properties", "init.d", "init.gradle", "init.gradle.kts"])),
    // Settings that programs read from the home folder, and some of them from a project, too.
    (
        ".config",
        Just(&[
            "amp",
            "crush",
            "direnv",
            "elvish",
            "emacs",
            "environment.d",
            "git",
            "goose",
            "helix",
            "kak",
            "kitty",
            "lefthook.json",
            "lefthook.toml",
            "lefthook.yaml",
            "lefthook.yml",
            "mise",
            "mise.local.toml",
            "mise.toml",
            "nushell",
            "nvim",
            "opencode",
            "tmux",
            "xonsh",
            "zed",
        ]),
    ),
];

/// Folders whose names are common words. They count only inside one of `SETTINGS_FOLDERS`.
pub(crate) const OBEYED_SETTINGS: &[&str] = &["autostart", "launchagents", "fish", "systemd", "cron.d"];

/// Folders that hold settings, in lower case.
pub(crate) const SETTINGS_FOLDERS: &[&str] = &[".config", ".local", "etc", "library"];

/// File names, as the programs spell them. They are compared without regard to case.
pub(crate) const OBEYED_FILES: &[&str] = &[
    // Version control systems and what runs at their commits.
    ".gitconfig",
    ".gitmodules",
    ".gitattributes",
    ".hgrc",
    ".arcconfig",
    ".gclient",
    ".pre-commit-config.yaml",
    "prek.toml",
    "lefthook.yml",
    "lefthook.yaml",
    "lefthook.toml",
    "lefthook.json",
    ".lefthook.yml",
    ".lefthook.yaml",
    ".lefthook.toml",
    ".lefthook.json",
    "lefthook-local.yml",
    "lefthook-local.yaml",
    "lefthook-local.toml",
    "lefthook-local.json",
    ".lefthook-local.yml",
    ".lefthook-local.yaml",
    ".lefthook-local.toml",
    ".lefthook-local.json",
    ".simple-git-hooks.json",
    ".simple-git-hooks.js",
    ".simple-git-hooks.cjs",
    "simple-git-hooks.json",
    "simple-git-hooks.js",
    "simple-git-hooks.cjs",
    ".huskyrc",
    ".huskyrc.js",
    ".huskyrc.json",
    ".overcommit.yml",
    "captainhook.json",
    // Agents.
    ".mcp.json",
    ".lsp.json",
    "opencode.json",
    "opencode.jsonc",
    "crush.json",
    ".crush.json",
    ".aider.conf.yml",
    ".aider.model.settings.yml",
    // Shells, and what reads its settings when a session begins.
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".mkshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".logout",
    ".xonshrc",
    ".inputrc",
    ".pam_environment",
    ".xprofile",
    ".xinitrc",
    ".xsession",
    ".xsessionrc",
    ".screenrc",
    ".tmux.conf",
    "crontab",
    // Environments of projects.
    ".envrc",
    ".autoenv",
    ".autoenv.zsh",
    ".tool-versions",
    "mise.toml",
    ".mise.toml",
    "mise.local.toml",
    ".mise.local.toml",
    ".rtx.toml",
    ".devcontainer.json",
    // Package managers, build tools and downloads.
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    ".pnpmfile.mjs",
    "bunfig.toml",
    ".bunfig.toml",
    ".bazelrc",
    ".buckconfig",
    ".buckconfig.local",
    ".sbtopts",
    ".jvmopts",
    ".taskrc.yml",
    ".taskrc.yaml",
    ".pypirc",
    ".condarc",
    ".terraformrc",
    ".curlrc",
    ".wgetrc",
    ".ripgreprc",
    ".ackrc",
    ".lessfilter",
    ".lesskey",
    // Editors.
    ".vimrc",
    ".gvimrc",
    ".exrc",
    ".lvimrc",
    ".local.vimrc",
    ".vimspector.json",
    ".nvimrc",
    ".nvim.lua",
    ".lazy.lua",
    ".kakrc",
    ".kateproject",
    ".emacs",
    ".dir-locals.el",
    ".dir-locals-2.el",
    // Interpreters and debuggers, when they start.
    ".Rprofile",
    ".Renviron",
    ".irbrc",
    ".pryrc",
    ".byebugrc",
    ".rdbgrc",
    ".iex.exs",
    ".erlang",
    ".ghci",
    ".ocamlinit",
    ".octaverc",
    ".pdbrc",
    ".pdbrc.py",
    ".perldb",
    ".sbclrc",
    ".clisprc",
    ".guile",
    ".gnuplot",
    ".psqlrc",
    ".sqliterc",
    ".user.ini",
    ".lldbinit",
    ".gdbinit",
    ".gdbearlyinit",
    ".radare2rc",
];

/// Endings of file names, in lower case: projects of editors, which name tasks and programs.
pub(crate) const OBEYED_ENDINGS: &[&str] = &[".code-workspace", ".sublime-project"];

/// True if a file is protected by the ending of its name.
pub fn has_obeyed_ending(name: &std::ffi::OsStr) -> bool {
    let name = name.as_encoded_bytes();
    OBEYED_ENDINGS.iter().any(|ending| {
        name.len() > ending.len() && name[name.len() - ending.len()..].eq_ignore_ascii_case(ending.as_bytes())
    })
}

/// Returns the paths of the listed files and folders directly inside `root`, whether they exist or not. Files that are listed
/// by their ending are not included: to find them, read the folder and test each name with [`has_obeyed_ending`].
pub fn obeyed_in(root: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for (folder, part) in OBEYED_FOLDERS {
        match part {
            Whole => out.push(root.join(folder)),
            Only(names) | Just(names) => out.extend(names.iter().map(|name| root.join(folder).join(name))),
        }
    }
    // The workspace may itself be a home folder, so `.config` is included. `etc` and the like are ordinary
    // folders of a project.
    out.extend(OBEYED_SETTINGS.iter().map(|name| root.join(".config").join(name)));
    out.extend(OBEYED_FILES.iter().map(|name| root.join(name)));
    out
}

/// Returns the component of `path` that is on the list.
pub fn obeyed(path: &Path) -> Option<String> {
    let names: Vec<String> = path
        .components()
        .filter_map(|c| match c {
            std::path::Component::Normal(name) => Some(name.to_string_lossy().to_lowercase()),
            _ => None,
        })
        .collect();
    let settings = || names.iter().any(|name| SETTINGS_FOLDERS.contains(&name.as_str()));
    let is_listed = |(at, name): &(usize, &String)| {
        let rest = &names[at + 1..];
        let part = |part: &ObeyedPart| match part {
            Whole | Only(_) => true,
            Just(parts) => parts.iter().any(|part| rest.first().is_some_and(|first| first == part)),
        };
        OBEYED_FOLDERS.iter().any(|(folder, what)| *folder == name.as_str() && part(what))
            || OBEYED_SETTINGS.contains(&name.as_str()) && settings()
    };
    let folder = names.iter().enumerate().find(is_listed);
    if let Some((_, folder)) = folder {
        return Some(folder.clone());
    }
    // A bare repository: git runs the hooks and reads the config of any folder that looks like one.
    if names.len() > 1
        && names[names.len() - 2] == "hooks"
        && path.ancestors().any(|a| a.extension().is_some_and(|e| e == "git"))
    {
        return Some("hooks".to_owned());
    }
    let last = names.last()?;
    (OBEYED_FILES.iter().any(|name| name.eq_ignore_ascii_case(last)) || has_obeyed_ending(last.as_ref()))
        .then(|| last.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_in_a_root_is_known_by_name_anywhere() {
        let root = Path::new("/p/sub");
        let places = obeyed_in(root);
        assert!(places.len() > OBEYED_FILES.len() + OBEYED_FOLDERS.len());
        for place in places {
            assert!(obeyed(&place).is_some() && place.starts_with(root), "{place:?}");
            assert!(
                obeyed(&Path::new("/deep").join(place.strip_prefix("/p").unwrap())).is_some(),
                "{place:?}"
            );
        }
    }

    #[test]
    fn names_are_compared_in_lower_case() {
        let lower = |name: &str| name == name.to_lowercase();
        let folders = OBEYED_FOLDERS.iter().map(|(name, _)| *name);
        let lists = [OBEYED_SETTINGS, SETTINGS_FOLDERS, OBEYED_ENDINGS].concat();
        for name in folders.chain(lists) {
            assert!(lower(name), "{name} is never found");
        }
        assert_eq!(obeyed(Path::new("/p/.GIT/config")).as_deref(), Some(".git"));
        assert_eq!(obeyed(Path::new("/p/fish/main.rs")), None);
        // A confined command must not write the name that the program reads.
        assert!(obeyed_in(Path::new("/p")).contains(&PathBuf::from("/p/.Rprofile")));
        assert_eq!(obeyed(Path::new("/p/.RPROFILE")).as_deref(), Some(".rprofile"));
    }

    /// The page is for people who decide what to allow, so it must be whole.
    #[test]
    fn the_page_about_permissions_names_everything() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/permissions.md"))
            .unwrap();
        let (_, page) = page.split_once("## Files that other programs obey").unwrap();
        let page = page.split("\n## ").next().unwrap().to_lowercase();
        let folders = OBEYED_FOLDERS.iter().flat_map(|(name, part)| match part {
            Just(parts) => [&[*name], *parts].concat(),
            Whole | Only(_) => vec![*name],
        });
        for name in folders.chain(OBEYED_FILES.iter().copied()).chain(OBEYED_SETTINGS.iter().copied()) {
            // Of some names, the page lists the beginnings and the endings.
            let stem = ["lefthook", "simple-git-hooks"].iter().find(|stem| name.contains(*stem));
            let shown = stem.map_or(name, |_| &name[..name.rfind('.').unwrap_or(name.len())]);
            let shown = shown.to_lowercase();
            assert!(page.contains(&format!("`{shown}`")) || page.contains(&format!("`{shown}.*`")), "{name}");
        }
        for ending in OBEYED_ENDINGS {
            assert!(page.contains(&format!("`*{ending}`")), "{ending}");
        }
    }

    #[test]
    fn names_that_programs_obey_are_known_beside_their_siblings() {
        for path in [
            ".devcontainer.json",
            "lefthook.toml",
            ".lefthook.toml",
            ".dir-locals-2.el",
            ".sl/config",
            "x.code-workspace",
            ".pi/extensions/x.ts",
            ".qwen/settings.json",
            ".roo/mcp.json",
            ".kiro/settings/mcp.json",
            ".amazonq/mcp.json",
            ".factory/mcp.json",
            ".crush.json",
            "crush.json",
            ".agents/skills/x/SKILL.md",
            ".github/skills/x/SKILL.md",
            ".run/x.run.xml",
            ".lvimrc",
            ".pdbrc",
            ".Rprofile",
            ".irbrc",
            ".pryrc",
            ".iex.exs",
            ".ghci",
            ".ocamlinit",
            ".octaverc",
            "mise.local.toml",
            ".mise/config.toml",
            ".openhands/setup.sh",
            ".config/git/config",
            ".config/mise.toml",
            "mise/config.toml",
            "X.Code-Workspace",
            "a.sublime-project",
            ".mvn/extensions.xml",
        ] {
            assert!(obeyed(&Path::new("/p").join(path)).is_some(), "{path}");
        }
        for path in [
            ".github/workflows/ci.yml",
            ".github/CODEOWNERS",
            "skills/x/SKILL.md",
            "mise/main.rs",
            ".config/app/git/x",
            ".config/app.toml",
            "code-workspace",
            ".code-workspace/x",
            "src/pi/extensions/x.ts",
            "crush.json/x",
        ] {
            assert_eq!(obeyed(&Path::new("/p").join(path)), None, "{path}");
        }
    }
}
