//! A model that answers from a file: for the demo, for tests, and for trials without a key.
//!
//! Deterministic: the answer depends on the number of requests and their content, never on a clock. The format is described
//! in `docs/scripted-model.md`. Requests are encoded as for Chat Completions, so the byte cache and all code that reads
//! requests behave as with a real model, but nothing is sent.

mod format;

use crate::adapter::Memory;
use crate::assemble::{AnswerOf, Assembler};
use crate::chat::{ChatEncoder, head_rest, tail};
use crate::compat::Compat;
use crate::ids::SeenCalls;
use crate::kind::Kind;
use crate::retry::Policy;
use crate::settings::Sleeper;
use crate::{ErrorKind, Model, ModelError, ModelEvent, ModelInfo, Prepared, Request, Settings};
use becket_types::{FinishReason, Message, Millis, Part, Role, Usage};
use format::{Facts, Match, Script, Step};
use futures::stream::{BoxStream, StreamExt as _, unfold};
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Number of prepared requests whose facts are kept.
const KEPT: usize = 8;
/// Bytes that count as one token if the script names no usage.
const BYTES_PER_TOKEN: usize = 4;
/// Longest script, in bytes.
const MAX_SCRIPT: u64 = 64 * 1024 * 1024;

#[derive(Default)]
struct Cursor {
    /// Number of answers that each step has given.
    given: Vec<u32>,
    /// Requests answered, summaries included.
    served: u64,
    last_bytes: usize,
}

/// The model `script:FILE`.
pub struct ScriptedModel {
    info: ModelInfo,
    player: Arc<Player>,
    memory: Memory<ChatEncoder>,
    needs_all: bool,
    pending: Mutex<(u64, VecDeque<(u64, Facts)>)>,
    /// Absent: no failure is retried.
    retries: Option<Retries>,
}

/// The script, and the position in it.
struct Player {
    script: Script,
    cursor: Mutex<Cursor>,
}

/// Limits on retries, which are the same as for a server's failures.
#[derive(Clone)]
struct Retries {
    policy: Policy,
    sleeper: Sleeper,
}

impl ScriptedModel {
    /// Reads the script from a file.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Script`] with the place of the mistake.
    pub fn open(file: &Path) -> Result<Self, ModelError> {
        let name = file.display().to_string();
        let refused = |why: &str| {
            ModelError::new(ErrorKind::Script, format!("The script `{name}` cannot be read: {why}."))
        };
        let unreadable = |error: std::io::Error| refused(&error.to_string());
        // Check before opening: a pipe without a writer would block, and a device may never end.
        if !std::fs::metadata(file).map_err(unreadable)?.is_file() {
            return Err(refused("it is not a regular file"));
        }
        let mut text = String::new();
        let opened = std::fs::File::open(file).map_err(unreadable)?;
        opened.take(MAX_SCRIPT + 1).read_to_string(&mut text).map_err(unreadable)?;
        if text.len() as u64 > MAX_SCRIPT {
            return Err(refused("it is longer than 64 MB"));
        }
        let model = Self::parse(&text, &name)?;
        if model.player.script.steps.is_empty() && model.player.script.summary.is_none() {
            let message = format!("The script `{name}` has no steps, so it answers nothing.");
            return Err(ModelError::new(ErrorKind::Script, message)
                .hint("The page on scripted models of the documentation says how a script is written."));
        }
        Ok(model)
    }

    /// Parses a script. `name` is its name in messages and in the model's id.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Script`] with the place of the mistake.
    pub fn parse(text: &str, name: &str) -> Result<Self, ModelError> {
        let script: Script = serde_json::from_str(text).map_err(|e| {
            ModelError::new(ErrorKind::Script, format!("The script `{name}` is wrong: {e}."))
                .hint("The page on scripted models of the documentation says how a script is written.")
        })?;
        let wire_name = script.name.clone().unwrap_or_else(|| name.to_owned());
        let matchers = script.steps.iter().flat_map(|s| s.when.iter().chain(&s.expect));
        Ok(Self {
            info: ModelInfo {
                id: format!("script:{name}"),
                provider: "script".to_owned(),
                name: wire_name,
                window: script.window,
                input_limit: script.window,
                max_output: script.max_output,
                prices: script.prices,
                images: true,
                reasoning: false,
                cache_ttl: Millis(300_000),
                server: crate::ServerTraits::default(),
                source: "script".to_owned(),
            },
            needs_all: matchers.clone().any(Match::needs_all),
            player: Arc::new(Player {
                cursor: Mutex::new(Cursor { given: vec![0; script.steps.len()], ..Cursor::default() }),
                script,
            }),
            memory: Memory::default(),
            pending: Mutex::default(),
            retries: None,
        })
    }

