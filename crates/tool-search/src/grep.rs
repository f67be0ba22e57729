//! The `grep` tool: input, plan, output.
//!
//! Owns the output's shape: a path on a line of its own, below it `line:text` for matches and `line-text` for context; then
//! what was left out and why, in brackets. Leaves the work to `search`.

use crate::filter::Filter;
use crate::search::{self, Found, Line, Plan};
use crate::{Troubles, below, blocking, interrupted, root, walk};
use becket_tool::input::Parser;
use becket_tool::{Keep, Tool, ToolEnv, finish, text};
use becket_types::{Access, ToolOutput, ToolSpec};
use futures::future::BoxFuture;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use ignore::types::{Types, TypesBuilder};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const ALIASES: &[(&str, &str)] = &[
    ("query", "pattern"),
    ("regex", "pattern"),
    ("include", "glob"),
    ("output_mode", "mode"),
    ("-i", "ignore_case"),
    ("case_insensitive", "ignore_case"),
    ("-C", "context"),
    ("-A", "context"),
    ("-B", "context"),
    ("head_limit", "limit"),
    ("max_results", "limit"),
    ("fixed_strings", "fixed"),
    ("literal", "fixed"),
];
const DEFAULT_LIMIT: usize = 200;
const MAX_LIMIT: usize = 2_000;
const MAX_CONTEXT: usize = 20;
const MAX_PATTERN: usize = 10_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Content,
    Files,
    Count,
}

#[derive(Debug, Deserialize)]
struct Input {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    mode: Option<Mode>,
    ignore_case: Option<bool>,
    fixed: Option<bool>,
    multiline: Option<bool>,
    context: Option<u64>,
    limit: Option<u64>,
}

/// The `grep` tool.
pub struct Grep {
    spec: ToolSpec,
}

impl Default for Grep {
    fn default() -> Self {
        Self::new()
    }
}

impl Grep {
    pub fn new() -> Self {
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
        });
        let description = "Search file contents with a regex (Rust syntax), or a literal text if `fixed`. \
                           Skips hidden and ignored files unless `path` names them."
            .to_owned();
        Self { spec: ToolSpec { name: "grep".to_owned(), description, input_schema } }
    }

    fn parse(&self, input: &Value) -> Result<Input, String> {
        let mut input = std::borrow::Cow::Borrowed(input);
        // Another agent's name for the same mode.
        let other = ["mode", "output_mode"].into_iter().find(|k| input[*k] == "files_with_matches");
        if let Some(key) = other {
            input.to_mut()[key] = Value::from("files");
        }
        Parser::new(&self.spec).aliases(ALIASES).ignore(&["-n", "description"]).parse(&input)
    }
}

impl Tool for Grep {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, env: &ToolEnv) -> Result<Access, String> {
        let input = self.parse(input)?;
        Ok(Access::read(root(input.path.as_deref(), env)?))
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let prepared = self.parse(&input).and_then(|input| Job::new(input, env));
            let job = match prepared {
                Ok(job) => job,
                Err(message) => return ToolOutput::error(message),
            };
            let env = env.clone();
            blocking(move || job.run(&env)).await
        })
    }
}

/// A search that is understood.
struct Job {
    pattern: String,
    root: PathBuf,
    filter: Option<Filter>,
    types: Option<Types>,
    mode: Mode,
    plan: Plan,
}

impl Job {
    fn new(input: Input, env: &ToolEnv) -> Result<Self, String> {
        let mode = input.mode.unwrap_or_default();
        let limit = input.limit.map_or(DEFAULT_LIMIT, |n| usize::try_from(n).unwrap_or(MAX_LIMIT));
        let context = input.context.map_or(0, |n| usize::try_from(n).unwrap_or(MAX_CONTEXT));
        let plan = Plan {
            matcher: matcher(&input)?,
            multiline: input.multiline.unwrap_or(false),
            context: if mode == Mode::Content { context.min(MAX_CONTEXT) } else { 0 },
            limit: limit.clamp(1, MAX_LIMIT),
            lines: mode == Mode::Content,
            first_only: mode == Mode::Files,
        };
        Ok(Self {
            root: root(input.path.as_deref(), env)?,
            filter: input.glob.as_deref().map(Filter::new).transpose()?,
            types: input.kind.as_deref().map(types).transpose()?,
            pattern: input.pattern,
            mode,
            plan,
        })
    }

    fn run(self, env: &ToolEnv) -> ToolOutput {
        let mut troubles = Troubles::default();
        let mut builder = walk(&self.root, self.filter.as_ref().is_some_and(|f| f.hidden));
        builder.sort_by_file_name(Ord::cmp);
        if let Some(types) = &self.types {
            builder.types(types.clone());
        }
        let wanted = |path: &Path| self.filter.as_ref().is_none_or(|f| f.accepts(path, &self.root, &env.cwd));
        let files = builder.build().filter_map(|entry| match entry {
            Ok(entry) if entry.file_type().is_some_and(|t| t.is_file()) => {
                let path = entry.into_path();
                // A file that was named itself is wanted whatever its name.
                (path == self.root || wanted(&path)).then_some(path)
            }
            Ok(_) => None,
            Err(error) => {
                troubles.add(error.to_string());
                None
            }
        });
        // An interrupt ends the walk too, not only the search.
        let files = files.take_while(|_| !env.cancel.is_cancelled());
        let mut found = search::search(&self.plan, files, &env.cancel);
        if found.cancelled {
            return interrupted();
        }
        if let Some(first) = troubles.first {
            found.troubles.add(first);
            found.troubles.count += troubles.count - 1;
        }
        let output = self.output(&found, env);
        finish(output, Keep::Head, env)
    }

