//! `becket doctor`: reports problems and how to solve them. Changes nothing, except that `--repair` makes sound copies
//! of damaged sessions.

mod secrets;

use crate::agents::Agents;
use crate::args::{ConfigArgs, DoctorArgs, DoctorWhat};
use crate::cmd::context::LoadedSession;
use crate::cmd::permissions::rules_without_effect;
use crate::cmd::{count, pick_session, short, store_failure, write};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::interactive::preferences;
use crate::models::model_settings;
use crate::settings::{configuration, project_root, roots};
use crate::{hooks, toolbox};
use becket_config::Settings;
use becket_model::{ErrorKind, ModelRef, probe};
use becket_print::ExitStatus;
use becket_session::context::repair::PENDING;
use becket_session::index::Index;
use becket_session::salvage::{Outcome, salvage};
use becket_session::store::SessionSummary;
use becket_session::{CreateOptions, blobs, ledger, store};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;

/// A finding.
pub(crate) struct Check {
    pub name: &'static str,
    pub ok: bool,
    pub text: String,
}

fn check(name: &'static str, ok: bool, text: impl Into<String>) -> Check {
    Check { name, ok, text: text.into() }
}

pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &DoctorArgs,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    if args.secrets {
        return secrets::run(environment, cwd, args.json, out);
    }
    let checks = match &args.what {
        Some(DoctorWhat::Session { id }) if args.repair => {
            vec![repair(environment, cwd, &pick_session(environment, cwd, id.as_deref())?)?]
        }
        None if args.repair => repair_all(environment, cwd)?,
        Some(DoctorWhat::Session { id }) => session(environment, cwd, id.as_deref())?,
        None => all_checks(environment, cwd)?,
    };
    let ok = checks.iter().all(|c| c.ok);
    if args.json {
        let rows: Vec<Value> =
            checks.iter().map(|c| json!({ "check": c.name, "ok": c.ok, "text": c.text })).collect();
        write(out, &format!("{}\n", json!({ "ok": ok, "checks": rows })))?;
    } else {
        for c in &checks {
            write(
                out,
                &format!(
                    "{:<4} {:<9} {}\n",
                    if c.ok { "ok" } else { "!!" },
                    c.name,
                    becket_print::clean(&c.text)
                ),
            )?;
        }
    }
    Ok(if ok { ExitStatus::Ok } else { ExitStatus::Error })
}

/// Returns the checks of configuration, models, storage, programs and sandbox.
pub(crate) fn all_checks(environment: &Environment, cwd: &Path) -> Result<Vec<Check>, Failure> {
    let mut checks = config(environment, cwd);
    checks.extend(models(environment, cwd)?);
    checks.extend(storage(environment));
    checks.extend(programs(environment));
    checks.push(sandbox(environment, cwd));
    Ok(checks)
}

fn config(environment: &Environment, cwd: &Path) -> Vec<Check> {
    let args = ConfigArgs { settings: None, setting_sources: None, cd: None };
    match configuration(environment, cwd, &args, Vec::new(), true) {
        Err(failure) => vec![check("config", false, failure.message)],
        Ok(settings) if roots(cwd, &settings.config.add_dirs).is_err() => {
            let why = roots(cwd, &settings.config.add_dirs).err().map(|failure| failure.message);
            vec![check("config", false, why.unwrap_or_default())]
        }
        Ok(settings) => {
            let faults = settings_without_effect(environment, cwd, &settings);
            if !faults.is_empty() {
                return faults.into_iter().map(|fault| check("config", false, fault)).collect();
            }
            let file = environment.config_dir.join("config.toml");
            let text = if file.is_file() {
                format!("read ({})", file.display())
            } else {
                format!("no file of yours yet; it would be {}", file.display())
            };
            vec![check("config", true, text)]
        }
    }
}

/// Returns a line for everything in the settings that has no effect: unknown keys, rules, hooks and names of tools.
fn settings_without_effect(environment: &Environment, cwd: &Path, settings: &Settings) -> Vec<String> {
    let mut faults: Vec<String> = settings.warnings.iter().map(ToString::to_string).collect();
    faults.extend(rules_without_effect(settings));
    let bearers = hooks::HookSources { agents: &[], skills: None };
    let hooks = hooks::search(environment, cwd, settings, bearers);
    faults.extend(hooks.faults);
    faults.extend(hooks.warnings);
    faults.extend(hooks.found.iter().flat_map(|found| found.parse().warnings));
    let tools: Vec<String> = toolbox::specs().into_iter().map(|tool| tool.name).collect();
    faults.extend(crate::sandbox::invalid_hosts_note(&settings.config.tools.sandbox));
    faults.extend(toolbox::unknown_disabled_notes(&settings.config, &tools));
    faults.extend(preferences::complaints(environment, &settings.config));
    faults.extend(missing_paths(cwd, settings));
    let aliases = &settings.config.model.others.aliases;
    let models = model_settings(environment, settings);
    let wrong = aliases.keys().filter_map(|alias| crate::model_names::find(alias, aliases, &models).err());
    faults.extend(wrong.map(|failure| failure.message));
    faults.extend(Agents::faults(environment, cwd));
    faults
}

