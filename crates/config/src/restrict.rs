//! Removes elements of merged lists that do not count, because they cannot be used here or the administrator forbids them. Also
//! adds rules of the program that starts a run, which bind the run like the administrator's rules.

use crate::config::Config;
use crate::error::Problem;
use crate::layers::{Settings, value_name};
use crate::source::{Merged, Source};
use crate::tree::unflatten;
use serde_json::Value;
use std::path::PathBuf;

impl Settings {
    /// Removes elements of a list that come from files of Claude Code and are not usable here, with a warning for each. Such a file
    /// was written for another program, so it must not keep becket from starting. `unusable` returns the reason if an element
    /// cannot be used.
    pub fn leave_out(&mut self, key: &str, unusable: impl Fn(&str) -> Option<String>) {
        let Some(merged) = self.merged.get_mut(key) else { return };
        let Value::Array(items) = &mut merged.value else { return };
        let mut gone = Vec::new();
        for (at, (item, source)) in items.iter().zip(&merged.sources).enumerate() {
            let Some(why) = item.as_str().filter(|_| source.is_json()).and_then(&unusable) else { continue };
            let (origin, key) = value_name(Some(source), key);
            let line = merged.lines.get(at).copied().flatten();
            let message = format!("left out: {why}");
            self.warnings.push(Problem { origin, at: line.map(|line| (line, 1)), key, message });
            gone.push(at);
        }
        if gone.is_empty() {
            return;
        }
        for at in gone.into_iter().rev() {
            items.remove(at);
            merged.sources.remove(at);
            if at < merged.lines.len() {
                merged.lines.remove(at);
            }
        }
        if let Ok(config) = Config::read(&unflatten(&self.merged)) {
            self.config = config;
        }
    }

    /// Removes the elements of a list that do not come from the administrator. Warns once for each file or flag that had such
    /// elements; `why` is the reason in the warning.
    pub fn keep_managed(&mut self, key: &str, why: &str) {
        let Some(merged) = self.merged.get_mut(key) else { return };
        let Value::Array(items) = &mut merged.value else { return };
        let is_kept: Vec<bool> =
            merged.sources.iter().map(|source| matches!(source, Source::Managed(_))).collect();
        for (source, _) in merged.sources.iter().zip(&is_kept).filter(|(_, is_kept)| !**is_kept) {
            let (origin, key) = value_name(Some(source), key);
            let problem = Problem { origin, at: None, key, message: format!("left out: {why}") };
            if !self.warnings.contains(&problem) {
                self.warnings.push(problem);
            }
        }
        let kept = |at: usize| is_kept.get(at).copied().unwrap_or(false);
        let mut at = 0..;
        items.retain(|_| at.next().is_some_and(kept));
        let mut at = 0..;
        merged.lines.retain(|_| at.next().is_some_and(kept));
        merged.sources.retain(|source| matches!(source, Source::Managed(_)));
        if let Ok(config) = Config::read(&unflatten(&self.merged)) {
            self.config = config;
        }
    }

    /// Returns the elements of a list that come from the administrator's file. No other layer can remove
    /// them.
    pub fn managed(&self, key: &str) -> Vec<String> {
        let managed = self.sourced(key).into_iter().filter(|(_, s)| matches!(s, Source::Managed(_)));
        managed.map(|(value, _)| value).collect()
    }

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
