//! Ctrl-R: earlier prompts that hold what is typed, newest first.
//!
//! Owns the words that are sought and which match is shown; the prompts are the composer's.

/// One search.
#[derive(Debug, Default)]
pub(super) struct Search {
    pub(super) query: String,
    /// Place of the match in the history.
    pub(super) at: Option<usize>,
}

impl Search {
    /// The newest match at or before `from`; stays where it is when there is none.
    pub(super) fn back(&mut self, history: &[String], from: usize) {
        let query = self.query.to_lowercase();
        let fits = |text: &String| text.to_lowercase().contains(&query);
        let found = history[..from.min(history.len())].iter().rposition(fits);
        self.at = found.or(self.at.filter(|at| history.get(*at).is_some_and(fits)));
    }

    /// The words are others.
    pub(super) fn again(&mut self, history: &[String]) {
        self.back(history, self.at.map_or(history.len(), |at| at + 1));
        if self.at.is_none() {
            self.back(history, history.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_newest_first_and_stays_at_the_last() {
        let history: Vec<String> = ["fix a", "Test b", "fix c"].map(str::to_owned).to_vec();
        let mut search = Search { query: "FIX".into(), at: None };
        search.again(&history);
        assert_eq!(search.at, Some(2));
        search.back(&history, 2);
        assert_eq!(search.at, Some(0));
        search.back(&history, 0);
        assert_eq!(search.at, Some(0));
        search.query = "test".into();
        search.again(&history);
        assert_eq!(search.at, Some(1));
        search.query = "nothing".into();
        search.again(&history);
        assert_eq!(search.at, None);
    }
}
