//! Tests starts in hostile folders: whatever a repository puts under the names that becket looks for, a run ends, tells the
//! model nothing from outside, and changes nothing outside.

use crate::support::{Api, Bench, run, without_privileges};
use crate::terminal::{Terminal as Screen, becket};
use becket_testkit::{Answer, MockServer};
use serde_json::json;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A word that is only in files outside of the project.
const PRIVATE: &str = "private-5d1e";
/// Longest time of one run, on a busy machine. A run that waits for a pipe never ends.
const LONGEST: Duration = Duration::from_secs(45);

/// Something that is not the file that becket expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trap {
    Pipe,
    Socket,
    /// A link to an endless device.
    Zero,
    /// A link to a terminal.
    Terminal,
    /// A link to a file of the kernel that waits for messages.
    KernelLog,
    /// A link to itself.
    Loop,
    Folder,
    /// A sparse file of a terabyte.
    Huge,
    Unreadable,
    NotText,
    /// Brackets, 100,000 deep.
    Nested,
    /// A link to a file outside of the project.
    Outside,
}

use Trap::{
    Folder, Huge, KernelLog, Loop, Nested, NotText, Outside, Pipe, Socket, Terminal, Unreadable, Zero,
};

/// Traps that would make a naive reader wait or read without end.
const WAITING: [Trap; 4] = [Pipe, Zero, KernelLog, Huge];
const ODD: [Trap; 8] = [Socket, Terminal, Loop, Folder, Unreadable, NotText, Nested, Outside];

/// Names that becket opens by itself, or that its tools open on the way.
const NAMES: [&str; 26] = [
    ".git",
    ".git/HEAD",
    ".git/config",
    ".git/index",
    ".git/commondir",
    ".git/info/exclude",
    ".git/info/attributes",
    ".git/objects/info/alternates",
    ".gitignore",
    ".ignore",
    ".gitattributes",
    "AGENTS.md",
    "CLAUDE.md",
    ".claude/CLAUDE.md",
    "CLAUDE.local.md",
    "sub/AGENTS.md",
    "sub/.gitignore",
    ".becket/config.toml",
    ".becket/config.local.toml",
    ".mcp.json",
    ".claude/settings.json",
    ".claude/agents/a.md",
    ".claude/commands/a.md",
    ".agents/skills/a/SKILL.md",
    "package.json",
    ".editorconfig",
];

/// Names of which some runs have the odd traps, too.
const PARSED: [&str; 7] = [
    ".git",
    "AGENTS.md",
    ".becket/config.toml",
    ".mcp.json",
    ".claude/settings.json",
    ".claude/agents/a.md",
    ".gitignore",
];

/// Files of the project's configuration. A start with one that cannot be read ends with a message.
const CONFIGURATION: [&str; 2] = [".becket/config", ".claude/settings.json"];

fn is_configuration(name: &str) -> bool {
    CONFIGURATION.iter().any(|known| name.starts_with(known))
}

/// Folders that becket lists.
const FOLDERS: [&str; 8] = [
    ".becket",
    ".claude",
    ".claude/agents",
    ".claude/commands",
    ".claude/skills",
    ".agents",
    ".git/info",
    "sub",
];

fn set(path: &Path, trap: Trap, outside: &Path) -> Option<UnixListener> {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    // An ordinary file or folder of the project can have this name.
    let _ = std::fs::remove_file(path).or_else(|_| std::fs::remove_dir_all(path));
    match trap {
        Pipe => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        Socket => {
            // A name of a socket has at most 108 bytes, and temporary folders can have long names.
            let made = UnixListener::bind(path);
            return Some(made.unwrap_or_else(|_| UnixListener::bind(outside.join("s")).unwrap()));
        }
        Zero => symlink("/dev/zero", path).unwrap(),
        Terminal => symlink("/dev/tty", path).unwrap(),
        KernelLog => symlink("/proc/kmsg", path).unwrap(),
        Loop => symlink(path.file_name().unwrap(), path).unwrap(),
        Folder => std::fs::create_dir(path).unwrap(),
        Huge => std::fs::File::create(path).unwrap().set_len(1 << 40).unwrap(),
        Unreadable => {
            std::fs::write(path, PRIVATE).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o000)).unwrap();
        }
        NotText => std::fs::write(path, b"gitdir: \xff\xfe\0\x80 = [\n").unwrap(),
        Nested => {
            let (open, close) =
                if path.extension().is_some_and(|e| e == "json") { ("{\"a\":", "}") } else { ("[", "]") };
            std::fs::write(path, format!("a = {}{}", open.repeat(100_000), close.repeat(100_000))).unwrap();
        }
        Outside => symlink(outside.join("file"), path).unwrap(),
    }
    None
}

