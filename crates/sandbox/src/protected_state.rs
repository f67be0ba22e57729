//! Protects files that other programs obey later (hooks, settings of editors and agents): compares them before and
//! after a command at the workspace level.
//!
//! Neither backend can prevent every change. bubblewrap makes existing files read-only, but a name that does not exist
//! yet can only be blocked by creating it. Landlock cannot deny anything inside a writable folder. So changes that
//! happened anyway are undone when the command ends: a new file or folder is renamed, and a changed or removed file
//! gets its content back. Nothing that anybody wrote is deleted.
//!
//! Invariant: becket puts back only content that the command could read, and only where the command could write. Otherwise a
//! command could put a link in the place of one of these files, and becket would copy a secret into the workspace or change a file
//! outside.
//!
//! Limits: the contents of large folders and files are not compared ([`crate::content`]).

use crate::content::{Folders, Kind, put_aside, put_back};
use crate::git_folder::GitFolders;
use crate::gitlinks::LinkedRepositories;
use crate::policy::Policy;
use crate::rebase_lists::RebaseLists;
use becket_types::has_obeyed_ending;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The protected paths of a policy, as they were before the command.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ProtectedState {
    policy: Policy,
    places: Vec<ProtectedPath>,
    entered: LinkedRepositories,
    todos: RebaseLists,
    git_folders: GitFolders,
    /// Files that are protected by the ending of their names alone, directly in the places that the command may write.
    #[serde(with = "crate::record::set")]
    by_ending: BTreeSet<PathBuf>,
    /// Lines that were already returned, so that a change that cannot be undone is reported once.
    #[serde(skip)]
    reported: BTreeSet<String>,
}

/// The protected paths at a later moment, for a comparison with [`ProtectedState`].
pub(crate) struct LaterState {
    places: BTreeMap<PathBuf, ProtectedPath>,
    git_folders: GitFolders,
    by_ending: BTreeSet<PathBuf>,
    repositories: Option<(LinkedRepositories, RebaseLists)>,
}

/// A protected path, as it was before the command.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct ProtectedPath {
    #[serde(with = "crate::policy::lossless::one")]
    path: PathBuf,
    /// The path with the links above it resolved, as they were before the command.
    #[serde(with = "crate::policy::lossless::one")]
    real: PathBuf,
    #[serde(with = "crate::record::map")]
    content: BTreeMap<PathBuf, Kind>,
    /// Links above the path that lead nowhere, with their targets. They could not be resolved.
    #[serde(with = "crate::record::links")]
    dangling: BTreeMap<PathBuf, PathBuf>,
}

impl ProtectedPath {
    fn before(path: &Path, policy: &Policy, folders: &mut Folders) -> Option<Self> {
        let real = folders.real_path(path);
        // A command can change nothing outside of its writable places. If a link leads there, every change is somebody else's.
        policy.write.iter().any(|root| real.starts_with(root)).then_some(())?;
        let (path, dangling) = (path.to_path_buf(), folders.links_above(&real).clone());
        let mut place = Self { content: folders.state(&path, &real), path, real, dangling };
        let content = std::mem::take(&mut place.content).into_iter().map(|(path, kind)| match kind {
            Kind::File { mode, .. } if !policy.may_read(&place.real_of(&path)) => {
                (path, Kind::File { mode, content: None })
            }
            kind => (path, kind),
        });
        place.content = content.collect();
        Some(place)
    }

    /// The resolved path of this place, or of a path below it.
    fn real_of(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.path) {
            Ok(rest) if !rest.as_os_str().is_empty() => self.real.join(rest),
            _ => self.real.clone(),
        }
    }

    /// The first link above the place that was not there before the command.
    fn new_link(&self, folders: &mut Folders) -> Option<PathBuf> {
        let mut links = folders.links_above(&self.real).iter();
        links.find(|(link, target)| self.dangling.get(*link) != Some(target)).map(|(link, _)| link.clone())
    }
}

