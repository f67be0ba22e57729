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
        std::fs::write(&path, text).unwrap();
        touch(&path, 0);
    }
    let (env, _) = testing::env(dir.path());
    (dir, env)
}

/// Sets a file's time. Without this all files of a tree are equally old, and the order is that of the paths.
fn touch(path: &Path, seconds: u64) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)).unwrap();
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
            "src/a.rs\n[1 of 2 files shown; narrow the search, raise `limit`, or go on with `offset` 1]\n",
        ),
        (json!({"pattern": "two", "mode": "count"}), "src/a.rs:1\nsrc/b.rs:2\n[3 in 2 files]\n"),
        (json!({"pattern": "two() {", "fixed": true}), "src/a.rs\n1:fn two() {}\n"),
        (json!({"pattern": "three.*five", "multiline": true}), "src/b.rs\n3:three\n4-four\n5-five\n"),
        (
            json!({"pattern": "two", "limit": 2}),
            "src/a.rs\n1:fn two() {}\n\nsrc/b.rs\n2:two\n[2 of 3 matching lines shown, 2 of 2 files; narrow the search, raise `limit`, or go on with `offset` 2]\n",
        ),
        (json!({"pattern": "two", "type": "rs", "path": "src/a.rs"}), "src/a.rs\n1:fn two() {}\n"),
        (json!({"pattern": "^six$"}), "src/b.rs\n6:six\n"),
        (json!({"pattern": "three\nfour"}), "src/b.rs\n3:three\n4-four\n"),
        (json!({"pattern": "three\\nf"}), "src/b.rs\n3:three\n4-four\n"),
        (
            json!({"pattern": "thr(.*)ee\nfour.*", "fixed": true}),
            "No match for `thr(.*)ee\nfour.*` in 3 files.\n",
        ),
        (json!({"pattern": "four", "-A": "1"}), "src/b.rs\n4:four\n5-five\n"),
        (json!({"pattern": "four", "-B": 1}), "src/b.rs\n3-three\n4:four\n"),
        (json!({"pattern": "TWO", "smart_case": true, "mode": "files"}), "No match for `TWO` in 3 files.\n"),
        (
            json!({"pattern": "two", "limit": 1, "offset": 1}),
            "src/b.rs\n2:two\n[1 of 3 matching lines shown, 1 of 2 files; narrow the search, raise `limit`, or go on with `offset` 2]\n",
        ),
        (
            json!({"pattern": "two", "offset": 2, "context": 1}),
            "src/b.rs\n6-six\n7:two\n[1 of 3 matching lines shown, 1 of 2 files]\n",
        ),
        (json!({"pattern": "two", "offset": 3}), "[nothing from offset 3 on: there are 3]\n"),
        (json!({"pattern": "two", "limit": 0, "mode": "files"}), "src/a.rs\nsrc/b.rs\n"),
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
        (json!({"pattern": "interface{}"}), "For a literal text, set `fixed`: true."),
        (json!({"pattern": "x", "offset": 20_001}), "`offset` is at most 20000"),
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
    let binary = "[1 binary file was not searched]\n";
    let cwd = env.cwd.display();
    let note = format!(
        "{binary}[not searched: {cwd}/fifo (not a regular file)]\n[links out of the tree, not followed: {cwd}/link]\n"
    );
    assert_eq!(text(&grep, &env, json!({"pattern": "needle"})).await, format!("ok.txt\n1:needle\n{note}"));
    // Patterns narrow a search. They include hidden files that they name, but never ignored files.
    assert_eq!(
        text(&grep, &env, json!({"pattern": "needle", "glob": "**/*"})).await,
        format!("ok.txt\n1:needle\n{note}")
    );
    let links = format!("[links out of the tree, not followed: {cwd}/link]\n");
    assert_eq!(
        text(&grep, &env, json!({"pattern": "needle", "glob": ".github/**"})).await,
        format!(".github/ci.yml\n1:needle\n{links}")
    );
    assert_eq!(
        text(&grep, &env, json!({"pattern": "needle", "path": ".github"})).await,
        ".github/ci.yml\n1:needle\n"
    );
    assert_eq!(text(&grep, &env, json!({"pattern": "needle", "path": "x.log"})).await, "x.log\n1:needle\n");
    assert_eq!(
        text(&grep, &env, json!({"pattern": "needle", "path": "bin"})).await,
        format!("No match for `needle` in 1 file below bin.\n{binary}")
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
         [5 of 1400 matching lines shown, 3 of 700 files; narrow the search, raise `limit`, or go on with `offset` 5]\n"
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
async fn an_interrupt_ends_a_search_on_its_way() {
    let files: Vec<(String, String)> =
        (0..700).map(|n| (format!("f{n}"), "some text\n".repeat(2_000))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
    let (_dir, env) = tree(&files);
    let grep = Grep::new();
    let (output, ()) =
        tokio::join!(run(&grep, &env, json!({"pattern": r"(\w+ ){3,9}z"})), async { env.cancel.cancel() });
    assert!(output.interrupted && output.content == "The search was interrupted.");
}

#[tokio::test]
async fn the_newest_come_first_and_stay_when_there_is_room_for_few() {
    let files: Vec<String> = (0..200).map(|n| format!("d{}/f{n}", n % 5)).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|n| (n.as_str(), "hit\nhit\n")).collect();
    let (dir, env) = tree(&files);
    for n in [3, 77, 130] {
        touch(&dir.path().join(files[n].0), n as u64);
    }
    let grep = Grep::new();
    let rest = "narrow the search, raise `limit`, or go on with `offset` 3]\n";
    assert_eq!(
        text(&grep, &env, json!({"pattern": "hit", "mode": "files", "limit": 3})).await,
        format!("d0/f130\nd2/f77\nd3/f3\n[3 of 200 files shown; {rest}")
    );
    assert_eq!(
        text(&grep, &env, json!({"pattern": "hit", "limit": 3})).await,
        format!(
            "d0/f130\n1:hit\n2:hit\n\nd2/f77\n1:hit\n[3 of 400 matching lines shown, 2 of 200 files; {rest}"
        )
    );
    // Going through the pages shows every match exactly once.
    let mut seen = String::new();
    for offset in (0..400).step_by(50) {
        let page = text(&grep, &env, json!({"pattern": "hit", "limit": 50, "offset": offset})).await;
        seen.extend(page.lines().filter(|l| !l.starts_with('[')).map(|l| format!("{l}\n")));
    }
    assert_eq!(seen.matches("hit\n").count(), 400);
    assert!(files.iter().all(|(name, _)| seen.contains(&format!("{name}\n"))));
}

#[tokio::test]
async fn a_pattern_that_is_everywhere_ends_early_and_says_so() {
    let many = "x\n".repeat(usize::try_from(search::ENOUGH_MATCHES).unwrap() / 40);
    let files: Vec<String> = (0..100).map(|n| format!("f{n}")).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|n| (n.as_str(), many.as_str())).collect();
    let (_dir, env) = tree(&files);
    let output = run(&Grep::new(), &env, json!({"pattern": ".", "limit": 1})).await;
    assert_eq!(output.details["complete"], false);
    assert!(output.details["files"].as_u64().unwrap() < 100, "{}", output.details);
    let (_, notice) = output.content.split_once("\n1:x\n").unwrap();
    assert!(notice.starts_with("[1 of at least 2"), "{notice}");
    assert!(
        notice.contains("; partial: the search stopped there, so newer files may be missing;"),
        "{notice}"
    );
}

