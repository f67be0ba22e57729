//! `--debug-file`: everything that becket prints, in one file beside standard output and standard error.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// A writer that copies everything into a file.
pub(super) struct Copied {
    to: Box<dyn Write + Send>,
    file: Option<File>,
}

impl Write for Copied {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        // A full disk must not end the run.
        self.file = self.file.take().filter(|mut file| file.write_all(&bytes[..written]).is_ok());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Returns the writers for lines and for notes. With a file, both are copied to its end; a file that cannot be opened is named.
pub(super) fn writers(path: Option<&Path>) -> (Box<dyn Write + Send>, Box<dyn Write + Send>) {
    let (out, notes): (Box<dyn Write + Send>, Box<dyn Write + Send>) =
        (Box::new(io::stdout()), Box::new(io::stderr()));
    let Some(path) = path else { return (out, notes) };
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    match file.and_then(|file| Ok((file.try_clone()?, file))) {
        Ok((one, two)) => {
            (Box::new(Copied { to: out, file: Some(one) }), Box::new(Copied { to: notes, file: Some(two) }))
        }
        Err(error) => {
            super::note(&format!("--debug-file {}: {error}", path.display()));
            (out, notes)
        }
    }
}
