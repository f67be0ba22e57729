//! The grants of a level. Pure: makes a [`Policy`] from lists of paths, without access to the disk.
//!
//! All input paths must be absolute and free of symbolic links; the caller resolves them.

use crate::nested_git;
use becket_types::{OBEYED_IN_GIT_DIR, SandboxLevel, has_obeyed_ending, obeyed_in};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Folders with programs, libraries and their data. Programs may be started from them at every level.
const PROGRAMS: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/run/current-system",
    "/snap",
];

/// Further folders of the system that can be read at the read-only level.
const SYSTEM_DATA: &[&str] = &["/etc", "/sys", "/nix/var/nix/profiles", "/var/lib/dpkg", "/var/lib/rpm"];

/// Kernel files that programs read when they start. None of them reveals anything about other processes.
const KERNEL_FACTS: &[&str] = &[
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/loadavg",
    "/proc/version",
    "/proc/filesystems",
    "/proc/sys",
];

/// Devices that store nothing. They can be read and written at every level.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Devices for programs that make terminals of their own. `/dev/shm` is left out, because with Landlock it holds the memory that
/// the user's other programs share.
const TERMINALS: &[&str] = &["/dev/ptmx", "/dev/pts"];

/// Maximum number of files of the workspace that are hidden one by one.
const MOST_HIDDEN: usize = 1_500;

/// Access of a confined command to the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    #[default]
    Off,
    /// The hosts that the user allows, through becket's proxy.
    Proxy,
    Full,
}

impl Network {
    /// Returns the name in the configuration, such as `proxy`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Proxy => "proxy",
            Self::Full => "full",
        }
    }
}

/// A kind of program that becket starts for its own use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    Formatter,
    LanguageServer,
    StatusLine,
    Hook,
    /// An MCP server. It has full access to the network, but cannot read secrets or write outside the workspace.
    McpServer,
}

/// The inputs of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyInputs {
    /// The workspace: the project's folder and every further folder that the user added.
    pub roots: Vec<PathBuf>,
    /// Folders with the data of repositories of the workspace that lie elsewhere (worktrees, submodules).
    pub git_dirs: Vec<PathBuf>,
    /// Further files and folders that can be read at the read-only level: the user's settings of git.
    pub read: Vec<PathBuf>,
    /// Files and folders that no confined command may read: keys, tokens, browser profiles.
    pub secrets: Vec<PathBuf>,
    /// becket's own store and settings: hidden as secrets are, but not from the user's status line.
    pub becket_dirs: Vec<PathBuf>,
    /// Further places that may be written at the workspace level, from the user's configuration.
    pub write: Vec<PathBuf>,
    /// Places that the user's configuration keeps read-only at the workspace level.
    pub deny_write: Vec<PathBuf>,
    /// Places that the user's configuration hides from every confined command.
    pub deny_read: Vec<PathBuf>,
    /// Access to the network at the workspace level; the read-only level has none.
    pub network: Network,
    /// Sockets of local services that commands at the workspace level reach.
    pub unix_sockets: Vec<PathBuf>,
    /// Files of the workspace that git obeys although they are not in `.git`, such as an included configuration.
    pub git_config_files: Vec<PathBuf>,
    /// The user's home folder; empty if there is none.
    pub home: PathBuf,
}

/// The access of one command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    pub level: SandboxLevel,
    /// Trees that can be read.
    #[serde(with = "lossless")]
    pub read: Vec<PathBuf>,
    /// Trees from which programs can be started.
    #[serde(with = "lossless")]
    pub execute: Vec<PathBuf>,
    /// Trees that can be written, with everything in them.
    #[serde(with = "lossless")]
    pub write: Vec<PathBuf>,
    /// Devices that can be opened for reading and writing.
    #[serde(with = "lossless")]
    pub devices: Vec<PathBuf>,
    /// Inside `read`, but hidden.
    #[serde(with = "lossless")]
    pub deny_read: Vec<PathBuf>,
    /// Inside `write`, but read-only: named by the user.
    #[serde(with = "lossless")]
    pub deny_write: Vec<PathBuf>,
    /// Inside `write`, but read-only: places that other programs obey later, whether they exist or not.
    #[serde(with = "lossless")]
    pub protected: Vec<PathBuf>,
    /// Inside `execute`, but no program may be started from there.
    #[serde(with = "lossless")]
    pub deny_execute: Vec<PathBuf>,
    pub network: Network,
    /// Sockets of local services that can be reached. If the list is empty, no socket of this kind can be opened.
    #[serde(with = "lossless", default)]
    pub unix_sockets: Vec<PathBuf>,
}

impl Policy {
    /// The policy of `level` for a command whose private temporary folder is `temp`. `found`: secrets in the workspace, hidden at
    /// the read-only level.
    pub fn new(level: SandboxLevel, inputs: &PolicyInputs, temp: &Path, found: &[PathBuf]) -> Self {
        match level {
            SandboxLevel::ReadOnly => Self::read_only(inputs, temp, found),
            SandboxLevel::DenyRules => Self::deny_rules(inputs),
            SandboxLevel::Workspace | SandboxLevel::Off => Self::workspace(inputs, temp),
        }
    }

