//! Slash commands: their names, descriptions and effects.
//!
//! A table. A command that needs more than the screen becomes a request to the host, with its arguments as values. Mostly the
//! host answers with a page.

mod help;

use crate::composer::Prompt;
use crate::input::{ExportFormat, PageRequest, To};
use crate::inspector::InspectedRequest;
use becket_types::{Command, DeliveryMode, Limit, Millis, Part, PermissionMode, PromptInput};
use std::path::{Path, PathBuf};

pub use help::help;

/// Effect of a slash command.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Quit,
    Help,
    Keys,
    Vim,
    Send(Command),
    Mode(PermissionMode),
    Model(String),
    /// Choose a provider and replace its key.
    Key,
    Theme(String),
    CopyAnswer,
    Switch(To),
    /// Choose a session; the initial search text.
    Sessions(String),
    /// Open the context inspector, at this request if one was given.
    Inspect(Option<InspectedRequest>),
    /// Choose a message to rewind to.
    Rewind,
    /// Choose messages to bring back that a compaction removed.
    Removed,
    /// Append this line to AGENTS.md.
    Memorize(String),
    /// Send this text as the user's task.
    Task(&'static str),
    Page(PageRequest),
    /// Continue the session that these words or this id mean.
    Resume(String),
    Export {
        format: ExportFormat,
        file: String,
    },
    /// End this command in the background.
    StopJob(u64),
    /// Not a command of becket: a custom command of the user or the project, if one has this name.
    Custom {
        name: String,
        arguments: String,
    },
}

impl Action {
    /// True if the command opens a page or a list, which an open question would hide.
    pub(crate) fn opens_page(&self) -> bool {
        matches!(
            self,
            Self::Help
                | Self::Keys
                | Self::Key
                | Self::Sessions(_)
                | Self::Inspect(_)
                | Self::Rewind
                | Self::Removed
                | Self::Page(_)
        )
    }
}

/// Name, arguments and description. Arguments in capital letters are required, unless they are in brackets.
pub const COMMANDS: &[(&str, &str, &str)] = &[
    ("help", "", "all commands and keys"),
    ("new", "", "a new session; this one can be resumed"),
    ("resume", "[SESSION]", "resume an earlier session"),
    ("sessions", "[words]", "choose among the sessions of this directory"),
    ("rename", "TITLE", "rename this session"),
    ("fork", "", "continue in a copy of this session"),
    ("rewind", "", "go back to before a message: conversation, files or both"),
    ("undo", "", "undo the file changes of the last turn"),
    ("redo", "", "redo the changes of the last undo"),
    ("compact", "[focus]", "compact the context now; say what matters most"),
    ("compact preview", "[focus]", "see a compaction before it applies, and edit its summary"),
    ("compact undo", "", "undo the last compaction; /compact redo applies it again"),
    ("removed", "", "messages that compactions removed, to bring back"),
    ("context", "", "what fills the model's context, and its history"),
    ("inspect", "[N]", "each request as it was sent; drop, collapse or pin parts"),
    ("config", "", "every setting with its value and its source"),
    ("add-dir", "[FOLDER]", "add a folder to the workspace, or list its folders"),
    ("effort", "LEVEL", "how much the model thinks: off, low, medium, high, …"),
    ("plan", "", "the model only reads, and presents a plan"),
    ("btw", "QUESTION", "a question beside the task, not kept in the conversation"),
    ("cost", "", "what each request read and cost, and why a cache missed"),
    ("limits", "[usd|tokens|turns|time AMOUNT]", "usage against the limits; changes or removes one"),
    ("model", "NAME", "switch to another model"),
    ("key", "", "set another key for a provider; it is hidden while you type"),
    ("mode", "NAME", "what needs your permission: default, acceptEdits, plan, …"),
    ("permissions", "", "permission mode and rules"),
    ("status", "", "folders, model, mode, and what the sandbox allows"),
    ("tools", "", "the tools that the model has"),
    ("skills", "", "the skills that were found"),
    ("agents", "", "built-in agents and your own, with tools and models"),
    ("tasks", "", "subagents and commands in the background"),
    ("tasks stop", "N", "stop a background task; /tasks stop job N stops a command"),
    ("tasks tell", "N TEXT", "send a message to a subagent in the background"),
    ("todos", "", "the todo list of this session"),
    ("hooks", "", "the hooks, their sources, and if they run"),
    ("mcp", "", "the MCP servers of this session"),
    ("memory", "[line]", "rules files that the model reads, or add a line to them"),
    ("init", "", "let the model write an AGENTS.md for this project"),
    ("export", "[md|jsonl] FILE", "write this session to a file"),
    ("diff", "", "what differs from the last commit"),
    ("clear", "", "the same as /new"),
    ("copy", "", "copy the last answer to the clipboard"),
    ("theme", "NAME", "dark, light, high-contrast, plain, … or one of your own"),
    ("keys", "", "key bindings, and conflicts between them"),
    ("vim", "", "Vim's keys in the composer, on and off"),
    ("doctor", "", "checks of models, configuration and storage"),
    ("bug", "", "facts to send with a bug report"),
    ("quit", "", "leave; the session can be resumed"),
];

