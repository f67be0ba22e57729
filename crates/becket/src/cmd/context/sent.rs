//! Rebuilds sent requests from the ledger, byte for byte.
//!
//! Model: a `request` entry and the entries before it determine the context, the tools and the settings. The adapter
//! turns them into bytes as it did when the request was sent, and the entry's SHA-256 proves the result. The bytes can
//! depend on the server that the adapter talks to. So the configured server, the provider's own and a foreign one are
//! tried in turn.
//!
//! The ledger is read once, up to the last of the wanted requests. Memory holds only the current view meanwhile.
//!
//! Nothing is sent, locked or written.

use super::{InMemory, LedgerPlace, LoadedSession, Requests, tools_of};
use crate::args::ConfigArgs;
use crate::cmd::store_failure;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::models::{self, info};
use crate::settings::configuration;
use becket_model::{
    Credential, Model, ModelError, ModelRef, Prepared, Proxies, Request, ScriptedModel, Secret, ToolChoice,
};
use becket_session::blobs::BlobStore;
pub(crate) use becket_session::context::compaction::text_of;
use becket_session::context::scale::ContextScale;
use becket_session::context::{Policy, View};
use becket_session::store::Disk;
use becket_types::{
    Blobs, Context, ContextMessage, Entry, EntryKind, Message, Origin, Part, Provenance, SentRequest, Seq,
    Span, SpanKind, Synthetic, Tokens, ToolSpec, Usage, hex, is_blank,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;

/// A request in the ledger.
pub(crate) struct RecordedRequest<'a> {
    /// Number of the request, counted from 1.
    pub number: usize,
    /// Index in the list of entries that [`recorded_requests`] got.
    at: usize,
    pub entry: &'a Entry,
    pub record: &'a SentRequest,
    /// Usage that the provider reported for this request.
    pub usage: Option<Usage>,
    /// Sequence number of the entry with that usage.
    pub reported: Option<Seq>,
    /// Changes since the previous request to content that was already sent, in words.
    pub boundary: Vec<&'static str>,
}

/// Returns all requests of a ledger, oldest first, from its entries about requests.
pub(crate) fn recorded_requests(entries: &[Entry]) -> Vec<RecordedRequest<'_>> {
    let mut found: Vec<RecordedRequest<'_>> = Vec::new();
    let mut boundary = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        match &entry.kind {
            EntryKind::Request(record) => found.push(RecordedRequest {
                number: found.len() + 1,
                at,
                entry,
                record,
                usage: None,
                reported: None,
                boundary: std::mem::take(&mut boundary),
            }),
            // The usage belongs to the newest request with this purpose that has none yet: a summary may have been
            // requested between a request and its usage.
            EntryKind::Usage { purpose, usage, .. } => {
                let open = |s: &&mut RecordedRequest<'_>| s.record.purpose == *purpose && s.usage.is_none();
                if let Some(sent) = found.iter_mut().rev().find(open) {
                    (sent.usage, sent.reported) = (Some(*usage), Some(entry.seq));
                }
            }
            kind => boundary.extend(boundary_of(kind).filter(|what| !boundary.contains(what))),
        }
    }
    found
}

fn boundary_of(kind: &EntryKind) -> Option<&'static str> {
    Some(match kind {
        EntryKind::System { .. } => "system prompt or rules",
        EntryKind::Tools { .. } => "tools",
        EntryKind::ModelSwitch { .. } => "model",
        EntryKind::Compaction(_) => "compaction",
        EntryKind::Prune { .. } | EntryKind::CutInputs { .. } => "prune",
        EntryKind::Revert { .. } => "undo",
        EntryKind::Pin { .. } => "pin",
        EntryKind::Restore { .. } => "restored messages",
        _ => return None,
    })
}

/// A rebuilt request.
pub(crate) struct RebuiltRequest {
    pub body: Vec<u8>,
    /// The bytes have the recorded hash.
    pub proven: bool,
    pub spans: Vec<PlacedSpan>,
}

