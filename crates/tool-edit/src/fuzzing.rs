//! What fuzz targets and benches use. No part of the public API.

use crate::engine::{self, Edit, Seen, Subject};
use crate::scope::{Ground, Scope};
use crate::{diff, encoding, endings, patch, tiers};
use std::ops::Range;

/// The byte ranges of `text` that an edit would replace; none where it is refused.
pub fn places(text: &str, old: &str, new: &str, replace_all: bool) -> Vec<Range<usize>> {
    let scope = Scope::default();
    tiers::find(Ground { text, taken: &[], scope: &scope }, old, new, replace_all)
        .map(|found| found.splices.into_iter().map(|splice| splice.range).collect())
        .unwrap_or_default()
}

/// Edits of a file's bytes: its new bytes and the ranges that were replaced, or why not.
pub fn edit(bytes: &[u8], edits: &[(&str, &str)]) -> Result<(Vec<u8>, Vec<Range<usize>>), String> {
    let view = encoding::decode(bytes);
    let source = endings::Source::new(&view.text);
    let subject = Subject { name: "f", bytes, view: &view, source: &source, seen: Seen::Same };
    let edits: Vec<Edit> = edits
        .iter()
        .map(|(old, new)| Edit { old: (*old).to_owned(), new: (*new).to_owned(), ..Edit::default() })
        .collect();
    let plan = engine::plan(&subject, &edits)?;
    Ok((plan.apply(bytes), plan.cuts.into_iter().map(|cut| cut.range).collect()))
}

/// The name of the encoding and, where the bytes are text, what a range of it is in bytes.
pub fn decode(bytes: &[u8], range: Range<usize>) -> (&'static str, Option<(String, Range<usize>)>) {
    let view = encoding::decode(bytes);
    let part = view.text.get(range.clone()).map(str::to_owned);
    let place = part.and_then(|part| Some((part, view.bytes_of(bytes, &range)?)));
    (view.name(), place)
}

/// Number of files that a patch names, if it is one.
pub fn patch(text: &str) -> Option<usize> {
    patch::sections(text).ok().map(|sections| sections.len())
}

/// The unified diff of two texts.
pub fn diff(old: &str, new: &str) -> String {
    diff::compare(old, new, 0).unified
}
