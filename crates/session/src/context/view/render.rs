//! Converting live messages to the context that is sent.
//!
//! A cursor goes through the live messages once. Results are taken from their positions and placed after
//! their call, in the order of the calls. A call without a result gets a repair. After a boundary the cursor
//! starts again; messages that are unchanged keep their position and generation.
//!
//! [`Rendering`] owns the context that was built last, for one model. It reads the conversation and changes nothing in it,
//! except that it adds notices about repairs.

use super::calls::Answer;
use super::fold::Conversation;
use super::shape::{RenderOptions, Shaped, shape, shape_result};
use crate::context::validate::{Validator, Violation};
use crate::context::{ModelScope, budget, escape, media, repair};
use becket_types::{
    CallId, Context, ContextMessage, EntryKind, Message, MessageId, Origin, Part, Provenance, PruneReason,
    Role, Seq, Synthetic, Tokens, is_blank, visibility,
};
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use uuid::Uuid;

/// The source of a sent message: index of a message in the log, and index of a result part if only that is sent.
type Source = (usize, Option<usize>);

/// The position in the live messages up to which the context is built, and facts about the messages before it.
#[derive(Debug, Default)]
struct Cursor {
    /// Index of the next live message.
    next: usize,
    /// Calls without a result in the ledger, for which a substitute is sent: [`repair::INTERRUPTED`] or [`repair::PENDING`].
    repaired: HashSet<CallId>,
    /// Names of the tools that were called.
    called: BTreeSet<String>,
    /// Media shown as text because the request would have too many: index of the message in the log, and index of the part.
    hidden: HashSet<(usize, u32)>,
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

/// The context of the next request, as it was built last.
#[derive(Debug)]
pub(super) struct Rendering {
    scope: ModelScope,
    context: Context,
    cursor: Cursor,
    /// True if calls of the newest answer may be running.
    pub(super) may_run: bool,
    /// True if the next context is built from the start.
    dirty: bool,
    built: bool,
    /// Checks the messages of one generation; the number is that generation.
    validator: (u64, Validator),
}

impl Rendering {
    pub(super) fn new(scope: ModelScope) -> Self {
        Self {
            scope,
            context: Context::default(),
            cursor: Cursor::default(),
            may_run: false,
            dirty: false,
            built: false,
            validator: (0, Validator::default()),
        }
    }

    pub(super) fn scope(&self) -> &ModelScope {
        &self.scope
    }

    /// Returns the context as it was built last.
    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    /// Sets the model for the following requests. A boundary if it changes what is shown.
    pub(super) fn set_scope(&mut self, scope: ModelScope) {
        if self.scope != scope {
            self.scope = scope;
            self.dirty = true;
            self.validator.1 = Validator::default();
        }
    }

    pub(super) fn set_calls_may_run(&mut self, may_run: bool) {
        self.dirty |= self.may_run != may_run && !self.cursor.repaired.is_empty();
        self.may_run = may_run;
    }

    /// Builds the context of a request that is sent now. Costs only what is new since the last call, except after a boundary.
    /// `undo_room`: tokens of removed messages that stay in memory after a boundary.
    pub(super) fn build(&mut self, conversation: &mut Conversation, undo_room: Tokens) -> &Context {
        let (cursor, log) = (&self.cursor, &conversation.log);
        let is_repaired = |(at, part): (usize, usize)| match log[at].message.parts.get(part) {
            Some(Part::ToolResult { call_id, .. }) => cursor.repaired.contains(call_id),
            _ => false,
        };
        let dirty = std::mem::take(&mut self.dirty) || conversation.changes.concern(cursor.next, is_repaired);
        let mut bump = conversation.changes.generation;
        if bump {
            self.context.system = Arc::clone(&conversation.record.system.sent);
        }
        conversation.changes.clear();
        let shown = dirty.then(|| {
            conversation.forget(undo_room);
            self.cursor = Cursor::default();
            std::mem::take(&mut self.context.messages)
        });
        let fresh_from = if dirty { None } else { Some(self.context.messages.len()) };
        if dirty || !self.built {
            self.push_summary(conversation);
        }
        bump |= self.advance(conversation, fresh_from);
        if let Some(shown) = shown {
            bump |= !self.keep(shown);
        }
        if bump || !self.built {
            let next = conversation.last_seq.unwrap_or_default().0 << 16;
            // The number is derived from the entry at which the generation begins. So numbers only grow, even if a view that is computed
            // again from the ledger replaces this one.
            self.context.generation = next.max(self.context.generation + 1);
        }
        self.built = true;
        &self.context
    }

