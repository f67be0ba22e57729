//! Questions for the person about a call, and the answers: permission to run it, and whether secrets in its output may be sent.
//!
//! Invariant: at most one question is open. Does not judge a call; that is the guard's.

use super::super::Op;
use super::batch::{Batch, SlotState};
use super::outcome::{denial, permission, secrets_in, subject};
use super::{CallStart, ToolRunner};
use crate::settings::SecretOutputs;
use becket_guard::Verdict;
use becket_session::Durability;
use becket_tool::Tool;
use becket_types::{Access, CallId, DecidedBy, Decision, DenialCause, Event, PermissionRequest, Verb};
use serde_json::Value;

/// The result of a call whose script is not the one that the user was asked about.
const SCRIPT_CHANGED: &str =
    "Not run: a file that this command runs changed while the user was asked. Make the call again.";

impl ToolRunner<'_> {
    /// Handles the answer to a question for permission.
    pub(in crate::driver) fn decided(&mut self, id: &CallId, decision: Decision) {
        let Op::Tools(mut batch) = std::mem::replace(&mut self.flow.op, Op::None) else { return };
        if batch.asks_secrets {
            self.decided_secrets(&mut batch, id, &decision);
            self.flow.op = Op::Tools(batch);
            self.advance();
            return;
        }
        let index = batch.next;
        let (by, who) = self.conversation.settings.asking.decided_by();
        if let Some(slot) = batch.slots.get_mut(index)
            && slot.call.id == *id
            && let SlotState::Asking { access, rule, scripts } =
                std::mem::replace(&mut slot.state, SlotState::Waiting)
        {
            match decision {
                Decision::Deny { reason } => {
                    let question =
                        self.tools.registry.get(&slot.call.name).and_then(|tool| tool.asks_person());
                    let words = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
                    let refused = question.map(|question| format!("{}{words}.", question.refused));
                    let cause = DenialCause::User { words: reason };
                    self.conversation.core.push(denial(
                        slot,
                        by,
                        None,
                        &format!("{who} said no{words}"),
                        &cause,
                    ));
                    let reason = format!("the user said no{words}");
                    self.deny(slot, reason, cause);
                    if let Some(refused) = refused {
                        slot.refuse(refused);
                    }
                }
                Decision::AllowChanged { input } => {
                    self.allowed_with(&mut batch, index, input, (&access, scripts));
                }
                Decision::AllowOnce | Decision::AllowSession | Decision::AllowWithout { .. } => {
                    let (kept, how) = match &decision {
                        Decision::AllowSession => (rule.clone(), "allowed it for the session"),
                        Decision::AllowWithout { .. } => (None, "allowed a part of it"),
                        _ => (None, "allowed it once"),
                    };
                    self.conversation.core.push(permission(
                        slot,
                        Verb::Allow,
                        by,
                        kept,
                        &format!("{who} {how}"),
                    ));
                    if decision == Decision::AllowSession
                        && let Some(rule) = rule
                    {
                        self.tools.grant(rule, self.conversation);
                    }
                    // The user has decided about the access that was shown, so check the call again: it must need the same access.
                    match self.check(&slot.call, &batch.cancel, &slot.partial) {
                        Ok((_, _, now))
                            if now == access && self.tools.guard.script_state(&now) != scripts =>
                        {
                            slot.refuse(SCRIPT_CHANGED);
                        }
                        Ok((tool, mut env, now)) if now == access => {
                            self.agreed(&*tool);
                            env.variables = self.tools.guard.variables(&access);
                            env.sandbox = self.tools.guard.sandbox_level(&access, true);
                            let rejected = match decision {
                                Decision::AllowWithout { rejected } => rejected,
                                _ => Vec::new(),
                            };
                            let taken = self.launch(&mut batch, index, (tool, env, access), rejected);
                            batch.has_exclusive_call = matches!(taken, CallStart::Running { alone: true });
                        }
                        Ok(_) => {
                            slot.refuse("Not run: the target of this call changed while the user was asked. Make the call again.");
                        }
                        Err(why) => slot.refuse(why),
                    }
                    // A session-wide permission is synced to disk, like the start of any call with side effects.
                    self.conversation.core.flush(Durability::Synced);
                }
            }
            batch.next += 1;
        }
        self.flow.op = Op::Tools(batch);
        self.advance();
    }

    /// Runs a call with the input that the program gave in place of the model's, unless a rule denies the new input.
    /// `asked`: the access and the scripts about which the user was asked.
    fn allowed_with(
        &mut self,
        batch: &mut Batch,
        index: usize,
        input: Value,
        asked: (&Access, Option<String>),
    ) {
        let Some(slot) = batch.slots.get_mut(index) else { return };
        slot.call.input = input;
        let (tool, mut env, access) = match self.check(&slot.call, &batch.cancel, &slot.partial) {
            Ok(checked) => checked,
            Err(why) => return slot.refuse(why),
        };
        if access == *asked.0 && self.tools.guard.script_state(&access) != asked.1 {
            return slot.refuse(SCRIPT_CHANGED);
        }
        slot.subject = subject(&access, &env);
        let judged = self.tools.guard.explain(&tool.spec().name, &access, &slot.call.input);
        if let Verdict::Deny { reason, cause, .. } = judged.verdict {
            self.conversation.core.push(denial(slot, judged.by, judged.rule, &reason, &cause));
            return self.deny(slot, reason, cause);
        }
        let (by, who) = self.conversation.settings.asking.decided_by();
        let how = match tool.asks_person() {
            Some(_) => "answered",
            None => "allowed it with another input",
        };
        self.conversation.core.push(permission(slot, Verb::Allow, by, None, &format!("{who} {how}")));
        self.agreed(&*tool);
        env.variables = self.tools.guard.variables(&access);
        env.sandbox = self.tools.guard.sandbox_level(&access, true);
        let taken = self.launch(batch, index, (tool, env, access), Vec::new());
        batch.has_exclusive_call = matches!(taken, CallStart::Running { alone: true });
        self.conversation.core.flush(Durability::Synced);
    }

    /// Leaves the permission mode that a call asks to leave, because a person agreed.
    pub(super) fn agreed(&mut self, tool: &dyn Tool) {
        if let Some((mode, _)) = tool.asks_person().and_then(|question| question.only_in) {
            self.tools.leave_mode(mode, self.conversation);
        }
    }

    /// Called when nobody is connected to answer: answers open questions with no.
    pub(in crate::driver) fn nobody_decides(&mut self) {
        self.tools.subagents.nobody_decides();
        let Op::Tools(batch) = &self.flow.op else { return };
        let asked = if batch.asks_secrets {
            batch.slots.get(batch.written)
        } else {
            batch.slots.get(batch.next).filter(|_| batch.asks_permission())
        };
        if let Some(slot) = asked {
            let id = slot.call.id.clone();
            self.decided(&id, Decision::Deny { reason: Some("nobody is connected to answer".to_owned()) });
        }
    }

    /// True while the next result waits for the person's decision about its secrets. Asks the question when it is its turn.
    pub(super) fn waits_for_secrets(&mut self, batch: &mut Batch) -> bool {
        if batch.asks_secrets
            || self.conversation.settings.asking.headless
            || self.conversation.settings.tools.secrets != SecretOutputs::Ask
        {
            return batch.asks_secrets;
        }
        let Some(slot) = batch.slots.get(batch.written) else { return false };
        let SlotState::Done { output, .. } = &slot.state else { return false };
        let Some(kinds) = secrets_in(output).filter(|_| slot.send_secrets.is_none()) else { return false };
        if batch.cancel.is_cancelled() {
            return false;
        }
        // Ask one question at a time; the open one is about another call.
        if batch.asks_permission() {
            return true;
        }
        batch.asks_secrets = true;
        self.conversation.core.announce(Event::PermissionAsked(Box::new(PermissionRequest {
            call_id: slot.call.id.clone(),
            tool: slot.call.name.clone(),
            input: slot.call.input.clone(),
            access: Access { subject: slot.subject.clone(), ..Access::session() },
            reason: "what a tool prints goes to the provider of the model".to_owned(),
            offer: None,
            nearest: None,
            secrets: Some(kinds),
            preview: Vec::new(),
        })));
        true
    }

    /// Handles the answer to the question whether secrets in an output may be sent.
    fn decided_secrets(&mut self, batch: &mut Batch, id: &CallId, decision: &Decision) {
        let Some(slot) = batch.slots.get_mut(batch.written).filter(|slot| slot.call.id == *id) else {
            return;
        };
        batch.asks_secrets = false;
        let (verb, how) = match decision {
            Decision::Deny { .. } => (Verb::Deny, "the user had the secrets in its output masked"),
            Decision::AllowOnce | Decision::AllowWithout { .. } | Decision::AllowChanged { .. } => {
                (Verb::Allow, "the user had its output sent with its secrets")
            }
            Decision::AllowSession => {
                self.conversation.settings.tools.secrets = SecretOutputs::Send;
                (Verb::Allow, "the user lets secrets in outputs be sent for the rest of the session")
            }
        };
        slot.send_secrets = Some(verb == Verb::Allow);
        self.conversation.core.push(permission(slot, verb, DecidedBy::Person, None, how));
        self.conversation.core.flush(Durability::Buffered);
    }
}
