//! Conversations of subagents in the exports of the sessions that they worked for.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use becket_exchange::export::{Format, Secrets, export};
use becket_session::context::{ModelScope, Policy};
use becket_session::{CreateOptions, Durability, Session};
use becket_types::{
    CallId, Cost, EntryKind, FinishReason, Message, Millis, Part, SessionId, SubagentReport, Usage,
};
use serde_json::json;
use std::path::Path;

/// A model that takes a few images.
fn scope() -> ModelScope {
    ModelScope {
        provider: "p".into(),
        model: "m".into(),
        images: true,
        max_images: 10,
        max_media_bytes: 1 << 20,
    }
}

fn main_session(root: &Path) -> Session {
    let options = CreateOptions { version: "1.2.3".into(), persist: true, ..CreateOptions::default() };
    Session::create(root, root, options, Policy::default(), scope()).unwrap()
}

fn say(session: &mut Session, messages: Vec<Message>) {
    for message in messages {
        let id = message.id;
        let mut kinds = vec![EntryKind::Message { message }];
        if let EntryKind::Message { message } = &kinds[0]
            && message.role == becket_types::Role::Assistant
        {
            kinds.push(EntryKind::Finish { message: id, reason: FinishReason::Stop });
        }
        session.append(kinds, Durability::Buffered).unwrap();
    }
}

fn asks(call: &str) -> Message {
    Message::assistant(vec![Part::tool_call(call, "task", json!({"agent": "explore"}))])
}

fn ends(call: &str, of: SessionId, words: &str) -> Message {
    let report = SubagentReport {
        agent: "explore".into(),
        description: "find it".into(),
        session: of,
        steps: 1,
        calls: Vec::new(),
        calls_left_out: 0,
        usage: Usage::default(),
        cost: Cost(0.0),
        duration: Millis(0),
    };
    let mut message = Message::tool_result(call.into(), "task", words, false);
    if let Part::ToolResult { details, .. } = &mut message.parts[0] {
        *details = json!({ SubagentReport::KEY: report });
    }
    message
}

fn subagent(of: &Session, call: &str, words: Vec<Message>) -> Session {
    let mut session = of.for_subagent(CallId(call.into()), "explore", scope()).unwrap();
    session.append(vec![EntryKind::Title { title: "find <it>".into() }], Durability::Buffered).unwrap();
    say(&mut session, words);
    session
}

