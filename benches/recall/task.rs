//! A long task with planted facts, as a script of messages and calls. Everything follows from its number.
//!
//! A fact is a key (random letters, so that nothing but the fact tells it) and a subject (two words of its own), or a wish
//! without any identifier. Facts are in what the user says (in the user's language, in the middle of long small talk), in
//! what the model says, in calls, in images, and in the middle of long outputs. Each part of the history ends with a plan.

use crate::recall::language::{CONSTRAINT, CONSTRAINT_PUT, LANGUAGES, PICTURE, TALK, WISHES, filled};
use serde_json::{Value, json};
use std::fmt::Write as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Identifier,
    Decision,
    Failed,
    Number,
    Command,
    File,
    /// A fact that is only in the output of a tool: neither user nor model has said it.
    Output,
    /// A rule that the user gave, with an identifier in it.
    Constraint,
    /// A wish that the user expressed, without an identifier.
    Wish,
    /// A picture that the user sent.
    Image,
}

pub(crate) const KINDS: [(Kind, usize); 10] = [
    (Kind::Identifier, 5),
    (Kind::Decision, 5),
    (Kind::Failed, 5),
    (Kind::Number, 4),
    (Kind::Command, 4),
    (Kind::File, 4),
    (Kind::Output, 4),
    (Kind::Constraint, 5),
    (Kind::Wish, 5),
    (Kind::Image, 3),
];

#[derive(Clone, Debug)]
pub(crate) struct Fact {
    pub(crate) kind: Kind,
    pub(crate) subject: String,
    /// Random letters by which the fact is recognised; empty for a wish.
    pub(crate) key: String,
    /// Index in [`WISHES`], for a fact of the kind [`Kind::Wish`].
    wish: usize,
}

/// One message or call.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Words of the user, and the name of a picture with them.
    User(String, Option<String>),
    Says(String),
    /// Parallel calls of one message.
    Step(Vec<Call>),
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Words of the model beside the call.
    pub(crate) text: String,
    pub(crate) tool: &'static str,
    /// The command, path, pattern or text of the call.
    pub(crate) subject: String,
    pub(crate) output: String,
}

impl Call {
    pub(crate) fn input(&self) -> Value {
        match self.tool {
            "bash" => json!({ "command": self.subject }),
            "edit" | "read" => json!({ "path": self.subject }),
            _ => json!({ "pattern": self.subject }),
        }
    }

    /// The result as the journal keeps it.
    pub(crate) fn result(&self) -> Value {
        match self.tool {
            "bash" => json!({ "exit_code": 0 }),
            "edit" => json!({ "changes": [{ "path": self.subject, "kind": "update" }] }),
            _ => json!({}),
        }
    }
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

/// Number of filler steps that fill a window.
pub(crate) const STEPS: usize = 60;

const PLACES: [&str; 8] = ["harbour", "meadow", "canyon", "island", "glacier", "orchard", "lagoon", "summit"];
const THINGS: [&str; 7] = ["reader", "writer", "cache", "parser", "planner", "mirror", "ledger"];

fn fact(task: u64, n: usize, kind: Kind) -> Fact {
    let letters = format!("{:08x}", dice(&[task, n as u64, 7]) as u32);
    let key = match kind {
        Kind::Identifier => format!("resolve_{letters}"),
        Kind::Decision => format!("ring_{letters}"),
        Kind::Failed => format!("mutex_{letters}"),
        Kind::Number => format!("{}.{} ms", dice(&[task, n as u64, 8]) % 90_000 + 10_000, n),
        Kind::Command => format!("make deploy-{letters}"),
        Kind::File => format!("src/{letters}.rs"),
        Kind::Output => format!("E{letters}"),
        Kind::Constraint => format!("vendor/{letters}"),
        Kind::Wish => String::new(),
        Kind::Image => format!("shot_{letters}.png"),
    };
    let wish = n % WISHES.len();
    Fact { kind, subject: format!("{} {}", PLACES[n % 8], THINGS[n / 8 % 7]), key, wish }
}

impl Fact {
    /// True if the text contains the fact, in the words of the user or of the summariser, in any language.
    pub(crate) fn stands_in(&self, text: &str) -> bool {
        match self.kind {
            Kind::Wish => {
                let wish = &WISHES[self.wish];
                wish.said.iter().chain(&wish.put).any(|words| text.contains(words))
            }
            _ => text.contains(&self.key),
        }
    }

