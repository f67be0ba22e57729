//! A long session that is continued: its end is shown at once, and the rest when the user scrolls back in any way.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[allow(dead_code, reason = "each binary uses its part of the stage")]
mod support;

use becket_tui::app::App;
use becket_tui::input::{Effect, Input, Reply, Request, Stretch, Want};
use becket_tui::terminal::surface::Surface;
use becket_tui::{picture, theme::Theme, transcript};
use becket_types::{CallId, Event, FinishReason, Message, Millis, Part, Seq, TurnEnd, Usage, Used};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use proptest::prelude::*;
use ratatui::layout::Size;
use serde_json::json;
use support::turn_end;

const SIZE: Size = Size { width: 60, height: 14 };

/// Returns entry `n` of the ledger, counted from 1.
fn event(n: u64) -> Event {
    let seen = |mut message: Message| {
        message.seq = Seq(n);
        // Ids must be the same in every call.
        message.id = format!("00000000-0000-0000-0000-{n:012}").parse().unwrap();
        message
    };
    let answer = |parts| Event::AssistantMessage {
        message: seen(Message::assistant(parts)),
        finish: FinishReason::Stop,
        usage: Usage::default(),
        cost: becket_types::Cost(0.0),
        ttft: None,
        api_time: Millis(0),
    };
    match n % 5 {
        1 => {
            let message = seen(Message::user(format!("question {n}")));
            Event::UserMessage { message, client_id: None, steered: false }
        }
        2 => answer(vec![
            Part::text(format!("thinking aloud {n}")),
            Part::tool_call(format!("c{n}"), "bash", json!({"command": format!("run {n}")})),
        ]),
        3 => {
            let message = seen(Message::tool_result(
                CallId(format!("c{}", n - 1)),
                "bash",
                format!("output {n}\nneedle {}", n % 7),
                false,
            ));
            Event::ToolFinished { message, changes: Vec::new(), duration: Millis(0), original: None }
        }
        4 => answer(vec![Part::text(format!("# answer {n}\n\nof several lines\n\n- one\n- two"))]),
        _ => Event::Pruned { entry: Seq(n), calls: n, freed: becket_types::Tokens(1_000) },
    }
}

/// Returns a range of the session. It starts where the user or the model speaks.
fn stretch(from: u64, to: u64) -> Stretch {
    Stretch { from: Seq(from), to: Seq(to), events: (from..to).map(event).collect() }
}

/// Returns a range of two turns, as the host would.
fn part(from: u64, to: u64, want: &Want) -> Option<Stretch> {
    let floor = |n: u64| (n - 1) / 5 * 5 + 1;
    match want {
        Want::Start => Some(stretch(from, to.min(floor(from) + 10))),
        Want::End => Some(stretch(from.max(floor(to - 1).saturating_sub(5)), to)),
        Want::Saying { words, back } => {
            let mut at: Vec<Stretch> = Vec::new();
            let mut start = from;
            while start < to {
                let end = to.min(floor(start) + 5);
                at.push(stretch(start, end));
                start = end;
            }
            if *back {
                at.reverse();
            }
            at.into_iter().find(|stretch| transcript::says(&stretch.events, words))
        }
    }
}

struct Reader {
    app: App,
    surface: Surface,
    asked: usize,
    /// The host's answers are held back.
    slow: bool,
    waiting: Vec<(Seq, Seq, Want)>,
    /// Bytes that are added to the output of every call.
    filler: usize,
}

impl Reader {
    fn of(end: Stretch) -> Self {
        let mut app = App::new(Theme::plain());
        app.show_end(&end);
        Self::with(app)
    }

    fn with(app: App) -> Self {
        Self {
            app,
            surface: Surface::new(SIZE).unwrap(),
            asked: 0,
            slow: false,
            waiting: Vec::new(),
            filler: 0,
        }
    }

