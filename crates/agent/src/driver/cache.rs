//! The provider's cache of the conversation: its lifetime, the time of its last use, and the request that keeps it warm.
//!
//! Model: between turns the agent wakes up shortly before the cache expires (`warming`). Both measures, a warming request and a
//! compaction, cost money that nobody asked for at that moment. So a compaction is off unless the user configured it, warming
//! begins only after a pause of this session for which it would have paid, and each is taken only while it pays by the model's
//! prices (`session::context::cache`).
//!
//! Nothing happens during a turn: the gaps between its requests are those of tools, and a context with open calls cannot be
//! sent.

use super::side_request_usage::SideRequestUsage;
use crate::spend::{Reservation, millis};
use becket_model::{Model, ModelError, ModelEvent, ModelInfo};
use becket_session::context::View;
use becket_session::context::cache::{CachePolicy, CacheTtl, CacheWarm, Keeper, Turn, lead_time};
use becket_types::{CacheLifetime, EntryKind, Millis, Prices, Tokens, Usage};
use futures::stream::{BoxStream, StreamExt as _};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The question of a warming request.
pub(super) const QUESTION: &str =
    "Answer with the word OK alone. This message only keeps the cache of the conversation above.";
/// Output limit of a warming request in tokens. With an effort set it is that of other requests, because a different limit
/// could change the thinking budget, and with it the prefix that the provider has cached.
pub(super) const MAX_OUTPUT: u64 = 16;
/// Expected tokens of a compaction's result beside system prompt, tools and tail.
pub(super) const SUMMARY_AND_STATE: u64 = 4_000;

/// Assumed prices of a model without prices: shares of the price of input, as vendors have them.
const USUAL_PRICES: Prices = Prices { input: 1.0, output: 5.0, cache_read: 0.1, cache_write: 1.25 };

/// Name of the session state with the chosen lifetime and warming, and the lengths of the pauses by which they were chosen.
const LIFETIME: &str = "cache_lifetime";

#[derive(Default)]
pub(crate) struct ProviderCache {
    pub(super) policy: CachePolicy,
    pub(super) keeper: Keeper,
    /// True if the running request writes the whole prefix, because the cache was cold.
    pub(super) rewrites: bool,
    /// Time at which the last request was sent. The cache stays warm for a while after it.
    pub(super) last_sent: Option<Instant>,
    /// True if the cache is known to be cold (resume, model switch).
    pub(crate) cold: bool,
    /// Warming requests since the last request of a turn.
    pub(super) warming_requests: u32,
    /// True if neither warming nor an idle compaction is wanted before the next request of a turn.
    pub(super) is_done: bool,
    pub(super) warming: Option<Warming>,
}

/// A running warming request.
pub(super) struct Warming {
    pub(super) model: Arc<dyn Model>,
    pub(super) stream: BoxStream<'static, Result<ModelEvent, ModelError>>,
    pub(super) usage: SideRequestUsage,
    #[expect(dead_code, reason = "works by being dropped")]
    pub(super) reservation: Option<Reservation>,
}

impl ProviderCache {
    /// The lifetime that requests ask for.
    pub(crate) fn lifetime(&self) -> CacheLifetime {
        self.keeper.lifetime
    }

    /// Time for which the provider keeps the prefix of the last request.
    pub(super) fn ttl(&self, info: &ModelInfo) -> Millis {
        if info.server.hour_cache { self.keeper.lifetime.duration() } else { info.cache_ttl }
    }

    pub(crate) fn is_cold(&self, info: &ModelInfo) -> bool {
        let ttl = Duration::from_millis(self.ttl(info).0);
        self.cold || self.last_sent.is_some_and(|at| at.elapsed() > ttl)
    }

    /// Chooses lifetime and warming for the next request of a turn, by the pauses of the session. Returns the entry that
    /// records the choice, so that a resumed session keeps it. `begins`: the request begins a turn.
    pub(super) fn choose(&mut self, info: &ModelInfo, begins: bool, context: Tokens) -> Option<EntryKind> {
        let elapsed = self.last_sent.map(|at| millis(at.elapsed()));
        let cold = self.is_cold(info);
        self.rewrites = cold;
        if !begins && elapsed.is_none_or(|elapsed| elapsed <= CacheLifetime::default().duration()) {
            return None;
        }
        let prices = info.prices.unwrap_or(USUAL_PRICES);
        let pause = elapsed.map(|elapsed| Keeper::pause(elapsed, begins));
        let turn = Turn { pause, context: context.0, cold };
        let (ttl, warm) = (self.policy.ttl, self.policy.warm);
        let chosen = self.keeper.choose(turn, ttl, warm, &prices, info.server.hour_cache);
        let is_known = ttl != CacheTtl::Auto && warm != CacheWarm::Auto;
        let value = serde_json::to_value(&self.keeper).unwrap_or_default();
        (chosen && !is_known).then(|| EntryKind::State { key: LIFETIME.to_owned(), value })
    }

    /// Notes the number of tokens that an answer of a turn added to the cached prefix. An answer to a cold cache does not
    /// count, because its request wrote the whole prefix again.
    pub(super) fn count(&mut self, usage: &Usage) {
        if !std::mem::take(&mut self.rewrites) {
            self.keeper.wrote(usage.input + usage.cache_write);
        }
    }

    /// True if one more warming request pays.
    pub(super) fn warms(&self, tokens: u64) -> bool {
        self.keeper.warms(tokens, self.warming_requests)
    }

    /// Takes the state of a resumed session: its provider's cache counts as cold, and the choice that an earlier process
    /// made by its pauses is kept.
    pub(super) fn resume(&mut self, view: &View) {
        self.cold = true;
        self.keeper = view.state(LIFETIME).and_then(Keeper::from_state).unwrap_or_default();
    }

    /// Called when a request of a turn is sent: the cache counts as warm from now on.
    pub(super) fn note_request_sent(&mut self) {
        self.last_sent = Some(Instant::now());
        (self.cold, self.is_done, self.warming_requests) = (false, false, 0);
    }

    /// The time shortly before an unused cache expires, at which it is warmed or the session is compacted. `None` if
    /// neither is wanted.
    pub(super) fn act_at(&self, info: &ModelInfo) -> Option<Instant> {
        let wanted = self.policy.warm != CacheWarm::Off || self.policy.idle_compaction;
        if !wanted || self.is_done || self.cold || self.warming.is_some() {
            return None;
        }
        let ttl = self.ttl(info);
        let wait = ttl.0.saturating_sub(lead_time(ttl).0);
        self.last_sent.map(|at| at + Duration::from_millis(wait))
    }
}

/// Waits for the end of the warming request, for ever if none runs.
pub(super) async fn next(cache: &mut ProviderCache) {
    let Some(run) = &mut cache.warming else { return std::future::pending().await };
    loop {
        let Some(Ok(event)) = run.stream.next().await else { return };
        run.usage.note(&event);
        if matches!(event, ModelEvent::Finish(_)) {
            return;
        }
    }
}