/// Matches on adjacent lines are counted separately, also if the pattern may match across lines, and pages
/// join without gaps.
#[tokio::test]
async fn matches_side_by_side_are_counted_one_by_one() {
    let (_dir, env) = tree(&[("a", "x1\nx2\nx3\nno\nx4 x5\ny\nz\ny\nz\n")]);
    let grep = Grep::new();
    for (input, want) in [
        (json!({"pattern": "x\\d", "multiline": true}), "a\n1:x1\n2:x2\n3:x3\n5:x4 x5\n"),
        (json!({"pattern": "x\\d", "multiline": true, "mode": "count"}), "a:4\n"),
        (json!({"pattern": "y\nz"}), "a\n6:y\n7-z\n8:y\n9-z\n"),
        (json!({"pattern": "y\nz", "mode": "count"}), "a:2\n"),
        (json!({"pattern": "y\nz", "mode": "files"}), "a\n"),
        (
            json!({"pattern": "^x", "multiline": true, "context": 1}),
            "a\n1:x1\n2:x2\n3:x3\n4-no\n5:x4 x5\n6-y\n",
        ),
        (
            json!({"pattern": "^x", "multiline": true, "limit": 2}),
            "a\n1:x1\n2:x2\n[2 of 4 matching lines shown, 1 of 1 files; narrow the search, raise `limit`, or go on with `offset` 2]\n",
        ),
        (
            json!({"pattern": "^x", "multiline": true, "offset": 3}),
            "a\n5:x4 x5\n[1 of 4 matching lines shown, 1 of 1 files]\n",
        ),
    ] {
        assert_eq!(text(&grep, &env, input.clone()).await, want, "{input}");
    }
}