    fn take(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::Ask(Request::Past { from, to, want }) = effect {
                self.asked += 1;
                assert!(self.asked < 5_000, "it asks and asks");
                self.waiting.push((from, to, want));
            }
        }
    }

    /// Returns the screen once everything it requested has arrived.
    fn screen(&mut self) -> String {
        loop {
            let text = self.draw();
            if self.slow || self.waiting.is_empty() {
                return text;
            }
            self.answer();
        }
    }

    fn draw(&mut self) -> String {
        let (text, effects) = self.frame();
        self.take(effects);
        text
    }

    fn effects(&mut self) -> Vec<Effect> {
        self.frame().1
    }

    fn frame(&mut self) -> (String, Vec<Effect>) {
        let mut effects = Vec::new();
        let app = &mut self.app;
        let (cells, _) = self.surface.cells(SIZE, |frame| effects = app.draw(frame)).unwrap();
        (picture::text(cells), effects)
    }

    fn answer(&mut self) {
        for (from, to, want) in std::mem::take(&mut self.waiting) {
            let mut part = part(from.0, to.0, &want);
            for event in part.iter_mut().flat_map(|part| &mut part.events) {
                if let Event::ToolFinished { message, .. } = event
                    && let Some(Part::ToolResult { output, .. }) = message.parts.first_mut()
                {
                    output.push_str(&"0123456789\n".repeat(self.filler / 11));
                }
            }
            let result = Ok(part);
            self.input(Input::Reply(Reply::Past { from, to, result }));
        }
    }

    fn input(&mut self, input: Input) {
        let effects = self.app.update(input);
        self.take(effects);
    }

    fn key(&mut self, code: KeyCode) {
        self.input(Input::Key(KeyEvent::new(code, KeyModifiers::NONE)));
    }

    /// Presses the key until the screen no longer changes.
    fn far(&mut self, key: KeyCode) {
        let mut before = String::new();
        for pages in 0.. {
            assert!(pages < 1_000, "it does not end");
            self.key(key);
            let now = self.screen();
            if now == before {
                return;
            }
            before = now;
        }
    }

    fn ctrl(&mut self, c: char) {
        self.input(Input::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL)));
    }

    fn alt_up(&mut self) {
        self.input(Input::Key(KeyEvent::new(KeyCode::Up, KeyModifiers::ALT)));
    }

    fn words(&mut self, words: &str) {
        words.chars().for_each(|c| self.key(KeyCode::Char(c)));
    }

    fn printed(&mut self) -> Vec<String> {
        self.app.print().iter().map(|line| line.to_string().trim_end().to_owned()).collect()
    }
}

/// Returns the printed lines of the whole session.
fn whole(last: u64) -> Vec<String> {
    Reader::of(stretch(1, last + 1)).printed()
}

#[test]
fn the_end_is_there_at_once_and_nothing_is_asked_for_before_somebody_reads_back() {
    let mut reader = Reader::of(stretch(401, 501));
    let screen = reader.screen();
    assert!(screen.contains("500 old outputs"), "{screen}");
    reader.input(Input::Agent(event(501)));
    reader.screen();
    assert_eq!(reader.asked, 0);
    // One page up does not reach the edge of the loaded part.
    reader.key(KeyCode::PageUp);
    reader.screen();
    assert!(reader.asked <= 1);
    assert!(reader.printed().iter().any(|line| line == "⋯ more was said here"));
}

#[test]
fn who_reads_back_comes_to_the_first_message_and_finds_everything_once_and_in_order() {
    let mut reader = Reader::of(stretch(481, 501));
    reader.far(KeyCode::PageUp);
    let screen = reader.screen();
    assert!(screen.starts_with("› question 1"), "{screen}");
    assert_eq!(reader.printed(), whole(500));
}

/// The text being read stays in place when earlier entries are inserted above it.
#[test]
fn nothing_moves_when_more_of_it_comes() {
    let mut reader = Reader::of(stretch(481, 501));
    reader.slow = true;
    let mut before = reader.screen();
    while reader.waiting.is_empty() {
        reader.key(KeyCode::PageUp);
        before = reader.screen();
    }
    assert!(!before.contains('⋯'), "{before}");
    reader.answer();
    assert_eq!(reader.screen(), before);
    // Even if the gap itself is in view, the text below it stays in place.
    for _ in 0..40 {
        reader.key(KeyCode::PageUp);
    }
    let before = reader.screen();
    assert!(before.contains("⋯ more was said here"), "{before}");
    reader.answer();
    let after = reader.screen();
    let below: Vec<&str> = before.lines().skip(1).take(8).collect();
    assert_eq!(after.lines().skip(1).take(8).collect::<Vec<_>>(), below, "{before}\n{after}");
    assert!(!after.contains('⋯'), "{after}");
}

#[test]
fn the_first_block_is_gone_to_without_reading_what_is_between() {
    let mut reader = Reader::of(stretch(481, 501));
    reader.screen();
    reader.alt_up();
    reader.key(KeyCode::Char('g'));
    let screen = reader.screen();
    assert!(screen.starts_with("› question 1"), "{screen}");
    assert!(reader.asked <= 5, "{}", reader.asked);
    // Scrolling down from there loads the entries that follow.
    for _ in 0..40 {
        reader.key(KeyCode::PageDown);
        reader.screen();
    }
    let lines = reader.printed();
    let all = whole(500);
    assert_eq!(lines[..200], all[..200]);
}

