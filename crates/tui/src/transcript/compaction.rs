//! The block of a compaction: one line that opens, and says what was put in place of what, and what was lost by it.
//!
//! Owns what of it is known: the loss is asked for when the block is open and in view, since only who looks needs it.

use super::block::{paragraph, thousands};
use super::row::Row;
use crate::text;
use crate::theme::Theme;
use becket_types::{LeftOut, Loss, Seq};
use ratatui::text::Line;

/// Lost things of one kind that are shown.
const SHOWN: usize = 20;
/// Lines that say what was taken out, at most.
const DROPPED: usize = 300;

#[derive(Debug)]
pub struct Compaction {
    /// Its number in the ledger.
    pub entry: Seq,
    pub before: u64,
    pub after: u64,
    pub summary: String,
    pub anchor: Option<String>,
    /// Text of the summarising model that is not in the summary.
    pub left_out: Vec<LeftOut>,
    /// The messages that are no longer in the context and people have seen: numbers, and a line for each.
    pub dropped: Vec<(Seq, String)>,
    /// These are all of them.
    pub whole: bool,
    /// Where the context began before it, and where it does since.
    pub reach: (Seq, Seq),
    pub loss: Known,
    pub undone: bool,
    pub open: bool,
}

/// What is known of the loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    New,
    Asked,
    Loss(Box<Loss>),
    /// It cannot be had, and why.
    Not(String),
}

impl Compaction {
    pub(super) fn lay_out(&self, width: usize, theme: &Theme) -> Vec<Row> {
        let line = format!(
            "⊟ context compacted {} → {} · {}",
            thousands(self.before),
            thousands(self.after),
            if self.undone { "undone" } else { "see what changed" }
        );
        let style = if self.undone { theme.dim } else { theme.accent };
        let mut rows = vec![Row::from(Line::styled(text::fit(&line, width).into_owned(), style))];
        if !self.open {
            return rows;
        }
        let mut part = |title: &str, text: &str| {
            rows.extend(paragraph(title, width, "  ", "  ", theme.dim, theme.accent));
            rows.extend(paragraph(text, width, "  ", "  ", theme.dim, theme.text));
        };
        part("summary", &self.summary);
        if let Some(anchor) = &self.anchor {
            part("kept word for word", anchor);
        }
        if !self.left_out.is_empty() {
            part("left out of the model's summary", &left_out_lines(&self.left_out).join("\n"));
        }
        match &self.loss {
            Known::New | Known::Asked => {}
            Known::Loss(loss) => part("what was lost", lines(loss).join("\n").trim_end()),
            Known::Not(why) => part("what was lost", &format!("it cannot be said: {why}")),
        }
        if !self.dropped.is_empty() {
            let mut shown: Vec<&str> =
                self.dropped.iter().take(DROPPED).map(|(_, line)| line.as_str()).collect();
            let more = self.dropped.len().checked_sub(DROPPED).filter(|more| *more > 0);
            let more = more.map(|more| format!("… {more} more"));
            shown.extend(more.as_deref());
            part("no longer in the context", &shown.join("\n"));
        }
        rows
    }
}

/// Text that is not in the summary, in lines: its section and the reason, then the text.
pub fn left_out_lines(left_out: &[LeftOut]) -> Vec<String> {
    let mut out = Vec::new();
    for left in left_out {
        let section = if left.section.is_empty() { "outside of sections" } else { &left.section };
        out.push(format!("{section} ({}):", left.why));
        out.extend(left.text.lines().map(|line| format!("  {line}")));
    }
    out
}

/// What is lost, in lines.
pub fn lines(loss: &Loss) -> Vec<String> {
    let mut out = Vec::new();
    for (name, list) in loss.lists().into_iter().filter(|(_, list)| !list.is_empty()) {
        out.push(format!("{name} that stand nowhere in what is left ({}):", list.len()));
        for lost in list.iter().take(SHOWN) {
            let who = if lost.by_user { "you" } else { "model" };
            out.push(format!("  {:>5}  {who:<5}  {}", lost.seq, lost.text.trim()));
        }
        if list.len() > SHOWN {
            out.push(format!("  … and {} more", list.len() - SHOWN));
        }
    }
    if out.is_empty() {
        out.push("no identifier, path, decision or constraint that was said is lost".to_owned());
    }
    if loss.outputs > 0 {
        let s = if loss.outputs == 1 { "" } else { "s" };
        out.push(format!("{} output{s} of tools folded away; recall brings back each", loss.outputs));
    }
    out
}
