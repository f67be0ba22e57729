//! The repetition guard: detects that the model makes the same calls with the same results again and again.
//!
//! Every call since the last real user message has a fingerprint of its name, input and result. A *run* is
//! the longest suffix of this sequence that repeats with period 1, 2 or 3. In a run of period `p` with `n`
//! calls, the newest call has occurred `(n - 1) / p + 1` times. At 3 occurrences the model is warned; at 5
//! the turn stops. So period 1 is detected at the 3rd call, period 2 at the 5th, period 3 at the 7th.
//!
//! Longer cycles are detected differently: each of their calls was made before in this turn with the same
//! result, so they bring *nothing new*. After 25 such calls in a row the model is warned; after 50 the turn
//! stops. A single new call or result resets the count, so reading around, editing and polling never trigger
//! it.
//!
//! Equal calls with equal results within one step count once. They run in parallel, and the model has seen
//! none of the results when it makes them.
//!
//! Invariants: O(1) per call, and 8 bytes kept for each new one. A changed result (polling) ends the run. The
//! `description` field of an input is ignored, because models vary it freely. The guard does not know why
//! calls are made and does not use time.

use crate::machine::Repetition;
use becket_types::cut_end;
use serde_json::Value;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Number of occurrences at which the model is warned.
const NUDGE_AT: u64 = 3;
/// Number of occurrences at which the turn stops.
const STOP_AT: u64 = 5;
const PERIODS: usize = 3;
/// Number of consecutive calls without anything new at which the model is warned.
const STALE_NUDGE: u64 = 25;
/// Number of consecutive calls without anything new at which the turn stops.
const STALE_STOP: u64 = 50;

/// Hash of one call with its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Fingerprint(u64);

/// Observes the calls of one session.
#[derive(Debug, Default)]
pub struct RepetitionGuard {
    /// The last three fingerprints, newest first.
    recent: [Option<Fingerprint>; PERIODS],
    /// Length of the current run for each period; index is period minus 1.
    runs: [u64; PERIODS],
    /// Name of the newest call, for messages.
    label: String,
    /// True if the warning for this run was given.
    nudged: bool,
    /// All fingerprints since the last user message.
    known: HashSet<Fingerprint>,
    /// Number of consecutive calls that were already known.
    stale: u64,
    /// Calls of the current step, that is, since the last verdict.
    step: HashSet<Fingerprint>,
}

impl RepetitionGuard {
    /// Resets the guard at a real user message: earlier calls no longer count.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Records a call with its result.
    pub fn record(&mut self, tool: &str, input: &Value, output: &str, is_error: bool) {
        let new = fingerprint(tool, input, output, is_error);
        if !self.step.insert(new) {
            return;
        }
        for (index, run) in self.runs.iter_mut().enumerate() {
            let period = index + 1;
            *run = match self.recent[index] {
                Some(earlier) if earlier == new => (*run).max(period as u64) + 1,
                _ => 0,
            };
        }
        self.recent.rotate_right(1);
        self.recent[0] = Some(new);
        self.stale = if self.known.insert(new) { 0 } else { self.stale + 1 };
        if self.seen() < NUDGE_AT && self.stale < STALE_NUDGE {
            self.nudged = false;
        }
        self.label = label(tool, input);
    }

    /// Returns how often the newest call occurred in its run.
    fn seen(&self) -> u64 {
        self.runs
            .iter()
            .enumerate()
            .map(|(index, run)| if *run == 0 { 1 } else { (run - 1) / (index as u64 + 1) + 1 })
            .max()
            .unwrap_or(1)
    }

