//! A command as text: the forms in which rules may know it, the parts of a word that may name a file, and the rule that
//! becket offers for it. Judges nothing.

use crate::rule::exact_rule;
use crate::shell::escape::escape;
use becket_shell_syntax::{Word, base_name};

/// The form of a tool's name that people write in rules: `WebFetch` for `web_fetch`.
pub(crate) fn title(tool: &str) -> String {
    if tool.contains("__") {
        return tool.to_owned();
    }
    let word = |part: &str| {
        let mut chars = part.chars();
        chars.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + chars.as_str())
    };
    tool.split('_').map(word).collect()
}

/// The forms in which a rule may know the command. The first two are as written and in canonical quoting. The others are for deny
/// and ask rules only: without quotes, without the program's folder, and with `prefix` (what is set before the command).
pub(crate) fn variants(words: &[Word], prefix: &str) -> Vec<String> {
    let canonical: Vec<String> = words.iter().map(canonical).collect();
    let plain: Vec<&str> = words.iter().map(|w| w.text.as_str()).collect();
    let mut out = vec![raw(words), canonical.join(" "), plain.join(" ")];
    if let Some((first, rest)) = plain.split_first()
        && first.contains('/')
    {
        out.push([&[base_name(first)], rest].concat().join(" "));
    }
    if !prefix.is_empty() {
        out.push(format!("{prefix} {}", out[0]));
    }
    out
}

fn canonical(word: &Word) -> String {
    if !word.is_literal() {
        return word.raw.clone();
    }
    let needs = word.text.is_empty()
        || word.text.contains(|c: char| c.is_whitespace() || "'\"$`;|&<>()\\".contains(c));
    if needs { format!("'{}'", word.text.replace('\'', "'\\''")) } else { word.text.clone() }
}

pub(crate) fn raw(words: &[Word]) -> String {
    words.iter().map(|w| w.raw.as_str()).collect::<Vec<_>>().join(" ")
}

/// The parts of a word that may name a file: the word itself (for a letter option, its value), and what follows each `=`, `:` or
/// `@`.
pub(crate) fn candidates(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    match text.strip_prefix('-').map(|rest| rest.split_at_checked(1)) {
        None => out.push(text),
        Some(Some((letter, value))) if letter != "-" && !value.is_empty() => out.push(value),
        Some(_) => {}
    }
    let ends = text.match_indices(['=', ':', '@']).map(|(at, mark)| &text[at + mark.len()..]);
    out.extend(ends.filter(|value| !value.is_empty()).take(MOST));
    out
}

/// Maximum number of parts of one word that are judged.
const MOST: usize = 64;

/// The parts of a word like [`candidates`], and those of a value with a syntax of its own, such as JSON: `/x` in `{"a":["/x"]}`.
pub(crate) fn inner_candidates(text: &str) -> Vec<&str> {
    let marks = ['"', '\'', '`', ',', ';', '{', '}', '[', ']', '(', ')', ' ', '\t', '\n'];
    let mut out = candidates(text);
    let parts = text.split(marks).filter(|part| part.len() < text.len() && !part.is_empty());
    out.extend(parts.take(MOST).flat_map(candidates));
    out
}

/// Programs whose first argument says what they do.
const SUBCOMMANDS: &[&str] = &[
    "git",
    "cargo",
    "npm",
    "pnpm",
    "yarn",
    "bun",
    "go",
    "docker",
    "kubectl",
    "make",
    "pip",
    "pip3",
    "uv",
    "poetry",
    "gh",
    "dotnet",
    "gradle",
    "mvn",
    "bundle",
    "rails",
    "terraform",
    "deno",
    "just",
    "rustup",
    "brew",
    "apt",
];

/// The command in few words: its program, with its subcommand if it has one, such as `git push`.
pub(crate) fn program(words: &[Word]) -> String {
    let name = words.first().map_or("", |word| base_name(&word.text));
    let sub = words.get(1).filter(|word| SUBCOMMANDS.contains(&name) && word.is_literal());
    match sub.filter(|sub| !sub.text.starts_with('-') && !sub.text.contains(char::is_whitespace)) {
        Some(sub) => format!("{name} {}", becket_types::cut_end(&sub.text, 40)),
        None => becket_types::cut_end(name, 40).to_owned(),
    }
}

/// The rule that becket offers for the command: it allows this command and similar ones.
pub(crate) fn suggestion(words: &[Word]) -> String {
    const RISKY: &[&str] = &[
        "rm", "dd", "mkfs", "sudo", "bash", "sh", "zsh", "python", "python3", "node", "perl", "ruby", "eval",
        "chmod", "chown", "kill", "pkill", "killall", "curl", "wget", "ssh", "scp", "env", "xargs", "find",
        "tee",
    ];
    let name = words[0].text.as_str();
    let whole = exact_rule(&raw(words));
    let plain = !name.contains(|c: char| c.is_whitespace() || "()*\\\"'".contains(c));
    if !plain || RISKY.contains(&base_name(name)) || escape(words).is_some() {
        return whole;
    }
    if !SUBCOMMANDS.contains(&name) {
        return if words.len() == 1 { whole } else { format!("Bash({name} *)") };
    }
    match &words[1..] {
        [first, second, ..]
            if first.text == "run" && second.is_literal() && !second.text.starts_with('-') =>
        {
            format!("Bash({name} run {} *)", second.text)
        }
        [first, ..]
            if first.is_literal()
                && !first.text.starts_with('-')
                && !first.text.contains([' ', '*', '\\']) =>
        {
            format!("Bash({name} {} *)", first.text)
        }
        _ => whole,
    }
}
