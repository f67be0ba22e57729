//! Secrets in text: recognised by their form, and replaced by their kind.
//!
//! Owns the definition of a secret: key formats that providers publish, private key blocks, passwords in
//! addresses, values of telling names (`API_KEY=…`, `"password": "…"`), and long random values of names such
//! as `…_TOKEN`. Pure: who masks what, and when, is decided elsewhere.
//!
//! There are two levels. [`mask`] uses every form, for text that is given to others; masking a harmless value
//! does little damage there. [`mask_published`] uses only forms that nothing else has, for text that the
//! model works with.
//!
//! Invariants: bytes outside a secret never change; masking twice equals masking once; JSON stays valid.

use regex::{Captures, Regex};
use serde_json::Value;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

/// A form of secrets. Group 1, if present, is kept in front; group 2 is the secret.
struct Form {
    name: &'static str,
    pattern: Regex,
    /// True if nothing else has this form.
    published: bool,
    /// True if the value must look random.
    random: bool,
}

/// `(name, pattern)` of forms that nothing else has.
const PUBLISHED: &[(&str, &str)] = &[
    (
        "private key",
        r#"()(-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:[^"‹\\]|\\+[nr])*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|["‹\\]|\z))"#,
    ),
    ("age key", r"()(\bAGE-SECRET-KEY-1[0-9A-Z]{58})"),
    ("Anthropic key", r"()(\bsk-ant-[A-Za-z0-9_-]{16,})"),
    ("API key", r"()(\b(?:sk|rk|pk)[-_](?:live|test|proj|or|svcacct)[-_][A-Za-z0-9_-]{16,})"),
    ("API key", r"()(\bsk-[A-Za-z0-9]{20,})"),
    ("GitHub token", r"()(\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,}))"),
    ("GitLab token", r"()(\bgl(?:pat|dt|rt)-[A-Za-z0-9_-]{20,})"),
    ("AWS key", r"()(\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b)"),
    ("Google key", r"()(\bAIza[A-Za-z0-9_-]{35}\b)"),
    ("Google token", r"()(\b(?:ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{28}))"),
    ("Slack token", r"()(\bxox[abeprs]-[A-Za-z0-9-]{10,})"),
    ("Slack address", r"(https://hooks\.slack\.com/services/)([A-Z0-9]+/[A-Z0-9]+/[A-Za-z0-9]{20,})"),
    ("npm token", r"()(\bnpm_[A-Za-z0-9]{36}\b)"),
    ("PyPI token", r"()(\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{40,})"),
    ("Hugging Face token", r"()(\bhf_[A-Za-z0-9]{30,}\b)"),
    ("Docker token", r"()(\bdckr_pat_[A-Za-z0-9_-]{20,})"),
    ("DigitalOcean token", r"()(\bdo[opr]_v1_[a-f0-9]{64}\b)"),
    ("SendGrid key", r"()(\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}\b)"),
    ("Vault token", r"()(\bhv[sb]\.[A-Za-z0-9_-]{24,})"),
    ("Databricks token", r"()(\bdapi[a-f0-9]{32}\b)"),
    ("Shopify token", r"()(\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b)"),
    ("Linear key", r"()(\blin_api_[A-Za-z0-9]{40}\b)"),
    ("Groq key", r"()(\bgsk_[A-Za-z0-9]{40,}\b)"),
    ("xAI key", r"()(\bxai-[A-Za-z0-9]{60,}\b)"),
    ("Replicate token", r"()(\br8_[A-Za-z0-9]{37}\b)"),
    ("Azure key", r"(\bAccountKey=)([A-Za-z0-9+/]{80,}={0,2})"),
];

/// Substrings of which each [`PUBLISHED`] form contains one. Text without any of them is not examined
/// further.
const MARKS: &[&str] = &[
    "PRIVATE KEY",
    "AGE-SECRET",
    "sk-",
    "sk_",
    "rk-",
    "rk_",
    "pk-",
    "pk_",
    "gho_",
    "ghp_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "gldt-",
    "glrt-",
    "AKIA",
    "ASIA",
    "ABIA",
    "ACCA",
    "AIza",
    "ya29.",
    "GOCSPX-",
    "xox",
    "hooks.slack",
    "npm_",
    "pypi-Ag",
    "hf_",
    "dckr_pat_",
    "_v1_",
    "SG.",
    "hvs.",
    "hvb.",
    "dapi",
    "shpat_",
    "shpca_",
    "shppa_",
    "shpss_",
    "lin_api_",
    "gsk_",
    "xai-",
    "r8_",
    "AccountKey",
];

