//! Applying the model's change to the lines that are really in the file.
//!
//! The *region* is the run of lines in the file that matched `old`. The change is the line diff from `old` to `new`.
//! Lines that the model keeps stay byte for byte as in the file, even if `old` spelled them slightly wrong. Only
//! changed lines are written. So a tolerant match never rewrites its context. Pure.

use crate::endings::Ending;
use similar::{Algorithm, DiffTag, capture_diff_slices};
use std::ops::Range;

/// A line of the result, without its ending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub text: String,
    /// Index of this line in the region, if the file's own line is kept; `None` for a line that is written.
    pub kept: Option<usize>,
    /// Index in the region of the line whose ending this line gets: itself, or the line that it replaces. `None` for a
    /// new line: see [`join`].
    pub ends_as: Option<usize>,
}

impl Piece {
    pub(crate) fn kept(text: &str, at: usize) -> Self {
        Self { text: text.to_owned(), kept: Some(at), ends_as: Some(at) }
    }
}

/// Lines of `old` that the model changes but that are different in the file. Applying the change would be a
/// guess.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub old: Range<usize>,
}

/// A line of `new` that must be written.
pub(crate) struct Written<'a> {
    pub line: &'a str,
    /// The line that it replaces, as `old` has it and as the file has it; `None` if the change removes more or fewer lines than it adds.
    pub replaces: Option<(&'a str, &'a str)>,
    /// The lines of the file that are replaced, or else the lines before and after the insertion.
    pub around: &'a [&'a str],
}

