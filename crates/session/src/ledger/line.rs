//! One line of a ledger: conversion of a commit to bytes, and verification of these bytes.
//!
//! A line is `{"prev":"<64 hex>","entries":[…],"hash":"<64 hex>"}` followed by a newline. `hash` is the
//! SHA-256 of every byte of the line before `,"hash"`. It covers `prev`, the hash of the previous line (64
//! zeros in the first line), and thereby the whole history. The hash is in the last 75 bytes, so a line can
//! be checked without a JSON parser.
//!
//! Knows no files and no order of lines.

use becket_types::hex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

/// `prev` of the first line, which has no previous one.
pub const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Maximum size of a line in bytes. Longer ones are neither written nor read.
pub const MAX_LINE: usize = 256 << 20;

const HASH: usize = 64;
const PREV_KEY: &[u8] = br#"{"prev":""#;
const ENTRIES_KEY: &[u8] = br#"","entries":"#;
const HASH_KEY: &[u8] = br#","hash":""#;
const END: &[u8] = br#""}"#;

/// A line under construction. Entries are serialised directly after the start of the line, so that long ones
/// are not copied.
#[derive(Debug)]
pub(crate) struct Draft(Vec<u8>);

impl Draft {
    const HEAD: usize = PREV_KEY.len() + HASH + ENTRIES_KEY.len();
    const END: usize = HASH_KEY.len() + HASH + END.len() + 1;

    /// Starts the line after the one with the hash `prev`, with a JSON array of entries.
    pub(crate) fn new(prev: &str, entries: &impl Serialize) -> Result<Self, serde_json::Error> {
        let mut line = Vec::with_capacity(1024);
        for piece in [PREV_KEY, prev.as_bytes(), ENTRIES_KEY] {
            line.extend_from_slice(piece);
        }
        serde_json::to_writer(&mut line, entries)?;
        Ok(Self(line))
    }

    pub(crate) fn entries(&self) -> &[u8] {
        self.0.get(Self::HEAD..).unwrap_or_default()
    }

    /// Returns the complete line with its newline, and its hash.
    pub(crate) fn finish(self) -> (Vec<u8>, String) {
        let Self(mut line) = self;
        let hash = hex(&Sha256::digest(&line));
        line.reserve_exact(Self::END);
        for piece in [HASH_KEY, hash.as_bytes(), END, b"\n"] {
            line.extend_from_slice(piece);
        }
        (line, hash)
    }
}

/// The parts of a line (without its newline) that ends like a complete one. Its hash is not verified yet.
pub(crate) struct Framed<'a> {
    body: &'a [u8],
    /// The hash that the line claims.
    pub hash: &'a str,
}

/// Splits a line; `None` if its end is not that of a complete line.
pub(crate) fn frame(line: &[u8]) -> Option<Framed<'_>> {
    let rest = line.strip_suffix(END)?;
    let (rest, hash) = rest.split_at_checked(rest.len().checked_sub(HASH)?)?;
    let body = rest.strip_suffix(HASH_KEY)?;
    let is_hex = hash.iter().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(b));
    let hash = std::str::from_utf8(hash).ok().filter(|_| is_hex)?;
    body.starts_with(b"{").then_some(Framed { body, hash })
}

/// A commit of a newer version may have more keys, but must have these two.
#[derive(Deserialize)]
struct UnknownCommit<'a> {
    prev: String,
    #[serde(borrow)]
    entries: &'a RawValue,
}

impl<'a> Framed<'a> {
    /// True if the bytes match the hash.
    pub(crate) fn is_authentic(&self) -> bool {
        hex(&Sha256::digest(self.body)) == self.hash
    }

    /// Returns `prev` and the JSON of `entries` if the line starts with the bytes that [`Draft`] writes.
    fn split(&self) -> Option<(&'a str, &'a [u8])> {
        let rest = self.body.strip_prefix(PREV_KEY)?;
        let (prev, rest) = rest.split_at_checked(HASH)?;
        Some((std::str::from_utf8(prev).ok()?, rest.strip_prefix(ENTRIES_KEY)?))
    }

    /// Returns `prev` and the JSON of `entries`. `line` must be the line that was passed to [`frame`].
    pub(crate) fn parts(&self, line: &'a [u8]) -> Result<(String, &'a [u8]), serde_json::Error> {
        if let Some((prev, entries)) = self.split() {
            return Ok((prev.to_owned(), entries));
        }
        let loose: UnknownCommit<'a> = serde_json::from_slice(line)?;
        Ok((loose.prev, loose.entries.get().as_bytes()))
    }
}

/// True if arrays and objects of a JSON text are nested deeper than `limit`.
pub(crate) fn is_deeper(json: &[u8], limit: usize) -> bool {
    // A text cannot be nested deeper than it has opening brackets. Counting those is fast, so it rules out almost every text.
    json.iter().map(|byte| usize::from(byte | 0x20 == b'{')).sum::<usize>() > limit && depth(json) > limit
}

/// Returns the nesting depth of arrays and objects in a JSON text.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0usize, 0usize, false, false);
    for &byte in json {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_proves_itself_and_any_changed_byte_shows() {
        let entries = serde_json::json!([{"seq": 1, "time": 2, "kind": "interrupt"}]);
        let draft = Draft::new(GENESIS, &entries).unwrap();
        let json = draft.entries().to_vec();
        let (line, hash) = draft.finish();
        let line = line.strip_suffix(b"\n").unwrap();
        let framed = frame(line).unwrap();
        assert_eq!(framed.hash, hash);
        assert!(framed.is_authentic());
        let (prev, entries) = framed.parts(line).unwrap();
        assert_eq!(prev, GENESIS);
        assert_eq!(entries, json);
        assert_eq!(serde_json::from_slice::<serde_json::Value>(entries).unwrap()[0]["seq"], 1);
        for i in 0..line.len() {
            let mut changed = line.to_vec();
            changed[i] ^= 1;
            assert!(!frame(&changed).is_some_and(|f| f.is_authentic()), "byte {i}");
            assert!(frame(&line[..i]).is_none(), "cut at {i}");
        }
    }

    #[test]
    fn keys_of_a_newer_version_are_passed_over() {
        let body = format!(r#"{{"prev":"{GENESIS}","node":"a","entries":[]"#);
        let hash = hex(&Sha256::digest(body.as_bytes()));
        let line = format!(r#"{body},"hash":"{hash}"}}"#);
        let framed = frame(line.as_bytes()).unwrap();
        assert!(framed.is_authentic());
        assert_eq!(framed.parts(line.as_bytes()).unwrap(), (GENESIS.to_owned(), &b"[]"[..]));
    }

    #[test]
    fn depth_counts_brackets_outside_strings() {
        for (json, want) in [("1", 0), ("[]", 1), (r#"{"a":[{}]}"#, 3), (r#"["[[\"[[",{}]"#, 2)] {
            assert_eq!(depth(json.as_bytes()), want, "{json}");
            assert!(is_deeper(json.as_bytes(), want.wrapping_sub(1)) || want == 0, "{json}");
            assert!(!is_deeper(json.as_bytes(), want), "{json}");
        }
    }
}
