//! The user's messages that are no longer in the conversation, quoted word for word in a block after the
//! summary.
//!
//! Each quote starts with the id for `recall` (`[m12]`). Further lines of a message are indented, so that a
//! user's text cannot look like the start of another quote. If the messages do not fit, short ones stay whole
//! and long ones share the rest; a cut keeps the start and the end. Messages that cannot be quoted at all are
//! listed by id.
//!
//! Invariants: every message is quoted or listed; the oldest and the newest are quoted; a message that an
//! earlier compaction listed stays listed. The block is parsed from the previous summary, so no other state
//! is needed.
//!
//! Does not decide which messages leave the conversation.

use super::head::placeholder;
use super::{escape_tags, estimate_text};
use crate::context::continuation::{is_replay, is_users_words};
use becket_types::{Message, Part, Seq, Tokens, cut_end, cut_start, is_blank};
use std::borrow::Borrow;
use std::collections::HashSet;
use std::fmt::Write as _;

const OPEN: &str = "<user-messages";
const CLOSE: &str = "</user-messages>";
const NOTE: &str = " note=\"the user's messages that left the conversation, oldest first, word for word; `recall` with an id gives the \
whole\"";
/// Line above the quotes in summaries of earlier releases, in the section Instructions.
pub(super) const OLD_MARK: &str = "The user's own words, oldest first:";
const NAMED: &str = " not quoted; `recall` gives each";
/// Number of leading characters that must be equal for two quotes, at least one of them cut, to count as the same message.
const LETTERS: usize = 48;
/// Maximum number of ids, or of ranges of ids, in one line.
const NAMES: usize = 24;
/// Minimum size of a cut quote in base tokens. If less is available, the message is listed instead.
const LEAST: u64 = 40;

/// One quoted message, or several messages that are only listed by id.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Quote {
    /// Numbers of the messages, oldest first, as the first and last number of a run. For a single message
    /// both are the same. Never empty.
    runs: Vec<(Seq, Seq)>,
    /// The quoted words; `None` if the messages are only listed.
    text: Option<QuotedText>,
}

/// The words of one message, escaped. If `omitted_chars` is 0, `start` and `end` together are the whole text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct QuotedText {
    start: String,
    end: String,
    /// Number of characters omitted between `start` and `end`.
    omitted_chars: usize,
}

/// Quotes of the user's messages, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quotes(Vec<Quote>);

impl Quotes {
    /// Makes the quotes: those in the previous summary, followed by the messages for which `leaves` returns
    /// true.
    pub fn new<M: Borrow<Message>>(
        previous: Option<&str>,
        messages: &[M],
        leaves: impl Fn(usize) -> bool,
    ) -> Self {
        let mut quotes = previous.map(Self::read).unwrap_or_default();
        let mut stays: HashSet<String> = HashSet::new();
        let mut added: Vec<Quote> = Vec::new();
        for (index, message) in messages.iter().map(Borrow::borrow).enumerate() {
            let text = if is_users_words(message) { typed_text(message) } else { String::new() };
            if text.is_empty() {
                continue;
            }
            if is_replay(message) {
                let whole = QuotedText { start: text.clone(), end: String::new(), omitted_chars: 0 };
                quotes.0.retain(|quote| quote.text.as_ref().is_none_or(|said| !said.is_same(&whole)));
            }
            if !leaves(index) {
                stays.insert(text);
                continue;
            }
            let whole = QuotedText { start: text, end: String::new(), omitted_chars: 0 };
            added.push(Quote::new(message.seq, whole));
        }
        let newer: HashSet<Seq> = added.iter().map(Quote::first).collect();
        // Such a message has a quote in the previous summary if it was restored in the meantime. The new quote replaces it.
        quotes.0.retain(|quote| quote.text.is_none() || !newer.contains(&quote.first()));
        quotes.0.extend(added);
        quotes.keep_once(&stays);
        quotes.join_named();
        quotes
    }

    /// Of quotes with equal text, keeps only the newest. Drops quotes whose text is still in the conversation.
    fn keep_once(&mut self, stays: &HashSet<String>) {
        let mut seen = HashSet::new();
        let mut kept: Vec<Quote> = Vec::new();
        for quote in std::mem::take(&mut self.0).into_iter().rev() {
            let again = quote.text.as_ref().is_some_and(|said| {
                said.omitted_chars == 0 && (stays.contains(&said.start) || !seen.insert(said.start.clone()))
            });
            if !again {
                kept.push(quote);
            }
        }
        kept.reverse();
        self.0 = kept;
    }

