//! Reading the transcript: search, the focused block, the mouse, copied text, calls joined into one line, colours of
//! code.

#[allow(dead_code, reason = "each binary uses its part of the stage")]
mod support;

use becket_tui::Preferences;
use becket_tui::app::App;
use becket_tui::input::{Effect, Input, Stretch};
use becket_tui::theme::Theme;
use becket_types::{CallId, Event, Message, MessageId, Millis, Part, Seq, TurnEnd};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::style::Color;
use serde_json::{Value, json};
use support::{Stage, started, turn_end};

fn say(stage: &mut Stage, text: &str) {
    stage.event(Event::UserMessage { message: Message::user(text), client_id: None, steered: false });
}

fn answer(stage: &mut Stage, text: &str) {
    stage.event(Event::TextDelta { message: MessageId::new(), index: 0, text: text.into() });
}

fn call(stage: &mut Stage, id: &str, name: &str, input: Value, output: &str, details: Value) {
    let call_id = CallId(id.into());
    stage.event(Event::ToolStarted { call_id: call_id.clone(), name: name.into(), input });
    let mut message = Message::tool_result(call_id, name, output, false);
    if let Some(Part::ToolResult { details: to, .. }) = message.parts.first_mut() {
        *to = details;
    }
    stage.event(Event::ToolFinished { message, changes: Vec::new(), duration: Millis(3), original: None });
}

fn copied(effects: &[Effect]) -> Option<&str> {
    effects.iter().find_map(|e| if let Effect::Copy(text) = e { Some(text.as_str()) } else { None })
}

fn alt(stage: &mut Stage, code: KeyCode) {
    stage.update(Input::Key(KeyEvent::new(code, KeyModifiers::ALT)));
}

fn mouse(stage: &mut Stage, kind: MouseEventKind, column: u16, row: u16) -> Vec<Effect> {
    stage.update(Input::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }))
}

fn drag(stage: &mut Stage, from: (u16, u16), to: (u16, u16)) -> Vec<Effect> {
    mouse(stage, MouseEventKind::Down(MouseButton::Left), from.0, from.1);
    mouse(stage, MouseEventKind::Drag(MouseButton::Left), to.0, to.1);
    mouse(stage, MouseEventKind::Up(MouseButton::Left), to.0, to.1)
}

#[test]
fn search_shows_each_hit_and_opens_what_is_closed() {
    let mut stage = Stage::new(60, 12);
    stage.event(started());
    say(&mut stage, "where is the needle?");
    call(&mut stage, "c1", "bash", json!({"command": "ls"}), "hay\nneedle in here\nhay", json!({}));
    for i in 0..30 {
        say(&mut stage, &format!("message {i}"));
    }
    answer(&mut stage, "The **Needle** was found.");
    stage.screen();
    stage.ctrl('f');
    stage.type_text("needle");
    let screen = stage.screen();
    assert!(screen.contains("find: needle   3 of 3"), "{screen}");
    assert!(screen.contains("The Needle was found."), "{screen}");
    stage.key(KeyCode::Up);
    let screen = stage.screen();
    assert!(screen.contains("2 of 3") && screen.contains("needle in here"), "{screen}");
    stage.key(KeyCode::Up);
    assert!(stage.screen().contains("› where is the needle?"));
    stage.key(KeyCode::Enter);
    stage.key(KeyCode::Enter);
    stage.key(KeyCode::Enter);
    assert!(stage.screen().contains("1 of 3"), "round");
    for _ in 0..6 {
        stage.key(KeyCode::Backspace);
    }
    stage.type_text("Needle");
    assert!(stage.screen().contains("1 of 1"), "{}", stage.screen());
    stage.key(KeyCode::Esc);
    let screen = stage.screen();
    assert!(!screen.contains("find:"), "{screen}");
    stage.type_text("typed");
    assert!(stage.screen().contains("› typed"));
}

/// The words and the text after them share one line, which is cut at any place.
#[test]
fn the_line_of_a_search_is_drawn_at_every_width() {
    for words in ["", "y", "needle", "日本語", "é…é", "👩👧"] {
        let mut stage = Stage::new(60, 6);
        stage.event(started());
        say(&mut stage, "where is the needle?");
        stage.screen();
        stage.ctrl('f');
        stage.type_text(words);
        for columns in (1..=60).rev() {
            stage.resize(columns, 6);
            let screen = stage.screen();
            let line = screen.lines().last().unwrap();
            let cut = becket_tui::text::fit("find: ", columns.into());
            assert!(columns < 3 || line.starts_with(cut.trim_end()), "{columns}: {screen}");
            assert!(columns < 14 || line.starts_with(&format!("find: {words}")), "{columns}: {screen}");
        }
    }
}

