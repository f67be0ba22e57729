//! Tool calls that a model wrote as text instead of making them. This happens if the chat template or parser
//! does not fit the model. Pure: finds them so that the user can be told the reason. The text may be an
//! example, so such calls run only if the user has chosen to be asked about them, and approves each.
//!
//! A call begins with a marker. A marker is followed by a JSON document (such as `{"name": …, "arguments":
//! {…}}`), by the bare name of the tool, or by Python (`read(path="a")`). The forms are those of the chat templates of
//! Hermes and Qwen, Qwen3-Coder, Mistral, Llama, DeepSeek, Kimi, GLM, Granite, Gemma, Cohere, Nemotron, Phi, InternLM,
//! LFM, gpt-oss and Claude. [`forms`] has those without a marker, and [`quoted`] tells calls from examples of them.

mod forms;
mod quoted;

use quoted::{FENCE, in_fence, is_example, is_only_marks, is_over};
use serde_json::Value;

/// Markers that only calls have. After them, an unknown tool name counts as well.
const MARKS: [&str; 22] = [
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
    "<|START_ACTION|>",
    "<TOOLCALL>",
    "<|plugin|>",
    "<tool_code>",
    "<|tool_call_start|>",
    "<start_function_call>call:",
    "functools",
];
/// Markers that only JSON follows, so a word after them is not a name.
const ONLY_JSON: [&str; 8] = [
    "<tool_calls>",
    "<tools>",
    "<|tool_call|>",
    "<function_call>",
    "<|START_ACTION|>",
    "<TOOLCALL>",
    "<|plugin|>",
    "functools",
];
/// Markers that Python may follow.
const PYTHON: [&str; 6] =
    ["<|python_tag|>", "```tool_code\n", "<tool_code>", "<tool_call>", "[TOOL_CALLS]", "<|tool_call_start|>"];
/// Markers that only Python or JSON follows.
const NO_NAME: [&str; 4] = ["<|python_tag|>", "```tool_code\n", "<tool_code>", "<|tool_call_start|>"];
/// Maximum number of times that one marker is looked at. Each costs a pass through the rest of the text.
const MOST_CALLS: usize = 200;
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
    /// The inputs of these calls; `None` if the text has none that can be read.
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

/// One call: its name and input, its beginning and end, and true if its marker is one that only calls have.
#[derive(Debug)]
struct FoundCall {
    name: String,
    input: Option<Value>,
    start: usize,
    end: usize,
    marked: bool,
}

/// Finds the calls in `text`. Calls in code blocks and bare JSON count only if the tool exists, and examples never count.
pub(crate) fn written_calls(text: &str, tools: &[&str]) -> Option<WrittenCalls> {
    if text.len() > LONGEST_TEXT {
        return None;
    }
    let is_known = |name: &str| tools.iter().any(|tool| tool.eq_ignore_ascii_case(name));
    let mut found: Vec<FoundCall> = Vec::new();
    for mark in MARKS {
        for (at, _) in text.match_indices(mark).take(MOST_CALLS) {
            found.extend(calls_after(text, at, mark));
        }
    }
    let fences = text.match_indices(FENCE).map(|(at, _)| at + FENCE.len()).take(MOST_CALLS);
    for from in std::iter::once(0).chain(fences) {
        found.extend(
            json_calls(text, from).into_iter().map(|call| call.0).filter(|call| is_known(&call.name)),
        );
    }
    found.extend(forms::without_marks(text, tools));
    // A marked call of an unknown tool inside a code block is an example.
    found.retain(|call| is_known(&call.name) || (call.marked && !in_fence(text, call.start)));
    found.retain(|call| !is_example(text, call.start, is_known(&call.name)));
    if found.is_empty() {
        found = unknown_call(text);
    }
    found.sort_by_key(|call| (call.end, call.start));
    found.dedup_by_key(|call| call.end);
    let last = found.last()?;
    let rest = text.get(last.end..).unwrap_or_default();
    let may_go_on = last.marked && is_known(&last.name) && !in_fence(text, last.start);
    let is_the_end = is_only_marks(rest) || (may_go_on && is_over(text, last.start, rest));
    let (names, inputs): (Vec<String>, Vec<Option<Value>>) =
        found.into_iter().map(|call| (call.name, call.input)).unzip();
    let mut unknown: Vec<String> = names.iter().filter(|name| !is_known(name)).cloned().collect();
    unknown.dedup();
    Some(WrittenCalls { names, inputs, unknown, is_the_end })
}

/// Returns the calls after the marker at `at`.
fn calls_after(text: &str, at: usize, mark: &str) -> Vec<FoundCall> {
    let from = at + mark.len();
    let mut calls: Vec<FoundCall> = json_calls(text, from).into_iter().map(|call| call.0).collect();
    if calls.is_empty() && PYTHON.contains(&mark) {
        calls = forms::python_calls(text, from);
    }
    if calls.is_empty() && !ONLY_JSON.contains(&mark) && !NO_NAME.contains(&mark) {
        calls.extend(named_call(text, from, mark));
    }
    calls.into_iter().map(|call| FoundCall { marked: true, start: at, ..call }).collect()
}

