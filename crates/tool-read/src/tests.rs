//! The read tool against real files: every kind, every limit, every refusal.

use super::*;
use becket_tool::testing::{self, TestHost};
use becket_types::{ImageSource, Part};
use std::sync::Arc;

struct Fixture {
    dir: tempfile::TempDir,
    env: ToolEnv,
    host: Arc<TestHost>,
}

fn fixture(files: &[(&str, &[u8])]) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    let (env, host) = testing::env(dir.path());
    Fixture { dir, env, host }
}

impl Fixture {
    async fn read(&self, input: Value) -> ToolOutput {
        testing::run(&Read::new(), &self.env, input).await
    }

    async fn text(&self, input: Value) -> String {
        let output = self.read(input).await;
        assert!(!output.is_error, "{}", output.content);
        output.content
    }

    async fn error(&self, input: Value) -> String {
        let output = self.read(input).await;
        assert!(output.is_error, "{}", output.content);
        output.content
    }
}

#[tokio::test]
async fn ranges_of_a_text() {
    let f = fixture(&[("a.txt", b"one\ntwo\nthree\nfour\n"), ("open.txt", b"x\ny"), ("empty", b"")]);
    for (input, want) in [
        (json!({"path": "a.txt"}), "1\tone\n2\ttwo\n3\tthree\n4\tfour\n"),
        (json!({"path": "a.txt", "offset": 0}), "1\tone\n2\ttwo\n3\tthree\n4\tfour\n"),
        (json!({"path": "a.txt", "offset": 3}), "3\tthree\n4\tfour\n[lines 3-4 of 4]\n"),
        (
            json!({"file_path": "a.txt", "offset": "2", "limit": 1.0}),
            "2\ttwo\n[lines 2-2 of 4; continue with offset 3]\n",
        ),
        (json!({"path": "a.txt", "offset": -2}), "3\tthree\n4\tfour\n[lines 3-4 of 4]\n"),
        (
            json!({"path": "a.txt", "offset": -9, "limit": 2}),
            "1\tone\n2\ttwo\n[lines 1-2 of 4; continue with offset 3]\n",
        ),
        (json!({"path": "open.txt"}), "1\tx\n2\ty\n"),
        (json!({"path": "empty"}), "[empty file]"),
    ] {
        assert_eq!(f.text(input.clone()).await, want, "{input}");
    }
    assert_eq!(
        f.error(json!({"path": "a.txt", "offset": 9})).await,
        "offset 9 is behind the end: a.txt has 4 lines."
    );
    let path = f.env.cwd.join("a.txt");
    assert_eq!(f.host.kept().reads[&path], becket_tool::sha256(b"one\ntwo\nthree\nfour\n"));
}

#[tokio::test]
async fn long_texts_and_long_lines_are_cut_and_it_is_said() {
    let many = (1..=5_000).fold(String::new(), |all, n| all + &format!("{n}\n"));
    let wide = format!("{}\nend\n", "é".repeat(30_000));
    let heavy = format!("{}\n", "x".repeat(999)).repeat(100);
    let f = fixture(&[("many", many.as_bytes()), ("wide", wide.as_bytes()), ("heavy", heavy.as_bytes())]);
    let text = f.text(json!({"path": "many"})).await;
    assert!(text.ends_with("2000\t2000\n[lines 1-2000 of 5000; continue with offset 2001]\n"));
    let text = f.text(json!({"path": "many", "limit": 100_000, "offset": 4_000})).await;
    assert!(text.starts_with("4000\t4000\n") && text.ends_with("5000\t5000\n[lines 4000-5000 of 5000]\n"));
    let want = format!(
        "1\t{}…[line cut; it has 60000 bytes]\n2\tend\n[lines are cut at 2000 characters; the rest of line 1: sed -n 1p FILE | cut -c2001-]\n",
        "é".repeat(2_000)
    );
    assert_eq!(f.text(json!({"path": "wide"})).await, want);
    let text = f.text(json!({"path": "heavy"})).await;
    assert!(text.len() <= 50 * 1024);
    assert!(text.ends_with("[lines 1-49 of 100; continue with offset 50]\n"), "{}", &text[text.len() - 80..]);
}

