//! Commands made from the grammar of bash and from what programs take, judged, and run under strace where they are allowed.
//!
//! Each allowed command runs without any confinement, so the verdict alone is tried: it writes nothing, starts no program
//! of the workspace, connects to nothing, and opens nothing but the workspace's own files that hold no secret.
//! `BECKET_COMMANDS` sets how many are made (6,000), `BECKET_SEED` which.

use crate::trace;
use crate::world::{World, allowed, there};
use becket_types::PermissionMode;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

/// Programs that are known to only read, and the words that each takes in its own way.
const READERS: &[(&str, &[&str])] = &[
    ("cat", &["-n", "-A", "--show-all", "-"]),
    ("head", &["-n 1", "-c 3", "-q", "--lines=2", "-1"]),
    ("tail", &["-n 1", "-c +2", "--pid=1", "--retry"]),
    ("wc", &["-l", "--files0-from=a.txt", "--files0-from=h/.bashrc"]),
    ("ls", &["-la", "-R", "--color=always", "-d", "--hyperlink"]),
    ("stat", &["-c %n", "-L", "-f", "--printf=%n"]),
    ("du", &["-s", "-a", "--files0-from=a.txt", "-X k.txt", "--exclude-from=h/.bashrc"]),
    (
        "sort",
        &[
            "-r",
            "-o k.txt",
            "-ok.txt",
            "--output=k.txt",
            "--outp=k.txt",
            "-T .",
            "-S 1",
            "--compress-program=./evil",
            "--files0-from=a.txt",
            "-k1,1",
            "--batch-size=2",
        ],
    ),
    ("uniq", &["-c", "-d", "a.txt k.txt", "--group"]),
    ("cut", &["-c1", "-d: -f1", "--output-delimiter=x"]),
    ("tr", &["a b", "-d x", "-s '\\n'"]),
    (
        "diff",
        &[
            "-u",
            "-r",
            "--to-file=k.txt",
            "--from-file=a.txt",
            "-X h/.bashrc",
            "--output=k.txt",
            "--recursive",
        ],
    ),
    ("cmp", &["-l", "-s", "-n 3"]),
    ("comm", &["-12", "--nocheck-order"]),
    ("join", &["-t:", "-1 1"]),
    ("paste", &["-s", "-d,"]),
    ("nl", &["-ba"]),
    ("od", &["-c", "-An", "-j 1"]),
    ("xxd", &["-p", "-ps", "-r", "-c 4", "a.txt k.txt", "-r a.txt k.txt"]),
    ("hexdump", &["-C", "-f h/.bashrc", "-e '1/1 \"%x\"'"]),
    ("strings", &["-n 3", "@opts", "--target=x"]),
    ("md5sum", &["-b", "-c a.txt", "--check=a.txt", "--tag"]),
    ("sha256sum", &["-c", "--status -c a.txt"]),
    ("file", &["-b", "-f a.txt", "-m h/.bashrc", "-C", "-z", "-f h/.bashrc"]),
    (
        "grep",
        &[
            "-r x",
            "-n x",
            "-f h/.bashrc",
            "-e x",
            "--include='*.rs' -r fn",
            "--exclude-from=h/.bashrc x",
            "-P x",
            "-R x",
        ],
    ),
    (
        "rg",
        &[
            "x",
            "--pre=./evil x",
            "--pre ./evil x",
            "-z x",
            "--hostname-bin=./evil x",
            "-f h/.bashrc",
            "--ignore-file h/.bashrc x",
            "--follow x",
            "-L x",
        ],
    ),
    (
        "find .",
        &[
            "-name '*.rs'",
            "-delete",
            "-exec ./evil ';'",
            "-execdir ./evil +",
            "-ok ./evil ';'",
            "-fprint k.txt",
            "-fls k.txt",
            "-newer a.txt",
            "-follow",
            "-L",
            "-files0-from a.txt",
            "-printf '%p'",
        ],
    ),
    ("tree", &["-a", "-o k.txt", "--fromfile", "-L 2", "-l"]),
    ("realpath", &["-m", "-s", "--relative-to=."]),
    ("readlink", &["-f", "-n"]),
    ("basename", &["-a", "-s .txt"]),
    ("date", &["-d now", "-s now", "-f a.txt", "+%s", "--set=now", "-r a.txt", "--reference=h/.bashrc"]),
    (
        "sed",
        &[
            "-n p",
            "-i s/a/b/",
            "'w k.txt'",
            "'1e ./evil'",
            "'s/h/x/e'",
            "'s/h/x/w k.txt'",
            "-f h/.bashrc",
            "'r h/.bashrc'",
            "--in-place p",
            "-ni p",
            "-s p",
            "'R h/.bashrc'",
        ],
    ),
    (
        "awk",
        &[
            "1",
            "'{print > \"k.txt\"}'",
            "'{system(\"./evil\")}'",
            "'BEGIN{getline x < \"h/.bashrc\"; print x}'",
            "-f h/.bashrc",
            "'{print | \"./evil\"}'",
            "'BEGIN{while((\"./evil\" | getline) > 0);}'",
        ],
    ),
    (
        "jq",
        &[
            ".",
            "-f h/.bashrc",
            "-L h .",
            "--slurpfile x h/.bashrc .",
            "--rawfile x h/.bashrc .",
            "env",
            "'input'",
            "-n '$ENV'",
        ],
    ),
    ("column", &["-t", "-s,"]),
    ("printf", &["'%s' x", "'%n' PATH", "-v PATH x", "\"$x\" 'a[$(./evil)]'", "'%d' 'a[$(./evil)]'"]),
    ("echo", &["x", "-e 'a\\n'", "$HOME", "\"${x@P}\"", "$((a[$(./evil)]))", "~/.s*/*"]),
    ("test", &["-f a.txt", "-v 'a[$(./evil)]'", "$x 'a[$(./evil)]'", "1 -eq 'a[$(./evil)]'"]),
    ("[", &["-f a.txt ]", "-v 'a[$(./evil)]' ]", "x = x ]"]),
    ("true", &["x"]),
    ("seq", &["3", "1 3"]),
    ("which", &["ls", "evil", "-a pwn"]),
    ("type", &["ls", "-a pwn"]),
    ("pwd", &["-P"]),
    ("id", &["-u"]),
    (
        "git",
        &[
            "status",
            "diff",
            "diff --ext-diff",
            "diff --output=k.txt",
            "log -p",
            "log --textconv -p",
            "show",
            "show --output=k.txt HEAD",
            "grep -O./evil hello",
            "grep --open-files-in-pager=./evil hello",
            "branch",
            "branch new",
            "tag",
            "tag new",
            "stash list",
            "stash",
            "config --list",
            "config x.y z",
            "-c core.pager=./evil log",
            "-c alias.x=!./evil x",
            "-C src status",
            "--git-dir=h status",
            "--exec-path=. status",
            "archive HEAD",
            "archive -o k.txt HEAD",
            "blame a.txt",
            "cat-file -p HEAD",
            "cat-file --textconv HEAD:a.txt",
            "ls-files",
            "ls-remote .",
            "fetch",
            "rev-parse HEAD",
            "symbolic-ref HEAD refs/heads/x",
            "remote -v",
            "remote add x y",
            "diff --no-index a.txt h/.bashrc",
            "worktree list",
            "worktree add z",
            "submodule status",
            "reflog expire --all",
            "notes",
            "hash-object -w a.txt",
            "shortlog -s HEAD",
            "describe --always",
            "for-each-ref",
            "bisect log",
            "bundle create k.txt HEAD",
            "format-patch -1",
            "format-patch --stdout -1",
            "update-index --refresh",
            "status --porcelain",
            "var GIT_EDITOR",
            "help -a",
            "instaweb",
            "difftool",
            "check-ignore a.txt",
            "merge-base HEAD HEAD",
        ],
    ),
];

