//! The laws of a request (docs/context-engine.md, Properties P11 to P16), from the ledger and the requests alone.
//!
//! Nothing here asks the engine what it meant to do: the ledger shows what happened before each request, the
//! request says what the model was sent.

use crate::rules::{FAMILIES, Judge};
use crate::words::marks;
use becket_session::Session;
use becket_session::context::budget::{estimate_json, estimate_message, estimate_text};
use becket_session::context::continuation::{MEDIA_PREFIX, is_replay};
use becket_types::{CallId, Context, Entry, EntryKind, Message, Part, Role, Seq, Tokens, ToolSpec, is_blank};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The families whose templates take tools and parallel calls: they must accept a request as it is first sent.
const AT_ONCE: [&str; 7] =
    ["qwen-2.5", "qwen-3.5", "devstral", "deepseek-v3", "command-a", "glm-4", "gpt-oss"];
static JUDGE: LazyLock<Judge> = LazyLock::new(Judge::new);

/// Characters of a text that may occur twice in a request.
pub(crate) const TWICE: usize = 80;
/// The same limit if the summariser copies its input, because short lines of outputs then stay in its summary.
pub(crate) const TWICE_COPIED: usize = 400;
/// Usable tokens below which a window counts as small: frames and stubs there take as much room as the content.
const SMALL: u64 = 8_000;
/// Tokens of the reminder that is put around a message after a compaction, if it came while the model worked.
const WRAPPER: u64 = 64;

/// A request as it went out.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) context: Context,
    pub(crate) tools: Vec<ToolSpec>,
    /// Tokens of the window that a request may fill.
    pub(crate) usable: u64,
    /// The body on the wire of Chat Completions.
    pub(crate) chat: Value,
}

impl Sent {
    /// Uncalibrated estimate of all texts of the request, in tokens.
    pub(crate) fn tokens(&self) -> u64 {
        let system: Tokens = self.context.system.iter().map(|block| estimate_text(block)).sum();
        let messages: Tokens = self.context.messages.iter().map(|m| estimate_message(&m.message)).sum();
        let tool = |t: &ToolSpec| {
            estimate_text(&t.name) + estimate_text(&t.description) + estimate_json(&t.input_schema)
        };
        (system + messages + self.tools.iter().map(tool).sum()).0
    }

    /// All texts and outputs, in order.
    fn texts(&self) -> Vec<&str> {
        let parts = self.context.messages.iter().flat_map(|m| &m.message.parts);
        let said = parts.filter_map(|part| match part {
            Part::Text { text, .. } => Some(text.as_str()),
            Part::ToolResult { output, .. } => Some(output.as_str()),
            _ => None,
        });
        self.context.system.iter().map(|block| &**block).chain(said).collect()
    }

    fn result(&self, call: &CallId) -> Option<&str> {
        self.context.messages.iter().flat_map(|m| &m.message.parts).find_map(|part| match part {
            Part::ToolResult { call_id, output, .. } if call_id == call => Some(output.as_str()),
            _ => None,
        })
    }
}

/// State of the ledger right before a request.
#[derive(Default)]
struct Before {
    /// Everything that the user said so far, with its place in the ledger.
    users: Vec<Message>,
    /// Continuations that repeat a message of the user. The message is also known by their sequence numbers.
    replays: Vec<Message>,
    /// Users' messages and results that no answered request has shown.
    unseen: Vec<Message>,
}

