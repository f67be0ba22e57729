//! Requests together with their records in the ledger.
//!
//! Invariant: the record of a request has the values with which its bytes were prepared, so that the same bytes can be built
//! again. Does not send anything, and does not reserve money.

use super::Core;
use crate::host::lock;
use becket_model::{Model, ModelError, Prepared, Request, ToolChoice};
use becket_types::{
    BlobId, CacheLifetime, Context, ContextMessage, EntryKind, Message, Provenance, SentRequest, Seq, Tokens,
    ToolSpec, hex,
};
use serde_json::json;
use std::sync::Arc;

/// The purpose and the options of one request, which its record in the ledger keeps.
pub(super) struct RequestTerms<'a> {
    pub(super) purpose: &'static str,
    pub(super) max_output: u64,
    pub(super) effort: Option<&'a str>,
    pub(super) tool_choice: ToolChoice,
    pub(super) cache: CacheLifetime,
}

/// Facts of a request's record that do not follow from its terms and bytes.
#[derive(Default)]
pub(super) struct RecordFacts {
    /// The question of a request beside the conversation.
    pub(super) prompt: Option<BlobId>,
    /// The expected size of a turn's request.
    pub(super) estimate: Option<Tokens>,
}

/// The question of a request beside the conversation, as its record keeps it.
pub(super) struct Question<'a> {
    pub(super) system: &'a str,
    pub(super) prompt: &'a str,
}

impl RequestTerms<'_> {
    /// Builds the bytes of the request.
    pub(super) fn prepare(
        &self,
        core: &Core,
        model: &dyn Model,
        context: &Context,
        tools: &[ToolSpec],
    ) -> Result<Prepared, ModelError> {
        model.prepare(&Request {
            context,
            tools,
            tool_choice: self.tool_choice,
            max_output: self.max_output,
            effort: self.effort,
            layout: None,
            cache: self.cache,
            blobs: &core.blobs,
        })
    }

    /// Records everything that is needed to build the same bytes again, before they are sent.
    pub(super) fn record(&self, core: &mut Core, model: &dyn Model, prepared: &Prepared, facts: RecordFacts) {
        let sent = SentRequest {
            model: model.info().id.clone(),
            purpose: self.purpose.to_owned(),
            max_output: self.max_output,
            effort: self.effort.map(str::to_owned),
            no_calls: self.tool_choice == ToolChoice::None,
            layout: prepared.layout,
            cache: self.cache,
            prompt: facts.prompt,
            bytes: prepared.len() as u64,
            sha256: hex(&prepared.digest),
            estimate: facts.estimate,
        };
        core.push(EntryKind::Request(Box::new(sent)));
    }

    /// Builds and records a request beside the conversation: a summary, a title, or one that keeps the cache warm.
    pub(super) fn prepare_side_request(
        &self,
        core: &mut Core,
        model: &dyn Model,
        context: &Context,
        tools: &[ToolSpec],
        question: &Question<'_>,
    ) -> Result<Prepared, ModelError> {
        let mut prepared = self.prepare(core, model, context, tools)?;
        prepared.brief = true;
        let prompt = json!({ "system": question.system, "prompt": question.prompt }).to_string();
        let prompt = lock(&core.session).put_blob(prompt.as_bytes()).ok();
        self.record(core, model, &prepared, RecordFacts { prompt, estimate: None });
        Ok(prepared)
    }
}

/// The question as a message that is in no ledger.
pub(super) fn question_message(text: &str) -> Arc<ContextMessage> {
    Arc::new(ContextMessage {
        message: Arc::new(Message::user(text)),
        provenance: Provenance { seq: Seq(0), message: None, applied: Vec::new() },
        tokens: Tokens(0),
    })
}
