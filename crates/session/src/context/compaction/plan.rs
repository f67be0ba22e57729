//! The steps of one compaction: from a snapshot, through a few requests, to a commit, a stop, or nothing.

use super::earlier::{earlier_text, nothing_added, own_text, read_any};
use super::fallback::{Sources, complete, fallback};
use super::layout::{LEVELS, Layout, Measured};
use super::outcome::{SummaryInfo, anchor, build, prune_only};
use super::prepared::{CoveredMessages, NEWER, Prepared, PreparedOutcome, reason};
use super::request_kind::{MAX_OUTPUT, kind};
use super::split::borders;
use super::verify::{ACCEPT_SHARE, Stop, StopReason};
use super::{Failure, InputKind, Outcome, Snapshot, Summariser, SummaryRequest};
use crate::context::budget::{estimate_text, part_of};
use crate::context::continuation::last_user;
use crate::context::summary::{
    Answer, Assembled, Facts, Prompt, SYSTEM, Sections, TailExcerpt, Template, assemble, chunks, escape_tags,
    overhead, prompt, read, read_answer, records, shorten,
};
use crate::context::tail_anchor;
use becket_types::{CallId, CompactionSource, CompactionTrigger, LeftOut, Message, Millis, Tokens, is_blank};
use std::collections::HashSet;
use std::sync::Arc;

/// Maximum number of pieces that a head is cut into. With more, outputs are shortened first; if that is not enough, no model is asked.
const MAX_PIECES: usize = 24;
/// Maximum size in tokens of the excerpt of the kept tail in the last request. With it, the section "Next steps" is not outdated.
const AUDIT_TOKENS: u64 = 2_000;
/// Minimum space in base tokens for a piece of the head. A window that leaves less is too small for a summariser.
const MIN_PIECE: u64 = 300;

/// The reasons why a manual compaction does nothing.
const ALL_STAYS: &str = "everything in the conversation stays verbatim; there is nothing to summarise";
const NOTHING_ADDED: &str = "nothing was added since the last compaction; there is nothing to summarise";
/// The notice if a compaction frees enough without summarising anything.
const EARLIER_STAYS: &str = "The earlier summary stays as it is: shortening outputs and images was enough";

/// Maximum bytes of text before the first section that count as a greeting ("Here is the summary:").
const GREETING: usize = 120;

