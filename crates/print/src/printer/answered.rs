//! Ids that a program gave its user messages, for the messages that a turn answers. The first line of the answer and the result
//! name them, so that the program can tell which of its messages they answer.

use becket_types::{Event, TurnEnd};
use serde_json::{Value, json};

/// Maximum number of ids on a line.
const MOST: usize = 64;

/// Ids of the messages of the current turn.
#[derive(Debug, Default)]
pub(super) struct AnsweredMessages {
    /// All messages of the turn, in the order in which the agent took them.
    ids: Vec<String>,
    /// The message that began the turn. If several did, the last of them.
    opening: Option<String>,
    /// True once the first answer of the turn was written with the ids.
    first_answer_written: bool,
}

impl AnsweredMessages {
    /// Records a prompt that a hook refused, because it never becomes a message.
    pub(super) fn note_refused_prompt(&mut self, end: &TurnEnd) {
        if let TurnEnd::HookStopped { refused: Some(refused), .. } = end
            && self.ids.is_empty()
        {
            self.opened_by(refused.client_id.as_deref());
        }
    }

    /// Notes a user message of the session.
    pub(super) fn note_user_message(&mut self, event: &Event) {
        let Event::UserMessage { client_id: Some(id), steered, message } = event else { return };
        if !message.visibility().user {
            return;
        }
        self.ids.push(id.clone());
        if !steered {
            self.opening = Some(id.clone());
        }
    }

    /// Records a message that becket answers itself, without the model.
    pub(super) fn opened_by(&mut self, client_id: Option<&str>) {
        self.opening = client_id.map(str::to_owned);
        self.ids = self.opening.iter().cloned().collect();
    }

    /// Returns the id of the message that the turn answers, and the last [`MOST`] ids of the turn. `None` if the program gave no
    /// ids.
    pub(super) fn keys(&self) -> Option<(&str, &[String])> {
        let own = self.opening.as_ref().or_else(|| self.ids.last())?;
        Some((own.as_str(), &self.ids[self.ids.len().saturating_sub(MOST)..]))
    }

    /// Adds the ids to the first answer of the turn.
    pub(super) fn stamp_first(&mut self, line: &mut Value) {
        if !self.first_answer_written {
            self.stamp(line);
            self.first_answer_written = true;
        }
    }

    /// Adds the ids to the result, and discards them.
    pub(super) fn stamp_result(&mut self, line: &mut Value) {
        self.stamp(line);
        *self = Self::default();
    }

    fn stamp(&self, line: &mut Value) {
        if let Some(keys) = self.keys() {
            stamp(line, keys);
        }
    }
}

/// Adds the ids to a line.
pub(super) fn stamp(line: &mut Value, (own, all): (&str, &[String])) {
    line["user_message_uuid"] = json!(own);
    line["user_message_uuids"] = json!(all);
}
