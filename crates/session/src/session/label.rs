//! Facts by which a user finds a session again: its title, its tags, and if it is archived.
//!
//! The last entry of each kind in the ledger counts. The agent and the command line write these entries; this module decides their form.

use super::Session;
use crate::store::{Durability, SessionSummary, StoreError};
use becket_types::EntryKind;

/// A fact that the user sets, to find the session again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionLabel {
    Title(String),
    /// All tags of the session.
    Tags(Vec<String>),
    Archived(bool),
}

impl SessionLabel {
    /// Returns the entry that records the fact.
    pub fn entry(self) -> EntryKind {
        match self {
            Self::Title(title) => EntryKind::Title { title },
            Self::Tags(tags) => EntryKind::State { key: SessionSummary::TAGS.to_owned(), value: tags.into() },
            Self::Archived(archived) => {
                EntryKind::State { key: SessionSummary::ARCHIVED.to_owned(), value: archived.into() }
            }
        }
    }
}

impl Session {
    /// Records a fact and syncs it to disk.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Session::append`].
    pub fn set_label(&mut self, label: SessionLabel) -> Result<(), StoreError> {
        self.append(vec![label.entry()], Durability::Synced).map(drop)
    }
}
