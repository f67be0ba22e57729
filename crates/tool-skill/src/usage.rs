//! Record of loaded skills over all sessions: one name per line, newest last.
//!
//! Owns the file's format and size. The counts only order a list, so a missing or unwritable file has no
//! other effect. Knows no skill.

use std::collections::HashMap;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// Only the last bytes of the file are counted, at most this many.
const BYTES: u64 = 64 * 1024;

/// Returns the number of uses by name.
pub(crate) fn counts(file: &Path) -> HashMap<String, usize> {
    let mut out = HashMap::new();
    for name in newest(file).unwrap_or_default().lines().filter(|line| !line.is_empty()) {
        *out.entry(name.to_owned()).or_default() += 1;
    }
    out
}

fn newest(path: &Path) -> std::io::Result<String> {
    let (mut file, meta) = becket_files::open(path)?;
    let from = meta.len().saturating_sub(BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // Reading started in the middle of the file, so the first line may be incomplete.
    Ok(if from == 0 {
        text
    } else {
        text.split_once('\n').map(|(_, rest)| rest.to_owned()).unwrap_or_default()
    })
}

/// Records one use.
pub(crate) fn add(path: &Path, name: &str) {
    // A file that has grown too long is replaced by its newest part.
    if std::fs::metadata(path).is_ok_and(|meta| meta.len() > 4 * BYTES) {
        let _ = newest(path).map(|text| becket_files::private::replace(path, text.as_bytes()));
    }
    // A use that cannot be recorded changes only the order of a list.
    let _ = becket_files::private::append(path, format!("{name}\n").as_bytes());
}
