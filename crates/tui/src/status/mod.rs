//! The status line, and the line above the composer that shows the current activity.
//!
//! Everything shown derives from events and the host's answers. "working" is shown only while a turn runs. Asks to be woken once a second
//! during a turn for the elapsed time, every five seconds while commands run in the background, and never otherwise. `session` owns the
//! facts of the session, `spending` its use; `facts` draws the built-in line, `header` the start, `activity` the line of a turn, `meter`
//! the context, `script` the output of the user's status line program.

mod activity;
mod facts;
mod header;
pub mod meter;
pub mod script;
mod session;
mod spending;

pub(crate) use activity::short_error;

use crate::input::{Effect, PageRequest, Request, Timer};
use crate::menu::Item;
use crate::text;
use crate::theme::Theme;
use becket_types::{Event, PreparationState, Tokens, Used};
use meter::Meter;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use script::Script;
use serde_json::{Value, json};
use session::SessionFacts;
use spending::Spending;
use std::path::{Path, PathBuf};

/// The activity while a question is open.
const WAITING: &str = "waiting for you";
/// Beginnings of the activity while a call runs.
const RUNNING: &str = "running ";
const SUBAGENT_RUNNING: &str = "subagent: running ";

/// Interval in milliseconds at which commands in the background are counted.
const JOBS: u64 = 5_000;
/// Delay in milliseconds between a change and the next run of the user's status line program.
const DEBOUNCE: u64 = 300;

/// Facts of the status line and of the activity line.
#[derive(Debug, Default)]
pub struct Status {
    session: SessionFacts,
    meter: Meter,
    spending: Spending,
    turn: Option<Turn>,
    /// A message that disappears by itself.
    toast: Option<String>,
    /// The user's shell command that is running.
    command: Option<String>,
    /// Everything known is shown, not only the most important facts. The first of `keys` toggles this.
    whole: bool,
    /// The keys that show the whole line and the palette, if there are such keys.
    keys: [Option<String>; 2],
    script: Script,
    /// The number of commands that run in the background.
    jobs: usize,
    /// A summary is being prepared in the background, or is ready.
    summary: Option<PreparationState>,
}

/// Seconds since the turn began, and the current activity.
#[derive(Debug, Default)]
struct Turn {
    seconds: u64,
    doing: String,
    /// A request failed and will be repeated; `doing` is the error.
    retry: Option<Retry>,
    /// No turn runs: the user requested a compaction.
    compacting: bool,
}

#[derive(Debug)]
struct Retry {
    attempt: u32,
    max: u32,
    /// Seconds until the request is sent again.
    seconds: u64,
}

impl Status {
    /// Records if the user has configured a program for the status line.
    pub fn scripted(mut self, scripted: bool) -> Self {
        self.script.exists = scripted;
        self
    }

    /// Sets the keys that show the whole line and the palette.
    pub(crate) fn with_keys(mut self, keys: [Option<String>; 2]) -> Self {
        self.keys = keys;
        self
    }

    /// Sets the home folder, which is shown as `~`.
    pub(crate) fn with_home(mut self, home: Option<PathBuf>) -> Self {
        self.session.home = home;
        self
    }

    /// Switches between all facts and the most important ones.
    pub(crate) fn toggle_whole(&mut self) {
        self.whole = !self.whole;
    }

    /// True while a turn runs.
    pub(crate) fn is_working(&self) -> bool {
        self.turn.is_some()
    }

