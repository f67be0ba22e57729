//! The three formats, each from the same list of events. No agent, no model: a front end is a function of events.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "formats/programs.rs"]
mod programs;

use becket_print::{ExitStatus, Format, PrintOptions, Printer, Reaction, Schema};
use becket_types::{
    CallId, CompactedByHand, CompactionTrigger, Cost, DenialCause, Event, FinishReason, Message, Millis,
    NoticeLevel, Part, PermissionDenial, Seq, SessionId, Synthetic, Tokens, TurnCompaction, TurnEnd,
    TurnResult, Usage,
};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Sink {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn result(end: TurnEnd, text: &str) -> TurnResult {
    TurnResult {
        end,
        text: text.into(),
        stop_reason: Some("end_turn".to_owned()),
        steps: 2,
        duration: Millis(10),
        api_duration: Millis(7),
        usage: Usage { input: 5, output: 3, cache_read: 90, ..Usage::default() },
        cost: Cost(0.5),
        models: Vec::new(),
        denials: Vec::new(),
        compaction: TurnCompaction { count: 1, by_hand: None },
        unsaved: false,
    }
}

fn session() -> SessionId {
    "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap()
}

fn started() -> Event {
    Event::SessionStarted {
        session: session(),
        cwd: "/tmp/p".into(),
        model: "anthropic/m".into(),
        tools: vec!["read".into()],
        permission_mode: "default".into(),
        skills: vec!["commit".into()],
        api_key_source: "ANTHROPIC_API_KEY".into(),
        resumed: false,
        title: None,
    }
}

fn continuation() -> Message {
    let mut message = Message::synthetic(Synthetic::CompactionContinue, "continue");
    message.metadata.compaction_continue = true;
    message
}

fn run_of_a_compacting_turn(text: &str) -> Vec<Event> {
    let assistant = Message::assistant(vec![Part::text(text)]);
    let id = assistant.id;
    vec![
        started(),
        Event::TextDelta { message: id, index: 0, text: text.to_owned() },
        Event::AssistantMessage {
            message: assistant,
            finish: FinishReason::Stop,
            usage: Usage::default(),
            cost: Cost(0.0),
            ttft: Some(Millis(4)),
            api_time: Millis(7),
        },
        Event::ToolFinished {
            message: Message::tool_result(CallId::from("c1"), "read", "file text", false),
            changes: Vec::new(),
            duration: Millis(1),
            original: None,
        },
        Event::CompactBoundary {
            entry: Seq(9),
            trigger: CompactionTrigger::Auto,
            pre_tokens: Tokens(148_231),
            post_tokens: Tokens(21_400),
            summary: "SECRET SUMMARY".into(),
            anchor: None,
            tail_from: Seq::default(),
            kept: Vec::new(),
            left_out: Vec::new(),
        },
        Event::SyntheticMessage { message: continuation() },
        Event::Notice { level: NoticeLevel::Warning, text: "careful\u{1b}[31m".into() },
        Event::TurnFinished(Box::new(result(TurnEnd::Completed, text))),
    ]
}

fn print(options: PrintOptions, events: &[Event]) -> (String, String, ExitStatus, Vec<Reaction>) {
    let (out, notes) = (Sink::default(), Sink::default());
    let mut printer = Printer::new(options, Box::new(out.clone()), Box::new(notes.clone()));
    let reactions = events.iter().map(|e| printer.event(e).unwrap()).collect();
    (out.text(), notes.text(), printer.status(), reactions)
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

#[test]
fn the_first_line_is_init_whatever_was_noticed_before() {
    let notice = || Event::Notice { level: NoticeLevel::Info, text: "the window is not known".into() };
    let user = || Event::UserMessage { message: Message::user("go"), client_id: None, steered: false };
    let subtypes = |driven: bool, events: &[Event]| -> Vec<String> {
        let options = PrintOptions { format: Format::StreamJson, driven, ..PrintOptions::default() };
        let (out, ..) = print(options, events);
        let lines = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|line| line["subtype"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let events = [notice(), started(), notice(), user(), notice(), user()];
    let three = ["init", "informational", "informational", "informational"];
    assert_eq!(subtypes(false, &events), three);
    assert_eq!(subtypes(true, &events), [&three[..], &["init"]].concat());
}

#[test]
fn text_is_the_answer_and_nothing_else() {
    let (out, notes, status, _) = print(PrintOptions::default(), &run_of_a_compacting_turn("done\n"));
    assert_eq!(out, "done\n");
    assert_eq!(notes, "becket: context compacted 148k → 21k tokens\nbecket: careful\\u{1b}[31m\n");
    assert_eq!(status, ExitStatus::Ok);
}

#[test]
fn text_for_a_terminal_shows_escapes() {
    let options = PrintOptions { terminal: true, ..PrintOptions::default() };
    let (out, _, _, _) =
        print(options, &[Event::TurnFinished(Box::new(result(TurnEnd::Completed, "\u{1b}]52;c;x")))]);
    assert_eq!(out, "\\u{1b}]52;c;x\n");
}

#[test]
fn stream_json_marks_what_is_not_for_people() {
    let options = PrintOptions { format: Format::StreamJson, version: "0".into(), ..PrintOptions::default() };
    let (out, _, _, _) = print(options, &run_of_a_compacting_turn("done"));
    let lines = lines(&out);
    let kinds: Vec<(&str, Option<&str>)> =
        lines.iter().map(|l| (l["type"].as_str().unwrap(), l["subtype"].as_str())).collect();
    assert_eq!(
        kinds,
        [
            ("system", Some("init")),
            ("assistant", None),
            ("user", None),
            ("system", Some("compact_boundary")),
            ("user", None),
            ("system", Some("informational")),
            ("result", Some("success")),
        ]
    );
    assert_eq!(lines[1]["message"]["content"], json!([{ "type": "text", "text": "done" }]));
    assert_eq!(lines[2]["message"]["content"][0]["tool_use_id"], "c1");
    assert!(lines[2].get("isSynthetic").is_none());
    assert_eq!(
        lines[3]["compact_metadata"],
        json!({ "trigger": "auto", "cause": "auto", "pre_tokens": 148_231, "post_tokens": 21_400, "entry": 9 })
    );
    assert_eq!(lines[4]["isSynthetic"], true);
    assert_eq!(lines[4]["metadata"], json!({ "compaction_continue": true }));
    assert_eq!(lines[6]["result"], "done");
    assert_eq!(lines[6]["num_turns"], 2);
    assert!(lines.iter().all(|l| l["session_id"] == session().to_string()));
    assert!(!out.contains("SECRET SUMMARY"));
}

/// A ledger that was imported or written by hand has the flag, and another origin.
#[test]
fn a_continuation_is_known_by_its_flag_alone() {
    let mut message = Message::user("SECRET repeated");
    message.metadata.compaction_continue = true;
    let events = [
        started(),
        Event::UserMessage { message, client_id: None, steered: false },
        Event::TurnFinished(Box::new(result(TurnEnd::Completed, "done"))),
    ];
    for replay in [false, true] {
        let options = PrintOptions { format: Format::StreamJson, replay, ..PrintOptions::default() };
        let (out, _, _, _) = print(options, &events);
        let line = &lines(&out)[1];
        assert_eq!(line["isSynthetic"], true, "{line}");
        assert_eq!(line["metadata"], json!({ "compaction_continue": true }));
        assert!(line.get("isReplay").is_none(), "{line}");
    }
    let (out, notes, _, _) = print(PrintOptions::default(), &events);
    assert_eq!(out, "done\n");
    assert!(!notes.contains("SECRET"), "{notes}");
}

#[test]
fn partial_messages_are_a_well_formed_sse_sequence() {
    let options = PrintOptions { format: Format::StreamJson, partial: true, ..PrintOptions::default() };
    let (out, _, _, _) = print(options, &run_of_a_compacting_turn("done"));
    let events: Vec<String> = lines(&out)
        .iter()
        .filter(|l| l["type"] == "stream_event")
        .map(|l| l["event"]["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        events,
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
}

#[test]
fn json_is_one_object_or_with_verbose_all_events() {
    let options = PrintOptions { format: Format::Json, ..PrintOptions::default() };
    let (out, _, _, _) = print(options, &run_of_a_compacting_turn("done"));
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&value["type"], &value["subtype"], &value["result"]),
        (&json!("result"), &json!("success"), &json!("done"))
    );
    assert_eq!(value["total_cost_usd"], 0.5);
    assert_eq!(value["usage"]["cache_read_input_tokens"], 90);

    let options = PrintOptions { format: Format::Json, verbose: true, ..PrintOptions::default() };
    let (out, _, _, _) = print(options, &run_of_a_compacting_turn("done"));
    let all: Vec<Value> = serde_json::from_str(&out).unwrap();
    assert_eq!(all.len(), 7);
    assert_eq!(all[6]["type"], "result");
}

#[test]
fn each_end_has_its_subtype_its_reason_and_its_exit_code() {
    let model_error =
        TurnEnd::ModelError { kind: "network".into(), message: "cannot connect".into(), status: Some(503) };
    for (end, subtype, why, status) in [
        (TurnEnd::MaxTurns { limit: 4 }, "error_max_turns", "4 requests", ExitStatus::MaxTurns),
        (TurnEnd::Budget { what: "spent $2".into() }, "error_max_budget_usd", "spent $2", ExitStatus::Budget),
        (TurnEnd::TokenLimit { what: "used 9".into() }, "error_max_tokens", "used 9", ExitStatus::Budget),
        (TurnEnd::TimeLimit { what: "30 s".into() }, "error_max_wall", "30 s", ExitStatus::TimeLimit),
        (TurnEnd::NoAnswer { what: "twice".into() }, "error_no_answer", "twice", ExitStatus::NoAnswer),
        (
            TurnEnd::CallsAsText { what: "`read`".into() },
            "error_calls_as_text",
            "`read`",
            ExitStatus::CallsAsText,
        ),
        (TurnEnd::Interrupted, "error_during_execution", "interrupted", ExitStatus::Interrupted),
        (model_error, "error_during_execution", "cannot connect", ExitStatus::ModelUnreachable),
        (
            TurnEnd::Repetition { what: "5 times".into() },
            "error_during_execution",
            "5 times",
            ExitStatus::Repetition,
        ),
        (
            TurnEnd::ContextFull { breakdown: "tools 9k".into() },
            "error_during_execution",
            "tools 9k",
            ExitStatus::ContextFull,
        ),
        (TurnEnd::NoRoom { what: "no room".into() }, "error_no_room", "no room", ExitStatus::NoRoom),
    ] {
        let turn = [Event::TurnFinished(Box::new(result(end.clone(), "partial")))];
        // One line on stderr says why, in every format.
        for format in [Format::Text, Format::StreamJson] {
            let (_, notes, ..) = print(PrintOptions { format, ..PrintOptions::default() }, &turn);
            assert!(notes.contains(why) && notes.lines().count() == 1, "{end:?}: {notes}");
        }
        let options = PrintOptions { format: Format::Json, ..PrintOptions::default() };
        let (out, notes, got, _) = print(options, &turn);
        assert!(notes.contains(why) && notes.lines().count() == 1, "{end:?}: {notes}");
        let value: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(value["subtype"], subtype, "{end:?}");
        assert_eq!(value["is_error"], true, "{end:?}");
        assert!(value["errors"][0].as_str().unwrap().contains(why), "{end:?}");
        assert_eq!(value["result"], "partial", "what was produced is never thrown away");
        assert_eq!(got, status, "{end:?}");
        // The page about headless runs has a row for the exit code, with this sub-type.
        let book = include_str!("../../../docs/headless.md");
        let row = book.lines().find(|line| line.starts_with(&format!("| {} |", got.code())));
        assert!(row.is_some_and(|row| row.contains(&format!("`{subtype}`"))), "{end:?}: {row:?}");
    }
}

#[test]
fn a_denial_that_was_not_overcome_has_its_own_exit_code() {
    let denial = || {
        Event::PermissionDenied(PermissionDenial {
            tool: "bash".into(),
            call_id: CallId::from("c"),
            input: json!({}),
            reason: "no rule allows it".into(),
            cause: DenialCause::Policy,
        })
    };
    let ok = Event::ToolFinished {
        message: Message::tool_result(CallId::from("d"), "read", "x", false),
        changes: Vec::new(),
        duration: Millis(0),
        original: None,
    };
    let end = || Event::TurnFinished(Box::new(result(TurnEnd::Completed, "x")));
    let status = |events: &[Event]| print(PrintOptions::default(), events).2;
    assert_eq!(status(&[denial(), end()]), ExitStatus::PermissionDenied);
    assert_eq!(status(&[denial(), ok.clone(), end()]), ExitStatus::Ok);
    assert_eq!(status(&[ok.clone(), denial(), end()]), ExitStatus::PermissionDenied);
    // The second of two calls of one answer is denied before the first one has run.
    let refused = Event::ToolFinished {
        message: Message::tool_result(CallId::from("c"), "bash", "not run", true),
        changes: Vec::new(),
        duration: Millis(0),
        original: None,
    };
    assert_eq!(status(&[denial(), ok.clone(), refused.clone(), end()]), ExitStatus::PermissionDenied);
    assert_eq!(status(&[denial(), refused, ok, end()]), ExitStatus::Ok);
    // A program that drives the run finds the denials in the result, so the exit code says success.
    let driven = PrintOptions { driven: true, ..PrintOptions::default() };
    assert_eq!(print(driven, &[denial(), end()]).2, ExitStatus::Ok);
}

/// In every format stderr says what was denied, why, and how a script leaves mode `plan`.
#[test]
fn a_denial_in_plan_mode_says_how_a_script_leaves_the_mode() {
    let denial = PermissionDenial {
        tool: "write".into(),
        call_id: CallId::from("c"),
        input: json!({}),
        reason: "write would write or run something, and permission mode plan only reads".into(),
        cause: DenialCause::PlanMode,
    };
    let mut ended = result(TurnEnd::Completed, "x");
    ended.denials.push(denial.clone());
    let events = [Event::PermissionDenied(denial), Event::TurnFinished(Box::new(ended))];
    for format in [Format::Text, Format::Json, Format::StreamJson, Format::Codex] {
        let (out, notes, status, _) = print(PrintOptions { format, ..PrintOptions::default() }, &events);
        assert_eq!(status, ExitStatus::PermissionDenied);
        assert_eq!(notes.lines().count(), 1, "{format:?}: {notes}");
        assert!(notes.starts_with("becket: denied: write: write would write or run something"), "{notes}");
        assert!(notes.contains("permission mode plan only reads"), "{notes}");
        assert!(notes.contains("run again with --permission-mode acceptEdits"), "{notes}");
        if matches!(format, Format::Json | Format::StreamJson) {
            let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
            let reason = last["permission_denials"][0]["reason"].as_str().unwrap();
            assert!(reason.contains("--permission-mode acceptEdits"), "{reason}");
        }
    }
}

#[test]
fn an_end_without_an_answer_is_no_success() {
    let (out, notes, status, _) =
        print(PrintOptions::default(), &[Event::TurnFinished(Box::new(result(TurnEnd::Completed, " \n")))]);
    assert_eq!((out.trim(), status), ("", ExitStatus::NoAnswer));
    assert!(notes.contains("without an answer"), "{notes}");
}

#[test]
fn an_answer_that_does_not_fit_the_schema_is_asked_for_again_then_given_up() {
    let options = || PrintOptions {
        format: Format::Json,
        schema: Some(std::sync::Arc::new(Schema::compile(r#"{"type":"object","required":["n"]}"#).unwrap())),
        ..PrintOptions::default()
    };
    let bad = || Event::TurnFinished(Box::new(result(TurnEnd::Completed, "no json")));
    let good = Event::TurnFinished(Box::new(result(TurnEnd::Completed, r#"{"n":1}"#)));

    let (out, _, status, reactions) = print(options(), &[bad(), good]);
    assert!(matches!(reactions.as_slice(), [Reaction::Send(_), Reaction::TurnOver]));
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["structured_output"], json!({ "n": 1 }));
    assert_eq!(value["num_turns"], 4, "both turns count");
    assert_eq!(status, ExitStatus::Ok);

    let (out, _, status, reactions) = print(options(), &[bad(), bad(), bad(), bad()]);
    assert!(matches!(reactions.last(), Some(Reaction::TurnOver)));
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["subtype"], "error_max_structured_output_retries");
    assert_eq!(status, ExitStatus::SchemaNotMet);
}

#[test]
fn what_a_subagent_does_stands_under_its_call() {
    let nested = |what: Event| Event::Subagent { call_id: CallId::from("t1"), what: Box::new(what) };
    let said = |parts| Event::AssistantMessage {
        message: Message::assistant(parts),
        finish: FinishReason::ToolCalls,
        usage: Usage::default(),
        cost: Cost(0.0),
        ttft: None,
        api_time: Millis(7),
    };
    let events = vec![
        started(),
        nested(started()),
        nested(Event::UserMessage { message: Message::user("its task"), client_id: None, steered: false }),
        nested(said(vec![Part::text("only words")])),
        nested(said(vec![Part::text("words"), Part::tool_call("c1", "read", json!({"path": "a"}))])),
        nested(Event::PermissionDenied(PermissionDenial {
            tool: "read".into(),
            call_id: CallId::from("c1"),
            input: json!({}),
            reason: "no".into(),
            cause: DenialCause::Policy,
        })),
        nested(Event::Notice { level: NoticeLevel::Warning, text: "odd".into() }),
        nested(Event::TurnFinished(Box::new(result(TurnEnd::MaxTurns { limit: 2 }, "half")))),
        Event::TurnFinished(Box::new(result(TurnEnd::Completed, "done"))),
    ];
    let options =
        |subagent_text| PrintOptions { format: Format::StreamJson, subagent_text, ..PrintOptions::default() };
    let (out, notes, status, _) = print(options(false), &events);
    // Denials of a subagent do not count for the run, which ended well.
    assert_eq!((notes.as_str(), status), ("becket: subagent: odd\n", ExitStatus::Ok));
    let own = lines(&out);
    let kinds: Vec<_> = own.iter().map(|l| l["subtype"].as_str().or(l["type"].as_str()).unwrap()).collect();
    let all = [
        "init",
        "task_started",
        "assistant",
        "permission_denied",
        "informational",
        "task_updated",
        "task_notification",
        "success",
    ];
    assert_eq!(kinds, all);
    assert!(own[1..7].iter().all(|l| l["parent_tool_use_id"] == "t1"), "{own:?}");
    assert_eq!(own[2]["message"]["content"].as_array().unwrap().len(), 1);
    assert_eq!((&own[6]["status"], &own[6]["num_turns"]), (&json!("failed"), &json!(2)));
    assert!(own[6]["summary"].as_str().unwrap().contains("stopped after 2 requests"));

    let (out, ..) = print(options(true), &events);
    let words: Vec<_> = lines(&out).into_iter().filter(|l| l["message"].is_object()).collect();
    assert_eq!(words.len(), 3, "{words:?}");
    let (out, notes, ..) = print(PrintOptions { verbose: true, ..PrintOptions::default() }, &events);
    assert_eq!(out, "done\n");
    assert!(notes.contains("becket: subagent: denied: read (no)"), "{notes}");
}

#[test]
fn a_compaction_by_hand_has_a_result_of_its_own_that_no_schema_is_asked_of() {
    let by_hand = |text: &str, pre, post| {
        let mut result = result(TurnEnd::Completed, text);
        (result.steps, result.stop_reason) = (0, None);
        result.compaction.by_hand =
            Some(CompactedByHand { pre_tokens: Tokens(pre), post_tokens: Tokens(post) });
        Event::TurnFinished(Box::new(result))
    };
    let schema = Schema::compile(r#"{"type": "object", "required": ["n"]}"#).unwrap();
    let options = PrintOptions {
        format: Format::StreamJson,
        schema: Some(std::sync::Arc::new(schema)),
        ..PrintOptions::default()
    };
    let (out, notes, _, _) = print(options, &[by_hand("compacted", 9_000, 2_000)]);
    let line: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&line["type"], &line["subtype"], &line["num_turns"]),
        (&json!("result"), &json!("success"), &json!(0))
    );
    assert_eq!(line["compaction"], json!({"pre_tokens": 9_000, "post_tokens": 2_000}));
    assert_eq!((line["result"].as_str(), notes.as_str()), (Some("compacted"), ""));
    // The result gives the reason once; no notice repeats it.
    let failed = Event::CompactionFailed { reason: "there is nothing to summarise".into() };
    let options = PrintOptions::default();
    let (out, notes, status, _) =
        print(options, &[failed, by_hand("Not compacted: there is nothing to summarise.", 5, 5)]);
    assert_eq!((out.as_str(), notes.as_str()), ("Not compacted: there is nothing to summarise.\n", ""));
    assert_eq!(status, ExitStatus::Ok);
}

struct OneBlob(&'static str, String);

impl becket_types::Blobs for OneBlob {
    fn get(&self, id: &becket_types::BlobId) -> Option<Vec<u8>> {
        (id.as_str() == self.0).then(|| self.1.clone().into_bytes())
    }
}

/// An answer that is too long for memory is printed whole in the formats that print only the answer, and escaped like any other.
#[test]
fn a_long_answer_is_printed_whole() {
    let whole = "a line \"quoted\" of \u{1b}[31mits\u{202e} \\ own 漢\n".repeat(5_000) + "\n\n";
    let shown = |whole: &str| becket_print::clean(whole.trim_end_matches('\n')).into_owned() + "\n";
    let mut event = result(TurnEnd::Completed, "a line\n[cut: …]\nits own 漢\n");
    event.text =
        becket_types::AnswerText::new(event.text.to_string(), Some(becket_types::BlobId("b".to_owned())));
    event.text.append("\n", "and more".into());
    let all = format!("{whole}\nand more");
    let print = |format: Format, verbose: bool, terminal: bool| {
        let out = Sink::default();
        let options = PrintOptions { format, verbose, terminal, ..PrintOptions::default() };
        let blobs = Arc::new(OneBlob("b", whole.clone()));
        let mut printer =
            Printer::new(options, Box::new(out.clone()), Box::new(Sink::default())).with_blobs(blobs);
        printer.event(&started()).unwrap();
        printer.event(&Event::TurnFinished(Box::new(event.clone()))).unwrap();
        out.text()
    };
    assert!(print(Format::Text, false, false) == all.clone() + "\n");
    assert!(print(Format::Text, false, true) == shown(&all));
    let json = print(Format::Json, false, false);
    assert!(!json.contains(['\u{1b}', '\u{202e}']));
    let line: Value = serde_json::from_str(&json).unwrap();
    assert!(line["result"] == all.as_str());
    assert_eq!((&line["type"], &line["num_turns"]), (&json!("result"), &json!(2)));
    let list: Value = serde_json::from_str(&print(Format::Json, true, false)).unwrap();
    let last = list.as_array().and_then(|list| list.last()).unwrap();
    assert!(last["result"] == all.as_str());
    // Lines for programs have a maximum length; a mark says where text is left out.
    let lines = lines(&print(Format::StreamJson, false, false));
    assert_eq!(lines.last().unwrap()["result"], "a line\n[cut: …]\nits own 漢\n\nand more");
}