    /// Combines consecutive listed messages to one line. If one line would have more than [`NAMES`] ids or ranges, the oldest are combined
    /// to one range.
    fn join_named(&mut self) {
        let mut joined: Vec<Quote> = Vec::new();
        for quote in std::mem::take(&mut self.0) {
            match joined.last_mut() {
                Some(last) if last.text.is_none() && quote.text.is_none() => last.runs.extend(quote.runs),
                _ => joined.push(quote),
            }
        }
        for runs in joined.iter_mut().map(|quote| &mut quote.runs) {
            if let Some(more) = runs.len().checked_sub(NAMES).filter(|more| *more > 0) {
                let last = runs[more].1;
                runs.drain(1..=more);
                runs[0].1 = last;
            }
        }
        self.0 = joined;
    }

    /// True if nothing is quoted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the quoted texts, one for each message.
    pub fn texts(&self) -> impl Iterator<Item = String> + '_ {
        self.0
            .iter()
            .filter_map(|quote| quote.text.as_ref())
            .map(|said| format!("{} {}", said.start, said.end))
    }

    /// Returns the id of the oldest message, in the form for `recall`.
    pub fn oldest(&self) -> Option<String> {
        self.0.iter().map(Quote::first).find(|first| *first != Seq(0)).map(|first| format!("m{first}"))
    }

    /// Returns the block, within `max` base tokens if possible; empty if there are no quotes.
    pub fn block(&self, max: Tokens) -> String {
        if self.is_empty() {
            return String::new();
        }
        let frame = estimate_text(OPEN).0 + estimate_text(NOTE).0 + estimate_text(CLOSE).0 + 6;
        let fitted = self.fitted(max.0.saturating_sub(frame));
        let mut out = format!("{OPEN}{NOTE}>\n");
        for quote in &fitted.0 {
            out.push_str(&quote.line());
            out.push('\n');
        }
        out.push_str(CLOSE);
        out
    }

    /// Returns the quotes with some of them cut or only listed, so that they take at most `max` base tokens if possible.
    fn fitted(&self, max: u64) -> Self {
        let total = |quotes: &Self| quotes.0.iter().map(Quote::cost).sum::<u64>();
        if total(self) <= max {
            return self.clone();
        }
        // The size of combined lists of ids is known only afterwards, so smaller limits are tried until the
        // result fits.
        let mut room = max;
        loop {
            let mut quotes = self.fitted_once(room);
            quotes.join_named();
            if total(&quotes) <= max || room < LEAST {
                return quotes;
            }
            room = room * 9 / 10;
        }
    }

    fn fitted_once(&self, max: u64) -> Self {
        let costs: Vec<u64> = self.0.iter().map(Quote::cost).collect();
        let mut left = max;
        let mut chosen = HashSet::new();
        for index in self.by_weight() {
            // Each quote first gets its minimum size. The remaining space is shared afterwards.
            let least = costs[index].min(LEAST);
            // Room is kept for the line that lists messages which are not quoted. The first two messages are always quoted.
            if least + LEAST > left && chosen.len() >= 2 {
                continue;
            }
            left = left.saturating_sub(least);
            chosen.insert(index);
        }
        let share = fair_share(chosen.iter().map(|index| costs[*index]), max.saturating_sub(LEAST / 2));
        let quotes = self.0.iter().enumerate().map(|(index, quote)| match &quote.text {
            Some(said) if chosen.contains(&index) => {
                Quote::new(quote.first(), said.cut(quote.first(), share.max(LEAST / 2)))
            }
            _ => Quote { text: None, ..quote.clone() },
        });
        Self(quotes.collect())
    }

    /// Returns the indices of quotes in order of importance: the newest, then repeatedly the two oldest and the newest of those that
    /// remain.
    fn by_weight(&self) -> Vec<usize> {
        let mut rest: std::collections::VecDeque<usize> =
            (0..self.0.len()).filter(|index| self.0[*index].text.is_some()).collect();
        let mut order: Vec<usize> = rest.pop_back().into_iter().collect();
        while !rest.is_empty() {
            order.extend(rest.pop_front());
            order.extend(rest.pop_front());
            order.extend(rest.pop_back());
        }
        order
    }

    /// Parses the block of a summary, and the quotes that earlier releases put under Instructions.
    fn read(summary: &str) -> Self {
        let mut quotes = Vec::new();
        // Only the list in Instructions of a summary without a block is becket's own. Any other list was written by the model.
        let instructions = summary.split_once("## Instructions\n").map_or("", |(_, rest)| rest);
        let instructions = instructions.split("\n## ").next().unwrap_or_default();
        if let (Some((_, old)), None) = (instructions.split_once(OLD_MARK), span(summary)) {
            let lines =
                old.lines().skip(1).take_while(|line| line.starts_with("> ") || line.starts_with("- ("));
            for line in lines.filter_map(|line| line.strip_prefix("> ")) {
                let said = QuotedText { start: escape_tags(line), end: String::new(), omitted_chars: 0 };
                quotes.push(Quote::new(Seq(0), said));
            }
        }
        let Some((from, to)) = span(summary) else { return Self(quotes) };
        for line in summary[from..to - CLOSE.len()].lines().skip(1) {
            match header(line) {
                Some((runs, text)) => {
                    let said = (text != NAMED).then(|| QuotedText {
                        start: text.strip_prefix(' ').unwrap_or(text).to_owned(),
                        end: String::new(),
                        omitted_chars: 0,
                    });
                    quotes.push(Quote { runs, text: said });
                }
                None => {
                    if let Some(said) = quotes.last_mut().and_then(|quote| quote.text.as_mut()) {
                        said.push(line.strip_prefix("  ").unwrap_or(line));
                    }
                }
            }
        }
        for said in quotes.iter_mut().filter_map(|quote| quote.text.as_mut()) {
            said.end.truncate(said.end.trim_end().len());
        }
        Self(quotes)
    }

    /// Returns `summary` without its block of quotes.
    pub fn strip(summary: &str) -> String {
        let mut text = summary.to_owned();
        while let Some((from, to)) = span(&text) {
            text.replace_range(from..to, "");
        }
        text.trim_end().to_owned()
    }
}

