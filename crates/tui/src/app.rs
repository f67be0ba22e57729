//! The panes together: which one gets an input, and where each is drawn.
//!
//! Holds no state of a pane and no agent logic. [`App::update`] is pure: inputs in, effects out; [`App::draw`] depends on the
//! state alone, so every screen can be had from a list of inputs.

use crate::approval::Approvals;
use crate::commands::{self, Action};
use crate::composer::{Composer, Outcome, Prompt};
use crate::input::{Effect, Input, Reply, Request, Timer};
use crate::status::Status;
use crate::theme::Theme;
use crate::transcript::Transcript;
use crate::transcript::block::Weight;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use becket_types::{Command, DeliveryMode, Event, ImageSource, Part, PromptInput};
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseEvent, MouseEventKind};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::text::Line;

/// Rows that the composer takes at most, in parts of the screen's height.
const COMPOSER_SHARE: u16 = 3;

pub struct App {
    theme: Theme,
    columns: u16,
    transcript: Transcript,
    composer: Composer,
    approvals: Approvals,
    status: Status,
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
            leaving: false,
        }
    }

    /// Takes in one input. What is on the screen may be another afterwards.
    pub fn update(&mut self, input: Input) -> Vec<Effect> {
        match input {
            Input::Key(key) if key.kind == KeyEventKind::Release => Vec::new(),
            Input::Key(key) => self.key(key),
            Input::Paste(text) if self.approvals.is_open() => {
                // A paste never answers a question; it waits in the composer.
                self.composer.paste(&text);
                Vec::new()
            }
            Input::Paste(text) => {
                self.composer.paste(&text);
                Vec::new()
            }
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
        }
        Vec::new()
    }

    fn reply(&mut self, reply: Reply) -> Vec<Effect> {
        match reply {
            Reply::Edited(Ok(text)) => self.composer.set(text.trim_end_matches('\n')),
            Reply::Edited(Err(why)) => return self.status.toast(why),
            Reply::History(prompts) => self.composer.set_history(prompts),
            Reply::Draft(text) => self.composer.set(&text),
            Reply::Image(Ok((media_type, bytes))) => self.composer.paste_image(media_type, bytes),
            Reply::Image(Err(why)) => return self.status.toast(why),
            Reply::Page { result: Ok(page), .. } => {
                self.transcript.note(Weight::Quiet, format!("{}\n{}", page.title, page.markdown));
            }
            Reply::Page { result: Err(why), .. } => self.transcript.note(Weight::Error, why),
            Reply::Files { .. } => {}
        }
        Vec::new()
    }

    fn mouse(&mut self, mouse: MouseEvent) -> Vec<Effect> {
        match mouse.kind {
            MouseEventKind::ScrollUp => self.transcript.scroll(-3, &self.theme),
            MouseEventKind::ScrollDown => self.transcript.scroll(3, &self.theme),
            _ => {}
        }
        Vec::new()
    }

    fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let leaving = std::mem::take(&mut self.leaving);
        match key.code {
            KeyCode::Char('c') if ctrl => return self.ctrl_c(leaving),
            KeyCode::Char('z') if ctrl => return vec![Effect::Suspend],
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
            KeyCode::Esc if self.status.is_working() => return vec![Effect::Send(Command::Interrupt)],
            KeyCode::Tab if self.status.is_working() && !self.composer.is_empty() => {
                let prompt = self.composer.take();
                return self.send(prompt, DeliveryMode::Queue);
            }
            _ => match self.composer.key(key) {
                Outcome::Submit(prompt) => return self.submit(prompt),
                Outcome::Changed | Outcome::Ignored => {}
            },
        }
        Vec::new()
    }

    fn ctrl_c(&mut self, leaving: bool) -> Vec<Effect> {
        if self.status.is_working() {
            return vec![Effect::Send(Command::Interrupt)];
        }
        if !self.composer.is_empty() {
            self.composer.clear();
            return Vec::new();
        }
        if leaving {
            return vec![Effect::Quit];
        }
        self.leaving = true;
        let mut effects = self.status.toast("Ctrl-C once more quits".to_owned());
        effects.push(Effect::Wake(3_000, Timer::Chord));
        effects
    }

    fn submit(&mut self, prompt: Prompt) -> Vec<Effect> {
        match commands::parse(&prompt.text) {
            Some(Ok(action)) => self.act(action),
            Some(Err(why)) => {
                self.composer.set(&prompt.text);
                self.status.toast(why)
            }
            None => self.send(prompt, DeliveryMode::Steer),
        }
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
            Action::Host { name, arguments } => vec![Effect::Ask(Request::Command { name, arguments })],
        }
    }

    fn send(&mut self, prompt: Prompt, mode: DeliveryMode) -> Vec<Effect> {
        let mut parts = Vec::new();
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
        self.transcript.draw(frame, transcript, &self.theme);
        if let Some(line) = activity
            && working.height > 0
        {
            frame.buffer_mut().set_line(working.x, working.y, &line, working.width);
        }
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
