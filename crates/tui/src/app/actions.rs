//! Submitted texts and commands of the interface, and their effects: a task for the agent, a shell command of the user, a line for
//! AGENTS.md, a page, or a choice in a list.
//!
//! Owns no state. `keys` and `asked` decide that a text was submitted.

use super::App;
use super::pages::compaction::bring_back;
use super::undo;
use crate::commands::{self, Action, Said};
use crate::composer::Prompt;
use crate::input::{Effect, Keep, Request, To};
use crate::inspector::Inspector;
use crate::picker::{Kind, Picker};
use crate::transcript::Removed;
use crate::transcript::block::Weight;
use becket_types::{Command, DeliveryMode, PermissionMode, Seq};

pub(super) fn submit(app: &mut App, prompt: Prompt, mode: DeliveryMode) -> Vec<Effect> {
    let mut effects = app.editor.draft.gone();
    let more = match Said::of(&prompt) {
        Said::Command(Ok(action)) if app.approvals.is_open() && action.opens_page() => app.pages.hold(prompt),
        Said::Command(Ok(action)) => act(app, action),
        Said::Command(Err(why)) => ask_argument(app, &prompt.text, why),
        Said::Shell(_) if app.status.command().is_some() => {
            app.editor.composer.set(&prompt.text);
            app.status.toast("one command at a time; Esc stops the one that runs".to_owned())
        }
        Said::Shell(command) => {
            app.status.set_command(Some(command.clone()));
            app.transcript.scroll_to_end();
            vec![Effect::Ask(Request::Shell { command }), Effect::Ask(Request::Remember(prompt.past()))]
        }
        Said::Memory(text) => vec![Effect::Ask(Request::Memorize { text })],
        Said::Task => {
            let remember = Effect::Ask(Request::Remember(prompt.past()));
            let mut effects = send(app, prompt, mode);
            effects.push(remember);
            effects
        }
    };
    effects.extend(more);
    effects
}

/// Reports that a command cannot run as it was written. If only its argument is missing, the command is put back
/// into the composer, with a list of choices where there is one. Any other command is reported by a line in the
/// transcript.
pub(super) fn ask_argument(app: &mut App, text: &str, why: String) -> Vec<Effect> {
    let name = text.trim().trim_start_matches('/');
    if !commands::needs_argument(name) {
        // The command is not put back into the composer, because the next message would be typed after it.
        app.note(Weight::Warning, why);
        return Vec::new();
    }
    let mut effects = app.status.toast(why);
    effects.extend(app.editor.ask_argument(name));
    effects
}

pub(super) fn act(app: &mut App, action: Action) -> Vec<Effect> {
    match action {
        Action::Quit => return vec![Effect::Quit],
        Action::Send(command) => {
            if matches!(command, Command::Rename { .. }) {
                app.status.rename_sent();
            }
            return vec![Effect::Send(command)];
        }
        Action::Key => return vec![Effect::Ask(Request::Keys)],
        // The status line shows the model once the agent has accepted it.
        Action::Model(model) => return vec![Effect::Send(Command::SetModel { model })],
        Action::Mode(mode) => return set_mode(app, mode),
        Action::Help => {
            let shift = Some(app.window.reports_shift);
            let sheet = commands::help(app.editor.completion.known_customs(), shift);
            app.pages.open_sheet("help", sheet);
            return want_customs(app);
        }
        Action::Keys => app.pages.open_sheet("keys", app.keyboard.keymap.page()),
        Action::Vim => {
            let on = app.editor.composer.vim().is_none();
            app.editor.composer.set_vim(on);
            let said = if on { "Vim's keys are on: Esc goes to normal mode" } else { "Vim's keys are off" };
            let mut effects = app.status.toast(said.to_owned());
            effects.push(Effect::Ask(Request::Keep(Keep::Vim(on))));
            return effects;
        }
        Action::Theme(name) => {
            return app.look.choose(&name).unwrap_or_else(|names| app.status.toast(names));
        }
        Action::CopyAnswer => return copy_answer(app),
        Action::Switch(to) => return switch(app, to),
        Action::Sessions(query) => return vec![app.choose_session(&query)],
        Action::Rewind => return choose_message(app),
        Action::Removed => return ask_for_removed(app),
        Action::Inspect(request) => {
            let (inspector, effects) = Inspector::open(request);
            app.pages.inspector = Some(inspector);
            return effects;
        }
        Action::Memorize(text) => return vec![Effect::Ask(Request::Memorize { text })],
        Action::Task(text) => {
            return send(app, Prompt::of_command("/init", text.to_owned()), DeliveryMode::Steer);
        }
        // The host does not know the state of the interface, so the request carries the facts that the page needs.
        Action::Page(page) => {
            // A page that asks other programs or servers takes a while.
            let mut effects = app.status.toast("One moment: the page is being made.".to_owned());
            effects.push(Effect::Ask(Request::Page(app.status.fill_in(page))));
            return effects;
        }
        Action::Resume(session) => return vec![Effect::Ask(Request::Resume { session })],
        Action::Export { format, file } => return vec![Effect::Ask(Request::Export { format, file })],
        Action::StopJob(job) => return vec![Effect::Ask(Request::StopJob { job })],
        Action::Custom { name, arguments } => {
            return vec![Effect::Ask(Request::Custom { name, arguments })];
        }
    }
    Vec::new()
}

