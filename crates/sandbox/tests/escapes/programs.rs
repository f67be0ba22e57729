//! Programs that becket starts for its own use: what each kind reaches, on every backend.

use crate::ground::{DONE, Ground, grounds};
use becket_sandbox::{Confine, ProgramKind, Programs};
use becket_types::SandboxLevel::Workspace;
use std::io::{BufRead as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ProgramKind::{Formatter, Hook, LanguageServer, McpServer, StatusLine};

/// Scripts that print `DID-IT` where they succeed, and the kinds of programs for which they do.
const SCRIPTS: &[(&str, &[ProgramKind])] = &[
    ("cat a.txt \"$HOME\"/notes.txt", &[Formatter, LanguageServer, StatusLine]),
    ("echo x > \"$TMPDIR\"/f", &[Formatter, LanguageServer, StatusLine]),
    ("./prog", &[Formatter, LanguageServer, StatusLine]),
    ("cat \"$HOME\"/store/session.jsonl", &[StatusLine]),
    ("cat \"$HOME\"/.ssh/id_rsa", &[]),
    ("cat link-secret", &[]),
    (
        "echo x > \"$XDG_CACHE_HOME\"/f && mkdir -p \"$CARGO_TARGET_DIR\"/debug \"$GOCACHE\"",
        &[LanguageServer],
    ),
    ("echo x > new", &[]),
    ("echo x >> a.txt", &[]),
    ("echo x > .git/hooks/post-checkout", &[]),
    ("rm -f prog && [ ! -e prog ]", &[]),
    ("echo x > \"$OUT\"/new", &[]),
    ("echo x > \"$HOME\"/.bashrc", &[]),
    ("rm -rf \"$HOME\"/store && [ ! -e \"$HOME\"/store ]", &[]),
    ("exec 3<>/dev/tcp/127.0.0.1/$V4", &[]),
    ("kill -0 $VICTIM && kill $VICTIM", &[]),
];

#[test]
fn each_kind_of_program_reaches_what_it_needs_and_no_more() {
    for (backend, mut ground) in grounds() {
        let caches = ground.base.join("caches/of-servers");
        let sandbox = Some(Arc::clone(&ground.sandbox));
        let programs = Programs::new(Confine::Always, sandbox, Some(caches.clone()));
        let before = ground.fingerprint(&["ws", "home", "outside"]);
        for kind in [Formatter, LanguageServer, StatusLine] {
            let prepared = programs.prepare(kind).unwrap();
            for (script, may) in SCRIPTS {
                let case = format!("{backend:?} {kind:?}: {script}");
                let script = format!("{script} && echo {DONE}");
                let output = ground.run_after(&prepared.words, &prepared.variables, &script);
                let text = String::from_utf8_lossy(&output.stdout);
                // The script in the workspace prints `DID-IT`, too, so only the end of the output counts.
                assert_eq!(text.ends_with(&format!("{DONE}\n")), may.contains(&kind), "{case}: {output:?}");
                assert_eq!(ground.fingerprint(&["ws", "home", "outside"]), before, "{case}");
                assert!(!ground.was_reached(), "{case}: reached a listener");
                assert!(ground.victim_lives(), "{case}: ended a process outside");
            }
        }
        assert_eq!(std::fs::read_to_string(caches.join("f")).unwrap(), "x\n");
        assert_eq!(programs.notice(), None);
    }
}

/// Changes that a hook or a server makes to such files are undone when it ends, at the latest.
#[test]
fn hooks_and_servers_change_no_file_that_other_programs_obey() {
    for (backend, ground) in grounds() {
        std::fs::create_dir(ground.base.join("ws/.vscode")).unwrap();
        std::fs::write(ground.base.join("ws/.vscode/tasks.json"), "{}").unwrap();
        let sandbox = Some(Arc::clone(&ground.sandbox));
        let programs = Programs::new(Confine::Always, sandbox, Some(ground.base.join("caches")));
        let contents = || {
            let obeyed = ["ws/.git/config", "ws/.git/hooks/pre-commit", "ws/.vscode/tasks.json"];
            obeyed.map(|name| std::fs::read_to_string(ground.base.join(name)).unwrap())
        };
        for kind in [Hook, McpServer] {
            let prepared = programs.prepare(kind).unwrap();
            let run = |script: &str| {
                let script = format!("{script} && echo {DONE}");
                let output = ground.run_after(&prepared.words, &prepared.variables, &script);
                String::from_utf8_lossy(&output.stdout).ends_with(&format!("{DONE}\n"))
            };
            let before = contents();
            for script in [
                "echo evil > .vscode/tasks.json",
                "echo evil >> .git/config",
                "echo evil > .git/hooks/post-checkout",
                "echo evil > .envrc",
                "echo evil > .mcp.json",
                "mkdir .claude",
            ] {
                let lease = match kind {
                    Hook => programs.protect(&prepared),
                    _ => programs.protect_from_server(&prepared),
                };
                run(script);
                drop(lease);
                assert_eq!(contents(), before, "{backend:?} {kind:?}: {script}");
                let made = [".envrc", ".mcp.json", ".claude", ".git/hooks/post-checkout"]
                    .iter()
                    .filter(|name| ground.base.join("ws").join(name).symlink_metadata().is_ok());
                assert_eq!(made.count(), 0, "{backend:?} {kind:?}: {script}");
            }
            for script in ["echo more >> a.txt", "echo x > sub/new", "mkdir -p sub/d && mv sub/new sub/d/"] {
                assert!(run(script), "{backend:?} {kind:?}: {script}");
            }
            if kind == Hook {
                assert!(run("echo x > new.txt && rm new.txt"), "{backend:?}");
            }
        }
    }
}

/// A server that writes the files that its input names, one line after another.
struct Server {
    child: std::process::Child,
    to: std::process::ChildStdin,
    from: std::io::BufReader<std::process::ChildStdout>,
    lease: Option<becket_sandbox::Lease>,
}

impl Server {
    /// Starts the program. If a path was replaced while it was starting, starts it again, as becket's error message says.
    fn start(ground: &Ground, programs: &Programs) -> Self {
        let answers = |server: &mut Self| {
            let mut line = String::new();
            writeln!(server.to, "true").is_ok() && server.from.read_line(&mut line).is_ok() && line == "did\n"
        };
        let mut tried = (0..5).map(|_| Self::start_once(ground, programs));
        tried.find_map(|mut server| answers(&mut server).then_some(server)).unwrap()
    }

    fn start_once(ground: &Ground, programs: &Programs) -> Self {
        let prepared = programs.prepare(McpServer).unwrap();
        let lease = programs.protect_from_server(&prepared);
        let script = "while read -r line; do eval \"$line\"; echo did; done";
        let mut command = ground.command(&prepared.words, &prepared.variables, script);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        if let Some(lease) = &lease {
            lease.set_process(Some(child.id()));
        }
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, to, from: std::io::BufReader::new(from), lease }
    }

    fn does(&mut self, line: &str) {
        writeln!(self.to, "{line}").unwrap();
        self.from.read_line(&mut String::new()).unwrap();
    }

    fn kill(mut self) {
        if let Some(lease) = &self.lease {
            lease.check_before_kill();
        }
        let group = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
        self.child.wait().unwrap();
        drop(self.lease);
    }
}

