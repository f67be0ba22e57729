//! Builtins that evaluate their words: `printf` can assign to variables that its format names, `test` can evaluate the
//! subscript of a variable. A word whose value is not known is never taken for an operator.

use super::super::options::PathArg;
use super::text;
use becket_shell_syntax::{Known, Word};

const BINARY: &[&str] =
    &["=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef", "-a", "-o"];

/// True if `printf`, `test` or `[` may assign to a variable or evaluate a subscript.
pub(crate) fn evaluates(name: &str, words: &[Word]) -> bool {
    if name == "printf" { format(words).is_err() } else { operators(name, words).is_err() }
}

pub(super) fn printf(words: &[Word]) -> Result<Vec<PathArg>, String> {
    format(words)?;
    text(words)
}

pub(super) fn test(name: &str, words: &[Word]) -> Result<Vec<PathArg>, String> {
    operators(name, words)?;
    text(words)
}

fn format(words: &[Word]) -> Result<(), String> {
    let format = match words {
        [dashes, format, ..] if dashes.is_literal() && dashes.text == "--" => Some(format),
        [format, ..] => Some(format).filter(|word| !word.text.starts_with('-')),
        [] => None,
    };
    match format {
        Some(format) if format.is_literal() && !stores_count(&format.text) => Ok(()),
        Some(format) if format.is_literal() => Err("its format (%n) sets a variable".to_owned()),
        _ => Err("its format is not known before it runs".to_owned()),
    }
}

/// True if the format contains `%n`, with any flags, width, precision and length. It sets the variable that an argument
/// names.
fn stores_count(format: &str) -> bool {
    let mut rest = format;
    while let Some((_, after)) = rest.split_once('%') {
        let spec = after.trim_start_matches(|c: char| c.is_ascii_digit() || "-+ #'*.$hlLqjzt".contains(c));
        if spec.starts_with('n') {
            return true;
        }
        rest = after.strip_prefix('%').unwrap_or(after);
    }
    false
}

fn operators(name: &str, words: &[Word]) -> Result<(), String> {
    let words = match words.split_last() {
        Some((last, before)) if name == "[" && last.is_literal() && last.text == "]" => before,
        _ if name == "[" => return Err("its closing bracket is missing".to_owned()),
        _ => words,
    };
    if words.iter().any(|w| matches!(w.text.as_str(), "-v" | "-R")) {
        return Err("a test of whether a variable is set can evaluate a subscript".to_owned());
    }
    // Some shells evaluate the operands of numeric comparisons; bash does so only in `[[`.
    if let Some(word) = words.iter().find(|w| w.text.contains('[') && w.text.contains(['$', '`'])) {
        return Err(format!("{} may be evaluated as a subscript", word.raw));
    }
    let several = |w: &&Word| match w.known {
        Known::Literal => false,
        // A file that the pattern matches may have the name of an operator.
        Known::Glob => w.text.starts_with(['*', '?', '[', '-']),
        Known::Pipe | Known::Dynamic => !w.single,
    };
    if let Some(word) = words.iter().find(several) {
        return Err(format!("{} may become several words or an operator", word.raw));
    }
    let literal = words.iter().all(Word::is_literal);
    let is = |at: usize, test: &dyn Fn(&str) -> bool| words[at].is_literal() && test(&words[at].text);
    let unary = |text: &str| text == "!" || (text.len() == 2 && text.starts_with('-'));
    let binary = |text: &str| BINARY.contains(&text);
    let no = |text: &str| text == "!";
    // bash decides by the number of words and by the operators at these positions. If those are literal, the other words cannot
    // become operators.
    let known = match words.len() {
        0 | 1 => true,
        2 => is(0, &unary),
        3 => is(1, &binary) || (is(0, &no) && is(1, &unary)),
        4 => is(0, &no) && is(2, &binary),
        _ => false,
    };
    if literal || known { Ok(()) } else { Err("its operators are not known before it runs".to_owned()) }
}
