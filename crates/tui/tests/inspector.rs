//! The context inspector by keystrokes. Input: keys, answers of the host and events. Checked: the screen and the
//! requests. Its pages are also compared at four sizes (`inspector/PAGE.COLUMNSxROWS.txt`; `BECKET_UPDATE_SCREENS=1`
//! writes them).

#[path = "support/expected.rs"]
mod expected;
#[allow(dead_code, reason = "each binary uses its part of the stage")]
mod support;

use becket_tui::input::{Effect, Input, Reply, Request};
use becket_tui::inspector::{Inspect, Inspected, InspectedRequest, SentRow, SpanRow};
use becket_types::{
    Command, CompactionTrigger, ContextChange, ContextPlan, Event, Message, NoticeLevel, Seq, Tokens,
};
use crossterm::event::KeyCode;
use expected::Expected;
use support::{Stage, started};

const SIZES: [(u16, u16); 4] = [(80, 24), (120, 40), (200, 60), (40, 10)];

fn request(number: usize) -> InspectedRequest {
    InspectedRequest::numbered(number)
}

fn ask(asked: Inspect) -> Vec<Effect> {
    vec![Effect::Ask(Request::Inspect(asked))]
}

fn asked(effects: Vec<Effect>) -> Vec<Effect> {
    effects.into_iter().filter(|e| matches!(e, Effect::Send(_) | Effect::Ask(Request::Inspect(_)))).collect()
}

fn answer(stage: &mut Stage, asked: Inspect, page: Inspected) -> Vec<Effect> {
    stage.update(Input::Reply(Reply::Inspected { asked, result: Ok(page) }))
}

fn requests() -> Inspected {
    let sent = |number, time: &str, tokens, cached, notes: &[&str]| SentRow {
        request: request(number),
        time: format!("2026-11-21 {time}"),
        tokens: Some(tokens),
        cached: Some(cached),
        notes: notes.iter().map(|note| (*note).to_owned()).collect(),
    };
    Inspected::Requests(vec![
        SentRow {
            tokens: Some(23_100),
            notes: vec!["what the model would see now (estimated)".into()],
            ..SentRow::default()
        },
        sent(4, "14:09", 22_400, 0, &["compaction"]),
        sent(3, "14:08", 148_300, 147_900, &["for a summary"]),
        sent(2, "14:07", 147_900, 9_100, &[]),
        sent(1, "14:05", 9_100, 0, &["not from the cache: the first request"]),
    ])
}

fn spans() -> Inspected {
    let span =
        |seq: Option<u64>, kind: &str, label: &str, tokens, cache: &str, bytes, preview: &str| SpanRow {
            seq,
            kind: kind.into(),
            label: label.into(),
            tokens,
            cache: cache.into(),
            sent_before: Some(cache == "read"),
            bytes: Some(bytes),
            preview: preview.into(),
            ..SpanRow::default()
        };
    let rules = SpanRow {
        source: Some("/home/u/project/AGENTS.md".into()),
        hidden: true,
        ..span(None, "rules", "AGENTS.md", 210, "read", (3_200, 4_000), "Say \"moin\" first.")
    };
    let output = SpanRow {
        source: Some("call c1 cargo test".into()),
        applied: vec!["pruned".into()],
        ..span(Some(12), "tool output", "bash", 9_400, "written", (4_100, 44_000), "running 3 tests … ok")
    };
    Inspected::Spans {
        head: "request 2: 44021 bytes as recorded, 9.1k of 147k cached".into(),
        rows: vec![
            rules,
            span(Some(7), "user", "user", 40, "read", (4_000, 4_100), "fix the test"),
            output,
            span(Some(14), "assistant", "assistant", 90, "fresh", (44_000, 44_021), "All pass."),
        ],
    }
}

/// Opens the spans of request 2 from the list.
fn at_spans(columns: u16, rows: u16) -> Stage {
    let mut stage = Stage::new(columns, rows);
    stage.event(started());
    stage.type_text("/inspect");
    assert_eq!(asked(stage.key(KeyCode::Enter)), ask(Inspect::Requests));
    answer(&mut stage, Inspect::Requests, requests());
    stage.screen();
    for _ in 0..3 {
        stage.key(KeyCode::Down);
    }
    assert_eq!(stage.key(KeyCode::Enter), ask(Inspect::Spans { request: request(2) }));
    answer(&mut stage, Inspect::Spans { request: request(2) }, spans());
    stage.screen();
    stage
}

