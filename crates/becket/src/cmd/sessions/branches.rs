//! Sessions as branches: fork at a message, show the tree, compare two sessions. `becket --resume` switches to one.

use super::{query_index, write};
use crate::args::SessionsWhat;
use crate::cmd::context::LoadedSession;
use crate::cmd::undo;
use crate::cmd::{count, fork_title, one_line, pick_session, short, store_failure, when};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::models::info;
use becket_session::index::Query;
use becket_session::store::SessionSummary;
use becket_session::{CreateOptions, Durability, Session};
use becket_types::{Entry, EntryKind, Message, MessageId, Seq, SessionId, Usage, quoted};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

/// Maximum number of messages of one side that are shown.
const MAX_LISTED: usize = 20;

pub(super) fn run(
    environment: &Environment,
    cwd: &Path,
    what: &SessionsWhat,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    match what {
        SessionsWhat::Fork { session, message, name, json } => {
            fork(environment, cwd, session, message.as_deref(), name.as_deref(), *json, out)
        }
        SessionsWhat::Tree { all, json } => tree(environment, (!all).then_some(cwd), *json, out),
        SessionsWhat::Compare { one, other, json } => {
            let read = |query: &String| {
                LoadedSession::open(environment, pick_session(environment, cwd, Some(query))?)
            };
            let (one, other) = (read(one)?, read(other)?);
            let (first, second) = (one.all_entries()?, other.all_entries()?);
            // A fork has the entries of its source, except the first one, which names its own session.
            let same = first.iter().zip(&second).skip(1).take_while(|(a, b)| a == b).count() + 1;
            compare(&Side::new(one, first, same), &Side::new(other, second, same), *json, out)
        }
        _ => Ok(()),
    }
}

fn fork(
    environment: &Environment,
    cwd: &Path,
    session: &str,
    message: Option<&str>,
    name: Option<&str>,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let summary = pick_session(environment, cwd, Some(session))?;
    if name.is_some_and(|name| one_line(name, 200).is_empty()) {
        return Err(Failure::usage("a name needs a letter"));
    }
    let reading = LoadedSession::open(environment, summary.clone())?;
    let end = reading.view.last_seq();
    let upto = message.map(|query| entry_before(&summary, end, query)).transpose()?;
    let title = name.map_or_else(|| fork_title(&summary), str::to_owned);
    let copy = fork_at(environment, cwd, &reading, upto, &title)?;
    let (_, at) = copy.info().forked_from.unwrap_or_default();
    if as_json {
        let from = json!({ "session": summary.id, "seq": at });
        let body = json!({ "session": copy.id(), "title": title, "forked_from": from });
        return write(out, &format!("{body}\n"));
    }
    let text = format!(
        "Forked. The copy is session {} ({title}), with the first {at} entries of {}.\nTo continue it: becket --resume {}\n",
        copy.id(),
        summary.id,
        copy.id()
    );
    write(out, &text)
}

/// Makes a fork of a session on disk, with its first entries up to `upto` or all.
pub(crate) fn fork_at(
    environment: &Environment,
    cwd: &Path,
    reading: &LoadedSession,
    upto: Option<Seq>,
    title: &str,
) -> Result<Session, Failure> {
    let summary = &reading.summary;
    let policy = reading.view.policy().clone();
    let options = CreateOptions {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        persist: true,
        ..CreateOptions::default()
    };
    let scope = becket_agent::scope(&info(reading.model.as_deref(), &reading.models));
    let project = if summary.cwd.is_dir() { summary.cwd.clone() } else { cwd.to_path_buf() };
    let root = environment.sessions_dir();
    let mut copy =
        Session::fork(&summary.dir, upto, &root, &project, options, policy, scope).map_err(store_failure)?;
    copy.append(vec![EntryKind::Title { title: title.to_owned() }], Durability::Synced)
        .map_err(store_failure)?;
    if !copy.flush() || !copy.is_persistent() {
        return Err(Failure::error("the fork cannot be written"));
    }
    Ok(copy)
}

