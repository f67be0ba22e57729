//! Whose rules make a context of the history: becket's own engine, and small honest versions of what others do.
//!
//! becket's is the real one: a session with its ledger, view, compaction and search of the past. The others work on the same
//! messages: their summariser reads what their context holds, and has the same dial.

use crate::recall::summariser::Summariser;
use crate::recall::task::{Act, Call, Fact, Task};
use becket_session::context::budget::{Budget, estimate_message, estimate_text};
use becket_session::context::compaction::{Failure, Floor, Request, Snapshot, Step, begin};
use becket_session::context::{ModelScope, Policy, compaction};
use becket_session::{CreateOptions, Durability, Session};
use becket_types::{
    CallId, CompactionTrigger, EntryKind, FinishReason, JournalState, Message, MessageId, Millis, Part,
    Tokens,
};
use serde_json::Value;
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Becket,
    /// becket without the assistant's last words before the cut.
    NoAnchor,
    /// The summary replaces the head; the last two turns stay, within a quarter of the window and 8,000 tokens; outputs of
    /// tools beyond the newest 40,000 tokens of them are cleared before.
    Opencode,
    /// The summary replaces everything but the user's last message.
    SummaryOnly,
    /// The oldest messages go until half of the window is free.
    Sliding,
}

pub(crate) const ENGINES: [(Engine, &str); 5] = [
    (Engine::Becket, "becket"),
    (Engine::NoAnchor, "becket, no anchor"),
    (Engine::Opencode, "opencode's rules"),
    (Engine::SummaryOnly, "summary only"),
    (Engine::Sliding, "sliding window"),
];

/// Results that a search shows, as the tool `recall` does.
const PLACES: usize = 10;

/// What is left at the end of a task, fact by fact.
pub(crate) struct Left {
    pub(crate) present: Vec<bool>,
    /// In the context, or in what one search shows that names the subject; and one that does not.
    pub(crate) reachable: Vec<bool>,
    pub(crate) vaguely: Vec<bool>,
    /// The model's own plan from right before the last cut.
    pub(crate) plan: bool,
    /// Of the context, estimated.
    pub(crate) tokens: u64,
}

pub(crate) fn run(
    engine: Engine,
    number: u64,
    task: &Task,
    window: u64,
    summariser: &Summariser,
) -> Result<Left, String> {
    match engine {
        Engine::Becket | Engine::NoAnchor => {
            let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
            let mut real =
                Real::new(dir.path(), engine, number, window).map_err(|error| error.to_string())?;
            for act in &task.acts {
                real.act(act, &task.facts, summariser)?;
            }
            real.left(task)
        }
        Engine::Opencode | Engine::SummaryOnly | Engine::Sliding => {
            let mut plain =
                Plain { engine, number, window, messages: Vec::new(), summary: String::new(), rounds: 0 };
            for act in &task.acts {
                plain.act(act, &task.facts, summariser)?;
            }
            Ok(plain.left(task))
        }
    }
}

/// The real engine.
struct Real {
    session: Session,
    number: u64,
    window: u64,
    calls: u64,
    rounds: u64,
}

impl Real {
    fn new(dir: &Path, engine: Engine, number: u64, window: u64) -> Result<Self, becket_session::StoreError> {
        let anchor_chars = if engine == Engine::NoAnchor { 0 } else { Policy::default().anchor_chars };
        let policy = Policy { anchor_chars, ..Policy::default() };
        let scope = ModelScope {
            provider: "p".into(),
            model: "m".into(),
            images: false,
            max_images: 0,
            max_media_bytes: 0,
        };
        let session = Session::create(dir, dir, CreateOptions::default(), policy, scope)?;
        Ok(Self { session, number, window, calls: 0, rounds: 0 })
    }

    fn put(&mut self, kinds: Vec<EntryKind>) -> Result<(), String> {
        self.session.append(kinds, Durability::Buffered).map(drop).map_err(|error| error.to_string())
    }

    fn says(&mut self, parts: Vec<Part>, reason: FinishReason) -> Result<(), String> {
        let message = Message::assistant(parts);
        let id = message.id;
        self.put(vec![EntryKind::Message { message }, EntryKind::Finish { message: id, reason }])
    }

    fn act(&mut self, act: &Act, facts: &[Fact], summariser: &Summariser) -> Result<(), String> {
        match act {
            Act::User(text) => self.put(vec![EntryKind::Message { message: Message::user(text) }]),
            Act::Says(text) => self.says(vec![Part::text(text)], FinishReason::Stop),
            Act::Call(call) => {
                self.calls += 1;
                let id = CallId(format!("c{}", self.calls));
                self.says(call_parts(call, &id), FinishReason::ToolCalls)?;
                let journal = |state, result| EntryKind::ToolJournal {
                    call_id: id.clone(),
                    state,
                    tool: Some(call.tool.to_owned()),
                    subject: Some(call.subject.clone()),
                    result,
                };
                let message = Message::tool_result(id.clone(), call.tool, &*call.output, false);
                self.put(vec![
                    journal(JournalState::Started, Value::Null),
                    EntryKind::Message { message },
                    journal(JournalState::Finished, call.result()),
                ])
            }
            Act::Compact => self.compact(facts, summariser),
        }
    }

