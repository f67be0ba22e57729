//! Commands and what they put at risk.

use super::*;

fn risk(command: &str) -> Risk {
    let script = |path: &Path| match path.to_str() {
        Some("/w/clean.sh") => Some("#!/bin/sh\nrm -rf build\n".to_owned()),
        Some("/w/gone.py") => Some("import shutil\nshutil.rmtree('x')\n".to_owned()),
        _ => None,
    };
    let around = CommandContext { cwd: Path::new("/w"), home: Some(Path::new("/home/u")), script: &script };
    classify(command, &around)
}

fn targets(command: &str) -> Vec<String> {
    risk(command).targets.iter().map(|path| path.display().to_string()).collect()
}

#[test]
fn named_paths_are_found_through_quotes_launchers_and_nesting() {
    for command in [
        "rm -rf src",
        "/bin/rm -rf ./src",
        "command rm -r 'src'",
        "env A=1 rm -rf \"src\"",
        "sudo -u root rm -rf src",
        "timeout 5 rm -rf src",
        "nohup nice -n 5 rm -rf src &",
        "bash -c 'rm -rf src'",
        "sh -ec \"cd . && rm -rf src\"",
        "echo $(rm -rf src)",
        "echo `rm -rf src`",
        "true && { rm -rf src; }",
        "(cd . && rm -rf ./src)",
        "if true; then rm -rf src; fi",
        "for i in 1 2; do rm -rf src; done",
        "eval 'rm -rf src'",
        "bash <<'EOF'\nrm -rf src\nEOF",
        "bash <<< 'rm -rf src'",
        "X=1 rm -rf src",
        "ls; \\rm -rf src",
        "busybox rm -rf src",
    ] {
        let found = risk(command);
        assert_eq!(found.targets, [PathBuf::from("/w/src")], "{command}");
        assert!(found.level >= Level::Named, "{command}");
    }
}

/// If the `cd` fails, the rest of the command runs in the first folder.
#[test]
fn both_folders_count_after_a_cd() {
    for (command, want) in [
        ("cd build; rm -rf *", &["/w", "/w/build"][..]),
        ("cd build && rm -rf *", &["/w/build"]),
        ("(cd sub; rm -rf ../src)", &["/src", "/w/src"]),
        ("(cd sub && rm -rf a); rm b", &["/w/b", "/w/sub/a"]),
        ("cd sub && cd deep && rm a", &["/w/sub/deep/a"]),
        ("cd /x && echo y > z", &["/x/z"]),
        ("for f in a b; do rm \"$f\"; done", &["/w/a", "/w/b"]),
    ] {
        assert_eq!(targets(command), want, "{command}");
    }
    assert!(risk("while true; do rm a; cd ..; done").everything);
    assert!(risk("cd \"$X\" && rm -rf a").everything);
    // A script in an unknown folder may do anything.
    for command in ["sh clean.sh", "./clean.sh", "python3 gone.py", ". ./clean.sh"] {
        assert!(risk(&format!("cd \"$X\" && {command}")).everything, "{command}");
    }
    assert!(!risk("cd \"$X\" && ls").everything);
    assert!(!risk("cd \"$X\" && sh /usr/bin/known").everything);
}

#[test]
fn long_texts_are_read_whole() {
    let lines = "a line of text\n".repeat(3_000);
    let long = format!("cat > a.txt <<'EOF'\n{lines}EOF\nrm -rf src");
    assert_eq!(targets(&long), ["/w/a.txt", "/w/src"]);
    assert!(!risk(&long).everything);
    assert!(risk(&format!("echo {}", "x".repeat(300_000))).everything);
}

