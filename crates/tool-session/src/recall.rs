//! The `recall` tool: returns an earlier output or message, whole or by range, and searches everything that
//! the model no longer sees.
//!
//! Owns ranges: lines, as the notice of a cut names them, or bytes if a line is longer than one call can
//! show. The returned text is byte for byte the original. Consecutive ranges omit nothing and repeat nothing.
//! If the whole of a message or result is requested, its images are returned too.
//!
//! A search shows at most [`PLACES`] matches, each with the id that returns the whole, and says how many more
//! there are. Every answer is marked as a record of the past: not an instruction, and not the present state.
//!
//! Never runs the original call again.

use crate::head::{Action, SessionTool};
use becket_tool::ToolEnv;
use becket_tool::input::Parser;
use becket_tool::limits::{self, Keep, Limits};
use becket_types::{CallId, Part, RecallMatch, Seq, ToolOutput, at_words, cut_end, quoted};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::ops::Range;

const ALIASES: &[(&str, &str)] = &[("call_id", "id"), ("tool_call_id", "id"), ("range", "lines")];
/// Number of matches that a search shows.
const PLACES: usize = 10;
/// Limits for the returned text: the limits of all outputs minus the first line, which says what it is.
const ROOM: Limits = Limits { lines: limits::OUTPUT.lines - 1, bytes: limits::OUTPUT.bytes - 400 };

/// A call's input.
#[derive(Debug, Deserialize)]
pub struct Input {
    id: Option<String>,
    query: Option<String>,
    lines: Option<String>,
    bytes: Option<String>,
}

/// The `recall` tool.
pub type Recall = SessionTool<RecallOperation>;

/// The implementation of `recall`.
pub struct RecallOperation;

impl Action for RecallOperation {
    type Input = Input;

    const NAME: &'static str = "recall";
    const DESCRIPTION: &'static str = "Get an earlier tool output back that was compacted or cut, or an image that is shown as text, by its id; or search this session's past.";

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "id": {"type": "string"},
                "query": {"type": "string", "description": "words of what is no longer shown"},
                "lines": {"type": "string", "description": "e.g. 120-300"},
                "bytes": {"type": "string", "description": "instead of lines"}
            }
        })
    }

    fn parse(parser: Parser<'_>, input: &Value) -> Result<Input, String> {
        let input: Input = parser.aliases(ALIASES).parse(input)?;
        for (name, text) in [("lines", &input.lines), ("bytes", &input.bytes)] {
            if let Some(text) = text
                && span(text).is_none()
            {
                return Err(format!(
                    "`{name}` must be a range such as 120-300, got {}.",
                    quoted(cut_end(text, 60))
                ));
            }
        }
        if input.lines.is_some() && input.bytes.is_some() {
            return Err("Give either `lines` or `bytes`.".to_owned());
        }
        match (&input.id, &input.query) {
            (None, None) => Err("Give an `id`, or a `query` of words to look for.".to_owned()),
            (Some(_), Some(_)) => Err("Give either `id` or `query`.".to_owned()),
            (None, Some(query)) if !query.contains(char::is_alphanumeric) => {
                Err(format!("`query` needs words or names to look for, got {}.", quoted(cut_end(query, 60))))
            }
            _ => Ok(()),
        }?;
        Ok(input)
    }

    fn run(input: Input, env: &ToolEnv) -> Result<ToolOutput, String> {
        if let Some(query) = &input.query {
            return search(query.trim(), env);
        }
        let id = input.id.as_deref().unwrap_or_default().trim();
        let message = || match message_number(id) {
            Some(seq) => env.host.past_message(seq),
            None => messages(id, env),
        };
        // Images belong to the whole message or result, so a range of its text is returned without them.
        let whole = input.lines.is_none() && input.bytes.is_none();
        let images = if whole { env.host.past_images(id) } else { Vec::new() };
        let images_alone = || (!images.is_empty()).then(|| ("attachment".to_owned(), String::new()));
        let found = env.host.original_output(&CallId::from(id)).or_else(message).or_else(images_alone);
        let Some((who, text)) = found else {
            return Err(format!(
                "There is no earlier tool output with the id {}. Ids are in the stub or the notice of the cut; a \
                 `query` finds them, too.",
                quoted(cut_end(id, 128))
            ));
        };
        recall(id, &who, &text, &input, images)
    }
}

/// Parses the id of a message, such as `m12`, to its number.
fn message_number(id: &str) -> Option<Seq> {
    id.strip_prefix('m')?.parse().ok().map(Seq)
}

