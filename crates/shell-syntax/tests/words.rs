//! Words of the reader beside those of a real bash: what the reader calls literal is what bash passes on, and what bash refuses is
//! never understood.
//!
//! Words are made from pieces of the grammar, many in each bash, so that a run takes seconds. Without bash the tests say that
//! they skipped.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use becket_shell_syntax::{Known, Paths, Word, read};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

const HOME: &str = "/home/of-nobody";

fn script(source: &str) -> becket_shell_syntax::Script {
    let resolve = |path: &Path| becket_types::lexical(path);
    let paths = Paths { home: Path::new(HOME), resolve: &resolve };
    read(source, Some(vec![PathBuf::from("/w")]), &paths)
}

/// The words of the last command, if the script is understood whole.
fn words(source: &str) -> Option<Vec<Word>> {
    let read = script(source);
    let understood = !read.unread && read.doubts.is_empty() && read.redirects.is_empty();
    // Commands inside of a word come before the one that it belongs to.
    read.commands.last().filter(|_| understood).map(|command| command.words.clone())
}

/// An empty folder, deleted when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("becket-words-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn bash(folder: &Folder, source: &str) -> Option<Vec<u8>> {
    // bash is started by its path, because `PATH` is set to a folder that does not exist: no other program must run.
    let mut bash =
        Command::new(["/bin/bash", "/usr/bin/bash"].into_iter().find(|path| Path::new(path).exists())?);
    bash.args(["--norc", "-c", source]).current_dir(&folder.0).env_clear();
    bash.env("HOME", HOME).env("PATH", "/nowhere").stdin(Stdio::null()).stderr(Stdio::null());
    let output = bash.output().ok()?;
    output.status.success().then_some(output.stdout)
}

/// Returns what bash passes on for each text: its arguments, or `None` if it refuses the text. A function prints them, so nothing else runs.
fn passed(folder: &Folder, texts: &[String]) -> Option<Vec<Option<Vec<String>>>> {
    bash(folder, ":")?;
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let mut source = String::from("show() { printf '<%s>\\0' \"$@\"; }\n");
    for text in texts {
        // Each text runs in a subshell, so that its variables and errors do not concern the next one.
        let text = quoted(&format!("show {text}"));
        source += "(eval ";
        source += &text;
        source += " 2>/dev/null) && printf 'ok\\1' || printf 'no\\1'\n";
    }
    let output = String::from_utf8(bash(folder, &source).unwrap()).unwrap();
    let parts: Vec<&str> = output.split_terminator('\u{1}').collect();
    assert_eq!(parts.len(), texts.len(), "{output}");
    let arguments = |part: &str| -> Option<Vec<String>> {
        let shown = part.strip_suffix("ok")?;
        let inner = |word: &str| word.strip_prefix('<').and_then(|w| w.strip_suffix('>')).map(str::to_owned);
        Some(shown.split_terminator('\0').filter_map(inner).collect())
    };
    Some(parts.into_iter().map(arguments).collect())
}

/// The text that bash passes on for a word that the reader calls literal.
fn meant(word: &Word) -> String {
    match word.raw.strip_prefix('~') {
        Some(rest) if word.text.starts_with('~') && (rest.is_empty() || rest.starts_with('/')) => {
            format!("{HOME}{}", &word.text[1..])
        }
        _ => word.text.clone(),
    }
}

/// Compares reader and bash for each text. Returns the number of texts that the reader calls literal, and the differences.
fn compare(texts: &[String]) -> Option<(usize, Vec<String>)> {
    let folder = Folder::new();
    let (mut literal, mut wrong) = (0, Vec::new());
    for part in texts.chunks(400) {
        let passed = passed(&folder, part)?;
        for (text, passed) in part.iter().zip(passed) {
            let source = format!("show {text}");
            let Some(words) = words(&source).filter(|_| script(&source).commands.len() == 1) else {
                continue;
            };
            let Some(passed) = passed else {
                wrong.push(format!("{text:?}: bash refuses it, understood as {words:?}"));
                continue;
            };
            // A pattern is not literal. In the empty folder bash leaves it as it is, which this test does not compare.
            if !words.iter().all(Word::is_literal) {
                continue;
            }
            literal += 1;
            let read: Vec<String> = words[1..].iter().map(meant).collect();
            // If there are no arguments, `printf` prints one that is empty.
            if read != passed && !(read.is_empty() && passed == [""]) {
                wrong.push(format!("{text:?}: bash passes {passed:?}, read as {read:?}"));
            }
        }
    }
    Some((literal, wrong))
}

