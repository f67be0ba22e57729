//! Emulates the screen of a terminal, for programs that draw on it.
//!
//! Programs that only print lines are handled by [`crate::clean`]. A program that moves the cursor or switches to the
//! alternate screen leaves nothing readable in its bytes, so the model gets the text of the screen instead.

use std::num::NonZeroU16;

/// Rows and columns of the terminals that commands get.
pub(crate) const ROWS: u16 = 40;
pub(crate) const COLUMNS: u16 = 120;

pub(crate) struct Screen {
    parser: vt100::Parser,
    /// State of the parser within an escape sequence.
    state: State,
    drawn: bool,
    new: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Ground,
    Escape,
    Csi,
}

impl Default for Screen {
    fn default() -> Self {
        let size = |n| NonZeroU16::new(n).unwrap_or(NonZeroU16::MIN);
        let parser = vt100::Parser::new(size(ROWS), size(COLUMNS), 0);
        Self { parser, state: State::Ground, drawn: false, new: false }
    }
}

impl Screen {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.state = match (self.state, byte) {
                (_, 0x1B) => State::Escape,
                (State::Escape, b'[') => State::Csi,
                // Moving the cursor to a place or up and erasing the screen mean that the program draws. Colours and erasing a line
                // do not: progress bars use them too.
                (State::Csi, b'A' | b'H' | b'f' | b'J' | b'd') => {
                    self.drawn = true;
                    State::Ground
                }
                (State::Csi, 0x20..=0x3F) => State::Csi,
                _ => State::Ground,
            };
        }
        self.new = true;
        self.parser.process(bytes);
    }

    /// True if bytes arrived since the last call of [`Self::take`].
    pub(crate) fn is_new(&self) -> bool {
        self.new
    }

    /// The text of the screen, if bytes arrived since the last call and the program draws. Empty lines at the end are left out.
    pub(crate) fn take(&mut self) -> Option<String> {
        self.new = false;
        if !std::mem::take(&mut self.drawn) && !self.parser.screen().alternate_screen() {
            return None;
        }
        let contents = self.parser.screen().contents();
        Some(contents.trim_end().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_no_drawing_and_drawing_is_shown_as_it_stands() {
        for (bytes, want) in [
            ("plain\r\n\x1b[31mred\x1b[0m\r\n\x1b[K50%\r100%", None),
            ("\x1b[2J\x1b[Htop\x1b[3;5Hthird", Some("top\n\n    third")),
            ("\x1b[?1049hedit\r\n~\r\n~", Some("edit\n~\n~")),
            ("one\r\ntwo\x1b[Aup", Some("oneup\ntwo")),
        ] {
            for cut in 0..bytes.len() {
                let mut screen = Screen::default();
                screen.push(&bytes.as_bytes()[..cut]);
                screen.push(&bytes.as_bytes()[cut..]);
                assert_eq!(screen.take().as_deref(), want, "{bytes:?}");
            }
        }
        let mut screen = Screen::default();
        screen.push(b"\x1b[Ha");
        assert!(screen.is_new() && screen.take().is_some());
        assert!(!screen.is_new() && screen.take().is_none());
    }
}
