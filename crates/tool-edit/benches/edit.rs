//! Cost of an edit: finding the place (exact, tolerant, not at all), comparing, and the whole call on a file
//! of 1 MB.
//!
//! The goal: the whole call on 1 MB takes at most 5 ms.

#![expect(clippy::unwrap_used, reason = "a failed set-up fails the bench")]

use becket_tool::testing::{env, run};
use becket_tool::{Host, sha256};
use becket_tool_edit::fuzzing;
use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::json;
use std::fmt::Write as _;
use std::hint::black_box;

/// About 1 MB of code; every line once.
fn text() -> String {
    let mut out = String::new();
    let mut n = 0;
    while out.len() < 1_000_000 {
        n += 1;
        let _ = writeln!(out, "    let value_{n} = compute(input_{n}, \"name {n}\");");
    }
    out
}

fn matching(c: &mut Criterion) {
    let text = text();
    let mut group = c.benchmark_group("match 1 MB");
    let line = |n: usize| format!("    let value_{n} = compute(input_{n}, \"name {n}\");");
    for (name, old) in [
        ("exact", format!("{}\n{}", line(9_000), line(9_001))),
        ("trailing space", format!("{}  \n{}", line(9_000), line(9_001))),
        ("indentation", format!("{}\n{}", line(9_000).trim(), line(9_001).trim())),
        ("white space", format!("{}\n{}", line(9_000).replace(" = ", "  =  "), line(9_001))),
        ("missing", "nothing like it\nin the file".to_owned()),
    ] {
        let new = format!("{old}\n    done();");
        group.bench_function(name, |b| b.iter(|| fuzzing::places(black_box(&text), &old, &new, false)));
    }
    group.finish();
}

fn comparing(c: &mut Criterion) {
    let old: String = text().lines().take(2_000).fold(String::new(), |out, line| out + line + "\n");
    let new = old.replace("value_77", "other_77");
    c.bench_function("diff 2,000 lines", |b| b.iter(|| fuzzing::diff(black_box(&old), &new)));
}

fn calls(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut group = c.benchmark_group("edit call on 1 MB");
    for (name, dir) in [
        ("memory", tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()),
        ("disk, synced", tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap()),
    ] {
        let (env, host) = env(dir.path());
        let path = env.cwd.join("f.rs");
        std::fs::write(&path, text()).unwrap();
        host.note_read(&path, &sha256(&std::fs::read(&path).unwrap()));
        let edit = becket_tool_edit::tools().swap_remove(0);
        let mut names = ["value_9000 ", "other_9000 "];
        group.bench_function(name, |b| {
            b.iter(|| {
                let input = json!({"path": "f.rs", "old": names[0], "new": names[1]});
                let output = runtime.block_on(run(&*edit, &env, input));
                assert!(!output.is_error, "{}", output.content);
                names.swap(0, 1);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, matching, comparing, calls);
criterion_main!(benches);
