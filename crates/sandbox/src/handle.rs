//! The sandbox of a session: chooses a backend that works on this system, and makes the arguments that confine a
//! command.
//!
//! Backends are tested at the first confined command, so they cost nothing when becket starts.

use crate::backend::{Backend, BackendKind};
use crate::lease::{Lease, Leases, Undo};
use crate::policy::{Network, Policy, PolicyInputs, ProgramKind};
use crate::probe::{SIGNALS_ABI, SelfTest};
use crate::request::{ProxyRoute, Request, WORD};
use crate::{gitlinks, probe, sys};
use becket_network::{HostRules, Pass, Proxy, system_lookup};
use becket_types::SandboxLevel;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use tempfile::TempDir;
use thiserror::Error;

/// First ABI version of Landlock that can keep commands from truncating files. Older versions are not used.
const OLDEST_ABI: u32 = 3;

/// The reason why a command cannot be confined.
#[derive(Debug, Error)]
pub enum SandboxError {
    #[error("no sandbox works here: {0}")]
    Unavailable(String),
    #[error("the sandbox has no private temporary folder: {0}")]
    Temp(std::io::Error),
    #[error("the proxy of the sandbox cannot be started: {0}")]
    Proxy(std::io::Error),
    #[error("the sandbox cannot be set up: {0}")]
    Request(String),
}

/// Returns the files with secrets below a folder of the workspace.
pub type FindSecrets = Arc<dyn Fn(&Path) -> Vec<PathBuf> + Send + Sync>;

/// Updates the parts of the inputs that can change while the session runs: the hidden and denied places, and the files that git
/// obeys.
pub type Refresh = Arc<dyn Fn(&mut PolicyInputs) + Send + Sync>;

/// Settings of a session's sandbox.
#[derive(Clone)]
pub struct SandboxSettings {
    /// becket's own program, which is started again as the helper.
    pub program: PathBuf,
    pub inputs: PolicyInputs,
    /// Called before each command at the read-only level, for each folder of the workspace and each path of [`PolicyInputs::read`].
    pub find_secrets: FindSecrets,
    /// Called before each confined command or program starts.
    pub refresh: Option<Refresh>,
    /// Folders that are searched for bubblewrap, after `/usr/bin`, `/bin` and `/usr/local/bin`.
    pub search: Vec<PathBuf>,
    /// Folders in which the private temporary folder may be made; the first that works is used.
    pub temp: Vec<PathBuf>,
    /// The only backend that is used, in place of the best one.
    pub only: Option<BackendKind>,
    /// Rules for the hosts that commands may reach with [`Network::Proxy`].
    pub hosts: HostRules,
}

/// The working backend of each level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backends {
    pub read_only: Backend,
    pub workspace: Backend,
}

impl Backends {
    fn same(backend: Backend) -> Self {
        Self { read_only: backend.clone(), workspace: backend }
    }
}

/// The arguments to put before a command to confine it, and the folder for its variable `TMPDIR`.
#[derive(Clone, Debug)]
pub struct Confined {
    pub words: Vec<OsString>,
    pub temp: PathBuf,
    /// The permission to use the proxy. Must be kept until the command has ended.
    pub pass: Option<Arc<Pass>>,
}

/// The sandbox of one session.
pub struct Sandbox {
    settings: SandboxSettings,
    /// The inputs of the settings, plus the folders that were added to the workspace since.
    inputs: RwLock<PolicyInputs>,
    /// See [`SandboxSettings::refresh`]; can be replaced while the session runs.
    refresh: RwLock<Option<Refresh>>,
    backends: OnceLock<Backends>,
    temp: OnceLock<TempDir>,
    /// The folder for caches of servers, if they have none of their own. Commands cannot write it.
    caches: OnceLock<TempDir>,
    proxy: OnceLock<Proxy>,
    leases: Leases,
    /// The self-tests that backends have passed.
    tests: Mutex<Vec<(Backend, SelfTest)>>,
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox").field("inputs", &*self.inputs()).finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Makes a sandbox. Backends are searched and tested at the first use, not here.
    pub fn new(settings: SandboxSettings) -> Self {
        let inputs = RwLock::new(settings.inputs.clone());
        let refresh = RwLock::new(settings.refresh.clone());
        let (backends, temp, caches, proxy) = Default::default();
        let program = settings.program.clone();
        Self {
            settings,
            inputs,
            refresh,
            backends,
            temp,
            caches,
            proxy,
            leases: Leases::new(program),
            tests: Mutex::default(),
        }
    }