/// Returns a line for each file and folder that the settings name and that is not there.
fn missing_paths(cwd: &Path, settings: &Settings) -> Vec<String> {
    let root = project_root(cwd);
    let config = &settings.config;
    let files = config
        .instructions
        .rules
        .files
        .iter()
        .map(|path| ("rules.files", path, root.join(path).is_file(), "file"));
    let dirs = config
        .instructions
        .skills
        .dirs
        .iter()
        .map(|path| ("skills.dirs", path, root.join(path).is_dir(), "folder"));
    files
        .chain(dirs)
        .filter(|(_, _, is_there, _)| !is_there)
        .map(|(key, path, _, what)| {
            format!("{key}: there is no {what} {path}; create it, or remove it from the list")
        })
        .collect()
}

fn models(environment: &Environment, cwd: &Path) -> Result<Vec<Check>, Failure> {
    let args = ConfigArgs { settings: None, setting_sources: None, cd: None };
    let Ok(settings) = configuration(environment, cwd, &args, Vec::new(), true) else {
        return Ok(Vec::new());
    };
    let models = model_settings(environment, &settings);
    crate::runtime()?.block_on(async {
        let mut out = Vec::new();
        for name in crate::providers::names(&settings) {
            let reference = ModelRef::named(name, "");
            let Some(endpoint) = models.endpoint(name) else { continue };
            let named = settings.config.providers.contains_key(name) || endpoint.credential.is_some();
            if !named && (!matches!(name, "anthropic" | "openai") || endpoint.base_url.is_none()) {
                if matches!(name, "anthropic" | "openai") {
                    out.push(check("model", true, format!("{name}: not configured")));
                }
                continue;
            }
            match probe::list(&reference, &models).await {
                Ok(listed) => {
                    out.push(check("model", true, format!("{name}: reachable, {}", count(listed.len(), "model"))));
                    let names: Vec<&str> = listed.iter().map(|model| model.name.as_str()).collect();
                    out.extend(unlisted(name, settings.config.model.name.as_deref(), &names));
                }
                // Many gateways answer requests but have no list of models.
                Err(e) if e.kind == ErrorKind::NotFound && e.status.is_some() => {
                    let text = format!(
                        "{name}: reachable, but it has no list of models: if requests fail too, check the path of its address"
                    );
                    out.push(check("model", true, text));
                }
                Err(e) => {
                    // The hint to run the doctor is removed, because the reader has just run it.
                    let hint = e.hint.map(|h| h.replace(" (`becket doctor`)", ""));
                    let hint = hint.map(|h| format!(" ({h})")).unwrap_or_default();
                    out.push(check("model", false, format!("{name}: {}{hint}", e.message)));
                }
            }
        }
        if out.iter().all(|c| c.text.ends_with("not configured")) {
            out.push(check(
                "model",
                false,
                "no model can be used: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or OPENAI_BASE_URL for a local server",
            ));
        } else {
            // If the run's finding is already part of an earlier finding, it is not listed again.
            let (mut run, provider) = check_model_choice(environment, &settings, models).await;
            let fails = |check: &Check| !check.ok && provider.as_ref().is_some_and(|name| is_about(check, name));
            if run.ok && out.iter().any(fails) {
                run.ok = false;
                run.text.push_str(", which does not work now: see the line above");
            }
            if !out.iter().any(|check| check.text.contains(&run.text)) {
                out.push(run);
            }
        }
        Ok(out)
    })
}

/// True if a finding is about the models of this provider.
fn is_about(check: &Check, provider: &str) -> bool {
    check.text.strip_prefix(provider).is_some_and(|rest| rest.starts_with(':'))
}

