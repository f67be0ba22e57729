//! Permission questions: asks if a call may run, and reports the answer.
//!
//! Shows what will run: the tool, the resolved paths, the whole command with invisible characters made visible, and the
//! change by hunks. Calls are asked about one at a time, in order. The answers are a numbered list that takes the
//! keyboard only on request ([`crate::answers`]). All other typing goes to the composer. If a text is begun after the
//! question could be read, sending it refuses the call and gives the text as the reason. Answers that allow something
//! are enabled only after the end of the question has been in view.
//!
//! Owns the queue, the steps of a question and the effect of each answer. `offers` has the answers, `question` draws the subject of the
//! question, `foot` the answers and the line of keys below it.

mod code;
mod foot;
mod offers;
mod question;

use crate::answers::{Answer, AnswerList, Pressed};
use crate::highlight::{Code, Job};
use crate::input::{Effect, Place, Request, Timer};
use crate::paths::ShortPaths;
use crate::theme::Theme;
use crate::transcript::print;
use becket_types::{CallId, Command, Decision, PermissionRequest, RuleChange, RuleKind, RuleOffer};
use code::ChangedCode;
use crossterm::event::{KeyCode, KeyEvent};
use question::Question;
pub(crate) use question::reason_of;
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;
use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

/// A question that does not fit into an area with fewer rows than this is laid out for short screens.
const SHORT: u16 = 14;

/// Texts that mean yes, in languages in which people answer so out of habit.
const CONSENT: [&str; 24] = [
    "y", "yes", "yep", "yeah", "ok", "okay", "sure", "allow", "accept", "approve", "go", "go ahead", "do it",
    "ja", "oui", "si", "sí", "sim", "da", "да", "tak", "evet", "はい", "好",
];

/// True if a text that was sent while a question is open can only be meant as an answer to it: consent, or the number of an answer.
/// It must not refuse the call, and typing never allows one.
pub(crate) fn means_an_answer(text: &str) -> bool {
    let text = text.trim().trim_end_matches(['.', '!', '。', '！']).trim().to_lowercase();
    let number = text.len() == 1 && text.bytes().all(|byte| byte.is_ascii_digit());
    number || CONSENT.contains(&text.as_str())
}

/// Permission questions in order, and the state of the first one.
#[derive(Debug, Default)]
pub struct Approvals {
    queue: VecDeque<Asked>,
    list: AnswerList,
    scroll: usize,
    /// Rows of the question's body without the answers, as drawn last.
    rows: usize,
    /// Rows of its visible part, as drawn last.
    window: usize,
    /// The end of the question has been in view.
    seen_end: bool,
    step: Step,
    /// The next frame scrolls to the hunk at the cursor.
    follow: bool,
    /// Indices of the hunks that the user rejected.
    rejected: BTreeSet<usize>,
    /// The files that rules are written into: for every project, and for this project.
    files: Option<(String, String)>,
    /// The folder of the session, which paths are shown relative to, and the home folder.
    paths: ShortPaths,
}

/// A question and the agent that asks.
#[derive(Debug)]
struct Asked {
    /// The call that started the subagent; `None`: the main agent asks.
    subagent: Option<CallId>,
    request: PermissionRequest,
    /// The code of each changed file.
    code: Vec<ChangedCode>,
    /// The command, in which the names of programs are marked.
    command: Option<Arc<Code>>,
}

/// Steps of a question. Each gives the keys another meaning.
#[derive(Clone, Copy, Debug, Default)]
enum Step {
    #[default]
    Asked,
    /// Choosing hunks; the index of the hunk at the cursor.
    Hunks(usize),
    /// The call shall always be allowed: choosing if in every project or in this project.
    Always,
}