/// The task that `/init` sends.
const INIT: &str = "Look at this repository and write an AGENTS.md in its root for coding agents that will work here: how to \
                    build it, how to run all tests and a single one, how to lint and format; the layout in a few lines; \
                    conventions of the code that one would not guess. Only what you found in the files, at most 60 lines. If \
                    there is an AGENTS.md or CLAUDE.md already, improve it and keep what is right.";

/// True if the command means nothing without an argument.
pub(crate) fn needs_argument(name: &str) -> bool {
    let needed = |arguments: &str| match arguments.split_once('[') {
        Some((before, rest)) => format!("{before}{}", rest.split_once(']').map_or("", |(_, after)| after)),
        None => arguments.to_owned(),
    };
    COMMANDS.iter().any(|(n, arguments, _)| *n == name && needed(arguments).contains(char::is_uppercase))
}

/// Meaning of a submitted text.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// A command of becket, or the reason why it cannot run as it is written.
    Command(Result<Action, String>),
    /// `!command`: runs in the user's shell.
    Shell(String),
    /// `#text`: one line for AGENTS.md. A heading (`## …`), a number (`#12 …`) or several lines are a task.
    Memory(String),
    Task,
}

impl Said {
    /// Classifies a submitted text. A text with images is always a task.
    pub fn of(prompt: &Prompt) -> Self {
        let text = prompt.text.trim();
        if !prompt.images.is_empty() {
            return Self::Task;
        }
        if let Some(command) = text.strip_prefix('!').map(str::trim).filter(|c| !c.is_empty()) {
            return Self::Shell(command.to_owned());
        }
        // A sign without text is no message for the model.
        if let Some(missing) = match text {
            "!" => Some("write a command after !, such as !git status"),
            "#" => Some("write a line for AGENTS.md after #"),
            _ => None,
        } {
            return Self::Command(Err(missing.to_owned()));
        }
        if let Some(line) = text.strip_prefix('#')
            && !line.starts_with(|c: char| c == '#' || c.is_ascii_digit())
            && !line.trim().is_empty()
            && !line.contains('\n')
        {
            return Self::Memory(line.trim().to_owned());
        }
        // Words for a shell or another program, typed out of habit, are not messages for a model.
        match text.to_ascii_lowercase().as_str() {
            "exit" | "quit" | ":q" | ":q!" | ":wq" => return Self::Command(Ok(Action::Quit)),
            "help" | "?" => return Self::Command(Ok(Action::Help)),
            _ => {}
        }
        parse(text).map_or(Self::Task, Self::Command)
    }
}

/// Parses a slash command. Returns `None` if `text` is not one.
///
/// # Errors
///
/// Returns a message for the user if an argument is missing or wrong.
pub fn parse(text: &str) -> Option<Result<Action, String>> {
    let rest = text.trim().strip_prefix('/')?;
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    // A path such as `/usr/bin` is not a command.
    if name.is_empty() || name.contains('/') {
        return None;
    }
    Some(action(name, arguments.trim()))
}

