//! Helpers that the tests share: the tools in a temporary directory, and ways to wait for processes.

use becket_tool::testing::{TestHost, env, run};
use becket_tool::{Tool, ToolEnv};
use becket_tool_shell::{BashTool, JobKill, JobOutput, Shell, ShellSettings, environment};
use becket_types::ToolOutput;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Held by tests that fill the machine with processes, and by tests in which processes must end within seconds.
pub(crate) static CROWD: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

pub(crate) struct Room {
    pub dir: tempfile::TempDir,
    pub root: PathBuf,
    pub env: ToolEnv,
    pub host: Arc<TestHost>,
    pub tools: Tools,
}

pub(crate) struct Tools {
    pub bash: BashTool,
    pub output: JobOutput,
    pub kill: JobKill,
    pub shell: Arc<Shell>,
}

impl Tools {
    pub(crate) fn new(settings: ShellSettings) -> Self {
        let shell = Shell::new(settings);
        Self {
            bash: BashTool::new(Arc::clone(&shell)),
            output: JobOutput::new(Arc::clone(&shell)),
            kill: JobKill::new(Arc::clone(&shell)),
            shell,
        }
    }
}

pub(crate) fn settings(spill: PathBuf) -> ShellSettings {
    let secret = [("SOME_API_KEY".into(), "canary-123".into()), ("PLAIN".into(), "x".into())];
    let all = std::env::vars_os().chain(secret);
    ShellSettings::new(environment::for_commands(all, &["PLAIN".to_owned()]), spill)
}

pub(crate) fn room() -> Room {
    room_with(|_| {})
}

pub(crate) fn room_with(change: impl FnOnce(&mut ShellSettings)) -> Room {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("work")).unwrap();
    let (env, host) = env(&dir.path().join("work"));
    let mut settings = settings(dir.path().join("spill"));
    change(&mut settings);
    Room { root: env.cwd.clone(), dir, env, host, tools: Tools::new(settings) }
}

impl Room {
    async fn tool(&self, tool: &dyn Tool, input: Value) -> ToolOutput {
        run(tool, &self.env, input).await
    }
    pub(crate) async fn input(&self, input: Value) -> ToolOutput {
        self.tool(&self.tools.bash, input).await
    }
    pub(crate) async fn sh(&self, command: &str) -> ToolOutput {
        self.input(json!({"command": command})).await
    }
    pub(crate) async fn text(&self, command: &str) -> String {
        self.sh(command).await.content
    }
    pub(crate) async fn output(&self, input: Value) -> ToolOutput {
        self.tool(&self.tools.output, input).await
    }
    pub(crate) async fn kill(&self, input: Value) -> ToolOutput {
        self.tool(&self.tools.kill, input).await
    }
    /// Starts a job and gives its number.
    pub(crate) async fn job(&self, command: &str) -> u64 {
        let output = self.input(json!({"command": command, "background": "now"})).await;
        output.details["job"].as_u64().unwrap_or_else(|| panic!("{}", output.content))
    }
    /// The numbers that a command wrote into a file.
    pub(crate) fn pids(&self, file: &str) -> Vec<i32> {
        numbers(&std::fs::read_to_string(self.root.join(file)).unwrap())
    }
    /// Waits until a command has made a file.
    pub(crate) async fn appears(&self, file: &str) {
        let path = self.root.join(file);
        let deadline = Instant::now() + Duration::from_secs(90);
        while !path.exists() {
            assert!(Instant::now() < deadline, "{file} does not come");
            tokio::task::yield_now().await;
        }
    }
}

pub(crate) fn numbers(text: &str) -> Vec<i32> {
    text.split_whitespace().map(|n| n.parse().unwrap()).collect()
}

/// Waits until a process has ended, by its descriptor; `false` if it has not after ten seconds.
pub(crate) fn ended(pid: i32) -> bool {
    ended_within(pid, Duration::from_secs(10))
}

pub(crate) fn ended_within(pid: i32, time: Duration) -> bool {
    let Ok(process) = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()) else {
        return true;
    };
    let deadline = Instant::now() + time;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&timeout)) {
            // A child of ours ended meanwhile.
            Err(rustix::io::Errno::INTR) => {}
            ready => return ready.unwrap() == 1,
        }
    }
}

/// Runs `name` of this file in a process of its own and gives its lines.
pub(crate) fn elsewhere(name: &str) -> (std::process::Child, BufReader<std::process::ChildStdout>) {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

pub(crate) fn line_with(out: &mut impl BufRead, mark: &str) -> String {
    let line = out.lines().map(Result::unwrap).find(|line| line.contains(mark)).unwrap();
    line[line.find(mark).unwrap() + mark.len()..].to_owned()
}
