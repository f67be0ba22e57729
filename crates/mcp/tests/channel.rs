//! A hub over functions of the host: what a program that drives becket does with servers in its own process.

use becket_mcp::{Channel, Hub, HubSettings, HubTools, ServerConfig, State};
use becket_tool::{ToolSource as _, testing};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

struct Calculator;

impl Channel for Calculator {
    fn send(&self, message: Value) -> BoxFuture<'static, Result<Option<Value>, String>> {
        let answer = |result: Value| Some(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
        let out = match message["method"].as_str().unwrap_or_default() {
            "initialize" => answer(json!({
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "calc", "version": "1"},
            })),
            "tools/list" => answer(
                json!({"tools": [{"name": "add", "description": "Adds.", "inputSchema": {"type": "object"}}]}),
            ),
            "tools/call" => {
                let arguments = &message["params"]["arguments"];
                let sum = arguments["a"].as_i64().unwrap_or(0) + arguments["b"].as_i64().unwrap_or(0);
                answer(json!({"content": [{"type": "text", "text": sum.to_string()}]}))
            }
            _ => None,
        };
        async move { Ok(out) }.boxed()
    }
}

struct Broken;

impl Channel for Broken {
    fn send(&self, _: Value) -> BoxFuture<'static, Result<Option<Value>, String>> {
        async { Err("the program has ended".to_owned()) }.boxed()
    }
}

#[tokio::test]
async fn tools_of_the_host_are_listed_and_called() {
    let mut channels: BTreeMap<String, Arc<dyn Channel>> = BTreeMap::new();
    channels.insert("calc".to_owned(), Arc::new(Calculator));
    channels.insert("broken".to_owned(), Arc::new(Broken));
    let settings = HubSettings {
        version: "1".to_owned(),
        channels,
        most_definitions: 100_000,
        ..HubSettings::default()
    };
    let hub = Hub::start(vec![ServerConfig::of_host("calc"), ServerConfig::of_host("broken")], settings);
    hub.settled(Duration::from_secs(30)).await;
    let states: Vec<(String, State)> = hub.statuses().into_iter().map(|s| (s.name, s.state)).collect();
    assert!(
        matches!(&states[0], (name, State::Failed(why)) if name == "broken" && why.contains("has ended")),
        "{states:?}"
    );
    assert_eq!(states[1], ("calc".to_owned(), State::Connected { protocol: "2025-06-18".to_owned() }));
    let source = HubTools(Arc::clone(&hub));
    let tools = source.tools();
    let names: Vec<&str> = tools.iter().map(|t| t.tool.spec().name.as_str()).collect();
    assert_eq!(names, ["mcp__calc__add"]);
    let (env, _) = testing::env(Path::new("/"));
    let output = tools[0].tool.run(json!({"a": 2, "b": 3}), &env).await;
    assert_eq!((output.content.as_str(), output.is_error), ("5", false));
    hub.stop().await;
}