/// Returns the last entry before the message that the query names. `@N` is entry N itself.
pub(crate) fn entry_before(summary: &SessionSummary, end: Seq, query: &str) -> Result<Seq, Failure> {
    if let Some(number) = query.strip_prefix('@') {
        let place = number.parse().ok().map(Seq).filter(|seq| (Seq(1)..=end).contains(seq));
        return place.ok_or_else(|| {
            Failure::usage(format!("{query} is not an entry of this session", query = quoted(&query)))
                .hint(format!("its entries are @1 to @{end}"))
        });
    }
    let prompts = undo::prompts(summary)?;
    let found = undo::choose(&prompts, query)?;
    Ok(Seq(found.seq.0.saturating_sub(1)))
}

fn tree(
    environment: &Environment,
    project: Option<&Path>,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let query = Query { project, archived: true, limit: usize::MAX >> 1, ..Query::default() };
    let all = query_index(environment, |index| index.sessions(&query))?;
    let mut children: BTreeMap<SessionId, Vec<&SessionSummary>> = BTreeMap::new();
    let known: HashSet<SessionId> = all.iter().map(|s| s.id).collect();
    let above = |s: &SessionSummary| above(s).filter(|id| known.contains(id) && *id != s.id);
    for session in &all {
        if let Some(from) = above(session) {
            children.entry(from).or_default().push(session);
        }
    }
    let roots = all.iter().filter(|s| above(s).is_none());
    if as_json {
        let rows: Vec<Value> = all
            .iter()
            .map(|s| {
                let from = s.forked_from.map(|(id, seq)| json!({ "session": id, "seq": seq }));
                let branches: Vec<SessionId> =
                    children.get(&s.id).map(|list| list.iter().map(|c| c.id).collect()).unwrap_or_default();
                json!({ "id": s.id, "title": s.label(), "updated": s.ledger.updated, "forked_from": from, "subagent_of": s.subagent_of(), "branches": branches })
            })
            .collect();
        return write(out, &format!("{}\n", Value::Array(rows)));
    }
    let mut text = String::new();
    for root in roots {
        branch(root, &children, 0, &mut text);
    }
    if text.is_empty() {
        text.push_str("There is no session yet.\n");
    }
    write(out, &text)
}

/// Returns the session that this one was forked from, or that its subagent works for.
fn above(session: &SessionSummary) -> Option<SessionId> {
    session.forked_from.map(|(from, _)| from).or_else(|| session.subagent_of().map(|of| of.session))
}

fn branch(
    session: &SessionSummary,
    children: &BTreeMap<SessionId, Vec<&SessionSummary>>,
    depth: usize,
    text: &mut String,
) {
    let from = match (session.forked_from, session.subagent_of()) {
        (Some((_, seq)), _) => format!(" at entry {seq}"),
        (None, Some(of)) => format!(" (subagent: {})", one_line(&of.agent, 30)),
        (None, None) => String::new(),
    };
    let sign = if depth == 0 { String::new() } else { format!("{}└ ", "  ".repeat(depth)) };
    let _ = writeln!(
        text,
        "{sign}{}  {}  {}{from}",
        session.id,
        when(session.ledger.updated),
        one_line(session.label(), 60)
    );
    // A fork or subagent is always younger than its parent, so the recursion ends.
    for child in children.get(&session.id).into_iter().flatten() {
        branch(child, children, depth + 1, text);
    }
}

/// One of the two compared sessions.
struct Side {
    summary: SessionSummary,
    messages: Vec<Message>,
    total: Spent,
    /// Usage of the entries that only this session has.
    unshared: Spent,
    /// Files that were changed since the sessions diverged.
    files: BTreeSet<String>,
}

#[derive(Default)]
struct Spent {
    tokens: u64,
    cost: f64,
}

impl Spent {
    fn add(&mut self, usage: Usage, cost: f64) {
        self.tokens += usage.total().0;
        self.cost += cost;
    }
}

