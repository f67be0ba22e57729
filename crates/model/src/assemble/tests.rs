//! Tests of the assembler alone.

use super::*;
use serde_json::json;

fn assembler(cap: u64) -> Assembler {
    Assembler::new(AnswerOf {
        provider: "p".into(),
        model: "m".into(),
        cap,
        seen: SeenCalls::default(),
        server: "s".into(),
        fatal_codes: Vec::new(),
        id: Arc::default(),
    })
}

#[test]
fn a_cut_call_never_comes_out_and_says_length() {
    for (reason, cap, output, arguments, want) in [
        (FinishReason::Length, 100, 50, "{\"a\":", FinishReason::Length),
        (FinishReason::Length, 100, 50, "", FinishReason::Length),
        (FinishReason::ToolCalls, 100, 100, "{\"a\":", FinishReason::Length),
        (FinishReason::Stop, 100, 100, "{\"a\":", FinishReason::Length),
    ] {
        let mut a = assembler(cap);
        let slot = a.call("c1", "write");
        a.call_arguments(slot, arguments);
        a.call_closed(slot);
        a.usage(Usage { output, ..Usage::default() });
        a.stopped(reason.clone());
        a.end();
        let events = a.take();
        assert!(!events.iter().any(|e| matches!(e, ModelEvent::Part { .. })), "{reason:?}");
        assert_eq!(events.last(), Some(&ModelEvent::Finish(want)));
    }
}

#[test]
fn invalid_arguments_are_kept_as_text() {
    let mut a = assembler(100);
    let slot = a.call("c1", "write");
    a.call_arguments(slot, "{\"a\":");
    a.stopped(FinishReason::ToolCalls);
    a.end();
    let parts: Vec<ModelEvent> =
        a.take().into_iter().filter(|e| matches!(e, ModelEvent::Part { .. })).collect();
    let [ModelEvent::Part { index: 0, part: Part::ToolCall { input, invalid, .. } }] = &parts[..] else {
        panic!("{parts:?}")
    };
    assert_eq!((input, invalid.as_deref()), (&json!({}), Some("{\"a\":")));
}

#[test]
fn a_long_text_is_whole_in_its_deltas_and_its_part_is_bounded() {
    let mut a = assembler(0);
    let (mut said, delta) = (0, "x".repeat(100_000));
    for _ in 0..50 {
        a.text(&delta);
        for event in a.take() {
            let ModelEvent::TextDelta { text, .. } = event else { panic!("{event:?}") };
            said += text.len();
        }
    }
    a.stopped(FinishReason::Stop);
    a.end();
    assert_eq!(said, 5_000_000);
    let events = a.take();
    let Some(ModelEvent::Part { part: Part::Text { text, .. }, .. }) = events.first() else {
        panic!("{events:?}")
    };
    assert!(text.len() > LONG_TEXT && text.len() <= LONG_TEXT + delta.len(), "{}", text.len());
}

/// Arguments that are too long are invalid, even if the beginning that is kept is a whole object.
#[test]
fn arguments_that_are_too_long_never_run() {
    for beginning in ["{\"a\":\"", "{}"] {
        let mut a = assembler(0);
        let slot = a.call("c1", "write");
        a.call_arguments(slot, beginning);
        let filler = " ".repeat(1 << 20);
        (0..5).for_each(|_| a.call_arguments(slot, &filler));
        a.call_closed(slot);
        a.stopped(FinishReason::ToolCalls);
        a.end();
        let calls: Vec<_> = a.take().into_iter().filter(|e| matches!(e, ModelEvent::Part { .. })).collect();
        let [ModelEvent::Part { part: Part::ToolCall { input, invalid: Some(text), .. }, .. }] = &calls[..]
        else {
            panic!("{calls:?}")
        };
        assert_eq!(input, &json!({}));
        assert!(text.starts_with(beginning) && text.len() < 3_000, "{}", text.len());
        assert!(text.contains(&format!("[{} bytes; ", (5 << 20) + beginning.len())), "{}", &text[2_000..]);
    }
}

#[test]
fn ids_pass_unchanged_unless_they_are_missing_or_doubled_in_one_answer() {
    let mut a = assembler(0);
    a.of.seen.note(&CallId("old".into()));
    for raw in ["x", "old", "x", "", " "] {
        a.call(raw, "t");
    }
    let ids: Vec<&str> = a.calls.iter().map(|c| c.id.as_str()).collect();
    assert_eq!(ids[..2], ["x", "old"]);
    assert!(ids[2..].iter().all(|id| id.starts_with("call_")), "{ids:?}");
    assert_eq!(ids.iter().collect::<std::collections::HashSet<_>>().len(), 5);
}
