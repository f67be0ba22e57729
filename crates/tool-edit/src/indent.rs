//! Indentation: how the model's differs from the file's, and applying that difference to new lines.
//!
//! Pure. Learns from pairs of lines that are equal except for their indentation.

/// A difference in indentation that all pairs of lines share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shift {
    Same,
    /// The file has this additional prefix on each line.
    Add(String),
    /// The model has this additional prefix on each line.
    Remove(String),
    /// `from.1` characters `from.0` of the model correspond to `to.1` characters `to.0` of the file.
    Scale {
        from: (char, usize),
        to: (char, usize),
    },
}

pub(crate) fn indentation(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

/// Returns the character if the string consists of only one repeated character.
fn unit(s: &str) -> Option<char> {
    let first = s.chars().next()?;
    s.chars().all(|c| c == first).then_some(first)
}

/// Returns the difference that all pairs (model's line, file's line) share. Blank lines are ignored.
pub(crate) fn shift<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Option<Shift> {
    let mut indents = pairs
        .filter(|(model, file)| !model.trim().is_empty() && !file.trim().is_empty())
        .map(|(model, file)| (indentation(model), indentation(file)))
        .collect::<Vec<_>>();
    indents.dedup();
    let (model, file) = *indents.first()?;
    if indents.iter().all(|(m, f)| m == f) {
        return Some(Shift::Same);
    }
    if let Some(prefix) = file.strip_suffix(model)
        && indents.iter().all(|(m, f)| f.strip_prefix(prefix) == Some(*m))
    {
        return Some(Shift::Add(prefix.to_owned()));
    }
    if let Some(prefix) = model.strip_suffix(file)
        && indents.iter().all(|(m, f)| m.strip_prefix(prefix) == Some(*f))
    {
        return Some(Shift::Remove(prefix.to_owned()));
    }
    scale(&indents)
}

fn scale(indents: &[(&str, &str)]) -> Option<Shift> {
    let (m0, f0) = indents.iter().find(|(m, f)| !m.is_empty() && !f.is_empty())?;
    let (from, to) = (unit(m0)?, unit(f0)?);
    let fits = |(m, f): &(&str, &str)| {
        m.chars().all(|c| c == from) && f.chars().all(|c| c == to) && m.len() * f0.len() == f.len() * m0.len()
    };
    indents.iter().all(fits).then(|| {
        let divisor = gcd(m0.len(), f0.len());
        Shift::Scale { from: (from, m0.len() / divisor), to: (to, f0.len() / divisor) }
    })
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Shift {
    /// Converts a new line of the model to the file's indentation.
    pub(crate) fn apply(&self, line: &str) -> String {
        if line.trim().is_empty() {
            return line.to_owned();
        }
        let indent = indentation(line);
        let rest = &line[indent.len()..];
        match self {
            Self::Same => line.to_owned(),
            Self::Add(prefix) => format!("{prefix}{line}"),
            Self::Remove(prefix) => match line.strip_prefix(prefix.as_str()) {
                Some(line) => line.to_owned(),
                None => rest.to_owned(),
            },
            Self::Scale { from, to } => {
                if !indent.chars().all(|c| c == from.0) {
                    return line.to_owned();
                }
                let whole = indent.len() / from.1 * to.1;
                // A remainder is alignment, not indentation, and is kept.
                let left = indent.len() % from.1;
                let mut out = to.0.to_string().repeat(whole);
                out.extend(std::iter::repeat_n(from.0, left));
                out + rest
            }
        }
    }
}

/// Indents a new line if the lines share no common difference. The longest indentation of the model's lines that begins
/// the new line is replaced by the file's indentation of the same lines. If those lines differ in the file, the line
/// gets the indentation of the lines `around` it, or `None` if these differ too.
pub(crate) fn follow(pairs: &[(&str, &str)], line: &str, around: &[&str]) -> Option<String> {
    let indent = indentation(line);
    let seen: Vec<(&str, &str)> = pairs
        .iter()
        .filter(|(model, _)| !model.trim().is_empty())
        .map(|(model, file)| (indentation(model), indentation(file)))
        .filter(|(model, _)| indent.starts_with(model))
        .collect();
    let depth = seen.iter().map(|(model, _)| model.len()).max();
    let Some(depth) = depth.filter(|_| !line.trim().is_empty()) else { return Some(line.to_owned()) };
    let only = |mut all: Vec<&str>| -> Option<String> {
        all.sort_unstable();
        all.dedup();
        if let [one] = all.as_slice() { Some((*one).to_owned()) } else { None }
    };
    let there = seen.iter().filter(|(model, _)| model.len() == depth).map(|(_, file)| *file).collect();
    let near = || only(around.iter().filter(|l| !l.trim().is_empty()).map(|l| indentation(l)).collect());
    Some(only(there).or_else(near)? + &line[depth..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learn(pairs: &[(&str, &str)]) -> Option<Shift> {
        shift(pairs.iter().copied())
    }

    #[test]
    fn shift_table() {
        for (pairs, want, line, out) in [
            (vec![("a", "a"), ("  b", "  b")], Some(Shift::Same), "   c", "   c"),
            (vec![("a", "  a"), ("  b", "    b")], Some(Shift::Add("  ".into())), "    c", "      c"),
            (vec![("  a", "a"), ("    b", "  b")], Some(Shift::Remove("  ".into())), "    c", "  c"),
            (vec![("  a", "a"), ("    b", "  b")], Some(Shift::Remove("  ".into())), " c", "c"),
            (
                vec![("    a", "\ta"), ("        b", "\t\tb"), ("c", "c")],
                Some(Shift::Scale { from: (' ', 4), to: ('\t', 1) }),
                "          d",
                "\t\t  d",
            ),
            (
                vec![("\ta", "  a"), ("\t\tb", "    b")],
                Some(Shift::Scale { from: ('\t', 1), to: (' ', 2) }),
                "\t\t\td",
                "      d",
            ),
            (
                vec![("a", "a"), ("  b", "    b"), ("    c", "        c")],
                Some(Shift::Scale { from: (' ', 1), to: (' ', 2) }),
                "   d",
                "      d",
            ),
        ] {
            let got = learn(&pairs);
            assert_eq!(got, want, "{pairs:?}");
            assert_eq!(got.unwrap().apply(line), out, "{pairs:?}");
        }
        assert_eq!(learn(&[("  a", "  a"), ("  b", "    b")]), None);
        assert_eq!(learn(&[("", "  "), (" ", "")]), None);
    }

    #[test]
    fn without_a_shift_the_nearest_known_depth_decides() {
        let pairs = [("def f:", "def f:"), ("  a", "   a"), ("    b", "      b")];
        assert_eq!(follow(&pairs, "    c", &[]).as_deref(), Some("      c"));
        assert_eq!(follow(&pairs, "     c", &[]).as_deref(), Some("       c"));
        assert_eq!(follow(&pairs, "", &[]).as_deref(), Some(""));
        // All depths of the file look the same in the model's text. The surrounding lines decide, if they
        // agree.
        let flat = [("if a:", "if a:"), ("b()", "    b()")];
        assert_eq!(follow(&flat, "c()", &["    b()", "    d()"]).as_deref(), Some("    c()"));
        assert_eq!(follow(&flat, "c()", &["if a:", "    b()"]), None);
    }
}
