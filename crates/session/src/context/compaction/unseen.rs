//! The step that the model has not answered yet. It stays at every level, and its outputs share the remaining space.
//!
//! A result, an image or a message is unseen if the model wrote no answer after it ([`super::first_unseen`]). The calls of the step are the
//! model's own words and stay whole. Their outputs are cut, the largest first, until the view is accepted. From level 3 on the view may
//! fill more of the window, and at the last level unseen images become text, because a request that shows little is better than none. If
//! even that does not fit, the compaction stops and reports what fills the window.

use super::Snapshot;
use super::layout::{FULLER, LEVELS, Layout, Measured, Shortened};
use super::split::first_unseen;
use super::verify::{LAST_SHARE, target};
use crate::context::budget::part_of;
use crate::context::continuation::{continuation, is_users_words, last_user};
use crate::context::cut::{self, Output};
use crate::context::media;
use becket_types::{CutOutput, Message, MessageId, Part, Role, Tokens};
use std::collections::HashSet;

/// Minimum share of the space above the floor that a level must leave for outputs that have to be cut. If it leaves less, or if it shows
/// none of them, the next level is tried.
const FAIR_SHARE: f64 = 0.30;

/// Maximum number of times that outputs are cut again because their cuts cost more than estimated.
const MAX_CUTS: usize = 4;

impl Measured {
    /// True if the view has a message that is not answered yet.
    fn has_unseen(&self) -> bool {
        first_unseen(&self.snapshot.messages) < self.snapshot.messages.len()
    }

    /// Returns the largest accepted view at a level; `None` if the floor alone is too large.
    pub(super) fn target_at(&self, level: usize) -> Option<Tokens> {
        let target = self.target()?;
        if level < FULLER || !self.has_unseen() {
            return Some(target);
        }
        let most = self.most_at(level)?;
        Some(target.max(most.min(Tokens(part_of(self.before.0, LAST_SHARE)))))
    }

    /// Like [`Self::target_at`], without requiring that anything is freed.
    fn most_at(&self, level: usize) -> Option<Tokens> {
        let usable = self.snapshot.request.budget.usable();
        let most = target(Tokens(usable.saturating_mul(2)), self.floor(), usable)?;
        if level < FULLER {
            return Some(most);
        }
        // The result must be below the threshold, so that the next compaction is not due at once.
        Some(most.max(Tokens(part_of(
            self.snapshot.request.budget.threshold(self.snapshot.policy.threshold).0,
            LAST_SHARE,
        ))))
    }

    /// Returns outputs that may be cut, with the index of their message. Pinned outputs and stubs are
    /// excluded.
    pub(super) fn unseen_outputs<'a>(&'a self, tail: &'a [usize]) -> impl Iterator<Item = Output<'a>> {
        let first = first_unseen(&self.snapshot.messages);
        let pins = &self.snapshot.pins;
        tail.iter()
            .filter(move |i| **i >= first)
            .map(|i| &self.snapshot.messages[*i])
            .filter(|m| m.role == Role::Tool && !pins.messages.contains(&m.id))
            .flat_map(|m| &m.parts)
            .filter(|part| match part {
                Part::ToolResult { call_id, .. } => {
                    !self.snapshot.outputs.stubs.contains(call_id) && !pins.calls.contains(call_id)
                }
                _ => false,
            })
            .filter_map(|part| {
                let Part::ToolResult { call_id, .. } = part else { return None };
                Output::from_part(part, self.snapshot.outputs.cuts.get(call_id))
            })
    }

    /// Returns media that the model has not answered yet: `(message, index of the part)`.
    pub(super) fn unseen_media(&self) -> HashSet<(MessageId, u32)> {
        let messages = &self.snapshot.messages;
        let new = &messages[first_unseen(messages).min(messages.len())..];
        new.iter()
            .filter(|m| m.role != Role::Assistant)
            .flat_map(|m| {
                m.parts.iter().enumerate().filter(|(_, p)| p.is_media()).map(|(n, _)| (m.id, n as u32))
            })
            .collect()
    }

