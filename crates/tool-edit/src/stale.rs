//! Files that changed since they were read: the edits that are still allowed, and the messages.
//!
//! Either a copy of the content that the model knows is kept (within a bound), or only its hash. With the copy, an edit
//! is allowed if its lines are unchanged, and the output reports the changes elsewhere. Without it, an edit is allowed
//! only if `old` matches exactly at one place. A file that was never read is treated as if only its hash were kept.
//!
//! Pure.

use crate::diff;
use crate::encoding;
use crate::endings::Source;
use crate::engine::Plan;
use crate::matched::Tier;
use crate::subject::Seen;
use std::ops::Range;

/// Maximum size in bytes of a diff in a message.
const MAX_DIFF: usize = 3_000;

/// The differences between the content that was read and the current one.
pub(crate) struct ContentChange {
    /// Runs of lines (from 0) of the current text that are unchanged.
    same: Vec<Range<usize>>,
    diff: String,
    /// True if `diff` is not cut.
    is_diff_complete: bool,
}

impl ContentChange {
    /// Compares the two contents. `None` if they are not text.
    pub(crate) fn between(known: &[u8], current: &Source<'_>) -> Option<Self> {
        let known = encoding::decode(known);
        if matches!(known.kind, encoding::Kind::Bytes { .. }) {
            return None;
        }
        let known = Source::new(&known.text);
        let (old, new) = (&*known.text, &*current.text);
        let (old_lines, new_lines): (Vec<&str>, Vec<&str>) =
            (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
        let deadline = std::time::Instant::now() + std::time::Duration::from_millis(200);
        let ops = similar::capture_diff_slices_deadline(
            similar::Algorithm::Myers,
            &old_lines,
            &new_lines,
            Some(deadline),
        );
        let same = ops
            .iter()
            .map(|op| op.as_tag_tuple())
            .filter(|(tag, ..)| *tag == similar::DiffTag::Equal)
            .map(|(_, _, of_new)| of_new)
            .collect();
        let unified = diff::compare(old, new, 0).unified;
        let shown = becket_types::cut_end(&unified, MAX_DIFF);
        let whole = shown.len() == unified.len();
        let rest = if whole { "" } else { "\n… (the rest is not shown)" };
        Some(Self { same, diff: format!("{}{rest}", shown.trim_end()), is_diff_complete: whole })
    }

    /// True if every line of the region is unchanged, and none was inserted or removed between them.
    fn leaves_unchanged(&self, text: &str, region: &Range<usize>) -> bool {
        let first = crate::scope::line_of(text, region.start) - 1;
        let inside = text[region.clone()].trim_end_matches('\n');
        let last = first + memchr::memchr_iter(b'\n', inside.as_bytes()).count();
        self.same.iter().any(|run| run.start <= first && last < run.end)
    }

    /// True if the message shows all changes, so the model knows the file after reading it.
    pub(crate) fn shows_all_changes(&self) -> bool {
        self.is_diff_complete
    }
}

/// Decides if a plan may be carried out. Returns the text about other changes to add to the output.
///
/// # Errors
///
/// Returns a message for the model if the plan may not be carried out.
pub(crate) fn allow(
    seen: Seen,
    drift: Option<&ContentChange>,
    plan: &Plan,
    text: &str,
    name: &str,
) -> Result<Option<String>, String> {
    let strict = plan.tier() == Tier::Exact && !plan.several;
    match (seen, drift) {
        (Seen::Same, _) => Ok(None),
        (Seen::ChangedSince, Some(drift)) => {
            if plan.regions.iter().all(|region| drift.leaves_unchanged(text, region)) {
                return Ok(Some(format!("{name} has changed elsewhere since you read it:\n{}", drift.diff)));
            }
            Err(format!(
                "{name} has changed since you read it, also where this edit goes; nothing was changed. What changed:\n{}\n{}",
                drift.diff,
                if drift.is_diff_complete { "Edit what is there now." } else { "Read it again, then edit." }
            ))
        }
        (Seen::ChangedSince, None) if strict => Ok(Some(format!(
            "{name} has changed since you read it; read it again before editing more of it."
        ))),
        (Seen::Never, _) if strict => Ok(None),
        (seen, _) => {
            let (what, then) = match seen {
                Seen::Never => ("was not read yet", "Read it first."),
                _ => ("has changed since you read it", "Read it again, then edit."),
            };
            let how = match plan.tier() {
                Tier::Exact => format!("`old` occurs {} times in it", plan.places),
                tier => format!("`old` matches it only {}", tier.words()),
            };
            Err(format!("{name} {what}, and {how}; nothing was changed. {then}"))
        }
    }
}

/// Decides if the whole content may be overwritten.
///
/// # Errors
///
/// Returns a message for the model if the file must be read first.
pub(crate) fn overwritten(seen: Seen, drift: Option<&ContentChange>, name: &str) -> Result<(), String> {
    match (seen, drift) {
        (Seen::Same, _) => Ok(()),
        (Seen::ChangedSince, Some(drift)) => Err(format!(
            "{name} has changed since you read it; nothing was written. What changed:\n{}\n{}",
            drift.diff,
            if drift.is_diff_complete {
                "Write again with that in it."
            } else {
                "Read it again, then decide."
            }
        )),
        (Seen::ChangedSince, None) => Err(format!(
            "{name} has changed since you read it; nothing was written. Read it again, then decide."
        )),
        (Seen::Never, _) => Err(format!(
            "{name} exists and you have not read it; nothing was written. Read it first, or choose another name."
        )),
    }
}
