//! Inputs and outputs of the interface: [`Input`] in, [`Effect`] out.
//!
//! Panes are reducers over these types. Nothing here acts: the runner turns terminal events, agent events and the
//! host's answers into inputs, and carries out the effects. So a list of inputs can drive a whole session.

use crate::graphics::{Protocol, Scaled};
use crate::highlight::Job;
use crate::inspector::{Inspect, Inspected};
use crate::page::Sheet;
use crate::server_question::{ServerAnswer, ServerQuestion};
use becket_types::{BlobId, Command, Event, Loss, MessageId, Seq, Tokens, TurnTerms};
use crossterm::event::{KeyEvent, MouseEvent};
use serde_json::Value;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// One event that the interface reacts to.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    clippy::large_enum_variant,
    reason = "inputs are handled one by one; a box for each event would cost more than its move"
)]
pub enum Input {
    Key(KeyEvent),
    /// Bracketed paste. It is never read as keys and never submits.
    Paste(String),
    Mouse(MouseEvent),
    Resize {
        columns: u16,
        rows: u16,
    },
    /// The terminal window got or lost the keyboard.
    Focus(bool),
    /// The terminal's background colour: red, green, blue.
    Background(u8, u8, u8),
    /// Protocol by which the terminal draws images, as the terminal reported.
    Draws(Protocol),
    /// The terminal reports Shift-Enter, because its keyboard protocol is on.
    Keyboard,
    Agent(Event),
    Reply(Reply),
    /// A timer that a pane asked for with [`Effect::Wake`].
    Due(Timer),
    /// SIGTERM, SIGHUP or SIGINT: exit now.
    Terminate,
    /// SIGTSTP: restore the terminal and stop the process.
    Suspend,
    /// SIGCONT: another program may have used the terminal meanwhile.
    Continued,
}

/// A prompt of the history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastPrompt {
    pub text: String,
    /// Byte ranges of the text that were long pastes.
    pub pasted: Vec<Range<usize>>,
}

impl From<&str> for PastPrompt {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), pasted: Vec::new() }
    }
}

/// Reason for which a pane wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Timer {
    /// Updates the elapsed seconds in the status line.
    Clock,
    /// Ends the time in which a second Ctrl-C or Esc counts as a repetition.
    Chord,
    /// Allows the permission question to be answered.
    Arm,
    /// Removes the message in the status line.
    Toast,
    /// Saves the draft.
    Draft,
    /// Runs the user's status line program.
    StatusLine,
    /// Counts the commands in the background again.
    Jobs,
    /// Allows a page that opened by itself to be answered.
    Page,
}

/// An action that a pane asks the runner to carry out.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Send(Command),
    Ask(Request),
    /// Copy to the clipboard.
    Copy(String),
    /// Send [`Input::Due`] with this timer after this many milliseconds.
    Wake(u64, Timer),
    /// The session waits for the user, who looks elsewhere: ring the bell or show a desktop notification.
    Notify(String),
    /// Set the title of the terminal's window.
    Title(String),
    /// Ask the terminal for [`Input::Background`]. A terminal that does not support it sends no answer.
    AskBackground,
    /// Parse code that is in view; [`Reply::Highlighted`] reports the end.
    Highlight(Vec<Job>),
    /// Bytes that send an image to the terminal.
    Image(String),
    /// An image to be drawn over the cells that carry this number.
    Picture(u32, Arc<Scaled>),
    /// Stop the process, as Ctrl-Z does.
    Suspend,
    Quit,
    /// Leave this session for another.
    Switch(To),
}

/// Session to open next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    New,
    Session(String),
    /// A copy of the current session.
    Fork,
}

/// Settings that a rule is written into. Never the ones that a project shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The user's settings for every project.
    User,
    /// The user's settings for this project only.
    Local,
}

/// Preferences of the interface that are kept for the next session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keep {
    Theme(String),
    Vim(bool),
}

/// A custom command of the user or the project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Custom {
    pub name: String,
    /// Description of the arguments that may follow its name.
    pub arguments: String,
    pub description: String,
}

/// A secret on its way to the host. It is never drawn and never part of debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(pub String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("********")
    }
}

/// A page that the host makes. Its fields are facts that only the interface knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageRequest {
    Agents,
    Bug,
    Config,
    /// The model's context window and its usable part; 0 while unknown.
    Context {
        /// Size of the context as the status line shows it.
        used: Tokens,
        window: Tokens,
        usable: Tokens,
    },
    Cost,
    Diff,
    Doctor,
    Hooks,
    /// `reconnect`: the server to which the connection is opened again first.
    Mcp {
        reconnect: Option<String>,
    },
    Memory,
    /// `mode`: the permission mode; empty while unknown.
    Permissions {
        mode: String,
    },
    Skills,
    /// `mode`: the permission mode; empty while unknown.
    Status {
        mode: String,
    },
    Tasks,
    Todos,
    Tools,
}

