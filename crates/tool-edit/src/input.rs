//! Arguments as models write them, for all tools of this crate: one parser, one list of alternative names,
//! one way to resolve a path.
//!
//! Owns leniency about paths (quotes around them, `a/` of a diff, `@` of a mention, `:12` of a compiler message). If a
//! file with the exact path exists, that path always wins. Other interpretations count only if exactly that file
//! exists.

use becket_tool::ToolEnv;
use becket_tool::input::Parser;
use becket_types::{Access, ToolSpec};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Names that other agents' tools have for the fields of this crate's tools: their name, our name.
const ALIASES: &[(&str, &str)] = &[
    ("file_path", "path"),
    ("filename", "path"),
    ("file", "path"),
    ("file_name", "path"),
    ("target_file", "path"),
    ("relative_path", "path"),
    ("absolute_path", "path"),
    ("filepath", "path"),
    ("old_string", "old"),
    ("old_str", "old"),
    ("old_text", "old"),
    ("search", "old"),
    ("find", "old"),
    ("new_string", "new"),
    ("new_str", "new"),
    ("new_text", "new"),
    ("replace", "new"),
    ("replacement", "new"),
    ("all", "replace_all"),
    ("changes", "edits"),
    ("replacements", "edits"),
    ("notebook_path", "path"),
    ("cell_id", "cell"),
    ("new_source", "source"),
    ("contents", "content"),
    ("text", "content"),
    ("file_text", "content"),
    ("code_content", "content"),
    ("input", "patch"),
    ("patch_text", "patch"),
    ("diff", "patch"),
    ("command", "patch"),
];

/// Fields of other agents' tools that have no effect here.
const IGNORED: &[&str] = &[
    "description",
    "explanation",
    "instruction",
    "instructions",
    "expected_replacements",
    "encoding",
    "reason",
];

/// Parses the arguments of a call.
///
/// # Errors
///
/// Returns a message for the model.
pub(crate) fn parse<T: DeserializeOwned>(spec: &ToolSpec, input: &Value) -> Result<T, String> {
    Parser::new(spec).aliases(ALIASES).ignore(IGNORED).parse(input)
}

/// Returns the access of a call that writes this path.
///
/// # Errors
///
/// Returns a message for the model.
pub(crate) fn access(env: &ToolEnv, path: &str) -> Result<Access, String> {
    Ok(Access::write(target(env, path)?))
}

/// Resolves a path to the file that is meant. A symbolic link inside the session's folders that leads out of them is refused.
///
/// # Errors
///
/// Returns a message for the model.
pub(crate) fn target(env: &ToolEnv, written: &str) -> Result<PathBuf, String> {
    let path = parse_path(env, written)?;
    let real = env.path(&path)?;
    let named = env.resolve(&path);
    if env.is_inside(&named) && !env.is_inside(&real) {
        return Err(format!(
            "{path} leads through a symbolic link to {}, outside of the session's directories; nothing was changed.",
            real.display()
        ));
    }
    let unseen = path.chars().any(char::is_control) || becket_tool::text::clean(&path) != path;
    if unseen && real.symlink_metadata().is_err() {
        return Err(format!(
            "`path` contains invisible characters: {}; there is no such file, and none was created. Nothing was changed.",
            becket_types::cut_end(&becket_types::invisible::escaped(&path), 200)
        ));
    }
    Ok(real)
}

/// Returns the intended path: as written if that file exists, else the only existing file among the readings without a
/// usual decoration, else the path without quotes around it.
fn parse_path(env: &ToolEnv, written: &str) -> Result<String, String> {
    let is_there = |path: &str| env.path(path).is_ok_and(|real| real.symlink_metadata().is_ok());
    if written.contains('\0') || is_there(written) {
        return Ok(written.to_owned());
    }
    let bare = strip_decoration(written);
    if bare.is_empty() {
        return Err("The path is empty.".to_owned());
    }
    if bare == "~" || bare.starts_with("~/") {
        return Err(format!("{bare}: `~` is not expanded here; give an absolute path. Nothing was changed."));
    }
    if is_there(bare) {
        return Ok(bare.to_owned());
    }
    let mut readings: Vec<String> = Vec::new();
    for prefix in ["@", "a/", "b/", "./a/", "./b/", "/"] {
        readings.extend(bare.strip_prefix(prefix).map(str::to_owned));
    }
    if !bare.contains('/') {
        readings.push(bare.replace('\\', "/"));
    }
    let line = |c: char| c.is_ascii_digit() || matches!(c, ':' | '-' | 'L' | '#');
    let unnumbered = bare.trim_end_matches(line);
    if bare[unnumbered.len()..].starts_with([':', '#']) {
        readings.push(unnumbered.to_owned());
    }
    readings.retain(|reading| !reading.is_empty() && is_there(reading));
    readings.dedup();
    Ok(match readings.as_slice() {
        [one] => one.clone(),
        _ => bare.to_owned(),
    })
}

/// Removes white space, quotes and a URL scheme around a path, which are not part of file names.
fn strip_decoration(written: &str) -> &str {
    let mut path = written.trim();
    for quote in ['"', '\'', '`'] {
        if let Some(inside) = path.strip_prefix(quote).and_then(|p| p.strip_suffix(quote)) {
            path = inside.trim();
        }
    }
    path.strip_prefix("file://").filter(|p| p.starts_with('/')).unwrap_or(path)
}

/// Returns the message for a file that does not exist.
pub(crate) fn missing(env: &ToolEnv, path: &Path) -> String {
    let near: Vec<String> = becket_tool::paths::suggestions(path).iter().map(|p| env.display(p)).collect();
    let hint = if near.is_empty() { String::new() } else { format!(" Did you mean {}?", near.join(", ")) };
    format!("{} does not exist.{hint} To create it, use write.", env.display(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_meant_by_a_path() {
        let dir = tempfile::tempdir().unwrap();
        let (env, _) = becket_tool::testing::env(dir.path());
        std::fs::create_dir_all(env.cwd.join("src/a")).unwrap();
        std::fs::create_dir_all(env.cwd.join("a")).unwrap();
        for file in ["src/main.rs", "src/a/x", "a/own", "own", "odd:12", "@at"] {
            std::fs::write(env.cwd.join(file), "").unwrap();
        }
        for (written, want) in [
            ("src/main.rs", "src/main.rs"),
            (" src/main.rs\n", "src/main.rs"),
            ("\"src/main.rs\"", "src/main.rs"),
            ("`src/main.rs`", "src/main.rs"),
            ("'src/main.rs'", "src/main.rs"),
            ("@src/main.rs", "src/main.rs"),
            ("@at", "@at"),
            ("a/src/main.rs", "src/main.rs"),
            ("b/src/main.rs", "src/main.rs"),
            ("a/own", "a/own"),
            ("b/own", "own"),
            ("/src/main.rs", "src/main.rs"),
            ("src\\main.rs", "src/main.rs"),
            ("src/main.rs:12", "src/main.rs"),
            ("src/main.rs:12:3", "src/main.rs"),
            ("src/main.rs#L4-9", "src/main.rs"),
            ("odd:12", "odd:12"),
            ("b/new.rs", "b/new.rs"),
            ("\"new.rs\"", "new.rs"),
            ("new.rs:3", "new.rs:3"),
        ] {
            assert_eq!(parse_path(&env, written).as_deref(), Ok(want), "{written:?}");
        }
        let url = format!("file://{}/own", env.cwd.display());
        assert_eq!(target(&env, &url), Ok(env.cwd.join("own")));
        assert!(target(&env, "~/x").is_err() && target(&env, " ").is_err() && target(&env, "a\0b").is_err());
    }
}