    fn inputs(&self) -> RwLockReadGuard<'_, PolicyInputs> {
        self.inputs.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The inputs, updated by `refresh`.
    fn present_inputs(&self) -> PolicyInputs {
        let mut inputs = self.inputs().clone();
        let refresh = self.refresh.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(refresh) = refresh {
            refresh(&mut inputs);
        }
        inputs
    }

    /// Replaces [`SandboxSettings::refresh`] for commands and programs that start from now on.
    pub fn look_up_with(&self, refresh: Refresh) {
        *self.refresh.write().unwrap_or_else(PoisonError::into_inner) = Some(refresh);
    }

    /// Adds a folder to the workspace, for commands that start from now on. `git_dirs` and `read`: as in [`PolicyInputs`], for
    /// this folder.
    pub fn add_root(&self, root: &Path, git_dirs: Vec<PathBuf>, read: Vec<PathBuf>) {
        let mut inputs = self.inputs.write().unwrap_or_else(PoisonError::into_inner);
        if !inputs.roots.iter().any(|known| known == root) {
            inputs.roots.push(root.to_path_buf());
            inputs.git_dirs.extend(git_dirs);
            inputs.read.extend(read);
        }
    }

    /// Removes a folder that was added, for commands that start from now on. `git_dirs` and `read`: the lists that were given when
    /// it was added, without entries that another folder needs.
    pub fn remove_root(&self, root: &Path, git_dirs: &[PathBuf], read: &[PathBuf]) {
        let mut inputs = self.inputs.write().unwrap_or_else(PoisonError::into_inner);
        inputs.roots.retain(|known| known != root);
        inputs.git_dirs.retain(|known| !git_dirs.contains(known));
        inputs.read.retain(|known| !read.contains(known));
    }

    /// The backends that passed their self-test, which runs at the first call.
    pub fn backends(&self) -> &Backends {
        self.backends.get_or_init(|| self.find_backends())
    }

    /// Returns the backend that confines commands at `level`. For [`SandboxLevel::Off`] it is that of the workspace level.
    pub fn backend(&self, level: SandboxLevel) -> &Backend {
        match level {
            SandboxLevel::ReadOnly => &self.backends().read_only,
            SandboxLevel::Workspace | SandboxLevel::DenyRules | SandboxLevel::Off => {
                &self.backends().workspace
            }
        }
    }

    /// Returns the words that go before a command's program to confine it at `level`: none if there is nothing to withhold from
    /// it. `group`: see `Request::group`.
    ///
    /// # Errors
    ///
    /// Fails if no backend works for this level, or if the temporary folder or the proxy cannot be created.
    pub fn confine(&self, level: SandboxLevel, group: Option<PathBuf>) -> Result<Confined, SandboxError> {
        let policy = self.policy(level)?;
        if policy.is_open() {
            let temp = self.temp()?.to_path_buf();
            return Ok(Confined { words: Vec::new(), temp, pass: None });
        }
        let backend = self.backend(level).clone();
        if let Backend::None { why } = backend {
            return Err(SandboxError::Unavailable(why));
        }
        self.words(backend, policy, group)
    }

    /// Says why deny rules for files cannot be enforced on a command that starts now.
    ///
    /// # Errors
    ///
    /// Returns the reason if there are such files, and no backend works.
    pub fn can_hide(&self) -> Result<(), String> {
        match self.backend(SandboxLevel::DenyRules) {
            Backend::None { .. }
                if self.policy(SandboxLevel::DenyRules).is_ok_and(|policy| policy.is_open()) =>
            {
                Ok(())
            }
            Backend::None { why } => Err(why.clone()),
            Backend::Bubblewrap { .. } | Backend::Landlock { .. } => Ok(()),
        }
    }