fn action(name: &str, arguments: &str) -> Result<Action, String> {
    let needs = |what: &str| Err(format!("/{name} needs {what}"));
    let words = || arguments.to_owned();
    match name {
        "help" => Ok(Action::Help),
        "keys" => Ok(Action::Keys),
        "vim" => Ok(Action::Vim),
        "quit" | "exit" => Ok(Action::Quit),
        "compact" => Ok(Action::Send(compact(arguments))),
        "removed" | "folded" => Ok(Action::Removed),
        "model" if arguments.is_empty() => needs("a name: /model provider/name"),
        "key" if arguments.is_empty() => Ok(Action::Key),
        "key" => {
            Err("/key takes no argument: the page that it opens hides the key while you type".to_owned())
        }
        "model" => Ok(Action::Model(words())),
        "mode" if arguments.is_empty() => needs("a name"),
        "mode" => Ok(Action::Mode(arguments.parse()?)),
        "plan" => Ok(Action::Mode(PermissionMode::Plan)),
        "effort" if arguments.is_empty() => {
            needs("a level: off, minimal, low, medium, high, xhigh, max, or default")
        }
        "effort" => effort(arguments),
        "add-dir" => {
            let path = Some(arguments).filter(|path| !path.is_empty()).map(PathBuf::from);
            Ok(Action::Send(Command::AddDirectory { path }))
        }
        "btw" if arguments.is_empty() => needs("a question: /btw why that file?"),
        "btw" => Ok(Action::Send(Command::SideQuestion { question: words() })),
        "usage" => Ok(Action::Page(PageRequest::Cost)),
        "login" => Ok(Action::Key),
        "logout" => Err("becket logout PROVIDER removes a saved key; run it in a shell".to_owned()),
        "import" => Err("becket import FILE reads a session of another agent; run it in a shell".to_owned()),
        "theme" if arguments.is_empty() => needs("a name"),
        "theme" => Ok(Action::Theme(words())),
        "copy" => Ok(Action::CopyAnswer),
        "new" | "clear" => Ok(Action::Switch(To::New)),
        "fork" => Ok(Action::Switch(To::Fork)),
        "sessions" => Ok(Action::Sessions(words())),
        "resume" if arguments.is_empty() => Ok(Action::Sessions(String::new())),
        "limits" => Ok(Action::Send(Command::Limits { change: limit(arguments)? })),
        "rename" if arguments.is_empty() => needs("a title"),
        "rename" => Ok(Action::Send(Command::Rename { title: words() })),
        "inspect" if arguments.is_empty() => Ok(Action::Inspect(None)),
        "inspect" if arguments == "now" => Ok(Action::Inspect(Some(InspectedRequest::Now))),
        "inspect" => match arguments.parse() {
            Ok(number) => Ok(Action::Inspect(Some(InspectedRequest::numbered(number)))),
            Err(_) => needs("no argument, `now`, or the number of a request: /inspect 12"),
        },
        "rewind" => Ok(Action::Rewind),
        "tasks" => tasks(arguments),
        "undo" => Ok(Action::Send(Command::Undo)),
        "redo" => Ok(Action::Send(Command::Redo)),
        "init" => Ok(Action::Task(INIT)),
        "memory" if !arguments.is_empty() => Ok(Action::Memorize(words())),
        "export" if arguments.is_empty() => needs("a file: /export notes.md, /export jsonl session.jsonl"),
        "export" => export(arguments),
        "resume" => Ok(Action::Resume(words())),
        "mcp" => {
            let server = arguments.strip_prefix("reconnect ").map(|name| name.trim().to_owned());
            Ok(Action::Page(PageRequest::Mcp { reconnect: server }))
        }
        name => Ok(match PageRequest::named(name) {
            Some(page) => Action::Page(page),
            None => Action::Custom { name: name.to_owned(), arguments: words() },
        }),
    }
}

