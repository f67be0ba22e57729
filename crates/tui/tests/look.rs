//! Looks that mean the same everywhere: colours of a change, the band of a message, signs of running work, durations.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[allow(dead_code, reason = "each binary uses its part of the stage")]
mod support;

use becket_tui::input::{Input, Timer};
use becket_tui::theme::Theme;
use becket_types::{
    Access, CallId, Cost, Event, FilePreview, Message, Millis, Origin, Part, PermissionRequest, Role,
    RuleOffer, TurnEnd,
};
use crossterm::event::{KeyModifiers, MouseEvent, MouseEventKind};
use serde_json::{Value, json};
use support::{Stage, started, turn_end};

fn themes() -> [Theme; 7] {
    Theme::NAMES.map(|name| Theme::by_name(name).unwrap())
}

fn row_of(screen: &str, part: &str) -> u16 {
    let row = screen.lines().position(|line| line.contains(part));
    assert!(row.is_some(), "{part}\n{screen}");
    row.unwrap() as u16
}

fn say(stage: &mut Stage, text: &str) {
    let message = Message::new(Role::User, Origin::User, vec![Part::text(text)]);
    stage.event(Event::UserMessage { message, client_id: None, steered: false });
}

fn begin(stage: &mut Stage, id: &str, name: &str, input: Value) {
    stage.event(Event::ToolStarted { call_id: CallId(id.into()), name: name.into(), input });
}

fn finish(stage: &mut Stage, id: &str, name: &str, output: &str, details: Value, is_error: bool) {
    let mut message = Message::tool_result(CallId(id.into()), name, output, is_error);
    if let Some(Part::ToolResult { details: known, .. }) = message.parts.first_mut() {
        *known = details;
    }
    stage.event(Event::ToolFinished { message, changes: Vec::new(), duration: Millis(20), original: None });
}

/// A change looks the same in its question and in the transcript afterwards, in every theme, while its code is parsed and after
/// that, in a language with colours and in one without.
#[test]
fn a_change_looks_the_same_in_its_question_and_afterwards() {
    const DIFF: &str = "@@ -1,3 +1,4 @@\n fn a() {\n-    let x = 1;\n+    // why\n+    let x = 2;\n }\n";
    const LINES: [&str; 5] = ["fn a() {", "let x = 1;", "// why", "let x = 2;", "4  }"];
    for theme in themes() {
        for (name, parsed) in [("a.rs", false), ("a.rs", true), ("a.unknown", false), ("a.unknown", true)] {
            let mut stage = Stage::themed(80, 30, theme.clone());
            stage.event(started());
            let Event::SessionStarted { cwd, .. } = started() else { unreachable!() };
            let path = cwd.join(name);
            let marks = vec![(2, 13, 14), (4, 13, 14)];
            stage.event(Event::PermissionAsked(Box::new(PermissionRequest {
                call_id: CallId("c1".into()),
                tool: "edit".into(),
                input: json!({"path": name}),
                access: Access::write(path.clone()),
                reason: "default mode asks before changes".into(),
                offer: None,
                nearest: None,
                secrets: None,
                preview: vec![FilePreview { path, hunks: vec![DIFF.to_owned()], marks: marks.clone() }],
            })));
            let shown = |stage: &mut Stage| -> Vec<Vec<vt100::Cell>> {
                stage.screen();
                if parsed {
                    stage.read_code();
                }
                let screen = stage.screen();
                LINES.iter().map(|line| stage.cells(row_of(&screen, line))).collect()
            };
            let asked = shown(&mut stage);
            stage.answer('1');
            begin(&mut stage, "c1", "edit", json!({"path": name}));
            finish(&mut stage, "c1", "edit", "done", json!({"diff": DIFF, "marks": marks}), false);
            let done = shown(&mut stage);
            for ((asked, done), line) in asked.iter().zip(&done).zip(LINES) {
                assert_eq!(asked, done, "{} {name} {parsed}: {line}", theme.name);
            }
        }
    }
}

fn has_band(cell: &vt100::Cell) -> bool {
    cell.inverse() || cell.bgcolor() != vt100::Color::Default
}