/// Checks one law. The error says what was found.
type Law<'a> = &'a dyn Fn() -> Result<(), String>;
/// A broken law: its name and what was found.
pub(crate) type Broken = (&'static str, String);

/// Checks every request of a session. `outputs`: the output of each call. `but`: laws that are not checked. `twice`:
/// characters of a text that may occur twice.
pub(crate) fn check(
    session: &Session,
    requests: &[Sent],
    outputs: &HashMap<String, String>,
    but: &[&str],
    twice: usize,
) -> Result<(), Broken> {
    let entries: Vec<Entry> = session.entries().map_err(|e| ("ledger", e.to_string()))?.collect();
    let mut before = Before::default();
    let mut sent = requests.iter();
    let mut nth = 0;
    let mut after_compaction = None;
    for entry in &entries {
        match &entry.kind {
            EntryKind::Message { message } => {
                let mut message = message.clone();
                message.seq = entry.seq;
                if !message.metadata.compaction_continue {
                    after_compaction = None;
                } else if is_replay(&message) {
                    before.replays.push(message.clone());
                }
                let says = message.is_user_turn() && !is_blank(&message.text());
                if says {
                    before.users.push(message.clone());
                }
                if message.is_user_turn() || message.role == Role::Tool {
                    before.unseen.push(message);
                }
            }
            EntryKind::Finish { .. } => before.unseen.clear(),
            EntryKind::Compaction(compaction) => after_compaction = Some(compaction.size.after),
            EntryKind::Request(request) if request.purpose == "turn" => {
                let Some(request) = sent.next() else { break };
                nth += 1;
                let laws: [(&str, Law<'_>); 5] = [
                    ("P11", &|| p11_unseen(&before, request, outputs)),
                    ("P12", &|| p12_users_words(&before, request, session)),
                    ("P13", &|| p13_once(request, twice)),
                    ("P14", &|| p14_estimate(request, after_compaction)),
                    ("P16", &|| p16_templates(&request.chat)),
                ];
                for (law, holds) in laws.iter().filter(|(law, _)| !but.contains(law)) {
                    holds().map_err(|what| (*law, format!("request {nth}: {what}")))?;
                }
                after_compaction = None;
            }
            _ => {}
        }
    }
    if but.contains(&"P15") { Ok(()) } else { p15_bounded(&entries, requests).map_err(|what| ("P15", what)) }
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn start(text: &str) -> String {
    text.chars().take(160).collect()
}

/// P11: all that the model has not seen is in the next request, at least as a cut with an id.
fn p11_unseen(before: &Before, request: &Sent, outputs: &HashMap<String, String>) -> Result<(), String> {
    let texts = request.texts();
    let (mut shown, mut due) = (0, 0);
    for message in &before.unseen {
        for part in &message.parts {
            match part {
                Part::ToolResult { call_id, output, .. } => {
                    let there = request.result(call_id).ok_or(format!("no result of {call_id}"))?;
                    let whole = outputs.get(call_id.as_str()).unwrap_or(output);
                    let named = there.contains(call_id.as_str());
                    if there != whole && there != output && !named {
                        return Err(format!(
                            "{call_id} is neither whole nor a cut with its id: {}",
                            start(there)
                        ));
                    }
                    due += 1;
                    // Counts results of which the request shows more than a stub.
                    shown += usize::from(
                        there == whole || marks(there).next().is_some() || marks(whole).next().is_none(),
                    );
                }
                Part::Text { text, ignored: false, .. } if message.role == Role::User => {
                    let id = format!("m{}", message.seq.0);
                    let there = texts.iter().any(|t| t.contains(text.as_str()) || names(t, message.seq));
                    if !there {
                        return Err(format!("the unseen message {id} is not there: {}", start(text)));
                    }
                }
                Part::Image { .. } => {
                    // In a window without room for the image, a text describes it, with the id by which `recall` shows it.
                    let parts = request.context.messages.iter().flat_map(|m| &m.message.parts);
                    let described = format!(", id m{}]", message.seq.0);
                    let is_there = parts.into_iter().any(|p| p.is_media());
                    if !is_there && !texts.iter().any(|text| text.contains(&described)) {
                        return Err(format!("the unseen image of m{} is not there", message.seq.0));
                    }
                }
                _ => {}
            }
        }
    }
    // Rules files and the user's last message may leave room for nothing but stubs; so may a small window.
    let is_full = request.usable < SMALL || request.tokens() * 5 > request.usable * 4;
    if due > 0 && shown == 0 && !is_full {
        return Err(format!("of {due} results that the model has not seen, none shows a word of its output"));
    }
    Ok(())
}

/// True if `text` names message `seq` as `recall` takes it: `m7`, or a run with it such as `m3–m9`.
fn names(text: &str, seq: Seq) -> bool {
    let names = text.split(|c: char| !c.is_alphanumeric() && c != '–');
    let number = |name: &str| name.strip_prefix('m')?.parse::<u64>().ok();
    names.filter(|name| name.starts_with('m')).any(|name| match name.split_once('–') {
        Some((first, last)) => number(first).zip(number(last)).is_some_and(|(a, b)| (a..=b).contains(&seq.0)),
        None => number(name) == Some(seq.0),
    })
}

/// P12: all that the user said is in the request verbatim, as a quote, or by an id that is in it and that recall takes.
fn p12_users_words(before: &Before, request: &Sent, session: &Session) -> Result<(), String> {
    let texts = request.texts();
    let all = texts.concat();
    let flat = squeezed(&all);
    for message in &before.users {
        for text in message.parts.iter().filter_map(|part| match part {
            Part::Text { text, ignored: false, .. } if !is_blank(text) => Some(text),
            _ => None,
        }) {
            if all.contains(text.as_str()) || flat.contains(&squeezed(text)) {
                continue;
            }
            let repeats = before.replays.iter().filter(|m| m.text().contains(text.as_str())).map(|m| m.seq);
            let known: Vec<Seq> = std::iter::once(message.seq).chain(repeats).collect();
            let named = known.iter().find(|seq| texts.iter().any(|t| names(t, **seq)));
            let Some(named) = named else {
                return Err(format!("m{} ({} bytes) is nowhere: {}", message.seq.0, text.len(), start(text)));
            };
            let run = session.history_search().and_then(|past| past.users_words(*named, *named));
            let one = session.history_search().and_then(|past| past.message(*named));
            let (run, one) = (run.map_err(|e| e.to_string())?, one.map_err(|e| e.to_string())?);
            let recalled = run.into_iter().map(|(_, words)| words).chain(one.map(|(_, words)| words));
            if !recalled.into_iter().any(|words| words.contains(text.as_str())) {
                return Err(format!("recall of m{} does not bring the whole", named.0));
            }
        }
    }
    Ok(())
}

/// P13: no text of a user, a file, a tool or a rules file is there twice.
fn p13_once(request: &Sent, twice: usize) -> Result<(), String> {
    let texts = request.texts();
    let mut seen: HashMap<&str, (usize, usize)> = HashMap::new();
    // A continuation repeats the words beside an image that the model has answered, by design.
    let repeats = |text: &str| text.starts_with(MEDIA_PREFIX);
    for (n, text) in texts.iter().enumerate().filter(|(_, text)| !repeats(text)) {
        for (at, mark) in marks(text) {
            if matches!(&mark[1..2], "s" | "a") {
                continue;
            }
            let Some((m, before)) = seen.insert(mark, (n, at)) else { continue };
            let common = common(texts[m], before, text, at);
            if common.chars().count() > twice {
                return Err(format!(
                    "{} characters are in texts {m} and {n}: {}",
                    common.chars().count(),
                    start(&common)
                ));
            }
        }
    }
    Ok(())
}

/// The text that two texts have in common around these places.
fn common(a: &str, at: usize, b: &str, bt: usize) -> String {
    let back = a[..at].chars().rev().zip(b[..bt].chars().rev()).take_while(|(x, y)| x == y);
    let mut out: Vec<char> = back.map(|(x, _)| x).collect();
    out.reverse();
    out.extend(a[at..].chars().zip(b[bt..].chars()).take_while(|(x, y)| x == y).map(|(x, _)| x));
    out.into_iter().collect()
}

/// P14: the estimate is never more than 3 % below what is sent: so nothing goes out that does not fit.
fn p14_estimate(request: &Sent, promised: Option<Tokens>) -> Result<(), String> {
    let tokens = request.tokens();
    // In a small window a request may also use the reserve for the answer, an eighth of the window, but not more.
    let fit = if request.usable < SMALL { request.usable * 8 / 7 } else { request.usable };
    if tokens * 97 > (fit + WRAPPER) * 100 {
        return Err(format!("{tokens} tokens were sent where {fit} fit"));
    }
    match promised {
        // The promise is scaled by the provider's count of the last request, so it is less exact than the
        // estimate.
        Some(promised) if request.usable >= SMALL && tokens * 94 > (promised.0 + WRAPPER) * 100 => {
            Err(format!("a compaction said that {promised} tokens are left, and {tokens} were sent"))
        }
        _ => Ok(()),
    }
}

/// P15: the number of compactions is at most new tokens ÷ room that a compaction makes, rounded up, plus one for each
/// smaller window. Each message counts with all of its text, up to a window, although a request may show only a part:
/// results that do not fit are a reason for a compaction.
fn p15_bounded(entries: &[Entry], requests: &[Sent]) -> Result<(), String> {
    let mut shrunk = 0;
    let mut usable = u64::MAX;
    for request in requests {
        shrunk += u64::from(request.usable < usable);
        usable = request.usable;
    }
    let widest = requests.iter().map(|r| r.usable).max().unwrap_or_default();
    let messages = entries.iter().filter_map(|entry| match &entry.kind {
        EntryKind::Message { message } if !message.metadata.compaction_continue => Some(message),
        _ => None,
    });
    let new: u64 = messages.map(|message| estimate_message(message).0.min(widest)).sum();
    let compactions = entries.iter().filter_map(|entry| match &entry.kind {
        EntryKind::Compaction(c) if c.trigger != becket_types::CompactionTrigger::Manual => {
            Some(c.size.after.0)
        }
        _ => None,
    });
    let after: Vec<u64> = compactions.collect();
    let Some(most) = after.iter().max() else { return Ok(()) };
    let smallest = requests.iter().map(|r| r.usable).min().unwrap_or(usable);
    let room = (smallest * 9 / 10).saturating_sub(*most).max(1);
    let allowed = new.div_ceil(room) + shrunk;
    if after.len() as u64 > allowed {
        return Err(format!("{} compactions for {new} new tokens and {room} tokens of room", after.len()));
    }
    Ok(())
}

/// P16: one system message, at the start and nowhere else; alternating roles; every call answered at once; no empty content.
pub(crate) fn p16_templates(body: &Value) -> Result<(), String> {
    let messages = body["messages"].as_array().ok_or("no messages")?;
    let mut last = "";
    let mut open: Vec<&str> = Vec::new();
    for (n, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "system" && n > 0 {
            return Err(format!("message {n} is a second system message"));
        }
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            let at = open.iter().position(|o| *o == id).ok_or(format!("message {n} answers no call"))?;
            open.remove(at);
        } else {
            if !open.is_empty() {
                return Err(format!("message {n} comes before {open:?} are answered"));
            }
            if role == last {
                return Err(format!("messages {} and {n} are both of role {role}", n - 1));
            }
            if role == "assistant" && !matches!(last, "user" | "tool") {
                return Err(format!("message {n}: the assistant speaks after {last:?}"));
            }
            let calls = message["tool_calls"].as_array();
            open = calls.into_iter().flatten().filter_map(|c| c["id"].as_str()).collect();
            let empty = match &message["content"] {
                Value::String(text) => text.trim().is_empty(),
                Value::Array(blocks) => blocks.is_empty(),
                _ => true,
            };
            if empty && open.is_empty() {
                return Err(format!("message {n} ({role}) is empty"));
            }
        }
        last = role;
    }
    if !open.is_empty() {
        return Err(format!("the last calls are not answered: {open:?}"));
    }
    for family in FAMILIES.into_iter().filter(|family| AT_ONCE.contains(&family.name)) {
        if let Some(refusal) = JUDGE.refusal(family, messages) {
            return Err(format!("{} refuses: {refusal}", family.name));
        }
    }
    Ok(())
}
