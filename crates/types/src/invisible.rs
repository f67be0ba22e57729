//! Characters that a person cannot see.
//!
//! Owns which characters count as hidden, and [`clean`], which shows them as `<U+202E>`: they can carry
//! instructions past a human reviewer (tag characters, bidirectional overrides, runs of variation selectors).
//! Characters that real writing needs stay: joiners between letters of joining scripts and inside emoji, flag
//! sequences, marks of right-to-left text, and one variation selector after a character that has variants.
//!
//! Changes nothing printable. Does not judge meaning.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns `text` with invisible characters made visible. Borrows if there are none; plain ASCII costs one
/// scan. Calling it twice changes nothing.
pub fn clean(text: &str) -> Cow<'_, str> {
    if is_plain(text.as_bytes()) {
        return Cow::Borrowed(text);
    }
    let Some(first) = first_hidden(text) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len() + 64);
    out.push_str(&text[..first]);
    let mut hidden: Vec<char> = Vec::new();
    walk(text, first, |_, c, hide| {
        if hide {
            hidden.push(c);
        } else {
            show(&mut out, &mut hidden);
            out.push(c);
        }
        true
    });
    show(&mut out, &mut hidden);
    Cow::Owned(out)
}

/// Returns `text` with each hidden character as `show` writes it. `also`: further characters that count as hidden. Borrows if
/// there are none.
pub fn show_hidden(
    text: &str,
    also: impl Fn(char) -> bool,
    mut show: impl FnMut(&mut String, char),
) -> Cow<'_, str> {
    if is_plain(text.as_bytes()) && !text.chars().any(&also) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 64);
    let mut any = false;
    walk(text, 0, |_, c, hide| {
        if hide || also(c) {
            any = true;
            show(&mut out, c);
        } else {
            out.push(c);
        }
        true
    });
    if any { Cow::Owned(out) } else { Cow::Borrowed(text) }
}

/// Returns a text of a user or a model in quotation marks, for a sentence. Quotation marks, backslashes, line
/// ends and characters that nobody can see are written out (`\u{202e}`). The marks that real writing needs stay:
/// combining marks, and joiners and selectors between visible characters.
///
/// Rust's own form for debugging (`{:?}`) is not for this: it also writes out the marks of many scripts.
pub fn quoted<T: AsRef<str> + ?Sized>(text: &T) -> String {
    format!("\"{}\"", escaped(text.as_ref()))
}

/// Like [`quoted`], without the quotation marks around the text.
pub fn escaped(text: &str) -> Cow<'_, str> {
    let also = |c: char| c.is_control() || matches!(c, '"' | '\\' | '\u{2028}' | '\u{2029}');
    show_hidden(text, also, |out, c| match c {
        '\n' | '\r' | '\t' | '"' | '\\' => out.extend(c.escape_default()),
        c => out.extend(c.escape_unicode()),
    })
}

/// True if every byte is ASCII and no control that a terminal acts on. Looks at eight bytes at a time: every line that a tool
/// shows passes here, and the release build is made for size, so the compiler does not do this by itself.
fn is_plain(bytes: &[u8]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES * 0x80;
    let suspicious = |b: &u8| *b >= 0x80 || is_active_control(char::from(*b));
    let mut words = bytes.chunks_exact(8);
    let all = words.by_ref().all(|chunk| {
        let word = chunk.try_into().map_or(u64::MAX, u64::from_le_bytes);
        let del = word ^ (ONES * 0x7f);
        let below_space = word.wrapping_sub(ONES * 0x20) & !word;
        let is_del = del.wrapping_sub(ONES) & !del;
        (word | below_space | is_del) & HIGH == 0 || !chunk.iter().any(suspicious)
    });
    all && !words.remainder().iter().any(suspicious)
}

fn show(out: &mut String, hidden: &mut Vec<char>) {
    let shown = if hidden.len() > 4 { 1 } else { hidden.len() };
    for c in &hidden[..shown] {
        let _ = write!(out, "<U+{:04X}>", u32::from(*c));
    }
    if hidden.len() > shown {
        let _ = write!(out, "<{} more invisible characters>", hidden.len() - shown);
    }
    hidden.clear();
}

