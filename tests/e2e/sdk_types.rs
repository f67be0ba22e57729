//! Results of tools, compared with the type definitions of the installed TypeScript SDK. A name that a new version of the package
//! brings fails the test until somebody has decided about it.

use crate::sdk_answers::Session;
use crate::sdks::peers;
use crate::support::{Bench, says};
use becket_testkit::{Answer, MockServer};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Returns the text of a file of the TypeScript SDK.
pub(crate) fn of_package(test: &str, file: &str) -> Option<String> {
    let path = PathBuf::from("node_modules/@anthropic-ai/claude-agent-sdk").join(file);
    let peers = peers(test, path.to_str().unwrap())?;
    Some(std::fs::read_to_string(peers.join(path)).unwrap())
}

/// The fields of the first object of a type: name, and true if it is required.
pub(crate) fn fields(types: &str, name: &str) -> BTreeMap<String, bool> {
    let start =
        ["export interface", "export type", "export declare type"].map(|kind| format!("{kind} {name} "));
    let at = start.iter().find_map(|start| types.find(start)).unwrap_or_else(|| panic!("no type {name}"));
    let (mut depth, mut out) = (0, BTreeMap::new());
    for line in types[at..].lines() {
        let line = line.trim();
        if line.starts_with("/*") || line.starts_with('*') {
            continue;
        }
        if depth == 1
            && let Some((field, _)) = line.split_once(':')
        {
            let (field, required) = field.strip_suffix('?').map_or((field, true), |field| (field, false));
            out.insert(field.to_owned(), required);
        }
        depth += line.matches('{').count();
        depth -= line.matches('}').count();
        if depth == 0 && line.contains('}') {
            break;
        }
    }
    assert!(!out.is_empty(), "{name} has no fields");
    out
}

/// Optional fields that becket does not give: nothing here has such a value.
const NOT_GIVEN: &[(&str, &[&str])] = &[
    (
        "AgentOutput",
        // The model of a subagent is in `modelUsage`.
        &["resolvedModel", "modelsUsed", "toolStats", "worktreePath", "worktreeBranch"],
    ),
    (
        "BashOutput",
        &[
            "rawOutputPath",
            "backgroundedByUser",
            "backgroundCwdHint",
            "backgroundEndsWithFinalResponse",
            "backgroundWakesOwner",
            "dangerouslyDisableSandbox",
            "returnCodeInterpretation",
            "noOutputExpected",
            "structuredContent",
            "persistedOutputPath",
            "persistedOutputSize",
            "staleReadFileStateHint",
            "ghRateLimitHint",
            "gitOperation",
        ],
    ),
    ("FileEditOutput", &["gitDiff", "staged"]),
    ("FileWriteOutput", &["gitDiff", "staged"]),
    ("FileReadOutput", &["artifactRead"]),
    ("GlobOutput", &["timedOut"]),
    ("GrepOutput", &["totalFiles", "totalLines", "appliedOffset", "timedOut"]),
    ("NotebookEditOutput", &["error"]),
];

/// Optional fields that are there only in some calls.
const SOMETIMES: &[(&str, &[&str])] = &[
    ("BashOutput", &["backgroundTaskId", "timedOutAfterMs"]),
    ("GrepOutput", &["appliedLimit", "content", "numLines"]),
    ("NotebookEditOutput", &["old_source"]),
];

fn listed(table: &[(&str, &[&str])], name: &str, field: &str) -> bool {
    table.iter().any(|(of, fields)| *of == name && fields.contains(&field))
}

