//! Searching a session's own past: what is found, in which order, and what never is.
//!
//! The property runs 256 cases (each makes and folds a session in memory); `PROPTEST_CASES` for more.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod given;

use becket_exchange::export::{Format, Secrets, export};
use becket_session::context::{ModelScope, Policy};
use becket_session::{CreateOptions, Durability, Session};
use becket_types::{
    Compaction, EntryKind, FinishReason, ImageSource, Message, Part, PruneReason, PrunedCall, RecallMatches,
    Seq, Synthetic, Tokens,
};
use proptest::prelude::*;
use serde_json::{Map, json};
use std::path::Path;

fn scope() -> ModelScope {
    ModelScope {
        provider: "p".into(),
        model: "m".into(),
        images: true,
        max_images: 1,
        max_media_bytes: 1 << 20,
    }
}

fn create(dir: &Path, persist: bool) -> Session {
    let options = CreateOptions { persist, ..CreateOptions::default() };
    Session::create(dir, dir, options, Policy::default(), scope()).unwrap()
}

fn put(session: &mut Session, kinds: impl IntoIterator<Item = EntryKind>) -> Vec<Seq> {
    session.append(kinds.into_iter().collect(), Durability::Buffered).unwrap()
}

fn message(message: Message) -> EntryKind {
    EntryKind::Message { message }
}

fn user(text: &str) -> EntryKind {
    message(Message::user(text))
}

fn says(text: &str) -> EntryKind {
    message(Message::assistant(vec![Part::text(text)]))
}

fn ran(id: &str, tool: &str, command: &str, output: &str) -> [EntryKind; 2] {
    let call = Part::tool_call(id, tool, json!({ "command": command }));
    [message(Message::assistant(vec![call])), message(Message::tool_result(id.into(), tool, output, false))]
}

/// Everything before `tail_from` leaves the view.
fn fold_away(session: &mut Session, tail_from: Seq) -> Seq {
    let compaction = Compaction {
        summary: "## Goal\nsummary with the word zeppelin".into(),
        ..given::compaction(session, tail_from)
    };
    put(session, [EntryKind::Compaction(Box::new(compaction))])[0]
}

fn search(session: &Session, query: &str) -> RecallMatches {
    session.history_search().unwrap().search(query, 10).unwrap()
}

fn ids(session: &Session, query: &str) -> Vec<String> {
    search(session, query).places.into_iter().map(|place| place.id).collect()
}

fn text_of(session: &Session, seq: u64) -> Option<(String, String)> {
    session.history_search().unwrap().message(Seq(seq)).unwrap()
}

/// Entries 2 to 6: a ticket, a test run with a long output, what came of it, and a question.
fn worked(session: &mut Session) {
    let output = format!("{}E0499 in lib/walker.rs\n{}", "the parser ok\n".repeat(300), "done\n".repeat(300));
    put(session, [user("the ticket is ACME-4711, the parser fails")]);
    put(session, ran("c1", "bash", "cargo test -p parser", &output));
    put(session, [says("the parser is fixed, I chose resolve_amber_7 over recursion")]);
    put(session, [user("now the lexer")]);
}

#[test]
fn rare_words_win_and_what_is_shown_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = create(dir.path(), false);
    worked(&mut session);
    assert_eq!(search(&session, "parser E0499 ticket lexer"), RecallMatches::default(), "all of it is shown");
    fold_away(&mut session, Seq(6));

    let found = search(&session, "parser E0499");
    assert_eq!(found.total, 4, "{found:?}");
    let best = &found.places[0];
    assert_eq!((best.id.as_str(), best.seq, best.who.as_str()), ("c1", Seq(4), "output of bash"));
    assert!(best.snippet.contains("E0499 in lib/walker.rs") && best.snippet.len() <= 400, "{best:?}");
    assert_eq!(ids(&session, "Ticket NUMBER")[0], "m2");
    assert_eq!(ids(&session, "amber"), ["m5"], "a part of a name");
    assert_eq!(ids(&session, "cargo test"), ["m3"], "a call");
    assert_eq!(ids(&session, "lexer"), Vec::<String>::new(), "is shown");
    assert_eq!(search(&session, "?!"), RecallMatches::default());
    assert_eq!(
        text_of(&session, 2).unwrap(),
        ("user".into(), "the ticket is ACME-4711, the parser fails".into())
    );
    assert_eq!(text_of(&session, 3).unwrap().1, "bash\ncommand: cargo test -p parser");
    assert!(text_of(&session, 4).unwrap().1.contains("E0499"));
    assert_eq!((text_of(&session, 1), text_of(&session, 7), text_of(&session, 99)), (None, None, None));
}

