//! The client of streamable HTTP, with events that are repaired before the library parses them.
//!
//! The library skips an event that it cannot parse. With half of a surrogate pair in an answer, its call would wait until it
//! times out. The body of an answer in one JSON document is parsed inside the library: there such a fault ends the call at once.

use becket_types::replace_lone_surrogates;
use futures::StreamExt as _;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use std::collections::HashMap;
use std::sync::Arc;

/// A client whose events are repaired.
#[derive(Clone)]
pub(crate) struct Repaired<C>(pub(crate) C);

fn repaired(events: BoxedSseResponse) -> BoxedSseResponse {
    let repair = |data: String| replace_lone_surrogates(&data).unwrap_or(data);
    events
        .map(move |event| {
            event.map(|mut event| {
                event.data = event.data.map(repair);
                event
            })
        })
        .boxed()
}

fn posted(response: StreamableHttpPostResponse) -> StreamableHttpPostResponse {
    match response {
        StreamableHttpPostResponse::Sse(events, session) => {
            StreamableHttpPostResponse::Sse(repaired(events), session)
        }
        other => other,
    }
}

type Headers = HashMap<HeaderName, HeaderValue>;

impl<C: StreamableHttpClient + Sync> StreamableHttpClient for Repaired<C> {
    type Error = C::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<C::Error>> {
        self.0.post_message(uri, message, session, auth, headers).await.map(posted)
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
        size: usize,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<C::Error>> {
        let post = self.0.post_message_with_max_sse_event_size(uri, message, session, auth, headers, size);
        post.await.map(posted)
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<C::Error>> {
        let post = self.0.post_message_with_response_limits(uri, message, session, auth, headers, limits);
        post.await.map(posted)
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<(), StreamableHttpError<C::Error>> {
        self.0.delete_session(uri, session, auth, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<BoxedSseResponse, StreamableHttpError<C::Error>> {
        self.0.get_stream(uri, session, last_event, auth, headers).await.map(repaired)
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: Headers,
        size: usize,
    ) -> Result<BoxedSseResponse, StreamableHttpError<C::Error>> {
        let stream = self.0.get_stream_with_max_sse_event_size(uri, session, last_event, auth, headers, size);
        stream.await.map(repaired)
    }
}
