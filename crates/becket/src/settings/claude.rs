//! Settings files of Claude Code: `settings.json` in the user's folder, `.claude/settings.json` and
//! `.claude/settings.local.json` of the project, and the administrator's `managed-settings.json` and `managed-settings.d`.
//!
//! Finds the files and says what a project's file would allow; `becket_config` decides which keys count. A project's file is
//! trusted by content: the user reads what it would allow and approves exactly that. Its prohibitions count always. Hooks of
//! these files belong to [`crate::hooks`]. A file that cannot be read may hold rules that deny something, so becket does not start
//! with one. The administrator's file is a floor: if it cannot be trusted or read whole, becket does not start.

use crate::environment::Environment;
use crate::failure::Failure;
use crate::trust::content::{ContentTrust, Item, State};
use crate::trust::leads_outside;
use becket_config::{Layer, ManagedLimits, Problem, Scope, SettingSources, Settings};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Claude Code's managed settings.
pub(crate) const MANAGED: &str = "/etc/claude-code/managed-settings.json";
/// Further files of the same kind.
const MANAGED_PARTS: &str = "/etc/claude-code/managed-settings.d";

/// Switches of the administrator at the top of a managed file.
const SWITCHES: [&str; 2] = ["allowManagedHooksOnly", "allowManagedPermissionRulesOnly"];

/// [`Item::kind`] of a settings file of the project.
pub(crate) const SETTINGS: &str = "settings";

/// Keys of `permissions` that allow something.
const LOOSENING: [&str; 2] = ["allow", "additionalDirectories"];

/// Returns the files that these sources read, weakest first.
pub(crate) fn files(
    environment: &Environment,
    root: &Path,
    sources: SettingSources,
) -> Vec<(Scope, PathBuf)> {
    let user = environment.claude_dir().map(|dir| dir.join("settings.json"));
    let own = |name: &str| Some(root.join(".claude").join(name));
    let project = own("settings.json").filter(|path| user.as_ref() != Some(path));
    let all = [(Scope::User, user), (Scope::Project, project), (Scope::Local, own("settings.local.json"))];
    let all = all.into_iter().filter_map(|(scope, path)| Some((scope, path?)));
    all.filter(|(scope, path)| sources.reads(*scope) && (*scope == Scope::User || !leads_outside(root, path)))
        .collect()
}

/// Returns the files of the project that these sources would read if they did not lead out of the project.
fn links_outside(environment: &Environment, root: &Path, sources: SettingSources) -> Vec<PathBuf> {
    // In the home folder, this is the user's file, whose links are followed.
    let user = environment.claude_dir().map(|dir| dir.join("settings.json"));
    let all = [(Scope::Project, "settings.json"), (Scope::Local, "settings.local.json")];
    let read = all.into_iter().filter(|(scope, _)| sources.reads(*scope));
    let paths = read.map(|(_, name)| root.join(".claude").join(name));
    paths.filter(|path| user.as_ref() != Some(path) && leads_outside(root, path)).collect()
}

/// Returns the texts of the files.
///
/// # Errors
///
/// Fails if a file exists and cannot be read: nobody knows what it denies.
pub(super) fn layers(
    environment: &Environment,
    root: &Path,
    sources: SettingSources,
) -> Result<Vec<Layer>, Failure> {
    let mut out = Vec::new();
    for (scope, path) in files(environment, root, sources) {
        let text = becket_config::read_text(&path).map_err(|error| unreadable(&error.to_string()))?;
        let Some(text) = text else { continue };
        becket_config::json_value(&text).map_err(|why| unreadable(&format!("{}: {why}", path.display())))?;
        out.push(Layer { scope, path, text });
    }
    Ok(out)
}

fn unreadable(why: &str) -> Failure {
    Failure::usage(format!(
        "{why}. becket does not start, because the permission rules in this file would not hold"
    ))
    .hint("correct the file or remove it; or choose which files are read, for example --setting-sources user")
}

