//! The deterministic summary: no model, always the same for the same history.
//!
//! Calls and files from the journal, the todo list, open questions and the
//! newest errors; sections of an earlier summary are carried over. Its shape is always the default template's.

use super::super::continuation::words;
use super::super::summary::{Assembled, Facts, Sections, Template, assemble, escape_tags, read, shorten};
use becket_types::{Message, Part, Role, Tokens, is_blank};
use std::borrow::Borrow;

const QUESTIONS: usize = 5;
const ERRORS: usize = 3;

/// A summary of `messages` within `max` base tokens. `earlier` is the newest summary there is: the previous one, or what
/// the model had folded before it failed.
pub(super) fn fallback<M: Borrow<Message>>(
    messages: &[M],
    earlier: Option<&str>,
    facts: &Facts,
    todo: Option<&str>,
    max: Tokens,
) -> Assembled {
    let template = Template::new(None);
    let mut sections = template.empty();
    if let Some(text) = earlier.filter(|t| !is_blank(t)) {
        match read(&template, text) {
            Ok(parsed) => sections = parsed,
            // A summary of another shape (own template) is carried over whole.
            Err(_) => sections.set("## Discoveries", escape_tags(text.trim())),
        }
    }
    // Earlier releases put the user's last message there. It is quoted behind the sections, or follows the summary.
    let goal = sections
        .get("## Goal")
        .split("\nLatest message of the user:\n")
        .next()
        .unwrap_or_default()
        .to_owned();
    sections.set("## Goal", goal);
    append(&mut sections, "### Blocked", "Open questions:", &questions(messages));
    append(&mut sections, "## Discoveries", "Newest errors:", &errors(messages));
    let next = match todo {
        Some(todo) => todo.to_owned(),
        None => "- Go on with the task from the newest messages, which follow this summary.".to_owned(),
    };
    sections.set("## Next steps", next);
    assemble(sections, facts, max)
}

/// Appends a list under `title`, in place of one that an earlier fallback left there.
fn append(sections: &mut Sections, heading: &str, title: &str, lines: &[String]) {
    let body = sections.get(heading);
    let own = body.split(title).next().unwrap_or_default().trim_end();
    let list = lines.join("\n");
    let text = match (own.is_empty(), list.is_empty()) {
        (_, true) => own.to_owned(),
        (true, false) => format!("{title}\n{list}"),
        (false, false) => format!("{own}\n{title}\n{list}"),
    };
    sections.set(heading, text);
}

/// Lines of the newest assistant texts that end in a question mark.
fn questions<M: Borrow<Message>>(messages: &[M]) -> Vec<String> {
    let assistants = messages.iter().rev().map(Borrow::borrow).filter(|m| m.role == Role::Assistant).take(3);
    let mut out = Vec::new();
    for message in assistants {
        for line in words(message).lines().rev() {
            let line = line.trim();
            if line.ends_with(['?', '？']) && out.len() < QUESTIONS {
                out.push(format!("- {}", escape_tags(&shorten(line, 300))));
            }
        }
    }
    out.reverse();
    out
}

fn errors<M: Borrow<Message>>(messages: &[M]) -> Vec<String> {
    let mut out: Vec<String> = messages
        .iter()
        .rev()
        .flat_map(|m| &m.borrow().parts)
        .filter_map(|part| match part {
            Part::ToolResult { name, output, is_error: true, .. } if !is_blank(output) => {
                let text = output.split_whitespace().collect::<Vec<_>>().join(" ");
                Some(format!("- {name}: {}", escape_tags(&shorten(&text, 200).replace('\n', " "))))
            }
            _ => None,
        })
        .take(ERRORS)
        .collect();
    out.reverse();
    out
}