#[test]
fn what_is_not_for_people_and_what_was_taken_back_is_never_found() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = create(dir.path(), false);
    let mut going_on = Message::user("zeppelin");
    going_on.metadata.compaction_continue = true;
    let ignored = Part::Text {
        text: "zeppelin".into(),
        synthetic: false,
        ignored: true,
        spill: None,
        extra: Map::new(),
    };
    put(
        &mut session,
        [
            message(going_on),
            message(Message::synthetic(Synthetic::Reminder, "zeppelin")),
            message(Message::synthetic(Synthetic::Rules, "zeppelin")),
            message(Message::assistant(vec![ignored, Part::text("plain")])),
        ],
    );
    put(&mut session, ran("r1", "recall", "zeppelin", "zeppelin"));
    let said = put(&mut session, [user("zeppelin secret")])[0];
    let output = put(&mut session, ran("c1", "bash", "ls", "zeppelin hangar"))[1];
    put(&mut session, [user("go on")]);
    let tail = session.last_seq();
    fold_away(&mut session, tail);
    assert_eq!(ids(&session, "zeppelin").len(), 2);

    put(&mut session, [EntryKind::Revert { entry: said }, EntryKind::Revert { entry: output }]);
    assert_eq!(search(&session, "zeppelin secret hangar"), RecallMatches::default());
    assert_eq!((text_of(&session, said.0), session.original_output(&"c1".into())), (None, None));
    let back = session.last_seq();
    put(&mut session, [EntryKind::Revert { entry: back }]);
    assert_eq!(ids(&session, "zeppelin"), ["c1"], "what was taken back was given again");
    assert!(session.original_output(&"c1".into()).is_some());
}

#[test]
fn stubs_and_what_was_cut_out_of_outputs_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = create(dir.path(), true);
    put(&mut session, [user("start")]);
    put(&mut session, ran("c1", "grep", "x", "needle in c1"));
    let whole =
        format!("first line\n{}the needle stands here\n{}", "hay\n".repeat(100_000), "end\n".repeat(100));
    let blob = session.put_blob(whole.as_bytes()).unwrap();
    let mut cut = ran("c2", "bash", "make", "first line\n[cut]\nend\n");
    if let EntryKind::Message { message } = &mut cut[1]
        && let Part::ToolResult { spill, .. } = &mut message.parts[0]
    {
        *spill = Some(blob);
    }
    put(&mut session, cut);
    assert_eq!(ids(&session, "needle"), ["c2"], "c1 is shown whole, of c2 the place is not");
    assert_eq!(ids(&session, "first"), Vec::<String>::new(), "the part that is shown");
    let calls = vec![PrunedCall { call_id: "c1".into(), bytes: 12, lines: 1, excerpt: String::new() }];
    put(
        &mut session,
        [EntryKind::Prune {
            calls,
            media: vec![],
            cuts: Vec::new(),
            freed_tokens: Tokens(1),
            reason: PruneReason::Manual,
        }],
    );
    assert_eq!(ids(&session, "needle"), ["c1", "c2"]);
    assert!(search(&session, "needle").places[1].snippet.contains("the needle stands here"));
}

