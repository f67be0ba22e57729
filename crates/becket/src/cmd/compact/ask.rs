//! The summary from a model, or from an editor.

use crate::args::ConfigArgs;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::models;
use crate::settings::configuration;
use becket_model::{ErrorKind, Model, ModelError, ModelEvent, ModelInfo, ModelRef, Request, ToolChoice};
use becket_session::Session;
use becket_session::blobs::BlobStore;
use becket_session::context::compaction::{Failure as SummaryFailure, SummaryRequest};
use becket_types::{
    Blobs, Context, ContextMessage, EntryKind, FinishReason, Message, Provenance, SentRequest, Seq, Tokens,
    Usage, hex,
};
use futures::StreamExt as _;
use serde_json::json;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// For all requests of one summary together.
const TIME_LIMIT: Duration = Duration::from_secs(90);

/// A model that is asked for summaries, and what that took.
pub(super) struct Asker {
    model: Arc<dyn Model>,
    blobs: Arc<dyn Blobs>,
    answered: Vec<Answered>,
    left: Duration,
}

/// One request for a summary, for the record.
pub(super) struct Answered {
    prompt: String,
    request: SentRequest,
    usage: Usage,
    cost: f64,
}

impl Answered {
    pub(super) fn entries(&self, session: &Session) -> Vec<EntryKind> {
        let prompt = session.put_blob(self.prompt.as_bytes()).ok();
        let request = SentRequest { prompt, ..self.request.clone() };
        let usage = EntryKind::Usage {
            message: None,
            model: request.model.clone(),
            usage: self.usage,
            cost_usd: self.cost,
            purpose: "summary".to_owned(),
        };
        vec![EntryKind::Request(Box::new(request)), usage]
    }
}

impl Asker {
    pub(super) fn new(
        environment: &Environment,
        cwd: &Path,
        name: Option<&str>,
        window: Option<u64>,
        blobs: BlobStore,
    ) -> Result<Self, Failure> {
        let settings = configuration(environment, cwd, &ConfigArgs::default(), Vec::new(), true)?;
        let mut model_settings = models::model_settings(environment, &settings);
        model_settings.window = window.or(model_settings.window);
        let reference = match name {
            Some(name) => models::parse(name)?,
            None => {
                crate::runtime()?.block_on(models::choose(environment, &settings, &mut model_settings))?
            }
        };
        let model = open(&reference, &model_settings)?;
        Ok(Self { model, blobs: Arc::new(blobs), answered: Vec::new(), left: TIME_LIMIT })
    }

    pub(super) fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    pub(super) fn into_answered(self) -> Vec<Answered> {
        self.answered
    }

    /// Sends one request and waits for its text.
    pub(super) fn ask(
        &mut self,
        request: &SummaryRequest,
    ) -> Result<Result<String, SummaryFailure>, Failure> {
        let context = Context {
            system: Arc::from([Arc::from(request.system.as_str())]),
            messages: vec![Arc::new(ContextMessage {
                message: Arc::new(Message::user(request.prompt.clone())),
                provenance: Provenance { seq: Seq(0), message: None, applied: Vec::new() },
                tokens: Tokens(0),
            })],
            generation: self.answered.len() as u64 + 1,
        };
        let wire = Request {
            context: &context,
            tools: &[],
            tool_choice: ToolChoice::None,
            max_output: request.max_output,
            effort: None,
            layout: None,
            blobs: &self.blobs,
        };
        let started = std::time::Instant::now();
        let mut usage = Usage::default();
        let runtime = crate::runtime()?;
        let (prepared, answer) = loop {
            let prepared = self.model.prepare(&wire).map_err(|e| models::usage(&e))?;
            let stream = self.model.send(prepared.clone());
            let answer = runtime.block_on(async {
                let left = self.left.saturating_sub(started.elapsed());
                tokio::time::timeout(left, text_of(stream, &mut usage)).await
            });
            match answer {
                // Prepared again, the request has a stricter layout.
                Ok(Err(error)) if error.kind == ErrorKind::Template && error.retryable => {}
                Ok(answer) => break (prepared, answer.map_err(|error| failure(&error))),
                Err(_) => break (prepared, Err(SummaryFailure::Timeout)),
            }
        };
        let sent = SentRequest {
            model: self.info().id.clone(),
            purpose: "summary".to_owned(),
            max_output: request.max_output,
            effort: None,
            no_calls: true,
            layout: prepared.layout,
            prompt: None,
            bytes: prepared.len() as u64,
            sha256: hex(&prepared.digest),
        };
        self.left = self.left.saturating_sub(started.elapsed());
        let cost = self.info().prices.map_or(0.0, |prices| prices.cost(&usage).0);
        let prompt = json!({ "system": request.system, "prompt": request.prompt }).to_string();
        self.answered.push(Answered { prompt, request: sent, usage, cost });
        Ok(answer)
    }
}

fn open(reference: &ModelRef, settings: &becket_model::Settings) -> Result<Arc<dyn Model>, Failure> {
    becket_model::open(reference, settings).map_err(|e| {
        let mut failure = models::usage(&e);
        let other = "or --no-model, --model MODEL, --summary FILE";
        failure.hint = Some(failure.hint.map_or_else(|| other.to_owned(), |hint| format!("{hint} {other}")));
        failure
    })
}

async fn text_of(
    mut stream: futures::stream::BoxStream<'static, Result<ModelEvent, ModelError>>,
    usage: &mut Usage,
) -> Result<String, ModelError> {
    let mut text = String::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(ModelEvent::TextDelta { text: delta, .. }) => text.push_str(&delta),
            Ok(ModelEvent::Part { part: becket_types::Part::Text { text: whole, .. }, .. })
                if !text.ends_with(&whole) =>
            {
                text.push_str(&whole);
            }
            Ok(ModelEvent::Usage(reported)) => *usage = reported,
            Ok(ModelEvent::Finish(FinishReason::Refusal | FinishReason::ContentFilter)) => {
                return Err(ModelError::new(ErrorKind::Refusal, "The model refused to write a summary."));
            }
            Ok(_) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(text)
}

fn failure(error: &ModelError) -> SummaryFailure {
    match error.kind {
        ErrorKind::ContextOverflow | ErrorKind::TooLarge => SummaryFailure::Overflow,
        ErrorKind::Refusal => SummaryFailure::Refusal,
        _ => SummaryFailure::Error(error.message.clone()),
    }
}

/// The text as the person's editor leaves it.
pub(super) fn edited(environment: &Environment, text: &str) -> Result<String, Failure> {
    let editor = environment.var("VISUAL").or_else(|| environment.var("EDITOR")).ok_or_else(|| {
        Failure::usage("there is no editor: neither VISUAL nor EDITOR is set")
            .hint("or write the summary to a file and give it: --preview -o FILE, then --summary FILE")
    })?;
    let failed = |e: std::io::Error| Failure::error(format!("cannot edit the summary: {e}"));
    let mut file =
        tempfile::Builder::new().prefix("becket-summary-").suffix(".md").tempfile().map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    // As git does it: the variable may hold arguments, so a shell reads it.
    let status = Command::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(file.path())
        .status()
        .map_err(failed)?;
    if !status.success() {
        return Err(Failure::error(format!("the editor {editor} ended with {status}; nothing was changed"))
            .hint("set VISUAL or EDITOR to one that works, or give the summary as a file: --summary FILE"));
    }
    std::fs::read_to_string(file.path()).map_err(failed)
}
