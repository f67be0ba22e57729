//! `--locked FILE`: a run is repeated under the same conditions, or it sends nothing and says what differs.

use crate::support::{Api, Bench, run};
use becket_testkit::{Answer, MockServer};

#[test]
fn a_locked_run_begins_only_under_the_same_conditions() {
    let bench = Bench::new(&[("AGENTS.md", "Use tabs.\n")]);
    let server = MockServer::with(|_| Answer::text("fine").into());
    let print = |args: &[&str]| {
        let mut command = bench.print(Api::Anthropic, &server);
        run(command.args(["--locked", "run.lock"]).args(args).arg("go"))
    };
    let ran = print(&[]).expect(0);
    assert!(ran.stderr.contains("pinned this run in run.lock"), "{}", ran.stderr);
    assert!(bench.project.read("run.lock").contains("rules AGENTS.md"));
    print(&[]).expect(0);
    let (sent, sessions) = (server.requests().len(), bench.ledgers().len());
    let refused = |args: &[&str], words: &str| {
        let ran = print(args).expect(2);
        assert!(ran.stderr.contains(words), "{args:?}: {}", ran.stderr);
    };
    refused(&["--effort", "high"], "effort: none then, high now");
    refused(&["--disallowedTools", "WebFetch", "--"], "tool web_fetch: missing now");
    bench.project.write("AGENTS.md", "Use spaces.\n");
    refused(&[], "rules AGENTS.md: changed");
    bench.project.write("AGENTS.md", "Use tabs.\n");
    // The same name of a model at another server is another model.
    let elsewhere = MockServer::with(|_| Answer::text("fine").into());
    let mut command = bench.print(Api::Anthropic, &elsewhere);
    let ran = run(command.args(["--locked", "run.lock", "go"])).expect(2);
    assert!(ran.stderr.contains("server of the model: "), "{}", ran.stderr);
    assert!(elsewhere.requests().is_empty());
    assert_eq!(server.requests().len(), sent, "nothing was sent");
    assert_eq!(bench.ledgers().len(), sessions, "no session is left behind");
    print(&[]).expect(0);
    bench.project.write("run.lock", "{}");
    refused(&[], "is not a file of a locked run");
}
