//! The origin of a line in a summary: the user's words, a tool's output, or the model's own words.
//!
//! The model's summary is the primary text. A line of Goal or Instructions that the user's words do not
//! support is marked, but kept: it may be a paraphrase or a translation. A line is removed only if it is a
//! long word-for-word copy of a tool's output and not part of anything the user wrote.
//!
//! Invariant: marking a marked text gives the same text.

use std::collections::HashSet;

/// Mark after a line that the user's words do not support.
const MARK: &str = " (not in the user's own words)";
/// Mark above a section in which no line is supported by the user's words, for example a translation. It replaces the marks of the lines.
const MARK_ALL: &str = "(None of this is in the user's own words.)";
/// Number of consecutive words that are hashed and compared together.
const RUN: usize = 4;
/// Minimum length of text that counts as copied from a tool: this many consecutive words, or words of this many letters.
const WORDS: usize = 12;
const LETTERS: usize = 60;
/// A line is supported if one message of the user has this share of its words, or if all of them together have the larger share.
const BY_ONE: f64 = 0.5;
const BY_ALL: f64 = 0.8;
/// Words that a summary typically adds to the user's words.
const FILLERS: [&str; 16] = [
    "the", "and", "for", "with", "that", "this", "user", "users", "wants", "want", "asked", "asks", "please",
    "must", "should", "needs",
];
/// Weights of one letter, for the comparison with [`LETTERS`]. A letter of a script without spaces weighs more, because a word has about
/// two of them.
const WIDE_LETTER: usize = 5;
const NARROW_LETTER: usize = 2;

/// Hashes of the texts of users and tools.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Provenance {
    /// Word stems of each user message.
    messages: Vec<HashSet<u64>>,
    /// Word stems of all user messages.
    stems: HashSet<u64>,
    user_runs: HashSet<u64>,
    tool_runs: HashSet<u64>,
}

impl Provenance {
    pub(super) fn learn_user(&mut self, text: &str) {
        let stems: HashSet<u64> = stems(text).collect();
        if !stems.is_empty() {
            self.stems.extend(&stems);
            self.messages.push(stems);
        }
        self.user_runs.extend(runs(text).map(|run| run.hash));
    }

    pub(super) fn knows_a_user(&self) -> bool {
        !self.messages.is_empty()
    }

    pub(super) fn learn_tool(&mut self, text: &str) {
        self.tool_runs.extend(runs(text).map(|run| run.hash));
    }

    /// Adds the lines of an earlier summary that the user's words supported at that time.
    pub(super) fn learn_supported(&mut self, section: &str) {
        if section.lines().next() == Some(MARK_ALL) {
            return;
        }
        for line in section.lines().filter(|line| !line.ends_with(MARK)) {
            self.learn_user(line);
        }
    }

    /// Returns `section` with marks. Lines copied from a tool's output are moved to `dropped`.
    pub(super) fn mark(&self, section: &str, dropped: &mut Vec<String>) -> String {
        let section = unmarked(section);
        let mut lines = Vec::new();
        for line in section.lines() {
            if self.is_a_tools(line) {
                dropped.push(line.to_owned());
            } else {
                lines.push((line, self.supports(line)));
            }
        }
        let doubtful = lines.iter().filter(|(_, supported)| *supported == Some(false)).count();
        let supported = lines.iter().filter(|(_, supported)| *supported == Some(true)).count();
        let all = doubtful > 1 && supported == 0;
        let lines = lines.iter().map(|(line, supported)| match supported {
            Some(false) if !all => format!("{line}{MARK}"),
            _ => (*line).to_owned(),
        });
        let text = lines.collect::<Vec<_>>().join("\n").trim().to_owned();
        if all { format!("{MARK_ALL}\n{text}") } else { text }
    }

    /// True if the user's words support the line; `None` if the line is too short or no user message is
    /// known.
    fn supports(&self, line: &str) -> Option<bool> {
        let stems: HashSet<u64> = stems(line).collect();
        if stems.len() < 2 || self.messages.is_empty() {
            return None;
        }
        let share = |known: &HashSet<u64>| stems.intersection(known).count() as f64 / stems.len() as f64;
        Some(share(&self.stems) >= BY_ALL || self.messages.iter().any(|message| share(message) >= BY_ONE))
    }

