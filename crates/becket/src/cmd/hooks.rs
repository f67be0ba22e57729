//! `becket hooks`: lists the configured hooks with their origin and state, and tries the hooks of one event.
//!
//! Listing runs nothing. A trial runs the hooks that would run, with a made-up input.

use crate::agents::Agents;
use crate::args::{HooksCommandArgs, HooksWhat};
use crate::cmd::write;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::hooks::{self, HookSources, HookTable};
use crate::settings::{configuration, project_root, roots};
use crate::toolbox;
use crate::trust::content::{ContentTrust, State};
use becket_config::Settings;
use becket_print::{ExitStatus, clean};
use becket_tool_skill::Skills;
use becket_types::{HookCall, HookEvent, HookOutcome, HookPermission, HookResult};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

pub(crate) fn run(
    environment: &Environment,
    args: &HooksCommandArgs,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    match &args.what {
        HooksWhat::List { json, config, .. } => {
            let found = list(environment, config)?;
            write(out, &if *json { list_json(&found) } else { list_text(&found) })?;
            Ok(ExitStatus::Ok)
        }
        HooksWhat::Test { event, tool, input, trust, json, config, .. } => {
            let here = HookConfig::read(environment, config, *trust)?;
            let call = here.call(event, tool.as_deref(), input.as_deref())?;
            here.test(environment, call, *json, out)
        }
    }
}

/// Returns the configured hooks.
pub(crate) fn list(environment: &Environment, args: &crate::args::ConfigArgs) -> Result<HookList, Failure> {
    Ok(HookConfig::read(environment, args, false)?.list(environment))
}

struct HookConfig {
    cwd: PathBuf,
    roots: Vec<PathBuf>,
    settings: Settings,
    trust: ContentTrust,
    agents: Agents,
    skills: Skills,
}

/// The configured hooks, with warnings about them.
pub(crate) struct HookList {
    pub rows: Vec<HookRow>,
    pub warnings: Vec<String>,
    /// Name of the setting that switches off all hooks except the administrator's; `None` if hooks are on.
    pub off: Option<&'static str>,
}

impl HookList {
    /// Says that hooks are off, and by which setting. `None` if they are on.
    pub(crate) fn off_line(&self) -> Option<String> {
        let what = if self.rows.is_empty() { "no hook runs" } else { "only the administrator's hooks run" };
        self.off.map(|key| format!("{key} is set: {what}."))
    }
}

/// A row of the list.
pub(crate) struct HookRow {
    pub event: HookEvent,
    pub matcher: String,
    pub kind: &'static str,
    pub hook: String,
    pub source: String,
    pub state: &'static str,
}

impl HookConfig {
    fn read(
        environment: &Environment,
        args: &crate::args::ConfigArgs,
        everything: bool,
    ) -> Result<Self, Failure> {
        let cwd = crate::settings::enter(args.cd.as_deref())?;
        let root = project_root(&cwd);
        let settings = configuration(environment, &cwd, args, Vec::new(), true)?;
        let roots = roots(&cwd, &settings.config.add_dirs)?;
        let trust = ContentTrust::for_project(environment, &root, everything);
        let agents = Agents::find(environment, &cwd, true, &[]);
        let skills = toolbox::skills(environment, &cwd, &settings.config, true);
        Ok(Self { cwd, roots, settings, trust, agents, skills })
    }

