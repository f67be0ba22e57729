//! Characters that nobody can see, in the exports of a session: written out in those for people, escaped in those for programs.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use becket_exchange::export::{Format, Secrets, export};
use becket_session::context::{ModelScope, Policy};
use becket_session::{CreateOptions, Durability, Session};
use becket_types::invisible::show_hidden;
use becket_types::{EntryKind, FinishReason, ImageSource, Message, Part, is_blank};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// A session with this text wherever a person, a model or a tool can put one. Returns its folder.
fn session(root: &Path, text: &str) -> PathBuf {
    let scope = ModelScope {
        provider: "p".into(),
        model: "m".into(),
        images: true,
        max_images: 10,
        max_media_bytes: 1 << 20,
    };
    let options = CreateOptions { version: "1.2.3".into(), persist: true, ..CreateOptions::default() };
    let mut session = Session::create(root, root, options, Policy::default(), scope).unwrap();
    let image = Part::Image {
        media_type: format!("image/{text}"),
        source: ImageSource::Url(format!("https://a.example/{text}")),
        name: Some(text.to_owned()),
        width: None,
        height: None,
        extra: Map::new(),
    };
    let call = Part::tool_call(
        format!("c{text}"),
        format!("x{text}"),
        json!({ "command": text, text: [{ text: 1 }] }),
    );
    let answer = Message::assistant(vec![Part::text(format!("an answer {text}")), call, image]);
    let id = answer.id;
    let compaction: EntryKind = serde_json::from_value(json!({
        "kind": "compaction", "summary": text, "tail_from": 2, "tokens_before": 9, "tokens_after": 1,
        "trigger": "manual", "model": text, "source": "model", "snapshot_of": 2, "turn_state": "awaiting_user",
    }))
    .unwrap();
    let kinds = vec![
        EntryKind::Title { title: format!("t{text}") },
        EntryKind::Message { message: Message::user(format!("a prompt {text}")) },
        EntryKind::Message { message: answer },
        EntryKind::Finish { message: id, reason: FinishReason::Stop },
        EntryKind::Message {
            message: Message::tool_result(
                format!("c{text}").as_str().into(),
                format!("x{text}"),
                format!("an output {text}"),
                true,
            ),
        },
        compaction,
        EntryKind::Notice { text: format!("a notice {text}"), extra: Map::new() },
    ];
    for kind in kinds {
        session.append(vec![kind], Durability::Buffered).unwrap();
    }
    assert!(session.flush());
    session.dir().to_owned()
}

fn exported(dir: &Path, format: Format, secrets: Secrets) -> String {
    let mut out = Vec::new();
    export(dir, format, secrets, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// True if nothing in the text is hidden.
fn is_shown(text: &str) -> bool {
    matches!(show_hidden(text, |c| matches!(c, '\u{2028}' | '\u{2029}'), |_, _| ()), Cow::Borrowed(_))
}

const FORMATS: [Format; 4] = [Format::Html, Format::Markdown, Format::Jsonl, Format::Whole];

/// Every character that [`is_blank`] takes for invisible, each after a letter that does not combine with it. White space has
/// a width, and so has the empty pattern of Braille.
#[test]
fn no_invisible_character_leaves_an_export_as_it_is() {
    // All characters up to plane 13, and every 61st of plane 14 and later ones, which hold only invisible characters.
    let invisible = (char::MIN..='\u{DFFFF}')
        .chain(('\u{E0000}'..=char::MAX).step_by(61))
        .filter(|c| is_blank(c.encode_utf8(&mut [0; 4])) && !c.is_whitespace() && *c != '\u{2800}');
    let all: Vec<char> = invisible.chain(['\u{2028}', '\u{2029}', '\u{FFF9}', '\u{FFFB}']).collect();
    assert!(all.contains(&'\u{202E}') && all.contains(&'\u{200B}') && all.contains(&'\u{E003D}'));
    let text: String = all.iter().flat_map(|c| ['x', *c, ';']).collect();
    let root = tempfile::tempdir().unwrap();
    let dir = session(root.path(), &text);
    for format in FORMATS {
        let out = exported(&dir, format, Secrets::Mask);
        let raw: Vec<&char> = all.iter().filter(|c| out.contains(**c)).collect();
        assert!(raw.is_empty(), "{format:?}: {raw:?}");
        let shown = match format {
            Format::Html => "a prompt x⟨U+0000⟩;",
            Format::Markdown => "a prompt x\\u{0};",
            Format::Jsonl | Format::Whole => "a prompt x\\u0000;",
        };
        assert!(out.contains(shown), "{format:?}: {shown}");
    }
    assert!(exported(&dir, Format::Html, Secrets::Mask).contains("x⟨U+202E⟩;"));
}

#[test]
fn real_writing_stays_as_it_is() {
    let text = "👩\u{200D}💻 ❤\u{FE0F} می\u{200C}خواهم Donau\u{AD}dampf 葛\u{E0100}";
    let root = tempfile::tempdir().unwrap();
    let dir = session(root.path(), text);
    for format in FORMATS {
        assert!(exported(&dir, format, Secrets::Mask).contains(text), "{format:?}");
    }
    let kept = exported(&dir, Format::Jsonl, Secrets::Keep);
    assert_eq!(
        exported(&dir, Format::Jsonl, Secrets::Mask),
        kept,
        "a ledger without hidden characters is copied"
    );
}

/// The entries of an export in JSON lines.
fn entries(lines: &str) -> Vec<Value> {
    let line = |line: &str| serde_json::from_str::<Value>(line).unwrap()["entries"].clone();
    lines.lines().map(line).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn exports_hide_nothing_and_lines_mean_the_same(
        text in "[a1é <&\"\\\\\u{7f}\u{85}\u{ad}\u{200b}-\u{200f}\u{2028}-\u{202e}\u{2060}-\u{206f}\u{fe00}-\u{fe0f}\u{feff}\u{e0041}\u{e0100}😀👩कا中]{0,24}"
    ) {
        let root = tempfile::tempdir().unwrap();
        let dir = session(root.path(), &text);
        for format in FORMATS {
            let out = exported(&dir, format, Secrets::Mask);
            prop_assert!(is_shown(&out), "{format:?}: {out:?}");
        }
        let (kept, safe) = (exported(&dir, Format::Jsonl, Secrets::Keep), exported(&dir, Format::Jsonl, Secrets::Mask));
        prop_assert_eq!(entries(&kept), entries(&safe));
    }
}
