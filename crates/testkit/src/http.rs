//! A minimal HTTP/1.1 server side: it parses requests and controls every byte of the response.

use bytes::Bytes;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Maximum size of a request head in bytes.
const MAX_HEAD: usize = 64 * 1024;

/// A request as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub method: String,
    /// Path with the query.
    pub path: String,
    /// Headers in order; names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    /// Number of the connection on which the request arrived, from 0.
    pub connection: usize,
}

impl Recorded {
    /// Returns the first header with this name, ignoring case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// Returns the body as text. Panics if it is not UTF-8.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a request body is UTF-8")
    }

    /// Returns the body as JSON. Panics if the body is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("request body: {e}: {}", self.text()))
    }

    /// Returns the array `messages` of the JSON body; empty if there is none.
    pub fn messages(&self) -> Vec<Value> {
        self.json()["messages"].as_array().cloned().unwrap_or_default()
    }

    /// Returns the names of the offered tools, in order.
    pub fn tool_names(&self) -> Vec<String> {
        let json = self.json();
        let tools = json["tools"].as_array().cloned().unwrap_or_default();
        let name =
            |tool: &Value| tool["name"].as_str().or(tool["function"]["name"].as_str()).map(str::to_owned);
        tools.iter().filter_map(name).collect()
    }
}

/// Reads one request. `None`: the client closed the connection before a complete request arrived.
pub(crate) async fn read_request<R: AsyncRead + Unpin>(
    stream: &mut R,
    buffer: &mut Vec<u8>,
    connection: usize,
) -> Option<Recorded> {
    let head_end = loop {
        if let Some(at) = find(buffer, b"\r\n\r\n") {
            break at;
        }
        if buffer.len() > MAX_HEAD || !fill(stream, buffer).await {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
    buffer.drain(..head_end + 4);
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let header = |name: &str| headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
    let body = if let Some(length) = header("content-length").and_then(|v| v.parse::<usize>().ok()) {
        while buffer.len() < length {
            if !fill(stream, buffer).await {
                return None;
            }
        }
        buffer.drain(..length).collect()
    } else if header("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked")) {
        read_chunked(stream, buffer).await?
    } else {
        Vec::new()
    };
    Some(Recorded { method, path, headers, body: Bytes::from(body), connection })
}

async fn read_chunked<R: AsyncRead + Unpin>(stream: &mut R, buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line_end = loop {
            if let Some(at) = find(buffer, b"\r\n") {
                break at;
            }
            if !fill(stream, buffer).await {
                return None;
            }
        };
        let line = String::from_utf8_lossy(&buffer[..line_end]).into_owned();
        let size = usize::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
        buffer.drain(..line_end + 2);
        while buffer.len() < size + 2 {
            if !fill(stream, buffer).await {
                return None;
            }
        }
        body.extend(buffer.drain(..size));
        buffer.drain(..2);
        if size == 0 {
            return Some(body);
        }
    }
}

async fn fill<R: AsyncRead + Unpin>(stream: &mut R, buffer: &mut Vec<u8>) -> bool {
    buffer.reserve(64 * 1024);
    matches!(stream.read_buf(buffer).await, Ok(n) if n > 0)
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
