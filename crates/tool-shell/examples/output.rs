//! Measures the cost of reading a command's output: `output [COMMAND]...`; the `bash` tool runs each command.
//!
//! For each command it prints: megabytes a second from the start to the result; the process's own CPU time in milliseconds;
//! the rise of its peak memory; and the longest delay of a one-millisecond tick on the thread that would draw the interface.
//! Linux only. Figures: `benches/README.md`.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program of its own")]

use becket_tool::{Host, Tool, ToolEnv, testing};
use becket_tool_shell::{BashTool, Limits, Shell, ShellSettings, environment};
use becket_types::{BlobId, CallId};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const COMMANDS: &[&str] = &[
    "head -c 1000000000 /dev/zero",
    "yes | head -c 1000000000",
    "yes 'a line of some fifty characters, as programs print' | head -c 1000000000",
    "head -c 50000000 /dev/urandom >r; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do cat r; done",
    "yes $'\\e[32mok\\e[0m 12/100\\r' | tr -d '\\n' | head -c 1000000000",
    "yes 'zwölf Boxkämpfer jagen Viktor' | head -c 1000000000",
];

/// Keeps nothing: what a store does with a blob is not measured here.
struct Sink;

impl Host for Sink {
    fn put_blob(&self, bytes: &[u8]) -> Result<BlobId, String> {
        Ok(BlobId(bytes.len().to_string()))
    }
    fn put_blob_from(&self, reader: &mut dyn std::io::Read) -> Result<BlobId, String> {
        let n = std::io::copy(reader, &mut std::io::sink()).map_err(|e| e.to_string())?;
        Ok(BlobId(n.to_string()))
    }
    fn get_blob(&self, _: &BlobId) -> Option<Vec<u8>> {
        None
    }
    fn note_read(&self, _: &Path, _: &str) {}
    fn read_hash(&self, _: &Path) -> Option<String> {
        None
    }
    fn state(&self, _: &str) -> Option<Value> {
        None
    }
    fn set_state(&self, _: &str, _: Value) {}
    fn original_output(&self, _: &CallId) -> Option<(String, String)> {
        None
    }
}

/// A line of `/proc/self/status`, in KB.
fn status(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    text.lines().find_map(|l| l.strip_prefix(key)?.split_whitespace().nth(1)?.parse().ok()).unwrap()
}

/// CPU of this process without its children, in ticks of 10 ms.
fn ticks() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    text.rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|n| n.parse::<u64>().unwrap())
        .sum()
}

async fn measure(tool: &BashTool, env: &ToolEnv, command: &str) {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let (memory, cpu, start) = (status("VmRSS"), ticks(), Instant::now());
    let call = tool.run(json!({ "command": command }), env);
    tokio::pin!(call);
    let (mut longest, mut last) = (Duration::ZERO, Instant::now());
    let output = loop {
        tokio::select! {
            output = &mut call => break output,
            () = tokio::time::sleep(Duration::from_millis(1)) => {
                longest = longest.max(last.elapsed());
                last = Instant::now();
            }
        }
    };
    // The call may have kept the thread busy in its last step: count that delay too.
    longest = longest.max(last.elapsed());
    let seconds = start.elapsed().as_secs_f64();
    let bytes = output.details["bytes"].as_u64().unwrap_or_default();
    println!(
        "{:>6.0} MB/s  {:>5} ms CPU  +{:>5.1} MB  tick {:>5.1} ms  {:>5} MB  {command}",
        bytes as f64 / 1e6 / seconds,
        (ticks() - cpu) * 10,
        status("VmHWM").saturating_sub(memory) as f64 / 1024.0,
        longest.as_secs_f64() * 1e3,
        bytes / 1_000_000,
    );
}

fn main() {
    let directory = tempfile::tempdir_in(".").unwrap();
    let (mut env, _) = testing::env(directory.path());
    env.host = Arc::new(Sink);
    env.progress = Arc::new(|_| {});
    let mut settings =
        ShellSettings::new(environment::for_commands(std::env::vars_os(), &[]), env.cwd.join("spill"));
    settings.limits = Limits { output_bytes: u64::MAX, ..Limits::default() };
    let tool = BashTool::new(Shell::new(settings));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let given: Vec<String> = std::env::args().skip(1).collect();
    let commands = if given.is_empty() { COMMANDS.iter().map(|c| (*c).to_owned()).collect() } else { given };
    runtime.block_on(measure(&tool, &env, "true"));
    for command in commands {
        runtime.block_on(measure(&tool, &env, &command));
    }
}
