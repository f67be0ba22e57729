//! The reader of heads for fuzz targets. No part of the public API.

use crate::frontmatter::{parse, split};

/// Whether the skill counts, or why not.
pub fn frontmatter(text: &str) -> Result<(), String> {
    let (head, _) = split(text).ok_or("it has no frontmatter")?;
    parse(head, "folder").map(drop)
}
