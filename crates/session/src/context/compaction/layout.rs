//! The division of the history at each level: what leaves, what is kept, what the tail is, and the cost of
//! each.
//!
//! Levels: 0 the configured tail; 1 one user turn in half the space; 2 only the user's last message; 3 as 2, but the new view may fill more
//! of the window; 4 as 3, and new images become text. Messages that the model has not answered yet stay at every level (`unseen`). Costs
//! are base estimates times one factor, so that sizes before and after are comparable with the provider's counts.

use super::Snapshot;
use super::nested_rules::{self, NestedRules};
use super::split::{self, Tail, unit};
use super::verify::{Breakdown, target};
use crate::context::budget::{estimate_message, estimate_part, estimate_text, part_of};
use crate::context::continuation::{Branch, branch, is_users_words, last_user};
use crate::context::summary::{Quotes, ShownTexts, split_files, state_text};
use crate::context::{cut, prune};
use becket_types::{
    CallId, CompactionTrigger, CutOutput, EntryKind, Message, MessageId, Origin, Part, Synthetic, Tokens,
    TurnState, cut_end, cut_start,
};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Number of levels. Level 0 removes the least.
pub(super) const LEVELS: usize = 5;
/// From this level on, the new view may fill more of the window, to show messages that the model has not answered yet.
pub(super) const FULLER: usize = 3;
/// Tokens of an image or file that is shown as a line of text: `[Attached image/png: name, WxH, N bytes, id m12]`.
const PLACEHOLDER: u64 = 32;
/// Tokens of the summary message in addition to the summary's own text.
const SUMMARY_FRAME: u64 = 24;
/// Tokens that the provider's format adds to each message.
const MESSAGE_FRAME: u64 = 4;
/// Minimum size of a summary in tokens.
const MIN_SUMMARY: u64 = 160;

/// Maximum share of the usable window for quotes of the user's messages, by level.
const QUOTES_SHARE: [f64; LEVELS] = [0.12, 0.08, 0.04, 0.04, 0.02];

/// A snapshot with the cost of each message.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) snapshot: Snapshot,
    /// Rules files below the working directory.
    pub(super) rules: NestedRules,
    /// Base tokens of each message, before (`costs`) and after pruning (`pruned`).
    costs: Vec<u64>,
    pruned: Vec<u64>,
    /// Base tokens that the cut of the newest step's inputs frees.
    cut: u64,
    /// The provider's tokens per base token.
    factor: f64,
    pub(super) before: Tokens,
}

impl Measured {
    pub(super) fn new(mut snapshot: Snapshot) -> Self {
        // The summary message and the state message belong to the previous summary, never to head or tail.
        snapshot.messages.retain(|m| {
            !matches!(m.origin, Origin::Synthetic(Synthetic::CompactionSummary | Synthetic::SessionState))
        });
        let chosen: HashMap<&CallId, &str> =
            snapshot.outputs.prunable.iter().map(|p| (&p.call_id, p.excerpt.as_str())).collect();
        let media: HashSet<(MessageId, u32)> =
            snapshot.previous.iter().flat_map(|p| p.media.iter().copied()).collect();
        let stubbed = |call: &CallId| snapshot.outputs.stubs.contains(call).then_some("");
        let cuts = &snapshot.outputs.cuts;
        let costs = snapshot.messages.iter().map(|m| cost(m, &stubbed, cuts, &media)).collect::<Vec<u64>>();
        let chosen_too = |call: &CallId| chosen.get(call).copied().or_else(|| stubbed(call));
        let pruned = if chosen.is_empty() {
            costs.clone()
        } else {
            snapshot.messages.iter().map(|m| cost(m, &chosen_too, cuts, &media)).collect()
        };
        let previous = snapshot.previous.as_ref().map_or(0, |p| {
            let rules = nested_rules::cost(&p.rules);
            estimate_text(&p.summary).0 + estimate_text(&p.state).0 + rules + SUMMARY_FRAME
        });
        let cut = match &snapshot.outputs.inputs {
            Some(EntryKind::CutInputs { freed_tokens, .. }) => freed_tokens.0,
            _ => 0,
        };
        let base = snapshot.request.floor.total().0 + previous + costs.iter().sum::<u64>() + cut;
        let budget = &snapshot.request.budget;
        let used = match snapshot.request.trigger {
            // The request was refused as too long, so its size was at least the limit, regardless of the
            // estimate.
            CompactionTrigger::Overflow => snapshot.request.used.0.max(budget.window.min(budget.input_limit)),
            CompactionTrigger::Auto | CompactionTrigger::Manual => snapshot.request.used.0,
        };
        let used = if used == 0 { base } else { used };
        let factor = (used as f64 / base.max(1) as f64).clamp(0.4, 3.0);
        let before = Tokens(used);
        let rules = NestedRules::from_snapshot(&snapshot);
        Self { snapshot, rules, costs, pruned, cut, factor, before }
    }