/// Applies the diff `old` → `new` to `region`. `map` gives the line of the region for each line of `old`. `write`
/// converts a new line to the file's form; if it returns `None`, the result is a conflict.
pub(crate) fn apply(
    region: &[&str],
    old: &[&str],
    new: &[&str],
    map: &[Option<usize>],
    write: impl Fn(Written<'_>) -> Option<String>,
) -> Result<Vec<Piece>, Conflict> {
    let mut out = Vec::with_capacity(region.len().max(new.len()));
    let mut done = 0;
    for op in capture_diff_slices(Algorithm::Myers, old, new) {
        let (tag, of_old, of_new) = op.as_tag_tuple();
        if tag == DiffTag::Equal {
            continue;
        }
        let place = locate(map, &of_old).filter(|p| p.start >= done && p.end <= region.len());
        let Some(place) = place else {
            return Err(Conflict { old: of_old });
        };
        out.extend((done..place.start).map(|i| Piece::kept(region[i], i)));
        let paired = of_old.len() == of_new.len();
        let around = if place.is_empty() {
            &region[place.start.saturating_sub(1)..(place.end + 1).min(region.len())]
        } else {
            &region[place.clone()]
        };
        for (i, line) in new[of_new].iter().enumerate() {
            let replaces = paired.then(|| (old[of_old.start + i], region[place.start + i]));
            let ends_as = paired.then_some(place.start + i);
            let Some(text) = write(Written { line, replaces, around }) else {
                return Err(Conflict { old: of_old });
            };
            out.push(Piece { text, kept: None, ends_as });
        }
        done = place.end;
    }
    out.extend((done..region.len()).map(|i| Piece::kept(region[i], i)));
    Ok(out)
}

/// Returns the lines of the region for a range of `old`; for an empty range, the position between its
/// neighbours.
fn locate(map: &[Option<usize>], old: &Range<usize>) -> Option<Range<usize>> {
    if !old.is_empty() {
        let start = map[old.start]?;
        let consecutive = old.clone().enumerate().all(|(i, at)| map[at] == Some(start + i));
        return consecutive.then(|| start..start + old.len());
    }
    let before = old.start.checked_sub(1).and_then(|i| map[i]);
    let after = map.get(old.start).copied().flatten();
    let at = match (before, after) {
        (Some(before), Some(after)) if after == before + 1 => after,
        (Some(before), None) => before + 1,
        (None, Some(after)) => after,
        _ => return None,
    };
    Some(at..at)
}

/// Makes one piece for each line of `new`. Used if the lines of the region do not correspond to those of
/// `old`.
pub(crate) fn replace(new: &[String]) -> Vec<Piece> {
    new.iter().map(|line| Piece { text: line.clone(), kept: None, ends_as: None }).collect()
}

/// Joins the pieces with line endings. A kept or replaced line keeps its ending. A new line gets the ending of the line
/// before it, or else of the line after it; `near` if there is neither.
pub(crate) fn join(pieces: &[Piece], endings: &[Ending], near: Ending) -> String {
    let own = |piece: &Piece| piece.ends_as.and_then(|i| endings.get(i)).copied();
    let mut current = pieces.iter().find_map(own).or(endings.first().copied()).unwrap_or(near);
    let mut out = String::new();
    for (i, piece) in pieces.iter().enumerate() {
        out.push_str(&piece.text);
        if i + 1 < pieces.len() {
            current = own(piece).unwrap_or(current);
            out.push_str(current.as_str());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        region: &[&str],
        old: &[&str],
        new: &[&str],
        map: &[Option<usize>],
    ) -> Result<Vec<String>, Conflict> {
        let pieces = apply(region, old, new, map, |w| Some(w.line.to_owned()))?;
        Ok(pieces.into_iter().map(|p| p.text).collect())
    }

    #[test]
    fn context_stays_as_the_file_has_it() {
        let one = |n: usize| (0..n).map(Some).collect::<Vec<_>>();
        for (region, old, new, want) in [
            (vec!["a ", "b", "c\t"], vec!["a", "b", "c"], vec!["a", "B", "c"], vec!["a ", "B", "c\t"]),
            (vec!["a ", "b "], vec!["a", "b"], vec!["a", "x", "b"], vec!["a ", "x", "b "]),
            (vec!["a ", "b "], vec!["a", "b"], vec!["b"], vec!["b "]),
            (vec!["a "], vec!["a"], vec!["a", "x"], vec!["a ", "x"]),
            (vec!["a "], vec!["a"], vec!["x", "a"], vec!["x", "a "]),
        ] {
            let map = one(region.len());
            let want: Vec<String> = want.into_iter().map(str::to_owned).collect();
            assert_eq!(check(&region, &old, &new, &map), Ok(want));
        }
    }

    #[test]
    fn a_changed_line_that_is_not_there_is_a_conflict() {
        let map = [Some(0), None, Some(2)];
        assert_eq!(
            check(&["a", "other", "c"], &["a", "b", "c"], &["a", "x", "c"], &map),
            Err(Conflict { old: 1..2 })
        );
        let kept: Vec<String> = ["a", "other", "C"].map(str::to_owned).to_vec();
        assert_eq!(check(&["a", "other", "c"], &["a", "b", "c"], &["a", "b", "C"], &map), Ok(kept));
        // The file has two lines where the model wants to insert one.
        let map = [Some(0), Some(3)];
        assert!(check(&["a", "x", "y", "b"], &["a", "b"], &["a", "new", "b"], &map).is_err());
    }

    #[test]
    fn endings_follow_their_lines() {
        let piece = |text: &str, kept| Piece { text: text.to_owned(), kept, ends_as: kept };
        use Ending::{CrLf, Lf};
        let pieces = [piece("a", Some(0)), piece("x", None), piece("b", Some(1)), piece("c", Some(2))];
        assert_eq!(join(&pieces, &[CrLf, Lf], Lf), "a\r\nx\r\nb\nc");
        assert_eq!(join(&[piece("x", None), piece("a", Some(0))], &[], CrLf), "x\r\na");
        assert_eq!(
            join(&[piece("x", None), piece("a", Some(1)), piece("", Some(2))], &[Lf, CrLf], Lf),
            "x\r\na\r\n"
        );
    }
}
