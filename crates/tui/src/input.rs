//! What comes into the interface and what goes out of it: [`Input`] in, [`Effect`] out.
//!
//! Panes are reducers over these. Nothing here does anything: the runner reads the terminal, the agent's events and the
//! host's answers into inputs, and carries effects out. So a whole session can be driven from a list of inputs.

use becket_types::{Command, Event};
use crossterm::event::{KeyEvent, MouseEvent};
use serde_json::Value;
use std::path::PathBuf;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    Key(KeyEvent),
    /// Bracketed paste: never keys, never submits.
    Paste(String),
    Mouse(MouseEvent),
    Resize {
        columns: u16,
        rows: u16,
    },
    /// The terminal window got or lost the keyboard.
    Focus(bool),
    Agent(Event),
    Reply(Reply),
    /// A timer that a pane asked for with [`Effect::Wake`].
    Due(Timer),
    /// SIGTERM, SIGHUP: leave now.
    Terminate,
}

/// Why a pane wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Timer {
    /// The elapsed seconds in the status line.
    Clock,
    /// A second Ctrl-C or Esc counts as such only until then.
    Chord,
    /// The approval may be answered from now on.
    Arm,
    /// A message in the status line goes away.
    Toast,
    /// The draft is kept.
    Draft,
}

/// What a pane asks the runner to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Send(Command),
    Ask(Request),
    /// To the clipboard.
    Copy(String),
    /// Wake me, in milliseconds.
    Wake(u64, Timer),
    /// People are waited for and do not look: a bell or a desktop notification.
    Notify(String),
    Title(String),
    /// Ctrl-Z.
    Suspend,
    Quit,
    /// Leave this session for another one, or for a new one.
    Switch(Option<String>),
}

/// What only the host knows or can do; it answers with a [`Reply`].
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Files of the project that match, best first.
    Files { query: String },
    /// Text in the user's editor.
    Edit { text: String },
    /// One line more for the history of prompts, across sessions.
    Remember { prompt: String },
    /// The prompts of earlier sessions, newest last.
    History,
    /// The draft of this session, kept over a crash; `None` when it was sent.
    Draft { text: Option<String> },
    /// A command of the interface that needs more than the screen: `/context`, `/sessions`, …
    Command { name: String, arguments: String },
    /// The draft that this session was left with.
    LastDraft,
    /// Names of models, for completion.
    Models,
    /// The sessions of this directory, for completion.
    Sessions,
    /// Runs a command of the person's, not of the model's.
    Shell { command: String },
    /// Ends the command of [`Request::Shell`] that runs.
    StopShell,
    /// One line more in the project's AGENTS.md.
    Memorize { text: String },
    /// An image from the clipboard.
    ClipboardImage,
}

/// The answer of the host.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Files {
        query: String,
        paths: Vec<PathBuf>,
    },
    Edited(Result<String, String>),
    History(Vec<String>),
    Draft(String),
    /// A page to show: its title and its text (Markdown), or why there is none.
    Page {
        name: String,
        result: Result<Page, String>,
    },
    Image(Result<(String, Vec<u8>), String>),
    Models(Vec<String>),
    /// Ids and what they are about, newest first.
    Sessions(Vec<(String, String)>),
    /// The session that was asked for: its id, or why there is none.
    Found(Result<String, String>),
    /// A command of the person's ended; what it printed, and how it ended.
    Ran {
        command: String,
        output: String,
        failed: bool,
    },
    /// What was asked for is done, in a line for the person, or why not.
    Done(Result<String, String>),
}

/// A page that the host made for a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    pub title: String,
    pub markdown: String,
    /// Asked at its end: yes sends this command to the host again, with these arguments.
    pub confirm: Option<Confirm>,
    /// The same for panes that draw more than text.
    pub data: Value,
}

/// A question under a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Confirm {
    pub question: String,
    pub name: String,
    pub arguments: String,
}
