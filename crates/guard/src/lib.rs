//! Permission: decides if a tool call may run, must be asked about, or is denied, and says why.
//!
//! Owns the rule syntax, the modes, the judgement of shell commands (`becket-shell-syntax` parses them), and the lists of
//! secret and protected places. The verdict is a pure function of the rules, the mode, the roots, and the call's own
//! statement of what it touches ([`Access`]). Does no IO: opens no file, follows no link (the caller can pass a resolver and
//! a view of files), asks no questions, and never runs a command to learn its effect.
//!
//! Invariants:
//! - A matching deny rule denies in every mode, whatever else matches. Deny beats ask, ask beats allow.
//! - A command that is not understood is asked about, never allowed. No size or count makes a verdict looser.
//! - Secrets are asked about even for reading, and files that git, shells or becket obey even in modes that accept edits,
//!   unless a rule spells out their names.
//!
//! It is no sandbox: it judges the text of a command, not the behaviour of a program.

mod command;
mod confine;
mod decision;
mod denied;
mod explain;
mod findings;
mod git;
mod layers;
mod matchers;
mod path;
mod places;
mod rule;
mod rule_text;
mod search;
mod secret;
mod shell;
mod wording;

pub use confine::{SandboxRules, SandboxWorks};
pub use decision::{Explanation, ModeLimits};
pub use denied::DeniedFiles;
pub use explain::{covers, how_to_allow};
pub use findings::Part;
pub use git::{Files, reading_git};
pub use places::secret_places;
pub use rule::{PatternStart, Rule, RuleError, Rules};
pub use rule_text::split_rules;
pub use secret::is_secret_below;

pub(crate) use becket_types::RuleKind;
use becket_types::{Access, DenialCause, Effect, PermissionMode};
use findings::Findings;
use layers::Layers;
use matchers::Matchers;
use search::searched_secret;
pub(crate) use search::stands_for;
use serde_json::Value;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The settings that verdicts depend on.
#[derive(Clone, Debug, Default)]
pub struct GuardSettings {
    pub rules: Rules,
    pub mode: PermissionMode,
    /// Canonical paths of the folders that may be used without asking. Relative paths start at the first.
    pub roots: Vec<PathBuf>,
    pub home: PathBuf,
    /// becket's own folders (configuration, sessions). Writing there always asks.
    pub own: Vec<PathBuf>,
}

/// The answer for one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allow {
        why: String,
    },
    /// `rule`: a rule for [`Guard::allow_for_session`], with which the same call is not asked about again. `None` if no added rule
    /// would prevent the question.
    Ask {
        reason: String,
        rule: Option<String>,
    },
    /// `rule`: the deny rule; `None` if the mode denies.
    Deny {
        reason: String,
        rule: Option<String>,
        cause: DenialCause,
    },
}

impl Verdict {
    /// A denial without a rule.
    pub fn deny(reason: String) -> Self {
        Self::Deny { reason, rule: None, cause: DenialCause::Policy }
    }
}

/// Resolves a path from a command line: follows links and `..` to the path where it leads.
pub type Resolver = Arc<dyn Fn(&Path) -> PathBuf + Send + Sync>;

/// Returns an identification (such as a hash) of the current contents of those workspace files that a command would run in a
/// folder. If it changes, an earlier answer about the command is void.
pub type ScriptState = Arc<dyn Fn(&str, &Path) -> String + Send + Sync>;

/// The reason for a question about a file with several names.
const OTHER_NAMES: &str = "it has another name (a hard link), so a file elsewhere changes with it";

/// Judges tool calls. There is one per session.
#[derive(Clone)]
pub struct Guard {
    settings: GuardSettings,
    /// Rules that were added after the start, by their owner.
    layers: Layers,
    matchers: Matchers,
    resolve: Resolver,
    files: Option<Arc<dyn Files>>,
    scripts: Option<ScriptState>,
    sandbox: SandboxRules,
    /// A guard with nothing but the ask rules that apply in every mode.
    floor: Option<Arc<Guard>>,
    modes: ModeLimits,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("settings", &self.settings)
            .field("layers", &self.layers)
            .finish_non_exhaustive()
    }
}

