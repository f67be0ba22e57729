//! Plain words in comments and pages.
//!
//! No sentence of a comment opens with a free relative ("What of the calls is newest"): it opens with a verb or a noun. No comment
//! uses a word of a list of words that readers did not understand. A comment on a constant says "Maximum number of" and not "Most",
//! and no comment only points to another one. Numbers of rules (T5, T9) belong in the glossary and the specification page.
//!
//! `words.baseline` beside `Cargo.toml` holds the findings that are left, as a count for each file. A file may not exceed
//! its count; `cargo xtask words --update` lowers the counts after comments were mended. Strings and code are not judged,
//! except for the numbers of rules.

use crate::{Problems, files, read};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

const BASELINE: &str = "crates/xtask/words.baseline";

/// Words that open a free relative if a sentence begins with them.
const OPENERS: &[&str] = &["What", "Whether", "Which", "Who", "How", "Whose", "Whom"];

/// Words that open a free relative or a plain condition: see [`opens_with_relative`].
const CONDITIONS: &[&str] = &["Where", "Wherever", "Whoever", "Whatever", "Whichever"];

/// Openings of sentences that do not say which noun they mean.
const PRONOUNS: &[&str] = &["Those of ", "That of ", "Those that ", "One that "];

/// A word or phrase that is not used, and what to write instead.
const WORDS: &[(&str, &str)] = &[
    ("anew", "again"),
    ("of before", "previous"),
    ("from before", "previous"),
    ("is told", "is reported, or: X reports"),
    ("are told", "are reported"),
    ("was told", "was reported"),
    ("is said", "is reported, written, or: X says"),
    ("are said", "are reported, written"),
    ("was said", "was reported, written"),
    ("were said", "were reported, written"),
    ("goes away", "is discarded, exits, is closed"),
    ("gone on with", "continued"),
    ("go on with", "continue with"),
    ("goes on with", "continues with"),
    ("so many of", "at most N of"),
    ("stands nowhere", "is missing from"),
    ("stands in the", "is in the"),
    ("stand in the", "are in the"),
    ("stood in the", "was in the"),
    ("stands there", "is there"),
    ("stands twice", "is there twice"),
    ("stand twice", "are there twice"),
    ("stands outside", "is outside"),
    ("nowhere any more", "no longer anywhere"),
    ("such that do", "name the things"),
    ("of which it", "name the thing"),
    ("of which they", "name the things"),
    ("than which", "name the limit"),
    ("as many as there are", "all"),
    ("is no more", "no longer exists"),
    ("there anew", "again"),
    ("in its stead", "instead"),
    ("as it were", "leave it out"),
    ("for want of", "because there is no"),
    ("right behind", "directly after"),
    ("comes behind", "follows"),
    ("come behind", "follow"),
    ("came behind", "followed"),
];

/// Pages in which the numbers of rules may be used.
const NUMBERS_AT_HOME: &[&str] = &["docs/glossary.md", "docs/context-engine.md"];
const NUMBERS: &[&str] = &["T1", "T5", "T8", "T9", "T11", "T12"];

/// Exceptions: the beginning of a path, a piece of the line, and why the line is right as it is.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("crates/xtask/src/words.rs", "", "this file quotes the words that it looks for"),
    ("crates/tool-read/src/text.rs", "from before Unicode", "encodings that are older than Unicode"),
    ("docs/terminal.md", "⋯ more was said here", "the text on the screen"),
    ("docs/decisions/", "", "records are history; they are superseded, not rewritten"),
];

#[derive(Clone, Debug, PartialEq)]
struct Finding {
    line: usize,
    text: String,
    advice: String,
}

pub(crate) fn check(root: &Path) -> Result<Problems, String> {
    let allowed = baseline(&read(&root.join(BASELINE))?)?;
    let mut problems = Problems::new();
    let mut spare = 0;
    for (path, findings) in tree(root)? {
        let most = allowed.get(&path).copied().unwrap_or(0);
        spare += most.saturating_sub(findings.len());
        if findings.len() > most {
            problems.push(format!(
                "{path}: {} findings, {most} are allowed (one of these is new):",
                findings.len()
            ));
            problems.extend(findings.iter().map(|f| finding_text(&path, f)));
        }
    }
    if spare > 0 {
        println!("words: the baseline can fall by {spare}; run: cargo xtask words --update");
    }
    Ok(problems)
}

