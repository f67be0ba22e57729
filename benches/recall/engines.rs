//! The engines that are compared, and a session under the rules of one of them.
//!
//! becket's is the real engine ([`super::becket`]); the others are small honest versions of published rules ([`super::plain`]).

use crate::recall::becket::Becket;
use crate::recall::plain::Plain;
use crate::recall::spent::Spent;
use crate::recall::summariser::Summariser;
use crate::recall::task::{Act, Call, Fact, Kind, STEPS, Task, dice};
use becket_session::context::budget::Budget;
use becket_session::context::{Policy, SummaryPolicy};
use becket_types::{CallId, Message, Part};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Engine {
    Becket,
    /// becket without the anchor, the assistant's last words before the cut.
    NoAnchor,
    /// becket with another threshold, and another share of the window for its tail; for the best policy in hindsight.
    Tuned {
        threshold: f64,
        tail: Option<f64>,
    },
    /// A summary replaces what is older than the newest messages, which stay within a quarter of the window and 8,000
    /// tokens; outputs beyond the newest 40,000 tokens of outputs are cleared when that frees 20,000.
    Opencode,
    /// The user's newest messages up to 20,000 tokens and a summary replace everything, at 90 % of the window.
    Codex,
    /// The summary replaces everything but the user's last message.
    SummaryOnly,
    /// The oldest messages go until half of the window is free.
    Sliding,
}

pub(crate) const ENGINES: [(Engine, &str); 6] = [
    (Engine::Becket, "becket"),
    (Engine::NoAnchor, "becket, no anchor"),
    (Engine::Opencode, "opencode's rules"),
    (Engine::Codex, "Codex's local rules"),
    (Engine::SummaryOnly, "summary only"),
    (Engine::Sliding, "sliding window"),
];

/// Number of filler steps without a compaction after which the model writes instead of reading.
const PRUNED: u64 = 200;

/// System prompt and tools, in tokens.
pub(crate) fn floor(window: u64) -> u64 {
    (window / 40).min(4_000)
}

pub(crate) fn budget(window: u64) -> Budget {
    Budget::new(window, 0, 8_192)
}

/// A session under the rules of one engine.
pub(crate) trait Session {
    /// Takes the next act. Before an answer of the model a compaction is made, if one is due, and a request is sent.
    fn act(&mut self, act: &Act) -> Result<(), String>;
    /// All messages of the context as one text.
    fn shown(&mut self) -> String;
    /// True if one search with these words shows the fact.
    fn finds(&mut self, fact: &Fact, question: &str) -> Result<bool, String>;
    fn spent(&mut self) -> &mut Spent;
}

fn session<'a>(
    engine: Engine,
    task: &'a Task,
    window: u64,
    summariser: &'a Summariser,
) -> Result<Box<dyn Session + 'a>, String> {
    let facts = task.facts.clone();
    let by = By { number: task.number, language: task.other, facts, summariser };
    Ok(match engine {
        Engine::Opencode | Engine::Codex | Engine::SummaryOnly | Engine::Sliding => {
            Box::new(Plain::new(engine, window, by))
        }
        Engine::Becket => Box::new(Becket::new(window, Policy::default(), by)?),
        Engine::NoAnchor => {
            let summary = SummaryPolicy { anchor_chars: 0, ..SummaryPolicy::default() };
            Box::new(Becket::new(window, Policy { summary, ..Policy::default() }, by)?)
        }
        Engine::Tuned { threshold, tail } => {
            let keep = tail.map(|share| (budget(window).usable() as f64 * share) as u64);
            let policy = Policy { threshold, keep_recent_tokens: keep, ..Policy::default() };
            Box::new(Becket::new(window, policy, by)?)
        }
    })
}

/// The summariser of one session, with what it needs to know of the task.
pub(crate) struct By<'a> {
    number: u64,
    language: usize,
    facts: Vec<Fact>,
    summariser: &'a Summariser,
}

impl By<'_> {
    pub(crate) fn write(&self, round: u64, system: &str, input: &str) -> Result<String, String> {
        self.summariser.write(self.number, round, self.language, &self.facts, system, input)
    }
}

/// The state at the end of a task. `present` and `reachable` have one value for each fact.
pub(crate) struct Left {
    pub(crate) present: Vec<bool>,
    /// True if the fact is in the context, or in the results of one search.
    pub(crate) reachable: Vec<bool>,
    /// Kinds of the facts that are not reachable.
    pub(crate) lost: Vec<Kind>,
    /// Commands of which the model can no longer learn that they ran: it would run them again.
    pub(crate) repeated: u64,
    /// True if the model's plan from directly before the last cut is in the context.
    pub(crate) plan: bool,
    pub(crate) spent: Spent,
}

