//! Context meter: how full the context is and what fills it, as a stacked bar with the compaction threshold marked, and
//! its legend.
//!
//! Each part has its own character, so that it is recognizable without colours. Knows only the figures of the last
//! request, in tokens.

use crate::theme::Theme;
use becket_types::{SpanKind, Tokens};
use ratatui::style::Style;
use ratatui::text::Span;

/// Part of the context, as the user is shown it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    System,
    Rules,
    Tools,
    Messages,
    Outputs,
}

impl Part {
    /// All parts, in the order of the bar.
    pub const ALL: [Self; 5] = [Self::System, Self::Rules, Self::Tools, Self::Messages, Self::Outputs];

    /// Returns the part that a kind of span belongs to.
    pub fn of(kind: SpanKind) -> Self {
        match kind {
            SpanKind::System => Self::System,
            SpanKind::Rules => Self::Rules,
            SpanKind::Tools => Self::Tools,
            SpanKind::ToolOutput | SpanKind::Media => Self::Outputs,
            SpanKind::Summary
            | SpanKind::State
            | SpanKind::User
            | SpanKind::Assistant
            | SpanKind::Reasoning
            | SpanKind::ToolCall
            | SpanKind::Continuation
            | SpanKind::Reminder => Self::Messages,
        }
    }

    /// Returns the word for the part in the legend of the status line.
    fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Rules => "rules",
            Self::Tools => "tools",
            Self::Messages => "messages",
            Self::Outputs => "outputs",
        }
    }

    /// Returns the character that draws the part.
    pub fn mark(self) -> char {
        match self {
            Self::System => '█',
            Self::Rules => '▓',
            Self::Tools => '▒',
            Self::Messages => '▚',
            Self::Outputs => '░',
        }
    }

    /// Returns the style that draws the part.
    pub fn style(self, theme: &Theme) -> Style {
        match self {
            Self::System => theme.dim,
            Self::Rules => theme.user,
            Self::Tools => theme.code,
            Self::Messages => theme.accent,
            Self::Outputs => theme.outcome.ok,
        }
    }
}

/// The figures of the last request, in tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meter {
    pub used: u64,
    pub usable: u64,
    pub window: u64,
    threshold: u64,
    /// Estimated tokens, one for each of [`Part::ALL`].
    parts: [u64; 5],
}

impl Meter {
    /// Creates a meter from the figures of a request, in tokens.
    pub fn new(
        used: Tokens,
        usable: Tokens,
        window: Tokens,
        threshold: Tokens,
        kinds: &[(SpanKind, Tokens)],
    ) -> Self {
        let mut parts = [0; 5];
        for (kind, tokens) in kinds {
            parts[Part::of(*kind) as usize] += tokens.0;
        }
        Self { used: used.0, usable: usable.0, window: window.0, threshold: threshold.0, parts }
    }

    /// Returns how much of the usable context is filled, in percent.
    pub fn percent(&self) -> u64 {
        if self.usable == 0 { 0 } else { (self.used * 100).div_ceil(self.usable).min(999) }
    }

    /// True if less than a tenth of the threshold is left before it.
    pub(crate) fn is_tight(&self) -> bool {
        self.threshold > 0 && self.used >= self.threshold - self.threshold / 10
    }

    /// Returns the bar: parts in proportion to their tokens, then free space, with `┃` at the compaction threshold.
    pub fn bar(&self, cells: usize, theme: &Theme) -> Vec<Span<'static>> {
        if self.usable == 0 || cells == 0 {
            return Vec::new();
        }
        let sum: u64 = self.parts.iter().sum();
        // Estimates are scaled so that their sum is the number that the provider counted.
        let scaled = |tokens: u64| {
            if sum == 0 { 0 } else { (tokens as f64 / sum as f64 * self.used as f64) as u64 }
        };
        let (mut seen, mut parts) = (0, Vec::new());
        for part in Part::ALL {
            let before = scaled(seen);
            seen += self.parts[part as usize];
            parts.push((part, scaled(seen) - before));
        }
        stacked(&parts, self.usable, Some(self.threshold).filter(|mark| *mark > 0), cells, theme)
    }
}

/// Returns the meaning of the signs in the bar of the status line.
pub(crate) fn legend(theme: &Theme) -> Vec<Span<'static>> {
    let mut out = Vec::new();
    for part in Part::ALL {
        out.push(Span::styled(part.mark().to_string(), part.style(theme)));
        out.push(Span::styled(format!(" {} ", part.name()), theme.dim));
    }
    out.push(Span::styled("┃", theme.outcome.warning));
    out.push(Span::styled(" compaction", theme.dim));
    out
}

/// Returns a bar of `cells` cells: `parts` in proportion to `of`, then dots, and `┃` at `mark`.
pub(crate) fn stacked(
    parts: &[(Part, u64)],
    of: u64,
    mark: Option<u64>,
    cells: usize,
    theme: &Theme,
) -> Vec<Span<'static>> {
    if of == 0 || cells == 0 {
        return Vec::new();
    }
    let cell = |amount: u64| (amount as f64 / of as f64 * cells as f64).round() as usize;
    let mut row: Vec<(char, Style)> = Vec::with_capacity(cells);
    let mut seen = 0;
    for (part, amount) in parts {
        seen += amount;
        let upto = cell(seen).min(cells);
        while row.len() < upto {
            row.push((part.mark(), part.style(theme)));
        }
    }
    row.resize(cells, ('·', theme.border));
    if let Some(mark) = mark {
        row[cell(mark).min(cells - 1)] = ('┃', theme.outcome.warning);
    }
    let mut out: Vec<Span<'static>> = Vec::new();
    for (c, style) in row {
        match out.last_mut() {
            Some(span) if span.style == style => span.content.to_mut().push(c),
            _ => out.push(Span::styled(c.to_string(), style)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(meter: &Meter, cells: usize) -> String {
        meter.bar(cells, &Theme::plain()).iter().map(|s| s.content.as_ref()).collect()
    }

    #[test]
    fn parts_are_stacked_and_the_threshold_is_marked() {
        let kinds = [
            (SpanKind::System, Tokens(10)),
            (SpanKind::Rules, Tokens(10)),
            (SpanKind::Tools, Tokens(10)),
            (SpanKind::User, Tokens(5)),
            (SpanKind::Assistant, Tokens(5)),
            (SpanKind::ToolOutput, Tokens(10)),
        ];
        let meter = Meter::new(Tokens(100), Tokens(200), Tokens(220), Tokens(180), &kinds);
        assert_eq!(text(&meter, 20), "██▓▓▒▒▚▚░░········┃·");
        assert_eq!((meter.percent(), meter.is_tight()), (50, false));
        assert_eq!(text(&Meter::default(), 20), "");
        for cells in 0..40 {
            let full = Meter::new(Tokens(999), Tokens(200), Tokens(220), Tokens(500), &kinds);
            assert_eq!(text(&full, cells).chars().count(), cells);
        }
    }
}
