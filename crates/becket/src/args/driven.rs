//! Arguments of a run that another program drives. The official SDKs pass flags of the agent that they were made for.
//!
//! Owns the choice of arguments that are removed before clap parses them. Flags that becket has are passed to clap,
//! joined with their value, because a value may begin with a dash. Flags that have no effect here are removed silently.
//! Every other flag causes a warning but does not end the run, because an SDK is often newer than becket.

use super::Run;
use clap::CommandFactory as _;
use std::ffi::OsString;

/// Flags that are harmless to ignore, each with true if it takes a value.
const WITHOUT_EFFECT: &[(&str, bool)] = &[
    ("await-initialize", false),
    ("betas", true),
    ("channels", true),
    ("debug", false),
    ("debug-to-stderr", false),
    ("permission-prompts", true),
    ("thinking-display", true),
];

/// Flags with a value that becket cannot carry out, each with what to use instead.
const NOT_OFFERED: &[(&str, &str)] = &[
    ("project-config-root", "use --cd DIR, whose project's files are read"),
    ("task-budget", "no budget is passed to the model; --max-tokens N ends a turn"),
];

/// Flags of an SDK that take no value, so that the next argument is not taken for one.
const WITHOUT_VALUE: &[&str] = &["strict-mcp-config"];

/// True if another program drives this run: an SDK sets the environment variable, and messages come as JSON.
pub(crate) fn is_driven(arguments: &[OsString], entrypoint: Option<&str>) -> bool {
    let words: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
    let json = words.windows(2).any(|pair| pair == ["--input-format", "stream-json"])
        || words.contains(&"--input-format=stream-json");
    json || entrypoint
        .is_some_and(|name| name.starts_with("sdk-") && words.len() > 1 && words[1].starts_with('-'))
}

/// Returns the arguments for clap, and a warning for each unknown flag.
pub(crate) fn understood(arguments: &[OsString]) -> (Vec<OsString>, Vec<String>) {
    let command = Run::command();
    let find = |name: &str| {
        command.get_arguments().find(|arg| {
            arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|all| all.contains(&name))
        })
    };
    let (mut out, mut warnings) = (Vec::new(), Vec::new());
    let mut rest = arguments.iter().peekable();
    out.extend(rest.next().cloned());
    while let Some(argument) = rest.next() {
        let Some(long) = argument.to_str().and_then(|text| text.strip_prefix("--")).filter(|l| !l.is_empty())
        else {
            out.push(argument.clone());
            continue;
        };
        let (name, joined) = match long.split_once('=') {
            Some((name, _)) => (name, true),
            None => (long, false),
        };
        if let Some(arg) = find(name) {
            let takes = arg.get_action().takes_values();
            match rest.peek() {
                Some(value) if takes && !joined => {
                    let mut both = argument.clone();
                    both.push("=");
                    both.push(value);
                    out.push(both);
                    rest.next();
                }
                _ => out.push(argument.clone()),
            }
            continue;
        }
        let instead = NOT_OFFERED.iter().find(|(known, _)| *known == name).map(|(_, instead)| instead);
        let known = WITHOUT_EFFECT.iter().find(|(known, _)| *known == name);
        let plain = rest.peek().and_then(|next| next.to_str()).is_some_and(|next| !next.starts_with('-'));
        let takes = match known {
            Some((_, takes)) => *takes,
            None => plain && !WITHOUT_VALUE.contains(&name),
        };
        if takes && !joined {
            rest.next();
        }
        match (known, instead) {
            (Some(_), _) => {}
            (None, Some(instead)) => warnings.push(format!("the option --{name} has no effect: {instead}")),
            (None, None) => warnings.push(format!("the option --{name} is not known here and has no effect")),
        }
    }
    (out, warnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[&str]) -> Vec<OsString> {
        list.iter().map(OsString::from).collect()
    }

    #[test]
    fn flags_are_joined_dropped_or_named() {
        let (out, warnings) = understood(&words(&[
            "becket",
            "--output-format",
            "stream-json",
            "--verbose",
            "--system-prompt",
            "--- begins with dashes",
            "--allowedTools",
            "Bash(echo:*),Read",
            "--betas",
            "context-1m",
            "--debug",
            "--resume=abc",
            "--task-budget",
            "5",
            "--brand-new",
            "--other=1",
            "--input-format",
            "stream-json",
        ]));
        assert_eq!(
            out,
            words(&[
                "becket",
                "--output-format=stream-json",
                "--verbose",
                "--system-prompt=--- begins with dashes",
                "--allowedTools=Bash(echo:*),Read",
                "--resume=abc",
                "--input-format=stream-json",
            ])
        );
        let named: Vec<bool> = ["--task-budget", "--brand-new", "--other"]
            .iter()
            .map(|n| warnings.iter().any(|w| w.contains(n)))
            .collect();
        assert_eq!((named, warnings.len()), (vec![true; 3], 3));
    }

    #[test]
    fn a_run_is_driven_by_its_input_or_its_environment() {
        let json = words(&["becket", "--input-format=stream-json"]);
        assert!(is_driven(&json, None));
        assert!(is_driven(&words(&["becket", "--verbose"]), Some("sdk-py")));
        assert!(!is_driven(&words(&["becket", "sessions"]), Some("sdk-py")));
        assert!(!is_driven(&words(&["becket", "-p", "x"]), Some("cli")));
    }
}
