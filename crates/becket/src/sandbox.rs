//! The sandbox of a run: hidden paths, writable paths, and the helper program.
//!
//! Owns the sources of these facts: the environment, the disk and the configuration. `becket_sandbox::policy` decides
//! what a level grants, and `becket_guard` what is secret.

mod lookup;

use crate::environment::Environment;
use crate::git_config_files::{MAX_POINTER_BYTES, pointed_to, work_tree};
use crate::settings::RunSettings;
use becket_config::{Config, SandboxConfig, SandboxMode, SandboxNetwork};
use becket_guard::{DeniedFiles, Rule, Rules, SandboxRules, SandboxWorks};
use becket_network::HostRules;
use becket_sandbox::{Backend, Confine, Network, PolicyInputs, Programs, Sandbox, SandboxSettings};
use becket_types::SandboxLevel;
use lookup::{DeniedPaths, find_denied_paths, secrets_below};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Creates the sandbox for commands in `roots`. Returns `None` if becket cannot start itself again.
pub(crate) fn sandbox(environment: &Environment, config: &Config, roots: &[PathBuf]) -> Option<Sandbox> {
    let sources = PolicySources::new(environment, config, roots);
    let config = &config.tools.sandbox;
    let mut temp = vec![std::env::temp_dir(), PathBuf::from("/var/tmp")];
    temp.push(environment.data_dir.join("tmp"));
    Some(Sandbox::new(SandboxSettings {
        program: own_program(roots, &resolve_configured(&config.write))?,
        inputs: policy_inputs(&sources, roots),
        find_secrets: Arc::new(secrets_below),
        refresh: Some(refresh(sources)),
        search: environment.var("PATH").map(|path| std::env::split_paths(path).collect()).unwrap_or_default(),
        temp,
        only: None,
        hosts: HostRules::new(&config.allow_hosts, &config.deny_hosts)
            .unwrap_or_else(|entry| HostRules::unreadable(&entry)),
    }))
}

/// Returns a note if an entry of the lists of hosts cannot be parsed. Commands then reach no host at all.
pub(crate) fn invalid_hosts_note(config: &SandboxConfig) -> Option<String> {
    let entry = HostRules::new(&config.allow_hosts, &config.deny_hosts).err()?;
    Some(format!(
        "commands reach no host: in sandbox.allow_hosts or sandbox.deny_hosts, {entry}; correct it or remove it"
    ))
}

/// Passes changes of a session on to its sandbox: folders that join or leave the workspace, and changed deny rules.
#[derive(Debug)]
struct SessionConfinement {
    sandbox: Arc<Sandbox>,
    environment: Environment,
    config: SandboxConfig,
    /// The working directory, at which relative rules start.
    cwd: PathBuf,
    unsearched: UnsearchedNote,
    /// The last [`UnsearchedNote`] that was reported.
    reported: Mutex<Option<String>>,
}

/// Returns the object through which the agent reports changes of the session to the sandbox.
pub(crate) fn session_confinement(
    sandbox: Arc<Sandbox>,
    environment: &Environment,
    run: &RunSettings,
) -> Arc<dyn becket_agent::Confinement> {
    let config = run.settings.config.tools.sandbox.clone();
    let cwd = run.project.roots.first().cloned().unwrap_or_else(|| PathBuf::from("/"));
    let sources = PolicySources::new(environment, &run.settings.config, &run.project.roots);
    let unsearched = Arc::clone(&sources.unsearched);
    sandbox.look_up_with(refresh(sources));
    let (environment, reported) = (environment.clone(), Mutex::default());
    Arc::new(SessionConfinement { sandbox, environment, config, cwd, unsearched, reported })
}

impl becket_agent::Confinement for SessionConfinement {
    fn add_folder(&self, folder: &Path) -> Vec<PathBuf> {
        let roots = [folder.to_path_buf()];
        let (git_dirs, read) = repository(&self.environment, &roots);
        self.sandbox.add_root(folder, git_dirs, read);
        crate::git_config_files::git_config_files(&roots, self.environment.home.as_deref())
    }

    fn remove_folder(&self, folder: &Path, roots: &[PathBuf]) {
        let (mut git_dirs, mut read) = repository(&self.environment, &[folder.to_path_buf()]);
        let (git_dirs_kept, read_kept) = repository(&self.environment, roots);
        git_dirs.retain(|dir| !git_dirs_kept.contains(dir));
        read.retain(|dir| !read_kept.contains(dir));
        self.sandbox.remove_root(folder, &git_dirs, &read);
    }

