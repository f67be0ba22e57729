//! Record of the skills that were loaded, over all sessions: one name a line, newest last.
//!
//! Owns the file's form and bounds. A count only orders a list, so a file that is missing or cannot be written changes
//! nothing else. Knows no skill.

use std::collections::HashMap;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

/// Only the newest uses count.
const BYTES: u64 = 64 * 1024;

/// Uses by name.
pub(crate) fn counts(file: &Path) -> HashMap<String, usize> {
    let mut out = HashMap::new();
    for name in newest(file).unwrap_or_default().lines().filter(|line| !line.is_empty()) {
        *out.entry(name.to_owned()).or_default() += 1;
    }
    out
}

fn newest(path: &Path) -> std::io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let from = file.metadata()?.len().saturating_sub(BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // The first line may be a part of one.
    Ok(if from == 0 {
        text
    } else {
        text.split_once('\n').map(|(_, rest)| rest.to_owned()).unwrap_or_default()
    })
}

/// Adds one use.
pub(crate) fn add(path: &Path, name: &str) {
    if let Some(dir) = path.parent() {
        let _ = std::fs::create_dir_all(dir);
    }
    // A long file is begun again with its newest part.
    if std::fs::metadata(path).is_ok_and(|meta| meta.len() > 4 * BYTES) {
        let _ = newest(path).map(|text| std::fs::write(path, text));
    }
    if let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(path) {
        let _ = file.write_all(format!("{name}\n").as_bytes());
    }
}
