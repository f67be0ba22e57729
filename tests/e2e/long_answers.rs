//! An answer that is much longer than memory should be: printed whole in every format, kept whole, and never in memory as a
//! whole.
//!
//! The process is alive while its last bytes wait in a pipe or its input is open, so its memory can be read then.

use crate::support::{Api, Bench, Running, run, says};
use becket_testkit::{Answer, MockServer, Reply};
use serde_json::{Value, json};
use std::io::Read as _;
use std::process::{Command, Stdio};

/// Bytes of the answer. Small enough for a build without optimisation.
const BYTES: usize = 24 << 20;
/// Memory that an answer may take beyond a short one. A single copy of the answer would be more.
const MOST: u64 = 14 << 20;

/// Text that does not repeat, so that it is not much shorter when compressed.
fn long_text() -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut text = String::with_capacity(BYTES + 100);
    while text.len() < BYTES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let line = format!("{:x} is a line of the answer\n", state >> 16);
        text.push_str(&line);
    }
    text
}

fn server(text: &str) -> MockServer {
    MockServer::start([Reply::from(Answer::text(text).deltas(2_000))])
}

/// The most memory that the process had so far, in bytes.
fn high_water(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// Everything the command prints, and its memory when all but the end was printed.
fn printed(command: &mut Command) -> (Vec<u8>, u64) {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let (mut all, mut chunk, mut memory) = (Vec::new(), vec![0; 4096], 0);
    loop {
        let read = out.read(&mut chunk).unwrap();
        if read == 0 {
            break;
        }
        all.extend_from_slice(&chunk[..read]);
        // More than a pipe holds is left, so the process cannot have ended.
        if memory == 0 && all.len() > BYTES - (1 << 20) {
            memory = high_water(child.id());
        }
    }
    assert!(child.wait().unwrap().success());
    (all, memory)
}

/// The memory of a run with a short answer, read while it waits for more input.
fn usual() -> u64 {
    let bench = Bench::new(&[]);
    driven(&bench, &server("short")).1
}

/// The `result` line of a turn that a program drives, and the memory after it.
fn driven(bench: &Bench, server: &MockServer) -> (Value, u64) {
    let mut command = bench.print(Api::Chat, server);
    command.args(["--input-format", "stream-json", "--output-format", "stream-json"]);
    let mut running = Running::start(&mut command);
    running.send(format!("{}\n", says("go")).as_bytes());
    let line = running.line(|line| line.contains(r#""type":"result""#));
    let memory = high_water(running.child.id());
    running.close_stdin();
    running.wait().expect(0);
    (serde_json::from_str(&line).unwrap(), memory)
}

#[test]
fn a_long_answer_is_printed_and_kept_whole_and_is_never_in_memory_as_a_whole() {
    let (text, usual) = (long_text(), usual());
    let bench = Bench::new(&[]);
    let (out, memory) = printed(bench.print(Api::Chat, &server(&text)).arg("go"));
    assert!(out == text.as_bytes(), "text: {} of {} bytes", out.len(), text.len());
    let grown = memory.saturating_sub(usual) >> 20;
    assert!(memory < usual + MOST, "text: {grown} MB more than a short answer");

    // The session has every byte, and the next request has the ends.
    let exported = run(bench.command().args(["export", "--format", "md"]));
    assert!(exported.stdout.contains(text.trim_end()), "the export has not the whole answer");
    let next = server("ok");
    run(bench.print(Api::Chat, &next).args(["--continue", "and?"])).expect(0);
    let request = next.requests()[0].text().to_owned();
    assert!(
        request.len() < 200_000 && request.contains("left out; to see them: recall"),
        "{}",
        request.len()
    );

    let bench = Bench::new(&[]);
    let model = server(&text);
    let mut command = bench.print(Api::Chat, &model);
    let (out, memory) = printed(command.args(["--output-format", "json", "go"]));
    let line: Value = serde_json::from_slice(&out).unwrap();
    assert!(line["result"] == text.as_str());
    let grown = memory.saturating_sub(usual) >> 20;
    assert!(memory < usual + MOST, "json: {grown} MB more than a short answer");

    let (line, memory) = driven(&Bench::new(&[]), &server(&text));
    assert_eq!(line["subtype"], json!("success"));
    assert!(line["result"].as_str().unwrap().contains("bytes left out"));
    let grown = memory.saturating_sub(usual) >> 20;
    assert!(memory < usual + MOST, "stream-json: {grown} MB more than a short answer");
}
