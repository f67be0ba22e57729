//! Pages, lists and lines that have the keyboard instead of the composer.
//!
//! Routes a paste, the mouse wheel and the timer of pages to the one that is open. The app routes keys, because a choice
//! has effects on other panes. `compaction`, `key` and `server` add the pages with a state of their own.

pub(super) mod compaction;
mod key;
mod server;

use super::messages::Messages;
use crate::approval::Writing;
use crate::composer::Prompt;
use crate::input::{Effect, Page, Request};
use crate::inspector::Inspector;
use crate::overlay::{Choice, Overlay};
use crate::page::Sheet;
use crate::palette::Palette;
use crate::picker::{Kind, Picker};
use crate::text;
use crate::theme::Theme;
use crate::transcript::Transcript;
use becket_types::{Event, Seq};
use compaction::Preview;
use key::KeyPage;
pub(super) use key::{Entered, key_kept, login_code};
use ratatui::text::Line;
use server::ServerQuestions;

/// Pages, lists and lines that are open over the transcript. Questions of servers have the keyboard first, then the
/// first of the other fields that is set.
///
/// Invariant: while `preview` is set, `overlay` shows it or its summary is open in the editor.
#[derive(Default)]
pub(super) struct Pages {
    /// The page on which the user enters a provider's key, or logs in.
    pub key_page: Option<KeyPage>,
    pub overlay: Option<Overlay>,
    pub inspector: Option<Inspector>,
    pub picker: Option<Picker>,
    pub palette: Option<Palette>,
    /// The compaction that is shown before it is applied.
    preview: Option<Preview>,
    /// Questions of MCP servers. They come before any other page.
    pub servers: ServerQuestions,
    /// A command that opens a page, given while a question covers the screen. It runs once the question is answered
    /// and the call has ended, so that the page shows what came of it.
    pub held: Option<Prompt>,
}

impl Pages {
    /// True if a page, a list or the palette has the keyboard.
    pub(super) fn is_open(&self) -> bool {
        self.is_full() || self.palette.is_some()
    }

    /// Lets a command wait that opens a page.
    pub(super) fn hold(&mut self, command: Prompt) -> Vec<Effect> {
        self.held = Some(command);
        Vec::new()
    }

    /// Returns the line about a page that waits for the end of a call.
    pub(super) fn held_line(&self, width: u16, theme: &Theme) -> Option<Line<'static>> {
        let command = text::visible(self.held.as_ref()?.text.trim()).into_owned();
        let line = format!("◷ {command} opens after this call");
        Some(Line::styled(text::fit(&line, usize::from(width)).into_owned(), theme.dim))
    }

    /// True while the page of a compaction is open, or its summary in the editor.
    pub(super) fn shows_compaction(&self) -> bool {
        self.preview.is_some()
    }

    /// Closes the page, and the compaction that it shows.
    pub(super) fn close_page(&mut self) {
        (self.overlay, self.preview) = (None, None);
    }

    /// True if a page or a list covers the transcript.
    pub(super) fn is_full(&self) -> bool {
        self.servers.is_open()
            || self.overlay.is_some()
            || self.key_page.is_some()
            || self.inspector.is_some()
            || self.picker.is_some()
    }

    /// Opens a page with this content.
    pub(super) fn open_sheet(&mut self, title: &str, sheet: Sheet) {
        let page = Page { title: title.to_owned(), sheet: Some(sheet), ..Page::default() };
        self.overlay = Some(Overlay::new(page));
    }

    /// Opens a list of choices that the host fills.
    pub(super) fn pick(&mut self, kind: Kind, query: &str) {
        self.picker = Some(Picker::new(kind, query, None));
    }

    /// Returns the open list, if it is of this kind.
    pub(super) fn picker_of(&mut self, kind: Kind) -> Option<&mut Picker> {
        self.picker.as_mut().filter(|picker| picker.kind() == kind)
    }

    /// Returns digits that marked an answer of the open page and turn out to be the beginning of a text.
    #[must_use]
    pub(super) fn take_typed(&mut self) -> String {
        if self.servers.is_open() {
            return self.servers.take_typed();
        }
        self.overlay.as_mut().map(Overlay::take_typed).unwrap_or_default()
    }

    /// Records a paste into the composer, which answers no page.
    pub(super) fn pasted(&mut self) {
        self.overlay.iter_mut().for_each(Overlay::pasted);
        self.inspector.iter_mut().for_each(Inspector::pasted);
    }

    /// Records the state of the composer, which decides if a page may be answered.
    pub(super) fn wrote(&mut self, writing: Writing) {
        self.overlay.iter_mut().for_each(|overlay| overlay.wrote(writing));
        self.servers.wrote(writing);
    }

    /// Allows the open page to be answered, because it was on the screen for long enough to be read.
    pub(super) fn arm(&mut self, writing: Writing) {
        if self.servers.arm(writing) {
            return;
        }
        self.overlay.iter_mut().for_each(|overlay| overlay.arm(writing));
        self.inspector.iter_mut().for_each(Inspector::arm);
        self.key_page.iter_mut().for_each(|open| open.page.arm());
    }

    /// Handles the mouse wheel. Returns false if the transcript has to handle it.
    pub(super) fn scroll(&mut self, lines: isize, theme: &Theme) -> bool {
        if self.servers.scroll(lines) {
            return true;
        }
        if let Some(open) = &mut self.key_page {
            open.page.scroll(lines);
        } else if let Some(overlay) = &mut self.overlay {
            overlay.scroll(lines, theme);
        } else if let Some(inspector) = &mut self.inspector {
            inspector.go(lines);
        } else if let Some(picker) = &mut self.picker {
            picker.scroll(lines);
        } else {
            return false;
        }
        true
    }

    /// Requests the preview of the entry at the cursor of the open list, if it is missing.
    pub(super) fn previewed(&mut self, transcript: &Transcript, messages: &Messages) -> Vec<Effect> {
        let Some(picker) = &mut self.picker else { return Vec::new() };
        let mut effects: Vec<Effect> =
            picker.asks().map(|words| Effect::Ask(Request::Saying { words })).into_iter().collect();
        let Some(wanted) = picker.wants().map(str::to_owned) else { return effects };
        match picker.kind() {
            Kind::Session => {
                effects.push(Effect::Ask(Request::Preview { session: wanted }));
                effects
            }
            Kind::Removed => {
                let Ok(seq) = wanted.parse().map(Seq) else { return effects };
                match transcript.said_in(seq) {
                    Some(said) => picker.set_preview(wanted, said),
                    None => effects.push(Effect::Ask(Request::Message { seq })),
                }
                effects
            }
            Kind::Message => {
                let text = messages.find(&wanted).map(|(_, text)| text.to_owned());
                picker.set_preview(wanted, text.unwrap_or_default());
                Vec::new()
            }
        }
    }
}

/// Returns a page with this text and these answers.
pub(super) fn question(title: &str, markdown: String, choices: Vec<Choice>) -> Overlay {
    Overlay::choosing(Page { title: title.to_owned(), markdown, ..Page::default() }, choices)
}

/// True if a call has ended, so that a page shows what came of it.
pub(super) fn settles_call(event: &Event) -> bool {
    match event {
        Event::Subagent { what, .. } => settles_call(what),
        Event::ToolFinished { .. } | Event::PermissionDenied(_) | Event::TurnFinished(_) => true,
        _ => false,
    }
}
