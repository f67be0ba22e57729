//! Local services: a command reaches the sockets that the user names, and no other. And the self-test of each backend.

use crate::ground::grounds;
use crate::limits::sandbox_with;
use becket_sandbox::{Backend, BackendKind, Network, PolicyInputs, Sandbox, SandboxSettings};
use becket_types::SandboxLevel::{ReadOnly, Workspace};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::Path;

/// Connects to each path or name that it gets, and prints those that it reached.
const CONNECT: &str = "import socket,sys
for name in sys.argv[1:]:
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
        try:
            s = socket.socket(socket.AF_UNIX, kind)
            s.connect(chr(0) + name[1:] if name.startswith('@') else name)
            print('reached', name)
        except OSError:
            pass
";

fn listener(path: &Path) -> UnixListener {
    let listener = UnixListener::bind(path).unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

fn reached(listener: &UnixListener) -> bool {
    let any = listener.accept().is_ok();
    while listener.accept().is_ok() {}
    any
}

#[test]
fn a_command_reaches_the_services_that_the_user_names_and_no_other() {
    for (kind, ground) in grounds() {
        let base = &ground.base;
        let (allowed, other) = (base.join("outside/allowed"), base.join("outside/other"));
        let (inside, hidden) = (base.join("ws/service"), base.join("home/.ssh/agent"));
        let all = [&allowed, &other, &inside, &hidden].map(|path| listener(path));
        let datagrams = base.join("outside/datagrams");
        let datagrams = (UnixDatagram::bind(&datagrams).unwrap(), datagrams);
        datagrams.0.set_nonblocking(true).unwrap();
        let name = format!("becket-test-{}", base.file_name().unwrap().display());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let abstract_one = UnixListener::bind_addr(&address).unwrap();
        abstract_one.set_nonblocking(true).unwrap();
        // Only root can make the folder of a service there.
        let run = tempfile::Builder::new().prefix("becket-test-").tempdir_in("/run").ok();
        let run = run.as_ref().map(|dir| dir.path().join("socket"));
        let service = run.as_ref().map(|path| listener(path));
        std::fs::write(base.join("ws/connect.py"), CONNECT).unwrap();
        let mut names: Vec<String> = [&allowed, &other, &inside, &hidden, &datagrams.1]
            .into_iter()
            .chain(&run)
            .map(|path| format!("'{}'", path.display()))
            .collect();
        names.push(format!("@{name}"));
        let script = format!("python3 connect.py {}", names.join(" "));
        for network in [Network::Off, Network::Full] {
            let sandbox = sandbox_with(
                &ground,
                kind,
                |inputs| {
                    inputs.unix_sockets = vec![allowed.clone()];
                    inputs.secrets = vec![base.join("home/.ssh")];
                    inputs.network = network;
                },
                Vec::new(),
            );
            let run_at = |sandbox: &Sandbox, level| {
                let confined = sandbox.confine(level, None).unwrap();
                // Sockets of other tests come and go. If one disappears while the command starts, it cannot be hidden, and the start fails.
                let mut tries = 0;
                loop {
                    let output = ground.run_after(&confined.words, &[], &script);
                    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
                    let is_gone =
                        errors.starts_with("bwrap: ") || errors.contains("was replaced in this moment");
                    if !is_gone || tries == 20 {
                        break String::from_utf8_lossy(&output.stdout).into_owned() + &errors;
                    }
                    tries += 1;
                }
            };
            // Landlock cannot tell sockets apart, so it allows none.
            let may = kind == BackendKind::Bubblewrap;
            let printed = run_at(&sandbox, Workspace);
            let want = if may { format!("reached {}\n", allowed.display()) } else { String::new() };
            assert_eq!(printed, want, "{kind:?} {network:?}");
            assert_eq!(reached(&all[0]), may, "{kind:?} {network:?}");
            assert_eq!(sandbox.policy(Workspace).unwrap().unix_sockets.is_empty(), !may);
            assert_eq!(run_at(&sandbox, ReadOnly), "", "{kind:?} {network:?}: read-only");
            let others = all[1..].iter().chain([&abstract_one]).chain(&service);
            for (number, one) in others.chain([&all[0]]).enumerate() {
                assert!(!reached(one), "{kind:?} {network:?}: service {number}");
            }
            assert!(datagrams.0.recv(&mut [0; 1]).is_err());
        }
        // If no service is named, commands reach none, even those that this test started.
        let output = ground.run(Workspace, &script);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{kind:?}");
    }
}

/// A visible part of a hidden folder does not make the folder writable.
#[test]
fn the_folder_of_services_is_empty_and_read_only() {
    for (kind, ground) in grounds().into_iter().filter(|(kind, _)| *kind == BackendKind::Bubblewrap) {
        let allowed = ground.base.join("outside/allowed");
        let _listener = listener(&allowed);
        let sandbox =
            sandbox_with(&ground, kind, |inputs| inputs.unix_sockets = vec![allowed.clone()], Vec::new());
        let confined = sandbox.confine(Workspace, None).unwrap();
        let script = "ls /run; echo x > /run/new && echo wrote; ls -d \"$OUT\" a.txt; cat a.txt";
        let output = ground.run_after(&confined.words, &[], script);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(!text.contains("wrote") && text.contains("hello from the workspace"), "{output:?}");
        // The file with the name servers may be there, on machines that keep it below `/run`.
        assert!(text.lines().take_while(|line| !line.starts_with('/')).count() <= 2, "{output:?}");
    }
}

#[test]
fn twenty_forbidden_actions_are_tried_before_the_first_command() {
    for (kind, ground) in grounds() {
        let test = ground.sandbox.self_test(Workspace).unwrap();
        println!("{kind:?}: {} actions in {:?}", test.forbidden, test.took);
        assert!(test.forbidden >= 20, "{kind:?}: {test:?}");
    }
}

/// The test is worth something only if each of its actions succeeds where nothing confines it.
#[test]
fn a_helper_that_confines_nothing_fails_the_self_test_with_every_action() {
    let dir = tempfile::tempdir().unwrap();
    let helper = dir.path().join("helper");
    // The script drops the arguments of the confinement and starts the program unconfined.
    let script = format!(
        "#!/bin/sh\n[ \"$2\" = probe ] || shift 3\nexec '{}' \"$@\"\n",
        crate::ground::program().display()
    );
    std::fs::write(&helper, script).unwrap();
    std::fs::set_permissions(&helper, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let inputs = PolicyInputs { roots: vec![dir.path().to_path_buf()], ..PolicyInputs::default() };
    let sandbox = Sandbox::new(SandboxSettings {
        program: helper,
        inputs,
        find_secrets: std::sync::Arc::new(|_| Vec::new()),
        refresh: None,
        search: Vec::new(),
        temp: vec![dir.path().to_path_buf()],
        only: Some(BackendKind::Landlock),
        hosts: becket_network::HostRules::default(),
    });
    let Backend::None { why } = sandbox.backend(Workspace) else { panic!("it passed") };
    if !why.contains("a command could ") {
        println!("skipped: {why}");
        return;
    }
    assert_eq!(sandbox.self_test(Workspace), None);
    for action in [
        "change a file outside",
        "empty a file outside",
        "make a file outside",
        "make a folder outside",
        "remove a file outside",
        "move a file in from outside",
        "move a file out",
        "through a hard link",
        "through a symbolic link",
        "read a hidden file",
        "read a hidden file through a link",
        "read a hidden file through /proc",
        "change a protected file",
        "remove a protected file",
        "move the folder of a protected file away",
        "over IPv4",
        "send a datagram",
        "through a socket in the file system",
        "through an abstract socket",
        "send a signal",
    ] {
        assert!(why.contains(action), "{action}: {why}");
    }
    if rustix::process::geteuid().is_root() {
        for action in ["open the memory", "take an open file", "make a device", "change its root folder"] {
            assert!(why.contains(action), "{action}: {why}");
        }
    }
}
