//! Owns the request of an edit: the text to replace, and the file that it refers to.
//!
//! Data only; [`engine`](crate::engine) carries it out and [`refuse`](crate::refuse) explains a refusal.

use crate::encoding::Decoded;
use crate::endings::Source;
use crate::scope::Scope;

/// One thing to replace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edit {
    pub old: String,
    pub new: String,
    /// True if every exact match is replaced (`replace_all`).
    pub all: bool,
    /// True if `old` and `new` describe bytes: `\xNN` is a byte that is not text. They match only exactly.
    pub raw: bool,
    /// Prefix of a refusal if a call has several edits: `Edit 2: `.
    pub label: String,
    pub scope: Scope,
}

/// The model's knowledge of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// becket read or wrote the file, and it has not changed since.
    Same,
    Never,
    ChangedSince,
}

/// A file to edit, as read from the disk.
pub(crate) struct Subject<'a> {
    /// Path as messages show it.
    pub name: &'a str,
    pub bytes: &'a [u8],
    /// `bytes` as text.
    pub view: &'a Decoded<'a>,
    /// The text of `view` with `\n` for every line ending.
    pub source: &'a Source<'a>,
    pub seen: Seen,
}
