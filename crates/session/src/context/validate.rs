//! The rules by which providers refuse a request, checked before it is sent.
//!
//! The rules are those of the strictest provider, so a request that passes here is accepted by all.
//! [`Validator`] examines each message once, so a driver that keeps it only pays for new messages.
//! [`validate`] checks a whole list, without limits on media.
//!
//! Rules: the first message is of the user or the system; no message is empty; no text block and no result is
//! blank; system and user messages contain text and media; assistant messages contain text, reasoning and calls;
//! a tool message contains one result, then media, and none beside an error; an assistant message does not end in
//! reasoning; inputs are JSON objects; call ids and tool names are `[a-zA-Z0-9_-]`, 1 to 64 characters; ids of
//! calls are unique; the results of a message's calls follow it directly, in the order of the calls, and there are
//! no other results. If the model is known: its limits on media hold, and reasoning is its own.

use super::{ModelScope, media};
use becket_types::{CallId, Message, Part, Role, is_blank};
use std::collections::{HashSet, VecDeque};

/// A rule that a message breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("message {index}: {rule}")]
pub struct Violation {
    /// Index of the message, from 0.
    pub index: usize,
    /// The broken rule, as a part of a sentence.
    pub rule: String,
}

/// Checks a whole request, without limits on media.
///
/// # Errors
///
/// Returns the first rule that is broken.
pub fn validate<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Result<(), Violation> {
    let mut validator = Validator::default();
    for message in messages {
        validator.push(message, None)?;
    }
    validator.end()
}

/// Checks a request message by message.
#[derive(Clone, Debug, Default)]
pub struct Validator {
    index: usize,
    ids: HashSet<CallId>,
    /// Calls of the newest assistant message that wait for their results, in order.
    pending: VecDeque<CallId>,
    images: usize,
    media_bytes: u64,
}

impl Validator {
    /// Returns the number of messages checked so far.
    pub fn len(&self) -> usize {
        self.index
    }

    /// True if no message was checked yet.
    pub fn is_empty(&self) -> bool {
        self.index == 0
    }

    /// Checks the next message. `scope` has the limits on media; `None` for no limits.
    ///
    /// # Errors
    ///
    /// Returns the first rule that the message breaks. The validator must not be used afterwards.
    pub fn push(&mut self, message: &Message, scope: Option<&ModelScope>) -> Result<(), Violation> {
        let result = self.check(message, scope);
        let index = self.index;
        self.index += 1;
        result.map_err(|rule| Violation { index, rule })
    }

    /// Checks that the list may end here: every call has its result.
    ///
    /// # Errors
    ///
    /// Returns the first call without a result.
    pub fn end(&self) -> Result<(), Violation> {
        match self.pending.front() {
            None => Ok(()),
            Some(id) => Err(Violation {
                index: self.index.saturating_sub(1),
                rule: format!("call {id} has no result"),
            }),
        }
    }

    fn check(&mut self, message: &Message, scope: Option<&ModelScope>) -> Result<(), String> {
        if message.parts.is_empty() {
            return Err("the message is empty".to_owned());
        }
        if self.index == 0 && !super::repair::opens(message.role) {
            return Err("the first message is neither the user's nor the system's".to_owned());
        }
        if message.role != Role::Tool
            && let Some(id) = self.pending.front()
        {
            return Err(format!("call {id} has no result before the next message"));
        }
        for (at, part) in message.parts.iter().enumerate() {
            self.check_part(message, at, part, scope)?;
        }
        if message.role == Role::Assistant && matches!(message.parts.last(), Some(Part::Reasoning { .. })) {
            return Err("the assistant message ends in reasoning".to_owned());
        }
        Ok(())
    }

    fn check_part(
        &mut self,
        message: &Message,
        at: usize,
        part: &Part,
        scope: Option<&ModelScope>,
    ) -> Result<(), String> {
        let misplaced = || Err(format!("part {at} does not belong in a message of role {:?}", message.role));
        match (message.role, part) {
            (_, Part::Unknown(_)) => Err(format!("part {at} is of an unknown kind")),
            (Role::Tool, Part::ToolResult { call_id, name, output, .. }) if at == 0 => {
                self.check_name(name)?;
                if is_blank(output) {
                    return Err(format!("the result of {call_id} is blank"));
                }
                match self.pending.pop_front() {
                    Some(id) if id == *call_id => Ok(()),
                    Some(id) => Err(format!("result of {call_id} where the result of {id} is due")),
                    None => Err(format!("result of {call_id} without its call")),
                }
            }
            (Role::Tool, Part::Image { .. } | Part::File { .. }) if at > 0 => {
                if matches!(message.parts[0], Part::ToolResult { is_error: true, .. }) {
                    return Err("media beside a result that is an error".to_owned());
                }
                self.check_media(part, scope)
            }
            (Role::Tool, _) | (_, Part::ToolResult { .. }) => misplaced(),
            (_, Part::Text { ignored: true, .. }) => Err(format!("part {at} is not for the model")),
            (_, Part::Text { text, .. }) if is_blank(text) => Err(format!("text block {at} is blank")),
            (_, Part::Text { .. }) => Ok(()),
            (Role::System | Role::User, Part::Image { .. } | Part::File { .. }) => {
                self.check_media(part, scope)
            }
            (Role::Assistant, Part::ToolCall { call_id, name, input, .. }) => {
                self.check_call(call_id, name, input)
            }
            (Role::Assistant, Part::Reasoning { .. }) => match scope {
                Some(scope) if !super::repair::reasoning_fits(part, scope) => {
                    Err(format!("part {at} is another model's reasoning"))
                }
                _ => Ok(()),
            },
            _ => misplaced(),
        }
    }