pub(crate) fn list(root: &Path, below: &str) -> Result<Problems, String> {
    let found = tree(root)?;
    let below = below.trim_end_matches('/');
    Ok(found
        .iter()
        .filter(|(path, _)| path.starts_with(below))
        .flat_map(|(path, findings)| findings.iter().map(|f| finding_text(path, f)))
        .collect())
}

/// Writes the baseline again. Moving code from file to file keeps the total, so only a higher total is refused, unless `raise` is
/// set.
pub(crate) fn update(root: &Path, raise: bool) -> Result<Problems, String> {
    let old: usize = read(&root.join(BASELINE))
        .ok()
        .map_or(Ok(usize::MAX), |text| baseline(&text).map(|counts| counts.values().sum()))?;
    let found = tree(root)?;
    let new: usize = found.values().map(Vec::len).sum();
    if new > old && !raise {
        return Ok(vec![format!(
            "words: {new} findings, {old} before: mend the new ones (cargo xtask words)"
        )]);
    }
    let mut text = String::from(
        "# Findings of `cargo xtask words` that are left, by file. The numbers may only fall.\n",
    );
    for (path, findings) in found.iter().filter(|(_, findings)| !findings.is_empty()) {
        let _ = writeln!(text, "{:>4} {path}", findings.len());
    }
    std::fs::write(root.join(BASELINE), text).map_err(|e| format!("{BASELINE}: {e}"))?;
    println!("words: {new} findings are left");
    Ok(Problems::new())
}

fn finding_text(path: &str, finding: &Finding) -> String {
    format!("  {path}:{}: {}\n      {}", finding.line, finding.advice, finding.text)
}

fn baseline(text: &str) -> Result<BTreeMap<String, usize>, String> {
    let mut counts = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let (count, path) = line.split_once(' ').ok_or_else(|| format!("{BASELINE}: {line}"))?;
        let count = count.parse().map_err(|e| format!("{BASELINE}: {line}: {e}"))?;
        counts.insert(path.trim().to_owned(), count);
    }
    Ok(counts)
}

/// The findings of every file, by path from the root with `/` between its parts.
fn tree(root: &Path) -> Result<BTreeMap<String, Vec<Finding>>, String> {
    let mut paths = Vec::new();
    for folder in ["crates", "tests", "benches", "fuzz", "docs"] {
        paths.extend(files(&root.join(folder), &[".rs", ".md"])?);
    }
    for page in ["README.md", "CONTRIBUTING.md", "AGENTS.md", "SECURITY.md", "CHANGELOG.md"] {
        if root.join(page).is_file() {
            paths.push(root.join(page));
        }
    }
    let mut found = BTreeMap::new();
    for path in paths {
        let text = read(&path)?;
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        let mut findings = if path.extension().is_some_and(|e| e == "rs") {
            in_source(&text)
        } else {
            in_page(&name, &text)
        };
        findings.retain(|f| {
            !EXCEPTIONS.iter().any(|(place, piece, _)| name.starts_with(place) && f.text.contains(piece))
        });
        found.insert(name, findings);
    }
    Ok(found)
}

fn in_source(text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    // The marker of the comment that the previous line belongs to: a change of marker begins a new comment.
    let mut open = None;
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let number = index + 1;
        let Some((marker, comment)) = comment_of(line) else {
            open = None;
            if let Some(comment) = behind_code(line) {
                relatives(number, std::iter::once(comment), &mut findings);
            }
            // Numbers of rules are also looked for in code, but not in strings of tests that quote documents.
            numbers(number, line, &mut findings);
            continue;
        };
        if comment.trim().is_empty() {
            open = None;
            continue;
        }
        if open != Some(marker) {
            let paragraph = lines
                .iter()
                .skip(index)
                .map_while(|l| comment_of(l).filter(|(m, c)| *m == marker && !c.trim().is_empty()))
                .map(|(_, comment)| comment.trim());
            relatives(number, paragraph.clone(), &mut findings);
            let paragraph: Vec<&str> = paragraph.collect();
            riddles(number, &paragraph, lines.get(index + paragraph.len()), &mut findings);
        }
        open = Some(marker);
        listed(number, comment, &mut findings);
        numbers(number, comment, &mut findings);
    }
    findings
}

