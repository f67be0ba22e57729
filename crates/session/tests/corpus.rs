//! A corpus of broken sessions, made from a sound one: each opens, its view is a valid request, and it takes another turn.
//!
//! The sound session is written through the real API and has everything in it: calls with results, images, reasoning with
//! signatures, a pruned output, a compaction with its continuation, a reminder, a revert. It is then broken in every way
//! that has a name, at every place; lines get fresh hashes, so that the damage reaches the view and is not stopped at the
//! door. Everything is the same in each run.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod corpus {
    mod newer;
    pub(crate) mod sound;
}

use becket_session::Session;
use becket_session::context::{Policy, validate};
use becket_session::store::ledger_path;
use becket_types::{CallId, FinishReason, Message, Part, Role, hex};
use corpus::sound::{answer, append, message, scope, sound};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// The entries of each commit.
type Commits = Vec<Vec<Value>>;

fn read(ledger: &[u8]) -> Commits {
    let line = |line: &str| serde_json::from_str::<Value>(line).unwrap()["entries"].take();
    let text = std::str::from_utf8(ledger).unwrap();
    text.lines().map(|l| serde_json::from_value(line(l)).unwrap()).collect()
}

/// Lines with hashes that are right.
fn write(commits: &Commits) -> Vec<u8> {
    let mut prev = "0".repeat(64);
    let mut out = Vec::new();
    for entries in commits {
        let body = format!(r#"{{"prev":"{prev}","entries":{}"#, serde_json::to_string(entries).unwrap());
        prev = hex(&Sha256::digest(body.as_bytes()));
        out.extend_from_slice(body.as_bytes());
        out.extend_from_slice(format!(r#","hash":"{prev}"}}"#).as_bytes());
        out.push(b'\n');
    }
    out
}

/// A broken ledger under a name; `None` as bytes: the blobs are what is broken.
struct Case {
    name: String,
    ledger: Vec<u8>,
    blobs: Blobs,
}

#[derive(Clone, Copy, PartialEq)]
enum Blobs {
    Kept,
    Gone,
    Garbage,
}

fn case(name: impl Into<String>, ledger: Vec<u8>) -> Case {
    Case { name: name.into(), ledger, blobs: Blobs::Kept }
}

/// The damage that a disk, an editor or a merge does to lines.
fn lines(whole: &[u8], out: &mut Vec<Case>) {
    let lines: Vec<&[u8]> = whole.split_inclusive(|b| *b == b'\n').collect();
    let commits = read(whole);
    for i in 0..lines.len() {
        let mut dropped = lines.clone();
        dropped.remove(i);
        out.push(case(format!("line {i} dropped"), dropped.concat()));
        let mut doubled = lines.clone();
        doubled.insert(i, lines[i]);
        out.push(case(format!("line {i} doubled"), doubled.concat()));
        let mut flipped = lines.concat();
        let at = lines[..i].concat().len() + lines[i].len() / 2;
        flipped[at] ^= 0x15;
        out.push(case(format!("a byte of line {i} flipped"), flipped));
        out.push(case(format!("ends behind line {i}"), lines[..=i].concat()));
        let torn = [&lines[..i].concat(), &lines[i][..lines[i].len() * 2 / 3]].concat();
        out.push(case(format!("torn in line {i}"), torn));
        // The same damage with right hashes: the history is wrong, though its storage is sound.
        let mut without = commits.clone();
        without.remove(i);
        out.push(case(format!("commit {i} left out"), write(&without)));
        let mut twice = commits.clone();
        twice.insert(i, commits[i].clone());
        out.push(case(format!("commit {i} twice"), write(&twice)));
        if i > 0 {
            let mut swapped = commits.clone();
            swapped.swap(i - 1, i);
            out.push(case(format!("commits {} and {i} swapped", i - 1), write(&swapped)));
        }
    }
    for (name, bytes) in [
        ("empty", Vec::new()),
        ("one newline", b"\n".to_vec()),
        ("zeros", vec![0; 4096]),
        ("no UTF-8", [whole, &[0xff, 0xfe, b'\n']].concat()),
        ("byte order mark", [b"\xef\xbb\xbf", whole].concat()),
        ("blank lines", String::from_utf8(whole.to_vec()).unwrap().replace('\n', "\n\n").into_bytes()),
        ("carriage returns", String::from_utf8(whole.to_vec()).unwrap().replace('\n', "\r\n").into_bytes()),
        ("merge marks", [b"<<<<<<< HEAD\n", whole, b"=======\n", whole, b">>>>>>> x\n"].concat()),
        ("a page of zeros at the end", [whole, &[0; 4096]].concat()),
        ("reversed", lines.iter().rev().copied().collect::<Vec<_>>().concat()),
    ] {
        out.push(case(name, bytes));
    }
}

/// Each place in a value that can be broken.
fn pointers(value: &Value, at: &str, out: &mut Vec<String>) {
    let escape = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let here = format!("{at}/{}", escape(key));
                out.push(here.clone());
                pointers(value, &here, out);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                let here = format!("{at}/{index}");
                out.push(here.clone());
                pointers(value, &here, out);
            }
        }
        _ => {}
    }
}

