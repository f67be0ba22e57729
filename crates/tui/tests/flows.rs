//! Flows by keystrokes: questions about hunks and rules, queued messages, rewind, choice of sessions, modes, keys.
//!
//! The property runs 2,000 cases (`PROPTEST_CASES` sets more). For any inputs in any order: nothing panics, nothing
//! that is for the model only is on a frame (of characters that all emulators know), and keys typed ahead answer no
//! question with yes.

#[allow(dead_code, reason = "each binary uses its part of the stage")]
mod support;

use becket_tui::input::{Confirm, Custom, Effect, Input, Page, Place, Reply, Request, Timer, To};
use becket_types::{
    Access, CallId, Command, ConversationPlan, Decision, DeliveryMode, Event, FileChange, FileChangeKind,
    FilePath, FilePreview, Message, MessageId, Millis, NodeKind, Origin, Part, PathFate, PathPlan,
    PermissionRequest, PromptInput, RewindWhat, Role, RuleOffer, SpanKind, Synthetic, Tokens, TurnEnd,
    TurnTerms, UndoKind, UndoOutcome, UndoPlan,
};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use proptest::prelude::*;
use serde_json::json;
use support::{Stage, started, turn_end};

fn stage(columns: u16, rows: u16) -> Stage {
    let mut stage = Stage::new(columns, rows);
    stage.event(started());
    stage
}

fn question(hunks: usize) -> PermissionRequest {
    let hunk = |i| format!("@@ -{i},1 +{i},1 @@\n-old {i}\n+new {i}\n");
    PermissionRequest {
        call_id: CallId("c1".into()),
        tool: "edit".into(),
        input: json!({"path": "a.rs"}),
        access: Access::write("/home/u/project/a.rs".into()),
        reason: "edits ask".into(),
        offer: Some(RuleOffer {
            rule: "Edit(//home/u/project/a.rs)".into(),
            covers: "every edit of it".into(),
            ..RuleOffer::default()
        }),
        nearest: Some("Edit(//home/u/project/src/**)".into()),
        secrets: None,
        preview: vec![FilePreview {
            path: "/home/u/project/a.rs".into(),
            hunks: (1..=hunks).map(hunk).collect(),
            marks: Vec::new(),
        }],
    }
}

/// Shows a question and lets the time pass until it counts as read.
fn asked(stage: &mut Stage, request: PermissionRequest) {
    stage.event(Event::PermissionAsked(Box::new(request)));
    stage.read_question();
}

fn decided(decision: Decision) -> Vec<Effect> {
    vec![Effect::Send(Command::Decide { call_id: CallId("c1".into()), decision })]
}

