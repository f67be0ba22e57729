//! Effects of compactions, prunes, continuations and media limits on a history, and their undo.

use super::*;

#[test]
fn t9_a_pruned_output_is_a_stub_until_undone_or_pinned() {
    let stub = "t #a=<tool-output-compacted id=\"a\" tool=\"read\" bytes=\"9\" lines=\"2\" />\nlast";
    let mut ledger = Ledger::new();
    ledger.user("go");
    ledger.calls(&["a"]);
    let mut result = Message::tool_result("a".into(), "read", "the output", false);
    result.parts.push(image("shot"));
    ledger.message(result);
    let (plain, generation) = (ledger.lines(), ledger.generation());
    assert_eq!(plain[2], "t #a=the output|<image>");
    let tokens = ledger.view.estimated_tokens();

    let prune = ledger.push(prune_of("a"));
    assert_eq!(ledger.lines()[2], format!("{stub}\n[Attached image/png: shot, 3x4, id a]"));
    assert!(ledger.generation() > generation && ledger.view.is_pruned(&"a".into()));
    let shown = Arc::clone(&ledger.view.context().messages[2]);
    assert_eq!(
        shown.message.metadata.time,
        Some(TimeMeta { created: None, compacted: Some(Millis(1_000 + prune.0)) })
    );
    assert!(shown.provenance.applied.contains(&"pruned".to_owned()));
    assert_eq!(ledger.view.original_output(&"a".into()), Some(("read", "the output", None)));
    assert!(ledger.view.estimated_tokens() < tokens);

    let undo = ledger.push(EntryKind::Revert { entry: prune });
    assert_eq!(ledger.lines(), plain);
    ledger.push(EntryKind::Revert { entry: undo });
    assert_eq!(ledger.lines()[2][..stub.len()], *stub);
    ledger.push(EntryKind::Pin { target: PinTarget::Call("a".into()) });
    assert_eq!(ledger.lines(), plain, "neither prune nor compaction removes what is pinned");
    assert_eq!(ledger.view.estimated_tokens(), tokens);
}

#[test]
fn t9_outside_compactions_only_in_batches_that_pay() {
    let mut ledger = Ledger::new();
    for (turn, size) in [(0, 70_000), (1, 70_000), (2, 10), (3, 10)] {
        ledger.user("task");
        let id = format!("c{turn}");
        ledger.calls(&[&id]);
        ledger.result(&id, &"word ".repeat(size / 5));
        let due = crate::context::due::cold_prune(&ledger.view, Millis(5));
        match turn {
            0..=2 => assert_eq!(due, None, "turn {turn}: under 30,000 tokens"),
            _ => {
                let Some(EntryKind::Prune { calls, freed_tokens, reason, .. }) = due else { panic!("due") };
                let ids: Vec<_> = calls.iter().map(|c| c.call_id.as_str()).collect();
                assert_eq!((ids, reason), (vec!["c0", "c1"], PruneReason::CacheCold));
                assert!(freed_tokens >= Tokens(30_000) && freed_tokens < Tokens(33_400), "{freed_tokens}");
            }
        }
    }
    let off = View::fold(Policy { prune: false, ..Policy::default() }, scope(), &ledger.entries);
    assert_eq!(crate::context::due::cold_prune(&off, Millis(5)), None, "prune = off means none");
}

