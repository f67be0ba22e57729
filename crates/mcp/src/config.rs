//! Server configurations as data: from `.mcp.json`, the user's files and `--mcp-config`.
//!
//! Owns the keys of a server and the replacement of `${VAR}` in them. Reads neither files nor the environment; the
//! caller passes text and variables. An invalid server gives one line for people and does not affect the others.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The way in which the model gets a server's tools: in every request, or by a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exposure {
    Direct,
    Deferred,
}

/// Parts of an authorization that the user fixes in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OAuthConfig {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Port on which the browser's answer is received; `None`: any free port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_port: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_type: Option<GrantType>,
    /// The authorization server that may give tokens; `None`: any that the server names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// An audience that tokens may name instead of the server's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// The private key in PEM with which a program proves its identity. `private_key_file`: the file with the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_key_file: Option<PathBuf>,
    /// A token of the platform on which the program runs. `assertion_file`: the file with the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assertion: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assertion_file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_provider: Option<IdentityProvider>,
}

/// An organization's identity provider, which vouches for a person at other servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdentityProvider {
    pub token_endpoint: String,
    /// Id of this client at the provider.
    pub client_id: String,
    /// The person's id token. `id_token_file`: the file with the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_token_file: Option<PathBuf>,
}

/// The way in which a token is obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantType {
    /// A person agrees in a browser.
    AuthorizationCode,
    /// A program proves its identity by id and secret, or by a private key.
    ClientCredentials,
    /// A signed token of the platform or of an identity provider suffices.
    JwtBearer,
}

/// The connection to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Stdio {
        command: String,
        args: Vec<String>,
        env: BTreeMap<String, String>,
        cwd: Option<String>,
    },
    /// Streamable HTTP, or with `legacy` the two channels of protocol 2024-11-05.
    Http {
        url: String,
        headers: BTreeMap<String, String>,
        /// A program that prints further headers as a JSON object.
        headers_helper: Option<String>,
        oauth: Box<OAuthConfig>,
        legacy: bool,
    },
    /// Messages are passed to functions of the host: see [`crate::Channel`].
    Host,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    pub name: String,
    pub endpoint: Endpoint,
    /// Maximum time of a call without progress.
    pub timeout: Option<Duration>,
    /// Maximum time of a start, up to the list of tools.
    pub start_timeout: Option<Duration>,
    pub enabled: bool,
    /// True if the first prompt waits for this server, and a run without it fails.
    pub required: bool,
    /// `None`: decided by the size of the server's definitions.
    pub exposure: Option<Exposure>,
    /// The user's description of the server for the model. It replaces the server's own.
    pub description: Option<String>,
    /// The source of the configuration, for people, such as [`PROJECT`]; `None` if the source is not known.
    pub scope: Option<String>,
}

/// The [`ServerConfig::scope`] of servers that a project configures and the user has allowed.
pub const PROJECT: &str = "project";

impl ServerConfig {
    /// A server in the host's own process.
    pub fn of_host(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            endpoint: Endpoint::Host,
            timeout: None,
            start_timeout: None,
            enabled: true,
            required: false,
            exposure: None,
            description: None,
            scope: Some("sdk".to_owned()),
        }
    }

    /// Returns the configuration for the program that drives becket, without secrets.
    pub(crate) fn public_json(&self) -> serde_json::Value {
        match &self.endpoint {
            Endpoint::Stdio { command, args, .. } => {
                serde_json::json!({ "type": "stdio", "command": command, "args": args })
            }
            Endpoint::Http { url, legacy, .. } => {
                let kind = if *legacy { "sse" } else { "http" };
                serde_json::json!({ "type": kind, "url": without_secrets(url) })
            }
            Endpoint::Host => serde_json::json!({ "type": "sdk", "name": self.name }),
        }
    }

    /// Returns one line for people: the command or the address, without secrets.
    pub fn description(&self) -> String {
        match &self.endpoint {
            Endpoint::Stdio { command, args, .. } => {
                let words: Vec<&str> =
                    std::iter::once(command.as_str()).chain(args.iter().map(String::as_str)).collect();
                words.join(" ")
            }
            Endpoint::Http { url, legacy, .. } => {
                format!("{} ({})", without_secrets(url), if *legacy { "sse" } else { "http" })
            }
            Endpoint::Host => "in the program that drives becket".to_owned(),
        }
    }
}

/// Returns the address without user, password and query, which may contain keys.
fn without_secrets(url: &str) -> String {
    let Ok(mut parsed) = url::Url::parse(url) else { return url.to_owned() };
    let _ = parsed.set_username("");
    let _ = parsed.set_password(None);
    if parsed.query().is_some() {
        parsed.set_query(Some("…"));
    }
    parsed.to_string()
}

