//! Spellings of commands and the files that each of them runs.

use super::*;

struct Room {
    dir: tempfile::TempDir,
    root: PathBuf,
}

/// A project in a folder with a blank, an apostrophe and a letter that is not ASCII in its name.
fn room() -> Room {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap().join("my project's ö");
    for file in [
        "check.sh",
        "a b.sh",
        "it's.sh",
        "tools/x.py",
        "tools/run all.sh",
        "deep/er/x.sh",
        "bin/lint",
        "Makefile",
        "package.json",
        "mod/inner.py",
        "pkg/__main__.py",
        ".claude/hooks/h.sh",
        "opts.json",
    ] {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("text of {file}\n")).unwrap();
    }
    Room { dir, root }
}

impl Room {
    fn surroundings(&self) -> CommandEnvironment {
        let mut environment = Environment::below(self.dir.path());
        environment.vars.insert("TOOLS".to_owned(), "tools".to_owned());
        CommandEnvironment::new(&environment, &self.root, &self.root)
    }

    /// Returns the titles of the files in the trusted text of a command, without their sizes.
    fn parts(&self, command: ProjectCommand) -> Vec<String> {
        let text = with_scripts("config", &[command], &self.surroundings());
        let titles = text.lines().filter_map(|line| line.strip_prefix("--- "));
        titles
            .map(|title| match title.rsplit_once(", ") {
                Some((name, size)) if size.ends_with(" bytes") => name.to_owned(),
                _ => title.to_owned(),
            })
            .collect()
    }
}

const LATER: &str = ": not found. becket asks again when this file exists";
const UNKNOWN: &str = ": known only when it runs. becket does not notice a change of this file";

#[test]
fn every_spelling_finds_the_script() {
    let room = room();
    let absolute = room.root.join("check.sh").display().to_string().replace('\'', "'\\''");
    let absolute = format!("'{absolute}'");
    let table: Vec<(&str, &[&str])> = vec![
        ("./check.sh", &["check.sh"]),
        ("check.sh", &["check.sh"]),
        (absolute.as_str(), &["check.sh"]),
        ("\"$CLAUDE_PROJECT_DIR/check.sh\"", &["check.sh"]),
        ("\"$CLAUDE_PROJECT_DIR\"/check.sh", &["check.sh"]),
        ("\"${CLAUDE_PROJECT_DIR}/.claude/hooks/h.sh\" --all", &[".claude/hooks/h.sh"]),
        ("$CLAUDE_PROJECT_DIR/.claude/hooks/h.sh", &[".claude/hooks/h.sh"]),
        ("${CLAUDE_PROJECT_DIR:-.}/check.sh", &["check.sh"]),
        ("\"$BECKET_PROJECT_DIR/a b.sh\"", &["a b.sh"]),
        ("\"$PWD/a b.sh\"", &["a b.sh"]),
        ("\"$(pwd)/a b.sh\"", &["a b.sh"]),
        ("\"$(git rev-parse --show-toplevel)/a b.sh\"", &["a b.sh"]),
        ("'./a b.sh'", &["a b.sh"]),
        ("\"./a b.sh\"", &["a b.sh"]),
        ("./a\\ b.sh", &["a b.sh"]),
        ("./\"a b\".sh", &["a b.sh"]),
        ("$'./a b.sh'", &["a b.sh"]),
        ("\"./it's.sh\"", &["it's.sh"]),
        ("bash 'a b.sh'", &["a b.sh"]),
        ("bash -eu ./check.sh", &["check.sh"]),
        ("bash -x ./check.sh", &["check.sh"]),
        ("sh -c './check.sh && \"./a b.sh\"'", &["check.sh", "a b.sh"]),
        ("bash -c \"'./a b.sh'\"", &["a b.sh"]),
        ("python3 -u tools/x.py", &["tools/x.py"]),
        ("python3.12 tools/x.py --config=opts.json", &["tools/x.py", "opts.json"]),
        ("python3 -c \"exec(open('tools/x.py').read())\"", &["tools/x.py"]),
        ("python3 -m mod.inner", &["mod/inner.py"]),
        ("env A=b ./check.sh", &["check.sh"]),
        ("env -i ./check.sh", &["check.sh"]),
        ("env PYTHONPATH=x python3 tools/x.py", &["tools/x.py"]),
        ("A=b ./check.sh", &["check.sh"]),
        ("nice -n 5 timeout 10 ./check.sh", &["check.sh"]),
        ("sudo ./check.sh", &["check.sh"]),
        ("exec ./check.sh", &["check.sh"]),
        (". ./check.sh", &["check.sh"]),
        ("source ./check.sh", &["check.sh"]),
        ("cd tools && './run all.sh'", &["tools/run all.sh"]),
        ("cd \"$CLAUDE_PROJECT_DIR/deep/er\" && ./x.sh", &["deep/er/x.sh"]),
        ("(cd deep; cd er; ./x.sh)", &["deep/er/x.sh"]),
        ("D=\"$CLAUDE_PROJECT_DIR/tools\"; bash \"$D/run all.sh\"", &["tools/run all.sh"]),
        ("DD=\"$PWD/tools\"; D=\"$DD\"; bash \"$D/run all.sh\"", &["tools/run all.sh"]),
        ("TOOLS=\"${TOOLS}\"; bash \"$TOOLS/run all.sh\"", &["tools/run all.sh"]),
        ("S='./a b.sh'; \"$S\"", &["a b.sh"]),
        ("bash \"$TOOLS/run all.sh\"", &["tools/run all.sh"]),
        ("PATH=\"$PWD/bin:$PATH\" lint src", &["bin/lint"]),
        ("if true; then ./check.sh; else './a b.sh'; fi", &["check.sh", "a b.sh"]),
        ("for f in tools/*.sh; do sh \"$f\"; done", &["tools/run all.sh", "tools/x.py"]),
        ("cat check.sh | sh", &["check.sh"]),
        ("sh < check.sh", &["check.sh"]),
        ("bash <<< ./check.sh", &["check.sh"]),
        ("jq . | ./check.sh >> opts.json", &["check.sh"]),
        ("touch opts.json; ./check.sh", &["check.sh"]),
        ("sh -c './check.sh >> opts.json 2>&1'", &["check.sh"]),
        ("bash -c 'date > opts.json' name ./check.sh", &["check.sh"]),
        ("bash -c \"sh -c 'date > opts.json'\"", &[]),
        ("eval 'date > opts.json'", &[]),
        ("make lint", &["Makefile"]),
        ("cd deep/er && npm run lint", &["package.json"]),
        ("true", &[]),
        ("git status --short", &[]),
        ("/bin/ls -l /etc/passwd", &[]),
    ];
    for (command, want) in table {
        let found = room.parts(ProjectCommand::Shell(command.to_owned()));
        assert_eq!(found, want, "{command}");
    }
}

