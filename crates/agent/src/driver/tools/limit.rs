//! Limits the results of one step, taken together, to a share of the window.
//!
//! Each output is within the limits of its tool, but the outputs of many parallel calls can together exceed the window.
//! So the step is measured when its last result is present, before any request shows it. If it is too large, only the
//! beginning and the end of its largest results are shown. The ledger keeps them whole, and `recall` returns the rest.
//!
//! The inputs of its calls are repeated in every later request, so they have a share of the window too.
//!
//! The rules of a cut are in `session::context::cut` and `session::context::input`.

use super::super::{BudgetState, Core};
use crate::host::lock;
use becket_session::Durability;
use becket_session::context::budget::{Budget, part_of};
use becket_session::context::{due, input};
use becket_types::{EntryKind, NoticeLevel, Tokens};

/// One step may take this share of the usable window even in a full context, because older steps can be compacted.
const MIN_STEP_SHARE: f64 = 0.35;
/// Space that a step leaves below the threshold, as a share of the usable window. Without it, a step that was cut to
/// the free space would still cause a compaction.
const SPARE_SHARE: f64 = 0.03;
/// One step may take at most this share even in an empty context, because the next step needs space too.
const MAX_STEP_SHARE: f64 = 0.60;

/// Cuts the results of the step that just ended, if they are too large together. `used`: the size of the context.
pub(super) fn limit_step(core: &mut Core, state: &BudgetState, budget: &Budget, used: Tokens) {
    let used = limit_inputs(core, state, budget, used);
    let base = due::step_tokens(lock(&core.session).view());
    let scale = state.meter.estimator;
    let size = scale.scale(base);
    let usable = budget.usable();
    let before = used.0.saturating_sub(size.0);
    let threshold = budget.threshold(state.policy.threshold).0;
    let free = threshold.saturating_sub(before + part_of(usable, SPARE_SHARE));
    let room = free.clamp(part_of(usable, MIN_STEP_SHARE), part_of(usable, MAX_STEP_SHARE));
    if size.0 <= room {
        return;
    }
    let room = Tokens((room as f64 * base.0 as f64 / size.0.max(1) as f64) as u64);
    let entry = due::step_cut(lock(&core.session).view(), room);
    let Some(EntryKind::Prune { cuts, .. }) = &entry else { return };
    let text = match cuts.len() {
        1 => format!(
            "The results of this step were too large together ({size} tokens): one of them is shown to the model in part, and \
             `recall` brings the rest."
        ),
        n => format!(
            "The results of this step were too large together ({size} tokens): {n} of them are shown to the model in part, and \
             `recall` brings the rest."
        ),
    };
    core.append(entry.into_iter().collect(), Durability::Buffered);
    core.notice(NoticeLevel::Info, text);
}

/// Cuts the inputs of the step's calls if they are too large together. Returns the size of the context after it.
fn limit_inputs(core: &mut Core, state: &BudgetState, budget: &Budget, used: Tokens) -> Tokens {
    let scale = state.meter.estimator;
    let room = part_of(budget.usable(), input::SHARE);
    // The estimator converts base tokens to the provider's tokens. `room` is converted in the other direction.
    let one = scale.scale(Tokens(1_000_000)).0.max(1);
    let base = Tokens((room as f64 * 1_000_000.0 / one as f64) as u64);
    let entry = due::input_cut(lock(&core.session).view(), base);
    let Some(EntryKind::CutInputs { inputs, freed_tokens }) = &entry else { return used };
    let (count, freed) = (inputs.len(), scale.scale(*freed_tokens));
    let text = match count {
        1 => format!(
            "The arguments of a call were too large ({freed} tokens): they are shown to the model in part from now on, and \
             `recall` brings the rest."
        ),
        n => format!(
            "The arguments of {n} calls were too large together ({freed} tokens): they are shown to the model in part from now \
             on, and `recall` brings the rest."
        ),
    };
    core.append(entry.into_iter().collect(), Durability::Buffered);
    core.notice(NoticeLevel::Info, text);
    Tokens(used.0.saturating_sub(freed.0))
}
