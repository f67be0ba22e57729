//! Colours and marks, named by their meaning. No pane names a colour.
//!
//! A theme is data. [`Theme::plain`] has no colour at all (`NO_COLOR`): everything that a colour expresses is also
//! expressed by a mark, a word or a weight.

use crate::highlight::Class;
use ratatui::style::{Color, Modifier, Style};

/// Styles by meaning.
#[derive(Clone, Debug, PartialEq)]
pub struct Theme {
    pub name: &'static str,
    pub text: Style,
    /// Less important text: times, counts, hints.
    pub dim: Style,
    /// Text to be noticed first: the prompt, headings, the chosen entry.
    pub accent: Style,
    /// Messages of the user.
    pub user: Style,
    /// Code within a sentence, commands, and code whose language has no colours.
    pub code: Style,
    pub link: Style,
    pub outcome: OutcomeStyles,
    pub diff: DiffStyles,
    /// Lines that divide the screen.
    pub border: Style,
    /// The entry at the cursor of a list, the focused block, and matches of a search.
    pub selected: Style,
    /// Colours of code; `None` for a theme without colours.
    pub syntax: Option<Syntax>,
}

/// Styles of results, each of which also has a mark or a word of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutcomeStyles {
    pub ok: Style,
    pub warning: Style,
    pub error: Style,
}

/// Styles of changed lines, and of the words that changed within them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiffStyles {
    pub added: Style,
    pub removed: Style,
    pub added_word: Style,
    pub removed_word: Style,
}

/// Palette for code, chosen by the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    Dark,
    Light,
    /// The terminal's own sixteen colours.
    Ansi,
}

impl Syntax {
    /// Returns the colour of a class of words; `None` for the style of the line. Red means failure and removed lines,
    /// and orange or yellow a question or a warning, so no class has these colours.
    fn colour(self, class: Class) -> Option<Color> {
        let dark = |r, g, b| Some(Color::Rgb(r, g, b));
        match (self, class) {
            (_, Class::Plain) => None,
            (Self::Dark, Class::Comment) => dark(139, 148, 158),
            (Self::Dark, Class::String) => dark(165, 214, 255),
            (Self::Dark, Class::Number | Class::Constant) => dark(121, 192, 255),
            (Self::Dark, Class::Keyword) => dark(210, 168, 255),
            (Self::Dark, Class::Type) => dark(118, 227, 190),
            (Self::Dark, Class::Function) => dark(137, 220, 235),
            (Self::Dark, Class::Attribute) => dark(126, 211, 133),
            (Self::Light, Class::Comment) => dark(89, 99, 110),
            (Self::Light, Class::String) => dark(10, 48, 105),
            (Self::Light, Class::Number | Class::Constant) => dark(5, 80, 174),
            (Self::Light, Class::Keyword) => dark(110, 57, 180),
            (Self::Light, Class::Type) => dark(0, 92, 74),
            (Self::Light, Class::Function) => dark(0, 84, 104),
            (Self::Light, Class::Attribute) => dark(17, 99, 41),
            // The terminal's colours have no readable grey, so a comment has the dim style of the theme.
            (Self::Ansi, Class::Comment) => None,
            (Self::Ansi, Class::String) => Some(Color::Green),
            (Self::Ansi, Class::Number | Class::Constant) => Some(Color::Cyan),
            (Self::Ansi, Class::Keyword) => Some(Color::Magenta),
            (Self::Ansi, Class::Type | Class::Function) => Some(Color::Blue),
            (Self::Ansi, Class::Attribute) => Some(Color::Cyan),
        }
    }
}

/// Reverse video of the terminal's own colours. It sets both colours, so that texts of different colours make one band.
const REVERSE: Style = Style::new().fg(Color::Reset).bg(Color::Reset).add_modifier(Modifier::REVERSED);

fn fg(color: Color) -> Style {
    Style::new().fg(color)
}

impl Theme {
    /// Returns the style of a word of code, applied over the style of its line.
    pub fn class(&self, class: Class) -> Style {
        match (self.syntax, class) {
            (Some(Syntax::Ansi), Class::Comment) => self.dim,
            (Some(syntax), _) => syntax.colour(class).map_or_else(Style::new, fg),
            (None, _) => Style::new(),
        }
    }

