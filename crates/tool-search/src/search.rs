//! Searching many files in parallel for a pattern, and keeping the newest matches.
//!
//! Owns the cost of a search. A file costs four system calls (open, stat, read, close). A file of up to 1 MB
//! is read whole into a buffer that its thread reuses; a larger one is searched as a stream. The file's time
//! comes from the stat that checks it when it is opened.
//!
//! Invariants:
//! - Memory: one buffer and at most `keep` matching lines per thread. Matches in a file that is older than
//!   everything kept are only counted.
//! - A search that saw everything gives equal output for equal trees: newest first, ties ordered by path. A search that found
//!   [`ENOUGH_MATCHES`] lines or [`ENOUGH_FILES`] files ends early and reports it ([`SearchOutcome::unfinished`]).
//!
//! Knows nothing of tools: it receives a plan and returns hits.

use crate::walk::{self, Skipped, Walk};
use becket_tool::paths;
use becket_types::cut_end;
use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use ignore::DirEntry;
use std::cmp::{Ordering as Order, Reverse};
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

/// Number of matching lines after which a search ends early.
pub(crate) const ENOUGH_MATCHES: u64 = 200_000;
/// Number of matching files after which a search ends early.
const ENOUGH_FILES: u64 = 50_000;
/// Maximum size in bytes of a file that is read whole before it is searched.
const WHOLE_BYTES: usize = 1024 * 1024;
/// Memory limit in bytes for one line, or for one file if the pattern may match across lines.
const HEAP_BYTES: usize = 16 * 1024 * 1024;
/// Number of characters shown of a line, around its first match.
const LINE_CHARS: usize = 400;
/// Number of lines shown of one match.
const MATCH_LINES: usize = 200;

/// The parameters of a search.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) matcher: RegexMatcher,
    pub(crate) multiline: bool,
    /// Number of context lines before and after a match.
    pub(crate) before: usize,
    pub(crate) after: usize,
    /// Number of matching lines to keep, or of files if lines are not wanted.
    pub(crate) keep: usize,
    /// True if lines are wanted, not only counts.
    pub(crate) lines: bool,
    /// True if the search of a file may stop at its first match.
    pub(crate) first_only: bool,
}

/// A line of the output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Line number (from 1) and text of a line on which a match begins.
    Match(u64, String),
    /// Line number and text of a context line, or of a further line of a match.
    Context(u64, String),
    /// Lines between two matches or their contexts that are left out.
    Gap,
    /// Number of lines of one match that are not shown.
    Rest(usize),
}

/// The matches in one file. Ordered newest first, then by path.
#[derive(Debug)]
pub(crate) struct Hit {
    pub(crate) time: SystemTime,
    pub(crate) path: PathBuf,
    pub(crate) matches: u64,
    pub(crate) lines: Vec<Line>,
}

impl Hit {
    fn place(&self) -> (Reverse<SystemTime>, &Path) {
        (Reverse(self.time), &self.path)
    }
}

impl Ord for Hit {
    fn cmp(&self, other: &Self) -> Order {
        self.place().cmp(&other.place())
    }
}

