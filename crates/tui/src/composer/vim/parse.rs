//! Parser for commands of Vim's normal mode: a count, an operator, and its target. Pure; knows no text.

/// Result of parsing the keys pressed so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// More keys are needed.
    More,
    /// The keys are not a command.
    Nothing,
    Command(Command),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    /// `None`: no count was typed.
    pub count: Option<usize>,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Move(Motion),
    Operate(Operator, Target),
    /// A command of one key, such as `x`, `p` or `i`.
    Plain(char),
    /// `r` and the replacement character.
    Replace(char),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Delete,
    Change,
    Yank,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// `dd`
    Lines,
    Motion(Motion),
    /// A text object such as `iw` or `a"`: true for `a` (around), and its character.
    Object(bool, char),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Motion {
    /// `h j k l w b e W B E 0 ^ $ G % ; ,` and `g` for `gg`.
    Key(char),
    /// One of `f F t T`, and the character to find.
    Find(char, char),
}

/// Largest count; larger ones are reduced to it.
const MOST: usize = 10_000;

pub(super) fn parse(keys: &str) -> Parsed {
    let (count, rest) = number(keys);
    let mut chars = rest.chars();
    let Some(first) = chars.next() else { return Parsed::More };
    let command = |count, what| Parsed::Command(Command { count, what });
    let operator = match first {
        'd' => Operator::Delete,
        'c' => Operator::Change,
        'y' => Operator::Yank,
        'r' => {
            return chars.next().map_or(Parsed::More, |c| command(count, What::Replace(c)));
        }
        'x' | 'X' | 'D' | 'C' | 'Y' | 's' | 'S' | 'i' | 'a' | 'I' | 'A' | 'o' | 'O' | 'p' | 'P' | 'u'
        | 'v' | 'V' | 'J' | '~' | '.' => return command(count, What::Plain(first)),
        _ => {
            return match motion(rest) {
                Ok(Some(motion)) => command(count, What::Move(motion)),
                Ok(None) => Parsed::More,
                Err(()) => Parsed::Nothing,
            };
        }
    };
    let (second, rest) = number(chars.as_str());
    let count = match (count, second) {
        (Some(a), Some(b)) => Some((a * b).min(MOST)),
        (a, b) => a.or(b),
    };
    let mut after = rest.chars();
    match after.next() {
        None => Parsed::More,
        Some(c) if c == first => command(count, What::Operate(operator, Target::Lines)),
        Some(c @ ('i' | 'a')) => match after.next() {
            None => Parsed::More,
            Some(object) if "w\"'`()[]{}b".contains(object) => {
                command(count, What::Operate(operator, Target::Object(c == 'a', object)))
            }
            Some(_) => Parsed::Nothing,
        },
        Some(_) => match motion(rest) {
            Ok(Some(motion)) => command(count, What::Operate(operator, Target::Motion(motion))),
            Ok(None) => Parsed::More,
            Err(()) => Parsed::Nothing,
        },
    }
}

/// Splits off a count. A leading `0` is a motion, not a count.
fn number(keys: &str) -> (Option<usize>, &str) {
    let end = keys.find(|c: char| !c.is_ascii_digit()).unwrap_or(keys.len());
    if end == 0 || keys.starts_with('0') {
        return (None, keys);
    }
    (Some(keys[..end].parse().unwrap_or(MOST).min(MOST)), &keys[end..])
}

fn motion(keys: &str) -> Result<Option<Motion>, ()> {
    let mut chars = keys.chars();
    match (chars.next(), chars.next()) {
        (Some(c), _) if "hjklwbeWBE0^$G%;,".contains(c) => Ok(Some(Motion::Key(c))),
        (Some('g' | 'f' | 'F' | 't' | 'T'), None) => Ok(None),
        (Some('g'), Some('g')) => Ok(Some(Motion::Key('g'))),
        (Some(find @ ('f' | 'F' | 't' | 'T')), Some(c)) => Ok(Some(Motion::Find(find, c))),
        _ => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_as_they_are_typed() {
        let of = |what| Parsed::Command(Command { count: None, what });
        let counted = |n, what| Parsed::Command(Command { count: Some(n), what });
        let delete = |target| What::Operate(Operator::Delete, target);
        for (keys, parsed) in [
            ("", Parsed::More),
            ("2", Parsed::More),
            ("2d", Parsed::More),
            ("w", of(What::Move(Motion::Key('w')))),
            ("3w", counted(3, What::Move(Motion::Key('w')))),
            ("10G", counted(10, What::Move(Motion::Key('G')))),
            ("0", of(What::Move(Motion::Key('0')))),
            ("g", Parsed::More),
            ("gg", of(What::Move(Motion::Key('g')))),
            ("dd", of(delete(Target::Lines))),
            ("2d3w", counted(6, delete(Target::Motion(Motion::Key('w'))))),
            ("dt", Parsed::More),
            ("dt)", of(delete(Target::Motion(Motion::Find('t', ')'))))),
            ("ciw", of(What::Operate(Operator::Change, Target::Object(false, 'w')))),
            ("ya\"", of(What::Operate(Operator::Yank, Target::Object(true, '"')))),
            ("dq", Parsed::Nothing),
            ("rx", of(What::Replace('x'))),
            ("5x", counted(5, What::Plain('x'))),
            ("99999999999999999999x", counted(MOST, What::Plain('x'))),
            ("Z", Parsed::Nothing),
        ] {
            assert_eq!(parse(keys), parsed, "{keys}");
        }
    }
}
