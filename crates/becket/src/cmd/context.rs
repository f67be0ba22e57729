//! `becket context`: the model's current view by category and span, with tokens and origin. Also any earlier request as
//! it was sent (`sent`), and changes by hand (`edit`).

mod edit;
mod sent;
mod show;

pub(crate) use sent::{
    PlacedSpan, RebuiltRequest, RecordedRequest, RequestRebuilder, current_spans, recorded_requests, text_of,
};
pub(crate) use show::{
    cache_states, changes, diff, is_same, previous_request, request_of, shared_prefix_len,
};

use crate::args::ContextArgs;
use crate::assemble::Opening;
use crate::cmd::{one_line, pick_session, short, store_failure, write};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::models::{info, session_model_settings};
use crate::settings::{policy, readable};
use crate::toolbox;
use becket_config::Settings;
use becket_model::catalog;
use becket_session::blobs::BlobStore;
use becket_session::context::budget::{Budget, Limits, Meter};
use becket_session::context::compaction::Floor;
use becket_session::context::scale::ContextScale;
use becket_session::context::{ModelScope, Policy, View};
use becket_session::ledger::{BadRecord, Proof};
use becket_session::store::{self, Disk, LedgerFigures, SessionSummary};
use becket_session::walk::{Walked, walk, walk_again};
use becket_session::{Snapshot, StoreError};
use becket_types::{BlobId, Blobs as _, Entry, EntryKind, Millis, Seq, Span, SpanKind, Tokens, ToolSpec};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// A session, loaded without a lock and without writing: a stored one, or a running one from its agent. Messages that are not in the view
/// are not loaded. In a long session those are nearly all messages.
pub(crate) struct LoadedSession {
    pub summary: SessionSummary,
    pub view: View,
    /// Entries about requests: when they were made, with which tools and settings, and why they differ. None contains a
    /// message, a call or a file.
    pub entries: Vec<Entry>,
    /// Records that could not be read.
    pub damaged_records: Vec<String>,
    /// The model of the last request, `provider/name`.
    pub model: Option<String>,
    /// Facts about models and their servers, under the configuration of the session's folder and of its earlier runs.
    pub models: becket_model::Settings,
    /// The part of the ledger that was verified, so that reading it again need not verify it.
    proof: Proof,
    in_memory: Option<InMemory>,
}

/// The content of a session that exists in memory only.
struct InMemory {
    entries: Vec<Entry>,
    blobs: Arc<BlobStore>,
}

/// The place from which a session's entries are read again.
#[derive(Clone, Copy)]
enum LedgerPlace<'a> {
    /// The session's folder, and the part of the ledger that an earlier reading verified.
    Stored(&'a Path, &'a Proof),
    Memory(&'a [Entry]),
}

impl LedgerPlace<'_> {
    /// Passes each entry to `visit` in order, before it is applied, with the view of all earlier entries, until `visit`
    /// stops. Returns the view of the entries up to that point.
    fn walk(
        self,
        policy: Policy,
        scope: ModelScope,
        visit: &mut dyn FnMut(&Entry, &mut View) -> ControlFlow<()>,
    ) -> Result<View, StoreError> {
        match self {
            Self::Stored(dir, proof) => {
                walk_again(dir, proof.clone(), policy, scope, visit).map(|walked| walked.view)
            }
            Self::Memory(entries) => {
                let mut view = View::new(policy, scope);
                for entry in entries {
                    if visit(entry, &mut view).is_break() {
                        break;
                    }
                    view.apply(entry);
                }
                Ok(view)
            }
        }
    }
}

impl LoadedSession {
    /// Reads a running session from what its agent has in memory, and the entries about requests from its ledger.
    ///
    /// # Errors
    ///
    /// Fails if the ledger cannot be read.
    pub(crate) fn from_snapshot(environment: &Environment, snapshot: Snapshot) -> Result<Self, Failure> {
        let Snapshot { info, dir, title, is_persistent, time, view, blobs, history } = snapshot;
        let (mut entries, mut all): (Vec<Entry>, Vec<Entry>) = Default::default();
        // The entries of a session that is not saved cannot be read from a file later, so all are kept here.
        let without = if is_persistent { NOT_OF_REQUESTS } else { &[] };
        let read = history.read(without, &mut |entry| {
            if is_of_requests(&entry.kind) {
                entries.push(entry.clone());
            }
            if !is_persistent {
                all.push(entry);
            }
        });
        let (bad, proof) = read.map_err(store_failure)?;
        let summary = SessionSummary {
            id: info.id,
            dir,
            cwd: info.cwd,
            title,
            prompt: None,
            ledger: LedgerFigures { updated: time, ..LedgerFigures::default() },
            forked_from: info.forked_from,
            extra: info.extra,
            tags: Vec::new(),
            archived: false,
            unanswered: false,
        };
        let in_memory = (!is_persistent).then_some(InMemory { entries: all, blobs });
        let settings = readable(environment, &summary.cwd);
        Ok(Self::with_model(environment, settings, summary, view, (entries, bad, proof, in_memory)))
    }

