//! Single lines of private keys, as `sed -n 5p key.pem` or `grep` print them: one line of a text, or two in sequence, without the
//! first and last line of the block.
//!
//! Nothing marks such a line. It is recognised by its width (64 characters as in PEM, 70 as in OpenSSH keys), its letters (both cases and
//! digits), and its entropy, and only if it is alone in its line of text. This is a guess, so it is used only for texts that are given to
//! others. Hashes in hexadecimal have one case. Sums in lock files follow `sha512-` or a name. Images and other data have longer lines, or
//! more than two. If a text shows one line of a certificate, it is masked too: nothing distinguishes it from a line of a key.

use super::private_key::{LINE, WIDTHS, body, is_public, lines, whole_lines};
use regex::Regex;
use std::ops::Range;
use std::sync::LazyLock;

/// Entropy of a line in bits per character. Among 20,000 lines of random bytes, one is below this range; among 200,000, none is above it.
/// Long names and most text in base64 are below; the alphabet of base64 itself, which programs write in a line, is above.
const RANDOM: std::ops::Range<f64> = 4.75..5.8;
/// Maximum number of lines in sequence. Three or more are left to [`super::private_key`], which also recognises when they are no key.
const MOST: usize = 2;

/// A line of text that contains only a line of a key, in group 1. Before it there may be a line number and the path of a file, as `grep`
/// writes them; around it quotes and other signs.
static LONE_KEY_LINE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^[^A-Za-z0-9+/=]*(?:(?:[^\s:]*[:-])?[0-9]{1,6}[\t:|-]|[A-Za-z0-9_.~/+@-]*[./][A-Za-z0-9_.~/+@-]*:)?",
        r"[^A-Za-z0-9+/=]*?([A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{70})[^A-Za-z0-9+/=]*$",
    ))
    .ok()
});

/// True if a text may contain a single line of a key.
pub(super) fn may_have(text: &str) -> bool {
    whole_lines(text).next().is_some()
}

/// Returns the ranges of the key lines in order, without line numbers and signs around them.
pub(super) fn find(text: &str) -> Vec<Range<usize>> {
    if !may_have(text) {
        return Vec::new();
    }
    let lines: Vec<Range<usize>> = lines(text, 0..text.len()).collect();
    let alone = |line: &Range<usize>| {
        let found = LONE_KEY_LINE.as_ref()?.captures(&text[line.clone()])?.get(1)?.range();
        Some(line.start + found.start..line.start + found.end)
    };
    let mut out = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let Some(first) = alone(&lines[at]) else {
            at += 1;
            continue;
        };
        let same = |line: &&Range<usize>| alone(line).is_some_and(|next| next.len() == first.len());
        let count = lines[at..].iter().take_while(same).count();
        let (before, after) = (at.checked_sub(1).map(|at| &lines[at]), lines.get(at + count));
        let group: Vec<Range<usize>> = lines[at..at + count].iter().filter_map(alone).collect();
        at += count;
        let encoded = |line: Option<&Range<usize>>| {
            let line = line?;
            let found = body(&text[line.clone()])?;
            let is_encoded = found.len() >= LINE || text[line.clone()][found.clone()].ends_with('=');
            is_encoded.then_some(line.start + found.start..line.start + found.end)
        };
        // The last line of a key is shorter than the others. If the next line is longer, or if there is encoded data before, the lines
        // belong to other data.
        let tail = encoded(after);
        let is_apart = encoded(before).is_none() && tail.as_ref().is_none_or(|tail| tail.len() < first.len());
        if count <= MOST && is_apart && group.iter().all(|line| is_of_a_key(&text[line.clone()])) {
            let whole = first.start..group.last().map_or(first.end, |last| last.end);
            if !is_public(text, &whole) {
                out.extend(group);
                if let Some(tail) = tail {
                    out.push(tail);
                    at += 1;
                }
            }
        }
    }
    out
}

/// True if the line has one of the usual widths, letters of both cases and digits, and the entropy of random bytes.
fn is_of_a_key(line: &str) -> bool {
    let has = |test: fn(&u8) -> bool| line.bytes().any(|byte| test(&byte));
    WIDTHS.contains(&line.len())
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_digit)
        && RANDOM.contains(&super::forms::entropy(line))
}

