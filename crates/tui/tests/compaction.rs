//! A compaction that the user previews: applying it, editing its summary, its loss report, undoing it, bringing
//! messages back.

#[allow(dead_code, reason = "each binary uses its part of the stage")]
mod support;

use becket_tui::input::{Effect, Input, Reply, Request, Timer};
use becket_types::{
    CategoryChange, Command, CompactionPlan, CompactionTrigger, ContextChange, Event, LeftOut, Loss, Lost,
    Message, MessageId, ProtectedContent, RemovedMessage, Seq, SizeChange, Tokens,
};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use support::{Stage, started};

fn loss() -> Loss {
    let lost =
        |text: &str, seq: u64, by_user: bool| Lost { text: text.into(), seq: Seq(seq), times: 1, by_user };
    Loss {
        constraints: vec![lost("Never touch vendor/generated.rs!", 3, true)],
        identifiers: vec![lost("ACME-4711", 3, true), lost("parser_core", 9, false)],
        outputs: 12,
        ..Loss::default()
    }
}

fn left_out() -> LeftOut {
    LeftOut {
        section: "Instructions".into(),
        text: "- push to main".into(),
        why: "copied word for word from a tool's output".into(),
    }
}

fn plan(number: u64, summary: &str) -> CompactionPlan {
    let category = |name: &str, before: u64, after: u64| CategoryChange {
        name: name.into(),
        before: Tokens(before),
        after: Tokens(after),
    };
    let removed = |seq: u64, who: &str, words: &str| RemovedMessage {
        seq: Seq(seq),
        id: MessageId::new(),
        who: who.into(),
        calls: Vec::new(),
        tokens: Tokens(1_200),
        words: words.into(),
    };
    CompactionPlan {
        plan: number,
        size: SizeChange { before: Tokens(148_000), after: Tokens(21_000) },
        categories: vec![category("system prompt", 3_100, 3_100), category("conversation", 144_900, 17_000)],
        gone: vec![removed(3, "user", "Fix the parser."), removed(4, "assistant", "I look at ```it```.")],
        stays: 7,
        stubs: 2,
        loss: loss(),
        protected: ProtectedContent { present: 3, ..ProtectedContent::default() },
        summary: summary.into(),
        left_out: Vec::new(),
        notices: Vec::new(),
    }
}

/// Returns a stage that shows the plan of a compaction.
fn looked_at(size: (u16, u16)) -> Stage {
    let mut stage = Stage::new(size.0, size.1);
    stage.event(started());
    stage.event(Event::CompactionPlanned(Box::new(plan(1, "## Goal\n- fix the parser"))));
    stage
}

fn arm(stage: &mut Stage) {
    let asked = stage.asks();
    assert!(asked.iter().any(|e| matches!(e, Effect::Wake(_, Timer::Page))), "{asked:?}");
    stage.update(Input::Due(Timer::Page));
}

#[test]
fn the_page_says_what_it_would_do_and_enter_applies_it() {
    let mut stage = looked_at((80, 50));
    arm(&mut stage);
    let screen = stage.screen();
    for words in [
        "148k → 21k tokens.",
        "Removed from the context: 2 messages. Kept word for word: 7.",
        "system prompt",
        "Never touch vendor/generated.rs!",
        "ACME-4711",
        "12 outputs of tools removed",
        "your last message: 3 found",
        "- fix the parser",
        "I look at '''it'''.",
        "▸ 1 Apply it   Enter twice\n  2 Edit the summary first\n  3 No, leave everything as it is   Esc",
    ] {
        assert!(screen.contains(words), "{words}:\n{screen}");
    }
    let apply = Effect::Send(Command::CarryOut { plan: 1, force: false });
    assert_eq!(stage.answer('1'), [apply]);
    assert!(!stage.screen().contains("ACME-4711"), "the page is gone");
}

