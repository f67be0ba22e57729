//! Tests of rules files: order, imports, duplicates, cuts, and what cannot be used.

use super::*;
use std::fs;

/// Makes a project with a `.git` folder and these files. Returns its canonical path.
fn project(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap().join("project");
    fs::create_dir_all(root.join(".git")).unwrap();
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    (dir, root)
}

fn names(rules: &Rules, root: &Path) -> Vec<String> {
    rules
        .items
        .iter()
        .map(|item| {
            let path = item.path.as_ref().unwrap();
            path.strip_prefix(root).unwrap_or(path).display().to_string()
        })
        .collect()
}

#[test]
fn order_is_user_then_root_to_cwd_and_agents_goes_first() {
    let (_keep, root) = project(&[
        ("../home/AGENTS.md", "mine"),
        ("../CLAUDE.md", "above the repository"),
        ("AGENTS.md", "root"),
        ("CLAUDE.md", "also"),
        ("CLAUDE.local.md", "local"),
        ("a/CLAUDE.md", "a"),
        ("a/b/AGENTS.md", "  \n"),
        ("a/b/c/AGENTS.md", "below cwd"),
    ]);
    let user = root.parent().unwrap().join("home/AGENTS.md");
    let settings = RulesSettings { user_files: vec![user, "/nowhere".into()], ..RulesSettings::default() };
    let rules = load(&root.join("a/b"), &settings);
    assert_eq!(rules.notices, Vec::<String>::new());
    assert_eq!(names(&rules, &root)[1..], ["AGENTS.md", "CLAUDE.md", "CLAUDE.local.md", "a/CLAUDE.md"]);
    assert_eq!(rules.items[1].text, format!("# Rules from {}\n\nroot", root.join("AGENTS.md").display()));
    assert!(rules.items[0].text.ends_with("\n\nmine"));
    assert_eq!(load(&root, &RulesSettings { off: true, ..settings }), Rules::default());
}

#[test]
fn neighbours_say_nothing_twice() {
    for (agents, claude, want) in [
        ("same", "same", &["same"][..]),
        ("a @CLAUDE.md", "c", &["a @CLAUDE.md\n\n## Imported: @CLAUDE.md\n\nc"]),
        ("a", "see @AGENTS.md", &["a", "see @AGENTS.md"]),
        ("a", "c", &["a", "c"]),
    ] {
        let (_keep, root) = project(&[("AGENTS.md", agents), ("CLAUDE.md", claude)]);
        let rules = load(&root, &RulesSettings::default());
        let texts: Vec<&str> = rules.items.iter().map(|i| i.text.split_once("\n\n").unwrap().1).collect();
        assert_eq!(texts, want, "{agents:?} {claude:?}");
        let again =
            again(&root, std::slice::from_ref(&root), &[], SentRules::default(), &RulesSettings::default());
        assert_eq!(again, rules, "{agents:?} {claude:?}");
    }
    let (_keep, root) = project(&[("AGENTS.md", "linked")]);
    std::os::unix::fs::symlink("AGENTS.md", root.join("CLAUDE.md")).unwrap();
    assert_eq!(load(&root, &RulesSettings::default()).items.len(), 1);
}

#[test]
fn what_cannot_be_used_is_told() {
    let (_keep, root) = project(&[("AGENTS.md", "@gone.md @./x @docs/ @alice @types/node"), ("docs/a", "")]);
    fs::write(root.join("CLAUDE.md"), b"\xff\0\x01").unwrap();
    let rules = load(&root, &RulesSettings::default());
    let told: Vec<&str> = rules.notices.iter().map(|n| n.rsplit('/').next().unwrap()).collect();
    assert_eq!(
        told,
        [
            "AGENTS.md: `@gone.md` was not imported: there is no such file",
            "x` was not imported: there is no such file",
            "CLAUDE.md is not text; it is not used"
        ]
    );
    assert_eq!(rules.items.len(), 1);
}

#[test]
fn nested_rules_are_found_once_per_folder() {
    let (_keep, root) =
        project(&[("x/AGENTS.md", "x"), ("x/y/z/CLAUDE.md", "z"), ("x/y/z/f.rs", ""), ("AGENTS.md", "root")]);
    let mut seen = HashSet::new();
    let settings = RulesSettings::default();
    let mut found = |path: &Path| below(&root, path, &mut seen, &[], SentRules::default(), &settings);
    let rules = found(&root.join("x/y/z/f.rs"));
    assert_eq!(names(&rules, &root), ["x/AGENTS.md", "x/y/z/CLAUDE.md"]);
    assert_eq!(found(&root.join("x/y/z/g.rs")), Rules::default());
    assert_eq!(found(Path::new("/etc/passwd")), Rules::default());
    assert_eq!(found(&root.join("f.rs")), Rules::default());
}

