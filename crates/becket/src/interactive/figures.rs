//! Figures of a session: sizes by tool and by file, sizes over time, and reasons for cache misses.
//!
//! Pure: entries and spans in, figures out.

use becket_types::{CallId, Entry, EntryKind, Part, PruneReason, Seq, Span, SpanKind, Usage};
use std::collections::BTreeMap;

/// Pause in milliseconds after which the provider's cache is assumed to have expired.
const FORGOTTEN: u64 = 5 * 60 * 1_000;

/// Returns the tokens of the context by tool, and by the file that was read or written.
pub(crate) fn by_tool_and_file(
    spans: &[Span],
    paths: &FilePaths,
) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
    let (mut tools, mut files) = (BTreeMap::new(), BTreeMap::new());
    for span in spans.iter().filter(|s| matches!(s.kind, SpanKind::ToolCall | SpanKind::ToolOutput)) {
        *tools.entry(span.label.clone()).or_default() += span.tokens.0;
        if let Some(path) = span.seq.and_then(|seq| paths.by_entry.get(&seq.0)) {
            *files.entry(path.clone()).or_default() += span.tokens.0;
        }
    }
    (tools, files)
}

/// The file of each tool result, by the message's number, as its call named it.
#[derive(Default)]
pub(crate) struct FilePaths {
    calls: BTreeMap<CallId, String>,
    by_entry: BTreeMap<u64, String>,
}

impl FilePaths {
    /// Takes the next entry of the ledger.
    pub(crate) fn take(&mut self, entry: &Entry) {
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
                        self.by_entry.insert(entry.seq.0, path.clone());
                    }
                }
                _ => {}
            }
        }
    }
}

/// Returns the tokens of each request of a turn, from the first to the last.
pub(crate) fn sizes(entries: &[Entry]) -> Vec<u64> {
    let size = |entry: &Entry| match &entry.kind {
        EntryKind::Usage { usage, purpose, .. } if purpose == "turn" => Some(usage.context().0),
        _ => None,
    };
    entries.iter().filter_map(size).collect()
}

/// The remark on a cost of 0: requests are recorded without a price if none is known.
pub(crate) const UNPRICED: &str = "no list price is known, or it is 0";

/// Sum of the usage of several requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sum {
    pub requests: usize,
    /// Tokens of the whole input, including cached ones.
    pub read: u64,
    /// Tokens of `read` that came from the provider's cache.
    pub cached: u64,
    /// Tokens of `read` that were written to the provider's cache.
    pub cache_write: u64,
    /// Tokens of the answers.
    pub wrote: u64,
    /// In US dollars.
    pub cost: f64,
    /// Number of requests whose tokens are estimated, because the provider reported none.
    pub estimated: usize,
}

impl Sum {
    /// Adds another sum.
    pub(crate) fn join(&mut self, other: &Self) {
        self.requests += other.requests;
        self.read += other.read;
        self.cached += other.cached;
        self.cache_write += other.cache_write;
        self.wrote += other.wrote;
        self.cost += other.cost;
        self.estimated += other.estimated;
    }

    fn add(&mut self, usage: &Usage, cost: f64) {
        self.requests += 1;
        self.read += usage.context().0;
        self.cached += usage.cache_read;
        self.cache_write += usage.cache_write;
        self.wrote += usage.output;
        self.cost += cost;
        self.estimated += usize::from(usage.estimated);
    }

    /// Returns a remark for people, if tokens are estimated.
    pub(crate) fn estimated(&self) -> Option<String> {
        (self.estimated > 0).then(|| {
            let which = if self.estimated == self.requests {
                String::new()
            } else {
                format!(" for {} of {} requests", self.estimated, self.requests)
            };
            format!("estimated{which}: the provider reported no usage")
        })
    }
}

/// A request. Its figures have the units of [`Sum`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UsageRow<'a> {
    pub seq: Seq,
    pub model: &'a str,
    pub purpose: &'a str,
    pub read: u64,
    pub cached: u64,
    pub wrote: u64,
    pub cost: f64,
    /// Reason why the cache served less than the previous request had stored.
    pub missed: Option<String>,
}

