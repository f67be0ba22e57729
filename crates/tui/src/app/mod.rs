//! Joins the panes: routes each input to a pane and draws all of them.
//!
//! Holds no state of a pane and no agent logic. [`App::update`] turns an input into effects and is pure except for the
//! ids of new messages. [`App::draw`] depends on the state alone, so a list of inputs reproduces every screen.
//!
//! | module | what it is for |
//! |---|---|
//! | `keys` | routing of keys to panes |
//! | `act` | submitted texts |
//! | `draw` | layout of the panes, full screen and inline |
//! | `replies` | answers of the host |
//! | `compaction` | previews of a compaction; messages to bring back |
//! | `key` | another key for a provider |
//! | `past` | earlier parts of a continued session |
//! | `permissions` | rules that the user allowed and can withdraw |
//! | `undo` | undo, redo and rewind |

mod act;
mod compaction;
mod draw;
mod images;
mod key;
mod keys;
mod past;
mod permissions;
mod replies;
pub(crate) mod undo;

use crate::approval::{Approvals, Writing};
use crate::completion::Completion;
use crate::composer::Composer;
use crate::draft::Draft;
use crate::graphics::{Graphics, Protocol};
use crate::input::{Custom, Effect, Input, Request, Timer};
use crate::inspector::Inspector;
use crate::keymap::{Do, Keymap};
use crate::overlay::Overlay;
use crate::palette::Palette;
use crate::picker::Picker;
use crate::reading::{self, Reading};
use crate::status::Status;
use crate::theme::Theme;
use crate::todo::TodoPanel;
use crate::transcript::Transcript;
use crate::waiting::Waiting;
use crate::welcome::Welcome;
use becket_types::{CallId, Event, MessageId, Seq, Used};
use compaction::Preview;
use crossterm::event::{KeyEventKind, MouseEvent, MouseEventKind};
use std::path::PathBuf;

/// Preferences of the user for the interface.
#[derive(Clone, Debug)]
pub struct Preferences {
    pub theme: Theme,
    /// Themes that the user wrote.
    pub themes: Vec<Theme>,
    pub keymap: Keymap,
    pub vim: bool,
    /// The user configured a program for the status line.
    pub status_line: bool,
    /// The theme follows the terminal's background colour, once that is known.
    pub follow: bool,
    /// Protocol by which the terminal draws images, or still has to be asked.
    pub images: Option<Graphics>,
    /// The files that rules are written into: for every project, and for this project.
    pub rule_files: Option<(String, String)>,
    /// The user's home folder, which is shown as `~`.
    pub home: Option<PathBuf>,
}

impl Preferences {
    /// Returns default preferences with this theme.
    pub fn plain(theme: Theme) -> Self {
        Self {
            theme,
            themes: Vec::new(),
            keymap: Keymap::default(),
            vim: false,
            status_line: false,
            follow: false,
            images: None,
            rule_files: None,
            home: None,
        }
    }
}

/// State of the interface: the panes and what connects them.
pub struct App {
    theme: Theme,
    themes: Vec<Theme>,
    /// The theme follows the terminal's background colour.
    follow: bool,
    keymap: Keymap,
    columns: u16,
    /// `None`: the terminal draws no images, or has not answered yet.
    protocol: Option<Protocol>,
    /// Rows of the terminal in inline mode; `None` on a full screen.
    screen: Option<u16>,
    /// Rows of the transcript that an inline frame shows.
    live: u16,
    /// The terminal distinguishes Shift-Enter from Enter.
    reports_shift: bool,
    transcript: Transcript,
    reading: Reading,
    composer: Composer,
    waiting: Waiting,
    todo: TodoPanel,
    approvals: Approvals,
    status: Status,
    completion: Completion,
    palette: Option<Palette>,
    picker: Option<Picker>,
    inspector: Option<Inspector>,
    overlay: Option<Overlay>,
    /// The page on which the user enters a provider's key.
    key_page: Option<Welcome>,
    /// The compaction that is shown before it is applied.
    preview: Option<Preview>,
    draft: Draft,
    customs: Vec<Custom>,
    /// Earlier messages are on disk, so the transcript may evict them and read them again.
    on_disk: bool,
    /// The user's messages that are known so far, in order. Rewind offers them.
    said: Vec<(Seq, MessageId, String)>,
    /// Shell commands the user ran, with output, that the model has not seen. They are sent with the next message.
    ran: Vec<String>,
    /// Rules that hold until the session ends.
    grants: Vec<String>,
    /// The user agreed to the mode that skips permission questions.
    bypass_agreed: bool,
    /// The user renamed the session, and the confirmation is pending.
    renaming: bool,
    /// The window title that was sent last.
    title_shown: String,
    /// The first press of a key that acts on its second press.
    chord: Option<Twice>,
    /// Another window has the keyboard.
    unfocused: bool,
}

