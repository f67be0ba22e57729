//! The `edit` and `multi_edit` tools: they replace pieces of a file and change nothing else.
//!
//! Steps: read the bytes, find the places ([`engine`]), check that the model knows the current file well
//! enough ([`stale`]), write the file ([`store`]). Several edits of one file are a single write: all of them
//! or none.

use crate::engine;
use crate::file::{self, FileError};
use crate::hunk_filter::HunkFilter;
use crate::known::KnownFile;
use crate::subject::Edit;
use crate::{Gate, input, report, stale, store, write};
use becket_tool::{Tool, ToolEnv, sniff};
use becket_types::{Access, FilePreview, ToolOutput, ToolSpec};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

#[derive(Debug, Deserialize)]
struct Input {
    path: String,
    old: String,
    new: String,
    #[serde(default)]
    replace_all: bool,
    #[serde(default)]
    binary: bool,
}

#[derive(Debug, Deserialize)]
struct MultiInput {
    path: String,
    edits: Vec<One>,
    #[serde(default)]
    binary: bool,
}

#[derive(Debug, Deserialize)]
struct One {
    old: String,
    new: String,
    #[serde(default)]
    replace_all: bool,
}

/// The parsed call, independent of the tool's argument format.
struct Call {
    path: String,
    edits: Vec<Edit>,
}

/// A tool that replaces one or several pieces of a file, all or none.
pub struct EditTool {
    spec: ToolSpec,
    gate: Arc<Gate>,
    read: fn(&ToolSpec, &Value) -> Result<Call, String>,
}

impl EditTool {
    /// Makes the `edit` tool.
    pub(crate) fn one(gate: Arc<Gate>) -> Self {
        let spec = ToolSpec {
            name: "edit".to_owned(),
            description: "Replaces `old` by `new` in a file. Copy `old` from the file, without line numbers, with enough \
                lines around it to occur once, or set `replace_all`. Read the file first. With `old` empty, a new file \
                is created."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "old": {"type": "string"},
                    "new": {"type": "string"},
                    "replace_all": {"type": "boolean", "description": "Replace every exact occurrence"},
                    "binary": {"type": "boolean", "description": "old and new are bytes, \\xNN for one that is no text"}
                },
                "required": ["path", "old", "new"]
            }).into(),
        };
        Self { spec, gate, read: |spec, input| input::parse::<Input>(spec, input).map(Call::from) }
    }

    /// Makes the `multi_edit` tool.
    pub(crate) fn several(gate: Arc<Gate>) -> Self {
        let spec = ToolSpec {
            name: "multi_edit".to_owned(),
            description: "Several edits of one file, all or none; each against the file as it is now."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "edits": {"type": "array", "items": {
                        "type": "object",
                        "properties": {
                            "old": {"type": "string"},
                            "new": {"type": "string"},
                            "replace_all": {"type": "boolean"}
                        },
                        "required": ["old", "new"]
                    }},
                    "binary": {"type": "boolean"}
                },
                "required": ["path", "edits"]
            })
            .into(),
        };
        Self { spec, gate, read: |spec, input| input::parse::<MultiInput>(spec, input)?.try_into() }
    }
}

impl Tool for EditTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, env: &ToolEnv) -> Result<Access, String> {
        input::access(env, &(self.read)(&self.spec, input)?.path)
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        self.run_without(Vec::new(), input, env)
    }

    fn preview(&self, input: &Value, env: &ToolEnv) -> Vec<FilePreview> {
        crate::preview(env, |env, hunk_filter| (self.read)(&self.spec, input)?.apply(env, hunk_filter))
    }

    fn refusal(&self, input: &Value, env: &ToolEnv) -> Option<String> {
        crate::refusal(env, |env, hunk_filter| (self.read)(&self.spec, input)?.apply(env, hunk_filter))
    }

    fn run_without<'a>(
        &'a self,
        rejected: Vec<usize>,
        input: Value,
        env: &'a ToolEnv,
    ) -> BoxFuture<'a, ToolOutput> {
        let call = (self.read)(&self.spec, &input);
        Box::pin(self.gate.run(env, rejected, move |env, hunk_filter| call?.apply(env, hunk_filter)))
    }
}