    pub(super) fn to_provider_tokens(&self, base: u64) -> u64 {
        (base as f64 * self.factor).ceil() as u64
    }

    /// Converts provider tokens to base tokens.
    pub(super) fn to_base_tokens(&self, real: u64) -> Tokens {
        Tokens((real as f64 / self.factor) as u64)
    }

    /// Returns the tokens that no compaction frees: system prompt, tools and all rules.
    pub(super) fn floor(&self) -> Tokens {
        Tokens(self.to_provider_tokens(self.snapshot.request.floor.total().0 + self.rules.cost))
    }

    pub(super) fn freed_by_pruning(&self) -> Tokens {
        let pruned = self.costs.iter().sum::<u64>().saturating_sub(self.pruned.iter().sum());
        Tokens(self.to_provider_tokens(pruned + self.cut))
    }

    /// Returns the size of the view after pruning and cutting inputs alone.
    pub(super) fn after_pruning(&self) -> Tokens {
        Tokens(self.before.0.saturating_sub(self.freed_by_pruning().0))
    }

    /// True if something can be pruned or cut, and that frees at least a quarter of the context.
    pub(super) fn pruning_pays(&self) -> bool {
        let outputs = &self.snapshot.outputs;
        let can = outputs.inputs.is_some() || !outputs.prunable.is_empty();
        can && self.freed_by_pruning().0 * 4 >= self.before.0
    }

    /// Returns the maximum size of the state text at a level, in base tokens.
    pub(super) fn state_limit(&self, level: usize) -> Tokens {
        let share = [0.12, 0.06, 0.03, 0.03, 0.03][level.min(LEVELS - 1)];
        self.to_base_tokens(part_of(self.snapshot.request.budget.usable(), share))
    }

    /// Returns the size in tokens of the largest view that is accepted; `None` if the floor alone is too large.
    pub(super) fn target(&self) -> Option<Tokens> {
        target(self.before, self.floor(), self.snapshot.request.budget.usable())
    }

    /// Returns the current size of each category.
    pub(super) fn breakdown(&self) -> Breakdown {
        let (summary, state, files) = self.snapshot.previous.as_ref().map_or((0, 0, 0), |p| {
            let (state, files) = split_files(&p.state);
            (estimate_text(&p.summary).0 + SUMMARY_FRAME, estimate_text(state).0, estimate_text(files).0)
        });
        let given: u64 = self.rules.messages.iter().map(|i| self.costs[*i]).sum();
        let carried = self.snapshot.previous.as_ref().map_or(0, |p| nested_rules::cost(&p.rules));
        Breakdown {
            summary: Tokens(self.to_provider_tokens(summary)),
            state: Tokens(self.to_provider_tokens(state)),
            files: Tokens(self.to_provider_tokens(files)),
            tail: Tokens(self.to_provider_tokens(self.costs.iter().sum::<u64>() + self.cut - given)),
            ..self.frame(given + carried)
        }
    }

    /// Returns the sizes of system prompt, rules, skills and tools. `nested_rules`: base tokens of the rules files below the working
    /// directory.
    fn frame(&self, nested_rules: u64) -> Breakdown {
        let floor = &self.snapshot.request.floor;
        Breakdown {
            window: Tokens(self.snapshot.request.budget.window),
            usable: Tokens(self.snapshot.request.budget.usable()),
            system: Tokens(self.to_provider_tokens(floor.system.0)),
            rules: Tokens(self.to_provider_tokens(floor.rules.0 + nested_rules)),
            skills: Tokens(self.to_provider_tokens(floor.skills.0)),
            tools: Tokens(self.to_provider_tokens(floor.tools.0)),
            ..Breakdown::default()
        }
    }
}

