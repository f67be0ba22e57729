//! Entry point for fuzz targets of the frontmatter parser. Not part of the public API.

use crate::frontmatter::parse;
use becket_types::split_frontmatter;

/// Parses the frontmatter of a `SKILL.md`.
///
/// # Errors
///
/// Returns the reason why the skill would be skipped.
pub fn frontmatter(text: &str) -> Result<(), String> {
    let (head, _) = split_frontmatter(text).ok_or("it has no frontmatter")?;
    parse(head, "folder").map(drop)
}