/// A count that ended early says that it is partial, and a long list keeps its total.
#[tokio::test]
async fn counts_say_what_they_cover() {
    let many = "x\n".repeat(usize::try_from(search::ENOUGH_MATCHES).unwrap() / 2);
    let names: Vec<String> = (0..4).map(|n| format!("f{n}")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|n| (n.as_str(), many.as_str())).collect();
    let (_dir, env) = tree(&files);
    let output = run(&Grep::new(), &env, json!({"pattern": "x", "mode": "count"})).await;
    let notice = output.content.lines().last().unwrap();
    if output.details["complete"] == false {
        assert!(notice.starts_with("[at least ") && notice.contains("partial:"), "{notice}");
    } else {
        assert_eq!(notice, "[400000 in 4 files]");
    }
    let names: Vec<String> = (0..1_990).map(|n| format!("{n:04}-{}", "long".repeat(20))).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|n| (n.as_str(), "x\nx\n")).collect();
    let (_dir, env) = tree(&files);
    for (mode, want) in [("files", "[1990 files; "), ("content", "[3980 matching lines in 1990 files; ")] {
        let content = text(&Grep::new(), &env, json!({"pattern": "x", "mode": mode, "limit": 0})).await;
        assert!(content.starts_with(want) && content.contains("[cut: "), "{}", &content[..200]);
    }
    let content = text(&Grep::new(), &env, json!({"pattern": "x", "mode": "count", "limit": 0})).await;
    assert!(
        content.starts_with("[3980 in 1990 files]\n") && content.contains("[cut: "),
        "{}",
        &content[..200]
    );
}

#[tokio::test]
async fn encodings_with_a_mark_are_searched() {
    let (dir, env) = tree(&[("plain", "grün\n")]);
    for (name, bytes) in [
        ("le", "\u{FEFF}a\ngrün\n".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>()),
        ("be", "\u{FEFF}grün\n".encode_utf16().flat_map(u16::to_be_bytes).collect()),
        ("utf8", "\u{FEFF}grün\n".as_bytes().to_vec()),
    ] {
        std::fs::write(dir.path().join(name), bytes).unwrap();
        touch(&dir.path().join(name), 0);
    }
    assert_eq!(
        text(&Grep::new(), &env, json!({"pattern": "^gr.n$"})).await,
        "be\n1:grün\n\nle\n2:grün\n\nplain\n1:grün\n\nutf8\n1:grün\n"
    );
}

#[tokio::test]
async fn what_could_not_be_looked_into_is_named() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let (dir, env) = tree(&[("a", "x\n"), ("sub/b", "x\n"), ("closed", "x\n")]);
    symlink("nowhere", dir.path().join("broken")).unwrap();
    // The target of a link inside the tree is found by itself.
    symlink("sub", dir.path().join("near")).unwrap();
    let place = env.cwd.display();
    let out = text(&Grep::new(), &env, json!({"pattern": "zz"})).await;
    let broken = format!(
        "[not searched: {place}/broken (a broken symbolic link: No such file or directory (os error 2))]\n"
    );
    assert_eq!(out, format!("No match for `zz` in 3 files.\n{broken}"));
    let out = text(&Glob::new(), &env, json!({"pattern": "a"})).await;
    assert_eq!(out, format!("a\n{broken}"));
    std::fs::remove_file(dir.path().join("broken")).unwrap();
    std::fs::set_permissions(dir.path().join("closed"), std::fs::Permissions::from_mode(0o0)).unwrap();
    // Root can open the file all the same, so nothing is checked for root.
    if std::fs::File::open(dir.path().join("closed")).is_err() {
        let out = text(&Grep::new(), &env, json!({"pattern": "zz"})).await;
        assert!(out.contains("[not searched: ") && out.contains("closed: Permission denied"), "{out}");
    }
}

