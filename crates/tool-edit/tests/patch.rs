//! `multi_edit` and `apply_patch` on real files: all of it or none.

#![expect(clippy::unwrap_used, reason = "a failed set-up fails the test")]

use becket_tool::testing::{TestHost, env, run};
use becket_tool::{Tool, ToolEnv, sha256};
use becket_types::{Access, Effect, FileChange, FileChangeKind, ToolOutput};
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;

struct Room {
    _dir: tempfile::TempDir,
    env: ToolEnv,
    host: Arc<TestHost>,
}

fn tool(name: &str) -> Arc<dyn Tool> {
    becket_tool_edit::tools().into_iter().find(|t| t.spec().name == name).unwrap()
}

impl Room {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (env, host) = env(dir.path());
        let room = Self { _dir: dir, env, host };
        for (name, text) in files {
            let path = room.env.cwd.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            room.host.kept().reads.insert(path, sha256(text.as_bytes()));
        }
        room
    }
    fn text(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.env.cwd.join(name)).ok()
    }
    async fn multi(&self, path: &str, edits: &[(&str, &str)]) -> ToolOutput {
        let edits: Vec<Value> = edits.iter().map(|(old, new)| json!({"old": old, "new": new})).collect();
        run(&*tool("multi_edit"), &self.env, json!({"path": path, "edits": edits})).await
    }
    async fn patch(&self, body: &str) -> ToolOutput {
        let patch = format!("*** Begin Patch\n{body}*** End Patch\n");
        run(&*tool("apply_patch"), &self.env, json!({"patch": patch})).await
    }
    /// Everything below the working directory.
    fn all(&self) -> Vec<String> {
        let mut out: Vec<String> = walk(&self.env.cwd);
        out.sort();
        out
    }
}

fn walk(dir: &std::path::Path) -> Vec<String> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            out.extend(
                walk(&entry.path())
                    .into_iter()
                    .map(|p| format!("{}/{p}", entry.file_name().to_string_lossy())),
            );
        } else {
            out.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    out
}

#[tokio::test]
async fn several_edits_are_one_write() {
    let room = Room::new(&[("f", "one\ntwo\nthree\nfour\n")]);
    let output = room.multi("f", &[("four\n", "4\n"), ("one", "1"), ("two\nthree", "two\n2.5\nthree")]).await;
    assert_eq!(output.content, "Edited f, 3 edits (+3 −2).\n1\t1\n…\n3\t2.5\n…\n5\t4");
    assert_eq!(room.text("f").unwrap(), "1\ntwo\n2.5\nthree\n4\n");
    // All edits refer to the file as it was before the call, so two edits can swap lines.
    let output = room.multi("f", &[("two", "three"), ("three", "two")]).await;
    assert_eq!((output.is_error, room.text("f").unwrap().as_str()), (false, "1\nthree\n2.5\ntwo\n4\n"));
    // Text that the first edit removes is no match for the second one, so only one match is left.
    let room = Room::new(&[("f", "x = 1\ny\nx = 2\n")]);
    assert!(!room.multi("f", &[("x = 1", "z = 1"), ("x = ", "w = ")]).await.is_error);
    assert_eq!(room.text("f").unwrap(), "z = 1\ny\nw = 2\n");
}

#[tokio::test]
async fn one_refusal_refuses_all() {
    let before = "alpha\nbeta\ngamma\n";
    for (edits, want) in [
        (vec![("alpha", "a"), ("nope", "b")], "Edit 2: `old` was not found"),
        (vec![("alpha", "omega"), ("omega", "x")], "Edit 2: `old` was not found"),
        (
            vec![("alpha\nbeta", "a\nb"), ("beta\ngamma", "b\ng")],
            "Edit 2: `old` is at line 2 of f only, which another edit",
        ),
        (vec![("alpha", "a"), ("a", "b")], "Edit 2: `old` occurs at 3 places"),
        (vec![("alpha", "a"), ("beta", "beta")], "Edit 2: `old` and `new` are the same"),
        (vec![("", "a"), ("beta", "b")], "Edit 1: `old` is empty"),
    ] {
        let room = Room::new(&[("f", before)]);
        let output = room.multi("f", &edits).await;
        assert!(output.is_error && output.content.starts_with(want), "{edits:?}: {}", output.content);
        assert_eq!(room.text("f").unwrap(), before);
    }
}