/// One server as the configuration file has it.
#[derive(Deserialize)]
struct Written {
    #[serde(flatten)]
    program: WrittenProgram,
    #[serde(flatten)]
    address: WrittenAddress,
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Milliseconds as a number, or `30s`.
    timeout: Option<Value>,
    /// Like `timeout`.
    #[serde(rename = "startTimeout", alias = "start_timeout")]
    start_timeout: Option<Value>,
    enabled: Option<bool>,
    disabled: Option<bool>,
    #[serde(default)]
    required: bool,
    exposure: Option<Exposure>,
    description: Option<String>,
}

/// The keys of a server that is a program.
#[derive(Deserialize)]
struct WrittenProgram {
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<String>,
}

/// The keys of a server at an address.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenAddress {
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(alias = "headers_helper")]
    headers_helper: Option<String>,
    #[serde(default)]
    oauth: OAuthConfig,
}

const KEYS: &[&str] = &[
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "type",
    "headers",
    "headersHelper",
    "headers_helper",
    "oauth",
    "timeout",
    "startTimeout",
    "start_timeout",
    "enabled",
    "disabled",
    "required",
    "exposure",
    "description",
];

/// The parsed servers, and messages about entries that could not be parsed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    pub servers: Vec<ServerConfig>,
    pub problems: Vec<String>,
    /// The first message that is an error. Some callers fail if a server is left out.
    pub refusal: Option<String>,
}

/// Parses `{"mcpServers": {NAME: {…}}}`, or the inner object alone. `vars` returns the value of a variable.
pub fn parse(value: &Value, vars: &dyn Fn(&str) -> Option<String>) -> Parsed {
    let mut out = Parsed::default();
    match entries(value) {
        Err(why) => {
            out.problems.push(why.clone());
            out.refusal = Some(why);
        }
        Ok(entries) => {
            for (name, entry) in entries {
                match server(name, entry, vars) {
                    Ok((server, odd)) => {
                        out.problems.extend(odd);
                        out.servers.push(server);
                    }
                    Err(why) => {
                        out.problems.push(format!("the MCP server {name:?} is not used: {why}"));
                        out.refusal
                            .get_or_insert_with(|| format!("the MCP server {name:?} cannot be used: {why}"));
                    }
                }
            }
        }
    }
    out
}

/// Returns the entries of all servers of a configuration, by name. The entries themselves are not read yet.
///
/// # Errors
///
/// Returns a message if the value is not a configuration of MCP servers.
pub fn entries(value: &Value) -> Result<&Map<String, Value>, String> {
    let object = value.as_object().ok_or("an MCP configuration is a JSON object with mcpServers")?;
    let inner =
        object.get("mcpServers").or_else(|| object.get("mcp_servers")).or_else(|| object.get("servers"));
    match inner {
        Some(inner) => {
            inner.as_object().ok_or_else(|| "mcpServers is an object of servers by name".to_owned())
        }
        // The inner object alone: the value of every key is a server, so an object.
        None if object.values().all(Value::is_object) => Ok(object),
        None => {
            Err("an MCP configuration has the key mcpServers: {\"mcpServers\": {\"NAME\": {…}}}".to_owned())
        }
    }
}

/// Reads one server from its JSON. Also returns a warning for each unknown key.
///
/// # Errors
///
/// Returns a message if the name or a value is invalid, or if a variable is not set.
pub fn server(
    name: &str,
    value: &Value,
    vars: &dyn Fn(&str) -> Option<String>,
) -> Result<(ServerConfig, Vec<String>), String> {
    check_name(name)?;
    let mut odd = Vec::new();
    if let Some(object) = value.as_object() {
        // Claude's SDKs write the name of a server in their own process also as a key beside `type`.
        let of_host = object.get("type").and_then(Value::as_str) == Some("sdk");
        let is_known = |key: &str| KEYS.contains(&key) || of_host && key == "name";
        for key in object.keys().filter(|key| !is_known(key)) {
            odd.push(format!(
                "the MCP server {name:?} has the unknown key {key:?}, which does nothing{}",
                suggestion(key)
            ));
        }
    }
    let mut missing = Vec::new();
    let filled = fill(value, vars, &mut missing);
    if let Some(variable) = missing.first() {
        return Err(format!(
            "the variable {variable} is not set (set it, or write ${{{variable}:-default}} in the configuration)"
        ));
    }
    let written: Written = serde_json::from_value(filled).map_err(|e| e.to_string())?;
    let endpoint = endpoint(&written).map_err(|why| match unknown_key(value) {
        Some(key) => format!("{why}, and the key {key:?} is unknown{}", suggestion(&key)),
        None => why,
    })?;
    let limit = |key, given: &Option<Value>, variable| match given {
        Some(value) => duration(key, value).map(Some),
        // Environment variables that users of other agents set, in milliseconds.
        None => match vars(variable).and_then(|text| text.trim().parse::<u64>().ok()) {
            Some(milliseconds) => duration(key, &Value::from(milliseconds)).map(Some),
            None => Ok(None),
        },
    };
    let timeout = limit("timeout", &written.timeout, "MCP_TOOL_TIMEOUT")?;
    let start_timeout = limit("startTimeout", &written.start_timeout, "MCP_TIMEOUT")?;
    Ok((
        ServerConfig {
            name: name.to_owned(),
            endpoint,
            timeout,
            start_timeout,
            enabled: written.enabled.unwrap_or(true) && !written.disabled.unwrap_or(false),
            required: written.required,
            exposure: written.exposure,
            scope: None,
            description: written.description,
        },
        odd,
    ))
}

