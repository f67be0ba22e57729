//! Streams with random arguments of calls, some of them damaged: no call has an input other than the one that was sent, and
//! no history that follows from them is refused by the view.
//!
//! `BECKET_STREAMS=1000000 cargo test -p becket-agent --test argument_streams -- --nocapture` decodes a million of them;
//! `BECKET_SEED` gives others.
#![expect(clippy::unwrap_used, reason = "a test that says what it did")]

use becket_model::fuzzing;
use becket_session::context::{ModelScope, Policy};
use becket_session::{CreateOptions, Durability, Session};
use becket_testkit::{Answer, Reply, Wire};
use becket_types::{CallId, EntryKind, FinishReason, Message, Part};
use serde_json::{Map, Value, json};

/// Number of streams in a usual run of the tests.
const USUAL: u64 = 2_000;
/// Number of streams whose calls are appended to the same session.
const SESSION: u64 = 200;

fn variable(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn text(&mut self) -> String {
        const PIECES: [&str; 14] = [
            "a",
            "path/",
            "\"",
            "\\",
            "\n",
            "{",
            "}",
            "[",
            "é",
            "漢",
            "🎉",
            "\u{0}",
            "</tool_call>",
            "\u{2028}",
        ];
        let length = self.below(12);
        (0..length).map(|_| PIECES[self.below(PIECES.len())]).collect()
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 5 } else { 7 }) {
            0 => Value::Null,
            1 => json!(self.below(2) == 0),
            2 => json!(self.next() as i64 >> self.below(60)),
            3 | 4 => Value::String(self.text()),
            5 => (0..self.below(4)).map(|_| self.value(depth - 1)).collect(),
            _ => self.object(depth - 1),
        }
    }

    fn object(&mut self, depth: usize) -> Value {
        let fields = self.below(5);
        let object: Map<String, Value> =
            (0..fields).map(|n| (format!("{n}{}", self.text()), self.value(depth))).collect();
        Value::Object(object)
    }

    /// Arguments as a server might send them, most of them whole.
    fn arguments(&mut self) -> String {
        let whole = self.object(3).to_string();
        match self.below(20) {
            0..3 => {
                let at = self.below(whole.len());
                whole[..whole.floor_char_boundary(at)].to_owned()
            }
            3 => whole + ["x", "}", ",", "\"", "]"][self.below(5)],
            4 => self.value(0).to_string(),
            5 => format!("[{whole}]"),
            6 => String::new(),
            7 => format!(" {whole}\n"),
            _ => whole,
        }
    }
}

/// The body of an answer with one call, perhaps with events that mean nothing between its own. Cut streams are tested by
/// `streams.rs` in `becket-model`, because only the client knows that their end is missing.
fn body(dice: &mut Dice, wire: Wire, arguments: &str) -> Vec<u8> {
    let mut answer = Answer::new();
    if dice.below(2) == 0 {
        answer = answer.and_text(format!("I look. {}", dice.text()));
    }
    let answer = answer.and_raw_tool("c1", "read", arguments).deltas(dice.below(9));
    let body = Reply::from(answer).body_bytes(wire).to_vec();
    match dice.below(10) {
        0..3 => {
            let text = String::from_utf8(body).unwrap();
            let noise = [": ping\n\n", "event: ping\ndata: {\"type\":\"ping\"}\n\n", "\n\n"][dice.below(3)];
            let at = text.match_indices("\n\n").nth(dice.below(6)).map_or(0, |(at, _)| at + 2);
            (text[..at].to_owned() + noise + &text[at..]).into_bytes()
        }
        _ => body,
    }
}

/// The calls of a decoded stream, each as the text by which the decoder describes it.
fn calls(decoded: &str) -> Vec<&str> {
    let starts: Vec<usize> = decoded.match_indices("\"call read ").map(|(at, _)| at).collect();
    starts.iter().map(|at| &decoded[*at..]).collect()
}

fn session() -> (tempfile::TempDir, Session) {
    let dir = tempfile::tempdir().unwrap();
    let scope = ModelScope {
        provider: "p".into(),
        model: "m".into(),
        images: true,
        max_images: 20,
        max_media_bytes: 20 << 20,
    };
    let session = Session::create(dir.path(), dir.path(), CreateOptions::default(), Policy::default(), scope);
    (dir, session.unwrap())
}

fn keep(session: &mut Session, number: u64, input: Option<&Value>, raw: &str) {
    let mut call = Part::tool_call(format!("c{number}"), "read", input.cloned().unwrap_or(json!({})));
    if let (None, Part::ToolCall { invalid, .. }) = (input, &mut call) {
        *invalid = Some(raw.to_owned());
    }
    let message = Message::assistant(vec![call]);
    let finish = EntryKind::Finish { message: message.id, reason: FinishReason::ToolCalls };
    let id = CallId(format!("c{number}"));
    let result = Message::tool_result(id, "read", "the result", input.is_none());
    let entries = vec![EntryKind::Message { message }, finish, EntryKind::Message { message: result }];
    session.append(entries, Durability::Buffered).unwrap();
}

