//! Parser for unified diffs, as git and diff write them. Produces the sections of a patch.
//!
//! Owns the certain cases: files that are changed, created, deleted or renamed. Refused are changes that are not text
//! (binary content, a mode alone, copies, links), contradictions, and diffs that may be truncated. Line numbers only
//! distinguish places that match equally well. Headings after `@@` are not searched for, because git puts the nearest
//! line there that looks like the start of a function, which may be far above the place.
//!
//! Pure; knows no file.

use super::section::{Action, Hunk, Section, finish, header_of};
use becket_types::cut_end;

/// True if a diff of a file begins on this line.
pub(super) fn begins(lines: &[&str], at: usize) -> bool {
    let next = lines.get(at + 1).copied().unwrap_or_default();
    let line = lines.get(at).copied().unwrap_or_default();
    line.starts_with("diff --git ") || (line.starts_with("--- ") && next.starts_with("+++ "))
}

/// Parses the sections of a diff that begins on the first line.
///
/// # Errors
///
/// Returns a message for the model about the first mistake in the diff.
pub(super) fn parse(lines: &[&str]) -> Result<Vec<Section>, String> {
    let mut reader = Reader { lines, at: 0, closed: false };
    let mut out = Vec::new();
    while reader.skip_between()? {
        out.push(reader.file()?);
    }
    Ok(out)
}

/// Header lines above the hunks of one file.
#[derive(Default)]
struct Head {
    /// Both names of a `diff --git` line.
    git: Option<String>,
    old: Option<String>,
    new: Option<String>,
    rename: (Option<String>, Option<String>),
    /// File mode that the diff asks for. It is not set; the model gets a note.
    mode: Option<String>,
    added: bool,
    deleted: bool,
}

/// Hunks of one file.
#[derive(Default)]
struct Body {
    hunks: Vec<Hunk>,
    /// `(old, new)`: true if the last line of that text has no newline.
    bare: (bool, bool),
}

struct Reader<'a> {
    lines: &'a [&'a str],
    at: usize,
    /// True after a fence or signature ended the last hunk, so the following lines do not belong to it.
    closed: bool,
}

