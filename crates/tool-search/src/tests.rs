//! Both tools against real trees.

use super::*;
use becket_tool::Tool;
use becket_tool::testing::{self, run};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, ToolEnv) {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let (env, _) = testing::env(dir.path());
    (dir, env)
}

async fn text(tool: &dyn Tool, env: &ToolEnv, input: Value) -> String {
    let output = run(tool, env, input).await;
    assert!(!output.is_error, "{}", output.content);
    output.content
}

async fn error(tool: &dyn Tool, env: &ToolEnv, input: Value) -> String {
    let output = run(tool, env, input).await;
    assert!(output.is_error, "{}", output.content);
    output.content
}

#[tokio::test]
async fn grep_shapes() {
    let (_dir, env) = tree(&[
        ("src/b.rs", "one\ntwo\nthree\nfour\nfive\nsix\ntwo\n"),
        ("src/a.rs", "fn two() {}\n"),
        ("a.md", "Two\n"),
    ]);
    let grep = Grep::new();
    for (input, want) in [
        (json!({"pattern": "two"}), "src/a.rs\n1:fn two() {}\n\nsrc/b.rs\n2:two\n7:two\n"),
        (json!({"pattern": "TWO", "-i": true, "glob": "*.md"}), "a.md\n1:Two\n"),
        (
            json!({"pattern": "two", "path": "src/b.rs", "context": 1}),
            "src/b.rs\n1-one\n2:two\n3-three\n--\n6-six\n7:two\n",
        ),
        (json!({"pattern": "two", "mode": "files"}), "src/a.rs\nsrc/b.rs\n"),
        (
            json!({"pattern": "two", "output_mode": "files_with_matches", "head_limit": 1}),
            "src/a.rs\n[1 of 2 files shown]\n",
        ),
        (json!({"pattern": "two", "mode": "count"}), "src/a.rs:1\nsrc/b.rs:2\n[3 in 2 files]\n"),
        (json!({"pattern": "two() {", "fixed": true}), "src/a.rs\n1:fn two() {}\n"),
        (json!({"pattern": "three.*five", "multiline": true}), "src/b.rs\n3:three\n4-four\n5-five\n"),
        (
            json!({"pattern": "two", "limit": 2}),
            "src/a.rs\n1:fn two() {}\n\nsrc/b.rs\n2:two\n[2 of 3 matching lines shown, 2 of 2 files; narrow the search or raise `limit`]\n",
        ),
        (json!({"pattern": "two", "type": "rs", "path": "src/a.rs"}), "src/a.rs\n1:fn two() {}\n"),
        (json!({"pattern": "^six$"}), "src/b.rs\n6:six\n"),
        (json!({"pattern": "zzz"}), "No match for `zzz` in 3 files.\n"),
        (
            json!({"pattern": "two", "glob": "*.py"}),
            "No file to search that `glob` and `type` let through; hidden and ignored files are left out.\n",
        ),
    ] {
        assert_eq!(text(&grep, &env, input.clone()).await, want, "{input}");
    }
}

#[tokio::test]
async fn what_is_wrong_is_an_error_and_never_no_match() {
    let (_dir, env) = tree(&[("src/a.rs", "x")]);
    let grep = Grep::new();
    for (input, want) in [
        (json!({"pattern": "a(b"}), "unclosed group"),
        (json!({"pattern": "a\\nb"}), "Set `multiline`"),
        (json!({"pattern": ""}), "The pattern is empty."),
        (json!({"pattern": "(?=x)"}), "look-around"),
        (json!({"pattern": "((a{1000}){1000}){1000}"}), "Invalid pattern"),
        (json!({"pattern": "x", "glob": "a[b"}), "Invalid glob pattern `a[b` at character 2"),
        (json!({"pattern": "x", "type": "pythn"}), "There is no file type `pythn`. Did you mean `python`?"),
        (json!({"pattern": "x", "path": "srv"}), "srv does not exist. Did you mean src?"),
        (json!({"pattern": "x", "path": "/dev/zero"}), "character device"),
        (json!({"pattern": "x", "path": "a\u{0}"}), "NUL"),
        (json!({"patern": "x"}), "did you mean `pattern`?"),
        (json!({"pattern": "x", "mode": "lines"}), "must be one of content, files, count"),
    ] {
        let message = error(&grep, &env, input.clone()).await;
        assert!(message.contains(want), "{input}: {message}");
    }
    let message = error(&grep, &env, json!({"pattern": "a(b"})).await;
    assert!(message.contains("    a(b\n     ^\n"), "the place is shown: {message}");
    let message = error(&Glob::new(), &env, json!({"pattern": "{a"})).await;
    assert!(message.starts_with("Invalid glob pattern `{a` at character 1"), "{message}");
}

