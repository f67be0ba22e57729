//! The findings about a command before the permission mode is applied, as a whole and part by part.
//!
//! Plain data: [`crate::command`] fills it in, the verdict and its explanation are derived from it. Judges nothing.

use becket_types::Verb;

/// Findings about a command, before the permission mode is applied.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub deny: Option<(String, String)>,
    pub ask_rule: Option<(String, String)>,
    /// Questions about parts that no rule allows, with reasons. At most 16.
    pub asks: Vec<Ask>,
    /// True if some part could not be read, so that a deny rule might match it.
    pub uncertain: bool,
    /// True if every part only reads.
    pub read_only: bool,
    /// True if git runs in some part because it only reads there. It must then run with [`Self::variables`].
    pub free_git: bool,
    pub coverage: Coverage,
    /// A rule for all commands of the same kind (`Bash(ls *)`) as the first part that no rule covers.
    pub kind_rule: Option<String>,
    /// The reasons why parts may run.
    pub why: Vec<String>,
    /// The parts one by one, if they are recorded.
    pub parts: Vec<Part>,
    /// The allow rule without wildcards that names the whole command.
    pub named: Option<String>,
    /// Set if deny rules are about files, and the command may open files that its text does not show.
    pub unseen: Option<Unseen>,
}

/// The reason why deny rules for files cannot be checked on a command by its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unseen {
    pub reason: String,
    /// One of the rules.
    pub rule: String,
    /// True if a word is not known. False if the program may open a file that no word names, such as a search of a folder.
    pub by_word: bool,
}

impl Unseen {
    /// Adds the reason to another one. One about a word counts more.
    pub(crate) fn join(self, other: &mut Option<Self>) {
        if other.as_ref().is_none_or(|other| self.by_word && !other.by_word) {
            *other = Some(self);
        }
    }
}

/// The extent to which the user's allow rules cover a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Coverage {
    /// True if some part runs because a rule allows it.
    pub by_rule: bool,
    /// True if some part only reads, and a rule covers it as well.
    pub reading: bool,
    /// True if git only reads in some part, and a rule would allow that git as well.
    pub reading_git: bool,
    /// True if some part runs only because it reads, and no rule covers it.
    pub gap: bool,
    /// True if a rule allows the command as a whole.
    pub whole: bool,
}

impl Coverage {
    /// True if rules allow every part.
    fn is_complete(self) -> bool {
        self.whole || !self.gap && (self.by_rule || self.reading || self.reading_git)
    }
}

impl Findings {
    /// True if the user's rules allow every part, so that the verdict does not depend on the judgement of what a command does.
    pub(crate) fn is_ruled(&self) -> bool {
        self.coverage.is_complete()
    }

    /// Environment variables that keep git from obeying the repository. Empty unless the command runs because git only reads.
    pub(crate) fn variables(&self) -> &'static [(&'static str, &'static str)] {
        if self.free_git && self.asks.is_empty() && !self.coverage.by_rule { crate::git::PINNED } else { &[] }
    }
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Ask {
    pub reason: String,
    /// The program, if the only reason is that no rule allows it.
    pub unruled: Option<String>,
    /// The rule that would allow this part.
    pub rule: Option<String>,
    /// True if the reason is that the part could not be read, not its effect.
    pub doubt: bool,
    /// True if the reason is a place outside the workspace, a secret, or a file that other programs obey. Such a part is asked
    /// about even if the command would be confined to the workspace.
    pub place: bool,
}

/// One part of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The text as written; `> file` for a redirection.
    pub text: String,
    pub verb: Verb,
    /// The rule that decided about this part, or an allow rule that matches it.
    pub rule: Option<String>,
    pub reason: String,
}

/// Findings about one part while it is judged.
#[derive(Debug, Default)]
pub(crate) struct PartNotes {
    pub asks: Vec<String>,
    pub denied: Option<String>,
    /// Reason and rule, if an ask rule matches the part.
    pub asked_by: Option<(String, String)>,
    /// The allow rule that matches the part.
    pub covered: Option<String>,
}

/// Maximum number of reasons that a question names.
const REASONS: usize = 3;

/// Characters of a reason about a part of a command that are more than one row of a screen.
const LONG: usize = 64;

/// Maximum number of programs that a reason names.
const PROGRAMS: usize = 5;

/// Returns the reason of a question about a command. The question shows the command, so a single reason does not repeat it. Parts that
/// only lack a rule share one reason. If there are many reasons, only the first are listed.
pub(crate) fn reason(shown: &str, asks: &[Ask]) -> String {
    let mut programs: Vec<&str> = asks.iter().filter_map(|ask| ask.unruled.as_deref()).collect();
    let unruled = programs.len();
    let mut seen: Vec<&str> = Vec::new();
    programs.retain(|program| {
        let new = !seen.contains(program);
        seen.push(program);
        new
    });
    let mut reasons: Vec<String> = Vec::new();
    let mut listed = false;
    for ask in asks {
        let reason = match &ask.unruled {
            Some(_) if unruled > 1 && std::mem::replace(&mut listed, true) => continue,
            Some(_) if unruled > 1 => no_rule_allows(&programs),
            // A long part of a longer command would be repeated.
            Some(_) if ask.reason.chars().count() > LONG && !ask.reason.contains(&format!("`{shown}`")) => {
                no_rule_allows(&programs)
            }
            _ => ask.reason.clone(),
        };
        if reasons.last() != Some(&reason) {
            reasons.push(reason);
        }
    }
    if reasons.is_empty() {
        reasons.push("nothing in it is known to be harmless".to_owned());
    }
    let more = reasons.len().saturating_sub(REASONS);
    reasons.truncate(REASONS);
    let more =
        if more > 0 { format!("; and {more} more of its parts are not allowed") } else { String::new() };
    let of_many = if asks.len() > 1 { format!("`{shown}`: ") } else { String::new() };
    format!("{of_many}{}{more}", reasons.join("; "))
}