/// For each byte, the marks (one bit each) that have it in their first, second and third place: most positions of a text are
/// ruled out by three look-ups.
static PLACES: [[u64; 256]; 3] = places();

const fn places() -> [[u64; 256]; 3] {
    assert!(MARKS.len() <= 64, "one bit for each mark");
    let mut out = [[0; 256]; 3];
    let mut mark = 0;
    while mark < MARKS.len() {
        let mut place = 0;
        while place < 3 {
            out[place][MARKS[mark].as_bytes()[place] as usize] |= 1 << mark;
            place += 1;
        }
        mark += 1;
    }
    out
}

/// True if a text has one of [`MARKS`], found in one pass.
fn has_mark(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.windows(3).enumerate().any(|(at, window)| {
        let &[first, second, third] = window else { return false };
        let mut fits =
            PLACES[0][usize::from(first)] & PLACES[1][usize::from(second)] & PLACES[2][usize::from(third)];
        while fits != 0 {
            if bytes[at..].starts_with(MARKS[fits.trailing_zeros() as usize].as_bytes()) {
                return true;
            }
            fits &= fits - 1;
        }
        false
    })
}

/// `(name, pattern, must look random)` of forms that other text may have too. Each begins with a fixed word
/// and not with the rest of a preceding name, so that text without such a word is skipped at the speed of
/// memory.
const LIKELY: &[(&str, &str, bool)] = &[
    ("JSON web token", r"()(\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})", false),
    ("bearer token", r"(?i)(\bbearer\s+)([A-Za-z0-9._~+/-]{16,}=*)", false),
    ("basic credentials", r"(?i)(\bauthorization:\s*basic\s+)([A-Za-z0-9+/]{8,}=*)", false),
    ("password", r#"(://[^\s:/@"'\\]+:)([^\s:/@"'\\‹]{3,})(?:@)"#, false),
    (
        "value",
        r#"(?i)((?:password|passwd|secret|api[_-]?key|access[_-]?key|auth[_-]?token|access[_-]?token|private[_-]?key)(?:\\*["'])?\s*[:=]\s*(?:\\*["'])?)([^\s"'\\,;<>$({\[‹]{6,})"#,
        false,
    ),
    (
        "value",
        r#"(?i)((?:token|credentials?|pwd|[_.-]key|[_.-]auth)(?:\\*["'])?\s*[:=]\s*(?:\\*["'])?)([A-Za-z0-9+/_~-]{20,}={0,2})"#,
        true,
    ),
];

/// Minimum entropy in bits per character of a value that looks random. Words and paths in programs are below
/// it.
const RANDOM: f64 = 3.6;

static FORMS: LazyLock<Vec<Form>> = LazyLock::new(|| {
    let published = PUBLISHED.iter().map(|(name, form)| (*name, *form, true, false));
    let likely = LIKELY.iter().map(|(name, form, random)| (*name, *form, false, *random));
    let made = |(name, form, published, random)| {
        Some(Form { name, pattern: Regex::new(form).ok()?, published, random })
    };
    published.chain(likely).filter_map(made).collect()
});

/// A secret found in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The kind of secret, for example `GitHub token`.
    pub kind: &'static str,
    /// Its byte range.
    pub range: Range<usize>,
}

/// Returns the text with secrets masked, and their number.
pub fn mask(text: &str) -> (String, usize) {
    let (masked, kinds) = masked(text, |_| true);
    (masked.into_owned(), kinds.len())
}

/// Returns the text with secrets of published forms masked, and the kind of each. Text without one is not
/// copied and costs only a search for a few words.
pub fn mask_published(text: &str) -> (Cow<'_, str>, Vec<&'static str>) {
    if has_mark(text) { masked(text, |form| form.published) } else { (Cow::Borrowed(text), Vec::new()) }
}

