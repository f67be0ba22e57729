//! What the HTTP adapters share: a model is a protocol, a byte cache and a transport.

use crate::assemble::AnswerOf;
use crate::http::Transport;
use crate::ids::{IdRule, SeenCalls};
use crate::media::MediaCache;
use crate::stream::{Decoder, exchange};
use crate::wire::{Encoder, WireCache};
use crate::{ErrorKind, Model, ModelError, ModelEvent, ModelInfo, Prepared, Request};
use becket_types::Blobs;
use futures::stream::{BoxStream, StreamExt as _};
use std::sync::{Arc, Mutex, PoisonError};

/// What encoding a message needs beside the message.
pub(crate) struct Env<'a> {
    pub info: &'a ModelInfo,
    pub blobs: &'a dyn Blobs,
    pub media: &'a MediaCache,
    pub seen: &'a SeenCalls,
    pub ids: IdRule,
    /// The provider's own host, where all of its dialect holds.
    pub official: bool,
}

/// One wire format.
pub(crate) trait Protocol: Send + Sync + 'static {
    type Encoder: for<'a> Encoder<Env<'a> = Env<'a>>;

    /// Everything up to the first message.
    fn head(&self, request: &Request<'_>, info: &ModelInfo) -> Vec<u8>;
    /// Everything behind the last message.
    fn tail(&self, request: &Request<'_>) -> &'static [u8];
    fn decoder(&self, answer: AnswerOf) -> Box<dyn Decoder>;
    fn ids(&self) -> IdRule;
    fn official(&self) -> bool;
    /// Largest body the server takes, where that is known.
    fn max_body(&self) -> Option<usize>;
}

pub(crate) struct HttpModel<P: Protocol> {
    info: ModelInfo,
    protocol: Arc<P>,
    transport: Arc<Transport>,
    cache: Mutex<WireCache<P::Encoder>>,
    media: MediaCache,
    seen: SeenCalls,
}

impl<P: Protocol> HttpModel<P> {
    pub(crate) fn new(info: ModelInfo, protocol: P, transport: Transport) -> Self {
        Self {
            info,
            protocol: Arc::new(protocol),
            transport: Arc::new(transport),
            cache: Mutex::default(),
            media: MediaCache::default(),
            seen: SeenCalls::default(),
        }
    }
}

impl<P: Protocol> Model for HttpModel<P> {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn prepare(&self, request: &Request<'_>) -> Result<Prepared, ModelError> {
        let env = Env {
            info: &self.info,
            blobs: request.blobs.as_ref(),
            media: &self.media,
            seen: &self.seen,
            ids: self.protocol.ids(),
            official: self.protocol.official(),
        };
        let head = || self.protocol.head(request, &self.info);
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let body = cache.body(request, &env, head, self.protocol.tail(request));
        drop(cache);
        let prepared = Prepared { body, tag: request.max_output, replaceable: false };
        if let Some(max) = self.protocol.max_body()
            && prepared.len() > max
        {
            let mb = |bytes: usize| bytes.div_ceil(1024 * 1024);
            let message = format!(
                "The request has {} MB; {} takes at most {} MB.",
                mb(prepared.len()),
                self.transport.server,
                mb(max)
            );
            return Err(ModelError::new(ErrorKind::TooLarge, message)
                .hint("Compact the session; images and files weigh most."));
        }
        Ok(prepared)
    }

    fn send(&self, prepared: Prepared) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let answer = AnswerOf {
            provider: self.info.provider.clone(),
            model: self.info.name.clone(),
            cap: prepared.tag,
            seen: self.seen.clone(),
            server: self.transport.server.clone(),
        };
        let protocol = Arc::clone(&self.protocol);
        let make = Box::new(move || protocol.decoder(answer.clone()));
        exchange(Arc::clone(&self.transport), prepared, make).boxed()
    }
}