    fn bearers(&self) -> HookSources<'_> {
        HookSources { agents: &self.agents.all, skills: Some(&self.skills) }
    }

    fn list(&self, environment: &Environment) -> HookList {
        let search = hooks::search(environment, &self.cwd, &self.settings, self.bearers());
        let mut warnings = [search.faults, search.warnings].concat();
        let mut rows = Vec::new();
        for found in &search.found {
            let state = self.state(environment, found);
            let parsed = found.parse();
            warnings.extend(parsed.faults.into_iter().chain(parsed.warnings));
            for group in parsed.groups {
                rows.extend(group.handlers.iter().map(|handler| HookRow {
                    event: group.event,
                    matcher: group.matcher_text.clone(),
                    kind: handler.kind.name(),
                    hook: handler.kind.label(),
                    source: group.source.label(),
                    state,
                }));
            }
        }
        rows.sort_by_key(|row| row.event);
        let off = if self.settings.managed_limits.only_hooks {
            Some("allowManagedHooksOnly")
        } else {
            self.settings.config.hooks.disabled.then_some("disable_all_hooks")
        };
        HookList { rows, warnings, off }
    }

    fn state(&self, environment: &Environment, found: &HookTable) -> &'static str {
        if !found.source.confined {
            return "runs";
        }
        match self.trust.state(&hooks::item(environment, found, &project_root(&self.cwd), &self.cwd)) {
            State::Trusted => "runs",
            State::Refused => "refused",
            State::New => "not trusted",
            State::Changed { .. } => "changed, not trusted",
        }
    }

    /// Returns a call of this event. Input that is not given is made up.
    fn call(&self, event: &str, tool: Option<&str>, input: Option<&str>) -> Result<HookCall, Failure> {
        let event = HookEvent::parse(event).ok_or_else(|| {
            let all: Vec<&str> = HookEvent::ALL.iter().map(|event| event.as_str()).collect();
            let hint = match becket_tool::text::nearest(event, all.iter().copied()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("the events: {}", all.join(", ")),
            };
            Failure::usage(format!("there is no hook event {event:?}")).hint(hint)
        })?;
        let given: Option<Value> = match input {
            None => None,
            Some(text) => Some(
                serde_json::from_str(text)
                    .ok()
                    .filter(Value::is_object)
                    .ok_or_else(|| Failure::usage("--input takes a JSON object"))?,
            ),
        };
        let mut keys = Map::new();
        for (key, value) in [
            ("session_id", json!("00000000-0000-7000-8000-000000000000")),
            ("transcript_path", json!("/dev/null")),
            ("cwd", json!(self.cwd.to_string_lossy())),
            ("permission_mode", json!(self.settings.config.permissions.mode.to_string())),
            ("hook_event_name", json!(event.as_str())),
        ] {
            keys.insert(key.to_owned(), value);
        }
        let of_tool = matches!(
            event,
            HookEvent::PreToolUse
                | HookEvent::PostToolUse
                | HookEvent::PostToolUseFailure
                | HookEvent::PermissionRequest
                | HookEvent::PermissionDenied
        );
        let subject = tool.map(str::to_owned).or_else(|| of_tool.then(|| "Bash".to_owned()));
        if of_tool {
            keys.insert("tool_name".to_owned(), json!(subject));
            keys.insert("tool_input".to_owned(), given.unwrap_or_else(|| json!({ "command": "echo test" })));
            keys.insert("tool_use_id".to_owned(), json!("toolu_test"));
        } else if let Some(Value::Object(given)) = given {
            keys.extend(given);
        }
        Ok(HookCall { event, subject, call_id: None, input: keys, watch: None })
    }

    fn test(
        &self,
        environment: &Environment,
        call: HookCall,
        as_json: bool,
        out: &mut dyn Write,
    ) -> Result<ExitStatus, Failure> {
        let found = hooks::groups(environment, &self.cwd, &self.settings, &self.trust, self.bearers());
        let (groups, mut notes) = found.into_result()?;
        let config = &self.settings.config.tools.sandbox;
        let sandbox =
            crate::sandbox::sandbox(environment, &self.settings.config, &self.roots).map(std::sync::Arc::new);
        let programs = crate::sandbox::programs(environment, config, sandbox.as_ref(), &self.roots);
        let engine = hooks::engine(environment, &self.settings, (&self.cwd, &self.roots), groups, programs);
        let event = call.event;
        let outcome = crate::runtime()?.block_on(engine.run(call));
        notes.extend(self.trust.note());
        let text = if as_json { test_json(&outcome, &notes) } else { test_text(event, &outcome, &notes) };
        write(out, &text)?;
        let failed =
            outcome.runs.iter().any(|run| matches!(run.result, HookResult::Failed | HookResult::TimedOut));
        Ok(if failed { ExitStatus::Error } else { ExitStatus::Ok })
    }
}

fn list_text(listed: &HookList) -> String {
    let HookList { rows, warnings, .. } = listed;
    let mut text = String::new();
    if let Some(line) = listed.off_line() {
        let _ = writeln!(text, "{line}");
    } else if rows.is_empty() {
        text.push_str("No hooks are configured.\n");
    }
    for row in rows {
        let matcher = if row.matcher.is_empty() { "*" } else { &row.matcher };
        let _ = writeln!(
            text,
            "{:<18} {:<16} {:<8} {}  ({}; {})",
            row.event.as_str(),
            clean(matcher),
            row.kind,
            clean(&row.hook),
            clean(&row.source),
            row.state
        );
    }
    for warning in warnings {
        let _ = writeln!(text, "warning: {}", clean(warning));
    }
    text
}

fn list_json(HookList { rows, warnings, .. }: &HookList) -> String {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "event": row.event.as_str(), "matcher": row.matcher, "type": row.kind, "hook": row.hook,
                "source": row.source, "state": row.state,
            })
        })
        .collect();
    format!("{}\n", json!({ "hooks": rows, "warnings": warnings }))
}

fn decision(outcome: &HookOutcome) -> String {
    match &outcome.permission {
        Some(HookPermission::Deny { reason }) => return format!("deny: {reason}"),
        Some(HookPermission::Ask { reason }) => return format!("ask: {reason}"),
        Some(HookPermission::Defer { reason }) => return format!("defer: {reason}"),
        Some(HookPermission::Allow { reason }) => return format!("allow: {reason}"),
        None => {}
    }
    match (&outcome.block, &outcome.stop) {
        (Some(block), _) => format!("block: {}", block.text),
        (None, Some(stop)) => format!("stop: {stop}"),
        (None, None) => "none".to_owned(),
    }
}

fn test_text(event: HookEvent, outcome: &HookOutcome, notes: &[String]) -> String {
    let mut text = String::new();
    for run in &outcome.runs {
        let _ = write!(
            text,
            "{} {} ms  {}  {}",
            run.result.as_str(),
            run.duration.0,
            run.handler,
            clean(&run.hook)
        );
        let detail = if run.detail.is_empty() { String::new() } else { format!(": {}", clean(&run.detail)) };
        let _ = writeln!(text, "{detail}");
    }
    if outcome.runs.is_empty() {
        let _ = writeln!(text, "No hook of {event} matches.");
    } else {
        let _ = writeln!(text, "decision: {}", clean(&decision(outcome)));
    }
    for context in &outcome.context {
        let _ = writeln!(text, "context: {}", clean(&context.text));
    }
    for note in notes {
        let _ = writeln!(text, "note: {}", clean(note));
    }
    text
}

fn test_json(outcome: &HookOutcome, notes: &[String]) -> String {
    let context: Vec<&str> = outcome.context.iter().map(|context| context.text.as_str()).collect();
    format!(
        "{}\n",
        json!({
            "runs": outcome.runs, "decision": decision(outcome), "context": context,
            "updated_input": outcome.updated_input, "notes": notes,
        })
    )
}