/// Pieces of words: letters, quotes of every kind, escapes, signs of the grammar. None starts a process that runs beside others,
/// whose output would come at any time.
const PIECES: &[&str] = &[
    "a",
    "b.c",
    "-",
    "--x",
    "=",
    ":",
    ",",
    "..",
    "/",
    "~",
    "~/",
    "~+",
    "~root",
    "{",
    "}",
    "{a,b}",
    "{1..3}",
    "{a",
    ",b}",
    "'",
    "\"",
    "''",
    "\"\"",
    "' '",
    "\" \"",
    "'\\'",
    "\"\\\"\"",
    "\\\"",
    "\\'",
    "\\\\",
    "\\ ",
    "\\\n",
    "\\{",
    "\\,",
    "\\~",
    "\\=",
    "$'x'",
    "$'\\''",
    "$'\\\"'",
    "$'\\n'",
    "$'\\x41'",
    "$'\\101'",
    "$'\\u0041'",
    "$'\\u00e9'",
    "$'\\c'",
    "$\"x\"",
    "$",
    "\"$\"",
    "'$'",
    "x=",
    "x+=",
    "a=~",
    "a=~/b",
    "a:~/b",
    "a=b:~/c",
    "\"a\"=~/b",
    "é",
    "\"é\"",
    "#",
    "a#b",
    "!",
    "\"!\"",
    "^",
    "%",
    "@",
    "+",
    "1",
    "[",
    "]",
    "'{a,b}'",
    "\"{a,b}\"",
    "'~'",
    "\"~\"",
    " ",
    "  ",
    "\t",
    "\\\t",
    "*",
    "?",
    "\\*",
    "'*'",
    "[a]",
    "\\[a]",
    "(",
    ")",
    "\\(",
    "\\&",
    ";",
    "\\;",
    "\\|",
    "<",
    "\\<",
    ">",
    "\\>",
    "`",
    "\\`",
    "'`'",
    "\"\\`\"",
    "\"\\$x\"",
    "'$x'",
    "\\$x",
    "\"a\\b\"",
    "\"a\\\nb\"",
    "'a\nb'",
    "\n",
    "if",
    "then",
    "do",
    "done",
    "in",
    "esac",
    "function",
    "select",
    "time",
    "[[",
    "]]",
    "((",
    "))",
    "{ ",
    " }",
];

fn texts(count: usize) -> Vec<String> {
    let pieces = prop::collection::vec(prop::sample::select(PIECES), 1..7).prop_map(|pieces| pieces.concat());
    let mut runner = TestRunner::new_with_rng(
        ProptestConfig::default(),
        proptest::test_runner::TestRng::from_seed(
            proptest::test_runner::RngAlgorithm::ChaCha,
            &std::env::var("PROPTEST_RNG_SEED").map_or([7; 32], |seed| {
                let mut bytes = [0; 32];
                for (byte, digit) in bytes.iter_mut().zip(seed.bytes()) {
                    *byte = digit;
                }
                bytes
            }),
        ),
    );
    (0..count).map(|_| pieces.new_tree(&mut runner).unwrap().current()).collect()
}

/// Number of words that are made, if `PROPTEST_CASES` does not say it (times a hundred).
fn count(usual: usize) -> usize {
    std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse::<usize>().ok())
        .map_or(usual, |cases| cases * 100)
}

#[test]
fn a_literal_word_is_what_bash_passes_on() {
    let texts = texts(count(8_000));
    let Some((literal, wrong)) = compare(&texts) else {
        eprintln!("bash is not there: skipped");
        return;
    };
    let shown: Vec<&String> = wrong.iter().take(30).collect();
    assert!(wrong.is_empty(), "{} of {literal} differ: {shown:#?}", wrong.len());
    assert!(literal * 20 > texts.len(), "{literal} of {}", texts.len());
}

