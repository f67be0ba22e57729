//! Programs that becket starts for its own use: formatters, language servers, the status line, hooks.
//!
//! Owns how such a program starts: confined, unconfined, or not at all. Every program that becket starts for itself and
//! that can be steered by the workspace goes through [`Programs::prepare`]. Decides nothing about permission: whoever calls
//! has already decided that the program may run.
//!
//! | program | writes | network |
//! |---|---|---|
//! | formatter | the private temporary folder | no |
//! | language server | the private temporary folder, a folder for its caches | as configured |
//! | status line | the private temporary folder | no |
//! | hook | the workspace, the private temporary folder | as configured, without the proxy |
//! | MCP server | the workspace, the private temporary folder, a folder for its caches | yes |
//!
//! All of them also write the places that the user names in `sandbox.write`. All of them read everything but secrets. The status
//! line and hooks also read becket's store and settings: the status line is the user's own program, and hooks are given the path of
//! the session.

use crate::backend::Backend;
use crate::handle::{Sandbox, SandboxError};
use crate::lease::Lease;
use crate::policy::ProgramKind;
use crate::sweep;
use becket_types::SandboxLevel;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The folders of programs that becket's own scripts use. `PATH` is not: it may name a folder of the workspace, and these scripts run
/// outside of the sandbox.
pub const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/opt/homebrew/bin:/run/current-system/sw/bin:/nix/var/nix/profiles/default/bin";

/// The rule for these programs: if they start confined, and if they start at all when no sandbox works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Confine {
    /// They start unconfined, even if a sandbox works.
    #[default]
    Never,
    /// They start confined if a sandbox works, otherwise unconfined.
    IfPossible,
    /// They start confined or not at all.
    Always,
}

/// A program that is ready to start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// Arguments before the program; empty if it is not confined.
    pub words: Vec<OsString>,
    /// Additional variables for the program. They replace variables with the same names.
    pub variables: Vec<(OsString, OsString)>,
}

impl Prepared {
    /// True if the program runs in a sandbox.
    pub fn is_confined(&self) -> bool {
        !self.words.is_empty()
    }
}

/// Starts the programs of one session. The default confines nothing.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    confine: Confine,
    sandbox: Option<Arc<Sandbox>>,
    /// Folder for the caches of language and MCP servers of this workspace, made when the first server starts. Its sibling folders
    /// belong to other workspaces.
    caches: Option<PathBuf>,
    /// True from the first unconfined start, if no sandbox works, until [`Self::notice`] is called.
    notice_due: Arc<AtomicBool>,
    /// True once the user was informed.
    told: Arc<AtomicBool>,
    /// Set once unused caches of other workspaces were searched for.
    swept: Arc<OnceLock<()>>,
}

impl Programs {
    /// `caches`: a folder for the caches of language and MCP servers, kept between sessions. Without one, or if it cannot be made,
    /// the caches are in a temporary folder and last as long as the session.
    pub fn new(confine: Confine, sandbox: Option<Arc<Sandbox>>, caches: Option<PathBuf>) -> Self {
        Self { confine, sandbox, caches, ..Self::default() }
    }

    /// Returns the words before a program of this kind, and its variables. Both are empty if it starts unconfined.
    ///
    /// # Errors
    ///
    /// Fails if such programs must be confined and no backend works, or if the confinement cannot be prepared.
    pub fn prepare(&self, kind: ProgramKind) -> Result<Prepared, SandboxError> {
        if self.confine == Confine::Never {
            return Ok(Prepared::default());
        }
        let missing = match &self.sandbox {
            None => "becket's own program is not found".to_owned(),
            Some(sandbox) => match sandbox.backend(SandboxLevel::Workspace) {
                Backend::None { why } => why.clone(),
                _ => return self.confined(sandbox, kind),
            },
        };
        if self.confine == Confine::Always {
            return Err(SandboxError::Unavailable(missing));
        }
        if !self.told.load(Ordering::Relaxed) {
            self.notice_due.store(true, Ordering::Relaxed);
        }
        Ok(Prepared::default())
    }

    /// Protects files that other programs obey later from a confined program of short life. Called before the program starts; the
    /// lease is dropped after it has ended.
    pub fn protect(&self, prepared: &Prepared) -> Option<Lease> {
        let sandbox = self.sandbox.as_ref().filter(|_| prepared.is_confined())?;
        sandbox.protect(SandboxLevel::Workspace)
    }

