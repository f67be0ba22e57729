//! The `lsp` tool over a real language server process.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use becket_tool::{Tool, ToolEnv, testing};
use becket_tool_lsp::{AfterEdit, CustomServer, LspSettings, LspTool, Settings};
use becket_types::{Effect, PermissionMode, ToolOutput};
use serde_json::{Value, json};

const SERVER: &str = env!("CARGO_BIN_EXE_becket-test-language-server");

fn hook(mode: &str) -> AfterEdit {
    let server = CustomServer {
        name: "toy".to_owned(),
        command: Some(vec![SERVER.to_owned(), mode.to_owned()]),
        extensions: vec![".toy".to_owned()],
        root_markers: vec!["toy.project".to_owned()],
        ..CustomServer::default()
    };
    AfterEdit::new(Settings {
        lsp: LspSettings { enabled: Some(true), servers: vec![server] },
        ..Settings::default()
    })
}

fn project() -> (tempfile::TempDir, ToolEnv) {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("toy.project", ""),
        ("a.toy", "# 🦀\ndef start\n  stop 🦀 start\n"),
        ("b.toy", "def stop\nstart\n"),
        ("c.txt", "start\n"),
    ] {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let (env, _) = testing::env(dir.path());
    (dir, env)
}

fn tool(mode: &str, env: &ToolEnv) -> LspTool {
    hook(mode).tool(PermissionMode::Default, &env.roots).unwrap()
}

async fn ask(tool: &LspTool, env: &ToolEnv, input: Value) -> ToolOutput {
    testing::run(tool, env, input).await
}

#[tokio::test]
async fn places_are_found_by_symbol_and_line() {
    for mode in ["", "utf8", "noise"] {
        let (_dir, env) = project();
        let tool = tool(mode, &env);
        // The server only knows files that were opened before, so `b.toy` is opened.
        ask(&tool, &env, json!({"action": "hover", "path": "b.toy", "symbol": "stop"})).await;
        for (input, want) in [
            (
                json!({"action": "definition", "path": "a.toy", "symbol": "stop", "line": 3}),
                "b.toy:1:5: def stop",
            ),
            (
                json!({"action": "definition", "file_path": "a.toy", "symbol": "start", "line": "40"}),
                "a.toy:2:5: def start",
            ),
            (
                json!({"action": "references", "path": "a.toy", "symbol": "start", "line": 2}),
                "a.toy:2:5: def start\na.toy:3:10: stop 🦀 start\nb.toy:2:1: start",
            ),
            (json!({"action": "hover", "path": "a.toy", "symbol": "stop", "line": 3}), "the word **stop**"),
            (json!({"action": "symbols", "path": "a.toy"}), "1: class outer\n  2: method inner"),
            (json!({"action": "symbols", "symbol": "query"}), "a.toy:5: function query"),
        ] {
            let output = ask(&tool, &env, input.clone()).await;
            assert!(!output.is_error, "{mode} {input}: {}", output.content);
            assert_eq!(output.content, want, "{mode} {input}");
        }
    }
}

#[tokio::test]
async fn a_rename_names_its_files_before_it_changes_them() {
    let (dir, env) = project();
    let tool = tool("", &env);
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    ask(&tool, &env, json!({"action": "hover", "path": "b.toy", "symbol": "stop"})).await;
    let input = json!({"action": "rename", "path": "a.toy", "symbol": "start", "line": 2, "new_name": "go"});
    let mut apply = input.clone();
    apply["apply"] = json!(true);
    // Without a plan, a call with `apply` only plans, so it needs no right to write.
    assert_eq!(tool.access(&apply, &env).unwrap().effect, Effect::Read);
    let planned = ask(&tool, &env, input.clone()).await;
    assert_eq!(
        planned.content,
        "Planned, nothing changed yet: 3 places in 2 files. The same call with apply: true does it.\n\
         a.toy: 2, first 2: def go\nb.toy: 1, first 2: go"
    );
    assert!(planned.changes.is_empty() && read("a.toy").contains("def start"));
    let access = tool.access(&apply, &env).unwrap();
    assert_eq!(access.effect, Effect::Write);
    assert_eq!(access.paths, [env.cwd.join("a.toy"), env.cwd.join("b.toy")]);
    // A plan for one name is no plan for another name.
    let mut other = apply.clone();
    other["new_name"] = json!("run");
    assert_eq!(tool.access(&other, &env).unwrap().effect, Effect::Read);

    let done = ask(&tool, &env, apply.clone()).await;
    assert!(!done.is_error, "{}", done.content);
    assert_eq!(done.changes.len(), 2);
    assert_eq!(read("a.toy"), "# 🦀\ndef go\n  stop 🦀 go\n");
    assert_eq!((read("b.toy"), read("c.txt")), ("def stop\ngo\n".to_owned(), "start\n".to_owned()));
    assert_eq!(tool.access(&apply, &env).unwrap().effect, Effect::Read, "a plan is applied once");
}

#[tokio::test]
async fn mistakes_are_named() {
    let (_dir, env) = project();
    let tool = tool("", &env);
    for (input, want) in [
        (json!({}), "`action` is missing"),
        (json!({"action": "fly"}), "must be one of definition, references"),
        (json!({"action": "definition"}), "needs path"),
        (json!({"action": "symbols"}), "needs path or symbol"),
        (json!({"action": "hover", "path": "a.toy"}), "needs symbol"),
        (json!({"action": "rename", "path": "a.toy", "symbol": "start"}), "needs new_name"),
        (
            json!({"action": "rename", "path": "a.toy", "symbol": "start", "new_name": "a b"}),
            "\"a b\" is not one word",
        ),
        (json!({"action": "hover", "path": "a.toy", "symbol": "absent"}), "does not contain \"absent\""),
        (json!({"action": "hover", "path": "c.txt", "symbol": "start"}), "No language server for c.txt"),
        (json!({"action": "hover", "path": "none.toy", "symbol": "x"}), "does not exist"),
        (json!({"action": "hover", "path": ["a"], "symbol": "x"}), "`path` must be a string"),
        (json!({"action": "hover", "path": "a.toy", "symbol": "x", "line": -4}), "line"),
    ] {
        let output = ask(&tool, &env, input.clone()).await;
        assert!(output.is_error && output.content.contains(want), "{input}: {}", output.content);
    }
}

#[tokio::test]
async fn a_broken_server_is_a_message_and_the_next_call_tries_again() {
    for mode in ["exit", "garbage", "huge", "nonsense"] {
        let (_dir, env) = project();
        let tool = tool(mode, &env);
        for n in 0..5 {
            let output =
                ask(&tool, &env, json!({"action": "hover", "path": "a.toy", "symbol": "start"})).await;
            assert!(output.is_error && output.content.lines().count() == 1, "{mode}: {}", output.content);
            assert_eq!(
                output.content.contains("not started again"),
                n >= 3,
                "{mode} {n}: {}",
                output.content
            );
        }
    }
}

#[test]
fn the_tool_is_offered_where_a_server_could_work() {
    let (dir, env) = project();
    let offered = |hook: AfterEdit, mode| hook.tool(mode, &env.roots).is_some();
    assert!(offered(hook(""), PermissionMode::Default));
    let off = |enabled| {
        AfterEdit::new(Settings { lsp: LspSettings { enabled, servers: Vec::new() }, ..Settings::default() })
    };
    assert!(!offered(off(Some(true)), PermissionMode::BypassPermissions), "no program");
    std::fs::remove_file(dir.path().join("toy.project")).unwrap();
    assert!(!offered(hook(""), PermissionMode::Default), "no project of its kind");
}