#[test]
fn a_search_goes_on_in_what_is_not_here() {
    let mut reader = Reader::of(stretch(481, 501));
    reader.screen();
    reader.ctrl('f');
    reader.words("question 101");
    assert!(reader.screen().contains("0 of 0+"));
    reader.key(KeyCode::Up);
    let screen = reader.screen();
    assert!(screen.contains("› question 101"), "{screen}");
    assert!(screen.contains("1 of 1"), "{screen}");
    let asked = reader.asked;
    // Searching on finds no other match, not even in the unloaded part.
    reader.key(KeyCode::Up);
    let screen = reader.screen();
    assert!(screen.contains("› question 101") && screen.contains("1 of 1"), "{screen}");
    reader.key(KeyCode::Up);
    reader.screen();
    assert!(reader.asked < asked + 12, "{} {asked}", reader.asked);
    reader.key(KeyCode::Esc);

    reader.ctrl('f');
    reader.words("nowhere is this said");
    reader.key(KeyCode::Up);
    // The user presses another key before the answer arrives.
    reader.key(KeyCode::Enter);
    let screen = reader.screen();
    assert!(screen.contains("0 of 0 ·"), "{screen}");
}

#[test]
fn all_hits_are_come_to_one_after_the_other() {
    let mut reader = Reader::of(stretch(481, 501));
    reader.screen();
    reader.ctrl('f');
    reader.words("needle 3");
    let mut seen = Vec::new();
    for _ in 0..14 {
        reader.key(KeyCode::Up);
        let screen = reader.screen();
        let shown = screen.lines().filter_map(|line| line.trim().strip_prefix("✓ bash run "));
        seen.extend(
            shown
                .filter_map(|n| n.split_whitespace().next()?.parse::<u64>().ok())
                .filter(|n| (n + 1) % 7 == 3),
        );
    }
    seen.dedup();
    let mut want: Vec<u64> = (1..500).filter(|n| n % 5 == 2 && (n + 1) % 7 == 3).collect();
    want.reverse();
    assert!(seen.len() >= 10, "{seen:?}");
    let from = want.iter().position(|n| *n == seen[0]).unwrap();
    assert_eq!(seen[..10], want[from..from + 10], "{seen:?}");
}

#[test]
fn what_cannot_be_read_is_said_and_not_asked_for_again() {
    let mut reader = Reader::of(stretch(481, 501));
    reader.slow = true;
    reader.screen();
    for _ in 0..9 {
        reader.key(KeyCode::PageUp);
        reader.draw();
    }
    let [(from, to, _)] = &std::mem::take(&mut reader.waiting)[..] else { panic!("one question") };
    let result = Err("the disk is gone".to_owned());
    reader.input(Input::Reply(Reply::Past { from: *from, to: *to, result }));
    for _ in 0..3 {
        let screen = reader.screen();
        assert!(screen.contains("⋯ this part of the session cannot be read: the disk is gone"), "{screen}");
        reader.key(KeyCode::PageUp);
    }
    assert_eq!(reader.asked, 1);
}

#[test]
fn the_list_of_messages_has_those_that_are_not_here() {
    let mut reader = Reader::of(stretch(481, 501));
    reader.screen();
    reader.key(KeyCode::Esc);
    let effects = reader.app.update(Input::Key(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE)));
    assert!(effects.contains(&Effect::Ask(Request::Said)), "{effects:?}");
    let said = (1..500).filter(|n| n % 5 == 1).map(|n| match event(n) {
        Event::UserMessage { message, .. } => (Seq(n), message.id, message.text()),
        other => panic!("{other:?}"),
    });
    reader.input(Input::Reply(Reply::Said(said.collect())));
    reader.words("question 446");
    let screen = reader.screen();
    assert!(screen.contains("question 446"), "{screen}");
    reader.key(KeyCode::Enter);
    assert!(reader.screen().contains("▎ question 446"), "{}", reader.screen());
}