/// Everything that a band shows with colours is also seen without them: changed lines, the note that more is below, the block of a failed call, and
/// quotes.
#[test]
fn bands_bars_and_quotes_are_seen_in_every_theme() {
    for theme in themes() {
        let mut stage = Stage::themed(60, 24, theme.clone());
        stage.event(started());
        say(&mut stage, "fix the parser");
        begin(&mut stage, "a", "bash", json!({"command": "make"}));
        finish(&mut stage, "a", "bash", "one\ntwo", json!({"exit_code": 2}), true);
        begin(&mut stage, "b", "edit", json!({"path": "a.rs"}));
        let diff = "@@ -1,2 +1,2 @@\n same\n-old\n+new\n";
        finish(&mut stage, "b", "edit", "done", json!({"diff": diff}), false);
        let id = becket_types::MessageId::new();
        stage.event(Event::TextDelta { message: id, index: 0, text: "> quoted words\n\nmore\n".into() });
        stage.event(turn_end(TurnEnd::Completed));
        let screen = stage.screen();
        assert!(screen.contains("\n┃ one\n┃ two\n"), "{screen}");
        for (line, band) in [("1  same", false), ("2 -old", true), ("2 +new", true)] {
            let cells = stage.cells(row_of(&screen, line));
            assert_eq!(cells[2..5].iter().all(has_band), band, "{}: {line}", theme.name);
        }
        let quote = stage.cells(row_of(&screen, "quoted words"))[6].clone();
        assert!(quote.italic(), "{}", theme.name);
        let text = "words\n\n".repeat(40);
        stage.event(Event::TextDelta { message: becket_types::MessageId::new(), index: 0, text });
        stage.key(crossterm::event::KeyCode::PageUp);
        let screen = stage.screen();
        let row = row_of(&screen, "↓ more below");
        let from = screen.lines().nth(row.into()).unwrap().chars().take_while(|c| *c != '↓').count();
        let cells = stage.cells(row);
        assert!(cells[from..from + 12].iter().all(has_band), "{}", theme.name);
    }
}

/// Three unchanged lines are shown around a change, also beyond blank ones.
#[test]
fn a_change_has_three_lines_around_it() {
    let mut stage = Stage::new(60, 30);
    stage.event(started());
    begin(&mut stage, "b", "edit", json!({"path": "a.rs"}));
    let diff = "@@ -1,7 +1,7 @@\n one\n\n three\n-old\n+new\n five\n\n seven\n";
    finish(&mut stage, "b", "edit", "done", json!({"diff": diff}), false);
    let mut asked = Stage::new(60, 40);
    asked.event(started());
    asked.event(Event::PermissionAsked(Box::new(PermissionRequest {
        call_id: CallId("c1".into()),
        tool: "edit".into(),
        input: json!({"path": "a.rs"}),
        access: Access::write("/p/a.rs".into()),
        reason: "default mode asks before changes".into(),
        offer: None,
        nearest: None,
        secrets: None,
        preview: vec![FilePreview {
            path: "/p/a.rs".into(),
            hunks: vec![diff.to_owned()],
            marks: Vec::new(),
        }],
    })));
    for screen in [stage.screen(), asked.screen()] {
        for line in ["1  one", "3  three", "4 -old", "4 +new", "5  five", "7  seven"] {
            assert!(screen.contains(line), "{line}\n{screen}");
        }
    }
}

/// The band of a message goes over the full width in every theme: a background, or reverse video where there is none. A mark on it, as
/// of a search, is visible.
#[test]
fn a_message_of_the_user_has_a_band_in_every_theme() {
    for theme in themes() {
        let mut stage = Stage::themed(60, 16, theme.clone());
        stage.event(started());
        say(&mut stage, "fix the parser");
        let row = row_of(&stage.screen(), "› fix the parser");
        let cells = stage.cells(row);
        assert!(cells.iter().all(has_band), "{}", theme.name);
        assert!(!stage.cells(row + 1).iter().any(has_band), "{}", theme.name);
        stage.ctrl('f');
        stage.type_text("parser");
        stage.screen();
        let found = stage.cells(row_of(&stage.shown(), "› fix the parser"));
        assert!(found[10] != cells[10] && found[4] == cells[4], "{}", theme.name);
    }
}

