//! Finding the one place that the model means.
//!
//! Model: tiers from strict to tolerant. The first tier that has a place decides: exactly one place is taken, several are
//! refused, never guessed. Strict tiers come first, so a tolerant one is reached only when nothing stricter matches at
//! all. (A consistent shift of the indentation is stricter than lines compared without it, and comes before.)
//!
//! Invariants:
//! - Several places are replaced only by an exact match with `replace_all`.
//! - A tolerant match rewrites only the lines that the model changes ([`hunks`]); where those are not what the model
//!   thought, it is refused.
//! - A change of nothing but white space needs a match that does not ignore it.
//!
//! Works on text with `\n` endings; knows no file.

use crate::fold::{self, places};
use crate::hunks::{self, Piece};
use crate::indent::{self, Shift};
use serde::Serialize;
use similar::TextDiff;
use std::borrow::Cow;
use std::ops::Range;

/// How tolerant the match was.
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
    Escapes,
    Anchors,
}

impl Tier {
    /// What was ignored, for the model: "matched …".
    pub fn words(self) -> &'static str {
        match self {
            Self::Exact => "exactly",
            Self::TrailingSpace => "ignoring spaces at line ends",
            Self::Indentation => "with its indentation shifted",
            Self::Trimmed => "ignoring indentation",
            Self::Whitespace => "ignoring white space",
            Self::Unicode => "ignoring Unicode forms of quotes, dashes and spaces",
            Self::LineNumbers => "without its line numbers",
            Self::Escapes => "after removing extra escapes",
            Self::Anchors => "by its first and last lines",
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
    /// In order, not overlapping.
    pub splices: Vec<Splice>,
}

/// Why nothing is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Byte offsets of the places.
    Ambiguous {
        tier: Tier,
        at: Vec<usize>,
    },
    /// The place is found, but the lines that `new` changes are others there.
    Conflict {
        tier: Tier,
        range: Range<usize>,
    },
    /// Only white space would change, and only a match that ignores white space was found.
    OnlySpace {
        at: usize,
    },
    Missing,
}

/// The smallest share of characters in common that the block between two anchor lines needs.
const ANCHOR_FLOOR: f32 = 0.75;
/// Longer texts are not compared character by character.
const ANCHOR_MAX_LINES: usize = 400;

/// The replacement of `old` by `new` in `text`.
pub(crate) fn find(text: &str, old: &str, new: &str, replace_all: bool) -> Result<Found, Refusal> {
    if let Some(found) = exact(text, old, new, replace_all)? {
        return Ok(found);
    }
    if squeeze(old).is_empty() {
        return Err(Refusal::Missing);
    }
    let lines = Lines::new(text);
    if let Some(found) = tolerant(&lines, old, new)? {
        return Ok(found);
    }
    for (tier, old, new) in variants(old, new) {
        if squeeze(&old).is_empty() {
            continue;
        }
        let found = match exact(text, &old, &new, false)? {
            Some(found) => Some(found),
            None => tolerant(&lines, &old, &new)?,
        };
        if let Some(found) = found {
            return Ok(Found { tier, ..found });
        }
    }
    anchors(&lines, old, new)
}

fn exact(text: &str, old: &str, new: &str, replace_all: bool) -> Result<Option<Found>, Refusal> {
    let mut at = places(text, old);
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

/// A text by lines.
struct Lines<'a> {
    text: &'a str,
    /// Without their newlines.
    all: Vec<&'a str>,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        let lines: Vec<&str> = text.split('\n').collect();
        let mut starts = Vec::with_capacity(lines.len());
        let mut at = 0;
        for line in &lines {
            starts.push(at);
            at += line.len() + 1;
        }
        Self { text, all: lines, starts }
    }

    /// From the start of the first to the end of the last line, without its newline.
    fn range(&self, lines: Range<usize>) -> Range<usize> {
        let last = lines.end - 1;
        self.starts[lines.start]..self.starts[last] + self.all[last].len()
    }

    /// Runs of lines that are `wanted` under `key`.
    fn find(&self, wanted: &[&str], key: fn(&str) -> Cow<'_, str>) -> Vec<Range<usize>> {
        let wanted: Vec<Cow<'_, str>> = wanted.iter().map(|line| key(line)).collect();
        let (n, total) = (wanted.len(), self.all.len());
        (0..(total + 1).saturating_sub(n))
            .filter(|i| (0..n).all(|k| key(self.all[i + k]) == wanted[k]))
            .map(|i| i..i + n)
            .collect()
    }
}

