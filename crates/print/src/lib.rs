//! The headless front end: events in, text or JSON lines out; lines of stdin in, commands out.
//!
//! Owns the output formats of `--print` (`text`, `json`, `stream-json`), the input format `stream-json`, the check of
//! `--json-schema`, and the exit codes. Knows `types` only: it can be run and tested from a file of events.
//!
//! Invariants:
//! - Nothing but the chosen format goes to the output writer; notes go to the notes writer.
//! - Messages that are not for people (continuations, summaries, reminders) never reach `text` and are marked
//!   `isSynthetic` in `stream-json`.
//! - Escape sequences of models and tools never reach a terminal, inside JSON neither.
//!
//! Does not talk to models, read the environment, open files or exit the process.

mod exit;
mod input;
mod permission;
mod printer;
mod schema;
mod shapes;
mod terminal;

pub use exit::ExitStatus;
pub use input::{InputError, InputLine, parse_line, slash_command};
pub use permission::{Answer, SettingsChange, answer_to, can_use_tool, restore, unanswered};
pub use printer::{
    CLAUDE_CODE_VERSION, Format, McpFacts, PrintOptions, Printer, Reaction, SessionFacts, ShellTask,
    ShellTaskEnd, fits,
};
pub use schema::{Schema, SchemaError};
pub use terminal::{CleanWriter, clean, clean_json};
