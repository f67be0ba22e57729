//! The seccomp filter: forbids system calls that a confined command does not need and that could circumvent its
//! confinement.
//!
//! All other calls are allowed: Landlock or the mounts limit their effects. Calls that programs try first and can do
//! without (`clone3`, `io_uring_setup`) fail with "not implemented", so that programs fall back to others. Other
//! forbidden calls fail with "not permitted".

use crate::policy::{Network, Policy};
use becket_types::SandboxLevel;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    sock_filter,
};
use std::collections::BTreeMap;
use std::io;

/// Forbidden at every level: access to other processes' memory, to keys and mounts, and changes of the kernel, the clock and other
/// settings of the machine.
const FORBIDDEN: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    KEXEC_FILE_LOAD,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    QUOTACTL_FD,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];

/// Access to the machine's ports, which only x86 has; root could write to devices with it.
#[cfg(target_arch = "x86_64")]
const PORTS: &[i64] = &[libc::SYS_iopl, libc::SYS_ioperm];
#[cfg(not(target_arch = "x86_64"))]
const PORTS: &[i64] = &[];

#[cfg(target_arch = "x86_64")]
const KEXEC_FILE_LOAD: i64 = 320;
#[cfg(not(target_arch = "x86_64"))]
const KEXEC_FILE_LOAD: i64 = 294;

/// Memory, semaphores and messages that processes find by a number, without a file. Landlock does not cover them; bubblewrap gives a
/// command a namespace of its own for them.
const SHARED: &[i64] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Changes of permission bits, owners, times and attributes, forbidden at the read-only level only. Landlock does not cover them,
/// and commands that only read do not need them.
const METADATA: &[i64] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
];

/// The same calls under their older names, which only x86 has.
#[cfg(target_arch = "x86_64")]
const OLD_METADATA: &[i64] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_METADATA: &[i64] = &[];

// System calls without a name in `libc`; their numbers are the same on every architecture.
const FCHMODAT2: i64 = 452;
const QUOTACTL_FD: i64 = 443;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const FILE_SETATTR: i64 = 469;