/// A folder with one or more traps.
struct Case {
    traps: Vec<(String, Trap)>,
}

fn cases() -> Vec<Case> {
    let one = |name: &str, trap: Trap| Case { traps: vec![(name.to_owned(), trap)] };
    let mut out = Vec::new();
    // Different names have no influence on each other, except that a folder can hide another. So several share a run.
    for trap in WAITING {
        out.extend(NAMES.iter().step_by(2).map(|name| one(name, trap)));
        let rest = NAMES.iter().skip(1).step_by(2);
        out.push(Case { traps: rest.map(|name| ((*name).to_owned(), trap)).collect() });
    }
    for trap in ODD {
        out.extend(PARSED.iter().map(|name| one(name, trap)));
        let rest = NAMES.iter().filter(|name| !PARSED.contains(name));
        out.push(Case { traps: rest.map(|name| ((*name).to_owned(), trap)).collect() });
    }
    for name in FOLDERS {
        out.extend([Pipe, Loop].map(|trap| one(name, trap)));
    }
    out
}

/// The content of a folder outside: a file that fits each name, with a word that must not get out.
fn outside(bench: &Bench) -> PathBuf {
    let dir = bench.home.root().join("outside");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("file"), format!("---\nname: a\ndescription: {PRIVATE}\n---\n{PRIVATE}\n"))
        .unwrap();
    dir
}

fn listing(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut out: Vec<(PathBuf, Vec<u8>)> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), std::fs::read(path).unwrap_or_default()))
        .collect();
    out.sort();
    out
}

/// Makes the folder of a case and a folder outside. The sockets listen as long as the last value lives.
fn folder(case: &Case) -> (Bench, PathBuf, Vec<Option<UnixListener>>) {
    let bench = Bench::new(&[("a.txt", "one\n"), ("sub/b.txt", "two\n")]);
    let outside = outside(&bench);
    if !case.traps.iter().any(|(name, _)| name == ".git") {
        bench.project.write(".git/HEAD", "ref: refs/heads/main\n");
    }
    let listeners =
        case.traps.iter().map(|(name, trap)| set(&bench.project.path(name), *trap, &outside)).collect();
    (bench, outside, listeners)
}

/// The command for this case: files can be closed to it, if the case has such files. `None` if that is not possible here.
fn for_case(case: &Case, command: Command) -> Option<Command> {
    let is_closed = case.traps.iter().any(|(_, trap)| *trap == Unreadable);
    if is_closed { without_privileges(&command) } else { Some(command) }
}

