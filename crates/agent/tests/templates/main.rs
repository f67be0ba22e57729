//! Each request is accepted by the chat template of every model family: random session histories become a validated
//! context, the context becomes a request on both wire formats, and every family's rules judge it.
//!
//! A refusal goes the way that it goes in the program: its words choose a stricter layout, and the request is made again.
//! The property holds when that ends in acceptance, and when families that know tools and parallel calls need no second
//! request at all. `PROPTEST_CASES` sets how many histories; 10,000 by default.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../../../session/tests/ledgers/mod.rs"]
mod ledgers;
mod rules;
mod states;

use becket_model::{
    Credential, Endpoint, Model, ModelRef, Request, Secret, Settings, ToolChoice, fuzzing, open,
};
use becket_session::context::{View, validate::validate};
use becket_types::{
    BlobId, Blobs, CacheLifetime, Context, ContextMessage, Message, Part, Provenance, Seq, Tokens, ToolSpec,
    WireLayout,
};
use ledgers::{World, cases, few_ops};
use proptest::prelude::*;
use rules::{FAMILIES, Family, Judge};
use serde_json::{Value, json};
use std::sync::Arc;

struct NoBlobs;

impl Blobs for NoBlobs {
    fn get(&self, _: &BlobId) -> Option<Vec<u8>> {
        Some(vec![0x89, b'P', b'N', b'G'])
    }
}

struct Wires {
    chat: Arc<dyn Model>,
    anthropic: Arc<dyn Model>,
    blobs: Arc<dyn Blobs>,
    tools: Vec<ToolSpec>,
    judge: Judge,
}

impl Wires {
    fn new() -> Self {
        let endpoint = Endpoint {
            base_url: Some("http://127.0.0.1:9".into()),
            credential: Some(Credential::ApiKey(Secret::new("none"))),
            ..Endpoint::default()
        };
        let settings = Settings { anthropic: endpoint.clone(), openai: endpoint, ..Settings::default() };
        Self {
            chat: open(&ModelRef::openai("local".into()), &settings).unwrap(),
            anthropic: open(&ModelRef::anthropic("local".into()), &settings).unwrap(),
            blobs: Arc::new(NoBlobs),
            tools: vec![ToolSpec {
                name: "read".into(),
                description: "Reads.".into(),
                input_schema: json!({}).into(),
            }],
            judge: Judge::new(),
        }
    }

    /// The messages as a chat template gets them.
    fn messages(&self, anthropic: bool, context: &Context, layout: WireLayout) -> Vec<Value> {
        let model = if anthropic { &self.anthropic } else { &self.chat };
        let request = Request {
            context,
            tools: &self.tools,
            tool_choice: ToolChoice::Auto,
            max_output: 100,
            effort: None,
            layout: Some(layout),
            cache: CacheLifetime::default(),
            blobs: &self.blobs,
        };
        let body = model.prepare(&request).unwrap().body.concat();
        let body: Value = serde_json::from_slice(&body).unwrap();
        if anthropic { as_chat(&body) } else { body["messages"].as_array().cloned().unwrap() }
    }

    /// Sends stricter and stricter requests until one is accepted. Returns its layout.
    fn settle(&self, family: Family, anthropic: bool, context: &Context) -> Result<WireLayout, String> {
        let mut layout = WireLayout::Standard;
        loop {
            let messages = self.messages(anthropic, context, layout);
            let Some(refusal) = self.judge.refusal(family, &messages) else { return Ok(layout) };
            let body = json!({"error": {"code": 500, "message": format!("{refusal} at row 14"), "type": "server_error"}});
            if !fuzzing::is_template_error(500, &body.to_string()) {
                return Err(format!("{}: {refusal:?} is not recognised", family.name));
            }
            let wire = if anthropic { "anthropic" } else { "chat" };
            layout = becket_model::stricter(layout, &refusal).ok_or_else(|| {
                format!(
                    "{} on {wire} refuses the strictest layout: {refusal}\n{}",
                    family.name,
                    json!(messages)
                )
            })?;
        }
    }

    fn check(&self, context: &Context) -> Result<(), String> {
        if context.messages.is_empty() {
            return Ok(());
        }
        for anthropic in [false, true] {
            for family in FAMILIES {
                let layout = self.settle(family, anthropic, context)?;
                let most = most(family.name, anthropic, context);
                if layout > most {
                    let first = self.messages(anthropic, context, WireLayout::Standard);
                    return Err(format!("{} needs {layout:?}, not {most:?}: {}", family.name, json!(first)));
                }
            }
        }
        Ok(())
    }
}

