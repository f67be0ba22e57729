//! The result of a call in the shape of `tool_use_result` that SDK users know.
//!
//! Made of the call's input, its text and becket's own details, which stay beside the known fields. Nothing is invented: a
//! field whose value becket does not keep is `null` or left out, as the SDK's types allow.

use super::own_name;
use crate::SubagentReport;
use serde_json::{Value, json};

/// The result of a call of `tool`. `input` has the SDK's names; `text` is what the model reads. `None` where there is
/// nothing to say beyond the text.
pub fn sdk_result(tool: &str, input: &Value, text: &str, details: &Value, is_error: bool) -> Option<Value> {
    let tool = own_name(tool);
    let field = |name: &str| input.get(name).cloned().unwrap_or(Value::Null);
    let detail = |name: &str| details.get(name).cloned().unwrap_or(Value::Null);
    let known = match tool.as_ref() {
        // The call was refused, or its command never started.
        "bash" if details.is_null() && is_error => return Some(json!(format!("Error: {text}"))),
        "bash" if is_error && ended_with(details).is_some() => {
            let code = ended_with(details).unwrap_or_default();
            let text = format!("Error: Exit code {code}\n{}", printed(text, details));
            return Some(json!(text.trim_end()));
        }
        "bash" => json!({
            "stdout": printed(text, details), "stderr": "", "isImage": false,
            "interrupted": detail("interrupted") == true || !detail("signal").is_null()
                // A command that goes on as a job was not ended.
                || detail("timed_out") == true && detail("job").is_null(),
            "backgroundTaskId": details.get("job").filter(|id| !id.is_null()).map(plain),
        }),
        _ if is_error => {
            return Some(if details.is_null() { json!(format!("Error: {text}")) } else { details.clone() });
        }
        "read" if detail("kind") == "text" => read(&field("file_path"), text, details),
        "edit" | "multi_edit" => {
            let first = field("edits").get(0).cloned().unwrap_or_else(|| input.clone());
            json!({
                "filePath": field("file_path"),
                "oldString": first.get("old_string"), "newString": first.get("new_string"),
                "originalFile": null, "structuredPatch": hunks(&detail("diff")), "userModified": false,
                "replaceAll": first.get("replace_all") == Some(&json!(true)),
            })
        }
        "write" => {
            let patch = hunks(&detail("diff"));
            let created = detail("created") == true;
            let original = field("content")
                .as_str()
                .filter(|_| !created && !patch.is_empty())
                .and_then(|new| before(new, &patch));
            json!({
                "type": if created { "create" } else { "update" }, "filePath": field("file_path"),
                "content": field("content"), "originalFile": original, "structuredPatch": patch,
            })
        }
        "glob" => {
            let shown = detail("shown").as_u64().unwrap_or(u64::MAX);
            let files: Vec<&str> = listed(text).into_iter().take(shown as usize).collect();
            let truncated = detail("matching").as_u64() > detail("shown").as_u64();
            json!({ "filenames": files, "numFiles": files.len(), "durationMs": 0, "truncated": truncated })
        }
        "grep" => grep(&field("output_mode"), text, details),
        "web_fetch" => json!({
            "url": detail("url"), "code": detail("status"), "codeText": "", "bytes": detail("bytes"),
            "result": text, "durationMs": 0,
        }),
        "web_search" => json!({
            "query": field("query"), "durationSeconds": 0,
            "results": [{ "tool_use_id": "", "content": detail("results") }, text],
        }),
        "todo" => json!({ "oldTodos": [], "newTodos": field("todos") }),
        "task" => task(&field("prompt"), text, details),
        "StructuredOutput" => return Some(input.clone()),
        _ => return Some(details.clone()).filter(|details| !details.is_null()),
    };
    Some(with_own(known, details))
}

/// Returns the exit code of a command that failed by itself.
fn ended_with(details: &Value) -> Option<i64> {
    let given_up = details.get("interrupted") == Some(&Value::Bool(true))
        || details.get("timed_out") == Some(&Value::Bool(true));
    details.get("exit_code").and_then(Value::as_i64).filter(|code| *code != 0 && !given_up)
}

