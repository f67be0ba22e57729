//! Facts derived from a ledger in addition to the messages: the state of the current turn.

use becket_types::{Message, Role, Seq, TurnState};
use serde::{Deserialize, Serialize};

/// State of the current turn, updated with each entry. Computed again only after a message was
/// reverted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Turn {
    pub(super) newest: Words,
    /// Entry of the newest assistant message ever, even if it was reverted since. All messages before it had been sent to the model.
    pub(super) shown_up_to: Seq,
    pub(super) ended: Option<(Seq, TurnState)>,
    pub(super) last_end: Seq,
    pub(super) interrupted: bool,
    /// All ends of turns and interruptions, in order. After a rewind, only those of the remaining turns determine the state.
    stops: Vec<Stop>,
}

/// The end of a turn, or an interruption by the user.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Stop {
    seq: Seq,
    /// The newest prompt before it. If that is reverted, this stop belongs to a turn that was rewound.
    prompt: Option<Seq>,
    /// The recorded state; `None` for an interruption.
    state: Option<TurnState>,
}

/// The entry of the newest message of each kind.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Words {
    /// Newest message with the user's own words; the flag is true if it has media.
    user: Option<(Seq, bool)>,
    /// Newest message with the role `user`, by any author.
    pub(super) input: Option<Seq>,
    /// Newest assistant message.
    pub(super) assistant: Option<Seq>,
    /// Newest assistant message that is finished.
    pub(super) finished: Option<Seq>,
}

impl Words {
    pub(super) fn note_message(&mut self, message: &Message, seq: Seq, finished: bool) {
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
        self.newest.note_message(message, seq, false);
        if message.role == Role::Assistant {
            self.shown_up_to = seq;
        }
    }

    pub(super) fn end(&mut self, seq: Seq, state: TurnState) {
        self.ended = Some((seq, state));
        self.last_end = seq;
        self.stop(seq, Some(state));
    }

    pub(super) fn interrupt(&mut self, seq: Seq) {
        self.interrupted = true;
        self.stop(seq, None);
    }

    fn stop(&mut self, seq: Seq, state: Option<TurnState>) {
        self.stops.push(Stop { seq, prompt: self.newest.user.map(|(at, _)| at), state });
    }

    /// Computes the state again after a revert, from the messages in memory (each with its entry, and true if it is finished) and from
    /// `left`, the facts about those that have left memory. `is_reverted` tells if the message of an entry is cancelled.
    pub(super) fn rescan<'a>(
        &mut self,
        left: &Words,
        messages: impl Iterator<Item = (&'a Message, Seq, bool)>,
        is_reverted: impl Fn(Seq) -> bool,
    ) {
        self.newest = left.clone();
        for (message, seq, finished) in messages {
            self.newest.note_message(message, seq, finished);
        }
        // Only prompts and answers begin a turn. becket's own messages before a prompt stay when the prompt is rewound, so they do not
        // count here.
        let newest = self.newest.assistant.max(self.newest.user.map(|(at, _)| at));
        let remaining = self
            .stops
            .iter()
            .rev()
            .take_while(|stop| Some(stop.seq) > newest)
            .filter(|stop| stop.prompt.is_none_or(|at| !is_reverted(at)));
        (self.ended, self.interrupted) = (None, false);
        for stop in remaining {
            match stop.state {
                Some(state) => self.ended = self.ended.or(Some((stop.seq, state))),
                None => self.interrupted = true,
            }
        }
    }

    /// Returns the turn state. `answer` decides if the newest assistant message ends a turn: it is finished
    /// and has no calls.
    pub(super) fn state(&self, answer: impl FnOnce(Seq) -> bool) -> TurnState {
        if let Some((_, state)) = self.ended {
            return state;
        }
        // If there is neither a prompt nor an answer, the session waits for the user: becket's own messages at the start begin no turn.
        if self.interrupted || (self.newest.user.is_none() && self.newest.assistant.is_none()) {
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
