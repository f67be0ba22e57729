//! Repairs that make every history acceptable to a provider, one function each. The view applies them.
//!
//! Repairs happen in the view, never in the ledger. They cover: calls without a result, results without a
//! call, duplicate results, duplicate ids, ids and names that providers refuse, arguments that are not an
//! object, blank text, reasoning of other models, and a history that starts in the middle. Each repair
//! depends only on the ledger, so it gives the same result every time.

use super::ModelScope;
use becket_types::{CallId, Message, MessageId, Metadata, Origin, Part, Role, Seq, Synthetic, ToolSpec};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeSet;
use uuid::Uuid;

/// Output shown for a call that has no result in the ledger.
pub const INTERRUPTED: &str = "interrupted, effect unknown";
/// Output shown for a call that may still be running.
pub const PENDING: &str = "no result yet";
/// Output shown for a call that returned nothing visible.
pub(crate) const NO_OUTPUT: &str = "(no output)";
/// Text of the message that is inserted if a history would start with an assistant message.
pub(crate) const MISSING_START: &str = "[The start of this conversation is not available.]";

/// Maximum length of a call id: the shortest limit of the providers (OpenAI Chat Completions).
const MAX_ID: usize = 40;
/// Maximum length of a tool name: the limit that all providers share.
const MAX_NAME: usize = 64;

fn is_wire_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// Converts a call id to one that every provider accepts: `[a-zA-Z0-9_-]{1,40}`. A long id keeps its start
/// and gets a hash.
pub(crate) fn safe_id(id: &str) -> Cow<'_, str> {
    if !id.is_empty() && id.len() <= MAX_ID && id.chars().all(is_wire_char) {
        return Cow::Borrowed(id);
    }
    let start: String = id.chars().map(|c| if is_wire_char(c) { c } else { '_' }).take(MAX_ID - 9).collect();
    Cow::Owned(format!("{start}-{:08x}", fnv(id)))
}

/// Returns the n-th alternative id for a call whose own id is taken.
pub(crate) fn numbered_id(id: &str, n: u32) -> String {
    let suffix = format!("_r{n}");
    format!("{}{suffix}", becket_types::cut_end(id, MAX_ID - suffix.len()))
}

/// Computes FNV-1a, a stable short hash. It only protects against accidental collisions.
fn fnv(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Converts a tool name to one that every provider accepts: `[a-zA-Z0-9_-]{1,64}`.
pub(crate) fn safe_name(name: &str) -> Cow<'_, str> {
    if !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_wire_char) {
        return Cow::Borrowed(name);
    }
    let safe: String = name.chars().map(|c| if is_wire_char(c) { c } else { '_' }).take(MAX_NAME).collect();
    Cow::Owned(if safe.is_empty() { "unknown".to_owned() } else { safe })
}

/// True if this part may be sent to the model. Reasoning is sent only to the model that wrote it, signed or
/// not.
pub(crate) fn reasoning_fits(part: &Part, scope: &ModelScope) -> bool {
    match part {
        Part::Reasoning { provider, model, .. } => *provider == scope.provider && *model == scope.model,
        _ => true,
    }
}

/// Returns the arguments of a call as they are sent: always an object. Arguments that are not a JSON object become `{}`.
pub(crate) fn object_input(input: &Value) -> Cow<'_, Value> {
    if input.is_object() { Cow::Borrowed(input) } else { Cow::Owned(Value::Object(Map::new())) }
}

/// Makes the result for a call whose result never came. The id of the new message is derived from the message with the call and from `nth`.
pub(crate) fn missing_result(caller: &Message, nth: usize, call_id: &CallId, name: &str) -> Message {
    stand_in(caller, nth, (call_id, name), INTERRUPTED, true)
}

/// Makes the result for a call whose result may still come.
pub(crate) fn pending_result(caller: &Message, nth: usize, call_id: &CallId, name: &str) -> Message {
    stand_in(caller, nth, (call_id, name), PENDING, false)
}

fn stand_in(
    caller: &Message,
    nth: usize,
    (call_id, name): (&CallId, &str),
    output: &str,
    interrupted: bool,
) -> Message {
    Message {
        id: derived_id(caller.id, nth as u128 + 1),
        seq: caller.seq,
        role: Role::Tool,
        origin: Origin::Tool,
        parts: vec![Part::ToolResult {
            call_id: call_id.clone(),
            name: safe_name(name).into_owned(),
            output: output.to_owned(),
            is_error: interrupted,
            interrupted,
            details: Value::Null,
            spill: None,
            extra: Map::new(),
        }],
        metadata: Metadata { tool_name: Some(name.to_owned()), ..Metadata::default() },
        extra: Map::new(),
    }
}

/// Makes the user message that is inserted before a history that starts with an assistant message.
pub fn missing_start(first: &Message) -> Message {
    synthetic(derived_id(first.id, 0), first.seq, Role::User, Synthetic::Reminder, MISSING_START)
}

