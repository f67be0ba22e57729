//! Screens for people who do not know becket: modes in words, the start, the dialog of a rule that always allows, and reading above a
//! question.

#[allow(dead_code, reason = "each binary uses its part of the stage")]
mod support;

use becket_tui::Preferences;
use becket_tui::app::App;
use becket_tui::ax::Speaker;
use becket_tui::input::{Effect, Input, Reply, Timer};
use becket_tui::theme::Theme;
use becket_types::{
    Access, CallId, Command, Decision, Event, Message, Millis, Part, PermissionRequest, RuleOffer, TurnEnd,
};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::json;
use support::{Stage, started, turn_end};

fn stage(columns: u16, rows: u16) -> Stage {
    let mut stage = Stage::new(columns, rows);
    stage.event(started());
    stage
}

fn mode(stage: &mut Stage, mode: &str) {
    stage.update(Input::Key(KeyEvent::new(KeyCode::BackTab, KeyModifiers::SHIFT)));
    stage.event(Event::ModeChanged { mode: mode.into() });
}

fn user(stage: &mut Stage, text: &str) {
    stage.event(Event::UserMessage { message: Message::user(text), client_id: None, steered: false });
}

fn alt_up(stage: &mut Stage) -> Vec<Effect> {
    stage.update(Input::Key(KeyEvent::new(KeyCode::Up, KeyModifiers::ALT)))
}

fn request(rule: Option<(&str, &str)>) -> PermissionRequest {
    PermissionRequest {
        call_id: CallId("c1".into()),
        tool: "bash".into(),
        input: json!({"command": "make"}),
        access: Access::execute("make"),
        reason: "default mode asks before commands".into(),
        offer: rule.map(|(rule, covers)| RuleOffer {
            rule: rule.into(),
            covers: covers.into(),
            ..RuleOffer::default()
        }),
        nearest: None,
        secrets: None,
        preview: Vec::new(),
    }
}

/// Several changes of the mode in a row are one line, about the last one. A change after something else has a line of its own.
#[test]
fn changes_of_the_mode_in_a_row_are_one_line() {
    let mut stage = stage(80, 24);
    user(&mut stage, "fix it");
    for next in ["acceptEdits", "plan", "default", "acceptEdits"] {
        mode(&mut stage, next);
    }
    let screen = stage.screen();
    assert_eq!(screen.matches(" mode: becket ").count(), 1, "{screen}");
    assert!(
        screen.contains("· acceptEdits mode: becket edits files without asking, and asks before commands\n"),
        "{screen}"
    );
    // The agent sends the mode again when it refuses to change it, which is no change.
    stage.event(Event::ModeChanged { mode: "acceptEdits".into() });
    user(&mut stage, "go on");
    stage.event(Event::ModeChanged { mode: "acceptEdits".into() });
    mode(&mut stage, "plan");
    let screen = stage.screen();
    assert_eq!(screen.matches(" mode: becket ").count(), 2, "{screen}");
    let at = |words: &str| screen.find(words).unwrap();
    assert!(at("acceptEdits mode: becket") < at("› go on") && at("› go on") < at("plan mode: becket only"));
    // Rows in the scrollback stay as they are.
    assert!(stage.print().iter().any(|line| line.contains("plan mode: becket")));
    mode(&mut stage, "default");
    assert_eq!(stage.print()[0], "· default mode: becket asks before changes and commands");
}

/// The status line says in words what a mode does that asks less than usual, if there is room for the facts beside it.
#[test]
fn the_status_line_says_what_the_mode_does() {
    for (columns, shown) in [
        (120, "edits without asking (acceptEdits) · "),
        (80, "edits without asking (acceptEdits) · "),
        (64, "edits without asking"),
        (50, "acceptEdits"),
    ] {
        let mut stage = stage(columns, 24);
        user(&mut stage, "fix it");
        mode(&mut stage, "acceptEdits");
        let screen = stage.screen();
        let line = screen.lines().last().unwrap();
        assert!(
            line.contains(shown) && line.contains("demo") && line.contains("project"),
            "{columns}: {line}"
        );
    }
}

