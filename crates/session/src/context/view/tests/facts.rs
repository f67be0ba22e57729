//! Turn state, journal, boundaries, notices, spans.

use super::*;

type Make = fn(&mut Ledger);

/// Name of the case, entries, and the turn state that follows from them.
const TURN_STATES: &[(&str, Make, TurnState)] = &[
    ("nothing yet", |_| {}, TurnState::AwaitingUser),
    (
        "a prompt",
        |l| {
            l.user("x");
        },
        TurnState::Unanswered,
    ),
    (
        "an answer",
        |l| {
            l.user("x");
            l.assistant(vec![Part::text("y")]);
        },
        TurnState::AwaitingUser,
    ),
    (
        "calls",
        |l| {
            l.user("x");
            l.calls(&["a"]);
        },
        TurnState::MidTurn,
    ),
    (
        "results",
        |l| {
            l.user("x");
            l.calls(&["a"]);
            l.result("a", "1");
        },
        TurnState::MidTurn,
    ),
    (
        "`stop` beside calls has not stopped",
        |l| {
            l.user("x");
            let message = Message::assistant(vec![Part::tool_call("a", "read", json!({}))]);
            let id = message.id;
            l.message(message);
            l.push(EntryKind::Finish { message: id, reason: FinishReason::Stop });
        },
        TurnState::MidTurn,
    ),
    (
        "still streaming, or died",
        |l| {
            l.user("x");
            l.message(Message::assistant(vec![Part::text("y")]));
        },
        TurnState::MidTurn,
    ),
    (
        "media that nobody has answered",
        |l| {
            l.message(Message::new(Role::User, Origin::User, vec![Part::text("x"), image("i")]));
        },
        TurnState::Unanswered,
    ),
    (
        "media",
        |l| {
            l.message(Message::new(Role::User, Origin::User, vec![Part::text("x"), image("i")]));
            l.calls(&["a"]);
        },
        TurnState::Media,
    ),
    (
        "a steering message",
        |l| {
            l.user("x");
            l.calls(&["a"]);
            l.result("a", "1");
            l.user("y");
        },
        TurnState::Unanswered,
    ),
    (
        "a continuation",
        |l| {
            l.user("x");
            l.assistant(vec![Part::text("y")]);
            l.go_on("continue");
        },
        TurnState::MidTurn,
    ),
    (
        "an interrupt",
        |l| {
            l.user("x");
            l.calls(&["a"]);
            l.push(EntryKind::Interrupt);
        },
        TurnState::AwaitingUser,
    ),
    (
        "what is stored counts",
        |l| {
            l.user("x");
            l.push(EntryKind::TurnEnd { end: "budget".into(), state: TurnState::Unanswered });
        },
        TurnState::Unanswered,
    ),
];

#[test]
fn turn_state_table() {
    for (rule, make, want) in TURN_STATES {
        let mut ledger = Ledger::new();
        make(&mut ledger);
        assert_eq!(ledger.view.turn_state(), *want, "{rule}");
    }
}

#[test]
fn the_journal_remembers_every_call_for_ever() {
    let mut ledger = Ledger::new();
    let journal = |state, tool: Option<&str>, result| EntryKind::ToolJournal {
        call_id: "a".into(),
        state,
        tool: tool.map(str::to_owned),
        subject: tool.map(|_| "cargo test".to_owned()),
        result,
    };
    ledger.user("go");
    ledger.calls(&["a", "b"]);
    assert_eq!(ledger.view.call_known(&"a".into()), None);
    ledger.push(journal(JournalState::Intended, Some("bash"), Value::Null));
    ledger.push(journal(JournalState::Started, None, Value::Null));
    assert_eq!(ledger.view.call_known(&"a".into()), Some(JournalState::Started));
    ledger.push(journal(JournalState::Finished, None, json!({"exit": 0})));
    ledger.push(journal(JournalState::Started, None, Value::Null));
    let line = Line {
        call_id: "a",
        tool: "bash",
        subject: Some("cargo test"),
        result: "{\"exit\":0}",
        state: JournalState::Finished,
        seq: Seq(4),
    };
    assert_eq!(ledger.view.journal().iter().collect::<Vec<_>>(), [line]);
    ledger.result("b", "x");
    assert_eq!(ledger.view.call_known(&"b".into()), Some(JournalState::Finished), "an answered call has run");
    ledger.push(EntryKind::State { key: "todo".into(), value: json!([1]) });
    ledger.push(EntryKind::State { key: "todo".into(), value: json!([2]) });
    assert_eq!(ledger.view.state("todo"), Some(&json!([2])));
}

