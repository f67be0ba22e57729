//! Files and folders that other programs act on later: git, shells, editors, package managers, other agents.
//!
//! This is the only list of them. The guard asks before a call writes one of them, anywhere. The sandbox
//! keeps confined commands from writing those in the workspace. Paths are matched by name, even if they do
//! not exist yet.
//!
//! Does not look at the disk. Does not list secrets, which are protected from reading.

use std::path::{Path, PathBuf};

/// The part of a listed folder that a confined command may not write. The guard asks about every part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObeyedPart {
    Whole,
    /// Only these files. The version control system must be able to write the rest while it works.
    Only(&'static [&'static str]),
}

/// Files in a git directory that change what git runs. `commondir` names the folder with the configuration and the hooks.
pub const OBEYED_IN_GIT_DIR: &[&str] =
    &["hooks", "config", "config.worktree", "info/attributes", "commondir", "remotes", "branches"];

/// Folder names, in lower case.
pub const OBEYED_FOLDERS: &[(&str, ObeyedPart)] = &[
    (".git", ObeyedPart::Only(OBEYED_IN_GIT_DIR)),
    (".hg", ObeyedPart::Only(&["hgrc"])),
    (".jj", ObeyedPart::Only(&["repo/config.toml"])),
    ("_darcs", ObeyedPart::Only(&["prefs/defaults"])),
    // Subversion keeps its settings in the home folder.
    (".svn", ObeyedPart::Only(&[])),
    (".subversion", ObeyedPart::Whole),
    (".becket", ObeyedPart::Whole),
    (".claude", ObeyedPart::Whole),
    (".codex", ObeyedPart::Whole),
    (".gemini", ObeyedPart::Whole),
    (".opencode", ObeyedPart::Whole),
    (".windsurf", ObeyedPart::Whole),
    (".cursor", ObeyedPart::Whole),
    (".vscode", ObeyedPart::Whole),
    (".idea", ObeyedPart::Whole),
    (".zed", ObeyedPart::Whole),
    (".helix", ObeyedPart::Whole),
    (".husky", ObeyedPart::Whole),
    (".githooks", ObeyedPart::Whole),
    (".direnv", ObeyedPart::Whole),
    (".devcontainer", ObeyedPart::Whole),
    // Package managers keep what they download beside these.
    (".cargo", ObeyedPart::Only(&["config", "config.toml"])),
    (".bundle", ObeyedPart::Only(&["config"])),
    (".yarn", ObeyedPart::Only(&["plugins", "releases"])),
];

/// Folders whose names are common words. They count only inside one of `SETTINGS_FOLDERS`.
pub const OBEYED_SETTINGS: &[&str] = &["autostart", "launchagents", "fish", "systemd", "cron.d"];

/// Folders that hold settings, in lower case.
pub const SETTINGS_FOLDERS: &[&str] = &[".config", ".local", "etc", "library"];

/// File names, in lower case.
pub const OBEYED_FILES: &[&str] = &[
    ".gitconfig",
    ".gitmodules",
    ".gitattributes",
    ".hgrc",
    ".ripgreprc",
    ".mcp.json",
    "opencode.json",
    "opencode.jsonc",
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
    ".cshrc",
    ".tcshrc",
    ".login",
    ".inputrc",
    ".xprofile",
    ".xinitrc",
    ".xsession",
    ".envrc",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    ".pnpmfile.mjs",
    "bunfig.toml",
    ".bazelrc",
    ".pypirc",
    ".tool-versions",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    ".lefthook.yml",
    "lefthook-local.yml",
    ".lefthook-local.yml",
    ".simple-git-hooks.json",
    ".overcommit.yml",
    "mise.toml",
    ".mise.toml",
    "crontab",
    ".vimrc",
    ".exrc",
    ".nvimrc",
    ".nvim.lua",
    ".emacs",
    ".dir-locals.el",
    ".screenrc",
    ".tmux.conf",
    ".lldbinit",
    ".gdbinit",
];

/// Returns the listed files and folders that are directly inside `root`.
pub fn obeyed_in(root: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for (folder, part) in OBEYED_FOLDERS {
        match part {
            ObeyedPart::Whole => out.push(root.join(folder)),
            ObeyedPart::Only(names) => out.extend(names.iter().map(|name| root.join(folder).join(name))),
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
    let folder = names.iter().find(|name| {
        let name = name.as_str();
        OBEYED_FOLDERS.iter().any(|(folder, _)| *folder == name)
            || OBEYED_SETTINGS.contains(&name) && settings()
    });
    if let Some(folder) = folder {
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
    OBEYED_FILES.contains(&last.as_str()).then(|| last.clone())
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
        let lists = [OBEYED_SETTINGS, SETTINGS_FOLDERS, OBEYED_FILES].concat();
        for name in folders.chain(lists) {
            assert!(lower(name), "{name} is never found");
        }
        assert_eq!(obeyed(Path::new("/p/.GIT/config")).as_deref(), Some(".git"));
        assert_eq!(obeyed(Path::new("/p/fish/main.rs")), None);
    }
}
