//! The real engine: a session with its ledger, view, governor, compaction, and search of the past.

use crate::recall::engines::{By, Session as _, budget, call_parts, floor, picture, shown, shows_a_line};
use crate::recall::spent::Spent;
use crate::recall::task::{Act, Call, Fact, Kind};
use becket_session::context::budget::{Budget, Meter, estimate_text};
use becket_session::context::compaction::{
    CompactionReason, Failure, Floor, Governor, InputKind, Request, Snapshot, Step, Summariser, Verdict,
    begin,
};
use becket_session::context::{ModelScope, Policy, due};
use becket_session::{CreateOptions, Durability, Session};
use becket_types::{
    CallId, CompactionTrigger, ContextMessage, EntryKind, FinishReason, JournalState, Message, MessageId,
    Millis, Part, Prices, Seq, Tokens,
};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// Results that a search shows, as the tool `recall` does.
const PLACES: usize = 10;

pub(crate) struct Becket<'a> {
    session: Session,
    policy: Policy,
    window: u64,
    by: By<'a>,
    governor: Governor,
    calls: u64,
    rounds: u64,
    spent: Spent,
    /// The messages of the last request.
    sent: Vec<Arc<ContextMessage>>,
    /// Results of the last step, by call.
    unseen: Vec<(CallId, String)>,
    /// The message with each picture, by the picture's name.
    pictures: HashMap<String, Seq>,
    _dir: tempfile::TempDir,
}

