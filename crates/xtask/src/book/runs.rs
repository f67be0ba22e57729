//! Runs the commands of the reference tables: `becket …` lines in code blocks that are not `console` blocks.
//!
//! Each runs in a fresh home folder with a project, a scripted model, and a session of six turns, and must succeed. Placeholders
//! for names of the reader (`SESSION`, `FILE`) are replaced. A line that opens the terminal is run headless with the same flags,
//! and one that asks for a confirmation gets `--yes`. Lines that cannot run here are in [`NOT_RUN`], with the reason.

use super::shell;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Beginnings of lines that are not run, each with the reason.
const NOT_RUN: &[(&str, &str)] = &[
    ("becket login openrouter --browser", "a person logs in with a browser"),
    ("becket login work", "the provider is the reader's own, with a device login"),
    ("becket models --remote", "it asks the servers of the providers"),
    ("becket auth status --check", "it asks the servers of the providers"),
];

/// Lines that need a working sandbox. If this machine has none, they are not run.
const CONFINED: &[&str] = &["becket sandbox", "becket --sandbox required", "becket --sandbox read-only"];

/// Parts of lines, and their replacements. If several parts match at the same place, the longest is first.
const PLACEHOLDERS: &[(&str, &str)] = &[
    ("becket --resume NAME", "becket -p --resume \"parser work\" hello"),
    ("becket -r SESSION", "becket -p -r \"parser work\" hello"),
    ("becket exec review --base main", "git checkout -q -b work && becket exec review --base main"),
    ("becket permissions test permissions.toml", "becket permissions test ~/permissions.toml"),
    (
        "becket compact --undo, --redo",
        "becket compact --no-model --yes && becket compact --undo && becket compact --redo",
    ),
    ("becket compact --undo", "becket compact --no-model --yes && becket compact --undo"),
    ("becket compact --edit", "EDITOR=true becket compact --edit --no-model --yes"),
    ("becket context --drop 12 15-18", "becket context --drop 19 38-47"),
    ("becket context --collapse call_3", "becket context --collapse 17"),
    ("becket context --restore 4-6", "becket compact --no-model --yes && becket context --restore 6-19"),
    ("becket context --undo", "becket context --drop 19 --yes && becket context --undo"),
    ("becket context --pin 7", "becket context --pin 27"),
    // This command of the page must fail: it reads a key that a confined command must not read. `!` inverts the result.
    ("becket sandbox --level read-only", "! becket sandbox --level read-only"),
    ("becket import rollout-2026-11-01.jsonl", "becket import ~/sessions/codex.jsonl"),
    ("becket import session.json", "becket import ~/sessions/opencode.json"),
    ("becket replay 01997f2e", "becket replay \"parser work\""),
    (
        "becket -p --model replay:run.jsonl",
        "becket -p --record run.jsonl -- \"fix the failing test\" && becket -p --model replay:run.jsonl",
    ),
    ("stream-json --input-format stream-json", "stream-json --input-format stream-json < ~/message.jsonl"),
    (
        "becket sessions compare A B",
        "becket sessions fork \"parser work\" && becket sessions compare \"parser work\" \"$(becket sessions --json | sed 's/.*\"id\":\"\\([^\"]*\\)\".*/\\1/')\"",
    ),
    ("becket sessions fork S [MESSAGE]", "becket sessions fork \"parser work\""),
    ("becket sessions rename S TITLE", "becket sessions rename \"parser work\" \"lexer work\""),
    ("becket sessions rm S…", "becket sessions rm \"parser work\""),
    ("becket sessions search WORDS", "becket sessions search hello"),
    ("becket login groq < key.txt", "becket login groq < ~/key.txt"),
    ("becket login groq", "becket login groq < ~/key.txt"),
    ("becket logout groq", "becket login groq < ~/key.txt && becket logout groq"),
    ("becket auth status", "becket login groq < ~/key.txt && becket auth status"),
    ("--anchor FILE --record", "--anchor ends.jsonl --record"),
    (
        "becket verify SESSION --anchor FILE",
        "becket verify SESSION --anchor ends.jsonl --record && becket verify SESSION --anchor ends.jsonl",
    ),
    ("--request N", "--request 2"),
    ("SESSION 4", "SESSION 2"),
    ("SESSION", "\"parser work\""),
    ("--to 4", "--to 2"),
    ("becket doctor", "becket doctor --help"),
];

/// Subcommands that show a plan and ask for a confirmation.
const ASKS: &[&str] = &["undo", "redo", "rewind", "compact", "context --"];
/// Options with which these subcommands do not ask.
const ASKS_NOT: &[&str] =
    &["--dry-run", "--preview", "--folded", "--removed", "--verify", "--request", "--yes", "--help"];

