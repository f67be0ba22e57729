//! Decoder between the terminal's events and the panes. It joins sequences that a slow connection splits, and keeps
//! reports of the terminal from being taken for typing.
//!
//! Model: the library turns bytes into events. If a read ends right after an ESC, the library reports the Escape key,
//! and the rest of the sequence as letters. It also knows no answers to queries (OSC). So an Escape is held for
//! [`HOLD`]. If characters follow at once that only a terminal writes, they form a sequence again: a key, a report
//! (dropped, or [`Decoded::Background`]), or the start of a paste. A paste ends with its end sequence or after
//! [`QUIET`].
//!
//! Invariants:
//! - Typing passes: every key that begins no sequence comes out, in order. An Escape that nothing follows comes out
//!   after [`HOLD`].
//! - No part of a report comes out as text, and no part of a paste as keys.
//! - Pure: events and times in, events out. At most `LONGEST` bytes of a report are held.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::time::{Duration, Instant};

/// An Escape waits this long for the rest of its sequence. The user's next key takes longer.
pub const HOLD: Duration = Duration::from_millis(20);
/// After this long without a key, a sequence or paste that was cut off has ended.
pub const QUIET: Duration = Duration::from_millis(150);
/// Longest report in bytes. A longer text is not a report.
const LONGEST: usize = 256;
/// Maximum number of bytes of a paste that is assembled from keys. A longer paste comes out in several pieces.
const PASTE: usize = 1 << 20;

/// Output of the decoder.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded {
    Event(Event),
    /// The terminal's background colour: red, green, blue.
    Background(u8, u8, u8),
}

#[derive(Clone, Debug, Default, PartialEq)]
enum State {
    #[default]
    Idle,
    /// An Escape key that may start a sequence.
    Escape(KeyEvent),
    /// Characters after `ESC [`.
    Control(String),
    /// After `ESC O`, which one letter follows.
    Single,
    /// After `ESC [ M`, the old report of mouse events: the number of characters that are still to come.
    Mouse(u8),
    /// Characters after `ESC ]`. True: an Escape followed that may be the start of the terminator.
    Report(String, bool),
    /// Text after `ESC [ 200 ~`.
    Paste(String),
    /// Text of a paste, and the characters after an Escape that may start the end of the paste.
    PasteEnd(String, String),
}

/// State machine that turns the library's events into [`Decoded`] ones.
#[derive(Debug, Default)]
pub struct Decoder {
    state: State,
    since: Option<Instant>,
}

impl Decoder {
    /// Takes one event of the library.
    pub fn take(&mut self, event: Event, now: Instant) -> Vec<Decoded> {
        let mut out = self.expire(now);
        let Event::Key(key) = event else {
            // Mouse and window events may come between any two keys, so they end no sequence.
            if let Event::Paste(_) = event {
                out.extend(self.give_up());
            }
            out.push(Decoded::Event(event));
            return out;
        };
        let key = as_without_protocol(key);
        if key.kind == KeyEventKind::Release {
            out.push(Decoded::Event(event));
            return out;
        }
        self.since = Some(now);
        self.key(key, &mut out);
        if self.state == State::Idle {
            self.since = None;
        }
        out
    }

    /// Returns the time at which [`Self::expire`] must be called, `None` if nothing is held.
    pub fn due(&self) -> Option<Instant> {
        let wait = if matches!(self.state, State::Escape(_)) { HOLD } else { QUIET };
        self.since.map(|at| at + wait)
    }

    /// Gives out what is held if its time has passed.
    pub fn expire(&mut self, now: Instant) -> Vec<Decoded> {
        if self.due().is_some_and(|at| at <= now) { self.give_up() } else { Vec::new() }
    }

    fn give_up(&mut self) -> Vec<Decoded> {
        self.since = None;
        match std::mem::take(&mut self.state) {
            State::Escape(key) => vec![Decoded::Event(Event::Key(key))],
            // Nothing but the start of a sequence came, so the user pressed these keys.
            State::Control(text) if text.is_empty() => pressed('['),
            State::Report(text, false) if text.is_empty() => {
                vec![Decoded::Event(Event::Key(KeyEvent::new(KeyCode::Char(']'), KeyModifiers::ALT)))]
            }
            State::Single => pressed('O'),
            State::Paste(text) => vec![Decoded::Event(Event::Paste(text))],
            State::PasteEnd(text, _) => vec![Decoded::Event(Event::Paste(text))],
            State::Idle | State::Control(_) | State::Report(..) | State::Mouse(_) => Vec::new(),
        }
    }

