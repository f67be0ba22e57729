//! Chat Completions' chunks, and what compatible servers make of them: `content: null`, `choices: []`, calls without
//! index, with an id that repeats or is empty, all arguments at once or as an object, several calls at one index, usage
//! in three places, no `[DONE]`.

use crate::ModelError;
use crate::assemble::{AnswerOf, Assembler};
use crate::billed::billed;
use crate::counts::Counts;
use crate::decoder::Decoder;
use crate::json::{Arguments, not_json, other_shape, parse_arguments, parse_event};
use crate::kind::Kind;
use becket_types::{FinishReason, Usage};
use serde::Deserialize;
use serde_json::Value;

pub(crate) struct ChatDecoder {
    assembler: Assembler,
    /// True if deltas have brought something, so that a whole message repeats it.
    has_deltas: bool,
    /// True if a message was used, which depends on the events before it.
    has_messages: bool,
    /// The server's index of a call, and its position in the assembler; the newest last.
    slots: Vec<(Option<u64>, usize)>,
    ended: bool,
}

/// The usual shapes, typed for speed; anything that does not fit goes through [`Chunk::lenient`]. Rare fields are boxed,
/// because these structs are moved several times for each of the many small deltas of an answer.
#[derive(Default, Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Box<Value>>,
    error: Option<Box<Value>>,
    /// `error` in the errors of vLLM and FastAPI, which have their fields at the top level.
    object: Option<Box<Value>>,
    /// The field in which Groq sends usage.
    x_groq: Option<Box<Value>>,
}

#[derive(Default, Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    delta: Option<Box<Delta>>,
    message: Option<Box<Delta>>,
    finish_reason: Option<String>,
    /// Some servers report usage per choice.
    usage: Option<Box<Value>>,
}

#[derive(Default, Deserialize)]
struct Delta {
    content: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    /// OpenRouter's records of the reasoning, which its upstream wants back unchanged.
    reasoning_details: Option<Vec<Value>>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
    /// The old form of a single call.
    function_call: Option<Box<Value>>,
}

#[derive(Default, Deserialize)]
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    function: Option<Function>,
}

#[derive(Default, Deserialize)]
struct Function {
    name: Option<String>,
    arguments: Option<Value>,
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

impl Chunk {
    fn lenient(value: &Value) -> Self {
        let some = |value: &Value| (!value.is_null()).then(|| Box::new(value.clone()));
        Self {
            choices: value["choices"].as_array().into_iter().flatten().map(Choice::lenient).collect(),
            usage: some(&value["usage"]),
            error: some(&value["error"]),
            object: some(&value["object"]),
            x_groq: some(&value["x_groq"]),
        }
    }
}

impl Choice {
    fn lenient(value: &Value) -> Self {
        let delta = |key: &str| value[key].is_object().then(|| Box::new(Delta::lenient(&value[key])));
        Self {
            index: value["index"].as_u64().unwrap_or(0),
            delta: delta("delta"),
            message: delta("message"),
            finish_reason: text(&value["finish_reason"]),
            usage: value["usage"].is_object().then(|| Box::new(value["usage"].clone())),
        }
    }
}

impl Delta {
    fn lenient(value: &Value) -> Self {
        let mut delta = Self {
            content: text(&value["content"]),
            reasoning_content: text(&value["reasoning_content"]),
            reasoning: text(&value["reasoning"]),
            reasoning_details: value["reasoning_details"].as_array().cloned(),
            refusal: text(&value["refusal"]),
            tool_calls: None,
            function_call: value["function_call"]
                .is_object()
                .then(|| Box::new(value["function_call"].clone())),
        };
        // Mistral's reasoning models send content as parts.
        for part in value["content"].as_array().into_iter().flatten() {
            match part["type"].as_str() {
                Some("thinking") => {
                    let thinking = part["thinking"].as_array().into_iter().flatten();
                    let all: String = thinking.filter_map(|t| t["text"].as_str()).collect();
                    delta.reasoning_content.get_or_insert_default().push_str(&all);
                }
                _ => {
                    delta.content.get_or_insert_default().push_str(part["text"].as_str().unwrap_or_default());
                }
            }
        }
        let calls = match &value["tool_calls"] {
            Value::Array(calls) => calls.clone(),
            Value::Object(_) => vec![value["tool_calls"].clone()],
            _ => Vec::new(),
        };
        if !calls.is_empty() {
            delta.tool_calls = Some(calls.iter().map(CallDelta::lenient).collect());
        }
        delta
    }
}

impl CallDelta {
    fn lenient(value: &Value) -> Self {
        // Some servers put the fields of `function` directly into the call.
        let function = if value["function"].is_object() { &value["function"] } else { value };
        let id = match &value["id"] {
            Value::Number(n) => Some(n.to_string()),
            other => text(other),
        };
        let arguments = (!function["arguments"].is_null()).then(|| function["arguments"].clone());
        Self {
            index: value["index"].as_u64(),
            id,
            function: Some(Function { name: text(&function["name"]), arguments }),
        }
    }
}

impl ChatDecoder {
    pub(crate) fn new(answer: AnswerOf) -> Self {
        Self {
            assembler: Assembler::new(answer),
            has_deltas: false,
            has_messages: false,
            slots: Vec::new(),
            ended: false,
        }
    }