#[tokio::test]
async fn encodings_are_decoded_and_said() {
    let utf16: Vec<u8> = "\u{FEFF}grüße\r\nzwei\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = "hello\nworld\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
    let f = fixture(&[
        ("utf16", &utf16),
        ("utf16be", &big),
        ("latin1", b"caf\xe9\nna\xefve\n"),
        (
            "damaged",
            "größe äöü\n\u{e9}t\u{e9} "
                .as_bytes()
                .iter()
                .chain(b"\xff\n")
                .copied()
                .collect::<Vec<_>>()
                .as_slice(),
        ),
        ("sjis", b"\x82\xb1\x82\xf1\x82\xc9\x82\xbf\x82\xcd\x90\xa2\x8a\x45\n"),
        ("bom", b"\xef\xbb\xbfx\n"),
        ("crlf", b"a\r\nb\n"),
        ("crlf-open", b"a\r\nb"),
        ("one-open", b"a"),
        ("cr", b"one\rtwo\r"),
        ("cr-open", b"one\rtwo"),
        ("cr-last", b"a\r\nb\r"),
        ("utf16-open", &"\u{FEFF}a\r\nb\r\nc".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>()),
        ("utf16-cr", &"\u{FEFF}a\rb\r".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>()),
        ("hidden", "a\u{202E}b\n".as_bytes()),
    ]);
    for (path, want) in [
        ("utf16", "1\tgrüße\n2\tzwei\n[encoding: UTF-16LE]\n[lines end with CRLF]\n"),
        ("utf16be", "1\thello\n2\tworld\n[encoding: UTF-16BE]\n"),
        ("latin1", "1\tcafé\n2\tnaïve\n[encoding: windows-1252, a guess]\n"),
        ("damaged", "1\tgröße äöü\n2\tété \u{FFFD}\n[bytes that are not UTF-8 are shown as \u{FFFD}]\n"),
        ("sjis", "1\tこんにちは世界\n[encoding: Shift_JIS, a guess]\n"),
        ("bom", "1\tx\n"),
        ("crlf", "1\ta\n2\tb\n[some lines end with CRLF]\n"),
        ("crlf-open", "1\ta\n2\tb\n[lines end with CRLF]\n"),
        ("one-open", "1\ta\n"),
        ("cr", "1\tone\n2\ttwo\n[lines end with CR]\n"),
        ("cr-open", "1\tone\n2\ttwo\n[lines end with CR]\n"),
        ("cr-last", "1\ta\n2\tb\n[lines end with CRLF]\n"),
        ("utf16-open", "1\ta\n2\tb\n3\tc\n[encoding: UTF-16LE]\n[lines end with CRLF]\n"),
        ("utf16-cr", "1\ta\n2\tb\n[encoding: UTF-16LE]\n[lines end with CR]\n"),
        ("hidden", "1\ta<U+202E>b\n"),
    ] {
        assert_eq!(f.text(json!({"path": path})).await, want, "{path}");
    }
    let second = f.text(json!({"path": "cr", "offset": 2})).await;
    assert_eq!(second, "2\ttwo\n[lines 2-2 of 2]\n[lines end with CR]\n");
    let last = f.text(json!({"path": "cr-open", "offset": -1})).await;
    assert_eq!(last, "2\ttwo\n[lines 2-2 of 2]\n[lines end with CR]\n");
}

