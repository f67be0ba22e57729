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
//! - A tolerant match rewrites only the lines that the model changes ([`hunks`](crate::hunks)). If those lines differ from
//!   the model's, the edit is refused.
//! - A change of white space alone needs a match that does not ignore white space.
//!
//! Works on text with `\n` endings; knows no file.

use crate::blocks;
use crate::indent;
use crate::lines::{Lines, squeeze, trim};
use crate::matched::{MatchedEdit, Refusal, Splice, Tier};
use crate::normalize::{self, places};
use crate::partial;
use crate::scope::SearchScope;
use crate::splice::{match_lines, splice};
use crate::variants::{Variant, variants};
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

/// Finds the replacement of `old` by `new` in a text.
///
/// # Errors
///
/// Returns the reason for the model if `old` is found nowhere, or at several places where one was meant.
pub(crate) fn find(
    search_scope: SearchScope<'_>,
    old: &str,
    new: &str,
    replace_all: bool,
) -> Result<MatchedEdit, Refusal> {
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
) -> Result<MatchedEdit, Refusal> {
    if let Some(found) = exact(search_scope, old, new, replace_all)? {
        return Ok(found);
    }
    // Invisible text would match everywhere.
    let unseen = |text: &str| squeeze(&normalize::unicode(text).text).is_empty();
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
            return Ok(MatchedEdit { tier, ..found });
        }
    }
    let (old, new) = likeliest(&lines, old, new);
    match blocks::anchors(&lines, &old, &new) {
        Err(Refusal::Missing) => blocks::context(&lines, &old, &new),
        other => other,
    }
}

/// Returns the edit or that variant of it ([`variants`]) of which the most lines are in the file. The tiers that follow accept lines which
/// differ. So they would also accept superfluous characters of the text, such as escapes, and write them into the file.
fn likeliest<'a>(lines: &Lines<'_>, old: &'a str, new: &'a str) -> (Cow<'a, str>, Cow<'a, str>) {
    let known: HashSet<String> = lines.all.iter().map(|line| normalize::normal(line)).collect();
    let found = |old: &str| old.split('\n').filter(|line| known.contains(&normalize::normal(line))).count();
    let (mut best, mut most) = ((Cow::Borrowed(old), Cow::Borrowed(new)), found(old));
    for variant in variants(old, new) {
        let count = found(&variant.old);
        if count > most && variant.old.split('\n').count() == old.split('\n').count() {
            (best, most) = ((Cow::Owned(variant.old), Cow::Owned(variant.new)), count);
        }
    }
    best
}

fn begins_lines(text: &str, found: &MatchedEdit) -> bool {
    let begins = |at: usize| at == 0 || text.as_bytes()[at - 1] == b'\n';
    found.splices.iter().all(|splice| begins(splice.range.start))
}

fn exact(
    search_scope: SearchScope<'_>,
    old: &str,
    new: &str,
    replace_all: bool,
) -> Result<Option<MatchedEdit>, Refusal> {
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
    Ok((!splices.is_empty()).then_some(MatchedEdit { tier: Tier::Exact, splices }))
}

fn trim_end(line: &str) -> Cow<'_, str> {
    Cow::Borrowed(line.trim_end())
}

fn plain(line: &str) -> Cow<'_, str> {
    if line.is_ascii() {
        return trim(line);
    }
    Cow::Owned(normalize::unicode(line).text.trim().to_owned())
}

/// Tries the tiers from [`Tier::TrailingSpace`] to [`Tier::Unicode`].
fn tolerant(lines: &Lines<'_>, whole_old: &str, whole_new: &str) -> Result<Option<MatchedEdit>, Refusal> {
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
            for (tier, normalize) in [
                (Tier::Whitespace, normalize::spaces as fn(&str) -> normalize::Normalized),
                (Tier::Unicode, normalize::unicode),
            ] {
                if let Some(found) = partial::normalized(lines, whole_old, whole_new, tier, normalize)? {
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
) -> Result<Option<MatchedEdit>, Refusal> {
    // Without `shared`, only `old` ends with a newline, so that newline is removed too. With `shared`, the caller has
    // cut a newline from both; another one at the end of `old` is a blank line, which must be in the file.
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
    match_lines(lines.text, range, of_old, new, tier).map(Some)
}

#[cfg(test)]
#[path = "tiers_tests.rs"]
mod tests;
