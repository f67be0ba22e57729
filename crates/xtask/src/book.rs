//! Checks that the book in `docs/` is complete and linked, and that its commands work.
//!
//! Every page of `docs/` is in `SUMMARY.md`; every relative link leads to a file, and to a heading of it if it names one. Every
//! source file that a page names in backticks exists. Blocks marked `console` are run: each line that begins with `$ ` runs in a
//! home folder of the page and must succeed; each line below it must occur in the command's output (`…` stands for any lines).
//! Every `becket` command line in other code blocks must name a subcommand and flags that exist, and runs in a prepared home folder
//! ([`runs`]).
//!
//! Does not render: `mdbook build` does, from `book.toml`.

mod runs;

use crate::{Problems, files, read};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Pages outside `docs/` whose links are checked too.
const OUTSIDE: &[&str] = &["README.md", "CONTRIBUTING.md", "AGENTS.md", "SECURITY.md", "benches/README.md"];

pub(crate) fn check(root: &Path) -> Result<Problems, String> {
    let mut problems = Problems::new();
    let summary = root.join("docs/SUMMARY.md");
    let listed: BTreeSet<PathBuf> = links(&read(&summary)?)
        .into_iter()
        .map(|(_, target)| root.join("docs").join(target.split('#').next().unwrap_or_default()))
        .collect();
    let pages = pages(root)?;
    for page in pages.iter().filter(|p| p.starts_with(root.join("docs")) && **p != summary) {
        if !listed.contains(page) {
            problems.push(format!("{}: not in docs/SUMMARY.md", short_path(root, page)));
        }
    }
    let mut headings = BTreeMap::new();
    let sources = ["crates", "tests", "benches", "fuzz"].map(|folder| files(&root.join(folder), &[".rs"]));
    let sources: Vec<PathBuf> = sources.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    for page in &pages {
        for (line, name) in named_sources(&read(page)?) {
            if !sources.iter().any(|source| source.ends_with(&name)) {
                problems
                    .push(format!("{}:{line}: {name}: there is no such source file", short_path(root, page)));
            }
        }
        for (line, target) in links(&read(page)?) {
            if let Some(problem) = broken(page, &target, &mut headings)? {
                problems.push(format!("{}:{line}: {target}: {problem}", short_path(root, page)));
            }
        }
    }
    Ok(problems)
}

fn pages(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut pages = files(&root.join("docs"), &[".md"])?;
    pages.extend(OUTSIDE.iter().map(|p| root.join(p)).filter(|p| p.is_file()));
    Ok(pages)
}

fn short_path(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

/// Returns why the link cannot be followed; `None` if it can, or if it leads out of the repository.
fn broken(
    page: &Path,
    target: &str,
    headings: &mut BTreeMap<PathBuf, BTreeSet<String>>,
) -> Result<Option<&'static str>, String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(None);
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file =
        if path.is_empty() { page.to_path_buf() } else { page.parent().unwrap_or(Path::new("")).join(path) };
    if !file.exists() {
        return Ok(Some("there is no such file"));
    }
    if anchor.is_empty() || file.is_dir() {
        return Ok(None);
    }
    if !headings.contains_key(&file) {
        headings.insert(file.clone(), anchors(&read(&file)?));
    }
    let known = headings.get(&file).is_some_and(|known| known.contains(anchor));
    Ok((!known).then_some("there is no such heading"))
}

/// The anchors of a page's headings, in the form that GitHub and mdbook give them.
fn anchors(page: &str) -> BTreeSet<String> {
    prose(page)
        .filter_map(|(_, line)| line.strip_prefix('#'))
        .map(|line| {
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
        .collect()
}

/// Lines outside code blocks, with their numbers.
fn prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    page.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        (!in_code && !fence).then_some((index + 1, line))
    })
}

/// Line numbers and targets of `[text](target)`, outside code.
fn links(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(page) {
        // After splitting at backticks, every second piece is code.
        let text: String = line.split('`').step_by(2).collect::<Vec<_>>().join("x");
        for piece in text.split("](").skip(1) {
            if let Some((target, _)) = piece.split_once(')') {
                found.push((number, target.trim().to_owned()));
            }
        }
    }
    found
}

/// Names that end in `.rs` and are no source file of becket: a host, and a file in an example.
const NO_SOURCES: &[&str] = &["docs.rs", "src/a.rs"];

