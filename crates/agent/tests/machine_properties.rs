//! Laws of the loop over random interleavings of commands and outcomes, without a clock or a network.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use becket_agent::machine::{
    Action, Answer, Break, BreakKind, CompactionEnd, Facts, Input, MAX_STOP_BLOCKS, Note, Owed, Phase,
    PromptId, Repetition, Rules, State, next,
};
use becket_types::{CompactionTrigger, DeliveryMode, FinishReason, TurnEnd};
use proptest::prelude::*;

/// An action of the user, or the end of the current operation with this outcome.
#[derive(Clone, Debug)]
enum Op {
    Prompt(DeliveryMode),
    Interrupt,
    Compact,
    CompactIdle,
    Plan,
    Undo,
    Restore,
    EndInput,
    Continue,
    Background(bool),
    Finish(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => Just(Op::Prompt(DeliveryMode::Steer)),
        2 => Just(Op::Prompt(DeliveryMode::Join)),
        2 => Just(Op::Prompt(DeliveryMode::Queue)),
        1 => Just(Op::Interrupt),
        1 => Just(Op::Compact),
        1 => Just(Op::CompactIdle),
        1 => Just(Op::Plan),
        1 => Just(Op::Undo),
        1 => Just(Op::Restore),
        1 => Just(Op::Continue),
        2 => any::<bool>().prop_map(Op::Background),
        12 => any::<u8>().prop_map(Op::Finish),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Running {
    Assess,
    Request { cancelled: bool },
    Tools,
    Compaction { cancelled: bool },
    Plan,
    Restore,
    Stop,
}

/// A driver that does nothing but watch.
#[derive(Default)]
struct Watch {
    state: Option<State>,
    running: Option<Running>,
    in_turn: bool,
    exited: bool,
    /// True while work runs in the background.
    background: bool,
    sent: Vec<PromptId>,
    steered: Vec<PromptId>,
    delivered: Vec<PromptId>,
    /// The last answer has calls that are neither run nor closed.
    open_calls: bool,
    requests: usize,
    /// Number of fallback models that are left.
    fallbacks: usize,
    compactions_in_a_row: usize,
}

impl Watch {
    fn feed(&mut self, input: Input) {
        let outcome = matches!(
            input,
            Input::Assessed(_)
                | Input::Answered(_)
                | Input::Broke(_)
                | Input::Cancelled { .. }
                | Input::ToolsDone
                | Input::StopAsked { .. }
                | Input::CompactionDone(_)
                | Input::CompactionPlanned
                | Input::Restored
        );
        if outcome {
            self.running = None;
        }
        let (state, actions) = next(self.state.take().unwrap(), input);
        self.state = Some(state);
        for action in actions {
            self.saw(action);
        }
        let phase = self.state.as_ref().unwrap().phase();
        // Never stuck: a turn that is under way waits for exactly one thing, an operation or work in the background.
        let waits = matches!(phase, Phase::Idle | Phase::Exited | Phase::Awaiting);
        assert_eq!(self.running.is_some(), !waits, "{phase:?}");
        assert!(phase != Phase::Awaiting || self.background && self.in_turn);
        assert_eq!(self.exited, phase == Phase::Exited);
    }

    fn start(&mut self, what: Running) {
        assert_eq!(self.running.replace(what), None, "two operations at once");
        assert!(!self.exited);
    }

    fn saw(&mut self, action: Action) {
        match action {
            Action::StartTurn => {
                assert!(!self.in_turn);
                self.in_turn = true;
                self.compactions_in_a_row = 0;
            }
            Action::Deliver { prompts, .. } => {
                assert!(self.in_turn && !prompts.is_empty());
                self.delivered.extend(prompts);
            }
            Action::Assess => self.start(Running::Assess),
            Action::Request { .. } => {
                assert!(!self.open_calls, "a request while calls are unanswered");
                self.requests += 1;
                self.compactions_in_a_row = 0;
                self.start(Running::Request { cancelled: false });
            }
            Action::RunTools => {
                assert!(std::mem::take(&mut self.open_calls), "calls run twice");
                self.start(Running::Tools);
            }
            Action::AskStop { sent_back } => {
                assert!(sent_back < MAX_STOP_BLOCKS);
                self.start(Running::Stop);
            }
            Action::CloseCalls(_) => assert!(std::mem::take(&mut self.open_calls), "calls closed twice"),
            Action::Compact { trigger } => {
                assert!(self.in_turn || trigger != CompactionTrigger::Overflow);
                if self.in_turn && trigger != CompactionTrigger::Manual {
                    self.compactions_in_a_row += 1;
                    assert!(self.compactions_in_a_row <= 3, "compaction loop");
                }
                self.start(Running::Compaction { cancelled: false });
            }
            Action::CancelRequest => {
                assert_eq!(self.running, Some(Running::Request { cancelled: false }));
                self.running = Some(Running::Request { cancelled: true });
            }
            Action::CancelTools => assert_eq!(self.running, Some(Running::Tools)),
            Action::PlanCompaction => {
                assert!(!self.in_turn, "a plan under a turn");
                self.start(Running::Plan);
            }
            Action::CancelCompaction if self.running == Some(Running::Plan) => {}
            Action::CancelCompaction => {
                assert!(matches!(self.running, Some(Running::Compaction { .. })));
                self.running = Some(Running::Compaction { cancelled: true });
            }
            Action::Restore => {
                assert!(!self.in_turn, "files go back under a turn");
                self.start(Running::Restore);
            }
            Action::EndTurn(_) => {
                assert!(std::mem::take(&mut self.in_turn) && self.running.is_none());
                assert!(!self.open_calls);
            }
            Action::Exit => {
                assert!(!self.exited && !self.in_turn && self.running.is_none());
                assert!(!self.background, "work in the background is lost");
                self.exited = true;
            }
            Action::FallBack => self.fallbacks = self.fallbacks.checked_sub(1).expect("no fallback is left"),
            Action::Supersede | Action::Note(_) | Action::UndoCompaction | Action::MarkInterrupt => {}
        }
    }

    /// Ends the operation that is under way, with an outcome chosen by `seed`.
    fn finish(&mut self, seed: u8) {
        let pick = seed % 16;
        let Some(running) = self.running else { return };
        let input = match running {
            Running::Assess => Input::Assessed(Facts {
                over: (pick == 15).then(|| TurnEnd::Budget { what: "money".to_owned() }),
                repetition: match pick {
                    13 => Repetition::Nudge("x".to_owned()),
                    14 => Repetition::Stop("x".to_owned()),
                    _ => Repetition::None,
                },
                owed: match seed % 5 {
                    0 | 1 => Owed::Compact,
                    2 if pick == 12 => Owed::Full("rules".to_owned()),
                    3 if pick == 12 => Owed::NoRoom("stubs only".to_owned()),
                    _ => Owed::No,
                },
            }),
            Running::Request { cancelled: true } => {
                self.open_calls = seed.is_multiple_of(2);
                Input::Cancelled { calls: usize::from(self.open_calls) }
            }
            Running::Request { cancelled: false } => self.answer(pick),
            Running::Tools => Input::ToolsDone,
            Running::Restore => Input::Restored,
            Running::Stop => Input::StopAsked { go_on: pick < 8 },
            Running::Plan => Input::CompactionPlanned,
            Running::Compaction { cancelled: true } => Input::CompactionDone(CompactionEnd::Cancelled),
            Running::Compaction { cancelled: false } => Input::CompactionDone(match pick {
                0..12 => CompactionEnd::Done,
                15 => CompactionEnd::Refused("hook".to_owned()),
                _ => CompactionEnd::Failed("tail".to_owned()),
            }),
        };
        self.feed(input);
    }

    fn answer(&mut self, pick: u8) -> Input {
        let end = TurnEnd::ModelError { kind: "network".to_owned(), message: String::new(), status: None };
        let kind = match pick {
            0 => Some(BreakKind::Stream),
            1 => Some(BreakKind::Malformed),
            2 => Some(BreakKind::Overflow),
            3 => Some(BreakKind::Final),
            _ => None,
        };
        if let Some(kind) = kind {
            return Input::Broke(Break { kind, end, fallback: self.fallbacks > 0 });
        }
        let (finish, calls, empty) = match pick {
            4 => (FinishReason::Stop, 0, true),
            5 => (FinishReason::Length, 1, false),
            6 => (FinishReason::Length, 0, false),
            7 => (FinishReason::Refusal, 0, true),
            8 => (FinishReason::ContentFilter, 1, false),
            9 => (FinishReason::Stop, 2, false),
            10 => (FinishReason::Other("pause".to_owned()), 0, false),
            11 | 12 => (FinishReason::ToolCalls, 1, false),
            _ => (FinishReason::Stop, 0, false),
        };
        self.open_calls = calls > 0;
        let written_calls = (pick == 13).then(|| "read".to_owned());
        Input::Answered(Answer {
            finish,
            calls,
            empty,
            written_calls,
            fallback: self.fallbacks > 0,
            own: false,
        })
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Prompt(mode) => {
                let id = self.sent.len() as PromptId;
                self.sent.push(id);
                if *mode == DeliveryMode::Steer {
                    self.steered.push(id);
                }
                self.feed(Input::Prompt { id, mode: *mode });
            }
            Op::Interrupt => self.feed(Input::Interrupt),
            Op::Compact => self.feed(Input::Compact),
            Op::CompactIdle => self.feed(Input::CompactIdle),
            Op::Plan => self.feed(Input::PlanCompaction),
            Op::Undo => self.feed(Input::UndoCompaction),
            Op::Restore => self.feed(Input::Restore),
            Op::EndInput => self.feed(Input::EndInput),
            Op::Continue => self.feed(Input::Continue),
            Op::Background(running) => {
                self.background = *running;
                self.feed(Input::Background { running: *running });
            }
            Op::Finish(seed) => self.finish(*seed),
        }
    }
}

fn watch(rules: Rules) -> Watch {
    Watch { state: Some(State::new(rules)), fallbacks: 2, ..Watch::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever comes in whatever order: one operation at a time, each prompt delivered once and in order, each
    /// answer's calls settled once, each turn ended once, and after the end of input the loop exits.
    #[test]
    fn every_interleaving_ends(ops in prop::collection::vec(op(), 0..120), max_turns in prop::option::of(0u64..4), auto in any::<bool>(), stop_hooks in any::<bool>()) {
        let mut watch = watch(Rules { max_turns, auto_compact: auto, stop_hooks });
        for op in &ops {
            watch.run(op);
        }
        watch.run(&Op::EndInput);
        watch.run(&Op::Background(false));
        // From here on every operation succeeds. The loop must exit after a small number of steps.
        let mut left = 40 + 8 * watch.sent.len();
        while !watch.exited {
            prop_assert!(left > 0, "does not end");
            left -= 1;
            watch.finish(13);
            if watch.running == Some(Running::Assess) {
                watch.feed(Input::Assessed(Facts::default()));
            }
        }
        let mut delivered = watch.delivered.clone();
        // Prompts that are delivered in the same way keep their order.
        let is_steered = |id: &PromptId| watch.steered.contains(id);
        let order: Vec<_> = delivered.iter().copied().filter(is_steered).collect();
        prop_assert_eq!(&order, &watch.steered);
        delivered.sort_unstable();
        prop_assert_eq!(delivered, watch.sent);
    }

    /// With a turn limit, a turn in which every answer makes calls sends that number of requests, and one more to wrap up.
    #[test]
    fn the_turn_limit_holds(limit in 0u64..5) {
        let mut watch = watch(Rules { max_turns: Some(limit), auto_compact: true, stop_hooks: false });
        watch.run(&Op::Prompt(DeliveryMode::Steer));
        let mut left = 100;
        while watch.in_turn {
            prop_assert!(left > 0);
            left -= 1;
            if watch.running == Some(Running::Assess) {
                watch.feed(Input::Assessed(Facts::default()));
            } else {
                watch.finish(11);
            }
        }
        prop_assert_eq!(watch.requests as u64, limit + 1);
    }
}

/// Drives one turn. `answers` are fed in order; assessments find nothing to do, tools and compactions succeed. Returns the
/// actions without the assessments.
fn script(rules: Rules, answers: &[Input]) -> Vec<Action> {
    let mut state = State::new(rules);
    let mut log = Vec::new();
    let mut answers = answers.iter().cloned().peekable();
    let mut inputs = std::collections::VecDeque::from([Input::Prompt { id: 0, mode: DeliveryMode::Steer }]);
    while let Some(input) = inputs.pop_front() {
        let (after, actions) = next(state, input);
        state = after;
        for action in actions {
            match &action {
                Action::Assess => inputs.push_back(Input::Assessed(Facts::default())),
                Action::Request { .. } => inputs.extend(answers.next()),
                Action::RunTools => inputs.push_back(Input::ToolsDone),
                Action::Compact { .. } => {
                    let given = answers.next_if(|input| matches!(input, Input::CompactionDone(_)));
                    inputs.push_back(given.unwrap_or(Input::CompactionDone(CompactionEnd::Done)));
                }
                _ => {}
            }
            if action != Action::Assess {
                log.push(action);
            }
        }
    }
    log
}

fn answered(finish: FinishReason, calls: usize) -> Input {
    Input::Answered(Answer { finish, calls, ..answer() })
}

fn broke(kind: BreakKind) -> Input {
    Input::Broke(Break { kind, end: error(), fallback: false })
}

/// An answer with text, without another model.
fn answer() -> Answer {
    Answer {
        finish: FinishReason::Stop,
        calls: 0,
        empty: false,
        written_calls: None,
        fallback: false,
        own: false,
    }
}

fn error() -> TurnEnd {
    TurnEnd::ModelError { kind: "stream_broken".to_owned(), message: "cut".to_owned(), status: None }
}

fn request(step: u64, attempt: u32, wrap_up: bool) -> Action {
    Action::Request { step, attempt, wrap_up }
}

/// The actions of a turn after its delivery.
fn check(rules: Rules, answers: &[Input], want: &[Action]) {
    let log = script(rules, answers);
    assert_eq!(log[..2], [Action::StartTurn, Action::Deliver { prompts: vec![0], steered: false }]);
    assert_eq!(&log[2..], want);
}

fn auto() -> Rules {
    Rules { max_turns: None, auto_compact: true, stop_hooks: false }
}

#[test]
fn finish_reasons_decide_what_follows() {
    use FinishReason as F;
    use becket_agent::machine::NotRun;
    let stop = answered(F::Stop, 0);
    let done = Action::EndTurn(TurnEnd::Completed);
    // An answer without calls ends the turn, also if its finish reason is unknown or does not fit.
    for finish in [F::Stop, F::ToolCalls, F::Other("pause".to_owned())] {
        check(auto(), &[answered(finish, 0)], &[request(1, 0, false), done.clone()]);
    }
    // Calls are run, with whatever finish reason the answer came.
    for finish in [F::Stop, F::ToolCalls, F::Other("pause".to_owned())] {
        let want = [request(1, 0, false), Action::RunTools, request(2, 0, false), done.clone()];
        check(auto(), &[answered(finish, 1), stop.clone()], &want);
    }
    // The calls of a cut answer are never run; the model continues a cut text.
    let want = [request(1, 0, false), Action::CloseCalls(NotRun::Cut), request(2, 0, false), done.clone()];
    check(auto(), &[answered(F::Length, 1), stop.clone()], &want);
    let want = [request(1, 0, false), Action::Note(Note::Cut), request(2, 0, false), done.clone()];
    check(auto(), &[answered(F::Length, 0), stop], &want);
    // A refusal ends the turn with a reason of its own, and the calls in it are closed.
    let refusal = Action::EndTurn(TurnEnd::Refusal { reason: "refusal".to_owned() });
    check(auto(), &[answered(F::Refusal, 0)], &[request(1, 0, false), refusal.clone()]);
    let want = [request(1, 0, false), Action::CloseCalls(NotRun::Refused), refusal];
    check(auto(), &[answered(F::ContentFilter, 1)], &want);
}

#[test]
fn an_answer_that_is_cut_again_and_again_ends() {
    let cut = answered(FinishReason::Length, 0);
    let log = script(auto(), &[cut.clone(), cut.clone(), cut.clone(), cut]);
    assert_eq!(log.iter().filter(|a| matches!(a, Action::Request { .. })).count(), 4);
    let Some(Action::EndTurn(TurnEnd::NoAnswer { what })) = log.last() else { panic!("{log:?}") };
    assert!(
        what.contains("again each of the 3 times that it was continued. The text so far is kept."),
        "{what}"
    );

    // The same for calls, which were never whole.
    let log = script(auto(), &vec![answered(FinishReason::Length, 1); 4]);
    let Some(Action::EndTurn(TurnEnd::NoAnswer { what })) = log.last() else { panic!("{log:?}") };
    assert!(what.starts_with("4 answers in a row were cut by the output limit"), "{what}");

    // An answer that ends in time is an answer.
    let done = [vec![answered(FinishReason::Length, 0); 3], vec![answered(FinishReason::Stop, 0)]].concat();
    assert_eq!(script(auto(), &done).last(), Some(&Action::EndTurn(TurnEnd::Completed)));
}

#[test]
fn a_message_that_waits_begins_a_new_answer_after_one_that_is_always_cut() {
    let cut = answered(FinishReason::Length, 0);
    let mut watch = watch(auto());
    watch.run(&Op::Prompt(DeliveryMode::Steer));
    for _ in 0..3 {
        watch.feed(Input::Assessed(Facts::default()));
        watch.feed(cut.clone());
    }
    watch.feed(Input::Assessed(Facts::default()));
    watch.run(&Op::Prompt(DeliveryMode::Steer));
    let (_, actions) = next(watch.state.take().unwrap(), cut);
    assert_eq!(actions, [Action::Deliver { prompts: vec![1], steered: true }, Action::Assess]);
}

#[test]
fn broken_answers_are_superseded_and_asked_again_three_times() {
    let want = [
        request(1, 0, false),
        Action::Supersede,
        request(1, 1, false),
        Action::Supersede,
        request(1, 2, false),
        Action::Supersede,
        request(1, 3, false),
        Action::EndTurn(error()),
    ];
    check(auto(), &vec![broke(BreakKind::Stream); 4], &want);
    check(auto(), &[broke(BreakKind::Final)], &[request(1, 0, false), Action::EndTurn(error())]);
}

#[test]
fn empty_and_malformed_answers_are_asked_again_once() {
    let empty = Input::Answered(Answer { empty: true, ..answer() });
    let message = "The model answered twice in a row without any text or tool call (stop reason `end_turn`). Ask again in \
                   other words, or choose another model."
        .to_owned();
    let malformed = TurnEnd::NoAnswer { what: message };
    let again = [request(1, 0, false), Action::Supersede, request(1, 0, false)];
    let mut want = again.to_vec();
    want.extend([Action::Supersede, Action::EndTurn(malformed)]);
    check(auto(), &[empty.clone(), empty], &want);
    let mut want = again.to_vec();
    want.push(Action::EndTurn(error()));
    check(auto(), &vec![broke(BreakKind::Malformed); 2], &want);
}

/// If asking again does not help, the fallback model is asked, which has all attempts again.
#[test]
fn what_a_retry_does_not_cure_goes_to_the_fallback_model() {
    let broke = |kind, fallback| Input::Broke(Break { kind, end: error(), fallback });
    let empty = |fallback| Input::Answered(Answer { empty: true, fallback, ..answer() });
    let first = request(1, 0, false);
    let over = [Action::Supersede, Action::FallBack, first.clone()];
    for (answers, again) in [
        (vec![broke(BreakKind::Final, true)], 0),
        (vec![broke(BreakKind::Stream, true); 4], 3),
        (vec![broke(BreakKind::Malformed, true); 2], 1),
        (vec![empty(true); 2], 1),
        (
            vec![
                Input::Answered(Answer {
                    finish: FinishReason::Length,
                    empty: true,
                    fallback: true,
                    ..answer()
                });
                4
            ],
            3,
        ),
    ] {
        let counts = matches!(answers[0], Input::Broke(Break { kind: BreakKind::Stream, .. }));
        let cut = matches!(answers[0], Input::Answered(Answer { finish: FinishReason::Length, .. }));
        let mut want = vec![first.clone()];
        for n in 1..=again {
            want.push(Action::Supersede);
            want.extend(cut.then_some(Action::Note(Note::Cut)));
            want.push(request(1, if counts { n } else { 0 }, false));
        }
        want.extend(over.clone());
        let done = [answers, vec![answered(FinishReason::Stop, 0)]].concat();
        want.push(Action::EndTurn(TurnEnd::Completed));
        check(auto(), &done, &want);
    }
}

/// A context that is too long after its compaction, and calls as text, go to the fallback model as well.
#[test]
fn a_long_context_and_calls_as_text_go_to_the_fallback_model() {
    let overflow = || Input::Broke(Break { kind: BreakKind::Overflow, end: error(), fallback: true });
    let compact = Action::Compact { trigger: CompactionTrigger::Overflow };
    let first = request(1, 0, false);
    let done = Action::EndTurn(TurnEnd::Completed);
    let compacted = Input::CompactionDone(CompactionEnd::Done);
    let begun = [first.clone(), Action::Supersede, compact];
    let over = [Action::Supersede, Action::FallBack, first.clone(), done.clone()];
    let answer_of = || answered(FinishReason::Stop, 0);
    check(
        auto(),
        &[overflow(), compacted, overflow(), answer_of()],
        &[&begun[..], std::slice::from_ref(&first), &over].concat(),
    );
    let failed = Input::CompactionDone(CompactionEnd::Failed("full".to_owned()));
    let want = [&begun[..], &[Action::FallBack, first.clone(), done.clone()]].concat();
    check(auto(), &[overflow(), failed, answer_of()], &want);
    let written =
        Input::Answered(Answer { written_calls: Some("read".to_owned()), fallback: true, ..answer() });
    let note = Action::Note(Note::CallsAsText("read".to_owned()));
    let want = [first, note, Action::Supersede, Action::FallBack, request(2, 0, false), done];
    check(auto(), &[written, answer_of()], &want);
}

#[test]
fn an_empty_answer_after_work_is_asked_for_and_ends_with_an_end_of_its_own() {
    let empty = Input::Answered(Answer { empty: true, ..answer() });
    let log = script(auto(), &[answered(FinishReason::ToolCalls, 1), empty.clone(), empty]);
    assert!(log.contains(&Action::Note(Note::NoAnswer)), "{log:?}");
    let Some(Action::EndTurn(TurnEnd::NoAnswer { what })) = log.last() else { panic!("{log:?}") };
    assert!(what.contains("The work of the step before is kept."), "{what}");
}

#[test]
fn calls_as_text_end_the_turn_unless_a_message_comes() {
    let written = Input::Answered(Answer { written_calls: Some("read".to_owned()), ..answer() });
    let end = Action::EndTurn(TurnEnd::CallsAsText { what: "read".to_owned() });
    check(auto(), std::slice::from_ref(&written), &[request(1, 0, false), end]);

    // A waiting message is delivered, and calls that were written as text are reported all the same.
    let mut watch = watch(auto());
    watch.run(&Op::Prompt(DeliveryMode::Steer));
    watch.feed(Input::Assessed(Facts::default()));
    watch.run(&Op::Prompt(DeliveryMode::Steer));
    let (_, actions) = next(watch.state.take().unwrap(), written);
    let note = Action::Note(Note::CallsAsText("read".to_owned()));
    let delivery = Action::Deliver { prompts: vec![1], steered: true };
    assert_eq!(actions, [note, delivery, Action::Assess]);
}

#[test]
fn an_answer_cut_before_anything_is_whole_is_told_and_asked_for_three_times() {
    let cut = Input::Answered(Answer { finish: FinishReason::Length, empty: true, ..answer() });
    let message =
        "4 answers in a row were cut by the output limit before a call or a text was whole. Ask for smaller \
                   steps, or choose a model or a server setting with a larger output limit."
            .to_owned();
    let end = TurnEnd::NoAnswer { what: message };
    let mut want = vec![request(1, 0, false)];
    for _ in 0..3 {
        want.extend([Action::Supersede, Action::Note(Note::Cut), request(1, 0, false)]);
    }
    want.extend([Action::Supersede, Action::EndTurn(end)]);
    check(auto(), &vec![cut; 4], &want);
}

#[test]
fn one_overflow_is_answered_by_one_compaction() {
    let overflow = broke(BreakKind::Overflow);
    let compact = Action::Compact { trigger: CompactionTrigger::Overflow };
    let want =
        [request(1, 0, false), Action::Supersede, compact, request(1, 0, false), Action::EndTurn(error())];
    check(auto(), &[overflow.clone(), overflow.clone()], &want);
    let off = Rules { max_turns: None, auto_compact: false, stop_hooks: false };
    check(off, &[overflow], &[request(1, 0, false), Action::EndTurn(error())]);
}

#[test]
fn at_the_turn_limit_there_is_one_wrap_up() {
    use becket_agent::machine::{NotRun, Note};
    let rules = || Rules { max_turns: Some(1), auto_compact: true, stop_hooks: false };
    let call = answered(FinishReason::ToolCalls, 1);
    let max = Action::EndTurn(TurnEnd::MaxTurns { limit: 1 });
    let start = [
        request(1, 0, false),
        Action::RunTools,
        Action::Note(Note::WrapUp { limit: 1 }),
        request(2, 0, true),
    ];
    let mut want = start.to_vec();
    want.push(max.clone());
    check(rules(), &[call.clone(), answered(FinishReason::Stop, 0)], &want);
    let mut want = start.to_vec();
    want.extend([Action::CloseCalls(NotRun::WrapUp), max.clone()]);
    check(rules(), &[call.clone(), call.clone()], &want);
    let mut want = start.to_vec();
    want.push(max);
    check(rules(), &[call, broke(BreakKind::Final)], &want);
    // An answer within the limit is complete, not cut off.
    let want = [request(1, 0, false), Action::EndTurn(TurnEnd::Completed)];
    check(rules(), &[answered(FinishReason::Stop, 0)], &want);
}

#[test]
fn a_steering_message_is_answered_in_the_turn_and_a_queued_one_after_it() {
    for (mode, same_turn) in [(DeliveryMode::Steer, true), (DeliveryMode::Queue, false)] {
        let mut watch = watch(auto());
        watch.run(&Op::Prompt(DeliveryMode::Steer));
        watch.feed(Input::Assessed(Facts::default()));
        watch.run(&Op::Prompt(mode));
        let (_, actions) = next(watch.state.take().unwrap(), answered(FinishReason::Stop, 0));
        let delivery = Action::Deliver { prompts: vec![1], steered: true };
        assert_eq!(actions == vec![delivery, Action::Assess], same_turn, "{mode:?}");
    }
}

/// A message of a program joins a turn that works on. It never takes the place of the message before it.
#[test]
fn a_joining_message_has_a_turn_of_its_own_after_a_last_answer() {
    for works_on in [true, false] {
        let mut watch = watch(auto());
        watch.run(&Op::Prompt(DeliveryMode::Join));
        watch.run(&Op::Prompt(DeliveryMode::Join));
        watch.feed(Input::Assessed(Facts::default()));
        assert_eq!(watch.delivered, [0], "the first request is for the first message alone");
        watch.run(&Op::Prompt(DeliveryMode::Join));
        let state = watch.state.take().unwrap();
        let actions = if works_on {
            let (state, _) = next(state, answered(FinishReason::ToolCalls, 1));
            next(state, Input::ToolsDone).1
        } else {
            let (state, _) = next(state, answered(FinishReason::Stop, 0));
            next(state, Input::Assessed(Facts::default())).1
        };
        let deliver = |prompts, steered| Action::Deliver { prompts, steered };
        let want = if works_on {
            vec![deliver(vec![1, 2], true), Action::Assess]
        } else {
            let end = Action::EndTurn(TurnEnd::Completed);
            vec![end, Action::StartTurn, deliver(vec![1], false), Action::Assess]
        };
        assert_eq!(actions, want);
    }
}

#[test]
fn an_idle_compaction_asks_the_model_nothing() {
    let (state, actions) = next(State::new(auto()), Input::Compact);
    assert_eq!(actions, [Action::Compact { trigger: CompactionTrigger::Manual }]);
    let (state, actions) = next(state, Input::CompactionDone(CompactionEnd::Done));
    assert_eq!((state.phase(), actions), (Phase::Idle, vec![]));
}

/// A model that asks again for what it was not shown is not ended for repetition.
#[test]
fn a_turn_without_room_ends_for_that_reason_before_any_other() {
    let (state, _) = next(State::new(Rules::default()), Input::Prompt { id: 1, mode: DeliveryMode::Steer });
    let facts = Facts {
        over: None,
        repetition: Repetition::Stop("read a.txt repeated 5 times".to_owned()),
        owed: Owed::NoRoom("no room".to_owned()),
    };
    let (_, actions) = next(state, Input::Assessed(facts));
    assert_eq!(actions, [Action::EndTurn(TurnEnd::NoRoom { what: "no room".to_owned() })]);
}

/// Hooks that always send the model back do so a limited number of times; then the turn ends.
#[test]
fn hooks_keep_a_turn_from_ending_a_limited_number_of_times() {
    let answer = || {
        Input::Answered(Answer {
            finish: FinishReason::Stop,
            calls: 0,
            empty: false,
            written_calls: None,
            fallback: false,
            own: false,
        })
    };
    let mut state = State::new(Rules { stop_hooks: true, ..auto() });
    let mut inputs = std::collections::VecDeque::from([Input::Prompt { id: 0, mode: DeliveryMode::Steer }]);
    let (mut asked, mut requests, mut ends) = (0, 0, Vec::new());
    while let Some(input) = inputs.pop_front() {
        let (after, actions) = next(state, input);
        state = after;
        for action in actions {
            match action {
                Action::Assess => inputs.push_back(Input::Assessed(Facts::default())),
                Action::Request { .. } => {
                    requests += 1;
                    inputs.push_back(answer());
                }
                Action::AskStop { sent_back } => {
                    assert_eq!(sent_back, asked);
                    asked += 1;
                    inputs.push_back(Input::StopAsked { go_on: true });
                }
                Action::EndTurn(end) => ends.push(end),
                _ => {}
            }
        }
    }
    assert_eq!((asked, requests), (MAX_STOP_BLOCKS, MAX_STOP_BLOCKS + 1));
    assert_eq!(ends, [TurnEnd::Completed]);
}