    fn key(&mut self, key: KeyEvent, out: &mut Vec<Decoded>) {
        let escape = key.code == KeyCode::Esc && key.modifiers.is_empty();
        let plain = key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
        let letter = match key.code {
            KeyCode::Char(c) if plain => Some(c),
            _ => None,
        };
        match (std::mem::take(&mut self.state), letter) {
            (State::Idle, _) if escape => self.state = State::Escape(key),
            (State::Idle, _) if key.code == KeyCode::Char(']') && key.modifiers == KeyModifiers::ALT => {
                self.state = State::Report(String::new(), false);
            }
            (State::Escape(_), Some('[')) => self.state = State::Control(String::new()),
            (State::Escape(_), Some('O')) => self.state = State::Single,
            (State::Escape(_), Some(']')) => self.state = State::Report(String::new(), false),
            (State::Escape(before), _) => {
                out.push(Decoded::Event(Event::Key(before)));
                self.key(key, out);
            }
            (State::Control(mut text), Some(c)) => {
                if (' '..='?').contains(&c) && text.len() < LONGEST {
                    text.push(c);
                    self.state = State::Control(text);
                } else {
                    self.control(&text, c, out);
                }
            }
            (State::Mouse(left), _) if left > 1 => self.state = State::Mouse(left - 1),
            (State::Mouse(_), _) => {}
            (State::Single, Some(c)) => out.extend(named(c).map(key_event)),
            (State::Report(text, _), _) if escape => self.state = State::Report(text, true),
            (State::Report(text, ended), _) => self.report(text, ended, key, letter, out),
            (State::Paste(text), _) if escape => self.state = State::PasteEnd(text, String::new()),
            (State::Paste(text), _) => self.paste(text, key, out),
            (State::PasteEnd(text, mut end), Some(c)) if "[201~".starts_with(&format!("{end}{c}")) => {
                end.push(c);
                if end == "[201~" {
                    out.push(Decoded::Event(Event::Paste(text)));
                } else {
                    self.state = State::PasteEnd(text, end);
                }
            }
            (State::PasteEnd(mut text, end), _) => {
                text.push_str(&end);
                self.paste(text, key, out);
            }
            (State::Control(text), None) if text.is_empty() => {
                out.extend(pressed('['));
                self.key(key, out);
            }
            // The sequence was cut off, so its characters are dropped. This key was typed by the user.
            (State::Control(_) | State::Single, None) => self.key(key, out),
            (State::Idle, _) => out.push(Decoded::Event(Event::Key(key))),
        }
    }

    /// Handles a complete sequence `ESC [ text last`.
    fn control(&mut self, text: &str, last: char, out: &mut Vec<Decoded>) {
        match (text, last) {
            ("200", '~') => self.state = State::Paste(String::new()),
            ("", 'M') => self.state = State::Mouse(3),
            ("", c) => out.extend(named(c).map(key_event)),
            ("3", '~') => out.push(key_event(KeyCode::Delete)),
            ("5", '~') => out.push(key_event(KeyCode::PageUp)),
            ("6", '~') => out.push(key_event(KeyCode::PageDown)),
            ("1" | "7", '~') => out.push(key_event(KeyCode::Home)),
            ("4" | "8", '~') => out.push(key_event(KeyCode::End)),
            (text, 'u') => out.extend(reported(text)),
            (text, last) if text.starts_with(|c: char| c.is_ascii_digit()) => out.extend(held(text, last)),
            // Mouse movements and reports of terminal modes were not typed.
            _ => {}
        }
    }

    fn report(
        &mut self,
        mut text: String,
        ended: bool,
        key: KeyEvent,
        letter: Option<char>,
        out: &mut Vec<Decoded>,
    ) {
        let bell = key.code == KeyCode::Char('g') && key.modifiers == KeyModifiers::CONTROL;
        let terminator = key.code == KeyCode::Char('\\') && (ended || key.modifiers == KeyModifiers::ALT);
        match letter {
            _ if bell || terminator => out.extend(background(&text)),
            Some(c) if !ended && text.len() < LONGEST => {
                text.push(c);
                self.state = State::Report(text, false);
            }
            // No report followed, so Alt-] and this key were typed.
            _ if text.is_empty() => {
                out.push(Decoded::Event(Event::Key(KeyEvent::new(KeyCode::Char(']'), KeyModifiers::ALT))));
                self.key(key, out);
            }
            _ => self.key(key, out),
        }
    }

