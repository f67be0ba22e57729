//! Processes an answer while it streams: sends deltas to the front ends at once, appends complete parts to the ledger
//! as they arrive, and interprets the end of the stream.

use super::conversation::Conversation;
use super::ids::CallIds;
use super::ledger::Core;
use crate::answer::Answer;
use crate::quota::Pause;
use crate::reply_error;
use crate::spend::{Reservation, millis};
use becket_model::{Model, ModelError, ModelEvent, Prepared};
use becket_session::Durability;
use becket_session::blobs::BlobStore;
use becket_session::context::budget::estimate_part;
use becket_types::{Cost, EntryKind, Event, FinishReason, Tokens, Usage};
use futures::future::FutureExt as _;
use futures::stream::{BoxStream, StreamExt as _};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of events that are processed together if they are available.
const BATCH: usize = 256;

/// One event of the stream.
pub(super) type Piece = Result<ModelEvent, ModelError>;

/// The running request.
pub(super) struct Reply {
    model: Arc<dyn Model>,
    /// The request, while it waits to be sent.
    waiting: Option<(Prepared, Pause)>,
    stream: Option<BoxStream<'static, Piece>>,
    pub(super) answer: Answer,
    sent: Instant,
    first_content: Option<Instant>,
    /// Number of the step in its turn.
    pub(super) step: u64,
    /// The share of the run's limits that the request holds.
    reservation: Option<Reservation>,
    /// The expected size of the request, which counts if the server reports no usage.
    expected: Tokens,
    /// True if becket wrote the answer, so that no request was sent.
    pub(super) is_own: bool,
}

impl Reply {
    pub(super) fn new(
        model: Arc<dyn Model>,
        prepared: Prepared,
        delay: Option<Duration>,
        step: u64,
        blobs: Arc<BlobStore>,
    ) -> Self {
        let info = model.info();
        let answer = Answer::new(info.id.clone(), info.provider.clone(), blobs);
        let now = Instant::now();
        let (waiting, stream) = match delay {
            Some(delay) => (Some((prepared, Pause::new(delay))), None),
            None => (None, Some(model.send(prepared))),
        };
        Self {
            model,
            waiting,
            stream,
            answer,
            sent: now,
            first_content: None,
            step,
            reservation: None,
            expected: Tokens(0),
            is_own: false,
        }
    }

    /// An answer that becket writes in place of the model.
    pub(super) fn from_becket(
        model: Arc<dyn Model>,
        events: Vec<ModelEvent>,
        step: u64,
        blobs: Arc<BlobStore>,
    ) -> Self {
        let info = model.info();
        let answer = Answer::new(info.id.clone(), info.provider.clone(), blobs);
        let stream = futures::stream::iter(events.into_iter().map(Ok)).boxed();
        Self {
            model,
            waiting: None,
            stream: Some(stream),
            answer,
            sent: Instant::now(),
            first_content: None,
            step,
            reservation: None,
            expected: Tokens(0),
            is_own: true,
        }
    }

    /// Keeps a share of the run's limits until the answer is counted. `expected`: the estimated size of the request.
    pub(super) fn holding(self, reservation: Option<Reservation>, expected: Tokens) -> Self {
        Self { reservation, expected, ..self }
    }

    /// Returns the usage that counts: as the server reported it, or an estimate if it reports none. A request that failed or
    /// was interrupted counts only what was reported, because nobody knows how far the server got.
    fn counted(&self, reason: &FinishReason) -> Usage {
        let answer = &self.answer;
        if self.is_own || matches!(reason, FinishReason::Error | FinishReason::Interrupted) {
            return answer.usage;
        }
        let output = answer.parts.iter().map(estimate_part).sum();
        answer.usage.or_estimate(self.expected, output)
    }

    /// Returns all available events, at least one.
    pub(super) async fn next(&mut self) -> Vec<Piece> {
        if let Some((_, pause)) = &self.waiting {
            pause.over().await;
            if let Some((prepared, _)) = self.waiting.take() {
                self.sent = Instant::now();
                self.stream = Some(self.model.send(prepared));
            }
        }
        let Some(stream) = &mut self.stream else { return vec![Err(reply_error::ended_early())] };
        let mut pieces = Vec::new();
        let mut next = stream.next().await;
        loop {
            let Some(piece) = next else {
                pieces.push(Err(reply_error::ended_early()));
                break;
            };
            let last = matches!(piece, Err(_) | Ok(ModelEvent::Finish(_)));
            pieces.push(piece);
            if last || pieces.len() >= BATCH {
                break;
            }
            match stream.next().now_or_never() {
                Some(more) => next = more,
                None => break,
            }
        }
        pieces
    }

