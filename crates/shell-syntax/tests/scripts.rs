//! Scripts taken apart: which commands and redirections the reader finds, in which folders, and what it doubts.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use becket_shell_syntax::{
    Known, Paths, Script, Unwrapped, Word, base_name, is_launcher, may_show, read, read_long, system_name,
    unwrap,
};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn script(source: &str) -> Script {
    // `link` leads out of the workspace.
    let resolve = |path: &Path| match path.strip_prefix("/w/link") {
        Ok(rest) => becket_types::lexical(&Path::new("/out/there").join(rest)),
        Err(_) => becket_types::lexical(path),
    };
    let paths = Paths { home: Path::new("/home/u"), resolve: &resolve };
    read(source, Some(vec![PathBuf::from("/w")]), &paths)
}

/// The commands, each as its words with blanks between them.
fn commands(source: &str) -> Vec<String> {
    let text = |words: &[Word]| words.iter().map(|w| w.text.as_str()).collect::<Vec<_>>().join(" ");
    script(source).commands.iter().map(|command| text(&command.words)).collect()
}

#[test]
fn every_command_of_a_script_is_found() {
    for (source, found) in [
        ("ls", &["ls"][..]),
        ("ls -a; pwd", &["ls -a", "pwd"]),
        ("ls && pwd || id", &["ls", "pwd", "id"]),
        ("ls | wc -l", &["ls", "wc -l"]),
        ("ls |& wc", &["ls", "wc"]),
        ("ls & pwd", &["ls", "pwd"]),
        ("ls\npwd", &["ls", "pwd"]),
        ("! ls", &["ls"]),
        ("(ls; pwd)", &["ls", "pwd"]),
        ("{ ls; pwd; }", &["ls", "pwd"]),
        ("if a; then b; elif c; then d; else e; fi", &["a", "b", "c", "d", "e"]),
        ("while a; do b; done", &["a", "b"]),
        ("until a; do b; done", &["a", "b"]),
        ("for x in 1 2; do b; done", &["b"]),
        ("case x in a) b;; c|d) e;& *) f;; esac", &["b", "e", "f"]),
        ("f() { ls; }", &["ls"]),
        ("function f { ls; }", &["ls"]),
        ("echo $(ls)", &["ls", "echo $(ls)"]),
        ("echo `ls`", &["ls", "echo `ls`"]),
        ("echo \"$(ls $(pwd))\"", &["pwd", "ls $(pwd)", "echo $(ls $(pwd))"]),
        ("cat <(ls)", &["ls", "cat <(ls)"]),
        ("cat < <(ls)", &["ls", "cat"]),
        ("ls > >(cat)", &["cat", "ls"]),
        ("x=$(ls)", &["ls"]),
        ("x=1 ls", &["ls"]),
        ("${x:-$(ls)}", &["ls", "${x:-$(ls)}"]),
        ("cat <<E\n$(ls)\nE", &["ls", "cat"]),
        ("cat <<'E'\n$(ls)\nE", &["cat"]),
        ("cat <<< $(ls)", &["ls", "cat"]),
        ("[[ $(ls) ]]", &["ls", "true"]),
        ("[ -f a ]", &["test -f a"]),
        ("cat <a -n", &["cat -n"]),
        ("<a cat -n", &["cat -n"]),
        ("ls # rm x", &["ls"]),
        ("echo '$(ls)'", &["echo $(ls)"]),
        ("case $(ls) in x) ;; esac", &["ls"]),
        ("for x in $(ls); do id; done", &["ls", "id"]),
        ("select x in 1; do ls; done", &["ls"]),
        ("time ls", &["time ls"]),
        ("coproc ls", &["coproc ls"]),
    ] {
        let mut now = commands(source);
        let mut found: Vec<String> = found.iter().map(|text| (*text).to_owned()).collect();
        now.sort();
        found.sort();
        assert_eq!(now, found, "{source}");
    }
}