    fn paste(&mut self, mut text: String, key: KeyEvent, out: &mut Vec<Decoded>) {
        match key.code {
            KeyCode::Char('j') if key.modifiers == KeyModifiers::CONTROL => text.push('\n'),
            KeyCode::Char(c) if !key.modifiers.contains(KeyModifiers::CONTROL) => text.push(c),
            KeyCode::Enter => text.push('\n'),
            KeyCode::Tab => text.push('\t'),
            _ => {}
        }
        if text.len() >= PASTE {
            out.push(Decoded::Event(Event::Paste(std::mem::take(&mut text))));
        }
        self.state = State::Paste(text);
    }
}

fn key_event(code: KeyCode) -> Decoded {
    let modifiers = if code == KeyCode::BackTab { KeyModifiers::SHIFT } else { KeyModifiers::NONE };
    Decoded::Event(Event::Key(KeyEvent::new(code, modifiers)))
}

/// Maps keys to the names they have without a keyboard protocol: Ctrl-I is Tab, Ctrl-M is Enter, Ctrl-[ is Esc. Ctrl-_
/// and Ctrl-/ are one key, which the library calls Ctrl-7.
fn as_without_protocol(key: KeyEvent) -> KeyEvent {
    let KeyCode::Char(c) = key.code else { return key };
    let held = key.modifiers.difference(KeyModifiers::SHIFT);
    let (code, modifiers) = match c.to_ascii_lowercase() {
        'i' => (KeyCode::Tab, KeyModifiers::NONE),
        'm' => (KeyCode::Enter, KeyModifiers::NONE),
        '[' => (KeyCode::Esc, KeyModifiers::NONE),
        '/' | '_' => (KeyCode::Char('7'), KeyModifiers::CONTROL),
        '-' if key.modifiers.contains(KeyModifiers::SHIFT) => (KeyCode::Char('7'), KeyModifiers::CONTROL),
        _ => return key,
    };
    if held == KeyModifiers::CONTROL { KeyEvent { code, modifiers, ..key } } else { key }
}

/// Parses a key without a character and with modifiers, such as `1;5A` or `5;2~`.
fn held(text: &str, last: char) -> Option<Decoded> {
    let (number, held) = text.split_once(';')?;
    let code = match (number, last) {
        ("2", '~') => KeyCode::Insert,
        ("3", '~') => KeyCode::Delete,
        ("5", '~') => KeyCode::PageUp,
        ("6", '~') => KeyCode::PageDown,
        // A cursor position report ends like F3.
        ("1", 'R') => return None,
        ("1", letter) => named(letter)?,
        _ => return None,
    };
    let held = held.parse::<u32>().ok().filter(|held| (2..=16).contains(held))? - 1;
    Some(Decoded::Event(Event::Key(KeyEvent::new(code, modifiers(held)))))
}

/// Converts the terminal's modifier bits: 1 Shift, 2 Alt, 4 Ctrl.
fn modifiers(held: u32) -> KeyModifiers {
    let mut modifiers = KeyModifiers::NONE;
    for (bit, modifier) in [(1, KeyModifiers::SHIFT), (2, KeyModifiers::ALT), (4, KeyModifiers::CONTROL)] {
        modifiers.set(modifier, held & bit != 0);
    }
    modifiers
}

/// Parses a key of kitty's protocol that a slow connection split: `code[:alternates][;modifiers[:kind]]`.
fn reported(text: &str) -> Option<Decoded> {
    let mut parts = text.split(';').map(|part| part.split(':').map(|n| n.parse::<u32>().ok()));
    let code = match char::from_u32(parts.next()?.next()??)? {
        '\r' => KeyCode::Enter,
        '\t' => KeyCode::Tab,
        '\u{1b}' => KeyCode::Esc,
        '\u{7f}' => KeyCode::Backspace,
        // Codes of keys that have no character.
        '\u{e000}'..='\u{f8ff}' => return None,
        c if c.is_control() => return None,
        c => KeyCode::Char(c),
    };
    let mut second = parts.next().into_iter().flatten();
    let held = second.next().flatten().unwrap_or(1).saturating_sub(1);
    if second.next().flatten() == Some(3) {
        return None;
    }
    let modifiers = modifiers(held);
    let code = match code {
        KeyCode::Tab if modifiers.contains(KeyModifiers::SHIFT) => KeyCode::BackTab,
        code => code,
    };
    Some(Decoded::Event(Event::Key(as_without_protocol(KeyEvent::new(code, modifiers)))))
}

