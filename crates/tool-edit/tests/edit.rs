//! The tools on real files: what is written, what is refused, what stays as it was.

#![expect(clippy::unwrap_used, reason = "a failed set-up fails the test")]

use becket_tool::testing::{TestHost, env, run};
use becket_tool::{Tool, ToolEnv, sha256};
use becket_types::{FileChange, FileChangeKind, ToolOutput};
use serde_json::{Value, json};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::Arc;

struct Room {
    _dir: tempfile::TempDir,
    root: PathBuf,
    env: ToolEnv,
    host: Arc<TestHost>,
    edit: Arc<dyn Tool>,
    write: Arc<dyn Tool>,
}

fn room() -> Room {
    let dir = tempfile::tempdir().unwrap();
    let (env, host) = env(dir.path());
    let tool = |name: &str| becket_tool_edit::tools().into_iter().find(|t| t.spec().name == name).unwrap();
    let (edit, write) = (tool("edit"), tool("write"));
    Room { root: env.cwd.clone(), _dir: dir, env, host, edit, write }
}

impl Room {
    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
    /// Writes a file as `put` does, and notes that the model has read it.
    fn seen(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.put(name, &bytes);
        self.host.kept().reads.insert(path.clone(), sha256(bytes.as_ref()));
        path
    }
    fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.root.join(name)).unwrap()
    }
    async fn edit(&self, path: &str, old: &str, new: &str) -> ToolOutput {
        run(&*self.edit, &self.env, json!({"path": path, "old": old, "new": new})).await
    }
    async fn write(&self, path: &str, content: &str) -> ToolOutput {
        run(&*self.write, &self.env, json!({"path": path, "content": content})).await
    }
    /// Asserts that the directory contains these files and no other.
    fn holds(&self, want: &[&str]) {
        let mut names: Vec<String> = std::fs::read_dir(&self.root)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, want);
    }
}

#[tokio::test]
async fn an_edit_tells_the_model_and_people_what_changed() {
    let room = room();
    let path = room.seen("a.rs", "fn a() {}\nfn b() {}\nfn c() {}\n");
    let output = room.edit("a.rs", "fn b() {}", "fn b() -> u8 {\n    1\n}").await;
    assert_eq!(
        output,
        ToolOutput {
            content: "Edited a.rs (+3 −1).\n2\tfn b() -> u8 {\n3\t    1\n4\t}".into(),
            details: json!({
                "path": path, "tier": "exact", "places": 1, "additions": 3, "deletions": 1, "encoding": "UTF-8",
                "diff": "@@ -1,3 +1,5 @@\n fn a() {}\n-fn b() {}\n+fn b() -> u8 {\n+    1\n+}\n fn c() {}\n",
                "marks": [[3, 8, 14], [4, 1, 6]],
            }),
            changes: vec![FileChange { path: path.clone(), kind: FileChangeKind::Update }],
            original: Some("fn a() {}\nfn b() {}\nfn c() {}\n".into()),
            ..ToolOutput::default()
        }
    );
    assert_eq!(room.host.kept().reads[&path], sha256(&room.bytes("a.rs")));
    room.holds(&["a.rs"]);
}

#[tokio::test]
async fn arguments_by_other_names_and_wrong_ones() {
    let room = room();
    room.seen("a", "x y x");
    let input = json!({"file_path": "a", "old_string": "x", "new_string": "z", "replaceAll": true});
    let output = run(&*room.edit, &room.env, input).await;
    assert_eq!((output.is_error, room.bytes("a")), (false, b"z y z".to_vec()), "{}", output.content);
    assert!(output.content.starts_with("Edited a, 2 places"), "{}", output.content);
    for input in [json!({}), json!({"path": "a"}), json!({"path": 1, "old": "", "new": ""}), Value::Null] {
        assert!(run(&*room.edit, &room.env, input).await.is_error);
    }
}

