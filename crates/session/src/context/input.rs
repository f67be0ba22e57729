//! Shortened inputs of calls: the arguments of a call that ran already, with long strings shown in part.
//!
//! A call repeats its arguments in every later request. A call that writes a large file would fill the window
//! for good, because the newest step stays whole in every compaction. So the inputs of the newest step together
//! have a share of the window; larger ones are cut when the step ends, before any request has shown them. The
//! decision is an entry ([`CutInput`]), so the view depends only on the ledger, and the cached prefix is not
//! affected. The ledger keeps every input whole, and `recall` returns it.
//!
//! Invariants: the result is an object, so every provider takes it. Small inputs stay whole. A cut is at a
//! character border.

use super::budget::{estimate_json, estimate_part};
use super::cut;
use becket_types::{CallId, CutInput, EntryKind, Message, Part, Role, Tokens};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::sync::Arc;

/// Prefix of the ids with which `recall` returns an input.
pub(crate) const RECALL: &str = "input:";
/// The share of the window that the inputs of one step may take together.
pub const SHARE: f64 = 0.25;
/// An input of fewer base tokens than this is never cut.
const SMALL: u64 = 256;
/// Minimum number of bytes of a string that is shown in part. If even this does not fit, the whole input is replaced by a notice.
const MIN_KEEP: u64 = 32;
/// Upper bound for the bytes of text that cost one base token; limits the search for a fitting length.
const MOST_BYTES: u64 = 16;
/// Tokens around an input that a cut does not change: the name, the id and the provider's format.
const FRAME: u64 = 8;

/// Returns the call whose input an id for `recall` names; `None` if it names something else.
pub(crate) fn call_of(id: &CallId) -> Option<CallId> {
    id.as_str().strip_prefix(RECALL).map(CallId::from)
}

/// Returns an input as text for `recall`: each argument under its name, strings as they are.
pub(crate) fn text(input: &Value) -> String {
    let Value::Object(fields) = input else { return input.to_string() };
    let mut out = String::new();
    for (key, value) in fields {
        let _ = match value {
            Value::String(text) => writeln!(out, "{key}:\n{text}"),
            other => writeln!(out, "{key}: {other}"),
        };
    }
    out
}

/// Returns the notice in place of the bytes that are left out.
fn notice(call_id: &CallId, left_out: usize) -> String {
    format!(
        "[{left_out} bytes of this argument are left out here to save space; the call itself had all of them; recall \
         {{\"id\":\"{RECALL}{call_id}\"}} shows them]"
    )
}

/// Returns the input as it is shown with this cut.
pub(super) fn render(input: &Value, cut: &CutInput) -> Value {
    if cut.keep == 0 {
        let whole = usize::try_from(cut.bytes).unwrap_or(usize::MAX);
        return json!({ "left_out": notice(&cut.call_id, whole) });
    }
    shorten(input, cut)
}

fn shorten(value: &Value, cut: &CutInput) -> Value {
    match value {
        Value::String(text) => Value::String(shorten_text(text, cut)),
        Value::Array(items) => items.iter().map(|item| shorten(item, cut)).collect(),
        Value::Object(fields) => Value::Object(
            fields.iter().map(|(key, value)| (key.clone(), shorten(value, cut))).collect::<Map<_, _>>(),
        ),
        other => other.clone(),
    }
}

/// Keeps about `keep` bytes of a text: two thirds of them at its beginning.
fn shorten_text(text: &str, cut: &CutInput) -> String {
    let keep = usize::try_from(cut.keep).unwrap_or(usize::MAX);
    let tail = keep / 3;
    let from = text.floor_char_boundary(keep - tail);
    let to = text.ceil_char_boundary(text.len().saturating_sub(tail));
    let notice = if from < to { notice(&cut.call_id, to - from) } else { String::new() };
    // A string that the notice would not make shorter stays whole.
    if from >= to || notice.len() + 2 >= to - from {
        return text.to_owned();
    }
    let mut out = text[..from].to_owned();
    let _ = write!(out, "\n{notice}\n{}", &text[to..]);
    out
}

/// Returns the estimate of a part of an assistant's message whose inputs may be cut.
pub(super) fn estimate<'a>(part: &Part, cut: impl Fn(&CallId) -> Option<&'a CutInput>) -> Tokens {
    match part {
        Part::ToolCall { call_id, .. } => match cut(call_id) {
            Some(cut) => estimate_part(&shortened(part, cut)),
            None => estimate_part(part),
        },
        _ => estimate_part(part),
    }
}

/// Returns the part with its input shortened, without a copy of the whole input.
fn shortened(part: &Part, cut: &CutInput) -> Part {
    match part {
        Part::ToolCall { call_id, name, input, invalid, extra } => Part::ToolCall {
            call_id: call_id.clone(),
            name: name.clone(),
            input: render(input, cut),
            invalid: invalid.clone(),
            extra: extra.clone(),
        },
        _ => part.clone(),
    }
}

/// Returns the message with the inputs of these cuts shortened; the same message if it has none of them.
pub(super) fn with_cuts<'a>(
    message: &Arc<Message>,
    cut: impl Fn(&CallId) -> Option<&'a CutInput>,
) -> Arc<Message> {
    if message.role != Role::Assistant || !message.call_ids().any(|id| cut(id).is_some()) {
        return Arc::clone(message);
    }
    let parts = message.parts.iter().map(|part| match part {
        Part::ToolCall { call_id, .. } => {
            cut(call_id).map_or_else(|| part.clone(), |cut| shortened(part, cut))
        }
        _ => part.clone(),
    });
    Arc::new(Message {
        id: message.id,
        seq: message.seq,
        role: message.role,
        origin: message.origin,
        parts: parts.collect(),
        metadata: message.metadata.clone(),
        extra: message.extra.clone(),
    })
}