#[tokio::test]
async fn ignore_rules_that_are_no_ordinary_files_are_never_opened() {
    use std::os::unix::fs::symlink;
    for name in [".gitignore", ".ignore", ".git/info/exclude"] {
        let (dir, env) =
            tree(&[("a", "x\n"), ("sub/b", "x\n"), ("sub/.git/info/x", ""), (".git/info/x", "")]);
        let place = env.cwd.display();
        symlink("/dev/zero", dir.path().join("sub").join(name)).unwrap();
        let left = format!("[not searched: {place}/sub (its ignore rules are no ordinary files)]\n");
        assert_eq!(
            text(&Grep::new(), &env, json!({"pattern": "x"})).await,
            format!("a\n1:x\n{left}"),
            "{name}"
        );
        assert_eq!(
            text(&Glob::new(), &env, json!({"pattern": "**/*"})).await,
            format!("a\n{left}"),
            "{name}"
        );
        // If such a file is in the searched folder or above it, all files are searched, without ignore rules.
        symlink("/dev/zero", dir.path().join(name)).unwrap();
        std::fs::remove_file(dir.path().join("sub").join(name)).unwrap();
        for (path, at) in [(".", "sub/b"), ("sub", "sub/b")] {
            let out = text(&Grep::new(), &env, json!({"pattern": "x", "path": path})).await;
            assert!(out.contains(at), "{name}: {out}");
            let why = format!("[not searched: the ignore rules of {place} (no ordinary files;");
            assert!(out.contains(&why), "{name}: {out}");
        }
    }
}

#[tokio::test]
async fn one_match_of_many_lines_is_shown_in_part() {
    let (_dir, env) = tree(&[("a", &"x\n".repeat(1_000))]);
    let out = text(&Grep::new(), &env, json!({"pattern": "x.*x", "multiline": true})).await;
    assert!(
        out.starts_with("a\n1:x\n2-x\n") && out.ends_with("200-x\n[800 more lines of this match]\n"),
        "{out}"
    );
}

