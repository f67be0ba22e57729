//! `-c key=value` of `becket exec`: the keys of Codex's configuration that have a meaning here.
//!
//! Owns the translation of keys. Values come from the caller of the run, so they have the rights of `--settings` and
//! `--mcp-config`. A key without a meaning is collected for the caller; a key whose loss would be dangerous is an error.

use crate::args::Run;
use crate::environment::Environment;
use crate::failure::Failure;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Keys that are harmless to ignore: how Codex shows its work, when it asks, and what it checks.
const WITHOUT_EFFECT: [&str; 13] = [
    "approval_policy",
    "approvals_reviewer",
    "check_for_update_on_startup",
    "disable_response_storage",
    "file_opener",
    "hide_agent_reasoning",
    "history",
    "model_reasoning_summary",
    "model_supports_reasoning_summaries",
    "model_verbosity",
    "personality",
    "show_raw_agent_reasoning",
    "tui",
];

/// Tables whose keys are looked at one by one.
const TABLES: [&str; 4] = ["features", "sandbox_workspace_write", "shell_environment_policy", "tools"];

/// The values of the keys, except those that [`apply`] writes into the run itself.
#[derive(Debug, Default)]
pub(super) struct CodexConfig {
    pub model: Option<String>,
    pub provider: Option<String>,
    pub profile: Option<String>,
    pub sandbox: Option<String>,
    /// The level `workspace-write` does not include `/tmp`.
    pub without_tmp: bool,
    /// The level `workspace-write` does not include the folder of `TMPDIR`.
    pub without_tmpdir: bool,
    /// Settings of becket, in the form of `--settings`.
    pub settings: Value,
    /// Keys of Codex that have no meaning for becket.
    pub unknown: Vec<String>,
}

/// Reads the settings `key=value` and applies them. If a key is set several times, the last value applies.
///
/// # Errors
///
/// Returns a failure for the user if a setting has no value, or one that cannot be used.
pub(super) fn apply(
    given: &[String],
    environment: &mut Environment,
    run: &mut Run,
) -> Result<CodexConfig, Failure> {
    let mut whole = Value::Null;
    for setting in given {
        let (key, value) = setting.split_once('=').ok_or_else(|| {
            Failure::usage(format!("-c {setting:?} is not a setting")).hint("write -c key=value")
        })?;
        put(&mut whole, key.trim(), value_of(value.trim()));
    }
    let mut out = CodexConfig::default();
    for (key, value) in whole.as_object().into_iter().flatten() {
        match (key.as_str(), value) {
            ("mcp_servers", Value::Object(servers)) => {
                for (name, server) in servers {
                    mcp_server(name, server, run, &mut out)?;
                }
            }
            ("model_providers", Value::Object(providers)) => {
                for (name, provider) in providers {
                    model_provider(name, provider, environment, &mut out);
                }
            }
            (table, Value::Object(keys)) if TABLES.contains(&table) => {
                for (inner, value) in keys {
                    apply_key(&format!("{table}.{inner}"), value, environment, run, &mut out)?;
                }
            }
            _ => apply_key(key, value, environment, run, &mut out)?,
        }
    }
    Ok(out)
}

