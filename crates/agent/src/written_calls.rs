//! Tool calls that a model wrote as text instead of making them. This happens if the chat template or parser
//! does not fit the model. Pure: finds them so that the user can be told the reason. The text may be an
//! example, so such calls run only if the user has chosen to be asked about them, and approves each.
//!
//! A call begins with a marker. A marker is followed by a JSON document (such as `{"name": …, "arguments":
//! {…}}`) or by the bare name of the tool. The forms are those of the chat templates of Hermes and Qwen,
//! Qwen3-Coder, Mistral, Llama, DeepSeek, Kimi, GLM, Granite, Gemma, gpt-oss and Claude.

use serde_json::Value;

/// Markers that only calls have. After them, an unknown tool name counts as well.
const MARKS: [&str; 15] = [
    "<tool_call>",
    "<tool_calls>",
    "<tools>",
    "<function_call>",
    "[TOOL_CALLS]",
    "<|python_tag|>",
    "<|tool_call|>",
    "```tool_code\n",
    "<function=",
    "invoke name=\"",
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
    "<｜tool▁call▁begin｜>",
    "<|tool_call_begin|>functions.",
    "<|tool_call_begin|>",
    "to=functions.",
];
/// The marker of a code block, which may contain anything.
const FENCE: &str = "```";
/// Markers that only JSON follows, so a word after them is not a name.
const ONLY_JSON: [&str; 5] =
    ["<tool_calls>", "<tools>", "<|python_tag|>", "<|tool_call|>", "<function_call>"];
/// Maximum length in bytes of a tool's name.
const LONGEST_NAME: usize = 80;
/// Maximum length in bytes of a text that is searched. Each marker costs one pass, and such a long text is
/// not a call.
const LONGEST_TEXT: usize = 256 * 1024;

/// Calls found in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenCalls {
    /// Names of the tools as written, in order.
    pub(crate) names: Vec<String>,
    /// Their inputs, where the text has them in a form that can be read.
    pub(crate) inputs: Vec<Option<Value>>,
    /// Names that are not tools of this run.
    pub(crate) unknown: Vec<String>,
    /// True if the text ends with a call. No explanation follows, so the call was meant to be made.
    pub(crate) is_the_end: bool,
}

impl WrittenCalls {
    /// Returns one paragraph for people: what happened, the likely reasons in order, and what to do.
    pub(crate) fn explain(&self, model: &str) -> String {
        let names: Vec<String> = self.names.iter().map(|name| format!("`{name}`")).collect();
        let (calls, them) = match self.names.len() {
            1 => ("a tool call".to_owned(), "it"),
            n => (format!("{n} tool calls"), "them"),
        };
        let unknown = match self.unknown.first() {
            Some(name) => format!(" There is no tool `{name}` here."),
            None => String::new(),
        };
        format!(
            "{model} wrote {calls} ({}) into its text instead of making {them}, so nothing was run.{unknown} Likely reasons: \
             (1) the server does not give the model its tools: start llama.cpp with --jinja, vLLM with \
             --enable-auto-tool-choice and --tool-call-parser, and choose a model in Ollama that lists `tools`; (2) the chat \
             template or parser of the server does not fit this model: name another one; (3) the model is not trained for \
             tool calls: choose another model.",
            names.join(", ")
        )
    }
}

/// One call: its name, start and end, and true if its marker is one that only calls have.
struct FoundCall {
    name: String,
    input: Option<Value>,
    end: usize,
    marked: bool,
}

/// Finds the calls in `text`. Calls in code blocks and bare JSON count only if the tool exists.
pub(crate) fn written_calls(text: &str, tools: &[&str]) -> Option<WrittenCalls> {
    if text.len() > LONGEST_TEXT {
        return None;
    }
    let is_known = |name: &str| tools.iter().any(|tool| tool.eq_ignore_ascii_case(name));
    let mut found: Vec<FoundCall> = Vec::new();
    for mark in MARKS {
        for (at, _) in text.match_indices(mark) {
            let from = at + mark.len();
            let calls = json_calls(text, from);
            if calls.is_empty() && !ONLY_JSON.contains(&mark) {
                found.extend(named_call(text, from, mark));
            }
            found.extend(calls.into_iter().map(|call| FoundCall { marked: true, ..call }));
        }
    }
    let fences = text.match_indices(FENCE).map(|(at, _)| at + FENCE.len());
    for from in std::iter::once(0).chain(fences) {
        found.extend(json_calls(text, from).into_iter().filter(|call| is_known(&call.name)));
    }
    // A marked call inside a code block is an example.
    found.retain(|call| is_known(&call.name) || (call.marked && !in_fence(text, call.end)));
    found.sort_by_key(|call| call.end);
    found.dedup_by_key(|call| call.end);
    let end = found.last()?.end;
    let (names, inputs): (Vec<String>, Vec<Option<Value>>) =
        found.into_iter().map(|call| (call.name, call.input)).unzip();
    let mut unknown: Vec<String> = names.iter().filter(|name| !is_known(name)).cloned().collect();
    unknown.dedup();
    Some(WrittenCalls {
        names,
        inputs,
        unknown,
        is_the_end: is_only_marks(text.get(end..).unwrap_or_default()),
    })
}

