//! The request with which a browser ends at a local port after a login.
//!
//! Reads the first line of one request and answers with a page. Does not judge the answer of a login: the caller does.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Maximum number of bytes that are read of a request.
const MOST_REQUEST: usize = 16 * 1024;

/// Returns the path of the browser's request if it is the expected one. The page says that it can be closed.
pub async fn answer(mut stream: TcpStream, is_expected: impl Fn(&str) -> bool) -> Option<String> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MOST_REQUEST {
        let mut piece = [0; 1024];
        match stream.read(&mut piece).await {
            Ok(read) if read > 0 => request.extend_from_slice(&piece[..read]),
            _ => break,
        }
    }
    let path = path_in(&String::from_utf8_lossy(&request)).filter(|path| is_expected(path));
    let (status, page) = match &path {
        Some(_) => ("200 OK", "becket has the answer. You can close this page and go back to the terminal."),
        None => ("404 Not Found", "Nothing is here."),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
        page.len()
    );
    let _ = stream.write_all(answer.as_bytes()).await;
    path
}

/// Returns the path in the first line of a request.
fn path_in(request: &str) -> Option<String> {
    request.lines().next()?.strip_prefix("GET ")?.split(' ').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_in_the_first_line() {
        for (request, want) in [
            ("GET /callback?code=a%20b HTTP/1.1\r\nHost: x\r\n\r\n", Some("/callback?code=a%20b")),
            ("POST /callback?code=a HTTP/1.1\r\n\r\n", None),
            ("", None),
        ] {
            assert_eq!(path_in(request).as_deref(), want, "{request}");
        }
    }
}