#[tokio::test]
async fn a_patch_over_several_files() {
    let room = Room::new(&[("a.txt", "one\ntwo\n"), ("old.txt", "gone\n"), ("m.sh", "echo 1\necho 2\n")]);
    let script = room.env.cwd.join("m.sh");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = room
        .patch("*** Add File: new/deep.txt\n+x\n+y\n*** Update File: a.txt\n@@\n one\n-two\n+2\n*** Delete File: old.txt\n*** Update File: m.sh\n*** Move to: bin/m.sh\n@@\n-echo 1\n+echo one\n")
        .await;
    assert!(!output.is_error, "{}", output.content);
    assert_eq!(
        output.content,
        "Patched:\nA new/deep.txt (+2)\nM a.txt (+1 −1).\n2\t2\nD old.txt (−1)\nM m.sh → bin/m.sh (+1 −1).\n1\techo one"
    );
    assert_eq!(room.all(), ["a.txt", "bin/m.sh", "new/deep.txt"]);
    assert_eq!(room.text("bin/m.sh").unwrap(), "echo one\necho 2\n");
    assert_eq!(room.env.cwd.join("bin/m.sh").metadata().unwrap().permissions().mode() & 0o777, 0o755);
    let change = |name: &str, kind| FileChange { path: room.env.cwd.join(name), kind };
    use FileChangeKind::{Add, Delete, Update};
    assert_eq!(
        output.changes,
        [
            change("new/deep.txt", Add),
            change("a.txt", Update),
            change("old.txt", Delete),
            change("m.sh", Delete),
            change("bin/m.sh", Add)
        ]
    );
    assert_eq!(
        (output.details["additions"].clone(), output.details["files"].as_array().unwrap().len()),
        (json!(4), 4)
    );
}

#[tokio::test]
async fn the_guard_sees_every_path_of_a_patch() {
    let room = Room::new(&[("a", "1\n")]);
    let patch =
        "*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** Add File: /etc/c\n+x\n*** End Patch";
    let access = tool("apply_patch").access(&json!({"patch": patch}), &room.env).unwrap();
    let paths = vec!["/etc/c".into(), room.env.cwd.join("a"), room.env.cwd.join("b")];
    assert_eq!(access, Access { effect: Effect::Write, paths, ..Access::session() });
}

#[tokio::test]
async fn hunks_find_their_places() {
    let text = "class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 1\n\nclass B:\n    def f(self):\n        return 1\n";
    let returns = |n: usize| {
        let mut seen = 0;
        text.split_inclusive('\n')
            .map(|line| {
                seen += usize::from(line.contains("return"));
                if line.contains("return") && seen == n { "        return 2\n" } else { line }
            })
            .collect::<String>()
    };
    for (hunk, want) in [
        ("@@ def g(self):\n-        return 1\n+        return 2\n", returns(2)),
        ("@@ class B:\n-        return 1\n+        return 2\n", returns(3)),
        ("@@ class B:\n@@ def f(self):\n-        return 1\n+        return 2\n", returns(3)),
        ("@@\n     def g(self):\n-        return 1\n+        return 2\n", returns(2)),
        ("@@ -6,1 +6,1 @@\n-        return 1\n+        return 2\n", returns(2)),
        ("@@\n-        return 1\n+        return 2\n*** End of File\n", returns(3)),
        (
            "@@ def g(self):\n         return 1\n+\n+    x = 1\n",
            text.replacen("return 1\n\nclass", "return 1\n\n    x = 1\n\nclass", 1),
        ),
        ("@@\n+# end\n", format!("{text}# end\n")),
        ("@@ class B:\n+    y = 1\n", text.replace("class B:\n", "class B:\n    y = 1\n")),
        (
            "-    def g(self):\n-        return 1\n-\n",
            text.replacen("    def g(self):\n        return 1\n\n", "", 1),
        ),
        (
            "@@\n     def g(self):\n-        return 1\n+        return 2\n@@\n-class A:\n+class Z:\n",
            returns(2).replacen("class A", "class Z", 1),
        ),
        // If there are as many equal hunks as places, the hunks are applied from top to bottom.
        (
            "@@\n-        return 1\n+        return 10\n@@\n-        return 1\n+        return 20\n@@\n-        return 1\n+        return 30\n",
            ["10", "20", "30"]
                .iter()
                .fold(text.to_owned(), |out, n| out.replacen("return 1\n", &format!("return {n}\n"), 1)),
        ),
        (
            "@@ def f(self):\n-        return 1\n+        return 5\n@@ def f(self):\n-        return 1\n+        return 6\n",
            {
                let (first, last) = text.rsplit_once("return 1").unwrap();
                format!("{}return 6{last}", first.replacen("return 1", "return 5", 1))
            },
        ),
        // A hunk with nothing but new lines, after a hunk that changes the last line of the file.
        ("@@ class B:\n     def f(self):\n-        return 1\n+        return 4\n@@\n+tail\n", {
            let (first, _) = text.rsplit_once("return 1").unwrap();
            format!("{first}return 4\ntail\n")
        }),
        // An exact match above the previous hunk wins over a similar text below it.
        (
            "@@\n     def g(self):\n-        return 1\n+        return 2\n@@\n class A:\n-    def f(self):\n+    def h(self):\n",
            returns(2).replacen("def f", "def h", 1),
        ),
        ("@@ ... @@ class B:\n-        return 1\n+        return 2\n", returns(3)),
        ("@@ class  B :\n-        return 1\n+        return 2\n", returns(3)),
    ] {
        let room = Room::new(&[("f.py", text)]);
        let output = room.patch(&format!("*** Update File: f.py\n{hunk}")).await;
        assert_eq!(room.text("f.py").unwrap(), want, "{hunk}\n{}", output.content);
    }
    for (hunk, want) in [
        ("@@\n-        return 1\n+        return 2\n", "occurs at 3 places"),
        ("@@ def f(self):\n-        return 1\n+        return 2\n", "occurs at 2 places"),
        ("@@ def h(self):\n-        return 1\n+        return 2\n", "`@@ def h(self):` was not found"),
        ("@@\n-        return 3\n+        return 2\n", "was not found in f.py"),
        ("@@ def f(self):\n+    pass\n", "occurs 2 times"),
        // The place is unique, but not where the header says.
        (
            "@@ class C:\n     def g(self):\n-        return 1\n+        return 2\n",
            "`@@ class C:` was not found",
        ),
        (
            "@@ class B:\n     def g(self):\n-        return 1\n+        return 2\n",
            "only above the line `@@ class B:`",
        ),
        ("@@ class C:\n+    pass\n", "`@@ class C:` was not found"),
        // The text is at three places, and only two hunks have it.
        (
            "@@\n-        return 1\n+        return 2\n@@\n-        return 1\n+        return 3\n",
            "occurs at 3 places",
        ),
    ] {
        let room = Room::new(&[("f.py", text)]);
        let output = room.patch(&format!("*** Update File: f.py\n{hunk}")).await;
        assert!(output.is_error && output.content.contains(want), "{hunk}: {}", output.content);
        assert_eq!(room.text("f.py").unwrap(), text);
    }
}

