//! The theme in use, and the themes to choose from.
//!
//! Invariant: while the theme follows the terminal's background, it is the variant for the last reported background.

use crate::input::{Effect, Keep, Request};
use crate::theme::Theme;

/// The theme in use and the user's own themes.
pub(super) struct Look {
    pub theme: Theme,
    /// Themes that the user wrote.
    own: Vec<Theme>,
    /// The theme follows the terminal's background colour.
    follow: bool,
}

impl Look {
    pub(super) fn new(theme: Theme, own: Vec<Theme>, follow: bool) -> Self {
        Self { theme, own, follow }
    }

    /// Returns the query for the terminal's background, if the theme depends on it.
    pub(super) fn begin(&self) -> Vec<Effect> {
        if self.follow { vec![Effect::AskBackground] } else { Vec::new() }
    }

    /// Handles the terminal's background colour: red, green, blue.
    pub(super) fn background(&mut self, colour: (u8, u8, u8)) {
        if self.follow {
            self.theme = self.theme.on(colour);
        }
    }

    /// Changes to the theme with this name.
    ///
    /// # Errors
    ///
    /// Returns the names of all themes if there is none with this name.
    pub(super) fn choose(&mut self, name: &str) -> Result<Vec<Effect>, String> {
        let own = self.own.iter().find(|t| t.name == name).cloned();
        let Some(theme) = own.or_else(|| Theme::by_name(name)) else {
            let own = self.own.iter().map(|t| t.name.to_string());
            let names: Vec<String> = Theme::NAMES.iter().map(|n| (*n).to_owned()).chain(own).collect();
            return Err(format!("there is no theme {name}; themes: {}", names.join(", ")));
        };
        let name = theme.name.to_string();
        self.theme = theme;
        self.follow = name == "system";
        let mut effects = vec![Effect::Ask(Request::Keep(Keep::Theme(name)))];
        effects.extend(self.begin());
        Ok(effects)
    }
}
