//! Input of `grep`, including the argument names of other agents.
//!
//! Owns two schemas: the short one that models see, and the wider one that is accepted. Numbers, flags and
//! lists written as strings are accepted too (see `becket_tool::input`). Anything else is an error that names
//! the field.

use becket_tool::input::Parser;
use becket_types::ToolSpec;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

const ALIASES: &[(&str, &str)] = &[
    ("query", "pattern"),
    ("regex", "pattern"),
    ("search", "pattern"),
    ("dir_path", "path"),
    ("directory", "path"),
    ("include", "glob"),
    ("include_pattern", "glob"),
    ("-g", "glob"),
    ("-t", "type"),
    ("file_type", "type"),
    ("output_mode", "mode"),
    ("-i", "ignore_case"),
    ("case_insensitive", "ignore_case"),
    ("-S", "smart_case"),
    ("-s", "case_sensitive"),
    ("-F", "fixed"),
    ("fixed_strings", "fixed"),
    ("literal", "fixed"),
    ("-U", "multiline"),
    ("-C", "context"),
    ("-A", "after"),
    ("after_context", "after"),
    ("-B", "before"),
    ("before_context", "before"),
    ("-m", "limit"),
    ("head_limit", "limit"),
    ("max_results", "limit"),
    ("max_matches", "limit"),
    ("skip", "offset"),
];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    #[default]
    Content,
    Files,
    Count,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Input {
    pub(crate) pattern: String,
    pub(crate) path: Option<String>,
    pub(crate) glob: Option<String>,
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    #[serde(default)]
    pub(crate) mode: Mode,
    #[serde(flatten)]
    case: CaseRules,
    #[serde(default)]
    pub(crate) fixed: bool,
    #[serde(default)]
    pub(crate) multiline: bool,
    #[serde(flatten)]
    lines: ContextLines,
    pub(crate) limit: Option<u64>,
    #[serde(default)]
    pub(crate) offset: u64,
}

/// Treatment of upper and lower case, as the model wrote it.
#[derive(Debug, Deserialize)]
struct CaseRules {
    ignore_case: Option<bool>,
    case_sensitive: Option<bool>,
    #[serde(default)]
    smart_case: bool,
}

/// Lines around a match, as the model wrote them.
#[derive(Debug, Deserialize)]
struct ContextLines {
    context: Option<u64>,
    before: Option<u64>,
    after: Option<u64>,
}

impl Input {
    /// True if upper and lower case match each other. By default they do not; with `smart_case` they do unless the
    /// pattern has a capital letter outside an escape.
    pub(crate) fn any_case(&self) -> bool {
        match (self.case.ignore_case, self.case.case_sensitive) {
            (Some(ignore), _) => ignore,
            (None, Some(sensitive)) => !sensitive,
            (None, None) => self.case.smart_case && !self.has_capital(),
        }
    }

    fn has_capital(&self) -> bool {
        let mut escaped = false;
        self.pattern.chars().any(|c| {
            let counts = !escaped && c.is_uppercase();
            escaped = !self.fixed && c == '\\' && !escaped;
            counts
        })
    }

    /// Returns the number of context lines before and after a match, each at most `max`.
    pub(crate) fn context(&self, max: usize) -> (usize, usize) {
        let lines = |own: Option<u64>| {
            own.or(self.lines.context).map_or(0, |n| usize::try_from(n).unwrap_or(max).min(max))
        };
        (lines(self.lines.before), lines(self.lines.after))
    }
}

/// The two schemas of the tool.
pub(crate) struct Schema {
    /// Schema that models see.
    pub(crate) shown: ToolSpec,
    understood: ToolSpec,
}

impl Schema {
    pub(crate) fn new() -> Self {
        let input_schema = json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string"},
                "path": {"type": "string"},
                "glob": {"type": "string", "description": "e.g. *.{ts,tsx}"},
                "type": {"type": "string", "description": "e.g. rust, py"},
                "mode": {"type": "string", "enum": ["content", "files", "count"]},
                "ignore_case": {"type": "boolean"},
                "fixed": {"type": "boolean"},
                "multiline": {"type": "boolean"},
                "context": {"type": "integer"},
                "limit": {"type": "integer"}
            },
            "required": ["pattern"]
        })
        .into();
        let description = "Search file contents with a regex (Rust syntax), or a literal text if `fixed`. \
                           Newest files first. Skips hidden and ignored files unless `path` names them."
            .to_owned();
        let shown = ToolSpec { name: "grep".to_owned(), description, input_schema };
        let mut understood = shown.clone();
        let fields = &mut Arc::make_mut(&mut understood.input_schema)["properties"];
        for name in ["case_sensitive", "smart_case"] {
            fields[name] = json!({"type": "boolean"});
        }
        for name in ["context", "before", "after", "limit", "offset"] {
            fields[name] = json!({"type": "integer", "minimum": 0});
        }
        Self { shown, understood }
    }

    /// Parses an input.
    ///
    /// # Errors
    ///
    /// Returns a message for the model that names the field.
    pub(crate) fn parse(&self, input: &Value) -> Result<Input, String> {
        let mut input = std::borrow::Cow::Borrowed(input);
        // `files_with_matches` is another agent's name for the mode `files`.
        let other = ["mode", "output_mode"].into_iter().find(|k| input[*k] == "files_with_matches");
        if let Some(key) = other {
            input.to_mut()[key] = Value::from("files");
        }
        for key in ["glob", "include"] {
            if let Some(list) = input[key].as_array()
                && let Some(patterns) = list.iter().map(Value::as_str).collect::<Option<Vec<_>>>()
            {
                let joined = Value::from(patterns.join(","));
                input.to_mut()[key] = joined;
            }
        }
        Parser::new(&self.understood)
            .aliases(ALIASES)
            .ignore(&["-n", "-r", "line_number", "line_numbers", "recursive", "description"])
            .parse(&input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_table() {
        for (input, want) in [
            (json!({"pattern": "abc"}), false),
            (json!({"pattern": "Abc", "-i": "true"}), true),
            (json!({"pattern": "abc", "case_sensitive": false}), true),
            (json!({"pattern": "abc", "case_sensitive": true, "smart_case": true}), false),
            (json!({"pattern": "abc", "-S": true}), true),
            (json!({"pattern": "aBc", "-S": true}), false),
            (json!({"pattern": r"\Sabc\W", "-S": true}), true),
            (json!({"pattern": r"\\Sabc", "-S": true}), false),
            (json!({"pattern": r"\Sabc", "-S": true, "fixed": true}), false),
        ] {
            assert_eq!(Schema::new().parse(&input).unwrap().any_case(), want, "{input}");
        }
    }

    #[test]
    fn what_models_send_is_understood() {
        let input = json!({
            "pattern": "x", "output_mode": "files_with_matches", "-n": true, "-A": "3", "-B": 1.0, "head_limit": "7",
            "offset": "2", "include": ["*.a", "*.b"], "multiline": "true",
        });
        let input = Schema::new().parse(&input).unwrap();
        assert_eq!(
            (
                input.mode,
                input.context(20),
                input.limit,
                input.offset,
                input.glob.as_deref(),
                input.multiline
            ),
            (Mode::Files, (1, 3), Some(7), 2, Some("*.a,*.b"), true)
        );
        let input = Schema::new().parse(&json!({"pattern": "x", "context": 99, "after": 0})).unwrap();
        assert_eq!(input.context(20), (20, 0));
    }
}
