//! Ctrl-R: searches earlier prompts that contain the typed text, newest first.
//!
//! Owns the search text and the current match. The composer owns the prompts.

/// A search in the history.
#[derive(Debug, Default)]
pub(super) struct Search {
    pub(super) query: String,
    /// Index of the match in the history.
    pub(super) at: Option<usize>,
}

impl Search {
    /// Moves to the newest match before `from`. If there is none, keeps the current match if it still fits.
    pub(super) fn back(&mut self, history: &[String], from: usize) {
        let query = self.query.to_lowercase();
        let fits = |text: &String| text.to_lowercase().contains(&query);
        let found = history[..from.min(history.len())].iter().rposition(fits);
        self.at = found.or(self.at.filter(|at| history.get(*at).is_some_and(fits)));
    }

    /// Searches again after the text changed.
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
