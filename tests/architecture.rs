//! Checks the rules of `docs/architecture.md`: dependencies of crates, comments, sizes, circles, and places of some kinds of code.
//! Boundaries that nothing enforces decay.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "architecture/documented.rs"]
mod documented;
#[path = "architecture/matched.rs"]
mod matched;
#[path = "architecture/source.rs"]
mod source;
#[path = "architecture/structure.rs"]
mod structure;

/// For each crate: the crates of becket it may depend on outside tests. A new crate fails until it is listed.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("becket-types", &[]),
    ("becket-files", &[]),
    ("becket-session", &["becket-types"]),
    ("becket-exchange", &["becket-types", "becket-session"]),
    ("becket-store-postgres", &["becket-types", "becket-session"]),
    ("becket-model", &["becket-types"]),
    ("becket-tool", &["becket-types", "becket-files"]),
    ("becket-shell-syntax", &["becket-types"]),
    ("becket-guard", &["becket-types", "becket-shell-syntax"]),
    ("becket-config", &["becket-types", "becket-files"]),
    ("becket-snapshot", &["becket-types", "becket-files", "becket-shell-syntax"]),
    ("becket-network", &[]),
    ("becket-sandbox", &["becket-types", "becket-files", "becket-network"]),
    ("becket-tool-read", &["becket-types", "becket-tool"]),
    ("becket-tool-edit", &["becket-types", "becket-tool"]),
    (
        "becket-tool-shell",
        &["becket-types", "becket-files", "becket-tool", "becket-sandbox", "becket-shell-syntax"],
    ),
    ("becket-tool-search", &["becket-types", "becket-files", "becket-tool"]),
    ("becket-tool-skill", &["becket-types", "becket-files", "becket-tool"]),
    ("becket-tool-session", &["becket-types", "becket-tool"]),
    ("becket-tool-lsp", &["becket-types", "becket-tool", "becket-sandbox"]),
    ("becket-tool-web", &["becket-types", "becket-tool", "becket-network"]),
    ("becket-hooks", &["becket-types", "becket-sandbox", "becket-network"]),
    ("becket-mcp", &["becket-types", "becket-files", "becket-tool", "becket-sandbox"]),
    (
        "becket-agent",
        &[
            "becket-types",
            "becket-files",
            "becket-session",
            "becket-model",
            "becket-tool",
            "becket-guard",
            "becket-snapshot",
        ],
    ),
    ("becket-print", &["becket-types"]),
    ("becket-tui", &["becket-types"]),
    ("becket-testkit", &["becket-types"]),
    ("becket", &["*"]),
    ("xtask", &[]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    let Ok(entries) = std::fs::read_dir(dir) else { return out };
    for entry in entries.map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            out.extend(rust_files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
    out.sort();
    out
}

/// The source without its `#[cfg(test)]` module, which by convention is the last thing in a file. A declaration such as
/// `mod tests;` cuts nothing off, because code follows it.
fn without_tests(source: &str) -> &str {
    let head = "\n#[cfg(test)]\nmod ";
    let is_body =
        |at: &usize| source[at + head.len()..].lines().next().is_some_and(|line| line.ends_with('{'));
    let end = source.match_indices(head).map(|(at, _)| at).find(is_body);
    &source[..end.unwrap_or(source.len())]
}

#[test]
fn only_the_body_of_a_test_module_is_left_out() {
    let code = "fn a() {}\n#[cfg(test)]\nmod tests;\nfn b() {}\n";
    assert_eq!(without_tests(code), code);
    assert_eq!(without_tests(&format!("{code}\n#[cfg(test)]\nmod more {{\n}}\n")), code);
}

#[test]
fn arrows_point_down() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let allowed: BTreeMap<&str, &[&str]> = MAY_KNOW.iter().copied().collect();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let may = allowed.get(name).unwrap_or_else(|| panic!("{name} is not in MAY_KNOW"));
        for dep in package["dependencies"].as_array().unwrap() {
            let dep_name = dep["name"].as_str().unwrap();
            if !dep_name.starts_with("becket") || dep["kind"] == "dev" {
                continue;
            }
            assert!(may.contains(&"*") || may.contains(&dep_name), "{name} may not know {dep_name}");
            assert_ne!(dep_name, "becket-testkit", "{name}: testkit is for tests only");
        }
    }
}

