//! The facts that a compaction would lose: identifiers, paths, decisions of the model and sentences of the user that leave the view and are
//! missing from the text that stays.
//!
//! Reads the texts of the user and the model, and the inputs of calls. Outputs of tools are only counted,
//! because `recall` can fetch each of them. A sentence counts as kept if one remaining line has most of its
//! words. Every sentence of the user counts, in any language: a list of words such as "never" would cover
//! only one language. Pure text processing: the result is a hint for people, and nothing is decided by it.

use crate::context::summary::{is_wide, stems};
use becket_types::{Loss, Lost, Message, Part, Role, Seq};
use serde_json::Value;
use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};

/// Words in the model's text that indicate a decision.
const DECISIONS: &[&str] = &[
    "decided",
    "decision",
    "chose",
    "chosen",
    "instead of",
    "rather than",
    "rejected",
    "ruled out",
    "does not work",
    "doesn't work",
    "won't work",
    "gave up",
    "we will use",
    "i will use",
];
/// Folders that most projects have. A short name that begins with one of them counts as a path.
const FOLDERS: &[&str] = &[
    "src", "lib", "test", "tests", "docs", "bin", "app", "crates", "packages", "vendor", "scripts",
    "benches", "examples",
];
/// Characters that end a sentence.
const ENDS: [char; 11] = ['.', '!', '?', ';', '。', '！', '？', '；', '؟', '؛', '।'];
/// Share of a sentence's words that a remaining line must have.
const SAME: f64 = 0.6;
/// Maximum length in bytes of an examined sentence. Anything longer is data.
const SENTENCE: usize = 400;

/// Returns the facts in `gone` that are missing from `left`, the text of everything that stays.
pub fn loss<M: Borrow<Message>>(gone: &[M], left: &str) -> Loss {
    let left = Left::new(left);
    let (mut words, mut sentences) = (Occurrences::default(), Occurrences::default());
    let mut outputs = 0;
    for message in gone.iter().map(Borrow::borrow) {
        for part in &message.parts {
            match part {
                Part::Text { text, synthetic: false, .. } => {
                    words.take(tokens(text), message);
                    sentences.take(sentences_of(text), message);
                }
                Part::ToolCall { input, .. } => {
                    strings(input, &mut |text| words.take(tokens(text), message));
                }
                Part::ToolResult { .. } => outputs += 1,
                _ => {}
            }
        }
    }
    let mut loss = Loss { outputs, ..Loss::default() };
    for lost in words.sorted() {
        if left.text.contains(&lost.text) {
            continue;
        }
        let list = if is_path(&lost.text) { &mut loss.paths } else { &mut loss.identifiers };
        list.push(lost);
    }
    for lost in sentences.sorted() {
        let lower = lost.text.to_lowercase();
        let decided = || DECISIONS.iter().any(|word| holds_word(&lower, word));
        if !(lost.by_user || decided()) || left.says(&lost.text) {
            continue;
        }
        if lost.by_user { loss.constraints.push(lost) } else { loss.decisions.push(lost) }
    }
    loss
}

/// The remaining text, prepared for look-ups.
struct Left<'a> {
    text: &'a str,
    lines: Vec<HashSet<u64>>,
}

impl<'a> Left<'a> {
    fn new(text: &'a str) -> Self {
        let lines = text.lines().map(|line| stems(line).collect::<HashSet<u64>>());
        Self { text, lines: lines.filter(|stems| !stems.is_empty()).collect() }
    }

    /// True if one line has at least 60 % of the sentence's different words ([`SAME`]).
    fn says(&self, sentence: &str) -> bool {
        let words: HashSet<u64> = stems(sentence).collect();
        let enough = (words.len() as f64 * SAME).ceil() as usize;
        words.is_empty() || self.lines.iter().any(|line| words.intersection(line).count() >= enough)
    }
}

#[derive(Default)]
struct Occurrences(HashMap<String, (Seq, u32, bool)>);

