//! The continuation: the one message that follows a compaction. It is chosen from the session's state, never
//! guessed.
//!
//! The choice depends on the snapshot before the compaction. There are three branches (media, unanswered,
//! mid-task), or no message if the session awaits the user. The message has the origin `CompactionContinue`
//! and `metadata.compaction_continue`. Therefore every user interface hides it, no reminder wraps it, and it
//! does not count as a user turn.
//!
//! Appends nothing. The caller supplies the id of the message.

use becket_types::{Message, MessageId, Metadata, Origin, Part, Role, Seq, Synthetic, TurnState, is_blank};
use serde_json::Map;
use std::borrow::Borrow;

/// Prefix of the text in the media branch, before the user's own words.
pub const MEDIA_PREFIX: &str = "[Continuing from compaction] ";
/// Text in the media branch if the user's message had no words.
pub(crate) const MEDIA_ONLY: &str = "[Continuing task — previous message contained media attachments]";
/// Text in the mid-task branch.
pub const CONTINUE: &str = "continue";

/// The kind of continuation that a snapshot needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// The last user message has an image or attachment, and the model has answered it.
    Media,
    /// The last user message has no answer. It is repeated with its media.
    Unanswered,
    /// The model is in the middle of its work, or there is no user message at all.
    MidTask,
}

/// True if the words of this message are the user's: typed, or repeated by an earlier continuation because
/// they had no answer.
pub fn is_users_words(message: &Message) -> bool {
    message.is_user_turn() || is_replay(message)
}

/// True for a continuation of the unanswered branch: the user's own parts under another id.
pub fn is_replay(message: &Message) -> bool {
    message.role == Role::User
        && message.metadata.compaction_continue
        && !message.metadata.had_media
        && !message.parts.iter().any(|p| matches!(p, Part::Text { synthetic: true, .. }))
}

/// Returns the index of the last message with the user's words.
pub fn last_user<M: Borrow<Message>>(messages: &[M]) -> Option<usize> {
    messages.iter().rposition(|m| is_users_words(m.borrow()))
}

/// Returns the branch for the messages before a compaction. The turn state is not considered.
pub fn branch<M: Borrow<Message>>(before: &[M]) -> Branch {
    let Some(at) = last_user(before) else { return Branch::MidTask };
    if before[at + 1..].iter().all(|m| m.borrow().role != Role::Assistant) {
        Branch::Unanswered
    } else if before[at].borrow().has_media() {
        Branch::Media
    } else {
        Branch::MidTask
    }
}

/// Returns the message to append in the same commit as the compaction; `None` if the session awaits the user.
///
/// `before`: the view's messages before the compaction, oldest first. `id`: the id for the new message.
pub fn continuation<M: Borrow<Message>>(id: MessageId, before: &[M], state: TurnState) -> Option<Message> {
    if state == TurnState::AwaitingUser {
        return None;
    }
    let last = last_user(before).map(|at| before[at].borrow());
    Some(match (branch(before), last) {
        (Branch::Media, Some(user)) => {
            let text = typed_text(user);
            let text = if is_blank(&text) { MEDIA_ONLY.to_owned() } else { format!("{MEDIA_PREFIX}{text}") };
            let mut message = synthetic(id, text);
            message.metadata.had_media = true;
            message
        }
        (Branch::Unanswered, Some(user)) => {
            let mut message = user.clone();
            message.id = id;
            message.seq = Seq(0);
            message.origin = Origin::Synthetic(Synthetic::CompactionContinue);
            message.metadata.compaction_continue = true;
            message
        }
        _ => synthetic(id, CONTINUE.to_owned()),
    })
}

