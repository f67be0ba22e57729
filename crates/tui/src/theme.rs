//! Colours and marks by what they mean. No pane names a colour.
//!
//! A theme is data. [`Theme::plain`] has no colour at all (`NO_COLOR`): everything that colour says is also said by a mark or
//! a word, so that it can be told without.

use ratatui::style::{Color, Modifier, Style};

/// Styles by meaning.
#[derive(Clone, Debug, PartialEq)]
pub struct Theme {
    pub name: &'static str,
    pub text: Style,
    /// Of lesser weight: times, counts, hints.
    pub dim: Style,
    /// What the eye should find: the prompt, headings, the chosen entry.
    pub accent: Style,
    pub user: Style,
    pub code: Style,
    pub link: Style,
    pub ok: Style,
    pub warning: Style,
    pub error: Style,
    pub added: Style,
    pub removed: Style,
    /// Words that changed within a changed line.
    pub added_word: Style,
    pub removed_word: Style,
    pub border: Style,
    pub selected: Style,
    /// syntect theme for code blocks: dark or light; none without colours.
    pub syntax: Option<Syntax>,
}

/// Which highlighting fits the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    Dark,
    Light,
}

fn fg(color: Color) -> Style {
    Style::new().fg(color)
}

impl Theme {
    /// All themes by name, the default first.
    pub const NAMES: [&'static str; 6] = ["dark", "light", "high-contrast", "colour-blind", "ansi", "plain"];

    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "dark" => Some(Self::dark()),
            "light" => Some(Self::light()),
            "high-contrast" => Some(Self::high_contrast()),
            "colour-blind" | "color-blind" => Some(Self::colour_blind()),
            "ansi" => Some(Self::ansi()),
            "plain" => Some(Self::plain()),
            _ => None,
        }
    }

    pub fn dark() -> Self {
        Self {
            name: "dark",
            text: Style::new(),
            dim: fg(Color::Rgb(139, 148, 158)),
            accent: fg(Color::Rgb(121, 184, 255)),
            user: fg(Color::Rgb(210, 168, 255)),
            code: fg(Color::Rgb(255, 203, 139)),
            link: fg(Color::Rgb(121, 184, 255)).add_modifier(Modifier::UNDERLINED),
            ok: fg(Color::Rgb(126, 211, 133)),
            warning: fg(Color::Rgb(227, 179, 65)),
            error: fg(Color::Rgb(255, 123, 114)),
            added: fg(Color::Rgb(126, 211, 133)),
            removed: fg(Color::Rgb(255, 123, 114)),
            added_word: fg(Color::Rgb(220, 255, 228)).bg(Color::Rgb(22, 92, 48)),
            removed_word: fg(Color::Rgb(255, 225, 222)).bg(Color::Rgb(120, 32, 32)),
            border: fg(Color::Rgb(82, 90, 100)),
            selected: Style::new().bg(Color::Rgb(38, 56, 80)),
            syntax: Some(Syntax::Dark),
        }
    }

    pub fn light() -> Self {
        Self {
            name: "light",
            text: Style::new(),
            dim: fg(Color::Rgb(101, 109, 118)),
            accent: fg(Color::Rgb(9, 80, 180)),
            user: fg(Color::Rgb(110, 57, 180)),
            code: fg(Color::Rgb(149, 56, 0)),
            link: fg(Color::Rgb(9, 80, 180)).add_modifier(Modifier::UNDERLINED),
            ok: fg(Color::Rgb(17, 99, 41)),
            warning: fg(Color::Rgb(125, 78, 0)),
            error: fg(Color::Rgb(180, 20, 35)),
            added: fg(Color::Rgb(17, 99, 41)),
            removed: fg(Color::Rgb(180, 20, 35)),
            added_word: fg(Color::Rgb(10, 60, 25)).bg(Color::Rgb(172, 242, 189)),
            removed_word: fg(Color::Rgb(90, 10, 20)).bg(Color::Rgb(255, 200, 200)),
            border: fg(Color::Rgb(175, 184, 193)),
            selected: Style::new().bg(Color::Rgb(218, 232, 252)),
            syntax: Some(Syntax::Light),
        }
    }

    /// The sixteen colours that the terminal's own palette decides.
    pub fn ansi() -> Self {
        Self {
            name: "ansi",
            text: Style::new(),
            dim: fg(Color::DarkGray),
            accent: fg(Color::Cyan),
            user: fg(Color::Magenta),
            code: fg(Color::Yellow),
            link: fg(Color::Cyan).add_modifier(Modifier::UNDERLINED),
            ok: fg(Color::Green),
            warning: fg(Color::Yellow),
            error: fg(Color::Red),
            added: fg(Color::Green),
            removed: fg(Color::Red),
            added_word: fg(Color::Green).add_modifier(Modifier::REVERSED),
            removed_word: fg(Color::Red).add_modifier(Modifier::REVERSED),
            border: fg(Color::DarkGray),
            selected: Style::new().add_modifier(Modifier::REVERSED),
            syntax: None,
        }
    }

    pub fn high_contrast() -> Self {
        let bold = |color| fg(color).add_modifier(Modifier::BOLD);
        Self {
            name: "high-contrast",
            text: fg(Color::White),
            dim: fg(Color::White),
            accent: bold(Color::LightCyan),
            user: bold(Color::LightMagenta),
            code: fg(Color::LightYellow),
            link: fg(Color::LightCyan).add_modifier(Modifier::UNDERLINED),
            ok: bold(Color::LightGreen),
            warning: bold(Color::LightYellow),
            error: bold(Color::LightRed),
            added: fg(Color::LightGreen),
            removed: fg(Color::LightRed),
            added_word: bold(Color::LightGreen).add_modifier(Modifier::REVERSED),
            removed_word: bold(Color::LightRed).add_modifier(Modifier::REVERSED),
            border: fg(Color::White),
            selected: Style::new().add_modifier(Modifier::REVERSED),
            syntax: None,
        }
    }

    /// Blue and orange instead of green and red.
    pub fn colour_blind() -> Self {
        let blue = Color::Rgb(86, 180, 233);
        let orange = Color::Rgb(230, 159, 0);
        Self {
            name: "colour-blind",
            ok: fg(blue),
            warning: fg(Color::Rgb(240, 228, 66)),
            error: fg(orange),
            added: fg(blue),
            removed: fg(orange),
            added_word: fg(Color::Black).bg(blue),
            removed_word: fg(Color::Black).bg(orange),
            ..Self::dark()
        }
    }

    /// No colour: bold, underline and reverse only.
    pub fn plain() -> Self {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let none = Style::new();
        Self {
            name: "plain",
            text: none,
            dim: none,
            accent: bold,
            user: bold,
            code: none,
            link: none.add_modifier(Modifier::UNDERLINED),
            ok: none,
            warning: bold,
            error: bold,
            added: none,
            removed: none,
            added_word: none.add_modifier(Modifier::REVERSED),
            removed_word: none.add_modifier(Modifier::REVERSED),
            border: none,
            selected: none.add_modifier(Modifier::REVERSED),
            syntax: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_theme_of_that_name() {
        for name in Theme::NAMES {
            assert_eq!(Theme::by_name(name).map(|t| t.name), Some(name));
        }
        assert_eq!(Theme::by_name("nope"), None);
    }

    #[test]
    fn plain_has_no_colour() {
        let theme = Theme::plain();
        for style in
            [theme.accent, theme.error, theme.added, theme.removed_word, theme.selected, theme.border]
        {
            assert_eq!((style.fg, style.bg), (None, None));
        }
    }
}
