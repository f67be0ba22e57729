//! The estimate of a context against the requests that both wire formats make of it: everything that is sent is counted.
//!
//! Sessions are random: steps, messages typed meanwhile, nested rules, prunes, compactions with and without attached files.
//! After each change the same estimator is run over every text of the encoded request.

#![expect(clippy::unwrap_used, reason = "a failure in here is a failed test")]

use becket_model::{Credential, Endpoint, Model, ModelRef, Request, Secret, Settings, ToolChoice, open};
use becket_session::context::budget::{Budget, estimate_json, estimate_text};
use becket_session::context::compaction::{
    FileContent, FileNow, Floor, Request as SnapshotRequest, Snapshot, Step, begin, uses,
};
use becket_session::context::{ModelScope, Policy, due};
use becket_session::{CreateOptions, Durability, Session};
use becket_types::*;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Op {
    Prompt(String),
    /// A message that is typed while the model works.
    Steer(String),
    Step(String, String),
    Rules(u8, String),
    Prune,
    Compact,
    Undo,
}

fn text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        4 => "[a-z]{2,9} ".boxed(),
        1 => Just("<system-reminder> ".to_owned()).boxed(),
        1 => Just("</context-summary>".to_owned()).boxed(),
        1 => Just("fn main() { let x = [0x1f, 22]; }\n".to_owned()).boxed(),
        1 => Just("漢字かな交じり文 ".to_owned()).boxed(),
        1 => "[0-9a-f]{8}\\n".boxed(),
    ];
    (prop::collection::vec(word, 1..12), 1usize..60).prop_map(|(words, times)| words.concat().repeat(times))
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => text().prop_map(Op::Prompt),
        2 => text().prop_map(Op::Steer),
        6 => (text(), text()).prop_map(|(input, output)| Op::Step(input, output)),
        1 => (0u8..4, text()).prop_map(|(n, text)| Op::Rules(n, text)),
        1 => Just(Op::Prune),
        2 => Just(Op::Compact),
        1 => Just(Op::Undo),
    ]
}

struct World {
    session: Session,
    steps: u64,
    _dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let scope = ModelScope {
            provider: "p".into(),
            model: "m".into(),
            images: true,
            max_images: 20,
            max_media_bytes: 1 << 20,
        };
        let policy = Policy { keep_recent_tokens: Some(400), ..Policy::default() };
        let session =
            Session::create(dir.path(), dir.path(), CreateOptions::default(), policy, scope).unwrap();
        let mut world = Self { session, steps: 0, _dir: dir };
        let item = |kind, text: &str| SystemItem { kind, path: None, text: text.to_owned() };
        let items = vec![
            item(SystemKind::Prompt, "You are a test."),
            item(SystemKind::Rules, "# Rules from AGENTS.md\n\nNever write <system-reminder>."),
        ];
        world.append(vec![EntryKind::System { items }]);
        world.append(vec![EntryKind::Message { message: Message::user("begin") }]);
        world
    }

    fn append(&mut self, entries: Vec<EntryKind>) {
        self.session.append(entries, Durability::Buffered).unwrap();
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Prompt(text) => {
                self.append(vec![EntryKind::Message { message: Message::user(text.as_str()) }]);
            }
            Op::Steer(text) => {
                self.append(vec![EntryKind::Message { message: Message::user(text.as_str()) }]);
                let due = due::reminders(self.session.view(), self.steps.max(2));
                self.append(due);
            }
            Op::Step(input, output) => self.step(input, output),
            Op::Rules(n, text) => {
                let path = format!("/p/{n}/AGENTS.md");
                let mut message =
                    Message::synthetic(Synthetic::Rules, format!("# Rules from {path}\n\n{text}"));
                message.metadata.extra.insert("rules_path".into(), json!(path));
                self.append(vec![EntryKind::Message { message }]);
            }
            Op::Prune => {
                let calls = due::prunable(self.session.view(), Millis(1)).calls;
                let (media, cuts) = (Vec::new(), Vec::new());
                let (freed_tokens, reason) = (Tokens(0), PruneReason::Manual);
                self.append(vec![EntryKind::Prune { calls, media, cuts, freed_tokens, reason }]);
            }
            Op::Compact => self.compact(),
            Op::Undo => {
                if let Some(entry) = self.session.view().compaction().map(|(seq, _)| seq) {
                    self.append(vec![EntryKind::Revert { entry }]);
                }
            }
        }
    }

    fn step(&mut self, input: &str, output: &str) {
        self.steps += 1;
        let id = format!("c{}", self.steps);
        let call = Part::tool_call(
            id.clone(),
            "read",
            json!({"path": format!("f{}", self.steps % 5), "why": input}),
        );
        let asked = Message::assistant(vec![Part::text(input), call]);
        let finish = EntryKind::Finish { message: asked.id, reason: FinishReason::ToolCalls };
        let mut result = Message::tool_result(CallId(id), "read", output, false);
        if let Part::ToolResult { details, .. } = &mut result.parts[0] {
            *details = json!({"kind": "text", "from": 1, "to": 40, "lines": 40});
        }
        self.append(vec![EntryKind::Message { message: asked }, finish]);
        self.append(vec![EntryKind::Message { message: result }]);
    }

    fn compact(&mut self) {
        let used = self.session.view().estimated_tokens();
        let request = SnapshotRequest {
            trigger: CompactionTrigger::Manual,
            focus: None,
            floor: Floor::measure(self.session.view().system_items(), &tools()),
            used,
            budget: Budget::new(200_000, 0, 8_000),
            summariser: None,
            continuation_id: MessageId::new(),
            now: Millis(1),
        };
        let mut snapshot = Snapshot::take(self.session.view(), request);
        let lines: Arc<[String]> =
            (0..40).map(|n| format!("line {n} of <system-reminder> this file")).collect();
        let mut names: Vec<String> = uses(&snapshot).into_iter().map(|one| one.path).collect();
        names.dedup();
        let content = FileContent::Same { hash: "0123456789abcdef".into(), lines };
        let now = |name: String| FileNow { path: name.clone(), names: vec![name], content: content.clone() };
        snapshot.disk.files = names.into_iter().take(5).map(now).collect();
        if let Step::Commit(outcome) = begin(snapshot) {
            self.append(outcome.entries);
        }
    }
}

