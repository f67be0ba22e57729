//! `becket mcp`: MCP servers in the configuration files, their states, and the project's servers that are allowed.

use crate::args::{AddArgs, McpCommandArgs, McpScope, McpWhat};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::mcp::{self, Configured, Place};
use crate::settings::{self, project_root};
use crate::trust::content::ContentTrust;
use becket_config::Config;
use becket_mcp::oauth::{Login, StoredIn};
use becket_mcp::{Hub, Status, config};
use becket_print::{ExitStatus, clean};
use becket_tool::text::nearest;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for the states of servers.
const WAIT: Duration = Duration::from_secs(35);

pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &McpCommandArgs,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    match &args.what {
        McpWhat::Add(add) => {
            let written = add_server(environment, cwd, &add.name, &entry(add)?, add.scope)?;
            written.print(add.json, out)
        }
        McpWhat::AddJson { name, json, scope, as_json } => {
            let value = serde_json::from_str(json)
                .map_err(|e| Failure::usage(format!("the server's keys are not valid JSON: {e}")))?;
            add_server(environment, cwd, name, &value, *scope)?.print(*as_json, out)
        }
        McpWhat::List { json, .. } => list(environment, cwd, args, *json, out),
        McpWhat::Get { name, json, .. } => get(environment, cwd, args, name, *json, out),
        McpWhat::Remove { name, scope, json } => remove(environment, cwd, name, *scope)?.print(*json, out),
        McpWhat::Login { name, file } => login(environment, cwd, name, *file, out),
        McpWhat::Logout { name } => logout(environment, cwd, name, out),
        McpWhat::Approve { name, json } => approve(environment, cwd, name)?.print(*json, out),
        McpWhat::Serve { permissions } => super::mcp_serve::run(environment, permissions, out),
        McpWhat::ResetProjectChoices { json } => {
            let gone = mcp::forget(environment, cwd)
                .map_err(|e| Failure::error(format!("nothing was changed: {e}")))?;
            let refusals = ContentTrust::for_project(environment, &project_root(cwd), false)
                .forget_refusals()
                .map_err(|e| Failure::error(format!("your refusals were not withdrawn: {e}")))?;
            let servers = match gone {
                0 => "no server of this project's .mcp.json was allowed".to_owned(),
                1 => "1 server of this project's .mcp.json is no longer allowed".to_owned(),
                gone => format!("{gone} servers of this project's .mcp.json are no longer allowed"),
            };
            let asked = match refusals {
                0 => String::new(),
                n => format!(
                    "; {} withdrawn: becket asks again when it starts in a terminal",
                    super::count(n, "refusal")
                ),
            };
            let json_line = json!({ "reset": gone, "refusals": refusals });
            Done { line: format!("{servers}{asked}"), json: json_line }.print(*json, out)
        }
    }
}

/// The change that a command has made: as a line, and as JSON.
struct Done {
    line: String,
    json: Value,
}

