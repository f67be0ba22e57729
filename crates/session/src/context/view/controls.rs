//! The entries that change how other entries are shown, and their combined effect.
//!
//! [`Controls`] keeps them in ledger order; [`Effects`] is what those in force add up to. Invariant: the effects are those of the
//! controls that no revert has cancelled, applied in order.
//!
//! Does not know which messages are live: compactions and restores are applied to them in [`super::live`].

use super::log::Slot;
use super::shape::Mark;
use becket_types::{
    CallId, Compaction, CutInput, CutOutput, Message, MessageId, Millis, PinTarget, PrunedCall, Seq,
};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// An entry that changes how other entries are shown.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) seq: Seq,
    pub(super) time: Millis,
    pub(super) act: Act,
}

#[derive(Debug)]
pub(super) enum Act {
    Prune {
        calls: Vec<PrunedCall>,
        media: Vec<(MessageId, u32)>,
        cuts: Vec<CutOutput>,
    },
    CutInputs(Vec<CutInput>),
    Compaction(Arc<Compaction>),
    Revert(Seq),
    Pin(PinTarget),
    Restore(Vec<MessageId>),
    Remind(MessageId),
    /// A continuation that repeats a message.
    Repeat(RepeatedPrompt),
}

/// A continuation that repeats a user message. It inherits that message's pin and is reverted with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RepeatedPrompt {
    pub(super) id: MessageId,
    /// The compaction after which it was appended.
    pub(super) of: Seq,
    /// The message that it repeats, and the entry of that message.
    pub(super) said: MessageId,
    pub(super) said_at: Seq,
}

/// The combined effect of all controls in force.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Entries that reverts have cancelled.
    pub(super) dead: HashSet<Seq>,
    pub(super) wrapped: HashSet<MessageId>,
    pub(super) pruned: HashMap<CallId, Mark>,
    /// Outputs that are shown shortened. A stub takes precedence.
    cuts: HashMap<CallId, CutOutput>,
    /// Inputs of calls that are shown shortened.
    inputs: HashMap<CallId, CutInput>,
    /// Media parts shown as text, with the entry that decided it. It applies only to messages before that
    /// entry.
    media: HashMap<(MessageId, u32), Seq>,
    pub(super) pinned_messages: HashSet<MessageId>,
    /// Messages that a continuation repeats, with the id of that continuation. A pin on the message applies to the continuation too.
    pub(super) repeated: HashMap<MessageId, MessageId>,
    /// Continuations that repeat a message, with the entry of that message.
    said: HashMap<MessageId, Seq>,
    pub(super) pinned_calls: HashSet<CallId>,
    pub(super) compaction: Option<(Seq, Arc<Compaction>)>,
}

impl Effects {
    /// Returns no effects except that these entries are cancelled.
    pub(super) fn without(dead: HashSet<Seq>) -> Self {
        Self { dead, ..Self::default() }
    }

    /// True if the message is in force: neither it nor the compaction whose continuation it is was reverted.
    pub(super) fn counts(&self, slot: &Slot) -> bool {
        !self.dead.contains(&slot.seq) && slot.owner.is_none_or(|seq| !self.dead.contains(&seq))
    }

    pub(super) fn is_dead(&self, seq: Seq) -> bool {
        self.dead.contains(&seq)
    }

    /// True if a call's output is a stub in the view.
    pub(super) fn is_pruned(&self, id: &CallId) -> bool {
        self.pruned.contains_key(id) && !self.pinned_calls.contains(id)
    }

    /// Returns the cut of a call's output, if the view shows only its beginning and end.
    pub(super) fn cut_of(&self, id: &CallId) -> Option<&CutOutput> {
        let shown = !self.pinned_calls.contains(id) && !self.pruned.contains_key(id);
        self.cuts.get(id).filter(|_| shown)
    }

    /// Returns the cuts of outputs that the model first saw shortened, including outputs that have left the
    /// view since.
    pub(super) fn cuts(&self) -> impl Iterator<Item = &CutOutput> {
        self.cuts.values().filter(|cut| !self.pinned_calls.contains(&cut.call_id))
    }