    fn deny(&self, rules: &[Rule]) {
        let mut sources = PolicySources::with_rules(&self.environment, &self.config, rules, &self.cwd);
        sources.unsearched = Arc::clone(&self.unsearched);
        self.sandbox.look_up_with(refresh(sources));
    }

    fn undone(&self) -> Vec<String> {
        let mut lines = self.sandbox.undone_of_servers();
        let now = self.unsearched.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if *reported != now {
            lines.extend(now.clone());
            *reported = now;
        }
        lines
    }
}

/// Returns the git data folders outside of `roots` that belong to repositories around them, and the work trees around `roots`.
fn repository(environment: &Environment, roots: &[PathBuf]) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let mut git_dirs: Vec<PathBuf> = roots.iter().flat_map(|root| git_dirs(root)).collect();
    git_dirs.sort();
    git_dirs.dedup();
    // In a subfolder, git reads the whole work tree. A home folder that is a repository is not opened for that.
    let is_home = |tree: &Path| environment.home.as_ref().is_some_and(|home| home.starts_with(tree));
    let trees = roots.iter().filter_map(|root| work_tree(root)).filter(|tree| !is_home(tree));
    (git_dirs, trees.filter(|tree| !roots.contains(tree)).collect())
}

/// Returns becket's own program, even if its file was replaced while it runs. `roots` and `writable`: the places that a confined
/// command may write. It could replace a program there, and that would then run unconfined in becket's place.
fn own_program(roots: &[PathBuf], writable: &[PathBuf]) -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let real = own.canonicalize().ok();
    let is_exposed = |real: &PathBuf| roots.iter().chain(writable).any(|place| real.starts_with(place));
    if real.is_some_and(|real| !is_exposed(&real)) {
        return Some(own);
    }
    // A path to the open file of the running program, which a command cannot replace.
    if let Ok(kept) = becket_sandbox::running_program() {
        return Some(kept);
    }
    let running = PathBuf::from(format!("/proc/{}/exe", std::process::id()));
    running.exists().then_some(running)
}

/// Returns the guard's rules: what must be confined, and which levels work here.
pub(crate) fn rules(config: &SandboxConfig, sandbox: Option<&Arc<Sandbox>>) -> SandboxRules {
    let sandbox = sandbox.map(Arc::clone);
    let works: SandboxWorks = Arc::new(move |level| {
        let sandbox = sandbox.as_ref().ok_or("becket's own program is not found")?;
        match sandbox.backend(level) {
            _ if level == SandboxLevel::DenyRules => sandbox.can_hide(),
            Backend::None { why } => Err(why.clone()),
            _ => Ok(()),
        }
    });
    SandboxRules {
        works: (config.mode != SandboxMode::Off).then_some(works),
        floor: match config.mode {
            SandboxMode::Off | SandboxMode::Auto => SandboxLevel::Off,
            SandboxMode::Required => SandboxLevel::Workspace,
            SandboxMode::ReadOnly => SandboxLevel::ReadOnly,
        },
        auto_allow: config.auto_allow_bash,
        deny_unavailable: config.fail_if_unavailable,
        excluded: config.excluded_commands.clone(),
    }
}

/// Returns the starter of formatters, language servers and the status line program of a session in `roots`.
pub(crate) fn programs(
    environment: &Environment,
    config: &SandboxConfig,
    sandbox: Option<&Arc<Sandbox>>,
    roots: &[PathBuf],
) -> Programs {
    let confine = match config.mode {
        SandboxMode::Off => Confine::Never,
        SandboxMode::Auto if !config.fail_if_unavailable => Confine::IfPossible,
        SandboxMode::Auto | SandboxMode::Required | SandboxMode::ReadOnly => Confine::Always,
    };
    // Each workspace has its own folder, so that no project can use caches that another one has written.
    let caches = environment.cache_dir().zip(roots.first()).map(|(caches, root)| {
        let name = becket_tool::sha256(root.as_os_str().as_encoded_bytes());
        caches.join("servers").join(&name[..16])
    });
    Programs::new(confine, sandbox.map(Arc::clone), caches)
}

