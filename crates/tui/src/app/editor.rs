//! The user's text before it is sent: the composer, its completions and its draft, and messages that were sent and not
//! delivered.
//!
//! Knows nothing of questions and pages. The app decides whether a submitted text is a task, a command or an answer.

use crate::approval::{self, Writing};
use crate::commands::Said;
use crate::completion::{Choice, Completion};
use crate::composer::{Composer, Prompt};
use crate::draft::Draft;
use crate::input::Effect;
use crate::transcript::pasted;
use crate::waiting::Waiting;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use becket_types::{Command, DeliveryMode, ImageSource, Part, PromptInput, TurnTerms};
use crossterm::event::KeyEvent;

/// The composer and what belongs to its text.
///
/// Invariant: an open completion fits the text at the cursor, once [`Self::settle`] was called.
#[derive(Default)]
pub(super) struct Editor {
    pub composer: Composer,
    pub completion: Completion,
    pub draft: Draft,
    pub waiting: Waiting,
    /// Shell commands the user ran, with output, that the model has not seen. They are sent with the next message.
    ran: Vec<Part>,
    /// The terms of the turn that the next message begins, set by a custom command.
    pub terms: TurnTerms,
}

impl Editor {
    /// Returns the facts about the composer that questions depend on.
    pub(super) fn writing(&self) -> Writing {
        let drafting = !self.composer.is_empty() || self.composer.is_searching();
        let consents = approval::means_an_answer(self.composer.raw());
        Writing { drafting, consents, takes_escape: self.composer.takes_escape(), reads_above: false }
    }

