//! A hub over functions of the host: what a program that drives becket does with servers in its own process.

use becket_mcp::elicitation::{Answer, Ask, Question};
use becket_mcp::{Channel, HostServers, Hub, HubSettings, HubTools, ServerConfig, State};
use becket_tool::{ToolSource as _, testing};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
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

struct Nobody;

impl Ask for Nobody {
    fn ask(&self, _: Question) -> BoxFuture<'static, Answer> {
        async { Answer::Cancel }.boxed()
    }
}

/// Settings with a host whose servers add numbers, except the server `broken`.
fn settings() -> HubSettings {
    let channel = |name: &str| -> Arc<dyn Channel> {
        if name == "broken" { Arc::new(Broken) } else { Arc::new(Calculator) }
    };
    HubSettings {
        version: "1".to_owned(),
        host: Some(HostServers::new(channel, Arc::new(Nobody))),
        most_definitions: 100_000,
        ..HubSettings::default()
    }
}

fn of_hosts(names: &[&str]) -> Vec<ServerConfig> {
    names.iter().map(|name| ServerConfig::of_host(name)).collect()
}

fn tools(hub: &Arc<Hub>) -> Vec<String> {
    HubTools(Arc::clone(hub)).tools().into_iter().map(|offer| offer.tool.spec().name.clone()).collect()
}

#[tokio::test]
async fn the_dynamic_set_is_replaced_and_configured_servers_stay() {
    let mut fixed = ServerConfig::of_host("fixed");
    fixed.endpoint = becket_mcp::Endpoint::Stdio {
        command: "/nowhere/at all".to_owned(),
        args: Vec::new(),
        env: std::collections::BTreeMap::new(),
        cwd: None,
    };
    let hub = Hub::start([of_hosts(&["first"]), vec![fixed.clone()]].concat(), settings());
    hub.wait_until_started(Duration::from_secs(30)).await;
    let mut slow = ServerConfig::of_host("b");
    slow.timeout = Some(Duration::from_secs(7));
    for (wanted, added, removed, failed, left) in [
        (of_hosts(&["a", "b"]), &["a", "b"][..], &["first"][..], &[][..], &["a", "b"][..]),
        (of_hosts(&["a", "b"]), &[], &[], &[], &["a", "b"]),
        (vec![slow.clone()], &["b"], &["a", "b"], &[], &["b"]),
        (of_hosts(&["broken"]), &["broken"], &["b"], &["broken"], &[]),
        (of_hosts(&["broken"]), &[], &[], &["broken"], &[]),
        (vec![], &[], &["broken"], &[], &[]),
        (vec![fixed.clone()], &[], &[], &["fixed"], &[]),
        (vec![], &[], &["fixed"], &[], &[]),
    ] {
        let names: Vec<String> = wanted.iter().map(|config| config.name.clone()).collect();
        let change = hub.set_dynamic(wanted).await;
        let errors: Vec<&str> = change.errors.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(change.added, added, "{names:?}");
        assert_eq!(change.removed, removed, "{names:?}");
        assert_eq!(errors, failed, "{names:?}");
        let left: Vec<String> = left.iter().map(|name| format!("mcp__{name}__add")).collect();
        assert_eq!(tools(&hub), left, "{names:?}");
    }
    hub.stop().await;
}

#[tokio::test]
async fn a_server_is_switched_off_and_on_again() {
    let hub = Hub::start(of_hosts(&["calc"]), settings());
    hub.wait_until_started(Duration::from_secs(30)).await;
    let tool = HubTools(Arc::clone(&hub)).tools().remove(0).tool;
    let (env, _) = testing::env(Path::new("/"));
    for _ in 0..3 {
        hub.toggle("calc", false).await.unwrap();
        assert_eq!((hub.statuses()[0].state.clone(), tools(&hub).len()), (State::Disabled, 0));
        let refused = tool.run(json!({"a": 2, "b": 3}), &env).await;
        assert!(refused.is_error && refused.content.contains("is switched off"), "{}", refused.content);
        hub.toggle("calc", true).await.unwrap();
        assert_eq!(tools(&hub), ["mcp__calc__add"]);
        assert_eq!(tool.run(json!({"a": 2, "b": 3}), &env).await.content, "5");
    }
    // The last order counts, however quickly orders follow each other.
    for _ in 0..20 {
        hub.toggle("calc", false).await.unwrap();
        hub.toggle("calc", true).await.unwrap();
        hub.toggle("calc", false).await.unwrap();
    }
    assert!(hub.reconnect("calc"), "a person may start it, too");
    hub.wait_until_started(Duration::from_secs(30)).await;
    assert_eq!(tools(&hub), ["mcp__calc__add"]);
    assert!(hub.toggle("none", true).await.unwrap_err().contains("no MCP server \"none\""));
    hub.stop().await;
}

#[tokio::test]
async fn tools_of_the_host_are_listed_and_called() {
    let settings = settings();
    let hub = Hub::start(vec![ServerConfig::of_host("calc"), ServerConfig::of_host("broken")], settings);
    hub.wait_until_started(Duration::from_secs(30)).await;
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

/// A server may become ready after the request was sent that its call answers, so the agent's list does not have the tool yet.
#[tokio::test]
async fn a_call_of_a_server_that_became_ready_in_the_meantime_runs() {
    let hub = Hub::start(of_hosts(&["calc"]), settings());
    let (env, _) = testing::env(Path::new("/"));
    let source = HubTools(Arc::clone(&hub));
    let early = source.late("mcp__calc__add").expect("it is starting");
    hub.wait_until_started(Duration::from_secs(30)).await;
    let late = source.late("mcp__calc__add").expect("it has the tool");
    for tool in [early, late] {
        assert_eq!(tool.run(json!({"a": 2, "b": 3}), &env).await.content, "5");
    }
    for name in ["mcp__calc__subtract", "mcp__other__add", "add"] {
        assert!(source.late(name).is_none(), "{name}");
    }
    hub.stop().await;
}
