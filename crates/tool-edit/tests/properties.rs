//! Laws of editing: outside of the splice no byte changes, whatever the file holds. 10,000 cases; `PROPTEST_CASES` sets
//! another number.

#![expect(clippy::unwrap_used, reason = "a failed set-up fails the test")]

#[path = "properties/lenient.rs"]
mod lenient;

use becket_tool::testing::{TestHost, env, run};
use becket_tool::{Tool, ToolEnv, sha256};
use encoding_rs::Encoding;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

struct Bench {
    runtime: tokio::runtime::Runtime,
    _dir: tempfile::TempDir,
    path: PathBuf,
    env: ToolEnv,
    host: Arc<TestHost>,
    edit: Arc<dyn Tool>,
}

impl Bench {
    fn new() -> Self {
        // In memory if the machine has such a folder, because these laws are not about disks.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let (env, host) = env(dir.path());
        let path = env.cwd.join("f");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Self { runtime, _dir: dir, path, env, host, edit: becket_tool_edit::tools().swap_remove(0) }
    }

    /// Makes an edit. Returns the bytes of the file afterwards, and the refusal if there is one.
    fn edit(&self, before: &[u8], old: &str, new: &str, binary: bool) -> (Vec<u8>, Option<String>) {
        std::fs::write(&self.path, before).unwrap();
        self.host.kept().reads.insert(self.path.clone(), sha256(before));
        let input = json!({"path": "f", "old": old, "new": new, "binary": binary});
        let output = self.runtime.block_on(run(&*self.edit, &self.env, input));
        (std::fs::read(&self.path).unwrap(), output.is_error.then_some(output.content))
    }
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Utf8 {
        bom: bool,
    },
    Utf16 {
        big: bool,
        bom: bool,
    },
    Legacy(&'static str, &'static str),
    /// Any bytes at all.
    Noise,
}

const FORMS: [Form; 15] = [
    Form::Utf8 { bom: false },
    Form::Utf8 { bom: true },
    Form::Utf16 { big: false, bom: true },
    Form::Utf16 { big: true, bom: true },
    Form::Utf16 { big: false, bom: false },
    Form::Legacy("windows-1252", "äöüßéèñ"),
    Form::Legacy("windows-1250", "ąćęłńóśź"),
    Form::Legacy("windows-1251", "абвгдежзийкл"),
    Form::Legacy("koi8-r", "абвгдежзийкл"),
    Form::Legacy("shift_jis", "あいうえおカキク漢字表ソ能"),
    Form::Legacy("euc-jp", "あいうえおカキク漢字"),
    Form::Legacy("gbk", "这是一个简体中文"),
    Form::Legacy("big5", "這是一個繁體中文功許"),
    Form::Legacy("euc-kr", "이것은한국어"),
    Form::Noise,
];

impl Form {
    fn encode(self, text: &str) -> Vec<u8> {
        match self {
            Self::Utf8 { .. } | Self::Noise => text.as_bytes().to_vec(),
            Self::Utf16 { big, .. } => text
                .encode_utf16()
                .flat_map(|u| if big { u.to_be_bytes() } else { u.to_le_bytes() })
                .collect(),
            Self::Legacy(label, _) => {
                Encoding::for_label(label.as_bytes()).unwrap().encode(text).0.into_owned()
            }
        }
    }
    fn mark(self) -> &'static [u8] {
        match self {
            Self::Utf8 { bom: true } => b"\xEF\xBB\xBF",
            Self::Utf16 { big: false, bom: true } => b"\xFF\xFE",
            Self::Utf16 { big: true, bom: true } => b"\xFE\xFF",
            _ => b"",
        }
    }
}

/// Text around the splice: characters of the form, ASCII, spaces, tabs, all line endings, sometimes NUL.
fn filler() -> impl Strategy<Value = Vec<u16>> {
    proptest::collection::vec(any::<u16>(), 0..40)
}

fn around(form: Form, seed: &[u16], nul: bool) -> Vec<u8> {
    if let Form::Noise = form {
        return seed.iter().flat_map(|s| s.to_le_bytes()).collect();
    }
    let own: Vec<char> = match form {
        Form::Legacy(_, own) => own.chars().collect(),
        _ => "äß漢字😀é“”–\u{a0}\u{301}".chars().collect(),
    };
    let text: String = seed
        .iter()
        .map(|s| {
            let s = usize::from(*s);
            match s % 16 {
                0 => "\n".to_owned(),
                1 => "\r\n".to_owned(),
                2 => "\r".to_owned(),
                3 => "  ".to_owned(),
                4 => "\t".to_owned(),
                5 if nul => "\0".to_owned(),
                5..=9 => char::from(b'a' + (s / 16 % 26) as u8).to_string(),
                _ => own[s / 16 % own.len()].to_string(),
            }
        })
        .collect();
    form.encode(&text)
}

