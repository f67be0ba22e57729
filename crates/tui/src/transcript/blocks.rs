//! The blocks of a session, newest at the end, with the indices by which events find them.
//!
//! Events become blocks in `events`; `removed` answers what compactions removed. Knows no window, and draws nothing.
//!
//! Invariant: an index names the block of its call or part, also after blocks were replaced ([`Blocks::replace`]).

use super::block::{Block, Body};
use super::call_view::CallView;
use super::gap::{Gap, State as GapState};
use super::image::State as ImageState;
use super::long_answer::{self, LongAnswer};
use super::tool::{State, ToolCall};
use becket_types::{BlobId, CallId, MessageId, Seq};
use std::collections::{BTreeSet, HashMap};
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::Arc;

/// The blocks, and the progress of the events that they come from.
#[derive(Default)]
pub(super) struct Blocks {
    list: Vec<Block>,
    calls: HashMap<CallId, usize>,
    /// Streaming parts by message and index.
    parts: HashMap<(MessageId, u32), usize>,
    /// Streaming answers that are too long for one block.
    long: HashMap<(MessageId, u32), LongAnswer>,
    /// The blocks are a page and no conversation: the text begins at the left edge.
    pub page: bool,
    pub view: Arc<CallView>,
    /// The id that the terminal gets for the next image; `None` if it draws no images.
    pub next_image: Option<u32>,
    pub turn: TurnClock,
    /// Entries before this one were removed from the context.
    pub compacted_to: Seq,
    /// Earlier entries of the session were not loaded, or were evicted.
    pub partial: bool,
    /// Events come from the ledger, not from a running agent.
    pub replays: bool,
    /// Changes that calls of this turn made.
    pub changed: Changed,
}

/// The time of the turn.
#[derive(Debug, Default)]
pub(super) struct TurnClock {
    /// The turn is over, so nothing of it will change.
    pub idle: bool,
    /// Seconds since the turn began. They select the sign of the spinners of running calls.
    pub beat: u64,
}

/// Changes of a turn: the files, and the numbers of added and removed lines.
#[derive(Debug, Default)]
pub(super) struct Changed {
    pub files: BTreeSet<PathBuf>,
    pub added: u64,
    pub removed: u64,
    /// A call changed files without telling the numbers of lines.
    pub uncounted: bool,
}

impl Deref for Blocks {
    type Target = [Block];

    fn deref(&self) -> &[Block] {
        &self.list
    }
}

impl DerefMut for Blocks {
    fn deref_mut(&mut self) -> &mut [Block] {
        &mut self.list
    }
}

impl Blocks {
    /// Creates blocks for events of another part of this session. `partial`: entries before that part are not loaded.
    pub(super) fn other_part(&self, partial: bool) -> Self {
        let view = Arc::clone(&self.view);
        Self { next_image: self.next_image, replays: true, partial, view, ..Self::default() }
    }

    pub(super) fn push(&mut self, body: Body) -> usize {
        let block = Block::new(body);
        self.list.push(if self.page { block.at_the_edge() } else { block });
        self.list.len() - 1
    }

    /// Returns the block of a call.
    pub(super) fn call_at(&self, id: &CallId) -> Option<usize> {
        self.calls.get(id).copied()
    }

    /// Changes the block of a call, which is added if it is new.
    pub(super) fn call(&mut self, id: &CallId, name: &str, change: impl FnOnce(&mut ToolCall)) {
        let at = match self.calls.get(id) {
            Some(at) => *at,
            None => {
                let at = self.push(Body::Tool(Box::new(ToolCall::new(
                    id.clone(),
                    name.to_owned(),
                    Arc::clone(&self.view),
                ))));
                self.calls.insert(id.clone(), at);
                at
            }
        };
        self.list[at].change(|body| {
            if let Body::Tool(call) = body {
                change(call);
            }
        });
    }

