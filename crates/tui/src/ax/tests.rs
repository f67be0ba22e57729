//! Lines for screen readers: one test for each kind of event and of answer.

use super::*;
use becket_types::{Access, CallId, FilePath, MessageId, PathFate, PathPlan, Synthetic, UndoKind, UndoPlan};
use serde_json::json;

fn said(events: &[Event]) -> Vec<String> {
    let mut speaker = Speaker::default();
    events.iter().flat_map(|event| speaker.event(event)).collect()
}

#[test]
fn a_turn_is_told_in_plain_lines() {
    let id = MessageId::new();
    let delta = |text: &str| Event::TextDelta { message: id, index: 0, text: text.into() };
    let result = Message::tool_result(CallId("c".into()), "bash", "\x1b[31mred\x1b[0m\u{202e}", true);
    let hidden = Message::synthetic(Synthetic::Reminder, "SECRET");
    assert_eq!(
        said(&[
            Event::UserMessage { message: Message::user("fix it"), client_id: None, steered: false },
            Event::StepStarted { step: 1 },
            Event::SyntheticMessage { message: hidden },
            delta("I will\nlook"),
            delta(" at it"),
            Event::ToolStarted {
                call_id: CallId("c".into()),
                name: "bash".into(),
                input: json!({"command": "ls"})
            },
            Event::ToolFinished {
                message: result,
                changes: Vec::new(),
                duration: becket_types::Millis(3),
                original: None
            },
        ]),
        [
            "You: fix it",
            "becket: I will",
            "look at it",
            "Running bash: ls",
            "bash failed, 1 line.",
            "red⟨U+202E⟩"
        ]
    );
}

/// A terminal that echoes shows a message once, and says when one that waited is delivered.
#[test]
fn a_message_that_the_terminal_echoes_is_not_printed_again() {
    let told =
        |text: &str| Event::UserMessage { message: Message::user(text), client_id: None, steered: false };
    for (echoes, want) in [(true, vec![]), (false, vec!["You: fix it".to_owned()])] {
        let mut speaker = Speaker::echoing(echoes);
        speaker.line("fix it", false);
        assert_eq!(speaker.event(&told("fix it")), want);
        // The agent works, so the next message waits.
        speaker.line("and test it", false);
        assert_eq!(speaker.event(&told("and test it")), ["You: and test it"]);
    }
    let mut speaker = Speaker::echoing(true);
    speaker.line("fix it", false);
    assert_eq!(speaker.event(&told("something else")), ["You: something else"]);
}

#[test]
fn an_undo_is_told_and_done_when_it_is_answered() {
    let plan = |paths: &[&str]| UndoPlan {
        plan: 7,
        kind: UndoKind::Undo,
        turns: Vec::new(),
        newer: 0,
        calls: vec!["edit a.txt".into()],
        paths: paths
            .iter()
            .map(|path| PathPlan {
                path: FilePath((*path).into()),
                fate: PathFate::Restore,
                node: None,
                bytes: 0,
                mode: None,
                lines: Some((1, 2)),
            })
            .collect(),
        unchanged: 0,
        skipped: Vec::new(),
        damaged: 0,
        conversation: None,
        resumed: false,
        doubt: None,
    };
    let shown = |paths: &[&str]| {
        let mut speaker = Speaker::default();
        let said = speaker.event(&Event::UndoPlanned(Box::new(plan(paths))));
        (speaker, said)
    };
    let (mut speaker, said) = shown(&[]);
    assert_eq!(said, ["undo: there is nothing"]);
    assert!(matches!(speaker.line("y", false).0[..], [Effect::Send(Command::Prompt(_))]));
    let (mut speaker, said) = shown(&["a.txt"]);
    assert!(said.contains(&"restore      a.txt  +1 −2".to_owned()), "{said:?}");
    assert_eq!(said.last().map(String::as_str), Some("Question: carry this out? Answer /y, or /n."));
    assert!(said.iter().all(|line| !line.contains("```")), "{said:?}");
    assert_eq!(speaker.line("/y", true).0, [], "typed ahead");
    let carry_out = Command::CarryOut { plan: 7, force: false };
    assert_eq!(speaker.line("/y", false).0, [Effect::Send(carry_out)]);
    let (mut speaker, _) = shown(&["a.txt"]);
    assert_eq!(speaker.line("/n", false), (Vec::new(), vec!["Nothing was changed.".to_owned()]));
    // Another line is an ordinary message, and the plan is forgotten.
    let (mut speaker, _) = shown(&["a.txt"]);
    for line in ["go on", "y"] {
        assert!(matches!(speaker.line(line, false).0[..], [Effect::Send(Command::Prompt(_))]));
    }
}

