//! Keys and texts while a question is open: a permission in the transcript, or a page that asks.
//!
//! Owns no state. The rules that keep typing from answering are in [`crate::answers`]; this module gives the composer what is
//! not for the question.

use super::permissions::marked;
use super::{App, actions};
use crate::approval;
use crate::commands::Said;
use crate::composer::{Outcome as Wrote, Prompt};
use crate::input::{Effect, Request};
use crate::keymap::Do;
use crate::overlay::Overlay;
use becket_types::DeliveryMode;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Handles a key while a question is open. Keys that answer go to the question, keys that show more of its subject do
/// that, and all other keys go to the composer.
pub(super) fn asked_key(app: &mut App, key: KeyEvent, action: Option<Do>) -> Vec<Effect> {
    let read = app.approvals.is_read();
    match action {
        Some(Do::End) => return app.perform(Do::End),
        Some(action @ (Do::EarlierMessage | Do::LaterMessage | Do::Open | Do::Hidden | Do::Status)) => {
            return app.perform(action);
        }
        Some(page @ (Do::PageUp | Do::PageDown)) => {
            let pages = if page == Do::PageUp { -1 } else { 1 };
            // The reason for the question may have scrolled out of view.
            return if app.approvals.scroll_pages(pages) { Vec::new() } else { app.perform(page) };
        }
        // Both keys do nothing: the palette would open under the question, and changing the mode does not answer it.
        Some(Do::Palette | Do::NextMode) => return Vec::new(),
        Some(action @ (Do::Editor | Do::PasteImage)) => {
            app.approvals.disturb();
            let mut effects = write_digits(app);
            effects.extend(app.perform(action));
            return effects;
        }
        Some(Do::Suspend) | None => {}
    }
    if key.code == KeyCode::Up && key.modifiers == KeyModifiers::ALT {
        app.approvals.look_above();
        app.transcript.move_focus(true, &app.look.theme);
        return Vec::new();
    }
    // Keys meant for a page that the question covers must not become a message.
    if !read && app.pages.is_open() {
        app.approvals.disturb();
        return Vec::new();
    }
    let focused = app.approvals.is_focused();
    if !focused
        && (app.editor.composer.is_searching()
            || key.code == KeyCode::Esc && app.editor.composer.takes_escape())
    {
        app.approvals.disturb();
        return app.composer_key(key);
    }
    // Up takes back the message that waits, as the line of that message says.
    if key.code == KeyCode::Up && !focused && app.editor.waiting.last().is_some() {
        return app.writing_key(key);
    }
    match app.approvals.key(key, app.writing()) {
        approval::Outcome::Done(effects) => marked(effects, &mut app.transcript),
        // Esc was meant for the screen as it was before the question.
        approval::Outcome::Text if key.code == KeyCode::Esc && !read => app.editor.waiting.interrupted(),
        approval::Outcome::Text if matches!(key.code, KeyCode::Esc | KeyCode::Tab) => Vec::new(),
        approval::Outcome::Text => {
            let mut effects = write_digits(app);
            effects.extend(app.writing_key(key));
            effects
        }
    }
}

/// Gives the composer the digits that marked an answer, now that a text follows them.
pub(super) fn write_digits(app: &mut App) -> Vec<Effect> {
    let digits = if app.approvals.is_open() { app.approvals.take_typed() } else { app.pages.take_typed() };
    let press = |digit| app.composer_key(KeyEvent::new(KeyCode::Char(digit), KeyModifiers::NONE));
    digits.chars().flat_map(press).collect()
}

/// Handles a text that was sent while a question is open. It is the reason for a refusal, unless it was begun
/// before the question was read.
pub(super) fn reply_to_question(app: &mut App, prompt: Prompt) -> Vec<Effect> {
    if !app.approvals.takes_reason() || !matches!(Said::of(&prompt), Said::Task) {
        return actions::submit(app, prompt, DeliveryMode::Steer);
    }
    let reason = prompt.text.trim().to_owned();
    if prompt.images.is_empty() && approval::means_an_answer(&reason) {
        let text = "The question is still open: Tab, then Enter, answers; other words refuse";
        app.editor.composer.set(&prompt.text);
        return app.status.toast(text.to_owned());
    }
    let mut effects = app.editor.draft.gone();
    effects.push(Effect::Ask(Request::Remember(prompt.past())));
    effects.extend(app.approvals.refuse(Some(reason).filter(|reason| !reason.is_empty())));
    // A reason cannot carry images, so they are sent as a message.
    if !prompt.images.is_empty() {
        effects.extend(actions::send(app, prompt, DeliveryMode::Steer));
    }
    effects
}

/// Handles typing while a page asks. A text that is sent refuses, unless it was begun before the page was read.
pub(super) fn beside_page(app: &mut App, key: KeyEvent) -> Vec<Effect> {
    let closes = app.pages.overlay.as_ref().is_some_and(Overlay::takes_reply);
    let mut effects = write_digits(app);
    match app.editor.composer.key(key) {
        Wrote::Submit(prompt) => {
            effects.extend(if closes { app.page_answered(None) } else { Vec::new() });
            effects.extend(actions::submit(app, prompt, DeliveryMode::Steer));
        }
        _ => effects.extend(app.editor.draft.changed(app.editor.composer.is_empty())),
    }
    effects
}
