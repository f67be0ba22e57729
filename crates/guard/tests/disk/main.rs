//! Commands judged and run in a real folder: links, patterns, git's configuration, and an oracle that runs what is allowed.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests; tests say what they skip")]

mod attacks;
mod denied;
mod dice;
mod generated;
mod others;
mod trace;
mod world;

use becket_types::{Access, PermissionMode};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use world::{World, allowed, there, verdict};

/// The tests below ask for a change outside: the hostile program must be able to make one.
#[test]
fn the_hostile_program_does_its_harm_when_it_is_run() {
    for command in ["pwn", "./evil"] {
        let world = World::new();
        let before = world.state();
        world.run(&world.guard(&[], PermissionMode::Default), command);
        assert!(world.state() != before, "{command}");
        assert_eq!(fs::read_to_string(world.path("out/ran")).unwrap(), "ran\n");
    }
}

#[test]
fn paths_lead_where_the_kernel_goes() {
    let world = World::new();
    let w = |name: &str| world.path("w").join(name);
    symlink(world.path("out/dir"), w("d")).unwrap();
    symlink(world.path("home"), w("h")).unwrap();
    symlink(world.path("out/n.txt"), w("docs/notes.txt")).unwrap();
    symlink(world.path("home/.bashrc"), w("p/rc")).unwrap();
    symlink("src/deep", w("inner")).unwrap();
    fs::create_dir_all(w("into/src/deep")).unwrap();
    symlink(world.path("home/.bashrc"), w("into/a.txt")).unwrap();
    symlink(world.path("home/.bashrc"), w("into/src/deep/x.rs")).unwrap();
    let reading = world.guard(&[], PermissionMode::Default);
    let commands = [
        "cat d/../n.txt",
        "cat ./d/../n.txt",
        "cat d/m.txt",
        "cat src/../d/../n.txt",
        "cat d/../dir/m.txt",
        "head inner/../../../d/../n.txt",
        "cat */.s??/*",
        "cat h/.s??/*",
        "cat h/.ssh/id_rsa",
        "cat ?/.ssh/id_*",
        "cat [h]/.[s]sh/*",
        "cat docs/*",
        "cat docs/n*",
        "cat docs/n?tes.txt",
        "cat docs/[n]otes.txt",
        "cat serv*",
        "cat *.pem",
        "cat s*",
        "cat *r*.p*",
        "cat [s]erver.*",
        "cat ?erver.pem",
        "cat *",
        "head *",
        "tail -n 1 serv*",
        "for f in *; do cat \"$f\"; done",
        "for f in serv*; do cat \"$f\"; done",
        "for f in docs/*; do head \"$f\"; done",
        "for f in */.ssh/*; do cat \"$f\"; done",
        "grep -h . serv*",
        "wc d/../n.txt",
        "sort <d/../n.txt",
        "cat <d/../n.txt",
        "cd d && ls",
        "cd d/.. && cat n.txt",
        "cd inner && cat ../../../d/../n.txt",
        "cd inner; cd ..; cat ../out/n.txt",
        "command cd docs; cat notes.txt",
        "eval 'cd docs'; cat notes.txt",
        "builtin cd docs && cat notes.txt",
        "time cd docs; cat notes.txt",
        "trap 'cat notes.txt' EXIT; cd docs",
        "ls d/",
        "ls */",
        "ls h/*",
        "diff -r docs src",
        "grep -x . docs/notes.txt",
        "sed -n p docs/notes.txt",
        "awk 1 docs/notes.txt",
        "jq -R . docs/notes.txt",
        "stat d/../n.txt",
        "find d/../",
        "find h/",
        "rg . d/../n.txt",
        "xxd d/../n.txt",
        "cat -n -- d/../n.txt",
        "cd docs; for f in *; do cat \"$f\"; done",
        "cat ~/.bashrc",
        "cat ~/.s*/*",
        "cat ../out/*",
        "cat $PWD/../out/n.txt",
    ];
    let through: Vec<&&str> = commands.iter().filter(|c| allowed(&reading, c)).collect();
    assert!(through.is_empty(), "{through:?}");
    for command in [
        "cat *.txt",
        "cat src/*.rs",
        "for f in src/*.rs; do wc -l \"$f\"; done",
        "ls inner",
        "cat inner/x.rs",
        "cat inner/../main.rs",
        "cd src && cat ../a.txt",
        "ls *.md",
        "head R*",
        "cd inner && ls",
    ] {
        assert!(allowed(&reading, command), "{command}: {:?}", world::verdict(&reading, command));
    }
    let editing = world.guard(&[], PermissionMode::AcceptEdits);
    let commands = [
        "echo x > d/../new",
        "echo x >> d/../n.txt",
        "echo x > p/rc",
        "mv p q; echo pwn > q/rc",
        "mv p q && echo pwn >q/rc",
        "mv p q\necho pwn > q/rc",
        "mv p q | echo pwn > q/rc",
        "mv p q & echo pwn > q/rc",
        "cp -a p q; echo pwn > q/rc",
        "cp -r p q; cp a.txt q/rc",
        "cp -R p q; touch q/rc",
        "cp -P p/rc z; echo pwn > z",
        "mv p/rc z; cp a.txt z",
        "mv d e; cat e/m.txt",
        "mv docs e; cat e/notes.txt",
        "mv docs e && cd e && cat notes.txt",
        "mv d e; ls e/",
        "for x in 1 2; do echo pwn > q/rc; mv p q; done",
        "while mv p q; do echo pwn > q/rc; done",
        "command mv p q; echo x > q/rc",
        "touch d/../new",
        "mkdir d/new",
        "cp a.txt d/../new",
        "cp a.txt h/.bashrc",
        "mv a.txt d/",
        "bash -c 'mv p q; echo x > q/rc'",
        "bash -c 'mv p q'; echo x > q/rc",
        "(mv p q); echo x > q/rc",
        "{ mv p q; echo x; } > q/rc",
        "cp a.txt into",
        "cp a.txt into/",
        "cp b.txt a.txt into",
        "cp src/../a.txt into",
        "cp -n a.txt ./into/.",
        "cp -r src into",
        "cp -R src/deep into/src",
        "cp -a src/. into",
        "cp -r .. into",
    ];
    let through: Vec<&&str> = commands.iter().filter(|c| allowed(&editing, c)).collect();
    assert!(through.is_empty(), "{through:?}");
    for command in [
        "mv a.txt c.txt",
        "echo x > new.txt && cat new.txt",
        "mkdir -p e && touch e/f",
        "mv a.txt c.txt && echo done",
        "cp a.txt c.txt",
        "cp b.txt into",
        "cp a.txt src",
        "cp -r src other",
    ] {
        assert!(allowed(&editing, command), "{command}");
    }
    let ruled = world.guard(&["Bash(cat *)", "Bash(git *)", "Bash(ln *)"], PermissionMode::Default);
    for command in [
        "cat serv*",
        "cat h/.ssh/id_*",
        "ln -s / l; head l/etc/passwd",
        "git checkout x && head docs/a",
        "x=server.pem; cat $x",
        "cat $(echo server.pem)",
        "for f in server.pem; do cat $f; done",
    ] {
        assert!(!allowed(&ruled, command), "{command}");
    }
}