    /// Applies an event of the agent.
    pub fn event(&mut self, event: &Event) -> Vec<Effect> {
        match event {
            Event::SessionStarted { model, permission_mode, cwd, session, title, .. } => {
                self.session.model.clone_from(model);
                self.session.mode.clone_from(permission_mode);
                self.session.cwd.clone_from(cwd);
                self.session.id = session.to_string();
                self.session.title.clone_from(title);
                let mut effects = vec![Effect::Ask(Request::Branch)];
                effects.extend(self.changed());
                return effects;
            }
            Event::Renamed { title } => {
                self.session.title = Some(title.clone());
                // A session also gets a title from its first message, which the user did not request.
                if std::mem::take(&mut self.session.renaming) {
                    return self.toast(format!("This session is now called {title}."));
                }
            }
            Event::ModelChosen { model } => return self.set_model(model),
            Event::ModeChanged { mode } => return self.set_mode(mode),
            Event::WorkspaceChanged { added } => {
                self.session.added.clone_from(added);
                return self.changed();
            }
            Event::StepStarted { .. } => return self.doing("waiting for the model"),
            Event::TextDelta { .. } => return self.doing("answering"),
            Event::ReasoningDelta { .. } => return self.doing("thinking"),
            Event::ToolCallDelta { name, .. } if !name.is_empty() => {
                return self.doing(&format!("preparing {name}"));
            }
            Event::ToolStarted { name, .. } => return self.doing(&format!("{RUNNING}{name}")),
            Event::PermissionAsked(_) => return self.doing(WAITING),
            Event::CompactionStarted { .. } => {
                let alone = self.turn.is_none();
                let effects = self.doing("compacting the context");
                if let Some(turn) = &mut self.turn {
                    turn.compacting = alone;
                }
                return effects;
            }
            Event::SummaryPreparation { state } => {
                self.summary =
                    Some(state.clone()).filter(|state| !matches!(state, PreparationState::Failed { .. }));
            }
            Event::CompactBoundary { .. } | Event::CompactionFailed { .. } | Event::CompactionPlanned(_) => {
                self.summary = None;
                self.turn.take_if(|turn| turn.compacting);
                return self.changed();
            }
            Event::Retry { attempt, max, delay, error, .. } => {
                let seconds = delay.0.div_ceil(1_000);
                let effects = self.doing(&activity::short_error(error, &self.session.model));
                if let Some(turn) = &mut self.turn {
                    turn.retry = Some(Retry { attempt: *attempt, max: *max, seconds });
                }
                return effects;
            }
            Event::AssistantMessage { .. } => {
                self.spending.event(event);
                return self.changed();
            }
            Event::Subagent { what, .. } => {
                return match &**what {
                    // A subagent in the background may work while no turn runs.
                    Event::PermissionAsked(_) | Event::ToolStarted { .. } | Event::StepStarted { .. }
                        if self.turn.is_none() =>
                    {
                        Vec::new()
                    }
                    Event::PermissionAsked(_) => self.doing(WAITING),
                    Event::ToolStarted { name, .. } => self.doing(&format!("{SUBAGENT_RUNNING}{name}")),
                    Event::StepStarted { .. } => self.doing("subagent: waiting for the model"),
                    // The usage of a subagent counts while it works.
                    Event::AssistantMessage { .. } => self.event(what),
                    _ => Vec::new(),
                };
            }
            Event::ContextUsed { used, usable, window, threshold, kinds } => {
                self.meter = Meter::new(*used, *usable, *window, *threshold, kinds);
                return self.changed();
            }
            Event::TurnFinished(result) => {
                self.turn = None;
                self.spending.millis += result.duration.0;
                let mut effects = vec![Effect::Ask(Request::Branch)];
                effects.extend(self.changed());
                return effects;
            }
            Event::ToolFinished { .. } => return vec![Effect::Ask(Request::Jobs)],
            _ => {}
        }
        Vec::new()
    }

    /// Adds the usage of the session before this process started.
    pub fn begin_with(&mut self, used: Used) {
        self.spending.begin_with(used);
    }

    /// Schedules a run of the user's status line program. Further changes before that run are covered by it.
    fn changed(&mut self) -> Vec<Effect> {
        if self.script.needs_run() { vec![Effect::Wake(DEBOUNCE, Timer::StatusLine)] } else { Vec::new() }
    }

    /// Runs the user's status line program after the delay.
    pub(crate) fn script_due(&mut self, vim: Option<&str>) -> Vec<Effect> {
        self.script.waiting = false;
        vec![Effect::Ask(Request::StatusLine { told: self.told(vim) })]
    }

    /// Records that the user renamed the session, so the agent's confirmation is shown.
    pub(crate) fn rename_sent(&mut self) {
        self.session.renaming = true;
    }