#[test]
fn t8_the_view_after_a_compaction() {
    let (mut ledger, starts) = three_turns();
    let (before, generation) = (ledger.lines(), ledger.generation());
    ledger.user("task 4");
    let unanswered = ledger.view.last_seq();
    let taken = ledger.id_at(unanswered);
    let first = ledger.id_at(starts[0]);
    ledger.compact(starts[2], |c| {
        c.repeated.state = "STATE".into();
        c.retained.kept = vec![first];
        c.retained.taken_out = vec![taken];
    });
    ledger.go_on("task 4");
    let mut want = vec!["s SUMMARY".to_owned(), "u STATE".into(), "u task 1".into()];
    want.extend_from_slice(&before[8..]);
    want.push("u task 4".into());
    assert_eq!(ledger.lines(), want);
    assert!(ledger.generation() > generation);
    let messages = &ledger.view.context().messages;
    assert_eq!(messages[0].message.origin, Origin::Synthetic(Synthetic::CompactionSummary));
    assert_eq!(messages[1].message.origin, Origin::Synthetic(Synthetic::SessionState));
    let shown: Vec<String> =
        ledger.view.messages_for_user().filter(|m| m.role == Role::User).map(Message::text).collect();
    assert_eq!(shown, ["task 1", "task 2", "task 3", "task 4"], "the continuation is hidden");
    assert_eq!(ledger.view.live().map(|m| m.text()).filter(|t| t.starts_with("task")).count(), 3);
}

#[test]
fn t8_what_a_compaction_never_removes() {
    for (rule, pin, want) in [
        ("the last user message", None, vec!["u task 3"]),
        ("a pinned message", Some(0), vec!["u task 1", "u task 3"]),
        ("a pinned call with its message", Some(1), vec!["a read#c1{}", "t #c1=out", "u task 3"]),
    ] {
        let (mut ledger, starts) = three_turns();
        match pin {
            Some(0) => ledger.push(EntryKind::Pin { target: PinTarget::Message(ledger.id_at(starts[0])) }),
            Some(_) => ledger.push(EntryKind::Pin { target: PinTarget::Call("c1".into()) }),
            None => Seq(0),
        };
        let end = ledger.view.last_seq().next();
        ledger.compact(end, |_| {});
        assert_eq!(ledger.lines()[1..], want, "{rule}");
    }
}

#[test]
fn t8_a_call_and_its_results_are_indivisible() {
    let mut ledger = Ledger::new();
    ledger.user("task");
    ledger.calls(&["a", "b"]);
    ledger.result("a", "1");
    let cut = ledger.result("b", "2");
    ledger.compact(cut, |_| {});
    ledger.go_on("continue");
    assert_eq!(
        ledger.lines(),
        ["s SUMMARY", "u task", "a read#a{}|read#b{}", "t #a=1", "t #b=2", "u continue"]
    );
}

#[test]
fn t8_undo_restores_the_view_exactly_also_twice_and_after_a_restart() {
    let (mut ledger, starts) = three_turns();
    let hash = |ledger: &mut Ledger| {
        ledger.view.context().messages.iter().map(|m| m.message.clone()).collect::<Vec<_>>()
    };
    let first = hash(&mut ledger);
    let one = ledger.compact(starts[1], |c| {
        c.shortened.pruned =
            vec![PrunedCall { call_id: "c2".into(), bytes: 3, lines: 1, excerpt: String::new() }];
    });
    ledger.go_on("continue");
    let second = hash(&mut ledger);
    let two = ledger.compact(starts[2], |c| c.replaces = Some(one));
    ledger.go_on("continue");
    assert_ne!(hash(&mut ledger), second);
    ledger.push(EntryKind::Revert { entry: two });
    assert_eq!(hash(&mut ledger), second);
    assert_eq!(ledger.view.compaction().map(|(seq, _)| seq), Some(one));
    ledger.push(EntryKind::Revert { entry: one });
    assert_eq!(hash(&mut ledger), first);
    assert!(!ledger.view.stale());
    ledger.lines();
    // Messages after the compaction stay when it is undone.
    let three = ledger.compact(starts[2], |_| {});
    ledger.go_on("continue");
    ledger.assistant(vec![Part::text("went on")]);
    ledger.push(EntryKind::Revert { entry: three });
    let last = ledger.lines();
    assert_eq!(last.len(), first.len() + 1);
    assert_eq!(last[first.len()], "a went on");
}

