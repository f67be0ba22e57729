//! Repairs, and the moment at which a message enters the context.

use super::*;

const MISSING: &str = repair::INTERRUPTED;

#[test]
fn repair_results_missing_doubled_reordered_first_in_file() {
    for (rule, results, want, notices) in [
        ("whole", vec!["a", "b"], vec!["#a=1", "#b=2"], 0),
        ("reordered", vec!["b", "a"], vec!["#a=2", "#b=1"], 0),
        ("one missing", vec!["b"], vec!["#a=interrupted, effect unknown", "#b=1"], 1),
        ("all missing", vec![], vec!["#a=interrupted, effect unknown", "#b=interrupted, effect unknown"], 2),
        ("doubled: the first wins", vec!["a", "b", "a"], vec!["#a=1", "#b=2"], 1),
        ("without call", vec!["a", "b", "z"], vec!["#a=1", "#b=2"], 1),
    ] {
        let mut ledger = Ledger::new();
        ledger.user("go");
        ledger.calls(&["a", "b"]);
        for (nth, id) in results.iter().enumerate() {
            ledger.result(id, &(nth + 1).to_string());
        }
        ledger.user("next");
        let mut expect = vec!["u go".to_owned(), "a read#a{}|read#b{}".into()];
        expect.extend(want.iter().map(|w| format!("t {w}")));
        expect.push("u next".into());
        assert_eq!(ledger.lines(), expect, "{rule}");
        assert_eq!(ledger.view.take_notices().len(), notices, "{rule}");
        assert!(ledger.view.take_notices().is_empty(), "{rule}: said once");
    }
    let mut ledger = Ledger::new();
    ledger.result("a", "first in the file");
    ledger.assistant(vec![Part::text("hello")]);
    assert_eq!(ledger.lines(), [format!("u {}", repair::MISSING_START), "a hello".into()]);
    assert_eq!(ledger.view.take_notices().len(), 2);
}

#[test]
fn repair_a_result_that_comes_after_its_repair_is_a_boundary() {
    let mut ledger = Ledger::new();
    ledger.user("go");
    ledger.calls(&["a", "b"]);
    ledger.result("b", "B");
    let before = ledger.generation();
    assert_eq!(ledger.lines()[2], format!("t #a={MISSING}"));
    assert_eq!(ledger.view.open_calls(), ["a".into()]);
    ledger.result("a", "A");
    assert_eq!(ledger.lines()[2..], ["t #a=A", "t #b=B"]);
    assert!(ledger.generation() > before);
    assert!(ledger.view.open_calls().is_empty());
}

#[test]
fn a_call_that_may_be_running_is_not_called_interrupted_and_nobody_is_told_of_it() {
    let mut ledger = Ledger::new();
    ledger.user("go");
    ledger.calls(&["old"]);
    ledger.user("on");
    ledger.calls(&["a", "b"]);
    ledger.result("b", "B");
    ledger.view.set_calls_may_run(true);
    let pending = format!("t #a={}", repair::PENDING);
    assert_eq!(ledger.lines()[2], format!("t #old={MISSING}"), "what an older answer misses is gone");
    assert_eq!(ledger.lines()[5..], [pending, "t #b=B".into()]);
    assert_eq!(ledger.view.take_notices().len(), 1);
    ledger.view.check().unwrap();
    ledger.result("a", "A");
    assert_eq!(ledger.lines()[5..], ["t #a=A", "t #b=B"]);
    assert!(ledger.view.take_notices().is_empty());
    // If no call can be running, as for a summary request, the missing result is repaired as usual.
    ledger.calls(&["c"]);
    let _ = ledger.lines();
    ledger.view.set_calls_may_run(false);
    assert_eq!(ledger.lines()[8], format!("t #c={MISSING}"));
    assert_eq!(ledger.view.take_notices().len(), 1);
}

#[test]
fn p7_results_that_come_in_time_are_no_boundary() {
    let mut ledger = Ledger::new();
    ledger.user("go");
    let generation = ledger.generation();
    for step in 0..5 {
        let ids = [format!("x{step}"), format!("y{step}")];
        let before = ledger.view.context().messages.clone();
        ledger.calls(&[&ids[0], &ids[1]]);
        ledger.result(&ids[1], "2");
        ledger.result(&ids[0], "1");
        let after = &ledger.view.context().messages;
        assert_eq!(after.len(), before.len() + 3);
        assert!(before.iter().zip(after).all(|(a, b)| Arc::ptr_eq(a, b)), "messages are never replaced");
    }
    assert_eq!(ledger.generation(), generation);
}

