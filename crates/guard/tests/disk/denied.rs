//! Deny rules for files, and commands that reach such a file by words that are known only at run time.
//!
//! The oracle runs the command: if the content of the denied file is in its output, the guard must have denied it or asked for the
//! sandbox. The tests of the sandbox run the same table confined.

use crate::world::{Disk, World, there, verdict, walk};
use becket_guard::{Guard, GuardSettings, Rules, SandboxRules, SandboxWorks, Verdict};
use becket_types::{Access, PermissionMode, SandboxLevel};
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;
use std::sync::Arc;

const TABLE: &str = include_str!("../corpus/denied_files.txt");
const DENIED: &str = "DENIED";

fn furnished() -> World {
    let world = World::new();
    let at = |name: &str| world.path("w").join(name);
    fs::create_dir_all(at("private")).unwrap();
    fs::write(at("private/s.txt"), "DENIED\n").unwrap();
    fs::write(at("src/x.txt"), "x\n").unwrap();
    symlink("private", at("link")).unwrap();
    world
}

/// A guard with the rule of the table. `works`: a sandbox can hide files.
fn guard(world: &World, allow: &[&str], mode: PermissionMode, works: bool) -> Guard {
    let like = world.guard(allow, mode);
    let rules = Rules::parse(allow, &[], &["Read(./private/**)"]).unwrap();
    let works: SandboxWorks = Arc::new(move |_| if works { Ok(()) } else { Err("no backend".to_owned()) });
    let guard = Guard::new(GuardSettings { rules, ..like.settings().clone() });
    seeing(guard.with_sandbox(SandboxRules { works: Some(works), ..SandboxRules::default() }))
}

/// Shows the guard the files on disk.
fn seeing(guard: Guard) -> Guard {
    guard.with_resolver(Arc::new(walk)).with_files(Arc::new(Disk))
}

/// The output of the command, run without any confinement.
fn output(world: &World, guard: &Guard, command: &str) -> String {
    let mut bash = world.command(guard, &["timeout", "10"], command);
    let ran = bash.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned()
}

/// True if the command would run with nothing that keeps the denied file from it.
fn runs_free(guard: &Guard, command: &str) -> bool {
    let level = guard.sandbox_level(&Access::execute(command), false);
    matches!(verdict(guard, command), Verdict::Allow { .. }) && level == SandboxLevel::Off
}

fn lines() -> impl Iterator<Item = String> {
    TABLE.lines().filter(|line| !line.starts_with('#')).map(|line| line.replace("\\n", "\n"))
}

const ALLOWED: &[&str] = &[
    "Bash(cat *)",
    "Bash(grep *)",
    "Bash(find *)",
    "Bash(xargs *)",
    "Bash(for *)",
    "Bash(bash *)",
    "Bash(python3 *)",
    "Bash(awk *)",
    "Bash(cp *)",
    "Bash(tar *)",
];

#[test]
fn no_command_of_the_table_reads_what_a_deny_rule_names() {
    if !there("bash") {
        return;
    }
    for (allow, mode) in [
        (&[][..], PermissionMode::BypassPermissions),
        (&["Bash"], PermissionMode::Default),
        (ALLOWED, PermissionMode::Default),
    ] {
        for command in lines() {
            let world = furnished();
            let guard = guard(&world, allow, mode, true);
            if runs_free(&guard, &command) {
                let told = output(&world, &guard, &command);
                assert!(!told.contains(DENIED), "{mode} {allow:?}: {command}: {told}");
            }
        }
    }
}

/// Without a working sandbox, a word that is known only at run time makes the guard ask, also in `bypassPermissions`. A search of a whole
/// folder does not, and neither does a program that puts a name together: see the page about permissions.
#[test]
fn without_a_sandbox_words_that_are_not_known_are_asked_about() {
    if !there("bash") {
        return;
    }
    let programs = ["find", "grep", "tar", "cp", "awk", "python3", "perl", "diff"];
    for command in lines() {
        let world = furnished();
        let guard = guard(&world, &[], PermissionMode::BypassPermissions, false);
        match verdict(&guard, &command) {
            Verdict::Allow { .. } if programs.iter().any(|name| command.starts_with(name)) => {}
            Verdict::Allow { .. } => {
                let told = output(&world, &guard, &command);
                assert!(!told.contains(DENIED), "{command}: {told}");
            }
            Verdict::Ask { reason, rule } => {
                assert!(reason.contains("the deny rule Read(./private/**)"), "{command}: {reason}");
                assert!(rule.is_none() && reason.contains("no backend"), "{command}: {reason}");
            }
            Verdict::Deny { .. } => {}
        }
    }
}

