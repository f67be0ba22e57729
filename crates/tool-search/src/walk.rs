//! The walk over a tree by several threads, and a record of what it skipped.
//!
//! Owns the rules (hidden names, ignore files, links) and the threads. Skipped places are counted: links that are
//! broken or lead out of the tree, and directories that cannot be read. The search adds files that it could not or may
//! not read. A link to a place inside the tree is not reported, because the walk finds that place anyway.
//!
//! Knows nothing of patterns or tools. The order between threads is undefined; callers sort the results.

use becket_tool::ToolEnv;
use ignore::{DirEntry, ParallelVisitor, ParallelVisitorBuilder, WalkBuilder, WalkState};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of threads. With more, they only wait for each other.
const MAX_THREADS: usize = 12;

/// A walk that was prepared by [`rules`].
pub(crate) struct Walk {
    pub(crate) builder: WalkBuilder,
    /// Messages about folders that are left out, or searched without their ignore rules.
    unreadable: Arc<Mutex<Vec<String>>>,
}

/// Makes a walk below `root` with the rules of this crate. `hidden` includes hidden names.
pub(crate) fn rules(root: &Path, hidden: bool) -> Walk {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    let mut builder = WalkBuilder::new(root);
    builder.hidden(!hidden).require_git(false).git_global(false).follow_links(false).threads(threads);
    let mut first = Vec::new();
    // The walk reads the ignore files of all folders above `root` and would block on one that is a pipe. So no ignore rules are used then.
    if let Some(dir) = root.ancestors().find(|dir| !becket_files::ignore_rules_are_plain(dir)) {
        builder.ignore(false).git_ignore(false).git_exclude(false);
        let dir = dir.display();
        first.push(format!("the ignore rules of {dir} (no ordinary files; ignored files are searched, too)"));
    }
    let unreadable = Arc::new(Mutex::new(first));
    let log = Arc::clone(&unreadable);
    builder.filter_entry(move |entry| {
        if entry.depth() == 0 {
            return true;
        }
        // Git's own files are not part of the project's text.
        if hidden && entry.file_name() == ".git" {
            return false;
        }
        let folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        let plain = !folder || becket_files::ignore_rules_are_plain(entry.path());
        if !plain {
            let message = format!("{} (its ignore rules are no ordinary files)", entry.path().display());
            log.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        }
        plain
    });
    Walk { builder, unreadable }
}

/// Everything that a walk skipped.
#[derive(Debug, Default)]
pub(crate) struct Skipped {
    /// Number of links that lead out of the tree.
    links: u64,
    first_link: Option<String>,
    troubles: u64,
    first_trouble: Option<String>,
    /// Number of files that may not be read without permission.
    closed: u64,
    first_closed: Vec<PathBuf>,
}

/// Maximum number of files that may not be read without permission and are listed by name.
const NAMED: usize = 3;

/// Keeps the text that sorts first. Threads visit files in any order, and equal trees give equal output.
fn keep_first(first: &mut Option<String>, text: String) {
    if first.as_ref().is_none_or(|kept| text < *kept) {
        *first = Some(text);
    }
}

impl Skipped {
    /// Records a problem with one file or directory. `what` names it and the problem.
    pub(crate) fn trouble(&mut self, what: String) {
        self.troubles += 1;
        keep_first(&mut self.first_trouble, what);
    }

    /// Records a file that may not be opened without its own permission.
    pub(crate) fn closed(&mut self, path: &Path) {
        self.closed += 1;
        self.name_closed(path.to_owned());
    }

