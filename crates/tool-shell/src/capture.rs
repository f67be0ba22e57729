//! Keeps the head and the tail of an output in bounded memory, and counts the bytes and lines that are left out between them.
//!
//! Pure. Takes cleaned bytes, gives the text for the model.

use becket_tool::Host;

/// The part of an output that the model sees: this many bytes at its start (`head`) and at its end (`tail`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub head: usize,
    pub tail: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self { head: 10 * 1024, tail: 20 * 1024 }
    }
}

#[derive(Debug)]
pub(crate) struct Capture {
    window: Window,
    head: Vec<u8>,
    /// The bytes after the head. Only the last `window.tail` are needed; up to twice as many are kept, see [`Self::push`].
    tail: Vec<u8>,
    /// Bytes pushed so far.
    total: u64,
    newlines: u64,
}

/// An output that fits, or its two ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub head: String,
    /// If the output does not fit: the number of bytes and of lines left out after `head`, and the tail that follows them.
    pub cut: Option<(u64, u64, String)>,
}

impl Shown {
    /// The part at the end.
    pub(crate) fn end(&self) -> &str {
        self.cut.as_ref().map_or(&self.head, |(_, _, tail)| tail)
    }

    /// Removes from the end, and returns, what may be the beginning of a secret. `before`: the end of the output that earlier looks
    /// took.
    pub(crate) fn hold_back(&mut self, before: &str, host: &dyn Host) -> String {
        let end = match &mut self.cut {
            Some((_, _, tail)) => tail,
            None => &mut self.head,
        };
        host.unfinished_secret(before, end).map_or_else(String::new, |at| end.split_off(at))
    }
}

impl Capture {
    pub(crate) fn new(window: Window) -> Self {
        Self { window, head: Vec::new(), tail: Vec::new(), total: 0, newlines: 0 }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.newlines += newlines(bytes);
        let room = (self.window.head - self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        let rest = &bytes[room..];
        let keep = self.window.tail;
        if rest.len() >= keep {
            self.tail.clear();
            self.tail.extend_from_slice(&rest[rest.len() - keep..]);
        } else {
            self.tail.extend_from_slice(rest);
            // Old bytes are dropped only when there are twice as many as needed, because moving the others costs time.
            if self.tail.len() > keep * 2 {
                self.tail.drain(..self.tail.len() - keep);
            }
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The bytes since `total` was `since`, but at most the newest `max`.
    pub(crate) fn newest(&self, since: u64, max: usize) -> String {
        let wanted = usize::try_from(self.total - since).unwrap_or(max).min(max);
        let from_tail = wanted.min(self.tail.len());
        let from_head = (wanted - from_tail).min(self.head.len());
        let mut bytes = self.head[self.head.len() - from_head..].to_vec();
        bytes.extend_from_slice(&self.tail[self.tail.len() - from_tail..]);
        let start = bytes.iter().position(|b| b & 0xC0 != 0x80).unwrap_or(bytes.len());
        printable(&bytes[start..])
    }

    pub(crate) fn show(mut self) -> Shown {
        let fits = self.total <= (self.window.head + self.window.tail) as u64;
        if fits {
            self.head.append(&mut self.tail);
            let whole = printable(&self.head);
            // A broken byte becomes a three-byte replacement character, so the text can be longer than the bytes were.
            if whole.len() <= (self.window.head + self.window.tail) * 3 / 2 {
                return Shown { head: whole, cut: None };
            }
            self.tail = self.head.split_off(self.window.head.min(self.head.len()));
        }
        let head = head_within(&self.head, self.window.head);
        let tail = tail_within(&self.tail, self.window.tail);
        let bytes = self.total - (head.len() + tail.len()) as u64;
        let lines = self.newlines - newlines(head) - newlines(tail);
        Shown { head: printable(head), cut: Some((bytes, lines, printable(tail))) }
    }
}

fn newlines(bytes: &[u8]) -> u64 {
    bytes.iter().map(|b| u64::from(*b == b'\n')).sum()
}

/// Converts to text: broken UTF-8 becomes replacement characters, C1 control characters are removed.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.chars().any(|c| ('\u{80}'..='\u{9F}').contains(&c)) {
        text.chars().filter(|c| !('\u{80}'..='\u{9F}').contains(c)).collect()
    } else {
        text.into_owned()
    }
}

fn head_within(bytes: &[u8], max: usize) -> &[u8] {
    let mut part = &bytes[..bytes.len().min(max)];
    if String::from_utf8_lossy(part).len() > max * 3 / 2 {
        part = &part[..part.len() / 3];
    }
    match part.iter().rposition(|b| *b == b'\n') {
        Some(at) if at + 1 > part.len() / 2 => &part[..=at],
        // Half of a key would not be recognised as a secret and masked, so the cut is between words.
        _ if is_inside_word(bytes, part.len()) && last_border(part).is_some() => {
            &part[..last_border(part).map_or(part.len(), |at| at + 1)]
        }
        _ => match std::str::from_utf8(part) {
            Err(e) if e.error_len().is_none() => &part[..e.valid_up_to()],
            _ => part,
        },
    }
}

/// A cut moves back at most this many bytes to the beginning of a word.
const LONGEST_WORD: usize = 512;

fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace()
}

