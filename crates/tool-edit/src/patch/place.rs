//! Placing the hunks of a patch.
//!
//! A hunk is an edit of whole lines, located after the previous hunk and below the lines that its `@@` lines
//! name. A hunk may be above the previous one if its place is unique. Identical hunks are placed from top to
//! bottom if there are enough places. A hunk without old lines is inserted below the named line, or else at
//! the end.
//!
//! Pure; the engine finds the places.

use super::section::Hunk;
use crate::engine::{Plan, Planner};
use crate::lines::squeeze;
use crate::scope::{Scope, line_of};
use crate::subject::{Edit, Subject};

/// Converts the hunks to edits, each after the previous one. Another order is accepted only if it is certain.
pub(super) fn place(subject: &Subject<'_>, hunks: &[Hunk]) -> Result<Plan, String> {
    let text = &*subject.source.text;
    let mut planner = Planner::new(subject);
    for (i, hunk) in hunks.iter().enumerate() {
        let label =
            if hunks.len() > 1 { format!("Hunk {} of {}: ", i + 1, subject.name) } else { String::new() };
        let after = planner.end();
        if hunk.old.is_empty() && !text.is_empty() {
            let at = insertion(hunk, text, after, subject.name).map_err(|why| format!("{label}{why}"))?;
            planner.insert(at, &hunk.new)?;
            continue;
        }
        let like = hunks[i..].iter().filter(|other| is_alike(hunk, other)).count();
        let mut attempt = |after: usize| {
            let edit = as_edit(hunk, text, after, like, subject.name)?;
            planner.add(&Edit { label: label.clone(), ..edit })
        };
        // An exact place above is better than a merely similar one below.
        let exact = |from: usize| whole_line_matches(text, &hunk.old, from).len();
        let above = after > 0 && exact(after) == 0 && exact(0) == 1;
        let order = if above { [0, after] } else { [after, 0] };
        let Err(refusal) = attempt(order[0]) else { continue };
        if after == 0 {
            return Err(in_words_of_patches(&refusal));
        }
        if let Err(other) = attempt(order[1]) {
            // If the text occurs only above, at several places, report those places and not that it is missing.
            let is_above = exact(after) == 0 && exact(0) > 1;
            return Err(in_words_of_patches(if is_above { &other } else { &refusal }));
        }
    }
    Ok(planner.finish())
}

/// True if two hunks have the same old text and anchors, and neither has a line number or `*** End of File`.
fn is_alike(hunk: &Hunk, other: &Hunk) -> bool {
    let says_where = |hunk: &Hunk| hunk.line.is_some() || hunk.at_end;
    hunk.old == other.old && hunk.anchors == other.anchors && !says_where(hunk) && !says_where(other)
}

/// Returns the offsets of whole lines that equal `old`, starting at `from`, not overlapping.
fn whole_line_matches(text: &str, old: &str, from: usize) -> Vec<usize> {
    let mut end = from;
    let mut out = Vec::new();
    for range in crate::normalize::places(text, old) {
        let begins_line = range.start == 0 || text.as_bytes()[range.start - 1] == b'\n';
        if begins_line && range.start >= end {
            end = range.end;
            out.push(range.start);
        }
    }
    out
}

