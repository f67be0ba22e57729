//! Compaction through the real view: what is planned from it is what it shows afterwards.

use super::logs::*;
use becket_session::context::budget::{Budget, Meter, estimate_text};
use becket_session::context::compaction::{
    CompactionEffect, CompactionReason, Floor, Governor, Request, Snapshot, Step, Summariser, Verdict,
};
use becket_session::context::continuation::is_users_words;
use becket_session::context::{ModelScope, Policy, View};
use becket_types::*;
use proptest::prelude::*;
use serde_json::json;

/// A ledger and its view.
pub(super) struct Ledger {
    pub(super) entries: Vec<Entry>,
    pub(super) view: View,
}

impl Ledger {
    pub(super) fn new() -> Self {
        let scope = ModelScope {
            provider: "p".into(),
            model: "m".into(),
            images: true,
            max_images: 9,
            max_media_bytes: 1 << 30,
        };
        Self { entries: Vec::new(), view: View::new(Policy::default(), scope) }
    }

    pub(super) fn append(&mut self, kinds: impl IntoIterator<Item = EntryKind>) -> Seq {
        for kind in kinds {
            let seq = Seq(self.entries.len() as u64 + 1);
            let entry = Entry { seq, time: Millis(seq.0), kind };
            self.view.apply(&entry);
            self.entries.push(entry);
        }
        Seq(self.entries.len() as u64)
    }

    pub(super) fn message(&mut self, message: Message) {
        let finish = (message.role == Role::Assistant).then(|| EntryKind::Finish {
            message: message.id,
            reason: if message.call_ids().next().is_some() {
                FinishReason::ToolCalls
            } else {
                FinishReason::Stop
            },
        });
        self.append(std::iter::once(EntryKind::Message { message }).chain(finish));
    }

    pub(super) fn step(&mut self, n: usize, bytes: usize) {
        let id = format!("c{n}");
        let call = Part::tool_call(id.clone(), "bash", json!({"command": format!("make step{n}")}));
        self.message(Message::assistant(vec![Part::text(format!("step {n}")), call]));
        let journal = |state, result| EntryKind::ToolJournal {
            call_id: CallId(id.clone()),
            state,
            tool: Some("bash".into()),
            subject: Some(format!("make step{n}")),
            result,
        };
        self.append([journal(JournalState::Started, json!(null))]);
        self.message(Message::tool_result(CallId(id.clone()), "bash", filler(bytes), false));
        self.append([journal(JournalState::Finished, json!({"exit_code": 0}))]);
    }

    pub(super) fn shown(&mut self) -> Vec<Message> {
        let messages = self.view.context().messages.iter().map(|m| Message::clone(&m.message)).collect();
        self.view.check().unwrap();
        messages
    }

    pub(super) fn snapshot(
        &self,
        floor: Floor,
        used: Tokens,
        budget: Budget,
        trigger: CompactionTrigger,
    ) -> Snapshot {
        let summariser = Summariser { name: "p/m".into(), budget, prices: None, cache_warm: true };
        Snapshot::take(
            &self.view,
            Request {
                trigger,
                focus: None,
                floor,
                used,
                budget,
                summariser: Some(summariser),
                continuation_id: MessageId::new(),
                now: Millis(1),
            },
        )
    }
}

fn floor() -> (Floor, Vec<SystemItem>, Vec<ToolSpec>) {
    let system = vec![
        SystemItem { kind: SystemKind::Prompt, path: None, text: filler(6_000) },
        SystemItem { kind: SystemKind::Rules, path: Some("AGENTS.md".into()), text: filler(900) },
    ];
    let tools = vec![ToolSpec {
        name: "bash".into(),
        description: filler(600),
        input_schema: json!({"type": "object"}).into(),
    }];
    (Floor::measure(&system, &tools), system, tools)
}

