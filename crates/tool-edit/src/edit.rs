//! The `edit` tool: one piece of text becomes another, and nothing else changes.
//!
//! Model: read the bytes, find the place ([`tiers`]), replace those bytes, write the file ([`file`]). What the model has
//! seen of a file decides how tolerant the search may be: a file as it was read may be matched tolerantly, any other only
//! by an exact, unique piece.

use crate::encoding::{self, Decoded, Kind};
use crate::endings::{self, Source};
use crate::file::{self, Current, FileError};
use crate::tiers::{self, Found, Refusal, Splice, Tier};
use crate::{Gate, diff, fold, hunks, nearest, resolve};
use becket_tool::{Tool, ToolEnv};
use becket_types::{Access, FileChange, FileChangeKind, ToolOutput, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Tolerant matching looks at every line; beyond this size only exact matches are tried.
const MAX_TOLERANT_BYTES: usize = 4 * 1024 * 1024;
/// Places named in a refusal.
const MAX_PLACES: usize = 10;

#[derive(Debug, Deserialize)]
struct Input {
    #[serde(alias = "file_path", alias = "filePath", alias = "filename")]
    path: String,
    #[serde(alias = "old_string", alias = "oldString", alias = "old_str", alias = "old_text")]
    old: String,
    #[serde(alias = "new_string", alias = "newString", alias = "new_str", alias = "new_text")]
    new: String,
    #[serde(default, alias = "replaceAll")]
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
            description: "Replaces `old` by `new` in a file. `old` must be copied from the file, without line numbers, with \
                enough lines around it to occur exactly once; or set `replace_all` to replace every exact occurrence. \
                Read the file first. With `old` empty, a new file is created."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "The file, absolute or relative to the working directory"},
                    "old": {"type": "string", "description": "The text to replace"},
                    "new": {"type": "string", "description": "The text to put there; different from `old`"},
                    "replace_all": {"type": "boolean", "description": "Replace all occurrences (default false)"}
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
        let input: Input = crate::parse(input)?;
        Ok(Access::write(env.path(&input.path)?))
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> futures::future::BoxFuture<'a, ToolOutput> {
        Box::pin(self.gate.run(env, move |env| {
            let outcome = crate::parse::<Input>(&input).and_then(|input| edit(&input, env));
            outcome.unwrap_or_else(ToolOutput::error)
        }))
    }
}

/// What the session knows of the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// Read or written by us, and the same since.
    Same,
    Never,
    ChangedSince,
}

fn edit(input: &Input, env: &ToolEnv) -> Result<ToolOutput, String> {
    if input.old == input.new {
        return Err("`old` and `new` are the same: there is nothing to change.".to_owned());
    }
    let path = resolve(env, &input.path)?;
    // Somebody may write between our reading and our writing; then what they wrote is read, and judged anew.
    for _ in 0..3 {
        match attempt(input, env, &path) {
            Err(FileError::Changed) => {}
            Err(FileError::Refused(text)) => return Err(text),
            Err(FileError::Missing) => return Err(crate::missing(env, &path)),
            Ok(output) => return Ok(output),
        }
    }
    Err(format!("{} is being written by somebody else; nothing was changed. Try again.", env.display(&path)))
}

fn attempt(input: &Input, env: &ToolEnv, path: &Path) -> Result<ToolOutput, FileError> {
    let current = match file::read(path) {
        Err(FileError::Missing) if input.old.is_empty() => {
            return crate::write::create(env, path, &input.new);
        }
        other => other?,
    };
    if input.old.is_empty() {
        return Err(FileError::Refused(format!(
            "`old` is empty, but {} exists. Give the text to replace, or use write for a whole new content.",
            env.display(path)
        )));
    }
    let hash = becket_tool::sha256(&current.bytes);
    let seen = match env.host.read_hash(path) {
        Some(known) if known == hash => Seen::Same,
        Some(_) => Seen::ChangedSince,
        None => Seen::Never,
    };
    let view = encoding::decode(&current.bytes);
    let plan = match view.kind {
        Kind::Bytes { .. } => plan_bytes(input, env, path, &current.bytes, &view)?,
        _ => plan_text(input, env, path, &current.bytes, &view, seen)?,
    };
    check_seen(seen, &plan, env, path)?;
    apply(env, path, &current, &view, plan, seen)
}

/// What to do to the bytes.
struct Plan {
    tier: Tier,
    /// Ranges of the file's bytes, in order, with what replaces them.
    cuts: Vec<(Range<usize>, Vec<u8>)>,
}