fn apply_key(
    key: &str,
    value: &Value,
    environment: &mut Environment,
    run: &mut Run,
    out: &mut CodexConfig,
) -> Result<(), Failure> {
    let text = text_of(value);
    match key {
        "model" => out.model = Some(text),
        "model_provider" => out.provider = Some(text),
        "profile" => out.profile = Some(text),
        "model_reasoning_effort" => run.model.effort = Some(effort(text)),
        "openai_base_url" => {
            environment.vars.insert("OPENAI_BASE_URL".to_owned(), text);
            // Codex speaks OpenAI Responses to that address, whatever server is there.
            put(&mut out.settings, "providers.openai.kind", json!("openai-responses"));
        }
        "sandbox_mode" => out.sandbox = Some(text),
        "developer_instructions" => run.prompts.append_system_prompt = Some(text),
        "base_instructions" => {
            return Err(Failure::usage("-c base_instructions is not a setting any more").hint(
                "-c developer_instructions=TEXT adds to the system prompt, -c model_instructions_file=FILE replaces it",
            ));
        }
        "model_instructions_file" | "experimental_instructions_file" => {
            run.prompts.system_prompt_file = Some(text.into());
        }
        "model_context_window" => run.model.context_window = Some(text),
        "web_search" | "tools.web_search" => {
            let web = ["WebSearch".to_owned(), "WebFetch".to_owned()];
            match text.as_str() {
                "disabled" | "false" => run.permissions.disallowed_tools.extend(web),
                _ => run.permissions.allowed_tools.extend(web),
            }
        }
        "sandbox_workspace_write.network_access" => {
            if *value == json!(true) {
                put(&mut out.settings, "sandbox.network", json!("full"));
            }
        }
        "sandbox_workspace_write.exclude_slash_tmp" => out.without_tmp = *value == json!(true),
        "sandbox_workspace_write.exclude_tmpdir_env_var" => out.without_tmpdir = *value == json!(true),
        "sandbox_workspace_write.writable_roots" => {
            run.permissions.add_dir.extend(texts(value).map(Into::into));
        }
        "shell_environment_policy.set" => {
            for (name, value) in value.as_object().into_iter().flatten() {
                put_in(&mut out.settings, &["shell", "env", name], json!(text_of(value)));
            }
        }
        _ if WITHOUT_EFFECT.contains(&key) => {}
        _ => out.unknown.push(leaf(key, value)),
    }
    Ok(())
}

/// Returns the effort of becket for one of Codex.
fn effort(given: String) -> String {
    match given.as_str() {
        "minimal" | "none" => "low".to_owned(),
        _ => given,
    }
}

/// Translates a server of `mcp_servers` to one of `--mcp-config`.
fn mcp_server(name: &str, given: &Value, run: &mut Run, out: &mut CodexConfig) -> Result<(), Failure> {
    let Some(given) = given.as_object() else {
        return Err(Failure::usage(format!("-c mcp_servers.{name} is not a table of keys")));
    };
    let mut server = Value::Null;
    for (key, value) in given {
        match key.as_str() {
            "command" | "args" | "cwd" | "url" | "enabled" | "required" | "env" => {
                put_in(&mut server, &[key], value.clone());
            }
            "env_vars" => {
                for variable in texts(value) {
                    put_in(&mut server, &["env", &variable], json!(format!("${{{variable}:-}}")));
                }
            }
            "http_headers" => {
                for (header, value) in value.as_object().into_iter().flatten() {
                    put_in(&mut server, &["headers", header], value.clone());
                }
            }
            "env_http_headers" => {
                for (header, variable) in value.as_object().into_iter().flatten() {
                    put_in(&mut server, &["headers", header], json!(format!("${{{}}}", text_of(variable))));
                }
            }
            "bearer_token_env_var" => {
                let token = json!(format!("Bearer ${{{}}}", text_of(value)));
                put_in(&mut server, &["headers", "Authorization"], token);
            }
            "scopes" => put(&mut server, "oauth.scopes", value.clone()),
            "startup_timeout_sec" => put(&mut server, "startTimeout", milliseconds(value)),
            "startup_timeout_ms" => put(&mut server, "startTimeout", value.clone()),
            "tool_timeout_sec" => put(&mut server, "timeout", milliseconds(value)),
            "disabled_tools" => {
                run.permissions
                    .disallowed_tools
                    .extend(texts(value).map(|tool| format!("mcp__{name}__{tool}")));
            }
            "enabled_tools" => {
                return Err(Failure::usage(format!(
                    "-c mcp_servers.{name}.enabled_tools has no counterpart here"
                ))
                .hint("name the other tools in disabled_tools"));
            }
            "default_tools_approval_mode" if text_of(value) == "approve" => {
                run.permissions.allowed_tools.push(format!("mcp__{name}"));
            }
            "tools" => {
                for (tool, keys) in value.as_object().into_iter().flatten() {
                    if keys["approval_mode"] == "approve" {
                        run.permissions.allowed_tools.push(format!("mcp__{name}__{tool}"));
                    }
                }
            }
            _ => out.unknown.push(format!("mcp_servers.{name}.{key}")),
        }
    }
    run.mcp.mcp_config.push(json!({ "mcpServers": { name: server } }).to_string());
    Ok(())
}

