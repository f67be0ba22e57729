//! Answers of a terminal that is asked how it reports keys and what it draws images by, and the keys that come meanwhile.
//!
//! The library that reads keys takes such answers for itself and says nothing of them. So for the first moments
//! the terminal is read here: answers are taken out, everything else is events as the library would
//! make them, one a character; the [`decoder`](crate::decoder) puts sequences together. Nothing waits for an answer.
//!
//! [`Answers`] is pure: bytes in, what was heard out.

use super::sys;
use crate::graphics::Protocol;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use std::io;
use std::time::{Duration, Instant};

/// The size of a cell and the number of colours, asked before the question that every terminal answers
/// (what terminal is this?), so that its answer is the last.
pub(super) const IMAGES: &str = "\x1b[16t\x1b[?1;1;0S";

/// Asks which flags of kitty's keyboard protocol are set. Terminals without the protocol do not answer.
/// <https://sw.kovidgoyal.net/kitty/keyboard-protocol/>
pub(super) const KEYBOARD: &str = "\x1b[?u";

/// How long answers are waited for.
const WITHIN: Duration = Duration::from_millis(500);
/// How often the terminal is looked at.
const TICK: Duration = Duration::from_millis(4);
/// After so long a beginning is no beginning.
const QUIET: Duration = Duration::from_millis(50);
/// An answer that is longer is none.
const LONGEST: usize = 128;
/// Colours in an image.
const MOST_COLOURS: u32 = 255;
/// The attribute of a terminal that draws sixels.
const SIXEL: u32 = 4;

/// One thing that came.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    Event(Event),
    /// What the terminal can do, by numbers (DA1).
    Attributes(Vec<u32>),
    /// Pixels of a cell: across, down.
    Cell(u16, u16),
    /// Colours that it shows at once in an image.
    Colours(u32),
    /// It has kitty's keyboard protocol.
    Keyboard,
}

/// Bytes in, what was heard out.
#[derive(Debug, Default)]
pub struct Answers {
    pending: Vec<u8>,
}

/// What stands at the beginning.
enum Found {
    /// So many bytes are this.
    Whole(usize, Option<Heard>),
    /// It may become something.
    Part,
}

impl Answers {
    /// What these bytes bring. The beginning of an answer is held.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<Heard> {
        self.pending.extend_from_slice(bytes);
        self.heard(false)
    }

    /// No more is coming: what is held is what it is.
    pub fn end(&mut self) -> Vec<Heard> {
        self.heard(true)
    }

    fn heard(&mut self, end: bool) -> Vec<Heard> {
        let mut out = Vec::new();
        let mut at = 0;
        while at < self.pending.len() {
            match found(&self.pending[at..], end) {
                Found::Whole(length, heard) => {
                    at += length;
                    out.extend(heard);
                }
                Found::Part => break,
            }
        }
        self.pending.drain(..at);
        out
    }
}

fn found(bytes: &[u8], end: bool) -> Found {
    match bytes {
        [0x1b] if !end => Found::Part,
        [0x1b, b'[', rest @ ..] => control(rest, end),
        [0x1b, b'O' | 0x1b, ..] | [0x1b] => key(1, '\u{1b}', KeyModifiers::NONE),
        [0x1b, rest @ ..] => character(rest, 1, KeyModifiers::ALT, end),
        _ => character(bytes, 0, KeyModifiers::NONE, end),
    }
}

