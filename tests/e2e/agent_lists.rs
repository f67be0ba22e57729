//! Definitions of agents through the binary: what takes tools away has its effect in every form, and faults are named.

use crate::support::{Api, Bench, run};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};

/// `Edit` names every tool that changes files, in whatever form the definition takes it away.
#[test]
fn an_agent_without_edit_changes_no_file() {
    let change = || {
        let edits = json!([{ "old_string": "one", "new_string": "two" }]);
        Answer::tool("m1", "multi_edit", json!({ "path": "a.txt", "edits": edits }))
    };
    for keys in [
        "disallowedTools: Write, Edit, Bash",
        "disallowed-tools: [Edit, Bash]",
        "DisallowedTools: Edit Bash",
        "tools: {edit: false, bash: false}",
        "permission: {edit: deny, bash: deny}",
    ] {
        let bench = Bench::new(&[("a.txt", "one\n")]);
        let text = format!("---\ndescription: Reviews.\n{keys}\n---\nREVIEWS\n");
        bench.home.write(".claude/agents/rev.md", text);
        let task = json!({ "description": "review", "prompt": "review", "agent": "rev" });
        let read = || Answer::tool("r1", "read", json!({ "path": "a.txt" }));
        let answers =
            [read(), change(), Answer::text("done"), Answer::tool("t1", "task", task), read(), change()];
        let more = [Answer::text("reviewed"), Answer::text("done")];
        let server = MockServer::start(answers.into_iter().chain(more));
        let flags = ["--permission-mode", "acceptEdits"];
        run(bench.print(Api::Anthropic, &server).args(flags).args(["--agent", "rev", "go"])).expect(0);
        run(bench.print(Api::Anthropic, &server).args(flags).arg("go")).expect(0);
        assert_eq!(std::fs::read_to_string(bench.project.path("a.txt")).unwrap(), "one\n", "{keys}");
        for at in [0, 4] {
            let names = server.requests()[at].tool_names();
            assert!(names.iter().any(|name| name == "read"), "{keys}: {names:?}");
            let changing = ["edit", "multi_edit", "write", "apply_patch", "bash"];
            assert!(!names.iter().any(|name| changing.contains(&name.as_str())), "{keys}: {names:?}");
        }
    }
}

#[test]
fn an_agent_whose_lists_cannot_be_read_is_left_out() {
    let bench = Bench::new(&[]);
    bench
        .home
        .write(".claude/agents/rev.md", "---\ndescription: Reviews.\ndisallowedTools: {Bash: true}\n---\n");
    let server = MockServer::start([Answer::text("never")]);
    let ran = run(bench.print(Api::Chat, &server).args(["--agent", "rev", "go"])).expect(2);
    assert!(ran.stderr.contains("there is no agent \"rev\""), "{}", ran.stderr);
    let listed = run(bench.command().arg("agents")).expect(0).stdout;
    assert!(listed.contains("rev.md is left out: `disallowedTools` is not a list of tools"), "{listed}");
}

/// A run names one fault, or says that `becket agents` lists them. It lists all that the run means.
#[test]
fn the_list_of_agents_has_every_fault_that_a_run_counts() {
    let bench = Bench::new(&[]);
    bench.project.write(".git/HEAD", "ref: refs/heads/main\n");
    bench.project.write(".claude/agents/n.md", "no frontmatter\n");
    bench.project.write(".claude/agents/team/b.md", "---\nname: bad one\ndescription: d\n---\n");
    bench.project.write(".claude/agents/team/s.md", "---\ndescription: d\nskills: none\n---\nTEAM\n");
    let server = MockServer::start([Answer::text("done")]);
    let ran = run(bench.print(Api::Anthropic, &server).args(["--agent", "s", "go"])).expect(0);
    assert!(server.requests()[0].text().contains("TEAM"), "an agent in a folder of the folder");
    assert!(ran.stderr.contains("2 warnings about agents; `becket agents` lists them"), "{}", ran.stderr);
    let listed = run(bench.command().arg("agents")).expect(0).stdout;
    for word in ["n.md is left out", "b.md is left out", "works without the skill none"] {
        assert!(listed.contains(word), "{listed}");
    }
    let json = run(bench.command().args(["agents", "--json"])).expect(0).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["warnings"].as_array().unwrap().len(), 3, "{json}");
}
