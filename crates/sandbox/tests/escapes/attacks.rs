//! Attacks that must not succeed, at both levels, on every backend.

use crate::ground::{DONE, Ground, PRIVATE, SECRET, grounds};
use becket_sandbox::BackendKind;
use becket_types::SandboxLevel::{self, ReadOnly, Workspace};

/// Changes of files outside the workspace.
const WRITES: &[&str] = &[
    "echo x > \"$OUT\"/new",
    "echo x >> \"$OUT\"/victim.txt",
    ": > \"$OUT\"/victim.txt",
    "truncate -s 0 \"$OUT\"/victim.txt",
    "python3 -c 'import os; os.truncate(os.environ[\"OUT\"]+\"/victim.txt\", 0)'",
    "rm -f \"$OUT\"/victim.txt",
    "mv \"$OUT\"/victim.txt \"$TMPDIR\"/",
    "mv \"$OUT\" \"$OUT\".away",
    "mkdir \"$OUT\"/folder",
    "ln -s /etc/passwd \"$OUT\"/link",
    "ln \"$OUT\"/victim.txt \"$TMPDIR\"/hard && echo x > \"$TMPDIR\"/hard",
    "ln a.txt \"$OUT\"/hard",
    "mkfifo \"$OUT\"/fifo",
    "mknod \"$OUT\"/device c 1 3",
    // A pipe that another program reads: a read-only mount alone does not keep a command from writing to it.
    "exec 7<>\"$OUT\"/pipe && echo x >&7 && echo DID-IT",
    "python3 -c 'import os; f=os.open(os.environ[\"OUT\"]+\"/pipe\", os.O_RDWR|os.O_NONBLOCK); os.write(f, b\"x\"); print(\"DID-IT\")'",
    "exec 7<>/proc/self/root\"$OUT\"/pipe && echo DID-IT",
    "exec 7<>link-out/pipe && echo DID-IT",
    "echo x > link-out/new",
    "cd link-out && echo x > new",
    "cp a.txt link-out/",
    "ln -s \"$OUT\"/victim.txt \"$TMPDIR\"/way; echo x > \"$TMPDIR\"/way",
    "ln -s \"$OUT\" \"$TMPDIR\"/dir; echo x > \"$TMPDIR\"/dir/new",
    "echo x > ../outside/new",
    "echo x > /proc/self/root\"$OUT\"/new",
    "echo x > /proc/self/cwd/../outside/new",
    "echo x > /proc/$VICTIM/root\"$OUT\"/new",
    "exec 7<\"$OUT\"; echo x > /proc/self/fd/7/new",
    "exec 7<\"$OUT\"/victim.txt; echo x > /proc/self/fd/7",
    "(setsid sh -c 'echo x > \"$OUT\"/late' &); setsid -w sh -c 'echo x > \"$OUT\"/late'",
    "nohup sh -c 'echo x > \"$OUT\"/late'",
    "python3 -c 'import os; os.open(os.environ[\"OUT\"]+\"/new\", os.O_CREAT|os.O_WRONLY)'",
    "python3 -c 'import os; os.open(os.environ[\"OUT\"], os.O_TMPFILE|os.O_WRONLY)' && python3 -c 'import os; f=os.open(os.environ[\"OUT\"], os.O_TMPFILE|os.O_RDWR); os.link(\"/proc/self/fd/%d\" % f, os.environ[\"OUT\"]+\"/new\", follow_symlinks=True)'",
    "rm -rf \"$BASE\"/home",
    "mv \"$BASE\"/home \"$BASE\"/elsewhere",
    "cd / && tar cf \"$OUT\"/new.tar etc/hostname",
    "umount -l / ; mount -o remount,rw / ; mount --bind \"$TMPDIR\" \"$OUT\" && echo x > \"$OUT\"/new",
    "chroot / sh -c 'echo x > \"$OUT\"/new'",
    "unshare -Ur sh -c 'echo x > \"$OUT\"/new'",
    "unshare -Urm sh -c 'mount -o remount,rw /; echo x > \"$OUT\"/new'",
    "bwrap --bind / / sh -c 'echo x > \"$OUT\"/new'",
    "nsenter -t $VICTIM -m sh -c 'echo x > \"$OUT\"/new'",
    // Each value is written back unchanged, so the machine is not damaged if the attack succeeds.
    "v=$(cat /proc/sys/kernel/core_pattern); echo \"$v\" > /proc/sys/kernel/core_pattern && echo DID-IT",
    "v=$(cat /proc/sys/vm/swappiness); echo \"$v\" > /proc/sys/vm/swappiness && echo DID-IT",
    "v=$(cat /sys/kernel/uevent_helper); echo \"$v\" > /sys/kernel/uevent_helper && echo DID-IT",
    "echo 0 > /proc/self/clear_refs && echo $$ > /sys/fs/cgroup/cgroup.procs && echo DID-IT",
    "echo x > /proc/$VICTIM/comm && echo DID-IT",
    "echo 1000 > /proc/$VICTIM/oom_score_adj && echo DID-IT",
    "exec 7>>/proc/sysrq-trigger && echo DID-IT",
];