impl Quote {
    fn new(message: Seq, said: QuotedText) -> Self {
        Self { runs: vec![(message, message)], text: Some(said) }
    }

    fn first(&self) -> Seq {
        self.runs[0].0
    }

    fn line(&self) -> String {
        let names = self.runs.iter().map(|run| match run {
            (Seq(0), _) => "earlier".to_owned(),
            (first, last) if first == last => format!("m{first}"),
            (first, last) => format!("m{first}–m{last}"),
        });
        let id = format!("[{}]", names.collect::<Vec<_>>().join(", "));
        let Some(said) = &self.text else { return format!("{id}{NAMED}") };
        let mut text = format!("{id} {}", indented(&said.start));
        if said.omitted_chars > 0 {
            let (mark, end) = (cut_mark(said.omitted_chars, self.first()), indented(&said.end));
            let _ = write!(text, "\n  {mark}\n  {end}");
        }
        text
    }

    fn cost(&self) -> u64 {
        estimate_text(&self.line()).0 + 2
    }
}

impl QuotedText {
    /// True if two quotes have the same words: a continuation repeats a message that an earlier compaction quoted. If one of the quotes is
    /// cut, the same beginning and about the same length are enough, because cutting and parsing trim lines.
    fn is_same(&self, other: &Self) -> bool {
        if self.omitted_chars == 0 && other.omitted_chars == 0 {
            return self.start == other.start;
        }
        let length = |said: &Self| said.start.chars().count() + said.end.chars().count() + said.omitted_chars;
        let (mine, its) = (length(self), length(other));
        let equal = self.start.chars().zip(other.start.chars()).take_while(|(a, b)| a == b).count();
        let shorter = self.start.chars().count().min(other.start.chars().count());
        let alike = equal >= shorter.clamp(LETTERS / 3, LETTERS);
        alike && mine.abs_diff(its) * 50 <= mine.max(its)
    }

    /// Adds a further line of a block that is parsed.
    fn push(&mut self, line: &str) {
        match read_cut_mark(line) {
            Some(gone) if self.omitted_chars == 0 => self.omitted_chars = gone,
            _ if self.omitted_chars > 0 => {
                if !self.end.is_empty() {
                    self.end.push('\n');
                }
                self.end.push_str(line);
            }
            _ => {
                self.start.push('\n');
                self.start.push_str(line);
            }
        }
    }

