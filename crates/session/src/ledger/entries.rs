//! Parsing the entries of one line in a single pass.
//!
//! The `Deserialize` of [`Entry`] accepts any JSON object with a number and a time, and keeps unknown kinds and parts unchanged. For that,
//! serde must buffer each entry before its kind is known, which takes several times as long as parsing. Here, the kinds that make up almost
//! all of a ledger are parsed directly, in the form in which this version writes them. A line with anything else is parsed again by that
//! `Deserialize`. Both ways give the same result.
//!
//! Knows only JSON, not the order of lines.

use becket_types::{
    BlobId, CallId, Entry, EntryKind, FileChanges, FileSnapshot, FinishReason, HookRun, JournalState,
    Message, MessageId, Metadata, Millis, Origin, Part, PermissionDecision, Role, SentRequest, Seq, Usage,
};
use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer};
use serde::de::{DeserializeSeed, Error, IgnoredAny, IntoDeserializer as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;

/// The content of a line.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Entries {
    pub(super) entries: Vec<Entry>,
    /// Sequence numbers of all entries of the line, including those of the kinds in `left_out`.
    pub(super) seqs: Vec<Seq>,
}

/// Parses a JSON array of entries. `left_out`: kinds that the caller does not need; they are skipped where that is possible.
pub(super) fn read(json: &[u8], left_out: &[&str]) -> Result<Entries, serde_json::Error> {
    known(json, left_out).or_else(|_| {
        let entries: Vec<Entry> = serde_json::from_slice(json)?;
        Ok(Entries { seqs: entries.iter().map(|entry| entry.seq).collect(), entries })
    })
}

fn known(json: &[u8], left_out: &[&str]) -> Result<Entries, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let mut read = Entries::default();
    deserializer.deserialize_seq(EntryListVisitor { left_out, read: &mut read })?;
    deserializer.end()?;
    Ok(read)
}

struct EntryListVisitor<'a> {
    left_out: &'a [&'a str],
    read: &'a mut Entries,
}

impl<'de> Visitor<'de> for EntryListVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(EntrySeed { left_out: self.left_out, read: self.read })?.is_some() {}
        Ok(())
    }
}

/// Deserialises one entry; `None` for a kind in `left_out`.
struct EntrySeed<'a> {
    left_out: &'a [&'a str],
    read: &'a mut Entries,
}

impl<'de> DeserializeSeed<'de> for EntrySeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EntrySeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an entry of a known kind")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let seq: Seq = value_of("seq", &mut map)?;
        let time: Millis = value_of("time", &mut map)?;
        let Word(kind) = value_of("kind", &mut map)?;
        if self.left_out.contains(&kind.as_ref()) {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        } else {
            let kind = kind_of(&kind, map)?;
            self.read.entries.push(Entry { seq, time, kind });
        }
        self.read.seqs.push(seq);
        Ok(())
    }
}

/// Reads the value of the next key, which must be this one.
fn value_of<'de, T: Deserialize<'de>, A: MapAccess<'de>>(key: &str, map: &mut A) -> Result<T, A::Error> {
    match map.next_key::<Word<'de>>()? {
        Some(Word(next)) if next == key => map.next_value(),
        _ => Err(unusual()),
    }
}

/// A key or a name, borrowed from the JSON if it has no escapes.
#[derive(Deserialize)]
struct Word<'a>(#[serde(borrow)] Cow<'a, str>);

fn unusual<E: Error>() -> E {
    E::custom("not as this version writes it")
}

