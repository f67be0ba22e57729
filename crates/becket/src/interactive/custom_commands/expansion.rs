//! The text of a command with its arguments filled in, split into text and programs. Runs nothing.
//!
//! Only the file decides what runs: words of the caller are quoted in programs and never begin one.

use becket_tool_skill::{Arguments, ChangeWord};

/// A part of a command's file after its arguments were filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    /// The program in `` !`…` ``, whose output replaces it.
    Command(String),
}

impl Piece {
    pub(super) fn command(&self) -> Option<&str> {
        match self {
            Self::Command(command) => Some(command),
            Self::Text(_) => None,
        }
    }

    pub(super) fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Command(_) => "",
        }
    }
}

/// Splits a file into pieces. Arguments are quoted in programs and never begin one. Arguments without a placeholder are
/// added at the end.
pub(super) fn pieces(body: &str, arguments: &str) -> Vec<Piece> {
    let filled = Arguments::of_command(arguments, body);
    let mut out = Vec::new();
    let mut used = false;
    let mut fill = |text: &str, put: Option<&ChangeWord<'_>>| {
        let (text, has_placeholder) = filled.fill(text, put);
        used |= has_placeholder;
        text
    };
    let mut rest = body;
    while let Some((before, after)) = rest.split_once("!`") {
        let Some((command, behind)) = after.split_once('`') else { break };
        out.push(Piece::Text(fill(before, None)));
        if !command.trim().is_empty() {
            out.push(Piece::Command(fill(command, Some(&shell_word))));
        }
        rest = behind;
    }
    out.push(Piece::Text(fill(rest, None)));
    if !used && !arguments.is_empty() {
        out.push(Piece::Text(format!("\n\n{arguments}")));
    }
    out
}

/// Quotes a word so that a shell takes it literally after `before`.
///
/// Quotes around a placeholder are closed for the word and opened again. Each character that means something to a shell is
/// escaped by itself, because that is safe also where the quotes of `before` are misjudged, as in `"$(cat "$1")"` or in a
/// here-document: single quotes around the word would mean nothing there.
fn shell_word(word: &str, before: &str) -> String {
    let quote = open_quote(before);
    let mut out = String::from(quote.unwrap_or_default());
    for c in word.chars() {
        match c {
            // A shell removes an escaped line end.
            '\n' | '\r' => out.push_str("\\ "),
            _ if c.is_alphanumeric() || "_./:@=,+-%".contains(c) => out.push(c),
            _ => out.extend(['\\', c]),
        }
    }
    out.push_str(quote.unwrap_or(if word.is_empty() { "''" } else { "" }));
    out
}

/// Returns the quote that is open at the end of a shell text.
fn open_quote(text: &str) -> Option<&'static str> {
    let mut open = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        open = match (open, c) {
            (None | Some("\""), '\\') => {
                chars.next();
                open
            }
            (None, '\'') => Some("'"),
            (None, '"') => Some("\""),
            (Some("'"), '\'') | (Some("\""), '"') => None,
            _ => open,
        };
    }
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_caller_never_become_commands() {
        let text = |text: &str| Piece::Text(text.to_owned());
        let command = |text: &str| Piece::Command(text.to_owned());
        for (body, arguments, want) in [
            ("See $1", "!`rm x`", vec![text("See !`rm")]),
            ("!`gh pr view $1`", "7;rm", vec![text(""), command("gh pr view 7\\;rm"), text("")]),
            ("!`git log $ARGUMENTS`", "-1 a'b", vec![text(""), command("git log -1 a\\'b"), text("")]),
            ("See $1, $2", "\"my file.py\" l'arbre", vec![text("See my file.py, l'arbre")]),
            ("no end !`x", "", vec![text("no end !`x")]),
            ("plain", "more", vec![text("plain"), text("\n\nmore")]),
            (
                "A=$ARGUMENTS[0] B=$ARGUMENTS[1] Z=$0 Y=$1 X=$2",
                "alpha beta",
                vec![text("A=alpha B=beta Z=alpha Y=beta X=")],
            ),
            ("A=$ARGUMENTS[0] B=$ARGUMENTS[5] Y=$1", "alpha beta", vec![text("A=alpha B= Y=alpha")]),
            ("\\$1.00, \\$0 and $1", "a", vec![text("$1.00, $0 and a")]),
            ("$100 for $1", "", vec![text("$100 for ")]),
            (
                "!`awk '{print \\$1}' $ARGUMENTS[0]`",
                "'a b'",
                vec![text(""), command("awk '{print $1}' a\\ b"), text("")],
            ),
        ] {
            assert_eq!(pieces(body, arguments), want, "{body}");
        }
    }

    /// A shell gives the program exactly the words of the caller, with every kind of quotes around the placeholder. Nothing in a
    /// word runs, also where the quotes are nested.
    #[test]
    fn a_shell_takes_words_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let run = |program: &str, word: &str| {
            let mut command = pieces(&format!("!`{program}`"), &format!("\"{word}\""));
            let Piece::Command(command) = command.remove(1) else { panic!("{program}") };
            let shell = std::process::Command::new("sh").args(["-c", &command]).current_dir(&dir).output();
            String::from_utf8(shell.unwrap().stdout).unwrap()
        };
        for word in
            ["$(touch evil)", "a b", "it's", "x';touch evil;'", "*", "`touch evil`", "\\", "~ #x", "a\"b;{c}"]
        {
            for program in ["printf %s $1", "printf %s \"$1\"", "printf %s '$1'", "printf %s \"\"'$1'"] {
                assert_eq!(run(program, word), word, "{program}");
            }
            let nested = [
                "printf %s \"$(printf %s \"$1\")\"",
                "cat <<E\n$1\nE",
                "printf %s \"${HOME:-'$1'}\" # don't '$1'",
                "printf %s x # it's $1",
            ];
            for program in nested {
                run(program, word);
            }
            assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "{word}");
        }
    }
}