impl Done {
    fn print(&self, json: bool, out: &mut dyn Write) -> Result<ExitStatus, Failure> {
        if json { print_line(out, &self.json.to_string()) } else { print_line(out, &self.line) }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the last expression of a subcommand")]
fn print_line(out: &mut dyn Write, line: &str) -> Result<ExitStatus, Failure> {
    let _ = writeln!(out, "{line}");
    Ok(ExitStatus::Ok)
}

/// Returns the JSON of a server from the words of `add`.
fn entry(add: &AddArgs) -> Result<Value, Failure> {
    let first = add.command.first().map(String::as_str).unwrap_or_default();
    let is_address = first.starts_with("http://") || first.starts_with("https://");
    let kind = add.transport.as_deref().unwrap_or(if is_address { "http" } else { "stdio" });
    let mut entry = Map::new();
    entry.insert("type".to_owned(), json!(kind));
    if kind == "stdio" {
        entry.insert("command".to_owned(), json!(first));
        entry.insert("args".to_owned(), json!(add.command[1..]));
        let mut env = Map::new();
        for pair in &add.env {
            let (name, value) = pair.split_once('=').ok_or_else(|| {
                Failure::usage(format!("--env {pair:?} has no value")).hint("write --env NAME=VALUE")
            })?;
            env.insert(name.to_owned(), json!(value));
        }
        if !env.is_empty() {
            entry.insert("env".to_owned(), Value::Object(env));
        }
    } else {
        entry.insert("url".to_owned(), json!(first));
        let mut headers = Map::new();
        for header in &add.header {
            let (name, value) = header.split_once(':').ok_or_else(|| {
                Failure::usage(format!("--header {header:?} has no value"))
                    .hint("write --header \"Name: value\"")
            })?;
            headers.insert(name.trim().to_owned(), json!(value.trim()));
        }
        if !headers.is_empty() {
            entry.insert("headers".to_owned(), Value::Object(headers));
        }
        let mut oauth = Map::new();
        if let Some(id) = &add.client_id {
            oauth.insert("clientId".to_owned(), json!(id));
        }
        if let Some(port) = add.callback_port {
            oauth.insert("callbackPort".to_owned(), json!(port));
        }
        if !oauth.is_empty() {
            entry.insert("oauth".to_owned(), Value::Object(oauth));
        }
    }
    Ok(Value::Object(entry))
}

/// Returns the file of a scope.
fn file(environment: &Environment, cwd: &Path, scope: McpScope) -> PathBuf {
    match scope {
        McpScope::Project => mcp::project_file(cwd),
        McpScope::Local | McpScope::User => mcp::user_file(environment),
    }
}

/// Returns the object of servers of a scope inside its file. Creates it if it is missing.
fn servers_of<'a>(whole: &'a mut Value, cwd: &Path, scope: McpScope) -> Option<&'a mut Map<String, Value>> {
    let mut at = whole;
    if scope == McpScope::Local {
        let root = project_root(cwd).to_string_lossy().into_owned();
        at = at.as_object_mut()?.entry("projects").or_insert_with(|| json!({}));
        at = at.as_object_mut()?.entry(root).or_insert_with(|| json!({}));
    }
    at.as_object_mut()?.entry("mcpServers").or_insert_with(|| json!({})).as_object_mut()
}

fn read_whole(path: &Path) -> Result<Value, Failure> {
    let mut problems = Vec::new();
    let value = mcp::read_file(path, &mut problems);
    match problems.pop() {
        Some(problem) => Err(Failure::usage(problem).hint("repair the file first")),
        None => Ok(value.unwrap_or_else(|| json!({}))),
    }
}

fn write_whole(path: &Path, value: &Value, scope: McpScope) -> Result<(), Failure> {
    let written = if scope == McpScope::Project {
        std::fs::write(path, format!("{value:#}\n"))
    } else {
        mcp::write_private(path, value)
    };
    written.map_err(|e| Failure::error(format!("{} was not written: {e}", path.display())))
}

fn add_server(
    environment: &Environment,
    cwd: &Path,
    name: &str,
    entry: &Value,
    scope: McpScope,
) -> Result<Done, Failure> {
    // A variable may be set where the server is used, even if it is not set here.
    let (server, odd) = config::server(name, entry, &|_| Some("x".to_owned())).map_err(Failure::usage)?;
    if let Some(odd) = odd.first() {
        return Err(Failure::usage(odd.clone()));
    }
    let path = file(environment, cwd, scope);
    let mut whole = read_whole(&path)?;
    let wrong = || Failure::usage(format!("{} has no object mcpServers", path.display()));
    let servers = servers_of(&mut whole, cwd, scope).ok_or_else(wrong)?;
    if servers.contains_key(name) {
        return Err(Failure::usage(format!("there is an MCP server {name} already"))
            .hint(format!("becket mcp remove {name}")));
    }
    servers.insert(name.to_owned(), entry.clone());
    write_whole(&path, &whole, scope)?;
    if scope == McpScope::Project {
        // The user who adds a server knows its entry, so no question about it follows.
        let text = content(environment, cwd, name, entry)?;
        mcp::approve(environment, cwd, name, &text)
            .map_err(|e| Failure::error(format!("the server was added and is not allowed yet: {e}")))?;
    }
    // The server's program may be installed later, so a missing one is only a warning.
    let missing = mcp::missing_program(environment, cwd, &server);
    let note = missing.as_ref().map(|missing| format!("\nbecket: {missing}")).unwrap_or_default();
    Ok(Done {
        line: format!("added the MCP server {name} to {}{note}", path.display()),
        json: json!({ "added": name, "file": path.to_string_lossy(), "warning": missing }),
    })
}