fn kind_of<'de, A: MapAccess<'de>>(kind: &str, rest: A) -> Result<EntryKind, A::Error> {
    let rest = MapAccessDeserializer::new(RemainingFields { map: rest, read: &["seq", "time", "kind"] });
    Ok(match kind {
        "message" => {
            let OfMessage { message } = OfMessage::deserialize(rest)?;
            let MessageFields { id, seq, role, origin, parts, metadata, extra } = message;
            EntryKind::Message { message: Message { id, seq, role, origin, parts: parts.0, metadata, extra } }
        }
        "part" => {
            let OfPart { message, part } = OfPart::deserialize(rest)?;
            EntryKind::Part { message, part: part.0 }
        }
        "finish" => {
            let OfFinish { message, reason } = OfFinish::deserialize(rest)?;
            EntryKind::Finish { message, reason }
        }
        "usage" => {
            let OfUsage { message, model, usage, cost_usd, purpose } = OfUsage::deserialize(rest)?;
            EntryKind::Usage { message, model, usage, cost_usd, purpose }
        }
        "tool_journal" => {
            let OfCall { call_id, state, tool, subject, result } = OfCall::deserialize(rest)?;
            EntryKind::ToolJournal { call_id, state, tool, subject, result }
        }
        "permission" => EntryKind::Permission(Box::new(PermissionDecision::deserialize(rest)?)),
        "hook" => EntryKind::Hook(Box::new(HookRun::deserialize(rest)?)),
        "request" => EntryKind::Request(Box::new(SentRequest::deserialize(rest)?)),
        "file_snapshot" => EntryKind::FileSnapshot(Box::new(FileSnapshot::deserialize(rest)?)),
        "file_changes" => EntryKind::FileChanges(Box::new(FileChanges::deserialize(rest)?)),
        _ => return Err(unusual()),
    })
}

/// The rest of a map after some keys were read. If one of these keys appears again, that is an error, as in the general parser.
struct RemainingFields<A> {
    map: A,
    read: &'static [&'static str],
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for RemainingFields<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let Some(Word(key)) = self.map.next_key()? else { return Ok(None) };
        if self.read.contains(&key.as_ref()) {
            return Err(unusual());
        }
        match key {
            Cow::Borrowed(key) => seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some),
            Cow::Owned(key) => seed.deserialize(key.into_deserializer()).map(Some),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

#[derive(Deserialize)]
struct OfMessage {
    message: MessageFields,
}

/// A message as the direct parser reads it: the same fields as [`Message`].
#[derive(Deserialize)]
struct MessageFields {
    id: MessageId,
    #[serde(default)]
    seq: Seq,
    role: Role,
    origin: Origin,
    parts: Parts,
    #[serde(default)]
    metadata: Metadata,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

#[derive(Deserialize)]
struct OfPart {
    message: MessageId,
    part: KnownPart,
}

#[derive(Deserialize)]
struct OfFinish {
    message: MessageId,
    reason: FinishReason,
}

#[derive(Deserialize)]
struct OfUsage {
    #[serde(default)]
    message: Option<MessageId>,
    model: String,
    usage: Usage,
    cost_usd: f64,
    purpose: String,
}

#[derive(Deserialize)]
struct OfCall {
    call_id: CallId,
    state: JournalState,
    #[serde(default)]
    tool: Option<String>,
    #[serde(default)]
    subject: Option<String>,
    #[serde(default)]
    result: Value,
}

struct Parts(Vec<Part>);

impl<'de> Deserialize<'de> for Parts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Parts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("parts")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Parts, A::Error> {
                let mut parts = Vec::new();
                while let Some(KnownPart(part)) = list.next_element()? {
                    parts.push(part);
                }
                Ok(Parts(parts))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

/// A part of one of the usual types.
struct KnownPart(Part);

impl<'de> Deserialize<'de> for KnownPart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Typed;
        impl<'de> Visitor<'de> for Typed {
            type Value = KnownPart;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a part of a usual type")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<KnownPart, A::Error> {
                let Word(of) = value_of("type", &mut map)?;
                part_of(&of, map).map(KnownPart)
            }
        }
        deserializer.deserialize_map(Typed)
    }
}

fn part_of<'de, A: MapAccess<'de>>(of: &str, rest: A) -> Result<Part, A::Error> {
    let rest = MapAccessDeserializer::new(RemainingFields { map: rest, read: &["type"] });
    Ok(match of {
        "text" => {
            let TextFields { text, synthetic, ignored, spill, extra } = TextFields::deserialize(rest)?;
            Part::Text { text, synthetic, ignored, spill, extra }
        }
        "tool_call" => {
            let CallFields { call_id, name, input, invalid, extra } = CallFields::deserialize(rest)?;
            Part::ToolCall { call_id, name, input, invalid, extra }
        }
        "tool_result" => {
            let ResultFields { call_id, name, output, is_error, interrupted, details, spill, extra } =
                ResultFields::deserialize(rest)?;
            Part::ToolResult { call_id, name, output, is_error, interrupted, details, spill, extra }
        }
        _ => return Err(unusual()),
    })
}