/// Returns the base tokens of a message in which some outputs are stubs and some media are text.
fn cost<'a>(
    message: &Message,
    stub: &dyn Fn(&CallId) -> Option<&'a str>,
    cuts: &HashMap<CallId, CutOutput>,
    media: &HashSet<(MessageId, u32)>,
) -> u64 {
    let part = |(index, part): (usize, &Part)| match part {
        Part::ToolResult { call_id, name, output, .. } => match stub(call_id) {
            Some(excerpt) => {
                estimate_text(&prune::stub(call_id, name, output.len() as u64, 0, excerpt)).0 + MESSAGE_FRAME
            }
            None => cut::tokens(part, cuts.get(call_id)),
        },
        Part::Image { .. } | Part::File { .. } if media.contains(&(message.id, index as u32)) => PLACEHOLDER,
        _ => estimate_part(part).0,
    };
    MESSAGE_FRAME + message.parts.iter().enumerate().map(part).sum::<u64>()
}

/// The division of the history at one level. Indices refer to the snapshot's messages and are ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) level: usize,
    /// Index of the first message of the tail.
    pub(super) at: usize,
    pub(super) head: Vec<usize>,
    /// Messages before the cut that stay: pinned ones, the user's last message.
    pub(super) kept: Vec<usize>,
    pub(super) tail: Vec<usize>,
    /// Index of the unanswered prompt that leaves the view because the continuation repeats it.
    pub(super) taken_out: Option<usize>,
    pub(super) unseen: Shortened,
    /// Messages with rules at or after the cut. Their text is shown after the summary instead.
    pub(super) rules_out: Vec<usize>,
    /// Images and files that become a line of text, as message and index of the part.
    pub(super) media: Vec<(MessageId, u32)>,
    pub(super) costs: LayoutCosts,
    /// Text of the state message (todo list, loaded skills and the like), within the limit of this level.
    pub(super) state: String,
    /// The user's messages that are no longer in the view, quoted in a block after the summary's sections.
    pub(super) quotes: String,
}

/// The effect of a layout on the outputs that the model has not answered yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shortened {
    /// Outputs of the unanswered step that are shortened.
    pub(super) cuts: Vec<CutOutput>,
    /// True if a smaller tail or summary would leave more space for these outputs, so that the next level is tried.
    pub(super) squeezed: bool,
    /// True if the new view would show nothing that the model has not seen yet.
    pub(super) blind: bool,
}

/// Base tokens of the messages that a layout keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LayoutCosts {
    /// Messages before the cut that stay.
    pub(super) kept: u64,
    pub(super) tail: u64,
    pub(super) continuation: u64,
}

impl LayoutCosts {
    fn total(self) -> u64 {
        self.kept + self.tail + self.continuation
    }
}

impl Layout {
    /// Returns the base tokens of everything in this layout except the summary's own text.
    pub(super) fn fixed(&self) -> u64 {
        self.costs.total() + estimate_text(&self.state).0 + estimate_text(&self.quotes).0
    }
}

impl Measured {
    /// Returns the texts that a request shows in addition to the summary. Outputs that are cut count with their beginning and end.
    pub(super) fn shown_texts(&self, layout: &Layout) -> ShownTexts {
        let snapshot = &self.snapshot;
        let hidden: HashSet<&CallId> =
            snapshot.outputs.prunable.iter().map(|p| &p.call_id).chain(&snapshot.outputs.stubs).collect();
        let cut = |call: &CallId| {
            layout
                .unseen
                .cuts
                .iter()
                .find(|cut| cut.call_id == *call)
                .or_else(|| snapshot.outputs.cuts.get(call))
        };
        let mut shown = ShownTexts::default();
        for at in layout.kept.iter().chain(&layout.tail).chain(&layout.taken_out) {
            for part in snapshot.messages.get(*at).into_iter().flat_map(|message| &message.parts) {
                match part {
                    Part::Text { text, .. } => shown.learn(text),
                    Part::ToolResult { call_id, output, .. } if !hidden.contains(call_id) => {
                        match cut(call_id) {
                            Some(cut) => {
                                shown.learn(cut_end(output, cut.head as usize));
                                shown.learn(cut_start(output, cut.tail as usize));
                            }
                            None => shown.learn(output),
                        }
                    }
                    _ => {}
                }
            }
        }
        shown.learn(&layout.quotes);
        shown
    }

