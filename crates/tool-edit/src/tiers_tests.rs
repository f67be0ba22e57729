//! Tests of each tier: what it matches, what it keeps, what it refuses.

use super::*;
use crate::endings::Ending;
use crate::hunks;
use proptest::prelude::*;

fn found(text: &str, old: &str, new: &str, all: bool) -> Result<MatchedEdit, Refusal> {
    let scope = crate::scope::Scope::default();
    find(SearchScope { text, taken: &[], scope: &scope }, old, new, all)
}

/// Returns the tier and the text after the edit, or the refusal.
fn run(text: &str, old: &str, new: &str, all: bool) -> Result<(Tier, String), Refusal> {
    let found = found(text, old, new, all)?;
    let mut out = text.to_owned();
    for splice in found.splices.iter().rev() {
        out.replace_range(splice.range.clone(), &hunks::join(&splice.pieces, &[], Ending::Lf));
    }
    Ok((found.tier, out))
}

#[track_caller]
fn check(tier: Tier, text: &str, old: &str, new: &str, want: &str) {
    assert_eq!(run(text, old, new, false), Ok((tier, want.to_owned())));
}

#[test]
fn exact() {
    check(Tier::Exact, "let a = 1;\n", "a = 1", "b = 2", "let b = 2;\n");
    check(Tier::Exact, "a\nb\nc\n", "b\n", "", "a\nc\n");
    check(Tier::Exact, "a  \nb\n", "a  \nb", "a  \nc", "a  \nc\n");
    check(Tier::Exact, "x\0y", "\0", "\0\0", "x\0\0y");
    assert_eq!(run("a b a", "a", "x", true), Ok((Tier::Exact, "x b x".into())));
    assert_eq!(run("aaa", "aa", "b", true), Ok((Tier::Exact, "ba".into())));
    // An exact match wins over a tolerant one elsewhere.
    check(Tier::Exact, "  f();\nf();\n", "\nf();", "\ng();", "  f();\ng();\n");
}

#[test]
fn trailing_space() {
    check(Tier::TrailingSpace, "one  \ntwo\nthree\n", "one\ntwo", "one\n2", "one  \n2\nthree\n");
    check(Tier::TrailingSpace, "one\ntwo\n", "one  \ntwo", "one  \n2", "one\n2\n");
    // A Markdown hard break in a changed line stays.
    check(Tier::TrailingSpace, "one  \ntwo\n", "one\ntwo", "ONE\ntwo", "ONE  \ntwo\n");
    check(Tier::TrailingSpace, "a \nb \n", "a\nb\n", "", "");
    check(Tier::TrailingSpace, "x\na \nb ", "a\nb\n", "a\nc\n", "x\na \nc ");
}

#[test]
fn indentation() {
    check(
        Tier::Indentation,
        "fn f() {\n    if x {\n        y();\n    }\n}\n",
        "if x {\n    y();\n}",
        "if x {\n    y();\n    z();\n}",
        "fn f() {\n    if x {\n        y();\n        z();\n    }\n}\n",
    );
    check(
        Tier::Indentation,
        "f:\n\tif x:\n\t\ty()\n",
        "    if x:\n        y()\n",
        "    if x:\n        y()\n        if z:\n            w()\n",
        "f:\n\tif x:\n\t\ty()\n\t\tif z:\n\t\t\tw()\n",
    );
    check(
        Tier::Indentation,
        "a:\n  b: 1\n  c: 2\n",
        "    b: 1\n    c: 2",
        "    b: 1\n    c: 3",
        "a:\n  b: 1\n  c: 3\n",
    );
}

#[test]
fn trimmed() {
    check(
        Tier::Trimmed,
        "def f():\n   a()\n     b()\n",
        "def f():\n    a()\n    b()",
        "def f():\n    a()\n    c()",
        "def f():\n   a()\n     c()\n",
    );
}

#[test]
fn whitespace() {
    check(Tier::Whitespace, "call( a,  b );\n", "call( a, b );", "call(a);", "call(a);\n");
    check(Tier::Whitespace, "if (a\n    && b) {\n", "if (a && b) {", "if (c) {", "if (c) {\n");
    // No match inside a word.
    assert_eq!(run("xlet  a\n", "let a", "b", false), Err(Refusal::Missing));
}

#[test]
fn unicode() {
    check(
        Tier::Unicode,
        "print(“hi”) – done\n",
        "print(\"hi\") - done",
        "print(\"ho\") - done",
        "print(“ho”) – done\n",
    );
    check(Tier::Whitespace, "a\u{a0}b\nc\n", "a b\nc", "a b\nd", "a\u{a0}b\nd\n");
    check(Tier::Unicode, "cafe\u{301} = 1\n", "café = 1", "café = 2", "cafe\u{301} = 2\n");
    check(Tier::Unicode, "  “x”\n  y\n", "\"x\"\ny", "\"x\"\nz", "  “x”\n  z\n");
}

#[test]
fn line_numbers_and_escapes() {
    check(Tier::LineNumbers, "a\nb\nc\n", "    2\tb\n    3\tc", "    2\tB\n    3\tc", "a\nB\nc\n");
    check(Tier::LineNumbers, "a\nb\n", "1: a\n2: b", "a\nB", "a\nB\n");
    check(
        Tier::Escapes,
        "print(\"a\\n\")\n",
        "print(\\\"a\\n\\\")",
        "print(\\\"b\\n\\\")",
        "print(\"b\\n\")\n",
    );
    check(Tier::Escapes, "a\nb\n", "a\\nb", "a\\nc", "a\nc\n");
    check(Tier::Escapes, "a\tb\n", "a\\tb", "a\\tc", "a\tc\n");
    check(Tier::Escapes, "x = \"\\d\"\n", "x = \"\\\\d\"", "x = \"\\\\w\"", "x = \"\\w\"\n");
}