#[test]
fn a_change_is_taken_by_hunks() {
    let mut stage = stage(70, 30);
    asked(&mut stage, question(3));
    let screen = stage.screen();
    for part in [
        "[x] hunk 2 of 3",
        "-old 2",
        "+new 2",
        "the nearest allow rule does not match: Edit(//home/u/project/src/**)",
        "4 Choose hunks",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    stage.answer('4');
    stage.key(KeyCode::Down);
    stage.key(KeyCode::Char(' '));
    assert!(stage.screen().contains("❯ [ ] hunk 2 of 3"), "{}", stage.screen());
    stage.key(KeyCode::Esc);
    // A part of a change is never allowed for longer than once.
    assert!(
        stage.screen().contains("❯ 1 Yes, without 1 of 3 hunks   Enter takes it\n  2 Choose hunks\n  3 No"),
        "{}",
        stage.screen()
    );
    assert_eq!(stage.key(KeyCode::Enter), [], "the key that was held to leave the hunks answers nothing");
    stage.read_question();
    assert_eq!(stage.key(KeyCode::Enter), decided(Decision::AllowWithout { rejected: vec![1] }));
    // If all hunks are rejected, the only answer left is no.
    asked(&mut stage, question(2));
    stage.answer('4');
    stage.key(KeyCode::Char(' '));
    stage.key(KeyCode::Down);
    stage.key(KeyCode::Char(' '));
    stage.key(KeyCode::Enter);
    assert!(stage.screen().contains("❯ 1 Choose hunks   Enter takes it\n  2 No"), "{}", stage.screen());
    stage.read_question();
    assert_eq!(stage.key(KeyCode::Char('2')), decided(Decision::Deny { reason: None }));
    // Typing meanwhile goes to the composer, and rejected hunks stay rejected.
    asked(&mut stage, question(2));
    stage.answer('4');
    stage.key(KeyCode::Char(' '));
    stage.type_text("keep the first");
    let screen = stage.screen();
    assert!(screen.contains("[ ] hunk 1 of 2") && screen.contains("› keep the first"), "{screen}");
}

/// Choosing hunks is a way to answer, but not a way to skip reading.
#[test]
fn hunks_below_the_screen_are_not_taken_unseen() {
    for size in [(80, 14), (40, 10)] {
        let mut stage = stage(size.0, size.1);
        asked(&mut stage, question(3));
        assert!(
            stage.screen().contains("hunks 5 no") || stage.screen().contains("5 No"),
            "{}",
            stage.screen()
        );
        stage.answer('4');
        let screen = stage.screen();
        assert!(screen.contains("Space"), "{screen}");
        stage.key(KeyCode::Enter);
        stage.read_question();
        assert!(stage.screen().contains("PageDown"), "{}", stage.screen());
        // Enter turns the page, and does not answer even if that was the last one.
        assert_eq!(stage.key(KeyCode::Enter), [], "{screen}");
        stage.screen();
        assert_eq!(stage.key(KeyCode::Enter), [], "{screen}");
        for _ in 0..20 {
            stage.key(KeyCode::PageDown);
            stage.screen();
        }
        stage.read_question();
        assert_eq!(stage.key(KeyCode::Enter), decided(Decision::AllowOnce), "{}", stage.screen());
    }
}

#[test]
fn a_question_of_a_subagent_is_answered_to_it() {
    let mut stage = stage(70, 24);
    let of = |call: &str, what: Event| Event::Subagent { call_id: CallId(call.into()), what: Box::new(what) };
    stage.event(Event::ToolStarted {
        call_id: CallId("t1".into()),
        name: "task".into(),
        input: json!({"description": "make it strict"}),
    });
    let ask = |stage: &mut Stage| {
        stage.event(of("t1", Event::PermissionAsked(Box::new(question(1)))));
        stage.read_question();
    };
    ask(&mut stage);
    let screen = stage.screen();
    assert!(screen.contains("Edit a.rs for a subagent?  adds 1 line, removes 1"), "{screen}");
    assert!(screen.contains("? task make it strict  waits for you"), "{screen}");
    // The main agent's call with the same id is a different call.
    let own = Message::tool_result(CallId("c1".into()), "edit", "ok", false);
    stage.event(Event::ToolFinished {
        message: own,
        changes: Vec::new(),
        duration: Millis(1),
        original: None,
    });
    assert!(stage.screen().contains("Edit a.rs for a subagent?"));
    let what = Command::Decide { call_id: CallId("c1".into()), decision: Decision::AllowOnce };
    let answer = Command::ToSubagent { call_id: CallId("t1".into()), what: Box::new(what) };
    assert_eq!(stage.answer('1'), [Effect::Send(answer)]);

    // The questions of a subagent end with its call.
    ask(&mut stage);
    let over = Message::tool_result(CallId("t1".into()), "task", "interrupted", true);
    stage.event(Event::ToolFinished {
        message: over,
        changes: Vec::new(),
        duration: Millis(1),
        original: None,
    });
    assert!(!stage.screen().contains("Run this command"), "{}", stage.screen());
}

#[test]
fn the_line_of_a_subagent_opens_to_its_calls() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/screens/subagent.jsonl"))
        .unwrap();
    let events: Vec<Event> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut stage = Stage::new(80, 40);
    for event in &events[..7] {
        stage.event(event.clone());
    }
    let screen = stage.screen();
    assert!(
        screen.contains(
            "◐ task find where the amount is parsed  explore · 2 calls · Ctrl-O opens it\n│ grep fn amount\n│ read src/parse.rs\n"
        ),
        "{screen}"
    );
    stage.event(events[7].clone());
    let screen = stage.screen();
    assert!(
        screen.contains("✓ task find where the amount is parsed  explore · 2 calls · 12 s · $0.01\n│ amount is in src/parse.rs"),
        "{screen}"
    );
    stage.ctrl('o');
    let screen = stage.screen();
    let opened = "  ✓ grep fn amount\n  ✓ read src/parse.rs\n│ `amount` is in src/parse.rs:12;";
    assert!(screen.contains(opened), "{screen}");

    // A session that is opened again shows the same, from the result alone.
    let mut again = Stage::new(80, 40);
    for event in events[..8].iter().filter(|event| !matches!(event, Event::Subagent { .. })) {
        again.event(event.clone());
    }
    again.ctrl('o');
    let told = |screen: &str| -> Vec<String> {
        screen.lines().take_while(|line| !line.contains("interrupts")).map(str::to_owned).collect()
    };
    assert_eq!(told(&again.screen()), told(&screen));
}

#[test]
fn always_shows_the_rule_and_asks_for_whom() {
    let mut stage = stage(70, 24);
    asked(&mut stage, question(1));
    assert_eq!(stage.answer('3'), []);
    let screen = stage.screen();
    assert!(screen.contains("as a rule of the settings: Edit(//home/u/project/a.rs)"), "{screen}");
    assert!(screen.contains("becket will not ask again about every edit of it"), "{screen}");
    assert!(screen.contains("❯ 1 Always, in this project only"), "{screen}");
    // The second question must be read for its own time, so a key that is held answers nothing.
    assert_eq!(stage.key(KeyCode::Enter), []);
    stage.read_question();
    let allow = Request::Allow { rule: "Edit(//home/u/project/a.rs)".into(), place: Place::Local };
    let mut wanted = vec![Effect::Ask(allow)];
    wanted.extend(decided(Decision::AllowSession));
    assert_eq!(stage.key(KeyCode::Enter), wanted);
}

#[expect(clippy::panic, reason = "a helper of tests")]
fn sent(effects: &[Effect]) -> PromptInput {
    let sent = effects.iter().find_map(|e| match e {
        Effect::Send(Command::Prompt(prompt)) => Some(prompt.clone()),
        _ => None,
    });
    sent.unwrap_or_else(|| panic!("no prompt: {effects:?}"))
}

#[test]
fn only_the_message_that_up_takes_back_says_so() {
    let mut stage = stage(70, 12);
    stage.event(Event::StepStarted { step: 1 });
    for text in ["first", "second"] {
        stage.type_text(text);
        stage.key(KeyCode::Tab);
    }
    let screen = stage.screen();
    assert!(screen.contains("◷ next turn: first\n◷ next turn: second  · Up takes it back\n"), "{screen}");
}

