//! Trust by content: project content that runs, connects or redirects something is trusted by its exact text.
//!
//! Owns the user's decisions about such content (hooks, MCP servers, helpers, commands that run something, scripts of
//! skills). Each decision is bound to the whole text that was shown. A changed text counts as undecided. The old text
//! is kept, so that the difference can be shown. Asks nobody: front ends ask, and store the answer here. Does not look for
//! the scripts that a command runs: `trust::scripts` does.

use crate::environment::Environment;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Maximum number of bytes of a text that are kept for a later difference. Of a longer text, only the hash is kept.
const MAX_KEPT: usize = 64 * 1024;

/// Maximum number of bytes of the file with all decisions.
const MAX_DECISIONS: u64 = 256 << 20;

/// Content of the project that needs trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// `hooks`, `mcp`, `command`, …
    pub kind: String,
    /// The file or the name, unique within its kind.
    pub name: String,
    /// The whole text that decides what runs, in readable form.
    pub content: String,
}

/// The state of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Trusted,
    /// The user refused exactly this content.
    Refused,
    New,
    /// The user decided about another text of this item; that text, if it was kept.
    Changed {
        before: Option<String>,
    },
}

/// A decision: one line of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Decision {
    root: String,
    kind: String,
    name: String,
    sha256: String,
    trusted: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<String>,
}

/// The decisions about one project.
#[derive(Debug)]
pub(crate) struct ContentTrust {
    file: PathBuf,
    root: String,
    /// `--trust`: everything counts as trusted in this run.
    everything: bool,
    decisions: Mutex<BTreeMap<(String, String), Decision>>,
    unused: Mutex<Vec<String>>,
    /// Content that was requested, and that the user has refused.
    refused: Mutex<Vec<String>>,
}

impl ContentTrust {
    pub(crate) fn for_project(environment: &Environment, root: &Path, everything: bool) -> Self {
        let file = environment.data_dir.join("trusted-content.jsonl");
        let root = root.to_string_lossy().into_owned();
        let text = becket_files::read_text(&file, MAX_DECISIONS).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Decision>(line).ok());
        let mut decided: BTreeMap<(String, String), Decision> = lines
            .filter(|decided| decided.root == root)
            .map(|decided| ((decided.kind.clone(), decided.name.clone()), decided))
            .collect();
        // A line without a hash withdraws the earlier decision.
        decided.retain(|_, decided| !decided.sha256.is_empty());
        let decided = Mutex::new(decided);
        Self {
            file,
            root,
            everything,
            decisions: decided,
            unused: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    pub(crate) fn state(&self, item: &Item) -> State {
        if self.everything {
            return State::Trusted;
        }
        let decided = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        match decided.get(&(item.kind.clone(), item.name.clone())) {
            None => State::New,
            Some(known) if known.sha256 == hash(&item.content) && known.trusted => State::Trusted,
            Some(known) if known.sha256 == hash(&item.content) => State::Refused,
            Some(known) => State::Changed { before: known.content.clone() },
        }
    }

    /// True if the user, or `--trust`, allows exactly this content. If not, [`Self::note`] lists it.
    pub(crate) fn is_trusted(&self, kind: &str, name: &str, content: &str) -> bool {
        let item = Item { kind: kind.to_owned(), name: name.to_owned(), content: content.to_owned() };
        let list = match self.state(&item) {
            State::Trusted => return true,
            State::Refused => &self.refused,
            State::New | State::Changed { .. } => &self.unused,
        };
        let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
        let line = format!("{kind} {name}");
        if !list.contains(&line) {
            list.push(line);
        }
        false
    }

    /// Stores the user's decision about this content.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub(crate) fn decide(&self, item: &Item, trusted: bool) -> io::Result<()> {
        let decided = Decision {
            root: self.root.clone(),
            kind: item.kind.clone(),
            name: item.name.clone(),
            sha256: hash(&item.content),
            trusted,
            content: (item.content.len() <= MAX_KEPT).then(|| item.content.clone()),
        };
        self.append(&decided)?;
        let key = (item.kind.clone(), item.name.clone());
        self.decisions.lock().unwrap_or_else(PoisonError::into_inner).insert(key, decided);
        Ok(())
    }

