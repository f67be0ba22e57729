//! The header of a session without messages: version, model, mode, folder, and tips to begin.
//!
//! Owns these words. A tip that does not fit is left out whole.

use crate::text;
use crate::theme::Theme;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

/// Fewest rows of the screen with which the header is shown.
const HEADER: u16 = 10;

/// Returns what a permission mode means, in a few words.
fn meaning(mode: &str) -> &'static str {
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
pub(super) fn lines(
    model: &str,
    mode: &str,
    folder: String,
    area: Rect,
    theme: &Theme,
) -> Vec<Line<'static>> {
    const TIPS: [&str; 3] = [
        "Ask for example: explain this project · find out why a test fails, and mend it",
        "/help lists commands and keys · @ names a file to read · ! runs a shell command",
        "Shift-Tab changes the permission mode · Esc interrupts",
    ];
    if area.height < HEADER {
        return Vec::new();
    }
    let line = |text: String, style: Style| {
        Line::styled(text::fit(&text::visible(&text), usize::from(area.width)).into_owned(), style)
    };
    let mut lines = vec![
        line(
            format!("becket {} · an agent that reads, changes and runs code", env!("CARGO_PKG_VERSION")),
            theme.accent.add_modifier(Modifier::BOLD),
        ),
        line(format!("{} · {} mode{}", model, mode, meaning(mode)), theme.dim),
        line(folder, theme.dim),
        Line::default(),
    ];
    let columns = usize::from(area.width);
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
    let [examples, signs, keys] = TIPS.map(fitting);
    lines.push(line(examples, theme.text));
    lines.extend([signs, keys].map(|tips| keyed(&tips, theme)));
    lines
}

/// Returns tips of which each begins with its key or sign, which is more prominent than the rest.
fn keyed(tips: &str, theme: &Theme) -> Line<'static> {
    let mut spans = Vec::new();
    for tip in tips.split(" · ").filter(|tip| !tip.is_empty()) {
        let (key, rest) = tip.split_once(' ').unwrap_or((tip, ""));
        let between = if spans.is_empty() { "" } else { " · " };
        spans.push(Span::styled(between, theme.dim));
        spans.push(Span::styled(key.to_owned(), theme.text));
        spans.push(Span::styled(format!(" {rest}"), theme.dim));
    }
    Line::from(spans)
}