/// Makes a message that exists only in the view. Its id is derived, so it is the same each time the view is
/// computed.
pub fn synthetic(id: MessageId, seq: Seq, role: Role, kind: Synthetic, text: &str) -> Message {
    let mut message = Message::synthetic(kind, text);
    message.id = id;
    message.seq = seq;
    message.role = role;
    message
}

/// Derives an id from another one. The high bit distinguishes it from ids that contain a time.
pub(crate) fn derived_id(id: MessageId, salt: u128) -> MessageId {
    MessageId(Uuid::from_u128(id.0.as_u128().wrapping_add(salt) | 1 << 127))
}

/// Makes stub specifications, ordered by name, for tools that the history calls and the model no longer has.
/// So the tool list is never empty while the history has calls, and no call names an unknown tool.
pub(crate) fn stub_tools<'a>(called: impl IntoIterator<Item = &'a str>, tools: &[ToolSpec]) -> Vec<ToolSpec> {
    let have: BTreeSet<&str> = tools.iter().map(|t| t.name.as_str()).collect();
    let called: BTreeSet<&str> = called.into_iter().filter(|name| !have.contains(name)).collect();
    called
        .into_iter()
        .map(|name| ToolSpec {
            name: name.to_owned(),
            description: "No longer available. Do not call it.".to_owned(),
            input_schema: json!({"type": "object"}).into(),
        })
        .collect()
}

/// True if a history may start with a message of this role.
pub fn opens(role: Role) -> bool {
    matches!(role, Role::User | Role::System)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repair_ids_and_names_fit_every_provider() {
        for id in ["", "call 1", "функция", "a.b", &"x".repeat(90), &"é".repeat(50)] {
            let safe = safe_id(id);
            assert!(
                !safe.is_empty() && safe.len() <= MAX_ID && safe.chars().all(is_wire_char),
                "{id:?} -> {safe}"
            );
        }
        assert_eq!(safe_id("toolu_01-A"), "toolu_01-A");
        assert_ne!(safe_id(&format!("{}a", "x".repeat(60))), safe_id(&format!("{}b", "x".repeat(60))));
        assert_eq!(numbered_id("call_0", 2), "call_0_r2");
        assert_eq!(numbered_id(&"x".repeat(40), 12).len(), MAX_ID);
        for (name, want) in [
            ("bash", "bash"),
            ("constructor", "constructor"),
            ("mcp.server tool", "mcp_server_tool"),
            ("", "unknown"),
            ("名", "_"),
        ] {
            assert_eq!(safe_name(name), want);
        }
        assert_eq!(safe_name(&"n".repeat(70)).len(), MAX_NAME);
    }

    #[test]
    fn repair_a_removed_tool_keeps_a_stub() {
        let have =
            ToolSpec { name: "read".into(), description: String::new(), input_schema: json!({}).into() };
        let names: Vec<_> = stub_tools(["write", "read", "bash", "write"], std::slice::from_ref(&have))
            .into_iter()
            .map(|t| t.name)
            .collect();
        assert_eq!(names, ["bash", "write"]);
        assert!(stub_tools([], &[have]).is_empty());
    }

    #[test]
    fn repair_a_missing_result_is_the_same_every_time() {
        let caller = Message::assistant(vec![Part::tool_call("c", "bash", json!({}))]);
        let a = missing_result(&caller, 0, &"c".into(), "bash");
        assert_eq!(a, missing_result(&caller, 0, &"c".into(), "bash"));
        assert_ne!(a.id, missing_result(&caller, 1, &"d".into(), "bash").id);
        assert!(matches!(&a.parts[0], Part::ToolResult { output, is_error: true, interrupted: true, .. }
            if output == INTERRUPTED));
    }

    #[test]
    fn repair_reasoning_goes_to_its_own_model_only() {
        let scope = ModelScope {
            provider: "p".into(),
            model: "m".into(),
            images: true,
            max_images: 1,
            max_media_bytes: 1,
        };
        let reasoning = |provider: &str, model: &str, signature: Option<&str>| Part::Reasoning {
            text: "t".into(),
            signature: signature.map(str::to_owned),
            redacted: None,
            provider: provider.into(),
            model: model.into(),
            spill: None,
            extra: Map::new(),
        };
        for (part, want) in [
            (reasoning("p", "m", Some("s")), true),
            (reasoning("p", "m", None), true),
            (reasoning("p", "other", Some("s")), false),
            (reasoning("p", "other", None), false),
            (reasoning("other", "m", Some("s")), false),
            (Part::text("x"), true),
        ] {
            assert_eq!(reasoning_fits(&part, &scope), want, "{part:?}");
        }
    }

    #[test]
    fn repair_input_is_always_an_object() {
        for (input, want) in
            [(json!({"a": 1}), json!({"a": 1})), (json!([1]), json!({})), (json!("x"), json!({}))]
        {
            assert_eq!(*object_input(&input), want);
        }
    }
}
