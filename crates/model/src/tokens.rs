//! Counts tokens by OpenAI's `o200k_base` vocabulary, which serves as an upper bound for other vendors' models too.
//!
//! Loading the vocabulary costs about 0.1 s and 45 MB, so nothing here runs at the start: call [`load`] on a background
//! thread when a count is really needed. Text is counted in pieces of at most 16 kB, because a run of a megabyte of blanks
//! overflows the tokenizer's regular expression.

use becket_types::{Tokens, cut_end};
use std::sync::atomic::{AtomicBool, Ordering};

/// Largest piece that is passed to the tokenizer, in bytes.
const PIECE: usize = 16 * 1024;

static LOADED: AtomicBool = AtomicBool::new(false);

/// Loads the vocabulary; blocks for about 0.1 s the first time.
pub fn load() {
    let _ = tiktoken_rs::o200k_base_singleton();
    LOADED.store(true, Ordering::Release);
}

/// True if [`count`] returns at once, because the vocabulary is loaded.
pub fn is_loaded() -> bool {
    LOADED.load(Ordering::Acquire)
}

/// Counts the tokens of `text`. Loads the vocabulary if that has not been done.
pub fn count(text: &str) -> Tokens {
    load();
    let tokenizer = tiktoken_rs::o200k_base_singleton();
    let total: usize = pieces(text).map(|piece| tokenizer.encode_ordinary(piece).len()).sum();
    Tokens(total as u64)
}

/// Splits text into pieces at character borders, preferably after a line's end.
fn pieces(mut rest: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let window = cut_end(rest, PIECE);
        let size = if window.len() == rest.len() {
            window.len()
        } else {
            window.rfind('\n').map_or(window.len(), |n| n + 1)
        };
        let (piece, tail) = rest.split_at(size);
        rest = tail;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_counts_and_hostile_texts() {
        assert_eq!(count(""), Tokens(0));
        assert_eq!(count("hello world"), Tokens(2));
        assert!(is_loaded());
        assert!(count(&" ".repeat(1_000_000)).0 > 1000);
        assert!(count(&"字".repeat(20_000)).0 >= 10_000);
    }

    proptest! {
        #[test]
        fn pieces_are_the_text(text in "[a-z😀字\n ]{0,300}", times in 1usize..200) {
            let text = text.repeat(times);
            prop_assert!(pieces(&text).all(|p| p.len() <= PIECE && !p.is_empty()));
            prop_assert_eq!(pieces(&text).collect::<String>(), text);
        }
    }
}