/// Returns the calls in consecutive JSON documents at `from`, each with its end in the text.
fn json_calls(text: &str, from: usize) -> Vec<FoundCall> {
    let Some((offset, body)) = document(text, from) else { return Vec::new() };
    let mut documents = serde_json::Deserializer::from_str(body).into_iter::<Value>();
    let mut calls = Vec::new();
    while let Some(Ok(document)) = documents.next() {
        let end = offset + documents.byte_offset();
        let all = match document {
            Value::Array(items) => items,
            other => vec![other],
        };
        // Calls of one array all end at the same place. Each gets a different end, so that they are not
        // treated as duplicates.
        let called: Vec<(String, Option<Value>)> = all.iter().filter_map(called).collect();
        let count = called.len();
        calls.extend(called.into_iter().enumerate().map(|(n, (name, input))| FoundCall {
            name,
            input,
            end: end - (count - 1 - n).min(end),
            marked: false,
        }));
    }
    calls
}

/// Finds a call whose arguments are beside its name: `{"name": "task", "prompt": …}`. It counts if all arguments are
/// there that the tool requires, and it requires some. `tools`: their names and schemas.
pub(crate) fn flat_call<'t>(
    text: &str,
    tools: impl Iterator<Item = (&'t str, &'t Value)> + Clone,
) -> Option<WrittenCalls> {
    if text.len() > LONGEST_TEXT {
        return None;
    }
    let fences = text.match_indices(FENCE).map(|(at, _)| at + FENCE.len());
    std::iter::once(0).chain(fences).find_map(|from| {
        let (offset, body) = document(text, from)?;
        let mut documents = serde_json::Deserializer::from_str(body).into_iter::<Value>();
        let Value::Object(mut keys) = documents.next()?.ok()? else { return None };
        let end = offset + documents.byte_offset();
        let key = ["name", "tool"].into_iter().find(|key| keys.get(*key).is_some_and(Value::is_string))?;
        let Value::String(name) = keys.remove(key)? else { return None };
        let (_, schema) = tools.clone().find(|(tool, _)| tool.eq_ignore_ascii_case(&name))?;
        let required = schema["required"].as_array().filter(|required| !required.is_empty())?;
        let is_there = |key: &Value| key.as_str().is_some_and(|key| keys.contains_key(key));
        required.iter().all(is_there).then(|| WrittenCalls {
            names: vec![name],
            inputs: vec![Some(Value::Object(keys.clone()))],
            unknown: Vec::new(),
            is_the_end: is_only_marks(text.get(end..).unwrap_or_default()),
        })
    })
}

/// Returns the JSON that begins at `from`, after the language name of a code block, with its position.
fn document(text: &str, from: usize) -> Option<(usize, &str)> {
    let rest = text.get(from..)?;
    let body = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').trim_start();
    body.starts_with(['{', '[']).then(|| (from + rest.len() - body.len(), body))
}

/// Returns the tool that a document calls and its input, if it looks like a call: `{"name": …, "arguments": {…}}` or a
/// similar form.
fn called(document: &Value) -> Option<(String, Option<Value>)> {
    let call = if document["function"].is_object() { &document["function"] } else { document };
    let name = ["name", "tool", "function"].iter().find_map(|key| call[*key].as_str())?;
    let is_input = |value: &&Value| value.is_object() || value.is_string();
    let input = ["arguments", "parameters", "input", "args"].iter().map(|key| &call[*key]).find(is_input)?;
    Some((name.to_owned(), object(input)))
}

