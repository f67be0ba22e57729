//! Describes rules in words for the person who is asked: the calls that a rule would match, and the rule that is nearest.
//!
//! Judges nothing: the descriptions follow from the rule's text alone.

use crate::rule::Rule;
use becket_types::Access;
use std::path::Path;

/// Says in words which calls a rule matches, such as "every edit of src/". For text that is no rule: "it is no rule".
pub fn covers(rule: &str) -> String {
    let Ok(parsed) = Rule::parse(rule) else { return "it is no rule".to_owned() };
    let Some(inner) = inner(rule) else { return format!("every use of {rule}") };
    match parsed.tool() {
        "bash" | "shell" => command(inner),
        "read" | "grep" | "glob" | "ls" => format!("reading {}", place(inner)),
        "edit" | "write" | "multiedit" | "applypatch" => format!("every edit of {}", place(inner)),
        "webfetch" => match inner.strip_prefix("domain:") {
            Some(domain) => format!("every page of {domain}"),
            None => format!("the page {inner}"),
        },
        tool => format!("{tool} with {inner}"),
    }
}

/// Advice for a run without a user to ask: the flag that would add the rule, quoted for a shell. Empty for a rule that is too
/// long to read.
pub fn how_to_allow(rule: &str) -> String {
    if rule.len() > 300 || rule.contains('\n') {
        return String::new();
    }
    format!("; to allow it: --allowedTools '{}'", rule.replace('\'', "'\\''"))
}

/// The text between the parentheses of a rule.
fn inner(rule: &str) -> Option<&str> {
    rule.trim().split_once('(')?.1.strip_suffix(')').map(str::trim)
}

fn command(pattern: &str) -> String {
    let wild = |text: &str| text.replace("\\*", "").contains('*');
    let start = pattern.strip_suffix(" *").or_else(|| pattern.strip_suffix(":*"));
    match start {
        Some(start) if !wild(start) => format!("`{start}` alone and with any arguments"),
        _ if wild(pattern) => format!("every command of the form `{pattern}`"),
        _ => "exactly this command".to_owned(),
    }
}

fn place(pattern: &str) -> String {
    let path = pattern.strip_prefix('/').filter(|p| p.starts_with('/')).unwrap_or(pattern);
    if path.replace("[*]", "").contains(['*', '?']) { format!("files like {path}") } else { path.to_owned() }
}

/// The rule among `rules` that is most similar to the call without matching it.
pub(crate) fn nearest<'a>(
    rules: impl Iterator<Item = &'a Rule>,
    tool: &str,
    access: &Access,
) -> Option<String> {
    let near = |rule: &&Rule| rule.covers_tool(tool) && inner(&rule.to_string()).is_some();
    rules
        .filter(near)
        .map(|rule| (closeness(&rule.to_string(), access), rule))
        .filter(|(closeness, _)| *closeness > 0)
        .max_by_key(|(closeness, _)| *closeness)
        .map(|(_, rule)| rule.to_string())
}

/// Length of the common prefix of rule and call: in words of a command, or in path components after the first.
fn closeness(rule: &str, access: &Access) -> usize {
    let Some(inner) = inner(rule) else { return 0 };
    if let Some(command) = &access.command {
        let words = inner.split_whitespace().filter(|word| !word.contains('*'));
        return words.zip(command.split_whitespace()).take_while(|(a, b)| a == b).count();
    }
    let parts = |path: &Path| path.components().map(|c| c.as_os_str().to_owned()).collect::<Vec<_>>();
    let rule = parts(Path::new(&format!("/{}", inner.trim_start_matches('/'))));
    let same = |path: &std::path::PathBuf| {
        parts(path).iter().zip(&rule).skip(1).take_while(|(a, b)| a == b).count().saturating_sub(1)
    };
    access.paths.iter().map(same).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Guard, GuardSettings, Rules};

    #[test]
    fn what_rules_match_in_words() {
        for (rule, words) in [
            ("Bash(cargo test *)", "`cargo test` alone and with any arguments"),
            ("Bash(git log:*)", "`git log` alone and with any arguments"),
            ("Bash(rm -r target)", "exactly this command"),
            ("Bash(git * main)", "every command of the form `git * main`"),
            ("Edit(//home/u/p/a.rs)", "every edit of /home/u/p/a.rs"),
            ("Read(//home/u/p/**)", "reading files like /home/u/p/**"),
            ("WebFetch(domain:docs.rs)", "every page of docs.rs"),
            ("Bash", "every use of Bash"),
        ] {
            assert_eq!(covers(rule), words, "{rule}");
        }
    }

    #[test]
    fn the_nearest_rule_shares_the_most() {
        let text = |rules: &[&str]| rules.iter().map(|r| (*r).to_owned()).collect::<Vec<_>>();
        let allow = text(&["Bash(git log *)", "Bash(git push origin dev)", "Edit(//home/u/p/src/**)"]);
        let rules = Rules::parse(&allow, &[], &[]).unwrap();
        let guard = Guard::new(GuardSettings { rules, ..GuardSettings::default() });
        let near = |access: &Access, tool| guard.nearest(tool, access);
        let push = Access::execute("git push origin main");
        assert_eq!(near(&push, "bash").as_deref(), Some("Bash(git push origin dev)"));
        assert_eq!(near(&Access::execute("cargo test"), "bash"), None);
        let write = Access::write("/home/u/p/Cargo.toml".into());
        assert_eq!(near(&write, "edit").as_deref(), Some("Edit(//home/u/p/src/**)"));
        assert_eq!(near(&Access::write("/etc/hosts".into()), "edit"), None);
    }
}