impl Side {
    /// `same`: the number of entries that both sessions share.
    fn new(reading: LoadedSession, entries: Vec<Entry>, same: usize) -> Self {
        let mut side = Self {
            summary: reading.summary,
            messages: Vec::new(),
            total: Spent::default(),
            unshared: Spent::default(),
            files: BTreeSet::new(),
        };
        for (at, entry) in entries.into_iter().enumerate() {
            match entry.kind {
                EntryKind::Message { mut message }
                    if message.visibility().user && !reading.view.is_reverted(entry.seq) =>
                {
                    message.seq = entry.seq;
                    side.messages.push(message);
                }
                EntryKind::Part { message, part } => {
                    if let Some(found) = side.messages.iter_mut().rev().find(|m| m.id == message) {
                        found.parts.push(part);
                    }
                }
                EntryKind::FileChanges(changes) if at >= same => {
                    side.files.extend(changes.files.iter().map(|f| f.path.0.display().to_string()));
                }
                EntryKind::Usage { usage, cost_usd, .. } => {
                    side.total.add(usage, cost_usd);
                    if at >= same {
                        side.unshared.add(usage, cost_usd);
                    }
                }
                _ => {}
            }
        }
        side
    }

    fn only(&self, shared: &HashSet<MessageId>) -> Vec<&Message> {
        self.messages.iter().filter(|m| !shared.contains(&m.id)).collect()
    }

    fn json(&self, shared: &HashSet<MessageId>) -> Value {
        let only: Vec<Value> = self
            .only(shared)
            .iter()
            .map(|m| json!({ "seq": m.seq, "id": m.id, "role": m.role, "preview": first_words(m) }))
            .collect();
        json!({
            "session": self.summary.id, "title": self.summary.label(), "messages": only,
            "files": self.files, "tokens": self.total.tokens, "cost_usd": self.total.cost,
            "own_tokens": self.unshared.tokens, "own_cost_usd": self.unshared.cost,
        })
    }
}

fn first_words(message: &Message) -> String {
    let text: Vec<String> = message.parts.iter().map(crate::cmd::context::text_of).collect();
    one_line(&text.join(" "), 90)
}

fn compare(one: &Side, other: &Side, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let ids = |side: &Side| -> HashSet<MessageId> { side.messages.iter().map(|m| m.id).collect() };
    let shared: HashSet<MessageId> = ids(one).intersection(&ids(other)).copied().collect();
    let last = one.messages.iter().filter(|m| shared.contains(&m.id)).map(|m| m.seq).max();
    if as_json {
        let body = json!({
            "shared_messages": shared.len(), "shared_up_to": last,
            "one": one.json(&shared), "other": other.json(&shared),
        });
        return write(out, &format!("{body}\n"));
    }
    let mut text = match last {
        Some(seq) => format!("They share {}, up to entry {seq}.\n", count(shared.len(), "message")),
        None => "They share no message.\n".to_owned(),
    };
    for (side, against) in [(one, other), (other, one)] {
        let only = side.only(&shared);
        let _ = writeln!(
            text,
            "\n{}  {}\n  {} of its own, with {} tokens, ${:.4}; {} tokens, ${:.4} in all",
            side.summary.id,
            one_line(side.summary.label(), 60),
            count(only.len(), "message"),
            short(side.unshared.tokens),
            side.unshared.cost,
            short(side.total.tokens),
            side.total.cost
        );
        for message in only.iter().take(MAX_LISTED) {
            let role = serde_json::to_value(message.role).ok();
            let role = role.as_ref().and_then(Value::as_str).unwrap_or_default();
            let _ = writeln!(text, "  {:>6}  {role:<9}  {}", message.seq, first_words(message));
        }
        if only.len() > MAX_LISTED {
            let _ = writeln!(text, "  … and {} more", only.len() - MAX_LISTED);
        }
        for file in side.files.iter().take(MAX_LISTED) {
            let by = if against.files.contains(file) { "in both, each for itself" } else { "here only" };
            let _ = writeln!(text, "  changed {by}: {file}");
        }
        if side.files.len() > MAX_LISTED {
            let _ = writeln!(text, "  … and {} more files", side.files.len() - MAX_LISTED);
        }
    }
    write(out, &becket_print::clean(&text))
}
