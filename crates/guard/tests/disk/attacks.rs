//! A table of attacks: each is judged with links, repositories and programs prepared for it, and what is allowed runs under a trace.

use crate::trace;
use crate::world::{World, allowed, there};
use becket_types::PermissionMode;
use std::fs;
use std::os::unix::fs::symlink;

/// Links, folders and programs that the table counts on.
fn prepare(world: &World) {
    let w = |name: &str| world.path("w").join(name);
    for dir in ["cmpd", "cmpe", "bin2"] {
        fs::create_dir(w(dir)).unwrap();
    }
    let outside = world.path("out/n.txt");
    for link in ["top", "docs/notes.txt", "cmpd/n.txt", "src/k2"] {
        symlink(&outside, w(link)).unwrap();
    }
    symlink(world.path("out/dir"), w("d")).unwrap();
    symlink(world.path("home"), w("h")).unwrap();
    symlink("src/deep", w("inner")).unwrap();
    symlink(world.path("home/.bashrc"), w("p/rc")).unwrap();
    for (path, text) in [
        ("n.txt", "other\n"),
        ("cmpe/n.txt", "other\n"),
        ("k2", "inside\n"),
        ("opts", "--plugin ./evil\n"),
        ("list", "top\n"),
        ("prog", "BEGIN{system(\"pwn\")}\n"),
        ("-delete", "x\n"),
        // Names that a shell or a program could take for more than a name.
        ("\"a.txt", "x\n"),
        ("'a.txt", "x\n"),
        ("1,env", "x\n"),
        ("s*", "x\n"),
    ] {
        fs::write(w(path), text).unwrap();
    }
    symlink("/", w("x=")).unwrap();
    for dir in ["~/x", "w"] {
        fs::create_dir_all(w(dir)).unwrap();
    }
    symlink(&outside, w("w/secret")).unwrap();
    fs::create_dir(w("d\\u00E9")).unwrap();
    let launchers =
        ["nice", "env", "timeout", "bash", "nohup", "xargs", "time", "command", "builtin", "eval"];
    let others = ["exec", "setsid", "stdbuf", "sh", "git", "cat", "find"];
    for name in launchers.into_iter().chain(others) {
        fs::copy(w("evil"), w(name)).unwrap();
    }
}

#[test]
fn no_attack_of_the_table_passes_for_reading() {
    if !there("bash") || !there("git") {
        return;
    }
    let world = World::new();
    world.repository();
    prepare(&world);
    let guard = world.guard(&[], PermissionMode::Default);
    let traced = trace::works(&world);
    let table = include_str!("../corpus/attacks.txt");
    let rows = table.lines().filter(|line| !line.starts_with("# ") && !line.is_empty());
    let commands: Vec<String> = rows.map(decode).collect();
    assert!(commands.len() > 5_400, "{}", commands.len());
    let (mut ran, mut through) = (0, Vec::new());
    let mut before = world.state();
    for command in commands.iter().filter(|command| allowed(&guard, command)) {
        ran += 1;
        if traced {
            let harm = trace::harm(&world, &guard, command);
            through.extend(harm.map(|line| format!("{command:?}\n    {line}")));
        } else {
            world.run(&guard, command);
        }
        let after = world.state();
        if after != before {
            through.push(format!("{command:?} changed a file"));
            before = after;
        }
    }
    println!("{} commands, {ran} allowed", commands.len());
    assert!(through.is_empty(), "{} of {ran} did more than read:\n{}", through.len(), through.join("\n"));
    // More than 100 commands of the table only read and were allowed, so the test does run commands.
    assert!(ran > 100, "{ran}");
}

/// Replaces `\n`, `\t` and `\\` of the table by the characters that they stand for.
fn decode(line: &str) -> String {
    let mut out = String::new();
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('\\') => out.push('\\'),
                other => {
                    out.push('\\');
                    out.extend(other);
                }
            },
            c => out.push(c),
        }
    }
    out
}
