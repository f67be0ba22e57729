//! Prompts of servers: `/mcp__server__prompt` with arguments.

use crate::hub::Hub;
use crate::naming;
use becket_types::{cut_end, cut_end_at_word};
use rmcp::model::{ContentBlock, GetPromptRequestParams, ResourceContents, Role};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

/// Maximum time for the text of a prompt.
const LIMIT: Duration = Duration::from_mins(1);
/// Maximum length in bytes. A longer text is cut.
const LONGEST: usize = 200 * 1024;

/// A prompt as a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptInfo {
    /// `mcp__server__prompt`.
    pub command: String,
    pub server: String,
    pub name: String,
    pub description: String,
    /// Names of the arguments, and true for required ones.
    pub arguments: Vec<(String, bool)>,
}

/// The text of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptText(pub String);

impl Hub {
    /// Returns all prompts with the names of their commands.
    pub fn prompts(&self) -> Vec<PromptInfo> {
        let (mut taken, mut out) = (BTreeSet::new(), Vec::new());
        for server in self.servers() {
            for prompt in &server.listing().prompts {
                let command = naming::tool_name(&server.config.name, &prompt.name, &taken);
                if !taken.insert(command.to_ascii_lowercase()) {
                    continue;
                }
                let about = prompt.description.as_deref().unwrap_or_default();
                let arguments = prompt.arguments.iter().flatten();
                out.push(PromptInfo {
                    command,
                    server: server.config.name.clone(),
                    name: prompt.name.clone(),
                    description: cut_end(&becket_tool::text::clean(about.trim()), 300).to_owned(),
                    arguments: arguments.map(|a| (a.name.clone(), a.required.unwrap_or(false))).collect(),
                });
            }
        }
        out
    }

    /// Returns the text of the prompt for a command. `words`: arguments in order, or as `name=value`.
    ///
    /// # Errors
    ///
    /// Returns a message for people: no such prompt, a missing argument, or the server's own error.
    pub async fn prompt(&self, command: &str, words: &[String]) -> Result<PromptText, String> {
        let wanted = command.trim_start_matches('/');
        let prompts = self.prompts();
        let prompt = prompts.iter().find(|p| p.command.eq_ignore_ascii_case(wanted));
        let prompt = prompt.ok_or_else(|| format!("no MCP server has the prompt {wanted}"))?;
        let arguments = arguments(prompt, words)?;
        let server =
            self.server(&prompt.server).ok_or_else(|| format!("there is no MCP server {}", prompt.server))?;
        let live = server.ready().await.map_err(|why| format!("the MCP server {} {why}", prompt.server))?;
        let mut params = GetPromptRequestParams::new(prompt.name.clone());
        params.arguments = (!arguments.is_empty()).then_some(arguments);
        let answer = tokio::time::timeout(LIMIT, live.peer.get_prompt_once(params)).await;
        let answer = answer.map_err(|_| {
            format!("the MCP server {} gave no prompt in {} s", prompt.server, LIMIT.as_secs())
        })?;
        let answer = answer.map_err(|e| format!("the MCP server {}: {e}", prompt.server))?;
        let rmcp::model::GetPromptResponse::Complete(result) = answer else {
            return Err(format!(
                "the prompt {wanted} asks for further input, which becket does not offer for prompts"
            ));
        };
        let mut out = String::new();
        for message in result.messages {
            if !out.is_empty() {
                out.push_str("\n\n");
            }
            if message.role == Role::Assistant {
                out.push_str("Assistant: ");
            }
            out.push_str(&text(message.content));
        }
        Ok(PromptText(cut_end_at_word(&becket_tool::text::clean(&out), LONGEST).to_owned()))
    }
}

fn arguments(prompt: &PromptInfo, words: &[String]) -> Result<rmcp::model::JsonObject, String> {
    let mut out = rmcp::model::JsonObject::new();
    let mut plain = Vec::new();
    for word in words {
        match word.split_once('=') {
            Some((name, value)) if prompt.arguments.iter().any(|(known, _)| known == name) => {
                out.insert(name.to_owned(), Value::from(value));
            }
            _ => plain.push(word.as_str()),
        }
    }
    let open: Vec<String> = prompt
        .arguments
        .iter()
        .map(|(name, _)| name.clone())
        .filter(|name| !out.contains_key(name))
        .collect();
    let mut plain = plain.into_iter().peekable();
    for (index, name) in open.iter().enumerate() {
        let Some(word) = plain.next() else { break };
        // The last argument takes all remaining words.
        let value = if index + 1 == open.len() {
            std::iter::once(word).chain(plain.by_ref()).collect::<Vec<_>>().join(" ")
        } else {
            word.to_owned()
        };
        out.insert(name.clone(), Value::from(value));
    }
    let missing: Vec<&str> = prompt
        .arguments
        .iter()
        .filter(|(name, required)| *required && !out.contains_key(name))
        .map(|(name, _)| name.as_str())
        .collect();
    if missing.is_empty() {
        return Ok(out);
    }
    Err(format!(
        "/{} needs {}: write them in this order, or as name=value",
        prompt.command,
        missing.join(", ")
    ))
}

fn text(content: ContentBlock) -> String {
    match content {
        ContentBlock::Text(text) => text.text,
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("[resource {uri}]\n{text}"),
            _ => "[a resource that is no text]".to_owned(),
        },
        ContentBlock::Image(image) => format!("[an image of type {}]", image.mime_type),
        ContentBlock::Audio(audio) => format!("[audio of type {}]", audio.mime_type),
        ContentBlock::ResourceLink(link) => format!("[resource {} at {}]", link.name, link.uri),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_arguments() {
        let prompt = PromptInfo {
            command: "mcp__s__p".into(),
            server: "s".into(),
            name: "p".into(),
            description: String::new(),
            arguments: vec![("city".into(), true), ("note".into(), false)],
        };
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (given, wanted) in [
            ("Rome", serde_json::json!({"city": "Rome"})),
            ("Rome a b c", serde_json::json!({"city": "Rome", "note": "a b c"})),
            ("note=x Rome", serde_json::json!({"city": "Rome", "note": "x"})),
            ("city=Rome a=b", serde_json::json!({"city": "Rome", "note": "a=b"})),
        ] {
            assert_eq!(Value::Object(arguments(&prompt, &words(given)).unwrap()), wanted, "{given}");
        }
        assert!(arguments(&prompt, &[]).unwrap_err().contains("needs city"));
    }
}
