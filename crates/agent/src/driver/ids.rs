//! Call ids: no call runs twice, whatever ids a provider sends.
//!
//! Model: ids come from the provider and should be unique in a session. An id that was used before gets a suffix before it
//! enters the ledger, so that histories stay valid. The call with it is either delivered twice, and then does not run, or
//! is new, and then runs:
//!
//! - It differs from the earlier call with the id: it is new, because the provider counts badly.
//! - It is the same call, and the id looks globally unique: it is delivered twice, however long ago it ran.
//! - It is the same call, and the id is like `call_0`: some servers number the calls of each answer from 0, so this id
//!   returns often. It is delivered twice only if it ran in the previous batch, as when a cut answer is sent again.
//!
//! For calls that left the view only the id is known; they count as the same call.

use crate::answer::Call;
use crate::repetition::call_hash;
use becket_session::context::View;
use becket_types::{CallId, Part, Role, Seq};
use std::collections::{HashMap, HashSet};

/// The state of a call id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallState {
    /// The id is in the ledger, but its call did not run.
    Named,
    /// The call was run; this is its hash.
    Ran(u64),
    /// The id is in the journal, but the call is no longer in the view, so its hash is not known.
    Journaled,
}

/// The call ids of the session, and the last answer's calls.
#[derive(Debug, Default)]
pub(crate) struct CallIds {
    /// States by the id as written in the ledger.
    known: HashMap<CallId, CallState>,
    /// Calls of the last complete answer that were run.
    batch: HashSet<CallId>,
    /// Calls that are not run because the same call with the same id has run.
    repeated: HashSet<CallId>,
    /// Entry of the last answer's message.
    pub(crate) last_entry: Option<Seq>,
    pub(crate) last_calls: Vec<Call>,
}

impl CallIds {
    /// Loads the ids of the session's view.
    pub(crate) fn from_view(view: &View) -> Self {
        let mut ids = Self::default();
        for line in view.journal().iter() {
            ids.known.insert(line.call_id.into(), CallState::Journaled);
        }
        for message in view.live() {
            if message.role == Role::Assistant {
                ids.batch.clear();
            }
            for part in &message.parts {
                let Part::ToolCall { call_id, name, input, .. } = part else { continue };
                let slot = ids.known.entry(call_id.clone()).or_insert(CallState::Named);
                if *slot != CallState::Named {
                    *slot = CallState::Ran(call_hash(name, input));
                    ids.batch.insert(call_id.clone());
                }
            }
        }
        ids
    }

    /// Makes the ids of new calls unique.
    pub(crate) fn admit(&mut self, parts: &mut [Part]) {
        for part in parts {
            let Part::ToolCall { call_id, name, input, .. } = part else { continue };
            if let Some(before) = self.known.get(call_id) {
                let again = match before {
                    CallState::Named => false,
                    CallState::Ran(before) => {
                        *before == call_hash(name, input)
                            && (is_globally_unique(call_id.as_str()) || self.batch.contains(call_id))
                    }
                    CallState::Journaled => is_globally_unique(call_id.as_str()),
                };
                let fresh = self.fresh(call_id);
                if again {
                    self.repeated.insert(fresh.clone());
                }
                *call_id = fresh;
            }
            self.known.insert(call_id.clone(), CallState::Named);
        }
    }

