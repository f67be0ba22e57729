//! What the engine knows for certain and therefore writes itself: calls that ran, files touched, the user's own words.
//!
//! The result in a journal line is what these are read from: `exit_code` of a command, `changes: [{path, kind}]` with kind
//! `add | update | delete`, and the flags `is_error`, `interrupted`, `timed_out`, `denied`. The subject of a `read`, `edit`
//! or `write` is its path. A file counts with the newest thing that happened to it.
//!
//! What a model writes is measured against them: wishes that only a tool's output wrote are no wishes, commands that did
//! not run are not done, and a command that ran already is marked where it is named as a next step.

use super::Sections;
use super::state::{one_line, todo};
use crate::context::continuation::{is_users_words, words};
use crate::context::view::{Journal, Line};
use becket_types::{JournalState, Message, Part, Tokens, is_blank};
use serde_json::Value;
use std::borrow::Borrow;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

/// Line above the engine's list under Done; everything behind it is the engine's.
const JOURNAL_MARK: &str = "From the tool journal:";
/// Line above the engine's quotes under Instructions.
const QUOTES_MARK: &str = "The user's own words, oldest first:";
/// Line above what a model says it has done.
const REPORTED_MARK: &str = "As the assistant reports it:";
/// Behind a next step whose command ran already.
const RAN_MARK: &str = " [ran already: ";
/// So many words in a row that stand in a tool's output, and in no words of a user, are the tool's.
const RUN: usize = 3;

/// Facts for one summary, computed once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Calls that changed something or ran, newest last: line and subject.
    done: Vec<(String, String)>,
    /// Calls whose effect is unknown.
    unknown: Vec<String>,
    /// Path and what happened to it, newest first.
    files: Vec<(String, &'static str)>,
    /// Quoted user messages, oldest first.
    quotes: Vec<String>,
    /// Words that a user wrote, lower case.
    vocabulary: HashSet<String>,
    /// Runs of words in tool outputs, and in what users wrote.
    tool_runs: HashSet<u64>,
    user_runs: HashSet<u64>,
    /// Commands that ran, with what they came to.
    ran: Vec<(String, String)>,
    todo: Option<String>,
}

impl Facts {
    /// `messages` are all of the snapshot's; `previous` is the summary before, whose quotes carry over.
    pub fn new<M: Borrow<Message>>(
        journal: &Journal,
        messages: &[M],
        previous: Option<&Sections>,
        state: &BTreeMap<String, Value>,
    ) -> Self {
        let mut facts = Self { todo: state.get("todo").and_then(todo), ..Self::default() };
        if let Some(previous) = previous {
            let old = previous.get("## Instructions");
            if let Some((_, quotes)) = old.split_once(QUOTES_MARK) {
                facts.quotes.extend(quotes.lines().filter(|l| l.starts_with("> ")).map(str::to_owned));
            }
            facts.learn_words(old);
            facts.learn_words(previous.get("## Goal"));
        }
        for message in messages.iter().map(Borrow::borrow).filter(|m| is_users_words(m)) {
            let text = words(message);
            facts.learn_words(&text);
            if !is_blank(&text) {
                let quote = format!("> {}", one_line(&text, 400));
                facts.quotes.retain(|q| *q != quote);
                facts.quotes.push(quote);
            }
        }
        for part in messages.iter().flat_map(|m| &m.borrow().parts) {
            if let Part::ToolResult { output, .. } = part {
                facts.tool_runs.extend(runs(output));
            }
        }
        facts.read_journal(journal);
        facts
    }

    fn learn_words(&mut self, text: &str) {
        self.vocabulary.extend(content_words(text));
        self.user_runs.extend(runs(text));
    }

