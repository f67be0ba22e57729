//! `becket demo`: the whole program at work on a scratch repository, with a scripted model.
//!
//! Only the model's answers come from a file. The tools run, a message is really inserted in the middle of the turn,
//! and the context really fills and is compacted. At the end the demo runs the checks once more itself.

use crate::args::{DemoArgs, Run};
use crate::assemble::{Assembled, assemble};
use crate::cmd::{count, one_line, short};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::settings::RunSettings;
use becket_agent::AgentHandle;
use becket_print::ExitStatus;
use becket_types::{Command, DeliveryMode, Event, Message, Part, PromptInput, TurnEnd};
use clap::Parser as _;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;

const SCRIPT: &str = include_str!("../../demo/script.json");
const FILES: &[(&str, &str)] =
    &[("slug.sh", include_str!("../../demo/slug.sh")), ("test.sh", include_str!("../../demo/test.sh"))];

const TASK: &str = "The checks in test.sh fail. Find out why and fix slug.sh.";
const STEERING: &str = "Please make sure that digits stay in the slug.";

pub(crate) fn run(
    environment: &Environment,
    args: &DemoArgs,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    let mut quiet = io::sink();
    let story: &mut dyn Write = if args.json { &mut quiet } else { &mut *out };
    let told = run_demo(environment, args.keep, story)?;
    if args.json {
        let body = json!({ "completed": told.completed, "checks_pass": told.pass, "kept": told.kept });
        writeln!(out, "{body}").map_err(failed("write to stdout"))?;
    }
    Ok(if told.pass && told.completed { ExitStatus::Ok } else { ExitStatus::Error })
}

/// Result of the demo.
struct DemoResult {
    completed: bool,
    pass: bool,
    /// The scratch folder, if it was kept.
    kept: Option<PathBuf>,
}

fn run_demo(environment: &Environment, keep: bool, out: &mut dyn Write) -> Result<DemoResult, Failure> {
    let scratch =
        tempfile::Builder::new().prefix("becket-demo-").tempdir().map_err(failed("make a scratch folder"))?;
    let (root, kept) = if keep { (scratch.keep(), true) } else { (scratch.path().to_path_buf(), false) };
    let repository = root.join("repository");
    lay_out(&repository, &root)?;

    print_line(
        out,
        "becket demo: the model is scripted, its answers come from a file. Everything else is real: the files, the tools, the \
         message in the middle of the turn, the compaction, the checks. No key, no network.",
    )?;
    print_line(out, &format!("scratch repository: {}\n", repository.display()))?;

    // The demo has its own home folder, so that it neither reads nor changes anything of the user's.
    let path = environment.vars.get_key_value("PATH");
    let vars = path.map(|(k, v)| (k.clone(), v.clone())).into_iter().collect();
    let environment = Environment { vars, home: Some(root.clone()), ..Environment::below(&root) };
    let script = root.join("script.json");
    let model = format!("script:{}", script.display());
    let parsed = Run::try_parse_from([
        "becket",
        "--print",
        "--model",
        &model,
        "--permission-mode",
        "acceptEdits",
        "--allowedTools",
        "Bash(./test.sh)",
        "--setting-sources=",
        "-C",
        &repository.to_string_lossy(),
        "--",
        TASK,
    ])
    .map_err(|e| Failure::error(e.to_string()))?;
    let settings = RunSettings::new(parsed, &environment)?;
    let green = crate::runtime()?.block_on(watch(&environment, settings, out))?;

    let checks = process::Command::new("sh").arg("./test.sh").current_dir(&repository).output();
    let pass = checks.map_err(failed("run the checks"))?.status.success();
    print_line(
        out,
        &format!(
            "\nThe demo ran ./test.sh once more by itself: {}.",
            if pass { "all checks pass" } else { "checks fail" }
        ),
    )?;
    if kept {
        print_line(out, &format!("Kept: {}. See what the model saw:", root.display()))?;
        print_line(
            out,
            &format!(
                "  BECKET_HOME={} becket context -C {}",
                root.join("data").display(),
                repository.display()
            ),
        )?;
    } else {
        print_line(out, "The scratch repository is deleted; --keep keeps it, with the session.")?;
    }
    print_line(
        out,
        "Your turn:\n  ANTHROPIC_API_KEY=… becket -p \"task\"\n  OPENAI_BASE_URL=http://127.0.0.1:8080/v1 becket -p \"task\"",
    )?;
    Ok(DemoResult { completed: green, pass, kept: kept.then_some(root) })
}

/// Creates the repository with its failing checks, and documentation that is long enough to fill a small window.
fn lay_out(repository: &Path, root: &Path) -> Result<(), Failure> {
    let write =
        |path: PathBuf, text: &str| fs::write(&path, text).map_err(failed("write the scratch repository"));
    fs::create_dir_all(repository.join("docs")).map_err(failed("make the scratch repository"))?;
    for (name, text) in FILES {
        write(repository.join(name), text)?;
        executable(&repository.join(name)).map_err(failed("write the scratch repository"))?;
    }
    write(repository.join("docs/slugs.md"), &slug_rules())?;
    write(repository.join("docs/history.md"), &history())?;
    write(root.join("script.json"), SCRIPT)?;
    // The demo works without git as well.
    let _ = process::Command::new("git").args(["init", "-q"]).current_dir(repository).output();
    Ok(())
}

fn executable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

fn slug_rules() -> String {
    let mut text =
        "# Slugs\n\nLower case; every run of other characters becomes one hyphen; none at the ends.\n\n"
            .to_owned();
    for n in 1..=150 {
        let _ = writeln!(
            text,
            "- example {n}: `Chapter {n}, part (b)` becomes `chapter-{n}-part-b`, in every place that names files"
        );
    }
    text
}