/// Returns a wrong value for a field.
fn wrong(n: usize) -> (&'static str, Value) {
    match n % 8 {
        0 => ("null", Value::Null),
        1 => ("blank", json!(" \n\t ")),
        2 => ("number", json!(-1)),
        3 => ("huge number", json!(u64::MAX)),
        4 => ("list", json!([[], {}, null])),
        5 => ("object", json!({"type": "unheard_of", "kind": "unheard_of"})),
        6 => ("controls", json!("\u{0}\u{1b}[2J\u{202e}</system-reminder>")),
        _ => ("true", json!(true)),
    }
}

fn remove(value: &mut Value, pointer: &str) {
    let Some((parent, key)) = pointer.rsplit_once('/') else { return };
    match value.pointer_mut(parent) {
        Some(Value::Object(map)) => {
            map.remove(&key.replace("~1", "/").replace("~0", "~"));
        }
        Some(Value::Array(items)) => {
            items.remove(key.parse().unwrap());
        }
        _ => {}
    }
}

/// Every field of every entry: left out, and with something else in it.
fn fields(commits: &Commits, out: &mut Vec<Case>) {
    let mut n = 0;
    for (i, entries) in commits.iter().enumerate() {
        for (j, entry) in entries.iter().enumerate() {
            let mut places = Vec::new();
            pointers(entry, "", &mut places);
            for place in places {
                let mut broken = commits.clone();
                remove(&mut broken[i][j], &place);
                out.push(case(format!("commit {i}.{j}: {place} left out"), write(&broken)));
                n += 1;
                let (what, value) = wrong(n);
                let mut broken = commits.clone();
                *broken[i][j].pointer_mut(&place).unwrap() = value;
                out.push(case(format!("commit {i}.{j}: {place} is {what}"), write(&broken)));
            }
        }
    }
}

/// Calls `change` with each part of each message.
fn parts(commits: &mut Commits, mut change: impl FnMut(&mut Value)) {
    for entry in commits.iter_mut().flatten() {
        if let Some(Value::Array(parts)) = entry.pointer_mut("/message/parts") {
            parts.iter_mut().for_each(&mut change);
        }
    }
}

fn is(entry: &Value, kind: &str) -> bool {
    entry["kind"] == kind
}

fn is_part(part: &Value, kind: &str) -> bool {
    part["type"] == kind
}

fn has_result(entry: &Value) -> bool {
    entry["message"]["role"] == "tool"
}

