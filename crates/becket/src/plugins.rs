//! Plugins of a run: folders in the form of Claude Code's plugins, which the caller names with `--plugin-dir` or an SDK.
//!
//! Owns the reading of a plugin: its manifest, and the places of its commands, agents, skills, hooks and MCP servers. Each
//! name begins with that of the plugin (`plugin:command`). The folder is named by the caller of the run, so the plugin is trusted as
//! the caller's own files are. A part that cannot be read is reported, and the others are used. Runs nothing.

use crate::command_files;
use becket_types::quoted;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Maximum size of a manifest, a file of hooks or a file of servers in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Maximum number of files of agents.
const MAX_AGENT_FILES: usize = 100;

/// The plugins of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plugins {
    all: Vec<Plugin>,
    errors: Vec<PluginError>,
}

/// One plugin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plugin {
    pub name: String,
    /// Its folder, in canonical form.
    pub root: PathBuf,
    /// A folder in which it may keep data.
    data: PathBuf,
    version: Option<String>,
    /// Folders or files, by kind.
    commands: Vec<PathBuf>,
    agents: Vec<PathBuf>,
    pub skills: Vec<PathBuf>,
    /// Tables of hooks.
    pub hooks: Vec<Value>,
    /// Configurations of servers, by name.
    pub servers: Map<String, Value>,
}

/// A plugin, or a part of one, that cannot be used.
#[derive(Clone, Debug, PartialEq)]
struct PluginError {
    /// The plugin's name, or `inline[N]` for the Nth named folder, counted from 0, if it has no readable name.
    plugin: String,
    kind: &'static str,
    message: String,
    /// The folder, if nothing of the plugin is used.
    path: Option<PathBuf>,
}

/// A folder that the caller names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PluginDir {
    pub path: PathBuf,
    /// The plugin's MCP servers are used.
    pub servers: bool,
}

impl Plugins {
    /// Reads the plugins in these folders. `data`: the folder in which each gets one of its own.
    pub(crate) fn read(dirs: &[PluginDir], data: &Path) -> Self {
        let mut out = Self::default();
        for (at, dir) in dirs.iter().enumerate() {
            match Plugin::read(dir, data, &mut out.errors) {
                Ok(plugin) if out.all.iter().any(|known| known.name == plugin.name) => {
                    // If two folders have a plugin of this name, the caller named the plugin twice, and the later
                    // folder replaces the earlier.
                    out.all.retain(|known| known.name != plugin.name);
                    out.all.push(plugin);
                }
                Ok(plugin) => out.all.push(plugin),
                Err((kind, message)) => {
                    let path = std::path::absolute(&dir.path).unwrap_or_else(|_| dir.path.clone());
                    out.errors.push(PluginError {
                        plugin: format!("inline[{at}]"),
                        kind,
                        message,
                        path: Some(path),
                    });
                }
            }
        }
        out
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Plugin> {
        self.all.iter()
    }

    /// Returns messages for the user about parts that are not used.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        self.errors.iter().map(|error| match &error.path {
            Some(path) => format!("the plugin {} is not used: {}", path.display(), error.message),
            None => format!("the plugin {}: {}", error.plugin, error.message),
        })
    }

    /// Returns the plugins as `system/init` lists them.
    pub(crate) fn init_json(&self) -> Vec<Value> {
        let one = |plugin: &Plugin| {
            let mut out = json!({ "name": plugin.name, "path": plugin.root.to_string_lossy() });
            if let Some(version) = &plugin.version {
                out["version"] = json!(version);
            }
            out
        };
        self.all.iter().map(one).collect()
    }

    /// Returns the errors as `system/init` lists them.
    pub(crate) fn errors(&self) -> Vec<Value> {
        let one = |error: &PluginError| {
            let mut out = json!({ "plugin": error.plugin, "type": error.kind, "message": error.message });
            if let Some(path) = &error.path {
                out["path"] = json!(path.to_string_lossy());
            }
            out
        };
        self.errors.iter().map(one).collect()
    }

    /// Returns names and texts of all commands.
    pub(crate) fn commands(&self) -> Vec<(String, String)> {
        self.all.iter().flat_map(Plugin::commands).collect()
    }

    /// Returns the whole name of a command that is called without the name of its plugin, if only one plugin has it.
    pub(crate) fn qualified_name(&self, name: &str) -> Option<String> {
        if name.contains(':') {
            return None;
        }
        let mut found = self
            .all
            .iter()
            .filter(|plugin| plugin.commands().iter().any(|(known, _)| *known == plugin.qualify(name)));
        let only = found.next()?;
        found.next().is_none().then(|| only.qualify(name))
    }
}

