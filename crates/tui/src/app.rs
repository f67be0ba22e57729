//! The panes together: which one gets an input, and where each is drawn.
//!
//! Holds no state of a pane and no agent logic. [`App::update`] is pure: inputs in, effects out; [`App::draw`] depends on the
//! state alone, so every screen can be had from a list of inputs.

use crate::approval::Approvals;
use crate::commands::{self, Action, Said};
use crate::completion::{Choice, Completion};
use crate::composer::{Composer, Outcome, Prompt};
use crate::draft::Draft;
use crate::input::{Effect, Input, Reply, Request, Timer};
use crate::overlay::Overlay;
use crate::palette::{self, Palette};
use crate::status::Status;
use crate::theme::Theme;
use crate::transcript::Transcript;
use crate::transcript::block::Weight;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use becket_types::{Command, DeliveryMode, Event, ImageSource, Part, PromptInput};
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseEvent, MouseEventKind};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use std::ops::Range;

/// Rows that the composer takes at most, in parts of the screen's height.
const COMPOSER_SHARE: u16 = 3;

pub struct App {
    theme: Theme,
    columns: u16,
    transcript: Transcript,
    composer: Composer,
    approvals: Approvals,
    status: Status,
    completion: Completion,
    palette: Option<Palette>,
    overlay: Option<Overlay>,
    draft: Draft,
    /// What the person ran and the model does not know yet; goes with their next message.
    ran: Vec<String>,
    /// Ctrl-C was pressed on an empty composer: once more quits.
    leaving: bool,
}

impl App {
    pub fn new(theme: Theme) -> Self {
        Self {
            theme,
            columns: 80,
            transcript: Transcript::new(),
            composer: Composer::default(),
            approvals: Approvals::default(),
            status: Status::default(),
            completion: Completion::default(),
            palette: None,
            overlay: None,
            draft: Draft::default(),
            ran: Vec::new(),
            leaving: false,
        }
    }

    /// Takes in one input. What is on the screen may be another afterwards.
    pub fn update(&mut self, input: Input) -> Vec<Effect> {
        match input {
            Input::Key(key) if key.kind == KeyEventKind::Release => Vec::new(),
            Input::Key(key) => self.key(key),
            Input::Paste(text) => self.paste(&text),
            Input::Mouse(mouse) => self.mouse(mouse),
            Input::Resize { columns, .. } => {
                self.columns = columns;
                Vec::new()
            }
            Input::Focus(_) => Vec::new(),
            Input::Agent(event) => self.event(&event),
            Input::Reply(reply) => self.reply(reply),
            Input::Due(timer) => self.due(timer),
            Input::Terminate => vec![Effect::Quit],
        }
    }

    fn paste(&mut self, text: &str) -> Vec<Effect> {
        // A paste never answers a question; it waits in the composer.
        if !self.approvals.is_open()
            && self.overlay.is_none()
            && let Some(palette) = &mut self.palette
        {
            return palette.paste(text);
        }
        self.composer.paste(text);
        self.completion.close();
        self.draft.changed()
    }

    fn event(&mut self, event: &Event) -> Vec<Effect> {
        let mut effects = self.status.event(event);
        self.transcript.event(event);
        match event {
            Event::PermissionAsked(request) => effects.extend(self.approvals.ask((**request).clone())),
            Event::ToolStarted { call_id, .. } => self.approvals.settled(call_id),
            Event::PermissionDenied(denial) => self.approvals.settled(&denial.call_id),
            Event::ToolFinished { message, .. } => {
                if let Some(call) = message.result_of() {
                    self.approvals.settled(call);
                }
            }
            Event::TurnFinished(_) => {
                self.approvals.clear();
                effects.push(Effect::Notify("the turn is over".to_owned()));
            }
            Event::SessionStarted { title, .. } => {
                effects.push(Effect::Title(title.clone().unwrap_or_else(|| "becket".to_owned())));
            }
            _ => {}
        }
        effects
    }

    fn due(&mut self, timer: Timer) -> Vec<Effect> {
        match timer {
            Timer::Clock => return self.status.tick(),
            Timer::Chord => self.leaving = false,
            Timer::Arm => self.approvals.arm(),
            Timer::Toast => self.status.end_toast(),
            Timer::Draft => return self.draft.due(self.composer.text()),
        }
        Vec::new()
    }