    /// Returns the words that confine a program that becket starts for its own use. `caches` is a folder that it may write.
    pub(crate) fn confine_program(
        &self,
        kind: ProgramKind,
        caches: Option<PathBuf>,
    ) -> Result<Confined, SandboxError> {
        let backend = self.backend(SandboxLevel::Workspace).clone();
        let inputs = self.present_inputs();
        let mut policy = Policy::for_program(kind, &inputs, self.temp()?, caches);
        // Landlock would still let git's existing files be written. git could not commit anyway, because it makes new names. And an
        // index that the server wrote could name a repository of its own, which git then enters. So the git directories are denied
        // as a whole.
        if kind == ProgramKind::McpServer && matches!(backend, Backend::Landlock { .. }) {
            let own = inputs.roots.iter().map(|root| root.join(".git"));
            policy.deny_write.extend(own.chain(gitlinks::git_dirs(&inputs.roots)));
        }
        self.words(backend, policy, None)
    }

    fn words(
        &self,
        backend: Backend,
        policy: Policy,
        group: Option<PathBuf>,
    ) -> Result<Confined, SandboxError> {
        let temp = self.temp()?.to_path_buf();
        let (pass, proxy) = match policy.network {
            Network::Proxy => {
                let running = self.proxy()?;
                let pass = running.pass();
                let (socket, number) = pass.socket();
                let way = ProxyRoute {
                    socket: socket.to_path_buf(),
                    number,
                    left_out: running.left_out().to_owned(),
                };
                (Some(Arc::new(pass)), Some(way))
            }
            Network::Off | Network::Full => (None, None),
        };
        let program = self.settings.program.clone();
        let mut words = vec![program.clone().into(), WORD.into()];
        let request = Request { backend, policy, program, group, proxy, mounted: Vec::new() };
        words.extend(request.words().map_err(SandboxError::Request)?);
        Ok(Confined { words, temp, pass })
    }

    /// The policy of a command that starts now at `level`.
    ///
    /// # Errors
    ///
    /// Fails if the temporary folder cannot be created.
    pub fn policy(&self, level: SandboxLevel) -> Result<Policy, SandboxError> {
        let temp = self.temp()?;
        let inputs = self.present_inputs();
        let found = match level {
            SandboxLevel::ReadOnly => {
                let trees = inputs.roots.iter().chain(&inputs.read);
                trees.flat_map(|tree| (self.settings.find_secrets)(tree)).collect()
            }
            SandboxLevel::Workspace | SandboxLevel::DenyRules | SandboxLevel::Off => Vec::new(),
        };
        let mut policy = Policy::new(level, &inputs, temp, &found);
        // Landlock cannot limit a command to the proxy. Without namespaces, such a command therefore gets no network.
        if policy.network == Network::Proxy && !matches!(self.backend(level), Backend::Bubblewrap { .. }) {
            policy.network = Network::Off;
        }
        // Landlock cannot tell one local service from another either. Services without a file must be kept away by a network
        // namespace, or by Landlock from version 6 on. Otherwise no local service is allowed.
        let is_kept = matches!(self.backend(level), Backend::Bubblewrap { .. })
            && (policy.network != Network::Full || sys::landlock_abi() >= SIGNALS_ABI);
        if !is_kept {
            policy.unix_sockets.clear();
        }
        Ok(policy)
    }

    /// Records the files that a command at `level` must not change, before it starts; `None` if the level cannot write any of them.
    /// Changes are undone when the lease ends, and repeatedly while the command runs.
    pub fn protect(&self, level: SandboxLevel) -> Option<Lease> {
        if level != SandboxLevel::Workspace {
            return None;
        }
        let policy = self.policy(level).ok()?;
        let is_landlock = matches!(self.backend(level), Backend::Landlock { .. });
        Some(self.leases.start(&policy, false, is_landlock))
    }