/// Above the composer, the beginning of a message would look like a text that is still to be sent.
#[test]
fn the_edge_shows_a_title_that_is_no_message_while_becket_rests() {
    let mut stage = stage(60, 24);
    stage.event(Event::Renamed { title: "Fix the parser of dates, and…".into() });
    let title = |stage: &mut Stage| stage.screen().contains("Fix the parser of dates, and… ──\n");
    assert!(title(&mut stage), "idle: {}", stage.screen());
    say(&mut stage, "Fix the parser of dates, and add a test");
    stage.event(Event::StepStarted { step: 1 });
    let id = MessageId::new();
    let text = "a line\n\n".repeat(30);
    stage.event(Event::TextDelta { message: id, index: 0, text: text.clone() });
    assert!(!title(&mut stage), "{}", stage.screen());
    stage.event(turn_end(TurnEnd::Completed));
    assert!(!title(&mut stage), "{}", stage.screen());
    let rule = format!("\n{}\n", "─".repeat(60));
    assert_eq!(stage.screen().matches(&rule).count(), 2, "a plain edge: {}", stage.screen());
    // After another message, the title is still the beginning of the first one, which the screen shows anyway.
    say(&mut stage, "now the lexer");
    stage.event(Event::TextDelta { message: MessageId::new(), index: 0, text });
    stage.event(turn_end(TurnEnd::Completed));
    assert!(!title(&mut stage), "{}", stage.screen());
    // A title that the user gave is shown, but not while becket works.
    stage.event(Event::Renamed { title: "dates".into() });
    assert!(stage.screen().contains("── dates ──\n"), "{}", stage.screen());
    stage.event(Event::StepStarted { step: 2 });
    assert!(!stage.screen().contains("── dates ──"), "{}", stage.screen());
}

/// The title of the window names the session and the project, and says if becket works or waits for an answer.
#[test]
fn the_window_s_title_says_what_becket_is_doing() {
    let title = |effects: Vec<Effect>| {
        effects.into_iter().rev().find_map(|effect| match effect {
            Effect::Title(title) => Some(title),
            _ => None,
        })
    };
    let mut stage = Stage::new(80, 24);
    assert_eq!(title(stage.event(started())).as_deref(), Some("becket · project"));
    stage.event(Event::StepStarted { step: 1 });
    assert_eq!(title(stage.asks()).as_deref(), Some("◐ becket · project"));
    assert_eq!(
        title(stage.event(Event::Renamed { title: "dates".into() })).as_deref(),
        Some("◐ dates · project")
    );
    stage.event(Event::PermissionAsked(Box::new(question(1))));
    assert_eq!(title(stage.asks()).as_deref(), Some("? dates · project"));
    assert_eq!(title(stage.asks()), None, "it is set once");
    stage.event(turn_end(TurnEnd::Interrupted));
    assert_eq!(title(stage.asks()).as_deref(), Some("dates · project"));
}

#[test]
fn what_waits_is_shown_and_taken_back() {
    let mut stage = stage(70, 12);
    stage.event(Event::StepStarted { step: 1 });
    stage.type_text("and then this");
    let prompt = sent(&stage.key(KeyCode::Tab));
    assert_eq!(prompt.mode, DeliveryMode::Queue);
    assert!(stage.screen().contains("◷ next turn: and then this  · Up takes it back"), "{}", stage.screen());
    let client_id = prompt.client_id.unwrap();
    assert_eq!(stage.key(KeyCode::Up), [Effect::Send(Command::Withdraw { client_id: client_id.clone() })]);
    stage.type_text("more");
    stage.event(Event::Withdrawn { client_id });
    let screen = stage.screen();
    assert!(
        screen.contains("› and then this") && screen.contains("  more") && !screen.contains('◷'),
        "{screen}"
    );
    // A message that was delivered is no longer shown as waiting.
    let prompt = sent(&stage.key(KeyCode::Enter));
    assert!(stage.screen().contains("◷ at the next step: and then this"), "{}", stage.screen());
    let message = Message::new(Role::User, Origin::User, prompt.parts);
    stage.event(Event::UserMessage { message, client_id: prompt.client_id, steered: true });
    assert!(!stage.screen().contains('◷'), "{}", stage.screen());
}

/// A person who interrupts wants the agent to stop. Messages that wait come back into the composer instead of beginning the next turn.
#[test]
fn an_interrupt_takes_all_waiting_messages_back() {
    let mut stage = stage(70, 12);
    stage.event(Event::StepStarted { step: 1 });
    let mut ids = Vec::new();
    for (text, key) in [("first", KeyCode::Tab), ("second", KeyCode::Enter)] {
        stage.type_text(text);
        ids.push(sent(&stage.key(key)).client_id.unwrap());
    }
    let effects = stage.key(KeyCode::Esc);
    let back = |id: &String| Effect::Send(Command::Withdraw { client_id: id.clone() });
    assert_eq!(effects, [back(&ids[1]), back(&ids[0]), Effect::Send(Command::Interrupt)]);
    for id in ids.into_iter().rev() {
        stage.event(Event::Withdrawn { client_id: id });
    }
    stage.event(turn_end(TurnEnd::Interrupted));
    let screen = stage.screen();
    assert!(screen.contains("› first\n  second") && !screen.contains('◷'), "{screen}");
}

/// A question would hide a page, and Esc would refuse instead of closing it. So the page waits, and is made when it can be seen.
#[test]
fn a_page_waits_for_the_end_of_a_question() {
    for (command, opened) in [("/keys", "── keys ─"), ("/help", "── help ─"), ("/diff", "")] {
        let mut stage = stage(80, 24);
        asked(&mut stage, question(1));
        stage.type_text(command);
        assert_eq!(stage.key(KeyCode::Enter), [], "nothing is requested yet");
        let screen = stage.screen();
        assert!(screen.contains(&format!("◷ {command} opens after this call")), "{screen}");
        assert!(screen.contains("1 Yes"), "{screen}");
        assert_eq!(stage.answer('1'), decided(Decision::AllowOnce));
        // The page is made once the call has ended, so that it shows what came of it.
        assert!(
            !stage.screen().contains("── keys") && !stage.screen().contains("── help"),
            "{}",
            stage.screen()
        );
        let message = Message::tool_result(CallId("c1".into()), "edit", "done", false);
        let effects = stage.event(Event::ToolFinished {
            message,
            changes: Vec::new(),
            duration: Millis(1),
            original: None,
        });
        let asks = effects.iter().any(|effect| matches!(effect, Effect::Ask(Request::Page(_))));
        assert_eq!(asks, opened.is_empty(), "{command}: {effects:?}");
        assert!(stage.screen().contains(opened) && !stage.screen().contains('◷'), "{}", stage.screen());
    }
}