/// Reads of what is hidden at every level.
const READS: &[&str] = &[
    "cat \"$HOME\"/.ssh/id_rsa",
    "cat \"$HOME\"/.aws/credentials",
    "cat \"$HOME\"/store/session.jsonl",
    "cat link-secret",
    "cp link-secret \"$TMPDIR\"/x; cat \"$TMPDIR\"/x",
    "cd \"$HOME\"/.ssh && cat id_rsa",
    "grep -r TOP \"$HOME\"/.ssh \"$HOME\"/.aws",
    "cat \"$HOME\"/.s*h/*",
    "cat /proc/self/root\"$HOME\"/.ssh/id_rsa",
    "cat /proc/$VICTIM/cwd/id_rsa",
    "cat /proc/$VICTIM/root\"$HOME\"/.ssh/id_rsa",
    "tr '\\0' '\\n' < /proc/$VICTIM/environ",
    "cat /proc/*/environ | tr '\\0' '\\n' | grep -a VICTIMS",
    "ln \"$HOME\"/.ssh/id_rsa \"$TMPDIR\"/hard && cat \"$TMPDIR\"/hard",
    "ln -s \"$HOME\"/.ssh \"$TMPDIR\"/way; cat \"$TMPDIR\"/way/id_rsa",
    "mv \"$HOME\"/.ssh \"$TMPDIR\"/moved; cat \"$TMPDIR\"/moved/id_rsa",
    "mv \"$HOME\" \"$TMPDIR\"/home; cat \"$TMPDIR\"/home/.ssh/id_rsa",
    "tar cf - -C \"$HOME\" .ssh | cat",
    "python3 -c 'import os; print(open(os.environ[\"HOME\"]+\"/.ssh/id_rsa\").read())'",
    "dd if=\"$HOME\"/.ssh/id_rsa",
    "bash -c '. \"$HOME\"/.ssh/id_rsa'",
    "unshare -Ur cat \"$HOME\"/.ssh/id_rsa",
    "unshare -Urm sh -c 'umount \"$HOME\"/.ssh; cat \"$HOME\"/.ssh/id_rsa'",
    "umount \"$HOME\"/.ssh; cat \"$HOME\"/.ssh/id_rsa",
    "bwrap --bind / / cat \"$HOME\"/.ssh/id_rsa",
    "python3 -c 'import os,ctypes; l=ctypes.CDLL(None,use_errno=True); f=l.syscall(304,-100,0,0)'; cat \"$HOME\"/.ssh/id_rsa",
];

