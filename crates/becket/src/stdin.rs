//! Standard input of a headless run: read whole for text, line by line for `stream-json`.
//!
//! Reads on its own thread, because a blocking read cannot be cancelled. The process does not wait for that thread at
//! exit.

use crate::failure::Failure;
use std::fs::{File, Metadata};
use std::io::{self, BufRead as _, IsTerminal as _, Read};
use std::time::Duration;
use tokio::sync::mpsc;

/// Piped input is cut at this many bytes.
const CAP: u64 = 10 * 1024 * 1024;
/// If there is a prompt on the command line, a pipe without data for this long is ignored. Many callers pass on an open
/// pipe that nobody will ever write to or close.
const PATIENCE: Duration = Duration::from_secs(3);

/// Piped input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PipedInput {
    Nothing,
    Text(String),
    /// Not all bytes were UTF-8. The others became U+FFFD.
    Damaged(String),
    /// The input was longer than the cap; this is its beginning.
    Cut(String),
    /// A pipe is open, but no data arrived.
    Silent,
}

/// Reads stdin to its end. `has_prompt`: there is a task already, so a silent pipe is not waited for.
///
/// # Errors
///
/// Fails if stdin cannot be read.
pub(crate) async fn read_all(has_prompt: bool) -> io::Result<PipedInput> {
    if io::stdin().is_terminal() {
        return Ok(PipedInput::Nothing);
    }
    // A file ends by itself, so no thread is needed.
    if is_file_or_null() {
        return read_piped(io::stdin().lock());
    }
    let (first_sender, mut first) = mpsc::channel(1);
    let (all_sender, mut all) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        let began = stdin.fill_buf().map(|_| ());
        let _ = first_sender.blocking_send(());
        let _ = all_sender.blocking_send(began.and_then(|()| read_piped(stdin)));
    });
    if has_prompt && tokio::time::timeout(PATIENCE, first.recv()).await.is_err() {
        return Ok(PipedInput::Silent);
    }
    all.recv().await.unwrap_or(Ok(PipedInput::Nothing))
}

fn read_piped(reader: impl Read) -> io::Result<PipedInput> {
    let mut bytes = Vec::new();
    reader.take(CAP + 1).read_to_end(&mut bytes)?;
    let cut = bytes.len() as u64 > CAP;
    bytes.truncate(CAP as usize);
    Ok(match String::from_utf8(bytes) {
        Ok(text) if text.is_empty() => PipedInput::Nothing,
        Ok(text) if cut => PipedInput::Cut(text),
        Ok(text) => PipedInput::Text(text),
        Err(error) if cut => PipedInput::Cut(String::from_utf8_lossy(error.as_bytes()).into_owned()),
        Err(error) => PipedInput::Damaged(String::from_utf8_lossy(error.as_bytes()).into_owned()),
    })
}

fn is_file_or_null() -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    metadata().is_some_and(|m| m.is_file() || m.file_type().is_char_device())
}

fn metadata() -> Option<Metadata> {
    use std::os::fd::AsFd as _;
    let fd = io::stdin().as_fd().try_clone_to_owned().ok()?;
    File::from(fd).metadata().ok()
}

/// Fails if stdin is a folder, which a shell gives with `< FOLDER`.
///
/// # Errors
///
/// Returns a failure for the user.
pub(crate) fn refuse_folder() -> Result<(), Failure> {
    if metadata().is_some_and(|meta| meta.is_dir()) {
        return Err(Failure::usage("standard input is a folder")
            .hint("give a file or a pipe (becket -p \"task\" < FILE), or </dev/null"));
    }
    Ok(())
}

/// One line of input, without its line break.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Whole(Vec<u8>),
    /// The line was longer than [`LINE_CAP`]. It was skipped and not kept.
    TooLong,
}

/// Longest line of JSON input in bytes. Images in messages make lines long.
pub(crate) const LINE_CAP: u64 = 64 * 1024 * 1024;

/// Returns the lines of stdin as they arrive. The channel closes at the end of input.
pub(crate) fn lines() -> mpsc::Receiver<Line> {
    let (sender, receiver) = mpsc::channel(64);
    std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        while let Ok(Some(line)) = next_line(&mut stdin, LINE_CAP) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Returns the next line; `None` at the end. Holds at most `cap` bytes of it.
fn next_line(reader: &mut impl io::BufRead, cap: u64) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    if Read::by_ref(reader).take(cap).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') || (line.len() as u64) < cap {
        return Ok(Some(Line::Whole(line)));
    }
    loop {
        let (used, ended) = match reader.fill_buf()? {
            [] => return Ok(Some(Line::TooLong)),
            buffer => match buffer.iter().position(|b| *b == b'\n') {
                Some(at) => (at + 1, true),
                None => (buffer.len(), false),
            },
        };
        reader.consume(used);
        if ended {
            return Ok(Some(Line::TooLong));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_piped_in_is_capped_and_said_so() {
        assert_eq!(read_piped(&b""[..]).unwrap(), PipedInput::Nothing);
        assert_eq!(read_piped(&b"abc\n"[..]).unwrap(), PipedInput::Text("abc\n".into()));
        assert_eq!(read_piped(&b"caf\xe9"[..]).unwrap(), PipedInput::Damaged("caf\u{fffd}".into()));
        let PipedInput::Cut(text) = read_piped(io::repeat(b'x')).unwrap() else { panic!("not cut") };
        assert_eq!(text.len() as u64, CAP);
    }

    #[test]
    fn lines_are_bounded_and_what_follows_a_long_one_is_read() {
        let input = b"ab\n0123456789\n\ncd".to_vec();
        let mut reader = io::BufReader::with_capacity(3, &input[..]);
        let mut got = Vec::new();
        while let Some(line) = next_line(&mut reader, 5).unwrap() {
            got.push(line);
        }
        let whole = |text: &str| Line::Whole(text.as_bytes().to_vec());
        assert_eq!(got, [whole("ab\n"), Line::TooLong, whole("\n"), whole("cd")]);
    }
}