#[test]
fn imports_follow_cycles_once_and_stay_inside() {
    let (_keep, root) = project(&[
        ("AGENTS.md", "see @docs/a.md, `@docs/code.md` and @../outside.md or mail@example.org @nobody\n"),
        ("docs/a.md", "A @b.md"),
        ("docs/b.md", "B @a.md @../AGENTS.md"),
        ("docs/code.md", "code"),
        ("../outside.md", "outside"),
    ]);
    let rules = load(&root, &RulesSettings::default());
    let want = format!(
        "# Rules from {}\n\nsee @docs/a.md, `@docs/code.md` and @../outside.md or mail@example.org @nobody\n\n\n## \
         Imported: @docs/a.md\n\nA @b.md\n\n## Imported: @b.md\n\nB @a.md @../AGENTS.md",
        root.join("AGENTS.md").display()
    );
    assert_eq!(rules.items[0].text, want);
    assert_eq!(
        rules.notices,
        [format!(
            "{}: `@../outside.md` was not imported: that lies outside the project; copy it here, or name it under \
             `rules.files` in your own configuration",
            root.join("AGENTS.md").display()
        )]
    );
    let trusting = RulesSettings { trust_imports: true, ..RulesSettings::default() };
    assert!(load(&root, &trusting).items[0].text.ends_with("outside"));
}

/// A rules file of a project is sent to the model without a question, so it must not lead to other files.
#[test]
fn links_and_imports_of_a_project_stay_inside() {
    const OUTSIDE: &str = "that lies outside the project; copy it here, or name it under `rules.files`";
    const SECRET: &str = "such files hold secrets";
    let settings = |root: &Path| {
        let home = root.parent().unwrap().join("home");
        RulesSettings {
            user_files: vec![home.join(".config/becket/AGENTS.md")],
            own_dirs: vec![home.join(".config/becket"), home.join(".claude")],
            home: Some(home),
            ..RulesSettings::default()
        }
    };
    let files = [
        ("docs/inside.md", "inside"),
        ("deploy.pem", "private"),
        ("sub/dir/CLAUDE.md", "nested"),
        ("../other/notes.md", "private"),
        ("../home/.bashrc", "private"),
        ("../home/notes.md", "private"),
        ("../home/.ssh/config", "private"),
        ("../home/.config/becket/mine.md", "mine"),
        ("../home/.config/becket/keys.toml", "private"),
        ("../home/.claude/shared.md", "shared"),
        ("../home/.claude/.credentials.json", "private"),
        ("../home/.claude/history.jsonl", "private"),
    ];
    for (target, want) in [
        ("docs/inside.md", Ok("inside")),
        ("./docs/../docs/inside.md", Ok("inside")),
        ("deploy.pem", Err(SECRET)),
        ("../other/notes.md", Err(OUTSIDE)),
        ("docs/../../other/notes.md", Err(OUTSIDE)),
        ("../home/.bashrc", Err(OUTSIDE)),
        ("../home/notes.md", Err(OUTSIDE)),
        ("../home/.ssh/config", Err(SECRET)),
        ("../home/.config/becket/mine.md", Ok("mine")),
        ("../home/.config/becket/keys.toml", Err(OUTSIDE)),
        ("../home/.claude/shared.md", Ok("shared")),
        ("../home/.claude/.credentials.json", Err(SECRET)),
        ("../home/.claude/history.jsonl", Err(OUTSIDE)),
        ("/etc/hostname", Err(OUTSIDE)),
        ("/proc/self/environ", Err(SECRET)),
    ] {
        for name in ["AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md", "import"] {
            let (_keep, root) = project(&files);
            let at = root.join(if name == "import" { "AGENTS.md" } else { name });
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            let full = if target.starts_with('/') { PathBuf::from(target) } else { root.join(target) };
            if name == "import" {
                fs::write(&at, format!("first @{target}")).unwrap();
            } else {
                std::os::unix::fs::symlink(&full, &at).unwrap();
            }
            let rules = load(&root, &settings(&root));
            let all: String = rules.items.iter().map(|item| item.text.as_str()).collect();
            assert!(!all.contains("private"), "{name} {target}: {all}");
            match want {
                Ok(text) => {
                    assert!(all.ends_with(text), "{name} {target}: {all} {:?}", rules.notices);
                    assert_eq!(rules.notices, Vec::<String>::new(), "{name} {target}");
                }
                Err(why) => {
                    assert_eq!(rules.notices.len(), 1, "{name} {target}: {:?}", rules.notices);
                    assert!(rules.notices[0].contains(why), "{name} {target}: {:?}", rules.notices);
                    assert_eq!(rules.items.len(), usize::from(name == "import"), "{name} {target}");
                }
            }
        }
    }
    // The rule also holds for links to a folder above the file, and for files below the working directory.
    let (_keep, root) = project(&files);
    fs::create_dir(root.join("../other/CLAUDE")).unwrap();
    fs::write(root.join("../other/CLAUDE/CLAUDE.md"), "private").unwrap();
    std::os::unix::fs::symlink("../other/CLAUDE", root.join(".claude")).unwrap();
    std::os::unix::fs::symlink("../../other/notes.md", root.join("sub/AGENTS.md")).unwrap();
    assert_eq!(load(&root, &settings(&root)).items, []);
    let found = below(
        &root,
        &root.join("sub/dir/f"),
        &mut HashSet::new(),
        &[],
        SentRules::default(),
        &settings(&root),
    );
    assert_eq!(names(&found, &root), ["sub/dir/CLAUDE.md"]);
    assert!(found.notices[0].contains(OUTSIDE), "{:?}", found.notices);
}

