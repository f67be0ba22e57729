//! Landlock and seccomp, applied to this process. They stay in force for the rest of its life and for all its children.

use super::filter;
use crate::grants::{Rights, denials, grants};
use crate::policy::{Network, Policy};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::fs::File;
use std::io;
use std::os::fd::{IntoRawFd as _, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// The newest ABI version for which this code has names.
const NEWEST: ABI = ABI::V7;

/// Returns the ABI version of Landlock that the kernel supports: 0 for none, at most 6, because no caller distinguishes later ones.
pub(crate) fn landlock_abi() -> u32 {
    let offers = |abi: ABI| {
        let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        let ruleset = ruleset.handle_access(AccessFs::from_all(abi));
        let ruleset = match AccessNet::from_all(abi) {
            none if none.is_empty() => ruleset,
            all => ruleset.and_then(|ruleset| ruleset.handle_access(all)),
        };
        let ruleset = match Scope::from_all(abi) {
            none if none.is_empty() => ruleset,
            all => ruleset.and_then(|ruleset| ruleset.scope(all)),
        };
        ruleset.and_then(Ruleset::create).is_ok()
    };
    let all = [ABI::V6, ABI::V5, ABI::V4, ABI::V3, ABI::V2, ABI::V1];
    all.into_iter().find(|abi| offers(*abi)).map_or(0, |abi| abi as u32)
}

/// Restricts this process to what the policy grants.
pub(crate) fn restrict(policy: &Policy) -> io::Result<()> {
    let wanted = grants(policy, &names_in);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))
        .map_err(io::Error::other)?;
    if policy.network != Network::Full {
        ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST)).map_err(io::Error::other)?;
    }
    let mut created = ruleset
        .scope(Scope::from_all(NEWEST))
        .map_err(io::Error::other)?
        .create()
        .map_err(io::Error::other)?;
    for (path, rights) in wanted {
        let Some((fd, kind)) = open_place(&path) else { continue };
        let access = access(rights, kind);
        if access.is_empty() {
            continue;
        }
        created = created.add_rule(PathBeneath::new(fd, access)).map_err(io::Error::other)?;
    }
    let status = created.restrict_self().map_err(io::Error::other)?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel does not offer Landlock"));
    }
    Ok(())
}

/// Withholds from this process the files that the policy denies, and as little else as Landlock can: in the folders on the way to
/// such a place nothing can be made, removed or renamed, because the place would then be found under another name.
pub(crate) fn restrict_denied(policy: &Policy) -> io::Result<()> {
    let reads = AccessFs::ReadFile | AccessFs::Execute;
    let writes = AccessFs::from_write(NEWEST);
    let handled = if policy.deny_read.is_empty() { writes } else { reads | writes };
    let mut created = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(handled)
        .and_then(Ruleset::create)
        .map_err(io::Error::other)?;
    for (path, rights) in denials(policy, &names_in) {
        let Some((fd, kind)) = open_place(&path) else { continue };
        let mut access: BitFlags<AccessFs> = BitFlags::empty();
        if rights.read {
            access |= reads;
        }
        if rights.write {
            access |= writes;
        }
        access &= handled;
        if kind != FileType::Directory {
            access &= AccessFs::from_file(NEWEST);
        }
        if !access.is_empty() {
            created = created.add_rule(PathBeneath::new(fd, access)).map_err(io::Error::other)?;
        }
    }
    let status = created.restrict_self().map_err(io::Error::other)?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel does not offer Landlock"));
    }
    Ok(())
}

/// Lists the names in a folder.
fn names_in(dir: &Path) -> Option<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir).ok()?;
    entries.map(|entry| entry.map(|entry| PathBuf::from(entry.file_name()))).collect::<Result<_, _>>().ok()
}

/// Restricts the writes of this process to the places that the policy grants, inside the mounts of bubblewrap. Reads are not
/// restricted, and neither are read-only places inside a writable folder: the mounts take care of both. Without Landlock, does
/// nothing.
pub(crate) fn restrict_writes(policy: &Policy) -> io::Result<()> {
    if landlock_abi() == 0 {
        return Ok(());
    }
    let writes = AccessFs::from_write(NEWEST) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_write(NEWEST))
        .map_err(io::Error::other)?;
    // With full access, the process shares the machine's network namespace, and with it the sockets that have no file.
    if policy.network == Network::Full && !policy.unix_sockets.is_empty() {
        ruleset = ruleset.scope(Scope::AbstractUnixSocket).map_err(io::Error::other)?;
    }
    let mut created = ruleset.create().map_err(io::Error::other)?;
    // The devices in `/dev` are those that bubblewrap makes for the command.
    for path in policy.write.iter().map(PathBuf::as_path).chain([Path::new("/dev")]) {
        let Some((fd, kind)) = open_place(path) else { continue };
        let access = if kind == FileType::Directory { writes } else { writes & AccessFs::from_file(NEWEST) };
        created = created.add_rule(PathBeneath::new(fd, access)).map_err(io::Error::other)?;
    }
    // A program that opens `/dev/stdout` opens the caller's file or terminal again by name, so this is granted.
    let (input, output, errors) = (rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr());
    for fd in [input, output, errors] {
        let is_writable =
            rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags.intersects(OFlags::WRONLY | OFlags::RDWR));
        let kind = rustix::fs::fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode));
        if is_writable && matches!(kind, Ok(FileType::CharacterDevice | FileType::RegularFile)) {
            let access = writes & AccessFs::from_file(NEWEST);
            created = created.add_rule(PathBeneath::new(fd, access)).map_err(io::Error::other)?;
        }
    }
    created.restrict_self().map_err(io::Error::other)?;
    Ok(())
}

