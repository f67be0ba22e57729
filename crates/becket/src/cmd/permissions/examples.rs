//! `becket permissions test FILE`: checks rules against calls that they must and must not match, and the rules in force
//! against expected decisions. Made for CI: the exit code is 0 only if all of them hold.

use super::Rights;
use super::call::{Call, split};
use crate::cmd::write;
use crate::environment::Environment;
use crate::failure::Failure;
use becket_guard::{Guard, GuardSettings, Rules};
use becket_print::{ExitStatus, clean};
use becket_types::{PermissionMode, Verb};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Cases {
    rule: Vec<RuleCase>,
    call: Vec<CallCase>,
}

/// A rule with examples. An example is a call, or only the text between the parentheses of a call of the rule's tool.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleCase {
    rule: String,
    #[serde(default = "allow")]
    kind: Verb,
    #[serde(default, rename = "match")]
    matches: Vec<String>,
    #[serde(default)]
    not_match: Vec<String>,
}

/// A call, with the expected decision of the rules in force.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallCase {
    call: String,
    decision: Verb,
    #[serde(default)]
    mode: Option<PermissionMode>,
}

fn allow() -> Verb {
    Verb::Allow
}

/// A line of the report.
struct Outcome {
    ok: bool,
    subject: String,
    example: String,
    expected: String,
    found: String,
    reason: String,
}

pub(super) fn run(
    environment: &Environment,
    rights: &Rights,
    file: &Path,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    let cases = read(file)?;
    let mut outcomes = Vec::new();
    for case in &cases.rule {
        rule_case(environment, rights, case, &mut outcomes)?;
    }
    if !cases.call.is_empty() {
        // The guard looks at the workspace and tests the sandbox when it is made, so one judges all calls.
        let mut guard = rights.guard(environment)?;
        for case in &cases.call {
            outcomes.push(call_case(environment, rights, &mut guard, case)?);
        }
    }
    if outcomes.is_empty() {
        return Err(Failure::usage(format!("{} contains no examples", file.display()))
            .hint("write [[rule]] with rule, match and not_match, or [[call]] with call and decision"));
    }
    let failed = outcomes.iter().filter(|o| !o.ok).count();
    let text = if as_json {
        json_report(&outcomes, failed, &rights.warnings())
    } else {
        rights.warnings_text() + &text_report(&outcomes, failed)
    };
    write(out, &text)?;
    Ok(if failed == 0 { ExitStatus::Ok } else { ExitStatus::Error })
}

fn read(file: &Path) -> Result<Cases, Failure> {
    let text = becket_config::read_text(file)
        .map_err(|e| Failure::usage(e.to_string()))?
        .ok_or_else(|| Failure::usage(format!("there is no file {}", file.display())))?;
    let wrong = |e: String| Failure::usage(format!("{}: {}", file.display(), e.trim()));
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(&text).map_err(|e| wrong(e.to_string()));
    }
    toml::from_str(&text).map_err(|e| wrong(e.to_string()))
}

fn rule_case(
    environment: &Environment,
    rights: &Rights,
    case: &RuleCase,
    outcomes: &mut Vec<Outcome>,
) -> Result<(), Failure> {
    let guard = guard_with_rule(environment, rights, case)?;
    let tool = case.rule.split('(').next().unwrap_or_default().trim();
    let examples = case.matches.iter().map(|text| (text, true));
    for (text, wanted) in examples.chain(case.not_match.iter().map(|text| (text, false))) {
        let same_tool =
            |(name, inner): (&str, Option<&str>)| inner.is_some() || name.eq_ignore_ascii_case(tool);
        let whole = split(text).is_some_and(same_tool);
        let call = if whole { text.clone() } else { format!("{tool}({text})") };
        let call = Call::parse(&call, environment, &rights.cwd)?;
        let found = guard.explain(&call.tool, &call.access, &Value::Null);
        let matched = match case.kind {
            Verb::Allow => found.covered,
            Verb::Ask => found.verb() == Verb::Ask && found.rule.is_some(),
            Verb::Deny => found.verb() == Verb::Deny && found.rule.is_some(),
        };
        let words = |matched: bool| if matched { "match" } else { "no match" }.to_owned();
        outcomes.push(Outcome {
            ok: matched == wanted,
            subject: format!("{} {}", case.kind, case.rule),
            example: call.text,
            expected: words(wanted),
            found: words(matched),
            reason: found.reason().to_owned(),
        });
    }
    Ok(())
}

/// Returns a guard that has only this rule.
fn guard_with_rule(environment: &Environment, rights: &Rights, case: &RuleCase) -> Result<Guard, Failure> {
    let rule = std::slice::from_ref(&case.rule);
    let none: &[String] = &[];
    let parsed = match case.kind {
        Verb::Allow => Rules::parse(rule, none, none),
        Verb::Ask => Rules::parse(none, rule, none),
        Verb::Deny => Rules::parse(none, none, rule),
    };
    let rules = parsed.map_err(|errors| {
        Failure::usage(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    })?;
    Ok(crate::guard::resolving_guard(GuardSettings {
        rules,
        mode: PermissionMode::Default,
        roots: rights.roots.clone(),
        home: environment.home.clone().unwrap_or_default(),
        own: Vec::new(),
    }))
}

fn call_case(
    environment: &Environment,
    rights: &Rights,
    guard: &mut Guard,
    case: &CallCase,
) -> Result<Outcome, Failure> {
    guard.set_mode(case.mode.unwrap_or(rights.settings.config.permissions.mode));
    let call = Call::parse(&case.call, environment, &rights.cwd)?;
    let found = guard.explain(&call.tool, &call.access, &Value::Null);
    Ok(Outcome {
        ok: found.verb() == case.decision,
        subject: "rules in force".to_owned(),
        example: call.text,
        expected: case.decision.to_string(),
        found: found.verb().to_string(),
        reason: found.reason().to_owned(),
    })
}

fn json_report(outcomes: &[Outcome], failed: usize, warnings: &[String]) -> String {
    let rows: Vec<Value> = outcomes
        .iter()
        .map(|o| {
            json!({
                "ok": o.ok, "rule": o.subject, "call": o.example, "expected": o.expected, "found": o.found,
                "reason": o.reason,
            })
        })
        .collect();
    format!(
        "{}\n",
        json!({ "ok": failed == 0, "checked": outcomes.len(), "failed": failed, "examples": rows, "warnings": warnings })
    )
}

/// Returns the failures, and a line with the counts.
fn text_report(outcomes: &[Outcome], failed: usize) -> String {
    let line = |o: &Outcome| {
        let text = format!(
            "FAILED {}: {}: expected {}, found {} ({})",
            o.subject, o.example, o.expected, o.found, o.reason
        );
        format!("{}\n", clean(&text.replace('\n', "\\n")))
    };
    let mut text: String = outcomes.iter().filter(|o| !o.ok).map(line).collect();
    let total = format!("{} examples, {failed} failed\n", outcomes.len());
    text.push_str(&total);
    text
}
