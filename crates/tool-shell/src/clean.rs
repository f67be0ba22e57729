//! Turns terminal output into plain text: the lines that a person would still see when the command is done.
//!
//! Model: a byte-wise state machine. A carriage return overwrites its line (so a progress bar leaves only its last state), a
//! backspace deletes a character, escape sequences and other control bytes are removed. Pure. It works on bytes, so a
//! character that is split between two reads needs no special treatment.
//!
//! Invariants: memory is bounded for any input, because an open line and an open sequence are cut; the result does not
//! depend on how the input was split into pieces.

/// A longer open line is written out in pieces, in bytes. A carriage return can then overwrite only the last piece.
const MAX_OPEN_LINE: usize = 16 * 1024;
/// An operating system command or device string that is still open after this many bytes is ended there: the bytes after it
/// are taken for ordinary text.
const MAX_STRING: usize = 4096;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    /// After an intermediate byte: one final byte follows.
    Intermediate,
    Csi,
    /// Inside an OSC, DCS, APC, PM or SOS string, which BEL or ST ends.
    Text,
    TextEscape,
}

#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    state: State,
    /// The line that is not finished yet.
    line: Vec<u8>,
    /// A carriage return was the newest byte: the next text overwrites the line.
    returned: bool,
    string_len: usize,
    /// True if some byte was removed or overwritten, so that the result differs from the raw output.
    pub changed: bool,
}

const fn is_special(b: u8) -> bool {
    (b < 0x20 && b != b'\n' && b != b'\t') || b == 0x7F
}

const SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    let mut i = 0;
    while i < 256 {
        table[i] = is_special(i as u8);
        i += 1;
    }
    table
};

