//! Combines several turns of the agent to one result, if they are one turn for people.

use becket_types::TurnResult;
use std::borrow::Cow;

/// Combines the previous requests of a turn, which gave no answer that fits the schema, with the result of the latest one.
pub(super) fn merge(carried: Option<TurnResult>, result: &TurnResult) -> Cow<'_, TurnResult> {
    let Some(before) = carried else { return Cow::Borrowed(result) };
    let mut result = result.clone();
    result.steps += before.steps;
    result.duration.0 += before.duration.0;
    result.api_duration.0 += before.api_duration.0;
    result.usage += before.usage;
    result.cost += before.cost;
    result.compaction.count += before.compaction.count;
    for old in before.models {
        match result.models.iter_mut().find(|m| m.model == old.model) {
            Some(m) => {
                m.usage += old.usage;
                m.cost += old.cost;
            }
            None => result.models.push(old),
        }
    }
    result.denials.splice(0..0, before.denials);
    Cow::Owned(result)
}
