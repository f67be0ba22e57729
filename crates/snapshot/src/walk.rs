//! Walks the workspace by `stat` alone, with ignore rules.
//!
//! A directory whose own times have not changed since it was listed has the same names in it. Then only its files are looked at
//! again, with one `fstatat` each, and no ignore rule is matched. Ignored directories are entered only if a command puts them at
//! risk. Ignored files in other directories count if they have at most 1 MiB (`.env`, local settings). Symbolic links are never
//! followed. No files are read except ignore files.

use crate::git::{Index, Repo};
use crate::sys::{Kind, Listing, Meta, lstat};
use becket_types::FileStamp;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Largest ignored file, in bytes, that counts without being named by the command.
const SMALL: u64 = 1 << 20;
/// A directory that changed within this time before it was listed, in nanoseconds, is listed again: file systems have
/// coarse clocks, so a later change could leave the same time.
const TICK: i64 = 50_000_000;
/// Maximum number of entries in one sweep.
const MAX_ENTRIES: usize = 200_000;

/// The part of the workspace that one sweep covers, and its time limit.
pub(crate) struct Scope<'a> {
    /// True if ignored directories are entered.
    pub ignored: bool,
    /// Paths named by the command; everything below them counts.
    pub targets: &'a [PathBuf],
    /// True if git directories below a target or root are entered.
    pub inside_git: bool,
    /// True if folders of objects are entered.
    pub objects: bool,
    pub exclude: &'a [PathBuf],
    pub deadline: Instant,
}

impl Scope<'_> {
    fn targets(&self, path: &Path) -> bool {
        self.targets.iter().any(|target| path.starts_with(target))
    }

    fn leads_to_target(&self, path: &Path) -> bool {
        self.targets.iter().any(|target| target.starts_with(path) || path.starts_with(target))
    }
}

/// One file, directory or link that was found.
#[derive(Debug)]
pub(crate) struct Seen {
    pub path: PathBuf,
    pub meta: Meta,
    pub ignored: bool,
}

/// The result of a sweep.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    pub seen: Vec<Seen>,
    /// Paths that exist but were left out: ignored directories, large ignored files, repositories' own folders.
    pub passed: HashSet<PathBuf>,
    /// Paths left out for lack of time or permission.
    pub missed: Vec<PathBuf>,
    pub special: Vec<PathBuf>,
    /// Each `.git` that was met: a repository's own folder, or a file that names it.
    pub repositories: Vec<PathBuf>,
}

struct Rules {
    id: u64,
    chain: Vec<Arc<Gitignore>>,
}