/// While a question is open, the first row says what the task was, if the task itself is above the view.
#[test]
fn the_task_stays_in_view_while_a_question_is_open() {
    for (columns, rows) in [(80, 24), (120, 40), (80, 20)] {
        let mut stage = Stage::new(columns, rows);
        stage.event(started());
        say(&mut stage, "fix the parser");
        for at in 0..40 {
            begin(&mut stage, &format!("c{at}"), "bash", json!({"command": format!("make {at}")}));
            finish(&mut stage, &format!("c{at}"), "bash", "made", json!({"exit_code": 0}), false);
        }
        stage.event(Event::PermissionAsked(Box::new(PermissionRequest {
            call_id: CallId("c99".into()),
            tool: "bash".into(),
            input: json!({"command": "rm x"}),
            access: Access::execute("rm x"),
            reason: "no rule allows rm".into(),
            offer: None,
            nearest: None,
            secrets: None,
            preview: Vec::new(),
        })));
        let screen = stage.screen();
        assert!(screen.starts_with("› fix the parser\n"), "{columns}x{rows}\n{screen}");
        assert!(screen.contains("$ rm x") && screen.contains("1 Yes"), "{screen}");
    }
}

/// At 80x24 a question about a change leaves the last line of the failed command in view: it is what the change is about, and more
/// important than blank rows and edges.
#[test]
fn the_error_that_a_change_is_about_stays_in_view_above_its_question() {
    let mut stage = Stage::new(80, 24);
    stage.event(started());
    say(&mut stage, "fix the parser");
    begin(&mut stage, "c", "bash", json!({"command": "make"}));
    let output = "a line of the output\n".repeat(30) + "AssertionError: expected 3";
    finish(&mut stage, "c", "bash", &output, json!({"exit_code": 1}), true);
    let id = becket_types::MessageId::new();
    stage.event(Event::TextDelta { message: id, index: 0, text: "The end is left out.".into() });
    let path = std::path::PathBuf::from("/p/a.py");
    stage.event(Event::PermissionAsked(Box::new(PermissionRequest {
        call_id: CallId("e".into()),
        tool: "edit".into(),
        input: json!({"path": "a.py"}),
        access: Access::write(path.clone()),
        reason: "default mode asks before changes".into(),
        offer: Some(RuleOffer {
            rule: "Edit(//p/a.py)".into(),
            covers: "every edit of /p/a.py".into(),
            ..RuleOffer::default()
        }),
        nearest: None,
        secrets: None,
        preview: vec![FilePreview {
            path,
            hunks: vec!["@@ -1,4 +1,5 @@\n def a():\n     \"\"\"All.\"\"\"\n-    b\n+    c\n+    d\n".into()],
            marks: Vec::new(),
        }],
    })));
    let screen = stage.screen();
    assert!(screen.contains("┃ AssertionError: expected 3\n"), "{screen}");
    assert!(screen.contains("The end is left out."), "{screen}");
    assert!(screen.contains("4 No   Esc\n\nEnter marks"), "{screen}");
    // With more rows the question has its blank rows and the composer its edges again.
    stage.resize(80, 32);
    let screen = stage.screen();
    assert!(screen.contains("4 No   Esc\n\nEnter marks") && screen.contains("───\n› Or write"), "{screen}");
}

/// The row with the task at the top hides no row of the message itself, and never stands directly above the next message, where it would
/// look like a part of it.
#[test]
fn the_row_of_the_task_leaves_no_gap_in_a_message() {
    let mut stage = Stage::new(40, 16);
    stage.event(started());
    for turn in 1..4 {
        let lines: Vec<String> = (1..6).map(|line| format!("task {turn} line {line}")).collect();
        say(&mut stage, &lines.join("\n"));
        let id = becket_types::MessageId::new();
        let answer = format!("an answer to {turn}\n\n").repeat(24);
        stage.event(Event::TextDelta { message: id, index: 0, text: answer });
        stage.event(turn_end(TurnEnd::Completed));
    }
    let mut pinned = 0;
    for _ in 0..120 {
        stage.update(Input::Mouse(MouseEvent {
            kind: MouseEventKind::ScrollUp,
            column: 1,
            row: 1,
            modifiers: KeyModifiers::NONE,
        }));
        let screen = stage.screen();
        let rows: Vec<&str> = screen.lines().take(8).collect();
        let is_pinned = rows[0].contains("line 1 task");
        pinned += usize::from(is_pinned);
        for pair in rows.windows(2) {
            let line = |row: &str| row.split_once(" line ").and_then(|(_, n)| n.parse::<u32>().ok());
            if let Some(n) = line(pair[1]).filter(|n| *n > 1) {
                assert_eq!(line(pair[0]), Some(n - 1), "{screen}");
            }
        }
        assert!(!(is_pinned && rows[1].starts_with('›')), "{screen}");
    }
    assert!(pinned > 20, "{pinned}");
}

