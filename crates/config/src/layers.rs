//! The layers and how they are merged: each leaf key separately, keeping the sources of its value.

use crate::anchors::anchor_rules;
use crate::claude::of_claude;
use crate::config::{Config, json_schema, known_keys};
use crate::document::{Kind, Node, parse_json, parse_toml, position};
use crate::error::{ConfigError, Problem, UNKNOWN_KEY};
use crate::files::{Layer, Scope, SettingSources};
use crate::key_hosts::{Address, Withheld};
use crate::keys::Keys;
use crate::scope::{Ruling, instead, may_if_approved, ruling};
use crate::secret::Credential;
use crate::source::{ManagedLimits, Merged, Source};
use crate::tree::{
    check_types, describe, drop_nulls, flatten, from_value, nearest, resolve_paths, translate, unflatten,
};
use serde_json::Value;
use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A value given on the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Flag {
    /// The key's path, such as `limits.max_turns`.
    pub key: &'static str,
    pub value: Value,
    /// The flag as it was written, such as `--max-turns`.
    pub flag: &'static str,
}

/// All inputs of the settings.
#[derive(Debug)]
pub struct Inputs<'a> {
    pub files: Vec<Layer>,
    /// `--settings`: a label for messages (the file, or `--settings`) and text in JSON or TOML.
    pub settings: Option<(String, String)>,
    pub env: &'a BTreeMap<String, String>,
    /// The user's file of API keys, in TOML: `anthropic = "…"`, `groq = "…"`. The environment takes
    /// precedence.
    pub keys: Option<(PathBuf, String)>,
    /// True if the user trusts this project. If not (or not yet), its files can only restrict tools.
    pub trusted: bool,
    /// Files of the project that the user has read and approved as they are. Such a file may also allow.
    pub approved: Vec<PathBuf>,
    /// True if a program that was written for Claude Code drives the run: then the model and the mode in Claude Code's files count.
    pub driven: bool,
    pub flags: Vec<Flag>,
    pub home: &'a Path,
    pub cwd: &'a Path,
}

/// The merged, immutable settings. Paths in `config` are absolute.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    pub config: Config,
    /// Warnings about values that were ignored or look wrong, one line each.
    pub warnings: Vec<Problem>,
    /// API keys by provider name: those that may be sent to the provider's address.
    pub credentials: BTreeMap<String, Credential>,
    /// Keys that exist and are not sent, because the provider's address is not the key's. By provider name.
    pub withheld: BTreeMap<String, Withheld>,
    pub(crate) keys: Keys,
    /// The `hooks` table of each layer that has one. All of them count; they stay separate, so that each keeps its file.
    pub hooks: Vec<(Source, Value)>,
    /// The scopes whose files were read, besides the managed file.
    pub sources: SettingSources,
    /// Switches of the administrator that no configuration key has.
    pub managed_limits: ManagedLimits,
    /// The file of Claude Code that switches the permission mode `bypassPermissions` off (`disableBypassPermissionsMode`).
    pub no_bypass: Option<Source>,
    /// Leaf key to its value and sources: one source for a scalar, one per element of a list.
    pub(crate) merged: BTreeMap<String, Merged>,
}

/// An element of a list, with its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub value: String,
    pub source: Source,
    /// Line number from 1; `None` outside files.
    pub line: Option<usize>,
}

impl Settings {
    /// Returns the source of a leaf key's value; for a list, the last source.
    pub fn source(&self, key: &str) -> Source {
        self.merged.get(key).and_then(|m| m.sources.last()).cloned().unwrap_or(Source::Default)
    }

