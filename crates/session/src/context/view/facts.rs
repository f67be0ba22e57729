//! Facts derived from a ledger in addition to the messages: the state of the current turn.

use becket_types::{Message, Role, Seq, TurnState};
use serde::{Deserialize, Serialize};

/// State of the current turn, updated with each entry. Computed again from the start only after a message was
/// reverted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Turn {
    pub(super) newest: Words,
    /// Newest assistant message ever, even if it was reverted since. All messages before it had been sent to
    /// the model.
    pub(super) shown_up_to: Seq,
    pub(super) ended: Option<(Seq, TurnState)>,
    pub(super) last_end: Seq,
    pub(super) interrupted: bool,
}

/// The newest messages of each kind.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Words {
    /// Newest message with the user's own words, and true if it has media.
    user: Option<(Seq, bool)>,
    /// Newest message with the role `user`, by any author.
    pub(super) input: Option<Seq>,
    /// Newest assistant message.
    pub(super) assistant: Option<Seq>,
    /// Newest assistant message that is finished.
    pub(super) finished: Option<Seq>,
}

impl Words {
    pub(super) fn see(&mut self, message: &Message, seq: Seq, finished: bool) {
        match message.role {
            Role::Assistant => self.assistant = self.assistant.max(Some(seq)),
            Role::User => {
                self.input = self.input.max(Some(seq));
                if super::super::continuation::is_users_words(message) {
                    self.user = self.user.max(Some((seq, message.has_media())));
                }
            }
            Role::System | Role::Tool => {}
        }
        if finished {
            self.finished = self.finished.max(Some(seq));
        }
    }
}

impl Turn {
    pub(super) fn message(&mut self, message: &Message, seq: Seq) {
        self.ended = None;
        self.interrupted = false;
        self.newest.see(message, seq, false);
        if message.role == Role::Assistant {
            self.shown_up_to = seq;
        }
    }

    /// Computes the state again after a revert, from the messages in memory (with their entry, and true if finished) and those
    /// that have left it.
    pub(super) fn rescan<'a>(
        &mut self,
        left: &Words,
        messages: impl Iterator<Item = (&'a Message, Seq, bool)>,
    ) {
        self.newest = left.clone();
        for (message, seq, finished) in messages {
            self.newest.see(message, seq, finished);
        }
    }

    /// Returns the turn state. `answer` decides if the newest assistant message ends a turn: it is finished
    /// and has no calls.
    pub(super) fn state(&self, answer: impl FnOnce(Seq) -> bool) -> TurnState {
        if let Some((_, state)) = self.ended {
            return state;
        }
        if self.interrupted || (self.newest.input.is_none() && self.newest.assistant.is_none()) {
            return TurnState::AwaitingUser;
        }
        if self.newest.assistant > self.newest.input && self.newest.assistant.is_some_and(answer) {
            return TurnState::AwaitingUser;
        }
        match self.newest.user {
            Some((at, _)) if self.newest.assistant < Some(at) => TurnState::Unanswered,
            Some((_, true)) => TurnState::Media,
            _ => TurnState::MidTurn,
        }
    }
}
