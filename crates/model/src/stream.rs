//! Turns a prepared request into a stream of events: attempts, retries, silence, and the end of a stream.
//!
//! A state machine that owns everything it needs, so dropping the stream cancels the request. Until the first content arrives, a
//! failure is retried under the rules of `retry`. After that it is one typed error, and the text so far is emitted as a part
//! before it.

use crate::body::Batches;
use crate::decoder::{Decoder, Fed, Feed, MakeDecoder, refuse_other};
use crate::errors::not_an_answer;
use crate::frames::{self, FrameParser};
use crate::http::{Transport, request_id};
use crate::layout::ServerLayout;
use crate::retry::{Policy, jitter};
use crate::shape::{Shape, shape_of};
use crate::sse::{MAX_EVENT, SseParser};
use crate::{ErrorKind, ModelError, ModelEvent, Prepared};
use becket_types::{Millis, WireLayout};
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, Stream, StreamExt as _, unfold};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Time to wait for the end of a stream after the model has given its reason to stop.
const AFTER_REASON: Duration = Duration::from_secs(5);
/// A timer that fires this much too late means that the process was suspended, so the server is not to blame.
const LATE: Duration = Duration::from_secs(5);

struct Reading {
    body: BoxStream<'static, Result<Bytes, reqwest::Error>>,
    parser: SseParser,
    frames: FrameParser,
    decoder: Box<dyn Decoder>,
    shape: Shape,
    /// Bytes collected while the shape is unknown, or is not that of events.
    held: Vec<u8>,
    bytes: usize,
    fed: Fed,
    /// True once the user knows that bytes were replaced.
    told_replaced: bool,
    content_type: String,
    status: u16,
    request_id: Option<String>,
}

