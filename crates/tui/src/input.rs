//! What comes into the interface and what goes out of it: [`Input`] in, [`Effect`] out.
//!
//! Panes are reducers over these. Nothing here does anything: the runner reads the terminal, the agent's events and the
//! host's answers into inputs, and carries effects out. So a whole session can be driven from a list of inputs.

use crate::graphics::{Protocol, Scaled};
use crate::highlight::Job;
use crate::inspector::{Inspect, Inspected};
use crate::page::Sheet;
use becket_types::{BlobId, Command, Event, Loss, MessageId, Seq};
use crossterm::event::{KeyEvent, MouseEvent};
use serde_json::Value;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

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
    /// The terminal's own colour behind its text: red, green, blue.
    Background(u8, u8, u8),
    /// What the terminal draws images by, as it says itself.
    Draws(Protocol),
    /// The terminal reports Shift-Enter: it has a keyboard protocol, which is on.
    Keyboard,
    Agent(Event),
    Reply(Reply),
    /// A timer that a pane asked for with [`Effect::Wake`].
    Due(Timer),
    /// SIGTERM, SIGHUP, SIGINT: leave now.
    Terminate,
    /// SIGTSTP: give the terminal back and stop.
    Suspend,
    /// SIGCONT: something else may have had the terminal.
    Continued,
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
    /// The person's own status line is asked for.
    StatusLine,
    /// The commands in the background are counted again.
    Jobs,
    /// A page that came by itself may be answered from now on.
    Page,
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
    /// The terminal is asked for [`Input::Background`]; one that does not know says nothing.
    AskBackground,
    /// Code in view to be read for its colours; [`Reply::Highlighted`] when it is.
    Highlight(Vec<Job>),
    /// Bytes that give the terminal an image.
    Image(String),
    /// An image that is drawn over the cells which have this number.
    Picture(u32, Arc<Scaled>),
    /// Ctrl-Z.
    Suspend,
    Quit,
    /// Leave this session for another one.
    Switch(To),
}

/// Which session comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    New,
    Session(String),
    /// A copy of this one.
    Fork,
}

/// Whose settings a rule goes into. Never those that a project shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The person's, in every project.
    User,
    /// The person's, in this project alone.
    Local,
}

/// What of the interface is kept for the next session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keep {
    Theme(String),
    Vim(bool),
}

/// A command of the person's or the project's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Custom {
    pub name: String,
    /// What may stand behind it.
    pub arguments: String,
    pub description: String,
}

/// A secret on its way to the host. It is on no screen and in no debug form.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(pub String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("********")
    }
}

/// What only the host knows or can do; it answers with a [`Reply`].
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Files of the project that match, best first.
    Files {
        query: String,
    },
    /// Text in the user's editor.
    Edit {
        text: String,
    },
    /// One line more for the history of prompts, across sessions.
    Remember {
        prompt: String,
    },
    /// The prompts of earlier sessions, newest last.
    History,
    /// The draft of this session, kept over a crash; `None` when it was sent.
    Draft {
        text: Option<String>,
    },
    /// A command of the interface that needs more than the screen: `/context`, `/sessions`, …
    Command {
        name: String,
        arguments: String,
    },
    /// The draft that this session was left with.
    LastDraft,
    /// Names of models, for completion.
    Models,
    /// Providers that take a key, for the choice of one.
    Keys,
    /// Another key for this provider.
    KeepKey {
        provider: String,
        key: Hidden,
    },
    /// The sessions of this directory, for completion.
    Sessions,
    /// Runs a command of the person's, not of the model's.
    Shell {
        command: String,
    },
    /// Ends the command of [`Request::Shell`] that runs.
    StopShell,
    /// One line more in the project's AGENTS.md.
    Memorize {
        text: String,
    },
    /// An image from the clipboard.
    ClipboardImage,
    /// An image of the transcript for a terminal that draws them so, scaled to at most so many columns and
    /// [`MOST`](crate::transcript::image::MOST); [`Reply::Picture`].
    Picture {
        number: u32,
        blob: BlobId,
        protocol: Protocol,
        columns: u16,
    },
    /// A path was pasted or dropped that may be an image; as it was pasted.
    Attach {
        text: String,
    },
    /// The commands of the person and the project, for completion.
    Customs,
    /// One of them, or none that is known.
    Custom {
        name: String,
        arguments: String,
    },
    /// This rule, allowed from now on.
    Allow {
        rule: String,
        place: Place,
    },
    /// This rule, no longer allowed in the settings where it stands.
    Disallow {
        rule: String,
        place: Place,
    },
    Keep(Keep),
    /// The beginning and the end of another session.
    Preview {
        session: String,
    },
    /// The branch that the directory is on.
    Branch,
    /// A part of what was said before in this session, from one entry to before another.
    Past {
        from: Seq,
        to: Seq,
        want: Want,
    },
    /// The person's messages of the whole session.
    Said,
    /// Messages that this compaction folded away, or all.
    Folded {
        entry: Option<Seq>,
    },
    /// What this message says.
    Message {
        seq: Seq,
    },
    /// How many commands run in the background.
    Jobs,
    /// Sessions of this directory in which these words were said.
    Saying {
        words: String,
    },
    /// A page of the context inspector.
    Inspect(Inspect),
    /// What the compaction with this entry number lost.
    Loss {
        entry: Seq,
    },
    /// No more pages are asked for until it is opened again.
    InspectorClosed,
    /// The status line of the person's own program; what it is told.
    StatusLine {
        told: Value,
    },
}

