//! Actions of the user beside the conversation: shell commands, lines for AGENTS.md, and a draft that is saved.
//!
//! Commands run in the same shell as the model's, with the same environment and limits. No permission is asked, because
//! the user typed them.

use crate::settings;
use becket_tool::{Host, Tool, ToolEnv};
use becket_tool_shell::{BashTool, Shell};
use becket_tui::input::Reply;
use becket_types::{BlobId, CallId, SessionId, ToolOutput};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// Runs the user's shell commands.
pub(crate) struct UserShell {
    shell: Arc<Shell>,
    cwd: PathBuf,
    roots: Arc<[PathBuf]>,
    /// The state of the shell between commands, such as the directory after `cd`.
    state: Arc<ShellState>,
    running: Arc<Mutex<CancellationToken>>,
}

impl UserShell {
    pub(crate) fn new(shell: Arc<Shell>, cwd: PathBuf, roots: &[PathBuf]) -> Self {
        Self { shell, cwd, roots: roots.into(), state: Arc::default(), running: Arc::default() }
    }

    /// Returns the number of the session's commands that run in the background.
    pub(super) fn running_jobs(&self) -> usize {
        self.shell.running_jobs()
    }

    /// Returns for each of the session's commands in the background its number, a line with its state and text, and true if it runs.
    pub(super) fn jobs(&self) -> Vec<(u64, String, bool)> {
        self.shell.job_lines()
    }

    /// Ends a command in the background, and describes its state.
    pub(super) async fn end_job(&self, id: u64) -> Option<String> {
        self.shell.end_job(id).await
    }

    pub(super) fn run(&self, command: String) -> impl Future<Output = Option<Reply>> + Send + 'static {
        let cancel = CancellationToken::new();
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = cancel.clone();
        let env = ToolEnv {
            cwd: self.cwd.clone(),
            roots: Arc::clone(&self.roots),
            call_id: CallId("person".to_owned()),
            cancel,
            progress: Arc::new(|_: &str| {}),
            host: Arc::clone(&self.state) as Arc<dyn Host>,
            may_read: Arc::new(|_: &Path| true),
            variables: &[],
            // The user runs the command, so it may reach whatever the user can.
            sandbox: becket_types::SandboxLevel::Off,
            judged: None,
        };
        let tool = BashTool::new(Arc::clone(&self.shell));
        async move {
            if let Some(editor) = becket_tool_shell::waiting_editor(&command) {
                let output = format!(
                    "{editor} was not started: a command after `!` has no terminal of its own. Run it in another window, or \
                     stop becket with Ctrl-Z, run it, and come back with fg."
                );
                return Some(Reply::Ran { command, output, failed: true, details: Value::Null });
            }
            let output = tool.run(json!({ "command": command }), &env).await;
            let ToolOutput { content, is_error, details, .. } = output;
            Some(Reply::Ran { command, output: content, failed: is_error, details })
        }
    }

    /// Runs a command and returns its output for a prompt.
    pub(super) async fn output(&self, command: String) -> String {
        match self.run(command).await {
            Some(Reply::Ran { output, .. }) => output,
            _ => String::new(),
        }
    }

    /// Stops the running command.
    pub(super) fn stop(&self) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).cancel();
    }
}

/// The host of the user's commands: keeps only the state of the shell. Whole outputs and file hashes are needed for the
/// model's commands alone.
#[derive(Default)]
struct ShellState(Mutex<HashMap<String, Value>>);

impl Host for ShellState {
    fn put_blob(&self, _bytes: &[u8]) -> Result<BlobId, String> {
        Err("outputs of your own commands are not saved".to_owned())
    }
    fn get_blob(&self, _id: &BlobId) -> Option<Vec<u8>> {
        None
    }
    fn note_read(&self, _path: &Path, _sha256: &str) {}
    fn read_hash(&self, _path: &Path) -> Option<String> {
        None
    }
    fn state(&self, key: &str) -> Option<Value> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }
    fn set_state(&self, key: &str, value: Value) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), value);
    }
    fn original_output(&self, _call: &CallId) -> Option<(String, String)> {
        None
    }
}

/// Maximum number of bytes of a rules file to which a line is added.
const MAX_RULES: u64 = 1 << 20;

/// Appends a line to AGENTS.md: the nearest one up to the project's root, or a new one in the root.
pub(super) fn memorize(cwd: &Path, text: &str) -> Result<String, String> {
    let root = settings::project_root(cwd);
    let files = cwd.ancestors().take_while(|dir| dir.starts_with(&root)).map(|dir| dir.join("AGENTS.md"));
    let path = files.into_iter().find(|file| file.exists()).unwrap_or_else(|| root.join("AGENTS.md"));
    let cannot = |e: io::Error| format!("cannot write {}: {e}", path.display());
    if crate::trust::leads_outside(&root, &path) {
        return Err(format!("not written: {} is a link to a file outside of the project", path.display()));
    }
    let before = match becket_files::read(&path, MAX_RULES) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(cannot(e)),
    };
    let gap = if before.is_empty() || before.ends_with(b"\n") { "" } else { "\n" };
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(&path).map_err(cannot)?;
    file.write_all(format!("{gap}- {text}\n").as_bytes()).map_err(cannot)?;
    let made = if before.is_empty() { " (new)" } else { "" };
    Ok(format!("{}{made}: - {text}", path.display()))
}

