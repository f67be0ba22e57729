//! The `glob` tool: which files there are, newest first.
//!
//! Owns the choice of what is shown: the newest `limit` files, ties by path; memory does not grow with the tree. Opens no file.

use crate::filter::{self, Filter};
use crate::{Troubles, below, blocking, interrupted, root, walk};
use becket_tool::input::Parser;
use becket_tool::{Keep, Tool, ToolEnv, finish};
use becket_types::{Access, ToolOutput, ToolSpec};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::SystemTime;

const ALIASES: &[(&str, &str)] = &[("glob", "pattern"), ("glob_pattern", "pattern"), ("directory", "path")];
const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1_000;

#[derive(Debug, Deserialize)]
struct Input {
    pattern: String,
    path: Option<String>,
    limit: Option<u64>,
}

/// The `glob` tool.
pub struct Glob {
    spec: ToolSpec,
}

impl Default for Glob {
    fn default() -> Self {
        Self::new()
    }
}

impl Glob {
    pub fn new() -> Self {
        let input_schema = json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "e.g. src/**/*.rs"},
                "path": {"type": "string"},
                "limit": {"type": "integer"}
            },
            "required": ["pattern"]
        });
        let description = "Find files by name, newest first. Skips hidden and ignored files.".to_owned();
        Self { spec: ToolSpec { name: "glob".to_owned(), description, input_schema } }
    }

    fn parse(&self, input: &Value, env: &ToolEnv) -> Result<Job, String> {
        let input: Input = Parser::new(&self.spec).aliases(ALIASES).ignore(&["description"]).parse(input)?;
        if input.pattern.trim().is_empty() {
            return Err("The pattern is empty; `*` is every file.".to_owned());
        }
        let asked = input.path.filter(|p| !p.is_empty()).unwrap_or_else(|| ".".to_owned());
        let (asked, pattern) = match filter::base(&input.pattern) {
            Some((dir, rest)) => (PathBuf::from(&asked).join(dir).to_string_lossy().into_owned(), rest),
            None => (asked, input.pattern.clone()),
        };
        let limit = input.limit.map_or(DEFAULT_LIMIT, |n| usize::try_from(n).unwrap_or(MAX_LIMIT));
        Ok(Job {
            root: root(Some(&asked), env)?,
            filter: Filter::new(&pattern)?,
            pattern: input.pattern,
            limit: limit.clamp(1, MAX_LIMIT),
        })
    }
}

impl Tool for Glob {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, env: &ToolEnv) -> Result<Access, String> {
        Ok(Access::read(self.parse(input, env)?.root))
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let job = match self.parse(&input, env) {
                Ok(job) => job,
                Err(message) => return ToolOutput::error(message),
            };
            let env = env.clone();
            blocking(move || job.run(&env)).await
        })
    }
}

struct Job {
    root: PathBuf,
    filter: Filter,
    pattern: String,
    limit: usize,
}

impl Job {
    fn run(self, env: &ToolEnv) -> ToolOutput {
        let mut troubles = Troubles::default();
        // The oldest of the newest is on top, to be replaced.
        let mut newest: BinaryHeap<Reverse<(SystemTime, Reverse<PathBuf>)>> = BinaryHeap::new();
        let (mut files, mut matching) = (0u64, 0u64);
        for entry in walk(&self.root, self.filter.hidden).build() {
            if env.cancel.is_cancelled() {
                return interrupted();
            }
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    troubles.add(error.to_string());
                    continue;
                }
            };
            if entry.file_type().is_none_or(|t| t.is_dir()) {
                continue;
            }
            files += 1;
            if !self.filter.accepts(entry.path(), &self.root, &env.cwd) {
                continue;
            }
            matching += 1;
            let time =
                entry.metadata().ok().and_then(|m| m.modified().ok()).unwrap_or(SystemTime::UNIX_EPOCH);
            newest.push(Reverse((time, Reverse(entry.into_path()))));
            if newest.len() > self.limit {
                newest.pop();
            }
        }
        let mut out = String::new();
        let shown = newest.len() as u64;
        for Reverse((_, Reverse(path))) in newest.into_sorted_vec() {
            // A line feed in a name would make two names of it.
            let _ = writeln!(out, "{}", env.display(&path).replace('\n', "\\n"));
        }
        if matching == 0 {
            let place = below(&self.root, env);
            let _ = writeln!(
                out,
                "No file matches `{}` among {files}{place}; hidden and ignored files are left out.",
                self.pattern
            );
        } else if shown < matching {
            let _ = writeln!(
                out,
                "[the newest {shown} of {matching} files; narrow the pattern or raise `limit`]"
            );
        }
        out.push_str(&troubles.notice());
        let details = json!({"files": files, "matching": matching, "shown": shown});
        finish(ToolOutput { details, ..ToolOutput::text(out) }, Keep::Head, env)
    }
}
