//! Call ids: none runs twice, whatever a provider sends.
//!
//! Model: ids are the provider's, and should be unique in a session. An id that comes again gets a suffix before it enters
//! the ledger, so that histories stay valid. Whether the call behind it is a repeated delivery, which is not run, or a new
//! call, which is, depends on what its id can tell:
//!
//! - another call than the one before: new; the provider counts badly.
//! - the same call under an id that looks globally unique: repeated, however long ago it ran.
//! - the same call under an id like `call_0`: servers that number the calls of each answer anew give it to every first
//!   call. Repeated only if it ran in the batch directly before, as when a cut answer is delivered again.
//!
//! Of calls that left the view only the id is known; they count as the same call.

use crate::answer::Call;
use crate::repetition::call_hash;
use becket_session::context::View;
use becket_types::{CallId, Part, Role, Seq};
use std::collections::{HashMap, HashSet};

/// What is known of a call id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// In the ledger, and not let run.
    Named,
    /// Let run; the hash of the call.
    Ran(u64),
    /// In the journal, and its call is no longer in the view.
    Journaled,
}

/// What is known of call ids, and the last answer's calls.
#[derive(Debug, Default)]
pub(crate) struct CallIds {
    /// By id as in the ledger.
    known: HashMap<CallId, Known>,
    /// Calls of the last whole answer that were let run.
    batch: HashSet<CallId>,
    /// Calls that are not run because the same call with the same id was before.
    repeated: HashSet<CallId>,
    /// Entry of the last answer's message.
    pub(crate) last_entry: Option<Seq>,
    pub(crate) last_calls: Vec<Call>,
}

impl CallIds {
    /// What the ledger knows.
    pub(crate) fn from_view(view: &View) -> Self {
        let mut ids = Self::default();
        for line in view.journal().iter() {
            ids.known.insert(line.call_id.into(), Known::Journaled);
        }
        for message in view.live() {
            if message.role == Role::Assistant {
                ids.batch.clear();
            }
            for part in &message.parts {
                let Part::ToolCall { call_id, name, input, .. } = part else { continue };
                let slot = ids.known.entry(call_id.clone()).or_insert(Known::Named);
                if *slot != Known::Named {
                    *slot = Known::Ran(call_hash(name, input));
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
                    Known::Named => false,
                    Known::Ran(before) => {
                        *before == call_hash(name, input)
                            && (is_globally_unique(call_id.as_str()) || self.batch.contains(call_id))
                    }
                    Known::Journaled => is_globally_unique(call_id.as_str()),
                };
                let fresh = self.fresh(call_id);
                if again {
                    self.repeated.insert(fresh.clone());
                }
                *call_id = fresh;
            }
            self.known.insert(call_id.clone(), Known::Named);
        }
    }

    /// An answer is whole: the batch before it is no longer the last.
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

    /// The call is going to be let run. False when it was before.
    pub(crate) fn may_run(&mut self, call: &Call) -> bool {
        if self.repeated.remove(&call.id) {
            return false;
        }
        let slot = self.known.entry(call.id.clone()).or_insert(Known::Named);
        let first = *slot == Known::Named;
        *slot = Known::Ran(call_hash(&call.name, &call.input));
        self.batch.insert(call.id.clone());
        first
    }

    /// The last answer is broken or superseded: its calls never were.
    pub(crate) fn forget_last(&mut self) {
        for call in self.last_calls.drain(..) {
            self.known.remove(&call.id);
            self.repeated.remove(&call.id);
        }
    }
}

/// Whether nobody else would come upon this id: behind its prefix stand ten letters and digits or more, both of them.
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
        Call { id: call_id.clone(), name: name.clone(), input: input.clone(), invalid: None }
    }

    const UNIQUE: &str = "toolu_01AbCdEf23";

    /// Answers of calls `(id, command)`, one after the other, and under which id each call may run.
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
        // Once it was told that it ran already, the model means it.
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
            ids.known.insert(CallId::from(id), Known::Journaled);
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
