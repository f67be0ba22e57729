//! Records the requests of a run and the answers of its models.
//!
//! A recording is JSON lines. The first one describes the run ([`RecordingHead`]). `{"model":…}` describes each model before its
//! first request. `{"request":…}` opens an exchange. It contains the body as text: the number of bytes that it shares with
//! the previous request of the same model, and the rest. `{"event":…}` and `{"error":…}` name their exchange, because
//! several may be open at the same time.
//!
//! A recording contains no key and no header. The caller decides where the lines are written. [`crate::Recording`] reads
//! them.

use crate::endpoint::without_login;
use crate::{Endpoint, Kind, Model, ModelError, ModelEvent, ModelInfo, Prepared, Request};
use becket_types::hex;
use futures::stream::{BoxStream, StreamExt as _};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The version of the form of recordings.
pub(crate) const VERSION: u32 = 1;

/// The description of a recorded run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingHead {
    pub version: u32,
    /// Version of becket.
    pub becket: String,
    /// The date in the prompt, such as 2026-11-26.
    pub date: String,
    /// The working directory.
    pub cwd: String,
    /// The model that the run began with, `provider/name`.
    pub model: String,
}

/// A model of a recording, with the facts that its requests depend on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Recorded {
    pub info: ModelInfo,
    pub kind: Option<Kind>,
    pub base_url: Option<String>,
}

/// A line of a recording.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    Recording(RecordingHead),
    Model(Recorded),
    Request {
        exchange: u64,
        model: String,
        sha256: String,
        /// Number of bytes at the start that equal the start of the model's previous request.
        keep: usize,
        /// The rest of the body after these bytes, as text.
        add: String,
    },
    Event {
        exchange: u64,
        event: ModelEvent,
    },
    Error {
        exchange: u64,
        error: ModelError,
    },
}

/// A recording that is being written. All models of a run share it.
#[derive(Clone)]
pub struct Tape(Arc<Mutex<Writing>>);

type Write = Box<dyn FnMut(&str) + Send>;

struct Writing {
    write: Write,
    exchanges: u64,
    /// The last body of each model.
    bodies: BTreeMap<String, String>,
}

impl Writing {
    fn line(&mut self, line: &Line) {
        // Serialization cannot fail for these types. If it did, the error would take the place of the line in the
        // recording.
        let text =
            serde_json::to_string(line).unwrap_or_else(|e| format!("{{\"lost\":{:?}}}", e.to_string()));
        (self.write)(&text);
    }

    /// Begins an exchange and returns its number.
    fn request(&mut self, model: &Recorded, prepared: &Prepared) -> u64 {
        self.exchanges += 1;
        if !self.bodies.contains_key(&model.info.id) {
            self.line(&Line::Model(model.clone()));
        }
        let body = text_of(prepared);
        let before = self.bodies.insert(model.info.id.clone(), body.clone()).unwrap_or_default();
        let keep = shared(&before, &body);
        let add = body[keep..].to_owned();
        let (exchange, id) = (self.exchanges, model.info.id.clone());
        self.line(&Line::Request { exchange, model: id, sha256: hex(&prepared.digest), keep, add });
        exchange
    }
}

/// The body of a request. Bodies are JSON, so they are UTF-8.
pub(crate) fn text_of(prepared: &Prepared) -> String {
    let bytes: Vec<u8> = prepared.body.concat();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The length of the common start of two texts, at a character border.
pub(crate) fn shared(a: &str, b: &str) -> usize {
    let mut end = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    while !b.is_char_boundary(end) {
        end -= 1;
    }
    end
}

impl Tape {
    /// `write` gets one line at a time, without the line ending.
    pub fn new(head: RecordingHead, write: impl FnMut(&str) + Send + 'static) -> Self {
        let mut writing = Writing { write: Box::new(write), exchanges: 0, bodies: BTreeMap::new() };
        writing.line(&Line::Recording(RecordingHead { version: VERSION, ..head }));
        Self(Arc::new(Mutex::new(writing)))
    }

    /// Returns a model that passes its requests on and records them with their answers. `endpoint`: the place of the
    /// model's server.
    pub fn model(&self, inner: Arc<dyn Model>, endpoint: Option<&Endpoint>) -> Arc<dyn Model> {
        let model = Recorded {
            info: inner.info().clone(),
            kind: endpoint.and_then(|endpoint| endpoint.kind),
            base_url: endpoint.and_then(|endpoint| endpoint.base_url.as_deref()).map(without_login),
        };
        Arc::new(Recorder { inner, model, tape: self.clone() })
    }
}

/// Passes requests to a model and records them with their answers.
struct Recorder {
    inner: Arc<dyn Model>,
    model: Recorded,
    tape: Tape,
}

impl Model for Recorder {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn prepare(&self, request: &Request<'_>) -> Result<Prepared, ModelError> {
        self.inner.prepare(request)
    }

    fn send(&self, prepared: Prepared) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let tape = Arc::clone(&self.tape.0);
        let exchange = tape.lock().unwrap_or_else(PoisonError::into_inner).request(&self.model, &prepared);
        let note = move |item: &Result<ModelEvent, ModelError>| {
            let line = match item {
                Ok(event) => Line::Event { exchange, event: event.clone() },
                Err(error) => Line::Error { exchange, error: error.clone() },
            };
            tape.lock().unwrap_or_else(PoisonError::into_inner).line(&line);
        };
        self.inner.send(prepared).inspect(note).boxed()
    }

    fn doubt_limits(&self) -> bool {
        self.inner.doubt_limits()
    }
}
