//! Contents of the model's context, for a page: the composition of each request, and at the end every span with its
//! origin.
//!
//! Shows sizes, origins and the provider's cache. Texts that are not for people are not shown. Sizes are
//! estimates.

use super::html::{text, thousands};
use super::is_shown;
use becket_session::blobs::BlobStore;
use becket_session::context::view::{CacheState, KindTotals, cache_states};
use becket_session::context::{ModelScope, Policy, View};
use becket_types::{
    BlobId, Blobs as _, Context, ContextMessage, Entry, EntryKind, Origin, Part, Seq, Span, SpanKind,
    Synthetic, Tokens, ToolSpec, Usage,
};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

/// Groups of the plot, from bottom to top. The colours are in `page.css`.
const GROUPS: [&str; 6] =
    ["system, rules, tools", "summary, state, notes", "user", "assistant", "tool calls, outputs", "media"];
/// Maximum number of columns in the plot. With more requests, consecutive ones share a column, which shows the last of them.
const COLUMNS: usize = 400;

/// The view up to the entry that was read last, and the composition of the context at each request.
pub(super) struct Provenance {
    view: View,
    kinds: KindTotals,
    tools: Option<BlobId>,
    points: Vec<Point>,
    /// The newest request of the conversation itself, not of a summary or a title.
    last: Option<Last>,
}

struct Last {
    generation: u64,
    /// Number of messages in the request.
    messages: usize,
    usage: Option<Usage>,
}

struct Point {
    seq: Seq,
    kinds: BTreeMap<SpanKind, Tokens>,
    tools: Option<BlobId>,
}

impl Default for Provenance {
    fn default() -> Self {
        Self {
            view: View::new(Policy::reading(), scope("unknown/unknown")),
            kinds: KindTotals::default(),
            tools: None,
            points: Vec::new(),
            last: None,
        }
    }
}

fn scope(model: &str) -> ModelScope {
    let (provider, model) = model.split_once('/').unwrap_or(("unknown", model));
    ModelScope {
        provider: provider.to_owned(),
        model: model.to_owned(),
        images: true,
        max_images: usize::MAX,
        max_media_bytes: u64::MAX,
    }
}

impl Provenance {
    pub(super) fn take(&mut self, entry: &Entry) {
        self.view.apply(entry);
        match &entry.kind {
            EntryKind::Tools { specs, .. } => self.tools.clone_from(specs),
            EntryKind::System { .. } => self.kinds = KindTotals::default(),
            EntryKind::Request(request) if request.purpose == "turn" => {
                self.view.set_scope(scope(&request.model));
                let context = self.view.context();
                let (generation, messages) = (context.generation, context.messages.len());
                self.last = Some(Last { generation, messages, usage: None });
                let kinds = self.kinds.update(&self.view, &[]).clone();
                self.points.push(Point { seq: entry.seq, kinds, tools: self.tools.clone() });
            }
            EntryKind::Usage { usage, purpose, .. } if purpose == "turn" => {
                if let Some(last) = &mut self.last {
                    last.usage.get_or_insert(*usage);
                }
            }
            _ => {}
        }
    }