    /// Sets the output of the user's status line program.
    pub(crate) fn set_script(&mut self, lines: Vec<String>) {
        self.script.lines = lines;
    }

    /// Sets the git branch.
    pub(crate) fn set_branch(&mut self, branch: Option<String>) {
        self.session.branch = branch;
    }

    /// Sets the number of commands in the background. While there are any, they are counted again, because they end by
    /// themselves.
    pub(crate) fn set_jobs(&mut self, jobs: usize) -> Vec<Effect> {
        self.jobs = jobs;
        if jobs > 0 { vec![Effect::Wake(JOBS, Timer::Jobs)] } else { Vec::new() }
    }

    /// Returns the permission mode.
    pub fn mode(&self) -> &str {
        &self.session.mode
    }

    /// Returns the model as `provider/name`.
    pub fn model(&self) -> &str {
        &self.session.model
    }

    /// Returns the models to choose from, the current one first.
    pub(crate) fn model_first(&self, models: Vec<(String, String)>) -> Vec<Item> {
        self.session.model_first(models)
    }

    /// Returns the session and its folder, for the title of the terminal's window.
    pub fn title(&self) -> String {
        self.session.window_title()
    }

    /// Returns the title of the session, shortened to this many columns.
    pub(crate) fn session_title(&self, columns: usize) -> Option<String> {
        self.session.title(columns)
    }

    /// Fills in the facts of the session that this request for a page carries to the host.
    pub(crate) fn fill_in(&self, page: PageRequest) -> PageRequest {
        let mode = || self.session.mode.clone();
        match page {
            PageRequest::Context { .. } => PageRequest::Context {
                used: Tokens(self.meter.used),
                window: Tokens(self.meter.window),
                usable: Tokens(self.meter.usable),
            },
            PageRequest::Permissions { .. } => PageRequest::Permissions { mode: mode() },
            PageRequest::Status { .. } => PageRequest::Status { mode: mode() },
            PageRequest::Agents
            | PageRequest::Bug
            | PageRequest::Config
            | PageRequest::Cost
            | PageRequest::Diff
            | PageRequest::Doctor
            | PageRequest::Hooks
            | PageRequest::Mcp { .. }
            | PageRequest::Memory
            | PageRequest::Skills
            | PageRequest::Tasks
            | PageRequest::Todos
            | PageRequest::Tools => page,
        }
    }

    /// Returns the folder of the session; empty before the session is known.
    pub(crate) fn folder_of_session(&self) -> &Path {
        &self.session.cwd
    }

    /// Sets the permission mode that the user chose.
    pub fn set_mode(&mut self, mode: &str) -> Vec<Effect> {
        mode.clone_into(&mut self.session.mode);
        self.changed()
    }

    fn set_model(&mut self, model: &str) -> Vec<Effect> {
        model.clone_into(&mut self.session.model);
        self.changed()
    }

    /// Returns the JSON for a status line program, in the shape that such programs expect.
    fn told(&self, vim: Option<&str>) -> Value {
        let (session, spending) = (&self.session, &self.spending);
        let added: Vec<_> = session.added.iter().map(|folder| folder.to_string_lossy()).collect();
        let name = session.model.rsplit('/').next().unwrap_or_default();
        let percent = self.meter.percent().min(100);
        json!({
            "session_id": session.id,
            "session_name": session.title,
            "model": {"id": session.model, "display_name": name},
            "workspace": {"current_dir": session.cwd, "project_dir": session.cwd, "added_dirs": added},
            "cost": {
                "total_cost_usd": spending.cost.0,
                "total_duration_ms": spending.millis,
                "total_api_duration_ms": spending.api_millis,
            },
            "context_window": {
                "total_input_tokens": spending.usage.context().0,
                "total_output_tokens": spending.usage.output,
                "context_window_size": self.meter.window,
                "used_percentage": percent,
                "remaining_percentage": 100 - percent,
                "current_usage": self.meter.used,
            },
            "permission_mode": session.mode,
            "git_branch": session.branch,
            "vim": vim.map(|mode| json!({"mode": mode})),
        })
    }