/// Translates a provider of `model_providers` to the settings of a provider of becket.
fn model_provider(name: &str, given: &Value, environment: &Environment, out: &mut CodexConfig) {
    let mut provider = Value::Null;
    // The default of Codex is OpenAI Responses. A provider that becket knows has its own format.
    if becket_config::vendor(name).is_none() || given.get("wire_api").is_some() {
        let kind = if given["wire_api"] == "chat" { "openai-chat" } else { "openai-responses" };
        put(&mut provider, "kind", json!(kind));
    }
    for (key, value) in given.as_object().into_iter().flatten() {
        match key.as_str() {
            "base_url" => put(&mut provider, "base_url", value.clone()),
            "env_key" => put(&mut provider, "api_key_env", value.clone()),
            "http_headers" => {
                for (header, value) in value.as_object().into_iter().flatten() {
                    put_in(&mut provider, &["headers", header], value.clone());
                }
            }
            "env_http_headers" => {
                for (header, variable) in value.as_object().into_iter().flatten() {
                    if let Some(value) = environment.var(&text_of(variable)) {
                        put_in(&mut provider, &["headers", header], json!(value));
                    }
                }
            }
            "name" | "wire_api" | "requires_openai_auth" | "env_key_instructions" => {}
            _ => out.unknown.push(format!("model_providers.{name}.{key}")),
        }
    }
    put_in(&mut out.settings, &["providers", name], provider);
}

/// Parses a value of `-c` as TOML. Any other text is a string, without quotes at its ends.
fn value_of(text: &str) -> Value {
    let parsed = toml::from_str::<Map<String, Value>>(&format!("value = {text}"));
    let value = parsed.ok().and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| Value::String(text.trim_matches(['"', '\'']).to_owned()))
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn texts(value: &Value) -> impl Iterator<Item = String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned)
}

fn milliseconds(seconds: &Value) -> Value {
    seconds.as_f64().map_or(Value::Null, |seconds| {
        json!(std::time::Duration::try_from_secs_f64(seconds).map_or(0, |time| time.as_millis()))
    })
}

impl CodexConfig {
    /// Lets edits and confined commands write the folders for temporary files, as at the level `workspace-write` of Codex.
    pub(super) fn open_temporary_folders(&mut self, environment: &Environment, run: &mut Run) {
        let tmp = Some("/tmp").filter(|_| !self.without_tmp);
        let named = environment.var("TMPDIR").filter(|_| !self.without_tmpdir);
        let mut folders: Vec<&str> = tmp.into_iter().chain(named).collect();
        folders.retain(|folder| {
            let path = Path::new(folder);
            path.is_absolute() && path.parent().is_some() && path.is_dir()
        });
        folders.dedup();
        for folder in &folders {
            // Two slashes: the rule names a path of the file system, not of the project.
            let pattern = format!("/{}/**", folder.trim_end_matches('/'));
            run.permissions.allowed_tools.extend([format!("Read({pattern})"), format!("Edit({pattern})")]);
        }
        if !folders.is_empty() {
            put(&mut self.settings, "sandbox.write", json!(folders));
        }
    }
}

/// Adds the keys of a table to a tree of objects.
pub(super) fn put_table(whole: &mut Value, table: Value) {
    if !table.is_null() {
        put_in(whole, &[], table);
    }
}