/// Runs becket in the folder of a case. Returns what went wrong.
fn check(case: &Case) -> Result<(), String> {
    let (bench, outside, listeners) = folder(case);
    let before = listing(&outside);
    let server = MockServer::start([
        Answer::tool("1", "glob", json!({"pattern": "**/*.txt"}))
            .and_tool("2", "grep", json!({"pattern": "one"}))
            .and_tool("3", "read", json!({"path": "sub/b.txt"}))
            .and_tool("4", "write", json!({"path": "new.txt", "content": "three\n"})),
        Answer::text("the end"),
    ]);
    // A reader without a limit would take all memory of the machine before the time is over.
    let mut command = Command::new("sh");
    let becket = bench.print(Api::Anthropic, &server);
    command.args(["-c", "ulimit -v 8000000; exec \"$@\"", "sh"]).arg(becket.get_program());
    command.args(becket.get_args()).args(["--permission-mode", "acceptEdits", "--", "go"]);
    command.env_clear().current_dir(bench.project.root());
    command.envs(becket.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let Some(mut command) = for_case(case, command) else { return Ok(()) };
    let begun = Instant::now();
    let ran = run(&mut command);
    if begun.elapsed() > LONGEST {
        return Err(format!("took {:?}", begun.elapsed()));
    }
    let well = ran.code == 0 && ran.stdout.contains("the end") && bench.project.exists("new.txt");
    // A configuration that cannot be read ends the run, with a line that names the file.
    let refused = matches!(ran.code, 1 | 2)
        && server.requests().is_empty()
        && case.traps.iter().any(|(name, _)| ran.stderr.contains(name.rsplit('/').next().unwrap_or(name)));
    if !well && !refused {
        return Err(format!("code {}\n{}\n{}", ran.code, ran.stdout, ran.stderr));
    }
    for request in server.requests() {
        if request.text().contains(PRIVATE) {
            return Err("the model got content from outside, or of a file that cannot be read".to_owned());
        }
    }
    if listing(&outside) != before {
        return Err("something outside was changed".to_owned());
    }
    drop(listeners);
    Ok(())
}

#[test]
fn a_run_in_a_hostile_folder_ends_and_reaches_nothing_outside() {
    let cases = cases();
    assert!(cases.len() >= 80, "{} folders", cases.len());
    each(&cases, check);
}

/// The same at the terminal: the session starts, with a question about the project or without one, and takes a message.
#[test]
fn a_session_in_a_hostile_folder_starts_and_reaches_nothing_outside() {
    let cases: Vec<Case> = WAITING
        .into_iter()
        .chain(ODD)
        .flat_map(|trap| {
            let one = |name: &str| (name.to_owned(), trap);
            let rest = NAMES.iter().filter(|name| **name != ".git" && !is_configuration(name));
            // A configuration that cannot be read ends the start, so it is tried alone.
            [
                vec![one(".git")],
                vec![one(".becket/config.toml")],
                vec![one(".becket/config.local.toml")],
                vec![one(".claude/settings.json")],
                rest.map(|name| one(name)).collect(),
            ]
        })
        .map(|traps| Case { traps })
        .collect();
    each(&cases, check_session);
}

/// Starts a session in the folder of a case. Returns what went wrong.
fn check_session(case: &Case) -> Result<(), String> {
    let (bench, outside, listeners) = folder(case);
    let before = listing(&outside);
    let server = MockServer::start([
        Answer::tool("1", "read", json!({"path": "sub/b.txt"})),
        Answer::text("the end"),
        Answer::text("the end"),
    ]);
    let Some(command) = for_case(case, becket(&bench, &server)) else { return Ok(()) };
    let mut terminal = Screen::start(command);
    let question = "Do you trust what is in this directory?";
    terminal.until("the first screen", |t| {
        let screen = t.screen();
        let names_file = CONFIGURATION.iter().any(|name| screen.contains(name));
        screen.contains("Describe a task") || screen.contains(question) || names_file
    });
    if terminal.screen().contains(question) {
        terminal.press_until("\r", "Describe a task");
    }
    let refused = !terminal.screen().contains("Describe a task");
    if !refused {
        terminal.send("go\r");
        terminal.shows("the end");
        terminal.send("\x04");
        terminal.is_given_back();
    }
    let code = terminal.child.wait().unwrap().code();
    let named = case.traps.iter().any(|(name, _)| is_configuration(name));
    if !(code == Some(0) || refused && named && matches!(code, Some(1 | 2))) {
        return Err(format!("code {code:?}\n{}", terminal.screen()));
    }
    if server.requests().iter().any(|request| request.text().contains(PRIVATE)) {
        return Err("the model got content from outside, or of a file that cannot be read".to_owned());
    }
    if listing(&outside) != before {
        return Err("something outside was changed".to_owned());
    }
    drop(listeners);
    Ok(())
}

/// Checks all cases, several at once.
fn each(cases: &[Case], check: impl Fn(&Case) -> Result<(), String> + Sync) {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(2, usize::from) * 2;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = std::panic::catch_unwind(AssertUnwindSafe(|| check(case)));
                    let result =
                        result.unwrap_or_else(|_| Err("it did not end, or could not be set up".to_owned()));
                    if let Err(why) = result {
                        failed.lock().unwrap().push(format!("{:?}: {why}", case.traps));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), cases.len(), failed.join("\n---\n"));
}

