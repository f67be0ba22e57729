//! The list of skills in the system prompt.
//!
//! Owns its size: descriptions are shortened before a skill is left out, and what is left out is named. Equal skills give
//! equal bytes. Holds no body.

use crate::Skill;
use becket_tool::text::clean;
use std::fmt::Write;

/// Characters of one skill's line that are listed at most.
const LINE_CHARS: usize = 1_536;

const HEAD: &str = "# Skills\nInstructions for kinds of tasks. When a description fits the task, load the skill with the skill \
                    tool before you start.\n";

pub(crate) fn catalog(skills: &[Skill], max_chars: usize) -> Option<String> {
    let offered: Vec<&Skill> = skills.iter().filter(|s| s.model_invocable).collect();
    if offered.is_empty() {
        return None;
    }
    for chars in [LINE_CHARS, 400, 200, 100, 50, 0] {
        let text = offered.iter().fold(HEAD.to_owned(), |all, skill| all + &line(skill, chars));
        if text.chars().count() <= max_chars {
            return Some(text);
        }
    }
    // Not even the names fit.
    let mut text = HEAD.to_owned();
    let mut used = HEAD.chars().count();
    for (index, skill) in offered.iter().enumerate() {
        let line = line(skill, 0);
        used += line.chars().count();
        if used + 40 > max_chars {
            let _ = writeln!(text, "- and {} more", offered.len() - index);
            break;
        }
        text.push_str(&line);
    }
    (text.chars().count() <= max_chars).then_some(text)
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