#[test]
fn a_program_without_a_shell_names_files_by_whole_words() {
    let room = room();
    for (words, want) in [
        (&["./a b.sh"][..], &["a b.sh"][..]),
        (&["bash", "a b.sh"], &["a b.sh"]),
        (&["python3", "-u", "tools/x.py"], &["tools/x.py"]),
        (&["env", "A=b", "./check.sh"], &["check.sh"]),
        (&["sh", "-c", "cd tools && './run all.sh'"], &["tools/run all.sh"]),
        (&["sh", "-c", "echo started >> opts.json; exec ./check.sh"], &["check.sh"]),
        (&["sh", "-c", "cat < opts.json"], &["opts.json"]),
        (&["uv", "run", "tools/x.py"], &["tools/x.py"]),
        (&["${CLAUDE_PROJECT_DIR}/check.sh"], &["check.sh"]),
        (&["npx", "-y", "@someone/server"], &[]),
    ] {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(room.parts(ProjectCommand::Words(words.clone())), want, "{words:?}");
    }
    let inner = room.surroundings().starting_in(Some("tools"));
    let text = with_scripts("", &[ProjectCommand::Words(vec!["./run all.sh".to_owned()])], &inner);
    assert!(text.contains("--- tools/run all.sh, "), "{text}");
}

