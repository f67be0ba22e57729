//! The result of a call in the shape of `tool_use_result` that SDK users know.
//!
//! Made of the call's input, its text and becket's own details, which stay beside the known fields. Nothing is invented: a
//! field whose value becket does not keep is `null` or left out, as the SDK's types allow.

use super::{own_name, sdk_agent, sdk_name};
use crate::{Millis, SubagentReport};
use serde_json::{Value, json};

/// A call that has ended. `details`: becket's own details of its result.
#[derive(Clone, Copy, Debug)]
pub struct EndedCall<'a> {
    pub tool: &'a str,
    /// The input with the SDK's names.
    pub input: &'a Value,
    /// The text that the model reads.
    pub text: &'a str,
    pub details: &'a Value,
    pub is_error: bool,
    /// Text of the file before the call.
    pub original: Option<&'a str>,
    pub took: Millis,
}

impl EndedCall<'_> {
    fn field(&self, name: &str) -> Value {
        self.input.get(name).cloned().unwrap_or(Value::Null)
    }

    fn detail(&self, name: &str) -> Value {
        self.details.get(name).cloned().unwrap_or(Value::Null)
    }

    fn count(&self, name: &str) -> Option<u64> {
        self.details.get(name).and_then(Value::as_u64)
    }
}

/// The result of a call. `None` where there is nothing to say beyond the text.
pub fn sdk_result(call: &EndedCall<'_>) -> Option<Value> {
    let EndedCall { input, text, details, is_error, .. } = *call;
    let tool = own_name(call.tool);
    let known = match tool.as_ref() {
        // Without details, the call was refused, or its command never started.
        "bash" if details.is_null() && is_error => return Some(json!(format!("Error: {text}"))),
        "bash" if is_error && ended_with(details).is_some() => {
            let code = ended_with(details).unwrap_or_default();
            let text = format!("Error: Exit code {code}\n{}", printed(text, details));
            return Some(json!(text.trim_end()));
        }
        "bash" => bash(call),
        _ if is_error => {
            return Some(if details.is_null() { json!(format!("Error: {text}")) } else { details.clone() });
        }
        "read" => read(call)?,
        "edit" | "multi_edit" => edit(call),
        "write" => write(call),
        "notebook_edit" => notebook(call),
        "glob" => {
            let shown = call.count("shown").unwrap_or(u64::MAX);
            let files: Vec<&str> = listed(text).into_iter().take(shown as usize).collect();
            let truncated = call.count("matching") > call.count("shown");
            json!({
                "filenames": files, "numFiles": files.len(), "durationMs": call.took, "truncated": truncated,
                "totalMatches": call.count("matching").unwrap_or(files.len() as u64), "countIsComplete": true,
            })
        }
        "grep" => grep(call),
        "web_fetch" => json!({
            "url": call.detail("url"), "code": call.detail("status"), "bytes": call.detail("bytes"),
            "codeText": reason(call.count("status")), "result": text, "durationMs": call.took,
        }),
        "web_search" => json!({
            "query": call.field("query"), "durationSeconds": call.took.0 as f64 / 1000.0, "searchCount": 1,
            "results": [{ "tool_use_id": "", "content": call.detail("results") }, text],
        }),
        "todo" => todo(call),
        "job_kill" => stopped(call),
        "task" if !call.detail("background").is_null() => json!({
            "status": "async_launched", "isAsync": true, "agentId": call.detail("session"),
            "description": call.field("description"), "prompt": call.field("prompt"), "outputFile": "",
        }),
        "task" => task(&call.field("prompt"), text, details),
        "StructuredOutput" => return Some(input.clone()),
        name if name.starts_with("mcp__") && details.is_null() => {
            return Some(json!([{ "type": "text", "text": text }]));
        }
        _ => return Some(details.clone()).filter(|details| !details.is_null()),
    };
    Some(with_own(known, details))
}

fn bash(call: &EndedCall<'_>) -> Value {
    let timed_out = call.detail("timed_out") == true;
    let goes_on = !call.detail("job").is_null();
    let mut out = json!({
        "stdout": printed(call.text, call.details), "stderr": "", "isImage": false,
        // A command that goes on as a job was not ended.
        "interrupted": call.detail("interrupted") == true || !call.detail("signal").is_null() || timed_out && !goes_on,
        "backgroundTaskId": call.details.get("job").filter(|id| !id.is_null()).map(plain),
    });
    if let Some(limit) = call.field("timeout").as_u64().filter(|_| timed_out && goes_on) {
        out["timedOutAfterMs"] = json!(limit);
    }
    out
}

