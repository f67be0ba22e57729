//! Input lines of a driving program, read and parsed.

use super::opening::{self, Initialize};
use super::{late_settings, note};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::settings::RunSettings;
use crate::stdin::{self, Line};
use becket_print::{InputError, InputLine, parse_line};
use becket_types::{DeliveryMode, PromptInput};
use std::collections::VecDeque;
use tokio::sync::mpsc;

/// The lines of stdin as they arrive.
pub(super) struct Lines {
    receiver: mpsc::Receiver<Line>,
    number: u64,
    /// Delivery of messages that name no priority.
    mode: DeliveryMode,
}

/// A line, parsed or with the parser's error.
pub(super) type Read = Result<InputLine, InputError>;

/// Lines from standard input, and how far they have been read.
pub(super) struct Input {
    pub(super) lines: Option<Lines>,
    /// Lines that were read before the agent was built.
    pub(super) early: VecDeque<Read>,
    /// There is something to do: a prompt, a request to continue, or a line that is not blank.
    pub(super) asked: bool,
    /// No more input will come.
    pub(super) ended: bool,
    /// The agent was informed that the input has ended.
    pub(super) end_reported: bool,
    /// A program reads the lines.
    pub(super) driven: bool,
    /// Each message has a turn and a result of its own, in their order, unless its priority says otherwise.
    pub(super) one_turn_per_message: bool,
    /// Text to put in front of the first message: the prompt with which the session's own agent begins.
    pub(super) first_message_prefix: Option<String>,
    /// Messages with `shouldQuery: false`: they begin no turn, and are sent together with the next message.
    pub(super) context: Vec<PromptInput>,
}

impl Input {
    /// The input of a run: the lines that are still to be read, and those that were read already.
    pub(super) fn new(
        (lines, early): (Option<Lines>, Vec<Read>),
        asked: bool,
        ended: bool,
        driven: bool,
    ) -> Self {
        let one_each = lines.as_ref().is_some_and(|lines| lines.mode == DeliveryMode::Queue);
        Self {
            lines,
            early: early.into(),
            asked,
            ended,
            end_reported: false,
            driven,
            one_turn_per_message: one_each,
            first_message_prefix: None,
            context: Vec::new(),
        }
    }

    pub(super) async fn next(&mut self) -> Option<Read> {
        if let Some(read) = self.early.pop_front() {
            return Some(read);
        }
        match &mut self.lines {
            Some(lines) => lines.next().await,
            None => std::future::pending().await,
        }
    }
}

impl Lines {
    pub(super) fn new(mode: DeliveryMode) -> Self {
        Self { receiver: stdin::lines(), number: 0, mode }
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
        Some(parse_line(self.number, &text, self.mode))
    }

    /// Reads up to the first meaningful line, and applies it to the run if it is `initialize`. Returns unparsable lines
    /// before it, and the first line itself if it is not `initialize`.
    ///
    /// # Errors
    ///
    /// Returns a failure if settings of the driving program cannot be used, or were announced and are missing.
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
                    // Settings and deny rules apply even if the rest of the request is refused, because the run continues after that.
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
                // A program that sends `initialize` sends it first, so after any other line none will come.
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
