//! The `notebook_edit` tool: changes one cell of a Jupyter notebook and keeps every other byte of its JSON.
//!
//! The file must have been read, and must be as it was then. `cells` makes the new text, `spans` finds values in a text.

mod cells;
mod spans;

use crate::file::{self, FileError};
use crate::hunk_filter::HunkFilter;
use crate::known::KnownFile;
use crate::{Gate, diff, input, report, stale, store};
use becket_tool::{Tool, ToolEnv};
use becket_types::{Access, FileChange, FileChangeKind, FilePreview, ToolOutput, ToolSpec};
use cells::{CellKind, Notebook};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// Name of the tool that edits a notebook's cells.
pub const NOTEBOOK_EDIT: &str = "notebook_edit";

#[derive(Debug, Deserialize)]
struct Input {
    path: String,
    cell: Option<String>,
    #[serde(default)]
    source: String,
    cell_type: Option<String>,
    edit_mode: Option<String>,
}

/// Changes a cell of a notebook.
pub struct NotebookTool {
    spec: ToolSpec,
    gate: Arc<Gate>,
}

impl NotebookTool {
    pub(crate) fn new(gate: Arc<Gate>) -> Self {
        let spec = ToolSpec {
            name: NOTEBOOK_EDIT.to_owned(),
            description: "Replaces the source of a cell in a Jupyter notebook, inserts a cell after it (first without `cell`), or \
                deletes it. Read the notebook first."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "cell": {"type": "string", "description": "Id or number of the cell"},
                    "source": {"type": "string"},
                    "cell_type": {"type": "string", "enum": ["code", "markdown", "raw"]},
                    "edit_mode": {"type": "string", "enum": ["replace", "insert", "delete"]}
                },
                "required": ["path"]
            })
            .into(),
        };
        Self { spec, gate }
    }

    fn read(&self, input: &Value) -> Result<Input, String> {
        let input: Input = input::parse(&self.spec, input)?;
        if input.cell.is_none() && input.edit_mode.as_deref() != Some("insert") {
            return Err("`cell` is missing: name the cell by its id or its number.".to_owned());
        }
        Ok(input)
    }
}

impl Tool for NotebookTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, env: &ToolEnv) -> Result<Access, String> {
        input::access(env, &self.read(input)?.path)
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        self.run_without(Vec::new(), input, env)
    }

    fn preview(&self, input: &Value, env: &ToolEnv) -> Vec<FilePreview> {
        crate::preview(env, |env, hunk_filter| change(&self.read(input)?, env, hunk_filter))
    }

    fn refusal(&self, input: &Value, env: &ToolEnv) -> Option<String> {
        crate::refusal(env, |env, hunk_filter| change(&self.read(input)?, env, hunk_filter))
    }

    fn run_without<'a>(
        &'a self,
        rejected: Vec<usize>,
        input: Value,
        env: &'a ToolEnv,
    ) -> BoxFuture<'a, ToolOutput> {
        let input = self.read(&input);
        Box::pin(self.gate.run(env, rejected, move |env, hunk_filter| change(&input?, env, hunk_filter)))
    }
}

fn change(input: &Input, env: &ToolEnv, hunk_filter: &mut HunkFilter) -> Result<ToolOutput, String> {
    let path = input::target(env, &input.path)?;
    attempt(&path, input, env, hunk_filter).map_err(|error| match error {
        FileError::Refused(text) => text,
        FileError::Missing => input::missing(env, &path),
        FileError::Changed => {
            format!(
                "{} was written by another program at the same time; nothing was changed.",
                env.display(&path)
            )
        }
    })
}

fn attempt(
    path: &Path,
    input: &Input,
    env: &ToolEnv,
    hunk_filter: &mut HunkFilter,
) -> Result<ToolOutput, FileError> {
    let current = file::read(path)?;
    let name = env.display(path);
    let no_notebook = || format!("{name} is no Jupyter notebook; nothing was changed. Use edit.");
    let text = std::str::from_utf8(&current.bytes).map_err(|_| no_notebook())?;
    let notebook = Notebook::read(text).ok_or_else(no_notebook)?;
    let known = KnownFile::look_up(env, path, &current.bytes);
    let drift = known.with(&current.bytes, &name, |subject| known.changes_since_read(subject));
    stale::overwritten(known.seen, drift.as_ref(), &name)
        .inspect_err(|_| KnownFile::record(env, path, &current.bytes, drift.as_ref()))?;
    let mode = input.edit_mode.as_deref().unwrap_or("replace");
    let index = input.cell.as_deref().map(|cell| notebook.find(cell)).transpose()?;
    let kind = input.cell_type.as_deref().and_then(CellKind::from_name);
    let odd =
        || format!("cell {} of {name} has no source; nothing was changed.", index.map_or(0, |at| at + 1));
    let new = match (mode, index) {
        ("insert", after) => notebook.inserted(after, &input.source, kind.unwrap_or(CellKind::Code)),
        ("delete", Some(index)) => notebook.deleted(index).ok_or_else(odd)?,
        (_, Some(index)) => notebook.replaced(index, &input.source, kind).ok_or_else(odd)?,
        (_, None) => {
            return Err("`cell` is missing: name the cell by its id or its number.".to_owned().into());
        }
    };
    if new == text {
        return Err(format!("The edit would leave {name} as it is; nothing was changed.").into());
    }
    let bytes = hunk_filter.pass(path, &current.bytes, new.into_bytes());
    hunk_filter.ready()?;
    store::replace(path, &bytes, &current)?.keep();
    env.host.note_content(path, &becket_tool::sha256(&bytes), bytes.clone());
    let written = String::from_utf8_lossy(&bytes);
    let change = diff::compare(text, &written, 0);
    let at = match (mode, index) {
        ("insert", after) => after.map_or(0, |after| after + 1),
        (_, index) => index.unwrap_or_default(),
    };
    let mut details = report::details(path, &change, "UTF-8");
    let now = Notebook::read(&written);
    let shown = if mode == "delete" { Some(&notebook) } else { now.as_ref() };
    if let (Some(map), Some(shown)) = (details.as_object_mut(), shown) {
        let kind = shown.kind(at).unwrap_or(CellKind::Code);
        map.insert("new_source".to_owned(), json!(input.source));
        if mode != "insert" {
            map.insert("old_source".to_owned(), json!(notebook.source(at)));
        }
        map.insert("cell_id".to_owned(), json!(shown.id(at)));
        map.insert("cell_type".to_owned(), json!(kind.as_str()));
        map.insert("language".to_owned(), json!(shown.language()));
        map.insert("edit_mode".to_owned(), json!(mode));
        map.insert("notebook_path".to_owned(), json!(path.to_string_lossy()));
    }
    let what = match mode {
        "insert" => "Inserted",
        "delete" => "Deleted",
        _ => "Replaced",
    };
    Ok(ToolOutput {
        content: format!("{what} cell {} of {name} (+{} −{}).", at + 1, change.additions, change.deletions),
        details,
        changes: vec![FileChange { path: path.to_owned(), kind: FileChangeKind::Update }],
        original: Some(text.to_owned()),
        ..ToolOutput::default()
    })
}
