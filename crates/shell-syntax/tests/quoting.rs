//! Quotes in quotes beside a real bash: each command that bash runs out of a text is one that the reader found, or the reader has a
//! doubt about the text.
//!
//! Texts are made from nested kinds of quotes, expansions and statements around a marker command. Without bash the test says that it
//! was skipped. `BECKET_QUOTES` sets how many texts are made.

use becket_shell_syntax::{Paths, read};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The innermost texts. `M` is the marker.
const LEAVES: &[&str] = &[
    "$(M)", "`M`", "$(M)", "M", ";M;", "\nM\n", "|M", "&& M ", "<(M)", ">(M)", "a", "'", "\"", "\\", "\\'",
    "\\\"", "\\`", "\\$", "$", "$x", "$y", "#", " # ", "}", ")", "{", " ", "\t", "\n", "*", "~", "!", "$'",
    "$\"", "E\n", "@", "$((1))", "${y}",
];
/// Texts around another one, which replaces `@@`. `x` is not set, `y` is.
const AROUND: &[&str] = &[
    "'@@'",
    "\"@@\"",
    "$'@@'",
    "$\"@@\"",
    "\\@@",
    "${x:-@@}",
    "${x-@@}",
    "${y:+@@}",
    "${y+@@}",
    "\"${x:-@@}\"",
    "\"${x:-'@@'}\"",
    "\"${y:+\"@@\"}\"",
    "${x:-\"@@\"}",
    "${x:-'@@'}",
    "${x:-$'@@'}",
    "${x:=@@}",
    "${y#@@}",
    "\"${y%@@}\"",
    "${y/@@/b}",
    "\"${y/1/@@}\"",
    "$(: @@)",
    "`: @@`",
    "\"$(: \"@@\")\"",
    "\"`: @@`\"",
    "(: @@)",
    "{ : @@; }",
    ": @@",
    ": @@\n",
    "z=@@",
    "z=\"@@\"",
    "z=(@@)",
    "a[@@]=1",
    "[[ @@ == a ]]",
    "[[ a == @@ ]]",
    "[[ -n \"@@\" ]]",
    "[ @@ = a ]",
    "case @@ in *) : ;; esac",
    "case 1 in @@) : ;; *) ;; esac",
    "for v in @@; do :; done",
    ": <<< @@",
    ": <<< \"@@\"",
    ": <<E\n@@\nE\n",
    ": <<'E'\n@@\nE\n",
    ": <<-\"E\"\n\t@@\n\tE\n",
    ": <<E\nx\n\tE\n: <<'E'\n@@\nE\n",
    ": <<E\n@@\n\tE\nE\n",
    ": <<E\nx\nE \n@@\nE\n",
    ": > @@",
    ": < <(: @@)",
    "if : @@; then :; fi",
    "while ! : @@; do break; done",
    "f() { : @@; }; f",
    ": @@ &",
    "! : @@",
    "time : @@",
    "echo @@ | read z",
    "$((@@))",
    "\"$((@@ + 1))\"",
    "command : @@",
    "builtin echo @@",
    "z=1 : @@",
    ": {a,@@}",
    ": $@@",
    "# @@\n:",
];

fn texts(count: usize) -> Vec<String> {
    let leaf = prop::sample::select(LEAVES).prop_map(str::to_owned).boxed();
    let text = leaf.prop_recursive(5, 24, 3, |inner| {
        prop_oneof![
            3 => (prop::sample::select(AROUND), inner.clone()).prop_map(|(around, text)| around.replace("@@", &text)),
            1 => (inner.clone(), inner).prop_map(|(a, b)| a + &b),
        ]
    });
    let mut runner = TestRunner::deterministic();
    let mut texts: Vec<String> =
        (0..count).filter_map(|_| Some(text.new_tree(&mut runner).ok()?.current())).collect();
    // A text that is no statement by itself is also tried as a word.
    let words: Vec<String> = texts.iter().map(|text| format!(": {text}")).collect();
    texts.extend(words);
    texts.retain(|text| text.contains('M') && !text.contains('\0'));
    texts.sort();
    texts.dedup();
    texts
}

/// Returns for each text if bash ran the marker. No program can be found, so that nothing else runs.
fn ran(folder: &Path, texts: &[String]) -> Option<Vec<bool>> {
    let bash = ["/bin/bash", "/usr/bin/bash"].into_iter().find(|path| Path::new(path).exists())?;
    let mut out = vec![false; texts.len()];
    for (batch, texts) in texts.chunks(400).enumerate() {
        let each = "i=0; exec 9>&1 >/dev/null 2>&1 </dev/null; M() { echo $i >&9; }; y=1; \
                    for t; do (set --; eval \"$t\"; wait); i=$((i + 1)); done; wait";
        let mut bash = Command::new(bash);
        bash.args(["--norc", "-c", each, "bash"]).args(texts).current_dir(folder).env_clear();
        bash.env("PATH", "/nowhere").stdin(Stdio::null()).stderr(Stdio::null());
        let said = String::from_utf8(bash.output().ok()?.stdout).ok()?;
        for number in said.lines().filter_map(|line| line.parse::<usize>().ok()) {
            *out.get_mut(batch * 400 + number)? = true;
        }
    }
    Some(out)
}

/// True if the reader found the marker as a command, or does not understand the text.
fn is_seen(text: &str) -> bool {
    let resolve = |path: &Path| path.to_path_buf();
    let paths = Paths { home: Path::new("/home/u"), resolve: &resolve };
    let script = read(text, Some(vec![PathBuf::from("/w")]), &paths);
    let marker =
        |words: &[becket_shell_syntax::Word]| words.iter().any(|word| word.text == "M" || !word.is_literal());
    !script.doubts.is_empty()
        || script.unread
        || script
            .commands
            .iter()
            .any(|command| command.words.first().is_some_and(|first| marker(std::slice::from_ref(first))))
}

#[test]
fn each_command_that_bash_runs_is_found_or_doubted() {
    let count = std::env::var("BECKET_QUOTES").ok().and_then(|text| text.parse().ok()).unwrap_or(3_000);
    let texts = texts(count);
    let folder = tempfile::tempdir().unwrap();
    let Some(ran) = ran(folder.path(), &texts) else {
        eprintln!("skipped: there is no bash");
        return;
    };
    let runs = ran.iter().filter(|ran| **ran).count();
    assert!(runs > texts.len() / 10, "the texts hardly run anything: {runs} of {}", texts.len());
    let missed: Vec<&String> =
        texts.iter().zip(&ran).filter(|(text, ran)| **ran && !is_seen(text)).map(|(text, _)| text).collect();
    assert!(
        missed.is_empty(),
        "{} of {runs} texts, for example {:#?}",
        missed.len(),
        &missed[..missed.len().min(12)]
    );
}
