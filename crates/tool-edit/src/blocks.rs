//! The two most tolerant tiers: a block of lines that differs from `old` but is clearly the block that `old`
//! describes.
//!
//! Only lines that the model *keeps* may differ in the file. The lines that it changes must be in the file, one after the other and equal
//! except for white space around them, and an insertion needs a neighbouring line of `old`; [`hunks::apply`] refuses otherwise. So a wrong
//! memory of the context does no harm, and a wrong memory of a changed line is refused.

use crate::hunks;
use crate::lines::{Lines, squeeze, trim};
use crate::matched::{MatchedEdit, Refusal, Splice, Tier};
use crate::splice::writer;
use similar::TextDiff;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Minimum similarity of a block to `old`, as the share of characters in common (0 to 1). The anchors are the first and
/// the last line of `old`.
const ANCHOR_FLOOR: f32 = 0.75;
/// Maximum number of lines of `old`. A longer `old` is matched by neither of the two tiers.
const ANCHOR_MAX_LINES: usize = 400;

/// Finds the block between the first and the last line of `old`. The block must be similar to `old`, and must contain the
/// lines that the edit changes, except for white space around them.
pub(crate) fn anchors(lines: &Lines<'_>, old: &str, new: &str) -> Result<MatchedEdit, Refusal> {
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
    let free = lines.free(best.iter().map(|(hit, _)| hit.clone()).collect());
    best.retain(|(hit, _)| free.contains(hit));
    let hit = match best.as_slice() {
        [] => return Err(Refusal::Missing),
        [(hit, _)] => hit.clone(),
        several => {
            let at = several.iter().map(|(hit, _)| lines.starts[hit.start]).collect();
            return Err(Refusal::Ambiguous { tier: Tier::Anchors, at });
        }
    };
    rewrite(lines, hit, old, new, Tier::Anchors)
}

/// Applies the model's change to a block whose lines differ in part from `old`.
fn rewrite(
    lines: &Lines<'_>,
    hit: Range<usize>,
    old: &str,
    new: &str,
    tier: Tier,
) -> Result<MatchedEdit, Refusal> {
    let wanted: Vec<&str> = old.split('\n').collect();
    let range = lines.range(hit.clone());
    if squeeze(old) == squeeze(new) {
        return Err(Refusal::OnlySpace { at: range.start });
    }
    let region = &lines.all[hit];
    let map = line_up(region, &wanted);
    let known: (Vec<&str>, Vec<&str>) =
        map.iter().enumerate().filter_map(|(i, at)| at.map(|at| (wanted[i], region[at]))).unzip();
    let new_lines: Vec<&str> = new.split('\n').collect();
    hunks::apply(region, &wanted, &new_lines, &map, writer(&known.1, &known.0, tier))
        .map(|pieces| MatchedEdit { tier, splices: vec![Splice { range: range.clone(), pieces }] })
        .map_err(|_| Refusal::Conflict { tier, range })
}

/// Finds the block that contains most lines of `old` in order. Only lines that the model keeps may differ:
/// [`hunks::apply`] refuses if a line that the edit changes is not in the block.
pub(crate) fn context(lines: &Lines<'_>, old: &str, new: &str) -> Result<MatchedEdit, Refusal> {
    let (old, new) = match (old.strip_suffix('\n'), new.strip_suffix('\n')) {
        (Some(old), Some(new)) => (old, new),
        _ => (old, new),
    };
    if old.ends_with('\n') {
        // The empty last line of `old` would match any blank line of the block, and a wrong newline could be removed.
        return Err(Refusal::Missing);
    }
    let wanted: Vec<&str> = old.split('\n').collect();
    let n = wanted.len();
    if !(4..=ANCHOR_MAX_LINES).contains(&n) {
        return Err(Refusal::Missing);
    }
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (i, line) in lines.all.iter().enumerate() {
        if line.trim().len() > 2 {
            places.entry(line.trim()).or_default().push(i);
        }
    }
    let weight = wanted.iter().filter(|line| line.trim().len() > 2).count();
    let mut votes: BTreeMap<usize, usize> = BTreeMap::new();
    for (k, line) in wanted.iter().enumerate() {
        for at in places.get(line.trim()).into_iter().flatten().take(50) {
            *votes.entry(at.saturating_sub(k)).or_default() += 1;
        }
    }
    let enough = |votes: usize| votes * 10 >= weight * 6 && votes >= 3;
    let mut found: Vec<(Range<usize>, MatchedEdit)> = Vec::new();
    let starts: Vec<usize> =
        votes.iter().filter(|(_, v)| enough(**v)).map(|(start, _)| *start).take(20).collect();
    for start in starts {
        let window = start..(start + n).min(lines.all.len());
        let in_window = line_up(&lines.all[window.clone()], &wanted);
        let (Some(first), Some(last)) = (in_window.iter().flatten().min(), in_window.iter().flatten().max())
        else {
            continue;
        };
        let hit = start + first..start + last + 1;
        if lines.free(vec![hit.clone()]).is_empty() || found.iter().any(|(other, _)| *other == hit) {
            continue;
        }
        if let Ok(one) = rewrite(lines, hit.clone(), old, new, Tier::Context) {
            found.push((hit, one));
        }
    }
    match found.as_slice() {
        [] => Err(Refusal::Missing),
        [(_, one)] => Ok(one.clone()),
        several => {
            let at = several.iter().map(|(hit, _)| lines.starts[hit.start]).collect();
            Err(Refusal::Ambiguous { tier: Tier::Context, at })
        }
    }
}

/// Returns the share of characters in common, ignoring line endings and indentation.
fn similarity(a: &[&str], b: &[&str]) -> f32 {
    let text = |lines: &[&str]| lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join("\n");
    let (a, b) = (text(a), text(b));
    TextDiff::configure()
        .timeout(std::time::Duration::from_millis(50))
        .diff_chars(a.as_str(), b.as_str())
        .ratio()
}

/// Aligns `old` with `region`. Returns for each line of `old` the index of its line in `region`, which is equal except
/// for white space around it.
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
