//! Errors that an edit introduced: the errors a server reports after the edit, minus those it reported
//! before.
//!
//! The file's text before the edit is kept. If the server has not opened the file yet, it is sent that text first, so that the old
//! errors become known. Then it is sent the new text, and has the rest of one second to report. Errors that it reports later are
//! shown after the next edit. Errors are compared by message, not by line, because edits move lines.
//!
//! A server that is still loading is sent no new text of a file until it has reported on the old text, however many edits follow.
//! So its old errors are known and are not reported as new. While a server is loading, an edit without an answer does not shorten
//! the wait for it.
//!
//! Only errors are reported, each once, even if another error (of syntax) hid it for a while. If the server
//! had no time to report the old errors, the report says so.

use crate::pool::{Pool, Slot};
use crate::position::{self, Encoding};
use crate::problems::{Memory, Problem, new_problems};
use crate::server::{FileReport, Server, State};
use becket_tool::ToolEnv;
use becket_types::{FileChange, FileChangeKind};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Time that an edit waits for diagnostics, including the start of a server.
pub(crate) const WAIT: Duration = Duration::from_secs(1);
/// The part of [`WAIT`] that is used to learn the errors before the edit.
const BASELINE: Duration = Duration::from_millis(450);
/// The part of [`WAIT`] that is used for that if the server has not answered an edit yet. Its report on the new text will come too
/// late in any case.
const FIRST: Duration = Duration::from_millis(800);
/// A server that publishes its report in several parts is taken to be finished after this much time without a message.
const QUIET: Duration = Duration::from_millis(120);
/// Number of edits without an answer after which the wait for a server is shortened.
const PATIENCE: u32 = 3;
/// The shortened wait. It is not zero, so that a server that answers again is noticed.
const IMPATIENT: Duration = Duration::from_millis(100);
/// Maximum number of errors that are reported after one edit, in all and in files that were not edited.
const SHOWN: usize = 10;
const SHOWN_ELSEWHERE: usize = 5;

/// The report after an edit.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub lines: Vec<String>,
    pub details: Vec<Value>,
}

/// The changes that one call made to files of one server.
type Changed<'a> = Vec<&'a FileChange>;

