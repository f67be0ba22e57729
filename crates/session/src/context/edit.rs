//! Manual changes to the context: dropping, collapsing, pinning or restoring items. A change is planned on a
//! copy, shown, and can be undone.
//!
//! A change is one commit: `revert`, `prune`, `pin` or `restore` entries, and a notice that names them, so
//! that undo knows which entries belong together. Nothing is deleted. Planning changes nothing; a plan is
//! valid until an entry is appended.

use super::rewind::{MessageReverts, RevertedBy};
use super::scale::ContextScale;
use super::{View, budget, prune};
use becket_types::{
    CallId, Context, ContextChange, ContextPlan, Entry, EntryKind, Message, MessageId, Millis, Origin,
    PinTarget, Prices, PruneReason, PrunedCall, Role, Seq, Tokens, Usage, quoted,
};
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Key in the notice of a change: `{op, items, entries}`. `entries`: numbers of the entries that the change consists of.
const EDIT: &str = "context_edit";
/// Keys in the notices of undo and redo: `{of, entries}`. `of`: number of the change's notice. `entries`: numbers of the reverts that undo
/// or redo it.
const UNDO: &str = "context_undo";
const REDO: &str = "context_redo";

/// The reason why a change cannot be made, and advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub why: String,
    /// Advice for the user, as part of a sentence.
    pub hint: &'static str,
}

/// A change that was computed on a copy of the view.
#[derive(Clone, Debug)]
pub struct Edit {
    /// The plan for display.
    pub plan: ContextPlan,
    kinds: Vec<EntryKind>,
    change: &'static str,
    /// For an undo or redo: the number of the notice of the change.
    reversed_notice: Option<Seq>,
}

impl Edit {
    /// Returns the entries of the change with its notice. `last` is the newest entry of the ledger, after which they are appended.
    pub fn into_entries(self, last: Seq) -> Vec<EntryKind> {
        let entries: Vec<u64> = (1..=self.kinds.len() as u64).map(|n| last.0 + n).collect();
        let (key, value) = match self.change {
            "undo" => (UNDO, json!({ "of": self.reversed_notice, "entries": entries })),
            "redo" => (REDO, json!({ "of": self.reversed_notice, "entries": entries })),
            op => (EDIT, json!({ "op": op, "items": self.plan.items, "entries": entries })),
        };
        let mut extra = Map::new();
        extra.insert(key.to_owned(), value);
        let mut kinds = self.kinds;
        kinds.push(EntryKind::Notice { text: self.plan.what, extra });
        kinds
    }
}

