//! Requests as text and JSON: the list, the bytes, the spans, the differences to the previous request.

use super::name;
use super::sent::{PlacedSpan, RebuiltRequest, RecordedRequest, RequestRebuilder, recorded_requests};
use crate::args::ContextArgs;
use crate::cmd::{one_line, short, when, write};
use crate::failure::{Failure, unwritten};
use becket_session::context::view::CacheState;
use becket_types::{Entry, Tokens, Usage, quoted};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write;
use std::num::NonZeroUsize;

/// Prints `becket context --requests`.
pub(super) fn list(entries: &[Entry], as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let sent = recorded_requests(entries);
    if as_json {
        let rows: Vec<Value> = sent.iter().map(row).collect();
        return write(out, &format!("{}\n", Value::Array(rows)));
    }
    if sent.is_empty() {
        return write(out, "This session has no record of a request.\n");
    }
    write(out, "    N    seq  time              purpose    bytes  tokens  cached  model\n")?;
    for s in &sent {
        let usage = |of: fn(&Usage) -> u64| s.usage.as_ref().map_or_else(|| "-".to_owned(), |u| short(of(u)));
        let boundary = match s.boundary.as_slice() {
            _ if s.number == 1 => String::new(),
            [] => String::new(),
            list => format!("  [new: {}]", list.join(", ")),
        };
        let line = format!(
            "{:>5}  {:>5}  {:<16}  {:<7}  {:>7}  {:>6}  {:>6}  {}{boundary}\n",
            s.number,
            s.entry.seq,
            when(s.entry.time),
            s.record.purpose,
            short(s.record.bytes),
            usage(|u| u.context().0),
            usage(|u| u.cache_read),
            s.record.model,
        );
        write(out, &line)?;
    }
    Ok(())
}

fn row(s: &RecordedRequest<'_>) -> Value {
    json!({
        "request": s.number, "seq": s.entry.seq, "time": s.entry.time, "purpose": s.record.purpose,
        "model": s.record.model, "bytes": s.record.bytes, "sha256": s.record.sha256,
        "max_output": s.record.max_output, "effort": s.record.effort, "boundary": s.boundary, "usage": s.usage,
    })
}

/// Prints `becket context --request N`.
pub(super) fn request(
    maker: &RequestRebuilder<'_>,
    entries: &[Entry],
    number: &str,
    args: &ContextArgs,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let sent = recorded_requests(entries);
    let wanted = find_request(&sent, number)?;
    let earlier = previous_request(&sent, wanted).filter(|_| args.sent.spans || args.sent.diff || args.json);
    let both: Vec<&RecordedRequest<'_>> = earlier.into_iter().chain([wanted]).collect();
    let mut numbered: Vec<(usize, RebuiltRequest)> =
        both.iter().map(|sent| sent.number).zip(maker.rebuild(&both)?).collect();
    let made = numbered.split_off(both.len() - 1);
    let (before, made) = (numbered.pop(), &made[0].1);
    if args.json {
        write(out, &format!("{}\n", request_json(wanted, made, before.as_ref())))?;
    } else if args.sent.spans || args.sent.diff {
        head(wanted, made, out)?;
        if args.sent.spans {
            spans(wanted, made, before.as_ref(), out)?;
        }
        if args.sent.diff {
            diff(made, before.as_ref(), out)?;
        }
    } else {
        out.write_all(&made.body).map_err(|error| unwritten(&error))?;
    }
    if made.proven {
        return Ok(());
    }
    Err(Failure::error(format!(
        "request {} cannot be proven: these bytes do not have the recorded hash (another version of becket wrote it, or \
         its script or blobs are missing)",
        wanted.number
    )))
}

/// Returns the request that the command line names: by its number, or the last one for `last`.
fn find_request<'a, 'b>(
    sent: &'a [RecordedRequest<'b>],
    name: &str,
) -> Result<&'a RecordedRequest<'b>, Failure> {
    match (name, name.parse()) {
        ("last", _) => sent.last().ok_or_else(|| no_request(sent.len(), name)),
        (_, Ok(number)) => request_of(sent, number),
        (_, Err(_)) => Err(no_request(sent.len(), name)),
    }
}

