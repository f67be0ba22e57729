//! Matches that may begin and end within lines: the white-space tier and the Unicode tier.
//!
//! The text between the outer white space of `old` is searched in the normalised file. Then both ends of each
//! hit must be resolved. An end is resolved in one of three cases: the hit reaches the border of its line;
//! the file has exactly the white space of `old` there; or `old` and `new` have the same white space there
//! and the file has some. Other hits are dropped, so a newline of `old` never matches nothing.
//!
//! Invariants:
//! - A newline is removed only together with its whole line, and never so that two lines are joined.
//! - White space that `old` and `new` share at an end stays as it is in the file.
//!
//! Pure. Does not choose between several hits; `tiers` refuses them.

use crate::lines::Lines;
use crate::matched::{MatchedEdit, Refusal, Tier};
use crate::normalize::Normalized;
use crate::splice::match_lines;
use std::ops::Range;

/// Finds `old` in the text as `normalize` converts it, and replaces it if both ends are resolved.
pub(crate) fn normalized(
    lines: &Lines<'_>,
    old: &str,
    new: &str,
    tier: Tier,
    normalize: fn(&str) -> Normalized,
) -> Result<Option<MatchedEdit>, Refusal> {
    if tier == Tier::Unicode && lines.text.is_ascii() && old.is_ascii() {
        return Ok(None);
    }
    let wanted = TrimmedEdit::new(old, new, tier);
    let needle = normalize(wanted.core).text;
    let hits: Vec<ResolvedMatch<'_>> = normalize(lines.text)
        .find(&needle)
        .into_iter()
        .filter(|hit| between_words(lines.text, hit))
        .filter_map(|hit| wanted.resolve(lines.text, &hit))
        .collect();
    let free = lines.search_scope.narrow(hits.iter().map(|hit| hit.range.clone()).collect());
    let hits: Vec<ResolvedMatch<'_>> = hits.into_iter().filter(|hit| free.contains(&hit.range)).collect();
    match hits.as_slice() {
        [] => Ok(None),
        [hit] => match_lines(lines.text, hit.range.clone(), hit.old, hit.new, tier).map(Some),
        several => Err(Refusal::Ambiguous { tier, at: several.iter().map(|hit| hit.range.start).collect() }),
    }
}

/// A place with resolved ends, and the part of the edit that applies to it.
struct ResolvedMatch<'a> {
    range: Range<usize>,
    old: &'a str,
    new: &'a str,
}

/// `old` without its outer white space, which is kept separately.
struct TrimmedEdit<'a> {
    old: &'a str,
    new: &'a str,
    /// White space at the start of `old`.
    lead: &'a str,
    core: &'a str,
    /// White space at the end of `old`.
    trail: &'a str,
}

/// One end of a hit: its offset in the file, and the number of bytes of `old` and of `new` that are left out at this
/// end.
struct MatchEnd {
    at: usize,
    of_old: usize,
    of_new: usize,
}

impl<'a> TrimmedEdit<'a> {
    fn new(old: &'a str, new: &'a str, tier: Tier) -> Self {
        // Unicode normalisation keeps white space, so only the newlines at the end must be checked in the
        // file.
        let (head, tail) = match tier {
            Tier::Unicode => (old, old.trim_end_matches('\n')),
            _ => (old.trim_start(), old.trim_end()),
        };
        let lead = &old[..old.len() - head.len()];
        let core = if tail.len() > lead.len() { &old[lead.len()..tail.len()] } else { "" };
        Self { old, new, lead, core, trail: &old[lead.len() + core.len()..] }
    }

