//! Commands with the proxy: what they reach, and that there is no other way out.

use crate::ground::{DONE, Ground};
use becket_sandbox::{Backend, BackendKind, Network};
use becket_types::SandboxLevel::{self, ReadOnly, Workspace};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

/// A host outside that greets each connection. Gives its port.
fn greeter() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nhello from outside\n");
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    port
}

fn ground() -> Option<(Ground, u16)> {
    let good = greeter();
    let ground =
        Ground::with_network(Some(BackendKind::Bubblewrap), Network::Proxy, &[format!("127.0.0.1:{good}")]);
    match ground.sandbox.backend(Workspace) {
        Backend::None { why } => {
            println!("skipped: {why}");
            None
        }
        _ => Some((ground, good)),
    }
}

/// Opens descriptor 3 to the proxy and asks it for `$1`; prints the rest of the answer.
const THROUGH: &str = r#"through() {
    exec 3<>/dev/tcp/127.0.0.1/${HTTPS_PROXY##*:} || return
    printf 'CONNECT %s HTTP/1.1\r\n\r\n' "$1" >&3
    cat <&3
}
"#;

#[test]
fn an_allowed_host_is_reached_through_the_proxy() {
    let Some((ground, good)) = ground() else { return };
    let script = format!("{THROUGH} through 127.0.0.1:{good}");
    let output = ground.run(Workspace, &script);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("HTTP/1.1 200 ") && text.contains("hello from outside"), "{output:?}");
    // Programs that know proxies, such as curl, find the proxy in the environment.
    let output = ground.run(
        Workspace,
        &format!("command -v curl > /dev/null || {{ echo hello from outside; exit; }}; curl -sS --noproxy '' http://127.0.0.1:{good}/; curl -sS --noproxy '' -p http://127.0.0.1:{good}/; curl -sS --noproxy '' -x \"$ALL_PROXY\" http://127.0.0.1:{good}/"),
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("hello from outside"), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn there_is_no_other_way_out() {
    let Some((mut ground, good)) = ground() else { return };
    for script in [
        "exec 3<>/dev/tcp/127.0.0.1/$V4",
        "exec 3<>/dev/tcp/::1/$V6",
        &format!("exec 3<>/dev/tcp/127.0.0.1/{good}"),
        "python3 -c 'import socket,os; s=socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b\"x\", (\"127.0.0.1\", int(os.environ[\"UDP\"]))); exit(1)'",
        "python3 -c 'import socket,os; s=socket.socket(socket.AF_UNIX); s.connect(os.environ[\"OUT\"]+\"/sock\")'",
        "python3 -c 'import socket,glob; s=socket.socket(socket.AF_UNIX); s.connect(glob.glob(\"/**/becket-proxy-*/socket\")[0])'",
        "unshare -n true",
        "nsenter -t 1 -n true",
        "nsenter -t $VICTIM -n true",
        "through 127.0.0.1:$V4 | grep ' 200 '",
        "through localhost:$V4 | grep ' 200 '",
        "through 0x7f.1:$V4 | grep ' 200 '",
        "through 127.1:$V4 | grep ' 200 '",
        "through 2130706433:$V4 | grep ' 200 '",
        "through [::1]:$V6 | grep ' 200 '",
        "through [::ffff:127.0.0.1]:$V4 | grep ' 200 '",
        "through 169.254.169.254:80 | grep ' 200 '",
        &format!("through 127.0.0.1:$V4@127.0.0.1:{good} | grep ' 200 '"),
    ] {
        let output = ground.run(Workspace, &format!("{THROUGH} {script} && echo {DONE}"));
        assert!(!String::from_utf8_lossy(&output.stdout).contains(DONE), "{script}: {output:?}");
        assert!(!ground.was_reached(), "{script}: reached a listener");
        assert!(ground.victim_lives(), "{script}");
    }
}

#[test]
fn a_command_with_the_proxy_has_a_network_of_its_own() {
    let Some((ground, _)) = ground() else { return };
    let script = "python3 -c 'import socket as s; l=s.create_server((\"127.0.0.1\",0)); c=s.create_connection(l.getsockname()); \
                  a,_=l.accept(); c.send(b\"own server\"); print(a.recv(20).decode())'; echo $NO_PROXY";
    let output = ground.run(Workspace, script);
    // `NO_PROXY` is empty: the user allows an address of this machine, so clients must ask the proxy for it, too.
    assert_eq!(String::from_utf8_lossy(&output.stdout), "own server\n\n", "{output:?}");
    let output = ground.run(ReadOnly, "exec 3<>/dev/tcp/127.0.0.1/$V4; echo \"[$HTTPS_PROXY]\"");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "[]\n", "the read-only level has no network");
}

#[test]
fn landlock_cannot_tell_the_proxy_from_other_hosts_and_gives_no_network() {
    let ground = Ground::with_network(Some(BackendKind::Landlock), Network::Proxy, &["*".to_owned()]);
    if let Backend::None { why } = ground.sandbox.backend(SandboxLevel::Workspace) {
        println!("skipped: {why}");
        return;
    }
    assert_eq!(ground.sandbox.policy(Workspace).unwrap().network, Network::Off);
    let output = ground.run(Workspace, &format!("exec 3<>/dev/tcp/127.0.0.1/$V4 && echo {DONE}"));
    assert!(!String::from_utf8_lossy(&output.stdout).contains(DONE));
    assert!(!ground.was_reached());
}
