//! Entry point for fuzz targets of the frontmatter parser. Not part of the public API.

use crate::frontmatter::{parse, split};

/// Parses the frontmatter of a `SKILL.md`.
///
/// # Errors
///
/// Returns the reason why the skill would be skipped.
pub fn frontmatter(text: &str) -> Result<(), String> {
    let (head, _) = split(text).ok_or("it has no frontmatter")?;
    parse(head, "folder").map(drop)
}