/// Describes the user's protection on this machine in one line.
pub(crate) fn summary(config: &SandboxConfig, sandbox: Option<&Sandbox>) -> String {
    let Some(sandbox) = sandbox.filter(|_| config.mode != SandboxMode::Off) else {
        return match config.mode {
            SandboxMode::Off => "off (sandbox.mode): commands that only read run unconfined".to_owned(),
            _ => "none: becket's own binary was not found; becket asks about commands that only read"
                .to_owned(),
        };
    };
    let (reads, works) = (sandbox.backend(SandboxLevel::ReadOnly), sandbox.backend(SandboxLevel::Workspace));
    match (reads, works) {
        (Backend::None { why }, _) => format!(
            "none ({why}). Asked about: every command, also those that only read. As always: rules, secrets, becket's own \
             tools. Not confined: commands that you allow, formatters, language servers, hooks, MCP servers, the status line"
        ),
        (reads, Backend::None { why }) => format!("read-only: {reads}; workspace: none, because {why}"),
        (reads, works) if reads == works => {
            format!("{reads}; self-test passed{}", self_test_summary(sandbox))
        }
        (reads, works) => {
            format!("read-only: {reads}; workspace: {works}; self-tests passed{}", self_test_summary(sandbox))
        }
    }
}

/// Says how many actions were tried in the self-test of the workspace level.
fn self_test_summary(sandbox: &Sandbox) -> String {
    let test = sandbox.self_test(SandboxLevel::Workspace);
    test.map(|test| format!(" ({} forbidden actions failed)", test.forbidden)).unwrap_or_default()
}

/// Returns the lookup of what may change while the session runs: a secret that is made then is hidden from the next command, and a
/// configuration that git includes is protected once it is there.
fn refresh(sources: PolicySources) -> becket_sandbox::Refresh {
    Arc::new(move |inputs| {
        let places = PolicyPaths::from_sources(&sources, &inputs.roots);
        inputs.secrets = places.secrets;
        inputs.becket_dirs = places.becket_dirs;
        inputs.deny_read = places.deny_read;
        inputs.deny_write = places.deny_write;
        inputs.unix_sockets = resolve_configured(&sources.config.unix_sockets);
        inputs.git_config_files = places.git_config_files;
    })
}

/// The settings from which [`PolicyPaths`] are looked up.
struct PolicySources {
    environment: Environment,
    config: SandboxConfig,
    /// The files that deny rules name. A command may open them by words that becket cannot know before it runs.
    denied: DeniedFiles,
    unsearched: UnsearchedNote,
}

/// A line for the user about the places in which becket has not looked for files that match patterns of deny rules, as of the last
/// start of a command or program. `None`: it has looked everywhere.
type UnsearchedNote = Arc<Mutex<Option<String>>>;

impl PolicySources {
    fn new(environment: &Environment, config: &Config, roots: &[PathBuf]) -> Self {
        let none: &[String] = &[];
        // Rules that cannot be parsed are left out here. The guard reports them.
        let rules = Rules::parse(none, none, &config.permissions.rules.deny).unwrap_or_default();
        let cwd = roots.first().map_or(Path::new("/"), PathBuf::as_path);
        Self::with_rules(environment, &config.tools.sandbox, &rules.deny, cwd)
    }

    /// `deny`: the deny rules. Relative patterns in them start at `cwd`.
    fn with_rules(environment: &Environment, config: &SandboxConfig, deny: &[Rule], cwd: &Path) -> Self {
        let home = environment.home.as_deref().unwrap_or(Path::new("/"));
        let denied = DeniedFiles::new(deny, cwd, home);
        Self { environment: environment.clone(), config: config.clone(), denied, unsearched: Arc::default() }
    }
}

/// Inputs of a policy that may change while a session runs.
struct PolicyPaths {
    secrets: Vec<PathBuf>,
    becket_dirs: Vec<PathBuf>,
    deny_read: Vec<PathBuf>,
    deny_write: Vec<PathBuf>,
    git_config_files: Vec<PathBuf>,
}

impl PolicyPaths {
    fn from_sources(sources: &PolicySources, roots: &[PathBuf]) -> Self {
        let PolicySources { environment, config, denied, unsearched } = sources;
        let mut obeyed = crate::git_config_files::git_config_files(roots, environment.home.as_deref());
        let DeniedPaths { read: mut deny_read, write: by_rules, unsearched_note: beyond, .. } =
            find_denied_paths(denied, roots, &resolve_configured(&config.write));
        *unsearched.lock().unwrap_or_else(PoisonError::into_inner) = beyond;
        let named = denied.named().filter(|path| denied.write(path)).map(Path::to_path_buf);
        let wanted = config.deny_write.iter().map(PathBuf::from).chain(named).chain(by_rules);
        // Neither backend can deny a name that does not exist. Such a name is checked after each command, and undone,
        // like a protected file.
        let (there, absent): (Vec<_>, Vec<_>) = wanted.partition(|path| path.symlink_metadata().is_ok());
        let root = Path::new("/");
        obeyed.extend(absent.into_iter().filter_map(|path| becket_tool::paths::resolve(root, &path).ok()));
        deny_read.extend(resolve_configured(&config.deny_read));
        let mut deny_write: Vec<PathBuf> =
            there.into_iter().filter_map(|path| path.canonicalize().ok()).collect();
        deny_write.sort();
        deny_write.dedup();
        let all = deny_write.clone();
        deny_write.retain(|path| !all.iter().any(|place| path != place && path.starts_with(place)));
        Self {
            // Only existing files and folders can be hidden, at their real paths. Files that this user cannot read need no
            // hiding.
            secrets: hidden(&becket_guard::secret_places(environment.home.as_deref())),
            becket_dirs: hidden(&[
                environment.data_dir.clone(),
                environment.store_dir.clone(),
                environment.config_dir.clone(),
            ]),
            deny_read,
            deny_write,
            git_config_files: obeyed,
        }
    }
}