    /// Called when an answer is complete: the previous batch is no longer the last one.
    pub(crate) fn answered(&mut self) {
        self.batch.clear();
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

    /// Notes that a call is about to run. Returns false if it has run before and must not run again.
    pub(crate) fn may_run(&mut self, call: &Call) -> bool {
        if self.repeated.remove(&call.id) {
            return false;
        }
        let slot = self.known.entry(call.id.clone()).or_insert(CallState::Named);
        let first = *slot == CallState::Named;
        *slot = CallState::Ran(call_hash(&call.name, &call.input));
        self.batch.insert(call.id.clone());
        first
    }

    /// Forgets the last answer's calls, because the answer is broken or superseded.
    pub(crate) fn forget_last(&mut self) {
        for call in self.last_calls.drain(..) {
            self.known.remove(&call.id);
            self.repeated.remove(&call.id);
        }
    }
}

/// True if no other call is likely to get the same id: after its prefix it has at least ten characters, with both letters
/// and digits.
fn is_globally_unique(id: &str) -> bool {
    let own = id.rsplit(['_', '-']).next().unwrap_or(id).as_bytes();
    own.len() >= 10
        && own.iter().all(u8::is_ascii_alphanumeric)
        && own.iter().any(u8::is_ascii_alphabetic)
        && own.iter().any(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(part: &Part) -> Call {
        let Part::ToolCall { call_id, name, input, .. } = part else { panic!("no call") };
        Call {
            id: call_id.clone(),
            name: name.clone(),
            input: input.clone(),
            invalid: None,
            from_text: false,
        }
    }

    const UNIQUE: &str = "toolu_01AbCdEf23";

    /// Feeds answers with calls `(id, command)`, one after the other, and compares the ids under which they run, and if they do.
    fn check(answers: &[&[(&str, &str)]], want: &[(&str, bool)]) {
        let mut ids = CallIds::default();
        let mut got = Vec::new();
        for calls in answers {
            let part =
                |(id, command): &(&str, &str)| Part::tool_call(*id, "bash", json!({"command": command}));
            let mut parts: Vec<Part> = calls.iter().map(part).collect();
            ids.admit(&mut parts);
            ids.answered();
            for call in parts.iter().map(call) {
                let may = ids.may_run(&call);
                got.push((call.id.0, may));
            }
        }
        let want: Vec<_> = want.iter().map(|(id, may)| ((*id).to_owned(), *may)).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn the_same_call_under_a_unique_id_runs_once_ever() {
        let again = format!("{UNIQUE}-2");
        check(
            &[&[(UNIQUE, "rm x")], &[("d", "rm x")], &[], &[(UNIQUE, "rm x")]],
            &[(UNIQUE, true), ("d", true), (&again, false)],
        );
    }

    #[test]
    fn the_same_call_under_a_counted_id_is_repeated_only_directly_after_it_ran() {
        check(&[&[("call_0", "make")], &[("call_0", "make")]], &[("call_0", true), ("call_0-2", false)]);
        // The model was informed that the call has run, so a third one is on purpose.
        check(
            &[&[("call_0", "make")], &[("call_0", "make")], &[("call_0", "make")]],
            &[("call_0", true), ("call_0-2", false), ("call_0-3", true)],
        );
        for between in [&[("call_0", "edit")][..], &[("call_1", "edit")], &[]] {
            let mut want = vec![("call_0", true)];
            want.extend(between.iter().map(|(id, _)| (if *id == "call_0" { "call_0-2" } else { *id }, true)));
            want.push((if between == [("call_0", "edit")] { "call_0-3" } else { "call_0-2" }, true));
            check(&[&[("call_0", "make")], between, &[("call_0", "make")]], &want);
        }
    }

    #[test]
    fn another_call_under_a_used_id_gets_an_id_of_its_own() {
        check(
            &[&[("0", "ls")], &[("0", "pwd")], &[("0", "id")]],
            &[("0", true), ("0-2", true), ("0-3", true)],
        );
        let again = format!("{UNIQUE}-2");
        check(&[&[(UNIQUE, "ls")], &[(UNIQUE, "pwd")]], &[(UNIQUE, true), (&again, true)]);
        check(&[&[("0", "ls"), ("0", "ls")]], &[("0", true), ("0-2", true)]);
    }

    #[test]
    fn which_ids_are_unique() {
        for (id, want) in [
            (UNIQUE, true),
            ("call_0", false),
            ("call_12345678901", false),
            ("call_abcdefghijk", false),
            ("functions.bash:0", false),
            ("chatcmpl-tool-0123456789abcdef", true),
            ("call_0123456789abcdef-2", false),
            ("", false),
            ("a1b2c3d4e5", true),
            ("a1b2c3d4e", false),
        ] {
            assert_eq!(is_globally_unique(id), want, "{id}");
        }
    }

    #[test]
    fn of_calls_that_left_the_view_only_unique_ids_are_repeated() {
        let mut ids = CallIds::default();
        for id in ["call_0", UNIQUE] {
            ids.known.insert(CallId::from(id), CallState::Journaled);
            let mut parts = [Part::tool_call(id, "bash", json!({"command": "make"}))];
            ids.admit(&mut parts);
            assert_eq!(ids.may_run(&call(&parts[0])), id == "call_0", "{id}");
        }
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