/// Returns the command that is run for a line of a page. `Err` says why none is run.
pub(super) fn runnable(line: &str, can_confine: bool) -> Result<String, String> {
    let command = without_remark(line);
    if let Some((_, why)) = NOT_RUN.iter().find(|(start, _)| command.starts_with(start)) {
        return Err((*why).to_owned());
    }
    if !can_confine && CONFINED.iter().any(|start| command.starts_with(start)) {
        return Err("this machine has no sandbox".to_owned());
    }
    let mut command = without_model(&command);
    for (part, instead) in PLACEHOLDERS {
        // If the replacement is already there, an earlier row has made it.
        if command.contains(part) && !command.contains(instead) {
            command = command.replace(part, instead);
        }
    }
    let parts: Vec<String> = command.split(" && ").map(confirmed).map(|part| headless(&part)).collect();
    Ok(parts.join(" && "))
}

/// Removes the remark at the end of a line: after ` #`, or after several blanks outside of quotes.
fn without_remark(line: &str) -> String {
    let (mut quote, mut end) = (None, line.len());
    for (at, c) in line.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            None if matches!(c, '"' | '\'') => quote = Some(c),
            None if line[at..].starts_with("  ") || line[at..].starts_with(" #") => {
                end = at;
                break;
            }
            _ => {}
        }
    }
    line[..end].trim().to_owned()
}

/// Removes a model of a provider, so that the scripted model of the home folder answers.
fn without_model(command: &str) -> String {
    let Some((before, rest)) = command.split_once("--model ") else { return command.to_owned() };
    let (model, after) = rest.split_once(' ').unwrap_or((rest, ""));
    if model.contains(':') {
        return command.to_owned();
    }
    format!("{before}{after}").trim().to_owned()
}

fn confirmed(command: &str) -> String {
    let asks = ASKS.iter().any(|name| command.starts_with(&format!("becket {name}")));
    if asks && !ASKS_NOT.iter().any(|option| command.contains(option)) {
        format!("{command} --yes")
    } else {
        command.to_owned()
    }
}

/// Adds flags to a line that would open the terminal, so that it runs headless. Such a line has no subcommand.
fn headless(command: &str) -> String {
    let Some(rest) = command.strip_prefix("becket") else { return command.to_owned() };
    let is_subcommand = rest.trim_start().starts_with(|c: char| c.is_ascii_lowercase());
    let is_print =
        [" -p", "--version", "--help"].iter().any(|option| rest.starts_with(option) || rest.contains(option));
    if is_subcommand || is_print {
        return command.to_owned();
    }
    let prompt = if rest.ends_with('"') { "" } else { " -- hello" };
    format!("becket -p{rest}{prompt}")
}

/// The prepared home folder and a copy of it, from which each command starts again. The folder always has the same path, because
/// sessions belong to the path of their folder.
pub(super) struct Prepared {
    pub(super) home: PathBuf,
    copy: PathBuf,
    pub(super) can_confine: bool,
}

impl Prepared {
    /// Makes the home folder in `folder`.
    pub(super) fn new(becket: &Path, folder: &Path) -> Result<Self, String> {
        let (home, copy) = (folder.join("home"), folder.join("copy"));
        let write = |path: &str, text: &str| {
            let path = home.join(path);
            let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
            made.and_then(|()| std::fs::write(&path, text)).map_err(|e| format!("{}: {e}", path.display()))
        };
        let mut steps = String::new();
        for at in 0..6 {
            let comma = if at == 0 { "" } else { "," };
            let _ = write!(
                steps,
                "{comma}{{\"calls\":[{{\"name\":\"write\",\"input\":{{\"path\":\"hello.txt\",\"content\":\"hello {at}\"}}}}]}},\
                 {{\"text\":\"I wrote hello.txt. {}\"}}",
                // The text is long, because a compaction is only made if it frees enough.
                "It says what the task asks for, and no more than that. ".repeat(40)
            );
        }
        write("script.json", &format!("{{\"loop\":true,\"window\":16000,\"steps\":[{steps}]}}"))?;
        let config = format!(
            "model = \"script:{}\"\n[permissions]\nallow = [\"Edit\"]\n",
            home.join("script.json").display()
        );
        write(".config/becket/config.toml", &config)?;
        for (path, text) in FILES {
            write(path, text)?;
        }
        for folder in [".local/share/bash-completion/completions", ".local/share/man/man1"] {
            let folder = home.join(folder);
            std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        let prepared = Self { home, copy, can_confine: false };
        prepared.succeeds(
            becket,
            "git init -q -b main . && git config user.email a@b && git config user.name a && git add . && git commit -qm start",
        )?;
        for at in 0..6 {
            let goes_on = if at == 0 { "" } else { "-c " };
            prepared.succeeds(becket, &format!("becket -p {goes_on}\"fix the failing test {at}\""))?;
        }
        let name = "becket sessions rename \"$(becket sessions --json | sed 's/.*\"id\":\"\\([^\"]*\\)\".*/\\1/')\" \"parser work\"";
        prepared.succeeds(becket, name)?;
        let can_confine = shell(becket, &prepared.home, "becket sandbox -- true")?.0;
        let copied = Self::copy_of(&prepared.home, &prepared.copy);
        copied.map(|()| Self { can_confine, ..prepared })
    }

    fn succeeds(&self, becket: &Path, command: &str) -> Result<(), String> {
        let (succeeded, printed) = shell(becket, &self.home, command)?;
        if succeeded { Ok(()) } else { Err(format!("{command}: {printed}")) }
    }

    fn copy_of(from: &Path, to: &Path) -> Result<(), String> {
        let copied = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status();
        match copied {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("cp -a {} {}: {status}", from.display(), to.display())),
            Err(error) => Err(format!("cp: {error}")),
        }
    }