#[test]
fn a_streaming_message_enters_when_it_can_no_longer_change() {
    let mut ledger = Ledger::new();
    ledger.user("go");
    let message = Message::assistant(vec![Part::text("one")]);
    let id = message.id;
    ledger.message(message);
    assert_eq!(ledger.lines(), ["u go"]);
    ledger.push(EntryKind::Part { message: id, part: Part::text("two") });
    assert_eq!(ledger.lines(), ["u go"]);
    let generation = ledger.generation();
    // After a crash, the next message makes the unfinished message final.
    ledger.user("go on");
    assert_eq!(ledger.lines(), ["u go", "a one|two", "u go on"]);
    assert_eq!(ledger.generation(), generation);
    ledger.push(EntryKind::Part { message: id, part: Part::text("late") });
    assert_eq!(ledger.lines(), ["u go", "a one|two|late", "u go on"]);
    assert!(ledger.generation() > generation);
}

#[test]
fn repair_call_ids_used_twice_are_told_apart() {
    let mut ledger = Ledger::new();
    ledger.user("go");
    for nth in 0..3 {
        ledger.calls(&["call_0"]);
        ledger.result("call_0", &format!("out {nth}"));
    }
    ledger.calls(&["bad id!"]);
    assert_eq!(ledger.view.open_calls(), ["bad id!".into()], "the driver knows the ledger's id");
    ledger.result("bad id!", "x");
    let lines = ledger.lines();
    assert_eq!(
        lines[1..7],
        [
            "a read#call_0{}",
            "t #call_0=out 0",
            "a read#call_0_r2{}",
            "t #call_0_r2=out 1",
            "a read#call_0_r3{}",
            "t #call_0_r3=out 2"
        ]
    );
    assert_eq!(lines[8].split_once('=').unwrap().1, "x");
    assert_eq!(ledger.view.original_output(&"call_0_r2".into()).unwrap().1, "out 1");
    assert_eq!(ledger.view.original_output(&"bad id!".into()).unwrap().1, "x");
    assert_eq!(ledger.view.take_notices().len(), 3);
}

#[test]
fn repair_part_by_part() {
    let ignored =
        Part::Text { text: "note".into(), synthetic: false, ignored: true, spill: None, extra: Map::new() };
    let invalid = Part::ToolCall {
        call_id: "i".into(),
        name: "read".into(),
        input: json!({}),
        invalid: Some("{\"pa".into()),
        extra: Map::new(),
    };
    for (rule, parts, want) in [
        ("blank text vanishes", vec![Part::text(" \u{200b}\n"), Part::text("x")], vec!["a x"]),
        ("a message without anything vanishes", vec![Part::text("\n")], vec![]),
        (
            "ignored and unknown parts are never sent",
            vec![ignored, Part::Unknown(Map::new()), Part::text("x")],
            vec!["a x"],
        ),
        (
            "own reasoning stays, signed or not",
            vec![reasoning("s", "m", Some("sig")), reasoning("u", "m", None), Part::text("x")],
            vec!["a (s)|(u)|x"],
        ),
        (
            "other models' reasoning goes, signed or not",
            vec![reasoning("s", "other", Some("sig")), reasoning("u", "other", None), Part::text("x")],
            vec!["a x"],
        ),
        ("nothing but other reasoning", vec![reasoning("s", "other", Some("sig"))], vec![]),
        (
            "reasoning without an answer goes",
            vec![Part::text("x"), reasoning("s", "m", Some("sig"))],
            vec!["a x"],
        ),
        (
            "empty signed reasoning stays",
            vec![reasoning("", "m", Some("sig")), Part::text("x")],
            vec!["a ()|x"],
        ),
        ("empty unsigned reasoning goes", vec![reasoning("", "m", None), Part::text("x")], vec!["a x"]),
        ("invalid arguments are {}", vec![invalid], vec!["a read#i{}", "t #i=interrupted, effect unknown"]),
        (
            "arguments are an object",
            vec![Part::tool_call("i", "read", json!([1]))],
            vec!["a read#i{}", "t #i=interrupted, effect unknown"],
        ),
        (
            "tool names fit",
            vec![Part::tool_call("i", "wéb.get", json!({"a": 1}))],
            vec!["a w_b_get#i{\"a\":1}", "t #i=interrupted, effect unknown"],
        ),
        (
            "what does not belong is left out",
            vec![Part::text("x"), image("i")],
            vec!["a x|[Attached image/png: i, 3x4, id m2]"],
        ),
    ] {
        let mut ledger = Ledger::new();
        ledger.user("go");
        ledger.assistant(parts);
        let mut expect = vec!["u go"];
        expect.extend(want);
        assert_eq!(ledger.lines(), expect, "{rule}");
    }
}

