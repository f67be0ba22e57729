//! Prompts on their way into the ledger.
//!
//! A prompt that comes while the agent is idle is appended at once. A prompt that comes while the agent works waits for
//! the next step or the end of the turn. Until then it is kept in the session state `inbox`, so that a crash does not lose it.

use super::conversation::Conversation;
use super::flow::Flow;
use super::forked::begin_fork;
use super::handle::Query;
use super::ledger::Core;
use super::title::Titling;
use super::toolset::Toolset;
use super::turn_terms::begin_terms;
use crate::host::lock;
use crate::machine::{Input, Phase, PromptId};
use base64::Engine as _;
use becket_session::Durability;
use becket_types::{
    Command, DeliveryMode, EntryKind, Event, ImageSource, Message, NoticeLevel, Origin, Part, PromptInput,
    Role, Synthetic,
};
use std::collections::BTreeMap;
use tokio::sync::mpsc;

/// Name of the session state that holds the waiting prompts.
pub(super) const INBOX: &str = "inbox";

/// The commands and questions of the front end, and the prompts that wait, by their number in the state machine.
pub(crate) struct Inbox {
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) queries: mpsc::UnboundedReceiver<Query>,
    /// False once nobody is connected to answer.
    pub(super) is_open: bool,
    prompts: BTreeMap<PromptId, PromptInput>,
    /// Messages of becket's own that wait like prompts, with their ids for front ends. They are lost with the process.
    notes: BTreeMap<PromptId, (Message, String)>,
    next: PromptId,
    /// True if the ledger's `inbox` state is not empty.
    saved: bool,
    /// Prompts that an earlier process left in its inbox. They are delivered with the first prompt.
    undelivered: Vec<PromptInput>,
}

impl Inbox {
    pub(super) fn new(commands: mpsc::Receiver<Command>, queries: mpsc::UnboundedReceiver<Query>) -> Self {
        Self {
            commands,
            queries,
            is_open: true,
            prompts: BTreeMap::new(),
            notes: BTreeMap::new(),
            next: PromptId::default(),
            saved: false,
            undelivered: Vec::new(),
        }
    }

    pub(super) fn restore(&mut self, left: Vec<PromptInput>) {
        self.saved = !left.is_empty();
        self.undelivered = left;
    }

    pub(super) fn has_undelivered(&self) -> bool {
        !self.undelivered.is_empty()
    }

    /// The text of a waiting prompt.
    pub(super) fn text(&self, id: PromptId) -> Option<String> {
        self.prompts.get(&id).map(|input| text_of(&input.parts))
    }

    /// Returns the id that a program gave a waiting prompt.
    pub(super) fn client_id(&self, id: PromptId) -> Option<String> {
        self.prompts.get(&id)?.client_id.clone()
    }

    pub(super) fn put_note(&mut self, message: Message, client_id: String) -> PromptId {
        let id = self.next;
        self.next += 1;
        self.notes.insert(id, (message, client_id));
        id
    }

    /// Takes a message about a command in the background, which is delivered like a prompt.
    pub(super) fn task_ended(&mut self, task: u64, text: &str, flow: &mut Flow) {
        let text = format!("<task-notification>\n{text}\n</task-notification>");
        let mut message = Message::synthetic(Synthetic::Reminder, text);
        message.metadata.extra.insert("task".to_owned(), task.into());
        let id = self.put_note(message, format!("task-{task}"));
        flow.feed(Input::Prompt { id, mode: DeliveryMode::Steer });
    }

    pub(super) fn is_note(&self, id: PromptId) -> bool {
        self.notes.contains_key(&id)
    }

    fn put(&mut self, input: PromptInput) -> PromptId {
        let id = self.next;
        self.next += 1;
        self.prompts.insert(id, input);
        id
    }

    /// The state entry for the waiting prompts, if it differs from the ledger's.
    fn entry(&mut self) -> Option<EntryKind> {
        if self.prompts.is_empty() && !self.saved {
            return None;
        }
        self.saved = !self.prompts.is_empty();
        let waiting: Vec<PromptInput> = self.prompts.values().map(without_terms).collect();
        let value = serde_json::to_value(waiting).unwrap_or_default();
        Some(EntryKind::State { key: INBOX.to_owned(), value })
    }

    /// Accepts a prompt. If the agent works, the prompt waits, and is written to disk at once.
    pub(super) fn accept_prompt(&mut self, mut input: PromptInput, core: &mut Core, flow: &mut Flow) {
        for part in &mut input.parts {
            keep_image(part, core);
        }
        // Prompts that an earlier process left form one turn together with this one.
        let mode = if self.take_undelivered(flow) { DeliveryMode::Steer } else { input.mode };
        let id = self.put(input);
        if flow.phase() != Phase::Idle
            && let Some(entry) = self.entry()
        {
            core.append(vec![entry], Durability::Synced);
        }
        flow.feed(Input::Prompt { id, mode });
    }

    /// Withdraws a waiting prompt. A prompt that was delivered meanwhile stays; its message shows that.
    pub(super) fn withdraw(&mut self, client_id: String, core: &mut Core, flow: &mut Flow) {
        let waits = |input: &PromptInput| input.client_id.as_ref() == Some(&client_id);
        let Some(id) = self.prompts.iter().find(|(_, input)| waits(input)).map(|(id, _)| *id) else {
            return;
        };
        self.prompts.remove(&id);
        flow.change(|state| state.withdraw(id));
        if let Some(entry) = self.entry() {
            core.append(vec![entry], Durability::Synced);
        }
        core.emit(Event::Withdrawn { client_id });
    }