/// The reader doubts a script if bash evaluates something in it beside its words, or if it cannot know a word.
#[test]
fn what_is_evaluated_or_unknown_is_doubted() {
    for source in [
        "echo ${x@P}",
        "echo ${!x}",
        "echo ${x:=1}",
        "echo ${x:?1}",
        "echo ${x:1}",
        "echo ${a[1]}",
        "echo ${!x*}",
        "echo $((x))",
        "echo $[x]",
        "((x=1))",
        "for ((i=0;i<1;i++)); do ls; done",
        "[[ -v x ]]",
        "[[ x -eq 1 ]]",
        "[[ $x -lt 1 ]]",
        "let x=1; a[1]=2",
        "a[1]=2",
        "a+=([1]=2)",
        "PATH=. ls",
        "export PATH=.",
        "IFS=/",
        "LD_PRELOAD=x ls",
        "declare -n x=y",
        "declare -i x=1",
        "typeset -x y",
        "local -n x=y",
        "export",
        "declare",
        "readonly",
        "local",
        "typeset",
        "unset PATH",
        "unset 'a[1]'",
        "f() { ls; }",
        "cat <<E\n$x\nE",
        "cat <<E\n`ls`\nE",
        "ls {x}>f",
        "ls {PATH}<f",
        "{ ls; }>f{a}>g",
        "ls 'a\u{200b}b'",
        "ls\r\n",
        "ls a\u{a0}b",
        "echo `echo \\`ls\\``",
        "ls (a)",
        "if ls",
        "ls |",
        "ls &&",
        "'",
        "\"",
        "$(",
        "${x",
        "<<E",
        "for PATH in a; do ls; done",
        "cat <<E x\nE",
        "",
        "# nothing",
        "echo ${x#$(ls)}",
        "echo ${x/$y/z}",
    ] {
        assert!(!script(source).doubts.is_empty(), "{source}");
    }
    for source in [
        "ls -la",
        "echo ${x}",
        "echo ${x:-y}",
        "echo ${x%.rs}",
        "echo ${#x}",
        "echo ${x/a/b}",
        "echo $((1+2))",
        "x=1; echo $x",
        "[[ -f a ]]",
        "[[ 1 -lt 2 ]]",
        "[[ $# -eq 1 ]]",
        "[ a = b ]",
        "cat <<'E'\n$x\nE",
        "cat <<E\nx\nE",
        "for x in a b; do ls \"$x\"; done",
        "export x=1",
        "unset x",
        "ls 2>&1",
        "ls >a 2>/dev/null",
        "cat <(ls)",
        "LC_ALL=C ls",
        "case $x in a) ls;; esac",
        "if ls; then pwd; fi",
        "ls | wc | sort",
        "echo 'é'",
        "echo \"a\\\"b\"",
    ] {
        assert!(script(source).doubts.is_empty(), "{source}: {:?}", script(source).doubts);
    }
}

#[test]
fn redirections_open_files_in_the_folder_of_their_command() {
    for (source, found) in [
        ("ls >a", &[("a", true, "/w")][..]),
        ("ls >>a", &[("a", true, "/w")]),
        ("ls >|a", &[("a", true, "/w")]),
        ("ls &>a", &[("a", true, "/w")]),
        ("ls 2>a", &[("a", true, "/w")]),
        ("ls <>a", &[("a", true, "/w")]),
        ("ls >&a", &[("a", true, "/w")]),
        ("cat <a", &[("a", false, "/w")]),
        ("cat <a >b", &[("a", false, "/w"), ("b", true, "/w")]),
        (">a", &[("a", true, "/w")]),
        ("ls 2>&1", &[]),
        ("ls >&2", &[]),
        ("ls 3>&-", &[]),
        ("{ ls; } >a", &[("a", true, "/w")]),
        ("(cd s && ls >a)", &[("a", true, "/w/s")]),
        ("for x in 1; do ls; done >a", &[("a", true, "/w")]),
        ("while ls; do pwd; done <a", &[("a", false, "/w")]),
        ("for f in a b; do ls >\"$f\"; done", &[("a", true, "/w"), ("b", true, "/w")]),
        ("ls >'a b'", &[("a b", true, "/w")]),
    ] {
        let read = script(source);
        let now: Vec<_> = read
            .redirects
            .iter()
            .map(|r| {
                let dirs = r.dirs.clone().unwrap();
                (r.target.text.clone(), r.write, dirs.last().unwrap().display().to_string())
            })
            .collect();
        let found: Vec<_> =
            found.iter().map(|(text, write, dir)| ((*text).to_owned(), *write, (*dir).to_owned())).collect();
        assert_eq!(now, found, "{source}");
    }
    assert!(!script("ls >$x").redirects[0].target.is_literal());
}

