//! The decision table: rules, modes, places, and the words that a person sees.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use becket_guard::{Guard, GuardSettings, ModeLimits, Rule, Rules, Verdict, how_to_allow, split_rules};
use becket_types::{Access, DecidedBy, Effect, PermissionMode, RuleChange, RuleKind, RuleOwner, Verb};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn guard(allow: &[&str], ask: &[&str], deny: &[&str], mode: PermissionMode) -> Guard {
    Guard::new(GuardSettings {
        rules: Rules::parse(allow, ask, deny).unwrap(),
        mode,
        roots: vec![PathBuf::from("/repo"), PathBuf::from("/lib")],
        home: PathBuf::from("/home/u"),
        own: vec![PathBuf::from("/home/u/.local/share/becket")],
    })
}

/// A call from a text `tool:argument`.
fn call(text: &str) -> (String, Access) {
    let (tool, argument) = text.split_once(':').unwrap_or((text, ""));
    let access = match tool {
        "read" | "grep" | "lsp" => Access::read(argument.into()),
        "edit" | "write" | "multi_edit" | "apply_patch" | "lsp-rename" => Access::write(argument.into()),
        "bash" => Access::execute(argument),
        "skill" => Access { subject: Some(argument.to_owned()), ..Access::session() },
        "todo" => Access::session(),
        _ => Access { effect: Effect::Network, subject: Some(argument.to_owned()), ..Access::session() },
    };
    (tool.trim_end_matches("-rename").to_owned(), access)
}

fn decide(guard: &Guard, text: &str) -> &'static str {
    let (tool, access) = call(text);
    match guard.check(&tool, &access, &Value::Null) {
        Verdict::Allow { .. } => "allow",
        Verdict::Ask { .. } => "ask",
        Verdict::Deny { .. } => "deny",
    }
}

/// A question about a list or a pipeline offers rules for its parts, if these rules allow it.
#[test]
fn the_parts_of_a_command_are_offered_if_their_rules_allow_it() {
    for (allow, command, want) in [
        (
            &[][..],
            "git add -A && git commit -m x && git push",
            &["Bash(git add *)", "Bash(git commit *)", "Bash(git push *)"][..],
        ),
        (&[], "cargo build && cargo build --release", &["Bash(cargo build *)"]),
        (
            &["Bash(make *)"],
            "make a && cargo test | head && npm ci",
            &["Bash(cargo test *)", "Bash(npm ci *)"],
        ),
        (&[], "rm -r a; mkdir b", &["Bash(rm -r a)", "Bash(mkdir *)"]),
        // A single part is offered as it was before.
        (&[], "cargo test", &[]),
        (&[], "cargo test | head", &[]),
        // Nothing can allow a part that cannot be read, and too many rules are no help.
        (&[], "$x a && make b", &[]),
        (&[], "a 1; b 2; c 3; d 4; e 5", &[]),
    ] {
        let guard = guard(allow, &[], &[], PermissionMode::Default);
        let access = Access::execute(command);
        let rules = guard.part_rules("bash", &access, &Value::Null);
        assert_eq!(rules, want, "{command}");
        let mut granted = guard.clone();
        for rule in &rules {
            granted.allow_for_session(rule).unwrap();
        }
        let allows = matches!(granted.check("bash", &access, &Value::Null), Verdict::Allow { .. });
        assert_eq!(allows, !rules.is_empty(), "{command}");
    }
    // A rule that asks is not overruled by an answer.
    let asks = guard(&[], &["Bash(git push *)"], &[], PermissionMode::Default);
    let access = Access::execute("git add a && git push");
    assert_eq!(asks.part_rules("bash", &access, &Value::Null), [""; 0]);
}

/// A program that drives the session can ask about tools of servers in a mode that asks about nothing else.
#[test]
fn rules_of_the_program_for_servers_ask_in_every_mode() {
    for mode in [PermissionMode::Default, PermissionMode::BypassPermissions] {
        let mut guard = guard(&["mcp__own"], &[], &[], mode);
        let ask = ["mcp__own", "mcp__other__post", "Bash"].map(str::to_owned).to_vec();
        let mut set = |rules| {
            guard
                .change_rules(
                    RuleOwner::Program,
                    RuleChange::Replace,
                    &BTreeMap::from([(RuleKind::Ask, rules)]),
                )
                .unwrap();
            ["mcp__own__a", "mcp__other__post", "bash:rm a"].map(|text| decide(&guard, text))
        };
        let bypasses = mode == PermissionMode::BypassPermissions;
        assert_eq!(set(ask), ["ask", "ask", if bypasses { "allow" } else { "ask" }], "{mode:?}");
        let others = if bypasses { "allow" } else { "ask" };
        assert_eq!(set(Vec::new()), ["allow", others, others], "{mode:?}");
    }
}

/// If the program pins a server to the mode `auto`, the server gets no more rights in any mode, and in `bypassPermissions` those of `auto`.
#[test]
fn servers_in_mode_auto_are_judged_as_in_that_mode() {
    for (allow, ask, deny) in [
        (&[][..], &[][..], &[][..]),
        (&["mcp__own"], &[], &[]),
        (&["mcp__own__a"], &["mcp__own"], &[]),
        (&["mcp__own"], &[], &["mcp__own__b"]),
    ] {
        for mode in PermissionMode::ALL {
            let plain = guard(allow, ask, deny, mode);
            let mut pinned = guard(allow, ask, deny, mode);
            let rules = BTreeMap::from([(RuleKind::Ask, vec!["mcp__own".to_owned()])]);
            pinned.change_rules(RuleOwner::Auto, RuleChange::Replace, &rules).unwrap();
            // An ask rule of the settings counts in `auto`, but not in `bypassPermissions`: there only the pin asks.
            let judge = match mode {
                PermissionMode::BypassPermissions => guard(allow, &[], deny, PermissionMode::Auto),
                _ => plain.clone(),
            };
            for text in ["mcp__own__a", "mcp__own__b"] {
                assert_eq!(decide(&pinned, text), decide(&judge, text), "{mode:?} {allow:?} {text}");
            }
            for text in ["mcp__other__a", "bash:rm a", "read:/etc/hosts"] {
                assert_eq!(decide(&pinned, text), decide(&plain, text), "{mode:?} {text}");
            }
        }
    }
}

