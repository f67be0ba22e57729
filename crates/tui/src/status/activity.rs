//! The line of the current activity: what a turn does, its time and cost, and the key that interrupts it.
//!
//! Owns these words and the short form of an error that is retried. Depends on the state of [`Status`] alone.

use super::{RUNNING, Retry, SUBAGENT_RUNNING, Status, WAITING};
use crate::hint;
use crate::text;
use crate::theme::Theme;
use ratatui::text::{Line, Span};

/// Providers by the prefix of their models, with the names that people know.
const PROVIDERS: [(&str, &str); 7] = [
    ("anthropic", "Anthropic"),
    ("openai", "OpenAI"),
    ("google", "Google"),
    ("gemini", "Gemini"),
    ("mistral", "Mistral"),
    ("openrouter", "OpenRouter"),
    ("groq", "Groq"),
];

/// Returns a short form of the error of a request that is sent again: who failed and why, without the server's own words. A server that
/// answered with a status has the name of the model's provider. Any other keeps its address, which may be the fault.
pub(crate) fn short_error(error: &str, model: &str) -> String {
    let error = error.trim_end_matches('.');
    let error = error.find("): ").map_or(error, |end| &error[..=end]);
    let bare = error.replace("https://", "").replace("http://", "").replace("(status ", "(");
    let prefix = model.split('/').next().unwrap_or_default();
    let known = PROVIDERS.iter().find(|(known, _)| *known == prefix);
    match (known, bare.split_once(' ')) {
        (Some((_, name)), Some((_, why))) if error.starts_with("http") && error.contains("(status ") => {
            format!("{name} {why}")
        }
        _ => bare,
    }
}

/// Columns that the sign and the words of an activity must have before the tokens are shown as well.
const DOING: usize = 24;
/// Seconds of a turn after which the key is named that moves what runs to the background.
const LONG: u64 = 5;
/// The key that moves a running command or subagent to the background.
const MOVES: &str = " · Ctrl-B moves it to the background";

/// True if the background can take what the turn is doing: a command or a subagent.
fn is_movable(doing: &str) -> bool {
    let own = doing.strip_prefix(RUNNING).is_some_and(|tool| matches!(tool, "bash" | "task"));
    own || doing.starts_with("subagent: ")
}

/// The words keep at least this many columns: the cost, and then the time, are left out for them.
const LEAST_DOING: usize = 9;