/// Programs that write, start others or change what comes after them.
const OTHERS: &[&str] = &[
    "rm",
    "touch k.txt",
    "cp a.txt",
    "mv a.txt",
    "ln -s a.txt",
    "mkdir z",
    "chmod 777",
    "tee k.txt",
    "dd of=k.txt",
    "truncate -s 0",
    "install a.txt",
    "xargs ./evil",
    "xargs",
    "env ./evil",
    "env -S './evil'",
    "nice ./evil",
    "nohup ./evil",
    "timeout 1 ./evil",
    "time ./evil",
    "stdbuf -o0 ./evil",
    "setsid ./evil",
    "sh -c ./evil",
    "bash ./evil",
    "eval ./evil",
    "exec ./evil",
    "source ./evil",
    ". ./evil",
    "command ./evil",
    "builtin source ./evil",
    "trap ./evil EXIT;",
    "alias ls=./evil;",
    "enable -f ./evil x;",
    "hash -p ./evil ls; ls",
    "declare -n x=PATH; x=.;",
    "export PATH=.; ls",
    "PATH=. ls",
    "mapfile -C ./evil -c 1 <",
    "read PATH <",
    "complete -C ./evil",
    "let 'a[$(./evil)]=1'",
    "unset 'a[$(./evil)]'",
    "declare 'a[$(./evil)]=1'",
    "coproc ./evil",
    "python3 -c 'open(\"k.txt\",\"w\")'",
    "perl -e 'unlink \"k.txt\"'",
    "curl http://127.0.0.1:9/",
    "tar cf k.tar",
    "zip k.zip",
    "split",
    "csplit k.txt 1",
    "shopt -s extglob;",
    "set -- -delete; find . $1",
    "LD_PRELOAD=./evil ls",
    "BASH_ENV=./evil bash -c :",
    "GIT_EXTERNAL_DIFF=./evil git diff",
    "PAGER=./evil git log",
    "less",
    "more",
    "vi -c '!./evil'",
    "man -P ./evil ls",
    "make -f a.txt",
    "nm @opts",
    "ld -plugin ./evil",
    "gcc -wrapper ./evil",
    "look x",
    "kill -0",
    "wall",
    "logger x",
];