/// The folders of the last command; `None` if they are not known.
fn last_dirs(source: &str) -> Option<Vec<String>> {
    let read = script(source);
    let dirs = read.commands.last().unwrap().dirs.clone()?;
    Some(dirs.iter().map(|dir| dir.display().to_string()).collect())
}

#[test]
fn folders_are_followed_and_unknown_ones_are_said_to_be_unknown() {
    for (source, dirs) in [
        ("ls", &["/w"][..]),
        ("cd s && ls", &["/w/s"]),
        ("cd s && cd t && ls", &["/w/s/t"]),
        ("cd s; ls", &["/w", "/w/s"]),
        ("cd s || ls", &["/w", "/w/s"]),
        ("(cd s); ls", &["/w"]),
        ("cd s | ls", &["/w"]),
        ("x=$(cd s; pwd); ls", &["/w"]),
        ("cd && ls", &["/home/u"]),
        ("cd ~/s && ls", &["/home/u/s"]),
        ("cd /a && ls", &["/a"]),
        ("cd link && ls", &["/out/there"]),
        ("cd s/.. && ls", &["/w"]),
        ("cd 's t' && ls", &["/w/s t"]),
        ("pushd s && ls", &["/w/s"]),
        ("if cd s; then ls; fi", &["/w", "/w/s"]),
    ] {
        let mut now = last_dirs(source).unwrap();
        now.sort();
        now.dedup();
        assert_eq!(now, dirs, "{source}");
    }
    for source in [
        "cd $x && ls",
        "cd - && ls",
        "popd && ls",
        "cd a b && ls",
        "cd link/.. && cd .. && ls",
        "eval 'cd s'; ls",
        "command cd s; ls",
        "time cd s; ls",
        "builtin cd s; ls",
        "for d in a b; do cd \"$d\"; ls; done",
        "for d in a b; do ls; cd \"$d\"; done; ls",
        "while ls; do cd s; done; ls",
        "f() { ls; }",
        "cd a; cd b; cd c; cd d; ls",
        "for x in 1 2; do cd ..; done; ls",
    ] {
        assert_eq!(last_dirs(source), None, "{source}");
    }
}

/// A loop is one command for each round: a second value must not be an operand beside the first.
#[test]
fn loops_are_judged_round_by_round() {
    for (source, found) in [
        ("for f in a b; do cat \"$f\"; done", &["cat a", "cat b"][..]),
        ("for f in a b; do cat \"${f}\" x; done", &["cat a x", "cat b x"]),
        ("for f in ls pwn; do \"$f\" x; done", &["ls x", "pwn x"]),
        ("for f in p 'w k'; do sed -n \"$f\" a; done", &["sed -n p a", "sed -n w k a"]),
        ("for f in a b; do diff \"$f\" \"$f\"; done", &["diff a a", "diff b b"]),
        (
            "for f in a b; do for g in 1 2; do x \"$f\" \"$g\"; done; done",
            &["x a 1", "x a 2", "x b 1", "x b 2"],
        ),
        ("for f in *.rs; do cat \"$f\"; done", &["cat *.rs"]),
        ("select f in a b; do cat \"$f\"; done", &["cat a", "cat b"]),
    ] {
        assert_eq!(commands(source), found, "{source}");
    }
    // A variable whose value may have changed by then is not replaced by the known value.
    for source in [
        "for f in a $x; do cat \"$f\"; done",
        "for f in a; do f=b; cat \"$f\"; done",
        "for f in a; do read f; cat \"$f\"; done",
        "for f; do cat \"$f\"; done",
        "for f in a; do printf -v f b; cat \"$f\"; done",
        "for f in {a,b}; do cat \"$f\"; done",
        "for f in a; do cat $f; done",
    ] {
        let read = script(source);
        let cat = read.commands.iter().rfind(|c| c.words[0].text == "cat").unwrap();
        assert_eq!(cat.words[1].known, Known::Dynamic, "{source}");
    }
    let many = (0..300).map(|n| format!("f{n}")).collect::<Vec<_>>().join(" ");
    let read = script(&format!("for f in {many}; do cat \"$f\"; done"));
    assert_eq!((read.commands.len(), read.commands[0].words[1].known), (1, Known::Dynamic));
}

