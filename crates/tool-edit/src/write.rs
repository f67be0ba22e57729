//! The `write` tool: the whole content of a file.
//!
//! Invariants: a file that the model has not read, or that changed since, is not overwritten; an existing file keeps its
//! encoding, and its line endings where they are all the same.

use crate::encoding::{self, Kind};
use crate::endings::{Ending, Source};
use crate::file::{self, FileError};
use crate::{Gate, diff, resolve};
use becket_tool::{Tool, ToolEnv};
use becket_types::{Access, FileChange, FileChangeKind, ToolOutput, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

/// Longer texts are not compared line by line.
const MAX_DIFF_BYTES: usize = 2 * 1024 * 1024;

#[derive(Debug, Deserialize)]
struct Input {
    #[serde(alias = "file_path", alias = "filePath", alias = "filename")]
    path: String,
    #[serde(alias = "contents", alias = "text", alias = "file_text")]
    content: String,
}

/// Writes a whole file.
pub struct WriteTool {
    spec: ToolSpec,
    gate: Arc<Gate>,
}

impl WriteTool {
    pub(crate) fn new(gate: Arc<Gate>) -> Self {
        let spec = ToolSpec {
            name: "write".to_owned(),
            description: "Writes a whole file and the directories above it. For a new file, or to replace all of one that you \
                have read; to change a part, use edit."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "The file, absolute or relative to the working directory"},
                    "content": {"type": "string", "description": "The whole content"}
                },
                "required": ["path", "content"]
            }),
        };
        Self { spec, gate }
    }
}

impl Tool for WriteTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, env: &ToolEnv) -> Result<Access, String> {
        let input: Input = crate::parse(input)?;
        Ok(Access::write(env.path(&input.path)?))
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> futures::future::BoxFuture<'a, ToolOutput> {
        Box::pin(self.gate.run(env, move |env| {
            let outcome = crate::parse::<Input>(&input).and_then(|input| write(&input, env));
            outcome.unwrap_or_else(ToolOutput::error)
        }))
    }
}

fn write(input: &Input, env: &ToolEnv) -> Result<ToolOutput, String> {
    let path = resolve(env, &input.path)?;
    let outcome = match file::read(&path) {
        Err(FileError::Missing) => create(env, &path, &input.content),
        Ok(current) => overwrite(env, &path, &current, &input.content),
        Err(error) => Err(error),
    };
    outcome.map_err(|error| match error {
        FileError::Refused(text) => text,
        FileError::Missing | FileError::Changed => format!(
            "{} was written by somebody else in the same moment; nothing was changed. Read it, then decide.",
            env.display(&path)
        ),
    })
}

/// A new file, as UTF-8.
pub(crate) fn create(env: &ToolEnv, path: &Path, content: &str) -> Result<ToolOutput, FileError> {
    file::create(path, content.as_bytes())?;
    env.host.note_read(path, &becket_tool::sha256(content.as_bytes()));
    let lines = content.lines().count();
    let change =
        if content.len() <= MAX_DIFF_BYTES { diff::compare("", content, 0) } else { diff::Change::default() };
    Ok(ToolOutput {
        content: format!("Created {} ({lines} lines, {} bytes).", env.display(path), content.len()),
        details: json!({
            "path": path.to_string_lossy(), "created": true, "bytes": content.len(),
            "diff": change.unified, "additions": lines, "deletions": 0, "encoding": "UTF-8",
        }),
        changes: vec![FileChange { path: path.to_owned(), kind: FileChangeKind::Add }],
        ..ToolOutput::default()
    })
}

fn overwrite(
    env: &ToolEnv,
    path: &Path,
    current: &file::Current,
    content: &str,
) -> Result<ToolOutput, FileError> {
    let name = env.display(path);
    let view = encoding::decode(&current.bytes);
    let source = Source::new(&view.text);
    let content = match source.uniform() {
        Some(Ending::CrLf) if !content.contains('\r') => content.replace('\n', "\r\n"),
        _ => content.to_owned(),
    };
    let bytes = match view.kind {
        // What is no text has no encoding to keep.
        Kind::Bytes { .. } => content.clone().into_bytes(),
        _ => {
            // The mark is the file's, whether the model wrote one or not.
            let text = content.strip_prefix('\u{FEFF}').unwrap_or(&content);
            let body = view.encode(text).map_err(|c| {
                format!("{name} is in {}, which has no character {c:?}; nothing was changed. Write it without that character, or delete the file first to write it anew as UTF-8.", view.name())
            })?;
            [view.mark(), &body].concat()
        }
    };
    let hash = becket_tool::sha256(&current.bytes);
    let known = env.host.read_hash(path);
    if bytes == current.bytes {
        env.host.note_read(path, &hash);
        return Ok(ToolOutput {
            content: format!("{name} has this content already; nothing was written."),
            details: json!({"path": path.to_string_lossy(), "created": false, "bytes": bytes.len(), "diff": "", "additions": 0, "deletions": 0}),
            ..ToolOutput::default()
        });
    }
    match known {
        _ if current.bytes.is_empty() => {}
        Some(known) if known == hash => {}
        Some(_) => return Err(format!("{name} has changed since you read it; nothing was written. Read it again, then decide.").into()),
        None => return Err(format!("{name} exists and you have not read it; nothing was written. Read it first, or choose another name.").into()),
    }
    file::replace(path, &bytes, &current.stamp)?;
    env.host.note_read(path, &becket_tool::sha256(&bytes));
    let after = encoding::decode(&bytes);
    let small = view.text.len() + after.text.len() <= MAX_DIFF_BYTES;
    let change = if small { diff::compare(&view.text, &after.text, 0) } else { diff::Change::default() };
    let mut text = format!(
        "Wrote {name} ({} lines, {} bytes; +{} −{}",
        content.lines().count(),
        bytes.len(),
        change.additions,
        change.deletions
    );
    if !view.is_plain() && !matches!(view.kind, Kind::Bytes { .. }) {
        let _ = write!(text, "; kept as {}", view.name());
    }
    if source.uniform() == Some(Ending::CrLf) {
        text.push_str("; kept CRLF line endings");
    }
    Ok(ToolOutput {
        content: text + ").",
        details: json!({
            "path": path.to_string_lossy(), "created": false, "bytes": bytes.len(), "diff": change.unified,
            "additions": change.additions, "deletions": change.deletions, "encoding": after.name(),
        }),
        changes: vec![FileChange { path: path.to_owned(), kind: FileChangeKind::Update }],
        ..ToolOutput::default()
    })
}