impl<'a> Reader<'a> {
    fn line(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn wrong(&self, what: &str) -> String {
        let line =
            self.line().map_or("at its end".to_owned(), |l| format!("at `{}`", cut_end(l.trim_end(), 120)));
        format!("The diff is wrong {line}: {what}; nothing was changed.")
    }

    /// Skips to the next file. Lines in between may not look like part of a diff.
    fn skip_between(&mut self) -> Result<bool, String> {
        let from = self.at;
        while self.at < self.lines.len() && !begins(self.lines, self.at) {
            self.at += 1;
        }
        let closed = std::mem::take(&mut self.closed);
        let odd = |line: &&&str| {
            line.starts_with("@@") || line.starts_with("*** ") || !closed && line.starts_with(['+', '-'])
        };
        let found = self.at < self.lines.len();
        match self.lines[from..self.at].iter().find(odd) {
            Some(line) => Err(format!(
                "The diff is wrong at `{}`: it belongs to no hunk of a file; nothing was changed.",
                cut_end(line.trim_end(), 120)
            )),
            None => Ok(found),
        }
    }

    fn file(&mut self) -> Result<Section, String> {
        let head = self.head()?;
        let body = self.body()?;
        section(head, body)
    }

    fn head(&mut self) -> Result<Head, String> {
        let mut head = Head::default();
        if let Some(names) = self.line().and_then(|line| line.strip_prefix("diff --git ")) {
            head.git = Some(names.trim_end().to_owned());
            self.at += 1;
        }
        while let Some(line) = self.line() {
            if line.starts_with("--- ") {
                break;
            }
            if head.git.is_none() || line.starts_with("diff --git ") {
                return Ok(head);
            }
            let after = |what: &str| line.strip_prefix(what).map(|rest| rest.trim().to_owned());
            if line.starts_with("Binary files ") || line.starts_with("GIT binary patch") {
                return Err(format!(
                    "The diff of {} is of binary content, which cannot be patched as text; nothing was changed. Take this file out.",
                    head.git.unwrap_or_default()
                ));
            } else if line.starts_with("copy from ") || line.starts_with("copy to ") {
                return Err("The diff copies a file, which is not done here; nothing was changed. Give it as a new file, or use cp.".to_owned());
            } else if let Some(path) = after("rename from ") {
                head.rename.0 = Some(unquoted(&path));
            } else if let Some(path) = after("rename to ") {
                head.rename.1 = Some(unquoted(&path));
            } else if let Some(mode) = after("new file mode ") {
                head.added = true;
                head.mode = (mode != "100644").then_some(mode);
            } else if let Some(mode) = after("new mode ") {
                head.mode = Some(mode);
            } else if after("deleted file mode ").is_some() {
                head.deleted = true;
            } else if !["old mode ", "index ", "similarity index", "dissimilarity index"]
                .iter()
                .any(|known| line.starts_with(known))
                && !line.trim().is_empty()
            {
                // Any other line ends the header. `skip_between` judges the lines from here on.
                return Ok(head);
            }
            self.at += 1;
        }
        let Some(old) = self.line().and_then(|line| line.strip_prefix("--- ")) else { return Ok(head) };
        self.at += 1;
        let Some(new) = self.line().and_then(|line| line.strip_prefix("+++ ")) else {
            return Err(self.wrong("a line `+++ <path>` must follow `---`"));
        };
        self.at += 1;
        let (none_old, none_new);
        (none_old, head.old) = named(old);
        (none_new, head.new) = named(new);
        head.added |= none_old;
        head.deleted |= none_new;
        Ok(head)
    }

    fn body(&mut self) -> Result<Body, String> {
        let mut body = Body::default();
        while let Some(line) = self.line() {
            if line.starts_with("@@@") {
                return Err(
                    self.wrong("this is a merge of several diffs; give one against the file as it is")
                );
            }
            let Some(header) = line.strip_prefix("@@") else { break };
            let counts = Counts::parse(header);
            let anchor = if counts.is_none() { header_of(header).1 } else { None };
            self.at += 1;
            self.hunk(counts, anchor, &mut body)?;
        }
        Ok(body)
    }

    fn hunk(
        &mut self,
        counts: Option<Counts>,
        anchor: Option<String>,
        body: &mut Body,
    ) -> Result<(), String> {
        let line = counts.map(|counts| counts.line);
        let mut hunk = Hunk { line, anchors: Vec::from_iter(anchor), ..Hunk::default() };
        let mut left = counts;
        let mut last = ' ';
        while let Some(line) = self.line() {
            let full = left.is_none_or(|left| left.old <= 0 && left.new <= 0);
            if line.starts_with("@@") || self.next_file(full) {
                break;
            }
            let first = line.chars().next();
            self.closed = full && (line.trim_end() == "```" || line == "-- ");
            // With counts, a line with any other first character ends the hunk. Without counts it may be a
            // context line that lost its blank, and must then be in the file.
            let other = counts.is_some() && !matches!(first, None | Some('+' | '-' | ' ' | '\\'));
            if self.closed || full && other {
                break;
            }
            self.at += 1;
            let (old, new, text) = match first {
                Some('\\') => {
                    body.bare.0 |= last != '+';
                    body.bare.1 |= last != '-';
                    continue;
                }
                Some(sign @ ('+' | '-' | ' ')) => (sign != '+', sign != '-', &line[1..]),
                // A context line that lost its blank.
                _ => (true, true, line),
            };
            last = if old && new { first.map_or(last, |_| ' ') } else { first.unwrap_or(last) };
            if let Some(left) = &mut left {
                left.old -= i64::from(old);
                left.new -= i64::from(new);
            }
            for (wanted, side) in [(old, &mut hunk.old), (new, &mut hunk.new)] {
                if wanted {
                    side.push_str(text);
                    side.push('\n');
                }
            }
        }
        let short = left.is_some_and(|left| left.old > 0 || left.new > 0);
        if short && last != ' ' && self.at >= self.lines.len() {
            return Err("The last hunk of the diff has fewer lines than its `@@` line says, so the diff may be cut off; nothing was changed. Send it whole, or with right numbers.".to_owned());
        }
        finish(&mut hunk, &mut body.hunks);
        Ok(())
    }

    /// True if the next file begins here. A removed line that begins with `-- ` looks similar.
    fn next_file(&self, full: bool) -> bool {
        let line = self.line().unwrap_or_default();
        if line.starts_with("diff --git ") {
            return true;
        }
        let hunk = self.lines.get(self.at + 2).is_some_and(|line| line.starts_with("@@"));
        let marked = ["--- a/", "--- /dev/null"].iter().any(|head| line.starts_with(head));
        begins(self.lines, self.at) && hunk && (full || marked)
    }
}

/// The numbers of an `@@` line: the first old line, and how many old and new lines the hunk has.
#[derive(Clone, Copy)]
struct Counts {
    line: usize,
    old: i64,
    new: i64,
}

impl Counts {
    fn parse(header: &str) -> Option<Self> {
        let (ranges, _) = header.trim_start().split_once("@@")?;
        let (old, new) = ranges.trim().split_once(' ')?;
        let range = |text: &str| -> Option<(usize, i64)> {
            let (at, count) = text.split_once(',').unwrap_or((text, "1"));
            Some((at.parse().ok()?, i64::from(count.parse::<u32>().ok()?)))
        };
        let (line, old) = range(old.strip_prefix('-')?)?;
        let (_, new) = range(new.trim().strip_prefix('+')?)?;
        Some(Self { line, old, new })
    }
}

/// Parses the name on a `---` or `+++` line. The first value is true for `/dev/null`.
fn named(rest: &str) -> (bool, Option<String>) {
    let name = rest.split('\t').next().unwrap_or_default().trim_end();
    if name == "/dev/null" { (true, None) } else { (false, Some(unquoted(name))) }
}

/// Removes the quotes that git puts around unusual names.
fn unquoted(name: &str) -> String {
    let Some(inside) = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) else {
        return name.to_owned();
    };
    let mut out: Vec<u8> = Vec::new();
    let mut bytes = inside.bytes().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let mut octal = String::new();
        while let Some(digit) = bytes.next_if(|b| octal.len() < 3 && matches!(b, b'0'..=b'7')) {
            octal.push(char::from(digit));
        }
        match u8::from_str_radix(&octal, 8) {
            Ok(code) => out.push(code),
            Err(_) => out.push(match bytes.next() {
                Some(b'n') => b'\n',
                Some(b't') => b'\t',
                Some(other) => other,
                None => b'\\',
            }),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Splits a `diff --git` line that is the only source of names. Works if the names have no blanks or are
/// equal.
fn git_names(names: &str) -> Option<(String, String)> {
    if let Some((old, new)) = names.split_once(' ')
        && !new.contains(' ')
    {
        return Some((unquoted(old), unquoted(new)));
    }
    let middle = names.len() / 2;
    let (old, new) = (names.get(..middle)?, names.get(middle + 1..)?);
    (old.strip_prefix("a/")? == new.strip_prefix("b/")?).then(|| (old.to_owned(), new.to_owned()))
}

/// Prefixes that git puts in front of the two names.
const PREFIXES: [(&str, &str); 6] =
    [("a/", "b/"), ("b/", "a/"), ("i/", "w/"), ("c/", "w/"), ("c/", "i/"), ("o/", "w/")];

/// Removes the prefixes of the two names.
fn bare(old: Option<String>, new: Option<String>) -> (Option<String>, Option<String>) {
    let cut = |name: &Option<String>, prefix: &str| match name {
        Some(name) => {
            name.strip_prefix(prefix).filter(|rest| !rest.is_empty()).map(|rest| Some(rest.to_owned()))
        }
        None => Some(None),
    };
    // If only one name is given, a one-letter prefix could be a folder, so only git's default prefixes are
    // removed.
    let known = if old.is_some() && new.is_some() { &PREFIXES[..] } else { &PREFIXES[..1] };
    let both = known.iter().find_map(|(a, b)| Some((cut(&old, a)?, cut(&new, b)?)));
    both.unwrap_or((old, new))
}

fn section(head: Head, body: Body) -> Result<Section, String> {
    let Head { git, old, new, rename, mode, added, deleted } = head;
    let named = old.is_some() || new.is_some();
    let (old, new) = match (&git, named) {
        (Some(names), false) => git_names(names).map_or((None, None), |(a, b)| bare(Some(a), Some(b))),
        _ => bare(old, new),
    };
    let Some(path) = (if added { new.clone().or(old.clone()) } else { old.clone().or(new.clone()) }) else {
        return Err("The diff does not say which file it is of: its `---` and `+++` lines are missing; nothing was changed.".to_owned());
    };
    let said = |text: &str| format!("The diff of {path} {text}; nothing was changed.");
    if mode.as_deref().is_some_and(|mode| !mode.starts_with("100")) {
        return Err(said("is of a symbolic link or a submodule, which is not changed here"));
    }
    let note = mode.map(|mode| format!("Its mode {mode} was not set: use chmod."));
    let Body { mut hunks, bare: (old_bare, new_bare) } = body;
    if added && deleted {
        return Err(said("has no file on either side"));
    }
    if added {
        let mut content: String = hunks.iter().map(|hunk| hunk.new.as_str()).collect();
        if hunks.iter().any(|hunk| !hunk.old.trim().is_empty()) {
            return Err(said("is of a new file, but has lines that are there already"));
        }
        if new_bare {
            content.pop();
        }
        return Ok(Section { path, action: Action::Add(content), note });
    }
    if deleted {
        let held = (!hunks.is_empty()).then(|| hunks.iter().map(|hunk| hunk.old.as_str()).collect());
        if hunks.iter().any(|hunk| !hunk.new.trim().is_empty()) {
            return Err(said("deletes it, but keeps or adds lines"));
        }
        return Ok(Section { path, action: Action::Delete { held }, note });
    }
    let (path, to) = renamed(rename, path, old, new)?;
    let before = hunks.len();
    hunks.retain(|hunk| hunk.old != hunk.new);
    if hunks.is_empty() && to.is_none() {
        return Err(match note {
            Some(note) => format!("The diff changes the mode of {path} only. {note} Nothing was changed."),
            None if old_bare != new_bare && before > 0 => format!(
                "The diff changes nothing in {path} but the newline at its end, which is not done by a diff here; nothing was changed."
            ),
            None => format!("The diff of {path} has no hunk with `-` or `+` lines; nothing was changed."),
        });
    }
    let newline = (old_bare != new_bare).then(|| "The newline at its end is as it was.".to_owned());
    let note = note.or(newline);
    Ok(Section { path, action: Action::Update { to, hunks }, note })
}

/// Returns the path of an update, and its new path if it moves.
fn renamed(
    rename: (Option<String>, Option<String>),
    path: String,
    old: Option<String>,
    new: Option<String>,
) -> Result<(String, Option<String>), String> {
    match (rename, old, new) {
        ((Some(from), Some(to)), ..) => Ok((from, (to != path).then_some(to))),
        ((Some(_), None) | (None, Some(_)), ..) => Err(format!(
            "The diff of {path} has only one of `rename from` and `rename to`; nothing was changed."
        )),
        (_, Some(old), Some(new)) if old != new => {
            // A diff against a backup copy, such as `a.rs.orig`, changes the original and is no rename.
            let copy = |end: &str| old.strip_suffix(end) == Some(&new);
            if [".orig", ".old", ".bak", "~"].into_iter().any(copy) {
                return Ok((new, None));
            }
            Err(format!(
                "The diff names {old} and {new}, and does not say whether that is a rename; nothing was changed. Give `rename from` and `rename to` lines, or the same name twice."
            ))
        }
        _ => Ok((path, None)),
    }
}

#[cfg(test)]
#[path = "unified_tests.rs"]
mod tests;