    /// Returns how a call's input is shortened in the view; `None` if it is shown whole.
    pub(super) fn input_of(&self, id: &CallId) -> Option<&CutInput> {
        self.inputs.get(id)
    }

    /// True if the view shows only a part of an input of this message's calls.
    pub(super) fn cuts_inputs(&self, message: &Message) -> bool {
        !self.inputs.is_empty() && message.call_ids().any(|id| self.inputs.contains_key(id))
    }

    /// True if a media part of the message in entry `seq` is shown as text.
    pub(super) fn is_text(&self, message: MessageId, part: u32, seq: Seq) -> bool {
        self.media.get(&(message, part)).is_some_and(|by| seq < *by)
    }

    /// Returns the entry in which the user first wrote the words of this message: for a continuation that repeats a message, the entry of
    /// that message; otherwise the message's own.
    pub(super) fn said_at(&self, message: &Message) -> Seq {
        self.said.get(&message.id).copied().unwrap_or(message.seq)
    }

    pub(super) fn enact(&mut self, control: &Control) {
        match &control.act {
            Act::Prune { calls, media, cuts } => {
                self.stub(calls, media, control);
                self.cut(cuts);
            }
            Act::CutInputs(inputs) => {
                self.inputs.extend(inputs.iter().map(|cut| (cut.call_id.clone(), cut.clone())));
            }
            Act::Compaction(compaction) => {
                self.stub(&compaction.shortened.pruned, &compaction.shortened.media, control);
                self.cut(&compaction.shortened.cuts);
                self.compaction = Some((control.seq, Arc::clone(compaction)));
            }
            Act::Pin(PinTarget::Message(id)) => {
                self.pinned_messages.insert(*id);
            }
            Act::Pin(PinTarget::Call(id)) => {
                self.pinned_calls.insert(id.clone());
            }
            Act::Remind(id) => {
                self.wrapped.insert(*id);
            }
            Act::Repeat(repeated) => self.repeat(*repeated),
            Act::Revert(_) | Act::Restore(_) => {}
        }
    }

    fn repeat(&mut self, repeated: RepeatedPrompt) {
        self.said.insert(repeated.id, repeated.said_at);
        let taken = self.compaction.as_ref().is_some_and(|(seq, compaction)| {
            *seq == repeated.of && compaction.retained.taken_out.contains(&repeated.said)
        });
        if taken && self.pinned_messages.contains(&repeated.said) {
            self.repeated.insert(repeated.said, repeated.id);
            self.pinned_messages.insert(repeated.id);
        }
    }

    /// A newer cut of the same output replaces an earlier one, because a later compaction may have less space for the same step.
    fn cut(&mut self, cuts: &[CutOutput]) {
        self.cuts.extend(cuts.iter().map(|cut| (cut.call_id.clone(), cut.clone())));
    }

    fn stub(&mut self, calls: &[PrunedCall], media: &[(MessageId, u32)], control: &Control) {
        for call in calls {
            self.pruned.entry(call.call_id.clone()).or_insert_with(|| Mark {
                bytes: call.bytes,
                lines: call.lines,
                excerpt: call.excerpt.clone(),
                at: control.time,
            });
        }
        for at in media {
            self.media.insert(*at, control.seq);
        }
    }
}

/// All controls of a ledger, in its order, and the effects of those in force.
#[derive(Debug, Default)]
pub(super) struct Controls {
    pub(super) list: Vec<Control>,
    pub(super) effects: Effects,
}

impl Controls {
    /// Makes the controls of a restored view.
    pub(super) fn new(list: Vec<Control>) -> Self {
        let mut controls = Self { list, effects: Effects::default() };
        controls.enact_all();
        controls
    }

    pub(super) fn push(&mut self, control: Control) {
        self.effects.enact(&control);
        self.list.push(control);
    }

    pub(super) fn last_compaction(&self) -> Option<Seq> {
        self.list.iter().rev().find(|c| matches!(c.act, Act::Compaction(_))).map(|c| c.seq)
    }

    pub(super) fn find(&self, seq: Seq) -> Option<&Control> {
        self.list.binary_search_by_key(&seq, |control| control.seq).ok().map(|at| &self.list[at])
    }

