//! Special file contents: encodings, line endings, look-alikes, escapes.

use crate::{Cases, IsOrNo, No, either, is};
use serde_json::json;

pub(super) fn ends_of_lines(cases: &mut Cases) {
    cases.edit("CRLF file", "one\r\ntwo\r\nthree\r\n", "two\n", "2\n2b\n", is("one\r\n2\r\n2b\r\nthree\r\n"));
    cases.edit("CRLF given, LF file", "one\ntwo\n", "two\r\n", "2\r\n3\r\n", is("one\n2\n3\n"));
    cases.edit("mixed", "one\r\ntwo\nthree\r\n", "two", "2", is("one\r\n2\nthree\r\n"));
    cases.edit("mixed, over both", "one\r\ntwo\nthree\r\n", "one\ntwo\n", "1\n2\n", is("1\r\n2\nthree\r\n"));
    cases.edit("old Mac", "one\rtwo\rthree\r", "two", "2", is("one\r2\rthree\r"));
    cases.edit("the last newline goes", "one\ntwo\n", "two\n", "two", is("one\ntwo"));
    cases.edit("a last newline comes", "one\ntwo", "two", "two\n", is("one\ntwo\n"));
    cases.edit("no last newline, old has one", "one\ntwo", "two\n", "2\n", either("one\n2", "not found"));
    cases.edit("no last newline, kept", "one\ntwo", "two", "2", is("one\n2"));
    cases.edit("at the very start", "one\ntwo\n", "one", "\none", is("\none\ntwo\n"));
    cases.edit("everything goes", "one\n", "one\n", "", is(""));
    cases.edit("an empty line goes", "a\n\n\nb\n", "a\n\n\nb", "a\n\nb", is("a\n\nb\n"));
    cases.edit("form feed and vertical tab", "a\u{c}b\nc\u{b}d\n", "c\u{b}d", "e", is("a\u{c}b\ne\n"));
    cases.edit("line separators inside", "a\u{2028}b\nc\n", "c", "d", is("a\u{2028}b\nd\n"));
    cases.edit(
        "one line of a megabyte",
        format!("{}X{}\n", "a".repeat(500_000), "b".repeat(500_000)),
        "X",
        "Y",
        is(&format!("{}Y{}\n", "a".repeat(500_000), "b".repeat(500_000))),
    );
    cases.edit("NUL", "a\0b\nfoo\nbar\0", "foo", "baz", either("a\0b\nbaz\nbar\0", ""));
    cases.edit(
        "a lone continuation byte",
        b"ok\n\xff\xfe\xfd\nfoo\n".as_slice(),
        "foo",
        "baz",
        IsOrNo(b"ok\n\xff\xfe\xfd\nbaz\n".to_vec(), ""),
    );
}

pub(super) fn encodings(cases: &mut Cases) {
    let encode = |name: &str, text: &str| -> Vec<u8> {
        match name {
            "utf-8-bom" => [b"\xef\xbb\xbf", text.as_bytes()].concat(),
            "utf-16le" => {
                std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
            }
            "utf-16be" => {
                std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(u16::to_be_bytes).collect()
            }
            name => encoding_rs::Encoding::for_label(name.as_bytes()).unwrap().encode(text).0.into_owned(),
        }
    };
    let latin = "Grüße aus Köln, schöne Straße, größer als früher.\nÜber uns: äußerst nett, natürlich.\nEnde für heute\n";
    let japanese = "これは日本語のテキストです。\n二行目にも漢字とカタカナがあります。\n最後の行\n";
    let chinese = "这是一个用来测试的中文文件。\n第二行也有很多汉字和标点。\n最后一行\n";
    let korean = "이것은 한국어로 쓴 시험 파일입니다.\n둘째 줄에도 한글이 많이 있습니다.\n마지막 줄\n";
    for (name, text, old, new) in [
        ("utf-8-bom", latin, "Ende", "Schluß"),
        ("utf-16le", latin, "Köln", "Bonn"),
        ("utf-16be", japanese, "最後", "最初"),
        ("windows-1252", latin, "Köln", "Münster"),
        ("shift_jis", japanese, "最後", "最初"),
        ("gbk", chinese, "最后", "最初"),
        ("euc-kr", korean, "마지막", "처음"),
        ("euc-jp", japanese, "最後", "最初"),
        ("big5", "這是一個用來測試的中文檔案。\n第二行也有很多漢字和標點。\n最後一行\n", "最後", "最初"),
        (
            "koi8-r",
            "Это проверочный файл на русском языке.\nВо второй строке тоже много букв.\nПоследняя строка\n",
            "Последняя",
            "Первая",
        ),
    ] {
        let file = encode(name, text);
        cases.edit(
            &format!("{name}, in its own letters"),
            &file,
            old,
            new,
            IsOrNo(encode(name, &text.replace(old, new)), ""),
        );
        let line = text.lines().last().unwrap();
        let more = format!("{line}\nascii only");
        cases.edit(
            &format!("{name}, ASCII added"),
            &file,
            line,
            &more,
            IsOrNo(encode(name, &text.replace(line, &more)), ""),
        );
        if !name.starts_with("utf") {
            cases.edit(
                &format!("{name}, a letter it has not"),
                &file,
                old,
                "🦀",
                No("which has no character|UTF-8"),
            );
        }
    }
    cases.edit(
        "BOM in old",
        encode("utf-8-bom", "one\ntwo\n"),
        "\u{feff}one",
        "1",
        either("\u{feff}1\ntwo\n", ""),
    );
    cases.edit("BOM must stay", encode("utf-8-bom", "one\ntwo\n"), "one", "1", is("\u{feff}1\ntwo\n"));
    let write = |text: &str| json!({"path": "f.txt", "content": text});
    cases.push(
        "write keeps the BOM",
        encode("utf-8-bom", "one\n"),
        "write",
        write("zwei\n"),
        IsOrNo(encode("utf-8-bom", "zwei\n"), ""),
    );
}

