//! The `write` tool: replaces the whole content of a file.
//!
//! Invariants: a file that the model has not read, or that changed since, is not overwritten. An existing file keeps
//! its encoding, and CRLF or CR if all its lines end with it and the new content has no CR.

use crate::encoding::{self, Kind};
use crate::endings::{Ending, Source};
use crate::file::{self, FileError};
use crate::hunk_filter::HunkFilter;
use crate::known::KnownFile;
use crate::variants::{is_placeholder, without_fence};
use crate::{Gate, diff, input, report, stale, store};
use becket_tool::{Tool, ToolEnv};
use becket_types::{Access, FileChange, FileChangeKind, FilePreview, ToolOutput, ToolSpec};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

/// Maximum size in bytes of texts that are compared line by line.
const MAX_DIFF_BYTES: usize = 2 * 1024 * 1024;

#[derive(Debug, Deserialize)]
struct Input {
    path: String,
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
                    "path": {"type": "string"},
                    "content": {"type": "string"}
                },
                "required": ["path", "content"]
            }).into(),
        };
        Self { spec, gate }
    }
}

impl Tool for WriteTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, env: &ToolEnv) -> Result<Access, String> {
        let input: Input = input::parse(&self.spec, input)?;
        input::access(env, &input.path)
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        self.run_without(Vec::new(), input, env)
    }

    fn preview(&self, input: &Value, env: &ToolEnv) -> Vec<FilePreview> {
        crate::preview(env, |env, hunk_filter| {
            write(&input::parse::<Input>(&self.spec, input)?, env, hunk_filter)
        })
    }

    fn refusal(&self, input: &Value, env: &ToolEnv) -> Option<String> {
        crate::refusal(env, |env, hunk_filter| {
            write(&input::parse::<Input>(&self.spec, input)?, env, hunk_filter)
        })
    }

    fn run_without<'a>(
        &'a self,
        rejected: Vec<usize>,
        input: Value,
        env: &'a ToolEnv,
    ) -> BoxFuture<'a, ToolOutput> {
        let input = input::parse::<Input>(&self.spec, &input);
        Box::pin(self.gate.run(env, rejected, move |env, hunk_filter| write(&input?, env, hunk_filter)))
    }
}

fn write(input: &Input, env: &ToolEnv, hunk_filter: &mut HunkFilter) -> Result<ToolOutput, String> {
    let path = input::target(env, &input.path)?;
    let content = unfenced(&path, &input.content);
    let outcome = match file::read(&path) {
        Err(FileError::Missing) => create(env, &path, &content, hunk_filter),
        Ok(current) => overwrite(env, &path, &current, &content, hunk_filter),
        Err(error) => Err(error),
    };
    outcome.map_err(|error| match error {
        FileError::Refused(text) => text,
        FileError::Missing | FileError::Changed => format!(
            "{} was written by another program at the same time; nothing was changed. Read it, then decide.",
            env.display(&path)
        ),
    })
}

/// Creates a new file in UTF-8.
pub(crate) fn create(
    env: &ToolEnv,
    path: &Path,
    content: &str,
    hunk_filter: &mut HunkFilter,
) -> Result<ToolOutput, FileError> {
    // A new file is one hunk: all of it, or nothing.
    hunk_filter.pass(path, b"", content.as_bytes().to_vec());
    hunk_filter.ready()?;
    store::create(path, content.as_bytes(), None)?.keep();
    env.host.note_content(path, &becket_tool::sha256(content.as_bytes()), content.as_bytes().to_vec());
    let lines = content.lines().count();
    let change =
        if content.len() <= MAX_DIFF_BYTES { diff::compare("", content, 0) } else { diff::Change::default() };
    Ok(ToolOutput {
        content: format!("Created {} ({lines} lines, {} bytes).", env.display(path), content.len()),
        details: described(report::details(path, &change, "UTF-8"), true, content.len()),
        changes: vec![FileChange { path: path.to_owned(), kind: FileChangeKind::Add }],
        ..ToolOutput::default()
    })
}

