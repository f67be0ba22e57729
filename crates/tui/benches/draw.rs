//! Measures the cost of drawing an answer, and the delay between a key and its frame while an answer streams in.
//!
//! An answer of 500 kB arrives in 5,000 deltas. A frame is drawn for every sixteen of them (sixty frames a second at a
//! thousand deltas a second), on 120 columns by 40 rows. The content is mixed Markdown and, as the worst cases, one
//! paragraph, one line, one code fence, one list and one table. Then keys are pressed in a session of 10,000 messages
//! while deltas stream, measured from the key to the bytes of the frame.
//!
//! Goals: the mixed answer takes 0.2 s of CPU; a key takes 5 ms (p99). No terminal is used: bytes are counted and
//! discarded.
//!
//! `cargo bench -p becket-tui --bench draw`. CPU time is read from `/proc` on Linux; other systems report elapsed time.
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench prints what it measured, and stops when it cannot"
)]

use becket_tui::app::App;
use becket_tui::input::Input;
use becket_tui::terminal::surface::Surface;
use becket_tui::theme::Theme;
use becket_types::{CallId, Event, Message, MessageId, Millis};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Size;
use serde_json::json;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

const BYTES: usize = 500_000;
const DELTAS: usize = 5_000;
const DELTAS_A_FRAME: usize = 16;

const SIZE: Size = Size::new(120, 40);

struct Stage {
    app: App,
    surface: Surface,
    /// Bytes written so far.
    written: usize,
}

impl Stage {
    fn new() -> Self {
        let surface = Surface::new(SIZE).expect("a surface");
        Self { app: App::new(Theme::dark()), surface, written: 0 }
    }

    fn event(&mut self, event: Event) {
        self.app.update(Input::Agent(event));
    }

    fn draw(&mut self) {
        let app = &mut self.app;
        let bytes = self.surface.draw(SIZE, |frame| drop(app.draw(frame))).expect("a frame");
        self.written += std::hint::black_box(bytes).len();
    }
}

/// Returns the CPU time of this thread.
fn cpu(since: Instant) -> Duration {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|s| s.split(' ').next().and_then(|n| n.parse().ok()))
        .map_or_else(|| since.elapsed(), Duration::from_nanos)
}

fn repeat(mut piece: impl FnMut(usize) -> String) -> String {
    let mut out = String::with_capacity(BYTES + 1_000);
    for i in 0.. {
        if out.len() >= BYTES {
            break;
        }
        out.push_str(&piece(i));
    }
    out
}

fn words(i: usize) -> String {
    let mut out = String::new();
    for j in 0..12 {
        let _ = write!(
            out,
            "{} ",
            ["the", "parser", "keeps", "*what*", "it", "`reads`", "until", "**done**"][(i + j * 5) % 8]
        );
    }
    out
}

fn mixed(i: usize) -> String {
    match i % 6 {
        0 => format!("## Step {i}\n\n"),
        1 | 2 => format!("{}{}{}\n\n", words(i), words(i + 1), words(i + 2)),
        3 => format!("- {}\n- {}\n  - {}\n\n", words(i), words(i + 3), words(i + 5)),
        4 => format!(
            "```rust\nfn step_{i}(input: &str) -> Option<usize> {{\n    let at = input.find('x')?;\n    Some(at + {i})\n}}\n```\n\n"
        ),
        _ => format!("| name | value |\n|---|---:|\n| step {i} | {} |\n| next | {} |\n\n", i * 7, i * 9),
    }
}

fn stream(name: &str, text: &str) {
    let mut stage = Stage::new();
    let id = MessageId::new();
    let begun = Instant::now();
    let before = cpu(begun);
    let step = text.len().div_ceil(DELTAS);
    let mut at = 0;
    let mut slowest = Duration::ZERO;
    for delta in 0.. {
        let to = text.floor_char_boundary(at + step);
        if at == text.len() {
            break;
        }
        stage.event(Event::TextDelta { message: id, index: 0, text: text[at..to].to_owned() });
        at = to;
        if delta % DELTAS_A_FRAME == 0 {
            let frame = Instant::now();
            stage.draw();
            slowest = slowest.max(frame.elapsed());
        }
    }
    stage.draw();
    let used = cpu(begun).saturating_sub(before);
    println!(
        "{name:<14} {:>5} kB  CPU {:>7.1} ms  slowest frame {:>6.2} ms  written {:>6} kB",
        text.len() / 1_000,
        used.as_secs_f64() * 1e3,
        slowest.as_secs_f64() * 1e3,
        stage.written / 1_000,
    );
}

fn keys() {
    let mut stage = Stage::new();
    for i in 0..2_500 {
        stage.event(Event::UserMessage { message: Message::user(words(i)), client_id: None, steered: false });
        let call = CallId(format!("c{i}"));
        let command = json!({"command": "cargo test"});
        stage.event(Event::ToolStarted { call_id: call.clone(), name: "bash".into(), input: command });
        stage.event(Event::ToolFinished {
            message: Message::tool_result(call, "bash", words(i), false),
            changes: Vec::new(),
            duration: Millis(5),
            original: None,
        });
        stage.event(Event::TextDelta { message: MessageId::new(), index: 0, text: mixed(i) });
    }
    stage.draw();
    let id = MessageId::new();
    let (mut waits, mut used) = (Vec::new(), Vec::new());
    for i in 0..2_000 {
        // The deltas that arrive between two keys of a fast typist at 5,000 deltas a second, all at once.
        for j in 0..16 {
            stage.event(Event::TextDelta { message: id, index: 0, text: words(i + j) });
        }
        let pressed = Instant::now();
        let before = cpu(pressed);
        let code = if i % 40 == 39 { KeyCode::PageUp } else { KeyCode::Char('a') };
        stage.app.update(Input::Key(KeyEvent::new(code, KeyModifiers::NONE)));
        if i % 200 == 199 {
            stage.app.update(Input::Key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL)));
        }
        stage.draw();
        waits.push(pressed.elapsed());
        used.push(cpu(pressed).saturating_sub(before));
    }
    for (what, times) in [("time", &mut waits), ("CPU", &mut used)] {
        times.sort_unstable();
        let at = |share: usize| times[times.len() * share / 1_000 - 1].as_secs_f64() * 1e3;
        println!(
            "key to frame, 10,000 messages, streaming: {what} p50 {:.2} ms, p99 {:.2} ms, worst {:.2} ms",
            at(500),
            at(990),
            at(1_000)
        );
    }
}

fn main() {
    stream("mixed", &repeat(mixed));
    stream("paragraph", &repeat(|i| words(i) + "\n"));
    stream("one line", &repeat(words));
    stream("one word", &repeat(|i| format!("{i}")));
    stream("code fence", &format!("```rust\n{}", repeat(|i| format!("    let value_{i} = compute({i});\n"))));
    stream("list", &repeat(|i| format!("- {}\n", words(i))));
    stream("table", &format!("| a | b |\n|---|---|\n{}", repeat(|i| format!("| {i} | {} |\n", words(i)))));
    stream("quote", &repeat(|i| format!("> {}\n", words(i))));
    keys();
}
