//! Explains a verdict: the rule, the mode or the sandbox that decided it, and each part of a command.
//!
//! Owns the floor as well: an administrator's ask rules, which apply in every mode.
//!
//! Judges nothing itself. The verdict is that of [`Guard::check`], and the explanation is derived alongside.

use crate::command;
use crate::findings::{Findings, Part};
use crate::rule::{Rule, RuleError};
use crate::{Guard, GuardSettings, Kind, Rules, Verdict, stands_for};
use becket_types::{Access, DecidedBy, Effect, PermissionMode, RuleChange, RuleKind, SandboxLevel, Verb};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A verdict and its reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub verdict: Verdict,
    pub by: DecidedBy,
    /// The rule that decided, as it was written.
    pub rule: Option<String>,
    /// The simple commands and redirections of a command, in the order in which they were judged.
    pub parts: Vec<Part>,
    /// True if allow rules match the whole call, even if it would run without them.
    pub covered: bool,
    /// The environment variables from [`Guard::variables`].
    pub variables: &'static [(&'static str, &'static str)],
    /// The level of the sandbox at which the call runs, if nobody is asked about it.
    pub level: SandboxLevel,
}

impl Explanation {
    pub fn verb(&self) -> Verb {
        match self.verdict {
            Verdict::Allow { .. } => Verb::Allow,
            Verdict::Ask { .. } => Verb::Ask,
            Verdict::Deny { .. } => Verb::Deny,
        }
    }

    pub fn reason(&self) -> &str {
        match &self.verdict {
            Verdict::Allow { why: reason } | Verdict::Ask { reason, .. } | Verdict::Deny { reason, .. } => {
                reason
            }
        }
    }
}

/// Replaces the rules `before` of a list by `rules`. Returns those that the list did not have already.
fn replaced(list: &mut Vec<Rule>, before: &[Rule], rules: Vec<Rule>) -> Vec<Rule> {
    list.retain(|rule| !before.contains(rule));
    let new: Vec<Rule> = rules.into_iter().filter(|rule| !list.contains(rule)).collect();
    list.extend(new.iter().cloned());
    new
}

impl Guard {
    /// Sets the rules of the program that drives the session, in place of those that it set before.
    pub fn set_program_rules(&mut self, rules: Rules) {
        let before = std::mem::take(&mut self.program);
        let lists = &mut self.settings.rules;
        self.program = Rules {
            allow: replaced(&mut lists.allow, &before.allow, rules.allow),
            ask: replaced(&mut lists.ask, &before.ask, rules.ask),
            deny: replaced(&mut lists.deny, &before.deny, rules.deny),
        };
        self.compile();
    }

    /// Rules that a driving program has set for the session.
    pub fn program_rules(&self) -> &Rules {
        &self.program
    }

    /// Adds rules of the program that drives the session, for tools of its own servers. Those that ask hold in every mode.
    pub fn hold_policies(&mut self, rules: Rules) {
        let mut asks = self.floor.as_ref().map(|floor| floor.settings.rules.ask.clone()).unwrap_or_default();
        asks.extend(rules.ask.iter().cloned());
        self.settings.rules.ask.extend(rules.ask);
        self.settings.rules.deny.extend(rules.deny);
        self.compile();
        *self = self.clone().with_floor(asks);
    }

    /// Adds ask rules that apply in every mode, also in `bypassPermissions`.
    pub fn with_floor(mut self, ask: Vec<Rule>) -> Self {
        if !ask.is_empty() {
            let rules = Rules { ask, ..Rules::default() };
            let settings = GuardSettings { rules, mode: PermissionMode::Default, ..self.settings().clone() };
            let mut floor = Self::new(settings);
            (floor.resolve, floor.files) = (Arc::clone(&self.resolve), self.files.clone());
            self.floor = Some(Arc::new(floor));
        }
        self
    }

    /// Allows calls that match `rule` until [`Self::end_turn`]. Deny and ask rules still take precedence.
    ///
    /// # Errors
    ///
    /// If `rule` is no valid rule.
    pub fn allow_for_turn(&mut self, rule: &str) -> Result<(), RuleError> {
        let rule = Rule::parse(rule)?;
        if !self.session.contains(&rule) {
            self.turn.push(rule.clone());
            self.session.push(rule);
            self.compile();
        }
        Ok(())
    }

