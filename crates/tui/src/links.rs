//! Hyperlinks (OSC 8) and prompt marks (OSC 133): how they are attached to text, and their bytes.
//!
//! Model: cells and spans have no field for an address. So the address is stored here once, and its number is used as
//! the underline colour, which has no other use. The terminal's pen turns the number into the sequence when it writes.
//!
//! Invariants:
//! - The bytes of an address are printable ASCII, so an address written by a model can neither end the sequence nor
//!   begin another.
//! - Nothing is written before [`switch_on`]: not in plain lines, and not on terminals that would show the bytes.
//! - At most 10,000 addresses of at most 2,083 bytes are stored. Later ones are plain text.

use ratatui::style::{Color, Style};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Maximum number of addresses that are stored in a session.
const MOST: usize = 10_000;
/// Longest address in bytes. Terminals accept about this length; VTE ignores longer ones.
const LONGEST: usize = 2_083;
/// Number that belongs to no address: it marks a line in which a prompt of the user begins.
const PROMPT: u32 = 0xff_ffff;
/// Written before a prompt in the scrollback, so that the terminal can jump to the prompt.
pub(crate) const PROMPT_MARK: &[u8] = b"\x1b]133;A\x1b\\";

static ON: AtomicBool = AtomicBool::new(false);
static ADDRESSES: LazyLock<Mutex<Addresses>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Addresses {
    numbers: HashMap<Arc<str>, u32>,
    all: Vec<Arc<str>>,
}

/// Turns links and marks on, for terminals that support or ignore both.
pub fn switch_on() {
    ON.store(true, Ordering::Relaxed);
}

pub(crate) fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// True unless the value of TERM names a terminal that may show the bytes of an unknown sequence.
pub fn is_harmless(term: &str) -> bool {
    !(term.is_empty()
        || ["dumb", "linux", "cons25", "emacs", "eterm", "vt", "sun"].iter().any(|t| term.starts_with(t)))
}

/// Returns `style` with a link to `address`, or unchanged if that is not an address of the web, of mail or of a file.
pub fn to(address: &str, style: Style) -> Style {
    number(address).map_or(style, |number| style.underline_color(coded(number)))
}

/// Returns `style` with a link to a path on this machine.
pub(crate) fn to_path(path: &str, style: Style) -> Style {
    if path.starts_with('/') { to(&format!("file://{}", encoded(path)), style) } else { style }
}

/// Returns the style of an empty span that marks the start of a prompt.
pub(crate) fn prompt_mark() -> Style {
    Style::new().underline_color(coded(PROMPT))
}

/// True for the style of [`prompt_mark`].
pub(crate) fn is_prompt_mark(style: Style) -> bool {
    style.underline_color == Some(coded(PROMPT))
}

/// Returns the range of each web address in a text: from `http://` or `https://` to the next space, without punctuation
/// at the end of a sentence.
pub(crate) fn in_text(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(found) = text[at..].find("http") {
        let from = at + found;
        let rest = &text[from..];
        let scheme = ["https://", "http://"].iter().find(|scheme| rest.starts_with(**scheme));
        let Some(scheme) = scheme else {
            at = from + 4;
            continue;
        };
        let ends = |c: char| c.is_whitespace() || c.is_control() || "<>\"'`|│".contains(c);
        let whole = &rest[..rest.find(ends).unwrap_or(rest.len())];
        let mut trimmed = whole.trim_end_matches(['.', ',', ';', ':', '!', '?', '*', '_']);
        // A closing bracket belongs to the address only if the address also contains the opening one.
        for (open, close) in [('(', ')'), ('[', ']')] {
            while trimmed.ends_with(close) && trimmed.matches(close).count() > trimmed.matches(open).count() {
                trimmed = trimmed[..trimmed.len() - 1].trim_end_matches(['.', ',', ';', ':', '!', '?']);
            }
        }
        if trimmed.len() > scheme.len() {
            out.push(from..from + trimmed.len());
        }
        at = from + whole.len().max(4);
    }
    out
}