fn in_page(name: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            listed(index + 1, line, &mut findings);
            if !NUMBERS_AT_HOME.contains(&name) {
                numbers(index + 1, line, &mut findings);
            }
        }
    }
    findings
}

/// Marker and text of a line that is a comment and nothing else.
fn comment_of(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    ["//!", "///", "//"].into_iter().find_map(|marker| Some((marker, line.strip_prefix(marker)?)))
}

/// The comment at the end of a line of code. A `//` inside a string does not count, because code before a comment ends with
/// punctuation.
fn behind_code(line: &str) -> Option<&str> {
    let (code, comment) = line.rsplit_once(" // ")?;
    code.trim_end().ends_with([';', ',', '{', '}', '(', ')', ']']).then_some(comment)
}

/// Finds the sentences of a paragraph that open with a free relative. `number` is the number of its first line.
fn relatives<'a>(number: usize, paragraph: impl Iterator<Item = &'a str>, findings: &mut Vec<Finding>) {
    // Line number and text of the sentence that is not complete yet. A sentence may continue over several lines.
    let mut sentence = (number, String::new());
    let mut close = |(line, text): (usize, String)| {
        if let Some(opener) = opens_with_relative(&text) {
            push(findings, line, &text, format!("opens with \"{opener}\": open with a verb or a noun"));
        }
        if let Some(pronoun) = PRONOUNS.iter().find(|pronoun| text.starts_with(**pronoun)) {
            let advice = format!("opens with \"{}\": name the thing", pronoun.trim_end());
            push(findings, line, &text, advice);
        }
    };
    for (index, line) in paragraph.enumerate() {
        let item = ["- ", "* ", "| "].into_iter().find_map(|mark| line.strip_prefix(mark));
        if item.is_some() {
            close(std::mem::take(&mut sentence));
        }
        for piece in sentences(item.unwrap_or(line)) {
            let continues = sentence.1.is_empty() || !ends_sentence(&sentence.1) || !opens_sentence(piece);
            if !continues {
                close(std::mem::take(&mut sentence));
            }
            if sentence.1.is_empty() {
                sentence.0 = number + index;
            } else {
                sentence.1.push(' ');
            }
            sentence.1.push_str(piece);
        }
    }
    close(sentence);
}

/// Finds comments that say nothing by themselves. `item`: the line after the paragraph.
fn riddles(number: usize, paragraph: &[&str], item: Option<&&str>, findings: &mut Vec<Finding>) {
    let first = paragraph.first().copied().unwrap_or_default();
    let is_constant = item.is_some_and(|line| line.contains("const ") && line.contains(':'));
    if is_constant && first.starts_with("Most ") {
        push(findings, number, first, "\"Most\" of a limit: say \"Maximum number of\"".to_owned());
    }
    if let [line] = paragraph
        && line.strip_prefix("See [").is_some_and(|rest| rest.ends_with("].") && !rest.contains(' '))
    {
        push(findings, number, line, "only points elsewhere: say what this is".to_owned());
    }
}

/// Splits a line at the ends of its sentences. The last piece may be the start of a longer sentence.
fn sentences(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let whole = rest;
        if whole.is_empty() {
            return None;
        }
        let end = whole
            .match_indices(' ')
            .map(|(at, _)| at)
            .find(|at| ends_sentence(&whole[..*at]) && opens_sentence(&whole[at + 1..]));
        rest = end.map_or("", |at| &whole[at + 1..]);
        Some(end.map_or(whole, |at| &whole[..at]))
    })
}

fn ends_sentence(text: &str) -> bool {
    text.ends_with(['.', '?', '!', ':', ';'])
}

fn opens_sentence(text: &str) -> bool {
    text.starts_with(|c: char| c.is_uppercase())
}

/// The opener, if the sentence opens with a free relative. Questions are fine. "Where a file has changed, the edit is
/// refused" is a condition with its main clause, and fine too.
fn opens_with_relative(sentence: &str) -> Option<&'static str> {
    let first = sentence.split_whitespace().next()?;
    let is_condition = CONDITIONS.contains(&first) && sentence.contains(", ");
    if sentence.ends_with('?') || is_condition {
        return None;
    }
    OPENERS.iter().chain(CONDITIONS).find(|opener| **opener == first).copied()
}

