//! Files that change, shrink, vanish or are replaced while they are read: an answer or an error in words, never a panic or a wait;
//! and a hash that is noted is of what was shown, so that an edit afterwards is never judged by another content.

#![expect(clippy::unwrap_used, reason = "a failed set-up fails the test")]

use becket_tool::sha256;
use becket_tool::testing::{env, run};
use serde_json::json;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LINES: usize = 60_000;

fn version(word: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for n in 0..LINES {
        writeln!(out, "{word} {n}").unwrap();
    }
    out
}

/// Stops the writing thread, also if an assertion fails; otherwise the test would wait for it for ever.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_file_that_changes_while_it_is_read() {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let (env, host) = env(dir.path());
    let path = env.cwd.join("f.txt");
    let versions = ["old", "newer"].map(|word| (word, version(word)));
    let hashes = versions.each_ref().map(|(word, bytes)| (*word, sha256(bytes)));
    std::fs::write(&path, &versions[0].1).unwrap();
    let ended = AtomicBool::new(false);
    let (mut shown, mut refused, mut hashed) = (0, 0, 0);
    std::thread::scope(|scope| {
        let (path, versions, ended) = (&path, &versions, &ended);
        scope.spawn(move || {
            let other = path.with_file_name("other");
            for round in 0_usize.. {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let bytes = &versions[round % 2].1;
                match round % 5 {
                    0 => drop(std::fs::write(path, bytes)),
                    1 => {
                        std::fs::write(&other, bytes).unwrap();
                        std::fs::rename(&other, path).unwrap();
                    }
                    2 => drop(std::fs::File::options().write(true).open(path).map(|file| file.set_len(1000))),
                    3 if round % 40 == 3 => drop(std::fs::remove_file(path)),
                    _ => {
                        std::fs::write(&other, bytes).unwrap();
                        let _ = std::fs::rename(&other, path);
                    }
                }
            }
        });
        let _ends = Ends(ended);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for round in 0..1_000 {
            let offset = [1, 1, 30_000, 59_000, -50][round % 5];
            let tool = becket_tool_read::Read::new();
            host.kept().reads.clear();
            let call = run(&tool, &env, json!({"path": "f.txt", "offset": offset, "limit": 200}));
            let output = runtime
                .block_on(async { tokio::time::timeout(Duration::from_secs(20), call).await.unwrap() });
            assert!(!output.content.is_empty() && output.content.len() < 60_000);
            if output.is_error {
                refused += 1;
                let why = ["does not exist", "behind the end", "chang"];
                assert!(why.iter().any(|why| output.content.contains(why)), "{}", output.content);
                continue;
            }
            shown += 1;
            let noted = env.host.read_hash(path);
            let of = hashes.iter().find(|(_, hash)| Some(hash) == noted.as_ref()).map(|(word, _)| *word);
            hashed += usize::from(of.is_some());
            for line in output.content.lines().filter_map(|line| line.split_once('\t').map(|(_, text)| text))
            {
                if let Some(word) = of {
                    assert!(line.starts_with(word), "the hash is of {word}, the line is {line:?}");
                }
            }
        }
    });
    assert!(shown > 5 && hashed > 0, "{shown} shown, {refused} refused, {hashed} of one version");
}