/// A span, its position in the bytes, and its text.
pub(crate) struct PlacedSpan {
    pub span: Span,
    /// The bytes of the whole message or block that contains the span.
    pub bytes: Option<Range<usize>>,
    pub text: String,
    /// The file, call or step that the span comes from, if there is one.
    pub source: Option<String>,
}

/// Data for rebuilding requests.
pub(crate) struct RequestRebuilder<'a> {
    place: LedgerPlace<'a>,
    /// Entries about requests.
    entries: &'a [Entry],
    /// The model of the last request.
    model: Option<&'a str>,
    policy: Policy,
    settings: becket_model::Settings,
    blobs: Arc<dyn Blobs>,
}

#[derive(Deserialize)]
struct SummaryPrompt {
    system: String,
    prompt: String,
}

impl<'a> RequestRebuilder<'a> {
    pub(crate) fn new(
        environment: &Environment,
        cwd: &Path,
        reading: &'a LoadedSession,
    ) -> Result<Self, Failure> {
        let LoadedSession { summary, entries, model, in_memory, .. } = reading;
        let blobs: Arc<dyn Blobs> = match in_memory {
            Some(InMemory { blobs, .. }) => Arc::clone(blobs) as _,
            None => stored_blobs(&summary.dir),
        };
        Self::from_place(environment, cwd, reading.place(), entries, (model.as_deref(), blobs))
    }

    pub(super) fn from_requests(
        environment: &Environment,
        cwd: &Path,
        requests: &'a Requests,
    ) -> Result<Self, Failure> {
        let Requests { summary, entries, model, proof } = requests;
        let blobs = stored_blobs(&summary.dir);
        let place = LedgerPlace::Stored(&summary.dir, proof);
        Self::from_place(environment, cwd, place, entries, (model.as_deref(), blobs))
    }

