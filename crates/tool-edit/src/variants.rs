//! Corrected readings of an edit whose text has something extra: line numbers of a listing, a Markdown fence,
//! or escapes of a surrounding format.
//!
//! Pure. Each variant is `old` and `new` with the same thing removed. The caller checks if one of them is in
//! the file. Nothing is removed from `new` that was not removed from `old`.

use crate::matched::Tier;

/// A corrected reading of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    pub tier: Tier,
    pub old: String,
    pub new: String,
}

pub(crate) fn variants(old: &str, new: &str) -> Vec<Variant> {
    let mut out = Vec::new();
    if let Some(bare) = without_numbers(old)
        && let Some(new) = numbers_out_of_new(new)
    {
        out.push(Variant { tier: Tier::LineNumbers, old: bare, new });
    }
    if let Some(bare) = without_fence(old) {
        let new = without_fence(new).unwrap_or(new).to_owned();
        out.push(Variant { tier: Tier::Fence, old: bare.to_owned(), new });
    }
    if ENTITIES.iter().any(|(entity, _)| old.contains(entity)) {
        out.push(Variant { tier: Tier::Escapes, old: without_entities(old), new: without_entities(new) });
    }
    let present: Vec<(&str, &str)> =
        [("\\\"", "\""), ("\\'", "'"), ("\\`", "`"), ("\\n", "\n"), ("\\t", "\t"), ("\\\\", "\\")]
            .into_iter()
            .filter(|(escape, _)| old.contains(escape))
            .collect();
    let mut sets: Vec<Vec<(&str, &str)>> = present.iter().map(|one| vec![*one]).collect();
    if present.len() > 1 {
        sets.push(present);
    }
    for set in sets {
        // Only the kinds of escape that are in `old` are removed from `new`. Others may be intended.
        out.push(Variant { tier: Tier::Escapes, old: unescape(old, &set), new: unescape(new, &set) });
    }
    out
}

fn unescape(text: &str, set: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some((escape, plain)) = set.iter().find(|(escape, _)| rest.starts_with(escape)) {
            out.push_str(plain);
            rest = &rest[escape.len()..];
        } else {
            // An escape that stays is skipped as a pair, so its second character does not start another one.
            let pair = rest.char_indices().nth(2).map_or(rest.len(), |(i, _)| i);
            out.push_str(&rest[..pair]);
            rest = &rest[pair..];
        }
    }
    out + rest
}

/// Splits a line into the number that listings add in front and the rest.
fn numbered(line: &str) -> Option<(u64, &str)> {
    let digits = line.trim_start();
    let digits = digits.strip_prefix('L').unwrap_or(digits);
    let end = digits.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0)?;
    let number = digits[..end].parse().ok()?;
    let rest = &digits[end..];
    let text =
        ["\t", "→", " | ", "| ", "|", " │ ", "│", ": ", ":"].iter().find_map(|sep| rest.strip_prefix(sep));
    // A listing may omit the separator on an empty line.
    text.or_else(|| rest.trim().is_empty().then_some("")).map(|text| (number, text))
}

/// Removes the line numbers, if every line that is not blank has one and they increase by one.
fn without_numbers(text: &str) -> Option<String> {
    let mut out = Vec::new();
    let mut last: Option<u64> = None;
    let mut any = false;
    for line in text.split('\n') {
        if line.trim().is_empty() {
            out.push(line);
            continue;
        }
        let (number, rest) = numbered(line)?;
        if last.is_some_and(|last| number != last + 1) {
            return None;
        }
        any |= !rest.trim().is_empty();
        last = Some(number);
        out.push(rest);
    }
    any.then(|| out.join("\n"))
}

