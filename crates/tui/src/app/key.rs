//! `/key`: replaces a provider's key, on a page that hides what is typed.
//!
//! Owns the page while it is open. The host checks the key with one request to its provider and stores it. A key enters
//! no history, draft or transcript.

use super::App;
use crate::input::{Effect, Hidden, Request};
use crate::transcript::block::Weight;
use crate::welcome::{Answer, Entry, Welcome};
use becket_types::Command;
use crossterm::event::KeyEvent;

const ABOUT: &str = "Choose a provider, then paste its key. becket asks the provider once if the key is good, and keeps it in a \
    file that only you can read.";

impl App {
    /// Opens the page with the providers that the host lists.
    pub(super) fn offer_keys(&mut self, providers: Result<Vec<(String, String)>, String>) -> Vec<Effect> {
        match providers {
            Ok(providers) => {
                let entry = |(name, detail): &(String, String)| Entry::new(name, name, detail).secret();
                let entries = providers.iter().map(entry).collect();
                let page = Welcome::new("Another key", vec![ABOUT.to_owned()], entries);
                self.key_page = Some(page.closing().judged(judge));
            }
            Err(why) => self.note(Weight::Error, why),
        }
        Vec::new()
    }

    pub(super) fn key_page_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let Some(page) = &mut self.key_page else { return Vec::new() };
        match page.pressed(key) {
            None => Vec::new(),
            Some(Answer::Written(provider, key)) => {
                self.key_page = None;
                let mut effects = self.status.toast(format!("asking {provider} if the key is good …"));
                effects.push(Effect::Ask(Request::KeepKey { provider, key: Hidden(key) }));
                effects
            }
            Some(Answer::Chosen(_) | Answer::None) => {
                self.key_page = None;
                Vec::new()
            }
        }
    }

    /// Reports the result, and opens the current model again if it uses the new key.
    pub(super) fn key_kept(&mut self, provider: &str, result: Result<String, String>) -> Vec<Effect> {
        self.status.end_toast();
        let said = match result {
            Ok(said) => said,
            Err(why) => {
                self.note(Weight::Error, why);
                return Vec::new();
            }
        };
        self.note(Weight::Quiet, said);
        self.completion.forget_models();
        let model = self.status.model();
        if model.split_once('/').is_some_and(|(of, _)| of == provider) {
            return vec![Effect::Send(Command::SetModel { model: model.to_owned() })];
        }
        Vec::new()
    }
}

/// Checks only the form of a key. The provider decides if it is valid.
fn judge(key: &str) -> Result<String, String> {
    match key {
        "" => Err("paste the key first".to_owned()),
        _ if !key.bytes().all(|b| b.is_ascii_graphic()) => {
            Err("a key has no blanks and no letters outside ASCII".to_owned())
        }
        _ => Ok(format!("{} characters", key.len())),
    }
}
