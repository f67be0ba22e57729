//! `becket permissions`: lists the rules in force, explains the decision about a call, and tests rules against examples
//! in CI.
//!
//! The guard makes the decisions. This module parses calls from text, and traces rules to the file and line they come
//! from. Needs no session, no model and no network, and runs nothing except the self-test of the sandbox.

mod call;
mod examples;

use crate::args::{ConfigArgs, PermissionsCommandArgs, PermissionsWhat};
use crate::cmd::write;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::guard::place;
use crate::settings::{configuration, project_root, roots};
use becket_config::{Origin, Settings, Source};
use becket_guard::{Explanation, Guard, GuardSettings, Rule, Rules, Verdict};
use becket_print::{ExitStatus, clean};
use becket_types::{SandboxLevel, Verb};
use call::Call;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) fn run(
    environment: &Environment,
    args: &PermissionsCommandArgs,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    match &args.what {
        PermissionsWhat::Explain { call, json, mode, config } => {
            let rights = Rights::read(environment, config, mode.as_deref())?;
            let call = Call::parse(call, environment, &rights.cwd)?;
            let guard = rights.guard(environment)?;
            let found = guard.explain(&call.tool, &call.access, &Value::Null);
            let text = if *json {
                rights.json(&call, &found)
            } else {
                rights.text(&call, &found) + &rights.warnings_text()
            };
            write(out, &text)?;
            Ok(ExitStatus::Ok)
        }
        PermissionsWhat::List { json, config } => {
            let rights = Rights::read(environment, config, None)?;
            write(out, &if *json { rights.list_json() } else { rights.list() })?;
            Ok(ExitStatus::Ok)
        }
        PermissionsWhat::Test { file, json, config } => {
            let rights = Rights::read(environment, config, None)?;
            examples::run(environment, &rights, file, *json, out)
        }
    }
}

/// The rules in force in a folder, each with its origin.
struct Rights {
    cwd: PathBuf,
    roots: Vec<PathBuf>,
    settings: Settings,
}

/// Returns all rules of the settings, the strongest kind first.
fn rules(settings: &Settings) -> Vec<(Verb, Origin)> {
    let kinds = [
        (Verb::Deny, "permissions.deny"),
        (Verb::Ask, "permissions.ask"),
        (Verb::Allow, "permissions.allow"),
    ];
    kinds
        .into_iter()
        .flat_map(|(verb, key)| settings.origins(key).into_iter().map(move |origin| (verb, origin)))
        .collect()
}

/// Returns a line for each rule that has no effect, with its file and the reason.
pub(crate) fn rules_without_effect(settings: &Settings) -> Vec<String> {
    let faulty = rules(settings).into_iter().filter_map(|(verb, origin)| {
        let why = Rights::fault(verb, &origin)?;
        Some(format!("{}: the rule {:?} has no effect: {why}", place(&origin), origin.value))
    });
    faulty.collect()
}

impl Rights {
    fn read(environment: &Environment, args: &ConfigArgs, mode: Option<&str>) -> Result<Self, Failure> {
        let cwd = crate::settings::enter(args.cd.as_deref())?;
        let root = project_root(&cwd);
        // As in a session, the files of an untrusted project can only forbid.
        let trusted = crate::trust::content_lines(&root, &cwd).is_empty()
            || crate::trust::is_trusted(environment, &root);
        let mut settings = configuration(environment, &cwd, args, Vec::new(), trusted)?;
        if let Some(mode) = mode {
            settings.config.permissions.mode =
                mode.parse().map_err(|e| Failure::usage(format!("--permission-mode: {e}")))?;
        }
        let roots = roots(&cwd, &settings.config.add_dirs)?;
        Ok(Self { cwd, roots, settings })
    }