impl Plugin {
    fn read(
        dir: &PluginDir,
        data: &Path,
        errors: &mut Vec<PluginError>,
    ) -> Result<Self, (&'static str, String)> {
        let root = dir.path.canonicalize().map_err(|error| ("path-not-found", error.to_string()))?;
        if !root.is_dir() {
            return Err(("path-not-found", "it is not a folder".to_owned()));
        }
        let manifest = root.join(".claude-plugin/plugin.json");
        let manifest =
            json_of(&manifest).map_err(|why| ("manifest-validation-error", why))?.unwrap_or_default();
        let folder = root.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = match &manifest["name"] {
            Value::String(name) => name.clone(),
            Value::Null => folder.unwrap_or_default(),
            other => return Err(("manifest-validation-error", format!("its name is not a text: {other}"))),
        };
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.chars().count() > 64 || !name.chars().all(plain) {
            let why = format!(
                "its name {name} is not 1 to 64 letters, digits, `-`, `_` and `.`",
                name = quoted(&name)
            );
            return Err(("manifest-validation-error", why));
        }
        let mut wrong =
            |kind, message| errors.push(PluginError { plugin: name.clone(), kind, message, path: None });
        let mut places = |key: &str, usual: &str| {
            let mut out = vec![root.join(usual)];
            for given in texts(&manifest[key]) {
                match inside(&root, &given) {
                    Some(path) if !out.contains(&path) => out.push(path),
                    Some(_) => {}
                    None => wrong("path-not-found", format!("{key}: there is no {given} in its folder")),
                }
            }
            out
        };
        let (commands, agents) = (places("commands", "commands"), places("agents", "agents"));
        let mut skills = places("skills", "skills");
        // The folder may be a single skill instead of having a folder of skills.
        if root.join("SKILL.md").is_file() && !root.join("skills").exists() {
            skills.push(root.clone());
        }
        let mut hooks = Vec::new();
        for table in tables(&root, &manifest["hooks"], "hooks/hooks.json") {
            match table {
                Ok(table) => hooks.push(table.get("hooks").cloned().unwrap_or(table)),
                Err(why) => wrong("hook-load-failed", why),
            }
        }
        let mut servers = Map::new();
        for table in tables(&root, &manifest["mcpServers"], ".mcp.json").into_iter().filter(|_| dir.servers) {
            match table.and_then(|table| becket_mcp::config::entries(&table).cloned()) {
                Ok(entries) => servers.extend(entries),
                Err(why) => wrong("mcp-config-invalid", why),
            }
        }
        let version = manifest["version"].as_str().map(str::to_owned);
        let data = data.join(&name);
        Ok(Self { name, root, data, version, commands, agents, skills, hooks, servers })
    }

    /// Returns the name of a part of the plugin as users write it: `PLUGIN:NAME`.
    pub(crate) fn qualify(&self, name: &str) -> String {
        format!("{}:{name}", self.name)
    }

