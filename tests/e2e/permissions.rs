//! `becket permissions`: decisions explained, rules listed, examples checked in CI.

use crate::support::{Bench, run};
use serde_json::{Value, json};

const CONFIG: &str = "[permissions]\nallow = [\n  \"Bash(cargo test *)\",\n]\nask = [\"Bash(git push *)\"]\n";

fn bench(files: &[(&str, &str)]) -> Bench {
    let bench = Bench::new(files);
    let folder = bench.home.path(".config/becket");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), CONFIG).unwrap();
    bench
}

#[test]
fn a_decision_is_explained_with_its_rule_and_parts() {
    let bench = bench(&[("a.txt", "x")]);
    let explain = |words: &[&str]| run(bench.command().args(["permissions", "explain"]).args(words));
    let json = |words: &[&str]| -> Value {
        serde_json::from_str(&explain(&[words, &["--json"]].concat()).expect(0).stdout).unwrap()
    };
    let push = json(&["Bash(git push)"]);
    let file = bench.home.path(".config/becket/config.toml");
    assert_eq!(
        [&push["decision"], &push["by"], &push["rule"]],
        [
            &json!("ask"),
            &json!("rule"),
            &json!({"rule": "Bash(git push *)", "scope": "user", "file": file, "line": 5})
        ]
    );
    let two = json(&["Bash(cargo test && make)"]);
    let parts: Vec<(&str, &str)> = two["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| (part["text"].as_str().unwrap(), part["decision"].as_str().unwrap()))
        .collect();
    assert_eq!(parts, [("cargo test", "allow"), ("make", "ask")]);
    assert_eq!(two["parts"][0]["rule"]["line"], 3);
    let plain = explain(&["Bash(cargo test && make)"]).expect(0).stdout;
    for words in ["ask: Bash(cargo test && make)", "no rule allows `make`", "ask   make", "allow cargo test"]
    {
        assert!(plain.contains(words), "{words}: {plain}");
    }
    for (call, mode, decision) in [
        ("Read(a.txt)", "default", "allow"),
        ("Read(.env)", "default", "ask"),
        ("Edit(a.txt)", "default", "ask"),
        ("Edit(a.txt)", "acceptEdits", "allow"),
        ("Edit(a.txt)", "plan", "deny"),
        ("Bash(make)", "dontAsk", "deny"),
        ("WebFetch(https://docs.rs/x)", "default", "ask"),
        ("Skill(review)", "default", "allow"),
    ] {
        let found = json(&[call, "--permission-mode", mode]);
        assert_eq!(found["decision"], decision, "{call} in {mode}: {found}");
    }
    for bad in ["git push", "Bash()", "Bash(ls", "Read"] {
        explain(&[bad]).expect(2);
    }
    assert!(bench.ledgers().is_empty(), "no session begins");
}

#[test]
fn rules_are_listed_with_their_place() {
    let bench =
        bench(&[(".becket/config.toml", "[permissions]\ndeny = [\"Bash(rm *)\"]\nallow = [\"Bash\"]\n")]);
    let list = run(bench.command().args(["permissions", "list"])).expect(0).stdout;
    for words in
        ["deny", "Bash(rm *)", "config.toml, line 2", "Bash(git push *)", "config.toml, line 5", "warning"]
    {
        assert!(list.contains(words), "{words}: {list}");
    }
    let json: Value =
        serde_json::from_str(&run(bench.command().args(["permissions", "list", "--json"])).expect(0).stdout)
            .unwrap();
    let kinds: Vec<&str> =
        json["rules"].as_array().unwrap().iter().map(|r| r["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["deny", "ask", "allow"], "a project allows itself nothing: {json}");
}

#[test]
fn examples_of_rules_are_checked() {
    let good = "[[rule]]\nrule = \"Bash(npm run test*)\"\nmatch = [\"npm run test\", \"npm run test:unit\"]\n\
                not_match = [\"npm run build\", \"npm run test; rm x\", \"Read(a.txt)\"]\n\n\
                [[rule]]\nrule = \"Read(secrets/**)\"\nkind = \"deny\"\nmatch = [\"secrets/a\", \"Bash(cat secrets/a)\"]\n\
                not_match = [\"a.txt\"]\n\n\
                [[call]]\ncall = \"Bash(git push)\"\ndecision = \"ask\"\n\n\
                [[call]]\ncall = \"Edit(a.txt)\"\ndecision = \"deny\"\nmode = \"plan\"\n";
    let bad = r#"{"rule": [{"rule": "Bash(git log *)", "match": ["git log", "git push"]}]}"#;
    let bench = bench(&[
        ("good.toml", good),
        ("bad.json", bad),
        ("odd.toml", "[[rule]]\nrulle = 1\n"),
        ("none.toml", ""),
    ]);
    let test = |words: &[&str]| run(bench.command().args(["permissions", "test"]).args(words));
    assert_eq!(test(&["good.toml"]).expect(0).stdout, "10 examples, 0 failed\n");
    let failed = test(&["bad.json"]).expect(1).stdout;
    assert!(failed.contains("Bash(git push): expected match, found no match"), "{failed}");
    let json: Value = serde_json::from_str(&test(&["bad.json", "--json"]).expect(1).stdout).unwrap();
    assert_eq!([&json["ok"], &json["checked"], &json["failed"]], [&json!(false), &json!(2), &json!(1)]);
    for file in ["odd.toml", "none.toml", "missing.toml"] {
        test(&[file]).expect(2);
    }
}
