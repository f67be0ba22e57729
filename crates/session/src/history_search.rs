//! Searching the part of a session that the model no longer sees, ranked by relevance.
//!
//! Each text part, call and output is a *text*, divided into *passages* of a few lines. A text is ranked by
//! its best passage with BM25: rare words count most, and a fact in a long log is found as well as one in a
//! short message. Words elsewhere in the same text count half. The ledger is read once from its start,
//! including stored whole outputs.
//!
//! Not searched: content that the view shows, content that is not for people (summaries, continuations,
//! reminders, rules), reverted or manually dropped content, reasoning, and outputs of `recall` itself.
//!
//! The full text index is not used. It contains only the first 8 kB of an output, nothing of stored whole
//! outputs, and it is never opened while a session is written.

use crate::StoreError;
use crate::context::continuation::{is_replay, is_users_words};
use crate::context::{View, VisibleContent, input, repair};
use crate::ledger::{Item, Reader};
use becket_types::{
    BlobId, Blobs, CallId, Entry, EntryKind, Message, MessageId, Part, RecallMatch, RecallMatches, Role, Seq,
};
use memchr::memmem::Finder;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::BufRead;
use std::sync::Arc;

/// The tool whose outputs are copies of earlier content.
const RECALL: &str = "recall";
/// Parameters of BM25: `K` for the weight of repetitions (the usual value), `B` for the influence of the length (less than usual, because
/// passages are short anyway and the shortest are seldom informative).
const K: f64 = 1.2;
const B: f64 = 0.3;
/// Weight of a word elsewhere in the text, relative to a word in the best passage.
const OUTSIDE_PASSAGE_WEIGHT: f64 = 0.5;
/// Size of a passage in bytes. A match shows one passage.
const PASSAGE: usize = 400;
/// Maximum number of words of a query that count.
const WORDS: usize = 16;
/// Maximum number of candidates in memory. If it is exceeded, only the best [`STAY`] stay.
const POOL: usize = 4_000;
const STAY: usize = 1_000;

/// The history of a session at one moment. The session may continue meanwhile.
pub struct HistorySearch {
    reader: Reader<Box<dyn BufRead + Send>>,
    shown: VisibleContent,
    blobs: Arc<dyn Blobs>,
}

impl fmt::Debug for HistorySearch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HistorySearch").field("shown", &self.shown).finish_non_exhaustive()
    }
}

impl HistorySearch {
    pub(crate) fn new(reader: Reader<Box<dyn BufRead + Send>>, view: &View, blobs: Arc<dyn Blobs>) -> Self {
        Self { reader, shown: view.visible_content(), blobs }
    }

    /// Returns the best `limit` matches for `query`; none if it has no word. Content that the model already
    /// sees is excluded.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Io`] if the ledger cannot be read. Damaged records are skipped.
    pub fn search(mut self, query: &str, limit: usize) -> Result<RecallMatches, StoreError> {
        let mut ranking = Ranking::new(query);
        if ranking.words.is_empty() {
            return Ok(RecallMatches::default());
        }
        // Assistant messages whose `finish` entry has not been read, so that further parts may follow.
        let mut open: HashMap<MessageId, (Seq, Role)> = HashMap::new();
        while let Some(entries) = next(&mut self.reader)? {
            for entry in entries {
                self.take(&entry, &mut open, &mut ranking);
            }
        }
        Ok(ranking.best(limit))
    }

    fn take(&self, entry: &Entry, open: &mut HashMap<MessageId, (Seq, Role)>, ranking: &mut Ranking) {
        match &entry.kind {
            EntryKind::Message { message } if self.may_show(message, entry.seq) => {
                if message.role == Role::Assistant {
                    open.insert(message.id, (entry.seq, message.role));
                }
                for part in &message.parts {
                    self.look(message.id, entry.seq, message.role, part, ranking);
                }
            }
            EntryKind::Part { message, part } => {
                if let Some((seq, role)) = open.get(message) {
                    self.look(*message, *seq, *role, part, ranking);
                }
            }
            EntryKind::Finish { message, .. } => {
                open.remove(message);
            }
            _ => {}
        }
    }