#[tokio::test]
async fn what_is_no_text_is_named_and_never_shown() {
    let f = fixture(&[("doc.pdf", b"%PDF-1.4\n\x00\x01"), ("data.bin", b"ab\0cd"), ("src/main.rs", b"x")]);
    assert_eq!(
        f.error(json!({"path": "doc.pdf"})).await,
        "doc.pdf is a PDF, but it is damaged: it has no readable structure."
    );
    assert_eq!(
        f.error(json!({"path": "data.bin"})).await,
        "data.bin is a binary file, 5 bytes; it is not shown."
    );
    assert_eq!(
        f.error(json!({"path": "src/mian.rs"})).await,
        "src/mian.rs does not exist. Did you mean src/main.rs?"
    );
    assert_eq!(
        f.error(json!({"path": "~/x"})).await,
        "~/x does not exist. `~` and variables are not expanded; write the absolute path."
    );
    assert_eq!(
        f.error(json!({"path": "src/*.rs"})).await,
        "src/*.rs does not exist. `read` takes one path; `glob` finds files by pattern."
    );
    assert_eq!(f.error(json!({"path": "a\u{0}b"})).await, "The path contains a NUL character.");
    assert!(f.error(json!({"path": "/dev/zero"})).await.contains("is a character device"));
    assert!(f.error(json!({"path": "/proc/self/environ"})).await.contains("is refused"));
    assert_eq!(f.error(json!({})).await, "Invalid input for read: `path` is missing; it must be a string.");
    assert!(f.host.kept().reads.is_empty());
}

#[tokio::test]
async fn directories_are_listed_in_order() {
    let f = fixture(&[("b.txt", b""), ("sub/x", b""), (".hidden", b"")]);
    std::os::unix::fs::symlink("b.txt", f.dir.path().join("link")).unwrap();
    std::fs::create_dir(f.dir.path().join("void")).unwrap();
    assert_eq!(f.text(json!({"path": "."})).await, ".hidden\nb.txt\nlink -> b.txt\nsub/\nvoid/\n");
    assert_eq!(f.text(json!({"path": "void"})).await, "[empty directory]");
    assert_eq!(
        f.text(json!({"path": ".", "offset": 2, "limit": 2})).await,
        "b.txt\nlink -> b.txt\n[entries 2-3 of 5; continue with offset 4]\n"
    );
    assert_eq!(f.error(json!({"path": ".", "offset": 9})).await, "offset 9 is behind the end: 5 entries.");
}

/// A 2×3 PNG: signature and header chunk, then nothing that decodes. Dimensions come from the header alone.
const PNG_HEAD: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x02\0\0\0\x03\x08\x02\0\0\0\x36\x88\x49\xd6\0\0\0\x04IDATzzzz\0\0\0\0";
const GIF_HEAD: &[u8] = b"GIF89a\x05\0\x07\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x05\0\x07\0\0\x02\0;";

#[tokio::test]
async fn images_go_as_blobs_with_their_size() {
    let f =
        fixture(&[("photo.gif", GIF_HEAD), ("photo.jpg", GIF_HEAD), ("bad.png", b"\x89PNG\r\n\x1a\nnope")]);
    let output = f.read(json!({"path": "photo.gif"})).await;
    assert_eq!(output.content, format!("[image/gif, 5x7, {} bytes]", GIF_HEAD.len()));
    let [Part::Image { media_type, source: ImageSource::Blob(blob), name, width, height, .. }] =
        &output.images[..]
    else {
        panic!("{:?}", output.images)
    };
    assert_eq!(
        (media_type.as_str(), name.as_deref(), *width, *height),
        ("image/gif", Some("photo.gif"), Some(5), Some(7))
    );
    assert_eq!(f.host.kept().blobs[blob.as_str()], GIF_HEAD);
    let output = f.read(json!({"path": "photo.jpg"})).await;
    assert_eq!(
        output.content,
        format!("[image/gif, 5x7, {} bytes; it is not what its name says (.jpg)]", GIF_HEAD.len())
    );
    assert!(
        f.error(json!({"path": "bad.png"})).await.starts_with("bad.png begins like image/png but is damaged")
    );
}

#[tokio::test]
async fn pixels_are_not_decoded() {
    let f = fixture(&[("a.png", PNG_HEAD)]);
    assert_eq!(f.text(json!({"path": "a.png"})).await, format!("[image/png, 2x3, {} bytes]", PNG_HEAD.len()));
}

