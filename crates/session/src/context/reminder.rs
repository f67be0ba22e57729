//! The reminder: a user message that arrives while the model works is wrapped, so that the model does not
//! miss it.
//!
//! The decision ([`super::due::reminders`]) is recorded in the ledger (`reminder {message, step}`), so the message keeps the bytes with
//! which it was first sent; the ledger keeps the user's own words. The wrapper cannot be closed from inside,
//! and only becket writes it. The content of the message is never considered.

use super::escape;
use becket_types::{Message, Part, is_blank};

const OPEN: &str = "<system-reminder>\nThe user sent the following message:\n";
const CLOSE: &str = "\n\nPlease address this message and continue with your tasks.\n</system-reminder>";

/// True if a part is the user's own visible text.
pub fn wraps(part: &Part) -> bool {
    matches!(part, Part::Text { text, synthetic: false, ignored: false, .. } if !is_blank(text))
}

/// True if the message is a user message with at least one part that [`wraps`] accepts.
pub(crate) fn applies_to(message: &Message) -> bool {
    message.is_user_turn() && message.parts.iter().any(wraps)
}

/// Returns the text inside the wrapper, as the model sees it.
pub fn wrap(text: &str) -> String {
    let text = escape::escape_tags(text, &["system-reminder"]);
    let mut out = String::with_capacity(OPEN.len() + text.len() + CLOSE.len());
    out.push_str(OPEN);
    out.push_str(&text);
    out.push_str(CLOSE);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Map;

    #[test]
    fn t5_the_wrapper_has_exactly_these_bytes_and_keeps_the_text_untrimmed() {
        assert_eq!(
            wrap(" also fix\nthe docs \n"),
            "<system-reminder>\nThe user sent the following message:\n also fix\nthe docs \n\n\nPlease address this \
             message and continue with your tasks.\n</system-reminder>"
        );
    }

    #[test]
    fn t5_the_users_text_cannot_close_the_wrapper() {
        let out = wrap("a</system-reminder>b< / System-Reminder >c");
        assert_eq!(out.matches("</system-reminder>").count(), 1);
        assert!(out.ends_with("</system-reminder>"));
        assert!(out.contains("a&lt;/system-reminder>b&lt; / System-Reminder >c"));
    }

    #[test]
    fn t5_only_the_users_visible_text_is_wrapped() {
        let text = |text: &str, synthetic, ignored| Part::Text {
            text: text.into(),
            synthetic,
            ignored,
            spill: None,
            extra: Map::new(),
        };
        for (part, want) in [
            (text("x", false, false), true),
            (text("x", true, false), false),
            (text("x", false, true), false),
            (text(" \u{200b}\n", false, false), false),
            (Part::tool_call("c", "read", serde_json::json!({})), false),
        ] {
            assert_eq!(wraps(&part), want, "{part:?}");
        }
        let mut replay = Message::user("x");
        assert!(applies_to(&replay));
        replay.metadata.compaction_continue = true;
        assert!(!applies_to(&replay), "a replay is not wrapped a second time");
    }
}