/// Configuration of a repository that makes reading commands run `pwn`.
const HOSTILE: &[&str] = &[
    "[core]\n\tfsmonitor = \"pwn; false\"\n",
    "[core]\n\tpager = pwn\n[pager]\n\tlog = pwn\n",
    "[core]\n\thooksPath = ../bin\n",
    "[diff]\n\texternal = pwn\n",
    "[diff \"x\"]\n\ttextconv = pwn\n",
    "[diff \"x\"]\n\tcommand = pwn\n",
    "[filter \"x\"]\n\tclean = pwn\n",
    "[filter \"x\"]\n\tprocess = pwn\n",
    "[log]\n\tshowSignature = true\n[gpg]\n\tprogram = pwn\n",
    "[gpg]\n\tprogram = pwn\n[pretty]\n\tx = %GG\n[format]\n\tpretty = x\n",
    "[alias]\n\tst = !pwn\n",
    "[include]\n\tpath = ../more\n",
    "[core]\n\tworktree = /\n",
    "[core]\n\texcludesFile = ../home/.ssh/id_rsa\n",
    "[diff]\n\tsubmodule = diff\n",
    "[core]\n\tsshCommand = pwn\n\taskPass = pwn\n\teditor = pwn\n",
];

const READING_GIT: &[&str] = &[
    "git status",
    "git status -s",
    "git diff",
    "git diff --stat",
    "git log",
    "git log -p",
    "git log -S hello",
    "git show",
    "git blame a.txt",
    "git ls-files -m",
    "git describe --always",
    "git stash list",
    "git branch -vv",
    "git grep hello",
    "git diff HEAD -- a.txt",
    "git whatchanged",
    "git shortlog -sn HEAD",
    "git reflog",
    "git rev-parse HEAD",
    "cd src && git status",
    "git -C src diff",
    "git log --oneline | head",
    "git show HEAD:a.txt",
    "git diff-index HEAD",
    "git diff-files",
];

