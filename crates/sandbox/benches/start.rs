//! Measures the start of a confined command: `/bin/true` with and without a confinement, in turn, over both backends and levels.
//!
//! `cargo bench -p becket-sandbox --bench start [-- RUNS]`. `BECKET=PATH` names a built becket: it is the helper in real use, and
//! larger than the tests' one, which is taken without it. Prints the medians of one run.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench that is run by hand")]

use becket_network::HostRules;
use becket_sandbox::{Backend, BackendKind, Network, PolicyInputs, Sandbox, SandboxSettings};
use becket_types::SandboxLevel::{ReadOnly, Workspace};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

fn sandbox(kind: BackendKind, network: Network, dir: &Path) -> Sandbox {
    let helper = || env!("CARGO_BIN_EXE_sandbox-test-helper").into();
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let secrets = [".ssh", ".aws", ".gnupg", ".config/gh"].map(|name| home.join(name)).to_vec();
    Sandbox::new(SandboxSettings {
        program: std::env::var_os("BECKET").map_or_else(helper, PathBuf::from),
        inputs: PolicyInputs { roots: vec![dir.join("ws")], secrets, network, ..PolicyInputs::default() },
        find_secrets: Arc::new(|_| Vec::new()),
        refresh: None,
        search: Vec::new(),
        temp: vec![dir.to_owned()],
        only: Some(kind),
        hosts: HostRules::new(&["docs.rs".to_owned()], &[]).unwrap(),
    })
}

/// Milliseconds of one start.
fn start(words: &[OsString], dir: &Path) -> f64 {
    let words: Vec<OsString> = words.iter().cloned().chain(["/bin/true".into()]).collect();
    let started = Instant::now();
    let status = Command::new(&words[0])
        .args(&words[1..])
        .current_dir(dir.join("ws"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    started.elapsed().as_secs_f64() * 1e3
}

fn main() {
    let runs = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(100);
    // `cargo bench -- --test` only sees that it works.
    let runs: usize = if std::env::args().any(|word| word == "--test") { 1 } else { runs };
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("ws")).unwrap();
    let mut cases = vec![("no confinement", None)];
    for (name, kind, level, network) in [
        ("Landlock, read-only", BackendKind::Landlock, ReadOnly, Network::Off),
        ("Landlock, workspace", BackendKind::Landlock, Workspace, Network::Off),
        ("bubblewrap, read-only", BackendKind::Bubblewrap, ReadOnly, Network::Off),
        ("bubblewrap, workspace", BackendKind::Bubblewrap, Workspace, Network::Off),
        ("bubblewrap, with the proxy", BackendKind::Bubblewrap, Workspace, Network::Proxy),
    ] {
        let sandbox = sandbox(kind, network, dir.path());
        match sandbox.backend(level) {
            Backend::None { why } => println!("{name}: skipped, {why}"),
            _ => cases.push((name, Some((level, sandbox)))),
        }
    }
    let mut times = vec![Vec::new(); cases.len()];
    for _ in 0..runs {
        for ((_, case), times) in cases.iter().zip(&mut times) {
            let started = Instant::now();
            // The words are made again for each command, as becket does.
            let confined = case.as_ref().map(|(level, sandbox)| sandbox.confine(*level, None).unwrap());
            let made = started.elapsed().as_secs_f64() * 1e3;
            let started = start(confined.as_ref().map_or(&[], |confined| &confined.words), dir.path());
            times.push((made + started, made));
        }
    }
    let mut plain = 0.0;
    for ((name, case), mut times) in cases.iter().zip(times) {
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (median, made) = times[times.len() / 2];
        if case.is_none() {
            plain = median;
        }
        let (more, best) = (median - plain, times[0].0);
        println!(
            "{name}: {median:.2} ms, {more:+.2} ms (best {best:.2} ms), of these {made:.2} ms to make the words"
        );
    }
}