#[test]
fn anchors() {
    let text = "fn area(w: u32, h: u32) -> u32 {\n    // width times height\n    let a = w * h;\n    a\n}\n";
    check(
        Tier::Anchors,
        text,
        "fn area(w: u32, h: u32) -> u32 {\n    // width by height\n    let a = w * h;\n    a\n}",
        "fn area(w: u32, h: u32) -> u32 {\n    // width by height\n    let a = w * h;\n    a + 1\n}",
        "fn area(w: u32, h: u32) -> u32 {\n    // width times height\n    let a = w * h;\n    a + 1\n}\n",
    );
    // The line to change differs from the model's, so the edit is refused.
    assert_eq!(
        run(
            text,
            "fn area(w: u32, h: u32) -> u32 {\n    // width times height\n    let a = w + h;\n    a\n}",
            "fn area(w: u32, h: u32) -> u32 {\n    // width times height\n    let a = w - h;\n    a\n}",
            false
        ),
        Err(Refusal::Conflict { tier: Tier::Anchors, range: 0..text.len() - 1 })
    );
}

/// If the text can be read with or without escapes, the tiers that accept differing lines use the reading with more lines in the file.
#[test]
fn escapes_do_not_come_in_beside_lines_that_differ() {
    let file = "        aaaa\nsay “hi” to all\n\tx1ax1  =  a\n        x1\n";
    let (old, new) = (
        "    aaaa\nsay \\\"hi\\\" to all\n\tx1ax1 = a\n    x1",
        "aaaa(\\\"b\\\")\nsay \\\"hi\\\" to all\n\tx1ax1 = a\n    x1",
    );
    let (_, text) = run(file, old, new, false).unwrap();
    assert_eq!(text.lines().next().map(str::trim_start), Some("aaaa(\"b\")"), "{text}");
    assert!(text.ends_with("\nsay “hi” to all\n\tx1ax1  =  a\n        x1\n"), "{text}");
    // A file with such escapes keeps them, also in the lines that change.
    let file = "  f(\"a\");\ng(\"\\\"b\\\"\",  1);\nh();\nk();\n";
    let (old, new) = (
        "f(\"a\");\ng(\"\\\"b\\\"\", 1);\nhh();\nk();",
        "f(\"\\\"a\\\"\");\ng(\"\\\"b\\\"\", 1);\nhh();\nk();",
    );
    if let Ok((_, text)) = run(file, old, new, false) {
        assert_eq!(text.lines().next().map(str::trim_start), Some("f(\"\\\"a\\\"\");"), "{text}");
    }
}

#[test]
fn refusals() {
    let several = |tier, at: &[usize]| Err(Refusal::Ambiguous { tier, at: at.to_vec() });
    for (text, old, new, want) in [
        ("a b a", "a", "x", several(Tier::Exact, &[0, 4])),
        ("aaa", "aa", "x", several(Tier::Exact, &[0, 1])),
        ("a \nb\na\t\nb\n", "a\nb", "x", several(Tier::TrailingSpace, &[0, 5])),
        ("  f()\n  g()\n    f()\n    g()\n", "f()\ng()", "h()", several(Tier::Indentation, &[0, 12])),
        ("f( a )\nf(  a )\n", "f(   a )", "g()", several(Tier::Whitespace, &[0, 7])),
        ("“a”\n„a”\n", "\"a\"", "b", several(Tier::Unicode, &[0, 8])),
        ("nothing here\n", "something else", "x", Err(Refusal::Missing)),
        ("\n\n\n", " ", "x", Err(Refusal::Missing)),
        ("\tx = 1\n", "  x = 1\n", "    x = 1\n", Err(Refusal::OnlySpace { at: 0 })),
        ("", "a", "b", Err(Refusal::Missing)),
    ] {
        assert_eq!(run(text, old, new, false), want, "{text:?} {old:?}");
    }
    // Tolerant tiers never replace several places.
    assert!(matches!(run("a \nb\na\t\nb\n", "a\nb", "x", true), Err(Refusal::Ambiguous { .. })));
}

proptest! {
    /// Text outside the splice is unchanged, and a kept context line is the file's line.
    #[test]
    fn any_edit_changes_only_its_region(
        text in "([ \t]{0,3}[abc“\"–-]{0,3}[ \t]{0,2}\n){0,8}",
        from in 0usize..40, len in 1usize..20, new in "[ab \n]{0,8}", noise in 0usize..4,
    ) {
        let chars: Vec<char> = text.chars().collect();
        let from = from.min(chars.len());
        let part: String = chars[from..(from + len).min(chars.len())].iter().collect();
        let old = match noise {
            0 => part,
            1 => part.lines().map(str::trim_end).collect::<Vec<_>>().join("\n"),
            2 => part.lines().map(str::trim).collect::<Vec<_>>().join("\n"),
            _ => part.replace(['“', '–'], "\""),
        };
        prop_assume!(!old.is_empty() && old != new);
        if let Ok(found) = found(&text, &old, &new, false) {
            prop_assert_eq!(found.splices.len(), 1);
            let splice = &found.splices[0];
            prop_assert!(text.is_char_boundary(splice.range.start) && text.is_char_boundary(splice.range.end));
            let region: Vec<&str> = text[splice.range.clone()].split('\n').collect();
            for piece in &splice.pieces {
                if let Some(i) = piece.kept {
                    prop_assert_eq!(&piece.text, region[i]);
                }
            }
            if found.tier == Tier::Exact {
                prop_assert_eq!(&text[splice.range.clone()], old);
                prop_assert_eq!(hunks::join(&splice.pieces, &[], Ending::Lf), new);
            }
        }
    }
}
