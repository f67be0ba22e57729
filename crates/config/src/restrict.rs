//! Rules of the program that starts a run. They bind the run as those of the administrator do.

use crate::config::Config;
use crate::layers::Settings;
use crate::source::{Merged, Source};
use crate::tree::unflatten;
use serde_json::Value;
use std::path::PathBuf;

impl Settings {
    /// Adds elements to a list to which every layer adds, such as `permissions.deny`. They count as managed, so no other layer
    /// and nothing in the session can remove them. `place` names their source in messages.
    ///
    /// # Errors
    ///
    /// Returns the reason if the configuration cannot be used with them.
    pub fn restrict(&mut self, key: &str, elements: Vec<String>, place: &str) -> Result<(), String> {
        let source = Source::Managed(PathBuf::from(place));
        let empty = || Merged { value: Value::Array(Vec::new()), sources: Vec::new(), lines: Vec::new() };
        let merged = self.merged.entry(key.to_owned()).or_insert_with(empty);
        let Value::Array(items) = &mut merged.value else { return Err(format!("{key} is not a list")) };
        for element in elements.into_iter().map(Value::String) {
            // An element that is also in a weaker layer becomes managed.
            if let Some(at) = items.iter().position(|known| *known == element) {
                items.remove(at);
                merged.sources.remove(at);
                merged.lines.remove(at);
            }
            items.push(element);
            merged.sources.push(source.clone());
            merged.lines.push(None);
        }
        self.config = Config::read(&unflatten(&self.merged)).map_err(|misfit| misfit.message)?;
        Ok(())
    }
}
