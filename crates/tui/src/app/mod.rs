//! Joins the panes: routes each input to a pane and draws all of them.
//!
//! Holds no state of a pane and no agent logic. [`App::update`] turns an input into effects and is pure except for the
//! ids of new messages. [`App::draw`] depends on the state alone, so a list of inputs reproduces every screen.
//!
//! | module | what it is for |
//! |---|---|
//! | `keys`, `asked`, `actions` | keys to panes; keys and texts while a question is open; submitted texts and commands |
//! | `draw` | layout of the panes, full screen and inline |
//! | `editor` | the user's text, and messages that were not delivered yet |
//! | `pages` | pages and lists over the transcript: compactions, keys of providers |
//! | `messages` | the user's messages; earlier parts of a continued session |
//! | `permissions` | rules that the user allowed and can withdraw; the permission mode |
//! | `replies` | answers of the host |
//! | `window`, `look` | the terminal's window and its images; the theme |
//! | `undo` | undo, redo and rewind |

mod actions;
mod asked;
mod draw;
mod editor;
mod keys;
mod look;
mod messages;
mod pages;
mod permissions;
mod preferences;
mod replies;
pub(crate) mod undo;
mod window;

pub use preferences::Preferences;

use crate::approval::{Approvals, Writing};
use crate::input::{Effect, Input, Request, Stretch, Timer};
use crate::keymap::{Do, Keymap, pretty};
use crate::picker::Kind;
use crate::reading::{self, Reading};
use crate::status::Status;
use crate::theme::Theme;
use crate::todo::TodoPanel;
use crate::transcript::Transcript;
use crate::transcript::block::Weight;
use becket_types::{CallId, DeliveryMode, Event, UndoOutcome, Used};
use crossterm::event::{KeyEventKind, MouseEvent, MouseEventKind};
use editor::Editor;
use look::Look;
use messages::Messages;
use pages::{Pages, settles_call};
use permissions::Permissions;
use window::Window;

/// State of the interface: the panes and what connects them. Each pane owns its own state; the app routes inputs to them
/// and passes on what one of them needs from another.
pub struct App {
    look: Look,
    window: Window,
    keyboard: Keyboard,
    transcript: Transcript,
    reading: Reading,
    editor: Editor,
    todo: TodoPanel,
    approvals: Approvals,
    status: Status,
    pages: Pages,
    messages: Messages,
    permissions: Permissions,
}

