//! Searching files for a pattern: many side by side, the newest kept.
//!
//! Owns what a search costs. A file costs four system calls (open, stat, read, close); one up to 1 MB is searched as a whole in
//! a buffer that its thread keeps, a larger one as it streams. The time of a file comes with the stat that guards its opening.
//!
//! Invariants:
//! - Memory: a buffer and at most `keep` matching lines a thread. Lines of a file that is older than everything kept are
//!   counted, not kept.
//! - A search that saw everything gives equal output for equal trees: newest first, ties by path. One that found more than
//!   [`ENOUGH_MATCHES`] ends early and says so ([`Found::unfinished`]).
//!
//! Knows nothing of tools: it is given a plan and gives hits.

use crate::walk::{self, Skipped};
use becket_tool::paths;
use becket_types::cut_end;
use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use ignore::{DirEntry, WalkBuilder};
use std::cmp::{Ordering as Order, Reverse};
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

/// Matching lines after which a search ends, however many files are left.
pub(crate) const ENOUGH_MATCHES: u64 = 200_000;
/// Matching files after which it ends.
const ENOUGH_FILES: u64 = 50_000;
/// Files up to here are searched in one piece.
const WHOLE_BYTES: usize = 1024 * 1024;
/// Memory for one line, or for one file when a pattern may span lines.
const HEAP_BYTES: usize = 16 * 1024 * 1024;
/// Characters of a line that are shown, around its first match.
const LINE_CHARS: usize = 400;
/// Lines of one match that are shown.
const MATCH_LINES: usize = 200;

/// What to search for and how much to bring.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) matcher: RegexMatcher,
    pub(crate) multiline: bool,
    /// Lines of context.
    pub(crate) before: usize,
    pub(crate) after: usize,
    /// Matching lines to keep, or files when lines are not wanted.
    pub(crate) keep: usize,
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
    /// So many lines of one match are not shown.
    Rest(usize),
}

/// What a file holds. Order: newest first, then by path.
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

/// What a search found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The newest files with matches, newest first: at least as many as make `keep`.
    pub(crate) hits: Vec<Hit>,
    pub(crate) files: u64,
    pub(crate) matches: u64,
    pub(crate) matching_files: u64,
    pub(crate) binary: u64,
    pub(crate) skipped: Skipped,
    /// Not every file was looked at: the counts are lower bounds.
    pub(crate) unfinished: bool,
    pub(crate) cancelled: bool,
}

/// Counts of all threads.
#[derive(Default)]
struct Total {
    matches: AtomicU64,
    files: AtomicU64,
    enough: AtomicBool,
}

/// Searches the files of a walk that `wanted` accepts until everything, or enough, is known. Files that `may_read` refuses are
/// not opened; `root` itself has been judged.
pub(crate) fn search(
    plan: &Plan,
    builder: &WalkBuilder,
    root: &Path,
    wanted: impl Fn(&Path) -> bool + Sync,
    may_read: &(dyn Fn(&Path) -> bool + Send + Sync),
    stop: &AtomicBool,
) -> Found {
    let total = Total::default();
    let make = || Worker::new(plan, stop, &total);
    let (workers, skipped) = walk::files(builder, root, stop, make, |worker, entry, skipped| {
        let path = entry.path();
        match wanted(path) {
            true if entry.depth() > 0 && !may_read(path) => skipped.closed(path),
            true => worker.visit(entry, skipped),
            false => {}
        }
        !total.enough.load(Ordering::Relaxed)
    });
    let mut found = Found {
        skipped,
        unfinished: total.enough.load(Ordering::Relaxed),
        cancelled: stop.load(Ordering::Relaxed),
        ..Found::default()
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

/// What one thread has.
struct Worker<'a> {
    plan: &'a Plan,
    stop: &'a AtomicBool,
    total: &'a Total,
    searcher: Searcher,
    buffer: Vec<u8>,
    /// The last of what is kept is on top, to be dropped.
    hits: BinaryHeap<Hit>,
    /// What `hits` counts against `keep`.
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
        // A file behind everything that is kept is counted only.
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
        // One byte more than there is: a read that leaves it free has met the end. Files the kernel makes up have no size.
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
                // It grew, or has no size: the rest is read as it comes.
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

/// A file that ends when the call is interrupted, so that a huge one without matches does not hold it up.
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
    /// Lines are wanted of this file.
    wants: bool,
    matches: u64,
    lines: Vec<Line>,
    binary: bool,
}

impl Collector<'_> {
    fn wants_lines(&self) -> bool {
        self.wants && self.matches <= self.plan.keep as u64
    }

    /// Says how many lines of the last match were left out.
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
        // Lines of one match are a block, and so are matches on adjacent lines: each match counts by the line it begins on.
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
            let text = shown(line, &self.plan.matcher);
            let number = first + index as u64;
            self.lines.push(if begins { Line::Match(number, text) } else { Line::Context(number, text) });
        }
        self.rest(&mut rest);
        Ok(!self.plan.first_only)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        if self.wants_lines() && *context.kind() != SinkContextKind::Other {
            let text = shown(context.bytes(), &self.plan.matcher);
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

/// The lines of a block, from 0, on which a match begins; ascending.
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