/// The administrator's settings for Claude Code.
#[derive(Debug, Default)]
pub(super) struct ManagedSettings {
    /// The administrator's files, weakest first.
    pub layers: Vec<Layer>,
    pub limits: ManagedLimits,
}

/// Returns the administrator's files in the order in which they count: the one file, and those of the folder by their names.
/// Hidden files do not count.
pub(crate) fn managed_files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(MANAGED_PARTS).into_iter().flatten().flatten();
    let mut parts: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    parts.retain(|path| {
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        path.extension().is_some_and(|ending| ending == "json") && !is_hidden
    });
    parts.sort();
    parts.insert(0, PathBuf::from(MANAGED));
    parts
}

/// Returns the administrator's settings for Claude Code.
///
/// # Errors
///
/// Fails if other users could change the files, or if one has a rule or list that cannot be read: nothing may run without
/// these rules.
pub(super) fn managed() -> Result<ManagedSettings, Failure> {
    let mut out = ManagedSettings::default();
    // A user who can write to the folder could remove rules.
    if let Some(why) = distrusted(Path::new(MANAGED_PARTS)) {
        return Err(wrong(
            Path::new(MANAGED_PARTS),
            &format!("this managed folder cannot be trusted, so becket does not start: {why}"),
        ));
    }
    for path in managed_files() {
        if let Some(why) = distrusted(&path) {
            let why = format!("this managed file cannot be trusted, so becket does not start: {why}");
            return Err(wrong(&path, &why));
        }
        let text = becket_config::read_text(&path).map_err(|error| Failure::usage(error.to_string()))?;
        let Some(text) = text else { continue };
        let settings = becket_config::json_value(&text)
            .map_err(|why| wrong(&path, &format!("{why}, so becket does not start")))?;
        if let Some((key, switch)) = misspelt_switch(&settings) {
            let why = format!(
                "{key}: did you mean {switch}? Nobody else may decide that, so becket does not start"
            );
            return Err(wrong(&path, &why));
        }
        let permissions = &settings["permissions"];
        for key in ["allow", "ask", "deny"] {
            check_rules(&permissions[key]).map_err(|why| {
                wrong(&path, &format!("permissions.{key}: {why}, so becket does not start"))
            })?;
        }
        let is_on = |key: &str| match &settings[key] {
            Value::Null | Value::Bool(false) => Ok(false),
            Value::Bool(true) => Ok(true),
            other => Err(wrong(
                &path,
                &format!("{key}: {other} is neither true nor false, so becket does not start"),
            )),
        };
        // A switch that one file turns on stays on, whatever later files say.
        out.limits.no_bypass |= permissions["disableBypassPermissionsMode"].as_str() == Some("disable");
        out.limits.only_hooks |= is_on(SWITCHES[0])?;
        out.limits.only_rules |= is_on(SWITCHES[1])?;
        out.layers.push(Layer { scope: Scope::Managed, path, text });
    }
    Ok(out)
}

/// Returns a key that is one of the administrator's switches in another case, and the switch.
fn misspelt_switch(settings: &Value) -> Option<(&String, &'static str)> {
    let keys = settings.as_object()?.keys();
    keys.flat_map(|key| SWITCHES.map(|switch| (key, switch)))
        .find(|(key, switch)| key.as_str() != *switch && key.eq_ignore_ascii_case(switch))
}

fn distrusted(path: &Path) -> Option<String> {
    path.exists().then(|| crate::sys::distrusted(path)).flatten()
}

fn wrong(path: &Path, why: &str) -> Failure {
    Failure::usage(format!("{}: {why}", path.display()))
        .hint("it binds every user of this machine; ask the administrator to correct it")
}