/// Returns the first unknown key of a server's entry.
fn unknown_key(entry: &Value) -> Option<String> {
    entry.as_object()?.keys().find(|key| !KEYS.contains(&key.as_str())).cloned()
}

/// Returns a question such as `(did you mean …?)` with the known key that is most like an unknown one; empty if no key is similar.
fn suggestion(key: &str) -> String {
    let near = becket_tool::text::nearest(key, KEYS.iter().copied());
    near.map(|near| format!(" (did you mean {near:?}?)")).unwrap_or_default()
}

fn endpoint(written: &Written) -> Result<Endpoint, String> {
    let kind =
        written.kind.as_deref().unwrap_or(if written.address.url.is_some() { "http" } else { "stdio" });
    match kind {
        "stdio" => {
            let command = written.program.command.clone().filter(|command| !command.trim().is_empty());
            Ok(Endpoint::Stdio {
                command: command.ok_or("it has neither a command nor a url")?,
                args: written.program.args.clone(),
                env: written.program.env.clone(),
                cwd: written.program.cwd.clone(),
            })
        }
        "http" | "streamable-http" | "streamableHttp" | "streamable_http" | "sse" => {
            let url = written.address.url.clone().ok_or("it has no url")?;
            let parsed = url::Url::parse(&url).map_err(|e| format!("{url:?} is not an address: {e}"))?;
            if !matches!(parsed.scheme(), "http" | "https") {
                return Err(format!("{url:?} is not an address of http or https"));
            }
            Ok(Endpoint::Http {
                url,
                headers: written.address.headers.clone(),
                headers_helper: written.address.headers_helper.clone(),
                oauth: Box::new(written.address.oauth.clone()),
                legacy: kind == "sse",
            })
        }
        "sdk" => Ok(Endpoint::Host),
        other => Err(format!("its type is {other:?}; types are stdio, http and sse")),
    }
}

/// Checks a server's name, which becomes part of tool names and of rules.
///
/// # Errors
///
/// Returns a message with the allowed characters.
pub fn check_name(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ' | ':' | '/' | '@');
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) || name.trim() != name {
        return Err("names of servers are 1 to 64 letters, digits, `-`, `_`, `.`, `/`, `@`".to_owned());
    }
    Ok(())
}

