//! Visible messages that compactions removed from the context: listed in the compactions' blocks, and offered to be
//! brought back.
//!
//! If the whole session is in memory, the blocks answer. Otherwise the host reads the session through [`RemovedMessages`].

use super::block::{Block, Body};
use super::blocks::Blocks;
use super::compaction::Compaction;
use becket_types::{Event, MessageId, Seq};

/// Messages that compactions removed.
#[derive(Debug, PartialEq, Eq)]
pub enum Removed {
    /// Known: entry numbers with one line of each message, oldest first.
    Here(Vec<(Seq, String)>),
    /// Unknown: the host must be asked, about this compaction or about all.
    Ask(Option<Seq>),
}

impl Blocks {
    pub(super) fn change_compaction(&mut self, entry: Seq, change: impl FnOnce(&mut Compaction)) {
        let is = |block: &Block| matches!(block.body(), Body::Compaction(c) if c.entry == entry);
        if let Some(at) = self.iter().rposition(is) {
            self[at].change(|body| {
                if let Body::Compaction(compaction) = body {
                    change(compaction);
                }
            });
        }
    }

    /// Returns the compactions that are not undone; if a block has focus, only that block's.
    fn in_question(&self, focus: Option<usize>) -> impl Iterator<Item = &Compaction> {
        let blocks = focus.map_or(0..self.len(), |at| at..at + 1);
        self[blocks].iter().filter_map(|block| match block.body() {
            Body::Compaction(compaction) if !compaction.undone => Some(compaction),
            _ => None,
        })
    }

    /// True if there may be messages to bring back.
    pub(super) fn may_bring_back(&self, focus: Option<usize>) -> bool {
        self.in_question(focus).any(|compaction| !compaction.whole || !compaction.dropped.is_empty())
    }

    /// Returns the messages that compactions removed. If a block has focus, only those of that block's compaction.
    pub(super) fn removed(&self, focus: Option<usize>) -> Removed {
        let all_here = self.in_question(focus).all(|compaction| compaction.whole);
        if focus.is_some() && !all_here {
            return Removed::Ask(self.in_question(focus).next().map(|compaction| compaction.entry));
        }
        if !all_here || focus.is_none() && self.gaps().next().is_some() {
            return Removed::Ask(None);
        }
        Removed::Here(joined(self.in_question(focus).flat_map(|compaction| &compaction.dropped)))
    }
}

/// Joins a thought and the answer after it, which are one message.
fn joined<'a>(lines: impl Iterator<Item = &'a (Seq, String)>) -> Vec<(Seq, String)> {
    let mut removed: Vec<(Seq, String)> = Vec::new();
    for (seq, line) in lines {
        match removed.last_mut() {
            Some((last, said)) if last == seq => {
                said.push_str(" · ");
                said.push_str(line);
            }
            _ => removed.push((*seq, line.clone())),
        }
    }
    removed
}

/// Collects the messages that the compactions of a session removed, one line each. Takes the session's events in order,
/// one range at a time.
#[derive(Debug, Default)]
pub struct RemovedMessages {
    said: Vec<(Seq, MessageId, String)>,
    compacted_to: Seq,
    of: Vec<CompactionRecord>,
}

#[derive(Debug)]
struct CompactionRecord {
    entry: Seq,
    since: Seq,
    undone: bool,
    dropped: Vec<(Seq, String)>,
}

impl RemovedMessages {
    /// Takes the events of the next range.
    pub fn take(&mut self, events: &[Event]) {
        let mut here = Blocks::default();
        let mut seen = 0;
        for event in events {
            match event {
                Event::CompactBoundary { entry, tail_from, kept, .. } => {
                    self.see(&here, &mut seen);
                    self.compaction(*entry, *tail_from, kept);
                }
                Event::CompactionReverted { entry, counts } => {
                    if let Some(record) = self.of.iter_mut().find(|record| record.entry == *entry) {
                        record.undone = !counts;
                        self.compacted_to = if *counts { self.compacted_to } else { record.since };
                    }
                }
                _ => {}
            }
            here.event(event);
        }
        self.see(&here, &mut seen);
    }

    fn see(&mut self, here: &Blocks, seen: &mut usize) {
        for block in &here[*seen..] {
            if let Some((seq, id)) = block.message().filter(|_| block.is_told(false)) {
                self.said.push((seq, id, block.headline()));
            }
        }
        *seen = here.len();
    }

    fn compaction(&mut self, entry: Seq, tail_from: Seq, kept: &[MessageId]) {
        let since = self.compacted_to;
        self.compacted_to = since.max(tail_from);
        let out = |(seq, id, line): &(Seq, MessageId, String)| {
            (*seq >= since && *seq < tail_from && !kept.contains(id)).then(|| (*seq, line.clone()))
        };
        let dropped = self.said.iter().filter_map(out).collect();
        self.of.push(CompactionRecord { entry, since, undone: false, dropped });
    }

    /// Returns the messages removed by this compaction, or by all compactions that are not undone.
    pub fn removed(&self, of: Option<Seq>) -> Vec<(Seq, String)> {
        let is = |record: &&CompactionRecord| of.map_or(!record.undone, |entry| record.entry == entry);
        joined(self.of.iter().filter(is).flat_map(|record| &record.dropped))
    }
}