/// Tab that comes before the question could be read has no effect, and the screen says so.
#[test]
fn a_tab_that_came_too_early_is_not_lost_without_a_word() {
    let mut stage = stage(80, 24);
    stage.event(Event::PermissionAsked(Box::new(question(1))));
    stage.screen();
    stage.key(KeyCode::Tab);
    stage.read_question();
    let screen = stage.screen();
    assert!(screen.contains("so it did nothing: press it again") && !screen.contains('❯'), "{screen}");
    stage.key(KeyCode::Tab);
    let screen = stage.screen();
    assert!(screen.contains("❯ 1 Yes") && !screen.contains("press it again"), "{screen}");
}

/// The second question of "always" has the keyboard at once, and is answered by the same keys as the first: Tab, then Enter.
#[test]
fn tab_and_enter_answer_the_second_question_too() {
    let mut stage = stage(80, 24);
    asked(&mut stage, question(1));
    stage.answer('3');
    stage.read_question();
    assert!(stage.screen().contains("❯ 1"), "{}", stage.screen());
    stage.key(KeyCode::Tab);
    let screen = stage.screen();
    assert!(screen.contains("❯ 1") && screen.contains("› Or write what to do instead"), "{screen}");
    stage.read_question();
    let effects = stage.key(KeyCode::Enter);
    assert!(
        effects.iter().any(|effect| matches!(effect, Effect::Send(Command::Decide { .. }))),
        "{effects:?}"
    );
    // Once a text was begun, Tab goes back and forth as in any question.
    let mut stage = self::stage(80, 24);
    asked(&mut stage, question(1));
    stage.answer('3');
    stage.type_text("w");
    stage.read_question();
    stage.key(KeyCode::Tab);
    assert!(stage.screen().contains("❯ 1"), "{}", stage.screen());
    stage.key(KeyCode::Tab);
    assert!(!stage.screen().contains('❯'), "{}", stage.screen());
}

fn say(stage: &mut Stage, text: &str) -> Message {
    let message = Message::new(Role::User, Origin::User, vec![Part::text(text)]);
    stage.event(Event::UserMessage { message: message.clone(), client_id: None, steered: false });
    message
}

/// Each page names its keys in one row that fits: what selects, what Enter does, what scrolls, and at last how to leave.
#[test]
fn every_page_names_its_keys_in_the_same_order() {
    let shown = |text: &str, confirm| Page {
        title: "page".into(),
        markdown: text.to_owned(),
        confirm,
        ..Page::default()
    };
    let confirm = Some(Confirm { question: "Really?".into(), request: Request::Sessions });
    for (columns, rows) in [(40, 12), (40, 24), (80, 24), (120, 40)] {
        let open = |name: &str| {
            let mut stage = stage(columns, rows);
            say(&mut stage, "fix the parser");
            match name {
                "page" => drop(stage.update(Input::Reply(Reply::Page(Ok(shown("text", None)))))),
                "question" => {
                    stage.update(Input::Reply(Reply::Page(Ok(shown("text", confirm.clone())))));
                    stage.read_question();
                }
                "inspector" => {
                    stage.type_text("/inspect");
                    stage.key(KeyCode::Enter);
                }
                "sessions" => {
                    stage.type_text("/resume");
                    stage.key(KeyCode::Enter);
                    stage.update(Input::Reply(Reply::Sessions(vec![("0198aa".into(), "a".into())])));
                }
                "messages" => (0..2).for_each(|_| drop(stage.key(KeyCode::Esc))),
                _ => {
                    stage.type_text(name);
                    stage.key(KeyCode::Enter);
                }
            }
            stage
        };
        for name in ["page", "question", "inspector", "sessions", "messages", "/help", "/keys"] {
            let screen = open(name).screen();
            let keys: Vec<&str> = screen.lines().filter(|line| line.ends_with("Esc closes")).collect();
            let [keys] = keys[..] else { panic!("{name} {columns}x{rows}: {keys:?}\n{screen}") };
            assert!(!keys.contains('…'), "{name} {columns}x{rows}: {keys}");
            let order = ["select", "Enter", "scroll", "Esc"];
            let places: Vec<usize> = order.iter().filter_map(|word| keys.find(word)).collect();
            assert!(places.is_sorted(), "{name} {columns}x{rows}: {keys}");
        }
    }
}

/// The list says what each message changed, and the page what would go back.
#[test]
fn a_rewind_counts_the_changes_since_each_message() {
    let mut stage = stage(70, 24);
    let change = |stage: &mut Stage, call: &str, path: &str, added: u64| {
        let details = json!({"diff": "@@ -1 +1 @@\n", "additions": added, "deletions": 1});
        let mut message = Message::tool_result(CallId(call.into()), "edit", "done", false);
        if let Part::ToolResult { details: of_result, .. } = &mut message.parts[0] {
            of_result.clone_from(&details);
        }
        let changes = vec![FileChange { path: path.into(), kind: FileChangeKind::Update }];
        stage.event(Event::ToolFinished { message, changes, duration: Millis(3), original: None });
    };
    say(&mut stage, "fix the parser");
    change(&mut stage, "a", "/p/src/span.py", 2);
    say(&mut stage, "now the lexer");
    change(&mut stage, "b", "/p/src/span.py", 4);
    change(&mut stage, "c", "/p/src/lex.py", 5);
    for code in [KeyCode::Esc, KeyCode::Esc] {
        stage.key(code);
    }
    let screen = stage.screen();
    assert!(screen.contains("span.py +2 −1\n") && screen.contains("2 files +9 −2\n"), "{screen}");
    stage.key(KeyCode::Down);
    stage.key(KeyCode::Enter);
    let screen = stage.screen();
    assert!(screen.contains("1 The conversation (2 messages of yours)"), "{screen}");
    assert!(screen.contains("2 The files (2 files +11 −3)\n"), "{screen}");
}

