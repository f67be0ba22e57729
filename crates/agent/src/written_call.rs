//! A tool call that a model wrote into its text instead of making it: small local models behind a chat template that does
//! not fit them do so. Pure: finds it, for people to be told. Such a call is never run: the text may as well be an example.

use serde_json::Value;

/// What such calls stand in.
const MARKS: [(&str, &str); 3] = [("```", "```"), ("<tool_call>", "</tool_call>"), ("<tools>", "</tools>")];

/// The name of the first tool that `text` calls, of those that there are.
pub(crate) fn written_call<'a>(text: &str, tools: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Long answers are common, such calls are not.
    if !["\"name\"", "\"tool\"", "\"function\""].iter().any(|key| text.contains(key)) {
        return None;
    }
    let called = blocks(text).find_map(called)?;
    let mut tools = tools;
    tools.find(|tool| tool.eq_ignore_ascii_case(&called))
}

/// Whole JSON documents of the text: between marks, or the text itself.
fn blocks(text: &str) -> impl Iterator<Item = Value> {
    let between = MARKS.into_iter().flat_map(move |(open, close)| {
        text.split(open).skip(1).map(move |rest| rest.split(close).next().unwrap_or(rest))
    });
    std::iter::once(text).chain(between).filter_map(|block| {
        // The language of a fence.
        let block = block.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').trim();
        serde_json::from_str(block).ok()
    })
}

/// The tool that a document calls, if it has the shape of a call: `{"name": …, "arguments": {…}}` and its kin.
fn called(document: Value) -> Option<String> {
    let first = match document {
        Value::Array(items) => items.into_iter().next()?,
        other => other,
    };
    let call = if first["function"].is_object() { &first["function"] } else { &first };
    let name = ["name", "tool", "function"].iter().find_map(|key| call[*key].as_str())?;
    let has_input = ["arguments", "parameters", "input", "args"]
        .iter()
        .any(|key| call[*key].is_object() || call[*key].is_string());
    has_input.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_in_text_as_models_write_them() {
        for (text, want) in [
            ("```json\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\n```", Some("read")),
            (
                "I look.\n\n```\n{\"name\":\"bash\",\"parameters\":{\"command\":\"ls\"}}\n```\nDone.",
                Some("bash"),
            ),
            ("{\"name\": \"Read\", \"arguments\": {\"path\": \"a\"}}", Some("read")),
            ("<tool_call>\n{\"name\": \"read\", \"arguments\": {}}\n</tool_call>", Some("read")),
            ("<tools>{\"name\": \"read\", \"arguments\": {}}</tools>", Some("read")),
            ("```xml\n<tool_call>{\"name\": \"read\", \"arguments\": {}}</tool_call>\n```", Some("read")),
            ("```json\n[{\"tool\": \"bash\", \"input\": {\"command\": \"ls\"}}]\n```", Some("bash")),
            (
                "```json\n{\"type\":\"function\",\"function\":{\"name\":\"read\",\"arguments\":\"{}\"}}\n```",
                Some("read"),
            ),
            ("```json\n{\"a\": 1}\n```\n```json\n{\"name\": \"read\", \"arguments\": {}}\n```", Some("read")),
            // No tool of ours, no input, no call, cut, nothing.
            ("```json\n{\"name\": \"hammer\", \"arguments\": {}}\n```", None),
            ("```json\n{\"name\": \"read\", \"version\": \"1.0\"}\n```", None),
            ("The field \"name\" is `read`, \"arguments\" an object.", None),
            ("```json\n{\"name\": \"read\", \"argum", None),
            ("", None),
            ("``````", None),
        ] {
            assert_eq!(written_call(text, ["read", "bash"].into_iter()), want, "{text}");
        }
    }
}
