//! Conversion of edits to cuts: the byte ranges of a file to replace, with their replacements.
//!
//! All edits of a call refer to the file before the call. Each one finds its place ([`tiers`]) in the text
//! that earlier edits have not taken. Its change is then narrowed to the lines that differ, and only their
//! bytes are cut. Pure: knows bytes, no path and no disk.
//!
//! Invariant: cuts do not overlap, and all other bytes are copied.

use crate::encoding::Kind;
use crate::endings::{self, Ending, Source};
use crate::matched::{MatchedEdit, Refusal, Splice, Tier};
use crate::scope::{SearchScope, line_of};
use crate::subject::{Edit, Subject};
use crate::variants::{is_placeholder, looks_numbered};
use crate::{hunks, normalize, refuse, tiers};
use similar::{Algorithm, DiffTag};
use std::ops::Range;

/// Maximum size in bytes of a file for tolerant matching, which examines every line. Larger files allow only
/// exact matches.
const MAX_TOLERANT_BYTES: usize = 4 * 1024 * 1024;

/// The byte order mark as a character.
const MARK: char = '\u{feff}';

/// A byte range and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub range: Range<usize>,
    pub bytes: Vec<u8>,
}

/// Everything to change in a file.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Cuts in order, not overlapping.
    pub cuts: Vec<Cut>,
    /// The tier of each edit.
    pub tiers: Vec<Tier>,
    /// Number of replaced places, over all edits.
    pub places: usize,
    /// The matched ranges, in the text with `\n` endings; none if bytes were replaced.
    pub regions: Vec<Range<usize>>,
    /// True if an edit matched at several places.
    pub several: bool,
}

impl Plan {
    /// Returns the most tolerant tier that was used.
    pub(crate) fn tier(&self) -> Tier {
        self.tiers.iter().copied().max().unwrap_or(Tier::Exact)
    }

    pub(crate) fn apply(&self, bytes: &[u8]) -> Vec<u8> {
        let more: usize = self.cuts.iter().map(|cut| cut.bytes.len()).sum();
        let mut out = Vec::with_capacity(bytes.len() + more);
        let mut done = 0;
        for cut in &self.cuts {
            out.extend_from_slice(&bytes[done..cut.range.start]);
            out.extend_from_slice(&cut.bytes);
            done = cut.range.end;
        }
        out.extend_from_slice(&bytes[done..]);
        out
    }
}

/// Finds the places of all edits.
///
/// # Errors
///
/// Returns the first refusal as a message for the model.
pub(crate) fn plan(subject: &Subject<'_>, edits: &[Edit]) -> Result<Plan, String> {
    let mut planner = Planner::new(subject);
    for edit in edits {
        planner.add(edit)?;
    }
    Ok(planner.finish())
}

/// A plan under construction, for edits that depend on the position of the previous one.
pub(crate) struct Planner<'a> {
    subject: &'a Subject<'a>,
    plan: Plan,
    /// Ranges that are already replaced, in the text with `\n` endings.
    taken: Vec<Range<usize>>,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(subject: &'a Subject<'a>) -> Self {
        Self { subject, plan: Plan::default(), taken: Vec::new() }
    }

    /// Returns the end of the last edit's match in the text with `\n` endings, or 0.
    pub(crate) fn end(&self) -> usize {
        self.plan.regions.last().map_or(0, |region| region.end)
    }

    pub(crate) fn add(&mut self, edit: &Edit) -> Result<(), String> {
        let Self { subject, plan, taken } = self;
        let outcome = if edit.old == edit.new {
            Err("`old` and `new` are the same: there is nothing to change.".to_owned())
        } else if edit.old.is_empty() && !subject.bytes.is_empty() {
            Err(format!(
                "`old` is empty, but {} exists. Give the text to replace, or use write for a whole new content.",
                subject.name
            ))
        } else if edit.raw {
            raw_bytes(&edit.old)
                .and_then(|old| plan_bytes(subject, edit.all, &old, &raw_bytes(&edit.new)?, plan))
        } else if matches!(subject.view.kind, Kind::Bytes { .. }) {
            subject
                .view
                .encode(&edit.new)
                .map_err(|c| format!("{} is not valid text in an encoding that could be recognised, so {c:?} cannot be written into it. Only ASCII can be inserted here; nothing was changed.", subject.name))
                .and_then(|new| plan_bytes(subject, edit.all, edit.old.as_bytes(), &new, plan))
        } else {
            plan_text(subject, edit, plan, taken)
        };
        outcome.map_err(|text| format!("{}{text}", edit.label))
    }

    /// Inserts lines at the start of a line or at the end of the text. Each of `lines` ends in `\n`.
    pub(crate) fn insert(&mut self, at: usize, lines: &str) -> Result<(), String> {
        let Self { subject, plan, taken } = self;
        let source = subject.source;
        if taken.iter().any(|taken| taken.start < at && at < taken.end) {
            return Err(refuse::taken(subject, at));
        }
        let ending = source.near(at).as_str();
        let text = if at == 0 || source.text[..at].ends_with('\n') {
            lines.replace('\n', ending)
        } else {
            // A file without a newline at its end keeps that form.
            format!("{ending}{}", lines.trim_end_matches('\n').replace('\n', ending))
        };
        let range = bytes_of(subject, &source.raw(&(at..at)))?;
        plan.cuts.push(Cut { range, bytes: encode(subject, &text)? });
        taken.push(at..at);
        plan.regions.push(at..at);
        plan.tiers.push(Tier::Exact);
        plan.places += 1;
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Plan {
        self.plan.cuts.sort_by_key(|cut| (cut.range.start, cut.range.end));
        self.plan
    }
}

