//! Pages of the context inspector: the results of `becket context --requests` and `--request N` for the terminal, and
//! the loss report of a compaction.
//!
//! Asks the agent for the session, sends nothing to a model, changes nothing.

use super::figures;
use super::pages::Pages;
use crate::cmd::context::{
    LoadedSession, PlacedSpan, RebuiltRequest, RecordedRequest, RequestRebuilder, cache_states, changes,
    current_spans, is_same, name, previous_request, recorded_requests, request_of, shared_prefix_len,
};
use crate::cmd::{one_line, short, when};
use crate::environment::Environment;
use crate::failure::Failure;
use becket_session::context::compaction::CompactionEffect;
use becket_session::context::view::CacheState;
use becket_tui::inspector::{Inspect, Inspected, InspectedRequest, SentRow, SpanRow};
use becket_types::{Entry, EntryKind, Loss, Message, Seq, SpanKind, Usage};
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

const MAX_SPAN_BYTES: usize = 1 << 20;

/// Pages of an open inspector. Data that was read for one page is kept for the next ones until the session has
/// another entry.
/// Reading a long session for every key would take too long.
#[derive(Default)]
pub(super) struct Inspector {
    cached: Mutex<Option<ReadSession>>,
}

struct ReadSession {
    session: String,
    /// The session's last entry before it was read.
    last: Seq,
    reading: LoadedSession,
    /// Rebuilt requests of the last page, by number.
    rebuilt: Vec<(usize, RebuiltRequest)>,
}

impl Inspector {
    /// Returns a page. Blocks.
    ///
    /// # Errors
    ///
    /// Returns a failure for the user if the session cannot be read, or has no such request or span.
    pub(super) fn page(&self, pages: &Pages, asked: Inspect) -> Result<Inspected, Failure> {
        let (environment, cwd, session) = (&pages.environment, &pages.cwd, pages.session.as_str());
        let mut kept = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let last = pages.last_entry()?;
        if !kept.as_ref().is_some_and(|k| k.session == session && k.last == last) {
            // The old reading is dropped before the new one is loaded, because each may be large.
            *kept = None;
            let reading = pages.started()?;
            *kept = Some(ReadSession { session: session.to_owned(), last, reading, rebuilt: Vec::new() });
        }
        kept.as_mut().ok_or_else(request_gone)?.page(environment, cwd, asked)
    }
}

impl ReadSession {
    fn page(&mut self, environment: &Environment, cwd: &Path, asked: Inspect) -> Result<Inspected, Failure> {
        let Self { reading, rebuilt: made, .. } = self;
        match asked {
            Inspect::Requests => Ok(Inspected::Requests(requests(reading))),
            Inspect::Spans { request: InspectedRequest::Now } => {
                let spans = current_spans(reading);
                let tokens: u64 = spans.iter().map(|placed| placed.span.tokens.0).sum();
                let rows = spans.iter().map(|placed| row(placed, "", None)).collect();
                let head = format!("what the model would see now: {} tokens", short(tokens));
                Ok(Inspected::Spans { head, rows })
            }
            Inspect::Bytes { request: InspectedRequest::Now, span } => {
                let spans = current_spans(reading);
                let placed = spans.get(span).ok_or_else(request_gone)?;
                Ok(Inspected::Text { title: title(placed), text: unsent_text(placed) })
            }
            Inspect::Diff { request: InspectedRequest::Now } => {
                let spans = current_spans(reading);
                let sent = recorded_requests(&reading.entries);
                let maker = RequestRebuilder::new(environment, cwd, reading)?;
                let Some(last) = sent.iter().rev().find(|sent| sent.record.purpose == "turn") else {
                    return Err(Failure::usage("nothing was sent yet"));
                };
                make(made, &maker, &[last])?;
                let text = changes(&spans, &made[0].1.spans);
                let text = if text.is_empty() { "Nothing.\n".to_owned() } else { text };
                Ok(Inspected::Text { title: format!("since request {}", last.number), text })
            }
            Inspect::Spans { request: InspectedRequest::Sent(number) } => {
                self.show_request(environment, cwd, number, |wanted, made, earlier| {
                    Ok(spans(wanted, made, earlier))
                })
            }
            Inspect::Bytes { request: InspectedRequest::Sent(number), span } => {
                self.show_request(environment, cwd, number, |wanted, made, _| bytes(wanted, made, span))
            }
            Inspect::Diff { request: InspectedRequest::Sent(number) } => {
                self.show_request(environment, cwd, number, diff)
            }
        }
    }

