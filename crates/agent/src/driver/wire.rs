//! The models of the session, and what requests to them have shown: refusals, the provider's cache, the last error.
//!
//! Does not build or send requests.

pub(super) mod switch_words;

use super::Core;
use super::cache::ProviderCache;
use super::sent::RequestTerms;
use crate::quota::QuotaWait;
use crate::reply_error;
use crate::settings::{Auxiliary, FindModel};
use becket_model::{Digest, ErrorKind, Model, ModelError, Prepared, ToolChoice};
use becket_session::context::cache::CachePolicy;
use becket_types::NoticeLevel;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Limit on refused requests that are remembered.
const MAX_REFUSED: usize = 64;

/// The models, and the history of requests.
pub(crate) struct Wire {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) auxiliary: Auxiliary,
    pub(crate) fallbacks: VecDeque<Arc<dyn Model>>,
    /// Finds the model that the user names.
    pub(super) find_model: Option<FindModel>,
    pub(super) chosen: ChosenModels,
    pub(crate) refusals: Refusals,
    /// The wait for the provider's quota, until an answer comes.
    pub(crate) quota: Option<QuotaWait>,
    pub(crate) cache: ProviderCache,
    /// The error of the last attempt.
    pub(crate) last_error: Option<ModelError>,
    /// Number of requests beside the conversation so far: summaries, titles, side questions, warming.
    pub(crate) summaries: u64,
    /// True if the running request is the wrap-up.
    pub(crate) wrap_up: bool,
    pub(crate) max_output: u64,
}

/// Models that the user or a command has chosen.
#[derive(Default)]
pub(super) struct ChosenModels {
    /// Used from the next request on.
    pub(super) next: Option<Arc<dyn Model>>,
    /// The session's model, if a command has chosen another one for the running turn.
    pub(super) before_turn: Option<Arc<dyn Model>>,
    /// The session's effort, if a command has set another one for the running turn.
    #[expect(clippy::option_option, reason = "nothing was changed, or the model's own effort was")]
    pub(super) effort_before_turn: Option<Option<String>>,
}

/// Requests that servers refused.
#[derive(Default)]
pub(crate) struct Refusals {
    /// The model's id and the body's digest of each request that was permanently refused, with the error. Another model may
    /// accept the same bytes.
    bodies: HashMap<(String, Digest), ModelError>,
    /// Models whose servers needed another layout of messages. The user has been informed of each.
    laid_out: HashSet<String>,
    /// Number of requests in a row that were made smaller.
    pub(crate) smaller: u32,
}

impl Wire {
    pub(crate) fn new(
        model: Arc<dyn Model>,
        auxiliary: Auxiliary,
        fallbacks: Vec<Arc<dyn Model>>,
        find_model: Option<FindModel>,
        cache: CachePolicy,
    ) -> Self {
        Self {
            model,
            auxiliary,
            fallbacks: fallbacks.into(),
            find_model,
            chosen: ChosenModels::default(),
            refusals: Refusals::default(),
            quota: None,
            cache: ProviderCache { policy: cache, ..ProviderCache::default() },
            last_error: None,
            summaries: 0,
            wrap_up: false,
            max_output: 0,
        }
    }

    /// The terms of a turn's request.
    pub(super) fn terms<'a>(&self, effort: Option<&'a str>) -> RequestTerms<'a> {
        RequestTerms {
            purpose: "turn",
            max_output: self.max_output,
            effort,
            tool_choice: if self.wrap_up { ToolChoice::None } else { ToolChoice::Auto },
            cache: self.cache.lifetime(),
        }
    }

    /// Returns a generation that no other request has, for a request beside the conversation. So an adapter does not take
    /// the request for a continuation of the conversation's last one.
    pub(super) fn own_generation(&mut self) -> u64 {
        self.summaries += 1;
        u64::MAX - self.summaries
    }

    pub(crate) fn is_cold(&self) -> bool {
        self.cache.is_cold(self.model.info())
    }

    /// True if the provider probably still caches the prefix of the last request.
    pub(crate) fn is_warm(&self) -> bool {
        self.cache.last_sent.is_some() && !self.is_cold()
    }

    /// Returns the model of this name. `Err` says why there is none.
    pub(super) fn find(&self, name: &str) -> Result<Arc<dyn Model>, String> {
        let find = self.find_model.as_ref().ok_or("The model cannot be changed here.")?;
        find(name)
    }

    /// Chooses the model for the next request. `Err` says why the model stays the same.
    pub(super) fn choose(&mut self, name: &str) -> Result<Arc<dyn Model>, String> {
        let model = self.find(name)?;
        self.chosen.next = Some(Arc::clone(&model));
        Ok(model)
    }

    /// True if there is a fallback model and this error is one that another model may not have.
    pub(super) fn may_fall_back(&self, error: &ModelError) -> bool {
        !self.fallbacks.is_empty() && reply_error::another_model_may_help(error.kind)
    }

    /// The error with which the same bytes were refused before, if they were.
    pub(super) fn refused(&self, prepared: &Prepared) -> Option<ModelError> {
        if self.refusals.bodies.is_empty() {
            return None;
        }
        self.refusals.bodies.get(&self.key(prepared)).cloned()
    }

    /// Remembers a refused request by its bytes.
    pub(super) fn remember_refusal(&mut self, prepared: &Prepared, error: &ModelError) {
        if self.refusals.bodies.len() >= MAX_REFUSED {
            self.refusals.bodies.clear();
        }
        let key = self.key(prepared);
        self.refusals.bodies.insert(key, error.clone());
    }

    fn key(&self, prepared: &Prepared) -> (String, Digest) {
        (self.model.info().id.clone(), prepared.digest)
    }
}

impl Refusals {
    /// True if the same bytes would be refused again.
    pub(super) fn is_permanent(error: &ModelError) -> bool {
        let client_error = error.status.is_some_and(|status| (400..500).contains(&status));
        !error.retryable && client_error
    }

    /// True if the chat template of the server refused the messages, and the same request prepared again has a stricter
    /// layout. The user gets one notice for each model.
    pub(super) fn is_laid_out_anew(
        &mut self,
        model: &dyn Model,
        error: &ModelError,
        core: &mut Core,
    ) -> bool {
        if error.kind != ErrorKind::Template || !error.retryable {
            return false;
        }
        let id = &model.info().id;
        if self.laid_out.insert(id.clone()) {
            let said = reply_error::sentence(&error.message);
            let text = format!(
                "{said} From now on, becket arranges the messages for {id} as its chat template requires."
            );
            core.notice(NoticeLevel::Warning, text);
        }
        true
    }
}
