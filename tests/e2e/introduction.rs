//! The introduction of a driving program: what cannot be used is refused as a whole, and names work as they are written.

use crate::support::*;
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};

/// A request that is refused has no effect: no hook is asked, no server is started, and the prompt stays becket's own.
#[test]
fn an_introduction_that_cannot_be_used_is_refused_as_a_whole() {
    let group = json!([{ "hookCallbackIds": ["h"] }]);
    for (field, part) in [
        (json!({ "hooks": [1] }), "hooks must be an object of events"),
        (json!({ "hooks": { "PreToolUse": "x" } }), "hooks.PreToolUse must be a list"),
        (json!({ "hooks": { "PreToolUse": [{ "matcher": "Write" }] } }), "hookCallbackIds"),
        (json!({ "hooks": { "PreToolUse": group, "Nope": group } }), "Nope"),
        (
            json!({ "hooks": { "PreToolUse": group }, "appendSystemPrompt": 3 }),
            "appendSystemPrompt must be a string",
        ),
        (json!({ "skills": "x" }), "skills must be a list of strings"),
        (json!({ "title": 3 }), "title must be a string"),
        (json!({ "mcpServers": { "a": {} } }), "neither a command nor a url"),
        (json!({ "sdkMcpServers": "x" }), "sdkMcpServers must be a list of strings"),
    ] {
        let bench = Bench::new(&[]);
        let server = MockServer::start([
            Answer::tool("c1", "write", json!({ "path": "a.txt", "content": "x" })),
            Answer::text("done"),
        ]);
        let mut body = json!({ "subtype": "initialize", "systemPrompt": "MINE" });
        for (key, value) in field.as_object().unwrap() {
            body[key] = value.clone();
        }
        let lines = format!("{}\n{}\n", request(&body), says("go"));
        let mut command = bench.print(Api::Chat, &server);
        command.args(["--input-format", "stream-json", "--output-format", "stream-json"]);
        let ran = run_with(command.args(["--permission-mode", "acceptEdits"]), lines.as_bytes()).expect(0);
        let answers: Vec<Value> =
            ran.lines().into_iter().filter(|line| line["type"] == "control_response").collect();
        let error = answers[0]["response"]["error"].as_str().unwrap_or_default();
        assert!(answers.len() == 1 && error.contains(part), "{field}: {answers:?}");
        assert!(!ran.stdout.contains("hook_callback"), "{field}: {}", ran.stdout);
        assert!(!server.requests()[0].text().contains("MINE"), "{field}");
        assert_eq!(bench.project.read("a.txt"), "x", "{field}");
    }
}

/// A skill whose name was changed is called as its file writes it: by a prompt, and in the introduction.
#[test]
fn a_skill_is_called_by_the_name_in_its_file() {
    let bench = Bench::new(&[]);
    let skill = "---\nname: under_score\ndescription: d\n---\nThe skill's text.\n";
    bench.home.write(".config/becket/skills/under_score/SKILL.md", skill);
    bench
        .home
        .write(".config/becket/skills/other/SKILL.md", "---\nname: other\ndescription: OTHER\n---\nx\n");
    let server = MockServer::with(|_| Answer::text("fine").into());
    run(bench.print(Api::Chat, &server).arg("/under_score now")).expect(0);
    assert!(server.requests()[0].text().contains("The skill's text."), "{}", server.requests()[0].text());
    let hello = request(&json!({ "subtype": "initialize", "skills": ["under_score"] }));
    let lines = format!("{hello}\n{}\n{}\n", says("go"), says("/under_score again"));
    let mut command = bench.print(Api::Chat, &server);
    command.args(["--input-format", "stream-json", "--output-format", "stream-json"]);
    run_with(&mut command, lines.as_bytes()).expect(0);
    let sent = server.requests();
    assert!(
        sent[1].text().contains("under-score") && !sent[1].text().contains("OTHER"),
        "{}",
        sent[1].text()
    );
    assert!(sent[2].text().contains("The skill's text."), "{}", sent[2].text());
}
