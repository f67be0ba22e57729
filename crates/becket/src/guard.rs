//! Builds guards from settings, and judges single rules with one.
//!
//! Owns the guard's inputs from the machine: folders, symbolic links and files. Decides nothing itself.

use crate::disk::Disk;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::settings::RunSettings;
use crate::trust::scripts::{CommandEnvironment, ProjectCommand, with_scripts};
use becket_config::{Origin, Settings, Source};
use becket_guard::{Guard, GuardSettings, ModeLimits, Rule, RuleError, Rules};
use becket_types::{Access, PermissionMode};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Builds the guard of a run.
///
/// # Errors
///
/// Returns a failure for the user if a rule or the managed settings cannot be read.
pub(crate) fn guard(environment: &Environment, run: &RunSettings) -> Result<Guard, Failure> {
    let mut guard = guard_in(environment, &run.settings, &run.project.roots)?;
    let policies = &run.client.policies;
    if !policies.ask.is_empty() || !policies.deny.is_empty() {
        // The driving program set these rules for tools of its own servers. Its ask rules hold in every mode.
        let none: &[String] = &[];
        let rules = Rules::parse(none, &policies.ask, &policies.deny);
        let rules = rules.map_err(|errors| unreadable(&run.settings, &errors))?;
        guard.hold_policies(rules);
    }
    let limits = mode_limits(run);
    guard.limit_modes(limits);
    // This mode comes from a flag, a file or an earlier run of the session, so it is checked like a later change.
    let mode = guard.mode();
    if (limits.bypass_is_off || limits.settings_forbid_bypass) && mode == PermissionMode::BypassPermissions {
        guard.may_enter(mode).map_err(|why| {
            let why = match &run.settings.no_bypass {
                Some(source) if !limits.bypass_is_off => format!("{why}; {source}"),
                _ => why,
            };
            Failure::usage(why).hint("start becket with another --permission-mode, such as auto")
        })?;
    }
    Ok(guard)
}

/// Returns the limits on the modes to which a person or a program may change the session.
fn mode_limits(run: &RunSettings) -> ModeLimits {
    let mode = run.settings.config.permissions.mode;
    let is_managed = matches!(run.settings.source("permission_mode"), Source::Managed(_));
    ModeLimits {
        // In the terminal a person chooses the mode, and confirms `bypassPermissions`.
        no_bypass: !run.interactive
            && !run.client.limits.may_bypass
            && mode != PermissionMode::BypassPermissions,
        bypass_is_off: run.settings.managed_limits.no_bypass,
        settings_forbid_bypass: run.settings.no_bypass.is_some(),
        managed: is_managed.then_some(mode),
    }
}

/// Builds the guard for these settings and folders.
pub(crate) fn guard_in(
    environment: &Environment,
    settings: &Settings,
    roots: &[PathBuf],
) -> Result<Guard, Failure> {
    let config = &settings.config;
    let lists = &config.permissions.rules;
    let wrong = |errors: Vec<RuleError>| unreadable(settings, &errors);
    let rules = Rules::parse(&lists.allow, &lists.ask, &lists.deny).map_err(wrong)?;
    let none: &[String] = &[];
    let floor = Rules::parse(none, &settings.managed("permissions.ask"), none).map_err(wrong)?;
    let mut own = vec![environment.config_dir.clone(), environment.data_dir.clone()];
    own.extend(crate::git_config_files::git_config_files(roots, environment.home.as_deref()));
    // The workspace has no links in its path. If it contains the home folder, the guard must see that.
    let real = crate::sandbox::real_home(environment);
    let home = Some(real).filter(|home| roots.iter().any(|root| home.starts_with(root)));
    let guard = resolving_guard(GuardSettings {
        rules,
        mode: config.permissions.mode,
        roots: roots.to_vec(),
        home: home.or_else(|| environment.home.clone()).unwrap_or_else(|| PathBuf::from("/")),
        own,
    });
    let surroundings = roots.first().map(|root| CommandEnvironment::new(environment, root, root));
    let guard = match surroundings {
        Some(surroundings) => guard.with_scripts(Arc::new(move |command, dir| {
            let commands = [ProjectCommand::Shell(command.to_owned())];
            becket_tool::sha256(with_scripts("", &commands, &surroundings.in_folder(dir)).as_bytes())
        })),
        None => guard,
    };
    let mut guard = guard.with_floor(floor.ask);
    if settings.managed_limits.only_rules {
        guard.close_allow_rules();
    }
    Ok(guard)
}