fn trim_end(line: &str) -> Cow<'_, str> {
    Cow::Borrowed(line.trim_end())
}

fn trim(line: &str) -> Cow<'_, str> {
    Cow::Borrowed(line.trim())
}

fn plain(line: &str) -> Cow<'_, str> {
    if line.is_ascii() {
        return trim(line);
    }
    Cow::Owned(fold::unicode(line).text.trim().to_owned())
}

/// Without any white space.
fn squeeze(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// The tiers between exact and the variants.
fn tolerant(lines: &Lines<'_>, old: &str, new: &str) -> Result<Option<Found>, Refusal> {
    // A newline that both end with is no part of the question.
    let (old, new) = match (old.strip_suffix('\n'), new.strip_suffix('\n')) {
        (Some(old), Some(new)) => (old, new),
        _ => (old, new),
    };
    for (tier, key) in [
        (Tier::TrailingSpace, trim_end as fn(&str) -> Cow<'_, str>),
        (Tier::Trimmed, trim),
        (Tier::Unicode, plain),
    ] {
        if tier == Tier::Unicode {
            // White space and Unicode each alone before both together.
            for (tier, fold) in
                [(Tier::Whitespace, fold::spaces as fn(&str) -> fold::Folded), (Tier::Unicode, fold::unicode)]
            {
                if let Some(found) = folded(lines, old, new, tier, fold)? {
                    return Ok(Some(found));
                }
            }
        }
        if let Some(found) = by_lines(lines, old, new, tier, key)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn by_lines(
    lines: &Lines<'_>,
    old: &str,
    new: &str,
    tier: Tier,
    key: fn(&str) -> Cow<'_, str>,
) -> Result<Option<Found>, Refusal> {
    // `old` ends its last line and `new` does not: the newline goes too.
    let whole = old.strip_suffix('\n');
    let wanted: Vec<&str> = whole.unwrap_or(old).split('\n').collect();
    let hits = lines.find(&wanted, key);
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
            range.end += 1;
        } else {
            of_old = whole;
        }
    }
    one(lines.text, range, of_old, new, tier).map(Some)
}

/// A match in a folded form of the text, which may begin and end within lines.
fn folded(
    lines: &Lines<'_>,
    old: &str,
    new: &str,
    tier: Tier,
    fold: fn(&str) -> fold::Folded,
) -> Result<Option<Found>, Refusal> {
    if tier == Tier::Unicode && lines.text.is_ascii() && old.is_ascii() {
        return Ok(None);
    }
    let (core, becomes) = if tier == Tier::Whitespace {
        let core = old.trim();
        let becomes = if old.starts_with(char::is_whitespace) { new.trim_start() } else { new };
        (core, if old.ends_with(char::is_whitespace) { becomes.trim_end() } else { becomes })
    } else {
        (old, new)
    };
    let needle = fold(core).text;
    let mut hits = fold(lines.text).find(&needle);
    hits.retain(|hit| between_words(lines.text, hit));
    match hits.as_slice() {
        [] => Ok(None),
        [hit] => one(lines.text, hit.clone(), core, becomes, tier).map(Some),
        several => Err(Refusal::Ambiguous { tier, at: several.iter().map(|hit| hit.start).collect() }),
    }
}

/// A tolerant match does not begin or end within a word.
fn between_words(text: &str, range: &Range<usize>) -> bool {
    let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let inside = &text[range.clone()];
    let before = text[..range.start].chars().next_back();
    let after = text[range.end..].chars().next();
    let splits_first = word(before) && word(inside.chars().next());
    let splits_last = word(inside.chars().next_back()) && word(after);
    !splits_first && !splits_last
}

fn one(text: &str, range: Range<usize>, old: &str, new: &str, tier: Tier) -> Result<Found, Refusal> {
    if tier > Tier::TrailingSpace && squeeze(old) == squeeze(new) {
        return Err(Refusal::OnlySpace { at: range.start });
    }
    let splice =
        splice(text, range.clone(), old, new, tier).map_err(|_| Refusal::Conflict { tier, range })?;
    Ok(Found { tier, splices: vec![splice] })
}

/// The replacement at a place whose lines are those of `old`, one for one; or, where they are not, all of `new`.
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
        let pieces = hunks::apply(&region, &old_lines, &new_lines, &map, writer(&region, &old_lines, tier))?;
        return Ok(Splice { range, pieces });
    }
    let line_start = text[..range.start].rfind('\n').map_or(0, |i| i + 1);
    let shift = indent::shift(std::iter::once((old_lines[0], &text[line_start..range.end])));
    let lines: Vec<String> = new_lines
        .iter()
        .enumerate()
        .map(|(i, line)| match &shift {
            Some(shift) if i > 0 => shift.apply(line),
            _ => (*line).to_owned(),
        })
        .collect();
    Ok(Splice { range, pieces: hunks::replace(&lines) })
}

