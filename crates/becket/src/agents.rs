//! Kinds of subagents: the built-in ones, and those described by Markdown files.
//!
//! Owns the locations of the files and the meaning of their frontmatter (`name`, `description`, `tools`,
//! `disallowedTools`, `model`); the rest of a file is the prompt. The files of a trusted project override the user's,
//! and those override the built-in kinds. Files are read up to a limit, and a file that cannot be read is left out with
//! a warning. A file cannot grant permissions: a subagent has at most those of the session.

use crate::environment::Environment;
use crate::trust::{ContentKind, folders, leads_outside};
use becket_agent::subagent::Kind;
use becket_tool_skill::Head;
use std::path::{Path, PathBuf};

/// Most files that are read, and most bytes of each.
const MOST: usize = 100;
const BYTES: u64 = 64 * 1024;

/// Names of tools in other agents' files, and the names of the same tools here. Case and `_` are ignored.
const NAMES: [(&str, &str); 6] = [
    ("todowrite", "todo"),
    ("multiedit", "edit"),
    ("notebookedit", "edit"),
    ("notebookread", "read"),
    ("ls", "read"),
    ("shell", "bash"),
];
/// A subagent that has only these tools changes nothing.
const READING: [&str; 6] = ["read", "grep", "glob", "skill", "todo", "recall"];

/// Returns all kinds, those of the project first, and notes for the user.
pub(crate) fn kinds(environment: &Environment, cwd: &Path, trusted: bool) -> (Vec<Kind>, Vec<String>) {
    let root = crate::settings::project_root(cwd);
    let mut dirs = if trusted { folders(ContentKind::Agents, &root, cwd) } else { Vec::new() };
    let of_project = dirs.len();
    dirs.push(environment.config_dir.join("agents"));
    dirs.extend(environment.claude_dir().map(|dir| dir.join("agents")));
    let (mut kinds, mut warnings) = (Vec::<Kind>::new(), Vec::new());
    let paths =
        dirs.iter().enumerate().flat_map(|(at, dir)| files(dir).into_iter().map(move |path| (at, path)));
    for (at, path) in paths.take(MOST) {
        let outside = at < of_project && leads_outside(&root, &path);
        let readable = if outside {
            Err("it is a link to a file outside of the project".to_owned())
        } else {
            text(&path)
        };
        let read = readable.and_then(|text| kind(&path, &text));
        match read {
            Ok(kind) if kinds.iter().any(|known| known.name == kind.name) => {}
            Ok(kind) => kinds.push(kind),
            Err(why) => warnings.push(format!("the agent {} is left out: {why}", path.display())),
        }
    }
    for kind in Kind::built_in() {
        if !kinds.iter().any(|known| known.name == kind.name) {
            kinds.push(kind);
        }
    }
    (kinds, warnings)
}

/// Parses kinds from an object of agents by name, as an SDK sends it. Also returns notes for the user.
///
/// # Errors
///
/// Returns what is wrong with the object.
pub(crate) fn of_json(agents: &serde_json::Value) -> Result<(Vec<Kind>, Vec<String>), String> {
    let agents = agents.as_object().ok_or("an object of agents by name is expected")?;
    let (mut kinds, mut warnings) = (Vec::new(), Vec::new());
    for (name, agent) in agents {
        let text = |key: &str| agent.get(key).and_then(serde_json::Value::as_str).map(str::to_owned);
        let list = |key: &str| -> Option<Vec<String>> {
            let items = agent.get(key)?.as_array()?.iter();
            Some(items.filter_map(|item| item.as_str().map(str::to_owned)).collect())
        };
        let prompt = text("prompt").ok_or_else(|| format!("{name}: `prompt` is missing"))?;
        let named =
            list("tools").filter(|names| !names.iter().any(|name| name == "*")).map(|names| here(&names));
        let reads = |names: &Vec<String>| names.iter().all(|name| READING.contains(&name.as_str()));
        kinds.push(Kind {
            name: name.to_lowercase(),
            description: text("description").unwrap_or_default(),
            prompt: prompt.trim().to_owned(),
            read_only: named.as_ref().is_some_and(reads),
            tools: named,
            without: here(&list("disallowedTools").unwrap_or_default()),
            model: text("model").filter(|model| model != "inherit"),
        });
        for key in ["mcpServers", "hooks", "memory", "maxTurns", "permissionMode", "background", "skills"] {
            if agent.get(key).is_some_and(|value| !value.is_null()) {
                warnings.push(format!("the agent {name}: `{key}` has no effect here"));
            }
        }
    }
    Ok((kinds, warnings))
}

/// Returns the Markdown files of a folder, sorted by name.
fn files(dir: &Path) -> Vec<PathBuf> {
    let Ok(listing) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut files: Vec<PathBuf> = listing
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "md") && path.is_file())
        .collect();
    files.sort();
    files
}

fn text(path: &Path) -> Result<String, String> {
    becket_files::read_text(path, BYTES).map_err(|error| match error.kind() {
        std::io::ErrorKind::FileTooLarge => format!("it is larger than {} kB", BYTES / 1024),
        _ => format!("it cannot be read ({error})"),
    })
}