    /// Returns the variables that its programs get.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        vec![
            ("CLAUDE_PLUGIN_ROOT".to_owned(), text(&self.root)),
            ("CLAUDE_PLUGIN_DATA".to_owned(), text(&self.data)),
        ]
    }

    /// Replaces the plugin's variables in a text.
    pub(crate) fn fill_variables(&self, text: &str) -> String {
        self.variables()
            .iter()
            .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${{{name}}}"), value))
    }

    fn commands(&self) -> Vec<(String, String)> {
        let mut out = Vec::new();
        for place in &self.commands {
            let files = match command_files::command_name(place) {
                Some(name) if place.is_file() => vec![(name, place.clone())],
                _ => command_files::files(place),
            };
            let read = |(name, path): (String, PathBuf)| {
                Some((self.qualify(&name), self.fill_variables(&command_files::read_limited(&path)?)))
            };
            out.extend(files.into_iter().filter_map(read));
        }
        out.truncate(command_files::MAX_COMMANDS);
        out
    }

    /// Returns the files of its agents.
    pub(crate) fn agents(&self) -> Vec<PathBuf> {
        let mut out: Vec<PathBuf> = Vec::new();
        for place in &self.agents {
            if place.is_file() {
                out.push(place.clone());
            } else {
                out.extend(command_files::files(place).into_iter().map(|(_, path)| path));
            }
        }
        out.truncate(MAX_AGENT_FILES);
        out
    }

    /// Returns its hooks, with the plugin's variables where no shell replaces them.
    pub(crate) fn hook_tables(&self) -> Vec<Value> {
        self.hooks.iter().map(|table| self.filled_hooks(table)).collect()
    }

    fn filled_hooks(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill_variables(text)),
            Value::Array(items) => items.iter().map(|item| self.filled_hooks(item)).collect(),
            Value::Object(fields) => {
                // Variables in a shell command are left to the shell, so that a blank in a path does no harm.
                let for_shell =
                    fields.get("type").is_none_or(|kind| kind == "command") && !fields.contains_key("args");
                let filled = fields.iter().map(|(key, value)| {
                    let keep = for_shell && key == "command";
                    (key.clone(), if keep { value.clone() } else { self.filled_hooks(value) })
                });
                Value::Object(filled.collect())
            }
            other => other.clone(),
        }
    }
}