/// The object that an input is, also one that is quoted as a text.
fn object(input: &Value) -> Option<Value> {
    let input = match input {
        Value::String(text) => serde_json::from_str(text).ok()?,
        other => other.clone(),
    };
    input.is_object().then_some(input)
}

/// Forms of a parameter with a name: its beginning, the end of its name, and its end.
const PARAMETERS: [[&str; 3]; 3] = [
    ["<parameter=", ">", "</parameter>"],
    ["parameter name=\"", "\"", "parameter>"],
    ["<arg_key>", "</arg_key>", "</arg_value>"],
];

/// Returns the input of a call with a bare name: parameters one by one, or a JSON object.
fn named_input(body: &str) -> Option<Value> {
    let mut input = serde_json::Map::new();
    for [begin, named, end] in PARAMETERS {
        for part in body.split(begin).skip(1) {
            let (name, rest) = part.split_once(named)?;
            // The rest of the opening mark, such as ` string="true">` or `<arg_value>`.
            let value = match named {
                ">" => rest,
                _ => rest.split_once('>')?.1,
            };
            let (value, _) = value.split_once(end)?;
            let value = value.trim_end_matches("</").trim_end_matches("</｜DSML｜").trim_matches('\n');
            input.insert(name.trim().to_owned(), Value::String(value.to_owned()));
        }
    }
    if !input.is_empty() {
        return Some(Value::Object(input));
    }
    let at = body.find('{')?;
    let mut documents = serde_json::Deserializer::from_str(body.get(at..)?).into_iter::<Value>();
    documents.next()?.ok().filter(Value::is_object)
}

/// Gives texts the types of a tool's schema. Parameters that are written one by one have none.
pub(crate) fn typed(mut input: Value, schema: &Value) -> Value {
    for (name, value) in input.as_object_mut().into_iter().flatten() {
        let kind = &schema["properties"][name.as_str()]["type"];
        if let Value::String(text) = value
            && kind.as_str().is_some_and(|kind| kind != "string")
            && let Ok(parsed) = serde_json::from_str(text)
        {
            *value = parsed;
        }
    }
    input
}

/// Returns the call whose bare name is at `from`.
fn named_call(text: &str, from: usize, mark: &str) -> Option<FoundCall> {
    let rest = text.get(from..)?;
    let body = rest.trim_start();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    let length = body.find(|c| !is_name(c)).unwrap_or(body.len());
    let name = body.get(..length).filter(|name| !name.is_empty() && name.len() <= LONGEST_NAME)?;
    let after = body.get(length..).unwrap_or_default();
    // A bare word is a name only if it is followed by another part of a call.
    let follows = match mark {
        "<tool_call>" => after.trim_start().starts_with("<arg_key>"),
        "[TOOL_CALLS]" => {
            after.starts_with("[ARGS]") || after.starts_with("[CALL_ID]") || after.starts_with('{')
        }
        // Gemma writes calls as Python.
        "```tool_code\n" => after.starts_with('('),
        _ => true,
    };
    if !follows || name == "function" {
        return None;
    }
    let begins = from + rest.len() - body.len() + length;
    // Kimi appends a number to each name.
    let name = name.split(':').next().unwrap_or(name).to_owned();
    let end = call_end(text, begins);
    let input = named_input(text.get(begins..end).unwrap_or_default());
    Some(FoundCall { name, input, end, marked: true })
}

/// Returns the end of a call with a bare name: after its closing marker, its JSON, or its name.
fn call_end(text: &str, from: usize) -> usize {
    const CLOSING: [&str; 8] = [
        "</function>",
        "</invoke>",
        "</｜DSML｜invoke>",
        ")\n```",
        "</tool_call>",
        "<｜tool▁call▁end｜>",
        "<|tool_call_end|>",
        "<|call|>",
    ];
    let rest = text.get(from..).unwrap_or_default();
    let closed = CLOSING.iter().filter_map(|mark| rest.find(mark).map(|at| at + mark.len())).min();
    let json = || {
        let at = rest.find('{')?;
        let mut documents = serde_json::Deserializer::from_str(rest.get(at..)?).into_iter::<Value>();
        documents.next()?.ok()?;
        Some(at + documents.byte_offset())
    };
    from + closed.or_else(json).unwrap_or(0)
}