fn first_hidden(text: &str) -> Option<usize> {
    let mut found = None;
    walk(text, 0, |at, _, hide| {
        if hide {
            found = Some(at);
        }
        !hide
    });
    found
}

/// Calls `each(byte offset, char, hidden)` for each character from byte `from` on, until it returns false.
/// The text before `from` is only context.
fn walk(text: &str, from: usize, mut each: impl FnMut(usize, char, bool) -> bool) {
    let mut previous = text[..from].chars().next_back();
    let mut in_flag = 0usize;
    for (offset, c) in text[from..].char_indices() {
        let at = from + offset;
        let hide = if c.is_ascii() {
            is_active_control(c)
        } else if in_flag > 0 && is_tag(c) {
            in_flag -= 1;
            false
        } else {
            let rest = &text[at + c.len_utf8()..];
            if c == '\u{1F3F4}' {
                in_flag = flag_tags(rest);
            }
            is_hidden(c, previous, rest, text, at)
        };
        if !each(at, c, hide) {
            return;
        }
        previous = Some(c);
    }
}

/// Control characters that a terminal acts on. Tab, line feed, carriage return and form feed count as text.
fn is_active_control(c: char) -> bool {
    matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{e}'..='\u{1f}' | '\u{7f}'..='\u{9f}')
}

fn is_tag(c: char) -> bool {
    matches!(c, '\u{E0000}'..='\u{E007F}')
}

/// Returns the length in bytes of a subdivision flag's tags (`gbeng` and the end tag) at the start of `rest`;
/// 0 if there is none.
fn flag_tags(rest: &str) -> usize {
    let mut count = 0;
    for c in rest.chars().take(8) {
        match c {
            '\u{E0030}'..='\u{E0039}' | '\u{E0061}'..='\u{E007A}' => count += 1,
            '\u{E007F}' if (3..=6).contains(&count) => return count + 1,
            _ => return 0,
        }
    }
    0
}

fn is_hidden(c: char, previous: Option<char>, rest: &str, text: &str, at: usize) -> bool {
    let before = |test: fn(char) -> bool| previous.is_some_and(test);
    let after = |test: fn(char) -> bool| rest.chars().next().is_some_and(test);
    match c {
        '\u{80}'..='\u{9f}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{180E}' => true,
        '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}' | '\u{3164}' | '\u{FFA0}' => true,
        // At the start of a file this is the byte order mark, which is not content. Anywhere else it is an
        // invisible space.
        '\u{FEFF}' => true,
        '\u{AD}' => !(before(char::is_alphabetic) && after(char::is_alphabetic)),
        '\u{34F}' => !before(is_right_to_left),
        '\u{61C}' | '\u{200E}' | '\u{200F}' => !line_around(text, at).chars().any(is_right_to_left),
        '\u{200B}' => !(before(is_unspaced) || after(is_unspaced)) || before(|p| p == '\u{200B}'),
        '\u{200C}' => !before(is_joining),
        '\u{200D}' => !(before(is_joining) || (before(is_emoji_end) && after(is_emoji))),
        '\u{115F}' | '\u{1160}' => !(before(is_jamo) || after(is_jamo)),
        '\u{17B4}' | '\u{17B5}' => !before(|p| matches!(p, '\u{1780}'..='\u{17DD}')),
        '\u{180B}'..='\u{180D}' | '\u{180F}' => !before(|p| matches!(p, '\u{1820}'..='\u{18AA}')),
        '\u{FE0E}' | '\u{FE0F}' => !before(|p| {
            is_emoji(p) || matches!(p, '0'..='9' | '#' | '*' | '\u{A9}' | '\u{AE}') || is_symbol(p)
        }),
        '\u{FE00}'..='\u{FE0D}' => !before(|p| p == '0' || is_symbol(p) || is_ideograph(p) || is_joining(p)),
        '\u{E0080}'..='\u{E00FF}' | '\u{E01F0}'..='\u{E0FFF}' => true,
        '\u{E0100}'..='\u{E01EF}' => !before(is_ideograph),
        _ => false,
    }
}

fn line_around(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |i| i + 1);
    let end = text[at..].find('\n').map_or(text.len(), |i| at + i);
    // A very long line is judged by the 2,000 bytes on either side.
    let start = text.ceil_char_boundary(start.max(at.saturating_sub(2_000)));
    let end = text.floor_char_boundary(end.min(at + 2_000));
    &text[start..end]
}

