//! The interactive front end: a session in the terminal.
//!
//! Owns the screen, the keys and the drawing. Knows `types` only: [`Event`](becket_types::Event) in,
//! [`Command`](becket_types::Command) out, so every screen can be drawn from a file of events. Its [`Host`] provides
//! access to files, the editor and the clipboard.
//!
//! | module | what it is for |
//! |---|---|
//! | [`app`] | joins the panes: pure |
//! | [`transcript`] | messages and actions of the session |
//! | [`reading`] | search in the transcript; the focused block; the mouse |
//! | [`composer`] | the text field for messages |
//! | [`completion`], [`menu`], [`palette`] | completions at the cursor; a list of choices; commands by Ctrl-P |
//! | [`mod@todo`] | the todo list while the agent works on it |
//! | [`waiting`] | messages that were sent and not delivered yet |
//! | [`picker`] | a page of choices, with search and preview |
//! | [`draft`] | timing of saving the unsent text |
//! | [`overlay`], [`page`] | a page over the transcript; pages as data, and their rows |
//! | [`approval`] | permission questions |
//! | [`elicit`], [`server_question`] | questions of MCP servers: forms and addresses |
//! | [`answers`] | a question's answers as a numbered list; keys that count |
//! | [`status`] | the status line and the current activity |
//! | [`commands`], [`keymap`] | slash commands; global key bindings |
//! | [`welcome`] | a page before there is a session |
//! | [`notify`] | desktop notifications |
//! | [`decoder`] | decoding of terminal events: reports, split sequences |
//! | [`input`] | inputs and effects of the panes |
//! | [`runner`], [`terminal`], [`scheduler`] | the event loop, the terminal's modes, timing of frames |
//! | [`ax`] | the same in plain lines, for screen readers |
//! | [`picture`] | a frame as SVG |
//! | [`theme`], [`text`] | styles by meaning; text that is safe to show, wrapped |
//! | [`graphics`] | images in the protocols of terminals |
//! | [`links`] | hyperlinks and marks of prompts |
//! | [`highlight`], [`ansi`] | syntax highlighting; colours in the output of programs |
//!
//! Invariants:
//! - A message whose visibility excludes the user is never drawn, unless the user reveals hidden messages.
//! - Text of models and tools never reaches the terminal as an escape sequence.
//! - A frame is drawn only when something changed, so an idle session costs nothing.
//!
//! Contains no agent logic, opens no file except the terminal, reads no environment and never exits the process.

pub mod ansi;
pub mod answers;
pub mod app;
pub mod approval;
pub mod ax;
pub mod commands;
pub mod completion;
pub mod composer;
pub mod decoder;
pub mod draft;
pub mod elicit;
pub mod graphics;
pub mod highlight;
mod hint;
pub mod input;
pub mod inspector;
pub mod keymap;
pub mod links;
pub mod menu;
mod modes;
pub mod notify;
pub mod overlay;
pub mod page;
pub mod palette;
mod paths;
pub mod picker;
pub mod picture;
pub mod reading;
pub mod runner;
pub mod scheduler;
pub mod server_question;
pub mod status;
pub mod terminal;
pub mod text;
pub mod theme;
pub mod todo;
pub mod transcript;
pub mod waiting;
pub mod welcome;

pub use app::Preferences;
pub use runner::{Ended, Host, Options, run};
