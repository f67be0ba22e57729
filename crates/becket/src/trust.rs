//! Whether a person trusts a project, and what of it that is about: its settings that do more than forbid, its skills, its
//! commands, its subagents.
//!
//! Owns the list of trusted directories, in the person's data. A project is trusted by its root, not by those above or below
//! it. Headless runs take a project as trusted: who starts them decides. Nothing of the project runs to find out what it brings.

use crate::environment::Environment;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Settings, commands, subagents and skills, by where they are below the root.
const SETTINGS: [&str; 2] = [".becket/config.toml", ".becket/config.local.toml"];
pub(crate) const COMMANDS: [&str; 2] = [".becket/commands", ".claude/commands"];
pub(crate) const AGENTS: [&str; 2] = [".becket/agents", ".claude/agents"];
pub(crate) const SKILLS: [&str; 3] = [".becket/skills", ".agents/skills", ".claude/skills"];

fn list(environment: &Environment) -> PathBuf {
    environment.data_dir.join("trusted-directories")
}

/// One line for a root; a path is written so that it is one.
fn line(root: &Path) -> String {
    serde_json::Value::from(root.to_string_lossy()).to_string()
}

pub(crate) fn is_trusted(environment: &Environment, root: &Path) -> bool {
    let wanted = line(root);
    std::fs::read_to_string(list(environment)).is_ok_and(|text| text.lines().any(|line| line == wanted))
}

/// From now on.
pub(crate) fn remember(environment: &Environment, root: &Path) -> io::Result<()> {
    std::fs::create_dir_all(&environment.data_dir)?;
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(list(environment))?;
    file.write_all(format!("{}\n", line(root)).as_bytes())
}

/// What the project brings that trust is about, each a line: what it is and where. Empty: there is nothing to ask.
pub(crate) fn brings(root: &Path, cwd: &Path) -> Vec<String> {
    let mut out = Vec::new();
    let mut add = |what: &str, name: &str, base: &Path, is: fn(&Path) -> bool| {
        if is(&base.join(name)) {
            out.push(format!("{what:<9} {name}"));
        }
    };
    for name in SETTINGS {
        add("settings", name, root, Path::is_file);
    }
    for name in COMMANDS {
        add("commands", name, root, Path::is_dir);
    }
    for name in AGENTS {
        add("agents", name, root, Path::is_dir);
    }
    for name in SKILLS {
        add("skills", name, cwd, Path::is_dir);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_trusted_by_itself_and_only_what_it_brings_is_asked_about() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::below(dir.path());
        let root = dir.path().join("a\nb");
        std::fs::create_dir_all(root.join(".claude/commands")).unwrap();
        assert_eq!(brings(dir.path(), dir.path()), Vec::<String>::new());
        assert_eq!(brings(&root, &root), ["commands  .claude/commands"]);
        assert!(!is_trusted(&environment, &root));
        remember(&environment, &root).unwrap();
        assert!(is_trusted(&environment, &root));
        for other in [dir.path().to_path_buf(), root.join("sub"), dir.path().join("b")] {
            assert!(!is_trusted(&environment, &other), "{}", other.display());
        }
    }
}