/// Returns an Escape and a letter, both pressed by the user.
fn pressed(letter: char) -> Vec<Decoded> {
    vec![key_event(KeyCode::Esc), key_event(KeyCode::Char(letter))]
}

/// Keys that are one letter after `ESC [` or `ESC O`.
fn named(letter: char) -> Option<KeyCode> {
    Some(match letter {
        'A' => KeyCode::Up,
        'B' => KeyCode::Down,
        'C' => KeyCode::Right,
        'D' => KeyCode::Left,
        'H' => KeyCode::Home,
        'F' => KeyCode::End,
        'Z' => KeyCode::BackTab,
        'P' => KeyCode::F(1),
        'Q' => KeyCode::F(2),
        'R' => KeyCode::F(3),
        'S' => KeyCode::F(4),
        _ => return None,
    })
}

/// Parses `11;rgb:RRRR/GGGG/BBBB`, each with one to four digits (XParseColor).
fn background(report: &str) -> Option<Decoded> {
    let mut parts = report.strip_prefix("11;rgb:")?.split('/').map(|part| {
        let most = 16_u32.checked_pow(u32::try_from(part.len()).ok().filter(|n| (1..=4).contains(n))?)? - 1;
        Some((u32::from_str_radix(part, 16).ok()? * 255 / most) as u8)
    });
    let mut next = || parts.next().flatten();
    let found = Decoded::Background(next()?, next()?, next()?);
    parts.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys(text: &str) -> Vec<Event> {
        text.chars()
            .map(|c| {
                let (code, modifiers) = match c {
                    '\u{1b}' => (KeyCode::Esc, KeyModifiers::NONE),
                    '\r' => (KeyCode::Enter, KeyModifiers::NONE),
                    '\u{7}' => (KeyCode::Char('g'), KeyModifiers::CONTROL),
                    c => (KeyCode::Char(c), KeyModifiers::NONE),
                };
                Event::Key(KeyEvent::new(code, modifiers))
            })
            .collect()
    }

    /// Decodes these keys, pressed without a pause, and the quiet after them.
    fn decoded(text: &str) -> Vec<Decoded> {
        let mut decoder = Decoder::default();
        let now = Instant::now();
        let mut out: Vec<Decoded> = keys(text).into_iter().flat_map(|key| decoder.take(key, now)).collect();
        assert!(decoder.due().is_none_or(|at| at > now));
        out.extend(decoder.expire(now + QUIET));
        assert_eq!(decoder.due(), None);
        out
    }

    fn with(code: KeyCode, modifiers: KeyModifiers) -> Decoded {
        Decoded::Event(Event::Key(KeyEvent::new(code, modifiers)))
    }

    fn typed(text: &str) -> Vec<Decoded> {
        keys(text).into_iter().map(Decoded::Event).collect()
    }

    #[test]
    fn keys_keep_the_names_that_they_have_without_a_protocol() {
        let control = KeyModifiers::CONTROL;
        for (c, modifiers, want) in [
            ('i', control, KeyCode::Tab),
            ('m', control, KeyCode::Enter),
            ('[', control, KeyCode::Esc),
            ('-', control | KeyModifiers::SHIFT, KeyCode::Char('7')),
            ('/', control, KeyCode::Char('7')),
            ('-', control, KeyCode::Char('-')),
            ('i', control | KeyModifiers::ALT, KeyCode::Char('i')),
            ('i', KeyModifiers::NONE, KeyCode::Char('i')),
        ] {
            let found = as_without_protocol(KeyEvent::new(KeyCode::Char(c), modifiers));
            assert_eq!(found.code, want, "{modifiers:?} {c}");
        }
    }

    #[test]
    fn sequences_that_were_cut_apart_are_whole_again() {
        for (text, want) in [
            ("abc", typed("abc")),
            ("\u{1b}", typed("\u{1b}")),
            ("\u{1b}\u{1b}", typed("\u{1b}\u{1b}")),
            ("\u{1b}x", typed("\u{1b}x")),
            ("\u{1b}[", typed("\u{1b}[")),
            ("\u{1b}[A", vec![key_event(KeyCode::Up)]),
            ("\u{1b}OA", vec![key_event(KeyCode::Up)]),
            ("\u{1b}[Z", vec![key_event(KeyCode::BackTab)]),
            ("\u{1b}[5~x", [vec![key_event(KeyCode::PageUp)], typed("x")].concat()),
            ("\u{1b}[<35;10;10Mab", typed("ab")),
            ("a\u{1b}[M !!b", typed("ab")),
            ("a\u{1b}[<0;1;1m\u{1b}[?1;2c\u{1b}[12;40Rb", typed("ab")),
            (
                "\u{1b}[200~a\rb\u{1b}[201~c",
                [vec![Decoded::Event(Event::Paste("a\nb".into()))], typed("c")].concat(),
            ),
            ("\u{1b}[200~y\r", vec![Decoded::Event(Event::Paste("y\n".into()))]),
            ("\u{1b}[200~a\u{1b}[20x\u{1b}[201~", vec![Decoded::Event(Event::Paste("a[20x".into()))]),
            (
                "\u{1b}]11;rgb:ffff/8080/00\u{7}x",
                [vec![Decoded::Background(255, 128, 0)], typed("x")].concat(),
            ),
            ("\u{1b}]11;rgb:f/0/8\u{1b}\\x", [vec![Decoded::Background(255, 0, 136)], typed("x")].concat()),
            ("\u{1b}]11;rgb:1/2\u{7}\u{1b}]4;1;rgb:0/0/0\u{7}x", typed("x")),
            ("\u{1b}]11;rgb:", vec![]),
            ("\u{1b}[13;2ux", [vec![with(KeyCode::Enter, KeyModifiers::SHIFT)], typed("x")].concat()),
            ("\u{1b}[27u", vec![key_event(KeyCode::Esc)]),
            ("\u{1b}[1;3A", vec![with(KeyCode::Up, KeyModifiers::ALT)]),
            ("\u{1b}[6;5~", vec![with(KeyCode::PageDown, KeyModifiers::CONTROL)]),
            ("\u{1b}[1;9Rx", typed("x")),
            ("\u{1b}[105;5u", vec![key_event(KeyCode::Tab)]),
            ("\u{1b}[97:65;5:3u\u{1b}[57441;2u\u{1b}[u", vec![]),
        ] {
            assert_eq!(decoded(text), want, "{text:?}");
        }
    }

    #[test]
    fn an_escape_waits_only_for_what_comes_at_once() {
        let mut decoder = Decoder::default();
        let now = Instant::now();
        assert_eq!(decoder.take(keys("\u{1b}")[0].clone(), now), []);
        assert_eq!(decoder.due(), Some(now + HOLD));
        let out: Vec<Decoded> = decoder.take(keys("[")[0].clone(), now + HOLD);
        assert_eq!(out, typed("\u{1b}["));
        // Alt-] alone is a key, even if window events come between the keys.
        let alt = Event::Key(KeyEvent::new(KeyCode::Char(']'), KeyModifiers::ALT));
        assert_eq!(decoder.take(alt.clone(), now), []);
        assert_eq!(decoder.take(Event::FocusLost, now), [Decoded::Event(Event::FocusLost)]);
        assert_eq!(decoder.expire(now + QUIET), [Decoded::Event(alt)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        /// Reports between typed keys do not change the keys, wherever they are.
        #[test]
        fn no_report_becomes_text(
            words in proptest::collection::vec("[a-z 日é]{0,6}", 1..6),
            reports in proptest::collection::vec(
                "\u{1b}\\[<[0-9]{1,2};[0-9]{1,3};[0-9]{1,3}[Mm]|\u{1b}\\[\\?[0-9;]{1,9}[cuy]|\u{1b}\\]1[0-2];rgb:[0-9a-f/]{0,14}(\u{7}|\u{1b}\\\\)",
                5,
            ),
        ) {
            let mixed: String = words.iter().zip(&reports).flat_map(|(w, r)| [w.as_str(), r.as_str()]).collect();
            let out: Vec<Decoded> =
                decoded(&mixed).into_iter().filter(|d| !matches!(d, Decoded::Background(..))).collect();
            let plain: String = words.iter().take(reports.len()).map(String::as_str).collect();
            prop_assert_eq!(out, typed(&plain));
        }

        /// Keys that begin no sequence are neither lost nor held.
        #[test]
        fn typing_passes(text in "[ -~日\r]{0,40}") {
            prop_assert_eq!(decoded(&text), typed(&text));
        }

        /// Any input is decoded without a panic, and the decoder becomes idle.
        #[test]
        fn anything_comes_to_rest(text in "[\u{1b}\\[\\]O0-9;~<MmA\u{7}\\\\:r/ \r]{0,60}") {
            decoded(&text);
        }
    }
}