/// A screen reader gets the same words.
#[test]
fn a_change_of_the_mode_is_said_in_words() {
    let mut speaker = Speaker::default();
    speaker.event(&started());
    let mut said = |mode: &str| speaker.event(&Event::ModeChanged { mode: mode.into() });
    assert_eq!(said("default"), Vec::<String>::new(), "it holds already");
    assert_eq!(said("plan"), ["plan mode: becket only reads, and presents a plan."]);
    assert_eq!(said("default"), ["default mode: becket asks before changes and commands."]);
}

/// The list of modes says what each does.
#[test]
fn the_list_of_modes_says_what_they_do() {
    let mut stage = stage(80, 24);
    stage.type_text("/mode ");
    let screen = stage.screen();
    for words in
        ["default  asks before changes", "acceptEdits  edits without asking", "plan  changes nothing"]
    {
        let words: Vec<&str> = words.split("  ").collect();
        let listed = screen.lines().any(|line| line.contains(words[0]) && line.contains(words[1]));
        assert!(listed, "{words:?}\n{screen}");
    }
}

/// At every width the start says whole words: what becket is, or nothing of it. On a large screen it is in the middle, on a small one next
/// to the input.
#[test]
fn the_start_is_whole_at_every_size() {
    for columns in 40..=130 {
        let mut stage = stage(columns, 24);
        let screen = stage.screen();
        let whole = screen.contains("reads, changes and runs code\n");
        let part = screen.contains("reads, ") || screen.contains("and ru");
        assert_eq!(whole, part, "{columns}\n{screen}");
        assert!(columns < 60 || whole, "{columns}\n{screen}");
        assert!(screen.contains(concat!(" ", env!("CARGO_PKG_VERSION"))), "{columns}\n{screen}");
    }
    let blank = |rows: &[&str]| rows.iter().take_while(|row| row.is_empty()).count();
    for (columns, rows, middle) in [(120, 40, true), (80, 40, true), (80, 24, false), (40, 12, false)] {
        let mut stage = stage(columns, rows);
        let screen = stage.screen();
        let lines: Vec<&str> = screen.lines().collect();
        let composer = lines.iter().position(|line| line.contains("Describe a task")).unwrap();
        let edge = composer - usize::from(rows >= 20);
        let above = blank(&lines);
        let below = lines[..edge].iter().rev().take_while(|row| row.is_empty()).count();
        assert_eq!(above.abs_diff(below) <= 1 && below > 1, middle, "{columns}x{rows}\n{screen}");
        assert!(middle || below == 1, "{columns}x{rows}\n{screen}");
        let shown = lines[above..edge - below].iter().filter(|line| !line.is_empty());
        let left = shown.clone().map(|line| line.chars().take_while(|c| *c == ' ').count()).min().unwrap();
        let right = usize::from(columns) - shown.map(|line| line.chars().count()).max().unwrap();
        // The text begins after a gutter.
        assert!(if middle { left.abs_diff(right) <= 3 } else { left <= 2 }, "{columns}x{rows}\n{screen}");
    }
}

