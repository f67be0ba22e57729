//! Answers of the host: pages, lists of choices, and content that the transcript or the inspector shows.
//!
//! Owns no state. Each answer goes to the pane that requested it.

use super::{App, actions};
use crate::composer::Prompt;
use crate::input::{Effect, Reply, To};
use crate::menu::Item;
use crate::picker::{Kind, Row};
use crate::transcript::block::Weight;
use crate::transcript::compaction::LossReport;
use becket_types::{Command, DeliveryMode, Seq};
use serde_json::Value;

impl App {
    pub(super) fn reply(&mut self, reply: Reply) -> Vec<Effect> {
        match reply {
            Reply::Edited(text) => return self.edited(text),
            Reply::History(prompts) => self.editor.composer.set_history(prompts),
            Reply::Draft(text) => self.editor.restore(&text),
            Reply::Image(Ok((media_type, bytes))) => self.editor.composer.paste_image(media_type, bytes),
            Reply::Image(Err(why)) => return self.status.toast(why),
            Reply::Attached { text, image } => return self.editor.attach(&text, image),
            Reply::Page(Ok(page)) => {
                self.status.end_toast();
                self.pages.overlay = Some(self.permissions.page(page, &self.transcript.paths()));
            }
            Reply::Page(Err(why)) | Reply::Done(Err(why)) | Reply::Found(Err(why)) => {
                self.instead(Weight::Error, why);
            }
            Reply::Done(Ok(done)) => self.instead(Weight::Quiet, done),
            Reply::Found(Ok(session)) => return actions::switch(self, To::Session(session)),
            Reply::Ran { command, output, failed, details } => {
                self.ran(&command, &output, failed, &details);
            }
            Reply::Prompt { command, text, terms } => {
                self.pages.overlay = None;
                self.editor.terms = terms;
                return actions::send(self, Prompt::of_command(&command, text), DeliveryMode::Steer);
            }
            Reply::Branch(branch) => self.status.set_branch(branch),
            Reply::Jobs(jobs) => return self.status.set_jobs(jobs),
            Reply::StatusLine(lines) => self.status.set_script(lines),
            Reply::ServerAsks(question) => return vec![self.pages.servers.ask(*question)],
            Reply::ServerAskOver(number) if self.pages.servers.gave_up(number) => {
                self.note(Weight::Quiet, "The MCP server no longer waits for an answer.".to_owned());
            }
            Reply::ServerAskOver(_) => {}
            Reply::Keys(Ok(providers)) => self.pages.offer_keys(&providers),
            Reply::Keys(Err(why)) => self.note(Weight::Error, why),
            Reply::KeyKept { provider, result } => return self.key_kept(&provider, result),
            listed @ (Reply::Files { .. }
            | Reply::Models(_)
            | Reply::CustomCommands(_)
            | Reply::Sessions(_)
            | Reply::Preview { .. }
            | Reply::Saying { .. }) => return self.listed(listed),
            shown @ (Reply::Highlighted
            | Reply::Past { .. }
            | Reply::Said(_)
            | Reply::Folded { .. }
            | Reply::Message { .. }
            | Reply::Picture { .. }
            | Reply::Loss { .. }
            | Reply::Inspected { .. }) => return self.shown(shown),
        }
        Vec::new()
    }

    /// Shows a line from the host instead of the page that requested it.
    fn instead(&mut self, weight: Weight, text: String) {
        self.pages.overlay = None;
        self.note(weight, text);
    }

    /// Handles answers that fill a list of choices.
    fn listed(&mut self, reply: Reply) -> Vec<Effect> {
        match reply {
            Reply::Files { query, paths, cut } => {
                self.editor.completion.files(&query, &paths);
                if let Some(listed) = cut {
                    let text =
                        format!("more than {listed} files are here; only the first {listed} are offered");
                    return self.status.toast(text);
                }
            }
            Reply::Models(models) => {
                let models = self.status.model_first(models);
                if let Some(palette) = &mut self.pages.palette {
                    palette.models(models.clone());
                }
                self.editor.completion.models(models);
            }
            Reply::CustomCommands(customs) => {
                if let Some(palette) = &mut self.pages.palette {
                    palette.customs(customs.clone());
                }
                self.editor.completion.customs(customs);
            }
            Reply::Sessions(sessions) => return self.sessions(sessions),
            Reply::Preview { session, text } => {
                if let Some(picker) = &mut self.pages.picker {
                    picker.set_preview(session, text);
                }
            }
            Reply::Saying { words, sessions } => {
                if let Some(picker) = &mut self.pages.picker {
                    picker.said(&words, &sessions);
                }
                return self.previewed();
            }
            _ => {}
        }
        Vec::new()
    }