pub(super) fn want_customs(app: &App) -> Vec<Effect> {
    if app.editor.completion.known_customs().is_empty() {
        vec![Effect::Ask(Request::CustomCommands)]
    } else {
        Vec::new()
    }
}

/// Changes the permission mode. The first change to the mode that skips questions asks for confirmation.
pub(super) fn set_mode(app: &mut App, mode: PermissionMode) -> Vec<Effect> {
    if let Some(page) = app.permissions.confirmation(mode, app.status.mode()) {
        app.pages.overlay = Some(page);
        return Vec::new();
    }
    let mode = mode.to_string();
    let mut effects = app.status.set_mode(&mode);
    effects.push(Effect::Send(Command::SetMode { mode }));
    effects
}

fn copy_answer(app: &mut App) -> Vec<Effect> {
    match app.transcript.last_answer() {
        Some(answer) => {
            let mut effects = vec![Effect::Copy(answer.to_owned())];
            effects.extend(app.status.toast("the last answer is in the clipboard".to_owned()));
            effects
        }
        None => app.status.toast("there is no answer to copy yet".to_owned()),
    }
}

/// Switches to another session, only while nothing runs: switching must not end the agent's work as a side effect.
pub(super) fn switch(app: &mut App, to: To) -> Vec<Effect> {
    if app.status.is_working() || app.status.command().is_some() {
        return app.status.toast("wait until it finishes, or stop it with Esc".to_owned());
    }
    vec![Effect::Switch(to)]
}

/// Opens the list of the user's messages.
pub(super) fn choose_message(app: &mut App) -> Vec<Effect> {
    if app.status.is_working() {
        return app.status.toast("wait until it finishes, or stop it with Esc".to_owned());
    }
    if app.transcript.has_gaps() {
        app.pages.pick(Kind::Message, "");
        return vec![Effect::Ask(Request::Said)];
    }
    if app.messages.is_empty() {
        return app.status.toast("there is no message to go back to yet".to_owned());
    }
    app.pages.picker = Some(Picker::new(Kind::Message, "", Some(app.messages.rows())));
    app.previewed()
}

/// Opens the list of the messages that compactions removed, or that the compaction with the focus removed.
pub(super) fn ask_for_removed(app: &mut App) -> Vec<Effect> {
    if app.status.is_working() {
        return app.status.toast("wait until it finishes, or stop it with Esc".to_owned());
    }
    match app.transcript.removed() {
        Removed::Here(removed) => choose_removed(app, &removed),
        Removed::Ask(entry) => {
            app.transcript.end_focus();
            app.pages.pick(Kind::Removed, "");
            vec![Effect::Ask(Request::Removed { entry })]
        }
    }
}

pub(super) fn choose_removed(app: &mut App, removed: &[(Seq, String)]) -> Vec<Effect> {
    if let Err(none) = app.pages.choose_removed(removed) {
        return app.status.toast(none);
    }
    app.transcript.end_focus();
    app.previewed()
}

pub(super) fn picked(app: &mut App, kind: Kind, id: &str) -> Vec<Effect> {
    match kind {
        Kind::Session => vec![Effect::Ask(Request::Resume { session: id.to_owned() })],
        Kind::Message => {
            if let Some((to, text)) = app.messages.find(id) {
                app.pages.overlay = Some(undo::rewind(to, text, &app.messages.since(&to)));
            }
            Vec::new()
        }
        Kind::Removed => bring_back(id),
    }
}

pub(super) fn send(app: &mut App, prompt: Prompt, mode: DeliveryMode) -> Vec<Effect> {
    app.transcript.scroll_to_end();
    let mut effects = vec![app.editor.send(prompt, mode, app.status.is_working())];
    effects.extend(app.status.sent());
    effects
}