/// Sends a change to the servers and returns the errors that it introduced. Takes at most [`WAIT`].
pub(crate) async fn check(
    pool: &Pool,
    changes: &[FileChange],
    before: &BTreeMap<PathBuf, String>,
    env: &ToolEnv,
) -> Report {
    let deadline = Instant::now() + WAIT;
    let mut groups: Vec<(Arc<Slot>, Changed<'_>)> = Vec::new();
    for change in changes {
        let Some(slot) = pool.slot(&change.path, &env.roots) else { continue };
        match groups.iter_mut().find(|(s, _)| Arc::ptr_eq(s, &slot)) {
            Some((_, list)) => list.push(change),
            None => groups.push((slot, vec![change])),
        }
    }
    let each =
        groups.iter().map(|(slot, changed)| check_with_server(pool, slot, changed, before, env, deadline));
    let mut out = Report::default();
    for report in futures::future::join_all(each).await {
        out.lines.extend(report.lines);
        out.details.extend(report.details);
    }
    out
}

async fn check_with_server(
    pool: &Pool,
    slot: &Slot,
    changed: &Changed<'_>,
    before: &BTreeMap<PathBuf, String>,
    env: &ToolEnv,
    deadline: Instant,
) -> Report {
    let Ok(mut memory) = tokio::time::timeout_at(deadline, slot.memory.lock()).await else {
        return Report::default();
    };
    let memory = &mut *memory;
    let name = &slot.spec.name;
    let line = |text: String| Report { lines: vec![text], details: Vec::new() };
    let server = match pool.server(slot) {
        Ok((server, start)) => {
            if start != memory.start {
                *memory = Memory {
                    start,
                    edited_during_start: std::mem::take(&mut memory.edited_during_start),
                    reported_end: memory.reported_end.take(),
                    ..Memory::default()
                };
            }
            server
        }
        Err(why) => return no_server_report(memory, name, why),
    };
    // Only one edit waits for the start of a server.
    let until = if memory.reported_starting { Instant::now() } else { deadline };
    match server.ready(until).await {
        Ok(true) => {}
        Ok(false) => {
            let shown = changed.iter().map(|c| (c.path.clone(), before.get(&c.path).cloned()));
            for (path, text) in shown.take(100) {
                memory.edited_during_start.entry(path).or_insert(text);
            }
            if std::mem::replace(&mut memory.reported_starting, true) {
                return Report::default();
            }
            return line(format!("{name} is starting; its errors are reported with later edits."));
        }
        Err(why) => return no_server_report(memory, name, why),
    }
    let spoke = server.lock().count > memory.count;
    if spoke && memory.silent >= PATIENCE {
        memory.silent = PATIENCE - 1;
    }
    let held = baseline(&server, memory, changed, before, deadline).await;
    let mark = server.lock().count;
    let shown = show(&server, changed, &held, &memory.awaiting_baseline);
    let until = if memory.silent >= PATIENCE { deadline.min(Instant::now() + IMPATIENT) } else { deadline };
    let answered = if shown.is_empty() {
        memory.awaiting_baseline.is_empty()
    } else {
        wait(&server, &shown, mark, until).await
    };
    let patience = memory.silent == PATIENCE;
    if answered {
        memory.silent = 0;
    } else if !server.is_busy() {
        memory.silent += 1;
    }
    let mut report = new_errors(&server, memory, &shown, (mark, answered), before, env);
    memory.warm |= answered;
    memory.count = server.lock().count;
    if memory.silent == PATIENCE && !patience && !spoke {
        report.lines.push(format!("{name} does not answer; from now on, edits do not wait for it, and its errors are reported when they arrive."));
    }
    report
}

/// Returns a report that the server is not available. Each reason is reported only once.
fn no_server_report(memory: &mut Memory, name: &str, why: String) -> Report {
    if memory.reported_end.as_ref() == Some(&why) {
        return Report::default();
    }
    let lines = vec![format!("{name}: no diagnostics, {why}.")];
    memory.reported_end = Some(why);
    Report { lines, details: Vec::new() }
}

/// Opens files that are not open yet with their text before the edit, and records their errors. Returns the files whose new text
/// was held back until now.
async fn baseline(
    server: &Arc<Server>,
    memory: &mut Memory,
    changed: &Changed<'_>,
    before: &BTreeMap<PathBuf, String>,
    deadline: Instant,
) -> Vec<PathBuf> {
    // These files changed while the server was starting. It is sent their text before the change. A new file had no such text, so
    // its current text is sent.
    for (path, text) in std::mem::take(&mut memory.edited_during_start) {
        match text {
            Some(text) => {
                server.send_text(&path, &text);
                memory.awaiting_baseline.insert(path);
            }
            None => {
                if let Ok(text) = crate::replace::read_text(&path) {
                    server.send_text(&path, &text);
                    server.saved(&path);
                }
            }
        }
    }
    // The `lsp` tool may have opened a file without recording its errors.
    let is_open = |path: &PathBuf| server.lock().open.contains_key(path);
    let unknown = |c: &&&FileChange| {
        !memory.awaiting_baseline.contains(&c.path)
            && (!memory.known.contains_key(&c.path) || !is_open(&c.path))
    };
    let mut asked: Vec<PathBuf> = changed.iter().filter(unknown).map(|c| c.path.clone()).collect();
    let mark = if asked.iter().all(is_open) { 0 } else { server.lock().count };
    asked.retain(|path| before.get(path).inspect(|text| server.send_text(path, text)).is_some());
    let held: Vec<PathBuf> = memory.awaiting_baseline.iter().cloned().collect();
    if asked.is_empty() && held.is_empty() {
        return held;
    }
    let share = if memory.warm { BASELINE } else { FIRST };
    let until = (Instant::now() + share).min(deadline);
    if memory.silent < PATIENCE {
        let both: Vec<PathBuf> = asked.iter().chain(&held).cloned().collect();
        wait(server, &both, if held.is_empty() { mark } else { 0 }, until).await;
    }
    let mut free = Vec::new();
    for path in asked.iter().chain(&held) {
        let answered = is_answered(server, path, if held.contains(path) { 0 } else { mark });
        if !answered && !memory.warm && memory.silent < PATIENCE {
            memory.awaiting_baseline.insert(path.clone());
            continue;
        }
        if !answered {
            memory.without_baseline.insert(path.clone());
        }
        memory.known.insert(path.clone(), current(server, path));
        if memory.awaiting_baseline.remove(path) {
            free.push(path.clone());
        }
    }
    // A server that has just started reports old errors in files that nobody edited. They are recorded, so that they do not count
    // as new.
    if !memory.warm {
        for path in files(server) {
            if !changed.iter().any(|c| c.path == path) && !held.contains(&path) {
                memory.known.insert(path.clone(), current(server, &path));
            }
        }
    }
    free
}

/// Sends the new texts to the server, except for files in `held`. `free`: files whose text was held back until now. Returns the
/// files for which diagnostics are expected.
fn show(server: &Server, changed: &Changed<'_>, free: &[PathBuf], held: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let mut shown = Vec::new();
    for change in changed {
        let kind = match change.kind {
            FileChangeKind::Add => 1,
            FileChangeKind::Update => 2,
            FileChangeKind::Delete => 3,
        };
        if kind != 2 {
            server.watched(&change.path, kind);
        }
        if kind != 3 {
            shown.push(change.path.clone());
        }
    }
    let others = free.iter().filter(|path| !changed.iter().any(|c| c.path == **path));
    shown.extend(others.cloned());
    shown.retain(|path| {
        let text = crate::replace::read_text(path).ok().filter(|_| !held.contains(path));
        text.is_some_and(|text| {
            server.send_text(path, &text);
            server.saved(path);
            true
        })
    });
    shown
}

/// Waits until the server has reported on the current texts of these files. `mark`: [`State::count`] before the new texts were
/// sent. Returns false if the deadline came first.
async fn wait(server: &Arc<Server>, paths: &[PathBuf], mark: u64, deadline: Instant) -> bool {
    if server.can("diagnosticProvider") {
        for path in paths {
            server.pull(path);
        }
        let all = |s: &mut State| {
            paths
                .iter()
                .all(|path| s.pulled.get(path).is_some_and(|said| is_now(s, path, said, mark)))
                .then_some(())
        };
        return server.until(deadline, all).await.is_some();
    }
    let spoken = |s: &mut State| {
        let done = |path: &PathBuf| s.pushed.get(path).is_some_and(|said| is_now(s, path, said, mark));
        paths.iter().all(done).then_some(s.count)
    };
    let Some(mut count) = server.until(deadline, spoken).await else { return false };
    loop {
        let quiet = (Instant::now() + QUIET).min(deadline);
        match server.until(quiet, |s| (s.count > count).then_some(s.count)).await {
            Some(more) if Instant::now() < deadline => count = more,
            _ => return true,
        }
    }
}

/// True if the report is about the text that the server was sent last. Reports without a version count by their number: later than
/// `mark`.
fn is_now(state: &State, path: &Path, said: &FileReport, mark: u64) -> bool {
    match (said.version, state.open.get(path).map(|open| open.version)) {
        (Some(said), Some(open)) => said >= open,
        _ => said.count > mark,
    }
}

fn files(server: &Server) -> Vec<PathBuf> {
    let state = server.lock();
    let mut all: Vec<PathBuf> = state.pushed.keys().chain(state.pulled.keys()).cloned().collect();
    all.sort();
    all.dedup();
    all
}

/// Returns the server's current errors in a file. A report on an older text is left out.
fn current(server: &Server, path: &Path) -> Vec<Problem> {
    let state = server.lock();
    let heard = [state.pushed.get(path), state.pulled.get(path)];
    let mut all: Vec<Problem> = Vec::new();
    for said in heard.into_iter().flatten().filter(|said| is_now(&state, path, said, 0)) {
        all.extend(said.problems.iter().filter(|p| !all.contains(p)).cloned().collect::<Vec<_>>());
    }
    all.sort_by_key(|p| p.at);
    all
}

/// True if the server has reported on the text that it was sent last.
fn is_answered(server: &Server, path: &Path, mark: u64) -> bool {
    let state = server.lock();
    let heard = [state.pushed.get(path), state.pulled.get(path)];
    heard.into_iter().flatten().any(|said| is_now(&state, path, said, mark))
}

/// Collects the new errors to report. `mark`: [`State::count`] when the new text was sent. `answered`: the server has reported on
/// every file since then.
fn new_errors(
    server: &Server,
    memory: &mut Memory,
    edited: &[PathBuf],
    (mark, answered): (u64, bool),
    before: &BTreeMap<PathBuf, String>,
    env: &ToolEnv,
) -> Report {
    let encoding = server.lock().encoding;
    let mut unsure = false;
    let mut found: Vec<(PathBuf, Vec<Problem>, bool)> = Vec::new();
    for path in files(server) {
        let own = edited.contains(&path);
        // Until the server has reported on the new text, all its reports are about the old text, also those on other files.
        let spoken = if own { is_answered(server, &path, mark) } else { answered };
        if !spoken || memory.awaiting_baseline.contains(&path) {
            continue;
        }
        let now = current(server, &path);
        let known = memory.known.insert(path.clone(), now.clone()).unwrap_or_default();
        let new = new_problems(memory, &path, &known, &now, before.get(&path), text_of(server, &path));
        unsure |= memory.without_baseline.remove(&path) && !new.is_empty();
        if !new.is_empty() && (own || env.is_inside(&path)) {
            found.push((path, new, own));
        }
    }
    found.sort_by_key(|(path, _, own)| (!own, path.clone()));
    let total: usize = found.iter().map(|(_, new, _)| new.len()).sum();
    if total == 0 {
        return Report::default();
    }
    let unsure = if unsure { ", some may be older than this edit" } else { "" };
    let s = if total == 1 { "" } else { "s" };
    let mut lines = vec![format!("{}: {total} new error{s}{unsure}:", server.name)];
    let mut details = Vec::new();
    let mut shown = [0, 0];
    for (path, new, own) in &found {
        let text = text_of(server, path);
        for problem in new {
            let room = if *own { SHOWN } else { SHOWN_ELSEWHERE };
            if shown[0] + shown[1] >= SHOWN || shown[usize::from(!own)] >= room {
                continue;
            }
            shown[usize::from(!own)] += 1;
            lines.push(line(&env.display(path), problem, text.as_deref(), encoding));
            details.push(json!({
                "path": path, "line": problem.at.line + 1, "message": problem.message, "server": server.name,
            }));
        }
    }
    let left = total - shown[0] - shown[1];
    if left > 0 {
        lines.push(format!("… and {left} more"));
    }
    Report { lines, details }
}

fn text_of(server: &Server, path: &Path) -> Option<String> {
    let open = server.lock().open.get(path).map(|open| open.text.clone());
    open.or_else(|| crate::replace::read_text(path).ok())
}

fn line(shown: &str, problem: &Problem, text: Option<&str>, encoding: Encoding) -> String {
    let column = match text {
        Some(text) => position::column(text, problem.at, encoding),
        None => problem.at.character as usize + 1,
    };
    let mut out = format!("{shown}:{}:{column}: ", u64::from(problem.at.line) + 1);
    let _ = write!(out, "{}", problem.message);
    out
}