    /// Changes the rules of one kind that this session has added. Allow rules of the settings can be removed as well, because
    /// less is allowed then.
    ///
    /// # Errors
    ///
    /// Returns the first text that is no valid rule, or that names no rule that may be removed. Nothing is changed then.
    pub fn change_rules(
        &mut self,
        kind: RuleKind,
        change: RuleChange,
        rules: &[String],
    ) -> Result<(), String> {
        let parsed: Result<Vec<Rule>, _> = rules.iter().map(|rule| Rule::parse(rule)).collect();
        let parsed = parsed.map_err(|error| error.to_string())?;
        if change == RuleChange::Remove && kind != RuleKind::Allow {
            let (added, list) = (self.added.clone(), self.list(kind).clone());
            let stays = |rule: &&Rule| list.contains(rule) && !added.contains(&(kind, (*rule).clone()));
            if let Some(rule) = parsed.iter().find(stays) {
                return Err(format!("the rule {rule} is in your settings, which a session cannot loosen"));
            }
        }
        let gone = |rule: &Rule| match change {
            RuleChange::Add => false,
            RuleChange::Remove => parsed.contains(rule),
            RuleChange::Replace => true,
        };
        if kind == RuleKind::Allow {
            let turn = self.turn.clone();
            self.session.retain(|rule| turn.contains(rule) || !gone(rule));
            if change == RuleChange::Remove {
                self.settings.rules.allow.retain(|rule| !gone(rule));
            }
            let fresh = if change == RuleChange::Remove { Vec::new() } else { parsed };
            for rule in fresh {
                self.turn.retain(|known| *known != rule);
                if !self.session.contains(&rule) {
                    self.session.push(rule);
                }
            }
        } else {
            let dropped: Vec<(RuleKind, Rule)> =
                self.added.iter().filter(|(known, rule)| *known == kind && gone(rule)).cloned().collect();
            self.added.retain(|known| !dropped.contains(known));
            self.list(kind).retain(|rule| !dropped.iter().any(|(_, gone)| gone == rule));
            let fresh = if change == RuleChange::Remove { Vec::new() } else { parsed };
            for rule in fresh {
                if !self.list(kind).contains(&rule) {
                    self.list(kind).push(rule.clone());
                    self.added.push((kind, rule));
                }
            }
        }
        self.compile();
        Ok(())
    }

    fn list(&mut self, kind: RuleKind) -> &mut Vec<Rule> {
        match kind {
            RuleKind::Allow => &mut self.settings.rules.allow,
            RuleKind::Ask => &mut self.settings.rules.ask,
            RuleKind::Deny => &mut self.settings.rules.deny,
        }
    }

    /// Withdraws the rules of the turn, and returns them.
    pub fn end_turn(&mut self) -> Vec<Rule> {
        let ended = std::mem::take(&mut self.turn);
        if !ended.is_empty() {
            self.session.retain(|rule| !ended.contains(rule));
            self.compile();
        }
        ended
    }

    /// Adds a folder that may be used without asking.
    pub fn add_root(&mut self, root: &Path) {
        if let Some(floor) = &mut self.floor {
            Arc::make_mut(floor).add_root(root);
        }
        self.settings.roots.push(root.to_path_buf());
    }

    /// Removes a folder that was added. The working directory stays.
    pub fn remove_root(&mut self, root: &Path) {
        if let Some(floor) = &mut self.floor {
            Arc::make_mut(floor).remove_root(root);
        }
        let mut at = 0;
        self.settings.roots.retain(|known| {
            at += 1;
            at == 1 || known != root
        });
    }

    /// Adds files that are written only after a question, as other programs obey them.
    pub fn protect(&mut self, files: Vec<PathBuf>) {
        if let Some(floor) = &mut self.floor {
            Arc::make_mut(floor).protect(files.clone());
        }
        self.settings.own.extend(files);
    }

    /// Returns the verdict, unless a rule of the floor asks about a call that the mode would allow.
    pub(crate) fn hold_floor(&self, verdict: Verdict, tool: &str, access: &Access) -> Verdict {
        let bypassed = self.mode() == PermissionMode::BypassPermissions;
        match (&self.floor, &verdict) {
            (Some(floor), Verdict::Allow { .. }) if bypassed => match floor.asking_rule(tool, access, None) {
                Some(rule) => Verdict::Ask {
                    reason: format!("the managed rule {rule} asks in every permission mode"),
                    rule: None,
                },
                None => verdict,
            },
            _ => verdict,
        }
    }