/// Damage to the history: entries are removed, moved, repeated or changed as no writer would do it, with hashes that are right.
fn meanings(commits: &Commits, out: &mut Vec<Case>) {
    let mut add = |name: &str, change: &dyn Fn(&mut Commits)| {
        let mut broken = commits.clone();
        change(&mut broken);
        assert_ne!(&broken, commits, "{name} breaks nothing");
        out.push(case(name, write(&broken)));
    };
    let keep = |commits: &mut Commits, test: &dyn Fn(&Value) -> bool| {
        for entries in commits.iter_mut() {
            entries.retain(|entry| test(entry));
        }
    };
    add("no results", &|c| keep(c, &|e| !has_result(e)));
    add("no calls", &|c| keep(c, &|e| e["message"]["role"] != "assistant"));
    add("no users", &|c| keep(c, &|e| e["message"]["role"] != "user"));
    add("only users", &|c| keep(c, &|e| !is(e, "message") || e["message"]["role"] == "user"));
    for kind in [
        "session",
        "system",
        "message",
        "finish",
        "prune",
        "compaction",
        "revert",
        "reminder",
        "model_switch",
        "tools",
        "tool_journal",
        "state",
        "title",
        "turn_end",
    ] {
        add(&format!("no {kind}"), &|c| keep(c, &|e| !is(e, kind)));
        add(&format!("every {kind} unknown"), &|c| {
            c.iter_mut().flatten().filter(|e| is(e, kind)).for_each(|e| e["kind"] = json!("from_tomorrow"));
        });
        add(&format!("every {kind} three times"), &|c| {
            for entries in c.iter_mut() {
                *entries = entries
                    .iter()
                    .flat_map(|e| std::iter::repeat_n(e.clone(), if is(e, kind) { 3 } else { 1 }))
                    .collect();
            }
        });
    }
    add("results doubled", &|c| {
        for entries in c.iter_mut() {
            *entries = entries
                .iter()
                .flat_map(|e| std::iter::repeat_n(e.clone(), if has_result(e) { 2 } else { 1 }))
                .collect();
        }
    });
    add("results before their calls", &|c| c.reverse());
    add("everything in one commit, backwards", &|c| {
        let mut all: Vec<Value> = c.concat();
        all.reverse();
        *c = vec![all];
    });
    add("one message id for all", &|c| {
        let id = c.iter().flatten().find(|e| is(e, "message")).unwrap()["message"]["id"].clone();
        c.iter_mut().flatten().filter(|e| is(e, "message")).for_each(|e| e["message"]["id"] = id.clone());
    });
    add("one call id for all", &|c| {
        parts(c, |p| {
            if p.get("call_id").is_some() {
                p["call_id"] = json!("same");
            }
        });
    });
    add("blank call ids", &|c| {
        parts(c, |p| {
            if p.get("call_id").is_some() {
                p["call_id"] = json!("");
            }
        });
    });
    for (kind, key, value) in [
        ("text", "text", json!("")),
        ("text", "text", json!(" \n ")),
        ("text", "text", json!("x".repeat(1 << 20))),
        ("reasoning", "text", json!("")),
        ("reasoning", "signature", json!("forged")),
        ("reasoning", "signature", Value::Null),
        ("reasoning", "model", json!("another")),
        ("tool_call", "input", json!("not an object")),
        ("tool_call", "input", json!([1])),
        ("tool_call", "input", Value::Null),
        ("tool_call", "name", json!("")),
        ("tool_call", "name", json!("näme with blanks")),
        ("tool_call", "invalid", json!("{\"command\": \"ma")),
        ("tool_result", "output", json!("")),
        ("tool_result", "output", json!("\u{0}\u{7}")),
        ("tool_result", "call_id", json!("of_nobody")),
        ("tool_result", "spill", json!("../../etc/passwd")),
        ("image", "source", json!({"base64": "%%%"})),
        ("image", "source", json!({"blob": "0".repeat(64)})),
        ("image", "media_type", json!("text/html")),
        ("text", "type", json!("from_tomorrow")),
        ("tool_call", "type", json!("from_tomorrow")),
        ("tool_result", "type", json!("from_tomorrow")),
    ] {
        let shown: String = value.to_string().chars().take(30).collect();
        add(&format!("{kind}.{key} = {shown}"), &|c| {
            parts(c, |p| {
                if is_part(p, kind) {
                    p[key] = value.clone();
                }
            });
        });
    }
    for role in ["system", "user", "assistant", "tool"] {
        add(&format!("every message from {role}"), &|c| {
            c.iter_mut()
                .flatten()
                .filter(|e| is(e, "message"))
                .for_each(|e| e["message"]["role"] = json!(role));
        });
    }
    add("no parts", &|c| {
        c.iter_mut().flatten().filter(|e| is(e, "message")).for_each(|e| e["message"]["parts"] = json!([]));
    });
    add("deep input", &|c| {
        let deep = (0..60).fold(json!(1), |value, _| json!([value]));
        parts(c, |p| {
            if is_part(p, "tool_call") {
                p["input"] = json!({"a": deep});
            }
        });
    });
    for seq in [json!(0), json!(1), json!(u64::MAX)] {
        add(&format!("every number is {seq}"), &|c| {
            c.iter_mut().flatten().for_each(|e| e["seq"] = seq.clone());
        });
        add(&format!("the tail begins at {seq}"), &|c| {
            c.iter_mut().flatten().filter(|e| is(e, "compaction")).for_each(|e| e["tail_from"] = seq.clone());
        });
        add(&format!("reverts {seq}"), &|c| {
            c.iter_mut().flatten().filter(|e| is(e, "revert")).for_each(|e| e["entry"] = seq.clone());
        });
    }
    let last = commits.iter().flatten().count() as u64;
    for target in 1..=last {
        let revert = json!({"seq": last + 1, "time": 1, "kind": "revert", "entry": target});
        add(&format!("{target} reverted at the end"), &|c| c.push(vec![revert.clone()]));
    }
}