fn overwrite(
    env: &ToolEnv,
    path: &Path,
    current: &file::Current,
    content: &str,
    hunk_filter: &mut HunkFilter,
) -> Result<ToolOutput, FileError> {
    let name = env.display(path);
    let view = encoding::decode(&current.bytes);
    let source = Source::new(&view.text);
    let content = match source.uniform() {
        Some(ending @ (Ending::CrLf | Ending::Cr)) if !content.contains('\r') => {
            content.replace('\n', ending.as_str())
        }
        _ => content.to_owned(),
    };
    let bytes = match view.kind {
        // A file that is not text has no encoding to keep.
        Kind::Bytes { .. } => content.clone().into_bytes(),
        _ => {
            // The file's byte order mark is kept, whether or not the model wrote one.
            let text = content.strip_prefix('\u{FEFF}').unwrap_or(&content);
            let body = view.encode(text).map_err(|c| {
                format!("{name} is in {}, which has no character {c:?}; nothing was changed. Write it without that character, or delete the file first to write it again as UTF-8.", view.name())
            })?;
            [view.mark(), &body].concat()
        }
    };
    if bytes == current.bytes {
        env.host.note_content(path, &becket_tool::sha256(&bytes), bytes.clone());
        return Ok(ToolOutput {
            content: format!("{name} has this content already; nothing was written."),
            details: described(
                report::details(path, &diff::Change::default(), view.name()),
                false,
                bytes.len(),
            ),
            original: report::original(&view),
            ..ToolOutput::default()
        });
    }
    if let Some(line) = content.lines().find(|l| is_placeholder(l) && !source.text.contains(l.trim())) {
        return Err(format!(
            "The content has the placeholder line `{}`, which would be written as it is; nothing was written. Write out all lines, or use edit.",
            becket_types::cut_end(line.trim(), 120)
        ).into());
    }
    let known = KnownFile::look_up(env, path, &current.bytes);
    if !current.bytes.is_empty() {
        let drift = known.with(&current.bytes, &name, |subject| known.changes_since_read(subject));
        stale::overwritten(known.seen, drift.as_ref(), &name)
            .inspect_err(|_| KnownFile::record(env, path, &current.bytes, drift.as_ref()))?;
    }
    let bytes = hunk_filter.pass(path, &current.bytes, bytes);
    hunk_filter.ready()?;
    store::replace(path, &bytes, current)?.keep();
    env.host.note_content(path, &becket_tool::sha256(&bytes), bytes.clone());
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
    match source.uniform() {
        Some(Ending::CrLf) => text.push_str("; kept CRLF line endings"),
        Some(Ending::Cr) => text.push_str("; kept CR line endings"),
        Some(Ending::Lf) | None => {}
    }
    Ok(ToolOutput {
        content: text + ").",
        details: described(report::details(path, &change, after.name()), false, bytes.len()),
        changes: vec![FileChange { path: path.to_owned(), kind: FileChangeKind::Update }],
        original: report::original(&view),
        ..ToolOutput::default()
    })
}

fn described(mut details: Value, created: bool, bytes: usize) -> Value {
    if let Some(map) = details.as_object_mut() {
        map.insert("created".to_owned(), json!(created));
        map.insert("bytes".to_owned(), json!(bytes));
    }
    details
}

/// Extensions of languages in which no line begins with three backticks. In their files, a fence around the
/// whole text was added by the model.
const UNFENCED: &[&str] = &[
    "rs", "py", "pyi", "c", "h", "cc", "cpp", "hpp", "go", "java", "kt", "cs", "php", "swift", "json",
    "toml", "yaml", "yml", "html", "css", "scss", "xml", "sql", "lua", "rb", "sh", "bash", "zig", "dart",
    "scala", "ini",
];

fn unfenced<'a>(path: &Path, content: &'a str) -> Cow<'a, str> {
    let code = path.extension().and_then(|e| e.to_str()).is_some_and(|e| UNFENCED.contains(&e));
    match without_fence(content).filter(|_| code) {
        Some(inside) if !inside.is_empty() => Cow::Owned(format!("{inside}\n")),
        _ => Cow::Borrowed(content),
    }
}
