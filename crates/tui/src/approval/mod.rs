//! The question whether a call may run, and its answer.
//!
//! What is shown is what runs: the tool, the resolved paths, the whole command with invisible characters shown, the change
//! by hunks. It asks one call after the other, in order. An answer counts only when the question has been on the screen for
//! [`ARM`] milliseconds without a key, and for [`ARM_TYPING`] where somebody was writing as it came: keys typed ahead and clicks
//! that only focus the window never approve. What is asked when in doubt is No.
//!
//! Owns the queue and the keys; what a question looks like is `question`'s.

mod question;

use crate::input::{Effect, Place, Request, Timer};
use crate::text;
use crate::theme::Theme;
use crate::transcript::print;
use becket_types::{CallId, Command, Decision, PermissionRequest};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use question::Question;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use std::collections::{BTreeSet, VecDeque};

/// A question must have been seen for this long, in milliseconds, and no key pressed meanwhile.
pub const ARM: u64 = 300;
/// At least so long where a message was half written as it came: people pause for longer than [`ARM`] in the middle of one.
pub const ARM_TYPING: u64 = 1_500;

#[derive(Debug, Default)]
pub struct Approvals {
    queue: VecDeque<Asked>,
    /// The first of the queue has been shown long enough.
    armed: bool,
    /// The timer of the first of the queue was asked for.
    waiting: bool,
    /// It has been painted before.
    seen: bool,
    /// The longer time runs; and a key came in it.
    typing: bool,
    pressed: bool,
    scroll: usize,
    /// Rows of the question, and of the window on it, when drawn last.
    rows: usize,
    window: usize,
    /// The end of the question has been in view.
    seen_end: bool,
    step: Step,
    /// The hunk that is looked at comes into view with the next frame.
    follow: bool,
    /// Hunks that are not wanted.
    rejected: BTreeSet<usize>,
}

/// A question, and whose call it is about.
#[derive(Debug)]
struct Asked {
    /// The subagent's that works for this call; `None`: the agent's own.
    subagent: Option<CallId>,
    request: PermissionRequest,
}

/// What the keys mean.
#[derive(Debug, Default)]
enum Step {
    #[default]
    Asked,
    /// Why not, while it is being written.
    Reason(String),
    /// Hunk by hunk; the one that is looked at.
    Hunks(usize),
    /// Always: for whom?
    Always,
}

impl Approvals {
    pub fn is_open(&self) -> bool {
        !self.queue.is_empty()
    }

    /// `subagent`: the call that the subagent works for whose call this is about.
    pub fn ask(&mut self, subagent: Option<CallId>, request: PermissionRequest) -> Vec<Effect> {
        let text = format!("{} waits for permission", request.tool);
        self.queue.push_back(Asked { subagent, request });
        vec![Effect::Notify(text)]
    }

    /// The call was settled elsewhere. With a call goes what its subagent asked.
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

    pub fn clear(&mut self) {
        self.queue.clear();
        self.begin();
    }

    fn begin(&mut self) {
        let queue = std::mem::take(&mut self.queue);
        // Who answers one looks at the next.
        let seen = self.seen && !queue.is_empty();
        *self = Self { queue, seen, ..Self::default() };
    }

    /// The question was painted: its time begins. `drafting`: a message is half written.
    pub fn painted(&mut self, drafting: bool) -> Vec<Effect> {
        if self.queue.is_empty() || self.waiting {
            return Vec::new();
        }
        self.waiting = true;
        self.typing = drafting && !std::mem::replace(&mut self.seen, true);
        vec![Effect::Wake(if self.typing { ARM_TYPING } else { ARM }, Timer::Arm)]
    }

    pub fn arm(&mut self) {
        let wrote = std::mem::take(&mut self.typing) && self.pressed;
        if wrote {
            self.disarm();
        }
        self.armed = self.waiting;
    }

    /// The time begins anew, with the next frame.
    fn disarm(&mut self) {
        (self.armed, self.waiting) = (false, false);
    }

    pub fn scroll(&mut self, lines: isize) {
        self.scroll = self.scroll.saturating_add_signed(lines);
    }