fn edit(call: &EndedCall<'_>) -> Value {
    let first = call.field("edits").get(0).cloned().unwrap_or_else(|| call.input.clone());
    json!({
        "filePath": call.field("file_path"),
        "oldString": first.get("old_string"), "newString": first.get("new_string"),
        "originalFile": call.original, "structuredPatch": hunks(&call.detail("diff")),
        "userModified": user_modified(call), "replaceAll": first.get("replace_all") == Some(&json!(true)),
    })
}

fn write(call: &EndedCall<'_>) -> Value {
    let patch = hunks(&call.detail("diff"));
    let created = call.detail("created") == true;
    let content = call.field("content");
    let original = match call.original {
        Some(original) => Some(original.to_owned()),
        None => {
            content.as_str().filter(|_| !created && !patch.is_empty()).and_then(|new| before(new, &patch))
        }
    };
    json!({
        "type": if created { "create" } else { "update" }, "filePath": call.field("file_path"),
        "content": content, "originalFile": original, "structuredPatch": patch,
        "userModified": user_modified(call),
    })
}

/// True if a person has rejected a part of the change.
fn user_modified(call: &EndedCall<'_>) -> bool {
    call.count("hunks_rejected") > Some(0)
}

fn notebook(call: &EndedCall<'_>) -> Value {
    let mut out =
        json!({ "new_source": call.field("new_source"), "notebook_path": call.field("notebook_path") });
    if let Some(original) = call.original {
        out["original_file"] = json!(original);
        let updated = after(original, &hunks(&call.detail("diff")));
        out["updated_file"] = json!(updated);
    }
    out
}

/// Lists of todos before and after the call.
fn todo(call: &EndedCall<'_>) -> Value {
    let mut old = call.detail("old_items");
    for item in old.as_array_mut().into_iter().flatten() {
        item["activeForm"] = item["content"].clone();
    }
    json!({ "oldTodos": if old.is_null() { json!([]) } else { old }, "newTodos": call.field("todos") })
}

fn stopped(call: &EndedCall<'_>) -> Value {
    let mut out = json!({
        "message": call.text, "shell_id": call.field("shell_id"), "task_id": call.field("shell_id"),
        "task_type": "local_bash",
    });
    if let Some(command) = call.details.get("command") {
        out["command"] = command.clone();
    }
    out
}

/// The usual words for a status of HTTP; empty for another one.
fn reason(status: Option<u64>) -> &'static str {
    match status {
        Some(200) => "OK",
        Some(201) => "Created",
        Some(203) => "Non-Authoritative Information",
        Some(204) => "No Content",
        Some(206) => "Partial Content",
        Some(400) => "Bad Request",
        Some(401) => "Unauthorized",
        Some(403) => "Forbidden",
        Some(404) => "Not Found",
        Some(410) => "Gone",
        Some(429) => "Too Many Requests",
        Some(500) => "Internal Server Error",
        Some(502) => "Bad Gateway",
        Some(503) => "Service Unavailable",
        _ => "",
    }
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

/// Returns the text of a result without the note about the command's exit code, if that is its only note. `lines_before`: the
/// lines of the text that were dropped before its beginning.
pub fn without_exit_code<'a>(text: &'a str, details: &Value, lines_before: usize) -> &'a str {
    let Some(printed) = details.get(PRINTED_LINES).and_then(Value::as_u64) else { return text };
    if details.get("exit_code").and_then(Value::as_i64).is_none_or(|code| code == 0) {
        return text;
    }
    // A command that printed nothing has a line that says so. The note about its end follows what it printed.
    let lines = (printed.max(1) as usize + 1).saturating_sub(lines_before);
    let text = text.trim_end();
    if text.lines().count() != lines {
        return text;
    }
    text.rsplit_once('\n').map_or("", |(before, _)| before.trim_end())
}