/// Converts a hunk with old lines to an edit. `like` is the number of hunks from this one on that are alike
/// ([`is_alike`]). If the text has that many matching places, they are used from top to bottom.
fn as_edit(hunk: &Hunk, text: &str, after: usize, like: usize, name: &str) -> Result<Edit, String> {
    if text.is_empty() && hunk.old.is_empty() {
        return Ok(Edit { new: hunk.new.clone(), ..Edit::default() });
    }
    let anchors = anchors(hunk, text, after);
    // In a header with line numbers, the text after the second `@@` was added by a program and is often cut. Without
    // numbers, the model wrote it to say where the hunk belongs.
    let binding = !hunk.anchors.is_empty() && hunk.line.is_none();
    if binding && anchors.is_empty() {
        return Err(no_header(hunk, name));
    }
    let reaches = anchors.iter().min().filter(|_| binding).map_or(0, |at| at + 1);
    let mut scope = Scope {
        whole_lines: true,
        after,
        reaches,
        anchors: anchors.clone(),
        line: hunk.line,
        at_end: hunk.at_end,
    };
    let there = |old: &str| !crate::normalize::places(text, old).is_empty();
    if !there(&hunk.old)
        && let (old, new) = with_first_blanks(hunk)
        && there(&old)
    {
        return Ok(Edit { old, new, scope, ..Edit::default() });
    }
    if binding
        && whole_line_matches(text, &hunk.old, 0).last().is_some_and(|at| at + hunk.old.len() < reaches)
    {
        return Err(format!(
            "The old text of the hunk is in {name} only above the line `@@ {}`; nothing was changed. Name a line above it, or give more context.",
            hunk.anchors.join(" @@ ")
        ));
    }
    let mut places = whole_line_matches(text, &hunk.old, after);
    if !anchors.is_empty() {
        let first = |anchor: &usize| places.iter().copied().find(|at| at >= anchor);
        places = anchors.iter().filter_map(first).collect();
        places.sort_unstable();
        places.dedup();
    }
    if like > 1 && places.len() == like {
        scope.line = places.first().map(|at| line_of(text, *at));
        scope.anchors.clear();
        scope.reaches = 0;
    }
    Ok(Edit { old: hunk.old.clone(), new: hunk.new.clone(), scope, ..Edit::default() })
}

/// Returns the offset of a hunk that only adds lines: below the named line, or else the end.
fn insertion(hunk: &Hunk, text: &str, after: usize, name: &str) -> Result<usize, String> {
    // Models often get line numbers wrong, so a number alone does not place an insertion, unless it is that of the last line or greater.
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
    if hunk.anchors.is_empty() {
        return Ok(text.len());
    }
    match anchors(hunk, text, after).as_slice() {
        [at] => Ok(text[*at..].find('\n').map_or(text.len(), |end| at + end + 1)),
        [] => Err(no_header(hunk, name)),
        several => Err(format!(
            "The line `@@ {}` occurs {} times in {name}; nothing was changed. Give context lines.",
            hunk.anchors.join(" @@ "),
            several.len()
        )),
    }
}

fn no_header(hunk: &Hunk, name: &str) -> String {
    format!(
        "The line `@@ {}` was not found in {name}; nothing was changed. Behind `@@` comes a line of the file above the change, or nothing.",
        hunk.anchors.join(" @@ ")
    )
}

/// True if most lines of a text are among the added lines. The hunk is then a new content, not an addition.
fn repeats(added: &str, text: &str) -> bool {
    let lines = |text: &str| -> std::collections::HashSet<String> {
        text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
    };
    let (added, own) = (lines(added), lines(text));
    own.len() > 1 && own.intersection(&added).count() * 2 > own.len()
}

/// Returns the hunk with a leading blank added to its context lines. It is used if the model left out the blank that
/// marks a context line, so that the parser took a blank of the indentation for it.
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

/// Returns the offsets of the lines that the last `@@` of a hunk may name, below the lines that its earlier `@@` lines name.
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
        if found.is_empty() {
            let bare = squeeze(anchor);
            let loose = |line: &str| !bare.is_empty() && squeeze(line).contains(&bare);
            found = lines().filter(|(at, line)| *at >= from && loose(line)).map(|(at, _)| at).collect();
        }
        let Some(first) = found.first() else { return Vec::new() };
        from = *first;
    }
    // If the named line also occurs after the previous hunk, only those occurrences are meant.
    let later: Vec<usize> = found.iter().copied().filter(|at| *at >= after).collect();
    if later.is_empty() { found } else { later }
}

/// Rewords a refusal of the engine for the author of a patch.
fn in_words_of_patches(refusal: &str) -> String {
    refusal.replace("`old`", "The hunk's old text").replace(
        ", or set replace_all to change them all",
        ", or put the line above it that tells them apart behind `@@ `",
    )
}