/// Parses `/limits`: nothing, or a limit and its new value.
fn limit(arguments: &str) -> Result<Option<Limit>, String> {
    let usage =
        "/limits takes nothing, or a limit and an amount: usd 5, tokens 2m, turns 50, time 20m, usd off";
    let (name, amount) = match arguments.split_once(char::is_whitespace) {
        Some((name, amount)) => (name, amount.trim()),
        None if arguments.is_empty() => return Ok(None),
        None => return Err(usage.to_owned()),
    };
    let units: &[(&str, f64)] = match name {
        "usd" | "turns" => &[],
        "tokens" => &[("k", 1e3), ("m", 1e6)],
        "time" => &[("s", 1.0), ("m", 60.0), ("h", 3_600.0)],
        _ => return Err(usage.to_owned()),
    };
    let text = amount.trim_start_matches('$').to_ascii_lowercase().replace(['_', ','], "");
    let unit = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?.trim(), *factor)));
    let (number, factor) = unit.unwrap_or((text.as_str(), 1.0));
    let value = match number.parse::<f64>() {
        _ if matches!(number, "off" | "none") => None,
        Ok(number) if number.is_finite() && number > 0.0 => Some(number * factor),
        _ => return Err(format!("{amount:?} is not an amount above 0. {usage}")),
    };
    let whole = value.map(|value| (value.round() as u64).max(1));
    Ok(Some(match name {
        "usd" => Limit::Usd(value),
        "tokens" => Limit::Tokens(whole),
        "turns" => Limit::Turns(whole),
        _ => Limit::Wall(value.map(|seconds| Millis((seconds * 1_000.0).round() as u64))),
    }))
}

/// Parses `/effort`.
fn effort(level: &str) -> Result<Action, String> {
    const LEVELS: [&str; 7] = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];
    let level = level.to_lowercase();
    let effort = match level.as_str() {
        "default" | "auto" => None,
        known if LEVELS.contains(&known) => Some(level),
        _ => return Err(format!("there is no effort {level}: {}, or default", LEVELS.join(", "))),
    };
    Ok(Action::Send(Command::SetEffort { effort }))
}

/// Parses `/tasks`: the list, or a command to one task.
fn tasks(arguments: &str) -> Result<Action, String> {
    let mut words = arguments.splitn(3, char::is_whitespace);
    let (verb, task, rest) = (words.next(), words.next(), words.next().map(str::trim));
    let stop = |job: &str| match job.parse() {
        Ok(job) => Ok(Action::StopJob(job)),
        Err(_) => Err(format!("there is no job {job}; /tasks lists them")),
    };
    let to = |task: &str, what: Command| match task.parse() {
        Ok(task) => Ok(Action::Send(Command::ToTask { task, what: Box::new(what) })),
        Err(_) => Err("/tasks needs the number of a task: /tasks lists them".to_owned()),
    };
    match (verb, task, rest.filter(|rest| !rest.is_empty())) {
        (Some(""), None, None) => Ok(Action::Page(PageRequest::Tasks)),
        (Some("stop"), Some("job"), Some(job)) => stop(job),
        (Some("stop"), Some(task), None) => to(task, Command::Interrupt),
        (Some("tell"), Some(task), Some(text)) => to(
            task,
            Command::Prompt(PromptInput {
                parts: vec![Part::text(text)],
                mode: DeliveryMode::Steer,
                ..PromptInput::default()
            }),
        ),
        _ => Err("write /tasks, /tasks stop N, /tasks stop job N, or /tasks tell N TEXT".to_owned()),
    }
}

/// Parses `/export`. Without a format, the name of the file decides.
fn export(arguments: &str) -> Result<Action, String> {
    let (first, rest) = match arguments.split_once(char::is_whitespace) {
        Some((first, file)) => (first, file.trim_start()),
        None => ("", arguments),
    };
    if first.is_empty() && ["md", "jsonl", "html"].contains(&rest) {
        return Err(format!("/export {rest} needs a file: /export {rest} session.{rest}"));
    }
    let ending = Path::new(rest).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let (format, file) = match (first, ending) {
        ("md", _) => (ExportFormat::Md, rest),
        ("jsonl", _) => (ExportFormat::Jsonl, rest),
        ("html", _) => (ExportFormat::Html, rest),
        // A single word before the file is a format. A file name with blanks needs one before it.
        (word, _) if !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric()) => {
            return Err(format!("there is no format {word}: write md, jsonl or html before the file"));
        }
        ("", "json") => return Err("there is no format json: name a file that ends in .jsonl".to_owned()),
        (_, "html") => (ExportFormat::Html, arguments),
        (_, "jsonl") => (ExportFormat::Jsonl, arguments),
        _ => (ExportFormat::Md, arguments),
    };
    Ok(Action::Export { format, file: file.to_owned() })
}