fn kind(path: &Path, text: &str) -> Result<Kind, String> {
    let (head, body) =
        Head::of(text).ok_or("it does not begin with frontmatter (`---`, name, description)")??;
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let name = head.text("name").unwrap_or(stem).to_lowercase();
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    if name.is_empty() || name.chars().count() > 64 || !name.chars().all(plain) {
        return Err(format!("its name {name:?} is not 1 to 64 letters, digits, `-` and `_`"));
    }
    let named = head.words("tools").filter(|names| !names.iter().any(|name| name == "*"));
    let named = named.map(|names| here(&names));
    let reads = |names: &Vec<String>| names.iter().all(|name| READING.contains(&name.as_str()));
    Ok(Kind {
        description: head.text("description").ok_or("it has no description")?,
        prompt: body.trim().to_owned(),
        read_only: named.as_ref().is_some_and(reads),
        tools: named,
        without: here(
            &[head.words("disallowedTools").unwrap_or_default(), head.switched_off("tools")].concat(),
        ),
        model: head.text("model").filter(|model| model != "inherit"),
        name,
    })
}

/// Translates names of tools to the names here, in lower case.
fn here(names: &[String]) -> Vec<String> {
    let own = |name: &String| {
        // `Bash(git *)` names the whole tool here, since rules decide about calls.
        let name = name.split('(').next().unwrap_or_default().to_ascii_lowercase();
        let plain = name.replace('_', "");
        NAMES.iter().find(|(other, _)| *other == plain).map_or(name, |(_, own)| (*own).to_owned())
    };
    names.iter().map(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &Path, name: &str, text: &str) {
        std::fs::create_dir_all(dir).unwrap();
        std::fs::write(dir.join(name), text).unwrap();
    }

    #[test]
    fn files_describe_kinds_and_the_nearest_of_a_name_counts() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::below(dir.path());
        let root = dir.path().join("project");
        write(
            &root.join(".claude/agents"),
            "a.md",
            "---\nname: Reviewer\ndescription: Use when: done\ntools: Read, Grep, WebFetch(*), mcp__x\nmodel: inherit\n---\n\nBe strict.\n",
        );
        write(
            &root.join(".becket/agents"),
            "look.md",
            "---\ndescription: d\ntools: [Read, TodoWrite]\n---\n",
        );
        write(
            &environment.config_dir.join("agents"),
            "b.md",
            "---\nname: reviewer\ndescription: other\n---\n",
        );
        write(
            &environment.config_dir.join("agents"),
            "c.md",
            "---\nname: explore\ndescription: mine\nmodel: fast\ndisallowedTools: Bash\n---\n",
        );
        write(&environment.config_dir.join("agents"), "notes.txt", "no agent");

        let (kinds, warnings) = kinds(&environment, &root, true);
        assert_eq!(warnings, Vec::<String>::new());
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
        assert_eq!(names, ["look", "reviewer", "explore", "general"]);
        assert_eq!(kinds[0].tools.as_deref().unwrap(), ["read", "todo"]);
        assert!(kinds[0].read_only);
        assert_eq!(
            kinds[1],
            Kind {
                name: "reviewer".into(),
                description: "Use when: done".into(),
                prompt: "Be strict.".into(),
                tools: Some(["read", "grep", "webfetch", "mcp__x"].map(str::to_owned).to_vec()),
                ..Kind::default()
            }
        );
        assert_eq!(
            (kinds[2].model.as_deref(), kinds[2].without.clone()),
            (Some("fast"), vec!["bash".to_owned()])
        );
        assert!(!kinds[2].read_only && kinds[3].tools.is_none());

        let untrusted: Vec<String> =
            super::kinds(&environment, &root, false).0.into_iter().map(|kind| kind.description).collect();
        assert_eq!(untrusted[..2], ["other", "mine"]);
    }

    #[test]
    fn a_link_of_the_project_to_a_file_outside_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::below(dir.path());
        let root = dir.path().join("project");
        let agents = root.join(".claude/agents");
        write(dir.path(), "diary.md", "---\ndescription: private\n---\nprivate\n");
        write(&root, "shared.md", "---\ndescription: shared\n---\n");
        write(&agents, "own.md", "---\ndescription: own\n---\n");
        std::os::unix::fs::symlink("../../../diary.md", agents.join("diary.md")).unwrap();
        std::os::unix::fs::symlink("../../shared.md", agents.join("shared.md")).unwrap();
        let (found, warnings) = kinds(&environment, &root, true);
        let names: Vec<&str> = found.iter().map(|kind| kind.name.as_str()).collect();
        assert_eq!(names, ["own", "shared", "explore", "general"]);
        assert!(
            warnings.len() == 1 && warnings[0].contains("diary.md is left out: it is a link"),
            "{warnings:?}"
        );
        // In the user's own folder, links are the user's.
        let own = environment.config_dir.join("agents");
        std::fs::create_dir_all(&own).unwrap();
        std::os::unix::fs::symlink(dir.path().join("diary.md"), own.join("diary.md")).unwrap();
        assert!(kinds(&environment, &root, true).0.iter().any(|kind| kind.name == "diary"));
    }

    #[test]
    fn what_cannot_be_read_is_left_out_and_said() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::below(dir.path());
        let agents = environment.config_dir.join("agents");
        for (name, text, why) in [
            ("a.md", "no head", "does not begin with frontmatter"),
            ("b.md", "---\nname: b\n---\n", "no description"),
            ("c.md", "---\nname: b c\ndescription: d\n---\n", "its name \"b c\""),
            ("e.md", &"x".repeat(70_000), "larger than 64 kB"),
        ] {
            write(&agents, name, text);
            let (kinds, warnings) = kinds(&environment, dir.path(), true);
            assert_eq!((kinds.len(), warnings.len()), (2, 1), "{warnings:?}");
            assert!(warnings[0].contains(why), "{}", warnings[0]);
            std::fs::remove_file(agents.join(name)).unwrap();
        }
    }
}