    fn chunk(&mut self, chunk: Chunk) {
        for choice in chunk.choices {
            if choice.index != 0 {
                continue;
            }
            // Some servers send pieces as `message`, others send the whole message behind its deltas.
            let message = choice.message.filter(|_| !self.has_deltas);
            if let Some(delta) = choice.delta {
                let had_content = self.assembler.has_content();
                self.delta(*delta);
                self.has_deltas |= !had_content && self.assembler.has_content();
            }
            if let Some(message) = message.filter(|_| !self.has_deltas) {
                self.has_messages = true;
                self.delta(*message);
            }
            if let Some(usage) = &choice.usage {
                self.usage(usage);
            }
            if let Some(word) = choice.finish_reason.filter(|word| !word.is_empty()) {
                self.assembler.stopped(reason(&word));
            }
        }
        if let Some(usage) = chunk.usage.as_deref().or(chunk.x_groq.as_deref().map(|x| &x["usage"])) {
            self.usage(usage);
        }
    }

    fn delta(&mut self, delta: Delta) {
        if let Some(reasoning) = delta.reasoning_content.or(delta.reasoning).filter(|t| !t.is_empty()) {
            self.assembler.reasoning(&reasoning);
        }
        for detail in delta.reasoning_details.into_iter().flatten().filter(Value::is_object) {
            add_detail(&mut self.assembler.details, detail);
        }
        for text in [delta.content, delta.refusal].into_iter().flatten() {
            self.assembler.text(&text);
        }
        let old = delta.function_call.filter(|call| call.is_object());
        let old = old.map(|call| CallDelta::lenient(&serde_json::json!({"index": 0, "function": call})));
        for call in delta.tool_calls.into_iter().flatten().chain(old) {
            let function = call.function.unwrap_or_default();
            let name = function.name.unwrap_or_default();
            let arguments = match function.arguments {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => text,
                Some(object) => object.to_string(),
            };
            let id = call.id.unwrap_or_default();
            let slot = self.slot(call.index, &id, &name, &arguments);
            self.assembler.call_name(slot, &name);
            self.assembler.call_arguments(slot, &arguments);
        }
    }

    /// Finds the call that a delta belongs to, or begins a new one. Returns its index in the assembler. The rules are lenient,
    /// because on some servers the index, the id or the name is missing, repeated or wrong.
    fn slot(&mut self, index: Option<u64>, id: &str, name: &str, arguments: &str) -> usize {
        let calls = &self.assembler.calls;
        let by_index = index.and_then(|i| self.slots.iter().rev().find(|(known, _)| *known == Some(i)));
        let candidate = match (by_index, index) {
            (Some((_, slot)), _) => Some(*slot),
            (None, Some(_)) => None,
            (None, None) if id.is_empty() => self.slots.last().map(|(_, slot)| *slot),
            (None, None) => {
                self.slots.iter().rev().map(|(_, slot)| *slot).find(|slot| calls[*slot].raw_id == id)
            }
        };
        if let Some(slot) = candidate {
            let call = &calls[slot];
            let other_id = !id.is_empty() && !call.raw_id.is_empty() && call.raw_id != id;
            // A second name with arguments, after complete arguments, begins the next call at the same index.
            let next = !name.is_empty() && !arguments.is_empty() && is_complete(&call.arguments);
            if (!other_id || name.is_empty()) && !next {
                return slot;
            }
        }
        let slot = self.assembler.call(id, "");
        self.slots.push((index, slot));
        slot
    }