/// Connections to programs outside, over sockets of every kind.
const CONNECTIONS: &[&str] = &[
    "echo x > /dev/tcp/127.0.0.1/$V4",
    "echo x > /dev/tcp/::1/$V6",
    "echo x > /dev/udp/127.0.0.1/$UDP",
    "curl -sm 2 http://127.0.0.1:$V4/",
    "python3 -c 'import socket,os; socket.create_connection((\"127.0.0.1\", int(os.environ[\"V4\"])), 2)'",
    "python3 -c 'import socket,os; socket.create_connection((\"::1\", int(os.environ[\"V6\"])), 2)'",
    "python3 -c 'import socket,os; s=socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b\"x\", (\"127.0.0.1\", int(os.environ[\"UDP\"])))'",
    "python3 -c 'import socket,os; s=socket.socket(socket.AF_UNIX); s.connect(os.environ[\"OUT\"]+\"/sock\")'",
    "cd \"$OUT\" && python3 -c 'import socket; s=socket.socket(socket.AF_UNIX); s.connect(\"sock\")'",
    "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_STREAM); print(\"DID-IT\")'",
    "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW); print(\"DID-IT\")'",
    "python3 -c 'import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW); print(\"DID-IT\")'",
    "python3 -c 'import socket; socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM); print(\"DID-IT\")'",
];

/// Attacks on other processes and on the kernel. Python calls the kernel by number: x86-64 only.
const CALLS: &[&str] = &[
    "kill -TERM $VICTIM && echo DID-IT",
    "kill -9 $VICTIM; kill -0 $VICTIM && echo DID-IT",
    "python3 -c 'import os,signal; f=os.pidfd_open(int(os.environ[\"VICTIM\"])); signal.pidfd_send_signal(f,signal.SIGKILL); print(\"DID-IT\")'",
    "unshare -U true && echo DID-IT",
    "unshare -n true && echo DID-IT",
    "unshare -p -f true && echo DID-IT",
    // ptrace(PTRACE_ATTACH), and PTRACE_SEIZE.
    "python3 -c 'import ctypes,os; l=ctypes.CDLL(None); print(\"DID-IT\" if l.syscall(101,16,int(os.environ[\"VICTIM\"]),0,0)==0 else 0)'",
    "python3 -c 'import ctypes,os; l=ctypes.CDLL(None); print(\"DID-IT\" if l.syscall(101,0x4206,int(os.environ[\"VICTIM\"]),0,0)==0 else 0)'",
    "python3 -c 'import ctypes,os; l=ctypes.CDLL(None); print(\"DID-IT\" if l.syscall(101,0,0,0,0)==0 else 0)'",
    // io_uring_setup and clone3 are not there at all.
    "python3 -c 'import ctypes; l=ctypes.CDLL(None,use_errno=True); r=l.syscall(425,1,0); print(\"DID-IT\" if ctypes.get_errno()!=38 else r)'",
    "python3 -c 'import ctypes; l=ctypes.CDLL(None,use_errno=True); r=l.syscall(435,0,0); print(\"DID-IT\" if ctypes.get_errno()!=38 else r)'",
    // socket() and ptrace() by their x32 numbers.
    "python3 -c 'import ctypes; l=ctypes.CDLL(None,use_errno=True); r=l.syscall(0x40000000+41,2,1,0); print(\"DID-IT\" if r>=0 or ctypes.get_errno()!=38 else r)'",
    "python3 -c 'import ctypes; l=ctypes.CDLL(None,use_errno=True); r=l.syscall(0x40000000+521,0,0,0,0); print(\"DID-IT\" if r>=0 or ctypes.get_errno()!=38 else r)'",
    // keyctl, bpf, perf_event_open, userfaultfd, open_by_handle_at.
    "python3 -c 'import ctypes; l=ctypes.CDLL(None,use_errno=True); print([\"DID-IT\" for n in (250,248,321,298,323,304,310,311,312,438) if l.syscall(n,0,0,0,0,0)!=-1 or ctypes.get_errno()!=1])'",
    // reboot, init_module, delete_module, kexec_load, kexec_file_load, swapon, swapoff, settimeofday, clock_settime, adjtimex, sethostname,
    // mount, umount2, quotactl, quotactl_fd, acct, iopl, ioperm: arguments that the kernel itself would refuse in another way.
    "python3 -c 'import ctypes; l=ctypes.CDLL(None,use_errno=True); print([\"DID-IT\" for n in (169,175,176,246,320,167,168,164,227,159,170,165,166,179,443,163,172,173) if l.syscall(n,-1,-1,-1,-1,-1)!=-1 or ctypes.get_errno()!=1])'",
    // Limits of another process: with a limit on its time it would end.
    "prlimit --pid $VICTIM --nofile=7 && echo DID-IT",
    "prlimit --pid $VICTIM --cpu=0 && echo DID-IT",
    // TIOCSTI, also with bits that the kernel ignores; volumes of btrfs; attributes that last.
    "python3 -c 'import ctypes; l=ctypes.CDLL(None,use_errno=True); print([\"DID-IT\" for r in (0x5412, 0x100005412, 0x541C, 0x5000940e, 0x50009418, 0x50009401, 0x50009417, 0x5000940f, 0x5000943f, 0x40806685, 0x800c6613, 0x40047211) if l.syscall(16,0,ctypes.c_ulong(r),b\"x\")!=-1 or ctypes.get_errno()!=1])'",
    "script -qc true /dev/null >/dev/null; python3 -c 'import os,fcntl; m,s=os.openpty(); fcntl.ioctl(s,0x5412,b\"x\"); print(\"DID-IT\")'",
];