/// Line numbers and names of Rust files in backticks. A name may leave out the first folders of the path.
fn named_sources(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(page) {
        for code in line.split('`').skip(1).step_by(2) {
            let is_end = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '.' | '*'));
            let names =
                code.split(is_end).filter(|word| word.strip_suffix(".rs").is_some() && !word.contains('*'));
            let names = names.filter(|word| !NO_SOURCES.contains(word) && !word.starts_with('.'));
            found.extend(names.map(|word| (number, word.to_owned())));
        }
    }
    found
}

/// Language, first line number and lines of each code block.
fn blocks(page: &str) -> Vec<(String, usize, Vec<String>)> {
    let mut found = Vec::new();
    let mut open: Option<(String, usize, Vec<String>)> = None;
    for (index, line) in page.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), open.take()) {
            (Some(language), None) => open = Some((language.trim().to_owned(), index + 2, Vec::new())),
            (Some(_), Some(block)) => found.push(block),
            (None, Some(mut block)) => {
                block.2.push(line.to_owned());
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    found
}

/// Runs the commands of the book with the binary `becket`.
pub(crate) fn run(root: &Path, becket: &Path) -> Result<Problems, String> {
    let becket = becket.canonicalize().map_err(|e| format!("{}: {e}", becket.display()))?;
    let mut problems = Problems::new();
    let mut helps = BTreeMap::new();
    let (mut ran, mut skipped) = (0, Vec::new());
    let reference = Scratch::new("reference")?;
    let prepared = runs::Prepared::new(&becket, &reference.0)?;
    for page in pages(root)? {
        // All blocks of a page share one home folder, because a later block may use files of an earlier one.
        let home = Scratch::new(&short_path(root, &page))?;
        for (language, line, lines) in blocks(&read(&page)?) {
            let place = format!("{}:{line}", short_path(root, &page));
            if language == "console" {
                for (command, expected) in commands(&lines) {
                    ran += 1;
                    if let Some(problem) = carry_out(&becket, &home.0, &command, &expected)? {
                        problems.push(format!("{place}: {problem}"));
                    }
                }
            } else {
                for command in lines.iter().filter(|l| l.trim_start().starts_with("becket ")) {
                    if let Some(problem) = unknown(&becket, command.trim(), &mut helps)? {
                        problems.push(format!("{place}: {command}: {problem}"));
                    }
                    match runs::runnable(command.trim(), prepared.can_confine) {
                        Err(why) => skipped.push(format!("{place}: {}: {why}", command.trim())),
                        Ok(runnable) => {
                            ran += 1;
                            let (succeeded, printed) = shell(&becket, &prepared.home, &runnable)?;
                            if !succeeded {
                                problems.push(format!("{place}: {runnable}: {printed}"));
                            }
                            prepared.restore()?;
                        }
                    }
                }
            }
        }
    }
    println!("book: ran {ran} commands; {} are only compared with the help:", skipped.len());
    for line in skipped {
        println!("  {line}");
    }
    Ok(problems)
}

/// Each `$ becket …` line with the lines below it that must be in its output.
fn commands(lines: &[String]) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for line in lines {
        if let Some(command) = line.strip_prefix("$ ") {
            found.push((command.to_owned(), Vec::new()));
        } else if let Some((_, expected)) = found.last_mut()
            && !line.trim().is_empty()
            && line.trim() != "…"
        {
            expected.push(line.trim().to_owned());
        }
    }
    found
}

fn carry_out(
    becket: &Path,
    home: &Path,
    command: &str,
    expected: &[String],
) -> Result<Option<String>, String> {
    let (succeeded, printed) = shell(becket, home, command)?;
    if !succeeded {
        return Ok(Some(format!("{command}: {printed}")));
    }
    let missing = expected.iter().find(|line| !printed.contains(line.as_str()));
    Ok(missing.map(|line| format!("{command}: `{line}` is not in what it printed:\n{printed}")))
}

/// Runs a command in the `project` of a home folder. Returns true if it succeeded, and what it printed.
fn shell(becket: &Path, home: &Path, command: &str) -> Result<(bool, String), String> {
    let folder = becket.parent().unwrap_or(Path::new("/"));
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display());
    let output = Command::new("sh")
        .args(["-c", command])
        .env_clear()
        .env("PATH", path)
        .env("HOME", home)
        .current_dir(home.join("project"))
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{command}: {e}"))?;
    let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
    printed.push_str(&String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        printed = format!("{}\n{printed}", output.status);
    }
    Ok((output.status.success(), printed))
}

