//! Slash commands: their names, what they are for, and what each comes to.
//!
//! A table. What needs more than the screen goes to the host by name; it answers with a page.

use crate::composer::Prompt;
use crate::theme::Theme;
use becket_types::{Command, PermissionMode};
use std::fmt::Write as _;

/// What a command comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Quit,
    Help,
    Send(Command),
    Theme(Box<Theme>),
    CopyAnswer,
    New,
    Host { name: String, arguments: String },
}

/// Name, arguments (in brackets what may be left out), what it is for.
pub const COMMANDS: &[(&str, &str, &str)] = &[
    ("help", "", "this list"),
    ("compact", "[focus]", "compact the context now; say what matters most"),
    ("model", "NAME", "go on with another model"),
    ("mode", "NAME", "permission mode: default, acceptEdits, plan, dontAsk, bypassPermissions"),
    ("context", "", "what the model sees now, by category and span"),
    ("cost", "", "what each request read, wrote and cost"),
    ("new", "", "a new session; this one can be resumed"),
    ("resume", "SESSION", "go on with an earlier session"),
    ("sessions", "[words]", "the sessions of this directory, or those that hold some words"),
    ("diff", "", "what differs from the last commit"),
    ("tools", "", "the tools that the model has"),
    ("skills", "", "the skills that were found"),
    ("permissions", "", "permission mode and rules"),
    ("export", "[md|jsonl] FILE", "this session into a file"),
    ("doctor", "", "checks of models, configuration and storage"),
    ("copy", "", "the last answer to the clipboard"),
    ("theme", "NAME", "dark, light, high-contrast, colour-blind, ansi, plain"),
    ("quit", "", "leave; the session can be resumed"),
];

/// Commands that the host answers.
const HOST: [&str; 10] =
    ["resume", "context", "cost", "sessions", "diff", "tools", "skills", "permissions", "export", "doctor"];

/// Whether a command says nothing without an argument.
pub fn needs_argument(name: &str) -> bool {
    COMMANDS.iter().any(|(n, arguments, _)| *n == name && arguments.contains(char::is_uppercase))
}

/// What a finished text is.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    Command(Result<Action, String>),
    /// `!command`: the person runs it.
    Shell(String),
    /// `#text`: one line for AGENTS.md. A heading (`## …`), a number (`#12 …`) and several lines are a task.
    Memory(String),
    Task,
}

impl Said {
    pub fn of(prompt: &Prompt) -> Self {
        let text = prompt.text.trim();
        if !prompt.images.is_empty() {
            return Self::Task;
        }
        if let Some(command) = text.strip_prefix('!').map(str::trim).filter(|c| !c.is_empty()) {
            return Self::Shell(command.to_owned());
        }
        if let Some(line) = text.strip_prefix('#')
            && !line.starts_with(|c: char| c == '#' || c.is_ascii_digit())
            && !line.trim().is_empty()
            && !line.contains('\n')
        {
            return Self::Memory(line.trim().to_owned());
        }
        parse(text).map_or(Self::Task, Self::Command)
    }
}

/// What `text` asks for; `None` when it is no command. `Err` says what to write instead.
pub fn parse(text: &str) -> Option<Result<Action, String>> {
    let rest = text.trim().strip_prefix('/')?;
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    // A path is not a command.
    if name.is_empty() || name.contains('/') {
        return None;
    }
    Some(action(name, arguments.trim()))
}

fn action(name: &str, arguments: &str) -> Result<Action, String> {
    let needs = |what: &str| Err(format!("/{name} needs {what}"));
    match name {
        "help" => Ok(Action::Help),
        "quit" | "exit" => Ok(Action::Quit),
        "compact" => {
            Ok(Action::Send(Command::Compact { focus: Some(arguments.to_owned()).filter(|a| !a.is_empty()) }))
        }
        "model" if arguments.is_empty() => needs("a name: /model provider/name"),
        "model" => Ok(Action::Send(Command::SetModel { model: arguments.to_owned() })),
        "mode" => {
            let mode: PermissionMode = arguments.parse()?;
            Ok(Action::Send(Command::SetMode { mode: mode.to_string() }))
        }
        "theme" => Theme::by_name(arguments)
            .map(|t| Action::Theme(Box::new(t)))
            .ok_or_else(|| format!("themes: {}", Theme::NAMES.join(", "))),
        "copy" => Ok(Action::CopyAnswer),
        "new" => Ok(Action::New),
        "resume" if arguments.is_empty() => needs("a session: its id, the beginning of one, or its title"),
        "export" if arguments.is_empty() => needs("a file: /export notes.md, /export jsonl session.jsonl"),
        name if HOST.contains(&name) => {
            Ok(Action::Host { name: name.to_owned(), arguments: arguments.to_owned() })
        }
        _ => Err(format!("there is no command /{name}; /help lists them")),
    }
}

/// The list for people.
pub fn help() -> String {
    const KEYS: &str = "Enter sends, Shift-Enter or \\ Enter a new line · Esc interrupts · Tab queues while it works · \
                        PageUp and wheel scroll · Ctrl-O opens calls · Ctrl-T hidden messages · Ctrl-G editor · \
                        Ctrl-P finds a command · Ctrl-R an earlier prompt · Ctrl-Z suspends · Ctrl-C twice quits\n\
                        @file names a file · !command runs it · #text adds a line to AGENTS.md";
    let mut out = String::from("commands\n");
    for (name, arguments, what) in COMMANDS {
        let call = format!("/{name} {arguments}");
        let _ = writeln!(out, "{call:<24} {what}");
    }
    out.push_str(KEYS);
    out
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
        assert_eq!(parse("/mode plan"), Some(Ok(Action::Send(Command::SetMode { mode: "plan".into() }))));
        for bad in ["/nope", "/model", "/mode yolo", "/theme pink"] {
            assert!(matches!(parse(bad), Some(Err(_))), "{bad}");
        }
    }

    #[test]
    fn what_is_said() {
        let said = |text: &str| Said::of(&Prompt { text: text.to_owned(), images: Vec::new() });
        assert_eq!(said("!ls -l"), Said::Shell("ls -l".into()));
        assert_eq!(said("# tabs, not spaces"), Said::Memory("tabs, not spaces".into()));
        for task in ["!", "#", "#12 fails", "## Plan", "# Plan\nand more", "fix it"] {
            assert_eq!(said(task), Said::Task, "{task}");
        }
        assert_eq!(said("/quit"), Said::Command(Ok(Action::Quit)));
    }

    #[test]
    fn every_listed_command_is_known() {
        for (name, ..) in COMMANDS {
            let argument = match *name {
                "mode" => "plan",
                "theme" => "dark",
                _ => "x",
            };
            assert!(matches!(parse(&format!("/{name} {argument}")), Some(Ok(_))), "{name}");
        }
    }
}
