//! Messages for the model only never reach the user: not on the screen, by search, copy, scrollback, inline frames,
//! plain lines or pictures, and not in the list of messages to rewind to.
//!
//! The property runs 1,000 cases (`PROPTEST_CASES` sets more).
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[allow(dead_code, reason = "each binary uses its part of the stage")]
mod support;

use becket_tui::app::App;
use becket_tui::ax::Speaker;
use becket_tui::input::{Effect, Input, Reply};
use becket_tui::picture::{self, Palette};
use becket_tui::terminal::surface::Surface;
use becket_tui::theme::Theme;
use becket_types::{
    CallId, CompactionTrigger, Cost, Event, FinishReason, Message, MessageId, Millis, Origin, Seq, Synthetic,
    Tokens, Usage,
};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use proptest::prelude::*;
use ratatui::layout::Size;
use support::{Stage, started};

const SECRET: &str = "SECRET";
const KINDS: [Synthetic; 5] = [
    Synthetic::CompactionSummary,
    Synthetic::CompactionContinue,
    Synthetic::SessionState,
    Synthetic::Rules,
    Synthetic::Reminder,
];

/// Returns an event with a message for the model only, of each kind that can contain one.
fn hidden(kind: Synthetic, way: u8) -> Event {
    let mut message = Message::synthetic(kind, format!("{SECRET} what the model reads\n{SECRET}"));
    message.metadata.compaction_continue = kind == Synthetic::CompactionContinue;
    if way > 3 {
        // In an imported ledger, this flag alone may mark the message as one for the model only.
        message.metadata.compaction_continue = true;
        message.origin = if way == 4 { Origin::User } else { Origin::Model };
    }
    assert!(!message.visibility().user);
    match way {
        0 | 1 => Event::SyntheticMessage { message },
        2 | 4 => Event::UserMessage { message, client_id: None, steered: true },
        _ => Event::AssistantMessage {
            message,
            finish: FinishReason::Stop,
            usage: Usage::default(),
            cost: Cost(0.0),
            ttft: None,
            api_time: Millis(0),
        },
    }
}

fn shown(kind: u8, text: &str) -> Event {
    match kind {
        0 => Event::UserMessage { message: Message::user(text), client_id: None, steered: false },
        1 => Event::TextDelta { message: MessageId::new(), index: 0, text: text.to_owned() },
        2 => Event::ToolFinished {
            message: Message::tool_result(CallId("c".into()), "bash", text, false),
            changes: Vec::new(),
            duration: Millis(1),
            original: None,
        },
        _ => Event::CompactBoundary {
            entry: Seq(40),
            trigger: CompactionTrigger::Auto,
            pre_tokens: Tokens(148_000),
            post_tokens: Tokens(21_000),
            summary: text.to_owned(),
            anchor: None,
            tail_from: Seq(u64::MAX),
            kept: Vec::new(),
            left_out: Vec::new(),
        },
    }
}

fn texts(effects: &[Effect]) -> String {
    effects.iter().map(|effect| format!("{effect:?}\n")).collect::<Vec<_>>().concat()
}

/// Returns everything that the user can reach in any way.
fn everything(events: &[Event], size: (u16, u16)) -> String {
    let mut out = String::new();
    let mut stage = Stage::new(size.0, size.1);
    stage.event(started());
    for event in events {
        out.push_str(&texts(&stage.event(event.clone())));
        out.push_str(&stage.screen());
    }
    // Opens blocks, searches, copies block after block, and lists the messages to rewind to.
    stage.ctrl('o');
    out.push_str(&stage.screen());
    stage.ctrl('f');
    stage.type_text("SECR");
    let searching = stage.screen().replace("SECR", "");
    out.push_str(&searching.replace("find: ", ""));
    stage.key(KeyCode::Esc);
    stage.update(Input::Key(KeyEvent::new(KeyCode::Up, KeyModifiers::ALT)));
    for _ in 0..=events.len() {
        out.push_str(&texts(&stage.key(KeyCode::Char('c'))));
        out.push_str(&stage.screen());
        stage.key(KeyCode::Up);
    }
    stage.key(KeyCode::Esc);
    stage.key(KeyCode::Esc);
    stage.key(KeyCode::Esc);
    out.push_str(&stage.screen());
    stage.key(KeyCode::Esc);
    out.push_str(&stage.print().join("\n"));

    let mut inline = App::new(Theme::plain());
    let mut surface = Surface::new(Size::new(size.0, size.1)).unwrap();
    let mut speaker = Speaker::default();
    for event in events {
        inline.update(Input::Agent(event.clone()));
        inline.inline(size.0, size.1);
        let lines = inline.print_finished();
        let rows = inline.inline(size.0, size.1);
        let bytes =
            surface.draw_inline(&lines, rows, Size::new(size.0, size.1), |f| drop(inline.draw(f))).unwrap();
        out.push_str(&String::from_utf8_lossy(&bytes));
        out.push_str(&speaker.event(event).join("\n"));
    }
    let frame = picture::frame(events.iter().cloned(), Size::new(size.0, size.1), Theme::dark()).unwrap();
    out.push_str(&picture::svg(&frame, Palette::of(&Theme::dark())));
    out
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn nothing_hidden_reaches_people_by_any_way(
        steps in proptest::collection::vec((any::<bool>(), 0u8..6, 0usize..5), 1..8),
        size in prop::sample::select(vec![(80, 24), (40, 10), (120, 40)]),
    ) {
        let events: Vec<Event> = steps
            .iter()
            .map(|(secret, way, kind)| if *secret { hidden(KINDS[*kind], *way) } else { shown(*way, "for people") })
            .collect();
        let all = everything(&events, size);
        prop_assert!(!all.contains(SECRET), "{}", all);
    }
}

/// Shows that the property can fail: a message that the user reveals is drawn, with a mark.
#[test]
fn what_is_revealed_is_there() {
    let mut stage = Stage::new(80, 24);
    stage.event(started());
    stage.event(hidden(Synthetic::Rules, 0));
    stage.ctrl('t');
    assert!(stage.screen().contains(SECRET), "{}", stage.screen());
    stage.event(hidden(Synthetic::CompactionContinue, 4));
    assert!(stage.screen().contains("for the model only: compaction continue"), "{}", stage.screen());
    assert!(everything(&[shown(0, SECRET)], (80, 24)).matches(SECRET).count() > 5);
}

/// The preview of another session comes from the host and is shown as text, whatever it contains.
#[test]
fn a_preview_is_text() {
    let mut stage = Stage::new(80, 24);
    stage.event(started());
    stage.type_text("/resume");
    stage.key(KeyCode::Enter);
    stage.update(Input::Reply(Reply::Sessions(vec![("0198aa".into(), "one".into())])));
    stage.update(Input::Reply(Reply::Preview {
        session: "0198aa".into(),
        text: "a\u{1b}[2Jb\u{202e}".into(),
    }));
    let screen = stage.screen();
    assert!(screen.contains("a␛[2Jb⟨U+202E⟩"), "{screen}");
}
