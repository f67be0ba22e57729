//! The block of a compaction: one line that opens to show the summary, the removed messages and the loss report.
//!
//! Owns what is known of the summary, of the removed messages and of the loss report. The loss report is requested only
//! when the block is open and in view.

use super::row::{Row, paragraph};
use crate::hint;
use crate::text::{self, thousands};
use crate::theme::Theme;
use becket_types::{CompactionPlan, LeftOut, Loss, Seq};
use ratatui::text::{Line, Span};

/// Maximum number of lost items of one kind that are shown.
const SHOWN: usize = 20;
/// Maximum number of removed messages that are listed.
const DROPPED: usize = 300;

/// A compaction as its block shows it.
#[derive(Debug)]
pub struct Compaction {
    /// Entry number of the compaction in the ledger.
    pub entry: Seq,
    /// Tokens in the context before and after.
    pub tokens: [u64; 2],
    /// Names the key that opens the block.
    pub open_hint: String,
    pub summary: String,
    pub anchor: Option<String>,
    /// Text of the summarising model that was not taken into the summary.
    pub left_out: Vec<LeftOut>,
    /// Visible messages that are no longer in the context: entry numbers, and one line of each.
    pub dropped: Vec<(Seq, String)>,
    /// `dropped` lists all of them. Otherwise the host must be asked.
    pub whole: bool,
    /// First entry of the conversation that was in the context before this compaction, and since.
    pub reach: (Seq, Seq),
    pub loss: LossReport,
    pub undone: bool,
    pub open: bool,
}

/// State of the loss report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LossReport {
    New,
    Asked,
    Loss(Box<Loss>),
    /// The report cannot be made, with the reason.
    Not(String),
}

/// Returns the sizes of a planned compaction, in the same words on the screen and in plain lines.
pub(crate) fn plan_line(plan: &CompactionPlan) -> String {
    format!(
        "{} → {} tokens. Removed from the context: {} messages. Kept word for word: {}. Outputs that become stubs: {}. Nothing has \
         happened yet.",
        thousands(plan.size.before.0),
        thousands(plan.size.after.0),
        plan.gone.len(),
        plan.stays,
        plan.stubs
    )
}