#[test]
fn input_reaches_the_commands_that_read_it() {
    let inputs = |source: &str| {
        let read = script(source);
        read.commands.iter().map(|c| (c.words[0].text.clone(), c.input.clone(), c.piped)).collect::<Vec<_>>()
    };
    assert_eq!(inputs("cat <<'E'\nx\nE")[0].1.as_deref().map(str::trim_end), Some("x"));
    assert_eq!(inputs("cat <<< y"), [("cat".to_owned(), Some("y".to_owned()), false)]);
    assert_eq!(inputs("ls | sh"), [("ls".to_owned(), None, false), ("sh".to_owned(), None, true)]);
    assert_eq!(inputs("sh"), [("sh".to_owned(), None, false)]);
    let loops = inputs("while read x; do cat; done <<< z");
    assert!(loops.iter().all(|(_, input, _)| input.as_deref() == Some("z")), "{loops:?}");
}

#[test]
fn launchers_give_the_command_that_they_run() {
    let inner = |source: &str| match unwrap(&script(source).commands.last().unwrap().words) {
        Unwrapped::Plain => "plain".to_owned(),
        Unwrapped::Command(words) => words.iter().map(|w| w.text.as_str()).collect::<Vec<_>>().join(" "),
        Unwrapped::Script(text) => format!("script: {text}"),
        Unwrapped::Opaque(_) => "opaque".to_owned(),
    };
    for (source, found) in [
        ("ls", "plain"),
        ("env ls", "ls"),
        ("env x=1 ls -a", "ls -a"),
        ("env -u x ls", "ls"),
        ("env -- ls", "ls"),
        ("env", "plain"),
        ("env -S ls", "opaque"),
        ("env -i ls", "opaque"),
        ("env PATH=. ls", "opaque"),
        ("env -u PATH ls", "opaque"),
        ("env $x ls", "opaque"),
        ("timeout 5 ls", "ls"),
        ("timeout -k 1 5 ls", "ls"),
        ("timeout $x ls", "opaque"),
        ("timeout --what 5 ls", "opaque"),
        ("nice -n 5 ls", "ls"),
        ("nice -5 ls", "ls"),
        ("nohup ls", "ls"),
        ("setsid -w ls", "ls"),
        ("stdbuf -oL ls", "ls"),
        ("time -p ls", "ls"),
        ("command ls", "ls"),
        ("command -v ls", "plain"),
        ("command -p ls", "ls"),
        ("builtin cd s", "cd s"),
        ("exec ls", "ls"),
        ("exec -a x ls", "opaque"),
        ("exec -arm ls", "opaque"),
        ("exec -l ls", "opaque"),
        ("env -a x ls", "opaque"),
        ("exec -c ls", "opaque"),
        ("xargs cat", "cat $@"),
        ("xargs -n1 -- cat x", "cat x $@"),
        ("xargs -I{} cat {} y", "cat $@ y $@"),
        ("xargs -a f cat", "opaque"),
        ("eval ls -a", "script: ls -a"),
        ("eval $x", "opaque"),
        ("bash -c 'ls; pwd'", "script: ls; pwd"),
        ("bash -ec ls", "script: ls"),
        ("bash -c $x", "opaque"),
        ("bash", "opaque"),
        ("bash f.sh", "plain"),
        ("bash --rcfile f", "opaque"),
        ("sh -c ls", "script: ls"),
        ("sh -c 'cat <<E'", "opaque"),
        ("dash -c '[[ a ]]'", "opaque"),
        ("zsh -c ls", "opaque"),
        ("sudo ls", "opaque"),
        ("ssh h ls", "opaque"),
        ("trap ls EXIT", "opaque"),
        ("./env ls", "opaque"),
        ("/usr/bin/env ls", "ls"),
        ("./ls", "plain"),
    ] {
        assert_eq!(inner(source), found, "{source}");
    }
    assert!(
        is_launcher(&[Word::literal("/x/sudo")])
            && is_launcher(&[Word::literal("git"), Word::literal("run")])
    );
    assert!(!is_launcher(&[Word::literal("ls")]) && !is_launcher(&[]));
    assert_eq!(
        (system_name("/bin/ls"), system_name("ls"), system_name("./ls")),
        (Some("ls"), Some("ls"), None)
    );
    assert_eq!((base_name("/a/b"), base_name("b")), ("b", "b"));
    assert!(may_show("HOME") && may_show("x") && !may_show("ANTHROPIC_API_KEY") && !may_show("http_proxy"));
}