/// The global key bindings, and the first press of a key that acts on its second press.
struct Keyboard {
    keymap: Keymap,
    chord: Option<Twice>,
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
        let Preferences { theme, themes, keymap, vim, status_line, follow, images, rule_files, .. } =
            preferences;
        let (home, workspace) = (preferences.home, preferences.workspace);
        let mut transcript = Transcript::new();
        transcript.set_images(images.map(|images| images.first));
        transcript.set_view(keymap.chord(Do::Open), home.clone(), &workspace);
        let keys = [Do::Status, Do::Palette].map(|action| keymap.chord(action).map(|chord| pretty(&chord)));
        let mut editor = Editor::default();
        editor.composer.set_vim(vim);
        Self {
            look: Look::new(theme, themes, follow),
            window: Window::new(images.and_then(|images| images.protocol)),
            keyboard: Keyboard { keymap, chord: None },
            transcript,
            reading: Reading::default(),
            editor,
            todo: TodoPanel::default(),
            approvals: Approvals::new(home.as_deref(), rule_files),
            status: Status::default().scripted(status_line).with_keys(keys).with_home(home),
            pages: Pages::default(),
            messages: Messages::default(),
            permissions: Permissions::default(),
        }
    }

    /// Starts with the session's usage so far. `on_disk`: the whole session is on disk and can be read again.
    pub fn begin_with(&mut self, used: Used, on_disk: bool) {
        self.status.begin_with(used);
        self.messages.on_disk = on_disk;
    }

    /// Opens the list of sessions, filtered by `query`.
    pub(crate) fn choose_session(&mut self, query: &str) -> Effect {
        self.pages.pick(Kind::Session, query);
        Effect::Ask(Request::Sessions)
    }

    /// Returns the approximate size of the transcript's content in bytes.
    pub fn held(&self) -> usize {
        self.transcript.weight()
    }

    /// Returns the queries that the terminal must answer at the start.
    pub fn begin(&self) -> Vec<Effect> {
        self.look.begin()
    }

    /// Shows the end of the earlier messages.
    pub fn show_end(&mut self, end: &Stretch) {
        self.transcript.show_end(end);
        self.messages.remember_all(end);
    }

    /// Requests an image again that the terminal should draw and no longer holds.
    pub fn missing_image(&self, number: u32) -> Option<Effect> {
        self.window.missing_image(number, &self.transcript)
    }

    /// Forgets which images the terminal holds, after the terminal discarded them.
    pub fn forget_images(&mut self) {
        self.transcript.forget_images();
    }

    /// Applies one input and returns its effects. The screen may have changed afterwards.
    pub fn update(&mut self, input: Input) -> Vec<Effect> {
        let settles = matches!(&input, Input::Agent(event) if settles_call(event));
        let mut effects = match input {
            Input::Key(key) if key.kind == KeyEventKind::Release => Vec::new(),
            Input::Key(key) => self.key(key),
            Input::Paste(text) => self.paste(&text),
            Input::Mouse(mouse) => self.mouse(mouse),
            Input::Resize { columns, .. } => {
                self.window.resized(columns, &mut self.transcript);
                Vec::new()
            }
            Input::Draws(protocol) => {
                self.window.draws(protocol);
                Vec::new()
            }
            Input::Keyboard => {
                self.window.reports_shift = true;
                Vec::new()
            }
            Input::Focus(focused) => {
                self.window.unfocused = !focused;
                Vec::new()
            }
            Input::Background(r, g, b) => {
                self.look.background((r, g, b));
                Vec::new()
            }
            Input::Agent(event) => self.event(&event),
            Input::Reply(reply) => replies::reply(self, reply),
            Input::Due(timer) => self.due(timer),
            Input::Suspend => vec![Effect::Suspend],
            Input::Terminate => vec![Effect::Quit],
            Input::Continued => Vec::new(),
        };
        if let Some(command) = self.pages.held.take_if(|_| settles && !self.approvals.is_open()) {
            effects.extend(actions::submit(self, command, DeliveryMode::Steer));
        }
        let writing = self.writing();
        self.approvals.wrote(writing);
        self.pages.wrote(writing);
        self.editor.settle();
        // No desktop notification while the window has focus: the screen shows it.
        effects.retain(|effect| self.window.unfocused || !matches!(effect, Effect::Notify(_)));
        effects
    }

    fn paste(&mut self, text: &str) -> Vec<Effect> {
        // A paste never answers a question. It stays in the composer.
        self.approvals.pasted();
        self.pages.pasted();
        if !self.approvals.is_open() {
            if self.pages.servers.paste(text) {
                return Vec::new();
            }
            if let Some(open) = &mut self.pages.key_page {
                open.page.paste(text);
                return Vec::new();
            }
            if self.pages.overlay.is_none() && self.pages.inspector.is_none() {
                if let Some(picker) = &mut self.pages.picker {
                    picker.paste(text);
                    return self.previewed();
                }
                if let Some(palette) = &mut self.pages.palette {
                    return palette.paste(text);
                }
            }
        }
        let mut effects = asked::write_digits(self);
        effects.extend(if editor::names_image(text) {
            vec![Effect::Ask(Request::Attach { text: text.to_owned() })]
        } else {
            self.editor.paste(text)
        });
        effects
    }

    fn event(&mut self, event: &Event) -> Vec<Effect> {
        let mut effects = self.status.event(event);
        if let Some(mode) = self.permissions.event(event) {
            self.transcript.mode_note(mode);
        }
        self.transcript.set_beat(self.status.beat());
        self.transcript.event(event);
        self.todo.event(event);
        match event {
            Event::Subagent { call_id, what } => effects.extend(self.approvals_of(Some(call_id), what)),
            Event::PermissionAsked(_)
            | Event::ToolStarted { .. }
            | Event::PermissionDenied(_)
            | Event::ToolFinished { .. } => {
                self.messages.remember(event);
                effects.extend(self.approvals_of(None, event));
            }
            Event::UserMessage { client_id, .. } => {
                if let Some(id) = client_id {
                    self.editor.waiting.delivered(id);
                }
                self.messages.remember(event);
            }
            Event::CompactionPlanned(plan) => effects.push(self.pages.show_compaction((**plan).clone())),
            Event::UndoPlanned(plan) => match undo::question(plan, self.status.folder_of_session()) {
                Ok(page) => self.pages.overlay = Some(page),
                Err(why) => self.note(Weight::Quiet, why),
            },
            Event::UndoDone(outcome) => {
                self.pages.overlay = None;
                effects.extend(self.undone(outcome));
            }
            Event::ContextPlanned(plan) => match &mut self.pages.inspector {
                Some(inspector) => inspector.planned((**plan).clone()),
                None => self.pages.overlay = Some(undo::context_question(plan)),
            },
            Event::ContextChanged { text } => {
                if let Some(inspector) = &mut self.pages.inspector {
                    effects.extend(inspector.changed(text));
                }
            }
            Event::Notice { text, .. } => {
                if let Some(inspector) = &mut self.pages.inspector {
                    inspector.say(text);
                }
            }
            Event::ModelChosen { .. } => self.editor.completion.forget_models(),
            Event::Withdrawn { client_id } => effects.extend(self.withdrawn(client_id)),
            Event::TurnFinished(_) => {
                self.approvals.end_turn();
                self.pages.servers.settled(None);
                if self.messages.on_disk {
                    self.transcript.let_go();
                }
                effects.push(Effect::Notify("the turn is over".to_owned()));
            }
            Event::SessionStarted { cwd, .. } => {
                self.approvals.set_workspace(cwd);
                effects.push(self.retitle());
            }
            Event::Renamed { .. } => effects.push(self.retitle()),
            _ => {}
        }
        effects
    }

    /// Opens and closes permission questions as events report them. `subagent`: the call whose subagent sent the event.
    fn approvals_of(&mut self, subagent: Option<&CallId>, event: &Event) -> Vec<Effect> {
        let settled = match event {
            Event::PermissionAsked(request) => {
                if let Some(asked) = self.pages.servers.ask_for(subagent, request) {
                    return vec![asked];
                }
                return self.approvals.ask(subagent.cloned(), (**request).clone());
            }
            Event::ToolStarted { call_id, .. } => Some(call_id),
            Event::PermissionDenied(denial) => Some(&denial.call_id),
            Event::ToolFinished { message, .. } => message.result_of(),
            _ => None,
        };
        if let Some(call) = settled {
            self.approvals.settled(subagent, call);
            if subagent.is_none() {
                self.pages.servers.settled(Some(call));
            }
        }
        Vec::new()
    }

    /// Handles a queued message that the agent returned. Its text goes in front of the text in the composer.
    fn withdrawn(&mut self, id: &str) -> Vec<Effect> {
        let Some(effects) = self.editor.withdrawn(id) else { return Vec::new() };
        self.approvals.text_from_before();
        effects
    }

    /// Reports the result of an undo. The message that the conversation was rewound to goes back into the composer, to be
    /// edited and sent again.
    fn undone(&mut self, outcome: &UndoOutcome) -> Vec<Effect> {
        let back = outcome.conversation.as_ref().and_then(|back| self.messages.take_back(&back.to));
        let effects = back.map_or_else(Vec::new, |text| self.editor.offer(&text));
        let weight = if outcome.failed.is_empty() { Weight::Quiet } else { Weight::Warning };
        self.note(weight, undo::outcome_text(outcome, self.status.folder_of_session()));
        effects
    }

    /// Adds a line by the interface itself to the transcript.
    fn note(&mut self, weight: Weight, text: String) {
        self.transcript.note(weight, &text);
    }

    /// Returns the state of the composer, and if a block above has the keyboard, on which an open question depends.
    fn writing(&self) -> Writing {
        Writing { reads_above: self.reading.is_open(&self.transcript), ..self.editor.writing() }
    }

    fn due(&mut self, timer: Timer) -> Vec<Effect> {
        match timer {
            Timer::Clock => {
                let effects = self.status.tick();
                self.transcript.tick(self.status.beat());
                return effects;
            }
            Timer::Jobs => return vec![Effect::Ask(Request::Jobs)],
            Timer::Chord => self.keyboard.chord = None,
            Timer::Arm => self.approvals.arm(self.writing()),
            Timer::Page => self.pages.arm(self.editor.writing()),
            Timer::Toast => self.status.end_toast(),
            Timer::Draft => return self.editor.draft_due(),
            Timer::StatusLine => return self.status.script_due(self.editor.composer.vim()),
        }
        Vec::new()
    }

    fn mouse(&mut self, mouse: MouseEvent) -> Vec<Effect> {
        let lines = match mouse.kind {
            MouseEventKind::ScrollUp => -3,
            MouseEventKind::ScrollDown => 3,
            _ => 0,
        };
        let taken = self.approvals.is_open() && (lines == 0 || self.approvals.scroll(lines));
        if !taken && !self.pages.scroll(lines, &self.look.theme) {
            let outcome = self.reading.mouse(mouse, &mut self.transcript, &self.look.theme);
            return self.read(outcome);
        }
        Vec::new()
    }

    fn read(&mut self, outcome: reading::Outcome) -> Vec<Effect> {
        match outcome {
            reading::Outcome::None => Vec::new(),
            reading::Outcome::Say(what) => self.status.toast(what.to_owned()),
            reading::Outcome::BringBack => actions::ask_for_removed(self),
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

    /// Requests the preview that the list needs.
    fn previewed(&mut self) -> Vec<Effect> {
        self.pages.previewed(&self.transcript, &self.messages)
    }
}