impl Guard {
    /// Makes a guard without access to files: paths are resolved lexically, and patterns and git are judged by their text
    /// alone.
    /// No command is confined.
    pub fn new(settings: GuardSettings) -> Self {
        let mut guard = Self {
            settings,
            layers: Layers::default(),
            matchers: Matchers::default(),
            resolve: Arc::new(becket_types::lexical),
            files: None,
            scripts: None,
            sandbox: SandboxRules::default(),
            floor: None,
            modes: ModeLimits::default(),
        };
        guard.compile();
        guard
    }

    /// Sets a resolver that follows symbolic links and `..` in paths of command lines as the kernel does. Without one, `..` is
    /// resolved by the text alone.
    pub fn with_resolver(mut self, resolve: Resolver) -> Self {
        self.resolve = resolve;
        self
    }

    /// Sets the function behind [`Self::script_state`]. Without it, that method returns `None`.
    pub fn with_scripts(mut self, scripts: ScriptState) -> Self {
        self.scripts = Some(scripts);
        self
    }

    /// Identifies the current contents of the files that a command would run. A person's answer holds for these contents only.
    pub fn script_state(&self, access: &Access) -> Option<String> {
        let command = access.command.as_ref().filter(|_| access.effect == Effect::Execute)?;
        let dir = access.paths.first().map_or_else(|| self.cwd(), PathBuf::as_path);
        self.scripts.as_ref().map(|scripts| scripts(command, dir))
    }

    /// Sets a view of files: patterns are then judged by the files that they match, and git by the repository's configuration.
    /// Without one, both are judged by their text alone.
    pub fn with_files(mut self, files: Arc<dyn Files>) -> Self {
        self.files = Some(files);
        self
    }

    fn compile(&mut self) {
        let settings = &self.settings;
        self.matchers = Matchers::new(|kind| self.rules(kind), self.cwd(), &settings.home);
    }

    fn cwd(&self) -> &Path {
        self.settings.roots.first().map_or(Path::new("/"), PathBuf::as_path)
    }

    /// Returns the permission mode, which may change during a session.
    pub fn mode(&self) -> PermissionMode {
        self.settings.mode
    }

    /// Changes the permission mode. Rules stay as they are.
    pub fn set_mode(&mut self, mode: PermissionMode) {
        self.settings.mode = mode;
    }

    /// Returns the settings as they are now, including a changed mode.
    pub fn settings(&self) -> &GuardSettings {
        &self.settings
    }

    /// Allows calls that match `rule` until the session ends. Deny and ask rules still take precedence.
    ///
    /// # Errors
    ///
    /// Returns the mistake if `rule` is not a valid rule.
    pub fn allow_for_session(&mut self, rule: &str) -> Result<(), RuleError> {
        let rule = Rule::parse(rule)?;
        let session = &mut self.layers.session.allow;
        if !session.contains(&rule) {
            session.push(rule);
            self.compile();
        }
        Ok(())
    }

    /// The names among `names` that a deny rule without a specifier removes altogether. The model does not learn of these tools.
    pub fn removed_tools(&self, names: &[String]) -> Vec<String> {
        let gone =
            |name: &&String| self.rules(RuleKind::Deny).any(|rule| rule.is_bare() && rule.covers_tool(name));
        names.iter().filter(gone).cloned().collect()
    }

    /// Warnings about rules that can never match, one sentence each. `tools` returns the names of all tools. It is called
    /// only if a rule names none of the well-known ones.
    pub fn warnings(&self, tools: &dyn Fn() -> Vec<String>) -> Vec<String> {
        let rules =
            [RuleKind::Allow, RuleKind::Ask, RuleKind::Deny].into_iter().flat_map(|kind| self.rules(kind));
        rules.filter_map(|rule| rule.complaint(tools)).collect()
    }

