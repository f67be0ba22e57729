//! Explains a verdict: the rule, the mode or the sandbox that decided it, and each part of a command.
//!
//! Also owns the floor: ask rules of an administrator or of the driving program, which apply in every mode, also in
//! `bypassPermissions`.
//!
//! Judges nothing itself. The verdict is that of [`Guard::check`], and the explanation is derived alongside.

use crate::command;
use crate::findings::{Findings, Part};
use crate::rule::{Rule, RuleError};
use crate::{Guard, GuardSettings, RuleKind, Rules, Verdict, stands_for};
use becket_types::{Access, DecidedBy, Effect, PermissionMode, RuleChange, RuleOwner, SandboxLevel, Verb};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of rules that are offered for the parts of a command.
const PART_RULES: usize = 4;

/// A verdict and its reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub verdict: Verdict,
    /// The rule, the mode or the sandbox: the one that led to the verdict.
    pub by: DecidedBy,
    /// The rule that decided, as it was written.
    pub rule: Option<String>,
    /// The simple commands and redirections of a shell command, in the order in which they were judged. Empty for other calls.
    pub parts: Vec<Part>,
    /// True if allow rules match the whole call, even if it would run without them.
    pub covered: bool,
    /// The environment variables from [`Guard::variables`].
    pub variables: &'static [(&'static str, &'static str)],
    /// The level of the sandbox at which the call runs, if nobody is asked about it.
    pub level: SandboxLevel,
}

impl Explanation {
    /// Returns the decision alone, without reason and offer.
    pub fn verb(&self) -> Verb {
        match self.verdict {
            Verdict::Allow { .. } => Verb::Allow,
            Verdict::Ask { .. } => Verb::Ask,
            Verdict::Deny { .. } => Verb::Deny,
        }
    }

    /// Returns the reason for the decision: one sentence for people.
    pub fn reason(&self) -> &str {
        match &self.verdict {
            Verdict::Allow { why: reason } | Verdict::Ask { reason, .. } | Verdict::Deny { reason, .. } => {
                reason
            }
        }
    }
}

/// Limits on the permission mode to which a running session may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModeLimits {
    /// `bypassPermissions` is refused, because the session was started without permission for it.
    pub no_bypass: bool,
    /// The administrator has switched off `bypassPermissions`.
    pub bypass_is_off: bool,
    /// A settings file of the user or the project has switched off `bypassPermissions`.
    pub settings_forbid_bypass: bool,
    /// The administrator's mode. Only this mode and stricter ones can be chosen.
    pub managed: Option<PermissionMode>,
}

impl Guard {
    /// Sets the limits on the modes that the session may change to.
    pub fn limit_modes(&mut self, limits: ModeLimits) {
        self.modes = limits;
    }

    /// Checks that the session may change to a permission mode.
    ///
    /// # Errors
    ///
    /// Returns the reason if the session may not change to the mode: a limit of the administrator or of the start.
    pub fn may_enter(&self, mode: PermissionMode) -> Result<(), String> {
        if let Some(managed) = self.modes.managed.filter(|managed| !mode.is_within(*managed)) {
            return Err(format!(
                "cannot set permission mode to {mode} because the administrator of this machine has set {managed}, and {mode} is \
                 not stricter"
            ));
        }
        if mode == PermissionMode::BypassPermissions && self.modes.bypass_is_off {
            return Err(format!(
                "cannot set permission mode to {mode} because the administrator of this machine has switched it off"
            ));
        }
        if mode == PermissionMode::BypassPermissions && self.modes.settings_forbid_bypass {
            return Err(format!(
                "cannot set permission mode to {mode} because a settings file switches it off \
                 (permissions.disableBypassPermissionsMode)"
            ));
        }
        if mode == PermissionMode::BypassPermissions && self.modes.no_bypass {
            return Err(format!(
                "cannot set permission mode to {mode} because the session was not launched with \
                 --dangerously-skip-permissions; start it with that option, or with --allow-dangerously-skip-permissions"
            ));
        }
        Ok(())
    }

    /// From now on, only the allow rules of the settings count: no answer, hook or program adds one.
    pub fn close_allow_rules(&mut self) {
        self.layers.is_closed = true;
        self.compile();
    }

    /// Rules that one owner has added to those of the settings, in order.
    pub fn added_rules(&self, owner: RuleOwner) -> &Rules {
        self.layers.owned_by(owner)
    }

    /// Adds ask and deny rules of the program that drives the session, for tools of its own servers. The ask rules hold in every
    /// mode; allow rules are ignored.
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
    /// Returns the mistake if `rule` is not a valid rule.
    pub fn allow_for_turn(&mut self, rule: &str) -> Result<(), RuleError> {
        let rule = Rule::parse(rule)?;
        if !self.layers.session.allow.contains(&rule) && !self.layers.turn.contains(&rule) {
            self.layers.turn.push(rule);
            self.compile();
        }
        Ok(())
    }