/// The draft of a session, in a file of its own.
pub(super) struct Drafts {
    file: PathBuf,
    /// Number of the latest write. Only the latest one is carried out, so drafts cannot be overwritten by older text.
    last: Arc<AtomicU64>,
    writing: Arc<Mutex<()>>,
}

impl Drafts {
    pub(super) fn new(data_dir: &Path, session: SessionId) -> Self {
        let file = data_dir.join("drafts").join(format!("{session}.md"));
        Self { file, last: Arc::default(), writing: Arc::default() }
    }

    pub(super) fn read(&self) -> Option<String> {
        std::fs::read_to_string(&self.file).ok().filter(|text| !text.is_empty())
    }

    /// Returns a function that writes the draft, or removes it for `None`. Errors are ignored, because a lost draft
    /// must not stop the user.
    pub(super) fn keep(&self, text: Option<String>) -> impl FnOnce() + Send + 'static {
        let turn = self.last.fetch_add(1, Ordering::AcqRel) + 1;
        let (last, writing, file) = (Arc::clone(&self.last), Arc::clone(&self.writing), self.file.clone());
        move || {
            let _one = writing.lock().unwrap_or_else(PoisonError::into_inner);
            if last.load(Ordering::Acquire) == turn {
                let _ = write(&file, text.as_deref());
            }
        }
    }
}

/// Replaces the file atomically, so that a crash leaves the previous draft.
fn write(file: &Path, text: Option<&str>) -> io::Result<()> {
    let (Some(text), Some(dir)) = (text, file.parent()) else { return std::fs::remove_file(file) };
    becket_files::private::dir(dir)?;
    let mut new = tempfile::NamedTempFile::new_in(dir)?;
    new.write_all(text.as_bytes())?;
    new.persist(file)?;
    Ok(())
}

/// The text with which the composer begins.
pub(super) struct LastDraft {
    /// Text from the command line, until the interface asks for its draft.
    pub(super) typed: Option<String>,
    /// The saved draft; `None` for a session that is not saved.
    pub(super) kept: Option<Drafts>,
}

impl LastDraft {
    pub(super) fn take(&mut self) -> Option<String> {
        self.typed.take().or_else(|| self.kept.as_ref().and_then(Drafts::read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_tool_shell::ShellSettings;

    #[test]
    fn a_line_goes_to_the_nearest_agents_md() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join(".git")).unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        assert!(memorize(&root.join("a/b"), "use tabs").unwrap().contains("(new)"));
        assert_eq!(std::fs::read_to_string(root.join("AGENTS.md")).unwrap(), "- use tabs\n");
        std::fs::write(root.join("a/AGENTS.md"), "# Rules").unwrap();
        memorize(&root.join("a/b"), "no panics").unwrap();
        assert_eq!(std::fs::read_to_string(root.join("a/AGENTS.md")).unwrap(), "# Rules\n- no panics\n");
    }

    #[test]
    fn the_last_draft_wins_and_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let session = SessionId::new();
        let drafts = Drafts::new(dir.path(), session);
        assert_eq!(drafts.read(), None);
        let (first, second) = (drafts.keep(Some("one".into())), drafts.keep(Some("two".into())));
        second();
        first();
        assert_eq!(Drafts::new(dir.path(), session).read().as_deref(), Some("two"));
        drafts.keep(None)();
        assert_eq!(drafts.read(), None);
        assert_eq!(std::fs::read_dir(dir.path().join("drafts")).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_command_runs_in_the_project_and_can_be_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let env = vec![("PATH".into(), std::env::var_os("PATH").unwrap()), ("SEEN".into(), "yes".into())];
        let shell = Shell::new(ShellSettings::new(env, root.join("spill")));
        let user_shell = UserShell::new(shell, root.clone(), std::slice::from_ref(&root));
        let Some(Reply::Ran { output, failed, .. }) = user_shell.run("echo $SEEN; pwd".into()).await else {
            panic!("no answer")
        };
        assert!(output.contains("yes") && output.contains(&*root.to_string_lossy()) && !failed, "{output}");
        let long = tokio::spawn(user_shell.run("sleep 600".into()));
        tokio::task::yield_now().await;
        user_shell.stop();
        let Some(Reply::Ran { failed, .. }) = long.await.unwrap() else { panic!("no answer") };
        assert!(failed);
    }
}
