//! Owns the format of a line that contains a blob, in an export of the kind [`Format::Whole`](super::Format), and writes these lines.
//!
//! Import reads them back: see [`import_own`](crate::import::import_own).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use becket_session::store::BLOBS;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;

/// Start of a line with a blob.
pub(crate) const BLOB: &[u8] = b"{\"blob\":\"";

/// A blob as a line of an export.
#[derive(Serialize, Deserialize)]
pub(crate) struct BlobLine {
    pub blob: String,
    pub zstd: String,
}

/// Writes all blobs of a session as lines, sorted by id. `without_secrets`: blobs with a secret are left out,
/// because masking would change their id. Returns the number of these secrets.
pub(crate) fn write_blobs(
    session_dir: &Path,
    without_secrets: bool,
    out: &mut dyn io::Write,
) -> io::Result<usize> {
    let mut left_out = 0;
    let dir = session_dir.join(BLOBS);
    let mut names: Vec<String> = match fs::read_dir(&dir) {
        Ok(entries) => entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(e),
    };
    names.sort_unstable();
    for name in names {
        let Some(blob) = name.strip_suffix(".zst") else { continue };
        let packed = fs::read(dir.join(&name))?;
        let secrets = if without_secrets { secrets_in(&packed) } else { 0 };
        if secrets > 0 {
            left_out += secrets;
            continue;
        }
        let line = BlobLine { blob: blob.to_owned(), zstd: STANDARD.encode(packed) };
        serde_json::to_writer(&mut *out, &line)?;
        out.write_all(b"\n")?;
    }
    Ok(left_out)
}

/// Returns the number of secrets in a blob; 0 if it is not text.
fn secrets_in(packed: &[u8]) -> usize {
    let bytes = zstd::stream::decode_all(packed).unwrap_or_default();
    std::str::from_utf8(&bytes).map_or(0, |text| becket_session::secrets::find(text).len())
}