    /// True if nothing has a colour, so weight, slant and underline must tell things apart.
    fn is_colourless(&self) -> bool {
        self.syntax.is_none() && self.accent.fg.is_none()
    }

    /// Returns the style of headings; `first`: of the first level. The colour distinguishes them from bold words, and the weight from
    /// links. Without colours the line below them does both.
    pub fn heading(&self, first: bool) -> Style {
        let bold = self.accent.add_modifier(Modifier::BOLD);
        if first || self.is_colourless() { bold.add_modifier(Modifier::UNDERLINED) } else { bold }
    }

    /// Returns the background of blocks of code in answers, over the full width; `None` if the indentation alone shows them.
    pub(crate) fn code_band(&self) -> Option<Style> {
        let (r, g, b) = match self.syntax? {
            Syntax::Ansi => return None,
            Syntax::Dark => (24, 29, 37),
            Syntax::Light => (240, 243, 247),
        };
        Some(Style::new().bg(Color::Rgb(r, g, b)))
    }

    /// Returns the style of code blocks whose language has no colours. Without colours italics mean code within a sentence, and the
    /// indentation shows a block.
    pub(crate) fn code_block(&self) -> Style {
        if self.is_colourless() { self.text } else { self.code }
    }

    /// Returns the style of quotes, for text in this style: italic, and less prominent than the answer's own words. Without colours
    /// code is italic too, but not dim.
    pub fn quote(&self, text: Style) -> Style {
        text.patch(self.dim).add_modifier(Modifier::ITALIC)
    }

    /// Returns the style of the sign and the number of a changed line, in a question and in the transcript. In a theme without bands
    /// they are a short band in reverse video.
    pub(crate) fn changed_sign(&self, added: bool) -> Style {
        let style = if added { self.diff.added } else { self.diff.removed };
        // Without colours removed lines are dim, and bold would undo that.
        let style = if self.is_colourless() { style } else { style.add_modifier(Modifier::BOLD) };
        match self.tint(added) {
            Some(tint) => style.patch(tint),
            None => style.add_modifier(Modifier::REVERSED),
        }
    }

    /// Returns the style of a small label on a horizontal line, such as the composer's edge.
    pub fn label(&self) -> Style {
        if self.selected.bg.is_some() { self.selected } else { REVERSE }
    }

    /// Returns the background of the user's messages over the full width; `None` if only the mark before them shows the
    /// author.
    pub(crate) fn band(&self) -> Option<Style> {
        let (r, g, b) = match self.syntax? {
            Syntax::Ansi => return None,
            Syntax::Dark => (40, 44, 52),
            Syntax::Light => (234, 238, 242),
        };
        Some(Style::new().bg(Color::Rgb(r, g, b)))
    }

    /// Returns the style of the user's messages over the full width: a band, or reverse video in a theme without bands. The greys of
    /// the sixteen colours differ too much between terminals to be a band.
    pub(crate) fn prompt_band(&self) -> Style {
        self.band().unwrap_or(REVERSE.add_modifier(Modifier::BOLD))
    }

    /// Returns the background of an added or removed line of code; `None` if the text's own colour must show it.
    pub(crate) fn tint(&self, added: bool) -> Option<Style> {
        let tint = match (self.syntax?, self.name) {
            (Syntax::Ansi, _) => return None,
            (Syntax::Dark, "colour-blind") => {
                if added {
                    (0, 38, 66)
                } else {
                    (66, 40, 0)
                }
            }
            (Syntax::Dark, _) => {
                if added {
                    (14, 46, 26)
                } else {
                    (66, 20, 24)
                }
            }
            (Syntax::Light, _) => {
                if added {
                    (225, 250, 230)
                } else {
                    (255, 222, 218)
                }
            }
        };
        Some(Style::new().bg(Color::Rgb(tint.0, tint.1, tint.2)))
    }

