//! Makes the replacement at a place that was found: only changed lines are written, in the form of the file.
//!
//! Invariant: the written lines equal the model's lines except for their form; otherwise the edit is refused. Searches nothing.

use crate::hunks::{self, Piece};
use crate::indent::{self, Shift};
use crate::lines::squeeze;
use crate::matched::{MatchedEdit, Refusal, Splice, Tier};
use crate::normalize;
use crate::retouch::retouch;
use std::ops::Range;

pub(crate) fn match_lines(
    text: &str,
    range: Range<usize>,
    old: &str,
    new: &str,
    tier: Tier,
) -> Result<MatchedEdit, Refusal> {
    if tier > Tier::TrailingSpace && squeeze(old) == squeeze(new) {
        return Err(Refusal::OnlySpace { at: range.start });
    }
    let new = &*normalize::spelled(new, old, &text[range.clone()]);
    let conflict = Refusal::Conflict { tier, range: range.clone() };
    let splice = splice(text, range, old, new, tier).map_err(|_| conflict.clone())?;
    // Regardless of what the tier ignored, the written lines must equal the model's lines except for their
    // form.
    let lines = |all: &mut dyn Iterator<Item = &str>| -> Vec<String> {
        all.map(normalize::normal).filter(|line| !line.is_empty()).collect()
    };
    if lines(&mut splice.pieces.iter().map(|piece| piece.text.as_str())) != lines(&mut new.split('\n')) {
        return Err(conflict);
    }
    if runs_together(text, &splice, new) {
        return Err(conflict);
    }
    Ok(MatchedEdit { tier, splices: vec![splice] })
}

/// True if the first or last line of the replacement would be joined to the rest of a line outside the match, and has
/// white space at that end that the new text does not have.
fn runs_together(text: &str, splice: &Splice, new: &str) -> bool {
    let range = &splice.range;
    let last_line = text[range.clone()].matches('\n').count();
    let moved = |piece: &&Piece, from: usize| piece.kept.is_some_and(|at| at != from);
    let beside = |c: Option<char>| c.is_some_and(|c| c != '\n');
    let first = splice.pieces.first().filter(|piece| moved(piece, 0));
    let last = splice.pieces.last().filter(|piece| moved(piece, last_line));
    let (before, after) = (text[..range.start].chars().next_back(), text[range.end..].chars().next());
    // In the middle of a line, white space before a written line is not indentation, so none may be added.
    let written = splice.pieces.first().filter(|piece| piece.kept.is_none());
    let deeper = written.is_some_and(|piece| indent::indentation(&piece.text) != indent::indentation(new));
    let spaced = first.is_some_and(|piece| piece.text.starts_with(char::is_whitespace));
    (spaced || deeper) && beside(before)
        || last.is_some_and(|piece| piece.text.ends_with(char::is_whitespace)) && beside(after)
}