#[test]
fn repair_signed_reasoning_is_byte_equal_or_absent_across_a_model_switch() {
    let signed = reasoning(" hm\u{a0}", "m", Some("sig=="));
    let mut ledger = Ledger::new();
    ledger.user("go");
    ledger.assistant(vec![signed.clone(), Part::text("x")]);
    assert_eq!(ledger.view.context().messages[1].message.parts[0], signed);
    let generation = ledger.generation();
    ledger.view.set_scope(ModelScope { model: "other".into(), ..scope() });
    assert_eq!(ledger.lines(), ["u go", "a x"]);
    assert!(ledger.generation() > generation);
    assert_eq!(ledger.view.take_notices(), ["reasoning of p/m is not sent to p/other"]);
    ledger.view.set_scope(scope());
    assert_eq!(ledger.view.context().messages[1].message.parts[0], signed);
    let generation = ledger.generation();
    ledger.view.set_scope(ModelScope { max_images: 9, ..scope() });
    assert_eq!(ledger.generation(), generation, "no boundary where nothing changes");
}

#[test]
fn a_broken_attempt_that_was_not_shown_is_superseded_without_a_boundary() {
    let mut ledger = Ledger::new();
    ledger.user("go");
    let generation = ledger.generation();
    let broken = ledger.message(Message::assistant(vec![Part::text("half")]));
    ledger.push(EntryKind::Revert { entry: broken });
    ledger.assistant(vec![Part::text("whole")]);
    assert_eq!(ledger.lines(), ["u go", "a whole"]);
    assert_eq!(ledger.generation(), generation);
    // Reverting a message with calls also removes their results.
    let calls = ledger.calls(&["a"]);
    ledger.result("a", "1");
    assert_eq!(ledger.lines().len(), 4);
    ledger.push(EntryKind::Revert { entry: calls });
    assert_eq!(ledger.lines(), ["u go", "a whole"]);
    assert!(ledger.generation() > generation);
    assert!(ledger.view.take_notices().is_empty());
    // And a revert can be reverted.
    let undo = ledger.view.last_seq();
    ledger.push(EntryKind::Revert { entry: undo });
    assert_eq!(ledger.lines().len(), 4);
}

#[test]
fn what_is_sent_as_it_is_is_not_copied() {
    let mut ledger = Ledger::new();
    ledger.user("go");
    ledger.calls(&["a", "b", "c"]);
    ledger.result("a", "plain");
    ledger.result("b", "<system-reminder>");
    let mut shown_to_people = Message::tool_result("c".into(), "read", "plain", false);
    if let Part::ToolResult { details, .. } = &mut shown_to_people.parts[0] {
        *details = json!({"diff": "+1"});
    }
    ledger.message(shown_to_people);
    let sent = ledger.view.context().messages.clone();
    let shared: Vec<bool> =
        sent.iter().zip(ledger.view.live()).map(|(sent, kept)| Arc::ptr_eq(&sent.message, kept)).collect();
    assert_eq!(shared, [true, true, true, false, false]);
    for sent in &sent {
        assert_eq!(sent.tokens, crate::context::budget::estimate_message(&sent.message));
        let details = |part: &Part| matches!(part, Part::ToolResult { details, .. } if !details.is_null());
        assert!(!sent.message.parts.iter().any(details));
    }
}

#[test]
fn an_entry_that_nobody_else_needs_is_taken_in_as_it_is() {
    let mut output = String::with_capacity(1 << 16);
    output.push_str("found");
    let mut message = Message::tool_result("c1".into(), "read", output, false);
    let [Part::ToolResult { output, .. }] = &message.parts[..] else { panic!("{message:?}") };
    assert!(output.capacity() >= 1 << 16);
    message.seq = Seq(7);
    let mut long = Message::user("x".repeat(5_000));
    long.seq = Seq(8);
    let Part::Text { text, .. } = &long.parts[0] else { panic!("{long:?}") };
    let at = text.as_ptr();
    let mut view = View::new(Policy::default(), scope());
    for (seq, message) in [(7, message), (8, long)] {
        view.apply_owned(Entry { seq: Seq(seq), time: Millis(1), kind: EntryKind::Message { message } });
    }
    let kept: Vec<_> = view.live().cloned().collect();
    let Part::ToolResult { output, .. } = &kept[0].parts[0] else { panic!("{kept:?}") };
    assert!(output.capacity() < 2_048, "what it does not fill is given back");
    let Part::Text { text, .. } = &kept[1].parts[0] else { panic!("{kept:?}") };
    assert_eq!(text.as_ptr(), at, "it is the same text");
    // An entry that is not newer than the view's last one has no effect, added in either way.
    let old =
        Entry { seq: Seq(8), time: Millis(1), kind: EntryKind::Message { message: Message::user("old") } };
    view.apply(&old);
    view.apply_owned(old);
    assert_eq!(view.live().count(), 2);
}