    /// Returns the value of a leaf key as it was given; `None` if it is the default.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.merged.get(key).map(|m| &m.value)
    }

    /// True if the value comes from an earlier run of the session.
    pub fn is_remembered(&self, key: &str) -> bool {
        self.source(key) == Source::Session
    }

    /// Sets a value from an earlier run of the session. A value that does not fit the key is ignored, because
    /// another version may have written the ledger.
    pub fn remember(&mut self, key: &str, value: Value) {
        self.set(key, value, Source::Session);
    }

    /// Sets a value after the layers were merged. Writing to `config` alone would not last: the next value that is set
    /// here makes `config` again from the merged values. A value that does not fit the key is ignored.
    pub fn set(&mut self, key: &str, value: Value, source: Source) {
        let before = self.merged.clone();
        let elements = value.as_array().map_or(1, |items| items.len().max(1));
        let merged = Merged { value, sources: vec![source; elements], lines: vec![None; elements] };
        self.merged.insert(key.to_owned(), merged);
        match Config::read(&unflatten(&self.merged)) {
            Ok(config) => self.config = config,
            Err(_) => self.merged = before,
        }
        // If the provider's address has changed, another key may belong to it.
        self.choose_keys();
    }

    /// Returns the address of a provider: the configured one, that of a variable, or the built-in one.
    pub fn address(&self, provider: &str) -> Option<String> {
        self.address_of(provider).map(|address| address.url)
    }

    fn address_of(&self, provider: &str) -> Option<Address> {
        let key = format!("providers.{provider}.base_url");
        let configured = self.merged.get(&key).map(|merged| (&merged.value, self.source(&key)));
        Address::in_effect(provider, configured, self.keys.variable(provider))
    }

    /// Uses a key that the user has just entered for this address of a provider and that is kept in `file`.
    pub fn add_key(&mut self, provider: &str, address: Option<&str>, key: &str, file: PathBuf) {
        self.keys.add(provider, address, key, file);
        self.choose_keys();
    }

    /// Chooses for each provider the first key that may be sent to its address.
    fn choose_keys(&mut self) {
        let chosen = self.keys.choose(|provider| self.address_of(provider));
        (self.credentials, self.withheld) = (chosen.credentials, chosen.withheld);
    }

    /// Returns the elements of a list, each with its source.
    pub fn sourced(&self, key: &str) -> Vec<(String, Source)> {
        let Some(merged) = self.merged.get(key) else { return Vec::new() };
        let items = merged.value.as_array().map(Vec::as_slice).unwrap_or_default();
        items
            .iter()
            .zip(&merged.sources)
            .filter_map(|(item, source)| Some((item.as_str()?.to_owned(), source.clone())))
            .collect()
    }

    /// Returns the elements of a list, each with its file and line.
    pub fn origins(&self, key: &str) -> Vec<Origin> {
        let lines = self.merged.get(key).map(|merged| merged.lines.as_slice()).unwrap_or_default();
        let sourced = self.sourced(key).into_iter().zip(lines);
        sourced.map(|((value, source), line)| Origin { value, source, line: *line }).collect()
    }
}

/// Lists to which every layer adds. All other lists are replaced.
const GROWING: &[&str] = &[
    "permissions.allow",
    "permissions.ask",
    "permissions.deny",
    "add_dirs",
    "prune.protect",
    "tools.disabled",
    "skills.dirs",
    "rules.files",
    "shell.pass",
    "sandbox.write",
    "sandbox.deny_write",
    "sandbox.deny_read",
    "sandbox.excluded_commands",
    "sandbox.allow_hosts",
    "sandbox.deny_hosts",
    "sandbox.unix_sockets",
];

/// Lists of paths.
const PATHS: &[&str] = &[
    "add_dirs",
    "skills.dirs",
    "rules.files",
    "sandbox.write",
    "sandbox.deny_write",
    "sandbox.deny_read",
    "sandbox.unix_sockets",
];