#[test]
fn modes() {
    // The decisions are for the modes default, acceptEdits, plan, dontAsk and bypassPermissions, in this order.
    for (text, want) in [
        ("read:/repo/src/a.rs", ["allow"; 5]),
        ("read:/lib/a.rs", ["allow"; 5]),
        ("grep:/repo", ["allow"; 5]),
        ("todo", ["allow"; 5]),
        ("skill:review", ["allow"; 5]),
        ("bash:ls -la", ["allow"; 5]),
        ("read:/etc/hosts", ["ask", "ask", "ask", "deny", "allow"]),
        ("read:/repo-evil/a", ["ask", "ask", "ask", "deny", "allow"]),
        ("read:/repo/.env", ["ask", "ask", "ask", "deny", "allow"]),
        ("read:/home/u/.ssh/id_rsa", ["ask", "ask", "ask", "deny", "allow"]),
        ("edit:/repo/src/a.rs", ["ask", "allow", "deny", "deny", "allow"]),
        ("write:/lib/new.rs", ["ask", "allow", "deny", "deny", "allow"]),
        ("write:/tmp/x", ["ask", "ask", "deny", "deny", "allow"]),
        ("write:/repo/.env", ["ask", "ask", "deny", "deny", "allow"]),
        ("edit:/repo/.git/hooks/pre-commit", ["ask", "ask", "deny", "deny", "allow"]),
        ("edit:/repo/.becket/config.toml", ["ask", "ask", "deny", "deny", "allow"]),
        ("edit:/home/u/.bashrc", ["ask", "ask", "deny", "deny", "allow"]),
        ("edit:/home/u/.local/share/becket/sessions/x", ["ask", "ask", "deny", "deny", "allow"]),
        ("bash:cargo test", ["ask", "ask", "deny", "deny", "allow"]),
        ("bash:mkdir -p src/new", ["ask", "allow", "deny", "deny", "allow"]),
        ("bash:cp a.txt b.txt", ["ask", "allow", "deny", "deny", "allow"]),
        ("bash:cp a.txt .git/config", ["ask", "ask", "deny", "deny", "allow"]),
        ("bash:mv a.txt /tmp/b", ["ask", "ask", "deny", "deny", "allow"]),
        ("bash:rm a.txt", ["ask", "ask", "deny", "deny", "allow"]),
        ("bash:echo x > out.txt", ["ask", "allow", "deny", "deny", "allow"]),
        ("bash:echo x > /etc/x", ["ask", "ask", "deny", "deny", "allow"]),
        ("bash:echo x > .git/config", ["ask", "ask", "deny", "deny", "allow"]),
        ("webfetch:domain:docs.rs", ["ask", "ask", "deny", "deny", "allow"]),
        ("web_search:x", ["ask", "ask", "deny", "deny", "allow"]),
        ("lsp:/repo/a.rs", ["allow"; 5]),
        ("lsp:/etc/hosts", ["ask", "ask", "ask", "deny", "allow"]),
        ("lsp-rename:/repo/a.rs", ["ask", "allow", "deny", "deny", "allow"]),
    ] {
        for mode in PermissionMode::ALL {
            let column = match mode {
                PermissionMode::Default => 0,
                // Without a sandbox, `auto` gives no right that `acceptEdits` does not give.
                PermissionMode::AcceptEdits | PermissionMode::Auto => 1,
                PermissionMode::Plan => 2,
                PermissionMode::DontAsk => 3,
                PermissionMode::BypassPermissions => 4,
            };
            assert_eq!(decide(&guard(&[], &[], &[], mode), text), want[column], "{text} in {mode}");
        }
    }
}

#[test]
fn allow_rules() {
    for (rule, allowed, asked) in [
        (
            "Bash(git *)",
            vec!["bash:git commit -m x", "bash:git", "bash:git status && git push -u origin main"],
            vec!["bash:gitk", "bash:git status; rm x", "bash:git -c a=b log"],
        ),
        ("Bash(git:*)", vec!["bash:git fetch"], vec!["bash:gitx"]),
        (
            "Bash(npm run test:*)",
            vec!["bash:npm run test", "bash:npm run test --watch"],
            vec!["bash:npm run tests", "bash:npm run build"],
        ),
        (
            "Bash(npm run test*)",
            vec!["bash:npm run test:unit", "bash:npm run tests"],
            vec!["bash:npm run build"],
        ),
        ("Bash(cargo test)", vec!["bash:cargo test"], vec!["bash:cargo test --all", "bash:cargo build"]),
        ("bash(Cargo *)", vec![], vec!["bash:cargo test"]),
        ("Bash(* --version)", vec!["bash:cargo --version"], vec!["bash:cargo --version x"]),
        ("Bash(echo *)", vec!["bash:echo $X"], vec!["bash:echo x > f", "bash:echo $(rm x)"]),
        ("Bash(cat *)", vec!["bash:cat /etc/hosts"], vec!["bash:cat .env", "bash:cat ~/.ssh/id_rsa"]),
        ("Bash(cat .env*)", vec!["bash:cat .env"], vec!["bash:cat x.pem"]),
        ("Bash(timeout *)", vec!["bash:timeout 5 cargo test"], vec!["bash:cargo test"]),
        (
            "Bash(cargo test *)",
            vec![
                "bash:timeout 60 cargo test",
                "bash:NO_COLOR=1 cargo test -q",
                "bash:cd src && cargo test 2>&1 | tail -5",
                "bash:bash -c 'cargo test'",
            ],
            vec!["bash:PATH=. cargo test", "bash:sudo cargo test"],
        ),
        ("Bash(sudo apt *)", vec!["bash:sudo apt update"], vec!["bash:sudo rm x"]),
        (
            "Bash",
            vec!["bash:cargo test > log.txt", "bash:python3 x.py", "bash:$X y"],
            vec!["bash:cat .env", "bash:echo x > .git/config", "bash:sudo ls"],
        ),
        (
            "Read(~/notes/**)",
            vec!["read:/home/u/notes/a/b.md"],
            vec!["read:/home/u/other", "edit:/home/u/notes/a"],
        ),
        ("Read(//etc/hosts)", vec!["read:/etc/hosts"], vec!["read:/etc/passwd"]),
        ("Read(/etc/**)", vec!["read:/etc/hosts"], vec!["read:/etc/shadow"]),
        ("Read", vec!["read:/etc/hosts"], vec!["read:/repo/.env"]),
        (
            "Read(.env)",
            vec!["read:/repo/.env", "read:/repo/sub/.env"],
            vec!["read:/repo/.env.local", "read:/other/.env"],
        ),
        ("Read(**)", vec!["read:/repo/a"], vec!["read:/repo/.env"]),
        (
            "Edit(./src/**)",
            vec!["edit:/repo/src/a.rs", "write:/repo/src/x/y.rs", "bash:echo x > src/a"],
            vec!["edit:/repo/a/src/b.rs", "edit:/lib/src/a.rs", "edit:/repo/src/.git/config"],
        ),
        ("Edit(/src/**)", vec!["edit:/repo/src/a.rs"], vec!["edit:/repo/other"]),
        ("Edit", vec!["edit:/repo/a", "write:/repo/a"], vec!["edit:/repo/.git/config"]),
        ("Edit(.git/config)", vec!["edit:/repo/.git/config"], vec!["edit:/repo/.git/hooks/x"]),
        ("Write(*.md)", vec!["write:/repo/docs/a.md"], vec!["edit:/repo/docs/a.md"]),
        ("WebFetch(domain:docs.rs)", vec!["webfetch:domain:docs.rs"], vec!["webfetch:domain:evil.example"]),
        ("WebFetch(domain:docs.rs)", vec!["web_fetch:domain:docs.rs"], vec!["web_fetch:domain:evil.docs.rs"]),
        (
            "web_fetch(domain:*.docs.rs)",
            vec!["web_fetch:domain:a.docs.rs"],
            vec!["web_fetch:domain:evildocs.rs"],
        ),
        ("WebFetch", vec!["web_fetch:domain:docs.rs"], vec!["web_search:x"]),
        ("WebSearch", vec!["web_search:x"], vec!["web_fetch:domain:docs.rs"]),
        ("Edit(./src/**)", vec!["lsp-rename:/repo/src/a.rs"], vec!["lsp-rename:/repo/b.rs"]),
        ("Read(//etc/**)", vec!["lsp:/etc/hosts"], vec!["lsp-rename:/etc/hosts"]),
        ("Lsp", vec!["lsp:/repo/a.rs"], vec!["lsp-rename:/repo/a.rs"]),
        ("mcp__db__*", vec!["mcp__db__query"], vec!["mcp__other__query"]),
        ("mcp__db", vec!["mcp__db__query"], vec!["mcp__db2__query"]),
    ] {
        let guard = guard(&[rule], &[], &[], PermissionMode::Default);
        for text in allowed {
            assert_eq!(decide(&guard, text), "allow", "{rule} on {text}");
        }
        for text in asked {
            assert_eq!(decide(&guard, text), "ask", "{rule} on {text}");
        }
    }
}

