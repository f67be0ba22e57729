//! Usage of a request beside the conversation: a summary, a title, a side question, a question of a hook, or one that keeps the
//! cache warm.
//!
//! Owns the choice between the server's numbers and an estimate, as [`super::reply`] makes it for a turn's request. A request
//! that failed or was given up counts only what was reported, because nobody knows how far the server got.

use becket_model::ModelEvent;
use becket_session::context::budget::estimate_part;
use becket_types::{Tokens, Usage};

/// Usage of one request so far.
#[derive(Debug)]
pub(super) struct SideRequestUsage {
    reported: Usage,
    /// The expected size of the request.
    expected: Tokens,
    /// Estimated tokens of the answer's complete parts.
    output: Tokens,
    has_ended: bool,
}

impl SideRequestUsage {
    /// `expected`: the estimated size of the request.
    pub(super) fn new(expected: Tokens) -> Self {
        Self { reported: Usage::default(), expected, output: Tokens(0), has_ended: false }
    }

    /// Takes note of an event of the answer.
    pub(super) fn note(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::Usage(usage) => self.reported = *usage,
            ModelEvent::Part { part, .. } => self.output += estimate_part(part),
            ModelEvent::Finish(_) => self.has_ended = true,
            _ => {}
        }
    }

    /// Returns the usage that counts: as the server reported it, or an estimate if it reports none.
    pub(super) fn counted(&self) -> Usage {
        if self.has_ended { self.reported.or_estimate(self.expected, self.output) } else { self.reported }
    }

    /// True if the server said that it read something from its cache.
    pub(super) fn was_cached(&self) -> bool {
        self.reported.cache_read > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_types::{FinishReason, Part};

    #[test]
    fn an_answer_without_usage_is_estimated_and_one_that_broke_off_is_not() {
        let text = ModelEvent::Part { index: 0, part: Part::text("a few words of an answer") };
        let end = ModelEvent::Finish(FinishReason::Stop);
        let reported = ModelEvent::Usage(Usage { input: 7, output: 3, cache_read: 5, ..Usage::default() });
        let nothing = ModelEvent::Usage(Usage::default());
        for (events, want) in [
            (vec![&text, &end], (100, true)),
            (vec![&nothing, &text, &nothing, &end], (100, true)),
            (vec![&reported, &text, &end], (7, false)),
            // The stream has no end, so nobody knows how far the server got: only reported usage counts.
            (vec![&text], (0, false)),
            (vec![&reported, &text], (7, false)),
        ] {
            let mut usage = SideRequestUsage::new(Tokens(100));
            for event in &events {
                usage.note(event);
            }
            let counted = usage.counted();
            assert_eq!((counted.input, counted.estimated), want, "{events:?}");
            assert_eq!(counted.estimated, counted.output > 3, "{counted:?}");
            assert_eq!(usage.was_cached(), events.contains(&&reported));
        }
    }
}