    /// Withdraws the user's refusals, so that becket asks about this content again. Returns their number.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub(crate) fn forget_refusals(&self) -> io::Result<usize> {
        let mut decided = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        let refused: Vec<_> = decided.values().filter(|decided| !decided.trusted).cloned().collect();
        for decision in &refused {
            self.append(&Decision { sha256: String::new(), content: None, ..decision.clone() })?;
            decided.remove(&(decision.kind.clone(), decision.name.clone()));
        }
        Ok(refused.len())
    }

    fn append(&self, decided: &Decision) -> io::Result<()> {
        becket_files::private::append(&self.file, format!("{}\n", serde_json::to_string(decided)?).as_bytes())
    }

    /// Returns a line about all content that was requested and not used.
    pub(crate) fn note(&self) -> Option<String> {
        let unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = Vec::new();
        if !unused.is_empty() {
            out.push(format!(
                "Not used, because you have not trusted this project's content: {}. becket asks about it when it starts \
                 in a terminal; --trust allows all of it for one run.",
                unused.join(", ")
            ));
        }
        if !refused.is_empty() {
            out.push(format!(
                "Not used, because you have refused it: {}. To be asked again: becket mcp reset-project-choices",
                refused.join(", ")
            ));
        }
        (!out.is_empty()).then(|| out.join(" "))
    }
}

fn hash(content: &str) -> String {
    becket_tool::sha256(content.as_bytes())
}

/// Returns the text that the user reads before deciding: all of it, or the differences.
pub(crate) fn shown(item: &Item, state: &State) -> String {
    match state {
        State::Changed { before: Some(before) } => {
            let mut out = String::new();
            let (old, new): (Vec<&str>, Vec<&str>) =
                (before.lines().collect(), item.content.lines().collect());
            for line in &old {
                if !new.contains(line) {
                    let _ = writeln!(out, "- {line}");
                }
            }
            for line in &new {
                let mark = if old.contains(line) { ' ' } else { '+' };
                let _ = writeln!(out, "{mark} {line}");
            }
            out
        }
        _ => item.content.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_holds_for_exactly_what_was_shown() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::below(dir.path());
        let root = dir.path().join("p");
        let item =
            |content: &str| Item { kind: "hooks".into(), name: "a.json".into(), content: content.into() };
        let trust = ContentTrust::for_project(&environment, &root, false);
        assert_eq!(trust.state(&item("one\ntwo")), State::New);
        trust.decide(&item("one\ntwo"), true).unwrap();
        for trust in [&trust, &ContentTrust::for_project(&environment, &root, false)] {
            assert_eq!(trust.state(&item("one\ntwo")), State::Trusted);
            let changed = trust.state(&item("one\nthree"));
            assert_eq!(changed, State::Changed { before: Some("one\ntwo".into()) });
            assert_eq!(shown(&item("one\nthree"), &changed), "- two\n  one\n+ three\n");
            assert!(!trust.is_trusted("hooks", "a.json", "one\nthree"));
            assert!(trust.note().unwrap().contains("hooks a.json"));
        }
        trust.decide(&item("one\nthree"), false).unwrap();
        assert_eq!(trust.state(&item("one\nthree")), State::Refused);
        // The note about refused content must not say that a terminal would ask about it, because no question follows a refusal.
        let again = ContentTrust::for_project(&environment, &root, false);
        assert!(!again.is_trusted("hooks", "a.json", "one\nthree"));
        let note = again.note().unwrap();
        assert!(
            note.contains("you have refused it: hooks a.json") && !note.contains("in a terminal"),
            "{note}"
        );
        assert_eq!(again.forget_refusals().unwrap(), 1);
        for trust in [&again, &ContentTrust::for_project(&environment, &root, false)] {
            assert_eq!(trust.state(&item("one\nthree")), State::New);
        }
        assert_eq!(again.forget_refusals().unwrap(), 0);
        trust.decide(&item("one\nthree"), false).unwrap();
        // The same item in another project, of another kind or with another name is a different item.
        assert_eq!(
            ContentTrust::for_project(&environment, dir.path(), false).state(&item("one\nthree")),
            State::New
        );
        assert_eq!(
            ContentTrust::for_project(&environment, dir.path(), true).state(&item("x")),
            State::Trusted
        );
    }
}