/// Folders that are links to folders outside, with files that would be used if they were the project's.
#[test]
fn folders_that_are_links_to_places_outside_are_not_read() {
    let bench =
        Bench::new(&[("a.txt", "one\n"), ("sub/b.txt", "two\n"), (".git/HEAD", "ref: refs/heads/main\n")]);
    let outside = bench.home.root().join("outside");
    let text = format!("---\nname: a\ndescription: {PRIVATE}\n---\n{PRIVATE}\n");
    for name in
        ["CLAUDE.md", "AGENTS.md", "agents/a.md", "commands/a.md", "skills/a/SKILL.md", "more/a/SKILL.md"]
    {
        let path = outside.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, &text).unwrap();
    }
    bench
        .project
        .write(".becket/config.toml", "[skills]\ndirs = [\"more\"]\n[rules]\nfiles = [\"linked.md\"]\n");
    for (name, target) in [
        (".claude", outside.clone()),
        (".becket/agents", outside.join("agents")),
        (".agents", outside.clone()),
        ("AGENTS.md", outside.join("AGENTS.md")),
        ("linked.md", outside.join("AGENTS.md")),
        ("sub/CLAUDE.md", outside.join("CLAUDE.md")),
        ("more", outside.join("more")),
    ] {
        symlink(target, bench.project.path(name)).unwrap();
    }
    bench.project.write("CLAUDE.md", format!("see @{}/CLAUDE.md and @linked.md", outside.display()));
    let server =
        MockServer::start([Answer::tool("1", "read", json!({"path": "sub/b.txt"})), Answer::text("the end")]);
    let ran = run(bench.print(Api::Anthropic, &server).args(["--", "go"])).expect(0);
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert!(!request.text().contains(PRIVATE), "{}", request.text());
    }
    for name in ["AGENTS.md is not used", "linked.md is not used", ".claude/agents", ".agents/skills"] {
        assert!(ran.stderr.contains(name), "{name}: {}", ran.stderr);
    }
}

/// A home folder that is shared, such as `/tmp`: another user can prepare names there.
#[test]
fn in_a_shared_home_nothing_that_another_user_prepared_is_read() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can create the files of another user");
        return;
    }
    let bench = Bench::new(&[]);
    let temp = tempfile::tempdir().unwrap();
    std::fs::set_permissions(temp.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
    let hook = bench.home.path("ran");
    let settings = json!({"hooks": {"SessionStart": [{"hooks": [
        {"type": "command", "command": format!("touch '{}'", hook.display())}]}]}});
    let own = rustix::process::geteuid().as_raw();
    let planted = format!("becket-{own}");
    let files = [
        ("becket/config.toml", "permissions.allow = [\"Bash\"]\n".to_owned()),
        ("becket/AGENTS.md", PRIVATE.to_owned()),
        (".config/becket/config.toml", "permissions.allow = [\"Bash\"]\n".to_owned()),
        (".config/becket/AGENTS.md", PRIVATE.to_owned()),
        (".claude/CLAUDE.md", PRIVATE.to_owned()),
        (".claude/settings.json", settings.to_string()),
        (".local/share/becket/x", String::new()),
        (&format!("{planted}/config/becket/config.toml"), "permissions.allow = [\"Bash\"]\n".to_owned()),
        (&format!("{planted}/config/becket/AGENTS.md"), PRIVATE.to_owned()),
    ];
    for (name, text) in &files {
        let path = temp.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let status = Command::new("sh")
        .args(["-c", "chown -R 54321 becket* .config .claude .local"])
        .current_dir(temp.path())
        .status()
        .unwrap();
    assert!(status.success());
    {
        let home = temp.path();
        let server = MockServer::start([
            Answer::tool("1", "bash", json!({"command": "echo x > made.txt"})),
            Answer::text("the end"),
        ]);
        let mut command = bench.print(Api::Anthropic, &server);
        command.env("HOME", home).env("TMPDIR", temp.path()).args(["--", "go"]);
        let ran = run(&mut command);
        assert!(!bench.project.exists("made.txt"), "{}", ran.stderr);
        assert!(!hook.exists(), "a hook that another user planted ran: {}", ran.stderr);
        for request in server.requests() {
            assert!(!request.text().contains(PRIVATE), "{}", request.text());
        }
        assert!(ran.stderr.contains("becket-"), "{}", ran.stderr);
        // Data of this user is in a folder that nobody else can enter.
        let private: Vec<PathBuf> = std::fs::read_dir(temp.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.join("data/sessions").is_dir())
            .collect();
        assert_eq!(private.len(), 1, "{private:?}");
        for path in private {
            use std::os::unix::fs::MetadataExt as _;
            let meta = path.metadata().unwrap();
            assert_eq!((meta.uid(), meta.mode() & 0o777), (own, 0o700), "{}", path.display());
        }
    }
}