/// Parses text with `\xNN` for a byte and the escapes `\0`, `\n`, `\r`, `\t` and `\\`.
fn raw_bytes(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at + 1..];
        let (byte, length) = match rest.as_bytes() {
            [b'x', ..] => match rest.get(1..3).and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
                Some(byte) => (byte, 3),
                None => return Err(no_escape(rest)),
            },
            [b'0', ..] => (0, 1),
            [b'n', ..] => (b'\n', 1),
            [b'r', ..] => (b'\r', 1),
            [b't', ..] => (b'\t', 1),
            [b'\\', ..] => (b'\\', 1),
            _ => return Err(no_escape(rest)),
        };
        out.push(byte);
        rest = &rest[length..];
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(out)
}

fn no_escape(rest: &str) -> String {
    let shown: String = rest.chars().take(3).collect();
    format!(
        "`\\{shown}` is no escape of a byte; nothing was changed. With `binary`, write `\\xNN` for a byte and `\\\\` for a backslash."
    )
}

fn plan_bytes(
    subject: &Subject<'_>,
    all: bool,
    old: &[u8],
    new: &[u8],
    plan: &mut Plan,
) -> Result<(), String> {
    let name = subject.name;
    let finder = memchr::memmem::Finder::new(old);
    let mut at = Vec::new();
    let mut from = 0;
    while let Some(found) = finder.find(&subject.bytes[from..]) {
        at.push(from + found);
        from += found + 1;
    }
    let overlaps = |start: usize| {
        plan.cuts.iter().any(|cut| start < cut.range.end && cut.range.start < start + old.len())
    };
    at.retain(|start| !overlaps(*start));
    if at.is_empty() {
        return Err(format!(
            "`old` was not found in {name}: only an exact run of its bytes can be replaced; nothing was changed."
        ));
    }
    if at.len() > 1 && !all {
        return Err(format!(
            "`old` occurs {} times in {name}; give more of what is around it, or set replace_all.",
            at.len()
        ));
    }
    plan.several |= at.len() > 1;
    let mut end = 0;
    for start in at {
        if start >= end {
            end = start + old.len();
            plan.places += 1;
            plan.cuts.push(Cut { range: start..end, bytes: new.to_vec() });
        }
    }
    plan.tiers.push(Tier::Exact);
    Ok(())
}

fn plan_text(
    subject: &Subject<'_>,
    edit: &Edit,
    plan: &mut Plan,
    taken: &mut Vec<Range<usize>>,
) -> Result<(), String> {
    let (source, view) = (subject.source, subject.view);
    let (old, mut new) = (endings::lf(&edit.old), endings::lf(&edit.new));
    // The file keeps its own mark, which is not part of its text.
    if view.bom > 0
        && !old.starts_with(MARK)
        && let Some(rest) = new.strip_prefix(MARK)
    {
        new = rest.to_owned().into();
    }
    if edit.old.is_empty() {
        plan.tiers.push(Tier::Exact);
        plan.places += 1;
        plan.regions.push(0..0);
        plan.cuts.push(Cut { range: view.bom..view.bom, bytes: encode(subject, &edit.new)? });
        return Ok(());
    }
    if old == new {
        // `old` and `new` differ only in line endings, so they are taken literally.
        let at = normalize::places(&view.text, &edit.old);
        let [range] = at.as_slice() else {
            return Err("`old` and `new` differ in line endings only, and `old` does not occur exactly once like that.".to_owned());
        };
        let cut = Cut { range: bytes_of(subject, range)?, bytes: encode(subject, &edit.new)? };
        let lf = endings::lf(&view.text[..range.start]).len();
        let region = lf..lf + old.len();
        if plan.cuts.iter().any(|c| c.range.start < cut.range.end && cut.range.start < c.range.end) {
            return Err(refuse::taken(subject, lf));
        }
        taken.push(region.clone());
        plan.regions.push(region);
        plan.cuts.push(cut);
        plan.tiers.push(Tier::Exact);
        plan.places += 1;
        return Ok(());
    }
    refuse_placeholder(subject, &old, &new)?;
    // Files with NUL, and files above `MAX_TOLERANT_BYTES`, allow only exact matches.
    let strict = view.binary || source.text.len() > MAX_TOLERANT_BYTES;
    let find = |source: &Source<'_>| {
        let search_scope = SearchScope { text: &source.text, taken, scope: &edit.scope };
        match tiers::find(search_scope, &old, &new, edit.all) {
            Ok(found) if found.tier != Tier::Exact && (strict || old.lines().any(is_placeholder)) => {
                Err(Refusal::Missing)
            }
            other => other,
        }
    };
    let mut found = find(source);
    let mut of = source;
    let broken;
    // Without an exact match, the file may have a lone CR inside the lines of `old`. A second search takes each lone CR
    // for a line ending; each line keeps its own ending.
    if !matches!(&found, Ok(found) if found.tier == Tier::Exact) && !old.contains('\r') && !strict {
        broken = source.breaking_at_cr();
        if let Some(broken) = &broken
            && let Ok(better) = find(broken)
        {
            found = Ok(better);
            of = broken;
        }
    }
    let MatchedEdit { tier, splices } =
        found.map_err(|refusal| refuse::refusal_text(&refusal, edit, subject))?;
    if tier == Tier::Exact {
        numbers_in_new(subject, &old, &new, splices.first())?;
    }
    plan.several |= splices.len() > 1;
    for splice in &splices {
        plan.places += 1;
        plan.regions.push(splice.range.clone());
        for (lf, raw, text) in narrowed(subject, of, splice) {
            plan.cuts.push(Cut { range: bytes_of(subject, &raw)?, bytes: encode(subject, &text)? });
            taken.push(lf);
        }
    }
    plan.tiers.push(tier);
    Ok(())
}

