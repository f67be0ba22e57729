//! Facts that were found out about servers, by server, and saved for later runs.
//!
//! Shared by all models of a process. Writes no file: the program passes a function that saves.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Save<T> = dyn Fn(&BTreeMap<String, T>) + Send + Sync;

/// Facts about servers, one for each key.
pub struct ServerFacts<T>(Arc<Inner<T>>);

struct Inner<T> {
    known: Mutex<BTreeMap<String, T>>,
    save: Option<Box<Save<T>>>,
}

impl<T> Clone for ServerFacts<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for ServerFacts<T> {
    fn default() -> Self {
        Self(Arc::new(Inner { known: Mutex::default(), save: None }))
    }
}

impl<T: Copy + PartialEq> ServerFacts<T> {
    /// `known` is what an earlier run saved; `save` is called with everything known whenever that changes.
    pub fn new(
        known: BTreeMap<String, T>,
        save: impl Fn(&BTreeMap<String, T>) + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner { known: Mutex::new(known), save: Some(Box::new(save)) }))
    }

    pub(crate) fn get(&self, key: &str) -> Option<T> {
        self.known().get(key).copied()
    }

    pub(crate) fn set(&self, key: &str, fact: T) {
        let mut known = self.known();
        if known.insert(key.to_owned(), fact) != Some(fact) {
            self.save(&known);
        }
    }

    /// Returns true if there was a fact to forget.
    pub(crate) fn forget(&self, key: &str) -> bool {
        let mut known = self.known();
        let forgotten = known.remove(key).is_some();
        if forgotten {
            self.save(&known);
        }
        forgotten
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, T>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn save(&self, known: &BTreeMap<String, T>) {
        if let Some(save) = &self.0.save {
            save(known);
        }
    }
}

impl<T> fmt::Debug for ServerFacts<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerFacts")
    }
}