#[test]
fn modules_are_found_as_python_and_node_find_them() {
    let room = room();
    for file in ["srv.py", "lib/far.py", "srv.js", "app/index.js", "app/start.js", "pre.js", "env.sh"] {
        std::fs::create_dir_all(room.root.join(file).parent().unwrap()).unwrap();
        std::fs::write(room.root.join(file), "x").unwrap();
    }
    std::fs::write(room.root.join("app/package.json"), "{\"main\": \"start\"}").unwrap();
    for (words, env, want) in [
        (&["python3", "-m", "srv"][..], &[][..], &["srv.py"][..]),
        (&["python3", "-msrv"], &[], &["srv.py"]),
        (&["python3", "-u", "-m", "runpy", "srv"], &[], &["srv.py"]),
        (&["python3", "-m", "far"], &[("PYTHONPATH", "lib")], &["lib/far.py", "lib: a folder."]),
        (&["python3", "-c", "import srv; srv.main()"], &[], &["srv.py", "code in an argument of python"]),
        (&["python3", "-c", "from srv import main"], &[], &["srv.py"]),
        (&["python3", "-c", "print(1)"], &[], &[]),
        (&["node", "srv"], &[], &["srv.js"]),
        (&["node", "app"], &[], &["app/index.js", "app/package.json", "app/start.js"]),
        (&["node", "."], &[], &["package.json"]),
        (&["node", "-r", "./pre", "app/index.js"], &[], &["pre.js", "app/index.js"]),
        (&["node", "-e", "require('./srv')"], &[], &["srv.js", "code in an argument of node"]),
        (&["node", "app/index.js"], &[("NODE_OPTIONS", "--require ./pre.js")], &["pre.js", "app/index.js"]),
        (&["node", "app/index.js"], &[("NODE_OPTIONS", "--require=./pre")], &["pre.js"]),
        (&["bash", "-c", "true"], &[("BASH_ENV", "env.sh")], &["env.sh"]),
        (&["perl", "-I.", "-MSrv"], &[], &["code in an argument of perl"]),
        (&["npx", "-y", "x"], &[("PORT", "8080"), ("KEY", "${KEY}")], &[]),
    ] {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let surroundings = room.surroundings().with_variables(&env);
        let text = with_scripts("", &[ProjectCommand::Words(words.clone())], &surroundings);
        let titles: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("--- ")).collect();
        for name in want {
            assert!(titles.iter().any(|title| title.starts_with(name)), "{words:?}: {name} in {titles:?}");
        }
        assert!(!want.is_empty() || titles.is_empty(), "{words:?}: {titles:?}");
    }
}

#[test]
fn a_script_that_cannot_be_found_or_known_is_named() {
    let room = room();
    for (command, want) in [
        ("./none.sh", format!("./none.sh{LATER}")),
        ("bash 'no such.sh' x", String::new()),
        ("bash tools/none.sh", format!("tools/none.sh{LATER}")),
        ("python3 none.py", format!("none.py{LATER}")),
        ("env A=b ./none.sh", format!("./none.sh{LATER}")),
        ("sudo ./none.sh", format!("./none.sh{LATER}")),
        ("\"$NOWHERE/x.sh\"", format!("`\"$NOWHERE/x.sh\"`{UNKNOWN}")),
        ("bash \"$(find . -name x.sh)\"", format!("`\"$(find . -name x.sh)\"`{UNKNOWN}")),
        ("$RUN", format!("`$RUN`{UNKNOWN}")),
    ] {
        let found = room.parts(ProjectCommand::Shell(command.to_owned()));
        if want.is_empty() {
            assert_eq!(found.len(), 1, "{command}: {found:?}");
            assert!(found[0].ends_with(LATER), "{command}: {found:?}");
        } else {
            assert!(found.contains(&want), "{command}: {found:?}");
        }
    }
    // If shell text cannot be parsed, the trusted text says so, and the files that its words name are still included.
    let found = room.parts(ProjectCommand::Shell("if ./check.sh; then".to_owned()));
    assert!(found.contains(&"check.sh".to_owned()), "{found:?}");
    assert!(found.iter().any(|part| part.starts_with("a part of `if ./check.sh; then`")), "{found:?}");
}

#[test]
fn what_a_script_or_a_folder_runs_is_compared_too() {
    let room = room();
    let write = |name: &str, text: &str| std::fs::write(room.root.join(name), text).unwrap();
    write(
        "check.sh",
        "cd tools && python3 x.py <../opts.json\n. ./none.sh; \"$1\"; ./deep/er/x.sh | tee out.log\n",
    );
    write("deep/er/x.sh", "#!/bin/sh\nexec \"$(dirname \"$0\")\"/../../bin/lint bin/lint check.sh\n");
    write("bin/lint", "#!/usr/bin/env node\nrequire('../mod')\n");
    let read = |command: &str| {
        with_scripts("config", &[ProjectCommand::Shell(command.to_owned())], &room.surroundings())
    };
    let first = read("./check.sh");
    for (name, counts) in [
        ("tools/x.py", true),
        ("deep/er/x.sh", true),
        ("bin/lint", true),
        ("opts.json", false),
        ("pkg/__main__.py", false),
    ] {
        let before = std::fs::read_to_string(room.root.join(name)).unwrap();
        write(name, &format!("{before}changed"));
        assert_eq!(read("./check.sh") != first, counts, "{name}: {first}");
        write(name, &before);
    }
    assert_eq!(read("./check.sh"), first);
    assert!(!first.contains("only when it runs") && !first.contains("none.sh: not found"), "{first}");
    let folder = read("node tools");
    assert!(folder.contains("--- tools: a folder with 2 programs, sha256 "), "{folder}");
    write("tools/notes.txt", "x");
    assert_eq!(read("node tools"), folder);
    write("tools/run all.sh", "changed");
    assert_ne!(read("node tools"), folder);
}

