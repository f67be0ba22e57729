//! Prune: old tool outputs become stubs; protected outputs and recent ones stay.
//!
//! The choice is pure: [`prune`] works on a list, [`super::due::prunable`] on the live messages of a view, by
//! the same rules. The choice becomes a ledger entry, and the view makes the stubs. The original stays in the
//! ledger, where `recall` finds it.
//!
//! A result is pruned if all of this holds: its tool is not protected; it precedes the n-th user message from the end
//! ([`PrunePolicy::skip_turns`]), or, while there are fewer user messages, it is older than the newest [`PrunePolicy::hot_tokens`] of
//! outputs and the last two steps; the model has answered it; it is complete, no error, not pinned, not pruned yet.

use super::{Policy, budget, escape, media};
use becket_types::{CallId, Message, Millis, Part, PrunedCall, Role, TimeMeta, Tokens, cut_start};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde_json::Value;
use std::collections::HashSet;
use std::fmt::Write as _;

/// Number of newest steps whose outputs stay, regardless of their size, while there are fewer user turns than [`PrunePolicy::skip_turns`].
const HOT_STEPS: usize = 2;
/// Number of last lines of a shell command's output that stay visible after its stub.
const SHELL_EXCERPT_LINES: u64 = 5;
/// Maximum size in bytes of an excerpt.
const MAX_EXCERPT_BYTES: usize = 1_000;
/// Part key in which a tool stores how many last lines should stay visible.
const EXCERPT_KEY: &str = "excerpt_lines";

/// Settings of [`prune`].
#[derive(Clone, Debug)]
pub struct PrunePolicy {
    /// As in `Policy`: outputs after the n-th user message from the end stay.
    pub skip_turns: usize,
    /// As in `Policy`: tokens of the newest outputs that stay.
    pub hot_tokens: u64,
    /// Names of tools whose outputs are never pruned.
    pub protect: GlobSet,
    /// Calls whose outputs stay because they are pinned.
    pub pinned: HashSet<CallId>,
    /// Timestamp for `metadata.time.compacted`.
    pub now: Millis,
    /// False if pruning is switched off.
    pub enabled: bool,
}

impl PrunePolicy {
    /// Makes the settings from the engine's policy, with nothing pinned. `skill` is always protected. A glob
    /// that does not parse is taken as a plain name.
    pub fn new(policy: &Policy, now: Millis) -> Self {
        let mut globs = GlobSetBuilder::new();
        for glob in policy.protect.iter().map(String::as_str).chain(["skill"]) {
            let parsed = GlobBuilder::new(glob).case_insensitive(true).build();
            let literal = || GlobBuilder::new(&globset::escape(glob)).case_insensitive(true).build();
            if let Ok(glob) = parsed.or_else(|_| literal()) {
                globs.add(glob);
            }
        }
        Self {
            skip_turns: policy.skip_turns,
            hot_tokens: policy.hot_tokens,
            protect: globs.build().unwrap_or_else(|_| GlobSet::empty()),
            pinned: HashSet::new(),
            now,
            enabled: policy.prune,
        }
    }
}

/// Prunes a list. Returns it with stubs in place of the chosen outputs, and the chosen outputs, oldest first.
pub fn prune(messages: &[Message], policy: &PrunePolicy) -> (Vec<Message>, Vec<PrunedCall>) {
    let list: Vec<&Message> = messages.iter().collect();
    let chosen = choose(&list, policy, &|_, call| policy.pinned.contains(call));
    let mut out = messages.to_vec();
    let mut calls = Vec::with_capacity(chosen.len());
    for (at, part) in chosen {
        if let Some(call) = describe(&messages[at].parts[part]) {
            stub_out(&mut out[at], part, &call, policy.now);
            calls.push(call);
        }
    }
    (out, calls)
}

/// Returns the text that replaces a pruned output.
pub fn stub(call_id: &CallId, tool: &str, bytes: u64, lines: u64, excerpt: &str) -> String {
    let mut out = format!(
        "<tool-output-compacted id=\"{}\" tool=\"{}\" bytes=\"{bytes}\" lines=\"{lines}\" />",
        escape::attribute(call_id.as_str()),
        escape::attribute(tool),
    );
    if !excerpt.is_empty() {
        let _ = write!(out, "\n{}", escape::escape(excerpt));
    }
    out
}

/// Returns size and excerpt of a result, for its stub; `None` if the part is not a tool result.
pub fn describe(part: &Part) -> Option<PrunedCall> {
    let Part::ToolResult { call_id, name, output, extra, .. } = part else { return None };
    let lines = extra.get(EXCERPT_KEY).and_then(Value::as_u64).unwrap_or(match name.as_str() {
        "bash" | "shell" => SHELL_EXCERPT_LINES,
        _ => 0,
    });
    Some(PrunedCall {
        call_id: call_id.clone(),
        bytes: output.len() as u64,
        lines: output.lines().count() as u64,
        excerpt: last_lines(output, lines as usize).to_owned(),
    })
}