    /// Judges a call and explains the verdict and the way in which the call runs. A command is parsed only once for this.
    pub fn explain(&self, tool: &str, access: &Access, input: &Value) -> Explanation {
        let found = self.findings(access);
        let verdict = self.check_found(tool, access, input, found.as_ref());
        let parts = found.as_ref().map_or_else(Vec::new, |found| found.parts.clone());
        let covering = self.covering_rule(tool, access, found.as_ref());
        let rule = match &verdict {
            Verdict::Deny { rule: Some(rule), .. } => Some(rule.clone()),
            Verdict::Allow { .. } if self.mode() != PermissionMode::BypassPermissions => {
                // A command that only reads would run without this rule too, but the rule also covers it.
                covering.clone()
            }
            Verdict::Allow { .. } => None,
            Verdict::Ask { .. } | Verdict::Deny { .. } => self.asking_rule(tool, access, found.as_ref()),
        };
        let by_sandbox = found.as_ref().is_some_and(|found| self.is_of_sandbox(&verdict, access, found));
        let by = match &rule {
            Some(_) => DecidedBy::Rule,
            None if by_sandbox => DecidedBy::Sandbox,
            None => DecidedBy::Mode,
        };
        let command = access.command.as_deref().unwrap_or_default();
        let level = found.as_ref().map_or(SandboxLevel::Off, |found| self.level_found(command, found));
        let variables = found.as_ref().map_or(&[][..], Findings::variables);
        Explanation { verdict, by, rule, parts, covered: covering.is_some(), variables, level }
    }

    /// True if the sandbox, or its absence, led to the verdict on a command.
    fn is_of_sandbox(&self, verdict: &Verdict, access: &Access, found: &Findings) -> bool {
        let command = access.command.as_deref().unwrap_or_default();
        let shown = becket_types::cut_end(command.trim(), 200);
        let of_sandbox = self
            .unavailable(found, access.unconfined)
            .or_else(|| self.by_sandbox(access, command, shown, found));
        of_sandbox.as_ref() == Some(verdict)
    }

    fn findings(&self, access: &Access) -> Option<Findings> {
        let (Effect::Execute, Some(command)) = (access.effect, &access.command) else { return None };
        let dir = access.paths.first().map_or_else(|| self.cwd().to_path_buf(), Clone::clone);
        Some(command::judge_parts(self, command, Some(vec![dir])))
    }

    /// The allow rule that matches the whole call. If each part has its own, that of the first part.
    fn covering_rule(&self, tool: &str, access: &Access, found: Option<&Findings>) -> Option<String> {
        if let Some(found) = found {
            let all = !found.parts.is_empty()
                && found.parts.iter().all(|part| part.verb == Verb::Allow && part.rule.is_some());
            let first = || found.parts.first().and_then(|part| part.rule.clone());
            return found.named.clone().or_else(|| all.then(first).flatten());
        }
        let tool = stands_for(tool, access.effect).unwrap_or(tool);
        if let Some(rule) = self.tool_rule(Kind::Allow, tool, access) {
            return Some(rule.to_string());
        }
        let rules: Option<Vec<&Rule>> =
            access.paths.iter().map(|path| self.path_rule(Kind::Allow, tool, path)).collect();
        rules?.first().map(ToString::to_string)
    }

    /// The ask rule that matches the call.
    fn asking_rule(&self, tool: &str, access: &Access, found: Option<&Findings>) -> Option<String> {
        let plain = stands_for(tool, access.effect).unwrap_or(tool);
        let whole = [tool, plain]
            .into_iter()
            .find_map(|tool| self.tool_rule(Kind::Ask, tool, access))
            .map(ToString::to_string);
        if whole.is_some() {
            return whole;
        }
        if access.effect == Effect::Execute && access.command.is_some() {
            let own;
            let found = match found {
                Some(found) => found,
                None => {
                    own = self.findings(access)?;
                    &own
                }
            };
            return found.ask_rule.as_ref().map(|(_, rule)| rule.clone());
        }
        access.paths.iter().find_map(|path| self.path_rule(Kind::Ask, plain, path)).map(ToString::to_string)
    }
}
