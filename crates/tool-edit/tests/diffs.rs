//! Diffs of git and of diff given to `apply_patch`, on real files: what git would make of them, or a refusal with nothing
//! changed.

#![expect(clippy::unwrap_used, reason = "a failed set-up fails the test")]

use becket_tool::testing::{env, run};
use becket_tool::{Tool, ToolEnv, sha256};
use becket_types::ToolOutput;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

type Tree = BTreeMap<String, String>;

fn tool() -> Arc<dyn Tool> {
    becket_tool_edit::tools().into_iter().find(|t| t.spec().name == "apply_patch").unwrap()
}

fn fill(dir: &Path, tree: &Tree) {
    for (name, text) in tree {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

fn holds(dir: &Path) -> Tree {
    fn walk(root: &Path, dir: &Path, out: &mut Tree) {
        for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if entry.file_name() == ".git" {
            } else if path.is_dir() {
                walk(root, &path, out);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                out.insert(name, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut out = Tree::new();
    walk(dir, dir, &mut out);
    out
}

async fn apply(env: &ToolEnv, patch: &str) -> ToolOutput {
    for (name, text) in holds(&env.cwd) {
        let path = env.cwd.join(name);
        env.host.note_content(&path, &sha256(text.as_bytes()), text.into_bytes());
    }
    run(&*tool(), env, json!({"patch": patch})).await
}

fn tree(files: &[(&str, &str)]) -> Tree {
    files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

/// The diff between two trees as git writes it.
fn git_diff(before: &Tree, after: &Tree, flags: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let git = |args: &[&str]| {
        let output = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.autocrlf=false"])
            .args(args)
            .current_dir(dir.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "-q"]);
    fill(dir.path(), before);
    git(&["add", "-A"]);
    git(&["commit", "-q", "--allow-empty", "-m", "x"]);
    for name in before.keys() {
        std::fs::remove_file(dir.path().join(name)).unwrap();
    }
    fill(dir.path(), after);
    git(&["add", "-A"]);
    git(&[&["diff", "--cached"], flags].concat())
}

#[tokio::test]
async fn what_git_writes_is_applied_as_git_does() {
    let many = (1..60).map(|n| format!("line {n}\n")).collect::<Vec<_>>().concat();
    let code = "fn a() {\n    x();\n}\n\nfn b() {\n    x();\n}\n\nfn c() {\n    x();\n}\n".to_owned();
    let before = tree(&[
        ("src/many.txt", &many),
        ("src/code.rs", &code),
        ("gone.txt", "one\ntwo\n"),
        ("old name.txt", &many.replace("line", "row")),
        ("bare.txt", "a\nb"),
        ("dos.txt", "a\r\nb\r\nc\r\n"),
        ("dash.sql", "-- one\n-- two\n++ three\n"),
        ("déjà.txt", "vu\n"),
        ("empty.txt", ""),
    ]);
    let mut after = before.clone();
    after.insert(
        "src/many.txt".into(),
        many.replace("line 3\n", "three\n").replace("line 30\n", "").replace("line 58\n", "line 58\nmore\n"),
    );
    // The same text is there three times; the line number says which is meant.
    after.insert("src/code.rs".into(), code.replacen("fn b() {\n    x();", "fn b() {\n    y();", 1));
    after.remove("gone.txt");
    after.remove("empty.txt");
    let moved = after.remove("old name.txt").unwrap();
    after.insert("new/name.txt".into(), moved.replace("row 9\n", "nine\n"));
    after.insert("bare.txt".into(), "A\nb".into());
    after.insert("dos.txt".into(), "a\r\nB\r\nc\r\n".into());
    after.insert("dash.sql".into(), "-- one\n-- zwei\n++ drei\n".into());
    after.insert("déjà.txt".into(), "lu\n".into());
    after.insert("made/init.py".into(), String::new());
    after.insert("made/run.py".into(), "print(1)\n\nprint(2)".into());
    for flags in [&[][..], &["-M"], &["--no-prefix"], &["-U1"], &["--patience", "-p", "--stat"], &["-U10"]] {
        let diff = git_diff(&before, &after, flags);
        let dir = tempfile::tempdir().unwrap();
        let (env, _) = env(dir.path());
        fill(&env.cwd, &before);
        let output = apply(&env, &diff).await;
        assert!(!output.is_error, "{flags:?}: {}\n{diff}", output.content);
        assert_eq!(holds(&env.cwd), after, "{flags:?}\n{diff}");
        // The reverse diff restores all files.
        let back = git_diff(&after, &before, flags);
        let output = apply(&env, &back).await;
        assert!(!output.is_error, "{flags:?}: {}\n{back}", output.content);
        assert_eq!(holds(&env.cwd), before, "{flags:?}\n{back}");
    }
}

#[tokio::test]
async fn what_is_uncertain_is_refused_and_nothing_is_changed() {
    let code = "fn a() {\n    x();\n}\n\nfn b() {\n    x();\n}\n";
    let before =
        tree(&[("f.rs", code), ("g.txt", "one\ntwo\n"), ("h.txt", "one\ntwo\n"), ("b/own.txt", "mine\n")]);
    let fine = "--- a/h.txt\n+++ b/h.txt\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n";
    for (diff, want) in [
        // The place is uncertain: the line number is wrong and the text is there twice, or there is only a line number.
        ("--- a/f.rs\n+++ b/f.rs\n@@ -4,1 +4,1 @@ fn b() {\n-    x();\n+    y();\n", "occurs at 2 places"),
        ("--- a/f.rs\n+++ b/f.rs\n@@ -2,0 +3,1 @@\n+    y();\n", "nothing but a line number"),
        ("--- a/f.rs\n+++ b/f.rs\n@@ -2,1 +2,1 @@\n-    z();\n+    y();\n", "was not found"),
        // The content is wrong: the file has other text, or the diff contradicts itself.
        ("--- a/g.txt\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-one\n", "the file holds other text"),
        ("--- /dev/null\n+++ b/g.txt\n@@ -0,0 +1,1 @@\n+one\n", "exists already"),
        ("--- a/none.txt\n+++ b/none.txt\n@@ -1,1 +1,1 @@\n-one\n+1\n", "does not exist"),
        ("diff --git a/g.txt b/g.txt\nold mode 100644\nnew mode 100755\n", "chmod"),
        (
            "diff --git a/g.txt b/g.txt\nindex 1..2 100644\nBinary files a/g.txt and b/g.txt differ\n",
            "binary",
        ),
        ("--- a/f.rs\n+++ b/f.rs\n@@ -1,9 +1,9 @@\n fn a() {\n-    x();\n", "cut off"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (env, _) = env(dir.path());
        fill(&env.cwd, &before);
        let output = apply(&env, &format!("{fine}{diff}")).await;
        assert!(output.is_error && output.content.contains(want), "{diff}{}", output.content);
        assert!(output.content.to_lowercase().contains("nothing was changed"), "{diff}{}", output.content);
        assert_eq!(holds(&env.cwd), before, "{diff}");
    }
    // A folder that is really called b, without git's letters in front.
    let dir = tempfile::tempdir().unwrap();
    let (env, _) = env(dir.path());
    fill(&env.cwd, &before);
    let output = apply(&env, "--- b/own.txt\n+++ b/own.txt\n@@ -1 +1 @@\n-mine\n+ours\n").await;
    assert!(!output.is_error, "{}", output.content);
    assert_eq!(holds(&env.cwd)["b/own.txt"], "ours\n");
    let output = apply(&env, "diff --git a/run.sh b/run.sh\nnew file mode 100755\n--- /dev/null\n+++ b/run.sh\n@@ -0,0 +1 @@\n+ls\n").await;
    assert!(
        output.content.contains("A run.sh (+1). Its mode 100755 was not set: use chmod."),
        "{}",
        output.content
    );
}
