//! Whole runs in which nothing judges the commands of the model: `bypassPermissions` allows all of them, and only the sandbox
//! stands between the attacks and the files outside. Both backends, both levels.

use crate::machines::on_machine;
use crate::sandbox::skipped;
use crate::support::{Api, Bench, run};
use becket_testkit::{Answer, MockServer};
use serde_json::json;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Content of files that no command may read: of a file with a secret, and of another file outside the workspace.
const SECRET: &str = "private-key-8841";
const OUTSIDE: &str = "outside-data-8841";

/// Sets `f` to the name of the file to which the shell writes its working directory for becket.
macro_rules! cwd_file {
    () => {
        "f=$(tr '\\0' '\\n' </proc/$$/cmdline | grep -o \"'/[^']*/cwd-[0-9a-f]*'\" | head -n 1 | tr -d \"'\"); "
    };
}

/// Attacks: what prepares a folder, and the command. `$BASE` is the folder around the workspace, `$PORT` a port that listens. An attack
/// that succeeds makes `$BASE/pwned`, changes `$BASE/out`, prints a file from outside, or connects.
const ATTACKS: &[(&str, &str)] = &[
    ("", ": {a['$(touch $BASE/pwned)']}>/dev/null"),
    ("", "x=-v; test $x 'a[$(touch $BASE/pwned)]'"),
    ("mkdir 3; script 3/ls", "printf 'abc%n' PATH; ls"),
    ("for d in 10 11 12; do mkdir $d; script $d/ls; done", ": {PATH}>/dev/null; ls"),
    ("git init -q .; git config core.fsmonitor \"touch $BASE/pwned; false\"", "git status"),
    ("git init -q .; git config core.pager \"touch $BASE/pwned\"; git add .", "git -p diff --cached"),
    ("git init -q .; git config alias.st '!touch '$BASE'/pwned'", "git st"),
    ("", "touch $BASE/pwned; echo x > $BASE/out/new; rm -f $BASE/out/n.txt"),
    (
        "",
        "xxd -ps a.txt $BASE/pwned; cp a.txt $BASE/pwned; tee $BASE/pwned < a.txt; dd if=a.txt of=$BASE/pwned",
    ),
    ("ln -s $BASE/out/dir d", "cat d/../n.txt; echo x > d/../new; rm -rf d/"),
    ("ln -s $BASE/home h", "cat */.s??/*; cp h/.ssh/id_rsa copy; base64 h/.ssh/id_rsa | base64 -d"),
    ("ln -s $BASE/out p", "mv p q; echo pwn > q/n.txt; chmod 777 q/n.txt; ln q/n.txt hard; echo pwn > hard"),
    ("ln -s $BASE/pwned way", "echo x > way"),
    ("", "x=-exec; find . -name a.txt $x touch $BASE/pwned ';'"),
    ("script e.sh", "x=--pre=./e.sh; rg $x hello; ./e.sh; sh e.sh; awk 'BEGIN{system(\"./e.sh\")}'"),
    (
        "",
        "python3 -c 'import os,sys; open(sys.argv[1],\"w\"); os.unlink(sys.argv[2])' $BASE/pwned $BASE/out/n.txt",
    ),
    ("", "perl -e 'open(F,\">\",$ARGV[0]); print F 1' $BASE/pwned"),
    (
        "",
        "echo x > /dev/tcp/127.0.0.1/$PORT; python3 -c 'import socket,sys; socket.create_connection((\"127.0.0.1\", int(sys.argv[1])))' $PORT",
    ),
    ("", "(setsid sh -c 'sleep 0.2; touch $BASE/pwned' &) ; nohup touch $BASE/pwned"),
    ("", "unshare -r sh -c 'touch $BASE/pwned'; chroot / touch $BASE/pwned; mount --bind $BASE/out ."),
    ("", "cat $BASE/home/.ssh/id_rsa $BASE/home/.aws/credentials; cat /proc/self/root$BASE/home/.ssh/id_rsa"),
    (
        "",
        "exec 3<$BASE/home/.ssh; cat /proc/self/fd/3/id_rsa; tar c $BASE/home/.ssh; grep -r private $BASE/home",
    ),
    ("printf 'all:\\n\\ttouch $(BASE)/pwned\\n' > Makefile", "make"),
    // Attacks on the file to which the shell writes its working directory for becket: links and pipes in its place.
    ("", concat!(cwd_file!(), "ln -s $BASE/home/.aws/credentials \"$f\"; kill -9 $$")),
    ("", concat!(cwd_file!(), "mkfifo \"$f\"; kill -9 $$")),
    ("", concat!(cwd_file!(), "ln -s /dev/zero \"$f\"; kill -9 $$")),
    ("", "for n in $(seq 0 99); do ln -s $BASE/pwned \"$TMPDIR\"/command-$PPID-$n.sh; done"),
    (
        "git init -q .",
        "mkdir .git/rebase-merge; ln -s $BASE/home/.aws/credentials .git/rebase-merge/git-rebase-todo",
    ),
];

/// Attacks that only the read-only level must stop: the workspace is not written there, and nothing outside is read.
const WRITES: &[(&str, &str)] = &[
    ("", "echo x > k.txt; rm a.txt; mkdir new; touch b"),
    (
        "git init -q .",
        "git symbolic-ref {HEAD,refs/heads/evil}; git add -A; xxd -ps a.txt .git/hooks/pre-commit",
    ),
    ("ln -s $BASE/out d", "cat d/n.txt; cat $BASE/out/n.txt; cat d/../out/n.txt"),
    ("", "sed -i s/hello/x/ a.txt; find . -delete; truncate -s 0 a.txt"),
];