enum State {
    Ready,
    Connecting(BoxFuture<'static, Result<Reading, ModelError>>),
    Reading(Box<Reading>),
    Waiting(BoxFuture<'static, ()>),
    Done,
}

struct Exchange {
    transport: Arc<Transport>,
    server_layout: Arc<ServerLayout>,
    request: Outgoing,
    make: MakeDecoder,
    policy: Policy,
    attempt: u32,
    /// Time for which the server has been loading its model; `None` if it is not.
    loading: Option<Duration>,
    state: State,
    output: Output,
    silence: Silence,
}

/// The request as each attempt sends it.
struct Outgoing {
    instead: ShorterBodies,
    layout: WireLayout,
    body: Vec<Bytes>,
    /// The id that the server gets in a header. All attempts have the same one.
    logical_id: String,
}

/// Shorter bodies that are tried before the whole one (see `threads`). A server that accepts one understands it like the
/// whole.
pub(crate) struct ShorterBodies {
    pub(crate) bodies: Vec<Vec<Bytes>>,
    /// Called if the server refuses one of `bodies`, with the number of those that are left and the status.
    pub(crate) refused: Arc<dyn Fn(usize, u16) + Send + Sync>,
}

/// Statuses by which a server refuses a form of request. For others, such as an overloaded server, another body does not help.
const REFUSES_FORM: [u16; 4] = [400, 404, 409, 422];

impl Outgoing {
    fn bytes(&self) -> u64 {
        self.body.iter().map(|piece| piece.len() as u64).sum()
    }
}

/// Events on their way to the caller. A retry is possible until the answer has begun.
#[derive(Default)]
struct Output {
    queue: VecDeque<Result<ModelEvent, ModelError>>,
    /// Events that came before the answer began. They are emitted together with it.
    early: Vec<ModelEvent>,
    begun: bool,
}

/// The server's silence since its last byte, and if the user was informed of it.
struct Silence {
    last_life: Instant,
    hinted: bool,
}

/// Sends a request, retries failures that allow it until the answer begins, and streams the answer.
pub(crate) fn exchange(
    transport: Arc<Transport>,
    server_layout: Arc<ServerLayout>,
    prepared: Prepared,
    instead: ShorterBodies,
    make: MakeDecoder,
) -> impl Stream<Item = Result<ModelEvent, ModelError>> + Send + 'static {
    let settings = transport.settings();
    let policy = Policy {
        max_attempts: settings.max_attempts,
        max_wait: settings.times.max_wait,
        max_loading: settings.times.max_loading,
        local: transport.local,
        replaceable: prepared.replaceable,
        brief: prepared.brief,
    };
    let start = Exchange {
        policy,
        transport,
        server_layout,
        request: Outgoing {
            instead,
            layout: prepared.layout,
            body: prepared.body,
            logical_id: becket_types::unique().to_string(),
        },
        make,
        attempt: 0,
        loading: None,
        state: State::Ready,
        output: Output::default(),
        silence: Silence { last_life: Instant::now(), hinted: false },
    };
    unfold(start, |mut exchange| async move {
        let item = exchange.next().await?;
        Some((item, exchange))
    })
}

impl Exchange {
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            if let Some(item) = self.output.queue.pop_front() {
                return Some(item);
            }
            match std::mem::replace(&mut self.state, State::Done) {
                State::Done => return None,
                State::Ready => self.connect(),
                State::Waiting(sleep) => {
                    sleep.await;
                    self.connect();
                }
                State::Connecting(mut request) => match self.patiently(&mut request, true).await {
                    Patience::Got(Ok(reading)) => {
                        self.silence.last_life = Instant::now();
                        self.state = State::Reading(Box::new(reading));
                    }
                    Patience::Got(Err(error)) => self.failed(error),
                    Patience::Hint => self.state = State::Connecting(request),
                    Patience::Over(error) => self.failed(error),
                },
                State::Reading(reading) => self.read(reading).await,
            }
        }
    }

    fn connect(&mut self) {
        if let Some(mut error) = self.transport.refused_before(&self.request.body) {
            error.message =
                format!("{} (The same request was refused before and was not sent again.)", error.message);
            return self.failed(error);
        }
        self.attempt += 1;
        self.silence.last_life = Instant::now();
        self.silence.hinted = false;
        self.output.early.clear();
        let transport = Arc::clone(&self.transport);
        let body = self.request.body.clone();
        let id = self.request.logical_id.clone();
        let decoder = (self.make)();
        let (bodies, refused) =
            (std::mem::take(&mut self.request.instead.bodies), Arc::clone(&self.request.instead.refused));
        self.state = State::Connecting(Box::pin(async move {
            let mut accepted = None;
            for (at, shorter) in bodies.iter().enumerate() {
                let response = transport.post(shorter, &id, false).await?;
                let status = response.status().as_u16();
                if !REFUSES_FORM.contains(&status) {
                    accepted = Some(response);
                    break;
                }
                refused(bodies.len() - at - 1, status);
            }
            let mut response = match accepted {
                Some(response) => response,
                None => transport.post(&body, &id, false).await?,
            };
            if transport.can_renew(response.status().as_u16()) {
                // A token can expire early, and clocks differ, so try once more with a new one.
                response = transport.post(&body, &id, true).await?;
            }
            if !response.status().is_success() {
                let error = transport.failure(response).await;
                transport.note_refused(&body, &error);
                return Err(error);
            }
            let header =
                |name: &str| response.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
            let content_type = header("content-type").unwrap_or_else(|| "no content type".to_owned());
            let framed = content_type.starts_with(frames::CONTENT_TYPE);
            Ok(Reading {
                content_type,
                status: response.status().as_u16(),
                request_id: request_id(response.headers()).map(str::to_owned),
                body: Batches::read(response.bytes_stream().boxed()).boxed(),
                parser: SseParser::default(),
                frames: FrameParser::default(),
                decoder,
                shape: if framed { Shape::Frames } else { Shape::Unknown },
                held: Vec::new(),
                bytes: 0,
                fed: Fed::default(),
                told_replaced: false,
            })
        }));
    }

    /// Waits for `future` within the limits on silence. Informs the user once if the wait is long.
    async fn patiently<F: Future + Unpin>(
        &mut self,
        future: &mut F,
        before_first_byte: bool,
    ) -> Patience<F::Output> {
        let settings = self.transport.settings();
        let hint_after = settings.times.hint_after;
        let limit = if before_first_byte && self.transport.local {
            settings.times.idle.max(settings.times.local_first_byte)
        } else {
            settings.times.idle
        };
        loop {
            let until = if self.silence.hinted { limit } else { hint_after.min(limit) };
            let left = until.saturating_sub(self.silence.last_life.elapsed());
            if let Ok(output) = timeout(left, &mut *future).await {
                return Patience::Got(output);
            }
            let silent = self.silence.last_life.elapsed();
            if silent > until + LATE {
                // The process was suspended, so the silence is not the server's.
                self.silence.last_life = Instant::now();
                continue;
            }
            if silent < limit {
                self.silence.hinted = true;
                let text = format!(
                    "{} has been silent for {} s; still waiting.",
                    self.transport.server,
                    silent.as_secs()
                );
                self.output.queue.push_back(Ok(ModelEvent::Notice(text)));
                return Patience::Hint;
            }
            let message = format!("{} sent nothing for {} s.", self.transport.server, silent.as_secs());
            return Patience::Over(
                ModelError::new(ErrorKind::Stalled, message).hint("Try again, or check the server."),
            );
        }
    }

    async fn read(&mut self, mut reading: Box<Reading>) {
        let before_first_byte = reading.bytes == 0;
        let streams = matches!(reading.shape, Shape::Events | Shape::Frames);
        let settled = streams && reading.decoder.assembler().has_reason();
        let mut body = std::mem::replace(&mut reading.body, futures::stream::empty().boxed());
        let got = if settled {
            // The answer is complete; only the end of the stream or the usage is missing.
            match timeout(AFTER_REASON, body.next()).await {
                Ok(item) => Patience::Got(item),
                Err(_) => Patience::Got(None),
            }
        } else {
            self.patiently(&mut body.next(), before_first_byte).await
        };
        reading.body = body;
        match got {
            Patience::Hint => self.state = State::Reading(reading),
            Patience::Over(error) => self.broke(&mut reading, error),
            Patience::Got(Some(Ok(chunk))) => {
                self.silence.last_life = Instant::now();
                match reading.take(&chunk, &self.transport) {
                    Err(error) => self.broke(&mut reading, error),
                    Ok(()) if reading.decoder.ended() => self.finish(reading),
                    Ok(()) => {
                        let waiting = self.output.queue.len();
                        self.pass_on(&mut reading);
                        // A ping shows that the server lives, but is not content: the user is not informed of the wait again.
                        self.silence.hinted &= self.output.queue.len() == waiting;
                        self.state = State::Reading(reading);
                    }
                }
            }
            Patience::Got(Some(Err(_))) if settled => self.finish(reading),
            Patience::Got(Some(Err(_))) => {
                let error = broke_off(&self.transport.server);
                self.broke(&mut reading, error);
            }
            Patience::Got(None) => match reading.close(&self.transport) {
                Ok(()) => self.finish(reading),
                Err(error) => self.broke(&mut reading, error),
            },
        }
    }

    /// Emits the decoder's events. Events before the answer begins are held back, because a retry may follow.
    fn pass_on(&mut self, reading: &mut Reading) {
        reading.tell_replaced();
        let events = reading.decoder.assembler().take();
        if !self.output.begun {
            if !reading.decoder.assembler().has_content() {
                self.output.early.extend(events);
                return;
            }
            self.begin(reading);
        }
        self.output.queue.extend(events.into_iter().map(Ok));
    }

    fn begin(&mut self, reading: &Reading) {
        self.output.begun = true;
        self.server_layout.accepted(self.request.layout);
        self.transport.body.accepted(self.request.bytes());
        self.output.queue.push_back(Ok(ModelEvent::Started { request_id: reading.request_id.clone() }));
        self.output.queue.extend(self.output.early.drain(..).map(Ok));
    }

    fn finish(&mut self, mut reading: Box<Reading>) {
        reading.tell_replaced();
        if reading.decoder.assembler().is_empty_answer() {
            let error = reading
                .malformed(Some("an empty answer"), &self.transport)
                .hint("Try again; if it stays so, try another model.");
            return self.broke(&mut reading, error);
        }
        reading.decoder.assembler().end();
        let events = reading.decoder.assembler().take();
        if !self.output.begun {
            self.begin(&reading);
        }
        self.output.queue.extend(events.into_iter().map(Ok));
        (*reading).drain();
    }

    fn broke(&mut self, reading: &mut Reading, mut error: ModelError) {
        error.request_id = error.request_id.or_else(|| reading.request_id.clone());
        error.status = error.status.or(Some(reading.status));
        error.message = self.transport.redact(&error.message);
        // The text so far is kept, also if it ends in half of a character. Its own error would not say more.
        let _ = reading.flush();
        if self.output.begun || reading.decoder.assembler().has_content() {
            reading.decoder.assembler().broken();
            self.pass_on(reading);
            self.output.queue.push_back(Err(error));
        } else {
            self.failed(error);
        }
    }

    /// Handles a failure before the answer began: waits and sends again, or ends with the error.
    fn failed(&mut self, mut error: ModelError) {
        if error.kind == ErrorKind::TooLarge && error.sent.is_none() {
            let now = Millis(jiff::Timestamp::now().as_millisecond().max(0) as u64);
            self.transport.body.refused(self.request.bytes(), &mut error, now);
        }
        if error.kind == ErrorKind::Template {
            // The same bytes would be refused again, so the caller must prepare the request in another layout, if there is one.
            error.retryable = self.server_layout.refused(self.request.layout, &error.message);
            return self.output.queue.push_back(Err(error));
        }
        if error.kind == ErrorKind::Loading {
            return self.loads(error);
        }
        let status = error.status;
        let text = error.message.clone();
        let max = self.policy.retries_for(error.kind);
        match self.policy.next(self.attempt.max(1), error, jitter()) {
            Ok(delay) => {
                self.output.queue.push_back(Ok(ModelEvent::Retry {
                    attempt: self.attempt,
                    max,
                    delay: Millis(delay.as_millis() as u64),
                    status,
                    error: text,
                }));
                self.state = State::Waiting(self.transport.settings().sleeper.sleep(delay));
            }
            Err(error) => self.output.queue.push_back(Err(error)),
        }
    }

    /// Handles a server that is loading its model. The user is informed once, and it does not count as a failed attempt.
    fn loads(&mut self, error: ModelError) {
        let waited = self.loading.unwrap_or_default();
        match self.policy.next_look(waited, error) {
            Ok(delay) => {
                if self.loading.is_none() {
                    let most = self.policy.max_loading.as_secs();
                    let server = &self.transport.server;
                    let text = format!("{server} is still loading the model; waiting for up to {most} s.");
                    self.output.queue.push_back(Ok(ModelEvent::Notice(text)));
                }
                self.loading = Some(waited + delay);
                self.attempt -= 1;
                self.state = State::Waiting(self.transport.settings().sleeper.sleep(delay));
            }
            Err(error) => self.output.queue.push_back(Err(error)),
        }
    }
}