#[tokio::test]
async fn hidden_ignored_and_binary_files_are_left_out() {
    let (dir, env) = tree(&[
        (".gitignore", "target\n*.log\n"),
        (".hidden", "needle\n"),
        (".github/ci.yml", "needle\n"),
        ("target/out.rs", "needle\n"),
        ("x.log", "needle\n"),
        ("bin", "needle\n\0\n"),
        ("ok.txt", "needle\n"),
    ]);
    std::os::unix::fs::symlink("/etc", dir.path().join("link")).unwrap();
    rustix_fifo(&dir.path().join("fifo"));
    let grep = Grep::new();
    let note = "[1 binary file was not searched]\n";
    assert_eq!(text(&grep, &env, json!({"pattern": "needle"})).await, format!("ok.txt\n1:needle\n{note}"));
    // Patterns narrow; they do not bring ignored files back, but hidden ones that they name.
    assert_eq!(
        text(&grep, &env, json!({"pattern": "needle", "glob": "**/*"})).await,
        format!("ok.txt\n1:needle\n{note}")
    );
    assert_eq!(
        text(&grep, &env, json!({"pattern": "needle", "glob": ".github/**"})).await,
        ".github/ci.yml\n1:needle\n"
    );
    assert_eq!(
        text(&grep, &env, json!({"pattern": "needle", "path": ".github"})).await,
        ".github/ci.yml\n1:needle\n"
    );
    assert_eq!(text(&grep, &env, json!({"pattern": "needle", "path": "x.log"})).await, "x.log\n1:needle\n");
    assert_eq!(
        text(&grep, &env, json!({"pattern": "needle", "path": "bin"})).await,
        format!("No match for `needle` in 1 file below bin.\n{note}")
    );
}

fn rustix_fifo(path: &Path) {
    let status = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(status.success());
}

#[tokio::test]
async fn long_lines_are_cut_around_the_match() {
    let line = format!("{}needle{}\n", "a".repeat(5_000), "é".repeat(5_000));
    let (_dir, env) = tree(&[("wide.txt", &line)]);
    let out = text(&Grep::new(), &env, json!({"pattern": "needle"})).await;
    assert_eq!(out, format!("wide.txt\n1:…{}needle{}… [15006 bytes]\n", "a".repeat(100), "é".repeat(294)));
}

#[tokio::test]
async fn many_files_come_in_the_same_order_every_time_and_the_rest_is_counted() {
    let files: Vec<(String, &str)> =
        (0..700).map(|n| (format!("d{}/f{n:04}.txt", n % 7), "hit\nhit\n")).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (n.as_str(), *t)).collect();
    let (_dir, env) = tree(&files);
    let grep = Grep::new();
    let first = text(&grep, &env, json!({"pattern": "hit", "limit": 5})).await;
    assert_eq!(
        first,
        "d0/f0000.txt\n1:hit\n2:hit\n\nd0/f0007.txt\n1:hit\n2:hit\n\nd0/f0014.txt\n1:hit\n\
         [5 of 1400 matching lines shown, 3 of 700 files; narrow the search or raise `limit`]\n"
    );
    for _ in 0..5 {
        assert_eq!(text(&grep, &env, json!({"pattern": "hit", "limit": 5})).await, first);
    }
}

#[tokio::test]
async fn an_interrupt_ends_a_search() {
    let (_dir, env) = tree(&[("a", "x")]);
    env.cancel.cancel();
    for tool in [&Grep::new() as &dyn Tool, &Glob::new()] {
        let output = run(tool, &env, json!({"pattern": "x"})).await;
        assert!(output.is_error && output.interrupted);
    }
}

#[tokio::test]
async fn unreadable_files_are_said() {
    let (dir, env) = tree(&[("a", "x\n")]);
    let line = "y".repeat(20 * 1024 * 1024);
    std::fs::write(dir.path().join("endless"), line).unwrap();
    let out = text(&Grep::new(), &env, json!({"pattern": "x"})).await;
    let endless = env.cwd.join("endless");
    assert_eq!(out, format!("a\n1:x\n[not searched: {} (a line above 16 MB)]\n", endless.display()));
}

#[tokio::test]
async fn glob_is_newest_first_and_says_what_is_left_out() {
    let (dir, env) =
        tree(&[("old.rs", ""), ("src/new.rs", ""), ("src/mid.rs", ""), (".hid.rs", ""), ("x.md", "")]);
    let now = SystemTime::now();
    for (name, age) in [("old.rs", 30), ("src/mid.rs", 20), ("src/new.rs", 10)] {
        let file = std::fs::File::options().write(true).open(dir.path().join(name)).unwrap();
        file.set_modified(now - Duration::from_secs(age)).unwrap();
    }
    let glob = Glob::new();
    let absolute = format!("{}/src/*.rs", env.cwd.display());
    for (input, want) in [
        (json!({"pattern": "*.rs"}), "src/new.rs\nsrc/mid.rs\nold.rs\n"),
        (json!({"pattern": "**/*.rs", "path": "src"}), "src/new.rs\nsrc/mid.rs\n"),
        (
            json!({"pattern": "*.rs", "limit": 2}),
            "src/new.rs\nsrc/mid.rs\n[the newest 2 of 3 files; narrow the pattern or raise `limit`]\n",
        ),
        (json!({"pattern": absolute}), "src/new.rs\nsrc/mid.rs\n"),
        (json!({"pattern": ".hid*"}), ".hid.rs\n"),
        (
            json!({"pattern": "*.py"}),
            "No file matches `*.py` among 4; hidden and ignored files are left out.\n",
        ),
    ] {
        assert_eq!(text(&glob, &env, input.clone()).await, want, "{input}");
    }
}