/// Returns the calls if the whole text is JSON of calls and nothing else. The tools are not known, so each must have the keys
/// of a call alone, a name without spaces, and an input.
fn unknown_call(text: &str) -> Vec<FoundCall> {
    let calls = json_calls(text, 0);
    let is_all =
        calls.last().is_some_and(|(call, _)| is_only_marks(text.get(call.end..).unwrap_or_default()));
    let is_call =
        is_all && text.trim_start().starts_with(['{', '[']) && calls.iter().all(|(_, exact)| *exact);
    if is_call { calls.into_iter().map(|call| call.0).collect() } else { Vec::new() }
}

/// Returns the calls in consecutive JSON documents at `from`, each with its end in the text, and true if its document has the
/// keys of a call alone. Documents may be separated by `;` or `,`.
fn json_calls(text: &str, from: usize) -> Vec<(FoundCall, bool)> {
    let Some((mut at, _)) = document(text, from) else { return Vec::new() };
    let mut calls = Vec::new();
    while calls.len() < MOST_CALLS {
        let rest = text.get(at..).unwrap_or_default();
        let mut documents = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let Some(Ok(document)) = documents.next() else { break };
        let end = at + documents.byte_offset();
        let all = match document {
            Value::Array(items) => items,
            other => vec![other],
        };
        // Calls of one array all end at the same place. Each gets a different end, so that they are not
        // treated as duplicates.
        let called: Vec<_> = all.iter().filter_map(called).collect();
        let count = called.len();
        calls.extend(called.into_iter().enumerate().map(|(n, (name, input, exact))| {
            let end = end - (count - 1 - n).min(end);
            (FoundCall { name, input, start: at, end, marked: false }, exact && count == all.len())
        }));
        let next = text.get(end..).unwrap_or_default();
        at = end + next.len()
            - next.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ';' | ',')).len();
        if !text.get(at..).unwrap_or_default().starts_with(['{', '[']) {
            break;
        }
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

/// Keys of a call in JSON: of its name, of its input, and of what else it may have.
const NAME_KEYS: [&str; 5] = ["name", "tool", "function", "tool_name", "action"];
const INPUT_KEYS: [&str; 6] = ["arguments", "parameters", "input", "args", "tool_input", "action_input"];
const OTHER_KEYS: [&str; 4] = ["type", "id", "tool_call_id", "call_id"];

/// Returns the tool that a document calls, its input, and true if it has no other keys than a call, if it looks like a call:
/// `{"name": …, "arguments": {…}}` or a similar form.
fn called(document: &Value) -> Option<(String, Option<Value>, bool)> {
    let call = if document["function"].is_object() { &document["function"] } else { document };
    let name = NAME_KEYS.iter().find_map(|key| call[*key].as_str())?;
    let is_input = |value: &&Value| value.is_object() || value.is_string();
    let input = INPUT_KEYS.iter().map(|key| &call[*key]).find(is_input)?;
    let is_key = |key: &String| [&NAME_KEYS[..], &INPUT_KEYS, &OTHER_KEYS].concat().contains(&key.as_str());
    let has_keys =
        [document, call].iter().all(|part| part.as_object().is_some_and(|keys| keys.keys().all(is_key)));
    let is_name = name.len() <= LONGEST_NAME && name.chars().all(is_name);
    let input = object(input);
    // A schema is what a definition of a tool has in the place of the input.
    let is_input = |input: &Value| {
        input.as_object().is_some_and(|keys| !keys.is_empty() && !keys.contains_key("properties"))
    };
    let exact = has_keys && is_name && input.as_ref().is_some_and(is_input);
    Some((name.to_owned(), input, exact))
}

/// True for characters of a tool's name.
fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':')
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
            // The closing mark may have a prefix before its name.
            let value = if end == "parameter>" { value.rsplit_once("</")?.0 } else { value };
            let value = value.trim_matches('\n');
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
    let length = body.find(|c| !is_name(c)).unwrap_or(body.len());
    let name = body.get(..length).filter(|name| !name.is_empty() && name.len() <= LONGEST_NAME)?;
    let after = body.get(length..).unwrap_or_default();
    // A bare word is a name only if it is followed by another part of a call.
    let follows = match mark {
        "<tool_call>" => after.trim_start().starts_with("<arg_key>"),
        "[TOOL_CALLS]" => {
            after.starts_with("[ARGS]") || after.starts_with("[CALL_ID]") || after.starts_with('{')
        }
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
    Some(FoundCall { name, input, start: from, end, marked: true })
}

/// Returns the end of a call with a bare name: after its closing marker, its JSON, or its name.
fn call_end(text: &str, from: usize) -> usize {
    const CLOSING: [&str; 7] = [
        "</function>",
        // Only the end of this marker is compared, because the name may have any prefix.
        "invoke>",
        "</tool_call>",
        "<｜tool▁call▁end｜>",
        "<|tool_call_end|>",
        "<|call|>",
        "<end_function_call>",
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

#[cfg(test)]
mod tests;