    fn guard(&self, environment: &Environment) -> Result<Guard, Failure> {
        let config = &self.settings.config.tools.sandbox;
        let sandbox = crate::sandbox::sandbox(environment, &self.settings.config, &self.roots).map(Arc::new);
        let guard = crate::guard::guard_in(environment, &self.settings, &self.roots)?;
        Ok(guard.with_sandbox(crate::sandbox::rules(config, sandbox.as_ref())))
    }

    /// Returns why a rule has no effect: it cannot be read, or names a tool that does not exist. `None`: it is in force.
    fn fault(verb: Verb, origin: &Origin) -> Option<String> {
        if let Err(error) = Rule::parse(&origin.value) {
            return Some(format!("{}; write {}", error.message, error.nearest));
        }
        let (one, none): (&[&str], &[&str]) = (&[origin.value.as_str()], &[]);
        let rules = match verb {
            Verb::Allow => Rules::parse(one, none, none),
            Verb::Ask => Rules::parse(none, one, none),
            Verb::Deny => Rules::parse(none, none, one),
        };
        let guard = Guard::new(GuardSettings { rules: rules.ok()?, ..GuardSettings::default() });
        let tools = || crate::toolbox::specs().into_iter().map(|tool| tool.name).collect();
        guard.warnings(&tools).into_iter().next()
    }

    /// Returns all rules, the strongest kind first.
    fn rules(&self) -> Vec<(Verb, Origin)> {
        rules(&self.settings)
    }

    /// Returns the origin of the rule that decided.
    fn origin(&self, verb: Verb, rule: &str) -> Option<Origin> {
        let same = |(kind, origin): &(Verb, Origin)| *kind == verb && origin.value.trim() == rule;
        // In the mode `dontAsk`, a call that an ask rule matches is denied, so the deciding rule may be an ask rule.
        let rules = self.rules();
        let any = |(_, origin): &(Verb, Origin)| origin.value.trim() == rule;
        rules
            .iter()
            .find(|r| same(r))
            .or_else(|| rules.iter().find(|r| any(r)))
            .map(|(_, origin)| origin.clone())
    }

    fn rule_json(&self, verb: Verb, rule: Option<&str>) -> Value {
        let Some(rule) = rule else { return Value::Null };
        match self.origin(verb, rule) {
            Some(origin) => origin_json(&origin),
            None => json!({ "rule": rule }),
        }
    }

    fn json(&self, call: &Call, found: &Explanation) -> String {
        let parts = found.parts.iter().map(|part| {
            json!({
                "text": part.text,
                "decision": part.verb,
                "rule": self.rule_json(part.verb, part.rule.as_deref()),
                "reason": part.reason,
            })
        });
        let offer = match &found.verdict {
            Verdict::Ask { rule, .. } => rule.clone(),
            _ => None,
        };
        let value = json!({
            "call": call.text,
            "tool": call.tool,
            "mode": self.settings.config.permissions.mode,
            "decision": found.verb(),
            "by": found.by,
            "rule": self.rule_json(found.verb(), found.rule.as_deref()),
            "reason": found.reason(),
            "rule_to_allow": offer,
            "parts": parts.collect::<Vec<_>>(),
            "parts_overruled": is_allowed_as_whole(found),
            "warnings": self.warnings(),
        });
        format!("{value}\n")
    }

    /// Returns a line for everything about permissions in the settings that has no effect.
    fn warnings(&self) -> Vec<String> {
        let all = self.settings.warnings.iter().map(ToString::to_string);
        let mut lines: Vec<String> = all.filter(|line| line.contains("permission")).collect();
        lines.extend(rules_without_effect(&self.settings));
        lines
    }

    fn warnings_text(&self) -> String {
        let lines = self.warnings();
        lines
            .iter()
            .fold(String::new(), |text, line| text + "warning: " + &clean(&line.replace('\n', "\\n")) + "\n")
    }

