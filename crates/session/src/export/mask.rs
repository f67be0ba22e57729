//! Secrets in text that leaves the machine: recognised by their form and replaced by what they were.
//!
//! Forms of keys that providers publish, private key blocks, passwords in addresses, and values of names that say what they
//! are (`API_KEY=…`, `"password": "…"`). Sees no entropy and guesses no words: what has no form stays. The ledger is not
//! touched.

use regex::{Captures, Regex};
use std::sync::LazyLock;

/// Name, pattern; group 1, where there is one, is kept in front, group 2 is the secret.
static FORMS: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
    let forms = [
        (
            "private key",
            r"(?s)()(-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z))",
        ),
        ("Anthropic key", r"()(\bsk-ant-[A-Za-z0-9_-]{16,})"),
        ("API key", r"()(\b(?:sk|rk|pk)[-_](?:live|test|proj|or|svcacct)[-_][A-Za-z0-9_-]{16,})"),
        ("API key", r"()(\bsk-[A-Za-z0-9]{20,})"),
        ("GitHub token", r"()(\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,}))"),
        ("GitLab token", r"()(\bgl(?:pat|dt|rt)-[A-Za-z0-9_-]{20,})"),
        ("AWS key", r"()(\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b)"),
        ("Google key", r"()(\bAIza[A-Za-z0-9_-]{35}\b)"),
        ("Slack token", r"()(\bxox[abprs]-[A-Za-z0-9-]{10,})"),
        ("npm token", r"()(\bnpm_[A-Za-z0-9]{36}\b)"),
        ("JSON web token", r"()(\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})"),
        ("bearer token", r"(?i)(\bbearer\s+)([A-Za-z0-9._~+/-]{16,}=*)"),
        ("basic credentials", r"(?i)(\bauthorization:\s*basic\s+)([A-Za-z0-9+/]{8,}=*)"),
        ("password", r"(?i)(\b[a-z][a-z0-9+.-]*://[^\s:/@]+:)([^\s:/@]{3,})(?:@)"),
        (
            "value",
            r#"(?i)(\b[a-z0-9_.-]*(?:password|passwd|secret|api[_-]?key|access[_-]?key|auth[_-]?token|access[_-]?token|private[_-]?key)["']?\s*[:=]\s*["']?)([^\s"',;<>$({\[‹]{6,})"#,
        ),
    ];
    forms.into_iter().filter_map(|(name, form)| Some((name, Regex::new(form).ok()?))).collect()
});

/// The text with secrets masked, and how many there were.
pub fn mask(text: &str) -> (String, usize) {
    let (mut out, mut count) = (text.to_owned(), 0);
    for (name, form) in FORMS.iter() {
        if !form.is_match(&out) {
            continue;
        }
        let masked = form.replace_all(&out, |found: &Captures<'_>| {
            count += 1;
            let behind = if name == &"password" { "@" } else { "" };
            format!("{}‹{name} masked›{behind}", found.get(1).map_or("", |m| m.as_str()))
        });
        out = masked.into_owned();
    }
    (out, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_the_form_of_a_secret_is_masked_and_the_rest_stays() {
        assert_eq!(FORMS.len(), 15, "every form compiles");
        for (text, want) in [
            ("key sk-ant-api03-AbCdEfGhIjKlMnOpQrSt end", "key ‹Anthropic key masked› end"),
            ("ghp_0123456789abcdefghijABCDEFGHIJ012345", "‹GitHub token masked›"),
            ("AKIAIOSFODNN7EXAMPLE", "‹AWS key masked›"),
            ("Authorization: Bearer abcdef0123456789abcdef", "Authorization: Bearer ‹bearer token masked›"),
            ("postgres://me:hunter22@db/x", "postgres://me:‹password masked›@db/x"),
            ("export DB_PASSWORD=correct-horse\nnext", "export DB_PASSWORD=‹value masked›\nnext"),
            ("{\"api_key\": \"0123456789abcdef\"}", "{\"api_key\": \"‹value masked›\"}"),
            (
                "a\n-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nb",
                "a\n‹private key masked›\nb",
            ),
        ] {
            assert_eq!(mask(text), (want.to_owned(), 1), "{text}");
        }
        for plain in [
            "the password is asked for at the prompt",
            "fn api_key(&self) -> &str",
            "https://example.com:8080/path@x",
            "task-force sk-1 secret: no",
            "let token = self.next_token();",
        ] {
            assert_eq!(mask(plain), (plain.to_owned(), 0), "{plain}");
        }
    }
}