#[test]
fn deny_beats_ask_beats_allow_in_every_mode() {
    let denied = [
        (
            "Bash(rm *)",
            vec![
                "bash:rm",
                "bash:ls; rm x",
                "bash:/bin/rm x",
                "bash:echo $(r\\m x)",
                "bash:sudo rm x",
                "bash:find . -exec rm {} \\;",
                "bash:X=1 rm x",
                "bash:xargs rm",
                "bash:bash -c 'ls; rm x'",
                "bash:cat << EOF1; rm x\nEOF1",
            ],
        ),
        ("Bash", vec!["bash:ls"]),
        (
            "Read(.env)",
            vec![
                "read:/repo/.env",
                "read:/repo/a/.ENV",
                "bash:cat .env",
                "bash:cat < .env",
                "bash:cp .env x",
            ],
        ),
        ("Read(~/.ssh/**)", vec!["read:/home/u/.ssh/config", "bash:cat ~/.ssh/config"]),
        ("Read(./private/**)", vec!["grep:/repo/private", "read:/repo/private/x"]),
        (
            "Edit(./gen/**)",
            vec!["edit:/repo/gen/a", "write:/repo/gen/b", "bash:echo x > gen/a", "bash:rm gen/a"],
        ),
        ("Edit", vec!["edit:/repo/a", "write:/repo/a", "multi_edit:/repo/a", "apply_patch:/repo/a"]),
        (
            "Edit(/repo/**)",
            vec!["edit:/repo/a", "write:/repo/a", "multi_edit:/repo/a", "apply_patch:/repo/a"],
        ),
        ("Skill(deploy)", vec!["skill:deploy"]),
        ("mcp__db__drop*", vec!["mcp__db__drop_table"]),
        ("todo", vec!["todo"]),
    ];
    let everything = ["Bash", "Read", "Edit", "Write", "Skill", "mcp__db__*", "Todo"];
    for (rule, calls) in denied {
        for mode in PermissionMode::ALL {
            let guard = guard(&everything, &everything, &[rule], mode);
            for text in &calls {
                assert_eq!(decide(&guard, text), "deny", "{rule} on {text} in {mode}");
            }
        }
    }
    let guard = guard(
        &["Bash(git *)", "Edit"],
        &["Bash(git push *)", "Edit(./docs/**)"],
        &[],
        PermissionMode::Default,
    );
    for (text, want) in [
        ("bash:git fetch", "allow"),
        ("bash:git fetch && git push", "ask"),
        ("edit:/repo/a", "allow"),
        ("edit:/repo/docs/a", "ask"),
    ] {
        assert_eq!(decide(&guard, text), want, "{text}");
    }
}

#[test]
fn bypass_mode_asks_where_deny_rules_cannot_be_checked() {
    let with = guard(&[], &[], &["Bash(rm *)"], PermissionMode::BypassPermissions);
    let without = guard(&[], &[], &[], PermissionMode::BypassPermissions);
    for text in ["bash:$X y", "bash:echo 'a", "bash:eval \"$X\"", "bash:ls\rx"] {
        assert_eq!((decide(&with, text), decide(&without, text)), ("ask", "allow"), "{text}");
    }
}

#[test]
fn a_session_rule_from_the_question_answers_it() {
    for text in [
        "bash:cargo test --all",
        "bash:rm a.txt",
        "bash:echo 'a*b\\c' > out; make -j2",
        "bash:cat .env",
        "bash:git -c core.pager=cat log",
        "edit:/repo/a [1].rs",
        "read:/home/u/.ssh/config",
        "edit:/repo/.git/config",
        "webfetch:domain:docs.rs",
    ] {
        let mut guard = guard(&[], &[], &[], PermissionMode::Default);
        let (tool, access) = call(text);
        let Verdict::Ask { rule: Some(rule), .. } = guard.check(&tool, &access, &Value::Null) else {
            panic!("{text} does not ask with a rule");
        };
        guard.allow_for_session(&rule).unwrap();
        assert_eq!(decide(&guard, text), "allow", "{text} after {rule}");
        assert_eq!(guard.added_rules(RuleOwner::Session).allow.len(), 1);
        let mut remove = || change(&mut guard, RuleKind::Allow, RuleChange::Remove, &[&rule]);
        assert_eq!((remove(), remove()), (Ok(1), Ok(0)), "{rule}");
        assert_eq!(decide(&guard, text), "ask", "{text} without {rule}");
    }
}

