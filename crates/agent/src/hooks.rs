//! Hooks as the agent sees them: a question at each moment that hooks may have a say in.
//!
//! The agent knows when to ask and what an answer does. It knows nothing of commands, matchers or configuration: an engine
//! that implements [`Hooks`] is handed in. Without one, nothing of this costs anything.

use becket_types::{HookCall, HookEvent, HookOutcome};
use futures::future::BoxFuture;
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
