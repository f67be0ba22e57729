//! Commands that must still work in a confinement, and the refusal where nothing confines.

use crate::ground::{DONE, Ground, SECRET, grounds, program};
use becket_sandbox::{Backend, BackendKind, PolicyInputs, Sandbox, SandboxSettings};
use becket_types::SandboxLevel::{ReadOnly, Workspace};
use std::io::{BufRead as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

#[test]
fn commands_that_read_work_at_the_read_only_level() {
    for (kind, ground) in grounds() {
        for (script, want) in [
            ("cat a.txt", "hello from the workspace\n"),
            ("ls sub", "b.txt\ndeep.key\n"),
            ("cat sub/b.txt | tr b c", "c\n"),
            ("echo x > \"$TMPDIR\"/f && cat \"$TMPDIR\"/f", "x\n"),
            ("cat <(echo substituted)", "substituted\n"),
            ("cat <<< here", "here\n"),
            ("echo x > /dev/null && echo ok", "ok\n"),
            ("head -c 3 /dev/zero | wc -c", "3\n"),
            ("sort a.txt | wc -l", "1\n"),
            ("find . -name b.txt", "./sub/b.txt\n"),
            (
                "python3 -c 'import socket; a,b=socket.socketpair(); a.send(b\"x\"); print(b.recv(1).decode())'",
                "x\n",
            ),
            (
                "python3 -c 'import socket as s; a,b=s.socketpair(s.AF_UNIX, s.SOCK_SEQPACKET); a.send(b\"x\"); print(b.recv(1).decode())'",
                "x\n",
            ),
            ("exit 7", ""),
        ] {
            let output = ground.run(ReadOnly, script);
            assert_eq!(String::from_utf8_lossy(&output.stdout), want, "{kind:?}: {script}: {output:?}");
            let code = if script == "exit 7" { 7 } else { 0 };
            assert_eq!(output.status.code(), Some(code), "{kind:?}: {script}");
        }
    }
}

/// Messages of a pair of sockets for datagrams can name any receiver: the journal, or a service of the user.
#[test]
fn a_pair_of_sockets_reaches_no_other_program() {
    for (kind, ground) in grounds() {
        let service = std::os::unix::net::UnixDatagram::bind(ground.base.join("outside/service")).unwrap();
        service.set_nonblocking(true).unwrap();
        for socket in
            ["s.SOCK_DGRAM", "s.SOCK_RAW", "s.SOCK_DGRAM | s.SOCK_NONBLOCK | s.SOCK_CLOEXEC", "3 | 0x100000"]
        {
            for level in [ReadOnly, Workspace] {
                let script = format!(
                    "python3 -c 'import os,socket as s; a,b=s.socketpair(s.AF_UNIX, {socket}); a.sendto(b\"x\", os.environ[\"OUT\"]+\"/service\")' && echo {DONE}"
                );
                let output = ground.run(level, &script);
                assert!(!String::from_utf8_lossy(&output.stdout).contains(DONE), "{kind:?}: {script}");
                assert!(service.recv(&mut [0; 9]).is_err(), "{kind:?} {level:?}: {script}: {output:?}");
            }
        }
    }
}

#[test]
fn commands_that_work_in_the_workspace_work_at_its_level() {
    for (kind, ground) in grounds() {
        for (script, want) in [
            ("echo x > new && cat new", "x\n"),
            ("mkdir -p d/e && mv new d/e/ && cat d/e/new", "x\n"),
            ("ln -s d/e l && cat l/new", "x\n"),
            ("ln d/e/new hard && cat hard", "x\n"),
            ("chmod +x prog && ./prog", "DID-IT\n"),
            ("cat \"$HOME\"/notes.txt", "PRIVATE-NOTES"),
            ("cat .env | wc -l", "0\n"),
            (
                "git init -q r && cd r && git config user.email a@b.c && git config user.name n && echo 1 > f && git add f && git commit -qm m && git log --format=%s",
                "m\n",
            ),
            ("rm -rf d l hard r && ls d 2>/dev/null", ""),
            ("printf 'int main(void){return 3;}' > p.c && cc p.c -o p && ./p; echo $?; rm -f p p.c", "3\n"),
            ("mkfifo pipe && (echo through > pipe &) && cat pipe && rm pipe", "through\n"),
            ("python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-1, -2]))'", "[1, 2]\n"),
            ("python3 -c 'import os; os.openpty(); print(1)'", "1\n"),
            ("nproc > /dev/null && cat /proc/self/comm", "cat\n"),
        ] {
            // Python keeps the semaphores of `multiprocessing` in `/dev/shm`, which Landlock cannot make private.
            if matches!(kind, BackendKind::Landlock) && script.contains("multiprocessing") {
                continue;
            }
            let output = ground.run(Workspace, script);
            assert_eq!(String::from_utf8_lossy(&output.stdout), want, "{kind:?}: {script}: {output:?}");
        }
    }
}

/// Landlock alone can tell programs by where they lie.
#[test]
fn no_program_of_the_workspace_starts_at_the_read_only_level() {
    for (kind, ground) in grounds().into_iter().filter(|(kind, _)| *kind == BackendKind::Landlock) {
        for script in [
            "./prog",
            "\"$WS\"/prog",
            "cp prog \"$TMPDIR\"/p; chmod +x \"$TMPDIR\"/p; \"$TMPDIR\"/p",
            "exec ./prog",
        ] {
            let output = ground.run(ReadOnly, script);
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(!text.contains(DONE), "{kind:?}: {script}: {output:?}");
        }
    }
}

#[test]
fn without_a_backend_nothing_runs_and_the_reason_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new(SandboxSettings {
        // A program that is no helper, so no self-test can succeed.
        program: PathBuf::from("/bin/false"),
        inputs: PolicyInputs { roots: vec![dir.path().to_path_buf()], ..PolicyInputs::default() },
        find_secrets: Arc::new(|_| Vec::new()),
        refresh: None,
        search: Vec::new(),
        temp: vec![dir.path().to_path_buf()],
        only: None,
        hosts: becket_network::HostRules::default(),
    });
    for level in [ReadOnly, Workspace] {
        let Backend::None { why } = sandbox.backend(level) else { panic!("{:?}", sandbox.backends()) };
        assert!(why.contains("self-test"), "{why}");
        assert!(sandbox.confine(level, None).unwrap_err().to_string().contains("no sandbox works here"));
    }
    // Other users cannot look into the folder for temporary files.
    let temp = std::fs::metadata(sandbox.temp().unwrap()).unwrap();
    assert_eq!(temp.permissions().mode() & 0o777, 0o700);
}