#[test]
fn the_context_engine_is_pure() {
    let banned = [
        "std::fs",
        "std::env",
        "std::time",
        "std::net",
        "std::process",
        "tokio",
        "async ",
        ".await",
        "SystemTime",
        "Instant",
        "now_v7",
        "MessageId::new()",
        "jiff",
        "rand",
    ];
    let files = rust_files(&root().join("crates/session/src/context"));
    assert!(files.len() >= 10);
    for file in files {
        let source = std::fs::read_to_string(&file).unwrap();
        for (number, line) in without_tests(&source).lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            for word in banned {
                assert!(
                    !code.contains(word),
                    "{}:{}: {word} in the context engine",
                    file.display(),
                    number + 1
                );
            }
        }
    }
}

/// The policy that keeps a session within its window comes from the configuration, in one function. Another policy beside it once made
/// `becket compact` keep other messages than a compaction inside a session.
#[test]
fn the_policy_comes_from_the_configuration() {
    for part in ["session", "exchange", "agent", "becket"] {
        let files = rust_files(&root().join("crates").join(part).join("src"));
        assert!(files.len() >= 10);
        for file in files.iter().filter(|file| !file.to_string_lossy().contains("tests")) {
            let source = std::fs::read_to_string(file).unwrap();
            for (at, _) in without_tests(&source).match_indices("Policy::default()") {
                let before = source[..at].chars().next_back();
                let other = before.is_some_and(|c| c.is_alphanumeric());
                assert!(other, "{}: Policy::default() outside of tests", file.display());
            }
        }
    }
}

#[test]
fn every_crate_says_what_it_owns_and_what_it_does_not() {
    for (name, _) in MAY_KNOW {
        let dir = root().join("crates").join(name.strip_prefix("becket-").unwrap_or(name));
        let head = ["src/lib.rs", "src/main.rs"]
            .iter()
            .find_map(|f| std::fs::read_to_string(dir.join(f)).ok())
            .unwrap_or_else(|| panic!("{name} has no lib.rs or main.rs"));
        let doc: String = head.lines().take_while(|l| l.starts_with("//!")).collect::<Vec<_>>().join("\n");
        let says = |words: &[&str]| words.iter().any(|w| doc.contains(w));
        assert!(doc.lines().count() >= 3, "{name}: the head of its crate is too short:\n{doc}");
        assert!(says(&["Owns", "owns"]), "{name} does not say what it owns");
        assert!(
            says(&["not ", "never", "nothing", "Nothing", "Never", "no ", "nobody"]),
            "{name} does not say what it does not do"
        );
    }
}

#[test]
fn every_file_opens_with_what_it_is_for() {
    for file in rust_files(&root().join("crates")) {
        let source = std::fs::read_to_string(&file).unwrap();
        assert!(source.starts_with("//!"), "{} does not open with //!", file.display());
    }
}

#[test]
fn only_the_binary_prints_exits_or_reads_the_environment() {
    let banned =
        ["println!", "eprintln!", "print!(", "process::exit", "env::var", "env::home_dir", "env::args"];
    for (name, _) in MAY_KNOW {
        if matches!(*name, "becket" | "becket-testkit" | "xtask") {
            continue;
        }
        let dir = root().join("crates").join(name.strip_prefix("becket-").unwrap_or(name)).join("src");
        for file in rust_files(&dir) {
            let source = std::fs::read_to_string(&file).unwrap();
            for (number, line) in without_tests(&source).lines().enumerate() {
                let code = line.split("//").next().unwrap_or("");
                for word in banned {
                    assert!(!code.contains(word), "{}:{}: {word}", file.display(), number + 1);
                }
            }
        }
    }
}