    /// Cuts the unseen outputs of a layout so that the view with a summary is accepted at its level.
    pub(super) fn fit_unseen(&self, layout: &mut Layout) {
        let tail = layout.tail.clone();
        let outputs: Vec<Output<'_>> = self.unseen_outputs(&tail).collect();
        let whole: u64 = outputs.iter().map(|o| o.tokens).sum();
        // Outputs are cut only until the view fits the window ([`Self::most_at`]), not until the compaction frees its required share.
        let Some(target) = self.most_at(layout.level).filter(|_| whole > 0) else { return };
        let rest = self.fixed(layout).saturating_sub(whole) + self.reserved(layout.level);
        let room = self.to_base_tokens(target.0).0.saturating_sub(rest);
        let cuts = self.cut_to_fit(layout, &outputs, room);
        if cuts.is_empty() {
            return;
        }
        let free = self.to_base_tokens(target.0).0.saturating_sub(self.snapshot.request.floor.total().0);
        let is_shown = |output: &&Output<'_>| {
            let new = cuts.iter().find(|cut| cut.call_id == *output.call_id);
            let cut = new.or_else(|| self.snapshot.outputs.cuts.get(output.call_id));
            !output.text.is_empty() && cut.is_none_or(|cut| cut.head + cut.tail > 0)
        };
        let blind = !self.has_new_words() && !outputs.iter().any(|o| is_shown(&o));
        let is_unfair = (room as f64) < free as f64 * FAIR_SHARE;
        let squeezed = layout.level < FULLER && (is_unfair || blind);
        layout.costs.tail = self.tail_with(layout, &cuts);
        layout.unseen = Shortened { cuts, squeezed, blind };
    }

    /// Returns the cuts that bring the outputs to `room` base tokens. The cost of a cut output is known only when it is made. So if the
    /// cuts cost more than `room`, they are made again for less, at most [`MAX_CUTS`] times.
    fn cut_to_fit(&self, layout: &Layout, outputs: &[Output<'_>], room: u64) -> Vec<CutOutput> {
        let whole: u64 = outputs.iter().map(|o| o.tokens).sum();
        let most = layout.costs.tail.saturating_sub(whole) + room;
        let mut left = room;
        let mut cuts = cut::share(outputs, left);
        for _ in 0..MAX_CUTS {
            let over = self.tail_with(layout, &cuts).saturating_sub(most);
            if over == 0 || left == 0 || cuts.is_empty() {
                break;
            }
            left = left.saturating_sub(over);
            cuts = cut::share(outputs, left);
        }
        cuts
    }

    /// Returns the base tokens of the tail with these cuts.
    fn tail_with(&self, layout: &Layout, cuts: &[CutOutput]) -> u64 {
        (layout.costs.tail + self.cut_cost(layout, cuts)).saturating_sub(self.cut_cost(layout, &[]))
    }

    /// Returns the base tokens of the tail's unseen results, with these cuts and those already in force.
    fn cut_cost(&self, layout: &Layout, cuts: &[CutOutput]) -> u64 {
        let first = first_unseen(&self.snapshot.messages);
        let parts =
            layout.tail.iter().filter(|i| **i >= first).flat_map(|i| &self.snapshot.messages[*i].parts);
        let cost = |part: &Part| {
            let Part::ToolResult { call_id, .. } = part else { return 0 };
            if self.snapshot.outputs.stubs.contains(call_id) {
                return 0;
            }
            let new = cuts.iter().find(|cut| cut.call_id == *call_id);
            cut::tokens(part, new.or_else(|| self.snapshot.outputs.cuts.get(call_id)))
        };
        parts.map(cost).sum()
    }

    /// True if a user message is newer than the last answer.
    fn has_new_words(&self) -> bool {
        let messages = &self.snapshot.messages;
        let new = &messages[first_unseen(messages).min(messages.len())..];
        new.iter().any(|m| is_users_words(m))
    }

    /// Returns the message that follows the compaction. At the last level, the media that it repeats become
    /// text.
    pub(super) fn next_message(&self, level: usize) -> Option<Message> {
        let Snapshot { request, messages, turn_state, .. } = &self.snapshot;
        let mut next = continuation(request.continuation_id, messages, *turn_state)?;
        if level + 1 == LEVELS && next.has_media() {
            let said = last_user(messages).map(|at| format!("m{}", messages[at].seq));
            for part in &mut next.parts {
                if let Some(text) = media::placeholder(part, said.as_deref()) {
                    *part = Part::text(text);
                }
            }
        }
        Some(next)
    }
}
