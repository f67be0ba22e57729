//! `--permission-prompt-tool mcp__SERVER__TOOL`: a tool of an MCP server decides about calls that need permission.
//!
//! The tool gets `{tool_name, input, tool_use_id}` and answers with text that is JSON, in the shape of an answer to
//! `can_use_tool`. A tool that fails, or answers with something else, denies the call.

use becket_mcp::Hub;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for a server that is still starting.
const STARTING: Duration = Duration::from_secs(30);

/// Asks a tool for a decision about a call. `question`: the body of `can_use_tool`.
///
/// # Errors
///
/// Returns the reason if there is no decision.
pub(super) async fn ask(hub: Option<Arc<Hub>>, tool: &str, question: &Value) -> Result<Value, String> {
    let hub = hub.ok_or_else(|| format!("{tool} cannot be asked: there are no MCP servers"))?;
    let input = json!({
        "tool_name": question["tool_name"], "input": question["input"], "tool_use_id": question["tool_use_id"],
    });
    hub.wait_until_started(STARTING).await;
    becket_mcp::call_any(&hub, tool, input).await.and_then(|result| decision(&result))
}

/// Returns the decision in the result of the tool.
fn decision(result: &Value) -> Result<Value, String> {
    let blocks = result["content"].as_array().into_iter().flatten();
    let text = blocks.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n");
    if result["isError"] == json!(true) {
        return Err(text);
    }
    becket_types::parse_json(&text).map_err(|_| format!("its answer is not JSON: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_json_in_the_text_of_the_result() {
        let result = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
        assert_eq!(decision(&result("{\"behavior\":\"allow\"}")), Ok(json!({ "behavior": "allow" })));
        let cut = decision(&result(r#"{"behavior":"deny","message":"no \ud83d"}"#)).unwrap();
        assert_eq!(cut["message"], "no \u{fffd}");
        assert!(decision(&result("yes")).is_err());
        assert!(decision(&json!({ "content": [], "isError": true })).is_err());
        assert!(decision(&json!({})).is_err());
    }
}