/// Makes the replacement. If the lines at the place correspond to those of `old`, only the changed ones are written;
/// otherwise all of `new`, except for unchanged lines at both ends.
pub(crate) fn splice(
    text: &str,
    range: Range<usize>,
    old: &str,
    new: &str,
    tier: Tier,
) -> Result<Splice, hunks::Conflict> {
    let region: Vec<&str> = text[range.clone()].split('\n').collect();
    let (old_lines, new_lines): (Vec<&str>, Vec<&str>) =
        (old.split('\n').collect(), new.split('\n').collect());
    let same = |(a, b): (&&str, &&str)| {
        a == b || squeeze(&normalize::unicode(a).text) == squeeze(&normalize::unicode(b).text)
    };
    if tier == Tier::Exact || (region.len() == old_lines.len() && region.iter().zip(&old_lines).all(same)) {
        let map: Vec<Option<usize>> = (0..region.len()).map(Some).collect();
        let tier = if is_new_text_indented(&region, &old_lines, &new_lines) {
            tier.min(Tier::TrailingSpace)
        } else {
            tier
        };
        let pieces = hunks::apply(&region, &old_lines, &new_lines, &map, writer(&region, &old_lines, tier))?;
        return Ok(Splice { range, pieces });
    }
    if let Some(map) = but_for_blank_lines(&region, &old_lines, same) {
        let (known_file, known_old): (Vec<&str>, Vec<&str>) =
            map.iter().enumerate().filter_map(|(i, at)| at.map(|at| (region[at], old_lines[i]))).unzip();
        let write = writer(&known_file, &known_old, tier);
        let pieces = hunks::apply(&region, &old_lines, &new_lines, &map, write)?;
        return Ok(Splice { range, pieces });
    }
    let line_start = text[..range.start].rfind('\n').map_or(0, |i| i + 1);
    let shift = indent::shift(std::iter::once((old_lines[0], &text[line_start..range.end])));
    let lines: Vec<String> = new_lines
        .iter()
        .enumerate()
        .map(|(i, line)| match &shift {
            Some(shift) if i > 0 || range.start == line_start => shift.apply(line),
            _ => (*line).to_owned(),
        })
        .collect();
    // Lines at both ends that do not change keep the file's bytes.
    let stays = |(region, (old, new)): (&&str, (&&str, &&str))| same((region, old)) && old == new;
    let head = region.iter().zip(old_lines.iter().zip(&new_lines)).take_while(|all| stays(*all)).count();
    let least = region.len().min(old_lines.len()).min(new_lines.len());
    let tail = region.iter().rev().zip(old_lines.iter().rev().zip(new_lines.iter().rev()));
    let tail = tail.take(least - head).take_while(|all| stays(*all)).count();
    let mut pieces: Vec<Piece> = (0..head).map(|i| Piece::kept(region[i], i)).collect();
    pieces.extend(hunks::replace(&lines[head..lines.len() - tail]));
    pieces.extend((region.len() - tail..region.len()).map(|i| Piece::kept(region[i], i)));
    Ok(Splice { range, pieces })
}

/// Returns for each line of `old` the index of its line in the region, or `None` for a blank line. The result is `None`
/// if the two differ in more than blank lines.
fn but_for_blank_lines(
    region: &[&str],
    old: &[&str],
    same: impl Fn((&&str, &&str)) -> bool,
) -> Option<Vec<Option<usize>>> {
    let blank = |line: &str| line.trim().is_empty();
    let mut at = (0..region.len()).filter(|i| !blank(region[*i]));
    let mut map = Vec::with_capacity(old.len());
    for line in old {
        map.push(if blank(line) { None } else { Some(at.next().filter(|i| same((&region[*i], line)))?) });
    }
    at.next().is_none().then_some(map)
}

/// Returns a function that converts a line of the model to the form of this file.
pub(crate) fn writer<'a>(
    region: &[&'a str],
    old: &[&'a str],
    tier: Tier,
) -> impl Fn(hunks::Written<'_>) -> Option<String> {
    let pairs: Vec<(String, String)> =
        old.iter().zip(region).map(|(old, file)| ((*old).to_owned(), (*file).to_owned())).collect();
    let shift = indent::shift(pairs.iter().map(|(old, file)| (old.as_str(), file.as_str())));
    move |written| {
        let line = match (tier, &shift) {
            (Tier::Exact | Tier::TrailingSpace, _) | (_, Some(Shift::Same)) => written.line.to_owned(),
            (_, Some(shift)) => shift.apply(written.line),
            // The lines share no common shift. A replaced line that keeps the model's depth keeps the file's
            // depth.
            (_, None) if written.replaces.is_some_and(|(old, _)| same_depth(old, written.line)) => {
                let file = written.replaces.map_or("", |(_, file)| file);
                format!("{}{}", indent::indentation(file), written.line.trim_start())
            }
            (_, None) => {
                let known: Vec<(&str, &str)> =
                    pairs.iter().map(|(old, file)| (old.as_str(), file.as_str())).collect();
                indent::follow(&known, written.line, written.around)?
            }
        };
        Some(match written.replaces {
            Some((old, file)) if tier != Tier::Exact => retouch(old, &line, file),
            _ => line,
        })
    }
}

/// True if the new text begins at the file's depth and the old text does not. The model has then already used
/// the file's indentation.
fn is_new_text_indented(file: &[&str], old: &[&str], new: &[&str]) -> bool {
    let depth = |lines: &[&str]| {
        lines.iter().find(|line| !line.trim().is_empty()).map(|line| indent::indentation(line).to_owned())
    };
    depth(new) == depth(file) && depth(old) != depth(file)
}

fn same_depth(a: &str, b: &str) -> bool {
    !b.trim().is_empty() && indent::indentation(a) == indent::indentation(b)
}
