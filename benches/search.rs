//! `grep` and `glob` over a tree of 3,000 files in 60 directories: what one call costs inside the process.
//!
//! The tree is made again for each run, lies in the page cache, and is the same every time. Against ripgrep, as processes and on
//! 100,000 files: `benches/search.py`.
#![allow(clippy::unwrap_used, missing_docs, reason = "a bench")]

use becket_tool::{Tool, testing};
use becket_tool_search::{Glob, Grep};
use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::json;
use std::fmt::Write;
use std::hint::black_box;

fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..3_000_usize {
        let folder = dir.path().join(format!("d{}/e{}", n % 6, n % 60));
        std::fs::create_dir_all(&folder).unwrap();
        let mut text = String::new();
        for line in 0..(20 + n % 200) {
            let _ = writeln!(text, "    let value_{line} = compute(input_{n}, {line});");
        }
        if n % 500 == 0 {
            text.push_str("// the needle\n");
        }
        std::fs::write(folder.join(format!("f{n}.{}", ["rs", "py", "md"][n % 3])), text).unwrap();
    }
    dir
}

fn search(c: &mut Criterion) {
    let dir = tree();
    let (env, _) = testing::env(dir.path());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (grep, glob) = (Grep::new(), Glob::new());
    let cases: [(&str, &dyn Tool, serde_json::Value); 6] = [
        ("grep, rare literal", &grep, json!({"pattern": "needle"})),
        ("grep, no match", &grep, json!({"pattern": "zebra_crossing"})),
        ("grep, common regex", &grep, json!({"pattern": r"value_\d+ = \w+\("})),
        ("grep, files only", &grep, json!({"pattern": "compute", "mode": "files"})),
        ("grep, one file", &grep, json!({"pattern": "needle", "path": "d0/e0/f0.rs"})),
        ("glob, a third", &glob, json!({"pattern": "**/*.rs"})),
    ];
    for (name, tool, input) in cases {
        c.bench_function(name, |b| {
            b.iter(|| black_box(runtime.block_on(tool.run(input.clone(), &env))));
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = search
}
criterion_main!(benches);
