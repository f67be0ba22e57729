//! Data from other programs and files: the git branch, the clipboard, images, the user's status line, the editor.
//!
//! Every program has a time limit and gets no terminal, except for the editor, which has the terminal until it exits. If a program is missing, the interface does without it and
//! reports no error.

use crate::program_lookup;
use becket_sandbox::{ProgramKind, Programs};
use becket_tui::input::Reply;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

/// Longest time that a program may take.
const PATIENCE: Duration = Duration::from_secs(5);
const MAX_OUTPUT_BYTES: u64 = 32 * 1024 * 1024;
const MAX_IMAGE_BYTES: u64 = 20 * 1024 * 1024;

/// Maximum number of bytes of a file of git that names a folder or a branch.
const MAX_POINTER_BYTES: u64 = 64 * 1024;

/// Returns the branch or the abbreviated commit that `dir` is on. Reads git's files and runs nothing.
pub(super) fn branch(dir: &Path) -> Option<String> {
    let git = dir.ancestors().map(|dir| dir.join(".git")).find(|git| git.exists())?;
    let git = if git.is_file() {
        let text = becket_files::read_text(&git, MAX_POINTER_BYTES).ok()?;
        git.parent()?.join(text.strip_prefix("gitdir:")?.trim())
    } else {
        git
    };
    let head = becket_files::read_text(&git.join("HEAD"), MAX_POINTER_BYTES).ok()?;
    let head = head.trim();
    let name = head.strip_prefix("ref: refs/heads/").or_else(|| head.get(..8))?;
    Some(name.chars().take(60).collect())
}

/// Returns the output of a program; `None` if it fails, takes too long or prints nothing.
async fn output(mut command: Command, input: &[u8]) -> Option<Vec<u8>> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().ok()?;
    let (mut stdin, stdout) = (child.stdin.take()?, child.stdout.take()?);
    let work = async {
        // Some programs do not read their input, which is not an error.
        let _ = stdin.write_all(input).await;
        drop(stdin);
        let mut out = Vec::new();
        stdout.take(MAX_OUTPUT_BYTES).read_to_end(&mut out).await.ok()?;
        child.wait().await.ok().filter(std::process::ExitStatus::success)?;
        Some(out)
    };
    tokio::time::timeout(PATIENCE, work).await.ok().flatten().filter(|out| !out.is_empty())
}

/// Returns the output lines of the user's status line program.
pub(super) async fn status_line(
    programs: Programs,
    program: String,
    mut told: Value,
    known: Value,
    cwd: PathBuf,
) -> Option<Reply> {
    if let (Some(told), Value::Object(known)) = (told.as_object_mut(), known) {
        told.extend(known);
    }
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    // The first preparation tests the sandbox, which starts processes and waits for them.
    let prepare = move || programs.prepare(ProgramKind::StatusLine);
    let prepared = match tokio::task::spawn_blocking(prepare).await.ok()? {
        Ok(prepared) => prepared,
        Err(why) => return Some(Reply::StatusLine(vec![format!("status line not started: {why}")])),
    };
    let mut command = match prepared.words.split_first() {
        None => Command::new("/bin/sh"),
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg("/bin/sh");
            command
        }
    };
    command.args(["-c", &program]).current_dir(cwd).envs(prepared.variables);
    if let Some(size) = size {
        command.env("COLUMNS", size.ws_col.to_string()).env("LINES", size.ws_row.to_string());
    }
    let out = output(command, told.to_string().as_bytes()).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&out[..out.len().min(16 * 1024)]).into_owned();
    Some(Reply::StatusLine(text.lines().map(str::to_owned).collect()))
}

/// Returns the data for the status line program that the interface does not know itself.
pub(super) fn status_line_facts(version: &str, transcript: &Path) -> Value {
    json!({"version": version, "transcript_path": transcript.to_string_lossy(), "hook_event_name": "Status"})
}

/// Returns the image in the clipboard, read by the first program that works.
pub(super) async fn clipboard_image() -> Reply {
    const PROGRAMS: [&[&str]; 3] = [
        &["wl-paste", "--type", "image/png"],
        &["xclip", "-selection", "clipboard", "-t", "image/png", "-o"],
        &["pngpaste", "-"],
    ];
    for words in PROGRAMS {
        let Some(program) = program_lookup::find(words[0]) else { continue };
        let mut command = Command::new(program);
        command.args(&words[1..]);
        if let Some(bytes) = output(command, b"").await
            && let Some(media_type) = media_type(&bytes)
        {
            return Reply::Image(Ok((media_type.to_owned(), bytes)));
        }
    }
    Reply::Image(Err("no image in the clipboard (read by wl-paste, xclip or pngpaste)".to_owned()))
}

/// Copies text to the system's clipboard, in addition to the terminal's own means.
pub(super) fn copy(text: &str) {
    const PROGRAMS: [&[&str]; 3] = [&["wl-copy"], &["xclip", "-selection", "clipboard"], &["pbcopy"]];
    let text = text.to_owned();
    tokio::spawn(async move {
        for words in PROGRAMS {
            let Some(program) = program_lookup::find(words[0]) else { continue };
            let mut command = Command::new(program);
            command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            let Ok(mut child) = command.spawn() else { continue };
            if let Some(mut stdin) = child.stdin.take() {
                let _ = stdin.write_all(text.as_bytes()).await;
            }
            // A program that still runs after the wait serves the clipboard with the text, so no other one is tried.
            if tokio::time::timeout(PATIENCE, child.wait())
                .await
                .map_or(true, |e| e.is_ok_and(|s| s.success()))
            {
                return;
            }
        }
    });
}