/// The next step.
#[derive(Debug)]
pub enum Step {
    /// Send this request and pass its answer back.
    Ask(Box<Ask>),
    /// Append these entries as one commit.
    Commit(Box<Outcome>),
    /// No compaction frees enough for this window. The turn ends with this message.
    Stop(Stop),
    /// A manual compaction found nothing to compact; the reason for people.
    Nothing(&'static str),
    /// A preparation is finished. Nothing changes until the compaction is due.
    Prepared(Box<Prepared>),
    /// A preparation failed; the reason for people.
    Unprepared(String),
}

/// A compaction that waits for its summariser. Dropping it changes nothing.
#[derive(Debug)]
pub struct Ask {
    measured: Measured,
    layout: Layout,
    facts: Facts,
    template: Template,
    kind: InputKind,
    head: HeadPieces,
    /// The previous summary, or the one of the pieces that were answered so far. Escaped, without the anchor block.
    so_far: String,
    attempt: Attempt,
    /// Base tokens that summary and anchor may take.
    room: Tokens,
    /// Set for a preparation: the messages that the summary covers.
    preparing: Option<CoveredMessages>,
    record: AskRecord,
}

/// The head as text, cut into pieces that fit the summariser. There is one request for each.
#[derive(Debug, Default)]
struct HeadPieces {
    texts: Vec<String>,
    /// Index of the piece of the current request.
    at: usize,
    /// Excerpt of the kept tail, for the last request: see [`AUDIT_TOKENS`].
    audit: String,
    /// Index of the first message of the head that is not yet covered by the summary so far.
    from: usize,
}

impl HeadPieces {
    fn is_last(&self) -> bool {
        self.at + 1 >= self.texts.len()
    }
}

/// Earlier tries of the current request.
#[derive(Debug, Default)]
struct Attempt {
    /// True if the last answer did not follow the template, so the request is repeated once.
    again: bool,
    /// True if the provider refused a piece as too long.
    halved: bool,
    /// The best answer so far that does not follow the template.
    partial: Option<Answer>,
}

/// Facts about the requests for the outcome.
#[derive(Debug, Default)]
struct AskRecord {
    model_calls: u32,
    /// Text of the model that was not accepted.
    left_out: Vec<LeftOut>,
    notices: Vec<String>,
}

/// Makes the stop message for a reason found outside a compaction (automatic compaction is off, the pause
/// after failures, …).
pub fn stop(snapshot: &Snapshot, reason: StopReason) -> Stop {
    Stop { reason, breakdown: Measured::new(snapshot.clone()).breakdown() }
}

/// Starts a compaction: checks if pruning alone is enough and if the floor leaves room, then divides the history. Returns the first step.
pub fn begin(snapshot: Snapshot) -> Step {
    begin_with(snapshot, None)
}

/// Like [`begin`], with a summary that was prepared in advance: no request if it fits, a small one if it does
/// not. After a failed preparation, no model is asked.
pub fn begin_with(snapshot: Snapshot, prepared: Option<&Prepared>) -> Step {
    let measured = Measured::new(snapshot);
    let snapshot = &measured.snapshot;
    let usable = snapshot.request.budget.usable();
    let pruned = measured.after_pruning();
    let automatic = snapshot.request.trigger != CompactionTrigger::Manual;
    let pays = measured.pruning_pays();
    if automatic && pays && pruned.0 < part_of(usable, ACCEPT_SHARE) {
        return Step::Commit(Box::new(prune_only(&measured, pruned)));
    }
    if measured.target().is_none() {
        return Step::Stop(Stop { reason: StopReason::FloorTooBig, breakdown: measured.breakdown() });
    }
    let ready = prepared.and_then(|p| Ready::from_prepared(p, &measured));
    if let Some(outcome) = ready.as_ref().and_then(|ready| ready.outcome(&measured)) {
        return Step::Commit(Box::new(outcome));
    }
    // A manual compaction uses only a level with something to summarise. Layouts are computed lazily: the first level usually has it.
    let levels = (0..LEVELS).map(|level| measured.layout(level));
    let mut layouts = levels.filter(|layout| automatic || measured.summarises(layout)).peekable();
    // Without a level that frees enough, pruning and cutting the inputs of the newest step must be enough.
    let cuts_alone = snapshot.outputs.inputs.is_some() && pays && pruned.0 < usable;
    if !automatic {
        if layouts.peek().is_none() && !cuts_alone {
            return Step::Nothing(ALL_STAYS);
        }
        if nothing_added(snapshot) && snapshot.outputs.inputs.is_none() {
            return Step::Nothing(NOTHING_ADDED);
        }
    }
    let Some((layout, room)) = layouts.find_map(|l| measured.room(&l).map(|room| (l, room))) else {
        if cuts_alone {
            return Step::Commit(Box::new(prune_only(&measured, pruned)));
        }
        return Step::Stop(Stop { reason: StopReason::NotEnough, breakdown: measured.breakdown() });
    };
    let ask = Ask::new(measured, layout, room);
    match (ready, prepared.map(|p| &p.outcome)) {
        (Some(ready), _) => ask.start_from(ready),
        // The model failed during the preparation, so it is not asked again.
        (None, Some(PreparedOutcome::Failed { why })) => ask.fall_back(why),
        (None, _) => ask.start(),
    }
}

/// Starts a preparation. `None` if pruning alone will probably be enough, or if there is no model or no
/// history to summarise.
pub fn prepare(snapshot: Snapshot) -> Option<Box<Ask>> {
    let measured = Measured::new(snapshot);
    let budget = &measured.snapshot.request.budget;
    let due = budget.threshold(measured.snapshot.policy.threshold);
    let freed = measured.freed_by_pruning();
    let pruning_does =
        due.0.saturating_sub(freed.0) < part_of(budget.usable(), ACCEPT_SHARE) && freed.0 * 4 >= due.0;
    if pruning_does || measured.target().is_none() || measured.snapshot.request.summariser.is_none() {
        return None;
    }
    let mut layout = measured.layout(LEVELS - 1);
    let messages = &measured.snapshot.messages;
    // Everything up to the last border is covered. Calls that are still open have their results only when the compaction is due.
    layout.at = borders(messages).iter().rposition(|border| *border).unwrap_or(0);
    // Messages that would be kept now may be in the head when the compaction is due.
    layout.head = (0..layout.at).filter(|i| !measured.rules.holds(*i)).collect();
    (layout.kept, layout.tail) = (Vec::new(), Vec::new());
    if layout.head.is_empty() {
        return None;
    }
    let (cover, room) = (CoveredMessages::from_snapshot(&measured.snapshot, layout.at), measured.most());
    let mut ask = Ask::new(measured, layout, room);
    ask.preparing = Some(cover);
    match ask.start() {
        Step::Ask(ask) => Some(ask),
        _ => None,
    }
}

/// A prepared summary that belongs to the current view.
struct Ready {
    /// Index of the first message that it does not cover.
    at: usize,
    summary: String,
    info: SummaryInfo,
}

impl Ready {
    fn from_prepared(prepared: &Prepared, measured: &Measured) -> Option<Self> {
        let PreparedOutcome::Ready { model, model_calls, summary, .. } = &prepared.outcome else {
            return None;
        };
        let at = prepared.ends_at(measured)?;
        let info = SummaryInfo {
            source: CompactionSource::Model,
            model: model.clone(),
            input: "prepared",
            model_calls: *model_calls,
            left_out: Vec::new(),
        };
        Some(Self { at, summary: summary.clone(), info })
    }