fn is_inside_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && bytes.get(at).is_some_and(|next| !is_blank(*next)) && !is_blank(bytes[at - 1])
}

fn last_border(part: &[u8]) -> Option<usize> {
    let near = part.len().saturating_sub(LONGEST_WORD);
    part[near..].iter().rposition(|byte| is_blank(*byte)).map(|at| near + at)
}

fn tail_within(bytes: &[u8], max: usize) -> &[u8] {
    let mut part = &bytes[bytes.len() - bytes.len().min(max)..];
    if String::from_utf8_lossy(part).len() > max * 3 / 2 {
        part = &part[part.len() - part.len() / 3..];
    }
    let start = bytes.len() - part.len();
    let starts_in_word = start == 0 || is_inside_word(bytes, start);
    let first_border = part.iter().take(LONGEST_WORD).position(|byte| is_blank(*byte));
    match part.iter().position(|b| *b == b'\n') {
        Some(at) if at + 1 < part.len() / 2 => &part[at + 1..],
        _ if starts_in_word && first_border.is_some() => &part[first_border.unwrap_or(0)..],
        _ => {
            let start = part.iter().take(4).position(|b| b & 0xC0 != 0x80).unwrap_or(0);
            &part[start..]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn show(window: Window, parts: &[&[u8]]) -> Shown {
        let mut capture = Capture::new(window);
        for part in parts {
            capture.push(part);
        }
        capture.show()
    }

    #[test]
    fn cut_at_lines_and_characters_with_an_exact_account() {
        let window = Window { head: 8, tail: 8 };
        let cut = |head: &str, bytes, lines, tail: &str| Shown {
            head: head.into(),
            cut: Some((bytes, lines, tail.into())),
        };
        for (text, want) in [
            ("short\n", Shown { head: "short\n".into(), cut: None }),
            ("1234567\n8901234\n", Shown { head: "1234567\n8901234\n".into(), cut: None }),
            ("aaaaa\nbbbb\ncccc\nddddd\n", cut("aaaaa\n", 10, 2, "ddddd\n")),
            ("aaaaaaaaaaaaaaaaaaaaaaaa", cut("aaaaaaaa", 8, 0, "aaaaaaaa")),
            ("ééééé0ééééé0ééééé", cut("éééé", 16, 0, "éééé")),
            ("aaaaaaaéééééééaaaaaaa", cut("aaaaaaa", 14, 0, "aaaaaaa")),
        ] {
            let got = show(window, &[text.as_bytes()]);
            assert_eq!(got, want, "{text}");
        }
    }

    #[test]
    fn newest_gives_the_last_bytes() {
        let mut capture = Capture::new(Window { head: 4, tail: 4 });
        capture.push(b"abcdef");
        assert_eq!(capture.newest(0, 100), "abcdef");
        assert_eq!(capture.newest(5, 100), "f");
        assert_eq!(capture.newest(0, 3), "def");
        assert_eq!(capture.newest(6, 3), "");
    }

    proptest! {
        #[test]
        fn nothing_is_lost_from_the_account(
            parts in proptest::collection::vec(proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'a'), any::<u8>()], 0..40), 0..8),
            head in 1usize..20, tail in 1usize..20,
        ) {
            let window = Window { head, tail };
            let all: Vec<u8> = parts.concat();
            let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            let mut capture = Capture::new(window);
            for slice in &slices {
                capture.push(slice);
            }
            prop_assert!(capture.head.len() + capture.tail.len() <= head + 2 * tail + 1);
            let ascii = all.iter().all(u8::is_ascii);
            let shown = capture.show();
            match shown.cut {
                None => prop_assert_eq!(shown.head, printable(&all)),
                Some((bytes, lines, rest)) if ascii => {
                    prop_assert_eq!(shown.head.len() as u64 + bytes + rest.len() as u64, all.len() as u64);
                    let (a, b) = (shown.head.len(), all.len() - rest.len());
                    prop_assert_eq!(lines, newlines(&all[a..b]));
                    prop_assert!(all.starts_with(shown.head.as_bytes()) && all.ends_with(rest.as_bytes()));
                }
                Some((bytes, ..)) => prop_assert!(bytes <= all.len() as u64),
            }
        }
    }
}
