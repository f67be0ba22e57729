//! Finding the one place that the model means.
//!
//! Tiers go from strict to tolerant. The first tier with a match decides: exactly one match is used, several
//! are refused, and nothing is guessed. Because strict tiers come first, a tolerant one is used only if no
//! stricter one matches at all. (A uniform shift of the indentation is stricter than ignoring indentation,
//! and comes before it.)
//!
//! Invariants:
//! - Several places are replaced only by an exact match with `replace_all`.
//! - Nothing matches inside text that another edit of the call replaces ([`SearchScope`]).
//! - A tolerant match rewrites only the lines that the model changes ([`hunks`]). If those lines differ from
//!   the model's, the edit is refused.
//! - A change of white space alone needs a match that does not ignore white space.
//!
//! Works on text with `\n` endings; knows no file.

use crate::blocks;
use crate::fold::{self, places};
use crate::hunks::{self, Piece};
use crate::indent::{self, Shift};
use crate::partial;
use crate::retouch::retouch;
use crate::scope::SearchScope;
use crate::variants::{Variant, variants};
use serde::Serialize;
use std::borrow::Cow;
use std::ops::Range;

/// The tolerance of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    Exact,
    TrailingSpace,
    Indentation,
    Trimmed,
    Whitespace,
    Unicode,
    LineNumbers,
    Fence,
    Escapes,
    Anchors,
    Context,
}

impl Tier {
    /// Returns what was ignored, for the model: "matched …".
    pub fn words(self) -> &'static str {
        match self {
            Self::Exact => "exactly",
            Self::TrailingSpace => "ignoring spaces at line ends",
            Self::Indentation => "with its indentation shifted",
            Self::Trimmed => "ignoring indentation",
            Self::Whitespace => "ignoring white space",
            Self::Unicode => "ignoring Unicode forms of quotes, dashes and spaces",
            Self::LineNumbers => "without its line numbers",
            Self::Fence => "without its Markdown fence",
            Self::Escapes => "after removing extra escapes",
            Self::Anchors => "by its first and last lines",
            Self::Context => "by the lines around the change",
        }
    }
}

/// One replacement: `range` of the text becomes `pieces`, joined by line endings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Splice {
    pub range: Range<usize>,
    pub pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub tier: Tier,
    /// Splices in order, not overlapping.
    pub splices: Vec<Splice>,
}

/// The reason why nothing is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Several places match; these are their byte offsets.
    Ambiguous {
        tier: Tier,
        at: Vec<usize>,
    },
    /// The place was found, but the lines that `new` changes are different there.
    Conflict {
        tier: Tier,
        range: Range<usize>,
    },
    /// Only white space would change, but the only match ignores white space.
    OnlySpace {
        at: usize,
    },
    /// The only match is in text that another edit of the call replaces.
    Taken {
        at: usize,
    },
    Missing,
}

/// Finds the replacement of `old` by `new` in a text.
///
/// # Errors
///
/// Returns the reason if there is no single place.
pub(crate) fn find(
    search_scope: SearchScope<'_>,
    old: &str,
    new: &str,
    replace_all: bool,
) -> Result<Found, Refusal> {
    let missing = match find_free(search_scope, old, new, replace_all) {
        Err(Refusal::Missing) if !search_scope.taken.is_empty() => Refusal::Missing,
        other => return other,
    };
    match find_free(SearchScope { taken: &[], ..search_scope }, old, new, replace_all) {
        Ok(found) => Err(Refusal::Taken { at: found.splices.first().map_or(0, |s| s.range.start) }),
        Err(_) => Err(missing),
    }
}

fn find_free(
    search_scope: SearchScope<'_>,
    old: &str,
    new: &str,
    replace_all: bool,
) -> Result<Found, Refusal> {
    if let Some(found) = exact(search_scope, old, new, replace_all)? {
        return Ok(found);
    }
    // Invisible text would match everywhere.
    let unseen = |text: &str| squeeze(&fold::unicode(text).text).is_empty();
    if unseen(old) {
        return Err(Refusal::Missing);
    }
    let lines = Lines::new(search_scope);
    if let Some(found) = tolerant(&lines, old, new)? {
        return Ok(found);
    }
    for Variant { tier, old, new } in variants(old, new) {
        if unseen(&old) {
            continue;
        }
        let found = match exact(search_scope, &old, &new, false)? {
            // A line number can only have been removed from the start of a line.
            Some(found) if tier == Tier::LineNumbers && !begins_lines(search_scope.text, &found) => None,
            Some(found) => Some(found),
            None => tolerant(&lines, &old, &new)?,
        };
        if let Some(found) = found {
            return Ok(Found { tier, ..found });
        }
    }
    match blocks::anchors(&lines, old, new) {
        Err(Refusal::Missing) => blocks::context(&lines, old, new),
        other => other,
    }
}

