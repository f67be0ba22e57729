//! Edits followed by a real language server process and real formatters.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests")]

use becket_sandbox::{Backend, Confine, PolicyInputs, Programs, Sandbox, SandboxSettings};
use becket_tool::{EditHook, ToolEnv, testing};
use becket_tool_lsp::{AfterEdit, CustomFormatter, CustomServer, FormatSettings, LspSettings, Settings};
use becket_types::{FileChange, FileChangeKind, PermissionMode};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SERVER: &str = env!("CARGO_BIN_EXE_becket-test-language-server");
const BYPASS: PermissionMode = PermissionMode::BypassPermissions;

fn settings(mode: &str) -> Settings {
    let server = CustomServer {
        name: "toy".to_owned(),
        command: Some(vec![SERVER.to_owned(), mode.to_owned()]),
        extensions: vec!["toy".to_owned()],
        ..CustomServer::default()
    };
    Settings {
        env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
        lsp: LspSettings { enabled: None, servers: vec![server] },
        format: FormatSettings::default(),
        programs: Programs::default(),
    }
}

/// The sandbox of a session in `root`. `None`, after saying why, where none works.
fn sandbox(root: &Path, temp: &Path) -> Option<Arc<Sandbox>> {
    let sandbox = Sandbox::new(SandboxSettings {
        program: SERVER.into(),
        inputs: PolicyInputs { roots: vec![root.canonicalize().unwrap()], ..PolicyInputs::default() },
        find_secrets: Arc::new(|_| Vec::new()),
        refresh: None,
        search: Vec::new(),
        temp: vec![temp.to_owned()],
        only: None,
        hosts: becket_sandbox::HostRules::default(),
    });
    if let Backend::None { why } = sandbox.backend(becket_types::SandboxLevel::Workspace) {
        println!("skipped: {why}");
        return None;
    }
    Some(Arc::new(sandbox))
}

struct Session {
    dir: tempfile::TempDir,
    env: ToolEnv,
    hook: AfterEdit,
}

