//! `becket sandbox`: runs a command confined like the model's commands, so that anyone can try to break out. Without a
//! command, shows what confines commands here.

use crate::args::{LevelArg, SandboxArgs};
use crate::environment::Environment;
use crate::failure::{Failure, unwritten};
use becket_config::{SandboxConfig, SandboxNetwork};
use becket_network::HostRules;
use becket_print::ExitStatus;
use becket_sandbox::{Network, Policy, Sandbox, SelfTest};
use becket_types::SandboxLevel;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &SandboxArgs,
    out: &mut impl Write,
) -> Result<ExitStatus, Failure> {
    let level = match args.level {
        LevelArg::ReadOnly => SandboxLevel::ReadOnly,
        LevelArg::Workspace => SandboxLevel::Workspace,
    };
    let settings = crate::settings::configuration(environment, cwd, &args.config, Vec::new(), true)?;
    let sandbox = crate::sandbox::sandbox(environment, &settings.config, &[cwd.to_path_buf()])
        .ok_or_else(|| Failure::error("becket's own binary was not found, so nothing can be confined"))?;
    if args.command.is_empty() {
        let unsearched = crate::sandbox::unsearched(environment, &settings.config, &[cwd.to_path_buf()]);
        if args.json {
            let mut shown = as_json(&settings.config.tools.sandbox, &sandbox)?;
            shown["deny_rules"] = json!(unsearched);
            writeln!(out, "{shown}").map_err(|error| unwritten(&error))?;
        } else {
            show(&settings.config.tools.sandbox, &sandbox, out)?;
            if let Some(unsearched) = unsearched {
                let text = becket_print::clean(&unsearched);
                writeln!(out, "\ndeny rules: {text}").map_err(|error| unwritten(&error))?;
            }
        }
        let works = sandbox.backend(SandboxLevel::Workspace).works();
        return Ok(if works { ExitStatus::Ok } else { ExitStatus::Error });
    }
    // A name that begins with `-` is a flag that clap did not know and took for the command.
    if let Some(flag) = args.command.first().map(|word| word.to_string_lossy()).filter(|w| w.starts_with('-'))
    {
        let flag = becket_print::clean(&flag).into_owned();
        return Err(Failure::usage(format!("becket sandbox has no option {flag}"))
            .hint("becket sandbox --level read-only -- CMD; all options: becket help sandbox"));
    }
    if let Some(status) = missing(environment, cwd, &args.command) {
        return Ok(status);
    }
    let confined = sandbox.confine(level, None).map_err(|e| Failure::error(e.to_string()))?;
    let Some((first, rest)) = confined.words.split_first() else {
        return Err(Failure::error("there is no command"));
    };
    let lease = sandbox.protect(level);
    let status = Command::new(first)
        .args(rest)
        .args(&args.command)
        .env("TMPDIR", &confined.temp)
        .status()
        .map_err(|e| Failure::error(format!("the command was not started: {e}")))?;
    drop(lease);
    for line in sandbox.undone() {
        let line = becket_print::clean(&line).into_owned();
        let _ =
            writeln!(std::io::stderr(), "becket: the sandbox does not let commands change this file: {line}");
    }
    // Reports the hosts that the proxy refused, because the command itself saw only "403", or nothing at all.
    for line in confined.pass.iter().flat_map(|pass| pass.refusals()) {
        let _ = writeln!(std::io::stderr(), "becket: the sandbox refused {}", becket_print::clean(&line));
    }
    // Exit codes follow the convention of shells.
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(ExitStatus::Command(u8::try_from(code).unwrap_or(1)))
}

/// Reports a program that is missing or cannot be run, with the exit code that a shell uses for that. This is checked before
/// the start, because a backend reports it in words of its own, with an exit code that a command could return as well.
fn missing(environment: &Environment, cwd: &Path, command: &[OsString]) -> Option<ExitStatus> {
    let name = command.first()?;
    let shown = becket_print::clean(&name.to_string_lossy()).into_owned();
    let runs = |path: &Path| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    let (why, code) = if name.as_encoded_bytes().contains(&b'/') {
        let path = cwd.join(name);
        match path.metadata() {
            Err(_) => (format!("{shown}: there is no such file"), 127),
            Ok(_) if runs(&path) => return None,
            Ok(_) => (format!("{shown} is not a program that can be run"), 126),
        }
    } else {
        let search = environment.var("PATH").unwrap_or("/usr/bin:/bin");
        if std::env::split_paths(search).any(|dir| runs(&cwd.join(dir).join(name))) {
            return None;
        }
        (format!("{shown}: command not found; it is in no folder of PATH"), 127)
    };
    let _ = writeln!(std::io::stderr(), "becket: {why}");
    Some(ExitStatus::Command(code))
}

