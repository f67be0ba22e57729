//! Returns a path of the program that this process runs. The path always leads to the same file.
//!
//! If somebody replaces becket's file, the new program would run in place of the helper. The file that this process holds open
//! stays the same.

use crate::sys;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Returns a path of the program that this process runs. It is valid for this process and for those that it starts, because all of
/// them have the file open.
///
/// # Errors
///
/// Fails if the system has no such path.
pub fn running_program() -> io::Result<PathBuf> {
    static KEPT: OnceLock<PathBuf> = OnceLock::new();
    if let Some(kept) = KEPT.get() {
        return Ok(kept.clone());
    }
    let number = sys::keep_open_high(&File::open("/proc/self/exe")?)?;
    Ok(KEPT.get_or_init(|| PathBuf::from(format!("/proc/self/fd/{number}"))).clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_path_leads_other_processes_to_the_program_that_runs() {
        let Ok(path) = running_program() else { return };
        let through_another = Command::new("env").arg(&path).arg("--list").output().unwrap();
        assert!(String::from_utf8_lossy(&through_another.stdout).contains("the_path_leads_other"));
        assert_eq!(running_program().unwrap(), path);
    }
}
