//! The file tools, attacked by names and links, in every mode that asks: one table of paths, every tool with each of them, and while
//! they work a folder that is swapped for a link. The oracle: every file outside with its content, what the model got, and the time.

use crate::support::{Api, Bench, run};
use becket_testkit::{Answer, MockServer};
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A word in every file outside.
const PRIVATE: &str = "outside-7c41e9";
/// A run makes some 400 calls. Without a trap it takes a few seconds.
const LONGEST: Duration = Duration::from_secs(90);

/// Paths that lead out of the workspace, with `@` for the folder outside and `~` for the home folder.
const OUTSIDE: &[&str] = &[
    "@/data.txt",
    "@/new.txt",
    "../outside/data.txt",
    "./sub/../../outside/data.txt",
    "file-link",
    "folder-link/data.txt",
    "folder-link/new.txt",
    "folder-link/../outside/data.txt",
    "chain-1/data.txt",
    "dangling",
    "dangling-folder/new.txt",
    "relative-link",
    "sub/up/outside/data.txt",
    "/proc/self/root@/data.txt",
    "/proc/self/cwd/../outside/data.txt",
    "/proc/thread-self/cwd/file-link",
    "proc-link/data.txt",
    "~/.ssh/id_rsa",
    "~/.bashrc",
    "//@/data.txt",
    "sub/../folder-link/./data.txt",
];

/// Files of other programs that a write would make them obey, or that hold more than a project's files, also as other systems
/// and file systems spell them.
const PROTECTED: &[&str] = &[
    ".git/config",
    ".git/hooks/pre-commit",
    ".git/info/attributes",
    ".GIT/config",
    ".Git/hooks/post-checkout",
    "sub/.git/config",
    "sub/.git/hooks/pre-commit",
    "sub/.GIT/config",
    "new/.git/config",
    "git-link/config",
    "git-link/hooks/pre-commit",
    ".g\u{200c}it/config",
    ".git\u{200d}/config",
    "\u{feff}.git/config",
    ".gi\u{fe0f}t/hooks/x",
    "GIT~1/config",
    ".git /config",
    ".git./config",
    ".git::$INDEX_ALLOCATION/config",
    ".git\\config",
    ".becket/config.toml",
    ".becket/new.toml",
    ".BECKET/config.toml",
    ".claude/settings.json",
    ".claude/agents/a.md",
    ".mcp.json",
    ".envrc",
    ".vscode/tasks.json",
    ".VSCode/tasks.json",
    ".gitmodules",
];

/// Names that are no ordinary file, and names that are hard to handle.
const ODD: &[&str] = &[
    "pipe",
    "socket",
    "device",
    "zero-link",
    "tty-link",
    "loop",
    "loop/x",
    "sub",
    ".",
    "..",
    "/",
    "",
    "/dev/zero",
    "/dev/random",
    "/dev/tty",
    "/dev/stdin",
    "/dev/fd/0",
    "/proc/self/fd/0",
    "/proc/self/environ",
    "/proc/self/mem",
    "/proc/1/environ",
    "/proc/kmsg",
    "/sys/kernel/debug",
    "a\nb.txt",
    "a\rb.txt",
    "\u{1b}[31mred\u{1b}[0m.txt",
    "\u{202e}txt.exe",
    "a\u{0}b",
    "a.txt/",
    "a.txt/b",
    "~nobody/x",
    "$HOME/.ssh/id_rsa",
    "${HOME}/.ssh/id_rsa",
    "file:///etc/passwd",
    "..\\outside\\data.txt",
    "-rf",
    "--help",
    "*",
    "[a-z]*",
    "A.TXT",
    "é.txt",
    "e\u{301}.txt",
    "******* {0} ******",
    "huge",
];

/// Paths below a folder that is swapped for a link to the folder outside while the calls run.
const SWAPPED: &[&str] =
    &["swap/data.txt", "swap/new.txt", "swap/sub/deep.txt", "./sub/../swap/data.txt", "swap"];

fn calls(path: &str) -> Vec<(&'static str, Value)> {
    let patch =
        |kind: &str, body: &str| format!("*** Begin Patch\n*** {kind} File: {path}\n{body}*** End Patch\n");
    vec![
        ("read", json!({"path": path, "limit": 5})),
        ("write", json!({"path": path, "content": "evil\n"})),
        ("edit", json!({"path": path, "old": "line", "new": "evil"})),
        ("multi_edit", json!({"path": path, "edits": [{"old": "line", "new": "evil"}]})),
        ("apply_patch", json!({"patch": patch("Add", "+evil\n")})),
        ("apply_patch", json!({"patch": patch("Update", "@@\n-line\n+evil\n")})),
        ("apply_patch", json!({"patch": patch("Delete", "")})),
        (
            "apply_patch",
            json!({"patch": format!("*** Begin Patch\n*** Update File: a.txt\n*** Move to: {path}\n@@\n-line\n+evil\n*** End Patch\n")}),
        ),
        ("glob", json!({"pattern": "**/*", "path": path, "limit": 5})),
        ("glob", json!({"pattern": path, "limit": 5})),
        ("grep", json!({"pattern": "line|outside", "path": path, "mode": "content", "limit": 5})),
        ("notebook_edit", json!({"path": path, "cell": "0", "source": "evil", "edit_mode": "replace"})),
        ("web_fetch", json!({"url": format!("file://{path}")})),
    ]
}

