//! Parses messages of a server from bytes. Sizes are limited, and small faults that would cost a whole list are
//! repaired.
//!
//! Pure.

use becket_types::parse_json_bytes;
use rmcp::RoleClient;
use rmcp::service::RxJsonRpcMessage;
use serde_json::{Value, json};

/// Maximum length of a message, in bytes. `recall` reads the parts that are not shown.
pub(crate) const LONGEST: usize = 16 * 1024 * 1024;
/// Maximum number of tools, prompts or resources in one page. The rest is left out.
const MOST_LISTED: usize = 1_000;

/// Values that are nested more deeply are left out of a message. The JSON parser itself fails at 128.
const DEEPEST: usize = 100;
/// Replaces a value that was nested too deeply.
const TOO_DEEP: &str = "\"[left out: nested more than 100 levels deep]\"";

/// Parses a message. `None` if the bytes are not a message (a program that prints to standard output).
pub(crate) fn read(bytes: &[u8]) -> Option<RxJsonRpcMessage<RoleClient>> {
    let value = match parse_json_bytes(bytes) {
        Ok(value) => value,
        // The parser fails at deep nesting. One such schema in a list must not cost the other tools.
        Err(_) => parse_json_bytes(&shallow(bytes)?).ok()?,
    };
    from_value(value)
}

/// Returns the same JSON text with a note in place of each object or list deeper than [`DEEPEST`]; `None` if there is
/// none.
fn shallow(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes.len());
    let (mut depth, mut in_string, mut escaped, mut cut) = (0_usize, false, false, false);
    for &byte in bytes {
        // Bytes below the limit are skipped, with the bracket that closes the replaced value.
        let kept = depth <= DEEPEST;
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
        } else {
            match byte {
                b'"' => in_string = true,
                b'{' | b'[' => {
                    depth += 1;
                    if depth == DEEPEST + 1 {
                        out.extend_from_slice(TOO_DEEP.as_bytes());
                        cut = true;
                        continue;
                    }
                }
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        if kept {
            out.push(byte);
        }
    }
    cut.then_some(out)
}

pub(crate) fn from_value(mut value: Value) -> Option<RxJsonRpcMessage<RoleClient>> {
    if let Some(result) = value.get_mut("result") {
        repair(result);
    }
    serde_json::from_value(value).ok()
}

/// Removes or completes invalid entries of a list, so that the others can be used.
fn repair(result: &mut Value) {
    if let Some(Value::Array(tools)) = result.get_mut("tools") {
        tools.retain(|tool| tool.get("name").is_some_and(Value::is_string));
        tools.truncate(MOST_LISTED);
        for tool in tools {
            if !tool.get("inputSchema").is_some_and(Value::is_object) {
                tool["inputSchema"] = json!({"type": "object"});
            }
            for key in ["outputSchema", "annotations", "icons", "_meta", "execution"] {
                let odd = tool.get(key).is_some_and(|value| !value.is_object() && !value.is_array());
                if odd && let Some(tool) = tool.as_object_mut() {
                    tool.remove(key);
                }
            }
        }
    }
    for key in ["resources", "resourceTemplates", "prompts"] {
        if let Some(Value::Array(items)) = result.get_mut(key) {
            items.retain(|item| item.get("name").is_some_and(Value::is_string));
            items.truncate(MOST_LISTED);
        }
    }
}

/// Makes an error response for an answer that was too long. The id is near the beginning or the end of the answer.
pub(crate) fn too_long(head: &[u8], tail: &[u8], length: usize) -> Option<RxJsonRpcMessage<RoleClient>> {
    let id = id_of(head, true).or_else(|| id_of(tail, false))?;
    let message = format!(
        "the answer has {} MB; becket reads at most {} MB",
        length / (1024 * 1024),
        LONGEST / (1024 * 1024)
    );
    let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": message}});
    serde_json::from_value(error).ok()
}

