//! Hooks as the agent sees them: a question at each moment that hooks may have a say in.
//!
//! The agent knows when to ask and what an answer does. It knows nothing of commands, matchers or configuration: an engine
//! that implements [`Hooks`] is handed in. Without one, nothing of this costs anything.

use becket_session::secrets::mask_published;
use becket_types::{HookCall, HookEvent, HookOutcome, HookPermission};
use futures::future::BoxFuture;
use std::borrow::Cow;
use std::fmt;

/// Runs the hooks of one session.
pub trait Hooks: Send + Sync + fmt::Debug {
    /// True if a hook is configured for this event, whatever it matches.
    fn listens(&self, event: HookEvent) -> bool;

    /// The words to show while the hooks of this call run. `None` if no hook matches, `Some(None)` if hooks match and none
    /// has words. Called for every event, so it must be cheap.
    fn status(&self, call: &HookCall) -> Option<Option<String>>;

    /// Runs the hooks that match and gives their decision. Dropping the future ends the hooks.
    fn run(&self, call: HookCall) -> BoxFuture<'static, HookOutcome>;
}

/// Masks the secrets of known forms in a text.
pub(crate) fn mask(text: &mut String) {
    if let (Cow::Owned(masked), _) = mask_published(text) {
        *text = masked;
    }
}

/// Masks the secrets of known forms in the texts of hooks: they go to the model, the ledger and driving programs. Another input of
/// a tool stays, because it must run as it is.
pub(crate) fn masked(mut outcome: HookOutcome) -> HookOutcome {
    match &mut outcome.permission {
        Some(
            HookPermission::Allow { reason }
            | HookPermission::Ask { reason }
            | HookPermission::Defer { reason }
            | HookPermission::Deny { reason },
        ) => mask(reason),
        None => {}
    }
    outcome.block.iter_mut().chain(&mut outcome.context).for_each(|text| mask(&mut text.text));
    outcome.stop.iter_mut().for_each(mask);
    outcome.messages.iter_mut().for_each(|message| mask(&mut message.text));
    outcome.runs.iter_mut().for_each(|run| mask(&mut run.detail));
    outcome
}