/// The program can withdraw an allow rule of the settings, but no rule that denies or asks.
#[test]
fn only_permissions_are_withdrawn() {
    let mut guard = guard(&["Bash(make *)"], &["Bash(git push *)"], &["Bash(rm *)"], PermissionMode::Default);
    assert_eq!(decide(&guard, "bash:make all"), "allow");
    let mut remove = |rule| change(&mut guard, RuleKind::Allow, RuleChange::Remove, &[rule]);
    assert_eq!(remove("Bash(make *)"), Ok(1));
    for rule in ["Bash(git push *)", "Bash(rm *)"] {
        assert_eq!(remove(rule), Ok(0), "{rule}");
    }
    assert!(remove("no rule (").is_err());
    assert_eq!(decide(&guard, "bash:make all"), "ask");
    assert_eq!(decide(&guard, "bash:rm x"), "deny");
    for owner in [RuleOwner::Session, RuleOwner::Program, RuleOwner::Auto] {
        let rules = BTreeMap::from([(RuleKind::Allow, vec!["Bash(make *)".to_owned()])]);
        guard.change_rules(owner, RuleChange::Add, &rules).unwrap();
        let withdrawn = change(&mut guard, RuleKind::Allow, RuleChange::Remove, &["Bash(make *)"]);
        assert_eq!((withdrawn, guard.added_rules(owner).allow.len()), (Ok(1), 0), "{owner:?}");
    }
}

#[test]
fn reasons_say_what_and_what_to_do() {
    let guard = guard(&["Bash(cargo build *)"], &[], &["Bash(rm -rf *)"], PermissionMode::Default);
    let reason = |text: &str| {
        let (tool, access) = call(text);
        match guard.check(&tool, &access, &Value::Null) {
            Verdict::Ask { reason, rule } => reason + &rule.map(|r| how_to_allow(&r)).unwrap_or_default(),
            Verdict::Deny { reason, .. } => reason,
            Verdict::Allow { why } => why,
        }
    };
    for (text, want) in [
        (
            "bash:cargo test --all",
            "no rule allows `cargo test --all` (`cargo` is not known to only read); nearest rule: Bash(cargo build *); to allow it: --allowedTools 'Bash(cargo test *)'",
        ),
        (
            "bash:ls; rm -rf x",
            "`rm -rf x` is denied by the rule Bash(rm -rf *); deny rules hold in every mode",
        ),
        (
            "read:/etc/hosts",
            "/etc/hosts is outside the workspace (or add its folder with --add-dir); to allow it: --allowedTools \
             'Read(//etc/hosts)'",
        ),
        (
            "read:/repo/.env",
            "/repo/.env: .env may hold secrets; to allow it: --allowedTools 'Read(//repo/.env)'",
        ),
        ("bash:cargo build -q", "allowed by Bash(cargo build *)"),
    ] {
        assert_eq!(reason(text), want, "{text}");
    }
}

#[test]
fn malformed_rules_say_where_and_what_instead() {
    for (text, want) in [
        ("", "rule \"\", character 1: a rule needs a tool name; write `Bash(git *)` or `Read`"),
        ("Bash(git *", "rule \"Bash(git *\", character 11: the closing `)` is missing; write `Bash(git *)`"),
        (
            "Bash()",
            "rule \"Bash()\", character 6: nothing between the parentheses; write `Bash` for every use of the tool",
        ),
        (
            "Bash git *",
            "rule \"Bash git *\", character 5: after the tool name comes `(` or nothing; write `Bash(git *)`",
        ),
        ("Bash(a) b", "rule \"Bash(a) b\", character 8: text after the closing `)`; write `Bash(a)`"),
        ("*", "rule \"*\", character 1: a rule starts with a tool name; write `Bash(git *)` or `Read`"),
        ("(git *)", "rule \"(git *)\", character 1: a rule starts with a tool name; write `Bash(git *)`"),
        ("Ba*", "rule \"Ba*\", character 3: only names of MCP tools may hold `*`; write `Ba`"),
        (
            "Read([)",
            "rule \"Read([)\", character 6: not a path pattern (unclosed character class; missing ']'); write `Read(./src/**)`",
        ),
        (
            "mcp__a__b(x)",
            "rule \"mcp__a__b(x)\", character 10: rules for MCP tools take no parentheses; write `mcp__a__b`",
        ),
    ] {
        assert_eq!(Rule::parse(text).unwrap_err().to_string(), want);
    }
    let braces = format!("Read({})", "{a,b}".repeat(100));
    assert!(Rule::parse(&braces).unwrap_err().message.contains("wildcards"));
    let all = Rules::parse(&["Bash(", "Read"], &["x("], &[]).unwrap_err();
    assert_eq!(all.len(), 2);
    let typo = guard(&["Bsh(git *)", "Read"], &[], &[], PermissionMode::Default);
    let tools = || ["bash", "job_output", "web_search"].map(str::to_owned).to_vec();
    assert_eq!(typo.warnings(&tools), ["the rule Bsh(git *) names no known tool; did you mean Bash?"]);
}

/// Rules with names of becket's tools, of tools that may be connected later, and of other agents' tools.
const KNOWN_NAMES: &[&str] = &[
    "Bash(git *)",
    "shell",
    "Job_Output",
    "joboutput",
    "WebSearch",
    "web_search",
    "Agent(x)",
    "MultiEdit",
    "LS",
    "NotebookEdit(a/**)",
    "TodoWrite",
    "KillShell",
    "mcp__db",
    "mcp__db__query",
    "mcp__*",
];

#[test]
fn a_rule_that_names_no_tool_is_told_with_the_nearest_name() {
    let tools = || ["bash", "job_output", "web_search"].map(str::to_owned).to_vec();
    for list in 0..3 {
        let lists = |rules: &'static [&'static str]| {
            let of = |n: usize| if n == list { rules } else { &[] };
            guard(of(0), of(1), of(2), PermissionMode::Default)
        };
        assert_eq!(lists(KNOWN_NAMES).warnings(&tools), [""; 0]);
        assert_eq!(
            lists(&["job_ouput", "Frobnicate(x)", "Web"]).warnings(&tools),
            [
                "the rule job_ouput names no known tool; did you mean job_output?",
                "the rule Frobnicate(x) names no known tool and does nothing; tools: bash, job_output, web_search",
                "the rule Web names no known tool and does nothing; tools: bash, job_output, web_search",
            ]
        );
    }
}

