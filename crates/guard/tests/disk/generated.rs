//! Commands made from the grammar of bash and from what programs take, judged in every mode, and run where they are allowed.
//!
//! Each command that only reads runs under strace and without any confinement, so the verdict alone is tried: it writes nothing,
//! starts no program of the workspace, connects to nothing, and opens nothing but the workspace's own files that hold no secret.
//! A command that a mode for edits allows changes nothing outside the workspace. The tests of the
//! sandbox run the commands that mode `auto` allows because they are confined.
//! `BECKET_COMMANDS` sets how many are made (6,000), `BECKET_SEED` which.

use crate::dice::Dice;
use crate::trace;
use crate::world::{World, allowed, there, verdict};
use becket_guard::{Guard, SandboxRules};
use becket_types::PermissionMode;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

/// Number of generated commands that are run for each permission mode that allows edits. A part is enough, because they are the
/// same few programs in many constructs of the shell.
const MOST_WRITING: usize = 400;

/// A world with what the words of the generator name.
fn furnished() -> World {
    let world = World::new();
    let w = |name: &str| world.path("w").join(name);
    symlink(world.path("out/dir"), w("d")).unwrap();
    symlink(world.path("home"), w("h")).unwrap();
    symlink("a.txt", w("link")).unwrap();
    fs::write(w("opts"), "--plugin ./evil\n").unwrap();
    fs::write(w("-delete"), "x\n").unwrap();
    world.repository();
    world
}

/// Runs allowed commands that must only read, and returns those that did more.
fn more_than_reading(world: &World, guard: &Guard, commands: &[&String]) -> Vec<String> {
    let traced = trace::works(world);
    let before = world.state();
    let mut through = Vec::new();
    for command in commands {
        if traced {
            through.extend(trace::harm(world, guard, command).map(|line| format!("{command}\n    {line}")));
        } else {
            world.run(guard, command);
        }
        assert!(world.state() == before, "{command} changed a file; before it:\n{}", through.join("\n"));
    }
    through
}

#[test]
fn what_is_allowed_of_random_commands_only_reads_the_workspace() {
    if !there("bash") || !there("git") {
        return;
    }
    let world = furnished();
    let guard = world.guard(&[], PermissionMode::Default);
    let made = Dice::seeded().commands(6_000);
    let ran: Vec<&String> = made.iter().filter(|command| allowed(&guard, command)).collect();
    let through = more_than_reading(&world, &guard, &ran);
    assert!(
        through.is_empty(),
        "{} of {} did more than read:\n{}",
        through.len(),
        ran.len(),
        through.join("\n")
    );
    println!("{} commands, {} allowed", made.len(), ran.len());
    assert!(ran.len() * 20 > made.len(), "{} of {}", ran.len(), made.len());
}

/// Files outside the workspace, with their contents.
fn outside(world: &World) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut state = world.state();
    state.retain(|path, _| !path.starts_with(world.path("w")));
    state
}

/// The same commands in every other mode. Only modes for edits allow more than the default mode, and only changes inside the workspace.
#[test]
fn what_is_allowed_of_random_commands_in_other_modes_stays_inside() {
    if !there("bash") || !there("git") {
        return;
    }
    let world = furnished();
    let default = world.guard(&[], PermissionMode::Default);
    let made = Dice::seeded().commands(6_000);
    for mode in [PermissionMode::Plan, PermissionMode::DontAsk] {
        let guard = world.guard(&[], mode);
        let more: Vec<&String> =
            made.iter().filter(|command| allowed(&guard, command) && !allowed(&default, command)).collect();
        let through = more_than_reading(&world, &guard, &more);
        println!("{mode}: {} that the default mode asks about", more.len());
        assert!(more.is_empty() && through.is_empty(), "{mode}: {more:?}");
        let asked = made
            .iter()
            .filter(|command| matches!(verdict(&guard, command), becket_guard::Verdict::Ask { .. }));
        assert!(mode != PermissionMode::DontAsk || asked.count() == 0, "nobody is asked in {mode}");
    }
    // A machine without a sandbox: `auto` then allows no more than edits.
    let none = SandboxRules { works: Some(Arc::new(|_| Err("none".to_owned()))), ..SandboxRules::default() };
    let edits = world.guard(&[], PermissionMode::AcceptEdits);
    let auto = world.guard(&[], PermissionMode::Auto).with_sandbox(none);
    let unlike: Vec<&String> =
        made.iter().filter(|c| allowed(&auto, c) && !allowed(&edits, c) && !allowed(&default, c)).collect();
    assert!(unlike.is_empty(), "auto without a sandbox: {unlike:?}");
    let writing: Vec<&String> =
        made.iter().filter(|command| allowed(&edits, command) && !allowed(&default, command)).collect();
    println!("acceptEdits, and auto without a sandbox: {} that write", writing.len());
    let before = outside(&world);
    for command in writing.iter().step_by(writing.len().div_ceil(MOST_WRITING).max(1)) {
        world.run(&edits, command);
        assert!(outside(&world) == before, "{command} changed something outside");
    }
}