/// Adds becket's own details beside the known fields, which win.
fn with_own(known: Value, details: &Value) -> Value {
    let (Value::Object(mut out), Value::Object(own)) = (known, details) else { return details.clone() };
    out.retain(|key, value| !(key == "backgroundTaskId" && value.is_null()));
    for (key, value) in own {
        out.entry(key.clone()).or_insert_with(|| value.clone());
    }
    Value::Object(out)
}

fn plain(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

/// The lines of a list without becket's notes, which are sentences in brackets. A file may be named `[id].tsx`.
fn listed(text: &str) -> Vec<&str> {
    let is_note = |line: &str| line.starts_with('[') && line.ends_with(']') && line.contains(' ');
    text.lines().filter(|line| !line.is_empty() && !is_note(line)).collect()
}

/// The key of `details` with the number of lines that a command has printed. They come first in the text of its result;
/// becket's notes follow.
pub const PRINTED_LINES: &str = "printed_lines";

/// Beginning of the text of a call that was ended before it was done.
pub const INTERRUPTED: &str = "Interrupted, effect unknown.\n";

/// Returns what a command has printed: the text of its result without becket's notes about its end.
pub fn printed<'a>(text: &'a str, details: &Value) -> &'a str {
    let Some(lines) = details.get(PRINTED_LINES).and_then(Value::as_u64) else { return text };
    let text = text.strip_prefix(INTERRUPTED).unwrap_or(text);
    let end = text.split_inclusive('\n').take(lines as usize).map(str::len).sum();
    text[..end].trim_end_matches('\n')
}

fn read(path: &Value, text: &str, details: &Value) -> Value {
    // The model reads `NUMBER<tab>TEXT`; programs expect the text.
    let lines: Vec<&str> = text
        .lines()
        .filter_map(|line| {
            let (number, rest) = line.split_once('\t')?;
            number.trim().parse::<u64>().ok().map(|_| rest)
        })
        .collect();
    let start = details.get("from").and_then(Value::as_u64).unwrap_or(1);
    let total = details.get("lines").and_then(Value::as_u64).unwrap_or(lines.len() as u64);
    json!({ "type": "text", "file": {
        "filePath": path, "content": lines.join("\n"), "numLines": lines.len(), "startLine": start, "totalLines": total,
    } })
}

fn grep(mode: &Value, text: &str, details: &Value) -> Value {
    let mode = mode.as_str().unwrap_or("content");
    let count = |name: &str| details.get(name).and_then(Value::as_u64);
    // Without a match, the text is a sentence about that.
    let none = count("matching_files") == Some(0);
    let text = if none { "" } else { text };
    let files = if mode == "files_with_matches" { listed(text) } else { Vec::new() };
    let number = count("matching_files").unwrap_or(files.len() as u64);
    let mut out = json!({ "mode": mode, "numFiles": number, "filenames": files });
    if mode == "content" {
        out["content"] = json!(text);
        out["numLines"] = json!(text.lines().count());
    }
    if let Some(matches) = count("matches") {
        out["numMatches"] = json!(matches);
    }
    out
}

fn task(prompt: &Value, text: &str, details: &Value) -> Value {
    let mut out = json!({
        "status": "completed", "prompt": prompt, "content": [{ "type": "text", "text": text }],
    });
    if let Some(report) = SubagentReport::of(details) {
        out["agentId"] = json!(report.session);
        out["agentType"] = json!(report.agent);
        out["totalDurationMs"] = json!(report.duration);
        out["totalToolUseCount"] = json!(report.calls.len() as u64 + report.calls_left_out);
        out["totalTokens"] = json!(report.usage.total().0);
        out["usage"] = json!({
            "input_tokens": report.usage.input, "output_tokens": report.usage.output,
            "cache_creation_input_tokens": report.usage.cache_write,
            "cache_read_input_tokens": report.usage.cache_read,
        });
    }
    out
}