/// Keys that act when they are pressed twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Twice {
    /// Ctrl-C on an empty composer quits.
    Leave,
    /// Esc on an empty composer goes back to an earlier message.
    Rewind,
}

impl App {
    /// Creates an interface with default preferences.
    pub fn new(theme: Theme) -> Self {
        Self::with(Preferences::plain(theme))
    }

    /// Creates an interface with these preferences.
    pub fn with(preferences: Preferences) -> Self {
        let Preferences { theme, themes, keymap, vim, status_line, follow, images, rule_files, home } =
            preferences;
        let mut transcript = Transcript::new();
        transcript.set_images(images.map(|images| images.first));
        if let Some(chord) = keymap.chord(Do::Open) {
            transcript.set_open_key(chord);
        }
        let more = keymap.chord(Do::Status).map(|chord| crate::keymap::pretty(&chord));
        let mut composer = Composer::default();
        composer.set_vim(vim);
        Self {
            theme,
            themes,
            follow,
            keymap,
            columns: 80,
            protocol: images.and_then(|images| images.protocol),
            screen: None,
            live: 0,
            reports_shift: false,
            transcript,
            reading: Reading::default(),
            composer,
            waiting: Waiting::default(),
            todo: TodoPanel::default(),
            approvals: Approvals::default().with_files(rule_files),
            status: Status::default().scripted(status_line).with_key(more).with_home(home),
            completion: Completion::default(),
            palette: None,
            picker: None,
            inspector: None,
            overlay: None,
            key_page: None,
            preview: None,
            draft: Draft::default(),
            customs: Vec::new(),
            on_disk: false,
            said: Vec::new(),
            ran: Vec::new(),
            grants: Vec::new(),
            bypass_agreed: false,
            renaming: false,
            title_shown: String::new(),
            chord: None,
            unfocused: false,
        }
    }

    /// Starts with the session's usage so far. `on_disk`: the whole session is on disk and can be read again.
    pub fn begin_with(&mut self, used: Used, on_disk: bool) {
        self.status.begin_with(used);
        self.on_disk = on_disk;
    }

    /// Returns the approximate size of the transcript's content in bytes.
    pub fn held(&self) -> usize {
        self.transcript.weight()
    }

    /// Returns the queries that the terminal must answer at the start.
    pub fn begin(&self) -> Vec<Effect> {
        if self.follow { vec![Effect::AskBackground] } else { Vec::new() }
    }

    /// Applies one input and returns its effects. The screen may have changed afterwards.
    pub fn update(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = match input {
            Input::Key(key) if key.kind == KeyEventKind::Release => Vec::new(),
            Input::Key(key) => self.key(key),
            Input::Paste(text) => self.paste(&text),
            Input::Mouse(mouse) => self.mouse(mouse),
            Input::Resize { columns, .. } => {
                self.resized(columns);
                Vec::new()
            }
            Input::Draws(protocol) => {
                self.draws(protocol);
                Vec::new()
            }
            Input::Keyboard => {
                self.reports_shift = true;
                Vec::new()
            }
            Input::Focus(focused) => {
                self.unfocused = !focused;
                Vec::new()
            }
            Input::Background(r, g, b) => {
                if self.follow {
                    self.theme = self.theme.on((r, g, b));
                }
                Vec::new()
            }
            Input::Agent(event) => self.event(&event),
            Input::Reply(reply) => self.reply(reply),
            Input::Due(timer) => self.due(timer),
            Input::Suspend => vec![Effect::Suspend],
            Input::Terminate => vec![Effect::Quit],
            Input::Continued => Vec::new(),
        };
        let writing = self.writing();
        self.approvals.wrote(writing);
        if let Some(overlay) = &mut self.overlay {
            overlay.wrote(writing);
        }
        // Another text replaced the one being completed (a draft, or text from an editor).
        if !self.completion.is_for(self.composer.raw(), self.composer.cursor()) {
            self.completion.close();
        }
        // No desktop notification while the window has focus: the screen shows it.
        effects.retain(|effect| self.unfocused || !matches!(effect, Effect::Notify(_)));
        effects
    }