/// Attacks on files of the workspace that git, editors and agents obey later, whether they exist or not.
#[test]
fn what_is_obeyed_later_is_as_it_was_after_a_command() {
    for (kind, ground) in grounds() {
        for script in [
            "echo evil > .git/hooks/pre-commit",
            "echo evil > .git/hooks/post-checkout",
            "rm -f .git/hooks/pre-commit",
            "mv .git/hooks .git/away; mkdir .git/hooks; echo evil > .git/hooks/pre-commit",
            "mv .git git; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit",
            "echo evil >> .git/config",
            "git config core.fsmonitor evil",
            "chmod 777 .git/hooks/pre-commit",
            "echo .. > .git/commondir",
            "echo evil >> .git/modules/lib/config",
            "mkdir -p .git/modules/lib/hooks && echo evil > .git/modules/lib/hooks/post-checkout",
            "mkdir -p lib && echo gitdir: ../evil > lib/.git",
            "echo evil > .mcp.json",
            "mkdir -p .vscode && echo evil > .vscode/tasks.json",
            "mkdir -p .idea .claude/commands .becket && echo evil > .becket/config.toml",
            "echo evil > .envrc; echo evil > .bashrc; echo evil > .gitmodules",
            "ln -s \"$TMPDIR\" .vscode",
            "ln a.txt .ripgreprc",
            "cp a.txt b.tmp; python3 -c 'import os; os.rename(\"b.tmp\", \".npmrc\")'",
            "tar cf t.tar a.txt --transform s/a.txt/.mcp.json/; tar xf t.tar; rm t.tar",
        ] {
            let watched = [
                ".git/hooks",
                ".git/config",
                ".git/commondir",
                ".git/modules/lib/config",
                ".git/modules/lib/hooks/post-checkout",
                "lib/.git",
                ".mcp.json",
                ".vscode",
                ".idea",
                ".claude",
                ".becket",
                ".envrc",
            ];
            let content = || -> Vec<(PathBuf, Option<Vec<u8>>)> {
                let ws = ground.base.join("ws");
                let names = [".bashrc", ".gitmodules", ".ripgreprc", ".npmrc", ".git/hooks/pre-commit"];
                let files = [".git/hooks/post-checkout", ".vscode/tasks.json", ".becket/config.toml"];
                let all = watched.iter().chain(&names).chain(&files).map(|name| ws.join(name));
                all.map(|path| (path.clone(), std::fs::read(path).ok())).collect()
            };
            let before = content();
            let lease = ground.sandbox.protect(Workspace).unwrap();
            let output = ground.run(Workspace, script);
            drop(lease);
            let lines = ground.sandbox.undone();
            assert_eq!(content(), before, "{kind:?}: {script}: {output:?} {lines:?}");
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(
                !lines.is_empty() || !text.is_empty(),
                "{kind:?}: {script} was neither refused nor undone"
            );
        }
    }
}

