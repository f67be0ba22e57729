//! The size of text in tokens: a base estimate from its bytes, in one pass, without a tokenizer.
//!
//! Tokenizers first split text where the kind of character changes, then merge inside the pieces. So a text
//! is divided into runs of one [`Class`] of bytes. A run has one cost for its first byte and another for each
//! further byte ([`COSTS`]). A word is cheap regardless of its length; digits and alternating letters (times,
//! hashes, base64) are not.
//!
//! The constants are a least-squares fit, without negative values, to the counts of the `o200k_base`
//! vocabulary over 1,735 pieces of 3 kB of 50 kinds (code in 12 languages, configuration, prose in 15
//! languages, logs, dumps, ids, base64). They are raised by a tenth, because other vendors' vocabularies
//! count more, and an overestimate is detected too early rather than too late.
//! `crates/agent/tests/estimates.rs` tests mixed sessions.
//!
//! Invariants: never zero for text that is sent; at most two tokens per byte; the parts of a text cost at
//! least as much as the whole (except for long runs of base64). The base estimate is the same for every
//! model; [`super::Estimator`] scales it.

use becket_types::Tokens;
use serde_json::Value;
use std::io;

/// A run of base64 letters of this length counts as base64.
const BASE64_RUN: usize = 256;
/// Cost of one byte of base64 in hundredths of a token: 1.5 bytes per token.
pub(super) const BASE64: u64 = 67;

/// Kinds of bytes. The leading byte of a wide character determines its kind; the others are `Rest`.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Class {
    Lower,
    Upper,
    Digit,
    Space,
    Line,
    Point,
    Bracket,
    Joiner,
    Sign,
    Rest,
    Latin,
    Alphabet,
    Symbol,
    Kana,
    Han,
    Hangul,
}

/// Cost in hundredths of a token of the first byte of a run and of each further byte, in the order of
/// [`Class`].
pub(super) const COSTS: [(u8, u8); 16] = [
    (55, 13),  // lower case
    (87, 24),  // upper case
    (173, 31), // digits
    (22, 10),  // blanks
    (126, 2),  // line ends, tabs
    (41, 36),  // . , : ; ! ? and quotes
    (54, 23),  // brackets
    (35, 31),  // - _
    (65, 1),   // all other signs
    (14, 7),   // the rest of a wide character
    (19, 27),  // é ß ñ and the like
    (21, 27),  // Greek, Cyrillic, Hebrew, Arabic, Thai, Indic scripts
    (1, 27),   // dashes, boxes, arrows, emoji
    (54, 27),  // kana, full-width forms
    (83, 27),  // Chinese characters
    (59, 27),  // Hangul
];

/// [`Class`] of each byte.
pub(super) const CLASSES: [u8; 256] = classes();
/// Cost from [`COSTS`] of a byte. Index: class of the previous byte (high half) and its own class (low half).
const BY_PAIR: [u8; 256] = by_pair();
/// Sum of the [`BY_PAIR`] costs of two neighbouring bytes. Index: the classes of the byte before them, of the
/// first and of the second, four bits each.
static BY_THREE: [u16; 4096] = by_three();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        table[at] = class(at as u8) as u8;
        at += 1;
    }
    table
}

const fn by_pair() -> [u8; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let (before, this) = (at >> 4, at & 15);
        table[at] = if before == this { COSTS[this].1 } else { COSTS[this].0 };
        at += 1;
    }
    table
}

const fn by_three() -> [u16; 4096] {
    let mut table = [0; 4096];
    let mut at = 0;
    while at < 4096 {
        table[at] = BY_PAIR[at >> 4] as u16 + BY_PAIR[at & 255] as u16;
        at += 1;
    }
    table
}

const fn class(byte: u8) -> Class {
    match byte {
        b'a'..=b'z' => Class::Lower,
        b'A'..=b'Z' => Class::Upper,
        b'0'..=b'9' => Class::Digit,
        b' ' => Class::Space,
        b'\n' | b'\r' | b'\t' => Class::Line,
        b'.' | b',' | b':' | b';' | b'!' | b'?' | b'\'' | b'"' | b'`' => Class::Point,
        b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'<' | b'>' => Class::Bracket,
        b'_' | b'-' => Class::Joiner,
        0x80..=0xBF => Class::Rest,
        0xC0..=0xC9 => Class::Latin,
        0xCA..=0xE1 => Class::Alphabet,
        0xE2 | 0xF0..=0xFF => Class::Symbol,
        0xE3 | 0xEF => Class::Kana,
        0xE4..=0xE9 => Class::Han,
        0xEA..=0xEE => Class::Hangul,
        _ => Class::Sign,
    }
}