    /// Reads a stored session under the configuration of its folder, as its next run would.
    ///
    /// # Errors
    ///
    /// Fails if the ledger cannot be read.
    pub(crate) fn open(environment: &Environment, summary: SessionSummary) -> Result<Self, Failure> {
        let mut entries: Vec<Entry> = Vec::new();
        let settings = readable(environment, &summary.cwd);
        let walked = walk(&summary.dir, policy(&settings.config), ModelScope::no_model(), &mut |entry, _| {
            if is_of_requests(&entry.kind) {
                entries.push(entry.clone());
            }
            ControlFlow::Continue(())
        });
        let Walked { view, bad, proof } = walked.map_err(store_failure)?;
        Ok(Self::with_model(environment, settings, summary, view, (entries, bad, proof, None)))
    }

    /// Completes a reading by the facts about the session's model.
    fn with_model(
        environment: &Environment,
        settings: Settings,
        summary: SessionSummary,
        mut view: View,
        (entries, bad, proof, in_memory): (Vec<Entry>, Vec<BadRecord>, Proof, Option<InMemory>),
    ) -> Self {
        let bad = bad.iter().map(ToString::to_string).collect();
        let model = model_of(&entries);
        // The options of an earlier run apply to the next one as well.
        let models = session_model_settings(environment, settings, &view);
        view.set_scope(becket_agent::scope(&info(model.as_deref(), &models)));
        // A process may be running the session. If that process died, the session's next run closes the open calls.
        view.set_calls_may_run(true);
        Self { summary, view, entries, damaged_records: bad, model, models, proof, in_memory }
    }

    /// Returns the budget of the session's model, and true if its window is known and not assumed. The window is `given` for
    /// this command, else `context.window`, else the configuration's figure for the model, else the one its server
    /// reported, else the catalog's. A smaller limit that was learned from refusals replaces it, unless it is `given`; the
    /// window is then known, too.
    pub(crate) fn budget(&self, given: Option<u64>) -> (Budget, bool) {
        let info = info(self.model.as_deref(), &self.models);
        let window = given.unwrap_or(info.window);
        let learned = self.view.state(&Limits::key(&info.id)).cloned();
        let learned: Limits =
            learned.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default();
        let known = given.is_some() || learned.effective().is_some() || info.source != catalog::UNKNOWN;
        let budget = Budget::new(window, info.input_limit.min(window), info.max_output);
        (if given.is_some() { budget } else { budget.limited(learned) }, known)
    }

    /// Passes every entry of the ledger to `take`, in order. Entries that cannot be parsed are skipped.
    ///
    /// # Errors
    ///
    /// Fails if the ledger cannot be read.
    pub(crate) fn for_each_entry(&self, take: &mut dyn FnMut(Entry)) -> Result<(), Failure> {
        if let Some(InMemory { entries, .. }) = &self.in_memory {
            entries.iter().cloned().for_each(take);
            return Ok(());
        }
        for entry in store::read_entries(&self.summary.dir).map_err(store_failure)? {
            let dir = self.summary.dir.display();
            let entry = entry.map_err(|e| Failure::error(format!("cannot read {dir}: {e}")))?;
            if let Ok(entry) = entry {
                take(entry);
            }
        }
        Ok(())
    }

    /// Returns all entries of the ledger at once, which takes much memory for a long session.
    pub(crate) fn all_entries(&self) -> Result<Vec<Entry>, Failure> {
        let mut entries = Vec::new();
        self.for_each_entry(&mut |entry| entries.push(entry))?;
        Ok(entries)
    }

    /// Reads the ledger again: passes each entry to `visit` with the view of all earlier entries, until `visit` stops.
    ///
    /// # Errors
    ///
    /// Fails if the ledger cannot be read.
    pub(crate) fn walk(
        &self,
        visit: &mut dyn FnMut(&Entry, &mut View) -> ControlFlow<()>,
    ) -> Result<View, Failure> {
        let (policy, scope) = (self.view.policy().clone(), self.view.scope().clone());
        self.place().walk(policy, scope, visit).map_err(store_failure)
    }