/// The dialog of "always" names what is allowed in words, the narrower choice and its file first, paths in their short forms, and explains
/// the slashes of a rule.
#[test]
fn the_rule_that_always_allows_is_explained() {
    let preferences = Preferences {
        home: Some("/home/u".into()),
        rule_files: Some((
            "/home/u/.config/becket/config.toml".into(),
            "/home/u/.config/becket/projects/p.toml".into(),
        )),
        ..Preferences::plain(Theme::plain())
    };
    let mut stage = Stage::of(90, 24, App::with(preferences));
    stage.event(started());
    let rule = ("Edit(//home/u/project/src/a.rs)", "every edit of /home/u/project/src/a.rs");
    stage.event(Event::PermissionAsked(Box::new(request(Some(rule)))));
    assert!(stage.screen().contains("3 Yes, and allow every edit of src/a.rs always"), "{}", stage.screen());
    stage.answer('3');
    let screen = stage.screen();
    let mut rest = screen.as_str();
    for words in [
        "? Always allow this?\n",
        "  becket will not ask again about every edit of src/a.rs\n",
        "  as a rule of the settings: Edit(//home/u/project/src/a.rs)\n",
        "// begins a path from the root of the file system",
        "  for this project only, it is saved in ~/.config/becket/projects/p.toml\n",
        "  for every project, it is saved in ~/.config/becket/config.toml\n",
        "/permissions withdraws the rule",
        "❯ 1 Always, in this project only",
        "  2 Always, in every project",
        "  3 Back to the question",
    ] {
        let Some(at) = rest.find(words) else { panic!("{words}\n{screen}") };
        rest = &rest[at + words.len()..];
    }
    // A rule without a path needs no such explanation.
    let mut stage = self::stage(90, 24);
    let rule = ("Bash(make *)", "`make` alone and with any arguments");
    stage.event(Event::PermissionAsked(Box::new(request(Some(rule)))));
    stage.answer('3');
    let screen = stage.screen();
    assert!(screen.contains("ask again about `make` alone and with any arguments"), "{screen}");
    assert!(screen.contains("as a rule of the settings: Bash(make *)") && !screen.contains("begins a path"));
}

fn with_output() -> Stage {
    let mut stage = stage(80, 24);
    user(&mut stage, "fix it");
    let call_id = CallId("b".into());
    let input = json!({"command": "ls"});
    stage.event(Event::ToolStarted { call_id: call_id.clone(), name: "bash".into(), input });
    let output = (1..12).map(|n| format!("file {n}")).collect::<Vec<_>>().join("\n");
    let message = Message::tool_result(call_id, "bash", output, false);
    stage.event(Event::ToolFinished { message, changes: Vec::new(), duration: Millis(20), original: None });
    stage.event(Event::PermissionAsked(Box::new(request(None))));
    stage.read_question();
    stage
}

/// Alt-Up goes to the blocks above a question. There no key answers it, and Esc goes back to it.
#[test]
fn a_block_above_a_question_can_be_opened() {
    let mut stage = with_output();
    assert!(stage.screen().contains("Enter marks, Enter again allows"), "{}", stage.screen());
    assert_eq!(alt_up(&mut stage), []);
    let screen = stage.screen();
    assert!(screen.contains("The keys are for the text above · Esc goes back to this question"), "{screen}");
    assert!(
        screen.lines().last().unwrap().contains("Enter opens") && !screen.contains("Enter twice"),
        "{screen}"
    );
    assert!(!screen.contains("file 2\n"), "{screen}");
    stage.key(KeyCode::Enter);
    (0..6).for_each(|_| drop(stage.key(KeyCode::PageUp)));
    assert!(stage.screen().contains("│ file 2\n"), "{}", stage.screen());
    for key in [KeyCode::Enter, KeyCode::Char('1'), KeyCode::Char('y'), KeyCode::Enter, KeyCode::Enter] {
        let effects = stage.key(key);
        let decides = |effect: &Effect| matches!(effect, Effect::Send(Command::Decide { .. }));
        assert!(!effects.iter().any(decides), "{effects:?}");
        stage.read_question();
    }
    assert_eq!(stage.key(KeyCode::Esc), []);
    assert!(stage.screen().contains("Enter marks, Enter again allows"), "{}", stage.screen());
    stage.key(KeyCode::Enter);
    stage.read_question();
    let decision = Decision::AllowOnce;
    let decide = Effect::Send(Command::Decide { call_id: CallId("c1".into()), decision });
    assert_eq!(stage.key(KeyCode::Enter), [decide]);
}

/// Ctrl-O opens and closes calls also while a question is open, and answers nothing.
#[test]
fn ctrl_o_opens_calls_above_a_question() {
    let mut stage = with_output();
    assert!(!stage.screen().contains("│ file 7\n"), "{}", stage.screen());
    assert_eq!(stage.ctrl('o'), []);
    let screen = stage.screen();
    assert!(screen.contains("│ file 7\n") && screen.contains("Enter marks, Enter again allows"), "{screen}");
}

