//! Texts for the user about damaged records of a session.

use crate::ledger::BadRecord;

/// Describes damage in sentences: a few records individually, the rest by number.
pub(super) fn damage_notices(bad: &[BadRecord]) -> Vec<String> {
    const NAMED: usize = 5;
    let mut notices: Vec<String> =
        bad.iter().take(NAMED).map(|record| format!("In this session's ledger, {record}.")).collect();
    if bad.len() > NAMED {
        notices.push(format!("{} more records of this session's ledger are damaged.", bad.len() - NAMED));
    }
    notices
}