    fn read_journal(&mut self, journal: &Journal) {
        let mut seen = HashSet::new();
        let mut paths = HashSet::new();
        for line in journal.iter().rev() {
            let result = line.value();
            for (path, kind) in touched(&line, &result) {
                if paths.insert(path.clone()) {
                    self.files.push((path, kind));
                }
            }
            let subject = line.subject.unwrap_or_default();
            let name = format!("{} `{}`", one_line(line.tool, 60), one_line(subject, 160).replace('`', "'"));
            match line.state {
                JournalState::Intended => {}
                JournalState::Started => self.unknown.push(format!(
                    "- {name}: started, effect unknown; look before running it again [{}]",
                    one_line(line.call_id, 60)
                )),
                JournalState::Finished => {
                    if let Some(how) = outcome(&line, &result).filter(|_| seen.insert((line.tool, subject))) {
                        if result.get("exit_code").is_some() {
                            self.ran.push((subject.trim().to_owned(), how.clone()));
                        }
                        let entry = format!("- {name}: {how} [{}]", one_line(line.call_id, 60));
                        self.done.push((entry, subject.to_owned()));
                    }
                }
            }
        }
        self.done.reverse();
        self.unknown.reverse();
    }

    /// Puts the facts into their sections. The lists take at most half of `max` together, newest first.
    pub fn fill(&self, sections: &mut Sections, max: Tokens) {
        // Bytes of a share of the limit, at 3 bytes a token.
        let share = |percent: u64| (max.0 * 3 * percent / 100) as usize;
        for heading in
            ["## Goal", "## Progress", "### Blocked", "## Decisions", "## Discoveries", "## Next steps"]
        {
            let body = without_marks(sections.get(heading));
            sections.set(heading, body);
        }
        let notes = sections.get("## Relevant files").to_owned();
        sections.set("## Relevant files", self.file_list(&notes, share(15)));

        let reported = self.unrefuted(sections.get("### Done"));
        let ran = newest(self.done.iter().map(|(l, _)| l.as_str()), share(20));
        sections.set("### Done", joined(&[titled(REPORTED_MARK, &reported), titled(JOURNAL_MARK, &ran)]));

        let doing = without_unknown(sections.get("### In progress"));
        let unknown = newest(self.unknown.iter().map(String::as_str), share(5));
        sections.set("### In progress", joined(&[doing, unknown]));

        let wishes = self.users_wishes(sections.get("## Instructions"));
        let quotes = newest(self.quotes.iter().map(String::as_str), share(15));
        sections.set("## Instructions", joined(&[wishes, titled(QUOTES_MARK, &quotes)]));

        let next = sections.get("## Next steps").lines().map(|line| self.marked(line)).collect::<Vec<_>>();
        sections.set("## Next steps", next.join("\n"));

        // A goal that shares no word with anything the user wrote is not the user's.
        let own = sections.get("## Goal").lines().filter(|line| !self.is_a_tools(line)).collect::<Vec<_>>();
        let goal = own.join("\n").trim().to_owned();
        sections.set("## Goal", goal.as_str());
        if (is_blank(&goal) || !self.any_word(&goal)) && !self.quotes.is_empty() {
            let first = self.quotes.first().map_or("", String::as_str);
            let last = self.quotes.last().map_or("", String::as_str);
            sections
                .set("## Goal", if first == last { first.to_owned() } else { format!("{first}\n{last}") });
        }
    }

    fn file_list(&self, notes: &str, bytes: usize) -> String {
        let lines: Vec<String> = self
            .files
            .iter()
            .map(|(path, kind)| {
                let shown = one_line(path, 300);
                let note = notes
                    .lines()
                    .filter_map(|l| l.split_once(path.as_str()))
                    .map(|(_, rest)| rest.trim_matches(|c: char| !c.is_alphanumeric()))
                    .map(|rest| KINDS.iter().fold(rest, |r, k| r.strip_prefix(k).unwrap_or(r)))
                    .map(|rest| rest.trim_matches(|c: char| !c.is_alphanumeric()))
                    .find(|rest| !rest.is_empty());
                match note {
                    Some(note) => format!("- {shown} ({kind}): {}", one_line(note, 160)),
                    None => format!("- {shown} ({kind})"),
                }
            })
            .collect();
        // Newest first here, so the front is what stays.
        let mut kept = String::new();
        for (index, line) in lines.iter().enumerate() {
            if kept.len() + line.len() > bytes && index > 0 {
                let _ = write!(kept, "\n- and {} more", lines.len() - index);
                break;
            }
            if index > 0 {
                kept.push('\n');
            }
            kept.push_str(line);
        }
        kept
    }