impl Cleaner {
    /// Reads bytes and passes finished lines to `out`.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut impl FnMut(&[u8])) {
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            if self.state == State::Ground && !SPECIAL[usize::from(*first)] {
                let end = rest.iter().position(|b| SPECIAL[usize::from(*b)]).unwrap_or(rest.len());
                self.plain(&rest[..end], out);
                rest = &rest[end..];
            } else if self.control(*first) {
                rest = &rest[1..];
            }
        }
    }

    /// Bytes of the last line, if it is not finished.
    pub(crate) fn open_line(&self) -> usize {
        self.line.len()
    }

    /// Takes back the end of what [`Self::finish`] passed on: it becomes the beginning of the unfinished line.
    pub(crate) fn put_back(&mut self, end: &[u8]) {
        self.line.extend_from_slice(end);
    }

    /// Passes the unfinished last line to `out`.
    pub(crate) fn finish(&mut self, out: &mut impl FnMut(&[u8])) {
        if !self.line.is_empty() {
            out(&self.line);
            self.line.clear();
        }
    }

    fn plain(&mut self, run: &[u8], out: &mut impl FnMut(&[u8])) {
        if std::mem::take(&mut self.returned) && run[0] != b'\n' {
            self.line.clear();
        }
        let Some(last) = run.iter().rposition(|b| *b == b'\n') else {
            self.open(run, out);
            return;
        };
        let (lines, open) = run.split_at(last + 1);
        if self.line.is_empty() {
            out(lines);
        } else {
            self.finish(out);
            out(lines);
        }
        self.open(open, out);
    }

    fn open(&mut self, part: &[u8], out: &mut impl FnMut(&[u8])) {
        self.line.extend_from_slice(part);
        if self.line.len() > MAX_OPEN_LINE {
            self.finish(out);
        }
    }

    /// Handles one byte that is not plain text. Returns false if the byte must be read again in the new state.
    fn control(&mut self, b: u8) -> bool {
        self.changed = true;
        match (self.state, b) {
            (State::Ground, b'\r') => self.returned = true,
            (State::Ground, 0x08) => self.take_back(),
            (State::Ground | State::Escape | State::Csi | State::Intermediate, 0x1B) => {
                self.state = State::Escape;
            }
            (State::Ground, _) => {}
            (State::Escape, b'[') => self.state = State::Csi,
            (State::Escape, b']' | b'P' | b'X' | b'^' | b'_') => {
                self.state = State::Text;
                self.string_len = 0;
            }
            (State::Escape | State::Intermediate, 0x20..=0x2F) => self.state = State::Intermediate,
            (State::Escape | State::Intermediate, 0x30..=0x7E) => self.state = State::Ground,
            (State::Csi, 0x20..=0x3F) => {}
            (State::Csi, 0x40..=0x7E) => self.state = State::Ground,
            (State::Escape | State::Intermediate | State::Csi, _) => return self.abort(),
            (State::Text, 0x07) => self.state = State::Ground,
            (State::Text, 0x1B) => self.state = State::TextEscape,
            (State::Text, b'\n') => return self.abort(),
            (State::Text, _) => {
                self.string_len += 1;
                if self.string_len > MAX_STRING {
                    self.state = State::Ground;
                }
            }
            (State::TextEscape, b'\\') => self.state = State::Ground,
            (State::TextEscape, _) => {
                self.state = State::Escape;
                return false;
            }
        }
        true
    }

    fn abort(&mut self) -> bool {
        self.state = State::Ground;
        false
    }

    fn take_back(&mut self) {
        while let Some(b) = self.line.pop() {
            // Continuation bytes belong to the character before them.
            if b & 0xC0 != 0x80 {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn clean(parts: &[&[u8]]) -> String {
        let mut cleaner = Cleaner::default();
        let mut out = Vec::new();
        let mut sink = |bytes: &[u8]| out.extend_from_slice(bytes);
        for part in parts {
            cleaner.push(part, &mut sink);
        }
        cleaner.finish(&mut sink);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn cleaning_table() {
        for (raw, want) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("a\r\nb\r\n", "a\nb\n"),
            ("10%\r50%\r100%\ndone", "100%\ndone"),
            ("50%\r", "50%"),
            ("50%\r\x1b[K100%\n", "100%\n"),
            ("\x1b[1;31mred\x1b[0m", "red"),
            ("\x1b]0;title\x07text", "text"),
            ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            ("\x1bPdevice\x1b\\x", "x"),
            ("\x1b(Bx", "x"),
            ("a\x08b", "b"),
            ("é\x08e", "e"),
            ("\x08\x08x", "x"),
            ("a\0b\x07c\x7f", "abc"),
            ("\x1b]unclosed\nnext", "\nnext"),
            ("\x1b[31", ""),
            ("\x1b[3\nx", "\nx"),
            ("N\x08No\x08o", "No"),
        ] {
            assert_eq!(clean(&[raw.as_bytes()]), want, "{raw:?}");
        }
    }

    #[test]
    fn a_line_without_end_is_not_kept() {
        let mut cleaner = Cleaner::default();
        let mut given = 0;
        for _ in 0..1000 {
            cleaner.push(&[b'x'; 1000], &mut |bytes| given += bytes.len());
            assert!(cleaner.line.len() <= MAX_OPEN_LINE);
        }
        cleaner.finish(&mut |bytes| given += bytes.len());
        assert_eq!(given, 1_000_000);
        let string = [b"\x1b]".as_slice(), &[b'x'; MAX_STRING + 1], b"seen\n"].concat();
        assert_eq!(clean(&[&string]), "seen\n");
    }

    proptest! {
        #[test]
        fn pieces_give_the_same_as_the_whole_and_no_control_is_left(
            bytes in proptest::collection::vec(prop_oneof![
                Just(0x1bu8), Just(b'['), Just(b']'), Just(b'\r'), Just(b'\n'), Just(0x07), Just(0x08), Just(b'\\'),
                Just(b'm'), Just(b'1'), any::<u8>(),
            ], 0..60),
            cut in 0usize..60,
        ) {
            let cut = cut.min(bytes.len());
            let whole = clean(&[&bytes]);
            prop_assert_eq!(&clean(&[&bytes[..cut], &bytes[cut..]]), &whole);
            prop_assert!(!whole.bytes().any(|b| SPECIAL[usize::from(b)]), "{:?}", whole);
        }
    }
}