#[tokio::test]
async fn refusals_name_the_reason_and_change_nothing() {
    let room = room();
    room.seen("a", "one\ntwo\none\n");
    std::fs::create_dir(room.root.join("dir")).unwrap();
    for (path, old, new, want) in [
        ("a", "one", "1", "occurs at 2 places in a; nothing was changed"),
        ("a", "one", "1", "1: one\n3: one"),
        ("a", "one", "one", "are the same"),
        ("a", "", "x", "`old` is empty, but a exists"),
        ("a", "tow", "x", "was not found in a"),
        ("a", "thing", "two\none", "`new` is already there, at line 2"),
        ("b", "x", "y", "b does not exist"),
        ("dir", "x", "y", "is a directory"),
        ("/dev/null", "x", "y", "character device"),
        ("/proc/cpuinfo", "x", "y", "no ordinary files"),
    ] {
        let output = room.edit(path, old, new).await;
        assert!(output.is_error && output.content.contains(want), "{path} {old}: {}", output.content);
        assert!(output.changes.is_empty());
    }
    assert_eq!(room.bytes("a"), b"one\ntwo\none\n");
    let near = room.edit("a", "two\nthree\n", "x").await.content;
    assert!(near.contains("Nearest, lines 2-3") && near.contains(" two\n-three\n+one"), "{near}");
}

#[tokio::test]
async fn line_endings_stay_per_line() {
    let room = room();
    for (before, old, new, after) in [
        ("a\r\nb\r\nc\r\n", "b\nc", "b\nx\nc", "a\r\nb\r\nx\r\nc\r\n"),
        ("a\r\nb\r\nc", "c", "c\nd", "a\r\nb\r\nc\r\nd"),
        ("a\r\nb\nc\r\n", "a\nb\nc\n", "a\nB\nc\n", "a\r\nB\nc\r\n"),
        ("a\nb\r\nc\n", "a\nb\nc\n", "a\nc\n", "a\nc\n"),
        ("a\nb\n", "a\r\nb\r\n", "a\r\nc\r\n", "a\nc\n"),
        ("a\rb\rc\r", "b\nc", "b\nx\nc", "a\rb\rx\rc\r"),
        ("a\r\nb  \r\nc\r\n", "b\nc", "b\nd", "a\r\nb  \r\nd\r\n"),
        ("a\nb", "b", "c", "a\nc"),
        ("a\r\nb\n", "a\r\nb\n", "a\nb\n", "a\nb\n"),
    ] {
        room.seen("f", before);
        let output = room.edit("f", old, new).await;
        assert_eq!(String::from_utf8(room.bytes("f")).unwrap(), after, "{before:?} {}", output.content);
    }
}

#[tokio::test]
async fn encodings_stay() {
    let room = room();
    let utf16 = |s: &str| s.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let sjis = |s: &str| encoding_rs::SHIFT_JIS.encode(s).0.into_owned();
    let text = "これは日本語のテキストです。漢字とひらがな。\r\nname = \"値\"\r\n";
    for (before, old, new, after) in [
        ("\u{feff}x = 1\n".as_bytes().to_vec(), "x = 1", "x = é", "\u{feff}x = é\n".as_bytes().to_vec()),
        (utf16("\u{feff}a\r\nö\r\n"), "ö", "ö\n日", utf16("\u{feff}a\r\nö\r\n日\r\n")),
        (sjis(text), "\"値\"", "\"漢字\"", sjis(&text.replace('値', "漢字"))),
        // `read` shows text with one damaged byte, and `edit` changes it by exact text.
        (b"name = \xffabc\n".to_vec(), "abc", "x", b"name = \xffx\n".to_vec()),
    ] {
        room.seen("f", &before);
        let output = room.edit("f", old, new).await;
        assert_eq!(room.bytes("f"), after, "{}", output.content);
    }
    room.seen("f", sjis(text));
    let output = room.edit("f", "name", "näme").await;
    assert!(output.content.contains("is in Shift_JIS, which has no character 'ä'"), "{}", output.content);
    assert_eq!(room.bytes("f"), sjis(text));
}

/// A newline at an end of `old` always matches a newline, and a match that ignores white space keeps the text beside it.
#[tokio::test]
async fn a_lenient_match_takes_whole_lines_or_has_exact_ends() {
    let room = room();
    for (before, old, new) in [
        ("\"a\": 1,\n", "  \"a\": 1\n", "  \"a\": 9,\n"),
        ("foo(a);\nbar();\n", "foo(a)\n", ""),
        ("x = [1, 2, 3]\n", "x = [1, 2\n", "x = [1, 9,\n"),
        ("f(a,  b);\n", "f(a, b)\n", "f(a, c)\n"),
        ("say “hi” now\n", "say \"hi\"\n", "say \"bye\"\n"),
        ("(foo( a ))\n", "\nfoo( a )", "\nbar( a )"),
    ] {
        room.seen("f", before);
        let output = room.edit("f", old, new).await;
        let words = ["was not found", "the lines to change are different"];
        assert!(output.is_error && words.iter().any(|w| output.content.contains(w)), "{}", output.content);
        assert_eq!(room.bytes("f"), before.as_bytes(), "{before:?}");
    }
    for (before, old, new, after) in [
        ("  f(a,  b)\nx\n", "f(a, b)\n", "", "x\n"),
        ("  f(a,  b)\nx\n", "f(a, b)\n", "g(a, b)\n", "  g(a,  b)\nx\n"),
        ("y = f(a,  b) + 1\n", "f(a, b)", "g(a, b)", "y = g(a,  b) + 1\n"),
        ("x\n  f(a,  b)\n", "\nf(a, b)\n", "\ng(a, b)\n", "x\n  g(a,  b)\n"),
        ("say “hi” now\n", "say \"hi\"", "say \"bye\"", "say “bye” now\n"),
        ("break—here\n", "break-here", "break--here", "break--here\n"),
    ] {
        room.seen("f", before);
        let output = room.edit("f", old, new).await;
        assert_eq!(String::from_utf8(room.bytes("f")).unwrap(), after, "{before:?} {}", output.content);
    }
}

