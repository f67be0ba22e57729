//! Bad input: every parameter of every tool missing, of the wrong type, empty, huge, outside of the workspace. The answer
//! names what is wrong, and nothing is done.

#![expect(clippy::unwrap_used, reason = "a failed set-up fails the test")]

use becket_tool::sha256;
use becket_tool::testing::{env, run};
use serde_json::{Value, json};

#[tokio::test]
async fn bad_input_is_named_and_nothing_is_done() {
    let huge = "x".repeat(300);
    let deep = "a/".repeat(3_000);
    let edit = |with: Value| merged(json!({"path": "f", "old": "text", "new": "other"}), with);
    let multi = |with: Value| merged(json!({"path": "f", "edits": [{"old": "text", "new": "other"}]}), with);
    let write = |with: Value| merged(json!({"path": "f", "content": "other"}), with);
    let mut cases: Vec<(&str, Value, &str)> = vec![
        ("edit", edit(json!({"old": 7.5})), "was not found"),
        ("edit", edit(json!({"old": ["text"]})), "`old` must be a string"),
        ("edit", edit(json!({"new": {"a": 1}})), "`new` must be a string"),
        ("edit", edit(json!({"replace_all": "perhaps"})), "`replace_all` must be true or false"),
        ("edit", edit(json!({"old": ""})), "`old` is empty"),
        ("edit", edit(json!({"old": huge})), "was not found"),
        ("edit", edit(json!({"old": "text\0"})), "was not found"),
        ("edit", edit(json!({"unknown": 1})), "unknown field `unknown`"),
        ("multi_edit", multi(json!({"edits": []})), "`edits` is empty"),
        ("multi_edit", multi(json!({"edits": 5})), "must be an object"),
        ("multi_edit", multi(json!({"edits": "text"})), "must be an object"),
        ("multi_edit", multi(json!({"edits": [{"old": "text"}]})), "`edits[0].new` is missing"),
        ("multi_edit", multi(json!({"edits": [{"new": "text"}]})), "`edits[0].old` is missing"),
        ("multi_edit", multi(json!({"edits": [{"old": "a", "new": []}]})), "`edits[0].new` must be a string"),
        ("write", write(json!({"content": {"a": 1}})), "`content` must be a string"),
        ("write", write(json!({"content": [1]})), "`content` must be a string"),
        ("apply_patch", json!({}), "`patch` is missing"),
        ("apply_patch", json!({"patch": 5}), "This is no patch"),
        ("apply_patch", json!({"patch": {"a": 1}}), "`patch` must be a string"),
        ("apply_patch", json!({"patch": ""}), "This is no patch"),
        ("apply_patch", json!({"patch": huge}), "This is no patch"),
        (
            "apply_patch",
            patch("*** Update File: f\n-text\n+other\n*** Add File: ../out/x\n+x\n*** Delete File: none\n"),
            "none does not exist",
        ),
        (
            "apply_patch",
            patch("*** Update File: away/f\n-text\n+x\n"),
            "outside of the session's directories",
        ),
        ("apply_patch", patch("*** Add File: ~/x\n+x\n"), "`~` is not expanded"),
    ];
    for (tool, full) in
        [("edit", edit(json!({}))), ("multi_edit", multi(json!({}))), ("write", write(json!({})))]
    {
        for name in full.as_object().unwrap().keys().filter(|name| *name != "replace_all") {
            let missing = merged(full.clone(), json!({name: null}));
            cases.push((tool, missing, "is missing; it must be"));
        }
        cases.push((tool, json!(null), "must be an object"));
        cases.push((tool, json!([1]), "must be an object"));
        for (path, want) in [
            (json!({"a": 1}), "`path` must be a string"),
            (json!(["f"]), "`path` must be a string"),
            (json!(""), "The path is empty"),
            (json!("  "), "The path is empty"),
            (json!("a\0b"), "NUL"),
            (json!("~/f"), "`~` is not expanded"),
            (json!("."), "is a directory"),
            (json!("away/f"), "outside of the session's directories"),
            (json!("loop"), "probably a loop"),
            (json!("/proc/self/mem"), "is not edited"),
            (json!("/dev/null"), "character device"),
            (json!("f/below"), ""),
            (json!(huge.as_str()), ""),
            (json!(deep.as_str()), ""),
        ] {
            cases.push((tool, merged(full.clone(), json!({"path": path})), want));
        }
    }
    for (tool, input, want) in &cases {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let (env, host) = env(dir.path());
        std::fs::write(env.cwd.join("f"), "text\n").unwrap();
        std::fs::write(outside.path().join("f"), "text\n").unwrap();
        std::os::unix::fs::symlink(outside.path(), env.cwd.join("away")).unwrap();
        std::os::unix::fs::symlink("loop", env.cwd.join("loop")).unwrap();
        host.kept().reads.insert(env.cwd.join("f"), sha256(b"text\n"));
        let tools = becket_tool_edit::tools();
        let used = tools.iter().find(|t| t.spec().name == *tool).unwrap();
        let output = run(&**used, &env, input.clone()).await;
        let shown: String = input.to_string().chars().take(200).collect();
        assert!(output.is_error && output.content.contains(want), "{tool} {shown}: {}", output.content);
        assert!(output.content.len() < 9_000 && output.changes.is_empty());
        assert_eq!(std::fs::read(env.cwd.join("f")).unwrap(), b"text\n", "{tool} {shown}");
        assert_eq!(std::fs::read(outside.path().join("f")).unwrap(), b"text\n", "{tool} {shown}");
        assert_eq!(std::fs::read_dir(&env.cwd).unwrap().count(), 3, "{tool} {shown}");
    }
    assert!(cases.len() > 70, "{}", cases.len());
}

fn patch(body: &str) -> Value {
    json!({"patch": format!("*** Begin Patch\n{body}*** End Patch")})
}

fn merged(mut input: Value, with: Value) -> Value {
    for (name, value) in with.as_object().unwrap() {
        input[name] = value.clone();
    }
    input
}