/// Returns a path of a manifest. Only paths inside the plugin are used.
fn inside(root: &Path, given: &str) -> Option<PathBuf> {
    let path = root.join(given.trim_start_matches("./")).canonicalize().ok()?;
    path.starts_with(root).then_some(path)
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// Returns tables, such as those of hooks: the one that a key of the manifest holds, or those in files that it names,
/// and the one in the file `usual`.
fn tables(root: &Path, given: &Value, usual: &str) -> Vec<Result<Value, String>> {
    let usual_path = root.join(usual);
    let mut out: Vec<Result<Value, String>> = json_of(&usual_path).transpose().into_iter().collect();
    if given.is_object() {
        out.push(Ok(given.clone()));
    }
    for name in texts(given) {
        match inside(root, &name) {
            Some(path) if path == usual_path => {}
            Some(path) => out.extend(json_of(&path).transpose()),
            None => out.push(Err(format!("there is no {name} in its folder"))),
        }
    }
    out
}

/// Returns the JSON of a file; `None` if there is no file.
fn json_of(path: &Path) -> Result<Option<Value>, String> {
    let named = |why: String| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        format!("{name} cannot be used: {why}")
    };
    match becket_files::read_text(path, MAX_FILE_BYTES) {
        Ok(text) => becket_config::json_value(&text).map(Some).map_err(named),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(named(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("tools");
        std::fs::create_dir_all(&root).unwrap();
        for (name, text) in files {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        (dir, root)
    }

    fn read(root: &Path, servers: bool) -> Plugins {
        Plugins::read(&[PluginDir { path: root.to_owned(), servers }], Path::new("/data"))
    }

    #[test]
    fn a_plugin_has_parts_in_usual_and_named_places() {
        let (_dir, root) = plugin(&[
            (
                ".claude-plugin/plugin.json",
                r#"{"name": "kit", "version": "1.2", "commands": ["./more/extra.md", "./none.md"], "agents": "./staff",
                    "hooks": {"Stop": []}, "mcpServers": "./servers.json"}"#,
            ),
            ("commands/greet.md", "Greet from ${CLAUDE_PLUGIN_ROOT}."),
            ("commands/git/log.md", "Log."),
            ("more/extra.md", "Extra."),
            ("agents/critic.md", "---\ndescription: d\n---\n"),
            ("staff/clerk.md", "---\ndescription: d\n---\n"),
            (
                "hooks/hooks.json",
                r#"{"description": "x", "hooks": {"PreToolUse": [{"hooks": [{"command": "${CLAUDE_PLUGIN_ROOT}/a.sh"}, {"command": "${CLAUDE_PLUGIN_ROOT}/b", "args": ["${CLAUDE_PLUGIN_DATA}"]}]}]}}"#,
            ),
            (".mcp.json", r#"{"mcpServers": {"one": {"command": "x"}}}"#),
            ("servers.json", r#"{"two": {"command": "y"}}"#),
        ]);
        let plugins = read(&root, true);
        let names: Vec<String> = plugins.commands().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["kit:git:log", "kit:greet", "kit:extra"]);
        assert!(plugins.commands()[1].1.contains(&format!("Greet from {}.", root.display())));
        assert_eq!(plugins.qualified_name("greet").as_deref(), Some("kit:greet"));
        assert_eq!(plugins.qualified_name("none"), None);
        let kit = plugins.iter().next().unwrap();
        assert_eq!(kit.agents(), [root.join("agents/critic.md"), root.join("staff/clerk.md")]);
        assert_eq!(kit.servers.keys().collect::<Vec<_>>(), ["one", "two"]);
        let hooks = kit.hook_tables();
        assert_eq!(hooks.len(), 2);
        let handlers = &hooks[0]["PreToolUse"][0]["hooks"];
        assert_eq!(handlers[0]["command"], "${CLAUDE_PLUGIN_ROOT}/a.sh", "the shell replaces it");
        assert_eq!(handlers[1]["command"], format!("{}/b", root.display()));
        assert_eq!(handlers[1]["args"][0], "/data/kit");
        assert_eq!(plugins.init_json(), [json!({"name": "kit", "path": root, "version": "1.2"})]);
        let errors = plugins.errors();
        assert_eq!((errors.len(), errors[0]["plugin"].as_str()), (1, Some("kit")), "{errors:?}");
        assert!(read(&root, false).iter().next().unwrap().servers.is_empty());
    }

    #[test]
    fn a_folder_without_a_manifest_is_a_plugin_and_a_broken_one_is_reported() {
        let (_dir, root) = plugin(&[("commands/a.md", "A"), ("hooks/hooks.json", "{")]);
        let plugins = read(&root, true);
        assert_eq!(plugins.commands()[0].0, "tools:a");
        assert_eq!(plugins.errors()[0]["type"], "hook-load-failed");
        for (manifest, kind) in
            [("{", "manifest-validation-error"), (r#"{"name": "a b"}"#, "manifest-validation-error")]
        {
            let (_dir, root) = plugin(&[(".claude-plugin/plugin.json", manifest)]);
            let errors = read(&root, true).errors();
            assert_eq!(
                (errors[0]["type"].as_str(), errors[0]["plugin"].as_str()),
                (Some(kind), Some("inline[0]"))
            );
            assert_eq!(errors[0]["path"], json!(root));
        }
        let missing = read(Path::new("/nowhere/at/all"), true);
        assert_eq!(missing.errors()[0]["type"], "path-not-found");
        assert!(missing.warnings().next().unwrap().contains("/nowhere/at/all is not used"));
    }

    #[test]
    fn paths_stay_inside_the_plugin() {
        let (dir, root) = plugin(&[(
            ".claude-plugin/plugin.json",
            r#"{"name": "kit", "commands": ["../secret.md"], "hooks": "/etc/passwd"}"#,
        )]);
        std::fs::write(dir.path().join("secret.md"), "secret").unwrap();
        let plugins = read(&root, true);
        assert_eq!((plugins.commands().len(), plugins.errors().len()), (0, 2));
    }
}