/// A carriage return within a line that does not change stays, whether the model gives it as it is or as a line's end.
#[tokio::test]
async fn a_carriage_return_within_a_kept_line_stays() {
    let room = room();
    let before = "x\ry\nz\n";
    for (old, new) in
        [("x\ny\nz", "x\ny\nw"), ("x\ry\nz", "x\ry\nw"), ("y\nz", "y\nw"), ("x\ny\nz\n", "x\ny\nw\n")]
    {
        room.seen("f", before);
        let output = room.edit("f", old, new).await;
        assert_eq!(String::from_utf8(room.bytes("f")).unwrap(), "x\ry\nw\n", "{old:?} {}", output.content);
    }
    let patch = becket_tool_edit::tools().into_iter().find(|t| t.spec().name == "apply_patch").unwrap();
    for hunk in [" x\n y\n-z\n+w\n", " x\ry\n-z\n+w\n", " y\n-z\n+w\n"] {
        room.seen("f", before);
        let text = format!("*** Begin Patch\n*** Update File: f\n@@\n{hunk}*** End Patch\n");
        let output = run(&*patch, &room.env, json!({"patch": text})).await;
        assert_eq!(String::from_utf8(room.bytes("f")).unwrap(), "x\ry\nw\n", "{hunk:?} {}", output.content);
    }
}

/// A file that `read` does not show changes by exact bytes only, and only when that is asked for.
#[tokio::test]
async fn a_binary_file_changes_by_exact_bytes_only() {
    let room = room();
    let binary = |old: &str, new: &str| json!({"path": "f", "old": old, "new": new, "binary": true});
    let many: &[u8] = b"\x01\x02\x03abc";
    for before in
        [&b"\0\x01abc\xff"[..], b"a\0b abc\n", many, b"\x7fELF abc", b"\x89PNG\r\n\x1a\nabc", b"%PDF-1.4 abc"]
    {
        room.seen("f", before);
        let output = room.edit("f", "abc", "x").await;
        assert!(output.is_error && output.content.contains("set `binary`"), "{}", output.content);
        assert_eq!(room.bytes("f"), before);
        let output = run(&*room.edit, &room.env, binary("abc", "x")).await;
        let after = String::from_utf8_lossy(before).replace("abc", "x");
        assert!(!output.is_error, "{}", output.content);
        assert_eq!(String::from_utf8_lossy(&room.bytes("f")), after);
    }
    room.seen("f", b"\0\x01\\ \xfe\xff end");
    let output = run(&*room.edit, &room.env, binary(r"\x01\\ \xFE", r"\x02\0\xfd")).await;
    assert_eq!(room.bytes("f"), b"\0\x02\0\xfd\xff end", "{}", output.content);
    for (old, words) in [(r"\xZZ", "no escape"), (r"\q", "no escape"), ("end \n", "was not found")] {
        let output = run(&*room.edit, &room.env, binary(old, "x")).await;
        assert!(output.is_error && output.content.contains(words), "{}", output.content);
    }
    let patch = becket_tool_edit::tools().into_iter().find(|t| t.spec().name == "apply_patch").unwrap();
    let text = "*** Begin Patch\n*** Update File: f\n-end\n+start\n*** End Patch\n";
    let output = run(&*patch, &room.env, json!({"patch": text})).await;
    assert!(output.is_error && output.content.contains("a binary file"), "{}", output.content);
}

