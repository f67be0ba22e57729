//! The header of a session without messages: version, model, mode, folder, and tips to begin.
//!
//! Owns these words. A tip that does not fit is left out whole.

use super::session::SessionFacts;
use crate::hint;
use crate::modes;
use crate::text;
use crate::theme::Theme;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

/// The name in large letters, for screens with room.
const WORDMARK: [&str; 3] = ["█▀▄ █▀▀ █▀▀ █ █ █▀▀ ▀█▀", "█▀▄ █▀▀ █   █▀▄ █▀▀  █ ", "▀▀  ▀▀▀ ▀▀▀ ▀ ▀ ▀▀▀  ▀ "];
/// Fewest rows and columns with which the name has large letters.
const LARGE: (u16, u16) = (16, 60);
/// Fewest rows of the screen with which the header is shown.
const HEADER: u16 = 10;
/// The mark of becket, in the columns before the facts. All text of the header begins after it.
const MARK: [&str; 3] = ["█▄▄  ", "█▄█  ", GUTTER];
const GUTTER: &str = "     ";
/// Description of becket.
const WHAT: &str = "reads, changes and runs code";

/// Returns the text beside the rows of the large letters, in this many columns: the version and the description, in one row or in two.
fn beside_letters(columns: usize) -> [String; 3] {
    let version = format!("   {}", env!("CARGO_PKG_VERSION"));
    let both = format!("{version} · {WHAT}");
    if text::width(&both) <= columns {
        return [String::new(), both, String::new()];
    }
    let what = Some(format!("   {WHAT}")).filter(|what| text::width(what) <= columns);
    [String::new(), version, what.unwrap_or_default()]
}

/// Returns the facts, a blank row and the tips; nothing if the screen is too small for them.
pub(super) fn lines(session: &SessionFacts, area: Rect, theme: &Theme) -> Vec<Line<'static>> {
    const TIPS: [&str; 3] = [
        "/help lists commands and keys · Shift-Tab changes the permission mode",
        "@ names a file · ! runs a shell command · # notes a line in AGENTS.md",
        "To begin: explain this project · find out why a test fails and fix it",
    ];
    if area.height < HEADER {
        return Vec::new();
    }
    let large = area.height >= LARGE.0 && area.width >= LARGE.1;
    let gutter = if large { "  " } else { GUTTER };
    let columns = usize::from(area.width).saturating_sub(gutter.len());
    let name = format!("becket {}", env!("CARGO_PKG_VERSION"));
    let what = format!(" · {WHAT}");
    let what = if text::width(&name) + text::width(&what) <= columns { what } else { String::new() };
    let fitted = |text: &str| text::fit(&text::visible(text), columns).into_owned();
    let folder = fitted(&session.place(true));
    let model = fitted(&session.model);
    let meaning = modes::meaning(&session.mode);
    let name_of_mode = format!(" · {} mode", session.mode);
    let with_meaning = Some(format!("{name_of_mode}: {meaning}")).filter(|_| !meaning.is_empty());
    let mut modes = with_meaning.into_iter().chain([name_of_mode]);
    let mode = modes.find(|mode| text::width(&model) + text::width(mode) <= columns).unwrap_or_default();
    let facts = [
        vec![Span::styled(name, theme.accent.add_modifier(Modifier::BOLD)), Span::styled(what, theme.dim)],
        vec![Span::styled(model, theme.text), Span::styled(mode, theme.dim)],
        vec![Span::styled(folder, theme.dim)],
    ];
    let marked = |(mark, mut spans): (&'static str, Vec<Span<'static>>)| {
        spans.insert(0, Span::styled(mark, theme.accent));
        Line::from(spans)
    };
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
    let indented = |mut spans: Vec<Span<'static>>| {
        spans.insert(0, Span::raw(gutter));
        Line::from(spans)
    };
    let tips = TIPS.map(|tips| indented(hint::spans(&fitting(tips), theme)));
    if !large {
        return MARK.into_iter().zip(facts).map(marked).chain([Line::default()]).chain(tips).collect();
    }
    // The large letters say the name.
    let beside = beside_letters(columns.saturating_sub(text::width(WORDMARK[0])));
    let letters = WORDMARK.into_iter().zip(beside).map(|(letters, words)| {
        Line::from(vec![
            Span::raw(gutter),
            Span::styled(letters, theme.accent),
            Span::styled(words, theme.dim),
        ])
    });
    let [_, model, folder] = facts;
    let facts = [model, folder].map(indented);
    letters.chain([Line::default()]).chain(facts).chain([Line::default()]).chain(tips).collect()
}
