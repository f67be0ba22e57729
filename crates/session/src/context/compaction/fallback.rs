//! The fallback summary, made without a model. It is always the same for the same history.
//!
//! It contains calls and files from the journal, open questions, the newest errors, and the assistant's own
//! texts as far as there is room. Sections of an earlier summary are kept. It always follows the default
//! template.

use super::super::budget::estimate_text;
use super::super::continuation::typed_text;
use super::super::summary::{Assembled, Facts, Sections, Template, assemble, escape_tags, read, shorten};
use super::super::tail_anchor::TRUNCATED;
use becket_types::{Message, Part, Role, Tokens, is_blank};
use std::borrow::Borrow;
use std::sync::Arc;

/// Line above the assistant's texts in the section Discoveries.
const QUOTES_LABEL: &str = "The assistant's own words, newest first:";
/// Base tokens of the line [`QUOTES_LABEL`], plus a reserve because the estimate is inexact.
const SAID_FRAME: u64 = 24;
/// Maximum number of characters of one assistant text.
const SAID_CHARS: usize = 1_500;
const QUESTIONS: usize = 5;
const ERRORS: usize = 3;

/// Inputs of a summary without a model.
#[derive(Debug)]
pub(super) struct Sources<'a, M> {
    /// All messages of the view.
    pub(super) messages: &'a [M],
    /// The messages that leave the view.
    pub(super) gone: &'a [Arc<Message>],
    /// The newest existing summary: the previous one, or the partial result of a model that failed later.
    pub(super) earlier: Option<&'a str>,
    /// The assistant's last words, which follow the summary.
    pub(super) anchor: Option<&'a str>,
}

/// Makes a summary of at most `max` base tokens.
pub(super) fn fallback<M: Borrow<Message>>(
    sources: &Sources<'_, M>,
    facts: &Facts,
    max: Tokens,
) -> Assembled {
    let template = Template::new(None);
    let mut sections = template.empty();
    if let Some(text) = sources.earlier.filter(|t| !is_blank(t)) {
        match read(&template, text) {
            Ok(parsed) => sections = parsed,
            // A summary with another shape (from the user's own template) is kept as a whole.
            Err(_) => sections.set("## Discoveries", escape_tags(text.trim())),
        }
    }
    // Earlier releases put the user's last message into the section Goal. Now it is quoted after the sections or follows the summary, so it
    // is removed from there.
    let goal = sections
        .get("## Goal")
        .split("\nLatest message of the user:\n")
        .next()
        .unwrap_or_default()
        .to_owned();
    sections.set("## Goal", goal);
    let discoveries = sections.get("## Discoveries").to_owned();
    let (discoveries, said_before) = discoveries.split_once(QUOTES_LABEL).unwrap_or((&discoveries, ""));
    sections.set("## Discoveries", discoveries.trim_end());
    sections.set("## Next steps", "");
    complete(&mut sections, sources.messages, facts.todo());
    let short = assemble(sections.clone(), facts, max);
    let room = max.0.saturating_sub(estimate_text(&short.text).0);
    let said = own_words(sources, said_before, room);
    if said.is_empty() {
        return short;
    }
    let discoveries = format!("{}\n{QUOTES_LABEL}\n{said}", sections.get("## Discoveries"));
    sections.set("## Discoveries", discoveries.trim_start());
    assemble(sections, facts, max)
}

/// Adds lists that are made without a model: open questions and the newest errors. If there are no next steps, adds a standard one.
pub(super) fn complete<M: Borrow<Message>>(sections: &mut Sections, messages: &[M], todo: Option<&str>) {
    append(sections, "### Blocked", "Open questions:", &questions(messages));
    append(sections, "## Discoveries", "Newest errors:", &errors(messages));
    if is_blank(sections.get("## Next steps")) {
        let next = match todo {
            Some(_) => "- Go on with the todo list, which follows this summary.",
            None => "- Go on with the task from the newest messages, which follow this summary.",
        };
        sections.set("## Next steps", next);
    }
}

/// Returns the assistant's texts that leave the view, newest first, then those that an earlier fallback summary quoted (`before`), within
/// `room` base tokens.
fn own_words<M>(sources: &Sources<'_, M>, before: &str, room: u64) -> String {
    let mut out = String::new();
    let mut left = room.saturating_sub(SAID_FRAME);
    let texts = sources.gone.iter().rev().filter(|m| m.role == Role::Assistant).map(|m| typed_text(m));
    let texts = texts.map(|text| text.trim().to_owned()).filter(|text| !is_blank(text));
    // Skips the newest text: all of it, or its end, already follows the summary as the anchor.
    let texts =
        texts.filter(|text| sources.anchor.is_none_or(|a| !text.ends_with(a.trim_start_matches(TRUNCATED))));
    let quoted = texts.map(|text| {
        let lines: Vec<String> = escape_tags(&shorten(&text, SAID_CHARS))
            .lines()
            .map(|line| format!("  {line}").trim_end().to_owned())
            .collect();
        format!("- {}", lines.join("\n").trim_start())
    });
    let old =
        before.trim().split("\n- ").map(|text| format!("- {}", text.trim_start_matches("- ").trim_end()));
    for text in quoted.chain(old.filter(|text| text.len() > 2)) {
        let cost = estimate_text(&text).0 + 2;
        if cost > left {
            break;
        }
        left -= cost;
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&text);
    }
    out
}

/// Appends a list under `title`. A list of an earlier fallback is replaced.
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

/// Returns lines of the newest assistant texts that end in a question mark.
fn questions<M: Borrow<Message>>(messages: &[M]) -> Vec<String> {
    let assistants = messages.iter().rev().map(Borrow::borrow).filter(|m| m.role == Role::Assistant).take(3);
    let mut out = Vec::new();
    for message in assistants {
        for line in typed_text(message).lines().rev() {
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
