//! Inline mode, in the terminal's own scrollback: every line of the transcript is there once, in order, for every size
//! and every split of the text.
//!
//! The property runs 100 cases (each streams an answer through an emulator); `PROPTEST_CASES` sets more.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use becket_tui::app::App;
use becket_tui::input::Input;
use becket_tui::terminal::surface::Surface;
use becket_tui::theme::Theme;
use becket_types::{
    Access, CallId, Cost, Event, FinishReason, Message, MessageId, Millis, Part, PermissionRequest, Usage,
};
use proptest::prelude::*;
use ratatui::layout::Size;
use serde_json::json;

struct Stage {
    app: App,
    surface: Surface,
    emulator: avt::Terminal,
    size: Size,
}

impl Stage {
    fn new(columns: u16, rows: u16) -> Self {
        let size = Size::new(columns, rows);
        Self {
            app: App::new(Theme::plain()),
            surface: Surface::new(size).unwrap(),
            emulator: avt::Terminal::with_scrollback(columns.into(), rows.into(), None).unwrap(),
            size,
        }
    }

    fn event(&mut self, event: Event) {
        self.app.update(Input::Agent(event));
        self.frame();
    }

    fn frame(&mut self) {
        let Size { width, height } = self.size;
        self.app.inline(width, height);
        let lines = self.app.print_finished();
        let rows = self.app.inline(width, height);
        let app = &mut self.app;
        let bytes = self.surface.draw_inline(&lines, rows, self.size, |f| drop(app.draw(f))).unwrap();
        self.emulator.feed(std::str::from_utf8(&bytes).unwrap());
    }

    /// Begins in this row, below the lines of a shell. The terminal reports the row after the first frame.
    fn begin_in(&mut self, row: u16) {
        self.emulator.feed(&*"$\r\n".repeat(row.into()));
        let row = self.cursor();
        self.frame();
        self.surface.inline_begins(row, self.size);
        self.frame();
    }

    fn cursor(&self) -> u16 {
        self.emulator.cursor().row as u16
    }

    /// Changes the width before the next frame. The emulator wraps the rows it shows again.
    fn widen(&mut self, columns: u16) {
        self.resize(columns, self.size.height);
    }

    fn resize(&mut self, columns: u16, rows: u16) {
        self.emulator.resize(columns.into(), rows.into());
        self.size = Size::new(columns, rows);
        self.surface.inline_cursor(self.cursor(), self.size);
        self.frame();
    }

    /// Quits and returns all lines that the terminal holds.
    fn leave(mut self) -> Vec<String> {
        let bytes = self.surface.end_inline(self.size).unwrap();
        self.emulator.feed(std::str::from_utf8(&bytes).unwrap());
        let lines = self.app.print();
        for line in lines {
            self.emulator.feed(&*format!("{line}\r\n"));
        }
        let screen = self.emulator.screen();
        let mut out: Vec<String> = screen.all_lines().map(|line| line.text().trim_end().to_owned()).collect();
        while out.last().is_some_and(String::is_empty) {
            out.pop();
        }
        out
    }
}

fn user(text: &str) -> Event {
    Event::UserMessage { message: Message::user(text), client_id: None, steered: false }
}

fn whole(message: Message) -> Event {
    Event::AssistantMessage {
        message,
        finish: FinishReason::Stop,
        usage: Usage::default(),
        cost: Cost(0.0),
        ttft: None,
        api_time: Millis(0),
    }
}

#[test]
fn what_is_finished_is_above_and_what_may_change_below() {
    let mut stage = Stage::new(40, 10);
    for i in 0..12 {
        stage.event(user(&format!("message {i}")));
    }
    let call = CallId("c".into());
    stage.event(Event::ToolStarted {
        call_id: call.clone(),
        name: "bash".into(),
        input: json!({"command": "ls"}),
    });
    stage.event(Event::ToolOutput { call_id: call.clone(), chunk: "one\n".into() });
    stage.event(Event::ToolOutput { call_id: call.clone(), chunk: "two\n".into() });
    let message = Message::tool_result(call, "bash", "one\ntwo", false);
    stage.event(Event::ToolFinished { message, changes: Vec::new(), duration: Millis(1), original: None });
    stage.app.update(Input::Paste("half a thought".into()));
    stage.frame();
    let mut want: Vec<String> = (0..12).flat_map(|i| [format!("› message {i}"), String::new()]).collect();
    want.extend(["✓ bash ls", "│ one", "│ two"].map(str::to_owned));
    assert_eq!(stage.leave(), want);
}

