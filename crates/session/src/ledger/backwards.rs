//! Reading a ledger backwards from a position.

use super::line::{self, MAX_LINE};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

const CHUNK: u64 = 1 << 16;

/// True if the first `bytes` of the ledger in `dir` end with a complete, authentic line with this hash. Reads
/// only that line, because the hash covers all earlier lines.
pub(crate) fn has_line_ending(dir: &Path, bytes: u64, hash: &str) -> bool {
    let line = File::open(crate::store::ledger_path(dir)).and_then(|file| line_before(&file, bytes));
    let Ok(Some(line)) = line else { return false };
    line::frame(&line).is_some_and(|framed| framed.hash == hash && framed.is_authentic())
}

/// Returns the line whose newline is the last of the first `end` bytes, without that newline. `None` if there is no such line, or if it is
/// longer than [`MAX_LINE`].
fn line_before(mut file: &File, end: u64) -> io::Result<Option<Vec<u8>>> {
    if end == 0 || file.metadata()?.len() < end {
        return Ok(None);
    }
    let mut line = Vec::new();
    let mut start = end;
    loop {
        let from = start.saturating_sub(CHUNK);
        file.seek(SeekFrom::Start(from))?;
        let mut chunk = vec![0; (start - from) as usize];
        file.read_exact(&mut chunk)?;
        if start == end && chunk.pop() != Some(b'\n') {
            return Ok(None);
        }
        let newline = chunk.iter().rposition(|byte| *byte == b'\n');
        let text = chunk.split_off(newline.map_or(0, |at| at + 1));
        line.splice(0..0, text);
        if newline.is_some() || from == 0 {
            return Ok(Some(line));
        }
        if line.len() > MAX_LINE {
            return Ok(None);
        }
        start = from;
    }
}
