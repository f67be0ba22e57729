//! Renames: the server's proposed change as a plan that can be shown, permitted and applied.
//!
//! The files of a rename are known only after asking the server, but permission needs named files. A rename
//! is therefore two calls. The first one plans it and only reads. The second one writes exactly the planned
//! files, if none of them changed in the meantime.

use crate::position::{Encoding, byte_of};
use crate::replace::{read_text, replace};
use crate::server::path_of;
use async_lsp::lsp_types::Position;
use becket_tool::ToolEnv;
use becket_types::{FileChange, FileChangeKind};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Maximum number of files that one rename may change.
const MAX_FILES: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileEdit {
    pub path: PathBuf,
    pub old: String,
    pub new: String,
    pub places: usize,
    /// Number (from 1) and new text of the first changed line, as an example for the model.
    pub example: (usize, String),
}

/// Converts a workspace edit to the changed files with their new texts. Changes nothing.
///
/// # Errors
///
/// Returns a message for the model if the edit cannot be applied.
pub(crate) fn plan(edit: &Value, encoding: Encoding, env: &ToolEnv) -> Result<Vec<FileEdit>, String> {
    let mut files: BTreeMap<PathBuf, Vec<&Value>> = BTreeMap::new();
    let mut add = |uri: &str, edits: &'_ Value| -> Result<(), String> {
        let path = path_of(uri).ok_or_else(|| format!("it would change {uri}, which is no file"))?;
        let path = env.path_beyond(&path.to_string_lossy())?;
        if !env.is_inside(&path) {
            return Err(format!("it would change {}, outside the workspace", path.display()));
        }
        let _ = edits.as_array().ok_or("its edits are no list")?;
        files.entry(path).or_default();
        Ok(())
    };
    let mut lists: Vec<(&str, &Value)> = Vec::new();
    if let Some(changes) = edit.get("documentChanges").and_then(Value::as_array) {
        for change in changes {
            if let Some(kind) = change.get("kind").and_then(Value::as_str) {
                return Err(format!("it would {kind} a file, which a rename does not do here"));
            }
            let uri =
                change.pointer("/textDocument/uri").and_then(Value::as_str).ok_or("it names no file")?;
            lists.push((uri, change.get("edits").unwrap_or(&Value::Null)));
        }
    } else if let Some(changes) = edit.get("changes").and_then(Value::as_object) {
        lists.extend(changes.iter().map(|(uri, edits)| (uri.as_str(), edits)));
    }
    for (uri, edits) in &lists {
        add(uri, edits)?;
    }
    for (uri, edits) in lists {
        let path = path_of(uri).and_then(|p| env.path_beyond(&p.to_string_lossy()).ok());
        if let Some(list) = path.and_then(|p| files.get_mut(&p)) {
            list.extend(edits.as_array().into_iter().flatten());
        }
    }
    if files.len() > MAX_FILES {
        return Err(format!(
            "it would change {} files; at most {MAX_FILES} are changed at once",
            files.len()
        ));
    }
    files.retain(|_, edits| !edits.is_empty());
    files.into_iter().map(|(path, edits)| changed(path, &edits, encoding)).collect()
}

fn changed(path: PathBuf, edits: &[&Value], encoding: Encoding) -> Result<FileEdit, String> {
    let old = read_text(&path)?;
    let bad =
        || format!("its edits of {} are invalid: a position is missing, or edits overlap", path.display());
    let position = |edit: &Value, end: &str| {
        let number = |key: &str| edit.pointer(&format!("/range/{end}/{key}")).and_then(Value::as_u64);
        Some(Position::new(u32::try_from(number("line")?).ok()?, u32::try_from(number("character")?).ok()?))
    };
    let mut places = Vec::new();
    for edit in edits {
        let (start, end) = position(edit, "start").zip(position(edit, "end")).ok_or_else(bad)?;
        let text = edit.get("newText").and_then(Value::as_str).ok_or_else(bad)?;
        places.push((byte_of(&old, start, encoding), byte_of(&old, end, encoding), text));
    }
    places.sort_by_key(|(start, end, _)| (*start, *end));
    let mut new = String::with_capacity(old.len());
    let mut at = 0;
    for (start, end, text) in &places {
        if *start < at || end < start {
            return Err(bad());
        }
        new.push_str(&old[at..*start]);
        new.push_str(text);
        at = *end;
    }
    new.push_str(&old[at..]);
    let first = places.first().map_or(0, |(start, ..)| *start);
    let line = old[..first].bytes().filter(|b| *b == b'\n').count();
    let text = new.lines().nth(line).unwrap_or_default().trim().to_owned();
    Ok(FileEdit { path, old, new, places: places.len(), example: (line + 1, text) })
}

