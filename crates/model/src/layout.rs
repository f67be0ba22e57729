//! Finds and remembers the layout of messages that a server's chat template accepts.
//!
//! Every server gets [`WireLayout::Standard`] first. If it refuses the order of messages, the layout becomes stricter, one
//! step for each refusal, and the caller prepares the request again. A stricter layout is saved only after a request with it
//! was answered. If the strictest is refused as well, the saved layout is restored. So a server is asked at most four times
//! in a row, and an error that no layout can avoid changes nothing.

use crate::server_facts::ServerFacts;
use becket_types::WireLayout;
use std::sync::{Mutex, PoisonError};

/// Assistant message between tool results and a user message. Templates of the Mistral family skip calls and results when
/// they check that user and assistant alternate, and Mistral's API refuses a user message directly after a result.
pub(crate) const AFTER_RESULTS: &str = "I have the results.";
/// Assistant message after the system prompt, if the system prompt is sent as a user message.
pub(crate) const AFTER_SYSTEM: &str = "Understood.";

/// The layouts that servers need, as found out so far, by server and model.
pub type Layouts = ServerFacts<WireLayout>;

/// The layout of one server and model.
#[derive(Debug)]
pub(crate) struct ServerLayout {
    key: String,
    layouts: Layouts,
    current: Mutex<WireLayout>,
}

impl ServerLayout {
    /// `expected` is the layout to begin with if nothing was found out yet.
    pub(crate) fn new(key: String, layouts: Layouts, expected: Option<WireLayout>) -> Self {
        let current = Mutex::new(layouts.get(&key).or(expected).unwrap_or_default());
        Self { key, layouts, current }
    }

    pub(crate) fn current(&self) -> WireLayout {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called when the template refused a request with the layout `sent`. Returns true if the layout is stricter now, so that
    /// the request is worth preparing again.
    pub(crate) fn refused(&self, sent: WireLayout, error: &str) -> bool {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if *current > sent {
            // Another request has found a stricter layout meanwhile.
            return true;
        }
        match stricter(sent, error) {
            Some(next) => {
                *current = next;
                true
            }
            None => {
                // No layout helps, so the cause is another one: restore the saved layout.
                *current = self.layouts.get(&self.key).unwrap_or_default();
                false
            }
        }
    }

    /// Called when a request with the layout `sent` was answered.
    pub(crate) fn accepted(&self, sent: WireLayout) {
        if !sent.is_standard() {
            self.layouts.set(&self.key, sent);
        }
    }
}

/// The layout for a chat template, judged by the refusals in its text; `None` if the standard one is accepted.
pub(crate) fn of_template(template: &str) -> Option<WireLayout> {
    let text = template.to_lowercase();
    if text.contains("system role not supported") {
        Some(WireLayout::NoSystem)
    } else if text.contains("single tool-call") || text.contains("alphanumeric") {
        Some(WireLayout::SingleCalls)
    } else {
        None
    }
}

/// The next layout after a refusal with this text; `None` after the strictest.
pub fn stricter(layout: WireLayout, error: &str) -> Option<WireLayout> {
    let error = error.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| error.contains(word));
    let wanted = if says(&["single tool", "alphanumeric", "nonetype"]) {
        WireLayout::SingleCalls
    } else if says(&["system role", "system message"]) {
        WireLayout::NoSystem
    } else if layout == WireLayout::Standard {
        WireLayout::SingleCalls
    } else {
        WireLayout::TextOnly
    };
    let next = if wanted > layout { wanted } else { WireLayout::TextOnly };
    (next > layout).then_some(next)
}

/// A tool call as text, in the form that most models were trained on.
pub(crate) fn call_text(name: &str, input: &serde_json::Value) -> String {
    let call = serde_json::json!({ "name": name, "arguments": input });
    format!("<tool_call>\n{call}\n</tool_call>")
}

/// A tool result as text. The output cannot end the block that holds it.
pub(crate) fn result_text(name: &str, output: &str) -> String {
    let output = output.replace("</tool_response", "&lt;/tool_response");
    format!("<tool_response name=\"{name}\">\n{output}\n</tool_response>")
}

/// The summary of a compaction, as part of a user message.
pub(crate) fn summary_text(text: &str) -> String {
    format!("<context-summary>\n{text}\n</context-summary>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use WireLayout::{NoSystem, SingleCalls, Standard, TextOnly};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    #[test]
    fn each_refusal_makes_the_layout_stricter_until_the_strictest() {
        let alternate = "Conversation roles must alternate user/assistant/user/assistant/...";
        for (layout, error, want) in [
            (Standard, "This model only supports single tool-calls at once!", Some(SingleCalls)),
            (Standard, "Tool call IDs should be alphanumeric strings with length 9!", Some(SingleCalls)),
            (Standard, "System role not supported", Some(NoSystem)),
            (Standard, alternate, Some(SingleCalls)),
            (SingleCalls, alternate, Some(TextOnly)),
            (SingleCalls, "System role not supported", Some(NoSystem)),
            (NoSystem, "System role not supported", Some(TextOnly)),
            (NoSystem, alternate, Some(TextOnly)),
            (TextOnly, alternate, None),
            (TextOnly, "This model only supports single tool-calls at once!", None),
        ] {
            assert_eq!(stricter(layout, error), want, "{layout:?} {error}");
        }
    }

    #[test]
    fn a_layout_is_saved_when_it_was_answered_and_taken_back_when_none_helps() {
        let saved: Arc<Mutex<Vec<BTreeMap<String, WireLayout>>>> = Arc::default();
        let log = Arc::clone(&saved);
        let layouts = Layouts::new(BTreeMap::new(), move |known| log.lock().unwrap().push(known.clone()));
        let server = ServerLayout::new("http://host m".into(), layouts.clone(), None);
        while server.refused(server.current(), "jinja") {}
        assert_eq!(server.current(), Standard, "an error that no layout cures");
        assert!(server.refused(Standard, "System role not supported"));
        assert!(server.refused(Standard, "x"), "a second request that was under way");
        assert_eq!(server.current(), NoSystem);
        assert!(saved.lock().unwrap().is_empty());
        server.accepted(NoSystem);
        server.accepted(NoSystem);
        assert_eq!(*saved.lock().unwrap(), [BTreeMap::from([("http://host m".to_owned(), NoSystem)])]);
        assert_eq!(ServerLayout::new("http://host m".into(), layouts, None).current(), NoSystem);
    }

    #[test]
    fn a_result_cannot_end_its_block() {
        let text = result_text("read", "a</tool_response>b");
        assert_eq!(text.matches("</tool_response>").count(), 1, "{text}");
    }
}
