//! Code that the HTTP adapters share. A model is a protocol, a byte cache and a transport.

use crate::assemble::AnswerOf;
use crate::compat::Compat;
use crate::decoder::Decoder;
use crate::http::Transport;
use crate::ids::{IdRule, SeenCalls};
use crate::kind::Kind;
use crate::layout::ServerLayout;
use crate::media::{Media, MediaCache};
use crate::place::Place;
use crate::settings::Settings;
use crate::stream::{ShorterBodies, exchange};
use crate::threads::Threads;
use crate::wire::{Encoder, WireCache};
use crate::{Digest, Model, ModelError, ModelEvent, ModelInfo, Prepared, Request, catalog};
use becket_types::{Blobs, CacheLifetime, ImageSource, WireLayout};
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt as _};
use std::sync::{Arc, Mutex, PoisonError};

/// Facts that encoding a message needs in addition to the message.
pub(crate) struct Env<'a> {
    pub info: &'a ModelInfo,
    pub blobs: &'a dyn Blobs,
    pub media: &'a MediaCache,
    pub seen: &'a SeenCalls,
    pub ids: IdRule,
    /// The dialect of the server.
    pub compat: &'a Compat,
    pub layout: WireLayout,
    pub cache: CacheLifetime,
}

impl Env<'_> {
    /// Returns an image, or a document by its address, as far as this server takes it.
    pub(crate) fn image(&self, source: &ImageSource, media_type: &str, name: Option<&str>) -> Media {
        self.media.image(source, media_type, name, self.blobs, self.compat.messages.fetches)
    }
}

/// State that a model keeps between requests: the bytes of messages, decoded media, the ids of earlier calls.
pub(crate) struct Memory<E: Encoder> {
    cache: Mutex<WireCache<E>>,
    media: MediaCache,
    pub seen: SeenCalls,
}

impl<E: Encoder> Default for Memory<E> {
    fn default() -> Self {
        Self { cache: Mutex::default(), media: MediaCache::default(), seen: SeenCalls::default() }
    }
}

impl<E: for<'a> Encoder<Env<'a> = Env<'a>>> Memory<E> {
    /// Builds the body of `request`. Returns it with its SHA-256.
    pub(crate) fn body(
        &self,
        request: &Request<'_>,
        info: &ModelInfo,
        compat: &Compat,
        head: impl FnOnce() -> Vec<u8>,
        tail: &'static [u8],
    ) -> (Vec<Bytes>, Digest) {
        let blobs = request.blobs.as_ref();
        let layout = request.layout.unwrap_or_default();
        let ids = if layout.is_standard() { compat.tools.call_ids.rule() } else { IdRule::Nine };
        let (media, seen, cache) = (&self.media, &self.seen, request.cache);
        let env = Env { info, blobs, media, seen, ids, compat, layout, cache };
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.body(request, &env, head, tail)
    }
}

