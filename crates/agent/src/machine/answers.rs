//! Transitions after a request: its answer, or its failure. If asking the same model again does not help, the next fallback
//! model is asked.

use super::{
    Action, Answer, Break, BreakKind, Compactions, MAX_CUTS, MAX_RETRIES, NotRun, Note, Phase, State,
};
use becket_types::{CompactionTrigger, FinishReason, TurnEnd};

impl State {
    pub(super) fn answered(&mut self, answer: Answer, out: &mut Vec<Action>) {
        if answer.empty && !self.turn.stopping && !refused(&answer.finish) {
            return self.empty_answer(&answer, out);
        }
        let turn = &mut self.turn;
        turn.steps += u64::from(!answer.own);
        (turn.retries, turn.re_asked, turn.compactions) = (0, false, Compactions::default());
        let cut = answer.finish == FinishReason::Length;
        turn.cuts = if cut { turn.cuts + 1 } else { 0 };
        turn.written_calls = answer.written_calls;
        let why_not = match &answer.finish {
            _ if turn.stopping => Some(NotRun::Interrupted),
            finish if refused(finish) => Some(NotRun::Refused),
            _ if turn.wrapping => Some(NotRun::WrapUp),
            FinishReason::Length => Some(NotRun::Cut),
            _ => None,
        };
        if answer.calls > 0 {
            if let Some(why) = why_not {
                out.push(Action::CloseCalls(why));
            } else {
                out.push(Action::RunTools);
                self.phase = Phase::RunningTools;
                return;
            }
        }
        match why_not {
            Some(NotRun::Interrupted) => self.end_interrupted(out),
            Some(NotRun::Refused) => {
                let reason = answer.finish.stop_reason().to_owned();
                self.end_turn(TurnEnd::Refusal { reason }, out);
            }
            Some(NotRun::WrapUp) => self.end_max_turns(out),
            Some(NotRun::Cut) if self.turn.cuts <= MAX_CUTS => {
                if answer.calls == 0 {
                    out.push(Action::Note(Note::Cut));
                }
                self.iterate(out);
            }
            // A message that waits is the next thing to do, and begins a new answer.
            Some(NotRun::Cut) if self.is_prompt_due() => self.iterate(out),
            Some(NotRun::Cut) => {
                let what = always_cut(self.turn.cuts, answer.calls > 0);
                self.end_turn(TurnEnd::NoAnswer { what }, out);
            }
            None => {
                if answer.fallback
                    && let Some(what) = self.turn.written_calls.take()
                {
                    out.push(Action::Note(Note::CallsAsText(what)));
                    return self.fall_back(out);
                }
                self.turn.answered = true;
                self.iterate(out);
            }
        }
    }

    /// Handles an answer without text or calls: it is requested once more, then the turn ends with an error.
    /// If the output limit cut it, a note informs the model, and the request is repeated as often as for cut
    /// text.
    fn empty_answer(&mut self, answer: &Answer, out: &mut Vec<Action>) {
        let cut = answer.finish == FinishReason::Length && !self.turn.wrapping;
        let is_last = if cut { self.turn.cuts >= MAX_CUTS } else { self.turn.re_asked };
        if is_last && answer.fallback {
            return self.fall_back(out);
        }
        out.push(Action::Supersede);
        if cut && self.turn.cuts < MAX_CUTS {
            self.turn.cuts += 1;
            out.push(Action::Note(Note::Cut));
            return self.iterate(out);
        }
        if cut || self.turn.re_asked {
            let message = if cut {
                always_cut(self.turn.cuts + 1, true)
            } else {
                let kept = match self.turn.steps {
                    0 => String::new(),
                    1 => " The work of the step before is kept.".to_owned(),
                    steps => format!(" The work of the {steps} steps before is kept."),
                };
                format!(
                    "The model answered twice in a row without any text or tool call (stop reason `{}`).{kept} Ask again in \
                     other words, or choose another model.",
                    answer.finish.stop_reason()
                )
            };
            return self.end_broken(TurnEnd::NoAnswer { what: message }, out);
        }
        self.turn.re_asked = true;
        if self.turn.steps > 0 && !self.turn.wrapping {
            out.push(Action::Note(Note::NoAnswer));
        }
        self.iterate(out);
    }

    pub(super) fn broke(&mut self, broken: Break, out: &mut Vec<Action>) {
        if self.turn.stopping {
            return self.end_interrupted(out);
        }
        match broken.kind {
            BreakKind::Stream if self.turn.retries < MAX_RETRIES => {
                self.turn.retries += 1;
                out.push(Action::Supersede);
                // Messages that arrived in the meantime belong in the repeated request.
                self.iterate(out);
            }
            BreakKind::Malformed if !self.turn.re_asked => {
                self.turn.re_asked = true;
                out.push(Action::Supersede);
                self.iterate(out);
            }
            BreakKind::Overflow if self.rules.auto_compact && !self.turn.compactions.overflowed => {
                self.turn.compactions.overflowed = true;
                self.turn.fallback = broken.fallback;
                out.push(Action::Supersede);
                self.compact(CompactionTrigger::Overflow, out);
            }
            _ if broken.fallback => self.fall_back(out),
            BreakKind::Stream | BreakKind::Malformed | BreakKind::Overflow | BreakKind::Final => {
                self.end_broken(broken.end, out);
            }
        }
    }

    /// Switches to the next fallback model after retries did not help. That model gets its own retries.
    fn fall_back(&mut self, out: &mut Vec<Action>) {
        (self.turn.retries, self.turn.re_asked, self.turn.cuts) = (0, false, 0);
        (self.turn.compactions.overflowed, self.turn.compactions.count) = (false, 0);
        out.extend([Action::Supersede, Action::FallBack]);
        self.iterate(out);
    }
}

fn refused(finish: &FinishReason) -> bool {
    matches!(finish, FinishReason::Refusal | FinishReason::ContentFilter)
}

/// Says that the last `answers` answers were cut. `without_text`: the last one was cut before a call or a text was whole.
fn always_cut(answers: u32, without_text: bool) -> String {
    if without_text {
        return format!(
            "{answers} answers in a row were cut by the output limit before a call or a text was whole. Ask for smaller \
             steps, or choose a model or a server setting with a larger output limit."
        );
    }
    format!(
        "The answer is not complete: the output limit cut it, and again each of the {} times that it was continued. The text \
         so far is kept. Ask for the rest, or choose a model or a server setting with a larger output limit.",
        answers.saturating_sub(1)
    )
}