impl Session {
    fn new(settings: Settings) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (env, _) = testing::env(dir.path());
        Self { dir, env, hook: AfterEdit::new(settings) }
    }

    fn put(&self, name: &str, text: &str) {
        std::fs::write(self.dir.path().join(name), text).unwrap();
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).unwrap()
    }

    /// Makes an edit like the agent does. Returns the note for the model.
    async fn edit_in(&self, mode: PermissionMode, name: &str, text: &str) -> String {
        let path = self.env.cwd.join(name);
        let kind = if path.exists() { FileChangeKind::Update } else { FileChangeKind::Add };
        self.hook.before(std::slice::from_ref(&path), mode, &self.env).await;
        self.put(name, text);
        self.env.host.note_read(&path, &becket_tool::sha256(text.as_bytes()));
        let started = Instant::now();
        let note = self.hook.after(&[FileChange { path, kind }], mode, &self.env).await;
        let took = started.elapsed();
        // Servers take at most one second and formatters five. The rest is for a loaded machine.
        assert!(took < Duration::from_secs(15), "{took:?}");
        note.text
    }

    async fn edit(&self, name: &str, text: &str) -> String {
        self.edit_in(BYPASS, name, text).await
    }

    /// Edits until the server has started.
    async fn warm(&self) {
        self.put("warm.toy", "");
        for n in 0..100 {
            if !self.edit("warm.toy", &format!("{n}")).await.contains("starting") {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn only_errors_that_the_edit_brought_are_told_each_once() {
    for mode in ["", "pull", "versionless", "noise"] {
        let s = Session::new(settings(mode));
        s.warm().await;
        s.put("a.toy", "ERROR:old\nfine\nWARN\n");
        assert_eq!(s.edit("a.toy", "ERROR:old\nfine\nWARN WARN\n").await, "", "{mode}");
        let told = s.edit("a.toy", "moved\nERROR:old\nfine ERROR:new\n").await;
        assert_eq!(told, "toy: 1 new error:\na.toy:3:6: bad: ERROR:new", "{mode}");
        assert_eq!(s.edit("a.toy", "ERROR:old\nfine ERROR:new\n").await, "", "{mode}");
        assert_eq!(s.edit("a.toy", "").await, "", "{mode}");
        let told = s.edit("a.toy", "ERROR:old\n").await;
        assert_eq!(told, "toy: 1 new error:\na.toy:1:1: bad: ERROR:old", "{mode}");
    }
}

#[tokio::test]
async fn a_file_that_the_tool_opened_has_its_old_errors_still() {
    for mode in ["", "pull", "versionless"] {
        let mut settings = settings(mode);
        settings.lsp.servers[0].root_markers = vec!["a.toy".to_owned()];
        let s = Session::new(settings);
        s.put("a.toy", "word ERROR:old\n");
        let tool = s.hook.tool(BYPASS, &s.env.roots).unwrap();
        let asked = serde_json::json!({"action": "hover", "path": "a.toy", "symbol": "word"});
        assert!(!testing::run(&tool, &s.env, asked).await.is_error);
        let told = s.edit("a.toy", "word ERROR:old\nERROR:new\n").await;
        assert_eq!(told, "toy: 1 new error:\na.toy:2:1: bad: ERROR:new", "{mode}");
    }
}

#[tokio::test]
async fn while_a_server_loads_edits_wait_for_nothing_old_to_be_told_as_new() {
    let s = Session::new(settings("loading"));
    s.put("a.toy", "ERROR:old\n");
    for n in 0..6 {
        let told = s.edit("a.toy", &format!("ERROR:old\nERROR:{n}\n")).await;
        assert!(told.is_empty() || told.contains("starting"), "{told}");
    }
    let told = s.edit("appears.toy", "").await;
    assert_eq!(told, "");
    let told = s.edit("a.toy", "ERROR:old\n\nERROR:new\n").await;
    assert_eq!(told, "toy: 1 new error:\na.toy:3:1: bad: ERROR:new");
}

#[tokio::test]
async fn an_error_that_another_hid_is_not_told_again() {
    let s = Session::new(settings("syntax"));
    s.warm().await;
    s.put("a.toy", "ERROR:old\nfine\n");
    let told = s.edit("a.toy", "ERROR:old\nSYNTAX ERROR:paren\n").await;
    assert_eq!(told, "toy: 1 new error:\na.toy:2:8: bad: ERROR:paren");
    assert_eq!(s.edit("a.toy", "ERROR:old\nSYNTAX ERROR:paren again\n").await, "");
    assert_eq!(s.edit("a.toy", "ERROR:old\nfine\n").await, "");
    assert_eq!(s.edit("a.toy", "fine\n").await, "");
    let told = s.edit("a.toy", "fine\nERROR:old\n").await;
    assert_eq!(told, "toy: 1 new error:\na.toy:2:1: bad: ERROR:old");
}

#[tokio::test]
async fn columns_are_characters_whatever_the_server_counts() {
    for mode in ["", "utf8"] {
        let s = Session::new(settings(mode));
        s.warm().await;
        let told = s.edit("new.toy", "é🦀 ERROR:x\n").await;
        assert_eq!(told, "toy: 1 new error:\nnew.toy:1:4: bad: ERROR:x", "{mode}");
    }
}

#[tokio::test]
async fn errors_in_other_files_are_told_and_many_are_capped() {
    let s = Session::new(settings(""));
    s.warm().await;
    s.put("a.toy", "");
    s.edit("a.toy", "x").await;
    let told = s.edit("a.toy", "BREAKS b.toy\nERROR:1\n").await;
    assert_eq!(told, "toy: 2 new errors:\na.toy:2:1: bad: ERROR:1\nb.toy:7:1: broken from afar");
    assert_eq!(s.edit("a.toy", "BREAKS ../../../outside\n").await, "");
    let many = (0..50).map(|n| format!("ERROR:{n}")).collect::<Vec<_>>().join("\n") + "\n";
    let told = s.edit("a.toy", &many).await;
    assert_eq!(told.lines().count(), 12, "{told}");
    assert!(told.starts_with("toy: 50 new errors:") && told.ends_with("… and 40 more"), "{told}");
}

#[tokio::test]
async fn broken_servers_cost_one_line_and_no_more_than_a_second() {
    for (mode, says) in [
        ("exit", "cannot find my brain"),
        ("garbage", "is not the Language Server Protocol"),
        ("huge", "larger than 16 MB"),
        ("nonsense", "is not the Language Server Protocol"),
        ("deaf", "is starting"),
    ] {
        let s = Session::new(settings(mode));
        let told = s.edit("a.toy", "ERROR:1").await;
        assert_eq!(told.lines().count(), 1, "{mode}: {told}");
        // On a loaded machine the server may take more than a second to fail; the note then says that it is starting.
        assert!(told.contains(says) || told.contains("is starting"), "{mode}: {told}");
    }
}

#[tokio::test]
async fn a_server_that_crashes_is_started_three_times() {
    let s = Session::new(settings("crash"));
    s.put("a.toy", "");
    let mut told = String::new();
    for n in 0..40 {
        let line = s.edit("a.toy", &format!("{n}")).await;
        assert!(line.lines().count() <= 1, "{line}");
        told.push_str(&line);
        if line.contains("not started again") {
            break;
        }
    }
    assert!(told.contains("it ended 3 times and is not started again in this session"), "{told}");
    assert_eq!(s.edit("a.toy", "again").await, "");
}

#[tokio::test]
async fn a_silent_server_is_waited_for_three_times() {
    let s = Session::new(settings("silent"));
    s.put("a.toy", "");
    let mut told = Vec::new();
    for n in 0..8 {
        told.push(s.edit("a.toy", &format!("ERROR {n}")).await);
    }
    assert_eq!(told.iter().filter(|t| t.contains("do not wait for it")).count(), 1, "{told:?}");
    // becket waits far less than for a server that answers. A busy machine may delay one edit, but not all ten.
    let mut least = Duration::MAX;
    for n in 0..10 {
        let started = Instant::now();
        s.edit("a.toy", &format!("later {n}")).await;
        least = least.min(started.elapsed());
    }
    assert!(least < Duration::from_millis(900), "{least:?}");
}

#[tokio::test]
async fn nothing_of_the_project_runs_before_it_is_permitted() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("rustfmt");
    std::fs::write(&program, "#!/bin/sh\ntr a-z A-Z\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let settings = |auto, enabled| {
        let mut settings = settings("");
        settings.env = vec![("PATH".into(), format!("{}:/usr/bin:/bin", dir.path().display()).into())];
        settings.format.auto = auto;
        settings.lsp.enabled = enabled;
        settings
    };
    for (auto, mode, runs) in [
        (None, PermissionMode::Default, false),
        (None, PermissionMode::AcceptEdits, false),
        (None, BYPASS, true),
        (Some(true), PermissionMode::Default, true),
        (Some(false), BYPASS, false),
    ] {
        let s = Session::new(settings(auto, auto));
        assert!(s.hook.tool(mode, &[Path::new("/nowhere").to_owned()]).is_none());
        assert_eq!(s.edit_in(mode, "a.rs", "fn a\n").await, "", "no configuration of rustfmt");
        s.put("rustfmt.toml", "");
        let told = s.edit_in(mode, "a.rs", "fn b\n").await;
        assert_eq!(s.text("a.rs"), if runs { "FN B\n" } else { "fn b\n" }, "{auto:?} {mode}");
        assert_eq!(told.contains("formatted by rustfmt: +1 −1 lines:\n-1: fn b\n+1: FN B"), runs, "{told}");
        let path = s.env.cwd.join("a.rs");
        let now = becket_tool::sha256(s.text("a.rs").as_bytes());
        assert_eq!(s.env.host.read_hash(&path), Some(now), "the next edit is not stale");
        let told = s.edit_in(mode, "b.toy", "ERROR\n").await;
        assert_eq!(told.is_empty(), !runs, "{told}");
    }
}

#[tokio::test]
async fn a_formatter_that_fails_changes_nothing_and_is_one_line() {
    let own = |words: &[&str]| {
        let command = words.iter().map(|w| (*w).to_owned()).collect();
        let own = CustomFormatter { name: "own".to_owned(), command, extensions: vec![".toy".to_owned()] };
        Settings {
            format: FormatSettings { commands: vec![own], ..FormatSettings::default() },
            ..settings("")
        }
    };
    for (words, text, told, left) in [
        (&["tr", "a", "b"][..], "aa\n", "a.toy formatted by own: +1 −1 lines:\n-1: aa\n+1: bb", "bb\n"),
        (&["cat"], "aa\n", "", "aa\n"),
        (&["cat", "{path}"], "aa\n", "", "aa\n"),
        (
            &["/bin/sh", "-c", "echo what >&2; exit 2"],
            "aa\n",
            "a.toy: own failed: exit status: 2: what.",
            "aa\n",
        ),
        (&["true"], "aa\n", "a.toy: own printed nothing; the file was left as it is.", "aa\n"),
        (&["/bin/sh", "-c", "kill -9 $$"], "aa\n", "a.toy: own failed: signal: 9 (SIGKILL): .", "aa\n"),
        (&["printf", "\\377"], "aa\n", "a.toy: own failed: it printed text that is not UTF-8.", "aa\n"),
        (&["no-such-program-at-all"], "aa\n", "", "aa\n"),
    ] {
        let s = Session::new(own(words));
        assert_eq!(s.edit_in(PermissionMode::Default, "a.toy", text).await, told, "{words:?}");
        assert_eq!(s.text("a.toy"), left, "{words:?}");
        assert_eq!(std::fs::read_dir(s.dir.path()).unwrap().count(), 1, "nothing else is left");
    }
}

#[tokio::test]
async fn a_confined_server_answers_and_keeps_only_its_caches() {
    let (dir, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(sandbox) = sandbox(dir.path(), beside.path()) else { return };
    let caches = beside.path().join("caches");
    let programs = Programs::new(Confine::Always, Some(sandbox), Some(caches.clone()));
    let (env, _) = testing::env(dir.path());
    let hook = AfterEdit::new(Settings { programs, ..settings("confined") });
    let s = Session { dir, env, hook };
    s.warm().await;
    let told = s.edit("a.toy", "ERROR here\n").await;
    assert!(told.contains("a.toy"), "{told}");
    assert!(!s.dir.path().join("by-server").exists(), "it wrote into the workspace");
    assert!(caches.join("by-server").exists());
}

#[tokio::test]
async fn a_confined_formatter_changes_its_file_and_no_other() {
    let (dir, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(sandbox) = sandbox(dir.path(), beside.path()) else { return };
    let outside = beside.path().join("outside");
    let script = format!("echo x > '{}'; echo x > by-formatter; tr a-z A-Z", outside.display());
    let format = |script: &str| FormatSettings {
        commands: vec![CustomFormatter {
            name: "upper".to_owned(),
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            extensions: vec!["txt".to_owned()],
        }],
        ..FormatSettings::default()
    };
    let programs = Programs::new(Confine::Always, Some(sandbox), None);
    let confined = Settings { format: format(&script), programs, ..settings("") };
    let (env, _) = testing::env(dir.path());
    let s = Session { dir, env, hook: AfterEdit::new(confined) };
    let told = s.edit("a.txt", "some text\n").await;
    assert!(told.starts_with("a.txt formatted by upper"), "{told}");
    assert_eq!(s.text("a.txt"), "SOME TEXT\n");
    assert!(!outside.exists() && !s.dir.path().join("by-formatter").exists());

    // No sandbox works: with `IfPossible` one notice is shown, once; with `Always` the formatter does not run.
    let lost = |confine| Settings {
        format: format("tr a-z A-Z"),
        programs: Programs::new(confine, None, None),
        ..settings("")
    };
    let s = Session::new(lost(Confine::IfPossible));
    let notice =
        "Formatters, language servers, hooks and MCP servers are not confined: no sandbox works here";
    assert_eq!(s.edit("a.txt", "one\n").await.matches(notice).count(), 1);
    assert_eq!(s.edit("a.txt", "two\n").await.matches(notice).count(), 0);
    let s = Session::new(lost(Confine::Always));
    assert!(
        s.edit("a.txt", "three\n").await.starts_with("a.txt: not formatted by upper: no sandbox works here")
    );
    assert_eq!(s.text("a.txt"), "three\n");
}