#[test]
fn bare_deny_rules_remove_tools() {
    let guard = guard(&[], &[], &["Edit", "Bash(rm *)", "mcp__db__*"], PermissionMode::Default);
    let names =
        ["read", "edit", "multi_edit", "apply_patch", "write", "bash", "mcp__db__query"].map(str::to_owned);
    assert_eq!(guard.removed_tools(&names), ["edit", "multi_edit", "apply_patch", "write", "mcp__db__query"]);
}

#[test]
fn searches_for_secrets_ask() {
    let guard = guard(&[], &[], &[], PermissionMode::Default);
    for (tool, input, asks) in [
        ("glob", json!({"pattern": "**/.env*"}), true),
        ("glob", json!({"pattern": "**/*.rs"}), false),
        ("grep", json!({"pattern": "process.env"}), false),
        ("grep", json!({"pattern": "x", "glob": "*.pem"}), true),
    ] {
        let verdict = guard.check(tool, &Access::read("/repo".into()), &input);
        assert_eq!(matches!(verdict, Verdict::Ask { .. }), asks, "{tool} {input}");
    }
}

#[test]
fn the_model_does_not_choose_its_own_workspace() {
    let guard = guard(&["Bash"], &[], &[], PermissionMode::Default);
    for (dir, want) in [("/repo/sub", true), ("/etc", false), ("/repo-evil", false)] {
        let access = Access { paths: vec![dir.into()], ..Access::execute("git status") };
        let verdict = guard.check("bash", &access, &Value::Null);
        assert_eq!(matches!(verdict, Verdict::Allow { .. }), want, "{dir}: {verdict:?}");
    }
}

#[test]
fn links_are_followed_where_a_resolver_is_given() {
    let guard = guard(&[], &[], &[], PermissionMode::Default).with_resolver(Arc::new(|path: &Path| {
        path.strip_prefix("/repo/link")
            .map_or_else(|_| path.to_path_buf(), |rest| Path::new("/etc").join(rest))
    }));
    assert_eq!(decide(&guard, "bash:cat link/hosts"), "ask");
    assert_eq!(decide(&guard, "bash:cat other/hosts"), "allow");
}

#[test]
fn lists_of_rules_are_split_outside_parentheses() {
    assert_eq!(
        split_rules("Bash(git *),Edit Read(a,b), mcp__x"),
        ["Bash(git *)", "Edit", "Read(a,b)", "mcp__x"]
    );
}

fn command() -> impl Strategy<Value = String> {
    let atom = prop_oneof![
        Just("rm x".to_owned()),
        Just("ls".to_owned()),
        Just("git status".to_owned()),
        Just("$X".to_owned()),
        Just("echo 'a b'".to_owned()),
        Just("cat .env".to_owned()),
        "[a-z$`'\"\\\\ ;|&<>(){}*?~#!=-]{0,12}",
    ];
    atom.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}; {b}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} && {b}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} | {b}")),
            inner.clone().prop_map(|a| format!("({a})")),
            inner.clone().prop_map(|a| format!("echo $({a})")),
            inner.clone().prop_map(|a| format!("echo \"`{a}`\"")),
            inner.clone().prop_map(|a| format!("if true; then {a}; fi")),
            inner.clone().prop_map(|a| format!("for f in a b; do {a}; done")),
            inner.clone().prop_map(|a| format!("timeout 5 {a}")),
            inner.prop_map(|a| format!("cat <<EOF\n{a}\nEOF")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_gets_a_verdict(command in command(), noise in "\\PC{0,40}", rule in "[A-Za-z_]{0,6}\\PC{0,20}") {
        let base = guard(&["Bash(git *)"], &[], &["Bash(rm *)"], PermissionMode::Default);
        for text in [&command, &noise, &format!("{command}{noise}")] {
            let _ = base.check("bash", &Access::execute(text.clone()), &Value::Null);
        }
        let _ = Rule::parse(&rule);
        let _ = Rule::parse(&format!("Bash({noise})"));
    }

    #[test]
    fn a_denied_part_is_never_allowed(a in command(), b in command(), mode in 0usize..5) {
        let guard = guard(&["Bash"], &[], &["Bash(rm *)"], PermissionMode::ALL[mode]);
        for text in [format!("rm x; {a}"), format!("{a}\nrm x\n{b}"), format!("{a} && rm x || {b}"), format!("({a}); $(rm x)")] {
            // Half a quote, a comment or a here-document may turn the denied part into text; then no denial is required.
            if a.contains(['\'', '"', '#', '\\', '<', '`', '{', '(', ')', '$']) {
                continue;
            }
            let verdict = guard.check("bash", &Access::execute(text.clone()), &Value::Null);
            prop_assert!(matches!(verdict, Verdict::Deny { .. }), "{text:?}: {verdict:?}");
        }
    }

    // A subagent that only reads has mode `plan`: that gives it nothing that its agent does not have.
    #[test]
    fn mode_plan_is_never_looser_than_another(command in command(), path in prop_oneof!["src/[a-z]{1,3}", "\\.env", "/etc/x", "\\.git/config"], mode in 0usize..5) {
        fn rank(v: &Verdict) -> u8 {
            match v { Verdict::Allow { .. } => 0, Verdict::Ask { .. } => 1, Verdict::Deny { .. } => 2 }
        }
        let of = |mode| guard(&["Bash(git *)", "Edit(src/**)"], &["Read(src/a*)"], &["Bash(rm *)", "Read(src/b*)"], mode);
        let (above, below) = (of(PermissionMode::ALL[mode]), of(PermissionMode::Plan));
        let path = Path::new("/repo").join(&path);
        let calls = [
            ("bash", Access::execute(command)),
            ("read", Access::read(path.clone())),
            ("edit", Access::write(path)),
            ("task", Access { effect: Effect::Delegate, ..Access::session() }),
            ("web_fetch", Access { effect: Effect::Network, ..Access::session() }),
        ];
        for (tool, access) in calls {
            let (above, below) = (above.check(tool, &access, &Value::Null), below.check(tool, &access, &Value::Null));
            // A call that `dontAsk` denies may be asked about in `plan`. A subagent has no person to ask there.
            let asks = PermissionMode::ALL[mode] == PermissionMode::DontAsk && rank(&below) == 1;
            prop_assert!(asks || rank(&below) >= rank(&above), "{tool} {access:?}: {above:?} then {below:?}");
        }
    }

    #[test]
    fn more_deny_rules_never_loosen(command in command(), mode in 0usize..5, extra in "Bash\\((ls|git|echo|cat) \\*\\)") {
        fn rank(v: &Verdict) -> u8 {
            match v { Verdict::Allow { .. } => 0, Verdict::Ask { .. } => 1, Verdict::Deny { .. } => 2 }
        }
        let allow = ["Bash(git *)", "Bash(ls *)"];
        let access = Access::execute(command.clone());
        let mode = PermissionMode::ALL[mode];
        let before = guard(&allow, &[], &["Bash(rm *)"], mode).check("bash", &access, &Value::Null);
        let after = guard(&allow, &[], &["Bash(rm *)", &extra], mode).check("bash", &access, &Value::Null);
        prop_assert!(rank(&after) >= rank(&before), "{command:?}: {before:?} then {after:?}");
    }
}