fn listed(line: usize, text: &str, findings: &mut Vec<Finding>) {
    let lower = text.to_lowercase();
    for (word, instead) in WORDS {
        if has_word(&lower, word) {
            push(findings, line, text, format!("\"{word}\": say \"{instead}\""));
        }
    }
}

fn numbers(line: usize, text: &str, findings: &mut Vec<Finding>) {
    for number in NUMBERS {
        if has_word(text, number) {
            push(findings, line, text, format!("{number}: name the rule, not its number"));
        }
    }
}

fn push(findings: &mut Vec<Finding>, line: usize, text: &str, advice: String) {
    findings.push(Finding { line, text: text.trim().to_owned(), advice });
}

/// True if `word` occurs in `text` with no letter, digit or underscore beside it.
fn has_word(text: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].chars().next_back().is_some_and(inside)
            && !text[at + word.len()..].chars().next().is_some_and(inside)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(source: &str) -> Vec<String> {
        in_source(source).into_iter().map(|f| format!("{}: {}", f.line, f.advice)).collect()
    }

    #[test]
    fn free_relatives_are_found_and_questions_and_conditions_are_not() {
        for (sentence, opener) in [
            ("What of the calls is newest by its id.", Some("What")),
            ("Whether it is at the beginning of a line.", Some("Whether")),
            ("Where blocks lie.", Some("Where")),
            ("Whoever clears this must pop the flags.", Some("Whoever")),
            ("Where a file has changed, the edit is refused.", None),
            ("Whatever is pasted, no text is lost.", None),
            ("What is a turn?", None),
            ("When a turn ends.", None),
            ("Returns what is left.", None),
        ] {
            assert_eq!(opens_with_relative(sentence), opener, "{sentence}");
        }
    }

    #[test]
    fn each_sentence_of_a_comment_counts_at_the_line_where_it_opens() {
        let source = "/// Returns the call.\n/// Which is newest.\nfn f() {}\n// How it is done.\nlet x = \"What\";\n\
            //! Keeps files. What is gone\n//! stays gone: Who asks? Which of\n//! - What is left\n//!\n//! Who did it.\n\
            /// Quotes \"What is\nlet y = 1; // What it is.\nlet z = \"a // What\";\n// The way of\n// What is a name.\n";
        let opens = |line: usize, opener: &str| {
            format!("{line}: opens with \"{opener}\": open with a verb or a noun")
        };
        assert_eq!(
            advice(source),
            [
                opens(2, "Which"),
                opens(4, "How"),
                opens(6, "What"),
                opens(7, "Which"),
                opens(8, "What"),
                opens(10, "Who"),
                opens(12, "What"),
            ]
        );
    }

    #[test]
    fn listed_words_count_in_comments_and_numbers_also_in_code() {
        let source = "// It is made anew.\nlet renewed = \"anew\";\nfn is_t9() {}\nstruct T9;\nlet a: T91;\n";
        assert_eq!(advice(source), ["1: \"anew\": say \"again\"", "4: T9: name the rule, not its number"]);
    }

    #[test]
    fn comments_that_say_nothing_by_themselves_are_found() {
        let source = "/// Most bytes of a key.\npub(crate) const A: usize = 1;\n// Most terminals wrap.\nlet a = 1;\n\
            /// See [`B::c`].\nfn b() {}\n/// Reads. See [`B::c`].\nfn c() {}\n// Keeps a. Those of b\n// are kept.\n";
        assert_eq!(
            advice(source),
            [
                "1: \"Most\" of a limit: say \"Maximum number of\"",
                "5: only points elsewhere: say what this is",
                "9: opens with \"Those of\": name the thing",
            ]
        );
    }

    #[test]
    fn code_blocks_of_pages_are_not_judged() {
        let page = "It is made anew.\n```\nanew\n```\nT5 is here.\n";
        assert_eq!(in_page("docs/a.md", page).len(), 2);
        assert_eq!(in_page("docs/glossary.md", page).len(), 1);
    }

    #[test]
    fn a_baseline_is_counts_and_paths() {
        let counts = baseline("# a comment\n  12 crates/a.rs\n   1 docs/b.md\n").unwrap_or_default();
        assert_eq!(counts, BTreeMap::from([("crates/a.rs".to_owned(), 12), ("docs/b.md".to_owned(), 1)]));
        assert!(baseline("crates/a.rs\n").is_err());
    }
}