#[test]
fn long_and_deep_scripts_are_not_understood() {
    let paths = Paths { home: Path::new("/h"), resolve: &|path: &Path| path.to_path_buf() };
    let long = "ls;".repeat(4_000);
    assert!(script(&long).unread);
    assert_eq!(read_long(&long, None, &paths).commands.len(), 4_000);
    assert!(read_long(&"ls;".repeat(80_000), None, &paths).unread);
    for (open, close) in [("$(", ")"), ("(", ")"), ("{ ", ";}"), ("if ", "; then ls; fi"), ("\"$(", ")\"")] {
        let deep = format!("{}ls{}", open.repeat(250), close.repeat(250));
        assert!(!script(&deep).doubts.is_empty(), "{open}");
    }
}

/// Parts of scripts, put together at random.
const PIECES: &[&str] = &[
    "ls",
    "cat a",
    "; ",
    " && ",
    " || ",
    " | ",
    "\n",
    " & ",
    "( ",
    " )",
    "{ ",
    "; }",
    "if ls; then ",
    "; fi",
    "while ls; do ",
    "; done",
    "for x in a; do ",
    "case x in a) ",
    ";; esac",
    "$(ls)",
    "`ls`",
    "\"$(ls)\"",
    "<(ls)",
    " >a",
    " <a",
    " 2>&1",
    " <<E\nx\nE\n",
    " <<< x",
    "'a b'",
    "\"",
    "'",
    "$x",
    "${x:-y}",
    "[[ a == b ]]",
    "[ a ]",
    "! ",
    "# c\n",
    "\\\n",
    "x=1 ",
    "f() { ls; }",
    "time ",
    "$((1+1))",
    "esac",
    "done",
    "fi",
    "in",
    ")",
    "}",
    "&&",
    ";;",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    /// Reading never panics, says the same twice, and finds at least everything before a part that it cannot read.
    #[test]
    fn reading_says_the_same_twice(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..10), noise in "\\PC{0,12}") {
        for source in [pieces.concat(), format!("{}{noise}", pieces.concat()), noise.clone()] {
            let (one, two) = (script(&source), script(&source));
            prop_assert_eq!(format!("{one:?}"), format!("{two:?}"));
            prop_assert!(!one.unread || !one.doubts.is_empty());
        }
    }

    /// Whatever a script contains, a command on a line before it is found.
    #[test]
    fn a_command_on_a_line_before_is_found(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..8)) {
        let read = script(&format!("first-command x\n{}", pieces.concat()));
        let found = read.commands.iter().any(|c| c.words[0].text == "first-command");
        prop_assert!(found || read.unread);
    }

    /// A text that bash refuses to parse is not understood.
    #[test]
    fn what_bash_refuses_is_not_understood(pieces in prop::collection::vec(prop::sample::select(PIECES), 1..7)) {
        let source = pieces.concat();
        let bash = Command::new("bash").args(["--norc", "-n", "-c", &source]).env_clear().stdin(Stdio::null()).output();
        let Ok(output) = bash else {
            eprintln!("bash is not there: skipped");
            return Ok(());
        };
        let read = script(&source);
        // A here-document that ends with the text is a warning to bash, and no error.
        prop_assert!(output.status.success() || !read.doubts.is_empty(), "{source:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