    fn output(&self, found: &Found, env: &ToolEnv) -> ToolOutput {
        let mut out = String::new();
        let mut shown = 0;
        for (index, hit) in found.hits.iter().enumerate() {
            let path = env.display(&hit.path);
            match self.mode {
                Mode::Files => _ = writeln!(out, "{path}"),
                Mode::Count => _ = writeln!(out, "{path}:{}", hit.matches),
                Mode::Content => {
                    let gap = if index > 0 { "\n" } else { "" };
                    let _ = writeln!(out, "{gap}{path}");
                    shown += push_lines(&mut out, &hit.lines);
                }
            }
        }
        if found.matching_files == 0 {
            out.push_str(&self.nothing(found, env));
        }
        out.push_str(&self.left_out(found, shown));
        if found.binary > 0 {
            let what = if found.binary == 1 { "binary file was" } else { "binary files were" };
            let _ = writeln!(out, "[{} {what} not searched]", found.binary);
        }
        out.push_str(&found.troubles.notice());
        let details = json!({
            "matches": found.matches, "matching_files": found.matching_files, "files": found.files,
            "complete": !found.unfinished, "not_searched": found.binary + found.troubles.count,
        });
        ToolOutput { details, ..ToolOutput::text(out) }
    }

    fn nothing(&self, found: &Found, env: &ToolEnv) -> String {
        let place = below(&self.root, env);
        if found.files == 0 {
            let why = if self.filter.is_some() || self.types.is_some() {
                " that `glob` and `type` let through"
            } else {
                ""
            };
            return format!("No file to search{place}{why}; hidden and ignored files are left out.\n");
        }
        let files = if found.files == 1 { "file" } else { "files" };
        format!("No match for `{}` in {} {files}{place}.\n", self.pattern, found.files)
    }

    fn left_out(&self, found: &Found, shown: u64) -> String {
        let least = if found.unfinished { "at least " } else { "" };
        let files = found.hits.len() as u64;
        let (matches, in_files) = (found.matches, found.matching_files);
        match self.mode {
            Mode::Content if shown < matches => format!(
                "[{shown} of {least}{matches} matching lines shown, {files} of {least}{in_files} files; narrow the search or raise `limit`]\n"
            ),
            Mode::Count if files < in_files => {
                format!("[{files} of {least}{in_files} files shown, {least}{matches} matches in all]\n")
            }
            Mode::Files if files < in_files => format!("[{files} of {least}{in_files} files shown]\n"),
            Mode::Count if files > 1 => format!("[{matches} in {files} files]\n"),
            _ => String::new(),
        }
    }
}

/// Adds lines; returns how many are matches.
fn push_lines(out: &mut String, lines: &[Line]) -> u64 {
    let mut matches = 0;
    for line in lines {
        match line {
            Line::Match(number, text) => {
                matches += 1;
                let _ = writeln!(out, "{number}:{text}");
            }
            Line::Context(number, text) => _ = writeln!(out, "{number}-{text}"),
            Line::Gap => out.push_str("--\n"),
        }
    }
    matches
}

fn matcher(input: &Input) -> Result<RegexMatcher, String> {
    let pattern = &input.pattern;
    if pattern.is_empty() {
        return Err("The pattern is empty.".to_owned());
    }
    if pattern.len() > MAX_PATTERN {
        return Err(format!(
            "The pattern has {} bytes; at most {MAX_PATTERN} are understood.",
            pattern.len()
        ));
    }
    let multiline = input.multiline.unwrap_or(false);
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(input.ignore_case.unwrap_or(false))
        .fixed_strings(input.fixed.unwrap_or(false))
        .multi_line(true)
        .dot_matches_new_line(multiline)
        .size_limit(10 * 1024 * 1024)
        .dfa_size_limit(10 * 1024 * 1024)
        .line_terminator((!multiline).then_some(b'\n'));
    builder.build(pattern).map_err(|error| {
        // The matcher has wrapped the pattern; only what the plain pattern says has the right place.
        let plain = if input.fixed.unwrap_or(false) { None } else { regex::Regex::new(pattern).err() };
        let error = plain.map_or_else(|| error.to_string(), |e| e.to_string());
        let hint =
            if error.contains("\\n") && !multiline { " Set `multiline` to match across lines." } else { "" };
        let error = error.trim_end();
        let stop = if error.ends_with(['.', '?', '!']) { "" } else { "." };
        format!("Invalid pattern: {error}{stop}{hint} For a literal text, set `fixed`.")
    })
}

fn types(name: &str) -> Result<Types, String> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    let known = builder.definitions();
    let plain = name.trim().trim_start_matches('.').to_ascii_lowercase();
    // What people call a type is often an extension of it.
    let found = known.iter().find(|d| d.name() == plain).or_else(|| {
        let glob = format!("*.{plain}");
        known.iter().find(|d| d.globs().contains(&glob))
    });
    let Some(found) = found else {
        let near = text::nearest(&plain, known.iter().map(|d| d.name()));
        let hint = near.map_or(String::new(), |n| format!(" Did you mean `{n}`?"));
        return Err(format!("There is no file type `{name}`.{hint} `glob` takes any pattern."));
    };
    builder.select(found.name());
    builder.build().map_err(|e| e.to_string())
}
