//! The `recall` tool: an earlier output, whole or by range.
//!
//! Owns ranges: lines as the notice of a cut names them, or bytes where a line is longer than a call can show. What is
//! returned is byte for byte what was there; ranges that follow one another leave nothing out and repeat nothing.
//!
//! Does not run the call again and does not say how things are now.

use crate::head::{Action, SessionTool};
use becket_tool::ToolEnv;
use becket_tool::input::Parser;
use becket_tool::limits::{self, Keep, Limits};
use becket_types::{CallId, ToolOutput, cut_end};
use serde::Deserialize;
use serde_json::{Value, json};

const ALIASES: &[(&str, &str)] = &[("call_id", "id"), ("tool_call_id", "id"), ("range", "lines")];
/// Room for the text: the limits of all outputs without the first line.
const ROOM: Limits = Limits { lines: limits::OUTPUT.lines - 1, bytes: limits::OUTPUT.bytes - 400 };

/// A call's input.
#[derive(Debug, Deserialize)]
pub struct Input {
    id: String,
    lines: Option<String>,
    bytes: Option<String>,
}

/// The `recall` tool.
pub type Recall = SessionTool<Earlier>;

/// What `recall` does.
pub struct Earlier;

impl Action for Earlier {
    type Input = Input;

    const NAME: &'static str = "recall";
    const DESCRIPTION: &'static str = "Get an earlier tool output back that was compacted or cut, by its id.";

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "id": {"type": "string"},
                "lines": {"type": "string", "description": "e.g. 120-300"},
                "bytes": {"type": "string", "description": "instead of lines"}
            },
            "required": ["id"]
        })
    }

    fn parse(parser: Parser<'_>, input: &Value) -> Result<Input, String> {
        let input: Input = parser.aliases(ALIASES).parse(input)?;
        for (name, text) in [("lines", &input.lines), ("bytes", &input.bytes)] {
            if let Some(text) = text
                && span(text).is_none()
            {
                return Err(format!(
                    "`{name}` must be a range such as 120-300, got {:?}.",
                    cut_end(text, 60)
                ));
            }
        }
        if input.lines.is_some() && input.bytes.is_some() {
            return Err("Give either `lines` or `bytes`.".to_owned());
        }
        Ok(input)
    }

    fn run(input: Input, env: &ToolEnv) -> Result<ToolOutput, String> {
        let id = input.id.trim();
        let Some((tool, output)) = env.host.original_output(&CallId::from(id)) else {
            return Err(format!(
                "There is no earlier tool output with the id {:?}. Ids stand in the stub or the notice of the cut.",
                cut_end(id, 128)
            ));
        };
        recall(id, &tool, &output, &input)
    }
}

/// First and last of `a-b`, `a-`, `a`; also with `:`, `,` or `..` between them. Open ends are `None`.
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

fn recall(id: &str, tool: &str, whole: &str, input: &Input) -> Result<ToolOutput, String> {
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
            (from, whole.floor_char_boundary(to.unwrap_or(whole.len())).max(from), 1)
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
    let head = format!(
        "[{}, {}: {what}{more}; this is history, things may have changed since]\n",
        cut_end(id, 128),
        cut_end(tool, 64)
    );
    let details = json!({
        "id": id, "tool": tool, "from": from, "to": end, "bytes": whole.len(), "lines": lines,
        "next": next.map(|(key, range)| json!({key: range})),
    });
    Ok(ToolOutput { details, ..ToolOutput::text(head + shown) })
}

/// Byte range of lines `first..=last` (from 1), line feeds included.
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
    use proptest::prelude::*;
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
            (json!({"id": "c1", "bytes": "4-12"}), "bytes 4-11 of 19", "two\nthr"),
            (json!({"id": "c1", "bytes": "12-19"}), "bytes 11-19 of 19", "ée\nfour"),
        ] {
            let output = run(&Recall::new(), &env, input.clone()).await;
            assert!(!output.is_error, "{}", output.content);
            assert_eq!(output.content, format!("[c1, bash: {head}{history}{text}"), "{input}");
        }
        for (input, want) in [
            (
                json!({"id": "zz"}),
                "There is no earlier tool output with the id \"zz\". Ids stand in the stub or the notice of the cut.",
            ),
            (json!({"id": "c1", "lines": "9"}), "Line 9 is behind the end: the output has 4 lines."),
            (json!({"id": "c1", "bytes": "99-"}), "Byte 99 is behind the end: the output has 19 bytes."),
            (json!({"id": "c1", "lines": "3-2"}), "`lines` must be a range such as 120-300, got \"3-2\"."),
            (json!({"id": "c1", "lines": "all"}), "`lines` must be a range such as 120-300, got \"all\"."),
            (json!({"id": "c1", "lines": "1", "bytes": "1"}), "Give either `lines` or `bytes`."),
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
