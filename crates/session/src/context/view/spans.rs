//! Sizes of the parts of a context, span by span, for people.

use super::super::summary::split_files;
use super::super::{budget, media};
use super::View;
use becket_types::{
    BlobId, ContextMessage, ImageSource, Origin, Part, Role, Span, SpanKind, Synthetic, SystemItem,
    SystemKind, Tokens, ToolSpec, Usage,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns every span of a context, in the order in which it is sent: system prompt and rules, tools, messages.
pub(super) fn spans(
    system: &[SystemItem],
    tools: &[ToolSpec],
    messages: &[Arc<ContextMessage>],
) -> Vec<Span> {
    let mut out: Vec<Span> = system.iter().map(system_span).collect();
    out.extend(tools.iter().map(tool_span));
    for message in messages {
        out.extend(message.message.parts.iter().map(|part| part_span(message, part)));
    }
    out
}

/// Number of tokens of each kind in a context: the sums of [`View::spans`], updated at the cost of what is
/// new.
///
/// Relies on messages only being added at the end within one generation. A caller that changes the system
/// prompt or the tools must start with a new `KindTotals`.
#[derive(Debug, Default)]
pub struct KindTotals {
    generation: Option<u64>,
    seen: usize,
    totals: BTreeMap<SpanKind, Tokens>,
}

impl KindTotals {
    /// Updates and returns the sums for the context that `view` built last.
    pub fn update(&mut self, view: &View, tools: &[ToolSpec]) -> &BTreeMap<SpanKind, Tokens> {
        let context = view.last_context();
        if self.generation != Some(context.generation) || self.seen > context.messages.len() {
            *self = Self { generation: Some(context.generation), ..Self::default() };
            let fixed = view.system_items().iter().map(system_span).chain(tools.iter().map(tool_span));
            fixed.for_each(|span| self.add(span.kind, span.tokens));
        }
        let new = &context.messages[self.seen..];
        self.seen = context.messages.len();
        for message in new {
            for part in &message.message.parts {
                self.add(label(message, part).0, budget::estimate_part(part));
            }
        }
        &self.totals
    }

    fn add(&mut self, kind: SpanKind, tokens: Tokens) {
        *self.totals.entry(kind).or_default() += tokens;
    }
}

/// State of a span in the provider's prompt cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheState {
    /// The provider read the span from its cache.
    Read,
    /// The provider wrote the span to its cache.
    Written,
    /// The span was sent and is not in the cache.
    Fresh,
    /// The provider reported no usage.
    Unknown,
}

impl CacheState {
    /// Returns the name in the output of `becket context`, such as `read`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Written => "written",
            Self::Fresh => "fresh",
            Self::Unknown => "unknown",
        }
    }
}

/// Determines from the provider's report, span by span, if it was read from the cache, written to it, or neither. `spans` are the estimated
/// sizes of everything that was sent, in order; they are scaled to the report.
pub fn cache_states(spans: &[Tokens], usage: Option<Usage>) -> Vec<CacheState> {
    let sum: u64 = spans.iter().map(|tokens| tokens.0).sum();
    let Some(usage) = usage.filter(|u| u.context().0 > 0 && sum > 0) else {
        return vec![CacheState::Unknown; spans.len()];
    };
    let scale = usage.context().0 as f64 / sum as f64;
    let mut at = 0.0;
    let state = |tokens: &Tokens| {
        let middle = at + tokens.0 as f64 * scale / 2.0;
        at += tokens.0 as f64 * scale;
        if middle < usage.cache_read as f64 {
            CacheState::Read
        } else if middle < (usage.cache_read + usage.cache_write) as f64 {
            CacheState::Written
        } else {
            CacheState::Fresh
        }
    };
    spans.iter().map(state).collect()
}