#[tokio::test]
async fn notebooks_are_cells() {
    let notebook = json!({
        "metadata": {"kernelspec": {"language": "python"}},
        "cells": [
            {"cell_type": "markdown", "source": ["# Title\n", "text"]},
            {"cell_type": "code", "source": "print(1)", "outputs": [
                {"output_type": "stream", "text": ["1\n"]},
                {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": "<Figure>"}},
                {"output_type": "display_data", "data": {"text/html": "<b>x</b>"}},
                {"output_type": "error", "ename": "E", "evalue": "bad", "traceback": ["\u{1b}[0;31mE\u{1b}[0m at 1", "here"]}]},
        ]
    });
    let f = fixture(&[("n.ipynb", notebook.to_string().as_bytes()), ("broken.ipynb", b"{\"cells\": [")]);
    let want = "[notebook, 2 cells; edit and write work on its JSON]\n## cell 1 (markdown)\n# Title\ntext\n## cell 2 (python)\nprint(1)\n\
                # output\n1\n# output\n<Figure>\n# output: image/png, 4 bytes of base64\n# output: text/html, 8 bytes\n# error\nE: bad\nE at 1\nhere\n";
    assert_eq!(f.text(json!({"path": "n.ipynb"})).await, want);
    assert_eq!(f.text(json!({"path": "broken.ipynb"})).await, "1\t{\"cells\": [\n");
    assert_eq!(f.host.kept().reads.len(), 2);
}

#[tokio::test]
async fn images_of_the_cells_that_are_shown_come_along() {
    use base64::Engine as _;
    let gif = base64::engine::general_purpose::STANDARD.encode(GIF_HEAD);
    let (first, rest) = gif.split_at(10);
    let outputs: Vec<Value> = (0..6)
        .map(|_| json!({"output_type": "display_data", "data": {"image/gif": [first, "\n", rest]}}))
        .collect();
    let notebook = json!({"cells": [
        {"cell_type": "code", "source": "1", "outputs": [{"output_type": "stream", "text": "x".repeat(9_000)}]},
        {"cell_type": "code", "source": "2", "outputs": outputs},
    ]});
    let f = fixture(&[("n.ipynb", notebook.to_string().as_bytes())]);
    let output = f.read(json!({"path": "n.ipynb"})).await;
    assert!(output.content.contains("\n[7000 more bytes]\n"), "{}", output.content);
    assert_eq!(output.images.len(), 4);
    assert!(matches!(&output.images[0], Part::Image { width: Some(5), height: Some(7), .. }));
    let output = f.read(json!({"path": "n.ipynb", "offset": 1, "limit": 3})).await;
    assert!(
        output.images.is_empty() && output.content.ends_with("[lines 1-3 of 13; continue with offset 4]\n"),
        "{}",
        output.content
    );
}

/// A document with one page for each content stream, in Helvetica.
fn pdf(pages: &[&str]) -> Vec<u8> {
    let kids: Vec<String> = (0..pages.len()).map(|n| format!("{} 0 R", 4 + n * 2)).collect();
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!("<< /Type /Pages /Kids [{}] /Count {} >>", kids.join(" "), pages.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_owned(),
    ];
    for (n, content) in pages.iter().enumerate() {
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {} 0 R /Resources << /Font << /F 3 0 R >> >> >>",
            5 + n * 2
        ));
        objects.push(format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()));
    }
    let mut out = b"%PDF-1.4\n".to_vec();
    let mut places = Vec::new();
    for (n, object) in objects.iter().enumerate() {
        places.push(out.len());
        out.extend_from_slice(format!("{} 0 obj\n{object}\nendobj\n", n + 1).as_bytes());
    }
    let start = out.len();
    out.extend_from_slice(format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).as_bytes());
    for place in places {
        out.extend_from_slice(format!("{place:010} 00000 n \n").as_bytes());
    }
    let size = objects.len() + 1;
    out.extend_from_slice(
        format!("trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n").as_bytes(),
    );
    out
}