    /// Protects files that other programs obey later from an MCP server as long as it runs. Called before the server starts; the
    /// lease is dropped after it has ended.
    pub fn protect_from_server(&self, prepared: &Prepared) -> Option<Lease> {
        self.sandbox.as_ref().filter(|_| prepared.is_confined())?.protect_from_server()
    }

    /// Checks the protected files, and describes changes by MCP servers that were undone since the last call.
    pub fn undone_of_servers(&self) -> Vec<String> {
        let Some(sandbox) = &self.sandbox else { return Vec::new() };
        sandbox.check_protected();
        sandbox.undone_of_servers()
    }

    /// The sandbox of the session.
    pub fn sandbox(&self) -> Option<&Sandbox> {
        self.sandbox.as_deref()
    }

    /// Returns a notice for people, once in a session: programs run unconfined because no sandbox works.
    pub fn notice(&self) -> Option<String> {
        if !self.notice_due.swap(false, Ordering::Relaxed) || self.told.swap(true, Ordering::Relaxed) {
            return None;
        }
        let why = match self.sandbox.as_ref().map(|sandbox| sandbox.backend(SandboxLevel::Workspace)) {
            Some(Backend::None { why }) => why.as_str(),
            _ => "becket's own program is not found",
        };
        Some(format!(
            "Formatters, language servers, hooks and MCP servers are not confined: no sandbox works here ({why})."
        ))
    }

    fn confined(&self, sandbox: &Sandbox, kind: ProgramKind) -> Result<Prepared, SandboxError> {
        let caches = match kind {
            ProgramKind::LanguageServer | ProgramKind::McpServer => Some(self.cache_folder(sandbox)?),
            ProgramKind::Formatter | ProgramKind::StatusLine | ProgramKind::Hook => None,
        };
        let confined = sandbox.confine_program(kind, caches.clone())?;
        let mut variables = vec![("TMPDIR".into(), confined.temp.into_os_string())];
        if let Some(caches) = caches {
            variables.extend(cache_variables(&caches));
        }
        Ok(Prepared { words: confined.words, variables })
    }

    fn cache_folder(&self, sandbox: &Sandbox) -> Result<PathBuf, SandboxError> {
        let own = self.caches.as_ref().and_then(|dir| private_folder(dir).ok());
        match own {
            Some(dir) => {
                self.swept.get_or_init(|| sweep::start(&dir));
                Ok(dir)
            }
            None => Ok(sandbox.caches()?.to_path_buf()),
        }
    }
}

/// Returns variables that put the caches of known servers, and of the build tools that they run, into one folder.
fn cache_variables(caches: &Path) -> Vec<(OsString, OsString)> {
    let below = |name: &str| caches.join(name).into_os_string();
    vec![
        ("XDG_CACHE_HOME".into(), caches.as_os_str().to_owned()),
        // rust-analyzer runs `cargo check`, which would write into the workspace.
        ("CARGO_TARGET_DIR".into(), below("cargo-target")),
        ("GOCACHE".into(), below("go-build")),
        // npx and uvx download servers into these folders.
        ("npm_config_cache".into(), below("npm")),
        ("UV_CACHE_DIR".into(), below("uv")),
    ]
}

/// Makes a folder that only its owner can use. Returns its path without symbolic links.
fn private_folder(dir: &Path) -> std::io::Result<PathBuf> {
    becket_files::private::dir(dir)?;
    // The sandbox lets a server write this folder. If a program put a link in its place, the target of the link would become
    // writable.
    if !dir.symlink_metadata()?.is_dir() {
        return Err(std::io::ErrorKind::NotADirectory.into());
    }
    dir.canonicalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_sandbox_programs_are_refused_or_told_about_once() {
        let start = |confine| Programs::new(confine, None, None);
        for kind in
            [ProgramKind::Formatter, ProgramKind::LanguageServer, ProgramKind::StatusLine, ProgramKind::Hook]
        {
            let never = start(Confine::Never);
            assert!(!never.prepare(kind).unwrap().is_confined());
            assert_eq!(never.notice(), None);
            assert!(start(Confine::Always).prepare(kind).is_err());
        }
        let possible = start(Confine::IfPossible);
        assert_eq!(possible.notice(), None, "nothing has started");
        for _ in 0..2 {
            assert!(!possible.prepare(ProgramKind::Formatter).unwrap().is_confined());
        }
        assert_eq!(
            possible.notice().as_deref(),
            Some(
                "Formatters, language servers, hooks and MCP servers are not confined: no sandbox works here \
                 (becket's own program is not found)."
            )
        );
        possible.prepare(ProgramKind::LanguageServer).unwrap();
        assert_eq!(possible.notice(), None, "told once");
    }
}