/// Parses `/compact`: a compaction, its preview, or its undoing.
fn compact(arguments: &str) -> Command {
    let focus = |words: &str| Some(words.trim().to_owned()).filter(|words| !words.is_empty());
    match arguments.split_once(char::is_whitespace).unwrap_or((arguments, "")) {
        ("preview", rest) => Command::PlanCompaction { focus: focus(rest) },
        ("undo", "") => Command::UndoCompaction,
        ("redo", "") => Command::RedoCompaction,
        _ => Command::Compact { focus: focus(arguments) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_what_is_none() {
        assert_eq!(parse("fix it"), None);
        assert_eq!(parse("/usr/bin is full"), None);
        assert_eq!(parse("/quit"), Some(Ok(Action::Quit)));
        assert_eq!(
            parse("/compact the parser"),
            Some(Ok(Action::Send(Command::Compact { focus: Some("the parser".into()) })))
        );
        assert_eq!(parse("/mode plan"), Some(Ok(Action::Mode(PermissionMode::Plan))));
        for (text, command) in [
            ("/compact preview the parser", Command::PlanCompaction { focus: Some("the parser".into()) }),
            ("/compact preview", Command::PlanCompaction { focus: None }),
            ("/compact undo", Command::UndoCompaction),
            ("/compact redo", Command::RedoCompaction),
            ("/compact undo of the parser", Command::Compact { focus: Some("undo of the parser".into()) }),
        ] {
            assert_eq!(parse(text), Some(Ok(Action::Send(command))), "{text}");
        }
        let own = Action::Custom { name: "review".into(), arguments: "a b".into() };
        assert_eq!(parse("/review a b"), Some(Ok(own)));
        for bad in ["/model", "/mode", "/mode yolo", "/theme", "/rename", "/export", "/key sk-0"] {
            assert!(matches!(parse(bad), Some(Err(_))), "{bad}");
        }
    }

    #[test]
    fn tasks_are_listed_stopped_and_told() {
        let prompt = |text: &str| {
            let parts = vec![Part::text(text)];
            Command::Prompt(PromptInput { parts, mode: DeliveryMode::Steer, ..PromptInput::default() })
        };
        let to = |task, what| Some(Ok(Action::Send(Command::ToTask { task, what: Box::new(what) })));
        assert_eq!(parse("/tasks"), Some(Ok(Action::Page(PageRequest::Tasks))));
        assert_eq!(parse("/tasks stop job 3"), Some(Ok(Action::StopJob(3))));
        assert_eq!(parse("/tasks stop 2"), to(2, Command::Interrupt));
        assert_eq!(parse("/tasks tell 2 also the tests"), to(2, prompt("also the tests")));
        for bad in ["/tasks stop", "/tasks stop x", "/tasks stop job x", "/tasks tell 2", "/tasks nope"] {
            assert!(matches!(parse(bad), Some(Err(_))), "{bad}");
        }
    }

    #[test]
    fn pages_have_the_names_of_commands() {
        for (name, ..) in COMMANDS {
            if let Some(page) = PageRequest::named(name) {
                assert_eq!(page.name(), *name);
            }
        }
        let reconnect = Some("docs".to_owned());
        assert_eq!(parse("/mcp reconnect docs"), Some(Ok(Action::Page(PageRequest::Mcp { reconnect }))));
    }

    #[test]
    fn the_format_of_an_export_is_named_or_is_that_of_the_file() {
        use ExportFormat::{Html, Jsonl, Md};
        for (typed, wanted) in [
            ("notes", Some((Md, "notes"))),
            ("md my notes", Some((Md, "my notes"))),
            ("jsonl  a.jsonl", Some((Jsonl, "a.jsonl"))),
            ("a.html", Some((Html, "a.html"))),
            ("a.jsonl", Some((Jsonl, "a.jsonl"))),
            ("./my notes.html", Some((Html, "./my notes.html"))),
            ("json out", None),
            ("out.json", None),
        ] {
            let wanted = wanted.map(|(format, file)| Action::Export { format, file: file.to_owned() });
            assert_eq!(export(typed).ok(), wanted, "{typed}");
        }
        let why = export("json out").unwrap_err();
        assert_eq!(why, "there is no format json: write md, jsonl or html before the file");
        for format in ["md", "jsonl", "html"] {
            let why = export(format).unwrap_err();
            assert_eq!(why, format!("/export {format} needs a file: /export {format} session.{format}"));
        }
    }

    #[test]
    fn limits_and_their_amounts() {
        for (text, want) in [
            ("", None),
            ("usd 5", Some(Limit::Usd(Some(5.0)))),
            ("usd $0.50", Some(Limit::Usd(Some(0.5)))),
            ("usd off", Some(Limit::Usd(None))),
            ("tokens 2m", Some(Limit::Tokens(Some(2_000_000)))),
            ("tokens 32,000", Some(Limit::Tokens(Some(32_000)))),
            ("tokens none", Some(Limit::Tokens(None))),
            ("turns 50", Some(Limit::Turns(Some(50)))),
            ("time 20m", Some(Limit::Wall(Some(Millis(1_200_000))))),
            ("time 1.5 h", Some(Limit::Wall(Some(Millis(5_400_000))))),
            ("time 90", Some(Limit::Wall(Some(Millis(90_000))))),
        ] {
            let action = Action::Send(Command::Limits { change: want });
            assert_eq!(parse(&format!("/limits {text}")), Some(Ok(action)), "{text}");
        }
        for bad in
            ["usd", "5", "usd 0", "usd -1", "usd many", "usd nan", "money 5", "turns 2k", "time 5 years"]
        {
            assert!(matches!(parse(&format!("/limits {bad}")), Some(Err(_))), "{bad}");
        }
    }

    #[test]
    fn names_that_other_agents_use_do_the_same_here() {
        let add = |path: Option<&str>| {
            Some(Ok(Action::Send(Command::AddDirectory { path: path.map(PathBuf::from) })))
        };
        assert_eq!((parse("/add-dir ../my lib"), parse("/add-dir")), (add(Some("../my lib")), add(None)));
        assert_eq!(parse("/plan"), Some(Ok(Action::Mode(PermissionMode::Plan))));
        let effort = |effort: Option<&str>| {
            Some(Ok(Action::Send(Command::SetEffort { effort: effort.map(str::to_owned) })))
        };
        assert_eq!((parse("/effort High"), parse("/effort default")), (effort(Some("high")), effort(None)));
        assert_eq!(parse("/login"), Some(Ok(Action::Key)));
        assert_eq!(parse("/usage"), Some(Ok(Action::Page(PageRequest::Cost))));
        for bad in ["/effort", "/effort huge", "/logout", "/import"] {
            assert!(matches!(parse(bad), Some(Err(_))), "{bad}");
        }
    }

    #[test]
    fn what_is_said() {
        let said = |text: &str| Said::of(&Prompt { text: text.to_owned(), ..Prompt::default() });
        assert_eq!(said("!ls -l"), Said::Shell("ls -l".into()));
        for sign in ["!", " ! ", "#", "# "] {
            assert!(matches!(said(sign), Said::Command(Err(_))), "{sign}");
        }
        assert_eq!(said("# tabs, not spaces"), Said::Memory("tabs, not spaces".into()));
        for task in ["##", "#12 fails", "## Plan", "# Plan\nand more", "fix it"] {
            assert_eq!(said(task), Said::Task, "{task}");
        }
        assert_eq!(said("/quit"), Said::Command(Ok(Action::Quit)));
        for text in ["exit", " Quit ", ":q", ":wq"] {
            assert_eq!(said(text), Said::Command(Ok(Action::Quit)), "{text}");
        }
        assert_eq!(
            (said("help"), said("?")),
            (Said::Command(Ok(Action::Help)), Said::Command(Ok(Action::Help)))
        );
        assert_eq!((said("exit code 1?"), said("help me")), (Said::Task, Said::Task));
    }

    #[test]
    fn every_listed_command_is_known() {
        for (name, ..) in COMMANDS {
            let argument = match *name {
                "mode" => "plan",
                "limits" => "usd 5",
                "inspect" => "3",
                "effort" => "high",
                "tasks" => "",
                "tasks tell" => "1 x",
                "key" => "",
                _ => "x",
            };
            let argument = if *name == "tasks stop" { "1" } else { argument };
            let parsed = parse(&format!("/{name} {argument}")).unwrap().unwrap();
            assert!(!matches!(parsed, Action::Custom { .. }), "{name}");
        }
    }
}