/// Returns a line about the files that deny rules with patterns may name and that the sandbox does not find, so does not hide.
pub(crate) fn unsearched(environment: &Environment, config: &Config, roots: &[PathBuf]) -> Option<String> {
    let sources = PolicySources::new(environment, config, roots);
    let found = find_denied_paths(&sources.denied, roots, &resolve_configured(&sources.config.write));
    let all: Vec<String> = [found.unsearched_note, found.workspace_only_note].into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Returns the inputs that stay as they are while the session runs. The places among them are empty: [`refresh`] looks them up
/// for each command, so that a session without commands does not pay for it.
fn policy_inputs(sources: &PolicySources, roots: &[PathBuf]) -> PolicyInputs {
    let PolicySources { environment, config, .. } = sources;
    let (git_dirs, trees) = repository(environment, roots);
    // Git reads these files with every command. They are allowed one by one, as other files in their folders may be secrets.
    let settings = [".gitconfig", ".config/git/config", ".config/git/ignore", ".config/git/attributes"];
    let settings = environment.home.iter().flat_map(|home| settings.iter().map(move |name| home.join(name)));
    let mut read: Vec<PathBuf> = settings.filter_map(|path| path.canonicalize().ok()).collect();
    read.extend(trees);
    PolicyInputs {
        roots: roots.to_vec(),
        home: real_home(environment),
        git_dirs,
        read,
        write: resolve_configured(&config.write),
        network: match config.network() {
            SandboxNetwork::Off => Network::Off,
            SandboxNetwork::Proxy => Network::Proxy,
            SandboxNetwork::Full => Network::Full,
        },
        ..PolicyInputs::default()
    }
}

/// Returns the home folder without links, as the paths of the workspace are; empty if there is none.
pub(crate) fn real_home(environment: &Environment) -> PathBuf {
    let home = environment.home.as_deref();
    home.and_then(|home| home.canonicalize().ok()).unwrap_or_default()
}

fn hidden(places: &[PathBuf]) -> Vec<PathBuf> {
    // Few of these places exist on a machine, and checking that is cheaper than resolving them.
    let there = places.iter().filter(|path| readable(path));
    there.filter_map(|path| path.canonicalize().ok()).filter(|path| readable(path)).collect()
}

fn readable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::READ_OK).is_ok()
        || rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Resolves the paths that the user configured to their real paths.
fn resolve_configured(paths: &[String]) -> Vec<PathBuf> {
    paths.iter().filter_map(|path| Path::new(path).canonicalize().ok()).collect()
}