/// The text of a file. `None` for a folder or a file without a text.
fn read(call: &EndedCall<'_>) -> Option<Value> {
    let path = call.field("file_path");
    let kind = call.detail("kind");
    let (content, start, total) = match kind.as_str() {
        // The model reads `NUMBER<tab>TEXT`; programs expect the text.
        Some("text") => {
            let numbered = |line: &'_ str| {
                let (number, rest) = line.split_once('\t')?;
                number.trim().parse::<u64>().ok().map(|_| rest.to_owned())
            };
            let lines: Vec<String> = call.text.lines().filter_map(numbered).collect();
            (lines.join("\n"), call.count("from").unwrap_or(1), call.count("lines"))
        }
        Some("notebook" | "pdf") => (call.text.to_owned(), 1, None),
        _ => return Some(call.details.clone()).filter(|details| !details.is_null()),
    };
    let number = content.lines().count() as u64;
    // An empty last line counts.
    let number = if kind == "text" && content.ends_with('\n') { number + 1 } else { number };
    Some(json!({ "type": "text", "file": {
        "filePath": path, "content": content, "numLines": number, "startLine": start,
        "totalLines": total.unwrap_or(number),
    } }))
}

fn grep(call: &EndedCall<'_>) -> Value {
    let mode = call.field("output_mode");
    let mode = mode.as_str().unwrap_or("content");
    // Without a match, the text is a sentence about that.
    let text = if call.count("matching_files") == Some(0) { "" } else { call.text };
    let files = if mode == "files_with_matches" { listed(text) } else { Vec::new() };
    let number = call.count("matching_files").unwrap_or(files.len() as u64);
    let mut out = json!({ "mode": mode, "numFiles": number, "filenames": files });
    match mode {
        "content" => {
            out["content"] = json!(text);
            out["numLines"] = json!(text.lines().count());
        }
        "count" => out["content"] = json!(listed(text).join("\n")),
        _ => {}
    }
    if let Some(matches) = call.count("matches") {
        out["numMatches"] = json!(matches);
    }
    if let Some(limit) = call.field("head_limit").as_u64().filter(|_| call.detail("complete") == false) {
        out["appliedLimit"] = json!(limit);
    }
    out
}