#[test]
fn a_question_is_answered_by_a_line_of_its_own() {
    let mut speaker = Speaker::default();
    let request = PermissionRequest {
        call_id: CallId("c".into()),
        tool: "bash".into(),
        input: json!({"command": "rm x"}),
        access: Access::execute("rm x"),
        reason: "no rule".into(),
        offer: None,
        nearest: None,
        secrets: None,
        preview: Vec::new(),
    };
    let lines = speaker.event(&Event::PermissionAsked(Box::new(request)));
    assert_eq!(lines[..3], ["Question: bash wants to run.", "Command: rm x", "Why it asks: no rule"]);
    assert_eq!(speaker.line("/y", true).0, [], "typed ahead");
    for text in ["y", "yes, but first the tests", "s it right?", "n", "/yes but not now"] {
        let (effects, said) = speaker.line(text, false);
        assert!(effects.iter().all(|e| !matches!(e, Effect::Send(Command::Decide { .. }))), "{text}");
        assert!(!said.is_empty(), "{text}");
    }
    let decision = Decision::Deny { reason: Some("use git rm".into()) };
    let want = Effect::Send(Command::Decide { call_id: CallId("c".into()), decision });
    assert_eq!(speaker.line("/n use git rm", false).0, [want]);
    assert!(matches!(speaker.line("do it", false).0[..], [Effect::Send(Command::Prompt(_))]));
    assert_eq!(speaker.line("/quit", false).0, [Effect::Quit]);
}

#[test]
fn what_a_subagent_does_is_said_and_its_question_is_answered_to_it() {
    let nested = |what: Event| Event::Subagent { call_id: CallId("t".into()), what: Box::new(what) };
    let mut speaker = Speaker::default();
    let started = Event::ToolStarted {
        call_id: CallId("c".into()),
        name: "read".into(),
        input: json!({"path": "a.rs"}),
    };
    assert_eq!(speaker.event(&nested(started)), ["Subagent running read: a.rs"]);
    let words = Message::assistant(vec![Part::text("its own words")]);
    let hidden = Event::SyntheticMessage { message: Message::synthetic(Synthetic::Reminder, "hidden") };
    assert_eq!(speaker.event(&nested(hidden)), Vec::<String>::new());
    assert_eq!(
        speaker.event(&nested(Event::UserMessage { message: words, client_id: None, steered: false })),
        Vec::<String>::new()
    );
    let request = PermissionRequest {
        call_id: CallId("c".into()),
        tool: "bash".into(),
        input: json!({}),
        access: Access::execute("make"),
        reason: "no rule".into(),
        offer: None,
        nearest: None,
        secrets: None,
        preview: Vec::new(),
    };
    let lines = speaker.event(&nested(Event::PermissionAsked(Box::new(request))));
    assert_eq!(lines[0], "Question: bash wants to run for a subagent.");
    let what = Command::Decide { call_id: CallId("c".into()), decision: Decision::AllowOnce };
    let want = Command::ToSubagent { call_id: CallId("t".into()), what: Box::new(what) };
    assert!(speaker.take_asked(), "a subagent's question has its time too");
    assert_eq!(speaker.line("/y", false).0, [Effect::Send(want)]);
}

