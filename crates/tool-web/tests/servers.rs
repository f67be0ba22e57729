//! Servers at their worst, on real sockets: silence, drops, bombs, wrong lengths, endless redirects, huge pages, search
//! providers that answer nonsense; and proxies. Everything ends in bounded time with one message, and what is read is bounded.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use becket_tool::testing;
use becket_tool_web::{FetchSettings, Lookup, Provider, Proxies, SearchSettings, WebFetch, WebSearch};
use becket_types::ToolOutput;
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A server whose reaction to each connection is a function of the stream and the first line of the request.
struct Server {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new(answer: impl Fn(&mut TcpStream, &str) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (seen, answer) = (Arc::clone(&asked), Arc::new(answer));
        // The thread ends with the test's process; nobody joins it.
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    let mut lines = Vec::new();
                    loop {
                        let mut line = String::new();
                        if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                            break;
                        }
                        lines.push(line.trim_end().to_owned());
                    }
                    let first = lines.first().cloned().unwrap_or_default();
                    seen.lock().unwrap().push(lines.join("\n"));
                    answer(&mut stream, &first);
                    // Closing a socket with unread data may discard written data, so the rest is read first.
                    // The reader has its own handle.
                    let _ = stream.shutdown(std::net::Shutdown::Write);
                    let _ = std::io::copy(&mut reader, &mut std::io::sink());
                });
            }
        });
        Self { url, asked }
    }

    fn fixed(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::new(move |stream, _| drop(stream.write_all(&answer)))
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn ok(kind: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{headers}connection: close\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// Names of this machine, one of the internet; nothing else is known here.
fn lookup() -> Lookup {
    Arc::new(|name: String| {
        Box::pin(async move {
            if name == "a.public.test" {
                Ok(vec!["93.184.215.14".parse().unwrap()])
            } else if ["own.test", "rebound.test"].contains(&name.as_str()) {
                Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)])
            } else {
                Err(std::io::Error::other("no such name"))
            }
        })
    })
}

fn fetcher(allow: &[&str], proxies: Proxies) -> WebFetch {
    WebFetch::new(&FetchSettings {
        allow_hosts: allow.iter().map(|h| (*h).to_owned()).collect(),
        lookup: Some(lookup()),
        proxies,
        limit: Some(Duration::from_millis(1_500)),
    })
}

async fn fetch(tool: &WebFetch, url: &str) -> ToolOutput {
    testing::run(tool, &testing::env(Path::new("/")).0, json!({"url": url})).await
}