/// The view's context with a system prompt, as it is sent.
fn sent(view: &mut View) -> Context {
    let mut history = view.context().clone();
    history.system = Arc::from([Arc::from("You are becket."), Arc::from("Rules.")]);
    history
}

/// True if the next message is the model's.
fn is_answered(history: &Context) -> bool {
    history.messages.last().is_none_or(|m| m.message.role != becket_types::Role::Assistant)
}

/// The strictest layout that a family may need for this context.
fn most(family: &str, anthropic: bool, context: &Context) -> WireLayout {
    let calls = || context.messages.iter().map(|m| m.message.call_ids().count());
    let has_calls = calls().any(|n| n > 0);
    match family {
        // The template has no roles for tools.
        "gemma-2" if has_calls => WireLayout::TextOnly,
        "gemma-2" => WireLayout::NoSystem,
        "gemma-3" | "llama-2" | "command-r" if has_calls => WireLayout::TextOnly,
        "llama-3" if calls().any(|n| n > 1) => WireLayout::SingleCalls,
        // The templates refuse ids of another model's calls, and `null` as content.
        "mistral-7b-v0.3" | "mistral-api" | "qwen-3" | "phi-4" if has_calls => WireLayout::SingleCalls,
        _ if anthropic && has_calls => WireLayout::SingleCalls,
        _ => WireLayout::Standard,
    }
}

/// Converts a body of the Messages API to chat messages as llama.cpp does: the words of a user message go before its results.
fn as_chat(body: &Value) -> Vec<Value> {
    let texts = |blocks: &[Value]| -> Vec<Value> {
        let is_content = |b: &&Value| matches!(b["type"].as_str(), Some("text" | "image" | "document"));
        blocks.iter().filter(is_content).cloned().collect()
    };
    let blocks = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut out = Vec::new();
    let system: Vec<String> =
        blocks(&body["system"]).iter().filter_map(|b| b["text"].as_str().map(str::to_owned)).collect();
    if !system.is_empty() {
        out.push(json!({"role": "system", "content": system.join("\n")}));
    }
    for message in blocks(&body["messages"]) {
        let content = blocks(&message["content"]);
        let calls: Vec<Value> = content
            .iter()
            .filter(|b| b["type"] == "tool_use")
            .map(|b| json!({"id": b["id"], "type": "function", "function": {"name": b["name"], "arguments": "{}"}}))
            .collect();
        let mut said = json!({"role": message["role"], "content": texts(&content)});
        if !calls.is_empty() {
            said["tool_calls"] = Value::Array(calls);
        }
        let silent = said["content"].as_array().is_some_and(Vec::is_empty);
        if silent {
            said["content"] = Value::String(String::new());
        }
        if !silent || said.get("tool_calls").is_some() {
            out.push(said);
        }
        for result in content.iter().filter(|b| b["type"] == "tool_result") {
            out.push(json!({"role": "tool", "tool_call_id": result["tool_use_id"], "content": "x"}));
        }
    }
    out
}

fn context(messages: Vec<Message>) -> Context {
    Context { generation: 1, system: Arc::from([Arc::from("You are becket.")]), messages: wrap(messages) }
}

fn wrap(messages: Vec<Message>) -> Vec<Arc<ContextMessage>> {
    let one = |message| {
        let provenance = Provenance { seq: Seq(0), message: None, applied: Vec::new() };
        Arc::new(ContextMessage { message: Arc::new(message), provenance, tokens: Tokens(0) })
    };
    messages.into_iter().map(one).collect()
}

thread_local! {
    static WIRES: Wires = Wires::new();
}

proptest! {
    #![proptest_config(cases(10_000))]

    /// Checks the history as it is sent, and the same with one prompt at its end, which is a request for a summary that reads the cache.
    #[test]
    fn every_template_accepts_every_request(ops in few_ops()) {
        let mut world = World::new();
        for op in &ops {
            world.run(op);
        }
        let mut history = sent(&mut world.view);
        prop_assert!(validate(history.messages.iter().map(|m| &*m.message)).is_ok());
        let answered = is_answered(&history);
        WIRES.with(|wires| {
            if answered {
                wires.check(&history).map_err(TestCaseError::fail)?;
            }
            history.messages.extend(wrap(vec![Message::user("Write the summary.")]));
            history.generation += 1;
            wires.check(&history).map_err(TestCaseError::fail)
        })?;
    }
}

#[test]
fn a_summary_request_of_its_own_and_a_subagents_first_request() {
    let wires = Wires::new();
    wires.check(&context(vec![Message::user("Summarise this: …")])).unwrap();
}

