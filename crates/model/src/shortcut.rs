//! A fast path for events that differ from an earlier event only in their text.
//!
//! Most deltas of an answer have the same bytes around their text. One of them is decoded in full, and its surroundings are
//! kept. An event with the same surroundings then costs a comparison and a copy. All other events go to the full decoder.
//!
//! Why the result is the same: surroundings are kept only if the full decoder, on a blank answer, turns them into exactly one
//! delta with the inserted text, for two different texts. So the bytes before the text end inside a JSON string, that string
//! is the text, and nothing else in the event has an effect. A JSON parser has no other state at that point, so another
//! string in the same place changes only the text. Events with empty text go to the full decoder.

use crate::ModelError;
use crate::assemble::{AnswerOf, Assembler, Delta};
use crate::decoder::Decoder;
use std::borrow::Cow;

/// Fields that hold an answer's text or reasoning, on any wire.
const FIELDS: [&str; 5] = ["content", "text", "reasoning_content", "reasoning", "thinking"];
/// The field with a meaningless string of random length, by which OpenAI hides the length of a delta.
const PADDING: &str = "obfuscation";
/// `TRIES`: number of events whose surroundings are looked for although none has matched yet. `HITS_A_TRY`: number of
/// matches that allow one more try.
const TRIES: u32 = 8;
const HITS_A_TRY: u32 = 256;

/// A decoder with the fast path in front of it.
pub(crate) struct Shortcut<D> {
    decoder: D,
    new: fn(AnswerOf) -> D,
    known: Option<DeltaFrame>,
    tries: u32,
    hits: u32,
}

impl<D: Decoder> Shortcut<D> {
    pub(crate) fn new(new: fn(AnswerOf) -> D, answer: AnswerOf) -> Self {
        Self { decoder: new(answer), new, known: None, tries: 0, hits: 0 }
    }

    fn learn(&mut self, name: &str, data: &str) {
        if self.tries >= TRIES.saturating_add(self.hits / HITS_A_TRY) {
            return;
        }
        self.tries += 1;
        let decode = |data: &str| {
            let mut blank = (self.new)(AnswerOf::default());
            blank.event(name, data).ok()?;
            let only = !blank.ended() && blank.is_blank();
            blank.assembler().only_delta().filter(|_| only)
        };
        let found = FIELDS.iter().find_map(|field| DeltaFrame::find(name, data, field, &decode));
        if found.is_some() {
            self.known = found;
        }
    }
}

impl<D: Decoder> Decoder for Shortcut<D> {
    fn event(&mut self, name: &str, data: &str) -> Result<(), ModelError> {
        if let Some(known) = &self.known
            && let Some(text) = known.text(name, data)
        {
            self.hits = self.hits.saturating_add(1);
            let assembler = self.decoder.assembler();
            match known.kind {
                Kind::Text => assembler.text(&text),
                Kind::Reasoning => assembler.reasoning(&text),
            }
            return Ok(());
        }
        self.decoder.event(name, data)?;
        self.learn(name, data);
        Ok(())
    }

    fn document(&mut self, json: &str) -> Result<(), ModelError> {
        self.decoder.document(json)
    }

    fn ended(&self) -> bool {
        self.decoder.ended()
    }

    fn kind(&self) -> crate::kind::Kind {
        self.decoder.kind()
    }

    fn is_blank(&self) -> bool {
        self.decoder.is_blank()
    }

    fn assembler(&mut self) -> &mut Assembler {
        self.decoder.assembler()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Reasoning,
}

/// The bytes around the text of an event.
#[derive(Debug)]
struct DeltaFrame {
    name: String,
    kind: Kind,
    /// The bytes up to and with the quote that opens the text.
    before: String,
    /// The bytes from the quote that closes the text to the end, or to the quote that opens the padding.
    after: String,
    /// The bytes from the quote that closes the padding.
    end: Option<String>,
}

impl DeltaFrame {
    /// Returns the bytes around the string in `field`, if that string is the only thing in the event that affects `decode`.
    fn find(name: &str, data: &str, field: &str, decode: &impl Fn(&str) -> Option<Delta>) -> Option<Self> {
        let open = opening(data, field)?;
        let (before, rest) = data.split_at(open);
        let rest = &rest[closing(rest)?..];
        let (after, end) = match opening(rest, PADDING) {
            Some(open) => {
                let (after, padded) = rest.split_at(open);
                (after, Some(padded[closing(padded)?..].to_owned()))
            }
            None => (rest, None),
        };
        let mut found = Self {
            name: name.to_owned(),
            kind: Kind::Text,
            before: before.to_owned(),
            after: after.to_owned(),
            end,
        };
        let decoded = |text: &str, padding: &str| match decode(&found.around(text, padding))? {
            Delta::Text(got) => (got == text).then_some(Kind::Text),
            Delta::Reasoning(got) => (got == text).then_some(Kind::Reasoning),
        };
        let kind = decoded("one text", "x")?;
        let same = decoded("another", "yz")? == kind;
        found.kind = kind;
        same.then_some(found)
    }

