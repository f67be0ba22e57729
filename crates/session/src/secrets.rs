//! Secrets in text: recognised by their form, and replaced by their kind.
//!
//! Owns the definition of a secret: key formats that providers publish, private key blocks, passwords in
//! addresses, values of telling names (`API_KEY=…`, `"password": "…"`), and long random values of names such
//! as `…_TOKEN`. Pure: who masks what, and when, is decided elsewhere.
//!
//! There are two levels. [`mask`] is for text that is given to others, where masking a harmless value does little damage: it uses every
//! form, and guesses single lines of keys. [`mask_published`] is for text that the model works with: it uses only forms that no other text
//! has.
//!
//! Invariants: bytes outside a secret never change; masking twice equals masking once; JSON stays valid.

mod forms;
mod key_lines;
mod private_key;

use forms::{FORMS, Form, MARKS, PUBLISHED, has_mark, looks_random, may_be_likely};
use regex::Captures;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::ops::Range;

/// The kind of a secret that [`private_key`] or [`key_lines`] finds.
const PRIVATE_KEY: &str = "private key";

/// A secret found in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundSecret {
    /// The kind of secret, for example `GitHub token`.
    pub kind: &'static str,
    /// Its byte range.
    pub range: Range<usize>,
}

/// Returns the text with secrets masked, and their number.
pub fn mask(text: &str) -> (String, usize) {
    let (published, likely) = (has_mark(text) || private_key::has_middles(text), may_be_likely(text));
    if !published && !likely && !key_lines::may_have(text) {
        return (text.to_owned(), 0);
    }
    let blocks = all_keys(text);
    let (masked, kinds) = masked(text, &blocks, |form| if form.published { published } else { likely });
    (masked.into_owned(), kinds.len())
}

/// Returns the text with secrets of published forms masked, and the kind of each. Text without one is not
/// copied and costs only a search for a few words.
pub fn mask_published(text: &str) -> (Cow<'_, str>, Vec<&'static str>) {
    let has_any = has_mark(text) || private_key::has_middles(text);
    if !has_any {
        return (Cow::Borrowed(text), Vec::new());
    }
    masked(text, &private_key::find(text), |form| form.published)
}

/// Returns the blocks of private keys, and the single lines of keys outside of them, in order.
fn all_keys(text: &str) -> Vec<Range<usize>> {
    let mut out = private_key::find(text);
    let is_apart = |line: &Range<usize>| out.iter().all(|one| line.end <= one.start || one.end <= line.start);
    let more: Vec<Range<usize>> = key_lines::find(text).into_iter().filter(is_apart).collect();
    if !more.is_empty() {
        out.extend(more);
        out.sort_by_key(|block| block.start);
    }
    out
}

/// Masks `blocks`, the private keys of the text, and then every secret whose form is `wanted`. Returns the kind of each.
fn masked<'t>(
    text: &'t str,
    blocks: &[Range<usize>],
    wanted: impl Fn(&Form) -> bool,
) -> (Cow<'t, str>, Vec<&'static str>) {
    let (mut out, mut kinds) = (Cow::Borrowed(text), Vec::new());
    if !blocks.is_empty() {
        let (mut masked, mut from) = (String::with_capacity(text.len()), 0);
        for block in blocks {
            masked.push_str(&text[from..block.start]);
            masked.push_str("‹private key masked›");
            from = block.end;
        }
        masked.push_str(&text[from..]);
        out = Cow::Owned(masked);
        kinds.resize(blocks.len(), PRIVATE_KEY);
    }
    for form in FORMS.iter().filter(|form| wanted(form)) {
        let Some(pattern) = form.pattern().filter(|pattern| pattern.is_match(&out)) else { continue };
        let masked = pattern.replace_all(&out, |found: &Captures<'_>| {
            let whole = found.get(0).map_or("", |m| m.as_str());
            let secret = found.get(2).map_or("", |m| m.as_str());
            if form.random && !looks_random(secret) {
                return whole.to_owned();
            }
            kinds.push(form.name);
            let behind = if form.name == "password" { "@" } else { "" };
            format!("{}‹{} masked›{behind}", found.get(1).map_or("", |m| m.as_str()), form.name)
        });
        if let Cow::Owned(masked) = masked {
            out = Cow::Owned(masked);
        }
    }
    (out, kinds)
}

