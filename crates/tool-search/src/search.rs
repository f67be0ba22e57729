//! Searching files for a pattern: one file at a time, many side by side, results in the order of the files.
//!
//! Owns what a search costs. Files come in batches from a sorted walk; a batch is searched by a few threads and gathered in
//! order, so the output does not depend on which thread was first. Memory is bounded by the batch, the lines that are shown,
//! and a buffer per thread.
//!
//! Knows nothing of tools: it is given a plan and gives hits.

use crate::Troubles;
use becket_tool::paths;
use becket_types::cut_end;
use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_util::sync::CancellationToken;

/// Files of one batch.
const BATCH: usize = 512;
/// Below this many files threads cost more than they bring.
const SIDE_BY_SIDE: usize = 32;
/// Files that are still counted after enough was found.
const COUNTED_FILES: u64 = 20_000;
/// Memory for one line, or for one file when a pattern may span lines.
const HEAP_BYTES: usize = 16 * 1024 * 1024;
/// Characters of a line that are shown, around its first match.
const LINE_CHARS: usize = 400;

/// What to search for and how much to bring.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) matcher: RegexMatcher,
    pub(crate) multiline: bool,
    pub(crate) context: usize,
    /// Matching lines to keep.
    pub(crate) limit: usize,
    /// Lines are wanted, not only counts.
    pub(crate) lines: bool,
    /// One match in a file is enough.
    pub(crate) first_only: bool,
}

/// A line of the output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Match(u64, String),
    Context(u64, String),
    /// Lines were left out between two groups.
    Gap,
}

/// What a file holds.
#[derive(Debug, Default)]
pub(crate) struct Hit {
    pub(crate) path: PathBuf,
    pub(crate) matches: u64,
    pub(crate) lines: Vec<Line>,
}

/// What a search found, in order.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Files with matches of which something is shown; at most `limit` matching lines in all.
    pub(crate) hits: Vec<Hit>,
    pub(crate) files: u64,
    pub(crate) matches: u64,
    pub(crate) matching_files: u64,
    pub(crate) binary: u64,
    pub(crate) troubles: Troubles,
    /// Not every file was looked at: the counts are lower bounds.
    pub(crate) unfinished: bool,
    pub(crate) cancelled: bool,
}

enum Outcome {
    Searched(Hit),
    Binary,
    Failed(String),
}

/// Searches `files` until everything, or enough, is known.
pub(crate) fn search(plan: &Plan, files: impl Iterator<Item = PathBuf>, cancel: &CancellationToken) -> Found {
    let mut found = Found::default();
    let mut files = files.fuse();
    let mut shown = 0;
    let mut counted = 0;
    loop {
        let batch: Vec<PathBuf> = files.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            break;
        }
        if cancel.is_cancelled() {
            found.cancelled = true;
            break;
        }
        if shown >= plan.limit {
            counted += batch.len() as u64;
            if counted > COUNTED_FILES {
                found.unfinished = true;
                break;
            }
        }
        for outcome in search_batch(plan, batch, plan.limit - shown.min(plan.limit), cancel) {
            found.files += 1;
            match outcome {
                Outcome::Binary => found.binary += 1,
                Outcome::Failed(why) => found.troubles.add(why),
                Outcome::Searched(hit) if hit.matches == 0 => {}
                Outcome::Searched(mut hit) => {
                    found.matches += hit.matches;
                    found.matching_files += 1;
                    if shown < plan.limit {
                        shown += if plan.lines { keep(&mut hit.lines, plan.limit - shown) } else { 1 };
                        found.hits.push(hit);
                    }
                }
            }
        }
    }
    found.cancelled |= cancel.is_cancelled();
    found
}

/// Cuts `lines` behind the `limit`-th match; returns how many matches remain.
fn keep(lines: &mut Vec<Line>, limit: usize) -> usize {
    let mut matches = 0;
    let cut = lines.iter().position(|line| {
        matches += usize::from(matches <= limit && matches!(line, Line::Match(..)));
        matches > limit
    });
    if let Some(at) = cut {
        lines.truncate(at);
        while lines.last() == Some(&Line::Gap) {
            lines.pop();
        }
    }
    matches.min(limit)
}