    /// Divides the history at a level.
    pub(super) fn layout(&self, level: usize) -> Layout {
        self.layout_until(level, usize::MAX)
    }

    /// Divides the history at a level. The tail begins at `end` or earlier; `end` must be a border ([`split::borders`]).
    pub(super) fn layout_until(&self, level: usize, end: usize) -> Layout {
        let messages = &self.snapshot.messages;
        let user = last_user(messages);
        let idle = self.snapshot.turn_state == TurnState::AwaitingUser;
        let branch = branch(messages);
        let taken_out = user.filter(|_| !idle && branch == Branch::Unanswered);
        let stays: BTreeSet<usize> =
            user.into_iter().chain(self.pinned()).filter(|i| Some(*i) != taken_out).collect();
        let leaves = |i: usize| Some(i) == taken_out || self.rules.holds(i);
        let costs: Vec<u64> = (0..messages.len())
            .map(
                |i| if stays.contains(&i) || leaves(i) { 0 } else { self.to_provider_tokens(self.pruned[i]) },
            )
            .collect();
        let at = split::cut(messages, &costs, self.tail(level)).min(end);
        let kept: Vec<usize> = stays.range(..at).copied().collect();
        let head = (0..at).filter(|i| !stays.contains(i) && !leaves(*i)).collect();
        let tail: Vec<usize> = (at..messages.len()).filter(|i| !leaves(*i)).collect();
        let rules_out = self.rules.messages.iter().copied().filter(|i| *i >= at).collect();
        let media =
            self.media_to_text(level, &kept, &tail, user.filter(|_| !idle && branch == Branch::Media));
        let gone: HashSet<(MessageId, u32)> = media.iter().copied().collect();
        let sum =
            |indices: &[usize]| indices.iter().map(|i| self.pruned[*i] - self.media_cost(*i, &gone)).sum();
        let next = self.next_message(level);
        let mut layout = Layout {
            level,
            at,
            head,
            costs: LayoutCosts {
                kept: sum(&kept),
                tail: sum(&tail),
                continuation: next.map_or(0, |m| estimate_message(&m).0),
            },
            kept,
            tail,
            taken_out,
            rules_out,
            media,
            state: state_text(&self.snapshot.state, self.state_limit(level)),
            ..Layout::default()
        };
        layout.quotes = self.quotes(&layout);
        self.fit_unseen(&mut layout);
        layout
    }

    /// Quotes the user's messages that leave the view, within their share of the window and within a third of the available space. Outputs
    /// that the model has not answered yet do not reduce that space: they are cut instead.
    fn quotes(&self, layout: &Layout) -> String {
        let leaving: HashSet<usize> = layout.head.iter().copied().collect();
        let previous = self.snapshot.previous.as_ref().map(|previous| previous.summary.as_str());
        let quotes = Quotes::new(previous, &self.snapshot.messages, |index| leaving.contains(&index));
        let share = self.to_base_tokens(part_of(
            self.snapshot.request.budget.usable(),
            QUOTES_SHARE[layout.level.min(LEVELS - 1)],
        ));
        let unseen: u64 = self.unseen_outputs(&layout.tail).map(|output| output.tokens).sum();
        let fixed = self.to_provider_tokens(self.fixed(layout).saturating_sub(unseen));
        let space = self.target_at(layout.level).and_then(|target| target.0.checked_sub(fixed));
        let room = space.map_or(0, |space| self.to_base_tokens(space).0 / 3);
        quotes.block(Tokens(share.0.min(room)))
    }

    fn tail(&self, level: usize) -> Tail {
        let usable = self.snapshot.request.budget.usable();
        let tokens = self
            .snapshot
            .policy
            .keep_recent_tokens
            .unwrap_or_else(|| (usable / 10).clamp(1_000, 8_000))
            .min(usable);
        match level {
            0 => Tail { turns: self.snapshot.policy.tail_turns, tokens },
            1 => Tail { turns: 1, tokens: tokens / 2 },
            _ => Tail { turns: 0, tokens: 0 },
        }
    }

