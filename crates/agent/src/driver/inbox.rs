//! Prompts on their way into the ledger.
//!
//! A prompt that comes while the agent is idle is appended at once. One that comes while the agent works waits for the next
//! step or the end of the turn. Until then it is kept in the session state `inbox`, so that a crash does not lose it.

use super::Agent;
use super::sent::{Question, RequestTerms, asked};
use super::title::{self, TitleRun};
use crate::host::lock;
use crate::machine::{Input, Phase, PromptId};
use crate::spend::RequestCost;
use base64::Engine as _;
use becket_model::ToolChoice;
use becket_session::Durability;
use becket_types::{
    CacheLifetime, Command, Context, DeliveryMode, EntryKind, Event, ImageSource, Message, NoticeLevel,
    Origin, Part, PromptInput, Role, cut_end,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Name of the session state that holds the waiting prompts.
pub(super) const INBOX: &str = "inbox";

/// The commands of the front end, and the prompts that wait, by their number in the state machine.
pub(crate) struct Inbox {
    pub(super) commands: mpsc::Receiver<Command>,
    /// False once the front end is gone.
    pub(super) is_open: bool,
    prompts: BTreeMap<PromptId, PromptInput>,
    /// Messages of becket's own that wait like prompts, with their ids for front ends. They are lost with the process.
    notes: BTreeMap<PromptId, (Message, String)>,
    next: PromptId,
    /// True if the ledger's `inbox` state is not empty.
    saved: bool,
    /// Prompts that an earlier process left in its inbox. They are delivered with the first prompt.
    left: Vec<PromptInput>,
    /// The request for the session's title, while it runs.
    pub(super) titling: Option<TitleRun>,
    /// True if the session has a title.
    pub(super) titled: bool,
}

impl Inbox {
    pub(super) fn new(commands: mpsc::Receiver<Command>, titled: bool) -> Self {
        Self {
            commands,
            is_open: true,
            prompts: BTreeMap::new(),
            notes: BTreeMap::new(),
            next: PromptId::default(),
            saved: false,
            left: Vec::new(),
            titling: None,
            titled,
        }
    }

    pub(super) fn restore(&mut self, left: Vec<PromptInput>) {
        self.saved = !left.is_empty();
        self.left = left;
    }

    pub(super) fn has_left(&self) -> bool {
        !self.left.is_empty()
    }

    /// The text of a waiting prompt.
    pub(super) fn text(&self, id: PromptId) -> Option<String> {
        self.prompts.get(&id).map(|input| text_of(&input.parts))
    }

    pub(super) fn put_note(&mut self, message: Message, client_id: String) -> PromptId {
        let id = self.next;
        self.next += 1;
        self.notes.insert(id, (message, client_id));
        id
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
        let waiting: Vec<&PromptInput> = self.prompts.values().collect();
        let value = serde_json::to_value(waiting).unwrap_or_default();
        Some(EntryKind::State { key: INBOX.to_owned(), value })
    }
}

impl Agent {
    pub(super) fn prompt_came(&mut self, mut input: PromptInput) {
        for part in &mut input.parts {
            self.keep_image(part);
        }
        self.take_left();
        let mode = input.mode;
        let id = self.inbox.put(input);
        if self.phase() != Phase::Idle
            && let Some(entry) = self.inbox.entry()
        {
            self.core.append(vec![entry], Durability::Synced);
        }
        self.feed(Input::Prompt { id, mode });
    }

    /// Withdraws a waiting prompt. One that was delivered meanwhile stays; its message shows that.
    pub(super) fn withdraw(&mut self, client_id: String) {
        let waits = |input: &PromptInput| input.client_id.as_ref() == Some(&client_id);
        let Some(id) = self.inbox.prompts.iter().find(|(_, input)| waits(input)).map(|(id, _)| *id) else {
            return;
        };
        self.inbox.prompts.remove(&id);
        self.flow.change(|state| state.withdraw(id));
        if let Some(entry) = self.inbox.entry() {
            self.core.append(vec![entry], Durability::Synced);
        }
        self.core.emit(Event::Withdrawn { client_id });
    }

    /// Discards a prompt that hooks refused, and says so.
    pub(super) fn take_back(&mut self, id: PromptId, why: &str) {
        let Some(input) = self.inbox.prompts.remove(&id) else { return };
        if let Some(entry) = self.inbox.entry() {
            self.core.append(vec![entry], Durability::Synced);
        }
        if let Some(client_id) = input.client_id {
            self.core.emit(Event::Withdrawn { client_id });
        }
        self.core.say(NoticeLevel::Warning, why.to_owned());
    }

    /// Sets another title. Later prompts do not change it.
    pub(super) fn rename(&mut self, title: String) {
        self.begin_ledger();
        self.inbox.titled = true;
        self.count_title();
        self.core.append(vec![EntryKind::Title { title: title.clone() }], Durability::Synced);
        self.core.emit(Event::Renamed { title });
    }

    /// Takes the prompts that an earlier process had accepted but not delivered. They come before everything else.
    pub(super) fn take_left(&mut self) {
        let left = std::mem::take(&mut self.inbox.left);
        if left.is_empty() {
            return;
        }
        // They form one turn together with the next prompt, so the idle machine must not start with the first alone.
        for input in left {
            let id = self.inbox.put(input);
            self.flow.change(|state| state.hold(id));
        }
    }

    /// Replaces an inline image by a blob, because the ledger must not hold its bytes.
    fn keep_image(&mut self, part: &mut Part) {
        let Part::Image { source, media_type, width, height, extra, .. } = part else { return };
        let ImageSource::Base64(data) = source else { return };
        let Ok(bytes) = base64::engine::general_purpose::STANDARD.decode(data.trim()) else {
            let text = format!("[An attached image ({media_type}) could not be decoded]");
            self.core.notice(
                NoticeLevel::Warning,
                "An attached image is not valid base64 and was left out.".to_owned(),
            );
            *part = Part::text(text);
            return;
        };
        if let Some(line) = becket_model::unusable_image(&bytes, media_type) {
            let text = format!(
                "An image of the prompt cannot be shown to the model, which sees this instead: {line}"
            );
            self.core.notice(NoticeLevel::Warning, text);
        }
        // A reader who gets only a description of the image learns its size from these fields.
        extra.insert("bytes".to_owned(), bytes.len().into());
        if let (None, None, Some((w, h))) = (*width, *height, becket_model::image_size(&bytes)) {
            (*width, *height) = (Some(w), Some(h));
        }
        let kept = lock(&self.core.session).put_blob(&bytes);
        match kept {
            Ok(id) => *source = ImageSource::Blob(id),
            Err(error) => {
                self.core.notice(NoticeLevel::Warning, format!("An image could not be kept: {error}"));
            }
        }
    }

    /// Appends prompts to the ledger and syncs it to disk before anything else happens.
    pub(super) fn deliver(&mut self, prompts: &[PromptId], steered: bool) {
        self.begin_ledger();
        let mut entries = Vec::new();
        let mut delivered = Vec::new();
        let mut titled = None;
        for id in prompts {
            if let Some((message, client_id)) = self.inbox.notes.remove(id) {
                delivered.push((entries.len(), message.clone(), Some(client_id)));
                entries.push(EntryKind::Message { message });
                continue;
            }
            let Some(PromptInput { parts, client_id, mode: DeliveryMode::Steer | DeliveryMode::Queue }) =
                self.inbox.prompts.remove(id)
            else {
                continue;
            };
            if !self.inbox.titled
                && let Some(title) = crate::prompt::title(&text_of(&parts))
            {
                self.inbox.titled = true;
                titled = Some((title.clone(), text_of(&parts)));
                entries.push(EntryKind::Title { title });
            }
            let message = Message::new(Role::User, Origin::User, parts);
            delivered.push((entries.len(), message.clone(), client_id));
            entries.push(EntryKind::Message { message });
        }
        if self.inbox.saved {
            entries.extend(self.inbox.entry());
        }
        self.tools.repetition.reset();
        let seqs = self.core.append(entries, Durability::Synced);
        for (at, mut message, client_id) in delivered {
            message.seq = seqs.get(at).copied().unwrap_or_default();
            self.core.emit(Event::UserMessage { message, client_id, steered });
        }
        if let Some((title, words)) = titled {
            self.core.emit(Event::Renamed { title });
            self.ask_title(&words);
        }
        self.core.tell_notices();
    }

    /// Asks the model for titles, if there is one, for a title of a session that begins with these words.
    fn ask_title(&mut self, words: &str) {
        let Some(model) = self.wire.auxiliary.title.clone() else { return };
        let words = cut_end(words, title::MAX_INPUT);
        let read = (title::PROMPT.len() + words.len()) as u64 / 3;
        let cost = RequestCost::of(model.info(), read, 0, CacheLifetime::default());
        let max_output = title::MAX_OUTPUT.min(model.info().max_output);
        match self.spending.limits.room(cost.input, cost.output_price, max_output) {
            Ok(most) if most == max_output => {}
            // The limits of the run are for its task.
            _ => return,
        }
        let context = Context {
            system: Arc::from([Arc::from(title::PROMPT)]),
            messages: vec![asked(words)],
            generation: self.wire.own_generation(),
        };
        let terms = RequestTerms {
            purpose: "title",
            max_output,
            effort: None,
            tool_choice: ToolChoice::None,
            cache: CacheLifetime::default(),
        };
        let question = Question { system: title::PROMPT, prompt: words };
        let prepared = terms.prepare_beside(&mut self.core, &*model, &context, &[], &question);
        let Ok(prepared) = prepared else { return };
        let reservation = self.spending.limits.reserve(cost.need(max_output));
        let stream = model.send(prepared);
        self.inbox.titling = Some(TitleRun::new(model, stream, Some(reservation)));
    }

    /// Takes the title that a model made, unless the user has chosen one meanwhile.
    pub(super) fn title_came(&mut self, title: Option<String>) {
        self.count_title();
        if let Some(title) = title {
            self.core.append(vec![EntryKind::Title { title: title.clone() }], Durability::Buffered);
            self.core.emit(Event::Renamed { title });
        }
    }

    /// Waits for a requested title before a headless run ends. The request is paid for anyway.
    pub(super) async fn finish_title(&mut self) {
        if !self.settings.asking.headless || self.inbox.titling.is_none() {
            return;
        }
        let limit = tokio::time::sleep(title::PATIENCE);
        let title = tokio::select! {
            title = title::next(&mut self.inbox.titling) => title,
            () = limit => None,
        };
        self.title_came(title);
    }

    /// Ends the request for a title, if there is one, and counts its usage.
    pub(super) fn count_title(&mut self) {
        if let Some(run) = self.inbox.titling.take() {
            let info = run.model.info().clone();
            self.spent(&info, run.usage, "title", None);
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
