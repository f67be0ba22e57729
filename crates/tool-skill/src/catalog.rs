//! The list of skills in the system prompt.
//!
//! Owns its size limit and its order of preference. If the list is too long, all descriptions are shortened
//! first. If they would become too short, only the most used skills keep theirs, then those that match the
//! task, then those of the project. The other skills are listed by name, and the `skill` tool searches all of
//! them. Equal skills and tasks give equal bytes. Contains no skill bodies.

use crate::Skill;
use becket_tool::text::clean;
use std::cmp::Reverse;

/// Maximum number of characters of one skill's line.
const LINE_CHARS: usize = 1_536;

const HEAD: &str = "# Skills\nInstructions for kinds of tasks. When a description fits the task, load the skill with the skill \
                    tool before you start.\n";

/// If the list is too long, described skills keep this many characters of their description, as long as the names of the others
/// fit.
const GOOD_CHARS: usize = 200;

/// If there are more skills than this, descriptions are not shortened below [`GOOD_CHARS`]; some skills are listed without one.
pub(crate) const MANY: usize = 20;

pub(crate) fn catalog(skills: &[Skill], max_chars: usize, task: &str) -> Option<String> {
    let offered: Vec<&Skill> = skills.iter().filter(|s| s.model_invocable).collect();
    if offered.is_empty() {
        return None;
    }
    // With few skills, even short descriptions tell them apart.
    let least = if offered.len() > MANY { GOOD_CHARS } else { 50 };
    for chars in [LINE_CHARS, 400, GOOD_CHARS, 100, 50].into_iter().filter(|chars| *chars >= least) {
        let text = offered.iter().fold(HEAD.to_owned(), |all, skill| all + &line(skill, chars));
        if text.chars().count() <= max_chars {
            return Some(text);
        }
    }
    ranked(&offered, max_chars, task)
}

/// Lists the best skills with their descriptions, ordered by name, and then the names of the others as far as
/// they fit.
fn ranked(offered: &[&Skill], max_chars: usize, task: &str) -> Option<String> {
    let wanted = words(task);
    let mut best: Vec<&Skill> = offered.to_vec();
    best.sort_by_key(|skill| Reverse((skill.uses, score(skill, &wanted), skill.scope)));
    let room = max_chars.checked_sub(HEAD.chars().count())?;
    // A quarter of the space is kept free for the names of skills without a description.
    let mut left = room - room / 4;
    let mut described: Vec<&Skill> = Vec::new();
    for skill in best {
        let chars = line(skill, GOOD_CHARS).chars().count();
        if chars > left {
            break;
        }
        left -= chars;
        described.push(skill);
    }
    described.sort_by(|a, b| a.name.cmp(&b.name));
    let mut text = described.iter().fold(HEAD.to_owned(), |all, skill| all + &line(skill, GOOD_CHARS));
    let mut others: Vec<&str> = offered
        .iter()
        .filter(|s| !described.iter().any(|d| d.name == s.name))
        .map(|s| s.name.as_str())
        .collect();
    let total = others.len();
    loop {
        let hidden = total - others.len();
        let more = if hidden > 0 { format!(" and {hidden} more") } else { String::new() };
        let tail = format!(
            "- Without description (search all with the skill tool, `query`): {}{more}\n",
            others.join(", ")
        );
        if text.chars().count() + tail.chars().count() <= max_chars {
            text.push_str(&tail);
            return Some(text);
        }
        // Remove names in steps of a tenth, so that a list of hundreds is not measured once per name.
        others.truncate((others.len() * 9 / 10).min(others.len().checked_sub(1)?));
    }
}

/// Returns the skills that contain some of the words, best first.
pub(crate) fn search<'a>(skills: &'a [Skill], text: &str) -> Vec<&'a Skill> {
    let wanted = words(text);
    let mut found: Vec<(usize, &Skill)> = skills
        .iter()
        .filter(|skill| skill.model_invocable)
        .map(|skill| (score(skill, &wanted), skill))
        .filter(|(score, _)| *score > 0)
        .collect();
    found.sort_by_key(|(score, skill)| Reverse((*score, skill.uses)));
    found.into_iter().map(|(_, skill)| skill).collect()
}

/// Returns how well a skill matches the words: 3 points for each word in its name, 1 for each in its
/// description.
fn score(skill: &Skill, wanted: &[String]) -> usize {
    if wanted.is_empty() {
        return 0;
    }
    let name = words(&skill.name);
    let about = words(&format!("{} {}", skill.description, skill.when_to_use.as_deref().unwrap_or_default()));
    let has = |all: &[String], word: &String| all.iter().any(|other| same(other, word));
    wanted.iter().map(|word| 3 * usize::from(has(&name, word)) + usize::from(has(&about, word))).sum()
}

/// True if the words are equal, or if one is the other with a longer ending: `test`, `tests`, `testing`.
fn same(a: &str, b: &str) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    short == long || short.chars().count() >= 4 && long.starts_with(short) && long.len() - short.len() <= 3
}

/// Returns the distinct words of at least three letters, in lower case.
fn words(text: &str) -> Vec<String> {
    let mut out: Vec<String> = text
        .to_lowercase()
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.chars().count() > 2 && !COMMON.contains(word))
        .map(str::to_owned)
        .collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// Words that say nothing about a task and are ignored.
const COMMON: [&str; 16] = [
    "the", "and", "for", "use", "when", "with", "this", "that", "from", "are", "you", "your", "not", "can",
    "all", "skill",
];

/// Returns a skill's line for a list of search results.
pub(crate) fn entry(skill: &Skill) -> String {
    line(skill, 400)
}

fn line(skill: &Skill, max_chars: usize) -> String {
    if max_chars == 0 {
        return format!("- {}\n", skill.name);
    }
    let mut about = skill.description.clone();
    if let Some(when) = &skill.when_to_use {
        about.push(' ');
        about.push_str(when);
    }
    let room = max_chars.saturating_sub(skill.name.chars().count() + 5);
    let about = match about.char_indices().nth(room) {
        Some((at, _)) => format!("{}…", about[..at].trim_end()),
        None => about,
    };
    format!("- {}: {}\n", skill.name, clean(&about))
}