fn exported(session: &Session, format: Format) -> String {
    let mut out = Vec::new();
    export(session.dir(), format, Secrets::Mask, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Asserts that the text contains all of these words, and that their first places are in this order.
fn in_order(text: &str, words: &[&str]) {
    let places: Vec<Option<usize>> = words.iter().map(|word| text.find(word)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{words:?} {places:?}\n{text}");
}

#[test]
fn a_subagents_conversation_stands_below_its_call_and_a_nested_one_in_it() {
    let root = tempfile::tempdir().unwrap();
    let mut main = main_session(root.path());
    say(&mut main, vec![Message::user("the great task"), asks("t1")]);
    let mut first = subagent(&main, "t1", vec![Message::user("look there"), asks("t1")]);
    let key = "the key is AKIAIOSFODNN7EXAMPLE";
    let nested =
        subagent(&first, "t1", vec![Message::user("deep down"), Message::assistant(vec![Part::text(key)])]);
    say(
        &mut first,
        vec![ends("t1", nested.id(), "deep result"), Message::assistant(vec![Part::text("seen")])],
    );
    say(
        &mut main,
        vec![ends("t1", first.id(), "first result"), Message::assistant(vec![Part::text("and now")])],
    );
    // The same id again: another call, with a subagent that never ended.
    say(&mut main, vec![asks("t1")]);
    subagent(&main, "t1", vec![Message::user("never ended")]);

    let page = exported(&main, Format::Html);
    in_order(
        &page,
        &[
            "first result",
            "Subagent explore: find &lt;it&gt;",
            "look there",
            "deep down",
            "the key",
            "seen",
            "and now",
            "never ended",
        ],
    );
    assert_eq!(page.matches("<details class=\"subagent\">").count(), 3);
    assert!(page.contains("<dt>subagents</dt><dd>3, below"), "{page}");
    assert!(!page.contains("AKIA") && page.contains("1 secrets"), "masked as the rest is");
    let ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let unique: std::collections::HashSet<&&str> = ids.iter().collect();
    assert_eq!(ids.len(), unique.len(), "{ids:?}");
    assert_eq!(page.matches("<details").count(), page.matches("</details>").count());
    assert_eq!(page.matches("<article").count(), page.matches("</article>").count());

    let text = exported(&main, Format::Markdown);
    in_order(
        &text,
        &[
            "first result",
            "\n> ### Subagent explore: find <it>\n>\n> Session ",
            "\n> #### User\n>\n> look there\n",
            "\n> > ##### Subagent explore",
            "\n> > deep down\n",
            "\n> seen\n\n",
            "\nand now\n",
            "\n> never ended\n",
        ],
    );
    for format in [Format::Jsonl, Format::Whole] {
        assert!(!exported(&main, format).contains("look there"), "{format:?}");
    }
    // A subagent's own page says whom it works for, and has everything below it.
    let page = exported(&first, Format::Html);
    assert!(page.contains(&format!("session {} (subagent explore)", main.id())), "{page}");
    in_order(&page, &["look there", "deep down"]);
    // A fork's calls name the sessions of the subagents of its source.
    let options = CreateOptions { version: "1.2.3".into(), persist: true, ..CreateOptions::default() };
    let fork = Session::fork(main.dir(), None, root.path(), root.path(), options, Policy::default(), scope());
    let page = exported(&fork.unwrap(), Format::Html);
    in_order(&page, &["first result", "look there", "deep down", "and now"]);
}

#[test]
fn a_long_conversation_is_cut_and_says_so() {
    let root = tempfile::tempdir().unwrap();
    let mut main = main_session(root.path());
    let words =
        |n: usize| Message::assistant(vec![Part::text(format!("answer {n}. {}", "x".repeat(100_000)))]);
    for call in 0..12 {
        let call = format!("t{call}");
        say(&mut main, vec![asks(&call)]);
        let long = subagent(&main, &call, (0..20).map(words).collect());
        say(&mut main, vec![ends(&call, long.id(), "done")]);
    }
    for format in [Format::Html, Format::Markdown] {
        let page = exported(&main, format);
        assert!(page.len() < 9 << 20, "{}", page.len());
        assert!(page.contains("answer 9. ") && !page.contains("answer 10. "), "{format:?}");
        assert_eq!(page.matches("[… 10 more messages and parts of this subagent").count(), 8, "{format:?}");
        assert_eq!(page.matches("[… 20 more messages and parts of this subagent").count(), 4, "{format:?}");
    }
}

#[test]
fn what_is_nested_too_deeply_is_told() {
    let root = tempfile::tempdir().unwrap();
    let mut chain = vec![main_session(root.path())];
    for depth in 0..5 {
        let of = chain.last_mut().unwrap();
        say(of, vec![asks("t1")]);
        let next = subagent(of, "t1", vec![Message::user(format!("at depth {depth}"))]);
        chain.push(next);
    }
    for format in [Format::Html, Format::Markdown] {
        let page = exported(&chain[0], format);
        in_order(&page, &["at depth 2", "at depth 3", "[… 1 subagents of this subagent are not here"]);
        assert!(!page.contains("at depth 4"), "{format:?}");
        assert!(exported(&chain[4], format).contains("at depth 4"), "{format:?}");
    }
}

#[test]
fn one_whose_call_or_ledger_is_gone_is_not_lost_silently() {
    let root = tempfile::tempdir().unwrap();
    let mut main = main_session(root.path());
    say(&mut main, vec![Message::user("the great task"), asks("t1")]);
    subagent(&main, "t9", vec![Message::user("of another call")]);
    let damaged = subagent(&main, "t1", vec![Message::user("first words"), Message::user("second words")]);
    let path = damaged.dir().join("ledger.jsonl");
    drop(damaged);
    let ledger = std::fs::read_to_string(&path).unwrap().replace("second", "changed");
    std::fs::write(&path, ledger).unwrap();
    for format in [Format::Html, Format::Markdown] {
        let page = exported(&main, format);
        in_order(&page, &["first words", "unreadable record", "of another call"]);
        assert!(!page.contains("changed words"));
    }
}
