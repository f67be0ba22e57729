//! Protects files that other programs obey later (hooks, settings of editors and agents): compares them before and
//! after a command at the workspace level.
//!
//! Neither backend can prevent every change. bubblewrap makes existing files read-only, but a name that does not exist
//! yet can only be blocked by creating it. Landlock cannot deny anything inside a writable folder. So changes that
//! happened anyway are undone when the command ends: a new file or folder is renamed, and a changed or removed file
//! gets its content back. Nothing that anybody wrote is deleted.
//!
//! Limits: the contents of large folders and files are not compared ([`crate::content`]).

use crate::content::{Kind, put_aside, state};
use crate::gitlinks::Entered;
use crate::policy::Policy;
use crate::todo::Todos;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The protected paths of a policy before the command.
#[derive(Debug)]
pub(crate) struct Obeyed {
    places: Vec<Place>,
    entered: Entered,
    todos: Todos,
    /// The lines that were returned already: a change that cannot be undone is reported once.
    reported: BTreeSet<String>,
}

/// A protected path before the command.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    content: BTreeMap<PathBuf, Kind>,
    /// The folders above that were links already, with their targets.
    links: BTreeMap<PathBuf, PathBuf>,
}

impl Obeyed {
    /// Records the protected paths now.
    pub(crate) fn before(policy: &Policy) -> Self {
        let look =
            |place: &PathBuf| Place { path: place.clone(), content: state(place), links: links_above(place) };
        let places = policy.protected.iter().map(look).collect();
        let (entered, todos) = (Entered::before(policy), Todos::before(policy));
        Self { places, entered, todos, reported: BTreeSet::new() }
    }

    /// Undoes the changes since then. Adds one line for each path to `out`.
    pub(crate) fn check(&mut self, out: &mut Vec<String>) {
        let mut lines = Vec::new();
        for place in &self.places {
            let now = state(&place.path);
            if now != place.content {
                restore(place, &now, &mut lines);
            }
        }
        self.entered.restore(&mut lines);
        self.todos.restore(&mut lines);
        out.extend(lines.into_iter().filter(|line| self.reported.insert(line.clone())));
    }

    /// From now on, leaves out the files that the kernel protects as long as the command runs. A change of them is the
    /// user's own.
    pub(crate) fn trust_mounts(&mut self) {
        self.places.retain(|place| {
            let is_link = matches!(place.content.get(&place.path), Some(Kind::Link(_)));
            place.content.is_empty() || is_link || !place.links.is_empty()
        });
    }
}

fn restore(place: &Place, now: &BTreeMap<PathBuf, Kind>, out: &mut Vec<String>) {
    let before = &place.content;
    // A link that the command left where a folder was may lead anywhere, so nothing is done behind it.
    let is_behind_a_new_link =
        |path: &Path| links_above(path).iter().any(|(link, target)| place.links.get(link) != Some(target));
    let mut moved: Vec<&PathBuf> = Vec::new();
    for (path, kind) in now {
        if before.get(path) == Some(kind) || moved.iter().any(|parent| path.starts_with(parent)) {
            continue;
        }
        let why = if before.contains_key(path) { "changed" } else { "created" };
        match Some(path).filter(|path| !is_behind_a_new_link(path)).and_then(|path| put_aside(path)) {
            Some(to) => {
                let name = to.file_name().unwrap_or_default().to_string_lossy().into_owned();
                out.push(format!("{} was {why}; what was written is now {name}", path.display()));
                moved.push(path);
            }
            None => out.push(format!("{} was {why}, and could not be moved aside", path.display())),
        }
    }
    // The order of paths puts parents first.
    for (path, kind) in before {
        if path.symlink_metadata().is_ok() {
            continue;
        }
        // The command may have moved whole folders away, or put a link to another place where one was.
        let has_folder =
            !is_behind_a_new_link(path) && path.parent().is_none_or(|up| fs::create_dir_all(up).is_ok());
        let made = match kind {
            _ if !has_folder => false,
            Kind::Folder => fs::create_dir(path).is_ok(),
            Kind::Link(target) => std::os::unix::fs::symlink(target, path).is_ok(),
            Kind::File { mode, content: Some(content) } => {
                fs::write(path, content).is_ok()
                    && fs::set_permissions(path, Permissions::from_mode(*mode)).is_ok()
            }
            Kind::File { content: None, .. } | Kind::Other => false,
        };
        if !made {
            out.push(format!("{} was removed, and could not be put back", path.display()));
        } else if !moved.contains(&path) {
            out.push(format!("{} was removed; it is back", path.display()));
        }
    }
}

/// Returns the folders above `path` that are links, with their targets.
fn links_above(path: &Path) -> BTreeMap<PathBuf, PathBuf> {
    path.ancestors().skip(1).filter_map(|up| Some((up.to_path_buf(), fs::read_link(up).ok()?))).collect()
}
