//! Repositories below the workspace, of every layout: what commands do to their own files is undone, and what others
//! committed since stays readable.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use becket_snapshot::Action;
use becket_types::EntryKind;
use std::fs;
use std::path::{Path, PathBuf};
use support::{Lab, repository, tree};

/// An empty workspace in a folder of its own.
fn lab() -> (tempfile::TempDir, Lab) {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    let (root, home) = (base.join("work"), base.join("home"));
    fs::create_dir(&root).unwrap();
    fs::create_dir(&home).unwrap();
    (dir, Lab::new(&root, &home))
}

/// Runs a command as somebody else would; it must succeed.
fn given(lab: &Lab, command: &str) -> String {
    let output = lab.shell(&format!("set -e\n{command}"));
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A repository in `inner` with two commits, one in a linked working tree `linked`, and a submodule `sub` of the workspace.
const REPOSITORIES: &str = "
git init -q -b main inner; cd inner
echo s > f.txt; git add .; git commit -qm first; echo s2 >> f.txt; git commit -qam second
git worktree add -q ../linked -b linked; cd ..
git init -q -b main ../origin; cd ../origin
echo o > f.txt; git add .; git commit -qm o1; echo o2 >> f.txt; git commit -qam o2; cd ../work
";
const OUTER: &str = "
git init -q -b main; printf 'inner\\nlinked\\n' > .gitignore
git -c protocol.file.allow=always submodule add -q ../origin sub
git add .; git commit -qm outer
";

/// Everything that git and the file system say about it.
fn state(lab: &Lab) -> Vec<String> {
    let repositories = ["", "inner", "linked", "sub"].map(|name| lab.root.join(name));
    let of = |dir: &PathBuf| {
        let sound = lab.shell(&format!("cd {} && git fsck --full --no-dangling", dir.display()));
        let said = format!("{} {}", sound.status, String::from_utf8_lossy(&sound.stderr));
        format!("{}\n{said}\n{}", dir.display(), repository(dir, &lab.home))
    };
    let mut all: Vec<String> = repositories.iter().map(of).collect();
    all.push(format!("{:#?}", tree(&lab.root)));
    all
}

#[test]
fn what_commands_do_to_repositories_below_the_workspace_is_undone() {
    let drop = "git reset --hard HEAD~1 -q && git clean -fdxq && git reflog expire --expire=now --all && git gc -q --prune=now";
    let commands = [
        (false, "rm -rf inner".to_owned()),
        (false, "rm -rf *".to_owned()),
        (false, "rm -rf inner/.git linked/.git".to_owned()),
        (false, "cd inner && git reset -q --hard HEAD~1".to_owned()),
        (false, "mv inner moved".to_owned()),
        (false, "find . -delete".to_owned()),
        (false, "D=inner; rm -rf \"$(echo $D)\"".to_owned()),
        (true, "rm -rf inner".to_owned()),
        (true, "rm -rf sub linked".to_owned()),
        (true, "git clean -ffdxq".to_owned()),
        (true, "git clean -xdff -q && rm -rf .git".to_owned()),
        (true, format!("cd inner && {drop}")),
        (true, format!("cd sub && {drop}")),
        (true, format!("cd linked && {drop}")),
        (true, format!("git submodule -q foreach '{drop}'")),
        (true, format!("bash -c 'cd inner; {drop}'")),
        (true, "git -C inner reset -q --hard HEAD~1; git -C inner reflog expire --expire=now --all; git -C inner gc -q --prune=now".to_owned()),
        (true, "git --git-dir=inner/.git update-ref refs/heads/main HEAD~1".to_owned()),
        (true, "GIT_DIR=inner/.git git reflog expire --expire=now --all; GIT_DIR=inner/.git git update-ref -d refs/heads/linked".to_owned()),
        (true, "git rm -rqf sub".to_owned()),
    ];
    for (outer, command) in commands {
        let (_dir, mut lab) = lab();
        given(&lab, REPOSITORIES);
        given(&lab, if outer { OUTER } else { "git init -q ../other; mkdir sub" });
        let before = state(&lab);
        lab.call(&command);
        assert_ne!(state(&lab), before, "{command}: it changes nothing");
        let (plan, applied) = lab.undo(1, false);
        assert!(applied.failed.is_empty(), "{command}: {:?}", applied.failed);
        let left = plan.paths.iter().filter(|p| matches!(p.action, Action::Conflict(_) | Action::Lost(_)));
        let left: Vec<_> = left.map(|p| (&p.path, &p.action)).collect();
        assert!(left.is_empty(), "{command}: {left:#?}");
        for (now, was) in state(&lab).iter().zip(&before) {
            assert_eq!(now, was, "{command}");
        }
    }
}

/// Every layout in which a call can make objects. `since` is the command with which a person then builds on these objects.
#[test]
fn objects_that_others_build_upon_stay() {
    let work = "echo work >> f.txt && git add -A && git commit -qm model";
    let person = "echo mine >> f.txt && git add -A && git commit -qm mine";
    for (name, start, call, since, at) in [
        ("own", "git init -q; git commit -q --allow-empty -m a".to_owned(), work.to_owned(), person.to_owned(), "."),
        ("inner", REPOSITORIES.to_owned(), format!("cd inner && {work}"), format!("cd inner && {person}"), "inner"),
        ("linked", REPOSITORIES.to_owned(), format!("cd linked && {work}"), format!("cd linked && {person}"), "linked"),
        ("submodule", format!("{REPOSITORIES}{OUTER}"), format!("cd sub && {work}"), format!("cd sub && {person}"), "sub"),
        ("created", "echo a > a.txt".to_owned(), format!("git init -q && {work}"), person.to_owned(), "."),
        ("created below", "echo a > a.txt".to_owned(), format!("mkdir n && cd n && git init -q && {work}"), format!("cd n && {person}"), "n"),
        ("created, tagged", "echo a > a.txt".to_owned(), format!("git init -q && {work}"), "git tag mine".to_owned(), "."),
        ("cloned", REPOSITORIES.to_owned(), "git clone -q inner copy".to_owned(), format!("cd copy && {person}"), "copy"),
        ("tree", REPOSITORIES.to_owned(), "git -C inner worktree add -q ../more".to_owned(), format!("cd more && {person}"), "more"),
        (
            "bare",
            "git init -q --bare; git update-ref refs/heads/main $(git commit-tree -m a $(git mktree < /dev/null)); git symbolic-ref HEAD refs/heads/main".to_owned(),
            "git update-ref refs/heads/x $(git commit-tree -m bare -p HEAD HEAD^{tree})".to_owned(),
            "git branch keep x".to_owned(),
            ".",
        ),
    ] {
        let (_dir, mut lab) = lab();
        given(&lab, &start);
        let output = lab.call(&call);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        given(&lab, &since);
        lab.undo(1, false);
        given(&lab, &format!("cd {at} && git fsck --full && git log --all -p"));
        let log = given(&lab, &format!("cd {at} && git log --all --format=%s && git tag"));
        let kept = if name == "bare" { "bare" } else { "mine" };
        assert!(log.contains(kept), "{name}: {log}");
    }
}

#[test]
fn a_repository_that_calls_created_goes_as_a_whole_and_comes_back() {
    for calls in [
        &["git init -q && echo a > a.txt && git add -A && git commit -qm a"][..],
        &[
            "mkdir n; git init -q n",
            "cd n && echo a > a.txt && git add -A",
            "cd n && git commit -qm a && git gc -q",
        ],
        &[
            "git init -q --bare b.git",
            "git -C b.git update-ref refs/heads/main $(git -C b.git commit-tree -m a $(git -C b.git mktree < /dev/null))",
        ],
        &["git clone -q ../origin copy"],
    ] {
        let (_dir, mut lab) = lab();
        given(&lab, "git init -q ../origin; cd ../origin; echo o > o; git add .; git commit -qm o");
        for call in calls {
            let output = lab.call(call);
            assert!(output.status.success(), "{call}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let find = "find . -type f -not -name index | sort | xargs sha1sum";
        let before = given(&lab, find);
        let (plan, applied) = lab.undo(calls.len(), false);
        assert!(applied.failed.is_empty(), "{calls:?}: {:?}", applied.failed);
        assert_eq!(fs::read_dir(&lab.root).unwrap().count(), 0, "{calls:?}: {:#?}", plan.paths);
        let (_, applied) = lab.redo().unwrap();
        assert!(applied.failed.is_empty(), "{calls:?}: {:?}", applied.failed);
        assert_eq!(given(&lab, find), before, "{calls:?}");
    }
}

#[test]
fn what_of_a_repository_is_too_large_is_named_before_and_after() {
    let (_dir, mut lab) = lab();
    given(
        &lab,
        "git init -q p; cd p; head -c 11000000 /dev/urandom > big; git add .; git commit -qm big; rm big",
    );
    lab.call("rm -rf p");
    let is_object = |path: &Path| path.starts_with(lab.root.join("p/.git/objects"));
    let named = lab.entries.iter().any(|entry| match &entry.kind {
        EntryKind::FileSnapshot(snapshot) => snapshot.skipped.iter().any(|s| is_object(&s.path.0)),
        _ => false,
    });
    assert!(named, "the record does not name it");
    let history = lab.history();
    let plan = becket_snapshot::plan_undo(&history, &history.last_calls(1), false, &*lab.blobs);
    let lost = plan.paths.iter().filter(|p| matches!(p.action, Action::Lost(_)));
    let lost: Vec<_> = lost.map(|p| p.path.clone()).collect();
    assert!(matches!(lost.as_slice(), [path] if is_object(path)), "{lost:?}");
}

#[test]
fn a_folder_that_is_gone_is_not_made_again_unless_forced() {
    for (call, since) in [
        ("rm d/a.txt; echo 2 > d/b.txt; echo 2 > d/c.txt", "mv d e"),
        ("rm d/a.txt; echo 2 > d/b.txt; echo 2 > d/c.txt", "rm -rf d"),
        ("rm -rf d/sub; echo 2 > d/b.txt", "mv \"$PWD\" \"$PWD-moved\""),
    ] {
        let (_dir, mut lab) = lab();
        given(&lab, "mkdir -p d/sub; echo 1 > d/a.txt; echo 1 > d/b.txt; echo 1 > d/sub/a.txt");
        lab.call(call);
        given(&lab, since);
        let before = tree(lab.root.parent().unwrap());
        let (plan, _) = lab.undo(1, false);
        assert_eq!(tree(lab.root.parent().unwrap()), before, "{since}: {plan:#?}");
        let gone = if lab.root.exists() { lab.root.join("d") } else { lab.root.clone() };
        for path in plan.paths.iter().filter(|p| p.want.is_some()) {
            let Action::Conflict(why) = &path.action else { panic!("{since}: {path:?}") };
            assert!(why.contains(&gone.display().to_string()), "{since}: {why}");
        }
        let (_, applied) = lab.undo(1, true);
        assert!(applied.failed.is_empty(), "{:?}", applied.failed);
        assert_eq!(fs::read_to_string(lab.root.join("d/b.txt")).unwrap(), "1\n", "{since}");
    }
}

#[test]
fn a_workspace_that_calls_deleted_and_made_again_stays() {
    let (_dir, mut lab) = lab();
    given(&lab, "echo a > a.txt; mkdir d; echo b > d/b.txt");
    let before = tree(&lab.root);
    let root = lab.root.clone();
    let id = lab.begin(&format!("rm -rf {}", root.display()));
    fs::remove_dir_all(&root).unwrap();
    lab.end(&id);
    lab.write(&["b.txt"], |root| {
        fs::create_dir(root).unwrap();
        fs::write(root.join("b.txt"), "new\n").unwrap();
    });
    let (plan, applied) = lab.undo(2, false);
    assert!(applied.failed.is_empty(), "{:?}", applied.failed);
    let of_root: Vec<_> = plan.paths.iter().filter(|p| p.path == root).map(|p| &p.action).collect();
    assert!(of_root.iter().all(|action| **action != Action::Delete), "{of_root:?}");
    assert_eq!(tree(&root), before);
}