#[tokio::test]
async fn what_was_not_seen_as_it_is_changes_by_exact_text_only() {
    let room = room();
    room.put("f", "a  \nb\nc\nc\n");
    for (old, new, want) in [
        ("a\nb", "a\nB", "was not read yet, and `old` matches it only ignoring spaces at line ends"),
        ("x", "y", "You have not read the file yet"),
    ] {
        let output = room.edit("f", old, new).await;
        assert!(output.is_error && output.content.contains(want), "{}", output.content);
    }
    assert!(!room.edit("f", "b\n", "B\n").await.is_error);
    assert!(!room.host.kept().reads.contains_key(&room.root.join("f")), "an edit is not a reading");
    let all = json!({"path": "f", "old": "c", "new": "d", "replace_all": true});
    assert!(run(&*room.edit, &room.env, all.clone()).await.is_error);

    room.host.kept().reads.insert(room.root.join("f"), sha256(b"something else"));
    assert!(run(&*room.edit, &room.env, all).await.content.contains("has changed since you read it"));
    assert!(room.edit("f", "a\nB", "x").await.content.contains("has changed since you read it"));
    assert!(!room.edit("f", "B\n", "b\n").await.is_error);
    assert!(room.write("f", "new").await.content.contains("has changed since you read it"));
    assert_eq!(room.bytes("f"), b"a  \nb\nc\nc\n");
}

#[tokio::test]
async fn writing_creates_overwrites_and_refuses() {
    let room = room();
    let output = room.write("new/deep/f.txt", "a\nb\n").await;
    assert_eq!(output.content, "Created new/deep/f.txt (2 lines, 4 bytes).");
    assert_eq!(output.changes[0].kind, FileChangeKind::Add);
    assert_eq!(
        room.write("new/deep/f.txt", "a\nc\n").await.content,
        "Wrote new/deep/f.txt (2 lines, 4 bytes; +1 −1)."
    );
    assert!(room.write("new/deep/f.txt", "a\nc\n").await.content.contains("already"));
    room.put("other", "x");
    assert!(room.write("other", "y").await.content.contains("you have not read it"));
    room.put("empty", "");
    assert!(!room.write("empty", "y").await.is_error);
    assert!(!room.edit("made", "", "content\n").await.is_error);
    assert_eq!(room.bytes("made"), b"content\n");
    room.seen("crlf", "\u{feff}a\r\nb\r\n");
    assert!(!room.write("crlf", "x\ny\n").await.is_error);
    assert_eq!(room.bytes("crlf"), "\u{feff}x\r\ny\r\n".as_bytes());
    room.seen("cr", "a\rb\r");
    assert!(room.write("cr", "x\ny\nz\n").await.content.contains("kept CR line endings"));
    assert_eq!(room.bytes("cr"), b"x\ry\rz\r");
    assert!(room.write("other/below", "x").await.is_error);
    assert!(room.write("nul\0", "x").await.is_error);
    // The umask decides on new files, as for any program.
    std::fs::write(room.root.join("plain"), "").unwrap();
    let mode = |name: &str| room.root.join(name).metadata().unwrap().permissions().mode();
    assert_eq!(mode("made"), mode("plain"));
}

/// A path need not be text: what names it in a report is then an approximation.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_directory_whose_name_is_not_utf8_is_like_any_other() {
    use std::os::unix::ffi::OsStrExt as _;
    let mut room = room();
    room.env.cwd = room.root.join(std::ffi::OsStr::from_bytes(b"d\xff"));
    std::fs::create_dir(&room.env.cwd).unwrap();
    let file = room.env.cwd.join("f");
    let made = room.write("f", "a\n").await;
    assert_eq!((made.is_error, &made.changes[0].path), (false, &file));
    let edited = room.edit("f", "a", "b").await;
    assert!(
        !edited.is_error && edited.details["path"].as_str().unwrap().ends_with("d\u{fffd}/f"),
        "{edited:?}"
    );
    assert!(!room.write("f", "c\n").await.is_error && !room.write("f", "c\n").await.is_error);
    assert_eq!(std::fs::read(file).unwrap(), b"c\n");
}