#[test]
fn what_is_hidden_is_found_only_while_it_is_revealed() {
    let mut stage = Stage::new(60, 12);
    stage.event(started());
    let message = Message::synthetic(becket_types::Synthetic::Reminder, "a secret nudge");
    stage.event(Event::SyntheticMessage { message });
    stage.screen();
    stage.ctrl('f');
    stage.type_text("secret");
    assert!(stage.screen().contains("0 of 0"));
    stage.key(KeyCode::Esc);
    stage.ctrl('t');
    stage.ctrl('f');
    stage.type_text("secret");
    assert!(stage.screen().contains("1 of 1"), "{}", stage.screen());
}

#[test]
fn a_block_in_focus_opens_and_is_copied() {
    let mut stage = Stage::new(70, 16);
    stage.event(started());
    say(&mut stage, "first");
    call(&mut stage, "c1", "bash", json!({"command": "ls"}), "one\ntwo\nthree\nfour\nfive\nsix", json!({}));
    answer(&mut stage, "See `this`:\n\n```rust\nfn main() {}\n```");
    stage.screen();
    alt(&mut stage, KeyCode::Up);
    assert!(stage.screen().contains("3 of 3 · Enter opens"), "{}", stage.screen());
    let effects = stage.key(KeyCode::Char('c'));
    assert_eq!(copied(&effects), Some("See `this`:\n\n```rust\nfn main() {}\n```"));
    stage.key(KeyCode::Up);
    assert!(!stage.screen().contains("│ two"));
    stage.key(KeyCode::Enter);
    assert!(stage.screen().contains("│ two"), "{}", stage.screen());
    assert_eq!(copied(&stage.key(KeyCode::Char('y'))), Some("bash ls\none\ntwo\nthree\nfour\nfive\nsix"));
    stage.key(KeyCode::Char('u'));
    assert_eq!(copied(&stage.key(KeyCode::Char('c'))), Some("first"));
    stage.key(KeyCode::Esc);
    stage.type_text("u");
    assert!(stage.screen().contains("› u"));
}

/// A conversation that is shorter than the screen is next to the composer, to a question and to the line of the activity: no
/// blank rows divide them.
#[test]
fn a_short_conversation_is_drawn_next_to_what_is_below_it() {
    for (columns, rows) in [(80, 24), (120, 40), (200, 60)] {
        let mut stage = Stage::new(columns, rows);
        stage.event(started());
        let screen = stage.screen();
        assert_eq!(row_of(&screen, "/help lists") - row_of(&screen, "script/demo"), 3, "{screen}");
        let below = row_of(&screen, "Describe a task") - row_of(&screen, "To begin");
        assert_eq!(below == 3, rows == 24, "on large screens it is in the middle: {screen}");
        say(&mut stage, "hello");
        answer(&mut stage, "the last words");
        let gap = |screen: &str, below: &str| {
            let lines: Vec<&str> = screen.lines().collect();
            let from = row_of(screen, "the last words") as usize;
            let to = lines.iter().skip(from).position(|line| line.starts_with(below));
            to.unwrap_or_else(|| panic!("{screen}")) - 1
        };
        assert_eq!(gap(&stage.screen(), "◐"), 1, "the activity");
        stage.event(turn_end(TurnEnd::Completed));
        assert_eq!(gap(&stage.screen(), "─"), 1, "the composer");
        let access = becket_types::Access::execute("cargo test");
        stage.event(Event::PermissionAsked(Box::new(becket_types::PermissionRequest {
            call_id: CallId("c9".into()),
            tool: "bash".into(),
            input: json!({"command": "cargo test"}),
            access,
            reason: "no rule allows it".into(),
            offer: None,
            nearest: None,
            secrets: None,
            preview: Vec::new(),
        })));
        assert_eq!(gap(&stage.screen(), "─"), 1, "the question");
    }
}

