//! A long task with planted facts, as a script of what is said and done. Everything follows from its number.
//!
//! A fact is a key (random letters, so that nothing but the fact tells it) and a subject (two words of its own). Facts stand
//! in what the user says, in what the model says, in calls and in the middle of long outputs, spread evenly over the parts
//! of the history that the compactions fold away. Each part ends with a plan and a run of silent calls behind it.

use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Identifier,
    Decision,
    Failed,
    Constraint,
    Command,
    File,
    /// Stands in the output of a tool and was never said.
    Output,
}

pub(crate) const KINDS: [(Kind, usize); 7] = [
    (Kind::Identifier, 7),
    (Kind::Decision, 6),
    (Kind::Failed, 6),
    (Kind::Constraint, 6),
    (Kind::Command, 5),
    (Kind::File, 5),
    (Kind::Output, 5),
];

#[derive(Clone, Debug)]
pub(crate) struct Fact {
    pub(crate) kind: Kind,
    pub(crate) subject: String,
    pub(crate) key: String,
}

/// What happens, in order.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    User(String),
    Says(String),
    Call(Call),
    /// The context is full.
    Compact,
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// What the model says beside it.
    pub(crate) text: String,
    pub(crate) tool: &'static str,
    /// The command, the path, the pattern.
    pub(crate) subject: String,
    pub(crate) output: String,
}

impl Call {
    pub(crate) fn input(&self) -> Value {
        match self.tool {
            "bash" => json!({ "command": self.subject }),
            "edit" => json!({ "path": self.subject }),
            _ => json!({ "pattern": self.subject }),
        }
    }

    /// What the journal says of it.
    pub(crate) fn result(&self) -> Value {
        match self.tool {
            "bash" => json!({ "exit_code": 0 }),
            "edit" => json!({ "changes": [{ "path": self.subject, "kind": "update" }] }),
            _ => json!({}),
        }
    }
}

pub(crate) struct Task {
    pub(crate) facts: Vec<Fact>,
    pub(crate) acts: Vec<Act>,
    /// The model's plan right before the last compaction.
    pub(crate) plan: String,
}

/// A number that looks random and is not.
pub(crate) fn dice(seed: &[u64]) -> u64 {
    seed.iter().fold(0x9e37_79b9_7f4a_7c15, |state, n| {
        let mut x = (state ^ n).wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    })
}

const PLACES: [&str; 8] = ["harbour", "meadow", "canyon", "island", "glacier", "orchard", "lagoon", "summit"];
const THINGS: [&str; 7] = ["reader", "writer", "cache", "parser", "planner", "mirror", "ledger"];

fn fact(task: u64, n: usize, kind: Kind) -> Fact {
    let letters = format!("{:08x}", dice(&[task, n as u64, 7]) as u32);
    let key = match kind {
        Kind::Identifier => format!("resolve_{letters}"),
        Kind::Decision => format!("ring_{letters}"),
        Kind::Failed => format!("mutex_{letters}"),
        Kind::Constraint => format!("vendor/{letters}"),
        Kind::Command => format!("make deploy-{letters}"),
        Kind::File => format!("src/{letters}.rs"),
        Kind::Output => format!("E{letters}"),
    };
    Fact { kind, subject: format!("{} {}", PLACES[n % 8], THINGS[n / 8 % 7]), key }
}

impl Fact {
    /// The fact as a line of a summary.
    pub(crate) fn line(&self) -> String {
        let Self { subject, key, .. } = self;
        match self.kind {
            Kind::Identifier => format!("Found: the entry point of the {subject} is `{key}`."),
            Kind::Decision => format!("Decision: the {subject} uses `{key}` because it needs no lock."),
            Kind::Failed => format!("Rejected: `{key}` for the {subject}; it deadlocks under load."),
            Kind::Constraint => format!("For the {subject}, never touch `{key}`."),
            Kind::Command => format!("Ran `{key}` for the {subject}."),
            Kind::File => format!("Changed `{key}` of the {subject}."),
            Kind::Output => format!("The {subject} failed with {key}."),
        }
    }

    /// What a model looks for that knows what it wants to know.
    pub(crate) fn question(&self) -> String {
        format!("{} {}", self.subject, self.vague_question())
    }

