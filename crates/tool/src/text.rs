//! Finds similar names, and makes hidden characters visible ([`clean`]; [`becket_types::invisible`] defines which characters these
//! are).

pub use becket_types::invisible::clean;

/// Returns the candidate most similar to `name`, if one is similar enough to be a typing error.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_few(name, candidates, 1).into_iter().next()
}

/// Returns at most `count` candidates similar to `name`, most similar first. Ties keep the given order. Case
/// is ignored.
pub fn nearest_few<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    count: usize,
) -> Vec<&'a str> {
    let wanted: Vec<char> = name.chars().take(128).flat_map(char::to_lowercase).collect();
    let allowed = (wanted.len() / 3).clamp(1, 4);
    let mut found: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter_map(|candidate| {
            let other: Vec<char> = candidate.chars().take(128).flat_map(char::to_lowercase).collect();
            let distance = distance(&wanted, &other, allowed)?;
            Some((distance, candidate))
        })
        .collect();
    found.sort_by_key(|(distance, _)| *distance);
    found.into_iter().take(count).map(|(_, candidate)| candidate).collect()
}

/// Returns the number of edits (insert, delete, replace, swap of neighbours) between two words if it is at
/// most `allowed`. Returns `allowed + 1` if one word is part of the other, otherwise `None`.
fn distance(a: &[char], b: &[char], allowed: usize) -> Option<usize> {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let part = short.len() >= 3 && long.windows(short.len()).any(|w| w == short);
    let partial = part.then_some(allowed + 1);
    if long.len() - short.len() > allowed {
        return partial;
    }
    let width = b.len() + 1;
    let mut before: Vec<usize> = vec![0; width];
    let mut last: Vec<usize> = (0..width).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; width];
        for j in 1..width {
            let replace = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replace.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    let edits = last[b.len()];
    if edits <= allowed { Some(edits) } else { partial }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_table() {
        for (name, candidates, want) in [
            ("patern", &["path", "pattern"][..], Some("pattern")),
            ("raed", &["read", "write"], Some("read")),
            ("file_path", &["path", "limit"], Some("path")),
            ("main.rs", &["lib.rs", "main.go", "mian.rs"], Some("mian.rs")),
            ("README.md", &["readme.md"], Some("readme.md")),
            ("zzz", &["path"], None),
            ("", &["path"], None),
        ] {
            assert_eq!(nearest(name, candidates.iter().copied()), want, "{name}");
        }
    }
}