    fn check_call(&mut self, id: &CallId, name: &str, input: &serde_json::Value) -> Result<(), String> {
        if !input.is_object() {
            return Err(format!("the input of {id} is not a JSON object"));
        }
        if *super::repair::safe_id(id.as_str()) != *id.as_str() {
            return Err(format!("call id {id:?} has letters that providers refuse"));
        }
        self.check_name(name)?;
        if !self.ids.insert(id.clone()) {
            return Err(format!("call id {id} is used twice"));
        }
        self.pending.push_back(id.clone());
        Ok(())
    }

    #[expect(clippy::unused_self, reason = "one of the checks")]
    fn check_name(&self, name: &str) -> Result<(), String> {
        if *super::repair::safe_name(name) == *name {
            Ok(())
        } else {
            Err(format!("tool name {name:?} has letters that providers refuse"))
        }
    }

    fn check_media(&mut self, part: &Part, scope: Option<&ModelScope>) -> Result<(), String> {
        let Some(scope) = scope else { return Ok(()) };
        if let Some(why) = media::unsendable(part, scope) {
            return Err(format!("media that cannot be sent: {why}"));
        }
        self.images += 1;
        self.media_bytes += media::bytes(part);
        if self.images > scope.max_images {
            return Err(format!("more than {} images", scope.max_images));
        }
        if self.media_bytes > scope.max_media_bytes {
            return Err(format!("more than {} bytes of media", scope.max_media_bytes));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(id: &str) -> Part {
        Part::tool_call(id, "read", json!({}))
    }

    fn result(id: &str) -> Message {
        Message::tool_result(id.into(), "read", "out", false)
    }

    #[test]
    fn rules_by_which_providers_refuse() {
        let user = || Message::user("hi");
        let assistant = Message::assistant;
        let mut reasoning_last = assistant(vec![Part::text("x")]);
        reasoning_last.parts.push(Part::Reasoning {
            text: "hm".into(),
            signature: None,
            redacted: None,
            provider: "p".into(),
            model: "m".into(),
            spill: None,
            extra: serde_json::Map::new(),
        });
        let table: Vec<(&str, Vec<Message>, Option<usize>)> = vec![
            ("nothing", vec![], None),
            ("a chat", vec![user(), assistant(vec![Part::text("yes")]), user()], None),
            ("pairs", vec![user(), assistant(vec![call("a"), call("b")]), result("a"), result("b")], None),
            ("first message is the model's", vec![assistant(vec![Part::text("x")])], Some(0)),
            ("first message is a result", vec![result("a")], Some(0)),
            ("empty message", vec![user(), assistant(vec![])], Some(1)),
            ("blank text", vec![user(), assistant(vec![Part::text("\u{a0}\n")])], Some(1)),
            ("call without result at the end", vec![user(), assistant(vec![call("a")])], Some(1)),
            ("call without result in between", vec![user(), assistant(vec![call("a")]), user()], Some(2)),
            (
                "results out of order",
                vec![user(), assistant(vec![call("a"), call("b")]), result("b")],
                Some(2),
            ),
            ("result without call", vec![user(), result("a")], Some(1)),
            ("doubled result", vec![user(), assistant(vec![call("a")]), result("a"), result("a")], Some(3)),
            (
                "id used twice",
                vec![
                    user(),
                    assistant(vec![call("a")]),
                    result("a"),
                    assistant(vec![call("a")]),
                    result("a"),
                ],
                Some(3),
            ),
            (
                "input is no object",
                vec![user(), assistant(vec![Part::tool_call("a", "read", json!([]))])],
                Some(1),
            ),
            (
                "bad tool name",
                vec![user(), assistant(vec![Part::tool_call("a", "re ad", json!({}))])],
                Some(1),
            ),
            ("bad id", vec![user(), assistant(vec![Part::tool_call("a b", "read", json!({}))])], Some(1)),
            ("ends in reasoning", vec![user(), reasoning_last], Some(1)),
            ("call in a user message", vec![Message { parts: vec![call("a")], ..user() }], Some(0)),
        ];
        for (name, messages, broken) in table {
            let got = validate(&messages).err().map(|v| v.index);
            assert_eq!(got, broken, "{name}");
        }
    }

    #[test]
    fn message_by_message_is_the_same_as_the_whole_list() {
        let messages = vec![
            Message::user("x"),
            Message::assistant(vec![call("a")]),
            result("a"),
            Message::user("y"),
            result("z"),
        ];
        let mut validator = Validator::default();
        let step = messages.iter().try_for_each(|m| validator.push(m, None));
        assert_eq!(step.unwrap_err(), validate(&messages).unwrap_err());
        assert_eq!(validator.len(), 5);
    }
}