fn history() -> String {
    let mut text = "# History\n\n".to_owned();
    for n in 1..=170 {
        let _ = writeln!(
            text,
            "- {}.{}: release notes moved to `release-{n}-notes.md`; no exception to the slug rule was made",
            n / 10,
            n % 10
        );
    }
    text
}

/// Runs the agent and prints its progress. Returns true if the turn was completed.
async fn watch(
    environment: &Environment,
    mut settings: RunSettings,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    let Assembled { agent, handle, .. } = assemble(environment, &mut settings).await?;
    let AgentHandle { commands, mut events, .. } = handle;
    let send = |text: &str| prompt(text);
    let _ = commands.send(send(TASK)).await;
    let mut steered = false;
    let mut completed = false;
    let agent = agent.run();
    tokio::pin!(agent);
    loop {
        let event = tokio::select! {
            biased;
            event = events.recv() => event,
            _ = &mut agent => None,
        };
        let Some(event) = event else { break };
        // The user's message arrives while the checks run for the first time.
        if matches!(&event, Event::ToolStarted { name, .. } if name == "bash") && !steered {
            steered = true;
            let _ = commands.send(send(STEERING)).await;
        }
        if let Event::TurnFinished(result) = &event {
            completed = result.end == TurnEnd::Completed;
            let _ = commands.send(Command::EndInput).await;
        }
        if let Some(line) = line(&event) {
            print_line(out, &line)?;
        }
    }
    Ok(completed)
}

fn prompt(text: &str) -> Command {
    Command::Prompt(PromptInput {
        parts: vec![Part::text(text)],
        mode: DeliveryMode::Steer,
        ..PromptInput::default()
    })
}

/// Describes an event in one line for the user, if it is worth one.
fn line(event: &Event) -> Option<String> {
    Some(match event {
        Event::UserMessage { message, steered, .. } => {
            format!("\nyou{}: {}", if *steered { ", while it works" } else { "" }, message.text())
        }
        Event::AssistantMessage { message, .. } if !message.text().is_empty() => {
            format!("\nbecket: {}", message.text())
        }
        Event::ToolStarted { name, input, .. } => format!("  {name} {}", subject(input)),
        Event::ToolFinished { message, .. } => format!("    {}", one_line(&outcome(message), 76)),
        Event::PermissionDenied(denial) => format!("  denied: {}", denial.reason),
        Event::CompactBoundary { pre_tokens, post_tokens, .. } => format!(
            "\n  -- context compacted {} -> {} tokens: older history is now one summary, and the work continues --",
            short(pre_tokens.0),
            short(post_tokens.0)
        ),
        Event::Notice { text, .. } => format!("  note: {text}"),
        Event::TurnFinished(result) => {
            let end = match &result.end {
                TurnEnd::Completed => "completed".to_owned(),
                other => format!("{other:?}"),
            };
            let requests = count(usize::try_from(result.steps).unwrap_or(usize::MAX), "request");
            let compactions =
                count(usize::try_from(result.compaction.count).unwrap_or(usize::MAX), "compaction");
            format!("\nturn {end}: {requests}, {compactions}")
        }
        _ => return None,
    })
}

fn subject(input: &Value) -> String {
    one_line(becket_types::subject(input), 60)
}

/// Returns the result of a call in one line.
fn outcome(message: &Message) -> String {
    let text = message.parts.iter().find_map(|p| match p {
        Part::ToolResult { output, .. } => Some(output.as_str()),
        _ => None,
    });
    let text = text.unwrap_or_default();
    let failed: Vec<&str> = text.lines().filter(|l| l.starts_with("FAIL")).collect();
    match (message.metadata.tool_name.as_deref(), failed.first()) {
        (Some("read"), _) => count(text.lines().count(), "line"),
        (Some("todo"), _) => count(text.lines().filter(|l| l.trim_start().starts_with('[')).count(), "item"),
        (_, Some(first)) => format!("{}, the first: {first}", count(failed.len(), "failure")),
        (_, None) => {
            text.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("(no output)").trim().to_owned()
        }
    }
}

/// Columns of the lines if standard output is no terminal.
const COLUMNS: usize = 80;

fn print_line(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let columns = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    let clean = becket_print::clean(text);
    clean
        .split('\n')
        .flat_map(|line| wrapped(line, columns.unwrap_or(COLUMNS)))
        .try_for_each(|line| writeln!(out, "{line}"))
        .and_then(|()| out.flush())
        .map_err(failed("write to stdout"))
}

/// Divides a line between its words into lines of at most `columns`, with the same indentation. A longer word stays whole, because it
/// is an address or a path.
fn wrapped(line: &str, columns: usize) -> Vec<String> {
    let indent = &line[..line.len() - line.trim_start().len()];
    let mut lines: Vec<String> = Vec::new();
    let mut used = 0;
    for word in line.split_whitespace() {
        let length = word.chars().count();
        match lines.last_mut().filter(|_| used + 1 + length <= columns) {
            Some(last) => {
                last.push(' ');
                last.push_str(word);
                used += 1 + length;
            }
            None => {
                lines.push(format!("{indent}{word}"));
                used = indent.chars().count() + length;
            }
        }
    }
    if lines.is_empty() {
        lines.push(String::new());
    }
    lines
}

fn failed(doing: &'static str) -> impl Fn(std::io::Error) -> Failure {
    move |e| Failure::error(format!("cannot {doing}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_divided_between_words() {
        assert_eq!(wrapped("  one two three", 10), ["  one two", "  three"]);
        assert_eq!(wrapped("one https://a.example/long two", 10), ["one", "https://a.example/long", "two"]);
        assert_eq!(wrapped("", 10), [""]);
        assert_eq!(wrapped("fits", 4), ["fits"]);
    }
}