#[test]
fn git_does_not_obey_the_repository() {
    if !there("git") {
        return;
    }
    for config in HOSTILE {
        let world = World::new();
        world.repository();
        fs::write(world.path("w/.gitattributes"), "* diff=x filter=x\n").unwrap();
        fs::write(world.path("w/.git/hooks/post-index-change"), "#!/bin/sh\npwn\n").unwrap();
        fs::set_permissions(world.path("w/.git/hooks/post-index-change"), fs::Permissions::from_mode(0o755))
            .unwrap();
        fs::write(world.path("w/more"), "[core]\n\tfsmonitor = pwn\n").unwrap();
        let mut text = fs::read_to_string(world.path("w/.git/config")).unwrap();
        text.push_str(config);
        fs::write(world.path("w/.git/config"), text).unwrap();
        fs::write(world.path("w/a.txt"), "changed\n").unwrap();
        let before = world.state();
        let guard = world.guard(&[], PermissionMode::Default);
        let by_path = ["/usr/bin/git diff", "/usr/bin/git log -p", "/bin/git status", "command git diff"];
        for command in READING_GIT.iter().chain(&by_path).filter(|c| allowed(&guard, c)) {
            world.run(&guard, command);
            assert!(world.state() == before, "{command} with {config}");
        }
    }
    // The test above runs most commands, or it would show nothing.
    let world = World::new();
    world.repository();
    let guard = world.guard(&[], PermissionMode::Default);
    for command in READING_GIT {
        assert!(allowed(&guard, command), "{command}");
        assert!(!guard.variables(&Access::execute(*command)).is_empty(), "{command}");
    }
    fs::create_dir(world.path("w/v")).unwrap();
    world.git(&["init", "-q", "--bare", "v"]);
    for command in ["git -C v status", "cd v && git status", "git -C v/refs log", "git -C src -C ../v status"]
    {
        assert!(!allowed(&guard, command), "{command}");
    }
    let ruled = world.guard(&["Bash(cargo test *)", "Bash(make *)"], PermissionMode::Default);
    for command in ["git status && cargo test", "make all; git diff", "cargo test | git grep x"] {
        assert!(!allowed(&ruled, command), "{command}");
    }
    assert!(ruled.variables(&Access::execute("cargo test")).is_empty());
    let own = world.guard(&["Bash(git *)"], PermissionMode::Default);
    assert!(!own.variables(&Access::execute("git status")).is_empty());
    assert!(own.variables(&Access::execute("git status && git commit -m x")).is_empty());
    // A rule that allows git does not apply in a bare repository that a clone has brought.
    let status =
        world.guard(&["Bash(git status *)", "Bash(git *)", "Bash(env git *)"], PermissionMode::Default);
    for command in [
        "git -C v status",
        "cd v && git status",
        "git -C v add x",
        "cd v && git commit -m x",
        "git -C v/refs log",
        "git -C src -C ../v fetch",
        "env git -C v add x",
    ] {
        assert!(!allowed(&status, command), "{command}");
    }
    for command in ["git -C src add x", "cd src && git commit -m x"] {
        assert!(allowed(&status, command), "{command}");
    }
}

/// Git before 2.31 knows the settings only in their older form.
#[test]
fn an_older_git_does_not_obey_the_repository_either() {
    if !there("git") {
        return;
    }
    for config in HOSTILE {
        let world = World::new();
        world.repository();
        let text = fs::read_to_string(world.path("w/.git/config")).unwrap();
        fs::write(world.path("w/.git/config"), text + config).unwrap();
        fs::write(world.path("w/a.txt"), "changed\n").unwrap();
        let before = world.state();
        let guard = world.guard(&[], PermissionMode::Default);
        for command in READING_GIT.iter().filter(|c| allowed(&guard, c)) {
            let mut git = world.command(&guard, &["timeout", "10"], command);
            let _ = git.env_remove("GIT_CONFIG_COUNT").status();
            assert!(world.state() == before, "{command} with {config}");
        }
    }
}

