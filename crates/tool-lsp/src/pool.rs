//! The language servers of a session: one per kind and folder, started when needed, restarted at most twice.

use crate::diagnostics::Memory;
use crate::process::Environment;
use crate::server::Server;
use crate::servers::{Spec, specs};
use crate::settings::{Settings, permitted};
use becket_sandbox::{ProgramKind, Programs};
use becket_types::PermissionMode;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Starts of one server in a session.
const MAX_STARTS: u32 = 3;

pub(crate) struct Pool {
    vars: Environment,
    programs: Programs,
    enabled: Option<bool>,
    specs: Vec<Spec>,
    slots: Mutex<HashMap<(String, PathBuf), Arc<Slot>>>,
}

/// The place of one server.
pub(crate) struct Slot {
    pub spec: Spec,
    program: PathBuf,
    root: PathBuf,
    life: Mutex<Life>,
    /// What was said of it so far; held while its diagnostics are looked at.
    pub memory: tokio::sync::Mutex<Memory>,
}

#[derive(Default)]
struct Life {
    server: Option<Arc<Server>>,
    starts: u32,
    /// Why it ended last.
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

    /// Whether a server could serve a project in `roots`: it looks like one of its kind, and the program is there.
    pub(crate) fn could_serve(&self, roots: &[PathBuf]) -> bool {
        self.specs.iter().any(|spec| spec.fits(roots) && spec.program(&self.vars, roots).is_some())
    }

    pub(crate) fn serves(&self, path: &Path) -> bool {
        self.specs.iter().any(|spec| spec.serves(path))
    }

    /// The place of the server for a file. `None`: there is no server for it, or its program is not there.
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

    /// The servers that fit the session's roots, for questions about no file.
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

    /// The server of a place, started when there is none. The number tells one start from another. `Err` is a reason.
    pub(crate) fn server(&self, slot: &Slot) -> Result<(Arc<Server>, u32), String> {
        let mut life = lock(&slot.life);
        if let Some(server) = &life.server {
            let why = server.lock().why();
            match why {
                None => {
                    server.touch();
                    return Ok((Arc::clone(server), life.starts));
                }
                Some(why) if why.starts_with("it was not used") => {
                    life.starts = life.starts.saturating_sub(1);
                }
                Some(why) => life.ended = Some(why),
            }
            life.server = None;
        }
        if life.starts >= MAX_STARTS {
            let why = life.ended.as_ref().map_or(String::new(), |why| format!(" ({why})"));
            return Err(format!("it ended {MAX_STARTS} times and is left alone in this session{why}"));
        }
        let prepared = self.programs.prepare(ProgramKind::LanguageServer).map_err(|e| e.to_string())?;
        life.starts += 1;
        let server = Server::start(&slot.spec, &slot.program, &prepared, &slot.root, &self.vars)?;
        life.server = Some(Arc::clone(&server));
        Ok((server, life.starts))
    }
}