/// Writes all files of a plan or none: if one write fails, the earlier ones are reverted.
///
/// # Errors
///
/// Returns a message for the model.
pub(crate) fn apply(plan: &[FileEdit], env: &ToolEnv) -> Result<Vec<FileChange>, String> {
    for file in plan {
        if read_text(&file.path)? != file.old {
            return Err(format!(
                "{} changed since the rename was planned; nothing was changed",
                env.display(&file.path)
            ));
        }
    }
    for (done, file) in plan.iter().enumerate() {
        if let Err(why) = replace(&file.path, &file.old, &file.new) {
            let back = |f: &FileEdit| replace(&f.path, &f.new, &f.old).err().map(|_| env.display(&f.path));
            let stuck: Vec<String> = plan[..done].iter().filter_map(back).collect();
            let rest = if stuck.is_empty() {
                "nothing was changed".to_owned()
            } else {
                format!("these files stay renamed: {}", stuck.join(", "))
            };
            return Err(format!("{why}; {rest}"));
        }
    }
    for file in plan {
        // The new content counts as read by the model only if the model had read the old content.
        let known = env.host.read_hash(&file.path);
        if known.is_some_and(|hash| hash == becket_tool::sha256(file.old.as_bytes())) {
            env.host.note_read(&file.path, &becket_tool::sha256(file.new.as_bytes()));
        }
    }
    let change = |f: &FileEdit| FileChange { path: f.path.clone(), kind: FileChangeKind::Update };
    Ok(plan.iter().map(change).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_tool::testing;
    use serde_json::json;
    use url::Url;

    fn edit(line: u32, from: u32, to: u32, text: &str) -> Value {
        json!({"range": {"start": {"line": line, "character": from}, "end": {"line": line, "character": to}}, "newText": text})
    }

    #[test]
    fn a_plan_is_applied_as_it_was_shown_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let (env, host) = testing::env(dir.path());
        let (a, b) = (env.cwd.join("a"), env.cwd.join("b"));
        std::fs::write(&a, "é foo foo\r\nfoo\n").unwrap();
        std::fs::write(&b, "foo").unwrap();
        host.kept().reads.insert(a.clone(), becket_tool::sha256("é foo foo\r\nfoo\n".as_bytes()));
        let uri = |p: &PathBuf| Url::from_file_path(p).unwrap().to_string();
        let changes = json!({"changes": {
            uri(&a): [edit(1, 0, 3, "bar"), edit(0, 6, 9, "bar"), edit(0, 2, 5, "bar")], uri(&b): [edit(0, 0, 3, "bar")]}});
        let plan_a = plan(&changes, Encoding::Utf16, &env).unwrap();
        assert_eq!(plan_a[0].example, (1, "é bar bar".to_owned()));
        std::fs::write(&b, "foo!").unwrap();
        assert!(apply(&plan_a, &env).unwrap_err().contains("b changed since"));
        assert_eq!(std::fs::read_to_string(&a).unwrap(), "é foo foo\r\nfoo\n");
        std::fs::write(&b, "foo").unwrap();
        assert_eq!(apply(&plan_a, &env).unwrap().len(), 2);
        assert_eq!(std::fs::read_to_string(&a).unwrap(), "é bar bar\r\nbar\n");
        assert_eq!(std::fs::read_to_string(&b).unwrap(), "bar");
        assert_eq!(host.kept().reads[&a], becket_tool::sha256("é bar bar\r\nbar\n".as_bytes()));
        assert!(!host.kept().reads.contains_key(&b), "what was never read stays unread");
    }

    #[test]
    fn a_server_cannot_reach_out_of_the_workspace_or_do_more_than_edit() {
        let dir = tempfile::tempdir().unwrap();
        let (env, _) = testing::env(dir.path());
        std::fs::write(env.cwd.join("a"), "x").unwrap();
        let uri = Url::from_file_path(env.cwd.join("a")).unwrap().to_string();
        for (edit, want) in [
            (json!({"changes": {"file:///etc/passwd": [edit(0, 0, 1, "y")]}}), "outside the workspace"),
            (json!({"changes": {"https://a.b/": [edit(0, 0, 1, "y")]}}), "no file"),
            (json!({"documentChanges": [{"kind": "delete", "uri": uri}]}), "would delete a file"),
            (json!({"changes": {uri.clone(): 7}}), "no list"),
            (json!({"changes": {uri.clone(): [{"newText": "y"}]}}), "are invalid"),
            (json!({"changes": {uri: [edit(0, 0, 1, "y"), edit(0, 0, 1, "z")]}}), "are invalid"),
        ] {
            let why = plan(&edit, Encoding::Utf16, &env).unwrap_err();
            assert!(why.contains(want), "{why}");
        }
        assert_eq!(plan(&json!(null), Encoding::Utf16, &env).unwrap(), Vec::new());
    }
}