impl PartialOrd for Hit {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Hit {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Hit {}

/// The result of a search.
#[derive(Debug, Default)]
pub(crate) struct SearchOutcome {
    /// The newest files with matches, newest first. They contain at least `keep` matches if that many were
    /// found.
    pub(crate) hits: Vec<Hit>,
    /// Number of files that were looked at, also those that were binary or could not be read.
    pub(crate) files: u64,
    pub(crate) matches: u64,
    pub(crate) matching_files: u64,
    /// Number of files that contain NUL and were not searched.
    pub(crate) binary: u64,
    pub(crate) skipped: Skipped,
    /// True if not every file was searched. The counts are then lower bounds.
    pub(crate) unfinished: bool,
    pub(crate) cancelled: bool,
}

/// Matching lines and matching files over all threads. `enough` is set once a search must end early.
#[derive(Default)]
struct Total {
    matches: AtomicU64,
    files: AtomicU64,
    enough: AtomicBool,
}

/// Searches the files of a walk that `wanted` accepts, until all are searched or enough is found. Files that
/// `may_read` refuses are not opened. `root` itself was permitted by the caller.
pub(crate) fn search(
    plan: &Plan,
    walk: &Walk,
    root: &Path,
    wanted: impl Fn(&Path) -> bool + Sync,
    may_read: &(dyn Fn(&Path) -> bool + Send + Sync),
    stop: &AtomicBool,
) -> SearchOutcome {
    let total = Total::default();
    let make = || Worker::new(plan, stop, &total);
    let (workers, skipped) = walk::files(walk, root, stop, make, |worker, entry, skipped| {
        let path = entry.path();
        match wanted(path) {
            true if entry.depth() > 0 && !may_read(path) => skipped.closed(path),
            true => worker.visit(entry, skipped),
            false => {}
        }
        !total.enough.load(Ordering::Relaxed)
    });
    let mut found = SearchOutcome {
        skipped,
        unfinished: total.enough.load(Ordering::Relaxed),
        cancelled: stop.load(Ordering::Relaxed),
        ..SearchOutcome::default()
    };
    for worker in workers {
        found.files += worker.files;
        found.binary += worker.binary;
        found.hits.extend(worker.hits);
    }
    found.matches = total.matches.load(Ordering::Relaxed);
    found.matching_files = total.files.load(Ordering::Relaxed);
    found.hits.sort_unstable();
    found
}

/// The state of one thread.
struct Worker<'a> {
    plan: &'a Plan,
    stop: &'a AtomicBool,
    total: &'a Total,
    searcher: Searcher,
    buffer: Vec<u8>,
    /// Best hits so far. The worst of them is on top of the heap, so it is dropped first.
    hits: BinaryHeap<Hit>,
    /// Number of matches in `hits`, compared with `keep`.
    kept: usize,
    files: u64,
    binary: u64,
}

impl<'a> Worker<'a> {
    fn new(plan: &'a Plan, stop: &'a AtomicBool, total: &'a Total) -> Self {
        let searcher = SearcherBuilder::new()
            .line_number(plan.lines)
            .multi_line(plan.multiline)
            .before_context(plan.before)
            .after_context(plan.after)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(HEAP_BYTES))
            .build();
        let (hits, buffer) = (BinaryHeap::new(), Vec::new());
        Self { plan, stop, total, searcher, buffer, hits, kept: 0, files: 0, binary: 0 }
    }

    fn visit(&mut self, entry: DirEntry, skipped: &mut Skipped) {
        let path = entry.path();
        if entry.file_type().is_some_and(|kind| !kind.is_file()) {
            return skipped.trouble(format!("{} (not a regular file)", path.display()));
        }
        self.files += 1;
        let (file, meta) = match paths::open_listed(path) {
            Ok(opened) => opened,
            Err(error) => return skipped.trouble(error.to_string().trim_end_matches('.').to_owned()),
        };
        let time = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        // `keep` matches are kept and all are in newer files, so the matches of this file are only counted.
        let late = self.kept >= self.plan.keep
            && self.hits.peek().is_some_and(|last| last.place() < (Reverse(time), path));
        let lines = self.plan.lines && !late;
        let mut collector =
            Collector { plan: self.plan, wants: lines, matches: 0, lines: Vec::new(), binary: false };
        if let Err(error) = self.search(file, meta.len(), &mut collector) {
            return skipped.trouble(self.why(path, &error));
        }
        let Collector { matches, lines, binary, .. } = collector;
        if binary {
            self.binary += 1;
        } else if matches > 0 {
            let all = self.total.matches.fetch_add(matches, Ordering::Relaxed) + matches;
            let files = self.total.files.fetch_add(1, Ordering::Relaxed) + 1;
            if (all >= ENOUGH_MATCHES && all > self.plan.keep as u64) || files >= ENOUGH_FILES {
                self.total.enough.store(true, Ordering::Relaxed);
            }
            if !late {
                self.keep(Hit { time, path: entry.into_path(), matches, lines });
            }
        }
    }

    fn weight(&self, hit: &Hit) -> usize {
        if self.plan.lines {
            usize::try_from(hit.matches).unwrap_or(usize::MAX).min(self.plan.keep)
        } else {
            1
        }
    }

    fn keep(&mut self, hit: Hit) {
        self.kept += self.weight(&hit);
        self.hits.push(hit);
        while let Some(last) = self.hits.peek()
            && self.kept - self.weight(last) >= self.plan.keep
        {
            self.kept -= self.weight(last);
            self.hits.pop();
        }
    }

