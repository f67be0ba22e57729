//! `/key`: replaces a provider's key, on a page that hides what is typed.
//!
//! Owns the page while it is open. The host checks the key with one request to its provider and stores it. A key enters
//! no history, draft or transcript.

use super::Pages;
use crate::input::Hidden;
use crate::welcome::{Answer, Entry, Welcome};
use crossterm::event::KeyEvent;

const ABOUT: &str = "Choose a provider, then paste its key. becket asks the provider once if the key is valid, and saves it in \
    the keychain, or in a file that only you can read.";

impl Pages {
    /// Opens the page with these providers: name, and source of the current key.
    pub(in crate::app) fn offer_keys(&mut self, providers: &[(String, String)]) {
        let entry = |(name, detail): &(String, String)| Entry::new(name, name, detail).secret();
        let entries = providers.iter().map(entry).collect();
        let page = Welcome::new("Another key", vec![ABOUT.to_owned()], entries);
        self.key_page = Some(page.closing().judged(judge));
    }

    /// Handles a key on that page. Returns the provider and its key once both are entered.
    pub(in crate::app) fn key_page_key(&mut self, key: KeyEvent) -> Option<(String, Hidden)> {
        match self.key_page.as_mut()?.pressed(key)? {
            Answer::Written(provider, key) => {
                self.key_page = None;
                Some((provider, Hidden(key)))
            }
            Answer::Chosen(_) | Answer::None => {
                self.key_page = None;
                None
            }
        }
    }
}

/// Checks only the form of a key. The provider decides if it is valid.
fn judge(key: &str) -> Result<String, String> {
    match key {
        "" => Err("paste the key first".to_owned()),
        _ if !key.bytes().all(|b| b.is_ascii_graphic()) => {
            Err("a key has no spaces and only ASCII characters".to_owned())
        }
        _ => Ok(format!("{} characters", key.len())),
    }
}