/// Chooses a model as a run does, without a request to it. Also returns the provider of the model.
async fn check_model_choice(
    environment: &Environment,
    settings: &Settings,
    mut models: becket_model::Settings,
) -> (Check, Option<String>) {
    let chosen = crate::models::choose(environment, settings, &mut models).await;
    let opened = chosen.and_then(|found| match becket_model::open(&found.reference, &models) {
        Ok(_) => Ok(found.reference),
        Err(error) => Err(crate::models::usage(&error)),
    });
    let can_fall_back = || {
        let fallbacks = settings.config.model.others.fallback.iter();
        fallbacks
            .filter_map(|name| {
                crate::model_names::find(name, &settings.config.model.others.aliases, &models).ok()
            })
            .map(|found| found.reference)
            .find(|next| becket_model::open(next, &models).is_ok())
    };
    match opened {
        Ok(reference) => {
            let text = format!("a session begins with {reference}");
            (check("model", true, text), Some(reference.provider().to_owned()))
        }
        Err(failure) => match can_fall_back() {
            Some(next) => {
                let text = format!("{} A session begins with {next}, a fallback", failure.message);
                (check("model", true, text), Some(next.provider().to_owned()))
            }
            None => {
                let hint = failure.hint.map(|hint| format!(" ({})", hint.replace(" (`becket doctor`)", "")));
                let text = format!("{}{}", failure.message, hint.unwrap_or_default());
                (check("model", false, text), None)
            }
        },
    }
}

/// Returns a finding if the server lists its models and the configured model is not among them.
fn unlisted(provider: &str, configured: Option<&str>, listed: &[&str]) -> Option<Check> {
    let reference = ModelRef::parse(configured?).ok()?;
    if reference.provider() != provider {
        return None;
    }
    let name = reference.name();
    // Names without their date are accepted by servers as well.
    if listed.is_empty() || listed.iter().any(|served| served.starts_with(name)) {
        return None;
    }
    let near = listed.iter().min_by_key(|served| becket_types::edit_distance(served, name))?;
    let text =
        format!("{provider}: the configured model {name} is not in its list; the nearest name is {near}");
    Some(check("model", false, text))
}

fn storage(environment: &Environment) -> Vec<Check> {
    let root = environment.sessions_dir();
    let read = store::session_dirs(&root, None).and_then(|dirs| Ok((dirs, store::unreadable(&root, None)?)));
    let (dirs, unreadable) = match read {
        Ok(read) => read,
        Err(error) => return vec![check("store", false, error.to_string())],
    };
    let bytes: u64 =
        dirs.iter().filter_map(|d| fs::metadata(store::ledger_path(d)).ok()).map(|m| m.len()).sum();
    let text =
        format!("{}, {}B of ledgers in {}", count(dirs.len(), "session"), short(bytes), root.display());
    if let Some(why) = unwritable(&environment.data_dir) {
        // The index is not checked in this case: it cannot be updated either, and the advice to delete it would not help.
        let why = format!("{text}; {why}; sessions are kept in memory only until this is repaired");
        return vec![check("store", false, why)];
    }
    let mut out = vec![check("store", true, text)];
    out.extend(unreadable.iter().map(|error| check("store", false, error.to_string())));
    match Index::open(&environment.index_path(), &root).map(|mut index| index.catch_up()) {
        Ok(Ok(_)) => {
            out.push(check("index", true, "up to date with the ledgers (it can be deleted at any time)"));
        }
        Ok(Err(e)) | Err(e) => out.push(check(
            "index",
            false,
            format!("{e}; delete {}, and becket makes it again", environment.index_path().display()),
        )),
    }
    out
}

/// Returns the reason if `dir` cannot be written to. Tests it with a file that is removed again.
fn unwritable(dir: &Path) -> Option<String> {
    // A folder that does not exist would be created in its nearest existing parent.
    let nearest = dir.ancestors().find(|d| d.exists())?;
    // A full disk still makes files, but they stay empty.
    let write = |mut file: fs::File| file.write_all(&[b' '; 4096]).and_then(|()| file.sync_all());
    let written = tempfile::tempfile_in(nearest).and_then(write);
    written.err().map(|e| format!("cannot write in {}: {e}", dir.display()))
}

fn programs(environment: &Environment) -> Vec<Check> {
    let path = environment.var("PATH").unwrap_or_default().to_owned();
    let found = |name: &str| std::env::split_paths(&path).map(|dir| dir.join(name)).find(|p| p.is_file());
    let mut out = Vec::new();
    match found("bash") {
        Some(bash) => out.push(check("shell", true, bash.display().to_string())),
        None => out.push(check("shell", true, "bash is not installed; commands run with /bin/sh")),
    }
    if found("setsid").is_none() {
        out.push(check(
            "shell",
            false,
            "setsid is not installed: commands could open the terminal; install util-linux",
        ));
    }
    out.push(check("commands", true, becket_tool_shell::means()));
    out
}

/// Describes in one line what confines commands on this machine.
fn sandbox(environment: &Environment, cwd: &Path) -> Check {
    let settings = configuration(environment, cwd, &ConfigArgs::default(), Vec::new(), true);
    // An unreadable configuration is reported by another check.
    let config = settings.map(|settings| settings.config).unwrap_or_default();
    let sandbox = crate::sandbox::sandbox(environment, &config, &[cwd.to_path_buf()]);
    check("sandbox", true, crate::sandbox::summary(&config.tools.sandbox, sandbox.as_ref()))
}