    fn place(&self) -> LedgerPlace<'_> {
        match &self.in_memory {
            Some(InMemory { entries, .. }) => LedgerPlace::Memory(entries),
            None => LedgerPlace::Stored(&self.summary.dir, &self.proof),
        }
    }

    /// Prepares a session that has not begun (it has no system prompt) to be shown as its first request will be.
    pub(crate) fn begin_as(&mut self, opening: &Opening) {
        if !self.view.system_items().is_empty() {
            return;
        }
        let kind = EntryKind::System { items: opening.items() };
        self.view.apply(&Entry { seq: Seq(u64::MAX), time: Millis(0), kind });
        let names = opening.tools.iter().map(|tool| tool.name.clone()).collect();
        let kind = EntryKind::Tools { names, hash: String::new(), specs: None };
        self.entries.push(Entry { seq: Seq(u64::MAX), time: Millis(0), kind });
        self.model.get_or_insert_with(|| opening.model.clone());
    }

    /// Returns the spans that fill the context now. Their estimated sizes are scaled so that the sum is the size in
    /// [`Self::scale`]; with `exact`, they are counted instead.
    pub(crate) fn context_fill(
        &mut self,
        given: Option<u64>,
        usable: Option<u64>,
        exact: bool,
    ) -> ContextFill {
        let (tools, scale) = (self.tools(), self.scale());
        let _ = self.view.context();
        let mut spans = self.view.spans(&tools);
        let texts = texts(&mut self.view, &tools);
        if exact {
            for (span, text) in spans.iter_mut().zip(&texts) {
                span.tokens = becket_model::tokens::count(text);
            }
        } else {
            scale.split(spans.iter_mut().map(|span| &mut span.tokens));
        }
        let (budget, known) = self.budget(given);
        let usable = usable.unwrap_or_else(|| budget.usable());
        let sum = spans.iter().map(|s| s.tokens.0).sum();
        ContextFill { spans, texts, budget, assumed: !known, usable, sum, exact }
    }

    /// Returns the factor from estimated to shown sizes: the shown size of the context is what the provider last reported in this
    /// session, plus the estimate of everything that was added since.
    pub(crate) fn scale(&mut self) -> ContextScale {
        let base = Floor::measure(&[], &self.tools()).total() + self.view.estimated_tokens();
        let stored = self.view.state(Meter::KEY);
        let meter = self.model.as_deref().and_then(|model| Meter::from_state(stored, model));
        ContextScale::of_recorded(&meter.unwrap_or_default(), base)
    }

    /// Returns the tools that the session last had, as they were sent; with their current descriptions if they were not recorded.
    /// This includes tools that are no longer offered and only appear in earlier calls.
    pub(crate) fn tools(&self) -> Vec<ToolSpec> {
        let recorded = self.entries.iter().rev().find_map(|entry| match &entry.kind {
            EntryKind::Tools { specs, .. } => Some(specs.clone()),
            _ => None,
        });
        let read = |id: BlobId| BlobStore::in_memory(Arc::new(Disk), Some(&self.summary.dir)).get(&id);
        let bytes: Option<Vec<u8>> = recorded.flatten().and_then(read);
        let specs = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let mut tools = specs.unwrap_or_else(|| tools_of(&self.entries, self.model.as_deref()));
        tools.extend(self.view.tool_stubs(&tools));
        tools
    }
}

/// The spans of a context, and the size of the window.
pub(crate) struct ContextFill {
    pub spans: Vec<Span>,
    /// The text of each span.
    pub texts: Vec<String>,
    pub budget: Budget,
    /// The model's window is unknown, and a default is assumed.
    pub assumed: bool,
    /// Tokens that a request may contain.
    pub usable: u64,
    /// Sum of the tokens of all spans.
    pub sum: u64,
    /// The tokens were counted, not estimated.
    pub exact: bool,
}

impl ContextFill {
    /// Scales the estimates so that their sum is `used`, which is known from the provider's last report.
    pub(crate) fn scale_to(&mut self, used: u64) {
        let scale = ContextScale::new(Tokens(used), Tokens(self.sum));
        scale.split(self.spans.iter_mut().map(|span| &mut span.tokens));
        self.sum = self.spans.iter().map(|span| span.tokens.0).sum();
    }
}