impl ProtectedState {
    /// Records the protected paths now.
    pub(crate) fn before(policy: &Policy) -> Self {
        let mut folders = Folders::default();
        let places = policy
            .protected
            .iter()
            .filter_map(|path| ProtectedPath::before(path, policy, &mut folders))
            .collect();
        let (entered, todos) = (LinkedRepositories::before(policy), RebaseLists::before(policy));
        Self {
            places,
            entered,
            todos,
            git_folders: GitFolders::before(policy),
            by_ending: by_ending(policy),
            reported: BTreeSet::new(),
            policy: policy.clone(),
        }
    }

    /// Adds the protected paths of another policy, with their present content.
    pub(crate) fn join(&mut self, policy: &Policy) {
        let known = self.policy.write.len();
        let more = policy.write.iter().filter(|place| !self.policy.write.contains(place)).cloned();
        let more: Vec<PathBuf> = more.collect();
        self.policy.write.extend(more);
        let new = policy.protected.iter().filter(|path| !self.policy.protected.contains(path)).cloned();
        let new: Vec<PathBuf> = new.collect();
        let mut folders = Folders::default();
        self.places
            .extend(new.iter().filter_map(|path| ProtectedPath::before(path, &self.policy, &mut folders)));
        if !new.is_empty() || self.policy.write.len() > known {
            self.policy.protected.extend(new);
            (self.entered, self.todos) =
                (LinkedRepositories::before(&self.policy), RebaseLists::before(&self.policy));
            (self.git_folders, self.by_ending) = (GitFolders::before(&self.policy), by_ending(&self.policy));
        }
    }

    /// Records the present content of the same paths. `only_places`: without repositories that an index names, and without git's
    /// lists of steps.
    pub(crate) fn now(&self, only_places: bool) -> LaterState {
        let mut folders = Folders::default();
        let again = |place: &ProtectedPath| ProtectedPath::before(&place.path, &self.policy, &mut folders);
        let places = self.places.iter().filter_map(again).map(|place| (place.path.clone(), place)).collect();
        let rest = (!only_places)
            .then(|| (LinkedRepositories::before(&self.policy), RebaseLists::before(&self.policy)));
        let git_folders = GitFolders::before(&self.policy);
        LaterState { places, git_folders, by_ending: by_ending(&self.policy), repositories: rest }
    }

    /// Replaces the record by a later one, because none of the running programs made the changes. A path that by now leads out of
    /// the writable places keeps its old record. Returns false if nothing had changed.
    pub(crate) fn accept(&mut self, mut now: LaterState) -> bool {
        let mut is_new = self.git_folders != now.git_folders || self.by_ending != now.by_ending;
        for place in &mut self.places {
            if let Some(now) = now.places.remove(&place.path) {
                is_new |= *place != now;
                *place = now;
            }
        }
        (self.git_folders, self.by_ending) = (now.git_folders, now.by_ending);
        if let Some((entered, todos)) = now.repositories {
            is_new |= self.entered != entered || self.todos != todos;
            (self.entered, self.todos) = (entered, todos);
        }
        // If the same change happens again later, it must be reported again.
        self.reported.clear();
        is_new
    }

    /// Records the present content of the paths at which something was mounted for the program: the program could not change them,
    /// so somebody else did. Returns false if nothing had changed.
    pub(crate) fn accept_mounted(&mut self, now: &LaterState, mounts: &[PathBuf]) -> bool {
        let mut is_new = false;
        for place in self.places.iter_mut().filter(|place| mounts.contains(&place.real)) {
            if let Some(now) = now.places.get(&place.path).filter(|now| now.real == place.real) {
                is_new |= place.content != now.content;
                place.content.clone_from(&now.content);
            }
        }
        is_new
    }

    /// Undoes the changes since the record was made, except at `mounted`: the program could not change these paths. Adds one line
    /// for each path to `out`. The files are read again, because a program may have changed them since the caller examined its
    /// processes.
    pub(crate) fn check(&mut self, mounted: &[PathBuf], out: &mut Vec<String>) {
        let mut lines = Vec::new();
        self.git_folders.restore(&self.policy.write, &mut lines);
        self.entered.restore(&mut lines);
        self.todos.restore(&mut lines);
        self.add(lines, out);
        self.check_places(mounted, out);
    }