/// Effect of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Once,
    Session,
    /// Opens the step that asks where the rule shall hold.
    Always,
    Keep(Place),
    /// Like `Session`, for the rules of the command's parts.
    Parts,
    /// Like `Keep`, for the rules of the command's parts.
    KeepParts(Place),
    /// Opens the list of hunks.
    Hunks,
    Refuse,
    /// Returns to the first list of answers.
    Back,
    /// Agrees to a plan, and allows that files are edited.
    AcceptEdits,
}

impl Does {
    /// True if the answer lets the call run.
    fn allows(self) -> bool {
        !matches!(self, Self::Hunks | Self::Refuse | Self::Back)
    }
}

/// Rows that a question may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Whole hunks, with blank rows between the parts and above the line of keys.
    Airy,
    /// Only the lines near each change, with these blank rows.
    Near,
    /// Like [`Self::Near`], without the blank row above the line of keys.
    Close,
    /// Only the lines near each change, without blank rows.
    Tight,
    /// Like [`Self::Tight`], for a question that does not fit on a short screen: no horizontal line above it, a short
    /// title, and the reason after the change, so that the first page shows the change.
    Short,
}

impl Spacing {
    /// True if a blank row divides the answers from the line of keys.
    fn parts_keys(self) -> bool {
        matches!(self, Self::Airy | Self::Near)
    }
}

/// State of the composer while a question is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writing {
    /// The composer holds text, or its history is searched.
    pub drafting: bool,
    /// The text would be understood as an answer, which typing never gives.
    pub consents: bool,
    /// The first Esc leaves Vim's insert mode.
    pub takes_escape: bool,
    /// A block of the transcript above has the keyboard.
    pub reads_above: bool,
}

/// Effect of a key press on the question.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// The question used the key, with these effects.
    Done(Vec<Effect>),
    /// The key belongs to the composer.
    Text,
}

impl Approvals {
    /// Creates an empty queue. `home`: the folder that is shown as `~`. `files`: the files that rules are written into, for every
    /// project and for this project.
    pub(crate) fn new(home: Option<&Path>, files: Option<(String, String)>) -> Self {
        let paths = ShortPaths::new(Path::new(""), home);
        let files = files.map(|(user, local)| (paths.shorten(&user), paths.shorten(&local)));
        Self { files, paths, ..Self::default() }
    }

    /// Sets the folder of the session, which paths are shown relative to.
    pub(crate) fn set_workspace(&mut self, folder: &Path) {
        self.paths.set_workspace(folder);
    }

    /// True if a question is open.
    pub fn is_open(&self) -> bool {
        !self.queue.is_empty()
    }

    /// True if the answers have the keyboard, not the composer.
    pub(crate) fn is_focused(&self) -> bool {
        self.is_open() && self.list.is_focused()
    }

    /// True if the question has been on the screen for long enough to be read.
    pub(crate) fn is_read(&self) -> bool {
        self.list.is_read()
    }

    /// True if a text sent now becomes the reason for a refusal.
    pub(crate) fn takes_reason(&self) -> bool {
        self.is_open() && !self.asks_secrets() && self.list.takes_reply()
    }

    /// Returns the call that the question is about, unless a subagent makes it.
    pub fn asked(&self) -> Option<&CallId> {
        self.queue.front().filter(|asked| asked.subagent.is_none()).map(|asked| &asked.request.call_id)
    }

    /// True if the question is about secrets in the output of a finished call, not about a call.
    fn asks_secrets(&self) -> bool {
        self.queue.front().is_some_and(|asked| asked.request.secrets.is_some())
    }

    /// True if the question is about a plan.
    fn asks_plan(&self) -> bool {
        self.queue.front().is_some_and(|asked| is_plan(&asked.request))
    }