#[tokio::test]
async fn a_pdf_is_read_by_pages() {
    let first = "BT /F 12 Tf 50 700 Td (Hello) Tj 60 0 Td (there, w\\374rld) Tj 0 -14 Td [(ker) 20 (ned) -400 (gap)] TJ 0 -40 Td (Far) Tj ET";
    let hidden = "BT 3 Tr /F 12 Tf 50 700 Td (scanned and recognised) Tj ET";
    let drawn = "10 10 100 100 re f";
    let f = fixture(&[
        ("a.pdf", &pdf(&[first, hidden, drawn])),
        ("none.pdf", &pdf(&[])),
        ("cut.pdf", &pdf(&[first])[..120]),
        ("nul.pdf", b""),
        ("page.pdf", b"<html>\n"),
    ]);
    let output = f.read(json!({"path": "a.pdf"})).await;
    assert_eq!(
        output.content,
        "## page 1\nHello there, w\u{fc}rld\nkerned gap\n\nFar\n## page 2\nscanned and recognised\n## page 3\n\n\
         [no text on page 3: blank, or an image as scans are]\n"
    );
    assert_eq!(output.details["pages"], 3);
    assert_eq!(f.host.kept().reads.len(), 1);
    let second = "## page 2\nscanned and recognised\n[pages 2-2 of 3; continue with offset 3]\n";
    assert_eq!(f.text(json!({"path": "a.pdf", "offset": 2, "limit": 1})).await, second);
    assert_eq!(f.text(json!({"path": "a.pdf", "pages": "2"})).await, second);
    assert!(
        f.text(json!({"path": "a.pdf", "pages": "2-9"}))
            .await
            .ends_with("[pages 2-3 of 3]\n[no text on page 3: blank, or an image as scans are]\n")
    );
    assert!(f.text(json!({"path": "a.pdf", "offset": -1})).await.starts_with("## page 3\n"));
    for (input, want) in [
        (json!({"path": "a.pdf", "offset": 4}), "offset 4 is behind the end: a.pdf has 3 pages."),
        (json!({"path": "a.pdf", "pages": "5-2"}), "`pages` is a page or a range such as 3-5, got `5-2`."),
        (json!({"path": "nul.pdf"}), "nul.pdf is empty: 0 bytes, no PDF document."),
    ] {
        assert_eq!(f.error(input.clone()).await, want, "{input}");
    }
    let cut = f.read(json!({"path": "cut.pdf"})).await;
    assert!(cut.is_error && cut.content.starts_with("cut.pdf is a PDF, but "), "{}", cut.content);
    assert_eq!(
        f.text(json!({"path": "page.pdf"})).await,
        "1\t<html>\n[this is text, no PDF document as its name says]\n"
    );
    assert_eq!(
        f.error(json!({"path": "none.pdf"})).await,
        "none.pdf is a PDF, but no page was found in it: it is empty or damaged."
    );
}

#[tokio::test]
async fn a_long_pdf_stops_at_the_limit_and_an_interrupt_ends_it() {
    let line = |n: usize| format!("BT /F 9 Tf 20 700 Td ({}) Tj ET", format!("page {n} ").repeat(500));
    let pages: Vec<String> = (1..=40).map(line).collect();
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    let f = fixture(&[("long.pdf", &pdf(&pages))]);
    let text = f.text(json!({"path": "long.pdf"})).await;
    let (_, notice) = text.trim_end().rsplit_once('\n').unwrap();
    assert!(
        text.len() <= 50 * 1024
            && notice.starts_with("[pages 1-1")
            && notice.contains("of 40; continue with offset"),
        "{notice}"
    );
    f.env.cancel.cancel();
    let output = f.read(json!({"path": "long.pdf"})).await;
    assert!(output.interrupted || output.content == text);
}

