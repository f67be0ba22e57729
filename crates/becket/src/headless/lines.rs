//! Lines that a program sends, read and understood.

use super::note;
use super::opening::{self, Initialize};
use crate::settings::RunSettings;
use crate::stdin::{self, Line};
use becket_print::{InputError, InputLine, parse_line};
use tokio::sync::mpsc;

/// The lines of stdin as they come.
pub(super) struct Lines {
    receiver: mpsc::Receiver<Line>,
    number: u64,
}

/// One line, understood or not.
pub(super) type Read = Result<InputLine, InputError>;

impl Lines {
    pub(super) fn new() -> Self {
        Self { receiver: stdin::lines(), number: 0 }
    }

    /// The next line; `None` at the end of the input.
    pub(super) async fn next(&mut self) -> Option<Read> {
        let line = self.receiver.recv().await?;
        self.number += 1;
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong => {
                let limit = stdin::LINE_CAP / (1024 * 1024);
                return Some(Err(InputError::TooLong { line: self.number, limit }));
            }
        };
        let text = String::from_utf8_lossy(&line);
        if matches!(text, std::borrow::Cow::Owned(_)) {
            note(&format!("input line {} is not all UTF-8; the other bytes became U+FFFD", self.number));
        }
        Some(parse_line(self.number, &text))
    }

    /// Reads up to the first line that says something, and applies it to the run if it is `initialize`. The lines before it
    /// that are not understood are given back, and so is the first one that is no `initialize`.
    pub(super) async fn opening(&mut self, run: &mut RunSettings) -> (Vec<Read>, Option<Initialize>) {
        let mut early = Vec::new();
        while let Some(read) = self.next().await {
            match read {
                Ok(InputLine::Nothing) => {}
                Ok(InputLine::Request { request_id, subtype, body }) if subtype == "initialize" => {
                    let mut notes = Vec::new();
                    let request = opening::apply(request_id, &body, run, &mut notes);
                    for text in &notes {
                        note(text);
                    }
                    return (early, Some(request));
                }
                // Hosts begin with `initialize`: another request or a message means that there is none.
                Ok(_) => {
                    early.push(read);
                    return (early, None);
                }
                Err(_) => early.push(read),
            }
        }
        (early, None)
    }
}