    fn text(&self, call: &Call, found: &Explanation) -> String {
        let mut lines = vec![
            format!("{}: {}", found.verb(), call.text),
            format!("  reason: {}", found.reason()),
            format!("  permission mode: {}", self.settings.config.permissions.mode),
        ];
        if let Some(rule) = &found.rule {
            let origin =
                self.origin(found.verb(), rule).map(|o| format!(" ({})", place(&o))).unwrap_or_default();
            lines.push(format!("  rule: {rule}{origin}"));
        }
        if found.level == SandboxLevel::DenyRules {
            lines.push(
                "  sandbox: the files that deny rules name are withheld from it (level deny-rules)"
                    .to_owned(),
            );
        }
        if found.parts.len() > 1 {
            let heading = if is_allowed_as_whole(found) {
                "  parts, as each would be decided by itself; the rule above names the whole command and decides:"
            } else {
                "  parts:"
            };
            lines.push(heading.to_owned());
            for part in &found.parts {
                lines.push(format!("    {:<5} {}: {}", part.verb.as_str(), part.text, part.reason));
            }
        }
        if let Verdict::Ask { rule: Some(rule), .. } = &found.verdict {
            lines.push(format!("  to allow it: {rule} ({})", becket_guard::covers(rule)));
        }
        lines.iter().fold(String::new(), |text, line| text + &clean(&line.replace('\n', "\\n")) + "\n")
    }

    fn list(&self) -> String {
        let rules = self.rules();
        let mut text = format!("permission mode: {}\n", self.settings.config.permissions.mode);
        if rules.is_empty() {
            text.push_str(
                "There are no rules. Add some as permissions.allow, .ask or .deny to your configuration.\n",
            );
        }
        let width = rules.iter().map(|(_, o)| o.value.chars().count()).max().unwrap_or(0).min(60);
        for (verb, origin) in &rules {
            let line = format!("{:<5}  {:<width$}  {}", verb.as_str(), origin.value, place(origin));
            text = text + &clean(&line.replace('\n', "\\n")) + "\n";
            if let Some(fault) = Self::fault(*verb, origin) {
                text = text + "       no effect: " + &clean(&fault.replace('\n', "\\n")) + "\n";
            }
        }
        for warning in &self.settings.warnings {
            text = text + "warning: " + &clean(&warning.to_string()) + "\n";
        }
        text
    }

    fn list_json(&self) -> String {
        let rules = self.rules().into_iter().map(|(verb, origin)| {
            let mut row = origin_json(&origin);
            row["kind"] = json!(verb);
            row["fault"] = json!(Self::fault(verb, &origin));
            row
        });
        let warnings: Vec<String> = self.settings.warnings.iter().map(ToString::to_string).collect();
        let value = json!({
            "mode": self.settings.config.permissions.mode,
            "rules": rules.collect::<Vec<_>>(),
            "warnings": warnings,
        });
        format!("{value}\n")
    }
}

/// True if a rule for the whole command allows it although its parts alone would not be allowed.
fn is_allowed_as_whole(found: &Explanation) -> bool {
    found.verb() == Verb::Allow && found.parts.iter().any(|part| part.verb != Verb::Allow)
}

/// Returns the scope of a source, and the file or flag it names.
fn scope(source: &Source) -> (&'static str, Option<String>) {
    let file = |path: &Path| Some(path.display().to_string());
    match source {
        Source::Default => ("default", None),
        Source::Session => ("session", None),
        Source::User(path) => ("user", file(path)),
        Source::Project(path) => ("project", file(path)),
        Source::Local(path) => ("local", file(path)),
        Source::Managed(path) => ("managed", file(path)),
        Source::Environment(name) => ("environment", Some(name.clone())),
        Source::Settings(label) => ("settings", Some(label.clone())),
        Source::Flag(flag) => ("flag", Some(flag.clone())),
    }
}

fn origin_json(origin: &Origin) -> Value {
    let (scope, file) = scope(&origin.source);
    json!({ "rule": origin.value, "scope": scope, "file": file, "line": origin.line })
}
