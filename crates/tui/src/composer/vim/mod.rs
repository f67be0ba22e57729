//! Vim keys for the composer's buffer: normal, insert and visual mode, counts, one register, and repeating the last
//! change.
//!
//! A reducer over keys. `parse` reads commands, `motion` computes motions; the buffer owns the text, its undo history
//! and its chips. In insert mode the composer handles every key except Esc.

mod motion;
mod parse;

use super::buffer::{Buffer, is_chip};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use motion::Text;
use parse::{Command, Motion, Operator, Parsed, Target, What};
use std::ops::Range;

/// Modes of Vim keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Insert,
    Normal,
    /// The selection starts at this offset. `lines`: it covers whole lines.
    Visual {
        anchor: usize,
        lines: bool,
    },
}

impl Mode {
    /// Returns the name as the status line shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Insert => "INSERT",
            Self::Normal => "NORMAL",
            Self::Visual { lines: false, .. } => "VISUAL",
            Self::Visual { lines: true, .. } => "VISUAL LINE",
        }
    }
}

/// State of Vim keys.
#[derive(Clone, Debug, Default)]
pub struct Vim {
    mode: Mode,
    /// Keys of an incomplete command.
    keys: String,
    register: Register,
    find: Option<(char, char)>,
    /// The last change: its command, and the text inserted after it.
    last: Option<(Command, String)>,
    /// Offset at which the insertion of the current change began.
    inserting: Option<usize>,
}

#[derive(Clone, Debug, Default)]
struct Register {
    text: String,
    lines: bool,
}

impl Vim {
    /// Returns the current mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns to insert mode with nothing pending, because a new text begins.
    pub fn reset(&mut self) {
        self.mode = Mode::Insert;
        self.keys.clear();
        self.inserting = None;
        // Chips of the previous text no longer exist.
        self.register.text.retain(|c| !is_chip(c));
    }

    /// True if Esc has a meaning in the current mode.
    pub(crate) fn takes_escape(&self) -> bool {
        self.mode != Mode::Normal || !self.keys.is_empty()
    }

    /// Handles a key. Returns false if the composer shall handle it.
    pub fn key(&mut self, b: &mut Buffer, key: KeyEvent) -> bool {
        if key.code == KeyCode::Esc && self.takes_escape() {
            self.escape(b);
            return true;
        }
        if self.mode == Mode::Insert {
            return false;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('r') {
            b.redo();
            return true;
        }
        if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            return false;
        }
        let c = match key.code {
            KeyCode::Char(c) => c,
            KeyCode::Left | KeyCode::Backspace => 'h',
            KeyCode::Right => 'l',
            KeyCode::Home => '0',
            KeyCode::End => '$',
            KeyCode::Delete => 'x',
            _ => return false,
        };
        self.keys.push(c);
        if let Mode::Visual { anchor, lines } = self.mode {
            self.visual(b, c, anchor, lines);
        } else {
            self.normal(b);
        }
        true
    }

    fn escape(&mut self, b: &mut Buffer) {
        self.keys.clear();
        if self.mode == Mode::Insert {
            if let (Some(start), Some((_, inserted))) = (self.inserting.take(), &mut self.last) {
                b.text().get(start..b.cursor()).unwrap_or_default().clone_into(inserted);
            }
            let line = Text::new(b.text()).line(b.cursor()).start;
            if b.cursor() > line {
                b.left();
            }
        }
        self.mode = Mode::Normal;
        settle(b);
    }

    fn normal(&mut self, b: &mut Buffer) {
        let command = match parse::parse(&self.keys) {
            Parsed::More => return,
            Parsed::Nothing => {
                self.keys.clear();
                return;
            }
            Parsed::Command(command) => command,
        };
        self.keys.clear();
        if command.what == What::Plain('.') {
            if let Some((last, inserted)) = self.last.clone() {
                self.run(b, &Command { count: command.count.or(last.count), ..last.clone() });
                if self.mode == Mode::Insert {
                    b.insert(&inserted);
                    self.escape(b);
                }
                self.last = Some((last, inserted));
            }
            return;
        }
        let changes = match &command.what {
            What::Move(_) | What::Operate(Operator::Yank, _) => false,
            What::Plain(c) => !"uvVY".contains(*c),
            _ => true,
        };
        self.run(b, &command);
        if changes {
            self.inserting = (self.mode == Mode::Insert).then(|| b.cursor());
            self.last = Some((command, String::new()));
        }
    }

