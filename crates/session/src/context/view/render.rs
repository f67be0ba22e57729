//! Converting live messages to the context that is sent.
//!
//! A cursor goes through the live messages once. Results are taken from their positions and placed after
//! their call, in the order of the calls. A call without a result gets a repair. After a boundary the cursor
//! starts again; messages that are unchanged keep their position and generation.

use super::super::{budget, escape, media, repair};
use super::View;
use super::calls::Answer;
use super::shape::{Paint, Shaped, shape, shape_result};
use becket_types::{
    CallId, Context, ContextMessage, Message, MessageId, Origin, Part, Provenance, Role, Seq, Synthetic,
    is_blank, visibility,
};
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use uuid::Uuid;

/// A message in memory, or one of its results: slot and part.
type Source = (usize, Option<usize>);

/// The progress of the cursor, and facts about the messages it has passed.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    /// Index of the next live message.
    pub(super) next: usize,
    /// Calls that got something else instead of a result: a repair, or a note that there is none yet.
    pub(super) repaired: HashSet<CallId>,
    /// Names of the tools that were called.
    pub(super) called: BTreeSet<String>,
    /// Media shown as text because the request would have too many: slot and part.
    pub(super) hidden: HashSet<(usize, u32)>,
    /// Media that are sent, oldest first.
    media: VecDeque<Sent>,
}

/// A media part that is sent.
#[derive(Debug)]
struct Sent {
    /// Index of the message in the context.
    at: usize,
    source: Source,
    part: u32,
    bytes: u64,
}

impl View {
    /// Returns the context of a request that is sent now. Costs only what is new since the last call, except
    /// after a boundary.
    pub fn context(&mut self) -> &Context {
        let shown = self.dirty.then(|| {
            self.forget(Self::UNDO_ROOM);
            self.dirty = false;
            self.cursor = Cursor::default();
            std::mem::take(&mut self.context.messages)
        });
        let fresh_from = self.context.messages.len();
        if shown.is_some() || !self.built {
            self.lead();
        }
        self.advance(if shown.is_some() { usize::MAX } else { fresh_from });
        if let Some(shown) = shown {
            self.keep_or_bump(shown);
        }
        if std::mem::take(&mut self.bump) || !self.built {
            self.context.generation = self.next_generation();
        }
        self.built = true;
        &self.context
    }

    /// Returns the number of the next generation. It is derived from the entry at which the generation
    /// begins, so numbers only grow, even if a newly computed view replaces this one.
    fn next_generation(&self) -> u64 {
        (self.last_seq().0 << 16).max(self.context.generation + 1)
    }

    /// Compares the messages after a boundary. If all previous messages are unchanged the generation stays,
    /// otherwise a new one begins.
    fn keep_or_bump(&mut self, shown: Vec<Arc<ContextMessage>>) {
        let now = &mut self.context.messages;
        let same = |(a, b): (&Arc<ContextMessage>, &Arc<ContextMessage>)| {
            Arc::ptr_eq(&a.message, &b.message) || a.message == b.message
        };
        let same = shown.len() <= now.len() && shown.iter().zip(now.iter()).all(same);
        if same {
            for (now, shown) in now.iter_mut().zip(shown) {
                *now = shown;
            }
        } else {
            self.bump = true;
        }
    }

    /// Adds the summary, the session state and the rules below the working directory.
    fn lead(&mut self) {
        let Some((seq, compaction)) = self.effects.compaction.clone() else { return };
        // The summary must not be able to close the tag that contains it.
        let summary = escape::escape_tags(&compaction.summary, &["context-summary", "system-reminder"]);
        let pieces = [
            (Role::System, Synthetic::CompactionSummary, summary.as_ref()),
            (Role::User, Synthetic::SessionState, compaction.state.as_str()),
        ];
        for (nth, (role, kind, text)) in pieces.into_iter().enumerate() {
            if !is_blank(text) {
                let id = repair::derived_id(MessageId(Uuid::from_u128(u128::from(seq.0) << 8)), nth as u128);
                let message = repair::synthetic(id, seq, role, kind, text);
                self.push(message, seq, Vec::new());
            }
        }
        // If a rules message was pinned or restored, its text is already shown.
        let stands = |text: &str| {
            let live = self.live.iter().map(|at| &self.log[*at].message);
            live.filter(|m| m.origin == Origin::Synthetic(Synthetic::Rules)).any(|m| m.text() == text)
        };
        let rules: Vec<_> =
            compaction.rules.iter().enumerate().filter(|(_, item)| !stands(&item.text)).collect();
        for (nth, item) in rules {
            let id = repair::derived_id(MessageId(Uuid::from_u128(u128::from(seq.0) << 8)), 2 + nth as u128);
            let text = escape::escape(&item.text);
            let message = repair::synthetic(id, seq, Role::User, Synthetic::Rules, &text);
            self.push(message, seq, Vec::new());
        }
    }

