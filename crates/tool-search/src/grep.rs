//! The `grep` tool: its plan and its output.
//!
//! Owns the format of the output: the path on its own line; below it `line:text` for matches and `line-text`
//! for context; at the end, in brackets, what was left out and why. `search` does the searching.

use crate::filter::Filter;
use crate::input::{Input, Mode, Schema};
use crate::search::{self, Line, Plan, SearchOutcome};
use crate::{below, blocking, interrupted, root, walk};
use becket_tool::{Keep, Tool, ToolEnv, finish, limits, text};
use becket_types::{Access, ToolOutput, ToolSpec, cut_end};
use futures::future::BoxFuture;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use ignore::types::{Types, TypesBuilder};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

const DEFAULT_LIMIT: usize = 200;
const MAX_LIMIT: usize = 2_000;
/// Maximum offset of a page. A caller that needs more should narrow the search.
const MAX_OFFSET: usize = 20_000;
const MAX_CONTEXT: usize = 20;
const MAX_PATTERN: usize = 10_000;

/// The `grep` tool.
pub struct Grep {
    schema: Schema,
}

impl Default for Grep {
    fn default() -> Self {
        Self::new()
    }
}

impl Grep {
    /// Makes the tool with its specification.
    pub fn new() -> Self {
        Self { schema: Schema::new() }
    }
}

impl Tool for Grep {
    fn spec(&self) -> &ToolSpec {
        &self.schema.shown
    }

    fn access(&self, input: &Value, env: &ToolEnv) -> Result<Access, String> {
        let input = self.schema.parse(input)?;
        Ok(Access::read(root(input.path.as_deref(), env)?))
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let prepared = self.schema.parse(&input).and_then(|input| Job::new(input, env));
            let job = match prepared {
                Ok(job) => job,
                Err(message) => return ToolOutput::error(message),
            };
            let inner = env.clone();
            blocking(env, move |stop| job.run(&inner, stop)).await
        })
    }
}

/// A search with parsed and checked parameters.
struct Job {
    pattern: String,
    root: PathBuf,
    filter: Option<Filter>,
    types: Option<Types>,
    mode: Mode,
    plan: Plan,
    /// Number of matches to skip (`offset`) and to show (`limit`). In the modes `files` and `count`, both are numbers
    /// of files.
    offset: usize,
    limit: usize,
}

impl Job {
    fn new(input: Input, env: &ToolEnv) -> Result<Self, String> {
        let offset = usize::try_from(input.offset).unwrap_or(usize::MAX);
        if offset > MAX_OFFSET {
            return Err(format!(
                "`offset` is at most {MAX_OFFSET}; narrow the search by `path`, `glob` or `type`."
            ));
        }
        let limit = match input.limit {
            None => DEFAULT_LIMIT,
            Some(0) => MAX_LIMIT,
            Some(n) => usize::try_from(n).unwrap_or(MAX_LIMIT).min(MAX_LIMIT),
        };
        let (matcher, multiline) = matcher(&input)?;
        let lines = input.mode == Mode::Content;
        let (before, after) = if lines { input.context(MAX_CONTEXT) } else { (0, 0) };
        let keep = offset + limit;
        let first_only = input.mode == Mode::Files;
        let root = root(input.path.as_deref(), env)?;
        // An absolute pattern that starts with the root is meant relative to the root.
        let glob = input.glob.as_deref().map(|glob| {
            let rest = root.to_str().and_then(|root| glob.trim().strip_prefix(root));
            rest.filter(|rest| rest.starts_with('/')).unwrap_or(glob)
        });
        Ok(Self {
            filter: glob.map(Filter::new).transpose()?,
            root,
            types: input.kind.as_deref().map(types).transpose()?,
            pattern: input.pattern,
            mode: input.mode,
            plan: Plan { matcher, multiline, before, after, keep, lines, first_only },
            offset,
            limit,
        })
    }