fn broke_off(server: &str) -> ModelError {
    ModelError::new(ErrorKind::StreamBroken, format!("{server} broke off in the middle of its answer."))
        .hint("Check the network, or try again.")
}

fn no_end(server: &str) -> ModelError {
    let message = format!("{server} ended its answer without an end event.");
    ModelError::new(ErrorKind::StreamBroken, message).hint("Try again; if it stays so, check the server.")
}

enum Patience<T> {
    Got(T),
    Hint,
    Over(ModelError),
}

impl Reading {
    fn take(&mut self, chunk: &[u8], transport: &Transport) -> Result<(), ModelError> {
        self.bytes += chunk.len();
        if self.shape == Shape::Events {
            return self.parser.push(chunk, &mut Feed(self.decoder.as_mut(), &mut self.fed));
        }
        if self.shape == Shape::Frames {
            return self.frames.push(chunk, &mut Feed(self.decoder.as_mut(), &mut self.fed));
        }
        self.held.extend_from_slice(chunk);
        if self.shape == Shape::Unknown {
            self.shape = shape_of(&self.held);
            if self.shape == Shape::Events {
                let held = std::mem::take(&mut self.held);
                return self.parser.push(&held, &mut Feed(self.decoder.as_mut(), &mut self.fed));
            }
        }
        if self.held.len() > MAX_EVENT || (self.shape == Shape::Other && self.held.len() > 4096) {
            return Err(self.malformed(None, transport));
        }
        Ok(())
    }