#[test]
fn no_damaged_arguments_run_and_no_session_is_lost() {
    let (count, seed) = (variable("BECKET_STREAMS", USUAL), variable("BECKET_SEED", 1));
    let (mut whole, mut refused, mut none) = (0u64, 0u64, 0u64);
    let (mut _dir, mut session) = self::session();
    for number in 0..count {
        let mut dice = Dice(seed.wrapping_mul(0x1_0000_0001).wrapping_add(number));
        let wire = [Wire::Chat, Wire::Anthropic, Wire::Responses][(number % 3) as usize];
        let arguments = dice.arguments();
        let body = body(&mut dice, wire, &arguments);
        let piece = 1 + dice.below(300);
        let chunks: Vec<&[u8]> = body.chunks(piece).collect();
        let decode = |in_full| match wire {
            Wire::Chat => fuzzing::chat(&chunks, in_full),
            Wire::Responses => fuzzing::responses(&chunks),
            _ => fuzzing::anthropic(&chunks, in_full),
        };
        let decoded = decode(false);
        if number % 16 == 0 {
            assert_eq!(decoded, decode(true), "stream {number}: the short way and the full one differ");
        }
        let meant = match arguments.trim() {
            // Servers write an empty text or `null` for a call without arguments.
            "" | "null" => Some(json!({})),
            // Some servers encode the object twice.
            text => serde_json::from_str::<Value>(text).ok().and_then(|value| match value {
                Value::String(inner) => serde_json::from_str::<Value>(&inner).ok().filter(Value::is_object),
                other => Some(other).filter(Value::is_object),
            }),
        };
        let found = calls(&decoded);
        assert!(found.len() <= 1, "stream {number}: one call was sent: {decoded}");
        let Some(call) = found.first() else {
            none += 1;
            continue;
        };
        let runs = meant.as_ref().map(|input| format!("{:?}", format!("call read {input} None")));
        if runs.as_ref().is_some_and(|runs| call.starts_with(runs)) {
            whole += 1;
            keep(&mut session, number, meant.as_ref(), &arguments);
        } else {
            let refuses = call.contains(" Some(");
            assert!(refuses, "stream {number} (seed {seed}): {arguments:?} would run as {call}");
            refused += 1;
            keep(&mut session, number, None, &arguments);
        }
        if number % 20 == 0 {
            session.view_mut().context();
            assert!(session.view_mut().check().is_ok(), "stream {number}: the history breaks a rule");
        }
        if number % SESSION == SESSION - 1 {
            (_dir, session) = self::session();
        }
    }
    println!(
        "{count} streams: {whole} calls as sent, {refused} refused, {none} without a whole call; 0 wrong, 0 sessions lost"
    );
    assert!(whole > count / 4 && refused > 0);
}

/// Arguments at the borders of what a decoder takes. Each comes out as it was sent, or is refused.
#[test]
fn large_deep_and_marked_arguments_run_as_they_are_or_not_at_all() {
    let long = json!({"content": "one line of a file\n".repeat(1 << 20 >> 4)}).to_string();
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let marked = format!("\u{feff}{}", json!({"a": 1}));
    for (arguments, may_run) in [(long, true), (deep, false), (marked, true), ("{}{}".to_owned(), false)] {
        // A megabyte takes a while without optimisation, so one format must do for it.
        let wires = [Wire::Chat, Wire::Anthropic, Wire::Responses];
        let wires = if arguments.len() > 1 << 19 { &wires[..1] } else { &wires[..] };
        for wire in wires.iter().copied() {
            let answer = Answer::new().and_raw_tool("c1", "read", &arguments).deltas(7);
            let body = Reply::from(answer).body_bytes(wire).to_vec();
            let chunks: Vec<&[u8]> = body.chunks(4096).collect();
            let decoded = match wire {
                Wire::Chat => fuzzing::chat(&chunks, false),
                Wire::Responses => fuzzing::responses(&chunks),
                _ => fuzzing::anthropic(&chunks, false),
            };
            let found = calls(&decoded);
            assert_eq!(found.len(), 1, "{wire:?}");
            let text = arguments.trim_start_matches('\u{feff}');
            let meant = serde_json::from_str::<Value>(text).ok().filter(|_| may_run);
            let as_sent = meant.is_some_and(|input| {
                found[0].starts_with(&format!("{:?}", format!("call read {input} None")))
            });
            assert!(
                as_sent || found[0].contains(" Some("),
                "{wire:?}: {}",
                &found[0][..found[0].len().min(200)]
            );
        }
    }
}