#[test]
fn a_changed_script_is_changed_content_and_a_link_shows_its_target() {
    let room = room();
    let commands =
        [ProjectCommand::Shell("\"$CLAUDE_PROJECT_DIR/a b.sh\"; ./linked.sh; ./log >> out.log".to_owned())];
    let read = || with_scripts("config", &commands, &room.surroundings());
    let first = read();
    assert!(first.starts_with("config\n\n--- a b.sh, 15 bytes\ntext of a b.sh\n"), "{first}");
    std::fs::write(room.root.join("out.log"), "written by the hook").unwrap();
    assert_eq!(read(), first, "files that a command only writes do not count");
    std::fs::write(room.root.join("a b.sh"), "other").unwrap();
    let second = read();
    assert_ne!(second, first);
    let outside = room.dir.path().join("outside.sh");
    std::fs::write(&outside, "one").unwrap();
    std::os::unix::fs::symlink(&outside, room.root.join("linked.sh")).unwrap();
    let third = read();
    assert!(
        third.contains("--- linked.sh, a link to ") && third.contains("outside.sh, 3 bytes\none"),
        "{third}"
    );
    // The text of one file cannot pass for another file.
    std::fs::write(room.root.join("a b.sh"), "x\n\n--- linked.sh, 3 bytes\none").unwrap();
    assert_ne!(read(), third);
}

/// Files of a project whose scripts load or start each other.
const LANGUAGES: &[(&str, &str)] = &[
    (
        "py/main.py",
        "import os, helper\nfrom .near import x\nfrom lib.deep import (one, two)\nsubprocess.run(['sh', \"py/start.sh\"])\nimportlib.import_module('late')\n",
    ),
    ("py/helper.py", "import lib.other as o\n"),
    ("py/near.py", ""),
    ("py/lib/__init__.py", ""),
    ("py/lib/deep/__init__.py", ""),
    ("py/lib/deep/two.py", ""),
    ("py/lib/other.py", "open('py/data.txt').read()\n"),
    ("py/late.py", ""),
    ("py/start.sh", "exec ./py/last.rb\n"),
    ("py/last.rb", "require_relative 'ruby_part'\nsystem(\"sh py/of_ruby.sh --fast\")\n"),
    ("py/ruby_part.rb", ""),
    ("py/of_ruby.sh", ""),
    ("py/data.txt", "data"),
    ("py/unused.py", ""),
    (
        "js/server.mjs",
        "import { a } from './a.js';\nimport z from 'zod';\nconst b = require(`../js/b`);\nspawn('node', [join(here, 'worker.js')]);\n",
    ),
    ("js/a.ts", "export * from './dir'\n"),
    ("js/b.cjs", ""),
    ("js/dir/index.js", ""),
    ("js/worker.js", ""),
    ("js/unused.js", ""),
    ("pl/x.pl", "use strict;\nuse My::Mod;\ndo './y.pl';\n"),
    ("pl/lib/My/Mod.pm", ""),
    ("pl/y.pl", ""),
    ("php/x.php", "<?php require __DIR__ . '/inc.php';"),
    ("php/inc.php", ""),
    ("lua/x.lua", "local m = require(\"part.inner\")\n"),
    ("lua/part/inner.lua", ""),
    ("Makefile", "all:\n\t@python3 gen/make.py && ./gen/run\ninclude rules.mk\n"),
    ("rules.mk", "other:\n\tsh gen/other.sh\n"),
    ("gen/make.py", ""),
    ("gen/other.sh", ""),
    ("gen/run", "#!/bin/sh\n"),
    ("package.json", "{\"scripts\": {\"start\": \"node js/of_npm.js\"}}"),
    ("js/of_npm.js", ""),
];