    /// Adds events to the answer. Returns the events for front ends, and the end of the stream if it was reached.
    pub(super) fn read(
        &mut self,
        pieces: Vec<Piece>,
    ) -> (Vec<Event>, Option<Result<FinishReason, ModelError>>) {
        let mut events = Vec::new();
        let mut end = None;
        for piece in pieces {
            match piece {
                Ok(event) => {
                    if let Some(reason) = self.answer.take(event, &mut events) {
                        end = Some(Ok(reason));
                        break;
                    }
                }
                Err(error) => {
                    end = Some(Err(error));
                    break;
                }
            }
        }
        if self.answer.has_content && self.first_content.is_none() {
            self.first_content = Some(Instant::now());
        }
        (events, end)
    }

    /// Appends complete parts to the ledger that are not in it yet. Call ids are made unique before.
    pub(super) fn save_parts(&mut self, core: &mut Core, ids: &mut CallIds) {
        ids.admit(self.answer.unsaved_parts());
        self.answer.name_long_texts(self.answer.entry.unwrap_or_else(|| core.next_seq()));
        let entries = self.answer.unsaved();
        if entries.is_empty() {
            return;
        }
        let seqs = core.append(entries, Durability::Buffered);
        // The first entry of an answer is its message.
        if self.answer.entry.is_none() {
            self.answer.entry = seqs.first().copied();
        }
    }

    /// Closes the answer, and returns the true reason for its end.
    pub(super) fn close(&mut self, reason: FinishReason, max_output: u64) -> FinishReason {
        self.answer.close();
        true_reason(reason, self.answer.usage.output, max_output)
    }

    /// Ends the stream after an interrupt. The text so far is kept.
    pub(super) fn interrupt(&mut self) {
        self.stream = None;
        self.answer.close();
    }

    /// Time since the request was sent.
    pub(super) fn elapsed(&self) -> Duration {
        self.sent.elapsed()
    }

    /// Adds the rest of the answer, its end and its usage to the pending commit, which is written together with the
    /// entries of the tools, or before the next wait. Remembers the calls for the machine's next action, and returns
    /// their number.
    pub(super) fn settle(
        &mut self,
        conversation: &mut Conversation,
        ids: &mut CallIds,
        reason: &FinishReason,
    ) -> usize {
        conversation.spending.turn.api += self.sent.elapsed();
        let answer = &mut self.answer;
        ids.admit(answer.unsaved_parts());
        answer.name_long_texts(answer.entry.unwrap_or_else(|| conversation.core.next_seq()));
        if answer.entry.is_none() && !answer.parts.is_empty() {
            let entries = answer.unsaved();
            answer.entry = Some(conversation.core.next_seq());
            conversation.core.pending.extend(entries);
        }
        conversation.core.pending.extend(answer.unsaved());
        let message = answer.entry.map(|_| answer.id);
        if let Some(message) = message {
            conversation.core.push(EntryKind::Finish { message, reason: reason.clone() });
        }
        let info = self.model.info().clone();
        let usage = answer.usage;
        let cost = conversation.record_usage(&info, self.counted(reason), "turn", message);
        drop(self.reservation.take());
        if !usage.is_empty() {
            conversation.budget.report = Some(usage);
        }
        self.show(&mut conversation.core, reason, cost);
        let calls = self.answer.calls();
        let count = calls.len();
        ids.last_entry = self.answer.entry;
        ids.last_calls = calls;
        count
    }

    fn show(&self, core: &mut Core, finish: &FinishReason, cost: Cost) {
        let answer = &self.answer;
        if answer.parts.is_empty() {
            return;
        }
        core.announce(Event::AssistantMessage {
            message: answer.message(answer.parts.clone()),
            finish: finish.clone(),
            usage: answer.usage,
            cost,
            ttft: self.first_content.map(|at| millis(at - self.sent)),
            api_time: millis(self.sent.elapsed()),
        });
    }
}

/// Returns the true reason for the end of an answer. Some servers report a cut answer as finished, but its token count reveals
/// the cut. `max_output`: the limit of the request; 0 if it had none.
fn true_reason(reason: FinishReason, output: u64, max_output: u64) -> FinishReason {
    let cut = max_output > 0 && output >= max_output;
    match reason {
        FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Other(_) if cut => FinishReason::Length,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_as_long_as_its_limit_was_cut() {
        use FinishReason::{Length, Refusal, Stop, ToolCalls};
        for (reason, output, max_output, want) in [
            (Stop, 99, 100, Stop),
            (Stop, 100, 100, Length),
            (ToolCalls, 101, 100, Length),
            (FinishReason::Other("eos".to_owned()), 100, 100, Length),
            // No limit was sent, so none can have cut the answer.
            (Stop, 100, 0, Stop),
            // A refusal stays a refusal at any length.
            (Refusal, 100, 100, Refusal),
        ] {
            assert_eq!(true_reason(reason.clone(), output, max_output), want, "{reason:?} {output}");
        }
    }
}
