//! Long parts of a message that the user did not type: pastes, and the prompt that a command stands for. Their ranges, which are stored
//! with the text in the ledger, and the chips that represent them.

use becket_types::Part;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::ops::Range;

/// Field of a text part with the byte ranges that were pasted: `[[from, to], …]`.
const KEY: &str = "pasted";
/// Field of a text part with the command that its text was made from, as the user wrote it.
const COMMAND: &str = "command";

/// Field of a text part that tells the model what this shell command of the user printed.
const SHELL: &str = "shell";

/// A part of a message's text that is shown as a few words while the message is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chip {
    pub range: Range<usize>,
    /// The words that are shown in place of the text; `None` for a paste.
    pub label: Option<String>,
}

impl Chip {
    /// Returns the words that represent the part of `text`.
    fn label(&self, text: &str) -> String {
        self.label.clone().unwrap_or_else(|| label(text.get(self.range.clone()).unwrap_or_default()))
    }
}

/// Returns a text part that records which of its bytes were pasted.
pub fn part(text: String, pasted: &[Range<usize>]) -> Part {
    let mut extra = Map::new();
    if !pasted.is_empty() {
        let ranges: Vec<Value> = pasted.iter().map(|range| json!([range.start, range.end])).collect();
        extra.insert(KEY.to_owned(), Value::Array(ranges));
    }
    Part::Text { text, synthetic: false, ignored: false, spill: None, extra }
}

/// Returns a text part that records the command that its text was made from.
pub(crate) fn of_command(text: String, command: &str) -> Part {
    let extra = Map::from_iter([(COMMAND.to_owned(), json!(command))]);
    Part::Text { text, synthetic: false, ignored: false, spill: None, extra }
}

/// Returns a text part with what a shell command of the user printed.
pub fn of_shell(text: String, command: &str) -> Part {
    let extra = Map::from_iter([(SHELL.to_owned(), json!(command))]);
    Part::Text { text, synthetic: false, ignored: false, spill: None, extra }
}

/// Returns the command that a text part was made from.
fn command(extra: &Map<String, Value>) -> Option<&str> {
    extra.get(COMMAND).and_then(Value::as_str).filter(|command| command.starts_with('/'))
}

/// Returns the shell command whose output a text part has, in one line.
fn shell(extra: &Map<String, Value>) -> Option<&str> {
    extra.get(SHELL).and_then(Value::as_str)?.lines().next()
}

/// Returns the words for a text part that the user did not write.
fn label_of(extra: &Map<String, Value>) -> Option<String> {
    let command = command(extra).map(str::to_owned);
    command.or_else(|| shell(extra).map(|command| format!("[output of {command}]")))
}

/// Returns the text of a message with each command as the user wrote it, without the output of shell commands.
pub fn as_written(parts: &[Part]) -> String {
    let written = |part: &Part| match part {
        Part::Text { extra, .. } if shell(extra).is_some() => None,
        Part::Text { text, extra, .. } => Some(command(extra).unwrap_or(text).to_owned()),
        _ => None,
    };
    parts.iter().filter_map(written).collect::<Vec<_>>().join("\n")
}

/// Returns the chips in `parts`, as byte ranges of the parts' texts joined by line ends. Ranges that do not fit a text
/// are ignored, because other programs may have written the ledger.
pub(crate) fn chips(parts: &[Part]) -> Vec<Chip> {
    let (mut out, mut at): (Vec<Chip>, usize) = (Vec::new(), 0);
    for part in parts {
        let Part::Text { text, extra, .. } = part else { continue };
        let from = if at == 0 { 0 } else { at + 1 };
        if let Some(label) = label_of(extra) {
            at = from + text.len();
            out.push(Chip { range: from..at, label: Some(label) });
            continue;
        }
        for range in extra.get(KEY).and_then(Value::as_array).into_iter().flatten() {
            let bound = |n: usize| range.get(n).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
            let (Some(start), Some(end)) = (bound(0), bound(1)) else { continue };
            let after_last = out.last().is_none_or(|last| last.range.end <= from + start);
            if start < end && after_last && text.get(start..end).is_some() {
                out.push(Chip { range: from + start..from + end, label: None });
            }
        }
        at = from + text.len();
    }
    out
}

/// Returns the words that represent a paste.
pub fn label(text: &str) -> String {
    match text.lines().count() {
        0 | 1 => format!("[pasted {} characters]", text.chars().count()),
        lines => format!("[pasted {lines} lines]"),
    }
}

/// Returns `text` with the words of each chip.
pub fn closed<'a>(text: &'a str, chips: &[Chip]) -> Cow<'a, str> {
    if chips.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut out, mut at) = (String::new(), 0);
    for chip in chips {
        out.push_str(text.get(at..chip.range.start).unwrap_or_default());
        out.push_str(&chip.label(text));
        at = chip.range.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_types::Message;
    use proptest::prelude::*;

    #[test]
    fn a_paste_is_a_chip_also_behind_other_parts() {
        let text = "look:\na\nb\nc\nand say".to_owned();
        let range = 6..12;
        let parts = [Part::text("I ran `ls`"), part(text, &[range])];
        let joined =
            Message::new(becket_types::Role::User, becket_types::Origin::User, parts.to_vec()).text();
        let chips = chips(&parts);
        assert_eq!(&joined[chips[0].range.clone()], "a\nb\nc\n");
        assert_eq!(closed(&joined, &chips), "I ran `ls`\nlook:\n[pasted 3 lines]and say");
        assert_eq!(as_written(&parts), joined);
    }

    #[test]
    fn the_prompt_of_a_command_is_the_command_also_behind_other_parts() {
        let prompt = of_command("Look at the changes.\nSay what is wrong.".to_owned(), "/review a.rs");
        let written = serde_json::to_string(&prompt).unwrap();
        let parts = [of_shell("I ran `ls`:\na b".to_owned(), "ls"), serde_json::from_str(&written).unwrap()];
        let joined =
            Message::new(becket_types::Role::User, becket_types::Origin::User, parts.to_vec()).text();
        assert!(joined.ends_with("Say what is wrong."));
        assert_eq!(closed(&joined, &chips(&parts)), "[output of ls]\n/review a.rs");
        assert_eq!(as_written(&parts), "/review a.rs");
    }

    #[test]
    fn ranges_that_fit_nothing_count_for_nothing() {
        for bad in
            [json!([[3, 99]]), json!([[2, 2]]), json!("x"), json!([[1]]), json!([[1, 2]]), json!([["a", 2]])]
        {
            let Part::Text { text, .. } = Part::text("日本") else { unreachable!() };
            let mut extra = Map::new();
            extra.insert(KEY.to_owned(), bad.clone());
            let parts = [Part::Text { text, synthetic: false, ignored: false, spill: None, extra }];
            assert!(chips(&parts).is_empty(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn the_ledger_gives_back_what_was_pasted(before in "[a-zé\n]{0,20}", paste in "[a-z日\n]{1,40}", after in ".{0,20}") {
            let range = before.len()..before.len() + paste.len();
            let written = serde_json::to_string(&part(format!("{before}{paste}{after}"), std::slice::from_ref(&range))).unwrap();
            let read: Part = serde_json::from_str(&written).unwrap();
            prop_assert_eq!(chips(&[read]), vec![Chip { range, label: None }]);
        }
    }
}
