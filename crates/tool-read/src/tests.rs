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
        ("hidden", "1\ta<U+202E>b\n"),
    ] {
        assert_eq!(f.text(json!({"path": path})).await, want, "{path}");
    }
}

#[tokio::test]
async fn what_is_no_text_is_named_and_never_shown() {
    let f = fixture(&[("doc.pdf", b"%PDF-1.4\n\x00\x01"), ("data.bin", b"ab\0cd"), ("src/main.rs", b"x")]);
    assert_eq!(
        f.error(json!({"path": "doc.pdf"})).await,
        "doc.pdf is a PDF document, 11 bytes; it is not shown. `pdftotext FILE -` gives its text where it is installed."
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
        "~/x does not exist. `~` is not expanded; write the absolute path."
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
                {"output_type": "error", "ename": "E", "evalue": "bad"}]},
        ]
    });
    let f = fixture(&[("n.ipynb", notebook.to_string().as_bytes()), ("broken.ipynb", b"{\"cells\": [")]);
    let want = "[notebook, 2 cells; edit and write work on its JSON]\n## cell 1 (markdown)\n# Title\ntext\n## cell 2 (python)\nprint(1)\n\
                # output\n1\n# output\n<Figure>\n# output: image/png, 4 bytes of base64\n# error\nE: bad\n";
    assert_eq!(f.text(json!({"path": "n.ipynb"})).await, want);
    assert_eq!(f.text(json!({"path": "broken.ipynb"})).await, "1\t{\"cells\": [\n");
    assert_eq!(f.host.kept().reads.len(), 2);
}

#[tokio::test]
async fn a_ten_gigabyte_file_is_read_by_range() {
    let f = fixture(&[("huge", b"first\nsecond\n")]);
    let file = std::fs::OpenOptions::new().write(true).open(f.dir.path().join("huge")).unwrap();
    file.set_len(10 << 30).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"\nlast but one\nlast\n", (10 << 30) - 19).unwrap();
    // Text with a hole behind it is no text by its first bytes, so the beginning is filled.
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