impl From<Input> for Call {
    fn from(Input { path, old, new, replace_all, binary }: Input) -> Self {
        Self { path, edits: vec![Edit { old, new, all: replace_all, raw: binary, ..Edit::default() }] }
    }
}

impl TryFrom<MultiInput> for Call {
    type Error = String;

    fn try_from(input: MultiInput) -> Result<Self, String> {
        let several = input.edits.len() > 1;
        let labelled = |(i, one): (usize, One)| Edit {
            old: one.old,
            new: one.new,
            all: one.replace_all,
            raw: input.binary,
            label: if several { format!("Edit {}: ", i + 1) } else { String::new() },
            ..Edit::default()
        };
        let edits: Vec<Edit> = input.edits.into_iter().enumerate().map(labelled).collect();
        if edits.is_empty() {
            return Err("`edits` is empty: there is nothing to change.".to_owned());
        }
        Ok(Self { path: input.path, edits })
    }
}

impl Call {
    fn apply(self, env: &ToolEnv, hunk_filter: &mut HunkFilter) -> Result<ToolOutput, String> {
        edit(&self.path, &self.edits, env, hunk_filter)
    }
}

fn edit(
    path: &str,
    edits: &[Edit],
    env: &ToolEnv,
    hunk_filter: &mut HunkFilter,
) -> Result<ToolOutput, String> {
    let path = input::target(env, path)?;
    // Another program may write between the read and the write. Then the new content is read and everything
    // is checked again.
    for _ in 0..5 {
        hunk_filter.begin();
        match attempt(&path, edits, env, hunk_filter) {
            Err(FileError::Changed) => {}
            Err(FileError::Refused(text)) => return Err(text),
            Err(FileError::Missing) => return Err(input::missing(env, &path)),
            Ok(output) => return Ok(output),
        }
    }
    Err(format!(
        "{} is being written by another program; nothing was changed. Try again.",
        env.display(&path)
    ))
}

fn attempt(
    path: &Path,
    edits: &[Edit],
    env: &ToolEnv,
    hunk_filter: &mut HunkFilter,
) -> Result<ToolOutput, FileError> {
    let current = match file::read(path) {
        Err(FileError::Missing) => match edits {
            [only] if only.old.is_empty() && !only.new.is_empty() => {
                return write::create(env, path, &only.new, hunk_filter);
            }
            _ => return Err(FileError::Missing),
        },
        other => other?,
    };
    let known = KnownFile::look_up(env, path, &current.bytes);
    let name = env.display(path);
    if edits.iter().any(|edit| !edit.raw)
        && let Some(what) = sniff::not_text(&current.bytes, path)
    {
        return Err(format!(
            "{name} is {what}, which read does not show as text; nothing was changed. To replace exact bytes all the same, set `binary` and write a byte that is no text as `\\xNN`."
        )
        .into());
    }
    known.with(&current.bytes, &name, |subject| {
        let plan = engine::plan(subject, edits)?;
        let drift = known.changes_since_read(subject);
        let note = stale::allow(known.seen, drift.as_ref(), &plan, &subject.source.text, &name)
            .inspect_err(|_| KnownFile::record(env, path, &current.bytes, drift.as_ref()))?;
        let out = plan.apply(&current.bytes);
        if out == current.bytes {
            return Err(format!("The edit would leave {name} as it is; nothing was changed.").into());
        }
        let out = hunk_filter.pass(path, &current.bytes, out);
        hunk_filter.ready()?;
        store::replace(path, &out, &current)?.keep();
        known.written(env, path, &out, drift.as_ref());
        Ok(report::edited(path, subject, &plan, &out, note))
    })
}