    fn around(&self, text: &str, padding: &str) -> String {
        match &self.end {
            Some(end) => [&self.before, text, &self.after, padding, end].concat(),
            None => [&self.before, text, &self.after].concat(),
        }
    }

    /// Returns the text of an event whose other bytes are those of this frame. Only the padding, and blanks between the
    /// closing brackets, may differ. `None` for any other event and for an empty text.
    fn text<'d>(&self, name: &str, data: &'d str) -> Option<Cow<'d, str>> {
        let rest = data.strip_prefix(self.before.as_str())?;
        if name != self.name {
            return None;
        }
        let raw = match &self.end {
            Some(end) => {
                let head = rest.strip_suffix(end.as_str())?;
                let (head, padding) = head.split_at(memchr::memrchr(b'"', head.as_bytes())? + 1);
                head.strip_suffix(self.after.as_str()).filter(|_| is_plain(padding))?
            }
            None => rest.strip_suffix(self.after.as_str()).or_else(|| self.before_brackets(rest))?,
        };
        if raw.is_empty() {
            return None;
        }
        if is_plain(raw) {
            return Some(Cow::Borrowed(raw));
        }
        // Parse it with its two quotes. This fails if there is a quote in between, or anything else that JSON does not allow.
        let literal = data.get(self.before.len() - 1..=self.before.len() + raw.len())?;
        serde_json::from_str(literal).ok().map(Cow::Owned)
    }

    /// Anthropic puts blanks between the closing brackets.
    fn before_brackets<'d>(&self, rest: &'d str) -> Option<&'d str> {
        let (raw, after) = rest.split_at(memchr::memrchr(b'"', rest.as_bytes())?);
        let brackets = self.after.bytes().filter(|byte| *byte != b' ');
        let only = self.after.bytes().skip(1).all(|byte| matches!(byte, b'}' | b']' | b' '));
        (only && after.bytes().filter(|byte| *byte != b' ').eq(brackets)).then_some(raw)
    }
}

/// True if a string's content needs no unescaping. Looks at every byte, which is faster than stopping early.
fn is_plain(raw: &str) -> bool {
    let special = |byte: u8| u8::from(byte < 0x20) | u8::from(byte == b'"') | u8::from(byte == b'\\');
    raw.bytes().fold(0, |any, byte| any | special(byte)) == 0
}

/// Index at which the content of the string in `field` begins.
fn opening(json: &str, field: &str) -> Option<usize> {
    json.match_indices(field).find_map(|(at, _)| {
        let rest = json[at + field.len()..].strip_prefix('"')?.trim_start().strip_prefix(':')?;
        let inside = rest.trim_start().strip_prefix('"')?;
        json[..at].ends_with('"').then_some(json.len() - inside.len())
    })
}

