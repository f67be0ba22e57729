//! HTTP with server-sent events, as in protocol 2024-11-05: one stream for incoming messages, one address for outgoing
//! ones.
//!
//! The first event of the stream names the address for outgoing messages, which must be on the server's own host. When the stream
//! ends, the connection ends, and the server is connected again like any other.

use super::message::{self, LONGEST};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use reqwest::header::{ACCEPT, HeaderMap};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::io;
use std::time::Duration;
use url::Url;

/// Maximum wait for the first event.
const FIRST: Duration = Duration::from_secs(20);

/// One server-sent event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    pub kind: String,
    pub data: String,
}

/// Assembles events from pieces of the stream.
#[derive(Default)]
pub(crate) struct Events {
    bytes: Vec<u8>,
    event: SseEvent,
}

impl Events {
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, String> {
        self.bytes.extend_from_slice(bytes);
        let mut out = Vec::new();
        let mut start = 0;
        while let Some(at) = self.bytes[start..].iter().position(|b| *b == b'\n') {
            let line =
                String::from_utf8_lossy(&self.bytes[start..start + at]).trim_end_matches('\r').to_owned();
            start += at + 1;
            if line.is_empty() {
                let mut event = std::mem::take(&mut self.event);
                if !event.data.is_empty() {
                    event.data.pop();
                    out.push(event);
                }
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => value.clone_into(&mut self.event.kind),
                "data" => {
                    self.event.data.push_str(value);
                    self.event.data.push('\n');
                }
                _ => {}
            }
        }
        self.bytes.drain(..start);
        if self.bytes.len() + self.event.data.len() > LONGEST {
            return Err(format!("an event is longer than {} MB", LONGEST / (1024 * 1024)));
        }
        Ok(out)
    }
}

pub(crate) struct LegacySse {
    client: reqwest::Client,
    headers: HeaderMap,
    post: Url,
    stream: BoxStream<'static, reqwest::Result<Vec<u8>>>,
    events: Events,
    ready: std::collections::VecDeque<SseEvent>,
}

impl LegacySse {
    pub(crate) async fn connect(
        client: reqwest::Client,
        url: &Url,
        headers: HeaderMap,
    ) -> Result<Self, String> {
        let request = client.get(url.clone()).headers(headers.clone()).header(ACCEPT, "text/event-stream");
        let response = request.send().await.map_err(|e| super::http::reasons(&e))?;
        if !response.status().is_success() {
            return Err(format!("the server answers {}", response.status()));
        }
        let stream = response.bytes_stream().map(|piece| piece.map(|bytes| bytes.to_vec())).boxed();
        let (events, ready) = (Events::default(), std::collections::VecDeque::new());
        let mut transport = Self { client, headers, post: url.clone(), stream, events, ready };
        let first = tokio::time::timeout(FIRST, transport.next_event()).await;
        let first = first.map_err(|_| "the server sends no endpoint event")?;
        let first =
            first.filter(|event| event.kind == "endpoint").ok_or("the server sends no endpoint event")?;
        let post = url.join(first.data.trim()).map_err(|e| format!("its endpoint is no address: {e}"))?;
        if post.origin() != url.origin() {
            return Err(format!("its endpoint {post} is on another host, which is refused"));
        }
        transport.post = post;
        Ok(transport)
    }

    async fn next_event(&mut self) -> Option<SseEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let bytes = self.stream.next().await?.ok()?;
            self.ready.extend(self.events.push(&bytes).ok()?);
        }
    }
}

impl Transport<RoleClient> for LegacySse {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let request = self.client.post(self.post.clone()).headers(self.headers.clone()).json(&item);
        async move {
            let response = request.send().await.map_err(|e| io::Error::other(super::http::reasons(&e)))?;
            match response.status() {
                status if status.is_success() => Ok(()),
                status => Err(io::Error::other(format!("the server answers {status}"))),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let event = self.next_event().await?;
            if (event.kind.is_empty() || event.kind == "message")
                && let Some(message) = message::read(event.data.as_bytes())
            {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.stream = futures::stream::empty().boxed();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_however_the_stream_is_cut() {
        let text =
            ": hi\r\nevent: endpoint\r\ndata: /post?x=1\r\n\r\ndata: {\"a\":\ndata: 1}\n\nretry: 5\n\n";
        let want = [
            SseEvent { kind: "endpoint".into(), data: "/post?x=1".into() },
            SseEvent { kind: String::new(), data: "{\"a\":\n1}".into() },
        ];
        for size in 1..text.len() {
            let mut events = Events::default();
            let mut got = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                got.extend(events.push(piece).unwrap());
            }
            assert_eq!(got, want, "pieces of {size}");
        }
    }

    #[test]
    fn an_endless_event_is_an_error() {
        let mut events = Events::default();
        let piece = format!("data: {}\n", "x".repeat(1 << 20));
        assert!((0..40).any(|_| events.push(piece.as_bytes()).is_err()));
    }
}
