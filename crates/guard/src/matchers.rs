//! The rules about files, compiled for matching.
//!
//! Owns one matcher for each path rule, by the kind of the rule. Compiled again when a rule is added or withdrawn. Does not
//! know the permission mode and gives no verdict.

use crate::rule::PathMatcher;
use crate::{Rule, RuleKind};
use std::path::Path;

#[derive(Clone, Debug, Default)]
pub(crate) struct Matchers {
    allow: Vec<(Rule, PathMatcher)>,
    ask: Vec<(Rule, PathMatcher)>,
    deny: Vec<(Rule, PathMatcher)>,
}

impl Matchers {
    /// Compiles the path rules. `rules` returns the rules of a kind. Relative patterns start at `cwd`.
    pub(crate) fn new<'a, I>(rules: impl Fn(RuleKind) -> I, cwd: &Path, home: &Path) -> Self
    where
        I: Iterator<Item = &'a Rule>,
    {
        let build = |kind, wide: bool| {
            rules(kind)
                .filter(|rule| rule.is_path_rule())
                .map(|rule| (rule.clone(), PathMatcher::new(rule, cwd, home, wide)))
                .collect()
        };
        Self {
            allow: build(RuleKind::Allow, false),
            ask: build(RuleKind::Ask, true),
            deny: build(RuleKind::Deny, true),
        }
    }

    fn of_kind(&self, kind: RuleKind) -> &[(Rule, PathMatcher)] {
        match kind {
            RuleKind::Allow => &self.allow,
            RuleKind::Ask => &self.ask,
            RuleKind::Deny => &self.deny,
        }
    }

    /// Returns the path rules of one kind that apply to calls of `tool`.
    pub(crate) fn covering<'a>(
        &'a self,
        kind: RuleKind,
        tool: &'a str,
    ) -> impl Iterator<Item = &'a (Rule, PathMatcher)> {
        self.of_kind(kind).iter().filter(move |(rule, _)| rule.covers_tool(tool))
    }

    /// Returns the first rule for calls of `tool` that matches the path.
    pub(crate) fn rule(&self, kind: RuleKind, tool: &str, path: &Path) -> Option<&Rule> {
        let found =
            self.of_kind(kind).iter().find(|(rule, matcher)| rule.covers_tool(tool) && matcher.matches(path));
        found.map(|(rule, _)| rule)
    }

    /// Returns the first deny rule about files for calls of one of these tools.
    pub(crate) fn denying(&self, tools: &[&str]) -> Option<&Rule> {
        let covers = |rule: &Rule| tools.iter().any(|tool| rule.covers_tool(tool));
        self.deny.iter().map(|(rule, _)| rule).find(|rule| covers(rule))
    }

    /// True if a deny rule may name files below this folder.
    pub(crate) fn deny_below(&self, folder: &Path) -> bool {
        self.deny.iter().any(|(_, matcher)| matcher.reaches_below(folder))
    }

    /// True if there are deny or ask rules about files.
    pub(crate) fn restrict_paths(&self) -> bool {
        !self.deny.is_empty() || !self.ask.is_empty()
    }

    /// True if an allow rule matches the path and spells out one of `words`.
    pub(crate) fn excuse<'a>(
        &self,
        tool: &str,
        path: &Path,
        words: impl Iterator<Item = &'a str> + Clone,
    ) -> bool {
        self.allow.iter().any(|(rule, matcher)| {
            rule.covers_tool(tool) && matcher.matches(path) && words.clone().any(|word| rule.says(word))
        })
    }
}
