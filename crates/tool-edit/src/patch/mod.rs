//! The `apply_patch` tool: changes to several files in one envelope, all of them or none.
//!
//! The patch is parsed ([`parse`]). Each file is read, and its hunks become a plan of the engine that `edit`
//! uses. Files are written only after every file has a plan. If a write fails, the earlier ones are reverted.
//!
//! A unified diff ([`unified`]) is an alternative notation for the same sections. [`place`] decides where a
//! hunk belongs.

mod parse;
mod place;
mod section;
mod unified;

use crate::file::{self, Current, FileError};
use crate::hunk_filter::HunkFilter;
use crate::known::KnownFile;
use crate::store::{self, WrittenFile};
use crate::subject::Seen;
use crate::{Gate, diff, encoding, input, report, stale};
use becket_tool::{Tool, ToolEnv};
use becket_types::{Access, Effect, FileChange, FileChangeKind, FilePreview, ToolOutput, ToolSpec};
use futures::future::BoxFuture;
use section::{Action, Hunk, Section};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use parse::parse as sections;

#[derive(Debug, Deserialize)]
struct Input {
    patch: String,
}

/// Applies a patch to files.
pub struct PatchTool {
    spec: ToolSpec,
    gate: Arc<Gate>,
}

impl PatchTool {
    pub(crate) fn new(gate: Arc<Gate>) -> Self {
        let spec = ToolSpec {
            name: "apply_patch".to_owned(),
            description: "Changes files by a patch, all or none:\n*** Begin Patch\n*** Add File: <path>\n+<line>\n\
                *** Delete File: <path>\n*** Update File: <path>\n*** Move to: <path>\n@@ <a line above, to find the place>\n \
                <context>\n-<old line>\n+<new line>\n*** End Patch\nGive three lines of context. Read files first."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"patch": {"type": "string"}},
                "required": ["patch"]
            }).into(),
        };
        Self { spec, gate }
    }

    fn patch(&self, input: &Value) -> Result<Vec<Section>, String> {
        // Some models send the patch as a string without an object, or as the last word of a command's argument list.
        let input = match input {
            Value::String(text) if text.contains("***") || text.contains("+++ ") => json!({"patch": text}),
            Value::Object(map) => match map.values().next() {
                Some(Value::Array(words)) if map.len() == 1 => {
                    json!({"patch": words.last().and_then(Value::as_str).unwrap_or_default()})
                }
                _ => input.clone(),
            },
            _ => input.clone(),
        };
        let input: Input = input::parse(&self.spec, &input)?;
        sections(&input.patch)
    }
}

impl Tool for PatchTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, env: &ToolEnv) -> Result<Access, String> {
        let mut paths = Vec::new();
        for section in self.patch(input)? {
            paths.push(input::target(env, &section.path)?);
            if let Action::Update { to: Some(to), .. } = &section.action {
                paths.push(input::target(env, to)?);
            }
        }
        paths.sort();
        paths.dedup();
        Ok(Access { effect: Effect::Write, paths, ..Access::session() })
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        self.run_without(Vec::new(), input, env)
    }

    fn preview(&self, input: &Value, env: &ToolEnv) -> Vec<FilePreview> {
        crate::preview(env, |env, hunk_filter| apply(self.patch(input)?, env, hunk_filter))
    }

    fn refusal(&self, input: &Value, env: &ToolEnv) -> Option<String> {
        crate::refusal(env, |env, hunk_filter| apply(self.patch(input)?, env, hunk_filter))
    }

    fn run_without<'a>(
        &'a self,
        rejected: Vec<usize>,
        input: Value,
        env: &'a ToolEnv,
    ) -> BoxFuture<'a, ToolOutput> {
        let input = self.patch(&input);
        Box::pin(self.gate.run(env, rejected, move |env, hunk_filter| apply(input?, env, hunk_filter)))
    }
}

/// The change to one file: its current state, its new state, and the messages.
struct Step {
    path: PathBuf,
    /// New path, if the file is moved.
    to: Option<PathBuf>,
    current: Option<Current>,
    /// New content; `None` for a deleted file.
    new: Option<Vec<u8>>,
    /// Line for the model that names the file and the size of the change: `M a.rs (+1 −2).`
    line: String,
    /// Added lines and notes for the model, shown below `line`.
    snippet: String,
    details: Value,
    /// True if the model knows the new content.
    known: bool,
    /// True if the user rejected this creation or deletion. In an update, `new` lacks the rejected hunks instead.
    rejected: bool,
}