#[test]
fn p6_words_that_were_taken_back_are_not_said_again_by_a_continuation() {
    for (rule, media) in [("unanswered", false), ("media", true)] {
        let mut ledger = Ledger::new();
        ledger.user("task 1");
        ledger.assistant(vec![Part::text("done")]);
        let before = ledger.lines();
        let mut wrong = Message::user("a slip");
        wrong.parts.extend(media.then(|| image("shot")));
        let taken = ledger.message(wrong);
        if media {
            ledger.assistant(vec![Part::text("seen")]);
        }
        let live: Vec<Arc<Message>> = ledger.view.live().cloned().collect();
        // With `media`, the message was answered, so the continuation is one for the middle of a turn. Otherwise the message
        // has no answer yet.
        let state = if media { TurnState::MidTurn } else { ledger.view.turn_state() };
        let again = crate::context::continuation::continuation(Message::user("again").id, &live, state);
        let (end, id) = (taken.next(), ledger.id_at(taken));
        ledger.compact(end, |c| c.retained.taken_out = if media { vec![] } else { vec![id] });
        ledger.message(again.unwrap());
        assert!(ledger.lines().last().is_some_and(|line| line.contains("a slip")), "{rule}");
        // After another compaction of everything, the continuation counts as the user's last words.
        let end = ledger.view.last_seq().next();
        ledger.compact(end, |_| {});
        let shown = ledger.lines();
        let undo = ledger.push(EntryKind::Revert { entry: taken });
        assert_eq!(ledger.lines(), ["s SUMMARY".to_owned(), before[0].clone()], "{rule}");
        ledger.push(EntryKind::Revert { entry: undo });
        assert_eq!(ledger.lines(), shown, "{rule}");
    }
}

#[test]
fn p6_words_that_came_back_are_newer_than_those_that_a_continuation_says_again() {
    let mut ledger = Ledger::new();
    let first = ledger.user("task 1");
    let second = ledger.user("task 2");
    let undo = ledger.push(EntryKind::Revert { entry: second });
    let live: Vec<Arc<Message>> = ledger.view.live().cloned().collect();
    let again = crate::context::continuation::continuation(
        Message::user("again").id,
        &live,
        ledger.view.turn_state(),
    );
    let (end, id) = (ledger.view.last_seq().next(), ledger.id_at(first));
    ledger.compact(end, |c| c.retained.taken_out = vec![id]);
    ledger.message(again.unwrap());
    ledger.assistant(vec![Part::text("done")]);
    ledger.push(EntryKind::Revert { entry: undo });
    assert_eq!(ledger.lines(), ["s SUMMARY", "u task 2", "u task 1", "a done"]);
    let end = ledger.view.last_seq().next();
    ledger.compact(end, |_| {});
    assert_eq!(ledger.lines(), ["s SUMMARY", "u task 2"]);
}

#[test]
fn messages_that_left_memory_are_asked_for_again() {
    let mut ledger = Ledger::new();
    ledger.user("task");
    ledger.calls(&["big"]);
    ledger.result("big", &"word ".repeat(1_000_000));
    ledger.calls(&["small"]);
    let tail = ledger.result("small", "x");
    let before = ledger.lines();
    let compaction = ledger.compact(tail, |_| {});
    ledger.lines();
    assert_eq!(ledger.view.original_output(&"big".into()), None, "not in memory");
    assert_eq!(ledger.view.output_at(&"big".into()), Some(Seq(4)), "but found in the ledger");
    assert!(!ledger.view.stale());
    ledger.push(EntryKind::Revert { entry: compaction });
    assert!(ledger.view.stale());
    let generation = ledger.generation();
    ledger.view = View::fold(Policy::default(), scope(), &ledger.entries);
    assert!(!ledger.view.stale());
    assert_eq!(ledger.lines(), before);
    assert!(ledger.generation() > 0 && generation > 0);
}