    fn may_show(&self, message: &Message, seq: Seq) -> bool {
        message.visibility().user && !self.shown.reverted.contains(&seq)
    }

    fn look(&self, message: MessageId, seq: Seq, role: Role, part: &Part, ranking: &mut Ranking) {
        let live = self.shown.messages.contains_key(&message);
        match part {
            Part::Text { text, spill: Some(spill), synthetic: false, ignored: false, .. } => {
                let visible = live.then_some(text.as_str());
                let whole = self.spilled(Some(spill));
                if whole.is_none() && live {
                    return;
                }
                let text = whole.as_ref().unwrap_or(text);
                ranking.add(text, visible, || (format!("m{seq}"), seq, author(role).to_owned()));
            }
            Part::Text { .. } | Part::ToolCall { .. } if live => {}
            Part::ToolResult { call_id, name, output, spill, .. } if name != RECALL => {
                let id = self.shown.renamed.get(&seq).unwrap_or(call_id);
                let visible = (live && !self.shown.stubs.contains(id)).then_some(output.as_str());
                let whole = self.spilled(spill.as_ref());
                let text = match (&whole, visible) {
                    (None, Some(_)) => return,
                    (Some(whole), _) => whole,
                    (None, None) => output,
                };
                ranking.add(text, visible, || (id.as_str().to_owned(), seq, format!("output of {name}")));
            }
            _ => {
                if let Some((who, text)) = author_and_text(part, role) {
                    ranking.add(&text, None, || (format!("m{seq}"), seq, who));
                }
            }
        }
    }

    /// Returns author and full text of message `seq`. `None` if the entry is no message, if people do not see it, or if it is reverted.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`HistorySearch::search`].
    pub fn message(mut self, seq: Seq) -> Result<Option<(String, String)>, StoreError> {
        let mut found: Option<Message> = None;
        while let Some(entries) = next(&mut self.reader)? {
            for entry in entries {
                match entry.kind {
                    EntryKind::Message { message } if entry.seq == seq => {
                        // The continuation repeats an unanswered prompt, so it contains the user's own words. The view shows it under the
                        // continuation's own number, and the model may ask for that number.
                        let repeated = is_replay(&message) && !self.shown.reverted.contains(&seq);
                        if !repeated && !self.may_show(&message, seq) {
                            return Ok(None);
                        }
                        found = Some(message);
                    }
                    EntryKind::Part { message, part } => {
                        if let Some(open) = found.as_mut().filter(|m| m.id == message) {
                            open.parts.push(part);
                        }
                    }
                    EntryKind::Finish { message, .. } if found.as_ref().is_some_and(|m| m.id == message) => {
                        return Ok(found.and_then(|m| self.whole(&m)));
                    }
                    _ => {}
                }
            }
            if found.as_ref().is_some_and(|m| m.role != Role::Assistant) {
                break;
            }
        }
        Ok(found.and_then(|m| self.whole(&m)))
    }

    /// Returns the user's words in the messages from `first` to `last`, each with its number, oldest first.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`HistorySearch::search`].
    pub fn users_words(mut self, first: Seq, last: Seq) -> Result<Vec<(Seq, String)>, StoreError> {
        let mut words = Vec::new();
        while let Some(entries) = next(&mut self.reader)? {
            for entry in entries.iter().filter(|entry| (first..=last).contains(&entry.seq)) {
                let EntryKind::Message { message } = &entry.kind else { continue };
                let reverted = self.shown.reverted.contains(&entry.seq);
                let is_users = is_users_words(message) && !reverted;
                if is_users && let Some((_, text)) = self.whole(message) {
                    words.push((entry.seq, text));
                }
            }
            if entries.last().is_some_and(|entry| entry.seq >= last) {
                break;
            }
        }
        Ok(words)
    }

    /// Returns the images of the message or result in entry `seq`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`HistorySearch::search`].
    pub fn images(mut self, seq: Seq) -> Result<Vec<Part>, StoreError> {
        let parts = self.message_at(seq)?.map(|message| message.parts).unwrap_or_default();
        Ok(parts.into_iter().filter(|part| matches!(part, Part::Image { .. })).collect())
    }