fn remove(
    environment: &Environment,
    cwd: &Path,
    name: &str,
    scope: Option<McpScope>,
) -> Result<Done, Failure> {
    let scopes =
        scope.map_or_else(|| vec![McpScope::Local, McpScope::Project, McpScope::User], |scope| vec![scope]);
    for scope in scopes {
        let path = file(environment, cwd, scope);
        let mut whole = read_whole(&path)?;
        let Some(servers) = servers_of(&mut whole, cwd, scope) else { continue };
        if servers.shift_remove(name).is_some() {
            write_whole(&path, &whole, scope)?;
            return Ok(Done {
                line: format!("removed the MCP server {name} from {}", path.display()),
                json: json!({ "removed": name, "file": path.to_string_lossy() }),
            });
        }
    }
    Err(Failure::usage(format!("there is no MCP server {name}")).hint("becket mcp list shows all"))
}

fn approve(environment: &Environment, cwd: &Path, name: &str) -> Result<Done, Failure> {
    let whole = read_whole(&mcp::project_file(cwd))?;
    let entry = config::entries(&whole).ok().and_then(|entries| entries.get(name));
    let entry =
        entry.ok_or_else(|| Failure::usage(format!("this project's .mcp.json has no server {name}")))?;
    let text = content(environment, cwd, name, entry)?;
    mcp::approve(environment, cwd, name, &text)
        .map_err(|e| Failure::error(format!("nothing was changed: {e}")))?;
    Ok(Done {
        line: format!("allowed the MCP server {name} as it is now: {}", clean(&text)),
        json: json!({ "approved": name, "content": text }),
    })
}

/// Returns the text that an approval of the server covers: its entry, its program, and the project's files that it runs.
fn content(environment: &Environment, cwd: &Path, name: &str, entry: &Value) -> Result<String, Failure> {
    let variable = |variable: &str| environment.vars.get(variable).cloned();
    // If a variable of the entry is not set here, its value is left empty in the text.
    let server = config::server(name, entry, &variable)
        .or_else(|_| config::server(name, entry, &|_| Some(String::new())))
        .map_err(Failure::usage)?;
    Ok(mcp::content(environment, cwd, entry, &server.0))
}

/// Starts the servers and waits for their states.
fn states(
    environment: &Environment,
    cwd: &Path,
    args: &McpCommandArgs,
    servers: Vec<&Configured>,
) -> Result<Vec<Status>, Failure> {
    let settings = settings::configuration(environment, cwd, &args.config, Vec::new(), false)?;
    let roots = settings::roots(cwd, &[])?;
    let sandbox = crate::sandbox::sandbox(environment, &settings.config, &roots).map(Arc::new);
    let programs =
        crate::sandbox::programs(environment, &settings.config.tools.sandbox, sandbox.as_ref(), &roots);
    let configs = servers.into_iter().map(|server| server.config.clone()).collect();
    let settings = mcp::hub_settings(environment, &settings.config, cwd, programs);
    Ok(crate::runtime()?.block_on(async {
        let hub = Hub::start(configs, settings);
        hub.wait_until_started(WAIT).await;
        let states = hub.statuses();
        hub.stop().await;
        states
    }))
}

fn as_json(server: &Configured, status: Option<&Status>) -> Value {
    json!({
        "name": server.config.name,
        "scope": server.place.as_str(),
        "server": server.config.description(),
        "status": status.map_or("not-allowed", |status| status.state.word()),
        "error": status.and_then(|status| match &status.state {
            becket_mcp::State::Failed(why) => Some(why.clone()),
            _ => None,
        }),
        "tools": status.map(|status| status.tools.clone()).unwrap_or_default(),
        "resources": status.map_or(0, |status| status.resources),
        "prompts": status.map_or(0, |status| status.prompts),
        "notes": status.map(|status| status.notes.clone()).unwrap_or_default(),
    })
}