/// A session that runs for days: turns far from the view are evicted, and loaded again when they are read.
#[test]
fn turns_that_nobody_looks_at_leave_and_come_back() {
    let heavy = |n: u64| {
        let mut event = event(n);
        if let Event::ToolFinished { message, .. } = &mut event
            && let Some(Part::ToolResult { output, .. }) = message.parts.first_mut()
        {
            // Blank lines take memory and change nothing on the screen.
            output.push_str(&"          \n".repeat(20_000));
        }
        event
    };
    let mut app = App::new(Theme::plain());
    app.begin_with(Used::default(), true);
    let mut reader = Reader::with(app);
    let mut most = 0;
    for n in 1..=300 {
        // A line by the interface itself exists only in memory.
        if n == 52 {
            reader.input(Input::Reply(Reply::Done(Ok("a line of the interface's own".into()))));
        }
        reader.input(Input::Agent(heavy(n)));
        if n % 5 == 0 {
            reader.input(Input::Agent(turn_end(TurnEnd::Completed)));
            reader.screen();
            most = most.max(reader.app.held());
        }
    }
    assert!(most < 6 << 20, "{most}");
    assert_eq!(reader.asked, 0, "leaving asks for nothing");
    let screen = reader.screen();
    assert!(screen.contains("300 old outputs"), "{screen}");
    reader.far(KeyCode::PageUp);
    assert!(reader.screen().starts_with("› question 1"));
    let mut lines = reader.printed();
    let own = lines.iter().position(|line| line.contains("a line of the interface's own")).unwrap();
    assert!(lines[own - 2].contains("question 51"), "{:?}", &lines[own - 3..own + 2]);
    lines.drain(own..own + 2);
    assert_eq!(lines, whole(300));
}

/// Reading a long session from its end to its start and back keeps only a part of it in memory at a time.
#[test]
fn what_was_read_leaves_again() {
    let mut app = App::new(Theme::plain());
    app.begin_with(Used::default(), true);
    app.show_end(&stretch(1_981, 2_001));
    let mut reader = Reader::with(app);
    // Half a megabyte in each range.
    reader.filler = 250_000;
    reader.screen();
    let mut most = 0;
    for key in [KeyCode::PageUp, KeyCode::PageDown] {
        let mut before = String::new();
        let mut seen = std::collections::BTreeSet::new();
        loop {
            reader.key(key);
            let now = reader.screen();
            most = most.max(reader.app.held());
            // The last row may end with "more below".
            let questions =
                now.lines().filter_map(|line| line.strip_prefix("› question ")?.split(' ').next());
            seen.extend(questions.map(|n| n.parse::<u64>().unwrap()));
            if now == before {
                break;
            }
            before = now;
        }
        let end = if key == KeyCode::PageUp { "› question 1\n" } else { "2000 old outputs" };
        assert!(before.contains(end), "{before}");
        let missed: Vec<u64> = (1..=2_000).filter(|n| n % 5 == 1 && !seen.contains(n)).collect();
        assert!(missed.len() < 5, "only what was on the first screen: {missed:?}");
    }
    assert!(most < 6 << 20, "{most}");
    let lines = reader.printed();
    assert_eq!(lines.iter().filter(|line| line.contains('⋯')).count(), 1, "one gap, not many");
}

#[test]
fn what_is_not_on_disk_stays() {
    let mut reader = Reader::of(stretch(1, 2));
    for n in 2..=60 {
        let mut event = event(n);
        if let Event::AssistantMessage { message, .. } = &mut event {
            message.parts.push(Part::text("word ".repeat(100_000)));
        }
        reader.input(Input::Agent(event));
        reader.input(Input::Agent(turn_end(TurnEnd::Completed)));
    }
    assert!(reader.app.held() > 6 << 20);
    assert!(!reader.printed().iter().any(|line| line.contains('⋯')));
}

/// If the session is not in memory, the host finds the messages that a compaction removed by reading the session.
#[test]
fn what_compactions_took_out_of_what_is_not_here() {
    let boundary = |entry: u64, tail: u64| Event::CompactBoundary {
        entry: Seq(entry),
        trigger: becket_types::CompactionTrigger::Auto,
        pre_tokens: becket_types::Tokens(100_000),
        post_tokens: becket_types::Tokens(9_000),
        summary: "what was done".into(),
        anchor: None,
        tail_from: Seq(tail),
        kept: vec![],
        left_out: Vec::new(),
    };
    let mut events: Vec<Event> = (1..=60).map(event).collect();
    events.insert(30, boundary(1_000, 21));
    events.insert(61, boundary(1_001, 46));
    let mut whole = transcript::RemovedMessages::default();
    whole.take(&events);
    let mut parts = transcript::RemovedMessages::default();
    // Ranges begin where a turn begins.
    let begins: Vec<usize> =
        (0..events.len()).filter(|i| matches!(events[*i], Event::UserMessage { .. })).collect();
    for (nth, from) in begins.iter().enumerate() {
        parts.take(&events[*from..begins.get(nth + 1).copied().unwrap_or(events.len())]);
    }
    for of in [None, Some(Seq(1_000)), Some(Seq(1_001))] {
        assert_eq!(parts.removed(of), whole.removed(of));
    }
    assert_eq!(whole.removed(Some(Seq(1_001))).first().unwrap().0, Seq(21));
    assert_eq!(
        whole.removed(None).len(),
        whole.removed(Some(Seq(1_000))).len() + whole.removed(Some(Seq(1_001))).len()
    );

    // The block of a compaction requests its messages when it is opened.
    let mut reader = Reader::of(Stretch { from: Seq(50), to: Seq(61), events: events[51..].to_vec() });
    reader.screen();
    reader.alt_up();
    reader.key(KeyCode::Enter);
    let effects = reader.effects();
    assert!(effects.contains(&Effect::Ask(Request::Removed { entry: Some(Seq(1_001)) })), "{effects:?}");
    reader.input(Input::Reply(Reply::Removed {
        entry: Some(Seq(1_001)),
        removed: whole.removed(Some(Seq(1_001))),
    }));
    reader.screen();
    assert!(reader.printed().iter().any(|line| line.contains("you: question 21")));
    // The list of messages to bring back requests them as well.
    let effects = reader.app.update(Input::Key(KeyEvent::new(KeyCode::Char('b'), KeyModifiers::NONE)));
    let asked = Effect::Ask(Request::Message { seq: Seq(21) });
    assert_eq!(effects, vec![asked], "what is in the list is known now, not what all of it says");
    let screen = reader.screen();
    assert!(screen.contains("question 21"), "{screen}");
}

