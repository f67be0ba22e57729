//! Corpora: strings that must never slip through, ordinary reading, and ordinary work under a rule, that must not be asked about.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use becket_guard::{Guard, GuardSettings, Rules, SandboxRules, SandboxWorks, Verdict};
use becket_types::{Access, PermissionMode};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

fn guard(allow: &[&str], mode: PermissionMode) -> Guard {
    Guard::new(GuardSettings {
        rules: Rules::parse(allow, &[], &[]).unwrap(),
        mode,
        roots: vec![PathBuf::from("/repo")],
        home: PathBuf::from("/home/u"),
        own: vec![PathBuf::from("/home/u/.config/becket")],
    })
}

fn lines(text: &str) -> Vec<String> {
    text.lines().filter(|l| !l.starts_with("# ")).map(decode).filter(|l| !l.trim().is_empty()).collect()
}

/// The escapes that the head of the corpus names. A backslash before anything else is itself.
fn decode(line: &str) -> String {
    let mut out = String::new();
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.peek() {
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('0') => out.push('\0'),
            Some('\\') => out.push('\\'),
            Some('u') => {
                let code: String = chars.by_ref().skip(2).take_while(|c| *c != '}').collect();
                out.push(char::from_u32(u32::from_str_radix(&code, 16).unwrap()).unwrap());
                continue;
            }
            _ => {
                out.push('\\');
                continue;
            }
        }
        chars.next();
    }
    out
}

fn check(guard: &Guard, command: &str) -> Verdict {
    guard.check("bash", &Access::execute(command), &Value::Null)
}

#[test]
fn nothing_slips_past_the_table_or_a_wildcard_rule() {
    let corpus = lines(include_str!("corpus/bypass.txt"));
    assert!(corpus.len() >= 400, "{}", corpus.len());
    let plain = guard(&[], PermissionMode::Default);
    let ruled = guard(&["Bash(git *)", "Bash(echo *)", "Bash(ls *)"], PermissionMode::Default);
    let mut through = Vec::new();
    for command in &corpus {
        // `Bash(echo *)` also allows to show a variable, and `Bash(ls *)` to list any folder.
        let covered = ["ls /etc", "ls ..", "echo $ANTHROPIC_API_KEY", "echo \"$AWS_SECRET_ACCESS_KEY\""]
            .into_iter()
            .chain(["echo ${OPENAI_API_KEY}", "echo ${TOKEN:-x}"])
            .any(|c| c == command);
        for (name, guard) in [("table", &plain), ("rules", &ruled)] {
            if name == "rules" && covered {
                continue;
            }
            if let Verdict::Allow { why } = check(guard, command) {
                through.push(format!("{name}: {command:?}: {why}"));
            }
        }
    }
    assert!(through.is_empty(), "{} slipped through:\n{}", through.len(), through.join("\n"));
}

#[test]
fn a_wildcard_does_not_stretch_over_what_runs_something_else() {
    let corpus = lines(include_str!("corpus/rules.txt"));
    assert!(corpus.len() >= 1_000, "{}", corpus.len());
    let rules = ["Bash(git *)", "Bash(npm test)", "Read(src/**)"];
    let mut through = Vec::new();
    for mode in PermissionMode::ALL.into_iter().filter(|mode| *mode != PermissionMode::BypassPermissions) {
        let guard = guard(&rules, mode);
        for command in &corpus {
            if let Verdict::Allow { why } = check(&guard, command) {
                through.push(format!("{mode}: {command:?}: {why}"));
            }
        }
    }
    assert!(through.is_empty(), "{} slipped through:\n{}", through.len(), through.join("\n"));
    let guard = guard(&rules, PermissionMode::Default);
    let ordinary = lines(include_str!("corpus/ordinary_git.txt"));
    assert!(ordinary.len() >= 100, "{}", ordinary.len());
    let asked: Vec<&String> =
        ordinary.iter().filter(|c| !matches!(check(&guard, c), Verdict::Allow { .. })).collect();
    assert!(asked.is_empty(), "{asked:?}");
}

#[test]
fn ordinary_reading_passes_without_a_question() {
    let corpus = lines(include_str!("corpus/ordinary.txt"));
    assert!(corpus.len() >= 300, "{}", corpus.len());
    for mode in [PermissionMode::Default, PermissionMode::Plan, PermissionMode::DontAsk] {
        let guard = guard(&[], mode);
        let asked: Vec<String> = corpus
            .iter()
            .filter_map(|command| match check(&guard, command) {
                Verdict::Allow { .. } => None,
                other => Some(format!("{command:?}: {other:?}")),
            })
            .collect();
        assert!(
            asked.len() * 50 <= corpus.len(),
            "{} of {} asked:\n{}",
            asked.len(),
            corpus.len(),
            asked.join("\n")
        );
    }
}