    /// Returns the compaction whose tail begins where the summary ends, if its size is accepted.
    fn outcome(&self, measured: &Measured) -> Option<Outcome> {
        let layout = measured.layout_until(0, self.at);
        let room = measured.room(&layout)?;
        let ask = Ask::new(measured.clone(), layout, room);
        let mut sections = read(&ask.template, &self.summary).ok()?;
        if self.at < measured.snapshot.messages.len() {
            let doing = sections.get("### In progress").replace(NEWER, "");
            sections.set("### In progress", format!("{}\n{NEWER}", doing.trim_end()).trim_start().to_owned());
        }
        let anchor = anchor(measured, &ask.layout, room);
        let repeated = measured.shown_texts(&ask.layout).leave_out(&mut sections);
        let Assembled { text, left_out } =
            assemble(sections, &ask.facts, ask.summary_room(anchor.as_deref()));
        let info = SummaryInfo { left_out: [repeated, left_out].concat(), ..self.info.clone() };
        let (outcome, after) = build(measured, &ask.layout, &text, anchor, info);
        ask.accepts(after).then_some(outcome)
    }
}

impl Ask {
    fn new(measured: Measured, layout: Layout, room: Tokens) -> Self {
        let snapshot = &measured.snapshot;
        let template = Template::new(snapshot.policy.summary.template.as_deref());
        let earlier = snapshot.previous.as_ref().map(|p| p.summary.as_str()).unwrap_or_default();
        let earlier_sections = read_any(&template, earlier);
        let cuts = snapshot.outputs.cuts.keys().chain(layout.unseen.cuts.iter().map(|cut| &cut.call_id));
        let facts = Facts::new(
            &snapshot.journal,
            &snapshot.messages,
            Some(earlier),
            earlier_sections.as_ref(),
            &snapshot.state,
            &cuts.collect(),
        );
        Self {
            kind: kind(&measured),
            so_far: earlier_text(earlier),
            facts,
            template,
            head: HeadPieces::default(),
            attempt: Attempt::default(),
            room,
            preparing: None,
            record: AskRecord::default(),
            layout,
            measured,
        }
    }

    /// Requests a summary of the messages that a prepared summary does not cover, or uses it unchanged if it
    /// covers the whole head.
    fn start_from(mut self, ready: Ready) -> Step {
        self.record.model_calls = ready.info.model_calls;
        self.so_far = escape_tags(&ready.summary);
        self.kind = InputKind::PrunedHead;
        self.head.from = ready.at;
        if self.layout.head.iter().any(|i| *i >= ready.at) {
            return self.start();
        }
        match read(&self.template, &ready.summary) {
            Ok(sections) => self.finish(sections),
            Err(_) => self.start(),
        }
    }

    /// Requests the same summary from another model, because the first one cannot be reached.
    pub fn to_model(mut self, summariser: Summariser) -> Step {
        self.record.model_calls += 1;
        self.measured.snapshot.request.summariser = Some(summariser);
        self.kind = InputKind::PrunedHead;
        (self.attempt.again, self.attempt.halved) = (false, false);
        self.start()
    }