/// `rules.files` of a project's configuration is in the same list as that of the user.
#[test]
fn a_file_that_a_project_configures_is_a_file_of_the_project() {
    let (_keep, root) = project(&[("../other/notes.md", "private"), ("plain.md", "plain")]);
    std::os::unix::fs::symlink("../other/notes.md", root.join("more.md")).unwrap();
    let user_files = vec![root.join("more.md"), root.join("plain.md")];
    let rules = load(&root, &RulesSettings { user_files, ..RulesSettings::default() });
    assert_eq!(bodies(&rules), ["plain"]);
    assert!(rules.notices[0].contains("more.md is not used"), "{:?}", rules.notices);
}

/// The user's own files may be links to anywhere and import from the home directory.
#[test]
fn the_users_own_rules_reach_further() {
    let (_keep, root) = project(&[
        ("../dotfiles/AGENTS.md", "linked @~/notes.md @../other.md"),
        ("../home/notes.md", "notes"),
        ("../home/.config/x", ""),
        ("../other.md", "other"),
    ]);
    let home = root.parent().unwrap().join("home");
    let own = home.join(".config/AGENTS.md");
    std::os::unix::fs::symlink(root.join("../dotfiles/AGENTS.md"), &own).unwrap();
    let settings = RulesSettings { user_files: vec![own], home: Some(home), ..RulesSettings::default() };
    let rules = load(&root, &settings);
    assert!(rules.items[0].text.ends_with("## Imported: @~/notes.md\n\nnotes"), "{:?}", rules.items);
}

#[test]
fn imports_nest_four_deep_and_never_bring_secrets() {
    let (_keep, root) = project(&[
        ("AGENTS.md", "@1.md @.env @deploy.pem"),
        ("1.md", "one @2.md"),
        ("2.md", "two @3.md"),
        ("3.md", "three @4.md"),
        ("4.md", "four @5.md"),
        ("5.md", "five"),
        (".env", "KEY=1"),
        ("deploy.pem", "key"),
    ]);
    let rules = load(&root, &RulesSettings::default());
    let text = &rules.items[0].text;
    assert!(text.contains("four") && !text.contains("five") && !text.contains("KEY=1"));
    assert_eq!(rules.notices.len(), 3, "{:?}", rules.notices);
}

#[test]
fn comments_vanish_outside_code_and_long_files_are_cut() {
    for (text, want) in [
        ("a\n<!-- note\nto self -->\nb\n", "a\nb\n"),
        ("a <!-- x --> b", "a  b"),
        ("```\n<!-- kept -->\n```\n<!-- gone -->\n", "```\n<!-- kept -->\n```\n"),
        ("<!-- open", "<!-- open"),
        ("<!--\n```\ncode\n```\n-->\nz", "z"),
    ] {
        assert_eq!(strip_comments(text), want, "{text:?}");
    }
    let (_keep, root) = project(&[("AGENTS.md", &"é".repeat(20_000))]);
    let rules = load(&root, &RulesSettings::default());
    assert!(
        rules.items[0].text.contains("é\n[cut: the first 32768 of 40000 bytes; read "),
        "{}",
        rules.items[0].text
    );
    assert_eq!(rules.notices.len(), 1);
}