/// Plans `change` for a view that was computed from `entries`.
///
/// `scale`: converts base estimates to the sizes that people see of the present context.
///
/// # Errors
///
/// Fails if the change names no existing item, or an item that must stay.
pub fn plan(
    view: &mut View,
    entries: &[Entry],
    change: &ContextChange,
    scale: ContextScale,
    prices: Option<Prices>,
) -> Result<Edit, Refused> {
    let (kinds, what, of) = match change {
        ContextChange::Drop { items } => {
            let kinds = drop_items(view, &chosen(view, items)?)?;
            let what = format!("Left out of the context by hand: {}.", counted(kinds.len(), "message"));
            (kinds, what, None)
        }
        ContextChange::Collapse { items } => {
            let kinds = collapse(view, &chosen(view, items)?)?;
            (kinds, "Outputs shortened to stubs by hand.".to_owned(), None)
        }
        ContextChange::Pin { items } => {
            let kinds = pin(&chosen(view, items)?);
            let what = format!("Pinned: {}.", counted(kinds.len(), "item"));
            (kinds, what, None)
        }
        ContextChange::Restore { items } => {
            let kinds = restore(entries, view, items)?;
            (kinds, "Brought back messages that a compaction had removed.".to_owned(), None)
        }
        ContextChange::Undo => undo(entries)?,
        ContextChange::Redo => redo(entries)?,
    };
    let effect = effect(view, entries, &kinds, scale);
    let (usd_once, usd_saved_per_request) = costs(&effect, prices).unzip();
    let plan = ContextPlan {
        plan: 0,
        what,
        items: change.items().to_vec(),
        tokens_before: effect.before,
        tokens_after: effect.after,
        messages: effect.messages as u64,
        messages_unchanged: effect.same as u64,
        tokens_resent: effect.resent,
        usd_once,
        usd_saved_per_request,
    };
    Ok(Edit { plan, kinds, change: change.name(), reversed_notice: of })
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn refused<T>(why: impl Into<String>, hint: &'static str) -> Result<T, Refused> {
    Err(Refused { why: why.into(), hint })
}

fn queries(list: &[String]) -> impl Iterator<Item = &str> {
    list.iter().flat_map(|text| text.split(',')).map(str::trim).filter(|query| !query.is_empty())
}

fn chosen(view: &View, list: &[String]) -> Result<Vec<Item>, Refused> {
    let mut items = Vec::new();
    for query in queries(list) {
        items.extend(find(view, query)?);
    }
    Ok(items)
}

/// An item that a change names: a message, or one call of a message.
enum Item {
    Message(Arc<Message>),
    Call(CallId),
}

/// Returns the newest undo of a compaction that can be redone, and the compaction. A rewind or a new compaction discards all earlier undos.
/// A compaction that is older than the drop of one of its messages cannot be redone, because its summary may still mention the message.
fn undone_compaction(view: &View, entries: &[Entry]) -> Option<(Seq, Seq)> {
    let reverts = reverts_of(entries);
    let mut compactions = HashSet::new();
    let mut undos: Vec<(Seq, Seq)> = Vec::new();
    let mut dropped: Vec<(Seq, Seq)> = Vec::new();
    for entry in entries {
        match entry.kind {
            EntryKind::Compaction(_) => {
                // A new compaction discards older undos: a redo would put an older compaction on top of it.
                undos.clear();
                compactions.insert(entry.seq);
            }
            EntryKind::Revert { entry: target } if compactions.contains(&target) => {
                undos.push((entry.seq, target));
            }
            EntryKind::Revert { entry: target } => {
                undos.retain(|(undo, _)| *undo != target);
                match reverts.reverted_by(entry) {
                    Some(RevertedBy::Rewind(_)) => undos.clear(),
                    Some(RevertedBy::Change(message)) => dropped.push((entry.seq, message)),
                    None => {}
                }
            }
            _ => {}
        }
    }
    let (undo, compaction) = undos.pop()?;
    let tells_of_dropped = dropped
        .iter()
        .any(|(revert, message)| *message < compaction && *revert > compaction && view.is_reverted(*message));
    (!tells_of_dropped).then_some((undo, compaction))
}

/// Returns the compaction that [`redo_compaction`] would redo.
pub fn redoable_compaction(view: &View, entries: &[Entry]) -> Option<Seq> {
    undone_compaction(view, entries).map(|(_, compaction)| compaction)
}

/// Returns the entries that redo the newest undone compaction, and the entry of that compaction. Messages
/// pinned since its undo are pinned again afterwards, because no compaction removes a pin.
pub fn redo_compaction(view: &View, entries: &[Entry]) -> Option<(Vec<EntryKind>, Seq)> {
    let (undo, compaction) = undone_compaction(view, entries)?;
    let mut kinds = vec![EntryKind::Revert { entry: undo }];
    let next = view_with(view, entries, &kinds);
    let (missed, calls) = (view.lost_pins(), view.lost_pinned_calls());
    let mut messages = next.lost_pins();
    messages.retain(|id| !missed.contains(id));
    let lost: HashSet<CallId> =
        next.lost_pinned_calls().into_iter().filter(|id| !calls.contains(id)).collect();
    messages.extend(entries.iter().filter_map(|entry| match &entry.kind {
        EntryKind::Message { message } if message.result_of().is_some_and(|id| lost.contains(id)) => {
            Some(message.id)
        }
        _ => None,
    }));
    if !messages.is_empty() {
        kinds.push(EntryKind::Restore { messages });
    }
    Some((kinds, compaction))
}

/// Finds the items that a person names: `12`, `12-15`, a call id, the beginning of a message id.
fn find(view: &View, query: &str) -> Result<Vec<Item>, Refused> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let range = match query.split_once('-') {
        Some((a, b)) => number(a).zip(number(b)),
        None => number(query).map(|n| (n, n)),
    };
    let mut found: Vec<Item> = Vec::new();
    if let Some((from, to)) = range {
        let within = view.live().filter(|m| (from..=to).contains(&m.seq.0));
        found.extend(within.map(|m| Item::Message(Arc::clone(m))));
    }
    if found.is_empty() {
        let id = CallId::from(query);
        let calls = view.live().any(|m| m.call_ids().any(|c| *c == id));
        found.extend(calls.then_some(Item::Call(id)));
    }
    if found.is_empty() && query.len() >= 4 {
        let mut by_id = view.live().filter(|m| m.id.to_string().starts_with(query));
        if let (Some(message), None) = (by_id.next(), by_id.next()) {
            found.push(Item::Message(Arc::clone(message)));
        }
    }
    if found.is_empty() {
        let compaction =
            view.compaction().filter(|(seq, _)| range.is_some_and(|(a, b)| (a..=b).contains(&seq.0)));
        let hint = match compaction {
            Some(_) => "the summary is undone as a whole: becket compact SESSION --undo",
            None => "becket context SESSION lists the items with their numbers",
        };
        return refused(
            format!("the context holds no item {query} that can be changed", query = quoted(&query)),
            hint,
        );
    }
    Ok(found)
}

