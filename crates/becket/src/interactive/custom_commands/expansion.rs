//! The text of a command with its arguments filled in, split into text and programs. Runs nothing.
//!
//! Only the file decides what runs: words of the caller are quoted in programs and never begin one.

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
    let mut out = Vec::new();
    let mut used = false;
    let mut rest = body;
    while let Some((before, after)) = rest.split_once("!`") {
        let Some((command, behind)) = after.split_once('`') else { break };
        out.push(Piece::Text(fill_arguments(before, arguments, &mut used, false)));
        if !command.trim().is_empty() {
            out.push(Piece::Command(fill_arguments(command, arguments, &mut used, true)));
        }
        rest = behind;
    }
    out.push(Piece::Text(fill_arguments(rest, arguments, &mut used, false)));
    if !used && !arguments.is_empty() {
        out.push(Piece::Text(format!("\n\n{arguments}")));
    }
    out
}

/// Fills in `$ARGUMENTS` and `$1` to `$9`. `quoted`: for a shell.
fn fill_arguments(text: &str, arguments: &str, used: &mut bool, quoted: bool) -> String {
    let words = becket_tool_skill::words(arguments);
    let put = |word: &str| if quoted { shell_word(word) } else { word.to_owned() };
    let mut out = String::with_capacity(text.len() + arguments.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let digit = after.chars().next().and_then(|c| c.to_digit(10)).filter(|n| *n > 0);
        if let Some(behind) = after.strip_prefix("ARGUMENTS") {
            let all: Vec<String> = words.iter().map(|word| put(word)).collect();
            out.push_str(&if quoted { all.join(" ") } else { arguments.to_owned() });
            (rest, *used) = (behind, true);
        } else if let Some(n) = digit {
            out.push_str(&words.get(n as usize - 1).map(|word| put(word)).unwrap_or_default());
            (rest, *used) = (&after[1..], true);
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// Quotes a word so that a shell takes it literally.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_./:@=,+-%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
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
            ("!`gh pr view $1`", "7;rm", vec![text(""), command("gh pr view '7;rm'"), text("")]),
            ("!`git log $ARGUMENTS`", "-1 a'b", vec![text(""), command("git log -1 'a'\\''b'"), text("")]),
            ("See $1, $2", "\"my file.py\" l'arbre", vec![text("See my file.py, l'arbre")]),
            ("no end !`x", "", vec![text("no end !`x")]),
            ("plain", "more", vec![text("plain"), text("\n\nmore")]),
        ] {
            assert_eq!(pieces(body, arguments), want, "{body}");
        }
    }
}
