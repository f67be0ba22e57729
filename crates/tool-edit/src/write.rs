//! The `write` tool: the whole content of a file.
//!
//! Invariants: a file that the model has not read, or that changed since, is not overwritten; an existing file keeps its
//! encoding, and its line endings where they are all the same.

use crate::encoding::{self, Kind};
use crate::endings::{Ending, Source};
use crate::file::{self, FileError};
use crate::known::Known;
use crate::sieve::Sieve;
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

/// Longer texts are not compared line by line.
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
        let input: Input = input::parse(&self.spec, input)?;
        input::access(env, &input.path)
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        self.run_without(Vec::new(), input, env)
    }

    fn preview(&self, input: &Value, env: &ToolEnv) -> Vec<FilePreview> {
        crate::preview(env, |env, sieve| write(&input::parse::<Input>(&self.spec, input)?, env, sieve))
    }

    fn refusal(&self, input: &Value, env: &ToolEnv) -> Option<String> {
        crate::refusal(env, |env, sieve| write(&input::parse::<Input>(&self.spec, input)?, env, sieve))
    }

    fn run_without<'a>(
        &'a self,
        rejected: Vec<usize>,
        input: Value,
        env: &'a ToolEnv,
    ) -> BoxFuture<'a, ToolOutput> {
        let input = input::parse::<Input>(&self.spec, &input);
        Box::pin(self.gate.run(env, rejected, move |env, sieve| write(&input?, env, sieve)))
    }
}

fn write(input: &Input, env: &ToolEnv, sieve: &mut Sieve) -> Result<ToolOutput, String> {
    let path = input::target(env, &input.path)?;
    let content = unfenced(&path, &input.content);
    let outcome = match file::read(&path) {
        Err(FileError::Missing) => create(env, &path, &content, sieve),
        Ok(current) => overwrite(env, &path, &current, &content, sieve),
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
pub(crate) fn create(
    env: &ToolEnv,
    path: &Path,
    content: &str,
    sieve: &mut Sieve,
) -> Result<ToolOutput, FileError> {
    // A new file is one hunk: all of it, or nothing.
    sieve.pass(path, b"", content.as_bytes().to_vec());
    sieve.ready()?;
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
    sieve: &mut Sieve,
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
    if bytes == current.bytes {
        env.host.note_content(path, &becket_tool::sha256(&bytes), bytes.clone());
        return Ok(ToolOutput {
            content: format!("{name} has this content already; nothing was written."),
            details: described(
                report::details(path, &diff::Change::default(), view.name()),
                false,
                bytes.len(),
            ),
            ..ToolOutput::default()
        });
    }
    if let Some(line) = content.lines().find(|l| is_placeholder(l) && !source.text.contains(l.trim())) {
        return Err(format!(
            "The content has the placeholder line `{}`, which would be written as it is; nothing was written. Write out all lines, or use edit.",
            becket_types::cut_end(line.trim(), 120)
        ).into());
    }
    let known = Known::of(env, path, &current.bytes);
    if !current.bytes.is_empty() {
        let drift = known.with(&current.bytes, &name, |subject| known.drift(subject));
        stale::overwritten(known.seen, drift.as_ref(), &name)
            .inspect_err(|_| Known::told(env, path, &current.bytes, drift.as_ref()))?;
    }
    let bytes = sieve.pass(path, &current.bytes, bytes);
    sieve.ready()?;
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
    if source.uniform() == Some(Ending::CrLf) {
        text.push_str("; kept CRLF line endings");
    }
    Ok(ToolOutput {
        content: text + ").",
        details: described(report::details(path, &change, after.name()), false, bytes.len()),
        changes: vec![FileChange { path: path.to_owned(), kind: FileChangeKind::Update }],
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

/// Languages in which no line begins with three back ticks: there, a fence around the whole is the model's wrapping.
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