    /// Nothing is withheld but the files that deny rules and the user's settings name. Such a command was allowed: it has the
    /// user's network, processes and temporary folder.
    fn deny_rules(inputs: &PolicyInputs) -> Self {
        // In the workspace, the folders on the way to a denied file are kept from being renamed: see `bwrap::pin`.
        let write = paths(&["/"]).into_iter().chain(inputs.roots.iter().cloned()).collect();
        Self {
            level: SandboxLevel::DenyRules,
            read: paths(&["/"]),
            execute: paths(&["/"]),
            write,
            deny_read: inputs.deny_read.clone(),
            deny_write: inputs.deny_write.clone(),
            network: Network::Full,
            ..Self::default()
        }
    }

    /// True if the policy withholds nothing, so that a command needs no confinement for it.
    pub(crate) fn is_open(&self) -> bool {
        self.level == SandboxLevel::DenyRules && self.deny_read.is_empty() && self.deny_write.is_empty()
    }

    fn read_only(inputs: &PolicyInputs, temp: &Path, found: &[PathBuf]) -> Self {
        let mut read = paths(PROGRAMS);
        read.extend(paths(SYSTEM_DATA));
        read.extend(paths(KERNEL_FACTS));
        read.extend(inputs.roots.iter().cloned());
        read.extend(inputs.git_dirs.iter().chain(&inputs.read).cloned());
        let mut deny_read = denied(inputs, temp);
        deny_read.extend(merge_into_folders(found, &inputs.roots));
        Self {
            level: SandboxLevel::ReadOnly,
            read,
            execute: paths(PROGRAMS),
            write: vec![temp.to_path_buf()],
            devices: paths(DEVICES),
            deny_read,
            deny_write: Vec::new(),
            protected: Vec::new(),
            // Programs of the workspace may not be started, even if the workspace is below a folder of the system, such
            // as /opt/app or /usr/src/app. A workspace that contains the system's programs, such as / in a container,
            // could start none at all.
            deny_execute: inputs
                .roots
                .iter()
                .filter(|root| !PROGRAMS.iter().any(|tree| Path::new(tree).starts_with(root)))
                .chain([&temp.to_path_buf()])
                .cloned()
                .collect(),
            network: Network::Off,
            unix_sockets: Vec::new(),
        }
    }

    fn workspace(inputs: &PolicyInputs, temp: &Path) -> Self {
        let mut write = inputs.roots.clone();
        write.extend(inputs.git_dirs.iter().cloned());
        write.extend(inputs.write.iter().cloned());
        write.push(temp.to_path_buf());
        let mut devices = paths(DEVICES);
        devices.extend(paths(TERMINALS));
        let obeyed = inputs
            .roots
            .iter()
            .flat_map(|root| obeyed_in(root).into_iter().chain(files_with_protected_ending(root)));
        let in_git =
            inputs.git_dirs.iter().flat_map(|dir| OBEYED_IN_GIT_DIR.iter().map(move |name| dir.join(name)));
        let own_git =
            inputs.roots.iter().map(|root| root.join(".git")).chain(inputs.git_dirs.iter().cloned());
        let nested = own_git.flat_map(|dir| nested_git::protected(&dir));
        Self {
            level: SandboxLevel::Workspace,
            read: paths(&["/"]),
            execute: paths(&["/"]),
            write,
            devices,
            deny_read: denied(inputs, temp),
            deny_write: inputs.deny_write.clone(),
            protected: obeyed
                .chain(in_git)
                .chain(nested)
                .chain(inputs.git_config_files.iter().cloned())
                .collect(),
            deny_execute: Vec::new(),
            network: inputs.network,
            unix_sockets: inputs.unix_sockets.clone(),
        }
    }

    /// The policy of a program that becket starts for its own use. `more`: places that it may write besides the temporary folder.
    pub(crate) fn for_program(
        kind: ProgramKind,
        inputs: &PolicyInputs,
        temp: &Path,
        more: impl IntoIterator<Item = PathBuf>,
    ) -> Self {
        let network = match kind {
            ProgramKind::LanguageServer | ProgramKind::Hook if inputs.network == Network::Full => {
                Network::Full
            }
            // Most servers give access to a service on the network.
            ProgramKind::McpServer => Network::Full,
            // The proxy is only for commands: it serves a port as long as a command runs.
            ProgramKind::LanguageServer | ProgramKind::Hook => Network::Off,
            ProgramKind::Formatter | ProgramKind::StatusLine => Network::Off,
        };
        let mut write = inputs.write.clone();
        match kind {
            ProgramKind::Hook => write.extend(inputs.roots.iter().chain(&inputs.git_dirs).cloned()),
            ProgramKind::McpServer => write.extend(inputs.roots.iter().cloned()),
            ProgramKind::Formatter | ProgramKind::LanguageServer | ProgramKind::StatusLine => {}
        }
        write.push(temp.to_path_buf());
        write.extend(more);
        let own = match kind {
            ProgramKind::StatusLine | ProgramKind::Hook => Vec::new(),
            ProgramKind::Formatter | ProgramKind::LanguageServer | ProgramKind::McpServer => {
                inputs.becket_dirs.clone()
            }
        };
        let inputs = PolicyInputs { becket_dirs: own, ..inputs.clone() };
        let unix_sockets = Vec::new();
        let mut policy = Self { write, network, unix_sockets, ..Self::workspace(&inputs, temp) };
        // A server runs as long as the session, so undoing changes at its end would come too late. They are denied, with Landlock
        // too.
        if kind == ProgramKind::McpServer {
            policy.deny_write.extend(policy.protected.iter().cloned());
        }
        policy
    }

