//! Denied calls of a turn, on which the exit code of a run depends.

use becket_types::CallId;
use std::collections::HashSet;

/// Denied calls of the turn, in the order of the calls: calls of one answer are denied before the others have run.
#[derive(Default)]
pub(super) struct Denials {
    /// Calls that were denied and have no result yet.
    open: HashSet<CallId>,
    /// A call was denied, and no call succeeded after it.
    pub(super) last: bool,
    /// The last call that ended was interrupted.
    pub(super) interrupted: bool,
}

impl Denials {
    pub(super) fn denied(&mut self, call: &CallId) {
        self.open.insert(call.clone());
        self.last = true;
    }

    pub(super) fn finished(&mut self, call: Option<&CallId>, failed: bool) {
        if call.is_some_and(|call| self.open.remove(call)) {
            self.last = true;
        } else if !failed {
            self.last = false;
        }
    }
}
