//! The pages and the program say the same: every command and option that a page names is there, and every command has a page.

use crate::support::{Bench, run};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

fn pages() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let mut out = BTreeMap::new();
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("decisions") {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                out.insert(name, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    out.insert("README.md".to_owned(), std::fs::read_to_string(root.join("README.md")).unwrap());
    out
}

/// The code of a page: fenced blocks and text between backticks.
fn code(page: &str) -> String {
    let mut out = String::new();
    for (n, part) in page.split("```").enumerate() {
        if n % 2 == 1 {
            out.push_str(part);
            out.push('\n');
        } else {
            for span in part.split('`').skip(1).step_by(2) {
                out.push_str(span);
                out.push('\n');
            }
        }
    }
    out
}

/// The commands that a help lists.
fn listed(help: &str) -> Vec<&str> {
    let listed = help.split("Commands:").nth(1).unwrap_or_default();
    let lines = listed.lines().skip(1).take_while(|line| !line.trim().is_empty());
    let own = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    own.filter_map(|line| line.split_whitespace().next()).collect()
}

/// The help of becket and of every command, with those of its own commands, by its name (empty for becket itself).
fn helps(bench: &Bench) -> BTreeMap<String, String> {
    let main = run(bench.command().arg("--help")).expect(0).stdout;
    let mut out = BTreeMap::new();
    for name in listed(&main) {
        let mut text = run(bench.command().args(["help", name])).expect(0).stdout;
        for below in listed(&text.clone()).into_iter().filter(|below| *below != "help") {
            text.push_str(&run(bench.command().args(["help", name, below])).expect(0).stdout);
        }
        out.insert(name.to_owned(), text);
    }
    assert!(out.len() > 15, "{:?}", out.keys());
    out.insert(String::new(), main);
    out
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || "\"'()[],;|=…".contains(c)).filter(|word| !word.is_empty())
}

#[test]
fn every_command_on_a_page_exists_and_every_command_is_on_a_page() {
    let bench = Bench::new(&[]);
    let helps = helps(&bench);
    let mut named = BTreeSet::new();
    for (page, text) in pages() {
        for line in code(&text).lines() {
            // `becket` and a word count as a command wherever they stand in a line: at its start, or after a prompt, a variable, a pipe.
            let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
            for pair in words.windows(2) {
                let [program, word] = pair else { continue };
                let is_command = word.len() > 2 && word.bytes().all(|b| b.is_ascii_lowercase());
                if *program == "becket" && is_command {
                    assert!(helps.contains_key(*word), "{page}: becket {word} ({line})");
                    named.insert((*word).to_owned());
                }
            }
        }
    }
    let missing: Vec<&String> =
        helps.keys().filter(|name| !name.is_empty() && !named.contains(*name)).collect();
    assert!(missing.is_empty(), "no page names becket {missing:?}");
}

#[test]
fn every_option_on_a_line_with_becket_exists() {
    let bench = Bench::new(&[]);
    let helps = helps(&bench);
    let known: BTreeSet<&str> =
        helps.values().flat_map(|help| words(help)).filter(|word| word.starts_with("--")).collect();
    for (page, text) in pages() {
        for line in code(&text).lines().filter(|line| line.trim_start().starts_with("becket ")) {
            // Words after `--` belong to another program, and so does a program after a pipe.
            let own =
                line.split(" -- ").next().unwrap_or_default().split(['|', '#']).next().unwrap_or_default();
            for option in words(own).filter(|word| word.len() > 3 && word.starts_with("--")) {
                let option = option.trim_end_matches(['.', ':', '`']);
                assert!(known.contains(option), "{page}: {option} ({line})");
            }
        }
    }
}