#[tokio::test]
async fn what_a_name_promises_and_the_bytes_are_not_is_said() {
    let mut bomb = PNG_HEAD.to_vec();
    bomb[16..24].copy_from_slice(&[0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30]);
    let f = fixture(&[
        ("zero.png", b""),
        ("page.png", b"<!DOCTYPE html>\n<html></html>\n"),
        ("drawing.svg", b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>\n"),
        ("bomb.png", &bomb),
    ]);
    assert_eq!(f.error(json!({"path": "zero.png"})).await, "zero.png is empty: 0 bytes, no image.");
    assert_eq!(
        f.text(json!({"path": "page.png"})).await,
        "1\t<!DOCTYPE html>\n2\t<html></html>\n[this is text, no image as its name says]\n"
    );
    assert_eq!(
        f.text(json!({"path": "drawing.svg"})).await,
        "1\t<svg xmlns=\"http://www.w3.org/2000/svg\"/>\n"
    );
    let message = f.error(json!({"path": "bomb.png"})).await;
    assert!(
        message.contains("30000x30000 pixels; at most 150 million") || message.contains("damaged"),
        "{message}"
    );
    assert!(f.host.kept().blobs.is_empty());
}

#[tokio::test]
async fn a_wrong_path_finds_the_file_elsewhere() {
    let f = fixture(&[
        ("src/parser/lexer.rs", b"x"),
        ("node_modules/a/other.rs", b"x"),
        ("docs/Guide.md", b"x"),
        (".git/hidden.rs", b"x"),
    ]);
    for (path, want) in [
        ("lexer.rs", "lexer.rs does not exist. Did you mean src/parser/lexer.rs?"),
        ("/src/parser/lexer.rs", "/src/parser/lexer.rs does not exist. Did you mean src/parser/lexer.rs?"),
        ("repo/src/lexer.rs", "repo/src/lexer.rs does not exist. Did you mean src/parser/lexer.rs?"),
        ("docs/guide.md", "docs/guide.md does not exist. Did you mean docs/Guide.md?"),
        ("docs/Guide.mdx", "docs/Guide.mdx does not exist. Did you mean docs/Guide.md?"),
        ("other.rs", "other.rs does not exist."),
        ("hidden.rs", "hidden.rs does not exist."),
    ] {
        assert_eq!(f.error(json!({"path": path})).await, want, "{path}");
    }
}

/// Every parameter in every invalid form gives an error that names it, and nothing is read.
#[tokio::test]
async fn bad_inputs_are_errors_that_name_the_field() {
    let f = fixture(&[("a.txt", b"one\ntwo\n")]);
    for (input, want) in [
        (json!({}), "`path` is missing"),
        (json!({"path": null}), "`path` is missing"),
        (json!({"path": ""}), "The path is empty."),
        (json!({"path": ["a.txt"]}), "`path` must be a string"),
        (json!({"path": {}}), "`path` must be a string"),
        (json!({"path": "x".repeat(100_000)}), "The path is too long: 100000 bytes"),
        (json!({"path": "x".repeat(300)}), "too long"),
        (json!({"path": "a.txt/b"}), "does not exist"),
        (json!({"path": "/nowhere/at/all"}), "/nowhere/at/all does not exist."),
        (json!({"path": "a.txt", "offset": "two"}), "`offset` must be an integer"),
        (json!({"path": "a.txt", "offset": 1.5}), "`offset` must be an integer"),
        (json!({"path": "a.txt", "offset": i64::MAX}), "is behind the end: a.txt has 2 lines."),
        (json!({"path": "a.txt", "offset": u64::MAX}), "Invalid input for read"),
        (json!({"path": "a.txt", "limit": 0}), "`limit` must be at least 1"),
        (json!({"path": "a.txt", "limit": -1}), "`limit` must be at least 1"),
        (json!({"path": "a.txt", "limit": []}), "`limit` must be an integer"),
        (json!({"path": "a.txt", "pages": "1"}), "`pages` is for PDF documents"),
        (json!({"path": "a.txt", "colour": 1}), "unknown field `colour`"),
        (json!("a.txt"), "must be an object"),
        (json!([]), "must be an object"),
        (json!(null), "must be an object"),
    ] {
        let message = f.error(input.clone()).await;
        assert!(message.contains(want), "{}: {message}", becket_types::cut_end(&input.to_string(), 80));
        assert!(message.len() < 1_000, "{want}: {} bytes", message.len());
    }
    // The call whose offset is after the end had to read the file to find that out.
    assert!(f.host.kept().reads.len() == 1 && f.host.kept().blobs.is_empty());
    // Values that are merely large are accepted.
    assert_eq!(f.text(json!({"path": "a.txt", "limit": u64::MAX})).await, "1\tone\n2\ttwo\n");
    assert_eq!(f.text(json!({"path": "a.txt", "offset": i64::MIN})).await, "1\tone\n2\ttwo\n");
}

/// Pipes, devices and sockets are refused by their kind; none is opened, so none can block.
#[tokio::test]
async fn what_would_block_is_refused_at_once() {
    let f = fixture(&[]);
    let fifo = f.dir.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(f.dir.path().join("socket")).unwrap();
    let paths = [
        "fifo",
        "socket",
        "/dev/zero",
        "/dev/tty",
        "/dev/stdin",
        "/proc/kcore",
        "/proc/kmsg",
        "/proc/self/mem",
    ];
    for path in paths {
        let start = std::time::Instant::now();
        let message = f.error(json!({"path": path})).await;
        let took = start.elapsed();
        assert!(message.contains("not opened") || message.contains("does not exist"), "{path}: {message}");
        assert!(took.as_millis() < 2_000, "{path}: {took:?}");
    }
}

#[tokio::test]
async fn a_ten_gigabyte_file_is_read_by_range() {
    let f = fixture(&[("huge", b"first\nsecond\n")]);
    let file = std::fs::OpenOptions::new().write(true).open(f.dir.path().join("huge")).unwrap();
    file.set_len(10 << 30).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"\nlast but one\nlast\n", (10 << 30) - 19).unwrap();
    // A file that begins with a hole is not recognised as text, so its beginning is filled.
    std::os::unix::fs::FileExt::write_all_at(&file, &b"0123456\n".repeat(2_000), 0).unwrap();
    let text = f.text(json!({"path": "huge", "offset": 3, "limit": 2})).await;
    assert_eq!(
        text,
        "3\t0123456\n4\t0123456\n[lines 3-4; the file (10737418240 bytes) goes on: offset 5, or negative for its end]\n"
    );
    let text = f.text(json!({"path": "huge", "offset": -2})).await;
    assert_eq!(
        text,
        "last but one\nlast\n[lines 2 to 1 from the end of 10737418240 bytes; line numbers were not counted]\n"
    );
    assert!(f.host.kept().reads.is_empty());
}