impl<'a> Becket<'a> {
    pub(crate) fn new(window: u64, policy: Policy, by: By<'a>) -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let scope = ModelScope {
            provider: "p".into(),
            model: "m".into(),
            images: true,
            max_images: 20,
            max_media_bytes: 20 << 20,
        };
        let session =
            Session::create(dir.path(), dir.path(), CreateOptions::default(), policy.clone(), scope);
        Ok(Self {
            session: session.map_err(|error| error.to_string())?,
            policy,
            window,
            by,
            governor: Governor::default(),
            calls: 0,
            rounds: 0,
            spent: Spent::default(),
            sent: Vec::new(),
            unseen: Vec::new(),
            pictures: HashMap::new(),
            _dir: dir,
        })
    }

    fn put(&mut self, kinds: Vec<EntryKind>) -> Result<Vec<Seq>, String> {
        self.session.append(kinds, Durability::Buffered).map_err(|error| error.to_string())
    }

    fn says(&mut self, parts: Vec<Part>, reason: FinishReason) -> Result<(), String> {
        let message = Message::assistant(parts);
        let id = message.id;
        self.spent.answer(estimate_text(&shown(&message)).0);
        self.put(vec![EntryKind::Message { message }, EntryKind::Finish { message: id, reason }]).map(drop)
    }

    fn step(&mut self, calls: &[Call]) -> Result<(), String> {
        let ids: Vec<CallId> = calls.iter().map(|_| self.call_id()).collect();
        let parts = calls.iter().zip(&ids).flat_map(|(call, id)| call_parts(call, id)).collect();
        self.says(parts, FinishReason::ToolCalls)?;
        for (call, id) in calls.iter().zip(&ids) {
            let journal = |state, result| EntryKind::ToolJournal {
                call_id: id.clone(),
                state,
                tool: Some(call.tool.to_owned()),
                subject: Some(call.subject.clone()),
                result,
            };
            let message = Message::tool_result(id.clone(), call.tool, &*call.output, false);
            self.put(vec![
                journal(JournalState::Started, Value::Null),
                EntryKind::Message { message },
                journal(JournalState::Finished, call.result()),
            ])?;
            self.unseen.push((id.clone(), call.output.clone()));
        }
        self.limit_step()
    }

    /// Bounds the results of a step together as the driver does: by what is free, between 0.35 and 0.60 of the window.
    fn limit_step(&mut self) -> Result<(), String> {
        let (budget, size) = (budget(self.window), due::step_tokens(self.session.view()).0);
        let usable = budget.usable();
        let before = self.used().0.saturating_sub(size);
        let free = budget.threshold(self.policy.threshold).0.saturating_sub(before);
        let room = free.clamp(usable * 35 / 100, usable * 60 / 100);
        let entry = if size > room { due::step_cut(self.session.view(), Tokens(room)) } else { None };
        self.put(entry.into_iter().collect()).map(drop)
    }

    fn call_id(&mut self) -> CallId {
        self.calls += 1;
        CallId(format!("c{}", self.calls))
    }

    fn floor(&self) -> Floor {
        Floor { system: Tokens(floor(self.window)), ..Floor::default() }
    }

    fn used(&self) -> Tokens {
        Meter::default().used(self.session.view().estimated_tokens() + self.floor().total())
    }

    /// Compacts as long as the rules demand a compaction, then sends the request.
    fn request(&mut self) -> Result<(), String> {
        let budget = budget(self.window);
        loop {
            let used = self.used();
            match self.governor.decide(CompactionReason::Threshold, used, &budget, &self.policy, Millis(0)) {
                Verdict::No => break,
                Verdict::Compact(trigger) => self.compact(trigger, used, budget)?,
                Verdict::Stop(reason) => return Err(format!("stopped at {used} tokens: {reason}")),
            }
        }
        let context = self.session.view_mut().context().messages.clone();
        let floor = self.floor().total().0;
        let all: u64 = floor + context.iter().map(|m| m.tokens.0).sum::<u64>();
        let common = self.sent.iter().zip(&context).take_while(|(a, b)| Arc::ptr_eq(a, b));
        let same: u64 =
            if self.sent.is_empty() { 0 } else { floor + common.map(|(a, _)| a.tokens.0).sum::<u64>() };
        self.spent.request(all, same, budget.usable());
        for (id, output) in std::mem::take(&mut self.unseen) {
            self.spent.due += 1;
            let parts = context.iter().rev().flat_map(|m| &m.message.parts);
            let there = |part: &Part| matches!(part, Part::ToolResult { call_id, output: now, .. } if *call_id == id && (*now == output || shows_a_line(now, &output)));
            self.spent.shown += u64::from(parts.into_iter().any(there));
        }
        self.sent = context;
        self.governor.step_succeeded();
        Ok(())
    }

    fn compact(&mut self, trigger: CompactionTrigger, used: Tokens, budget: Budget) -> Result<(), String> {
        let prices = Some(Prices { input: 1.0, output: 5.0, cache_read: 0.1, cache_write: 1.0 });
        let model = Summariser { name: "p/m".into(), budget, prices, cache_warm: true };
        let request = Request {
            trigger,
            focus: None,
            floor: self.floor(),
            used,
            budget,
            summariser: Some(model),
            continuation_id: MessageId::new(),
            now: Millis(0),
        };
        let mut step = begin(Snapshot::take(self.session.view(), request));
        while let Step::Ask(ask) = step {
            let request = ask.request();
            let (input, cached) = match request.input {
                InputKind::PrunedHead => (request.prompt.clone(), 0),
                InputKind::CachedPrefix => (self.shown() + &request.prompt, used.0),
            };
            let text = self.by.write(self.rounds, &request.system, &input)?;
            let read = estimate_text(&request.system).0 + estimate_text(&request.prompt).0;
            self.spent.summary(read, cached, estimate_text(&text).0);
            step = ask.answer(Ok::<_, Failure>(text));
        }
        match step {
            Step::Commit(outcome) => {
                let whole = outcome.entries.iter().any(|e| matches!(e, EntryKind::Compaction(_)));
                self.spent.compactions += u64::from(whole);
                self.rounds += u64::from(whole);
                self.governor.succeeded(outcome.report.tokens_after, &budget);
                self.governor.note_shown(outcome.report.blind);
                self.put(outcome.entries).map(drop)
            }
            other => Err(format!("no compaction: {other:?}")),
        }
    }
}

impl crate::recall::engines::Session for Becket<'_> {
    fn act(&mut self, act: &Act) -> Result<(), String> {
        match act {
            Act::User(text, image) => {
                let mut message = Message::user(text);
                message.parts.extend(image.as_deref().map(picture));
                let seqs = self.put(vec![EntryKind::Message { message }])?;
                self.pictures.extend(image.clone().zip(seqs.first().copied()));
                Ok(())
            }
            Act::Says(text) => {
                self.request()?;
                self.says(vec![Part::text(text)], FinishReason::Stop)
            }
            Act::Step(calls) => {
                self.request()?;
                self.step(calls)
            }
        }
    }

    fn shown(&mut self) -> String {
        let messages = &self.session.view_mut().context().messages;
        messages.iter().map(|message| shown(&message.message)).collect()
    }

    fn finds(&mut self, fact: &Fact, question: &str) -> Result<bool, String> {
        let past = self.session.history_search().map_err(|error| error.to_string())?;
        let found = past.search(question, PLACES).map_err(|error| error.to_string())?;
        let picture = self.pictures.get(&fact.key).filter(|_| fact.kind == Kind::Image);
        Ok(found.places.iter().any(|place| fact.stands_in(&place.snippet) || Some(&place.seq) == picture))
    }

    fn spent(&mut self) -> &mut Spent {
        &mut self.spent
    }
}
