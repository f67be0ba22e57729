//! The header of a session without messages: version, model, mode, folder, and tips to begin.
//!
//! Owns these words. A tip that does not fit is left out whole.

use crate::text;
use crate::theme::Theme;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

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
        "/help lists commands and keys · @ adds a file · ! runs a shell command",
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
        line(format!("{} · {} mode{}", model, mode, meaning(mode)), theme.text),
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
    lines.extend(TIPS.map(|tips| line(fitting(tips), theme.dim)));
    lines
}