fn task(prompt: &Value, text: &str, details: &Value) -> Value {
    let mut out = json!({
        "status": "completed", "prompt": prompt, "content": [{ "type": "text", "text": text }],
    });
    if let Some(report) = SubagentReport::from_details(details) {
        out["agentId"] = json!(report.session);
        out["agentType"] = json!(sdk_agent(&report.agent));
        out["totalDurationMs"] = json!(report.duration);
        out["totalToolUseCount"] = json!(report.calls.len() as u64 + report.calls_left_out);
        out["totalTokens"] = json!(report.usage.total().0);
        out["usage"] = json!({
            "input_tokens": report.usage.input, "output_tokens": report.usage.output,
            "cache_creation_input_tokens": report.usage.cache_write,
            "cache_read_input_tokens": report.usage.cache_read,
            "server_tool_use": null, "service_tier": null, "cache_creation": null,
        });
        let mut used: Vec<_> = report.calls.iter().map(|call| sdk_name(&call.name)).collect();
        used.sort_unstable();
        used.dedup();
        out["toolsUsed"] = json!(used);
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

/// Applies hunks to a text. `None` if they do not fit it.
fn after(old: &str, hunks: &[Value]) -> Option<String> {
    let turned: Vec<Value> = hunks.iter().map(turned).collect::<Option<_>>()?;
    before(old, &turned)
}

/// Returns the hunk that takes this one back.
fn turned(hunk: &Value) -> Option<Value> {
    let mut lines: Vec<String> = Vec::new();
    // Within a hunk, `before` reads removed lines ahead of added ones.
    let mut added: Vec<String> = Vec::new();
    let mut last_was_old = false;
    for line in hunk["lines"].as_array()? {
        let line = line.as_str()?;
        let (sign, text) = line.split_at_checked(1)?;
        match sign {
            "-" => added.push(format!("+{text}")),
            "+" => lines.push(format!("-{text}")),
            " " => {
                lines.append(&mut added);
                lines.push(line.to_owned());
            }
            _ if last_was_old => added.push(line.to_owned()),
            _ => lines.push(line.to_owned()),
        }
        last_was_old = sign == "-";
    }
    lines.append(&mut added);
    Some(json!({
        "oldStart": hunk["newStart"], "oldLines": hunk["newLines"], "newStart": hunk["oldStart"],
        "newLines": hunk["oldLines"], "lines": lines,
    }))
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

    fn ended(tool: &str, input: &Value, text: &str, details: &Value, is_error: bool) -> Option<Value> {
        sdk_result(&EndedCall { tool, input, text, details, is_error, original: None, took: Millis(7) })
    }

    #[test]
    fn results_hold_data_and_no_sentences() {
        let bash = |text: &str, details: Value, is_error: bool| {
            ended("bash", &json!({"command": "x"}), text, &details, is_error).unwrap()
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
            ended("glob", &json!({"pattern": "*"}), text, &details, false).unwrap()
        };
        let none = glob("No file matches `*.x` among 9; hidden and ignored files are left out.\n", 0);
        assert_eq!((&none["filenames"], &none["numFiles"]), (&json!([]), &json!(0)));
        let odd = glob("[id].tsx\na b\n[not searched: /x]\n", 2);
        assert_eq!(odd["filenames"], json!(["[id].tsx", "a b"]));

        for mode in ["files_with_matches", "content"] {
            let details = json!({"matches": 0, "matching_files": 0});
            let text = "No match for `x` in 3 files.\n";
            let none = ended("grep", &json!({"output_mode": mode}), text, &details, false).unwrap();
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
        let shell = ended(
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

        let job =
            ended("bash", &json!({}), "[started as job 2]", &json!({"job": 2, "printed_lines": 0}), false)
                .unwrap();
        assert_eq!((&job["backgroundTaskId"], &job["stdout"]), (&json!("2"), &json!("")));

        let read = ended(
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

        let edit = ended(
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

        let write = ended(
            "write",
            &json!({"file_path": "/w/a", "content": "x"}),
            "Created",
            &json!({"created": true, "bytes": 1}),
            false,
        )
        .unwrap();
        assert_eq!((&write["type"], &write["content"]), (&json!("create"), &json!("x")));
        assert_eq!(
            ended("edit", &json!({}), "no such file", &Value::Null, true),
            Some(json!("Error: no such file"))
        );
        assert_eq!(ended("recall", &json!({}), "x", &Value::Null, false), None);
    }

    #[test]
    fn a_text_after_a_change_is_made_of_the_difference() {
        for (old, diff, want) in [
            ("a\nb\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", Some("a\nB\nc\n")),
            ("a\nb\n", "@@ -1,2 +1 @@\n a\n-b\n", Some("a\n")),
            ("", "@@ -0,0 +1 @@\n+a\n", Some("a\n")),
            (
                "b",
                "@@ -1 +1 @@\n-b\n\\ No newline at end of file\n+B\n\\ No newline at end of file\n",
                Some("B"),
            ),
            ("1\n2\n3\n4\n", "@@ -1 +1 @@\n-1\n+x\n@@ -4 +4 @@\n-4\n+y\n", Some("x\n2\n3\ny\n")),
            ("other\n", "@@ -1 +1 @@\n-a\n+b\n", None),
        ] {
            assert_eq!(after(old, &hunks(&json!(diff))).as_deref(), want, "{diff}");
        }
    }

    #[test]
    fn the_text_before_a_call_and_its_time_are_told() {
        let of = |tool: &str, input: Value, details: Value, original: Option<&str>| {
            let (input, details, took) = (&input, &details, Millis(1500));
            let call = EndedCall { tool, input, text: "t", details, is_error: false, original, took };
            sdk_result(&call).unwrap()
        };
        let diff = json!({"diff": "@@ -1 +1 @@\n-a\n+b\n", "hunks_rejected": 1});
        let edit = of("edit", json!({"old_string": "a"}), diff.clone(), Some("a\n"));
        assert_eq!((&edit["originalFile"], &edit["userModified"]), (&json!("a\n"), &json!(true)));
        assert_eq!(of("write", json!({"content": "b\n"}), diff.clone(), Some("a\n"))["originalFile"], "a\n");
        let notebook = of("notebook_edit", json!({}), diff, Some("a\n"));
        assert_eq!((&notebook["original_file"], &notebook["updated_file"]), (&json!("a\n"), &json!("b\n")));
        let fetched = of("web_fetch", json!({}), json!({"status": 404}), None);
        assert_eq!((&fetched["codeText"], &fetched["durationMs"]), (&json!("Not Found"), &json!(1500)));
        assert_eq!(of("web_search", json!({}), json!({}), None)["durationSeconds"], 1.5);
        let moved = of("bash", json!({"timeout": 5000}), json!({"timed_out": true, "job": 3}), None);
        assert_eq!((&moved["timedOutAfterMs"], &moved["interrupted"]), (&json!(5000), &json!(false)));
        assert_eq!(of("mcp__a__b", json!({}), Value::Null, None), json!([{"type": "text", "text": "t"}]));
        let begun = of("task", json!({"prompt": "p"}), json!({"background": 2, "session": "s"}), None);
        assert_eq!((&begun["status"], &begun["agentId"]), (&"async_launched".into(), &"s".into()));
    }
}