/// Chooses the cuts that bring the inputs of a message's calls together to `room` base tokens. `now` returns the cut of a call that is
/// already in force. Returns no entry if the inputs fit.
pub(super) fn fit<'a>(
    message: &Message,
    room: Tokens,
    now: impl Fn(&CallId) -> Option<&'a CutInput>,
) -> Option<EntryKind> {
    let calls: Vec<(&CallId, &Value, u64)> = message
        .parts
        .iter()
        .filter_map(|part| {
            let Part::ToolCall { call_id, input, invalid: None, .. } = part else { return None };
            let shown = now(call_id).map(|cut| render(input, cut));
            Some((call_id, input, estimate_json(shown.as_ref().unwrap_or(input)).0))
        })
        .collect();
    if calls.iter().map(|(_, _, tokens)| tokens).sum::<u64>() <= room.0 {
        return None;
    }
    let level = cut::level(calls.iter().map(|(_, _, tokens)| *tokens).collect(), room.0).max(SMALL);
    let mut freed = Tokens(0);
    let inputs: Vec<CutInput> = calls
        .into_iter()
        .filter(|(_, input, tokens)| *tokens > level && input.is_object())
        .filter_map(|(call_id, input, tokens)| {
            let cut = choose(call_id, input, level);
            let shown = estimate_json(&render(input, &cut)).0;
            let saved = tokens.checked_sub(shown).filter(|saved| *saved > FRAME)?;
            freed += Tokens(saved);
            Some(cut)
        })
        .collect();
    (!inputs.is_empty()).then_some(EntryKind::CutInputs { inputs, freed_tokens: freed })
}

/// Returns the cut that shows as much of an input as `room` base tokens hold.
fn choose(call_id: &CallId, input: &Value, room: u64) -> CutInput {
    let bytes = serde_json::to_string(input).map_or(0, |text| text.len()) as u64;
    let with = |keep: u64| CutInput { call_id: call_id.clone(), bytes, keep };
    let fits = |keep: u64| estimate_json(&render(input, &with(keep))).0 <= room;
    if !fits(MIN_KEEP) {
        return with(0);
    }
    // A longer text would cost more than the room in any case ([`MOST_BYTES`]), so it is not tried.
    let (mut low, mut high) = (MIN_KEEP, bytes.min(room.saturating_mul(MOST_BYTES)).max(MIN_KEEP));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    with(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn calls(inputs: &[Value]) -> Message {
        let call = |(n, input): (usize, &Value)| Part::tool_call(format!("c{n}"), "write", input.clone());
        Message::assistant(inputs.iter().enumerate().map(call).collect())
    }

    fn cuts(message: &Message, room: u64) -> Vec<CutInput> {
        match fit(message, Tokens(room), |_| None) {
            Some(EntryKind::CutInputs { inputs, .. }) => inputs,
            _ => Vec::new(),
        }
    }

    #[test]
    fn small_inputs_stay_and_large_ones_share_the_room() {
        let text = "one two three\n".repeat(40_000);
        let message =
            calls(&[json!({"path": "a", "content": text}), json!({"path": "b", "content": "short"})]);
        assert_eq!(cuts(&message, 1_000_000), [], "everything fits");
        let cuts = cuts(&message, 2_000);
        assert_eq!(cuts.len(), 1);
        let shown = with_cuts(&Arc::new(message), |id| cuts.iter().find(|cut| cut.call_id == *id));
        let Part::ToolCall { input, .. } = &shown.parts[0] else { panic!() };
        assert_eq!(input["path"], "a");
        let content = input["content"].as_str().unwrap();
        assert!(content.starts_with("one two three\n") && content.ends_with("one two three\n"));
        assert!(content.contains("recall {\"id\":\"input:c0\"}"), "{content}");
        let tokens = estimate_json(input).0;
        assert!((1_500..=2_000).contains(&tokens), "{tokens}");
    }

    #[test]
    fn an_input_without_long_strings_becomes_a_notice() {
        let many: Vec<u64> = (0..200_000).collect();
        let message = calls(&[json!({ "numbers": many })]);
        let cuts = cuts(&message, 2_000);
        assert_eq!(cuts[0].keep, 0);
        let Part::ToolCall { input, .. } = &message.parts[0] else { panic!() };
        assert!(estimate_json(&render(input, &cuts[0])).0 < SMALL);
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(Value::from),
            ("[a-zé🦀\\n ]{1,12}", 1_usize..30_000).prop_map(|(text, n)| Value::from(text.repeat(n))),
        ];
        leaf.prop_recursive(4, 40, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::vec(("[a-z]{1,9}", inner), 0..8)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn any_inputs_fit_and_stay_objects(inputs in prop::collection::vec(value(), 1..12), room in 300_u64..20_000) {
            let inputs: Vec<Value> = inputs.into_iter().map(|value| json!({ "value": value })).collect();
            let message = calls(&inputs);
            let cuts = cuts(&message, room);
            let of = |id: &CallId| cuts.iter().find(|cut| cut.call_id == *id);
            let shown = with_cuts(&Arc::new(message.clone()), of);
            let mut sum = 0;
            for part in &shown.parts {
                let Part::ToolCall { input, .. } = part else { panic!() };
                prop_assert!(input.is_object());
                sum += estimate_json(input).0;
            }
            prop_assert!(sum <= room.max(SMALL * inputs.len() as u64), "{sum} > {room}");
            let estimated: u64 = message.parts.iter().map(|part| estimate(part, of).0).sum();
            let real: u64 = shown.parts.iter().map(|part| estimate_part(part).0).sum();
            prop_assert_eq!(estimated, real);
        }
    }
}
