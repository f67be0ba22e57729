//! The context inspector: every request as it was sent, what it is made of, the exact bytes, what differs from the request
//! before; and what the model would see next, with items to drop, collapse and pin.
//!
//! Owns which page is open and what is chosen on it. Pages come from the host, changes from the agent: each is shown with
//! what it does to the cache, and asked about once. This is the one pane that shows what is for the model only: a person
//! opened it to see exactly that. Nothing of it outlives the pane.

mod draw;
mod list;

use crate::answers::{AnswerList, Pressed};
use crate::input::{Effect, Request, Timer};
use becket_types::{Command, ContextChange, ContextPlan};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use draw::Wrapped;
use list::List;

/// What the host is asked for. Request 0 is what would be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inspect {
    Requests,
    Spans {
        request: usize,
    },
    /// The bytes of the span with this place in [`Inspected::Spans`].
    Bytes {
        request: usize,
        span: usize,
    },
    /// What differs from the request before.
    Diff {
        request: usize,
    },
}

/// The host's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Inspected {
    Requests(Vec<SentRow>),
    Spans { head: String, rows: Vec<SpanRow> },
    Text { title: String, text: String },
}

/// A request that was sent. Sizes are as the provider reported them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentRow {
    /// From 1; 0: it was not sent yet.
    pub number: usize,
    /// Day and time of day.
    pub time: String,
    pub tokens: Option<u64>,
    pub cached: Option<u64>,
    /// What it was for, where that is no step of a turn; what changed before it that the cache had; why the cache missed.
    pub notes: Vec<String>,
}

/// A span of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanRow {
    pub seq: Option<u64>,
    pub kind: String,
    /// Rules file, tool, role.
    pub label: String,
    /// File, call, compaction or model that it is from.
    pub source: Option<String>,
    pub tokens: u64,
    /// `read`, `written`, `fresh`; empty where nothing is known.
    pub cache: String,
    /// Whether the request before had these bytes at this place.
    pub sent_before: Option<bool>,
    /// Where it stands in the bytes.
    pub bytes: Option<(usize, usize)>,
    /// What was done to it: `pruned`, `escaped`, …
    pub applied: Vec<String>,
    pub preview: String,
    /// People do not see it anywhere else.
    pub hidden: bool,
}

/// The answers to a change, long and short.
const ANSWERS: [(&str, &str); 2] = [("Yes, change it", "yes"), ("No, leave it", "no")];

/// One page; what it was opened from lies below it.
enum Level {
    Requests(Option<List<SentRow>>),
    Spans { request: usize, page: Option<(String, List<SpanRow>)> },
    Text { title: String, text: Option<Wrapped> },
}

pub struct Inspector {
    levels: Vec<Level>,
    /// What the host was asked last; anything else that comes is late.
    awaited: Option<Inspect>,
    /// What a change would do, and the answers to that.
    asking: Option<(ContextPlan, AnswerList)>,
    /// What came of the last key, in a line.
    said: String,
    /// The list of requests is of before a change.
    stale: bool,
    /// Rows of the page on the last frame.
    rows: usize,
}

impl Inspector {
    /// At the list of requests, or at the spans of one.
    pub fn open(request: Option<usize>) -> (Self, Vec<Effect>) {
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

    /// The host's answer; one to a page that was left is dropped.
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

    /// What a change would do: it can be answered once it has been read.
    pub fn planned(&mut self, plan: ContextPlan) {
        self.said.clear();
        self.asking = Some((plan, AnswerList::default()));
    }

    /// It was painted.
    pub fn painted(&mut self) -> Vec<Effect> {
        let wake = self.asking.as_mut().and_then(|(_, list)| list.painted(false));
        wake.map(|millis| Effect::Wake(millis, Timer::Page)).into_iter().collect()
    }

    /// The time that [`Self::painted`] asked for is over.
    pub fn arm(&mut self) {
        if let Some((_, list)) = &mut self.asking {
            list.due(false);
        }
    }

    /// The context is another one: the pages are asked for anew.
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

    /// What the agent or the host has to say while the pane hides where it would stand.
    pub fn say(&mut self, what: &str) {
        what.clone_into(&mut self.said);
    }

    /// Whether it waits for an answer.
    pub fn is_asking(&self) -> bool {
        self.asking.is_some()
    }

    /// `None`: it closes.
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

    /// Yes is the first answer, no the second. There is nothing to write here: other keys do nothing.
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

    /// Up (negative) or down by rows.
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

    /// What lay below is on top again: the list is asked for where it was never there or is of before a change.
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
                let Some(request) = list.row().map(|row| row.number) else { return Vec::new() };
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
            Some(Level::Requests(Some(list))) => list.row().map(|row| row.number),
            Some(Level::Spans { request, .. }) => Some(*request),
            _ => None,
        };
        request.map_or_else(Vec::new, |request| self.text("what differs", Inspect::Diff { request }))
    }

    fn text(&mut self, title: &str, asked: Inspect) -> Vec<Effect> {
        self.levels.push(Level::Text { title: title.to_owned(), text: None });
        self.ask(asked)
    }

    /// The chosen span's message, left out, made a stub or pinned: the agent says what that would do.
    fn change_item(&mut self, key: char) -> Vec<Effect> {
        let Some(Level::Spans { page: Some((_, list)), .. }) = self.levels.last() else { return Vec::new() };
        let Some(seq) = list.row().and_then(|row| row.seq).filter(|seq| *seq > 0) else {
            "this is no message of the session; only those can be changed here".clone_into(&mut self.said);
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
