//! A small real language server for the tests, over standard input and output.
//!
//! It owns no knowledge of a language: every `ERROR` in a text is an error, every word is a symbol, `def WORD` is its
//! definition. Its one argument says how it misbehaves; it touches no file but in the mode
//! `confined`. Started as the helper of a sandbox, it is one.
#![expect(clippy::unwrap_used, clippy::exit, clippy::print_stderr, reason = "a program for tests")]

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};

/// True if `process` names no process, or one that runs. Like a real server, this one ends when its client's process is gone.
fn sees(process: &Value) -> bool {
    process.as_u64().is_none_or(|id| std::path::Path::new(&format!("/proc/{id}")).exists())
}

fn main() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    if mode == becket_sandbox::helper::WORD {
        let (code, message) = becket_sandbox::helper::run(std::env::args_os().skip(2));
        eprintln!("{message}");
        std::process::exit(code.into());
    }
    let mut input = BufReader::new(std::io::stdin());
    let mut texts: BTreeMap<String, (i64, String)> = BTreeMap::new();
    // Mode `loading`: no diagnostics are sent for any text until a file appears.
    let mut loaded = mode != "loading";
    match mode.as_str() {
        "exit" => {
            eprintln!("cannot find my brain");
            std::process::exit(3);
        }
        "garbage" => send_raw(&b"\x00\xff not a protocol \n".repeat(10_000)),
        "huge" => send_raw(b"Content-Length: 99999999999999\r\n\r\n"),
        "nonsense" => send_raw(b"Content-Length: 9\r\n\r\n[1, 2, 3]"),
        "noise" => send_raw(b"starting up ...\nstill starting\n"),
        _ => {}
    }
    while let Some(message) = read(&mut input) {
        let method = message["method"].as_str().unwrap_or_default();
        let id = message.get("id").cloned();
        let params = &message["params"];
        let document = &params["textDocument"];
        let uri = document["uri"].as_str().unwrap_or_default().to_owned();
        let reply = |result: Value| {
            if let Some(id) = &id {
                send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
            }
        };
        match method {
            "initialize" if mode == "deaf" => {}
            "initialize" if mode == "confined" && !sees(&params["processId"]) => std::process::exit(4),
            "initialize" => {
                if mode == "confined" {
                    let root = params["rootPath"].as_str().unwrap();
                    let _ = std::fs::write(format!("{root}/by-server"), "");
                    let _ =
                        std::fs::write(format!("{}/by-server", std::env::var("XDG_CACHE_HOME").unwrap()), "");
                }
                let encoding = if mode == "utf8" { "utf-8" } else { "utf-16" };
                let mut capabilities = json!({"positionEncoding": encoding, "textDocumentSync": 1});
                if mode == "pull" {
                    capabilities["diagnosticProvider"] = json!({"interFileDependencies": false});
                }
                reply(json!({"capabilities": capabilities}));
                send(
                    &json!({"jsonrpc": "2.0", "id": "q", "method": "workspace/configuration", "params": {"items": [{"section": "a.b"}]}}),
                );
                send(
                    &json!({"jsonrpc": "2.0", "method": "window/logMessage", "params": {"type": 3, "message": "up"}}),
                );
            }
            "textDocument/didOpen" => {
                let text = document["text"].as_str().unwrap().to_owned();
                texts.insert(uri.clone(), (document["version"].as_i64().unwrap(), text));
                progress(loaded, "begin");
                changed(if loaded { &mode } else { "silent" }, &uri, &texts);
            }
            "workspace/didChangeWatchedFiles" if !loaded => {
                loaded = true;
                for uri in texts.keys() {
                    changed(&mode, uri, &texts);
                }
                progress(false, "end");
            }
            "textDocument/didChange" => {
                if mode == "crash" {
                    std::process::abort();
                }
                let text = params["contentChanges"][0]["text"].as_str().unwrap().to_owned();
                texts.insert(uri.clone(), (document["version"].as_i64().unwrap(), text));
                changed(if loaded { &mode } else { "silent" }, &uri, &texts);
            }
            "textDocument/diagnostic" => {
                let text = &texts[&uri].1;
                reply(json!({"kind": "full", "items": errors(text, &mode)}));
            }
            "textDocument/definition" => {
                let word = word_at(&texts[&uri].1, &params["position"], &mode);
                reply(places(&texts, &format!("def {word}"), &mode).into_iter().next().map_or(
                    Value::Null,
                    |mut place| {
                        for end in ["start", "end"] {
                            let character = place["range"][end]["character"].as_u64().unwrap();
                            place["range"][end]["character"] = json!(character + 4);
                        }
                        place
                    },
                ));
            }
            "textDocument/references" => {
                let word = word_at(&texts[&uri].1, &params["position"], &mode);
                reply(Value::Array(places(&texts, &word, &mode)));
            }
            "textDocument/hover" => {
                let word = word_at(&texts[&uri].1, &params["position"], &mode);
                reply(json!({"contents": {"kind": "markdown", "value": format!("the word **{word}**")}}));
            }
            "textDocument/documentSymbol" => {
                reply(
                    json!([{"name": "outer", "kind": 5, "selectionRange": range(0, 0, 1), "range": range(0, 0, 1),
                    "children": [{"name": "inner", "kind": 6, "selectionRange": range(1, 0, 1), "range": range(1, 0, 1)}]}]),
                );
            }
            "workspace/symbol" => {
                let uri = texts.keys().next().cloned().unwrap_or_else(|| "file:///none".to_owned());
                reply(
                    json!([{"name": params["query"], "kind": 12, "location": {"uri": uri, "range": range(4, 0, 1)}}]),
                );
            }
            "textDocument/rename" => {
                let word = word_at(&texts[&uri].1, &params["position"], &mode);
                let mut changes: BTreeMap<String, Vec<Value>> = BTreeMap::new();
                for place in places(&texts, &word, &mode) {
                    let edit = json!({"range": place["range"], "newText": params["newName"]});
                    changes.entry(place["uri"].as_str().unwrap().to_owned()).or_default().push(edit);
                }
                reply(json!({"changes": changes}));
            }
            "exit" => return,
            _ => reply(Value::Null),
        }
    }
}