    /// Returns `(tool, output)` with the whole output of `call`, whose result is in entry `seq`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`HistorySearch::search`].
    pub fn output(mut self, seq: Seq, call: &CallId) -> Result<Option<(String, String)>, StoreError> {
        if let Some(call) = input::call_of(call) {
            return self.input(seq, &call);
        }
        let Some(message) = self.message_at(seq)? else { return Ok(None) };
        // A reused id is shown under another id than the ledger has.
        let is_renamed = self.shown.renamed.get(&seq) == Some(call);
        Ok(message.parts.into_iter().find_map(|part| match part {
            Part::ToolResult { call_id, name, output, spill, .. } if is_renamed || call_id == *call => {
                Some((name, self.spilled(spill.as_ref()).unwrap_or(output)))
            }
            _ => None,
        }))
    }

    /// Returns `(tool, input)` of a call of the message in entry `seq`.
    fn input(&mut self, seq: Seq, call: &CallId) -> Result<Option<(String, String)>, StoreError> {
        let of_call = |part: &Part| match part {
            // A reused id is shown with a number at its end.
            Part::ToolCall { call_id, name, input, .. }
                if call_id == call || call.as_str().starts_with(&*repair::safe_id(call_id.as_str())) =>
            {
                Some((name.clone(), input::text(input)))
            }
            _ => None,
        };
        let mut open: Option<MessageId> = None;
        while let Some(entries) = next(&mut self.reader)? {
            for entry in entries {
                let found = match entry.kind {
                    EntryKind::Message { message } if entry.seq == seq => {
                        open = Some(message.id);
                        message.parts.iter().find_map(of_call)
                    }
                    EntryKind::Part { message, part } if open == Some(message) => of_call(&part),
                    EntryKind::Finish { message, .. } if open == Some(message) => return Ok(None),
                    _ => None,
                };
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    /// Returns the message in entry `seq`, without parts that were added later. Reads only up to that entry.
    fn message_at(&mut self, seq: Seq) -> Result<Option<Message>, StoreError> {
        while let Some(entries) = next(&mut self.reader)? {
            if entries.last().is_none_or(|entry| entry.seq < seq) {
                continue;
            }
            let entry = entries.into_iter().find(|entry| entry.seq == seq);
            return Ok(entry.and_then(|entry| match entry.kind {
                EntryKind::Message { message } => Some(message),
                _ => None,
            }));
        }
        Ok(None)
    }

    fn spilled(&self, spill: Option<&BlobId>) -> Option<String> {
        let bytes = self.blobs.get(spill?)?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn whole(&self, message: &Message) -> Option<(String, String)> {
        let mut by = None;
        let mut texts = Vec::new();
        for part in &message.parts {
            let (who, text) = match part {
                Part::ToolResult { name, output, spill, .. } => {
                    let whole = self.spilled(spill.as_ref());
                    (format!("output of {name}"), whole.unwrap_or_else(|| output.clone()))
                }
                _ => match author_and_text(part, message.role) {
                    Some((who, text)) => (who, self.spilled(part.spill()).unwrap_or(text)),
                    None => continue,
                },
            };
            by.get_or_insert(who);
            texts.push(text);
        }
        Some((by?, texts.join("\n\n")))
    }
}

/// Returns the entries of the next commit.
fn next(reader: &mut Reader<Box<dyn BufRead + Send>>) -> Result<Option<Vec<Entry>>, StoreError> {
    loop {
        match reader.next_item().map_err(StoreError::io("read", "the ledger"))? {
            None => return Ok(None),
            Some(Item::Commit(entries)) => return Ok(Some(entries)),
            Some(Item::Bad(_)) => {}
        }
    }
}

/// Returns author and text of a part that is not an output.
fn author_and_text(part: &Part, role: Role) -> Option<(String, String)> {
    match part {
        Part::Text { text, synthetic: false, ignored: false, .. } => {
            Some((author(role).to_owned(), text.clone()))
        }
        Part::ToolCall { name, input, .. } if name != RECALL => {
            let mut text = name.clone();
            flatten(input, &mut text);
            Some((format!("call of {name}"), text))
        }
        _ => None,
    }
}

fn author(role: Role) -> &'static str {
    if role == Role::User { "user" } else { "assistant" }
}

/// Converts an input to lines of plain text, so that escaped strings can be found in their original form.
fn flatten(input: &Value, text: &mut String) {
    match input {
        Value::Object(map) => {
            for (key, value) in map {
                text.push('\n');
                text.push_str(key);
                text.push(':');
                flatten(value, text);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| flatten(value, text)),
        Value::String(value) => {
            text.push(' ');
            text.push_str(value);
        }
        other => {
            text.push(' ');
            text.push_str(&other.to_string());
        }
    }
}

struct Word {
    text: String,
    finder: Finder<'static>,
    /// Number of passages that contain the word.
    passages: u32,
}

/// For each word: 2 for each occurrence in a passage, but 1 if the occurrence is part of a longer word.
type Counts = [u8; WORDS];

/// A text with at least one of the words, represented by its best passage.
struct Candidate {
    place: RecallMatch,
    counts: Counts,
    /// Words that occur anywhere in the text, as bits.
    words_in_text: u32,
    /// Size of the passage in bytes.
    length: usize,
}

struct Ranking {
    words: Vec<Word>,
    pool: Vec<Candidate>,
    /// Number of texts with at least one of the words.
    total: usize,
    /// Number of all examined passages, and their total size in bytes.
    passages: u32,
    bytes: u64,
    /// The current passage in lower case.
    lower: String,
}

impl Ranking {
    fn new(query: &str) -> Self {
        let mut seen = HashSet::new();
        let words = query.split(|c| !is_word(c)).filter(|word| !word.is_empty()).map(str::to_lowercase);
        let words = words.filter(|word| seen.insert(word.clone())).take(WORDS);
        let words = words.map(|text| Word { finder: Finder::new(&text).into_owned(), text, passages: 0 });
        let (words, pool, lower) = (words.collect(), Vec::new(), String::new());
        Self { words, pool, total: 0, passages: 0, bytes: 0, lower }
    }

    /// Adds a text. Passages whose lines with matching words are all in `visible`, the text that the model sees, are skipped. `name`
    /// returns id, entry and author of the text.
    fn add(&mut self, text: &str, visible: Option<&str>, name: impl FnOnce() -> (String, Seq, String)) {
        let (mut all, mut found): (u32, Vec<(&str, Counts)>) = (0, Vec::new());
        for passage in passages(text) {
            self.passages += 1;
            self.bytes += passage.len() as u64;
            lower_into(passage, &mut self.lower);
            let Some(counts) = count(&self.lower, &self.words) else { continue };
            if visible.is_some_and(|visible| self.stands_in(visible, passage)) {
                continue;
            }
            for (word, _) in self.words.iter_mut().zip(counts).filter(|(_, n)| *n > 0) {
                word.passages += 1;
            }
            all |= mask(&counts);
            found.push((passage, counts));
        }
        let scale = self.scale();
        // Of equal passages the last one counts, because later statements supersede earlier ones.
        let best = found
            .into_iter()
            .map(|(passage, counts)| (scale.score(&counts, all, passage.len()), passage, counts))
            .max_by(|(a, ..), (b, ..)| a.total_cmp(b));
        let Some((_, passage, counts)) = best else { return };
        self.total += 1;
        let (id, seq, who) = name();
        let place = RecallMatch { id, seq, who, snippet: passage.trim().to_owned() };
        self.pool.push(Candidate { place, counts, words_in_text: all, length: passage.len() });
        if self.pool.len() > POOL {
            self.rank();
            self.pool.truncate(STAY);
        }
    }

    /// True if every line of the passage that contains a word is visible.
    fn stands_in(&self, visible: &str, passage: &str) -> bool {
        let mut lower = String::new();
        passage.lines().all(|line| {
            lower_into(line, &mut lower);
            count(&lower, &self.words).is_none() || visible.contains(line)
        })
    }

    fn scale(&self) -> Scale {
        let all = f64::from(self.passages);
        let rarity = |word: &Word| {
            let holding = f64::from(word.passages);
            ((all - holding + 0.5) / (holding + 0.5)).ln_1p()
        };
        Scale { rarity: self.words.iter().map(rarity).collect(), average: (self.bytes as f64 / all).max(1.0) }
    }

    /// Sorts candidates best first; among equal ones, newest first.
    fn rank(&mut self) {
        let scale = self.scale();
        let score = |c: Candidate| (scale.score(&c.counts, c.words_in_text, c.length), c);
        let mut scored: Vec<(f64, Candidate)> = self.pool.drain(..).map(score).collect();
        scored.sort_by(|(a, x), (b, y)| b.total_cmp(a).then(y.place.seq.cmp(&x.place.seq)));
        self.pool.extend(scored.into_iter().map(|(_, candidate)| candidate));
    }

    fn best(mut self, limit: usize) -> RecallMatches {
        self.rank();
        // Equal passages give one match, the newest. So a file that was read five times is listed once.
        let mut seen = HashSet::new();
        let mut places: Vec<RecallMatch> = self.pool.into_iter().map(|candidate| candidate.place).collect();
        places.retain(|place| seen.insert(place.snippet.clone()));
        places.truncate(limit);
        RecallMatches { places, total: self.total }
    }
}

/// The weight of each word, and the average length of a passage.
struct Scale {
    rarity: Vec<f64>,
    average: f64,
}

impl Scale {
    fn score(&self, counts: &Counts, all: u32, length: usize) -> f64 {
        let norm = K * (1.0 - B + B * length as f64 / self.average);
        let (mut score, mut held) = (0.0, 0.0);
        for (nth, (n, rarity)) in counts.iter().zip(&self.rarity).enumerate() {
            if *n > 0 {
                let often = f64::from(*n) / 2.0;
                score += rarity * often * (K + 1.0) / (often + norm);
                held += rarity;
            } else if all >> nth & 1 == 1 {
                score += rarity * OUTSIDE_PASSAGE_WEIGHT;
                held += rarity * OUTSIDE_PASSAGE_WEIGHT;
            }
        }
        // A text that contains more of the words is more relevant than one that repeats a single word.
        score * held
    }
}

/// True for word characters, including those that join the parts of a name.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Counts the query's words in a passage; `None` if it contains none of them.
fn count(lower: &str, words: &[Word]) -> Option<Counts> {
    let (mut counts, mut any): (Counts, bool) = ([0; WORDS], false);
    for (count, word) in counts.iter_mut().zip(words) {
        for at in word.finder.find_iter(lower.as_bytes()) {
            let inside = |c: Option<char>| c.is_some_and(is_word);
            let end = at + word.text.len();
            let part = inside(lower[..at].chars().next_back()) || inside(lower[end..].chars().next());
            // An occurrence inside a longer word counts half. There, words of one or two bytes do not count at all.
            if !part || word.text.len() > 2 {
                *count = count.saturating_add(if part { 1 } else { 2 });
                any = true;
            }
        }
    }
    any.then_some(counts)
}

fn mask(counts: &Counts) -> u32 {
    counts.iter().enumerate().fold(0, |mask, (nth, n)| mask | u32::from(*n > 0) << nth)
}

fn lower_into(text: &str, lower: &mut String) {
    lower.clear();
    if text.is_ascii() {
        lower.push_str(text);
        lower.make_ascii_lowercase();
    } else {
        lower.extend(text.chars().flat_map(char::to_lowercase));
    }
}

/// Splits a text into pieces of whole lines. A line that is too long is cut between words.
fn passages(mut rest: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (passage, behind) = rest.split_at(passage_end(rest));
        rest = behind;
        Some(passage)
    })
}

fn passage_end(text: &str) -> usize {
    if text.len() <= PASSAGE {
        return text.len();
    }
    let window = &text[..text.floor_char_boundary(PASSAGE)];
    let line = window.rfind('\n').map(|at| at + 1);
    let gap = || window.char_indices().rev().find(|(_, c)| !is_word(*c)).map(|(at, c)| at + c.len_utf8());
    line.or_else(gap).unwrap_or(window.len())
}
