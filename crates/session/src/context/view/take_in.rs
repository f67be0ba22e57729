//! Entries that nobody else needs go into the view as they are, not copied; and what requests used is added up.
//!
//! What an entry means is [`super::fold`]'s business.

use super::View;
use becket_types::{Cost, Entry, EntryKind, Part, SubagentReport, Usage, Used};

/// Bytes that a text may have room for and not fill.
const SPARE: usize = 1_024;

impl View {
    /// [`View::apply`] for an entry that nobody else needs: what was said is kept as it is, not copied.
    pub fn take_in(&mut self, entry: Entry) {
        let Entry { seq, time, kind } = entry;
        match kind {
            EntryKind::Message { mut message } if self.is_next(seq) => {
                message.parts.iter_mut().for_each(fitted);
                self.message(seq, message);
            }
            EntryKind::Part { message, mut part } if self.is_next(seq) => {
                fitted(&mut part);
                self.part(&message, part);
            }
            kind => self.apply(&Entry { seq, time, kind }),
        }
    }

    /// What the requests for its messages used, also for those that were taken back; with what subagents used, as the results
    /// of their calls say.
    pub fn used(&self) -> Used {
        self.used
    }

    pub(super) fn count(&mut self, usage: Usage, cost: Cost) {
        self.used.usage += usage;
        self.used.cost += cost;
    }

    pub(super) fn count_subagent(&mut self, part: &Part) {
        if let Part::ToolResult { details, .. } = part
            && let Some(report) = SubagentReport::of(details)
        {
            self.count(report.usage, report.cost);
        }
    }
}

/// Gives back memory that a long text was made in and does not fill.
fn fitted(part: &mut Part) {
    if let Part::Text { text, .. } | Part::Reasoning { text, .. } | Part::ToolResult { output: text, .. } =
        part
        && text.capacity() - text.len() > SPARE
    {
        text.shrink_to_fit();
    }
}
