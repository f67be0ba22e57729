//! Effect of a compaction on the view: messages removed, facts lost, and proof that protected content is
//! still present.
//!
//! Computed on a copy of the view, before the compaction is appended or at any later time. Changes nothing.

use super::{Outcome, loss};
use crate::context::View;
use crate::context::budget::estimate_message;
use crate::context::present::{self, Present};
use crate::context::scale::ContextScale;
use becket_types::{
    CategoryChange, CompactionPlan, Entry, Loss, Message, MessageId, Millis, Part, ProtectedContent,
    RemovedMessage, Role, SizeChange,
};
use std::collections::HashSet;
use std::sync::Arc;

/// Maximum number of characters of a message that the list of removed messages shows.
const WORDS: usize = 80;

/// The effect of one compaction: removed messages, lost facts, and the check of protected content.
#[derive(Clone, Debug)]
pub struct CompactionEffect {
    /// Messages that leave the view.
    pub gone: Vec<Arc<Message>>,
    /// Facts in these messages that the new view no longer contains.
    pub loss: Loss,
    /// Each piece of protected content (pins, the user's last message and the like), with the result of the check that it is still in the
    /// view.
    pub present: Vec<Present>,
}

impl CompactionEffect {
    /// Computes the effect of an outcome that was not appended yet. `view` must be computed from `entries`.
    pub fn of_outcome(outcome: &Outcome, view: &View, entries: &[Entry]) -> Self {
        let mut next = View::fold(view.policy().clone(), view.scope().clone(), entries);
        for kind in &outcome.entries {
            let seq = next.last_seq().next();
            next.apply(&Entry { seq, time: Millis(0), kind: kind.clone() });
        }
        Self::between(view.live(), &mut next)
    }

    /// Computes the effect from the messages before the compaction and the view after it.
    pub fn between<'a>(before: impl Iterator<Item = &'a Arc<Message>>, after: &mut View) -> Self {
        let stays: HashSet<MessageId> = after.live().map(|m| m.id).collect();
        let gone: Vec<Arc<Message>> = before.filter(|m| !stays.contains(&m.id)).cloned().collect();
        let context = after.context();
        let mut left: String = context.system.join("\n");
        for part in context.messages.iter().flat_map(|message| &message.message.parts) {
            left.push('\n');
            left.push_str(&text_of(part));
        }
        let loss = loss(&gone, &left);
        Self { gone, loss, present: present::check(after) }
    }

    /// Makes the plan for display. The user confirms it by the number `plan`. `scale`: converts the sizes of the context before the
    /// compaction.
    pub fn plan(self, plan: u64, outcome: &Outcome, scale: ContextScale) -> CompactionPlan {
        let report = &outcome.report;
        let both = report.before.categories().into_iter().zip(report.after.categories());
        let categories = both
            .filter(|((_, before), (_, after))| before.0 + after.0 > 0)
            .map(|((name, before), (_, after))| CategoryChange { name: name.to_owned(), before, after });
        let proofs = self.present.clone();
        let (there, not): (Vec<Present>, Vec<Present>) =
            self.present.into_iter().partition(|item| item.there);
        CompactionPlan {
            plan,
            size: SizeChange { before: report.tokens_before, after: report.tokens_after },
            categories: categories.collect(),
            gone: self.gone.iter().map(|message| folded_message(message, scale)).collect(),
            stays: (report.counts.tail + report.counts.kept) as u64,
            stubs: report.counts.pruned as u64,
            loss: self.loss,
            protected: ProtectedContent {
                present: there.len() as u64,
                missing: not.into_iter().map(|item| item.what).collect(),
                proofs,
            },
            summary: report.summary.clone(),
            left_out: report.left_out.clone(),
            notices: outcome.notices.clone(),
        }
    }
}

fn folded_message(message: &Message, scale: ContextScale) -> RemovedMessage {
    let who = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let text = message.parts.iter().map(text_of).collect::<Vec<_>>().join(" ");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    RemovedMessage {
        seq: message.seq,
        id: message.id,
        who: who.to_owned(),
        calls: message.call_ids().chain(message.result_of()).cloned().collect(),
        tokens: scale.scaled(estimate_message(message)),
        words: words.chars().take(WORDS).collect(),
    }
}

/// Returns the content of a part as text.
pub fn text_of(part: &Part) -> String {
    match part {
        Part::Text { text, .. } | Part::Reasoning { text, .. } => text.clone(),
        Part::ToolCall { name, input, .. } => format!("{name} {input}"),
        Part::ToolResult { output, .. } => output.clone(),
        Part::Image { .. } | Part::File { .. } | Part::Unknown(_) => String::new(),
    }
}