/// Milliseconds as a number; a text with a unit.
fn duration(key: &str, value: &Value) -> Result<Duration, String> {
    let wrong = || format!("{key} {value} is neither a number of milliseconds nor a time such as \"30s\"");
    let from = |number: f64, unit: f64| {
        let seconds = number * unit;
        (seconds.is_finite() && seconds > 0.0 && seconds < 1e9).then(|| Duration::from_secs_f64(seconds))
    };
    match value {
        Value::Number(number) => number.as_f64().and_then(|n| from(n, 0.001)).ok_or_else(wrong),
        Value::String(text) => {
            let text = text.trim();
            let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
            let (number, unit) = text.split_at(at);
            let unit = match unit.trim() {
                "ms" => 0.001,
                "s" | "" => 1.0,
                "m" | "min" => 60.0,
                "h" => 3600.0,
                _ => return Err(wrong()),
            };
            number.parse().ok().and_then(|n| from(n, unit)).ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}

/// Replaces `${VAR}` and `${VAR:-default}` in every text of the value.
fn fill(value: &Value, vars: &dyn Fn(&str) -> Option<String>, missing: &mut Vec<String>) -> Value {
    match value {
        Value::String(text) => Value::String(fill_text(text, vars, missing)),
        Value::Array(items) => items.iter().map(|item| fill(item, vars, missing)).collect(),
        Value::Object(map) => map.iter().map(|(k, v)| (k.clone(), fill(v, vars, missing))).collect(),
        other => other.clone(),
    }
}

fn fill_text(text: &str, vars: &dyn Fn(&str) -> Option<String>, missing: &mut Vec<String>) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(start) = rest.find("${") {
        let after = &rest[start + 2..];
        let Some(end) = after.find('}') else { break };
        out.push_str(&rest[..start]);
        let (name, default) = match after[..end].split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (&after[..end], None),
        };
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        match vars(name).filter(|value| is_name && (!value.is_empty() || default.is_none())) {
            Some(value) => out.push_str(&value),
            None => match default {
                Some(default) => out.push_str(default),
                None if is_name => missing.push(name.to_owned()),
                None => out.push_str(&rest[start..=start + 2 + end]),
            },
        }
        rest = &after[end + 1..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn vars(name: &str) -> Option<String> {
        match name {
            "MCP_TIMEOUT" => Some("45000".to_owned()),
            "TOKEN" => Some("t0".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn every_key_is_read() {
        let value = json!({"mcpServers": {
            "a": {"command": "node", "args": ["x", "${TOKEN}"], "env": {"K": "${NONE:-d}"}, "cwd": "/w", "timeout": "90s",
                  "required": true, "exposure": "deferred", "description": "mine"},
            "b": {"type": "http", "url": "https://h/${EMPTY:-mcp}", "headers": {"Authorization": "Bearer ${TOKEN}"},
                  "headersHelper": "/bin/h", "oauth": {"clientId": "c", "scopes": ["s"], "callbackPort": 7777}, "enabled": false},
            "c": {"type": "sse", "url": "http://localhost:1/sse", "timeout": 1500, "startTimeout": "2m"},
        }});
        let parsed = parse(&value, &vars);
        assert_eq!(parsed.problems, Vec::<String>::new());
        let [a, b, c] = &parsed.servers[..] else { panic!("{parsed:?}") };
        assert_eq!(a.timeout, Some(Duration::from_secs(90)));
        assert!(a.required && a.enabled && a.exposure == Some(Exposure::Deferred));
        assert_eq!(a.description(), "node x t0");
        let Endpoint::Stdio { env, .. } = &a.endpoint else { panic!() };
        assert_eq!(env["K"], "d");
        assert!(!b.enabled);
        assert_eq!(b.description(), "https://h/mcp (http)");
        let Endpoint::Http { headers, oauth, .. } = &b.endpoint else { panic!() };
        assert_eq!((headers["Authorization"].as_str(), oauth.callback_port), ("Bearer t0", Some(7777)));
        assert_eq!(c.timeout, Some(Duration::from_millis(1500)));
        // The variable is the default for every server without a time of its own.
        assert_eq!(a.start_timeout, Some(Duration::from_secs(45)));
        assert_eq!(c.start_timeout, Some(Duration::from_mins(2)));
        assert!(matches!(c.endpoint, Endpoint::Http { legacy: true, .. }));
    }

    #[test]
    fn what_cannot_be_read_is_one_line_and_the_others_stand() {
        for (entry, line) in [
            (json!({}), "neither a command nor a url"),
            (json!({"type": "ftp", "url": "x"}), "its type is \"ftp\""),
            (json!({"url": "file:///x"}), "not an address of http or https"),
            (json!({"command": "x", "args": "y"}), "invalid type"),
            (json!({"command": "x", "env": {"A": "${NOT_SET}"}}), "the variable NOT_SET is not set"),
            (json!({"command": "x", "timeout": "soon"}), "timeout \"soon\""),
            (json!({"command": "x", "startTimeout": {}}), "startTimeout {}"),
        ] {
            let parsed = parse(&json!({"bad": entry, "good": {"command": "true"}}), &vars);
            assert_eq!(parsed.servers.len(), 1, "{entry}");
            assert_eq!(parsed.problems.len(), 1);
            assert!(parsed.problems[0].contains(line), "{:?} for {entry}", parsed.problems);
        }
        assert_eq!(parse(&json!([]), &vars).problems.len(), 1);
        assert_eq!(parse(&json!({"mcpServers": []}), &vars).problems.len(), 1);
        let odd = parse(&json!({"a": {"command": "x", "comand": 1}}), &vars);
        assert_eq!((odd.servers.len(), odd.problems.len(), odd.refusal), (1, 1, None));
        assert!(odd.problems[0].contains("did you mean \"command\"?"), "{:?}", odd.problems);
        let bad = parse(&json!({"a": {"comand": "x"}}), &vars).refusal.unwrap();
        assert_eq!(
            bad,
            "the MCP server \"a\" cannot be used: it has neither a command nor a url, and the key \"comand\" is \
             unknown (did you mean \"command\"?)"
        );
    }

    #[test]
    fn text_without_a_variable_stays() {
        let mut missing = Vec::new();
        for text in ["", "a$b", "${", "${}", "${a b}", "$TOKEN", "x${TOKEN", "π${π}"] {
            assert_eq!(fill_text(text, &vars, &mut missing), text);
        }
        assert_eq!(missing, Vec::<String>::new());
        assert_eq!(fill_text("${TOKEN}-${TOKEN}", &vars, &mut missing), "t0-t0");
    }
}