/// The name, the model and the tips are next to the input at the start, and in the scrollback afterwards.
#[test]
fn the_header_is_printed_once() {
    for (columns, rows) in [(80, 24), (40, 24), (80, 12)] {
        let mut stage = Stage::new(columns, rows);
        stage.event(
            serde_json::from_str(include_str!("screens/empty.jsonl").lines().next().unwrap()).unwrap(),
        );
        let all = |stage: &Stage| -> Vec<String> {
            stage.emulator.screen().all_lines().map(|line| line.text().trim_end().to_owned()).collect()
        };
        let names = |lines: &[String]| lines.iter().filter(|line| line.contains("becket 0.")).count();
        assert_eq!(names(&all(&stage)), usize::from(rows == 24), "{columns}x{rows}: {:#?}", all(&stage));
        for text in ["one", "two"] {
            stage.event(user(text));
        }
        stage.widen(columns / 2);
        let lines = stage.leave();
        assert_eq!(names(&lines), 1, "{columns}x{rows}: {lines:#?}");
        let at = |words: &str| lines.iter().position(|line| line.contains(words)).unwrap();
        assert!(at("becket 0.") < at("› one") && at("› one") < at("› two"), "{lines:#?}");
    }
}

/// Some terminals move rows into their scrollback when they are erased from the first row on, so that is never done.
#[test]
fn frames_erase_row_by_row_and_the_status_is_below_the_composer() {
    let mut stage = Stage::new(60, 10);
    stage.event(serde_json::from_str(include_str!("screens/empty.jsonl").lines().next().unwrap()).unwrap());
    let rows = stage.app.inline(60, 10);
    let app = &mut stage.app;
    let bytes = stage.surface.draw_inline(&[], rows, Size::new(60, 10), |f| drop(app.draw(f))).unwrap();
    let shown: Vec<String> =
        stage.emulator.screen().all_lines().map(|l| l.text().trim_end().to_owned()).collect();
    assert!(shown[0].starts_with('›'), "{shown:?}");
    assert!(!shown[1].is_empty(), "{shown:?}");
    stage.emulator.feed(std::str::from_utf8(&bytes).unwrap());
    let line = "x".repeat(50);
    let longer = stage.surface.draw_inline(&[line.into()], 10, Size::new(60, 10), |_| {}).unwrap();
    let shorter = stage.surface.draw_inline(&[], 2, Size::new(60, 10), |_| {}).unwrap();
    let end = stage.surface.end_inline(Size::new(60, 10)).unwrap();
    for bytes in [longer, shorter, end] {
        assert!(!String::from_utf8(bytes).unwrap().contains("\x1b[J"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn every_line_once(
        paragraphs in proptest::collection::vec("[a-z]{1,9}( [a-z]{1,9}){0,12}", 1..12),
        step in 1usize..60,
        columns in 20u16..100,
        rows in 6u16..30,
    ) {
        let text = paragraphs.join("\n\n");
        let mut stage = Stage::new(columns, rows);
        let message = Message::assistant(vec![Part::text(text.clone())]);
        let id: MessageId = message.id;
        stage.event(user("go"));
        let mut at = 0;
        while at < text.len() {
            let to = (at + step).min(text.len());
            stage.event(Event::TextDelta { message: id, index: 0, text: text[at..to].to_owned() });
            at = to;
        }
        stage.event(whole(message.clone()));
        stage.event(user("done"));
        let mut app = App::new(Theme::plain());
        app.update(Input::Resize { columns, rows });
        for event in [user("go"), whole(message), user("done")] {
            app.update(Input::Agent(event));
        }
        let mut want: Vec<String> = app.print().iter().map(|l| l.to_string().trim_end().to_owned()).collect();
        while want.last().is_some_and(String::is_empty) {
            want.pop();
        }
        prop_assert_eq!(stage.leave(), want);
    }
}

/// Generates a piece of an answer as models write it, with parts that are laid out differently at each width.
fn piece() -> impl Strategy<Value = String> {
    let words = || "[a-z]{1,9}( [a-z]{1,9}){0,20}";
    prop_oneof![
        4 => words(),
        2 => proptest::collection::vec(words(), 1..5).prop_map(|items| format!("- {}", items.join("\n- "))),
        1 => proptest::collection::vec(words(), 1..6).prop_map(|lines| format!("```\n{}\n```", lines.join("\n"))),
        1 => words().prop_map(|text| format!("> {text}")),
        1 => words().prop_map(|text| format!("## {text}")),
    ]
}

/// Numbers the words of the text, so that a word that is lost or doubled is noticed.
fn numbered(pieces: &[String]) -> String {
    let mut n = 0;
    let number = |word: &str| {
        let (body, end) = word.split_at(word.trim_end().len());
        if !body.ends_with(|c: char| c.is_ascii_lowercase()) {
            return word.to_owned();
        }
        n += 1;
        format!("{}{n}{end}", &body[..body.len().min(4)])
    };
    pieces.join("\n\n").split_inclusive([' ', '\n']).map(number).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// Whatever widths a terminal takes while an answer streams in: each word is printed once, in order.
    #[test]
    fn every_word_once_at_any_widths(
        pieces in proptest::collection::vec(piece(), 1..10),
        step in 1usize..60,
        widths in proptest::collection::vec(12u16..120, 1..12),
        every in 1usize..8,
    ) {
        let text = numbered(&pieces);
        let mut app = App::new(Theme::plain());
        let message = Message::assistant(vec![Part::text(text.clone())]);
        let mut printed = Vec::new();
        let mut print = |app: &mut App, nth: usize| {
            app.inline(widths[nth / every % widths.len()], 20);
            printed.extend(app.print_finished());
        };
        for (nth, at) in (0..text.len()).step_by(step).enumerate() {
            let text = text[at..(at + step).min(text.len())].to_owned();
            app.update(Input::Agent(Event::TextDelta { message: message.id, index: 0, text }));
            print(&mut app, nth);
        }
        app.update(Input::Agent(whole(message)));
        print(&mut app, 0);
        printed.extend(app.print());
        // A line of code may be broken within a word.
        let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
        let got: String = printed.iter().map(|line| letters(&line.to_string())).collect();
        prop_assert_eq!(got, letters(&text));
    }
}

/// Returns the letters and digits, which are the same at every width.
fn letters<'a>(lines: impl IntoIterator<Item = &'a String>) -> String {
    lines.into_iter().flat_map(|line| line.chars()).filter(|c| c.is_alphanumeric()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// While a question is open the terminal becomes narrower, down to half of its columns. The terminal wraps rows as
    /// it likes, and no part of the question is left in its scrollback.
    #[test]
    fn a_question_leaves_nothing_at_any_width(
        said in proptest::collection::vec("[a-z]{1,9}( [a-z]{1,9}){0,20}", 1..8),
        command in proptest::collection::vec("[a-z]{1,9}( [a-z]{1,9}){0,40}", 1..30),
        reason in "[a-z]{1,9}( [a-z]{1,9}){0,60}",
        draft in "[a-z]{0,9}( [a-z]{1,9}){0,20}",
        columns in 40u16..140,
        rows in 16u16..50,
        narrow in 50u16..=100,
        wide in 100u16..160,
        begins in 0u16..50,
    ) {
        let mut stage = Stage::new(columns, rows);
        stage.begin_in(begins % rows);
        let call = CallId("c".into());
        let message = Message::assistant(vec![Part::text(said.join("\n\n"))]);
        let started = Event::ToolStarted { call_id: call.clone(), name: "bash".into(), input: json!({"command": "ls"}) };
        let told = [user("go"), whole(message), started];
        for event in &told {
            stage.event(event.clone());
        }
        stage.app.update(Input::Paste(draft));
        stage.event(Event::PermissionAsked(Box::new(PermissionRequest {
            call_id: call.clone(),
            tool: "bash".into(),
            input: json!({"command": command.join("\n")}),
            access: Access::execute(command.join("\n")),
            reason,
            offer: None,
            nearest: None,
            secrets: None,
            preview: Vec::new(),
        })));
        stage.widen((columns * narrow).div_ceil(100));
        stage.widen(columns * wide / 100);
        let message = Message::tool_result(call, "bash", "one", false);
        let done = Event::ToolFinished { message, changes: Vec::new(), duration: Millis(1), original: None };
        stage.event(done.clone());
        let mut app = App::new(Theme::plain());
        for event in told.into_iter().chain([done]) {
            app.update(Input::Agent(event));
        }
        // The line of the call is cut at the width of the terminal.
        let said = |line: &String| !line.starts_with("✓ bash");
        let want: Vec<String> = app.print().iter().map(ToString::to_string).filter(said).collect();
        let got: Vec<String> = stage.leave().into_iter().filter(said).collect();
        prop_assert_eq!(letters(&got), letters(&want), "{:#?}", got);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// While an answer streams, the window becomes narrower and wider, by up to half at a time. The terminal wraps rows
    /// as it likes, and holds each word once and in order.
    #[test]
    fn a_window_that_narrows_while_text_streams_prints_nothing_twice(
        pieces in proptest::collection::vec(piece(), 1..8),
        step in 1usize..60,
        columns in 40u16..140,
        rows in 12u16..50,
        widths in proptest::collection::vec((50u16..=160, 1usize..12), 1..6),
        begins in 0u16..50,
    ) {
        let mut stage = Stage::new(columns, rows);
        stage.begin_in(begins % rows);
        let text = numbered(&pieces);
        let message = Message::assistant(vec![Part::text(text.clone())]);
        stage.event(user("go"));
        let (mut at, mut widths) = (0, widths.into_iter());
        let mut next = widths.next();
        let mut left = next.map_or(usize::MAX, |(_, pieces)| pieces);
        while at < text.len() {
            let to = (at + step).min(text.len());
            stage.event(Event::TextDelta { message: message.id, index: 0, text: text[at..to].to_owned() });
            at = to;
            left = left.saturating_sub(1);
            if let (0, Some((percent, _))) = (left, next) {
                let now = stage.size.width;
                stage.widen((now * percent).div_ceil(100).clamp(20, 200));
                next = widths.next();
                left = next.map_or(usize::MAX, |(_, pieces)| pieces);
            }
        }
        stage.event(whole(message.clone()));
        stage.event(user("done"));
        let got = stage.leave();
        let (want, shown) = (format!("go{}done", letters([&text])), letters(&got));
        prop_assert_eq!(shown, want, "{:#?}", got);
    }
}