    /// Changes rules of one owner; kinds that `rules` does not name stay as they are. Returns the number of rules that were
    /// removed. An allow rule is removed from the settings as well, because less is allowed then.
    ///
    /// # Errors
    ///
    /// Returns the first text that is not a valid rule, or the first rule that `owner` may not remove. Nothing is changed
    /// then.
    pub fn change_rules(
        &mut self,
        owner: RuleOwner,
        change: RuleChange,
        rules: &BTreeMap<RuleKind, Vec<String>>,
    ) -> Result<usize, String> {
        let parsed = |text: &String| Rule::parse(text).map_err(|error| format!("{text}: {error}"));
        let list = |(kind, list): (&RuleKind, &Vec<String>)| {
            Ok((*kind, list.iter().map(parsed).collect::<Result<Vec<_>, String>>()?))
        };
        let lists = rules.iter().map(list).collect::<Result<BTreeMap<_, _>, String>>()?;
        let removed = self.layers.change(&mut self.settings.rules, owner, change, &lists)?;
        self.compile();
        Ok(removed)
    }

    /// Withdraws the rules of the turn. Returns the rules that the session does not allow by itself.
    pub fn end_turn(&mut self) -> Vec<Rule> {
        let mut ended = std::mem::take(&mut self.layers.turn);
        if !ended.is_empty() {
            self.compile();
        }
        ended.retain(|rule| !self.layers.session.allow.contains(rule));
        ended
    }

    /// Adds a folder that may be used without asking.
    pub fn add_root(&mut self, root: &Path) {
        if let Some(floor) = &mut self.floor {
            Arc::make_mut(floor).add_root(root);
        }
        self.settings.roots.push(root.to_path_buf());
    }

    /// Removes a folder that was added. The working directory cannot be removed.
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

    /// Protects files that other programs obey: they are written only after a question.
    pub fn protect(&mut self, files: Vec<PathBuf>) {
        if let Some(floor) = &mut self.floor {
            Arc::make_mut(floor).protect(files.clone());
        }
        self.settings.own.extend(files);
    }

    /// Returns the verdict, or a question if a rule of the floor asks about a call that only `bypassPermissions` allows. The
    /// driving program's rules for tools of MCP servers belong to the floor, too.
    pub(crate) fn hold_floor(&self, verdict: Verdict, tool: &str, access: &Access) -> Verdict {
        let bypassed = self.mode() == PermissionMode::BypassPermissions;
        let of_server =
            |owner: RuleOwner| self.layers.owned_by(owner).ask.iter().find(|rule| rule.covers_tool(tool));
        if bypassed && tool.starts_with("mcp__") && matches!(verdict, Verdict::Allow { .. }) {
            if let Some(rule) = of_server(RuleOwner::Program) {
                return Verdict::Ask {
                    reason: format!("the rule {rule} of the driving program asks in every permission mode"),
                    rule: None,
                };
            }
            if of_server(RuleOwner::Auto).is_some() {
                // `bypassPermissions` allows every call. In the mode `auto`, only a rule would allow a call of this server.
                return self.other(tool, access);
            }
        }
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
                // The rule is named even if the call would run without it, as a command that only reads would.
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

    /// Returns rules that together allow a command of several parts about which [`Self::check`] asks, one for each part that needs
    /// one. Empty if no rules do that, or if the question is about a single part.
    pub fn part_rules(&self, tool: &str, access: &Access, input: &Value) -> Vec<String> {
        let Some(found) = self.findings(access).filter(|found| found.asks.len() > 1) else {
            return Vec::new();
        };
        let mut rules: Vec<String> = Vec::new();
        for ask in &found.asks {
            match &ask.rule {
                Some(rule) if rules.contains(rule) => {}
                Some(rule) if rules.len() < PART_RULES => rules.push(rule.clone()),
                _ => return Vec::new(),
            }
        }
        // Only the judgement itself knows if these rules are enough.
        let mut granted = self.clone();
        let all = rules.iter().all(|rule| granted.allow_for_session(rule).is_ok());
        let allowed = || matches!(granted.check(tool, access, input), Verdict::Allow { .. });
        if all && allowed() { rules } else { Vec::new() }
    }

    /// True if the verdict on a command is that of the sandbox, or follows from the lack of a working one.
    fn is_of_sandbox(&self, verdict: &Verdict, access: &Access, found: &Findings) -> bool {
        let command = access.command.as_deref().unwrap_or_default();
        let shown = becket_types::cut_end(command.trim(), 200);
        let of_sandbox = self
            .unavailable(found, access.unconfined)
            .or_else(|| self.by_sandbox(access, command, shown, found))
            .or_else(|| self.unhidden(access, command, found));
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
        if let Some(rule) = self.tool_rule(RuleKind::Allow, tool, access) {
            return Some(rule.to_string());
        }
        let rules: Option<Vec<&Rule>> =
            access.paths.iter().map(|path| self.path_rule(RuleKind::Allow, tool, path)).collect();
        rules?.first().map(ToString::to_string)
    }

    /// The ask rule that matches the call.
    fn asking_rule(&self, tool: &str, access: &Access, found: Option<&Findings>) -> Option<String> {
        let plain = stands_for(tool, access.effect).unwrap_or(tool);
        let whole = [tool, plain]
            .into_iter()
            .find_map(|tool| self.tool_rule(RuleKind::Ask, tool, access))
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
        access
            .paths
            .iter()
            .find_map(|path| self.path_rule(RuleKind::Ask, plain, path))
            .map(ToString::to_string)
    }
}