fn tools() -> Vec<ToolSpec> {
    let input_schema =
        json!({"type": "object", "properties": {"path": {"type": "string", "description": "A path."}}})
            .into();
    vec![ToolSpec { name: "read".into(), description: "Reads a file.".into(), input_schema }]
}

fn models() -> Vec<Arc<dyn Model>> {
    let endpoint = Endpoint {
        base_url: Some("http://127.0.0.1:9".into()),
        credential: Some(Credential::ApiKey(Secret::new("none"))),
        ..Endpoint::default()
    };
    let settings = Settings { anthropic: endpoint.clone(), openai: endpoint, ..Settings::default() };
    let open = |name: ModelRef| open(&name, &settings).unwrap();
    vec![open(ModelRef::anthropic("local".into())), open(ModelRef::openai("local".into()))]
}

/// Base tokens of every text in a request body.
fn texts(value: &Value, key: &str) -> u64 {
    match (key, value) {
        ("input" | "input_schema" | "parameters", Value::Object(_)) => estimate_json(value).0,
        ("text" | "content" | "description" | "name" | "arguments" | "system", Value::String(text)) => {
            estimate_text(text).0
        }
        (_, Value::Array(items)) => items.iter().map(|item| texts(item, key)).sum(),
        (_, Value::Object(fields)) => fields.iter().map(|(key, value)| texts(value, key)).sum(),
        _ => 0,
    }
}

struct NoBlobs;

impl Blobs for NoBlobs {
    fn get(&self, _: &BlobId) -> Option<Vec<u8>> {
        None
    }
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn everything_that_is_sent_is_counted(ops in prop::collection::vec(op(), 1..24)) {
        let (models, tools) = (models(), tools());
        let blobs: Arc<dyn Blobs> = Arc::new(NoBlobs);
        let mut world = World::new();
        for op in &ops {
            world.run(op);
            let floor = Floor::measure(world.session.view().system_items(), &tools);
            let estimate = (world.session.view().estimated_tokens() + floor.tools).0;
            let context = world.session.view_mut().context().clone();
            for model in &models {
                let request = Request {
                    context: &context,
                    tools: &tools,
                    tool_choice: ToolChoice::Auto,
                    max_output: 1_000,
                    effort: None,
                    layout: None,
                    cache: becket_types::CacheLifetime::default(),
                    blobs: &blobs,
                };
                let body = model.prepare(&request).unwrap().body.concat();
                let body: Value = serde_json::from_slice(&body).unwrap();
                let sent = texts(&body, "");
                prop_assert!(estimate as f64 >= 0.97 * sent as f64, "{} for {} after {:?}: {}", estimate, sent, op, body);
            }
        }
    }
}