#[test]
fn escape_twice_goes_back_to_a_message() {
    let mut stage = stage(70, 24);
    say(&mut stage, "fix the parser");
    let second = say(&mut stage, "now the lexer");
    assert!(matches!(
        stage.key(KeyCode::Esc)[..],
        [Effect::Wake(_, Timer::Toast), Effect::Wake(_, Timer::Chord)]
    ));
    assert!(stage.screen().contains("Esc once more"), "{}", stage.screen());
    stage.key(KeyCode::Esc);
    let screen = stage.screen();
    assert!(screen.contains("❯ now the lexer") && screen.contains("  fix the parser"), "{screen}");
    assert!(screen.starts_with("── rewind to before ─") && screen.contains("no file changed"), "{screen}");
    stage.key(KeyCode::Enter);
    let list = "▸ 1 The conversation (1 message of yours)   Enter twice\n  2 The files (no file changed)\n  3 Both\n  4 No, leave everything as it is   Esc\n";
    assert!(stage.screen().contains(list), "{}", stage.screen());
    let rewind = Command::Rewind { to: second.id, what: RewindWhat::Both };
    assert_eq!(stage.answer('3'), [Effect::Send(rewind)]);
    let back = ConversationPlan { to: second.id, text: "now the lexer".into(), entries: 4, returning: 0 };
    let path = PathPlan {
        path: FilePath("/p/a.rs".into()),
        fate: PathFate::Conflict { why: "changed since".into() },
        node: Some(NodeKind::File),
        lines: Some((1, 2)),
        bytes: 9,
        mode: None,
    };
    stage.event(Event::UndoPlanned(Box::new(UndoPlan {
        plan: 7,
        kind: UndoKind::Rewind,
        turns: Vec::new(),
        newer: 0,
        calls: vec!["edit a.rs".into()],
        paths: vec![path],
        unchanged: 0,
        skipped: Vec::new(),
        damaged: 0,
        conversation: Some(back.clone()),
        resumed: false,
        doubt: None,
    })));
    let screen = stage.screen();
    for part in [
        "LEAVE ALONE",
        "/p/a.rs  +1 −2  changed since",
        "2 Yes, and overwrite what others changed",
        "edit a.rs",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    assert_eq!(stage.answer('1'), [Effect::Send(Command::CarryOut { plan: 7, force: false })]);
    stage.event(Event::UndoDone(Box::new(UndoOutcome {
        plan: 7,
        kind: UndoKind::Rewind,
        restored: 0,
        deleted: 0,
        left: Vec::new(),
        failed: Vec::new(),
        conversation: Some(back),
    })));
    let screen = stage.screen();
    assert!(screen.contains("the conversation is back to before: now the lexer"), "{screen}");
    assert!(screen.contains("› now the lexer"), "{screen}");
}

#[test]
fn a_session_is_chosen_by_words_with_a_preview() {
    let mut stage = stage(80, 24);
    stage.type_text("/resume");
    assert!(stage.key(KeyCode::Enter).contains(&Effect::Ask(Request::Sessions)));
    let sessions = vec![("0198aa".into(), "fix the parser".into()), ("0198bb".into(), "write docs".into())];
    let effects = stage.update(Input::Reply(Reply::Sessions(sessions)));
    assert_eq!(effects, [Effect::Ask(Request::Preview { session: "0198aa".into() })]);
    stage.update(Input::Reply(Reply::Preview {
        session: "0198aa".into(),
        text: "› where is it\n\n## Found\n\nIt is **there**.\n".into(),
    }));
    let screen = stage.screen();
    assert!(
        screen.starts_with("── resume ─") && screen.lines().next().unwrap().ends_with(" 1 of 2 ──"),
        "{screen}"
    );
    assert!(screen.contains("› type to search") && screen.contains("Enter resumes"), "{screen}");
    // Answers are drawn as Markdown.
    assert!(screen.contains("› where is it\n\n  Found\n\n  It is there."), "{screen}");
    stage.type_text("docs");
    let screen = stage.screen();
    assert!(screen.contains("❯ write docs") && !screen.contains("fix the parser"), "{screen}");
    // Sessions whose messages match are found as well, below those whose names match.
    stage.ctrl('u');
    let mut asked = Vec::new();
    for c in "doc".chars() {
        asked.extend(stage.key(KeyCode::Char(c)));
    }
    assert!(asked.contains(&Effect::Ask(Request::Saying { words: "doc".into() })), "{asked:?}");
    stage.update(Input::Reply(Reply::Saying { words: "do".into(), sessions: vec!["0198aa".into()] }));
    assert!(!stage.screen().contains("fix the parser"), "an answer that comes too late");
    let sessions = vec!["0198aa".into(), "0198bb".into(), "0198cc".into()];
    stage.update(Input::Reply(Reply::Saying { words: "doc".into(), sessions }));
    let screen = stage.screen();
    let row = |start: &str| {
        screen.lines().position(|line| line.starts_with(start) && line.contains("  0198")).unwrap()
    };
    assert_eq!(row("  fix the parser"), row("❯ write docs") + 1, "{screen}");
    let resume = Request::Resume { session: "0198bb".into() };
    assert_eq!(stage.key(KeyCode::Enter), [Effect::Ask(resume)]);
    assert_eq!(
        stage.update(Input::Reply(Reply::Found(Ok("0198bb".into())))),
        [Effect::Switch(To::Session("0198bb".into()))]
    );
}

#[test]
fn commands_in_the_background_are_counted_while_there_are_any() {
    let mut stage = stage(80, 10);
    let message = Message::tool_result(CallId("c".into()), "bash", "job 1 started", false);
    let finished = Event::ToolFinished {
        message,
        changes: Vec::new(),
        duration: becket_types::Millis(1),
        original: None,
    };
    assert_eq!(stage.event(finished), [Effect::Ask(Request::Jobs)]);
    assert_eq!(stage.update(Input::Reply(Reply::Jobs(2))), [Effect::Wake(5_000, Timer::Jobs)]);
    assert!(stage.screen().contains(" · 2 jobs"), "{}", stage.screen());
    assert_eq!(stage.update(Input::Due(Timer::Jobs)), [Effect::Ask(Request::Jobs)]);
    // No timer runs when no command is left.
    assert_eq!(stage.update(Input::Reply(Reply::Jobs(0))), []);
    assert!(!stage.screen().contains("jobs"), "{}", stage.screen());
}

/// Returns the row of a screen that begins with this text.
fn row_of(screen: &str, text: &str) -> u16 {
    let row = screen.lines().position(|line| line.starts_with(text));
    assert!(row.is_some(), "{text}: {screen}");
    row.and_then(|row| u16::try_from(row).ok()).unwrap_or_default()
}

#[test]
fn the_system_s_theme_goes_by_what_the_terminal_says() {
    let mut stage = stage(60, 10);
    stage.type_text("/theme system");
    assert!(stage.key(KeyCode::Enter).contains(&Effect::AskBackground));
    stage.event(Event::UserMessage { message: Message::user("hello"), client_id: None, steered: false });
    let mut colours = Vec::new();
    for background in [(255, 255, 255), (0, 0, 0), (250, 240, 230)] {
        stage.update(Input::Background(background.0, background.1, background.2));
        let row = row_of(&stage.screen(), "› hello");
        colours.push(stage.colour(row, 3));
    }
    assert_ne!(colours[0], colours[1]);
    assert_eq!(colours[0], colours[2]);
    // A theme that the user chose stays, whatever colour the terminal reports.
    stage.type_text("/theme dark");
    assert!(!stage.key(KeyCode::Enter).contains(&Effect::AskBackground));
    let row = row_of(&stage.screen(), "› hello");
    let before = stage.colour(row, 3);
    stage.update(Input::Background(255, 255, 255));
    assert_eq!(row_of(&stage.screen(), "› hello"), row);
    assert_eq!(stage.colour(row, 3), before);
}

#[test]
fn commands_of_ones_own_are_offered_and_become_prompts() {
    let mut stage = stage(70, 20);
    let mut effects = Vec::new();
    for c in "/rev".chars() {
        effects.extend(stage.update(Input::Key(support::key(c))));
    }
    assert!(effects.contains(&Effect::Ask(Request::CustomCommands)), "{effects:?}");
    let own = Custom { name: "review".into(), arguments: "FILE".into(), description: "reviews it".into() };
    stage.update(Input::Reply(Reply::CustomCommands(vec![own])));
    assert!(stage.screen().contains("/review FILE"), "{}", stage.screen());
    stage.ctrl('c');
    stage.type_text("/review a.rs");
    let asked = Request::Custom { name: "review".into(), arguments: "a.rs".into() };
    assert!(stage.key(KeyCode::Enter).contains(&Effect::Ask(asked)));
    let effects = stage.update(Input::Reply(Reply::Prompt {
        command: "/review a.rs".into(),
        text: "Look at a.rs\nand say what is wrong".into(),
        terms: TurnTerms { allow: vec!["Read".into()], ..TurnTerms::default() },
    }));
    let parts = &sent(&effects).parts;
    assert_eq!(
        Message::new(Role::User, Origin::User, parts.clone()).text(),
        "Look at a.rs\nand say what is wrong"
    );
    assert_eq!(sent(&effects).terms.allow, ["Read"]);
    // The transcript has the command that the user wrote. Ctrl-O opens what the model reads.
    let message = Message { parts: parts.clone(), ..Message::user("") };
    stage.event(Event::UserMessage { message, client_id: None, steered: false });
    let screen = stage.screen();
    assert!(screen.contains("› /review a.rs\n") && !screen.contains("say what is wrong"), "{screen}");
    stage.ctrl('o');
    assert!(stage.screen().contains("› Look at a.rs\n  and say what is wrong"), "{}", stage.screen());
}

#[test]
fn modes_keys_and_vim() {
    let mut stage = stage(80, 24);
    let mode = |mode: &str| Effect::Send(Command::SetMode { mode: mode.into() });
    assert_eq!(stage.key(KeyCode::BackTab), [mode("acceptEdits")]);
    assert!(stage.screen().contains("acceptEdits"));
    assert_eq!(stage.key(KeyCode::BackTab), [mode("plan")]);
    assert_eq!(stage.key(KeyCode::BackTab), [mode("default")]);
    stage.type_text("/keys");
    stage.key(KeyCode::Enter);
    assert!(stage.screen().contains("  Ctrl-G editor "), "{}", stage.screen());
    stage.key(KeyCode::Esc);
    stage.type_text("/vim");
    stage.key(KeyCode::Enter);
    stage.update(Input::Due(Timer::Toast));
    assert!(stage.screen().contains("INSERT"), "{}", stage.screen());
    stage.type_text("one two");
    stage.key(KeyCode::Esc);
    stage.type_text("bcw");
    stage.type_text("three");
    let screen = stage.screen();
    assert!(screen.contains("› one three") && screen.contains("INSERT"), "{screen}");
    // In Vim's normal mode, Esc interrupts again.
    stage.event(Event::StepStarted { step: 1 });
    assert_eq!(stage.key(KeyCode::Esc), []);
    assert_eq!(stage.key(KeyCode::Esc), [Effect::Send(Command::Interrupt)]);
}

#[test]
fn the_status_line_says_what_fills_the_context_and_sheds_what_has_no_room() {
    let mut stage = stage(120, 12);
    stage.update(Input::Reply(Reply::Branch(Some("dev".into()))));
    stage.event(Event::ContextUsed {
        used: Tokens(50_000),
        usable: Tokens(100_000),
        window: Tokens(120_000),
        threshold: Tokens(90_000),
        kinds: vec![(SpanKind::System, Tokens(10_000)), (SpanKind::ToolOutput, Tokens(40_000))],
    });
    let last = |stage: &mut Stage| stage.screen().lines().last().unwrap_or_default().to_owned();
    // Until the first message, the header shows model, mode and folder, so the status line shows other things.
    assert_eq!(last(&mut stage), "Ctrl-P finds a command · Ctrl-R finds an earlier prompt · Ctrl-S details");
    say(&mut stage, "go");
    assert_eq!(
        last(&mut stage),
        "script/demo · default mode · context 50% · /home/u/project (dev) · Ctrl-S details"
    );
    stage.resize(80, 12);
    assert_eq!(last(&mut stage), "demo · default mode · context 50% · project (dev) · Ctrl-S details");
    // On a narrow screen the name of the default mode is left out first, because the size of the context matters more.
    stage.resize(27, 12);
    assert_eq!(last(&mut stage), "demo · context 50%");
    stage.resize(120, 12);
    stage.ctrl('s');
    let screen = stage.screen();
    let rows: Vec<&str> = screen.lines().collect();
    let bar = format!("{}{}{}┃·····", "█".repeat(6), "░".repeat(24), "·".repeat(24));
    let legend = "█ system ▓ rules ▒ tools ▚ messages ░ outputs ┃ compaction · Ctrl-S fewer details";
    let all =
        ["script/demo · default mode · context 50% of 100k · /home/u/project (dev)", bar.as_str(), legend];
    assert_eq!(rows[rows.len() - 3..], all);
    // Facts that have no room in one row continue in the next one.
    stage.resize(40, 12);
    let screen = stage.screen();
    let rows: Vec<&str> = screen.lines().collect();
    let all = [
        "script/demo · default · 50% of 100k",
        "project (dev) · ██░░░░░░░░········┃·",
        "Ctrl-S fewer details",
    ];
    assert_eq!(rows[rows.len() - 3..], all);
    stage.resize(8, 12);
    assert!(stage.screen().ends_with("\nscript/…\ndefault\n50% of …"), "{}", stage.screen());
    // A note is shown above the composer and takes no space from its line.
    stage.resize(60, 12);
    stage.ctrl('s');
    stage.ctrl('c');
    let screen = stage.screen();
    assert!(screen.contains("Ctrl-C once more quits\n›"), "{screen}");
    assert!(screen.ends_with("demo · default · context 50% · Ctrl-S details"), "{screen}");
    stage.update(Input::Reply(Reply::StatusLine(vec!["\x1b[31mmine".into(), "two".into()])));
    stage.resize(40, 12);
    assert!(stage.screen().ends_with("mine\ntwo"), "{}", stage.screen());
}

#[test]
fn who_looks_elsewhere_is_told_and_who_looks_is_not() {
    let mut stage = stage(80, 24);
    let asks = |stage: &mut Stage| stage.event(Event::PermissionAsked(Box::new(question(1))));
    assert!(!asks(&mut stage).iter().any(|e| matches!(e, Effect::Notify(_))));
    stage.update(Input::Focus(false));
    assert!(asks(&mut stage).contains(&Effect::Notify("edit waits for permission".into())));
}

#[test]
fn the_path_of_an_image_becomes_the_image() {
    let mut stage = stage(80, 24);
    let path = "/tmp/a b.png";
    let asked = stage.update(Input::Paste(path.into()));
    assert_eq!(asked, [Effect::Ask(Request::Attach { text: path.into() })]);
    stage.update(Input::Reply(Reply::Attached {
        text: path.into(),
        image: Some(("image/png".into(), vec![1])),
    }));
    assert!(stage.screen().contains("› [image]"), "{}", stage.screen());
    stage.ctrl('c');
    stage.update(Input::Reply(Reply::Attached { text: path.into(), image: None }));
    assert!(stage.screen().contains("› /tmp/a b.png"), "{}", stage.screen());
}

const SECRET: &str = "not-for-people";

fn keys() -> impl Strategy<Value = Input> {
    let code = prop_oneof![
        2 => prop::sample::select("é日😀\u{202e}\u{200b}\t\u{7f}".chars().collect::<Vec<_>>()).prop_map(KeyCode::Char),
        8 => prop::sample::select("yasnrhxpu /!@#dcwifqG0123456$%v.".chars().collect::<Vec<_>>()).prop_map(KeyCode::Char),
        8 => prop::sample::select(vec![
            KeyCode::Enter, KeyCode::Esc, KeyCode::Tab, KeyCode::BackTab, KeyCode::Up, KeyCode::Down,
            KeyCode::Left, KeyCode::Right, KeyCode::Home, KeyCode::End, KeyCode::PageUp, KeyCode::PageDown,
            KeyCode::Backspace, KeyCode::Delete, KeyCode::F(5), KeyCode::Null,
        ]),
    ];
    let held = prop::sample::select(vec![
        KeyModifiers::NONE,
        KeyModifiers::NONE,
        KeyModifiers::NONE,
        KeyModifiers::CONTROL,
        KeyModifiers::ALT,
        KeyModifiers::SHIFT,
    ]);
    (code, held).prop_map(|(code, held)| Input::Key(KeyEvent::new(code, held)))
}

fn inputs() -> impl Strategy<Value = Input> {
    let mouse = (0..4_u8, any::<u16>(), any::<u16>()).prop_map(|(kind, column, row)| {
        let kind = match kind {
            0 => MouseEventKind::ScrollUp,
            1 => MouseEventKind::Down(MouseButton::Left),
            2 => MouseEventKind::Drag(MouseButton::Left),
            _ => MouseEventKind::Up(MouseButton::Left),
        };
        Input::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE })
    });
    let hidden = || {
        let parts = vec![Part::text(SECRET)];
        Event::SyntheticMessage {
            message: Message::new(Role::User, Origin::Synthetic(Synthetic::CompactionContinue), parts),
        }
    };
    let said = Message::new(Role::User, Origin::User, vec![Part::text("said")]);
    let events = prop::sample::select(vec![
        Event::StepStarted { step: 1 },
        Event::PermissionAsked(Box::new(question(2))),
        Event::UserMessage { message: said, client_id: None, steered: false },
        hidden(),
        support::turn_end(becket_types::TurnEnd::Completed),
    ]);
    let replies = prop::sample::select(vec![
        Reply::Sessions(vec![("0198".into(), "x\u{202e}".into())]),
        Reply::Draft("日本\nlines".into()),
        Reply::StatusLine(vec!["\x1b[1m".into()]),
        Reply::Models(vec![("a/b".into(), "no key".into())]),
    ]);
    prop_oneof![
        12 => keys(),
        1 => "[ -~é日\n\r\t\u{1b}\u{202e}]{0,60}".prop_map(Input::Paste),
        1 => mouse,
        1 => prop_oneof![Just((1_u16, 1_u16)), Just((80, 24)), (1..60_u16, 1..16_u16)]
            .prop_map(|(columns, rows)| Input::Resize { columns, rows }),
        1 => any::<bool>().prop_map(Input::Focus),
        2 => events.prop_map(Input::Agent),
        1 => replies.prop_map(Input::Reply),
    ]
}

