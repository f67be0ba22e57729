//! Figures of a session for people: sizes by tool and by file, sizes over time, why a cache did not serve.
//!
//! Pure: entries and spans in, lines out.

use crate::cmd::short;
use becket_types::{CallId, Entry, EntryKind, Part, PruneReason, Span, SpanKind};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Rows of a table.
const ROWS: usize = 12;
/// Columns of a page that the plot's axis and the page's own edge take.
const AXIS: usize = 12;
/// Columns and rows of the plot.
const WIDTH: usize = 60;
const HEIGHT: usize = 6;
/// A pause after which providers have forgotten, in milliseconds.
const FORGOTTEN: u64 = 5 * 60 * 1_000;

/// Tokens of what stands in the context by tool, and by the file that was read or written, largest first.
pub(super) fn by_tool_and_file(spans: &[Span], paths: &Paths) -> String {
    let (mut tools, mut files) = (BTreeMap::new(), BTreeMap::new());
    for span in spans.iter().filter(|s| matches!(s.kind, SpanKind::ToolCall | SpanKind::ToolOutput)) {
        *tools.entry(span.label.clone()).or_default() += span.tokens.0;
        if let Some(path) = span.seq.and_then(|seq| paths.of.get(&seq.0)) {
            *files.entry(path.clone()).or_default() += span.tokens.0;
        }
    }
    let mut out = String::new();
    for (title, sums) in [("by tool", tools), ("by file", files)] {
        let mut rows: Vec<(String, u64)> = sums.into_iter().collect();
        rows.sort_by_key(|(_, tokens)| std::cmp::Reverse(*tokens));
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n{title}");
        for (name, tokens) in rows.iter().take(ROWS) {
            let _ = writeln!(out, "{:>8}  {name}", short(*tokens));
        }
        if rows.len() > ROWS {
            let _ = writeln!(out, "          … and {} more", rows.len() - ROWS);
        }
    }
    out
}

/// The file of each message with a result, by the message's number: what the call of it named.
#[derive(Default)]
pub(super) struct Paths {
    calls: BTreeMap<CallId, String>,
    of: BTreeMap<u64, String>,
}

impl Paths {
    /// Takes in the next entry of the ledger.
    pub(super) fn take(&mut self, entry: &Entry) {
        let EntryKind::Message { message } = &entry.kind else { return };
        for part in &message.parts {
            match part {
                Part::ToolCall { call_id, input, .. } => {
                    if let Some(path) = input.get("path").and_then(|p| p.as_str()) {
                        self.calls.insert(call_id.clone(), path.to_owned());
                    }
                }
                Part::ToolResult { call_id, .. } => {
                    if let Some(path) = self.calls.get(call_id) {
                        self.of.insert(entry.seq.0, path.clone());
                    }
                }
                _ => {}
            }
        }
    }
}

/// How large each request was, from the first to the last, as a plot on a page of so many columns.
pub(super) fn over_time(entries: &[Entry], page: usize) -> String {
    let sizes: Vec<u64> = entries
        .iter()
        .filter_map(|e| match &e.kind {
            EntryKind::Usage { usage, purpose, .. } if purpose == "turn" => Some(usage.context().0),
            _ => None,
        })
        .collect();
    let Some(most) = sizes.iter().max().copied().filter(|most| *most > 0) else { return String::new() };
    let columns = sizes.len().min(WIDTH).min(page.saturating_sub(AXIS)).max(1);
    // The largest of the requests that share a column.
    let column = |x: usize| {
        let (from, to) =
            (x * sizes.len() / columns, ((x + 1) * sizes.len() / columns).max(x * sizes.len() / columns + 1));
        sizes[from..to.min(sizes.len())].iter().max().copied().unwrap_or_default()
    };
    let mut out = format!("\ncontext of {} requests, at most {}\n", sizes.len(), short(most));
    for row in (0..HEIGHT).rev() {
        let line: String = (0..columns)
            .map(|x| {
                let eighths = (column(x) * (HEIGHT as u64) * 8).div_ceil(most) as usize;
                match eighths.saturating_sub(row * 8) {
                    0 => ' ',
                    n => ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][n.min(8) - 1],
                }
            })
            .collect();
        let _ = writeln!(
            out,
            "{:>8} │{}",
            if row + 1 == HEIGHT { short(most) } else { String::new() },
            line.trim_end()
        );
    }
    out
}

/// A row for each request, and their sums. A line of its own says which model, where it changes, and why the cache did not serve.
pub(super) fn requests(entries: &[Entry]) -> String {
    let missed = missed(entries);
    let mut out = format!(
        "{:>6}  {:<10} {:>7}  {:>7}  {:>8}  {:>6}  {:>8}\n",
        "seq", "for", "read", "cached", "uncached", "wrote", "$"
    );
    let mut running = "";
    let (mut sum, mut requests, mut read, mut cached, mut wrote) = (0.0, 0, 0, 0, 0);
    for entry in entries {
        let EntryKind::Usage { model, usage, cost_usd, purpose, .. } = &entry.kind else { continue };
        if running != model {
            let _ = writeln!(out, "{model}");
            running = model;
        }
        let context = usage.context().0;
        (sum, requests, read) = (sum + cost_usd, requests + 1, read + context);
        (cached, wrote) = (cached + usage.cache_read, wrote + usage.output);
        let _ = writeln!(
            out,
            "{:>6}  {purpose:<10} {:>7}  {:>7}  {:>8}  {:>6}  {cost_usd:>8.4}",
            entry.seq,
            short(context),
            short(usage.cache_read),
            short(context - usage.cache_read),
            short(usage.output),
        );
        if let Some(why) = missed.get(&entry.seq.0) {
            let _ = writeln!(out, "        ↑ not from the cache: {why}");
        }
    }
    let share = if read == 0 { 0.0 } else { 100.0 * cached as f64 / read as f64 };
    let _ = writeln!(
        out,
        "\n{requests} requests read {} ({share:.0} % from the cache) and wrote {}: ${sum:.4} at list prices",
        short(read),
        short(wrote),
    );
    out
}

