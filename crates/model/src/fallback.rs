//! A chain of models: when one is overloaded, rate limited or away, the next one answers.
//!
//! Only before anything of the answer came, and never silently: each change is a notice. After a change the chain stays
//! with the model that answered for a while, so that an outage is not paid for at every step; then it tries the first
//! again. The same chain serves turns, summaries and titles.

use crate::{ErrorKind, Model, ModelError, ModelEvent, ModelInfo, Prepared, Request, ToolChoice};
use becket_types::{Blobs, Context, ToolSpec};
use futures::stream::{BoxStream, StreamExt as _, unfold};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long the chain stays with a model it fell back to.
const STAY: Duration = Duration::from_mins(5);
/// Prepared requests that can still be sent to another model.
const KEPT: usize = 8;

/// What a request needs to be encoded for another model.
struct Owned {
    context: Context,
    tools: Vec<ToolSpec>,
    tool_choice: ToolChoice,
    max_output: u64,
    effort: Option<String>,
    blobs: Arc<dyn Blobs>,
}

/// The place of a prepared request: its number, the model and tag it was encoded for, and what it says.
type Kept = (u64, usize, u64, Arc<Owned>);

struct Shared {
    models: Vec<Arc<dyn Model>>,
    /// The model in use and since when, where it is not the first.
    current: Mutex<Option<(usize, Instant)>>,
}

impl Shared {
    fn current(&self) -> usize {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.is_some_and(|(_, since)| since.elapsed() >= STAY) {
            *current = None;
        }
        current.map_or(0, |(at, _)| at)
    }

    fn stay_with(&self, at: usize) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = (at > 0).then(|| (at, Instant::now()));
    }

    fn prepare(&self, at: usize, owned: &Owned) -> Result<Prepared, ModelError> {
        self.models[at].prepare(&Request {
            context: &owned.context,
            tools: &owned.tools,
            tool_choice: owned.tool_choice,
            max_output: owned.max_output.min(self.models[at].info().max_output),
            effort: owned.effort.as_deref(),
            blobs: &owned.blobs,
        })
    }
}

/// Models in the order they are tried.
pub struct FallbackModel {
    shared: Arc<Shared>,
    kept: Mutex<(u64, VecDeque<Kept>)>,
}

impl FallbackModel {
    /// # Errors
    /// [`ErrorKind::NotFound`] for an empty chain.
    pub fn new(models: Vec<Arc<dyn Model>>) -> Result<Self, ModelError> {
        if models.is_empty() {
            return Err(ModelError::new(ErrorKind::NotFound, "A fallback chain needs at least one model."));
        }
        let shared = Shared { models, current: Mutex::new(None) };
        Ok(Self { shared: Arc::new(shared), kept: Mutex::default() })
    }
}

impl Model for FallbackModel {
    fn info(&self) -> &ModelInfo {
        self.shared.models[0].info()
    }

    fn answering(&self) -> ModelInfo {
        self.shared.models[self.shared.current()].info().clone()
    }

    fn prepare(&self, request: &Request<'_>) -> Result<Prepared, ModelError> {
        let at = self.shared.current();
        let owned = Arc::new(Owned {
            context: request.context.clone(),
            tools: request.tools.to_vec(),
            tool_choice: request.tool_choice,
            max_output: request.max_output,
            effort: request.effort.map(str::to_owned),
            blobs: Arc::clone(request.blobs),
        });
        let prepared = if at == 0 {
            self.shared.models[0].prepare(request)?
        } else {
            self.shared.prepare(at, &owned)?
        };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.0 += 1;
        let number = kept.0;
        if kept.1.len() >= KEPT {
            kept.1.pop_front();
        }
        kept.1.push_back((number, at, prepared.tag, owned));
        Ok(Prepared { body: prepared.body, tag: number })
    }

    fn send(&self, prepared: Prepared) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.1.iter().find(|(number, ..)| *number == prepared.tag).cloned();
        drop(kept);
        let Some((_, at, tag, owned)) = found else {
            let error = ModelError::new(
                ErrorKind::InvalidRequest,
                "The request is too old to be sent; prepare it anew.",
            );
            return futures::stream::once(async { Err(error) }).boxed();
        };
        let stream = self.shared.models[at].send(Prepared { body: prepared.body, tag });
        let state = Chain { shared: Arc::clone(&self.shared), owned, at, stream, begun: false };
        unfold(state, |mut chain| async move {
            let item = chain.next().await?;
            Some((item, chain))
        })
        .boxed()
    }
}

struct Chain {
    shared: Arc<Shared>,
    owned: Arc<Owned>,
    at: usize,
    stream: BoxStream<'static, Result<ModelEvent, ModelError>>,
    begun: bool,
}

impl Chain {
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        let error = match self.stream.next().await? {
            Ok(event) => {
                if matches!(event, ModelEvent::Started { .. }) {
                    self.begun = true;
                    self.shared.stay_with(self.at);
                }
                return Some(Ok(event));
            }
            Err(error) => error,
        };
        let next = self.at + 1;
        if self.begun || !error.may_fall_back() || next >= self.shared.models.len() {
            return Some(Err(error));
        }
        match self.shared.prepare(next, &self.owned) {
            Err(other) => Some(Err(other)),
            Ok(prepared) => {
                let to = self.shared.models[next].info().id.clone();
                let from = &self.shared.models[self.at].info().id;
                let text = format!("{from} does not answer; falling back to {to}. {}", error.message);
                self.stream = self.shared.models[next].send(prepared);
                self.at = next;
                Some(Ok(ModelEvent::Notice(text)))
            }
        }
    }
}