/// Removes the numbers from `new`, if all its lines have one or none has. A mixture is ambiguous.
fn numbers_out_of_new(new: &str) -> Option<String> {
    let (mut with, mut without) = (0, 0);
    for line in new.split('\n').filter(|line| !line.trim().is_empty()) {
        if numbered(line).is_some() { with += 1 } else { without += 1 }
    }
    match (with, without) {
        (0, _) => Some(new.to_owned()),
        (_, 0) => {
            let strip = |line| numbered(line).map_or(line, |(_, rest)| rest);
            Some(new.split('\n').map(strip).collect::<Vec<_>>().join("\n"))
        }
        _ => None,
    }
}

/// True if a text looks like lines copied from a numbered listing.
pub(crate) fn looks_numbered(text: &str) -> bool {
    let mut lines = text.split('\n').filter(|line| !line.trim().is_empty());
    let arrow = |line: &str| {
        let rest = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
        rest.len() < line.trim_start().len() && (rest.starts_with('→') || rest.starts_with('\t'))
    };
    lines.next().is_some_and(arrow)
}

/// Returns the content of a Markdown fence, if the whole text is one.
pub(crate) fn without_fence(text: &str) -> Option<&str> {
    let body = text.trim_matches('\n');
    let rest = body.strip_prefix("```")?;
    let (info, inside) = rest.split_once('\n')?;
    let inside = inside.trim_end().strip_suffix("```")?;
    let alone = inside.is_empty() || inside.ends_with('\n');
    let one = !inside.lines().any(|line| line.trim_start().starts_with("```"));
    (alone && one && !info.contains('`')).then(|| inside.strip_suffix('\n').unwrap_or(inside))
}

const ENTITIES: [(&str, &str); 9] = [
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", "\""),
    ("&#34;", "\""),
    ("&#39;", "'"),
    ("&#x27;", "'"),
    ("&apos;", "'"),
    ("&nbsp;", "\u{a0}"),
    ("&amp;", "&"),
];