    /// Replaces the script's window by the user's, if one is set.
    #[must_use]
    pub fn with_window(mut self, window: Option<u64>) -> Self {
        if let Some(window) = window {
            self.info.window = window;
            self.info.input_limit = window;
            self.info.max_output = self.info.max_output.min(window);
        }
        self
    }

    /// Retries failures as those of a server are retried. Each retry is another request, which the next step answers.
    #[must_use]
    pub fn with_retries(mut self, settings: &Settings) -> Self {
        let policy = Policy {
            max_attempts: settings.max_attempts,
            max_wait: settings.times.max_wait,
            max_loading: settings.times.max_loading,
            local: false,
            replaceable: false,
            brief: false,
        };
        self.retries = Some(Retries { policy, sleeper: settings.sleeper.clone() });
        self
    }

    fn facts(&self, request: &Request<'_>, bytes: usize) -> Facts {
        let messages = &request.context.messages;
        let from = messages.iter().rposition(|m| m.message.role == Role::Assistant).map_or(0, |i| i + 1);
        let mut tail = String::new();
        for message in &messages[from..] {
            append(&message.message, &mut tail);
        }
        let mut all = String::new();
        if self.needs_all {
            request.context.system.iter().for_each(|text| {
                all.push_str(text);
                all.push('\n');
            });
            for message in messages {
                append(&message.message, &mut all);
            }
        }
        let headings = |text: &str| text.contains("## Goal") && text.contains("## Next steps");
        let last = messages.last().filter(|m| m.message.role == Role::User);
        let asks = last.is_some_and(|m| headings(&m.message.text()));
        let told = request.tools.is_empty() && request.context.system.iter().any(|text| headings(text));
        Facts {
            tail,
            all,
            tools: request.tools.iter().map(|t| t.name.clone()).collect(),
            summary: asks || told,
            bytes,
        }
    }
}

impl Player {
    /// Chooses the step that answers. Returns its index and the number of its answer, from 1.
    fn choose(&self, facts: &Facts, cursor: &mut Cursor) -> Result<(usize, u32), ModelError> {
        for round in 0..2 {
            let left = |i: usize| cursor.given[i] < self.script.steps[i].repeat.unwrap_or(1);
            let steps = || self.script.steps.iter().enumerate();
            let matching = steps()
                .find(|(i, step)| left(*i) && step.when.as_ref().is_some_and(|m| m.misses(facts).is_none()));
            let next = matching.or_else(|| steps().find(|(i, step)| left(*i) && step.when.is_none()));
            if let Some((i, _)) = next {
                cursor.given[i] += 1;
                return Ok((i, cursor.given[i]));
            }
            if self.script.begin_again && round == 0 {
                cursor.given.fill(0);
            }
        }
        let message = format!("The script has no more answers after {} requests.", cursor.served);
        Err(ModelError::new(ErrorKind::Script, message).hint("Add steps, or set \"loop\": true."))
    }

    fn usage(facts: &Facts, output: usize, cursor: &mut Cursor) -> Usage {
        let context = facts.bytes / BYTES_PER_TOKEN;
        let cached = if facts.bytes >= cursor.last_bytes { cursor.last_bytes / BYTES_PER_TOKEN } else { 0 };
        cursor.last_bytes = facts.bytes;
        Usage {
            input: (context - cached) as u64,
            output: (output / BYTES_PER_TOKEN + 1) as u64,
            cache_read: cached as u64,
            ..Usage::default()
        }
    }