    /// What a model says it has done, without the engine's own lines and without commands that never ran.
    fn unrefuted(&self, done: &str) -> String {
        let prose = done.split(JOURNAL_MARK).next().unwrap_or_default();
        let lines = prose.lines().filter(|line| {
            let command = line.split('`').skip(1).step_by(2).find(|code| code.trim().contains(' '));
            *line != REPORTED_MARK
                && command.is_none_or(|c| {
                    let c = c.trim();
                    self.done.iter().any(|(_, subject)| subject.contains(c) || c.contains(subject.as_str()))
                })
        });
        lines.collect::<Vec<_>>().join("\n").trim().to_owned()
    }

    /// Lines of Instructions that a user's words support: at least half of their words come from one.
    fn users_wishes(&self, instructions: &str) -> String {
        let own = instructions.split(QUOTES_MARK).next().unwrap_or_default();
        let lines = own.lines().filter(|line| {
            let words: Vec<String> = content_words(line).collect();
            let known = words.iter().filter(|w| self.vocabulary.contains(*w)).count();
            !line.starts_with("> ") && (known * 2 >= words.len()) && !self.is_a_tools(line)
        });
        lines.collect::<Vec<_>>().join("\n").trim().to_owned()
    }

    /// Words in a row from a tool's output that no user wrote.
    fn is_a_tools(&self, line: &str) -> bool {
        runs(line).any(|run| self.tool_runs.contains(&run) && !self.user_runs.contains(&run))
    }

    /// A next step that names a command which ran, with what it came to.
    fn marked(&self, line: &str) -> String {
        let line = line.split(RAN_MARK).next().unwrap_or_default();
        let named = line.split('`').skip(1).step_by(2).map(str::trim);
        let ran = named.filter(|c| c.contains(' ')).find_map(|c| self.ran.iter().find(|(ran, _)| ran == c));
        match ran {
            Some((_, how)) => format!("{line}{RAN_MARK}{how}; look before running it again]"),
            None => line.to_owned(),
        }
    }

    fn any_word(&self, text: &str) -> bool {
        content_words(text).any(|w| self.vocabulary.contains(&w))
    }

    /// The todo list as text.
    pub fn todo(&self) -> Option<&str> {
        self.todo.as_deref()
    }

    /// Quoted user messages, oldest first, each a line that starts with `> `.
    pub fn quotes(&self) -> &[String] {
        &self.quotes
    }
}

const KINDS: [&str; 4] = ["changed", "added", "deleted", "read"];

/// Words of three letters and more, lower case; each CJK letter is a word.
fn content_words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric()).flat_map(|word| {
        let wide = word.chars().any(|c| c >= '\u{2E80}');
        let letters = if wide { word.chars().map(String::from).collect() } else { Vec::new() };
        let whole = (!wide && word.chars().count() >= 3).then(|| word.to_lowercase());
        letters.into_iter().chain(whole)
    })
}

/// Hashes of each [`RUN`] words in a row; the words are those of [`content_words`]. All of a window's outputs pass here.
fn runs(text: &str) -> impl Iterator<Item = u64> + '_ {
    let (mut last, mut seen) = ([0u64; RUN], 0usize);
    let words = text.split(|c: char| !c.is_alphanumeric()).flat_map(|word| {
        let plain = (word.is_ascii() && word.len() >= 3).then(|| fnv(word));
        let other = (!word.is_ascii()).then(|| content_words(word).map(|w| fnv(&w)));
        plain.into_iter().chain(other.into_iter().flatten())
    });
    words.filter_map(move |word| {
        last.rotate_left(1);
        last[RUN - 1] = word;
        seen += 1;
        (seen >= RUN)
            .then(|| last.iter().fold(FNV.0, |hash, word| (hash ^ word).wrapping_mul(FNV.1).rotate_left(9)))
    })
}

/// Offset and prime of the FNV-1a hash.
const FNV: (u64, u64) = (0xcbf2_9ce4_8422_2325, 0x0100_0000_01b3);