/// All requests, and their sums.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Usages<'a> {
    pub rows: Vec<UsageRow<'a>>,
    pub sum: Sum,
    pub models: BTreeMap<String, Sum>,
    pub purposes: BTreeMap<String, Sum>,
}

impl<'a> Usages<'a> {
    pub(crate) fn from_entries(entries: &'a [Entry]) -> Self {
        let mut missed = cache_misses(entries);
        let mut out = Self::default();
        for entry in entries {
            let EntryKind::Usage { model, usage, cost_usd, purpose, .. } = &entry.kind else { continue };
            out.sum.add(usage, *cost_usd);
            out.models.entry(model.clone()).or_default().add(usage, *cost_usd);
            out.purposes.entry(purpose.clone()).or_default().add(usage, *cost_usd);
            out.rows.push(UsageRow {
                seq: entry.seq,
                model,
                purpose,
                read: usage.context().0,
                cached: usage.cache_read,
                wrote: usage.output,
                cost: *cost_usd,
                missed: missed.remove(&entry.seq.0),
            });
        }
        out
    }
}

/// Returns for each request, by its entry number, the reason why the cache served less than the previous request had
/// stored.
pub(crate) fn cache_misses(entries: &[Entry]) -> BTreeMap<u64, String> {
    let mut out = BTreeMap::new();
    let mut before: Option<(u64, u64)> = None;
    let mut since: Vec<&str> = Vec::new();
    for entry in entries {
        match &entry.kind {
            EntryKind::ModelSwitch { .. } => since.push("another model"),
            EntryKind::Compaction(_) => since.push("compacted"),
            EntryKind::Prune { reason, .. } if *reason != PruneReason::StepLimit => {
                since.push("old outputs pruned");
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
    use becket_types::Millis;

    fn entry(seq: u64, minute: u64, kind: EntryKind) -> Entry {
        Entry { seq: Seq(seq), time: Millis(minute * 60_000), kind }
    }

    fn usage(model: &str, input: u64, cache_read: u64, cost_usd: f64) -> EntryKind {
        let usage = Usage { input, cache_read, output: 120, ..Usage::default() };
        EntryKind::Usage { message: None, model: model.into(), usage, cost_usd, purpose: "turn".into() }
    }

    #[test]
    fn requests_say_what_they_cost_and_why_the_cache_missed() {
        let model = "anthropic/claude-sonnet-4-5";
        let entries = [
            entry(12, 0, usage(model, 8_100, 0, 0.029)),
            entry(19, 1, usage(model, 900, 8_100, 0.0075)),
            entry(44, 9, usage(model, 9_900, 0, 0.043)),
            entry(45, 9, EntryKind::ModelSwitch { model: "openai/gpt".into() }),
            entry(123_456, 10, usage("openai/gpt", 1_250_000, 0, 12.5)),
            entry(123_460, 10, usage("openai/gpt", 1_250_000, 0, 12.5)),
        ];
        let usages = Usages::from_entries(&entries);
        let missed: Vec<Option<&str>> = usages.rows.iter().map(|row| row.missed.as_deref()).collect();
        assert_eq!(
            missed,
            [
                Some("the first request"),
                None,
                Some("a pause of more than 5 minutes"),
                Some("another model"),
                Some("the provider did not say"),
            ]
        );
        assert_eq!((usages.sum.requests, usages.sum.cached, usages.sum.wrote), (5, 8_100, 600));
        assert!((usages.sum.cost - 25.0795).abs() < 1e-9);
        assert_eq!(usages.models["openai/gpt"].read, 2_500_000);
        assert_eq!(usages.purposes["turn"].requests, 5);
        assert_eq!(sizes(&entries), [8_100, 9_000, 9_900, 1_250_000, 1_250_000]);
        assert_eq!(Usages::from_entries(&[]), Usages::default());
    }
}