    fn from_place(
        environment: &Environment,
        cwd: &Path,
        place: LedgerPlace<'a>,
        entries: &'a [Entry],
        (model, blobs): (Option<&'a str>, Arc<dyn Blobs>),
    ) -> Result<Self, Failure> {
        let settings = configuration(environment, cwd, &ConfigArgs::default(), Vec::new(), true)?;
        let policy = crate::settings::policy(&settings.config);
        let settings = models::model_settings(environment, &settings);
        // Nothing is sent, so no proxy is needed.
        let settings = becket_model::Settings { proxies: Proxies::default(), ..settings };
        Ok(Self { place, entries, model, policy, settings, blobs })
    }

    /// Rebuilds these requests, one result for each. They must be in the order in which they were sent.
    ///
    /// # Errors
    ///
    /// Fails if the ledger has changed since it was read, or a request cannot be built.
    pub(crate) fn rebuild(&self, wanted: &[&RecordedRequest<'_>]) -> Result<Vec<RebuiltRequest>, Failure> {
        let mut made = Vec::with_capacity(wanted.len());
        let scope = becket_agent::scope(&info(self.model, &self.settings));
        let walked = self.place.walk(self.policy.clone(), scope, &mut |entry, view| {
            match wanted.get(made.len()) {
                Some(sent) if sent.entry.seq == entry.seq => made.push(self.rebuild_one(sent, view)),
                Some(_) => {}
                None => return ControlFlow::Break(()),
            }
            ControlFlow::Continue(())
        });
        walked.map_err(store_failure)?;
        if made.len() < wanted.len() {
            return Err(Failure::error("the ledger is not the one that was read: it has become shorter"));
        }
        made.into_iter().collect()
    }

    /// Rebuilds one request. `view`: derived from the entries before it.
    fn rebuild_one(&self, sent: &RecordedRequest<'_>, view: &mut View) -> Result<RebuiltRequest, Failure> {
        let mut last = None;
        for settings in self.candidates() {
            match open(&sent.record.model, &settings) {
                Ok(model) => {
                    let made = self.with_model(sent, model.as_ref(), view)?;
                    if made.proven {
                        return Ok(made);
                    }
                    last.get_or_insert(Ok(made));
                }
                Err(error) => {
                    last.get_or_insert(Err(models::usage(&error)));
                }
            }
        }
        last.unwrap_or_else(|| Err(Failure::error("there is no adapter for this request")))
    }

    /// Returns the settings to try: those in force, then with the provider's own server, then with a foreign one.
    /// Nothing is sent, so missing keys get a placeholder.
    fn candidates(&self) -> Vec<becket_model::Settings> {
        let with = |base: Option<Option<&str>>| {
            let mut settings = self.settings.clone();
            let others = settings.others.values_mut();
            for endpoint in [&mut settings.anthropic, &mut settings.openai].into_iter().chain(others) {
                if let Some(base) = base {
                    endpoint.base_url = base.map(str::to_owned);
                }
                endpoint.credential.get_or_insert_with(|| Credential::ApiKey(Secret::new("unused")));
            }
            settings
        };
        vec![with(None), with(Some(None)), with(Some(Some("http://127.0.0.1:9/v1")))]
    }

    fn with_model(
        &self,
        sent: &RecordedRequest<'_>,
        model: &dyn Model,
        view: &mut View,
    ) -> Result<RebuiltRequest, Failure> {
        let entries = &self.entries[..sent.at];
        view.set_scope(becket_agent::scope(model.info()));
        let specs = self.specs(entries);
        let record = sent.record;
        let prompt = record.prompt.as_ref().map(|id| self.prompt(id)).transpose()?;
        let mut context = view.context().clone();
        let mut tools = specs;
        let mut spans;
        match &prompt {
            None => {
                tools.extend(view.tool_stubs(&tools));
                spans = view_spans(view, &context, &tools, entries);
            }
            Some(SummaryPrompt { system, prompt }) => {
                if system.is_empty() {
                    spans = view_spans(view, &context, &tools, entries);
                } else {
                    let system = Arc::from([Arc::from(system.as_str())]);
                    context = Context { system, ..Context::default() };
                    tools = Vec::new();
                    spans = vec![instructions(&context.system[0])];
                }
                spans.push(prompt_span(&record.purpose, prompt));
                context.messages.push(Arc::new(ContextMessage {
                    message: Arc::new(Message::user(prompt.clone())),
                    provenance: Provenance { seq: Seq(0), message: None, applied: Vec::new() },
                    tokens: Tokens(0),
                }));
            }
        }
        let failed = |e: ModelError| models::usage(&e);
        let request = |context: &Context| -> Result<Prepared, ModelError> {
            model.prepare(&Request {
                context,
                tools: &tools,
                tool_choice: if record.no_calls { ToolChoice::None } else { ToolChoice::Auto },
                max_output: record.max_output,
                effort: record.effort.as_deref(),
                layout: Some(record.layout),
                cache: record.cache,
                blobs: &self.blobs,
            })
        };
        let prepared = request(&context).map_err(failed)?;
        let body: Vec<u8> = prepared.body.iter().flat_map(|piece| piece.iter().copied()).collect();
        let places = message_ranges(&context, &request, &body).map_err(failed)?;
        assign_ranges(&mut spans, &context, &places, &body);
        if let Some(usage) = sent.usage {
            let base = spans.iter().map(|placed| placed.span.tokens).sum();
            let scale = ContextScale::new(usage.context(), base);
            scale.split(spans.iter_mut().map(|placed| &mut placed.span.tokens));
        }
        Ok(RebuiltRequest { proven: hex(&prepared.digest) == record.sha256, body, spans })
    }

    fn specs(&self, entries: &[Entry]) -> Vec<ToolSpec> {
        let blob = entries.iter().rev().find_map(|e| match &e.kind {
            EntryKind::Tools { specs, .. } => Some(specs.clone()),
            _ => None,
        });
        blob.flatten()
            .and_then(|id| self.blobs.get(&id))
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_else(|| tools_of(self.entries, self.model))
    }

    fn prompt(&self, id: &becket_types::BlobId) -> Result<SummaryPrompt, Failure> {
        self.blobs
            .get(id)
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .ok_or_else(|| Failure::error("the text of this summary request is not in the session's blobs"))
    }
}

/// Returns the blobs in a session's folder, which is not changed.
fn stored_blobs(dir: &Path) -> Arc<dyn Blobs> {
    Arc::new(BlobStore::in_memory(Arc::new(Disk), Some(dir)))
}

/// Returns the spans of the view, each with its text and origin.
fn view_spans(view: &View, context: &Context, tools: &[ToolSpec], entries: &[Entry]) -> Vec<PlacedSpan> {
    let models = models_of(entries);
    let subjects: HashMap<&str, &str> =
        view.journal().iter().filter_map(|line| Some((line.call_id, line.subject?))).collect();
    // The text as it is sent: marks that would end the enclosing block are escaped, and blank items are left out.
    let mut system = context.system.iter();
    let mut texts: Vec<(String, Option<String>)> = view
        .system_items()
        .iter()
        .map(|item| {
            let sent = if is_blank(&item.text) { None } else { system.next() };
            let text = sent.map_or_else(String::new, ToString::to_string);
            (text, item.path.as_ref().map(|p| p.display().to_string()))
        })
        .collect();
    texts.extend(tools.iter().map(|t| (t.description.clone(), Some("tool definition".to_owned()))));
    for message in &context.messages {
        texts.extend(
            message
                .message
                .parts
                .iter()
                .map(|part| (text_of(part), source(message, part, &subjects, &models))),
        );
    }
    let spans = view.spans(tools);
    let placed = spans.into_iter().zip(texts);
    placed.map(|(span, (text, source))| PlacedSpan { span, bytes: None, text, source }).collect()
}

/// Returns the spans of the request that would be sent now.
pub(crate) fn current_spans(reading: &mut LoadedSession) -> Vec<PlacedSpan> {
    let (tools, scale) = (reading.tools(), reading.scale());
    let context = reading.view.context().clone();
    let mut spans = view_spans(&reading.view, &context, &tools, &reading.entries);
    scale.split(spans.iter_mut().map(|placed| &mut placed.span.tokens));
    spans
}

/// Returns the byte range of each message. Together the ranges cover everything from the first message to the end of
/// the messages.
///
/// Found by building the request with the first message only, then with two, and so on. The last message of a request
/// may still grow, because messages of one role are joined. So its range ends where its bytes begin to differ from the
/// whole request.
fn message_ranges(
    context: &Context,
    request: &dyn Fn(&Context) -> Result<Prepared, ModelError>,
    body: &[u8],
) -> Result<Vec<Range<usize>>, ModelError> {
    let mut part = Context { messages: Vec::with_capacity(context.messages.len()), ..context.clone() };
    // A request without messages ends only with the end of the body.
    let tail = request(&part)?.body.last().map_or(0, |piece| piece.len());
    let mut out: Vec<Range<usize>> = Vec::with_capacity(context.messages.len());
    for message in &context.messages {
        part.messages.push(Arc::clone(message));
        let prepared = request(&part)?;
        // The first piece holds everything before the messages. The last piece ends the last message and the body.
        let start =
            out.last().map_or_else(|| prepared.body.first().map_or(0, |piece| piece.len()), |r| r.end);
        let closing = prepared.body.last().map_or(&[][..], |piece| &piece[..]);
        let open = prepared.len() - closing.len();
        let closing = &closing[..closing.len().saturating_sub(tail)];
        let rest = body.get(open..).unwrap_or_default();
        let same = rest.iter().zip(closing).take_while(|(a, b)| a == b).count();
        out.push(start..(open + same).max(start));
    }
    Ok(out)
}

/// Gives each span its byte range. Spans of messages get the range of their message in `places`; spans before the
/// messages are found in the body by their text.
fn assign_ranges(spans: &mut [PlacedSpan], context: &Context, places: &[Range<usize>], body: &[u8]) {
    let parts: usize = context.messages.iter().map(|m| m.message.parts.len()).sum();
    let head = spans.len().saturating_sub(parts);
    let (before, messages) = spans.split_at_mut(head);
    let of_message =
        context.messages.iter().zip(places).flat_map(|(m, range)| m.message.parts.iter().map(move |_| range));
    for (placed, range) in messages.iter_mut().zip(of_message) {
        placed.bytes = Some(range.clone());
    }
    let limit = places.first().map_or(body.len(), |range| range.start);
    for placed in before {
        let json = serde_json::to_string(&placed.text).unwrap_or_default();
        let needle = json.trim_matches('"').as_bytes();
        placed.bytes = find(&body[..limit], needle).map(|at| at..at + needle.len());
    }
}

fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    if needle.is_empty() {
        return None;
    }
    text.windows(needle.len()).position(|window| window == needle)
}

fn instructions(system: &str) -> PlacedSpan {
    synthetic(SpanKind::System, "how to summarise", system)
}

fn prompt_span(purpose: &str, prompt: &str) -> PlacedSpan {
    synthetic(SpanKind::Summary, &format!("request for a {purpose}"), prompt)
}

fn synthetic(kind: SpanKind, label: &str, text: &str) -> PlacedSpan {
    let span = Span {
        kind,
        label: label.to_owned(),
        seq: None,
        bytes: text.len() as u64,
        tokens: becket_session::context::budget::estimate_text(text),
        blob: None,
        applied: Vec::new(),
    };
    PlacedSpan { span, bytes: None, text: text.to_owned(), source: Some("becket".to_owned()) }
}

/// Returns the models that answered, each with the entry from which it was used.
fn models_of(entries: &[Entry]) -> Vec<(Seq, &str)> {
    let mut models = Vec::new();
    for entry in entries {
        if let EntryKind::ModelSwitch { model } = &entry.kind {
            models.push((entry.seq, model.as_str()));
        }
    }
    models
}

/// Returns the file, the command or the compaction that a part comes from.
fn source(
    message: &ContextMessage,
    part: &Part,
    subjects: &HashMap<&str, &str>,
    models: &[(Seq, &str)],
) -> Option<String> {
    if let Part::ToolCall { call_id, .. } | Part::ToolResult { call_id, .. } = part {
        let subject = subjects.get(call_id.as_str()).map_or(String::new(), |s| format!(" {s}"));
        return Some(format!("call {call_id}{subject}"));
    }
    let of = &message.message;
    let at = |what: &str| Some(format!("{what} of entry {}", message.provenance.seq));
    match &of.origin {
        Origin::Synthetic(Synthetic::Rules) => {
            of.metadata.extra.get("rules_path").and_then(Value::as_str).map(str::to_owned)
        }
        Origin::Synthetic(
            Synthetic::CompactionSummary | Synthetic::SessionState | Synthetic::CompactionContinue,
        ) => at("compaction"),
        Origin::Synthetic(Synthetic::Reminder) => Some("becket".to_owned()),
        Origin::Synthetic(Synthetic::Hook) => {
            of.metadata.extra.get("hook").and_then(Value::as_str).map(|hook| format!("hook {hook}"))
        }
        Origin::Model => {
            let behind = models.partition_point(|(seq, _)| *seq <= message.provenance.seq);
            let model = behind.checked_sub(1).map_or("model", |at| models[at].1);
            Some(model.to_owned())
        }
        _ => None,
    }
}

/// Opens the model of a request. If its script was deleted, returns an empty script of that name.
fn open(id: &str, settings: &becket_model::Settings) -> Result<Arc<dyn Model>, ModelError> {
    let reference = ModelRef::parse(id)?;
    match becket_model::open(&reference, settings) {
        Err(_) if matches!(reference, ModelRef::Script(_)) => {
            let name = id.trim_start_matches("script:");
            Ok(Arc::new(ScriptedModel::parse(&json!({ "steps": [] }).to_string(), name)?))
        }
        opened => opened,
    }
}
