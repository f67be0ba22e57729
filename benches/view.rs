//! Measures the cost of a step in the context engine, by the length of the ledger: the entries of one model answer with a tool
//! call and its result are added to the view, and the next request's context is built.
//!
//! The goal: from 1,000 to 100,000 entries at most 1.2 times as much.

use becket_session::context::{ModelScope, Policy, View};
use becket_types::{CallId, Entry, EntryKind, FinishReason, JournalState, Message, Millis, Part, Seq, Usage};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use serde_json::{Value, json};
use std::hint::black_box;
use std::time::{Duration, Instant};

fn scope() -> ModelScope {
    ModelScope {
        provider: "p".into(),
        model: "m".into(),
        images: true,
        max_images: 20,
        max_media_bytes: 1 << 25,
    }
}

/// The entries of one step, as the driver writes them.
fn step(seq: &mut u64) -> Vec<Entry> {
    let call = CallId(format!("toolu_{seq:024}"));
    let output = format!("{seq}: fn line() -> usize {{ 42 }} // a < b\n").repeat(50);
    let answer = Message::assistant(vec![
        Part::text("I will look at the next file."),
        Part::tool_call(call.0.clone(), "read", json!({"path": "src/lib.rs", "offset": *seq})),
    ]);
    let journal = |state| EntryKind::ToolJournal {
        call_id: call.clone(),
        state,
        tool: Some("read".into()),
        subject: Some("src/lib.rs".into()),
        result: Value::Null,
    };
    let id = answer.id;
    let usage = Usage { input: 10, output: 20, cache_read: 30, ..Usage::default() };
    [
        EntryKind::Message { message: answer },
        EntryKind::Finish { message: id, reason: FinishReason::ToolCalls },
        EntryKind::Usage {
            message: Some(id),
            model: "p/m".into(),
            usage,
            cost_usd: 0.0,
            purpose: "turn".into(),
        },
        journal(JournalState::Started),
        journal(JournalState::Finished),
        EntryKind::Message { message: Message::tool_result(call.clone(), "read", output, false) },
    ]
    .into_iter()
    .map(|kind| {
        *seq += 1;
        Entry { seq: Seq(*seq), time: Millis(*seq), kind }
    })
    .collect()
}

/// A view of a ledger with `entries` entries, its context built.
fn view(entries: u64) -> (View, u64) {
    let mut view = View::new(Policy::default(), scope());
    let mut seq = 1;
    view.apply(&Entry {
        seq: Seq(1),
        time: Millis(1),
        kind: EntryKind::Message { message: Message::user("task") },
    });
    while seq < entries {
        for entry in step(&mut seq) {
            view.apply(&entry);
        }
    }
    view.context();
    (view, seq)
}

/// Leaves free memory that has been touched before, enough for `steps` steps. Otherwise a step of a long ledger pays for
/// fresh pages from the operating system, and a step of a short ledger, repeated many times, does not. Keep the returned
/// block: it stops the allocator from returning the memory to the system.
fn touch(steps: u64) -> Box<[u8]> {
    let pieces: Vec<Vec<u8>> = (0..steps).map(|n| vec![black_box(n as u8) | 1; 24_000]).collect();
    let plug = vec![1; 4_000].into_boxed_slice();
    drop(black_box(pieces));
    plug
}

fn per_step(c: &mut Criterion) {
    let mut group = c.benchmark_group("view step");
    group.sample_size(20).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(3));
    for entries in [100u64, 1_000, 10_000, 100_000] {
        group.bench_with_input(BenchmarkId::from_parameter(entries), &entries, |b, entries| {
            b.iter_custom(|iterations| {
                // A view grows while it is measured, so it is built again after a tenth of its length. Every view takes a
                // whole batch of steps, even if fewer are asked for: building a long view empties the CPU's caches, and its
                // first step alone would be slow.
                let batch = (entries / 60).clamp(4, 100);
                let (mut spent, mut left) = (Duration::ZERO, iterations);
                while left > 0 {
                    let (mut view, mut seq) = view(*entries);
                    let _plug = touch(batch);
                    // Building a long view has filled the caches with other memory. The first step is slow for that reason
                    // and is not timed.
                    for entry in step(&mut seq) {
                        view.apply_owned(entry);
                    }
                    view.context();
                    let mut taken = Duration::ZERO;
                    for _ in 0..batch {
                        // Each step is made directly before it is applied, as the driver does. A hundred steps made ahead are half a
                        // megabyte, which would no longer be in the CPU's caches for a long ledger, and still there for a short one.
                        let step = step(&mut seq);
                        let start = Instant::now();
                        for entry in step {
                            view.apply_owned(entry);
                        }
                        black_box(view.context());
                        taken += start.elapsed();
                    }
                    let counted = batch.min(left);
                    spent += taken.mul_f64(counted as f64 / batch as f64);
                    left -= counted;
                }
                spent
            });
        });
    }
    group.finish();
}

criterion_group!(benches, per_step);
criterion_main!(benches);