/// Returns the request with this number, counted from 1.
pub(crate) fn request_of<'a, 'b>(
    sent: &'a [RecordedRequest<'b>],
    number: NonZeroUsize,
) -> Result<&'a RecordedRequest<'b>, Failure> {
    sent.get(number.get() - 1).ok_or_else(|| no_request(sent.len(), &number.to_string()))
}

fn no_request(count: usize, name: &str) -> Failure {
    let what = match count {
        0 => "this session has no record of a request".to_owned(),
        n => format!("there is no request {name}: they are numbered 1 to {n}", name = quoted(&name)),
    };
    Failure::usage(what).hint("becket context SESSION --requests lists them")
}

/// Returns the previous request with the same purpose.
pub(crate) fn previous_request<'a, 'b>(
    sent: &'a [RecordedRequest<'b>],
    wanted: &RecordedRequest<'_>,
) -> Option<&'a RecordedRequest<'b>> {
    sent[..wanted.number - 1].iter().rev().find(|s| s.record.purpose == wanted.record.purpose)
}

fn head(sent: &RecordedRequest<'_>, made: &RebuiltRequest, out: &mut dyn Write) -> Result<(), Failure> {
    let proof = if made.proven { "as recorded" } else { "NOT as recorded" };
    let usage = sent.usage.map_or_else(String::new, |u| {
        format!(
            "\nreported: {} tokens in ({} from the cache, {} written to it, {} fresh), {} out",
            short(u.context().0),
            short(u.cache_read),
            short(u.cache_write),
            short(u.input),
            short(u.output)
        )
    });
    let text = format!(
        "request {} to {} (for: {}), entry {}, {}\n{} bytes, SHA-256 {} ({proof}){usage}\n",
        sent.number,
        sent.record.model,
        sent.record.purpose,
        sent.entry.seq,
        when(sent.entry.time),
        made.body.len(),
        sent.record.sha256,
    );
    write(out, &text)
}

/// Returns the number of bytes that the two bodies share at their start.
pub(crate) fn shared_prefix_len(made: &RebuiltRequest, before: Option<&(usize, RebuiltRequest)>) -> usize {
    before.map_or(0, |(_, b)| made.body.iter().zip(&b.body).take_while(|(a, b)| a == b).count())
}

/// True if the previous request had the span's bytes at the same position; `None` if the position is unknown.
pub(crate) fn is_same(placed: &PlacedSpan, shared: usize) -> Option<bool> {
    placed.bytes.as_ref().map(|range| range.end <= shared)
}

/// Returns the state of each span in the provider's cache.
pub(crate) fn cache_states(made: &RebuiltRequest, usage: Option<Usage>) -> Vec<CacheState> {
    let sizes: Vec<Tokens> = made.spans.iter().map(|placed| placed.span.tokens).collect();
    becket_session::context::view::cache_states(&sizes, usage)
}

fn spans(
    sent: &RecordedRequest<'_>,
    made: &RebuiltRequest,
    before: Option<&(usize, RebuiltRequest)>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let shared = shared_prefix_len(made, before);
    write(out, "\n  bytes from-to      tokens    seq  sent     cache    what\n")?;
    for (placed, cache) in made.spans.iter().zip(cache_states(made, sent.usage)) {
        let span = &placed.span;
        let range =
            placed.bytes.as_ref().map_or_else(|| "-".to_owned(), |r| format!("{}-{}", r.start, r.end));
        let seq = span.seq.map_or_else(|| "-".to_owned(), |s| s.to_string());
        let cache = cache.name();
        let news = if is_same(placed, shared) == Some(true) { "before" } else { "new" };
        let source = placed.source.as_ref().map_or_else(String::new, |s| format!(" <{}>", one_line(s, 60)));
        let applied =
            if span.applied.is_empty() { String::new() } else { format!(" [{}]", span.applied.join(", ")) };
        let line = format!(
            "{range:>17}  {:>8}  {seq:>5}  {news:<7}  {cache:<7}  {} {}{source}{applied}: {}\n",
            short(span.tokens.0),
            name(span.kind),
            one_line(&span.label, 40),
            one_line(&placed.text, 60),
        );
        write(out, &line)?;
    }
    Ok(())
}