#[test]
fn a_retry_says_the_error_the_try_and_the_seconds() {
    let retry = |delay| Event::Retry {
        attempt: 2,
        max: 10,
        delay: becket_types::Millis(delay),
        error: "The server is overloaded.".into(),
        status: Some(529),
    };
    assert_eq!(said(&[retry(4_200)]), ["The server is overloaded. Retry 2 of 10 in 5 seconds."]);
    let nested = Event::Subagent { call_id: CallId("t".into()), what: Box::new(retry(1_000)) };
    assert_eq!(said(&[nested]), ["The server is overloaded. Retry 2 of 10 in 1 second."]);
    let Event::Retry { attempt, max, delay, status, .. } = retry(1_000) else { unreachable!() };
    let error = "https://api.anthropic.com is overloaded (status 529): Overloaded.".to_owned();
    let known = Event::ModelChosen { model: "anthropic/claude".into() };
    let lines = said(&[known, Event::Retry { attempt, max, delay, status, error }]);
    assert_eq!(lines.last().unwrap(), "Anthropic is overloaded (529). Retry 2 of 10 in 1 second.");
}

#[test]
fn a_compaction_is_said_when_it_begins_and_when_it_ends() {
    let failed = Event::CompactionFailed { reason: "the model gave no summary".into() };
    let started = Event::CompactionStarted { trigger: becket_types::CompactionTrigger::Auto };
    assert_eq!(
        said(&[started, failed]),
        ["Compacting the context.", "The context was not compacted: the model gave no summary"]
    );
}

#[test]
fn a_session_that_is_resumed_says_so_once() {
    let started = |resumed, title: Option<&str>| Event::SessionStarted {
        session: becket_types::SessionId::new(),
        cwd: "/p".into(),
        model: "script/demo".into(),
        tools: Vec::new(),
        permission_mode: "default".into(),
        skills: Vec::new(),
        api_key_source: "none".into(),
        resumed,
        title: title.map(str::to_owned),
    };
    assert_eq!(said(&[started(false, None)]), Vec::<String>::new());
    assert_eq!(said(&[started(true, None)]).len(), 1);
    assert!(said(&[started(true, Some("parser"))])[0].contains("parser"));
}

#[test]
fn commands_are_carried_out_or_say_why_they_are_not() {
    let mut speaker = Speaker::default();
    let mode = Effect::Send(Command::SetMode { mode: "acceptEdits".into() });
    assert_eq!(speaker.line("/mode acceptEdits", false), (vec![mode], Vec::new()));
    let changed = Event::ModeChanged { mode: "acceptEdits".into() };
    assert_eq!(
        speaker.event(&changed),
        ["acceptEdits mode: becket edits files without asking, and asks before commands."]
    );
    assert_eq!(speaker.event(&changed), Vec::<String>::new(), "a mode that holds already is not announced");
    let (effects, said) = speaker.line("/mode bypassPermissions", false);
    assert!(effects.is_empty() && said[0].contains("--permission-mode bypassPermissions"), "{said:?}");
    let own = Request::Custom { name: "nosuch".into(), arguments: "x".into() };
    assert_eq!(speaker.line("/nosuch x", false), (vec![Effect::Ask(own)], Vec::new()));
    assert_eq!(speaker.line("/n", false).1, ["/n answers a question, and no question is open."]);
    assert_eq!(speaker.line("/resume", false).0, [Effect::Ask(Request::Sessions)]);
    assert!(speaker.line("/inspect", false).1[0].contains("without --ax"));
    let sessions = vec![("7c7f".to_owned(), "today fix it".to_owned())];
    let read = Speaker::reply(Reply::Sessions(sessions));
    assert_eq!(read[0], "7c7f: today fix it");
    assert!(read[1].contains("/resume"), "{read:?}");
}

#[test]
fn a_message_that_waits_says_when_the_model_gets_it() {
    let mut speaker = Speaker::default();
    let lines = |speaker: &mut Speaker, line: &str| speaker.line(line, false).1;
    assert_eq!(lines(&mut speaker, "fix it"), Vec::<String>::new());
    assert_eq!(
        lines(&mut speaker, "and run the tests"),
        ["Waiting: the model gets this with its next step."]
    );
}