fn number(address: &str) -> Option<u32> {
    let scheme =
        ["https://", "http://", "mailto:", "file:///"].iter().any(|scheme| address.starts_with(scheme));
    if !scheme || address.chars().any(char::is_control) {
        return None;
    }
    let address = encoded(address);
    if address.len() > LONGEST {
        return None;
    }
    let mut kept = ADDRESSES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(number) = kept.numbers.get(address.as_str()) {
        return Some(*number);
    }
    let number = u32::try_from(kept.all.len()).ok().filter(|n| (*n as usize) < MOST)?;
    let address: Arc<str> = address.into();
    kept.all.push(Arc::clone(&address));
    kept.numbers.insert(address, number);
    Some(number)
}

/// Replaces bytes that are not printable ASCII, spaces and delimiters of addresses by `%XX`.
fn encoded(address: &str) -> String {
    let mut out = String::with_capacity(address.len());
    for byte in address.bytes() {
        if matches!(byte, b'!'..=b'~')
            && !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}')
        {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn coded(number: u32) -> Color {
    let [_, r, g, b] = number.to_be_bytes();
    Color::Rgb(r, g, b)
}

/// Returns the sequence between two underline colours; empty if links are off or both colours mean the same.
pub(crate) fn change(from: Color, to: Color) -> String {
    if from == to || !is_on() {
        return String::new();
    }
    let number = |colour| match colour {
        Color::Rgb(r, g, b) => Some(u32::from_be_bytes([0, r, g, b])).filter(|number| *number != PROMPT),
        _ => None,
    };
    match (number(from), number(to)) {
        // The number is also the link's id, so that a terminal treats the rows of a wrapped link as one link.
        (_, Some(to)) => {
            let kept = ADDRESSES.lock().unwrap_or_else(PoisonError::into_inner);
            kept.all
                .get(to as usize)
                .map(|address| format!("\x1b]8;id=b{to};{address}\x1b\\"))
                .unwrap_or_default()
        }
        (Some(_), None) => "\x1b]8;;\x1b\\".to_owned(),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(text: &str) -> Vec<&str> {
        in_text(text).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn addresses_end_where_people_would_end_them() {
        for (text, want) in [
            ("see https://a.org/x.", &["https://a.org/x"][..]),
            ("(https://a.org/b_(c))", &["https://a.org/b_(c)"]),
            ("http://a https://b,", &["http://a", "https://b"]),
            ("no http here, https:// neither", &[]),
            ("**https://a.org**", &["https://a.org"]),
            ("日本https://a.org/日 x", &["https://a.org/日"]),
        ] {
            assert_eq!(found(text), want, "{text}");
        }
    }

    #[test]
    fn terminals_that_would_show_the_bytes_get_none() {
        for (term, harmless) in [
            ("xterm-256color", true),
            ("tmux-256color", true),
            ("dumb", false),
            ("linux", false),
            ("", false),
        ] {
            assert_eq!(is_harmless(term), harmless, "{term:?}");
        }
    }

    #[test]
    fn only_addresses_that_are_safe_to_open_are_links() {
        for none in
            ["javascript:alert(1)", "x-app://y", "https://a\u{1b}]8;;\u{7}", "notes.md", "file://host/x", ""]
        {
            assert_eq!(to(none, Style::new()), Style::new(), "{none:?}");
        }
        assert_ne!(to("https://a.org", Style::new()), Style::new());
        assert_eq!(to_path("src/a.rs", Style::new()), Style::new());
        assert_eq!(to_path("/tmp/a b", Style::new()), to("file:///tmp/a%20b", Style::new()));
        assert_eq!(to(&format!("https://{}", "a".repeat(LONGEST)), Style::new()), Style::new());
    }

    proptest! {
        /// For any address, the bytes between the start and the end of the sequence are printable ASCII.
        #[test]
        fn no_address_breaks_out(rest in "(?s).{0,60}|[\u{1b}\u{7}\\\\;\u{9c}\u{202e}a]{0,20}") {
            switch_on();
            for scheme in ["https://", "file:///", "mailto:"] {
                let style = to(&format!("{scheme}{rest}"), Style::new());
                let bytes = change(Color::Reset, style.underline_color.unwrap_or(Color::Reset));
                if bytes.is_empty() {
                    continue;
                }
                let inner = bytes.strip_prefix("\x1b]8;id=b").and_then(|b| b.strip_suffix("\x1b\\")).unwrap();
                prop_assert!(inner.bytes().all(|b| (b'!'..=b'~').contains(&b)), "{inner:?}");
                prop_assert_eq!(change(style.underline_color.unwrap(), Color::Reset), "\x1b]8;;\x1b\\");
            }
        }
    }
}
