//! becket's engine on a session: the real ledger, view, governor, prune and compaction, with a summary of a fixed size.

use crate::cache::price::{Account, Request};
use crate::cache::shapes::Step;
use becket_session::context::budget::{Budget, Meter, estimate_text};
use becket_session::context::cache::{CacheTtl, CacheWarm, idle_compaction_pays};
use becket_session::context::compaction::{
    CompactionReason, Failure, Floor, Governor, InputKind, Request as Compact, Snapshot, Step as Next,
    Summariser, Verdict, begin,
};
use becket_session::context::{ModelScope, Policy, due};
use becket_session::{CreateOptions, Durability, Session};
use becket_types::{
    CallId, CompactionTrigger, ContextMessage, EntryKind, FinishReason, JournalState, Message, MessageId,
    Millis, Part, Prices, Tokens,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// System prompt and tools, in tokens.
pub(crate) const FLOOR: u64 = 6_000;
/// A summary of usual length, in tokens.
pub(crate) const SUMMARY: u64 = 1_200;

/// The decision of a run at one pause between two requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtPause {
    Nothing,
    /// Old outputs become stubs after the pause.
    Prune,
    /// A compaction before the pause, while the cache is warm.
    Compact,
}

/// The decisions of a run at its pauses.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    /// becket's own rules, with these settings.
    Own { ttl: CacheTtl, warm: CacheWarm, idle_compaction: bool },
    /// One decision for each pause of more than five minutes, in order.
    Given(Vec<AtPause>),
}

/// The requests of a run, and how often the model had the output that it needed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub(crate) requests: Vec<Request>,
    pub(crate) needs: u64,
    pub(crate) met: u64,
}

struct Becket {
    session: Session,
    policy: Policy,
    budget: Budget,
    prices: Prices,
    governor: Governor,
    sent: Vec<Arc<ContextMessage>>,
    run: Run,
    /// Seconds since the last request.
    gap: u64,
    begins: bool,
    account: Account,
    /// The call of each step, and the size of its output.
    calls: Vec<Option<(CallId, u64)>>,
    ids: u64,
    _dir: tempfile::TempDir,
}

pub(crate) fn run(
    steps: &[Step],
    window: u64,
    prices: Prices,
    threshold: f64,
    plan: &Plan,
) -> Result<Run, String> {
    let policy = Policy { threshold, ..Policy::default() };
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let scope = ModelScope {
        provider: "p".into(),
        model: "m".into(),
        images: true,
        max_images: 20,
        max_media_bytes: 20 << 20,
    };
    let session = Session::create(dir.path(), dir.path(), CreateOptions::default(), policy.clone(), scope)
        .map_err(|error| error.to_string())?;
    let mut becket = Becket {
        session,
        policy,
        budget: Budget::new(window, 0, 32_000),
        prices,
        governor: Governor::default(),
        sent: Vec::new(),
        run: Run::default(),
        gap: 0,
        begins: true,
        account: match plan {
            Plan::Own { ttl, warm, .. } => Account::new(prices, *ttl, *warm),
            Plan::Given(_) => Account::new(prices, CacheTtl::Auto, CacheWarm::Off),
        },
        calls: Vec::new(),
        ids: 0,
        _dir: dir,
    };
    let mut pauses = 0;
    for step in steps {
        if step.gap > 300 {
            let at = match plan {
                Plan::Own { .. } => None,
                Plan::Given(at) => at.get(pauses).copied(),
            };
            pauses += 1;
            becket.pause(plan, at)?;
            becket.gap += step.gap;
            if at == Some(AtPause::Prune) {
                becket.prune(0)?;
            }
        } else {
            becket.gap += step.gap;
        }
        becket.step(step, plan)?;
    }
    Ok(becket.run)
}

impl Becket {
    fn put(&mut self, kinds: Vec<EntryKind>) -> Result<(), String> {
        self.session.append(kinds, Durability::Buffered).map(drop).map_err(|error| error.to_string())
    }