/// A failed call says how long it took, however short that was.
#[test]
fn the_time_of_a_failed_call_is_always_shown() {
    for (millis, code, shown) in [
        (3, Some(1), "failed (exit code 1) · 3 ms"),
        (99, None, "failed · 99 ms"),
        (100, None, "failed · 0.1 s"),
        (2_300, Some(2), "failed (exit code 2) · 2.3 s"),
    ] {
        let mut stage = Stage::new(80, 24);
        stage.event(started());
        begin(&mut stage, "c", "bash", json!({"command": "make"}));
        let mut message = Message::tool_result(CallId("c".into()), "bash", "no", true);
        if let Some(Part::ToolResult { details, .. }) = message.parts.first_mut() {
            *details = code.map_or(Value::Null, |code| json!({"exit_code": code}));
        }
        let duration = Millis(millis);
        stage.event(Event::ToolFinished { message, changes: Vec::new(), duration, original: None });
        let screen = stage.screen();
        assert!(screen.contains(&format!("✗ bash make  {shown}\n")), "{shown}\n{screen}");
    }
}

/// Without colours three weights tell a change's lines apart: added bold, unchanged normal, removed dim.
#[test]
fn without_colours_removed_lines_differ_from_unchanged_ones() {
    let mut stage = Stage::new(80, 24);
    stage.event(started());
    begin(&mut stage, "e", "edit", json!({"path": "a.rs"}));
    let diff = "@@ -1,2 +1,2 @@\n same\n-old\n+new\n";
    finish(&mut stage, "e", "edit", "ok", json!({"diff": diff}), false);
    let screen = stage.screen();
    let look = |words: &str| {
        let row = row_of(&screen, words);
        let column = screen.lines().nth(row.into()).unwrap().find(words).unwrap();
        let cell = stage.cells(row)[column + words.len() - 1].clone();
        (cell.bold(), cell.dim())
    };
    assert_eq!(["1  same", "-old", "+new"].map(look), [(false, false), (false, true), (true, false)]);
}

/// The signs of everything that runs turn together, whenever each of it began.
#[test]
fn signs_of_running_work_turn_together() {
    let mut stage = Stage::new(80, 30);
    stage.event(started());
    stage.event(Event::StepStarted { step: 1 });
    let signs = ['◐', '◓', '◑', '◒'];
    for second in 0..9 {
        let id = format!("c{second}");
        begin(&mut stage, &id, "bash", json!({"command": format!("make {second}")}));
        let screen = stage.screen();
        let shown: Vec<char> = screen.chars().filter(|c| signs.contains(c)).collect();
        assert_eq!(shown, vec![signs[second % 4]; second + 2], "{second}\n{screen}");
        stage.update(Input::Due(Timer::Clock));
    }
}

/// A subagent's time goes on while it calls tools.
#[test]
fn the_time_of_a_subagent_is_not_started_again_by_its_calls() {
    let mut stage = Stage::new(80, 30);
    stage.event(started());
    stage.event(Event::StepStarted { step: 1 });
    begin(&mut stage, "t", "task", json!({"prompt": "look", "description": "look"}));
    for at in 0..3 {
        let what = Event::ToolStarted {
            call_id: CallId(format!("n{at}")),
            name: "read".into(),
            input: json!({"path": "a"}),
        };
        stage.event(Event::Subagent { call_id: CallId("t".into()), what: Box::new(what) });
        stage.update(Input::Due(Timer::Clock));
    }
    let screen = stage.screen();
    assert!(screen.lines().any(|line| line.contains(" task ") && line.contains("3 s")), "{screen}");
}