#[test]
fn git_does_not_obey_submodules() {
    if !there("git") {
        return;
    }
    let world = World::new();
    let who = ["-c", "user.name=x", "-c", "user.email=a@b"];
    let inner = |words: &[&str]| world.git(&[&["-C", "../s"], &who[..], words].concat());
    fs::create_dir(world.path("s")).unwrap();
    fs::write(world.path("s/f.bin"), "one\n").unwrap();
    fs::write(world.path("s/.gitattributes"), "* diff=x filter=x\n").unwrap();
    inner(&["init", "-q", "-b", "main", "."]);
    inner(&["add", "-A"]);
    inner(&["commit", "-qm", "s"]);
    world.repository();
    world.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../s", "s"]);
    world.git(&[&who[..], &["commit", "-qm", "with it"]].concat());
    fs::write(world.path("w/s/f.bin"), "two\n").unwrap();
    world.git(&[&["-C", "s"], &who[..], &["commit", "-qam", "s2"]].concat());
    fs::write(world.path("w/s/f.bin"), "six\n").unwrap();
    let config = world.path("w/.git/modules/s/config");
    let hostile =
        "[diff \"x\"]\n\ttextconv = pwn\n[filter \"x\"]\n\tclean = pwn\n[core]\n\tfsmonitor = pwn\n";
    fs::write(&config, fs::read_to_string(&config).unwrap() + hostile).unwrap();
    for own in ["", "[diff]\n\tsubmodule = diff\n", "[status]\n\tsubmoduleSummary = true\n"] {
        let main = world.path("w/.git/config");
        fs::write(&main, fs::read_to_string(&main).unwrap() + own).unwrap();
        let before = world.state();
        let guard = world.guard(&[], PermissionMode::Default);
        let more = [
            "git diff --submodule=diff",
            "git diff --submodule",
            "git diff --submodule=log",
            "git log -p --submodule=diff",
            "git show --submodule=diff HEAD",
            "git status --ignore-submodules=none",
            "git diff --ignore-submodules=none",
            "git diff --ignore-submodules=untracked",
            "git diff --ignore-submodules=dirty",
            "git -C s status",
            "git -C s diff",
            "cd s && git log -p",
        ];
        let mut ran = 0;
        for command in READING_GIT.iter().chain(&more).filter(|c| allowed(&guard, c)) {
            world.run(&guard, command);
            ran += 1;
            assert!(world.state() == before, "{command} with {own:?}");
        }
        assert!(ran > 20, "{ran}");
    }
}

