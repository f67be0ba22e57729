//! Helpers that run becket in the tests: with a home of its own, without keys and proxies, with a deadline, and with its
//! output collected.

use becket_testkit::{MockServer, Project};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_mins(2);

/// A home, a project and a way to run becket in them.
pub(crate) struct Bench {
    pub home: Project,
    pub project: Project,
}

/// Output and exit code of a finished run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e} in {l:?}\n{}", self.stderr)))
            .collect()
    }
    pub(crate) fn result(&self) -> Value {
        self.lines()
            .into_iter()
            .rfind(|l| l["type"] == "result")
            .unwrap_or_else(|| panic!("no result: {self:?}"))
    }
    /// Asserts the exit code, showing everything when it differs.
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    Anthropic,
    Chat,
}

pub(crate) const BOTH: [Api; 2] = [Api::Anthropic, Api::Chat];

impl Bench {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        Self { home: Project::new(&[]), project: Project::new(files) }
    }

    /// A command that sees nothing of the machine's own settings.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_becket"));
        command.env_clear();
        for name in ["PATH", "TMPDIR", "LLVM_PROFILE_FILE"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.env("HOME", self.home.root()).env("LANG", "C.UTF-8").current_dir(self.project.root());
        // A server that runs on the machine of the tests is not found.
        for name in
            ["OLLAMA_HOST", "LMSTUDIO_BASE_URL", "LLAMACPP_BASE_URL", "VLLM_BASE_URL", "SGLANG_BASE_URL"]
        {
            command.env(name, "http://127.0.0.1:1/v1");
        }
        command
    }

    /// `becket -p` against `server`; flags and the prompt are up to the caller.
    pub(crate) fn print(&self, api: Api, server: &MockServer) -> Command {
        let mut command = self.command();
        match api {
            Api::Anthropic => command
                .env("ANTHROPIC_API_KEY", "sk-test")
                .env("ANTHROPIC_BASE_URL", server.url())
                .args(["-p", "--model", "anthropic/claude-sonnet-4-5"]),
            Api::Chat => command
                .env("OPENAI_API_KEY", "sk-test")
                .env("OPENAI_BASE_URL", format!("{}/v1", server.url()))
                .args(["-p", "--model", "openai/test-model"]),
        };
        command
    }

    /// All ledgers below this home, oldest session first.
    pub(crate) fn ledgers(&self) -> Vec<PathBuf> {
        let mut out = Vec::new();
        find(self.home.root(), "ledger.jsonl", &mut out);
        out.sort_by_key(|p| p.parent().unwrap().file_name().unwrap().to_owned());
        out
    }

    /// The entries of the only session.
    pub(crate) fn entries(&self) -> Vec<Value> {
        let ledgers = self.ledgers();
        assert_eq!(ledgers.len(), 1, "{ledgers:?}");
        entries(&ledgers[0])
    }
}

pub(crate) fn entries(ledger: &Path) -> Vec<Value> {
    std::fs::read_to_string(ledger)
        .unwrap()
        .lines()
        .flat_map(|l| {
            let commit: Value = serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"));
            commit["entries"].as_array().unwrap().clone()
        })
        .collect()
}

fn find(dir: &Path, name: &str, out: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            find(&path, name, out);
        } else if path.file_name().is_some_and(|n| n == name) {
            out.push(path);
        }
    }
}

/// `command` for a user to whom files can be closed: root gives up its capabilities, other users need nothing. `None`, with
/// a line on stdout, if root cannot give them up on this machine.
#[expect(clippy::print_stdout, reason = "a test says that it skipped")]
pub(crate) fn without_privileges(command: &Command) -> Option<Command> {
    const GIVEN_UP: [&str; 2] = ["--bounding-set=-all", "--inh-caps=-all"];
    let words: &[&str] = if rustix::process::geteuid().is_root() { &GIVEN_UP } else { &[] };
    if !words.is_empty()
        && !Command::new("setpriv").args(words).arg("true").status().is_ok_and(|s| s.success())
    {
        println!("skipped: setpriv cannot take the capabilities of root here");
        return None;
    }
    let mut out = Command::new(if words.is_empty() { command.get_program() } else { "setpriv".as_ref() });
    out.args(words).args((!words.is_empty()).then_some(command.get_program())).args(command.get_args());
    out.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(dir) = command.get_current_dir() {
        out.current_dir(dir);
    }
    Some(out)
}

/// Runs to the end with nothing on stdin.
pub(crate) fn run(command: &mut Command) -> Ran {
    run_with(command, b"")
}

/// Runs to the end with `input` on stdin.
pub(crate) fn run_with(command: &mut Command, input: &[u8]) -> Ran {
    let mut running = Running::start(command);
    running.send(input);
    running.close_stdin();
    running.wait()
}

/// A becket that is running.
pub(crate) struct Running {
    pub child: Child,
    stdin: Option<std::process::ChildStdin>,
    stdout: mpsc::Receiver<String>,
    collected: String,
    stderr: std::thread::JoinHandle<String>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut err = child.stderr.take().unwrap();
        let out = child.stdout.take().unwrap();
        let (sender, stdout) = mpsc::channel();
        std::thread::spawn(move || {
            let mut reader = std::io::BufReader::new(out);
            let mut line = String::new();
            while std::io::BufRead::read_line(&mut reader, &mut line).is_ok_and(|n| n > 0) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        let stderr = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = err.read_to_string(&mut text);
            text
        });
        let stdin = child.stdin.take();
        Self { child, stdin, stdout, collected: String::new(), stderr }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        // becket may have refused its flags and ended without reading, so errors of writing are ignored here.
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(bytes).and_then(|()| stdin.flush());
        }
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Waits for a line of stdout that `wanted` likes.
    pub(crate) fn line(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        loop {
            let line = self.stdout.recv_timeout(DEADLINE).expect("a line that fits");
            self.collected.push_str(&line);
            if wanted(&line) {
                return line;
            }
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    pub(crate) fn wait(mut self) -> Ran {
        self.close_stdin();
        self.ended()
    }

    /// Waits for the end without closing the input of becket.
    pub(crate) fn ended(mut self) -> Ran {
        let end = Instant::now() + DEADLINE;
        loop {
            match self.stdout.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => self.collected.push_str(&line),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    let _ = self.child.kill();
                    panic!("becket did not end within {DEADLINE:?}; stdout so far:\n{}", self.collected);
                }
            }
        }
        let status = self.child.wait().unwrap();
        let code = status.code().unwrap_or_else(|| {
            use std::os::unix::process::ExitStatusExt as _;
            -status.signal().unwrap_or(0)
        });
        Ran { code, stdout: self.collected, stderr: self.stderr.join().unwrap() }
    }
}

/// Sends a line to stdin. Returns the first line of stdout that contains `wanted`.
pub(crate) fn ask(running: &mut Running, line: &Value, wanted: &str) -> Value {
    running.send(format!("{line}\n").as_bytes());
    serde_json::from_str(&running.line(|l| l.contains(wanted))).unwrap()
}

pub(crate) fn request(body: &Value) -> Value {
    json!({ "type": "control_request", "request_id": "r", "request": body })
}

pub(crate) fn says(text: &str) -> Value {
    json!({ "type": "user", "message": { "role": "user", "content": text }, "parent_tool_use_id": null })
}
