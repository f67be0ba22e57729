//! Call ids: none runs twice, whatever a provider sends.
//!
//! Model: ids are the provider's, and should be unique in a session. An id that comes again gets a suffix before it enters
//! the ledger, so that histories stay valid. If the call behind it is the same as one that was let run, it is a repeated
//! delivery and is not run; if it is another call, the provider counts badly and it runs under its new id.

use crate::answer::Call;
use crate::repetition::call_hash;
use becket_session::context::View;
use becket_types::{CallId, Part, Seq};
use std::collections::{HashMap, HashSet};

/// What is known of call ids, and the last answer's calls.
#[derive(Debug, Default)]
pub(crate) struct CallIds {
    /// By id as in the ledger: the call, where it was let run.
    known: HashMap<CallId, Option<u64>>,
    /// Calls that are not run because the same call with the same id was before.
    repeated: HashSet<CallId>,
    /// Entry of the last answer's message.
    pub(crate) last_entry: Option<Seq>,
    pub(crate) last_calls: Vec<Call>,
}

impl CallIds {
    /// What the ledger knows. Of calls that left the view only the journal is known; they count as the same call.
    pub(crate) fn from_view(view: &View) -> Self {
        let mut ids = Self::default();
        for line in view.journal() {
            ids.known.insert(line.call_id.clone(), Some(0));
        }
        for part in view.live().flat_map(|message| &message.parts) {
            if let Part::ToolCall { call_id, name, input, .. } = part {
                ids.known.insert(call_id.clone(), Some(call_hash(name, input)));
            }
        }
        ids
    }

    /// Makes the ids of new calls unique.
    pub(crate) fn admit(&mut self, parts: &mut [Part]) {
        for part in parts {
            let Part::ToolCall { call_id, name, input, .. } = part else { continue };
            if let Some(before) = self.known.get(call_id) {
                let again = before.is_some_and(|before| before == 0 || before == call_hash(name, input));
                let fresh = self.fresh(call_id);
                if again {
                    self.repeated.insert(fresh.clone());
                }
                *call_id = fresh;
            }
            self.known.insert(call_id.clone(), None);
        }
    }

    fn fresh(&self, id: &CallId) -> CallId {
        let mut n = 2;
        loop {
            let fresh = CallId(format!("{id}-{n}"));
            if !self.known.contains_key(&fresh) {
                return fresh;
            }
            n += 1;
        }
    }

    /// The call is going to be let run. False when it was before.
    pub(crate) fn may_run(&mut self, call: &Call) -> bool {
        if self.repeated.remove(&call.id) {
            return false;
        }
        let slot = self.known.entry(call.id.clone()).or_insert(None);
        slot.replace(call_hash(&call.name, &call.input)).is_none()
    }

    /// The last answer is broken or superseded: its calls never were.
    pub(crate) fn forget_last(&mut self) {
        for call in self.last_calls.drain(..) {
            self.known.remove(&call.id);
            self.repeated.remove(&call.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(part: &Part) -> Call {
        let Part::ToolCall { call_id, name, input, .. } = part else { panic!("no call") };
        Call { id: call_id.clone(), name: name.clone(), input: input.clone(), invalid: None }
    }

    /// Admits calls `(id, command)` one after the other and says under which id each may run.
    fn check(calls: &[(&str, &str)], want: &[(&str, bool)]) {
        let mut ids = CallIds::default();
        let mut got = Vec::new();
        for (id, command) in calls {
            let mut parts = [Part::tool_call(*id, "bash", json!({"command": command}))];
            ids.admit(&mut parts);
            let call = call(&parts[0]);
            let may = ids.may_run(&call);
            got.push((call.id.0, may));
        }
        let want: Vec<_> = want.iter().map(|(id, may)| ((*id).to_owned(), *may)).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn the_same_call_under_the_same_id_runs_once() {
        check(&[("c", "rm x"), ("c", "rm x"), ("d", "rm x")], &[("c", true), ("c-2", false), ("d", true)]);
    }

    #[test]
    fn another_call_under_a_used_id_gets_an_id_of_its_own() {
        check(&[("0", "ls"), ("0", "pwd"), ("0", "id")], &[("0", true), ("0-2", true), ("0-3", true)]);
    }

    #[test]
    fn calls_of_a_broken_answer_may_come_again() {
        let mut ids = CallIds::default();
        let part = Part::tool_call("c", "bash", json!({"command": "make"}));
        for _ in 0..2 {
            let mut parts = [part.clone()];
            ids.admit(&mut parts);
            assert_eq!(parts[0], part);
            ids.last_calls = vec![call(&part)];
            ids.forget_last();
        }
    }
}