    /// Names of all themes, the default first.
    pub const NAMES: [&'static str; 7] =
        ["dark", "light", "system", "high-contrast", "colour-blind", "ansi", "plain"];

    /// Returns the built-in theme with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "dark" => Some(Self::dark()),
            "light" => Some(Self::light()),
            "high-contrast" => Some(Self::high_contrast()),
            "colour-blind" | "color-blind" => Some(Self::colour_blind()),
            "system" => Some(Self { name: "system", ..Self::ansi() }),
            "ansi" => Some(Self::ansi()),
            "plain" => Some(Self::plain()),
            _ => None,
        }
    }

    /// Returns the variant of this theme for a terminal with this background colour, light or dark. `system` takes all
    /// colours of the matching theme.
    #[must_use]
    pub fn on(&self, (r, g, b): (u8, u8, u8)) -> Self {
        // Weights of perceived brightness, Rec. 709.
        let bright = (u32::from(r) * 2126 + u32::from(g) * 7152 + u32::from(b) * 722) / 10_000 > 127;
        match (self.name, bright) {
            ("dark", true) => Self::light(),
            ("light", false) => Self::dark(),
            // Each variant has its own name, because layouts are cached by the name of their theme.
            ("system" | "system-light" | "system-dark", true) => {
                Self { name: "system-light", ..Self::light() }
            }
            ("system" | "system-light" | "system-dark", false) => {
                Self { name: "system-dark", ..Self::dark() }
            }
            _ => self.clone(),
        }
    }

    /// Returns a theme that the user wrote: `base`, and colours by meaning, as `#rrggbb` or by name. The name is kept
    /// in memory as long as the process runs, which is fine because there are few.
    ///
    /// # Errors
    ///
    /// Returns a message for the user if a key or a colour is unknown.
    pub fn own<'a>(name: &str, colours: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Self, String> {
        let colours: Vec<(&str, &str)> = colours.collect();
        let base = colours.iter().find(|(key, _)| *key == "base").map_or("dark", |(_, base)| base);
        let mut theme =
            Self::by_name(base).ok_or_else(|| format!("there is no theme {base:?} to start from"))?;
        for (key, value) in colours.into_iter().filter(|(key, _)| *key != "base") {
            let color: Color = value.parse().map_err(|_| {
                format!("{key}: {value:?} is not a colour; write #79b8ff or a name such as cyan")
            })?;
            let style = match key {
                "text" => &mut theme.text,
                "dim" => &mut theme.dim,
                "accent" => &mut theme.accent,
                "user" => &mut theme.user,
                "code" => &mut theme.code,
                "link" => &mut theme.link,
                "ok" => &mut theme.outcome.ok,
                "warning" => &mut theme.outcome.warning,
                "error" => &mut theme.outcome.error,
                "added" => &mut theme.diff.added,
                "removed" => &mut theme.diff.removed,
                "border" => &mut theme.border,
                "selected" => &mut theme.selected,
                _ => return Err(format!("there is no colour named {key:?}")),
            };
            *style = if key == "selected" { style.bg(color) } else { style.fg(color) };
        }
        theme.name = name.to_owned().leak();
        Ok(theme)
    }

    /// Uses colours for a dark background.
    pub fn dark() -> Self {
        Self {
            name: "dark",
            text: Style::new(),
            dim: fg(Color::Rgb(139, 148, 158)),
            accent: fg(Color::Rgb(121, 184, 255)),
            user: fg(Color::Rgb(210, 168, 255)),
            code: fg(Color::Rgb(255, 203, 139)),
            link: fg(Color::Rgb(121, 184, 255)).add_modifier(Modifier::UNDERLINED),
            outcome: OutcomeStyles {
                ok: fg(Color::Rgb(126, 211, 133)),
                warning: fg(Color::Rgb(227, 179, 65)),
                error: fg(Color::Rgb(255, 123, 114)),
            },
            diff: DiffStyles {
                added: fg(Color::Rgb(126, 211, 133)),
                removed: fg(Color::Rgb(255, 123, 114)),
                added_word: fg(Color::Rgb(220, 255, 228)).bg(Color::Rgb(22, 92, 48)),
                removed_word: fg(Color::Rgb(255, 225, 222)).bg(Color::Rgb(120, 32, 32)),
            },
            border: fg(Color::Rgb(82, 90, 100)),
            selected: Style::new().bg(Color::Rgb(38, 56, 80)),
            syntax: Some(Syntax::Dark),
        }
    }

    /// Uses colours for a light background.
    pub fn light() -> Self {
        Self {
            name: "light",
            text: Style::new(),
            dim: fg(Color::Rgb(101, 109, 118)),
            accent: fg(Color::Rgb(9, 80, 180)),
            user: fg(Color::Rgb(110, 57, 180)),
            code: fg(Color::Rgb(149, 56, 0)),
            link: fg(Color::Rgb(9, 80, 180)).add_modifier(Modifier::UNDERLINED),
            outcome: OutcomeStyles {
                ok: fg(Color::Rgb(17, 99, 41)),
                warning: fg(Color::Rgb(154, 88, 0)),
                error: fg(Color::Rgb(180, 20, 35)),
            },
            diff: DiffStyles {
                added: fg(Color::Rgb(17, 99, 41)),
                removed: fg(Color::Rgb(180, 20, 35)),
                added_word: fg(Color::Rgb(10, 60, 25)).bg(Color::Rgb(172, 242, 189)),
                removed_word: fg(Color::Rgb(90, 10, 20)).bg(Color::Rgb(255, 200, 200)),
            },
            border: fg(Color::Rgb(175, 184, 193)),
            selected: Style::new().bg(Color::Rgb(218, 232, 252)),
            syntax: Some(Syntax::Light),
        }
    }

    /// Uses the sixteen colours that the terminal's own palette defines.
    pub fn ansi() -> Self {
        Self {
            name: "ansi",
            text: Style::new(),
            // Bright black is hardly visible in some palettes, so it draws only lines.
            dim: Style::new().add_modifier(Modifier::DIM),
            accent: fg(Color::Cyan),
            // A message of the user may have no background in this theme, so its weight distinguishes it from code.
            user: fg(Color::Magenta).add_modifier(Modifier::BOLD),
            // Yellow is the colour of warnings, so code has another one.
            code: fg(Color::Magenta),
            link: fg(Color::Cyan).add_modifier(Modifier::UNDERLINED),
            outcome: OutcomeStyles {
                ok: fg(Color::Green),
                warning: fg(Color::Yellow),
                error: fg(Color::Red),
            },
            diff: DiffStyles {
                added: fg(Color::Green),
                removed: fg(Color::Red),
                added_word: fg(Color::Green).add_modifier(Modifier::REVERSED),
                removed_word: fg(Color::Red).add_modifier(Modifier::REVERSED),
            },
            border: fg(Color::DarkGray),
            selected: Style::new().add_modifier(Modifier::REVERSED),
            syntax: Some(Syntax::Ansi),
        }
    }

    /// Uses colours with high contrast.
    pub(crate) fn high_contrast() -> Self {
        let bold = |color| fg(color).add_modifier(Modifier::BOLD);
        Self {
            name: "high-contrast",
            text: fg(Color::White),
            dim: fg(Color::White),
            accent: bold(Color::LightCyan),
            user: bold(Color::LightMagenta),
            code: fg(Color::LightMagenta),
            link: fg(Color::LightCyan).add_modifier(Modifier::UNDERLINED),
            outcome: OutcomeStyles {
                ok: bold(Color::LightGreen),
                warning: bold(Color::LightYellow),
                error: bold(Color::LightRed),
            },
            diff: DiffStyles {
                added: fg(Color::LightGreen),
                removed: fg(Color::LightRed),
                added_word: bold(Color::LightGreen).add_modifier(Modifier::REVERSED),
                removed_word: bold(Color::LightRed).add_modifier(Modifier::REVERSED),
            },
            border: fg(Color::White),
            selected: Style::new().add_modifier(Modifier::REVERSED),
            syntax: None,
        }
    }

    /// Uses blue and orange instead of green and red.
    pub(crate) fn colour_blind() -> Self {
        let blue = Color::Rgb(86, 180, 233);
        let orange = Color::Rgb(230, 159, 0);
        Self {
            name: "colour-blind",
            outcome: OutcomeStyles { ok: fg(blue), warning: fg(Color::Rgb(240, 228, 66)), error: fg(orange) },
            diff: DiffStyles {
                added: fg(blue),
                removed: fg(orange),
                added_word: fg(Color::Black).bg(blue),
                removed_word: fg(Color::Black).bg(orange),
            },
            ..Self::dark()
        }
    }

    /// Uses no colour: only bold, dim, italic, underline and reverse.
    pub fn plain() -> Self {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let none = Style::new();
        Self {
            name: "plain",
            text: none,
            dim: none.add_modifier(Modifier::DIM),
            accent: bold,
            user: bold,
            code: none.add_modifier(Modifier::ITALIC),
            link: none.add_modifier(Modifier::UNDERLINED),
            outcome: OutcomeStyles { ok: none, warning: bold, error: bold },
            // Three weights tell added, unchanged and removed lines apart. A line through the text would hide a part of it.
            diff: DiffStyles {
                added: bold,
                removed: none.add_modifier(Modifier::DIM),
                added_word: none.add_modifier(Modifier::REVERSED),
                removed_word: none.add_modifier(Modifier::REVERSED),
            },
            border: none.add_modifier(Modifier::DIM),
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
    fn without_colours_code_quotes_headings_and_changes_differ() {
        for theme in [Theme::plain(), Theme::dark(), Theme::light(), Theme::ansi()] {
            let bold = theme.text.add_modifier(Modifier::BOLD);
            let styles = [
                ("text", theme.text),
                ("bold", bold),
                ("heading", theme.heading(true)),
                ("lower heading", theme.heading(false)),
                ("link", theme.link),
                ("quote", theme.quote(theme.text)),
                ("code", theme.code),
                ("added", theme.diff.added),
                ("removed", theme.diff.removed),
            ];
            for (at, (name, style)) in styles.iter().enumerate() {
                for (other, same) in &styles[at + 1..] {
                    // Without colours, added lines differ from bold words by their signs alone.
                    let excused = theme.name == "plain"
                        && matches!((*name, *other), ("bold", "added") | ("heading", "lower heading"));
                    assert!(style != same || excused, "{}: {name} and {other}", theme.name);
                }
            }
            assert_ne!(theme.code_block(), theme.quote(theme.text), "{}", theme.name);
            assert!(theme.quote(theme.text).add_modifier.contains(Modifier::ITALIC), "{}", theme.name);
            assert!(theme.changed_sign(true) != theme.changed_sign(false), "{}", theme.name);
        }
        assert_ne!(Theme::plain().code_block(), Theme::plain().code);
    }

    /// A warning is seen first, so nothing else has its colour.
    #[test]
    fn no_code_has_the_colour_of_warnings() {
        const CLASSES: [Class; 9] = [
            Class::Plain,
            Class::Comment,
            Class::String,
            Class::Number,
            Class::Constant,
            Class::Keyword,
            Class::Type,
            Class::Function,
            Class::Attribute,
        ];
        for theme in Theme::NAMES.map(|name| Theme::by_name(name).unwrap()) {
            let warning = theme.outcome.warning.fg;
            for style in CLASSES.map(|class| theme.class(class)).into_iter().chain([theme.code]) {
                assert!(warning.is_none() || style.fg != warning, "{}: {style:?}", theme.name);
            }
        }
    }

    /// In every theme, also without colours, the user's messages, changed lines and notes on an edge have a style that shows.
    #[test]
    fn bands_are_seen_in_every_theme() {
        for theme in Theme::NAMES.map(|name| Theme::by_name(name).unwrap()) {
            let seen = |style: Style| {
                style.add_modifier.contains(Modifier::REVERSED)
                    || style.bg.is_some_and(|colour| colour != Color::Reset)
            };
            for (name, style) in [
                ("prompt", theme.prompt_band()),
                ("label", theme.label()),
                ("added", theme.changed_sign(true)),
                ("removed", theme.changed_sign(false)),
            ] {
                assert!(seen(style), "{}: {name}", theme.name);
            }
        }
    }

    #[test]
    fn plain_has_no_colour() {
        let theme = Theme::plain();
        for style in [
            theme.accent,
            theme.outcome.error,
            theme.diff.added,
            theme.diff.removed_word,
            theme.selected,
            theme.border,
        ] {
            assert_eq!((style.fg, style.bg), (None, None));
        }
    }
}
