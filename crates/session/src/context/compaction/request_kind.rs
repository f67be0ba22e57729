//! The kind of request that asks for a summary: a short separate one, or the running conversation with one instruction more.
//!
//! Compares prices only. Makes no request.

use super::InputKind;
use super::layout::Measured;
use crate::context::budget::estimate_text;
use crate::context::summary::{Template, overhead, records};
use becket_types::{CallId, CompactionTrigger, Usage};
use std::collections::HashSet;

/// Output limit of a summary request in tokens. Reasoning models need more than the summary itself.
pub(super) const MAX_OUTPUT: u64 = 8_192;

/// Chooses the cheaper kind of request by the model's prices. [`InputKind::CachedPrefix`] is possible only if the cache is warm, the
/// instruction and the answer fit after the current request, and the provider did not just refuse that request.
pub(super) fn kind(measured: &Measured) -> InputKind {
    let snapshot = &measured.snapshot;
    let Some(summariser) = &snapshot.request.summariser else { return InputKind::PrunedHead };
    let (Some(prices), true) = (summariser.prices, summariser.cache_warm) else {
        return InputKind::PrunedHead;
    };
    let budget = summariser.budget;
    let instruction = measured
        .to_provider_tokens(overhead(&Template::new(snapshot.policy.summary.template.as_deref()), None).0);
    let fits = measured.before.0 + instruction + budget.reserve().min(MAX_OUTPUT)
        <= budget.window.min(budget.input_limit);
    if !fits || snapshot.request.trigger == CompactionTrigger::Overflow || prices.cache_read >= prices.input {
        return InputKind::PrunedHead;
    }
    let cached = Usage { input: instruction, cache_read: measured.before.0, ..Usage::default() };
    let stubs: HashSet<&CallId> =
        snapshot.outputs.stubs.iter().chain(snapshot.outputs.prunable.iter().map(|p| &p.call_id)).collect();
    let head = records(&snapshot.messages, &stubs, 1).iter().map(|r| estimate_text(r).0).sum::<u64>();
    let pruned = Usage { input: measured.to_provider_tokens(head) + instruction, ..Usage::default() };
    if prices.cost(&cached) <= prices.cost(&pruned) { InputKind::CachedPrefix } else { InputKind::PrunedHead }
}
