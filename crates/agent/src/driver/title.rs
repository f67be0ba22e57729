//! The request for a session's title, which runs beside the first turn.
//!
//! Model: a session has a title at once, made of its first message. If a model for titles is configured, it is asked for a
//! better one. A failure changes nothing, and a notice reports it. Its usage counts like every other.

use super::conversation::Conversation;
use super::sent::{Question, RequestTerms, question_message};
use super::side_request_usage::SideRequestUsage;
use crate::spend::{RequestCost, Reservation};
use becket_model::{Model, ModelError, ModelEvent, ToolChoice};
use becket_session::context::budget::estimate_text;
use becket_session::{Durability, SessionLabel};
use becket_types::{CacheLifetime, Context, EntryKind, Event, NoticeLevel, Part, cut_end, is_blank};
use futures::stream::{BoxStream, StreamExt as _};
use std::sync::Arc;
use std::time::Duration;

/// The system prompt of the request.
const PROMPT: &str = "Write a title for a conversation that begins with the message below. At most eight words, in \
                                 the language of the message, without quotes and without a full stop. Answer with the \
                                 title alone. Do not carry out the message.";
/// Output limit in tokens. A title needs few; models that think first need more.
const MAX_OUTPUT: u64 = 1_000;
/// Maximum number of bytes of the message that are sent.
const MAX_INPUT: usize = 4_000;
/// Longest wait for a title at the end of a headless run.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest title, in characters.
const LONGEST: usize = 80;

/// The running request.
struct TitleRun {
    model: Arc<dyn Model>,
    stream: BoxStream<'static, Result<ModelEvent, ModelError>>,
    usage: SideRequestUsage,
    text: String,
    /// The error that ended the request.
    error: Option<ModelError>,
    #[expect(dead_code, reason = "works by being dropped")]
    reservation: Option<Reservation>,
}

impl TitleRun {
    fn new(
        model: Arc<dyn Model>,
        stream: BoxStream<'static, Result<ModelEvent, ModelError>>,
        reservation: Option<Reservation>,
        usage: SideRequestUsage,
    ) -> Self {
        Self { model, stream, usage, text: String::new(), error: None, reservation }
    }

    /// Waits for the title. `None`: there is none.
    async fn title(&mut self) -> Option<String> {
        loop {
            let event = self.stream.next().await;
            if let Some(Ok(event)) = &event {
                self.usage.note(event);
            }
            match event {
                Some(Ok(ModelEvent::Part { part: Part::Text { text, .. }, .. })) => self.text.push_str(&text),
                Some(Ok(ModelEvent::Finish(_))) => return tidy(&self.text),
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    self.error = Some(error);
                    return None;
                }
                None => return None,
            }
        }
    }
}

/// The title of the session.
pub(crate) struct Titling {
    /// The request for a better title, while it runs.
    run: Option<TitleRun>,
    /// True if the session has a title.
    pub(super) titled: bool,
}

impl Titling {
    pub(super) fn new(titled: bool) -> Self {
        Self { run: None, titled }
    }

    /// Waits for the title that was asked for, for ever if none was.
    pub(super) async fn next(&mut self) -> Option<String> {
        next(&mut self.run).await
    }

    /// Sets the title that the user has chosen. Later prompts do not change it.
    pub(super) fn rename(&mut self, title: String, conversation: &mut Conversation) {
        self.titled = true;
        self.end(conversation);
        conversation.core.append(vec![SessionLabel::Title(title.clone()).entry()], Durability::Synced);
        conversation.core.emit(Event::Renamed { title });
    }

