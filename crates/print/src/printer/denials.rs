//! Denied calls of a turn, on which the exit code of a run depends.

use crate::{shapes, terminal};
use becket_types::{CallId, PermissionDenial};
use std::collections::HashSet;
use std::io::{self, Write};

/// Maximum number of different denials that get a separate line.
const MOST_DENIALS: usize = 5;

/// Denied calls of the turn. Calls of one answer are denied before the others run, so a denied call counts again when its result
/// comes, in the order of the calls.
#[derive(Default)]
pub(super) struct Denials {
    /// Calls that were denied and have no result yet.
    open: HashSet<CallId>,
    /// True if a call was denied and no later call succeeded.
    pub(super) last: bool,
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

/// Prints a line for each reason, so that the user can fix all of them at once.
pub(super) fn tell(denials: &[PermissionDenial], notes: &mut dyn Write) -> io::Result<()> {
    let mut reasons: Vec<(&str, String)> = Vec::new();
    for denial in denials {
        let reason = (denial.tool.as_str(), shapes::denial_text(denial));
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    for (tool, reason) in reasons.iter().take(MOST_DENIALS) {
        writeln!(notes, "becket: denied: {tool}: {}", terminal::clean(reason))?;
    }
    match reasons.len().saturating_sub(MOST_DENIALS) {
        0 => Ok(()),
        more => {
            writeln!(notes, "becket: denied: and {more} more, in permission_denials of --output-format json")
        }
    }
}