    /// Returns the placeholder of the composer while a question is open.
    pub fn hint(&self) -> &'static str {
        match (self.asks_secrets(), self.list.leaves_by_tab()) {
            (_, true) => "Tab goes back to writing",
            (true, false) => "Or write a message; the question stays open",
            (false, false) => "Or write what to do instead",
        }
    }

    /// Queues a question. `subagent`: the call that started the subagent which asks.
    pub fn ask(&mut self, subagent: Option<CallId>, request: PermissionRequest) -> Vec<Effect> {
        let text = match &request.secrets {
            Some(kinds) => format!("The output of {} contains {kinds}", request.tool),
            None if is_plan(&request) => "a plan waits for your answer".to_owned(),
            None => format!("{} waits for permission", request.tool),
        };
        let code = request.preview.iter().map(ChangedCode::new).collect();
        let command = request.access.command.as_deref().map(code::command);
        self.queue.push_back(Asked { subagent, request, code, command });
        vec![Effect::Notify(text)]
    }

    /// Removes the questions of a call that was settled elsewhere, and those that its subagent asked.
    pub fn settled(&mut self, subagent: Option<&CallId>, call: &CallId) {
        let is = |asked: &Asked| {
            let own = asked.subagent.as_ref() == subagent && asked.request.call_id == *call;
            own || (subagent.is_none() && asked.subagent.as_ref() == Some(call))
        };
        let first = self.queue.front().is_some_and(is);
        self.queue.retain(|asked| !is(asked));
        if first {
            self.begin();
        }
    }

    /// Drops the questions of a turn that has ended. Subagents in the background go on and wait for their answers.
    pub fn end_turn(&mut self) {
        let first = self.queue.front().is_some_and(|asked| asked.subagent.is_none());
        self.queue.retain(|asked| asked.subagent.is_some());
        if first || self.queue.is_empty() {
            self.begin();
        }
    }

    /// Shows the next question of the queue. Like the first one, it has to be read before it can be answered, so the
    /// composer gets the keyboard.
    fn begin(&mut self) {
        let before = std::mem::take(self);
        *self = Self { queue: before.queue, files: before.files, paths: before.paths, ..Self::default() };
    }

    /// Records that the question was drawn, which starts the time in which it is read.
    pub fn painted(&mut self, writing: Writing) -> Vec<Effect> {
        if self.queue.is_empty() {
            return Vec::new();
        }
        let wake = self.list.painted(writing.drafting);
        wake.map(|millis| Effect::Wake(millis, Timer::Arm)).into_iter().collect()
    }

    /// Handles the end of the time that [`Self::painted`] asked for.
    pub fn arm(&mut self, writing: Writing) {
        if self.is_open() {
            self.list.due(writing.drafting);
        }
    }

    /// Returns digits that marked an answer and turn out to be the beginning of a text.
    #[must_use]
    pub(crate) fn take_typed(&mut self) -> String {
        self.list.take_typed()
    }

    /// Records typing that was not meant for the question.
    pub(crate) fn disturb(&mut self) {
        self.list.disturb();
    }

    /// Records a paste into the composer, which gets the keyboard.
    pub(crate) fn pasted(&mut self) {
        self.list.pasted();
        self.stay_in_hunks();
    }

    /// Records a possible change of the composer.
    pub fn wrote(&mut self, writing: Writing) {
        self.list.drafting(writing.drafting);
        self.stay_in_hunks();
    }

    /// Ends the choice of hunks if the keyboard went to the composer. Rejected hunks stay rejected.
    fn stay_in_hunks(&mut self) {
        if matches!(self.step, Step::Hunks(_)) && !self.list.is_focused() {
            self.step = Step::Asked;
        }
    }

    /// Gives up the keyboard, because the user goes to a block of the transcript above.
    pub(crate) fn look_above(&mut self) {
        // Such a key shows that a digit before it was no beginning of a text.
        let _ = self.list.take_typed();
        self.list.unfocus();
        self.stay_in_hunks();
    }

    /// Records that a message which was taken back is in the composer.
    pub(crate) fn text_from_before(&mut self) {
        self.list.text_from_before();
    }

    /// Scrolls by rows: up if negative, else down. Returns false if the question has no more rows there, so that the transcript may scroll.
    pub fn scroll(&mut self, lines: isize) -> bool {
        let most = self.rows.saturating_sub(self.window);
        let more = if lines < 0 { self.scroll.min(most) > 0 } else { self.scroll < most || !self.seen_end };
        self.scroll = self.scroll.saturating_add_signed(lines);
        more
    }

    /// Scrolls by windows: up if `pages` is negative, else down. Returns the same as [`Self::scroll`].
    pub(crate) fn scroll_pages(&mut self, pages: isize) -> bool {
        self.scroll(pages * self.window.max(1) as isize)
    }

    /// Handles a key while a question is open.
    pub fn key(&mut self, key: KeyEvent, writing: Writing) -> Outcome {
        if let Step::Hunks(at) = self.step
            && self.list.is_focused()
        {
            return self.hunk_key(key, at);
        }
        let answers = self.answers();
        Outcome::Done(match self.list.key(key, answers.len(), writing.drafting) {
            Pressed::Text => return Outcome::Text,
            Pressed::Taken => Vec::new(),
            Pressed::Refused => self.refuse(None),
            Pressed::Chosen(at) => answers.get(at).map_or_else(Vec::new, |(does, _)| self.choose(*does)),
        })
    }

    fn choose(&mut self, does: Does) -> Vec<Effect> {
        match does {
            // An answer that is not yet enabled shows the next page. A key that is held down must not answer after the last one.
            _ if does.allows() && !self.seen_end => {
                self.scroll_pages(1);
                self.list.settle_again();
            }
            // The mode changes first, so the call finds it changed.
            Does::AcceptEdits => {
                let mode = becket_types::PermissionMode::AcceptEdits.to_string();
                let mut effects = vec![Effect::Send(Command::SetMode { mode })];
                effects.extend(self.decide(Decision::AllowOnce));
                return effects;
            }
            Does::Once if self.rejected.is_empty() => return self.decide(Decision::AllowOnce),
            Does::Once => {
                let rejected = self.rejected.iter().copied().collect();
                return self.decide(Decision::AllowWithout { rejected });
            }
            Does::Session => return self.decide(Decision::AllowSession),
            Does::Always => self.go(Step::Always),
            Does::Back => self.go(Step::Asked),
            Does::Keep(place) => return self.keep(place),
            Does::Parts => return self.allow_parts(None),
            Does::KeepParts(place) => return self.allow_parts(Some(place)),
            Does::Hunks => self.look_at(0),
            Does::Refuse => return self.refuse(None),
        }
        Vec::new()
    }

    /// Changes to another step of the question. No answer counts before the list has been on the screen for a moment
    /// without a key, and an answer that allows counts only after the end was shown.
    fn go(&mut self, step: Step) {
        (self.step, self.seen_end, self.scroll) = (step, false, 0);
        self.list = self.list.follow_up();
    }

    fn look_at(&mut self, hunk: usize) {
        (self.step, self.follow) = (Step::Hunks(hunk), true);
    }

    fn hunk_key(&mut self, key: KeyEvent, at: usize) -> Outcome {
        let count = self.queue.front().map_or(0, |asked| hunks(&asked.request));
        match key.code {
            _ if !key.modifiers.is_empty() => return self.leave_hunks(),
            KeyCode::Up => self.look_at(at.saturating_sub(1)),
            KeyCode::Down => self.look_at((at + 1).min(count.max(1) - 1)),
            KeyCode::Char(' ') => {
                if !self.rejected.remove(&at) {
                    self.rejected.insert(at);
                }
            }
            // Returns to the answers, with the cursor at the first one.
            KeyCode::Enter | KeyCode::Esc | KeyCode::Tab => {
                self.step = Step::Asked;
                self.list = self.list.follow_up();
            }
            _ => return self.leave_hunks(),
        }
        Outcome::Done(Vec::new())
    }

    /// Leaves the hunks because the user types something else. Rejected hunks stay rejected.
    fn leave_hunks(&mut self) -> Outcome {
        self.step = Step::Asked;
        self.list.unfocus();
        Outcome::Text
    }

    fn keep(&mut self, place: Place) -> Vec<Effect> {
        let offer = self.queue.front().and_then(|asked| asked.request.offer.clone());
        let Some(offer) = offer else { return Vec::new() };
        let mut effects = vec![Effect::Ask(Request::Allow { rule: offer.rule, place })];
        effects.extend(self.decide(Decision::AllowSession));
        effects
    }

    /// Allows the parts of a command by rules of their own, for this session and, with a place, for later ones.
    fn allow_parts(&mut self, place: Option<Place>) -> Vec<Effect> {
        let offer = self.queue.front().and_then(|asked| asked.request.offer.clone());
        let Some(RuleOffer { parts, .. }) = offer else { return Vec::new() };
        let keep =
            |place| parts.iter().map(move |rule| Effect::Ask(Request::Allow { rule: rule.clone(), place }));
        let mut effects: Vec<Effect> = place.into_iter().flat_map(keep).collect();
        // The rules come first, so that they hold for the calls after this one.
        effects.push(Effect::Send(Command::change_rules(RuleKind::Allow, RuleChange::Add, parts.clone())));
        effects.extend(self.decide(Decision::AllowOnce));
        effects
    }

    /// Refuses the call. `reason`: the user's reason for the model.
    pub fn refuse(&mut self, reason: Option<String>) -> Vec<Effect> {
        self.decide(Decision::Deny { reason })
    }

    fn decide(&mut self, decision: Decision) -> Vec<Effect> {
        let Some(Asked { subagent, request, .. }) = self.queue.pop_front() else { return Vec::new() };
        self.begin();
        let what = Command::Decide { call_id: request.call_id, decision };
        vec![Effect::Send(match subagent {
            Some(call_id) => Command::ToSubagent { call_id, what: Box::new(what) },
            None => what,
        })]
    }

    /// Returns the jobs that parse the code of the question. Each job is returned only once.
    pub fn jobs(&self) -> Vec<Job> {
        let Some(asked) = self.queue.front() else { return Vec::new() };
        let changes = asked.code.iter().flat_map(ChangedCode::jobs);
        changes.chain(asked.command.iter().filter_map(Code::wanted)).collect()
    }

    fn question(&self, width: u16, theme: &Theme, spacing: Spacing) -> Vec<Line<'static>> {
        let Some(asked) = self.queue.front() else { return Vec::new() };
        let request = &asked.request;
        let question = Question::new(width, theme, &self.paths, spacing);
        if matches!(self.step, Step::Always) {
            return question.always(request, self.files.as_ref());
        }
        if is_plan(request) {
            return question.plan(request);
        }
        let at = if let Step::Hunks(at) = self.step { Some(at) } else { None };
        question.call(asked, self.queue.len() - 1, &self.rejected, at)
    }

    /// Returns the height in rows that the question needs with this spacing.
    pub fn height(&self, width: u16, theme: &Theme, spacing: Spacing) -> u16 {
        let answers: Vec<Answer> = self.answers().into_iter().map(|(_, answer)| answer).collect();
        let keys = if spacing.parts_keys() { 2 } else { 1 };
        let foot = AnswerList::rows(&answers, usize::from(width)) + keys;
        (self.question(width, theme, spacing).len() + foot).min(usize::from(u16::MAX)) as u16
    }

    /// Returns the greatest height of the question at which all of its rows still fit into `room` rows after a terminal
    /// wraps them at `columns`.
    pub(crate) fn rows_in(&self, width: u16, theme: &Theme, columns: u16, room: usize) -> u16 {
        let broken = |lines: &[Line<'_>]| -> Vec<usize> {
            lines.iter().map(|line| print::broken(line, columns)).collect()
        };
        // The height decides which form is drawn: see `spacing`.
        let forms = [Spacing::Tight, Spacing::Short].map(|form| broken(&self.question(width, theme, form)));
        let tallest = usize::from(self.height(width, theme, Spacing::Tight));
        let rows = |most: usize| &forms[usize::from(most < tallest && most < usize::from(SHORT))];
        let foot = |most: usize| {
            let body = rows(most).len();
            let foot = self.foot(width, most, body, Spacing::Tight, Writing::default(), theme).lines;
            let keys = usize::from(width.div_ceil(columns.max(1)));
            (foot.len(), broken(&foot[..foot.len() - 1]).iter().sum::<usize>() + keys)
        };
        let fits = |most: &usize| {
            let (foot, broken) = foot(*most);
            let rows = rows(*most);
            let window = most.saturating_sub(foot).clamp(1, rows.len().max(1));
            let room = room.saturating_sub(broken);
            rows.windows(window).all(|part| part.iter().sum::<usize>() <= room)
        };
        (1..=tallest).rev().find(fits).unwrap_or(2).min(usize::from(u16::MAX)) as u16
    }

    /// Returns the most generous spacing with which the question fits. If none does, the screen's height decides.
    fn spacing(&self, area: Rect, theme: &Theme) -> Spacing {
        let fits = |spacing: &Spacing| self.height(area.width, theme, *spacing) <= area.height;
        let short = if area.height < SHORT { Spacing::Short } else { Spacing::Tight };
        [Spacing::Airy, Spacing::Near, Spacing::Close, Spacing::Tight].into_iter().find(fits).unwrap_or(short)
    }

    /// Draws the question. While the answers have the keyboard, the terminal's cursor is at the chosen answer.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, writing: Writing, theme: &Theme) {
        let spacing = self.spacing(area, theme);
        let question = self.question(area.width, theme, spacing);
        let (width, height) = (area.width, usize::from(area.height));
        let foot = |this: &Self| this.foot(width, height, question.len(), spacing, writing, theme);
        self.rows = question.len();
        self.window = usize::from(area.height).saturating_sub(foot(self).lines.len());
        if std::mem::take(&mut self.follow)
            && let Some(at) = question.iter().position(question::is_looked_at)
        {
            self.scroll = at.saturating_sub(1);
        }
        self.scroll = self.scroll.min(self.rows.saturating_sub(self.window));
        self.seen_end |= self.scroll + self.window >= self.rows && area.width > 0 && self.window > 0;
        // The foot depends on the end having been seen, so it is made after that is known.
        let foot = foot(self);
        let shown = question.iter().skip(self.scroll).take(self.window);
        // If there are too few rows for the foot, the line of keys is kept.
        let skip = foot.lines.len().saturating_sub(usize::from(area.height));
        let rows: Vec<&Line<'_>> = shown.chain(foot.lines.iter().skip(skip)).collect();
        let top = usize::from(area.height).saturating_sub(rows.len());
        for (i, line) in rows.iter().enumerate() {
            let y = area.y + (top + i) as u16;
            frame.buffer_mut().set_line(area.x, y, line, area.width);
            if line.style.bg.is_some() {
                let from = crate::text::line_width(line).min(usize::from(area.width)) as u16;
                let rest = Rect { x: area.x + from, y, width: area.width - from, height: 1 };
                frame.buffer_mut().set_style(rest, line.style);
            }
        }
        let row = rows.len().saturating_sub(foot.lines.len() - foot.cursor);
        if self.is_focused() && area.height > 0 && area.width > 0 {
            let y = area.y + (top + row).min(usize::from(area.height) - 1) as u16;
            frame.set_cursor_position(Position::new(area.x, y));
        }
    }
}

/// True if the request is a plan that the user may agree to.
fn is_plan(request: &PermissionRequest) -> bool {
    request.secrets.is_none() && becket_types::sdk_names::own_name(&request.tool) == "exit_plan"
}

/// Returns the number of hunks in the request's preview.
fn hunks(request: &PermissionRequest) -> usize {
    request.preview.iter().map(|file| file.hunks.len()).sum()
}