/// The hunks of a unified diff.
fn hunks(diff: &Value) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    for line in diff.as_str().unwrap_or_default().lines() {
        if let Some((old, new)) = header(line) {
            out.push(json!({
                "oldStart": old.0, "oldLines": old.1, "newStart": new.0, "newLines": new.1, "lines": [],
            }));
        } else if let Some(lines) = out.last_mut().and_then(|hunk| hunk["lines"].as_array_mut()) {
            lines.push(json!(line));
        }
    }
    out
}

/// Takes hunks back out of a text. `None` if they do not fit it: the file was written in another form than the call has, or a
/// secret in the hunks is masked.
fn before(new: &str, hunks: &[Value]) -> Option<String> {
    let lines: Vec<&str> = new.split_inclusive('\n').collect();
    let (mut out, mut at) = (String::new(), 0);
    for hunk in hunks {
        let number = |key: &str| hunk[key].as_u64().map(|number| number as usize);
        // A hunk without new lines names the line before it.
        let from = number("newStart")? - usize::from(number("newLines")? > 0);
        out.push_str(&lines.get(at..from)?.concat());
        at = from;
        let mut is_old = false;
        for line in hunk["lines"].as_array()? {
            let line = line.as_str()?;
            let (sign, text) = line.split_at_checked(1)?;
            match sign {
                "-" => {
                    out.push_str(text);
                    out.push('\n');
                }
                " " | "+" => {
                    let known = lines.get(at).filter(|known| known.trim_end_matches('\n') == text)?;
                    at += 1;
                    if sign == " " {
                        out.push_str(known);
                    }
                }
                // "\\ No newline at end of file"
                _ if is_old && out.ends_with('\n') => drop(out.pop()),
                _ => {}
            }
            is_old = sign != "+";
        }
    }
    out.push_str(&lines.get(at..)?.concat());
    Some(out)
}

type Stretch = (u64, u64);