/// Returns a pasted or dropped path with the image at that path, if there is one.
pub(super) fn attach_image(text: String, cwd: &Path, home: Option<&Path>) -> Reply {
    let image = read_image(&parse_dropped_path(&text, cwd, home));
    Reply::Attached { text, image }
}

fn read_image(path: &Path) -> Option<(String, Vec<u8>)> {
    let bytes = becket_files::read(path, MAX_IMAGE_BYTES).ok()?;
    Some((media_type(&bytes)?.to_owned(), bytes))
}

/// Parses a dropped path. Terminals write it quoted, with escaped spaces, or as a `file://` address.
fn parse_dropped_path(text: &str, cwd: &Path, home: Option<&Path>) -> PathBuf {
    let text = text.trim();
    let quoted = ['\'', '"'].iter().find_map(|q| text.strip_prefix(*q)?.strip_suffix(*q));
    let plain = match (quoted, text.strip_prefix("file://")) {
        (Some(inside), _) => inside.to_owned(),
        (None, Some(address)) => decode_percent(address),
        (None, None) => text.replace("\\ ", " ").replace("\\(", "(").replace("\\)", ")"),
    };
    match (plain.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => cwd.join(plain),
    }
}

/// Decodes `%20` and other percent escapes.
fn decode_percent(address: &str) -> String {
    let mut out = Vec::new();
    let mut rest = address.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let hex = more.get(..2).and_then(|h| u8::from_str_radix(std::str::from_utf8(h).ok()?, 16).ok());
        match (first, hex) {
            (b'%', Some(byte)) => {
                out.push(byte);
                rest = &more[2..];
            }
            _ => {
                out.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Detects the media type from the first bytes.
fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// Returns the text after the user edited it.
pub(super) async fn edit(editor: &str, text: &str) -> Result<String, String> {
    let file = tempfile::Builder::new()
        .prefix("becket-")
        .suffix(".md")
        .tempfile()
        .map_err(|e| format!("cannot make a file for the editor: {e}"))?;
    std::fs::write(file.path(), text).map_err(|e| format!("cannot write for the editor: {e}"))?;
    // Runs the editor through a shell, because EDITOR may contain arguments.
    let status = tokio::process::Command::new("/bin/sh")
        .args(["-c", &format!("exec {editor} \"$1\""), "sh"])
        .arg(file.path())
        .stdin(Stdio::inherit())
        .status()
        .await
        .map_err(|e| format!("cannot start the editor {editor}: {e}"))?;
    if !status.success() {
        return Err(format!("the editor {editor} ended with {status}; the text is unchanged"));
    }
    std::fs::read_to_string(file.path()).map_err(|e| format!("cannot read what the editor wrote: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_sandbox::Confine;

    #[test]
    fn the_branch_is_read_also_in_a_worktree() {
        let dir = tempfile::tempdir().unwrap();
        let (main, tree) = (dir.path().join("main"), dir.path().join("tree"));
        for path in [main.join(".git/worktrees/tree"), main.join("src"), tree.clone()] {
            std::fs::create_dir_all(path).unwrap();
        }
        std::fs::write(main.join(".git/HEAD"), "ref: refs/heads/feature/x\n").unwrap();
        std::fs::write(main.join(".git/worktrees/tree/HEAD"), "0123456789abcdef\n").unwrap();
        let link = format!("gitdir: {}\n", main.join(".git/worktrees/tree").display());
        std::fs::write(tree.join(".git"), link).unwrap();
        assert_eq!(branch(&main.join("src")).as_deref(), Some("feature/x"));
        assert_eq!(branch(&tree).as_deref(), Some("01234567"));
        assert_eq!(branch(dir.path()), None);
    }

    #[test]
    fn a_dropped_path_is_the_image_that_it_names() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a b.png");
        std::fs::write(&file, b"\x89PNG rest").unwrap();
        std::fs::write(dir.path().join("no.png"), "text").unwrap();
        let plain = file.display().to_string();
        let attached = |text: &str| match attach_image(text.to_owned(), dir.path(), Some(dir.path())) {
            Reply::Attached { image, .. } => image.map(|(media_type, _)| media_type),
            other => panic!("{other:?}"),
        };
        let address = format!("file://{}", plain.replace(' ', "%20"));
        for text in
            [&plain, &format!("'{plain}'"), &plain.replace(' ', "\\ "), &address, "~/a b.png", "a b.png"]
        {
            assert_eq!(attached(text).as_deref(), Some("image/png"), "{text}");
        }
        assert_eq!((attached("no.png"), attached("none.png")), (None, None));
    }

    #[tokio::test]
    async fn a_status_line_program_reads_json_and_its_lines_are_shown() {
        let program = "read line; echo \"$line\" | grep -c '\"version\":\"1\"'; echo two".to_owned();
        let told = json!({"model": {"id": "m"}});
        let free = Programs::default;
        let reply =
            status_line(free(), program, told, status_line_facts("1", Path::new("/l")), "/".into()).await;
        assert_eq!(reply, Some(Reply::StatusLine(vec!["1".into(), "two".into()])));
        let failed = status_line(free(), "exit 3".into(), json!({}), json!({}), "/".into()).await;
        assert_eq!(failed, Some(Reply::StatusLine(Vec::new())));
        let refused = Programs::new(Confine::Always, None, None);
        let reply = status_line(refused, "echo one".into(), json!({}), json!({}), "/".into()).await;
        let Some(Reply::StatusLine(lines)) = reply else { panic!("{reply:?}") };
        assert!(lines[0].starts_with("status line not started: no sandbox works here"), "{lines:?}");
    }
}