    /// True if the effect of a compaction can depend on this entry: a message, a compaction, a pin, a restore, or a continuation that
    /// repeats a message. Other controls only change how messages are shown.
    fn decides(&self, seq: Seq) -> bool {
        self.find(seq).is_none_or(|control| {
            matches!(control.act, Act::Compaction(_) | Act::Pin(_) | Act::Restore(_) | Act::Repeat(..))
        })
    }

    /// Combines all controls except reverted ones.
    fn enact_all(&mut self) {
        let mut dead = HashSet::new();
        for control in self.list.iter().rev() {
            if let Act::Revert(target) = control.act
                && !dead.contains(&control.seq)
            {
                dead.insert(target);
            }
        }
        // If a message was reverted, the continuation that repeats it is cancelled too.
        for control in &self.list {
            if let Act::Repeat(repeated) = control.act
                && dead.contains(&repeated.said_at)
            {
                dead.insert(control.seq);
            }
        }
        self.effects = Effects::without(dead);
        for control in &self.list {
            if !self.effects.is_dead(control.seq) {
                self.effects.enact(control);
            }
        }
    }

    /// Combines the controls again after a revert was added.
    pub(super) fn revise(&mut self) -> Revision {
        let before = std::mem::take(&mut self.effects).dead;
        self.enact_all();
        let dead = &self.effects.dead;
        let changed = before.symmetric_difference(dead).copied();
        let mut since = changed.filter(|seq| self.decides(*seq)).min().unwrap_or(Seq(u64::MAX));
        // A restored message was removed by an earlier compaction, so all compactions are applied again.
        if self.list.iter().any(|c| c.seq >= since && matches!(c.act, Act::Restore(_))) {
            since = Seq(0);
        }
        Revision { since, revived: !before.is_subset(dead) }
    }
}

/// The consequences of a revert for the compactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Revision {
    /// The earliest entry from which compactions and restores must be applied again.
    pub(super) since: Seq,
    /// True if an entry that was cancelled is in force again.
    pub(super) revived: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(seq: u64, act: Act) -> Control {
        Control { seq: Seq(seq), time: Millis(seq), act }
    }

    fn prune(call: &str) -> Act {
        let calls = vec![PrunedCall { call_id: call.into(), bytes: 9, lines: 1, excerpt: String::new() }];
        Act::Prune { calls, media: Vec::new(), cuts: Vec::new() }
    }

    fn cut(call: &str) -> Act {
        let cut = CutOutput { call_id: call.into(), bytes: 9, lines: 1, head: 1, tail: 1 };
        Act::Prune { calls: Vec::new(), media: Vec::new(), cuts: vec![cut] }
    }

    #[test]
    fn a_pin_shows_an_output_whole_and_a_stub_takes_precedence_over_a_cut() {
        let mut controls = Controls::default();
        controls.push(control(1, cut("a")));
        controls.push(control(2, cut("b")));
        controls.push(control(3, prune("b")));
        let (a, b) = (CallId::from("a"), CallId::from("b"));
        let effects = &controls.effects;
        assert!(effects.cut_of(&a).is_some() && !effects.is_pruned(&a));
        assert!(effects.cut_of(&b).is_none() && effects.is_pruned(&b));
        controls.push(control(4, Act::Pin(PinTarget::Call(b.clone()))));
        let effects = &controls.effects;
        assert!(effects.cut_of(&b).is_none() && !effects.is_pruned(&b));
        assert_eq!(effects.cuts().map(|cut| &cut.call_id).collect::<Vec<_>>(), [&a]);
    }

    #[test]
    fn a_revert_of_a_revert_brings_the_entry_back() {
        let mut controls = Controls::default();
        controls.push(control(1, prune("a")));
        let id = CallId::from("a");
        controls.push(control(2, Act::Revert(Seq(1))));
        assert_eq!(controls.revise(), Revision { since: Seq(u64::MAX), revived: false });
        assert!(!controls.effects.is_pruned(&id) && controls.effects.is_dead(Seq(1)));
        controls.push(control(3, Act::Revert(Seq(2))));
        assert_eq!(controls.revise(), Revision { since: Seq(u64::MAX), revived: true });
        assert!(controls.effects.is_pruned(&id));
    }
}