    fn resolve(&self, text: &str, hit: &Range<usize>) -> Option<ResolvedMatch<'a>> {
        let line_start = text[..hit.start].rfind('\n').map_or(0, |i| i + 1);
        let begins_line = text[line_start..hit.start].trim().is_empty();
        let first = self.first(text, hit.start, begins_line.then_some(line_start))?;
        let last = self.last(text, hit.end)?;
        let mut start = first.at;
        if text[hit.end..last.at].contains('\n') {
            // A newline is removed, so the line that it ends must be removed or rewritten as a whole.
            if !begins_line {
                return None;
            }
            start = start.min(line_start);
        }
        let old = self.old.get(first.of_old..self.old.len() - last.of_old)?;
        let new = self.new.get(first.of_new..self.new.len().checked_sub(last.of_new)?)?;
        if text[hit.end..last.at].contains('\n') && joins(text, last.at, new) {
            return None;
        }
        if text[first.at..hit.start].contains('\n') {
            // The newline before the match is removed too, so nothing may be joined to the line that it
            // ended.
            let goes_after = text[hit.end..last.at].contains('\n') && !new.contains('\n');
            let follows = goes_after && !first_line(&text[last.at..]).trim().is_empty();
            if follows || !first_line(new).trim().is_empty() {
                return None;
            }
        }
        Some(ResolvedMatch { range: start..last.at, old, new })
    }

    fn first(&self, text: &str, at: usize, line_start: Option<usize>) -> Option<MatchEnd> {
        if self.lead.is_empty() {
            return Some(MatchEnd { at, of_old: 0, of_new: 0 });
        }
        let blank = self.lead.rfind('\n').map_or(0, |i| i + 1);
        if let Some(line_start) = line_start
            && self.new.starts_with(&self.lead[..blank])
        {
            return Some(MatchEnd { at: line_start, of_old: blank, of_new: blank });
        }
        if text[..at].ends_with(self.lead) {
            return Some(MatchEnd { at: at - self.lead.len(), of_old: 0, of_new: 0 });
        }
        let spaced = text[..at].ends_with(|c: char| c != '\n' && c.is_whitespace());
        let shared = blank == 0 && self.new.len() > self.lead.len() && self.new.starts_with(self.lead);
        (spaced && shared).then_some(MatchEnd { at, of_old: self.lead.len(), of_new: self.lead.len() })
    }

    fn last(&self, text: &str, at: usize) -> Option<MatchEnd> {
        let trail = self.trail;
        if trail.is_empty() {
            return Some(MatchEnd { at, of_old: 0, of_new: 0 });
        }
        let rest = first_line(&text[at..]);
        let spaces = |text: &str| text.len() - text.trim_end_matches([' ', '\t']).len();
        if rest.trim().is_empty() {
            let ends = |text: &str| text[text.trim_end().len()..].matches('\n').count();
            let (of_old, of_new) = (ends(self.old), ends(self.new));
            let shared = of_old.min(of_new);
            let cut = |text: &str| {
                let kept = text.rmatch_indices('\n').take(shared).last().map_or(text.len(), |(i, _)| i);
                text.len() - kept + spaces(&text[..kept])
            };
            let (left_old, left_new) = (cut(self.old), cut(self.new));
            return match of_old - shared {
                0 => Some(MatchEnd { at, of_old: left_old, of_new: left_new }),
                // The newlines that stay must be in the file as well.
                _ if shared > 0 && line_ends(text, at, of_old).is_none() => None,
                gone => match line_ends(text, at, gone) {
                    Some(end) => Some(MatchEnd { at: end, of_old: left_old, of_new: left_new }),
                    // The last line of the file has no newline that could be removed.
                    None if gone == 1 && shared == 0 => {
                        Some(MatchEnd { at: text.len(), of_old: trail.len(), of_new: left_new })
                    }
                    None => None,
                },
            };
        }
        if text[at..].starts_with(trail) {
            return Some(MatchEnd { at: at + trail.len(), of_old: 0, of_new: 0 });
        }
        let spaced = rest.starts_with(char::is_whitespace);
        let shared = !trail.contains('\n') && self.new.len() > trail.len() && self.new.ends_with(trail);
        (spaced && shared).then_some(MatchEnd { at, of_old: trail.len(), of_new: trail.len() })
    }
}

/// True if `new`, whose newline was omitted, would be joined to a line of the file that the match does not
/// cover.
pub(crate) fn joins(text: &str, at: usize, new: &str) -> bool {
    !new.trim().is_empty() && !new.ends_with('\n') && !first_line(&text[at..]).trim().is_empty()
}

fn first_line(text: &str) -> &str {
    text.split('\n').next().unwrap_or_default()
}

/// Returns the offset after the `count`-th newline after `at`, if there is only white space before it.
fn line_ends(text: &str, at: usize, count: usize) -> Option<usize> {
    let (found, _) = text[at..].match_indices('\n').nth(count - 1)?;
    text[at..at + found].trim().is_empty().then_some(at + found + 1)
}

/// True if the match neither begins nor ends within a word.
fn between_words(text: &str, range: &Range<usize>) -> bool {
    let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let inside = &text[range.clone()];
    let before = text[..range.start].chars().next_back();
    let after = text[range.end..].chars().next();
    let splits_first = word(before) && word(inside.chars().next());
    let splits_last = word(inside.chars().next_back()) && word(after);
    !splits_first && !splits_last
}