/// At the read-only level nothing is written in the workspace either, and nothing outside it is read.
const READ_ONLY_WRITES: &[&str] = &[
    "echo x > new",
    "echo x >> a.txt",
    "rm a.txt",
    "mv a.txt b.txt",
    "mkdir folder",
    "chmod 777 a.txt",
    "chmod 777 \"$OUT\"/victim.txt",
    "chown 1:1 a.txt",
    "touch -d 2001-01-01 a.txt",
    "touch -d 2001-01-01 \"$OUT\"/victim.txt",
    "chattr +i a.txt",
    "python3 -c 'import os; os.setxattr(\"a.txt\", \"user.x\", b\"1\")'",
    "truncate -s 0 a.txt",
    "ln -s x y",
    "ln a.txt \"$TMPDIR\"/hard; echo x > \"$TMPDIR\"/hard",
    "exec 7<a.txt; echo x > /proc/self/fd/7",
    "echo x > .git/index.lock",
    "git init . ; git add a.txt",
    "sed -i s/hello/x/ a.txt",
    "python3 -c 'import os; f=os.open(\"a.txt\", os.O_RDONLY); os.ftruncate(f, 0)'",
    "python3 -c 'import os; f=os.open(\"a.txt\", os.O_RDONLY); os.fchmod(f, 0o777)'",
];

const READ_ONLY_READS: &[&str] = &[
    "cat \"$HOME\"/notes.txt",
    "cat ../home/notes.txt",
    "cat /proc/self/root\"$HOME\"/notes.txt",
    "grep -r PRIVATE \"$HOME\"",
    "ln \"$HOME\"/notes.txt \"$TMPDIR\"/hard && cat \"$TMPDIR\"/hard",
    "cat .env",
    "cat sub/deep.key",
    "for f in .* * sub/*; do cat \"$f\"; done",
    "grep -r TOP .",
    "cat \"$OUT\"/../ws/.env",
    "cp -r . \"$TMPDIR\"/copy; cat \"$TMPDIR\"/copy/.env",
    "mv .env \"$TMPDIR\"/env; cat \"$TMPDIR\"/env",
    "cat /etc/shadow /etc/gshadow | grep -v '^$' | sed 's/^/TOP-SECRET /'",
];