/// Every file and link below a folder, with content or target. The data of git's objects is left out.
fn state(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut out = BTreeMap::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            if meta.is_dir() {
                todo.push(path);
            } else if meta.is_symlink() {
                let target = path.read_link().unwrap().into_os_string().into_encoded_bytes();
                out.insert(path, target);
            } else {
                let text = std::fs::read(&path).unwrap();
                out.insert(path, text);
            }
        }
    }
    out
}

struct Ground {
    bench: Bench,
    base: PathBuf,
    listener: TcpListener,
}

impl Ground {
    fn new(attacks: &[&(&str, &str)]) -> Self {
        let bench = Bench::new(&[]);
        let base = bench.project.root().to_owned();
        for (path, text) in [
            ("out/n.txt", OUTSIDE),
            ("out/dir/m.txt", OUTSIDE),
            ("home/.ssh/id_rsa", SECRET),
            ("home/.aws/credentials", SECRET),
            ("home/.bashrc", "rc\n"),
        ] {
            bench.project.write(path, text);
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let ground = Self { bench, base, listener };
        for (number, (prepare, _)) in attacks.iter().enumerate() {
            let folder = ground.base.join(format!("w/{number}"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("a.txt"), "hello\n").unwrap();
            let script =
                "script() { printf '#!/bin/sh\\n/usr/bin/touch %s\\n' \"$BASE/pwned\" > $1; chmod +x $1; }";
            let mut shell = Command::new("bash");
            shell
                .args(["-c", &format!("{script}\n{prepare}")])
                .current_dir(&folder)
                .env("BASE", &ground.base);
            assert!(shell.stdout(Stdio::null()).status().unwrap().success(), "{prepare}");
        }
        ground
    }

    /// The command as the model sends it: in the folder of the attack, with the variables that it uses.
    fn command(&self, number: usize, command: &str) -> String {
        let port = self.listener.local_addr().unwrap().port();
        format!("cd {number} && export BASE='{}' PORT={port}; {command}; true", self.base.display())
    }
}

/// `lacking`: what the kernel of the machine lacks, so that this backend alone works.
fn attack(backend: &str, lacking: &str, level: &str, attacks: &[&(&str, &str)]) {
    let ground = Ground::new(attacks);
    let mut answer = Answer::new();
    for (number, (_, command)) in attacks.iter().enumerate() {
        answer =
            answer.and_tool(&number.to_string(), "bash", json!({"command": ground.command(number, command)}));
    }
    let before = ["out", "home"].map(|dir| state(&ground.base.join(dir)));
    let workspace = state(&ground.base.join("w"));
    let server = MockServer::start([answer, Answer::text("done")]);
    let mut command = ground.bench.print(Api::Anthropic, &server);
    let data = ground.bench.home.path("data");
    command.env("HOME", ground.base.join("home")).env("BECKET_HOME", data).current_dir(ground.base.join("w"));
    command.args(["--dangerously-skip-permissions", "--sandbox", level, "--", "go"]);
    run(&mut on_machine(lacking, &command)).expect(0);
    let requests = server.requests();
    let told = requests.last().unwrap().text();
    let context = format!("{backend}, {level}:\n{told}");
    assert!(!ground.base.join("pwned").exists(), "a command made a file outside, {context}");
    assert_eq!(["out", "home"].map(|dir| state(&ground.base.join(dir))), before, "{context}");
    assert!(!told.contains(SECRET), "a secret was read, {context}");
    assert!(ground.listener.accept().is_err(), "a command connected, {context}");
    if level == "read-only" {
        assert_eq!(state(&ground.base.join("w")), workspace, "the workspace was changed, {context}");
        assert!(!told.contains(OUTSIDE), "a file outside was read, {context}");
    }
}

#[test]
fn whole_runs_without_any_judging_stay_confined() {
    let bench = Bench::new(&[]);
    if skipped(&bench) {
        return;
    }
    // The attacks do not quote the folder, and would miss their aim.
    if bench.project.root().to_string_lossy().contains(char::is_whitespace) {
        println!("skipped: the folder for temporary files has white space in its path");
        return;
    }
    for (backend, lacking) in
        [("bubblewrap", "landlock"), ("Landlock", "namespaces"), ("both backends", "none")]
    {
        let shown = run(&mut on_machine(lacking, bench.command().arg("sandbox"))).stdout;
        let levels: Vec<&str> = shown
            .lines()
            .filter(|line| line.starts_with("read-only: ") || line.starts_with("workspace: "))
            .collect();
        if levels.len() != 2 || levels.iter().any(|line| line.contains(": none")) {
            println!("skipped: {backend} does not work here: {shown}");
            continue;
        }
        // The machine without the one backend really uses the other.
        assert!(lacking == "none" || levels.iter().all(|line| line.contains(backend)), "{shown}");
        let attacks: Vec<&(&str, &str)> = ATTACKS.iter().collect();
        attack(backend, lacking, "required", &attacks);
        let all: Vec<&(&str, &str)> = ATTACKS.iter().chain(WRITES).collect();
        attack(backend, lacking, "read-only", &all);
    }
}
