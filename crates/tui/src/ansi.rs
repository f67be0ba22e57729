//! Output of programs as styled text. Colours are kept, every other escape sequence is left out, and other control
//! characters are made visible.
//!
//! Owns the parsing of escape sequences in output. A sequence that does not end on its line is left out too. A carriage
//! return restarts the line, because progress bars use it to overwrite what they wrote. Invariant: no control character
//! comes out.

use crate::text;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

/// Parser that carries the current style from one line of output to the next.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ansi {
    base: Style,
    style: Style,
    colours: bool,
}

impl Ansi {
    /// Starts with the style `base`. `colours`: the theme shows colours; if false, colour codes are left out.
    pub fn new(base: Style, colours: bool) -> Self {
        Self { base, style: base, colours }
    }

    /// Styles one line, given without its line break.
    pub fn line(&mut self, line: &str) -> Vec<Span<'static>> {
        let line = line.trim_end_matches('\r');
        let mut spans = Vec::new();
        for (i, part) in line.split('\r').enumerate() {
            if i > 0 {
                spans.clear();
            }
            self.part(part, &mut spans);
        }
        spans
    }

    fn part(&mut self, line: &str, spans: &mut Vec<Span<'static>>) {
        let mut rest = line;
        while let Some(at) = rest.find('\u{1b}') {
            self.put(&rest[..at], spans);
            rest = self.escape(&rest[at + 1..]);
        }
        self.put(rest, spans);
    }

    fn put(&self, text: &str, spans: &mut Vec<Span<'static>>) {
        if !text.is_empty() {
            spans.push(Span::styled(text::visible(text).into_owned(), self.style));
        }
    }

    /// Consumes one escape sequence and returns the text after it.
    fn escape<'a>(&mut self, rest: &'a str) -> &'a str {
        let mut chars = rest.chars();
        match chars.next() {
            Some('[') => {
                let body = chars.as_str();
                let Some(end) = body.find(|c: char| ('\u{40}'..='\u{7e}').contains(&c)) else { return "" };
                if body[end..].starts_with('m') {
                    self.select(&body[..end]);
                }
                &body[end + 1..]
            }
            // Strings for the terminal itself: titles, links, device control.
            Some(']' | 'P' | 'X' | '^' | '_') => {
                let body = chars.as_str();
                let Some(end) = body.find(['\u{7}', '\u{1b}', '\u{9c}']) else { return "" };
                let behind = &body[end..];
                behind.strip_prefix("\u{1b}\\").unwrap_or_else(|| {
                    let mut chars = behind.chars();
                    chars.next();
                    chars.as_str()
                })
            }
            Some(' '..='/') => {
                let body = chars.as_str();
                let end = body.find(|c: char| !(' '..='/').contains(&c));
                end.map_or("", |end| body[end..].strip_prefix(|_: char| true).unwrap_or_default())
            }
            Some(_) => chars.as_str(),
            None => "",
        }
    }

    fn select(&mut self, parameters: &str) {
        if !self.colours || !parameters.bytes().all(|b| b.is_ascii_digit() || matches!(b, b';' | b':')) {
            return;
        }
        let codes: Vec<u8> = parameters.split([';', ':']).map(|p| p.parse().unwrap_or(0)).collect();
        let mut at = codes.iter().copied();
        while let Some(code) = at.next() {
            self.style = match code {
                0 => self.base,
                1 => self.style.add_modifier(Modifier::BOLD),
                2 => self.style.add_modifier(Modifier::DIM),
                3 => self.style.add_modifier(Modifier::ITALIC),
                4 => self.style.add_modifier(Modifier::UNDERLINED),
                7 => self.style.add_modifier(Modifier::REVERSED),
                9 => self.style.add_modifier(Modifier::CROSSED_OUT),
                22 => self.style.remove_modifier(Modifier::BOLD | Modifier::DIM),
                23 => self.style.remove_modifier(Modifier::ITALIC),
                24 => self.style.remove_modifier(Modifier::UNDERLINED),
                27 => self.style.remove_modifier(Modifier::REVERSED),
                29 => self.style.remove_modifier(Modifier::CROSSED_OUT),
                30..=37 => self.style.fg(Color::Indexed(code - 30)),
                40..=47 => self.style.bg(Color::Indexed(code - 40)),
                90..=97 => self.style.fg(Color::Indexed(code - 82)),
                100..=107 => self.style.bg(Color::Indexed(code - 92)),
                39 => Style { fg: self.base.fg, ..self.style },
                49 => Style { bg: self.base.bg, ..self.style },
                38 | 48 => match extended(&mut at) {
                    Some(colour) if code == 38 => self.style.fg(colour),
                    Some(colour) => self.style.bg(colour),
                    None => self.style,
                },
                _ => self.style,
            };
        }
    }
}

/// The sixteen standard colours, indexed by their ANSI number.
const SIXTEEN: [Color; 16] = [
    Color::Black,
    Color::Red,
    Color::Green,
    Color::Yellow,
    Color::Blue,
    Color::Magenta,
    Color::Cyan,
    Color::Gray,
    Color::DarkGray,
    Color::LightRed,
    Color::LightGreen,
    Color::LightYellow,
    Color::LightBlue,
    Color::LightMagenta,
    Color::LightCyan,
    Color::White,
];

/// Returns the ANSI number of a named colour, `None` for any other colour.
pub(crate) fn number(color: Color) -> Option<u8> {
    SIXTEEN.iter().position(|named| *named == color).map(|at| at as u8)
}

fn extended(codes: &mut impl Iterator<Item = u8>) -> Option<Color> {
    match codes.next()? {
        5 => Some(Color::Indexed(codes.next()?)),
        2 => Some(Color::Rgb(codes.next()?, codes.next()?, codes.next()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(line: &str) -> String {
        Ansi::new(Style::new(), true).line(line).iter().map(|s| s.content.as_ref()).collect()
    }

    #[test]
    fn colours_are_kept_and_the_rest_is_left_out() {
        let base = Style::new().fg(Color::Gray);
        let mut ansi = Ansi::new(base, true);
        let spans = ansi.line("a\x1b[1;31mred\x1b[K");
        assert_eq!(spans[0].style, base);
        assert_eq!(spans[1].style, base.fg(Color::Indexed(1)).add_modifier(Modifier::BOLD));
        assert_eq!(ansi.line("on\x1b[0mend")[0].style, spans[1].style);
        assert_eq!(ansi.line("x")[0].style, base);
        assert_eq!(text("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x1b(Bc\x1b7d\x1b[?25le"), "abcde");
        assert_eq!(text("\x1b[38;2;1;2;3mx\x1b[38;5;7my\x1b[48:5:1mz"), "xyz");
        assert_eq!(text("10 %\r20 %\r"), "20 %");
        assert_eq!(text("a\x08b\x1b["), "a␈b");
        assert!(Ansi::new(base, false).line("\x1b[31mx").iter().all(|s| s.style == base));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]
        #[test]
        fn no_control_character_comes_out(line in "[\u{1b}\\[\\]0-9;:mKP\\\\\u{7}\u{9c}\u{202e}\r (a-c日]{0,30}") {
            let shown = text(&line);
            prop_assert!(shown.chars().all(|c| !c.is_control() && c != '\u{202e}'), "{:?}", shown);
        }
    }
}
