//! Assignments of a text that is read and never run, such as a file of variables: `NAME=value`, `export NAME=value`,
//! `declare -x NAME=value`.
//!
//! Only statements at the top level count. A statement that does anything else, or that cannot be read reliably, is left
//! out. Follows no values: a later assignment does not see an earlier one.

use super::grammar::{self, children};
use crate::word::{Word, is_name, text_of};
use tree_sitter::Node;

/// Longest text that is read, in bytes.
const MOST_BYTES: usize = 1_000_000;

/// Returns the name and the value of each assignment, in the order of the text.
pub fn assignments(source: &str) -> Vec<(String, Word)> {
    if source.len() > MOST_BYTES {
        return Vec::new();
    }
    if let Some(found) = read(source) {
        return found;
    }
    // To parse characters that are not ASCII, [`grammar::parse`] needs a letter that does not occur in the text. A long text may
    // use all letters, but a line seldom does. So the text is read line by line.
    source.lines().filter_map(read).flatten().collect()
}

/// Reads a text; `None` if the grammar makes no tree of it.
fn read(source: &str) -> Option<Vec<(String, Word)>> {
    let tree = grammar::parse(source).ok()?;
    let statements = children(tree.root_node());
    let mut found = Vec::new();
    for (at, statement) in statements.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| statements.get(at));
        let is_alone = is_parted(before.copied(), Some(*statement), source)
            && is_parted(Some(*statement), statements.get(at + 1).copied(), source);
        if is_alone {
            found.extend(of_statement(*statement, source).unwrap_or_default());
        }
    }
    Some(found)
}

/// True if one statement surely ends before the next one begins: nothing but the end of a command is between them.
fn is_parted(before: Option<Node<'_>>, after: Option<Node<'_>>, source: &str) -> bool {
    let from = before.map_or(0, |node| node.end_byte());
    let upto = after.map_or(source.len(), |node| node.start_byte());
    let gap = source.get(from..upto).unwrap_or("?");
    let ends = |node: Option<Node<'_>>| node.is_none_or(|node| matches!(node.kind(), ";" | "\n"));
    // If the gap has other text, the grammar has not recognised a part of a word.
    gap.chars().all(|c| c.is_ascii_whitespace())
        && (ends(before)
            || ends(after)
            || gap.contains('\n')
            || !gap.is_empty() && after.is_some_and(|node| node.kind() == "comment"))
}

/// Returns the assignments of one statement; `None` if it does anything else.
fn of_statement(statement: Node<'_>, source: &str) -> Option<Vec<(String, Word)>> {
    if !is_reliable(statement, source) {
        return None;
    }
    match statement.kind() {
        "variable_assignment" => Some(vec![assignment(statement, source)?]),
        "variable_assignments" => {
            children(statement).into_iter().map(|child| assignment(child, source)).collect()
        }
        "declaration_command" => {
            let parts = children(statement);
            let (keyword, parts) = parts.split_first()?;
            let (options, parts): (Vec<Node<'_>>, Vec<Node<'_>>) =
                parts.iter().partition(|part| part.kind() == "word");
            let options: Vec<&str> = options.into_iter().map(|option| text_of(option, source)).collect();
            let exports = match text_of(*keyword, source) {
                "export" => options.is_empty(),
                "declare" | "typeset" => options == ["-x"],
                _ => false,
            };
            if !exports {
                return None;
            }
            // `export NAME` without a value sets nothing.
            let set = parts.into_iter().filter(|part| part.kind() != "variable_name");
            set.map(|part| assignment(part, source)).collect()
        }
        _ => None,
    }
}

fn assignment(node: Node<'_>, source: &str) -> Option<(String, Word)> {
    if node.kind() != "variable_assignment" {
        return None;
    }
    let name = text_of(node.child_by_field_name("name")?, source);
    let is_set = text_of(node, source).strip_prefix(name)?.starts_with('=');
    let value = node.child_by_field_name("value");
    let value = value.map_or_else(|| Word::literal(""), |value| Word::decode(value, source));
    (is_name(name) && is_set).then(|| (name.to_owned(), value))
}

/// True if the shell reads the node and all its parts in the same way as the grammar.
fn is_reliable(node: Node<'_>, source: &str) -> bool {
    !node.has_error()
        && !text_of(node, source).contains("$\\\n")
        && grammar::faults(node, source).is_empty()
        && children(node).into_iter().all(|child| is_reliable(child, source))
}