    fn search(&mut self, mut file: File, size: u64, collector: &mut Collector<'_>) -> io::Result<()> {
        let Self { plan, searcher, buffer, stop, .. } = self;
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size > WHOLE_BYTES {
            return searcher.search_reader(&plan.matcher, Stoppable { file, stop }, collector);
        }
        // One byte more than the file's size: if it stays free, the read has reached the end. Files that the
        // kernel generates report size 0.
        let room = if size == 0 { 64 * 1024 } else { size + 1 };
        if buffer.len() < room {
            buffer.resize(room, 0);
        }
        let mut filled = 0;
        loop {
            let n = match file.read(&mut buffer[filled..room]) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            filled += n;
            if n == 0 || (size > 0 && filled <= size) {
                break;
            }
            if filled == room {
                // The file has grown or reports no size. The rest is searched as a stream.
                let rest = Read::chain(&buffer[..filled], Stoppable { file, stop });
                return searcher.search_reader(&plan.matcher, rest, collector);
            }
        }
        let bytes = &buffer[..filled];
        let utf16 = bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff");
        if !utf16 && memchr::memchr(0, bytes).is_some() {
            collector.binary = true;
            return Ok(());
        }
        searcher.search_slice(&plan.matcher, bytes, collector)
    }

    fn why(&self, path: &Path, error: &io::Error) -> String {
        let text = error.to_string();
        if text.contains("allocation limit") {
            let what = if self.plan.multiline { "too large for `multiline`:" } else { "a line" };
            return format!("{} ({what} above {} MB)", path.display(), HEAP_BYTES / 1024 / 1024);
        }
        format!("{} ({text})", path.display())
    }
}

/// A reader that reports the end of the file once the call is interrupted, so that a huge file without
/// matches does not delay the interrupt.
struct Stoppable<'a> {
    file: File,
    stop: &'a AtomicBool,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) { Ok(0) } else { self.file.read(buffer) }
    }
}

struct Collector<'a> {
    plan: &'a Plan,
    /// True if the lines of this file are wanted.
    wants: bool,
    matches: u64,
    lines: Vec<Line>,
    binary: bool,
}

impl Collector<'_> {
    fn wants_lines(&self) -> bool {
        self.wants && self.matches <= self.plan.keep as u64
    }

    /// Records how many lines of the last match were omitted.
    fn rest(&mut self, rest: &mut usize) {
        if *rest > 0 {
            self.lines.push(Line::Rest(std::mem::take(rest)));
        }
    }
}

impl Sink for Collector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let first = found.line_number().unwrap_or(0);
        // The searcher reports adjacent matching lines, or all lines of one match, as one block. Each match
        // is counted at the line where it begins.
        let mut starts = if self.plan.multiline { starts(&self.plan.matcher, found) } else { Vec::new() };
        starts.dedup();
        let mut starts = starts.into_iter().peekable();
        let (mut since, mut rest) = (0, 0);
        for (index, line) in found.lines().enumerate() {
            let begins = starts.next_if(|at| *at == index).is_some() || index == 0;
            if begins {
                self.rest(&mut rest);
                self.matches += 1;
                since = 0;
                if self.plan.first_only {
                    break;
                }
            }
            since += 1;
            if !self.wants_lines() {
                continue;
            }
            if since > MATCH_LINES {
                rest += 1;
                continue;
            }
            let text = line_text(line, &self.plan.matcher);
            let number = first + index as u64;
            self.lines.push(if begins { Line::Match(number, text) } else { Line::Context(number, text) });
        }
        self.rest(&mut rest);
        Ok(!self.plan.first_only)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        if self.wants_lines() && *context.kind() != SinkContextKind::Other {
            let text = line_text(context.bytes(), &self.plan.matcher);
            self.lines.push(Line::Context(context.line_number().unwrap_or(0), text));
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        if self.wants_lines() {
            self.lines.push(Line::Gap);
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.binary = true;
        Ok(false)
    }
}

/// Returns the lines of a block, from 0 and ascending, on which a match begins.
fn starts(matcher: &RegexMatcher, found: &SinkMatch<'_>) -> Vec<usize> {
    let (buffer, range) = (found.buffer(), found.bytes_range_in_buffer());
    let (mut out, mut at, mut counted, mut line) = (Vec::new(), range.start, range.start, 0);
    while at < range.end
        && let Ok(Some(hit)) = matcher.find_at(buffer, at)
        && hit.start() < range.end
    {
        line += memchr::memchr_iter(b'\n', &buffer[counted..hit.start()]).count();
        counted = hit.start();
        out.push(line);
        at = hit.end().max(hit.start() + 1);
    }
    out
}

/// Returns a line as text without its line ending. A long line is cut to the part around its first match.
fn line_text(line: &[u8], matcher: &RegexMatcher) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= LINE_CHARS {
        return String::from_utf8_lossy(line).into_owned();
    }
    let at = matcher.find(line).ok().flatten().map_or(0, |m| m.start());
    // A quarter of the width shows text before the match. The window may cut a character in two at its edges;
    // the replacement characters are trimmed.
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