    /// Compares the messages after a boundary with `shown`, the previous ones. Returns true if all previous ones are unchanged; their
    /// allocations are then used again.
    fn keep(&mut self, shown: Vec<Arc<ContextMessage>>) -> bool {
        let now = &mut self.context.messages;
        let same = |(a, b): (&Arc<ContextMessage>, &Arc<ContextMessage>)| {
            Arc::ptr_eq(&a.message, &b.message) || a.message == b.message
        };
        let same = shown.len() <= now.len() && shown.iter().zip(now.iter()).all(same);
        if same {
            for (now, shown) in now.iter_mut().zip(shown) {
                *now = shown;
            }
        }
        same
    }

    /// Adds the summary, the session state and the rules below the working directory.
    fn push_summary(&mut self, conversation: &Conversation) {
        let Some((seq, compaction)) = conversation.effects().compaction.clone() else { return };
        // The summary must not be able to close the tag that contains it.
        let summary = escape::escape_tags(&compaction.summary, &["context-summary", "system-reminder"]);
        let pieces = [
            (Role::System, Synthetic::CompactionSummary, summary.as_ref()),
            (Role::User, Synthetic::SessionState, compaction.repeated.state.as_str()),
        ];
        for (nth, (role, kind, text)) in pieces.into_iter().enumerate() {
            if !is_blank(text) {
                let id = repair::derived_id(MessageId(Uuid::from_u128(u128::from(seq.0) << 8)), nth as u128);
                let message = repair::synthetic(id, seq, role, kind, text);
                self.push(message, seq, Vec::new());
            }
        }
        // If a rules message was pinned or restored, its text is already shown.
        let is_shown = |text: &str| {
            conversation
                .live()
                .filter(|m| m.origin == Origin::Synthetic(Synthetic::Rules))
                .any(|m| m.text() == text)
        };
        let rules: Vec<_> =
            compaction.repeated.rules.iter().enumerate().filter(|(_, item)| !is_shown(&item.text)).collect();
        for (nth, item) in rules {
            let id = repair::derived_id(MessageId(Uuid::from_u128(u128::from(seq.0) << 8)), 2 + nth as u128);
            let text = escape::escape(&item.text);
            let message = repair::synthetic(id, seq, Role::User, Synthetic::Rules, &text);
            self.push(message, seq, Vec::new());
        }
    }

    /// Adds live messages to the context, up to the end or to a message that is still streaming. Returns true if a message before index
    /// `fresh_from` has changed. `fresh_from`: number of messages that an earlier request may have sent; `None` if the context is built
    /// from the start.
    fn advance(&mut self, conversation: &mut Conversation, fresh_from: Option<usize>) -> bool {
        let mut changed = false;
        while let Some(at) = conversation.live.slots.get(self.cursor.next).copied() {
            let slot = &conversation.log[at];
            let message = Arc::clone(&slot.message);
            let last = self.cursor.next + 1 == conversation.live.slots.len();
            if !slot.done && last {
                // The message is still streaming and may grow, so it is added later.
                break;
            }
            self.cursor.next += 1;
            match message.role {
                Role::Tool => note_strays(conversation, at, &message),
                _ if !visibility(&message.origin).model => {}
                Role::Assistant => {
                    changed |= self.emit(conversation, (at, None), &message, fresh_from);
                    changed |= self.emit_results(conversation, &message, fresh_from);
                }
                Role::User | Role::System => {
                    changed |= self.emit(conversation, (at, None), &message, fresh_from);
                }
            }
        }
        changed
    }

    fn emit_results(
        &mut self,
        conversation: &mut Conversation,
        caller: &Message,
        fresh_from: Option<usize>,
    ) -> bool {
        let mut changed = false;
        let newest = &conversation.turn.newest;
        let may_run = self.may_run && newest.assistant == Some(caller.seq) && newest.assistant > newest.input;
        for (nth, part) in caller.parts.iter().enumerate() {
            let Part::ToolCall { call_id, name, .. } = part else { continue };
            let tool = repair::safe_name(name);
            if !self.cursor.called.contains(tool.as_ref()) {
                self.cursor.called.insert(tool.into_owned());
            }
            if let Answer::At((at, result)) = conversation.calls.answer(call_id) {
                let message = Arc::clone(&conversation.log[at].message);
                changed |= self.emit(conversation, (at, Some(result)), &message, fresh_from);
            } else if may_run {
                self.cursor.repaired.insert(call_id.clone());
                let result = repair::pending_result(caller, nth, call_id, name);
                self.push(result, caller.seq, vec![repair::PENDING.to_owned()]);
            } else {
                self.cursor.repaired.insert(call_id.clone());
                let result = repair::missing_result(caller, nth, call_id, name);
                self.push(result, caller.seq, vec!["repaired: result missing".to_owned()]);
                conversation.notices.add(format!(
                    "call {call_id} ({name}) has no result: the model gets `{}`",
                    repair::INTERRUPTED
                ));
            }
        }
        changed
    }

