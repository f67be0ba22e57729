//! Selects how the program is linked, if this machine's loader and linker allow it. Does nothing else, and never fails.
//!
//! A position-independent program of this size has about 90,000 pointers that the loader adjusts at each start. In
//! packed form (DT_RELR) their table takes about 40 kB instead of 2.2 MB, which every becket and every guardian of its
//! terminal would read whole. Loaders of glibc before 2.36 do not know the packed form. So it is requested only if the
//! program is built for the machine it is built on, and that machine has such a loader.
//!
//! In a release build, the functions that a session runs lie together. They are spread over 29 MB otherwise, and the kernel
//! maps 64 kB around each of them that is used. `session-functions.txt` names them (`benches/layout.py` writes it). A name that
//! the program does not have is without effect.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const FUNCTIONS: &str = "session-functions.txt";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={FUNCTIONS}");
    if !is_for_this_linux() {
        return;
    }
    // A linker that does not know the option may write the packed form without the version that the loader asks for.
    let packed = ["-Wl,-z,pack-relative-relocs".to_owned()];
    if glibc().is_some_and(|version| version >= (2, 36))
        && linked(&packed)
            .is_some_and(|program| Command::new(program).status().is_ok_and(|status| status.success()))
    {
        println!("cargo::rustc-link-arg-bins={}", packed[0]);
    }
    if env::var("PROFILE").is_ok_and(|profile| profile == "release")
        && let Some(script) = linker_script()
    {
        // Some linkers do not know such scripts.
        let arguments = ["-Xlinker", "-T", "-Xlinker", &script.display().to_string()].map(str::to_owned);
        if linked(&arguments).is_some() {
            for argument in &arguments {
                println!("cargo::rustc-link-arg-bins={argument}");
            }
        }
    }
}

fn is_for_this_linux() -> bool {
    let var = |name| env::var(name).unwrap_or_default();
    var("HOST") == var("TARGET")
        && var("CARGO_CFG_TARGET_OS") == "linux"
        && var("CARGO_CFG_TARGET_ENV") == "gnu"
}

/// Returns the version of this machine's C library.
fn glibc() -> Option<(u32, u32)> {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}

/// Writes the script that puts the listed functions before all others. Returns its path.
fn linker_script() -> Option<PathBuf> {
    let names = fs::read_to_string(FUNCTIONS).ok()?;
    // A line that begins with `#` opens a group. One rule for each group: with a rule for each name, the linker would go through
    // all functions as often as there are names.
    let mut rules = String::new();
    for group in names.split("# ").filter(|group| !group.is_empty()) {
        let sections: Vec<String> = group.lines().skip(1).map(|name| format!(".text.{name}")).collect();
        let _ = writeln!(rules, "*(\n{}\n)", sections.join("\n"));
    }
    let script = PathBuf::from(env::var_os("OUT_DIR")?).join("functions.ld");
    let text = format!("SECTIONS {{ .text.session : {{ {rules} }} }} INSERT BEFORE .text;\n");
    fs::write(&script, text).ok()?;
    Some(script)
}

/// Returns an empty program that the linker of this build made with these arguments; `None` if it does not take them.
fn linked(arguments: &[String]) -> Option<PathBuf> {
    let (rustc, out) = (env::var_os("RUSTC")?, env::var_os("OUT_DIR").map(PathBuf::from)?);
    let source = out.join("probe.rs");
    fs::write(&source, "fn main() {}\n").ok()?;
    let mut command = Command::new(rustc);
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    command.args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()));
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut argument = OsString::from("linker=");
        argument.push(linker);
        command.arg("-C").arg(argument);
    }
    for argument in arguments {
        command.arg("-C").arg(format!("link-arg={argument}"));
    }
    let program = out.join("probe");
    command.arg("-o").arg(&program).arg(source);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success()).then_some(program)
}
