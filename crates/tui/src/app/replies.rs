//! Answers of the host: pages, lists of choices, and content that the transcript or the inspector shows.
//!
//! Owns no state. Each answer goes to the pane that requested it.

use super::{App, actions, pages};
use crate::composer::Prompt;
use crate::input::{Effect, Reply, To};
use crate::keymap::Do;
use crate::menu::Item;
use crate::picker::{Kind, Row};
use crate::transcript::block::Weight;
use crate::transcript::compaction::LossReport;
use becket_types::{DeliveryMode, Seq};
use serde_json::Value;

pub(super) fn reply(app: &mut App, reply: Reply) -> Vec<Effect> {
    match reply {
        Reply::Edited(text) => return edited(app, text),
        Reply::History(prompts) => app.editor.composer.set_history(prompts),
        Reply::Draft(text) => app.editor.restore(&text),
        Reply::Image(Ok((media_type, bytes))) => app.editor.composer.paste_image(media_type, bytes),
        Reply::Image(Err(why)) => return app.status.toast(why),
        Reply::Attached { text, image } => return app.editor.attach(&text, image),
        Reply::Page(Ok(page)) => {
            app.status.end_toast();
            let open_key = app.keyboard.keymap.chord(Do::Open);
            app.pages.overlay =
                Some(app.permissions.page(page, &app.transcript.paths(), open_key.as_deref()));
        }
        Reply::Page(Err(why)) | Reply::Done(Err(why)) | Reply::Found(Err(why)) => {
            instead(app, Weight::Error, why);
        }
        Reply::Done(Ok(done)) => instead(app, Weight::Quiet, done),
        Reply::Found(Ok(session)) => return actions::switch(app, To::Session(session)),
        Reply::Ran { command, output, failed, details } => {
            ran(app, &command, &output, failed, &details);
        }
        Reply::Prompt { command, text, terms } => {
            app.pages.overlay = None;
            app.editor.terms = terms;
            return actions::send(app, Prompt::of_command(&command, text), DeliveryMode::Steer);
        }
        Reply::Branch(branch) => app.status.set_branch(branch),
        Reply::Jobs(jobs) => return app.status.set_jobs(jobs),
        Reply::StatusLine(lines) => app.status.set_script(lines),
        Reply::ServerAsks(question) => return vec![app.pages.servers.ask(*question)],
        Reply::ServerAskOver(number) if app.pages.servers.gave_up(number) => {
            app.note(Weight::Quiet, "The MCP server no longer waits for an answer.".to_owned());
        }
        Reply::ServerAskOver(_) => {}
        Reply::Keys(Ok(accounts)) => app.pages.offer_keys(&accounts),
        Reply::Keys(Err(why)) => app.note(Weight::Error, why),
        Reply::LoginCode { provider, code } => return pages::login_code(app, provider, code),
        Reply::KeyKept { provider, result } => return pages::key_kept(app, &provider, result),
        list @ (Reply::Files { .. }
        | Reply::Models(_)
        | Reply::CustomCommands(_)
        | Reply::Sessions(_)
        | Reply::Preview { .. }
        | Reply::Saying { .. }) => return listed(app, list),
        content @ (Reply::Highlighted
        | Reply::Past { .. }
        | Reply::Said(_)
        | Reply::Removed { .. }
        | Reply::Message { .. }
        | Reply::Picture { .. }
        | Reply::Loss { .. }
        | Reply::Inspected { .. }) => return shown(app, content),
    }
    Vec::new()
}

/// Shows a line from the host instead of the page that requested it.
fn instead(app: &mut App, weight: Weight, text: String) {
    app.pages.overlay = None;
    app.note(weight, text);
}

/// Handles answers that fill a list of choices.
fn listed(app: &mut App, reply: Reply) -> Vec<Effect> {
    match reply {
        Reply::Files { query, paths, cut } => {
            app.editor.completion.files(&query, &paths);
            if let Some(listed) = cut {
                let text = format!("more than {listed} files are here; only the first {listed} are offered");
                return app.status.toast(text);
            }
        }
        Reply::Models(models) => {
            let models = app.status.model_first(models);
            if let Some(palette) = &mut app.pages.palette {
                palette.models(models.clone());
            }
            app.editor.completion.models(models);
        }
        Reply::CustomCommands(customs) => {
            if let Some(palette) = &mut app.pages.palette {
                palette.customs(customs.clone());
            }
            app.editor.completion.customs(customs);
        }
        Reply::Sessions(found) => return sessions(app, found),
        Reply::Preview { session, text } => {
            if let Some(picker) = &mut app.pages.picker {
                picker.set_preview(session, text);
            }
        }
        Reply::Saying { words, sessions } => {
            if let Some(picker) = &mut app.pages.picker {
                picker.said(&words, &sessions);
            }
            return app.previewed();
        }
        _ => {}
    }
    Vec::new()
}

