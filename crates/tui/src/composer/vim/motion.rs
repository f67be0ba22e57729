//! Vim's motions and text objects. Pure functions from byte offsets to byte offsets, always on grapheme boundaries.

use super::parse::Motion;
use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation as _;

/// Target of a motion, and the range that an operator takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Goal {
    pub to: usize,
    /// The character at the target belongs to the range.
    pub inclusive: bool,
    /// The range covers whole lines.
    pub lines: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Space,
    Word,
    Mark,
}

fn class(grapheme: &str, big: bool) -> Class {
    match grapheme.chars().next() {
        None => Class::Space,
        Some(c) if c.is_whitespace() => Class::Space,
        Some(c) if big || c.is_alphanumeric() || c == '_' => Class::Word,
        Some(_) => Class::Mark,
    }
}

/// The graphemes of a text with their offsets.
pub(super) struct Text<'a> {
    text: &'a str,
    at: Vec<(usize, &'a str)>,
}

impl<'a> Text<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: text.grapheme_indices(true).collect() }
    }

    /// Returns the index of the first grapheme that begins at or after this offset.
    fn index(&self, offset: usize) -> usize {
        self.at.partition_point(|(at, _)| *at < offset)
    }

    fn offset(&self, index: usize) -> usize {
        self.at.get(index).map_or(self.text.len(), |(at, _)| *at)
    }

    fn class(&self, index: usize, big: bool) -> Class {
        self.at.get(index).map_or(Class::Space, |(_, g)| class(g, big))
    }

    pub(super) fn after(&self, offset: usize) -> usize {
        self.offset(self.index(offset) + 1)
    }

    pub(super) fn before(&self, offset: usize) -> usize {
        self.offset(self.index(offset).saturating_sub(1))
    }

    pub(super) fn line(&self, offset: usize) -> Range<usize> {
        let start = self.text[..offset].rfind('\n').map_or(0, |i| i + 1);
        let end = self.text[offset..].find('\n').map_or(self.text.len(), |i| offset + i);
        start..end
    }

    /// Returns the offset of the line's last character, or its start if the line is empty.
    pub(super) fn last(&self, offset: usize) -> usize {
        let line = self.line(offset);
        if line.is_empty() { line.start } else { self.before(line.end).max(line.start) }
    }

    fn first_word(&self, offset: usize) -> usize {
        let line = self.line(offset);
        let text = &self.text[line.clone()];
        line.start + text.find(|c: char| !c.is_whitespace()).unwrap_or(0)
    }

    fn column(&self, from: usize, line: usize) -> usize {
        let column = self.index(from) - self.index(self.line(from).start);
        let target = self.line(line);
        self.offset((self.index(target.start) + column).min(self.index(self.last(target.start))))
    }

    fn word_forward(&self, mut i: usize, big: bool) -> usize {
        let start = self.class(i, big);
        while i < self.at.len() && start != Class::Space && self.class(i, big) == start {
            i += 1;
        }
        while i < self.at.len() && self.class(i, big) == Class::Space {
            i += 1;
            // An empty line counts as a word.
            if self.at.get(i).is_some_and(|(_, g)| *g == "\n") && self.at[i - 1].1 == "\n" {
                break;
            }
        }
        i
    }

    fn word_back(&self, mut i: usize, big: bool) -> usize {
        while i > 0 && self.class(i - 1, big) == Class::Space {
            i -= 1;
        }
        let kind = self.class(i.saturating_sub(1), big);
        while i > 0 && self.class(i - 1, big) == kind {
            i -= 1;
        }
        i
    }

    fn word_end(&self, mut i: usize, big: bool) -> usize {
        i += 1;
        while i < self.at.len() && self.class(i, big) == Class::Space {
            i += 1;
        }
        let kind = self.class(i, big);
        while i + 1 < self.at.len() && self.class(i + 1, big) == kind {
            i += 1;
        }
        i.min(self.at.len().saturating_sub(1))
    }

    /// Returns the offset after `count` words from `from`: the range that `cw` changes. Unlike `e`, it stays on a word
    /// of one character.
    pub(super) fn words_end(&self, from: usize, count: usize, big: bool) -> usize {
        let mut i = self.index(from);
        let kind = self.class(i, big);
        while i + 1 < self.at.len() && self.class(i + 1, big) == kind {
            i += 1;
        }
        let last = (1..count).fold(i, |i, _| self.word_end(i, big));
        self.offset(last + 1)
    }

    /// Returns the target of the motion from `from`, `None` if it cannot move. `find`: the last `f F t T`.
    pub(super) fn goal(
        &self,
        motion: Motion,
        from: usize,
        count: Option<usize>,
        find: Option<(char, char)>,
    ) -> Option<Goal> {
        let times = count.unwrap_or(1);
        let line = self.line(from);
        let plain = |to| Some(Goal { to, inclusive: false, lines: false });
        let lines = |to| Some(Goal { to, inclusive: true, lines: true });
        let repeat = |mut i: usize, step: &dyn Fn(usize) -> usize| {
            for _ in 0..times {
                let next = step(i);
                if next == i {
                    break;
                }
                i = next;
            }
            i
        };
        let from_index = self.index(from);
        match motion {
            Motion::Key('h') => {
                plain(self.offset(from_index.saturating_sub(times).max(self.index(line.start))))
            }
            Motion::Key('l') => plain(self.offset((from_index + times).min(self.index(line.end)))),
            Motion::Key('j') => {
                let at = repeat(from, &|at| self.text[at..].find('\n').map_or(at, |i| at + i + 1));
                (self.line(at) != line).then(|| lines(self.column(from, at))).flatten()
            }
            Motion::Key('k') => {
                let at = repeat(from, &|at| self.text[..at].rfind('\n').map_or(at, |i| self.line(i).start));
                (self.line(at) != line).then(|| lines(self.column(from, at))).flatten()
            }
            Motion::Key(c @ ('w' | 'W')) => {
                plain(self.offset(repeat(from_index, &|i| self.word_forward(i, c == 'W'))))
            }
            Motion::Key(c @ ('b' | 'B')) => {
                plain(self.offset(repeat(from_index, &|i| self.word_back(i, c == 'B'))))
            }
            Motion::Key(c @ ('e' | 'E')) => {
                let to = self.offset(repeat(from_index, &|i| self.word_end(i, c == 'E')));
                Some(Goal { to, inclusive: true, lines: false })
            }
            Motion::Key('0') => plain(line.start),
            Motion::Key('^') => plain(self.first_word(from)),
            Motion::Key('$') => {
                let at = repeat(from, &|at| {
                    if count.is_some() && self.line(at).end < self.text.len() {
                        self.line(at).end + 1
                    } else {
                        at
                    }
                });
                let at = if count.is_some_and(|n| n > 1) { at } else { from };
                Some(Goal { to: self.last(at), inclusive: true, lines: false })
            }
            Motion::Key(c @ ('g' | 'G')) => {
                let last = self.text.matches('\n').count() + 1;
                let number = count.unwrap_or(if c == 'G' { last } else { 1 }).min(last);
                let start = self.text.split_inclusive('\n').take(number - 1).map(str::len).sum::<usize>();
                lines(self.first_word(start.min(self.text.len())))
            }
            Motion::Key('%') => self.pair(from).map(|to| Goal { to, inclusive: true, lines: false }),
            Motion::Key(c @ (';' | ',')) => {
                let (find, target) = find?;
                let turned = if c == ';' { find } else { swap(find) };
                self.find(turned, target, from, times)
            }
            Motion::Key(_) => None,
            Motion::Find(find, target) => self.find(find, target, from, times),
        }
    }

    fn find(&self, find: char, target: char, from: usize, times: usize) -> Option<Goal> {
        let line = self.line(from);
        let (start, end) = (self.index(line.start), self.index(line.end));
        let here = self.index(from);
        let is = |i: &usize| self.at[*i].1.starts_with(target);
        let (at, inclusive) = match find {
            'f' | 't' => (((here + 1).min(end)..end).filter(is).nth(times - 1)?, true),
            _ => ((start..here).rev().filter(is).nth(times - 1)?, false),
        };
        let to = match find {
            't' => at - 1,
            'T' => at + 1,
            _ => at,
        };
        Some(Goal { to: self.offset(to), inclusive, lines: false })
    }

    /// Returns the bracket that matches the first bracket at or after `from` on its line.
    fn pair(&self, from: usize) -> Option<usize> {
        const PAIRS: [(char, char); 3] = [('(', ')'), ('[', ']'), ('{', '}')];
        let line = self.line(from);
        let (at, c) = self.text[from..line.end]
            .char_indices()
            .find(|(_, c)| PAIRS.iter().any(|(open, close)| c == open || c == close))?;
        let at = from + at;
        let (open, close) = PAIRS.into_iter().find(|(open, close)| c == *open || c == *close)?;
        let mut depth = 0;
        let mut walk = |c: char| {
            depth += i32::from(c == open) - i32::from(c == close);
            depth == 0
        };
        if c == open {
            self.text[at..].char_indices().find(|(_, c)| walk(*c)).map(|(i, _)| at + i)
        } else {
            self.text[..=at].char_indices().rev().find(|(_, c)| walk(*c)).map(|(i, _)| i)
        }
    }

    /// Returns the range of a text object such as `iw`, `a"` or `i(` at `from`.
    pub(super) fn object(&self, around: bool, object: char, from: usize) -> Option<Range<usize>> {
        match object {
            'w' => {
                let at = self.index(from);
                let (mut start, mut end) = (at, at);
                let kind = self.class(at, false);
                let same = |i: usize| self.class(i, false) == kind && self.at[i].1 != "\n";
                while start > 0 && same(start - 1) {
                    start -= 1;
                }
                while end < self.at.len() && same(end) {
                    end += 1;
                }
                if around {
                    while end < self.at.len() && self.at[end].1 == " " {
                        end += 1;
                    }
                }
                Some(self.offset(start)..self.offset(end))
            }
            '"' | '\'' | '`' => {
                let line = self.line(from);
                let places: Vec<usize> =
                    self.text[line.clone()].match_indices(object).map(|(i, _)| line.start + i).collect();
                let (open, close) =
                    places.chunks_exact(2).map(|p| (p[0], p[1])).find(|(_, close)| *close >= from)?;
                Some(if around { open..close + 1 } else { open + 1..close })
            }
            _ => {
                let (open, close) = match object {
                    '(' | ')' | 'b' => ('(', ')'),
                    '[' | ']' => ('[', ']'),
                    _ => ('{', '}'),
                };
                let mut depth = 0;
                let start = self.text[..from].char_indices().rev().find(|(_, c)| {
                    depth += i32::from(*c == close) - i32::from(*c == open);
                    depth < 0
                });
                let start = if self.text[from..].starts_with(open) { from } else { start?.0 };
                let end = self.pair(start)?;
                Some(if around { start..end + 1 } else { start + 1..end })
            }
        }
    }
}

fn swap(find: char) -> char {
    if find.is_lowercase() { find.to_ascii_uppercase() } else { find.to_ascii_lowercase() }
}
