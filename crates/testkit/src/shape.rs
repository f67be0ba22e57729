//! Rendering of requests for people and assertions: numbered lines, and the check that each request begins with the bytes of the previous
//! one.

use crate::http::Recorded;
use serde_json::Value;

/// Maximum number of characters that are shown of a text. For a longer one, the number of further characters is shown.
const SHOWN: usize = 120;

/// Returns one line for each block of the request, in the same form for Anthropic Messages and Chat Completions:
///
/// ```text
/// system "You are …" *
/// tools read edit bash *
/// 0 user text "hello" *
/// 1 assistant call c1 read {"path":"a"}
/// 2 tool c1 "1 fn main() {}"
/// ```
///
/// `*` marks a cache breakpoint, `!` an error result.
pub fn shape(request: &Recorded) -> String {
    let json = request.json();
    let mut out = String::new();
    match &json["system"] {
        Value::Array(blocks) => blocks.iter().for_each(|b| line(&mut out, &format!("system {}", block(b)))),
        Value::String(text) => line(&mut out, &format!("system {}", quote(text))),
        _ => {}
    }
    let tools = request.tool_names();
    if !tools.is_empty() {
        line(&mut out, &format!("tools {}", tools.join(" ")));
    }
    for (i, message) in request.messages().iter().enumerate() {
        let role = message["role"].as_str().unwrap_or("?");
        let mut blocks = Vec::new();
        match &message["content"] {
            Value::String(text) if role == "tool" => {
                blocks.push(format!("{} {}", text_of(&message["tool_call_id"]), quote(text)));
            }
            Value::String(text) => blocks.push(format!("text {}", quote(text))),
            Value::Array(content) => blocks.extend(content.iter().map(block)),
            _ => {}
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            let arguments = text_of(&function["arguments"]);
            blocks.push(format!(
                "call {} {} {}",
                text_of(&call["id"]),
                text_of(&function["name"]),
                cut(&arguments)
            ));
        }
        for block in blocks {
            line(&mut out, &format!("{i} {role} {block}"));
        }
    }
    out
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

fn block(block: &Value) -> String {
    let kind = block["type"].as_str().unwrap_or("?");
    let mut out = match kind {
        "text" => format!("text {}", quote(&text_of(&block["text"]))),
        "thinking" => format!("thinking {}", quote(&text_of(&block["thinking"]))),
        "tool_use" => {
            format!(
                "call {} {} {}",
                text_of(&block["id"]),
                text_of(&block["name"]),
                cut(&block["input"].to_string())
            )
        }
        "tool_result" => {
            let content = match &block["content"] {
                Value::Array(blocks) => blocks.iter().map(self::block).collect::<Vec<_>>().join(" + "),
                other => quote(&text_of(other)),
            };
            let mark = if block["is_error"] == Value::Bool(true) { " !" } else { "" };
            format!("result {} {content}{mark}", text_of(&block["tool_use_id"]))
        }
        "image" => format!("image {}", text_of(&block["source"]["media_type"])),
        "image_url" => format!("image {}", cut(&text_of(&block["image_url"]["url"]))),
        other => other.to_owned(),
    };
    if !block["cache_control"].is_null() {
        out.push_str(" *");
    }
    out
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn cut(text: &str) -> String {
    let head = becket_types::cut_end(text, SHOWN);
    if head.len() == text.len() { text.to_owned() } else { format!("{head}…+{}", text.len() - head.len()) }
}

fn quote(text: &str) -> String {
    format!("{:?}", cut(text))
}

/// Returns the positions at which a request does not continue the previous one: `i` for a break between
/// `i` and `i + 1`.
///
/// Request N continues in N+1 if N's body without its closing brackets is a byte prefix of N+1's body. This
/// includes the brackets that close a last message to which N+1 adds blocks.
pub fn prefix_breaks(requests: &[Recorded]) -> Vec<usize> {
    let pairs = requests.windows(2).enumerate();
    pairs.filter(|(_, pair)| !continues(&pair[0].body, &pair[1].body)).map(|(i, _)| i).collect()
}

fn continues(a: &[u8], b: &[u8]) -> bool {
    let a = open_part(a);
    let grown = || {
        a.strip_suffix(b"]}").is_some_and(|a| b.strip_prefix(a).is_some_and(|rest| rest.starts_with(b",")))
    };
    // Chat Completions joins consecutive user messages to one text.
    let text_grown = || {
        a.strip_suffix(br#""}"#)
            .is_some_and(|a| b.strip_prefix(a).is_some_and(|rest| rest.starts_with(br"\n\n")))
    };
    b.starts_with(a) || grown() || text_grown()
}

/// Fails if a request is not a byte prefix of the next, and shows where they differ.
pub fn assert_prefix(requests: &[Recorded]) {
    if let Some(&i) = prefix_breaks(requests).first() {
        let (a, b) = (open_part(&requests[i].body), &requests[i + 1].body[..]);
        let at = a.iter().zip(b).take_while(|(x, y)| x == y).count();
        let show = |s: &[u8]| {
            String::from_utf8_lossy(&s[at.saturating_sub(80)..(at + 80).min(s.len())]).into_owned()
        };
        panic!(
            "request {i} ({} bytes) is no prefix of request {}; they part at byte {at}:\n  {}\n  {}",
            a.len(),
            i + 1,
            show(a),
            show(b)
        );
    }
}

/// Returns the body up to the end of its last message: without the `]` of `messages`, the final `}`, and any
/// member after `messages`.
fn open_part(body: &[u8]) -> &[u8] {
    let body = body.strip_suffix(b"}").unwrap_or(body);
    let body = body.strip_suffix(br#","tool_choice":"none""#).unwrap_or(body);
    let body = body.strip_suffix(br#","tool_choice":{"type":"none"}"#).unwrap_or(body);
    body.strip_suffix(b"]").unwrap_or(body)
}
