//! Parser for the text of a patch: sections and hunks.
//!
//! Owns leniency about the envelope: a shell here-document or a Markdown fence around it, a missing first
//! line, markers with other spacing, quoted paths, unified headers and line numbers after `@@`, context lines
//! without their leading space. Not lenient about the end: a patch without its last line may be truncated.
//! `unified` parses diffs without an envelope.
//!
//! Pure; knows no file. All lines of a hunk end in `\n`.

use super::section::{Action, Hunk, Section, finish, header_of};
use super::unified;
use becket_types::cut_end;

/// Parses the sections of a patch, at least one.
///
/// # Errors
///
/// Returns a message with the line that is wrong.
pub(crate) fn parse(text: &str) -> Result<Vec<Section>, String> {
    let text = text.replace("\r\n", "\n");
    let all: Vec<&str> = text.split('\n').collect();
    // Use the notation that begins first. A unified diff may change a file that contains `*** Begin Patch`,
    // and such a patch may change a file that contains a diff.
    let diff = (0..all.len()).find(|at| unified::begins(&all, *at));
    let envelope = all.iter().position(|line| begins(line));
    if let Some(at) = diff.filter(|at| envelope.is_none_or(|envelope| *at < envelope)) {
        return unified::parse(&all[at..]);
    }
    let lines = body(&all)?;
    let first = lines.iter().take_while(|line| line.trim().is_empty()).count();
    if unified::begins(lines, first) {
        return unified::parse(&lines[first..]);
    }
    let lines = lines.to_vec();
    let mut parser = Parser { lines: &lines, at: 0 };
    let mut out: Vec<Section> = Vec::new();
    while let Some(section) = parser.section()? {
        out.push(section);
    }
    if out.is_empty() {
        return Err("The patch changes no file: it has no `*** Add File:`, `*** Update File:` or `*** Delete File:` line.".to_owned());
    }
    Ok(out)
}

enum Marker<'a> {
    Begin,
    End,
    EndOfFile,
    Add(&'a str),
    Delete(&'a str),
    Update(&'a str),
    Move(&'a str),
}

/// Parses a marker line of the envelope, ignoring its spacing and case.
fn marker(line: &str) -> Option<Marker<'_>> {
    let rest = line.trim().strip_prefix("***")?.trim_start_matches('*').trim();
    let lower = rest.to_ascii_lowercase();
    let after = |head: &str| {
        let tail = lower.strip_prefix(head)?.trim_start();
        tail.starts_with(':')
            .then(|| rest[rest.len() - tail.len() + 1..].trim().trim_end_matches("***").trim())
    };
    if lower.starts_with("begin patch") {
        return Some(Marker::Begin);
    }
    if lower.starts_with("end patch") {
        return Some(Marker::End);
    }
    if lower.starts_with("end of file") {
        return Some(Marker::EndOfFile);
    }
    after("add file").or_else(|| after("create file")).map(Marker::Add).or_else(|| {
        after("delete file")
            .or_else(|| after("remove file"))
            .map(Marker::Delete)
            .or_else(|| after("update file").or_else(|| after("modify file")).map(Marker::Update))
            .or_else(|| after("move to").or_else(|| after("rename to")).map(Marker::Move))
    })
}

/// True if an envelope begins on this line, even if its first line is missing.
fn begins(line: &str) -> bool {
    matches!(marker(line), Some(Marker::Begin | Marker::Add(_) | Marker::Delete(_) | Marker::Update(_)))
}

/// Returns the lines between the first and last line of the envelope, ignoring any wrapping around it.
fn body<'a, 't>(lines: &'a [&'t str]) -> Result<&'a [&'t str], String> {
    let is = |line: &&str, want: fn(&Marker<'_>) -> bool| marker(line).is_some_and(|m| want(&m));
    let header = |m: &Marker<'_>| matches!(m, Marker::Add(_) | Marker::Delete(_) | Marker::Update(_));
    let start = match lines.iter().position(|line| is(line, |m| matches!(m, Marker::Begin))) {
        Some(at) => at + 1,
        None => lines.iter().position(|line| is(line, header)).ok_or_else(no_patch)?,
    };
    let end = lines.iter().rposition(|line| is(line, |m| matches!(m, Marker::End)));
    match end {
        Some(end) if end >= start => Ok(&lines[start..end]),
        _ => Err("The patch has no `*** End Patch` line, so it may be cut off; nothing was changed. Send it whole.".to_owned()),
    }
}

fn no_patch() -> String {
    "This is no patch: it must begin with `*** Begin Patch`, then `*** Update File: <path>` (or Add, Delete), and end with `*** End Patch`, or be a diff with `--- <path>` and `+++ <path>` lines; nothing was changed.".to_owned()
}

struct Parser<'a> {
    lines: &'a [&'a str],
    at: usize,
}

impl<'a> Parser<'a> {
    fn wrong(&self, what: &str) -> String {
        let place = match self.lines.get(self.at).map(|line| line.trim_end()) {
            None | Some("") => "at its end".to_owned(),
            Some(line) => format!("at `{}`", cut_end(line, 120)),
        };
        format!("The patch is wrong {place}: {what}; nothing was changed.")
    }

