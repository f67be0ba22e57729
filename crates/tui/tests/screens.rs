//! Screens from inputs: each flow as keys and events in, screen and commands out. No terminal, no agent.
//!
//! Properties run 100 cases each (a case draws up to forty screens through an emulator); `PROPTEST_CASES` sets more.

#[allow(dead_code, reason = "each binary uses its part of the stage")]
mod support;

use becket_tui::app::{App, Preferences};
use becket_tui::input::{Effect, Input, Timer};
use becket_tui::theme::Theme;
use becket_types::{
    Access, CallId, Command, CompactionTrigger, Cost, Decision, DeliveryMode, DenialCause, Event,
    FilePreview, FinishReason, Message, MessageId, Millis, Origin, Part, PermissionRequest, PreparationState,
    Role, Seq, Synthetic, Tokens, TurnEnd, Usage,
};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use proptest::prelude::*;
use serde_json::json;
use std::path::PathBuf;
use support::{Stage, key, started, turn_end};

#[test]
fn a_session_begins_with_an_empty_screen_and_a_hint() {
    let mut stage = Stage::new(60, 8);
    stage.event(started());
    assert_eq!(
        stage.screen(),
        "\n\n\n\n\n\n› Describe a task, or type / for commands\ndemo · default · project · Ctrl-S details"
    );
}