/// How a line of the model's is written in this file.
fn writer<'a>(region: &[&'a str], old: &[&'a str], tier: Tier) -> impl Fn(hunks::Written<'_>) -> String {
    let pairs: Vec<(String, String)> =
        old.iter().zip(region).map(|(old, file)| ((*old).to_owned(), (*file).to_owned())).collect();
    let shift = indent::shift(pairs.iter().map(|(old, file)| (old.as_str(), file.as_str())));
    move |written| {
        let line = match (tier, &shift) {
            (Tier::Exact | Tier::TrailingSpace, _) | (_, Some(Shift::Same)) => written.line.to_owned(),
            (_, Some(shift)) => shift.apply(written.line),
            // The lines share no shift: a line that stays at the model's depth stays at the file's.
            (_, None) if written.replaces.is_some_and(|(old, _)| same_depth(old, written.line)) => {
                let file = written.replaces.map_or("", |(_, file)| file);
                format!("{}{}", indent::indentation(file), written.line.trim_start())
            }
            (_, None) => {
                let known: Vec<(&str, &str)> =
                    pairs.iter().map(|(old, file)| (old.as_str(), file.as_str())).collect();
                indent::follow(&known, written.line)
            }
        };
        match written.replaces {
            Some((old, file)) if tier != Tier::Exact => hunks::retouch(old, &line, file),
            _ => line,
        }
    }
}

fn same_depth(a: &str, b: &str) -> bool {
    !b.trim().is_empty() && indent::indentation(a) == indent::indentation(b)
}

/// What the model may have meant where it copied line numbers or escaped too much: the variant's tier, `old` and `new`.
fn variants(old: &str, new: &str) -> Vec<(Tier, String, String)> {
    let mut out = Vec::new();
    if let Some(bare) = without_numbers(old) {
        let new = without_numbers(new).unwrap_or_else(|| new.to_owned());
        out.push((Tier::LineNumbers, bare, new));
    }
    let present: Vec<(&str, &str)> =
        [("\\\"", "\""), ("\\'", "'"), ("\\`", "`"), ("\\n", "\n"), ("\\t", "\t"), ("\\\\", "\\")]
            .into_iter()
            .filter(|(escape, _)| old.contains(escape))
            .collect();
    let mut sets: Vec<Vec<(&str, &str)>> = present.iter().map(|one| vec![*one]).collect();
    if present.len() > 1 {
        sets.push(present);
    }
    for set in sets {
        // Only what is escaped too much in `old` is taken out of `new`: the rest may be meant.
        out.push((Tier::Escapes, unescape(old, &set), unescape(new, &set)));
    }
    out
}

fn unescape(text: &str, set: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some((escape, plain)) = set.iter().find(|(escape, _)| rest.starts_with(escape)) {
            out.push_str(plain);
            rest = &rest[escape.len()..];
        } else {
            // A pair that stays: its second character begins no other.
            let pair = rest.char_indices().nth(2).map_or(rest.len(), |(i, _)| i);
            out.push_str(&rest[..pair]);
            rest = &rest[pair..];
        }
    }
    out + rest
}

