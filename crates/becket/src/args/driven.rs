//! Arguments of a run that another program drives. The official SDKs pass flags of the agent that they were made for.
//!
//! Owns the choice of arguments that are removed before clap parses them. Flags that becket has are passed to clap,
//! joined with their value, because a value may begin with a dash. Every other flag causes a warning but does not end the run,
//! because an SDK is often newer than becket.

use super::Run;
use clap::CommandFactory as _;
use std::ffi::OsString;

/// Flags without a value that ask for what becket always does. They are dropped without a warning.
const DEFAULT_FLAGS: &[&str] = &["await-initialize"];

/// Flags that becket cannot carry out, each with true if it takes a value, and with what to use instead.
const UNSUPPORTED_FLAGS: &[(&str, bool, &str)] = &[
    (
        "betas",
        true,
        "becket chooses a provider's beta features itself; add others as headers of the provider",
    ),
    ("channels", true, "no messages of channels are received; send them as messages of the user"),
    ("debug", false, "use --debug-file FILE"),
    ("debug-to-stderr", false, "use --debug-file FILE"),
    ("project-config-root", true, "use --cd DIR, whose project's files are read"),
    ("task-budget", true, "no budget is passed to the model; --max-tokens N ends a turn"),
    ("thinking-display", true, "reasoning is shown as the provider gives it"),
    ("workload", true, "no requests are marked with it"),
];

/// Variables with which an SDK passes an option that becket cannot carry out, each with the option.
const VARIABLES: &[(&str, &str)] = &[
    ("CLAUDE_CODE_QUESTION_PREVIEW_FORMAT", "toolConfig.askUserQuestion.previewFormat"),
    ("CLAUDE_CODE_QUESTION_EXTENDED", "toolConfig.askUserQuestion.extendedQuestions"),
    ("CLAUDE_CODE_QUESTION_OPTIONAL_DESCRIPTIONS", "toolConfig.askUserQuestion.optionalDescriptions"),
];

/// Returns a warning for each option without effect that an SDK passes in its environment.
pub(crate) fn unused_variables(is_set: impl Fn(&str) -> bool) -> Vec<String> {
    let set = VARIABLES.iter().filter(|(name, _)| is_set(name));
    set.map(|(_, option)| format!("the option {option} has no effect: questions have one form")).collect()
}

/// Unknown flags that take no value. The argument after any other unknown flag is dropped as its value.
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
pub(crate) fn drop_unknown_flags(arguments: &[OsString]) -> (Vec<OsString>, Vec<String>) {
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
        if DEFAULT_FLAGS.contains(&name) {
            continue;
        }
        let known = UNSUPPORTED_FLAGS.iter().find(|(known, ..)| *known == name);
        let plain = rest.peek().and_then(|next| next.to_str()).is_some_and(|next| !next.starts_with('-'));
        let takes = match known {
            Some((_, takes, _)) => *takes,
            None => plain && !WITHOUT_VALUE.contains(&name),
        };
        if takes && !joined {
            rest.next();
        }
        warnings.push(match known {
            Some((.., instead)) => format!("the option --{name} has no effect: {instead}"),
            None => format!("the option --{name} is not known here and has no effect"),
        });
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
        let (out, warnings) = drop_unknown_flags(&words(&[
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
            "--await-initialize",
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
        let named: Vec<bool> = ["--betas", "--debug", "--task-budget", "--brand-new", "--other"]
            .iter()
            .map(|n| warnings.iter().any(|w| w.contains(n)))
            .collect();
        assert_eq!((named, warnings.len()), (vec![true; 5], 5));
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
