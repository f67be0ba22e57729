//! Values that a script computes and sets: expansions, arithmetic, tests, assignments. If one of them evaluates text or sets a
//! variable that other programs obey, that is a doubt. Does not substitute values in commands; `loops` does.

use super::grammar::children;
use super::{Script, Walker, read_long};
use crate::vars;
use crate::word::{Word, is_name, text_of};
use tree_sitter::Node;

impl Walker<'_> {
    pub(super) fn comparison(&mut self, node: Node<'_>, depth: usize) {
        let operator = node.child_by_field_name("operator").map_or("", |o| text_of(o, self.source));
        if matches!(operator, "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge") {
            for side in ["left", "right"].into_iter().filter_map(|side| node.child_by_field_name(side)) {
                let text = text_of(side, self.source).trim_matches('"');
                if !matches!(text, "$#" | "$?")
                    && !text.trim_start_matches('-').chars().all(|c| c.is_ascii_digit())
                {
                    self.doubt("a numeric comparison evaluates what a variable holds");
                }
            }
        }
        self.visit_all(node, depth);
    }

    pub(super) fn expansion(&mut self, node: Node<'_>, depth: usize) {
        let inner = text_of(node, self.source).trim_start_matches("${").trim_end_matches('}');
        let name_end = inner.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(inner.len());
        let (name, rest) = inner.split_at(name_end);
        let fine = if name.is_empty() {
            // `${#name}`, `${#}`, `${?}`, `${@}` and similar ones.
            matches!(rest, "#" | "?" | "@" | "*" | "$" | "!" | "-")
                || rest.strip_prefix('#').is_some_and(is_name)
        } else {
            rest.is_empty()
                || rest.starts_with(":-")
                || rest.starts_with(":+")
                || rest.starts_with(['-', '+'])
                // Bash expands patterns and replacements once more, so they must contain nothing to expand.
                || (rest.starts_with(['#', '%', '/', '^', ',']) && !rest.contains(['$', '`', '(']))
                || matches!(rest, "[@]" | "[*]")
        };
        if !fine {
            self.doubt("an expansion evaluates or sets something (${…})");
        }
        // Within double quotes `'` is a plain letter in `${x:-'$(a)'}`, so bash runs `a`; the grammar takes it for quoted text.
        let quotes = rest.contains('\'') && rest.contains(['$', '`']);
        if quotes || rest.contains("<(") || rest.contains(">(") {
            self.doubt("an expansion holds quotes around something that bash may evaluate (${…})");
        }
        self.visit_all(node, depth);
    }

    pub(super) fn arithmetic(&mut self, node: Node<'_>, depth: usize) {
        let text = text_of(node, self.source);
        let inner = text.strip_prefix("$((").or_else(|| text.strip_prefix("$["));
        let evaluates = |c: char| c.is_alphabetic() || matches!(c, '_' | '$' | '`' | '[' | '"' | '\'');
        if inner.is_none_or(|inner| inner.trim_end_matches(']').contains(evaluates)) {
            self.doubt("arithmetic on variables evaluates what they hold");
        }
        self.visit_all(node, depth);
    }

    /// Returns `name=value` as written.
    pub(super) fn assignment(&mut self, node: Node<'_>, depth: usize) -> Option<String> {
        let name = node.child_by_field_name("name")?;
        let value = node.child_by_field_name("value");
        if name.kind() == "subscript" {
            self.doubt("an array subscript is evaluated as arithmetic");
        }
        let variable = text_of(name, self.source).to_owned();
        let text = text_of(node, self.source);
        let given = text.strip_prefix(variable.as_str()).map_or(text, |t| t.trim_start_matches(['+', '=']));
        if given.starts_with('(') && has_computed_subscript(given) {
            self.doubt("a subscript in a list of an array is evaluated as arithmetic");
        }
        if !vars::may_set_to(&variable, given) {
            self.doubt(format!("it sets {variable}, which other programs may obey"));
        }
        self.out.given.push((variable.clone(), given.to_owned()));
        if let Some(value) = value {
            self.visit(value, depth + 1);
            self.out.assigns.push((variable.clone(), Word::decode(value, self.source)));
        }
        // The value of an assignment is not followed: from here on the variable counts as unknown, also if a `for` loop gave it
        // values.
        let unknown = vec![Word::of_unknown(&variable)];
        self.known.insert(variable, unknown);
        Some(text_of(node, self.source).to_owned())
    }

    pub(super) fn declaration(&mut self, node: Node<'_>, depth: usize) {
        let mut plain = true;
        let children = children(node);
        if children.len() < 2 {
            self.doubt("it prints variables, which may hold secrets");
        }
        for child in children {
            match child.kind() {
                "variable_assignment" => {
                    self.assignment(child, depth + 1);
                }
                "variable_name" | "export" | "local" | "readonly" | "declare" | "typeset" => {}
                _ => {
                    plain = false;
                    self.visit(child, depth + 1);
                }
            }
        }
        if !plain {
            self.doubt("it declares variables with attributes or computed names");
        }
        let word = Word::literal(node.child(0).map_or("declare", |c| text_of(c, self.source)));
        self.add(vec![word], Vec::new());
    }

    pub(super) fn unset(&mut self, node: Node<'_>) {
        let plain = children(node)
            .iter()
            .skip(1)
            .all(|c| matches!(c.kind(), "variable_name" | "word") && vars::may_set(text_of(*c, self.source)));
        if !plain {
            self.doubt("it unsets more than plain variables of its own");
        }
        self.add(vec![Word::literal("unset")], Vec::new());
    }

    pub(super) fn test(&mut self, node: Node<'_>, depth: usize) {
        let text = text_of(node, self.source);
        if !text.starts_with("[[") {
            return self.bracket(text);
        }
        if text.split(|c: char| c.is_whitespace() || c == '(').any(|t| matches!(t, "-v" | "-R")) {
            self.doubt("a test of whether a variable is set can evaluate a subscript");
        }
        if compares_numbers(text) {
            self.doubt("a numeric comparison evaluates what a variable holds");
        }
        if text.contains("<(") || text.contains(">(") {
            self.unread("a test holds `<(` or `>(`, which runs a command");
        }
        self.visit_all(node, depth);
        self.add(vec![Word::literal("true")], Vec::new());
    }

    /// `[ … ]` is a command like others, though the grammar takes it for an expression: its words are split and matched
    /// against file names.
    fn bracket(&mut self, text: &str) {
        let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) else {
            return self.unread("a test could not be read");
        };
        let Script { commands, redirects, assigns, given, looped, doubts, unread, unordered } =
            read_long(&format!("test {inner}"), self.dirs.clone(), self.paths);
        self.out.unread |= unread;
        self.out.unordered |= unordered;
        for doubt in doubts {
            self.doubt(doubt);
        }
        self.out.commands.extend(commands);
        self.out.redirects.extend(redirects);
        self.out.assigns.extend(assigns);
        self.out.given.extend(given);
        self.out.looped.extend(looped);
    }
}