    /// True if at least [`WORDS`] consecutive words or [`LETTERS`] letters of the line are in a tool's output and not in the user's words.
    fn is_a_tools(&self, line: &str) -> bool {
        let (mut words, mut weight) = (0, 0);
        for run in runs(line) {
            if !self.tool_runs.contains(&run.hash) || self.user_runs.contains(&run.hash) {
                (words, weight) = (0, 0);
                continue;
            }
            // The first run of a sequence counts with all of its words. Each further run overlaps it and adds only its last word.
            let add = |sum: &mut usize, all: usize, last: usize| *sum += if *sum == 0 { all } else { last };
            add(&mut words, run.words, run.last_words);
            add(&mut weight, run.weight, run.last_weight);
            if words >= WORDS * 2 || weight >= LETTERS * NARROW_LETTER {
                return true;
            }
        }
        false
    }
}

/// Returns `section` without marks.
pub(super) fn unmarked(section: &str) -> String {
    let lines = section.lines().filter(|line| line.trim() != MARK_ALL).map(|line| {
        let mut line = line.trim_end();
        while let Some(rest) = line.strip_suffix(MARK.trim_start()) {
            line = rest.trim_end();
        }
        line
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// True for scripts that are written without spaces between words.
pub(crate) fn is_wide(c: char) -> bool {
    c >= '\u{2E80}'
        || matches!(c, '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}')
}

/// Returns hashes of the word stems of a text: the first five letters of each word of at least three letters, in lower case; in scripts
/// without spaces, each pair of letters.
pub(crate) fn stems(text: &str) -> impl Iterator<Item = u64> + '_ {
    const STEM: usize = 5;
    text.split(|c: char| !c.is_alphanumeric()).flat_map(|word| {
        let letters: Vec<char> = word.chars().flat_map(char::to_lowercase).collect();
        if letters.iter().any(|c| is_wide(*c)) {
            let pairs: Vec<u64> = letters.windows(2).map(|pair| hash(pair.iter().copied())).collect();
            return pairs;
        }
        let lower: String = letters.iter().collect();
        if letters.len() < 3 || FILLERS.contains(&lower.as_str()) {
            return Vec::new();
        }
        vec![hash(letters.into_iter().take(STEM))]
    })
}

/// A sequence of consecutive words.
pub(super) struct Run {
    pub(super) hash: u64,
    /// Twice the number of words, because a letter of a script without spaces counts as half a word.
    words: usize,
    pub(super) weight: usize,
    /// Value of `words` for the last word alone.
    last_words: usize,
    pub(super) last_weight: usize,
}

/// Returns each sequence of [`RUN`] consecutive words. All outputs of a window are processed here, so no
/// memory is allocated per word.
pub(super) fn runs(text: &str) -> impl Iterator<Item = Run> + '_ {
    let mut last = [(0u64, 0usize, 0usize); RUN];
    let mut seen = 0usize;
    words(text).filter_map(move |word| {
        last.rotate_left(1);
        last[RUN - 1] = word;
        seen += 1;
        (seen >= RUN).then(|| Run {
            hash: last.iter().fold(FNV.0, |hash, word| (hash ^ word.0).wrapping_mul(FNV.1).rotate_left(9)),
            words: last.iter().map(|word| word.1).sum(),
            weight: last.iter().map(|word| word.2).sum(),
            last_words: word.1,
            last_weight: word.2,
        })
    })
}

/// Returns hash, word count (doubled) and weight of each word; in scripts without spaces, of each letter. A
/// path, a URL or another name is one word without weight: that a tool's output contains it too says nothing
/// about the origin of a line.
fn words(text: &str) -> impl Iterator<Item = (u64, usize, usize)> + '_ {
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.find(char::is_alphanumeric)?;
        rest = &rest[start..];
        let first = rest.chars().next()?;
        if is_wide(first) {
            rest = &rest[first.len_utf8()..];
            return Some((hash(std::iter::once(first)), 1, WIDE_LETTER));
        }
        let end = rest.find(|c: char| c.is_whitespace() || is_wide(c)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        rest = behind;
        let word = word.trim_end_matches(|c: char| !c.is_alphanumeric());
        // One more for the space after the word.
        let weight = (word.chars().count() + 1) * NARROW_LETTER;
        let plain = word.chars().all(char::is_alphabetic);
        Some((hash(word.chars().flat_map(char::to_lowercase)), 2, if plain { weight } else { 0 }))
    })
}

/// Offset basis and prime of the FNV-1a hash.
const FNV: (u64, u64) = (0xcbf2_9ce4_8422_2325, 0x0100_0000_01b3);

fn hash(letters: impl Iterator<Item = char>) -> u64 {
    letters.fold(FNV.0, |hash, c| (hash ^ u64::from(c)).wrapping_mul(FNV.1))
}

#[cfg(test)]
mod tests;