/// Waits until a check leaves a file of the user alone, because the server has slept since the last one.
fn until_it_sleeps(ground: &Ground) {
    let own = ground.base.join("ws/.gdbinit");
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        std::fs::write(&own, "mine").unwrap();
        ground.sandbox.check_protected();
        if std::fs::remove_file(&own).is_ok() {
            break;
        }
        assert!(Instant::now() < until, "the server is never taken for asleep");
        std::thread::yield_now();
    }
    ground.sandbox.check_protected();
    drop(ground.sandbox.undone_of_servers());
}

#[test]
fn what_a_server_writes_is_undone_while_it_lives_and_what_the_user_writes_stays() {
    for (backend, ground) in grounds() {
        let ws = ground.base.join("ws");
        std::fs::write(ws.join(".gitattributes"), "* text\n").unwrap();
        let sandbox = Some(Arc::clone(&ground.sandbox));
        let programs = Programs::new(Confine::Always, sandbox, Some(ground.base.join("caches")));
        let mut server = Server::start(&ground, &programs);
        let before = ground.fingerprint(&["home", "outside"]);
        for name in
            [".vscode/tasks.json", ".git/commondir", ".envrc", ".claude/settings.json", ".git/hooks/x"]
        {
            for _ in 0..2 {
                server.does(&format!("mkdir -p $(dirname {name}); echo evil > {name}"));
                let lines = programs.undone_of_servers();
                assert!(!ws.join(name).exists(), "{backend:?}: {name} {lines:?}");
            }
        }
        assert_eq!(ground.fingerprint(&["home", "outside"]), before);
        if server.lease.is_none() {
            // Landlock forbids the server these files from the start, so becket puts nothing back here.
            server.does("echo more >> a.txt; mkdir -p sub/new; echo x > .git/index");
            assert!(!ws.join(".git/index").exists() && ws.join("sub/new").exists(), "{backend:?}");
            server.kill();
            continue;
        }
        // The server sleeps, so a change of such files comes from the user and must stay.
        until_it_sleeps(&ground);
        let mine = [".envrc", ".vscode/settings.json", ".git/config", ".gitattributes"];
        for name in mine {
            std::fs::create_dir_all(ws.join(name).parent().unwrap()).unwrap();
            // Editors and git replace a file by a new one. The kernel then removes the mount that protected the old one.
            std::fs::write(ws.join("new"), "mine").unwrap();
            std::fs::rename(ws.join("new"), ws.join(name)).unwrap();
        }
        assert_eq!(programs.undone_of_servers(), Vec::<String>::new(), "{backend:?}");
        // The files are no longer mounted read-only, so the server can write them. Its changes are undone.
        for name in mine {
            server.does(&format!("echo evil > {name}"));
            programs.undone_of_servers();
            assert_eq!(std::fs::read_to_string(ws.join(name)).unwrap(), "mine", "{backend:?}: {name}");
        }
        // If a file is still mounted read-only for the server, somebody else must have changed it, and the change stays.
        server.does("true");
        std::fs::write(ws.join(".git/hooks/pre-commit"), "mine").unwrap();
        programs.undone_of_servers();
        assert_eq!(std::fs::read_to_string(ws.join(".git/hooks/pre-commit")).unwrap(), "mine", "{backend:?}");
        // A last check follows after the server was killed.
        server.does("(while :; do echo evil > .mcp.json; done) & true");
        // On a busy machine the loop may not have begun yet.
        let until = Instant::now() + Duration::from_mins(1);
        while !ws.join(".mcp.json").exists() && Instant::now() < until {
            std::thread::yield_now();
        }
        server.kill();
        assert!(!ws.join(".mcp.json").exists(), "{backend:?}");
        let lines = programs.undone_of_servers();
        assert!(lines.iter().any(|line| line.contains(".mcp.json was created")), "{backend:?}: {lines:?}");
    }
}

