//! Context inspector: every request as it was sent, its spans (system prompt, tools, messages), their exact bytes, and the differences to
//! the previous request. It also shows the request that would be sent next, whose items can be dropped, collapsed and pinned.
//!
//! Owns the open page and the chosen row on it. Pages come from the host and changes from the agent. Each change is
//! shown with its effect on the cache, and confirmed once. This is the only pane that shows content meant for the model
//! alone, because the user opens it to see exactly that. Nothing is kept when the pane closes.

mod draw;
mod list;
mod page;

use crate::answers::{AnswerList, Pressed};
use crate::input::{Effect, Request, Timer};
use becket_types::{Command, ContextChange, ContextPlan};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use draw::Wrapped;
use list::List;
pub use page::{Inspect, Inspected, InspectedRequest, SentRow, SpanRow};

/// Answers to a change, in long and short form.
const ANSWERS: [(&str, &str); 2] = [("Yes, change it", "yes"), ("No, leave it", "no")];

/// A page, stacked on the page that it was opened from.
enum Level {
    Requests(Option<List<SentRow>>),
    Spans { request: InspectedRequest, page: Option<(String, List<SpanRow>)> },
    Text { title: String, text: Option<Wrapped> },
}

/// State of the open inspector.
pub struct Inspector {
    levels: Vec<Level>,
    /// The request that the host answers next. Answers to any other request are late and dropped.
    awaited: Option<Inspect>,
    /// The plan of a change, and the answers to it.
    asking: Option<(ContextPlan, AnswerList)>,
    /// The result of the last key, in one line.
    said: String,
    /// A change has made the list of requests out of date.
    stale: bool,
    /// Rows of the page on the last frame.
    rows: usize,
}

impl Inspector {
    /// Opens the list of requests, or the spans of one request.
    pub fn open(request: Option<InspectedRequest>) -> (Self, Vec<Effect>) {
        let mut inspector = Self {
            levels: Vec::new(),
            awaited: None,
            asking: None,
            said: String::new(),
            stale: false,
            rows: 1,
        };
        inspector.levels.push(Level::Requests(None));
        let asked = match request {
            None => Inspect::Requests,
            Some(request) => {
                inspector.levels.push(Level::Spans { request, page: None });
                Inspect::Spans { request }
            }
        };
        let effects = inspector.ask(asked);
        (inspector, effects)
    }

    fn ask(&mut self, asked: Inspect) -> Vec<Effect> {
        self.awaited = Some(asked);
        vec![Effect::Ask(Request::Inspect(asked))]
    }

    /// Handles the host's answer. An answer for a page that was closed is dropped.
    pub fn answered(&mut self, asked: Inspect, result: Result<Inspected, String>) -> Vec<Effect> {
        if self.awaited != Some(asked) {
            return Vec::new();
        }
        self.awaited = None;
        match (self.levels.last_mut(), result) {
            (Some(Level::Requests(rows)), Ok(Inspected::Requests(new))) => {
                let at = rows.as_ref().map_or(0, List::at);
                *rows = Some(List::new(new, at));
            }
            (Some(Level::Spans { page, .. }), Ok(Inspected::Spans { head, rows })) => {
                let at = page.as_ref().map_or(0, |(_, list)| list.at());
                *page = Some((head, List::new(rows, at)));
            }
            (Some(Level::Text { title, text }), Ok(Inspected::Text { title: named, text: new })) => {
                *title = named;
                *text = Some(Wrapped::new(new));
            }
            (Some(Level::Requests(rows)), Err(why)) => {
                rows.get_or_insert_with(|| List::new(Vec::new(), 0));
                self.said = why;
            }
            (Some(Level::Text { text: None, .. } | Level::Spans { page: None, .. }), Err(why)) => {
                self.levels.pop();
                self.said = why;
                return self.uncovered();
            }
            (_, Err(why)) => self.said = why,
            _ => {}
        }
        Vec::new()
    }

    /// Shows the plan of a change. It can be answered once it has been read.
    pub fn planned(&mut self, plan: ContextPlan) {
        self.said.clear();
        self.asking = Some((plan, AnswerList::default()));
    }

    /// Records that the page was drawn.
    pub fn painted(&mut self) -> Vec<Effect> {
        let wake = self.asking.as_mut().and_then(|(_, list)| list.painted(false));
        wake.map(|millis| Effect::Wake(millis, Timer::Page)).into_iter().collect()
    }

    /// Handles the end of the time that [`Self::painted`] asked for.
    pub fn arm(&mut self) {
        if let Some((_, list)) = &mut self.asking {
            list.due(false);
        }
    }

    /// Records a paste, which answers no question.
    pub(crate) fn pasted(&mut self) {
        if let Some((_, list)) = &mut self.asking {
            list.pasted();
        }
    }

    /// Requests the pages again after the context changed.
    pub fn changed(&mut self, what: &str) -> Vec<Effect> {
        self.asking = None;
        what.clone_into(&mut self.said);
        self.stale = self.levels.len() > 1;
        match self.levels.last() {
            Some(Level::Spans { request, .. }) => {
                let request = *request;
                self.ask(Inspect::Spans { request })
            }
            Some(Level::Requests(_)) => self.ask(Inspect::Requests),
            _ => Vec::new(),
        }
    }

    /// Shows a line from the agent or the host, because the pane hides the transcript.
    pub fn say(&mut self, what: &str) {
        what.clone_into(&mut self.said);
    }