    /// All rules of one kind that are in force, those of the settings first.
    pub fn rules(&self, kind: RuleKind) -> impl Iterator<Item = &Rule> {
        self.settings.rules.of_kind(kind).iter().chain(self.layers.rules(kind))
    }

    /// Judges a call of `tool` with `input` that would touch `access`.
    pub fn check(&self, tool: &str, access: &Access, input: &Value) -> Verdict {
        self.check_found(tool, access, input, None)
    }

    /// Judges like [`Self::check`], for a command that has already been parsed.
    fn check_found(&self, tool: &str, access: &Access, input: &Value, found: Option<&Findings>) -> Verdict {
        let verdict = self.hold_floor(self.judge(tool, access, input, found), tool, access);
        match verdict {
            Verdict::Ask { reason, rule } if self.settings.mode == PermissionMode::DontAsk => {
                let how = rule.as_deref().map(how_to_allow).unwrap_or_default();
                Verdict::deny(format!("{reason}; permission mode dontAsk denies what would be asked{how}"))
            }
            // Allow rules of the session do not count, so none is offered.
            Verdict::Ask { reason, .. } if self.layers.is_closed => Verdict::Ask { reason, rule: None },
            other => other,
        }
    }

    /// True if a call is known to change nothing, independently of the rules: it reads files, or its command only reads files of
    /// the workspace. False for a command that is not understood.
    pub fn only_reads(&self, access: &Access) -> bool {
        match (&access.effect, &access.command) {
            (Effect::Session | Effect::Read, _) => true,
            (_, Some(command)) => {
                let dir = access.paths.first().map_or_else(|| self.cwd().to_path_buf(), Clone::clone);
                command::judge(self, command, Some(vec![dir])).read_only
            }
            _ => false,
        }
    }