    /// Shows a sent request by `show`, which gets it rebuilt, and the previous one with its number.
    fn show_request(
        &mut self,
        environment: &Environment,
        cwd: &Path,
        number: NonZeroUsize,
        show: impl FnOnce(
            &RecordedRequest<'_>,
            &RebuiltRequest,
            Option<&(usize, RebuiltRequest)>,
        ) -> Result<Inspected, Failure>,
    ) -> Result<Inspected, Failure> {
        let Self { reading, rebuilt: made, .. } = self;
        let maker = RequestRebuilder::new(environment, cwd, reading)?;
        let sent = recorded_requests(&reading.entries);
        let wanted = request_of(&sent, number)?;
        // The user usually looks at the bytes next and compares them, so both requests stay until another one is asked for.
        let both: Vec<&RecordedRequest<'_>> =
            previous_request(&sent, wanted).into_iter().chain([wanted]).collect();
        make(made, &maker, &both)?;
        let (earlier, made) = made.split_at(both.len() - 1);
        show(wanted, &made[0].1, earlier.first())
    }
}

/// Returns the loss report of the compaction with this entry number. Blocks.
///
/// # Errors
///
/// Returns a failure for the user if the session cannot be read or the entry is not a compaction.
pub(super) fn loss(pages: &Pages, entry: Seq) -> Result<Loss, Failure> {
    let reading = pages.started()?;
    let mut before: Option<Vec<Arc<Message>>> = None;
    let mut goes_on = false;
    let mut after = reading.walk(&mut |at, view| {
        if before.is_some() {
            // The continuation message after a compaction belongs to it.
            if goes_on || !continues(at) {
                return ControlFlow::Break(());
            }
            goes_on = true;
        } else if at.seq == entry && matches!(at.kind, EntryKind::Compaction(_)) {
            before = Some(view.live().cloned().collect());
        }
        ControlFlow::Continue(())
    })?;
    let before =
        before.ok_or_else(|| Failure::error(format!("entry {entry} of this session is not a compaction")))?;
    Ok(CompactionEffect::between(before.iter(), &mut after).loss)
}

fn continues(entry: &Entry) -> bool {
    matches!(&entry.kind, EntryKind::Message { message } if message.metadata.compaction_continue)
}

/// Ensures that `made` holds exactly these requests, in the order in which they were sent.
fn make(
    made: &mut Vec<(usize, RebuiltRequest)>,
    maker: &RequestRebuilder<'_>,
    wanted: &[&RecordedRequest<'_>],
) -> Result<(), Failure> {
    let numbers = || wanted.iter().map(|sent| sent.number);
    if !made.iter().map(|(number, _)| *number).eq(numbers()) {
        // The old requests are dropped before the new ones are built, because each may be large.
        made.clear();
        *made = numbers().zip(maker.rebuild(wanted)?).collect();
    }
    Ok(())
}

fn request_gone() -> Failure {
    Failure::error("this span no longer exists: the context has changed")
}

/// Returns the requests, newest first, after one row for the request that would be sent now.
fn requests(reading: &mut LoadedSession) -> Vec<SentRow> {
    let tokens = current_spans(reading).iter().map(|placed| placed.span.tokens.0).sum();
    let missed = figures::cache_misses(&reading.entries);
    let next = SentRow {
        tokens: Some(tokens),
        notes: vec!["what the model would see now (estimated)".to_owned()],
        ..SentRow::default()
    };
    let sent = |sent: &RecordedRequest<'_>| {
        let mut notes: Vec<String> = Vec::new();
        if sent.record.purpose != "turn" {
            notes.push(format!("for a {}", sent.record.purpose));
        }
        if sent.number > 1 {
            notes.extend(sent.boundary.iter().map(|what| (*what).to_owned()));
        }
        let why = sent.reported.and_then(|seq| missed.get(&seq.0)).filter(|_| notes.is_empty());
        notes.extend(why.map(|why| format!("not from the cache: {why}")));
        SentRow {
            request: InspectedRequest::numbered(sent.number),
            time: when(sent.entry.time),
            tokens: sent.usage.map(|usage| usage.context().0),
            cached: sent.usage.map(|usage| usage.cache_read),
            notes,
        }
    };
    std::iter::once(next).chain(recorded_requests(&reading.entries).iter().rev().map(sent)).collect()
}

