//! Conversations of a session's subagents, for its exports. Each is placed at its call; subagents of
//! subagents are nested.
//!
//! A subagent's session names the session and call that it works for. The call's result names the subagent's session, also in a fork. A
//! subagent is placed at the call that it names if the call's result names it, too; without such a result, at the last call with this id.
//! Only folders of the same project are searched.
//!
//! The size is bounded, per subagent and in total ([`ROOM`], [`ALL`]); subagents of earlier calls are included first. The number of omitted
//! ones is reported.

use super::conversation::{CallPlace, Conversation, report};
use becket_session::StoreError;
use becket_session::store::{SessionSummary, id_of, read_entries, session_dirs_in, summary};
use becket_types::{CallId, Part, Role, SessionId, SubagentOf};
use std::collections::HashMap;
use std::path::Path;

/// Maximum number of bytes of one subagent (`ROOM`) and of all together (`ALL`).
const ROOM: usize = 1 << 20;
const ALL: usize = 8 << 20;
/// Maximum nesting depth of subagents on a page.
const DEPTH: usize = 4;

/// A subagent and its conversation.
pub(super) struct Subagent {
    pub(super) session: SessionId,
    pub(super) agent: String,
    pub(super) title: Option<String>,
    pub(super) talk: Conversation,
    pub(super) below: Subagents,
}

/// The subagents of one session.
#[derive(Default)]
pub(super) struct Subagents {
    by_call: HashMap<CallPlace, Vec<Subagent>>,
    /// Subagents whose call is not in the conversation.
    pub(super) others: Vec<Subagent>,
    /// Number of subagents that are nested too deeply to be included.
    deeper: usize,
}

impl Subagents {
    /// Finds the subagents of the session in this folder, whose conversation is `talk`.
    pub(super) fn find(session_dir: &Path, talk: &Conversation) -> Self {
        let (Some(project), Some(id)) = (session_dir.parent(), id_of(session_dir)) else {
            return Self::default();
        };
        // If the project's folder cannot be listed, the session is exported without subagents.
        let dirs = session_dirs_in(project).unwrap_or_default();
        let mut known: Vec<LinkedSubagent> =
            dirs.iter().filter_map(|dir| LinkedSubagent::from_summary(summary(dir)?)).collect();
        known.retain(|k| k.summary.id != id);
        known.sort_by_key(|k| (k.summary.ledger.created, k.summary.id));
        Finder { known, room: ALL }.below(id, talk, 1)
    }

    /// Returns the subagents that worked for this call.
    pub(super) fn of_call(&self, call: CallPlace) -> &[Subagent] {
        self.by_call.get(&call).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of subagents, including nested ones, and the cost of their requests.
    pub(super) fn sum(&self) -> (usize, f64) {
        self.all().fold((0, 0.0), |(count, cost), subagent| {
            let below = subagent.below.sum();
            (count + 1 + below.0, cost + subagent.talk.cost + below.1)
        })
    }

    fn all(&self) -> impl Iterator<Item = &Subagent> {
        self.by_call.values().flatten().chain(&self.others)
    }
}

impl Subagent {
    /// Returns the name of the subagent's kind and its title, for a heading.
    pub(super) fn head(&self) -> String {
        let title = self.title.as_deref().map_or_else(String::new, |title| format!(": {title}"));
        format!("Subagent {}{title}", self.agent)
    }

    /// Returns a note about omitted content for the end of the conversation.
    pub(super) fn cut(&self) -> Option<String> {
        let what = match (self.talk.left_out, self.below.deeper) {
            (0, 0) => return None,
            (0, deeper) => format!("{deeper} subagents of this subagent"),
            (parts, 0) => format!("{parts} more messages and parts of this subagent"),
            (parts, deeper) => {
                format!("{parts} more messages and parts of this subagent, and {deeper} of its own,")
            }
        };
        Some(format!("[… {what} are not here; becket export {} has them]", self.session))
    }
}

struct LinkedSubagent {
    summary: SessionSummary,
    of: SubagentOf,
}

impl LinkedSubagent {
    fn from_summary(summary: SessionSummary) -> Option<Self> {
        let of = summary.subagent_of()?;
        Some(Self { summary, of })
    }
}

struct Finder {
    /// Subagent sessions of the project that are not on the page yet, oldest first.
    known: Vec<LinkedSubagent>,
    room: usize,
}

impl Finder {
    fn below(&mut self, id: SessionId, talk: &Conversation, depth: usize) -> Subagents {
        let mut found = Subagents::default();
        if depth > DEPTH {
            found.deeper = self.known.iter().filter(|known| known.of.session == id).count();
            return found;
        }
        let results = talk.results();
        let mut last: HashMap<&CallId, CallPlace> = HashMap::new();
        let messages = talk.transcript.messages().iter().filter(|m| m.role == Role::Assistant);
        for message in messages {
            for (at, part) in message.parts.iter().enumerate() {
                let Part::ToolCall { call_id, .. } = part else { continue };
                let call = (message.id, at);
                last.insert(call_id, call);
                let named = results.get(&call).and_then(|result| report(result)).map(|report| report.session);
                let fits =
                    |known: &LinkedSubagent| Some(known.summary.id) == named && known.of.call_id == *call_id;
                if let Some(subagent) = self.take(fits, depth) {
                    found.by_call.entry(call).or_default().push(subagent);
                }
            }
        }
        // The remaining subagents of this session are named by no result: they did not finish, or their call was interrupted. They are
        // placed at the last call with their call's id.
        loop {
            let mut call = None;
            let fits = |known: &LinkedSubagent| {
                call = last.get(&known.of.call_id).copied();
                known.of.session == id
            };
            let Some(subagent) = self.take(fits, depth) else { return found };
            match call {
                Some(call) => found.by_call.entry(call).or_default().push(subagent),
                None => found.others.push(subagent),
            }
        }
    }

    /// Takes the first known session for which `fits` is true, and reads its conversation and those of its own subagents.
    fn take(&mut self, fits: impl FnMut(&LinkedSubagent) -> bool, depth: usize) -> Option<Subagent> {
        let at = self.known.iter().position(fits)?;
        let LinkedSubagent { summary, of } = self.known.remove(at);
        let mut talk = Conversation::within(self.room.min(ROOM));
        let before = talk.room();
        if let Err(error) = read(&summary.dir, &mut talk) {
            talk.unreadable(&error.to_string());
        }
        self.room -= before - talk.room();
        let below = self.below(summary.id, &talk, depth + 1);
        Some(Subagent { session: summary.id, agent: of.agent, title: summary.title, talk, below })
    }
}

fn read(dir: &Path, talk: &mut Conversation) -> Result<(), StoreError> {
    for entry in read_entries(dir)? {
        match entry.map_err(StoreError::io("read", dir))? {
            Ok(entry) => talk.take(&entry),
            Err(bad) => talk.unreadable(&bad.to_string()),
        }
    }
    Ok(())
}