#[test]
fn boundaries_are_those_that_the_ledger_records() {
    let item = |text: &str| SystemItem { kind: SystemKind::Rules, path: None, text: text.into() };
    let tools = |hash: &str| EntryKind::Tools { names: vec!["read".into()], hash: hash.into(), specs: None };
    let mut ledger = Ledger::new();
    ledger.push(EntryKind::System { items: vec![item("rules <system-reminder>"), item(" ")] });
    ledger.push(tools("1"));
    ledger.push(EntryKind::ModelSwitch { model: "p/m".into() });
    ledger.user("go");
    let mut generation = ledger.generation();
    assert_eq!(
        ledger.view.context().system.iter().map(AsRef::as_ref).collect::<Vec<&str>>(),
        ["rules &lt;system-reminder>"]
    );
    for (kind, boundary) in [
        (EntryKind::System { items: vec![item("rules <system-reminder>"), item(" ")] }, false),
        (tools("1"), false),
        (EntryKind::ModelSwitch { model: "p/m".into() }, false),
        (EntryKind::Title { title: "t".into() }, false),
        (EntryKind::Notice { text: "n".into(), extra: Map::new() }, false),
        (prune_of("nothing that is there"), false),
        (EntryKind::Pin { target: PinTarget::Call("x".into()) }, false),
        (EntryKind::Unknown(Map::new()), false),
        (EntryKind::System { items: vec![item("other")] }, true),
        (tools("2"), true),
        (EntryKind::ModelSwitch { model: "p/n".into() }, true),
    ] {
        let what = format!("{kind:?}");
        ledger.push(kind);
        let now = ledger.generation();
        assert_eq!(now != generation, boundary, "{what}");
        generation = now;
    }
}

#[test]
fn notices_that_the_ledger_holds_are_not_given_again() {
    let mut ledger = Ledger::new();
    ledger.user("go");
    ledger.calls(&["a"]);
    ledger.view.context();
    for text in ledger.view.take_notices() {
        ledger.push(EntryKind::Notice { text, extra: Map::new() });
    }
    let mut resumed = View::fold(Policy::default(), scope(), &ledger.entries);
    resumed.context();
    assert!(resumed.take_notices().is_empty());
}

#[test]
fn spans_show_what_fills_the_window() {
    let (mut ledger, starts) = three_turns();
    ledger.push(EntryKind::System {
        items: vec![SystemItem {
            kind: SystemKind::Rules,
            path: Some("/p/AGENTS.md".into()),
            text: "rules".into(),
        }],
    });
    ledger.compact(starts[2], |c| {
        c.repeated.state = "STATE".into();
        c.trigger = CompactionTrigger::Manual;
    });
    ledger.go_on("continue");
    ledger.view.context();
    let tool = ToolSpec { name: "read".into(), description: "reads".into(), input_schema: json!({}).into() };
    let spans: Vec<(becket_types::SpanKind, String)> =
        ledger.view.spans(&[tool]).into_iter().map(|s| (s.kind, s.label)).collect();
    use becket_types::SpanKind as K;
    let want = [
        (K::Rules, "/p/AGENTS.md"),
        (K::Tools, "read"),
        (K::Summary, "summary"),
        (K::State, "session state"),
        (K::User, "user"),
        (K::ToolCall, "read"),
        (K::ToolOutput, "read"),
        (K::Assistant, "assistant"),
        (K::Continuation, "continuation"),
    ];
    assert_eq!(spans, want.map(|(kind, label)| (kind, label.to_owned())));
    // A state message with attached files is recognised.
    ledger.compact(starts[2], |c| {
        c.repeated.state = format!("STATE\n\n{} 1\tfn main() {{}}", crate::context::summary::FILES_HEAD);
        c.trigger = CompactionTrigger::Manual;
    });
    ledger.view.context();
    let labels: Vec<String> = ledger.view.spans(&[]).into_iter().map(|span| span.label).collect();
    assert!(labels.iter().any(|label| label == "session state, attached files"), "{labels:?}");
    assert_eq!(
        ledger.view.tool_stubs(&[]).len(),
        1,
        "a tool that is gone keeps a stub while history calls it"
    );
}

#[test]
fn only_tools_that_were_there_once_leave_a_stub() {
    let tools = |names: &[&str]| EntryKind::Tools {
        names: names.iter().map(|n| (*n).to_owned()).collect(),
        hash: names.concat(),
        specs: None,
    };
    let spec = |name: &str| ToolSpec {
        name: name.into(),
        description: String::new(),
        input_schema: json!({ "type": "object" }).into(),
    };
    let mut ledger = Ledger::new();
    ledger.push(tools(&["edit", "read"]));
    ledger.user("go");
    for (id, name) in [("a", "edit"), ("b", "made_up")] {
        ledger.assistant(vec![Part::tool_call(id, name, json!({}))]);
        ledger.result(id, "x");
    }
    let stubs = |ledger: &mut Ledger, have: &[ToolSpec]| {
        ledger.view.context();
        ledger.view.tool_stubs(have).into_iter().map(|s| s.name).collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    assert_eq!(
        stubs(&mut ledger, &[spec("edit"), spec("read")]),
        none,
        "a slip leaves the tools as they are"
    );
    ledger.push(tools(&["read"]));
    assert_eq!(stubs(&mut ledger, &[spec("read")]), ["edit"]);
    assert_eq!(stubs(&mut ledger, &[]), ["edit", "made_up"], "calls are never sent without any tool");
}