#[test]
fn a_fork_knows_what_was_before_it_and_streamed_parts_count() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = create(dir.path(), true);
    let open = Message::assistant(vec![Part::text("first words")]);
    let id = open.id;
    let part = EntryKind::Part { message: id, part: Part::text("then the harbour") };
    put(&mut session, [message(open), part, EntryKind::Finish { message: id, reason: FinishReason::Stop }]);
    worked(&mut session);
    let tail = session.last_seq();
    fold_away(&mut session, tail);
    assert_eq!(ids(&session, "harbour"), ["m2"]);
    assert_eq!(text_of(&session, 2).unwrap().1, "first words\n\nthen the harbour");
    put(&mut session, [user("only in the source: marmalade")]);
    let tail = session.last_seq();
    fold_away(&mut session, tail);

    for persist in [true, false] {
        let options = CreateOptions { persist, ..CreateOptions::default() };
        let upto = Some(Seq(tail.0 - 1));
        let fork =
            Session::fork(session.dir(), upto, dir.path(), dir.path(), options, Policy::default(), scope());
        let fork = fork.unwrap();
        assert_eq!(ids(&fork, "harbour"), ["m2"], "persist: {persist}");
        assert_eq!(ids(&fork, "E0499"), ["c1"]);
        assert_eq!(ids(&fork, "marmalade"), Vec::<String>::new(), "what came after is not its past");
    }
}

#[test]
fn images_and_outputs_are_read_from_a_past_while_the_session_goes_on() {
    for persist in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut session = create(dir.path(), persist);
        let image = Part::Image {
            media_type: "image/png".into(),
            source: ImageSource::Base64("aW1hZ2U=".into()),
            name: None,
            width: None,
            height: None,
            extra: Map::new(),
        };
        let mut shows = Message::user("a picture");
        shows.parts.push(image.clone());
        let said = put(&mut session, [message(shows)])[0];
        let calls = Message::assistant(vec![Part::tool_call("c1", "read", json!({ "path": "a.png" }))]);
        let mut result = Message::tool_result("c1".into(), "read", "its pixels", false);
        result.parts.push(image.clone());
        let output = put(&mut session, [message(calls), message(result)])[1];
        let plain = put(&mut session, [user("no picture")])[0];

        for (id, place) in [("m2", Some(said)), ("c1", Some(output)), ("m5", Some(plain))] {
            assert_eq!(session.place_of(id), place, "{id}, persist: {persist}");
        }
        for id in ["m99", "m", "c2", "m2–m5", ""] {
            assert_eq!(session.place_of(id), None, "{id:?}, persist: {persist}");
        }
        let (pictures, output_past) = (session.history_search().unwrap(), session.history_search().unwrap());
        put(&mut session, [user("goes on"), EntryKind::Revert { entry: said }]);
        assert_eq!(pictures.images(said).unwrap(), std::slice::from_ref(&image));
        assert_eq!(session.history_search().unwrap().images(output).unwrap(), [image]);
        assert_eq!(session.history_search().unwrap().images(plain).unwrap(), []);
        assert_eq!(
            output_past.output(output, &"c1".into()).unwrap(),
            Some(("read".to_owned(), "its pixels".to_owned()))
        );
        assert_eq!(session.history_search().unwrap().output(output, &"c2".into()).unwrap(), None);
        assert_eq!(session.place_of("m2"), None, "taken back");
    }
}

#[test]
fn words_of_any_script_ids_used_twice_and_copies() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = create(dir.path(), false);
    put(&mut session, [user("die Brücke heißt ÄRMEL"), user("数据库的锁是全局的"), user("STRASSE")]);
    for round in 0..3 {
        put(
            &mut session,
            ran("call_0", "bash", &format!("round {round}"), &format!("output number {}", round / 2)),
        );
    }
    put(&mut session, [user("end")]);
    let tail = session.last_seq();
    fold_away(&mut session, tail);
    assert_eq!(ids(&session, "brücke"), ["m2"]);
    assert_eq!(ids(&session, "ärmel"), ["m2"]);
    assert_eq!(ids(&session, "数据库"), ["m3"]);
    // Each place has the id that `recall` takes, and equal places are listed once.
    let found = search(&session, "output number");
    assert_eq!((found.total, found.places.len()), (3, 2), "{found:?}");
    for place in &found.places {
        let (_, output) = session.original_output(&place.id.as_str().into()).unwrap();
        assert_eq!(output, place.snippet);
    }
}