/// Masks the secrets of published forms in all texts of a JSON value. A value without one stays as it is.
pub fn mask_published_value(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let (Cow::Owned(masked), _) = mask_published(text) {
                *text = masked;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask_published_value),
        Value::Object(map) => map.values_mut().for_each(mask_published_value),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn masked(text: &str, wanted: impl Fn(&Form) -> bool) -> (Cow<'_, str>, Vec<&'static str>) {
    let (mut out, mut kinds) = (Cow::Borrowed(text), Vec::new());
    for form in FORMS.iter().filter(|form| wanted(form)) {
        if !form.pattern.is_match(&out) {
            continue;
        }
        let masked = form.pattern.replace_all(&out, |found: &Captures<'_>| {
            let whole = found.get(0).map_or("", |m| m.as_str());
            let secret = found.get(2).map_or("", |m| m.as_str());
            if form.random && !looks_random(secret) {
                return whole.to_owned();
            }
            kinds.push(form.name);
            let behind = match form.name {
                "password" => "@",
                // If the key block has no end of its own, it ends with the surrounding string.
                "private key" if secret.ends_with('"') => "\"",
                "private key" if secret.ends_with('‹') => "‹",
                "private key" if secret.ends_with('\\') => "\\",
                _ => "",
            };
            format!("{}‹{} masked›{behind}", found.get(1).map_or("", |m| m.as_str()), form.name)
        });
        if let Cow::Owned(masked) = masked {
            out = Cow::Owned(masked);
        }
    }
    (out, kinds)
}