/// Refuses `new` if it contains a placeholder for omitted lines, because the placeholder would replace them.
fn refuse_placeholder(subject: &Subject<'_>, old: &str, new: &str) -> Result<(), String> {
    let there = |line: &str| {
        let same = |l: &str| l.trim() == line.trim();
        old.lines().any(same) || subject.source.text.lines().any(same)
    };
    match new.lines().find(|line| is_placeholder(line) && !there(line)) {
        Some(line) => Err(format!(
            "`new` has the placeholder line `{}`, which would be written as it is and replace the lines that it stands for; nothing was changed. Write out all lines, or edit only the part that changes.",
            becket_types::cut_end(line.trim(), 120)
        )),
        None => Ok(()),
    }
}

/// Refuses `new` if it is a numbered listing of the lines that it replaces, because the numbers would be
/// written to the file.
fn numbers_in_new(
    subject: &Subject<'_>,
    old: &str,
    new: &str,
    splice: Option<&Splice>,
) -> Result<(), String> {
    let Some(splice) = splice.filter(|_| looks_numbered(new) && !looks_numbered(old)) else { return Ok(()) };
    let first = line_of(&subject.source.text, splice.range.start).to_string();
    if new.trim_start().strip_prefix(&first).is_some_and(|rest| rest.starts_with(['→', '\t'])) {
        return Err(
            "`new` begins with line numbers of a listing; nothing was changed. Give the text without them."
                .to_owned(),
        );
    }
    Ok(())
}

/// Returns the parts of a splice that differ from the file, line by line: the range in the text with `\n`, the
/// range in the file's own text, and the replacement.
fn narrowed(
    subject: &Subject<'_>,
    source: &Source<'_>,
    splice: &Splice,
) -> Vec<(Range<usize>, Range<usize>, String)> {
    let raw = source.raw(&splice.range);
    let text = if source.is_lf() {
        hunks::join(&splice.pieces, &[], Ending::Lf)
    } else {
        hunks::join(&splice.pieces, &source.endings(&splice.range), source.near(splice.range.end))
    };
    let old: Vec<&str> = subject.view.text[raw.clone()].split_inclusive('\n').collect();
    let lf: Vec<&str> = source.text[splice.range.clone()].split_inclusive('\n').collect();
    if old.len() < 2 || old.len() != lf.len() {
        return vec![(splice.range.clone(), raw, text)];
    }
    let new: Vec<&str> = text.split_inclusive('\n').collect();
    let starts = |lines: &[&str], from: usize| -> Vec<usize> {
        let mut at = vec![from];
        for line in lines {
            at.push(at.last().copied().unwrap_or(from) + line.len());
        }
        at
    };
    let (raw_at, lf_at) = (starts(&old, raw.start), starts(&lf, splice.range.start));
    similar::capture_diff_slices(Algorithm::Myers, &old, &new)
        .into_iter()
        .map(|op| op.as_tag_tuple())
        .filter(|(tag, ..)| *tag != DiffTag::Equal)
        .map(|(_, of_old, of_new)| {
            let lf = lf_at[of_old.start]..lf_at[of_old.end];
            (lf, raw_at[of_old.start]..raw_at[of_old.end], new[of_new].concat())
        })
        .collect()
}

fn encode(subject: &Subject<'_>, text: &str) -> Result<Vec<u8>, String> {
    subject.view.encode(text).map_err(|c| {
        format!("{} is in {}, which has no character {c:?}; nothing was changed. Write it without that character, or convert the file to UTF-8 first.", subject.name, subject.view.name())
    })
}

fn bytes_of(subject: &Subject<'_>, range: &Range<usize>) -> Result<Range<usize>, String> {
    subject.view.bytes_of(subject.bytes, range).ok_or_else(|| {
        format!(
            "The place cannot be cut out of the file's encoding ({}); nothing was changed.",
            subject.view.name()
        )
    })
}