    /// Keeps the names that sort first over all threads, so that equal trees give equal output.
    fn name_closed(&mut self, path: PathBuf) {
        let at = self.first_closed.partition_point(|first| *first < path);
        if at < NAMED {
            self.first_closed.insert(at, path);
            self.first_closed.truncate(NAMED);
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.troubles + self.closed
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.links += other.links;
        self.troubles += other.troubles;
        if let Some(link) = other.first_link {
            keep_first(&mut self.first_link, link);
        }
        if let Some(what) = other.first_trouble {
            keep_first(&mut self.first_trouble, what);
        }
        self.closed += other.closed;
        for path in other.first_closed {
            self.name_closed(path);
        }
    }

    fn link(&mut self, path: &Path, root: &Path) {
        match path.canonicalize() {
            Ok(target) if target.starts_with(root) => {}
            Ok(_) => {
                self.links += 1;
                keep_first(&mut self.first_link, path.display().to_string());
            }
            Err(error) => self.trouble(format!("{} (a broken symbolic link: {error})", path.display())),
        }
    }

    /// Returns lines for the output, each with its line feed; empty if nothing was skipped.
    pub(crate) fn notice(&self, env: &ToolEnv) -> String {
        let one = |what: &str, first: Option<&String>, count: u64| match (first, count) {
            (None, _) => String::new(),
            (Some(first), 1) => format!("[{what}: {first}]\n"),
            (Some(first), n) => format!("[{what}: {first}, and {} more]\n", n - 1),
        };
        let names: Vec<String> =
            self.first_closed.iter().map(|p| env.display(p).replace('\n', "\\n")).collect();
        let closed = match self.closed.saturating_sub(names.len() as u64) {
            _ if names.is_empty() => String::new(),
            0 => format!(
                "[not opened without permission: {}; as `path`, one can be asked for]\n",
                names.join(", ")
            ),
            more => format!(
                "[not opened without permission: {}, and {more} more; as `path`, one can be asked for]\n",
                names.join(", ")
            ),
        };
        let troubles = one("not searched", self.first_trouble.as_ref(), self.troubles);
        closed + &troubles + &one("links out of the tree, not followed", self.first_link.as_ref(), self.links)
    }
}

/// Calls `each` with every file below the canonical `root`, on several threads. Each thread has its own
/// state, made by `make`. Stops at the end of the tree, when `stop` is set, or when `each` returns false.
/// Returns the states.
pub(crate) fn files<S: Send>(
    walk: &Walk,
    root: &Path,
    stop: &AtomicBool,
    make: impl Fn() -> S + Sync,
    each: impl Fn(&mut S, DirEntry, &mut Skipped) -> bool + Sync,
) -> (Vec<S>, Skipped) {
    let done = Mutex::new((Vec::new(), Skipped::default()));
    let mut visitors = Visitors { root, stop, make: &make, each: &each, done: &done };
    walk.builder.build_parallel().visit(&mut visitors);
    let (states, mut skipped) = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut unreadable = walk.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
    // Sorted, so that equal trees give equal output.
    unreadable.sort_unstable();
    unreadable.drain(..).for_each(|message| skipped.trouble(message));
    (states, skipped)
}

struct Visitors<'a, S, M, E> {
    root: &'a Path,
    stop: &'a AtomicBool,
    make: &'a M,
    each: &'a E,
    done: &'a Mutex<(Vec<S>, Skipped)>,
}

impl<'a, S, M, E> ParallelVisitorBuilder<'a> for Visitors<'a, S, M, E>
where
    S: Send,
    M: Fn() -> S + Sync,
    E: Fn(&mut S, DirEntry, &mut Skipped) -> bool + Sync,
{
    fn build(&mut self) -> Box<dyn ParallelVisitor + 'a> {
        Box::new(Visitor {
            root: self.root,
            stop: self.stop,
            state: Some((self.make)()),
            skipped: Skipped::default(),
            each: self.each,
            done: self.done,
        })
    }
}

/// One thread of a walk. Hands over its state when it is dropped.
struct Visitor<'a, S, E> {
    root: &'a Path,
    stop: &'a AtomicBool,
    state: Option<S>,
    skipped: Skipped,
    each: &'a E,
    done: &'a Mutex<(Vec<S>, Skipped)>,
}

impl<S: Send, E: Fn(&mut S, DirEntry, &mut Skipped) -> bool + Sync> ParallelVisitor for Visitor<'_, S, E> {
    fn visit(&mut self, entry: Result<DirEntry, ignore::Error>) -> WalkState {
        if self.stop.load(Ordering::Relaxed) {
            return WalkState::Quit;
        }
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                self.skipped.trouble(error.to_string());
                return WalkState::Continue;
            }
        };
        match entry.file_type() {
            Some(kind) if kind.is_dir() => {}
            Some(kind) if kind.is_symlink() => self.skipped.link(entry.path(), self.root),
            _ => {
                let Some(state) = &mut self.state else { return WalkState::Quit };
                if !(self.each)(state, entry, &mut self.skipped) {
                    return WalkState::Quit;
                }
            }
        }
        WalkState::Continue
    }
}

impl<S, E> Drop for Visitor<'_, S, E> {
    fn drop(&mut self) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.0.extend(self.state.take());
        done.1.merge(std::mem::take(&mut self.skipped));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_does_not_depend_on_the_order_of_threads() {
        let one = |names: &[&str]| {
            let mut skipped = Skipped::default();
            for name in names {
                skipped.trouble((*name).to_owned());
            }
            skipped.first_link = names.iter().map(|name| (*name).to_owned()).min();
            skipped
        };
        let named = |order: &[&[&str]]| {
            let mut all = Skipped::default();
            for names in order {
                all.merge(one(names));
            }
            (all.first_trouble, all.first_link)
        };
        let parts: [&[&str]; 3] = [&["c", "b"], &[], &["a", "d"]];
        let want = (Some("a".to_owned()), Some("a".to_owned()));
        assert_eq!(named(&parts), want);
        assert_eq!(named(&[parts[2], parts[1], parts[0]]), want);
    }
}