    /// Repeats the same request, because its answer was incomplete.
    pub fn once_more(mut self) -> Step {
        self.record.model_calls += 1;
        Step::Ask(Box::new(self))
    }

    /// Returns the preparation for the ledger: the covered messages, and its state.
    pub fn preparation(&self) -> Option<Prepared> {
        let cover = self.preparing.clone()?;
        let model =
            self.measured.snapshot.request.summariser.as_ref().map(|s| s.name.clone()).unwrap_or_default();
        let outcome = PreparedOutcome::Asked { model, input: self.kind.name().to_owned() };
        Some(Prepared { cover, took: Millis(0), outcome })
    }

    fn start(mut self) -> Step {
        if !self.measured.summarises(&self.layout) {
            let (level, earlier) = (self.layout.level, self.so_far.clone());
            return self.without_model(level, Some(&earlier), "there is nothing new to summarise");
        }
        if self.measured.snapshot.request.summariser.is_none() {
            return self.fall_back("no model for the summary");
        }
        if self.kind == InputKind::PrunedHead && !self.cut_pieces() {
            return self.fall_back("the history does not fit into the summarising model");
        }
        Step::Ask(Box::new(self))
    }

    /// Returns the messages with these indices.
    fn messages(&self, indices: &[usize]) -> Vec<Arc<Message>> {
        indices.iter().map(|i| Arc::clone(&self.measured.snapshot.messages[*i])).collect()
    }

    /// Cuts the head into pieces that fit the summariser. Returns false if that is impossible.
    fn cut_pieces(&mut self) -> bool {
        let snapshot = &self.measured.snapshot;
        let Some(summariser) = &snapshot.request.summariser else { return false };
        // A tenth is reserved for inaccuracy of the estimate. After the provider refused a piece as too long,
        // pieces are half as large.
        let share = if self.attempt.halved { 0.45 } else { 0.90 };
        let limit = self.measured.to_base_tokens(part_of(summariser.budget.usable(), share)).0;
        let user = last_user(&snapshot.messages).map(|i| Arc::clone(&snapshot.messages[i]));
        let stays: Vec<usize> = [self.layout.kept.as_slice(), self.layout.tail.as_slice()].concat();
        let audit = Tokens(self.measured.to_base_tokens(AUDIT_TOKENS).0.min(limit / 8));
        self.head.audit = TailExcerpt::text(user.as_deref(), &self.messages(&stays), audit);
        self.so_far = shorten(&self.so_far, (limit * 36 / 10 / 4) as usize);
        let taken = overhead(&self.template, snapshot.request.focus.as_deref()).0
            + estimate_text(&self.head.audit).0
            // The summary of the pieces so far may still grow to the limit of the summary.
            + estimate_text(&self.so_far).0.max(self.room.0);
        let piece = limit.saturating_sub(taken);
        if piece < MIN_PIECE {
            return false;
        }
        let stubs: HashSet<&CallId> = snapshot
            .outputs
            .stubs
            .iter()
            .chain(snapshot.outputs.prunable.iter().map(|p| &p.call_id))
            .collect();
        let head: Vec<usize> = self.layout.head.iter().copied().filter(|i| *i >= self.head.from).collect();
        let head = self.messages(&head);
        for scale in [1, 4, 16] {
            let pieces = chunks(&records(&head, &stubs, scale), Tokens(piece));
            if pieces.len() <= MAX_PIECES {
                self.head.texts = pieces;
                self.head.at = 0;
                return !self.head.texts.is_empty();
            }
        }
        false
    }

    /// Returns the request to send now.
    pub fn request(&self) -> SummaryRequest {
        let focus = self.measured.snapshot.request.focus.as_deref();
        let max_output = self
            .measured
            .snapshot
            .request
            .summariser
            .as_ref()
            .map_or(MAX_OUTPUT, |s| s.budget.reserve().min(MAX_OUTPUT))
            .max(1);
        let (system, input) = match self.kind {
            InputKind::CachedPrefix => {
                (String::new(), Prompt { focus, again: self.attempt.again, ..Prompt::default() })
            }
            InputKind::PrunedHead => {
                let input = Prompt {
                    previous: &self.so_far,
                    conversation: self.head.texts.get(self.head.at).map_or("", String::as_str),
                    piece: (self.head.at + 1, self.head.texts.len()),
                    audit: if self.head.is_last() { &self.head.audit } else { "" },
                    focus,
                    again: self.attempt.again,
                };
                (SYSTEM.to_owned(), input)
            }
        };
        SummaryRequest { input: self.kind, system, prompt: prompt(&self.template, &input), max_output }
    }

