//! Long pastes in a message of the user: their ranges, which are stored with the text in the ledger, and the chips that
//! represent them.

use becket_types::Part;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::ops::Range;

/// Field of a text part with the byte ranges that were pasted: `[[from, to], …]`.
const KEY: &str = "pasted";

/// Returns a text part that records which of its bytes were pasted.
pub fn part(text: String, pasted: &[Range<usize>]) -> Part {
    let mut extra = Map::new();
    if !pasted.is_empty() {
        let ranges: Vec<Value> = pasted.iter().map(|range| json!([range.start, range.end])).collect();
        extra.insert(KEY.to_owned(), Value::Array(ranges));
    }
    Part::Text { text, synthetic: false, ignored: false, spill: None, extra }
}

/// Returns the pastes in `parts`, as byte ranges of the parts' texts joined by line ends. Ranges that do not fit a text
/// are ignored, because other programs may have written the ledger.
pub fn ranges(parts: &[Part]) -> Vec<Range<usize>> {
    let (mut out, mut at): (Vec<Range<usize>>, usize) = (Vec::new(), 0);
    for part in parts {
        let Part::Text { text, extra, .. } = part else { continue };
        let from = if at == 0 { 0 } else { at + 1 };
        for range in extra.get(KEY).and_then(Value::as_array).into_iter().flatten() {
            let bound = |n: usize| range.get(n).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
            let (Some(start), Some(end)) = (bound(0), bound(1)) else { continue };
            let after_last = out.last().is_none_or(|last| last.end <= from + start);
            if start < end && after_last && text.get(start..end).is_some() {
                out.push(from + start..from + end);
            }
        }
        at = from + text.len();
    }
    out
}

/// Returns the chip for a paste.
pub fn label(text: &str) -> String {
    match text.lines().count() {
        0 | 1 => format!("[pasted {} characters]", text.chars().count()),
        lines => format!("[pasted {lines} lines]"),
    }
}

/// Returns `text` with a chip for each paste.
pub fn closed<'a>(text: &'a str, pasted: &[Range<usize>]) -> Cow<'a, str> {
    if pasted.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut out, mut at) = (String::new(), 0);
    for range in pasted {
        out.push_str(text.get(at..range.start).unwrap_or_default());
        out.push_str(&label(text.get(range.clone()).unwrap_or_default()));
        at = range.end;
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
        let ranges = ranges(&parts);
        assert_eq!(&joined[ranges[0].clone()], "a\nb\nc\n");
        assert_eq!(closed(&joined, &ranges), "I ran `ls`\nlook:\n[pasted 3 lines]and say");
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
            assert!(ranges(&parts).is_empty(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn the_ledger_gives_back_what_was_pasted(before in "[a-zé\n]{0,20}", paste in "[a-z日\n]{1,40}", after in ".{0,20}") {
            let range = before.len()..before.len() + paste.len();
            let written = serde_json::to_string(&part(format!("{before}{paste}{after}"), std::slice::from_ref(&range))).unwrap();
            let read: Part = serde_json::from_str(&written).unwrap();
            prop_assert_eq!(ranges(&[read]), vec![range]);
        }
    }
}
