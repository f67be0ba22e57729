//! Plays a recording back: answers without a network, the same each time.
//!
//! A request gets the answer of the recorded request with the same body. A request that was not recorded gets an error
//! that says where it differs from the next one of the recording.
//!
//! Reads recordings, and writes none. See [`crate::Tape`] for their form.

use crate::credential::{Credential, Secret};
use crate::record::{Line, Recorded, RecordingHead, VERSION, shared, text_of};
use crate::{
    Endpoint, ErrorKind, Figures, Model, ModelError, ModelEvent, ModelInfo, ModelRef, Prepared, Request,
    Settings,
};
use becket_types::{cut_end, hex};
use futures::stream::{BoxStream, StreamExt as _, iter};
use serde_json::Value;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Characters that are shown before and after a difference.
const AROUND: usize = 60;

#[derive(Clone, Debug)]
struct Exchange {
    number: u64,
    model: String,
    sha256: String,
    body: String,
    items: Vec<Result<ModelEvent, ModelError>>,
    played: bool,
}

/// A recording that was read.
#[derive(Debug)]
pub struct Recording {
    head: RecordingHead,
    models: Vec<Recorded>,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
}

impl Recording {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Script`] if the file cannot be read or is not a recording.
    pub fn open(file: &Path) -> Result<Self, ModelError> {
        let cannot = |why: String| {
            ModelError::new(ErrorKind::Script, format!("Cannot read {}: {why}.", file.display()))
                .hint("Name a file that `becket --record FILE` wrote.")
        };
        // Check before opening: a pipe without a writer would block, and a device may never end.
        if !std::fs::metadata(file).map_err(|e| cannot(e.to_string()))?.is_file() {
            return Err(cannot("it is not a regular file".to_owned()));
        }
        let text = std::fs::read_to_string(file).map_err(|e| cannot(e.to_string()))?;
        Self::parse(&text)
            .map_err(|e| ModelError { message: format!("{}: {}", file.display(), e.message), ..e })
    }

    /// Reads the lines of a recording. The last line may be cut, because the recording process may have been killed.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Script`] with the number of the first line that cannot be read.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let (mut head, mut models) = (None, Vec::new());
        let mut exchanges: Vec<Exchange> = Vec::new();
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let bad = |why: &str| {
                let message = format!("Line {} of the recording cannot be read: {why}.", at + 1);
                ModelError::new(ErrorKind::Script, message)
                    .hint("Name a file that `becket --record FILE` wrote.")
            };
            let line = match serde_json::from_str(line) {
                Ok(line) => line,
                Err(_) if at + 1 == lines.len() && at > 0 && !text.ends_with('\n') => break,
                Err(e) => return Err(bad(&e.to_string())),
            };
            match line {
                Line::Recording(found) if found.version > VERSION => {
                    let message = "The recording was made by a newer becket.".to_owned();
                    return Err(ModelError::new(ErrorKind::Script, message).hint("Update becket."));
                }
                Line::Recording(found) => head = Some(found),
                _ if head.is_none() => return Err(bad("it is not the first line of a recording")),
                Line::Model(model) => models.push(model),
                Line::Request { exchange: number, model, sha256, keep, add } => {
                    let before = exchanges.iter().rev().find(|known| known.model == model);
                    let before = before.map_or("", |known| known.body.as_str());
                    let start = before
                        .get(..keep)
                        .ok_or_else(|| bad("it keeps more bytes than the previous request had"))?;
                    let body = format!("{start}{add}");
                    let items = Vec::new();
                    exchanges.push(Exchange { number, model, sha256, body, items, played: false });
                }
                Line::Event { exchange, event } => {
                    items_of(&mut exchanges, exchange)
                        .ok_or_else(|| bad("it has no request"))?
                        .push(Ok(event));
                }
                Line::Error { exchange, error } => {
                    items_of(&mut exchanges, exchange)
                        .ok_or_else(|| bad("it has no request"))?
                        .push(Err(error));
                }
            }
        }
        let Some(head) = head else {
            return Err(ModelError::new(ErrorKind::Script, "The recording is empty."));
        };
        Ok(Self { head, models, exchanges: Arc::new(Mutex::new(exchanges)) })
    }

    /// Returns the first line of the recording: version, date, folder and model of the recorded run.
    pub fn head(&self) -> &RecordingHead {
        &self.head
    }

    /// The models of the recording, `provider/name`.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.models.iter().map(|model| model.info.id.as_str())
    }

    /// Returns a model of the recording. It needs no key.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Script`] if the recording has no request to this model.
    pub fn model(&self, id: &str, settings: &Settings) -> Result<Arc<dyn Model>, ModelError> {
        let Some(model) = self.models.iter().find(|model| model.info.id == id) else {
            let message = format!("The recording has no request to {id}.");
            return Err(ModelError::new(ErrorKind::Script, message));
        };
        let encoder = crate::open(&ModelRef::parse(id)?, &with_place(settings, model))?;
        let exchanges = Arc::clone(&self.exchanges);
        Ok(Arc::new(Replay { info: model.info.clone(), encoder, exchanges }))
    }
}