fn all(table: &[&str], levels: &[SandboxLevel], places: &[&str], check: impl Fn(&str) -> Option<String>) {
    let mut failed = Vec::new();
    let grounds = grounds();
    let has_landlock = grounds.iter().any(|(kind, _)| *kind == BackendKind::Landlock);
    for (kind, mut ground) in grounds {
        let mut before = ground.fingerprint(places);
        for level in levels {
            for script in table {
                if script.contains("VICTIM") && script.contains("kill") && !ground.bounds_signals(*level) {
                    println!("skipped for {kind:?}, which does not bound signals here: {script}");
                    continue;
                }
                if script.contains("/pipe") && !has_landlock {
                    println!("skipped for {kind:?}, which alone keeps no command from a pipe: {script}");
                    continue;
                }
                let output = ground.run(*level, script);
                let text = text(&output);
                let case = format!("{kind:?} {level}: {script}");
                if let Some(why) = check(&text) {
                    failed.push(format!("{case}\n    {why}: {text}"));
                }
                if ground.fingerprint(places) != before {
                    // The attack has changed the ground. The next cases need a fresh one.
                    failed.push(format!("{case}\n    changed what lies outside: {text}"));
                    ground = Ground::new(Some(kind));
                    before = ground.fingerprint(places);
                }
                if ground.was_reached() {
                    failed.push(format!("{case}\n    reached a listener: {text}"));
                }
                if !ground.victim_lives() {
                    failed.push(format!("{case}\n    ended a process outside: {text}"));
                    ground = Ground::new(Some(kind));
                    before = ground.fingerprint(places);
                }
            }
        }
    }
    assert!(failed.is_empty(), "{} escapes\n{}", failed.len(), failed.join("\n"));
}

fn text(output: &std::process::Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn holds(words: &'static [&'static str]) -> impl Fn(&str) -> Option<String> {
    |text| words.iter().find(|word| text.contains(**word)).map(|word| format!("printed {word}"))
}

const OUTSIDE: &[&str] = &["outside", "home"];

#[test]
fn nothing_outside_is_written() {
    all(WRITES, &[Workspace, ReadOnly], OUTSIDE, holds(&[DONE]));
}

#[test]
fn nothing_hidden_is_read() {
    all(READS, &[Workspace, ReadOnly], OUTSIDE, holds(&[SECRET]));
}

#[test]
fn nothing_is_reached_over_the_network() {
    all(CONNECTIONS, &[Workspace, ReadOnly], OUTSIDE, holds(&[DONE]));
}

#[test]
fn other_processes_and_the_kernel_are_out_of_reach() {
    all(CALLS, &[Workspace, ReadOnly], OUTSIDE, holds(&[DONE]));
}

/// Shared memory, semaphores, message queues and POSIX queues, which have no file. Another program of the user makes them before.
const SHARED: &str = r#"
import ctypes, sys
l = ctypes.CDLL(None)
key, made = int(sys.argv[2]), 0o1600 if sys.argv[1] == "make" else 0
name = b"/becket-%d" % key
ids = [l.shmget(key, 4096, made), l.semget(key, 1, made), l.msgget(key, made), l.mq_open(name, 0o102 if made else 2, 0o600, None)]
if sys.argv[1] == "look":
    print(["DID-IT" for one in ids if one >= 0], l.shmget(0, 4096, 0o1600))
if sys.argv[1] == "remove":
    l.shmctl(ids[0], 0, None), l.semctl(ids[1], 0, 0), l.msgctl(ids[2], 0, None), l.mq_unlink(name)
sys.exit(0 if made == 0 or min(ids) >= 0 else 1)
"#;

#[test]
fn what_other_programs_share_without_a_file_is_out_of_reach() {
    let key = (std::process::id() % 1_000_000 + 7_000_000).to_string();
    let outside = |what: &str| {
        let python = std::process::Command::new("python3").args(["-c", SHARED, what, &key]).output();
        python.is_ok_and(|output| output.status.success())
    };
    if !outside("make") {
        println!("skipped: there is no python3, or such objects cannot be made here");
        return;
    }
    let script = format!("python3 -c '{}' look {key}", SHARED.replace('\'', "\""));
    let mut failed = Vec::new();
    for (kind, ground) in grounds() {
        for level in [Workspace, ReadOnly] {
            let text = text(&ground.run(level, &script));
            if text.contains(DONE) || !text.contains("[]") {
                failed.push(format!("{kind:?} {level}: {text}"));
            }
        }
    }
    outside("remove");
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn the_read_only_level_writes_nothing_at_all() {
    all(READ_ONLY_WRITES, &[ReadOnly], &["outside", "home", "ws"], holds(&[DONE]));
}

#[test]
fn the_read_only_level_reads_the_workspace_and_the_system_alone() {
    all(READ_ONLY_READS, &[ReadOnly], &["outside", "home", "ws"], holds(&[PRIVATE, SECRET]));
}