    /// Returns the meaning of a text that is neither a message for the model nor a command of becket.
    pub(super) fn meaning(&self) -> Option<&'static str> {
        let text = self.composer.raw();
        if !text.starts_with(['!', '#']) || self.composer.is_searching() {
            return None;
        }
        // A sign without text is judged as if a text followed it, so that the meaning is shown at once.
        let text = if text.trim().len() == 1 { format!("{text}x") } else { text.to_owned() };
        match Said::of(&Prompt { text, ..Prompt::default() }) {
            Said::Shell(_) => Some("shell command, runs at once"),
            Said::Memory(_) => Some("a line for AGENTS.md"),
            Said::Command(_) | Said::Task => None,
        }
    }

    /// Closes a completion whose text was replaced by another, such as a draft or a text from an editor.
    pub(super) fn settle(&mut self) {
        if !self.completion.is_for(self.composer.raw(), self.composer.cursor()) {
            self.completion.close();
        }
    }

    /// Pastes a text.
    pub(super) fn paste(&mut self, text: &str) -> Vec<Effect> {
        self.composer.paste(text);
        self.completion.close();
        self.draft.changed(self.composer.is_empty())
    }

    /// Pastes a text, or the image whose path it is.
    pub(super) fn attach(&mut self, text: &str, image: Option<(String, Vec<u8>)>) -> Vec<Effect> {
        match image {
            Some((media_type, bytes)) => self.composer.paste_image(media_type, bytes),
            None => self.composer.paste(text),
        }
        self.completion.close();
        self.draft.changed(self.composer.is_empty())
    }

    /// Puts the draft of an earlier run in front of text that was typed before it arrived.
    pub(super) fn restore(&mut self, text: &str) {
        self.draft.restored();
        self.composer.replace(0..0, text);
    }

    /// Puts a text into an empty composer, to be edited and sent again.
    pub(super) fn offer(&mut self, text: &str) -> Vec<Effect> {
        if self.composer.is_empty() {
            self.composer.set(text);
        }
        self.draft.changed(self.composer.is_empty())
    }

    /// Puts a queued message that the agent returned in front of the text. Returns `None` if the message is unknown.
    pub(super) fn withdrawn(&mut self, id: &str) -> Option<Vec<Effect>> {
        let text = self.waiting.withdrawn(id)?;
        let gap = if self.composer.is_empty() { "" } else { "\n" };
        self.composer.replace(0..0, &format!("{text}{gap}"));
        Some(self.draft.changed(self.composer.is_empty()))
    }

    /// Puts a command whose argument is missing back, with a list of choices where there is one.
    pub(super) fn ask_argument(&mut self, name: &str) -> Vec<Effect> {
        self.composer.set(&format!("/{name} "));
        self.complete_here()
    }

    pub(super) fn complete_here(&mut self) -> Vec<Effect> {
        self.completion.refresh(self.composer.raw(), self.composer.cursor())
    }

    /// Handles a key for the completion list. Returns `None` if no list is open or it does not use the key.
    pub(super) fn completion_key(&mut self, key: KeyEvent) -> Option<Completed> {
        if !self.completion.is_open() {
            return None;
        }
        match self.completion.key(key) {
            Choice::None => None,
            Choice::Moved => Some(Completed::Changed(Vec::new())),
            Choice::Put { range, text, run } => {
                self.composer.replace(range, &text);
                if run {
                    let mut prompt = self.composer.take();
                    prompt.text.truncate(prompt.text.trim_end().len());
                    return Some(Completed::Run(prompt));
                }
                let mut effects = self.draft.changed(self.composer.is_empty());
                effects.extend(self.complete_here());
                Some(Completed::Changed(effects))
            }
        }
    }

    /// Handles a change of the text by a key.
    pub(super) fn typed(&mut self) -> Vec<Effect> {
        let mut effects = self.draft.changed(self.composer.is_empty());
        if self.composer.is_browsing() || self.composer.is_searching() {
            self.completion.close();
        } else {
            effects.extend(self.complete_here());
        }
        effects
    }

    /// Saves the draft after the delay.
    pub(super) fn draft_due(&mut self) -> Vec<Effect> {
        self.draft.due(self.composer.text())
    }

    /// Discards the text.
    pub(super) fn clear(&mut self) -> Vec<Effect> {
        self.composer.clear();
        self.completion.close();
        self.draft.gone()
    }

    /// Keeps the result of the user's shell command for the model until the next message.
    pub(super) fn ran(&mut self, command: &str, output: &str) {
        let fence = "`".repeat(longest_run(output, '`').max(2) + 1);
        let text = format!("I ran `{command}`:\n{fence}\n{}\n{fence}", output.trim_end());
        self.ran.push(pasted::of_shell(text, command));
    }

    /// Sends a prompt to the agent. `working`: a turn runs, so the message waits until it is delivered.
    pub(super) fn send(&mut self, prompt: Prompt, mode: DeliveryMode, working: bool) -> Effect {
        let mut parts: Vec<Part> = std::mem::take(&mut self.ran);
        if !prompt.text.trim().is_empty() {
            parts.push(match &prompt.command {
                Some(command) => pasted::of_command(prompt.text.clone(), command),
                None => pasted::part(prompt.text.clone(), &prompt.pasted),
            });
        }
        for (media_type, bytes) in prompt.images {
            parts.push(Part::Image {
                media_type,
                source: ImageSource::Base64(STANDARD.encode(&bytes)),
                name: None,
                width: None,
                height: None,
                extra: serde_json::Map::new(),
            });
        }
        let written = prompt.command.as_ref().unwrap_or(&prompt.text);
        let client_id = working.then(|| self.waiting.put(written, mode));
        Effect::Send(Command::Prompt(PromptInput {
            parts,
            mode,
            client_id,
            terms: std::mem::take(&mut self.terms),
        }))
    }
}

/// Result of a key for the completion list.
pub(super) enum Completed {
    Changed(Vec<Effect>),
    /// The text is complete and shall be submitted.
    Run(Prompt),
}

/// Returns the length of the longest run of `c` in the text.
fn longest_run(text: &str, c: char) -> usize {
    text.split(|other| other != c).map(str::len).max().unwrap_or(0)
}

/// True if a pasted or dropped text may be the path of an image.
pub(super) fn names_image(text: &str) -> bool {
    let text = text.trim().trim_matches(['\'', '"']).to_ascii_lowercase();
    let path =
        text.starts_with('/') || text.starts_with("file://") || text.starts_with('~') || text.contains('/');
    path && text.len() < 4_096
        && !text.contains('\n')
        && [".png", ".jpg", ".jpeg", ".gif", ".webp"].iter().any(|end| text.ends_with(end))
}