#[test]
fn everyday_commands_run_as_without_the_rule() {
    let world = furnished();
    for works in [true, false] {
        let guard = guard(&world, &[], PermissionMode::BypassPermissions, works);
        for command in [
            "cargo build",
            "npm test -- --watch",
            "make all > log.txt 2>&1",
            "d=src; mkdir -p $d/new",
            "for f in src/*.rs; do rustfmt \"$f\"; done",
            "for n in 1 2 3; do touch file$n; done",
            "git commit -m 'fix the start'",
            "git push origin main",
            "pid=$(pgrep x); kill $pid",
            "echo \"$HOME $(date)\"",
            "sudo apt install x",
            "cd src && make && cd ..",
            "curl https://a.example/x -o x.json",
            "docker run --rm image sh",
        ] {
            assert!(runs_free(&guard, command), "{works}: {command}: {:?}", verdict(&guard, command));
        }
    }
    // A rule about changes does not confine what only reads.
    let rules = Rules::parse(&[] as &[&str], &[], &["Edit(./private/**)"]).unwrap();
    let like = guard(&world, &[], PermissionMode::BypassPermissions, true);
    let edits = Guard::new(GuardSettings { rules, ..like.settings().clone() });
    let edits = seeing(edits.with_sandbox(like.sandbox().clone()));
    assert!(runs_free(&edits, "cat a.txt | grep -r x .") && !runs_free(&edits, "touch $x"));
}

#[test]
fn the_answer_to_a_question_does_not_lift_a_deny_rule() {
    let world = furnished();
    let guard = guard(&world, &[], PermissionMode::Default, true);
    let access = Access::execute("cat $1/s.txt");
    assert!(matches!(verdict(&guard, "cat $1/s.txt"), Verdict::Ask { .. }));
    assert_eq!(guard.sandbox_level(&access, true), SandboxLevel::DenyRules);
    let outside = Access { unconfined: true, ..access };
    assert_eq!(guard.sandbox_level(&outside, true), SandboxLevel::Off);
    let bypass = self::guard(&world, &[], PermissionMode::BypassPermissions, true);
    let verdict = bypass.check("bash", &outside, &serde_json::Value::Null);
    assert!(matches!(verdict, Verdict::Ask { .. }), "{verdict:?}");
}

/// Writes a text so that the shell makes it at run time: cut into variables, words of loops, braces, patterns and outputs.
fn hidden(text: &'static str) -> impl Strategy<Value = (String, String)> {
    let cut = 1..text.len();
    (cut, 0..12_u8, "[a-d]").prop_map(move |(cut, form, name)| {
        let (start, end) = text.split_at(cut);
        match form {
            0 => (String::new(), text.to_owned()),
            1 => (format!("{name}={start}; "), format!("${{{name}}}{end}")),
            2 => (format!("{name}={text}; "), format!("\"${name}\"")),
            3 => (format!("{name}={end}; x{name}=${{{name}}}; "), format!("{start}${{x{name}}}")),
            4 => (String::new(), format!("$(echo {text})")),
            5 => (String::new(), format!("{start}{{{end},zz}}")),
            6 => (String::new(), format!("{start}*")),
            7 => (String::new(), format!("{start}'{end}'")),
            8 => (String::new(), format!("${{nothing:-{text}}}")),
            9 => (format!("{name}={start}; {name}+={end}; "), format!("${name}")),
            10 => (format!("export {name}={text}; "), format!("${{{name}%zz}}")),
            _ => (format!("read -r {name} <<< {text}; "), format!("${name}")),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_placement_of_a_denied_path_passes_unseen(
        (set_folder, folder) in hidden("private"),
        (set_file, file) in hidden("s.txt"),
        way in 0..9_u8,
        reader in prop::sample::select(vec!["cat", "head -n 3", "sed -n p", "paste", "tac", "cut -c 1-9"]),
    ) {
        let world = furnished();
        let set = format!("{set_folder}{set_file}");
        let command = match way {
            0 => format!("{set}{reader} {folder}/{file}"),
            1 => format!("{set}cd {folder} && {reader} {file}"),
            2 => format!("{set}for f in {folder}/{file}; do {reader} $f; done"),
            3 => format!("{set}ln -s {folder} way; {reader} way/{file}"),
            4 => format!("{set}{reader} < {folder}/{file}"),
            5 => format!("{set}{reader} $PWD/src/../{folder}/{file}"),
            6 => format!("{set}echo {folder}/{file} | xargs {reader}"),
            7 => format!("{set}(cd {folder}; {reader} {file})"),
            _ => format!("{set}f={folder}; {reader} ./$f/{file}"),
        };
        let bypass = guard(&world, &[], PermissionMode::BypassPermissions, true);
        if runs_free(&bypass, &command) {
            let told = output(&world, &bypass, &command);
            prop_assert!(!told.contains(DENIED), "{command}: {told}");
        }
    }
}