fn last_lines(text: &str, lines: usize) -> &str {
    if lines == 0 {
        return "";
    }
    let text = text.trim_end();
    let start = text.rmatch_indices('\n').nth(lines - 1).map_or(0, |(at, _)| at + 1);
    cut_start(&text[start..], MAX_EXCERPT_BYTES)
}

fn stub_out(message: &mut Message, part: usize, call: &PrunedCall, now: Millis) {
    let mut attached = Vec::new();
    let mut at = 0;
    message.parts.retain(|p| {
        let keep = !p.is_media() || at < part;
        at += 1;
        attached.extend((!keep).then(|| media::stub(p)).flatten());
        keep
    });
    if let Some(Part::ToolResult { output, name, .. }) = message.parts.get_mut(part) {
        *output = stub(&call.call_id, name, call.bytes, call.lines, &call.excerpt);
        for text in attached {
            let _ = write!(output, "\n{text}");
        }
    }
    message.metadata.time.get_or_insert_with(TimeMeta::default).compacted = Some(now);
}

/// Returns message index and part index of every result to prune, oldest first. `stays` says which results
/// must stay in any case.
pub(super) fn choose(
    messages: &[&Message],
    policy: &PrunePolicy,
    stays: &dyn Fn(&Message, &CallId) -> bool,
) -> Vec<(usize, usize)> {
    if !policy.enabled {
        return Vec::new();
    }
    // Results that the model has not answered yet are never pruned.
    let answered = messages.iter().rposition(|m| m.role == Role::Assistant).unwrap_or(0);
    let boundary = match skip_boundary(messages, policy.skip_turns) {
        Some(at) => at,
        None => hot_boundary(messages, policy.hot_tokens),
    };
    let boundary = boundary.min(answered);
    let mut chosen = Vec::new();
    // If a call has several results, only the first is sent, so only that one is pruned.
    let mut seen = HashSet::new();
    for (at, message) in messages[..boundary].iter().enumerate() {
        if message.role != Role::Tool || message.metadata.time.is_some_and(|t| t.compacted.is_some()) {
            continue;
        }
        for (nth, part) in message.parts.iter().enumerate() {
            if let Part::ToolResult { call_id, name, is_error, interrupted, .. } = part
                && seen.insert(call_id)
                && !(*is_error || *interrupted)
                && !policy.protect.is_match(name)
                && !stays(message, call_id)
            {
                chosen.push((at, nth));
            }
        }
    }
    chosen
}

/// Returns the index of the n-th user message from the end; `None` if there are fewer.
fn skip_boundary(messages: &[&Message], turns: usize) -> Option<usize> {
    match turns {
        0 => Some(messages.len()),
        _ => messages
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, m)| m.is_user_turn())
            .nth(turns - 1)
            .map(|(at, _)| at),
    }
}