#[derive(Deserialize)]
struct TextFields {
    text: String,
    #[serde(default)]
    synthetic: bool,
    #[serde(default)]
    ignored: bool,
    #[serde(default)]
    spill: Option<BlobId>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

#[derive(Deserialize)]
struct CallFields {
    call_id: CallId,
    name: String,
    input: Value,
    #[serde(default)]
    invalid: Option<String>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

#[derive(Deserialize)]
struct ResultFields {
    call_id: CallId,
    name: String,
    output: String,
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    interrupted: bool,
    #[serde(default)]
    details: Value,
    #[serde(default)]
    spill: Option<BlobId>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

    /// Returns one line of JSON with entries of every kind that is parsed directly.
    fn usual() -> String {
        [
            r#"{"seq":1,"time":2,"kind":"message","message":{"id":"ID","seq":1,"role":"user","origin":"user","parts":[{"type":"text","text":"a\n\"b\" \u00e4"}]}}"#,
            r#"{"seq":2,"time":2,"kind":"message","message":{"id":"ID","role":"user","origin":{"synthetic":"rules"},"parts":[{"type":"text","text":"r","synthetic":true,"x":[1,{"y":null}]}],"metadata":{"compaction_continue":true,"rules_path":"/a"},"later":1.5}}"#,
            r#"{"seq":3,"time":2,"kind":"message","message":{"id":"ID","role":"assistant","origin":"model","parts":[{"type":"text","text":""},{"type":"tool_call","call_id":"c","name":"bash","input":{"b":1,"a":[18446744073709551615,-3,0.1]},"k":"v"}]}}"#,
            r#"{"seq":4,"time":2,"kind":"part","message":"ID","part":{"type":"tool_call","call_id":"d","name":"x","input":{},"invalid":"{"}}"#,
            r#"{"seq":5,"time":2,"kind":"finish","message":"ID","reason":"tool_calls"}"#,
            r#"{"seq":6,"time":2,"kind":"finish","message":"ID","reason":{"other":"tired"}}"#,
            r#"{"seq":7,"time":2,"kind":"usage","message":"ID","model":"p/m","usage":{"input":1,"output":2},"cost_usd":0,"purpose":"turn"}"#,
            r#"{"seq":8,"time":2,"kind":"usage","model":"p/m","usage":{},"cost_usd":0.25,"purpose":"summary"}"#,
            r#"{"seq":9,"time":2,"kind":"tool_journal","call_id":"c","state":"finished","tool":"bash","subject":"ls","result":{"exit_code":0}}"#,
            r#"{"seq":10,"time":2,"kind":"message","message":{"id":"ID","role":"tool","origin":"tool","parts":[{"type":"tool_result","call_id":"c","name":"bash","output":"out","is_error":true,"details":{"exit_code":1},"spill":"ab"}],"metadata":{"tool_name":"bash","time":{"created":5}}}}"#,
            r#"{"seq":11,"time":2,"kind":"request","model":"p/m","purpose":"turn","max_output":9,"effort":"low","no_calls":true,"prompt":"ab","bytes":3,"sha256":"00"}"#,
            r#"{"seq":12,"time":2,"kind":"file_snapshot","call_id":"c","files":[{"path":"/a","node":{"type":"file","mode":420,"size":1,"sha256":"aa","stamp":[1,2,3]}}],"git":true}"#,
            r#"{"seq":13,"time":2,"kind":"file_changes","cause":{"call":"c"},"files":[{"path":{"bytes":"2f74ff"},"before":{"type":"file","mode":420,"size":1,"sha256":"aa","stamp":[1,2,3]}}],"manifest":"ab"}"#,
            r#"{"seq":14,"time":2,"kind":"permission","call":"c","decision":"deny","by":"rule","rule":"Bash(rm *)","reason":"no"}"#,
        ]
        .join(",")
        .replace("ID", ID)
    }

