//! The proxy with real connections: what reaches a host, what does not, and how long.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use becket_network::{HostRules, Lookup, Pass, Proxy, enter, system_lookup};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A host that answers each connection with what it read up to an empty line, and then with everything that follows.
struct Echo {
    port: u16,
    reached: Arc<AtomicUsize>,
}

fn echo() -> Echo {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let reached = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&reached);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            count.fetch_add(1, Ordering::SeqCst);
            std::thread::spawn(move || {
                let mut stream = stream.unwrap();
                let mut bytes = [0; 4096];
                while let Ok(count) = stream.read(&mut bytes) {
                    if count == 0 || stream.write_all(&bytes[..count]).is_err() {
                        break;
                    }
                }
            });
        }
    });
    Echo { port, reached }
}

fn start(allow: &[String], lookup: Lookup) -> (Proxy, Pass, u16) {
    let rules = HostRules::new(allow, &[]).unwrap();
    let proxy = Proxy::start(rules, lookup, &std::env::temp_dir()).unwrap();
    let pass = proxy.pass();
    let (socket, number) = pass.socket();
    let port = enter(socket, number).unwrap();
    (proxy, pass, port)
}

fn client(port: u16) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Sends, and reads until the answer holds `until` or the connection ends.
fn say(stream: &mut TcpStream, bytes: &[u8], until: &str) -> String {
    stream.write_all(bytes).unwrap();
    let mut got = Vec::new();
    let mut some = [0; 1024];
    while !String::from_utf8_lossy(&got).contains(until) {
        match stream.read(&mut some) {
            Ok(0) => break,
            Ok(count) => got.extend_from_slice(&some[..count]),
            Err(error) => panic!("{error}: {}", String::from_utf8_lossy(&got)),
        }
    }
    String::from_utf8_lossy(&got).into_owned()
}

fn connect(host: &str) -> Vec<u8> {
    format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes()
}

/// Answers with each of `addresses` in turn.
fn changing(addresses: Vec<[u8; 4]>) -> (Lookup, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let lookup: Lookup = Arc::new(move |_| {
        let now = addresses[count.fetch_add(1, Ordering::SeqCst) % addresses.len()];
        Box::pin(async move { Ok(vec![IpAddr::from(now)]) })
    });
    (lookup, asked)
}

#[test]
fn an_allowed_host_is_reached_in_each_way() {
    let host = echo();
    let (_proxy, pass, port) = start(&[format!("127.0.0.1:{}", host.port)], system_lookup());
    let address = format!("127.0.0.1:{}", host.port);

    let mut tunnel = client(port);
    assert!(say(&mut tunnel, &connect(&address), "\r\n\r\n").starts_with("HTTP/1.1 200 "));
    assert_eq!(say(&mut tunnel, b"hello", "hello"), "hello");

    // Bytes that the client sends together with its `CONNECT` request arrive, too.
    let mut eager = client(port);
    let answer = say(&mut eager, &[connect(&address), b"early".to_vec()].concat(), "early");
    assert!(answer.ends_with("\r\n\r\nearly"), "{answer}");

    let mut plain = client(port);
    let request = format!("POST http://{address}/a HTTP/1.1\r\nHost: other\r\nContent-Length: 2\r\n\r\nhi");
    let seen = say(&mut plain, request.as_bytes(), "hi");
    assert!(seen.starts_with(&format!("POST /a HTTP/1.1\r\nHost: {address}\r\n")), "{seen}");

    let mut socks = client(port);
    let wish = [&[5, 1, 0, 1, 127, 0, 0, 1][..], &host.port.to_be_bytes()].concat();
    socks.write_all(&[5, 1, 0]).unwrap();
    let mut answer = [0; 2];
    socks.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [5, 0]);
    socks.write_all(&wish).unwrap();
    let mut answer = [0; 10];
    socks.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..2], [5, 0]);
    assert_eq!(say(&mut socks, b"through socks", "through socks"), "through socks");
    assert_eq!(pass.refusals(), Vec::<String>::new());
}

