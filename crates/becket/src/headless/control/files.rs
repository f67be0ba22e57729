//! Requests about files of the workspace: their contents, suggestions for a name, and files that the program has shown the
//! model itself.

use super::super::waits::{Completion, PendingWork};
use base64::Engine as _;
use becket_guard::{Guard, Verdict};
use becket_types::{Access, Command};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Number of bytes that `read_file` returns if the request names no number, and the maximum that it may name. A line of
/// output must stay readable for the driving program.
const READ: (u64, u64) = (256 << 10, 16 << 20);

/// Returns the contents of a file, if the rules let the model read it without a question.
pub(super) fn read(cwd: &Path, guard: &Guard, body: &Value) -> Result<Value, String> {
    let path = body.get("path").and_then(Value::as_str).ok_or("read_file needs `path`")?;
    let failed = |error: std::io::Error| format!("{path} cannot be read: {error}");
    // Rules apply to the file to which a link leads.
    let real = cwd.join(path).canonicalize().map_err(failed)?;
    let input = json!({ "path": real.to_string_lossy() });
    match guard.check("read", &Access::read(real.clone()), &input) {
        Verdict::Allow { .. } => {}
        Verdict::Ask { reason, .. } | Verdict::Deny { reason, .. } => {
            return Err(format!("{path} may not be read: {reason}"));
        }
    }
    let most = body.get("max_bytes").and_then(Value::as_u64).unwrap_or(READ.0).min(READ.1);
    let (bytes, size) = becket_files::read_start(&real, most).map_err(failed)?;
    let mut out = json!({ "absPath": real.to_string_lossy() });
    if body.get("encoding").and_then(Value::as_str) == Some("base64") {
        out["contents"] = json!(base64::engine::general_purpose::STANDARD.encode(&bytes));
        out["encoding"] = json!("base64");
    } else {
        let text = String::from_utf8_lossy(&bytes);
        out["lossy"] = json!(matches!(text, std::borrow::Cow::Owned(_)));
        out["contents"] = json!(text);
    }
    if size > bytes.len() as u64 {
        out["truncated"] = json!(true);
    }
    Ok(out)
}

/// Returns the command that marks a file as read by the model, so that it may edit the file.
pub(super) fn seed(body: &Value) -> Result<Command, String> {
    let path = body.get("path").and_then(Value::as_str).ok_or("seed_read_state needs `path`")?;
    let mtime = body.get("mtime").and_then(Value::as_f64).ok_or("seed_read_state needs `mtime`")?;
    Ok(Command::SeedRead { path: PathBuf::from(path), mtime: mtime.max(0.0) as u64 })
}

/// Looks for files whose names fit. The answer comes when the folder was listed.
pub(super) fn suggest(cwd: &Path, waits: &mut PendingWork, id: &str, body: &Value) {
    let query = body.get("query").and_then(Value::as_str).unwrap_or_default().to_owned();
    let (id, root) = (id.to_owned(), cwd.to_path_buf());
    waits.add_unordered(async move {
        let found = tokio::task::spawn_blocking(move || {
            crate::interactive::files::suggestions(&root, query.trim_start_matches('@'))
        });
        let answer = found.await.map_err(|error| format!("the folder cannot be listed: {error}"));
        let item = |path: &PathBuf| {
            let path = path.to_string_lossy();
            json!({ "id": path, "path": path, "displayText": path })
        };
        let answer = answer.map(|paths| {
            let items: Vec<Value> = paths.iter().map(item).collect();
            json!({ "suggestions": items })
        });
        Completion::Answer(id, answer)
    });
}
