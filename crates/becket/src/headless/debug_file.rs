//! `--debug-file`: everything that becket prints, in one file beside standard output and standard error.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Writes to `to`, and copies everything into a file.
pub(super) struct TeeWriter {
    to: Box<dyn Write + Send>,
    file: Option<File>,
}

impl Write for TeeWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        // If the file cannot be written, for example on a full disk, copying stops and the run continues.
        self.file = self.file.take().filter(|mut file| file.write_all(&bytes[..written]).is_ok());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// The writers for lines and for notes.
pub(super) type Writers = (Box<dyn Write + Send>, Box<dyn Write + Send>);

/// Returns the writers, and the reason why the file cannot be used. With a file, the output of both is also appended to it.
pub(super) fn writers(path: Option<&Path>) -> (Writers, Option<String>) {
    let (out, notes): Writers = (Box::new(io::stdout()), Box::new(io::stderr()));
    let Some(path) = path else { return ((out, notes), None) };
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    match file.and_then(|file| Ok((file.try_clone()?, file))) {
        Ok((one, two)) => {
            let copied = |to, file| Box::new(TeeWriter { to, file: Some(file) });
            ((copied(out, one), copied(notes, two)), None)
        }
        Err(error) => ((out, notes), Some(format!("--debug-file {}: {error}", path.display()))),
    }
}