    fn used(&self) -> Tokens {
        Meter::default().used(self.session.view().estimated_tokens() + Tokens(FLOOR))
    }

    /// Compacts at the end of a turn before a pause of more than five minutes, if the plan says so or if the compaction saves money.
    fn pause(&mut self, plan: &Plan, at: Option<AtPause>) -> Result<(), String> {
        let compacts = match plan {
            Plan::Own { idle_compaction, .. } => {
                let after = FLOOR + (self.budget.usable() / 10).clamp(1_000, 8_000) + 4_000;
                *idle_compaction
                    && idle_compaction_pays(&self.prices, self.account.lifetime(), self.used().0, after)
            }
            Plan::Given(_) => at == Some(AtPause::Compact),
        };
        if compacts && self.used().0 > FLOOR + 16_000 {
            self.gap += 270;
            self.compact(CompactionTrigger::Auto)?;
        }
        Ok(())
    }

    fn prune(&mut self, least: u64) -> Result<(), String> {
        let selection = due::prunable(self.session.view(), Millis(0));
        if selection.calls.is_empty() || selection.freed.0 < least {
            return Ok(());
        }
        self.put(vec![EntryKind::Prune {
            calls: selection.calls,
            media: Vec::new(),
            cuts: Vec::new(),
            freed_tokens: selection.freed,
            reason: becket_types::PruneReason::CacheCold,
        }])
    }

    fn step(&mut self, step: &Step, plan: &Plan) -> Result<(), String> {
        if step.prompt > 0 {
            self.begins = true;
            self.put(vec![EntryKind::Message { message: Message::user(text(step.prompt)) }])?;
        }
        self.request(step.answer, plan)?;
        if let Some(back) = step.needs {
            let at = self.calls.len().saturating_sub(back);
            if let Some(Some((id, size))) = self.calls.get(at).cloned() {
                self.run.needs += 1;
                if self.shows(&id) {
                    self.run.met += 1;
                } else {
                    // The model calls `recall`, or reads the file again.
                    self.answer(60, size, Some(at))?;
                    self.gap += 10;
                    self.request(step.answer, plan)?;
                }
            }
        }
        self.answer(step.answer, step.output, None)
    }

    fn shows(&mut self, id: &CallId) -> bool {
        let messages = &self.session.view_mut().context().messages;
        messages.iter().flat_map(|m| &m.message.parts).any(|part| {
            matches!(part, Part::ToolResult { call_id, output, .. } if call_id == id && !output.starts_with('<'))
        })
    }

    /// Appends an answer of the model and the output of its call. `slot`: the index in `calls` of the call that this one replaces.
    fn answer(&mut self, tokens: u64, output: u64, slot: Option<usize>) -> Result<(), String> {
        if output == 0 {
            self.calls.push(None);
            let message = Message::assistant(vec![Part::text(text(tokens))]);
            let finish = EntryKind::Finish { message: message.id, reason: FinishReason::Stop };
            return self.put(vec![EntryKind::Message { message }, finish]);
        }
        self.ids += 1;
        let (id, path) = (CallId(format!("c{}", self.ids)), format!("src/{}.rs", self.ids));
        match slot {
            Some(at) => self.calls[at] = Some((id.clone(), output)),
            None => self.calls.push(Some((id.clone(), output))),
        }
        let call = Part::tool_call(id.as_str(), "read", json!({ "path": path }));
        let message = Message::assistant(vec![Part::text(text(tokens.saturating_sub(30))), call]);
        let finish = EntryKind::Finish { message: message.id, reason: FinishReason::ToolCalls };
        let journal = |state| EntryKind::ToolJournal {
            call_id: id.clone(),
            state,
            tool: Some("read".to_owned()),
            subject: Some(path.clone()),
            result: Value::Null,
        };
        let result = Message::tool_result(id.clone(), "read", text(output), false);
        let entries = vec![
            EntryKind::Message { message },
            finish,
            journal(JournalState::Started),
            EntryKind::Message { message: result },
            journal(JournalState::Finished),
        ];
        self.put(entries)
    }

