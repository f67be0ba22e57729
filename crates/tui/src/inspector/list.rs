//! A list of rows with a chosen row and a scroll position.

#[derive(Debug)]
pub(super) struct List<T> {
    rows: Vec<T>,
    chosen: usize,
    top: usize,
}

impl<T> List<T> {
    pub(super) fn new(rows: Vec<T>, at: usize) -> Self {
        let chosen = at.min(rows.len().saturating_sub(1));
        Self { rows, chosen, top: 0 }
    }

    pub(super) fn at(&self) -> usize {
        self.chosen
    }

    pub(super) fn row(&self) -> Option<&T> {
        self.rows.get(self.chosen)
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn go(&mut self, by: isize) {
        self.chosen = self.chosen.saturating_add_signed(by).min(self.rows.len().saturating_sub(1));
    }

    /// Returns the rows in view if `shown` rows fit. True marks the chosen row.
    pub(super) fn view(&mut self, shown: usize) -> impl Iterator<Item = (bool, &T)> {
        self.top = self.top.min(self.chosen).max((self.chosen + 1).saturating_sub(shown));
        let chosen = self.chosen;
        self.rows.iter().enumerate().skip(self.top).take(shown).map(move |(at, row)| (at == chosen, row))
    }
}