    /// Moves the cursor forward. A change to a message before index `fresh_from` starts a new generation.
    fn advance(&mut self, fresh_from: usize) {
        while let Some(at) = self.live.get(self.cursor.next).copied() {
            let slot = &self.log[at];
            let message = Arc::clone(&slot.message);
            let last = self.cursor.next + 1 == self.live.len();
            if !slot.done && last {
                // The message is still streaming and may grow.
                break;
            }
            self.cursor.next += 1;
            match message.role {
                Role::Tool => self.note_strays(at, &message),
                _ if !visibility(&message.origin).model => {}
                Role::Assistant => {
                    self.emit((at, None), &message, fresh_from);
                    self.emit_results(&message, fresh_from);
                }
                Role::User | Role::System => self.emit((at, None), &message, fresh_from),
            }
        }
    }

    fn emit_results(&mut self, caller: &Message, fresh_from: usize) {
        for (nth, part) in caller.parts.iter().enumerate() {
            let Part::ToolCall { call_id, name, .. } = part else { continue };
            let tool = repair::safe_name(name);
            if !self.cursor.called.contains(tool.as_ref()) {
                self.cursor.called.insert(tool.into_owned());
            }
            if let Answer::At((at, result)) = self.calls.answer(call_id) {
                let message = Arc::clone(&self.log[at].message);
                self.emit((at, Some(result)), &message, fresh_from);
            } else if self.may_run
                && self.turn.newest.assistant == Some(caller.seq)
                && self.turn.newest.assistant > self.turn.newest.input
            {
                self.cursor.repaired.insert(call_id.clone());
                let result = repair::pending_result(caller, nth, call_id, name);
                self.push(result, caller.seq, vec![repair::PENDING.to_owned()]);
            } else {
                self.cursor.repaired.insert(call_id.clone());
                let result = repair::missing_result(caller, nth, call_id, name);
                self.push(result, caller.seq, vec!["repaired: result missing".to_owned()]);
                self.notice(format!(
                    "call {call_id} ({name}) has no result: the model is told `{}`",
                    repair::INTERRUPTED
                ));
            }
        }
    }

    /// Adds notices about results that are not sent.
    fn note_strays(&mut self, at: usize, message: &Message) {
        for (nth, part) in message.parts.iter().enumerate() {
            let Part::ToolResult { call_id, .. } = part else { continue };
            let text = match self.calls.answer(call_id) {
                Answer::At(place) if place == (at, nth) => continue,
                Answer::At(_) => format!("call {call_id} has more than one result: the first one counts"),
                Answer::Open | Answer::NotAsked => match self.calls.get(call_id) {
                    // The call was reverted, so its result is omitted without a notice.
                    Some(call) if self.effects.is_dead(call.at) => continue,
                    _ => format!("the result of {call_id} has no call before it: it is not sent"),
                },
            };
            self.notice(text);
        }
        if message.result_of().is_none() {
            self.notice(format!("tool message {} holds no result: it is not sent", message.id));
        }
    }