/// Describes a server in one line.
fn line(server: &Configured, status: Option<&Status>) -> String {
    let name = &server.config.name;
    let state = match status.map(|status| &status.state) {
        None => format!("not allowed yet (becket mcp get {name}, then becket mcp approve {name})"),
        Some(becket_mcp::State::Failed(why)) => format!("failed: {why}"),
        Some(becket_mcp::State::NeedsAuth) => format!("needs an authorization: becket mcp login {name}"),
        Some(becket_mcp::State::Connected { protocol }) => {
            let tools = super::count(status.map_or(0, |s| s.tools.len()), "tool");
            format!("connected, {tools}, protocol {protocol}")
        }
        Some(state) => state.word().to_owned(),
    };
    format!("{name}  {}  [{}]  {state}", server.config.description(), server.place.as_str())
}

fn list(
    environment: &Environment,
    cwd: &Path,
    args: &McpCommandArgs,
    json: bool,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    let found = mcp::find_servers(environment, cwd, &[], false, false)?;
    let states =
        states(environment, cwd, args, found.servers.values().filter(|server| server.allowed).collect())?;
    let of = |server: &Configured| states.iter().find(|status| status.name == server.config.name);
    if json {
        let all: Vec<Value> = found.servers.values().map(|server| as_json(server, of(server))).collect();
        return print_line(out, &json!({"servers": all, "problems": found.problems}).to_string());
    }
    for server in found.servers.values() {
        let _ = writeln!(out, "{}", line(server, of(server)));
    }
    for problem in &found.problems {
        let _ = writeln!(out, "{problem}");
    }
    if found.servers.is_empty() && found.problems.is_empty() {
        let _ = writeln!(
            out,
            "no MCP server is configured (add one: becket mcp add NAME -- COMMAND, or becket mcp add NAME URL)"
        );
    }
    Ok(ExitStatus::Ok)
}

fn get(
    environment: &Environment,
    cwd: &Path,
    args: &McpCommandArgs,
    name: &str,
    json: bool,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    let found = mcp::find_servers(environment, cwd, &[], false, false)?;
    let server = found.servers.get(name).ok_or_else(|| unknown_server(name, &found))?;
    let states =
        states(environment, cwd, args, Some(server).filter(|server| server.allowed).into_iter().collect())?;
    let status = states.first();
    if json {
        let mut value = as_json(server, status);
        let definition = |tool: &becket_mcp::ToolAbout| json!({ "name": tool.name, "description": tool.description, "inputSchema": tool.schema });
        value["definitions"] =
            status.map(|status| status.about.tools.iter().map(definition).collect()).unwrap_or_default();
        return print_line(out, &value.to_string());
    }
    let _ = writeln!(out, "{}", line(server, status));
    if server.place == Place::Project {
        let whole = read_whole(&mcp::project_file(cwd))?;
        if let Some(entry) = config::entries(&whole).ok().and_then(|entries| entries.get(name)) {
            let _ = writeln!(out, "{entry:#}");
            let text = content(environment, cwd, name, entry)?;
            let scripts = text.strip_prefix(&entry.to_string()).unwrap_or_default();
            let _ = write!(out, "{}", clean(scripts));
            if !scripts.is_empty() {
                let _ = writeln!(out);
            }
        }
    } else if let Some(program) = mcp::program_line(environment, cwd, &server.config) {
        let _ = writeln!(out, "  {}", clean(&program));
    }
    let Some(status) = status else { return Ok(ExitStatus::Ok) };
    for tool in &status.tools {
        let _ = writeln!(out, "  {tool}");
    }
    for note in &status.notes {
        let _ = writeln!(out, "note: {note}");
    }
    if !status.stderr.trim().is_empty() {
        let _ = writeln!(out, "written to its standard error:\n{}", status.stderr.trim_end());
    }
    Ok(ExitStatus::Ok)
}