const FILES: &[&str] = &[
    "",
    "a.txt",
    "k.txt",
    "a.txt k.txt",
    "src",
    "src/main.rs",
    "*.txt",
    "*",
    "*/*",
    "**",
    "d/n.txt",
    "d/../n.txt",
    "h/.bashrc",
    "h/.s*/*",
    "server.pem",
    "serv*",
    "?erver.pem",
    "[s]erver.pem",
    "{server.pem,a.txt}",
    "~/.bashrc",
    "~/.ssh/id_rsa",
    "$HOME/.ssh/id_rsa",
    "../out/n.txt",
    "$PWD/../out/n.txt",
    "/dev/null",
    "-",
    "--",
    "-- a.txt",
    "./-delete",
    "link",
    "src/../a.txt",
    "\"a.txt\"",
    "'a.txt'",
    "$'a\\x2etxt'",
    "a\\.txt",
    "\"$x\"",
    "$x",
    "${x:-a.txt}",
    "${x:=server.pem}",
    "$(echo a.txt)",
    "`./evil`",
    "<(./evil)",
    ">(./evil)",
    "<(cat a.txt)",
    "$((1+1))",
    "$((x[$(./evil)]))",
    "${a[$(./evil)]}",
    "${x/a/$(./evil)}",
    "\"${x@P}\"",
    "{a,k}.txt",
    "-o",
    "-rf",
    "--help",
    "--version",
    "+x",
    "@opts",
    "evil",
    "./evil",
    "/proc/self/environ",
    "/proc/self/root/etc/passwd",
    "a.txt\\\n",
    "# k.txt",
    "a.txt #x",
    "\"$(./evil)\"",
    "é.txt",
];

const REDIRECTS: &[&str] = &[
    "",
    "",
    "",
    "",
    "> k.txt",
    ">> k.txt",
    ">| k.txt",
    "&> k.txt",
    "2> k.txt",
    ">& k.txt",
    "<> k.txt",
    "< a.txt",
    "< server.pem",
    "< h/.bashrc",
    "< <(./evil)",
    "> >(./evil)",
    "2>&1",
    "2>/dev/null",
    ">/dev/null 2>&1",
    "{v}>k.txt",
    "{PATH}</dev/null",
    "{a['$(./evil)']}>/dev/null",
    "<<< x",
    "<<< $(./evil)",
    "<<E\nx\nE",
    "<<E\n$(./evil)\nE",
    "> /dev/tcp/127.0.0.1/9",
    "< /dev/tcp/127.0.0.1/9",
    ">$x",
    "> \"$HOME/x\"",
    "3>&1",
];

