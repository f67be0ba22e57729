//! Styles as escape sequences: the shortest sequence from one style to the next.
//!
//! The underline colour of a cell is the number of a hyperlink ([`links`]) and never a colour.

use crate::links;
use ratatui::buffer::Cell;
use ratatui::style::{Color, Modifier, Style};
use std::io::{self, Write};

/// The style with which the terminal currently writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pen {
    fg: Color,
    bg: Color,
    link: Color,
    modifier: Modifier,
}

impl Default for Pen {
    fn default() -> Self {
        Self { fg: Color::Reset, bg: Color::Reset, link: Color::Reset, modifier: Modifier::empty() }
    }
}

impl From<&Cell> for Pen {
    fn from(cell: &Cell) -> Self {
        Self { fg: cell.fg, bg: cell.bg, link: cell.underline_color, modifier: cell.modifier }
    }
}

impl From<Style> for Pen {
    fn from(style: Style) -> Self {
        Self {
            fg: style.fg.unwrap_or(Color::Reset),
            bg: style.bg.unwrap_or(Color::Reset),
            link: style.underline_color.unwrap_or(Color::Reset),
            modifier: style.add_modifier.difference(style.sub_modifier),
        }
    }
}

const MODIFIERS: [(Modifier, &str); 8] = [
    (Modifier::BOLD, "1"),
    (Modifier::DIM, "2"),
    (Modifier::ITALIC, "3"),
    (Modifier::UNDERLINED, "4"),
    (Modifier::SLOW_BLINK, "5"),
    (Modifier::REVERSED, "7"),
    (Modifier::HIDDEN, "8"),
    (Modifier::CROSSED_OUT, "9"),
];

impl Pen {
    /// Writes the sequence that changes the style from `self` to `to`.
    pub(super) fn change(&mut self, to: Self, out: &mut impl Write) -> io::Result<()> {
        if *self == to {
            return Ok(());
        }
        if self.link != to.link {
            out.write_all(links::change(self.link, to.link).as_bytes())?;
            self.link = to.link;
            if *self == to {
                return Ok(());
            }
        }
        if to == Self::default() {
            *self = to;
            return out.write_all(b"\x1b[m");
        }
        let mut codes: Vec<String> = Vec::new();
        let mut from = *self;
        if !to.modifier.contains(from.modifier) {
            codes.push("0".to_owned());
            from = Self { link: from.link, ..Self::default() };
        }
        let new = to.modifier.difference(from.modifier);
        codes.extend(MODIFIERS.iter().filter(|(m, _)| new.contains(*m)).map(|(_, code)| (*code).to_owned()));
        if from.fg != to.fg {
            codes.push(color(to.fg, 30));
        }
        if from.bg != to.bg {
            codes.push(color(to.bg, 40));
        }
        *self = to;
        write!(out, "\x1b[{}m", codes.join(";"))
    }
}

/// Returns the parameters of a colour. `base`: 30 for the text, 40 for the background, 50 for the underline (which has
/// no named colours).
fn color(color: Color, base: u8) -> String {
    let named = match color {
        Color::Rgb(r, g, b) => return format!("{};2;{r};{g};{b}", base + 8),
        Color::Indexed(n) => return format!("{};5;{n}", base + 8),
        other => crate::ansi::number(other),
    };
    match named {
        None => (base + 9).to_string(),
        Some(n) if base == 50 => format!("58;5;{n}"),
        Some(n @ 0..8) => (base + n).to_string(),
        Some(n) => (base + 52 + n).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_says_only_what_is_new() {
        let check = |from: Style, to: Style, want: &str| {
            let mut out = Vec::new();
            Pen::from(from).change(Pen::from(to), &mut out).unwrap();
            assert_eq!(String::from_utf8_lossy(&out), want);
        };
        let (none, bold) = (Style::new(), Style::new().add_modifier(Modifier::BOLD));
        check(none, none, "");
        check(none, bold, "\x1b[1m");
        check(bold, none, "\x1b[m");
        check(bold, bold.fg(Color::Red), "\x1b[31m");
        check(bold.fg(Color::Red), none.fg(Color::Rgb(1, 2, 3)), "\x1b[0;38;2;1;2;3m");
        check(none.bg(Color::White), none.bg(Color::Indexed(7)), "\x1b[48;5;7m");
        check(bold, bold.fg(Color::LightBlue).bg(Color::Black), "\x1b[94;40m");
        check(none.bg(Color::White), bold, "\x1b[1;49m");
    }

    #[test]
    fn a_link_begins_and_ends_once_and_its_styles_are_its_own() {
        links::switch_on();
        let link = links::to("https://example.org/pen", Style::new());
        let bold = link.add_modifier(Modifier::BOLD);
        let mut out = Vec::new();
        let mut pen = Pen::default();
        for style in [link, link, bold, link, Style::new()] {
            pen.change(Pen::from(style), &mut out).unwrap();
            out.push(b'x');
        }
        let out = String::from_utf8(out).unwrap();
        let (begin, rest) = out.split_once("https://example.org/pen\x1b\\").unwrap();
        assert!(begin.starts_with("\x1b]8;id=b"), "{begin:?}");
        assert_eq!(rest, "xx\x1b[1mx\x1b[0mx\x1b]8;;\x1b\\x");
    }
}