    /// Processes the text that came back, or the failure.
    pub fn answer(mut self, answer: Result<String, Failure>) -> Step {
        self.record.model_calls += 1;
        let text = match answer {
            Ok(text) => text,
            Err(Failure::Overflow) => return self.too_long(),
            Err(failure) => return self.fall_back(&reason(&failure)),
        };
        let answer = match read_answer(&self.template, &text) {
            Ok(answer) if answer.has_sections() => answer,
            Ok(answer) if !answer.follows && !is_blank(&answer.outside) => {
                let longer = |best: &Answer| answer.outside.len() > best.outside.len();
                if self.attempt.partial.as_ref().is_none_or(longer) {
                    self.attempt.partial = Some(answer);
                }
                if !self.attempt.again {
                    self.attempt.again = true;
                    return Step::Ask(Box::new(self));
                }
                return self.fall_back("the model ignored the summary's template twice");
            }
            Ok(_) | Err(_) => return self.fall_back("the model returned an empty summary"),
        };
        let sections = self.complete(answer);
        if !self.head.is_last() {
            // The next piece is summarised together with the summary of the pieces so far.
            self.so_far = sections.clamp(self.room);
            self.head.at += 1;
            self.attempt.again = false;
            return Step::Ask(Box::new(self));
        }
        self.finish(sections)
    }

    /// Returns the sections of an answer, even if it was cut or has a wrong shape. Text outside of sections
    /// is added to Discoveries; missing sections are taken from the previous summary.
    fn complete(&mut self, answer: Answer) -> Sections {
        let Answer { mut sections, missing, follows, outside } = answer;
        self.keep_outside(&mut sections, &outside);
        if follows || missing.is_empty() {
            return sections;
        }
        let earlier = read_any(&self.template, &self.so_far);
        for heading in &missing {
            let body = earlier.as_ref().map_or("", |earlier| earlier.get(heading));
            sections.set(heading, body);
        }
        complete(&mut sections, &self.measured.snapshot.messages, self.facts.todo());
        let names: Vec<&str> = missing.iter().map(|heading| heading.trim_start_matches('#').trim()).collect();
        self.record.notices.push(format!(
            "The model's summary is incomplete. Filled in without the model: {}",
            names.join(", ")
        ));
        sections
    }

    /// Handles text outside of sections: a greeting is only recorded, longer text is added to Discoveries.
    fn keep_outside(&mut self, sections: &mut Sections, outside: &str) {
        let outside = outside.trim();
        if outside.is_empty() {
            return;
        }
        if outside.len() <= GREETING || !sections.has("## Discoveries") {
            let (text, why) = (outside.to_owned(), "outside of the template's sections".to_owned());
            self.record.left_out.push(LeftOut { section: String::new(), text, why });
            return;
        }
        let body = sections.get("## Discoveries");
        sections.set("## Discoveries", format!("{body}\n{outside}").trim().to_owned());
    }

    /// Handles a request that was too long: first a separate request with the pruned head, then pieces of half the size, then no model.
    fn too_long(mut self) -> Step {
        if self.kind == InputKind::PrunedHead {
            if self.attempt.halved {
                return self.fall_back(&reason(&Failure::Overflow));
            }
            self.attempt.halved = true;
        }
        self.kind = InputKind::PrunedHead;
        self.attempt.again = false;
        if !self.cut_pieces() {
            return self.fall_back(&reason(&Failure::Overflow));
        }
        Step::Ask(Box::new(self))
    }

    fn info(&self, source: CompactionSource) -> SummaryInfo {
        let snapshot = &self.measured.snapshot;
        let by_model = source == CompactionSource::Model;
        let model = snapshot
            .request
            .summariser
            .as_ref()
            .filter(|_| by_model)
            .map(|s| s.name.clone())
            .unwrap_or_default();
        SummaryInfo {
            source,
            model,
            input: if by_model { self.kind.name() } else { "" },
            model_calls: self.record.model_calls,
            left_out: Vec::new(),
        }
    }