    /// Returns the facts about the composer that questions depend on.
    fn writing(&self) -> Writing {
        let drafting = !self.composer.is_empty() || self.composer.is_searching();
        Writing { drafting, takes_escape: self.composer.takes_escape() }
    }

    fn paste(&mut self, text: &str) -> Vec<Effect> {
        // A paste never answers a question. It stays in the composer.
        self.disturb();
        if let Some(page) = self.key_page.as_mut().filter(|_| !self.approvals.is_open()) {
            page.paste(text);
            return Vec::new();
        }
        if !self.approvals.is_open() && self.overlay.is_none() && self.inspector.is_none() {
            if let Some(picker) = &mut self.picker {
                picker.paste(text);
                return self.previewed();
            }
            if let Some(palette) = &mut self.palette {
                return palette.paste(text);
            }
        }
        if names_image(text) {
            return vec![Effect::Ask(Request::Attach { text: text.to_owned() })];
        }
        self.composer.paste(text);
        self.completion.close();
        self.draft.changed()
    }

    /// Records typing that answers no question, so the time in which a question must be read starts again.
    fn disturb(&mut self) {
        self.approvals.disturb();
        self.overlay.iter_mut().for_each(Overlay::disturb);
    }

    fn event(&mut self, event: &Event) -> Vec<Effect> {
        let mut effects = self.status.event(event);
        self.transcript.event(event);
        self.todo.event(event);
        match event {
            Event::Subagent { call_id, what } => effects.extend(self.approvals_of(Some(call_id), what)),
            Event::PermissionAsked(_)
            | Event::ToolStarted { .. }
            | Event::PermissionDenied(_)
            | Event::ToolFinished { .. } => effects.extend(self.approvals_of(None, event)),
            Event::UserMessage { client_id, .. } => {
                if let Some(id) = client_id {
                    self.waiting.delivered(id);
                }
                self.remember_said(event);
            }
            Event::CompactionPlanned(plan) => effects.extend(self.show_compaction((**plan).clone())),
            Event::UndoPlanned(plan) => self.planned(plan),
            Event::UndoDone(outcome) => {
                self.overlay = None;
                effects.extend(self.undone(outcome));
            }
            Event::ContextPlanned(plan) => match &mut self.inspector {
                Some(inspector) => inspector.planned((**plan).clone()),
                None => self.confirm_change(plan),
            },
            Event::ContextChanged { text } => {
                if let Some(inspector) = &mut self.inspector {
                    effects.extend(inspector.changed(text));
                }
            }
            Event::Notice { text, .. } => {
                if let Some(inspector) = &mut self.inspector {
                    inspector.say(text);
                }
            }
            Event::ModelChosen { .. } => self.completion.forget_models(),
            Event::Grants { rules } => self.grants.clone_from(rules),
            Event::Withdrawn { client_id } => effects.extend(self.withdrawn(client_id)),
            Event::TurnFinished(_) => {
                self.approvals.end_turn();
                if self.on_disk {
                    self.transcript.let_go();
                }
                effects.push(Effect::Notify("the turn is over".to_owned()));
            }
            Event::SessionStarted { cwd, .. } => {
                self.approvals.set_workspace(cwd.display().to_string());
                effects.push(self.retitle());
            }
            Event::Renamed { title } => {
                effects.push(self.retitle());
                // A session also gets a title from its first message, which the user did not request.
                if std::mem::take(&mut self.renaming) {
                    effects.extend(self.status.toast(format!("This session is now called {title}.")));
                }
            }
            _ => {}
        }
        effects
    }

    /// Opens and closes permission questions as events report them. `subagent`: the call whose subagent sent the event.
    fn approvals_of(&mut self, subagent: Option<&CallId>, event: &Event) -> Vec<Effect> {
        let settled = match event {
            Event::PermissionAsked(request) => {
                return self.approvals.ask(subagent.cloned(), (**request).clone());
            }
            Event::ToolStarted { call_id, .. } => Some(call_id),
            Event::PermissionDenied(denial) => Some(&denial.call_id),
            Event::ToolFinished { message, .. } => message.result_of(),
            _ => None,
        };
        if let Some(call) = settled {
            self.approvals.settled(subagent, call);
        }
        Vec::new()
    }

    /// Returns the window title: a mark for working or waiting, the session, the folder.
    fn title(&self) -> String {
        let mark = match (self.approvals.is_open(), self.status.is_working()) {
            (true, _) => "? ",
            (false, true) => "◐ ",
            (false, false) => "",
        };
        format!("{mark}{}", self.status.title())
    }

