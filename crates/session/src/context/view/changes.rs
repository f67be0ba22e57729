//! The changes of the conversation since the context was last built, as far as they affect messages that the context already contains.
//!
//! Most entries only add something at the end, and nothing is recorded for them. Does not decide what is shown.

use super::calls::ResultPosition;

#[derive(Debug, Default)]
pub(super) struct Changes {
    /// True if earlier messages may look different, so the context is built from the start.
    pub(super) rebuild: bool,
    /// True if the next context gets a new generation, even if its messages are unchanged.
    pub(super) generation: bool,
    /// The first live message that got another part, by its position among the live messages.
    grown: Option<usize>,
    /// New results of calls that were open.
    answered: Vec<ResultPosition>,
}

impl Changes {
    /// Returns the changes of a conversation for which no context was ever built.
    pub(super) fn all() -> Self {
        Self { rebuild: true, generation: true, ..Self::default() }
    }

    /// Records that the live message at this position got another part.
    pub(super) fn grow(&mut self, position: usize) {
        self.grown = Some(self.grown.map_or(position, |first| first.min(position)));
    }

    /// Records a result of a call that had none.
    pub(super) fn answer(&mut self, place: ResultPosition) {
        // If the context is built from the start anyway, single results need not be recorded.
        if !self.rebuild {
            self.answered.push(place);
        }
    }

    /// True if the context must be built from the start. `next`: number of live messages that it contains. `is_repaired`: returns true if
    /// the context contains a substitute for this result, such as `interrupted`.
    pub(super) fn concern(&self, next: usize, is_repaired: impl Fn(ResultPosition) -> bool) -> bool {
        self.rebuild
            || self.grown.is_some_and(|position| position < next)
            || self.answered.iter().any(|place| is_repaired(*place))
    }

    /// Forgets the changes, because the context was built.
    pub(super) fn clear(&mut self) {
        (self.rebuild, self.generation, self.grown) = (false, false, None);
        self.answered.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_of_what_the_context_contains_concern_it() {
        let never = |_: ResultPosition| false;
        let mut changes = Changes::default();
        changes.grow(7);
        changes.grow(4);
        changes.grow(9);
        assert!(!changes.concern(4, never) && changes.concern(5, never));
        changes.clear();
        changes.answer((3, 0));
        assert!(!changes.concern(9, |place| place != (3, 0)) && changes.concern(9, |place| place == (3, 0)));
        changes.clear();
        changes.rebuild = true;
        changes.answer((3, 0));
        assert!(changes.concern(0, never) && changes.answered.is_empty());
    }
}