/// For each request, by the number of its entry: why less came from the cache than the request before it had.
pub(super) fn missed(entries: &[Entry]) -> BTreeMap<u64, String> {
    let mut out = BTreeMap::new();
    let mut before: Option<(u64, u64)> = None;
    let mut since: Vec<&str> = Vec::new();
    for entry in entries {
        match &entry.kind {
            EntryKind::ModelSwitch { .. } => since.push("another model"),
            EntryKind::Compaction(_) => since.push("compacted"),
            EntryKind::Prune { reason, .. } if *reason != PruneReason::StepLimit => {
                since.push("old outputs folded");
            }
            EntryKind::Revert { .. } => since.push("went back"),
            EntryKind::Tools { .. } => since.push("other tools"),
            EntryKind::Usage { usage, purpose, .. } if purpose == "turn" => {
                let context = usage.context().0;
                if let Some((size, time)) = before
                    && usage.cache_read + usage.cache_read / 10 < size
                {
                    if entry.time.0.saturating_sub(time) > FORGOTTEN {
                        since.push("a pause of more than 5 minutes");
                    }
                    let why = if since.is_empty() {
                        "the provider did not say".to_owned()
                    } else {
                        since.join(", ")
                    };
                    out.insert(entry.seq.0, why);
                } else if before.is_none() && usage.cache_read == 0 {
                    out.insert(entry.seq.0, "the first request".to_owned());
                }
                before = Some((context, entry.time.0));
                since.clear();
            }
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_types::{Millis, Seq, Usage};

    fn entry(seq: u64, minute: u64, kind: EntryKind) -> Entry {
        Entry { seq: Seq(seq), time: Millis(minute * 60_000), kind }
    }

    fn usage(model: &str, input: u64, cache_read: u64, cost_usd: f64) -> EntryKind {
        let usage = Usage { input, cache_read, output: 120, ..Usage::default() };
        EntryKind::Usage { message: None, model: model.into(), usage, cost_usd, purpose: "turn".into() }
    }

    #[test]
    fn requests_fit_into_eighty_columns_and_say_why_the_cache_missed() {
        let model = "anthropic/claude-sonnet-4-5";
        let entries = [
            entry(12, 0, usage(model, 8_100, 0, 0.029)),
            entry(19, 1, usage(model, 900, 8_100, 0.0075)),
            entry(44, 9, usage(model, 9_900, 0, 0.043)),
            entry(45, 9, EntryKind::ModelSwitch { model: "openai/gpt".into() }),
            entry(123_456, 10, usage("openai/gpt", 1_250_000, 0, 12.5)),
            entry(123_460, 10, usage("openai/gpt", 1_250_000, 0, 12.5)),
        ];
        let want = "   seq  for           read   cached  uncached   wrote         $
anthropic/claude-sonnet-4-5
    12  turn          8.1k        0      8.1k     120    0.0290
        ↑ not from the cache: the first request
    19  turn          9.0k     8.1k       900     120    0.0075
    44  turn          9.9k        0      9.9k     120    0.0430
        ↑ not from the cache: a pause of more than 5 minutes
openai/gpt
123456  turn          1.2M        0      1.2M     120   12.5000
        ↑ not from the cache: another model
123460  turn          1.2M        0      1.2M     120   12.5000
        ↑ not from the cache: the provider did not say

5 requests read 2.5M (0 % from the cache) and wrote 600: $25.0795 at list prices
";
        let text = requests(&entries);
        assert_eq!(text, want);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn a_plot_has_its_largest_request_on_top() {
        let entries: Vec<Entry> = (1..=200).map(|n| entry(n, n, usage("m", n * 100, 0, 0.0))).collect();
        let text = over_time(&entries, 80);
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert!(text.contains("context of 200 requests, at most 20k"), "{text}");
        assert_eq!(rows.len(), HEIGHT);
        assert!(rows[0].starts_with("     20k │") && rows[0].ends_with('█'), "{text}");
        let widths: Vec<usize> = rows.iter().map(|row| row.trim_end().chars().count()).collect();
        assert!(
            widths.iter().all(|w| *w == 10 + WIDTH),
            "the last column is as high as the plot: {widths:?}"
        );
        assert!(rows[HEIGHT - 1].chars().nth(10) != Some(' '), "the first column is not empty: {text}");
        assert_eq!(over_time(&[], 80), "");
        let narrow = over_time(&entries, 40);
        assert!(narrow.lines().all(|line| line.chars().count() <= 38), "{narrow}");
        assert!(over_time(&entries, 0).lines().count() > HEIGHT, "a page of any width");
    }
}