/// Sets a key with dots in a tree of objects.
fn put(whole: &mut Value, key: &str, value: Value) {
    put_in(whole, &key.split('.').collect::<Vec<_>>(), value);
}

fn put_in(whole: &mut Value, path: &[&str], value: Value) {
    match (path, value) {
        // A table adds its keys to those that are there.
        ([], Value::Object(keys)) if whole.is_object() => {
            for (key, value) in keys {
                put_in(whole, &[&key], value);
            }
        }
        ([], value) => *whole = value,
        ([first, rest @ ..], value) => {
            if !whole.is_object() {
                *whole = Value::Object(Map::new());
            }
            if let Some(object) = whole.as_object_mut() {
                put_in(object.entry((*first).to_owned()).or_insert(Value::Null), rest, value);
            }
        }
    }
}

/// Returns the whole name of a key that the user wrote with dots.
fn leaf(key: &str, value: &Value) -> String {
    match value.as_object().filter(|keys| keys.len() == 1).and_then(|keys| keys.iter().next()) {
        Some((inner, value)) => leaf(&format!("{key}.{inner}"), value),
        None => key.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    fn of(settings: &[&str]) -> (Run, CodexConfig, Environment) {
        let mut environment = Environment::below(Path::new("/nowhere"));
        environment.vars.insert("TEAM".to_owned(), "blue".to_owned());
        let mut run = Run::try_parse_from(["becket", "-p"]).unwrap();
        let given: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
        let configured = apply(&given, &mut environment, &mut run).unwrap();
        (run, configured, environment)
    }

    #[test]
    fn values_are_toml_or_text() {
        for (text, want) in [
            ("\"a\\\"b\"", json!("a\"b")),
            ("'a'", json!("a")),
            ("true", json!(true)),
            ("[\"a\", \"b\"]", json!(["a", "b"])),
            ("{a = 1}", json!({"a": 1})),
            ("gpt-5.6", json!("gpt-5.6")),
            ("", json!("")),
        ] {
            assert_eq!(value_of(text), want, "{text}");
        }
    }

    #[test]
    fn a_server_is_translated_with_all_its_keys() {
        let (run, configured, _) = of(&[
            "mcp_servers.docs.command=\"npx\"",
            "mcp_servers.docs.args=[\"-y\", \"docs\"]",
            "mcp_servers.docs.env={A = \"1\"}",
            "mcp_servers.docs.env_vars=[\"B\"]",
            "mcp_servers.docs.startup_timeout_sec=2.5",
            "mcp_servers.docs.tool_timeout_sec=60",
            "mcp_servers.docs.disabled_tools=[\"drop\"]",
            "mcp_servers.docs.tools.find.approval_mode=\"approve\"",
            "mcp_servers.docs.new_key=1",
        ]);
        let servers: Value = serde_json::from_str(&run.mcp.mcp_config[0]).unwrap();
        let want = json!({
            "command": "npx", "args": ["-y", "docs"], "env": {"A": "1", "B": "${B:-}"}, "startTimeout": 2500, "timeout": 60_000,
        });
        assert_eq!(servers["mcpServers"]["docs"], want);
        assert_eq!(run.permissions.disallowed_tools, ["mcp__docs__drop"]);
        assert_eq!(run.permissions.allowed_tools, ["mcp__docs__find"]);
        assert_eq!(configured.unknown, ["mcp_servers.docs.new_key"]);
        let vars = |_: &str| Some("token".to_owned());
        let (remote, ..) = of(&[
            "mcp_servers.r={url = \"https://h/mcp\", bearer_token_env_var = \"T\", http_headers = {X = \"1\"}}",
        ]);
        let parsed =
            becket_mcp::config::parse(&serde_json::from_str(&remote.mcp.mcp_config[0]).unwrap(), &vars);
        let becket_mcp::Endpoint::Http { headers, .. } = &parsed.servers[0].endpoint else {
            panic!("{parsed:?}")
        };
        assert_eq!((headers["Authorization"].as_str(), headers["X"].as_str()), ("Bearer token", "1"));
        let mut environment = Environment::below(Path::new("/nowhere"));
        let limited = ["mcp_servers.docs.enabled_tools=[\"find\"]".to_owned()];
        let mut run = Run::try_parse_from(["becket", "-p"]).unwrap();
        assert!(apply(&limited, &mut environment, &mut run).is_err(), "a limit must not be lost");
    }

    #[test]
    fn providers_and_tables_become_settings() {
        let (run, configured, environment) = of(&[
            "model_provider=\"corp\"",
            "model_providers.corp.name=\"Corp\"",
            "model_providers.corp.base_url=\"https://models.corp.example/v1\"",
            "model_providers.corp.env_key=\"CORP_KEY\"",
            "model_providers.corp.wire_api=\"chat\"",
            "model_providers.corp.env_http_headers={X-Team = \"TEAM\"}",
            "model_providers.ollama.base_url=\"http://127.0.0.1:9/v1\"",
            "sandbox_workspace_write.network_access=true",
            "sandbox_workspace_write.writable_roots=[\"/data\"]",
            "shell_environment_policy.set={CI = \"1\"}",
            "features.unified_exec=true",
            "openai_base_url=\"http://127.0.0.1:1/v1\"",
            "hide_agent_reasoning=true",
            "some.new.key=1",
        ]);
        let want = json!({
            "providers": {
                "corp": {"kind": "openai-chat", "base_url": "https://models.corp.example/v1", "api_key_env": "CORP_KEY", "headers": {"X-Team": "blue"}},
                "ollama": {"base_url": "http://127.0.0.1:9/v1"},
                "openai": {"kind": "openai-responses"},
            },
            "sandbox": {"network": "full"},
            "shell": {"env": {"CI": "1"}},
        });
        assert_eq!(configured.settings, want);
        assert_eq!(configured.provider.as_deref(), Some("corp"));
        assert_eq!(run.permissions.add_dir, [Path::new("/data")]);
        assert_eq!(environment.var("OPENAI_BASE_URL"), Some("http://127.0.0.1:1/v1"));
        assert_eq!(configured.unknown, ["features.unified_exec", "some.new.key"]);
    }

    #[test]
    fn temporary_folders_can_be_written_unless_excluded() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().to_str().unwrap();
        for (settings, tmpdir, want) in [
            (&[][..], Some(own), vec!["/tmp", own]),
            (&[], None, vec!["/tmp"]),
            (&[], Some("/tmp"), vec!["/tmp"]),
            (&[], Some("relative"), vec!["/tmp"]),
            (&[], Some("/"), vec!["/tmp"]),
            (&["sandbox_workspace_write.exclude_slash_tmp=true"], Some(own), vec![own]),
            (&["sandbox_workspace_write.exclude_tmpdir_env_var=true"], Some(own), vec!["/tmp"]),
            (
                &["sandbox_workspace_write={exclude_slash_tmp = true, exclude_tmpdir_env_var = true}"],
                Some(own),
                vec![],
            ),
        ] {
            let (mut run, mut configured, mut environment) = of(settings);
            environment.vars.extend(tmpdir.map(|dir| ("TMPDIR".to_owned(), dir.to_owned())));
            configured.open_temporary_folders(&environment, &mut run);
            let written = &configured.settings["sandbox"]["write"];
            assert_eq!(written.as_array().cloned().unwrap_or_default(), want, "{settings:?} {tmpdir:?}");
            let rules = want.iter().flat_map(|dir| [format!("Read(/{dir}/**)"), format!("Edit(/{dir}/**)")]);
            assert_eq!(run.permissions.allowed_tools, rules.collect::<Vec<_>>());
            assert!(configured.unknown.is_empty(), "{:?}", configured.unknown);
        }
    }
}