/// A session, of which only the entries about its requests were read. No view is derived from them.
struct Requests {
    summary: SessionSummary,
    /// Entries about requests, as in [`LoadedSession`].
    entries: Vec<Entry>,
    model: Option<String>,
    proof: Proof,
}

impl Requests {
    fn open(summary: SessionSummary) -> Result<Self, Failure> {
        let dir = summary.dir.display().to_string();
        let mut entries: Vec<Entry> = Vec::new();
        let mut reader = store::read_entries_without(&summary.dir, NOT_OF_REQUESTS).map_err(store_failure)?;
        for entry in &mut reader {
            let entry = entry.map_err(|e| Failure::error(format!("cannot read {dir}: {e}")))?;
            entries.extend(entry.ok().filter(|entry| is_of_requests(&entry.kind)));
        }
        let model = model_of(&entries);
        Ok(Self { summary, entries, model, proof: reader.proof() })
    }
}

/// Returns the model of the last request.
fn model_of(entries: &[Entry]) -> Option<String> {
    entries.iter().rev().find_map(|e| match &e.kind {
        EntryKind::ModelSwitch { model } => Some(model.clone()),
        EntryKind::Usage { model, purpose, .. } if purpose == "turn" => Some(model.clone()),
        _ => None,
    })
}

/// Returns the tools that a session last had, with their current descriptions.
fn tools_of(entries: &[Entry], model: Option<&str>) -> Vec<ToolSpec> {
    let names = entries.iter().rev().find_map(|e| match &e.kind {
        EntryKind::Tools { names, .. } => Some(names.clone()),
        _ => None,
    });
    let all = toolbox::specs();
    match names {
        Some(names) => all.into_iter().filter(|t| names.contains(&t.name)).collect(),
        None => {
            let dialect = becket_tool_edit::Dialect::for_model(model.unwrap_or_default());
            all.into_iter().filter(|t| dialect.offers(&t.name)).collect()
        }
    }
}

/// Names of the kinds of entries that make up most of a session and do not concern requests.
const NOT_OF_REQUESTS: &[&str] =
    &["message", "part", "finish", "tool_journal", "permission", "turn_end", "file_snapshot", "file_changes"];

/// True if the entry is a request, or changes the next request, and contains no message.
fn is_of_requests(kind: &EntryKind) -> bool {
    match kind {
        EntryKind::Request(_)
        | EntryKind::Usage { .. }
        | EntryKind::System { .. }
        | EntryKind::Tools { .. }
        | EntryKind::ModelSwitch { .. }
        | EntryKind::Compaction(_)
        | EntryKind::Prune { .. }
        | EntryKind::CutInputs { .. }
        | EntryKind::Revert { .. }
        | EntryKind::Pin { .. }
        | EntryKind::Restore { .. } => true,
        EntryKind::Session { .. }
        | EntryKind::Message { .. }
        | EntryKind::Part { .. }
        | EntryKind::Finish { .. }
        | EntryKind::Reminder { .. }
        | EntryKind::ToolJournal { .. }
        | EntryKind::Permission(_)
        | EntryKind::State { .. }
        | EntryKind::Title { .. }
        | EntryKind::Interrupt
        | EntryKind::TurnEnd { .. }
        | EntryKind::Notice { .. }
        | EntryKind::Hook(_)
        | EntryKind::FileSnapshot(_)
        | EntryKind::FileChanges(_)
        | EntryKind::Unknown(_) => false,
    }
}

pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &ContextArgs,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let summary = pick_session(environment, cwd, args.session.as_deref())?;
    if args.edit.is_wanted() {
        return edit::run(environment, &summary, args, out);
    }
    if args.sent.requests {
        return show::list(&Requests::open(summary)?.entries, args.json, out);
    }
    if let Some(number) = &args.sent.request {
        let requests = Requests::open(summary)?;
        let maker = sent::RequestRebuilder::from_requests(environment, cwd, &requests)?;
        return show::request(&maker, &requests.entries, number, args, out);
    }
    let mut reading = LoadedSession::open(environment, summary)?;
    let filled = reading.context_fill(args.context_window, None, args.exact);
    if args.json {
        let ContextFill { spans, texts, budget, assumed, usable, sum, .. } = filled;
        let window = budget.window;
        let body = json!({
            "session": reading.summary.id, "title": reading.summary.title, "model": reading.model,
            "window": window, "window_assumed": assumed, "usable": usable, "tokens": sum, "exact": args.exact,
            "generation": reading.view.context().generation,
            "spans": spans.iter().zip(&texts).map(|(s, t)| row(s, t)).collect::<Vec<_>>(),
        });
        return write(out, &format!("{body}\n"));
    }
    print(&reading, &filled, out)
}