/// The lines without the numbers that listings put in front, if every line that is not blank has one, ascending by one.
fn without_numbers(text: &str) -> Option<String> {
    let mut out = Vec::new();
    let mut last: Option<u64> = None;
    for line in text.split('\n') {
        if line.trim().is_empty() {
            out.push(line);
            continue;
        }
        let digits = line.trim_start();
        let end = digits.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0)?;
        let number: u64 = digits[..end].parse().ok()?;
        if last.is_some_and(|last| number != last + 1) {
            return None;
        }
        last = Some(number);
        let rest = &digits[end..];
        out.push(["\t", "→", "| ", "|", ": ", ":"].iter().find_map(|sep| rest.strip_prefix(sep))?);
    }
    last.map(|_| out.join("\n"))
}

/// The block between the first and the last line of `old`, where it is similar enough and what changes is really there.
fn anchors(lines: &Lines<'_>, old: &str, new: &str) -> Result<Found, Refusal> {
    let (old, new) = match (old.strip_suffix('\n'), new.strip_suffix('\n')) {
        (Some(old), Some(new)) => (old, new),
        _ => (old, new),
    };
    let wanted: Vec<&str> = old.split('\n').collect();
    let n = wanted.len();
    let weighty = |line: &str| line.chars().any(char::is_alphanumeric);
    if !(3..=ANCHOR_MAX_LINES).contains(&n) || !weighty(wanted[0]) || wanted[n - 1].trim().is_empty() {
        return Err(Refusal::Missing);
    }
    let slack = (n / 5).max(1);
    let mut best: Vec<(Range<usize>, f32)> = Vec::new();
    let firsts: Vec<usize> =
        lines.find(&wanted[..1], trim).into_iter().map(|hit| hit.start).take(50).collect();
    for first in firsts {
        let ends = first + n.saturating_sub(slack).max(2)..=first + n + slack;
        let candidates =
            ends.filter(|end| *end <= lines.all.len() && lines.all[end - 1].trim() == wanted[n - 1].trim());
        let scored = candidates.map(|end| (first..end, similarity(&lines.all[first..end], &wanted)));
        if let Some(top) = scored.max_by(|a, b| a.1.total_cmp(&b.1))
            && top.1 >= ANCHOR_FLOOR
        {
            best.push(top);
        }
    }
    let hit = match best.as_slice() {
        [] => return Err(Refusal::Missing),
        [(hit, _)] => hit.clone(),
        several => {
            let at = several.iter().map(|(hit, _)| lines.starts[hit.start]).collect();
            return Err(Refusal::Ambiguous { tier: Tier::Anchors, at });
        }
    };
    let range = lines.range(hit.clone());
    if squeeze(old) == squeeze(new) {
        return Err(Refusal::OnlySpace { at: range.start });
    }
    let region = &lines.all[hit];
    let map = line_up(region, &wanted);
    let known: (Vec<&str>, Vec<&str>) =
        map.iter().enumerate().filter_map(|(i, at)| at.map(|at| (wanted[i], region[at]))).unzip();
    let new_lines: Vec<&str> = new.split('\n').collect();
    hunks::apply(region, &wanted, &new_lines, &map, writer(&known.1, &known.0, Tier::Anchors))
        .map(|pieces| Found { tier: Tier::Anchors, splices: vec![Splice { range: range.clone(), pieces }] })
        .map_err(|_| Refusal::Conflict { tier: Tier::Anchors, range })
}

/// Share of characters in common, line ends and indentation apart.
fn similarity(a: &[&str], b: &[&str]) -> f32 {
    let text = |lines: &[&str]| lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join("\n");
    let (a, b) = (text(a), text(b));
    TextDiff::configure()
        .timeout(std::time::Duration::from_millis(50))
        .diff_chars(a.as_str(), b.as_str())
        .ratio()
}

/// For each line of `old` the line of the region that is the same but for white space around it.
fn line_up(region: &[&str], old: &[&str]) -> Vec<Option<usize>> {
    let trimmed = |lines: &[&str]| lines.iter().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    let mut map = vec![None; old.len()];
    for op in similar::capture_diff_slices(similar::Algorithm::Myers, &trimmed(old), &trimmed(region)) {
        let (tag, of_old, of_region) = op.as_tag_tuple();
        if tag == similar::DiffTag::Equal {
            for (i, at) in of_old.zip(of_region) {
                map[i] = Some(at);
            }
        }
    }
    map
}

#[cfg(test)]
#[path = "tiers_tests.rs"]
mod tests;
