//! Preferences of the user for the interface, as the host reads them from the configuration.

use crate::graphics::Graphics;
use crate::keymap::Keymap;
use crate::theme::Theme;
use std::path::PathBuf;

/// Preferences of the user for the interface.
#[derive(Clone, Debug)]
pub struct Preferences {
    pub theme: Theme,
    /// Themes that the user wrote.
    pub themes: Vec<Theme>,
    pub keymap: Keymap,
    pub vim: bool,
    /// The user configured a program for the status line.
    pub status_line: bool,
    /// The theme follows the terminal's background colour, once that is known.
    pub follow: bool,
    /// Protocol by which the terminal draws images, or still has to be asked.
    pub images: Option<Graphics>,
    /// The files that rules are written into: for every project, and for this project.
    pub rule_files: Option<(String, String)>,
    /// The user's home folder, which is shown as `~`.
    pub home: Option<PathBuf>,
    /// The folder of the session, for paths of its earlier turns. Empty if it is unknown.
    pub workspace: PathBuf,
}

impl Preferences {
    /// Returns default preferences with this theme.
    pub fn plain(theme: Theme) -> Self {
        Self {
            theme,
            themes: Vec::new(),
            keymap: Keymap::default(),
            vim: false,
            status_line: false,
            follow: false,
            images: None,
            rule_files: None,
            home: None,
            workspace: PathBuf::new(),
        }
    }
}