fn without_entities(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        match ENTITIES.iter().find(|(entity, _)| rest.starts_with(entity)) {
            Some((entity, plain)) => {
                out.push_str(plain);
                rest = &rest[entity.len()..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out + rest
}

/// True for a line that is a placeholder for omitted lines: `// ... existing code ...`, `# rest of the file
/// unchanged`, `...`.
pub(crate) fn is_placeholder(line: &str) -> bool {
    let line = line.trim();
    let lower = line.to_lowercase();
    let dots = |s: &str| s.contains("...") || s.contains('…');
    if matches!(
        line,
        "..." | "…" | "// ..." | "# ..." | "/* ... */" | "// …" | "# …" | "<!-- ... -->" | "-- ..."
    ) {
        return true;
    }
    let leader =
        ["//", "#", "/*", "<!--", "--", ";", "%", "{/*", "\"\"\"", "..."].iter().any(|l| line.starts_with(l));
    let words = [
        "existing code",
        "existing",
        "rest of",
        "unchanged",
        "remaining",
        "previous code",
        "other code",
        "same as before",
        "code omitted",
        "omitted",
        "keep the",
        "your code",
        "no changes",
    ];
    leader && dots(&lower) && words.iter().any(|word| lower.contains(word)) || speaks_of_the_rest(&lower)
}

/// True for a comment, or words in brackets, that only say that other lines stay: `# rest of the code remains
/// the same`, `[existing code]`, `// ... 12 more lines`. Expects lower case.
fn speaks_of_the_rest(line: &str) -> bool {
    const COMMENTS: [&str; 8] = ["//", "#", "/*", "<!--", "--", ";", "%", "{/*"];
    const BRACKETS: [&str; 4] = ["[", "<", "(", "... "];
    const WORDS: &str = " the of and in this your its code function functions file files method methods class classes body \
        implementation component components module script logic content contents imports fields props properties tests test \
        cases items entries lines line rules styles handlers routes existing unchanged rest remainder remaining remain remains \
        stay stays is are as same before above below earlier here previous other original omitted for brevity clarity keep \
        leave snip snipped etc more not shown no changes continues follows goes all untouched intact ";
    const SAYS: [&str; 13] = [
        "unchanged",
        "rest of",
        "remains the same",
        "remain the same",
        "stays the same",
        "stay the same",
        "is the same",
        "same as before",
        "existing code",
        "existing implementation",
        "omitted",
        "snip",
        "not shown",
    ];
    const WITH_DOTS: [&str; 7] = ["more", "etc", "existing", "previous", "other", "remaining", "rest"];
    let comment = COMMENTS.iter().any(|c| line.starts_with(c)) && !line.starts_with("##");
    if !(comment || BRACKETS.iter().any(|b| line.starts_with(b))) {
        return false;
    }
    if !line.chars().all(|c| c.is_alphanumeric() || " .…,:!-*/#[]<>(){}%;'".contains(c)) {
        return false;
    }
    let dots = line.contains("...") || line.contains('…');
    // Dots before a word are code, for example a spread operator.
    let spread = line.split("...").skip(1).any(|rest| rest.starts_with(char::is_alphabetic));
    let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).collect();
    let known = |word: &&str| {
        WORDS.contains(&format!(" {word} ")) || dots && word.chars().all(|c| c.is_ascii_digit())
    };
    let said = words.join(" ");
    let says =
        |phrases: &[&str]| phrases.iter().any(|phrase| format!(" {said} ").contains(&format!(" {phrase} ")));
    words.iter().all(known)
        && (comment || words.len() > 1 && !spread)
        && (says(&SAYS) || dots && says(&WITH_DOTS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_table() {
        for (text, want) in [
            ("12\ta\n13\tb", Some("a\nb")),
            ("  9→a\n 10→\n 11→  b", Some("a\n\n  b")),
            ("9 | a\n10 | b", Some("a\nb")),
            ("L1: a\nL2: b", Some("a\nb")),
            ("1: a\n3: b", None),
            ("a\n2\tb", None),
            ("1\n2", None),
        ] {
            assert_eq!(without_numbers(text).as_deref(), want, "{text:?}");
        }
        assert_eq!(numbers_out_of_new("1\ta\nb"), None);
        assert_eq!(numbers_out_of_new("7\ta\n7\tb").as_deref(), Some("a\nb"));
        assert!(looks_numbered("  12→x\ny") && looks_numbered("3\tx") && !looks_numbered("12 apples"));
    }

    #[test]
    fn fences_and_placeholders() {
        for (text, want) in [
            ("```rust\nfn a() {}\n```", Some("fn a() {}")),
            ("```\na\nb\n```\n", Some("a\nb")),
            ("```\na\n```\n```\nb\n```", None),
            ("a\n```", None),
        ] {
            assert_eq!(without_fence(text), want, "{text:?}");
        }
        for line in [
            "// ... existing code ...",
            "  # ... rest of the function unchanged ...",
            "...",
            "<!-- ... existing ... -->",
            "/* … remaining methods … */",
            "# Rest of the code remains the same",
            "// (unchanged)",
            "[existing code]",
            "<!-- the rest of the file is unchanged -->",
            "// ... 12 more lines ...",
            "-- snip --",
            "# etc...",
            "{/* existing code here */}",
        ] {
            assert!(is_placeholder(line), "{line}");
        }
        for line in [
            "// existing code stays valid",
            "x = [...rest];",
            "# TODO ...",
            "fn f(..) {}",
            "..rest",
            "# The rest of the sum is in z.",
            "# Keep the existing value of y: it is unchanged by callers.",
            "// Other methods",
            "# remaining: 3",
            "## Unchanged",
            "[unchanged]",
            "<rest>",
            "(rest)",
            "// the rest",
            "...rest,",
            "[...rest]",
            "{...other}",
            "...props, // rest",
            "(...existing, ...rest)",
            "# same",
            "-- more",
        ] {
            assert!(!is_placeholder(line), "{line}");
        }
    }
}