fn plan() -> ContextPlan {
    ContextPlan {
        plan: 5,
        what: "Left out of the context by hand: 2 messages.".into(),
        items: vec!["12".into()],
        tokens_before: Tokens(23_100),
        tokens_after: Tokens(13_700),
        messages: 9,
        messages_unchanged: 1,
        tokens_resent: Tokens(4_300),
        usd_once: Some(0.0148),
        usd_saved_per_request: Some(0.0028),
    }
}

/// Sends a message of the user and a compaction that removed it from the context.
fn folded_away(stage: &mut Stage) {
    let mut message = Message::user("first words");
    message.seq = Seq(3);
    stage.event(Event::UserMessage { message, client_id: None, steered: false });
    stage.event(Event::CompactBoundary {
        entry: Seq(9),
        trigger: CompactionTrigger::Manual,
        pre_tokens: Tokens(148_000),
        post_tokens: Tokens(21_000),
        summary: "what was done".into(),
        anchor: None,
        tail_from: Seq(8),
        kept: Vec::new(),
        left_out: Vec::new(),
    });
}

#[test]
fn b_brings_folded_messages_back_and_answers_no_question() {
    let mut stage = at_spans(100, 24);
    assert_eq!(asked(stage.key(KeyCode::Char('b'))), []);
    assert!(stage.screen().contains("no compaction of this session removed a message"), "{}", stage.screen());

    let mut stage = at_spans(100, 24);
    folded_away(&mut stage);
    stage.event(Event::ContextPlanned(Box::new(plan())));
    stage.screen();
    stage.key(KeyCode::Char('b'));
    assert!(stage.screen().contains("Left out of the context by hand"), "{}", stage.screen());
    stage.key(KeyCode::Esc);
    stage.key(KeyCode::Char('b'));
    let screen = stage.screen();
    assert!(screen.contains("bring back") && screen.contains("you: first words"), "{screen}");
    let restore = ContextChange::Restore { items: vec!["3".into()] };
    assert_eq!(stage.key(KeyCode::Enter), [Effect::Send(Command::ChangeContext(restore))]);
    assert!(!stage.screen().contains("request 2:"), "the inspector is left: {}", stage.screen());
}

#[test]
fn a_request_is_opened_down_to_its_bytes_and_left_again() {
    let mut stage = at_spans(100, 24);
    let screen = stage.screen();
    assert!(screen.starts_with("── request 2: 44021 bytes as recorded, 9.1k of 147k cached ──"), "{screen}");
    assert!(
        screen.contains("❯      -     210  before read     rules AGENTS.md: Say \"moin\" first."),
        "{screen}"
    );
    assert!(
        screen.contains("from /home/u/project/AGENTS.md · bytes 3200-4000 · for the model only"),
        "{screen}"
    );
    stage.key(KeyCode::End);
    stage.key(KeyCode::Up);
    assert!(
        stage.screen().contains("from call c1 cargo test · bytes 4100-44000 · pruned\n"),
        "{}",
        stage.screen()
    );
    assert_eq!(stage.key(KeyCode::Enter), ask(Inspect::Bytes { request: request(2), span: 2 }));
    // Every byte is shown, and none of them controls the terminal.
    let text = format!("{{\"role\":\"user\",\"content\":\"a\u{1b}[2Jb\u{202e}\"}}{}", "x".repeat(3_000));
    let page = Inspected::Text { title: "tool output bash".into(), text };
    answer(&mut stage, Inspect::Bytes { request: request(2), span: 2 }, page);
    let screen = stage.screen();
    assert!(screen.contains("{\"role\":\"user\",\"content\":\"a␛[2Jb⟨U+202E⟩\"}xxx"), "{screen}");
    assert!(screen.contains("─ 0 % ──\n") && screen.contains("scroll · Esc goes back"), "{screen}");
    stage.key(KeyCode::End);
    assert!(stage.screen().contains("─ 100 % ──\n"), "{}", stage.screen());
    stage.key(KeyCode::Esc);
    assert_eq!(stage.key(KeyCode::Char('=')), ask(Inspect::Diff { request: request(2) }));
    stage.key(KeyCode::Esc);
    // An answer for a page that was closed is dropped.
    let late = Inspected::Text { title: "late".into(), text: "late".into() };
    answer(&mut stage, Inspect::Diff { request: request(2) }, late);
    assert!(stage.screen().contains("AGENTS.md") && !stage.screen().contains("late"), "{}", stage.screen());
    stage.key(KeyCode::Esc);
    assert!(stage.screen().contains("❯     2  2026-11-21 14:07"), "{}", stage.screen());
    stage.key(KeyCode::Esc);
    assert!(stage.screen().contains("› Describe a task"), "{}", stage.screen());
}