/// Run by hand: `cargo test -p becket-tool-read -- --ignored`. Measure memory with `/usr/bin/time -v` around
/// the test binary.
#[tokio::test]
#[ignore = "reads ten gigabytes"]
async fn a_line_near_the_end_of_ten_gigabytes() {
    let f = fixture(&[("huge", &b"0123456\n".repeat(2_000))]);
    let file = std::fs::OpenOptions::new().write(true).open(f.dir.path().join("huge")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"\nlast but one\nlast\n", (10 << 30) - 19).unwrap();
    let text = f.text(json!({"path": "huge", "offset": 2_002, "limit": 1})).await;
    assert!(text.starts_with("2002\tlast but one\n[lines 2002-2002; the file"), "{text}");
    let task = async {
        f.env.cancel.cancel();
        std::time::Instant::now()
    };
    let (output, cancelled) = tokio::join!(f.read(json!({"path": "huge", "offset": 2_002})), task);
    let took = cancelled.elapsed();
    assert!(output.interrupted && took.as_millis() < 50, "{took:?}");
}

#[tokio::test]
async fn an_interrupt_ends_a_long_read() {
    let f = fixture(&[("big", &b"x\n".repeat(200_000))]);
    f.env.cancel.cancel();
    let output = f.read(json!({"path": "big"})).await;
    assert!(output.is_error && output.interrupted);
}

#[tokio::test]
async fn files_of_the_kernel_have_no_size_but_have_text() {
    let f = fixture(&[]);
    assert!(f.text(json!({"path": "/proc/self/status"})).await.starts_with("1\tName:"));
}

#[test]
fn the_spec_is_short_and_stable() {
    let spec = Read::new().spec().clone();
    assert_eq!(spec, Read::new().spec().clone());
    assert!(serde_json::to_string(&spec).unwrap().len() < 480);
}