#[test]
fn what_is_not_a_regular_file_is_told_once_and_not_opened() {
    use std::os::unix::fs::symlink;
    type Put = fn(&Path);
    let cases: [(Put, &str); 5] = [
        (|at| fs::create_dir(at).unwrap(), "it is a folder"),
        (
            |at| assert!(std::process::Command::new("mkfifo").arg(at).status().unwrap().success()),
            "a pipe, socket or device",
        ),
        (|at| symlink("/dev/zero", at).unwrap(), "a pipe, socket or device"),
        (|at| symlink(at.file_name().unwrap(), at).unwrap(), "a link that leads nowhere"),
        (|at| symlink("absent", at).unwrap(), "a link to a file that is not there"),
    ];
    for (put, why) in cases {
        let (_keep, root) = project(&[("CLAUDE.md", "used"), ("docs/x", "")]);
        put(&root.join("AGENTS.md"));
        let rules = load(&root, &RulesSettings::default());
        assert_eq!(names(&rules, &root), ["CLAUDE.md"]);
        assert_eq!(rules.notices.len(), 1, "{why}: {:?}", rules.notices);
        assert!(rules.notices[0].contains("AGENTS.md is not used") && rules.notices[0].contains(why));

        fs::write(root.join("CLAUDE.md"), "see @AGENTS.md").unwrap();
        let told = load(&root, &RulesSettings::default()).notices;
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[1].contains("`@AGENTS.md` was not imported") && told[1].contains(why), "{told:?}");
    }
}

/// Returns the texts below their headings.
fn bodies(rules: &Rules) -> Vec<&str> {
    rules.items.iter().map(|item| item.text.split_once("\n\n").unwrap().1).collect()
}

#[test]
fn a_text_stands_once_whatever_file_has_it() {
    let long = "Use tabs.\n".repeat(30);
    let (_keep, root) = project(&[
        ("AGENTS.md", "root @common.md"),
        ("common.md", "shared by all"),
        ("a/AGENTS.md", &long),
        ("b/CLAUDE.md", &long),
        ("c/AGENTS.md", "c @../common.md"),
        ("a/f", ""),
        ("b/f", ""),
        ("c/f", ""),
        ("d/f", ""),
    ]);
    std::os::unix::fs::symlink("../a/AGENTS.md", root.join("d/AGENTS.md")).unwrap();
    let settings = RulesSettings::default();
    let system = load(&root, &settings);
    let (mut seen, mut standing) = (HashSet::new(), system.standing.clone());
    let mut given = Vec::new();
    for folder in ["a", "b", "c", "d"] {
        let found = below(&root, &root.join(folder).join("f"), &mut seen, &[], standing, &settings);
        given.extend(found.items.clone());
        standing = found.standing;
    }
    let a = root.join("a/AGENTS.md").display().to_string();
    let same = format!("The same text as in {a}; it applies here, too.");
    let all = Rules { items: given, ..Rules::default() };
    assert_eq!(bodies(&all)[0], long.trim_end());
    assert_eq!(bodies(&all)[1], same);
    let shared = root.join("AGENTS.md").display().to_string();
    let imported = format!(
        "c @../common.md\n\n## Imported: @../common.md\n\nThe same text is in the rules from {shared}."
    );
    assert_eq!(bodies(&all)[2], imported);
    assert_eq!(bodies(&all)[3], same);
    // Reading them again in the same order gives the same result. Without the first file, the second one is
    // complete.
    let dirs: Vec<PathBuf> = ["a", "b", "c", "d"].iter().map(|dir| root.join(dir)).collect();
    assert_eq!(again(&root, &dirs, &[], system.standing.clone(), &settings).items, all.items);
    let without = again(&root, &dirs[1..], &[], system.standing, &settings);
    assert_eq!(bodies(&without)[0], long.trim_end());
}