/// Returns a configured server, allowed or not.
fn find_configured(environment: &Environment, cwd: &Path, name: &str) -> Result<Configured, Failure> {
    let mut found = mcp::find_servers(environment, cwd, &[], false, false)?;
    found.servers.remove(name).ok_or_else(|| unknown_server(name, &found))
}

/// Returns the failure for a name that no server has.
fn unknown_server(name: &str, found: &mcp::ConfiguredServers) -> Failure {
    let near = nearest(name, found.servers.keys().map(String::as_str));
    let near = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
    Failure::usage(format!("there is no MCP server {name}")).hint(format!("{near}becket mcp list shows all"))
}

fn login(
    environment: &Environment,
    cwd: &Path,
    name: &str,
    in_file: bool,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    let server = find_configured(environment, cwd, name)?;
    if !server.allowed {
        return Err(Failure::usage(format!("you have not allowed the MCP server {name} of .mcp.json"))
            .hint(format!("look at it: becket mcp get {name}; allow it: becket mcp approve {name}")));
    }
    let settings =
        mcp::hub_settings(environment, &Config::default(), cwd, becket_sandbox::Programs::default());
    let Some(mut tokens) = settings.tokens else {
        return Err(Failure::error("there is no store for tokens"));
    };
    tokens.in_files = in_file;
    let failed =
        |e: becket_mcp::oauth::LoginError| Failure::error(format!("no authorization for {name}: {e}"));
    crate::runtime()?.block_on(async {
        let login = Login::begin(&server.config, &tokens, &settings.proxies).await.map_err(failed)?;
        let _ = writeln!(
            out,
            "Open this address in a browser:\n\n  {}\n\nIf the browser runs on another machine, paste the address that it \
             ends at here.",
            login.address()
        );
        let _ = out.flush();
        login.finish(pasted_line()).await.map_err(failed)
    })?;
    let url = match &server.config.endpoint {
        becket_mcp::Endpoint::Http { url, .. } => url::Url::parse(url).ok(),
        _ => None,
    };
    let place = match url.and_then(|url| tokens.place(name, &url)) {
        Some(StoredIn::Keychain) => format!("; its tokens are in {}", crate::keys::KEYCHAIN),
        Some(StoredIn::File(path, None)) => format!("; its tokens are in {}", path.display()),
        Some(StoredIn::File(path, Some(why))) => {
            format!("; its tokens are in {} (not in the keychain: {why})", path.display())
        }
        None => String::new(),
    };
    print_line(out, &format!("authorized: {name}{place}"))
}

/// Reads a line of standard input; `None` at its end.
async fn pasted_line() -> Option<String> {
    let (sender, received) = tokio::sync::oneshot::channel();
    // Reads on its own thread, because a read from a terminal cannot be cancelled.
    std::thread::spawn(move || {
        let mut line = String::new();
        while std::io::stdin().read_line(&mut line).is_ok_and(|read| read > 0) {
            if !line.trim().is_empty() {
                let _ = sender.send(line);
                return;
            }
        }
    });
    received.await.ok()
}

fn logout(
    environment: &Environment,
    cwd: &Path,
    name: &str,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    let server = find_configured(environment, cwd, name)?;
    let settings =
        mcp::hub_settings(environment, &Config::default(), cwd, becket_sandbox::Programs::default());
    let becket_mcp::Endpoint::Http { url, .. } = &server.config.endpoint else {
        return Err(Failure::usage(format!("{name} is reached without HTTP and has no authorization")));
    };
    let (Some(tokens), Ok(url)) = (settings.tokens, url::Url::parse(url)) else {
        return Err(Failure::error("there is no store for tokens"));
    };
    let had = tokens.forget(name, &url).map_err(|e| Failure::error(format!("nothing was changed: {e}")))?;
    print_line(
        out,
        &if had {
            format!("removed the authorization of {name}")
        } else {
            format!("{name} has no authorization")
        },
    )
}