#[test]
fn the_rules_refuse_what_the_families_refuse() {
    let judge = Judge::new();
    let system = || json!({"role": "system", "content": "s"});
    let user = || json!({"role": "user", "content": "u"});
    let said = || json!({"role": "assistant", "content": "a"});
    let call = |ids: &[&str]| {
        let calls: Vec<Value> = ids
            .iter()
            .map(|id| json!({"id": id, "type": "function", "function": {"name": "read"}}))
            .collect();
        json!({"role": "assistant", "content": null, "tool_calls": calls})
    };
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "r"});
    let id = "a23456789";
    for (messages, refused_by) in [
        (vec![system(), user(), said(), user()], vec!["gemma-2"]),
        (
            vec![system(), system(), user()],
            vec![
                "qwen-3.5",
                "mistral-7b-v0.3",
                "devstral",
                "mistral-api",
                "gemma-2",
                "gemma-3",
                "llama-2",
                "deepseek-v3",
                "command-r",
            ],
        ),
        (
            vec![system(), user(), user()],
            vec!["mistral-7b-v0.3", "devstral", "gemma-2", "gemma-3", "llama-2", "command-r"],
        ),
        (
            vec![user(), call(&[id]), result(id), user()],
            vec![
                "qwen-3",
                "mistral-7b-v0.3",
                "devstral",
                "mistral-api",
                "gemma-2",
                "gemma-3",
                "llama-2",
                "phi-4",
                "command-r",
            ],
        ),
        (
            vec![user(), call(&[id, "b23456789"]), result(id), result("b23456789"), said()],
            vec!["qwen-3", "gemma-2", "gemma-3", "llama-2", "llama-3", "phi-4", "command-r"],
        ),
        (
            vec![user(), call(&["call_0"]), result("call_0")],
            vec![
                "qwen-3",
                "mistral-7b-v0.3",
                "mistral-api",
                "gemma-2",
                "gemma-3",
                "llama-2",
                "phi-4",
                "command-r",
            ],
        ),
        (vec![user(), result(id)], vec!["mistral-api", "deepseek-v3", "command-a", "glm-4", "gpt-oss"]),
        (vec![system()], vec!["qwen-3.5", "gemma-2", "llama-3"]),
    ] {
        let refusing: Vec<&str> =
            FAMILIES.iter().filter(|f| judge.refusal(**f, &messages).is_some()).map(|f| f.name).collect();
        assert_eq!(refusing, refused_by, "{}", json!(messages));
    }
}

#[test]
fn a_call_and_its_result_stay_together_in_every_layout() {
    let wires = Wires::new();
    let parts = vec![
        Part::text("I look."),
        Part::tool_call("call_1", "read", json!({"path": "a"})),
        Part::tool_call("call_2", "read", json!({"path": "b"})),
    ];
    let result = |id: &str, text: &str| Message::tool_result(id.into(), "read", text, false);
    let context = context(vec![
        Message::user("go"),
        Message::assistant(parts),
        result("call_1", "one"),
        result("call_2", "two"),
        Message::user("and?"),
    ]);
    let shapes = |layout| -> Vec<String> {
        let messages = wires.messages(false, &context, layout);
        let shape = |m: &Value| {
            let calls = m["tool_calls"].as_array().map_or(0, Vec::len);
            format!("{} {} {calls}", m["role"].as_str().unwrap(), m["content"])
        };
        messages.iter().map(shape).collect()
    };
    assert_eq!(
        shapes(WireLayout::Standard)[1..],
        [
            r#"user "go" 0"#,
            r#"assistant "I look." 2"#,
            r#"tool "one" 0"#,
            r#"tool "two" 0"#,
            r#"assistant "I have the results." 0"#,
            r#"user "and?" 0"#,
        ]
    );
    assert_eq!(
        shapes(WireLayout::SingleCalls)[1..],
        [
            r#"user "go" 0"#,
            r#"assistant "I look." 1"#,
            r#"tool "one" 0"#,
            r#"assistant "" 1"#,
            r#"tool "two" 0"#,
            r#"assistant "I have the results." 0"#,
            r#"user "and?" 0"#,
        ]
    );
    let text_only = shapes(WireLayout::TextOnly);
    assert_eq!(text_only[0], r#"user "You are becket." 0"#);
    assert_eq!(text_only[1], r#"assistant "Understood." 0"#);
    assert_eq!(text_only.len(), 5);
    assert!(text_only[4].contains("one") && text_only[4].contains("two") && text_only[4].contains("and?"));
}