/// Returns the secrets of a text in order. Of overlapping ones the first counts; at the same position, the
/// more certain form.
pub fn find(text: &str) -> Vec<FoundSecret> {
    find_forms(text, all_keys(text), |_| true)
}

fn find_forms(text: &str, blocks: Vec<Range<usize>>, wanted: impl Fn(&Form) -> bool) -> Vec<FoundSecret> {
    let blocks = blocks.into_iter();
    let mut out: Vec<FoundSecret> = blocks.map(|range| FoundSecret { kind: PRIVATE_KEY, range }).collect();
    for form in FORMS.iter().filter(|form| wanted(form)) {
        let Some(pattern) = form.pattern() else { continue };
        let found = pattern.captures_iter(text).filter_map(|found| found.get(2));
        let counted = found.filter(|secret| !form.random || looks_random(secret.as_str()));
        out.extend(counted.map(|secret| FoundSecret { kind: form.name, range: secret.range() }));
    }
    // The forms were tried from the most certain on, and the sort is stable. So of secrets at the same position the most certain comes
    // first.
    out.sort_by_key(|found| found.range.start);
    let mut end = 0;
    out.retain(|found| {
        let counts = found.range.start >= end;
        end = if counts { found.range.end } else { end };
        counts
    });
    out
}

/// Returns a part of a text with its secrets masked. They are searched in the whole text, because a secret of which the part contains only
/// a piece has no recognisable form there.
pub(crate) fn mask_part(text: &str, part: Range<usize>) -> String {
    mask_found(text, part, &find(text)).0
}

fn mask_found(text: &str, part: Range<usize>, found: &[FoundSecret]) -> (String, Vec<&'static str>) {
    use std::fmt::Write as _;
    let (mut out, mut from, mut kinds) = (String::new(), part.start, Vec::new());
    for secret in found.iter().filter(|s| s.range.start < part.end && s.range.end > part.start) {
        out.push_str(&text[from..secret.range.start.max(from)]);
        let _ = write!(out, "‹{} masked›", secret.kind);
        from = secret.range.end.min(part.end);
        kinds.push(secret.kind);
    }
    out.push_str(&text[from..part.end]);
    (out, kinds)
}

/// Like [`mask_published`], for a text that continues another one: a secret that begins in `before` is masked, too.
pub fn mask_published_after<'t>(before: &str, text: &'t str) -> (Cow<'t, str>, Vec<&'static str>) {
    if before.is_empty() {
        return mask_published(text);
    }
    let whole = format!("{before}{text}");
    if !(has_mark(&whole) || private_key::has_middles(&whole)) {
        return (Cow::Borrowed(text), Vec::new());
    }
    let found = find_forms(&whole, private_key::find(&whole), |form| form.published);
    let (masked, kinds) = mask_found(&whole, before.len()..whole.len(), &found);
    if kinds.is_empty() { (Cow::Borrowed(text), kinds) } else { (Cow::Owned(masked), kinds) }
}

/// Returns the position from which the end of a text may be a part of a secret, if more text follows. A caller that passes a text on in
/// pieces holds this end back until the word is complete. `before`: the text that it has already passed on, in which the word may have
/// begun.
///
/// A beginning has at least three letters, because nearly every word starts with two letters of some form. [`mask_published_after`] masks
/// the rest of such a secret.
pub fn unfinished(before: &str, text: &str) -> Option<usize> {
    /// Maximum length in bytes of a word that is examined. Of a longer word, only this end is held back.
    const LONGEST: usize = 4096;
    const FEWEST: usize = 3;
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-./+=:%~\\".contains(c);
    let last_word = |text: &'_ str| {
        let end = &text[text.ceil_char_boundary(text.len().saturating_sub(LONGEST))..];
        end.len() - end.trim_end_matches(is_part).len()
    };
    let held = last_word(text);
    let begun = if held == text.len() { last_word(before) } else { 0 };
    let word = format!("{}{}", &before[before.len() - begun..], &text[text.len() - held..]);
    let is_beginning = |at: usize| MARKS.iter().any(|mark| mark.starts_with(&word[at..]));
    let begins = word.len() >= FEWEST && (0..=word.len() - FEWEST).any(is_beginning);
    (held > 0 && (has_mark(&word) || begins)).then_some(text.len() - held)
}