    fn request(&mut self, output: u64, plan: &Plan) -> Result<(), String> {
        if matches!(plan, Plan::Own { .. }) && self.account.is_cold(self.gap, self.begins) {
            self.prune(self.policy.prune_batch)?;
        }
        for _ in 0..3 {
            let used = self.used();
            match self.governor.decide(
                CompactionReason::Threshold,
                used,
                &self.budget,
                &self.policy,
                Millis(0),
            ) {
                Verdict::No => break,
                Verdict::Compact(trigger) => self.compact(trigger)?,
                Verdict::Stop(reason) => return Err(format!("stopped at {used} tokens: {reason}")),
            }
        }
        let context = self.session.view_mut().context().messages.clone();
        let sum = |messages: &mut dyn Iterator<Item = &Arc<ContextMessage>>| {
            messages.map(|m| m.tokens.0).sum::<u64>()
        };
        let total = FLOOR + sum(&mut context.iter());
        let common = self.sent.iter().zip(&context).take_while(|(a, b)| Arc::ptr_eq(a, b)).count();
        let same = if self.sent.is_empty() { 0 } else { FLOOR + sum(&mut context[..common].iter()) };
        self.push(Request { gap: 0, total, same, output, apart: false, begins: self.begins });
        self.sent = context;
        self.begins = false;
        self.governor.step_succeeded();
        Ok(())
    }

    fn push(&mut self, request: Request) {
        let request = Request { gap: std::mem::take(&mut self.gap), ..request };
        self.account.send(&request);
        self.run.requests.push(request);
    }

    fn compact(&mut self, trigger: CompactionTrigger) -> Result<(), String> {
        let used = self.used();
        let warm = !self.account.is_cold(self.gap, self.begins);
        let model = Summariser {
            name: "p/m".into(),
            budget: self.budget,
            prices: Some(self.prices),
            cache_warm: warm,
        };
        let request = Compact {
            trigger,
            focus: None,
            floor: Floor { system: Tokens(FLOOR), ..Floor::default() },
            used,
            budget: self.budget,
            summariser: Some(model),
            continuation_id: MessageId::new(),
            now: Millis(0),
        };
        let mut step = begin(Snapshot::take(self.session.view(), request));
        while let Next::Ask(ask) = step {
            let asked = ask.request();
            let size = estimate_text(&asked.prompt).0 + estimate_text(&asked.system).0;
            let apart = asked.input == InputKind::PrunedHead;
            let (total, same) = if apart { (size, 0) } else { (used.0 + size, used.0) };
            self.push(Request { gap: 0, total, same, output: SUMMARY, apart, begins: false });
            step = ask.answer(Ok::<_, Failure>(summary()));
        }
        let Next::Commit(outcome) = step else { return Err(format!("no compaction: {step:?}")) };
        self.governor.succeeded(outcome.report.tokens_after, &self.budget);
        self.governor.note_shown(outcome.report.blind);
        self.put(outcome.entries)
    }
}

/// A text of this many tokens by the engine's own estimate.
fn text(tokens: u64) -> String {
    let mut text = "a line of the file with some words in it\n".repeat(tokens as usize * 36 / 410 + 1);
    text.truncate((tokens as usize * 36 / 10).max(1));
    text
}

fn summary() -> String {
    let lines =
        "- a fact that matters for what is left to do, in one line\n".repeat(SUMMARY as usize * 36 / 10 / 58);
    format!(
        "## Goal\nport it\n\n## Instructions\n\n## Progress\n### Done\n\n### In progress\n- the port\n\n### Blocked\n\n\
         ## Decisions\n{lines}\n## Discoveries\n\n## Next steps\n1. go on\n\n## Relevant files\n"
    )
}
