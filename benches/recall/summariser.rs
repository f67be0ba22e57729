//! The writer of the summaries: a program with a dial for how much it loses, or a real model behind a command.

use crate::recall::task::{Fact, Kind, dice};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// The goal of the task in five languages, in other words than the user's.
const GOAL: [&str; 5] = [
    "Move the module over to the new persistence layer.",
    "Das Modul auf die neue Persistenzschicht umziehen.",
    "Chuyển mô-đun sang tầng lưu trữ mới.",
    "把模块迁移到新的持久层。",
    "نقل الوحدة إلى طبقة التخزين الجديدة.",
];

#[derive(Clone, Debug)]
pub(crate) enum Summariser {
    /// Finds every fact in its input and keeps this percentage of them. The choice does not depend on the engine that asks, but
    /// differs in each round, so that losses add up as they do with models. It paraphrases what the user said, in another
    /// language than the user's.
    Keeps(u64),
    /// A shell command: the request on its input, the summary on its output.
    Command(String),
}

impl Summariser {
    /// A summary of `input` in the fixed shape, in the summariser's own words and language; `round` counts compactions.
    pub(crate) fn write(
        &self,
        task: u64,
        round: u64,
        language: usize,
        facts: &[Fact],
        system: &str,
        input: &str,
    ) -> Result<String, String> {
        match self {
            Self::Keeps(percent) => Ok(shape(&Asked { task, round, language, facts, input }, *percent)),
            Self::Command(command) => ask(command, &format!("{system}\n\n{input}")),
        }
    }
}

/// Everything that a scripted summary is made from.
struct Asked<'a> {
    task: u64,
    round: u64,
    language: usize,
    facts: &'a [Fact],
    input: &'a str,
}

fn shape(asked: &Asked<'_>, percent: u64) -> String {
    let lines = |kinds: &[Kind]| -> String {
        let mine = asked.facts.iter().enumerate().filter(|(_, fact)| kinds.contains(&fact.kind));
        let kept = mine.filter(|(n, fact)| {
            fact.stands_in(asked.input) && dice(&[asked.task, asked.round, *n as u64, 5]) % 100 < percent
        });
        kept.fold(String::new(), |text, (_, fact)| text + "- " + &fact.line(asked.language) + "\n")
    };
    format!(
        "## Goal\n{}\n\n## Instructions\n{}\n## Progress\n### Done\n{}\n### In progress\n- the port\n\n### Blocked\n\n\
         ## Decisions\n{}\n## Discoveries\n{}\n## Next steps\n1. go on\n\n## Relevant files\n{}",
        GOAL[asked.language],
        lines(&[Kind::Constraint, Kind::Wish]),
        lines(&[Kind::Command]),
        lines(&[Kind::Decision, Kind::Failed]),
        lines(&[Kind::Identifier, Kind::Output, Kind::Number, Kind::Image]),
        lines(&[Kind::File]),
    )
}

fn ask(command: &str, prompt: &str) -> Result<String, String> {
    let say = |error: std::io::Error| format!("{command}: {error}");
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(say)?;
    let mut input = child.stdin.take().ok_or("no pipe")?;
    let prompt = prompt.to_owned();
    let sending = std::thread::spawn(move || input.write_all(prompt.as_bytes()));
    let output = child.wait_with_output().map_err(say)?;
    // Errors of writing are ignored: a command may end without reading its whole input.
    let _ = sending.join();
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{command} ended with {}", output.status))
    }
}