/// True if an element in the list of an array has a subscript that is no number: `y=([x]=1)`. Searches the text, because the tree
/// shows no subscripts there.
fn has_computed_subscript(list: &str) -> bool {
    let list = list.replace("\\\n", "");
    list.match_indices(']').any(|(at, _)| {
        let after = &list[at + 1..];
        let is_subscript = after.starts_with('=') || after.starts_with("+=");
        let before = list[..at].trim_end_matches(|c: char| c.is_ascii_digit());
        is_subscript && !(before.len() < at && before.ends_with('['))
    })
}

/// True for a numeric comparison in `[[ … ]]` with anything but plain numbers. Searches the text, in case the grammar reads it
/// differently.
fn compares_numbers(text: &str) -> bool {
    const OPERATORS: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')')).collect();
    let number = |at: Option<usize>| {
        at.and_then(|at| words.get(at)).is_some_and(|word| {
            let word = word.trim_matches('"');
            matches!(word, "$#" | "$?")
                || (!word.is_empty() && word.trim_start_matches('-').chars().all(|c| c.is_ascii_digit()))
        })
    };
    words
        .iter()
        .enumerate()
        .any(|(at, word)| OPERATORS.contains(word) && !(number(at.checked_sub(1)) && number(Some(at + 1))))
}