/// Text that is at several places above the previous hunk is ambiguous, not missing.
#[tokio::test]
async fn a_hunk_that_fits_several_places_above_is_told_so() {
    let room = Room::new(&[("f", "x\nx\ny\n")]);
    let output = room.patch("*** Update File: f\n@@\n-y\n+z\n@@\n-x\n+w\n").await;
    assert!(output.is_error && output.content.contains("occurs at 2 places"), "{}", output.content);
    assert_eq!(room.text("f").unwrap(), "x\nx\ny\n");
}

/// A removed line that begins with `--` looks like the header of a diff. It is one only if the line `+++` follows.
#[tokio::test]
async fn a_removed_comment_of_sql_is_no_header() {
    for begin in ["@@\n", ""] {
        let room = Room::new(&[("f.sql", "-- one\nselect 1;\n")]);
        let output = room.patch(&format!("*** Update File: f.sql\n{begin}--- one\n+-- two\n")).await;
        assert_eq!(room.text("f.sql").unwrap(), "-- two\nselect 1;\n", "{}", output.content);
        let room = Room::new(&[("f.sql", "-- one\nselect 1;\n")]);
        let output = room
            .patch(&format!("*** Update File: f.sql\n--- f.sql\n+++ f.sql\n{begin} -- one\n+-- two\n"))
            .await;
        assert_eq!(room.text("f.sql").unwrap(), "-- one\n-- two\nselect 1;\n", "{}", output.content);
    }
}

#[tokio::test]
async fn a_patch_is_all_or_nothing() {
    let fine = "*** Update File: a\n-1\n+one\n*** Add File: made/new\n+x\n*** Delete File: b\n";
    for (bad, want) in [
        ("*** Update File: c\n-4\n+four\n", "was not found in c"),
        ("*** Update File: missing\n-4\n+four\n", "missing does not exist."),
        ("*** Add File: c\n+4\n", "c exists already"),
        ("*** Delete File: missing\n", "does not exist"),
        ("*** Delete File: link\n", "symbolic link"),
        ("*** Update File: c\n*** Move to: fixed\n", "exists already"),
        ("*** Update File: a\n*** Move to: made/new\n", "end in made/new"),
        ("*** Delete File: a\n", "several sections for a"),
        ("*** Update File: fixed\n-5\n+five\n", "read-only"),
        ("*** Add File: locked/x\n+five\n", "could not be written"),
    ] {
        let room =
            Room::new(&[("a", "1\n"), ("b", "2\n"), ("c", "3\n"), ("fixed", "5\n"), ("locked/y", "6\n")]);
        symlink("c", room.env.cwd.join("link")).unwrap();
        let mode = |name: &str, mode| {
            std::fs::set_permissions(room.env.cwd.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode("fixed", 0o444);
        mode("locked", 0o555);
        if want == "could not be written" && std::fs::write(room.env.cwd.join("locked/probe"), "").is_ok() {
            // Root may write everywhere and gets no such refusal.
            continue;
        }
        let before = room.all();
        let output = room.patch(&format!("{fine}{bad}")).await;
        mode("locked", 0o755);
        assert!(output.is_error && output.content.contains(want), "{bad}: {}", output.content);
        assert_eq!(room.all(), before, "{bad}");
        for (name, text) in [("a", "1\n"), ("b", "2\n"), ("c", "3\n"), ("fixed", "5\n")] {
            assert_eq!(room.text(name).as_deref(), Some(text), "{bad}");
        }
        assert!(output.changes.is_empty());
    }
}
