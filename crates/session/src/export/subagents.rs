//! The conversations of a session's subagents, for its exports: each where its call is, those of its own subagents in it.
//!
//! A subagent's session says whom it works for and for which call; the result of the call names that session, also in a fork of the
//! session that made it. Both must agree on the call. Nothing is asked but the folders beside the session's own.
//!
//! Bounded: of one subagent and of all together only so much is taken as there is room for, the first come first. What
//! was left out is counted.

use super::conversation::{CallPlace, Conversation, report};
use crate::StoreError;
use crate::store::{SessionSummary, layout, read_entries, session_dirs_in, summary};
use becket_types::{CallId, Part, Role, SessionId, SubagentOf};
use std::collections::HashMap;
use std::path::Path;

/// Bytes of text of one subagent, and of all of them.
const ROOM: usize = 1 << 20;
const ALL: usize = 8 << 20;
/// How deep subagents may be nested on a page.
const DEPTH: usize = 4;

/// A subagent and what was said in its session.
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
    /// Those whose call is not in the conversation.
    pub(super) others: Vec<Subagent>,
    /// How many are nested too deeply to be here.
    deeper: usize,
}

impl Subagents {
    /// Of the session in this folder, in which this was said.
    pub(super) fn of(session_dir: &Path, talk: &Conversation) -> Self {
        let (Some(project), Some(id)) = (session_dir.parent(), layout::id_of(session_dir)) else {
            return Self::default();
        };
        let dirs = session_dirs_in(project);
        let mut known: Vec<Known> = dirs.iter().filter_map(|dir| Known::of(summary(dir)?)).collect();
        known.retain(|k| k.summary.id != id);
        known.sort_by_key(|k| (k.summary.created, k.summary.id));
        Finder { known, room: ALL }.below(id, talk, 1)
    }

    /// Those that worked for this call.
    pub(super) fn of_call(&self, call: CallPlace) -> &[Subagent] {
        self.by_call.get(&call).map_or(&[], Vec::as_slice)
    }

    /// How many there are, nested ones too, and what their requests cost.
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
    /// Who it is, and the task in a few words.
    pub(super) fn head(&self) -> String {
        let title = self.title.as_deref().map_or_else(String::new, |title| format!(": {title}"));
        format!("Subagent {}{title}", self.agent)
    }

    /// What to say at its end of what is not here.
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

struct Known {
    summary: SessionSummary,
    of: SubagentOf,
}

impl Known {
    fn of(summary: SessionSummary) -> Option<Self> {
        let of = summary.subagent_of()?;
        Some(Self { summary, of })
    }
}

struct Finder {
    /// The subagents' sessions of the project that are not on the page yet, the oldest first.
    known: Vec<Known>,
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
                let fits = |known: &Known| Some(known.summary.id) == named && known.of.call_id == *call_id;
                if let Some(subagent) = self.take(fits, depth) {
                    found.by_call.entry(call).or_default().push(subagent);
                }
            }
        }
        // Those that no result names: they did not end, or their call was interrupted.
        loop {
            let mut call = None;
            let fits = |known: &Known| {
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

    /// Reads the first session that fits.
    fn take(&mut self, fits: impl FnMut(&Known) -> bool, depth: usize) -> Option<Subagent> {
        let at = self.known.iter().position(fits)?;
        let Known { summary, of } = self.known.remove(at);
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
