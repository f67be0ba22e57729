//! A token for another server than the one that would get it, in each way in which it can come about. A real authorization
//! server gives the tokens, and the MCP server beside it counts those that reach it.

use crate::mcp_login::{AuthServer, configured, holds, log_in, logged_in};
use crate::support::{Bench, run};
use serde_json::{Value, json};
use std::path::Path;

const OTHER: &str = "https://other.example/mcp";

/// State and failure of the server, as `becket mcp get` connects to it.
fn state(bench: &Bench) -> (String, String) {
    let told = run(bench.command().args(["mcp", "get", "auth", "--json"])).expect(0).stdout;
    let told: Value = serde_json::from_str(&told).unwrap();
    let text = |key: &str| told[key].as_str().unwrap_or_default().to_owned();
    (text("status"), text("error"))
}

fn login(bench: &Bench) -> std::process::Command {
    let mut command = bench.command();
    command.args(["mcp", "login", "auth"]);
    command
}

/// True if becket keeps a token in its folders.
fn stored(bench: &Bench) -> bool {
    let dir = bench.home.path(".local");
    holds(&dir, "secret-") || holds(&dir, "c2VjcmV0")
}

#[test]
fn a_server_that_describes_another_resource_gets_no_token() {
    let server = AuthServer::start();
    let bench = Bench::new(&[]);
    configured(&bench, &server, &json!({}));
    let with_path = format!("{}/mcp/deeper", server.base);
    for resource in [OTHER, "http://127.0.0.1:1/mcp", with_path.as_str()] {
        // becket finds the description by the address in the server's refusal, or at its well-known address.
        for pointer in [true, false] {
            server.set(&json!({ "resource": resource, "pointer": pointer }));
            let ran = run(&mut login(&bench)).expect(1);
            let why = format!("is for another resource, {resource}, and not for {}/mcp", server.base);
            assert!(ran.stderr.contains(&why), "{resource} {pointer}: {}", ran.stderr);
            assert!(!ran.stdout.contains("/authorize?"), "{}", ran.stdout);
        }
    }
    assert!(server.forms().is_empty() && !stored(&bench));

    // A client secret of the user's configuration is not sent either.
    configured(
        &bench,
        &server,
        &json!({ "grantType": "client_credentials", "clientId": "ci", "clientSecret": "s" }),
    );
    let (state, why) = state(&bench);
    assert!(state == "failed" && why.contains("is for another resource"), "{state}: {why}");
    assert!(server.forms().is_empty() && server.tokens().is_empty());
}

#[test]
fn a_server_that_describes_another_resource_later_gets_the_token_no_more() {
    let server = AuthServer::start();
    let bench = Bench::new(&[]);
    configured(&bench, &server, &json!({}));
    logged_in(&mut login(&bench));
    assert_eq!(state(&bench).0, "connected");
    let sent = server.tokens().len();
    assert!(sent > 0);
    for pointer in [true, false] {
        server.set(&json!({ "resource": OTHER, "pointer": pointer }));
        let (state, why) = state(&bench);
        assert!(state == "failed" && why.contains(OTHER), "{state}: {why}");
    }
    assert_eq!(server.tokens().len(), sent);
}

#[test]
fn a_token_for_another_audience_is_neither_stored_nor_sent() {
    let server = AuthServer::start();
    let bench = Bench::new(&[]);
    configured(&bench, &server, &json!({}));
    for answer in [
        json!({ "audience": OTHER }),
        json!({ "audience": [OTHER, "https://third.example"] }),
        json!({ "members": { "resource": OTHER } }),
        json!({ "members": { "aud": [OTHER] } }),
        json!({ "audience": format!("{}/mcp-of-others", server.base) }),
    ] {
        server.set(&answer);
        let ran = log_in(&mut login(&bench)).ended().expect(1);
        assert!(
            ran.stderr.contains("no authorization for auth: its token is for ")
                && ran.stderr.contains("becket does not send it"),
            "{answer}: {}",
            ran.stderr
        );
        assert!(!stored(&bench), "{answer}");
        assert_eq!(state(&bench).0, "needs-auth", "{answer}");
    }
    assert!(server.tokens().is_empty(), "{:?}", server.tokens());

    // A token for several audiences needs to name the server only once. The configuration can expect another audience.
    let own = format!("{}/mcp", server.base);
    server.set(&json!({ "audience": [OTHER, own] }));
    logged_in(&mut login(&bench));
    assert_eq!(state(&bench).0, "connected");
    configured(&bench, &server, &json!({ "audience": OTHER }));
    server.set(&json!({ "audience": OTHER }));
    logged_in(&mut login(&bench));
    assert_eq!(state(&bench).0, "connected");

    // Without the key `audience`, the stored token is no longer sent. A login replaces it.
    configured(&bench, &server, &json!({}));
    let sent = server.tokens().len();
    let (state_now, why) = state(&bench);
    assert!(state_now == "failed" && why.contains("its token is for https://other.example/mcp"), "{why}");
    assert_eq!(server.tokens().len(), sent);
    server.set(&json!({}));
    logged_in(&mut login(&bench));
    assert_eq!(state(&bench).0, "connected");
}