/// Returns the spans of `these` that are not in `others`, compared by message, kind, label and text.
fn only_in<'a>(these: &'a [PlacedSpan], others: &[PlacedSpan]) -> Vec<&'a PlacedSpan> {
    let key = |p: &PlacedSpan| (p.span.seq, p.span.kind, p.span.label.clone(), p.text.clone());
    let known: std::collections::HashSet<_> = others.iter().map(key).collect();
    these.iter().filter(|p| !known.contains(&key(p))).collect()
}

pub(crate) fn diff(
    made: &RebuiltRequest,
    before: Option<&(usize, RebuiltRequest)>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let Some((number, earlier)) = before else {
        return write(out, "\nThere is no request before it.\n");
    };
    let shared = shared_prefix_len(made, before);
    let text = format!(
        "\nThe first {shared} bytes are those of request {number} ({} of its {} bytes).\n",
        percent(shared, earlier.body.len()),
        earlier.body.len()
    );
    write(out, &text)?;
    write(out, &changes(&made.spans, &earlier.spans))
}

/// Lists removed and added spans, one line each.
pub(crate) fn changes(these: &[PlacedSpan], earlier: &[PlacedSpan]) -> String {
    let mut out = String::new();
    for (sign, list) in [('-', only_in(earlier, these)), ('+', only_in(these, earlier))] {
        for placed in list {
            let seq = placed.span.seq.map_or_else(|| "-".to_owned(), |s| s.to_string());
            let _ = writeln!(
                out,
                "{sign} {seq:>5}  {:>6}  {} {}: {}",
                short(placed.span.tokens.0),
                name(placed.span.kind),
                one_line(&placed.span.label, 40),
                one_line(&placed.text, 80)
            );
        }
    }
    out
}

fn percent(part: usize, whole: usize) -> String {
    if whole == 0 { "0 %".to_owned() } else { format!("{:.1} %", 100.0 * part as f64 / whole as f64) }
}

fn request_json(
    sent: &RecordedRequest<'_>,
    made: &RebuiltRequest,
    before: Option<&(usize, RebuiltRequest)>,
) -> Value {
    let shared = shared_prefix_len(made, before);
    let mut value = row(sent);
    value["proven"] = json!(made.proven);
    value["body"] = json!(String::from_utf8_lossy(&made.body));
    value["spans"] = made
        .spans
        .iter()
        .zip(cache_states(made, sent.usage))
        .map(|(placed, cache)| {
            let mut row = serde_json::to_value(&placed.span).unwrap_or_default();
            row["from"] = json!(placed.bytes.as_ref().map(|r| r.start));
            row["to"] = json!(placed.bytes.as_ref().map(|r| r.end));
            row["source"] = json!(placed.source);
            row["cache"] = json!(cache.name());
            row["sent_before"] = json!(is_same(placed, shared));
            row["preview"] = json!(one_line(&placed.text, 200));
            row
        })
        .collect();
    value["diff"] = before.map_or(Value::Null, |(number, earlier)| {
        let seqs = |list: Vec<&PlacedSpan>| -> Vec<Value> {
            list.iter()
                .map(|p| json!({ "seq": p.span.seq, "kind": p.span.kind, "label": p.span.label, "tokens": p.span.tokens }))
                .collect()
        };
        json!({
            "request": number, "same_bytes": shared, "of_bytes": earlier.body.len(),
            "added": seqs(only_in(&made.spans, &earlier.spans)),
            "removed": seqs(only_in(&earlier.spans, &made.spans)),
        })
    });
    value
}
