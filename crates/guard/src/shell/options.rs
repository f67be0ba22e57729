//! Splits a command line into options and the rest, by the options that are known to be harmless.
//!
//! An option that is not listed, or a word that could become one, is an error: the command then does not count as only
//! reading. Does not know any program; the tables are in [`super::readonly`] and [`super::gitcmd`].

use becket_shell_syntax::{Known, Word};

/// A word that names a file. The caller decides where the file is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PathArg {
    pub text: String,
    pub known: Known,
    /// True if the program shows the file's content, not only its name or size.
    pub content: bool,
}

/// Returns the words that name files, without `-`.
pub(super) fn files(words: &[Word], content: bool) -> Vec<PathArg> {
    words
        .iter()
        .filter(|w| w.text != "-")
        .map(|w| PathArg { text: w.text.clone(), known: w.known, content })
        .collect()
}

/// A command line split into options and the rest.
pub(super) struct Parsed {
    pub positional: Vec<Word>,
    /// Names of the options seen, without dashes: letters and long names.
    pub seen: Vec<String>,
    /// Values of options, as pairs of option name and value.
    pub values: Vec<(String, String)>,
    /// Values in a word of their own. Another implementation may know the option without a value and take the word for a file,
    /// so it is judged like one.
    pub doubtful: Vec<Word>,
}

impl Parsed {
    fn separate(&mut self, name: &str, value: &Word) {
        self.values.push((name.to_owned(), value.text.clone()));
        // In all implementations these options take a value that is no file: a pattern, delimiter or similar.
        if !matches!(name, "e" | "regexp" | "d" | "delimiter" | "t" | "field-separator" | "S" | "G" | "L") {
            self.doubtful.push(value.clone());
        }
    }
}

/// True if the word can be the value of an option. A word that looks like another option cannot.
fn is_value(word: &Word) -> bool {
    let number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    word.is_literal()
        && match word.text.strip_prefix('-') {
            Some(rest) => rest.is_empty() || number(rest),
            None => true,
        }
}

/// Splits `words` into options and the rest. `flags`: letters without a value. `valued`: letters with one. `long`: long names,
/// separated by blanks, with `=` at the end if they take a value. `tame`: no option of the program does harm. An option that is not
/// listed, or a word that could become one, is an error.
pub(super) fn options(
    words: &[Word],
    flags: &str,
    valued: &str,
    long: &str,
    tame: bool,
) -> Result<Parsed, String> {
    let mut out =
        Parsed { positional: Vec::new(), seen: Vec::new(), values: Vec::new(), doubtful: Vec::new() };
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match word.known {
            Known::Dynamic => return Err(format!("{} is not known before it runs", word.raw)),
            Known::Glob
                if !tame && word.text.starts_with(['*', '?', '[', '-']) && !keeps_name(&word.text) =>
            {
                return Err(format!(
                    "the pattern {} may match a name that reads as an option (write ./{0})",
                    word.raw
                ));
            }
            _ => {}
        }
        let Some(option) = word.text.strip_prefix('-').filter(|o| !o.is_empty()) else {
            out.positional.push(word.clone());
            continue;
        };
        if word.text == "--" {
            for word in rest.by_ref() {
                if word.known == Known::Dynamic {
                    return Err(format!("{} is not known before it runs", word.raw));
                }
                out.positional.push(word.clone());
            }
            break;
        }
        if let Some(name) = option.strip_prefix('-') {
            let (name, value) = name.split_once('=').map_or((name, None), |(n, v)| (n, Some(v)));
            let takes = long.split_whitespace().any(|l| l.strip_suffix('=') == Some(name));
            let alone = long.split_whitespace().any(|l| l == name);
            match value {
                Some(value) if takes => out.values.push((name.to_owned(), value.to_owned())),
                None if alone => {}
                None if takes => {
                    let value = rest.next().filter(|w| is_value(w)).ok_or_else(|| unknown(word))?;
                    out.separate(name, value);
                }
                _ => return Err(unknown(word)),
            }
            out.seen.push(name.to_owned());
            continue;
        }
        if option.chars().all(|c| c.is_ascii_digit())
            && (valued.contains('n') || valued.contains('C') || valued.contains('w'))
        {
            continue;
        }
        for (at, letter) in option.char_indices() {
            if valued.contains(letter) {
                out.seen.push(letter.to_string());
                let attached = &option[at + letter.len_utf8()..];
                if attached.is_empty() {
                    let value = rest.next().filter(|w| is_value(w)).ok_or_else(|| unknown(word))?;
                    out.separate(&letter.to_string(), value);
                } else {
                    out.values.push((letter.to_string(), attached.to_owned()));
                }
                break;
            }
            if !flags.contains(letter) {
                return Err(unknown(word));
            }
            out.seen.push(letter.to_string());
        }
    }
    Ok(out)
}

/// True if every name that the pattern can match begins with the same option, as with `--include=*.rs`.
fn keeps_name(pattern: &str) -> bool {
    let wild = pattern.find(['*', '?', '[']).unwrap_or(pattern.len());
    pattern.starts_with("--") && pattern[..wild].contains('=')
}

pub(super) fn unknown(word: &Word) -> String {
    format!("its option {} is not known to be harmless", word.raw)
}