#[test]
fn outside_of_the_splice_no_byte_changes() {
    let bench = Bench::new();
    let strategy = (
        0..FORMS.len(),
        filler(),
        filler(),
        any::<bool>(),
        prop_oneof![Just("@1@"), Just("@1@\n@2@"), Just("@1@\r\n@2@\r\n")],
        "[a-z\n ]{0,6}",
    );
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let applied = std::cell::Cell::new(0u32);
    runner
        .run(&strategy, |(form, before, after, nul, needle, new)| {
            let form = FORMS[form];
            let prefix = [form.mark(), &around(form, &before, nul)].concat();
            let suffix = around(form, &after, nul);
            let file = [prefix.as_slice(), &form.encode(needle), &suffix].concat();
            let (now, refused) = {
                // Edits of bytes that may be no text are made in binary mode, in which newlines are literal, too.
                let binary = (nul || matches!(form, Form::Noise))
                    && !needle.contains('\r')
                    && !matches!(form, Form::Utf16 { .. });
                bench.edit(&file, &needle.replace("\r\n", "\n"), &new, binary)
            };
            if let Some(why) = refused {
                prop_assert_eq!(&now, &file, "refused, but changed: {}", why);
                // An edit is refused only if the encoding is uncertain or the file is no text.
                let certain = !nul && matches!(form, Form::Utf8 { .. } | Form::Utf16 { bom: true, .. });
                prop_assert!(!certain, "{:?} {}", form, why);
                return Ok(());
            }
            applied.set(applied.get() + 1);
            prop_assert!(now.starts_with(&prefix), "{:?}", form);
            prop_assert!(now[prefix.len()..].ends_with(&suffix), "{:?}", form);
            let middle = &now[prefix.len()..now.len() - suffix.len()];
            let plain: Vec<u8> = match form {
                Form::Utf16 { big, .. } => middle.chunks(2).map(|c| c[usize::from(big)]).collect(),
                _ => middle.to_vec(),
            };
            let plain = String::from_utf8(plain).unwrap().replace("\r\n", "\n").replace('\r', "\n");
            prop_assert_eq!(plain, new);
            Ok(())
        })
        .unwrap();
    assert!(applied.get() > cases / 10 * 7, "only {} of {cases} were applied", applied.get());
}

#[test]
fn kept_lines_keep_their_endings_and_new_ones_take_their_neighbours() {
    let bench = Bench::new();
    let strategy =
        (proptest::collection::vec(0usize..2, 1..8), any::<proptest::sample::Index>(), any::<bool>());
    let mut runner = TestRunner::new(Config { cases: 1_000, failure_persistence: None, ..Config::default() });
    runner
        .run(&strategy, |(endings, at, last_newline)| {
            let ends = ["\n", "\r\n"];
            let mut lines: Vec<String> =
                endings.iter().enumerate().map(|(i, e)| format!("line-{i} {}", ends[*e])).collect();
            if !last_newline {
                let last = lines.last_mut().unwrap();
                *last = last.trim_end_matches(['\r', '\n']).to_owned();
            }
            let before = lines.concat();
            let old: String = before.replace("\r\n", "\n");
            let at = at.index(lines.len());
            let new = old.replace(&format!("line-{at} "), &format!("changed-{at}"));
            let (now, refused) = bench.edit(before.as_bytes(), &old, &new, false);
            prop_assert!(refused.is_none(), "{:?}", refused);
            let want = before.replace(&format!("line-{at} "), &format!("changed-{at}"));
            prop_assert_eq!(String::from_utf8(now).unwrap(), want);
            Ok(())
        })
        .unwrap();
}

#[test]
fn nothing_is_left_beside_the_file() {
    let bench = Bench::new();
    bench.edit(b"a", "a", "b", false);
    bench.edit(b"a", "x", "b", false);
    let names: Vec<_> =
        std::fs::read_dir(Path::new(&bench.env.cwd)).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["f"]);
}