/// Returns a message about the first flag or subcommand of a command line that is not in becket's help; `None` if all are.
fn unknown(
    becket: &Path,
    command: &str,
    helps: &mut BTreeMap<Vec<String>, String>,
) -> Result<Option<String>, String> {
    // Quoted text is a prompt or a rule. After `#`, `|`, `--` and similar marks, there are no flags of becket.
    let unquoted: String = command.split(['"', '\'']).step_by(2).collect::<Vec<_>>().join("X");
    let end = [" #", " |", " -- ", " && ", " > ", "  "].iter().filter_map(|e| unquoted.find(e)).min();
    let words: Vec<&str> = unquoted[..end.unwrap_or(unquoted.len())].split_whitespace().skip(1).collect();
    let mut names = Vec::new();
    for word in &words {
        let known = help(becket, &names, helps)?;
        let lists = known.split_whitespace().any(|w| w.trim_end_matches(',') == *word);
        let is_name = names.len() < 2 && !word.starts_with('-') && lists;
        if !is_name {
            break;
        }
        names.push((*word).to_owned());
    }
    let known = help(becket, &names, helps)?;
    for flag in words.iter().filter(|w| w.starts_with("--") && w.len() > 2) {
        let flag = flag.trim_end_matches(',').split('=').next().unwrap_or(flag);
        if !known.contains(flag) {
            return Ok(Some(format!("`becket {} --help` has no {flag}", names.join(" "))));
        }
    }
    // A bare word of letters right after `becket` is a subcommand; a prompt is written in quotes.
    let first = words.first().copied().unwrap_or("--");
    let bare = first.chars().all(|c| c.is_ascii_lowercase());
    Ok((names.is_empty() && bare).then(|| format!("there is no subcommand {first}")))
}

fn help(
    becket: &Path,
    names: &[String],
    helps: &mut BTreeMap<Vec<String>, String>,
) -> Result<String, String> {
    if let Some(text) = helps.get(names) {
        return Ok(text.clone());
    }
    let output = Command::new(becket)
        .args(names)
        .arg("--help")
        .output()
        .map_err(|e| format!("{}: {e}", becket.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    helps.insert(names.to_vec(), text.clone());
    Ok(text)
}

/// An empty home folder with a `project` in it, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(place: &str) -> Result<Scratch, String> {
        let name: String = place.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let home = std::env::temp_dir().join(format!("becket-book-{}-{name}", std::process::id()));
        std::fs::create_dir_all(home.join("project")).map_err(|e| format!("{}: {e}", home.display()))?;
        Ok(Scratch(home))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If the folder cannot be removed, it stays in the temporary folder, which the system empties.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_made_as_on_github() {
        let page = "# `stream-json`\n\n## What it sees, changed by hand\n```\n# no heading\n```\n";
        let expected = ["stream-json", "what-it-sees-changed-by-hand"].map(str::to_owned);
        assert_eq!(anchors(page), BTreeSet::from(expected));
    }

    #[test]
    fn links_in_code_do_not_count() {
        let page = "See [a](b.md#c) and `[x](y)`, [d](e.md).\n```\n[f](g.md)\n```\n";
        assert_eq!(links(page), [(1, "b.md#c".to_owned()), (1, "e.md".to_owned())]);
    }

    #[test]
    fn source_files_are_named_in_backticks() {
        let page = "See `tui/src/a.rs` and `b.rs, c.rs`, not d.rs, `docs.rs`, `*.docs.rs` or `**/*.rs`.\n```\n`e.rs`\n```\n";
        let names = ["tui/src/a.rs", "b.rs", "c.rs"].map(|name| (1, name.to_owned()));
        assert_eq!(named_sources(page), names);
    }

    #[test]
    fn expected_lines_belong_to_the_command_above() {
        let lines = ["$ becket --version", "becket 0", "…", "", "$ becket config"].map(str::to_owned);
        assert_eq!(
            commands(&lines),
            [
                ("becket --version".to_owned(), vec!["becket 0".to_owned()]),
                ("becket config".to_owned(), Vec::new()),
            ]
        );
    }
}
