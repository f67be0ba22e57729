//! Conversion of a layout and a summary to the entries of one commit, and the report about them.

use super::attached::{Attached, attach};
use super::layout::{Layout, Measured};
use super::{Outcome, Report, ReportCounts, Snapshot};
use crate::context::budget::estimate_text;
use crate::context::tail_anchor;
use becket_types::{
    Compaction, CompactionSource, CutOutput, EntryKind, LeftOut, Message, Part, PruneReason, RepeatedContext,
    RetainedMessages, Role, ShortenedContent, SizeChange, SummaryOrigin, Tokens,
};
use std::fmt;
use std::sync::Arc;

/// The author of a summary, and the requests that it took.
#[derive(Clone, Debug)]
pub(super) struct SummaryInfo {
    pub(super) source: CompactionSource,
    pub(super) model: String,
    /// The name of the kind of request ([`super::InputKind::name`]); `prepared` if the summary comes from a `prepared_summary` entry.
    pub(super) input: &'static str,
    pub(super) model_calls: u32,
    /// Text of the model that was not accepted.
    pub(super) left_out: Vec<LeftOut>,
}

/// Returns the anchor for a layout, short enough to leave room for the summary. If the assistant says nothing in the head, the anchor of
/// the previous compaction is used again.
pub(super) fn anchor(measured: &Measured, layout: &Layout, room: Tokens) -> Option<String> {
    let head: Vec<Arc<Message>> =
        layout.head.iter().map(|i| Arc::clone(&measured.snapshot.messages[*i])).collect();
    let chars = measured.snapshot.policy.summary.anchor_chars.min((room.0 * 36 / 10 / 3) as usize);
    if chars == 0 {
        return None;
    }
    tail_anchor::extract(&head, chars).or_else(|| {
        let earlier = tail_anchor::carried(&measured.snapshot.previous.as_ref()?.summary)?;
        tail_anchor::extract(&[Message::assistant(vec![Part::text(earlier)])], chars)
    })
}

/// True if messages of the assistant that are newer than the anchor stay in the view.
fn newer_follow(snapshot: &Snapshot, layout: &Layout) -> bool {
    layout.tail.iter().chain(&layout.kept).any(|index| {
        let newest_gone = layout.head.last();
        snapshot.messages[*index].role == Role::Assistant && newest_gone.is_none_or(|gone| index > gone)
    })
}

/// Builds the entries, the report and the size of the new context. The size may be larger than accepted: the caller checks it.
pub(super) fn build(
    measured: &Measured,
    layout: &Layout,
    summary: &str,
    anchor: Option<String>,
    info: SummaryInfo,
) -> (Outcome, Tokens) {
    let snapshot = &measured.snapshot;
    let quoted = match layout.quotes.as_str() {
        "" => summary.to_owned(),
        quotes => format!("{summary}\n\n{quotes}"),
    };
    // The anchor (the last words before the cut) is inserted after the summary was shortened, so it is never cut.
    let summary = match &anchor {
        Some(anchor) => tail_anchor::splice_before(&quoted, anchor, newer_follow(snapshot, layout)),
        None => quoted,
    };
    let mut after = measured.breakdown_after(layout, &summary);
    let Attached { text: files, files: attached } = attach(measured, layout, after.total());
    after.files = Tokens(measured.to_provider_tokens(estimate_text(&files).0));
    let state = [layout.state.as_str(), &files].iter().filter(|t| !t.is_empty()).copied().collect::<Vec<_>>();
    let message = |i: &usize| &snapshot.messages[*i];
    let previous = snapshot.previous.as_ref();
    let mut taken_out = previous.map(|p| p.taken_out.clone()).unwrap_or_default();
    // Messages with rules in the tail leave the view too: their text follows the summary.
    taken_out.extend(layout.rules_out.iter().map(|i| message(i).id));
    taken_out.extend(layout.taken_out.map(|i| message(&i).id));
    let shortened = shortened(snapshot, layout);
    let report = Report {
        trigger: snapshot.request.trigger,
        source: info.source,
        input: info.input.to_owned(),
        tokens_before: measured.before,
        tokens_after: after.total(),
        before: measured.breakdown(),
        after,
        counts: ReportCounts {
            dropped: layout.head.len(),
            kept: layout.kept.len(),
            tail: layout.tail.len(),
            pruned: shortened.pruned.len(),
            cut: layout.unseen.cuts.len(),
        },
        blind: layout.unseen.blind,
        model_calls: info.model_calls,
        summary: summary.clone(),
        left_out: info.left_out.clone(),
    };
    let compaction = Compaction {
        summary,
        anchor,
        retained: RetainedMessages {
            tail_from: snapshot.messages.get(layout.at).map_or(snapshot.last_seq.next(), |m| m.seq),
            taken_out,
            kept: layout.kept.iter().map(|i| message(i).id).collect(),
        },
        replaces: previous.map(|p| p.entry),
        shortened,
        repeated: RepeatedContext {
            state: state.join("\n\n"),
            rules: measured.rules.items.clone(),
            attached,
        },
        size: SizeChange { before: measured.before, after: after.total() },
        trigger: snapshot.request.trigger,
        origin: SummaryOrigin {
            model: info.model,
            source: info.source,
            input: report.input.clone(),
            left_out: info.left_out,
        },
        snapshot_of: snapshot.last_seq,
        turn_state: snapshot.turn_state,
    };
    let next = measured.next_message(layout.level);
    let mut entries: Vec<EntryKind> = snapshot.outputs.inputs.iter().cloned().collect();
    entries.push(EntryKind::Compaction(Box::new(compaction)));
    entries.extend(next.map(|message| EntryKind::Message { message }));
    let notices = match layout.unseen.cuts.len() {
        0 => Vec::new(),
        1 => vec![
            "A result of the newest step does not fit into the window: it is shown to the model in part, and `recall` brings \
             the rest"
                .to_owned(),
        ],
        n => vec![format!(
            "The results of the newest step do not fit into the window: {n} of them are shown to the model in part, and \
             `recall` brings the rest"
        )],
    };
    (Outcome { entries, report, notices }, after.total())
}