#[test]
fn git_shows_no_other_repository() {
    if !there("git") {
        return;
    }
    let who = ["-c", "user.name=x", "-c", "user.email=a@b"];
    let prepare = || {
        let world = World::new();
        world.repository();
        world.git(&["init", "-q", "../out"]);
        world.git(&["-C", "../out", "add", "-A"]);
        world.git(&[&["-C", "../out"], &who[..], &["commit", "-qm", "private"]].concat());
        world
    };
    let elsewhere = |world: &World| world.path("out/.git").display().to_string();
    let replace = |world: &World, name: &str, target: &str| {
        let path = world.path("w/.git").join(name);
        let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        symlink(format!("{}/{target}", elsewhere(world)), path).unwrap();
    };
    type Attack<'a> = &'a dyn Fn(&World);
    let attacks: [(&str, Attack<'_>); 9] = [
        ("a file that names the other", &|world| {
            fs::remove_dir_all(world.path("w/.git")).unwrap();
            fs::write(world.path("w/.git"), format!("gitdir: {}\n", elsewhere(world))).unwrap();
        }),
        ("a relative one", &|world| {
            fs::remove_dir_all(world.path("w/.git")).unwrap();
            fs::write(world.path("w/.git"), "gitdir: ../out/.git\n").unwrap();
        }),
        ("a link to the other", &|world| {
            fs::remove_dir_all(world.path("w/.git")).unwrap();
            symlink(elsewhere(world), world.path("w/.git")).unwrap();
        }),
        ("a common directory", &|world| {
            fs::write(world.path("w/.git/commondir"), elsewhere(world)).unwrap();
        }),
        ("objects", &|world| replace(world, "objects", "objects")),
        ("an index", &|world| replace(world, "index", "index")),
        ("a history of branches", &|world| replace(world, "logs", "logs")),
        ("borrowed objects", &|world| {
            let text = format!("# x\n{}/objects\n", elsewhere(world));
            fs::write(world.path("w/.git/objects/info/alternates"), text).unwrap();
        }),
        ("the work tree of the other", &|world| {
            let config = world.path("w/.git/config");
            let text = fs::read_to_string(&config).unwrap() + "[core]\n\tworktree = ../../out\n";
            fs::write(config, text).unwrap();
        }),
    ];
    for (what, attack) in attacks {
        let world = prepare();
        attack(&world);
        let guard = world.guard(&[], PermissionMode::Default);
        for command in ["git status", "git show HEAD:n.txt", "git -C src log", "git ls-files"] {
            assert!(!allowed(&guard, command), "{command} with {what}");
        }
    }
    // The guard accepts a repository folder elsewhere if that folder names the work tree in return: submodules, work trees,
    // and a separate git directory.
    let world = prepare();
    world.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../out", "s"]);
    world.git(&["worktree", "add", "-q", "tree"]);
    fs::create_dir(world.path("w/beside")).unwrap();
    world.git(&["init", "-q", "--separate-git-dir=beside/.data", "beside"]);
    let guard = world.guard(&[], PermissionMode::Default);
    for folder in [".", "s", "s/dir", "tree", "tree/src", "beside"] {
        let command = format!("git -C {folder} status");
        assert!(allowed(&guard, &command), "{command}: {:?}", verdict(&guard, &command));
    }
}

fn lines(text: &str) -> impl Iterator<Item = String> {
    text.lines()
        .filter(|l| !l.starts_with("# ") && !l.trim().is_empty())
        .map(|l| l.replace("\\n", "\n").replace("\\t", "\t"))
}

#[test]
fn what_is_allowed_changes_nothing() {
    if !there("bash") || !there("git") {
        return;
    }
    let world = World::new();
    world.repository();
    let guard = world.guard(&[], PermissionMode::Default);
    let texts = [
        include_str!("../corpus/ordinary.txt"),
        include_str!("../corpus/bypass.txt"),
        include_str!("../corpus/rules.txt"),
    ];
    let before = world.state();
    let mut ran = 0;
    for command in texts.into_iter().flat_map(lines).filter(|c| !c.contains("/repo") && !c.contains("sleep"))
    {
        if allowed(&guard, &command) {
            ran += 1;
            world.run(&guard, &command);
            assert!(world.state() == before, "{command}");
        }
    }
    assert!(ran > 200, "{ran}");
}

#[test]
fn what_is_allowed_of_generated_commands_changes_nothing() {
    if !there("bash") {
        return;
    }
    let world = World::new();
    let guard = world.guard(&[], PermissionMode::Default);
    let programs = [
        "cat", "echo", "printf", "test", "[", "xxd", "uniq", "sort", "sed -n", "awk", "find .", "grep", "wc",
        "head", "tr", "cut", "ls", ":", "true", "diff", "tree", "file", "date", "cmp", "od", "column", "jq",
    ];
    let words = [
        "",
        "a.txt",
        "a.txt k.txt",
        "-o k.txt a.txt",
        "a.txt -o k.txt",
        "-ps a.txt k.txt",
        "-c a.txt k.txt",
        "-v 'a[$(pwn)]'",
        "$x 'a[$(pwn)]'",
        "\"$x\" 'a[$(pwn)]'",
        "'%n' 'a[$(pwn)]'",
        "'%n' PATH",
        "p a.txt",
        "'w k.txt' a.txt",
        "'1e pwn' a.txt",
        "'s/h/pwn/e' a.txt",
        "'{print > \"k.txt\"}' a.txt",
        "'{system(\"pwn\")}' a.txt",
        "-exec pwn ';'",
        "-delete",
        "-name '*.txt' $x",
        "-fprint k.txt",
        "\"$(echo a.txt)\"",
        "{a.txt,k.txt}",
        "{-o,k.txt,a.txt}",
        "-n 1 a.txt",
        "x a.txt ]",
        "$x ]",
        "-f a.txt ]",
        "-- a.txt k.txt",
        "--output=k.txt a.txt",
        "--outp=k.txt a.txt",
        "-- -v 'a[$(pwn)]'",
        "@o",
        "a*",
        "-[a-z]",
        "+x",
        "-s now",
    ];
    let frames = [
        "@",
        "x=-v; @",
        "x=-exec; @",
        "@ {a['$(pwn)']}>/dev/null",
        "@ | cat",
        "y=$(@); echo \"$y\"",
        "if @; then :; fi",
        "! @",
        "for x in -o -v; do @; done",
        "{ @; } 2>/dev/null",
        "env @",
        "command @",
        "@ <a.txt",
        "timeout 5 @",
        "bash -c \"@\"",
    ];
    let before = world.state();
    let (mut seen, mut ran) = (0, 0);
    for frame in frames {
        for program in programs {
            for word in words {
                let command = frame.replace('@', &format!("{program} {word}"));
                seen += 1;
                if allowed(&guard, &command) {
                    ran += 1;
                    // Only every 40th allowed command is run: the others repeat its form.
                    if ran % 40 == 0 {
                        world.run(&guard, &command);
                        assert!(world.state() == before, "{command}");
                    }
                }
            }
        }
    }
    assert!(seen > 5_000 && ran > 400, "{ran} of {seen}");
}