/// True if a permission rule would match this call as a deny rule, or if that cannot be decided: a command whose words are known only
/// when it runs (`$X -f file`), or that another program reads, may be the one that the rule means. The call is given by the SDK's
/// tool names.
pub(crate) fn rule_fits(
    rule: &str,
    tool: &str,
    input: &serde_json::Value,
    roots: &[PathBuf],
    home: &Path,
) -> Result<bool, String> {
    let none: &[&str] = &[];
    let rules = Rules::parse(none, none, &[rule]).map_err(|errors| {
        errors.first().map_or_else(|| "it cannot be read".to_owned(), ToString::to_string)
    })?;
    let guard = resolving_guard(GuardSettings {
        rules,
        mode: PermissionMode::BypassPermissions,
        roots: roots.to_vec(),
        home: home.to_path_buf(),
        own: Vec::new(),
    });
    let own = becket_types::sdk_names::own_name(tool);
    let text = |key: &str| input.get(key).and_then(serde_json::Value::as_str);
    let path = |key: &str| {
        text(key).map(|path| roots.first().map_or_else(|| PathBuf::from(path), |root| root.join(path)))
    };
    let access = match own.as_ref() {
        "bash" => Access::execute(text("command").unwrap_or_default()),
        "read" | "glob" | "grep" => {
            path("file_path").or_else(|| path("path")).map_or_else(Access::session, Access::read)
        }
        "write" | "edit" | "multi_edit" | "apply_patch" => {
            path("file_path").map_or_else(Access::session, Access::write)
        }
        _ => Access {
            subject: text("url").or_else(|| text("skill")).or_else(|| text("query")).map(str::to_owned),
            ..Access::session()
        },
    };
    Ok(match guard.check(&own, &access, input) {
        becket_guard::Verdict::Deny { .. } => true,
        // In this mode, with this one rule, the guard asks about a command only if it cannot check the rule on it.
        becket_guard::Verdict::Ask { .. } => own == "bash",
        becket_guard::Verdict::Allow { .. } => false,
    })
}

/// Creates a guard that resolves symbolic links and reads the files that patterns match.
pub(crate) fn resolving_guard(settings: GuardSettings) -> Guard {
    let root = PathBuf::from("/");
    Guard::new(settings)
        .with_resolver(Arc::new(move |path| {
            becket_tool::paths::resolve(&root, path).unwrap_or_else(|_| path.to_path_buf())
        }))
        .with_files(Arc::new(Disk))
}

/// Returns the failure for rules that cannot be read, each with its file and line.
fn unreadable(settings: &Settings, errors: &[RuleError]) -> Failure {
    let keys = ["permissions.deny", "permissions.ask", "permissions.allow"];
    let origins: Vec<Origin> = keys.into_iter().flat_map(|key| settings.origins(key)).collect();
    let text = errors.iter().map(|error| {
        // The error has only the beginning of a rule that is too long. A valid rule may begin with the same text.
        let whole = origins.iter().find(|origin| origin.value.trim() == error.text);
        let begins = |origin: &&Origin| {
            origin.value.trim().starts_with(&error.text) && origin.value.parse::<Rule>().is_err()
        };
        match whole.or_else(|| origins.iter().find(begins)).filter(|_| !error.text.is_empty()) {
            Some(origin) => format!("{}: {error}", place(origin)),
            None => error.to_string(),
        }
    });
    Failure::usage(text.collect::<Vec<_>>().join("; "))
}

/// Returns for example `user: /home/u/.config/becket/config.toml, line 3`.
pub(crate) fn place(origin: &Origin) -> String {
    match origin.line {
        Some(line) => format!("{}, line {line}", origin.source),
        None => origin.source.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_condition_fits_a_command_that_may_be_the_one_it_means() {
        let fits = |rule: &str, tool: &str, input: serde_json::Value| {
            rule_fits(rule, tool, &input, &[PathBuf::from("/w")], Path::new("/home/u")).unwrap()
        };
        for (command, expected) in [
            ("rm -f victim", true),
            ("X=rm; $X -f victim", true),
            ("$(echo rm) -f victim", true),
            ("echo 'rm -f victim' | sh", true),
            ("ls; env rm victim", true),
            ("ls src", false),
            ("git status", false),
            ("for f in *.txt; do wc -l \"$f\"; done", false),
        ] {
            assert_eq!(fits("Bash(rm *)", "Bash", json!({"command": command})), expected, "{command}");
        }
        assert!(fits("Edit(src/**)", "Edit", json!({"file_path": "src/a.rs"})));
        assert!(!fits("Edit(src/**)", "Edit", json!({"file_path": "docs/a.md"})));
        assert!(!fits("Bash(rm *)", "Edit", json!({"file_path": "docs/a.md"})));
        assert!(rule_fits("Bash(", "Bash", &json!({}), &[], Path::new("/")).is_err());
    }
}