/// The reason for a question may have scrolled out of view. The question scrolls first, and the transcript where it has no more rows.
#[test]
fn the_transcript_scrolls_while_a_question_is_open() {
    let wheel = |kind| Input::Mouse(MouseEvent { kind, column: 3, row: 3, modifiers: KeyModifiers::NONE });
    for hunks in [1, 20] {
        let mut stage = stage(80, 24);
        for n in 0..40 {
            let message = Message::new(Role::User, Origin::User, vec![Part::text(format!("message {n}"))]);
            stage.event(Event::UserMessage { message, client_id: None, steered: false });
        }
        stage.event(Event::PermissionAsked(Box::new(question(hunks))));
        stage.read_question();
        let screen = stage.screen();
        assert!(screen.contains("message 39"), "{screen}");
        // A long change is read to its end first.
        let mut downs = 0;
        while stage.screen().contains("to allow") {
            assert!(stage.screen().contains("message 39"), "{}", stage.screen());
            stage.key(KeyCode::PageDown);
            downs += 1;
            assert!(downs < 30, "{}", stage.screen());
        }
        assert_eq!(downs > 0, hunks > 1);
        for _ in 0..=downs {
            stage.key(KeyCode::PageUp);
            stage.screen();
        }
        let screen = stage.screen();
        assert!(!screen.contains("message 39") && screen.contains("1 Yes"), "{screen}");
        for _ in 0..20 {
            stage.update(wheel(MouseEventKind::ScrollDown));
            stage.screen();
        }
        assert!(stage.screen().contains("message 39"), "{}", stage.screen());
    }
}

