//! Writes the result of a command: text for the model, and fields for people. Pure.

use crate::drain::Output;
use crate::limits::LimitExceeded;
use becket_types::{BlobId, ToolOutput, sdk_names::PRINTED_LINES};
use serde_json::json;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// Number of last lines that stay visible when the output is pruned, because errors and totals are there.
pub(crate) const EXCERPT_LINES: u32 = 5;

/// The way in which a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Exit(i32),
    /// The shell itself was ended by a signal.
    Signal(i32),
    TimedOut(Duration),
    Interrupted,
    /// The command exceeded a limit and was killed.
    Over(LimitExceeded),
}

impl End {
    pub(crate) fn from_status(status: ExitStatus) -> Self {
        use std::os::unix::process::ExitStatusExt;
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exit(code),
            (None, signal) => Self::Signal(signal.unwrap_or(0)),
        }
    }
}

/// The facts of one run, for [`report`].
pub(crate) struct Run {
    pub end: End,
    pub took: Duration,
    pub output: Output,
    /// Number of processes that TERM and KILL did not end.
    pub survivors: usize,
    /// Number of the job that holds the processes that the command left running.
    pub job: Option<u64>,
    /// A note on the working directory, if it changed.
    pub cwd_note: Option<String>,
    pub cwd: PathBuf,
}

pub(crate) fn report(run: Run) -> ToolOutput {
    let Run { end, took, output, survivors, job, cwd_note, cwd } = run;
    let bytes = output.bytes;
    let Body { mut text, spill, lines, lines_left_out } = body(output, "(no output)");
    let mut notes = Vec::new();
    match end {
        End::Exit(0) => {}
        End::Exit(_) => notes.push(format!("[{}]", in_words(end))),
        End::Signal(_) | End::Over(_) => notes.push(format!("[{}]", in_words(end))),
        End::TimedOut(limit) => notes.push(format!(
            "[timed out after {}; the command and what it started were ended. What it did until then stays done]",
            seconds(limit)
        )),
        End::Interrupted => {
            notes.push(format!("[interrupted after {}, effect unknown: what it did until then stays done]", seconds(took)));
        }
    }
    if survivors > 0 {
        notes.push(format!("[{survivors} of its processes could not be ended]"));
    }
    if let Some(id) = job {
        notes.push(format!("[what it started in the background still runs as job {id}]"));
    }
    notes.extend(cwd_note);
    for note in notes {
        text.push('\n');
        text.push_str(&note);
    }
    let (exit_code, signal) = match end {
        End::Exit(code) => (Some(code), None),
        End::Signal(signal) => (None, Some(signal)),
        End::TimedOut(_) | End::Interrupted | End::Over(_) => (None, None),
    };
    let mut details = json!({
        "exit_code": exit_code,
        "signal": signal,
        "timed_out": matches!(end, End::TimedOut(_)),
        "duration_ms": took.as_millis() as u64,
        "interrupted": end == End::Interrupted,
        "bytes": bytes,
        PRINTED_LINES: lines,
        "cwd": cwd.to_string_lossy(),
        "job": job,
    });
    if lines_left_out > 0 {
        details["lines_left_out"] = json!(lines_left_out);
    }
    ToolOutput {
        content: text,
        is_error: end != End::Exit(0),
        interrupted: matches!(end, End::TimedOut(_) | End::Interrupted | End::Over(_)),
        details,
        spill,
        excerpt_lines: EXCERPT_LINES,
        ..ToolOutput::default()
    }
}

/// The output of a command as the model reads it.
pub(crate) struct Body {
    pub text: String,
    /// The blob with the whole output, if one was kept.
    pub spill: Option<BlobId>,
    /// Number of lines of the text that the command itself has printed; 0 if it printed nothing.
    pub lines: usize,
    /// Lines of the output that the text lacks. A note in it takes their place.
    pub lines_left_out: u64,
}

/// Returns the output as the model reads it. `nothing`: the text if it is empty.
pub(crate) fn body(output: Output, nothing: &str) -> Body {
    let held = output.held;
    let mut text = output.shown.head;
    let mut lines_left_out = 0;
    if let Some((bytes, lines, tail)) = output.shown.cut {
        lines_left_out = lines;
        let kept = match &output.spill {
            Some(Ok(_)) => "; recall gives the whole output".to_owned(),
            Some(Err(why)) => format!("; the whole output could not be kept: {why}"),
            None => String::new(),
        };
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let _ = writeln!(text, "[… {bytes} bytes ({lines} lines) left out here{kept} …]");
        text.push_str(&tail);
    }
    text.truncate(text.trim_end().len());
    let lines = text.lines().count();
    if text.is_empty() {
        nothing.clone_into(&mut text);
    }
    if held > 0 {
        note(
            &mut text,
            format_args!(
                "{held} more bytes may be the beginning of a secret, and are given when their word is complete"
            ),
        );
    }
    Body { text, spill: output.spill.and_then(Result::ok), lines, lines_left_out }
}

/// Describes the end in a few words.
pub(crate) fn in_words(end: End) -> String {
    match end {
        End::Exit(code) => match signal_name(code - 128) {
            Some(name) => format!("exit code {code}, as after {name}"),
            None => format!("exit code {code}"),
        },
        End::Signal(signal) => {
            let name = signal_name(signal).map(|name| format!(" ({name})")).unwrap_or_default();
            format!("ended by signal {signal}{name}")
        }
        End::TimedOut(limit) => format!("timed out after {}", seconds(limit)),
        End::Interrupted => "interrupted".to_owned(),
        End::Over(LimitExceeded::Tasks(limit)) => {
            format!("killed: it had more than {limit} processes and threads, the most a command may have")
        }
        End::Over(LimitExceeded::Memory(limit)) => {
            format!("killed: it used more than {} MB of memory, the most a command may use", limit >> 20)
        }
        End::Over(LimitExceeded::Output(limit)) => {
            format!("killed: it printed more than {} MB, the most a command may print", limit >> 20)
        }
    }
}

/// Adds a note on a line of its own.
pub(crate) fn note(text: &mut String, note: impl std::fmt::Display) {
    let _ = write!(text, "\n[{note}]");
}

/// A command joined with the input typed into it, in the form that permission rules judge.
pub(crate) fn with_input(command: &str, input: &str) -> String {
    format!("{command} <<'INPUT'\n{input}\nINPUT")
}

pub(crate) fn seconds(duration: Duration) -> String {
    if duration.as_millis().is_multiple_of(1000) {
        format!("{} s", duration.as_secs())
    } else {
        format!("{:.1} s", duration.as_secs_f64())
    }
}

/// The name of a signal that ends processes.
fn signal_name(signal: i32) -> Option<&'static str> {
    use rustix::process::Signal;
    let named = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::SYS, "SIGSYS"),
    ];
    named.iter().find(|(known, _)| known.as_raw() == signal).map(|(_, name)| *name)
}