/// Every file below a folder, with what it is and what it contains.
fn state(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut out = BTreeMap::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            let content = if meta.is_dir() {
                todo.push(path.clone());
                String::new()
            } else if meta.is_symlink() {
                path.read_link().unwrap().display().to_string()
            } else if meta.is_file() && meta.len() < 1 << 20 {
                String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned()
            } else {
                meta.len().to_string()
            };
            out.insert(path, format!("{:o} {content}", meta.mode()));
        }
    }
    out
}

/// A workspace `project` beside a folder `outside`.
struct Ground {
    bench: Bench,
    _listener: UnixListener,
}

impl Ground {
    fn new() -> Self {
        let bench = Bench::new(&[]);
        let base = bench.project.root().canonicalize().unwrap();
        let (project, outside) = (base.join("project"), base.join("outside"));
        let home = bench.home.root();
        for (path, text) in [
            (project.join("a.txt"), "line\n".to_owned()),
            (project.join("sub/b.txt"), "line\n".to_owned()),
            (project.join("swap/data.txt"), "line inside\n".to_owned()),
            (project.join("swap/sub/deep.txt"), "line inside\n".to_owned()),
            (project.join(".git/HEAD"), "ref: refs/heads/main\n".to_owned()),
            (project.join(".git/config"), "[core]\n\tbare = false\n# line\n".to_owned()),
            (project.join(".git/hooks/pre-commit"), "# line\n".to_owned()),
            (project.join("sub/.git/HEAD"), "ref: refs/heads/main\n".to_owned()),
            (project.join("sub/.git/config"), "[core]\n\tbare = false\n# line\n".to_owned()),
            (project.join(".becket/config.toml"), "# line\n".to_owned()),
            (outside.join("data.txt"), format!("line {PRIVATE}\n")),
            (outside.join("sub/deep.txt"), format!("line {PRIVATE}\n")),
            (outside.join("hard.txt"), "line of a file with two names\n".to_owned()),
            (home.join(".ssh/id_rsa"), format!("line {PRIVATE}\n")),
            (home.join(".bashrc"), format!("line {PRIVATE}\n")),
        ] {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        for (target, link) in [
            (outside.join("data.txt"), "file-link"),
            (outside.clone(), "folder-link"),
            ("chain-2".into(), "chain-1"),
            ("folder-link".into(), "chain-2"),
            (outside.join("new-file"), "dangling"),
            (outside.join("new-folder"), "dangling-folder"),
            ("../outside/data.txt".into(), "relative-link"),
            ("../..".into(), "sub/up"),
            (PathBuf::from(format!("/proc/self/root{}", outside.display())), "proc-link"),
            (".git".into(), "git-link"),
            ("loop".into(), "loop"),
            ("/dev/zero".into(), "zero-link"),
            ("/dev/tty".into(), "tty-link"),
        ] {
            symlink(target, project.join(link)).unwrap();
        }
        std::fs::hard_link(outside.join("hard.txt"), project.join("hard.txt")).unwrap();
        std::fs::File::create(project.join("huge")).unwrap().set_len(1 << 40).unwrap();
        mknodat(CWD, project.join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        // Only root can make a device; without it, the name does not exist.
        let zero = rustix::fs::makedev(1, 5);
        let _ =
            mknodat(CWD, project.join("device"), FileType::CharacterDevice, Mode::RUSR | Mode::WUSR, zero);
        let listener = UnixListener::bind(project.join("socket")).unwrap();
        Self { bench, _listener: listener }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.bench.project.root().canonicalize().unwrap().join(name)
    }

    /// Places that no call may change: the folder outside, the user's files, and the files that other programs obey.
    fn protected(&self) -> BTreeMap<PathBuf, String> {
        let mut out = state(&self.path("outside"));
        out.extend(state(&self.bench.home.path(".ssh")));
        out.insert(".bashrc".into(), self.bench.home.read(".bashrc"));
        let plain = |name: &str| {
            name.chars().filter(|c| c.is_ascii_alphanumeric()).collect::<String>().to_lowercase()
        };
        let obeyed = [
            "git",
            "becket",
            "claude",
            "mcpjson",
            "envrc",
            "vscode",
            "gitmodules",
            "git1",
            "gitindexallocation",
            "gitconfig",
        ];
        let of_project = state(&self.path("project")).into_iter().filter(|(path, _)| {
            let below = path.strip_prefix(self.path("project")).unwrap();
            below.iter().any(|part| {
                let part = part.to_string_lossy();
                part != "git-link" && obeyed.contains(&plain(&part).as_str())
            })
        });
        out.extend(of_project);
        out
    }

    /// Runs every tool with each of these paths. Returns the requests' texts.
    fn run(&self, mode: &str, paths: &[String]) -> String {
        let mut answers = Vec::new();
        for (number, path) in paths.iter().enumerate() {
            let mut answer = Answer::new();
            for (at, (tool, input)) in calls(path).into_iter().enumerate() {
                answer = answer.and_tool(&format!("c{number}-{at}"), tool, input);
            }
            answers.push(answer);
        }
        answers.push(Answer::text("the end"));
        let server = MockServer::start(answers);
        let mut command = Command::new("sh");
        let becket = self.bench.print(Api::Anthropic, &server);
        // A reader without a limit would take all memory of the machine before the time is over.
        command.args(["-c", "ulimit -v 8000000; exec \"$@\"", "sh"]).arg(becket.get_program());
        command.args(becket.get_args()).args(["--permission-mode", mode, "--max-turns", "1000", "--", "go"]);
        command.env_clear().current_dir(self.path("project"));
        command.envs(becket.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let begun = Instant::now();
        let ran = run(&mut command);
        assert!(begun.elapsed() < LONGEST, "{mode}: {:?}", begun.elapsed());
        // becket ends a turn whose calls bring nothing new, with exit code 8.
        assert!(ran.stdout.contains("the end") || ran.code == 8, "{mode}: {ran:?}");
        server.requests().last().unwrap().text().to_owned()
    }
}

fn written_out(ground: &Ground, paths: &[&str]) -> Vec<String> {
    let (outside, home) = (ground.path("outside"), ground.bench.home.root());
    let at = |path: &&str| {
        path.replace('@', &outside.to_string_lossy()).replace("~/", &format!("{}/", home.display()))
    };
    paths.iter().map(at).collect()
}

/// The names of the files that a change concerns.
fn changes(before: &BTreeMap<PathBuf, String>, after: &BTreeMap<PathBuf, String>) -> Vec<PathBuf> {
    let all = before.keys().chain(after.keys());
    let mut out: Vec<PathBuf> = all.filter(|path| before.get(*path) != after.get(*path)).cloned().collect();
    out.sort();
    out.dedup();
    out
}

#[test]
fn no_file_tool_reaches_outside_or_changes_what_others_obey() {
    for mode in ["default", "acceptEdits", "auto", "plan", "dontAsk"] {
        let ground = Ground::new();
        let mut paths = written_out(&ground, &[OUTSIDE, PROTECTED, ODD].concat());
        paths.extend([
            "n".repeat(255),
            "n".repeat(256),
            "long/".repeat(1_200) + "x",
            format!("{}x", "../".repeat(900)),
            "hard.txt".to_owned(),
        ]);
        assert!(paths.len() * calls("x").len() > 1_200, "{}", paths.len());
        let before = ground.protected();
        let told: String = paths.chunks(30).map(|some| ground.run(mode, some)).collect();
        assert!(!told.contains(PRIVATE), "{mode}: the model got what is outside");
        assert!(!told.contains("sk-test"), "{mode}: the model got the key of becket's environment");
        assert_eq!(changes(&before, &ground.protected()), Vec::<PathBuf>::new(), "{mode}");
    }
}

/// A folder of the workspace is a link to the folder outside half of the time, and changes while calls are judged and run.
#[test]
fn no_file_tool_follows_a_folder_that_is_swapped_while_it_works() {
    for mode in ["default", "acceptEdits", "auto"] {
        let ground = Ground::new();
        symlink(ground.path("outside"), ground.path("swap-link")).unwrap();
        let before = ground.protected();
        let stop = AtomicBool::new(false);
        let (one, other) = (ground.path("project/swap"), ground.path("swap-link"));
        let paths: Vec<String> = (0..4).flat_map(|_| SWAPPED.iter().map(|path| (*path).to_owned())).collect();
        let told = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                    std::thread::yield_now();
                }
            });
            let runs = || (0..3).map(|_| ground.run(mode, &paths)).collect::<String>();
            let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(runs));
            stop.store(true, Ordering::Relaxed);
            told
        });
        let told = told.unwrap_or_else(|why| std::panic::resume_unwind(why));
        assert!(!told.contains(PRIVATE), "{mode}: the model got what is outside");
        assert_eq!(changes(&before, &ground.protected()), Vec::<PathBuf>::new(), "{mode}");
    }
}