    /// Returns the verdict on the calls so far. Called once at the end of each step. A warning is returned
    /// once per run.
    pub fn verdict(&mut self) -> Repetition {
        self.step.clear();
        let seen = self.seen();
        if seen >= STOP_AT {
            return Repetition::Stop(format!("{} repeated {seen} times with the same result", self.label));
        }
        if self.stale >= STALE_STOP {
            return Repetition::Stop(format!(
                "the last {} calls brought nothing new; the newest is {}",
                self.stale, self.label
            ));
        }
        if self.nudged || (seen < NUDGE_AT && self.stale < STALE_NUDGE) {
            return Repetition::None;
        }
        self.nudged = true;
        Repetition::Nudge(if seen >= NUDGE_AT {
            format!("You have made this call several times with the same result: {}", self.label)
        } else {
            format!(
                "Each of your last {} calls was made before, with the same result. The newest: {}",
                self.stale, self.label
            )
        })
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

/// Hashes an input. The order of keys is ignored, and so is `description` at the top level.
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

/// Returns a hash of the call without its result, which distinguishes a reused call id from a repeated call.
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
    use proptest::prelude::*;
    use serde_json::json;

    /// Runs 10,000 cases (more with `PROPTEST_CASES`).
    fn cases() -> ProptestConfig {
        let cases = std::env::var("PROPTEST_CASES").ok().and_then(|v| v.parse().ok()).unwrap_or(10_000);
        ProptestConfig::with_cases(cases)
    }

    /// Feeds one call per character (same letter: same call and result) and returns the verdict after each:
    /// `.` nothing, `n` warning, `S` stop.
    fn verdicts(calls: &str) -> String {
        let mut guard = RepetitionGuard::default();
        calls
            .chars()
            .map(|c| {
                guard.record("bash", &json!({"command": c.to_string()}), "out", false);
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
            // The warning is given once per run, and again in the next run.
            ("aaaabaaa", "..n....n"),
        ] {
            assert_eq!(verdicts(calls), want, "{calls}");
        }
    }

    #[test]
    fn a_changed_result_breaks_the_run_and_a_changed_description_does_not() {
        let mut guard = RepetitionGuard::default();
        for n in 0..20 {
            guard.record("bash", &json!({"command": "date"}), &n.to_string(), false);
            assert_eq!(guard.verdict(), Repetition::None);
        }
        let mut guard = RepetitionGuard::default();
        let mut last = Repetition::None;
        for n in 0..5 {
            guard.record(
                "bash",
                &json!({"description": format!("try {n}"), "command": "make"}),
                "failed",
                true,
            );
            last = guard.verdict();
        }
        assert_eq!(
            last,
            Repetition::Stop(
                r#"bash {"description":"try 4","command":"make"} repeated 5 times with the same result"#
                    .to_owned()
            )
        );
    }

    #[test]
    fn equal_calls_of_one_step_count_once() {
        let mut guard = RepetitionGuard::default();
        let mut seen = String::new();
        for _ in 0..5 {
            for _ in 0..12 {
                guard.record("read", &json!({"path": "a"}), "text", false);
            }
            seen.push(match guard.verdict() {
                Repetition::None => '.',
                Repetition::Nudge(_) => 'n',
                Repetition::Stop(_) => 'S',
            });
        }
        assert_eq!(seen, "..n.S");
    }

    #[test]
    fn circles_of_any_length_are_seen_by_what_they_bring() {
        for period in [4, 7, 20] {
            let circle: String = ('a'..='z').take(period).collect();
            let seen = verdicts(&circle.repeat(80 / period + 1));
            assert_eq!(seen.find('n'), Some(period + 24), "{period}: {seen}");
            assert_eq!(seen.find('S'), Some(period + 49), "{period}: {seen}");
        }
        // A single new call resets the count.
        let busy: String = ('a'..='z').flat_map(|new| ['1', '2', '3', '4', '5', new]).collect();
        assert_eq!(verdicts(&busy), ".".repeat(busy.len()));
    }

    proptest! {
        #![proptest_config(cases())]

        #[test]
        fn short_circles_are_caught_within_eight_calls(
            before in "[d-z]{0,12}",
            circle in prop::sample::select(vec!["a", "ab", "abc", "aba", "aab", "abb"]),
        ) {
            // A cycle of one period contains no shorter cycle.
            let seen = verdicts(&(before.clone() + &circle.repeat(9)));
            let nudge = seen[before.len()..].find('n').unwrap();
            let stop = seen[before.len()..].find('S').unwrap();
            prop_assert!(nudge < 8 && nudge < stop, "{circle}: {seen}");
        }

        #[test]
        fn what_changes_is_never_stopped(calls in prop::collection::vec(0usize..4, 1..120)) {
            let mut guard = RepetitionGuard::default();
            for (n, call) in calls.iter().enumerate() {
                guard.record("bash", &json!({"command": call}), &format!("{n} of 100 done"), false);
                prop_assert_eq!(guard.verdict(), Repetition::None);
            }
        }

        #[test]
        fn nothing_is_stopped_that_was_not_made_five_times_or_is_not_stale(calls in "[a-f]{1,120}") {
            let seen = verdicts(&calls);
            if let Some(stop) = seen.find('S') {
                let newest = &calls[stop..=stop];
                prop_assert!(calls[..=stop].matches(newest).count() >= 5 || stop >= 50);
                prop_assert!(seen[..stop].contains('n'), "a nudge comes first: {calls} {seen}");
            }
        }
    }

    #[test]
    fn a_user_message_starts_anew() {
        let mut guard = RepetitionGuard::default();
        for _ in 0..4 {
            guard.record("read", &json!({"path": "a"}), "x", false);
        }
        guard.reset();
        guard.record("read", &json!({"path": "a"}), "x", false);
        assert_eq!(guard.verdict(), Repetition::None);
    }
}