fn plan_bytes(
    input: &Input,
    env: &ToolEnv,
    path: &Path,
    bytes: &[u8],
    view: &Decoded<'_>,
) -> Result<Plan, FileError> {
    let name = env.display(path);
    let old = input.old.as_bytes();
    let at: Vec<usize> =
        bytes.windows(old.len()).enumerate().filter(|(_, w)| *w == old).map(|(i, _)| i).collect();
    let new = view.encode(&input.new).map_err(|c| {
        format!("{name} is not valid text in an encoding that could be recognised, so {c:?} cannot be written into it. Only ASCII can be inserted here; nothing was changed.")
    })?;
    if at.is_empty() {
        return Err(format!("`old` was not found in {name}, which is binary or damaged text: only an exact run of bytes can be replaced.").into());
    }
    if at.len() > 1 && !input.replace_all {
        return Err(format!(
            "`old` occurs {} times in {name}; give more of what is around it, or set replace_all.",
            at.len()
        )
        .into());
    }
    let mut end = 0;
    let mut cuts = Vec::new();
    for start in at {
        if start >= end {
            end = start + old.len();
            cuts.push((start..end, new.clone()));
        }
    }
    Ok(Plan { tier: Tier::Exact, cuts })
}

fn plan_text(
    input: &Input,
    env: &ToolEnv,
    path: &Path,
    bytes: &[u8],
    view: &Decoded<'_>,
    seen: Seen,
) -> Result<Plan, FileError> {
    let source = Source::new(&view.text);
    let (old, new) = (endings::lf(&input.old), endings::lf(&input.new));
    let encode = |text: &str| {
        view.encode(text).map_err(|c| {
            format!("{} is in {}, which has no character {c:?}; nothing was changed. Write it without that character, or convert the file to UTF-8 first.", env.display(path), view.name())
        })
    };
    if old == new {
        // Only line endings differ: what is asked for is taken literally.
        let at = fold::places(&view.text, &input.old);
        let [range] = at.as_slice() else {
            return Err("`old` and `new` differ in line endings only, and `old` does not occur exactly once like that.".to_owned().into());
        };
        let range = bytes_of(view, bytes, range)?;
        return Ok(Plan { tier: Tier::Exact, cuts: vec![(range, encode(&input.new)?)] });
    }
    // Replacing everything goes by exact text anyway; so does what is too large or not text.
    let strict = view.binary || source.text.len() > MAX_TOLERANT_BYTES;
    let found = match tiers::find(&source.text, &old, &new, input.replace_all) {
        Ok(found) if strict && found.tier != Tier::Exact => Err(Refusal::Missing),
        other => other,
    };
    let found = found.map_err(|refusal| refuse(&refusal, input, env, path, &source, seen))?;
    let mut cuts = Vec::with_capacity(found.splices.len());
    for Splice { range, pieces } in &found.splices {
        let text = if source.is_lf() {
            hunks::join(pieces, &[], endings::Ending::Lf)
        } else {
            hunks::join(pieces, &source.endings(range), source.near(range.end))
        };
        cuts.push((bytes_of(view, bytes, &source.raw(range))?, encode(&text)?));
    }
    let Found { tier, .. } = found;
    Ok(Plan { tier, cuts })
}

fn bytes_of(view: &Decoded<'_>, bytes: &[u8], range: &Range<usize>) -> Result<Range<usize>, FileError> {
    view.bytes_of(bytes, range).ok_or_else(|| {
        FileError::Refused(format!(
            "The place cannot be cut out of the file's encoding ({}); nothing was changed.",
            view.name()
        ))
    })
}

/// What was not seen as it is now may be changed only where the model's text is exactly and only there.
fn check_seen(seen: Seen, plan: &Plan, env: &ToolEnv, path: &Path) -> Result<(), FileError> {
    if seen == Seen::Same || (plan.tier == Tier::Exact && plan.cuts.len() == 1) {
        return Ok(());
    }
    let name = env.display(path);
    Err(FileError::Refused(match (seen, plan.tier) {
        (Seen::ChangedSince, Tier::Exact) => format!(
            "{name} has changed since you read it, and `old` occurs {} times in it now; nothing was changed. Read it again, then edit.",
            plan.cuts.len()
        ),
        (Seen::ChangedSince, tier) => format!(
            "{name} has changed since you read it, and `old` matches it only {}; nothing was changed. Read it again, then edit.",
            tier.words()
        ),
        (_, Tier::Exact) => format!(
            "{name} was not read yet, and `old` occurs {} times in it; nothing was changed. Read it first.",
            plan.cuts.len()
        ),
        (_, tier) => format!(
            "{name} was not read yet, and `old` matches it only {}; nothing was changed. Read it first.",
            tier.words()
        ),
    }))
}

fn apply(
    env: &ToolEnv,
    path: &Path,
    current: &Current,
    view: &Decoded<'_>,
    plan: Plan,
    seen: Seen,
) -> Result<ToolOutput, FileError> {
    let bytes = &current.bytes;
    let (Some((first, _)), Some((last, _))) = (plan.cuts.first(), plan.cuts.last()) else {
        return Err(FileError::Refused("Nothing to replace.".to_owned()));
    };
    let changed = first.start..last.end;
    let mut out = Vec::with_capacity(bytes.len());
    let mut done = 0;
    for (range, text) in &plan.cuts {
        out.extend_from_slice(&bytes[done..range.start]);
        out.extend_from_slice(text);
        done = range.end;
    }
    out.extend_from_slice(&bytes[done..]);
    if out == *bytes {
        return Err(FileError::Refused(format!(
            "The edit would leave {} as it is; nothing was changed.",
            env.display(path)
        )));
    }
    file::replace(path, &out, &current.stamp)?;
    // The model knows the new content only if it knew the old one.
    if seen == Seen::Same {
        env.host.note_read(path, &becket_tool::sha256(&out));
    }
    Ok(report(env, path, &out, &changed, view, &plan))
}