fn begins_lines(text: &str, found: &Found) -> bool {
    let begins = |at: usize| at == 0 || text.as_bytes()[at - 1] == b'\n';
    found.splices.iter().all(|splice| begins(splice.range.start))
}

fn exact(
    search_scope: SearchScope<'_>,
    old: &str,
    new: &str,
    replace_all: bool,
) -> Result<Option<Found>, Refusal> {
    let text = search_scope.text;
    let mut at = search_scope.narrow(places(text, old));
    if replace_all {
        let mut end = 0;
        at.retain(|range| {
            let apart = range.start >= end;
            if apart {
                end = range.end;
            }
            apart
        });
    } else if at.len() > 1 {
        return Err(Refusal::Ambiguous { tier: Tier::Exact, at: at.iter().map(|r| r.start).collect() });
    }
    let splices: Vec<Splice> =
        at.into_iter().filter_map(|range| splice(text, range, old, new, Tier::Exact).ok()).collect();
    Ok((!splices.is_empty()).then_some(Found { tier: Tier::Exact, splices }))
}

/// A text, split into lines.
pub(crate) struct Lines<'a> {
    pub text: &'a str,
    pub search_scope: SearchScope<'a>,
    /// Lines without their newlines.
    pub all: Vec<&'a str>,
    pub starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(search_scope: SearchScope<'a>) -> Self {
        let text = search_scope.text;
        let lines: Vec<&str> = text.split('\n').collect();
        let mut starts = Vec::with_capacity(lines.len());
        let mut at = 0;
        for line in &lines {
            starts.push(at);
            at += line.len() + 1;
        }
        Self { text, search_scope, all: lines, starts }
    }

    /// Returns the byte range from the start of the first to the end of the last line, without its newline.
    pub(crate) fn range(&self, lines: Range<usize>) -> Range<usize> {
        let last = lines.end - 1;
        self.starts[lines.start]..self.starts[last] + self.all[last].len()
    }

    /// Returns runs of lines that equal `wanted` after both were converted by `key`.
    pub(crate) fn find(&self, wanted: &[&str], key: fn(&str) -> Cow<'_, str>) -> Vec<Range<usize>> {
        let wanted: Vec<Cow<'_, str>> = wanted.iter().map(|line| key(line)).collect();
        let (n, total) = (wanted.len(), self.all.len());
        (0..(total + 1).saturating_sub(n))
            .filter(|i| (0..n).all(|k| key(self.all[i + k]) == wanted[k]))
            .map(|i| i..i + n)
            .collect()
    }
}

impl Lines<'_> {
    /// Returns those runs of lines that may be matched.
    pub(crate) fn free(&self, hits: Vec<Range<usize>>) -> Vec<Range<usize>> {
        if hits.is_empty() {
            return hits;
        }
        let left = self.search_scope.narrow(hits.iter().map(|hit| self.range(hit.clone())).collect());
        hits.into_iter().filter(|hit| left.contains(&self.range(hit.clone()))).collect()
    }
}

fn trim_end(line: &str) -> Cow<'_, str> {
    Cow::Borrowed(line.trim_end())
}

pub(crate) fn trim(line: &str) -> Cow<'_, str> {
    Cow::Borrowed(line.trim())
}

fn plain(line: &str) -> Cow<'_, str> {
    if line.is_ascii() {
        return trim(line);
    }
    Cow::Owned(fold::unicode(line).text.trim().to_owned())
}