    /// The fact in the words of whoever says it first: the user or the model.
    fn said(&self, language: usize) -> String {
        let Self { subject, key, .. } = self;
        match self.kind {
            Kind::Constraint => filled(CONSTRAINT[language], subject, key),
            Kind::Wish => WISHES[self.wish].said[language].to_owned(),
            Kind::Image => filled(PICTURE[language], subject, key),
            _ => self.line(language),
        }
    }

    /// The fact as a line of a summary in this language. Identifiers that the model found are not translated.
    pub(crate) fn line(&self, language: usize) -> String {
        let Self { subject, key, .. } = self;
        match self.kind {
            Kind::Identifier => format!("Found: the entry point of the {subject} is `{key}`."),
            Kind::Decision => format!("Decision: the {subject} uses `{key}` because it needs no lock."),
            Kind::Failed => format!("Rejected: `{key}` for the {subject}; it deadlocks under load."),
            Kind::Number => format!("Measured: the {subject} takes {key} a request."),
            Kind::Command => format!("Ran `{key}` for the {subject}."),
            Kind::File => format!("Changed `{key}` of the {subject}."),
            Kind::Output => format!("The {subject} failed with {key}."),
            Kind::Constraint => filled(CONSTRAINT_PUT[language], subject, key),
            Kind::Wish => WISHES[self.wish].put[language].to_owned(),
            Kind::Image => format!("The user's picture {key} shows the {subject}."),
        }
    }

    /// Search words of a model that knows what it wants to know, and talks as the user does.
    pub(crate) fn question(&self, language: usize) -> String {
        let words = match self.kind {
            Kind::Identifier => "found entry point",
            Kind::Decision => "decision uses because lock",
            Kind::Failed => "rejected deadlocks load",
            Kind::Number => "measured takes request",
            Kind::Command => "make deploy command",
            Kind::File => "edit file src",
            Kind::Output => "failed with error",
            Kind::Constraint => "never touch",
            Kind::Wish => return WISHES[self.wish].asked[language].to_owned(),
            Kind::Image => "picture",
        };
        format!("{} {words}", self.subject)
    }
}

/// A task: facts by the part of the history in which they come up, and filler without end.
pub(crate) struct Task {
    pub(crate) number: u64,
    /// Languages of the user and of the summariser, as indexes into [`LANGUAGES`].
    pub(crate) language: usize,
    pub(crate) other: usize,
    pub(crate) facts: Vec<Fact>,
    parts: usize,
    /// Tokens of the window that a request may fill.
    usable: u64,
    fillers: u64,
}

impl Task {
    /// Task `number`, with facts for so many parts in a window of which this much may be filled.
    pub(crate) fn new(number: u64, parts: usize, usable: u64) -> Self {
        let kinds = KINDS.iter().flat_map(|(kind, count)| std::iter::repeat_n(*kind, *count));
        let mut facts: Vec<Fact> = kinds.enumerate().map(|(n, kind)| fact(number, n, kind)).collect();
        facts.sort_by_key(|fact| {
            dice(&[number, fact.key.len() as u64, fact.subject.len() as u64, fact.kind as u64])
        });
        let language = number as usize % LANGUAGES.len();
        let other = (language + 1 + number as usize / LANGUAGES.len()) % LANGUAGES.len();
        Self { number, language, other, facts, parts, usable, fillers: 0 }
    }

    pub(crate) fn usable(&self) -> u64 {
        self.usable
    }

    pub(crate) fn first(&self) -> Act {
        Act::User(format!("Port module {} to the new storage and keep its tests green.", self.number), None)
    }

    /// The acts of one part: a quarter of the window, with its facts spread over them, a batch of reads that is larger than
    /// the window in every second part, and the plan at its end.
    pub(crate) fn part(&mut self, part: usize) -> Vec<Act> {
        let mine: Vec<Fact> = self.facts.iter().skip(part).step_by(self.parts).cloned().collect();
        let mut acts = Vec::new();
        let gap = 15 / (mine.len() + 1);
        for fact in mine {
            acts.push(self.plant(&fact));
            for _ in 0..gap.max(1) {
                acts.push(self.filler());
            }
        }
        if part % 2 == 1 {
            acts.push(self.batch());
        }
        acts.push(Act::Says(self.plan(part)));
        acts
    }

    pub(crate) fn plan(&self, part: usize) -> String {
        format!("Next step: wire `plan_{:08x}` into the tests.", dice(&[self.number, part as u64, 9]) as u32)
    }