/// Returns the text of a message: its text parts without ignored ones, joined by newlines.
pub fn typed_text(message: &Message) -> String {
    let texts: Vec<&str> = message
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Text { text, ignored: false, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    texts.join("\n")
}

fn synthetic(id: MessageId, text: String) -> Message {
    Message {
        id,
        seq: Seq(0),
        role: Role::User,
        origin: Origin::Synthetic(Synthetic::CompactionContinue),
        parts: vec![Part::Text { text, synthetic: true, ignored: false, spill: None, extra: Map::new() }],
        metadata: Metadata { compaction_continue: true, ..Metadata::default() },
        extra: Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_types::{BlobId, CallId, ImageSource, visibility};
    use serde_json::json;

    fn image() -> Part {
        Part::Image {
            media_type: "image/png".into(),
            source: ImageSource::Blob(BlobId("b".into())),
            name: Some("shot".into()),
            width: None,
            height: None,
            extra: Map::new(),
        }
    }
    fn file() -> Part {
        Part::File {
            media_type: "application/pdf".into(),
            blob: BlobId("b".into()),
            name: None,
            extra: Map::new(),
        }
    }
    fn with(mut message: Message, part: Part) -> Message {
        message.parts.push(part);
        message
    }
    fn answer() -> Message {
        Message::assistant(vec![Part::text("done")])
    }
    fn tool() -> Message {
        Message::tool_result(CallId("c".into()), "bash", "out", false)
    }
    fn only(part: Part) -> Message {
        Message::new(Role::User, Origin::User, vec![part])
    }

    #[test]
    #[expect(clippy::type_complexity, reason = "a table")]
    fn the_three_branches() {
        use TurnState as T;
        // (case, messages before, turn state, expected (text, had_media, synthetic))
        let cases: Vec<(&str, Vec<Message>, TurnState, Option<(&str, bool, bool)>)> = vec![
            ("awaiting the user: none", vec![Message::user("q"), answer()], T::AwaitingUser, None),
            (
                "awaiting the user, media: none",
                vec![with(Message::user("q"), image())],
                T::AwaitingUser,
                None,
            ),
            (
                "mid task",
                vec![Message::user("q"), answer(), tool()],
                T::MidTurn,
                Some((CONTINUE, false, true)),
            ),
            ("no user message at all", vec![answer()], T::MidTurn, Some((CONTINUE, false, true))),
            ("nothing at all", vec![], T::MidTurn, Some((CONTINUE, false, true))),
            (
                "unanswered",
                vec![answer(), Message::user("q  \n")],
                T::Unanswered,
                Some(("q  \n", false, false)),
            ),
            (
                "unanswered beside a tool result",
                vec![Message::user("q"), tool()],
                T::MidTurn,
                Some(("q", false, false)),
            ),
            (
                "steered and unanswered",
                vec![Message::user("a"), answer(), tool(), Message::user("b")],
                T::Unanswered,
                Some(("b", false, false)),
            ),
            (
                "media, unanswered: replayed with it",
                vec![with(Message::user("look"), image())],
                T::Unanswered,
                Some(("look", false, false)),
            ),
            (
                "media, unanswered, behind a step that is new as well",
                vec![Message::user("a"), answer(), tool(), with(Message::user("look"), image())],
                T::Unanswered,
                Some(("look", false, false)),
            ),
            (
                "media, under way",
                vec![with(Message::user("look"), file()), answer()],
                T::MidTurn,
                Some(("[Continuing from compaction] look", true, true)),
            ),
            ("media alone, unanswered", vec![only(image())], T::Unanswered, Some(("", false, false))),
            ("media without words", vec![only(image()), answer()], T::Media, Some((MEDIA_ONLY, true, true))),
            (
                "media with blank words",
                vec![with(Message::user(" \n"), image()), answer()],
                T::Media,
                Some((MEDIA_ONLY, true, true)),
            ),
            (
                "media of an older message does not count",
                vec![only(image()), answer(), Message::user("q"), answer()],
                T::MidTurn,
                Some((CONTINUE, false, true)),
            ),
        ];
        let id = MessageId::new();
        for (rule, before, state, want) in cases {
            let got = continuation(id, &before, state);
            let facts = got.as_ref().map(|m| {
                let synthetic = matches!(m.parts.first(), Some(Part::Text { synthetic: true, .. }));
                (m.text(), m.metadata.had_media, synthetic)
            });
            assert_eq!(facts.as_ref().map(|(t, h, s)| (t.as_str(), *h, *s)), want, "{rule}");
            if let Some(m) = got {
                assert_eq!((m.id, m.seq, m.role), (id, Seq(0), Role::User), "{rule}");
                assert!(m.metadata.compaction_continue && !m.is_user_turn(), "{rule}");
                assert_eq!(
                    m.has_media(),
                    is_replay(&m) && before.last().is_some_and(Message::has_media),
                    "{rule}"
                );
                assert!(!visibility(&m.origin).user && visibility(&m.origin).model, "{rule}");
            }
        }
    }

    #[test]
    fn an_unanswered_replay_keeps_parts_and_metadata_and_is_replayed_again() {
        let mut user = with(Message::user("a"), Part::text("b"));
        user.metadata.extra.insert("k".into(), json!(1));
        user.extra.insert("x".into(), json!(2));
        let first = continuation(MessageId::new(), &[answer(), user.clone()], TurnState::Unanswered).unwrap();
        assert_eq!(first.parts, user.parts);
        assert_eq!((&first.metadata.extra, &first.extra), (&user.metadata.extra, &user.extra));
        assert!(is_replay(&first));
        let second =
            continuation(MessageId::new(), std::slice::from_ref(&first), TurnState::Unanswered).unwrap();
        assert_eq!(Message { id: first.id, ..second }, first);
    }

    #[test]
    fn continuations_of_the_other_branches_are_nobodys_words() {
        let go_on = continuation(MessageId::new(), &[answer()], TurnState::MidTurn).unwrap();
        let media = continuation(MessageId::new(), &[only(image()), answer()], TurnState::Media).unwrap();
        assert!(!is_users_words(&go_on) && !is_users_words(&media));
    }
}