fn items_of(exchanges: &mut [Exchange], number: u64) -> Option<&mut Vec<Result<ModelEvent, ModelError>>> {
    exchanges.iter_mut().rev().find(|known| known.number == number).map(|known| &mut known.items)
}

/// Settings under which the model makes the same requests as when it was recorded, without a key.
fn with_place(settings: &Settings, model: &Recorded) -> Settings {
    let mut settings = settings.clone();
    let info = &model.info;
    if settings.endpoint(&info.provider).is_none() {
        settings.others.insert(info.provider.clone(), Endpoint::default());
    }
    if let Some(endpoint) = settings.endpoint_mut(&info.provider) {
        endpoint.kind = model.kind;
        endpoint.base_url.clone_from(&model.base_url);
        // Nothing is sent, and a missing key must not prevent the replay.
        endpoint.credential = Some(Credential::ApiKey(Secret::new("replay")));
        // Fields of the user's own are a part of the requests that are compared.
        let body = endpoint.models.iter().find(|own| own.name == info.name).map(|own| own.body.clone());
        endpoint.models.retain(|own| own.name != info.name);
        endpoint.models.push(Figures {
            name: info.name.clone(),
            window: Some(info.window),
            max_output: Some(info.max_output),
            images: Some(info.images),
            reasoning: Some(info.reasoning),
            prices: info.prices,
            body: body.unwrap_or_default(),
            source: Some(info.source.clone()),
        });
    }
    settings
}

/// Answers from a recording.
struct Replay {
    info: ModelInfo,
    /// Makes the bytes of requests. It sends none.
    encoder: Arc<dyn Model>,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
}

impl Model for Replay {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn prepare(&self, request: &Request<'_>) -> Result<Prepared, ModelError> {
        self.encoder.prepare(request)
    }

    fn send(&self, prepared: Prepared) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let mut exchanges = self.exchanges.lock().unwrap_or_else(PoisonError::into_inner);
        let sha256 = hex(&prepared.digest);
        let mut open = exchanges.iter_mut().filter(|known| !known.played && known.model == self.info.id);
        let items = match open.find(|known| known.sha256 == sha256) {
            Some(exchange) => {
                exchange.played = true;
                exchange.items.clone()
            }
            None => {
                let next = exchanges.iter().find(|known| !known.played && known.model == self.info.id);
                vec![Err(unlike(next, &text_of(&prepared)))]
            }
        };
        iter(items).boxed()
    }
}

/// The error for a request that was not recorded. `next`: the recorded request that was expected.
fn unlike(next: Option<&Exchange>, now: &str) -> ModelError {
    let Some(next) = next else {
        let message = "The recording has no more requests to this model, and the run makes another one.";
        return ModelError::new(ErrorKind::Script, message).hint("Record the run again.");
    };
    let parse = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
    let place = difference(&parse(&next.body), &parse(now), String::new());
    let (path, recorded, now) =
        place.unwrap_or_else(|| (String::new(), around(&next.body, now), around(now, &next.body)));
    let at = if path.is_empty() { String::new() } else { format!(" at {path}") };
    let message = format!(
        "Request {} of the recording differs{at}.\nrecorded: {recorded}\nnow:      {now}",
        next.number
    );
    ModelError::new(ErrorKind::Script, message)
        .hint("Undo what changed in the project or the settings since, or record the run again.")
}