/// Opens a path to name it in a grant. No part of the path may be a link, because a link could lead to an excluded
/// path.
fn open_place(path: &Path) -> Option<(OwnedFd, FileType)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let exact = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let opened = match rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), exact) {
        Err(Errno::NOSYS) => rustix::fs::open(path, flags, Mode::empty()),
        other => other,
    };
    let fd = opened.ok()?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&fd).ok()?.st_mode);
    (kind != FileType::Symlink).then_some((fd, kind))
}

fn access(rights: Rights, kind: FileType) -> BitFlags<AccessFs> {
    let mut out = BitFlags::empty();
    if rights.read {
        out |= AccessFs::ReadFile;
    }
    if rights.list {
        out |= AccessFs::ReadDir;
    }
    if rights.execute {
        out |= AccessFs::Execute | AccessFs::ReadFile;
    }
    if rights.write {
        // Only the system makes device files, never a command.
        out |= AccessFs::from_write(NEWEST) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    }
    if rights.device {
        out |= AccessFs::ReadFile
            | AccessFs::WriteFile
            | AccessFs::Truncate
            | AccessFs::IoctlDev
            | AccessFs::ReadDir
            | AccessFs::MakeReg
            | AccessFs::RemoveFile;
    }
    if kind == FileType::Directory { out } else { out & AccessFs::from_file(NEWEST) }
}

/// Drops every capability except those by which root accesses files of other users. The program that replaces this process cannot
/// regain them, because privileges can no longer be gained.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    let kept =
        CapabilitySet::CHOWN | CapabilitySet::DAC_OVERRIDE | CapabilitySet::FOWNER | CapabilitySet::FSETID;
    rustix::thread::set_no_new_privs(true)?;
    rustix::thread::clear_ambient_capability_set()?;
    let now = rustix::thread::capabilities(None)?;
    let left = now.permitted & kept;
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: left, permitted: left, inheritable: none },
    )?;
    Ok(())
}

/// Applies the filter of system calls to this process. `own_ipc`: the process has a separate IPC namespace.
pub(crate) fn seccomp(policy: &Policy, own_ipc: bool) -> io::Result<()> {
    let program = filter::program(policy, own_ipc)?;
    seccompiler::apply_filter(&program).map_err(|e| io::Error::other(e.to_string()))
}

/// Returns a file in memory that has no name in any folder.
pub(crate) fn nameless_memory() -> io::Result<File> {
    Ok(rustix::fs::memfd_create("becket", rustix::fs::MemfdFlags::CLOEXEC)?.into())
}

/// Lets the program that replaces this process inherit the file. Returns the file's descriptor there.
pub(crate) fn keep_open(file: File) -> io::Result<i32> {
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty())?;
    Ok(file.into_raw_fd())
}

/// Lets all programs that this process starts inherit the file, as a descriptor of 200 or more, which no script uses. Returns the
/// descriptor.
pub(crate) fn keep_open_high(file: &File) -> io::Result<i32> {
    let kept = rustix::io::fcntl_dupfd_cloexec(file, 200)?;
    rustix::io::fcntl_setfd(&kept, rustix::io::FdFlags::empty())?;
    Ok(kept.into_raw_fd())
}

/// Opens a path so that the program that replaces this process can name it. No part of the path may be a link. Returns the
/// descriptor.
pub(crate) fn open_kept(path: &Path) -> io::Result<i32> {
    let (fd, _) = open_place(path).ok_or(io::ErrorKind::NotFound)?;
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::empty())?;
    Ok(fd.into_raw_fd())
}

/// Listens on a socket that has a name but no file.
pub(crate) fn abstract_listener(name: &str) -> Option<UnixListener> {
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name).ok()?;
    UnixListener::bind_addr(&address).ok()
}
