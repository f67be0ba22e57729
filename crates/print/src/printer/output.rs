//! The writers of a run: lines for programs, and notes for people.
//!
//! Invariants: every line is flushed at once and is short enough for clients (`fit`). Text in notes is cleaned of escape
//! sequences. Does not decide what is written.

use super::answer::WholeAnswer;
use super::{Format, fit};
use crate::terminal;
use serde_json::Value;
use std::io::{self, Write};

/// Destination of the lines about events, other than answers to the program and the last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    /// Each is written to standard output at once.
    Written,
    /// They are collected in an array that is written at the end of the run (`--output-format json --verbose`).
    Collected,
    /// The format has no such lines.
    Absent,
}

/// Standard output and the notes, which usually are standard error.
pub(super) struct Output {
    pub(super) out: Box<dyn Write + Send>,
    pub(super) notes: Box<dyn Write + Send>,
    stream: Stream,
    collected: Vec<Value>,
}

impl Output {
    pub(super) fn new(
        format: Format,
        verbose: bool,
        out: Box<dyn Write + Send>,
        notes: Box<dyn Write + Send>,
    ) -> Self {
        let stream = match format {
            Format::StreamJson => Stream::Written,
            Format::Json if verbose => Stream::Collected,
            Format::Json | Format::Text | Format::Codex => Stream::Absent,
        };
        Self { out, notes, stream, collected: Vec::new() }
    }

    /// Writes a line at once, in every format.
    pub(super) fn line(&mut self, line: Value) -> io::Result<()> {
        self.out.write_all(&fit::bytes(line)?)?;
        self.out.flush()
    }

    /// Writes a line at once. `line` is then as it was written, with long texts shortened.
    pub(super) fn line_as_shown(&mut self, line: &mut Value) -> io::Result<()> {
        self.out.write_all(&fit::shortened(line)?)?;
        self.out.flush()
    }

    /// Writes or collects the line of an event, as the format requires.
    pub(super) fn emit(&mut self, line: Value) -> io::Result<()> {
        match self.stream {
            Stream::Written => self.line(line),
            Stream::Collected => {
                self.collected.push(line);
                Ok(())
            }
            Stream::Absent => Ok(()),
        }
    }

    /// Writes the last line of a run. In formats without lines about events it is the only line; collected lines come before it.
    /// `answer`: the whole text for the line's `result`.
    pub(super) fn last(&mut self, line: Value, answer: WholeAnswer<'_>) -> io::Result<()> {
        if !answer.text.is_whole() {
            return self.last_long(&line, answer);
        }
        if self.stream == Stream::Collected {
            self.collected.push(line);
            let all = std::mem::take(&mut self.collected);
            writeln!(self.out, "{}", terminal::clean_json(&Value::Array(all).to_string()))?;
        } else {
            writeln!(self.out, "{}", terminal::clean_json(&line.to_string()))?;
        }
        self.out.flush()
    }

    /// Writes the last line piece by piece.
    fn last_long(&mut self, line: &Value, answer: WholeAnswer<'_>) -> io::Result<()> {
        let is_array = self.stream == Stream::Collected;
        if is_array {
            self.out.write_all(b"[")?;
            for line in std::mem::take(&mut self.collected) {
                write!(self.out, "{},", terminal::clean_json(&line.to_string()))?;
            }
        }
        answer.write_json(line, &mut self.out)?;
        self.out.write_all(if is_array { b"]\n" } else { b"\n" })?;
        self.out.flush()
    }

    /// Writes a note of one line.
    pub(super) fn note(&mut self, who: &str, text: &str) -> io::Result<()> {
        writeln!(self.notes, "{who} {}", terminal::clean(text))?;
        self.notes.flush()
    }
}