/// The answer of the host.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Files {
        query: String,
        paths: Vec<PathBuf>,
        /// How many were listed, where there are more: those are not offered.
        cut: Option<usize>,
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
    /// `None`: it cannot be had or is none.
    Picture {
        number: u32,
        scaled: Option<Scaled>,
    },
    /// Names and what is known of each, in the order in which they are offered.
    Models(Vec<(String, String)>),
    /// Providers and where the key of each comes from, or why no key can be kept.
    Keys(Result<Vec<(String, String)>, String>),
    /// A line about the key that was given for this provider.
    KeyKept {
        provider: String,
        result: Result<String, String>,
    },
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
    /// The colours of code are known.
    Highlighted,
    /// What was asked for is done, in a line for the person, or why not.
    Done(Result<String, String>),
    /// What was pasted, and the image that it names, if any.
    Attached {
        text: String,
        image: Option<(String, Vec<u8>)>,
    },
    Customs(Vec<Custom>),
    /// What a command of the person's or the project's comes to: a prompt.
    Prompt(String),
    Preview {
        session: String,
        text: String,
    },
    Branch(Option<String>),
    /// That part; `None`: nothing in it says the words.
    Past {
        from: Seq,
        to: Seq,
        result: Result<Option<Stretch>, String>,
    },
    /// Numbers, and a line of each.
    Folded {
        entry: Option<Seq>,
        folded: Vec<(Seq, String)>,
    },
    Message {
        seq: Seq,
        text: String,
    },
    /// Their numbers, ids and texts, in order.
    Said(Vec<(Seq, MessageId, String)>),
    Jobs(usize),
    /// Ids, the best first.
    Saying {
        words: String,
        sessions: Vec<String>,
    },
    /// A page of the context inspector, or why there is none.
    Inspected {
        asked: Inspect,
        result: Result<Inspected, String>,
    },
    /// What a compaction lost, or why that cannot be said.
    Loss {
        entry: Seq,
        result: Result<Loss, String>,
    },
    /// Lines of the person's own status line, with their escapes.
    StatusLine(Vec<String>),
}

/// A stretch of what was said before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stretch {
    /// The first entry that it is of.
    pub from: Seq,
    /// The one behind its last.
    pub to: Seq,
    pub events: Vec<Event>,
}

/// Which part of what was said before is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    Start,
    End,
    /// The nearest part in which these words are said.
    Saying {
        words: String,
        back: bool,
    },
}

/// A page that the host made for a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    pub title: String,
    pub markdown: String,
    /// Shown in place of the Markdown.
    pub sheet: Option<Sheet>,
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