impl Status {
    /// Returns the line of the current activity, `None` while idle. `stop`: the key that interrupts now, if there is
    /// one. `moves`: Ctrl-B would move what runs to the background.
    pub fn activity(
        &self,
        width: u16,
        theme: &Theme,
        stop: Option<&str>,
        moves: bool,
    ) -> Option<Line<'static>> {
        let Some(turn) = &self.turn else {
            let end = stop.map(|key| format!(" · {key} stops it")).unwrap_or_default();
            let command = format!("◐ $ {}", text::visible(self.command.as_ref()?));
            let room = usize::from(width).saturating_sub(text::width(&end));
            let line = format!("{}{end}", text::fit(&command, room));
            return Some(Line::styled(text::fit(&line, usize::from(width)).into_owned(), theme.dim));
        };
        // The row of a running call has a time of its own, so this time is called `turn`.
        let whose = if turn.compacting { "" } else { "turn " };
        let time = match turn.seconds {
            0 => String::new(),
            seconds => format!(" · {whose}{}", text::duration(seconds * 1_000)),
        };
        let [cost, wrote] = self.spending.of_turn();
        let end = stop.map(|key| format!(" · {key} interrupts")).unwrap_or_default();
        let shorter = format!("{time}{cost}");
        let width = usize::from(width);
        if let Some(retry) = &turn.retry {
            return Some(retrying(retry, &turn.doing, &shorter, &end, width, theme));
        }
        // Where there is little room, the tokens are left out first.
        let longer = format!("{shorter}{wrote}{end}");
        // The row of a running call in the transcript says what runs, so this line says only `working`.
        let runs = turn.doing.starts_with(RUNNING) || turn.doing.starts_with(SUBAGENT_RUNNING);
        let doing = if runs { "working" } else { &turn.doing };
        let words = text::width(doing).min(LEAST_DOING);
        let can_move = moves && turn.seconds >= LONG && is_movable(&turn.doing);
        let move_key = if can_move { MOVES } else { "" };
        let end = match () {
            () if can_move && text::width(&longer) + text::width(move_key) + DOING <= width => {
                format!("{longer}{move_key}")
            }
            () if can_move
                && text::width(&time) + text::width(&end) + text::width(move_key) + 2 + words <= width =>
            {
                format!("{time}{end}{move_key}")
            }
            () if text::width(&longer) + DOING <= width => longer,
            () if text::width(&shorter) + text::width(&end) + 2 + words <= width => format!("{shorter}{end}"),
            // Then the cost is left out, and then the time, so that the words are not cut.
            () if text::width(&time) + text::width(&end) + 2 + words <= width => format!("{time}{end}"),
            () => end,
        };
        // If the line is too long, the activity is shortened and never the key.
        let end = text::fit(&end, width);
        let room = width.saturating_sub(text::width(&end) + 2);
        let doing = text::fit_words(&text::visible(doing), room).into_owned();
        let waits = turn.doing == WAITING;
        // The spinner advances once a second.
        let sign = text::spinner(turn.seconds);
        let (mark, style) = if waits { ("?", theme.outcome.warning) } else { (sign, theme.text) };
        let mark = Span::styled(format!("{mark} "), if waits { style } else { theme.accent });
        let mut spans = vec![mark, Span::styled(doing, style)];
        spans.extend(hint::spans(&end, theme));
        Some(Line::from(spans))
    }
}

/// Returns the line of a request that is sent again later. The reason is more important than `shorter`, the time and the cost of the
/// turn, and the key in `end` is never cut.
fn retrying(
    retry: &Retry,
    doing: &str,
    shorter: &str,
    end: &str,
    width: usize,
    theme: &Theme,
) -> Line<'static> {
    let when = match retry.seconds {
        0 => "now".to_owned(),
        seconds => format!("in {}", text::duration(seconds * 1_000)),
    };
    let doing = text::visible(doing);
    let mut end = format!(" · retry {}/{} {when}{end}", retry.attempt, retry.max);
    if text::width(&doing) + 2 + text::width(shorter) + text::width(&end) <= width {
        end = format!("{shorter}{end}");
    }
    let end = text::fit(&end, width);
    let room = width.saturating_sub(text::width(&end) + 2);
    let status = doing.find(" (").filter(|_| text::width(&doing) > room);
    let doing = text::fit_words(&doing[..status.unwrap_or(doing.len())], room).into_owned();
    // The words after the name of the server say what is wrong.
    let why = doing.find(' ').unwrap_or(0);
    let mark = if room == 0 { "" } else { "! " };
    let mut spans = vec![
        Span::styled(mark, theme.outcome.warning),
        Span::styled(doing[..why].to_owned(), theme.text),
        Span::styled(doing[why..].to_owned(), theme.outcome.warning),
    ];
    spans.extend(hint::spans(&end, theme));
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_names_the_provider_that_answered_and_the_address_that_did_not() {
        for (error, model, want) in [
            (
                "https://api.anthropic.com is overloaded (status 529): Overloaded.",
                "anthropic/claude",
                "Anthropic is overloaded (529)",
            ),
            (
                "http://127.0.0.1:4 is overloaded (status 529): Overloaded.",
                "lab/m",
                "127.0.0.1:4 is overloaded (529)",
            ),
            ("https://api.openai.com cannot be reached.", "openai/gpt", "api.openai.com cannot be reached"),
            ("The server is overloaded.", "anthropic/claude", "The server is overloaded"),
            ("overloaded", "", "overloaded"),
        ] {
            assert_eq!(short_error(error, model), want);
        }
    }
}
