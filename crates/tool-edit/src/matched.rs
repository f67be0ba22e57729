//! Owns the result of a search for `old`: the tier that matched and the replacements, or the reason why nothing is replaced.
//!
//! Searches nothing itself: see [`tiers`](crate::tiers).

use crate::hunks::Piece;
use serde::Serialize;
use std::ops::Range;

/// The tolerance of a match, from strict to tolerant. [`Tier::words`] says what each tier ignores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    Exact,
    TrailingSpace,
    Indentation,
    Trimmed,
    Whitespace,
    Unicode,
    LineNumbers,
    Fence,
    Escapes,
    Anchors,
    Context,
}

impl Tier {
    /// Returns the words after "matched" in a message to the model, which say what was ignored.
    pub fn words(self) -> &'static str {
        match self {
            Self::Exact => "exactly",
            Self::TrailingSpace => "ignoring spaces at line ends",
            Self::Indentation => "with its indentation shifted",
            Self::Trimmed => "ignoring indentation",
            Self::Whitespace => "ignoring white space",
            Self::Unicode => "ignoring Unicode forms of quotes, dashes and spaces",
            Self::LineNumbers => "without its line numbers",
            Self::Fence => "without its Markdown fence",
            Self::Escapes => "after removing extra escapes",
            Self::Anchors => "by its first and last lines",
            Self::Context => "by the lines around the change",
        }
    }
}

/// One replacement: `range` of the text becomes `pieces`, joined by line endings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Splice {
    pub range: Range<usize>,
    pub pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MatchedEdit {
    pub tier: Tier,
    /// Splices in order, not overlapping.
    pub splices: Vec<Splice>,
}

/// The reason why nothing is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Several places match; these are their byte offsets.
    Ambiguous {
        tier: Tier,
        at: Vec<usize>,
    },
    /// The place was found, but the lines that `new` changes are different there.
    Conflict {
        tier: Tier,
        range: Range<usize>,
    },
    /// Only white space would change, but the only match ignores white space.
    OnlySpace {
        at: usize,
    },
    /// The only match is in text that another edit of the call replaces.
    Taken {
        at: usize,
    },
    Missing,
}
