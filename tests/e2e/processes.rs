//! Commands and background jobs of a run end with it, however it ends.

use crate::support::{Api, Bench, Running, run};
use becket_testkit::{Answer, MockServer};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

/// Kinds of processes that are known to survive; each gives its number.
const KINDS: &str = r#"
sleep 999 & echo $! >>pids
nohup sleep 999 >/dev/null 2>&1 & echo $! >>pids
(setsid sh -c 'echo $$ >>pids; exec sleep 999' >/dev/null 2>&1 &)
(trap '' TERM HUP INT; exec setsid sh -c 'echo $$ >>pids; exec sleep 999') &
until [ "$(wc -l <pids)" -ge 4 ]; do :; done
"#;

fn alive(pid: &str) -> bool {
    // The name is in parentheses and may hold anything; `Z` only waits to be collected.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}

/// Returns the processes of `pids` that still live after a minute.
fn survivors(pids: &[String]) -> Vec<&String> {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let left: Vec<&String> = pids.iter().filter(|pid| alive(pid)).collect();
        if left.is_empty() || Instant::now() >= deadline {
            return left;
        }
        std::thread::yield_now();
    }
}

fn pids(project: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(project.join("pids")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn jobs_end_with_the_run_and_are_named() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([
        Answer::tool(
            "c1",
            "bash",
            json!({"command": "echo $$ >>pids; trap '' HUP; sleep 999", "background": "now"}),
        ),
        Answer::tool("c2", "bash", json!({"command": format!("{KINDS} echo over")})),
        Answer::text("done"),
    ]);
    let ran =
        run(bench.print(Api::Anthropic, &server).args(["--permission-mode", "bypassPermissions", "go"]))
            .expect(0);
    assert_eq!(ran.stdout, "done\n");
    for id in [1, 2] {
        assert!(
            ran.stderr.contains(&format!("becket: background job {id} ended with the run: ")),
            "{}",
            ran.stderr
        );
    }
    let pids = pids(bench.project.root());
    assert_eq!(pids.len(), 5);
    assert!(survivors(&pids).is_empty(), "{:?}", survivors(&pids));
    // The next process of this session says that they are lost.
    let server =
        MockServer::start([Answer::tool("c3", "job_output", json!({"id": 1})), Answer::text("seen")]);
    run(bench.print(Api::Anthropic, &server).args(["--continue", "look"])).expect(0);
    let requests = server.requests();
    let told = requests.last().unwrap().text();
    assert!(told.contains("Job 1 is lost"), "{told}");
}

#[test]
fn nothing_survives_any_signal() {
    for signal in ["-INT", "-TERM", "-HUP", "-KILL"] {
        let bench = Bench::new(&[]);
        let server = MockServer::start([
            Answer::tool(
                "c1",
                "bash",
                json!({"command": format!("{KINDS} touch ready; sleep 999"), "background": "now"}),
            ),
            Answer::tool(
                "c2",
                "bash",
                json!({"command": "until [ -e ready ]; do :; done; echo $$ >>pids; sleep 999 & echo $! >>pids; touch all; wait"}),
            ),
        ]);
        let running = Running::start(bench.print(Api::Anthropic, &server).args([
            "--permission-mode",
            "bypassPermissions",
            "go",
        ]));
        let deadline = Instant::now() + Duration::from_mins(1);
        while !bench.project.exists("all") {
            assert!(Instant::now() < deadline, "the commands do not start");
            std::thread::yield_now();
        }
        let pids = pids(bench.project.root());
        assert_eq!(pids.len(), 6, "{signal}");
        assert!(pids.iter().all(|pid| alive(pid)), "{signal}: they run until then");
        running.signal(signal);
        running.wait();
        assert!(survivors(&pids).is_empty(), "{signal}: {:?} of {pids:?}", survivors(&pids));
    }
}