/// Behind `ESC [`: an answer, or a key of which the Escape is the first character.
fn control(rest: &[u8], end: bool) -> Found {
    let told = rest.iter().position(|b| !matches!(b, b'0'..=b'9' | b';' | b'?')).unwrap_or(rest.len());
    let numbers = |text: &[u8]| -> Vec<u32> {
        let text = String::from_utf8_lossy(text);
        text.split(';').map(|n| n.parse().unwrap_or_default()).collect()
    };
    let heard = match (&rest[..told], rest.get(told)) {
        (_, None) if !end && told < LONGEST => return Found::Part,
        ([], Some(b'I')) => Heard::Event(Event::FocusGained),
        ([], Some(b'O')) => Heard::Event(Event::FocusLost),
        ([b'?', text @ ..], Some(b'c')) => Heard::Attributes(numbers(text)),
        ([b'?', b'0'..=b'9', ..], Some(b'u')) => Heard::Keyboard,
        ([b'?', text @ ..], Some(b'S')) => match numbers(text)[..] {
            [1, 0, colours] => Heard::Colours(colours),
            _ => return Found::Whole(told + 3, None),
        },
        (text, Some(b't')) => match numbers(text)[..] {
            [6, height, width] => Heard::Cell(width.min(4_096) as u16, height.min(4_096) as u16),
            _ => return Found::Whole(told + 3, None),
        },
        _ => return key(1, '\u{1b}', KeyModifiers::NONE),
    };
    Found::Whole(told + 3, Some(heard))
}

/// A character behind so many bytes.
fn character(bytes: &[u8], before: usize, modifiers: KeyModifiers, end: bool) -> Found {
    let first = &bytes[..bytes.len().min(4)];
    let whole = match str::from_utf8(first) {
        Ok(text) => text,
        Err(error) => str::from_utf8(&first[..error.valid_up_to()]).unwrap_or_default(),
    };
    match whole.chars().next() {
        Some(c) => key(before + c.len_utf8(), c, modifiers),
        None if !end && first.len() < 4 && str::from_utf8(first).is_err_and(|e| e.error_len().is_none()) => {
            Found::Part
        }
        // A broken character.
        None => Found::Whole(before + 1, None),
    }
}

/// The key that the library makes of a character.
fn key(length: usize, c: char, more: KeyModifiers) -> Found {
    let control = |base: u8, from: char| char::from(c as u8 - from as u8 + base);
    let (code, modifiers) = match c {
        '\u{1b}' => (KeyCode::Esc, KeyModifiers::NONE),
        '\r' => (KeyCode::Enter, KeyModifiers::NONE),
        '\t' => (KeyCode::Tab, KeyModifiers::NONE),
        '\u{7f}' => (KeyCode::Backspace, KeyModifiers::NONE),
        '\0' => (KeyCode::Char(' '), KeyModifiers::CONTROL),
        '\u{1}'..='\u{1a}' => (KeyCode::Char(control(b'a', '\u{1}')), KeyModifiers::CONTROL),
        '\u{1c}'..='\u{1f}' => (KeyCode::Char(control(b'4', '\u{1c}')), KeyModifiers::CONTROL),
        c if c.is_uppercase() => (KeyCode::Char(c), KeyModifiers::SHIFT),
        c => (KeyCode::Char(c), KeyModifiers::NONE),
    };
    Found::Whole(length, Some(Heard::Event(Event::Key(KeyEvent::new(code, modifiers | more)))))
}

/// What the answers together say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// It has said what it can do.
    pub answered: bool,
    pub sixel: bool,
    pub cell: Option<(u16, u16)>,
    pub colours: Option<u32>,
    /// It has kitty's keyboard protocol.
    pub keyboard: bool,
}

impl Told {
    /// How sixels are drawn, if they are. Where the terminal does not say how large its cells are, the system may know it.
    pub fn sixels(&self, system: Option<(u16, u16)>) -> Option<Protocol> {
        let cell = self.cell.filter(|(width, height)| *width > 0 && *height > 0).or(system)?;
        let colours = self.colours.filter(|count| *count >= 2).unwrap_or(MOST_COLOURS).min(MOST_COLOURS);
        self.sixel.then_some(Protocol::Sixel { cell, colours: colours as u16 })
    }
}

/// Reads the terminal until it has answered, or a moment.
pub struct Listener {
    input: sys::Input,
    answers: Answers,
    told: Told,
    began: Instant,
    /// When something came last.
    last: Instant,
}

/// What comes of listening.
#[derive(Debug, PartialEq)]
pub enum Listened {
    Events(Vec<Event>),
    /// The last events, and what was told.
    End(Vec<Event>, Told),
}