    fn run(&mut self, b: &mut Buffer, command: &Command) {
        match &command.what {
            What::Move(motion) => {
                self.go(b, *motion, command.count);
            }
            What::Operate(operator, target) => {
                if let Some((range, lines)) = self.range(b, target, command.count, *operator) {
                    self.operate(b, *operator, range, lines);
                }
            }
            What::Replace(c) => {
                let text = Text::new(b.text());
                let (from, line) = (b.cursor(), text.line(b.cursor()));
                let to = (0..command.count.unwrap_or(1)).fold(from, |at, _| text.after(at));
                if to <= line.end && from < line.end {
                    let new = c.to_string().repeat(command.count.unwrap_or(1));
                    b.replace(from..to, &new);
                    b.left();
                }
            }
            What::Plain(c) => self.plain(b, *c, command.count),
        }
        if self.mode == Mode::Normal {
            settle(b);
        }
    }

    fn go(&mut self, b: &mut Buffer, motion: Motion, count: Option<usize>) {
        if let Motion::Find(find, target) = motion {
            self.find = Some((find, target));
        }
        if let Some(goal) = Text::new(b.text()).goal(motion, b.cursor(), count, self.find) {
            b.move_to(goal.to);
        }
    }

    /// Returns the range that an operator works on, and true if it covers whole lines.
    fn range(
        &mut self,
        b: &Buffer,
        target: &Target,
        count: Option<usize>,
        operator: Operator,
    ) -> Option<(Range<usize>, bool)> {
        let text = Text::new(b.text());
        let from = b.cursor();
        match target {
            Target::Object(around, object) => text.object(*around, *object, from).map(|range| (range, false)),
            Target::Lines => {
                let line = text.line(from);
                let mut end = line.end;
                for _ in 1..count.unwrap_or(1) {
                    end = text.line((end + 1).min(b.text().len())).end;
                }
                Some((line.start..end, true))
            }
            Target::Motion(motion) => {
                if let Motion::Find(find, target) = motion {
                    self.find = Some((*find, *target));
                }
                let motion = *motion;
                // `cw` leaves the space after the word.
                if let Motion::Key(c @ ('w' | 'W')) = motion
                    && operator == Operator::Change
                    && !b.text()[from..].starts_with(char::is_whitespace)
                {
                    return Some((from..text.words_end(from, count.unwrap_or(1), c == 'W'), false));
                }
                let goal = text.goal(motion, from, count, self.find)?;
                let (start, mut end) = (from.min(goal.to), from.max(goal.to));
                if goal.lines {
                    return Some((text.line(start).start..text.line(end).end, true));
                }
                if goal.inclusive {
                    end = text.after(end).min(text.line(end).end.max(end));
                }
                // `dw` on the last word of a line does not join lines.
                if matches!(motion, Motion::Key('w' | 'W')) && count.unwrap_or(1) == 1 {
                    end = end.min(text.line(from).end);
                }
                Some((start..end, false))
            }
        }
    }

    fn operate(&mut self, b: &mut Buffer, operator: Operator, range: Range<usize>, lines: bool) {
        self.register = Register { text: b.text()[range.clone()].to_owned(), lines };
        match operator {
            Operator::Yank => b.move_to(range.start),
            Operator::Change => {
                b.replace(range, "");
                self.mode = Mode::Insert;
            }
            Operator::Delete if lines => {
                // The line break is removed as well: the one after the lines, or the one before them at the end of the
                // text.
                let whole = if range.end < b.text().len() {
                    range.start..range.end + 1
                } else {
                    range.start.saturating_sub(1)..range.end
                };
                b.replace(whole, "");
                let line = Text::new(b.text()).line(b.cursor()).start;
                b.move_to(line);
            }
            Operator::Delete => b.replace(range, ""),
        }
    }