    /// The same without knowing of what: there are five to seven answers to it.
    pub(crate) fn vague_question(&self) -> &'static str {
        match self.kind {
            Kind::Identifier => "found entry point",
            Kind::Decision => "decision uses because lock",
            Kind::Failed => "rejected deadlocks load",
            Kind::Constraint => "never touch",
            Kind::Command => "make deploy command",
            Kind::File => "edit file src",
            Kind::Output => "failed with error",
        }
    }

    fn act(&self) -> Act {
        let Self { subject, key, kind } = self;
        let call = |text: String, tool, output: &str| {
            Act::Call(Call { text, tool, subject: key.clone(), output: output.to_owned() })
        };
        match kind {
            Kind::Constraint => Act::User(self.line()),
            Kind::Identifier | Kind::Decision | Kind::Failed => Act::Says(self.line()),
            Kind::Command => call(format!("Deploying the {subject}."), "bash", "ok"),
            Kind::File => call(format!("Editing the {subject}."), "edit", "edited"),
            Kind::Output => {
                let output = format!("{}{}\n{}", filler(1, 3_000), self.line(), filler(2, 3_000));
                Act::Call(Call { text: format!("Testing the {subject}."), ..look(0, output) })
            }
        }
    }
}

/// A look at something, with words that sound like a fact and are none.
fn look(n: usize, output: String) -> Call {
    let text = match n % 6 {
        0 => format!("Found: the entry point of part {n} is documented elsewhere."),
        1 => format!("Decision: part {n} uses the default because nobody holds a lock."),
        2 => format!("Rejected for now: part {n}; nothing deadlocks there under load."),
        3 => format!("Part {n} failed with no error that matters."),
        4 => format!("Never touch part {n} twice."),
        _ => format!("Part {n} needs no edit of a file in src and no make or deploy command."),
    };
    Call { text, tool: "grep", subject: format!("part {n}"), output }
}

fn filler(n: usize, bytes: usize) -> String {
    let line = format!("line {n} of the storage layer holds nothing that matters here\n");
    line.repeat(bytes / line.len() + 1)
}

fn bytes(act: &Act) -> usize {
    match act {
        Act::User(text) | Act::Says(text) => text.len(),
        Act::Call(call) => call.text.len() + call.subject.len() + call.output.len(),
        Act::Compact => 0,
    }
}

impl Task {
    /// Task `number`, with so many compactions in a window of so many tokens.
    pub(crate) fn new(number: u64, compactions: usize, window: u64) -> Self {
        let kinds = KINDS.iter().flat_map(|(kind, count)| std::iter::repeat_n(*kind, *count));
        let mut facts: Vec<Fact> = kinds.enumerate().map(|(n, kind)| fact(number, n, kind)).collect();
        facts.sort_by_key(|fact| {
            dice(&[number, fact.key.len() as u64, fact.subject.len() as u64, fact.kind as u64])
        });
        // What one part adds: with summary and tail of the part before it fills about 0.9 of the window.
        let part_bytes = window as usize * 4 * 55 / 100;
        let mut acts =
            vec![Act::User(format!("Port module {number} to the new storage and keep its tests green."))];
        let mut plan = String::new();
        for part in 0..compactions {
            let mine: Vec<Act> = facts.iter().skip(part).step_by(compactions).map(Fact::act).collect();
            let gap = part_bytes / (mine.len() + 1);
            let (mut size, mut n) = (0, 100 * part);
            for (nth, act) in mine.into_iter().enumerate() {
                size += bytes(&act);
                acts.push(act);
                while size < gap * (nth + 1) {
                    n += 1;
                    let act = Act::Call(look(n, filler(n, 5_000.min(gap))));
                    size += bytes(&act);
                    acts.push(act);
                }
            }
            plan = format!(
                "Next step: wire `plan_{:08x}` into the tests.",
                dice(&[number, part as u64, 9]) as u32
            );
            acts.push(Act::Says(plan.clone()));
            // More than any tail holds.
            let silent = (window as usize / 4).min(8_000) * 5;
            let mut sent = 0;
            while sent < silent {
                n += 1;
                let act = Act::Call(Call { text: String::new(), ..look(n, filler(n, 4_000)) });
                sent += bytes(&act);
                acts.push(act);
            }
            acts.push(Act::Compact);
        }
        Self { facts, acts, plan }
    }
}
