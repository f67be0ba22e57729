//! Moving entries into the view without copying them, and adding up the usage of requests.
//!
//! [`super::fold`] decides the meaning of an entry.

use super::View;
use becket_types::{Cost, Entry, EntryKind, Part, SubagentReport, Usage, Used};

/// Maximum unused capacity of a text in bytes.
const SPARE: usize = 1_024;

impl View {
    /// Like [`View::apply`], for an entry that the caller no longer needs: its message is moved instead of
    /// copied.
    pub fn apply_owned(&mut self, entry: Entry) {
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

    /// Returns the usage of all requests for messages, including reverted ones, and the usage of subagents
    /// according to the results of their calls.
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

/// Releases the unused memory of a long text.
fn fitted(part: &mut Part) {
    if let Part::Text { text, .. } | Part::Reasoning { text, .. } | Part::ToolResult { output: text, .. } =
        part
        && text.capacity() - text.len() > SPARE
    {
        text.shrink_to_fit();
    }
}