/// Masks the secrets of published forms in all texts and keys of a JSON value. A value without one stays as it is.
pub fn mask_published_value(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let (Cow::Owned(masked), _) = mask_published(text) {
                *text = masked;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask_published_value),
        Value::Object(map) => {
            map.values_mut().for_each(mask_published_value);
            mask_keys(map, &|key| match mask_published(key) {
                (Cow::Owned(masked), kinds) => Some((masked, kinds.len())),
                (Cow::Borrowed(_), _) => None,
            });
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Masks the keys of a map with `mask`, in place. `mask` returns the masked key and its number of secrets, or `None`. Two keys that become
/// equal get numbers, so that no value is lost. Returns the number of secrets.
fn mask_keys(map: &mut Map<String, Value>, mask: &dyn Fn(&str) -> Option<(String, usize)>) -> usize {
    if !map.keys().any(|key| mask(key).is_some()) {
        return 0;
    }
    let mut total = 0;
    for (key, value) in std::mem::take(map) {
        let mut name = key;
        if let Some((masked, count)) = mask(&name) {
            total += count;
            name = masked;
        }
        let first = name.clone();
        for n in 2.. {
            if !map.contains_key(&name) {
                break;
            }
            name = format!("{first} {n}");
        }
        map.insert(name, value);
    }
    total
}

/// Returns the kind of a masked secret in a text of a JSON value, in the form that [`mask_published`] writes.
pub fn masked_in(value: &Value) -> Option<&'static str> {
    match value {
        Value::String(text) => masked_in_text(text),
        Value::Array(items) => items.iter().find_map(masked_in),
        Value::Object(map) => {
            map.iter().find_map(|(key, value)| masked_in_text(key).or_else(|| masked_in(value)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn masked_in_text(text: &str) -> Option<&'static str> {
    if !text.contains(" masked›") {
        return None;
    }
    let mut kinds = PUBLISHED.iter().map(|(kind, _)| *kind).chain([PRIVATE_KEY]);
    kinds.find(|kind| text.contains(&format!("‹{kind} masked›")))
}

/// Masks the secrets in all texts and keys of a JSON value, including values that only their key identifies. Returns
/// their number.
pub fn mask_value(value: &mut Value) -> usize {
    match value {
        Value::String(text) => {
            let (masked, count) = mask(text);
            if count > 0 {
                *text = masked;
            }
            count
        }
        Value::Array(items) => items.iter_mut().map(mask_value).sum(),
        Value::Object(map) => {
            let values: usize = map.iter_mut().map(|(key, value)| mask_entry(key, value)).sum();
            values + mask_keys(map, &|key| Some(mask(key)).filter(|(_, count)| *count > 0))
        }
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

#[cfg(test)]
mod tests {
    use super::forms::LIKELY;
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
        /// However a text is cut into pieces, no piece of a key is left: an end that may belong to a key is held back until the next piece,
        /// and the continuation of a key is masked.
        #[test]
        fn keys_in_pieces_are_masked(
            secrets in prop::collection::vec(prop::sample::select(published()), 1..3),
            between in "[a-z ]{0,6}[ \n]", cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let text = format!("{between}{}\n{between}", secrets.join("\n"));
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            cuts.push(text.len());
            cuts.sort_unstable();
            let (mut shown, mut sent, mut out) = (0, String::new(), String::new());
            for cut in cuts {
                let piece = &text[shown..cut];
                let whole = if cut == text.len() { piece } else { &piece[..unfinished(&sent, piece).unwrap_or(piece.len())] };
                out.push_str(&mask_published_after(&sent, whole).0);
                sent.push_str(whole);
                shown += whole.len();
            }
            prop_assert_eq!(shown, text.len());
            for secret in secrets.iter().filter(|secret| !secret.contains('\n')) {
                let parts = (0..=secret.len() - 8).map(|at| &secret[at..at + 8]).skip(3);
                for part in parts.filter(|part| !between.contains(part) && !part.contains("AgEI")) {
                    prop_assert!(!out.contains(part), "{:?} of {:?} in {:?}", part, secret, out);
                }
            }
        }

        #[test]
        fn one_pass_finds_what_looking_for_each_mark_finds(
            parts in prop::collection::vec(prop_oneof![prop::sample::select(MARKS).prop_map(str::to_owned), "[A-Za-z_.é-]{0,4}"], 0..4),
            cut in 0usize..3,
        ) {
            let text = parts.concat();
            // The text ends after its last character, or a few characters earlier.
            let end = text.char_indices().rev().nth(cut).map_or(0, |(at, _)| at);
            for text in [&text[..], &text[..end]] {
                prop_assert_eq!(has_mark(text), MARKS.iter().any(|mark| text.contains(mark)), "{}", text);
            }
        }
    }

    proptest! {
        /// The quick search for a few words and characters rules out most texts before the slow one.
        #[test]
        fn the_quick_look_changes_no_result(
            parts in prop::collection::vec(prop::sample::select(vec![
                "go", " ", "Bearer", "bEARER ", "\\n", "eyJ", "eyJhbGciOi.", "abcdef0123456789abcdef", "password", "=", ":", "hunter22",
                "Authorization: basic ", "://", "me:", "@db", "sk-ant-", "ghp_", "q8Zr2LmX0vT5nB7kWd3Y", "é", "-----BEGIN ",
                "PRIVATE KEY-----\n", "\"", "token", "AKIA", "IOSFODNN7EXAMPLE",
            ]), 0..10),
        ) {
            let text = parts.concat();
            let (slow, kinds) = masked(&text, &all_keys(&text), |_| true);
            prop_assert_eq!(mask(&text), (slow.into_owned(), kinds.len()), "{}", text);
        }
    }

    #[test]
    fn what_has_the_form_of_a_secret_is_masked_and_the_rest_stays() {
        assert_eq!(FORMS.len(), PUBLISHED.len() + LIKELY.len());
        assert!(FORMS.iter().all(|form| form.pattern().is_some()), "every form compiles");
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
        // A token is also found after an escape, and in the middle of an address.
        for secret in published() {
            for before in ["\\n", "\\t", "\\\\n", "\\u0022", "\\\"", "%3D", "%22", "=", "/"] {
                for text in
                    [format!("{{\"log\": \"token:{before}{secret}\"}}"), format!("x{before}{secret}%26z")]
                {
                    let (masked, kinds) = mask_published(&text);
                    assert!(!masked.contains(&secret) && kinds.len() == 1, "{text}: {masked}");
                }
            }
        }
        for prefix in ["x", "key", "_", "9"] {
            for secret in
                published().iter().filter(|secret| secret.starts_with("ghp_") || secret.starts_with("AKIA"))
            {
                assert!(!mask_published(&format!("{prefix}{secret}")).0.contains(secret), "{prefix}{secret}");
            }
        }
        for word in [
            "task-test-of-the-whole-program",
            "task_live_of_the_whole_program",
            "half_of_what_was_said_is_not_so",
        ] {
            assert_eq!(mask_published(word).0, word);
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
    fn no_piece_of_a_secret_is_left_in_a_part_of_a_text() {
        let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
        let text = format!("the token {secret}, and DB_PASSWORD=hunter22 ends");
        for start in 0..text.len() {
            for end in start..=text.len() {
                let part = mask_part(&text, start..end);
                let rest = part.replace("‹GitHub token masked›", "").replace("‹value masked›", "");
                let pieces = (0..=secret.len() - 4).map(|at| &secret[at..at + 4]);
                assert!(pieces.into_iter().all(|piece| !rest.contains(piece)), "{start}..{end}: {part}");
                assert!(!rest.contains("hunt") && !rest.contains("er22"), "{start}..{end}: {part}");
            }
        }
        assert_eq!(mask_part(&text, 0..text.len()), mask(&text).0);
        assert_eq!(mask_part("plain", 1..3), "la");
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
    fn keys_of_json_are_masked_and_none_is_lost() {
        let (one, two) =
            ("ghp_0123456789abcdefghijABCDEFGHIJ012345", "ghp_9876543210abcdefghijABCDEFGHIJ012345");
        let value = json!({"a": 1, one: {"x": two}, two: 3, "‹GitHub token masked› 2": 4, "b": 5});
        let want = json!({
            "a": 1, "‹GitHub token masked›": {"x": "‹GitHub token masked›"}, "‹GitHub token masked› 2": 3,
            "‹GitHub token masked› 2 2": 4, "b": 5,
        });
        let (mut published, mut all) = (value.clone(), value.clone());
        mask_published_value(&mut published);
        assert_eq!(mask_value(&mut all), 3);
        assert_eq!((&published, &all), (&want, &want));
        assert_eq!(masked_in(&all), Some("GitHub token"));
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let order: Vec<bool> = keys(&all).iter().zip(keys(&value)).map(|(a, b)| *a == b).collect();
        assert_eq!(order.iter().filter(|same| **same).count(), 2, "{all}");
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