/// True if a code block is open at `at`.
fn in_fence(text: &str, at: usize) -> bool {
    text.get(..at).unwrap_or_default().matches(FENCE).count() % 2 == 1
}

/// True if only markers and white space are left.
fn is_only_marks(rest: &str) -> bool {
    let mut inside = false;
    rest.replace(FENCE, "").chars().all(|c| {
        match c {
            '<' | '[' => inside = true,
            '>' | ']' => {
                inside = false;
                return true;
            }
            _ => {}
        }
        inside || c.is_whitespace() || matches!(c, '}' | ';')
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns the names joined by spaces, with `!` if the text ends with a call.
    fn found(text: &str) -> Option<String> {
        let calls = written_calls(text, &["read", "bash"])?;
        Some(format!("{}{}", calls.names.join(" "), if calls.is_the_end { "!" } else { "" }))
    }

    #[test]
    fn calls_in_text_as_models_write_them() {
        for (text, want) in [
            ("```json\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\n```", "read!"),
            ("I look.\n\n```\n{\"name\":\"bash\",\"parameters\":{\"command\":\"ls\"}}\n```\nDone.", "bash"),
            ("{\"name\": \"Read\", \"arguments\": {\"path\": \"a\"}}", "Read!"),
            ("<tools>{\"name\": \"read\", \"arguments\": {}}</tools>", "read!"),
            ("```xml\n<tool_call>{\"name\": \"read\", \"arguments\": {}}</tool_call>\n```", "read!"),
            ("```json\n[{\"tool\": \"bash\", \"input\": {\"command\": \"ls\"}}]\n```", "bash!"),
            (
                "```json\n{\"type\":\"function\",\"function\":{\"name\":\"read\",\"arguments\":\"{}\"}}\n```",
                "read!",
            ),
            ("```json\n{\"a\": 1}\n```\n```json\n{\"name\": \"read\", \"arguments\": {}}\n```", "read!"),
            // Hermes, and two calls in one text.
            (
                "<tool_call>\n{\"name\": \"read\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {}}\n</tool_call>",
                "read bash!",
            ),
            (
                "{\"name\": \"read\", \"arguments\": {}}\n{\"name\": \"bash\", \"arguments\": {}}",
                "read bash!",
            ),
            // Qwen3-Coder.
            (
                "I look.\n<tool_call>\n<function=read>\n<parameter=path>\na.rs\n</parameter>\n</function>\n</tool_call>",
                "read!",
            ),
            // Mistral, old and new.
            ("[TOOL_CALLS][{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}]", "bash!"),
            ("[TOOL_CALLS]bash[ARGS]{\"command\": \"ls\"}", "bash!"),
            // Llama 3.
            ("<|python_tag|>{\"name\": \"read\", \"parameters\": {\"path\": \"a\"}}", "read!"),
            ("<function=bash>{\"command\": \"ls\"}</function>", "bash!"),
            // Granite, and Gemma.
            ("<|tool_call|>[{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}]", "read!"),
            ("I look.\n```tool_code\nread(path=\"a\")\n```", "read!"),
            // DeepSeek.
            (
                "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"read\">\n<｜DSML｜parameter name=\"path\" string=\"true\">a</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
                "read!",
            ),
            (
                "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read\n```json\n{\"path\": \"a\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
                "read!",
            ),
            (
                "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read<｜tool▁sep｜>{\"path\": \"a\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
                "read!",
            ),
            // Claude's XML.
            (
                "<function_calls>\n<invoke name=\"bash\">\n<parameter name=\"command\">ls</parameter>\n</invoke>\n</function_calls>",
                "bash!",
            ),
            // Kimi, GLM, gpt-oss.
            (
                "<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>{\"path\": \"a\"}<|tool_call_end|><|tool_calls_section_end|>",
                "read!",
            ),
            ("<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n</tool_call>", "read!"),
            (
                "<|channel|>commentary to=functions.bash <|constrain|>json<|message|>{\"command\":\"ls\"}<|call|>",
                "bash!",
            ),
            // A tool that does not exist.
            ("<tool_call>{\"name\": \"hammer\", \"arguments\": {}}</tool_call>", "hammer!"),
            ("<function=hammer><parameter=x>1</parameter></function>", "hammer!"),
        ] {
            assert_eq!(found(text).as_deref(), Some(want), "{text}");
        }
    }

    #[test]
    fn the_inputs_of_calls_in_text() {
        let path = json!({"path": "a.rs"});
        for (text, want) in [
            (
                "<tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a.rs\"}}</tool_call>",
                Some(path.clone()),
            ),
            ("{\"name\": \"read\", \"arguments\": \"{\\\"path\\\": \\\"a.rs\\\"}\"}", Some(path.clone())),
            (
                "<tool_call>\n<function=read>\n<parameter=path>\na.rs\n</parameter>\n</function>\n</tool_call>",
                Some(path.clone()),
            ),
            (
                "<function_calls>\n<invoke name=\"read\">\n<parameter name=\"path\">a.rs</parameter>\n</invoke>",
                Some(path.clone()),
            ),
            (
                "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>a.rs</arg_value>\n</tool_call>",
                Some(path.clone()),
            ),
            ("[TOOL_CALLS]read[ARGS]{\"path\": \"a.rs\"}", Some(path.clone())),
            ("<function=read>{\"path\": \"a.rs\"}</function>", Some(path.clone())),
            (
                "<|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>{\"path\": \"a.rs\"}<|tool_call_end|>",
                Some(path.clone()),
            ),
            (
                "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"read\">\n<｜DSML｜parameter name=\"path\" string=\"true\">a.rs</｜DSML｜parameter>\n</｜DSML｜invoke>",
                Some(path),
            ),
            // Python is not read, and an input that is not an object does not count.
            ("```tool_code\nread(path=\"a.rs\")\n```", None),
            ("{\"name\": \"read\", \"arguments\": \"a.rs\"}", None),
        ] {
            let found = written_calls(text, &["read"]).unwrap();
            assert_eq!(found.inputs, [want], "{text}");
        }
        let schema = json!({"properties": {"path": {"type": "string"}, "limit": {"type": "integer"}}});
        let input = json!({"path": "1", "limit": "20", "other": "3"});
        assert_eq!(typed(input, &schema), json!({"path": "1", "limit": 20, "other": "3"}));
    }

    #[test]
    fn arguments_beside_the_name_count_if_all_required_ones_are_there() {
        let schema = json!({"properties": {"prompt": {}, "agent": {}}, "required": ["prompt"]});
        let none = json!({"properties": {"path": {}}});
        let found = |text: &str| flat_call(text, [("task", &schema), ("list", &none)].into_iter());
        let input = json!({"prompt": "p", "agent": "general"});
        let flat = "{\"name\": \"task\", \"prompt\": \"p\", \"agent\": \"general\"}";
        for text in [flat.to_owned(), format!("```json\n{flat}\n```"), format!("I look.\n```\n{flat}\n```")] {
            let call = found(&text).unwrap();
            assert_eq!(
                (call.names, call.inputs),
                (vec!["task".to_owned()], vec![Some(input.clone())]),
                "{text}"
            );
            assert!(call.is_the_end, "{text}");
        }
        assert!(!found(&format!("```json\n{flat}\n```\nThat is how it looks.")).unwrap().is_the_end);
        for text in [
            "{\"name\": \"task\", \"version\": \"1.0\"}",
            "{\"name\": \"list\", \"path\": \"a\"}",
            "{\"name\": \"other\", \"prompt\": \"p\"}",
            "[{\"name\": \"task\", \"prompt\": \"p\"}]",
            "no call",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn texts_without_calls() {
        for text in [
            // Not calls: an unknown tool in a code block or bare JSON, a call without input, a cut call,
            // plain text.
            "```json\n{\"name\": \"hammer\", \"arguments\": {}}\n```",
            "{\"name\": \"hammer\", \"parameters\": {}}",
            "```json\n{\"name\": \"read\", \"version\": \"1.0\"}\n```",
            "The field \"name\" is `read`, \"arguments\" an object.",
            "```json\n{\"name\": \"read\", \"argum",
            "Models write `<tool_call>` around their calls.",
            "```xml\n<invoke name=\"hammer\"></invoke>\n```\nis how Claude's XML looks.",
            "",
            "``````",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn the_reason_names_calls_and_what_to_do() {
        let calls = written_calls(
            "<function=hammer></function>\n<tool_call>{\"name\":\"read\",\"arguments\":{}}</tool_call>",
            &["read"],
        )
        .unwrap();
        let text = calls.explain("openai/small");
        for word in ["openai/small wrote 2 tool calls (`hammer`, `read`)", "no tool `hammer`", "--jinja"] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
}