    fn doing(&mut self, what: &str) -> Vec<Effect> {
        match &mut self.turn {
            Some(turn) => {
                turn.compacting = false;
                turn.retry = None;
                if turn.doing != what {
                    what.clone_into(&mut turn.doing);
                }
                Vec::new()
            }
            None => {
                self.spending.begin_turn();
                self.turn = Some(Turn { seconds: 0, doing: what.to_owned(), retry: None, compacting: false });
                vec![Effect::Wake(1_000, Timer::Clock)]
            }
        }
    }

    /// Shows that a turn begins when the user sends a prompt. A running turn keeps its activity.
    pub fn sent(&mut self) -> Vec<Effect> {
        let is_turn = self.turn.as_ref().is_some_and(|turn| !turn.compacting);
        if is_turn { Vec::new() } else { self.doing("sending") }
    }

    /// Returns the seconds since the turn began, which select the sign of the spinners.
    pub(crate) fn beat(&self) -> u64 {
        self.turn.as_ref().map_or(0, |turn| turn.seconds)
    }

    /// Handles the passing of a second.
    pub(crate) fn tick(&mut self) -> Vec<Effect> {
        match &mut self.turn {
            Some(turn) => {
                turn.seconds += 1;
                turn.retry.iter_mut().for_each(|retry| retry.seconds = retry.seconds.saturating_sub(1));
                vec![Effect::Wake(1_000, Timer::Clock)]
            }
            None => Vec::new(),
        }
    }

    /// Shows a message for three seconds.
    pub(crate) fn toast(&mut self, text: String) -> Vec<Effect> {
        self.toast = Some(text);
        vec![Effect::Wake(3_000, Timer::Toast)]
    }

    /// Returns the temporary message as a line above the composer.
    pub fn note(&self, width: u16, theme: &Theme) -> Option<Line<'static>> {
        let toast = text::visible(self.toast.as_ref()?);
        Some(Line::styled(text::fit_words(&toast, usize::from(width)).into_owned(), theme.accent))
    }

    /// Removes the temporary message.
    pub(crate) fn end_toast(&mut self) {
        self.toast = None;
    }

    /// Sets the user's running shell command; `None` when it ended.
    pub(crate) fn set_command(&mut self, command: Option<String>) {
        self.command = command;
    }

    /// Returns the user's running shell command.
    pub fn command(&self) -> Option<&str> {
        self.command.as_deref()
    }

    /// Returns what is shown before the first message: the facts of the session, and tips to begin.
    pub fn header(&self, area: Rect, theme: &Theme) -> Vec<Line<'static>> {
        if self.session.model.is_empty() {
            return Vec::new();
        }
        header::lines(&self.session, area, theme)
    }

    /// Returns the height in rows that the status line needs. All facts may need several rows.
    pub fn height(&self, width: u16) -> u16 {
        let rows = match (self.script.lines.len(), self.whole) {
            (0, false) => 1,
            // The mode of Vim's keys is short, so it does not need a row of its own.
            (0, true) => self.own(width.into(), &Theme::plain(), None, false).len(),
            (lines, _) => lines,
        };
        rows.clamp(1, script::ROWS) as u16
    }

    /// Returns the status line. `vim`: the mode of the composer, if Vim keys are on; `headed`: the header shows model and mode.
    pub fn lines(&self, width: u16, theme: &Theme, vim: Option<&str>, headed: bool) -> Vec<Line<'static>> {
        let width = usize::from(width);
        if !self.script.lines.is_empty() {
            let mut lines: Vec<_> =
                self.script.lines.iter().take(script::ROWS).map(|line| script::line(line, width)).collect();
            // A mode that asks less or more than usual is never out of sight, whatever the program prints.
            let mode = format!(" · {} mode", self.session.mode);
            if self.session.mode != "default"
                && let (Some(last), Some(shown)) = (self.script.lines.get(lines.len() - 1), lines.last_mut())
            {
                *shown = script::line(last, width.saturating_sub(text::width(&mode)));
                shown.spans.push(Span::styled(
                    mode,
                    if self.session.is_loud() { theme.outcome.warning } else { theme.dim },
                ));
            }
            return lines;
        }
        self.own(width, theme, vim, headed)
    }
}