/// The first difference of two values: its path, and both texts around it.
fn difference(recorded: &Value, now: &Value, path: String) -> Option<(String, String, String)> {
    if recorded == now {
        return None;
    }
    let missing = Value::String("(nothing)".to_owned());
    match (recorded, now) {
        (Value::Object(a), Value::Object(b)) => {
            let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            keys.map(|key| {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                difference(a.get(key).unwrap_or(&missing), b.get(key).unwrap_or(&missing), path)
            })
            .find_map(|found| found)
        }
        (Value::Array(a), Value::Array(b)) => (0..a.len().max(b.len())).find_map(|at| {
            let path = format!("{path}[{at}]");
            difference(a.get(at).unwrap_or(&missing), b.get(at).unwrap_or(&missing), path)
        }),
        (Value::String(a), Value::String(b)) => Some((path, around(a, b), around(b, a))),
        (a, b) => {
            let (a, b) = (a.to_string(), b.to_string());
            Some((path, around(&a, &b), around(&b, &a)))
        }
    }
}

/// The part of `text` around its first difference from `other`.
fn around(text: &str, other: &str) -> String {
    let at = shared(other, text);
    let mut start = at.saturating_sub(AROUND);
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let shown = cut_end(&text[start..], 2 * AROUND);
    let (before, after) =
        (if start > 0 { "…" } else { "" }, if start + shown.len() < text.len() { "…" } else { "" });
    format!("{before}{shown}{after}").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_difference_is_shown_where_it_begins() {
        let long = "x".repeat(500);
        for (recorded, now, path, shown) in [
            (json!({"a": 1, "b": 2}), json!({"a": 1, "b": 3}), "b", ("2", "3")),
            (json!({"m": ["one", "two"]}), json!({"m": ["one"]}), "m[1]", ("two", "(nothing)")),
            (json!({"m": [{"t": "a b"}]}), json!({"m": [{"t": "a c\nd"}]}), "m[0].t", ("a b", "a c\\nd")),
            (json!({}), json!({"more": true}), "more", ("\"(nothing)\"", "true")),
        ] {
            let (at, a, b) = difference(&recorded, &now, String::new()).unwrap();
            assert_eq!((at.as_str(), (a.as_str(), b.as_str())), (path, shown), "{recorded} {now}");
        }
        assert_eq!(difference(&json!({"a": [1]}), &json!({"a": [1]}), String::new()), None);
        let (_, a, b) =
            difference(&json!(format!("{long}é{long}")), &json!(format!("{long}è{long}")), String::new())
                .unwrap();
        assert!(a.contains('é') && b.contains('è') && a.starts_with('…') && a.ends_with('…'), "{a}");
        assert!(a.len() < 200, "{}", a.len());
    }

    #[test]
    fn files_that_are_no_recording_say_so() {
        let head = r#"{"recording":{"version":1,"becket":"0","date":"d","cwd":"/","model":"p/m"}}"#;
        for (text, words) in [
            (String::new(), "is empty"),
            ("hello".to_owned(), "Line 1"),
            (r#"{"event":{"exchange":1,"event":{"kind":"finish","data":"stop"}}}"#.to_owned(), "Line 1"),
            (
                format!(
                    "{head}\n{{\"request\":{{\"exchange\":1,\"model\":\"p/m\",\"sha256\":\"\",\"keep\":5,\"add\":\"\"}}}}\n"
                ),
                "Line 2",
            ),
            (format!("{head}\nbroken\n"), "Line 2"),
            (head.replace("\"version\":1", "\"version\":99"), "newer"),
        ] {
            let error = Recording::parse(&text).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Script);
            assert!(error.message.contains(words), "{text}: {}", error.message);
        }
        assert!(Recording::parse(&format!("{head}\n{{\"requ")).is_ok(), "a cut last line");
    }
}