/// Calls that fail with "not implemented". The arguments of `clone3` are in memory, where no filter can read them.
const NOT_IMPLEMENTED: &[i64] =
    &[libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// Flags of `clone` and `unshare` that make a namespace: in a new user namespace a process would have every capability.
const NAMESPACES: &[i32] = &[
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// Requests of `ioctl` that are refused. Two type into a terminal in place of its user (`TIOCSTI`, `TIOCLINUX`). Five set
/// attributes of a file that is open only for reading, such as "immutable" (`FS_IOC_SETFLAGS`, `FS_IOC_FSSETXATTR`,
/// `FS_IOC_ENABLE_VERITY`, `FS_IOC_SET_ENCRYPTION_POLICY`, `FAT_IOCTL_SET_ATTRIBUTES`). The others make and remove
/// subvolumes of btrfs through a folder that is open only for reading, which Landlock does not see.
const REQUESTS: &[u32] = &[
    0x5412,
    0x541C,
    0x4008_6602,
    0x401C_5820,
    0x4080_6685,
    0x800C_6613,
    0x4004_7211,
    0x5000_9401,
    0x5000_940E,
    0x5000_940F,
    0x5000_9417,
    0x5000_9418,
    0x5000_943F,
];

/// The bits of a socket's type without its flags.
const SOCKET_TYPE: u64 = 0xf;

/// Higher system call numbers belong to the x32 ABI, which the rules by number do not cover.
const X32: u32 = 0x4000_0000;

// `struct seccomp_data`: the number of the call is its first field.
const LOAD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
const ANSWER_ERROR: u32 = 0x0005_0000;

/// Returns the filter in the kernel's format. `own_ipc`: the command has a separate IPC namespace, so shared memory needs no
/// filter.
pub(crate) fn program(policy: &Policy, own_ipc: bool) -> io::Result<BpfProgram> {
    let wrong = |e: seccompiler::BackendError| io::Error::other(e.to_string());
    let arch = std::env::consts::ARCH.try_into().map_err(wrong)?;
    let filter = SeccompFilter::new(
        rules(policy, own_ipc).map_err(wrong)?,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM.cast_unsigned()),
        arch,
    )
    .map_err(wrong)?;
    let rest: BpfProgram = filter.try_into().map_err(wrong)?;
    let mut out = not_implemented();
    out.extend(rest);
    Ok(out)
}

/// Returns the first part of the filter: calls that fail with "not implemented".
fn not_implemented() -> BpfProgram {
    let answer = sock_filter { code: RETURN, jt: 0, jf: 0, k: ANSWER_ERROR | libc::ENOSYS.cast_unsigned() };
    let mut out = vec![sock_filter { code: LOAD, jt: 0, jf: 0, k: 0 }];
    out.push(sock_filter { code: JUMP_AT_LEAST, jt: 0, jf: 1, k: X32 });
    out.push(answer.clone());
    for number in NOT_IMPLEMENTED {
        out.push(sock_filter { code: JUMP_EQUAL, jt: 0, jf: 1, k: *number as u32 });
        out.push(answer.clone());
    }
    out
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn rules(policy: &Policy, own_ipc: bool) -> Result<Rules, seccompiler::BackendError> {
    let mut out: Rules = FORBIDDEN.iter().chain(PORTS).map(|number| (*number, Vec::new())).collect();
    if policy.level == SandboxLevel::ReadOnly {
        out.extend(METADATA.iter().chain(OLD_METADATA).map(|number| (*number, Vec::new())));
    }
    if !own_ipc {
        out.extend(SHARED.iter().map(|number| (*number, Vec::new())));
    }
    let all_of = |arg: u8, flag: u64| {
        let masked = SeccompCmpOp::MaskedEq(flag);
        SeccompRule::new(vec![SeccompCondition::new(arg, SeccompCmpArgLen::Qword, masked, flag)?])
    };
    let is = |arg: u8, op: SeccompCmpOp, value: u64| {
        // The kernel too reads only the low 32 bits of these arguments.
        SeccompCondition::new(arg, SeccompCmpArgLen::Dword, op, value)
    };
    let namespaces = || {
        NAMESPACES
            .iter()
            .map(|flag| all_of(0, u64::from(flag.cast_unsigned())))
            .collect::<Result<Vec<_>, _>>()
    };
    out.insert(libc::SYS_clone, namespaces()?);
    out.insert(libc::SYS_unshare, namespaces()?);
    let requests = REQUESTS
        .iter()
        .map(|request| SeccompRule::new(vec![is(1, SeccompCmpOp::Eq, u64::from(*request))?]))
        .collect::<Result<Vec<_>, _>>()?;
    out.insert(libc::SYS_ioctl, requests);
    // `prlimit` may change limits only of the calling process, which is named 0: without processor time left, another process would
    // be ended.
    let other = SeccompRule::new(vec![
        is(0, SeccompCmpOp::Ne, 0)?,
        SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?,
    ])?;
    out.insert(libc::SYS_prlimit64, vec![other]);
    let family = |op: SeccompCmpOp, family: i32| is(0, op, u64::from(family.cast_unsigned()));
    // A pair of connected sockets reaches no other process, so it is allowed; many programs use one. A pair of datagram sockets is
    // forbidden: each message can name another receiver. The kernel makes such a pair for `SOCK_RAW`, too.
    let of_type = |kind: i32| is(1, SeccompCmpOp::MaskedEq(SOCKET_TYPE), u64::from(kind.cast_unsigned()));
    let pairs = vec![
        SeccompRule::new(vec![family(SeccompCmpOp::Ne, libc::AF_UNIX)?])?,
        SeccompRule::new(vec![of_type(libc::SOCK_DGRAM)?])?,
        SeccompRule::new(vec![of_type(libc::SOCK_RAW)?])?,
    ];
    out.insert(libc::SYS_socketpair, pairs);
    // Socket families that are allowed: the internet (with the proxy, a network without a route out) and the list of network
    // interfaces.
    let mut families = match policy.network {
        Network::Off => Vec::new(),
        Network::Full | Network::Proxy => vec![libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
    };
    // If the user names local services such as Docker's, Unix sockets are allowed; all other services are hidden. Datagram sockets
    // stay forbidden, because each message could name a service that was opened later.
    let mut sockets = Vec::new();
    if !policy.unix_sockets.is_empty() {
        families.push(libc::AF_UNIX);
        for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
            sockets.push(SeccompRule::new(vec![family(SeccompCmpOp::Eq, libc::AF_UNIX)?, of_type(kind)?])?);
        }
    }
    let others =
        families.iter().map(|known| family(SeccompCmpOp::Ne, *known)).collect::<Result<Vec<_>, _>>()?;
    // If no family is allowed, the list stays empty, which forbids every call.
    if !others.is_empty() {
        sockets.push(SeccompRule::new(others)?);
    }
    out.insert(libc::SYS_socket, sockets);
    Ok(out)
}