/// Returns all messages that must be changed together with an item: an answer with calls, and all results of these calls.
fn messages_of_item(view: &View, item: &Item) -> Vec<Arc<Message>> {
    let calls: HashSet<&CallId> = match item {
        Item::Call(id) => HashSet::from([id]),
        Item::Message(m) => m.call_ids().chain(m.result_of()).collect(),
    };
    if let (Item::Message(message), true) = (item, calls.is_empty()) {
        return vec![Arc::clone(message)];
    }
    let asked = view.live().find(|m| m.role == Role::Assistant && m.call_ids().any(|id| calls.contains(id)));
    let all: HashSet<&CallId> = asked.map_or(calls, |m| m.call_ids().collect());
    let belongs = |m: &&Arc<Message>| m.call_ids().chain(m.result_of()).any(|id| all.contains(id));
    view.live().filter(belongs).cloned().collect()
}

fn drop_items(view: &View, items: &[Item]) -> Result<Vec<EntryKind>, Refused> {
    let mut out = BTreeSet::new();
    let last = view.live().rev().find(|m| m.is_user_turn()).map(|m| m.id);
    for message in items.iter().flat_map(|item| messages_of_item(view, item)) {
        if Some(message.id) == last || message.metadata.compaction_continue {
            let why =
                format!("message {} cannot be dropped, because the model is working on it", message.seq);
            return refused(why, "to go back to before it: /rewind, or becket rewind");
        }
        if view.is_pinned(&message.id) || message.result_of().is_some_and(|id| view.is_call_pinned(id)) {
            let why = format!("message {} is pinned", message.seq);
            return refused(why, "undo the pin first");
        }
        out.insert(message.seq);
    }
    Ok(out.into_iter().map(|entry| EntryKind::Revert { entry }).collect())
}

fn collapse(view: &View, items: &[Item]) -> Result<Vec<EntryKind>, Refused> {
    let (mut calls, mut media, mut freed) = (Vec::new(), Vec::new(), Tokens(0));
    for message in items.iter().flat_map(|item| messages_of_item(view, item)) {
        for (at, part) in message.parts.iter().enumerate() {
            let Some(call) = prune::describe(part) else {
                if part.is_media() && message.role == Role::User {
                    media.push((message.id, at as u32));
                }
                continue;
            };
            if !view.is_pruned(&call.call_id) && !calls.iter().any(|c: &PrunedCall| c.call_id == call.call_id)
            {
                freed += budget::estimate_part(part);
                calls.push(call);
            }
        }
    }
    if calls.is_empty() && media.is_empty() {
        return refused(
            "there is no output, image or file in these items that is not a stub already",
            "text can be dropped",
        );
    }
    Ok(vec![EntryKind::Prune {
        calls,
        media,
        cuts: Vec::new(),
        freed_tokens: freed,
        reason: PruneReason::Manual,
    }])
}

