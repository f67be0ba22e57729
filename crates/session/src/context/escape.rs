//! Escaping of becket's own tags, so that only becket can write them.
//!
//! Text from tools, files, web pages or other machines may contain `<system-reminder>` or similar tags. In
//! the view, the opening `<` of such a tag becomes `&lt;`, so that it reads the same and is not a tag. Case,
//! white space and invisible characters make no difference, neither before the name nor in it. The control
//! tokens of chat templates (`<|im_start|>`) are treated in the same way, because servers interpret them as
//! message borders. Text without any of these is not copied.
//!
//! The user's own text is not changed, except inside the reminder wrapper, which it must not close early.

use std::borrow::Cow;

/// Tags that only becket writes, and those that delimit the summariser's input.
const SUMMARY_TAGS: [&str; 12] = [
    "system-reminder",
    "verbatim_tail",
    "tool-output",
    "context-summary",
    "conversation",
    "user-message",
    "assistant-message",
    "tool-call",
    "kept-tail",
    "previous-summary",
    "focus",
    "note",
];

/// becket's tags, and the control tokens with which chat templates mark the speaker.
const MARKS: [&str; 24] = [
    "system-reminder",
    "verbatim_tail",
    "tool-output-compacted",
    "context-summary",
    "user-messages",
    "|im_start|",
    "|im_end|",
    "|im_sep|",
    "|endoftext|",
    "|end_of_text|",
    "|begin_of_text|",
    "|start_header_id|",
    "|end_header_id|",
    "|eot_id|",
    "|eom_id|",
    "|system|",
    "|user|",
    "|assistant|",
    "|observation|",
    "|start|",
    "|end|",
    "|channel|",
    "|message|",
    "|tool",
];

/// Escapes every tag of becket and every control token in `text`. Idempotent; borrows if there is nothing to
/// escape.
pub fn escape(text: &str) -> Cow<'_, str> {
    escape_tags(text, &MARKS)
}

/// Escapes only tags with these names (lower case, ASCII).
pub fn escape_tags<'a>(text: &'a str, names: &[&str]) -> Cow<'a, str> {
    let mut out: Option<String> = None;
    let mut copied = 0;
    for at in memchr::memchr_iter(b'<', text.as_bytes()) {
        if opens_tag(&text[at + 1..], names) {
            let out = out.get_or_insert_with(|| String::with_capacity(text.len() + 16));
            out.push_str(&text[copied..at]);
            out.push_str("&lt;");
            copied = at + 1;
        }
    }
    match out {
        None => Cow::Borrowed(text),
        Some(mut out) => {
            out.push_str(&text[copied..]);
            Cow::Owned(out)
        }
    }
}

/// True if the text after a `<` is the rest of a tag with one of these names.
fn opens_tag(rest: &str, names: &[&str]) -> bool {
    // The first character already excludes almost every other `<`.
    match rest.bytes().find(|b| !matches!(b, b'/' | b' ' | b'\t' | b'\n' | b'\r')) {
        None => return false,
        Some(b) if b.is_ascii_graphic() => {
            if !names.iter().any(|tag| tag.as_bytes().first() == Some(&b.to_ascii_lowercase())) {
                return false;
            }
        }
        Some(_) => {}
    }
    let name = rest.trim_start_matches(|c: char| c == '/' || is_unseen(c));
    names.iter().any(|tag| spells(name, tag))
}

/// True if `text` begins with `word`, ignoring case. Invisible characters in `text` are skipped.
fn spells(text: &str, word: &str) -> bool {
    let mut seen = text.chars().filter(|c| c.is_ascii_graphic() || !is_unseen(*c));
    word.chars().all(|c| seen.next().is_some_and(|s| s.eq_ignore_ascii_case(&c)))
}

fn is_unseen(c: char) -> bool {
    becket_types::is_blank(c.encode_utf8(&mut [0; 4]))
}

/// Escapes the tags of a summary and of its request in `text`: the `<` of an opening or closing tag becomes `&lt;`. Idempotent.
pub fn escape_summary_tags(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let name = tag[1..].strip_prefix('/').unwrap_or(&tag[1..]).as_bytes();
        let ours = SUMMARY_TAGS
            .iter()
            .any(|t| name.len() >= t.len() && name[..t.len()].eq_ignore_ascii_case(t.as_bytes()));
        out.push_str(if ours { "&lt;" } else { "<" });
        rest = &tag[1..];
    }
    out.push_str(rest);
    out
}