fn print(reading: &LoadedSession, filled: &ContextFill, out: &mut dyn Write) -> Result<(), Failure> {
    let ContextFill { spans, texts, budget, assumed, usable, sum, exact } = filled;
    let (window, assumed, usable, sum, exact) = (budget.window, *assumed, *usable, *sum, *exact);
    let share = |n: u64| if usable == 0 { 0.0 } else { 100.0 * n as f64 / usable as f64 };
    let how = if exact { "counted" } else { "estimated" };
    write(
        out,
        &format!(
            "{}  {}\nmodel {}  window {}{}  usable {}  in use {} ({:.0} %, {how})\n\n",
            reading.summary.id,
            one_line(reading.summary.label(), 60),
            reading.model.as_deref().unwrap_or("unknown"),
            short(window),
            if assumed { " (assumed, because this model is unknown; context.window sets it)" } else { "" },
            short(usable),
            short(sum),
            share(sum),
        ),
    )?;
    let mut categories: BTreeMap<SpanKind, (u64, u64)> = BTreeMap::new();
    for span in spans {
        let (count, tokens) = categories.entry(span.kind).or_default();
        *count += 1;
        *tokens += span.tokens.0;
    }
    for (kind, (count, tokens)) in &categories {
        // A context that is larger than the window fills the whole bar.
        let bar = "█".repeat((share(*tokens).min(100.0) / 2.5).round() as usize);
        write(out, &format!("{:<13} {:>7}  {:>4}×  {bar}\n", name(*kind), short(*tokens), count))?;
    }
    write(out, "\n   seq  tokens  what\n")?;
    for (span, text) in spans.iter().zip(texts) {
        let seq = span.seq.map_or_else(|| "-".to_owned(), |s| s.to_string());
        let applied =
            if span.applied.is_empty() { String::new() } else { format!("  [{}]", span.applied.join(", ")) };
        write(
            out,
            &format!(
                "{seq:>6}  {:>6}  {} {}: {}{applied}\n",
                short(span.tokens.0),
                name(span.kind),
                one_line(&span.label, 40),
                one_line(text, 70)
            ),
        )?;
    }
    for bad in &reading.damaged_records {
        write(out, &format!("unreadable record (kept): {bad}\n"))?;
    }
    Ok(())
}

fn row(span: &Span, text: &str) -> Value {
    let mut row = serde_json::to_value(span).unwrap_or_default();
    row["preview"] = json!(one_line(text, 200));
    row
}

/// Returns the text of each span, in the same order.
fn texts(view: &mut View, tools: &[ToolSpec]) -> Vec<String> {
    let context = view.context();
    let mut out: Vec<String> = context.system.iter().map(|s| s.to_string()).collect();
    out.extend(tools.iter().map(|t| format!("{} {}", t.description, t.input_schema)));
    for message in &context.messages {
        out.extend(message.message.parts.iter().map(sent::text_of));
    }
    out
}

pub(crate) fn name(kind: SpanKind) -> String {
    serde_json::to_value(kind).ok().and_then(|v| v.as_str().map(|s| s.replace('_', " "))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaled_spans_add_up_to_the_size_that_is_known() {
        let span = |tokens| Span {
            kind: SpanKind::User,
            label: String::new(),
            seq: None,
            bytes: 0,
            tokens: becket_types::Tokens(tokens),
            blob: None,
            applied: Vec::new(),
        };
        for (tokens, used) in [(vec![1, 2, 3, 4], 7), (vec![100, 0, 50], 1_000), (vec![], 5), (vec![0], 5)] {
            let sum = tokens.iter().sum();
            let spans: Vec<Span> = tokens.iter().copied().map(span).collect();
            let budget = Budget { window: 20, input_limit: 20, max_output: 5 };
            let texts = Vec::new();
            let mut filled =
                ContextFill { spans, texts, budget, assumed: false, usable: 10, sum, exact: false };
            filled.scale_to(used);
            let all: u64 = filled.spans.iter().map(|span| span.tokens.0).sum();
            assert_eq!((all, filled.sum), if sum == 0 { (0, 0) } else { (used, used) });
        }
    }
}
