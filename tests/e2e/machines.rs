//! Whole runs on other machines: kernels without namespaces of users, without Landlock, without both, a container, root in the folder
//! of another user, a home that is read-only. On each of them becket works, and says in one line what is protected.

use crate::support::{Api, Bench, Ran, run};
use becket_testkit::{Answer, MockServer};
use serde_json::json;
use std::path::Path;
use std::process::Command;

/// `command` on a machine whose kernel lacks something. `lacking`: the list for `tests/fixtures/lacking.py`.
pub(crate) fn on_machine(lacking: &str, command: &Command) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/lacking.py");
    behind(&["python3".as_ref(), script.as_os_str(), lacking.as_ref()], command)
}

/// `command` with these words before it.
pub(crate) fn behind(words: &[&std::ffi::OsStr], command: &Command) -> Command {
    let mut out = Command::new(words[0]);
    out.args(&words[1..]).arg(command.get_program()).args(command.get_args()).env_clear();
    out.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(dir) = command.get_current_dir() {
        out.current_dir(dir);
    }
    out
}

/// The line of `becket doctor` about the sandbox.
fn line(ran: &Ran) -> String {
    let lines: Vec<&str> = ran.stdout.lines().filter(|line| line.contains(" sandbox ")).collect();
    assert_eq!(lines.len(), 1, "{}", ran.stdout);
    lines[0].to_owned()
}

fn doctor(bench: &Bench, lacking: &str) -> String {
    line(&run(&mut on_machine(lacking, bench.command().arg("doctor"))))
}

fn works(line: &str, backend: &str) -> bool {
    line.contains(backend) && line.contains("passed") && line.contains("forbidden actions failed")
}

/// A run in mode `auto` with one command that writes outside, and one that writes the workspace.
fn commands(bench: &Bench, lacking: &str) -> (Ran, String) {
    let outside = bench.home.path("outside");
    let command = format!("echo x > made.txt; python3 -c 'open(\"{}\", \"w\")'; ls -A", outside.display());
    let server =
        MockServer::start([Answer::tool("c1", "bash", json!({"command": command})), Answer::text("done")]);
    let mut command = bench.print(Api::Anthropic, &server);
    let ran = run(&mut on_machine(lacking, command.args(["--permission-mode", "auto", "--", "go"])));
    assert!(!outside.exists(), "{lacking}: {}", ran.stderr);
    (ran, server.requests().last().unwrap().text().to_owned())
}

#[test]
fn each_machine_is_described_in_one_line_and_its_commands_stay_inside() {
    let bench = Bench::new(&[("a.txt", "hello\n")]);
    let whole = doctor(&bench, "none");
    let (landlock, bubblewrap) = (works(&whole, "Landlock"), works(&whole, "bubblewrap"));
    // Docker's usual profile forbids mounts as well as namespaces.
    for (lacking, backend, is_there) in [
        ("namespaces", "Landlock", landlock),
        ("namespaces,mounts", "Landlock", landlock),
        ("landlock", "bubblewrap", bubblewrap),
    ] {
        let line = doctor(&bench, lacking);
        assert_eq!(works(&line, backend), is_there, "{lacking}: {line}");
        let other = if backend == "Landlock" { "bubblewrap" } else { "Landlock" };
        assert!(!is_there || !line.contains(other), "{lacking}: {line}");
        if is_there {
            let (ran, told) = commands(&bench, lacking);
            assert_eq!(ran.code, 0, "{lacking}: {}", ran.stderr);
            assert!(told.contains("made.txt") && bench.project.exists("made.txt"), "{lacking}: {told}");
            std::fs::remove_file(bench.project.path("made.txt")).unwrap();
        }
    }
}

