//! Skills that are built into becket. Owns the list; the texts are in `skills/`.
//!
//! A user's or project's skill with the same name replaces the bundled one. Bundled skills have no other
//! files and are not read from disk.

/// Texts of the `SKILL.md` files, ordered by skill name.
pub(crate) const BUNDLED: &[&str] = &[
    include_str!("../../../skills/commit/SKILL.md"),
    include_str!("../../../skills/debug/SKILL.md"),
    include_str!("../../../skills/review/SKILL.md"),
    include_str!("../../../skills/write-tests/SKILL.md"),
];