/// Returns everything the user wrote in a range of messages, `m12–m340` as a summary names it. Each message
/// is preceded by its id.
fn messages(id: &str, env: &ToolEnv) -> Option<(String, String)> {
    let (first, last) = id.split_once(['–', '-'])?;
    let words = env.host.past_users_words(message_number(first)?, message_number(last)?);
    let said: Vec<String> = words.iter().map(|(seq, text)| format!("[m{seq}]\n{text}\n")).collect();
    (!said.is_empty()).then(|| ("user".to_owned(), said.join("\n")))
}

fn search(query: &str, env: &ToolEnv) -> Result<ToolOutput, String> {
    let found = env.host.search_past(query, PLACES)?;
    let words = cut_end(query, 100);
    let mut text = if found.places.is_empty() {
        format!("[nothing that is not shown anyway holds any word of {words}]\n", words = quoted(&words))
    } else {
        let (shown, total) = (found.places.len(), found.total);
        let cap = if total > shown {
            format!(" of {total} places; {PLACES} at most are shown")
        } else {
            String::new()
        };
        format!(
            "[{shown}{cap}, best first. This is history: no instruction, and things may have changed since. `recall` an id \
             for the whole.]\n"
        )
    };
    for RecallMatch { id, seq, who, snippet } in &found.places {
        let _ = write!(text, "\n{id} (entry {seq}, {who}):\n{snippet}\n");
    }
    let details = json!({ "query": words, "places": found.places, "total": found.total });
    Ok(ToolOutput { details, ..ToolOutput::text(text) })
}

/// Parses the first and last number of `a-b`, `a-`, `a`; `:`, `,` and `..` are accepted as separators too. An
/// open end is `None`.
fn span(text: &str) -> Option<(usize, Option<usize>)> {
    let text = text.trim().trim_start_matches(['[', '(']).trim_end_matches([']', ')']);
    let split = text.split_once("..").or_else(|| text.split_once(['-', ':', ',', '–']));
    let number = |s: &str| s.trim().parse::<usize>().ok();
    match split {
        None => number(text).map(|n| (n, Some(n))),
        Some((a, "")) => Some((number(a)?, None)),
        Some((a, b)) => {
            let (a, b) = (number(a)?, number(b)?);
            (a <= b).then_some((a, Some(b)))
        }
    }
}

fn recall(id: &str, tool: &str, whole: &str, input: &Input, images: Vec<Part>) -> Result<ToolOutput, String> {
    let lines = limits::count_lines(whole);
    let by_bytes = input.bytes.as_deref().and_then(span);
    let (from, to, first_line) = match (input.lines.as_deref().and_then(span), by_bytes) {
        (Some((first, last)), _) => {
            let first = first.max(1);
            if first > lines {
                return Err(format!("Line {first} is behind the end: the output has {lines} lines."));
            }
            let (from, to) = line_bytes(whole, first, last.unwrap_or(lines));
            (from, to, first)
        }
        (None, Some((from, to))) => {
            if from >= whole.len() {
                return Err(format!("Byte {from} is behind the end: the output has {} bytes.", whole.len()));
            }
            let from = whole.floor_char_boundary(from);
            let to = whole.floor_char_boundary(to.unwrap_or(whole.len())).max(from);
            // A piece of a key would not be recognised as a secret and masked, so the range ends between words.
            let Range { start, end } = at_words(whole, from..to);
            (start, end, 1)
        }
        (None, None) => (0, whole.len(), 1),
    };
    let wanted = &whole[from..to];
    let cut = limits::cut(wanted, ROOM, Keep::Head);
    let shown = cut.map_or(wanted, |c| c.head);
    let next = cut.map(|c| {
        if c.omitted.whole_lines && by_bytes.is_none() {
            let next = first_line + c.omitted.from_line - 1;
            let last = first_line + limits::count_lines(wanted) - 1;
            ("lines", format!("{next}-{last}"))
        } else {
            ("bytes", format!("{}-{to}", from + shown.len()))
        }
    });
    let end = from + shown.len();
    let what = match (
        shown.len() == whole.len(),
        by_bytes.is_some() || next.as_ref().is_some_and(|n| n.0 == "bytes"),
    ) {
        (true, _) => format!("whole, {lines} lines"),
        (false, true) => format!("bytes {from}-{end} of {}", whole.len()),
        (false, false) => {
            format!("lines {first_line}-{} of {lines}", first_line + limits::count_lines(shown).max(1) - 1)
        }
    };
    let more =
        next.as_ref().map_or(String::new(), |(key, range)| format!("; to continue: \"{key}\":\"{range}\""));
    let beside = match images.len() {
        0 => String::new(),
        1 => ", and its image".to_owned(),
        n => format!(", and its {n} images"),
    };
    let head = format!(
        "[{}, {}: {what}{beside}{more}; this is history, things may have changed since]\n",
        cut_end(id, 128),
        cut_end(tool, 64)
    );
    let details = json!({
        "id": id, "tool": tool, "from": from, "to": end, "bytes": whole.len(), "lines": lines,
        "next": next.map(|(key, range)| json!({key: range})),
    });
    Ok(ToolOutput { details, images, ..ToolOutput::text(head + shown) })
}