/// Putting files back follows no link that a command left where a folder was.
#[test]
fn nothing_outside_changes_when_files_are_put_back() {
    for (kind, ground) in grounds() {
        for script in [
            "mv .git git; ln -s \"$OUT\" .git",
            "mv .git/hooks hooks; ln -s \"$OUT\" .git/hooks",
            "mv .git/modules modules; ln -s \"$OUT\" .git/modules",
            "mv .git git; mkdir .git; ln -s \"$OUT\" .git/modules; ln -s \"$OUT\" .git/hooks",
        ] {
            let before = ground.fingerprint(&["outside", "home"]);
            let lease = ground.sandbox.protect(Workspace).unwrap();
            let output = ground.run(Workspace, script);
            drop(lease);
            let lines = ground.sandbox.undone();
            assert_eq!(
                ground.fingerprint(&["outside", "home"]),
                before,
                "{kind:?}: {script}: {output:?} {lines:?}"
            );
            ground.run(Workspace, "rm -rf .git/hooks .git/modules; [ -d git ] && { rm -rf .git; mv git .git; }; mv hooks modules .git/");
        }
    }
}

/// A protected name that a command creates is removed while the command still runs.
#[test]
fn what_a_command_writes_is_undone_while_it_runs() {
    for (kind, ground) in grounds() {
        let lease = ground.sandbox.protect(Workspace).unwrap();
        let confined = ground.sandbox.confine(Workspace, None).unwrap();
        let temp = [("TMPDIR".into(), confined.temp.clone().into_os_string())];
        let script = "while read -r name; do mkdir -p \"${name%/*}\"; echo evil > \"$name\"; echo did; done";
        let mut command = ground.command(&confined.words, &temp, script);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut from = std::io::BufReader::new(from);
        for name in ["./.envrc", ".vscode/tasks.json", ".git/info/attributes"] {
            writeln!(to, "{name}").unwrap();
            from.read_line(&mut String::new()).unwrap();
            let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
            while ground.base.join("ws").join(name).exists() {
                assert!(std::time::Instant::now() < until, "{kind:?}: {name} stays");
                std::thread::yield_now();
            }
        }
        drop(to);
        child.wait().unwrap();
        drop(lease);
        let lines = ground.sandbox.undone();
        assert!(lines.iter().any(|line| line.contains(".envrc was created")), "{kind:?}: {lines:?}");
    }
}