impl Listener {
    /// # Errors
    /// Where there is no terminal to read.
    pub fn new() -> io::Result<Self> {
        let now = Instant::now();
        Ok(Self {
            input: sys::Input::open()?,
            answers: Answers::default(),
            told: Told::default(),
            began: now,
            last: now,
        })
    }

    /// What comes next. May be dropped while it waits; nothing is lost then.
    pub async fn next(&mut self) -> Listened {
        loop {
            let mut buffer = [0; 1024];
            let read = self.input.read(&mut buffer);
            let now = Instant::now();
            match read {
                Ok(0) if now.duration_since(self.began) < WITHIN => {
                    // An Escape alone is a key, as a rule.
                    let quiet = if self.answers.pending.len() == 1 { TICK } else { QUIET };
                    if now.duration_since(self.last) >= quiet {
                        let (events, _) = self.sorted(Answers::end);
                        if !events.is_empty() {
                            return Listened::Events(events);
                        }
                    }
                    tokio::time::sleep(TICK).await;
                }
                Ok(length @ 1..) => {
                    self.last = now;
                    let (events, answered) = self.sorted(|answers| answers.take(&buffer[..length]));
                    // Whatever comes: after the time the library reads.
                    if answered || now.duration_since(self.began) >= WITHIN {
                        return self.end(events);
                    }
                    return Listened::Events(events);
                }
                // Nothing more, or who reads keys finds out what is wrong.
                Ok(0) | Err(_) => return self.end(Vec::new()),
            }
        }
    }

    fn end(&mut self, mut events: Vec<Event>) -> Listened {
        let (more, _) = self.sorted(Answers::end);
        events.extend(more);
        Listened::End(events, self.told)
    }

    /// The events of what is heard; whether the last answer is among it.
    fn sorted(&mut self, hear: impl FnOnce(&mut Answers) -> Vec<Heard>) -> (Vec<Event>, bool) {
        let (mut events, mut answered) = (Vec::new(), false);
        for heard in hear(&mut self.answers) {
            match heard {
                Heard::Event(event) => events.push(event),
                Heard::Cell(width, height) => self.told.cell = Some((width, height)),
                Heard::Colours(colours) => self.told.colours = Some(colours),
                Heard::Keyboard => self.told.keyboard = true,
                Heard::Attributes(attributes) => {
                    (self.told.answered, self.told.sixel) = (true, attributes.contains(&SIXEL));
                    answered = true;
                }
            }
        }
        (events, answered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys(text: &str) -> Vec<Heard> {
        text.chars()
            .map(|c| match key(1, c, KeyModifiers::NONE) {
                Found::Whole(_, Some(heard)) => heard,
                _ => panic!("{c:?} is no key"),
            })
            .collect()
    }

    fn alt(c: char) -> Heard {
        Heard::Event(Event::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::ALT)))
    }

    fn heard(text: &str) -> Vec<Heard> {
        let mut answers = Answers::default();
        let mut out = answers.take(text.as_bytes());
        out.extend(answers.end());
        out
    }