/// Makes the outcome if pruning alone is enough: one entry, no model, no continuation.
pub(super) fn prune_only(measured: &Measured, after: Tokens) -> Outcome {
    let snapshot = &measured.snapshot;
    let freed = measured.freed_by_pruning();
    let before = measured.breakdown();
    let tail = Tokens(before.tail.0.saturating_sub(freed.0));
    let mut entries: Vec<EntryKind> = snapshot.outputs.inputs.iter().cloned().collect();
    if !snapshot.outputs.prunable.is_empty() {
        entries.push(EntryKind::Prune {
            calls: snapshot.outputs.prunable.clone(),
            media: Vec::new(),
            cuts: Vec::new(),
            freed_tokens: freed,
            reason: PruneReason::Compaction,
        });
    }
    Outcome {
        entries,
        report: Report {
            trigger: snapshot.request.trigger,
            source: CompactionSource::Fallback,
            input: String::new(),
            tokens_before: measured.before,
            tokens_after: after,
            before,
            after: super::Breakdown { tail, ..before },
            counts: ReportCounts {
                tail: snapshot.messages.len(),
                pruned: snapshot.outputs.prunable.len(),
                ..ReportCounts::default()
            },
            blind: false,
            model_calls: 0,
            summary: String::new(),
            left_out: Vec::new(),
        },
        // The prune is reported by its own event.
        notices: Vec::new(),
    }
}

/// Returns the content that is shortened after this compaction: what the previous compaction shortened, unless it left the
/// view, and what this one shortens.
fn shortened(snapshot: &Snapshot, layout: &Layout) -> ShortenedContent {
    let previous = snapshot.previous.as_ref();
    let mut media = previous.map(|p| p.media.clone()).unwrap_or_default();
    media.extend(layout.media.iter().filter(|m| !previous.is_some_and(|p| p.media.contains(m))));
    let in_view: Vec<_> =
        layout.kept.iter().chain(&layout.tail).filter_map(|i| snapshot.messages[*i].result_of()).collect();
    let mut pruned = previous.map(|p| p.pruned.clone()).unwrap_or_default();
    pruned.extend(snapshot.outputs.prunable.iter().cloned());
    pruned.retain(|p| in_view.contains(&&p.call_id));
    let mut cuts: Vec<CutOutput> = previous.map(|p| p.cuts.clone()).unwrap_or_default();
    cuts.retain(|old| !layout.unseen.cuts.iter().any(|new| new.call_id == old.call_id));
    cuts.extend(layout.unseen.cuts.iter().cloned());
    cuts.retain(|c| in_view.contains(&&c.call_id));
    ShortenedContent { pruned, cuts, media }
}

impl Outcome {
    /// Replaces the summary by one that a person edited; the anchor stays. Has no effect on a mere prune.
    pub fn with_summary(mut self, edited: &str) -> Self {
        for entry in &mut self.entries {
            if let EntryKind::Compaction(compaction) = entry {
                let text = match &compaction.anchor {
                    // The note in the existing anchor block stays, even if the person removed it.
                    Some(anchor) => {
                        tail_anchor::splice_before(edited, anchor, tail_anchor::is_noted(&compaction.summary))
                    }
                    None => edited.to_owned(),
                };
                let (old, new) = (estimate_text(&compaction.summary).0, estimate_text(&text).0);
                let after = Tokens((compaction.size.after.0 + new).saturating_sub(old));
                self.report.after.summary = Tokens((self.report.after.summary.0 + new).saturating_sub(old));
                self.report.tokens_after = after;
                self.report.summary.clone_from(&text);
                compaction.origin.left_out.retain(|left| !text.contains(left.text.trim()));
                self.report.left_out.clone_from(&compaction.origin.left_out);
                compaction.size.after = after;
                compaction.summary = text;
            }
        }
        self
    }

    /// Replaces the summary by one that a person wrote, and marks it as edited; `None` if the result frees
    /// nothing.
    pub fn edited(&self, summary: &str) -> Option<Self> {
        let mut outcome = self.clone().with_summary(summary.trim_end());
        for entry in &mut outcome.entries {
            if let EntryKind::Compaction(compaction) = entry {
                "edited".clone_into(&mut compaction.origin.input);
            }
        }
        (outcome.report.tokens_after < outcome.report.tokens_before).then_some(outcome)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.counts;
        writeln!(f, "Before: {}", self.before)?;
        writeln!(f, "After:  {}", self.after)?;
        writeln!(
            f,
            "Dropped: {} messages; kept before the tail: {}; in the tail: {}; outputs that become stubs: {}",
            counts.dropped, counts.kept, counts.tail, counts.pruned
        )?;
        if counts.cut > 0 {
            writeln!(f, "Outputs that are new to the model and shown in part: {}", counts.cut)?;
        }
        if !self.summary.is_empty() {
            let by = match self.source {
                CompactionSource::Model => "the model",
                CompactionSource::Fallback => "the program, without a model",
            };
            write!(f, "Summary, written by {by}:\n\n{}", self.summary)?;
        }
        Ok(())
    }
}