/// A search or a block in focus that was open before the question keeps the keys, and the question says so.
#[test]
fn reading_that_a_question_meets_goes_on() {
    let mut stage = stage(80, 24);
    user(&mut stage, "fix it");
    stage.event(Event::StepStarted { step: 1 });
    stage.ctrl('f');
    stage.type_text("fi");
    stage.event(Event::PermissionAsked(Box::new(request(None))));
    stage.read_question();
    stage.type_text("x");
    stage.key(KeyCode::Enter);
    let screen = stage.screen();
    assert!(screen.contains("find: fix") && screen.contains("Esc goes back to this question"), "{screen}");
    stage.key(KeyCode::Esc);
    stage.read_question();
    let screen = stage.screen();
    assert!(screen.contains("Enter marks, Enter again allows") && !screen.contains("find:"), "{screen}");
}

/// A session that goes on, a subagent at work, a compaction, a retry and a waiting message: each is one line, on the screen and in plain
/// lines.
#[test]
fn each_kind_of_work_is_one_line() {
    let nested = |what: Event| Event::Subagent { call_id: CallId("t".into()), what: Box::new(what) };
    let resumed = match started() {
        Event::SessionStarted {
            session, cwd, model, tools, permission_mode, skills, api_key_source, ..
        } => Event::SessionStarted {
            session,
            cwd,
            model,
            tools,
            permission_mode,
            skills,
            api_key_source,
            resumed: true,
            title: Some("parser".into()),
        },
        _ => unreachable!(),
    };
    let task = Event::ToolStarted {
        call_id: CallId("t".into()),
        name: "task".into(),
        input: json!({"description": "find callers"}),
    };
    let read = nested(Event::ToolStarted {
        call_id: CallId("r".into()),
        name: "read".into(),
        input: json!({"path": "a.rs"}),
    });
    let compacting = Event::CompactionStarted { trigger: becket_types::CompactionTrigger::Auto };
    let retry = Event::Retry {
        attempt: 2,
        max: 10,
        delay: Millis(4_000),
        error: "The server is overloaded.".into(),
        status: Some(529),
    };
    // The events, the words of the line on the screen, and the words for a screen reader.
    let cases: [(&str, Vec<Event>, &str, &str); 4] = [
        ("resumed", vec![resumed], "parser", "parser"),
        ("subagent", vec![task, read], "read a.rs", "Subagent running read: a.rs"),
        ("compaction", vec![compacting], "compacting the context", "Compacting the context."),
        ("retry", vec![retry], "overloaded", "The server is overloaded. Retry 2 of 10 in 4 seconds."),
    ];
    for (name, events, shown, said) in cases {
        let (mut stage, mut speaker) = (stage(80, 24), Speaker::default());
        speaker.event(&started());
        user(&mut stage, "fix it");
        let mut lines = Vec::new();
        for event in events {
            lines = speaker.event(&event);
            stage.event(event);
        }
        let screen = stage.screen();
        let of = screen.lines().filter(|line| line.contains(shown) && !line.starts_with("───"));
        assert_eq!(of.count(), 1, "{name}\n{screen}");
        assert_eq!(lines.len(), 1, "{name}: {lines:?}");
        assert!(lines[0].contains(said), "{name}: {lines:?}");
    }
    // A message that waits for the next step.
    let (mut stage, mut speaker) = (stage(80, 24), Speaker::default());
    stage.event(Event::StepStarted { step: 1 });
    stage.type_text("and then this");
    stage.key(KeyCode::Enter);
    let screen = stage.screen();
    assert_eq!(screen.matches("◷ at the next step: and then this").count(), 1, "{screen}");
    assert!(screen.contains("waiting for the model") && !screen.contains("sending"), "{screen}");
    speaker.event(&Event::StepStarted { step: 1 });
    assert_eq!(speaker.line("and then this", false).1, ["Waiting: the model gets this with its next step."]);
}