    fn answer(&self, facts: &Facts) -> Result<Answer, ModelError> {
        let mut cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        cursor.served += 1;
        if facts.summary {
            let text = self.script.summary.clone().unwrap_or_else(|| SUMMARY.to_owned());
            let usage = Self::usage(facts, text.len(), &mut cursor);
            return Ok(Answer {
                step: Step { text: Some(text), usage: Some(usage), ..Step::default() },
                calls: Vec::new(),
            });
        }
        let (at, number) = self.choose(facts, &mut cursor)?;
        let step = &self.script.steps[at];
        if let Some(missing) = step.expect.as_ref().and_then(|m| m.misses(facts)) {
            let message = format!("Step {} of the script expected {missing}.", at + 1);
            return Err(ModelError::new(ErrorKind::Script, message));
        }
        let fill = |text: &str| text.replace("{n}", &number.to_string());
        let calls: Vec<(String, String, String)> = step
            .calls
            .iter()
            .enumerate()
            .map(|(i, call)| {
                let id = call.id.as_deref().map_or_else(|| format!("call_{}_{i}", cursor.served), &fill);
                // A call without `input` has none.
                let none = Value::Object(Map::new());
                let input = if call.input.is_null() { none } else { fill_value(&call.input, &fill) };
                let arguments = call.arguments.as_deref().map_or_else(|| input.to_string(), fill);
                (id, call.name.clone(), arguments)
            })
            .collect();
        let text = step.text.as_deref().map(fill);
        let output =
            text.as_ref().map_or(0, String::len) + calls.iter().map(|(.., a)| a.len() + 20).sum::<usize>();
        let usage = step.usage.unwrap_or_else(|| Self::usage(facts, output, &mut cursor));
        let step =
            Step { text, usage: Some(usage), reasoning: step.reasoning.as_deref().map(fill), ..step.clone() };
        Ok(Answer { step, calls })
    }
}

fn append(message: &Message, out: &mut String) {
    for part in &message.parts {
        match part {
            Part::Text { text, .. } => out.push_str(text),
            Part::ToolResult { output, .. } => out.push_str(output),
            Part::ToolCall { input, .. } => out.push_str(&input.to_string()),
            _ => continue,
        }
        out.push('\n');
    }
}

fn fill_value(value: &Value, fill: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(fill(text)),
        Value::Array(items) => Value::Array(items.iter().map(|v| fill_value(v, fill)).collect()),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(k, v)| (k.clone(), fill_value(v, fill))).collect())
        }
        other => other.clone(),
    }
}

/// A summary in the required form, for scripts that have none.
const SUMMARY: &str = "## Goal\nThe task of the first message.\n\n## Instructions\n\n## Progress\n### Done\nThe steps of \
the script so far.\n### In progress\n### Blocked\n\n## Decisions\n\n## Discoveries\n\n## Next steps\nGo on with the \
script.\n\n## Relevant files\n";

struct Answer {
    step: Step,
    /// Id, name, argument text.
    calls: Vec<(String, String, String)>,
}

type Item = (Duration, Result<ModelEvent, ModelError>);

impl Answer {
    /// The events, each with the delay before it.
    fn items(self, of: AnswerOf) -> VecDeque<Item> {
        let step = self.step;
        let mut out: VecDeque<Item> = VecDeque::new();
        let first = Duration::from_millis(step.delay_ms);
        let between = Duration::from_millis(step.chunk_delay_ms);
        let failure = step.error.map(|e| {
            let mut error = ModelError::new(e.kind, e.message);
            error.status = e.status;
            error.retry_after = e.retry_after_ms.map(Millis);
            error
        });
        let silent = step.text.is_none() && step.reasoning.is_none() && self.calls.is_empty();
        if let (Some(error), true) = (&failure, silent) {
            out.push_back((first, Err(error.clone())));
            return out;
        }
        out.push_back((first, Ok(ModelEvent::Started { request_id: None })));
        let mut assembler = Assembler::new(of);
        let mut pass = |assembler: &mut Assembler, wait: Duration| {
            for (i, event) in assembler.take().into_iter().enumerate() {
                out.push_back((if i == 0 { wait } else { Duration::ZERO }, Ok(event)));
            }
        };
        let pieces = |text: &str| split(text, step.chunk);
        for piece in pieces(step.reasoning.as_deref().unwrap_or_default()) {
            assembler.reasoning(&piece);
            pass(&mut assembler, between);
        }
        for piece in pieces(step.text.as_deref().unwrap_or_default()) {
            assembler.text(&piece);
            pass(&mut assembler, between);
        }
        if let Some(error) = failure {
            assembler.broken();
            pass(&mut assembler, Duration::ZERO);
            out.push_back((between, Err(error)));
            return out;
        }
        for (id, name, arguments) in &self.calls {
            let slot = assembler.call(id, name);
            for piece in pieces(arguments) {
                assembler.call_arguments(slot, &piece);
                pass(&mut assembler, between);
            }
            assembler.call_closed(slot);
        }
        if let Some(usage) = step.usage {
            assembler.usage(usage);
        }
        assembler.stopped(step.finish.unwrap_or(if self.calls.is_empty() {
            FinishReason::Stop
        } else {
            FinishReason::ToolCalls
        }));
        assembler.end();
        pass(&mut assembler, Duration::ZERO);
        out
    }
}

