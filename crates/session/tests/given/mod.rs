//! Entries that many tests need, though none of them tests these entries.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

use becket_session::Session;
use becket_session::context::ModelScope;
use becket_types::{
    Compaction, CompactionSource, CompactionTrigger, RepeatedContext, RetainedMessages, Seq,
    ShortenedContent, SizeChange, SummaryOrigin, TurnState,
};

/// A model that takes a few images.
pub fn scope() -> ModelScope {
    ModelScope {
        provider: "p".into(),
        model: "m".into(),
        images: true,
        max_images: 10,
        max_media_bytes: 1 << 20,
    }
}

/// A compaction of what is before `tail_from`, made without a model in the middle of a turn.
pub fn compaction(session: &Session, tail_from: Seq) -> Compaction {
    Compaction {
        summary: "## Goal\n".into(),
        anchor: None,
        retained: RetainedMessages { tail_from, ..RetainedMessages::default() },
        replaces: session.view().compaction().map(|(seq, _)| seq),
        shortened: ShortenedContent::default(),
        repeated: RepeatedContext::default(),
        size: SizeChange::default(),
        trigger: CompactionTrigger::Auto,
        origin: SummaryOrigin {
            model: String::new(),
            source: CompactionSource::Fallback,
            input: String::new(),
            left_out: Vec::new(),
        },
        snapshot_of: session.last_seq(),
        turn_state: TurnState::MidTurn,
    }
}