    /// Returns pinned messages and calls, each with the call or results that belong to it.
    fn pinned(&self) -> Vec<usize> {
        let Snapshot { messages, pins, .. } = &self.snapshot;
        (0..messages.len())
            .filter(|i| {
                let m = &messages[*i];
                pins.messages.contains(&m.id) || m.result_of().is_some_and(|c| pins.calls.contains(c))
            })
            .flat_map(|i| unit(messages, i))
            .collect()
    }

    /// Returns the media that the new view shows as text: those of the user's last message if it was answered, and from level 1 on all
    /// answered ones. At the last level also those that the model has not answered yet.
    fn media_to_text(
        &self,
        level: usize,
        kept: &[usize],
        tail: &[usize],
        user: Option<usize>,
    ) -> Vec<(MessageId, u32)> {
        let new = if level + 1 < LEVELS { self.unseen_media() } else { HashSet::new() };
        kept.iter()
            .chain(tail)
            .filter(|i| Some(**i) == user || level > 0)
            .flat_map(|i| {
                let m = &self.snapshot.messages[*i];
                m.parts.iter().enumerate().filter(|(_, p)| p.is_media()).map(|(n, _)| (m.id, n as u32))
            })
            .filter(|media| !new.contains(media))
            .collect()
    }

    /// Returns the base tokens saved by showing the media of message `index` as text; 0 for media that
    /// already are.
    fn media_cost(&self, index: usize, gone: &HashSet<(MessageId, u32)>) -> u64 {
        let m = &self.snapshot.messages[index];
        let already = |n: u32| self.snapshot.previous.as_ref().is_some_and(|p| p.media.contains(&(m.id, n)));
        let saved = m
            .parts
            .iter()
            .enumerate()
            .filter(|(n, _)| gone.contains(&(m.id, *n as u32)) && !already(*n as u32));
        saved.map(|(_, p)| estimate_part(p).0.saturating_sub(PLACEHOLDER)).sum()
    }

    /// True if a message worth summarising leaves the view at this level. The message with which an earlier compaction continued the turn
    /// is not, unless it repeats words of the user.
    pub(super) fn summarises(&self, layout: &Layout) -> bool {
        layout
            .head
            .iter()
            .map(|i| &self.snapshot.messages[*i])
            .any(|message| !message.metadata.compaction_continue || is_users_words(message))
    }

    /// Returns the base tokens that the summary with its anchor may take at this level; `None` if this level
    /// cannot free enough.
    pub(super) fn room(&self, layout: &Layout) -> Option<Tokens> {
        if layout.head.is_empty() && self.snapshot.previous.is_none() {
            return None;
        }
        let target = self.target_at(layout.level).filter(|_| !layout.unseen.squeezed)?;
        let fixed = self.to_provider_tokens(self.fixed(layout));
        let room = self.to_base_tokens(target.0.checked_sub(fixed)?);
        (room.0 >= MIN_SUMMARY).then(|| room.min(self.most()))
    }

    /// Returns the base tokens of everything in the new view except the summary.
    pub(super) fn fixed(&self, layout: &Layout) -> u64 {
        self.snapshot.request.floor.total().0 + self.rules.cost + layout.fixed() + SUMMARY_FRAME
    }

    /// Returns the base tokens that are reserved for the summary at a level when unanswered outputs are fitted into the view.
    pub(super) fn reserved(&self, level: usize) -> u64 {
        let most = self.most().0;
        [most, most / 2, most / 4, MIN_SUMMARY, MIN_SUMMARY][level.min(LEVELS - 1)].max(MIN_SUMMARY)
    }

    /// Returns the maximum size of a summary in base tokens.
    pub(super) fn most(&self) -> Tokens {
        self.to_base_tokens(part_of(self.snapshot.request.budget.usable(), 0.15).clamp(400, 6_000))
    }

    /// Returns the size of each category after a compaction with this layout and summary.
    pub(super) fn breakdown_after(&self, layout: &Layout, summary: &str) -> Breakdown {
        Breakdown {
            summary: Tokens(self.to_provider_tokens(estimate_text(summary).0 + SUMMARY_FRAME)),
            state: Tokens(self.to_provider_tokens(estimate_text(&layout.state).0)),
            kept: Tokens(self.to_provider_tokens(layout.costs.kept)),
            tail: Tokens(self.to_provider_tokens(layout.costs.tail)),
            continuation: Tokens(self.to_provider_tokens(layout.costs.continuation)),
            ..self.frame(self.rules.cost)
        }
    }
}