#[test]
fn an_explanation_names_the_rule_and_judges_each_part() {
    let guard = guard(
        &["Bash(cargo test *)", "Edit(src/**)"],
        &["Bash(git push *)"],
        &["Bash(rm *)"],
        PermissionMode::Default,
    );
    for (command, verb, by, rule, parts) in [
        ("ls", Verb::Allow, DecidedBy::Mode, None, vec![Verb::Allow]),
        ("cargo test -q", Verb::Allow, DecidedBy::Rule, Some("Bash(cargo test *)"), vec![Verb::Allow]),
        ("git push", Verb::Ask, DecidedBy::Rule, Some("Bash(git push *)"), vec![Verb::Ask]),
        ("make", Verb::Ask, DecidedBy::Mode, None, vec![Verb::Ask]),
        ("ls && rm x", Verb::Deny, DecidedBy::Rule, Some("Bash(rm *)"), vec![Verb::Allow, Verb::Deny]),
        ("ls; make; cargo test", Verb::Ask, DecidedBy::Mode, None, vec![Verb::Allow, Verb::Ask, Verb::Allow]),
        (
            "cargo test && make; make",
            Verb::Ask,
            DecidedBy::Mode,
            None,
            vec![Verb::Allow, Verb::Ask, Verb::Ask],
        ),
        ("ls > src/a", Verb::Allow, DecidedBy::Mode, None, vec![Verb::Allow, Verb::Allow]),
        ("ls > /etc/x", Verb::Ask, DecidedBy::Mode, None, vec![Verb::Ask, Verb::Allow]),
        ("bash -c 'ls; make'", Verb::Ask, DecidedBy::Mode, None, vec![Verb::Allow, Verb::Ask]),
        ("eval \"$x\"", Verb::Ask, DecidedBy::Mode, None, vec![Verb::Ask]),
    ] {
        let found = guard.explain("bash", &Access::execute(command), &Value::Null);
        let verbs: Vec<Verb> = found.parts.iter().map(|part| part.verb).collect();
        assert_eq!(
            (found.verb(), found.by, found.rule.as_deref(), verbs),
            (verb, by, rule, parts),
            "{command}: {found:?}"
        );
        // An explanation never says anything else than the verdict itself.
        assert_eq!(found.verdict, guard.check("bash", &Access::execute(command), &Value::Null));
    }
    let edit = |path: &str| guard.explain("edit", &Access::write(path.into()), &Value::Null);
    assert_eq!(edit("/repo/src/a.rs").rule.as_deref(), Some("Edit(src/**)"));
    assert_eq!((edit("/repo/b.rs").verb(), edit("/repo/b.rs").by), (Verb::Ask, DecidedBy::Mode));
}

#[test]
fn a_command_is_covered_only_if_rules_match_all_of_it() {
    let guard = guard(&["Bash(git *)", "Bash(make)"], &[], &[], PermissionMode::Default);
    for (command, covered) in [
        ("git status", true),
        ("git push origin main", true),
        ("git log && make", true),
        ("ls", false),
        ("git log && ls", false),
        ("gitk", false),
        ("git push; rm x", false),
        ("git -c core.pager=x log", false),
    ] {
        let found = guard.explain("bash", &Access::execute(command), &Value::Null);
        assert_eq!(found.covered, covered, "{command}: {found:?}");
    }
}

/// A folder that joins the session may bring files that are protected from then on.
#[test]
fn files_that_are_protected_later_are_asked_about() {
    let mut guard = guard(&[], &[], &[], PermissionMode::AcceptEdits);
    let write = Access::write("/repo/dev/gitconfig".into());
    assert!(matches!(guard.check("edit", &write, &Value::Null), Verdict::Allow { .. }));
    guard.protect(vec![PathBuf::from("/repo/dev/gitconfig")]);
    assert!(matches!(guard.check("edit", &write, &Value::Null), Verdict::Ask { .. }));
    let redirect = Access::execute("echo x > dev/gitconfig");
    assert!(matches!(guard.check("bash", &redirect, &Value::Null), Verdict::Ask { .. }));
}

/// A session changes only to modes that its start and the administrator permit. Clones for subagents have the same limits.
#[test]
fn limits_on_modes_hold_for_the_session_and_its_subagents() {
    use PermissionMode::{AcceptEdits, Auto, BypassPermissions, Default, DontAsk, Plan};
    for (no_bypass, managed, allowed) in [
        (false, None, &PermissionMode::ALL[..]),
        (true, None, &[Default, AcceptEdits, Auto, Plan, DontAsk][..]),
        (false, Some(BypassPermissions), &PermissionMode::ALL[..]),
        (true, Some(BypassPermissions), &[Default, AcceptEdits, Auto, Plan, DontAsk][..]),
        (false, Some(AcceptEdits), &[Default, AcceptEdits, Plan, DontAsk][..]),
        (false, Some(Default), &[Default, Plan, DontAsk][..]),
        (false, Some(Plan), &[Plan][..]),
    ] {
        let mut limited = guard(&[], &[], &[], Plan);
        limited.limit_modes(ModeLimits { no_bypass, managed, ..ModeLimits::default() });
        let subagent = limited.clone();
        for mode in PermissionMode::ALL {
            let may = allowed.contains(&mode);
            assert_eq!(limited.may_enter(mode).is_ok(), may, "{no_bypass} {managed:?} {mode}");
            assert_eq!(subagent.may_enter(mode).is_ok(), may, "{no_bypass} {managed:?} {mode}");
        }
    }
}