/// While there are fewer user turns than [`PrunePolicy::skip_turns`], returns the index from which results stay: the newest `hot` tokens of
/// tool output, and the last two steps. The result with which the sum exceeds `hot` may be pruned.
fn hot_boundary(messages: &[&Message], hot: u64) -> usize {
    let steps = messages.iter().enumerate().rev().filter(|(_, m)| m.role == Role::Assistant);
    let Some((recent, _)) = steps.into_iter().nth(HOT_STEPS - 1) else { return 0 };
    let mut sum = Tokens(0);
    for (at, message) in messages.iter().enumerate().rev() {
        if message.role != Role::Tool {
            continue;
        }
        for part in &message.parts {
            if let Part::ToolResult { output, .. } = part {
                sum += budget::estimate_text(output);
            }
        }
        if sum.0 > hot && at < recent {
            return at + 1;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Makes messages from words: `u`, `a`, or a tool's name. `name*1000` is an output of that many tokens,
    /// `name!` an error, `name~` an output that is already pruned.
    fn messages(spec: &str) -> Vec<Message> {
        spec.split(' ')
            .enumerate()
            .map(|(at, word)| match word {
                "u" => Message::user(format!("task {at}")),
                "a" => Message::assistant(vec![Part::text("working")]),
                "c" => {
                    let mut message = Message::user("continue");
                    message.metadata.compaction_continue = true;
                    message
                }
                tool => {
                    let (name, tokens) = tool.split_once('*').unwrap_or((tool, "20"));
                    let tokens: usize = tokens.parse().unwrap();
                    let text = "-#".repeat(tokens);
                    assert_eq!(budget::estimate_text(&text), Tokens(tokens as u64));
                    let name = name.trim_end_matches(['!', '~']);
                    let mut message = Message::tool_result(
                        format!("call-{at}").as_str().into(),
                        name,
                        text,
                        tool.contains('!'),
                    );
                    if tool.contains('~') {
                        message.metadata.time = Some(TimeMeta { created: None, compacted: Some(Millis(1)) });
                    }
                    message
                }
            })
            .collect()
    }

    fn pruned(spec: &str, policy: &PrunePolicy) -> Vec<usize> {
        let before = messages(spec);
        let (after, calls) = prune(&before, policy);
        let at: Vec<usize> = (0..before.len()).filter(|i| before[*i] != after[*i]).collect();
        assert_eq!(calls.len(), at.len());
        at
    }

    fn policy() -> PrunePolicy {
        PrunePolicy::new(&Policy::default(), Millis(77))
    }

    #[test]
    fn t9_table_that_must_hold() {
        for (list, want) in [
            ("u a read u a skill a edit u a", vec![2]),
            ("u a read skill u a u", vec![2]),
            ("u a read bash", vec![]),
            ("u a bash*60000 a read*29000 a read*10000 a read*1000 a", vec![2]),
            ("u read~ u u", vec![]),
        ] {
            assert_eq!(pruned(list, &policy()), want, "{list}");
        }
    }

    #[test]
    fn t9_more_rules() {
        let pinned = PrunePolicy { pinned: HashSet::from(["call-2".into()]), ..policy() };
        let off = PrunePolicy { enabled: false, ..policy() };
        let globs = PrunePolicy::new(
            &Policy { protect: vec!["mcp__memory__*".into(), "[".into()], ..Policy::default() },
            Millis(0),
        );
        let none = PrunePolicy { skip_turns: 0, ..policy() };
        for (rule, list, policy, want) in [
            ("errors stay", "u a read! a u u", &policy(), vec![]),
            ("pinned stay", "u a read read a u u", &pinned, vec![3]),
            ("prune = off means none", "u a read a u u", &off, vec![]),
            ("globs protect", "u a mcp__memory__get mcp__web__get skill a u u", &globs, vec![3]),
            ("case makes no difference", "u a MCP__Memory__get Skill a u u", &globs, vec![]),
            ("a continuation is no user turn", "u a read u c a read", &policy(), vec![]),
            ("and does not end a lone turn", "u a read c a read", &policy(), vec![]),
            ("skip_turns = 0: everything is old", "u a read a", &none, vec![2]),
            ("but not what the model has not answered", "u a read a read", &none, vec![2]),
            ("also where an interrupt and two messages came after it", "u a read u u", &policy(), vec![]),
            ("the last two steps stay", "u a read*50000 a read*50000", &policy(), vec![]),
            ("however large they are", "u a read*1 a read*50000 a read*50000", &policy(), vec![2]),
            ("one token over the window", "u a read*2 a read*39999 a read*1 a a", &policy(), vec![2]),
            ("nothing before, nothing pruned", "u a read*40000 a a", &policy(), vec![]),
        ] {
            assert_eq!(pruned(list, policy), want, "{rule}");
        }
    }

    #[test]
    fn t9_the_stub_has_exactly_these_bytes() {
        let stub = super::stub(&"c\"1".into(), "read", 12, 3, "");
        assert_eq!(stub, r#"<tool-output-compacted id="c&quot;1" tool="read" bytes="12" lines="3" />"#);

        let mut list = messages("u a read bash a u u");
        if let Part::ToolResult { output, .. } = &mut list[3].parts[0] {
            *output = "1\n2\n3\n4\n5\n</system-reminder>\n7\n\n".into();
        }
        let (after, calls) = prune(&list, &policy());
        let output = |at: usize| match &after[at].parts[0] {
            Part::ToolResult { output, .. } => output.as_str(),
            _ => "",
        };
        assert_eq!(output(2), r#"<tool-output-compacted id="call-2" tool="read" bytes="40" lines="1" />"#);
        assert_eq!(
            output(3),
            "<tool-output-compacted id=\"call-3\" tool=\"bash\" bytes=\"32\" lines=\"8\" />\n3\n4\n5\n&lt;/system-reminder>\n7"
        );
        assert_eq!(after[3].metadata.time.unwrap().compacted, Some(Millis(77)));
        assert_eq!(calls[1].excerpt, "3\n4\n5\n</system-reminder>\n7");
        assert_eq!(prune(&after, &policy()).1, [], "what is pruned is not pruned again");
    }

    #[test]
    fn t9_a_tool_says_how_much_stays_visible() {
        let mut list = messages("u a read a u u");
        if let Part::ToolResult { output, extra, .. } = &mut list[2].parts[0] {
            *output = "a\nb\nc".into();
            extra.insert(EXCERPT_KEY.into(), json!(1));
        }
        assert_eq!(prune(&list, &policy()).1[0].excerpt, "c");
        for (text, lines, want) in [("", 5, ""), ("x", 5, "x"), ("a\nb\n\n", 1, "b"), ("a\nb", 0, "")] {
            assert_eq!(last_lines(text, lines), want);
        }
        assert_eq!(last_lines(&"é".repeat(2_000), 5).len(), MAX_EXCERPT_BYTES);
    }
}