/// Every row of the conversation comes into view while one scrolls on a small screen: no note covers its text.
#[test]
fn the_note_about_the_rest_covers_no_text() {
    let mut stage = Stage::new(40, 12);
    stage.event(started());
    let words =
        |i: usize| format!("row {i} has exactly thirty-six columns").chars().take(38).collect::<String>();
    answer(&mut stage, &(1..=30).map(words).collect::<Vec<_>>().join("\n\n"));
    stage.event(turn_end(TurnEnd::Completed));
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..80 {
        let screen = stage.screen();
        seen.extend((1..=30).filter(|i| screen.lines().any(|line| line.trim() == words(*i))));
        assert!(
            screen.lines().filter(|line| line.contains("more below")).all(|line| !line.contains("row")),
            "{screen}"
        );
        mouse(&mut stage, MouseEventKind::ScrollUp, 3, 3);
    }
    assert_eq!(seen.len(), 30, "{seen:?}");
}

/// A call that is open shows all that its result holds.
#[test]
fn an_open_call_shows_its_whole_output() {
    let mut stage = Stage::new(60, 24);
    stage.event(started());
    ended(&mut stage, "bash", &json!({"command": "make"}), &printed(2_000), Some(0), false);
    stage.ctrl('o');
    let screen = stage.screen();
    assert!(screen.contains("│ line 2000\n") && !screen.contains("more lines"), "{screen}");
}

/// A session that is continued shows its earlier turns as before, and no call of a process that is gone as running.
#[test]
fn earlier_turns_of_a_continued_session_are_shown_as_they_were() {
    let preferences =
        Preferences { workspace: "/home/u/project".into(), ..Preferences::plain(Theme::plain()) };
    let mut app = App::with(preferences);
    let path = "/home/u/project/src/a.rs";
    let id = CallId("e".into());
    let mut changed = turn_end(TurnEnd::Completed);
    if let Event::TurnFinished(result) = &mut changed {
        result.duration = Millis(2_000);
    }
    let events = vec![
        Event::ToolStarted { call_id: id.clone(), name: "edit".into(), input: json!({"path": path}) },
        Event::ToolFinished {
            message: Message::tool_result(id, "edit", "ok", false),
            changes: vec![becket_types::FileChange {
                path: path.into(),
                kind: becket_types::FileChangeKind::Update,
            }],
            duration: Millis(3),
            original: None,
        },
        changed,
        Event::ToolStarted {
            call_id: CallId("c".into()),
            name: "bash".into(),
            input: json!({"command": "make"}),
        },
    ];
    app.show_end(&Stretch { from: Seq(1), to: Seq(9), events });
    let mut stage = Stage::of(80, 24, app);
    let mut resumed = started();
    if let Event::SessionStarted { resumed, .. } = &mut resumed {
        *resumed = true;
    }
    stage.event(resumed);
    let screen = stage.screen();
    assert!(screen.contains("✓ edit src/a.rs"), "{screen}");
    assert!(screen.contains("· edited src/a.rs"), "{screen}");
    assert!(screen.contains("◌ bash make  interrupted"), "{screen}");
}

/// Notices name files as calls do: relative to the folder of the session.
#[test]
fn notices_name_paths_in_the_folder_in_their_short_form() {
    let mut stage = Stage::new(60, 24);
    stage.event(started());
    let text = "/home/u/project/src/a.rs was changed outside of becket".to_owned();
    stage.event(Event::Notice { level: becket_types::NoticeLevel::Warning, text });
    assert!(stage.screen().contains("! src/a.rs was changed"), "{}", stage.screen());
}

/// Returns the first row of a screen that contains this text.
fn row_of(screen: &str, text: &str) -> u16 {
    let row = screen.lines().position(|line| line.contains(text));
    assert!(row.is_some(), "{text}: {screen}");
    row.and_then(|row| u16::try_from(row).ok()).unwrap_or_default()
}