fn report(
    env: &ToolEnv,
    path: &Path,
    new: &[u8],
    changed: &Range<usize>,
    view: &Decoded<'_>,
    plan: &Plan,
) -> ToolOutput {
    let after = encoding::decode(new);
    let change = match (view.kind, after.kind) {
        (Kind::Utf8, Kind::Utf8) => {
            let range = changed.start - view.bom..changed.end - view.bom;
            diff::between(&view.text, &after.text, &range)
        }
        (Kind::Bytes { .. }, _) | (_, Kind::Bytes { .. }) => diff::Change::default(),
        _ => diff::compare(&view.text, &after.text, 0),
    };
    let name = env.display(path);
    let mut content = format!("Edited {name}");
    match plan.cuts.len() {
        1 => {}
        n => {
            let _ = write!(content, ", {n} places");
        }
    }
    if plan.tier != Tier::Exact {
        let _ = write!(content, "; `old` was matched {}", plan.tier.words());
    }
    if !view.is_plain() {
        let _ = write!(content, "; kept as {}", view.name());
    }
    let _ = write!(content, " (+{} −{}).\n{}", change.additions, change.deletions, change.snippet);
    ToolOutput {
        content: content.trim_end().to_owned(),
        details: json!({
            "path": path.to_string_lossy(),
            "tier": plan.tier,
            "places": plan.cuts.len(),
            "diff": change.unified,
            "additions": change.additions,
            "deletions": change.deletions,
            "encoding": view.name(),
        }),
        changes: vec![FileChange { path: path.to_owned(), kind: FileChangeKind::Update }],
        ..ToolOutput::default()
    }
}

/// A refusal in words: what is where, and what to do.
fn refuse(
    refusal: &Refusal,
    input: &Input,
    env: &ToolEnv,
    path: &Path,
    source: &Source<'_>,
    seen: Seen,
) -> String {
    let name = env.display(path);
    let text = &*source.text;
    let line = |at: usize| text[..at].bytes().filter(|b| *b == b'\n').count() + 1;
    let stale = match seen {
        Seen::ChangedSince => " The file has changed since you read it: read it again.",
        Seen::Never => " You have not read the file yet: read it first.",
        Seen::Same => "",
    };
    match refusal {
        Refusal::Ambiguous { tier, at } => {
            let lines: Vec<usize> = at.iter().map(|at| line(*at)).collect();
            let shown: Vec<String> = lines
                .iter()
                .take(MAX_PLACES)
                .map(|n| {
                    format!(
                        "{n}: {}",
                        becket_types::cut_end(text.lines().nth(n - 1).unwrap_or_default(), 160)
                    )
                })
                .collect();
            let more = lines.len().saturating_sub(MAX_PLACES);
            let rest = if more > 0 { format!("\n… {more} more") } else { String::new() };
            let how = if *tier == Tier::Exact {
                "`old` occurs".to_owned()
            } else {
                format!("`old` is nowhere exactly, and matches {}", tier.words())
            };
            let all = if *tier == Tier::Exact { ", or set replace_all to change them all" } else { "" };
            format!(
                "{how} at {} places in {name}; nothing was changed. Add lines around it until it is unique{all}. Lines:\n{}{rest}",
                lines.len(),
                shown.join("\n")
            )
        }
        Refusal::Conflict { tier, range } => {
            let near = nearest::nearest(&text[range.clone()], &input.old);
            let diff = near.map(|near| near.diff).unwrap_or_default();
            format!(
                "`old` was found {} at line {} of {name}, but the lines to change are different there; nothing was changed.{stale} Yours (-) and the file's (+):\n{diff}",
                tier.words(),
                line(range.start)
            )
        }
        Refusal::OnlySpace { at } => format!(
            "Only white space differs between `old` and `new`, and `old` matches line {} of {name} only when white space is ignored; nothing was changed. Copy `old` exactly from the file.",
            line(*at)
        ),
        Refusal::Missing => {
            let done = endings::lf(&input.new);
            let applied = fold::places(text, &done);
            if done.trim().len() > 3
                && let [range] = applied.as_slice()
            {
                return format!(
                    "`old` was not found in {name}, but `new` is already there, at line {}; nothing was changed.{stale}",
                    line(range.start)
                );
            }
            let near = match nearest::nearest(text, &endings::lf(&input.old)) {
                Some(near) => format!(
                    " Nearest, lines {}-{}, yours (-) and the file's (+):\n{}",
                    near.first, near.last, near.diff
                ),
                None => " Nothing similar is in it.".to_owned(),
            };
            format!("`old` was not found in {name}; nothing was changed.{stale}{near}")
        }
    }
}