#[test]
fn rules_fit_into_their_share_and_say_what_was_cut() {
    let item = |name: &str, lines: usize| SystemItem {
        kind: SystemKind::Rules,
        path: Some(name.into()),
        text: format!("# Rules from {name}\n\n{}", "Never push to the main branch.\n".repeat(lines)),
    };
    // (lines of each file, usable tokens, files that are cut)
    for (lines, usable, want) in [
        (&[10, 10][..], 100_000, &[][..]),
        (&[10, 1_000], 10_000, &["b"]),
        (&[1_000, 900], 10_000, &["a", "b"]),
        (&[1_000], 300, &["a"]),
    ] {
        let whole: Vec<SystemItem> = lines.iter().zip(["a", "b"]).map(|(n, name)| item(name, *n)).collect();
        for nested in [false, true] {
            let mut items = whole.clone();
            let told = if nested {
                fit::nested(&mut items, (0, 0), usable)
            } else {
                fit::system(&mut items, usable)
            };
            let cut: Vec<&SystemItem> =
                items.iter().zip(&whole).filter(|(a, b)| a != b).map(|(a, _)| a).collect();
            assert_eq!(told.len(), cut.len(), "{lines:?} {usable}");
            // When added one after the other, the first of two large files takes all the space it needs.
            if !nested || lines.len() < 2 || lines[0] < 100 {
                let names: Vec<_> =
                    cut.iter().map(|item| item.path.as_ref().unwrap().to_str().unwrap()).collect();
                assert_eq!(names, want, "{lines:?} {usable} {nested}");
            }
            for item in cut {
                let path = item.path.as_ref().unwrap().display();
                assert!(item.text.contains(&format!("Read {path} for the rest")), "{}", item.text);
                assert!(item.text.starts_with(&format!("# Rules from {path}\n\n")), "{}", item.text);
            }
            // A cut file may exceed its share by its notice about the cut.
            let most = (usable as f64 * 0.35) as u64 + 80 * items.len() as u64;
            assert!(fit::size(&items) <= most, "{} {most}", fit::size(&items));
            // A file that was already cut is not cut again.
            let mut again = whole.clone();
            if nested {
                fit::nested(&mut again, (0, 0), usable)
            } else {
                fit::system(&mut again, usable)
            };
            assert_eq!(again, items);
        }
    }
}

#[test]
fn an_override_replaces_its_neighbour() {
    let (_keep, root) = project(&[
        ("../home/AGENTS.md", "mine"),
        ("../home/AGENTS.override.md", "mine instead"),
        ("AGENTS.md", "root"),
        ("AGENTS.override.md", "instead"),
        ("CLAUDE.md", "also"),
        ("a/AGENTS.md", "a"),
    ]);
    let user_files = vec![root.parent().unwrap().join("home/AGENTS.md")];
    let rules = load(&root.join("a"), &RulesSettings { user_files, ..RulesSettings::default() });
    assert_eq!(names(&rules, &root)[1..], ["AGENTS.override.md", "CLAUDE.md", "a/AGENTS.md"]);
    assert!(rules.items[0].text.ends_with("\n\nmine instead"));
}

#[test]
fn files_of_rules_folders_apply_always_or_to_their_paths() {
    let (_keep, root) = project(&[
        ("../home/rules/own.md", "mine"),
        ("../home/rules/scoped.md", "---\npaths: \"*.py\"\n---\nof python"),
        ("CLAUDE.md", "c"),
        (".claude/rules/all.md", "---\ndescription: x\n---\nalways"),
        (".claude/rules/deep/api.md", "---\npaths:\n  - src/api/**\n---\nof the api"),
        (".becket/rules/more.md", "more"),
        (".claude/rules/wrong.md", "---\npaths: \"[\"\n---\nnever"),
        ("src/.claude/rules/nested.md", "nested"),
    ]);
    let settings =
        RulesSettings { own_dirs: vec![root.parent().unwrap().join("home")], ..RulesSettings::default() };
    let rules = load(&root, &settings);
    let listed = names(&rules, &root);
    assert!(listed[0].ends_with("home/rules/own.md"), "{listed:?}");
    assert_eq!(listed[1..], ["CLAUDE.md", ".claude/rules/all.md", ".becket/rules/more.md"]);
    assert!(rules.items[2].text.ends_with("\n\nalways"), "{}", rules.items[2].text);
    assert!(
        rules.notices.len() == 1 && rules.notices[0].contains("wrong.md: its `paths`"),
        "{:?}",
        rules.notices
    );
    assert_eq!(rules.scoped.len(), 2);
    let mut seen = HashSet::new();
    let mut found = |path: &str| {
        let rules = below(&root, &root.join(path), &mut seen, &rules.scoped, SentRules::default(), &settings);
        names(&rules, &root)
    };
    assert_eq!(found("a.rs"), Vec::<String>::new());
    assert_eq!(found("src/api/a.rs"), ["src/.claude/rules/nested.md", ".claude/rules/deep/api.md"]);
    assert_eq!(found("src/api/b.rs"), Vec::<String>::new(), "once");
    let python = found("b.py");
    assert!(python.len() == 1 && python[0].ends_with("scoped.md"), "{python:?}");
    let files: Vec<PathBuf> = rules.scoped.iter().map(|scoped| scoped.file.clone()).collect();
    assert_eq!(again(&root, &[], &files, SentRules::default(), &settings).items.len(), 2);
}