    /// Environment variables that the call must run with. They keep git from obeying the repository's configuration, which is the
    /// condition under which git was allowed.
    pub fn variables(&self, access: &Access) -> &'static [(&'static str, &'static str)] {
        let (Effect::Execute, Some(command)) = (access.effect, &access.command) else { return &[] };
        let dir = access.paths.first().map_or_else(|| self.cwd().to_path_buf(), Clone::clone);
        command::judge(self, command, Some(vec![dir])).variables()
    }

    fn judge(&self, tool: &str, access: &Access, input: &Value, found: Option<&Findings>) -> Verdict {
        if let Some(denied) = self.tool_rule(RuleKind::Deny, tool, access) {
            return denied_by(denied, tool);
        }
        if let Some(plain) = stands_for(tool, access.effect) {
            if let Some(rule) = self.tool_rule(RuleKind::Ask, tool, access)
                && self.settings.mode != PermissionMode::BypassPermissions
            {
                return Verdict::Ask { reason: format!("the rule {rule} asks about {tool}"), rule: None };
            }
            return self.judge(plain, access, input, found);
        }
        let verdict = match (&access.effect, &access.command) {
            (Effect::Execute, Some(command)) => {
                let own;
                let found = match found {
                    Some(found) => found,
                    None => {
                        let dir = access.paths.first().map_or_else(|| self.cwd().to_path_buf(), Clone::clone);
                        own = command::judge(self, command, Some(vec![dir]));
                        &own
                    }
                };
                return self.execute(tool, access, command, found);
            }
            (Effect::Session, _) => {
                Verdict::Allow { why: "it touches nothing outside the session".to_owned() }
            }
            (Effect::Delegate, _) => {
                Verdict::Allow { why: "each call of the subagent is judged by itself".to_owned() }
            }
            (Effect::Read, _) if !access.paths.is_empty() => {
                Self::all_paths(access, |p| self.read_path(tool, p))
            }
            (Effect::Write, _) if !access.paths.is_empty() => {
                Self::all_paths(access, |p| self.write_path(tool, p))
            }
            _ => self.other(tool, access),
        };
        if matches!(verdict, Verdict::Deny { .. }) {
            return verdict;
        }
        if self.settings.mode == PermissionMode::BypassPermissions {
            return bypassed();
        }
        if self.settings.mode == PermissionMode::Plan
            && !matches!(access.effect, Effect::Session | Effect::Read | Effect::Delegate)
        {
            return plan_denies(tool);
        }
        if let Some(rule) = self.tool_rule(RuleKind::Ask, tool, access) {
            return Verdict::Ask { reason: format!("the rule {rule} asks about {tool}"), rule: None };
        }
        match verdict {
            Verdict::Allow { why } => match searched_secret(tool, input) {
                Some(found) if access.effect == Effect::Read && !self.says(tool, &found) => Verdict::Ask {
                    reason: format!("the search names {found}, which may hold secrets"),
                    rule: Some(format!("Read({found})")),
                },
                _ => Verdict::Allow { why },
            },
            other => other,
        }
    }

    fn says(&self, tool: &str, word: &str) -> bool {
        self.rules(RuleKind::Allow).any(|rule| rule.covers_tool(tool) && rule.says(word))
    }

    /// A rule for the tool as a whole, or for the subject of the call.
    fn tool_rule(&self, kind: RuleKind, tool: &str, access: &Access) -> Option<&Rule> {
        self.rules(kind).find(|rule| {
            rule.covers_tool(tool)
                && (rule.is_bare() && !rule.is_path_rule() || rule.matches_name(access.subject.as_deref()))
        })
    }

    pub(crate) fn path_rule(&self, kind: RuleKind, tool: &str, path: &Path) -> Option<&Rule> {
        self.matchers.rule(kind, tool, path)
    }

    pub(crate) fn has_path_rules(&self) -> bool {
        self.matchers.restrict_paths()
    }

    pub(crate) fn denies_files(&self, tools: &[&str]) -> Option<&Rule> {
        self.matchers.denying(tools)
    }

    pub(crate) fn denies_below(&self, folder: &Path) -> bool {
        self.matchers.deny_below(folder)
    }

    pub(crate) fn has_command_rules(&self) -> bool {
        self.rules(RuleKind::Deny).chain(self.rules(RuleKind::Ask)).any(|rule| rule.command().is_some())
    }

    pub(crate) fn allows_all_commands(&self) -> bool {
        self.rules(RuleKind::Allow).any(|rule| rule.covers_tool("bash") && rule.is_bare())
    }

    /// True if an allow rule matches a sensitive path and spells out the name that makes it sensitive.
    pub(crate) fn excuses(&self, tool: &str, path: &Path) -> bool {
        let words = [secret::secret(path), self.obeyed_later(path)];
        self.matchers.excuse(tool, path, words.iter().flatten().map(String::as_str))
    }

    /// Returns a function that is true if a permitted call of `tool` may open a file below a path that `access` names. A file
    /// that is itself named may be opened. For files below a folder, deny rules apply in every mode. Outside
    /// `bypassPermissions` these apply too: ask rules that did not match the folder itself, and the list of secrets, unless an
    /// allow rule or the search's own file pattern spells out the name.
    pub fn may_read(
        &self,
        tool: &str,
        access: &Access,
        input: &Value,
    ) -> impl Fn(&Path) -> bool + Send + Sync + use<> + 'static {
        let all = self.settings.mode == PermissionMode::BypassPermissions;
        search::may_read(&self.matchers, tool, access, all, all || searched_secret(tool, input).is_some())
    }

    /// The allow rule that is most similar to the call without matching it.
    pub fn nearest(&self, tool: &str, access: &Access) -> Option<String> {
        explain::nearest(self.rules(RuleKind::Allow), tool, access)
    }

    /// The strongest verdict over all paths of a call.
    fn all_paths(access: &Access, one: impl Fn(&Path) -> Verdict) -> Verdict {
        let mut out = None;
        for path in &access.paths {
            match one(path) {
                denied @ Verdict::Deny { .. } => return denied,
                ask @ Verdict::Ask { .. } => out = Some(ask),
                allow @ Verdict::Allow { .. } => {
                    out.get_or_insert(allow);
                }
            }
        }
        out.unwrap_or(Verdict::Ask { reason: "it names no path".to_owned(), rule: None })
    }

    pub(crate) fn read_path(&self, tool: &str, path: &Path) -> Verdict {
        self.path(
            tool,
            path,
            "Read",
            secret::secret(path).map(|found| format!("{found} may hold secrets")),
            true,
        )
    }

    /// The component because of which a file at `path` can make other programs run commands or change settings later.
    pub(crate) fn obeyed_later(&self, path: &Path) -> Option<String> {
        let has_head = |folder: &Path| {
            let files = self.files.as_ref();
            files.is_some_and(|files| !files.text(&folder.join("HEAD")).is_err_and(|e| git::is_missing(&e)))
        };
        let in_home = || self.wide_root().and_then(|_| path::of_home(path, &self.settings.home));
        path::protected(path, &self.settings.own)
            .or_else(|| path::makes_repository(path, &has_head))
            .or_else(in_home)
    }

    /// True for a file that also has other names (hard links). A change of it is a change under all of them, and one of them may
    /// be a protected file or a file outside.
    pub(crate) fn has_other_names(&self, path: &Path) -> bool {
        self.files.as_ref().is_some_and(|files| files.names_of_file(path) > 1)
    }

    pub(crate) fn write_path(&self, tool: &str, path: &Path) -> Verdict {
        let sensitive = self
            .obeyed_later(path)
            .map(|found| format!("it belongs to {found}, from which other programs may run commands later"))
            .or_else(|| secret::secret(path).map(|found| format!("{found} may hold secrets")))
            .or_else(|| self.has_other_names(path).then(|| OTHER_NAMES.to_owned()));
        let free = self.edits_freely();
        self.path(tool, path, "Edit", sensitive, free)
    }

    fn path(&self, tool: &str, path: &Path, name: &str, sensitive: Option<String>, free: bool) -> Verdict {
        let shown = path.display();
        if let Some(rule) = self.path_rule(RuleKind::Deny, tool, path) {
            return denied_by(rule, &shown.to_string());
        }
        if self.settings.mode == PermissionMode::BypassPermissions {
            return bypassed();
        }
        if let Some(rule) = self.path_rule(RuleKind::Ask, tool, path) {
            return Verdict::Ask { reason: format!("the rule {rule} asks about {shown}"), rule: None };
        }
        let suggestion = format!("{name}(/{})", globset::escape(&path.to_string_lossy()));
        let ask = |reason: String| Verdict::Ask { reason, rule: Some(suggestion.clone()) };
        if let Some(why) = sensitive {
            return if self.excuses(tool, path) {
                Verdict::Allow { why: "a rule names it".to_owned() }
            } else {
                ask(format!("{shown}: {why}"))
            };
        }
        if let Some(rule) = self.path_rule(RuleKind::Allow, tool, path) {
            return Verdict::Allow { why: format!("allowed by {rule}") };
        }
        let bare = self
            .rules(RuleKind::Allow)
            .find(|rule| rule.covers_tool(tool) && rule.is_bare() && !rule.is_path_rule());
        if let Some(rule) = bare {
            return Verdict::Allow { why: format!("allowed by {rule}") };
        }
        if !path::inside(path, &self.settings.roots) {
            return ask(format!("{shown} is outside the workspace (or add its folder with --add-dir)"));
        }
        if free {
            return Verdict::Allow { why: "inside the workspace".to_owned() };
        }
        ask(format!("{} mode asks before changes", self.settings.mode))
    }

    pub(crate) fn other(&self, tool: &str, access: &Access) -> Verdict {
        if let Some(rule) = self.tool_rule(RuleKind::Allow, tool, access) {
            return Verdict::Allow { why: format!("allowed by {rule}") };
        }
        let rule = match &access.subject {
            Some(subject) if !tool.starts_with("mcp__") => format!("{}({subject})", wording::title(tool)),
            _ => wording::title(tool),
        };
        let reason = format!("no rule allows {tool}");
        Verdict::Ask { reason, rule: Rule::parse(&rule).is_ok().then_some(rule) }
    }

    fn execute(&self, tool: &str, access: &Access, command: &str, found: &Findings) -> Verdict {
        if let Some((reason, rule)) = &found.deny {
            return Verdict::Deny {
                reason: format!("{reason}; deny rules hold in every mode"),
                rule: Some(rule.clone()),
                cause: DenialCause::Policy,
            };
        }
        let shown = becket_types::cut_end(command.trim(), 200);
        match self.settings.mode {
            PermissionMode::BypassPermissions if found.uncertain && self.has_command_rules() => {
                let doubt = found
                    .asks
                    .first()
                    .map_or("the command cannot be parsed reliably", |ask| ask.reason.as_str());
                return Verdict::Ask {
                    reason: format!("deny rules cannot be checked on `{shown}`: {doubt}"),
                    rule: None,
                };
            }
            PermissionMode::BypassPermissions => {
                let refused =
                    self.unavailable(found, false).or_else(|| self.unhidden(access, command, found));
                return refused.unwrap_or_else(bypassed);
            }
            PermissionMode::Plan if !found.read_only => return plan_denies(tool),
            _ => {}
        }
        if let Some(denied) = self.unavailable(found, access.unconfined) {
            return denied;
        }
        if let Some(rule) = self.rules(RuleKind::Ask).find(|rule| rule.is_bare() && rule.covers_tool(tool)) {
            return Verdict::Ask { reason: format!("the rule {rule} asks about every command"), rule: None };
        }
        if let Some((reason, _)) = &found.ask_rule {
            return Verdict::Ask { reason: reason.clone(), rule: None };
        }
        // The model chose this folder, but only the user may extend the workspace.
        if let Some(dir) = access.paths.first().filter(|dir| !path::inside(dir, &self.settings.roots)) {
            let reason = format!(
                "`{shown}` would run in {}, outside the workspace; add it with --add-dir",
                dir.display()
            );
            return Verdict::Ask { reason, rule: None };
        }
        if let Some(verdict) = self.by_sandbox(access, command, shown, found) {
            return verdict;
        }
        if found.asks.is_empty() && !found.why.is_empty() {
            if let Some(verdict) = self.unhidden(access, command, found) {
                return verdict;
            }
            let mut why = found.why.clone();
            why.dedup();
            return Verdict::Allow { why: why.join("; ") };
        }
        Self::ask_command(shown, command, &found.asks)
    }

    fn ask_command(shown: &str, command: &str, asks: &[findings::Ask]) -> Verdict {
        let rule = match asks {
            [only] if only.rule.is_some() => only.rule.clone(),
            _ => Some(rule::exact_rule(command)),
        };
        // Suggest only a valid rule that is short enough to read.
        let rule = rule.filter(|r| command.chars().count() <= command::MAX_CHARS && Rule::parse(r).is_ok());
        Verdict::Ask { reason: findings::reason(shown, asks), rule }
    }
}

fn denied_by(rule: &Rule, what: &str) -> Verdict {
    Verdict::Deny {
        reason: format!("{what} is denied by the rule {rule}; deny rules hold in every mode"),
        rule: Some(rule.to_string()),
        cause: DenialCause::Policy,
    }
}

fn bypassed() -> Verdict {
    Verdict::Allow { why: "permission mode bypassPermissions".to_owned() }
}

fn plan_denies(tool: &str) -> Verdict {
    Verdict::Deny {
        reason: format!("{tool} would write or run something, and permission mode plan only reads"),
        rule: None,
        cause: DenialCause::PlanMode,
    }
}