/// Rust's form for debugging writes out the vowel signs and joiners of many scripts, so people cannot read it.
#[test]
fn texts_for_people_are_quoted_by_one_function() {
    let banned = [
        "escape_debug",
        "{label:?}",
        "{title:?}",
        "{message:?}",
        "{query:?}",
        "{words:?}",
        "{prompt:?}",
        "{answer:?}",
    ];
    for file in rust_files(&root().join("crates")) {
        let path = file.strip_prefix(root()).unwrap_or(&file).to_string_lossy();
        let is_code = path.contains("/src/") && !path.contains("test") && !path.contains("fuzzing");
        if !is_code {
            continue;
        }
        let source = std::fs::read_to_string(&file).unwrap();
        for (number, line) in without_tests(&source).lines().enumerate() {
            for word in banned {
                assert!(!line.contains(word), "{path}:{}: {word}; use becket_types::quoted", number + 1);
            }
        }
    }
}

#[test]
fn what_the_platform_decides_lives_in_sys_modules() {
    let sources: Vec<PathBuf> = std::fs::read_dir(root().join("crates"))
        .unwrap()
        .flat_map(|dir| rust_files(&dir.unwrap().path().join("src")))
        .collect();
    assert!(sources.len() >= MAY_KNOW.len());
    for file in sources {
        let in_sys = file.components().any(|c| c.as_os_str().to_string_lossy().starts_with("sys"));
        let source = std::fs::read_to_string(&file).unwrap();
        assert!(in_sys || !source.contains("(target_os"), "{} says cfg(target_os)", file.display());
    }
}

/// Cargo builds only what a target reaches; a test file that no `mod` names would never run.
#[test]
fn every_test_file_is_reached() {
    let tests = root().join("tests");
    let declared: BTreeSet<String> = std::fs::read_to_string(tests.join("e2e/main.rs"))
        .unwrap()
        .lines()
        .filter_map(|l| l.trim().strip_prefix("mod ").and_then(|l| l.strip_suffix(';')).map(str::to_owned))
        .collect();
    let own = std::fs::read_to_string(tests.join("architecture.rs")).unwrap();
    let manifest = std::fs::read_to_string(root().join("crates/becket/Cargo.toml")).unwrap();
    for file in rust_files(&tests) {
        let relative = file.strip_prefix(&tests).unwrap();
        let stem = relative.file_stem().unwrap().to_string_lossy().into_owned();
        let reached = match relative.components().count() {
            1 => manifest.contains(&format!("../../tests/{}", relative.display())),
            _ if relative.starts_with("architecture") => own.contains(&format!("mod {stem};")),
            _ => stem == "main" || declared.contains(&stem),
        };
        assert!(reached, "{} is not reached by any test target", file.display());
    }
    for dir in std::fs::read_dir(root().join("crates")).unwrap().map(|e| e.unwrap().path()) {
        let manifest = std::fs::read_to_string(dir.join("Cargo.toml")).unwrap();
        assert!(
            !manifest.contains("autotests = false") || dir.ends_with("becket"),
            "{}: autotests switched off",
            dir.display()
        );
    }
}

/// A promise whose test was renamed or deleted is no promise.
#[test]
fn every_promise_of_the_threat_model_names_a_test_that_exists() {
    let page = std::fs::read_to_string(root().join("docs/threat-model.md")).unwrap();
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| P"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert!(rows.len() >= 30, "{} promises", rows.len());
    for (at, row) in rows.iter().enumerate() {
        let [number, promise, test] = row.as_slice() else { panic!("{row:?} has not three columns") };
        assert_eq!(*number, format!("P{}", at + 1), "promises are numbered without a gap");
        assert!(!promise.is_empty());
        let (path, name) = test.trim_matches('`').split_once("::").unwrap();
        let source =
            std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{number}: {path}: {e}"));
        let at =
            source.find(&format!("fn {name}(")).unwrap_or_else(|| panic!("{number}: {path} has no {name}"));
        let above: Vec<&str> = source[..at].lines().rev().take(6).collect();
        let is_test = above.iter().any(|line| line.contains("#[test]") || line.contains("#[tokio::test"));
        assert!(is_test, "{number}: {name} in {path} is not a test");
    }
}