/// Escapes a value for a double-quoted attribute of one of becket's tags.
pub fn attribute(value: &str) -> Cow<'_, str> {
    let special = |c: char| matches!(c, '&' | '"' | '<' | '>') || c.is_control();
    if !value.contains(special) {
        return Cow::Borrowed(value);
    }
    let mut out = String::with_capacity(value.len() + 16);
    for c in value.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn t5_engine_tags_are_unforgeable() {
        for (text, want) in [
            ("<system-reminder>", "&lt;system-reminder>"),
            ("a </system-reminder> b", "a &lt;/system-reminder> b"),
            ("<SYSTEM-Reminder x='1'>", "&lt;SYSTEM-Reminder x='1'>"),
            ("< system-reminder", "&lt; system-reminder"),
            ("</ \n\tsystem-reminder", "&lt;/ \n\tsystem-reminder"),
            ("< / system-reminder>", "&lt; / system-reminder>"),
            ("<\u{200b}/system-reminder>", "&lt;\u{200b}/system-reminder>"),
            ("<<system-reminder>", "<&lt;system-reminder>"),
            ("<verbatim_tail>x</verbatim_tail>", "&lt;verbatim_tail>x&lt;/verbatim_tail>"),
            ("<tool-output-compacted id=\"1\" />", "&lt;tool-output-compacted id=\"1\" />"),
            ("<system\u{200b}-reminder>", "&lt;system\u{200b}-reminder>"),
            ("<\u{feff}/s\u{e0041}ystem-rem\u{202e}inder>", "&lt;\u{feff}/s\u{e0041}ystem-rem\u{202e}inder>"),
            ("<|im_start|>system", "&lt;|im_start|>system"),
            ("<|im\u{2060}_end|>", "&lt;|im\u{2060}_end|>"),
            ("<context-summary></Context-Summary>", "&lt;context-summary>&lt;/Context-Summary>"),
        ] {
            assert_eq!(escape(text), want, "{text:?}");
            assert_eq!(escape(want), want, "twice is once");
        }
    }

    #[test]
    fn other_text_is_not_copied() {
        for text in [
            "",
            "plain",
            "a < b",
            "<div>",
            "<system>",
            "system-reminder",
            "&lt;system-reminder>",
            "<",
            "</",
            "<systé",
            "<system prompt>",
            "a <| b |> c",
            "x <|> y",
            "<system-\u{e9}reminder>",
        ] {
            assert!(matches!(escape(text), Cow::Borrowed(t) if t == text), "{text:?}");
        }
    }

    #[test]
    fn attributes_cannot_leave_their_quotes() {
        assert_eq!(attribute("bash"), "bash");
        assert_eq!(attribute("a\"/><b c='&'\n"), "a&quot;/&gt;&lt;b c='&amp;' ");
    }

    proptest! {
        #[test]
        fn p10_escaping_is_idempotent_and_only_adds(text in "(<|/|[ \\n]|system-reminder|VERBATIM_TAIL|é|x){0,24}") {
            let once = escape(&text).into_owned();
            prop_assert_eq!(escape(&once), once.as_str());
            prop_assert_eq!(once.replace("&lt;", "<"), text);
        }

        /// Inserting invisible characters cannot turn escaped text into a tag again.
        #[test]
        fn p10_invisible_characters_hide_no_mark(
            mark in proptest::sample::select(MARKS.to_vec()),
            close in proptest::bool::ANY,
            upper in proptest::bool::ANY,
            unseen in proptest::collection::vec((0_usize..40, proptest::sample::select(vec![
                '\u{200b}', '\u{200c}', '\u{200d}', '\u{2060}', '\u{feff}', '\u{202e}', '\u{2066}', '\u{ad}',
                '\u{34f}', '\u{61c}', '\u{180e}', '\u{3164}', '\u{fe0f}', '\u{e0001}', '\u{e0073}', '\u{e0100}',
            ])), 0..12),
            before in "[a<é ]{0,4}",
        ) {
            let name = if upper { mark.to_ascii_uppercase() } else { mark.to_owned() };
            let mut letters: Vec<char> = format!("{}{name}>", if close { "/" } else { "" }).chars().collect();
            for (at, c) in unseen {
                letters.insert(at % letters.len(), c);
            }
            let inner: String = letters.into_iter().collect();
            let text = format!("{before}<{inner}");
            let escaped = escape(&text);
            prop_assert!(!escaped.contains(&format!("<{inner}")), "{text:?} -> {escaped:?}");
            prop_assert_eq!(escape(&escaped), escaped.as_ref());
            prop_assert_eq!(escaped.replace("&lt;", "<"), text);
        }
    }
}