/// Prints the backend of each level and the paths that it may reach.
pub(crate) fn show(config: &SandboxConfig, sandbox: &Sandbox, out: &mut dyn Write) -> Result<(), Failure> {
    let failed = |error: std::io::Error| unwritten(&error);
    writeln!(out, "sandbox: {}", crate::sandbox::summary(config, Some(sandbox))).map_err(failed)?;
    writeln!(out, "mode: {}\n", config.mode.as_str()).map_err(failed)?;
    for level in levels(config, sandbox)? {
        writeln!(out, "{}: {}", level.level, level.backend).map_err(failed)?;
        for (name, places) in level.places {
            for place in places {
                writeln!(out, "  {name}: {}", place.display()).map_err(failed)?;
            }
        }
        writeln!(out, "  network: {}", level.network).map_err(failed)?;
        if let Some(services) = level.services {
            writeln!(out, "  local services: {services}").map_err(failed)?;
        }
        if let Some(test) = level.self_test {
            let (count, time) = (test.forbidden, test.took.as_millis());
            writeln!(out, "  self-test: {count} forbidden actions failed, as they must ({time} ms)")
                .map_err(failed)?;
        }
    }
    Ok(())
}

/// Returns as JSON what [`show`] prints.
fn as_json(config: &SandboxConfig, sandbox: &Sandbox) -> Result<Value, Failure> {
    let levels: Vec<Value> = levels(config, sandbox)?
        .into_iter()
        .map(|level| {
            let places = level.places.into_iter().map(|(name, places)| {
                let paths: Vec<_> = places.iter().map(|place| place.to_string_lossy()).collect();
                (name.replace([' ', '-'], "_"), json!(paths))
            });
            let works = sandbox.backend(level.level).works();
            json!({
                "level": level.level.to_string(), "backend": level.backend, "works": works, "network": level.network,
                "local_services": level.services, "self_test": level.self_test.map(|test| {
                    json!({"forbidden_actions": test.forbidden, "milliseconds": test.took.as_millis() as u64})
                }),
                "places": places.collect::<serde_json::Map<_, _>>(),
            })
        })
        .collect();
    let summary = crate::sandbox::summary(config, Some(sandbox));
    Ok(json!({ "sandbox": summary, "mode": config.mode.as_str(), "levels": levels }))
}

/// The access of commands at one level: files, network and local services.
pub(crate) struct LevelReach {
    pub level: SandboxLevel,
    pub backend: String,
    /// Four labels, such as `reads` and `hidden`, each with its paths.
    pub places: [(&'static str, Vec<PathBuf>); 4],
    pub network: String,
    /// The Unix sockets that commands can reach, or why they reach none; `None` if the configuration names no sockets.
    pub services: Option<String>,
    pub self_test: Option<SelfTest>,
}

pub(crate) fn levels(config: &SandboxConfig, sandbox: &Sandbox) -> Result<Vec<LevelReach>, Failure> {
    let reach = |level| {
        let policy = sandbox.policy(level).map_err(|e| Failure::error(e.to_string()))?;
        let network = network(config, policy.network, level);
        let services = services(config, &policy, level);
        let self_test = sandbox.self_test(level);
        let places = [
            ("reads", policy.read),
            ("writes", policy.write),
            ("hidden", policy.deny_read),
            ("read-only inside", policy.protected),
        ];
        Ok(LevelReach {
            level,
            backend: sandbox.backend(level).to_string(),
            places,
            network,
            services,
            self_test,
        })
    };
    [SandboxLevel::ReadOnly, SandboxLevel::Workspace].into_iter().map(reach).collect()
}

/// Describes the local services that a level reaches.
fn services(config: &SandboxConfig, policy: &Policy, level: SandboxLevel) -> Option<String> {
    if config.unix_sockets.is_empty() || level != SandboxLevel::Workspace {
        return None;
    }
    let missing: Vec<&str> =
        config.unix_sockets.iter().map(String::as_str).filter(|path| !Path::new(path).exists()).collect();
    let mut text = match policy.unix_sockets.as_slice() {
        [] if missing.len() == config.unix_sockets.len() => "none".to_owned(),
        [] => "none, because this needs bubblewrap; with network = \"full\" also Landlock of version 6"
            .to_owned(),
        some => some.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "),
    };
    if !missing.is_empty() {
        text = format!("{text}; not there: {}", missing.join(", "));
    }
    Some(text)
}

/// Describes the network access of a level. `given`: the access that its backend can grant.
fn network(config: &SandboxConfig, given: Network, level: SandboxLevel) -> String {
    match given {
        Network::Proxy => {
            let mut text = format!("proxy; reached: {}", config.allow_hosts.join(", "));
            if !config.deny_hosts.is_empty() {
                text = format!("{text}; never: {}", config.deny_hosts.join(", "));
            }
            if let Err(entry) = HostRules::new(&config.allow_hosts, &config.deny_hosts) {
                text = format!("{text}; no host is allowed, because an entry is invalid: {entry}");
            }
            text
        }
        Network::Off if level == SandboxLevel::Workspace && config.network() == SandboxNetwork::Proxy => {
            "off, because the proxy needs bubblewrap".to_owned()
        }
        Network::Off | Network::Full => given.as_str().to_owned(),
    }
}
