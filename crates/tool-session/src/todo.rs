//! The `todo` tool: the model writes the whole list at once.
//!
//! Owns the list's rules and its compact form. The state `todo` is `[{"content": …, "status": …}]`. Plans
//! nothing itself.

use crate::head::{Action, SessionTool};
use becket_tool::input::Parser;
use becket_tool::{ToolEnv, text};
use becket_types::{ToolOutput, is_blank};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt::Write;

const ALIASES: &[(&str, &str)] = &[
    ("todos", "items"),
    ("list", "items"),
    ("text", "content"),
    ("title", "content"),
    ("task", "content"),
    ("state", "status"),
];
/// Fields of other agents' lists that are ignored.
const IGNORED: &[&str] = &["activeForm", "active_form", "id", "priority", "merge", "explanation"];
/// Maximum number of items. Longer lists are not useful.
const MAX_ITEMS: usize = 100;
/// Maximum length of an item in characters.
const MAX_CHARS: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Completed,
}

/// One item of the list.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    content: String,
    status: Status,
}

#[derive(Debug, Deserialize)]
struct Input {
    items: Vec<Item>,
}

/// The `todo` tool.
pub type Todo = SessionTool<List>;

/// The implementation of `todo`.
pub struct List;

impl Action for List {
    type Input = Vec<Item>;

    const NAME: &'static str = "todo";
    const DESCRIPTION: &'static str = "Replace the todo list for this task. At most one item in_progress.";

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {"items": {"type": "array", "items": {
                "type": "object",
                "properties": {
                    "content": {"type": "string"},
                    "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]}
                },
                "required": ["content", "status"]
            }}},
            "required": ["items"]
        })
    }

    fn parse(parser: Parser<'_>, input: &Value) -> Result<Vec<Item>, String> {
        let input: Input = parser.aliases(ALIASES).ignore(IGNORED).parse(input)?;
        let mut items = input.items;
        if items.len() > MAX_ITEMS {
            return Err(format!(
                "The list has {} items; at most {MAX_ITEMS}. Join small steps.",
                items.len()
            ));
        }
        for (index, item) in items.iter_mut().enumerate() {
            let line = item.content.split_whitespace().collect::<Vec<_>>().join(" ");
            if is_blank(&line) {
                return Err(format!("Item {} is empty.", index + 1));
            }
            if line.chars().count() > MAX_CHARS {
                return Err(format!("Item {} is longer than {MAX_CHARS} characters.", index + 1));
            }
            item.content = text::clean(&line).into_owned();
        }
        let current = items.iter().filter(|i| i.status == Status::InProgress).count();
        if current > 1 {
            return Err(format!("{current} items are in_progress; at most one. The list was not changed."));
        }
        Ok(items)
    }

    fn run(items: Vec<Item>, env: &ToolEnv) -> Result<ToolOutput, String> {
        let mut out = String::new();
        for item in &items {
            let mark = match item.status {
                Status::Pending => ' ',
                Status::InProgress => '>',
                Status::Completed => 'x',
            };
            let _ = writeln!(out, "[{mark}] {}", item.content);
        }
        if items.is_empty() {
            out.push_str("The todo list is empty.");
        }
        // Plain data with string keys can always be converted to a JSON value.
        let list = serde_json::to_value(&items).unwrap_or_default();
        let mut details = json!({"items": list});
        if let Some(old) = env.host.state("todo") {
            details["old_items"] = old;
        }
        env.host.set_state("todo", list);
        Ok(ToolOutput { details, ..ToolOutput::text(out) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_tool::testing::{self, run};
    use std::path::Path;

    #[tokio::test]
    async fn the_list_is_replaced_whole() {
        let (env, host) = testing::env(Path::new("/"));
        let todo = Todo::new();
        let first = json!({"items": [
            {"content": "look", "status": "completed"}, {"content": "fix\nit", "status": "in_progress"},
            {"content": "test", "status": "pending"}]});
        assert_eq!(run(&todo, &env, first).await.content, "[x] look\n[>] fix it\n[ ] test\n");
        // The field names of another agent are accepted too.
        let second =
            json!({"todos": [{"content": "test", "status": "in-progress", "activeForm": "Testing"}]});
        assert_eq!(run(&todo, &env, second).await.content, "[>] test\n");
        assert_eq!(host.kept().state["todo"], json!([{"content": "test", "status": "in_progress"}]));
        assert_eq!(run(&todo, &env, json!({"items": []})).await.content, "The todo list is empty.");
        assert_eq!(host.kept().state["todo"], json!([]));
    }

    #[tokio::test]
    async fn a_list_that_breaks_a_rule_changes_nothing() {
        let (env, host) = testing::env(Path::new("/"));
        let many: Vec<Value> =
            (0..101).map(|n| json!({"content": n.to_string(), "status": "pending"})).collect();
        for (input, want) in [
            (
                json!({"items": [{"content": "a", "status": "in_progress"}, {"content": "b", "status": "in_progress"}]}),
                "2 items are in_progress; at most one. The list was not changed.",
            ),
            (json!({"items": [{"content": " \u{200b}", "status": "pending"}]}), "Item 1 is empty."),
            (
                json!({"items": [{"content": "a", "status": "done"}]}),
                "Invalid input for todo: `items[0].status` must be one of pending, in_progress, completed, got \"done\".",
            ),
            (json!({}), "Invalid input for todo: `items` is missing; it must be an array."),
            (json!({"items": many}), "The list has 101 items; at most 100. Join small steps."),
        ] {
            let output = run(&Todo::new(), &env, input).await;
            assert_eq!((output.is_error, output.content.as_str()), (true, want));
        }
        assert!(host.kept().state.is_empty());
    }
}