#[test]
fn files_that_are_written_are_targets() {
    for (command, want) in [
        ("echo x > a.txt", "/w/a.txt"),
        ("echo x >| a.txt", "/w/a.txt"),
        (": > a.txt", "/w/a.txt"),
        ("> a.txt", "/w/a.txt"),
        ("make &> a.txt", "/w/a.txt"),
        ("make > a.txt 2>&1", "/w/a.txt"),
        ("cat x | tee a.txt", "/w/a.txt"),
        ("dd if=/dev/zero of=a.txt", "/w/a.txt"),
        ("sed -i s/a/b/ a.txt", "/w/a.txt"),
        ("curl -o a.txt http://x", "/w/a.txt"),
        ("cat <<EOF > a.txt\nrm -rf /\nEOF", "/w/a.txt"),
        ("sh clean.sh", "/w/build"),
        ("./clean.sh", "/w/build"),
        ("rm /w/sub/*.txt", "/w/sub"),
        ("rm ~/x", "/home/u/x"),
        ("git worktree remove ../wt", "/wt"),
    ] {
        assert!(targets(command).contains(&want.to_owned()), "{command}: {:?}", targets(command));
    }
    assert_eq!(targets("make > /dev/null 2>&1"), Vec::<String>::new());
}

#[test]
fn what_cannot_be_known_puts_everything_at_risk() {
    for command in [
        "rm -rf $X",
        "python3 -c 'import shutil; shutil.rmtree(\"src\")'",
        "python3 gone.py",
        "perl -e 'unlink glob \"*\"'",
        "node -e 'require(\"fs\").rmSync(\"src\")'",
        "ls | xargs rm",
        "find . -name x | xargs -0 rm -f",
        "curl http://x | sh",
        "$CMD src",
        "eval \"$X\"",
        "rm -rf \"$(pwd)\"",
    ] {
        assert!(risk(command).everything, "{command}: {:?}", risk(command));
    }
}

#[test]
fn a_repository_is_at_risk_by_what_is_done_to_it() {
    assert_eq!(risk("git status").level, Level::Ordinary);
    assert_eq!(risk("git reset --hard").git, GitRisk::State);
    assert_eq!(risk("git gc --prune=now").git, GitRisk::Objects);
    assert_eq!(risk("rm -rf .git").git, GitRisk::Objects);
    assert_eq!(risk("find . -delete").git, GitRisk::Objects);
    assert_eq!(risk("rm -rf *").git, GitRisk::None);
    assert!(risk("git clean -fdx").ignored && !risk("git clean -fd").ignored);
    for (command, dirs, nested) in [
        ("git reset --hard", &["/w"][..], GitRisk::None),
        ("cd inner && git gc", &["/w/inner"], GitRisk::None),
        ("git -C a -C b gc", &["/w/a/b"], GitRisk::None),
        ("git log", &[], GitRisk::None),
        ("git clean -fdx", &["/w"], GitRisk::None),
        ("git clean -ffdx", &["/w"], GitRisk::Objects),
        ("git clean -f -d --force", &["/w"], GitRisk::Objects),
        ("git submodule -q foreach 'git gc'", &["/w"], GitRisk::Objects),
        ("git --git-dir y update-ref -d y", &["/w/y", "/w"], GitRisk::State),
        ("git --git-dir=x update-ref -d y", &["/w/x", "/w"], GitRisk::State),
        ("GIT_DIR=x git gc", &["/w", "/w/x"], GitRisk::Objects),
    ] {
        let found = risk(command);
        let dirs: Vec<PathBuf> = dirs.iter().map(PathBuf::from).collect();
        assert_eq!((found.git_dirs, found.nested), (dirs, nested), "{command}");
    }
    assert_eq!(risk("git -C \"$X\" gc").nested, GitRisk::Objects);
    assert_eq!(risk("cd \"$X\" && git gc").nested, GitRisk::Objects);
}

#[test]
fn ordinary_commands_are_ordinary() {
    for command in [
        "ls",
        "cargo test",
        "cargo build --release",
        "npm test",
        "echo rm -rf src",
        "make",
        "grep -rn rm .",
        "git log",
    ] {
        assert_eq!(risk(command), Risk::default(), "{command}");
    }
}

#[test]
fn no_text_is_too_strange_to_be_read() {
    for text in [
        "",
        "'",
        "\"",
        "$(",
        "`",
        "<<",
        "<<<",
        ">",
        "((((",
        "a\\",
        "rm -rf \u{1F600}",
        "{",
        "cat <<E",
        "$'",
        "&>",
    ] {
        let _ = risk(text);
    }
}
