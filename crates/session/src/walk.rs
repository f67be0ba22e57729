//! Reading a stored session once from start to end: each entry, with the view of everything before it.
//!
//! Memory contains the view and a few lines, regardless of the session's length. Messages that the view no
//! longer shows leave memory, as in a running session. If a later entry brings back such a message, the
//! ledger is processed again up to that point, and from then on nothing leaves memory.
//!
//! Takes no lock and changes nothing. The meaning of an entry belongs to the context engine.

use crate::context::{ModelScope, Policy, View};
use crate::ledger::{self, BadRecord, Item, Proof};
use crate::store::{StoreError, ledger_path};
use becket_types::{Entry, Seq, Tokens};
use std::ops::ControlFlow;
use std::path::Path;

/// Estimated tokens of removed messages that stay in memory, because most undos need the messages that were removed last.
const RETAINED_TOKENS: Tokens = Tokens(100_000);

/// The state at the end of a walk.
#[derive(Debug)]
pub struct Walked {
    /// The view of all entries, or of those before the entry at which the walk stopped.
    pub view: View,
    /// Unreadable records, which were skipped.
    pub bad: Vec<BadRecord>,
    /// Proof of the verified lines, for [`walk_again`].
    pub proof: Proof,
}

/// Passes each entry to `visit` in order, before it is applied, with the view of all earlier entries, until
/// `visit` stops. `visit` may build the view's context and set its scope; that does not change how entries
/// are applied.
///
/// # Errors
///
/// Returns [`StoreError::NotFound`], or [`StoreError::Io`] if the ledger cannot be read.
pub fn walk(
    session_dir: &Path,
    policy: Policy,
    scope: ModelScope,
    visit: &mut dyn FnMut(&Entry, &mut View) -> ControlFlow<()>,
) -> Result<Walked, StoreError> {
    walk_again(session_dir, Proof::default(), policy, scope, visit)
}

/// Like [`walk`], for a ledger that was read before: lines in `proof` are not verified again.
///
/// # Errors
///
/// Returns the errors of [`walk`].
pub fn walk_again(
    session_dir: &Path,
    proof: Proof,
    policy: Policy,
    scope: ModelScope,
    visit: &mut dyn FnMut(&Entry, &mut View) -> ControlFlow<()>,
) -> Result<Walked, StoreError> {
    let mut walked = Walked { view: View::new(policy, scope), bad: Vec::new(), proof: Proof::default() };
    let (mut lets_go, mut failed) = (true, None);
    let mut reader = ledger::read(session_dir)?.with_proof(proof);
    let bytes = ledger_path(session_dir).metadata().map_or(0, |m| m.len());
    let mut step = |entry: Entry| {
        visit(&entry, &mut walked.view)?;
        let seq = entry.seq;
        walked.view.apply_owned(entry);
        if walked.view.stale() {
            lets_go = false;
            match fold(session_dir, &walked.view, seq) {
                Ok(view) => walked.view = view,
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
        } else if lets_go {
            walked.view.let_go(RETAINED_TOKENS);
        }
        ControlFlow::Continue(())
    };
    ledger::read_to_end(&mut reader, bytes, &mut |item| match item {
        Item::Commit(entries) => entries.into_iter().try_for_each(&mut step),
        Item::Bad(record) => {
            walked.bad.push(record);
            ControlFlow::Continue(())
        }
    })
    .map_err(StoreError::io("read", session_dir))?;
    walked.proof = reader.proof();
    failed.map_or(Ok(walked), Err)
}

/// Computes a view of all entries up to `upto`, with the policy and scope of `like`.
fn fold(session_dir: &Path, like: &View, upto: Seq) -> Result<View, StoreError> {
    let mut view = View::new(like.policy().clone(), like.scope().clone());
    for item in ledger::read(session_dir)? {
        if let Item::Commit(entries) = item.map_err(StoreError::io("read", session_dir))? {
            entries.iter().filter(|entry| entry.seq <= upto).for_each(|entry| view.apply(entry));
            if entries.last().is_some_and(|entry| entry.seq >= upto) {
                break;
            }
        }
    }
    Ok(view)
}