    /// Converts one message, or one of its results.
    fn shaped<'a>(&self, (at, result): Source, raw: &'a Message) -> Shaped<'a> {
        let as_text = |part: u32| self.is_text(at, raw, part);
        let mut how = Paint {
            scope: &self.scope,
            wrapped: self.effects.wrapped.contains(&raw.id) && raw.is_user_turn(),
            pruned: None,
            cut: None,
            as_text: &as_text,
        };
        let Some(nth) = result else { return shape(raw, &how) };
        if let Some(Part::ToolResult { call_id, .. }) = raw.parts.get(nth)
            && !self.is_pinned(&raw.id)
        {
            how.pruned = self.effects.pruned.get(call_id).filter(|_| self.is_pruned(call_id));
            how.cut = self.cut_of(call_id);
        }
        shape_result(raw, nth, &how)
    }

    fn emit(&mut self, source: Source, raw: &Arc<Message>, fresh_from: usize) {
        let shaped = self.shaped(source, raw);
        if shaped.parts.is_empty() {
            return;
        }
        let pruned = shaped.compacted.is_some();
        let (message, applied, notes) = shaped.into_message(raw);
        for note in notes {
            self.notice(note);
        }
        if self.context.messages.is_empty() && !repair::opens(message.role) {
            let start = repair::missing_start(raw);
            self.push(start, raw.seq, vec!["repaired: start missing".to_owned()]);
            self.notice("the history starts with the model's words: a line was put before them".to_owned());
        }
        // An unchanged message was already estimated when it was added.
        let tokens = if Arc::ptr_eq(&message, raw) {
            self.log[source.0].tokens
        } else {
            budget::estimate_message(&message)
        };
        let provenance = Provenance { seq: raw.seq, message: Some(raw.id), applied };
        self.context.messages.push(Arc::new(ContextMessage { message, provenance, tokens }));
        if !pruned && raw.has_media() {
            self.count_media(source, raw, fresh_from);
        }
    }

    /// Adds a message made by the view.
    fn push(&mut self, message: Message, seq: Seq, applied: Vec<String>) {
        let tokens = budget::estimate_message(&message);
        let provenance = Provenance { seq, message: None, applied };
        let message = Arc::new(message);
        self.context.messages.push(Arc::new(ContextMessage { message, provenance, tokens }));
    }

    /// Returns images and files in the context, oldest first: message, part and bytes. The context must have
    /// been built.
    pub fn sent_media(&self) -> impl Iterator<Item = (MessageId, u32, u64)> + '_ {
        self.cursor.media.iter().map(|sent| (self.log[sent.source.0].message.id, sent.part, sent.bytes))
    }

    /// Keeps the media of the whole request within the model's limits. If there are too many, the oldest
    /// become text.
    fn count_media(&mut self, source: Source, raw: &Message, fresh_from: usize) {
        let at = self.context.messages.len() - 1;
        let sent = &self.context.messages[at].message.parts;
        let sent_now = sent.iter().filter(|part| part.is_media()).count();
        for (part, media) in raw.parts.iter().enumerate().filter(|(_, p)| p.is_media()) {
            if let Some(why) = media::unsendable(media, &self.scope) {
                self.notice(format!(
                    "{} of message {} is sent as this text: {why}",
                    media::stub(media).unwrap_or_default(),
                    raw.id
                ));
            }
            if self.context.messages[at].message.parts.contains(media)
                && !self.is_text(source.0, raw, part as u32)
            {
                let bytes = media::bytes(media);
                self.cursor.media.push_back(Sent { at, source, part: part as u32, bytes });
            }
        }
        let sizes = self.cursor.media.iter().map(|m| m.bytes);
        let drop = media::overflow(sizes, sent_now, &self.scope);
        let gone: Vec<Sent> = self.cursor.media.drain(..drop).collect();
        let Some(first) = gone.first() else { return };
        self.bump |= first.at < fresh_from && fresh_from != usize::MAX;
        self.cursor.hidden.extend(gone.iter().map(|m| (m.source.0, m.part)));
        let repaint: BTreeSet<(usize, Source)> = gone.iter().map(|m| (m.at, m.source)).collect();
        for (at, source) in repaint {
            self.repaint(at, source);
        }
        self.notice(format!(
            "{} image(s) or file(s) up to message {at} are sent as text: a request to {} takes {} and {} bytes at most",
            gone.len(),
            self.scope.model,
            self.scope.max_images,
            self.scope.max_media_bytes
        ));
    }

    fn is_text(&self, at: usize, raw: &Message, part: u32) -> bool {
        self.cursor.hidden.contains(&(at, part))
            || self.effects.media.get(&(raw.id, part)).is_some_and(|by| raw.seq < *by)
            || raw.parts.get(part as usize).is_some_and(|p| media::unsendable(p, &self.scope).is_some())
    }

    fn repaint(&mut self, place: usize, source: Source) {
        let raw = Arc::clone(&self.log[source.0].message);
        let (message, applied, _) = self.shaped(source, &raw).into_message(&raw);
        let tokens = budget::estimate_message(&message);
        let provenance = Provenance { seq: raw.seq, message: Some(raw.id), applied };
        self.context.messages[place] = Arc::new(ContextMessage { message, provenance, tokens });
    }
}
