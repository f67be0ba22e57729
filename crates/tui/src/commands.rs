//! Slash commands: their names, what they are for, and what each comes to.
//!
//! A table. What needs more than the screen goes to the host by name; it answers with a page.

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
    Host { name: String, arguments: String },
}

/// Name, arguments, what it is for.
pub const COMMANDS: &[(&str, &str, &str)] = &[
    ("help", "", "this list"),
    ("compact", "[focus]", "compact the context now; say what matters most"),
    ("model", "NAME", "go on with another model"),
    ("mode", "NAME", "permission mode: default, acceptEdits, plan, dontAsk, bypassPermissions"),
    ("context", "", "what the model sees now, by category and span"),
    ("sessions", "", "the sessions of this directory"),
    ("copy", "", "the last answer to the clipboard"),
    ("theme", "NAME", "dark, light, high-contrast, colour-blind, ansi, plain"),
    ("quit", "", "leave; the session can be resumed"),
];

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
        "context" | "sessions" => Ok(Action::Host { name: name.to_owned(), arguments: arguments.to_owned() }),
        _ => Err(format!("there is no command /{name}; /help lists them")),
    }
}

/// The list for people.
pub fn help() -> String {
    const KEYS: &str = "Enter sends, Shift-Enter or \\ Enter a new line · Esc interrupts · Tab queues while it works · \
                        PageUp and wheel scroll · Ctrl-O opens calls · Ctrl-T hidden messages · Ctrl-G editor · \
                        Ctrl-Z suspends · Ctrl-C twice quits";
    let mut out = String::from("commands\n");
    for (name, arguments, what) in COMMANDS {
        let call = format!("/{name} {arguments}");
        let _ = writeln!(out, "{call:<18} {what}");
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