const ENVIRONMENT: &[(&str, &str)] = &[
    ("BECKET_MODEL", "model"),
    ("BECKET_EFFORT", "effort"),
    ("BECKET_PERMISSION_MODE", "permission_mode"),
    ("BECKET_SANDBOX", "sandbox.mode"),
    ("BECKET_CONTEXT_WINDOW", "context.window"),
    ("BECKET_MAX_TURNS", "limits.max_turns"),
    ("BECKET_MAX_BUDGET_USD", "limits.max_budget_usd"),
    ("ANTHROPIC_BASE_URL", "providers.anthropic.base_url"),
    ("OPENAI_BASE_URL", "providers.openai.base_url"),
];

/// Variables of becket that are not keys: locations of its data, and facts for commands, hooks and tests.
const OTHER_VARIABLES: &[&str] = &[
    "BECKET_HOME",
    "BECKET_STORE",
    "BECKET_PROJECT_DIR",
    "BECKET_HOOK_EVENT",
    "BECKET_COMMAND",
    "BECKET_RUN",
    "BECKET_PEERS",
    "BECKET_UPDATE_SCREENS",
];

pub(crate) struct Builder<'a> {
    inputs: &'a Inputs<'a>,
    /// Made when the first file is read, because making it costs time and without files it is not needed.
    schema: LazyCell<Value>,
    pub(crate) merged: BTreeMap<String, Merged>,
    hooks: Vec<(Source, Value)>,
    no_bypass: Option<Source>,
    pub(crate) warnings: Vec<Problem>,
    pub(crate) errors: Vec<Problem>,
}

/// Merges the layers.
///
/// # Errors
///
/// Returns all mistakes of all layers, not only the first.
pub fn load(inputs: &Inputs<'_>) -> Result<Settings, ConfigError> {
    let mut builder = Builder {
        inputs,
        schema: LazyCell::new(json_schema),
        merged: BTreeMap::new(),
        hooks: Vec::new(),
        no_bypass: None,
        warnings: Vec::new(),
        errors: Vec::new(),
    };
    for scope in [Scope::User, Scope::Project, Scope::Local] {
        builder.files(scope);
    }
    builder.environment();
    if let Some((label, text)) = &inputs.settings {
        let parsed = if text.trim_start().starts_with('{') {
            parse_json(label, text)
        } else {
            parse_toml(label, text)
        };
        builder.document(parsed.map(translate), label, text, &Source::Settings(label.clone()), inputs.cwd);
    }
    for flag in &inputs.flags {
        builder.single(flag.key, flag.value.clone(), Source::Flag(flag.flag.to_owned()));
    }
    builder.files(Scope::Managed);
    builder.finish()
}

/// Returns the name of a value in messages: its source, and its key if the source does not name it.
pub(crate) fn value_name(source: Option<&Source>, key: &str) -> (String, Option<String>) {
    let key = (!key.is_empty()).then(|| key.to_owned());
    match source {
        None | Some(Source::Default | Source::Session) => (String::new(), key),
        Some(Source::Flag(name) | Source::Environment(name)) => (name.clone(), None),
        Some(Source::Settings(label)) => (label.clone(), key),
        Some(Source::User(path) | Source::Project(path) | Source::Local(path) | Source::Managed(path)) => {
            (path.display().to_string(), key)
        }
    }
}