    /// True while a plan waits for an answer.
    pub(crate) fn is_asking(&self) -> bool {
        self.asking.is_some()
    }

    /// Handles a key; `None`: the pane closes.
    pub fn key(&mut self, key: KeyEvent) -> Option<Vec<Effect>> {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        if ctrl && matches!(key.code, KeyCode::Char('c')) {
            return None;
        }
        if self.asking.is_some() {
            return Some(self.asked_key(key));
        }
        self.said.clear();
        match key.code {
            KeyCode::Esc | KeyCode::Left | KeyCode::Backspace | KeyCode::Char('q' | 'h') => {
                return self.back();
            }
            KeyCode::Enter | KeyCode::Right | KeyCode::Char('l') => return Some(self.enter()),
            KeyCode::Char('=') => return Some(self.compare()),
            KeyCode::Char('u') => return Some(change(ContextChange::Undo)),
            KeyCode::Char('r') => return Some(change(ContextChange::Redo)),
            KeyCode::Char(c @ ('d' | 'c' | 'p')) => return Some(self.change_item(c)),
            _ => {}
        }
        let page = self.rows.max(1) as isize;
        self.go(match key.code {
            KeyCode::Up | KeyCode::Char('k') => -1,
            KeyCode::Down | KeyCode::Char('j') => 1,
            KeyCode::PageUp => -page,
            KeyCode::PageDown | KeyCode::Char(' ') => page,
            KeyCode::Home | KeyCode::Char('g') => isize::MIN / 2,
            KeyCode::End | KeyCode::Char('G') => isize::MAX / 2,
            _ => 0,
        });
        Some(Vec::new())
    }

    /// Handles a key while a plan is shown: yes is the first answer, no the second. Other keys do nothing, because the
    /// inspector has no text field.
    fn asked_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let Some((plan, list)) = &mut self.asking else { return Vec::new() };
        let plan = plan.plan;
        let pressed = list.key(key, ANSWERS.len(), false);
        match pressed {
            Pressed::Chosen(0) => {
                self.asking = None;
                "on its way …".clone_into(&mut self.said);
                return vec![Effect::Send(Command::CarryOut { plan, force: false })];
            }
            Pressed::Text if key.code != KeyCode::Esc => {}
            Pressed::Taken => {}
            Pressed::Chosen(_) | Pressed::Refused | Pressed::Text => {
                self.asking = None;
                "nothing was changed".clone_into(&mut self.said);
            }
        }
        Vec::new()
    }

    /// Scrolls by rows: up if negative, else down.
    pub fn go(&mut self, by: isize) {
        match self.levels.last_mut() {
            Some(Level::Requests(Some(list))) => list.go(by),
            Some(Level::Spans { page: Some((_, list)), .. }) => list.go(by),
            Some(Level::Text { text: Some(text), .. }) => text.go(by),
            _ => {}
        }
    }

    fn back(&mut self) -> Option<Vec<Effect>> {
        self.levels.pop();
        self.awaited = None;
        if self.levels.is_empty() { None } else { Some(self.uncovered()) }
    }

    /// Shows the page below the closed one. The list of requests is requested again if it never arrived or is out of
    /// date.
    fn uncovered(&mut self) -> Vec<Effect> {
        match self.levels.last() {
            Some(Level::Requests(rows)) if rows.is_none() || self.stale => {
                self.stale = false;
                self.ask(Inspect::Requests)
            }
            _ => Vec::new(),
        }
    }

    fn enter(&mut self) -> Vec<Effect> {
        match self.levels.last() {
            Some(Level::Requests(Some(list))) => {
                let Some(request) = list.row().map(|row| row.request) else { return Vec::new() };
                self.levels.push(Level::Spans { request, page: None });
                self.ask(Inspect::Spans { request })
            }
            Some(Level::Spans { request, page: Some((_, list)) }) => {
                let asked = Inspect::Bytes { request: *request, span: list.at() };
                self.text("bytes", asked)
            }
            _ => Vec::new(),
        }
    }

    fn compare(&mut self) -> Vec<Effect> {
        let request = match self.levels.last() {
            Some(Level::Requests(Some(list))) => list.row().map(|row| row.request),
            Some(Level::Spans { request, .. }) => Some(*request),
            _ => None,
        };
        request.map_or_else(Vec::new, |request| self.text("what differs", Inspect::Diff { request }))
    }

    fn text(&mut self, title: &str, asked: Inspect) -> Vec<Effect> {
        self.levels.push(Level::Text { title: title.to_owned(), text: None });
        self.ask(asked)
    }

    /// Asks the agent what it would mean to drop, collapse or pin the chosen span's message.
    fn change_item(&mut self, key: char) -> Vec<Effect> {
        let Some(Level::Spans { page: Some((_, list)), .. }) = self.levels.last() else { return Vec::new() };
        let Some(seq) = list.row().and_then(|row| row.seq).filter(|seq| *seq > 0) else {
            "this is not a message of the session; only those can be changed here".clone_into(&mut self.said);
            return Vec::new();
        };
        let items = vec![seq.to_string()];
        change(match key {
            'd' => ContextChange::Drop { items },
            'c' => ContextChange::Collapse { items },
            _ => ContextChange::Pin { items },
        })
    }
}

fn change(change: ContextChange) -> Vec<Effect> {
    vec![Effect::Send(Command::ChangeContext(change))]
}
