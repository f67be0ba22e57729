//! Writing a changed line in the file's own form.
//!
//! A line is a sequence of tokens (words, runs of one sign, white space). If `old` and `new` have the same
//! token, the file's form of it stays: its quotes, dashes and spacing. Every other token is written as the
//! model has it, so two forms are never mixed within one token.
//!
//! Invariant: except for Unicode forms and white space between signs, the result is the line that the model
//! wrote. Pure.

use crate::normalize;
use similar::{Algorithm, DiffTag, capture_diff_slices};
use std::ops::Range;

/// Returns `new`, which replaces `old`, in the file's form. `file` is the file's form of `old`. Trailing
/// spaces in the file stay if neither `old` nor `new` has any.
pub(crate) fn retouch(old: &str, new: &str, file: &str) -> String {
    let tail = &file[file.trim_end().len()..];
    let silent = old.trim_end().len() == old.len() && new.trim_end().len() == new.len() && !new.is_empty();
    let mut out = by_tokens(old, new, file).unwrap_or_else(|| new.to_owned());
    if silent {
        out.push_str(tail);
    }
    out
}

fn by_tokens(old: &str, new: &str, file: &str) -> Option<String> {
    if old.trim() == file.trim() {
        return None;
    }
    let bare = new.trim_start();
    let mut out = new[..new.len() - bare.len()].to_owned();
    let file = file.trim();
    let (of_old, of_new) = (tokens(old.trim()), tokens(bare));
    let places = align(&of_old, file)?;
    for op in capture_diff_slices(Algorithm::Myers, &of_old, &of_new) {
        let (tag, old, new) = op.as_tag_tuple();
        if tag == DiffTag::Equal {
            kept(&of_old, &places, old, file, &mut out);
        } else {
            out.extend(of_new[new].iter().copied());
        }
    }
    (normalize::normal(&out) == normalize::normal(new)).then_some(out)
}

/// Appends tokens that stay, in the file's form.
fn kept(tokens: &[&str], places: &[Option<Range<usize>>], range: Range<usize>, file: &str, out: &mut String) {
    let before = places[..range.start].iter().flatten().next_back();
    let after = places[range.end..].iter().flatten().next();
    let gap = |from: Option<&Range<usize>>, to: Option<&Range<usize>>| {
        file.get(from?.end..to?.start).filter(|gap| gap.contains(char::is_whitespace))
    };
    let first = range.clone().find(|i| places[*i].is_some());
    let last = range.clone().rev().find(|i| places[*i].is_some());
    let (Some(first), Some(last)) = (first, last) else {
        let own = tokens[range].concat();
        out.push_str(gap(before, after).unwrap_or(&own));
        return;
    };
    let (Some(from), Some(to)) = (&places[first], &places[last]) else { return };
    if range.start < first {
        let own = tokens[range.start..first].concat();
        out.push_str(gap(before, Some(from)).unwrap_or(&own));
    }
    out.push_str(&file[from.start..to.end]);
    if last + 1 < range.end {
        let own = tokens[last + 1..range.end].concat();
        out.push_str(gap(Some(to), after).unwrap_or(&own));
    }
}

/// Returns the position in the file's line of each token that is not white space; `None` if the lines differ.
fn align(tokens: &[&str], file: &str) -> Option<Vec<Option<Range<usize>>>> {
    let there = normalize::solid(file);
    let mut at = 0;
    let mut out = Vec::with_capacity(tokens.len());
    for token in tokens {
        let plain = normalize::solid(token).text;
        if plain.is_empty() {
            out.push(None);
            continue;
        }
        let end = at + plain.len();
        if there.text.get(at..end) != Some(plain.as_str()) {
            return None;
        }
        // A token border inside one character of the file cannot be mapped back.
        out.push(Some(there.back(&(at..end))?));
        at = end;
    }
    (at == there.text.len()).then_some(out)
}

#[derive(PartialEq)]
enum Class {
    Word,
    Space,
    Sign(char),
}

fn class(c: char) -> Class {
    if c.is_whitespace() {
        Class::Space
    } else if c.is_alphanumeric() || c == '_' || normalize::joins(c) {
        Class::Word
    } else {
        Class::Sign(c)
    }
}

/// Splits into words, white space, and runs of one sign.
fn tokens(line: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut start = 0;
    let mut last: Option<Class> = None;
    for (at, c) in line.char_indices() {
        let is = class(c);
        // A combining mark belongs to the character before it.
        if last.as_ref().is_some_and(|last| *last != is) && !(normalize::joins(c) && at > 0) {
            out.push(&line[start..at]);
            start = at;
        }
        if !normalize::joins(c) || last.is_none() {
            last = Some(is);
        }
    }
    if start < line.len() {
        out.push(&line[start..]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn retouch_table() {
        for (old, new, file, want) in [
            ("say \"hi\"", "say \"hi\" now", "say “hi”", "say “hi” now"),
            ("a - b", "a - c", "a – b", "a – c"),
            ("text", "Text", "text  ", "Text  "),
            ("text ", "Text", "text  ", "Text"),
            ("text", "", "text  ", ""),
            ("a", "b", "ccc", "b"),
            ("wait... \"a\" - b", "wait... \"a\" - c", "wait… “a” – b", "wait… “a” – c"),
            ("a... b", "a. b", "a… b", "a. b"),
            ("  id INT, -- a", "    id INT, -- b", "id     INT,  -- a", "    id     INT,  -- b"),
            ("e\u{301} = 1", "e\u{301} = 2", "é = 1", "é = 2"),
            ("break-here", "break--here", "break—here", "break--here"),
            ("a - b - c", "a -- b - c", "a – b – c", "a -- b – c"),
            ("f( a)", "f( b)", "f(a )", "f( b)"),
            ("f(x )", "f(x y)", "f(x)", "f(x y)"),
            ("\"a\", 'b'", "\"a\", \"b\"", "“a”, ‘b’", "“a”, \"b\""),
        ] {
            assert_eq!(retouch(old, new, file), want, "{file}");
        }
    }

    proptest! {
        /// Whatever quotes, dashes and spaces the line of the file has, the result equals the new line once these are the same.
        #[test]
        fn only_the_form_is_the_files(
            old in "[ab“\"'—\\-.… ()]{1,10}", new in "[ab“\"'—\\-.… ()]{1,10}", file in "[ab“\"'—\\-.… ()]{1,10}",
            form in 0usize..4,
        ) {
            let file = match form {
                0 => old.replace('-', "—").replace('"', "“"),
                1 => old.replace('(', "( ").replace(' ', "  "),
                2 => old.replace("...", "…").replace('—', "-"),
                _ => file,
            };
            let out = retouch(&old, &new, &file);
            prop_assert_eq!(normalize::normal(&out), normalize::normal(&new), "{:?}", out);
        }
    }
}