    fn retitle(&mut self) -> Effect {
        self.title_shown = self.title();
        Effect::Title(self.title_shown.clone())
    }

    /// Handles a queued message that the agent returned. Its text goes in front of the text in the composer.
    fn withdrawn(&mut self, id: &str) -> Vec<Effect> {
        let Some(text) = self.waiting.withdrawn(id) else { return Vec::new() };
        let gap = if self.composer.is_empty() { "" } else { "\n" };
        self.composer.replace(0..0, &format!("{text}{gap}"));
        self.approvals.text_from_before();
        self.draft.changed()
    }

    fn due(&mut self, timer: Timer) -> Vec<Effect> {
        match timer {
            Timer::Clock => return self.status.tick(),
            Timer::Jobs => return vec![Effect::Ask(Request::Jobs)],
            Timer::Chord => self.chord = None,
            Timer::Arm => self.approvals.arm(self.writing()),
            Timer::Page => {
                let writing = self.writing();
                self.overlay.iter_mut().for_each(|overlay| overlay.arm(writing));
                self.inspector.iter_mut().for_each(Inspector::arm);
                self.key_page.iter_mut().for_each(Welcome::arm);
            }
            Timer::Toast => self.status.end_toast(),
            Timer::Draft => return self.draft.due(self.composer.text()),
            Timer::StatusLine => return self.status.script_due(self.composer.vim()),
        }
        Vec::new()
    }

    fn mouse(&mut self, mouse: MouseEvent) -> Vec<Effect> {
        let lines = match mouse.kind {
            MouseEventKind::ScrollUp => -3,
            MouseEventKind::ScrollDown => 3,
            _ => 0,
        };
        match (&mut self.overlay, &mut self.picker) {
            _ if self.approvals.is_open() => self.approvals.scroll(lines),
            _ if self.key_page.is_some() => {
                self.key_page.iter_mut().for_each(|page| page.scroll(lines));
            }
            (None, _) if self.inspector.is_some() => {
                self.inspector.iter_mut().for_each(|inspector| inspector.go(lines));
            }
            (Some(overlay), _) => overlay.scroll(lines, &self.theme),
            (None, Some(picker)) => picker.scroll(lines),
            (None, None) => {
                let outcome = self.reading.mouse(mouse, &mut self.transcript, &self.theme);
                return self.read(outcome);
            }
        }
        Vec::new()
    }

    fn read(&mut self, outcome: reading::Outcome) -> Vec<Effect> {
        match outcome {
            reading::Outcome::None => Vec::new(),
            reading::Outcome::Say(what) => self.status.toast(what.to_owned()),
            reading::Outcome::BringBack => self.choose_folded(),
            reading::Outcome::Copy(text) => {
                let lines = text.lines().count();
                let mut effects = vec![Effect::Copy(text)];
                effects.extend(
                    self.status.toast(format!("copied {lines} line{}", if lines == 1 { "" } else { "s" })),
                );
                effects
            }
        }
    }

    /// Requests the preview that the picker needs.
    fn previewed(&mut self) -> Vec<Effect> {
        let Some(picker) = &mut self.picker else { return Vec::new() };
        let mut effects: Vec<Effect> =
            picker.asks().map(|words| Effect::Ask(Request::Saying { words })).into_iter().collect();
        let Some(wanted) = picker.wants().map(str::to_owned) else { return effects };
        match picker.kind() {
            crate::picker::Kind::Session => {
                effects.push(Effect::Ask(Request::Preview { session: wanted }));
                effects
            }
            crate::picker::Kind::Folded => {
                let Ok(seq) = wanted.parse().map(Seq) else { return effects };
                match self.transcript.said_in(seq) {
                    Some(said) => picker.set_preview(wanted, said),
                    None => effects.push(Effect::Ask(Request::Message { seq })),
                }
                effects
            }
            crate::picker::Kind::Message => {
                let said = self.said.iter().find(|(_, id, _)| id.to_string() == wanted);
                picker.set_preview(wanted, said.map(|(_, _, text)| text.clone()).unwrap_or_default());
                Vec::new()
            }
        }
    }
}

/// True if a pasted or dropped text may be the path of an image.
fn names_image(text: &str) -> bool {
    let text = text.trim().trim_matches(['\'', '"']).to_ascii_lowercase();
    let path =
        text.starts_with('/') || text.starts_with("file://") || text.starts_with('~') || text.contains('/');
    path && text.len() < 4_096
        && !text.contains('\n')
        && [".png", ".jpg", ".jpeg", ".gif", ".webp"].iter().any(|end| text.ends_with(end))
}
