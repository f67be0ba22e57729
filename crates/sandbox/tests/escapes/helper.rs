//! The helper as a program of its own, for the tests: they confine commands with it as becket does with itself.
//!
//! `without LIST PROGRAM ARGUMENTS…` runs a program as on a machine that lacks something: `landlock`, `namespaces` (of users),
//! `signals` (none can be sent), or `root` (the program runs as another user).

use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == "without") {
        let list = words.next().unwrap_or_default();
        let error = lacking::run(&list.to_string_lossy(), words);
        let _ = writeln!(std::io::stderr(), "{error}");
        return ExitCode::from(125);
    }
    let (code, message) = becket_sandbox::helper::run(words);
    let _ = writeln!(std::io::stderr(), "{message}");
    ExitCode::from(code)
}

#[cfg(not(target_os = "linux"))]
mod lacking {
    pub(crate) fn run(_: &str, _: impl Iterator<Item = std::ffi::OsString>) -> std::io::Error {
        std::io::ErrorKind::Unsupported.into()
    }
}

#[cfg(target_os = "linux")]
mod lacking {
    use seccompiler::{
        BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
        SeccompFilter, SeccompRule,
    };
    use std::ffi::OsString;
    use std::io;
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    /// Calls that send a signal.
    const SIGNALS: &[i64] = &[
        libc::SYS_kill,
        libc::SYS_tkill,
        libc::SYS_tgkill,
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_rt_tgsigqueueinfo,
        libc::SYS_pidfd_send_signal,
    ];

    /// The user and group `nobody`.
    const NOBODY: u32 = 65_534;

    /// Replaces this process by the program. Returns only if that fails, with the error.
    pub(crate) fn run(list: &str, mut words: impl Iterator<Item = OsString>) -> io::Error {
        let Some(program) = words.next() else { return io::ErrorKind::InvalidInput.into() };
        let mut command = Command::new(program);
        command.args(words);
        for lacking in list.split(',') {
            let result = match lacking {
                "landlock" => fail(&[libc::SYS_landlock_create_ruleset], Vec::new(), libc::ENOSYS),
                "signals" => fail(SIGNALS, Vec::new(), libc::EPERM),
                "namespaces" => fail(&[libc::SYS_clone3], Vec::new(), libc::ENOSYS).and_then(|()| {
                    let user = libc::CLONE_NEWUSER as u64;
                    let condition =
                        SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(user), user);
                    let rule = condition.and_then(|condition| SeccompRule::new(vec![condition]));
                    let rule = rule.map_err(other)?;
                    fail(&[libc::SYS_clone, libc::SYS_unshare], vec![rule], libc::EPERM)
                }),
                // A user who is not root has no rights to give up, and may not change the group.
                "root" if !rustix::process::geteuid().is_root() => Ok(()),
                "root" => {
                    command.uid(NOBODY).gid(NOBODY);
                    Ok(())
                }
                _ => Err(io::ErrorKind::InvalidInput.into()),
            };
            if let Err(error) = result {
                return error;
            }
        }
        command.exec()
    }

    /// From now on these calls fail where the rules match, in this process and in all that it starts.
    fn fail(calls: &[i64], rules: Vec<SeccompRule>, error: i32) -> io::Result<()> {
        let calls = calls.iter().map(|call| (*call, rules.clone())).collect();
        let arch = std::env::consts::ARCH.try_into().map_err(other)?;
        let answer = SeccompAction::Errno(error.cast_unsigned());
        let filter = SeccompFilter::new(calls, SeccompAction::Allow, answer, arch).map_err(other)?;
        let program: BpfProgram = filter.try_into().map_err(other)?;
        seccompiler::apply_filter(&program).map_err(|e| io::Error::other(e.to_string()))
    }

    fn other(error: BackendError) -> io::Error {
        io::Error::other(error.to_string())
    }
}