impl Step {
    /// Applies the user's rejections. A created or deleted file is one hunk: all of it or nothing.
    fn filtered(self, hunk_filter: &mut HunkFilter) -> Self {
        let old = self.current.as_ref().map_or(&[][..], |c| &c.bytes);
        let new = self.new.clone().unwrap_or_default();
        // An empty file has no hunk that could be rejected.
        if new.is_empty() && old.is_empty() {
            return self;
        }
        let rejected = hunk_filter.pass(&self.path, old, new) == old;
        Self { rejected, ..self }
    }

    /// True if something is left to write. If every hunk of an update was rejected, nothing is.
    fn changes(&self) -> bool {
        let same = || match (&self.current, &self.new) {
            (Some(current), Some(new)) => current.bytes == *new && self.to.is_none(),
            _ => false,
        };
        !self.rejected && !same()
    }
}

fn apply(patch: Vec<Section>, env: &ToolEnv, hunk_filter: &mut HunkFilter) -> Result<ToolOutput, String> {
    let patch = joined(patch, env)?;
    for _ in 0..5 {
        hunk_filter.begin();
        let mut steps = patch
            .iter()
            .map(|(path, section)| -> Result<Step, String> {
                let step = plan(path, section, env, hunk_filter)?;
                let Some(note) = &section.note else { return Ok(step) };
                let line = format!("{}. {note}", step.line.trim_end_matches('.'));
                Ok(Step { line, ..step })
            })
            .collect::<Result<Vec<_>, _>>()?;
        distinct(&steps, env)?;
        hunk_filter.ready()?;
        steps.retain(Step::changes);
        match write(&steps) {
            Ok(()) => return Ok(done(&steps, env)),
            Err(FileError::Changed | FileError::Missing) => {}
            Err(FileError::Refused(text)) => return Err(text),
        }
    }
    Err("A file of the patch is being written by another program; nothing was changed. Try again.".to_owned())
}

/// Groups the sections by file. Several updates of one file are combined.
fn joined(patch: Vec<Section>, env: &ToolEnv) -> Result<Vec<(PathBuf, Section)>, String> {
    let mut out: Vec<(PathBuf, Section)> = Vec::new();
    for section in patch {
        let path = input::target(env, &section.path)?;
        let Some((_, before)) = out.iter_mut().find(|(other, _)| *other == path) else {
            out.push((path, section));
            continue;
        };
        before.note = before.note.take().or(section.note);
        match (&mut before.action, section.action) {
            (Action::Update { hunks, to }, Action::Update { hunks: more, to: then })
                if to.is_none() || then.is_none() =>
            {
                hunks.extend(more);
                *to = to.take().or(then);
            }
            _ => {
                return Err(format!(
                    "The patch has several sections for {}; nothing was changed. Join them.",
                    section.path
                ));
            }
        }
    }
    Ok(out)
}

/// Refuses a patch that writes one file twice.
fn distinct(steps: &[Step], env: &ToolEnv) -> Result<(), String> {
    let mut ends: Vec<&Path> = steps.iter().map(|step| step.to.as_deref().unwrap_or(&step.path)).collect();
    ends.sort();
    match ends.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            Err(format!("Two sections of the patch end in {}; nothing was changed.", env.display(pair[0])))
        }
        None => Ok(()),
    }
}

/// Returns the hunks of a section that updates a file.
pub(crate) fn hunks_of(section: &Section) -> Option<&[Hunk]> {
    match &section.action {
        Action::Update { hunks, .. } => Some(hunks),
        Action::Add(_) | Action::Delete { .. } => None,
    }
}

/// Places the hunks in the text of `subject`. Reads and writes no file.
pub(crate) fn planned(
    subject: &crate::subject::Subject<'_>,
    hunks: &[Hunk],
) -> Result<crate::engine::Plan, String> {
    place::place(subject, hunks)
}

fn words(error: FileError, path: &Path, env: &ToolEnv) -> String {
    match error {
        FileError::Refused(text) => text,
        FileError::Missing => format!(
            "{} Nothing was changed.",
            input::missing(env, path).replace(" To create it, use write.", "")
        ),
        FileError::Changed => {
            format!("{} is being written by another program; nothing was changed.", env.display(path))
        }
    }
}

