//! The `glob` tool: lists files, newest first.
//!
//! Owns the selection: the newest `limit` files, ties ordered by path. Memory does not grow with the tree.
//! Only matching files are examined for their time. Opens no file.

use crate::filter::{self, Filter};
use crate::walk::{self, Skipped};
use crate::{below, blocking, interrupted, root};
use becket_tool::input::Parser;
use becket_tool::{Keep, Tool, ToolEnv, finish};
use becket_types::{Access, ToolOutput, ToolSpec};
use futures::future::BoxFuture;
use ignore::DirEntry;
use serde::Deserialize;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

const ALIASES: &[(&str, &str)] = &[
    ("glob", "pattern"),
    ("glob_pattern", "pattern"),
    ("directory", "path"),
    ("dir_path", "path"),
    ("head_limit", "limit"),
];
const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1_000;
/// Number of matching files whose times are compared. Reading a time costs as much as finding the file. If
/// more match, the ones found first are compared.
const COMPARED: u64 = 5_000;

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
    /// Makes the tool with its specification.
    pub fn new() -> Self {
        let input_schema = json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "e.g. src/**/*.rs"},
                "path": {"type": "string"},
                "limit": {"type": "integer", "minimum": 0}
            },
            "required": ["pattern"]
        })
        .into();
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
        let limit = match input.limit {
            None => DEFAULT_LIMIT,
            Some(0) => MAX_LIMIT,
            Some(n) => usize::try_from(n).unwrap_or(MAX_LIMIT).min(MAX_LIMIT),
        };
        Ok(Job {
            root: root(Some(&asked), env)?,
            filter: Filter::new(&pattern)?,
            pattern: input.pattern,
            limit,
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
            let inner = env.clone();
            blocking(env, move |stop| job.run(&inner, stop)).await
        })
    }
}

struct Job {
    root: PathBuf,
    filter: Filter,
    pattern: String,
    limit: usize,
}

/// The newest files found by one thread. The oldest of them is on top of the heap, so it is replaced first.
#[derive(Default)]
struct Newest {
    files: u64,
    matching: u64,
    kept: BinaryHeap<Reverse<(SystemTime, Reverse<PathBuf>)>>,
}

impl Newest {
    fn push(&mut self, entry: DirEntry, limit: usize) {
        let time = entry.metadata().ok().and_then(|m| m.modified().ok());
        self.kept.push(Reverse((time.unwrap_or(SystemTime::UNIX_EPOCH), Reverse(entry.into_path()))));
        if self.kept.len() > limit {
            self.kept.pop();
        }
    }
}

impl Job {
    fn run(self, env: &ToolEnv, stop: &AtomicBool) -> ToolOutput {
        let mut walk = walk::rules(&self.root, self.filter.hidden);
        walk.builder.max_depth(self.filter.depth(&self.root, &env.cwd));
        let looks = AtomicU64::new(0);
        let each = |part: &mut Newest, entry: DirEntry, _: &mut Skipped| {
            part.files += 1;
            if self.filter.accepts(entry.path(), &self.root, &env.cwd) {
                part.matching += 1;
                if looks.fetch_add(1, Ordering::Relaxed) < COMPARED {
                    part.push(entry, self.limit);
                }
            }
            true
        };
        let (parts, skipped) = walk::files(&walk, &self.root, stop, Newest::default, each);
        if stop.load(Ordering::Relaxed) {
            return interrupted();
        }
        let (mut files, mut matching) = (0, 0);
        let mut newest = Vec::new();
        for part in parts {
            files += part.files;
            matching += part.matching;
            newest.extend(part.kept);
        }
        newest.sort_unstable();
        newest.truncate(self.limit);
        let mut out = String::new();
        let shown = newest.len() as u64;
        for Reverse((_, Reverse(path))) in newest {
            // A line feed in a file name would look like two names.
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
            let compared = if matching > COMPARED {
                format!(", by the times of {COMPARED} of them")
            } else {
                String::new()
            };
            let _ = writeln!(
                out,
                "[the newest {shown} of {matching} files{compared}; narrow the pattern or raise `limit`]"
            );
        }
        out.push_str(&skipped.notice(env));
        let details = json!({"files": files, "matching": matching, "shown": shown});
        finish(ToolOutput { details, ..ToolOutput::text(out) }, Keep::Head, env)
    }
}
