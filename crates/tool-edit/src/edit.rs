//! The `edit` and `multi_edit` tools: pieces of a file become others, and nothing else changes.
//!
//! Model: read the bytes, find the places ([`engine`]), ask whether the model knows the file well enough for them
//! ([`stale`]), write the file ([`store`]). Several edits of a file are one write: all of them or none.

use crate::engine::{self, Edit};
use crate::file::{self, FileError};
use crate::known::Known;
use crate::{Gate, input, report, stale, store, write};
use becket_tool::{Tool, ToolEnv};
use becket_types::{Access, ToolOutput, ToolSpec};
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
}

#[derive(Debug, Deserialize)]
struct MultiInput {
    path: String,
    edits: Vec<One>,
}

#[derive(Debug, Deserialize)]
struct One {
    old: String,
    new: String,
    #[serde(default)]
    replace_all: bool,
}

/// Replaces a piece of a file.
pub struct EditTool {
    spec: ToolSpec,
    gate: Arc<Gate>,
}

impl EditTool {
    pub(crate) fn new(gate: Arc<Gate>) -> Self {
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
                    "replace_all": {"type": "boolean", "description": "Replace every exact occurrence"}
                },
                "required": ["path", "old", "new"]
            }),
        };
        Self { spec, gate }
    }
}

impl Tool for EditTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, env: &ToolEnv) -> Result<Access, String> {
        let input: Input = input::parse(&self.spec, input)?;
        input::access(env, &input.path)
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        let input = input::parse::<Input>(&self.spec, &input);
        Box::pin(self.gate.run(env, move |env| {
            let Input { path, old, new, replace_all } = input?;
            edit(&path, &[Edit { old, new, all: replace_all, ..Edit::default() }], env)
        }))
    }
}

/// Replaces several pieces of a file, or none.
pub struct MultiEditTool {
    spec: ToolSpec,
    gate: Arc<Gate>,
}

impl MultiEditTool {
    pub(crate) fn new(gate: Arc<Gate>) -> Self {
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
                    }}
                },
                "required": ["path", "edits"]
            }),
        };
        Self { spec, gate }
    }
}

impl Tool for MultiEditTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, env: &ToolEnv) -> Result<Access, String> {
        let input: MultiInput = input::parse(&self.spec, input)?;
        input::access(env, &input.path)
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        let input = input::parse::<MultiInput>(&self.spec, &input);
        Box::pin(self.gate.run(env, move |env| {
            let input = input?;
            let several = input.edits.len() > 1;
            let edits: Vec<Edit> = input
                .edits
                .into_iter()
                .enumerate()
                .map(|(i, one)| Edit {
                    old: one.old,
                    new: one.new,
                    all: one.replace_all,
                    label: if several { format!("Edit {}: ", i + 1) } else { String::new() },
                    ..Edit::default()
                })
                .collect();
            if edits.is_empty() {
                return Err("`edits` is empty: there is nothing to change.".to_owned());
            }
            edit(&input.path, &edits, env)
        }))
    }
}

fn edit(path: &str, edits: &[Edit], env: &ToolEnv) -> Result<ToolOutput, String> {
    let path = input::target(env, path)?;
    // Somebody may write between our reading and our writing; then what they wrote is read, and judged anew.
    for _ in 0..5 {
        match attempt(&path, edits, env) {
            Err(FileError::Changed) => {}
            Err(FileError::Refused(text)) => return Err(text),
            Err(FileError::Missing) => return Err(input::missing(env, &path)),
            Ok(output) => return Ok(output),
        }
    }
    Err(format!("{} is being written by somebody else; nothing was changed. Try again.", env.display(&path)))
}

fn attempt(path: &Path, edits: &[Edit], env: &ToolEnv) -> Result<ToolOutput, FileError> {
    let current = match file::read(path) {
        Err(FileError::Missing) => match edits {
            [only] if only.old.is_empty() && !only.new.is_empty() => {
                return write::create(env, path, &only.new);
            }
            _ => return Err(FileError::Missing),
        },
        other => other?,
    };
    let known = Known::of(env, path, &current.bytes);
    let name = env.display(path);
    known.with(&current.bytes, &name, |subject| {
        let plan = engine::plan(subject, edits)?;
        let drift = known.drift(subject);
        let note = stale::allow(known.seen, drift.as_ref(), &plan, &subject.source.text, &name)
            .inspect_err(|_| Known::told(env, path, &current.bytes, drift.as_ref()))?;
        let out = plan.apply(&current.bytes);
        if out == current.bytes {
            return Err(format!("The edit would leave {name} as it is; nothing was changed.").into());
        }
        store::replace(path, &out, &current)?.keep();
        known.written(env, path, &out, drift.as_ref());
        Ok(report::edited(path, subject, &plan, &out, note))
    })
}