fn is_right_to_left(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{60B}' | '\u{60D}'..='\u{61A}' | '\u{61D}'..='\u{8FF}' | '\u{FB1D}'..='\u{FDFF}'
        | '\u{FE70}'..='\u{FEFE}' | '\u{10800}'..='\u{10FFF}' | '\u{1E800}'..='\u{1EFFF}')
}

/// Scripts whose letters join or form conjuncts.
fn is_joining(c: char) -> bool {
    matches!(c, '\u{620}'..='\u{8FF}' | '\u{900}'..='\u{DFF}' | '\u{F00}'..='\u{109F}' | '\u{1780}'..='\u{17B3}'
        | '\u{17B6}'..='\u{17FF}' | '\u{1820}'..='\u{18AF}' | '\u{1A20}'..='\u{1BFF}' | '\u{1C00}'..='\u{1C4F}'
        | '\u{A840}'..='\u{A87F}' | '\u{A8E0}'..='\u{A8FF}' | '\u{A900}'..='\u{A9FF}' | '\u{AA00}'..='\u{AAFF}'
        | '\u{ABC0}'..='\u{ABFF}' | '\u{FB50}'..='\u{FDFF}' | '\u{FE70}'..='\u{FEFC}' | '\u{10A00}'..='\u{10A5F}'
        | '\u{10D00}'..='\u{10D3F}' | '\u{11000}'..='\u{11FFF}' | '\u{1E900}'..='\u{1E95F}')
}

/// Scripts without spaces between words. There, a zero-width space marks a possible line break.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{E00}'..='\u{EFF}' | '\u{F00}'..='\u{FFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}'
        | '\u{1950}'..='\u{19FF}' | '\u{1A20}'..='\u{1AAF}' | '\u{A9E0}'..='\u{A9FF}' | '\u{AA60}'..='\u{AADF}')
}

fn is_jamo(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{115E}' | '\u{1161}'..='\u{11FF}' | '\u{A960}'..='\u{A97F}' | '\u{D7B0}'..='\u{D7FF}')
}

fn is_emoji(c: char) -> bool {
    matches!(c, '\u{1F000}'..='\u{1FAFF}') || is_symbol(c)
}

/// Characters that may precede a joiner inside an emoji: an emoji, its skin tone (in the emoji range), or its
/// selector.
fn is_emoji_end(c: char) -> bool {
    is_emoji(c) || c == '\u{FE0F}'
}

fn is_symbol(c: char) -> bool {
    matches!(c, '\u{203C}' | '\u{2049}' | '\u{20E3}' | '\u{2100}'..='\u{27BF}' | '\u{2900}'..='\u{297F}'
        | '\u{2A00}'..='\u{2BFF}' | '\u{3030}' | '\u{303D}' | '\u{3297}' | '\u{3299}')
}

fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{2E80}'..='\u{303F}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}'
        | '\u{FF00}'..='\u{FF60}' | '\u{20000}'..='\u{3FFFF}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn plain_bytes_are_told_apart_at_every_place(
            before in prop::collection::vec(prop_oneof![Just(b'a'), Just(b'\t'), Just(b' ')], 0..20),
            byte in any::<u8>(),
            after in prop::collection::vec(prop_oneof![Just(b'z'), Just(b'~')], 0..20),
        ) {
            let bytes = [before, vec![byte], after].concat();
            let one_by_one = bytes.iter().all(|b| *b < 0x80 && !is_active_control(char::from(*b)));
            prop_assert_eq!(is_plain(&bytes), one_by_one, "{:?}", bytes);
        }
    }

    #[test]
    fn every_byte_is_judged_by_eights_as_alone() {
        for byte in 0..=u8::MAX {
            for place in 0..8 {
                let mut bytes = [b'a'; 8];
                bytes[place] = byte;
                let alone = byte < 0x80 && !is_active_control(char::from(byte));
                assert_eq!(is_plain(&bytes), alone, "{byte:#x} at {place}");
            }
        }
    }

    #[test]
    fn smuggled_text_is_shown() {
        for (text, want) in [
            ("a\u{202E}b", "a<U+202E>b"),
            ("x\u{200B}y", "x<U+200B>y"),
            ("x\u{200D}y", "x<U+200D>y"),
            ("\u{FEFF}x", "<U+FEFF>x"),
            ("i\u{E0049}\u{E0067}\u{E006E}\u{E006F}\u{E0072}e", "i<U+E0049><4 more invisible characters>e"),
            ("😀\u{FE0F}\u{FE01}\u{FE02}", "😀\u{FE0F}<U+FE01><U+FE02>"),
            ("😀\u{E0101}\u{E0102}", "😀<U+E0101><U+E0102>"),
            ("a\u{3164}=1", "a<U+3164>=1"),
            ("\u{115F}", "<U+115F>"),
            ("a\u{2066}b\u{2069}", "a<U+2066>b<U+2069>"),
            ("a\u{200E}b", "a<U+200E>b"),
            ("\u{1b}[31mred", "<U+001B>[31mred"),
            ("🏴\u{E0061}\u{E007F}", "🏴<U+E0061><U+E007F>"),
        ] {
            assert_eq!(clean(text), want);
            assert_eq!(clean(want), want, "showing twice");
        }
    }

    #[test]
    fn quotes_hide_no_mark_and_show_what_is_hidden() {
        for text in
            ["नमस्ते 👨\u{200d}👩\u{200d}👧", "مَرْحَبًا", "বাংলা", "cafe\u{301}", "می\u{200c}خواهم", "❤\u{fe0f}"]
        {
            assert_eq!(quoted(text), format!("\"{text}\""));
        }
        assert_eq!(quoted("a\u{202e}b\u{200b}\n\"c\\\u{1b}"), r#""a\u{202e}b\u{200b}\n\"c\\\u{1b}""#);
    }

    #[test]
    fn real_writing_is_untouched() {
        for text in [
            "plain\tASCII\r\nwith \u{c} form feed",
            "Übergröße, façade, Ελληνικά, Русский, Tiếng Việt, türkçe, polski żółw, čeština",
            "می\u{200C}خواهم کتاب\u{200C}ها",   // Persian with non-joiners
            "العربية \u{200F}(ABC)\u{200F} نص", // Arabic with marks
            "עברית \u{200E}C++\u{200E} טקסט",   // Hebrew with marks
            "क्\u{200D}ष हिन्दी র\u{200D}্য শ্রী\u{200D} ශ්\u{200D}රී", // Devanagari, Bengali, Sinhala
            "മലയാളം ന്\u{200D} தமிழ் తెలుగు ಕನ್ನಡ",
            "ภาษา\u{200B}ไทย ភាសា\u{200B}ខ្មែរ မြန်မာ\u{200B}စာ",
            "日本語 葛\u{E0100}城 中文 한국어 \u{1112}\u{1161}\u{11AB}",
            "ᠮᠣᠩᠭᠣᠯ\u{180B} བོད་ཡིག",
            "👩\u{200D}💻 👨\u{200D}👩\u{200D}👧 ❤\u{FE0F}\u{200D}🔥 🏳\u{FE0F}\u{200D}🌈 👋🏽 1\u{FE0F}\u{20E3} ©\u{FE0F} ✔\u{FE0E}",
            "👩🏽\u{200D}🚀 🇩🇪 🏴\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}",
            "Donau\u{AD}dampf\u{AD}schiff ⠿⠀⠿ ─│┌ ∩\u{FE00}",
        ] {
            assert!(matches!(clean(text), Cow::Borrowed(_)), "{:?}", clean(text));
        }
    }

    proptest! {
        #[test]
        fn cleaning_is_idempotent_and_leaves_nothing_to_smuggle_with(
            text in "[a\u{200B}-\u{200F}\u{202A}-\u{202E}\u{FE00}-\u{FE0F}\u{E0000}-\u{E007F}😀🏴कا中]{0,40}"
        ) {
            let once = clean(&text).into_owned();
            prop_assert_eq!(clean(&once), once.as_str());
            let selectors = |c: char| matches!(c, '\u{FE00}'..='\u{FE0F}');
            let no_runs = once.chars().zip(once.chars().skip(1)).all(|(a, b)| !(selectors(a) && selectors(b)));
            prop_assert!(no_runs);
            let no_overrides = !once.chars().any(|c| matches!(c, '\u{202A}'..='\u{202E}'));
            prop_assert!(no_overrides);
        }
    }
}
