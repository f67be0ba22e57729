//! Where the hunks of a patch go.
//!
//! Model: a hunk is an edit of whole lines, behind the hunk before it, and where several places match below what its `@@`
//! lines name. Pure; the engine finds the places.

use super::parse::Hunk;
use crate::engine::{Edit, Plan, Planner, Subject};
use crate::scope::Scope;

/// The hunks as edits, each after the one before it; out of order only where that is certain.
pub(super) fn place(subject: &Subject<'_>, hunks: &[Hunk]) -> Result<Plan, String> {
    let text = &*subject.source.text;
    let mut planner = Planner::new(subject);
    for (i, hunk) in hunks.iter().enumerate() {
        let label =
            if hunks.len() > 1 { format!("Hunk {} of {}: ", i + 1, subject.name) } else { String::new() };
        let after = planner.end();
        let edit = |after: usize| {
            as_edit(hunk, text, after, subject.name).map(|edit| Edit { label: label.clone(), ..edit })
        };
        let first = edit(after).and_then(|edit| planner.add(&edit));
        let Err(refusal) = first else { continue };
        if after == 0 || edit(0).and_then(|edit| planner.add(&edit)).is_err() {
            return Err(in_words_of_patches(&refusal));
        }
    }
    Ok(planner.finish())
}

fn as_edit(hunk: &Hunk, text: &str, after: usize, name: &str) -> Result<Edit, String> {
    let anchors = anchors(hunk, text, after);
    let scope =
        Scope { whole_lines: true, after, anchors: anchors.clone(), line: hunk.line, at_end: hunk.at_end };
    if !hunk.old.is_empty() {
        let there = |old: &str| !crate::fold::places(text, old).is_empty();
        if !there(&hunk.old)
            && let (old, new) = with_first_blanks(hunk)
            && there(&old)
        {
            return Ok(Edit { old, new, scope, ..Edit::default() });
        }
        if anchors.is_empty() && !hunk.anchors.is_empty() && crate::fold::places(text, &hunk.old).len() > 1 {
            return Err(format!(
                "The line `@@ {}` was not found in {name}; nothing was changed.",
                hunk.anchors.join(" @@ ")
            ));
        }
        return Ok(Edit { old: hunk.old.clone(), new: hunk.new.clone(), scope, ..Edit::default() });
    }
    if text.is_empty() {
        return Ok(Edit { new: hunk.new.clone(), ..Edit::default() });
    }
    // Nothing but new lines: below the line that is named, else at the end. A number alone is too often wrong.
    if hunk.line.is_some_and(|line| line < text.lines().count()) && hunk.anchors.is_empty() {
        return Err(format!(
            "A hunk of {name} only adds lines, and nothing but a line number says where; nothing was changed. Give the lines around it."
        ));
    }
    if hunk.anchors.is_empty() && repeats(&hunk.new, text) {
        return Err(format!(
            "A hunk of {name} only adds lines, and most of the file's own lines are among them: they would be there twice; nothing was changed. Give what is replaced in lines with `-`."
        ));
    }
    let at = match (anchors.as_slice(), hunk.anchors.is_empty()) {
        ([at], _) => *at,
        (_, true) => text.trim_end_matches('\n').rfind('\n').map_or(0, |i| i + 1),
        ([], false) => {
            return Err(format!(
                "The line `@@ {}` was not found in {name}; nothing was changed.",
                hunk.anchors.join(" @@ ")
            ));
        }
        (several, false) => {
            return Err(format!(
                "The line `@@ {}` occurs {} times in {name}; nothing was changed. Give context lines.",
                hunk.anchors.join(" @@ "),
                several.len()
            ));
        }
    };
    let end = match (hunk.anchors.is_empty(), text[at..].find('\n')) {
        (true, _) | (_, None) => text.len(),
        (false, Some(end)) => at + end + 1,
    };
    let old = text[at..end].to_owned();
    let new = if old.ends_with('\n') {
        format!("{old}{}", hunk.new)
    } else {
        format!("{old}\n{}", hunk.new.trim_end_matches('\n'))
    };
    let scope = Scope { after: at, anchors: vec![at], ..Scope::default() };
    Ok(Edit { old, new, scope, ..Edit::default() })
}

/// Whether most lines of a text are among those that are to be added: a new content rather than an addition.
fn repeats(added: &str, text: &str) -> bool {
    let lines = |text: &str| -> std::collections::HashSet<String> {
        text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
    };
    let (added, own) = (lines(added), lines(text));
    own.len() > 1 && own.intersection(&added).count() * 2 > own.len()
}

/// The hunk as it was meant where its context lines lack the blank that stands for their sign: then one of their
/// indentation was taken for it.
fn with_first_blanks(hunk: &Hunk) -> (String, String) {
    let (old, new): (Vec<&str>, Vec<&str>) =
        (hunk.old.split_inclusive('\n').collect(), hunk.new.split_inclusive('\n').collect());
    let (mut of_old, mut of_new) = (String::new(), String::new());
    for op in similar::capture_diff_slices(similar::Algorithm::Myers, &old, &new) {
        let (tag, at_old, at_new) = op.as_tag_tuple();
        let context = tag == similar::DiffTag::Equal;
        for (lines, out) in [(&old[at_old], &mut of_old), (&new[at_new], &mut of_new)] {
            for line in lines {
                out.push_str(if context && line.starts_with(' ') { " " } else { "" });
                out.push_str(line);
            }
        }
    }
    (of_old, of_new)
}

/// Offsets of the lines that the last `@@` of a hunk may name, below those that the others name.
fn anchors(hunk: &Hunk, text: &str, after: usize) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    let mut from = 0;
    for anchor in &hunk.anchors {
        let lines = || {
            let mut at = 0;
            text.split_inclusive('\n').map(move |line| {
                at += line.len();
                (at - line.len(), line)
            })
        };
        let equal = |line: &str| line.trim() == anchor.trim();
        let part = |line: &str| line.contains(anchor.trim());
        found = lines().filter(|(at, line)| *at >= from && equal(line)).map(|(at, _)| at).collect();
        if found.is_empty() {
            found = lines().filter(|(at, line)| *at >= from && part(line)).map(|(at, _)| at).collect();
        }
        let Some(first) = found.first() else { return Vec::new() };
        from = *first;
    }
    // A place named again further down is meant further down.
    let later: Vec<usize> = found.iter().copied().filter(|at| *at >= after).collect();
    if later.is_empty() { found } else { later }
}

/// A refusal of the engine's, as one who wrote a patch can act on it.
fn in_words_of_patches(refusal: &str) -> String {
    refusal.replace("`old`", "The hunk's old text").replace(
        ", or set replace_all to change them all",
        ", or put the line above it that tells them apart behind `@@ `",
    )
}
