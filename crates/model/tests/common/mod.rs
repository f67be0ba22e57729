//! Helpers that the tests of this crate share: contexts, requests, and a model that points at a mock server.
#![allow(dead_code, reason = "each test file uses its own part of this")]
#![expect(clippy::unwrap_used, reason = "a failure in here is a failed test")]

pub(crate) mod adapters;

use becket_model::{
    Credential, Endpoint, Kind, Model, ModelError, ModelEvent, ModelRef, Request, Secret, Settings, Sleeper,
    ToolChoice, open,
};
use becket_testkit::{MockServer, Wire};
use becket_types::{
    BlobId, Blobs, CacheLifetime, Context, ContextMessage, FinishReason, Message, Part, Provenance, Seq,
    Tokens, ToolSpec, Usage,
};
use futures::StreamExt as _;
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Default)]
pub(crate) struct MemoryBlobs(pub(crate) HashMap<String, Vec<u8>>);

impl Blobs for MemoryBlobs {
    fn get(&self, id: &BlobId) -> Option<Vec<u8>> {
        self.0.get(id.as_str()).cloned()
    }
}

pub(crate) fn no_blobs() -> Arc<dyn Blobs> {
    Arc::new(MemoryBlobs::default())
}

pub(crate) fn wrap(message: Message) -> Arc<ContextMessage> {
    Arc::new(ContextMessage {
        message: Arc::new(message),
        provenance: Provenance { seq: Seq(0), message: None, applied: Vec::new() },
        tokens: Tokens(0),
    })
}

pub(crate) fn context(messages: Vec<Message>) -> Context {
    Context {
        generation: 1,
        system: Arc::from(vec![Arc::from("You are a test."), Arc::from("Rules.")]),
        messages: messages.into_iter().map(wrap).collect(),
    }
}

pub(crate) fn tools() -> Vec<ToolSpec> {
    ["read", "bash"]
        .iter()
        .map(|name| ToolSpec {
            name: (*name).to_owned(),
            description: format!("The tool {name}."),
            input_schema: json!({"type": "object", "properties": {"path": {"type": "string"}}}).into(),
        })
        .collect()
}

pub(crate) fn request<'a>(
    context: &'a Context,
    tools: &'a [ToolSpec],
    blobs: &'a Arc<dyn Blobs>,
) -> Request<'a> {
    Request {
        context,
        tools,
        tool_choice: ToolChoice::Auto,
        max_output: 1000,
        effort: None,
        layout: None,
        cache: CacheLifetime::default(),
        blobs,
    }
}

/// Settings for a server. Waits between retries pass at once and are noted in the returned list.
pub(crate) fn settings(url: &str) -> (Settings, Arc<Mutex<Vec<Duration>>>) {
    let slept = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&slept);
    let endpoint = Endpoint {
        base_url: Some(url.to_owned()),
        credential: Some(Credential::ApiKey(Secret::new("sk-secret-key"))),
        ..Endpoint::default()
    };
    let sleeper = Sleeper::new(move |duration| {
        note.lock().unwrap().push(duration);
        Box::pin(async {})
    });
    let other = |kind| Endpoint { kind: Some(kind), ..endpoint.clone() };
    let others = BTreeMap::from([
        ("responses".to_owned(), other(Kind::Responses)),
        ("google".to_owned(), other(Kind::Gemini)),
        ("bedrock".to_owned(), other(Kind::Converse)),
    ]);
    let settings =
        Settings { anthropic: endpoint.clone(), openai: endpoint, others, sleeper, ..Settings::default() };
    (settings, slept)
}

/// Every wire format that there is.
pub(crate) const WIRES: [Wire; 5] =
    [Wire::Anthropic, Wire::Chat, Wire::Responses, Wire::Gemini, Wire::Converse];
/// The wire formats whose stream is text.
pub(crate) const TEXT_WIRES: [Wire; 4] = [Wire::Anthropic, Wire::Chat, Wire::Responses, Wire::Gemini];

pub(crate) fn model_ref(wire: Wire) -> ModelRef {
    match wire {
        Wire::Anthropic => ModelRef::anthropic("claude-sonnet-4-5".into()),
        Wire::Chat => ModelRef::openai("org/model-x".into()),
        Wire::Responses => ModelRef::named("responses", "org/model-x"),
        Wire::Gemini => ModelRef::named("google", "gemini-3.5-flash"),
        Wire::Converse => ModelRef::named("bedrock", "amazon.nova-pro-v1:0"),
    }
}

pub(crate) fn model(server: &MockServer, wire: Wire) -> Arc<dyn Model> {
    open(&model_ref(wire), &settings(&server.url()).0).unwrap()
}

/// The result of a stream.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) events: Vec<ModelEvent>,
    pub(crate) error: Option<ModelError>,
}

impl Outcome {
    /// Text deltas, joined.
    pub(crate) fn text(&self) -> String {
        self.events
            .iter()
            .filter_map(
                |e| if let ModelEvent::TextDelta { text, .. } = e { Some(text.as_str()) } else { None },
            )
            .collect()
    }
    pub(crate) fn parts(&self) -> Vec<Part> {
        self.events
            .iter()
            .filter_map(|e| if let ModelEvent::Part { part, .. } = e { Some(part.clone()) } else { None })
            .collect()
    }
    pub(crate) fn calls(&self) -> Vec<(String, String, serde_json::Value)> {
        self.parts()
            .into_iter()
            .filter_map(|p| match p {
                Part::ToolCall { call_id, name, input, .. } => Some((call_id.0, name, input)),
                _ => None,
            })
            .collect()
    }
    pub(crate) fn finish(&self) -> Option<FinishReason> {
        self.events
            .iter()
            .find_map(|e| if let ModelEvent::Finish(reason) = e { Some(reason.clone()) } else { None })
    }
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.events
            .iter()
            .rev()
            .find_map(|e| if let ModelEvent::Usage(usage) = e { Some(*usage) } else { None })
    }
    pub(crate) fn retries(&self) -> usize {
        self.events.iter().filter(|e| matches!(e, ModelEvent::Retry { .. })).count()
    }
    pub(crate) fn notices(&self) -> Vec<String> {
        self.events
            .iter()
            .filter_map(|e| if let ModelEvent::Notice(text) = e { Some(text.clone()) } else { None })
            .collect()
    }
    /// The rule of every stream: one finish or one error, last.
    pub(crate) fn assert_ends_once(&self) {
        let finishes = self.events.iter().filter(|e| matches!(e, ModelEvent::Finish(_))).count();
        assert_eq!(finishes + usize::from(self.error.is_some()), 1, "{self:?}");
        if self.error.is_none() {
            assert!(matches!(self.events.last(), Some(ModelEvent::Finish(_))), "{self:?}");
        }
    }
}

pub(crate) async fn run(model: &dyn Model, context: &Context) -> Outcome {
    let (tools, blobs) = (tools(), no_blobs());
    let prepared = match model.prepare(&request(context, &tools, &blobs)) {
        Ok(prepared) => prepared,
        Err(error) => return Outcome { events: Vec::new(), error: Some(error) },
    };
    let mut stream = model.send(prepared);
    let mut outcome = Outcome::default();
    while let Some(item) = stream.next().await {
        assert!(outcome.error.is_none(), "something came after the error: {item:?}");
        match item {
            Ok(event) => outcome.events.push(event),
            Err(error) => outcome.error = Some(error),
        }
    }
    outcome.assert_ends_once();
    outcome
}

pub(crate) async fn ask(server: &MockServer, wire: Wire) -> Outcome {
    run(model(server, wire).as_ref(), &context(vec![Message::user("hello")])).await
}