    /// Converts one message, or one of its results.
    fn shaped<'a>(&self, conversation: &Conversation, (at, result): Source, raw: &'a Message) -> Shaped<'a> {
        let effects = conversation.effects();
        let as_text = |part: u32| self.is_text(conversation, at, raw, part);
        let input = |call: &CallId| effects.input_of(call);
        let mut how = RenderOptions {
            scope: &self.scope,
            wrapped: effects.wrapped.contains(&raw.id) && raw.is_user_turn(),
            pruned: None,
            cut: None,
            input: &input,
            as_text: &as_text,
        };
        let Some(nth) = result else { return shape(raw, &how) };
        if let Some(Part::ToolResult { call_id, .. }) = raw.parts.get(nth)
            && !effects.pinned_messages.contains(&raw.id)
        {
            how.pruned = effects.pruned.get(call_id).filter(|_| effects.is_pruned(call_id));
            how.cut = effects.cut_of(call_id);
        }
        shape_result(raw, nth, &how)
    }

    /// Adds one message, or one of its results. Returns true if a message before index `fresh_from` has changed: see [`Self::advance`].
    fn emit(
        &mut self,
        conversation: &mut Conversation,
        source: Source,
        raw: &Arc<Message>,
        fresh_from: Option<usize>,
    ) -> bool {
        let shaped = self.shaped(conversation, source, raw);
        if shaped.parts.is_empty() {
            return false;
        }
        let pruned = shaped.compacted.is_some();
        let (message, applied, notes) = shaped.into_message(raw);
        for note in notes {
            conversation.notices.add(note);
        }
        if self.context.messages.is_empty() && !repair::opens(message.role) {
            let start = repair::missing_start(raw);
            self.push(start, raw.seq, vec!["repaired: start missing".to_owned()]);
            let notices = &mut conversation.notices;
            notices.add(
                "the conversation starts with a message of the model: a line was put before it".to_owned(),
            );
        }
        // An unchanged message was already estimated when it was added.
        let tokens = if Arc::ptr_eq(&message, raw) {
            conversation.log[source.0].tokens
        } else {
            budget::estimate_message(&message)
        };
        let provenance = Provenance { seq: raw.seq, message: Some(raw.id), applied };
        self.context.messages.push(Arc::new(ContextMessage { message, provenance, tokens }));
        !pruned && raw.has_media() && self.count_media(conversation, source, raw, fresh_from)
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
    pub(super) fn sent_media<'a>(
        &'a self,
        conversation: &'a Conversation,
    ) -> impl Iterator<Item = (MessageId, u32, u64)> + 'a {
        let id = |sent: &Sent| conversation.log[sent.source.0].message.id;
        self.cursor.media.iter().map(move |sent| (id(sent), sent.part, sent.bytes))
    }

    /// Keeps the media of the whole request within the model's limits. If there are too many, the oldest
    /// become text. Returns true if that changes a message before index `fresh_from`.
    fn count_media(
        &mut self,
        conversation: &mut Conversation,
        source: Source,
        raw: &Message,
        fresh_from: Option<usize>,
    ) -> bool {
        let at = self.context.messages.len() - 1;
        let sent = &self.context.messages[at].message.parts;
        let sent_now = sent.iter().filter(|part| part.is_media()).count();
        for (part, media) in raw.parts.iter().enumerate().filter(|(_, p)| p.is_media()) {
            if let Some(why) = media::unsendable(media, &self.scope) {
                conversation.notices.add(format!(
                    "{} of message {} is sent as this text: {why}",
                    media::stub(media).unwrap_or_default(),
                    raw.id
                ));
            }
            if self.context.messages[at].message.parts.contains(media)
                && !self.is_text(conversation, source.0, raw, part as u32)
            {
                let bytes = media::bytes(media);
                self.cursor.media.push_back(Sent { at, source, part: part as u32, bytes });
            }
        }
        let sizes = self.cursor.media.iter().map(|m| m.bytes);
        let drop = media::overflow(sizes, sent_now, &self.scope);
        let gone: Vec<Sent> = self.cursor.media.drain(..drop).collect();
        let Some(first) = gone.first() else { return false };
        let changed = fresh_from.is_some_and(|fresh| first.at < fresh);
        self.cursor.hidden.extend(gone.iter().map(|m| (m.source.0, m.part)));
        let repaint: BTreeSet<(usize, Source)> = gone.iter().map(|m| (m.at, m.source)).collect();
        for (at, source) in repaint {
            self.repaint(conversation, at, source);
        }
        conversation.notices.add(format!(
            "{} image(s) or file(s) up to message {at} are sent as text: a request to {} takes {} and {} bytes at most",
            gone.len(),
            self.scope.model,
            self.scope.max_images,
            self.scope.max_media_bytes
        ));
        changed
    }

    fn is_text(&self, conversation: &Conversation, at: usize, raw: &Message, part: u32) -> bool {
        self.cursor.hidden.contains(&(at, part))
            || conversation.effects().is_text(raw.id, part, raw.seq)
            || raw.parts.get(part as usize).is_some_and(|p| media::unsendable(p, &self.scope).is_some())
    }

    fn repaint(&mut self, conversation: &Conversation, place: usize, source: Source) {
        let raw = Arc::clone(&conversation.log[source.0].message);
        let (message, applied, _) = self.shaped(conversation, source, &raw).into_message(&raw);
        let tokens = budget::estimate_message(&message);
        let provenance = Provenance { seq: raw.seq, message: Some(raw.id), applied };
        self.context.messages[place] = Arc::new(ContextMessage { message, provenance, tokens });
    }

    /// Checks the context that was built last against the rules of the providers. Only new messages are
    /// checked.
    ///
    /// # Errors
    ///
    /// Returns the first rule that the context breaks.
    pub(super) fn check(&mut self) -> Result<(), Violation> {
        let (generation, validator) = &mut self.validator;
        if *generation != self.context.generation || validator.len() > self.context.messages.len() {
            (*generation, *validator) = (self.context.generation, Validator::default());
        }
        let mut new = self.context.messages.iter().skip(validator.len());
        let result = new.try_for_each(|m| validator.push(&m.message, Some(&self.scope)));
        let result = result.and_then(|()| validator.end());
        if result.is_err() {
            *validator = Validator::default();
        }
        result
    }

    /// Returns the entry that records which media are shown as text, because the request would exceed the model's limits on media; `None`
    /// if all are recorded. Append it after the context was built; it does not change what is shown.
    pub(super) fn media_due(&self, conversation: &Conversation) -> Option<EntryKind> {
        let mut media: Vec<(Seq, MessageId, u32)> = self
            .cursor
            .hidden
            .iter()
            .map(|(at, part)| (conversation.log[*at].seq, conversation.log[*at].message.id, *part))
            .collect();
        media.sort_unstable();
        (!media.is_empty()).then(|| EntryKind::Prune {
            calls: Vec::new(),
            media: media.into_iter().map(|(_, id, part)| (id, part)).collect(),
            cuts: Vec::new(),
            freed_tokens: Tokens(0),
            reason: PruneReason::MediaLimit,
        })
    }

    /// Returns the names of the tools that the context calls.
    pub(super) fn called(&self) -> impl Iterator<Item = &str> {
        self.cursor.called.iter().map(String::as_str)
    }
}

/// Adds notices about results in a tool message that are not sent.
fn note_strays(conversation: &mut Conversation, at: usize, message: &Message) {
    for (nth, part) in message.parts.iter().enumerate() {
        let Part::ToolResult { call_id, .. } = part else { continue };
        let text = match conversation.calls.answer(call_id) {
            Answer::At(place) if place == (at, nth) => continue,
            Answer::At(_) => format!("call {call_id} has more than one result: the first one counts"),
            Answer::Open | Answer::NotAsked => match conversation.calls.get(call_id) {
                // The call was reverted, so its result is omitted without a notice.
                Some(call) if conversation.effects().is_dead(call.at) => continue,
                _ => format!("the result of {call_id} has no call before it: it is not sent"),
            },
        };
        conversation.notices.add(text);
    }
    if message.result_of().is_none() {
        conversation.notices.add(format!("tool message {} holds no result: it is not sent", message.id));
    }
}
