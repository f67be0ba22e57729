//! The built-in status line: which facts it shows in how many columns, and what it leaves out first.
//!
//! Depends on the state of [`Status`] alone.

use super::{Status, meter, script};
use crate::hint;
use crate::modes;
use crate::text::{self, thousands};
use crate::theme::Theme;
use becket_types::PreparationState;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use std::ops::Range;

/// From this width in columns on, the mode and the percentage have words that say what they are.
const NAMED: usize = 64;
/// From this width in columns on, the line also has the provider, the whole folder and the cost.
const WIDE: usize = 104;
/// Maximum number of columns of the folder and the branch, on other lines and on wide ones (`WIDE`, or all facts from `NAMED`).
const PLACE: [usize; 2] = [26, 48];
/// Cells of the bar on lines below and from `NAMED`, if they fit.
const BAR: [usize; 2] = [20, 60];

/// A fact with its importance: the least important one is left out first.
type Part = (u8, Vec<Span<'static>>);

impl Status {
    /// Returns the built-in line: model, mode, fill of the context and folder, or all facts in up to [`script::ROWS`] rows. Parts
    /// that do not fit are left out whole, the least important first.
    pub(super) fn own(
        &self,
        width: usize,
        theme: &Theme,
        vim: Option<&str>,
        headed: bool,
    ) -> Vec<Line<'static>> {
        let modes = modes::forms(&self.session.mode);
        // On a narrow line a mode has only its name, which is the last form.
        let shortest = modes.len() - 1;
        let forms = if width < NAMED { &modes[shortest..] } else { &modes[..shortest] };
        // Use the longest form of the mode with which no other part is left out. The key for the details, at the end, does not count.
        let parts = |form: &String| self.parts(form, width, theme, vim, headed);
        let fits = |parts: &Vec<Part>| {
            let facts = parts.len() - usize::from(self.keys[0].is_some());
            rows_of(&parts[..facts], width).len() <= self.most_rows()
        };
        let found = forms.iter().map(parts).find(fits).or_else(|| forms.last().map(parts));
        self.fitted(found.unwrap_or_default(), width, theme)
    }

    fn most_rows(&self) -> usize {
        if self.whole { script::ROWS } else { 1 }
    }

    /// Returns all parts of the line, each with its importance. `mode`: the form of the permission mode.
    fn parts(&self, mode: &str, width: usize, theme: &Theme, vim: Option<&str>, headed: bool) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        let mut put = |weight: u8, text: String, style: Style| {
            if !text.is_empty() {
                parts.push((weight, vec![Span::styled(text::visible(&text).into_owned(), style)]));
            }
        };
        let facts = self.whole || !headed;
        let wide = self.whole || width >= WIDE;
        put(9, vim.unwrap_or_default().to_owned(), theme.accent);
        if facts {
            let model = if wide { &self.session.model } else { self.session.model_name() };
            put(8, model.to_owned(), theme.dim);
        }
        // The usual mode is less important than the context, of which less is left all the time.
        let mode_weight = if self.session.mode == "default" { 6 } else { 8 };
        // A mode that asks less than usual is never out of sight.
        if facts || self.session.is_loud() {
            put(
                mode_weight,
                mode.to_owned(),
                if self.session.is_loud() { theme.outcome.warning } else { theme.dim },
            );
        }
        let tight = if self.meter.is_tight() { theme.outcome.warning } else { theme.dim };
        if self.meter.usable > 0 && facts {
            let (percent, usable) = (self.meter.percent(), thousands(self.meter.usable));
            let word = if self.whole && width < NAMED { "" } else { "context " };
            let of = if self.whole { format!(" of {usable}") } else { String::new() };
            put(7, format!("{word}{percent}%{of}"), tight);
        }
        if facts {
            let whole = wide && width >= NAMED;
            let place = text::fit_ends(&self.session.place(whole), PLACE[usize::from(whole)]).into_owned();
            put(4, place, theme.dim);
        }
        put(7, counted(self.jobs), theme.accent);
        let summary = match self.summary {
            Some(PreparationState::Began) => "preparing a summary",
            Some(PreparationState::Ready) => "summary ready",
            _ => "",
        };
        put(2, summary.to_owned(), theme.dim);
        if self.whole {
            put(1, self.session.title(40).unwrap_or_default(), theme.dim);
            put(3, self.spending.tokens(), theme.dim);
        }
        let money = self.spending.money();
        if wide && facts && !money.is_empty() {
            put(5, if self.whole { money } else { format!("session {money}") }, theme.dim);
        }
        let bar =
            if self.whole { self.meter.bar(BAR[usize::from(width >= NAMED)], theme) } else { Vec::new() };
        if !bar.is_empty() {
            parts.push((2, bar));
            parts.push((0, meter::legend(theme)));
        }
        let [details, palette] = &self.keys;
        if headed && !self.whole {
            // The header has the facts and other keys.
            parts
                .extend(palette.iter().map(|key| (5, hint::spans(&format!("{key} finds a command"), theme))));
            parts.push((4, hint::spans("Ctrl-R finds an earlier prompt", theme)));
        }
        if let Some(key) = details {
            let (weight, does) = match self.whole {
                true => (1, "fewer details"),
                // The words for a mode that asks less than usual are more important than the key.
                false if self.session.is_loud() => (3, "details"),
                false => (5, "details"),
            };
            parts.push((weight, hint::spans(&format!("{key} {does}"), theme)));
        }
        parts
    }

    /// Leaves out the least important parts until the rest fits, and joins them.
    fn fitted(&self, mut parts: Vec<Part>, width: usize, theme: &Theme) -> Vec<Line<'static>> {
        while parts.len() > 1 && rows_of(&parts, width).len() > self.most_rows() {
            let least = parts.iter().enumerate().min_by_key(|(_, (weight, _))| *weight).map(|(i, _)| i);
            parts.remove(least.unwrap_or_default());
        }
        for (_, part) in &mut parts {
            if let [span] = part.as_mut_slice() {
                span.content = text::fit(&span.content, width).into_owned().into();
            }
        }
        let row = |range: Range<usize>| {
            let mut spans: Vec<Span<'static>> = Vec::new();
            for (_, part) in &parts[range] {
                if !spans.is_empty() {
                    spans.push(Span::styled(" · ", theme.dim));
                }
                spans.extend(part.iter().cloned());
            }
            Line::from(spans)
        };
        rows_of(&parts, width).into_iter().map(row).collect()
    }
}

/// Divides parts into rows of this width. A part that is wider has a row of its own.
fn rows_of(parts: &[Part], width: usize) -> Vec<Range<usize>> {
    let mut rows: Vec<Range<usize>> = Vec::new();
    let mut used = 0;
    for (at, (_, part)) in parts.iter().enumerate() {
        let wide: usize = part.iter().map(|span| text::width(&span.content)).sum();
        match rows.last_mut() {
            Some(row) if used + 3 + wide <= width => {
                row.end = at + 1;
                used += 3 + wide;
            }
            _ => {
                rows.push(at..at + 1);
                used = wide;
            }
        }
    }
    rows
}

fn counted(jobs: usize) -> String {
    match jobs {
        0 => String::new(),
        1 => "1 job".to_owned(),
        n => format!("{n} jobs"),
    }
}
