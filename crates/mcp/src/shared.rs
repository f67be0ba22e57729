//! Owns the settings that all servers of a session share, and the count of their changes.

use crate::hub::HubSettings;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct Shared {
    settings: HubSettings,
    /// Counts changes of any server's state, and of the set of servers.
    pub generation: AtomicU64,
}

impl Shared {
    pub(crate) fn new(settings: HubSettings) -> Self {
        Self { settings, generation: AtomicU64::new(1) }
    }

    pub(crate) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }
}

impl Deref for Shared {
    type Target = HubSettings;

    fn deref(&self) -> &HubSettings {
        &self.settings
    }
}