/// Returns the kind of a masked secret in a text of a JSON value, in the form that [`mask_published`] writes.
pub fn masked_in(value: &Value) -> Option<&'static str> {
    match value {
        Value::String(text) if text.contains(" masked›") => {
            let mut kinds = PUBLISHED.iter().map(|(kind, _)| *kind);
            kinds.find(|kind| text.contains(&format!("‹{kind} masked›")))
        }
        Value::Array(items) => items.iter().find_map(masked_in),
        Value::Object(map) => map.values().find_map(masked_in),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// Returns the secrets of a text in order. Of overlapping ones the first counts; at the same position, the
/// more certain form.
pub fn find(text: &str) -> Vec<Found> {
    let mut out: Vec<Found> = Vec::new();
    for form in FORMS.iter() {
        let found = form.pattern.captures_iter(text).filter_map(|found| found.get(2));
        let counted = found.filter(|secret| !form.random || looks_random(secret.as_str()));
        out.extend(counted.map(|secret| Found { kind: form.name, range: secret.range() }));
    }
    // The sort is stable, and forms are tried from the most certain on.
    out.sort_by_key(|found| found.range.start);
    let mut end = 0;
    out.retain(|found| {
        let counts = found.range.start >= end;
        end = if counts { found.range.end } else { end };
        counts
    });
    out
}

/// Masks the secrets in all texts of a JSON value, including values that only their key identifies. Returns
/// their number.
pub(crate) fn mask_value(value: &mut Value) -> usize {
    match value {
        Value::String(text) => {
            let (masked, count) = mask(text);
            if count > 0 {
                *text = masked;
            }
            count
        }
        Value::Array(items) => items.iter_mut().map(mask_value).sum(),
        Value::Object(map) => map.iter_mut().map(|(key, value)| mask_entry(key, value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn mask_entry(key: &str, value: &mut Value) -> usize {
    let inside = mask_value(value);
    let Value::String(text) = value else { return inside };
    // The value alone matches no form, but together with its key it does.
    let pair = format!("{key}={text}");
    if inside == 0 && find(&pair).iter().any(|found| found.range == (key.len() + 1..pair.len())) {
        "‹value masked›".clone_into(text);
        return 1;
    }
    inside
}

/// True if a text has letters and digits, and so many different ones that it is not a name.
fn looks_random(text: &str) -> bool {
    let has = |test: fn(&u8) -> bool| text.bytes().any(|b| test(&b));
    if !has(u8::is_ascii_digit) || !has(u8::is_ascii_alphabetic) {
        return false;
    }
    let mut counts = [0u32; 256];
    for byte in text.bytes() {
        counts[usize::from(byte)] += 1;
    }
    let all = text.len() as f64;
    let shares = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / all);
    -shares.map(|share| share * share.log2()).sum::<f64>() >= RANDOM
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// Returns one secret of each published form. They are assembled here, so that no scanner mistakes this
    /// file for one with keys.
    fn published() -> Vec<String> {
        let x = |n: usize| "aB3dE5gH7jK9mN1pQ2sT4vW6yZ8cF0iL".chars().cycle().take(n).collect::<String>();
        let hex = |n: usize| "0f1e2d3c4b5a69788796a5b4c3d2e1f0".chars().cycle().take(n).collect::<String>();
        vec![
            format!("-----BEGIN {} KEY-----\nMII\n-----END RSA {} KEY-----", "RSA PRIVATE", "PRIVATE"),
            format!("AGE-SECRET-KEY-1{}", x(58).to_uppercase()),
            format!("sk-ant-api03-{}", x(20)),
            format!("sk_live_{}", x(24)),
            format!("sk-{}", x(40)),
            format!("ghp_{}", x(36)),
            format!("github_pat_{}", x(50)),
            format!("glpat-{}", x(20)),
            format!("AKIA{}", x(16).to_uppercase()),
            format!("AIza{}", x(35)),
            format!("ya29.{}", x(40)),
            format!("xoxb-{}", x(30)),
            format!("npm_{}", x(36)),
            format!("pypi-AgEIcHlwaS5vcmc{}", x(60)),
            format!("hf_{}", x(34)),
            format!("dckr_pat_{}", x(27)),
            format!("dop_v1_{}", hex(64)),
            format!("SG.{}.{}", x(22), x(43)),
            format!("hvs.{}", x(30)),
            format!("dapi{}", hex(32)),
            format!("shpat_{}", hex(32)),
            format!("lin_api_{}", x(40)),
            format!("gsk_{}", x(52)),
            format!("xai-{}", x(80)),
            format!("r8_{}", x(37)),
        ]
    }

    proptest! {
        #[test]
        fn one_pass_finds_what_looking_for_each_mark_finds(
            parts in prop::collection::vec(prop_oneof![prop::sample::select(MARKS).prop_map(str::to_owned), "[A-Za-z_.é-]{0,4}"], 0..4),
            cut in 0usize..3,
        ) {
            let text = parts.concat();
            // The last mark is whole or misses its end.
            let end = text.char_indices().rev().nth(cut).map_or(0, |(at, _)| at);
            for text in [&text[..], &text[..end]] {
                prop_assert_eq!(has_mark(text), MARKS.iter().any(|mark| text.contains(mark)), "{}", text);
            }
        }
    }

    #[test]
    fn what_has_the_form_of_a_secret_is_masked_and_the_rest_stays() {
        assert_eq!(FORMS.len(), PUBLISHED.len() + LIKELY.len(), "every form compiles");
        for (text, want) in [
            ("key sk-ant-api03-AbCdEfGhIjKlMnOpQrSt end", "key ‹Anthropic key masked› end"),
            ("ghp_0123456789abcdefghijABCDEFGHIJ012345", "‹GitHub token masked›"),
            ("AKIAIOSFODNN7EXAMPLE", "‹AWS key masked›"),
            ("Authorization: Bearer abcdef0123456789abcdef", "Authorization: Bearer ‹bearer token masked›"),
            ("postgres://me:hunter22@db/x", "postgres://me:‹password masked›@db/x"),
            ("export DB_PASSWORD=correct-horse\nnext", "export DB_PASSWORD=‹value masked›\nnext"),
            ("{\"api_key\": \"0123456789abcdef\"}", "{\"api_key\": \"‹value masked›\"}"),
            (r#"{\"api_key\": \"0123456789abcdef\"}"#, r#"{\"api_key\": \"‹value masked›\"}"#),
            ("DEPLOY_TOKEN=q8Zr2LmX0vT5nB7kWd3Y", "DEPLOY_TOKEN=‹value masked›"),
            ("signing-key: 'q8Zr2LmX0vT5nB7kWd3Y'", "signing-key: '‹value masked›'"),
            (
                "a\n-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nb",
                "a\n‹private key masked›\nb",
            ),
            ("a\n-----BEGIN PRIVATE KEY-----\nMII", "a\n‹private key masked›"),
        ] {
            assert_eq!(mask(text), (want.to_owned(), 1), "{text}");
            assert_eq!(mask(want), (want.to_owned(), 0), "{want}");
            assert_eq!(find(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_one_stays() {
        for plain in [
            "the password is asked for at the prompt",
            "fn api_key(&self) -> &str",
            "https://example.com:8080/path@x",
            "task-force sk-1 secret: no",
            "let token = self.next_token();",
            "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
            "\"integrity\": \"sha512-q8Zr2LmX0vT5nB7kWd3Yq8Zr2LmX0vT5nB7kWd3Yq8Zr2LmX0vT5nB7kWd3Yq8Zr2LmX0vT5nB7kWd3Y==\"",
            "checksum = \"0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0\"",
            "id: 0198c0de-7a4b-7c3d-9e2f-0a1b2c3d4e5f",
            "token = the_name_of_a_function_here",
            "sort_key=created_at_descending_order",
            "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4",
            "-----BEGIN PUBLIC KEY-----\nMII\n-----END PUBLIC KEY-----",
            "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----",
        ] {
            assert_eq!(mask(plain), (plain.to_owned(), 0), "{plain}");
            assert_eq!(find(plain), [], "{plain}");
        }
    }

    #[test]
    fn published_forms_are_found_whatever_stands_around_them() {
        for secret in published() {
            for text in [secret.clone(), format!("x = \"{secret}\"\n"), format!("[{secret}]\nnext")] {
                let (masked, kinds) = mask_published(&text);
                assert_eq!(kinds.len(), 1, "{text}");
                assert!(masked.contains(" masked›") && !masked.contains(&secret), "{masked}");
            }
        }
        // Passwords in examples are kept in text that the model works with.
        let text = "password = \"hunter22\"\npostgres://me:hunter22@db/x";
        assert_eq!(mask_published(text), (Cow::Borrowed(text), Vec::new()));
    }

    #[test]
    fn a_masked_secret_is_seen_in_what_a_call_would_write() {
        let (masked, _) = mask_published("token = ghp_0123456789abcdefghijABCDEFGHIJ012345");
        assert_eq!(masked_in(&json!({"path": "a", "edits": [{"new": masked}]})), Some("GitHub token"));
        for other in ["‹value masked›", "is masked›", "‹GitHub token›", "token"] {
            assert_eq!(masked_in(&json!({ "content": other })), None, "{other}");
        }
    }

    #[test]
    fn many_secrets_are_found_in_their_order_and_once() {
        let line = "password=ghp_0123456789abcdefghijABCDEFGHIJ012345\n";
        let found = find(&line.repeat(20_000));
        assert_eq!(found.len(), 20_000);
        assert!(found.windows(2).all(|pair| pair[0].range.end <= pair[1].range.start));
        assert!(found.iter().all(|found| found.kind == "GitHub token"));
    }

    #[test]
    fn values_of_json_are_masked_by_their_keys_too() {
        let mut value = json!({"password": "hunter22", "a": [{"text": "DB_PASSWORD=hunter22"}], "n": 5, "title": "password"});
        assert_eq!(mask_value(&mut value), 2);
        assert_eq!(
            value,
            json!({"password": "‹value masked›", "a": [{"text": "DB_PASSWORD=‹value masked›"}], "n": 5, "title": "password"})
        );
    }

    fn config() -> ProptestConfig {
        ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() }
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn only_the_secret_changes(before in "[ a-z.\n]{0,30}", after in "[ a-z.\n]{0,30}", at in 0usize..25) {
            let secret = &published()[at];
            let text = format!("{before} {secret} {after}");
            let (masked, kinds) = mask_published(&text);
            prop_assert_eq!(kinds.len(), 1);
            prop_assert!(masked.starts_with(&format!("{before} ‹")) && masked.ends_with(&format!("› {after}")), "{}", masked);
            prop_assert_eq!(mask_published(&masked).1.len(), 0);
            let json = serde_json::to_string(&json!({"text": text})).unwrap();
            let (masked, count) = mask(&json);
            prop_assert_eq!(count, 1);
            prop_assert!(serde_json::from_str::<Value>(&masked).is_ok(), "{}", masked);
        }

        #[test]
        fn any_text_can_be_masked(text in ".{0,80}") {
            let (once, _) = mask(&text);
            prop_assert_eq!(mask(&once).0, once);
        }

        #[test]
        fn json_stays_json(parts in prop::collection::vec(
            prop::sample::select(vec!["password", "API_KEY", "=", ":", "\\", "\"", "'", "\n", "abcdef", "q8Zr2LmX0vT5nB7kWd3Y", "x://", "u:", "@",
                " ", "Bearer ", "Authorization: Basic ", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "ghp_",
                "0123456789abcdefghijABCDEFGHIJ012345"]), 0..14))
        {
            let json = serde_json::to_string(&json!({"text": parts.concat(), "after": 1})).unwrap();
            let masked = mask(&json).0;
            let value: Result<Value, _> = serde_json::from_str(&masked);
            prop_assert!(value.is_ok_and(|value| value["after"] == 1), "{} -> {}", json, masked);
            prop_assert_eq!(mask(&masked).0, masked);
        }
    }
}
