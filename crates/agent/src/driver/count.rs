//! Counts the context exactly, once, when the estimate is too close to a limit.
//!
//! Until the provider has reported usage, only an estimate by bytes says how full the window is. If it comes near the
//! compaction threshold, the next request is first counted with a real tokenizer. Its vocabulary costs 0.1 s and 45 MB, so
//! it is loaded only for this, on the blocking pool, and at most once a process. The user is not informed.
//! Without a report, the messages of a request are measured with the costs of the family of the model.

use super::conversation::Conversation;
use crate::host::lock;
use becket_model::tokens;
use becket_session::context::budget::{Appended, Vocabulary, estimate_part};
use becket_types::{Context, Part, Tokens, ToolSpec};
use std::sync::Arc;
use tokio::task::JoinHandle;

/// Forgets the last report, because it belongs to another context.
pub(super) fn forget_report(conversation: &mut Conversation) {
    conversation.budget.meter.forget();
    conversation.core.appended = Appended::new(vocabulary(conversation));
}

/// Measures the messages of a request that is about to be sent, if no report covers them: the first of a session, and the first
/// after a compaction, a rewind or a change of the model.
pub(super) fn measure_unreported(conversation: &mut Conversation) {
    if conversation.budget.meter.wants_whole(conversation.core.appended) {
        let vocabulary = vocabulary(conversation);
        let mut session = lock(&conversation.core.session);
        let messages = session.view_mut().context().messages.iter().map(|message| &*message.message);
        conversation.core.appended = Appended::whole(vocabulary, messages);
    }
}

fn vocabulary(conversation: &Conversation) -> Vocabulary {
    Vocabulary::for_model(&conversation.model().info().id)
}

/// Tokens that the wire format adds to each message and each call.
const FRAME: Tokens = Tokens(4);

/// A running count.
pub(super) struct Count(JoinHandle<Tokens>);

impl Count {
    /// Starts to count a request with this context and these tools.
    pub(super) fn start(context: Context, specs: Arc<[ToolSpec]>) -> Self {
        Self(tokio::task::spawn_blocking(move || count(&context, &specs)))
    }

    /// Waits for the count. `None` if the tokenizer failed.
    pub(super) async fn next(&mut self) -> Option<Tokens> {
        (&mut self.0).await.ok()
    }
}

/// Counts the tokens of a request. Its texts are counted exactly, its media estimated.
fn count(context: &Context, specs: &[ToolSpec]) -> Tokens {
    let system = context.system.iter().map(|block| tokens::count(block)).sum::<Tokens>();
    let tools = specs.iter().map(|spec| {
        let schema = tokens::count(&spec.input_schema.to_string());
        tokens::count(&spec.name) + tokens::count(&spec.description) + schema
    });
    let messages = context.messages.iter().map(|message| {
        let parts = message.message.parts.iter().map(count_part);
        FRAME + parts.sum::<Tokens>()
    });
    system + tools.sum::<Tokens>() + messages.sum::<Tokens>()
}

fn count_part(part: &Part) -> Tokens {
    match part {
        Part::Text { text, ignored: false, .. } => tokens::count(text),
        Part::ToolCall { name, input, .. } => FRAME + tokens::count(name) + tokens::count(&input.to_string()),
        Part::ToolResult { output, .. } => FRAME + tokens::count(output),
        Part::Text { .. }
        | Part::Reasoning { .. }
        | Part::Image { .. }
        | Part::File { .. }
        | Part::Unknown(_) => estimate_part(part),
    }
}