fn pin(items: &[Item]) -> Vec<EntryKind> {
    let target = |item: &Item| match item {
        Item::Call(id) => PinTarget::Call(id.clone()),
        Item::Message(m) => m.result_of().map_or(PinTarget::Message(m.id), |id| PinTarget::Call(id.clone())),
    };
    items.iter().map(|item| EntryKind::Pin { target: target(item) }).collect()
}

/// Restores messages that a compaction removed, by number, range of numbers, start of an id, or id of a call.
fn restore(entries: &[Entry], view: &View, list: &[String]) -> Result<Vec<EntryKind>, Refused> {
    let live: HashSet<MessageId> = view.live().map(|m| m.id).collect();
    let repeated: HashSet<MessageId> =
        view.compaction().map(|(_, c)| c.retained.taken_out.iter().copied().collect()).unwrap_or_default();
    let gone = |m: &Message| {
        !live.contains(&m.id) && !repeated.contains(&m.id) && !matches!(m.origin, Origin::Synthetic(_))
    };
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let mut messages = Vec::new();
    for query in queries(list) {
        let range = match query.split_once('-') {
            Some((a, b)) => number(a).zip(number(b)),
            None => number(query).map(|n| (n, n)),
        };
        let fits = |entry: &Entry, message: &Message| {
            range.is_some_and(|(a, b)| (a..=b).contains(&entry.seq.0))
                || (query.len() >= 4 && message.id.to_string().starts_with(query))
                || message.call_ids().chain(message.result_of()).any(|id| id.as_str() == query)
        };
        let found = messages.len();
        messages.extend(entries.iter().filter_map(|entry| match &entry.kind {
            EntryKind::Message { message }
                if fits(entry, message) && gone(message) && !view.is_reverted(entry.seq) =>
            {
                Some(message.id)
            }
            _ => None,
        }));
        if messages.len() == found {
            let why = format!("no message {query} was removed by a compaction", query = quoted(&query));
            return refused(why, "becket compact SESSION --removed lists the removed ones");
        }
    }
    Ok(vec![EntryKind::Restore { messages }])
}

/// Returns the entry numbers in the list `entries` of a notice; `None` if the notice does not have this key.
fn named(extra: &Map<String, Value>, key: &str) -> Option<Vec<Seq>> {
    let list = extra.get(key)?.get("entries")?.as_array()?;
    Some(list.iter().filter_map(Value::as_u64).map(Seq).collect())
}

/// Returns the entry numbers in the notice of a manual change, its undo or its redo; empty for any other entry.
pub(crate) fn entries_of_manual_change(kind: &EntryKind) -> Vec<Seq> {
    let EntryKind::Notice { extra, .. } = kind else { return Vec::new() };
    [EDIT, UNDO, REDO].iter().find_map(|key| named(extra, key)).unwrap_or_default()
}

/// Collects the reverts in these entries, and marks those that belong to manual changes.
fn reverts_of(entries: &[Entry]) -> MessageReverts {
    MessageReverts::of(
        entries,
        entries.iter().flat_map(|entry| entries_of_manual_change(&entry.kind)).collect(),
    )
}

/// A manual change: the number of its notice, its description, and the numbers of its entries. [`changes`] separates changes in force from
/// undone ones.
type Change = (Seq, String, Vec<Seq>);

/// Returns the changes in force, and those that can be redone, each with the entries of its undo. A rewind restores the list of changes
/// that were in force before its prompt, and discards everything that could be redone.
fn changes(entries: &[Entry]) -> (Vec<Change>, Vec<(Change, Vec<Seq>)>) {
    let reverts = reverts_of(entries);
    let (mut made, mut undone): (Vec<Change>, Vec<(Change, Vec<Seq>)>) = (Vec::new(), Vec::new());
    // For each entry that altered the list of changes in force: the list after it.
    let mut states: Vec<(Seq, Vec<Change>)> = Vec::new();
    for entry in entries {
        if let Some(RevertedBy::Rewind(prompt)) = reverts.reverted_by(entry) {
            let before = states.iter().rev().find(|(seq, _)| *seq < prompt);
            made = before.map(|(_, made)| made.clone()).unwrap_or_default();
            undone.clear();
        } else {
            let EntryKind::Notice { text, extra } = &entry.kind else { continue };
            if let Some(list) = named(extra, EDIT) {
                made.push((entry.seq, text.clone(), list));
                undone.clear();
            } else if let Some(list) = named(extra, UNDO) {
                undone.extend(made.pop().map(|change| (change, list)));
            } else if named(extra, REDO).is_some() {
                made.extend(undone.pop().map(|(change, _)| change));
            } else {
                continue;
            }
        }
        states.push((entry.seq, made.clone()));
    }
    (made, undone)
}