#[test]
fn managed_ask_rules_hold_in_every_mode() {
    let floor = Rules::parse(&[], &["Bash(git push *)", "Edit(deploy/**)", "WebFetch"], &[]).unwrap().ask;
    let calls = [
        ("bash", Access::execute("git push"), true),
        ("bash", Access::execute("ls; git push -f"), true),
        ("bash", Access::execute("echo x > deploy/a"), true),
        ("bash", Access::execute("sh -c 'git push x'"), true),
        ("bash", Access::execute("make"), false),
        ("edit", Access::write("/repo/deploy/a".into()), true),
        ("edit", Access::write("/repo/src/a".into()), false),
        ("web_fetch", Access { effect: Effect::Network, ..Access::session() }, true),
    ];
    for mode in PermissionMode::ALL {
        let guard = guard(
            &["Bash", "Edit", "WebFetch"],
            &["Bash(git push *)", "Edit(deploy/**)", "WebFetch"],
            &[],
            mode,
        )
        .with_floor(floor.clone());
        for (tool, access, held) in &calls {
            let verdict = guard.check(tool, access, &Value::Null);
            let runs = matches!(verdict, Verdict::Allow { .. });
            assert!(!(*held && runs), "{mode}: {access:?}: {verdict:?}");
            if mode == PermissionMode::BypassPermissions {
                assert_eq!(runs, !held, "{access:?}: {verdict:?}");
            }
        }
    }
    // Rules of other scopes are not the floor: the mode sets them aside.
    let own = guard(&[], &["Bash(git push *)"], &[], PermissionMode::BypassPermissions);
    let verdict = own.check("bash", &Access::execute("git push"), &Value::Null);
    assert!(matches!(verdict, Verdict::Allow { .. }), "{verdict:?}");
}

/// The guard judges by names, the sandbox by paths: neither may know a place that the other leaves out.
#[test]
fn what_the_guard_asks_about_no_confined_command_writes() {
    use becket_sandbox::{Policy, PolicyInputs};
    let (root, outside) = (PathBuf::from("/p"), PathBuf::from("/other/.git/modules/s"));
    let guard = Guard::new(GuardSettings {
        mode: PermissionMode::AcceptEdits,
        roots: vec![root.clone(), outside.clone()],
        ..GuardSettings::default()
    });
    let asked = |path: &Path| {
        let access = Access::write(path.to_path_buf());
        matches!(guard.check("edit", &access, &Value::Null), Verdict::Ask { .. })
    };
    let inputs =
        PolicyInputs { roots: vec![root.clone()], git_dirs: vec![outside], ..PolicyInputs::default() };
    let policy = Policy::new(becket_types::SandboxLevel::Workspace, &inputs, Path::new("/tmp/private"), &[]);
    for path in becket_types::obeyed_in(&root).iter().chain(&policy.protected) {
        assert!(asked(path), "the guard does not ask about {path:?}");
        for path in [path.clone(), path.join("x")] {
            assert!(!policy.may_write(&path), "a confined command may write {path:?}");
        }
    }
    for name in [
        ".git/hooks/pre-commit",
        ".git/config.worktree",
        ".hg/hgrc",
        ".gitattributes",
        ".kshrc",
        ".inputrc",
        ".vimrc",
        ".tmux.conf",
        ".pre-commit-config.yaml",
        ".codex/config.toml",
        ".cursor/rules/a.mdc",
        ".claude/skills/a/SKILL.md",
        ".devcontainer/devcontainer.json",
        ".config/fish/config.fish",
        ".config/systemd/user/a.service",
    ] {
        assert!(asked(&root.join(name)) && !policy.may_write(&root.join(name)), "{name}");
    }
    for name in ["src/main.rs", ".gitignore", ".github/workflows/ci.yml", "systemd/a.c", "etc/a.conf"] {
        assert!(!asked(&root.join(name)) && policy.may_write(&root.join(name)), "{name}");
    }
    // Git and Mercurial write these while they work.
    for name in [".git/index", ".git/refs/heads/main", ".hg/dirstate", ".svn/wc.db"] {
        assert!(asked(&root.join(name)) && policy.may_write(&root.join(name)), "{name}");
    }
}

/// `explain` reads a command once and says the same as the separate functions.
#[test]
fn the_decision_says_how_the_call_runs() {
    for mode in [PermissionMode::Default, PermissionMode::Auto, PermissionMode::Plan, PermissionMode::DontAsk]
    {
        let works: becket_guard::SandboxWorks = Arc::new(|_| Ok(()));
        let sandbox = becket_guard::SandboxRules { works: Some(works), ..Default::default() };
        let guard = guard(&["Bash(cargo test *)"], &["Bash(git push *)"], &["Bash(rm *)"], mode)
            .with_sandbox(sandbox);
        let mut levels = std::collections::BTreeSet::new();
        for text in [
            "bash:git status",
            "bash:git log && cargo test a",
            "bash:cargo test a",
            "bash:ls | wc -l",
            "bash:make",
            "bash:git push origin",
            "bash:rm a",
            "bash:echo $(",
            "read:/repo/a",
            "edit:/repo/.git/config",
        ] {
            let (tool, access) = call(text);
            let said = guard.explain(&tool, &access, &Value::Null);
            assert_eq!(said.verdict, guard.check(&tool, &access, &Value::Null), "{text} {mode}");
            assert_eq!(said.variables, guard.variables(&access), "{text} {mode}");
            assert_eq!(said.level, guard.sandbox_level(&access, false), "{text} {mode}");
            levels.insert(format!("{:?} {}", said.level, said.variables.is_empty()));
        }
        assert!(levels.len() >= 2, "{levels:?}");
    }
}

#[test]
fn files_of_processes_and_backups_of_secrets_are_asked_about() {
    let guard = guard(&[], &[], &[], PermissionMode::Default);
    for command in [
        "cd sub && cat /proc/self/cwd/plink",
        "cat /proc/thread-self/cwd/a",
        "cat ../../../../proc/self/cwd/a",
        "cd sub && cat /dev/fd/../cwd/plink",
        "cat .env~",
        "cat '#.env#'",
        "cat '.#.env'",
        "cat deploy_key",
        "cat kubeconfig",
    ] {
        let verdict = guard.check("bash", &Access::execute(command), &Value::Null);
        assert!(matches!(verdict, Verdict::Ask { .. }), "{command}: {verdict:?}");
    }
}