/// Plays a task until it was compacted `compactions` times, each time after the facts of one part of the task.
pub(crate) fn run(
    engine: Engine,
    number: u64,
    compactions: usize,
    window: u64,
    summariser: &Summariser,
) -> Result<Left, String> {
    let mut script = Task::new(number, compactions, budget(window).usable());
    let task = Task::new(number, compactions, budget(window).usable());
    let mut session = session(engine, &task, window, summariser)?;
    session.act(&script.first())?;
    for part in 0..compactions {
        for act in script.part(part) {
            session.act(&act)?;
        }
        let before = session.spent().compactions;
        for filler in 0.. {
            if session.spent().compactions > before {
                break;
            }
            if filler > 1_000 {
                return Err(format!("task {number}: no compaction in {filler} steps"));
            }
            // In a large window, pruning alone may free enough tokens for ever, so that no compaction would come.
            let act = if filler < PRUNED { script.silent() } else { script.writing() };
            session.act(&act)?;
        }
    }
    let context = session.shown();
    let present: Vec<bool> = task.facts.iter().map(|fact| fact.stands_in(&context)).collect();
    let mut reachable = Vec::new();
    for (fact, present) in task.facts.iter().zip(&present) {
        reachable.push(*present || session.finds(fact, &fact.question(task.language))?);
    }
    let lost = task.facts.iter().zip(&reachable).filter(|(_, reachable)| !**reachable);
    let lost = lost.map(|(fact, _)| fact.kind).collect();
    let commands = task.facts.iter().zip(&reachable).filter(|(fact, _)| fact.kind == Kind::Command);
    Ok(Left {
        repeated: commands.filter(|(_, reachable)| !**reachable).count() as u64,
        plan: context.contains(&script.plan(compactions - 1)),
        spent: session.spent().clone(),
        lost,
        present,
        reachable,
    })
}

/// Prices a task of fixed length, with a model that needs what it has learned: at every fourth step one of the planted
/// facts, at every fourth the output of an earlier step. The distance to that step is drawn so that each doubling is as
/// likely as the next, up to a whole window. A fact that is not in the context costs a search if that finds it, else the
/// work of finding it out again; an output costs its step once more.
pub(crate) fn cost(
    engine: Engine,
    number: u64,
    windows: usize,
    window: u64,
    summariser: &Summariser,
) -> Result<Spent, String> {
    let mut script = Task::new(number, windows, budget(window).usable());
    let task = Task::new(number, windows, budget(window).usable());
    let mut session = session(engine, &task, window, summariser)?;
    let mut outputs: Vec<Act> = Vec::new();
    session.act(&script.first())?;
    for part in 0..windows {
        for act in script.part(part) {
            session.act(&act)?;
        }
        for step in 0..48u64 {
            let act = script.filler();
            session.act(&act)?;
            outputs.push(act);
            let roll = dice(&[number, part as u64, step]) as usize;
            if step % 4 == 0 {
                let facts = |p| task.facts.iter().skip(p).step_by(windows);
                let said: Vec<&Fact> = (0..=part).flat_map(facts).collect();
                need_fact(&mut *session, &mut script, &task, said[roll % said.len()])?;
            } else if step % 4 == 2 {
                let age = (STEPS as f64).powf((roll % 1_000) as f64 / 1_000.0) as usize;
                let act = outputs[outputs.len().saturating_sub(age.max(1))].clone();
                let there = shows(&session.shown(), &act);
                if session.spent().need(there) {
                    session.act(&act)?;
                }
            }
        }
    }
    Ok(session.spent().clone())
}

fn need_fact(session: &mut dyn Session, script: &mut Task, task: &Task, fact: &Fact) -> Result<(), String> {
    let there = fact.stands_in(&session.shown());
    if !session.spent().need(there) {
        return Ok(());
    }
    let line = fact.line(task.language);
    let again = |tool, bytes: usize| {
        let subject = fact.subject.clone();
        let output = format!("{line}\n{}", "nothing else that matters\n".repeat(bytes / 26));
        Act::Step(vec![Call { text: String::new(), tool, subject, output }])
    };
    if session.finds(fact, &fact.question(task.language))? {
        return session.act(&again("recall", 3_000));
    }
    session.act(&script.filler())?;
    session.act(&again("grep", (task.usable() as usize * 4 / STEPS).max(3_000)))
}

/// True if the text holds a line of each output of the step.
fn shows(text: &str, act: &Act) -> bool {
    match act {
        Act::Step(calls) => calls.iter().all(|call| shows_a_line(text, &call.output)),
        Act::User(..) | Act::Says(_) => true,
    }
}

pub(crate) fn call_parts(call: &Call, id: &CallId) -> Vec<Part> {
    let said = (!call.text.is_empty()).then(|| Part::text(&*call.text));
    said.into_iter().chain([Part::tool_call(id.as_str(), call.tool, call.input())]).collect()
}

/// A message as the model sees it.
pub(crate) fn shown(message: &Message) -> String {
    message.parts.iter().fold(String::new(), |text, part| match part {
        Part::Text { text: said, .. } => text + said + "\n",
        Part::ToolCall { name, input, .. } => text + name + " " + &input.to_string() + "\n",
        Part::ToolResult { output, .. } => text + output + "\n",
        Part::Image { name: Some(name), .. } => text + "[image " + name + "]\n",
        _ => text,
    })
}

pub(crate) fn picture(name: &str) -> Part {
    Part::Image {
        media_type: "image/png".into(),
        source: becket_types::ImageSource::Blob(becket_types::BlobId(name.to_owned())),
        name: Some(name.to_owned()),
        width: Some(900),
        height: Some(700),
        extra: serde_json::Map::new(),
    }
}

/// True if `text` holds a line of this output.
pub(crate) fn shows_a_line(text: &str, output: &str) -> bool {
    output.lines().next().is_some_and(|line| text.contains(line))
}
