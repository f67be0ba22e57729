//! The forms of secrets: their names, their patterns, and the substrings that a text must contain before the patterns are
//! tried. Searches nothing.

use regex::Regex;
use std::sync::{LazyLock, OnceLock};

/// A form of secrets. Group 1 of its pattern is text that stays before the secret and may be empty; group 2 is the secret.
pub(super) struct Form {
    pub(super) name: &'static str,
    source: &'static str,
    compiled: OnceLock<Option<Regex>>,
    /// True if no other text has this form, so that it is masked for the model too.
    pub(super) published: bool,
    /// True if the value must look random.
    pub(super) random: bool,
}

impl Form {
    /// Returns the pattern, compiled at its first use: all of them take milliseconds, and most runs need none.
    pub(super) fn pattern(&self) -> Option<&Regex> {
        self.compiled.get_or_init(|| Regex::new(self.source).ok()).as_ref()
    }
}

/// `(name, pattern)` of forms that no other text has. If no word ends with the first letters of a form, it is found anywhere. Any other
/// form must follow a word border or an escape: in `\nsk-…` of JSON and in `%3Dsk-…` of an address, a token begins at `sk-`.
pub(super) const PUBLISHED: &[(&str, &str)] = &[
    ("age key", r"()(AGE-SECRET-KEY-1[0-9A-Z]{58})"),
    ("Anthropic key", r"()(sk-ant-[A-Za-z0-9_-]{16,})"),
    (
        "API key",
        r"((?:\\+[nrtbfv]|\\+u[0-9a-fA-F]{4}|%[0-9a-fA-F]{2}|(?-u:\b)))((?:sk|rk|pk)[-_](?:live|test|proj|or|svcacct)[-_][A-Za-z0-9_-]{16,})",
    ),
    ("API key", r"((?:\\+[nrtbfv]|\\+u[0-9a-fA-F]{4}|%[0-9a-fA-F]{2}|(?-u:\b)))(sk-[A-Za-z0-9]{20,})"),
    ("GitHub token", r"()((?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,}))"),
    ("GitLab token", r"()(gl(?:pat|dt|rt)-[A-Za-z0-9_-]{20,})"),
    ("AWS key", r"()((?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b)"),
    ("Google key", r"()(AIza[A-Za-z0-9_-]{35}\b)"),
    ("Google token", r"()((?:ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{28}))"),
    ("Slack token", r"()(xox[abeprs]-[A-Za-z0-9-]{10,})"),
    ("Slack address", r"(https://hooks\.slack\.com/services/)([A-Z0-9]+/[A-Z0-9]+/[A-Za-z0-9]{20,})"),
    ("npm token", r"()(npm_[A-Za-z0-9]{36}\b)"),
    ("PyPI token", r"()(pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{40,})"),
    (
        "Hugging Face token",
        r"((?:\\+[nrtbfv]|\\+u[0-9a-fA-F]{4}|%[0-9a-fA-F]{2}|(?-u:\b)))(hf_[A-Za-z0-9]{30,}\b)",
    ),
    ("Docker token", r"()(dckr_pat_[A-Za-z0-9_-]{20,})"),
    ("DigitalOcean token", r"()(do[opr]_v1_[a-f0-9]{64}\b)"),
    (
        "SendGrid key",
        r"((?:\\+[nrtbfv]|\\+u[0-9a-fA-F]{4}|%[0-9a-fA-F]{2}|(?-u:\b)))(SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}\b)",
    ),
    (
        "Vault token",
        r"((?:\\+[nrtbfv]|\\+u[0-9a-fA-F]{4}|%[0-9a-fA-F]{2}|(?-u:\b)))(hv[sb]\.[A-Za-z0-9_-]{24,})",
    ),
    ("Databricks token", r"()(dapi[a-f0-9]{32}\b)"),
    ("Shopify token", r"()(shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b)"),
    ("Linear key", r"()(lin_api_[A-Za-z0-9]{40}\b)"),
    ("Groq key", r"((?:\\+[nrtbfv]|\\+u[0-9a-fA-F]{4}|%[0-9a-fA-F]{2}|(?-u:\b)))(gsk_[A-Za-z0-9]{40,}\b)"),
    ("xAI key", r"()(xai-[A-Za-z0-9]{60,}\b)"),
    (
        "Replicate token",
        r"((?:\\+[nrtbfv]|\\+u[0-9a-fA-F]{4}|%[0-9a-fA-F]{2}|(?-u:\b)))(r8_[A-Za-z0-9]{37}\b)",
    ),
    ("Azure key", r"(AccountKey=)([A-Za-z0-9+/]{80,}={0,2})"),
];

/// Each [`PUBLISHED`] form contains one of these substrings. Text without any of them is not examined
/// further.
pub(super) const MARKS: &[&str] = &[
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

/// For each byte, the marks (one bit each) that have it in their first, second and third byte: most positions of a text
/// are ruled out by three look-ups.
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
pub(super) fn has_mark(text: &str) -> bool {
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

/// `(name, pattern, must look random)` of forms that other text may have too. Each pattern begins with a fixed word, and not with a pattern
/// for the start of a name such as `MY_APP_` in `MY_APP_TOKEN`. So the regex engine skips text without that word quickly.
pub(super) const LIKELY: &[(&str, &str, bool)] = &[
    ("JSON web token", r"()(eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})", false),
    (
        "bearer token",
        r"(?i)((?:\\+[nrtbfv]|\\+u[0-9a-fA-F]{4}|%[0-9a-fA-F]{2}|(?-u:\b))bearer\s+)([A-Za-z0-9._~+/-]{16,}=*)",
        false,
    ),
    (
        "basic credentials",
        r"(?i)((?:\\+[nrtbfv]|\\+u[0-9a-fA-F]{4}|%[0-9a-fA-F]{2}|(?-u:\b))authorization:\s*basic\s+)([A-Za-z0-9+/]{8,}=*)",
        false,
    ),
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

pub(super) static FORMS: LazyLock<Vec<Form>> = LazyLock::new(|| {
    let published = PUBLISHED.iter().map(|(name, form)| (*name, *form, true, false));
    let likely = LIKELY.iter().map(|(name, form, random)| (*name, *form, false, *random));
    let made = |(name, source, published, random)| Form {
        name,
        source,
        compiled: OnceLock::new(),
        published,
        random,
    };
    published.chain(likely).map(made).collect()
});

/// False if no form of [`LIKELY`] can be in a text: each of them has one of these words or signs.
pub(super) fn may_be_likely(text: &str) -> bool {
    let has_word = |word: &[u8]| text.as_bytes().windows(word.len()).any(|at| at.eq_ignore_ascii_case(word));
    text.bytes().any(|b| matches!(b, b':' | b'=')) || text.contains("eyJ") || has_word(b"bearer")
}

/// True if a text has letters and digits, and an entropy of at least [`RANDOM`], which names do not reach.
pub(super) fn looks_random(text: &str) -> bool {
    let has = |test: fn(&u8) -> bool| text.bytes().any(|b| test(&b));
    has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic) && entropy(text) >= RANDOM
}

/// The entropy of a text in bits per character, by the counts of its own characters.
pub(super) fn entropy(text: &str) -> f64 {
    let mut counts = [0u32; 256];
    for byte in text.bytes() {
        counts[usize::from(byte)] += 1;
    }
    let all = text.len() as f64;
    let shares = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / all);
    -shares.map(|share| share * share.log2()).sum::<f64>()
}
