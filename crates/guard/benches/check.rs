//! The cost of a verdict, on disk: over the corpus of everyday commands in three states of a guard, and for single calls.
//!
//! The goal: at most 50 µs a call. `each` is the whole corpus; its time divided by the number of its commands, which is
//! printed first, is the mean of one.

#![expect(clippy::unwrap_used, reason = "a failed set-up fails the bench")]
#![expect(clippy::print_stdout, reason = "a bench prints its figures")]
#![expect(dead_code, reason = "the world of the tests can do more than a bench needs")]

use becket_types::{Access, PermissionMode};
use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::Value;
use std::hint::black_box;
use std::time::Instant;

#[path = "../tests/disk/world.rs"]
mod world;

const EVERYDAY: &str = include_str!("../tests/corpus/everyday.txt");

/// Rules as a person has them after some weeks.
const RULES: [&str; 12] = [
    "Bash(git push *)",
    "Bash(cargo test *)",
    "Bash(cargo build *)",
    "Bash(npm run *)",
    "Bash(npm test)",
    "Bash(make *)",
    "Bash(python3 -m pytest *)",
    "Bash(go test *)",
    "Bash(docker compose *)",
    "Edit(src/**)",
    "Read(//etc/hosts)",
    "mcp__a__*",
];

fn commands() -> Vec<&'static str> {
    let lines = EVERYDAY.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.splitn(3, '\t').nth(2)).collect()
}

fn verdicts(c: &mut Criterion) {
    let world = world::World::new();
    world.repository();
    let commands = commands();
    println!("{} everyday commands", commands.len());
    let guard = world.guard(&RULES, PermissionMode::Default);
    let mut slow: Vec<(f64, &str)> =
        commands.iter().map(|command| (median(&guard, command), *command)).collect();
    slow.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("the slowest: {:.1?}", &slow[..5]);
    println!("the median: {:.1} µs", slow[slow.len() / 2].0);
    let mut group = c.benchmark_group("everyday commands");
    for (name, guard) in [
        ("no rules", world.guard(&[], PermissionMode::Default)),
        ("12 rules", guard.clone()),
        ("12 rules, explained", guard.clone()),
    ] {
        group.bench_function(name, |b| {
            b.iter(|| {
                for command in &commands {
                    let access = Access::execute(*command);
                    if name.ends_with("explained") {
                        black_box(guard.explain("bash", &access, &Value::Null));
                    } else {
                        black_box(guard.check("bash", &access, &Value::Null));
                    }
                }
            });
        });
    }
    group.finish();
    let long = (0..40)
        .map(|n| format!("echo \"step {n}\" && cargo test -p crate-{n} -- --nocapture"))
        .collect::<Vec<_>>()
        .join("\n");
    let read = world.path("w/src/main.rs");
    for (name, tool, access) in [
        ("a read", "read", Access::read(read)),
        ("ls -la src", "bash", Access::execute("ls -la src")),
        ("git status", "bash", Access::execute("git status")),
        ("80 commands in one text", "bash", Access::execute(long)),
    ] {
        c.bench_function(name, |b| b.iter(|| black_box(guard.explain(tool, &access, &Value::Null))));
    }
}

/// Median time of eleven verdicts, in µs.
fn median(guard: &becket_guard::Guard, command: &str) -> f64 {
    let access = Access::execute(command);
    let mut times: Vec<f64> = (0..11)
        .map(|_| {
            let start = Instant::now();
            black_box(guard.explain("bash", &access, &Value::Null));
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

criterion_group!(benches, verdicts);
criterion_main!(benches);
