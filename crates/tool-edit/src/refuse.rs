//! Messages of refusals: what was found, why nothing was changed, what to do.
//!
//! Pure. Decides nothing; shows the places, or the nearest miss as a small diff.

use crate::matched::{Refusal, Tier};
use crate::scope::line_of;
use crate::subject::{Edit, Seen, Subject};
use crate::variants::{is_placeholder, looks_numbered};
use crate::{endings, nearest, normalize};
use std::fmt::Write as _;

/// Maximum number of places that a refusal lists.
const MAX_PLACES: usize = 10;

pub(crate) fn refusal_text(refusal: &Refusal, edit: &Edit, subject: &Subject<'_>) -> String {
    let name = subject.name;
    let text = &*subject.source.text;
    let line = |at: usize| line_of(text, at);
    let stale = match subject.seen {
        Seen::ChangedSince => " The file has changed since you read it: read it again.",
        Seen::Never => " You have not read the file yet: read it first.",
        Seen::Same => "",
    };
    match refusal {
        Refusal::Ambiguous { tier, at } => several(subject, *tier, at),
        Refusal::Conflict { tier, range } => {
            let diff = nearest::against(&text[range.clone()], &endings::lf(&edit.old));
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
        Refusal::Taken { at } => taken(subject, *at),
        Refusal::Missing => missing(edit, subject, stale),
    }
}

/// Returns the message for text that occurs only where another edit of the call has replaced something.
pub(crate) fn taken(subject: &Subject<'_>, at: usize) -> String {
    format!(
        "`old` is at line {} of {} only, which another edit of this call changes; nothing was changed. All edits of a call are against the file as it was: join the two.",
        line_of(&subject.source.text, at),
        subject.name
    )
}

fn several(subject: &Subject<'_>, tier: Tier, at: &[usize]) -> String {
    let text = &*subject.source.text;
    let mut shown = String::new();
    for at in at.iter().take(MAX_PLACES) {
        let start = text[..*at].rfind('\n').map_or(0, |i| i + 1);
        let line = text[start..].lines().next().unwrap_or_default();
        let _ = write!(shown, "\n{}: {}", line_of(text, *at), becket_types::cut_end(line, 160));
    }
    if at.len() > MAX_PLACES {
        let _ = write!(shown, "\n… {} more", at.len() - MAX_PLACES);
    }
    let (how, all) = match tier {
        Tier::Exact => ("`old` occurs".to_owned(), ", or set replace_all to change them all"),
        _ => (format!("`old` has no exact match, and matches {}", tier.words()), ""),
    };
    format!(
        "{how} at {} places in {}; nothing was changed. Add lines around it until it is unique{all}. Lines:{shown}",
        at.len(),
        subject.name
    )
}

fn missing(edit: &Edit, subject: &Subject<'_>, stale: &str) -> String {
    let (name, text) = (subject.name, &*subject.source.text);
    let (old, new) = (endings::lf(&edit.old), endings::lf(&edit.new));
    let applied = normalize::places(text, &new);
    if new.trim().len() > 3
        && let [range] = applied.as_slice()
    {
        return format!(
            "`old` was not found in {name}, but `new` is already there, at line {}; nothing was changed.{stale}",
            line_of(text, range.start)
        );
    }
    let mut why = String::new();
    if let Some(line) = old.lines().find(|line| is_placeholder(line) && !text.contains(line.trim())) {
        let line = becket_types::cut_end(line.trim(), 120);
        let _ =
            write!(why, " `old` has the placeholder line `{line}`: copy all lines, or edit the parts apart.");
    }
    if looks_numbered(&old) {
        why.push_str(
            " `old` or `new` has line numbers of a listing in some lines: give the text without them.",
        );
    }
    if text.is_empty() {
        why.push_str(" The file is empty: use write.");
    }
    let near = match nearest::nearest(text, &old) {
        Some(near) => {
            format!(
                " Nearest, lines {}-{}, yours (-) and the file's (+):\n{}",
                near.first, near.last, near.diff
            )
        }
        None => " Nothing similar is in it.".to_owned(),
    };
    format!("`old` was not found in {name}; nothing was changed.{stale}{why}{near}")
}