#[test]
fn what_is_not_allowed_is_refused_noted_and_never_looked_up() {
    let host = echo();
    let (lookup, asked) = changing(vec![[127, 0, 0, 1]]);
    let (_proxy, pass, port) = start(&["docs.rs".to_owned()], lookup);
    for wish in [format!("127.0.0.1:{}", host.port), "evil.example:443".to_owned(), "docs.rs:22".to_owned()] {
        let answer = say(&mut client(port), &connect(&wish), "refused");
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains(&wish), "{answer}");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0, "a name that is not allowed tells a name server nothing");
    let plain = "GET http://evil.example/?secret HTTP/1.1\r\nHost: docs.rs\r\n\r\n";
    assert!(say(&mut client(port), plain.as_bytes(), "refused").starts_with("HTTP/1.1 403 "));
    let mut socks = client(port);
    socks.write_all(b"\x05\x01\x00\x05\x01\x00\x03\x04evil\x01\xbb").unwrap();
    let mut answer = [0; 4];
    socks.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [5, 0, 5, 2]);
    assert_eq!(host.reached.load(Ordering::SeqCst), 0);
    assert_eq!(
        pass.refusals(),
        [
            format!("127.0.0.1:{}: it is not in sandbox.allow_hosts", host.port),
            "docs.rs:22: sandbox.allow_hosts names it without port 22".to_owned(),
            "evil.example:443: it is not in sandbox.allow_hosts".to_owned(),
            "evil.example:80: it is not in sandbox.allow_hosts".to_owned(),
            "evil:443: it is not in sandbox.allow_hosts".to_owned(),
        ]
    );
}

#[test]
fn a_name_that_changes_its_address_reaches_nothing_local() {
    let host = echo();
    let name = format!("docs.example:{}", host.port);
    // The proxy looks the name up once, and judges and uses that answer. A second look-up would give this machine.
    let (lookup, asked) = changing(vec![[192, 0, 2, 1], [127, 0, 0, 1]]);
    let (_proxy, _pass, port) = start(std::slice::from_ref(&name), lookup);
    let answer = say(&mut client(port), &connect(&name), "\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 403 "), "a reserved address: {answer}");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let answer = say(&mut client(port), &connect(&name), "refused");
    assert!(answer.contains("127.0.0.1 is a loopback address"), "{answer}");
    assert_eq!(host.reached.load(Ordering::SeqCst), 0);

    // If the rules name the address as well, the name is reached.
    let (lookup, _) = changing(vec![[127, 0, 0, 1]]);
    let (_proxy, _pass, port) = start(&[name.clone(), "127.0.0.0/8".to_owned()], lookup);
    assert!(say(&mut client(port), &connect(&name), "\r\n\r\n").starts_with("HTTP/1.1 200 "));
}

#[test]
fn connections_end_with_the_pass() {
    let host = echo();
    let (proxy, pass, port) = start(&[format!("127.0.0.1:{}", host.port)], system_lookup());
    let mut tunnel = client(port);
    say(&mut tunnel, &connect(&format!("127.0.0.1:{}", host.port)), "\r\n\r\n");
    let (socket, number) = pass.socket();
    assert!(enter(socket, number).is_err(), "a pass opens one door");
    assert!(enter(socket, number + 1).is_err(), "a number that was not given out opens none");
    drop(pass);
    let ended = tunnel.read(&mut [0; 8]);
    assert!(matches!(&ended, Ok(0)) || ended.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset));
    drop(proxy);
}

#[test]
fn a_client_that_makes_no_sense_is_answered() {
    let (_proxy, _pass, port) = start(&["*".to_owned()], system_lookup());
    for bytes in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x16\x03\x01 hello\r\n\r\n", b"CONNECT x HTTP/1.1\r\n\r\n"]
    {
        let answer = say(&mut client(port), bytes, "\n\n");
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
}
