//! The interactive session on a real terminal: how it leaves it, however it ends, and that no key is lost.

use crate::support::Bench;
use becket_testkit::{Answer, MockServer, Reply};
use pty_process::blocking::{Command as OnTerminal, Pty, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, tcgetattr};
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Longer than the time after which a page or a question takes keys.
const SEEN: Duration = Duration::from_millis(400);
/// Time for the answer to a press, on a busy machine.
const ANSWERED: Duration = Duration::from_secs(4);
const DEADLINE: Duration = Duration::from_mins(1);
const ROWS: u16 = 24;
const COLUMNS: u16 = 100;

/// A terminal with something running on it.
pub(crate) struct Terminal {
    pub(crate) pty: Arc<Pty>,
    pub(crate) child: Child,
    chunks: mpsc::Receiver<Vec<u8>>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) emulator: vt100::Parser,
    before: LocalModes,
}

impl Terminal {
    pub(crate) fn start(command: Command) -> Self {
        Self::typed(command, "")
    }

    /// Starts a command on a terminal on which these keys were typed before.
    pub(crate) fn typed(command: Command, keys: &str) -> Self {
        let (pty, slave) = open().unwrap();
        pty.resize(pty_process::Size::new(ROWS, COLUMNS)).unwrap();
        let pty = Arc::new(pty);
        (&*pty).write_all(keys.as_bytes()).unwrap();
        let before = tcgetattr(&*pty).unwrap().local_modes;
        let child = OnTerminal::from(command).spawn(slave).unwrap();
        let (sender, chunks) = mpsc::channel();
        let reader = Arc::clone(&pty);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = (&*reader).read(&mut buffer) {
                if sender.send(buffer[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        let size = (ROWS.try_into().unwrap(), COLUMNS.try_into().unwrap());
        Self {
            pty,
            child,
            chunks,
            bytes: Vec::new(),
            emulator: vt100::Parser::new(size.0, size.1, 0),
            before,
        }
    }

    pub(crate) fn send(&self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn screen(&self) -> String {
        self.emulator.screen().contents()
    }

    /// Reads output until `wanted` is true, and fails if that takes longer than [`DEADLINE`].
    pub(crate) fn until(&mut self, what: &str, wanted: impl Fn(&Self) -> bool) {
        let end = Instant::now() + DEADLINE;
        while !wanted(self) {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(chunk) = self.chunks.recv_timeout(left) else {
                // The output has ended. The terminal's modes may have changed after the last byte, so they are looked at once more.
                assert!(wanted(self), "{what} did not come; the screen:\n{}", self.screen());
                return;
            };
            self.emulator.process(&chunk);
            self.bytes.extend(chunk);
        }
    }

    pub(crate) fn shows(&mut self, text: &str) {
        self.until(text, |t| t.screen().contains(text));
    }

    /// Waits until the screen shows a text that may be broken into lines. The places of the breaks depend on the length of paths in it.
    pub(crate) fn shows_words(&mut self, text: &str) {
        self.until(text, |t| t.screen().split_whitespace().collect::<Vec<_>>().join(" ").contains(text));
    }

    /// Presses a key that counts only when what it answers has been seen for a while, until the screen shows `text`.
    ///
    /// The first press waits for that time, so it usually counts. A further press may be read together with the one before:
    /// on a busy machine the answer to the first is then still on its way, and the second one would move on from `text`. So
    /// after several presses the screen has to keep `text` until all of them are answered.
    pub(crate) fn press_until(&mut self, keys: &str, text: &str) {
        let end = Instant::now() + DEADLINE;
        let mut presses = 0;
        self.drain(SEEN, |_| false);
        loop {
            if presses > 1 {
                self.drain(ANSWERED, |_| false);
            }
            if self.screen().contains(text) {
                return;
            }
            assert!(Instant::now() < end, "{text} did not come; the screen:\n{}", self.screen());
            self.send(keys);
            presses += 1;
            self.drain(ANSWERED, |screen| screen.contains(text));
        }
    }

    /// Reads output for this time, or until the screen is as wanted.
    fn drain(&mut self, time: Duration, wanted: impl Fn(&str) -> bool) {
        let end = Instant::now() + time;
        while !wanted(&self.screen())
            && let Ok(chunk) = self.chunks.recv_timeout(end.saturating_duration_since(Instant::now()))
        {
            self.emulator.process(&chunk);
            self.bytes.extend(chunk);
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Everything that becket turned on is off, and the terminal's own modes are as they were.
    pub(crate) fn is_given_back(&mut self) {
        self.until("the end of the alternate screen", |t| {
            let screen = t.emulator.screen();
            let sane = tcgetattr(&*t.pty).is_ok_and(|modes| modes.local_modes == t.before);
            sane && !screen.alternate_screen()
                && !screen.bracketed_paste()
                && !screen.hide_cursor()
                && screen.mouse_protocol_mode() == vt100::MouseProtocolMode::None
                && t.bytes.windows(8).any(|w| w == b"\x1b[?1004l")
        });
    }
}

impl Drop for Terminal {
    /// Asks the program to end, so that it removes its temporary folder, and kills it only if it does not.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            let end = Instant::now() + Duration::from_secs(5);
            while self.chunks.recv_timeout(end.saturating_duration_since(Instant::now())).is_ok() {}
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn becket(bench: &Bench, server: &MockServer) -> Command {
    let mut command = bench.command();
    command
        .env("ANTHROPIC_API_KEY", "sk-test")
        .env("ANTHROPIC_BASE_URL", server.url())
        .env("TERM", "xterm-256color")
        .args(["--model", "anthropic/claude-sonnet-4-5"]);
    command
}

pub(crate) fn silent() -> MockServer {
    MockServer::with(|_| Answer::text("Done.").into())
}

#[test]
fn a_killed_becket_leaves_a_sane_terminal() {
    let (bench, server) = (Bench::new(&[]), silent());
    let mut terminal = Terminal::start(becket(&bench, &server));
    terminal.shows("Describe a task");
    assert!(terminal.emulator.screen().alternate_screen());
    terminal.signal(Signal::KILL);
    terminal.is_given_back();
}

#[test]
fn signals_end_it_and_the_terminal_is_as_before() {
    let (bench, server) = (Bench::new(&[]), silent());
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut terminal = Terminal::start(becket(&bench, &server));
        terminal.shows("Describe a task");
        terminal.signal(signal);
        terminal.is_given_back();
        assert_eq!(terminal.child.wait().unwrap().code(), Some(143), "{signal:?}");
    }
}

#[test]
fn keys_typed_before_the_first_frame_are_kept() {
    let (bench, server) = (Bench::new(&[]), silent());
    let mut terminal = Terminal::typed(becket(&bench, &server), "typed too early");
    terminal.shows("› typed too early");
    terminal.send("\r");
    terminal.shows("Done.");
    terminal.send("\x04");
    terminal.is_given_back();
    terminal.until("the transcript", |t| t.screen().contains("Done."));
    assert_eq!(terminal.child.wait().unwrap().code(), Some(0));
}

/// One word may be a command that does not exist: it waits in the composer, and nothing is spent before Enter.
#[test]
fn a_single_word_waits_in_the_composer() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("it is sent now")]);
    let mut command = becket(&bench, &server);
    command.arg("refactor");
    let mut terminal = Terminal::start(command);
    terminal.shows("› refactor");
    assert_eq!(server.requests().len(), 0);
    terminal.send("\r");
    terminal.shows("it is sent now");
    assert!(server.requests()[0].text().contains("refactor"));
}

#[test]
fn ctrl_z_stops_it_and_fg_brings_it_back() {
    let (bench, server) = (Bench::new(&[]), silent());
    let becket = becket(&bench, &server);
    let mut shell = Command::new("bash");
    shell.args(["--norc", "--noprofile", "-i"]).env_clear().current_dir(bench.project.root());
    shell.envs(becket.get_envs().filter_map(|(k, v)| Some((k, v?)))).env("PS1", "shell> ");
    let mut terminal = Terminal::start(shell);
    terminal.shows("shell>");
    let words: Vec<_> = becket.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
    terminal.send(&format!("{} {}\r", becket.get_program().to_string_lossy(), words.join(" ")));
    terminal.shows("Describe a task");
    terminal.send("half a thought");
    terminal.shows("› half a thought");
    terminal.send("\x1a");
    terminal
        .until("the shell", |t| t.screen().contains("Stopped") && !t.emulator.screen().alternate_screen());
    terminal.send("fg\r");
    terminal.until("becket", |t| {
        t.emulator.screen().alternate_screen() && t.screen().contains("› half a thought")
    });
    terminal.send("\x03\x04");
    terminal.until("the shell", |t| !t.emulator.screen().alternate_screen());
}

#[test]
fn a_rule_that_is_always_allowed_goes_into_a_file_of_the_person_s_own() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let mut step = 0;
    let server = MockServer::with(move |_| {
        step += 1;
        match step {
            1 => Answer::tool("t1", "bash", json!({"command": "touch made.txt"})).into(),
            _ => Answer::text("All made.").into(),
        }
    });
    let mut terminal = Terminal::typed(becket(&bench, &server), "");
    terminal.shows("Describe a task");
    terminal.send("make it\r");
    terminal.shows("3 Yes, and allow");
    // Typed text does not answer the question; it goes to the composer.
    terminal.send("1 yes, sure");
    terminal.shows("› 1 yes, sure");
    assert!(!bench.project.exists("made.txt"));
    // Ctrl-U empties the composer. A Tab before the question could be read has no effect, and the waiting time starts again.
    terminal.press_until("\x15\t", "❯ 1 Yes");
    terminal.press_until("3", "Always allow this?");
    assert!(terminal.screen().contains("Bash(touch *)"), "{}", terminal.screen());
    // The question names the file that will be written.
    terminal.until("the file of the rule", |t| {
        t.screen().split_whitespace().collect::<String>().contains("/.config/becket/projects/")
    });
    terminal.press_until("\x1b[B\x1b[A", "❯ 1 Always, in this project only");
    terminal.press_until("\r", "All made.");
    assert!(bench.project.exists("made.txt") && !bench.project.exists(".becket"));
    let files = std::fs::read_dir(bench.home.path(".config/becket/projects")).unwrap();
    let rules: Vec<String> = files.map(|f| std::fs::read_to_string(f.unwrap().path()).unwrap()).collect();
    assert_eq!(rules, ["[permissions]\nallow = [\"Bash(touch *)\"]\n"]);
}

/// A number marks its answer and runs nothing, and Enter takes the marked answer.
#[test]
fn a_number_marks_an_answer_and_enter_takes_it() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let mut step = 0;
    let server = MockServer::with(move |_| {
        step += 1;
        match step {
            1 => Answer::tool("t1", "bash", json!({"command": "touch made.txt"})).into(),
            _ => Answer::text("All made.").into(),
        }
    });
    let mut terminal = Terminal::typed(becket(&bench, &server), "");
    terminal.shows("Describe a task");
    terminal.send("make it\r");
    terminal.shows("Enter twice");
    // Ctrl-U empties the composer: before the question could be read, the number is a text.
    terminal.press_until("\x151", "❯ 1 Yes   Enter takes it");
    assert!(!bench.project.exists("made.txt"));
    terminal.press_until("\r", "All made.");
    assert!(bench.project.exists("made.txt"));
}

#[test]
fn a_sentence_typed_at_a_question_allows_nothing_and_becomes_the_reason() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let mut step = 0;
    let server = MockServer::with(move |_| {
        step += 1;
        match step {
            1 => Answer::tool("t1", "bash", json!({"command": "touch made.txt"})).into(),
            _ => Answer::text("I leave it.").into(),
        }
    });
    let mut terminal = Terminal::typed(becket(&bench, &server), "");
    terminal.shows("Describe a task");
    terminal.send("make it\r");
    terminal.shows("1 Yes");
    // Ctrl-U empties the composer: what was typed before the question could be read is no reply to it.
    terminal.press_until("\x15stop, 1 wrong file, yes", "sends your text as the reason");
    terminal.send("\r");
    terminal.shows("I leave it.");
    assert!(!bench.project.exists("made.txt"));
    let requests = server.requests();
    assert!(
        requests[1].text().contains("the user said no: stop, 1 wrong file, yes"),
        "{}",
        requests[1].text()
    );
}

