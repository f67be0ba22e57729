//! Receives the end of a login: opens a port of this machine to which the browser is sent with the answer.
//!
//! Knows one address, `/callback` with a query; the caller judges the query. Other programs on this machine can send requests as
//! well, so a caller must check that an answer belongs to its login.

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use std::io;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Maximum number of bytes that are read from one request.
const MOST_REQUEST: usize = 16 * 1024;
/// Maximum number of connections that are open at once. Browsers open some that they never use.
const MOST_CONNECTIONS: usize = 32;

/// An open port that waits for the browser.
pub struct CallbackPort {
    listener: TcpListener,
    port: u16,
}

impl CallbackPort {
    /// Opens a port of the loopback address. 0 takes any free one.
    ///
    /// # Errors
    ///
    /// Fails if the port is taken or may not be used.
    pub async fn open(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// Returns the number of the port.
    pub fn number(&self) -> u16 {
        self.port
    }

    /// Waits for a request for whose path and query, such as `/callback?code=x`, `accept` returns a value. Its answer tells the
    /// user to close the page. Other requests get a page that says nothing is there. Requests are read side by side, because a
    /// browser may hold a connection open without using it.
    pub async fn answer<T>(&self, accept: impl Fn(&str) -> Option<T>) -> T {
        let mut open = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if open.len() < MOST_CONNECTIONS => {
                    if let Ok((stream, _)) = accepted {
                        open.push(read(stream, &accept));
                    }
                }
                read = open.next(), if !open.is_empty() => {
                    if let Some(Some(answer)) = read {
                        return answer;
                    }
                }
            }
        }
    }
}

/// Reads one request and answers it. Returns what `accept` made of it.
async fn read<T>(mut stream: TcpStream, accept: &impl Fn(&str) -> Option<T>) -> Option<T> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MOST_REQUEST {
        let mut piece = [0; 1024];
        match stream.read(&mut piece).await {
            Ok(read) if read > 0 => request.extend_from_slice(&piece[..read]),
            _ => break,
        }
    }
    let accepted = path_in(&String::from_utf8_lossy(&request)).and_then(accept);
    let (status, page) = match &accepted {
        Some(_) => ("200 OK", "becket has the answer. You can close this page and go back to the terminal."),
        None => ("404 Not Found", "Nothing is here."),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
        page.len()
    );
    let _ = stream.write_all(answer.as_bytes()).await;
    accepted
}

/// Returns the path and query of a request, if it is for the callback.
fn path_in(request: &str) -> Option<&str> {
    let path = request.lines().next()?.strip_prefix("GET ")?.split(' ').next()?;
    path.starts_with("/callback?").then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_in_the_first_line_of_the_browser_s_request() {
        for (request, want) in [
            ("GET /callback?code=a%20b HTTP/1.1\r\nHost: x\r\n\r\n", Some("/callback?code=a%20b")),
            ("GET /callback HTTP/1.1\r\n\r\n", None),
            ("GET /favicon.ico?code=a HTTP/1.1\r\n\r\n", None),
            ("POST /callback?code=a HTTP/1.1\r\n\r\n", None),
            ("", None),
        ] {
            assert_eq!(path_in(request), want, "{request}");
        }
    }

    /// The real answer comes after connections that send nothing and requests for other addresses.
    #[tokio::test]
    async fn an_answer_is_taken_beside_silent_connections_and_other_requests() {
        let port = CallbackPort::open(0).await.unwrap();
        let address = ("127.0.0.1", port.number());
        let browser = async {
            let mut silent = Vec::new();
            for _ in 0..3 {
                silent.push(TcpStream::connect(address).await.unwrap());
            }
            let mut pages = Vec::new();
            for path in ["/favicon.ico", "/callback?error=denied", "/callback?code=x"] {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
                let mut page = String::new();
                stream.read_to_string(&mut page).await.unwrap();
                pages.push(page);
            }
            pages
        };
        let code = port.answer(|path| path.strip_prefix("/callback?code=").map(str::to_owned));
        let (code, pages) = tokio::join!(code, browser);
        assert_eq!(code, "x");
        let found: Vec<bool> = pages.iter().map(|page| page.starts_with("HTTP/1.1 200 OK")).collect();
        assert_eq!(found, [false, false, true], "{pages:?}");
        // The port is taken while it is open.
        assert!(CallbackPort::open(port.number()).await.is_err());
    }
}