/// Returns the reason for parts that only lack a rule.
fn no_rule_allows(programs: &[&str]) -> String {
    let named: Vec<String> = programs.iter().take(PROGRAMS).map(|program| format!("`{program}`")).collect();
    let more = match programs.len().saturating_sub(PROGRAMS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("no rule allows {}{more}", named.join(", "))
}

impl PartNotes {
    pub(crate) fn is_empty(&self) -> bool {
        self.asks.is_empty() && self.denied.is_none() && self.asked_by.is_none() && self.covered.is_none()
    }

    pub(crate) fn into_part(self, text: String, why: &[String]) -> Part {
        if let Some(rule) = self.denied {
            return Part { text, verb: Verb::Deny, reason: format!("denied by {rule}"), rule: Some(rule) };
        }
        if let Some((reason, rule)) = self.asked_by {
            return Part { text, verb: Verb::Ask, reason, rule: Some(rule) };
        }
        if !self.asks.is_empty() {
            return Part { text, verb: Verb::Ask, reason: self.asks.join("; "), rule: None };
        }
        let reason = why.last().cloned().unwrap_or_else(|| "no part of it needs permission".to_owned());
        Part { text, verb: Verb::Allow, reason, rule: self.covered }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_covered_if_no_part_runs_without_a_rule() {
        let none = Coverage::default();
        for (coverage, want) in [
            (none, false),
            (Coverage { by_rule: true, ..none }, true),
            (Coverage { reading: true, ..none }, true),
            (Coverage { reading_git: true, ..none }, true),
            (Coverage { by_rule: true, gap: true, ..none }, false),
            (Coverage { gap: true, whole: true, ..none }, true),
        ] {
            assert_eq!(coverage.is_complete(), want, "{coverage:?}");
        }
    }

    #[test]
    fn parts_that_only_lack_a_rule_share_one_reason() {
        let unruled = |program: &str| Ask {
            reason: format!("no rule allows `{program} x` (why)"),
            unruled: Some(program.to_owned()),
            ..Ask::default()
        };
        let long =
            || Ask { reason: format!("no rule allows `make {}` (why)", "x".repeat(60)), ..unruled("make") };
        assert_eq!(reason("make x && echo a", &[long()]), "no rule allows `make`");
        let whole = format!("make {}", "x".repeat(60));
        assert_eq!(reason(&whole, &[long()]), format!("no rule allows `{whole}` (why)"));
        let other = || Ask { reason: "`sudo` runs with other rights".to_owned(), ..Ask::default() };
        for (asks, want) in [
            (vec![unruled("make")], "no rule allows `make x` (why)"),
            (vec![unruled("git add"), unruled("git push")], "`C`: no rule allows `git add`, `git push`"),
            (vec![unruled("make"), unruled("make")], "`C`: no rule allows `make`"),
            (
                vec![unruled("make"), other(), unruled("rm")],
                "`C`: no rule allows `make`, `rm`; `sudo` runs with other rights",
            ),
            (vec![other(), unruled("rm")], "`C`: `sudo` runs with other rights; no rule allows `rm x` (why)"),
            (
                ["a", "b", "c", "d", "e", "f", "g"].map(unruled).into(),
                "`C`: no rule allows `a`, `b`, `c`, `d`, `e` and 2 more",
            ),
            (Vec::new(), "nothing in it is known to be harmless"),
        ] {
            assert_eq!(reason("C", &asks), want);
        }
    }

    #[test]
    fn a_part_is_decided_by_the_strictest_finding() {
        let asks = vec!["a".to_owned(), "b".to_owned()];
        let asked_by = Some(("why".to_owned(), "Bash(x)".to_owned()));
        let covered = Some("Bash(y)".to_owned());
        let all = || PartNotes {
            asks: asks.clone(),
            denied: Some("Bash(z)".to_owned()),
            asked_by: asked_by.clone(),
            covered: covered.clone(),
        };
        for (notes, verb, rule, reason) in [
            (all(), Verb::Deny, Some("Bash(z)"), "denied by Bash(z)"),
            (PartNotes { denied: None, ..all() }, Verb::Ask, Some("Bash(x)"), "why"),
            (PartNotes { denied: None, asked_by: None, ..all() }, Verb::Ask, None, "a; b"),
            (
                PartNotes { covered: covered.clone(), ..PartNotes::default() },
                Verb::Allow,
                Some("Bash(y)"),
                "no part of it needs permission",
            ),
        ] {
            let part = notes.into_part("t".to_owned(), &[]);
            assert_eq!((part.verb, part.rule.as_deref(), part.reason.as_str()), (verb, rule, reason));
        }
    }
}