/// Checks that a value is a list of rules, or missing.
fn check_rules(value: &Value) -> Result<(), String> {
    let rules = match value {
        Value::Null => return Ok(()),
        Value::Array(rules) => rules,
        _ => return Err("this is not a list of rules".to_owned()),
    };
    for rule in rules {
        let text = rule.as_str().ok_or_else(|| format!("{rule} is not a rule"))?;
        becket_guard::Rule::parse(text).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Returns an item for each of these files of the project that would allow something.
fn items_of(root: &Path, layers: &[Layer]) -> Vec<(PathBuf, Item)> {
    let item = |layer: &Layer| {
        let settings = becket_config::json_value(&layer.text).ok()?;
        let mut allows = Map::new();
        for key in LOOSENING {
            let list = settings["permissions"][key].as_array().filter(|list| !list.is_empty());
            allows.extend(list.map(|list| (key.to_owned(), json!(list))));
        }
        if let Some(mode) =
            settings["permissions"]["defaultMode"].as_str().filter(|mode| *mode == "acceptEdits")
        {
            allows.insert("defaultMode".to_owned(), json!(mode));
        }
        let mut out = Map::new();
        if !allows.is_empty() {
            out.insert("permissions".to_owned(), Value::Object(allows));
        }
        let env = settings["env"].as_object().filter(|env| !env.is_empty());
        out.extend(env.map(|env| ("env".to_owned(), json!(env))));
        if out.is_empty() {
            return None;
        }
        let name = layer.path.strip_prefix(root).unwrap_or(&layer.path).display().to_string();
        let content = serde_json::to_string_pretty(&out).unwrap_or_default();
        Some((layer.path.clone(), Item { kind: SETTINGS.to_owned(), name, content }))
    };
    layers.iter().filter(|layer| layer.scope != Scope::User).filter_map(item).collect()
}

/// Returns the items of the project that need trust.
pub(crate) fn items(environment: &Environment, root: &Path, sources: SettingSources) -> Vec<Item> {
    // A run does not start with a file that cannot be read.
    let layers = layers(environment, root, sources).unwrap_or_default();
    items_of(root, &layers).into_iter().map(|(_, item)| item).collect()
}

/// Returns the files that the user has approved as they are. `everything`: all of them, as `--trust` says.
pub(super) fn approved(
    environment: &Environment,
    root: &Path,
    layers: &[Layer],
    everything: bool,
) -> Vec<PathBuf> {
    let items = items_of(root, layers);
    if items.is_empty() {
        return Vec::new();
    }
    let trust = ContentTrust::for_project(environment, root, everything);
    items.into_iter().filter(|(_, item)| trust.state(item) == State::Trusted).map(|(path, _)| path).collect()
}

/// Adds the files that the user has not approved to the list that `trust` shows the user.
pub(crate) fn note_unused(
    environment: &Environment,
    root: &Path,
    sources: SettingSources,
    trust: &ContentTrust,
) {
    for item in items(environment, root, sources) {
        trust.is_trusted(&item.kind, &item.name, &item.content);
    }
}

/// Leaves out what the administrator forbids, and rules and folders of these files that cannot be used, with a warning for each.
/// Rules that ask or deny stay whatever the administrator forbids: they only restrict.
pub(super) fn leave_out(settings: &mut Settings, environment: &Environment, root: &Path) {
    for key in ["permissions.allow", "permissions.ask", "permissions.deny"] {
        settings.leave_out(key, |rule| becket_guard::Rule::parse(rule).err().map(|error| error.to_string()));
    }
    settings
        .leave_out("add_dirs", |dir| (!Path::new(dir).is_dir()).then(|| format!("there is no folder {dir}")));
    if settings.managed_limits.only_rules {
        settings.keep_managed(
            "permissions.allow",
            "the administrator of this machine lets only managed rules allow something",
        );
    }
    settings.warnings.extend(links_outside(environment, root, settings.sources).into_iter().map(|path| Problem {
        origin: path.display().to_string(),
        at: None,
        key: None,
        message: "not used, nor its permission rules, because it is a link to a file outside of the project; copy the file here"
            .to_owned(),
    }));
}