fn split(text: &str, bytes: Option<usize>) -> Vec<String> {
    let mut rest = text;
    let mut out = Vec::new();
    while !rest.is_empty() {
        let size =
            bytes.filter(|n| *n > 0).map_or(rest.len(), |n| rest.ceil_char_boundary(n.min(rest.len())));
        let (head, tail) = rest.split_at(size);
        out.push(head.to_owned());
        rest = tail;
    }
    out
}

impl Model for ScriptedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn prepare(&self, request: &Request<'_>) -> Result<Prepared, ModelError> {
        let compat = Compat::for_address(Kind::Chat, "");
        let head = || {
            let mut out = format!("{{\"model\":{}", Value::from(self.info.name.as_str())).into_bytes();
            head_rest(request, &compat, &mut out);
            out
        };
        let (body, digest) = self.memory.body(request, &self.info, &compat, head, tail(request));
        let bytes = body.iter().map(bytes::Bytes::len).sum();
        let facts = self.facts(request, bytes);
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.0 += 1;
        let tag = pending.0;
        if pending.1.len() >= KEPT {
            pending.1.pop_front();
        }
        pending.1.push_back((tag, facts));
        Ok(Prepared {
            body,
            digest,
            tag,
            layout: request.layout.unwrap_or_default(),
            replaceable: false,
            brief: false,
        })
    }

    fn send(&self, prepared: Prepared) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let facts = pending.1.iter().find(|(tag, _)| *tag == prepared.tag).map(|(_, facts)| facts.clone());
        drop(pending);
        let mut retries = self.retries.clone();
        if let Some(retries) = &mut retries {
            (retries.policy.replaceable, retries.policy.brief) = (prepared.replaceable, prepared.brief);
        }
        let mut exchange = ScriptedExchange {
            player: Arc::clone(&self.player),
            facts: facts.unwrap_or_default(),
            of: (self.info.provider.clone(), self.info.name.clone(), self.memory.seen.clone()),
            retries,
            attempt: 0,
            items: VecDeque::new(),
            pause: None,
            begun: false,
        };
        exchange.ask();
        unfold(exchange, |mut exchange| async move {
            let item = exchange.next().await?;
            Some((item, exchange))
        })
        .boxed()
    }
}

/// A request on its way, with its retries.
struct ScriptedExchange {
    player: Arc<Player>,
    facts: Facts,
    /// Provider and model of the answer, and the ids of calls that the model has used.
    of: (String, String, SeenCalls),
    retries: Option<Retries>,
    /// Number of requests that were sent so far.
    attempt: u32,
    items: VecDeque<Item>,
    /// The wait before the request is sent again.
    pause: Option<Duration>,
    begun: bool,
}

impl ScriptedExchange {
    fn ask(&mut self) {
        self.attempt += 1;
        let (provider, model, seen) = self.of.clone();
        let of = AnswerOf {
            provider,
            model,
            cap: 0,
            seen,
            server: "the script".to_owned(),
            fatal_codes: Vec::new(),
            id: Arc::default(),
        };
        self.items = match self.player.answer(&self.facts) {
            Ok(answer) => answer.items(of),
            Err(error) => VecDeque::from([(Duration::ZERO, Err(error))]),
        };
    }

    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        if let (Some(pause), Some(retries)) = (self.pause.take(), &self.retries) {
            retries.sleeper.sleep(pause).await;
            self.ask();
        }
        let (wait, item) = self.items.pop_front()?;
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        match item {
            Err(error) if !self.begun => Some(self.failed(error)),
            item => {
                self.begun = true;
                Some(item)
            }
        }
    }

    /// Handles a failure before the answer began. Scripts are deterministic, so the wait has no jitter.
    fn failed(&mut self, error: ModelError) -> Result<ModelEvent, ModelError> {
        let Some(retries) = self.retries.as_ref().filter(|_| error.kind != ErrorKind::Template) else {
            return Err(error);
        };
        let (max, status, text) =
            (retries.policy.retries_for(error.kind), error.status, error.message.clone());
        let delay = retries.policy.next(self.attempt, error, 0.0)?;
        self.pause = Some(delay);
        let delay = Millis(delay.as_millis() as u64);
        Ok(ModelEvent::Retry { attempt: self.attempt, max, delay, status, error: text })
    }
}