    /// Draws the size of each group at each request, stacked. `compactions` are drawn as lines.
    pub(super) fn plot(&self, compactions: &[Seq], blobs: &BlobStore) -> String {
        const W: f64 = 800.0;
        const H: f64 = 200.0;
        const LEFT: f64 = 44.0;
        const TOP: f64 = 14.0;
        let mut known: HashMap<&BlobId, u64> = HashMap::new();
        let points: Vec<(Seq, [u64; GROUPS.len()])> =
            sampled(&self.points).map(|point| (point.seq, groups(point, blobs, &mut known))).collect();
        let most = points.iter().map(|(_, sizes)| sizes.iter().sum::<u64>()).max().unwrap_or(0);
        if points.len() < 2 || most == 0 {
            return String::new();
        }
        let x = |at: usize| LEFT + (W - LEFT - 8.0) * at as f64 / (points.len() - 1) as f64;
        let y = |n: u64| TOP + (H - TOP - 22.0) * (1.0 - n as f64 / most as f64);
        let mut out = format!(
            "<svg viewBox=\"0 0 {W} {H}\" role=\"img\" aria-label=\"What the context was made of\">\
             <title>What the context was made of at each of {} requests</title>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            self.points.len(),
            LEFT - 5.0,
            TOP + 4.0,
            thousands(most)
        );
        let upto = |sizes: &[u64; GROUPS.len()], group: usize| sizes[..group].iter().sum::<u64>();
        for (group, name) in GROUPS.iter().enumerate() {
            let upper = points.iter().enumerate().map(|(at, (_, sizes))| (at, upto(sizes, group + 1)));
            let lower = points.iter().enumerate().rev().map(|(at, (_, sizes))| (at, upto(sizes, group)));
            let _ = write!(out, "<polygon class=\"g{group}\" points=\"");
            for (at, n) in upper.chain(lower) {
                let _ = write!(out, "{:.1},{:.1} ", x(at), y(n));
            }
            let _ = write!(out, "\"><title>{name}</title></polygon>");
        }
        for seq in compactions {
            let at = points.partition_point(|(point, _)| point < seq).min(points.len() - 1);
            let _ = write!(
                out,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{}\" stroke=\"currentColor\" stroke-dasharray=\"3 3\">\
                 <title>compaction, entry {seq}</title></line>",
                H - 22.0,
                x = x(at)
            );
        }
        let _ = write!(
            out,
            "<text x=\"{LEFT}\" y=\"{}\">what it was made of (estimated tokens)</text></svg>",
            H - 6.0
        );
        out.push_str("<ul class=\"legend\">");
        for (group, name) in GROUPS.iter().enumerate() {
            let _ = write!(out, "<li class=\"g{group}\">{name}</li>");
        }
        out.push_str("</ul>");
        out
    }

    /// Returns the cache state of each span at the last request, according to the provider's report; `not sent yet` for spans that the
    /// request did not contain. The first `fixed` spans precede the messages.
    fn cached(&self, spans: &[Span], fixed: usize, context: &Context) -> Vec<&'static str> {
        let Some(last) = self.last.as_ref().filter(|last| last.generation == context.generation) else {
            return vec!["not sent yet"; spans.len()];
        };
        let sent: usize = context.messages.iter().take(last.messages).map(|m| m.message.parts.len()).sum();
        let sizes: Vec<Tokens> = spans[..fixed + sent].iter().map(|span| span.tokens).collect();
        let mut states: Vec<_> = cache_states(&sizes, last.usage).into_iter().map(CacheState::name).collect();
        states.resize(spans.len(), "not sent yet");
        states
    }

    /// Lists every span that the model would see now, with its origin and its cache state at the last request.
    pub(super) fn table(
        &mut self,
        subjects: &HashMap<String, String>,
        blobs: &BlobStore,
        masked: &mut usize,
    ) -> String {
        let tools: Vec<ToolSpec> = self.tools.as_ref().and_then(|id| specs(id, blobs)).unwrap_or_default();
        let context = self.view.context().clone();
        let spans = self.view.spans(&tools);
        let parts = context.messages.iter().flat_map(|m| m.message.parts.iter().map(move |part| (m, part)));
        let fixed = spans.len() - parts.clone().count();
        let mut rows: Vec<(&Span, String)> =
            spans[..fixed].iter().map(|span| (span, String::new())).collect();
        let from = parts.map(|(message, part)| origin(message, part, subjects, masked));
        rows.extend(spans[fixed..].iter().zip(from));
        let cached = self.cached(&spans, fixed, &context);
        let sum: u64 = spans.iter().map(|span| span.tokens.0).sum();
        let mut out = format!(
            "<details class=\"fold\" data-item id=\"spans\"><summary><span class=\"name\">What the model sees at the \
             end</span> ({} spans, about {} tokens)</summary><div class=\"scroll\"><table><tr><th>entry</th>\
             <th>tokens</th><th>cache</th><th>kind, and where it is from</th></tr>",
            spans.len(),
            thousands(sum)
        );
        for ((span, from), cache) in rows.into_iter().zip(cached) {
            let seq = span.seq.map_or_else(|| "-".to_owned(), |seq| seq.to_string());
            let kind = serde_json::to_value(span.kind).unwrap_or_default();
            let applied = match span.applied.join(", ") {
                none if none.is_empty() => none,
                some => format!(" [{}]", text(&some, masked)),
            };
            let _ = write!(
                out,
                "<tr><td>{seq}</td><td>{}</td><td>{cache}</td><td><span class=\"name\">{}</span> {} {from}{applied}</td></tr>",
                span.tokens,
                kind.as_str().unwrap_or_default().replace('_', " "),
                text(&span.label, masked)
            );
        }
        out.push_str("</table></div></details>\n");
        out
    }
}