    fn plain(&mut self, b: &mut Buffer, c: char, count: Option<usize>) {
        let text = Text::new(b.text());
        let (at, line) = (b.cursor(), text.line(b.cursor()));
        let times = count.unwrap_or(1);
        let ahead = (0..times).fold(at, |at, _| text.after(at)).min(line.end);
        match c {
            'x' | 's' => {
                let operator = if c == 'x' { Operator::Delete } else { Operator::Change };
                self.operate(b, operator, at..ahead, false);
            }
            'X' => {
                let from = (0..times).fold(at, |at, _| text.before(at)).max(line.start);
                self.operate(b, Operator::Delete, from..at, false);
            }
            'D' => self.operate(b, Operator::Delete, at..line.end, false),
            'C' => self.operate(b, Operator::Change, at..line.end, false),
            'S' => self.operate(b, Operator::Change, line, true),
            'Y' => {
                self.operate(b, Operator::Yank, line, true);
                b.move_to(at);
            }
            'i' | 'a' | 'I' | 'A' => {
                match c {
                    'a' if at < line.end => b.right(),
                    'I' => self.go(b, Motion::Key('^'), None),
                    'A' => b.move_to(line.end),
                    _ => {}
                }
                self.mode = Mode::Insert;
            }
            'o' => {
                b.replace(line.end..line.end, "\n");
                self.mode = Mode::Insert;
            }
            'O' => {
                b.replace(line.start..line.start, "\n");
                b.move_to(line.start);
                self.mode = Mode::Insert;
            }
            'p' | 'P' => self.put(b, c == 'P', times),
            'u' => (0..times).for_each(|_| b.undo()),
            'v' | 'V' => self.mode = Mode::Visual { anchor: at, lines: c == 'V' },
            'J' if line.end < b.text().len() => {
                b.replace(line.end..line.end + 1, " ");
                b.left();
            }
            '~' => {
                let turn = |c: char| {
                    if c.is_uppercase() { c.to_lowercase().to_string() } else { c.to_uppercase().to_string() }
                };
                let turned: String = b.text()[at..ahead].chars().map(turn).collect();
                b.replace(at..ahead, &turned);
            }
            _ => {}
        }
    }

    fn put(&mut self, b: &mut Buffer, before: bool, times: usize) {
        let Register { text, lines } = self.register.clone();
        let line = Text::new(b.text()).line(b.cursor());
        let many = |text: &str| text.repeat(times.min(1_000));
        match (lines, before) {
            (true, true) => {
                b.put_back(line.start, &many(&format!("{text}\n")));
                b.move_to(line.start);
            }
            (true, false) => {
                b.put_back(line.end, &many(&format!("\n{text}")));
                b.move_to(line.end + 1);
            }
            (false, before) => {
                let at = if before || line.is_empty() {
                    b.cursor()
                } else {
                    Text::new(b.text()).after(b.cursor())
                };
                b.put_back(at, &many(&text));
                if !text.is_empty() {
                    b.left();
                }
            }
        }
    }

    fn visual(&mut self, b: &mut Buffer, c: char, anchor: usize, lines: bool) {
        let operator = match c {
            'd' | 'x' if self.keys.len() == 1 => Some(Operator::Delete),
            'c' | 's' if self.keys.len() == 1 => Some(Operator::Change),
            'y' if self.keys.len() == 1 => Some(Operator::Yank),
            'v' | 'V' if self.keys.len() == 1 => {
                self.keys.clear();
                let same = lines == (c == 'V');
                self.mode = if same { Mode::Normal } else { Mode::Visual { anchor, lines: c == 'V' } };
                return;
            }
            _ => None,
        };
        if let Some(operator) = operator {
            self.keys.clear();
            let range = self.selected(b).unwrap_or_default();
            self.mode = Mode::Normal;
            self.operate(b, operator, range, lines);
            if self.mode == Mode::Normal {
                settle(b);
            }
            return;
        }
        match parse::parse(&self.keys) {
            Parsed::More => {}
            Parsed::Command(Command { count, what: What::Move(motion) }) => {
                self.keys.clear();
                self.go(b, motion, count);
                settle(b);
            }
            Parsed::Nothing | Parsed::Command(_) => self.keys.clear(),
        }
    }

    /// Returns the selected bytes of the text.
    pub(crate) fn selected(&self, b: &Buffer) -> Option<Range<usize>> {
        let Mode::Visual { anchor, lines } = self.mode else { return None };
        let text = Text::new(b.text());
        let anchor = anchor.min(b.text().len());
        let (start, end) = (anchor.min(b.cursor()), anchor.max(b.cursor()));
        Some(if lines { text.line(start).start..text.line(end).end } else { start..text.after(end) })
    }
}

