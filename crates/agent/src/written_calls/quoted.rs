//! Tells calls from examples: code blocks, inline code, words that introduce an example, and the text after a call. Pure.

/// The marker of a code block, which may contain anything.
pub(super) const FENCE: &str = "```";

/// Words before a call, or after it, that say that it is an example.
const INTRODUCES: [&str; 17] = [
    "example",
    "for instance",
    "look like",
    "looks like",
    "looked like",
    "like this",
    "such as",
    "e.g.",
    "format",
    "syntax",
    "template",
    "payload",
    "is how",
    "would be",
    "would look",
    "is written",
    "are written",
];
/// Longest text after a call that still counts as its end, in bytes.
const LONGEST_REMARK: usize = 240;

/// True if a code block is open at `at`.
pub(super) fn in_fence(text: &str, at: usize) -> bool {
    text.get(..at).unwrap_or_default().matches(FENCE).count() % 2 == 1
}

/// True if the call at `at` only shows how a call is written. `known`: the tool exists. A call of a known tool outside of code
/// blocks is not an example, whatever is written before it.
pub(super) fn is_example(text: &str, at: usize, known: bool) -> bool {
    let fenced = in_fence(text, at);
    (!fenced && in_inline_code(text, at)) || ((fenced || !known) && is_introduced(text, at, fenced))
}

/// True if the text after a call of a known tool, which begins at `at`, does not go on: one sentence, or the output that the
/// model imagines.
pub(super) fn is_over(text: &str, at: usize, rest: &str) -> bool {
    let rest = after_marks(rest);
    if rest.starts_with("Observation:") {
        return true;
    }
    let sentence = rest.trim();
    let is_one = sentence.len() <= LONGEST_REMARK
        && !sentence.contains('\n')
        && ![". ", "! ", "? "].iter().any(|end| sentence.contains(end));
    is_one && !introduces(sentence) && !is_introduced(text, at, false)
}

/// True if only markers and white space are left.
pub(super) fn is_only_marks(rest: &str) -> bool {
    after_marks(rest).is_empty()
}

/// Returns the text after the markers and the white space at its beginning.
fn after_marks(rest: &str) -> &str {
    let mut at = 0;
    while let Some(rest) = rest.get(at..).filter(|rest| !rest.is_empty()) {
        let Some(first) = rest.chars().next() else { break };
        let closes = |end: char| rest.find(end).map_or(rest.len(), |found| found + end.len_utf8());
        at += match first {
            _ if rest.starts_with(FENCE) => FENCE.len(),
            '<' => closes('>'),
            '[' => closes(']'),
            c if c.is_whitespace() || matches!(c, '}' | ')' | ']' | '>' | ';') => c.len_utf8(),
            _ => break,
        };
    }
    rest.get(at..).unwrap_or_default()
}

/// True if `at` is between backticks of its line.
fn in_inline_code(text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.matches('`').count() % 2 == 1
}

/// True if the last paragraph before the call at `at`, or before its code block, introduces an example.
fn is_introduced(text: &str, at: usize, fenced: bool) -> bool {
    let before = text.get(..at).unwrap_or_default();
    let before = if fenced { before.rsplit_once(FENCE).map_or("", |(before, _)| before) } else { before };
    introduces(before.trim_end().rsplit("\n\n").next().unwrap_or_default())
}

fn introduces(text: &str) -> bool {
    let text = text.to_lowercase();
    INTRODUCES.iter().any(|word| text.contains(word))
}