    /// Withdraws all prompts that wait.
    pub(super) fn withdraw_all(&mut self, core: &mut Core, flow: &mut Flow) {
        let waiting = std::mem::take(&mut self.prompts);
        if waiting.is_empty() {
            return;
        }
        if let Some(entry) = self.entry() {
            core.append(vec![entry], Durability::Synced);
        }
        for (id, input) in waiting {
            flow.change(|state| state.withdraw(id));
            core.emit(Event::Withdrawn { client_id: input.client_id.unwrap_or_default() });
        }
    }

    /// Discards a prompt that hooks refused, and informs front ends.
    pub(super) fn take_back(&mut self, id: PromptId, why: &str, core: &mut Core) {
        let Some(input) = self.prompts.remove(&id) else { return };
        if let Some(entry) = self.entry() {
            core.append(vec![entry], Durability::Synced);
        }
        if let Some(client_id) = input.client_id {
            core.emit(Event::Withdrawn { client_id });
        }
        core.emit_notice(NoticeLevel::Warning, why.to_owned());
    }

    /// Takes the prompts that an earlier process had accepted but not delivered. They come before everything else. Returns false
    /// if there are none.
    pub(super) fn take_undelivered(&mut self, flow: &mut Flow) -> bool {
        let left = std::mem::take(&mut self.undelivered);
        if left.is_empty() {
            return false;
        }
        // They form one turn together with the next prompt, so the idle machine must not start with the first alone.
        for input in left {
            let id = self.put(input);
            flow.change(|state| state.hold(id));
        }
        true
    }

    /// Appends prompts to the ledger and syncs it to disk before anything else happens.
    pub(super) fn deliver(
        &mut self,
        prompts: &[PromptId],
        steered: bool,
        conversation: &mut Conversation,
        titling: &mut Titling,
        tools: &mut Toolset,
    ) {
        let mut entries = Vec::new();
        let mut delivered = Vec::new();
        let mut titled = None;
        for id in prompts {
            if let Some((message, client_id)) = self.notes.remove(id) {
                delivered.push((entries.len(), message.clone(), Some(client_id)));
                entries.push(EntryKind::Message { message });
                continue;
            }
            let Some(mut input) = self.prompts.remove(id) else { continue };
            begin_fork(&mut input, steered, conversation, tools);
            let PromptInput { parts, client_id, terms, mode: _ } = input;
            begin_terms(&terms, conversation, tools);
            if !titling.titled
                && let Some(title) = crate::prompt::title(&text_of(&parts))
            {
                titling.titled = true;
                titled = Some((title.clone(), text_of(&parts)));
                entries.push(EntryKind::Title { title });
            }
            let message = Message::new(Role::User, Origin::User, parts);
            delivered.push((entries.len(), message.clone(), client_id));
            entries.push(EntryKind::Message { message });
        }
        if self.saved {
            entries.extend(self.entry());
        }
        let core = &mut conversation.core;
        let seqs = core.append(entries, Durability::Synced);
        for (at, mut message, client_id) in delivered {
            message.seq = seqs.get(at).copied().unwrap_or_default();
            core.emit(Event::UserMessage { message, client_id, steered });
        }
        if let Some((title, words)) = titled {
            core.emit(Event::Renamed { title });
            titling.ask(&words, conversation);
        }
        conversation.core.tell_notices();
    }
}

/// Returns a prompt as the session keeps it for a later process, which does not know the prompt's terms. If the terms make
/// a subagent work on a command (`fork`), the prompt that the command expands to replaces the command.
fn without_terms(input: &PromptInput) -> PromptInput {
    let mut kept = input.clone();
    if let (Some(fork), Some(Part::Text { text, .. })) = (kept.terms.fork.take(), kept.parts.first_mut()) {
        *text = fork.prompt;
    }
    kept
}

/// Replaces an inline image by a blob, because the ledger must not hold its bytes.
fn keep_image(part: &mut Part, core: &mut Core) {
    let Part::Image { source, media_type, width, height, extra, name } = part else { return };
    let ImageSource::Base64(data) = source else { return };
    let Ok(bytes) = base64::engine::general_purpose::STANDARD.decode(data.trim()) else {
        let text = format!("[An attached image ({media_type}) could not be decoded]");
        core.notice(
            NoticeLevel::Warning,
            "An attached image is not valid base64 and was left out.".to_owned(),
        );
        *part = Part::text(text);
        return;
    };
    // A program sends a PDF as an image part with this media type.
    let is_pdf = media_type == "application/pdf";
    if !is_pdf && let Some(line) = becket_model::unusable_image(&bytes, media_type) {
        let text =
            format!("An image of the prompt cannot be shown to the model, which sees this instead: {line}");
        core.notice(NoticeLevel::Warning, text);
    }
    // A reader who gets only a description of the image learns its size from these fields.
    extra.insert("bytes".to_owned(), bytes.len().into());
    if let (None, None, Some((w, h))) = (*width, *height, becket_model::image_size(&bytes)) {
        (*width, *height) = (Some(w), Some(h));
    }
    let kept = lock(&core.session).put_blob(&bytes);
    match kept {
        Ok(blob) if is_pdf => {
            let (media_type, name, extra) = (media_type.clone(), name.take(), std::mem::take(extra));
            *part = Part::File { media_type, blob, name, extra };
        }
        Ok(id) => *source = ImageSource::Blob(id),
        Err(error) => {
            core.notice(NoticeLevel::Warning, format!("An image could not be kept: {error}"));
        }
    }
}

/// Text of a prompt's parts, for its title.
fn text_of(parts: &[Part]) -> String {
    let texts = parts
        .iter()
        .filter_map(|part| if let Part::Text { text, .. } = part { Some(text.as_str()) } else { None });
    texts.collect::<Vec<_>>().join("\n")
}
