//! An answer that is too long to be kept in the window: it continues in further blocks, and the oldest of them become one note.
//!
//! Invariants: an answer of at most [`LONG_TEXT`] bytes is one block. Of a longer one, the newest two blocks are kept, and the
//! note says how much is left out. The session keeps the whole. Lays out and draws nothing.

use super::block::{Block, Body, Weight};
use super::markdown::Markdown;
use becket_types::LONG_TEXT;

/// Bytes of a block that continues a long answer.
const BLOCK: usize = LONG_TEXT / 4;

/// The blocks of one long answer, without the one that still grows.
#[derive(Debug, Default)]
pub(super) struct LongAnswer {
    /// Blocks that have their text, oldest first.
    kept: Vec<usize>,
    /// The block with the note, once something is left out.
    note: Option<usize>,
    left_out: usize,
}

/// Splits a delta where the block that grows ends: after its last complete line. `None` if the block has room for it.
pub(super) fn split(have: usize, delta: &str, is_first: bool) -> Option<(&str, &str)> {
    let most = if is_first { LONG_TEXT } else { BLOCK };
    if have + delta.len() <= most {
        return None;
    }
    match delta.rfind('\n') {
        Some(at) => Some(delta.split_at(at + 1)),
        // Without a line end, the block may grow to twice its size before the text is cut.
        None => (have + delta.len() > 2 * most).then_some(("", delta)),
    }
}

/// An empty block of an answer.
pub(super) fn empty() -> Body {
    Body::Answer { text: String::new(), layout: Markdown::default() }
}

impl LongAnswer {
    /// Records that another block continues the one at `before`. An older block of the answer is then removed and counted in the note.
    pub(super) fn continued(&mut self, before: usize, list: &mut [Block]) {
        self.kept.push(before);
        if self.kept.len() < 2 {
            return;
        }
        let oldest = self.kept.remove(0);
        let Some(block) = list.get_mut(oldest) else { return };
        self.left_out += block.source().len();
        let note = *self.note.get_or_insert(oldest);
        if note != oldest {
            block.change(|body| *body = Body::Note { weight: Weight::Quiet, text: String::new() });
            block.set_summarized(true);
        }
        if let Some(block) = list.get_mut(note) {
            let text = format!(
                "The first {:.1} MB of this answer are not shown here any more. The session has all of it: becket export --format md",
                self.left_out as f64 / 1e6
            );
            block.change(|body| *body = Body::Note { weight: Weight::Quiet, text });
        }
    }

    /// Returns all blocks, without the one that still grows.
    pub(super) fn blocks(&self) -> impl Iterator<Item = usize> {
        self.note.into_iter().chain(self.kept.iter().copied())
    }

    /// Updates the indices after blocks were replaced. `stays` changes an index, and returns false for a replaced block.
    pub(super) fn moved(&mut self, stays: &mut impl FnMut(&mut usize) -> bool) {
        self.kept.retain_mut(&mut *stays);
        if let Some(note) = &mut self.note
            && !stays(note)
        {
            self.note = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::blocks::Blocks;
    use becket_types::{Event, FinishReason, Message, MessageId, Millis, Part, Seq, Usage};

    fn texts(blocks: &Blocks) -> Vec<(bool, String)> {
        blocks.iter().map(|block| (block.is_shown(false), block.source().into_owned())).collect()
    }

    /// The newest text stays as it streamed, a note stands for the rest, and memory is bounded all the time.
    #[test]
    fn a_long_answer_keeps_its_newest_text() {
        let (mut blocks, id) = (Blocks::default(), MessageId::new());
        let mut all = String::new();
        for line in 0..400_000 {
            let delta = format!("line {line} of the answer\n");
            all.push_str(&delta);
            blocks.event(&Event::TextDelta { message: id, index: 0, text: delta });
            assert!(blocks.weight() < LONG_TEXT + 3 * BLOCK + 200_000, "{}", blocks.weight());
        }
        let mut part = Part::text("line 0 of the answer\n[cut]\nline 399999 of the answer\n");
        if let Part::Text { spill, .. } = &mut part {
            *spill = Some(becket_types::BlobId("b".to_owned()));
        }
        let message = Message { id, seq: Seq(7), ..Message::assistant(vec![part]) };
        blocks.event(&Event::AssistantMessage {
            message,
            finish: FinishReason::Stop,
            usage: Usage::default(),
            cost: becket_types::Cost(0.0),
            ttft: None,
            api_time: Millis(1),
        });
        let texts = texts(&blocks);
        let shown: Vec<&String> = texts.iter().filter(|(shown, _)| *shown).map(|(_, text)| text).collect();
        let [note, older, newest] = &shown[..] else { panic!("{} blocks are shown", shown.len()) };
        let end = format!("{older}{newest}");
        assert!(all.ends_with(&end) && older.ends_with('\n'));
        let left_out = (all.len() - end.len()) as f64 / 1e6;
        assert!(note.starts_with(&format!("The first {left_out:.1} MB of this answer")), "{note}");
        assert_eq!(blocks.said_in(Seq(7)).unwrap().matches("line 399999 of").count(), 1);
    }

    #[test]
    fn an_answer_that_is_not_long_is_one_block() {
        let (mut blocks, id) = (Blocks::default(), MessageId::new());
        let delta = "x".repeat(LONG_TEXT / 8);
        for _ in 0..8 {
            blocks.event(&Event::TextDelta { message: id, index: 0, text: delta.clone() });
        }
        assert_eq!(texts(&blocks), [(true, "x".repeat(LONG_TEXT))]);
    }
}