fn plan(path: &Path, section: &Section, env: &ToolEnv, hunk_filter: &mut HunkFilter) -> Result<Step, String> {
    let name = env.display(path);
    match &section.action {
        Action::Add(content) => {
            let step = add(path, &name, content)?;
            Ok(step.filtered(hunk_filter))
        }
        Action::Delete { held } => {
            if env.resolve(&section.path).is_symlink() {
                return Err(format!(
                    "{} is a symbolic link; it is not deleted here. Nothing was changed.",
                    section.path
                ));
            }
            let current = file::read(path).map_err(|e| words(e, path, env))?;
            if KnownFile::look_up(env, path, &current.bytes).seen == Seen::ChangedSince {
                return Err(format!(
                    "{name} has changed since you read it; nothing was changed. Read it before you delete it."
                ));
            }
            if let Some(held) = held.as_ref().filter(|held| !same_text(held, &current.bytes)) {
                return Err(format!(
                    "The diff deletes {name} with {} lines, but the file holds other text; nothing was changed. Read it; `*** Delete File:` deletes it whatever it holds.",
                    held.lines().count()
                ));
            }
            Ok(delete(path, &name, current).filtered(hunk_filter))
        }
        Action::Update { to, hunks } => {
            let current = file::read(path).map_err(|e| words(e, path, env))?;
            let to = to.as_deref().map(|to| input::target(env, to)).transpose()?.filter(|to| to != path);
            if let Some(to) = to.as_ref().filter(|to| to.symlink_metadata().is_ok()) {
                return Err(format!(
                    "{} exists already, so {name} cannot move there; nothing was changed.",
                    env.display(to)
                ));
            }
            update(path, to, &name, current, hunks, env, hunk_filter)
        }
    }
}

fn add(path: &Path, name: &str, content: &str) -> Result<Step, String> {
    if path.symlink_metadata().is_ok_and(|meta| meta.len() > 0 || !meta.is_file() || content.is_empty()) {
        return Err(format!("{name} exists already; nothing was changed. Use `*** Update File: {name}`."));
    }
    let change = diff::compare("", content, 0);
    let step = Step {
        path: path.to_owned(),
        to: None,
        current: file::read(path).ok(),
        new: Some(content.as_bytes().to_vec()),
        line: format!("A {name} (+{})", change.additions),
        snippet: String::new(),
        details: kind(report::details(path, &change, "UTF-8"), FileChangeKind::Add),
        known: true,
        rejected: false,
    };
    Ok(step)
}

/// True if the lines are equal, ignoring line endings, white space at line ends and blank lines at the end.
fn same_text(text: &str, bytes: &[u8]) -> bool {
    let there = encoding::decode(bytes);
    text.trim_end().lines().map(str::trim_end).eq(there.text.trim_end().lines().map(str::trim_end))
}

fn delete(path: &Path, name: &str, current: Current) -> Step {
    let view = encoding::decode(&current.bytes);
    let change = diff::compare(&view.text, "", 0);
    let details = kind(report::details(path, &change, view.name()), FileChangeKind::Delete);
    let line = format!("D {name} (−{})", change.deletions);
    let path = path.to_owned();
    Step {
        path,
        to: None,
        current: Some(current),
        new: None,
        line,
        snippet: String::new(),
        details,
        known: false,
        rejected: false,
    }
}

fn update(
    path: &Path,
    to: Option<PathBuf>,
    name: &str,
    current: Current,
    hunks: &[Hunk],
    env: &ToolEnv,
    hunk_filter: &mut HunkFilter,
) -> Result<Step, String> {
    if let Some(what) = becket_tool::sniff::not_text(&current.bytes, path).filter(|_| !hunks.is_empty()) {
        return Err(format!(
            "{name} is {what}, which no patch changes; nothing was changed. Use a command, or write the whole file."
        ));
    }
    let known = KnownFile::look_up(env, path, &current.bytes);
    let made = known.with(&current.bytes, name, |subject| {
        let plan = place::place(subject, hunks)?;
        let drift = known.changes_since_read(subject);
        let note = stale::allow(known.seen, drift.as_ref(), &plan, &subject.source.text, name)
            .inspect_err(|_| KnownFile::record(env, path, &current.bytes, drift.as_ref()))?;
        let new = plan.apply(&current.bytes);
        if new == current.bytes && to.is_none() {
            return Err(format!("The patch would leave {name} as it is; nothing was changed."));
        }
        let new = hunk_filter.pass(path, &current.bytes, new);
        let change = report::change(subject, &plan, &new);
        let moved = to.as_ref().map_or(String::new(), |to| format!(" → {}", env.display(to)));
        let line = format!("M {name}{moved}{}", report::match_details(subject, &plan, &change));
        let mut details = kind(report::details(path, &change, subject.view.name()), FileChangeKind::Update);
        details["tier"] = json!(plan.tier());
        if let Some(to) = &to {
            details["to"] = json!(to.to_string_lossy());
        }
        let snippet = note.map_or(change.snippet.clone(), |note| format!("{}{note}\n", change.snippet));
        let known = known.seen == Seen::Same || drift.is_some_and(|drift| drift.shows_all_changes());
        Ok((new, line, snippet, details, known))
    });
    let (new, line, snippet, details, known) = made?;
    Ok(Step {
        path: path.to_owned(),
        to,
        current: Some(current),
        new: Some(new),
        line,
        snippet,
        details,
        known,
        rejected: false,
    })
}