#[test]
fn a_long_line_and_many_places_stay_within_the_cap() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = create(dir.path(), false);
    put(
        &mut session,
        ran("c1", "bash", "x", &format!("{}needle{}", "ä ".repeat(40_000), "x".repeat(40_000))),
    );
    put(&mut session, (0..6_000).map(|n| user(&format!("needle number {n}"))));
    put(&mut session, [user("end")]);
    let tail = session.last_seq();
    fold_away(&mut session, tail);
    let found = search(&session, "needle");
    assert_eq!((found.places.len(), found.total), (10, 6_001));
    assert!(found.places.iter().all(|place| place.snippet.len() <= 400));
    assert_eq!(ids(&session, "needle 37")[0], "m41", "a rare word among thousands of places");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(256)
    ))]

    /// A fact under a name of its own is the first hit once its message has left the view, and is no hit before; what
    /// `recall` gives for the hit holds it.
    #[test]
    fn what_left_the_view_is_found_first(
        kinds in proptest::collection::vec((0usize..3, 0usize..3_000), 1..30), cut in any::<prop::sample::Index>()
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut session = create(dir.path(), false);
        // Rare words stand out only if there are frequent ones.
        put(&mut session, (0..20).map(|n| user(&format!("{n}: the storage layer is old"))));
        let mut facts = Vec::new();
        for (n, (kind, noise)) in kinds.iter().enumerate() {
            let noise = "some words about the storage layer ".repeat(noise / 35);
            let text = format!("{noise}\nthe fact is named fact{n}x\n{noise}");
            let seqs = match kind {
                0 => put(&mut session, [user(&text)]),
                1 => put(&mut session, [says(&text)]),
                _ => put(&mut session, ran(&format!("c{n}"), "bash", "run", &text)),
            };
            facts.push((format!("fact{n}x"), *seqs.last().unwrap()));
        }
        let tail = facts[cut.index(facts.len())].1;
        fold_away(&mut session, tail);
        for (fact, seq) in &facts {
            let found = search(&session, &format!("the {fact} of storage"));
            let shown = session.view().live().any(|m| m.seq == *seq);
            let first = found.places.first().filter(|place| place.snippet.contains(fact.as_str()));
            prop_assert_eq!(first.is_some(), !shown, "{} {:?}", fact, found);
            if let Some(place) = first {
                prop_assert_eq!(place.seq, *seq);
                let whole = session.original_output(&place.id.as_str().into());
                let number = || place.id.strip_prefix('m')?.parse().ok().map(Seq);
                let whole = whole.or_else(|| session.history_search().unwrap().message(number()?).unwrap());
                prop_assert!(whole.unwrap().1.contains(fact.as_str()));
            }
        }
    }
}

/// The middle of an answer that is too long for its entry is found and returned, also while the view shows its ends.
#[test]
fn the_middle_of_a_long_answer_is_found_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    for persist in [true, false] {
        let mut session = create(dir.path(), persist);
        let whole =
            format!("{}the zeppelin lands here\n{}", "before\n".repeat(9_000), "after\n".repeat(9_000));
        let mut part = Part::text("before\n[cut: …]\nafter\n");
        if let Part::Text { spill, .. } = &mut part {
            *spill = Some(session.put_blob(whole.as_bytes()).unwrap());
        }
        let long = put(&mut session, [user("write"), message(Message::assistant(vec![part]))])[1];
        let places = session.history_search().unwrap().search("zeppelin", 5).unwrap();
        let [place] = &places.places[..] else { panic!("{places:?}") };
        assert_eq!((&place.id, place.seq), (&format!("m{long}"), long));
        assert!(place.snippet.contains("the zeppelin lands here"), "{}", place.snippet);
        // Texts that the view shows are not found.
        let shown = session.history_search().unwrap().search("write", 5).unwrap();
        assert!(shown.places.is_empty(), "{shown:?}");
        let (who, text) = session.history_search().unwrap().message(long).unwrap().unwrap();
        assert_eq!(who, "assistant");
        assert!(text == whole, "{} bytes of {}", text.len(), whole.len());
        if !persist {
            continue;
        }
        let mut markdown = Vec::new();
        export(session.dir(), Format::Markdown, Secrets::Keep, &mut markdown).unwrap();
        assert_eq!(
            String::from_utf8(markdown).unwrap(),
            format!("## User\n\nwrite\n\n## Assistant\n\n{}\n\n", whole.trim_end_matches('\n'))
        );
    }
}