    /// Says once that bytes of the answer were no text.
    fn tell_replaced(&mut self) {
        if (self.parser.replaced || self.frames.replaced) && !std::mem::replace(&mut self.told_replaced, true)
        {
            let text = "The server's answer has bytes that are not UTF-8; each became \u{fffd}. Check what the model wrote.";
            self.decoder.assembler().notice(text);
        }
    }

    /// Decodes an event that waits in vain for the other half of a character.
    fn flush(&mut self) -> Result<(), ModelError> {
        Feed(self.decoder.as_mut(), &mut self.fed).flush()
    }

    /// Handles the end of the body.
    fn close(&mut self, transport: &Transport) -> Result<(), ModelError> {
        if self.shape == Shape::Frames {
            self.flush()?;
        }
        match self.shape {
            Shape::Events => {
                let rest = self.parser.end(&mut Feed(self.decoder.as_mut(), &mut self.fed));
                let rest = rest.and(self.flush());
                if self.decoder.ended() || self.decoder.assembler().has_reason() {
                    return Ok(());
                }
                // An unreadable event at the very end was cut off, so report a broken stream rather than a malformed event.
                rest.map_err(|error| match error.kind {
                    ErrorKind::StreamBroken => broke_off(&transport.server),
                    _ => error,
                })?;
                Err(no_end(&transport.server))
            }
            Shape::Frames if self.decoder.ended() || self.decoder.assembler().has_reason() => Ok(()),
            Shape::Frames if self.frames.is_cut() => Err(broke_off(&transport.server)),
            Shape::Frames => Err(no_end(&transport.server)),
            Shape::Document => {
                let text = String::from_utf8_lossy(&self.held).into_owned();
                refuse_other(self.decoder.as_mut(), &text)?;
                self.decoder.document(&text)
            }
            Shape::Unknown | Shape::Other => Err(self.malformed(None, transport)),
        }
    }

    /// The error of a body that is not an answer. `what`: the body in words, if they do not follow from its bytes.
    fn malformed(&self, what: Option<&str>, transport: &Transport) -> ModelError {
        let (words, hint) = not_an_answer(&self.held);
        let words = what.map_or_else(|| transport.redact(&words), str::to_owned);
        let id = self.request_id.as_deref().map_or(String::new(), |id| format!(", request {id}"));
        let message = format!(
            "{} answered with {words} (status {}, {}, {} bytes{id}).",
            transport.server, self.status, self.content_type, self.bytes
        );
        ModelError::new(ErrorKind::Malformed, message).hint(hint)
    }

    /// Reads the rest of the body in the background, so that the connection can be used again.
    fn drain(self) {
        let mut body = self.body;
        match body.next().now_or_never() {
            Some(None | Some(Err(_))) => {}
            _ => {
                tokio::spawn(timeout(Duration::from_secs(2), async move {
                    let mut left = 64 * 1024usize;
                    while let Some(Ok(chunk)) = body.next().await {
                        left = left.saturating_sub(chunk.len());
                        if left == 0 {
                            break;
                        }
                    }
                }));
            }
        }
    }
}