fn kind(mut details: Value, kind: FileChangeKind) -> Value {
    details["kind"] = json!(kind);
    details
}

/// Writes all files. If one cannot be written, reverts the files that were already written.
fn write(steps: &[Step]) -> Result<(), FileError> {
    let mut written: Vec<WrittenFile> = Vec::new();
    let mut carry_out = || -> Result<(), FileError> {
        for step in steps {
            match (&step.current, &step.new, &step.to) {
                (Some(current), Some(new), Some(to)) => {
                    written.push(store::create(to, new, Some(&step.path))?);
                    written.push(store::delete(&step.path, current)?);
                }
                (Some(current), Some(new), None) => written.push(store::replace(&step.path, new, current)?),
                (Some(current), None, _) => written.push(store::delete(&step.path, current)?),
                (None, Some(new), _) => written.push(store::create(&step.path, new, None)?),
                (None, None, _) => {}
            }
        }
        Ok(())
    };
    let outcome = carry_out();
    let Err(error) = outcome else {
        written.into_iter().for_each(WrittenFile::keep);
        return Ok(());
    };
    let left: Vec<String> = written.into_iter().rev().filter_map(|done| done.undo().err()).collect();
    if left.is_empty() {
        return Err(error);
    }
    let why = match error {
        FileError::Refused(text) => text.replace(" Nothing was changed.", ""),
        _ => "A file was written by another program at the same time.".to_owned(),
    };
    Err(FileError::Refused(format!("{why} {}", left.join(" "))))
}

fn done(steps: &[Step], env: &ToolEnv) -> ToolOutput {
    let mut content = String::from("Patched:");
    let (mut changes, mut files) = (Vec::new(), Vec::new());
    let (mut additions, mut deletions, mut diff) = (0, 0, String::new());
    for step in steps {
        let _ = write!(content, "\n{}", step.line);
        if !step.snippet.is_empty() {
            let _ = write!(content, "\n{}", step.snippet.trim_end());
        }
        let end = step.to.as_ref().unwrap_or(&step.path);
        let change = |path: &Path, kind| FileChange { path: path.to_owned(), kind };
        match (&step.current, &step.new, &step.to) {
            (_, None, _) => changes.push(change(&step.path, FileChangeKind::Delete)),
            (_, Some(_), Some(to)) => {
                changes.push(change(&step.path, FileChangeKind::Delete));
                changes.push(change(to, FileChangeKind::Add));
            }
            (None, Some(_), None) => changes.push(change(&step.path, FileChangeKind::Add)),
            (Some(_), Some(_), None) => changes.push(change(&step.path, FileChangeKind::Update)),
        }
        if let Some(new) = step.new.as_ref().filter(|_| step.known) {
            env.host.note_content(end, &becket_tool::sha256(new), new.clone());
        }
        additions += step.details["additions"].as_u64().unwrap_or_default();
        deletions += step.details["deletions"].as_u64().unwrap_or_default();
        let _ = write!(
            diff,
            "{}\n{}",
            step.line.split(" (").next().unwrap_or_default(),
            step.details["diff"].as_str().unwrap_or_default()
        );
        files.push(step.details.clone());
    }
    ToolOutput {
        content,
        details: json!({"diff": diff, "additions": additions, "deletions": deletions, "files": files}),
        changes,
        ..ToolOutput::default()
    }
}