    /// A step without a fact. It fills about a sixtieth of the window.
    pub(crate) fn filler(&mut self) -> Act {
        self.fillers += 1;
        let n = self.fillers as usize;
        let output = lines(n, (self.usable as usize * 4 / STEPS).max(200));
        Act::Step(vec![look(n, output)])
    }

    /// A filler step without text of the model beside its call.
    pub(crate) fn silent(&mut self) -> Act {
        match self.filler() {
            Act::Step(calls) => {
                Act::Step(calls.into_iter().map(|call| Call { text: String::new(), ..call }).collect())
            }
            act => act,
        }
    }

    /// A filler step in which the model writes a long input and gets one word back. Pruning of outputs frees nothing of that.
    pub(crate) fn writing(&mut self) -> Act {
        match self.silent() {
            Act::Step(calls) => {
                let wrote = |call: Call| Call {
                    tool: "write",
                    subject: call.output,
                    output: "written".to_owned(),
                    ..call
                };
                Act::Step(calls.into_iter().map(wrote).collect())
            }
            act => act,
        }
    }

    /// Six reads side by side, together 1.2 times what fits.
    fn batch(&mut self) -> Act {
        let bytes = self.usable as usize * 4 / 5;
        let read = |n: usize| Call {
            text: String::new(),
            tool: "read",
            subject: format!("big/{n}.txt"),
            output: lines(n, bytes),
        };
        self.fillers += 6;
        let from = self.fillers as usize;
        Act::Step((from..from + 6).map(read).collect())
    }

    fn plant(&mut self, fact: &Fact) -> Act {
        let Fact { subject, key, kind, .. } = fact;
        let said = fact.said(self.language);
        let call = |text: String, tool, output: &str| {
            Act::Step(vec![Call { text, tool, subject: key.clone(), output: output.to_owned() }])
        };
        match kind {
            Kind::Constraint | Kind::Wish => Act::User(self.chat(&said), None),
            Kind::Image => Act::User(self.chat(&said), Some(key.clone())),
            Kind::Identifier | Kind::Decision | Kind::Failed | Kind::Number => Act::Says(said),
            Kind::Command => call(format!("Deploying the {subject}."), "bash", "ok"),
            Kind::File => call(format!("Editing the {subject}."), "edit", "edited"),
            Kind::Output => {
                self.fillers += 2;
                let n = self.fillers as usize;
                let half = (self.usable as usize * 4 / 100).clamp(300, 3_000);
                let output = format!("{}{said}\n{}", lines(n, half), lines(n + 1, half));
                Act::Step(vec![Call { text: format!("Testing the {subject}."), ..look(0, output) }])
            }
        }
    }

    /// The words in the middle of small talk, which has 1.5 % of the window: at least 240 and at most 6,000 bytes.
    fn chat(&mut self, words: &str) -> String {
        let bytes = (self.usable as usize * 4 * 15 / 1_000).clamp(240, 6_000);
        let at = bytes * (20 + dice(&[self.number, self.fillers, 3]) as usize % 60) / 100;
        let (mut text, mut said) = (String::new(), false);
        while text.len() < bytes || !said {
            if text.len() >= at && !said {
                said = true;
                text += words;
            } else {
                self.fillers += 1;
                let talk = TALK[self.language][self.fillers as usize % 5];
                text += &talk.replace("{n}", &self.fillers.to_string());
            }
            text.push(' ');
        }
        text.trim_end().to_owned()
    }
}

/// A look at something, with words that sound like a fact and are none.
fn look(n: usize, output: String) -> Call {
    let text = match n % 6 {
        0 => format!("Found: the entry point of part {n} is documented elsewhere."),
        1 => format!("Decision: part {n} uses the default because nobody holds a lock."),
        2 => format!("Rejected for now: part {n}; nothing deadlocks there under load."),
        3 => format!("Part {n} failed with no error that matters."),
        4 => format!("Never touch part {n} twice; there is no picture of it."),
        _ => format!("Part {n} needs no edit of a file in src and no make or deploy command."),
    };
    Call { text, tool: "grep", subject: format!("part {n}"), output }
}

fn lines(n: usize, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 80);
    let mut line = 0;
    while text.len() < bytes {
        line += 1;
        let _ = writeln!(text, "line {line} of storage layer {n} holds nothing that matters here");
    }
    text
}