/// Several kinds of damage at once.
fn mixtures(commits: &Commits, out: &mut Vec<Case>) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    for n in 0..300 {
        let mut broken = commits.clone();
        for _ in 0..2 + draw(6) {
            let i = draw(broken.len());
            match draw(5) {
                0 if broken.len() > 1 => {
                    broken.remove(i);
                }
                1 => {
                    let j = draw(broken.len());
                    broken.swap(i, j);
                }
                2 => {
                    let again = broken[i].clone();
                    broken.insert(draw(broken.len()), again);
                }
                _ => {
                    let j = draw(broken[i].len());
                    let Some(entry) = broken[i].get_mut(j) else { continue };
                    let mut places = Vec::new();
                    pointers(entry, "", &mut places);
                    let place = places.get(draw(places.len())).cloned().unwrap_or_default();
                    if draw(2) == 0 {
                        remove(entry, &place);
                    } else if let Some(field) = entry.pointer_mut(&place) {
                        *field = wrong(draw(8)).1;
                    }
                }
            }
        }
        out.push(case(format!("mixture {n}"), write(&broken)));
    }
}

fn broken(whole: &[u8]) -> Vec<Case> {
    let commits = read(whole);
    assert_eq!(write(&commits), whole, "the test writes lines as the ledger does");
    let mut out = Vec::new();
    for blobs in [Blobs::Gone, Blobs::Garbage] {
        out.push(Case { name: "blobs".into(), ledger: whole.to_vec(), blobs });
    }
    lines(whole, &mut out);
    meanings(&commits, &mut out);
    fields(&commits, &mut out);
    mixtures(&commits, &mut out);
    out
}

/// Returns the messages for the model. Fails the test if they are invalid.
fn shown(session: &mut Session) -> Vec<Message> {
    let view = session.view_mut();
    let messages: Vec<Message> = view.context().messages.iter().map(|m| Message::clone(&m.message)).collect();
    if let Err(violation) = view.check() {
        panic!("{violation}");
    }
    if let Err(violation) = validate::validate(&messages) {
        panic!("{violation}");
    }
    messages
}

/// Opens the session and runs another turn. Returns true if the damage was noticed.
fn another_turn(dir: &Path) -> bool {
    const WORDS: &str = "Is there one more turn in you?";
    let mut session = Session::open(dir, Policy::default(), scope()).unwrap();
    let before = shown(&mut session);
    let noticed = !session.take_notices().is_empty();
    append(&mut session, vec![message(Message::user(WORDS))]);
    let asked = shown(&mut session);
    let last = asked.last().unwrap();
    assert_eq!((last.role, last.text().ends_with(WORDS)), (Role::User, true), "{last:?}");
    assert!(asked.len() > before.len().saturating_sub(2), "the history is still there");
    answer(
        &mut session,
        vec![Part::tool_call("toolu_of_this_turn", "bash", json!({"command": "make"}))],
        FinishReason::ToolCalls,
    );
    append(
        &mut session,
        vec![message(Message::tool_result(CallId::from("toolu_of_this_turn"), "bash", "made", false))],
    );
    shown(&mut session);
    answer(&mut session, vec![Part::text("Yes.")], FinishReason::Stop);
    let after = shown(&mut session);
    drop(session);
    // The next process that opens the session sees the same messages.
    let mut again = Session::open(dir, Policy::default(), scope()).unwrap();
    let texts = |messages: &[Message]| messages.iter().map(|m| (m.role, m.text())).collect::<Vec<_>>();
    assert_eq!(texts(&shown(&mut again)), texts(&after));
    noticed
}