    pub fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        if let Step::Reason(reason) = &mut self.step {
            match key.code {
                KeyCode::Enter => {
                    let reason = Some(reason.trim().to_owned()).filter(|r| !r.is_empty());
                    return self.decide(Decision::Deny { reason });
                }
                KeyCode::Esc => self.step = Step::Asked,
                KeyCode::Backspace => {
                    reason.pop();
                }
                KeyCode::Char(c) if !key.modifiers.contains(KeyModifiers::CONTROL) => reason.push(c),
                _ => {}
            }
            return Vec::new();
        }
        let page = self.window.max(1);
        match key.code {
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(page),
            KeyCode::PageDown => self.scroll += page,
            // Somebody is typing something else: the question has not been seen yet.
            _ if !self.armed && self.typing => self.pressed = true,
            _ if !self.armed => self.disarm(),
            _ => {
                return match self.step {
                    Step::Hunks(at) => self.hunk_key(key, at),
                    Step::Always => self.always_key(key),
                    Step::Asked | Step::Reason(_) => self.answer_key(key),
                };
            }
        }
        Vec::new()
    }

    fn answer_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let Some(Asked { request, .. }) = self.queue.front() else { return Vec::new() };
        let whole = self.rejected.is_empty();
        match key.code {
            KeyCode::Up => self.scroll(-1),
            KeyCode::Down => self.scroll(1),
            KeyCode::Char(' ') => self.scroll += self.window.max(1),
            KeyCode::Char('y') if self.seen_end && whole => return self.decide(Decision::AllowOnce),
            KeyCode::Char('y') if self.seen_end => return self.decide(self.without()),
            KeyCode::Char('s') if self.seen_end && whole => return self.decide(Decision::AllowSession),
            KeyCode::Char('a') if self.seen_end && whole && request.offer.is_some() => {
                self.step = Step::Always;
                self.seen_end = false;
                self.disarm();
            }
            KeyCode::Char('h') if hunks(request) > 1 => self.look_at(0),
            KeyCode::Char('n') | KeyCode::Enter | KeyCode::Esc => {
                return self.decide(Decision::Deny { reason: None });
            }
            KeyCode::Char('r') => self.step = Step::Reason(String::new()),
            _ => {}
        }
        Vec::new()
    }

    fn without(&self) -> Decision {
        Decision::AllowWithout { rejected: self.rejected.iter().copied().collect() }
    }

    fn look_at(&mut self, hunk: usize) {
        (self.step, self.follow) = (Step::Hunks(hunk), true);
    }

    fn hunk_key(&mut self, key: KeyEvent, at: usize) -> Vec<Effect> {
        let count = self.queue.front().map_or(0, |asked| hunks(&asked.request));
        match key.code {
            KeyCode::Up | KeyCode::Char('k') => self.look_at(at.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.look_at((at + 1).min(count.max(1) - 1)),
            KeyCode::Char(' ' | 'x') if !self.rejected.remove(&at) => {
                self.rejected.insert(at);
            }
            KeyCode::Enter | KeyCode::Esc | KeyCode::Char('h') => self.step = Step::Asked,
            KeyCode::Char('r') => self.step = Step::Reason(String::new()),
            // Nothing is left of it.
            KeyCode::Char('y') if self.rejected.len() == count => {
                return self.decide(Decision::Deny { reason: None });
            }
            KeyCode::Char('y') if !self.seen_end => {}
            KeyCode::Char('y') if self.rejected.is_empty() => return self.decide(Decision::AllowOnce),
            KeyCode::Char('y') => return self.decide(self.without()),
            _ => {}
        }
        Vec::new()
    }

    fn always_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let place = match key.code {
            KeyCode::Char('u') if self.seen_end => Place::User,
            KeyCode::Char('p') if self.seen_end => Place::Local,
            KeyCode::Esc | KeyCode::Char('n') => {
                self.step = Step::Asked;
                self.disarm();
                return Vec::new();
            }
            _ => return Vec::new(),
        };
        let Some(offer) = self.queue.front().and_then(|asked| asked.request.offer.clone()) else {
            return Vec::new();
        };
        let mut effects = vec![Effect::Ask(Request::Allow { rule: offer.rule, place })];
        effects.extend(self.decide(Decision::AllowSession));
        effects
    }

    fn decide(&mut self, decision: Decision) -> Vec<Effect> {
        let Some(Asked { subagent, request }) = self.queue.pop_front() else { return Vec::new() };
        self.begin();
        let what = Command::Decide { call_id: request.call_id, decision };
        vec![Effect::Send(match subagent {
            Some(call_id) => Command::ToSubagent { call_id, what: Box::new(what) },
            None => what,
        })]
    }

    fn question(&self, width: u16, theme: &Theme) -> Vec<Line<'static>> {
        let Some(Asked { request, subagent }) = self.queue.front() else { return Vec::new() };
        let question = Question::new(width, theme);
        if matches!(self.step, Step::Always) {
            return question.always(request);
        }
        let at = if let Step::Hunks(at) = self.step { Some(at) } else { None };
        question.call(request, subagent.is_some(), self.queue.len() - 1, &self.rejected, at)
    }

    /// Rows it wants.
    pub fn height(&self, width: u16, theme: &Theme) -> u16 {
        (self.question(width, theme).len() + 2).min(usize::from(u16::MAX)) as u16
    }

    /// Rows it takes at most, so that `room` rows hold every part of it where a row is broken at `columns`.
    pub fn rows_in(&self, width: u16, theme: &Theme, columns: u16, room: usize) -> u16 {
        let rows: Vec<usize> =
            self.question(width, theme).iter().map(|line| print::broken(line, columns)).collect();
        // The line of keys is one of them.
        let room = room.saturating_sub(usize::from(width.div_ceil(columns.max(1))));
        let fits = |most: &usize| rows.windows(*most).all(|part| part.iter().sum::<usize>() <= room);
        let most = (1..=rows.len()).rev().find(fits).unwrap_or(1);
        (most + 1).min(usize::from(u16::MAX)) as u16
    }

    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &Theme) {
        let question = self.question(area.width, theme);
        self.rows = question.len();
        self.window = usize::from(area.height).saturating_sub(1);
        if std::mem::take(&mut self.follow)
            && let Some(at) = question.iter().position(question::is_looked_at)
        {
            self.scroll = at.saturating_sub(1);
        }
        self.scroll = self.scroll.min(self.rows.saturating_sub(self.window));
        self.seen_end |= self.scroll + self.window >= self.rows && area.width > 0 && self.window > 0;
        let buffer = frame.buffer_mut();
        for (i, line) in question.iter().skip(self.scroll).take(self.window).enumerate() {
            buffer.set_line(area.x, area.y + i as u16, line, area.width);
        }
        if area.height > 0 {
            let keys = self.keys(usize::from(area.width));
            buffer.set_line(area.x, area.bottom() - 1, &Line::styled(keys, theme.accent), area.width);
        }
    }

    /// The line of keys: the shortest form that says all where the long one has no room.
    fn keys(&self, width: usize) -> String {
        let Some(Asked { request, .. }) = self.queue.front() else { return String::new() };
        let (long, short) = match &self.step {
            Step::Reason(reason) => {
                let reason = text::visible(reason);
                (format!("why not: {reason}▏  Enter sends it, Esc goes back"), format!("why not: {reason}▏"))
            }
            Step::Hunks(_) if !self.seen_end => (
                "↑ ↓ hunk · space takes it or not · PageDown to its end, then y · Esc back".to_owned(),
                "space mark · PageDown · Esc".to_owned(),
            ),
            _ if !self.seen_end => {
                let several = if hunks(request) > 1 { " · h by hunks" } else { "" };
                (
                    format!("↓ there is more to read before it can be allowed{several} · n no"),
                    format!("↓ more{} · n no", several.replace(" by", "")),
                )
            }
            Step::Always => (
                "u in your settings · p for you in this project · Esc back".to_owned(),
                "u user · p project · Esc".to_owned(),
            ),
            Step::Hunks(_) => (
                "↑ ↓ hunk · space takes it or not · y does what is marked · Esc back".to_owned(),
                "space mark · y do · Esc".to_owned(),
            ),
            Step::Asked if !self.rejected.is_empty() => (
                format!("y without {} hunks · h hunks · n no · r no, and say why", self.rejected.len()),
                "y/h/n/r".to_owned(),
            ),
            Step::Asked => {
                let always = if request.offer.is_some() { " · a always" } else { "" };
                let several = if hunks(request) > 1 { " · h by hunks" } else { "" };
                (
                    format!("y once · s for this session{always}{several} · n no · r no, and say why"),
                    format!(
                        "y once · s session{}{} · n no · r why",
                        always.replace(" always", ""),
                        several.replace(" by hunks", " hunks")
                    ),
                )
            }
        };
        let fits = text::width(&long) <= width;
        text::fit(if fits { &long } else { &short }, width).into_owned()
    }
}

/// Hunks of its preview.
fn hunks(request: &PermissionRequest) -> usize {
    request.preview.iter().map(|file| file.hunks.len()).sum()
}
