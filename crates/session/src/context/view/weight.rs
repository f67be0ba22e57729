//! The estimated size of everything that a view sends.
//!
//! A message is estimated in the form in which it is sent: escaped, wrapped as a reminder, pruned outputs as
//! stubs, cut outputs as their beginning and end. Media that became text keep the size of media, so an
//! estimate may be too high there, but it is never noticeably too low. Repairs of broken histories (a missing
//! result, a missing start) are not counted, because they are only a few tokens each.

use super::calls::{Answer, Calls, results_of};
use super::controls::Effects;
use super::log::Slot;
use crate::context::{budget, cut, escape, input, prune, reminder};
use becket_types::{Compaction, Message, Origin, Part, Role, Synthetic, Tokens};

/// Tokens that the provider's format adds to each message and each result.
const FRAME: Tokens = Tokens(4);
/// Tokens around the summary message (`<context-summary>` and its end) and the state message.
const LEAD_FRAME: Tokens = Tokens(24);

/// Returns the estimate of a message that is neither wrapped nor pinned. Text that is escaped when sent is
/// estimated as escaped.
pub(super) fn plain(message: &Message) -> Tokens {
    let foreign = matches!(message.origin, Origin::Tool | Origin::Synthetic(Synthetic::Rules));
    if foreign || message.role == Role::Tool {
        return FRAME + message.parts.iter().map(escaped).sum::<Tokens>();
    }
    budget::estimate_message(message)
}

fn escaped(part: &Part) -> Tokens {
    match part {
        Part::Text { text, ignored: false, .. } => budget::estimate_text(&escape::escape(text)),
        Part::ToolResult { output, .. } => FRAME + budget::estimate_text(&escape::escape(output)),
        _ => budget::estimate_part(part),
    }
}

/// Returns the estimate of a live message as the view sends it.
pub(super) fn shown(slot: &Slot, effects: &Effects, calls: &Calls) -> Tokens {
    let message = &slot.message;
    let is_shortened = |call| effects.is_pruned(call) || effects.cut_of(call).is_some();
    if message.role == Role::Tool
        && results_of(message).any(is_shortened)
        && !effects.pinned_messages.contains(&message.id)
    {
        // Media that a tool message contains are shown after its first result, and become text if that result is a stub.
        let pruned = results_of(message).next().is_some_and(|call| effects.is_pruned(call));
        let weigh = |part| shortened(part, pruned, effects, calls);
        return FRAME + message.parts.iter().map(weigh).sum::<Tokens>();
    }
    if message.role == Role::Assistant && effects.cuts_inputs(message) {
        let weigh = |part| input::estimate(part, |call| effects.input_of(call));
        return FRAME + message.parts.iter().map(weigh).sum::<Tokens>();
    }
    if effects.wrapped.contains(&message.id) && message.is_user_turn() {
        let wrapped = message.parts.iter().map(|part| match part {
            Part::Text { text, .. } if reminder::wraps(part) => budget::estimate_text(&reminder::wrap(text)),
            _ => budget::estimate_part(part),
        });
        return FRAME + wrapped.sum::<Tokens>();
    }
    slot.tokens
}

/// Returns the estimate of one part of a tool message. `pruned`: the first output of the message is a stub.
fn shortened(part: &Part, pruned: bool, effects: &Effects, calls: &Calls) -> Tokens {
    match part {
        Part::ToolResult { call_id, name, .. } => match effects.pruned.get(call_id) {
            Some(mark) if effects.is_pruned(call_id) => {
                // The stub of a result without its call is counted without an excerpt. Such a result is not sent, and a
                // checkpoint drops its excerpt, so the estimate must not depend on it.
                let is_asked = calls.answer(call_id) != Answer::NotAsked;
                let excerpt = if is_asked { mark.excerpt.as_str() } else { "" };
                let stub = prune::stub(call_id, name, mark.bytes, mark.lines, excerpt);
                FRAME + budget::estimate_text(&stub)
            }
            _ => match effects.cut_of(call_id).and_then(|cut| cut::render(part, cut)) {
                Some(text) => FRAME + budget::estimate_text(&text),
                None => escaped(part),
            },
        },
        // Media beside a pruned output become a line of text. Beside a cut output they still count as
        // media.
        Part::Image { .. } | Part::File { .. } if pruned => Tokens(24),
        _ => escaped(part),
    }
}

/// Returns the estimate of summary, session state and rules, which precede the live messages.
pub(super) fn lead(compaction: &Compaction) -> Tokens {
    let rules = compaction
        .repeated
        .rules
        .iter()
        .map(|item| FRAME + budget::estimate_text(&escape::escape(&item.text)));
    budget::estimate_text(&compaction.summary)
        + budget::estimate_text(&compaction.repeated.state)
        + LEAD_FRAME
        + rules.sum::<Tokens>()
}