/// True if every line is authentic and follows the previous one. The same line twice in a row is one write
/// that was retried.
fn is_sound(ledger: &[u8]) -> bool {
    let mut lines: Vec<&[u8]> = ledger.split(|b| *b == b'\n').filter(|line| !line.is_empty()).collect();
    lines.dedup();
    let mut prev = "0".repeat(64);
    lines.into_iter().all(|line| {
        let Ok(commit) = serde_json::from_slice::<Value>(line) else { return false };
        let Some(body) = line.len().checked_sub(75) else { return false };
        let hash = hex(&Sha256::digest(&line[..body]));
        let follows = commit["hash"] == hash.as_str() && commit["prev"] == prev.as_str();
        prev = hash;
        follows
    })
}

/// Counts the problems that an examination of the whole session reports, like `becket doctor session`: of
/// lines, and of the view. Changes nothing.
fn explained(dir: &Path, ledger: &[u8]) -> usize {
    let mut peek = Session::peek(dir, Policy::default(), scope()).unwrap();
    let lines: Vec<String> = peek.bad.iter().map(ToString::to_string).collect();
    assert!(lines.iter().all(|line| line.starts_with("line ") && line.len() > 30), "{lines:?}");
    assert!(is_sound(ledger) || !lines.is_empty(), "damage that nobody names");
    peek.view.context();
    peek.view.check().unwrap();
    assert_eq!(fs::read(ledger_path(dir)).unwrap(), ledger, "a look changes nothing");
    lines.len() + peek.view.take_notices().len()
}

/// Asserts that no byte is lost: each is at its place in the ledger, or, at the end, in the file for an incomplete line.
fn assert_untouched(dir: &Path, ledger: &[u8]) {
    let now = fs::read(ledger_path(dir)).unwrap();
    let torn = fs::read(dir.join("ledger.torn-1")).unwrap_or_default();
    let kept = ledger.len() - torn.len();
    assert_eq!(now[..kept], ledger[..kept]);
    assert_eq!(torn, ledger[kept..]);
}

#[test]
fn every_broken_session_is_explained_and_takes_another_turn() {
    let root = tempfile::tempdir().unwrap();
    let source = sound(&root.path().join("source"));
    let whole = fs::read(ledger_path(&source)).unwrap();
    let corpus = broken(&whole);
    assert!(corpus.len() >= 300, "{}", corpus.len());
    let (mut failed, mut noticed, mut explanations) = (Vec::new(), 0, 0);
    for (n, case) in corpus.iter().enumerate() {
        let dir = root.path().join(n.to_string());
        fs::create_dir_all(dir.join("blobs")).unwrap();
        fs::write(ledger_path(&dir), &case.ledger).unwrap();
        for blob in fs::read_dir(source.join("blobs")).unwrap().map(Result::unwrap) {
            let to = dir.join("blobs").join(blob.file_name());
            match case.blobs {
                Blobs::Kept => drop(fs::hard_link(blob.path(), to)),
                Blobs::Gone => {}
                Blobs::Garbage => fs::write(to, "garbage").unwrap(),
            }
        }
        let tried = catch_unwind(AssertUnwindSafe(|| {
            let said = explained(&dir, &case.ledger);
            let told = another_turn(&dir);
            assert_untouched(&dir, &case.ledger);
            (said, told)
        }));
        match tried {
            Ok((said, told)) => {
                explanations += said;
                noticed += usize::from(told);
            }
            Err(_) => failed.push(case.name.as_str()),
        }
        fs::remove_dir_all(dir).unwrap();
    }
    assert_eq!(failed, Vec::<&str>::new(), "{} of {}", failed.len(), corpus.len());
    assert!(noticed >= 300, "only {noticed} of {} are broken in a way that shows", corpus.len());
    println!("{} broken sessions, {noticed} noticed on opening, {explanations} explanations", corpus.len());
}