#[test]
fn the_floor_is_what_a_request_starts_with() {
    let (floor, ..) = floor();
    let want = Floor {
        system: estimate_text(&filler(6_000)),
        rules: estimate_text(&filler(900)),
        skills: Tokens(0),
        tools: estimate_text(&filler(600))
            + estimate_text("bash")
            + estimate_text(r#"{"type":"object"}"#)
            + Tokens(8),
    };
    assert_eq!(floor, want);
}

/// 200 tool calls in one headless turn with a window of 32,000 tokens, compacted as the driver does it, with every kind of summariser.
#[test]
fn two_hundred_calls_in_one_turn_never_lose_the_thread() {
    for behaviour in BEHAVIOURS {
        let (floor, system, _) = floor();
        let mut ledger = Ledger::new();
        ledger.append([EntryKind::System { items: system }]);
        ledger.message(Message::user("build all steps, then report"));
        let (mut meter, mut governor, mut compactions) = (Meter::default(), Governor::default(), 0);
        let budget = Budget::new(32_768, 0, 8_192);
        let mut n = 0;
        while n < 200 {
            let base = ledger.view.estimated_tokens() + floor.tools;
            let used = meter.used(base);
            let policy = ledger.view.policy().clone();
            match governor.decide(CompactionReason::Threshold, used, &budget, &policy, Millis(0)) {
                Verdict::No => {
                    n += 1;
                    ledger.step(n, 900);
                    let now = ledger.view.estimated_tokens() + floor.tools;
                    meter.report(
                        &Usage { input: base.0 * 11 / 10, output: 60, ..Usage::default() },
                        base,
                        now,
                    );
                    governor.step_succeeded();
                }
                Verdict::Compact(trigger) => {
                    let before = ledger.shown();
                    let (step, _) = run(ledger.snapshot(floor, used, budget, trigger), behaviour);
                    let outcome = committed(step);
                    let after = outcome.report.tokens_after;
                    governor.succeeded(after, &budget);
                    let at = ledger.append(outcome.entries.clone());
                    ledger.append([governor.entry()]);
                    meter.forget();
                    compactions += 1;
                    let shown = ledger.shown();
                    assert_eq!(
                        shown[0].origin,
                        Origin::Synthetic(Synthetic::CompactionSummary),
                        "{behaviour:?}"
                    );
                    let words: Vec<_> =
                        shown.iter().filter(|m| is_users_words(m)).map(Message::text).collect();
                    assert_eq!(words, ["build all steps, then report"], "{behaviour:?}");
                    let last = shown.last().unwrap();
                    assert!(last.metadata.compaction_continue && last.text() == "continue", "{last:?}");
                    assert!(shown[0].text().contains(&format!("make step{n}`: exit 0")), "{behaviour:?}");
                    // The reported size is the view's, within the 5 % by which the learned ratio of tokens may have changed.
                    let measured = meter.used(ledger.view.estimated_tokens() + floor.tools);
                    assert!(measured.0.abs_diff(after.0) * 20 <= after.0, "{measured} {after}");
                    // P3: after an undo of the compaction the view is as before it, and after an undo of the undo as after it.
                    let undo = ledger.append([EntryKind::Revert { entry: Seq(at.0 - 1) }]);
                    assert_eq!(ledger.shown(), before, "{behaviour:?}");
                    ledger.append([EntryKind::Revert { entry: undo }]);
                    assert_eq!(ledger.shown(), shown, "{behaviour:?}");
                }
                Verdict::Stop(reason) => panic!("{behaviour:?} stopped at {n}: {reason}"),
            }
        }
        assert!((2..=12).contains(&compactions), "{behaviour:?}: {compactions}");
    }
}

/// Later compactions do not change the messages and losses that are reported for an earlier one.
#[test]
fn what_an_old_compaction_lost_is_what_was_said_before_it_was_made() {
    let (floor, system, _) = floor();
    let mut ledger = Ledger::new();
    ledger.append([EntryKind::System { items: system }]);
    let gone = |folded: &CompactionEffect| folded.gone.iter().map(|message| message.id).collect::<Vec<_>>();
    let mut told = Vec::new();
    for (round, trigger) in [CompactionTrigger::Manual, CompactionTrigger::Auto, CompactionTrigger::Manual]
        .into_iter()
        .enumerate()
    {
        ledger.message(Message::user("Go on."));
        let found = format!("I look into src/found_{round}.rs because of ACME-47{round}1.");
        ledger.message(Message::assistant(vec![Part::text(found)]));
        for _ in 0..4 {
            ledger.message(Message::user("Tell me more."));
            ledger.message(Message::assistant(vec![Part::text(filler(16_000))]));
        }
        ledger.message(Message::user("Do that."));
        (0..5).for_each(|n| ledger.step(round * 5 + n, 8_000));
        if trigger == CompactionTrigger::Manual {
            ledger.message(Message::assistant(vec![Part::text("done")]));
            ledger.message(Message::user("and now something else"));
            (5..9).for_each(|n| ledger.step(100 + round * 5 + n, 4_000));
            ledger.message(Message::assistant(vec![Part::text("done, too")]));
        }
        let used = ledger.view.estimated_tokens() + floor.tools;
        let budget = Budget::new(32_768, 0, 8_192);
        let outcome = committed(run(ledger.snapshot(floor, used, budget, trigger), Behaviour::Good).0);
        let folded = CompactionEffect::of_outcome(&outcome, &ledger.view, &ledger.entries);
        let last = ledger.append(outcome.entries.clone());
        let entry = Seq(last.0 + 1 - outcome.entries.len() as u64);
        told.push((entry, gone(&folded), folded.loss));
    }
    let paths = |loss: &Loss| loss.paths.iter().map(|lost| lost.text.clone()).collect::<Vec<_>>();
    let want = [["src/found_0.rs"], ["src/found_1.rs"], ["src/found_2.rs"]];
    assert_eq!(told.iter().map(|(_, _, loss)| paths(loss)).collect::<Vec<_>>(), want, "{told:#?}");
    for (entry, messages, loss) in &told {
        // Computed again from the entries before the compaction, and from those up to its continuation.
        let upto = |last: u64| ledger.entries.iter().filter(move |e| e.seq.0 <= last);
        let fold = |last| View::fold(ledger.view.policy().clone(), ledger.view.scope().clone(), upto(last));
        let before = fold(entry.0 - 1);
        let then = CompactionEffect::between(before.live(), &mut fold(entry.0 + 1));
        assert_eq!((&gone(&then), &then.loss), (messages, loss), "entry {entry}");
    }
}

proptest! {
    #![proptest_config(crate::cases(1_000))]

    /// P1, P5, P6 through the view, for random histories, twice in a row.
    #[test]
    fn what_the_view_shows_after_a_compaction_is_valid_and_ends_with_what_is_next(
        ops in prop::collection::vec(op(), 1..20),
        more in prop::collection::vec(op(), 0..8),
        behaviour in prop::sample::select(BEHAVIOURS.to_vec()),
        trigger in prop_oneof![Just(CompactionTrigger::Auto), Just(CompactionTrigger::Manual)],
    ) {
        let mut ledger = Ledger::new();
        let log = log(&[ops, more].concat());
        let half = log.messages.len() / 2;
        for messages in [&log.messages[..half], &log.messages[half..]] {
            for message in messages {
                ledger.message(Message::clone(message));
            }
            let state = ledger.view.turn_state();
            let used = ledger.view.estimated_tokens();
            let snapshot = ledger.snapshot(Floor::default(), used, Budget::new(12_000, 0, 3_000), trigger);
            let last = snapshot.messages.iter().rev().find(|m| is_users_words(m)).cloned();
            if let (Step::Commit(outcome), _) = run(snapshot, behaviour) {
                ledger.append(outcome.entries.clone());
                let shown = ledger.shown();
                if let Some(EntryKind::Compaction(c)) = outcome.entries.first() {
                    prop_assert_eq!(outcome.entries.len() == 1, state == TurnState::AwaitingUser);
                    prop_assert_eq!(c.turn_state, state);
                    if state != TurnState::AwaitingUser {
                        prop_assert!(shown.last().is_some_and(|m| m.metadata.compaction_continue));
                    }
                }
                if let Some(last) = last {
                    let text = last.text();
                    // A repeated message whose image was answered since holds the image's text as well.
                    let said = |m: &&Message| m.is_user_turn() || m.metadata.compaction_continue;
                    prop_assert!(shown.iter().filter(said).any(|m| m.text().starts_with(&text)), "{text}");
                }
            }
            ledger.shown();
        }
    }
}
