//! Logins to MCP servers, and the places of their tokens, with an authorization server of our own.

use crate::providers::with_keychain;
use crate::support::{Bench, Running, run};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub(crate) struct AuthServer {
    child: Child,
    pub base: String,
}

impl AuthServer {
    pub(crate) fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/mcp_auth.py");
        let mut child = Command::new("python3").arg(script).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { child, base: format!("http://127.0.0.1:{}", port.trim()) }
    }

    /// The forms that came to the token endpoint.
    pub(crate) fn forms(&self) -> Vec<Value> {
        let answer = get(&format!("{}/log", self.base));
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// The values of `Authorization` that came to the MCP server.
    pub(crate) fn tokens(&self) -> Vec<String> {
        let answer = get(&format!("{}/tokens", self.base));
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// Changes the server's answers, as the script's first comment describes.
    pub(crate) fn set(&self, answers: &Value) {
        let body = answers.to_string();
        let mut stream = TcpStream::connect(self.base.strip_prefix("http://").unwrap()).unwrap();
        write!(
            stream,
            "POST /set HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        stream.read_to_string(&mut String::new()).unwrap();
    }
}

impl Drop for AuthServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The whole answer to a GET.
fn get(address: &str) -> String {
    let (host, path) = address.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

pub(crate) fn configured(bench: &Bench, server: &AuthServer, oauth: &Value) {
    let servers =
        json!({ "mcpServers": { "auth": { "url": format!("{}/mcp", server.base), "oauth": oauth } } });
    bench.home.write(".config/becket/mcp.json", servers.to_string());
}

/// Starts a login with a browser that agrees at once.
pub(crate) fn log_in(command: &mut Command) -> Running {
    let mut running = Running::start(command);
    let address = running.line(|line| line.contains("/authorize?"));
    let answer = get(address.trim());
    let location = answer.lines().find_map(|line| line.strip_prefix("Location: ")).unwrap();
    assert!(get(location).contains("becket has the answer"));
    running
}

/// Logs in with a browser that agrees at once. Returns the last line.
pub(crate) fn logged_in(command: &mut Command) -> String {
    let mut running = log_in(command);
    let said = running.line(|line| line.starts_with("authorized: auth"));
    running.wait().expect(0);
    said
}

pub(crate) fn holds(dir: &Path, text: &str) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            holds(&path, text)
        } else {
            std::fs::read(path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(text))
        }
    })
}

#[test]
fn tokens_are_in_the_keychain_or_in_a_file_of_their_owner() {
    if std::env::consts::OS == "macos" {
        println!("skipped: macOS has its own program, which cannot be replaced");
        return;
    }
    let server = AuthServer::start();
    let bench = Bench::new(&[]);
    configured(&bench, &server, &json!({}));
    let command = with_keychain(&bench);
    let (store, becket) = (bench.home.path("keychain"), bench.home.path(".local"));
    let state = || run(&mut command(&["mcp", "get", "auth"])).expect(0).stdout;
    assert!(state().contains("needs an authorization: becket mcp login auth"), "{}", state());

    let said = logged_in(&mut command(&["mcp", "login", "auth"]));
    assert!(said.contains("its tokens are in the system's keychain"), "{said}");
    assert!(state().contains("connected, 1 tool"), "{}", state());
    assert!(holds(&store, "secret-refresh") && !holds(&becket, "secret-"), "a token is in a file of becket");
    let arguments = std::fs::read_to_string(store.join("arguments")).unwrap();
    assert!(!arguments.contains("secret-"), "a token was an argument");

    // If the keychain is locked, becket reports the reason and the next step. The next login keeps its tokens in the file.
    std::fs::write(store.join("locked"), "").unwrap();
    let locked = state();
    assert!(locked.contains("it is locked") && locked.contains("becket mcp login auth --file"), "{locked}");
    let ran = run(&mut command(&["mcp", "logout", "auth"])).expect(1);
    assert!(ran.stderr.contains("its tokens are in the system's keychain: it is locked"), "{}", ran.stderr);
    let said = logged_in(&mut command(&["mcp", "login", "auth"]));
    assert!(said.contains("(not in the keychain: Cannot create an item in a locked collection)"), "{said}");
    assert!(holds(&becket, "secret-refresh") && state().contains("connected"), "{}", state());
    std::fs::remove_file(store.join("locked")).unwrap();

    logged_in(&mut command(&["mcp", "login", "auth"]));
    assert!(!holds(&becket, "secret-"));
    let said = logged_in(&mut command(&["mcp", "login", "auth", "--file"]));
    assert!(said.contains("mcp-auth/") && !said.contains("keychain"), "{said}");
    assert!(holds(&becket, "secret-refresh") && !holds(&store, "secret-refresh"));
    logged_in(&mut command(&["mcp", "login", "auth"]));
    run(&mut command(&["mcp", "logout", "auth"])).expect(0);
    assert!(!holds(&becket, "secret-") && !holds(&store, "secret-"));
    assert!(state().contains("needs an authorization"), "{}", state());
}

#[test]
fn a_program_proves_itself_by_its_key() {
    let server = AuthServer::start();
    let bench = Bench::new(&[]);
    let key = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mcp/tests/keys/p256.pem");
    let oauth = |issuer: &str| json!({ "grantType": "client_credentials", "clientId": "ci", "privateKeyFile": key, "issuer": issuer });
    configured(&bench, &server, &oauth(&server.base));
    let ran = run(bench.command().args(["mcp", "get", "auth"])).expect(0);
    assert!(ran.stdout.contains("connected, 1 tool"), "{}", ran.stdout);
    let form = server.forms().remove(0);
    assert_eq!(form["client_assertion_type"], "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
    assert_eq!(
        (&form["grant_type"], form["client_assertion"].as_str().unwrap().split('.').count()),
        (&json!("client_credentials"), 3)
    );
    assert!(form.get("client_secret").is_none());

    // If the server names another issuer than the configuration does, that issuer gets nothing.
    let before = server.forms().len();
    configured(&bench, &server, &oauth("https://login.example.com"));
    let ran = run(bench.command().args(["mcp", "get", "auth"])).expect(0);
    assert!(
        ran.stdout.contains("the configuration allows only \"https://login.example.com\""),
        "{}",
        ran.stdout
    );
    assert_eq!(server.forms().len(), before);
}