#[test]
fn a_refreshed_token_for_another_audience_is_neither_stored_nor_sent() {
    let server = AuthServer::start();
    let bench = Bench::new(&[]);
    configured(&bench, &server, &json!({}));
    // The token has expired when it is used, so it is refreshed at once.
    server.set(&json!({ "expires_in": 0, "refreshed": OTHER }));
    logged_in(&mut login(&bench));
    let (state, why) = state(&bench);
    assert!(
        state == "failed" && why.contains("its token is for https://other.example/mcp"),
        "{state}: {why}"
    );
    assert!(server.forms().iter().any(|form| form["grant_type"] == "refresh_token"));
    assert!(server.tokens().is_empty(), "{:?}", server.tokens());
    assert!(!holds(&bench.home.path(".local"), "c2VjcmV0"), "the refreshed token is stored");
}

#[test]
fn a_program_does_not_send_a_token_for_another_audience() {
    let server = AuthServer::start();
    let bench = Bench::new(&[]);
    let key = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mcp/tests/keys/p256.pem");
    server.set(&json!({ "audience": OTHER }));
    for oauth in [
        json!({ "grantType": "client_credentials", "clientId": "ci", "clientSecret": "s" }),
        json!({ "grantType": "client_credentials", "clientId": "ci", "privateKeyFile": key }),
        json!({ "grantType": "jwt_bearer", "assertion": "opaque" }),
    ] {
        configured(&bench, &server, &oauth);
        let (state, why) = state(&bench);
        assert!(
            state == "failed" && why.contains("its token is for https://other.example/mcp"),
            "{oauth}: {why}"
        );
    }
    assert_eq!(
        server.forms().iter().filter(|form| form["resource"] == format!("{}/mcp", server.base)).count(),
        3
    );
    assert!(server.tokens().is_empty());

    // An assertion for another authorization server is not given to the one that the MCP server names.
    let before = server.forms().len();
    // {"alg":"none"} and {"aud":"https://kubernetes.example"}
    let assertion = "eyJhbGciOiJub25lIn0.eyJhdWQiOiJodHRwczovL2t1YmVybmV0ZXMuZXhhbXBsZSJ9.x";
    configured(&bench, &server, &json!({ "grantType": "jwt_bearer", "assertion": assertion }));
    let (_, why) = state(&bench);
    assert!(why.contains("the configured assertion is for https://kubernetes.example/"), "{why}");
    assert_eq!(server.forms().len(), before);
    server.set(&json!({}));
    configured(
        &bench,
        &server,
        &json!({ "grantType": "jwt_bearer", "assertion": assertion, "issuer": server.base }),
    );
    assert_eq!(state(&bench).0, "connected");
}

#[test]
fn a_token_reaches_no_other_server() {
    let (own, other) = (AuthServer::start(), AuthServer::start());
    let bench = Bench::new(&[]);
    configured(&bench, &own, &json!({}));
    logged_in(&mut login(&bench));
    assert_eq!(state(&bench).0, "connected");

    // The same server name now has another address.
    configured(&bench, &other, &json!({}));
    assert_eq!(state(&bench).0, "needs-auth");
    // Another path of the same host is another server.
    let deeper = json!({ "mcpServers": { "auth": { "url": format!("{}/mcp/two", own.base), "oauth": {} } } });
    bench.home.write(".config/becket/mcp.json", deeper.to_string());
    let sent = own.tokens().len();
    assert_eq!(state(&bench).0, "needs-auth");
    assert_eq!(own.tokens().len(), sent);

    // The server redirects becket to the other server.
    configured(&bench, &own, &json!({}));
    own.set(&json!({ "redirect": format!("{}/mcp", other.base) }));
    let (state, why) = state(&bench);
    assert!(
        state == "failed" && why.contains("redirects to") && why.contains("is refused"),
        "{state}: {why}"
    );
    assert!(own.tokens().len() > sent);
    assert!(other.tokens().is_empty() && other.forms().is_empty(), "{:?}", other.tokens());
}
