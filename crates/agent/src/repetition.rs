//! The repetition guard: sees when the model makes the same calls with the same results again and again.
//!
//! Model: the calls since the last real user message are a sequence of fingerprints, each of call, input and result.
//! A *run* is the longest end of that sequence that repeats with period 1, 2 or 3. In a run of period `p` with `n`
//! calls the newest call has been seen `(n - 1) / p + 1` times. Seen 3 times: a nudge. Seen 5 times: stop.
//! So period 1 is caught at the 3rd call, period 2 at the 5th, period 3 at the 7th.
//!
//! Invariants: O(1) per call; a changed result (polling) breaks the run; the `description` field of an input does not
//! count, as models vary it freely. Does not know why calls are made and never looks at time.

use crate::machine::Repetition;
use becket_types::cut_end;
use serde_json::Value;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The newest call has been seen this often: tell the model.
const NUDGE_AT: u64 = 3;
/// … this often: stop.
const STOP_AT: u64 = 5;
const PERIODS: usize = 3;

/// What one call did, as far as repetition is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprint(u64);

/// Watches the calls of one session.
#[derive(Debug, Default)]
pub struct RepetitionGuard {
    /// The last three fingerprints, newest first.
    recent: [Option<Fingerprint>; PERIODS],
    /// Calls in the current run, by period - 1.
    runs: [u64; PERIODS],
    /// A person's name for the newest call.
    label: String,
    /// Times seen at which the last nudge was given.
    nudged: bool,
}

impl RepetitionGuard {
    /// A real user message came: what was before does not count.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// A call has its result.
    pub fn saw(&mut self, tool: &str, input: &Value, output: &str, is_error: bool) {
        let new = fingerprint(tool, input, output, is_error);
        for (index, run) in self.runs.iter_mut().enumerate() {
            let period = index + 1;
            *run = match self.recent[index] {
                Some(earlier) if earlier == new => (*run).max(period as u64) + 1,
                _ => 0,
            };
        }
        self.recent.rotate_right(1);
        self.recent[0] = Some(new);
        if self.seen() < NUDGE_AT {
            self.nudged = false;
        }
        self.label = label(tool, input);
    }

    /// How often the newest call was seen in its run.
    fn seen(&self) -> u64 {
        self.runs
            .iter()
            .enumerate()
            .map(|(index, run)| if *run == 0 { 1 } else { (run - 1) / (index as u64 + 1) + 1 })
            .max()
            .unwrap_or(1)
    }

    /// What follows from it. A nudge is reported once per run.
    pub fn verdict(&mut self) -> Repetition {
        let seen = self.seen();
        if seen >= STOP_AT {
            return Repetition::Stop(format!("{} repeated {seen} times with the same result", self.label));
        }
        if seen >= NUDGE_AT && !self.nudged {
            self.nudged = true;
            return Repetition::Nudge(self.label.clone());
        }
        Repetition::None
    }
}

fn fingerprint(tool: &str, input: &Value, output: &str, is_error: bool) -> Fingerprint {
    let mut hasher = DefaultHasher::new();
    tool.hash(&mut hasher);
    hash_input(input, true, &mut hasher);
    output.hash(&mut hasher);
    is_error.hash(&mut hasher);
    Fingerprint(hasher.finish())
}

/// Key order does not matter; `description` at the top does not count.
fn hash_input(value: &Value, top: bool, hasher: &mut DefaultHasher) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().filter(|key| !(top && *key == "description")).collect();
            keys.sort_unstable();
            for key in keys {
                key.hash(hasher);
                hash_input(&map[key], false, hasher);
            }
        }
        Value::Array(items) => {
            items.len().hash(hasher);
            for item in items {
                hash_input(item, false, hasher);
            }
        }
        Value::String(text) => text.hash(hasher),
        other => other.to_string().hash(hasher),
    }
}

/// The call's identity without its result, for telling a reused call id from a repeated call.
pub(crate) fn call_hash(tool: &str, input: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    tool.hash(&mut hasher);
    hash_input(input, false, &mut hasher);
    hasher.finish()
}

fn label(tool: &str, input: &Value) -> String {
    let text = input.to_string();
    if text.len() > 120 { format!("{tool} {}…", cut_end(&text, 120)) } else { format!("{tool} {text}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Feeds one call per character (same letter: same call and result) and gives the verdict after each:
    /// `.` nothing, `n` nudge, `S` stop.
    fn verdicts(calls: &str) -> String {
        let mut guard = RepetitionGuard::default();
        calls
            .chars()
            .map(|c| {
                guard.saw("bash", &json!({"command": c.to_string()}), "out", false);
                match guard.verdict() {
                    Repetition::None => '.',
                    Repetition::Nudge(_) => 'n',
                    Repetition::Stop(_) => 'S',
                }
            })
            .collect()
    }

    #[test]
    fn runs_of_period_one_two_and_three_are_caught() {
        for (calls, want) in [
            ("abcdefgh", "........"),
            ("aa", ".."),
            ("aaaaa", "..n.S"),
            ("aaabaaa", "..n...n"),
            ("ababababa", "....n...S"),
            ("abcabcabcabca", "......n.....S"),
            ("xyzaaa", ".....n"),
            ("aabaab", "......"),
            ("aabbaabb", "........"),
        ] {
            assert_eq!(verdicts(calls), want, "{calls}");
        }
    }

    #[test]
    fn a_changed_result_breaks_the_run_and_a_changed_description_does_not() {
        let mut guard = RepetitionGuard::default();
        for n in 0..20 {
            guard.saw("bash", &json!({"command": "date"}), &n.to_string(), false);
            assert_eq!(guard.verdict(), Repetition::None);
        }
        let mut guard = RepetitionGuard::default();
        for n in 0..5 {
            guard.saw("bash", &json!({"description": format!("try {n}"), "command": "make"}), "failed", true);
        }
        assert_eq!(
            guard.verdict(),
            Repetition::Stop(
                r#"bash {"description":"try 4","command":"make"} repeated 5 times with the same result"#
                    .to_owned()
            )
        );
    }

    #[test]
    fn a_user_message_starts_anew() {
        let mut guard = RepetitionGuard::default();
        for _ in 0..4 {
            guard.saw("read", &json!({"path": "a"}), "x", false);
        }
        guard.reset();
        guard.saw("read", &json!({"path": "a"}), "x", false);
        assert_eq!(guard.verdict(), Repetition::None);
    }
}