/// Returns the cost in hundredths of a token.
fn cost(bytes: &[u8]) -> u64 {
    let (mut sum, mut from) = (0, 0);
    for (start, end) in long_runs(bytes) {
        sum += runs(&bytes[from..start]) + (end - start) as u64 * BASE64;
        from = end;
    }
    sum + runs(&bytes[from..])
}

/// Returns the cost of the runs in hundredths of a token.
fn runs(bytes: &[u8]) -> u64 {
    let Some(first) = bytes.first() else { return 0 };
    let class = |byte: u8| usize::from(CLASSES[usize::from(byte)]);
    // Any class but that of the first byte, so that the first byte starts a run.
    let mut before = (class(*first) + 1) & 15;
    let (twos, last) = bytes.as_chunks::<2>();
    let mut sum = 0;
    for [one, two] in twos {
        let (one, two) = (class(*one), class(*two));
        sum += u64::from(BY_THREE[(before << 8 | one << 4 | two) & 0xFFF]);
        before = two;
    }
    for byte in last {
        sum += u64::from(BY_PAIR[(before << 4 | class(*byte)) & 0xFF]);
    }
    sum
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_')
}

/// Returns runs of at least [`BASE64_RUN`] base64 letters, as `(start, end)`. Examines every 128th byte
/// first, because a long run contains at least one of them.
pub(super) fn long_runs(bytes: &[u8]) -> impl Iterator<Item = (usize, usize)> + '_ {
    let stride = BASE64_RUN / 2;
    let mut at = stride;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            if !is_base64(bytes[at]) {
                at += stride;
                continue;
            }
            let start = bytes[..at].iter().rposition(|b| !is_base64(*b)).map_or(0, |i| i + 1);
            let end = bytes[at..].iter().position(|b| !is_base64(*b)).map_or(bytes.len(), |i| at + i);
            at = end + stride;
            if end - start >= BASE64_RUN {
                return Some((start, end));
            }
        }
        None
    })
}

/// Returns the base estimate of a text that is sent.
pub fn estimate_text(text: &str) -> Tokens {
    Tokens(cost(text.as_bytes()).div_ceil(100))
}

/// Returns the base estimate of a JSON value as it is sent, without making its text.
pub fn estimate_json(value: &Value) -> Tokens {
    let mut counter = Counter(0);
    // Counting cannot fail. A value that cannot be serialised is not sent either.
    let _ = serde_json::to_writer(&mut counter, value);
    Tokens(counter.0.div_ceil(100))
}

/// Counts hundredths of tokens of everything written to it.
struct Counter(u64);

impl io::Write for Counter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0 += cost(buf);
        Ok(buf.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn estimates_follow_the_kind_of_text() {
        for (text, want) in [
            (String::new(), 0),
            ("a".to_owned(), 1),
            ("the quick brown fox ".repeat(18), 84),
            ("漢字".repeat(50), 104),
            ("QUJD".repeat(75), 201),
            ("10:23:54.120 ".repeat(20), 199),
            // The run is too short to count as base64.
            ("QUJDREVG ".repeat(40), 111),
        ] {
            assert_eq!(estimate_text(&text), Tokens(want), "{}", text.chars().take(20).collect::<String>());
        }
        let (before, after) = ("word ".repeat(72), " word".repeat(72));
        let apart = estimate_text(&before) + estimate_text(&after) + Tokens(600 * 2 / 3);
        let blob = format!("{before}{}{after}", "A".repeat(600));
        assert!(estimate_text(&blob).0.abs_diff(apart.0) <= 3);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]
        #[test]
        fn estimates_are_bounded_and_parts_cost_at_least_the_whole(text in ".{0,60}", at in 0usize..100) {
            let tokens = estimate_text(&text).0;
            prop_assert!(tokens <= 2 * text.len() as u64);
            prop_assert!(text.is_empty() || tokens > 0);
            let (left, right) = text.split_at(text.floor_char_boundary(at));
            prop_assert!(tokens <= estimate_text(left).0 + estimate_text(right).0);
        }

        #[test]
        fn two_bytes_at_a_time_cost_what_they_cost_one_by_one(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let class = |at: usize| usize::from(CLASSES[usize::from(bytes[at])]);
            let begins = |at: usize| at == 0 || class(at - 1) != class(at);
            let cost = |at| if begins(at) { COSTS[class(at)].0 } else { COSTS[class(at)].1 };
            prop_assert_eq!(runs(&bytes), (0..bytes.len()).map(|at| u64::from(cost(at))).sum::<u64>());
        }

        #[test]
        fn a_long_run_is_found_wherever_it_is(before in 0usize..700, run in 256usize..900, after in 0usize..700) {
            let text = format!("{}{}{}", " ".repeat(before), "A".repeat(run), ".".repeat(after));
            prop_assert_eq!(long_runs(text.as_bytes()).collect::<Vec<_>>(), [(before, before + run)]);
        }
    }
}
