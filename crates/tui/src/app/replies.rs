//! Answers of the host, passed to the panes that show them.

use super::App;
use crate::composer::Prompt;
use crate::input::{Effect, Reply, To};
use crate::menu::Item;
use crate::overlay::Overlay;
use crate::picker::{Kind, Row};
use crate::transcript::block::Weight;
use becket_types::DeliveryMode;

impl App {
    pub(super) fn reply(&mut self, reply: Reply) -> Vec<Effect> {
        match reply {
            Reply::Edited(text) => return self.edited(text),
            Reply::History(prompts) => self.composer.set_history(prompts),
            // Text that was typed before the draft arrived stays after it.
            Reply::Draft(text) => {
                self.draft.restored();
                self.composer.replace(0..0, &text);
            }
            Reply::Image(Ok((media_type, bytes))) => self.composer.paste_image(media_type, bytes),
            Reply::Image(Err(why)) => return self.status.toast(why),
            Reply::Attached { text, image } => {
                match image {
                    Some((media_type, bytes)) => self.composer.paste_image(media_type, bytes),
                    None => self.composer.paste(&text),
                }
                self.completion.close();
                return self.draft.changed();
            }
            Reply::Page { name, result: Ok(page) } if name == "permissions" => self.show_permissions(page),
            Reply::Page { result: Ok(page), .. } => self.overlay = Some(Overlay::new(page)),
            Reply::Page { result: Err(why), .. } | Reply::Done(Err(why)) | Reply::Found(Err(why)) => {
                self.instead(Weight::Error, why);
            }
            Reply::Done(Ok(done)) => self.instead(Weight::Quiet, done),
            Reply::Found(Ok(session)) => return self.switch(To::Session(session)),
            Reply::Ran { command, output, failed } => self.ran(&command, &output, failed),
            Reply::Prompt(text) => {
                self.overlay = None;
                return self.send(Prompt { text, ..Prompt::default() }, DeliveryMode::Steer);
            }
            Reply::Branch(branch) => self.status.set_branch(branch),
            Reply::Jobs(jobs) => return self.status.set_jobs(jobs),
            Reply::StatusLine(lines) => self.status.set_script(lines),
            Reply::Keys(result) => return self.offer_keys(result),
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
        self.overlay = None;
        self.note(weight, text);
    }

    /// Handles answers that fill a list of choices.
    fn listed(&mut self, reply: Reply) -> Vec<Effect> {
        match reply {
            Reply::Files { query, paths, cut } => {
                self.completion.files(&query, &paths);
                if let Some(listed) = cut {
                    let text =
                        format!("more than {listed} files are here; only the first {listed} are offered");
                    return self.status.toast(text);
                }
            }
            Reply::Models(models) => {
                let models = self.status.model_first(models);
                if let Some(palette) = &mut self.palette {
                    palette.models(models.clone());
                }
                self.completion.models(models);
            }
            Reply::CustomCommands(customs) => {
                if let Some(palette) = &mut self.palette {
                    palette.customs(customs.clone());
                }
                self.completion.customs(customs.clone());
                self.customs = customs;
            }
            Reply::Sessions(sessions) => return self.sessions(sessions),
            Reply::Preview { session, text } => {
                if let Some(picker) = &mut self.picker {
                    picker.set_preview(session, text);
                }
            }
            Reply::Saying { words, sessions } => {
                if let Some(picker) = &mut self.picker {
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
            Reply::Past { from, to, result } => return self.past(from, to, result),
            Reply::Folded { entry, folded } => return self.all_folded(entry, folded),
            Reply::Message { seq, text } => {
                if let Some(picker) = &mut self.picker {
                    picker.set_preview(seq.to_string(), text);
                }
            }
            Reply::Said(said) => return self.all_said(said),
            Reply::Picture { number, scaled } => return self.picture(number, scaled),
            Reply::Loss { entry, result } => self.lost(entry, result),
            Reply::Inspected { asked, result } => {
                if let Some(inspector) = &mut self.inspector {
                    return inspector.answered(asked, result);
                }
            }
            // The highlighting was stored in the code block already, and the pending frame shows it.
            _ => {}
        }
        Vec::new()
    }

    fn sessions(&mut self, sessions: Vec<(String, String)>) -> Vec<Effect> {
        if let Some(palette) = &mut self.palette {
            palette.sessions(sessions.clone());
        }
        if let Some(picker) = self.picker.as_mut().filter(|p| p.kind() == Kind::Session) {
            let row = |(id, about): &(String, String)| Row {
                id: id.clone(),
                item: Item { name: about.clone(), detail: id.clone() },
            };
            picker.set_rows(sessions.iter().map(row).collect());
        }
        self.completion.sessions(sessions);
        self.previewed()
    }

    /// Handles the end of the user's shell command: shows it now, and keeps it for the model until the next message.
    fn ran(&mut self, command: &str, output: &str, failed: bool) {
        self.status.set_command(None);
        let weight = if failed { Weight::Warning } else { Weight::Quiet };
        self.note(weight, format!("$ {command}\n{output}"));
        let fence = "`".repeat(longest_run(output, '`').max(2) + 1);
        self.ran.push(format!("I ran `{command}`:\n{fence}\n{}\n{fence}", output.trim_end()));
    }
}

/// Returns the length of the longest run of `c` in the text.
fn longest_run(text: &str, c: char) -> usize {
    text.split(|other| other != c).map(str::len).max().unwrap_or(0)
}