impl Occurrences {
    fn take(&mut self, texts: impl IntoIterator<Item = String>, message: &Message) {
        for text in texts {
            let (seq, times, by_user) = self.0.entry(text).or_insert((message.seq, 0, false));
            *seq = message.seq.max(*seq);
            *times += 1;
            *by_user |= message.role == Role::User;
        }
    }

    fn sorted(self) -> Vec<Lost> {
        let lost = |(text, (seq, times, by_user))| Lost { text, seq, times, by_user };
        let mut all: Vec<Lost> = self.0.into_iter().map(lost).collect();
        all.sort_by(|a, b| {
            b.by_user
                .cmp(&a.by_user)
                .then(b.times.cmp(&a.times))
                .then(b.seq.cmp(&a.seq))
                .then(a.text.cmp(&b.text))
        });
        all
    }
}

fn strings(value: &Value, take: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => take(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, take)),
        Value::Object(map) => map.values().for_each(|item| strings(item, take)),
        _ => {}
    }
}

/// Returns the words that name something: paths, URLs, identifiers, and numbers such as those of tickets and errors.
fn tokens(text: &str) -> Vec<String> {
    let outside = |c: char| !(c.is_alphanumeric() || "_./:-#@~".contains(c));
    text.split(outside)
        .map(|word| word.trim_matches(|c: char| ".:-".contains(c)))
        .filter(|word| word.len() <= 200 && (is_path(word) || is_identifier(word)))
        .map(str::to_owned)
        .collect()
}

fn is_path(word: &str) -> bool {
    if word.contains("://") || word.chars().count() < 4 {
        return false;
    }
    let named = |part: &str| part.chars().filter(|c| c.is_alphabetic()).count() >= 2;
    let extension = word.rsplit_once('.').is_some_and(|(stem, end)| {
        (1..=5).contains(&end.len())
            && end.chars().all(|c| c.is_ascii_alphanumeric())
            && end.chars().any(|c| c.is_ascii_lowercase())
            && named(stem)
    });
    // `and/or` is not a path.
    let parts = word.split('/').filter(|part| named(part)).count();
    let rooted = ["/", "./", "../", "~/"].iter().any(|start| word.starts_with(start));
    let folder = word.split_once('/').is_some_and(|(first, _)| FOLDERS.contains(&first));
    extension || parts >= 3 || (parts >= 1 && rooted) || (parts >= 2 && folder)
}

fn is_identifier(word: &str) -> bool {
    let count = word.chars().count();
    if count < 3 {
        return false;
    }
    let any = |test: fn(char) -> bool| word.chars().any(test);
    let inner = |mark: &str| word.trim_matches('_').contains(mark) && any(char::is_alphabetic);
    let camel = word.chars().zip(word.chars().skip(1)).any(|(a, b)| a.is_lowercase() && b.is_uppercase());
    let mixed =
        any(|c| c.is_ascii_digit()) && (any(char::is_alphabetic) || word.starts_with('#') || count >= 4);
    inner("_") || inner("::") || camel || mixed || word.contains("://")
}

fn sentences_of(text: &str) -> Vec<String> {
    let pieces = text.lines().flat_map(|line| {
        line.split_inclusive(ENDS).fold(Vec::<String>::new(), |mut out, piece| {
            match out.last_mut() {
                // A full stop inside a name such as `lib.rs` does not end a sentence. The punctuation of scripts without spaces always
                // does.
                Some(last)
                    if !last.ends_with([' ', '。', '！', '？', '；', '।']) && !piece.starts_with(' ') =>
                {
                    last.push_str(piece);
                }
                _ => out.push(piece.to_owned()),
            }
            out
        })
    });
    pieces
        .map(|sentence| sentence.trim().trim_start_matches(['-', '*', '#', '>', ' ']).to_owned())
        .filter(|sentence| sentence.len() <= SENTENCE && is_sentence(sentence))
        .collect()
}