    /// Replaces the home folder by its copy, which undoes the changes of a command.
    pub(super) fn restore(&self) -> Result<(), String> {
        std::fs::remove_dir_all(&self.home).map_err(|e| format!("{}: {e}", self.home.display()))?;
        Self::copy_of(&self.copy, &self.home)
    }
}

/// Files of the home folder that lines of the pages name.
const FILES: &[(&str, &str)] = &[
    ("project/src/main.rs", "fn main() {}\n"),
    ("project/src/lib.rs", "pub fn sum() {}\n"),
    ("key.txt", "gsk_0123456789abcdef0123456789abcdef\n"),
    (".ssh/id_rsa", "a key\n"),
    ("permissions.toml", "[[call]]\ncall = \"Bash(git status)\"\ndecision = \"allow\"\n"),
    ("message.jsonl", "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"hello\"}}\n"),
    (
        ".claude/projects/my-project/0123.jsonl",
        "{\"type\":\"user\",\"uuid\":\"a\",\"parentUuid\":null,\"sessionId\":\"s\",\"cwd\":\"/p\",\"timestamp\":\"2026-01-01T00:00:00Z\",\
         \"message\":{\"role\":\"user\",\"content\":\"hello\"}}\n",
    ),
    (
        "sessions/codex.jsonl",
        "{\"timestamp\":\"2026-01-01T00:00:00Z\",\"type\":\"session_meta\",\"payload\":{\"id\":\"s\",\"cwd\":\"/p\"}}\n\
         {\"timestamp\":\"2026-01-01T00:00:01Z\",\"type\":\"response_item\",\"payload\":{\"type\":\"message\",\"role\":\"user\",\
         \"content\":[{\"type\":\"input_text\",\"text\":\"hello\"}]}}\n",
    ),
    (
        "sessions/opencode.json",
        "{\"info\":{\"id\":\"ses_1\",\"directory\":\"/p\",\"title\":\"t\",\"time\":{\"created\":1,\"updated\":2}},\"messages\":[{\"info\":\
         {\"id\":\"msg_1\",\"role\":\"user\",\"sessionID\":\"ses_1\",\"time\":{\"created\":1}},\"parts\":[{\"id\":\"prt_1\",\"type\":\"text\",\
         \"text\":\"hello\"}]}]}\n",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_reference_become_commands() {
        for (line, want) in [
            ("becket undo --calls 3            # the last three calls", "becket undo --calls 3 --yes"),
            ("becket sessions                  of this directory", "becket sessions"),
            ("becket -c             # continue", "becket -p -c -- hello"),
            ("becket \"fix  # it\"", "becket -p \"fix  # it\""),
            ("becket --model groq/openai/x", "becket -p -- hello"),
            ("becket --model openai/x -p \"a\"", "becket -p \"a\""),
            (
                "becket -p --model replay:run.jsonl",
                "becket -p --record run.jsonl -- \"fix the failing test\" && becket -p --model replay:run.jsonl",
            ),
            ("becket rewind SESSION 4 --both   # back", "becket rewind \"parser work\" 2 --both --yes"),
            ("becket --permission-mode auto", "becket -p --permission-mode auto -- hello"),
        ] {
            assert_eq!(runnable(line, true).as_deref(), Ok(want), "{line}");
        }
        assert!(
            runnable("becket sandbox -- bash", true).is_ok()
                && runnable("becket sandbox -- bash", false).is_err()
        );
        assert!(runnable("becket models --remote   # what", true).is_err());
    }
}