    fn add(&mut self, lines: Vec<String>, out: &mut Vec<String>) {
        out.extend(lines.into_iter().filter(|line| self.reported.insert(line.clone())));
    }

    /// Like [`Self::check`], for the protected paths alone: repositories that an index names and git's lists of steps are not
    /// checked.
    pub(crate) fn check_places(&mut self, mounted: &[PathBuf], out: &mut Vec<String>) {
        let mut lines = Vec::new();
        self.git_folders.restore(&self.policy.write, &mut lines);
        for path in by_ending(&self.policy).difference(&self.by_ending) {
            lines.push(match put_aside(path) {
                Some(to) => format!("{} was created; what was written is now {}", path.display(), name(&to)),
                None => format!("{} was created, and could not be moved aside", path.display()),
            });
        }
        let mut folders = Folders::default();
        // At a mounted path, a difference is a user's change that came after the caller's reading; the next check accepts it.
        for place in self.places.iter().filter(|place| !mounted.contains(&place.real)) {
            // A command can replace a folder by a link, which would lead other programs to other files.
            if let Some(link) = place.new_link(&mut folders) {
                // Without the link, the cached folders are no longer valid.
                folders = Folders::default();
                let what = format!("{} was made a link", link.display());
                lines.push(match put_aside(&link) {
                    Some(to) => format!("{what}; it is now {}", name(&to)),
                    None => format!("{what}, and could not be moved aside"),
                });
            }
            let now = folders.state(&place.path, &place.real);
            if now != place.content {
                folders = Folders::default();
                restore(place, &now, &mut lines);
            }
        }
        self.add(lines, out);
    }

    /// The folders in which a new name may be a protected path, or lead to one: for each place the nearest existing folder.
    pub(crate) fn folders(&self) -> BTreeSet<PathBuf> {
        let nearest = |place: &ProtectedPath| {
            place.real.ancestors().skip(1).find(|folder| folder.is_dir()).map(Path::to_path_buf)
        };
        self.places.iter().filter_map(nearest).collect()
    }

    /// The resolved paths at which there was nothing before the command.
    pub(crate) fn absent(&self) -> Vec<PathBuf> {
        self.places.iter().filter(|place| place.content.is_empty()).map(|place| place.real.clone()).collect()
    }
}

/// Returns the files that are protected by their ending, directly in the places that the command may write, by their resolved
/// paths.
fn by_ending(policy: &Policy) -> BTreeSet<PathBuf> {
    let places = policy.write.iter().filter_map(|place| place.canonicalize().ok());
    let entries = places.flat_map(|place| fs::read_dir(place).into_iter().flatten().flatten());
    entries.filter(|entry| has_obeyed_ending(&entry.file_name())).map(|entry| entry.path()).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn restore(place: &ProtectedPath, now: &BTreeMap<PathBuf, Kind>, out: &mut Vec<String>) {
    let before = &place.content;
    let mut moved: Vec<&PathBuf> = Vec::new();
    for (path, kind) in now {
        if before.get(path) == Some(kind) || moved.iter().any(|parent| path.starts_with(parent)) {
            continue;
        }
        let why = if before.contains_key(path) { "changed" } else { "created" };
        match put_aside(&place.real_of(path)) {
            Some(to) => {
                out.push(format!("{} was {why}; what was written is now {}", path.display(), name(&to)));
                moved.push(path);
            }
            None => out.push(format!("{} was {why}, and could not be moved aside", path.display())),
        }
    }
    // Sorted paths put folders before their contents.
    for (path, kind) in before {
        let real = place.real_of(path);
        if real.symlink_metadata().is_ok() {
            continue;
        }
        if put_back(&real, kind).is_err() {
            out.push(format!("{} was removed, and could not be put back", path.display()));
        } else if !moved.contains(&path) {
            out.push(format!("{} was removed; it is back", path.display()));
        }
    }
}
