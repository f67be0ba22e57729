//! Facts that becket knows for certain and therefore writes into the summary itself: calls that ran, files
//! touched, the user's own words.
//!
//! They are read from the results in the tool journal: `exit_code` of a command, `changes: [{path, kind}]`
//! with kind `add | update | delete`, and the flags `is_error`, `interrupted`, `timed_out`, `denied`. The
//! subject of a `read`, `edit` or `write` is its path. A file is listed with the newest event.
//!
//! The model's text is compared with these facts. Lines of Goal and Instructions that the user's words do not
//! support are marked ([`super::provenance`]). Claims about commands that did not run are removed. A next
//! step whose command already ran is marked. A file whose `read` outputs were all cut is listed as read in
//! part. Text that is removed is returned as [`LeftOut`].

use super::Sections;
use super::provenance::{Provenance, unmarked};
use super::quotes::{OLD_MARK, Quotes};
use super::state::{one_line, read_files, todo};
use crate::context::continuation::{is_users_words, typed_text};
use crate::context::view::{Journal, Line};
use becket_types::{CallId, FilePath, JournalState, LeftOut, Message, Part, Tokens, cut_end, is_blank};
use serde_json::Value;
use std::borrow::Borrow;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

/// Line above becket's list in the section Done. Everything after this line was written by becket.
const JOURNAL_MARK: &str = "From the tool journal:";
/// Line above the actions that the model reports.
const REPORTED_MARK: &str = "As the assistant reports it:";
/// Mark after a next step whose command already ran.
const RAN_MARK: &str = " [ran already: ";
/// Text of the section Goal if neither the model nor an earlier summary wrote one.
const GOAL_POINTER: &str =
    "As the user's messages say: those quoted at the end of this summary, and those that follow it.";
/// Sections that state what the user wants.
const INTENT: [&str; 2] = ["## Goal", "## Instructions"];

/// The facts for one summary, computed once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Calls that changed something or ran a command, newest last: the line for the summary, and the call's subject (its command or path).
    done: Vec<(String, String)>,
    /// Lines for calls that were started and have no result, so their effect is unknown.
    unknown: Vec<String>,
    /// Path and newest event of each file, newest first.
    files: Vec<(String, &'static str)>,
    /// Path and hash of files that were read.
    hashes: Vec<(String, String)>,
    /// The texts of users and tools, with which the model's lines are compared.
    provenance: Provenance,
    /// Commands that ran, with their outcome.
    ran: Vec<(String, String)>,
    todo: Option<String>,
}

impl Facts {
    /// Computes the facts. `messages`: all messages of the snapshot. `previous`: the text of the previous summary; `earlier`: its sections.
    /// `cut`: calls whose outputs the model saw only in part.
    pub fn new<M: Borrow<Message>>(
        journal: &Journal,
        messages: &[M],
        previous: Option<&str>,
        earlier: Option<&Sections>,
        state: &BTreeMap<String, Value>,
        cut: &HashSet<&CallId>,
    ) -> Self {
        let mut facts = Self { todo: state.get("todo").and_then(todo), ..Self::default() };
        let provenance = &mut facts.provenance;
        for section in earlier.into_iter().flat_map(|sections| INTENT.map(|heading| sections.get(heading))) {
            provenance.learn_supported(section.split(OLD_MARK).next().unwrap_or_default());
        }
        let none: [&Message; 0] = [];
        for text in Quotes::new(previous, &none, |_| false).texts() {
            provenance.learn_user(&text);
        }
        for message in messages.iter().map(Borrow::borrow) {
            if is_users_words(message) {
                provenance.learn_user(&typed_text(message));
            }
            for part in &message.parts {
                if let Part::ToolResult { output, .. } = part {
                    provenance.learn_tool(output);
                }
            }
        }
        facts.hashes = state.get("read_files").map(read_files).unwrap_or_default();
        facts.read_journal(journal, cut);
        // Files that were read in another way than by a `read` call, for example as an attachment.
        let more = facts
            .hashes
            .iter()
            .filter(|(path, _)| !facts.files.iter().any(|(known, _)| is_same(path, known)));
        let more: Vec<(String, &str)> = more.map(|(path, _)| (path.clone(), "read")).collect();
        facts.files.extend(more);
        facts
    }

