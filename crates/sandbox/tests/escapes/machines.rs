//! The same attacks on other machines: kernels without Landlock, without namespaces of users, without both, and as a user who
//! is not root. Each runs this program again under a filter that makes the calls fail as they fail there.

use crate::ground::{Ground, HELPER, program};
use becket_sandbox::BackendKind::{Bubblewrap, Landlock};
use becket_sandbox::{Backend, BackendKind};
use becket_types::SandboxLevel;
use rustix::process::geteuid;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Files of this folder that run again.
const AGAIN: [&str; 4] = ["attacks::", "limits::", "network::", "programs::"];

fn works(kind: BackendKind) -> bool {
    Ground::new(Some(kind)).sandbox.backend(SandboxLevel::Workspace).works()
}

/// Runs the attacks on a machine that lacks what is listed. Returns what they printed.
fn attacked_without(lacking: &str) -> String {
    // `nobody` may not read the folder in which this program was built, so the programs are copied.
    let dir = tempfile::Builder::new().prefix("machine-").tempdir().unwrap();
    let open = |path: &Path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    open(dir.path());
    let place = |name: &str, from: &Path| {
        let to = dir.path().join(name);
        std::fs::copy(from, &to).unwrap();
        open(&to);
        to
    };
    let (helper, again) = (place("helper", &program()), place("again", &std::env::current_exe().unwrap()));
    for name in ["home", "temp"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
        open(&dir.path().join(name));
    }
    let output = Command::new(&helper)
        .args(["without", lacking])
        .arg(again)
        .args(AGAIN)
        .args(["--nocapture", "--test-threads=2"])
        .env(HELPER, &helper)
        .env("HOME", dir.path().join("home"))
        .env("TMPDIR", dir.path().join("temp"))
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
    assert!(output.status.success(), "without {lacking}:\n{stdout}\n{stderr}");
    assert!(stdout.contains("test result: ok."), "without {lacking}:\n{stdout}\n{stderr}");
    stdout
}

fn is_skipped(printed: &str, kind: BackendKind) -> bool {
    printed.contains(&format!("skipped for {kind:?}: "))
}

#[test]
fn a_kernel_without_landlock_confines_with_bubblewrap() {
    let printed = attacked_without("landlock");
    assert!(printed.contains("skipped for Landlock: the kernel does not offer Landlock"), "{printed}");
    assert_eq!(is_skipped(&printed, Bubblewrap), !works(Bubblewrap), "{printed}");
}

#[test]
fn a_kernel_without_namespaces_of_users_confines_with_landlock() {
    let printed = attacked_without("namespaces,root");
    assert!(is_skipped(&printed, Bubblewrap), "{printed}");
    assert_eq!(is_skipped(&printed, Landlock), !works(Landlock), "{printed}");
}

#[test]
fn without_both_it_is_said_in_one_line_and_nothing_runs() {
    let printed = attacked_without("landlock,namespaces,root");
    for kind in [Bubblewrap, Landlock] {
        assert!(is_skipped(&printed, kind), "{printed}");
    }
    let why = printed.lines().find_map(|line| line.split_once("skipped for Bubblewrap: ")).unwrap().1;
    assert!(why.starts_with("bubblewrap") && why.len() < 200, "{why}");
}

#[test]
fn a_user_who_is_not_root_is_confined_as_well() {
    if !geteuid().is_root() {
        println!("skipped: all other tests run as a user who is not root");
        return;
    }
    let printed = attacked_without("root");
    assert_eq!(is_skipped(&printed, Landlock), !works(Landlock), "{printed}");
    // Some distributions let only root and programs that they name make namespaces of users.
    let restricted = std::fs::read_to_string("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
        .is_ok_and(|text| text.trim() == "1");
    if !restricted {
        assert_eq!(is_skipped(&printed, Bubblewrap), !works(Bubblewrap), "{printed}");
    }
}

/// The line that `becket sandbox` and `/status` show.
#[test]
fn a_backend_is_named_in_one_line() {
    for backend in [Backend::Landlock { abi: 7 }, Ground::new(None).sandbox.backends().workspace.clone()] {
        let line = backend.to_string();
        assert!(!line.is_empty() && !line.contains('\n'), "{line:?}");
    }
}
