//! The language servers of a session: one per kind and folder, started on demand, restarted at most twice.

use crate::problems::Memory;
use crate::program::Environment;
use crate::server::{EndCause, Phase, Server};
use crate::servers::{Spec, specs};
use crate::settings::{Settings, permitted};
use becket_sandbox::{ProgramKind, Programs};
use becket_types::PermissionMode;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of starts of one server in a session.
const MAX_STARTS: u32 = 3;

pub(crate) struct Pool {
    vars: Environment,
    programs: Programs,
    enabled: Option<bool>,
    specs: Vec<Spec>,
    slots: Mutex<HashMap<(String, PathBuf), Arc<Slot>>>,
}

/// A server of one kind for one folder, running or not.
pub(crate) struct Slot {
    pub spec: Spec,
    program: PathBuf,
    root: PathBuf,
    life: Mutex<Life>,
    /// Errors that the server has reported. Locked while the report after an edit is made.
    pub memory: tokio::sync::Mutex<Memory>,
}

#[derive(Default)]
struct Life {
    server: Option<Arc<Server>>,
    starts: u32,
    /// The reason why the server ended last.
    ended: Option<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            vars: settings.env.clone(),
            programs: settings.programs.clone(),
            enabled: settings.lsp.enabled,
            specs: specs(&settings.lsp),
            slots: Mutex::default(),
        }
    }

    pub(crate) fn is_on(&self, mode: PermissionMode) -> bool {
        permitted(self.enabled, mode)
    }

    /// True if a server fits a project in `roots`: a root looks like one of its projects and its program is
    /// installed.
    pub(crate) fn could_serve(&self, roots: &[PathBuf]) -> bool {
        self.specs.iter().any(|spec| spec.fits(roots) && spec.program(&self.vars, roots).is_some())
    }

    pub(crate) fn serves(&self, path: &Path) -> bool {
        self.specs.iter().any(|spec| spec.serves(path))
    }

    /// Returns the slot of the server for a file. `None` if no server handles the file or its program is
    /// missing.
    pub(crate) fn slot(&self, path: &Path, roots: &[PathBuf]) -> Option<Arc<Slot>> {
        self.specs.iter().filter(|spec| spec.serves(path)).find_map(|spec| {
            let root = spec.root_of(path, roots);
            let key = (spec.name.clone(), root.clone());
            if let Some(slot) = lock(&self.slots).get(&key) {
                return Some(Arc::clone(slot));
            }
            let program = spec.program(&self.vars, roots)?;
            let slot = Arc::new(Slot {
                spec: spec.clone(),
                program,
                root,
                life: Mutex::default(),
                memory: tokio::sync::Mutex::default(),
            });
            Some(Arc::clone(lock(&self.slots).entry(key).or_insert(slot)))
        })
    }

    /// Returns the servers that fit the session's roots, for requests without a file.
    pub(crate) fn slots_of_project(&self, roots: &[PathBuf]) -> Vec<Arc<Slot>> {
        let fitting = self.specs.iter().filter(|spec| spec.fits(roots));
        fitting
            .filter_map(|spec| {
                let root = roots.iter().find(|r| spec.root_markers.iter().any(|m| r.join(m).exists()))?;
                self.slot(
                    &root.join("x").with_extension(spec.extensions.first()?.trim_start_matches('.')),
                    roots,
                )
            })
            .collect()
    }

    /// Returns the server of a slot and the number of its start. Starts it if it is not running.
    ///
    /// # Errors
    ///
    /// Returns the reason if the server cannot be started, or if it ended too often in this session.
    pub(crate) fn server(&self, slot: &Slot) -> Result<(Arc<Server>, u32), String> {
        let mut life = lock(&slot.life);
        if let Some(server) = &life.server {
            let (is_idle, why) = {
                let state = server.lock();
                (state.phase == Phase::Ended(EndCause::Idle), state.why())
            };
            match why {
                None => {
                    server.touch();
                    return Ok((Arc::clone(server), life.starts));
                }
                Some(_) if is_idle => life.starts = life.starts.saturating_sub(1),
                Some(why) => life.ended = Some(why),
            }
            life.server = None;
        }
        if life.starts >= MAX_STARTS {
            let why = life.ended.as_ref().map_or(String::new(), |why| format!(" ({why})"));
            return Err(format!("it ended {MAX_STARTS} times and is not started again in this session{why}"));
        }
        let prepared = self.programs.prepare(ProgramKind::LanguageServer).map_err(|e| e.to_string())?;
        life.starts += 1;
        let server = Server::start(&slot.spec, &slot.program, &prepared, &slot.root, &self.vars)?;
        life.server = Some(Arc::clone(&server));
        Ok((server, life.starts))
    }
}
