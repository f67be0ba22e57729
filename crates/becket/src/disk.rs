//! The guard's access to files: names in a folder, and the text of small files.
//!
//! A folder or file that cannot be read completely is an error, never an empty answer. The guard then asks the user.

use becket_guard::Files;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Most bytes of a file. A git configuration that is larger is not an ordinary one.
const MAX_BYTES: u64 = 1 << 20;

/// The file system as it is.
pub(crate) struct Disk;

impl Files for Disk {
    fn entries(&self, dir: &Path) -> io::Result<Vec<(String, bool)>> {
        let mut out = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let name =
                entry.file_name().into_string().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            let kind = entry.file_type()?;
            let folder = kind.is_dir() || (kind.is_symlink() && entry.path().is_dir());
            out.push((name, folder));
        }
        Ok(out)
    }

    fn text(&self, path: &Path) -> io::Result<String> {
        let meta = fs::metadata(path)?;
        if meta.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !meta.is_file() || meta.len() > MAX_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut text = String::new();
        File::open(path)?.take(MAX_BYTES).read_to_string(&mut text)?;
        Ok(text)
    }
}