    /// Counts a second for each running call. `now`: the seconds since the turn began.
    pub(super) fn tick(&mut self, now: u64) {
        self.turn.beat = now;
        let is_running = |block: &&mut Block| matches!(block.body(), Body::Tool(call) if matches!(call.state, State::Running { .. }));
        for block in self.list.iter_mut().filter(is_running) {
            block.change(|body| {
                if let Body::Tool(call) = body
                    && let State::Running { seconds, beat } = &mut call.state
                {
                    (*seconds, *beat) = (*seconds + 1, now);
                }
            });
        }
    }

    /// Marks calls as interrupted that the process which ran them left without a result.
    pub(super) fn interrupt_live(&mut self) {
        let is_live = |block: &&mut Block| matches!(block.body(), Body::Tool(call) if call.state.is_live());
        for block in self.list.iter_mut().filter(is_live) {
            block.change(|body| {
                if let Body::Tool(call) = body {
                    call.state = State::Interrupted;
                }
            });
        }
    }

    /// Returns the block of a streaming part, which is added if it is new.
    pub(super) fn part(&mut self, message: &MessageId, index: u32, new: impl FnOnce() -> Body) -> usize {
        let key = (*message, index);
        if let Some(at) = self.parts.get(&key) {
            return *at;
        }
        let at = self.push(new());
        self.parts.insert(key, at);
        at
    }

    /// Ends the streaming of a message's parts.
    pub(super) fn end_parts(&mut self, message: MessageId) {
        self.parts.retain(|(id, _), _| *id != message);
        self.long.retain(|(id, _), _| *id != message);
    }

    /// Adds text to a streaming answer. A long one continues in further blocks.
    pub(super) fn grow_answer(&mut self, message: &MessageId, index: u32, delta: &str) {
        let key = (*message, index);
        let at = self.part(message, index, long_answer::empty);
        let Body::Answer { text, .. } = self.list[at].body() else { return };
        let Some((head, rest)) = long_answer::split(text.len(), delta, !self.long.contains_key(&key)) else {
            return self.add_text(at, delta);
        };
        self.add_text(at, head);
        self.finish_answer(at);
        let next = self.push(long_answer::empty());
        self.add_text(next, rest);
        self.parts.insert(key, next);
        self.long.entry(key).or_default().continued(at, &mut self.list);
    }

    fn add_text(&mut self, at: usize, more: &str) {
        self.list[at].change(|body| {
            if let Body::Answer { text, layout } = body {
                text.push_str(more);
                layout.set_growing(true);
            }
        });
    }

    /// Lays out an answer as complete, because no more text will come.
    pub(super) fn finish_answer(&mut self, at: usize) {
        self.list[at].change(|body| {
            if let Body::Answer { layout, .. } = body {
                layout.set_growing(false);
            }
        });
    }

    /// Lays out all growing answers as complete, because their turn has ended.
    pub(super) fn finish_answers(&mut self) {
        let open: Vec<usize> = self.parts.values().copied().collect();
        for at in open {
            self.finish_answer(at);
        }
    }

    /// Gives the blocks of a long answer their message. Returns false if the answer is in one block.
    pub(super) fn set_long_message(&mut self, message: &MessageId, index: u32, seq: Seq) -> bool {
        let key = (*message, index);
        let Some(long) = self.long.get(&key) else { return false };
        for at in long.blocks().chain(self.parts.get(&key).copied()) {
            self.list[at].set_message(seq, *message);
        }
        if let Some(at) = self.parts.get(&key).copied() {
            self.finish_answer(at);
        }
        true
    }

    /// True if a part streams into this block.
    pub(super) fn is_streaming(&self, at: usize) -> bool {
        self.parts.values().any(|part| *part == at)
    }

    /// Replaces blocks and updates every index of a later block. An index of a replaced block is dropped.
    pub(super) fn replace(&mut self, at: usize, count: usize, with: Self) {
        let (behind, more) = (at + count, with.list.len());
        let moved = |block: usize| if block < at { block } else { block - count + more };
        self.list.splice(at..behind, with.list);
        let mut stays = |block: &mut usize| {
            let stays = *block < at || *block >= behind;
            if stays {
                *block = moved(*block);
            }
            stays
        };
        self.calls.retain(|_, block| stays(block));
        self.parts.retain(|_, block| stays(block));
        self.long.values_mut().for_each(|long| long.moved(&mut stays));
        for (call, block) in with.calls {
            self.calls.entry(call).or_insert(at + block);
        }
    }