#[derive(Clone, Debug)]
enum Act {
    Key(KeyCode),
    Find(String),
    FindNext(bool),
    EndFind,
    Focus,
    Live,
    Answer,
    Draw,
}

fn act() -> impl Strategy<Value = Act> {
    let keys = [
        KeyCode::PageUp,
        KeyCode::PageUp,
        KeyCode::PageDown,
        KeyCode::Char('g'),
        KeyCode::Char('u'),
        KeyCode::Char('k'),
        KeyCode::Enter,
        KeyCode::Esc,
    ];
    prop_oneof![
        6 => prop::sample::select(keys.to_vec()).prop_map(Act::Key),
        1 => prop::sample::select(vec!["needle 3", "question 101", "answer", "nowhere"]).prop_map(|w| Act::Find(w.to_owned())),
        2 => any::<bool>().prop_map(Act::FindNext),
        1 => Just(Act::EndFind),
        1 => Just(Act::Focus),
        1 => Just(Act::Live),
        4 => Just(Act::Answer),
        4 => Just(Act::Draw),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// However the session is read, and however late answers arrive: the transcript is a part of the whole, in order.
    /// Once it is read to its start, it is the whole.
    #[test]
    fn it_is_the_same_transcript_in_the_end(acts in prop::collection::vec(act(), 0..60), start in 0u64..20) {
        let mut reader = Reader::of(stretch(101 + 5 * start, 301));
        let mut last = 300;
        let (mut finding, mut focus) = (false, false);
        reader.slow = true;
        for act in acts {
            match act {
                // Without a focus, letters would be typed into the composer.
                Act::Key(KeyCode::Char(_) | KeyCode::Enter) if !focus || finding => {}
                Act::Key(KeyCode::Esc) if !focus && !finding => {}
                Act::Key(code) => {
                    reader.key(code);
                    if code == KeyCode::Esc {
                        if finding { finding = false } else { focus = false }
                    }
                }
                Act::Find(words) if !finding => {
                    reader.ctrl('f');
                    reader.words(&words);
                    finding = true;
                }
                Act::FindNext(back) if finding => reader.key(if back { KeyCode::Up } else { KeyCode::Down }),
                Act::EndFind if finding => {
                    reader.key(KeyCode::Esc);
                    finding = false;
                }
                Act::Focus if !finding && !focus => {
                    reader.draw();
                    reader.alt_up();
                    focus = true;
                }
                Act::Live => {
                    last += 1;
                    reader.input(Input::Agent(event(last)));
                }
                Act::Answer => reader.answer(),
                _ => drop(reader.draw()),
            }
        }
        reader.slow = false;
        reader.screen();
        // Pressed once for each open list, because two on an empty composer would rewind.
        for _ in 0..usize::from(finding) + usize::from(focus) {
            reader.key(KeyCode::Esc);
        }
        for key in [KeyCode::PageUp, KeyCode::PageDown] {
            reader.far(key);
        }
        // Blocks may have been opened by keys or by the search, so only closed lines are compared.
        let heads = |lines: Vec<String>| -> Vec<String> {
            lines.into_iter().filter(|l| l.starts_with("› ") || l.starts_with("# ") || l.contains("thinking aloud") || l.contains("bash run") || l.contains("old outputs") || l.contains('⋯')).collect()
        };
        prop_assert_eq!(heads(reader.printed()), heads(whole(last)));
    }
}