    /// Like [`Self::protect`], for an MCP server that starts next. `None` without bubblewrap: Landlock keeps servers from creating
    /// these files.
    pub(crate) fn protect_from_server(&self) -> Option<Lease> {
        if !matches!(self.backend(SandboxLevel::Workspace), Backend::Bubblewrap { .. }) {
            return None;
        }
        let policy =
            Policy::for_program(ProgramKind::McpServer, &self.present_inputs(), self.temp().ok()?, None);
        Some(self.leases.start(&policy, true, false))
    }

    /// Returns the means by which a watcher puts protected files back after becket was killed. `None` if there are none.
    pub fn undo(&self) -> Option<Undo> {
        self.leases.undo()
    }

    /// Undoes what running programs have changed in protected files until now.
    pub fn check_protected(&self) {
        self.leases.check();
    }

    /// Returns what was undone in protected files since the last call, one line for each path.
    pub fn undone(&self) -> Vec<String> {
        self.leases.lines()
    }

    /// Like [`Self::undone`], as whole sentences, for changes that only an MCP server can have made.
    pub fn undone_of_servers(&self) -> Vec<String> {
        let lines = self.leases.server_lines().into_iter();
        let what = "the sandbox does not let MCP servers change this file, because other programs may run commands from it";
        lines
            .map(|line| format!("{what}: {line} (if you made this change yourself, make it again)"))
            .collect()
    }

    /// The private temporary folder of the session, created when it is first needed and removed with the session.
    ///
    /// # Errors
    ///
    /// Fails if the folder can be created in none of the configured ones.
    pub fn temp(&self) -> Result<&Path, SandboxError> {
        self.folder(&self.temp)
    }

    /// The folder for caches of servers that have no configured one. It is made and removed like the temporary folder, but is not
    /// inside it: a command could put a link there that leads elsewhere.
    pub(crate) fn caches(&self) -> Result<&Path, SandboxError> {
        self.folder(&self.caches)
    }