/// A program changes the rules of its session. Ask and deny rules of the settings stay.
#[test]
fn rules_of_a_session_are_added_replaced_and_removed() {
    use RuleChange::{Add, Remove, Replace};
    use RuleKind::{Allow, Ask, Deny};
    let mut guard = guard(&["Bash(make *)"], &["Bash(git push *)"], &["Bash(rm *)"], PermissionMode::Default);
    let of = |guard: &Guard, command: &str| decide(guard, &format!("bash:{command}"));
    change(&mut guard, Allow, Add, &["Bash(touch *)", "Bash(mkdir *)"]).unwrap();
    change(&mut guard, Deny, Add, &["Bash(mkdir a)"]).unwrap();
    change(&mut guard, Ask, Add, &["Bash(touch b)"]).unwrap();
    assert_eq!(
        ["touch a", "touch b", "mkdir a", "mkdir b"].map(|c| of(&guard, c)),
        ["allow", "ask", "deny", "allow"]
    );
    change(&mut guard, Allow, Replace, &["Bash(touch *)"]).unwrap();
    change(&mut guard, Deny, Replace, &[]).unwrap();
    change(&mut guard, Ask, Remove, &["Bash(touch b)"]).unwrap();
    assert_eq!(
        ["touch b", "mkdir a", "make x", "rm x"].map(|c| of(&guard, c)),
        ["allow", "ask", "allow", "deny"]
    );
    for (kind, rule) in [(Deny, "Bash(rm *)"), (Ask, "Bash(git push *)")] {
        let error = change(&mut guard, kind, Remove, &[rule]).unwrap_err();
        assert!(error.contains("in your settings"), "{error}");
    }
    assert!(change(&mut guard, Allow, Replace, &["Bash(("]).is_err());
    assert_eq!(of(&guard, "touch b"), "allow", "a wrong rule changes nothing");
}

/// Changes the rules of one kind that the session has added.
fn change(guard: &mut Guard, kind: RuleKind, change: RuleChange, rules: &[&str]) -> Result<usize, String> {
    let rules = rules.iter().map(ToString::to_string).collect();
    guard.change_rules(RuleOwner::Session, change, &BTreeMap::from([(kind, rules)]))
}

proptest! {
    /// Whatever owners change, in any order: each has the rules that a plain model of lists has, an owner never touches
    /// rules of another that ask or deny, and a refused change changes nothing.
    #[test]
    fn changes_of_rules_follow_a_model_of_lists(
        steps in prop::collection::vec((0..2_usize, 0..3_usize, 0..3_usize, prop::collection::vec(0..4_usize, 0..3)), 0..24)
    ) {
        let names = ["Bash(a)", "Bash(b)", "Bash(c)", "Bash(d)"];
        let kinds = [RuleKind::Allow, RuleKind::Ask, RuleKind::Deny];
        let owners = [RuleOwner::Session, RuleOwner::Program];
        let mut guard = guard(&["Bash(a)"], &["Bash(b)"], &["Bash(c)"], PermissionMode::Default);
        // The lists of each owner by kind; those of the settings come last.
        let mut model = [vec![vec![]; 3], vec![vec![]; 3], vec![vec!["Bash(a)"], vec!["Bash(b)"], vec!["Bash(c)"]]];
        for (owner, kind, step, picked) in steps {
            let rules: Vec<&str> = picked.iter().map(|at| names[*at]).collect();
            let step = [RuleChange::Add, RuleChange::Replace, RuleChange::Remove][step];
            let lists = BTreeMap::from([(kinds[kind], rules.iter().map(ToString::to_string).collect())]);
            let result = guard.change_rules(owners[owner], step, &lists);
            let foreign = |rule: &&str| {
                !model[owner][kind].contains(rule) && model.iter().any(|lists| lists[kind].contains(rule))
            };
            if step == RuleChange::Remove && kind > 0 && rules.iter().any(foreign) {
                prop_assert!(result.is_err());
            } else {
                prop_assert!(result.is_ok());
                match step {
                    RuleChange::Remove if kind == 0 => {
                        for lists in &mut model {
                            lists[0].retain(|rule| !rules.contains(rule));
                        }
                    }
                    RuleChange::Remove => model[owner][kind].retain(|rule| !rules.contains(rule)),
                    _ => {
                        if step == RuleChange::Replace {
                            model[owner][kind].clear();
                        }
                        for rule in rules {
                            if !model[owner][kind].contains(&rule) {
                                model[owner][kind].push(rule);
                            }
                        }
                    }
                }
            }
            for (at, kind) in kinds.iter().enumerate() {
                for (owner, lists) in owners.iter().zip(&model) {
                    let list = guard.added_rules(*owner).of_kind(*kind).iter().map(ToString::to_string);
                    prop_assert_eq!(list.collect::<Vec<_>>(), lists[at].clone());
                }
                let in_force = guard.rules(*kind).count();
                prop_assert_eq!(in_force, model.iter().map(|lists| lists[at].len()).sum::<usize>());
            }
        }
    }
}

/// A command that moves files makes the paths of what runs after it uncertain. The order is that of the shell's syntax:
/// operators inside quotes and in redirections, and names such as `for-each-ref`, say nothing about it.
#[test]
fn paths_are_uncertain_only_after_or_beside_what_may_change_them() {
    let guard = guard(&["Bash(mv *)"], &[], &[], PermissionMode::Default);
    for (command, is_asked) in [
        ("cat a; mv x y", false),
        ("cat 'a|b'; mv x y", false),
        ("cat a 2>&1; mv x y", false),
        ("cat a || mv x y", false),
        ("cat for.txt; mv x y", false),
        ("mv x y; cat a", true),
        ("mv x y || cat a", true),
        ("cat a | mv x y", true),
        ("cat a & mv x y", true),
        ("for f in 1 2; do cat a; mv x y; done", true),
        ("while true; do cat a; mv x y; done", true),
        ("cat a <(mv x y)", true),
    ] {
        let verdict = guard.check("bash", &Access::execute(command), &Value::Null);
        let asks = matches!(&verdict, Verdict::Ask { reason, .. } if reason.contains("may change before"));
        assert_eq!(asks, is_asked, "{command}: {verdict:?}");
    }
}
