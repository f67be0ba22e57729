//! The interactive front end: a session in the terminal.
//!
//! Owns the screen, the keys and what is drawn. Knows `types` only: [`Event`](becket_types::Event) in,
//! [`Command`](becket_types::Command) out, so every screen can be drawn from a file of events; what only the surroundings
//! know (files, editor, clipboard) it asks of its [`Host`].
//!
//! | module | what it is for |
//! |---|---|
//! | [`app`] | the panes together: pure |
//! | [`transcript`] | what was said and done |
//! | [`reading`] | search in it; a block in focus; the mouse |
//! | [`composer`] | where people write |
//! | [`completion`], [`menu`], [`palette`] | what can stand there; a list to choose from; commands by Ctrl-P |
//! | [`mod@todo`] | the todo list while the agent works on it |
//! | [`waiting`] | what was sent and not delivered yet |
//! | [`picker`] | a page to choose from, with search and preview |
//! | [`draft`] | when what is being written is kept |
//! | [`overlay`], [`page`] | a page over the transcript; pages as data, and their rows |
//! | [`approval`] | may this run? |
//! | [`answers`] | a question's answers as a numbered list; which keys count |
//! | [`status`] | what is going on |
//! | [`commands`], [`keymap`] | slash commands; chords of the whole interface |
//! | [`welcome`] | a page before there is a session |
//! | [`notify`] | telling a person who looks elsewhere |
//! | [`decoder`] | what the terminal's events mean: reports, sequences that were cut apart |
//! | [`input`] | inputs and effects: what panes are reducers over |
//! | [`runner`], [`terminal`], [`scheduler`] | the loop, the terminal's modes, when a frame is due |
//! | [`ax`] | the same in plain lines, for screen readers |
//! | [`picture`] | a frame as SVG |
//! | [`theme`], [`text`] | styles by meaning; text that is safe to show, wrapped |
//! | [`graphics`] | images as terminals take them |
//! | [`links`] | hyperlinks and marks of prompts |
//! | [`highlight`], [`ansi`] | code by what its words are; the colours of what programs print |
//!
//! Invariants:
//! - A message whose visibility says it is not for people is never drawn, unless a person reveals hidden messages.
//! - Text of models and tools never reaches the terminal as an escape sequence.
//! - A frame is drawn only when something changed; idle costs nothing.
//!
//! Holds no agent logic, opens no file but the terminal, reads no environment and never exits the process.

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
pub mod graphics;
pub mod highlight;
pub mod input;
pub mod inspector;
pub mod keymap;
pub mod links;
pub mod menu;
pub mod notify;
pub mod overlay;
pub mod page;
pub mod palette;
pub mod picker;
pub mod picture;
pub mod reading;
pub mod runner;
pub mod scheduler;
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