/// One pixel.
pub(crate) const PNG: &[u8] =
    b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\
      \x1f\x15\xc4\x89\x00\x00\x00\x0dIDATx\xdacd\xf8\xcfP\x0f\x00\x03\x86\x01\x80Z4}k\x00\x00\x00\x00\
      IEND\xaeB`\x82";

#[test]
fn an_image_is_given_once_to_a_terminal_that_draws_it() {
    let (bench, server) = (Bench::new(&[]), silent());
    bench.project.write("a.png", PNG);
    // For each terminal: its name (`TERM` or `TERM_PROGRAM`), its answers, how an image begins, and the number of images.
    let kitty: (_, &str, &[u8], _) = ("xterm-kitty", "", b"\x1b_Gq=", 1);
    let sixel: (_, &str, &[u8], _) = ("xterm-256color", "\x1b[6;20;10t\x1b[?62;4c", b"\x1bP0;1;0q", 1);
    let none: (_, &str, &[u8], _) = ("xterm-256color", "\x1b[6;20;10t\x1b[?62;22c", b"\x1bP", 0);
    let iterm: (_, &str, &[u8], _) = ("iTerm.app", "", b"\x1b]1337;File=inline=1;", 1);
    for (name, answer, begins, times) in [kitty, sixel, none, iterm] {
        let mut command = becket(&bench, &server);
        if name == "iTerm.app" {
            command.env("TERM_PROGRAM", name);
        } else {
            command.env("TERM", name);
        }
        if !answer.is_empty() {
            command.env("XTERM_VERSION", "XTerm(379)");
        }
        let mut terminal = Terminal::typed(command, answer);
        terminal.shows("Describe a task");
        terminal.send("\x1b[200~./a.png\x1b[201~");
        terminal.until("the image in the composer", |t| !t.screen().contains("Describe a task"));
        terminal.send("what is it?\r");
        terminal.shows("Done.");
        terminal.shows("[image ");
        let given = |t: &Terminal| t.bytes.windows(begins.len()).filter(|w| *w == begins).count();
        let cells = |t: &Terminal| t.screen().contains('\u{10eeee}') == (name == "xterm-kitty");
        terminal.until("the image", |t| given(t) >= times && cells(t));
        terminal.send("more\r");
        terminal.until("another answer", |t| t.screen().matches("Done.").count() == 2);
        terminal.send("\x04");
        terminal.is_given_back();
        assert_eq!(given(&terminal), times, "{name} {answer:?}");
    }
}

/// Control characters in the words of a model or a tool are printed as text, so that the terminal does not obey them.
#[test]
fn an_export_to_a_terminal_shows_controls() {
    let bench = Bench::new(&[]);
    let server = MockServer::with(|_| Answer::text("before\u{1b}]0;title\u{7}behind").into());
    assert!(becket(&bench, &server).args(["--print", "go"]).output().unwrap().status.success());
    let mut terminal = Terminal::start({
        let mut command = bench.command();
        command.arg("export");
        command
    });
    terminal.shows("before\\u{1b}]0;title\\u{7}behind");
}

/// Opening a session of some megabytes shows its end. Scrolling back, searching and the list of messages reach all of it.
#[test]
fn a_long_session_is_read_back_to_its_first_message() {
    let mut lines = String::new();
    for n in 0..900 {
        let role = if n % 2 == 0 { "user" } else { "assistant" };
        let text = format!("{role} {n} {}", "says a few words more, ".repeat(200));
        let parent = (n > 0).then(|| format!("u{}", n - 1));
        let line = json!({
            "type": role, "uuid": format!("u{n}"), "parentUuid": parent, "isSidechain": false,
            "sessionId": "11111111-2222-4333-8444-555555555555", "cwd": "/x", "timestamp": "2026-01-01T00:00:00.000Z",
            "message": {"role": role, "content": [{"type": "text", "text": text}]},
        });
        lines.push_str(&line.to_string());
        lines.push('\n');
    }
    let bench = Bench::new(&[("session.jsonl", &lines)]);
    assert!(bench.command().args(["import", "--here", "session.jsonl"]).status().unwrap().success());
    let server = silent();
    let mut command = becket(&bench, &server);
    command.args(["-c", "--context-window", "2000000"]);
    let mut terminal = Terminal::start(command);
    terminal.shows("Describe a task");
    // A search reaches a message that is not loaded.
    terminal.send("\x06user 100 says");
    terminal.shows("0 of 0+");
    terminal.send("\x1b[A");
    terminal.shows("› user 100 says");
    terminal.shows("1 of 1");
    terminal.send("\x1b");
    terminal.until("the end of the search", |t| !t.screen().contains("find:"));
    // The key for the first block loads the first message.
    terminal.send("\x1b[1;3A");
    terminal.shows("Enter opens");
    terminal.send("g");
    terminal.shows("› user 0 says");
    terminal.send("\x1b");
    terminal.until("the end of the focus", |t| !t.screen().contains("Enter opens"));
    // The list of messages reaches a message that is not loaded.
    terminal.press_until("\x1b", "Esc once more");
    terminal.press_until("\x1b", "user 898");
    terminal.send("user 250");
    terminal.shows("user 250 says");
    terminal.send("\r");
    terminal.shows("▎ user 250 says");
    terminal.send("\x1b");
    terminal.shows("Describe a task");
    terminal.send("go on\r");
    terminal.shows("Done.");
    terminal.send("\x04");
    terminal.is_given_back();
    terminal.shows("Done.");
}

#[test]
fn pages_are_right_before_the_first_message() {
    let script = r#"{"window": 40000, "steps": [{"text": "Done."}]}"#;
    let bench = Bench::new(&[("own.json", script), ("AGENTS.md", "Indent with tabs.\n")]);
    let mut command = bench.command();
    command.env("TERM", "xterm-256color").args(["--model", "script:own.json", "--effort", "high"]);
    let mut terminal = Terminal::start(command);
    terminal.shows("Do you trust what is in this directory?");
    terminal.press_until("\x1b[A", "❯ 2 yes: I trust");
    terminal.send("2");
    terminal.shows("Describe a task");
    for (page, parts) in [
        ("/context\r", ["system", "rules"]),
        ("/memory\r", ["Rules files", "AGENTS.md"]),
        ("/tools\r", ["read", "Find files by name"]),
        ("/cost\r", ["Cost", "No request was made yet"]),
        ("/config\r", ["\"high\"", "session"]),
    ] {
        terminal.send(page);
        for part in parts {
            terminal.shows(part);
        }
        terminal.shows("Esc closes");
        terminal.send("\x1b");
        terminal.shows("Describe a task");
    }
    terminal.send("\x04");
    terminal.is_given_back();
}

#[test]
fn the_window_is_known_before_the_first_answer() {
    let script = r#"{"window": 40000, "steps": [{"text": "Done."}]}"#;
    let bench = Bench::new(&[("own.json", script)]);
    let mut command = bench.command();
    command.env("TERM", "xterm-256color").args(["--model", "script:own.json"]);
    let mut terminal = Terminal::start(command);
    terminal.shows("Describe a task");
    terminal.send("/context\r");
    terminal.shows_words("tokens of a window of 40k");
    // Waits until the page is drawn to its last row: until then, the screen still shows what was below it.
    terminal.shows("Esc closes");
    terminal.send("\x1b");
    terminal.shows("Describe a task");
    terminal.send("\x04");
    terminal.is_given_back();
}

#[test]
fn the_status_line_program_is_shown_and_can_change_nothing() {
    let (bench, server) = (Bench::new(&[("a.txt", "one\n")]), silent());
    if crate::sandbox::skipped(&bench) {
        return;
    }
    let dir = bench.home.root().join(".config/becket");
    std::fs::create_dir_all(&dir).unwrap();
    // The command of the status line can read the workspace and becket's own folder, and can write to neither.
    let script = "echo \"of $(cat a.txt) $(grep -c script ~/.config/becket/config.toml)\"; touch made ~/made a.txt || echo kept";
    let config = format!("[ui.status_line]\ncommand = {}\n", json!(format!("{script} # script")));
    std::fs::write(dir.join("config.toml"), config).unwrap();
    let mut terminal = Terminal::start(becket(&bench, &server));
    terminal.shows("of one 1");
    terminal.shows("kept");
    assert!(!bench.project.root().join("made").exists() && !bench.home.root().join("made").exists());
}

/// The server of each provider says if a key is good: one that it refuses is not kept, one that it takes counts at once.
#[test]
fn a_key_is_checked_when_it_is_given_and_counts_at_once() {
    const GOOD: &str = "sk-ant-new-0123456789";
    let bench = Bench::new(&[]);
    let list = Reply::json(200, &json!({"data": [{"id": "claude-sonnet-4-5"}]}));
    let server = silent().get("/v1/models", list);
    let refusal = Reply::json(401, &json!({"error": {"message": "Incorrect API key provided"}}));
    let refusing = silent().get("/v1/models", refusal);
    let mut command = becket(&bench, &server);
    command.env("OPENAI_BASE_URL", format!("{}/v1", refusing.url()));
    let mut terminal = Terminal::start(command);
    terminal.shows("Describe a task");
    terminal.send("/key\r");
    terminal.shows("Another key");
    terminal.press_until("\x1b[B", "❯ 2 openai");
    terminal.press_until("\r", "the key:");
    terminal.send("\x1b[200~sk-wrong-0123456789\x1b[201~");
    terminal.shows("19 characters");
    terminal.send("\r");
    terminal.shows_words("The key was refused and is not saved");
    let kept = bench.home.path(".config/becket/credentials.toml");
    assert!(!kept.exists());
    assert_eq!(refusing.all_requests().len(), 1);
    terminal.send("/key\r");
    terminal.shows("Another key");
    terminal.press_until("\r", "the key:");
    terminal.send(&format!("\x1b[200~{GOOD}\x1b[201~"));
    terminal.shows("21 characters");
    terminal.send("\r");
    terminal.shows_words("The key for anthropic is valid");
    terminal.shows_words("ANTHROPIC_API_KEY overrides it");
    // The key is saved for the address in use.
    assert_eq!(
        std::fs::read_to_string(&kept).unwrap(),
        format!("\"anthropic@{}\" = \"{GOOD}\"\n", server.url().trim_start_matches("http://"))
    );
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    terminal.send("hello\r");
    terminal.shows("Done.");
    let requests = server.requests();
    let sent = requests.last().unwrap();
    assert_eq!(sent.header("x-api-key"), Some(GOOD));
    let written = String::from_utf8_lossy(&terminal.bytes).into_owned();
    for secret in [GOOD, "sk-wrong-0123456789"] {
        assert!(!written.contains(secret));
        assert!(bench.ledgers().iter().all(|file| !std::fs::read_to_string(file).unwrap().contains(secret)));
    }
}

/// A resumed session shows again what a person saw of it: times, a refusal, an interruption, changed files.
#[test]
fn a_resumed_session_tells_the_same_story() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let mut step = 0;
    let server = MockServer::with(move |_| {
        step += 1;
        match step {
            1 => Answer::tool("t1", "bash", json!({"command": "sleep 0.3; echo broken >&2; exit 3"})).into(),
            2 => Answer::tool("t2", "bash", json!({"command": "touch made.txt"})).into(),
            3 => Answer::text("All said.").into(),
            _ => Answer::tool("t3", "bash", json!({"command": "sleep 60"})).into(),
        }
    });
    let mut command = becket(&bench, &server);
    command.args(["--allowedTools", "Bash(sleep *)", "Bash(echo *)", "Bash(exit *)"]);
    let mut terminal = Terminal::start(command);
    terminal.shows("Describe a task");
    terminal.send("go\r");
    terminal.shows("3 Yes, and allow");
    // Once the answers have the keyboard, the question counts as read: what is typed then is the reason.
    terminal.press_until("\t", "❯ 1 Yes");
    terminal.send("not here");
    terminal.shows("› not here");
    terminal.press_until("\r", "you said no: not here");
    terminal.shows("All said.");
    terminal.send("again\r");
    terminal.shows("sleep 60");
    terminal.press_until("\x1b", "say what to do instead");
    let story = |screen: &str| -> Vec<String> {
        let lines = screen.lines().map(str::trim);
        let told = |line: &&str| {
            ["exit code 3", "said no", "broken", "interrupted"].iter().any(|word| line.contains(word))
        };
        lines.filter(told).map(str::to_owned).collect()
    };
    let before = story(&terminal.screen());
    assert!(before.iter().any(|line| line.contains("failed (exit code 3)")), "{before:?}");
    assert!(before.len() >= 4, "{before:?}");
    terminal.send("\x04");
    terminal.is_given_back();
    let mut command = becket(&bench, &server);
    command.arg("-c");
    let mut terminal = Terminal::start(command);
    terminal.shows("Session resumed");
    assert_eq!(story(&terminal.screen()), before, "{}", terminal.screen());
}

/// Hyperlinks for paths and addresses, the title of the window with the project and what becket is doing, and the marks of prompts reach
/// a real terminal.
#[test]
fn links_titles_and_marks_of_prompts_reach_the_terminal() {
    let bench = Bench::new(&[("notes.md", "one\n")]);
    let mut step = 0;
    let server = MockServer::with(move |_| {
        step += 1;
        match step {
            1 => Answer::tool("t1", "read", json!({"path": "notes.md"})).into(),
            2 => Answer::tool("t2", "bash", json!({"command": "touch made.txt"})).into(),
            _ => Answer::text("See https://example.org/docs for more.").into(),
        }
    });
    let mut terminal = Terminal::start(becket(&bench, &server));
    terminal.shows("Describe a task");
    terminal.send("look at the notes\r");
    terminal.shows("Enter twice");
    // Ctrl-U empties the composer: before the question could be read, the number is a text.
    terminal.press_until("\x151", "❯ 1 Yes   Enter takes it");
    terminal.press_until("\r", "for more.");
    terminal.shows("Describe a task");
    let root = bench.project.root();
    let folder = root.file_name().unwrap().to_string_lossy().into_owned();
    let titles = |t: &Terminal| -> Vec<String> {
        let bytes = String::from_utf8_lossy(&t.bytes).into_owned();
        let titles = bytes.split("\x1b]0;").skip(1).filter_map(|rest| rest.split_once('\x07'));
        titles.map(|(title, _)| title.to_owned()).collect()
    };
    terminal.until("the title of a session that rests", |t| {
        titles(t).last().is_some_and(|title| !title.starts_with(['◐', '?']))
    });
    let shown = titles(&terminal);
    assert!(shown.iter().all(|title| title.ends_with(&format!(" · {folder}"))), "{shown:?}");
    for mark in ["◐ ", "? "] {
        assert!(shown.iter().any(|title| title.starts_with(mark)), "{mark}: {shown:?}");
    }
    let bytes = String::from_utf8_lossy(&terminal.bytes).into_owned();
    let links: Vec<&str> =
        bytes.split("\x1b]8;id=").skip(1).filter_map(|rest| rest.split("\x1b\\").next()).collect();
    assert!(links.iter().any(|link| link.ends_with(";https://example.org/docs")), "{links:?}");
    let file = |link: &&str| link.contains(";file:///") && link.ends_with("/notes.md");
    assert!(links.iter().any(file), "{links:?}");
    assert!(!bytes.contains("\x1b]133;"), "marks belong to the scrollback");
    terminal.send("\x04");
    terminal.is_given_back();
    terminal
        .until("the mark of the prompt", |t| String::from_utf8_lossy(&t.bytes).contains("\x1b]133;A\x1b\\"));
}