#[test]
fn calls_that_only_look_are_one_line_that_opens() {
    let mut stage = Stage::new(60, 24);
    stage.event(started());
    for i in 0..3 {
        call(&mut stage, &format!("r{i}"), "read", json!({"path": format!("src/{i}.rs")}), "text", json!({}));
    }
    call(&mut stage, "g", "grep", json!({"pattern": "fn"}), "src/1.rs:3:fn x", json!({}));
    let screen = stage.screen();
    assert!(screen.contains("✓ read 3 files, grep once: src/0.rs, src/1.rs, src/2.rs, …"), "{screen}");
    assert_eq!(screen.matches('✓').count(), 1, "{screen}");
    call(&mut stage, "b", "bash", json!({"command": "ls"}), "x", json!({}));
    call(&mut stage, "r9", "read", json!({"path": "alone.rs"}), "text", json!({}));
    let screen = stage.screen();
    assert!(screen.contains("✓ read alone.rs"));
    let row = row_of(&screen, "✓ read 3 files");
    mouse(&mut stage, MouseEventKind::Down(MouseButton::Left), 3, row);
    mouse(&mut stage, MouseEventKind::Up(MouseButton::Left), 3, row);
    let screen = stage.screen();
    assert!(screen.contains("✓ read src/2.rs") && screen.contains("✓ grep fn"), "{screen}");
    let row = row_of(&screen, "✓ read src/0.rs");
    mouse(&mut stage, MouseEventKind::Down(MouseButton::Left), 3, row);
    mouse(&mut stage, MouseEventKind::Up(MouseButton::Left), 3, row);
    assert!(stage.screen().contains("✓ read 3 files, grep"));
}

/// A selection is copied as the original text: no wraps, no marks, no indentation of code.
#[test]
fn a_selection_is_copied_without_wraps_and_marks() {
    let mut stage = Stage::new(20, 24);
    stage.event(started());
    let prompt = "one two three four five six seven\nand a second line";
    say(&mut stage, prompt);
    answer(&mut stage, "text\n\n```\nlet long_name = another_long_name(1);\n    indented\n```");
    let screen = stage.screen();
    let top = row_of(&screen, "› one two three four");
    let effects = drag(&mut stage, (0, top), (19, top + 3));
    assert_eq!(copied(&effects), Some(prompt));
    let effects = drag(&mut stage, (6, top), (8, top));
    assert_eq!(copied(&effects), Some("two"));
    let (first, last) = (row_of(&screen, "let long"), row_of(&screen, "indented"));
    let effects = drag(&mut stage, (19, last), (0, first));
    assert_eq!(copied(&effects), Some("let long_name = another_long_name(1);\n    indented"));
}

#[test]
fn code_gets_its_colours_when_it_has_been_read() {
    let mut stage = Stage::themed(60, 12, Theme::dark());
    stage.event(started());
    answer(&mut stage, "```rust\nfn main() {}\n```");
    let colour = |stage: &mut Stage| {
        let row = row_of(&stage.screen(), "fn main");
        stage.colour(row, 4)
    };
    assert_eq!(colour(&mut stage), vt100::Color::Default);
    assert_eq!(stage.read_code(), 1);
    assert_ne!(colour(&mut stage), vt100::Color::Default);
    assert_eq!(stage.read_code(), 0, "once");
    stage.resize(40, 12);
    stage.screen();
    assert_eq!(stage.read_code(), 0, "also where it is laid out again");
    assert_ne!(colour(&mut stage), vt100::Color::Default);
    assert_ne!(Theme::dark().class(becket_tui::highlight::Class::Keyword).fg, Some(Color::Reset));
}

#[test]
fn colours_of_programs_are_kept_and_nothing_else_of_them() {
    let mut stage = Stage::themed(60, 12, Theme::dark());
    stage.event(started());
    let output = "\x1b[31mred\x1b[0m\x1b]52;c;aGk=\x07\x1b[2J plain\u{202e}";
    call(&mut stage, "c1", "bash", json!({"command": "x"}), output, json!({}));
    stage.ctrl('o');
    let screen = stage.screen();
    assert!(screen.contains("│ red plain⟨U+202E⟩"), "{screen}");
    assert_eq!(stage.colour(row_of(&screen, "│ red plain"), 2), vt100::Color::Idx(1));
}

/// Sends a call that ended with this output.
fn ended(stage: &mut Stage, name: &str, input: &Value, output: &str, code: Option<i64>, is_error: bool) {
    let id = CallId(MessageId::new().to_string());
    stage.event(Event::ToolStarted { call_id: id.clone(), name: name.into(), input: input.clone() });
    let mut result = Message::tool_result(id, name, output, is_error);
    if let Some(Part::ToolResult { details, .. }) = result.parts.first_mut() {
        let printed =
            output.lines().filter(|line| !line.starts_with("[exit code") && *line != "(no output)").count();
        *details = code.map_or(Value::Null, |code| json!({"exit_code": code, "printed_lines": printed}));
    }
    stage.event(Event::ToolFinished {
        message: result,
        changes: Vec::new(),
        duration: Millis(20),
        original: None,
    });
}

fn printed(lines: usize) -> String {
    (1..=lines).fold(String::new(), |text, i| text + &format!("line {i}\n"))
}

