//! The files that a pattern on a command line matches, so that what it reads can be judged by name and place.
//!
//! Matches at least what bash would: a bracket expression and all after it counts as `*`. Hidden names need a dot in the
//! pattern, as in bash without `dotglob`, which a command that runs unasked cannot set.

use crate::git::{Files, is_missing};
use crate::path::wild;
use std::path::{Path, PathBuf};

/// A pattern that has to be compared with more names than this is not judged.
const MAX_NAMES: usize = 4_096;

/// The paths below `dir` that `pattern` matches, in the form in which the shell would pass them on. `None` if a folder cannot be
/// read, or there are more than [`MAX_NAMES`].
pub(crate) fn matches(files: &dyn Files, dir: &Path, pattern: &str) -> Option<Vec<PathBuf>> {
    let start = if pattern.starts_with('/') { PathBuf::from("/") } else { dir.to_path_buf() };
    let mut found = vec![start];
    let mut looked = 0;
    let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
    for (at, part) in parts.iter().enumerate() {
        if !part.contains(['*', '?', '[']) {
            for path in &mut found {
                path.push(part);
            }
            continue;
        }
        let simple = part.split('[').next().unwrap_or_default().replace('?', "*");
        let simple = if part.contains('[') { format!("{simple}*") } else { simple };
        let mut next = Vec::new();
        for path in &found {
            let names = match files.entries(path) {
                Ok(names) => names,
                Err(e) if is_missing(&e) => continue,
                Err(_) => return None,
            };
            looked += names.len();
            if looked > MAX_NAMES {
                return None;
            }
            let last = at + 1 == parts.len();
            next.extend(
                names
                    .into_iter()
                    .filter(|(name, dir)| {
                        (last || *dir)
                            && (!name.starts_with('.') || part.starts_with('.'))
                            && wild(&simple, name)
                    })
                    .map(|(name, _)| path.join(name)),
            );
        }
        found = next;
    }
    Some(found)
}