impl PageRequest {
    /// Returns the page of the command with this name, without facts of the session.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "agents" => Self::Agents,
            "bug" => Self::Bug,
            "config" => Self::Config,
            "context" => Self::Context { used: Tokens(0), window: Tokens(0), usable: Tokens(0) },
            "cost" => Self::Cost,
            "diff" => Self::Diff,
            "doctor" => Self::Doctor,
            "hooks" => Self::Hooks,
            "mcp" => Self::Mcp { reconnect: None },
            "memory" => Self::Memory,
            "permissions" => Self::Permissions { mode: String::new() },
            "skills" => Self::Skills,
            "status" => Self::Status { mode: String::new() },
            "tasks" => Self::Tasks,
            "todos" => Self::Todos,
            "tools" => Self::Tools,
            _ => return None,
        })
    }

    /// Returns the name of the command, which is the title of the page.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Agents => "agents",
            Self::Bug => "bug",
            Self::Config => "config",
            Self::Context { .. } => "context",
            Self::Cost => "cost",
            Self::Diff => "diff",
            Self::Doctor => "doctor",
            Self::Hooks => "hooks",
            Self::Mcp { .. } => "mcp",
            Self::Memory => "memory",
            Self::Permissions { .. } => "permissions",
            Self::Skills => "skills",
            Self::Status { .. } => "status",
            Self::Tasks => "tasks",
            Self::Todos => "todos",
            Self::Tools => "tools",
        }
    }
}

/// Form of an exported session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    Jsonl,
    Md,
    Html,
}

/// Something that only the host knows or can do. The host answers with a [`Reply`].
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Files of the project that match, best first.
    Files {
        query: String,
    },
    /// Edit this text in the user's editor.
    Edit {
        text: String,
    },
    /// Add a prompt to the history, which all sessions share.
    Remember(PastPrompt),
    /// The prompts of earlier sessions, newest last.
    History,
    /// Save the draft of this session, so that a crash does not lose it. `None`: it was sent.
    Draft {
        text: Option<String>,
    },
    /// Make a page. [`Reply::Page`] returns it.
    Page(PageRequest),
    /// Find the session that these words or this id mean. [`Reply::Found`] returns its id.
    Resume {
        session: String,
    },
    /// Write this session to a file.
    Export {
        format: ExportFormat,
        file: String,
    },
    /// End a command that runs in the background.
    StopJob {
        job: u64,
    },
    /// Expand a custom command that the user has just agreed to, and remember that.
    TrustCustom {
        name: String,
        arguments: String,
    },
    /// The draft left by the last run of this session.
    LastDraft,
    /// Names of models, for completion.
    Models,
    /// Providers that take a key, for choosing one.
    Keys,
    /// Store a key for this provider in place of the current one.
    KeepKey {
        provider: String,
        key: Hidden,
    },
    /// Begin a login with a code at this provider. [`Reply::LoginCode`] returns the code.
    LogIn {
        provider: String,
    },
    /// Wait until the user has entered the code. [`Reply::KeyKept`] reports the end; a cancelled login has none.
    AwaitLogin {
        provider: String,
    },
    /// Give up the login that [`Request::LogIn`] began.
    CancelLogin,
    /// The sessions of this directory, for completion.
    Sessions,
    /// Run a shell command of the user, not of the model.
    Shell {
        command: String,
    },
    /// Stop the command that [`Request::Shell`] started.
    StopShell,
    /// Append a line to the project's AGENTS.md.
    Memorize {
        text: String,
    },
    /// An image from the clipboard.
    ClipboardImage,
    /// Scale an image of the transcript to at most this many columns and [`MOST`](crate::transcript::image::MOST);
    /// [`Reply::Picture`] returns it in the form that the protocol needs.
    Picture {
        number: u32,
        blob: BlobId,
        protocol: Protocol,
        columns: u16,
    },
    /// Attach a pasted or dropped text that may be an image's path, exactly as it was pasted.
    Attach {
        text: String,
    },
    /// The custom commands of the user and the project, for completion.
    CustomCommands,
    /// Expand a custom command, whose name may be unknown.
    Custom {
        name: String,
        arguments: String,
    },
    /// Allow this rule from now on.
    Allow {
        rule: String,
        place: Place,
    },
    /// Remove this rule from the settings that hold it.
    Disallow {
        rule: String,
        place: Place,
    },
    Keep(Keep),
    /// The beginning and the end of another session.
    Preview {
        session: String,
    },
    /// The git branch of the working directory.
    Branch,
    /// Earlier events of this session, from one entry up to but not including another.
    Past {
        from: Seq,
        to: Seq,
        want: Want,
    },
    /// The user's messages of the whole session.
    Said,
    /// Messages that the compaction with this entry number removed from the context. `None`: those that all
    /// compactions removed.
    Removed {
        entry: Option<Seq>,
    },
    /// The text of this message.
    Message {
        seq: Seq,
    },
    /// The number of commands that run in the background.
    Jobs,
    /// Sessions of this directory whose messages contain these words.
    Saying {
        words: String,
    },
    /// A page of the context inspector.
    Inspect(Inspect),
    /// The loss report of the compaction with this entry number.
    Loss {
        entry: Seq,
    },
    /// The inspector was closed: no more pages are requested until it opens again.
    InspectorClosed,
    /// The answer to a server's question.
    AnswerServer {
        number: u64,
        answer: ServerAnswer,
    },
    /// Run the user's status line program; the JSON for its standard input.
    StatusLine {
        told: Value,
    },
}

