//! The official SDKs drive becket: `claude-agent-sdk` (PyPI), `@anthropic-ai/claude-agent-sdk` and `@openai/codex-sdk`
//! (npm), as `tests/peers/sdks/install.sh` installs them. Where they are not installed, each test says in one line that it
//! skipped.

use becket_testkit::{Answer, MockServer};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder with the packages, if `needed` is there.
pub(crate) fn peers(test: &str, needed: &str) -> Option<PathBuf> {
    let named = std::env::var_os("BECKET_PEERS").map(PathBuf::from);
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let dir = named.or_else(|| cache.or_else(home).map(|dir| dir.join("becket-peers")));
    let dir = dir.map(|dir| dir.join("sdks")).filter(|dir| dir.join(needed).exists());
    if dir.is_none() {
        println!("skipped {test}: the packages of tests/peers/sdks are not installed");
    }
    dir
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers/sdks").join(name)
}

/// Runs a script against the built binary and shows all it printed if it fails.
fn passes(command: &mut Command, least: usize) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    let passed = text.lines().filter(|line| line.starts_with("ok ")).count();
    assert!(passed >= least, "{passed} scenarios ran:\n{text}\n{errors}");
}

fn clean(program: &Path, peers: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("LANG", "C.UTF-8").env("BECKET_PEERS", peers).current_dir(peers);
    for name in ["PATH", "TMPDIR", "HOME", "LLVM_PROFILE_FILE"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
}

#[test]
fn the_python_sdk_runs_on_becket() {
    let Some(peers) = peers("the_python_sdk_runs_on_becket", "python/bin/python") else { return };
    let server = MockServer::with(|_| Answer::text("Hello over the wire.").into());
    let mut command = clean(&peers.join("python/bin/python"), &peers);
    command.arg(script("python.py")).arg(env!("CARGO_BIN_EXE_becket"));
    command.env("ANTHROPIC_BASE_URL", server.url());
    passes(&mut command, 42);
    assert_eq!(server.requests().len(), 2, "two scenarios speak to the server");
}

#[test]
fn the_typescript_sdk_runs_on_becket() {
    let needed = "node_modules/@anthropic-ai/claude-agent-sdk/package.json";
    let Some(peers) = peers("the_typescript_sdk_runs_on_becket", needed) else { return };
    let mut command = clean(Path::new("node"), &peers);
    command.arg(script("typescript.mjs")).arg(env!("CARGO_BIN_EXE_becket"));
    passes(&mut command, 22);
}

#[test]
fn the_codex_sdk_runs_on_becket() {
    let needed = "node_modules/@openai/codex-sdk/package.json";
    let Some(peers) = peers("the_codex_sdk_runs_on_becket", needed) else { return };
    let mut command = clean(Path::new("node"), &peers);
    command.arg(script("codex.mjs")).arg(env!("CARGO_BIN_EXE_becket"));
    passes(&mut command, 11);
}

/// Returns the code block of the guide that contains `part`, with the path of the built binary.
fn example(part: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/sdks.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut blocks = page.split("```").skip(1).step_by(2);
    let block = blocks.find(|block| block.contains(part)).unwrap_or_else(|| panic!("no example has {part}"));
    let (_, code) = block.split_once('\n').unwrap();
    assert!(code.contains("/usr/local/bin/becket"), "{code}");
    code.replace("/usr/local/bin/becket", env!("CARGO_BIN_EXE_becket"))
}

/// Runs an example of the guide in an empty folder and returns what it printed.
fn printed(program: &Path, peers: &Path, file: &str, code: &str, server: &MockServer) -> String {
    let dir = tempfile::tempdir().unwrap();
    let (home, work) = (dir.path().join("home"), dir.path().join("work"));
    std::fs::create_dir(&home).unwrap();
    std::fs::create_dir(&work).unwrap();
    std::fs::write(work.join(file), code).unwrap();
    std::os::unix::fs::symlink(peers.join("node_modules"), work.join("node_modules")).unwrap();
    let mut command = clean(program, peers);
    command.arg(file).current_dir(&work).env("HOME", &home);
    command.env("ANTHROPIC_API_KEY", "sk-test").env("ANTHROPIC_BASE_URL", server.url());
    command.env("OPENAI_API_KEY", "sk-test").env("OPENAI_BASE_URL", format!("{}/v1", server.url()));
    if file == "codex.mjs" {
        command.env("BECKET_MODEL", "openai/test-model");
        // As with Codex, a thread begins in a repository.
        assert!(Command::new("git").args(["init", "-q"]).current_dir(&work).status().unwrap().success());
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{file}: {text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn the_examples_of_the_guide_run() {
    const ANSWER: &str = "The parser drops the last token.";
    let test = "the_examples_of_the_guide_run";
    let Some(peers) = peers(test, "python/bin/python") else { return };
    let python = peers.join("python/bin/python");
    for (program, file, part) in [
        (python.as_path(), "example.py", "from claude_agent_sdk import ClaudeAgentOptions, query"),
        (Path::new("node"), "example.mjs", "import { query } from"),
        (Path::new("node"), "codex.mjs", "import { Codex } from"),
    ] {
        let server = MockServer::start([Answer::text(ANSWER)]);
        let text = printed(program, &peers, file, &example(part), &server);
        assert!(text.contains(ANSWER), "{file}: {text}");
    }
}
