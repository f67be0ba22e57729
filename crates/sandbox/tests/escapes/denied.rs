//! The level of deny rules: the files that they name are out of reach of a command that otherwise has all rights of the user.

use crate::ground::{DONE, Ground, SECRET, grounds};
use crate::limits::sandbox_with;
use becket_sandbox::{BackendKind, PolicyInputs, Sandbox};
use becket_types::SandboxLevel::DenyRules;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Output;

const TABLE: &str = include_str!("../../../guard/tests/corpus/denied_files.txt");
const DENIED: &str = "DENIED";

fn furnish(ground: &Ground) {
    let ws = ground.base.join("ws");
    for dir in ["private", "src", "up/deep"] {
        fs::create_dir_all(ws.join(dir)).unwrap();
    }
    for (path, text) in [("private/s.txt", "DENIED\n"), ("src/x.txt", "x\n"), ("up/deep/s.txt", "DENIED\n")] {
        fs::write(ws.join(path), text).unwrap();
    }
    symlink("private", ws.join("link")).unwrap();
}

fn sandbox(ground: &Ground, kind: BackendKind, change: impl FnOnce(&mut PolicyInputs, &Path)) -> Sandbox {
    let ws = ground.base.join("ws");
    sandbox_with(ground, kind, |inputs| change(inputs, &ws), Vec::new())
}

fn run(ground: &Ground, sandbox: &Sandbox, script: &str) -> Output {
    let confined = sandbox.confine(DenyRules, None).unwrap();
    ground.run_after(&confined.words, &[], script)
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

#[test]
fn no_way_of_the_table_leads_to_a_denied_file() {
    for (kind, ground) in grounds() {
        furnish(&ground);
        let sandbox = sandbox(&ground, kind, |inputs, ws| {
            inputs.deny_read.extend([ws.join("private"), ws.join("up/deep/s.txt")]);
        });
        let more = [
            "mv up q; cat q/deep/s.txt",
            "mv up/deep q; cat q/s.txt",
            "mv up/deep/s.txt q; cat q",
            "ln up/deep/s.txt q; cat q",
            "umount private; cat private/s.txt",
            "unshare -rm sh -c 'umount private; cat private/s.txt'",
            "mkdir m; unshare -rm sh -c 'mount --bind . m; cat m/private/s.txt'",
            "cat /proc/$PPID/root$PWD/private/s.txt",
            "cat /proc/$VICTIM/root$PWD/private/s.txt",
            "for p in /proc/[0-9]*; do cat $p/root$PWD/private/s.txt; done",
            "for f in /proc/$$/fd/*; do cat $f/private/s.txt $f/s.txt; done",
        ];
        let table = TABLE.lines().filter(|line| !line.starts_with('#')).map(|line| line.replace("\\n", "\n"));
        for script in table.chain(more.map(str::to_owned)) {
            // Files that one command leaves must not help the next one.
            for script in
                [script.as_str(), "cat q q/* q/*/* h l2/* n/*/* ../copy*/private/* m/*/* 2> /dev/null"]
            {
                let told = text(&run(&ground, &sandbox, script));
                assert!(!told.contains(DENIED), "{kind:?}: {script}: {told}");
            }
        }
        let ws = ground.base.join("ws");
        assert_eq!(fs::read_to_string(ws.join("private/s.txt")).unwrap(), "DENIED\n");
        assert_eq!(fs::read_to_string(ws.join("up/deep/s.txt")).unwrap(), "DENIED\n");
    }
}

#[test]
fn everything_else_is_as_without_confinement() {
    for (kind, mut ground) in grounds() {
        furnish(&ground);
        let sandbox = sandbox(&ground, kind, |inputs, ws| {
            inputs.deny_read.push(ws.join("private"));
            inputs.deny_write.push(ws.join("src"));
            inputs.network = becket_sandbox::Network::Off;
        });
        for script in [
            "cat a.txt $HOME/.ssh/id_rsa",
            "echo x > $OUT/new && cat $OUT/victim.txt",
            "echo x > sub/made.txt && mkdir -p sub/new && echo y > sub/new/f && cat sub/new/f",
            "cat src/x.txt",
            "kill -0 $VICTIM",
            "exec 3<> /dev/tcp/127.0.0.1/$V4",
            "[ \"${TMPDIR-none}\" = none ] && f=$(mktemp -p $OUT) && echo x > $f && cat $f && mv $f $OUT/f && cat $OUT/f",
            "python3 -c 'import socket, os; socket.socket(socket.AF_UNIX).connect(os.environ[\"OUT\"] + \"/sock\")'",
            "python3 -c 'import multiprocessing; multiprocessing.Semaphore()'",
            "( sleep 5 & kill $! )",
            "git init -q sub/other && cd sub/other && echo x > f && git add f && git -c user.name=x -c user.email=a@b commit -qm m && cat f",
        ] {
            let output = run(&ground, &sandbox, script);
            assert!(output.status.success(), "{kind:?}: {script}: {output:?}");
        }
        let read = text(&run(&ground, &sandbox, "cat $HOME/.ssh/id_rsa"));
        assert!(read.contains(SECRET), "{kind:?}: {read}");
        for script in [
            "echo x > src/x.txt",
            "echo x > src/new",
            "rm src/x.txt",
            "mv src other-src",
            "echo x > private/s.txt",
        ] {
            let output = run(&ground, &sandbox, &format!("{script} && echo {DONE}"));
            assert!(!text(&output).contains(DONE), "{kind:?}: {script}: {output:?}");
        }
        let ws = ground.base.join("ws");
        assert_eq!(fs::read_to_string(ws.join("src/x.txt")).unwrap(), "x\n");
        assert!(!ws.join("src/new").exists() && ground.victim_lives());
    }
}

/// Without a file that a rule names, the command needs no sandbox, so it has none.
#[test]
fn nothing_is_confined_if_there_is_nothing_to_hide() {
    for (kind, ground) in grounds() {
        let sandbox = sandbox(&ground, kind, |_, _| {});
        assert!(sandbox.confine(DenyRules, None).unwrap().words.is_empty(), "{kind:?}");
        assert!(sandbox.can_hide().is_ok());
    }
}