    /// Opens or closes a block, and with it the calls that are summarized in its line.
    pub(super) fn set_open(&mut self, at: usize, open: bool) {
        self.list[at].set_open(open);
        let Body::Tool(call) = self.list[at].body() else { return };
        let behind = call.group.len();
        for block in self.list.iter_mut().skip(at + 1).take(behind) {
            block.set_summarized(!open);
        }
    }

    /// Gives a block its own lines again that was summarized in the line of another call.
    pub(super) fn expand(&mut self, at: usize) {
        if self.list[at].is_summarized()
            && let Some(first) = (0..at).rev().find(|i| !self.list[*i].is_summarized())
        {
            self.set_open(first, true);
        }
    }

    /// Opens or closes all tool calls and thoughts: opens them if the newest is closed, else closes them.
    pub(super) fn toggle_open(&mut self) {
        let open = !self.list.iter().rev().find_map(Block::open).unwrap_or(false);
        for at in 0..self.list.len() {
            self.set_open(at, open);
        }
    }

    /// Returns the text of the message with this entry number, if it is in memory.
    pub(super) fn said_in(&self, seq: Seq) -> Option<String> {
        let of = self.list.iter().filter(|block| block.message().is_some_and(|(at, _)| at == seq));
        let said: Vec<_> = of.map(|block| block.source()).collect();
        (!said.is_empty()).then(|| said.join("\n\n"))
    }

    /// Returns the Markdown source of the last answer.
    pub(super) fn last_answer(&self) -> Option<&str> {
        self.list.iter().rev().find_map(|b| match b.body() {
            Body::Answer { text, .. } => Some(text.as_str()),
            _ => None,
        })
    }

    /// Returns the blob with the bytes of an image.
    pub(super) fn image(&self, number: u32) -> Option<BlobId> {
        self.list.iter().rev().find_map(|block| match block.body() {
            Body::Image(image) if image.number == number => Some(image.blob.clone()),
            _ => None,
        })
    }

    /// Sets the state of the image with this number.
    pub(super) fn set_numbered(&mut self, number: u32, state: ImageState) {
        let is = |block: &Block| matches!(block.body(), Body::Image(image) if image.number == number);
        if let Some(at) = self.list.iter().rposition(is) {
            self.set_image(at, state);
        }
    }

    pub(super) fn set_image(&mut self, at: usize, state: ImageState) {
        if matches!(self.list[at].body(), Body::Image(image) if image.state != state) {
            self.list[at].change(|body| {
                if let Body::Image(image) = body {
                    image.state = state;
                }
            });
        }
    }

    pub(super) fn gaps(&self) -> impl DoubleEndedIterator<Item = (usize, &Gap)> {
        self.list.iter().enumerate().filter_map(|(at, block)| match block.body() {
            Body::Gap(gap) => Some((at, gap)),
            _ => None,
        })
    }

    pub(super) fn gap_at(&self, from: Seq, to: Seq) -> Option<usize> {
        self.gaps().find(|(_, gap)| (gap.from, gap.to) == (from, to)).map(|(at, _)| at)
    }

    pub(super) fn set_gap(&mut self, at: usize, state: GapState) {
        self.list[at].change(|body| {
            if let Body::Gap(gap) = body {
                gap.state = state;
            }
        });
    }

    /// Returns the entry number of the block's message, or with which the block's gap begins.
    pub(super) fn seq_at(&self, at: usize) -> Option<Seq> {
        match self.list[at].body() {
            Body::Gap(gap) => Some(gap.from),
            _ => self.list[at].message().map(|(seq, _)| seq).filter(|seq| *seq > Seq(0)),
        }
    }

    /// Returns the approximate size of all blocks in bytes.
    pub(super) fn weight(&self) -> usize {
        self.list.iter().map(Block::weight).sum()
    }
}
