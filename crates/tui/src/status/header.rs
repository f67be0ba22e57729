//! The header of a session without messages: version, folder, and tips to begin. The status line has the model and the mode.
//!
//! Owns these words. A tip that does not fit is left out whole.

use crate::hint;
use crate::text;
use crate::theme::Theme;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

/// Fewest rows of the screen with which the header is shown.
const HEADER: u16 = 10;
/// Columns before the text, as in the transcript.
const GUTTER: &str = "  ";

/// Returns what a permission mode means, in a few words.
pub(super) fn meaning(mode: &str) -> &'static str {
    match mode {
        "default" => ": asks before changes",
        "acceptEdits" => ": edits without asking",
        "auto" => ": works in this folder without asking",
        "plan" => ": changes nothing",
        "dontAsk" => ": refuses instead of asking",
        "bypassPermissions" => ": asks nothing",
        _ => "",
    }
}

/// Returns the lines; none if the screen is too small for them.
pub(super) fn lines(folder: &str, area: Rect, theme: &Theme) -> Vec<Line<'static>> {
    const TIPS: [&str; 3] = [
        "Ask for example: explain this project · find out why a test fails and fix it",
        "/help lists commands and keys · @ names a file · ! runs a shell command",
        "Shift-Tab changes the permission mode",
    ];
    if area.height < HEADER {
        return Vec::new();
    }
    let columns = usize::from(area.width).saturating_sub(GUTTER.len());
    let name = format!("becket {}", env!("CARGO_PKG_VERSION"));
    let what = " · reads, changes and runs code";
    let what = if text::width(&name) + text::width(what) <= columns { what } else { "" };
    let folder = text::fit(&text::visible(folder), columns).into_owned();
    let mut lines = vec![
        vec![Span::styled(name, theme.accent.add_modifier(Modifier::BOLD)), Span::styled(what, theme.dim)],
        vec![Span::styled(folder, theme.dim)],
        Vec::new(),
    ];
    // Tips are shown whole or not at all, because half of a tip is of no use.
    let fitting = |tips: &str| {
        let join = |shown: String, tip: &str| match shown.as_str() {
            "" => tip.to_owned(),
            before => format!("{before} · {tip}"),
        };
        tips.split(" · ").fold(String::new(), |shown, tip| {
            let longer = join(shown.clone(), tip);
            if text::width(&longer) <= columns { longer } else { shown }
        })
    };
    lines.extend(TIPS.map(|tips| hint::spans(&fitting(tips), theme)));
    let indented = |mut spans: Vec<Span<'static>>| {
        if !spans.is_empty() {
            spans.insert(0, Span::raw(GUTTER));
        }
        Line::from(spans)
    };
    lines.into_iter().map(indented).collect()
}