/// A draft that arrives while commands are offered: the menu does not apply to it.
#[test]
fn a_text_from_elsewhere_ends_a_completion() {
    let mut stage = stage(80, 24);
    stage.key(KeyCode::Char('/'));
    stage.update(Input::Reply(Reply::Draft("日本\nlines".into())));
    stage.key(KeyCode::Tab);
    let screen = stage.screen();
    assert!(
        screen.contains("日本") && screen.contains("lines") && !screen.contains("all commands"),
        "{screen}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn nothing_panics_nothing_hidden_is_drawn_and_nothing_unseen_is_allowed(
        inputs in prop::collection::vec(inputs(), 1..60),
    ) {
        let mut stage = stage(40, 10);
        let mut revealed = false;
        for input in inputs {
            // Ctrl-T reveals hidden messages on purpose.
            revealed |= matches!(&input, Input::Key(k)
                if k.code == KeyCode::Char('t') && k.modifiers == KeyModifiers::CONTROL);
            let effects = match input {
                Input::Resize { columns, rows } => {
                    stage.resize(columns, rows);
                    Vec::new()
                }
                input => stage.update(input),
            };
            // Time does not pass here, so nothing may be allowed.
            for effect in &effects {
                if let Effect::Send(Command::Decide { decision, .. }) = effect {
                    prop_assert!(matches!(decision, Decision::Deny { .. }), "{decision:?}");
                }
            }
            let screen = stage.screen();
            prop_assert!(revealed || !screen.contains(SECRET), "{screen}");
        }
    }
}

/// An interrupted call reports the interruption in its line. A turn without such a call reports it at its end.
#[test]
fn an_interrupt_is_told_once() {
    for with_call in [true, false] {
        let mut stage = stage(80, 14);
        if with_call {
            let id = CallId("c1".into());
            stage.event(Event::ToolStarted {
                call_id: id.clone(),
                name: "bash".into(),
                input: json!({"command": "sleep 60"}),
            });
            let mut message = Message::tool_result(id, "bash", "", true);
            if let Some(Part::ToolResult { interrupted, .. }) = message.parts.first_mut() {
                *interrupted = true;
            }
            stage.event(Event::ToolFinished {
                message,
                changes: Vec::new(),
                duration: Millis(900),
                original: None,
            });
        }
        stage.event(turn_end(TurnEnd::Interrupted));
        let screen = stage.screen();
        assert_eq!(screen.to_lowercase().matches("interrupted").count(), 1, "{screen}");
        assert!(screen.contains("say what to do instead"), "{screen}");
    }
}