fn search_batch(plan: &Plan, files: Vec<PathBuf>, limit: usize, cancel: &CancellationToken) -> Vec<Outcome> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if files.len() < SIDE_BY_SIDE || cores == 1 {
        let mut searcher = searcher(plan);
        return files.into_iter().map(|f| search_file(plan, &mut searcher, f, limit, cancel)).collect();
    }
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Outcome)>> = Mutex::new(Vec::with_capacity(files.len()));
    std::thread::scope(|scope| {
        for _ in 0..cores.min(4) {
            scope.spawn(|| {
                let mut searcher = searcher(plan);
                let mut mine = Vec::new();
                while let Some((index, file)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    files.get(index).map(|f| (index, f))
                } {
                    mine.push((index, search_file(plan, &mut searcher, file.clone(), limit, cancel)));
                }
                done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).append(&mut mine);
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

fn searcher(plan: &Plan) -> Searcher {
    SearcherBuilder::new()
        .line_number(true)
        .multi_line(plan.multiline)
        .before_context(plan.context)
        .after_context(plan.context)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(HEAP_BYTES))
        .build()
}

fn search_file(
    plan: &Plan,
    searcher: &mut Searcher,
    path: PathBuf,
    limit: usize,
    cancel: &CancellationToken,
) -> Outcome {
    let file = match paths::open_file(&path) {
        Ok((file, _)) => file,
        Err(error) => return Outcome::Failed(error.to_string().trim_end_matches('.').to_owned()),
    };
    let mut collector = Collector { plan, limit, hit: Hit::default(), binary: false };
    let reader = Stoppable { file, cancel };
    if let Err(error) = searcher.search_reader(&plan.matcher, reader, &mut collector) {
        return Outcome::Failed(why(&path, &error));
    }
    if collector.binary {
        return Outcome::Binary;
    }
    Outcome::Searched(Hit { path, ..collector.hit })
}

fn why(path: &Path, error: &io::Error) -> String {
    let text = error.to_string();
    if text.contains("allocation limit") {
        return format!("{} (a line above {} MB)", path.display(), HEAP_BYTES / 1024 / 1024);
    }
    format!("{} ({text})", path.display())
}

/// A file that ends when the call is interrupted, so that a huge one without matches does not hold it up.
struct Stoppable<'a> {
    file: File,
    cancel: &'a CancellationToken,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() { Ok(0) } else { self.file.read(buffer) }
    }
}

struct Collector<'a> {
    plan: &'a Plan,
    limit: usize,
    hit: Hit,
    binary: bool,
}

impl Collector<'_> {
    fn wants_lines(&self) -> bool {
        // One more than the limit, so that the context behind the last match is seen to end.
        self.plan.lines && self.hit.matches <= self.limit as u64
    }
}

impl Sink for Collector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.hit.matches += 1;
        if self.wants_lines() {
            let first = found.line_number().unwrap_or(0);
            for (index, line) in found.lines().enumerate() {
                let text = shown(line, &self.plan.matcher);
                let number = first + index as u64;
                let line = if index == 0 { Line::Match(number, text) } else { Line::Context(number, text) };
                self.hit.lines.push(line);
            }
        }
        Ok(!self.plan.first_only)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        if self.wants_lines() && *context.kind() != SinkContextKind::Other {
            let text = shown(context.bytes(), &self.plan.matcher);
            self.hit.lines.push(Line::Context(context.line_number().unwrap_or(0), text));
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        if self.wants_lines() {
            self.hit.lines.push(Line::Gap);
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.binary = true;
        Ok(false)
    }
}

/// A line as text without its line end; a long one is cut to what is around its first match.
fn shown(line: &[u8], matcher: &RegexMatcher) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= LINE_CHARS {
        return String::from_utf8_lossy(line).into_owned();
    }
    let at = matcher.find(line).ok().flatten().map_or(0, |m| m.start());
    // What is before the match gets a quarter of the room. Bytes around the window are characters at worst cut in two.
    let start = at.saturating_sub(LINE_CHARS / 4).min(line.len());
    let window = &line[start..line.len().min(start + LINE_CHARS * 4)];
    let text = String::from_utf8_lossy(window);
    let text = if start > 0 { text.trim_start_matches('\u{FFFD}') } else { &text };
    let kept = text.char_indices().nth(LINE_CHARS).map_or(text.len(), |(at, _)| at);
    let before = if start > 0 { "…" } else { "" };
    let behind =
        if start + kept < line.len() { format!("… [{} bytes]", line.len()) } else { String::new() };
    format!("{before}{}{behind}", cut_end(text, kept))
}