/// True for at least three words, or for at least six letters of a script without spaces.
fn is_sentence(text: &str) -> bool {
    const WORDS: usize = 3;
    const LETTERS: usize = 6;
    text.split_whitespace().count() >= WORDS || text.chars().filter(|c| is_wide(*c)).count() >= LETTERS
}

fn holds_word(text: &str, word: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    text.match_indices(word).any(|(at, found)| {
        edge(text[..at].chars().next_back()) && edge(text[at + found.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn texts(list: &[Lost]) -> Vec<&str> {
        list.iter().map(|lost| lost.text.as_str()).collect()
    }

    #[test]
    fn what_is_said_and_not_kept_is_named_and_the_rest_is_not() {
        let user = Message::user(
            "Fix the parser. Never touch vendor/generated.rs! The ticket is ACME-4711, see https://x.example/4711.",
        );
        let mut model = Message::assistant(vec![
            Part::text("I decided to use a hand-written lexer instead of logos. Some plain words here too."),
            Part::tool_call("c1", "bash", json!({"command": "cargo test -p parser_core -- span_test"})),
        ]);
        model.seq = Seq(7);
        let output =
            Message::tool_result("c1".into(), "bash", "lots_of output::Noise in/many/files.rs", false);
        let gone = [user, model, output];
        let loss = loss(&gone, "the ticket ACME-4711 and parser_core");
        let sentences = [
            "Fix the parser.",
            "Never touch vendor/generated.rs!",
            "The ticket is ACME-4711, see https://x.example/4711.",
        ];
        assert_eq!(texts(&loss.constraints), sentences);
        assert_eq!(texts(&loss.decisions), ["I decided to use a hand-written lexer instead of logos."]);
        assert_eq!(texts(&loss.paths), ["vendor/generated.rs"]);
        assert_eq!(texts(&loss.identifiers), ["https://x.example/4711", "span_test"]);
        assert_eq!((loss.outputs, loss.identifiers[1].seq), (1, Seq(7)));

        let kept = "fix the parser\nthe ticket: ACME-4711 https://x.example/4711\nnever touch vendor/generated.rs\nhand-written lexer instead of logos was decided\nspan_test \
                    https://x.example/4711 ACME-4711 parser_core";
        let loss = super::loss(&gone, kept);
        assert!(loss.is_empty(), "{loss:?}");
    }

    /// A rule that left the view is reported in any language. It is not reported while a remaining line contains it.
    #[test]
    fn a_lost_sentence_of_the_user_is_named_in_every_language() {
        let rules = [
            "gửi qua PR nhé, không ai đẩy tay lên master.",
            "请不要直接推送到主分支。",
            "本番環境には絶対に触らないでください。",
            "Niemand schiebt von Hand auf master.",
            "لا تدفع مباشرة إلى الفرع الرئيسي؟",
            "Никогда не трогай рабочую базу.",
            "Nothing goes to master by hand.",
        ];
        for rule in rules {
            let gone = [Message::user(rule)];
            assert_eq!(texts(&loss(&gone, "other words altogether").constraints), [rule]);
            assert!(loss(&gone, &format!("- [m1] {rule} and more")).is_empty(), "{rule}");
        }
        let two = [Message::user("请不要直接推送到主分支。所有名称保持原样！好的。")];
        assert_eq!(texts(&loss(&two, "").constraints), ["所有名称保持原样！", "请不要直接推送到主分支。"]);
    }

    #[test]
    fn plain_words_versions_and_abbreviations_name_nothing() {
        for word in ["hello", "e.g", "and/or", "well-known", "it's", "a.b", "12", "..."] {
            assert!(tokens(word).is_empty(), "{word}");
        }
        for word in ["main.rs", "src/lib", "snake_case", "camelCase", "a::b", "E0308", "8080", "#42"] {
            assert_eq!(tokens(word), [word]);
        }
    }
}