/// A duration is written in one way: by the call, by the turn while it runs and by its end.
#[test]
fn durations_are_written_in_one_way() {
    for (seconds, shown) in [(1, "1 s"), (42, "42 s"), (60, "1 min 0 s"), (125, "2 min 5 s")] {
        let mut stage = Stage::new(100, 30);
        stage.event(started());
        stage.event(Event::StepStarted { step: 1 });
        begin(&mut stage, "c", "bash", json!({"command": "make"}));
        for _ in 0..seconds {
            stage.update(Input::Due(Timer::Clock));
        }
        let screen = stage.screen();
        assert!(screen.contains(&format!("bash make  {shown}")), "{shown}\n{screen}");
        assert!(screen.contains(&format!("turn {shown} · ")), "{shown}\n{screen}");
        let Event::TurnFinished(mut result) = turn_end(TurnEnd::Completed) else { unreachable!() };
        (result.duration, result.cost) = (Millis(seconds * 1_000), Cost(0.01));
        stage.event(Event::TurnFinished(result));
        let screen = stage.screen();
        assert!(screen.contains(&format!("✓ done in {shown} · $0.01")), "{shown}\n{screen}");
    }
}

/// The line at the end of a turn is quieter than the answer above it, in every theme that has a quiet style.
#[test]
fn the_end_of_a_turn_is_quieter_than_the_answer() {
    for theme in themes() {
        let mut stage = Stage::themed(80, 24, theme.clone());
        stage.event(started());
        let message = becket_types::MessageId::new();
        stage.event(Event::TextDelta { message, index: 0, text: "All good.".into() });
        let Event::TurnFinished(mut result) = turn_end(TurnEnd::Completed) else { unreachable!() };
        result.duration = Millis(5_000);
        stage.event(Event::TurnFinished(result));
        let screen = stage.screen();
        let answer = stage.cells(row_of(&screen, "All good."))[2].clone();
        let end = stage.cells(row_of(&screen, "done in 5 s"))[2].clone();
        let look = |cell: &vt100::Cell| (cell.fgcolor(), cell.dim(), cell.bold());
        let quieter = theme.name == "high-contrast" || look(&answer) != look(&end);
        assert!(quieter && !end.bold(), "{}", theme.name);
    }
}

/// The key that opens what is cut is as easy to see as any key, and not in the grey of the words around it.
#[test]
fn the_key_that_opens_more_is_easy_to_see() {
    let many = (0..40).map(|n| format!("line {n}\n")).collect::<Vec<_>>().concat();
    let change = (0..40).map(|n| format!("+line {n}\n")).collect::<Vec<_>>().concat();
    for theme in [Theme::dark(), Theme::light(), Theme::ansi(), Theme::plain()] {
        let mut stage = Stage::themed(80, 40, theme.clone());
        stage.event(started());
        begin(&mut stage, "a", "bash", json!({"command": "make"}));
        finish(&mut stage, "a", "bash", &many, json!({"exit_code": 0}), false);
        begin(&mut stage, "b", "edit", json!({"path": "a.rs"}));
        finish(
            &mut stage,
            "b",
            "edit",
            "done",
            json!({"diff": format!("@@ -0,0 +1,40 @@\n{change}")}),
            false,
        );
        let screen = stage.screen();
        for (y, line) in screen.lines().enumerate().filter(|(_, line)| line.contains("Ctrl-O")) {
            let column = line.chars().take_while(|c| *c != 'C').count();
            let cells = stage.cells(y as u16);
            let (key, words) = (&cells[column], &cells[column + "Ctrl-O ".len()]);
            assert!(!key.dim() && key != words, "{} {line}", theme.name);
            assert!((key.fgcolor(), key.bold()) != (words.fgcolor(), words.bold()), "{} {line}", theme.name);
        }
        assert_eq!(screen.matches("Ctrl-O opens").count(), 2, "{screen}");
    }
}

/// The line that says why a command failed is shown whole, in up to three rows.
#[test]
fn the_last_line_of_a_failed_command_is_wrapped() {
    for (columns, words, whole) in [(40, 12, true), (80, 30, true), (40, 60, false)] {
        let mut stage = Stage::new(columns, 24);
        stage.event(started());
        let reason: Vec<String> = (0..words).map(|n| format!("word{n}")).collect();
        let output = format!("start\nError: {}", reason.join(" "));
        begin(&mut stage, "a", "bash", json!({"command": "make"}));
        finish(&mut stage, "a", "bash", &output, json!({"exit_code": 2}), true);
        let screen = stage.screen();
        let bars: Vec<&str> = screen.lines().filter_map(|line| line.strip_prefix("┃ ")).collect();
        let shown = bars[1..].join(" ");
        assert_eq!(shown == format!("Error: {}", reason.join(" ")), whole, "{screen}");
        assert!(bars.len() <= 4 && (whole || shown.ends_with('…')), "{screen}");
    }
}