    fn reply(&mut self, reply: Reply) -> Vec<Effect> {
        match reply {
            Reply::Edited(Ok(text)) => {
                self.composer.set(text.trim_end_matches('\n'));
                return self.draft.changed();
            }
            Reply::Edited(Err(why)) => return self.status.toast(why),
            Reply::History(prompts) => self.composer.set_history(prompts),
            // What was typed meanwhile stands behind it.
            Reply::Draft(text) => {
                self.draft.restored();
                self.composer.replace(0..0, &text);
            }
            Reply::Image(Ok((media_type, bytes))) => self.composer.paste_image(media_type, bytes),
            Reply::Page { result: Ok(page), .. } => self.overlay = Some(Overlay::new(page)),
            Reply::Image(Err(why)) => return self.status.toast(why),
            Reply::Page { result: Err(why), .. } | Reply::Done(Err(why)) => {
                self.overlay = None;
                self.transcript.note(Weight::Error, why);
            }
            Reply::Done(Ok(said)) => {
                self.overlay = None;
                self.transcript.note(Weight::Quiet, said);
            }
            Reply::Files { query, paths } => self.completion.files(&query, &paths),
            Reply::Models(models) => {
                if let Some(palette) = &mut self.palette {
                    palette.models(models.clone());
                }
                self.completion.models(models);
            }
            Reply::Sessions(sessions) => {
                if let Some(palette) = &mut self.palette {
                    palette.sessions(sessions.clone());
                }
                self.completion.sessions(sessions);
            }
            Reply::Found(Ok(session)) => return self.switch(Some(session)),
            Reply::Found(Err(why)) => self.transcript.note(Weight::Error, why),
            Reply::Ran { command, output, failed } => self.ran(&command, &output, failed),
        }
        Vec::new()
    }

    fn mouse(&mut self, mouse: MouseEvent) -> Vec<Effect> {
        let lines = match mouse.kind {
            MouseEventKind::ScrollUp => -3,
            MouseEventKind::ScrollDown => 3,
            _ => return Vec::new(),
        };
        match &mut self.overlay {
            Some(overlay) if !self.approvals.is_open() => overlay.scroll(lines, &self.theme),
            _ => self.transcript.scroll(lines, &self.theme),
        }
        Vec::new()
    }

    fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let leaving = std::mem::take(&mut self.leaving);
        match key.code {
            KeyCode::Char('z') if ctrl => return vec![Effect::Suspend],
            _ if self.approvals.is_open() => {}
            _ if self.overlay.is_some() => return self.overlay_key(key),
            _ if self.palette.is_some() => return self.palette_key(key),
            _ if self.composer.is_searching() => return self.composer_key(key),
            _ if self.completion.is_open() => match self.completion.key(key) {
                Choice::None => {}
                Choice::Moved => return Vec::new(),
                Choice::Put { range, text, run } => return self.complete(range, &text, run),
            },
            _ => {}
        }
        match key.code {
            KeyCode::Char('c') if ctrl => return self.ctrl_c(leaving),
            KeyCode::Char('d') if ctrl && self.composer.is_empty() => return vec![Effect::Quit],
            KeyCode::PageUp if !self.approvals.is_open() => self.transcript.scroll_pages(-1, &self.theme),
            KeyCode::PageDown if !self.approvals.is_open() => self.transcript.scroll_pages(1, &self.theme),
            KeyCode::Up if ctrl => self.transcript.to_user_message(true),
            KeyCode::Down if ctrl => self.transcript.to_user_message(false),
            KeyCode::Char('o') if ctrl => self.transcript.toggle_open(),
            KeyCode::Char('t') if ctrl => self.transcript.toggle_hidden(),
            _ if self.approvals.is_open() => return self.approvals.key(key),
            KeyCode::Char('g') if ctrl => {
                return vec![Effect::Ask(Request::Edit { text: self.composer.text() })];
            }
            KeyCode::Char('p') if ctrl => {
                self.completion.close();
                self.palette = Some(Palette::open());
            }
            KeyCode::Esc if self.status.is_working() => return vec![Effect::Send(Command::Interrupt)],
            KeyCode::Esc if self.status.command().is_some() => return vec![Effect::Ask(Request::StopShell)],
            KeyCode::Tab if self.status.is_working() && !self.composer.is_empty() => {
                let prompt = self.composer.take();
                return self.submit(prompt, DeliveryMode::Queue);
            }
            _ => return self.composer_key(key),
        }
        Vec::new()
    }

    fn composer_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let before = self.composer.raw().to_owned();
        if let Outcome::Submit(prompt) = self.composer.key(key) {
            self.completion.close();
            return self.submit(prompt, DeliveryMode::Steer);
        }
        if self.composer.raw() == before {
            // Only the cursor moved: what was offered stood where it was.
            self.completion.close();
            return Vec::new();
        }
        let mut effects = self.draft.changed();
        if self.composer.is_browsing() || self.composer.is_searching() {
            self.completion.close();
        } else {
            effects.extend(self.completion.refresh(self.composer.raw(), self.composer.cursor()));
        }
        effects
    }

    fn complete(&mut self, range: Range<usize>, text: &str, run: bool) -> Vec<Effect> {
        self.composer.replace(range, text);
        if run {
            let mut prompt = self.composer.take();
            prompt.text.truncate(prompt.text.trim_end().len());
            return self.submit(prompt, DeliveryMode::Steer);
        }
        let mut effects = self.draft.changed();
        effects.extend(self.completion.refresh(self.composer.raw(), self.composer.cursor()));
        effects
    }

    fn overlay_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let effects = self.overlay.as_mut().and_then(|overlay| overlay.key(key, &self.theme));
        if effects.is_none() {
            self.overlay = None;
        }
        effects.unwrap_or_default()
    }

    fn palette_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let Some(palette) = &mut self.palette else { return Vec::new() };
        match palette.key(key) {
            palette::Outcome::Stays(effects) => effects,
            palette::Outcome::Closed => {
                self.palette = None;
                Vec::new()
            }
            palette::Outcome::Chosen(text) => {
                self.palette = None;
                match commands::parse(&text) {
                    Some(Ok(action)) => self.act(action),
                    Some(Err(why)) => self.status.toast(why),
                    None => Vec::new(),
                }
            }
        }
    }

    fn ctrl_c(&mut self, leaving: bool) -> Vec<Effect> {
        if self.status.is_working() {
            return vec![Effect::Send(Command::Interrupt)];
        }
        if self.status.command().is_some() {
            return vec![Effect::Ask(Request::StopShell)];
        }
        if !self.composer.is_empty() {
            self.composer.clear();
            self.completion.close();
            return self.draft.gone();
        }
        if leaving {
            return vec![Effect::Quit];
        }
        self.leaving = true;
        let mut effects = self.status.toast("Ctrl-C once more quits".to_owned());
        effects.push(Effect::Wake(3_000, Timer::Chord));
        effects
    }

    fn submit(&mut self, prompt: Prompt, mode: DeliveryMode) -> Vec<Effect> {
        let mut effects = self.draft.gone();
        let more = match Said::of(&prompt) {
            Said::Command(Ok(action)) => self.act(action),
            Said::Command(Err(why)) => {
                self.composer.set(&prompt.text);
                self.status.toast(why)
            }
            Said::Shell(_) if self.status.command().is_some() => {
                self.composer.set(&prompt.text);
                self.status.toast("one command at a time; Esc stops the one that runs".to_owned())
            }
            Said::Shell(command) => {
                self.status.set_command(Some(command.clone()));
                self.transcript.to_end();
                vec![
                    Effect::Ask(Request::Shell { command }),
                    Effect::Ask(Request::Remember { prompt: prompt.text }),
                ]
            }
            Said::Memory(text) => vec![Effect::Ask(Request::Memorize { text })],
            Said::Task => self.send(prompt, mode),
        };
        effects.extend(more);
        effects
    }

    /// A command of the person's ended: shown now, told to the model with the next message.
    fn ran(&mut self, command: &str, output: &str, failed: bool) {
        self.status.set_command(None);
        let weight = if failed { Weight::Warning } else { Weight::Quiet };
        self.transcript.note(weight, format!("$ {command}\n{output}"));
        let fence = "`".repeat(longest_run(output, '`').max(2) + 1);
        self.ran.push(format!("I ran `{command}`:\n{fence}\n{}\n{fence}", output.trim_end()));
    }

    fn act(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Quit => vec![Effect::Quit],
            Action::Send(command) => vec![Effect::Send(command)],
            Action::Help => {
                self.transcript.note(Weight::Quiet, commands::help());
                self.transcript.to_end();
                Vec::new()
            }
            Action::Theme(theme) => {
                self.theme = *theme;
                Vec::new()
            }
            Action::CopyAnswer => match self.transcript.last_answer() {
                Some(answer) => {
                    let mut effects = vec![Effect::Copy(answer.to_owned())];
                    effects.extend(self.status.toast("the last answer is in the clipboard".to_owned()));
                    effects
                }
                None => self.status.toast("there is no answer to copy yet".to_owned()),
            },
            Action::New => self.switch(None),
            Action::Host { name, arguments } => vec![Effect::Ask(Request::Command { name, arguments })],
        }
    }

    /// Only while nothing is under way: what the agent does must not end by the way.
    fn switch(&mut self, to: Option<String>) -> Vec<Effect> {
        if self.status.is_working() || self.status.command().is_some() {
            return self.status.toast("first let it finish, or stop it with Esc".to_owned());
        }
        vec![Effect::Switch(to)]
    }

    fn send(&mut self, prompt: Prompt, mode: DeliveryMode) -> Vec<Effect> {
        let mut parts: Vec<Part> = self.ran.drain(..).map(Part::text).collect();
        if !prompt.text.trim().is_empty() {
            parts.push(Part::text(prompt.text.clone()));
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
        self.transcript.to_end();
        let mut effects = vec![Effect::Send(Command::Prompt(PromptInput { parts, mode, client_id: None }))];
        effects.push(Effect::Ask(Request::Remember { prompt: prompt.text }));
        effects.extend(self.status.sent());
        effects
    }

    /// Draws everything; effects that follow from having been seen.
    pub fn draw(&mut self, frame: &mut Frame<'_>) -> Vec<Effect> {
        let area = frame.area();
        self.columns = area.width;
        let activity = self.status.activity(area.width, &self.theme);
        let asking = self.approvals.is_open();
        let wanted = if asking {
            self.approvals.height(area.width, &self.theme)
        } else {
            self.composer.height(area.width)
        };
        let most = if asking { area.height / 2 } else { area.height / COMPOSER_SHARE };
        let [transcript, working, bottom, status] = Layout::vertical([
            Constraint::Min(0),
            Constraint::Length(u16::from(activity.is_some() && area.height > 3)),
            Constraint::Length(wanted.clamp(1, most.max(1))),
            Constraint::Length(u16::from(area.height > 2)),
        ])
        .areas(area);
        if let (Some(overlay), false) = (&mut self.overlay, asking) {
            overlay.draw(frame, area, &self.theme);
            return Vec::new();
        }
        self.transcript.draw(frame, transcript, &self.theme);
        if let Some(line) = activity
            && working.height > 0
        {
            frame.buffer_mut().set_line(working.x, working.y, &line, working.width);
        }
        let above = Rect { height: transcript.height + working.height, ..transcript };
        let mut effects = Vec::new();
        if asking {
            self.approvals.draw(frame, bottom, &self.theme);
            effects = self.approvals.painted();
        } else {
            let hint = if self.status.is_working() {
                "say something to steer it; Tab queues"
            } else {
                "what is to be done? / for commands"
            };
            self.composer.draw(frame, bottom, &self.theme, hint);
            match &mut self.palette {
                Some(palette) => palette.draw(frame, above, &self.theme),
                None => self.completion.draw(frame, above, &self.theme),
            }
        }
        if status.height > 0 {
            let line = self.status.line(status.width, &self.theme);
            frame.buffer_mut().set_line(status.x, status.y, &line, status.width);
        }
        effects
    }

    /// What of the transcript is not in the terminal's scrollback yet.
    pub fn print(&mut self) -> Vec<Line<'static>> {
        self.transcript.print(self.columns, &self.theme)
    }
}

/// The most `c` in a row.
fn longest_run(text: &str, c: char) -> usize {
    text.split(|other| other != c).map(str::len).max().unwrap_or(0)
}