#[test]
fn results_of_tools_have_the_fields_of_the_sdk() {
    let Some(types) = of_package("results_of_tools_have_the_fields_of_the_sdk", "sdk-tools.d.ts") else {
        return;
    };
    let notebook = json!({
        "cells": [{ "cell_type": "code", "id": "c", "metadata": {}, "outputs": [], "source": ["1\n"], "execution_count": null }],
        "metadata": {}, "nbformat": 4, "nbformat_minor": 5,
    });
    let notebook = serde_json::to_string_pretty(&notebook).unwrap();
    let bench = Bench::new(&[("a.txt", "one\ntwo\nthree\n"), ("n.ipynb", &notebook)]);
    let rows = [
        ("read", json!({ "path": "a.txt" }), "FileReadOutput", json!({ "type": "text" })),
        (
            "edit",
            json!({ "path": "a.txt", "old": "two", "new": "2" }),
            "FileEditOutput",
            json!({
                "oldString": "two", "newString": "2", "originalFile": "one\ntwo\nthree\n", "replaceAll": false,
                "userModified": false, "structuredPatch": [{
                    "oldStart": 1, "oldLines": 3, "newStart": 1, "newLines": 3,
                    "lines": [" one", "-two", "+2", " three"],
                }],
            }),
        ),
        (
            "multi_edit",
            json!({ "path": "a.txt", "edits": [{ "old": "one", "new": "1" }, { "old": "three", "new": "3" }] }),
            "FileEditOutput",
            json!({ "originalFile": "one\n2\nthree\n" }),
        ),
        (
            "write",
            json!({ "path": "a.txt", "content": "new\n" }),
            "FileWriteOutput",
            json!({ "type": "update", "content": "new\n", "originalFile": "1\n2\n3\n" }),
        ),
        (
            "write",
            json!({ "path": "b.txt", "content": "new\n" }),
            "FileWriteOutput",
            json!({ "type": "create", "originalFile": null }),
        ),
        ("read", json!({ "path": "n.ipynb" }), "FileReadOutput", json!({ "type": "text" })),
        (
            "notebook_edit",
            json!({ "path": "n.ipynb", "cell": "c", "source": "2" }),
            "NotebookEditOutput",
            json!({ "new_source": "2", "old_source": "1\n", "original_file": notebook, "edit_mode": "replace" }),
        ),
        (
            "bash",
            json!({ "command": "echo hi" }),
            "BashOutput",
            json!({ "stdout": "hi", "interrupted": false }),
        ),
        ("glob", json!({ "pattern": "*.txt" }), "GlobOutput", json!({ "numFiles": 2, "totalMatches": 2 })),
        (
            "grep",
            json!({ "pattern": "new", "mode": "content" }),
            "GrepOutput",
            json!({ "mode": "content", "numMatches": 2 }),
        ),
        (
            "grep",
            json!({ "pattern": "new", "mode": "files" }),
            "GrepOutput",
            json!({ "mode": "files_with_matches" }),
        ),
        ("grep", json!({ "pattern": "new", "mode": "count" }), "GrepOutput", json!({ "mode": "count" })),
        (
            "todo",
            json!({ "items": [{ "content": "x", "status": "pending" }] }),
            "TodoWriteOutput",
            json!({ "oldTodos": [], "newTodos": [{ "content": "x", "status": "pending", "activeForm": "x" }] }),
        ),
        (
            "todo",
            json!({ "items": [] }),
            "TodoWriteOutput",
            json!({ "oldTodos": [{ "content": "x", "status": "pending", "activeForm": "x" }], "newTodos": [] }),
        ),
        (
            "task",
            json!({ "agent": "general", "description": "look", "prompt": "look" }),
            "AgentOutput",
            json!({ "status": "completed", "prompt": "look", "agentType": "general-purpose" }),
        ),
    ];
    let mut answers: Vec<Answer> = Vec::new();
    for (at, (tool, input, ..)) in rows.iter().enumerate() {
        answers.push(Answer::tool(&format!("call_{at}_"), tool, input.clone()));
        if *tool == "task" {
            answers.push(Answer::text("found"));
        }
    }
    answers.push(Answer::text("done"));
    let server = MockServer::start(answers);
    let mut session = Session::start(&bench, &server, &["--permission-mode", "bypassPermissions"]);
    session.send(&says("go"));
    for (at, (tool, _, name, wanted)) in rows.iter().enumerate() {
        let result = session.line(&["tool_use_result", &format!("call_{at}_")])["tool_use_result"].clone();
        for (field, required) in fields(&types, name) {
            let there = result.get(&field).is_some();
            if required {
                assert!(there, "{tool}: {name}.{field} is missing in {result}");
            } else if listed(NOT_GIVEN, name, &field) {
                assert!(!there, "{tool}: {name}.{field} is given, so it is not in NOT_GIVEN");
            } else {
                assert!(there || listed(SOMETIMES, name, &field), "{tool}: {name}.{field}: {result}");
            }
        }
        for (field, value) in wanted.as_object().unwrap() {
            assert_eq!(&result[field], value, "{tool}: {field}");
        }
    }
    session.result();
    session.0.wait().expect(0);
}

/// A command in the background that is stopped, and the picture that a call has read.
#[test]
fn a_stopped_command_and_a_picture_have_the_fields_of_the_sdk() {
    let test = "a_stopped_command_and_a_picture_have_the_fields_of_the_sdk";
    let Some(types) = of_package(test, "sdk-tools.d.ts") else { return };
    let bench = Bench::new(&[]);
    let png = base64_png();
    std::fs::write(bench.project.root().join("a.png"), &png).unwrap();
    let server = MockServer::start([
        Answer::tool(
            "call_1",
            "bash",
            json!({ "command": "sleep 600", "background": "now", "description": "wait" }),
        ),
        Answer::tool("call_2", "job_kill", json!({ "id": 1 })),
        Answer::tool("call_3", "read", json!({ "path": "a.png" })),
        Answer::text("done"),
    ]);
    let mut session = Session::start(&bench, &server, &["--permission-mode", "bypassPermissions"]);
    session.send(&says("go"));
    let mut result = |id: &str| session.line(&["tool_use_result", id])["tool_use_result"].clone();
    assert_eq!(result("call_1")["backgroundTaskId"], "1");
    let stopped = result("call_2");
    for (field, _) in fields(&types, "TaskStopOutput") {
        assert!(stopped.get(&field).is_some(), "{field}: {stopped}");
    }
    assert_eq!((&stopped["task_id"], &stopped["command"]), (&json!("1"), &json!("sleep 600")));
    let picture = result("call_3");
    assert_eq!((&picture["type"], &picture["file"]["type"]), (&json!("image"), &json!("image/png")));
    assert_eq!(picture["file"]["originalSize"], png.len());
    assert_eq!(picture["file"]["dimensions"]["originalWidth"], 1);
    assert!(picture["file"]["base64"].as_str().unwrap().starts_with("iVBORw0KGgo"), "{picture}");
    session.result();
    session.0.wait().expect(0);
}

/// A picture of one pixel.
fn base64_png() -> Vec<u8> {
    use base64::Engine as _;
    let data =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    base64::engine::general_purpose::STANDARD.decode(data).unwrap()
}