/// Result of an undo or redo: entries to append, a description, and the number of the change's notice.
type Reversal = (Vec<EntryKind>, String, Option<Seq>);

fn undo(entries: &[Entry]) -> Result<Reversal, Refused> {
    let Some((of, text, list)) = changes(entries).0.pop() else {
        return refused(
            "there is no change of the context to undo",
            "to undo a compaction: /compact undo, or becket compact --undo",
        );
    };
    let kinds = list.into_iter().rev().map(|entry| EntryKind::Revert { entry }).collect();
    Ok((kinds, format!("Undone: {text}"), Some(of)))
}

fn redo(entries: &[Entry]) -> Result<Reversal, Refused> {
    let Some(((of, text, _), list)) = changes(entries).1.pop() else {
        return refused(
            "there is no undone change of the context to redo",
            "only an undone change can be redone",
        );
    };
    let kinds = list.into_iter().rev().map(|entry| EntryKind::Revert { entry }).collect();
    Ok((kinds, format!("Redone: {text}"), Some(of)))
}

/// Effect of a change: sizes before and after, and the first message that differs.
struct Effect {
    before: Tokens,
    after: Tokens,
    /// Number of messages at the start that stay the same.
    same: usize,
    messages: usize,
    /// Tokens from that message on, after the change. A provider has to read them again without its cache.
    resent: Tokens,
}

/// Computes a view like this one from all entries plus these additional ones.
fn view_with(view: &View, entries: &[Entry], kinds: &[EntryKind]) -> View {
    let mut next = View::fold(view.policy().clone(), view.scope().clone(), entries);
    for kind in kinds {
        let seq = Seq(next.last_seq().0.max(view.last_seq().0) + 1);
        next.apply(&Entry { seq, time: Millis(0), kind: kind.clone() });
    }
    next
}

fn effect(view: &mut View, entries: &[Entry], kinds: &[EntryKind], scale: ContextScale) -> Effect {
    let before = view.context().clone();
    let base_before = view.estimated_tokens();
    let mut next = view_with(view, entries, kinds);
    let after = next.context().clone();
    let same = common_prefix_len(&before, &after);
    // Tools are in neither estimate. So the total changes by the difference of the two views.
    let (total, base_after) = (scale.total(), next.estimated_tokens().0);
    let less = scale.scaled(Tokens(base_before.0.saturating_sub(base_after)));
    let more = scale.scaled(Tokens(base_after.saturating_sub(base_before.0)));
    Effect {
        before: total,
        after: Tokens((total.0 + more.0).saturating_sub(less.0)),
        same,
        messages: before.messages.len(),
        resent: scale.scaled(after.messages[same..].iter().map(|m| m.tokens).sum()),
    }
}

fn common_prefix_len(before: &Context, after: &Context) -> usize {
    before.messages.iter().zip(&after.messages).take_while(|(a, b)| a.message == b.message).count()
}

/// Returns the cost in dollars that the next request has in addition, because the changed part is not cached, and the saving in dollars of
/// each later request.
fn costs(effect: &Effect, prices: Option<Prices>) -> Option<(f64, f64)> {
    let prices = prices?;
    let behind = effect.resent.0;
    let fresh = prices.cost(&Usage { cache_write: behind, ..Usage::default() }).0;
    let cached = prices.cost(&Usage { cache_read: behind, ..Usage::default() }).0;
    let saved = effect.before.0.saturating_sub(effect.after.0);
    let each = prices.cost(&Usage { cache_read: saved, ..Usage::default() }).0;
    Some((fresh - cached, each))
}