#[test]
fn a_machine_that_can_confine_nothing_says_so_in_one_line_and_asks() {
    let bench = Bench::new(&[("a.txt", "hello\n")]);
    for lacking in ["landlock,namespaces", "landlock,namespaces,mounts"] {
        let line = doctor(&bench, lacking);
        for part in [
            "none (bubblewrap",
            "the kernel does not offer Landlock",
            "Asked about: every command",
            "Not confined",
        ] {
            assert!(line.contains(part), "{lacking}: {part}: {line}");
        }
        // The line gives bubblewrap's own reason, and does not guess from its exit code.
        assert!(!line.contains("a write outside"), "{lacking}: {line}");
        let (ran, told) = commands(&bench, lacking);
        assert_eq!(ran.code, 5, "{lacking}: {}", ran.stderr);
        assert!(!bench.project.exists("made.txt"), "{lacking}: {told}");
        // A command that only reads is asked about as well, with the reason.
        let server =
            MockServer::start([Answer::tool("c1", "bash", json!({"command": "ls"})), Answer::text("done")]);
        let mut command = bench.print(Api::Anthropic, &server);
        let ran = run(&mut on_machine(lacking, command.args(["--", "go"])));
        assert_eq!(ran.code, 5, "{lacking}: {}", ran.stderr);
        let reasons: Vec<&str> =
            ran.stderr.lines().filter(|line| line.contains("should only read")).collect();
        assert_eq!(reasons.len(), 1, "{lacking}: {}", ran.stderr);
        assert!(reasons[0].contains("no sandbox can enforce that here"), "{lacking}: {}", reasons[0]);
        // If confinement is required, nothing runs.
        let server =
            MockServer::start([Answer::tool("c1", "bash", json!({"command": "ls"})), Answer::text("done")]);
        let mut command = bench.print(Api::Anthropic, &server);
        command.args(["--sandbox", "required", "--allowedTools", "Bash(ls *)", "Bash(ls)", "--", "go"]);
        assert_eq!(run(&mut on_machine(lacking, &command)).code, 5, "{lacking}");
    }
}

#[test]
fn root_in_the_folder_of_another_user_is_confined_with_landlock() {
    let bench = Bench::new(&[("a.txt", "hello\n")]);
    if !rustix::process::geteuid().is_root() || !works(&doctor(&bench, "none"), "Landlock") {
        println!("skipped: needs root, and Landlock");
        return;
    }
    let nobody = Some(65_534);
    for path in [bench.project.root().to_owned(), bench.project.path("a.txt")] {
        std::os::unix::fs::chown(path, nobody, nobody).unwrap();
    }
    let line = doctor(&bench, "none");
    assert!(works(&line, "Landlock") && !line.contains("bubblewrap"), "{line}");
    let (ran, told) = commands(&bench, "none");
    assert!(ran.code == 0 && told.contains("made.txt") && bench.project.exists("made.txt"), "{told}");
}

#[test]
fn with_a_read_only_home_commands_are_confined_and_one_line_says_what_is_lost() {
    let bench = Bench::new(&[("a.txt", "hello\n")]);
    let home = bench.home.root().as_os_str();
    let words = ["bwrap", "--dev-bind", "/", "/", "--ro-bind"].map(std::ffi::OsStr::new);
    let words = [&words[..], &[home, home]].concat();
    let in_home = |command: &Command| behind(&words, command);
    if !Command::new("bwrap").args(["--dev-bind", "/", "/", "true"]).status().is_ok_and(|s| s.success()) {
        println!("skipped: bubblewrap does not work here");
        return;
    }
    let doctor = line(&run(&mut in_home(bench.command().arg("doctor"))));
    assert!(doctor.contains("passed"), "{doctor}");
    let server = MockServer::start([
        Answer::tool("c1", "bash", json!({"command": "echo x > made.txt; touch $HOME/x; ls -A"})),
        Answer::text("done"),
    ]);
    let mut command = bench.print(Api::Anthropic, &server);
    let ran = run(&mut in_home(command.args(["--permission-mode", "auto", "--", "go"])));
    // The answer is there, and the exit code says that the session is not.
    assert_eq!(ran.code, 14, "{}", ran.stderr);
    assert!(ran.stdout.contains("done") && bench.project.exists("made.txt"), "{}", ran.stdout);
    let lost: Vec<&str> =
        ran.stderr.lines().filter(|line| line.contains("Cannot save this session")).collect();
    assert_eq!(lost.len(), 1, "{}", ran.stderr);
    assert!(lost[0].contains("Read-only file system"), "{}", lost[0]);
}
