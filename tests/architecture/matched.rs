//! Finds behaviour that hangs on words: a text that one crate writes and another one looks for. Values must pass between crates,
//! so that rewording a message changes no behaviour.
//!
//! Reads without a compiler: literals in calls such as `starts_with("…")` and in comparisons. Tests and comments are left out, and so
//! are literals of one word, which are names.

use super::{root, rust_files};
use std::collections::BTreeMap;

/// Calls and operators whose literal is looked for.
const LOOKS_FOR: &[&str] = &[
    ".starts_with(",
    ".ends_with(",
    ".strip_prefix(",
    ".strip_suffix(",
    ".contains(",
    ".split_once(",
    ".rsplit_once(",
    ".split(",
    ".find(",
    ".replace(",
    ".trim_start_matches(",
    ".trim_end_matches(",
    "== ",
    "!= ",
];
/// Bytes of the shortest literal that is looked at. Shorter ones are separators.
const LEAST: usize = 10;
/// Texts that no crate of becket makes up, and where they come from.
const FORMATS: &[(&str, &str)] = &[
    ("diff --git ", "diffs of git"),
    ("copy from ", "diffs of git"),
    ("rename from ", "diffs of git"),
    ("rename to ", "diffs of git"),
    ("new file mode ", "diffs of git"),
    ("deleted file mode ", "diffs of git"),
    ("similarity index ", "diffs of git"),
    ("\\\\ No newline", "diffs of git"),
    ("worktree = ", "configuration of git"),
    ("## Next steps", "the form of summaries, which the scripted model recognizes like a real one"),
    (" (`becket doctor`)", "a hint that `becket doctor` does not give to its own reader"),
    (
        "The context is full",
        "the first words of a turn's end in the ledger; providers say it in words of their own",
    ),
    ("the agent ", "the first words of warnings about agents, which becket itself writes"),
    (" Nothing was changed.", "both crates end a message of their own with it"),
];

/// The literals of a source: each with the text before it on its line, without tests and comments.
fn literals(source: &str) -> Vec<(String, String)> {
    let source = source.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = Vec::new();
    for line in source.lines().filter(|line| !line.trim_start().starts_with("//")) {
        let mut rest = line;
        while let Some((before, after)) = rest.split_once('"') {
            let mut end = None;
            let mut escaped = false;
            for (at, c) in after.char_indices() {
                match c {
                    '"' if !escaped => {
                        end = Some(at);
                        break;
                    }
                    _ => escaped = c == '\\' && !escaped,
                }
            }
            let Some(end) = end else { break };
            found.push((before.to_owned(), after[..end].to_owned()));
            rest = &after[end + 1..];
        }
    }
    found
}

#[test]
fn no_crate_looks_for_words_that_another_one_writes() {
    let mut sought: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut written: Vec<(String, String)> = Vec::new();
    for folder in std::fs::read_dir(root().join("crates")).unwrap() {
        let folder = folder.unwrap().path();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        if matches!(name.as_str(), "testkit" | "xtask") {
            continue;
        }
        for file in rust_files(&folder.join("src")) {
            if file.to_string_lossy().ends_with("tests.rs")
                || file.components().any(|part| part.as_os_str() == "tests")
            {
                continue;
            }
            for (before, text) in literals(&std::fs::read_to_string(&file).unwrap()) {
                let is_sought = LOOKS_FOR.iter().any(|call| before.ends_with(call));
                if is_sought && text.len() >= LEAST && text.trim().contains(' ') {
                    sought.entry(text).or_default().push(name.clone());
                } else if !is_sought {
                    written.push((name.clone(), text));
                }
            }
        }
    }
    assert!(sought.len() > 20 && written.len() > 10_000, "{} {}", sought.len(), written.len());
    let mut faults = Vec::new();
    for (text, seekers) in &sought {
        if FORMATS.iter().any(|(known, _)| known == text) {
            continue;
        }
        for (writer, message) in written.iter().filter(|(_, message)| message.contains(text.trim())) {
            if !seekers.contains(writer) {
                faults.push(format!("{seekers:?} looks for {text:?}, which {writer} writes: {message:?}"));
            }
        }
    }
    assert!(faults.is_empty(), "pass a value instead:\n{}", faults.join("\n"));
}