/// Two servers share one record, so the one does not put back what the other made.
#[test]
fn no_server_puts_back_what_another_one_made() {
    for (backend, ground) in grounds() {
        let sandbox = Some(Arc::clone(&ground.sandbox));
        let programs = Programs::new(Confine::Always, sandbox, Some(ground.base.join("caches")));
        let mut servers = [Server::start(&ground, &programs), Server::start(&ground, &programs)];
        for round in 0..6 {
            servers[round % 2].does("echo evil > .envrc");
            servers[(round + 1) % 2].does("true");
            programs.undone_of_servers();
            // A command runs in between. Its protection starts from the files that are there then.
            let lease = ground.sandbox.protect(Workspace);
            ground.run(Workspace, "echo evil > .npmrc");
            drop(lease);
            for name in [".envrc", ".npmrc"] {
                assert!(!ground.base.join("ws").join(name).exists(), "{backend:?}: {name}");
            }
        }
        servers.into_iter().for_each(Server::kill);
        assert!(!ground.base.join("ws/.envrc").exists(), "{backend:?}");
    }
}

#[test]
fn caches_that_cannot_be_kept_last_as_long_as_the_session() {
    for (_, ground) in grounds() {
        // The path of the caches leads through a file, so no folder can be made there, as in a home folder that cannot be written.
        let sandbox = Some(Arc::clone(&ground.sandbox));
        let programs = Programs::new(Confine::IfPossible, sandbox, Some(ground.base.join("ws/a.txt/caches")));
        // A command plants a link at the place of the caches, so that the server would get access to another folder.
        ground.run(Workspace, "ln -s \"$OUT\" \"$TMPDIR\"/caches");
        let prepared = programs.prepare(LanguageServer).unwrap();
        let output =
            ground.run_after(&prepared.words, &prepared.variables, "cd \"$XDG_CACHE_HOME\" && pwd -P");
        let folder = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let temp = ground.sandbox.temp().unwrap();
        assert_eq!(Path::new(&folder).parent(), temp.parent(), "{output:?}");
        assert!(!Path::new(&folder).starts_with(temp), "{folder}: commands can write there");
        let planted = format!("ls -d '{folder}' && ln -s \"$OUT\" '{folder}'/planted && echo {DONE}");
        let output = ground.run(Workspace, &planted);
        assert!(!String::from_utf8_lossy(&output.stdout).contains(DONE), "{output:?}");
        // A cache folder that is a link to a folder of the user is not granted either.
        let link = ground.base.join("home/link");
        std::os::unix::fs::symlink(ground.base.join("outside"), &link).unwrap();
        let programs = Programs::new(Confine::IfPossible, Some(Arc::clone(&ground.sandbox)), Some(link));
        let prepared = programs.prepare(LanguageServer).unwrap();
        let output = ground.run_after(&prepared.words, &prepared.variables, "echo x > \"$OUT\"/new");
        assert!(!ground.base.join("outside/new").exists(), "{output:?}");
    }
}