#[tokio::test]
async fn mode_links_and_attributes_stay() {
    let room = room();
    let path = room.seen("script", "#!/bin/sh\necho a\n");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).unwrap();
    let attribute =
        rustix::fs::setxattr(&path, "user.note", b"kept", rustix::fs::XattrFlags::empty()).is_ok();
    assert!(!room.edit("script", "echo a", "echo b").await.is_error);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o750);
    if attribute {
        let mut value = [0u8; 16];
        let n = rustix::fs::getxattr(&path, "user.note", value.as_mut_slice()).unwrap();
        assert_eq!(&value[..n], b"kept");
    }

    let one = room.seen("one", "aaaa\n");
    std::fs::hard_link(&one, room.root.join("two")).unwrap();
    let inode = one.metadata().unwrap().ino();
    assert!(!room.edit("one", "aaaa", "b").await.is_error);
    assert_eq!((room.bytes("two"), one.metadata().unwrap().ino()), (b"b\n".to_vec(), inode));

    symlink("one", room.root.join("link")).unwrap();
    assert!(!room.edit("link", "b", "c").await.is_error);
    assert!(room.root.join("link").symlink_metadata().unwrap().is_symlink());
    assert_eq!(room.bytes("two"), b"c\n");

    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("f"), "secret\n").unwrap();
    symlink(outside.path(), room.root.join("away")).unwrap();
    for output in [room.edit("away/f", "secret", "x").await, room.write("away/new", "x").await] {
        assert!(output.content.contains("outside of the session's directories"), "{}", output.content);
    }
    assert_eq!(std::fs::read(outside.path().join("f")).unwrap(), b"secret\n");

    let fixed = room.seen("fixed", "a\n");
    std::fs::set_permissions(&fixed, std::fs::Permissions::from_mode(0o444)).unwrap();
    assert!(room.edit("fixed", "a", "b").await.content.contains("read-only (mode 0444)"));
    room.holds(&["away", "fixed", "link", "one", "script", "two"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn parallel_edits_of_one_file_lose_nothing() {
    let room = room();
    let names: Vec<String> = (0..32).map(|i| format!("item-{i:02}")).collect();
    room.seen("f", names.join("\n"));
    let edits = names.iter().map(|name| room.edit("f", name, "done"));
    let outputs = futures::future::join_all(edits).await;
    assert!(outputs.iter().all(|o| !o.is_error));
    assert_eq!(String::from_utf8(room.bytes("f")).unwrap(), vec!["done"; 32].join("\n"));
}

#[tokio::test]
async fn an_interrupt_before_the_write_writes_nothing() {
    let room = room();
    room.seen("f", "a");
    room.env.cancel.cancel();
    let output = room.edit("f", "a", "b").await;
    assert!(output.is_error && output.interrupted);
    assert_eq!(room.bytes("f"), b"a");
}

#[tokio::test]
async fn a_preview_changes_nothing_and_rejected_hunks_stay_as_they_were() {
    let room = room();
    let old = (0..30).map(|i| format!("line {i}")).collect::<Vec<_>>().join("\n") + "\n";
    room.seen("a.txt", &old);
    let new = old.replace("line 2\n", "two\n").replace("line 27\n", "");
    let input = json!({"path": "a.txt", "content": new});
    let shown = room.write.preview(&input, &room.env);
    assert_eq!((shown.len(), shown[0].hunks.len()), (1, 2));
    assert!(shown[0].hunks[1].contains("-line 27\n"), "{shown:?}");
    assert_eq!(room.bytes("a.txt"), old.as_bytes());
    let output = room.write.run_without(vec![1], input.clone(), &room.env).await;
    assert!(
        output.content.contains("rejected 1 of 2 hunks") && output.content.contains("-line 27"),
        "{output:?}"
    );
    assert_eq!(room.bytes("a.txt"), old.replace("line 2\n", "two\n").as_bytes());
    // A rejected new file is neither recorded as read nor written.
    let other = json!({"path": "new.txt", "content": "x\n"});
    assert_eq!(room.write.preview(&other, &room.env)[0].hunks.len(), 1);
    let output = room.write.run_without(vec![0], other, &room.env).await;
    assert!(output.is_error && output.content.contains("rejected every hunk"), "{output:?}");
    room.holds(&["a.txt"]);
    let edit = json!({"path": "a.txt", "old": "line 5\n", "new": "five\n"});
    assert_eq!(room.edit.preview(&edit, &room.env)[0].hunks.len(), 1);
    assert_eq!(room.edit.refusal(&edit, &room.env), None);
    assert!(room.edit.run_without(vec![0], edit, &room.env).await.is_error);
    // A call that cannot work says so before anybody is asked, in the words of the call itself.
    let missing = json!({"path": "a.txt", "old": "no such line\n", "new": "x\n"});
    let why = room.edit.refusal(&missing, &room.env).unwrap();
    assert_eq!(why, room.edit.run(missing, &room.env).await.content);
}