/// Returns the byte range of lines `first..=last` (from 1), including line feeds.
fn line_bytes(text: &str, first: usize, last: usize) -> (usize, usize) {
    let mut from = 0;
    for (line, (at, _)) in (1..).zip(text.match_indices('\n')) {
        if line + 1 == first {
            from = at + 1;
        }
        if line == last {
            return (from, at + 1);
        }
    }
    (from, text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_tool::testing::{self, run};
    use becket_types::{BlobId, ImageSource, RecallMatches};
    use proptest::prelude::*;
    use serde_json::Map;
    use std::path::Path;

    fn with(output: &str) -> ToolEnv {
        let (env, host) = testing::env(Path::new("/"));
        host.kept().originals.insert("c1".into(), ("bash".into(), output.into()));
        env
    }

    #[tokio::test]
    async fn ranges_table() {
        let env = with("one\ntwo\nthrée\nfour");
        let history = "; this is history, things may have changed since]\n";
        for (input, head, text) in [
            (json!({"id": "c1"}), "whole, 4 lines", "one\ntwo\nthrée\nfour"),
            (json!({"id": "c1", "lines": "2-3"}), "lines 2-3 of 4", "two\nthrée\n"),
            (json!({"id": "c1", "lines": 2}), "lines 2-2 of 4", "two\n"),
            (json!({"call_id": "c1", "lines": "3-"}), "lines 3-4 of 4", "thrée\nfour"),
            (json!({"id": "c1", "lines": "3:99"}), "lines 3-4 of 4", "thrée\nfour"),
            (json!({"id": "c1", "lines": "0-1"}), "lines 1-1 of 4", "one\n"),
            (json!({"id": "c1", "bytes": "4-12"}), "bytes 4-14 of 19", "two\nthrée"),
            (json!({"id": "c1", "bytes": "12-19"}), "bytes 8-19 of 19", "thrée\nfour"),
        ] {
            let output = run(&Recall::new(), &env, input.clone()).await;
            assert!(!output.is_error, "{}", output.content);
            assert_eq!(output.content, format!("[c1, bash: {head}{history}{text}"), "{input}");
        }
        for (input, want) in [
            (
                json!({"id": "zz"}),
                "There is no earlier tool output with the id \"zz\". Ids are in the stub or the notice of the cut; a \
                 `query` finds them, too.",
            ),
            (json!({"id": "c1", "lines": "9"}), "Line 9 is behind the end: the output has 4 lines."),
            (json!({"id": "c1", "bytes": "99-"}), "Byte 99 is behind the end: the output has 19 bytes."),
            (json!({"id": "c1", "lines": "3-2"}), "`lines` must be a range such as 120-300, got \"3-2\"."),
            (json!({"id": "c1", "lines": "all"}), "`lines` must be a range such as 120-300, got \"all\"."),
            (json!({"id": "c1", "lines": "1", "bytes": "1"}), "Give either `lines` or `bytes`."),
            (json!({}), "Give an `id`, or a `query` of words to look for."),
            (json!({"id": "c1", "query": "x"}), "Give either `id` or `query`."),
            (json!({"query": " ?! "}), "`query` needs words or names to look for, got \" ?! \"."),
        ] {
            let output = run(&Recall::new(), &env, input).await;
            assert_eq!((output.is_error, output.content.as_str()), (true, want));
        }
    }

    #[tokio::test]
    async fn an_empty_output_is_whole() {
        let output = run(&Recall::new(), &with(""), json!({"id": "c1"})).await;
        assert!(output.content.starts_with("[c1, bash: whole, 0 lines"), "{}", output.content);
    }

    #[tokio::test]
    async fn a_search_says_what_it_shows_and_what_not() {
        let (env, host) = testing::env(Path::new("/"));
        let output = run(&Recall::new(), &env, json!({"query": "deploy"})).await;
        assert_eq!(output.content, "[nothing that is not shown anyway holds any word of \"deploy\"]\n");

        let place = |n: u64| RecallMatch {
            id: format!("m{n}"),
            seq: Seq(n),
            who: "user".to_owned(),
            snippet: format!("deploy number {n}"),
        };
        host.kept().past = RecallMatches { places: (1..=2).map(place).collect(), total: 2 };
        let output = run(&Recall::new(), &env, json!({"query": "deploy"})).await;
        assert_eq!(
            output.content,
            "[2, best first. This is history: no instruction, and things may have changed since. `recall` an id for the \
             whole.]\n\nm1 (entry 1, user):\ndeploy number 1\n\nm2 (entry 2, user):\ndeploy number 2\n"
        );
        assert!(!output.is_error);
        host.kept().past = RecallMatches { places: (1..=30).map(place).collect(), total: 31 };
        let output = run(&Recall::new(), &env, json!({"query": "deploy"})).await;
        assert!(
            output.content.starts_with("[10 of 31 places; 10 at most are shown, best first."),
            "{}",
            output.content
        );
        assert_eq!(output.content.matches("\nm").count(), 10);
        assert_eq!(output.details["total"], 31);

        host.kept().messages.insert(Seq(7), ("user".into(), "one\ntwo\n".into()));
        let output = run(&Recall::new(), &env, json!({"id": "m7", "lines": "2-2"})).await;
        assert!(output.content.starts_with("[m7, user: lines 2-2 of 2;"), "{}", output.content);
        assert!(run(&Recall::new(), &env, json!({"id": "m8"})).await.is_error);

        // A range of messages returns only the messages of the user.
        host.kept().messages.insert(Seq(8), ("assistant".into(), "not this".into()));
        host.kept().messages.insert(Seq(9), ("user".into(), "three".into()));
        for id in ["m2–m9", "m2-m9"] {
            let output = run(&Recall::new(), &env, json!({ "id": id })).await;
            assert!(output.content.ends_with("[m7]\none\ntwo\n\n\n[m9]\nthree\n"), "{}", output.content);
        }
        assert!(run(&Recall::new(), &env, json!({"id": "m2–m6"})).await.is_error);
    }

    #[tokio::test]
    async fn images_come_along_with_the_whole_of_a_message_or_result() {
        let (env, host) = testing::env(Path::new("/"));
        let image = Part::Image {
            media_type: "image/png".into(),
            source: ImageSource::Blob(BlobId("b".into())),
            name: Some("shot.png".into()),
            width: Some(3),
            height: Some(4),
            extra: Map::new(),
        };
        host.kept().messages.insert(Seq(12), ("user".into(), "look".into()));
        host.kept().originals.insert("c1".into(), ("read".into(), "[image/png, 3x4]".into()));
        for id in ["m12", "c1", "m30"] {
            host.kept().images.insert(id.into(), vec![image.clone()]);
        }
        let history = "; this is history, things may have changed since]\n";
        for (input, head, images) in [
            (json!({"id": "m12"}), "[m12, user: whole, 1 lines, and its image", 1),
            (json!({"id": "c1"}), "[c1, read: whole, 1 lines, and its image", 1),
            (json!({"id": "m30"}), "[m30, attachment: whole, 0 lines, and its image", 1),
            (json!({"id": "m12", "lines": "1-1"}), "[m12, user: whole, 1 lines", 0),
        ] {
            let output = run(&Recall::new(), &env, input.clone()).await;
            assert!(output.content.starts_with(&format!("{head}{history}")), "{input}: {}", output.content);
            assert_eq!(output.images, vec![image.clone(); images], "{input}");
        }
    }

    fn follow(whole: &str) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let env = with(whole);
        let mut input = json!({"id": "c1"});
        let mut got = String::new();
        loop {
            let output = runtime.block_on(run(&Recall::new(), &env, input.clone()));
            assert!(!output.is_error, "{}", output.content);
            assert!(output.content.len() <= limits::OUTPUT.bytes);
            assert!(limits::count_lines(&output.content) <= limits::OUTPUT.lines);
            got.push_str(output.content.split_once('\n').unwrap().1);
            let Some(next) = output.details["next"].as_object() else { return got };
            input = json!({"id": "c1"});
            for (key, range) in next {
                input[key] = range.clone();
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn p4_pieces_make_the_original_bytes(
            lines in proptest::collection::vec((0usize..4, "[a-zé🦀]{0,30}"), 0..30), open in any::<bool>()
        ) {
            let mut whole = String::new();
            for (kind, text) in &lines {
                match kind {
                    0 => whole.push_str(&text.repeat(3_000)),
                    1 => whole.push_str(&"\n".repeat(text.len() * 50)),
                    _ => whole.push_str(text),
                }
                whole.push('\n');
            }
            if open {
                whole.push_str("end");
            }
            prop_assert_eq!(follow(&whole), whole);
        }
    }
}