#[cfg(test)]
mod tests {
    use super::super::{find, mask, mask_published};

    /// Letters that look random, the same in each run.
    fn random(seed: u64, length: usize) -> String {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let letter = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(LETTERS[(state >> 40) as usize % 64])
        };
        (0..length).map(letter).collect()
    }

    #[test]
    fn one_line_of_a_key_is_masked_in_exports() {
        for seed in 0..2_000 {
            for width in [64, 70] {
                let (line, next) = (random(seed, width), random(seed + 10_000, width));
                for text in [
                    line.clone(),
                    format!("{line}\n"),
                    format!("$ sed -n 5p key.pem\n{line}\n[exit 0]"),
                    format!("5:{line}"),
                    format!("    5\t{line}"),
                    format!("keys/k.pem:5:{line}"),
                    format!("keys/k.pem-6-{line}"),
                    format!("keys/k.pem:{line}"),
                    format!("/home/u/.ssh/id_rsa:{line}"),
                    format!("  | {line} |"),
                    format!("\"{line}\","),
                    format!("{line}\\nnext line"),
                    format!("{line}\n{next}"),
                    format!("5:{line}\n6:{next}"),
                    format!("{line}\n{next}\n{}==", random(seed, 20)),
                    format!("{line}\nsome words\n{next}"),
                ] {
                    let (masked, count) = mask(&text);
                    let is_left = masked.contains(&line[1..]) || masked.contains(&next[1..]);
                    assert!(!is_left && count > 0, "{text}\n->\n{masked}");
                    assert_eq!(mask(&masked), (masked.clone(), 0), "{text}");
                    assert_eq!(find(&text).len(), count, "{text}");
                    assert_eq!(mask_published(&text).0, text, "the model works with it as it is");
                }
            }
        }
    }

    #[test]
    fn what_else_has_such_letters_stays() {
        let line = random(1, 64);
        let lines = |width: usize, count: u64| {
            (0..count).map(|n| random(n + 1, width)).collect::<Vec<_>>().join("\n")
        };
        let hexadecimal = "0f1e2d3c4b5a69788796a5b4c3d2e1f0".repeat(2);
        for text in [
            // Hashes.
            hexadecimal.clone(),
            hexadecimal.to_uppercase(),
            format!("{hexadecimal}  file.tar.gz"),
            format!("sha384-{line}"),
            format!("\"integrity\": \"sha384-{line}\","),
            format!("  integrity sha384-{line}"),
            format!("sha384:{line}"),
            format!("example.com/m v1.2.3 h1:{}=", random(3, 43)),
            format!("\"integrity\": \"sha512-{}==\"", random(3, 86)),
            format!("--hash=sha256:{hexadecimal}"),
            // Images and other data.
            format!("data:image/png;base64,{}", random(4, 4_000)),
            format!("<img src=\"data:image/png;base64,{line}\">"),
            lines(76, 12),
            lines(76, 1),
            format!("{}\n{line}", lines(76, 1)),
            format!("{line}\n{}", lines(76, 2)),
            random(5, 63),
            random(5, 65),
            random(5, 128),
            // Public keys and certificates.
            format!("ssh-ed25519 {} me@host", random(6, 68)),
            format!("-----BEGIN CERTIFICATE-----\n{line}"),
            format!("{line}\n-----END CERTIFICATE-----"),
            format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----", lines(64, 9)),
            // Names, words, values with a name, and the alphabet itself.
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".to_owned(),
            "aVeryLongNameOfAFunctionThatTests2ThingsAtTheSameTimeAndIsReadableXx"[..64].to_owned(),
            "src/main/java/org/example/project/module1/AbstractFactoryOfBeans"[..64].to_owned(),
            "/".repeat(64),
            format!("{line} and more words"),
            format!("the value {line}"),
            format!("\"etag\": \"{line}\""),
            format!("cursor={line}"),
            format!("const TABLE: &str = \"{line}\";"),
        ] {
            assert_eq!(mask(&text), (text.clone(), 0), "{text}");
        }
    }
}
