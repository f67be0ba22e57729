//! Entry points for fuzz targets and benches. Not part of the public API.

use crate::engine;
use crate::scope::{Scope, SearchScope};
use crate::subject::{Edit, Seen, Subject};
use crate::{diff, encoding, endings, patch, tiers};
use std::ops::Range;

/// Returns the byte ranges of `text` that an edit would replace; none if it is refused.
pub fn places(text: &str, old: &str, new: &str, replace_all: bool) -> Vec<Range<usize>> {
    let scope = Scope::default();
    tiers::find(SearchScope { text, taken: &[], scope: &scope }, old, new, replace_all)
        .map(|found| found.splices.into_iter().map(|splice| splice.range).collect())
        .unwrap_or_default()
}

/// Applies edits to a file's bytes. Returns the new bytes and the replaced ranges.
///
/// # Errors
///
/// Returns the message that the model would get if an edit is refused.
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

/// Applies a patch of one file to its bytes.
///
/// # Errors
///
/// Returns the message that the model would get if the patch is refused.
pub fn apply_patch(bytes: &[u8], text: &str) -> Result<Vec<u8>, String> {
    let sections = patch::sections(text)?;
    let hunks = sections.first().and_then(patch::hunks_of).ok_or("the patch updates no file")?;
    let view = encoding::decode(bytes);
    let source = endings::Source::new(&view.text);
    let subject = Subject { name: "f", bytes, view: &view, source: &source, seen: Seen::Same };
    Ok(patch::planned(&subject, hunks)?.apply(bytes))
}

/// Returns the name of the encoding and, if the bytes are text, the text of a range with its byte range.
pub fn decode(bytes: &[u8], range: Range<usize>) -> (&'static str, Option<(String, Range<usize>)>) {
    let view = encoding::decode(bytes);
    let part = view.text.get(range.clone()).map(str::to_owned);
    let place = part.and_then(|part| Some((part, view.bytes_of(bytes, &range)?)));
    (view.name(), place)
}

/// Returns the number of files that a patch names; `None` if it is not a patch.
pub fn patch(text: &str) -> Option<usize> {
    patch::sections(text).ok().map(|sections| sections.len())
}

/// Returns the unified diff of two texts.
pub fn diff(old: &str, new: &str) -> String {
    diff::compare(old, new, 0).unified
}