/// Answer of the host to a [`Request`].
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Files {
        query: String,
        paths: Vec<PathBuf>,
        /// The number of paths that were listed, if the project has more. The rest is not offered.
        cut: Option<usize>,
    },
    /// The text from the user's editor, or the reason why there is none.
    Edited(Result<String, String>),
    History(Vec<PastPrompt>),
    Draft(String),
    /// A page to show, or the reason why there is none.
    Page(Result<Page, String>),
    /// Media type and bytes of the clipboard's image, or the reason why there is none.
    Image(Result<(String, Vec<u8>), String>),
    /// `None`: the image cannot be read or decoded.
    Picture {
        number: u32,
        scaled: Option<Scaled>,
    },
    /// Names and descriptions of models, in the order in which they are offered.
    Models(Vec<(String, String)>),
    /// Providers that take a key or a login, or the reason why no key can be stored.
    Keys(Result<Vec<Account>, String>),
    /// The code of a login, and where it is entered.
    LoginCode {
        provider: String,
        code: LoginCode,
    },
    /// The result of storing a key for this provider, in a line for the user.
    KeyKept {
        provider: String,
        result: Result<String, String>,
    },
    /// Ids and descriptions of sessions, newest first.
    Sessions(Vec<(String, String)>),
    /// The id of the session that was asked for, or the reason why there is none.
    Found(Result<String, String>),
    /// A shell command of the user ended: its output, and the details of the result of the shell tool.
    Ran {
        command: String,
        output: String,
        failed: bool,
        details: Value,
    },
    /// Code was parsed and can be drawn in colours.
    Highlighted,
    /// The result of an action in a line for the user, or the reason why it failed.
    Done(Result<String, String>),
    /// The pasted text, and the image at that path, if there is one.
    Attached {
        text: String,
        image: Option<(String, Vec<u8>)>,
    },
    CustomCommands(Vec<Custom>),
    /// The prompt that a custom command expands to. `command`: the command as the user wrote it.
    Prompt {
        command: String,
        text: String,
        terms: TurnTerms,
    },
    Preview {
        session: String,
        text: String,
    },
    Branch(Option<String>),
    /// An MCP server asks the user.
    ServerAsks(Box<ServerQuestion>),
    /// The question with this number needs no answer any more.
    ServerAskOver(u64),
    /// The requested part of the session; `None`: no part contains the words.
    Past {
        from: Seq,
        to: Seq,
        result: Result<Option<Stretch>, String>,
    },
    /// Entry numbers of removed messages, with one line of each.
    Removed {
        entry: Option<Seq>,
        removed: Vec<(Seq, String)>,
    },
    Message {
        seq: Seq,
        text: String,
    },
    /// Entry numbers, ids and texts of the user's messages, in order.
    Said(Vec<(Seq, MessageId, String)>),
    Jobs(usize),
    /// Ids of sessions that contain the words, the best match first.
    Saying {
        words: String,
        sessions: Vec<String>,
    },
    /// A page of the context inspector, or the reason why there is none.
    Inspected {
        asked: Inspect,
        result: Result<Inspected, String>,
    },
    /// The loss report of a compaction, or the reason why it is unknown.
    Loss {
        entry: Seq,
        result: Result<Loss, String>,
    },
    /// Output lines of the user's status line program, with their escape sequences.
    StatusLine(Vec<String>),
}

/// A provider on the page of `/key` and `/login`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub provider: String,
    /// The provider's address, and the source of its current key.
    pub about: String,
    /// The user logs in with a code instead of pasting a key.
    pub has_login: bool,
}

/// The facts that a provider gives for a login with a code (RFC 8628). None of them is a secret of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginCode {
    pub address: String,
    pub code: String,
    /// An address that contains the code.
    pub complete: Option<String>,
    /// Minutes for which the code is valid.
    pub minutes: u64,
}

/// A range of earlier entries of the session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stretch {
    /// The first entry of the range.
    pub from: Seq,
    /// The entry after the last one of the range.
    pub to: Seq,
    pub events: Vec<Event>,
}

/// Selects a part of the earlier session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    Start,
    End,
    /// The part nearest to one end that contains these words. `back`: nearest to the end of the range, because the user
    /// searches towards the beginning.
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
    /// Shown instead of the Markdown.
    pub sheet: Option<Sheet>,
    /// Question at the end of the page.
    pub confirm: Option<Confirm>,
    /// Only on the page of `/permissions`: the allow rules in the user's own files, which can be withdrawn there.
    pub kept: Option<Vec<(String, Place)>>,
}

/// A question at the end of a page. Yes sends the request.
#[derive(Clone, Debug, PartialEq)]
pub struct Confirm {
    pub question: String,
    pub request: Request,
}