/// A command can make a link of a protected path. When becket puts that path back, it copies no secret into the workspace, and
/// changes no file outside.
#[test]
fn nothing_hidden_is_copied_when_files_are_put_back() {
    for (kind, ground) in grounds() {
        ground.run(Workspace, "mv .git git");
        let hidden = ground.base.join("home/.aws");
        std::fs::create_dir_all(hidden.join("rebase-merge")).unwrap();
        for name in ["config", "rebase-merge/git-rebase-todo"] {
            std::fs::write(hidden.join(name), format!("exec {SECRET}\n")).unwrap();
        }
        let link = |target: &str, name: &str| {
            format!("rm -rf .git; mkdir -p \"$(dirname {name})\"; ln -s \"$HOME\"/{target} {name}")
        };
        for (plant, spring) in [
            (link(".aws", ".git"), "rm .git".to_owned()),
            (link(".aws", ".git"), "rm .git; mkdir .git".to_owned()),
            (link(".aws/config", ".git/rebase-merge/git-rebase-todo"), "rm .git/rebase-merge/*; echo exec evil > .git/rebase-merge/git-rebase-todo".to_owned()),
            (link(".aws/rebase-merge", ".git/rebase-merge"), "rm .git/rebase-merge; mkdir .git/rebase-merge; echo exec evil > .git/rebase-merge/git-rebase-todo".to_owned()),
            (link(".aws", ".vscode"), "rm .vscode".to_owned()),
        ] {
            let before = ground.fingerprint(&["outside", "home"]);
            let mut all = Vec::new();
            for script in [&plant, &spring] {
                let lease = ground.sandbox.protect(Workspace).unwrap();
                ground.run(Workspace, script);
                drop(lease);
                all.extend(ground.sandbox.undone());
            }
            let output = ground.run(Workspace, "find . -type f -exec cat {} +; find . -name '*.refused*' -exec rm -rf {} +");
            let text = String::from_utf8_lossy(&output.stdout).replace(&format!("KEY={SECRET}"), "");
            // `sub/deep.key` of the workspace may be read at this level, so its text is there once.
            assert_eq!(text.matches(SECRET).count(), 1, "{kind:?}: {plant}; {spring}: {text} {all:?}");
            assert!(!format!("{all:?}").contains(SECRET), "{kind:?}: {plant}: {all:?}");
            assert!(ground.fingerprint(&["outside", "home"]) == before, "{kind:?}: {plant}: {all:?}");
        }
    }
}

/// A folder that is open outside of the mounts would lead around them.
#[test]
fn no_command_gets_an_open_folder() {
    for (kind, ground) in grounds() {
        for level in [ReadOnly, Workspace] {
            let script = "for f in /proc/$$/fd/*; do [ ! -d \"$f/\" ] || ls -ld \"$f\"; done; echo end";
            let output = ground.run(level, script);
            assert_eq!(String::from_utf8_lossy(&output.stdout), "end\n", "{kind:?} {level}: {output:?}");
        }
    }
}

/// Hidden places of the workspace stay hidden when a folder above them gets another name.
#[test]
fn a_hidden_place_is_not_found_under_another_name() {
    for (kind, ground) in grounds() {
        let secret = ground.base.join("ws/priv/deep/a.txt");
        std::fs::create_dir_all(secret.parent().unwrap()).unwrap();
        std::fs::write(&secret, SECRET).unwrap();
        let sandbox = sandbox_with(&ground, kind, |inputs| inputs.deny_read.push(secret.clone()), Vec::new());
        let run = |script: &str| {
            let confined = sandbox.confine(Workspace, None).unwrap();
            let temp = [("TMPDIR".into(), confined.temp.into_os_string())];
            ground.run_after(&confined.words, &temp, script)
        };
        for script in [
            "mv priv q",
            "mv priv/deep q",
            "mv priv/deep/a.txt q",
            "ln priv/deep/a.txt q",
            "cp priv/deep/a.txt q",
        ] {
            run(script);
            let output = run("cat q q/* q/*/* priv/deep/a.txt; [ -e priv/deep/a.txt ] || ls -R");
            assert!(
                !String::from_utf8_lossy(&output.stdout).contains(SECRET),
                "{kind:?}: {script}: {output:?}"
            );
            assert!(secret.exists(), "{kind:?}: {script}");
        }
    }
}

/// A workspace with thousands of secrets: the request is longer than one argument, and bubblewrap takes only so many.
#[test]
fn any_number_of_secrets_is_hidden() {
    for (kind, ground) in grounds() {
        let folder = ground.base.join("ws/keys/of/everybody");
        std::fs::create_dir_all(&folder).unwrap();
        let names: Vec<PathBuf> = (0..4_990).map(|n| folder.join(format!("{n}.pem"))).collect();
        for name in &names {
            std::fs::write(name, SECRET).unwrap();
        }
        let sandbox = sandbox_with(&ground, kind, |_| {}, names);
        let confined = sandbox.confine(ReadOnly, None).unwrap();
        let output = ground.run_after(&confined.words, &[], "cat a.txt; cat keys/of/everybody/7.pem");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "hello from the workspace\n",
            "{kind:?}: {output:?}"
        );
    }
}

