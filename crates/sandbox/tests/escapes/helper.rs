//! The helper as a program of its own, for the tests: they confine commands with it as becket does with itself.

use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words = std::env::args_os().skip(2);
    let (code, message) = becket_sandbox::helper::run(words);
    let _ = writeln!(std::io::stderr(), "{message}");
    ExitCode::from(code)
}