impl Rules {
    fn ignores(&self, path: &Path, dir: bool) -> bool {
        for rules in self.chain.iter().rev() {
            match rules.matched(path, dir) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}

/// Reads the ignore rules in `file`, which apply below `dir`. `None` if it is not an ordinary file.
fn ignore_rules(dir: &Path, file: &Path) -> Option<Gitignore> {
    let bytes = becket_files::read(file, becket_files::MAX_IGNORE_BYTES).ok()?;
    let mut builder = GitignoreBuilder::new(dir);
    for line in String::from_utf8_lossy(&bytes).trim_start_matches('\u{feff}').lines() {
        // An invalid line is skipped; the others count.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok()
}

struct CachedDir {
    stamp: FileStamp,
    rules: u64,
    /// Names in the directory, each with true if it is ignored.
    names: Vec<(OsString, bool)>,
}

/// Walks the workspace, and caches listings and ignore rules for the next sweep.
#[derive(Default)]
pub(crate) struct Walker {
    dirs: HashMap<PathBuf, CachedDir>,
    /// Ignore rules of each directory, with the id of the rules above it and the stamp of its own ignore file. Both must be the
    /// same for the rules to be used again.
    rules: HashMap<PathBuf, (u64, Option<FileStamp>, Arc<Rules>)>,
    next_rules: u64,
}

impl Walker {
    /// Walks everything below `root`. `ignored` is true if the root itself is ignored.
    pub(crate) fn sweep(
        &mut self,
        root: &Path,
        ignored: bool,
        index: &Index,
        repo: Option<&Repo>,
        scope: &Scope<'_>,
        out: &mut Sweep,
    ) {
        match lstat(root) {
            Ok(meta) if meta.kind == Kind::Dir => {}
            Ok(meta) if matches!(meta.kind, Kind::File | Kind::Symlink) => {
                out.seen.push(Seen { path: root.to_path_buf(), meta, ignored });
                return;
            }
            Ok(_) => return out.special.push(root.to_path_buf()),
            Err(_) => return,
        }
        let mut stack = vec![(root.to_path_buf(), self.rules_above(root, repo), ignored)];
        while let Some((dir, rules, ignored)) = stack.pop() {
            if Instant::now() >= scope.deadline || out.seen.len() >= MAX_ENTRIES {
                out.missed.push(dir);
                continue;
            }
            let rules = self.rules_in(&dir, rules);
            self.list(&dir, &rules, ignored, index, scope, out, &mut stack);
        }
    }

    /// True if a path below `root` is ignored, by itself or through one of its directories.
    pub(crate) fn is_ignored(&mut self, root: &Path, repo: Option<&Repo>, path: &Path) -> bool {
        let mut rules = self.rules_above(root, repo);
        let Ok(relative) = path.strip_prefix(root) else { return false };
        let mut at = root.to_path_buf();
        for part in relative.components() {
            rules = self.rules_in(&at, rules);
            at.push(part);
            let dir = lstat(&at).is_ok_and(|meta| meta.kind == Kind::Dir);
            if !rules.chain.is_empty() && rules.ignores(&at, dir) {
                return true;
            }
        }
        false
    }

    /// The rules that apply above a root: those of the repository that contains it.
    fn rules_above(&mut self, root: &Path, repo: Option<&Repo>) -> Arc<Rules> {
        let mut rules = Arc::new(Rules { id: 0, chain: Vec::new() });
        let Some(repo) = repo.filter(|repo| root.starts_with(&repo.top)) else { return rules };
        let exclude = repo.common.join("info/exclude");
        if exclude.exists()
            && let Some(own) = ignore_rules(&repo.top, &exclude)
        {
            rules = Arc::new(Rules { id: 1, chain: vec![Arc::new(own)] });
            self.next_rules = self.next_rules.max(1);
        }
        let mut above: Vec<&Path> =
            root.ancestors().skip(1).take_while(|a| a.starts_with(&repo.top)).collect();
        above.reverse();
        for dir in above {
            rules = self.rules_in(dir, rules);
        }
        rules
    }

    /// The rules in `dir`: those above it and its own ignore file.
    fn rules_in(&mut self, dir: &Path, above: Arc<Rules>) -> Arc<Rules> {
        let file = dir.join(".gitignore");
        let stamp = lstat(&file).ok().filter(|m| m.kind == Kind::File).map(|m| m.stamp);
        if let Some((id, known, rules)) = self.rules.get(dir)
            && *id == above.id
            && *known == stamp
        {
            return Arc::clone(rules);
        }
        let rules = match stamp {
            None => Arc::clone(&above),
            Some(_) => {
                let mut chain = above.chain.clone();
                chain.extend(ignore_rules(dir, &file).map(Arc::new));
                self.next_rules += 1;
                Arc::new(Rules { id: self.next_rules + 1, chain })
            }
        };
        self.rules.insert(dir.to_path_buf(), (above.id, stamp, Arc::clone(&rules)));
        rules
    }

    #[expect(clippy::too_many_arguments, reason = "one step of the loop above")]
    fn list(
        &mut self,
        dir: &Path,
        rules: &Arc<Rules>,
        ignored: bool,
        index: &Index,
        scope: &Scope<'_>,
        out: &mut Sweep,
        stack: &mut Vec<(PathBuf, Arc<Rules>, bool)>,
    ) {
        let listing = match Listing::open(dir) {
            Ok(listing) => listing,
            // Another program has just deleted the directory.
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            Err(_) => return out.missed.push(dir.to_path_buf()),
        };
        let Ok(meta) = listing.meta() else { return out.missed.push(dir.to_path_buf()) };
        let cached = self.dirs.get(dir).filter(|c| c.stamp == meta.stamp && c.rules == rules.id);
        let fresh;
        let names = match cached {
            Some(cached) => &cached.names,
            None => {
                let Ok(names) = listing.names() else { return out.missed.push(dir.to_path_buf()) };
                let list = names.into_iter().map(|(name, is_dir)| {
                    let looked = || listing.child(&name).is_ok_and(|m| m.kind == Kind::Dir);
                    let by_rule = || rules.ignores(&dir.join(&name), is_dir.unwrap_or_else(looked));
                    let ignored = ignored || (!rules.chain.is_empty() && by_rule());
                    (name, ignored)
                });
                let entry = CachedDir { stamp: meta.stamp, rules: rules.id, names: list.collect() };
                if meta.stamp.0.max(meta.stamp.1) + TICK < now() {
                    self.dirs.insert(dir.to_path_buf(), entry);
                    let Some(kept) = self.dirs.get(dir) else { return };
                    &kept.names
                } else {
                    self.dirs.remove(dir);
                    fresh = entry.names;
                    &fresh
                }
            }
        };
        for (name, ignored) in names {
            // The file may have been deleted since the names were read.
            let Ok(meta) = listing.child(name) else { continue };
            let path = dir.join(name);
            if name == ".git" && matches!(meta.kind, Kind::Dir | Kind::File) {
                out.repositories.push(path.clone());
            }
            match meta.kind {
                Kind::Special => out.special.push(path),
                Kind::Symlink => out.seen.push(Seen { path, meta, ignored: *ignored }),
                Kind::File => {
                    let counts = !ignored
                        || meta.size <= SMALL
                        || scope.ignored
                        || scope.targets(&path)
                        || index.is_tracked(&path);
                    if counts {
                        out.seen.push(Seen { path, meta, ignored: *ignored });
                    } else {
                        out.passed.insert(path);
                    }
                }
                Kind::Dir => {
                    let hidden = name == ".git" && !(scope.inside_git && scope.targets(&path));
                    let shut = *ignored
                        && !scope.ignored
                        && !scope.leads_to_target(&path)
                        && !index.has_tracked_below(&path);
                    let objects =
                        !scope.objects && name == "objects" && names.iter().any(|(name, _)| name == "HEAD");
                    if hidden || shut || objects || scope.exclude.contains(&path) {
                        out.passed.insert(path);
                        continue;
                    }
                    stack.push((path.clone(), Arc::clone(rules), *ignored));
                    out.seen.push(Seen { path, meta, ignored: *ignored });
                }
            }
        }
    }
}

/// Nanoseconds since 1970.
pub(crate) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64)
}