/// Removes all white space.
pub(crate) fn squeeze(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Tries the tiers between exact and the variants.
fn tolerant(lines: &Lines<'_>, whole_old: &str, whole_new: &str) -> Result<Option<Found>, Refusal> {
    // For a comparison of whole lines, a newline at the end of both texts makes no difference.
    let (old, new) = match (whole_old.strip_suffix('\n'), whole_new.strip_suffix('\n')) {
        (Some(old), Some(new)) => (old, new),
        _ => (whole_old, whole_new),
    };
    for (tier, key) in [
        (Tier::TrailingSpace, trim_end as fn(&str) -> Cow<'_, str>),
        (Tier::Trimmed, trim),
        (Tier::Unicode, plain),
    ] {
        if tier == Tier::Unicode {
            // White space and Unicode are tried separately before both together.
            for (tier, fold) in
                [(Tier::Whitespace, fold::spaces as fn(&str) -> fold::Folded), (Tier::Unicode, fold::unicode)]
            {
                if let Some(found) = partial::folded(lines, whole_old, whole_new, tier, fold)? {
                    return Ok(Some(found));
                }
            }
        }
        let shared = old.len() < whole_old.len();
        if let Some(found) = by_lines(lines, (old, shared), new, tier, key)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn by_lines(
    lines: &Lines<'_>,
    (old, shared): (&str, bool),
    new: &str,
    tier: Tier,
    key: fn(&str) -> Cow<'_, str>,
) -> Result<Option<Found>, Refusal> {
    // `old` ends with its newline and `new` does not, so the newline is removed too. If both had one and
    // `old` has one more, that is a blank line, which must be in the file.
    let whole = old.strip_suffix('\n').filter(|_| !shared);
    let wanted: Vec<&str> = whole.unwrap_or(old).split('\n').collect();
    let hits = lines.free(lines.find(&wanted, key));
    let (mut tier, hits) = if tier == Tier::Trimmed {
        let shifted: Vec<Range<usize>> = hits
            .iter()
            .filter(|hit| {
                indent::shift(wanted.iter().copied().zip(lines.all[(*hit).clone()].iter().copied())).is_some()
            })
            .cloned()
            .collect();
        if shifted.is_empty() { (tier, hits) } else { (Tier::Indentation, shifted) }
    } else {
        (tier, hits)
    };
    let hit = match hits.as_slice() {
        [] => return Ok(None),
        [hit] => hit.clone(),
        several => {
            let at = several.iter().map(|hit| lines.starts[hit.start]).collect();
            return Err(Refusal::Ambiguous { tier, at });
        }
    };
    if tier == Tier::Unicode && lines.text.is_ascii() && old.is_ascii() {
        tier = Tier::Trimmed;
    }
    let mut range = lines.range(hit);
    let mut of_old = old;
    if let Some(whole) = whole {
        if range.end < lines.text.len() {
            if partial::joins(lines.text, range.end + 1, new) {
                return Ok(None);
            }
            range.end += 1;
        } else {
            of_old = whole;
        }
    }
    one(lines.text, range, of_old, new, tier).map(Some)
}

pub(crate) fn one(
    text: &str,
    range: Range<usize>,
    old: &str,
    new: &str,
    tier: Tier,
) -> Result<Found, Refusal> {
    if tier > Tier::TrailingSpace && squeeze(old) == squeeze(new) {
        return Err(Refusal::OnlySpace { at: range.start });
    }
    let new = &*fold::spelled(new, old, &text[range.clone()]);
    let conflict = Refusal::Conflict { tier, range: range.clone() };
    let splice = splice(text, range, old, new, tier).map_err(|_| conflict.clone())?;
    // Regardless of what the tier ignored, the written lines must equal the model's lines except for their
    // form.
    let lines = |all: &mut dyn Iterator<Item = &str>| -> Vec<String> {
        all.map(fold::normal).filter(|line| !line.is_empty()).collect()
    };
    if lines(&mut splice.pieces.iter().map(|piece| piece.text.as_str())) != lines(&mut new.split('\n')) {
        return Err(conflict);
    }
    if runs_together(text, &splice, new) {
        return Err(conflict);
    }
    Ok(Found { tier, splices: vec![splice] })
}

/// True if a written line would be next to the rest of a line outside the match, with white space at that end
/// that the new text does not have.
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

/// Makes the replacement. If the lines at the place correspond to those of `old`, only the changed ones are
/// written; otherwise all of `new`.
fn splice(
    text: &str,
    range: Range<usize>,
    old: &str,
    new: &str,
    tier: Tier,
) -> Result<Splice, hunks::Conflict> {
    let region: Vec<&str> = text[range.clone()].split('\n').collect();
    let (old_lines, new_lines): (Vec<&str>, Vec<&str>) =
        (old.split('\n').collect(), new.split('\n').collect());
    let same =
        |(a, b): (&&str, &&str)| a == b || squeeze(&fold::unicode(a).text) == squeeze(&fold::unicode(b).text);
    if tier == Tier::Exact || (region.len() == old_lines.len() && region.iter().zip(&old_lines).all(same)) {
        let map: Vec<Option<usize>> = (0..region.len()).map(Some).collect();
        let tier =
            if settled(&region, &old_lines, &new_lines) { tier.min(Tier::TrailingSpace) } else { tier };
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

/// For each line of `old`, returns the line of the region, if they are equal except for blank lines.
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
fn settled(file: &[&str], old: &[&str], new: &[&str]) -> bool {
    let depth = |lines: &[&str]| {
        lines.iter().find(|line| !line.trim().is_empty()).map(|line| indent::indentation(line).to_owned())
    };
    depth(new) == depth(file) && depth(old) != depth(file)
}

fn same_depth(a: &str, b: &str) -> bool {
    !b.trim().is_empty() && indent::indentation(a) == indent::indentation(b)
}

#[cfg(test)]
#[path = "tiers_tests.rs"]
mod tests;