fn progress(loaded: bool, kind: &str) {
    if !loaded {
        let params = json!({"token": "loading", "value": {"kind": kind, "title": "loading"}});
        send(&json!({"jsonrpc": "2.0", "method": "$/progress", "params": params}));
    }
}

fn changed(mode: &str, uri: &str, texts: &BTreeMap<String, (i64, String)>) {
    let (version, text) = &texts[uri];
    if matches!(mode, "silent" | "pull") {
        return;
    }
    let publish = |uri: &str, version: Option<i64>, items: Vec<Value>| {
        let params = json!({"uri": uri, "version": version, "diagnostics": items});
        send(&json!({"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": params}));
    };
    // `BREAKS name`: an error in another file.
    if let Some(name) = text.split("BREAKS ").nth(1).and_then(|t| t.split_whitespace().next()) {
        let other = format!("{}/{name}", uri.rsplit_once('/').unwrap().0);
        publish(
            &other,
            None,
            vec![json!({"range": range(6, 0, 1), "severity": 1, "message": "broken from afar"})],
        );
    }
    publish(uri, (mode != "versionless").then_some(*version), errors(text, mode));
}

fn errors(text: &str, mode: &str) -> Vec<Value> {
    let mut out = Vec::new();
    // Mode `syntax`: such an error hides all others.
    let hides = mode == "syntax" && text.contains("SYNTAX");
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !hides || line.contains("SYNTAX")) {
        for (word, severity) in [("ERROR", 1), ("WARN", 2)] {
            for (at, _) in line.match_indices(word) {
                let message = format!("bad: {}", line[at..].split_whitespace().next().unwrap());
                let at = units(&line[..at], mode);
                out.push(
                    json!({"range": range(number, at, at + 5), "severity": severity, "message": message}),
                );
            }
        }
    }
    out
}

fn units(text: &str, mode: &str) -> usize {
    if mode == "utf8" { text.len() } else { text.encode_utf16().count() }
}

fn range(line: usize, start: usize, end: usize) -> Value {
    json!({"start": {"line": line, "character": start}, "end": {"line": line, "character": end}})
}

fn word_at(text: &str, position: &Value, mode: &str) -> String {
    let line = text.lines().nth(position["line"].as_u64().unwrap() as usize).unwrap_or_default();
    let character = position["character"].as_u64().unwrap() as usize;
    let at = line
        .char_indices()
        .map(|(at, _)| at)
        .find(|at| units(&line[..*at], mode) >= character)
        .unwrap_or(line.len());
    line[at..].chars().take_while(|c| c.is_alphanumeric()).collect()
}

fn places(texts: &BTreeMap<String, (i64, String)>, word: &str, mode: &str) -> Vec<Value> {
    let mut out = Vec::new();
    for (uri, (_, text)) in texts {
        for (number, line) in text.lines().enumerate() {
            for (at, _) in line.match_indices(word) {
                let start = units(&line[..at], mode);
                out.push(json!({"uri": uri, "range": range(number, start, start + units(word, mode))}));
            }
        }
    }
    out
}

fn read(input: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim() {
            "" => break,
            header => {
                if let Some(value) = header.strip_prefix("Content-Length: ") {
                    length = value.parse().ok()?;
                }
            }
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

fn send(message: &Value) {
    let body = message.to_string();
    send_raw(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
}

fn send_raw(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}