pub(super) fn unicode(cases: &mut Cases) {
    let quotes = "say “hello” to ‘them’ – now…\nplain line\n";
    cases.edit(
        "plain quotes for typographic ones",
        quotes,
        "say \"hello\" to 'them' - now...\nplain line",
        "say \"hello\" to 'them' - now...\nnew line",
        either("say “hello” to ‘them’ – now…\nnew line\n", "not found"),
    );
    cases.edit(
        "typographic for plain, others stay",
        "a = \"x\"\nb = \"y\"\n",
        "a = “x”",
        "a = “z”",
        either("a = \"z\"\nb = \"y\"\n", "not found"),
    );
    cases.edit(
        "decomposed letters",
        "cafe\u{301} noir\n",
        "caf\u{e9} noir",
        "caf\u{e9} au lait",
        either("cafe\u{301} au lait\n", "not found"),
    );
    cases.edit(
        "composed letters",
        "caf\u{e9} noir\n",
        "cafe\u{301} noir",
        "thé",
        either("thé\n", "not found"),
    );
    cases.edit(
        "no-break space in the file",
        "a\u{a0}b c\n",
        "a b c",
        "a b d",
        either("a\u{a0}b d\n", "not found"),
    );
    cases.edit(
        "zero-width characters in the file",
        "fo\u{200b}o bar\n",
        "foo bar",
        "foo baz",
        is("fo\u{200b}o baz\n"),
    );
    cases.edit("half of a character of two", "👩‍👩‍👧 family\n", "👩", "🧑", No("places"));
    cases.edit("full-width letters", "ＡＢＣ\nABC\n", "ABC", "x", is("ＡＢＣ\nx\n"));
    cases.edit("Greek question mark", "a\u{37e}\nb;\n", "b;", "c;", is("a\u{37e}\nc;\n"));
}

pub(super) fn escapes(cases: &mut Cases) {
    let c = "printf(\"a\\n\");\nprintf(\"b\\tc\\\\d\");\n";
    cases.edit(
        "a real escape, exact",
        c,
        "printf(\"a\\n\");",
        "printf(\"z\\n\");",
        is("printf(\"z\\n\");\nprintf(\"b\\tc\\\\d\");\n"),
    );
    cases.edit(
        "escaped once more",
        c,
        "printf(\\\"a\\\\n\\\");",
        "printf(\\\"z\\\\n\\\");",
        either("printf(\"z\\n\");\nprintf(\"b\\tc\\\\d\");\n", "not found"),
    );
    cases.edit(
        "newlines as \\n, with a real \\n inside",
        c,
        "printf(\\\"a\\\\n\\\");\\nprintf(\\\"b\\\\tc\\\\\\\\d\\\");",
        "x();",
        either("x();\n", "not found"),
    );
    cases.edit("an escape that is unescaped", c, "printf(\"a\n\");", "x();", No("not found"));
    cases.edit(
        "a regular expression",
        "re = /^\\d+\\.\\w*$/;\n",
        "re = /^\\\\d+\\\\.\\\\w*$/;",
        "re = /^\\\\d*$/;",
        either("re = /^\\d*$/;\n", "not found"),
    );
    cases.edit(
        "JSON in JSON",
        "{\"a\": \"{\\\"b\\\": 1}\"}\n",
        "{\\\"b\\\": 1}",
        "{\\\"b\\\": 2}",
        is("{\"a\": \"{\\\"b\\\": 2}\"}\n"),
    );
    cases.edit(
        "a dollar and a backslash in new",
        "x\n",
        "x",
        "$1 \\1 \\0 $& ${y}",
        is("$1 \\1 \\0 $& ${y}\n"),
    );
    cases.edit("entities that are meant", "a &amp; b\n", "a &amp; b", "a &lt; b", is("a &lt; b\n"));
    cases.edit(
        "entities that are not",
        "if (a && b < c) {}\n",
        "if (a &amp;&amp; b &lt; c) {}",
        "if (a &amp;&amp; b) {}",
        either("if (a && b) {}\n", "not found"),
    );
}