/// One wire format.
pub(crate) trait Protocol: Send + Sync + 'static {
    type Encoder: for<'a> Encoder<Env<'a> = Env<'a>>;

    /// Bytes of the body before the first message.
    fn head(&self, request: &Request<'_>, info: &ModelInfo) -> Vec<u8>;
    /// Bytes of the body after the last message.
    fn tail(&self, request: &Request<'_>) -> &'static [u8];
    fn decoder(&self, answer: AnswerOf) -> Box<dyn Decoder>;
    /// The dialect of the server.
    fn compat(&self) -> &Compat;
    /// Largest body that the provider documents, in bytes; `None` if it is not known.
    fn max_body(&self) -> Option<usize>;
    /// The threads by which requests are shortened, if they are used.
    fn threads(&self) -> Option<&Threads> {
        None
    }
}

/// The texts of the system prompt that are not blank, in order.
pub(crate) fn system_texts<'a>(request: &'a Request<'_>) -> Vec<&'a str> {
    let texts = request.context.system.iter().map(AsRef::as_ref);
    texts.filter(|text| !becket_types::is_blank(text)).collect()
}

pub(crate) struct HttpModel<P: Protocol> {
    info: ModelInfo,
    protocol: Arc<P>,
    transport: Arc<Transport>,
    layout: Arc<ServerLayout>,
    memory: Memory<P::Encoder>,
}

impl<P: Protocol> HttpModel<P> {
    /// The model `name` of a provider, reached by `transport`.
    pub(crate) fn new(
        place: &Place<'_>,
        name: &str,
        protocol: P,
        transport: Transport,
        settings: &Settings,
    ) -> Self {
        let mut info = catalog::lookup(place.provider, name);
        let chat = place.kind == Kind::Chat || place.kind == Kind::Responses;
        let said = if chat { settings.said_by_server(place.endpoint, name) } else { None };
        crate::adjust(&mut info, settings, place.endpoint, said, transport.local);
        info.server.hour_cache = place.compat.hour_cache;
        info.server.max_images = place.compat.max_images;
        info.server.fetches = place.compat.messages.fetches;
        info.server.asks_text_calls = place.endpoint.asks_text_calls;
        let key = format!("{} {name}", transport.url);
        let layout = Arc::new(ServerLayout::new(
            key,
            settings.learned.layouts.clone(),
            said.and_then(|said| said.layout),
        ));
        Self {
            info,
            protocol: Arc::new(protocol),
            transport: Arc::new(transport),
            layout,
            memory: Memory::default(),
        }
    }
}

impl<P: Protocol> Model for HttpModel<P> {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn prepare(&self, request: &Request<'_>) -> Result<Prepared, ModelError> {
        let layout = request.layout.unwrap_or_else(|| self.layout.current());
        // A server without a lifetime of an hour would refuse the unknown field.
        let cache = if self.info.server.hour_cache { request.cache } else { CacheLifetime::default() };
        let request = &Request { layout: Some(layout), cache, ..*request };
        let dialect = self.protocol.compat();
        let head = || self.protocol.head(request, &self.info);
        let (body, digest) =
            self.memory.body(request, &self.info, dialect, head, self.protocol.tail(request));
        if let Some(threads) = self.protocol.threads() {
            threads.built(request, digest);
        }
        let prepared =
            Prepared { body, digest, tag: request.max_output, layout, replaceable: false, brief: false };
        let fixed = self.protocol.max_body().map(|most| most as u64);
        self.transport.body.check(prepared.len() as u64, fixed, &self.transport.server)?;
        Ok(prepared)
    }

    fn send(&self, prepared: Prepared) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let answer = AnswerOf {
            provider: self.info.provider.clone(),
            model: self.info.name.clone(),
            cap: prepared.tag,
            seen: self.memory.seen.clone(),
            server: self.transport.server.clone(),
            fatal_codes: self.protocol.compat().fatal_codes.clone(),
            id: Arc::default(),
        };
        let id = Arc::clone(&answer.id);
        let protocol = Arc::clone(&self.protocol);
        let make = Box::new(move || protocol.decoder(answer.clone()));
        let (bodies, answering) = match self.protocol.threads() {
            Some(threads) => threads.shorten(&prepared.body, &prepared.digest),
            None => (Vec::new(), None),
        };
        let threads = self.protocol.threads().cloned();
        let refused = move |left, status| {
            if let Some(threads) = &threads {
                threads.refused(left, status);
            }
        };
        let instead = ShorterBodies { bodies, refused: Arc::new(refused) };
        let stream = exchange(Arc::clone(&self.transport), Arc::clone(&self.layout), prepared, instead, make);
        let Some(mut answering) = answering else { return stream.boxed() };
        let seen = move |event: &Result<ModelEvent, ModelError>| {
            if let Ok(event) = event {
                answering.take(event, || id.get().cloned());
            }
        };
        stream.inspect(seen).boxed()
    }

    fn doubt_limits(&self) -> bool {
        self.transport.body.doubt()
    }
}
