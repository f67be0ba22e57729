//! A stored session read forward once, for whoever looks at it: each entry as it comes, with the view of what came before it.
//!
//! Memory holds the view and a few lines, however long the session is: what the view no longer shows leaves it, as in a session
//! that runs. Where a later entry brings back what has left, the ledger is folded again up to there, and from then on
//! nothing leaves.
//!
//! Takes no lock and changes nothing. What an entry means is the context engine's business.

use crate::context::{ModelScope, Policy, View};
use crate::ledger::{self, BadRecord, Item, Proof};
use crate::store::{StoreError, ledger_path};
use becket_types::{Entry, Seq, Tokens};
use std::ops::ControlFlow;
use std::path::Path;

/// Messages out of the view that stay in memory, by our estimate: most undos want what was taken out last.
const ROOM: Tokens = Tokens(100_000);

/// How far a walk came.
#[derive(Debug)]
pub struct Walked {
    /// Of the entries before the one that it broke off at; of all, where it did not.
    pub view: View,
    /// What could not be read so far; it was passed over.
    pub bad: Vec<BadRecord>,
    /// For walking again.
    pub proof: Proof,
}

/// Shows `visit` each entry in order, before it is folded in, with the view of those before it, until `visit` breaks off.
/// `visit` may build the view's context and set its scope: that changes nothing of what is folded.
///
/// # Errors
/// [`StoreError::NotFound`], or [`StoreError::Io`] when the ledger cannot be read.
pub fn walk(
    session_dir: &Path,
    policy: Policy,
    scope: ModelScope,
    visit: &mut dyn FnMut(&Entry, &mut View) -> ControlFlow<()>,
) -> Result<Walked, StoreError> {
    walk_again(session_dir, Proof::default(), policy, scope, visit)
}

/// [`walk`] over a ledger that was read a moment ago: what that has proven is not proven again.
///
/// # Errors
/// As [`walk`].
pub fn walk_again(
    session_dir: &Path,
    proof: Proof,
    policy: Policy,
    scope: ModelScope,
    visit: &mut dyn FnMut(&Entry, &mut View) -> ControlFlow<()>,
) -> Result<Walked, StoreError> {
    let mut walked = Walked { view: View::new(policy, scope), bad: Vec::new(), proof: Proof::default() };
    let (mut lets_go, mut failed) = (true, None);
    let mut reader = ledger::read(session_dir)?.knowing(proof);
    let bytes = ledger_path(session_dir).metadata().map_or(0, |m| m.len());
    let mut step = |entry: Entry| {
        visit(&entry, &mut walked.view)?;
        let seq = entry.seq;
        walked.view.take_in(entry);
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
            walked.view.let_go(ROOM);
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

/// All entries up to `upto`, folded as `like` folds.
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