    fn read_journal(&mut self, journal: &Journal, cut: &HashSet<&CallId>) {
        let mut seen = HashSet::new();
        let mut paths = HashSet::new();
        // Files whose `read` output was cut, unless another call showed the whole file.
        let mut in_part = Vec::new();
        for line in journal.iter().rev() {
            let result = line.value();
            for (path, kind) in touched(&line, &result) {
                if kind == "read" && cut.contains(&CallId::from(line.call_id)) {
                    in_part.push(path);
                } else if paths.insert(path.clone()) {
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
        let in_part = in_part.into_iter().filter(|path| paths.insert(path.clone()));
        self.files.extend(in_part.map(|path| (path, IN_PART)));
        self.done.reverse();
        self.unknown.reverse();
    }

    /// Adds the facts to their sections and returns removed text. The lists together take at most half of
    /// `max`, newest first.
    pub fn fill(&self, sections: &mut Sections, max: Tokens) -> Vec<LeftOut> {
        let mut left_out = Vec::new();
        let mut leave_out = |section: &str, text: Vec<String>, why: &str| {
            let text = text.join("\n");
            if !is_blank(&text) {
                left_out.push(LeftOut { section: title(section), text, why: why.to_owned() });
            }
        };
        // Converts a percentage of `max` to bytes, at 3 bytes per token.
        let share = |percent: u64| (max.0 * 3 * percent / 100) as usize;
        for heading in
            ["## Goal", "## Progress", "### Blocked", "## Decisions", "## Discoveries", "## Next steps"]
        {
            let body = without_marks(sections.get(heading));
            sections.set(heading, body);
        }
        let notes = sections.get("## Relevant files").to_owned();
        sections.set("## Relevant files", self.file_list(&notes, share(15)));

        let (reported, refuted) = self.unrefuted(sections.get("### Done"));
        leave_out("### Done", refuted, "names a command that did not run");
        let ran = newest(self.done.iter().map(|(l, _)| l.as_str()), share(20));
        sections.set("### Done", joined(&[titled(REPORTED_MARK, &reported), titled(JOURNAL_MARK, &ran)]));

        let doing = without_unknown(sections.get("### In progress"));
        let unknown = newest(self.unknown.iter().map(String::as_str), share(5));
        sections.set("### In progress", joined(&[doing, unknown]));

        let next = sections.get("## Next steps").lines().map(|line| self.marked(line)).collect::<Vec<_>>();
        sections.set("## Next steps", next.join("\n"));

        for heading in INTENT {
            let mut dropped = Vec::new();
            let own = without_quotes(sections.get(heading));
            sections.set(heading, self.provenance.mark(&own, &mut dropped));
            leave_out(
                heading,
                dropped,
                "copied word for word from a tool's output and in no message of the user",
            );
        }
        if is_blank(sections.get("## Goal")) && self.provenance.knows_a_user() {
            sections.set("## Goal", GOAL_POINTER);
        }
        left_out
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
                    .map(|rest| without_hash(rest.trim_matches(|c: char| !c.is_alphanumeric())))
                    .find(|rest| !rest.is_empty());
                let hash = self.hash_of(path).filter(|_| *kind != "deleted" && *kind != IN_PART);
                let hash = hash.map(|hash| format!(", {}", cut_end(hash, HASH))).unwrap_or_default();
                match note {
                    Some(note) => format!("- {shown} ({kind}{hash}): {}", one_line(note, 160)),
                    None => format!("- {shown} ({kind}{hash})"),
                }
            })
            .collect();
        // The list starts with the file that was used last, so the beginning of the list is kept.
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

    /// Returns the hash of a file at its last read.
    fn hash_of(&self, path: &str) -> Option<&str> {
        let known = self.hashes.iter().find(|(known, hash)| !hash.is_empty() && is_same(known, path));
        known.map(|(_, hash)| hash.as_str())
    }

    /// Splits the model's report of its work: lines to keep, and lines with a command that never ran. The list that becket wrote itself is
    /// dropped, because it is written again.
    fn unrefuted(&self, done: &str) -> (String, Vec<String>) {
        let prose = done.split(JOURNAL_MARK).next().unwrap_or_default();
        let (mut reported, mut refuted) = (Vec::new(), Vec::new());
        for line in prose.lines().filter(|line| *line != REPORTED_MARK) {
            let command = line.split('`').skip(1).step_by(2).map(str::trim).find(|code| code.contains(' '));
            let ran = |c: &str| {
                self.done.iter().any(|(_, subject)| subject.contains(c) || c.contains(subject.as_str()))
            };
            if command.is_none_or(ran) { reported.push(line) } else { refuted.push(line.to_owned()) }
        }
        (reported.join("\n").trim().to_owned(), refuted)
    }

    /// Marks a next step whose command already ran, with its outcome.
    fn marked(&self, line: &str) -> String {
        let line = line.split(RAN_MARK).next().unwrap_or_default();
        let named = line.split('`').skip(1).step_by(2).map(str::trim);
        let ran = named.filter(|c| c.contains(' ')).find_map(|c| self.ran.iter().find(|(ran, _)| ran == c));
        match ran {
            Some((_, how)) => format!("{line}{RAN_MARK}{how}; look before running it again]"),
            None => line.to_owned(),
        }
    }

    /// Returns the todo list as text.
    pub fn todo(&self) -> Option<&str> {
        self.todo.as_deref()
    }
}

/// True if `path`, written as in a call, may be the file with the absolute path `known`.
fn is_same(known: &str, path: &str) -> bool {
    let relative = path.strip_prefix("./").unwrap_or(path);
    known == path || known.strip_suffix(relative).is_some_and(|folder| folder.ends_with('/'))
}

/// Returns the text after the hash in a note that an earlier list had about a file.
fn without_hash(note: &str) -> &str {
    let is_hash = |start: &str| start.chars().all(|c| c.is_ascii_hexdigit());
    match note.split_at_checked(HASH) {
        Some((start, rest)) if is_hash(start) => rest.trim_matches(|c: char| !c.is_alphanumeric()),
        _ => note,
    }
}

/// Number of hash digits that a list shows.
const HASH: usize = 12;
const KINDS: [&str; 5] = ["changed", "added", "deleted", IN_PART, "read"];
/// Event of a file whose only `read` output was cut before the model saw it.
const IN_PART: &str = "read in part";

/// Returns a heading without its `#` signs.
fn title(heading: &str) -> String {
    heading.trim_start_matches('#').trim().to_owned()
}

/// Returns `section` without quotes of users, because becket quotes them after the summary. A line that only
/// looks like a quote is kept as text.
fn without_quotes(section: &str) -> String {
    let lines = section.split(OLD_MARK).enumerate().flat_map(|(index, part)| {
        // In summaries of earlier releases, the lines after the old mark are becket's quotes.
        part.lines().filter(move |line| index == 0 || !(line.starts_with("> ") || line.starts_with("- (")))
    });
    let lines = lines.filter(|line| *line != GOAL_POINTER);
    let lines: Vec<&str> = lines.map(|line| line.strip_prefix("> ").unwrap_or(line)).collect();
    unmarked(&lines.join("\n")).trim().to_owned()
}

fn joined(parts: &[String]) -> String {
    parts.iter().filter(|p| !p.is_empty()).map(String::as_str).collect::<Vec<_>>().join("\n")
}

fn titled(title: &str, body: &str) -> String {
    if body.is_empty() { String::new() } else { format!("{title}\n{body}") }
}

/// Removes becket's marks from the model's text. They may appear only where becket writes them.
fn without_marks(body: &str) -> String {
    let forged = |line: &&str| [JOURNAL_MARK, OLD_MARK, REPORTED_MARK].iter().any(|m| line.contains(m));
    body.lines().filter(|line| !forged(line)).collect::<Vec<_>>().join("\n")
}

/// Removes becket's lines about unknown effects, because they are written again each time.
fn without_unknown(text: &str) -> String {
    let lines = text.lines().filter(|l| !l.contains(": started, effect unknown;"));
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// Returns the newest lines that fit into `bytes`, oldest first; at least one. If lines are omitted, the first line gives their number.
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

/// Returns the outcome of a finished call; `None` for calls that only read something.
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
            let path = match c.as_str() {
                Some(path) => path.to_owned(),
                // A name that is not UTF-8 is kept as bytes.
                None => {
                    serde_json::from_value::<FilePath>(c.get("path")?.clone()).ok()?.0.display().to_string()
                }
            };
            let kind = match c.get("kind").and_then(Value::as_str) {
                Some("add" | "added" | "create") => "added",
                Some("delete" | "deleted") => "deleted",
                _ => "changed",
            };
            Some((path, kind))
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
