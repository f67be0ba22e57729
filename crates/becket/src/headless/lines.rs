//! Input lines of a driving program, read and parsed.

use super::opening::{self, Initialize};
use super::{late_settings, note};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::settings::RunSettings;
use crate::stdin::{self, Line};
use becket_print::{InputError, InputLine, parse_line};
use tokio::sync::mpsc;

/// The lines of stdin as they arrive.
pub(super) struct Lines {
    receiver: mpsc::Receiver<Line>,
    number: u64,
}

/// A line, parsed or with the parser's error.
pub(super) type Read = Result<InputLine, InputError>;

impl Lines {
    pub(super) fn new() -> Self {
        Self { receiver: stdin::lines(), number: 0 }
    }

    /// Returns the next line; `None` at the end of the input.
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

    /// Reads up to the first meaningful line, and applies it to the run if it is `initialize`. Returns unparsable lines
    /// before it, and the first line itself if it is not `initialize`.
    ///
    /// # Errors
    ///
    /// Returns a failure if settings of the program cannot be used, or were announced and are missing.
    pub(super) async fn opening(
        &mut self,
        environment: &Environment,
        run: &mut RunSettings,
    ) -> Result<(Vec<Read>, Option<Initialize>), Failure> {
        let limits = run.client.limits;
        let mut early = Vec::new();
        while let Some(read) = self.next().await {
            match read {
                Ok(InputLine::Nothing) => {}
                Ok(InputLine::Request { request_id, subtype, body }) if subtype == "initialize" => {
                    let mut notes = Vec::new();
                    // They count even if the rest of the request is refused, after which the run goes on.
                    let settled = late_settings::take_from(Some(&body), environment, run)
                        .and_then(|()| limits.take_from(Some(&body), &mut run.settings));
                    let request = opening::apply(
                        request_id,
                        &body,
                        &|name| environment.var(name).map(str::to_owned),
                        run,
                        &mut notes,
                    );
                    for text in &notes {
                        note(text);
                    }
                    run.client.unused.extend(notes);
                    if let Err(failure) = settled {
                        super::refuse(run, Some(&request), &failure);
                        return Err(failure);
                    }
                    return Ok((early, Some(request)));
                }
                // Hosts begin with `initialize`, so any other line means that there is none.
                Ok(_) => {
                    late_settings::take_from(None, environment, run)?;
                    limits.take_from(None, &mut run.settings)?;
                    early.push(read);
                    return Ok((early, None));
                }
                Err(_) => early.push(read),
            }
        }
        late_settings::take_from(None, environment, run)?;
        limits.take_from(None, &mut run.settings)?;
        Ok((early, None))
    }
}