/// The plan arrives seconds after it was requested. Typing meanwhile neither applies nor discards it.
#[test]
fn keys_typed_ahead_answer_nothing() {
    let mut stage = looked_at((80, 24));
    assert_eq!(stage.key(KeyCode::Enter), [], "before it was drawn");
    stage.asks();
    assert_eq!(stage.key(KeyCode::Tab), [], "before its time");
    stage.update(Input::Due(Timer::Page));
    stage.key(KeyCode::Tab);
    assert_eq!(stage.key(KeyCode::Enter), [], "a key came, so the time starts again");
    assert!(stage.screen().contains("148k → 21k tokens"));
    // An answer covers only text that was shown.
    assert_eq!(stage.answer('1'), []);
    // The key has turned the page. The frame that shows the end says that an answer counts now.
    let screen = stage.screen();
    assert!(screen.contains("14–30 of 30") && screen.contains("Enter takes it"), "{screen}");
    assert_eq!(stage.key(KeyCode::Enter), [], "a key that turned the page and is held down");
    stage.read_question();
    assert!(stage.screen().contains("press it again"), "{}", stage.screen());
    let apply = Effect::Send(Command::CarryOut { plan: 1, force: false });
    assert_eq!(stage.update(Input::Key(support::key('1'))), [apply]);
    let mut stage = looked_at((80, 24));
    let effects = stage.key(KeyCode::Esc);
    assert!(effects.iter().all(|e| !matches!(e, Effect::Send(_))), "{effects:?}");
    assert!(!stage.screen().contains("148k → 21k tokens"), "Esc always leaves it");
}

#[test]
fn its_summary_is_edited_and_shown_again() {
    let mut stage = looked_at((80, 50));
    let edit = stage.answer('2');
    assert_eq!(edit, [Effect::Ask(Request::Edit { text: "## Goal\n- fix the parser".into() })]);
    // The editor was left without a change: the page is shown again, and no draft was written.
    assert_eq!(stage.update(Input::Reply(Reply::Edited(Ok("## Goal\n- fix the parser\n".into())))), []);
    assert!(stage.screen().contains("1 Apply it"), "{}", stage.screen());
    stage.answer('2');
    let effects = stage.update(Input::Reply(Reply::Edited(Err("vi ended with 1".into()))));
    assert_eq!(effects, []);
    assert!(stage.screen().contains("vi ended with 1"), "{}", stage.screen());
    stage.answer('2');
    let effects = stage.update(Input::Reply(Reply::Edited(Ok("## Goal\n- by hand".into()))));
    let summary = "## Goal\n- by hand".to_owned();
    assert_eq!(effects, [Effect::Send(Command::EditCompaction { plan: 1, summary: summary.clone() })]);
    stage.event(Event::CompactionPlanned(Box::new(plan(2, &summary))));
    assert!(stage.screen().contains("- by hand"), "{}", stage.screen());
    assert_eq!(stage.answer('1'), [Effect::Send(Command::CarryOut { plan: 2, force: false })]);
    // From now on text from the editor goes to the composer again.
    stage.update(Input::Reply(Reply::Edited(Ok("a task".into()))));
    assert!(stage.screen().contains("a task"));
}

/// Returns a stage with two messages of the user and a compaction that removed them from the context.
fn compacted() -> Stage {
    let mut stage = Stage::new(70, 26);
    stage.event(started());
    for (seq, words) in [(3, "first words"), (5, "second words")] {
        let mut message = Message::user(words);
        message.seq = Seq(seq);
        stage.event(Event::UserMessage { message, client_id: None, steered: false });
    }
    stage.event(Event::CompactBoundary {
        entry: Seq(9),
        trigger: CompactionTrigger::Manual,
        pre_tokens: Tokens(148_000),
        post_tokens: Tokens(21_000),
        summary: "what was done".into(),
        anchor: None,
        tail_from: Seq(8),
        kept: Vec::new(),
        left_out: vec![left_out()],
    });
    stage
}

#[test]
fn an_open_compaction_says_what_was_lost() {
    let mut stage = compacted();
    let asks = |stage: &mut Stage| {
        stage.asks().iter().filter(|e| **e == Effect::Ask(Request::Loss { entry: Seq(9) })).count()
    };
    assert_eq!(asks(&mut stage), 0, "nobody looks");
    stage.ctrl('o');
    assert_eq!(asks(&mut stage), 1);
    assert_eq!(asks(&mut stage), 0, "asked once");
    stage.update(Input::Reply(Reply::Loss { entry: Seq(9), result: Ok(loss()) }));
    let screen = stage.screen();
    assert!(screen.contains("your sentences that the new context does not contain (1):"), "{screen}");
    assert!(screen.contains("Never touch vendor/generated.rs!"), "{screen}");
    assert!(screen.contains("you: first words\n  you: second words"), "{screen}");
    let left_out = "left out of the model's summary\n  Instructions (copied word for word from a tool's output):\n    - push to main";
    assert!(screen.contains(left_out), "{screen}");
    stage.update(Input::Reply(Reply::Loss { entry: Seq(9), result: Err("the disk is gone".into()) }));
    assert!(stage.screen().contains("no report: the disk is gone"));
}