    fn section(&mut self) -> Result<Option<Section>, String> {
        while self.lines.get(self.at).is_some_and(|line| line.trim().is_empty()) {
            self.at += 1;
        }
        let Some(line) = self.lines.get(self.at).copied() else { return Ok(None) };
        let (path, action) = match marker(line) {
            Some(Marker::Add(path)) => {
                self.at += 1;
                (path, Action::Add(self.added()?))
            }
            Some(Marker::Delete(path)) => {
                self.at += 1;
                self.skip_deleted();
                (path, Action::Delete { held: None })
            }
            Some(Marker::Update(path)) => {
                self.at += 1;
                (path, self.update()?)
            }
            _ => {
                return Err(self.wrong(
                    "a line `*** Add File:`, `*** Update File:` or `*** Delete File:` must come here",
                ));
            }
        };
        if path.is_empty() {
            return Err("A file header of the patch has no path; nothing was changed.".to_owned());
        }
        Ok(Some(Section { path: path.to_owned(), action, note: None }))
    }

    fn in_section(&self) -> Option<&'a str> {
        let line = self.lines.get(self.at).copied()?;
        let ends = matches!(marker(line), Some(Marker::Add(_) | Marker::Delete(_) | Marker::Update(_)));
        (!ends).then_some(line)
    }

    /// Returns the content of a new file. If no line begins with `+`, all lines are taken literally.
    fn added(&mut self) -> Result<String, String> {
        let from = self.at;
        while self.in_section().is_some() {
            self.at += 1;
        }
        let mut lines = &self.lines[from..self.at];
        while let Some((last, rest)) = lines.split_last()
            && (last.trim().is_empty() || matches!(marker(last), Some(Marker::EndOfFile)))
        {
            lines = rest;
        }
        let bare = !lines.iter().any(|line| line.starts_with('+'));
        let mut out = String::new();
        for (i, line) in lines.iter().enumerate() {
            match line.strip_prefix('+') {
                Some(text) => out.push_str(text),
                None if bare || line.trim().is_empty() => out.push_str(line),
                None => {
                    self.at = from + i;
                    return Err(self.wrong("each line of an added file begins with `+`"));
                }
            }
            out.push('\n');
        }
        Ok(out)
    }

    /// Skips the deleted content, which some models write out in `-` lines below `*** Delete File:`.
    fn skip_deleted(&mut self) {
        while self.in_section().is_some_and(|line| line.starts_with('-') || line.trim().is_empty()) {
            self.at += 1;
        }
    }

    fn update(&mut self) -> Result<Action, String> {
        let mut to = None;
        let mut hunks: Vec<Hunk> = Vec::new();
        let mut hunk = Hunk::default();
        while let Some(line) = self.in_section() {
            match marker(line) {
                Some(Marker::Move(path)) if hunks.is_empty() && hunk == Hunk::default() => {
                    to = Some(path.to_owned());
                }
                Some(Marker::EndOfFile) => hunk.at_end = true,
                Some(_) => return Err(self.wrong("this line belongs elsewhere")),
                None => self.line(line, &mut hunk, &mut hunks)?,
            }
            self.at += 1;
        }
        finish(&mut hunk, &mut hunks);
        hunks.retain(|hunk| hunk.old != hunk.new);
        if hunks.is_empty() && to.is_none() {
            return Err(self.wrong("an update needs at least one hunk with `-` or `+` lines"));
        }
        Ok(Action::Update { to, hunks })
    }

    fn line(&self, line: &str, hunk: &mut Hunk, hunks: &mut Vec<Hunk>) -> Result<(), String> {
        let begun = !hunk.old.is_empty() || !hunk.new.is_empty();
        if let Some(header) = line.strip_prefix("@@") {
            if begun {
                finish(hunk, hunks);
            }
            let (number, anchor) = header_of(header);
            hunk.line = number.or(hunk.line);
            hunk.anchors.extend(anchor);
            return Ok(());
        }
        let git = ["--- a/", "+++ b/", "--- /dev/null", "diff --git ", "index "];
        // A single `--- text` removes a line that begins with `--`, as comments of SQL and Lua do.
        let is_next = |mark: &str| self.lines.get(self.at + 1).is_some_and(|line| line.starts_with(mark));
        let is_before = |mark: &str| self.at > 0 && self.lines[self.at - 1].starts_with(mark);
        let is_pair =
            (line.starts_with("--- ") && is_next("+++ ")) || (line.starts_with("+++ ") && is_before("--- "));
        let is_header = is_pair || git.iter().any(|mark| line.starts_with(mark));
        if !begun && hunks.is_empty() && hunk.anchors.is_empty() && is_header {
            return Ok(());
        }
        if line.starts_with("\\ No newline") {
            return Ok(());
        }
        let (old, new, text) = match line.as_bytes().first() {
            Some(b'+') => (false, true, &line[1..]),
            Some(b'-') => (true, false, &line[1..]),
            Some(b' ') => (true, true, &line[1..]),
            // An empty context line that lost its space, or a line that never had one.
            None => (true, true, ""),
            Some(_) if hunk.at_end => return Err(self.wrong("nothing follows `*** End of File` in a hunk")),
            Some(_) => (true, true, line),
        };
        for (wanted, side) in [(old, &mut hunk.old), (new, &mut hunk.new)] {
            if wanted {
                side.push_str(text);
                side.push('\n');
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