    fn run(self, env: &ToolEnv, stop: &AtomicBool) -> ToolOutput {
        let mut walk = walk::rules(&self.root, self.filter.as_ref().is_some_and(|f| f.hidden));
        walk.builder.max_depth(self.filter.as_ref().and_then(|f| f.depth(&self.root, &env.cwd)));
        if let Some(types) = &self.types {
            walk.builder.types(types.clone());
        }
        let wanted = |path: &Path| self.filter.as_ref().is_none_or(|f| f.accepts(path, &self.root, &env.cwd));
        let found = search::search(&self.plan, &walk, &self.root, wanted, &*env.may_read, stop);
        if found.cancelled {
            return interrupted();
        }
        finish(self.output(found, env), Keep::Head, env)
    }

    fn output(&self, mut found: SearchOutcome, env: &ToolEnv) -> ToolOutput {
        let mut out = String::new();
        let (mut skip, mut room) = (self.offset, self.limit);
        let (mut shown, mut files) = (0, 0u64);
        for hit in &mut found.hits {
            if room == 0 {
                break;
            }
            let weight = if self.plan.lines { usize::try_from(hit.matches).unwrap_or(usize::MAX) } else { 1 };
            if skip >= weight {
                skip -= weight;
                continue;
            }
            // A line feed in a file name would look like two names.
            let path = env.display(&hit.path).replace('\n', "\\n");
            match self.mode {
                Mode::Files => _ = writeln!(out, "{path}"),
                Mode::Count => _ = writeln!(out, "{path}:{}", hit.matches),
                Mode::Content => {
                    let gap = if files > 0 { "\n" } else { "" };
                    let _ = writeln!(out, "{gap}{path}");
                    page(&mut hit.lines, skip, room, self.plan.before);
                    push_lines(&mut out, &hit.lines);
                }
            }
            let took = (weight - skip).min(room);
            (skip, room) = (0, room - took);
            shown += took as u64;
            files += 1;
        }
        if found.matching_files == 0 {
            out.push_str(&self.nothing(&found, env));
        }
        let left_out = self.left_out(&found, shown, files);
        if limits::cut(&out, limits::OUTPUT, Keep::Head).is_some() {
            // `finish` cuts a long output at its end, so this notice comes first. Outside the mode `count` it gives only the total,
            // because the cut removes lines that were counted as shown.
            let total = if self.mode == Mode::Count { left_out } else { self.total(&found) };
            out.insert_str(0, &total);
        } else {
            out.push_str(&left_out);
        }
        if found.binary > 0 {
            let what = if found.binary == 1 { "binary file was" } else { "binary files were" };
            let _ = writeln!(out, "[{} {what} not searched]", found.binary);
        }
        out.push_str(&found.skipped.notice(env));
        let details = json!({
            "matches": found.matches, "matching_files": found.matching_files, "files": found.files,
            "complete": !found.unfinished, "not_searched": found.binary + found.skipped.count(),
        });
        ToolOutput { details, ..ToolOutput::text(out) }
    }