/// Handles answers that the transcript and the inspector show.
fn shown(app: &mut App, reply: Reply) -> Vec<Effect> {
    match reply {
        Reply::Past { from, to, result } => {
            let (transcript, theme) = (&mut app.transcript, &app.look.theme);
            return app.messages.arrived((from, to), result, transcript, theme);
        }
        Reply::Removed { entry, removed: gone } => return removed(app, entry, gone),
        Reply::Message { seq, text } => {
            if let Some(picker) = &mut app.pages.picker {
                picker.set_preview(seq.to_string(), text);
            }
        }
        Reply::Said(said) => {
            app.messages.complete(said);
            let rows = app.messages.rows();
            if let Some(picker) = app.pages.picker_of(Kind::Message) {
                picker.set_rows(rows);
            }
            return app.previewed();
        }
        Reply::Picture { number, scaled } => {
            return app.window.picture(number, scaled, &mut app.transcript);
        }
        Reply::Loss { entry, result } => {
            let known = result.map_or_else(LossReport::Not, |loss| LossReport::Loss(Box::new(loss)));
            app.transcript.loss_is(entry, known);
        }
        Reply::Inspected { asked, result } => {
            if let Some(inspector) = &mut app.pages.inspector {
                return inspector.answered(asked, result);
            }
        }
        // The highlighting was stored in the code block already, and the pending frame shows it.
        _ => {}
    }
    Vec::new()
}

/// Handles the messages that compactions removed from the context, for the list or for the block of `entry`.
fn removed(app: &mut App, entry: Option<Seq>, gone: Vec<(Seq, String)>) -> Vec<Effect> {
    let asks = app.pages.picker_of(Kind::Removed).is_some();
    let effects = if asks { actions::choose_removed(app, &gone) } else { Vec::new() };
    if let Some(entry) = entry {
        app.transcript.set_removed(entry, gone);
    }
    effects
}

/// Handles the text from the editor: a summary, or else text for the composer.
fn edited(app: &mut App, text: Result<String, String>) -> Vec<Effect> {
    match app.pages.summary_edited(text) {
        Ok(effects) => effects,
        Err(Ok(text)) => {
            app.editor.composer.set(text.trim_end_matches('\n'));
            app.editor.draft.changed(app.editor.composer.is_empty())
        }
        Err(Err(why)) => app.status.toast(why),
    }
}

fn sessions(app: &mut App, sessions: Vec<(String, String)>) -> Vec<Effect> {
    if let Some(palette) = &mut app.pages.palette {
        palette.sessions(sessions.clone());
    }
    if let Some(picker) = app.pages.picker_of(Kind::Session) {
        let row = |(id, about): &(String, String)| Row {
            id: id.clone(),
            item: Item { name: about.clone(), detail: id.clone() },
        };
        picker.set_rows(sessions.iter().map(row).collect());
    }
    app.editor.completion.sessions(sessions);
    app.previewed()
}

/// Smallest output in bytes whose size is shown before it goes to the model.
const LARGE: usize = 8_000;

/// Handles the end of the user's shell command: shows it now, and keeps it for the model until the next message.
fn ran(app: &mut App, command: &str, output: &str, failed: bool, details: &Value) {
    app.status.set_command(None);
    app.transcript.shell(command, output, failed, details);
    app.editor.ran(command, output);
    if output.len() >= LARGE {
        let cut = if output.lines().any(|line| line.starts_with("[cut: ")) { ", cut" } else { "" };
        // Four bytes a token are the usual estimate.
        let (size, tokens) = (output.len().div_ceil(1_000), output.len() / 4_000);
        let text = format!(
            "This output ({size} kB{cut}, about {tokens},000 tokens) goes to the model with your next message."
        );
        app.note(Weight::Quiet, text);
    }
}