    fn whole(json: &str) -> Result<Vec<Entry>, ()> {
        serde_json::from_str(json).map_err(|_| ())
    }

    #[test]
    fn the_usual_is_read_in_one_pass_and_is_the_same() {
        let json = format!("[{}]", usual());
        let read = known(json.as_bytes(), &[]).unwrap();
        assert_eq!(read.entries, whole(&json).unwrap());
        assert_eq!(read.seqs, (1..=14).map(Seq).collect::<Vec<_>>());
        assert!(!read.entries.iter().any(|entry| matches!(entry.kind, EntryKind::Unknown(_))));
    }

    #[test]
    fn what_is_left_out_keeps_its_place() {
        let json = format!("[{}]", usual());
        let read = read(json.as_bytes(), &["message", "tool_journal"]).unwrap();
        assert_eq!(read.seqs.len(), 14);
        assert_eq!(read.entries.iter().map(|e| e.seq.0).collect::<Vec<_>>(), [4, 5, 6, 7, 8, 11, 12, 13, 14]);
    }

    #[test]
    fn the_unusual_is_read_as_entries_say() {
        let unusual = [
            "[]",
            " [ ] ",
            "[] x",
            "{}",
            "[1]",
            "[[1,2,3]]",
            "[{}]",
            r#"[{"seq":1,"time":2,"kind":"interrupt"}]"#,
            r#"[{"seq":1,"time":2}]"#,
            r#"[{"time":2,"seq":1,"kind":"interrupt"}]"#,
            r#"[{"seq":-1,"time":2,"kind":"interrupt"}]"#,
            r#"[{"seq":1,"time":2,"kind":"teleport","where":[1]}]"#,
            r#"[{"seq":1,"time":2,"kind":7}]"#,
            r#"[{"seq":1,"time":2,"kind":"finish","message":"no id","reason":"stop"}]"#,
            r#"[{"seq":1,"time":2,"kind":"message","message":{"parts":[]}}]"#,
            r#"[{"seq":1,"seq":2,"time":2,"kind":"interrupt"}]"#,
        ];
        for json in unusual {
            assert_eq!(
                read(json.as_bytes(), &[]).map(|read| read.entries).map_err(|_| ()),
                whole(json),
                "{json}"
            );
        }
        let of_another_time = usual().replace(r#""type":"tool_call""#, r#""type":"hologram""#);
        let json = format!("[{of_another_time}]");
        let entries = read(json.as_bytes(), &[]).unwrap().entries;
        assert_eq!(entries, whole(&json).unwrap());
        assert!(matches!(&entries[3].kind, EntryKind::Part { part: Part::Unknown(_), .. }));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 2_000 }))]

        /// For any change to the text of entries, the single pass gives the same result as the general
        /// parser.
        #[test]
        fn reading_in_one_pass_gives_nothing_else(
            at in any::<prop::sample::Index>(),
            length in 0usize..40,
            with in prop::sample::select(vec![
                "", "null", "1", "1e999", "\"\"", "[]", "{}", ",", "\\ud800", "\u{e4}", "\"seq\":1,", "\"time\":1,",
                "\"kind\":\"finish\",", "\"type\":\"text\",", "\"text\":\"x\",", "\"message\":{},", "\"x\":1,",
                "},{", "\"result\":null,", "\"spill\":null,", "\"parts\":[],",
            ]),
            whole_key in any::<bool>(),
        ) {
            let json = format!("[{}]", usual());
            let mut from = at.index(json.len());
            // A change at the start of a key usually leaves valid JSON.
            if whole_key {
                from = json[..from].rfind([',', '{']).map_or(0, |at| at + 1);
            }
            let to = if whole_key && length % 2 == 0 { from } else { (from + length).min(json.len()) };
            prop_assume!(json.is_char_boundary(from) && json.is_char_boundary(to));
            let changed = format!("{}{with}{}", &json[..from], &json[to..]);
            if let Ok(read) = known(changed.as_bytes(), &[]) {
                prop_assert_eq!(Ok(read.entries), whole(&changed), "{}", changed);
            }
        }
    }
}
