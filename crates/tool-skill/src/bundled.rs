//! Skills that becket brings along. Owns the list; the texts are in `skills/`.
//!
//! Anybody's skill of the same name goes before these. None has resources, and none is read from disk.

/// Whole texts of `SKILL.md` files, in the order of their names.
pub(crate) const BUNDLED: &[&str] = &[
    include_str!("../../../skills/commit/SKILL.md"),
    include_str!("../../../skills/debug/SKILL.md"),
    include_str!("../../../skills/review/SKILL.md"),
    include_str!("../../../skills/write-tests/SKILL.md"),
];