/// Each invalid input below gives an error with the expected text, shorter than 5,000 bytes.
#[tokio::test]
async fn bad_inputs_are_errors_that_name_the_field() {
    let (_dir, env) = tree(&[("a", "x\n")]);
    let (grep, glob) = (Grep::new(), Glob::new());
    let huge = "x".repeat(100_000);
    let mut cases: Vec<(&dyn Tool, Value, &str)> = Vec::new();
    for tool in [&grep as &dyn Tool, &glob] {
        for (input, want) in [
            (json!({}), "`pattern` is missing"),
            (json!({"pattern": null}), "`pattern` is missing"),
            (json!({"pattern": ["x"]}), "`pattern` must be a string"),
            (json!({"pattern": ""}), "pattern is empty"),
            (json!({"pattern": huge}), "100000 bytes; at most"),
            (json!({"pattern": "x", "path": {}}), "`path` must be a string"),
            (json!({"pattern": "x", "path": "a\u{0}b"}), "NUL"),
            (json!({"pattern": "x", "path": "/nowhere/at/all"}), "does not exist"),
            (json!({"pattern": "x", "path": huge}), "too long"),
            (json!({"pattern": "x", "limit": "many"}), "`limit` must be an integer"),
            (json!({"pattern": "x", "limit": -1}), "`limit` must be at least 0"),
            (json!({"pattern": "x", "limit": 1.5}), "`limit` must be an integer"),
            (json!({"pattern": "x", "colour": 1}), "unknown field `colour`"),
            (json!("x"), "must be an object"),
            (json!([]), "must be an object"),
        ] {
            cases.push((tool, input, want));
        }
    }
    for (input, want) in [
        (json!({"pattern": "x", "glob": 7.5, "type": []}), "`type` must be a string"),
        (json!({"pattern": "x", "glob": [1]}), "`glob` must be a string"),
        (json!({"pattern": "x", "glob": huge}), "100000 bytes; at most"),
        (json!({"pattern": "x", "glob": "a\u{0}"}), "NUL"),
        (json!({"pattern": "x", "type": ""}), "There is no file type ``"),
        (json!({"pattern": "x", "type": huge}), "There is no file type"),
        (json!({"pattern": "x", "mode": ""}), "`mode` must be one of"),
        (json!({"pattern": "x", "mode": 3}), "`mode` must be"),
        (json!({"pattern": "x", "-i": "maybe"}), "`ignore_case` must be true or false"),
        (json!({"pattern": "x", "fixed": 2}), "`fixed` must be true or false"),
        (json!({"pattern": "x", "multiline": []}), "`multiline` must be true or false"),
        (json!({"pattern": "x", "-C": "x"}), "`context` must be an integer"),
        (json!({"pattern": "x", "-A": -3}), "`after` must be at least 0"),
        (json!({"pattern": "x", "-B": {}}), "`before` must be an integer"),
        (json!({"pattern": "x", "offset": -3}), "`offset` must be at least 0"),
        (json!({"pattern": "x", "offset": u64::MAX}), "`offset` is at most"),
    ] {
        cases.push((&grep, input, want));
    }
    for (tool, input, want) in cases {
        let message = error(tool, &env, input.clone()).await;
        let shown = becket_types::cut_end(&message, 300);
        assert!(message.contains(want), "{} {want}: {shown}", becket_types::cut_end(&input.to_string(), 80));
        assert!(message.len() < 5_000, "{want}: {} bytes", message.len());
    }
    // Values that are merely large are accepted.
    let out = text(&grep, &env, json!({"pattern": "x", "limit": u64::MAX, "context": u64::MAX})).await;
    assert_eq!(out, "a\n1:x\n");
    assert_eq!(text(&glob, &env, json!({"pattern": "*", "limit": "1e3"})).await, "a\n");
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
    for (name, time) in [("old.rs", 10), ("src/mid.rs", 20), ("src/new.rs", 30)] {
        touch(&dir.path().join(name), time);
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

#[tokio::test]
async fn files_that_may_not_be_opened_are_named_and_not_searched() {
    let (_dir, mut env) = tree(&[
        ("a.pem", "needle\n"),
        ("d/b.pem", "needle\n"),
        ("d/c.pem", "needle\n"),
        ("e/d.pem", "needle\n"),
        ("ok.txt", "needle\n"),
    ]);
    env.may_read = Arc::new(|path: &Path| path.extension().is_none_or(|e| e != "pem"));
    let grep = Grep::new();
    let tail = "; as `path`, one can be asked for]\n";
    for (input, want) in [
        (
            json!({"pattern": "needle"}),
            format!(
                "ok.txt\n1:needle\n[not opened without permission: a.pem, d/b.pem, d/c.pem, and 1 more{tail}"
            ),
        ),
        (
            json!({"pattern": "needle", "path": "e"}),
            format!(
                "No file to search below e; hidden and ignored files are left out.\n[not opened without permission: e/d.pem{tail}"
            ),
        ),
        // Files that the pattern excludes are not mentioned. A file named as `path` was permitted by the
        // caller.
        (json!({"pattern": "needle", "glob": "*.txt"}), "ok.txt\n1:needle\n".to_owned()),
        (json!({"pattern": "needle", "path": "a.pem"}), "a.pem\n1:needle\n".to_owned()),
    ] {
        assert_eq!(text(&grep, &env, input.clone()).await, want, "{input}");
    }
    let listed = text(&Glob::new(), &env, json!({"pattern": "*.pem"})).await;
    assert_eq!(listed, "a.pem\nd/b.pem\nd/c.pem\ne/d.pem\n", "names are no content");
}
