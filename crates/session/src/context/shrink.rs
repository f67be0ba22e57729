//! Reducing the bytes of a request that a server refused because of its size.
//!
//! A limit on bytes is not a limit on tokens: a short conversation with images can exceed it, and a
//! compaction would not help. So the oldest media become text first, then the largest tool outputs become
//! stubs. Content that the model has not answered yet comes last: its outputs are shortened, then its media
//! become text. Pinned and protected content stays. `recall` can show everything again.
//!
//! Sizes are estimates. The caller measures the resulting request and calls again if it is still too large.

use super::prune::{self, PrunePolicy};
use super::{View, cut, due, media};
use crate::context::budget::{estimate_part, estimate_text};
use becket_types::{
    CallId, CutOutput, EntryKind, Message, MessageId, Millis, Part, PruneReason, PrunedCall, Role, Tokens,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Outputs that would save fewer bytes than this are not changed.
const SMALL: u64 = 1_024;

/// The entry that shortens the request, and the numbers of its changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Shrunk {
    pub entry: EntryKind,
    /// Number of images and files that become text.
    pub media: usize,
    /// Number of outputs that are shortened.
    pub outputs: usize,
    /// Estimated number of tokens by which the request shrinks.
    pub freed: Tokens,
}

/// Returns the entry that frees about `excess` bytes of the request, or as much as possible; `None` if
/// nothing can be freed. The view's context must have been built.
pub fn shrink(view: &View, excess: u64) -> Option<Shrunk> {
    let mut plan = Plan {
        live: view.live().map(|message| (message.id, message)).collect(),
        left: excess,
        freed: Tokens(0),
        media: Vec::new(),
        calls: Vec::new(),
        cuts: Vec::new(),
    };
    let unanswered: HashSet<MessageId> =
        view.live().rev().take_while(|message| message.role != Role::Assistant).map(|m| m.id).collect();
    let (new, old): (Vec<_>, Vec<_>) = view
        .sent_media()
        .filter(|sent| !view.is_pinned(&sent.0))
        .partition(|sent| unanswered.contains(&sent.0));
    plan.drop_media(&old);
    plan.stub_outputs(view, &unanswered);
    plan.cut_outputs(view);
    plan.drop_media(&new);
    let (media, outputs) = (plan.media.len(), plan.calls.len() + plan.cuts.len());
    (media + outputs > 0).then(|| Shrunk {
        media,
        outputs,
        freed: plan.freed,
        entry: EntryKind::Prune {
            calls: plan.calls,
            media: plan.media,
            cuts: plan.cuts,
            freed_tokens: plan.freed,
            reason: PruneReason::MediaLimit,
        },
    })
}

/// The choice under construction.
struct Plan<'a> {
    live: HashMap<MessageId, &'a Arc<Message>>,
    /// Number of bytes still to be freed.
    left: u64,
    freed: Tokens,
    media: Vec<(MessageId, u32)>,
    calls: Vec<PrunedCall>,
    cuts: Vec<CutOutput>,
}

impl Plan<'_> {
    fn drop_media(&mut self, sent: &[(MessageId, u32, u64)]) {
        for (message, at, bytes) in sent {
            if self.left == 0 {
                return;
            }
            let part = self.live.get(message).and_then(|message| message.parts.get(*at as usize));
            if let Some(part) = part {
                let text = media::stub(part).unwrap_or_default();
                self.free(estimate_part(part), estimate_text(&text));
            }
            // Base64 encodes three bytes as four.
            self.left = self.left.saturating_sub(bytes.div_ceil(3) * 4);
            self.media.push((*message, *at));
        }
    }

    /// Chooses outputs that the model has answered, the largest first.
    fn stub_outputs(&mut self, view: &View, unanswered: &HashSet<MessageId>) {
        if self.left == 0 {
            return;
        }
        let protected = PrunePolicy::new(view.policy(), Millis(0)).protect;
        let stays = |message: &Message, call: &CallId, name: &str| {
            unanswered.contains(&message.id)
                || view.is_pinned(&message.id)
                || view.is_call_pinned(call)
                || view.is_pruned(call)
                || protected.is_match(name)
        };
        let mut seen = HashSet::new();
        let mut outputs: Vec<(u64, Tokens, PrunedCall)> = view
            .live()
            .flat_map(|message| message.parts.iter().map(move |part| (message, part)))
            .filter_map(|(message, part)| {
                let Part::ToolResult { call_id, name, output, .. } = part else { return None };
                if !seen.insert(call_id) || stays(message, call_id, name) {
                    return None;
                }
                let shown = view.cut_of(call_id).and_then(|cut| cut::render(part, cut));
                let shown = shown.as_deref().unwrap_or(output);
                let call = prune::describe(part)?;
                let stub = prune::stub(call_id, name, call.bytes, call.lines, &call.excerpt);
                let saved = (shown.len() as u64).checked_sub(stub.len() as u64).filter(|n| *n >= SMALL)?;
                let tokens = estimate_text(shown).0.saturating_sub(estimate_text(&stub).0);
                Some((saved, Tokens(tokens), call))
            })
            .collect();
        // The sort is stable, so of equal outputs the oldest comes first.
        outputs.sort_by_key(|(saved, ..)| std::cmp::Reverse(*saved));
        for (saved, tokens, call) in outputs {
            if self.left == 0 {
                return;
            }
            self.free(tokens, Tokens(0));
            self.left = self.left.saturating_sub(saved);
            self.calls.push(call);
        }
    }

    /// Shortens outputs of the step that the model has not answered. They share the space that is left after `self.left` bytes are freed.
    fn cut_outputs(&mut self, view: &View) {
        if self.left == 0 {
            return;
        }
        let (mut whole, mut shown) = (0, 0);
        let step = view.live().rev().take_while(|message| message.role != Role::Assistant);
        for part in step.flat_map(|message| &message.parts) {
            let Part::ToolResult { call_id, output, .. } = part else { continue };
            let cut = view.cut_of(call_id).and_then(|cut| cut::render(part, cut));
            whole += output.len() as u64;
            shown += cut.map_or(output.len(), |text| text.len()) as u64;
        }
        let stays = shown.saturating_sub(self.left);
        let room = due::step_tokens(view).0 as f64 * stays as f64 / whole.max(1) as f64;
        if let Some(EntryKind::Prune { cuts, freed_tokens, .. }) = due::step_cut(view, Tokens(room as u64)) {
            self.left = self.left.saturating_sub(shown - stays);
            self.freed += freed_tokens;
            self.cuts = cuts;
        }
    }

    fn free(&mut self, before: Tokens, after: Tokens) {
        self.freed += Tokens(before.0.saturating_sub(after.0));
    }
}