/// `@@ -1,2 +3,4 @@`: start and count of both sides.
fn header(line: &str) -> Option<(Stretch, Stretch)> {
    let inner = line.strip_prefix("@@ -")?;
    let (old, rest) = inner.split_once(" +")?;
    let new = rest.split(' ').next()?;
    let stretch = |text: &str| -> Option<Stretch> {
        match text.split_once(',') {
            Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
            None => Some((text.parse().ok()?, 1)),
        }
    };
    Some((stretch(old)?, stretch(new)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_hold_data_and_no_sentences() {
        let bash = |text: &str, details: Value, is_error: bool| {
            sdk_result("bash", &json!({"command": "x"}), text, &details, is_error).unwrap()
        };
        for (text, lines, stdout) in [
            ("(no output)", 0, ""),
            ("out\nerr\n[exit code 3]", 2, "out\nerr"),
            ("[exit code 3]\n[exit code 1]", 1, "[exit code 3]"),
            ("Interrupted, effect unknown.\na\n[timed out after 1 s]", 1, "a"),
            ("a\n\nb", 3, "a\n\nb"),
        ] {
            assert_eq!(bash(text, json!({"printed_lines": lines}), false)["stdout"], stdout, "{text}");
        }
        assert_eq!(bash("x", json!({"printed_lines": 1, "interrupted": true}), true)["interrupted"], true);
        assert_eq!(bash("not run", Value::Null, true), "Error: not run");
        for (text, lines, want) in [
            ("out\nerr\n[exit code 3]", 2, "Error: Exit code 3\nout\nerr"),
            ("(no output)\n[exit code 3]", 0, "Error: Exit code 3"),
        ] {
            assert_eq!(bash(text, json!({"printed_lines": lines, "exit_code": 3}), true), want);
        }

        let glob = |text: &str, shown: u64| {
            let details = json!({"files": 9, "matching": shown, "shown": shown});
            sdk_result("glob", &json!({"pattern": "*"}), text, &details, false).unwrap()
        };
        let none = glob("No file matches `*.x` among 9; hidden and ignored files are left out.\n", 0);
        assert_eq!((&none["filenames"], &none["numFiles"]), (&json!([]), &json!(0)));
        let odd = glob("[id].tsx\na b\n[not searched: /x]\n", 2);
        assert_eq!(odd["filenames"], json!(["[id].tsx", "a b"]));

        for mode in ["files_with_matches", "content"] {
            let details = json!({"matches": 0, "matching_files": 0});
            let text = "No match for `x` in 3 files.\n";
            let none = sdk_result("grep", &json!({"output_mode": mode}), text, &details, false).unwrap();
            assert_eq!((&none["filenames"], &none["numFiles"]), (&json!([]), &json!(0)));
            assert_eq!(none["content"].as_str().unwrap_or_default(), "");
        }
    }

    #[test]
    fn the_text_before_a_write_is_made_of_the_difference() {
        for (new, diff, want) in [
            ("a\nB\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", Some("a\nb\nc\n")),
            ("a\n", "@@ -1,2 +1 @@\n a\n-b\n", Some("a\nb\n")),
            ("", "@@ -1 +0,0 @@\n-a\n", Some("a\n")),
            (
                "B",
                "@@ -1 +1 @@\n-b\n\\ No newline at end of file\n+B\n\\ No newline at end of file\n",
                Some("b"),
            ),
            ("same\n", "", Some("same\n")),
            ("a\nX\n", "@@ -1,2 +1,2 @@\n a\n-b\n+B\n", None),
            ("a\n", "@@ -9,2 +9,2 @@\n a\n-b\n+B\n", None),
        ] {
            assert_eq!(before(new, &hunks(&json!(diff))).as_deref(), want, "{diff}");
        }
    }

    #[test]
    fn results_have_the_known_shapes() {
        let shell = sdk_result(
            "bash",
            &json!({"command": "echo hi"}),
            "hi",
            &json!({"exit_code": 0, "signal": null, "timed_out": false, "job": null}),
            false,
        )
        .unwrap();
        assert_eq!(
            (&shell["stdout"], &shell["interrupted"], &shell["exit_code"]),
            (&json!("hi"), &json!(false), &json!(0))
        );
        assert_eq!(shell.get("backgroundTaskId"), None);

        let job = sdk_result(
            "bash",
            &json!({}),
            "[started as job 2]",
            &json!({"job": 2, "printed_lines": 0}),
            false,
        )
        .unwrap();
        assert_eq!((&job["backgroundTaskId"], &job["stdout"]), (&json!("2"), &json!("")));

        let read = sdk_result(
            "read",
            &json!({"file_path": "/w/a"}),
            "2\tb\n3\tc",
            &json!({"kind": "text", "from": 2, "to": 3, "lines": 9}),
            false,
        )
        .unwrap();
        assert_eq!(
            read["file"],
            json!({"filePath": "/w/a", "content": "b\nc", "numLines": 2, "startLine": 2, "totalLines": 9})
        );

        let edit = sdk_result(
            "edit",
            &json!({"file_path": "/w/a", "old_string": "x", "new_string": "y"}),
            "Edited",
            &json!({"diff": "--- a\n+++ b\n@@ -1,2 +1,2 @@\n a\n-x\n+y\n"}),
            false,
        )
        .unwrap();
        assert_eq!(
            edit["structuredPatch"],
            json!([{"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 2, "lines": [" a", "-x", "+y"]}])
        );
        assert_eq!((&edit["oldString"], &edit["replaceAll"]), (&json!("x"), &json!(false)));

        let write = sdk_result(
            "write",
            &json!({"file_path": "/w/a", "content": "x"}),
            "Created",
            &json!({"created": true, "bytes": 1}),
            false,
        )
        .unwrap();
        assert_eq!((&write["type"], &write["content"]), (&json!("create"), &json!("x")));
        assert_eq!(
            sdk_result("edit", &json!({}), "no such file", &Value::Null, true),
            Some(json!("Error: no such file"))
        );
        assert_eq!(sdk_result("recall", &json!({}), "x", &Value::Null, false), None);
    }
}
