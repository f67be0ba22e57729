//! The rules by which chat templates of model families refuse a request, each as a small Jinja template of our own.
//!
//! A template says when to raise and with which words; nothing of a prompt is rendered. `null` content reaches a template as
//! it is only where the server passes it on; most servers make it an empty string.

use minijinja::{Environment, Error, ErrorKind, context};
use serde_json::Value;

/// User and assistant messages must alternate; nothing else is checked.
const ALTERNATE: &str = "
{%- if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}
{%- for m in rest %}
  {%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}
    {{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
  {%- endif %}
  {%- if m.content is not string and m.content is not iterable %}{{ raise_exception('Invalid content type') }}{% endif %}
{%- endfor %}";

const GEMMA_2: &str = "
{%- if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{%- for m in messages %}
  {%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}
    {{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
  {%- endif %}
{%- endfor %}";

/// Calls and results are exempt from alternation; ids have nine letters and digits.
const MISTRAL: &str = "
{%- if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}
{%- set ns = namespace(index=0) %}
{%- for m in rest %}
  {%- if m.role != 'tool' and not m.tool_calls %}
    {%- if (m.role == 'user') != (ns.index % 2 == 0) %}
      {{- raise_exception('After the optional system message, conversation roles must alternate user/assistant/user/assistant/...') }}
    {%- endif %}
    {%- set ns.index = ns.index + 1 %}
  {%- endif %}
{%- endfor %}
{%- for m in rest %}
  {%- if m.role == 'tool' and m.tool_call_id|length != 9 %}
    {{- raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}
  {%- endif %}
  {%- for call in m.tool_calls or [] %}
    {%- if call.id|length != 9 %}{{ raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{% endif %}
  {%- endfor %}
  {%- if m.role not in ['user', 'assistant', 'tool'] %}
    {{- raise_exception('Only user and assistant roles are supported, with the exception of an initial optional system message!') }}
  {%- endif %}
{%- endfor %}";

/// The rules of [`MISTRAL`] without the one for ids. An assistant message must not be empty.
const DEVSTRAL: &str = "
{%- if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}
{%- set ns = namespace(index=0) %}
{%- for m in rest %}
  {%- if m.role == 'user' or (m.role == 'assistant' and not m.tool_calls) %}
    {%- if (m.role == 'user') != (ns.index % 2 == 0) %}
      {{- raise_exception('After the optional system message, conversation roles must alternate user and assistant roles except for tool calls and results.') }}
    {%- endif %}
    {%- set ns.index = ns.index + 1 %}
  {%- endif %}
  {%- if m.role not in ['user', 'assistant', 'tool'] %}
    {{- raise_exception('Only user, assistant and tool roles are supported, got ' + m.role + '.') }}
  {%- endif %}
  {%- if m.role == 'assistant' and not m.content and not m.tool_calls %}
    {{- raise_exception('chat template: assistant message must have either content or tool calls') }}
  {%- endif %}
{%- endfor %}";

/// Checks that Mistral's own server makes in addition to its template.
const MISTRAL_API: &str = "
{%- set ns = namespace(before='', open=0) %}
{%- for m in messages %}
  {%- if m.role == 'tool' %}
    {%- if ns.open == 0 %}{{ raise_exception('Unexpected role \\'tool\\' after role \\'' + ns.before + '\\'') }}{% endif %}
    {%- set ns.open = ns.open - 1 %}
  {%- else %}
    {%- if ns.open != 0 %}{{ raise_exception('Not the same number of function calls and responses') }}{% endif %}
    {%- if m.role == 'user' and ns.before == 'tool' %}
      {{- raise_exception('Unexpected role \\'user\\' after role \\'tool\\'') }}
    {%- endif %}
    {%- if m.role == 'system' and not loop.first %}
      {{- raise_exception('Unexpected role \\'system\\' after role \\'' + ns.before + '\\'') }}
    {%- endif %}
    {%- set ns.open = (m.tool_calls or [])|length %}
  {%- endif %}
  {%- for call in m.tool_calls or [] %}
    {%- if call.id|length != 9 %}{{ raise_exception('Tool call id was ' + call.id + ' but must be a-z, A-Z, 0-9, with a length of 9.') }}{% endif %}
  {%- endfor %}
  {%- set ns.before = m.role %}
{%- endfor %}
{%- if ns.open != 0 %}{{ raise_exception('Not the same number of function calls and responses') }}{% endif %}";

const QWEN_3_5: &str = "
{%- set ns = namespace(query=false) %}
{%- for m in messages %}
  {%- if m.role == 'system' and not loop.first %}{{ raise_exception('System message must be at the beginning.') }}{% endif %}
  {%- if m.role == 'system' and m.content is not string %}{{ raise_exception('System message cannot contain images.') }}{% endif %}
  {%- if m.role == 'user' and not (m.content is string and m.content.startswith('<tool_response>') and m.content.endswith('</tool_response>')) %}
    {%- set ns.query = true %}
  {%- endif %}
  {%- if m.role not in ['system', 'user', 'assistant', 'tool'] %}{{ raise_exception('chat template: Unexpected message role.') }}{% endif %}
{%- endfor %}
{%- if not ns.query %}{{ raise_exception('No user query found in messages.') }}{% endif %}";

/// Looks for the end of thinking in content that must be text; transformers passes `null` on.
const QWEN_3: &str = "
{%- for m in messages %}
  {%- if m.role == 'assistant' and m.content is none %}
    {{- raise_exception(\"TypeError: argument of type 'NoneType' is not iterable\") }}
  {%- endif %}
{%- endfor %}";

/// ChatML: the only rule is that each message has a role with a name.
const QWEN_2_5: &str = "
{%- for m in messages %}
  {%- if m.role not in ['system', 'user', 'assistant', 'tool'] %}{{ raise_exception('unexpected role') }}{% endif %}
  {%- if m.role == 'user' and not m.content %}{{ raise_exception('chat template: no content') }}{% endif %}
{%- endfor %}";

const LLAMA_3: &str = "
{%- if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}
{%- if rest|length == 0 %}
  {{- raise_exception(\"chat template: Cannot put tools in the first user message when there's no first user message!\") }}
{%- endif %}
{%- for m in messages %}
  {%- if m.tool_calls and m.tool_calls|length != 1 %}
    {{- raise_exception('This model only supports single tool-calls at once!') }}
  {%- endif %}
{%- endfor %}";

/// The template joins texts with `+`, so `null` fails. The first message after the system prompt must be the user's.
const PHI: &str = "
{%- for m in messages %}
  {%- if m.content is none %}
    {{- raise_exception('TypeError: can only concatenate str (not \"NoneType\") to str') }}
  {%- endif %}
{%- endfor %}";

/// A result follows calls; outputs are counted against the calls of the last assistant message.
const DEEPSEEK: &str = "
{%- set ns = namespace(calls=false) %}
{%- for m in messages %}
  {%- if m.role == 'assistant' %}{% set ns.calls = m.tool_calls|length > 0 if m.tool_calls else false %}{% endif %}
  {%- if m.role == 'tool' and not ns.calls %}{{ raise_exception('chat template: tool output without a call') }}{% endif %}
  {%- if m.role == 'user' %}{% set ns.calls = false %}{% endif %}
  {%- if m.role == 'system' and not loop.first %}{{ raise_exception('System message must be first') }}{% endif %}
{%- endfor %}";

const GPT_OSS: &str = "
{%- set ns = namespace(last=none) %}
{%- for m in messages %}
  {%- if m.role == 'assistant' %}
    {%- if m.tool_calls %}{% set ns.last = m.tool_calls[0].function.name %}{% else %}{% set ns.last = none %}{% endif %}
  {%- elif m.role == 'tool' and ns.last is none %}
    {{- raise_exception('Message has tool role, but there was no previous assistant message with a tool call!') }}
  {%- elif m.role == 'user' %}{% set ns.last = none %}
  {%- endif %}
{%- endfor %}";

/// GLM, Kimi and Command-A: every result belongs to a call by its id, directly before it or after another result.
const BY_ID: &str = "
{%- set ns = namespace(ids=[]) %}
{%- for m in messages %}
  {%- if m.role == 'tool' %}
    {%- if m.tool_call_id not in ns.ids %}{{ raise_exception('chat template: result of an unknown call') }}{% endif %}
  {%- else %}
    {%- set ns.ids = (m.tool_calls or [])|map(attribute='id')|list %}
  {%- endif %}
{%- endfor %}";

/// A family, and what it accepts in the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    rules: &'static str,
    /// The server makes `null` content an empty string first.
    fills_null: bool,
}

const fn family(name: &'static str, rules: &'static str, fills_null: bool) -> Family {
    Family { name, rules, fills_null }
}

pub(crate) const FAMILIES: [Family; 16] = [
    family("qwen-2.5", QWEN_2_5, true),
    family("qwen-3", QWEN_3, false),
    family("qwen-3.5", QWEN_3_5, true),
    family("mistral-7b-v0.3", MISTRAL, true),
    family("devstral", DEVSTRAL, true),
    family("mistral-api", MISTRAL_API, true),
    family("gemma-2", GEMMA_2, true),
    family("gemma-3", ALTERNATE, true),
    family("llama-2", ALTERNATE, true),
    family("llama-3", LLAMA_3, true),
    family("deepseek-v3", DEEPSEEK, true),
    family("phi-4", PHI, false),
    family("command-r", ALTERNATE, true),
    family("command-a", BY_ID, true),
    family("glm-4", BY_ID, true),
    family("gpt-oss", GPT_OSS, true),
];

pub(crate) struct Judge(Environment<'static>);

impl Judge {
    pub(crate) fn new() -> Self {
        let mut environment = Environment::new();
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |text: String| -> Result<String, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, text))
        });
        for family in FAMILIES {
            environment.add_template(family.name, family.rules).unwrap();
        }
        Self(environment)
    }

    /// The words with which the family refuses these messages.
    pub(crate) fn refusal(&self, family: Family, messages: &[Value]) -> Option<String> {
        let mut messages = messages.to_vec();
        for message in &mut messages {
            if family.fills_null && message["content"].is_null() {
                message["content"] = Value::String(String::new());
            }
        }
        let template = self.0.get_template(family.name).unwrap();
        let error = template.render(context! { messages }).err()?;
        // Anything but a refusal is a mistake in the rules.
        assert_eq!(error.kind(), ErrorKind::InvalidOperation, "{}: {error:#}", family.name);
        Some(error.detail().unwrap_or_default().to_owned())
    }
}