/// Returns the number or text after the first, or the last, `"id":`.
fn id_of(bytes: &[u8], first: bool) -> Option<Value> {
    let text = String::from_utf8_lossy(bytes);
    let key = "\"id\":";
    let at = if first {
        // Read from the start, an id after `"result"` belongs to the result's content.
        let at = text.find(key)?;
        if text[..at].contains("\"result\"") {
            return None;
        }
        at
    } else {
        text.rfind(key)?
    };
    let rest = text[at + key.len()..].trim_start();
    let end = match rest.strip_prefix('"') {
        Some(inside) => inside.find('"')? + 2,
        None => rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len()),
    };
    serde_json::from_str(&rest[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_long_answer_is_found_at_either_end() {
        for (head, tail, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"a":"#, r#"x"}}"#, Some(json!(7))),
            (r#"{"id": "abc" ,"result":"#, "x", Some(json!("abc"))),
            (r#"{"result":{"id":3,"#, r#"xx"},"jsonrpc":"2.0","id":12}"#, Some(json!(12))),
            ("garbage", "garbage", None),
        ] {
            let found = too_long(head.as_bytes(), tail.as_bytes(), 1 << 27);
            let got = found.map(|message| serde_json::to_value(message).unwrap());
            assert_eq!(got.as_ref().map(|m| m["id"].clone()), id, "{head}");
            if let Some(message) = got {
                assert!(message["error"]["message"].as_str().unwrap().contains("128 MB"));
            }
        }
    }

    #[test]
    fn what_is_nested_without_end_costs_only_itself() {
        let nested = |open: &str, close: &str, levels: usize| {
            format!("{}1{}", open.repeat(levels), close.repeat(levels))
        };
        for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("{\"]}\\\"\":[", "]}")] {
            for levels in [90, 100, 101, 127, 128, 500, 200_000] {
                let bomb = nested(open, close, levels);
                let text = format!(
                    r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{{"name":"bomb","inputSchema":{{"x":{bomb}}}}},{{"name":"good"}}]}}}}"#
                );
                let message = serde_json::to_value(read(text.as_bytes()).unwrap()).unwrap();
                assert_eq!(message["result"]["tools"][1]["name"], "good", "{open} {levels}");
            }
        }
        for text in ["", "[", "}}}}", "no message", &"[".repeat(1 << 20), &"{\"a\":".repeat(1 << 16)] {
            assert!(read(text.as_bytes()).is_none());
        }
    }

    #[test]
    fn half_a_character_and_other_wrong_bytes_cost_only_themselves() {
        let bomb = format!("{}1{}", "[".repeat(300), "]".repeat(300));
        for (text, want) in [
            (r#""cut \ud83d""#.as_bytes(), "cut \u{fffd}"),
            (b"\"caf\xe9\"", "caf\u{fffd}"),
            (r#""\ud83d\ude00 \\ud83d""#.as_bytes(), "😀 \\ud83d"),
        ] {
            for (before, after) in [("", String::new()), ("\u{feff}", format!(",\"_meta\":{{\"x\":{bomb}}}"))]
            {
                let head = format!(
                    r#"{before}{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":"#
                );
                let bytes = [head.as_bytes(), text, b"}]", after.as_bytes(), b"}}"].concat();
                let message = serde_json::to_value(read(&bytes).unwrap()).unwrap();
                assert_eq!(message["result"]["content"][0]["text"], want);
            }
        }
    }

    #[test]
    fn one_bad_tool_does_not_cost_the_others() {
        let list = json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": [
            {"name": "good", "inputSchema": {"type": "object"}}, {"description": "no name"}, 5,
            {"name": "bare"}, {"name": "odd", "inputSchema": "x", "annotations": 3},
        ]}});
        let message = serde_json::to_value(from_value(list).unwrap()).unwrap();
        let names: Vec<&str> = message["result"]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| t["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["good", "bare", "odd"]);
    }
}