    fn nothing(&self, found: &SearchOutcome, env: &ToolEnv) -> String {
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

    /// Returns the total of a list whose end is cut for its size.
    fn total(&self, found: &SearchOutcome) -> String {
        let least = if found.unfinished { "at least " } else { "" };
        let (matches, files) = (found.matches, found.matching_files);
        let what = match self.mode {
            Mode::Content => format!("{least}{matches} matching lines in {files} files"),
            Mode::Count | Mode::Files => format!("{least}{files} files"),
        };
        format!(
            "[{what}; this output is cut at its size: narrow the search, or give a smaller `limit` and go on with `offset`]\n"
        )
    }

    fn left_out(&self, found: &SearchOutcome, shown: u64, files: u64) -> String {
        let least = if found.unfinished { "at least " } else { "" };
        let (matches, in_files) = (found.matches, found.matching_files);
        let all = if self.plan.lines { matches } else { in_files };
        let next = self.offset as u64 + shown;
        if self.offset > 0 && shown == 0 && all > 0 {
            return format!("[nothing from offset {} on: there are {least}{all}]\n", self.offset);
        }
        let mut out = match self.mode {
            Mode::Content if shown < matches => {
                format!(
                    "[{shown} of {least}{matches} matching lines shown, {files} of {least}{in_files} files"
                )
            }
            Mode::Count if files < in_files => {
                format!("[{files} of {least}{in_files} files shown, {least}{matches} matches in all")
            }
            Mode::Files if files < in_files => format!("[{files} of {least}{in_files} files shown"),
            _ if found.unfinished => format!("[at least {matches} matches in {in_files} files"),
            Mode::Count if files > 1 => return format!("[{matches} in {files} files]\n"),
            _ => return String::new(),
        };
        if next < all {
            let _ = write!(out, "; narrow the search, raise `limit`, or go on with `offset` {next}");
        }
        if found.unfinished {
            out.push_str(
                "; partial: the search stopped there, so newer files may be missing; `path`, `glob` or `type` narrow it",
            );
        }
        out.push_str("]\n");
        out
    }
}

/// Reduces `lines` to those that belong to `limit` matches, starting with match number `skip` (from 0).
fn page(lines: &mut Vec<Line>, skip: usize, limit: usize, before: usize) {
    let nth = |n: usize, lines: &[Line]| {
        lines.iter().enumerate().filter(|(_, l)| matches!(l, Line::Match(..))).nth(n).map(|(at, _)| at)
    };
    if skip > 0
        && let Some(at) = nth(skip, lines)
    {
        let context = lines[..at].iter().rev().take_while(|l| matches!(l, Line::Context(..))).count();
        lines.drain(..at - context.min(before));
    }
    if let Some(at) = nth(limit, lines) {
        lines.truncate(at);
        while lines.last() == Some(&Line::Gap) {
            lines.pop();
        }
    }
}

fn push_lines(out: &mut String, lines: &[Line]) {
    for line in lines {
        match line {
            Line::Match(number, text) => _ = writeln!(out, "{number}:{text}"),
            Line::Context(number, text) => _ = writeln!(out, "{number}-{text}"),
            Line::Gap => out.push_str("--\n"),
            Line::Rest(count) => _ = writeln!(out, "[{count} more lines of this match]"),
        }
    }
}

/// Returns the matcher, and true if it may match across lines. It may if the input asks for that or if the
/// pattern contains a line feed.
fn matcher(input: &Input) -> Result<(RegexMatcher, bool), String> {
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
    let build = |across: bool| {
        let mut builder = RegexMatcherBuilder::new();
        builder
            .case_insensitive(input.any_case())
            .fixed_strings(input.fixed)
            .multi_line(true)
            .dot_matches_new_line(input.multiline)
            .size_limit(10 * 1024 * 1024)
            .dfa_size_limit(10 * 1024 * 1024)
            .line_terminator((!across).then_some(b'\n'));
        builder.build(pattern)
    };
    let error = match build(input.multiline) {
        Ok(matcher) => return Ok((matcher, input.multiline)),
        Err(error) if !input.multiline && error.to_string().contains("\\n") => match build(true) {
            Ok(matcher) => return Ok((matcher, true)),
            Err(error) => error,
        },
        Err(error) => error,
    };
    // The matcher wraps the pattern, so its error positions are shifted. Compiling the plain pattern gives
    // the right position.
    let plain = if input.fixed { None } else { regex::Regex::new(pattern).err() };
    let error = plain.map_or_else(|| error.to_string(), |e| e.to_string());
    let error = error.trim_end();
    let stop = if error.ends_with(['.', '?', '!']) { "" } else { "." };
    let hint = if input.fixed { "" } else { " For a literal text, set `fixed`: true." };
    Err(format!("Invalid pattern: {error}{stop}{hint}"))
}

fn types(name: &str) -> Result<Types, String> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    let known = builder.definitions();
    let plain = name.trim().trim_start_matches('.').to_ascii_lowercase();
    // Models often give a file extension instead of the name of a type.
    let found = known.iter().find(|d| d.name() == plain).or_else(|| {
        let glob = format!("*.{plain}");
        known.iter().find(|d| d.globs().contains(&glob))
    });
    let Some(found) = found else {
        let near = text::nearest(&plain, known.iter().map(|d| d.name()));
        let hint = near.map_or(String::new(), |n| format!(" Did you mean `{n}`?"));
        return Err(format!(
            "There is no file type `{}`.{hint} `glob` takes any pattern.",
            cut_end(name, 60)
        ));
    };
    builder.select(found.name());
    builder.build().map_err(|e| e.to_string())
}
