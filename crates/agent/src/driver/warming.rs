//! Acts between turns before the provider's cache expires, if that is configured: a warming request, or a compaction.
//!
//! A warming request is the running context with one short question at its end. Its answer is dropped: it enters neither the
//! history nor the view. Its usage counts like every other, with the purpose `warm`.

use super::conversation::Conversation;
use super::sent::{Question, RequestTerms, question_message};
use super::side_request_usage::SideRequestUsage;
use super::{cache, wall_clock};
use crate::host::lock;
use crate::spend::RequestCost;
use becket_model::ToolChoice;
use becket_session::Durability;
use becket_session::context::budget::estimate_text;
use becket_session::context::cache::idle_compaction_pays;
use becket_types::{NoticeLevel, Tokens};
use std::time::Duration;
use tokio::time::Instant;

/// Warms the provider's cache, or returns true if the context should be compacted before the cache expires. Does only what
/// is configured and pays. A compaction comes first, because after it there is nothing left to keep warm.
pub(super) fn act_before_expiry(conversation: &mut Conversation) -> bool {
    let (info, lifetime) = (conversation.model().info().clone(), conversation.wire.cache.lifetime());
    let cached = conversation.budget.cached.0;
    let Some(prices) = info.prices.filter(|_| cached > 0 && conversation.wire.is_warm()) else {
        conversation.wire.cache.is_done = true;
        return false;
    };
    let policy = conversation.wire.cache.policy;
    if policy.idle_compaction && may_compact_idle(conversation) {
        let (used, after) = (conversation.next_request_size().0, size_after_compaction(conversation));
        if idle_compaction_pays(&prices, lifetime, used, after) {
            conversation.wire.cache.is_done = true;
            let text = "Compacting while idle, because the provider's cache is about to expire.";
            conversation.core.notice(NoticeLevel::Info, text.to_owned());
            return true;
        }
    }
    if conversation.wire.cache.warms(cached) {
        warm(conversation);
        return false;
    }
    conversation.wire.cache.is_done = true;
    false
}

fn may_compact_idle(conversation: &Conversation) -> bool {
    conversation.budget.policy.auto_compact
        && conversation.budget.governor.may_prepare(wall_clock())
        && conversation.spending.limits.over(Duration::ZERO).is_none()
}

/// The expected size of the context after a compaction.
fn size_after_compaction(conversation: &mut Conversation) -> u64 {
    let budget = conversation.budget();
    let tail = conversation.budget.policy.keep_recent_tokens;
    let tail = tail.unwrap_or_else(|| (budget.usable() / 10).clamp(1_000, 8_000));
    conversation.floor().total().0 + tail + cache::SUMMARY_AND_STATE
}

/// Sends a request that only keeps the cache warm. If it cannot be sent, the cache expires.
fn warm(conversation: &mut Conversation) {
    conversation.wire.cache.is_done = true;
    conversation.core.flush(Durability::Buffered);
    let model = conversation.model();
    let max_output = if conversation.settings.requests.effort.is_some() {
        conversation.wire.max_output
    } else {
        cache::MAX_OUTPUT
    };
    let (used, cached) = (conversation.next_request_size().0, conversation.cached_tokens());
    let cost = RequestCost::estimate(model.info(), used, cached, conversation.wire.cache.lifetime());
    let reservation = match conversation.spending.limits.room(cost.input, cost.output_price, max_output) {
        Ok(most) if most == max_output => Some(conversation.spending.limits.reserve(cost.need(most))),
        // If the limits of the run leave too little room, the cache is not kept warm: they are meant for the task.
        _ => return,
    };
    let mut context = lock(&conversation.core.session).view_mut().context().clone();
    context.messages.push(question_message(cache::QUESTION));
    context.generation = conversation.wire.own_generation();
    let terms = RequestTerms {
        purpose: "warm",
        max_output,
        effort: conversation.settings.requests.effort.as_deref(),
        // The same choice as in a turn, because with another one some providers would not find the cached prefix.
        tool_choice: ToolChoice::Auto,
        cache: conversation.wire.cache.lifetime(),
    };
    let question = Question { system: "", prompt: cache::QUESTION };
    let prepared = terms.prepare_side_request(
        &mut conversation.core,
        &*model,
        &context,
        &conversation.offered,
        &question,
    );
    let Ok(prepared) = prepared else { return };
    conversation.wire.cache.last_sent = Some(Instant::now());
    let stream = model.send(prepared);
    conversation.wire.cache.warming_requests += 1;
    conversation.wire.cache.is_done = false;
    let usage = SideRequestUsage::new(Tokens(used) + estimate_text(cache::QUESTION));
    conversation.wire.cache.warming = Some(cache::Warming { model, stream, usage, reservation });
}

/// Counts the usage of the warming request, if one runs, and ends it.
pub(super) fn count_warming(conversation: &mut Conversation) {
    if let Some(run) = conversation.wire.cache.warming.take() {
        if !run.usage.was_cached() {
            // The provider kept nothing, so one more request would pay the full price again.
            conversation.wire.cache.is_done = true;
        }
        let info = run.model.info().clone();
        conversation.record_usage(&info, run.usage.counted(), "warm", None);
    }
}
