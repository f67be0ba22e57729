//! Assignments that are read from a text and never run: bash itself says what each of them sets.
#![expect(clippy::expect_used, reason = "helpers of tests fail by panicking")]

use becket_shell_syntax::assignments;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

/// The variables `V0` to `V9` after bash has run the text; `None` if bash finds an error in it.
fn by_bash(text: &str) -> Option<BTreeMap<String, String>> {
    let script = format!("set -a\n{text}\nenv -0 >&3\n");
    let mut child = Command::new("bash")
        .args(["--norc", "-c", "exec 3>&1 >/dev/null 2>/dev/null; eval \"$(cat)\""])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", "/home/u")
        .env("OLD", "o l*d")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("bash starts");
    child.stdin.take().expect("a pipe").write_all(script.as_bytes()).expect("bash reads");
    let out = child.wait_with_output().expect("bash ends");
    let text = String::from_utf8(out.stdout).ok()?;
    let set: BTreeMap<String, String> = text
        .split('\0')
        .filter_map(|line| line.split_once('='))
        .filter(|(name, _)| name.starts_with('V') && name.len() == 2)
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    (out.status.success() && text.contains("HOME=")).then_some(set)
}

fn by_reader(text: &str) -> BTreeMap<String, String> {
    let mut set = BTreeMap::new();
    for (name, word) in assignments(text) {
        let variable = |wanted: &str| match wanted {
            "HOME" => Some("/home/u".to_owned()),
            "OLD" => Some("o l*d".to_owned()),
            _ => set.get(wanted).cloned(),
        };
        if let Some(value) = word.value(&variable) {
            set.insert(name, value);
        }
    }
    set
}

fn value() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z0-9:/=.,%@+-]{1,4}",
        "'[a-z $\"~*{},#\\\\;]{0,4}'",
        "\"[a-z '~*{},#;]{0,4}\"",
        Just("\"$OLD\"".to_owned()),
        Just("\"a${OLD}b\"".to_owned()),
        Just("$OLD".to_owned()),
        Just("${OLD}".to_owned()),
        Just("$GONE".to_owned()),
        Just("~/x".to_owned()),
        Just("~".to_owned()),
        Just(":~".to_owned()),
        Just(":~/y".to_owned()),
        Just("\\ ".to_owned()),
        Just("\\~".to_owned()),
        Just("\\\\".to_owned()),
        Just("\"\\$x\"".to_owned()),
        Just("$'\\t\\''".to_owned()),
        Just("*".to_owned()),
        Just("?".to_owned()),
        Just("#".to_owned()),
        Just("ä".to_owned()),
        Just("'a\nb'".to_owned()),
    ];
    proptest::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// No variable gets a value that bash would not give it. The reader may leave variables out if it is not sure.
    #[test]
    fn no_assignment_sets_what_bash_would_not(values in proptest::collection::vec((0..4u8, value()), 1..6)) {
        let lines = values.iter().enumerate().map(|(name, (form, value))| match form {
            0 => format!("V{name}={value}\n"),
            1 => format!("export V{name}={value} # why\n"),
            2 => format!("declare -x V{name}={value}\n"),
            _ => format!("export V{name}={value};\n"),
        });
        let text: String = lines.collect();
        if let Some(want) = by_bash(&text) {
            for (name, value) in by_reader(&text) {
                prop_assert_eq!(want.get(&name), Some(&value), "{} in {:?}", name, text);
            }
        }
    }
}

#[test]
fn most_assignments_are_read() {
    let text = "export V0=bar\nV1='a b' # why\nexport V2=\"a \\\"b\\\" $OLD\" V3=/x:${OLD}:~/bin\ndeclare -x V4='x'\\''y'\n\
                V5=$'a\\tb'; export V6=*\nexport V7='two\nlines'\nV8=~\nV9=$V0\n";
    let want = by_bash(text).expect("bash runs it");
    assert_eq!(want.len(), 10, "{want:?}");
    assert_eq!(by_reader(text), want);
}

#[test]
fn what_does_more_than_assign_is_left_out() {
    for text in [
        "V0=$(date)",
        "V0=`date`",
        "V0=1 touch x",
        "export V0=\"open",
        "(V0=1)",
        "true && V0=1",
        "if true; then V0=1; fi",
        "V0[1]=x",
        "V0=(a b)",
        "V0+=x",
        "export -n V0=1",
        "declare V0=1",
        "readonly V0=1",
        "V0={a,b}",
        "V0=~someone/x",
        "V0=${OLD:-x}",
        "V0=$((1 + 1))",
    ] {
        assert_eq!(by_reader(text), BTreeMap::new(), "{text}");
    }
}

/// Texts that the grammar splits or expands further than bash does.
#[test]
fn texts_that_the_grammar_reads_otherwise() {
    for text in [
        "V0=\"\\$x\"\\ \n",
        "V0=''~/x\n",
        "V0='a'\\n'b'\n",
        "V0=:~$OLD\n",
        "V0=:~''~\n",
        "V0=~\"/x\"\n",
        "V0=a & V1=b\n",
    ] {
        let want = by_bash(text).expect("bash runs it");
        for (name, value) in by_reader(text) {
            assert_eq!(want.get(&name), Some(&value), "{name} in {text:?}");
        }
    }
}
