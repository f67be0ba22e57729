//! A gate at which the server waits until the test opens it: a delay that does not depend on time.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// Time limit of a wait in a blocking test, so that the test fails and does not hang.
const PATIENCE: Duration = Duration::from_mins(1);

/// A flag that is set once and can be awaited, from async and from blocking code.
#[derive(Debug, Default)]
pub(crate) struct Flag {
    set: Mutex<bool>,
    condvar: Condvar,
    notify: Notify,
}

impl Flag {
    pub(crate) fn set(&self) {
        *self.set.lock().unwrap() = true;
        self.condvar.notify_all();
        self.notify.notify_waiters();
    }

    pub(crate) fn is_set(&self) -> bool {
        *self.set.lock().unwrap()
    }

    pub(crate) async fn wait(&self) {
        loop {
            let notified = self.notify.notified();
            if self.is_set() {
                return;
            }
            notified.await;
        }
    }

    pub(crate) fn wait_blocking(&self, what: &str) {
        let guard = self.set.lock().unwrap();
        let (guard, timeout) = self.condvar.wait_timeout_while(guard, PATIENCE, |set| !*set).unwrap();
        assert!(*guard && !timeout.timed_out(), "{what}: not within {PATIENCE:?}");
    }
}

/// A point at which a response waits until the test opens it. Clones share the same gate.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    open: Arc<Flag>,
    reached: Arc<Flag>,
}

impl Gate {
    /// Makes a closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the gate. A response that waits here continues, and a later one does not wait.
    pub fn open(&self) {
        self.open.set();
    }

    /// Waits until the response has arrived here. Then everything before the gate has been sent.
    pub async fn reached(&self) {
        self.reached.wait().await;
    }

    /// Like [`Gate::reached`], for blocking tests. Fails after a minute.
    pub fn wait_reached(&self) {
        self.reached.wait_blocking("the gate was not reached");
    }

    pub(crate) async fn pass(&self) {
        self.reached.set();
        self.open.wait().await;
    }
}