/// FNV-1a, upper case of ASCII letters as lower case.
fn fnv(word: &str) -> u64 {
    word.bytes().fold(FNV.0, |hash, byte| (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(FNV.1))
}

fn joined(parts: &[String]) -> String {
    parts.iter().filter(|p| !p.is_empty()).map(String::as_str).collect::<Vec<_>>().join("\n")
}

fn titled(title: &str, body: &str) -> String {
    if body.is_empty() { String::new() } else { format!("{title}\n{body}") }
}

/// The engine's marks stand where the engine writes them, and nowhere else.
fn without_marks(body: &str) -> String {
    let forged = |line: &&str| [JOURNAL_MARK, QUOTES_MARK, REPORTED_MARK].iter().any(|m| line.contains(m));
    body.lines().filter(|line| !forged(line)).collect::<Vec<_>>().join("\n")
}

/// The engine's lines about unknown effects are made anew each time.
fn without_unknown(text: &str) -> String {
    let lines = text.lines().filter(|l| !l.contains(": started, effect unknown;"));
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// As many of the newest lines as fit into `bytes`, in order, at least one, with a count of what is gone.
fn newest<'a>(lines: impl DoubleEndedIterator<Item = &'a str> + ExactSizeIterator, bytes: usize) -> String {
    let total = lines.len();
    let (mut kept, mut size) = (Vec::new(), 0);
    for line in lines.rev() {
        size += line.len() + 1;
        if size > bytes && !kept.is_empty() {
            break;
        }
        kept.push(line);
    }
    kept.reverse();
    let gone = total - kept.len();
    let more = if gone > 0 { format!("- ({gone} earlier left out)\n") } else { String::new() };
    format!("{more}{}", kept.join("\n"))
}

fn flag(result: &Value, names: &[&str]) -> bool {
    names.iter().any(|n| match result.get(n) {
        Some(Value::Bool(b)) => *b,
        Some(Value::String(s)) => !s.is_empty(),
        _ => false,
    })
}

/// What a finished call came to; `None` for calls that only looked.
fn outcome(line: &Line<'_>, r: &Value) -> Option<String> {
    let ran = ["exit_code", "exit"].iter().find_map(|k| r.get(k)).and_then(Value::as_i64);
    let changes = changes(r);
    let works = ran.is_some()
        || !changes.is_empty()
        || matches!(line.tool, "bash" | "shell" | "edit" | "multi_edit" | "write" | "apply_patch");
    if !works {
        return None;
    }
    Some(if flag(r, &["denied"]) {
        "denied, did not run".to_owned()
    } else if flag(r, &["interrupted", "timed_out"]) {
        "interrupted, effect unknown".to_owned()
    } else if let Some(code) = ran {
        format!("exit {code}")
    } else if flag(r, &["is_error", "error"]) {
        "failed".to_owned()
    } else if changes.is_empty() {
        "finished".to_owned()
    } else {
        changes.iter().map(|(p, k)| format!("{k} {}", one_line(p, 160))).collect::<Vec<_>>().join(", ")
    })
}

fn changes(result: &Value) -> Vec<(String, &'static str)> {
    let list =
        ["changes", "files_changed", "files"].iter().find_map(|k| result.get(k)).and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(|c| {
            let path = c.as_str().or_else(|| c.get("path").and_then(Value::as_str))?;
            let kind = match c.get("kind").and_then(Value::as_str) {
                Some("add" | "added" | "create") => "added",
                Some("delete" | "deleted") => "deleted",
                _ => "changed",
            };
            Some((path.to_owned(), kind))
        })
        .collect()
}

fn touched(line: &Line<'_>, result: &Value) -> Vec<(String, &'static str)> {
    if line.state != JournalState::Finished || flag(result, &["denied"]) {
        return Vec::new();
    }
    let changed = changes(result);
    let failed = flag(result, &["is_error", "error"]);
    let path = line.subject.filter(|s| !failed && !is_blank(s)).map(str::to_owned);
    match (line.tool, path) {
        _ if !changed.is_empty() => changed,
        ("read", Some(path)) => vec![(path, "read")],
        ("edit" | "multi_edit" | "write", Some(path)) => vec![(path, "changed")],
        _ => Vec::new(),
    }
}