/// Moves the cursor onto a character: in normal mode it cannot be after the last one.
fn settle(b: &mut Buffer) {
    let text = Text::new(b.text());
    let last = text.last(b.cursor());
    if b.cursor() > last {
        b.move_to(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Presses keys in normal mode; `<esc>` and `<c-r>` are those keys. `|` marks the cursor.
    fn check(before: &str, keys: &str, after: &str) {
        let mut b = Buffer::default();
        b.set(&before.replace('|', ""));
        b.move_to(before.find('|').unwrap());
        let mut vim = Vim { mode: Mode::Normal, ..Vim::default() };
        let mut rest = keys;
        while let Some(c) = rest.chars().next() {
            let (code, modifiers, len) = if rest.starts_with("<esc>") {
                (KeyCode::Esc, KeyModifiers::NONE, 5)
            } else if rest.starts_with("<c-r>") {
                (KeyCode::Char('r'), KeyModifiers::CONTROL, 5)
            } else {
                (KeyCode::Char(c), KeyModifiers::NONE, c.len_utf8())
            };
            rest = &rest[len..];
            if !vim.key(&mut b, KeyEvent::new(code, modifiers)) {
                b.insert(c.encode_utf8(&mut [0; 4]));
            }
        }
        let mut shown = b.text().to_owned();
        shown.insert(b.cursor(), '|');
        assert_eq!(shown, after, "{before:?} {keys:?}");
    }

    #[test]
    fn motions() {
        for (before, keys, after) in [
            ("one| two", "h", "on|e two"),
            ("|one", "3l", "on|e"),
            ("|one two-three", "w", "one |two-three"),
            ("|one two-three", "2w", "one two|-three"),
            ("|one two-three", "2W", "one two-thre|e"),
            ("one two-three|", "b", "one two-|three"),
            ("|one two", "e", "on|e two"),
            ("|one two", "2e", "one tw|o"),
            ("  on|e", "0", "|  one"),
            ("  on|e", "^", "  |one"),
            ("|one\ntwo", "$", "on|e\ntwo"),
            ("on|e\ntwo\nx", "j", "one\ntw|o\nx"),
            ("one\ntw|o", "k", "on|e\ntwo"),
            ("|a\nb\nc", "G", "a\nb\n|c"),
            ("a\nb\n|c", "gg", "|a\nb\nc"),
            ("|a\nb\nc", "2G", "a\n|b\nc"),
            ("|f(a(b)c)", "%", "f(a(b)c|)"),
            ("f(a(b)c|)", "%", "f|(a(b)c)"),
            ("|a,b,c", "f,", "a|,b,c"),
            ("|a,b,c", "2f,", "a,b|,c"),
            ("|a,b,c", "t,;", "|a,b,c"),
            ("|a,b,c", "f,;", "a,b|,c"),
            ("a,b,|c", "F,", "a,b|,c"),
            ("a,b,|c", "2F,", "a|,b,c"),
            ("|äö日 x", "w", "äö日 |x"),
        ] {
            check(before, keys, after);
        }
    }

    #[test]
    fn changes() {
        for (before, keys, after) in [
            ("|one two", "x", "|ne two"),
            ("one tw|o", "x", "one t|w"),
            ("|one two", "3x", "| two"),
            ("one\n|two\nthree", "dd", "one\n|three"),
            ("one\n|two", "dd", "|one"),
            ("|a\nb\nc", "2dd", "|c"),
            ("|one two three", "dw", "|two three"),
            ("|one two three", "d2w", "|three"),
            ("one |two\nthree", "dw", "one| \nthree"),
            ("one |two", "db", "|two"),
            ("|one two", "de", "| two"),
            ("one |two three", "D", "one| "),
            ("|one two", "cwmy<esc>", "m|y two"),
            ("one t|wo", "ciwmy<esc>", "one m|y"),
            ("f(\"a| b\")", "ci\"x<esc>", "f(\"|x\")"),
            ("f(a, |b)", "di(", "f(|)"),
            ("f(a, |b)", "da(", "|f"),
            ("o|ne\ntwo", "yyp", "one\n|one\ntwo"),
            ("o|ne\ntwo", "yyP", "|one\none\ntwo"),
            ("|one two", "yw$p", "one twoone| "),
            ("|one", "xp", "n|oe"),
            ("|one two", "dwu", "|one two"),
            ("|one two", "dwu<c-r>", "|two"),
            ("|one two three", "dw.", "|three"),
            ("|a b c", "cwx<esc>w.", "x |x c"),
            ("|one", "aX<esc>", "o|Xne"),
            ("one|", "IX<esc>", "|Xone"),
            ("|one", "AX<esc>", "one|X"),
            ("|one", "ox<esc>", "one\n|x"),
            ("|one", "Ox<esc>", "|x\none"),
            ("|one", "rX", "|Xne"),
            ("o|ne", "~", "oN|e"),
            ("|one\ntwo", "J", "one| two"),
            ("|one two", "vey", "|one two"),
            ("|one two", "ved", "| two"),
            ("|a\nb\nc", "Vjd", "|c"),
            ("|one two", "dfo", "|"),
            ("one|", "dtx", "on|e"),
            ("|", "ddxpu.", "|"),
        ] {
            check(before, keys, after);
        }
    }
}