fn spans(
    sent: &RecordedRequest<'_>,
    made: &RebuiltRequest,
    earlier: Option<&(usize, RebuiltRequest)>,
) -> Inspected {
    let same = shared_prefix_len(made, earlier);
    let states = cache_states(made, sent.usage);
    let rows = made.spans.iter().zip(states);
    let rows = rows.map(|(placed, cache)| row(placed, cache_name(cache), is_same(placed, same))).collect();
    let proof = if made.proven { "as recorded" } else { "NOT as recorded" };
    let cached =
        |usage: Usage| format!(", {} of {} cached", short(usage.cache_read), short(usage.context().0));
    let cached = sent.usage.map_or_else(String::new, cached);
    let head =
        format!("request {}: {} bytes {proof}{cached} · {}", sent.number, made.body.len(), sent.record.model);
    Inspected::Spans { head, rows }
}

fn cache_name(cache: CacheState) -> &'static str {
    if cache == CacheState::Unknown { "" } else { cache.name() }
}

fn row(placed: &PlacedSpan, cache: &str, sent_before: Option<bool>) -> SpanRow {
    let span = &placed.span;
    SpanRow {
        seq: span.seq.map(|seq| seq.0),
        kind: name(span.kind),
        label: one_line(&span.label, 60),
        source: placed.source.as_ref().map(|source| one_line(source, 100)),
        tokens: span.tokens.0,
        cache: cache.to_owned(),
        sent_before,
        bytes: placed.bytes.as_ref().map(|range| (range.start, range.end)),
        applied: span.applied.clone(),
        preview: one_line(&placed.text, 200),
        hidden: is_hidden(span.kind),
    }
}

/// True if the user sees such a span nowhere else.
fn is_hidden(kind: SpanKind) -> bool {
    match kind {
        SpanKind::System
        | SpanKind::Rules
        | SpanKind::Tools
        | SpanKind::Summary
        | SpanKind::State
        | SpanKind::Continuation
        | SpanKind::Reminder => true,
        SpanKind::User
        | SpanKind::Assistant
        | SpanKind::Reasoning
        | SpanKind::ToolCall
        | SpanKind::ToolOutput
        | SpanKind::Media => false,
    }
}

fn title(placed: &PlacedSpan) -> String {
    format!("{} {}", name(placed.span.kind), one_line(&placed.span.label, 60))
}

/// Returns the text of a span that was not sent yet.
fn unsent_text(placed: &PlacedSpan) -> String {
    if placed.text.is_empty() {
        return "(no text: an image, a file, or a part that only its model can read)\n".to_owned();
    }
    placed.text.clone()
}

/// Returns the span's bytes as they were sent. For a part of a message, returns the bytes of the message.
fn bytes(sent: &RecordedRequest<'_>, made: &RebuiltRequest, span: usize) -> Result<Inspected, Failure> {
    let placed = made.spans.get(span).ok_or_else(request_gone)?;
    let Some(range) = placed.bytes.clone() else {
        let text = format!("(its position in the bytes is unknown; its text:)\n{}", unsent_text(placed));
        return Ok(Inspected::Text { title: title(placed), text });
    };
    let all = made.body.get(range.clone()).ok_or_else(request_gone)?;
    let shown = &all[..all.len().min(MAX_SPAN_BYTES)];
    let mut text = String::from_utf8_lossy(shown).into_owned();
    if shown.len() < all.len() {
        let rest = all.len() - shown.len();
        let _ = write!(text, "\n… {rest} bytes more: becket context --request {}", sent.number);
    }
    let title = format!("{}, bytes {}-{} of request {}", title(placed), range.start, range.end, sent.number);
    Ok(Inspected::Text { title, text })
}

fn diff(
    sent: &RecordedRequest<'_>,
    made: &RebuiltRequest,
    earlier: Option<&(usize, RebuiltRequest)>,
) -> Result<Inspected, Failure> {
    let mut out = Vec::new();
    crate::cmd::context::diff(made, earlier, &mut out)?;
    let text = String::from_utf8_lossy(&out).trim_start().to_owned();
    Ok(Inspected::Text { title: format!("request {} compared with the previous one", sent.number), text })
}