    /// Handles answers that the transcript and the inspector show.
    fn shown(&mut self, reply: Reply) -> Vec<Effect> {
        match reply {
            Reply::Past { from, to, result } => {
                let (transcript, theme) = (&mut self.transcript, &self.look.theme);
                return self.messages.arrived((from, to), result, transcript, theme);
            }
            Reply::Folded { entry, folded } => return self.removed(entry, folded),
            Reply::Message { seq, text } => {
                if let Some(picker) = &mut self.pages.picker {
                    picker.set_preview(seq.to_string(), text);
                }
            }
            Reply::Said(said) => {
                self.messages.complete(said);
                let rows = self.messages.rows();
                if let Some(picker) = self.pages.picker_of(Kind::Message) {
                    picker.set_rows(rows);
                }
                return self.previewed();
            }
            Reply::Picture { number, scaled } => {
                return self.window.picture(number, scaled, &mut self.transcript);
            }
            Reply::Loss { entry, result } => {
                let known = result.map_or_else(LossReport::Not, |loss| LossReport::Loss(Box::new(loss)));
                self.transcript.loss_is(entry, known);
            }
            Reply::Inspected { asked, result } => {
                if let Some(inspector) = &mut self.pages.inspector {
                    return inspector.answered(asked, result);
                }
            }
            // The highlighting was stored in the code block already, and the pending frame shows it.
            _ => {}
        }
        Vec::new()
    }

    /// Handles the messages that compactions removed from the context, for the list or for the block of `entry`.
    fn removed(&mut self, entry: Option<Seq>, folded: Vec<(Seq, String)>) -> Vec<Effect> {
        let asks = self.pages.picker_of(Kind::Folded).is_some();
        let effects = if asks { actions::choose_removed(self, &folded) } else { Vec::new() };
        if let Some(entry) = entry {
            self.transcript.folded_is(entry, folded);
        }
        effects
    }

    /// Handles the text from the editor: a summary, or else text for the composer.
    fn edited(&mut self, text: Result<String, String>) -> Vec<Effect> {
        match self.pages.summary_edited(text) {
            Ok(effects) => effects,
            Err(Ok(text)) => {
                self.editor.composer.set(text.trim_end_matches('\n'));
                self.editor.draft.changed(self.editor.composer.is_empty())
            }
            Err(Err(why)) => self.status.toast(why),
        }
    }

    /// Reports the result, and opens the current model again if it uses the new key.
    fn key_kept(&mut self, provider: &str, result: Result<String, String>) -> Vec<Effect> {
        self.status.end_toast();
        let said = match result {
            Ok(said) => said,
            Err(why) => {
                self.note(Weight::Error, why);
                return Vec::new();
            }
        };
        self.note(Weight::Quiet, said);
        self.editor.completion.forget_models();
        let model = self.status.model();
        if model.split_once('/').is_some_and(|(of, _)| of == provider) {
            return vec![Effect::Send(Command::SetModel { model: model.to_owned() })];
        }
        Vec::new()
    }

    fn sessions(&mut self, sessions: Vec<(String, String)>) -> Vec<Effect> {
        if let Some(palette) = &mut self.pages.palette {
            palette.sessions(sessions.clone());
        }
        if let Some(picker) = self.pages.picker_of(Kind::Session) {
            let row = |(id, about): &(String, String)| Row {
                id: id.clone(),
                item: Item { name: about.clone(), detail: id.clone() },
            };
            picker.set_rows(sessions.iter().map(row).collect());
        }
        self.editor.completion.sessions(sessions);
        self.previewed()
    }

    /// Handles the end of the user's shell command: shows it now, and keeps it for the model until the next message.
    fn ran(&mut self, command: &str, output: &str, failed: bool, details: &Value) {
        self.status.set_command(None);
        self.transcript.shell(command, output, failed, details);
        self.editor.ran(command, output);
    }
}