    fn usage(&mut self, usage: &Value) {
        let Some(mut counts) = Counts::of(usage) else { return };
        let cached = [
            "/prompt_tokens_details/cached_tokens",
            "/prompt_cache_hit_tokens",
            "/cached_tokens",
            "/cache_read_input_tokens",
        ];
        let prompt = counts.at("/prompt_tokens");
        let cache_read = cached.into_iter().find_map(|pointer| counts.find(pointer)).unwrap_or(0).min(prompt);
        let cache_write = counts.at("/prompt_tokens_details/cache_write_tokens").min(prompt - cache_read);
        let usage = Usage {
            input: prompt - cache_read - cache_write,
            output: counts.at("/completion_tokens"),
            cache_read,
            cache_write,
            reasoning: counts.at("/completion_tokens_details/reasoning_tokens"),
            cache_write_hour: 0,
            billed: billed(usage),
            estimated: false,
        };
        self.assembler.reported(usage, counts.is_wrong);
    }
}

/// Adds a piece of `reasoning_details`. Pieces with the same index and type are one detail.
fn add_detail(details: &mut Vec<Value>, piece: Value) {
    let same = |known: &&mut Value| known["index"] == piece["index"] && known["type"] == piece["type"];
    let Some(known) = details.last_mut().filter(|_| !piece["index"].is_null()).filter(same) else {
        return details.push(piece);
    };
    let (Value::Object(known), Value::Object(piece)) = (known, piece) else { return };
    for (key, value) in piece {
        match (known.get_mut(&key), value) {
            (_, Value::Null) => {}
            (Some(Value::String(text)), Value::String(more))
                if matches!(key.as_str(), "text" | "summary" | "data") =>
            {
                text.push_str(&more);
            }
            (_, value) => {
                known.insert(key, value);
            }
        }
    }
}

fn is_complete(arguments: &str) -> bool {
    arguments.trim_end().ends_with('}') && matches!(parse_arguments(arguments), Arguments::Object(_))
}

fn reason(word: &str) -> FinishReason {
    match word.to_ascii_lowercase().as_str() {
        "stop" | "eos" | "end_turn" | "stop_sequence" | "eos_token" => FinishReason::Stop,
        "tool_calls" | "function_call" | "tool_use" | "tool_call" => FinishReason::ToolCalls,
        "length" | "max_tokens" | "model_length" | "max_output_tokens" => FinishReason::Length,
        "content_filter" | "safety" => FinishReason::ContentFilter,
        "refusal" => FinishReason::Refusal,
        _ => FinishReason::Other(word.to_owned()),
    }
}

impl Decoder for ChatDecoder {
    fn event(&mut self, name: &str, data: &str) -> Result<(), ModelError> {
        let trimmed = data.trim();
        if trimmed.is_empty() {
            return Ok(());
        }
        if trimmed == "[DONE]" {
            self.ended = true;
            return Ok(());
        }
        let chunk = match serde_json::from_str::<Chunk>(data) {
            Ok(chunk) => chunk,
            Err(_) => {
                let value =
                    parse_event::<Value>(data).ok_or_else(|| not_json(data, self.assembler.server()))?;
                Chunk::lenient(&value)
            }
        };
        let failed = chunk.error.as_ref().is_some_and(|error| !error.is_null());
        if name == "error" || failed || chunk.object.as_ref().is_some_and(|object| **object == "error") {
            return Err(self.assembler.failed(data));
        }
        self.chunk(chunk);
        Ok(())
    }

    fn document(&mut self, json: &str) -> Result<(), ModelError> {
        let value = parse_event::<Value>(json).ok_or_else(|| not_json(json, self.assembler.server()))?;
        if !value["error"].is_null()
            || !value["detail"].is_null()
            || value["object"] == "error"
            || value.as_array().is_some_and(|items| !items.is_empty())
        {
            return Err(self.assembler.failed(json));
        }
        if !value["choices"].is_array() {
            return Err(other_shape(json, self.assembler.server()));
        }
        self.chunk(Chunk::lenient(&value));
        self.assembler.stopped(FinishReason::Stop);
        self.ended = true;
        Ok(())
    }

    fn ended(&self) -> bool {
        self.ended
    }

    fn kind(&self) -> Kind {
        Kind::Chat
    }

    fn is_blank(&self) -> bool {
        self.slots.is_empty() && !self.has_messages
    }

    fn assembler(&mut self) -> &mut Assembler {
        &mut self.assembler
    }
}