    /// Finishes the model's summary: assembles it, adds the anchor, checks the size.
    fn finish(mut self, mut sections: Sections) -> Step {
        if let Some(cover) = self.preparing.take() {
            let SummaryInfo { model, input, model_calls, .. } = self.info(CompactionSource::Model);
            let summary = sections.clamp(self.room);
            let outcome = PreparedOutcome::Ready { model, input: input.to_owned(), model_calls, summary };
            return Step::Prepared(Box::new(Prepared { cover, took: Millis(0), outcome }));
        }
        let anchor = anchor(&self.measured, &self.layout, self.room);
        let repeated = self.measured.shown_texts(&self.layout).leave_out(&mut sections);
        let Assembled { text, left_out } =
            assemble(sections, &self.facts, self.summary_room(anchor.as_deref()));
        let left_out = [self.record.left_out.clone(), repeated, left_out].concat();
        let info = SummaryInfo { left_out, ..self.info(CompactionSource::Model) };
        let (mut outcome, after) = build(&self.measured, &self.layout, &text, anchor, info);
        if self.accepts(after) {
            outcome.notices.append(&mut self.record.notices);
            return Step::Commit(Box::new(outcome));
        }
        let level = self.layout.level + 1;
        self.without_model(level, Some(&text), "the summary did not free enough; a smaller tail was kept")
    }

    fn fall_back(mut self, why: &str) -> Step {
        if self.preparing.is_some() {
            return Step::Unprepared(why.to_owned());
        }
        let level = self.layout.level;
        let mut earlier = self.so_far.clone();
        if let Some(answer) = self.attempt.partial.take() {
            // Text that ignores the template is better than none: it becomes a part of the fallback summary.
            let mut sections = read_any(&self.template, &earlier).unwrap_or_else(|| self.template.empty());
            self.keep_outside(&mut sections, &answer.outside);
            if answer.outside.len() > GREETING {
                earlier = sections.clamp(self.measured.most());
            }
        }
        self.without_model(level, Some(&earlier), why)
    }

    /// Makes the summary without a model, trying the levels from `level` on. No further model call is made.
    fn without_model(mut self, level: usize, earlier: Option<&str>, why: &str) -> Step {
        for level in level..LEVELS {
            self.layout = self.measured.layout(level);
            let Some(room) = self.measured.room(&self.layout) else { continue };
            self.room = room;
            let anchor = anchor(&self.measured, &self.layout, room);
            let max = self.summary_room(anchor.as_deref());
            let messages = &self.measured.snapshot.messages;
            let gone = self.messages(&self.layout.head);
            let sources = Sources { messages, gone: &gone, earlier, anchor: anchor.as_deref() };
            let unchanged = self.earlier_sections().filter(|_| !self.measured.summarises(&self.layout));
            let keeps_earlier = unchanged.is_some();
            let Assembled { text, left_out } = match unchanged {
                Some(sections) => assemble(sections, &self.facts, max),
                None => fallback(&sources, &self.facts, max),
            };
            let left_out = [self.record.left_out.clone(), left_out].concat();
            let info = SummaryInfo { left_out, ..self.info(CompactionSource::Fallback) };
            let (mut outcome, after) = build(&self.measured, &self.layout, &text, anchor, info);
            if self.accepts(after) {
                if !keeps_earlier {
                    outcome.notices.push(format!("Summary made without the model: {why}"));
                } else if outcome.notices.is_empty() {
                    outcome.notices.push(EARLIER_STAYS.to_owned());
                }
                return Step::Commit(Box::new(outcome));
            }
        }
        Step::Stop(Stop { reason: StopReason::NotEnough, breakdown: self.measured.breakdown() })
    }

    /// Returns the sections of the previous summary, without the blocks that each compaction makes again.
    fn earlier_sections(&self) -> Option<Sections> {
        let previous = self.measured.snapshot.previous.as_ref()?;
        read_any(&self.template, &own_text(&previous.summary))
    }

    fn accepts(&self, after: Tokens) -> bool {
        self.measured.target_at(self.layout.level).is_some_and(|target| after <= target)
    }

    /// Returns the space for the summary's own text beside the anchor.
    fn summary_room(&self, anchor: Option<&str>) -> Tokens {
        let block = anchor.map_or(0, |a| estimate_text(&tail_anchor::splice_before("", a, true)).0 + 2);
        Tokens(self.room.0.saturating_sub(block))
    }
}