/// The sandbox of a ground with other inputs, and these secrets in its workspace.
pub(crate) fn sandbox_with(
    ground: &Ground,
    kind: BackendKind,
    change: impl FnOnce(&mut PolicyInputs),
    found: Vec<PathBuf>,
) -> Sandbox {
    let mut inputs = PolicyInputs { roots: vec![ground.base.join("ws")], ..PolicyInputs::default() };
    change(&mut inputs);
    Sandbox::new(SandboxSettings {
        program: program(),
        inputs,
        find_secrets: Arc::new(move |_| found.clone()),
        refresh: None,
        search: Vec::new(),
        temp: vec![ground.base.join("temp")],
        only: Some(kind),
        hosts: becket_network::HostRules::default(),
    })
}

/// A folder that was a link before the command is protected as any other.
#[test]
fn what_lies_behind_a_link_of_the_user_is_put_back() {
    for (kind, ground) in grounds() {
        let git = ground.base.join("ws/.git");
        std::fs::rename(&git, ground.base.join("ws/real")).unwrap();
        std::os::unix::fs::symlink("real", &git).unwrap();
        let lease = ground.sandbox.protect(Workspace).unwrap();
        let output = ground.run(Workspace, "echo evil > real/hooks/post-checkout; rm -f real/config");
        drop(lease);
        let lines = ground.sandbox.undone();
        assert!(!git.join("hooks/post-checkout").exists(), "{kind:?}: {output:?} {lines:?}");
        assert!(git.join("config").exists(), "{kind:?}: {output:?} {lines:?}");
    }
}

/// A command that continues in the background is checked again and again, and a last time when it has ended.
#[test]
fn what_a_command_in_the_background_writes_later_is_undone() {
    for (kind, ground) in grounds() {
        let ws = ground.base.join("ws");
        let lease = ground.sandbox.protect(Workspace).unwrap();
        let confined = ground.sandbox.confine(Workspace, None).unwrap();
        let temp = [("TMPDIR".into(), confined.temp.clone().into_os_string())];
        let script = "while read -r name; do mkdir -p \"${name%/*}\"; echo evil > \"$name\"; echo did; done";
        let mut command = ground.command(&confined.words, &temp, script);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut from = std::io::BufReader::new(from);
        let mut write = |name: &str| {
            writeln!(to, "{name}").unwrap();
            from.read_line(&mut String::new()).unwrap();
        };
        for name in [".vscode/tasks.json", ".git/commondir", "./.envrc", ".claude/settings.json"] {
            for _ in 0..2 {
                write(name);
                ground.sandbox.check_protected();
                assert!(!ws.join(name).exists(), "{kind:?}: {name}");
            }
        }
        write("./.mcp.json");
        drop(to);
        child.wait().unwrap();
        drop(lease);
        assert!(!ws.join(".mcp.json").exists(), "{kind:?}");
        let lines = ground.sandbox.undone();
        assert!(lines.iter().any(|line| line.contains(".mcp.json was created")), "{kind:?}: {lines:?}");
        assert_eq!(ground.sandbox.undone(), Vec::<String>::new());
        // When no command runs, the user's own changes stay.
        std::fs::write(ws.join(".envrc"), "mine").unwrap();
        ground.sandbox.check_protected();
        assert!(ws.join(".envrc").exists());
    }
}

#[test]
fn memory_that_other_programs_share_is_out_of_reach() {
    let Ok(shared) = tempfile::Builder::new().prefix("becket-shared-").tempfile_in("/dev/shm") else {
        return;
    };
    std::fs::write(shared.path(), "theirs").unwrap();
    for (kind, ground) in grounds() {
        let path = shared.path().display();
        for script in [
            format!("cat {path}"),
            format!("echo x > {path}; rm -f {path}"),
            "cp /dev/shm/* .; cat becket-shared-*".into(),
        ] {
            let output = ground.run(Workspace, &script);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(!text.contains("theirs"), "{kind:?}: {script}: {text}");
            assert_eq!(std::fs::read_to_string(shared.path()).unwrap(), "theirs", "{kind:?}: {script}");
        }
    }
}