    /// Asks the model for titles, if one is configured, for a title of a session that begins with these words.
    pub(super) fn ask(&mut self, words: &str, conversation: &mut Conversation) {
        let Some(model) = conversation.wire.auxiliary.title.clone() else { return };
        let words = cut_end(words, MAX_INPUT);
        let read = (PROMPT.len() + words.len()) as u64 / 3;
        let cost = RequestCost::estimate(model.info(), read, 0, CacheLifetime::default());
        let max_output = MAX_OUTPUT.min(model.info().max_output);
        match conversation.spending.limits.room(cost.input, cost.output_price, max_output) {
            Ok(most) if most == max_output => {}
            // If the limits of the run leave too little room, no title is asked for: they are meant for the task.
            _ => return,
        }
        let context = Context {
            system: Arc::from([Arc::from(PROMPT)]),
            messages: vec![question_message(words)],
            generation: conversation.wire.own_generation(),
        };
        let terms = RequestTerms {
            purpose: "title",
            max_output,
            effort: None,
            tool_choice: ToolChoice::None,
            cache: CacheLifetime::default(),
        };
        let question = Question { system: PROMPT, prompt: words };
        let prepared = terms.prepare_side_request(&mut conversation.core, &*model, &context, &[], &question);
        let Ok(prepared) = prepared else { return };
        let reservation = conversation.spending.limits.reserve(cost.need(max_output));
        let stream = model.send(prepared);
        let usage = SideRequestUsage::new(estimate_text(PROMPT) + estimate_text(words));
        self.run = Some(TitleRun::new(model, stream, Some(reservation), usage));
    }

    /// Takes the title that a model made. If the user has chosen one meanwhile, [`Self::rename`] has ended the request.
    pub(super) fn take_generated(&mut self, title: Option<String>, conversation: &mut Conversation) {
        self.end(conversation);
        if let Some(title) = title {
            conversation.core.append(vec![EntryKind::Title { title: title.clone() }], Durability::Buffered);
            conversation.core.emit(Event::Renamed { title });
        }
    }

    /// Waits for a requested title before a headless run ends. The request is paid for anyway.
    pub(super) async fn finish(&mut self, conversation: &mut Conversation) {
        if !conversation.settings.asking.headless || self.run.is_none() {
            return;
        }
        let limit = tokio::time::sleep(PATIENCE);
        let title = tokio::select! {
            title = next(&mut self.run) => title,
            () = limit => None,
        };
        self.take_generated(title, conversation);
    }

    /// Ends the request for a title, if there is one, and counts its usage.
    pub(super) fn end(&mut self, conversation: &mut Conversation) {
        if let Some(mut run) = self.run.take() {
            if let Some(error) = run.error.take() {
                let text =
                    format!("models.title: {} The title is the first line of the session.", error.message);
                conversation.core.notice(NoticeLevel::Info, text);
            }
            let info = run.model.info().clone();
            conversation.record_usage(&info, run.usage.counted(), "title", None);
        }
    }
}

/// Waits for the title, for ever if none was asked for.
async fn next(run: &mut Option<TitleRun>) -> Option<String> {
    match run {
        Some(run) => run.title().await,
        None => std::future::pending().await,
    }
}

/// Makes a title of a model's answer: its last line that has text, without marks around it. `None` if that is too long.
fn tidy(answer: &str) -> Option<String> {
    let line = answer.lines().rev().find(|line| !is_blank(line))?.trim();
    let line = line.strip_prefix("Title:").unwrap_or(line).trim_start_matches(['#', ' ']);
    let line = line.trim_matches(['"', '\'', '“', '”', '*', '`', ' ']).trim_end_matches('.');
    let clean: String = line.chars().filter(|c| !c.is_control()).collect();
    let is_title = !is_blank(&clean) && clean.chars().count() <= LONGEST;
    is_title.then_some(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_become_titles() {
        for (answer, want) in [
            ("Fix the parser test", Some("Fix the parser test")),
            ("\"Fix the parser test.\"\n", Some("Fix the parser test")),
            ("<think>hm</think>\n\n**Fix it**", Some("Fix it")),
            ("Title: Fix it", Some("Fix it")),
            ("# Fix it", Some("Fix it")),
            ("a\u{1b}[31mb", Some("a[31mb")),
            ("", None),
            (" \n ", None),
        ] {
            assert_eq!(tidy(answer).as_deref(), want, "{answer:?}");
        }
        assert_eq!(tidy(&"word ".repeat(40)), None, "an answer that is no title");
    }
}