#[test]
fn a_deny_rule_reaches_every_hiding_place() {
    let mut settings = guard(&["Bash"], PermissionMode::Default).settings().clone();
    settings.rules.deny = vec!["Bash(rm *)".parse().unwrap()];
    let mut missed = Vec::new();
    for mode in PermissionMode::ALL {
        settings.mode = mode;
        let guard = Guard::new(settings.clone());
        for command in lines(include_str!("corpus/bypass.txt")) {
            let verdict = check(&guard, &command);
            // Rules for commands cannot reach text that another program than the shell will run.
            let foreign = ["awk", "sed", "vim", "alias", "git"].iter().any(|p| command.starts_with(p));
            let plain = command.contains("rm x") && !(foreign && command.contains(['\'', '"']));
            if plain && matches!(verdict, Verdict::Allow { .. }) {
                missed.push(format!("{mode}: {command:?}"));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// Ways to start a program with another one. If `{}` is at the end, the words follow as they are; otherwise as one text.
const WRAPPERS: &[&str] = &[
    "env {}",
    "env -i {}",
    "env -S '{}'",
    "env A=b -u C {}",
    "nice {}",
    "nice -n 5 {}",
    "ionice -c 3 {}",
    "timeout 5 {}",
    "timeout -s KILL --foreground 5 {}",
    "nohup {}",
    "setsid -f {}",
    "stdbuf -oL {}",
    "time -p {}",
    "/usr/bin/time -v {}",
    "echo a | xargs {}",
    "xargs -a list -n1 {}",
    "sh -c '{}'",
    "bash -lc '{}'",
    "fish -c '{}'",
    "busybox sh -c '{}'",
    "busybox {}",
    "find . -exec {} ;",
    "find . -name a -execdir {} +",
    "fd -x {}",
    "ssh-agent {}",
    "ssh-agent sh -c '{}'",
    "ssh host {}",
    "script -c '{}' /dev/null",
    "script -q /dev/null {}",
    "flock lock {}",
    "flock lock -c '{}'",
    "watch -n 1 {}",
    "watch '{}'",
    "strace -f -o log {}",
    "ltrace {}",
    "perf stat {}",
    "valgrind --tool=none {}",
    "gdb -batch -ex run --args {}",
    "taskset 1 {}",
    "chrt -b 0 {}",
    "numactl -N 0 {}",
    "setarch -R {}",
    "linux64 {}",
    "unshare -r {}",
    "nsenter -t 1 {}",
    "chroot / {}",
    "sudo {}",
    "su -c '{}'",
    "runuser -u me -- {}",
    "setpriv --reset-env {}",
    "capsh -- -c '{}'",
    "systemd-run --user {}",
    "systemd-inhibit {}",
    "dbus-run-session -- {}",
    "xvfb-run {}",
    "parallel {} ::: a",
    "parallel '{}' ::: a",
    "entr {}",
    "watchexec -- {}",
    "hyperfine '{}'",
    "tmux new-session -d '{}'",
    "screen -dm {}",
    "expect -c 'spawn {}'",
    "socat - EXEC:'{}'",
    "nc -e /bin/rm",
    "start-stop-daemon --start --exec /bin/rm -- -rf x",
    "run-parts --arg={} d",
    "eatmydata {}",
    "faketime 1h {}",
    "fakeroot {}",
    "firejail {}",
    "bwrap --bind / / {}",
    "/lib64/ld-linux-x86-64.so.2 /bin/{}",
    "npx {}",
    "npm exec -- {}",
    "poetry run {}",
    "uv run {}",
    "bundle exec {}",
    "direnv exec . {}",
    "nix-shell -p x --run '{}'",
    "docker run -v /:/h img {}",
    "kubectl exec pod -- {}",
    "git bisect run {}",
    "git submodule foreach '{}'",
    "git -c alias.x='!{}' x",
    "git -c core.pager='{}' log",
    "git --attr-source HEAD -c alias.x='!{}' x",
    "git bisect view {}",
    "git rebase -x '{}' main",
    "tar -cf a.tar --checkpoint=1 --checkpoint-action=exec='{}' .",
    "tar -I rm -xf a.tar",
    "rsync -e '{}' a b:",
    "sort --compress-program=rm f",
    "split --filter='{}' f",
    "vim -c '!{}'",
    "ed -s f '!{}'",
    "make SHELL='{}'",
    "awk 'BEGIN { system(\"{}\") }'",
    "sed -n '1e {}' f",
    "perl -e 'system(\"{}\")'",
    "python3 -c 'import os; os.system(\"{}\")'",
    "ruby -e '`{}`'",
    "node -e 'require(\"child_process\").execSync(\"{}\")'",
    "php -r 'system(\"{}\");'",
    "lua -e 'os.execute(\"{}\")'",
    "sqlite3 a.db '.shell {}'",
    "sqlite3 a.db <<< '.shell {}'",
    "psql <<< '\\! {}'",
    "ed f <<< '!{}'",
    "ed f <<'E'\n!{}\nE",
    "echo '!{}' | ed f",
    "make -f - <<< 'all:; {}'",
    "printf 'all:; {}' | make -f -",
    "sed -f - f <<< '1e {}'",
    "python3 - <<'E'\nimport os; os.system('{}')\nE",
    "perl <<< 'system(\"{}\")'",
    "ruby - <<< 'system(\"{}\")'",
    "node <<< 'require(\"child_process\").execSync(\"{}\")'",
    "sh <<< '{}'",
    "bash -s <<'E'\n{}\nE",
    "m4 <<< 'syscmd({})'",
    "ln -s /bin/rm x; ./x a # {}",
    "cp /bin/rm x && ./x a # {}",
    "cp \"$(command -v rm)\" x; ./x a # {}",
    "cat /bin/rm > x; ./x a # {}",
    "psql -c '\\! {}'",
    "frobnicate {}",
    "frobnicate -- {}",
    "frobnicate --run '{}'",
    "frobnicate --exec=/bin/{}",
    "exec -a rm busybox -rf x",
    "exec -a rm frobnicate -rf x",
    "x='{}'; frobnicate $x",
    "poetry run $x",
    "trap '{}' EXIT",
    "coproc {}",
    "command {}",
    "exec {}",
    "builtin eval '{}'",
    "eval '{}'",
    ". <(echo '{}')",
    "bash <<< '{}'",
    "echo '{}' | sh",
    "alias ls='{}'; ls",
];

/// A deny rule also holds if another program runs the denied one: alone, nested in a second such program, and by its path.
#[test]
fn a_deny_rule_reaches_through_programs_that_run_others() {
    let mut missed = Vec::new();
    for mode in [PermissionMode::BypassPermissions, PermissionMode::Default, PermissionMode::Auto] {
        let mut settings = guard(&["Bash"], mode).settings().clone();
        settings.rules.deny = vec!["Bash(rm *)".parse().unwrap()];
        let works: SandboxWorks = Arc::new(|_| Ok(()));
        let sandbox = SandboxRules { works: Some(works), ..SandboxRules::default() };
        let guard = Guard::new(settings).with_sandbox(sandbox);
        for wrapper in WRAPPERS {
            for inner in ["rm -rf x", "rm x", "nice rm -rf x", "frobnicate rm -rf x"] {
                let command = wrapper.replace("{}", inner);
                if matches!(check(&guard, &command), Verdict::Allow { .. }) {
                    missed.push(format!("{mode}: {command}"));
                }
            }
        }
        for command in [
            "git rm -r x",
            "docker rm box",
            "npm rm x",
            "grep -rn rm src",
            "echo rm x",
            "cargo test rm",
            "man rm",
            "docker run --rm img ls",
            "python3 tests/rm.py --rmdir x",
            "git commit -m 'rm the file'",
            "make CC=clang all",
            "npm run test -- $ARGS",
            "git commit -F - <<< 'remove: rm the file'",
            "cp src/rm.rs b.rs",
            "python3 - <<< 'print(1)'",
        ] {
            let verdict = check(&guard, command);
            assert!(matches!(verdict, Verdict::Allow { .. }), "{mode}: {command}: {verdict:?}");
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// A deny rule about a subcommand holds for every form of the command, also if a variable or an option may hold the subcommand.
#[test]
fn a_deny_rule_of_a_subcommand_is_not_evaded() {
    for mode in [PermissionMode::BypassPermissions, PermissionMode::Default] {
        let mut settings = guard(&["Bash(git *)", "Bash"], mode).settings().clone();
        settings.rules.deny = vec!["Bash(git push *)".parse().unwrap()];
        let guard = Guard::new(settings);
        for command in [
            "git -C . push o",
            "git --no-pager push o",
            "git --literal-pathspecs push o",
            "git -p push o",
            "git --git-dir=.git push o",
            "git -c a.b=c push o",
            "git --shallow-file f push o",
            "git --attr-source HEAD push o",
            "git --attr-source HEAD -c alias.x=push x o",
            "choom -n 0 -- git -C . push o",
            "x=push; git $x o",
            "for x in push pull; do git $x o; done",
            "git pus[h] o",
            "git {push,o}",
            "echo push o | xargs git",
            "eval \"git $(echo push) o\"",
            "bash -c 'git $0 o' push",
            "mapfile -C 'git push o' -c 1 x",
            "compgen -C 'git push o'",
            "jobs -x git push o",
            "hash -p /usr/bin/git g; g push o",
            "shopt -s expand_aliases; alias g=git\ng push o",
            "git rebase --exec='git push o' main",
            "git -c alias.x=push x o",
            "/usr/lib/git-core/git-push o",
            "git-push o",
            "git send-pack o main",
            "git -C . send-pack o main",
            "/usr/lib/git-core/git-send-pack o main",
            "git http-push o",
            "git subtree push --prefix=x o main",
            "git lfs push o main",
            "git svn dcommit",
            "git remote-https o https://a.example",
            "nohup git send-pack o main",
            "exec -a git-push git o",
            "sg root -c 'git push o'",
            "linux32 git push o",
            "capsh -- -c 'git push o'",
            "/lib64/ld-linux-x86-64.so.2 /usr/bin/git push o",
        ] {
            let verdict = check(&guard, command);
            assert!(!matches!(verdict, Verdict::Allow { .. }), "{mode}: {command}: {verdict:?}");
        }
        for command in
            ["git -C . status", "git log $x", "git commit -m 'push later'", "git log --grep=push", "git pull"]
        {
            let verdict = check(&guard, command);
            assert!(matches!(verdict, Verdict::Allow { .. }), "{mode}: {command}: {verdict:?}");
        }
    }
}

#[test]
fn everyday_commands_are_asked_about_no_more_than_before() {
    let guard = guard(&[], PermissionMode::Default);
    let rows: Vec<Vec<&str>> = include_str!("corpus/everyday.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.splitn(3, '\t').collect())
        .collect();
    assert_eq!(rows.len(), 200);
    let mut wrong = Vec::new();
    for row in &rows {
        let now = if matches!(check(&guard, row[2]), Verdict::Allow { .. }) { "run" } else { "ask" };
        if now != row[1] {
            wrong.push(row[2]);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    let asked = |column: usize| rows.iter().filter(|row| row[column] == "ask").count();
    assert!(asked(1) <= asked(0) + 20, "{} then {}", asked(0), asked(1));
}

/// Mode `auto` is there so that people are hardly asked. Without a sandbox it frees no command.
#[test]
fn auto_mode_asks_about_a_tenth_of_everyday_commands_at_most() {
    let text = include_str!("corpus/everyday.txt");
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    let everyday: Vec<&str> = rows.filter_map(|line| line.splitn(3, '\t').nth(2)).collect();
    assert_eq!(everyday.len(), 200);
    let asked = |mode: PermissionMode, works: bool| {
        let works: SandboxWorks = Arc::new(move |_| if works { Ok(()) } else { Err("none".to_owned()) });
        let guard =
            guard(&[], mode).with_sandbox(SandboxRules { works: Some(works), ..SandboxRules::default() });
        let asks = |command: &&&str| !matches!(check(&guard, command), Verdict::Allow { .. });
        everyday.iter().filter(asks).copied().collect::<Vec<_>>()
    };
    let (before, after) = (asked(PermissionMode::Default, true), asked(PermissionMode::Auto, true));
    println!("asked in default {}, in auto {} of {}: {after:?}", before.len(), after.len(), everyday.len());
    assert_eq!(before.len(), 61);
    assert!(after.len() * 10 <= before.len(), "{after:?}");
    let without = asked(PermissionMode::Auto, false);
    let edits = asked(PermissionMode::AcceptEdits, false);
    assert_eq!(without, edits);
}

/// A call of a recorded session: its tool, and the command or path.
type Call = (String, String);

/// The calls in a recording of any format that this repository holds: an object with a tool's name and its input, at any depth.
fn calls_in(value: &Value, out: &mut Vec<Call>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| calls_in(item, out)),
        Value::Object(entries) => {
            let name = ["name", "tool"].iter().find_map(|key| entries.get(*key)?.as_str());
            let input = ["input", "arguments", "args"].iter().find_map(|key| entries.get(*key));
            let input = input.map(|input| match input.as_str() {
                Some(text) => serde_json::from_str(text).unwrap_or_default(),
                None => input.clone(),
            });
            if let (Some(name), Some(input)) = (name, input.filter(Value::is_object)) {
                let own = if name == "shell_command" {
                    "bash".into()
                } else {
                    becket_types::sdk_names::own_name(name)
                };
                let named = ["command", "path", "file_path"].iter().find_map(|key| input[*key].as_str());
                let what = match own.as_ref() {
                    "bash" | "read" | "edit" | "write" => named,
                    "grep" | "glob" => named.or(Some(".")),
                    _ => None,
                };
                let what = what.map(|what| what.replace("/home/me/site/", ""));
                out.extend(what.map(|what| (own.into_owned(), what)));
            }
            entries.values().for_each(|value| calls_in(value, out));
        }
        _ => {}
    }
}

/// Every recording in the tree, by its file.
fn recordings() -> Vec<(PathBuf, Vec<Call>)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders: Vec<PathBuf> = [
        "crates/becket/demo",
        "crates/tui/tests/screens",
        "tests/fixtures/imports",
        "tests/fixtures/store-1",
    ]
    .map(|folder| root.join(folder))
    .into();
    let mut out = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "json" || ending == "jsonl") {
                let text = std::fs::read_to_string(&path).unwrap();
                let mut calls = Vec::new();
                match serde_json::from_str(&text) {
                    Ok(value) => calls_in(&value, &mut calls),
                    Err(_) => text
                        .lines()
                        .filter_map(|line| serde_json::from_str(line).ok())
                        .for_each(|value| calls_in(&value, &mut calls)),
                }
                out.push((path, calls));
            }
        }
    }
    out
}

/// The share of calls that a person is asked about in recorded and scripted sessions, against the build before commands were judged
/// by mechanism, and in mode `auto`.
#[test]
fn calls_of_recorded_sessions_are_asked_about_no_more_than_before() {
    let text = include_str!("corpus/sessions.txt");
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    let rows: Vec<(&str, Call)> = rows
        .map(|line| {
            let row: Vec<&str> = line.splitn(4, '\t').collect();
            (row[0], (row[2].to_owned(), decode(row[3])))
        })
        .collect();
    assert!(rows.len() >= 100 && rows.iter().all(|(verdict, _)| matches!(*verdict, "run" | "ask")));
    let recordings = recordings();
    assert!(recordings.iter().map(|(_, calls)| calls.len()).sum::<usize>() >= 40, "{recordings:?}");
    for (path, calls) in &recordings {
        for call in calls {
            let is_known = rows.iter().any(|(_, known)| known == call);
            assert!(is_known, "{}: {call:?} has no row in sessions.txt", path.display());
        }
    }
    let works: SandboxWorks = Arc::new(|_| Ok(()));
    let rules = SandboxRules { works: Some(works), ..SandboxRules::default() };
    let asked = |mode: PermissionMode| {
        let guard = guard(&[], mode).with_sandbox(rules.clone());
        let asks = |call: &&Call| {
            let (tool, what) = *call;
            let path = || PathBuf::from("/repo").join(what);
            let access = match tool.as_str() {
                "bash" => Access::execute(what.clone()),
                "edit" | "write" => Access::write(path()),
                _ => Access::read(path()),
            };
            !matches!(guard.check(tool, &access, &Value::Null), Verdict::Allow { .. })
        };
        rows.iter().map(|(_, call)| call).filter(asks).collect::<Vec<_>>()
    };
    let before = rows.iter().filter(|(verdict, _)| *verdict == "ask").count();
    let (now, auto) = (asked(PermissionMode::Default), asked(PermissionMode::Auto));
    println!("of {}: before {before}, now {}, in auto {}: {auto:?}", rows.len(), now.len(), auto.len());
    // At most ten percentage points more calls are asked about than before, and in mode `auto` at most a tenth of those.
    assert!(now.len() * 10 <= before * 10 + rows.len(), "{before} then {}", now.len());
    assert!(auto.len() * 10 <= now.len(), "{auto:?}");
}