    /// Cuts the words to at most `max` base tokens, but never to nothing. Keeps a little more of the start than of the end.
    fn cut(&self, id: Seq, max: u64) -> Self {
        let cost = |said: &Self| Quote::new(id, said.clone()).cost();
        if cost(self) <= max {
            return self.clone();
        }
        let whole = self.start.chars().count() + self.end.chars().count() + self.omitted_chars;
        // In a quote that is already cut, the start loses characters at its end, and the end loses characters at its beginning.
        let (head, tail) = if self.omitted_chars == 0 {
            (self.start.as_str(), self.start.as_str())
        } else {
            (self.start.as_str(), self.end.as_str())
        };
        let mut bytes = ((max * 4) as usize).min(head.len() + tail.len());
        loop {
            let start = cut_end(head, bytes * 3 / 5).trim_end();
            let end = cut_start(tail, bytes * 2 / 5).trim_start();
            let shown = start.chars().count() + end.chars().count();
            let said = Self {
                start: start.to_owned(),
                end: end.to_owned(),
                omitted_chars: whole.saturating_sub(shown).max(1),
            };
            if cost(&said) <= max || bytes < 16 {
                return said;
            }
            bytes = bytes * 9 / 10;
        }
    }
}

/// Returns the text that the user typed in a message, with a line for each attachment; escaped and trimmed.
fn typed_text(message: &Message) -> String {
    let mut lines: Vec<String> = Vec::new();
    for part in &message.parts {
        match part {
            Part::Text { text, synthetic: false, ignored: false, .. } if !is_blank(text) => {
                // A line of the user that looks like becket's mark of a cut gets a backslash.
                let line = |line: &str| match read_cut_mark(line.trim()) {
                    Some(_) => format!("\\{}", line.trim()),
                    None => line.trim_end().to_owned(),
                };
                let text: Vec<String> = escape_tags(text.trim()).lines().map(line).collect();
                lines.push(text.join("\n"));
            }
            Part::Image { .. } | Part::File { .. } => lines.push(placeholder(part)),
            _ => {}
        }
    }
    lines.join("\n")
}

/// Returns the largest size per item with which all together take at most `max`. Small items leave more for
/// the others.
fn fair_share(costs: impl Iterator<Item = u64>, max: u64) -> u64 {
    let mut costs: Vec<u64> = costs.collect();
    costs.sort_unstable();
    let mut left = max;
    for (index, cost) in costs.iter().enumerate() {
        let share = left / (costs.len() - index) as u64;
        if *cost > share {
            return share;
        }
        left -= cost;
    }
    u64::MAX
}

fn indented(text: &str) -> String {
    let lines = text.lines().enumerate().map(|(index, line)| match (index, line.trim_end()) {
        (0, line) => line.to_owned(),
        (_, "") => String::new(),
        (_, line) => format!("  {line}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn cut_mark(gone: usize, id: Seq) -> String {
    match id {
        Seq(0) => format!("[… {gone} characters cut …]"),
        id => format!("[… {gone} characters cut; recall m{id} …]"),
    }
}

fn read_cut_mark(line: &str) -> Option<usize> {
    let (gone, rest) = line.strip_prefix("[… ")?.split_once(" characters cut")?;
    rest.ends_with("…]").then(|| gone.parse().ok()).flatten()
}

/// Parses the start of a line: `[m3] …`, `[m3–m9, m12] …`, `[earlier] …`.
fn header(line: &str) -> Option<(Vec<(Seq, Seq)>, &str)> {
    let (names, text) = line.strip_prefix('[')?.split_once(']')?;
    let number = |name: &str| match name {
        "earlier" => Some(Seq(0)),
        name => name.strip_prefix('m')?.parse().ok().map(Seq),
    };
    let run = |name: &str| {
        let (first, last) = name.split_once('–').unwrap_or((name, name));
        Some((number(first)?, number(last)?))
    };
    Some((names.split(", ").map(run).collect::<Option<_>>()?, text))
}

/// Returns start and end (in bytes) of the newest block.
fn span(summary: &str) -> Option<(usize, usize)> {
    let from = summary.rfind(OPEN)?;
    let to = from + summary[from..].find(CLOSE)? + CLOSE.len();
    Some((from, to))
}