impl Compaction {
    pub(super) fn lay_out(&self, width: usize, theme: &Theme) -> Vec<Row> {
        let [before, after] = self.tokens.map(thousands);
        let more = match (self.undone, self.open) {
            (true, _) => " · undone".to_owned(),
            (_, false) => format!(" · {}", self.open_hint),
            _ => String::new(),
        };
        let line = format!("⊟ context compacted {before} → {after} tokens");
        // The key is more important than the unit.
        let fits = text::width(&line) + text::width(&more) <= width;
        let line = text::fit(if fits { &line } else { line.trim_end_matches(" tokens") }, width);
        let (mark, words) = line.split_at(line.find(' ').unwrap_or(line.len()));
        let (mark_style, style) =
            if self.undone { (theme.dim, theme.dim) } else { (theme.accent, theme.text) };
        // If the hint about the key does not fit whole, it is left out.
        let more = if text::width(&line) + text::width(&more) <= width { more } else { String::new() };
        let mut head = vec![Span::styled(mark.to_owned(), mark_style), Span::styled(words.to_owned(), style)];
        head.extend(hint::spans(&more, theme));
        let mut rows = vec![Row::from(Line::from(head))];
        if !self.open {
            return rows;
        }
        let mut part = |title: &str, text: &str| {
            rows.extend(paragraph(title, width, "  ", "  ", theme.dim, theme.accent));
            rows.extend(paragraph(text, width, "  ", "  ", theme.dim, theme.text));
        };
        for (title, text) in sections(&self.summary, self.anchor.is_some()) {
            part(&title, text.trim_matches('\n'));
        }
        if let Some(anchor) = &self.anchor {
            part("kept word for word", anchor);
        }
        if !self.left_out.is_empty() {
            part("left out of the model's summary", &left_out_lines(&self.left_out).join("\n"));
        }
        match &self.loss {
            LossReport::New | LossReport::Asked => {}
            LossReport::Loss(loss) => part("what was lost", lines(loss).join("\n").trim_end()),
            LossReport::Not(why) => part("what was lost", &format!("no report: {why}")),
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

/// Names of the tagged blocks that the context engine writes into a summary, and their titles for the user. Blocks
/// without a title only enclose others.
const BLOCKS: [(&str, &str); 7] = [
    ("user-messages", "your messages, word for word"),
    ("verbatim_tail", "the model's last words before it"),
    ("system-reminder", "reminder"),
    ("tool-output-compacted", "output of a tool, compacted"),
    ("context-summary", ""),
    ("summary", ""),
    ("analysis", ""),
];

/// Splits a summary into titles and texts. The tags around its blocks and the marks of its headings are left out, since
/// they are for the model. `without_tail`: the model's last words are shown elsewhere.
fn sections(summary: &str, without_tail: bool) -> Vec<(String, String)> {
    let mut out = vec![("summary".to_owned(), String::new())];
    let mut skipped = false;
    for line in summary.lines() {
        let mut line = line.to_owned();
        for (name, title) in BLOCKS {
            let opening = [format!("<{name}>"), format!("<{name} ")];
            if let Some(at) = opening.iter().find_map(|tag| line.find(tag.as_str()))
                && let Some(end) = line[at..].find('>')
            {
                line.replace_range(at..=at + end, "");
                if name == "verbatim_tail" && without_tail {
                    skipped = true;
                } else if !title.is_empty() {
                    out.push((title.to_owned(), String::new()));
                }
            }
            let closing = format!("</{name}>");
            if line.contains(&closing) {
                line = line.replace(&closing, "");
                if std::mem::take(&mut skipped) {
                    line.clear();
                }
            }
        }
        if skipped {
            continue;
        }
        if let Some(heading) = line.strip_prefix("## ") {
            out.push((heading.trim().to_lowercase(), String::new()));
        } else if let Some((_, text)) = out.last_mut() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    out.retain(|(_, text)| !text.trim().is_empty());
    out
}

/// Describes text that is not in the summary, in lines: its section and the reason, then the text.
pub(crate) fn left_out_lines(left_out: &[LeftOut]) -> Vec<String> {
    let mut out = Vec::new();
    for left in left_out {
        let section = if left.section.is_empty() { "not in any section" } else { &left.section };
        out.push(format!("{section} ({}):", left.why));
        out.extend(left.text.lines().map(|line| format!("  {line}")));
    }
    out
}

/// Describes the loss report in lines.
pub fn lines(loss: &Loss) -> Vec<String> {
    let mut out = Vec::new();
    for (name, list) in loss.lists().into_iter().filter(|(_, list)| !list.is_empty()) {
        out.push(format!("{name} that the new context does not contain ({}):", list.len()));
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
        out.push(format!("{} output{s} of tools removed; recall brings back each", loss.outputs));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_shown_in_words_without_tags() {
        let summary = "<summary>\n## Goal\nShip it.\n\n## Next steps\n- run `a < b`\n</summary>\n\n<user-messages note=\"n\">\n\
                       [3] fix the parser\n</user-messages>\n\n<verbatim_tail note=\"x\">\nI will.\n</verbatim_tail>";
        let said = |without| {
            sections(summary, without).iter().map(|(t, s)| format!("{t}: {}", s.trim())).collect::<Vec<_>>()
        };
        let mut want = vec![
            "goal: Ship it.",
            "next steps: - run `a < b`",
            "your messages, word for word: [3] fix the parser",
        ];
        assert_eq!(said(true), want);
        want.push("the model's last words before it: I will.");
        assert_eq!(said(false), want);
        assert_eq!(sections("plain words", false), [("summary".to_owned(), "plain words\n".to_owned())]);
        assert_eq!(sections("", false), []);
        let inline = sections("<summary>all in one</summary>", false);
        assert_eq!(inline, [("summary".to_owned(), "all in one\n".to_owned())]);
    }
}