#[test]
fn t11_media_becomes_text_with_the_compaction() {
    let mut ledger = Ledger::new();
    ledger.user("task");
    let mut message = Message::user("look");
    message.parts.push(image("a.png"));
    let id = message.id;
    let at = ledger.message(message);
    assert_eq!(ledger.lines()[1], "u look|<image>");
    let entry = ledger.compact(at, |c| c.shortened.media = vec![(id, 1)]);
    assert_eq!(ledger.lines()[1], "u look|[Attached image/png: a.png, 3x4, id m2]");
    ledger.push(EntryKind::Revert { entry });
    assert_eq!(ledger.lines()[1], "u look|<image>");
}

#[test]
fn media_policy_for_the_whole_request() {
    let count = |ledger: &mut Ledger| ledger.lines().iter().filter(|l| l.contains("<image>")).count();
    let mut ledger = Ledger::new();
    let mut generation = 0;
    for (nth, want) in [1, 2, 3, 4, 2, 3, 4, 2].into_iter().enumerate() {
        ledger.message(Message::new(
            Role::User,
            Origin::User,
            vec![Part::text("x"), image(&format!("{nth}.png"))],
        ));
        assert_eq!(count(&mut ledger), want, "image {nth}: half is freed at once");
        let now = ledger.generation();
        assert_eq!(nth > 0 && now != generation, matches!(nth, 4 | 7), "image {nth}");
        generation = now;
    }
    assert_eq!(ledger.view.take_notices().len(), 2);
    let due = ledger.view.media_due().unwrap();
    let EntryKind::Prune { media, reason, .. } = &due else { panic!("{due:?}") };
    assert_eq!((media.len(), *reason), (6, PruneReason::MediaLimit));
    let lines = ledger.lines();
    ledger.push(due);
    assert_eq!((ledger.lines(), ledger.generation()), (lines, generation), "recording it changes nothing");
    assert_eq!(ledger.view.media_due(), None);
    ledger.view.set_scope(ModelScope { images: false, ..scope() });
    assert_eq!(count(&mut ledger), 0, "a model without eyes gets text");

    let mut ledger = Ledger::new();
    ledger.user("go");
    ledger.calls(&["a"]);
    let mut failed = Message::tool_result("a".into(), "read", "no", true);
    failed.parts.push(image("i"));
    ledger.message(failed);
    assert_eq!(ledger.lines()[2], "t #a=no\n[Attached image/png: i, 3x4, id a]", "no image beside an error");
}

#[test]
fn messages_that_a_compaction_folded_away_come_back_with_their_results() {
    let mut ledger = Ledger::new();
    ledger.user("one");
    let asks = ledger.calls(&["a", "b"]);
    ledger.result("a", "out a");
    let second = ledger.result("b", "out b");
    ledger.assistant(vec![Part::text("answer one")]);
    ledger.user("two");
    ledger.assistant(vec![Part::text("answer two")]);
    let last = ledger.user("three");
    let before = ledger.lines();
    let compaction = ledger.compact(last, |_| {});
    let compacted = ledger.lines();
    assert!(!compacted.iter().any(|l| l.contains("out")), "{compacted:#?}");

    // Restoring one result also restores the call and the other result.
    let restore = ledger.push(EntryKind::Restore { messages: vec![ledger.id_at(second)] });
    let lines = ledger.lines();
    let at = |text: &str| lines.iter().position(|l| l.contains(text));
    assert!(
        at("SUMMARY") < at("out a") && at("out a") < at("out b") && at("out b") < at("three"),
        "{lines:#?}"
    );
    assert!(at("answer one").is_none() && ledger.view.check().is_ok());
    let fresh =
        View::fold(Policy::default(), scope(), &ledger.entries).live().map(|m| m.seq).collect::<Vec<_>>();
    assert!(fresh.contains(&asks));

    ledger.push(EntryKind::Revert { entry: restore });
    assert_eq!(ledger.lines(), compacted);
    ledger.push(EntryKind::Revert { entry: compaction });
    assert_eq!(ledger.lines(), before);
}