fn system_span(item: &SystemItem) -> Span {
    let (kind, name) = match item.kind {
        SystemKind::Prompt => (SpanKind::System, "prompt"),
        SystemKind::Environment => (SpanKind::System, "environment"),
        SystemKind::Appended => (SpanKind::System, "appended prompt"),
        SystemKind::Rules => (SpanKind::Rules, "rules"),
        SystemKind::Skills => (SpanKind::Rules, "skills"),
    };
    Span {
        kind,
        label: item.path.as_ref().map_or_else(|| name.to_owned(), |p| p.display().to_string()),
        seq: None,
        bytes: item.text.len() as u64,
        tokens: budget::estimate_text(&item.text),
        blob: None,
        applied: Vec::new(),
    }
}

fn tool_span(tool: &ToolSpec) -> Span {
    let schema = tool.input_schema.to_string();
    Span {
        kind: SpanKind::Tools,
        label: tool.name.clone(),
        seq: None,
        bytes: (tool.name.len() + tool.description.len() + schema.len()) as u64,
        tokens: budget::estimate_text(&tool.description) + budget::estimate_text(&schema),
        blob: None,
        applied: Vec::new(),
    }
}

fn part_span(message: &ContextMessage, part: &Part) -> Span {
    let (kind, label) = label(message, part);
    Span {
        kind,
        label,
        seq: Some(message.provenance.seq),
        bytes: bytes(part),
        tokens: budget::estimate_part(part),
        blob: blob(part).cloned(),
        applied: message.provenance.applied.clone(),
    }
}

fn label(message: &ContextMessage, part: &Part) -> (SpanKind, String) {
    let reminded = || message.provenance.applied.iter().any(|a| a == "reminder");
    let plain = |kind, label: &str| (kind, label.to_owned());
    match part {
        Part::ToolCall { name, .. } => (SpanKind::ToolCall, name.clone()),
        Part::ToolResult { name, .. } => (SpanKind::ToolOutput, name.clone()),
        Part::Reasoning { .. } => plain(SpanKind::Reasoning, "reasoning"),
        Part::Image { .. } | Part::File { .. } => (SpanKind::Media, media::stub(part).unwrap_or_default()),
        Part::Text { .. } | Part::Unknown(_) => match message.message.origin {
            Origin::Synthetic(Synthetic::CompactionSummary) => plain(SpanKind::Summary, "summary"),
            Origin::Synthetic(Synthetic::CompactionContinue) => plain(SpanKind::Continuation, "continuation"),
            Origin::Synthetic(Synthetic::SessionState) if carries_files(part) => {
                plain(SpanKind::State, "session state, attached files")
            }
            Origin::Synthetic(Synthetic::SessionState) => plain(SpanKind::State, "session state"),
            Origin::Synthetic(Synthetic::Rules) => plain(SpanKind::Rules, "rules"),
            Origin::Synthetic(Synthetic::Reminder) => plain(SpanKind::Reminder, "note"),
            Origin::Synthetic(Synthetic::Hook) => plain(SpanKind::Reminder, "hook"),
            _ if message.message.role == Role::Assistant => plain(SpanKind::Assistant, "assistant"),
            _ if reminded() => plain(SpanKind::Reminder, "user, mid-turn"),
            _ => plain(SpanKind::User, "user"),
        },
    }
}

/// True if a compaction attached file contents to this state message.
fn carries_files(part: &Part) -> bool {
    matches!(part, Part::Text { text, .. } if !split_files(text).1.is_empty())
}

fn bytes(part: &Part) -> u64 {
    let bytes = match part {
        Part::Text { text, .. } => text.len(),
        Part::Reasoning { text, signature, redacted, .. } => {
            text.len() + signature.as_ref().map_or(0, String::len) + redacted.as_ref().map_or(0, String::len)
        }
        Part::ToolCall { name, input, .. } => name.len() + input.to_string().len(),
        Part::ToolResult { output, .. } => output.len(),
        Part::Image { .. } | Part::File { .. } => return media::bytes(part),
        Part::Unknown(_) => 0,
    };
    bytes as u64
}

fn blob(part: &Part) -> Option<&BlobId> {
    match part {
        Part::Image { source: ImageSource::Blob(id), .. } | Part::File { blob: id, .. } => Some(id),
        _ => part.spill(),
    }
}