    #[test]
    fn answers_are_taken_out_and_the_rest_is_typing() {
        for (text, want) in [
            ("ab", keys("ab")),
            ("\u{1b}", keys("\u{1b}")),
            ("\u{1b}\u{1b}", keys("\u{1b}\u{1b}")),
            ("\u{1b}x\r", [vec![alt('x')], keys("\r")].concat()),
            ("\u{1b}[A", keys("\u{1b}[A")),
            ("\u{1b}OA", keys("\u{1b}OA")),
            ("\u{1b}[200~a\u{1b}[201~", keys("\u{1b}[200~a\u{1b}[201~")),
            ("\u{1b}[?", keys("\u{1b}[?")),
            ("a\u{1b}[?64;1;4cb", [keys("a"), vec![Heard::Attributes(vec![64, 1, 4])], keys("b")].concat()),
            ("\u{1b}[6;20;10t", vec![Heard::Cell(10, 20)]),
            ("\u{1b}[4;20;10t\u{1b}[?1;3;0S", vec![]),
            ("\u{1b}[?1;0;256S", vec![Heard::Colours(256)]),
            ("\u{1b}[?0ua", [vec![Heard::Keyboard], keys("a")].concat()),
            ("\u{1b}[?31u", vec![Heard::Keyboard]),
            ("\u{1b}[13;2u", keys("\u{1b}[13;2u")),
            ("\u{1b}[I\u{1b}[O", vec![Heard::Event(Event::FocusGained), Heard::Event(Event::FocusLost)]),
            ("\u{1b}[?99999999999c", vec![Heard::Attributes(vec![0])]),
        ] {
            assert_eq!(heard(text), want, "{text:?}");
        }
        let control = |c| Heard::Event(Event::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL)));
        assert_eq!(heard("\u{3}\u{1f}\0"), [control('c'), control('7'), control(' ')]);
    }

    #[test]
    fn sixels_are_drawn_where_the_terminal_says_so_and_its_cells_are_known() {
        let told = |sixel, cell, colours| Told { answered: true, sixel, cell, colours, keyboard: false };
        let sixel = |cell, colours| Some(Protocol::Sixel { cell, colours });
        assert_eq!(told(true, Some((10, 20)), Some(16)).sixels(Some((9, 19))), sixel((10, 20), 16));
        assert_eq!(told(true, Some((10, 0)), Some(65_536)).sixels(Some((9, 19))), sixel((9, 19), 255));
        assert_eq!(told(true, None, Some(0)).sixels(Some((9, 19))), sixel((9, 19), 255));
        assert_eq!(told(true, None, None).sixels(None), None);
        assert_eq!(told(false, Some((10, 20)), None).sixels(None), None);
    }

    #[test]
    fn broken_characters_are_left_out() {
        let mut answers = Answers::default();
        assert_eq!(answers.take(b"a\xffb\xe6\x97"), keys("ab"));
        assert_eq!(answers.take(b"\xa5\xe6"), keys("日"));
        assert_eq!(answers.end(), []);
    }

    proptest! {
        /// However the bytes are cut: the same is heard, and everything that is no answer comes out in order.
        #[test]
        fn it_does_not_matter_where_reads_end(
            words in proptest::collection::vec("[a-z日é\r ]{1,5}", 1..6),
            answers in proptest::collection::vec(
                "\u{1b}\\[\\?[0-9]{1,2};[0-9;]{1,9}c|\u{1b}\\[6;[0-9]{1,3};[0-9]{1,3}t|\u{1b}\\[\\?[0-9]{1,2}u", 5),
            cuts in proptest::collection::vec(0_usize..80, 0..6),
        ) {
            let text: String = words.iter().zip(&answers).flat_map(|(w, a)| [w.as_str(), a.as_str()]).collect();
            let whole = heard(&text);
            let mut cut = Answers::default();
            let mut cuts: Vec<usize> = cuts.iter().map(|at| at % (text.len() + 1)).collect();
            cuts.sort_unstable();
            let mut from = 0;
            let mut out = Vec::new();
            for to in cuts.into_iter().chain([text.len()]) {
                out.extend(cut.take(&text.as_bytes()[from..to]));
                from = to;
            }
            out.extend(cut.end());
            prop_assert_eq!(&out, &whole);
            let typed: Vec<Heard> = out.into_iter().filter(|h| matches!(h, Heard::Event(_))).collect();
            let said: String = words.iter().take(answers.len()).map(String::as_str).collect();
            prop_assert_eq!(typed, keys(&said));
        }

        /// Whatever comes: no panic, and nothing is held at the end.
        #[test]
        fn anything_comes_out(bytes in proptest::collection::vec(prop_oneof![Just(0x1b_u8), Just(b'['), Just(b'?'), any::<u8>()], 0..60)) {
            let mut answers = Answers::default();
            answers.take(&bytes);
            answers.end();
            prop_assert!(answers.pending.is_empty());
        }
    }
}