#[test]
fn the_header_names_the_folder_as_the_user_does() {
    let header = |home: Option<&str>| {
        let preferences = Preferences { home: home.map(PathBuf::from), ..Preferences::plain(Theme::plain()) };
        let mut stage = Stage::of(60, 12, App::with(preferences));
        stage.event(started());
        stage
            .screen()
            .lines()
            .skip_while(|line| line.is_empty())
            .take(3)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let Event::SessionStarted { cwd, .. } = started() else { unreachable!() };
    let folder = cwd.to_str().unwrap();
    for (home, shown) in [
        (None, folder.to_owned()),
        (Some("/elsewhere"), folder.to_owned()),
        (Some(folder), "~".to_owned()),
        (
            cwd.parent().and_then(|parent| parent.to_str()),
            format!("~/{}", cwd.file_name().unwrap().display()),
        ),
    ] {
        let header = header(home);
        assert!(header[0].starts_with("█▄▄  becket ") && header[2].trim() == shown, "{home:?}: {header:?}");
    }
}

/// A question about one file names it in its title, divides its parts where there is room, and shows code in colours.
#[test]
fn a_question_about_a_change_is_read_at_a_glance() {
    let mut stage = Stage::themed(80, 24, Theme::dark());
    stage.event(started());
    let Event::SessionStarted { cwd, .. } = started() else { unreachable!() };
    let path = cwd.join("src/span.py");
    let hunk = "@@ -1,2 +1,3 @@\n def span():\n-    return 1\n+    # why\n+    return 2\n";
    stage.event(Event::PermissionAsked(Box::new(PermissionRequest {
        call_id: CallId("c9".into()),
        tool: "edit".into(),
        input: json!({"path": "src/span.py"}),
        access: Access::write(path.clone()),
        reason: "changes are asked about".into(),
        offer: None,
        nearest: None,
        secrets: None,
        preview: vec![FilePreview {
            path,
            hunks: vec![hunk.to_owned()],
            marks: vec![(2, 12, 13), (4, 12, 13)],
        }],
    })));
    let screen = stage.screen();
    let question = "? Edit src/span.py?  adds 2 lines, removes 1\n  asked because changes are asked about\n\n  \
                    1  def span():\n  2 -    return 1\n  2 +    # why\n  3 +    return 2\n\n▸ 1 Yes   Enter twice\n  2 No   Esc\n\n";
    assert!(screen.contains(question), "{screen}");
    let row = screen.lines().position(|line| line.contains("1  def span")).unwrap() as u16;
    assert_eq!(stage.colour(row, 5), vt100::Color::Default);
    assert_eq!(stage.read_code(), 2, "the old text and the new one");
    assert_eq!(stage.screen(), screen, "colours change no text");
    assert_eq!(stage.colour(row, 5), vt100::Color::Rgb(210, 168, 255));
    // The blank rows are left out first if there is no room.
    let mut small = Stage::new(80, 15);
    small.event(started());
    ask(&mut small, "cargo test");
    assert!(small.screen().contains("asked because no rule allows rm\n\n▸ 1 Yes"), "{}", small.screen());
    let mut smaller = Stage::new(80, 10);
    smaller.event(started());
    ask(&mut smaller, "cargo test");
    assert!(smaller.screen().contains("asked because no rule allows rm\n▸ 1 Yes"), "{}", smaller.screen());
}

/// If whole hunks have no room, the lines far from the change are left out before the blank rows.
#[test]
fn a_question_keeps_its_blank_rows_longer_than_lines_far_from_the_change() {
    let mut stage = Stage::new(80, 24);
    stage.event(started());
    let same = (0..8).map(|at| format!(" line {at}\n")).collect::<Vec<_>>().concat();
    let path = PathBuf::from("/p/a.rs");
    stage.event(Event::PermissionAsked(Box::new(PermissionRequest {
        call_id: CallId("c9".into()),
        tool: "edit".into(),
        input: json!({}),
        access: Access::write(path.clone()),
        reason: "default mode asks before changes".into(),
        offer: None,
        nearest: None,
        secrets: None,
        preview: vec![FilePreview {
            path,
            hunks: vec![format!("@@ -1,16 +1,17 @@\n{same}+new\n{same}")],
            marks: Vec::new(),
        }],
    })));
    let screen = stage.screen();
    assert!(screen.contains("asked because default mode asks before changes\n\n"), "{screen}");
    assert!(screen.contains("+new"), "{screen}");
    assert!(screen.contains("\n\n▸ 1 Yes   Enter twice\n"), "{screen}");
}

#[test]
fn a_prompt_is_sent_and_its_turn_is_shown() {
    let mut stage = Stage::new(60, 16);
    stage.event(started());
    stage.type_text("fix the test");
    let effects = stage.key(KeyCode::Enter);
    assert!(effects.iter().any(|e| matches!(e, Effect::Send(Command::Prompt(p))
        if p.mode == DeliveryMode::Steer && p.parts == [Part::text("fix the test")])));
    assert!(stage.screen().contains("◐ sending · Esc interrupts"));

    stage.event(Event::UserMessage {
        message: Message::user("fix the test"),
        client_id: None,
        steered: false,
    });
    let id = MessageId::new();
    for text in ["I will ", "look at **it**"] {
        stage.event(Event::TextDelta { message: id, index: 0, text: text.into() });
    }
    stage.event(Event::ToolStarted {
        call_id: CallId("c1".into()),
        name: "bash".into(),
        input: json!({"command": "cargo test"}),
    });
    stage.event(Event::ToolOutput { call_id: CallId("c1".into()), chunk: "running 3 tests\n".into() });
    assert_eq!(
        stage.screen(),
        "\n\n\n\n\n\n› fix the test\n\n  I will look at it\n\n◐ bash cargo test\n│ running 3 tests\n\n◐ working · Esc interrupts\n› Enter sends now, Tab after this turn\ndemo · default · project · Ctrl-S details"
    );
    // The call has a time of its own, which is not that of the turn.
    for _ in 0..2 {
        stage.update(Input::Due(Timer::Clock));
    }
    let screen = stage.screen();
    assert!(
        screen.contains("◑ bash cargo test  2 s\n")
            && screen.contains("\n◑ working · turn 2 s · Esc interrupts\n"),
        "{screen}"
    );
    let mut result = Message::tool_result(CallId("c1".into()), "bash", "3 passed", false);
    if let Some(Part::ToolResult { details, .. }) = result.parts.first_mut() {
        *details = json!({"exit_code": 0});
    }
    stage.event(Event::ToolFinished {
        message: result,
        changes: Vec::new(),
        duration: Millis(2_300),
        original: None,
    });
    stage.event(turn_end(TurnEnd::Completed));
    let screen = stage.screen();
    assert!(screen.contains("✓ bash cargo test  2.3 s"), "{screen}");
    assert!(!screen.contains('◐'), "{screen}");
}

#[test]
fn escape_interrupts_and_tab_queues() {
    let mut stage = Stage::new(60, 10);
    stage.event(started());
    stage.event(Event::StepStarted { step: 1 });
    stage.type_text("and then this");
    let effects = stage.key(KeyCode::Tab);
    assert!(
        effects
            .iter()
            .any(|e| matches!(e, Effect::Send(Command::Prompt(p)) if p.mode == DeliveryMode::Queue))
    );
    // The message that waits comes back.
    for effects in [stage.key(KeyCode::Esc), stage.ctrl('c')] {
        let [Effect::Send(Command::Withdraw { .. }), Effect::Send(Command::Interrupt)] = &effects[..] else {
            panic!("{effects:?}")
        };
    }
}

#[test]
fn ctrl_c_clears_then_asks_then_quits() {
    let mut stage = Stage::new(60, 10);
    stage.event(started());
    stage.type_text("half a thought");
    assert_eq!(stage.ctrl('c'), []);
    assert!(stage.screen().contains("Describe a task"));
    stage.ctrl('c');
    assert!(stage.screen().contains("Ctrl-C once more quits"));
    assert_eq!(stage.ctrl('c'), [Effect::Quit]);
}

fn ask(stage: &mut Stage, command: &str) {
    stage.event(Event::PermissionAsked(Box::new(PermissionRequest {
        call_id: CallId("c9".into()),
        tool: "bash".into(),
        input: json!({"command": command}),
        access: Access::execute(command),
        reason: "no rule allows `rm`".into(),
        offer: None,
        nearest: None,
        secrets: None,
        preview: Vec::new(),
    })));
}

/// The row of the call would say the question twice, in the place of the reason that the agent gave.
#[test]
fn a_question_covers_the_row_of_its_call_and_keeps_the_words_before_it() {
    let mut stage = Stage::new(80, 20);
    stage.event(started());
    let id = MessageId::new();
    let text = format!("{}The old build is in the way.", "words\n\n".repeat(20));
    stage.event(Event::TextDelta { message: id, index: 0, text });
    stage.event(Event::ToolCallDelta {
        message: id,
        index: 1,
        call_id: CallId("c9".into()),
        name: "bash".into(),
        json: String::new(),
    });
    ask(&mut stage, "rm -rf build");
    let screen = stage.screen();
    assert!(screen.contains("The old build is in the way.\n\n──"), "{screen}");
    assert!(!screen.contains("waits for you"), "{screen}");
    assert_eq!(stage.screen(), stage.fresh());
    // The edges around the composer stay, since there is room.
    let rows: Vec<&str> = screen.lines().collect();
    assert!(rows[rows.len() - 4].starts_with("──") && rows[rows.len() - 2].starts_with("──"), "{screen}");
}

#[test]
fn a_long_rule_is_said_in_words() {
    let mut stage = Stage::new(100, 24);
    stage.event(started());
    let Event::SessionStarted { cwd, .. } = started() else { unreachable!() };
    let path = cwd.join("src/span.py");
    stage.event(Event::PermissionAsked(Box::new(PermissionRequest {
        call_id: CallId("c9".into()),
        tool: "edit".into(),
        input: json!({"path": "src/span.py"}),
        access: Access::write(path.clone()),
        reason: "default mode asks before changes".into(),
        offer: Some(becket_types::RuleOffer {
            rule: format!("Edit(/{}/and/a/long/way/to/it.py)", path.display()),
            covers: format!("changes of {}", path.display()),
            ..Default::default()
        }),
        nearest: None,
        secrets: None,
        preview: Vec::new(),
    })));
    let screen = stage.screen();
    assert!(screen.contains("2 Yes, and allow changes of src/span.py in this session"), "{screen}");
    assert!(
        screen.contains(
            "\nEnter marks, Enter again allows · 1–4 or ↑ ↓ select another · Esc refuses · Ctrl-C interrupts\n"
        ),
        "{screen}"
    );
}

#[test]
fn a_question_is_answered_only_after_it_was_seen() {
    let mut stage = Stage::new(70, 24);
    stage.event(started());
    ask(&mut stage, "rm -rf build\u{202e}/");
    // Typed ahead: the key goes to the composer and answers nothing.
    assert_eq!(stage.key(KeyCode::Char('1')), [Effect::Wake(1_000, Timer::Draft)]);
    assert_eq!(stage.update(Input::Paste("y\n".into())), []);
    let screen = stage.screen();
    assert!(screen.contains("? Run this command?"), "{screen}");
    assert!(screen.contains("$ rm -rf build⟨U+202E⟩/"), "{screen}");
    assert!(screen.contains("asked because no rule allows rm"), "{screen}");
    assert_eq!(stage.key(KeyCode::Tab), [], "not read yet");
    assert_eq!(stage.key(KeyCode::Char('1')), []);
    assert!(stage.screen().contains("› 1y\n  1\n"), "{}", stage.screen());
    stage.ctrl('u');
    stage.key(KeyCode::Backspace);
    stage.ctrl('u');
    let decided = |decision| [Effect::Send(Command::Decide { call_id: CallId("c9".into()), decision })];
    assert_eq!(stage.answer('1'), decided(Decision::AllowOnce));
    assert!(!stage.screen().contains("Run this command"));

    ask(&mut stage, "rm -rf build");
    stage.read_question();
    stage.type_text("use cargo clean");
    assert!(stage.screen().contains("Enter refuses, with this reason"), "{}", stage.screen());
    let mut effects = stage.key(KeyCode::Enter);
    effects.retain(|effect| matches!(effect, Effect::Send(_)));
    assert_eq!(effects, decided(Decision::Deny { reason: Some("use cargo clean".into()) }));
    ask(&mut stage, "rm -rf build");
    stage.read_question();
    assert_eq!(stage.key(KeyCode::Enter), [], "an empty line answers nothing");
    assert_eq!(stage.key(KeyCode::Esc), decided(Decision::Deny { reason: None }));
}

#[test]
fn what_is_longer_than_the_screen_must_be_read_before_it_is_allowed() {
    let mut stage = Stage::new(40, 12);
    stage.event(started());
    let command: Vec<String> = (0..60).map(|i| format!("echo line {i}")).collect();
    ask(&mut stage, &command.join("\n"));
    assert_eq!(stage.answer('1'), []);
    assert!(stage.screen().contains("To allow, first PageDown"), "{}", stage.screen());
    for _ in 0..40 {
        stage.key(KeyCode::PageDown);
        stage.screen();
    }
    assert!(stage.screen().contains("❯ 1 Yes"), "{}", stage.screen());
    stage.read_question();
    assert!(matches!(stage.key(KeyCode::Enter)[..], [Effect::Send(Command::Decide { .. })]));
}

fn retry(stage: &mut Stage, error: &str) {
    let (delay, status) = (Millis(12_000), Some(529));
    stage.event(Event::Retry { attempt: 2, max: 10, delay, status, error: error.into() });
}

#[test]
fn a_retry_counts_down_and_names_the_key_at_every_width() {
    let long = "The provider is overloaded and asks to wait: api.example.com said overloaded_error, try again later.";
    let address = "http://127.0.0.1:41977 is overloaded (status 529): Overloaded.";
    for (columns, error, begins) in [
        (120, "The provider is overloaded.", "! The provider is overloaded · turn 3 s · retry"),
        (80, long, "! The provider is overloaded and asks to… · retry"),
        (52, long, "! The provid"),
        (40, long, ""),
        (120, address, "! 127.0.0.1:41977 is overloaded (529) · turn 3 s · retry"),
        (80, address, "! 127.0.0.1:41977 is overloaded (529) · retry"),
    ] {
        let mut stage = Stage::new(columns, 12);
        stage.event(started());
        stage.event(Event::StepStarted { step: 1 });
        let second = |stage: &mut Stage| drop(stage.update(Input::Due(Timer::Clock)));
        (0..3).for_each(|_| second(&mut stage));
        retry(&mut stage, error);
        for left in ["in 12 s", "in 11 s"] {
            let screen = stage.screen();
            let end = format!(" · retry 2/10 {left} · Esc interrupts");
            let line = screen
                .lines()
                .find(|line| line.ends_with(&end))
                .unwrap_or_else(|| panic!("{columns}: {screen}"));
            assert!(line.starts_with(begins) || left == "in 11 s", "{columns}: {line}");
            second(&mut stage);
        }
        (0..12).for_each(|_| second(&mut stage));
        assert!(stage.screen().contains("retry 2/10 now · Esc interrupts"), "{}", stage.screen());
    }
}

#[test]
fn a_question_on_a_small_screen_says_that_it_must_be_read_to_its_end() {
    let mut stage = Stage::new(40, 12);
    stage.event(started());
    let command: Vec<String> = (0..60).map(|i| format!("echo line {i}")).collect();
    ask(&mut stage, &command.join("\n"));
    stage.read_question();
    assert!(stage.screen().contains("To allow, first PageDown · Esc refuses"), "{}", stage.screen());
    stage.key(KeyCode::Tab);
    assert!(stage.screen().contains("To allow, first PageDown · Esc refuses"), "{}", stage.screen());
    (0..20).for_each(|_| drop(stage.key(KeyCode::PageDown)));
    assert!(!stage.screen().contains("To allow"), "{}", stage.screen());
}

#[test]
fn a_refusal_is_cut_at_no_word() {
    for columns in [30, 40, 60, 80, 120] {
        let mut stage = Stage::new(columns, 24);
        stage.event(started());
        let reason = "you said no: please write the migration first and tell me which tables it touches";
        stage.event(Event::PermissionDenied(becket_types::PermissionDenial {
            tool: "bash".into(),
            call_id: CallId("c9".into()),
            input: json!({"command": "psql -f drop.sql"}),
            reason: reason.replace("you said no", "the user said no"),
            cause: DenialCause::User { words: reason.strip_prefix("you said no: ").map(str::to_owned) },
        }));
        let screen = stage.screen();
        let words: Vec<&str> = screen.split_whitespace().collect();
        for word in reason.split(' ') {
            assert!(words.contains(&word), "{columns}: {word} in {screen}");
        }
    }
}

/// The reason why calls are denied is shown once in a turn, and without advice for the model.
#[test]
fn a_reason_for_refusals_is_said_once_in_a_turn() {
    let mut stage = Stage::new(80, 24);
    stage.event(started());
    let denied = |stage: &mut Stage, id: &str, tool: &str| {
        stage.event(Event::PermissionDenied(becket_types::PermissionDenial {
            tool: tool.into(),
            call_id: CallId(id.into()),
            input: json!({"path": "src/a.rs"}),
            reason: format!("{tool} would write or run something, and permission mode plan only reads"),
            cause: DenialCause::PlanMode,
        }));
    };
    for (id, tool) in [("c1", "bash"), ("c2", "edit"), ("c3", "write")] {
        denied(&mut stage, id, tool);
    }
    let screen = stage.screen();
    assert_eq!(screen.matches("would write or run something").count(), 1, "{screen}");
    assert_eq!(screen.matches("not permitted: see the reason above").count(), 2, "{screen}");
    let message = Message::user("go on");
    stage.event(Event::UserMessage { message, client_id: None, steered: false });
    denied(&mut stage, "c4", "edit");
    assert_eq!(stage.screen().matches("would write or run something").count(), 2, "{}", stage.screen());
}

#[test]
fn a_compaction_that_was_asked_for_is_no_turn_and_ends_with_itself() {
    let mut stage = Stage::new(80, 12);
    let started = || Event::CompactionStarted { trigger: CompactionTrigger::Manual };
    let failed = || Event::CompactionFailed { reason: "nothing to drop".into() };
    stage.event(started());
    assert!(stage.screen().contains("compacting the context"), "{}", stage.screen());
    stage.event(failed());
    assert!(!stage.screen().contains("compacting the context"), "{}", stage.screen());
    // A message sent meanwhile starts a turn, and so does a compaction.
    stage.event(started());
    stage.type_text("go on");
    stage.key(KeyCode::Enter);
    stage.event(failed());
    assert!(stage.screen().contains("Esc interrupts"), "{}", stage.screen());
    stage.event(started());
    stage.event(failed());
    assert!(stage.screen().contains("Esc interrupts"), "{}", stage.screen());
}

#[test]
fn a_compaction_is_one_line_that_opens_and_its_continuation_is_hidden() {
    let mut stage = Stage::new(60, 30);
    stage.event(started());
    let mut told = Message::user("what was asked");
    (told.seq, told.id) = (Seq(3), MessageId::new());
    stage.event(Event::UserMessage { message: told, client_id: None, steered: false });
    let mut kept = Message::user("what must stay");
    (kept.seq, kept.id) = (Seq(4), MessageId::new());
    let pinned = vec![kept.id];
    stage.event(Event::UserMessage { message: kept, client_id: None, steered: false });
    stage.event(Event::CompactBoundary {
        entry: Seq(40),
        trigger: CompactionTrigger::Auto,
        pre_tokens: Tokens(148_000),
        post_tokens: Tokens(21_000),
        summary: "what was done".into(),
        anchor: Some("the last words".into()),
        tail_from: Seq(30),
        kept: pinned,
        left_out: Vec::new(),
    });
    let mut go_on = Message::synthetic(Synthetic::CompactionContinue, "Continue with the next step.");
    go_on.metadata.compaction_continue = true;
    stage.event(Event::SyntheticMessage { message: go_on });
    let screen = stage.screen();
    assert!(screen.contains("context compacted 148k → 21k · Ctrl-O shows the summary"), "{screen}");
    assert!(!screen.contains("what was done") && !screen.contains("Continue with"), "{screen}");
    stage.ctrl('o');
    let screen = stage.screen();
    assert!(screen.contains("what was done") && screen.contains("the last words"), "{screen}");
    assert!(screen.contains("no longer in the context\n  you: what was asked\n\n"), "{screen}");
    stage.ctrl('t');
    let screen = stage.screen();
    assert!(screen.contains("for the model only: compaction continue"), "{screen}");
    stage.ctrl('t');
    assert!(!stage.screen().contains("Continue with"));
}

#[test]
fn a_large_paste_is_a_chip_and_is_sent_whole() {
    let mut stage = Stage::new(60, 10);
    stage.event(started());
    let pasted: Vec<String> = (0..500).map(|i| format!("line {i}")).collect();
    let pasted = pasted.join("\n");
    stage.type_text("look: ");
    stage.update(Input::Paste(pasted.clone()));
    assert!(stage.screen().contains("look: [pasted 500 lines]"), "{}", stage.screen());
    let effects = stage.key(KeyCode::Enter);
    let sent = effects.iter().find_map(|e| match e {
        Effect::Send(Command::Prompt(p)) => Some(p.parts.clone()),
        _ => None,
    });
    let parts = sent.unwrap();
    let [Part::Text { text, extra, .. }] = parts.as_slice() else { panic!("{parts:?}") };
    assert_eq!((text, &extra["pasted"]), (&format!("look: {pasted}"), &json!([[6, 6 + pasted.len()]])));

    // The message looks as it did in the composer, and can be opened.
    let mut message = Message::user("");
    message.parts = parts;
    stage.event(Event::UserMessage { message, client_id: None, steered: false });
    assert!(stage.screen().contains("› look: [pasted 500 lines]"), "{}", stage.screen());
    assert!(!stage.screen().contains("line 499"), "{}", stage.screen());
    stage.ctrl('o');
    assert!(stage.screen().contains("line 499"), "{}", stage.screen());
    stage.ctrl('o');
    assert!(stage.screen().contains("› look: [pasted 500 lines]"), "{}", stage.screen());
}

#[test]
fn a_summary_in_the_background_is_a_word_in_the_status_line() {
    let mut stage = Stage::new(100, 12);
    stage.event(started());
    let shows = |stage: &mut Stage, state, word: &str| {
        stage.event(Event::SummaryPreparation { state });
        let screen = stage.screen();
        assert!(screen.lines().last().unwrap().contains(word), "{screen}");
        assert!(!screen.contains("background"), "{screen}");
    };
    shows(&mut stage, PreparationState::Began, "preparing a summary");
    shows(&mut stage, PreparationState::Ready, "summary ready");
    stage.event(Event::CompactionFailed { reason: "none".into() });
    assert!(!stage.screen().contains("summary ready"), "{}", stage.screen());
}

#[test]
fn a_context_that_is_full_is_told_once() {
    let mut stage = Stage::new(100, 16);
    stage.event(started());
    stage.event(Event::UserMessage { message: Message::user("go"), client_id: None, steered: false });
    let why = "The context is full, and compacting would not free enough.";
    stage.event(Event::CompactionFailed { reason: why.into() });
    stage.event(turn_end(TurnEnd::ContextFull { breakdown: why.into() }));
    let screen = stage.screen();
    assert_eq!(screen.to_lowercase().matches("the context is full").count(), 1, "{screen}");
    assert!(screen.contains(&format!("✗ {why}")) && !screen.contains("not compacted"), "{screen}");
}

/// A text that is no message for the model says so at the edge of the composer.
#[test]
fn the_edge_says_what_a_text_is() {
    for (text, says) in [
        ("!", "── shell command, runs at once ─"),
        ("!ls", "── shell command, runs at once ─"),
        ("#", "── a line for AGENTS.md ─"),
        ("# use tabs", "── a line for AGENTS.md ─"),
        ("#12 is wrong", ""),
        ("## Title", ""),
        ("fix it!", ""),
    ] {
        let mut stage = Stage::new(60, 24);
        stage.event(started());
        stage.type_text(text);
        let screen = stage.screen();
        let edge = screen.lines().rev().nth(3).unwrap();
        assert!(edge.starts_with(if says.is_empty() { "─────" } else { says }), "{text}: {screen}");
        assert!(edge.chars().count() == 60, "{screen}");
    }
}

/// The line of a turn says what it used so far, if there is room.
#[test]
fn the_activity_counts_the_tokens_of_the_turn() {
    let answered = |output| Event::AssistantMessage {
        message: Message::assistant(vec![Part::text("ok")]),
        finish: FinishReason::Stop,
        usage: Usage { output, ..Usage::default() },
        cost: Cost(0.002),
        ttft: None,
        api_time: Millis(1),
    };
    for (columns, line) in [
        (80, "◓ waiting for the model · turn 1 s · $0.0040 · 1.5k tokens · Esc interrupts"),
        (64, "◓ waiting for the model · turn 1 s · $0.0040 · Esc interrupts"),
    ] {
        let mut stage = Stage::new(columns, 24);
        stage.event(started());
        stage.event(Event::StepStarted { step: 1 });
        stage.event(answered(700));
        stage.event(answered(800));
        stage.update(Input::Due(Timer::Clock));
        assert!(stage.screen().contains(line), "{}", stage.screen());
        // The next turn begins with nothing.
        stage.event(turn_end(TurnEnd::Completed));
        stage.event(Event::StepStarted { step: 1 });
        assert!(!stage.screen().contains("tokens ·"), "{}", stage.screen());
    }
}

/// A turn that cost anything or changed a file ends with a line, however short it was.
#[test]
fn a_short_turn_that_cost_money_has_a_line_at_its_end() {
    for (cost, line) in [(0.0, ""), (0.000_4, "✓ done in 0.0 s · $0.0004"), (0.05, "✓ done in 0.0 s · $0.05")]
    {
        let mut stage = Stage::new(60, 24);
        stage.event(started());
        stage.event(Event::UserMessage { message: Message::user("hi"), client_id: None, steered: false });
        let Event::TurnFinished(mut result) = turn_end(TurnEnd::Completed) else { panic!("another event") };
        result.cost = Cost(cost);
        stage.event(Event::TurnFinished(result));
        let screen = stage.screen();
        assert!(screen.contains(line) && screen.contains('✓') != line.is_empty(), "{cost}: {screen}");
    }
}

/// Blocks of code have a background over the full width, and headings a colour of their own.
#[test]
fn code_and_headings_of_an_answer_are_told_apart() {
    let mut stage = Stage::themed(40, 24, becket_tui::theme::Theme::dark());
    stage.event(started());
    let text = "## Head\n\n**bold**\n\n```\nlet x\n```\n".to_owned();
    stage.event(Event::TextDelta { message: MessageId::new(), index: 0, text });
    let screen = stage.screen();
    let row = |words: &str| screen.lines().position(|line| line.trim() == words).unwrap() as u16;
    let (head, bold, code) = (row("Head"), row("bold"), row("let x"));
    assert_ne!(stage.colour(head, 2), stage.colour(bold, 2), "{screen}");
    for column in [0, 5, 39] {
        assert_ne!(stage.background(code, column), vt100::Color::Default, "{column}");
        assert_eq!(stage.background(code + 1, column), vt100::Color::Default, "{column}");
        assert_eq!(stage.background(bold, column), vt100::Color::Default, "{column}");
    }
}

#[test]
fn the_title_of_the_session_is_on_the_screen() {
    let mut stage = Stage::new(60, 24);
    stage.event(started());
    // The first message gives the session a title, and no line reports that.
    stage.event(Event::Renamed { title: "fix the parser".into() });
    assert!(stage.screen().contains("── fix the parser ──"), "{}", stage.screen());
    assert!(!stage.screen().contains("is now called"), "{}", stage.screen());
    stage.type_text("/rename another one");
    stage.key(KeyCode::Enter);
    stage.event(Event::Renamed { title: "another one".into() });
    assert!(stage.screen().contains("This session is now called another one."), "{}", stage.screen());
    assert!(stage.screen().contains("── another one ──"), "{}", stage.screen());
    // Without the composer's edges, the title is shown in the full status line.
    stage.resize(100, 12);
    stage.ctrl('s');
    assert!(stage.screen().lines().last().unwrap().contains("another one"), "{}", stage.screen());
}

#[test]
fn the_transcript_goes_to_the_scrollback_once() {
    let mut stage = Stage::new(60, 10);
    stage.event(started());
    for i in 0..30 {
        stage.event(Event::UserMessage {
            message: Message::user(format!("m{i}")),
            client_id: None,
            steered: false,
        });
    }
    let first = stage.print();
    assert_eq!(first.iter().filter(|l| l.starts_with("› m")).count(), 30);
    stage.event(Event::UserMessage { message: Message::user("later"), client_id: None, steered: false });
    assert_eq!(stage.print(), ["› later", ""]);
    assert!(stage.print().is_empty());
}

#[test]
fn scrolling_holds_its_place_while_the_end_grows() {
    let mut stage = Stage::new(40, 10);
    stage.event(started());
    let say = |stage: &mut Stage, i: usize| {
        stage.event(Event::UserMessage {
            message: Message::user(format!("m{i}")),
            client_id: None,
            steered: false,
        });
    };
    for i in 0..40 {
        say(&mut stage, i);
    }
    assert!(stage.screen().contains("m39"));
    stage.key(KeyCode::PageUp);
    let before = stage.screen();
    assert!(!before.contains("m39"), "{before}");
    for i in 40..80 {
        say(&mut stage, i);
    }
    assert_eq!(stage.screen(), before);
    for _ in 0..30 {
        stage.key(KeyCode::PageDown);
    }
    assert!(stage.screen().contains("m79"));
}

/// Deltas followed by the whole message show the same as the whole message alone.
#[test]
fn live_and_replayed_are_the_same() {
    let message = Message::assistant(vec![
        Part::text("# Plan\n\n- one\n- two\n\nand *more*"),
        Part::tool_call("c1", "read", json!({"path": "src/lib.rs"})),
    ]);
    let whole = Event::AssistantMessage {
        message: message.clone(),
        finish: FinishReason::ToolCalls,
        usage: Usage::default(),
        cost: Cost(0.0),
        ttft: None,
        api_time: Millis(0),
    };
    let finished = Event::ToolFinished {
        message: Message::tool_result(CallId("c1".into()), "read", "text", false),
        changes: Vec::new(),
        duration: Millis(3),
        original: None,
    };
    let mut live = Stage::new(50, 20);
    for piece in ["# Pl", "an\n\n- one\n-", " two\n\nand *mo", "re*"] {
        live.event(Event::TextDelta { message: message.id, index: 0, text: piece.into() });
        live.screen();
    }
    live.event(Event::ToolCallDelta {
        message: message.id,
        index: 1,
        call_id: CallId("c1".into()),
        name: "read".into(),
        json: String::new(),
    });
    live.event(whole.clone());
    live.event(Event::ToolStarted {
        call_id: CallId("c1".into()),
        name: "read".into(),
        input: json!({"path": "src/lib.rs"}),
    });
    live.event(finished.clone());
    live.event(turn_end(TurnEnd::Completed));
    let mut replayed = Stage::new(50, 20);
    replayed.event(whole);
    replayed.event(finished);
    assert_eq!(live.screen(), replayed.screen());
}

fn end_after(millis: u64) -> Event {
    let Event::TurnFinished(mut result) = turn_end(TurnEnd::Completed) else { unreachable!() };
    result.duration = Millis(millis);
    Event::TurnFinished(result)
}

/// An approval leaves a trace in the line of its call, and the end of the turn tells the file and its lines.
#[test]
fn an_allowed_change_says_so_and_the_turn_counts_its_lines() {
    let diff = "@@ -1 +1,2 @@\n-a\n+b\n+c\n";
    for (number, how) in
        [('1', "allowed once"), ('2', "allowed for this session"), ('3', "allowed from now on")]
    {
        let mut stage = Stage::new(100, 30);
        stage.event(started());
        let Event::SessionStarted { cwd, .. } = started() else { unreachable!() };
        let (path, id) = (cwd.join("src/a.rs"), CallId("c9".into()));
        stage.event(Event::PermissionAsked(Box::new(PermissionRequest {
            call_id: id.clone(),
            tool: "edit".into(),
            input: json!({"path": "src/a.rs"}),
            access: Access::write(path.clone()),
            reason: "default mode asks before changes".into(),
            offer: Some(becket_types::RuleOffer {
                rule: "Edit(/src/**)".into(),
                covers: "changes in src".into(),
                ..Default::default()
            }),
            nearest: None,
            secrets: None,
            preview: vec![FilePreview { path: path.clone(), hunks: vec![diff.into()], marks: Vec::new() }],
        })));
        // The question is the only row that names the call.
        let screen = stage.screen();
        assert!(!screen.contains("waits for you") && screen.matches("src/a.rs").count() == 1, "{screen}");
        stage.answer(number);
        if number == '3' {
            stage.read_question();
            stage.key(KeyCode::Char('1'));
        }
        stage.event(Event::ToolStarted {
            call_id: id.clone(),
            name: "edit".into(),
            input: json!({"path": "src/a.rs"}),
        });
        let mut result = Message::tool_result(id, "edit", "done", false);
        if let Some(Part::ToolResult { details, .. }) = result.parts.first_mut() {
            *details = json!({"diff": diff, "additions": 2, "deletions": 1});
        }
        let changes = vec![becket_types::FileChange { path, kind: becket_types::FileChangeKind::Update }];
        stage.event(Event::ToolFinished { message: result, changes, duration: Millis(20), original: None });
        stage.event(end_after(8_600));
        let screen = stage.screen();
        assert!(screen.contains(&format!("✓ edit src/a.rs  added 2 lines, removed 1 · {how}")), "{screen}");
        assert!(screen.contains("✓ done in 8.6 s · edited src/a.rs +2 −1"), "{screen}");
    }
}

/// While the view is scrolled away from the end, the message that it belongs to is in the first row, and End goes back.
#[test]
fn scrolled_up_the_message_stays_in_the_first_row() {
    let mut stage = Stage::new(80, 24);
    stage.event(started());
    for (prompt, lines) in [("first question", 60), ("second question", 60)] {
        let message = Message::new(Role::User, Origin::User, vec![Part::text(prompt)]);
        stage.event(Event::UserMessage { message, client_id: None, steered: false });
        let text = format!("{prompt} answered\n\n").repeat(lines);
        stage.event(Event::TextDelta { message: MessageId::new(), index: 0, text });
    }
    stage.event(turn_end(TurnEnd::Completed));
    let first = |stage: &mut Stage| stage.screen().lines().next().unwrap_or_default().to_owned();
    // At the end, too, the first row is the message that is answered.
    assert_eq!(first(&mut stage), "› second question");
    stage.key(KeyCode::PageUp);
    let screen = stage.screen();
    assert!(screen.starts_with("› second question\n"), "{screen}");
    assert!(screen.contains(" ↓ more below · End ──"), "{screen}");
    // In a text End belongs to the text, so the note names the other key.
    stage.type_text("and");
    assert!(stage.screen().contains(" ↓ more below · Ctrl-End ──"), "{}", stage.screen());
    stage.key(KeyCode::End);
    assert!(stage.screen().contains("more below"), "{}", stage.screen());
    stage.ctrl('u');
    for _ in 0..20 {
        stage.key(KeyCode::PageUp);
        let screen = stage.screen();
        let pinned = screen.lines().next().unwrap_or_default();
        assert!(pinned == "› second question" || pinned == "› first question", "{screen}");
        assert_eq!(
            screen.lines().filter(|line| line.starts_with("› ") && *line == pinned).count(),
            1,
            "{screen}"
        );
    }
    assert!(first(&mut stage) == "› first question");
    stage.key(KeyCode::End);
    assert!(!stage.screen().contains("more below"), "{}", stage.screen());
    stage.key(KeyCode::PageUp);
    stage.update(Input::Key(KeyEvent::new(KeyCode::End, KeyModifiers::CONTROL)));
    assert!(!stage.screen().contains("more below"), "{}", stage.screen());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// For any events and any size of the terminal: no panic, no hidden message is drawn, and no escape reaches a cell.
    #[test]
    fn any_events_in_any_size(
        steps in proptest::collection::vec((0u8..12, "[ -~\u{1b}\u{202e}日\n]{0,40}"), 0..40),
        sizes in proptest::collection::vec((1u16..120, 1u16..50), 1..4),
    ) {
        let mut stage = Stage::new(sizes[0].0, sizes[0].1);
        stage.event(started());
        let id = MessageId::new();
        for (i, (kind, text)) in steps.iter().enumerate() {
            match kind {
                0 => { stage.event(Event::UserMessage { message: Message::user(text.clone()), client_id: None, steered: i % 2 == 0 }); }
                1 => { stage.event(Event::TextDelta { message: id, index: 0, text: text.clone() }); }
                2 => { stage.event(Event::ReasoningDelta { message: id, index: 1, text: text.clone() }); }
                3 => { stage.event(Event::ToolStarted { call_id: CallId(format!("c{i}")), name: "bash".into(), input: json!({"command": text}) }); }
                4 => { stage.event(Event::SyntheticMessage { message: Message::synthetic(Synthetic::Reminder, "SECRET-REMINDER") }); }
                5 => ask(&mut stage, text),
                6 => stage.type_text(text.trim_matches(|c: char| c.is_control())),
                7 => { stage.key(KeyCode::PageUp); }
                8 => { stage.key(KeyCode::Enter); }
                9 => { stage.update(Input::Paste(text.clone())); }
                10 => { stage.update(Input::Due(Timer::Arm)); }
                _ => { stage.update(Input::Key(KeyEvent::new(KeyCode::Char('o'), KeyModifiers::CONTROL))); }
            }
            let size = sizes[i % sizes.len()];
            stage.resize(size.0, size.1);
            let screen = stage.screen();
            prop_assert!(!screen.contains("SECRET-REMINDER"));
            prop_assert!(screen.chars().all(|c| c == '\n' || !c.is_control()));
        }
        // Drawing step by step shows the same as a fresh draw.
        let (width, height) = sizes[0];
        stage.resize(width, height);
        prop_assert_eq!(stage.screen(), stage.fresh());
    }

    /// A window is resized many times while an answer streams in.
    #[test]
    fn a_storm_of_resizes_ends_in_what_a_fresh_draw_shows(
        sizes in proptest::collection::vec((1u16..220, 1u16..80), 40),
        piece in "[a-z `*|\n日👍#-]{1,60}",
    ) {
        let mut stage = Stage::new(80, 24);
        stage.event(started());
        let id = MessageId::new();
        for (i, (columns, rows)) in sizes.iter().enumerate() {
            stage.event(Event::TextDelta { message: id, index: 0, text: piece.clone() });
            stage.resize(*columns, *rows);
            if i % 7 == 0 {
                stage.key(KeyCode::PageUp);
            }
            stage.bytes();
        }
        stage.resize(80, 24);
        stage.bytes();
        prop_assert_eq!(stage.shown(), stage.fresh());
    }

    #[test]
    fn every_key_is_survived(codes in proptest::collection::vec(any::<char>(), 0..60), modifiers in any::<u8>()) {
        let mut stage = Stage::new(30, 8);
        for c in codes {
            stage.update(Input::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::from_bits_truncate(modifiers))));
        }
        // The screens are not compared here, because emulators disagree on the width of unassigned characters.
        stage.bytes();
        prop_assert_eq!(key('x').code, KeyCode::Char('x'));
    }
}