/// Returns the points to draw: all of them, or the last one for each of the [`COLUMNS`] columns.
fn sampled(points: &[Point]) -> impl Iterator<Item = &Point> {
    let columns = points.len().min(COLUMNS);
    (1..=columns).map(move |n| &points[n * points.len() / columns - 1])
}

fn groups<'a>(
    point: &'a Point,
    blobs: &BlobStore,
    known: &mut HashMap<&'a BlobId, u64>,
) -> [u64; GROUPS.len()] {
    let mut out = [0; GROUPS.len()];
    for (kind, tokens) in &point.kinds {
        out[group(*kind)] += tokens.0;
    }
    if let Some(id) = &point.tools {
        out[0] += *known.entry(id).or_insert_with(|| {
            let tools = specs(id, blobs).unwrap_or_default();
            let empty = View::new(Policy::reading(), scope("unknown/unknown"));
            empty.spans(&tools).iter().map(|span| span.tokens.0).sum()
        });
    }
    out
}

fn specs(id: &BlobId, blobs: &BlobStore) -> Option<Vec<ToolSpec>> {
    serde_json::from_slice(&blobs.get(id)?).ok()
}

fn group(kind: SpanKind) -> usize {
    match kind {
        SpanKind::System | SpanKind::Rules | SpanKind::Tools => 0,
        SpanKind::Summary | SpanKind::State | SpanKind::Continuation | SpanKind::Reminder => 1,
        SpanKind::User => 2,
        SpanKind::Assistant | SpanKind::Reasoning => 3,
        SpanKind::ToolCall | SpanKind::ToolOutput => 4,
        SpanKind::Media => 5,
    }
}

/// Returns the origin of a span: the file, the call, the compaction; as a link if the page shows it.
fn origin(
    message: &ContextMessage,
    part: &Part,
    subjects: &HashMap<String, String>,
    masked: &mut usize,
) -> String {
    let seq = message.provenance.seq;
    if let Part::ToolCall { call_id, .. } | Part::ToolResult { call_id, .. } = part {
        let subject = subjects.get(call_id.as_str()).map_or("", String::as_str);
        return format!("{} (call {})", text(subject, masked), text(call_id.as_str(), masked));
    }
    match &message.message.origin {
        Origin::Synthetic(Synthetic::Rules) => {
            let path = message.message.metadata.extra.get("rules_path").and_then(Value::as_str);
            text(path.unwrap_or_default(), masked)
        }
        Origin::Synthetic(Synthetic::CompactionSummary) => {
            format!("<a href=\"#c{seq}\">compaction of entry {seq}</a>")
        }
        _ if is_shown(&message.message) => format!("<a href=\"#m{seq}\">message {seq}</a>"),
        _ => String::new(),
    }
}