/// Forms that were once read wrong, and similar ones.
#[test]
fn quotes_before_lists_and_tildes_hide_neither() {
    let forms = [
        r#"\"{a,b}"#,
        r"\'{a,b}",
        r"$'\''{a,b}",
        r#""\""{a,b}"#,
        r"'it'\''s'{a,b}",
        r"x\\{a,b}",
        r"{a\,b}",
        r"\{a,b}",
        r#"{"a",b}"#,
        "{a,'b c'}",
        "{'a,b'}",
        "{\"a,b\"}",
        "{a..c}",
        "{a'..'c}",
        "x{,}",
        "{}",
        "{a}",
        "a{b,c",
        "a}b,c{",
        "x=~",
        "x=~/a",
        "x=a:~/b",
        "--x=~/a",
        "\"x=~/a\"",
        "x='~/a'",
        "x=\\~/a",
        "'x'=~/a",
        "~",
        "~/a",
        "'~/a'",
        "\"~\"/a",
        "\\~/a",
        "~\\/a",
        "~'/'a",
        "''~/a",
        "$'~/a'",
        "$'\\x7e/a'",
        "a~",
        "a:~/b",
    ];
    let texts: Vec<String> = forms.iter().map(|form| (*form).to_owned()).collect();
    let Some((literal, wrong)) = compare(&texts) else {
        eprintln!("bash is not there: skipped");
        return;
    };
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(literal > 8, "{literal}");
    for dynamic in [r#"\"{a,b}"#, r"$'\''{a,b}", "x=~/a", "x=a:~/b", "'~/a'", "\\~/a", "$'\\u00e9'"] {
        let words = words(&format!("show {dynamic}")).unwrap();
        assert_eq!(words[1].known, Known::Dynamic, "{dynamic}");
    }
}

/// (a part of a word as it is written, the text that the reader makes of it, its kind)
#[test]
fn words_by_kind() {
    use Known::{Dynamic, Glob, Literal, Pipe};
    for (raw, text, known) in [
        ("a", "a", Literal),
        ("'a b'", "a b", Literal),
        ("\"a b\"", "a b", Literal),
        ("a\\ b", "a b", Literal),
        ("\"a\\b\"", "a\\b", Literal),
        ("\"a\\\"b\"", "a\"b", Literal),
        ("'a'\"b\"c", "abc", Literal),
        ("$'a\\tb'", "a\tb", Literal),
        ("$'\\x41\\102'", "AB", Literal),
        ("-n", "-n", Literal),
        ("~/a", "~/a", Literal),
        ("\\*", "*", Literal),
        ("'*'", "*", Literal),
        ("*.rs", "*.rs", Glob),
        ("a?", "a?", Glob),
        ("[ab]c", "[ab]c", Glob),
        ("\"a\"*", "a*", Glob),
        ("<(ls)", "<(ls)", Pipe),
        ("$x", "$x", Dynamic),
        ("\"$x\"", "$x", Dynamic),
        ("${x}", "${x}", Dynamic),
        ("a$x", "a$x", Dynamic),
        ("$(ls)", "$(ls)", Dynamic),
        ("`ls`", "`ls`", Dynamic),
        ("{a,b}", "{a,b}", Dynamic),
        ("~root", "~root", Dynamic),
    ] {
        let read = script(&format!("show {raw}"));
        let word = &read.commands.iter().find(|c| c.words[0].text == "show").unwrap().words[1];
        assert_eq!((word.text.as_str(), word.known), (text, known), "{raw}");
        assert_eq!(word.raw, raw);
    }
}

#[test]
fn variables_of_a_word_are_named_and_kept_together_by_quotes() {
    let word = |raw: &str| words(&format!("show {raw}")).unwrap()[1].clone();
    for (raw, variable, names, single) in [
        ("\"$f\"", Some("f"), Some(vec!["f"]), true),
        ("\"${f}\"", Some("f"), Some(vec!["f"]), true),
        ("$f", None, Some(vec!["f"]), false),
        ("\"$f/$g\"", None, Some(vec!["f", "g"]), true),
        ("\"$@\"", None, Some(vec!["@"]), false),
        ("a$?", None, Some(vec!["?"]), true),
        ("\"$(ls)\"", None, Some(vec![]), true),
        ("$(ls)", None, Some(vec![]), false),
        ("{a,b}$f", None, None, false),
        ("a", None, Some(vec![]), true),
    ] {
        let word = word(raw);
        assert_eq!(word.variable.as_deref(), variable, "{raw}");
        let found = word.variables.as_ref().map(|names| names.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(found, names, "{raw}");
        assert_eq!(word.single, single, "{raw}");
    }
}
