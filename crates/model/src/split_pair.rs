//! Joins a character whose two halves a server sent in two events of a stream.
//!
//! Servers that write JSON with escapes, and cut their deltas by UTF-16 code units, end one delta with `\ud83d` and begin the next
//! with `\ude00`. Each alone would become U+FFFD. So an event whose string ends in the first half waits for the next event,
//! which gets that half if it begins with the second one.
//!
//! Pure. Costs a search for a backslash in events without such a half.

/// True if a string in the event ends in the first half of a pair.
pub(crate) fn is_cut(data: &str) -> bool {
    // Most events have no escape at all, and most escapes are `\n`.
    memchr::memchr_iter(b'\\', data.as_bytes())
        .any(|at| matches!(data.as_bytes().get(at + 1..at + 3), Some(b"ud" | b"uD")))
        && !halves(data).first_at_end.is_empty()
}

/// Moves the halves at the ends of strings in `held` to the starts of strings in the event after it, and returns that event.
/// `None`, and nothing is changed, if it does not begin as many strings with a second half.
pub(crate) fn join(held: &mut String, data: &str) -> Option<String> {
    let (first, second) = (halves(held).first_at_end, halves(data).second_at_start);
    if first.is_empty() || first.len() != second.len() {
        return None;
    }
    let mut joined = data.to_owned();
    // From the end, so that the positions before stay valid.
    for (from, to) in first.into_iter().zip(second).rev() {
        let half: String = held.drain(from..from + ESCAPE).collect();
        joined.insert_str(to, &half);
    }
    Some(joined)
}

/// Length of `\uXXXX`.
const ESCAPE: usize = 6;

/// Positions of lone halves in a JSON text.
#[derive(Default)]
struct Halves {
    /// First halves that are the last character of their string.
    first_at_end: Vec<usize>,
    /// Second halves that are the first character of their string.
    second_at_start: Vec<usize>,
}

fn halves(json: &str) -> Halves {
    let unit = |at: usize| {
        let hex = json.get(at..at + ESCAPE)?.strip_prefix("\\u")?;
        u16::from_str_radix(hex, 16).ok()
    };
    let bytes = json.as_bytes();
    let mut out = Halves::default();
    // End of the escape before: a quote there is a character of the string, not its start.
    let mut end = 0;
    while let Some(at) = bytes.get(end..).and_then(|rest| memchr::memchr(b'\\', rest)).map(|at| end + at) {
        let length = match unit(at) {
            Some(0xD800..=0xDBFF) if matches!(unit(at + ESCAPE), Some(0xDC00..=0xDFFF)) => 2 * ESCAPE,
            Some(0xD800..=0xDBFF) => {
                if bytes.get(at + ESCAPE) == Some(&b'"') {
                    out.first_at_end.push(at);
                }
                ESCAPE
            }
            Some(0xDC00..=0xDFFF) => {
                if at > end && bytes.get(at - 1) == Some(&b'"') {
                    out.second_at_start.push(at);
                }
                ESCAPE
            }
            // The rest of the escape is plain text.
            _ => 2,
        };
        end = at + length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_pair_is_joined_only_between_an_end_and_a_start() {
        for (held, data, want) in [
            (r#"{"a":"x\ud83d"}"#, r#"{"a":"\ude00y"}"#, Some((r#"{"a":"x"}"#, r#"{"a":"\ud83d\ude00y"}"#))),
            (
                r#"["\uD83D","\ud83d"]"#,
                r#"["\ude00","\ude01"]"#,
                Some((r#"["",""]"#, r#"["\uD83D\ude00","\ud83d\ude01"]"#)),
            ),
            // The number of halves differs, or a half is not at the border of its string.
            (r#"["\ud83d","\ud83d"]"#, r#"["\ude00"]"#, None),
            (r#"["\ud83d"]"#, r#"["x"]"#, None),
            (r#"["\ud83d"]"#, r#"["x\ude00"]"#, None),
            (r#"["\ud83d"]"#, r#"["\"\ude00"]"#, None),
            (r#"["\ud83dx"]"#, r#"["\ude00"]"#, None),
            (r#"["\\ud83d"]"#, r#"["\ude00"]"#, None),
            (r#"["\ud83d"]"#, r#"["\\ude00"]"#, None),
            (r#"["\ud83d\ude00"]"#, r#"["\ude00"]"#, None),
        ] {
            let mut left = held.to_owned();
            let joined = join(&mut left, data);
            let got = joined.as_deref().map(|joined| (left.as_str(), joined));
            assert_eq!(got, want, "{held} {data}");
            if want.is_none() {
                assert_eq!(left, held);
            }
        }
        assert!(is_cut(r#"{"a":"\n\uD83D"}"#));
        assert!(!is_cut(r#"{"a":"\n\\ud83d"}"#) && !is_cut(r#"{"a":"\ud83dx"}"#) && !is_cut("{}"));
    }

    proptest! {
        /// A text that is cut anywhere between its code units is read as it was, if each event is one string.
        #[test]
        fn a_text_cut_anywhere_stays_whole(text in "[a😀é\"\\\\𝄞]{0,12}", at in any::<prop::sample::Index>()) {
            let units: Vec<u16> = text.encode_utf16().collect();
            let (a, b) = units.split_at(at.index(units.len() + 1));
            let json = |units: &[u16]| {
                let escapes: Vec<String> = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
                format!("\"{}\"", escapes.concat())
            };
            let (mut held, mut data) = (json(a), json(b));
            if is_cut(&held) {
                data = join(&mut held, &data).unwrap();
            }
            let parts: [String; 2] = [&held, &data].map(|json| serde_json::from_str(json).unwrap());
            prop_assert_eq!(parts.concat(), text);
        }

        #[test]
        fn no_text_breaks_it(held in r#"["\\ud83e0é]{0,30}"#, data in r#"\PC{0,20}|["\\ud83e0é]{0,30}"#) {
            let mut left = held;
            let _ = (is_cut(&left), join(&mut left, &data));
        }
    }
}