#[test]
fn questions_and_plans_of_the_model_are_answered_by_lines() {
    let request = |tool: &str, input: serde_json::Value| {
        Event::PermissionAsked(Box::new(PermissionRequest {
            call_id: CallId("c".into()),
            tool: tool.into(),
            input,
            access: Access::session(),
            reason: "the model asks you".into(),
            offer: None,
            nearest: None,
            secrets: None,
            preview: Vec::new(),
        }))
    };
    let decide = |decision| Effect::Send(Command::Decide { call_id: CallId("c".into()), decision });
    let questions = json!({"questions": [
        {"question": "Which?", "options": [{"label": "a", "description": "first"}, {"label": "b"}]},
        {"question": "Parts?", "multiSelect": true, "options": [{"label": "x"}, {"label": "y"}]},
    ]});
    let mut speaker = Speaker::default();
    let lines = speaker.event(&request("ask_user", questions.clone()));
    assert_eq!(lines[..3], ["Question 1 of 2 of the model: Which?", "1: a. first", "2: b"]);
    for text in ["1", "/y", "/s", "a", "/a"] {
        let (effects, _) = speaker.line(text, false);
        assert!(effects.iter().all(|e| !matches!(e, Effect::Send(Command::Decide { .. }))), "{text}");
    }
    assert_eq!(speaker.line("/a 2", true), (Vec::new(), vec![TOO_EARLY.to_owned()]));
    let (effects, said) = speaker.line("/a 1 would be fine", false);
    assert_eq!((effects.len(), said[0].as_str()), (0, "Question 2 of 2 of the model: Parts?"));
    let mut input = questions.clone();
    input["answers"] = json!({"Which?": "1 would be fine", "Parts?": "x, y"});
    assert_eq!(speaker.line("/a 1, 2", false).0, [decide(Decision::AllowChanged { input })]);
    speaker.event(&request("ask_user", questions));
    assert_eq!(speaker.line("/n", false).0, [decide(Decision::Deny { reason: None })]);

    let lines = speaker.event(&request("exit_plan", json!({"plan": "# Plan\n1. do"})));
    assert_eq!(lines[1..3], ["# Plan", "1. do"]);
    let mode = Effect::Send(Command::SetMode { mode: "acceptEdits".into() });
    assert_eq!(speaker.line("/s", false).0, [mode, decide(Decision::AllowOnce)]);
    speaker.event(&request("exit_plan", json!({"plan": "p"})));
    assert_eq!(speaker.line("/y", false).0, [decide(Decision::AllowOnce)]);
}

/// A refusal is printed once: the result of the call repeats it for the model. The reason of a question does not repeat the command.
#[test]
fn a_refusal_and_a_command_are_told_once() {
    let call_id = CallId("c".into());
    let mut speaker = Speaker::default();
    let command = "mkdir a && rm b";
    let question = speaker.event(&Event::PermissionAsked(Box::new(PermissionRequest {
        call_id: call_id.clone(),
        tool: "bash".into(),
        input: json!({"command": command}),
        access: Access::execute(command),
        reason: format!("`{command}`: no rule allows `mkdir a`"),
        offer: None,
        nearest: None,
        secrets: None,
        preview: Vec::new(),
    })));
    assert_eq!(question.iter().filter(|line| line.contains(command)).count(), 1, "{question:?}");
    assert!(question.contains(&"Why it asks: no rule allows `mkdir a`".to_owned()), "{question:?}");
    let denial = becket_types::PermissionDenial {
        tool: "bash".into(),
        call_id: call_id.clone(),
        input: json!({"command": command}),
        reason: "the user said no: not here".into(),
        cause: becket_types::DenialCause::User { words: Some("not here".into()) },
    };
    let denied = speaker.event(&Event::PermissionDenied(denial));
    assert_eq!(denied, ["bash was not permitted: you said no: not here."]);
    let result = |id: &CallId| Event::ToolFinished {
        message: Message::tool_result(id.clone(), "bash", "Permission denied, not run.", true),
        changes: Vec::new(),
        duration: becket_types::Millis(1),
        original: None,
    };
    assert_eq!(speaker.event(&result(&call_id)), Vec::<String>::new());
    // The result of another failed call is printed.
    assert_eq!(speaker.event(&result(&CallId("d".into())))[0], "bash failed, 1 line.");
}