/// A closed call shows the end of its output or its error, and how many lines were left out.
#[test]
fn a_closed_call_shows_the_end_of_its_output_and_its_error() {
    let failing = format!("{}\nerror: it broke\n[exit code 3]", printed(8));
    let command = json!({"command": "make"});
    let file = json!({"path": "/home/u/project/src/a.rs"});
    let outside = json!({"path": "/etc/hosts"});
    type Case<'a> = (&'a str, &'a Value, String, Option<i64>, bool, &'a [&'a str]);
    let cases: [Case<'_>; 9] = [
        ("bash", &command, printed(3), Some(0), false, &["✓ bash make", "│ line 1", "│ line 2", "│ line 3"]),
        ("bash", &command, printed(4), Some(0), false, &["✓ bash make", "│ line 1", "│ line 2", "│ line 3", "│ line 4"]),
        (
            "bash",
            &command,
            printed(40),
            Some(0),
            false,
            &["✓ bash make", "│ … 37 earlier lines · Ctrl-O opens", "│ line 38", "│ line 39", "│ line 40"],
        ),
        (
            "bash",
            &command,
            failing,
            Some(3),
            true,
            &[
                "✗ bash make  failed (exit code 3) · 20 ms",
                "┃ … 4 earlier lines · Ctrl-O opens",
                "┃ line 5",
                "┃ line 6",
                "┃ line 7",
                "┃ line 8",
                "┃ error: it broke",
            ],
        ),
        ("bash", &command, "(no output)".into(), Some(0), false, &["✓ bash make"]),
        (
            "bash",
            &command,
            "test result: ok. 5 passed; 0 failed; 0 ignored\ntest result: FAILED. 7 passed; 2 failed; 0 ignored".into(),
            Some(101),
            true,
            &[
                "✗ bash make  2 failed, 12 passed · exit code 101 · 20 ms",
                "┃ test result: ok. 5 passed; 0 failed; 0 ignored",
                "┃ test result: FAILED. 7 passed; 2 failed; 0 ignored",
            ],
        ),
        ("read", &file, "the file does not exist".into(), None, true, &["✗ read src/a.rs  failed · 20 ms", "┃ the file does not exist"]),
        ("read", &file, printed(9), None, false, &["✓ read src/a.rs"]),
        ("write", &outside, "is a folder".into(), None, true, &["✗ write /etc/hosts  failed · 20 ms", "┃ is a folder"]),
    ];
    for (name, input, output, code, is_error, wanted) in cases {
        let mut stage = Stage::new(60, 14);
        stage.event(started());
        ended(&mut stage, name, input, &output, code, is_error);
        let screen = stage.screen();
        let shown: Vec<&str> = screen.trim_start().lines().take_while(|line| !line.is_empty()).collect();
        assert_eq!(shown, wanted);
    }
}

#[test]
fn a_running_command_shows_its_last_lines_and_counts_those_that_left_memory() {
    let mut stage = Stage::new(60, 12);
    stage.event(started());
    let id = CallId("c1".into());
    let input = json!({"command": "make"});
    stage.event(Event::ToolStarted { call_id: id.clone(), name: "bash".into(), input });
    for i in 1..=40_000 {
        stage.event(Event::ToolOutput { call_id: id.clone(), chunk: format!("unit {i}\n") });
    }
    let screen = stage.screen();
    let shown: Vec<&str> = screen.lines().skip_while(|line| line.is_empty()).take(7).collect();
    let wanted = [
        "◐ bash make",
        "│ … 39995 earlier lines · Ctrl-O opens",
        "│ unit 39996",
        "│ unit 39997",
        "│ unit 39998",
        "│ unit 39999",
        "│ unit 40000",
    ];
    assert_eq!(shown, wanted);
}

#[test]
fn one_call_opens_by_a_click_on_any_of_its_rows_and_the_others_stay_closed() {
    let mut stage = Stage::new(60, 30);
    stage.event(started());
    for _ in 0..2 {
        ended(&mut stage, "bash", &json!({"command": "make"}), &printed(9), Some(0), false);
    }
    let screen = stage.screen();
    assert_eq!(screen.matches("6 earlier lines").count(), 2);
    let row = row_of(&screen, "6 earlier lines");
    mouse(&mut stage, MouseEventKind::Down(MouseButton::Left), 8, row);
    mouse(&mut stage, MouseEventKind::Up(MouseButton::Left), 8, row);
    let screen = stage.screen();
    assert_eq!(screen.matches("6 earlier lines").count(), 1, "{screen}");
    assert_eq!(screen.matches("line 4").count(), 1, "{screen}");
}

/// The todo list is shown above the composer while the agent works on it. Between turns, one row says what is left.
#[test]
fn the_todo_list_is_a_panel_until_it_is_done() {
    let todo = |stage: &mut Stage, states: [&str; 7]| {
        let items: Vec<Value> = states
            .iter()
            .enumerate()
            .map(|(i, state)| json!({"content": format!("item {i}"), "status": state}))
            .collect();
        let mut result = Message::tool_result(CallId(MessageId::new().to_string()), "todo", "ok", false);
        if let Some(Part::ToolResult { details, .. }) = result.parts.first_mut() {
            *details = json!({"items": items});
        }
        stage.event(Event::ToolFinished {
            message: result,
            changes: Vec::new(),
            duration: Millis(1),
            original: None,
        });
    };
    let mut stage = Stage::new(60, 24);
    stage.event(started());
    stage.event(Event::StepStarted { step: 1 });
    let (done, now, later) = ("completed", "in_progress", "pending");
    todo(&mut stage, [done, done, done, now, later, later, later]);
    let panel = "To do · 3 of 7 done\n  ✓ item 2\n  ▸ item 3\n  ○ item 4\n  ○ item 5\n  ○ item 6\n\n◐ ";
    assert!(stage.screen().contains(panel), "{}", stage.screen());
    stage.resize(60, 12);
    let folded = "To do · 3 of 7 done · now: item 3 · next: item 4\n";
    assert!(stage.screen().contains(folded), "{}", stage.screen());
    stage.resize(44, 12);
    assert!(stage.screen().contains("To do · 3 of 7 done · now: item 3\n"), "{}", stage.screen());
    stage.resize(60, 24);
    stage.event(turn_end(TurnEnd::Completed));
    let screen = stage.screen();
    assert!(screen.contains(folded) && !screen.contains('▸'), "{screen}");
    stage.event(Event::StepStarted { step: 2 });
    assert!(stage.screen().contains(panel), "{}", stage.screen());
    todo(&mut stage, [done; 7]);
    assert!(!stage.screen().contains("To do"), "{}", stage.screen());
}

/// The background of changed rows extends to the edge, and bold words of thoughts have no marks.
#[test]
fn changes_and_thoughts_are_drawn_without_their_marks() {
    let mut stage = Stage::themed(60, 16, Theme::dark());
    stage.event(started());
    stage.event(Event::ReasoningDelta { message: MessageId::new(), index: 0, text: "**Plan** a * b".into() });
    answer(&mut stage, "```diff\n@@ -1 +1 @@\n-old\n+new\n same\n```");
    let screen = stage.screen();
    assert!(screen.trim_start().starts_with("∴ thinking: Plan a * b\n"), "{screen}");
    let row = |text: &str| screen.lines().position(|line| line.trim() == text).unwrap() as u16;
    let plain = vt100::Color::Default;
    for (text, banded) in [("-old", true), ("+new", true), ("same", false)] {
        assert_eq!(stage.background(row(text), 59) != plain, banded, "{text}");
    }
    assert_ne!(stage.background(row("-old"), 59), stage.background(row("+new"), 59));
    stage.ctrl('o');
    assert!(stage.screen().trim_start().starts_with("∴ Plan a * b\n"));
    assert!(stage.screen().contains("-old"));
}

/// A link that is wrapped into several rows stays one link, and text that only looks like a link is not one.
#[test]
fn links_are_hyperlinks() {
    becket_tui::links::switch_on();
    let mut stage = Stage::new(30, 12);
    stage.event(started());
    let link = "https://example.org/a/long/path/to/some/page";
    answer(&mut stage, &format!("See {link}, [the book](https://example.org/b) and [this](javascript:x)."));
    let bytes = String::from_utf8(stage.bytes()).unwrap();
    let opened = |address: &str| bytes.matches(&format!(";{address}\x1b\\")).count();
    assert!(opened(link) >= 1, "{bytes:?}");
    assert!(opened("https://example.org/b") >= 1, "{bytes:?}");
    assert!(!bytes.contains(";javascript:"), "{bytes:?}");
    assert!(bytes.rfind("\x1b]8;;\x1b\\") > bytes.rfind("\x1b]8;id="), "the last one is ended");
}