    /// True if `path` can be written by a command with this policy.
    pub fn may_write(&self, path: &Path) -> bool {
        let below = |list: &[PathBuf]| list.iter().any(|place| path.starts_with(place));
        (below(&self.write) || below(&self.devices)) && !below(&self.deny_write) && !below(&self.protected)
    }

    /// True if the content of `path` can be read by a command with this policy.
    pub fn may_read(&self, path: &Path) -> bool {
        let below = |list: &[PathBuf]| list.iter().any(|place| path.starts_with(place));
        (below(&self.read) || below(&self.write) || below(&self.devices)) && !below(&self.deny_read)
    }
}

/// Returns the files directly in a folder that are protected by the ending of their names.
fn files_with_protected_ending(root: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    entries.filter(|entry| has_obeyed_ending(&entry.file_name())).map(|entry| entry.path()).collect()
}

/// Returns the paths that no command may read. A path that contains the temporary folder or the workspace is left out, because
/// hiding it would hide these too.
fn denied(inputs: &PolicyInputs, temp: &Path) -> Vec<PathBuf> {
    // The user chose the workspace, so a workspace inside a hidden folder stays visible.
    let around =
        |place: &PathBuf| temp.starts_with(place) || inputs.roots.iter().any(|r| r.starts_with(place));
    let secrets = inputs.secrets.iter().chain(&inputs.becket_dirs).filter(|place| !around(place));
    let mut all: Vec<PathBuf> =
        secrets.chain(inputs.deny_read.iter().filter(|p| !temp.starts_with(p))).cloned().collect();
    all.sort();
    all.dedup();
    // A path below a hidden one needs no entry.
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in all {
        if kept.last().is_none_or(|last| !path.starts_with(last)) {
            kept.push(path);
        }
    }
    kept
}

/// While there are more files than [`MOST_HIDDEN`], hides the folder with most of them as a whole. bubblewrap takes some thousand
/// arguments. A folder of the workspace itself stays visible.
fn merge_into_folders(found: &[PathBuf], roots: &[PathBuf]) -> Vec<PathBuf> {
    let mut out = found.to_vec();
    while out.len() > MOST_HIDDEN {
        let mut folders: BTreeMap<&Path, usize> = BTreeMap::new();
        for folder in out.iter().filter_map(|path| path.parent()) {
            if !roots.iter().any(|root| root.starts_with(folder)) {
                *folders.entry(folder).or_default() += 1;
            }
        }
        let Some((folder, _)) = folders.into_iter().max_by_key(|(_, count)| *count) else { break };
        let folder = folder.to_path_buf();
        out.retain(|path| !path.starts_with(&folder));
        out.push(folder);
    }
    out
}

fn paths(list: &[&str]) -> Vec<PathBuf> {
    list.iter().map(PathBuf::from).collect()
}

/// Paths as JSON without loss: as text if they are UTF-8, otherwise as bytes.
pub(crate) mod lossless {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    use std::path::{Path, PathBuf};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    pub(crate) enum Written {
        Text(String),
        Bytes(Vec<u8>),
    }

    impl From<&Path> for Written {
        fn from(path: &Path) -> Self {
            match path.to_str() {
                Some(text) => Self::Text(text.to_owned()),
                None => Self::Bytes(path.as_os_str().as_bytes().to_vec()),
            }
        }
    }

    impl From<Written> for PathBuf {
        fn from(written: Written) -> Self {
            match written {
                Written::Text(text) => Self::from(text),
                Written::Bytes(bytes) => Self::from(OsString::from_vec(bytes)),
            }
        }
    }

    pub(crate) fn serialize<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(|path| Written::from(path.as_path())))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
        let written: Vec<Written> = Vec::deserialize(deserializer)?;
        Ok(written.into_iter().map(PathBuf::from).collect())
    }

    /// A single path.
    pub(crate) mod one {
        use super::{Deserialize as _, Deserializer, PathBuf, Serialize as _, Serializer, Written};
        use std::path::Path;

        pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
            Written::from(path).serialize(serializer)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
            Written::deserialize(deserializer).map(PathBuf::from)
        }
    }
}
