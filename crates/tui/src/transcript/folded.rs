//! What compactions took out and people have seen: for their blocks, and to be brought back.
//!
//! Where all that was said is here, the blocks say it. Where it is not, the host goes through the session with [`Folds`].

use super::Transcript;
use super::block::{Block, Body};
use super::compaction::{Compaction, Known};
use becket_types::{Event, MessageId, Seq};

/// Messages that compactions folded away.
#[derive(Debug, PartialEq, Eq)]
pub enum Folded {
    /// A line each, oldest first.
    Here(Vec<(Seq, String)>),
    /// It is to be asked for: of this compaction, or of all.
    Ask(Option<Seq>),
}

impl Transcript {
    /// Compactions whose loss came into view since this was asked last.
    pub fn losses(&mut self) -> Vec<Seq> {
        std::mem::take(&mut self.losses)
    }

    /// Compactions that came into view and of which it is not known what they took out.
    pub fn wanted_folds(&mut self) -> Vec<Seq> {
        std::mem::take(&mut self.folds_wanted)
    }

    /// What is known now of what this compaction lost.
    pub fn loss_is(&mut self, entry: Seq, known: Known) {
        self.change_compaction(entry, |compaction| compaction.loss = known);
    }

    /// What this compaction took out.
    pub fn folded_is(&mut self, entry: Seq, folded: Vec<(Seq, String)>) {
        self.change_compaction(entry, |compaction| {
            compaction.dropped = folded;
            compaction.whole = true;
        });
    }

    pub(super) fn change_compaction(&mut self, entry: Seq, change: impl FnOnce(&mut Compaction)) {
        let is = |block: &Block| matches!(block.body(), Body::Compaction(c) if c.entry == entry);
        if let Some(at) = self.blocks.iter().rposition(is) {
            self.blocks[at].change(|body| {
                if let Body::Compaction(compaction) = body {
                    change(compaction);
                }
            });
        }
    }

    /// Compactions that are in force; of the block in focus alone, if that is one.
    fn in_question(&self) -> impl Iterator<Item = &Compaction> {
        let blocks = self.focus.map_or(0..self.blocks.len(), |at| at..at + 1);
        self.blocks[blocks].iter().filter_map(|block| match block.body() {
            Body::Compaction(compaction) if !compaction.undone => Some(compaction),
            _ => None,
        })
    }

    /// Whether there may be messages to bring back.
    pub fn may_bring_back(&self) -> bool {
        self.in_question().any(|compaction| !compaction.whole || !compaction.dropped.is_empty())
    }

    /// Messages that compactions folded away; of the block in focus alone, if that is one.
    pub fn folded(&self) -> Folded {
        let all_here = self.in_question().all(|compaction| compaction.whole);
        if self.focus.is_some() && !all_here {
            return Folded::Ask(self.in_question().next().map(|compaction| compaction.entry));
        }
        if !all_here || self.focus.is_none() && self.has_gaps() {
            return Folded::Ask(None);
        }
        Folded::Here(joined(self.in_question().flat_map(|compaction| &compaction.dropped)))
    }
}

/// A thought and the answer behind it are one message.
fn joined<'a>(lines: impl Iterator<Item = &'a (Seq, String)>) -> Vec<(Seq, String)> {
    let mut folded: Vec<(Seq, String)> = Vec::new();
    for (seq, line) in lines {
        match folded.last_mut() {
            Some((last, said)) if last == seq => {
                said.push_str(" · ");
                said.push_str(line);
            }
            _ => folded.push((*seq, line.clone())),
        }
    }
    folded
}

/// What the compactions of a session took out, from its events in order, a stretch at a time: a line of each message.
#[derive(Debug, Default)]
pub struct Folds {
    said: Vec<(Seq, MessageId, String)>,
    compacted_to: Seq,
    of: Vec<Fold>,
}

#[derive(Debug)]
struct Fold {
    entry: Seq,
    since: Seq,
    undone: bool,
    dropped: Vec<(Seq, String)>,
}

impl Folds {
    /// The events of the next stretch.
    pub fn take(&mut self, events: &[Event]) {
        let mut here = Transcript::new();
        let mut seen = 0;
        for event in events {
            match event {
                Event::CompactBoundary { entry, tail_from, kept, .. } => {
                    self.see(&here, &mut seen);
                    self.compaction(*entry, *tail_from, kept);
                }
                Event::CompactionReverted { entry, counts } => {
                    if let Some(fold) = self.of.iter_mut().find(|fold| fold.entry == *entry) {
                        fold.undone = !counts;
                        self.compacted_to = if *counts { self.compacted_to } else { fold.since };
                    }
                }
                _ => {}
            }
            here.event(event);
        }
        self.see(&here, &mut seen);
    }

    fn see(&mut self, here: &Transcript, seen: &mut usize) {
        for block in &here.blocks[*seen..] {
            if let Some((seq, id)) = block.message().filter(|_| block.is_told(false)) {
                self.said.push((seq, id, block.headline()));
            }
        }
        *seen = here.blocks.len();
    }

    fn compaction(&mut self, entry: Seq, tail_from: Seq, kept: &[MessageId]) {
        let since = self.compacted_to;
        self.compacted_to = since.max(tail_from);
        let out = |(seq, id, line): &(Seq, MessageId, String)| {
            (*seq >= since && *seq < tail_from && !kept.contains(id)).then(|| (*seq, line.clone()))
        };
        let dropped = self.said.iter().filter_map(out).collect();
        self.of.push(Fold { entry, since, undone: false, dropped });
    }

    /// Of this compaction, or of all that are in force.
    pub fn folded(&self, of: Option<Seq>) -> Vec<(Seq, String)> {
        let is = |fold: &&Fold| of.map_or(!fold.undone, |entry| fold.entry == entry);
        joined(self.of.iter().filter(is).flat_map(|fold| &fold.dropped))
    }
}