impl Builder<'_> {
    fn files(&mut self, scope: Scope) {
        let inputs = self.inputs;
        for layer in inputs.files.iter().filter(|l| l.scope == scope) {
            let origin = layer.path.display().to_string();
            let folder = layer.path.parent().unwrap_or(Path::new("/"));
            let (source, base) = match scope {
                Scope::User => (Source::User(layer.path.clone()), folder),
                Scope::Project => (Source::Project(layer.path.clone()), folder.parent().unwrap_or(folder)),
                Scope::Local => (Source::Local(layer.path.clone()), folder.parent().unwrap_or(folder)),
                Scope::Managed => (Source::Managed(layer.path.clone()), folder),
            };
            let json = layer.path.extension().is_some_and(|e| e == "json");
            let parsed = if json {
                // The mode and the model in a managed file of Claude Code are meant for Claude Code alone: here, they would bind
                // every run.
                let driven = inputs.driven && scope != Scope::Managed;
                parse_json(&origin, &layer.text).map(|root| {
                    let mut root = self.claude(root, driven, layer, &source);
                    match scope {
                        Scope::User | Scope::Project => anchor_rules(&mut root, base, inputs.cwd),
                        Scope::Local => anchor_rules(&mut root, inputs.cwd, inputs.cwd),
                        // A managed file belongs to no folder, so its rules have no anchor.
                        Scope::Managed => {}
                    }
                    translate(root)
                })
            } else {
                parse_toml(&origin, &layer.text)
            };
            self.document(parsed, &origin, &layer.text, &source, base);
        }
    }

    /// Returns the keys of a settings file of Claude Code that count.
    fn claude(&mut self, root: Node, driven: bool, layer: &Layer, source: &Source) -> Node {
        let found = of_claude(root, driven);
        if found.no_bypass && self.no_bypass.is_none() {
            self.no_bypass = Some(source.clone());
        }
        for (problem, is_error) in found.problems(layer) {
            if is_error { &mut self.errors } else { &mut self.warnings }.push(problem);
        }
        found.root
    }

    fn environment(&mut self) {
        for (name, key) in ENVIRONMENT {
            let Some(text) = self.inputs.env.get(*name).filter(|v| !v.trim().is_empty()) else { continue };
            let number = text.trim().parse::<serde_json::Number>().ok().map(Value::Number);
            let value = match number {
                Some(number) if key.starts_with("limits.") || *key == "context.window" => number,
                _ => Value::String(text.trim().to_owned()),
            };
            self.single(key, value, Source::Environment((*name).to_owned()));
        }
        self.misspelt_variables();
    }

    /// Warns about variables whose names are nearly a variable of becket. Otherwise the user would believe that, say, a mode is
    /// set.
    fn misspelt_variables(&mut self) {
        let known = || ENVIRONMENT.iter().map(|(name, _)| *name).chain(OTHER_VARIABLES.iter().copied());
        let set = self.inputs.env.keys().filter(|name| name.starts_with("BECKET_"));
        for name in set.filter(|name| known().all(|known| known != name.as_str())) {
            let near = nearest(name, known().filter(|known| known.starts_with("BECKET_")));
            if let Some(near) = near {
                let message = format!("becket knows no such variable; did you mean {near}?");
                self.warnings.push(Problem { origin: name.clone(), at: None, key: None, message });
            }
        }
    }

    /// Merges one key that does not come from a file.
    fn single(&mut self, key: &str, value: Value, source: Source) {
        let mut root = Node { at: 0, kind: Kind::Table(Vec::new()) };
        root.put(&key.split('.').collect::<Vec<_>>(), from_value(value.clone()));
        if let Err((path, message)) = check_types(&root) {
            let (origin, key) = value_name(Some(&source), &path.join("."));
            let advice = match source {
                Source::Environment(_) => "; correct or unset the variable",
                _ => "",
            };
            self.errors.push(Problem { origin, at: None, key, message: format!("{message}{advice}") });
            return;
        }
        let cwd = self.inputs.cwd;
        match from_value(value) {
            Node { kind: Kind::Table(_), .. } => self.merge(&root, &source, cwd, None),
            leaf => self.merge_leaf(key.to_owned(), &leaf, &source, cwd, None),
        }
    }

    fn document(
        &mut self,
        parsed: Result<Node, Problem>,
        origin: &str,
        text: &str,
        source: &Source,
        base: &Path,
    ) {
        let mut root = match parsed {
            Ok(root) => root,
            Err(problem) => return self.errors.push(problem),
        };
        root.take("$schema");
        drop_nulls(&mut root);
        // The former name of `models.fallback`.
        if let Some(fallback) = root.take("fallback_models") {
            root.put(&["models", "fallback"], fallback);
        }
        if let Some(hooks) = root.take("hooks") {
            self.hooks.push((source.clone(), hooks.to_value()));
        }
        // Keys of a project's providers are ignored anyway.
        if !matches!(source, Source::Project(_) | Source::Local(_)) {
            self.check_provider_names(&mut root, origin, text);
        }
        self.unknown(&mut root, &self.schema.clone(), &mut Vec::new(), origin, text);
        if let Err((path, message)) = check_types(&root) {
            let at = position(text, root.nearest(&path).at);
            let key = (!path.is_empty()).then(|| path.join("."));
            // A description that lists the values would repeat the message.
            let about = describe(&self.schema, &path).filter(|about| !about.starts_with('`'));
            let about = about.map(|about| format!(" ({about})")).unwrap_or_default();
            let message = format!("{message}{about}; correct the value or remove the key");
            return self.errors.push(Problem { origin: origin.to_owned(), at: Some(at), key, message });
        }
        self.merge(&root, source, base, Some((origin, text)));
    }

    /// Returns the key of another table that has this name, such as `ui.theme` for `theme`. `None` if there is none, or more
    /// than two.
    fn key_in_other_table(&self, name: &str) -> Option<String> {
        let mut keys = Vec::new();
        known_keys(&self.schema, &mut Vec::new(), &mut keys);
        let same = |key: &&String| key.rsplit('.').next() == Some(name);
        let found: Vec<String> = keys.iter().map(|(key, _)| key).filter(same).cloned().collect();
        (1..=2).contains(&found.len()).then(|| found.join(" or "))
    }

    /// Removes unknown keys, with a warning for each.
    fn unknown(&mut self, node: &mut Node, schema: &Value, path: &mut Vec<String>, origin: &str, text: &str) {
        let entries = match (&mut node.kind, schema.get("items"), schema.get("additionalProperties")) {
            (Kind::List(items), Some(inner), _) => {
                for item in items {
                    self.unknown(item, inner, path, origin, text);
                }
                return;
            }
            // The keys of this table are names that the user gives, so none is unknown.
            (Kind::Table(entries), _, Some(inner)) if inner.is_object() => {
                for entry in entries {
                    path.push(entry.key.clone());
                    self.unknown(&mut entry.value, inner, path, origin, text);
                    path.pop();
                }
                return;
            }
            (Kind::Table(entries), ..) => entries,
            _ => return,
        };
        let Some(known) = schema.get("properties").and_then(Value::as_object) else { return };
        let mut gone = Vec::new();
        for entry in entries.iter_mut() {
            path.push(entry.key.clone());
            match known.get(&entry.key) {
                Some(inner) => self.unknown(&mut entry.value, inner, path, origin, text),
                None => {
                    let near = nearest(&entry.key, known.keys().map(String::as_str)).map(str::to_owned);
                    let advice = match near.or_else(|| self.key_in_other_table(&entry.key)) {
                        Some(near) => format!("did you mean {near}?"),
                        None => "it is ignored; `becket config` lists the keys".to_owned(),
                    };
                    self.warnings.push(Problem {
                        origin: origin.to_owned(),
                        at: Some(position(text, entry.at)),
                        key: Some(path.join(".")),
                        message: format!("{UNKNOWN_KEY}; {advice}"),
                    });
                    gone.push(entry.key.clone());
                }
            }
            path.pop();
        }
        entries.retain(|e| !gone.contains(&e.key));
    }

    fn merge(&mut self, root: &Node, source: &Source, base: &Path, file: Option<(&str, &str)>) {
        let mut leaves = Vec::new();
        flatten(root, &self.schema, &mut Vec::new(), &mut leaves);
        for (key, node) in leaves {
            self.merge_leaf(key, node, source, base, file);
        }
    }

    /// Merges one key, if this source may set it.
    fn merge_leaf(
        &mut self,
        key: String,
        node: &Node,
        source: &Source,
        base: &Path,
        file: Option<(&str, &str)>,
    ) {
        let mut value = node.to_value();
        if matches!(source, Source::Project(_) | Source::Local(_)) {
            let so_far = self.merged.get(&key).map(|m| &m.value);
            let approved = self.approved(source);
            if let Ruling::Ignored { why } = ruling(&key, &value, so_far, self.inputs.trusted)
                && !(approved && may_if_approved(&key, &value))
            {
                // The user is asked once about everything that such a file would allow, so there is no warning about this value.
                if source.is_json() && !approved && may_if_approved(&key, &value) {
                    return;
                }
                let (origin, text) = file.unwrap_or_default();
                let message = format!("ignored: {why}; {}", instead(&key, &why));
                self.warnings.push(Problem {
                    origin: origin.to_owned(),
                    at: Some(position(text, node.at)),
                    key: Some(key),
                    message,
                });
                return;
            }
        }
        if PATHS.contains(&key.as_str()) {
            resolve_paths(&mut value, base, self.inputs.home);
        }
        let line = |at| file.map(|(_, text)| position(text, at).0);
        let lines = match &node.kind {
            Kind::List(items) => items.iter().map(|item| line(item.at)).collect(),
            _ => vec![line(node.at)],
        };
        self.set(key, value, source, lines);
    }

    /// True if the user has approved the file.
    fn approved(&self, source: &Source) -> bool {
        let (Source::Project(path) | Source::Local(path)) = source else { return false };
        self.inputs.trusted && self.inputs.approved.contains(path)
    }

    fn set(&mut self, key: String, value: Value, source: &Source, lines: Vec<Option<usize>>) {
        match (value, self.merged.get_mut(&key)) {
            (Value::Array(items), existing) if GROWING.contains(&key.as_str()) => {
                let merged = match existing {
                    Some(merged) => merged,
                    None => self.merged.entry(key).or_insert(Merged {
                        value: Value::Array(Vec::new()),
                        sources: Vec::new(),
                        lines: Vec::new(),
                    }),
                };
                if let Value::Array(all) = &mut merged.value {
                    for (item, line) in items.into_iter().zip(lines).filter(|(item, _)| !item.is_null()) {
                        match all.iter().position(|other| *other == item) {
                            None => {
                                all.push(item);
                                merged.sources.push(source.clone());
                                merged.lines.push(line);
                            }
                            // If an element occurs in several layers, it counts as the administrator's, so that no other layer can
                            // remove it.
                            Some(at) if matches!(source, Source::Managed(_)) => {
                                merged.sources[at] = source.clone();
                                merged.lines[at] = line;
                            }
                            Some(_) => {}
                        }
                    }
                }
            }
            (value, _) => {
                // An empty list has one source as well, so that messages about it can name the source.
                let count = value.as_array().map_or(1, |items| items.len().max(1));
                self.merged.insert(key, Merged { value, sources: vec![source.clone(); count], lines });
            }
        }
    }

    fn finish(mut self) -> Result<Settings, ConfigError> {
        let config = match Config::read(&unflatten(&self.merged)) {
            Ok(config) => config,
            Err(misfit) => {
                if self.errors.is_empty() {
                    let message = format!("the merged configuration is not usable: {}", misfit.message);
                    self.complain("", message);
                }
                Config::default()
            }
        };
        self.check_ranges(&config);
        let keys =
            Keys::find(&config, self.inputs.env, self.inputs.keys.as_ref()).unwrap_or_else(|problem| {
                self.errors.push(problem);
                Keys::default()
            });
        if !self.errors.is_empty() {
            return Err(ConfigError::Invalid(self.errors));
        }
        let mut settings = Settings {
            config,
            warnings: self.warnings,
            keys,
            hooks: self.hooks,
            no_bypass: self.no_bypass,
            merged: self.merged,
            ..Settings::default()
        };
        settings.choose_keys();
        Ok(settings)
    }
}