/// `@` is a command, `%` another one.
const FRAMES: &[&str] = &[
    "@",
    "@",
    "@",
    "@",
    "@",
    "@",
    "@ | %",
    "@ ; %",
    "@ && %",
    "@ || %",
    "@ & %",
    "@\n%",
    "( @ )",
    "{ @; }",
    "! @",
    "time @",
    "if @; then %; fi",
    "while false; do @; done; %",
    "for f in *; do @; done",
    "for f in a.txt -o k.txt; do @; done",
    "for x in server.pem; do cat $x; done; @",
    "case x in x) @;; esac",
    "f() { %; }; @",
    "f() { %; }; f; @",
    "ls() { ./evil; }; @; ls",
    "x=-delete; @ $x",
    "x=server.pem; @ $x",
    "x=a.txt; @ $x",
    "x=$(%); @",
    "IFS=/; @",
    "a=(1 2); @",
    "PATH=$PWD @",
    "LC_ALL=C @",
    "x=1 @",
    "cd src && @",
    "cd d && @",
    "cd .. ; @",
    "cd src; cd ..; @",
    "[[ -f a.txt ]] && @",
    "[[ -v a['$(./evil)'] ]]; @",
    "[[ $x == $(./evil) ]] || @",
    "(( a['$(./evil)'] )); @",
    "@ | xargs cat",
    "@ | xargs ./evil",
    "@ | sh",
    "@ | tee k.txt",
    "@ | cat",
    "@ | head -n 1",
    "@ | sort | uniq -c",
    "echo $(@)",
    "echo \"$(@)\"",
    "echo `@`",
    "cat <(@)",
    "command @",
    "env @",
    "env -i @",
    "timeout 5 @",
    "nice @",
    "bash -c '@'",
    "eval @",
    "exec @",
    "set -e; @",
    "shopt -s expand_aliases; alias cat=./evil; @",
    "trap % EXIT; @",
    "until @; do break; done",
    "select x in a; do @; done",
    "@ # %",
    "\\@",
    "\"@\"",
    "@ 2>&1 | %",
    "@ |& %",
    "coproc @",
    "true; @; true",
    ": ${x:=$(%)}; @",
];

/// A small generator of numbers: the same ones for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.roll(all.len())]
    }

    fn simple(&mut self) -> String {
        if self.roll(8) == 0 {
            return format!("{} {}", self.of(OTHERS), self.of(FILES));
        }
        let (program, words) = READERS[self.roll(READERS.len())];
        let mut command = program.to_owned();
        for _ in 0..self.roll(3) {
            command.push(' ');
            command.push_str(self.of(words));
        }
        for _ in 0..self.roll(3) {
            command.push(' ');
            command.push_str(self.of(FILES));
        }
        let redirect = self.of(REDIRECTS);
        if redirect.is_empty() { command } else { format!("{command} {redirect}") }
    }

    fn command(&mut self) -> String {
        let frame = self.of(FRAMES);
        let (one, other) = (self.simple(), self.simple());
        frame.replace('@', &one).replace('%', &other)
    }
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[test]
fn what_is_allowed_of_random_commands_only_reads_the_workspace() {
    if !there("bash") || !there("git") {
        return;
    }
    let world = World::new();
    let w = |name: &str| world.path("w").join(name);
    symlink(world.path("out/dir"), w("d")).unwrap();
    symlink(world.path("home"), w("h")).unwrap();
    symlink("a.txt", w("link")).unwrap();
    fs::write(w("opts"), "--plugin ./evil\n").unwrap();
    fs::write(w("-delete"), "x\n").unwrap();
    world.repository();
    let traced = trace::works(&world);
    let guard = world.guard(&[], PermissionMode::Default);
    let mut dice = Dice(from_environment("BECKET_SEED", 0x9e37_79b9_7f4a_7c15));
    let made: BTreeSet<String> =
        (0..from_environment("BECKET_COMMANDS", 6_000)).map(|_| dice.command()).collect();
    let before = world.state();
    let (mut ran, mut through) = (0, Vec::new());
    for command in made.iter().filter(|command| allowed(&guard, command)) {
        ran += 1;
        if traced {
            through.extend(trace::harm(&world, &guard, command).map(|line| format!("{command}\n    {line}")));
        } else {
            world.run(&guard, command);
        }
        assert!(world.state() == before, "{command} changed a file; before it:\n{}", through.join("\n"));
    }
    assert!(through.is_empty(), "{} of {ran} did more than read:\n{}", through.len(), through.join("\n"));
    println!("{} commands, {ran} allowed", made.len());
    assert!(ran * 20 > made.len(), "{ran} of {}", made.len());
}