/// Returns folders with the data of the repository around `root`, as far as they are outside of `root`. This happens if
/// `root` is a subfolder, a worktree or a submodule.
fn git_dirs(root: &Path) -> Vec<PathBuf> {
    let Some(tree) = work_tree(root) else { return Vec::new() };
    let dot_git = tree.join(".git");
    let outside = |dir: PathBuf| (!dir.starts_with(root)).then_some(dir);
    if dot_git.is_dir() {
        return dot_git.canonicalize().ok().and_then(outside).into_iter().collect();
    }
    let Some(dir) = pointed_to(&dot_git, "gitdir:") else { return Vec::new() };
    // A `.git` file can name any folder. The folder is accepted only if it names this work tree in return.
    let back = |name: &str, from: &Path| {
        let text = becket_files::read_text(&dir.join(name), MAX_POINTER_BYTES).ok()?;
        let named = match name {
            "gitdir" => text.trim().to_owned(),
            _ => text.lines().find_map(|line| line.trim().strip_prefix("worktree = ").map(str::to_owned))?,
        };
        dir.join(named).canonicalize().ok().filter(|named| named == from)
    };
    if back("gitdir", &dot_git).is_none() && back("config", &tree).is_none() {
        return Vec::new();
    }
    let common = pointed_to(&dir.join("commondir"), "");
    [Some(dir), common].into_iter().flatten().filter_map(outside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_data_of_a_repository_outside_is_found_only_where_it_points_back() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let write = |path: &str, text: String| {
            fs::create_dir_all(base.join(path).parent().unwrap()).unwrap();
            fs::write(base.join(path), text).unwrap();
        };
        let at = |path: &str| base.join(path);
        // A worktree, as `git worktree add` creates it.
        write("main/.git/HEAD", String::new());
        write("main/.git/worktrees/w/commondir", "../..\n".to_owned());
        write("main/.git/worktrees/w/gitdir", format!("{}\n", at("w/.git").display()));
        write("w/.git", format!("gitdir: {}\n", at("main/.git/worktrees/w").display()));
        // A submodule.
        write("main/.git/modules/s/config", "[core]\n\tworktree = ../../../s\n".to_owned());
        write("main/s/.git", "gitdir: ../.git/modules/s\n".to_owned());
        // A pointer to a folder that does not point back.
        write("home/.ssh/id", String::new());
        write("evil/.git", format!("gitdir: {}\n", at("home/.ssh").display()));
        fs::create_dir_all(at("main/sub")).unwrap();
        fs::create_dir_all(at("none")).unwrap();
        for (root, want) in [
            ("main", vec![]),
            ("main/sub", vec![at("main/.git")]),
            ("w", vec![at("main/.git/worktrees/w"), at("main/.git")]),
            ("main/s", vec![at("main/.git/modules/s")]),
            ("evil", vec![]),
            ("none", vec![]),
        ] {
            assert_eq!(git_dirs(&at(root)), want, "{root}");
        }
    }

    #[test]
    fn a_program_that_a_command_could_replace_is_not_started_by_its_path() {
        let own = std::env::current_exe().unwrap();
        let folder = own.canonicalize().unwrap().parent().unwrap().to_path_buf();
        let elsewhere = [PathBuf::from("/nowhere")];
        assert_eq!(own_program(&elsewhere, &elsewhere), Some(own));
        let folder = [folder];
        for (roots, writable) in [(&folder, &elsewhere), (&elsewhere, &folder)] {
            let kept = own_program(roots, writable).unwrap();
            assert!(kept.starts_with("/proc"), "{}", kept.display());
        }
    }

    #[test]
    fn places_that_come_later_are_hidden_and_denied() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let home = base.join("home");
        let environment = Environment { home: Some(home.clone()), ..Environment::below(&base) };
        let at = |name: &str| base.join(name).to_string_lossy().into_owned();
        let mut config = Config::default();
        config.tools.sandbox.deny_read = vec![at("ws/later")];
        config.tools.sandbox.deny_write = vec![at("ws/dist")];
        config.permissions.rules.deny =
            ["Edit(./gen/**)", "Edit(*.lock)", "Read(./private/**)", "Bash(rm *)"].map(str::to_owned).into();
        let roots = [base.join("ws")];
        fs::create_dir_all(base.join("ws/.git")).unwrap();
        fs::create_dir_all(&home).unwrap();
        let sources = || PolicySources::new(&environment, &config, &roots);
        let refresh = refresh(sources());
        let mut inputs = policy_inputs(&sources(), &roots);
        refresh(&mut inputs);
        assert!(inputs.deny_read.is_empty() && inputs.deny_write.is_empty());
        assert!(
            ["ws/dist", "ws/gen"].iter().all(|name| inputs.git_config_files.contains(&base.join(name))),
            "{inputs:?}"
        );
        for (path, text) in [
            (home.join(".netrc"), "x"),
            (base.join("ws/later"), "x"),
            (base.join("ws/dist/a"), "x"),
            (base.join("ws/gen/a"), "x"),
            (base.join("ws/sub/a.lock"), "x"),
            (base.join("ws/private/a"), "x"),
            (base.join("ws/.git/config"), "[include]\n\tpath = ../dev/gitconfig\n"),
        ] {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        refresh(&mut inputs);
        assert!(inputs.secrets.contains(&home.join(".netrc")), "{inputs:?}");
        assert_eq!(inputs.deny_read, [base.join("ws/private"), base.join("ws/later")]);
        assert_eq!(inputs.deny_write, ["ws/dist", "ws/gen", "ws/sub/a.lock"].map(|name| base.join(name)));
        assert_eq!(inputs.git_config_files, [base.join("ws/dev/gitconfig")]);
    }
}