fn session(environment: &Environment, cwd: &Path, id: Option<&str>) -> Result<Vec<Check>, Failure> {
    let summary = pick_session(environment, cwd, id)?;
    let dir = summary.dir.clone();
    let mut out = vec![check("session", true, format!("{} in {}", summary.id, dir.display()))];
    let mut reader = ledger::read(&dir).map_err(store_failure)?;
    let (mut commits, mut bad) = (0u64, 0u64);
    while let Some(item) =
        reader.next_item().map_err(|e| Failure::error(format!("cannot read {}: {e}", dir.display())))?
    {
        match item {
            ledger::Item::Commit(_) => commits += 1,
            ledger::Item::Bad(record) => {
                bad += 1;
                out.push(check("chain", false, format!("{record} (kept; the rest of the session works)")));
            }
        }
    }
    if bad == 0 {
        out.push(check("chain", true, format!("{commits} commits, each with the hash of the previous one")));
    }
    let mut reading = LoadedSession::open(environment, summary)?;
    out.push(blob_check(&reading, &dir)?);
    let _ = reading.view.context();
    match reading.view.check() {
        Ok(()) => out.push(check(
            "view",
            true,
            format!("{} can be sent unchanged", count(reading.view.context().messages.len(), "message")),
        )),
        Err(violation) => out.push(check("view", false, format!("cannot be sent: {violation}"))),
    }
    for notice in reading.view.take_notices() {
        out.push(check("repair", true, notice));
    }
    for message in &reading.view.context().messages {
        for applied in message.provenance.applied.iter().filter(|a| a.starts_with("repaired")) {
            out.push(check("repair", true, format!("entry {}: {applied}", message.provenance.seq)));
        }
        for _ in message.provenance.applied.iter().filter(|a| *a == PENDING) {
            let text = "a call has no result: it is running now, or the session ended and the next run adds a result";
            out.push(check("calls", true, format!("entry {}: {text}", message.provenance.seq)));
        }
    }
    Ok(out)
}

fn repair_all(environment: &Environment, cwd: &Path) -> Result<Vec<Check>, Failure> {
    let sessions = store::list(&environment.sessions_dir(), None).map_err(store_failure)?;
    let mut out = Vec::new();
    for summary in &sessions {
        let check = repair(environment, cwd, summary)?;
        if check.name != SOUND {
            out.push(check);
        }
    }
    if out.is_empty() {
        out.push(check(SOUND, true, format!("{}, nothing to repair", count(sessions.len(), "session"))));
    }
    Ok(out)
}

const SOUND: &str = "sound";

/// Makes a sound copy of a damaged session.
fn repair(environment: &Environment, cwd: &Path, summary: &SessionSummary) -> Result<Check, Failure> {
    let root = environment.sessions_dir();
    let cwd = if summary.cwd.as_os_str().is_empty() { cwd } else { &summary.cwd };
    let options = CreateOptions {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        persist: true,
        ..CreateOptions::default()
    };
    let id = summary.id;
    Ok(match salvage(&summary.dir, &root, cwd, options).map_err(store_failure)? {
        Outcome::Sound => check(SOUND, true, format!("{id}: nothing to repair")),
        Outcome::Done(copy) => check("repair", true, format!("{id} was repaired before, as {copy}")),
        Outcome::Copied(made) => check("repair", true, format!("{id}: {made}")),
        Outcome::Lost => {
            let text = format!(
                "{id}: nothing in it can be read, so there is nothing to copy; the original is unchanged"
            );
            check("repair", false, text)
        }
    })
}

/// Checks that every blob named by an entry exists and has the content that its name promises.
fn blob_check(reading: &LoadedSession, dir: &Path) -> Result<Check, Failure> {
    let store = blobs::BlobStore::on_disk(store::Outside::default().io, dir);
    let mut named = BTreeSet::new();
    reading.for_each_entry(&mut |entry| blobs::named_by(&entry, &store, &mut named))?;
    let missing: Vec<String> = named
        .iter()
        .filter(|id| becket_types::Blobs::get(&store, id).is_none())
        .map(|id| becket_types::cut_end(id.as_str(), 12).to_owned())
        .collect();
    let (sound, text) = if missing.is_empty() {
        (true, format!("{} named, all present and intact", named.len()))
    } else {
        (false, format!("missing or damaged: {} (replaced by a text)", missing.join(", ")))
    };
    Ok(check("blobs", sound, text))
}