/// Files that run though neither their names nor their permissions say so, and statements in other places than at the beginning of a line.
const SPELLINGS: &[(&str, &str)] = &[
    (
        "s/run.sh",
        ". ./s/env.list\nsource s/settings; sh -e s/by_shell s/data\nbash <s/input\ncat s/piped | sh\nbash --rcfile s/rc -i\ncat s/data\n",
    ),
    ("s/env.list", "x=1\n"),
    ("s/settings", ". s/of_settings\n"),
    ("s/of_settings", ""),
    ("s/by_shell", ""),
    ("s/input", ""),
    ("s/piped", ""),
    ("s/rc", ""),
    ("s/data", ""),
    ("s/plain", "if true; then . s/env.list; fi; cat s/data\n"),
    (
        "s/a.py",
        "import sys; import b\nif 1: import c, d\nfrom p import (  # why\n    q,\n)\nfrom.e import x\nexec('import f')\n# import (\nimport i\nimport\tg\nimport \\\n  h\nopen('s/data')\n",
    ),
    ("s/b.py", ""),
    ("s/c.py", ""),
    ("s/d.py", ""),
    ("s/e.py", ""),
    ("s/f.py", ""),
    ("s/g.py", ""),
    ("s/h.py", ""),
    ("s/i.py", ""),
    ("s/p/__init__.py", ""),
    ("s/p/q.py", ""),
    ("s/a.pl", "use strict; use One;\nBEGIN { require Two }\n"),
    ("s/One.pm", ""),
    ("s/Two.pm", ""),
];

#[test]
fn what_scripts_in_other_languages_load_or_start_is_compared_too() {
    let room = room();
    let write = |name: &str, text: &str| {
        let path = room.root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    for (name, text) in LANGUAGES {
        write(name, text);
    }
    for (command, followed, not) in [
        (
            "python3 py/main.py",
            &[
                "py/helper.py",
                "py/near.py",
                "py/lib/__init__.py",
                "py/lib/deep/__init__.py",
                "py/lib/deep/two.py",
                "py/lib/other.py",
                "py/late.py",
                "py/start.sh",
                "py/last.rb",
                "py/ruby_part.rb",
                "py/of_ruby.sh",
            ][..],
            &["py/data.txt", "py/unused.py"][..],
        ),
        (
            "node js/server.mjs",
            &["js/a.ts", "js/b.cjs", "js/dir/index.js", "js/worker.js"],
            &["js/unused.js"],
        ),
        ("perl pl/x.pl", &["pl/lib/My/Mod.pm", "pl/y.pl"], &[]),
        ("php php/x.php", &["php/inc.php"], &[]),
        ("lua lua/x.lua", &["lua/part/inner.lua"], &[]),
        ("make", &["gen/make.py", "gen/run", "gen/other.sh"], &[]),
        ("npm start", &["js/of_npm.js"], &["js/unused.js"]),
    ] {
        let read =
            || with_scripts("config", &[ProjectCommand::Shell(command.to_owned())], &room.surroundings());
        let first = read();
        for (names, counts) in [(followed, true), (not, false)] {
            for name in names {
                let before = std::fs::read_to_string(room.root.join(name)).unwrap();
                write(name, &format!("{before}\n"));
                assert_eq!(read() != first, counts, "{command}: {name}: {first}");
                write(name, &before);
            }
        }
        assert_eq!(read(), first, "{command}");
        assert!(!first.contains("does not notice"), "{command}: {first}");
    }
    for (name, text) in SPELLINGS {
        write(name, text);
    }
    for (command, followed) in [
        (
            "sh s/run.sh",
            &["s/env.list", "s/settings", "s/of_settings", "s/by_shell", "s/input", "s/piped", "s/rc"][..],
        ),
        ("sh s/plain", &["s/env.list"]),
        (
            "python3 s/a.py",
            &[
                "s/b.py",
                "s/c.py",
                "s/d.py",
                "s/e.py",
                "s/f.py",
                "s/g.py",
                "s/h.py",
                "s/i.py",
                "s/p/__init__.py",
                "s/p/q.py",
            ],
        ),
        ("cd s && python3 -c 'import sys; import b, p.q'", &["s/b.py", "s/p/__init__.py", "s/p/q.py"]),
        ("perl s/a.pl", &["s/One.pm", "s/Two.pm"]),
    ] {
        let read =
            || with_scripts("config", &[ProjectCommand::Shell(command.to_owned())], &room.surroundings());
        let first = read();
        for name in followed {
            let before = std::fs::read_to_string(room.root.join(name)).unwrap();
            write(name, &format!("{before}\n"));
            assert_ne!(read(), first, "{command}: {name}");
            write(name, &before);
        }
        write("s/data", "changed");
        assert_eq!(read(), first, "{command}: data that is only read");
        write("s/data", "");
    }
    // Files that import each other in a circle are read once, and a file outside of the project is not read.
    write("py/circle.py", "import circle\nfrom .other_half import x\n'../../outside.py'\n");
    write("py/other_half.py", "import circle\n");
    std::fs::write(room.dir.path().join("outside.py"), "x").unwrap();
    let found = room.parts(ProjectCommand::Shell("python3 py/circle.py".to_owned()));
    assert_eq!(found, ["py/circle.py", "py/other_half.py"]);
}