/// An interrupt is reported once, on the screen and in plain lines: with a call that it stopped, and without one.
#[test]
fn an_interrupt_is_told_once() {
    for call in [false, true] {
        let (mut stage, mut speaker) = (stage(80, 24), Speaker::default());
        let mut events = vec![Event::StepStarted { step: 1 }];
        if call {
            let call_id = CallId("b".into());
            let input = json!({"command": "sleep 9"});
            events.push(Event::ToolStarted { call_id: call_id.clone(), name: "bash".into(), input });
            let mut message = Message::tool_result(call_id, "bash", "", true);
            if let Some(Part::ToolResult { interrupted, .. }) = message.parts.first_mut() {
                *interrupted = true;
            }
            let (changes, original) = (Vec::new(), None);
            events.push(Event::ToolFinished { message, changes, duration: Millis(20), original });
        }
        events.push(turn_end(TurnEnd::Interrupted));
        let mut lines = Vec::new();
        for event in events {
            lines.extend(speaker.event(&event));
            stage.event(event);
        }
        let screen = stage.screen();
        assert_eq!(screen.to_lowercase().matches("interrupted").count(), 1, "{call}\n{screen}");
        let said = lines.iter().filter(|line| line.to_lowercase().contains("interrupt"));
        assert_eq!(said.count(), 1, "{call}: {lines:?}");
    }
}

/// Lists filter as one types.
#[test]
fn lists_of_sessions_messages_and_models_filter_as_one_types() {
    let mut stage = stage(80, 24);
    stage.type_text("/resume");
    stage.key(KeyCode::Enter);
    let session = |id: &str, about: &str| (id.to_owned(), about.to_owned());
    let sessions = vec![session("01", "fix the parser"), session("02", "write the guide")];
    stage.update(Input::Reply(Reply::Sessions(sessions)));
    assert!(stage.screen().contains("fix the parser") && stage.screen().contains("write the guide"));
    stage.type_text("guid");
    assert!(!stage.screen().contains("fix the parser"), "{}", stage.screen());
    assert!(stage.screen().contains("write the guide"), "{}", stage.screen());

    let mut stage = self::stage(80, 24);
    // The words after a long paste count as well.
    let paste = "a line of a log\n".repeat(300) + "fix the parser";
    for text in [paste.as_str(), "write the guide"] {
        user(&mut stage, text);
        stage.event(turn_end(TurnEnd::Completed));
    }
    stage.type_text("/rewind");
    stage.key(KeyCode::Enter);
    stage.type_text("pars");
    let screen = stage.screen();
    assert!(screen.contains("rewind to before") && screen.contains("❯ a line of a log"), "{screen}");
    assert!(!screen.contains("write the guide"), "{screen}");

    let mut stage = self::stage(80, 24);
    stage.type_text("/model ");
    let models = ["anthropic/one", "openai/two"].map(|name| (name.to_owned(), String::new()));
    stage.update(Input::Reply(Reply::Models(models.to_vec())));
    assert!(stage.screen().contains("anthropic/one") && stage.screen().contains("openai/two"));
    stage.type_text("two");
    let screen = stage.screen();
    assert!(screen.contains("❯ openai/two") && !screen.contains("anthropic/one"), "{screen}");
}

/// On a narrow screen the line of a running turn leaves out the cost and the time before it cuts its first word.
#[test]
fn the_line_of_a_turn_keeps_its_words_on_narrow_screens() {
    for columns in 26..100 {
        let mut stage = stage(columns, 24);
        user(&mut stage, "fix it");
        let input = json!({"command": "make"});
        stage.event(Event::ToolStarted { call_id: CallId("b".into()), name: "bash".into(), input });
        for _ in 0..75 {
            stage.update(Input::Due(Timer::Clock));
        }
        let screen = stage.screen();
        let line = screen.lines().find(|line| line.contains("Esc interrupts")).unwrap_or_default();
        assert!(line.contains(" working · "), "{columns}\n{screen}");
        assert_eq!(line.contains("turn 1 min 15 s"), columns >= 44, "{columns}: {line}");
    }
}
