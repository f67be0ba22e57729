//! The matching of edits for fuzz targets. No part of the public API.

use crate::tiers;
use std::ops::Range;

/// The byte ranges of `text` that an edit would replace; none where it is refused.
pub fn places(text: &str, old: &str, new: &str, replace_all: bool) -> Vec<Range<usize>> {
    let scope = crate::scope::Scope::default();
    tiers::find(crate::scope::Ground { text, taken: &[], scope: &scope }, old, new, replace_all)
        .map(|found| found.splices.into_iter().map(|splice| splice.range).collect())
        .unwrap_or_default()
}
