//! Looks at the files that a command puts at risk, and at the repositories among them.
//!
//! A repository below a named path is at risk as a whole. If the own files of one repository are looked at before a command, so are
//! those of all repositories in the workspace, without their objects. Otherwise, changes by other programs between two commands
//! would count as the work of the second command.

use super::{Deadlines, Recorder, canonical_parent};
use crate::command::{GitRisk, Risk};
use crate::git::{Index, Repo};
use crate::sys;
use crate::walk::{Scope, Seen, Sweep};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The risk of each repository before a command, by its folder.
pub(super) type RepoRisks = HashMap<PathBuf, GitRisk>;

impl Recorder {
    /// The roots that may be walked, each once.
    fn roots(&self) -> Vec<PathBuf> {
        let home = self.settings.home.as_deref();
        let wide = |root: &Path| root.parent().is_none() || home.is_some_and(|home| home.starts_with(root));
        let mut roots: Vec<PathBuf> = Vec::new();
        for root in self.settings.roots.iter().filter(|root| !wide(root)) {
            if !roots.iter().any(|other| root.starts_with(other)) {
                roots.retain(|other| !other.starts_with(root));
                roots.push(root.clone());
            }
        }
        roots
    }

    /// Returns those of `paths` that are outside of all roots and may be walked: neither the home directory nor one of its
    /// ancestors.
    fn outside(&self, paths: &[PathBuf], roots: &[PathBuf]) -> Vec<PathBuf> {
        let home = self.settings.home.as_deref();
        let allowed = |path: &&PathBuf| {
            path.parent().is_some()
                && !home.is_some_and(|home| home.starts_with(path))
                && !roots.iter().any(|root| path.starts_with(root))
                && !["/proc", "/sys", "/dev"].iter().any(|dir| path.starts_with(dir))
                && !roots.iter().any(|root| root.starts_with(path))
        };
        paths.iter().filter(allowed).filter_map(|path| canonical_parent(path)).collect()
    }

    /// Replaces the folders in which git runs by the tops of their repositories, and adds those outside of the roots to the
    /// named paths.
    pub(super) fn name_git_dirs(&self, risk: &mut Risk) {
        for dir in &mut risk.git_dirs {
            if let Some(repo) = Repo::find(dir) {
                *dir = repo.top;
            }
        }
        let outside = self.outside(&risk.git_dirs, &self.roots());
        risk.targets.extend(outside);
    }

    fn repo(&mut self, root: &Path) -> Option<Repo> {
        // An earlier command may have created or deleted a repository, so it is looked up again; that costs only a few calls of
        // `stat`.
        let found = Repo::find(root);
        self.repos.insert(root.to_path_buf(), found.clone());
        found
    }

    /// Looks at all files that the risk covers, named paths first. Returns these files, and the risk of each repository. `before`:
    /// the risks that were found when the command started, or `None` for that first look. A repository that is not in `before` was
    /// created by the command.
    pub(super) fn look(
        &mut self,
        risk: &Risk,
        until: Deadlines,
        before: Option<&RepoRisks>,
    ) -> (Sweep, RepoRisks) {
        let mut sweep = Sweep::default();
        let roots = self.roots();
        let outside = self.outside(&risk.targets, &roots);
        let mut targets = risk.targets.clone();
        if risk.everything {
            targets.extend(roots.iter().cloned());
        }
        // A repository in which git runs is entered even if a repository above it ignores its folder.
        let below = |dir: &&PathBuf| roots.iter().any(|root| dir.starts_with(root) && *dir != root);
        targets.extend(risk.git_dirs.iter().filter(below).cloned());
        let exclude = self.settings.exclude.clone();
        let scope = |deadline: Instant| Scope {
            ignored: risk.ignored,
            targets: &targets,
            inside_git: risk.git == GitRisk::Objects,
            objects: true,
            exclude: &exclude,
            deadline,
        };
        let mut own: Vec<Repo> = Vec::new();
        for root in &roots {
            let repo = self.repo(root);
            let index = match &repo {
                Some(repo) => Index::load(repo, self.indexes.remove(&repo.dir)),
                None => Index::default(),
            };
            for target in risk.targets.iter().filter(|target| target.starts_with(root) && *target != root) {
                let ignored = self.walker.is_ignored(root, repo.as_ref(), target);
                sweep.see_dir(target, ignored);
                self.walker.sweep(target, ignored, &index, repo.as_ref(), &scope(until.named), &mut sweep);
            }
            sweep.see_dir(root, false);
            let named = risk.targets.iter().any(|target| root.starts_with(target));
            let deadline = if named { until.named } else { until.rest };
            self.walker.sweep(root, false, &index, repo.as_ref(), &scope(deadline), &mut sweep);
            if let Some(repo) = repo {
                self.indexes.insert(repo.dir.clone(), index);
                own.push(repo);
            }
        }
        for target in outside {
            let whole = Scope { ignored: true, inside_git: true, ..scope(until.named) };
            sweep.see_dir(&target, false);
            self.walker.sweep(&target, false, &Index::default(), None, &whole, &mut sweep);
        }
        let risks = self.look_into_repositories(risk, own, until.named, before, &mut sweep);
        // One sweep yields no duplicates, so deduplicate only after several.
        if roots.len() > 1 || !targets.is_empty() || risks.values().any(|risk| *risk != GitRisk::None) {
            let mut once = HashSet::new();
            sweep.seen.retain(|seen| once.insert(seen.path.clone()));
            sweep.passed.retain(|path| !once.contains(path));
        }
        (sweep, risks)
    }