/// An older compaction is asked about by its own entry number, and the answer is shown in its own block.
#[test]
fn an_old_compaction_says_what_it_lost_too() {
    let mut stage = compacted();
    let mut message = Message::user("third words");
    message.seq = Seq(11);
    stage.event(Event::UserMessage { message, client_id: None, steered: false });
    stage.event(Event::CompactBoundary {
        entry: Seq(14),
        trigger: CompactionTrigger::Manual,
        pre_tokens: Tokens(90_000),
        post_tokens: Tokens(15_000),
        summary: "what was done later".into(),
        anchor: None,
        tail_from: Seq(13),
        kept: Vec::new(),
        left_out: Vec::new(),
    });
    let mut asked = Vec::new();
    let mut look = |stage: &mut Stage| {
        asked.extend(stage.asks().into_iter().filter_map(|effect| match effect {
            Effect::Ask(Request::Loss { entry }) => Some(entry),
            _ => None,
        }));
    };
    // Opens only the block of the older compaction.
    stage.screen();
    for _ in 0..3 {
        stage.update(Input::Key(KeyEvent::new(KeyCode::Up, KeyModifiers::ALT)));
    }
    stage.key(KeyCode::Enter);
    look(&mut stage);
    assert_eq!(asked, [Seq(9)], "{}", stage.screen());
    stage.update(Input::Reply(Reply::Loss { entry: Seq(9), result: Ok(loss()) }));
    let screen = stage.screen();
    let (old, new) = (
        screen.find("context compacted 148k → 21k").unwrap(),
        screen.find("context compacted 90k → 15k").unwrap(),
    );
    let lost = screen.find("Never touch vendor/generated.rs!").unwrap();
    assert!(old < lost && lost < new, "{screen}");
    assert!(!screen.contains("what was done later"), "{screen}");
}

#[test]
fn a_compaction_that_was_undone_says_so() {
    let mut stage = compacted();
    stage.event(Event::CompactionReverted { entry: Seq(9), counts: false });
    assert!(stage.screen().contains("context compacted 148k → 21k tokens · undone"), "{}", stage.screen());
    stage.event(Event::CompactionReverted { entry: Seq(9), counts: true });
    assert!(stage.screen().contains("148k → 21k tokens · Ctrl-O shows the summary"), "{}", stage.screen());
}

#[test]
fn messages_are_brought_back() {
    let restore = |items: &[&str]| {
        let items = items.iter().map(|item| (*item).to_owned()).collect();
        vec![Effect::Send(Command::ChangeContext(ContextChange::Restore { items }))]
    };
    let mut stage = compacted();
    stage.type_text("/removed");
    stage.key(KeyCode::Enter);
    let screen = stage.screen();
    assert!(screen.contains("bring back") && screen.contains("you: first words"), "{screen}");
    stage.key(KeyCode::Down);
    assert_eq!(stage.key(KeyCode::Enter), restore(&["5"]));

    // Two messages are brought back at once from the focused compaction.
    stage.screen();
    stage.update(Input::Key(KeyEvent::new(KeyCode::Up, KeyModifiers::ALT)));
    assert!(stage.screen().contains("b restores"), "{}", stage.screen());
    stage.key(KeyCode::Char('b'));
    stage.key(KeyCode::Tab);
    stage.key(KeyCode::Tab);
    assert!(stage.screen().contains("✓ you: first words"), "{}", stage.screen());
    assert_eq!(stage.key(KeyCode::Enter), restore(&["3", "5"]));

    // A compaction that was undone has removed nothing.
    stage.event(Event::CompactionReverted { entry: Seq(9), counts: false });
    stage.type_text("/folded");
    stage.key(KeyCode::Enter);
    assert!(stage.screen().contains("no compaction of this session removed a message"), "{}", stage.screen());
}

/// At every size of the terminal, the page shows how to answer and how to leave.
#[test]
fn the_page_can_be_answered_at_any_size() {
    for size in [(80, 24), (120, 40), (200, 60), (40, 10)] {
        let mut stage = looked_at(size);
        arm(&mut stage);
        let screen = stage.screen();
        let answers = if size.1 < 14 { " 1 apply 2 edit 3 no" } else { "\n  2 Edit the summary first\n" };
        assert!(size.1 < 14 || screen.contains(" 1 Apply it"), "{screen}");
        assert!(screen.contains("148k → 21k") && screen.contains(answers), "{screen}");
        assert!(screen.contains("Enter answers · ") || screen.contains("PageDown"), "{screen}");
        assert!(screen.lines().all(|line| line.chars().count() <= usize::from(size.0)), "{screen}");
    }
}
