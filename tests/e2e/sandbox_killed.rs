//! becket is killed while a confined program runs: what the program made for other programs does not stay.

use crate::sandbox::{shell_server, skipped};
use crate::support::{Api, Bench, Running};
use becket_testkit::{Answer, MockServer};
use serde_json::json;

/// becket itself checks nothing any more when it was killed. With Landlock the command can change existing files, too, and rename
/// folders.
#[test]
fn nothing_that_a_command_made_is_obeyed_after_becket_was_killed() {
    let attack = "trap '' TERM HUP
        mkdir -p conf/fish; echo evil > conf/fish/config.fish
        while :; do
          for f in .mcp.json x.code-workspace .envrc; do echo evil > $f; done
          [ -L .config ] || ln -s conf .config
          [ -e old ] || { mv .git old && mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit; }
          touch written; sleep 0.01
        done 2>/dev/null";
    for lacking in ["none", "namespaces"] {
        let bench = Bench::new(&[("a.txt", "hello\n"), (".envrc", "mine\n"), ("attack.sh", attack)]);
        if skipped(&bench) {
            return;
        }
        let git = ["init", "-q", "."];
        let status = std::process::Command::new("git").args(git).current_dir(bench.project.root()).status();
        assert!(status.is_ok_and(|status| status.success()));
        let server = MockServer::start([
            Answer::tool("c1", "bash", json!({"command": "sh attack.sh"})),
            Answer::text("done"),
        ]);
        let mut command = bench.print(Api::Anthropic, &server);
        command.args(["--permission-mode", "auto", "--", "go"]);
        let running = Running::start(&mut crate::machines::on_machine(lacking, &command));
        wait("the command does not write", &|| bench.project.exists("written"));
        running.signal("-KILL");
        running.wait();
        // The command writes `.mcp.json` again and again until the watcher ends it. becket itself no longer checks anything.
        wait("it stopped too early", &|| bench.project.exists(".mcp.json"));
        let left = || {
            let names = [".mcp.json", "x.code-workspace", ".git/hooks/pre-commit"];
            let mut left: Vec<&str> = names.into_iter().filter(|name| bench.project.exists(name)).collect();
            left.extend(bench.project.path(".config").symlink_metadata().is_ok().then_some(".config"));
            let is_mine = bench.project.path(".git/HEAD").exists()
                && std::fs::read_to_string(bench.project.path(".envrc")).is_ok_and(|text| text == "mine\n");
            left.extend((!is_mine).then_some(".envrc or .git"));
            left
        };
        wait("what the command made stays", &|| left().is_empty());
        let _ = std::fs::remove_file(bench.project.path("written"));
        wait("it is made again", &|| left().is_empty() && !bench.project.exists("written"));
    }
}

/// Waits for a minute at most.
fn wait(what: &str, test: &dyn Fn() -> bool) {
    let until = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while !test() {
        assert!(std::time::Instant::now() < until, "{what}");
        std::thread::yield_now();
    }
}

/// Waits until `.mcp.json`, which a program writes again and again beside `written`, is put aside and nothing writes it any more.
fn until_it_is_put_aside(bench: &Bench) {
    let names = || std::fs::read_dir(bench.project.root()).unwrap().map(|entry| entry.unwrap().file_name());
    let refused = || names().filter(|name| name.to_string_lossy().starts_with(".mcp.json.refused")).count();
    let before = refused();
    wait("the file is not put aside", &|| refused() > before);
    let _ = std::fs::remove_file(bench.project.path("written"));
    wait("the file stays", &|| !bench.project.exists(".mcp.json") && !bench.project.exists("written"));
}

#[test]
fn nothing_that_a_server_made_is_obeyed_after_becket_was_killed() {
    let bench = Bench::new(&[("a.txt", "hello\n")]);
    if skipped(&bench) {
        return;
    }
    let write = "trap '' TERM HUP; while :; do echo evil > .mcp.json; touch written; sleep 0.01; done";
    let server = MockServer::start([
        Answer::tool("c1", "mcp__fix__shell", json!({"command": write})),
        Answer::text("done"),
    ]);
    let mut command = bench.print(Api::Anthropic, &server);
    command.args(["--permission-mode", "bypassPermissions", "--mcp-config", &shell_server(), "--", "go"]);
    let running = Running::start(&mut command);
    wait("the server does not write", &|| bench.project.exists("written"));
    running.signal("-KILL");
    running.wait();
    until_it_is_put_aside(&bench);
}