    /// Looks at the own files of all repositories that are at risk. `own`: the repositories of the roots.
    fn look_into_repositories(
        &mut self,
        risk: &Risk,
        own: Vec<Repo>,
        deadline: Instant,
        before: Option<&RepoRisks>,
        sweep: &mut Sweep,
    ) -> RepoRisks {
        let mut found: HashMap<PathBuf, (Repo, bool)> = HashMap::new();
        for repo in sweep.repositories.iter().filter_map(|dot| Repo::of(dot)) {
            found.insert(repo.dir.clone(), (repo, false));
        }
        for repo in own {
            found.insert(repo.dir.clone(), (repo, true));
        }
        let runs_in: Vec<Repo> = risk.git_dirs.iter().filter_map(|dir| Repo::find(dir)).collect();
        let named = |repo: &Repo, is_own: bool| {
            let below = |target: &PathBuf| repo.dir.starts_with(target) && !(is_own && *target == repo.top);
            risk.targets.iter().any(below)
        };
        let mut risks: RepoRisks = RepoRisks::new();
        for (dir, (repo, is_own)) in &found {
            let level = match before {
                Some(before) => before.get(dir).copied().unwrap_or(GitRisk::State),
                None if named(repo, *is_own) => GitRisk::Objects,
                None if *is_own || runs_in.iter().any(|at| at.common == repo.common) => risk.git,
                None => risk.nested,
            };
            risks.insert(dir.clone(), level);
        }
        if before.is_none()
            && (risk.git != GitRisk::None || risks.values().any(|risk| *risk != GitRisk::None))
        {
            for risk in risks.values_mut() {
                *risk = (*risk).max(GitRisk::State);
            }
        }
        for (repo, _) in found.values() {
            let level = risks.get(&repo.dir).copied().unwrap_or_default();
            self.look_into_git(repo, level, deadline, sweep);
        }
        self.nested = found.into_values().filter(|(_, is_own)| !is_own).map(|(repo, _)| repo).collect();
        risks
    }

    /// Looks at a repository's own files: references, index, logs, settings, and objects if they are at risk.
    fn look_into_git(&mut self, repo: &Repo, risk: GitRisk, deadline: Instant, sweep: &mut Sweep) {
        if risk == GitRisk::None {
            return;
        }
        let mut dirs = vec![&repo.common];
        if !repo.dir.starts_with(&repo.common) {
            dirs.push(&repo.dir);
        }
        for dir in dirs {
            let scope = Scope {
                ignored: true,
                targets: std::slice::from_ref(dir),
                inside_git: true,
                objects: risk == GitRisk::Objects,
                exclude: &[],
                deadline,
            };
            sweep.see_dir(dir, false);
            self.walker.sweep(dir, false, &Index::default(), None, &scope, sweep);
        }
    }
}

impl Sweep {
    /// Adds the directory at `path`, if one is there.
    fn see_dir(&mut self, path: &Path, ignored: bool) {
        if let Ok(meta) = sys::lstat(path)
            && meta.kind == sys::Kind::Dir
        {
            self.seen.push(Seen { path: path.to_path_buf(), meta, ignored });
        }
    }
}