#[test]
fn an_item_is_dropped_after_one_question_and_that_is_undone() {
    let mut stage = at_spans(100, 24);
    // The first span is not a message.
    assert_eq!(stage.key(KeyCode::Char('d')), []);
    assert!(stage.screen().contains("this is not a message of the session"), "{}", stage.screen());
    stage.key(KeyCode::Down);
    stage.key(KeyCode::Down);
    let change = |change| vec![Effect::Send(Command::ChangeContext(change))];
    let items = vec!["12".to_owned()];
    assert_eq!(stage.key(KeyCode::Char('c')), change(ContextChange::Collapse { items: items.clone() }));
    assert_eq!(stage.key(KeyCode::Char('p')), change(ContextChange::Pin { items: items.clone() }));
    assert_eq!(stage.key(KeyCode::Char('d')), change(ContextChange::Drop { items }));
    stage.event(Event::ContextPlanned(Box::new(plan())));
    // Keys that were typed before the question was on the screen have no effect.
    assert_eq!(stage.key(KeyCode::Tab), []);
    assert_eq!(stage.key(KeyCode::Char('1')), []);
    let screen = stage.screen();
    for words in [
        "23k -> 13k tokens",
        "first 1 of 9 messages stay",
        "$0.0148 more",
        "▸ 1 Yes, change it   Enter twice\n  2 No, leave it",
    ] {
        assert!(screen.contains(words), "{words}: {screen}");
    }
    for key in ['y', '1', 'n'] {
        stage.read_question();
        assert_eq!(
            stage.key(KeyCode::Char(key)),
            [],
            "no letter answers, and no number before the list was asked for"
        );
    }
    assert!(stage.screen().contains("23k -> 13k tokens"), "{}", stage.screen());
    stage.key(KeyCode::Esc);
    assert!(stage.screen().contains("nothing was changed"), "{}", stage.screen());
    stage.key(KeyCode::Char('d'));
    stage.event(Event::ContextPlanned(Box::new(plan())));
    let carried_out = [Effect::Send(Command::CarryOut { plan: 5, force: false })];
    assert_eq!(stage.answer('1'), carried_out);
    let text = "Left out of the context by hand: 2 messages.".to_owned();
    let effects = stage.event(Event::ContextChanged { text: text.clone() });
    assert_eq!(asked(effects), ask(Inspect::Spans { request: request(2) }));
    assert!(stage.screen().contains(&text), "{}", stage.screen());
    assert_eq!(stage.key(KeyCode::Char('u')), change(ContextChange::Undo));
    assert_eq!(stage.key(KeyCode::Char('r')), change(ContextChange::Redo));
    // A refusal by the agent is shown in the pane, not in the transcript that the pane hides.
    let refused = "Nothing was changed: message 12 is pinned (undo the pin first).";
    stage.event(Event::Notice { level: NoticeLevel::Info, text: refused.into() });
    assert!(stage.screen().contains("message 12 is pinned"), "{}", stage.screen());
    // The list is older than the change, so it is requested again.
    assert_eq!(stage.key(KeyCode::Esc), ask(Inspect::Requests));
    // The host may drop what it keeps for the pages.
    assert_eq!(stage.key(KeyCode::Esc), [Effect::Ask(Request::InspectorClosed)]);
    assert!(stage.screen().contains(&text), "it is in the transcript: {}", stage.screen());
}

#[test]
fn a_request_that_is_not_there_leads_to_the_list() {
    let mut stage = Stage::new(80, 24);
    stage.event(started());
    stage.type_text("/inspect 99");
    assert_eq!(asked(stage.key(KeyCode::Enter)), ask(Inspect::Spans { request: request(99) }));
    let why = "there is no request \"99\": they are numbered 1 to 4".to_owned();
    let reply = Reply::Inspected { asked: Inspect::Spans { request: request(99) }, result: Err(why.clone()) };
    assert_eq!(stage.update(Input::Reply(reply)), ask(Inspect::Requests));
    answer(&mut stage, Inspect::Requests, requests());
    assert!(stage.screen().contains(&why), "{}", stage.screen());
    stage.ctrl('c');
    stage.type_text("/inspect all");
    stage.key(KeyCode::Enter);
    assert!(stage.screen().contains("/inspect needs"), "{}", stage.screen());
}