    fn compact(&mut self, facts: &[Fact], summariser: &Summariser) -> Result<(), String> {
        let budget = Budget::new(self.window, 0, 8_192);
        let used = self.session.view().estimated_tokens();
        let model = compaction::Summariser { name: "p/m".into(), budget, prices: None, cache_warm: false };
        let request = Request {
            trigger: CompactionTrigger::Auto,
            focus: None,
            floor: Floor::default(),
            used,
            budget,
            summariser: Some(model),
            continuation_id: MessageId::new(),
            now: Millis(0),
        };
        let mut step = begin(Snapshot::of(self.session.view(), request));
        while let Step::Ask(ask) = step {
            let request = ask.request();
            let text = summariser.write(self.number, self.rounds, facts, &request.system, &request.prompt);
            step = ask.answer(text.map_err(Failure::Error));
        }
        self.rounds += 1;
        match step {
            Step::Commit(outcome) => self.put(outcome.entries),
            other => Err(format!("task {}: {other:?}", self.number)),
        }
    }

    fn left(mut self, task: &Task) -> Result<Left, String> {
        let mut context = String::new();
        for message in &self.session.view_mut().context().messages {
            context.push_str(&shown(&message.message));
        }
        let present: Vec<bool> = task.facts.iter().map(|fact| context.contains(&fact.key)).collect();
        let session = &self.session;
        let find = |query: &str, key: &str| -> Result<bool, String> {
            let past = session.past().map_err(|error| error.to_string())?;
            let found = past.search(query, PLACES).map_err(|error| error.to_string())?;
            Ok(found.places.iter().any(|place| place.snippet.contains(key)))
        };
        let all = |query: &dyn Fn(&Fact) -> String| -> Result<Vec<bool>, String> {
            let facts = task.facts.iter().zip(&present);
            facts.map(|(fact, present)| Ok(*present || find(&query(fact), &fact.key)?)).collect()
        };
        Ok(Left {
            reachable: all(&Fact::question)?,
            vaguely: all(&|fact| fact.vague_question().to_owned())?,
            plan: context.contains(&task.plan),
            tokens: estimate_text(&context).0,
            present,
        })
    }
}

fn call_parts(call: &Call, id: &CallId) -> Vec<Part> {
    let said = (!call.text.is_empty()).then(|| Part::text(&*call.text));
    said.into_iter().chain([Part::tool_call(id.as_str(), call.tool, call.input())]).collect()
}

/// A message as the model sees it.
fn shown(message: &Message) -> String {
    message.parts.iter().fold(String::new(), |text, part| match part {
        Part::Text { text: said, .. } => text + said + "\n",
        Part::ToolCall { name, input, .. } => text + name + " " + &input.to_string() + "\n",
        Part::ToolResult { output, .. } => text + output + "\n",
        _ => text,
    })
}

/// The rules of others, over plain messages.
struct Plain {
    engine: Engine,
    number: u64,
    window: u64,
    messages: Vec<Message>,
    summary: String,
    rounds: u64,
}

impl Plain {
    fn act(&mut self, act: &Act, facts: &[Fact], summariser: &Summariser) -> Result<(), String> {
        match act {
            Act::User(text) => self.messages.push(Message::user(text)),
            Act::Says(text) => self.messages.push(Message::assistant(vec![Part::text(text)])),
            Act::Call(call) => {
                let id = CallId(format!("c{}", self.messages.len()));
                self.messages.push(Message::assistant(call_parts(call, &id)));
                self.messages.push(Message::tool_result(id, call.tool, &*call.output, false));
            }
            Act::Compact => self.compact(facts, summariser)?,
        }
        Ok(())
    }

    fn compact(&mut self, facts: &[Fact], summariser: &Summariser) -> Result<(), String> {
        self.rounds += 1;
        let tail = match self.engine {
            Engine::Sliding => {
                self.keep(self.window / 2);
                return Ok(());
            }
            Engine::Opencode => {
                self.clear_outputs(40_000);
                (self.window / 4).clamp(2_000, 8_000)
            }
            _ => 0,
        };
        let head: String = self.messages.iter().map(shown).collect();
        let input = format!("{}\n{head}", self.summary);
        self.summary = summariser.write(self.number, self.rounds - 1, facts, "", &input)?;
        self.keep(tail);
        Ok(())
    }

    /// The newest messages within so many tokens, and always the user's last one.
    fn keep(&mut self, tokens: u64) {
        let mut left = tokens;
        let mut from = self.messages.len();
        for (at, message) in self.messages.iter().enumerate().rev() {
            let size = estimate_message(message).0;
            if size > left {
                break;
            }
            (left, from) = (left - size, at);
        }
        let last = self.messages.iter().rposition(Message::is_user_turn).filter(|at| *at < from);
        let tail = self.messages.split_off(from);
        self.messages = last.map(|at| self.messages.swap_remove(at)).into_iter().chain(tail).collect();
    }

    /// Outputs beyond the newest `protected` tokens of them lose their text.
    fn clear_outputs(&mut self, protected: u64) {
        let mut seen = Tokens(0);
        for message in self.messages.iter_mut().rev() {
            for part in &mut message.parts {
                if let Part::ToolResult { output, .. } = part {
                    seen += estimate_text(output);
                    if seen.0 > protected {
                        "[cleared]".clone_into(output);
                    }
                }
            }
        }
    }

    fn left(self, task: &Task) -> Left {
        let context = self.messages.iter().fold(self.summary, |text, message| text + "\n" + &shown(message));
        let present: Vec<bool> = task.facts.iter().map(|fact| context.contains(&fact.key)).collect();
        Left {
            reachable: present.clone(),
            vaguely: present.clone(),
            plan: context.contains(&task.plan),
            tokens: estimate_text(&context).0,
            present,
        }
    }
}
