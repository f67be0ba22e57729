//! Programs that becket starts for its own use: what each kind reaches, on every backend.

use crate::ground::{DONE, grounds};
use becket_sandbox::{Confine, ProgramKind, Programs};
use becket_types::SandboxLevel::Workspace;
use std::path::Path;
use std::sync::Arc;

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
                // The program of the workspace prints the same word.
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

/// Changes that a hook makes to such files are undone when it ends. A server lives as long as the session: it cannot change those that
/// exist.
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
                let lease = (kind == Hook).then(|| programs.protect(&prepared).unwrap());
                let ran = run(script);
                drop(lease);
                assert_eq!(contents(), before, "{backend:?} {kind:?}: {script}");
                let made = [".envrc", ".mcp.json", ".claude", ".git/hooks/post-checkout"]
                    .iter()
                    .filter(|name| ground.base.join("ws").join(name).symlink_metadata().is_ok());
                assert!(kind == McpServer && ran || made.count() == 0, "{backend:?} {kind:?}: {script}");
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

#[test]
fn caches_that_cannot_be_kept_last_as_long_as_the_session() {
    for (_, ground) in grounds() {
        // A file is in the way, as on a home folder that cannot be written.
        let sandbox = Some(Arc::clone(&ground.sandbox));
        let programs = Programs::new(Confine::IfPossible, sandbox, Some(ground.base.join("ws/a.txt/caches")));
        // A command wants the server to be granted another folder.
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
        // Nor is a link granted that stands for the folder of the user.
        let link = ground.base.join("home/link");
        std::os::unix::fs::symlink(ground.base.join("outside"), &link).unwrap();
        let programs = Programs::new(Confine::IfPossible, Some(Arc::clone(&ground.sandbox)), Some(link));
        let prepared = programs.prepare(LanguageServer).unwrap();
        let output = ground.run_after(&prepared.words, &prepared.variables, "echo x > \"$OUT\"/new");
        assert!(!ground.base.join("outside/new").exists(), "{output:?}");
    }
}