/// Content for the model only is shown in the inspector and nowhere else: not before it opens, not after it closes, and
/// not in the scrollback.
#[test]
fn nothing_of_it_outlives_the_pane() {
    const SECRET: &str = "SECRET";
    let mut page = spans();
    if let Inspected::Spans { rows, .. } = &mut page {
        rows[0].preview = SECRET.into();
    }
    let mut stage = at_spans(80, 24);
    assert!(!stage.screen().contains(SECRET));
    stage.event(Event::ContextChanged { text: "changed".into() });
    answer(&mut stage, Inspect::Spans { request: request(2) }, page.clone());
    assert!(stage.screen().contains(SECRET), "it is what was asked for: {}", stage.screen());
    stage.key(KeyCode::Enter);
    stage.ctrl('c');
    // Answers that arrive late, for a pane that is closed.
    let text = Inspected::Text { title: SECRET.into(), text: SECRET.into() };
    answer(&mut stage, Inspect::Bytes { request: request(2), span: 0 }, text);
    answer(&mut stage, Inspect::Spans { request: request(2) }, page);
    let mut everything = stage.screen();
    stage.ctrl('o');
    stage.ctrl('t');
    everything.push_str(&stage.screen());
    everything.push_str(&stage.fresh());
    everything.push_str(&stage.print().join("\n"));
    assert!(!everything.contains(SECRET), "{everything}");
}

/// Each word of a row that is too long for the list can be read below it, and every key is named, at each width.
#[test]
fn the_chosen_row_is_shown_in_full_and_the_keys_fit() {
    for (columns, rows) in [(40, 24), (80, 24), (120, 40)] {
        let mut page = spans();
        let words = "one of the many words of a preview that is far longer than eighty columns are wide, and so it is cut in its row";
        if let Inspected::Spans { rows, .. } = &mut page {
            rows[1].preview = words.into();
        }
        let mut stage = Stage::new(columns, rows);
        stage.event(started());
        stage.type_text("/inspect");
        stage.key(KeyCode::Enter);
        let mut list = requests();
        let note = "the first request after a change of the model, of the tools and of the system prompt; the cache had expired";
        if let Inspected::Requests(rows) = &mut list {
            rows[3].notes = vec![note.into()];
        }
        answer(&mut stage, Inspect::Requests, list);
        (0..3).for_each(|_| drop(stage.key(KeyCode::Down)));
        let shown = |stage: &mut Stage| stage.screen().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown(&mut stage).contains(note), "{}", stage.screen());
        stage.key(KeyCode::Enter);
        answer(&mut stage, Inspect::Spans { request: request(2) }, page);
        stage.key(KeyCode::Down);
        let screen = shown(&mut stage);
        assert!(screen.contains(words) && screen.contains("bytes 4000-4100"), "{}", stage.screen());
        assert!(screen.ends_with("Esc goes back") && screen.contains("2 of 4 ──"), "{}", stage.screen());
        let title = "── request 2: 44021 bytes as recorded, 9.1k of 147k cached ─";
        assert!(screen.contains(title), "{}", stage.screen());
    }
}

#[test]
fn pages_are_what_they_were() {
    let mut expected = Expected::of_folder("inspector");
    for (columns, rows) in SIZES {
        let mut pages = Vec::new();
        let mut stage = at_spans(columns, rows);
        stage.key(KeyCode::Down);
        stage.key(KeyCode::Down);
        pages.push(("spans", stage.screen()));
        stage.event(Event::ContextPlanned(Box::new(plan())));
        pages.push(("question", stage.screen()));
        stage.key(KeyCode::Esc);
        stage.key(KeyCode::Enter);
        let body =
            "{\"type\":\"tool_result\",\"tool_use_id\":\"c1\",\"content\":\"running 3 tests\\n".repeat(30);
        let page =
            Inspected::Text { title: "tool output bash, bytes 4100-44000 of request 2".into(), text: body };
        answer(&mut stage, Inspect::Bytes { request: request(2), span: 2 }, page);
        pages.push(("bytes", stage.screen()));
        stage.key(KeyCode::Esc);
        stage.key(KeyCode::Esc);
        pages.push(("requests", stage.screen()));
        for (name, shown) in pages {
            assert!(shown.lines().all(|line| line.chars().count() <= usize::from(columns)), "{shown}");
            expected.check(&format!("{name}.{columns}x{rows}"), &shown);
        }
    }
    expected.end();
}
