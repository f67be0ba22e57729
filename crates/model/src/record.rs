//! Records a model's answers, and plays them back.
//!
//! A recording is JSON lines: `{"request":{"bytes":N,"hash":"…"}}` opens an exchange, `{"event":…}` and `{"error":…}`
//! follow in order. It contains answers, not requests. The caller decides where the lines are written. A replay needs no
//! network and is the same every time.

use crate::ids::{FNV_START, fnv};
use crate::{ErrorKind, Model, ModelError, ModelEvent, ModelInfo, Prepared, Request};
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt as _, iter};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Request { bytes: usize, hash: String },
    Event(ModelEvent),
    Error(ModelError),
}

impl Line {
    fn request(body: &[Bytes]) -> Self {
        let hash = body.iter().fold(FNV_START, |hash, piece| fnv(hash, piece));
        Self::Request { bytes: body.iter().map(Bytes::len).sum(), hash: format!("{hash:016x}") }
    }
}

type Write = Arc<dyn Fn(&str) + Send + Sync>;

/// Passes requests to a model and records its answers.
pub struct Recorder {
    inner: Arc<dyn Model>,
    write: Write,
}

impl Recorder {
    /// `write` gets one line at a time, without the line ending.
    pub fn new(inner: Arc<dyn Model>, write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { inner, write: Arc::new(write) }
    }
}

fn write_line(write: &Write, line: &Line) {
    // Serialization cannot fail for these types. If it did, the recording would say which line is lost.
    let text = serde_json::to_string(line).unwrap_or_else(|e| format!("{{\"lost\":{:?}}}", e.to_string()));
    write(&text);
}

impl Model for Recorder {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn prepare(&self, request: &Request<'_>) -> Result<Prepared, ModelError> {
        self.inner.prepare(request)
    }

    fn send(&self, prepared: Prepared) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let write = Arc::clone(&self.write);
        write_line(&write, &Line::request(&prepared.body));
        let note = move |item: &Result<ModelEvent, ModelError>| {
            let line = match item {
                Ok(event) => Line::Event(event.clone()),
                Err(error) => Line::Error(error.clone()),
            };
            write_line(&write, &line);
        };
        self.inner.send(prepared).inspect(note).boxed()
    }
}

type Exchange = Vec<Result<ModelEvent, ModelError>>;

/// Answers from a recording, one exchange after the other.
pub struct Replay {
    inner: Arc<dyn Model>,
    exchanges: Mutex<VecDeque<Exchange>>,
}

impl Replay {
    /// `encoder` is the model whose wire format and limits the replay uses. It gets no requests.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Script`] with the number of the first line that cannot be parsed.
    pub fn new(encoder: Arc<dyn Model>, recording: &str) -> Result<Self, ModelError> {
        let mut exchanges: VecDeque<Exchange> = VecDeque::new();
        for (number, line) in recording.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let bad = |why: String| {
                ModelError::new(
                    ErrorKind::Script,
                    format!("Line {} of the recording cannot be read: {why}", number + 1),
                )
            };
            let line = serde_json::from_str(line).map_err(|e| bad(e.to_string()))?;
            let item = match line {
                Line::Request { .. } => {
                    exchanges.push_back(Vec::new());
                    continue;
                }
                Line::Event(event) => Ok(event),
                Line::Error(error) => Err(error),
            };
            exchanges.back_mut().ok_or_else(|| bad("an answer without its request".to_owned()))?.push(item);
        }
        Ok(Self { inner: encoder, exchanges: Mutex::new(exchanges) })
    }
}

impl Model for Replay {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn prepare(&self, request: &Request<'_>) -> Result<Prepared, ModelError> {
        self.inner.prepare(request)
    }

    fn send(&self, _: Prepared) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let next = self.exchanges.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let items = next.unwrap_or_else(|| {
            vec![Err(ModelError::new(ErrorKind::Script, "The recording has no more answers.")
                .hint("It was made with fewer requests; record it anew."))]
        });
        iter(items).boxed()
    }
}