/// Length of the string's content at the start of `inside`, up to its closing quote.
fn closing(inside: &str) -> Option<usize> {
    let mut escaped = false;
    inside.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::ChatDecoder;
    use crate::fuzzing::{anthropic, chat};
    use proptest::prelude::*;

    /// Deltas as servers send them. `@` is the text, `%` a value that changes with each delta.
    const CHAT: [&str; 9] = [
        r#"{"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"@"},"finish_reason":null}]}"#,
        r#"{"id": "x", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "@"}, "finish_reason": null}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"@"},"logprobs":null}],"obfuscation":"%"}"#,
        r#"{"choices":[{"delta":{"reasoning_content":"@","content":null}}],"usage":null}"#,
        r#"{"choices":[{"delta":{"content":"","reasoning":"@","reasoning_details":[{"text":"@"}]}}]}"#,
        r#"{"choices":[{"delta":{"content":"@","refusal":"no"}}]}"#,
        r#"{"choices":[{"delta":{"content":"@"}}],"created":%,"usage":{"prompt_tokens":%,"completion_tokens":1}}"#,
        r#"{"choices":[{"delta":{"content":"@"},"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c%","function":{"name":"t","arguments":"@"}}]}}]}"#,
    ];
    const ANTHROPIC: [&str; 7] = [
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"@"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"@"}   }"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"thinking_delta","thinking":"@"}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"@"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"@"}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"signature_delta","signature":"@"}}"#,
    ];

    /// One event: its shape, its text, the changing value, blanks, and a byte to damage with its new value.
    type Piece = (prop::sample::Index, String, u8, usize, Option<(prop::sample::Index, u8)>);

    fn pieces() -> impl Strategy<Value = (Vec<Piece>, usize)> {
        let text = r#"[a-z {}é😀]{0,12}|(\\n|\\"|\\u0041|\\ud83d|\\\\|\\x|"|\\|	|[a-z"}{:,]){0,6}"#;
        let damage = prop::option::weighted(0.1, (any::<prop::sample::Index>(), any::<u8>()));
        let piece = (any::<prop::sample::Index>(), text, any::<u8>(), 0usize..3, damage);
        // Few shapes per answer, because a real answer consists of many deltas of the same shape.
        (prop::collection::vec(piece, 1..24), 1usize..9)
    }

    fn stream(shapes: &[&str], name: &str, (pieces, variety): &(Vec<Piece>, usize)) -> Vec<u8> {
        let mut out = Vec::new();
        for (shape, text, change, blanks, damage) in pieces {
            let shape = shapes[shape.index(shapes.len()) / variety * variety];
            let event = shape.replace('@', text).replace('%', &change.to_string());
            let mut event = event.into_bytes();
            event.splice(event.len() - 1..event.len() - 1, std::iter::repeat_n(b' ', *blanks / 2));
            if let Some((at, byte)) = damage {
                let at = at.index(event.len());
                event[at] = *byte;
            }
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"data: ");
            out.extend_from_slice(&event);
            out.extend_from_slice(b"\n\n");
        }
        out
    }

    /// 10,000, or what `PROPTEST_CASES` says.
    fn cases() -> u32 {
        std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

        /// The fast path does not change an answer: whole, in pieces, and with damaged bytes.
        #[test]
        fn the_short_way_gives_what_the_long_way_gives(pieces in pieces(), cut in any::<prop::sample::Index>()) {
            let bytes = stream(&CHAT, "", &pieces);
            let (head, tail) = bytes.split_at(cut.index(bytes.len() + 1));
            prop_assert_eq!(chat(&[head, tail], false), chat(&[&bytes], true));
            let bytes = stream(&ANTHROPIC, "event: content_block_delta\n", &pieces);
            let (head, tail) = bytes.split_at(cut.index(bytes.len() + 1));
            prop_assert_eq!(anthropic(&[head, tail], false), anthropic(&[&bytes], true));
        }
    }

    #[test]
    fn the_usual_deltas_take_the_short_way() {
        let hits = |shape: &str, texts: &[&str]| {
            let mut decoder = Shortcut::new(ChatDecoder::new, AnswerOf::default());
            for (i, text) in texts.iter().enumerate() {
                let padding = "x".repeat(i % 3);
                decoder.event("", &shape.replace('@', text).replace('%', &padding)).unwrap();
            }
            decoder.hits
        };
        for shape in &CHAT[..4] {
            assert_eq!(hits(shape, &["one", "two", "a \\\"b\\\"\\n", "😀", "", "five"]), 4, "{shape}");
        }
        for shape in &CHAT[5..] {
            assert_eq!(hits(&shape.replace('%', "1"), &["one", "two", "three"]), 0, "{shape}");
        }
    }

    #[test]
    fn a_string_that_only_looks_like_the_text_is_none() {
        let mut decoder = Shortcut::new(ChatDecoder::new, AnswerOf::default());
        let event = |seen: &str, real: &str| {
            format!(r#"{{"note":{{"content":"{seen}"}},"choices":[{{"delta":{{"content":"{real}"}}}}]}}"#)
        };
        for (seen, real) in [("one text", "one text"), ("another", "one text"), ("x", "y")] {
            decoder.event("", &event(seen, real)).unwrap();
        }
        assert!(
            matches!(decoder.assembler().only_delta(), Some(Delta::Text(text)) if text == "one textone texty")
        );
    }
}