    fn folder<'a>(&self, kept: &'a OnceLock<TempDir>) -> Result<&'a Path, SandboxError> {
        if let Some(folder) = kept.get() {
            return Ok(folder.path());
        }
        let made = in_first(&self.settings.temp, |dir| {
            let private = std::fs::Permissions::from_mode(0o700);
            tempfile::Builder::new().prefix("becket-").permissions(private).tempdir_in(dir.canonicalize()?)
        });
        let made = made.map_err(SandboxError::Temp)?;
        Ok(kept.get_or_init(|| made).path())
    }

    /// The proxy of the session, started when it is first needed.
    fn proxy(&self) -> Result<&Proxy, SandboxError> {
        if let Some(proxy) = self.proxy.get() {
            return Ok(proxy);
        }
        let made = in_first(&self.settings.temp, |dir| {
            Proxy::start(self.settings.hosts.clone(), system_lookup(), dir)
        });
        let made = made.map_err(SandboxError::Proxy)?;
        Ok(self.proxy.get_or_init(|| made))
    }

    fn find_backends(&self) -> Backends {
        let (landlock, bwrap) = (landlock(), self.bubblewrap());
        let tested = |candidates: Vec<Backend>| {
            let mut why = Vec::new();
            for candidate in candidates {
                match self.tested(&candidate) {
                    Ok(()) => return candidate,
                    Err(reason) => why.push(reason),
                }
            }
            Backend::None { why: why.join("; ") }
        };
        match self.settings.only {
            Some(BackendKind::Bubblewrap) => return Backends::same(tested(vec![bwrap])),
            Some(BackendKind::Landlock) => return Backends::same(tested(vec![landlock])),
            None => {}
        }
        let workspace = if self.roots_are_anothers() {
            tested(vec![landlock.clone()])
        } else {
            tested(vec![bwrap.clone(), landlock.clone()])
        };
        // For the read-only level, a new Landlock is preferred: it starts faster, and only it can forbid to start programs of the
        // workspace.
        let newest = matches!(landlock, Backend::Landlock { abi } if abi >= SIGNALS_ABI);
        let read_only = match (&workspace, newest) {
            (Backend::Bubblewrap { .. }, false) | (Backend::Landlock { .. } | Backend::None { .. }, _) => {
                workspace.clone()
            }
            (Backend::Bubblewrap { .. }, true) => tested(vec![landlock, bwrap]),
        };
        Backends { read_only, workspace }
    }

    /// True if becket runs as root and a folder of the workspace belongs to another user, as is usual in containers. In a user
    /// namespace, root could not write that user's files.
    fn roots_are_anothers(&self) -> bool {
        let owner = |path: &PathBuf| path.metadata().map_or(0, |meta| meta.uid());
        rustix::process::geteuid().is_root() && self.inputs().roots.iter().any(|root| owner(root) != 0)
    }

    /// The self-test that the backend of a level has passed.
    pub fn self_test(&self, level: SandboxLevel) -> Option<SelfTest> {
        let backend = self.backend(level);
        let tests = self.tests.lock().unwrap_or_else(PoisonError::into_inner);
        tests.iter().find(|(tested, _)| tested == backend).map(|(_, test)| *test)
    }

    fn tested(&self, backend: &Backend) -> Result<(), String> {
        let name = match backend {
            Backend::None { why } => return Err(why.clone()),
            Backend::Bubblewrap { .. } => "bubblewrap",
            Backend::Landlock { .. } => "Landlock",
        };
        let temp = self.temp().map_err(|e| e.to_string())?;
        let test = probe::test(backend, &self.settings.program, temp)
            .map_err(|why| format!("{name} does not work: {why}"))?;
        self.tests.lock().unwrap_or_else(PoisonError::into_inner).push((backend.clone(), test));
        Ok(())
    }

    fn bubblewrap(&self) -> Backend {
        let usual = ["/usr/bin", "/bin", "/usr/local/bin"].map(PathBuf::from);
        let mut folders = usual.iter().chain(&self.settings.search);
        let found = folders.find_map(|dir| {
            let path = dir.join("bwrap").canonicalize().ok()?;
            // The model can write these places, so a program in one of them must not be trusted to confine commands.
            let inputs = self.inputs();
            let outside = !inputs.roots.iter().chain(&inputs.write).any(|place| path.starts_with(place));
            let meta = path.metadata().ok()?;
            (outside && meta.is_file() && meta.permissions().mode() & 0o111 != 0).then_some(path)
        });
        match found {
            Some(program) => {
                let help = std::process::Command::new(&program).arg("--help").output();
                let takes_files = help.is_ok_and(|help| {
                    String::from_utf8_lossy(&[help.stdout, help.stderr].concat()).contains("--ro-bind-fd")
                });
                Backend::Bubblewrap { program, takes_files }
            }
            None => Backend::None { why: "bubblewrap (bwrap) is not installed".to_owned() },
        }
    }
}

/// Landlock, if the kernel has a version that is new enough.
fn landlock() -> Backend {
    match sys::landlock_abi() {
        0 => Backend::None { why: "the kernel does not offer Landlock".to_owned() },
        abi if abi < OLDEST_ABI => Backend::None {
            why: format!("the kernel's Landlock is too old (version {abi}; {OLDEST_ABI} is needed)"),
        },
        abi => Backend::Landlock { abi },
    }
}

/// Calls `make` with each folder until it succeeds. If it never does, returns the last error.
fn in_first<T>(folders: &[PathBuf], make: impl Fn(&Path) -> std::io::Result<T>) -> std::io::Result<T> {
    let mut error = std::io::Error::new(std::io::ErrorKind::NotFound, "no folder is named for it");
    for folder in folders {
        match make(folder) {
            Ok(made) => return Ok(made),
            Err(e) => error = e,
        }
    }
    Err(error)
}