#[tokio::test]
async fn servers_at_their_worst_are_one_message_in_bounded_time() {
    let wait = || std::thread::sleep(Duration::from_secs(20));
    let silent = Server::new(move |_, _| wait());
    let drip = Server::new(|stream, _| {
        let _ = stream.write_all(&ok("text/plain", "", b"first "));
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let slow_head = Server::new(|stream, _| {
        for byte in "HTTP/1.1 200 OK\r\nx-a: ".bytes().chain(std::iter::repeat(b'a')) {
            if stream.write_all(&[byte]).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let huge_head = Server::new(|stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        while stream.write_all(b"x-header: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n").is_ok() {}
    });
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let redirects = Server::new(move |stream, _| {
        let n = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let _ = stream.write_all(
            format!("HTTP/1.1 302 Found\r\nlocation: /{n}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .as_bytes(),
        );
    });
    let endless = Server::new(|stream, _| {
        let _ = stream.write_all(&ok("text/html", "", b"<p>"));
        while stream.write_all(&[b'a'; 4096]).is_ok() {}
    });
    for (what, server, want) in [
        ("silence", &silent, "did not answer in time"),
        ("a drip", &drip, "cut: the rest did not come in time"),
        ("a drip of a head", &slow_head, "did not answer in time"),
        ("a head without end", &huge_head, "cannot be reached"),
        ("redirects without end", &redirects, "More than 5 redirects"),
        ("a page without end", &endless, "cut: the rest after 5 MB was not read"),
        ("nothing", &Server::fixed(""), "cannot be reached"),
        ("no HTTP", &Server::fixed("SSH-2.0-OpenSSH_9.6\r\n"), "cannot be reached"),
        (
            "a length that is too long",
            &Server::fixed(ok("text/plain", "content-length: 100\r\n", b"half")),
            "4 bytes, cut: the rest did not come",
        ),
        (
            "a length that is too short",
            &Server::fixed(ok("text/plain", "content-length: 4\r\n", b"half and more")),
            "200, text/plain, 4 bytes",
        ),
        (
            "a length that is none",
            &Server::fixed(ok("text/plain", "content-length: many\r\n", b"half")),
            "cannot be reached",
        ),
        (
            "two lengths",
            &Server::fixed(ok("text/plain", "content-length: 4\r\ncontent-length: 9\r\n", b"half")),
            "cannot be reached",
        ),
        (
            "wrong chunks",
            &Server::fixed(ok("text/plain", "transfer-encoding: chunked\r\n", b"zz\r\nhalf")),
            "cannot be reached",
        ),
        (
            "no gzip",
            &Server::fixed(ok("text/plain", "content-encoding: gzip\r\n", b"plain")),
            "cannot be reached",
        ),
        (
            "another encoding",
            &Server::fixed(ok("text/plain", "content-encoding: br\r\n", b"plain")),
            "encoded as br",
        ),
    ] {
        let begun = Instant::now();
        let output = fetch(&fetcher(&["127.0.0.1"], Proxies::default()), &server.url).await;
        assert!(
            output.content.contains(want),
            "{what}: {}",
            &output.content[..output.content.len().min(600)]
        );
        assert!(begun.elapsed() < Duration::from_secs(15), "{what}: {:?}", begun.elapsed());
        assert!(output.content.len() < 60_000, "{what}");
    }
    assert_eq!(redirects.asked().len(), 6, "the first and five more");
}

/// 5 MB of zeros in 5 KB, a thousand times over: what is unpacked is bounded, not what comes.
#[tokio::test]
async fn a_bomb_is_read_to_the_limit_and_no_further() {
    let mut bomb = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    // A stored and then repeated block: one literal, then matches of 258 bytes at distance 1, with the fixed code.
    let mut bits = Bits::default();
    bits.push(0b011, 3);
    bits.code(b'a');
    for _ in 0..4_000_000 {
        bits.longest();
    }
    bomb.extend(bits.out);
    let server = Server::fixed(ok("text/plain", "content-encoding: gzip\r\n", &bomb));
    let output = fetch(&fetcher(&["127.0.0.1"], Proxies::default()), &server.url).await;
    let start = &output.content[..output.content.len().min(300)];
    assert!(start.contains("5242880 bytes, cut: the rest after 5 MB was not read"), "{start}");
}

/// Deflate with the fixed code, as far as the bomb needs it.
#[derive(Default)]
struct Bits {
    out: Vec<u8>,
    hold: u64,
    count: u32,
}

impl Bits {
    fn push(&mut self, value: u64, width: u32) {
        self.hold |= value << self.count;
        self.count += width;
        while self.count >= 8 {
            self.out.push((self.hold & 0xff) as u8);
            self.hold >>= 8;
            self.count -= 8;
        }
    }
    fn code(&mut self, byte: u8) {
        self.push(u64::from((0x30 + byte).reverse_bits()), 8);
    }
    /// Length 258 is symbol 285, 11000101; distance 1 is symbol 0, 00000.
    fn longest(&mut self) {
        self.push(u64::from(0b1100_0101_u8.reverse_bits()), 8);
        self.push(0, 5);
    }
}

#[tokio::test]
async fn pages_of_five_megabytes_become_text_in_bounded_time() {
    let rows = "<tr><td>cell <b>bold</b></td><td><a href='/x'>link</a></td></tr>".repeat(70_000);
    for (what, body) in [
        ("a table", format!("<table>{rows}</table>")),
        ("nested", "<div>".repeat(900_000)),
        ("nested lists", "<ul><li>".repeat(400_000)),
        ("nested quotes", "<blockquote>".repeat(300_000)),
        ("open links", "<a href=x>".repeat(400_000)),
        ("unclosed", "<b><i><font>".repeat(200_000)),
        ("attributes", format!("<p {}>x", "a=b ".repeat(1_000_000))),
        ("entities", "&amp;".repeat(900_000)),
        ("comments", "<!-- x -->".repeat(400_000)),
    ] {
        let server = Server::fixed(ok("text/html", "", body.as_bytes()));
        let tool = WebFetch::new(&FetchSettings {
            allow_hosts: vec!["127.0.0.1".to_owned()],
            ..FetchSettings::default()
        });
        let begun = Instant::now();
        let output = fetch(&tool, &server.url).await;
        assert!(!output.content.is_empty() && output.content.len() < 60_000, "{what}");
        assert!(begun.elapsed() < Duration::from_mins(1), "{what}: {:?}", begun.elapsed());
    }
}

fn search(url: &str, proxies: Proxies) -> WebSearch {
    WebSearch::new(SearchSettings {
        provider: Provider::Searxng,
        url: Some(url.to_owned()),
        key: None,
        proxies,
        limit: Some(Duration::from_millis(1_500)),
    })
    .unwrap()
}

#[tokio::test]
async fn a_search_provider_at_its_worst_is_one_sentence() {
    let json = |body: &str| Server::fixed(ok("application/json", "", body.as_bytes()));
    let many = format!(
        "{{\"results\": [{}]}}",
        vec!["{\"title\":\"t\",\"url\":\"u\",\"content\":\"c\"}"; 20_000].join(",")
    );
    let long = format!(
        "{{\"results\": [{{\"title\":\"{0}\",\"url\":\"http://{0}\",\"content\":\"{0}\"}}]}}",
        "x".repeat(300_000)
    );
    let silent = Server::new(|_, _| std::thread::sleep(Duration::from_secs(20)));
    let endless = Server::new(|stream, _| {
        let _ = stream.write_all(&ok("application/json", "", b"{\"results\": [\""));
        while stream.write_all(&[b'a'; 4096]).is_ok() {}
    });
    for (what, server, want) in [
        ("wrong JSON", &json("{\"results\": ["), "cannot read"),
        ("another type", &json("{\"results\": 7}"), "cannot read"),
        ("no object", &json("[1,2]"), "cannot read"),
        ("items of another type", &json("{\"results\": [1, null, \"x\", {}]}"), "Nothing found"),
        ("deep", &json(&"[".repeat(1_000_000)), "cannot read"),
        ("HTML", &Server::fixed(ok("text/html", "", b"<html>login</html>")), "cannot read"),
        ("no text", &Server::fixed(ok("application/json", "", b"\xff\xfe\0")), "cannot read"),
        ("10 MB", &endless, "more than 2 MB"),
        ("500", &Server::fixed("HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n"), "status 500"),
        (
            "a redirect",
            &Server::fixed("HTTP/1.1 301 No\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"),
            "status 301",
        ),
        ("silence", &silent, "did not answer in time"),
        ("nothing", &Server::fixed(""), "cannot be reached"),
        ("many results", &json(&many), "10 results"),
        ("long results", &json(&long), "1 results"),
    ] {
        let begun = Instant::now();
        let env = testing::env(Path::new("/")).0;
        let output =
            testing::run(&search(&server.url, Proxies::default()), &env, json!({"query": "x"})).await;
        assert!(
            output.content.contains(want) && output.content.len() < 20_000,
            "{what}: {}",
            becket_types::cut_end(&output.content, 500)
        );
        assert!(begun.elapsed() < Duration::from_secs(15), "{what}");
    }
}

#[tokio::test]
async fn a_proxy_is_used_and_what_is_private_stays_refused() {
    let proxy = Server::new(|stream, first| {
        let body = if first.starts_with("CONNECT ") {
            "HTTP/1.1 403 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".into()
        } else {
            ok("text/plain", "", format!("by the proxy: {first}").as_bytes())
        };
        let _ = stream.write_all(&body);
    });
    let direct = Server::fixed(ok("text/plain", "", b"directly"));
    let port = direct.url.rsplit(':').next().unwrap();
    let proxies = |no_proxy: &str| Proxies {
        https: Some(proxy.url.clone()),
        http: Some(proxy.url.replace("http://", "http://user:secret@")),
        no_proxy: Some(no_proxy.to_owned()),
    };
    let tool = fetcher(&["127.0.0.1", "own.test"], proxies("own.test"));
    for (url, want) in [
        ("http://a.public.test/x", "by the proxy: GET http://a.public.test/x"),
        // Only the proxy can resolve this name, so the proxy decides about it.
        ("http://intranet.example/x", "by the proxy: GET http://intranet.example/x"),
        ("https://a.public.test/x", "cannot be reached through the proxy"),
        ("http://rebound.test/", "a loopback address"),
        ("http://169.254.169.254/latest", "a metadata address"),
        ("http://10.0.0.1/", "a private address"),
        (&format!("http://own.test:{port}/"), "directly"),
        (&format!("http://127.0.0.1:{port}/"), "directly"),
    ] {
        let output = fetch(&tool, url).await;
        assert!(
            output.content.contains(want) && !output.content.contains("secret"),
            "{url}: {}",
            output.content
        );
    }
    let asked = proxy.asked();
    assert!(
        asked.iter().all(|request| !request.contains("169.254") && !request.contains("rebound")),
        "{asked:?}"
    );
    assert!(asked[0].contains("proxy-authorization: Basic"), "{asked:?}");
    // If the proxy redirects to an internal address, the redirect is reported and not followed.
    let inward =
        Server::fixed("HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n");
    let through = Proxies { http: Some(inward.url.clone()), ..Proxies::default() };
    let output = fetch(&fetcher(&[], through), "http://a.public.test/").await;
    assert!(output.content.contains("It was not followed"), "{}", output.content);
    let gone = Proxies { http: Some("http://127.0.0.1:1".to_owned()), ..Proxies::default() };
    let output = fetch(&fetcher(&[], gone), "http://a.public.test/").await;
    assert!(output.is_error && output.content.contains("through the proxy that"), "{}", output.content);
    let odd = Proxies { http: Some("::not a proxy".to_owned()), ..Proxies::default() };
    let output = fetch(&fetcher(&[], odd), "http://a.public.test/").await;
    assert!(
        output.is_error && output.content.contains("proxy's address is not understood"),
        "{}",
        output.content
    );
    // A search goes through the proxy, too.
    let results =
        Server::fixed(ok("application/json", "", br#"{"results": [{"title": "t", "url": "http://u/"}]}"#));
    let through = Proxies { http: Some(results.url.clone()), ..Proxies::default() };
    let env = testing::env(Path::new("/")).0;
    let output = testing::run(&search("http://search.example/", through), &env, json!({"query": "x"})).await;
    assert!(output.content.starts_with("1 results"), "{}", output.content);
    assert!(results.asked()[0].starts_with("GET http://search.example/search?q=x"), "{:?}", results.asked());
}
