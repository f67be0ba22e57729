//! Keys that a cloud gives for an identity: each way against a server of its own, and the hosts that get nothing.

use crate::support::{Bench, Ran, run};
use becket_testkit::{Answer, MockServer, Recorded, Reply};
use serde_json::{Value, json};
use std::process::Command;

/// A secret of an identity, which only its own exchange may get.
const PLANTED: &str = "planted-identity-7d21";

/// Gives a token at each path that is no model's, and an answer at the others.
fn cloud() -> MockServer {
    MockServer::with(|request| {
        let keys = "<R><Credentials><AccessKeyId>AKID</AccessKeyId><SecretAccessKey>s3cret</SecretAccessKey>\
                    <SessionToken>session-1</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></R>";
        let path = request.path.as_str();
        match path {
            "/sts" => Reply::body(200, "text/xml", keys),
            _ if path.contains(":generateAccessToken") => Reply::json(
                200,
                &json!({"accessToken": "impersonated", "expireTime": "2099-01-01T00:00:00Z"}),
            ),
            _ if path.contains("token") => {
                Reply::json(200, &json!({"access_token": "given-token", "expires_in": 3600}))
            }
            _ => Answer::text("fine").into(),
        }
    })
}

fn write(bench: &Bench, path: &str, text: &str) -> String {
    let path = bench.home.path(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn is_model(request: &Recorded) -> bool {
    ["enerateContent", "/responses", "/messages"].iter().any(|part| request.path.contains(part))
}

fn ask(command: &mut Command, model: &str) -> Ran {
    run(command.args(["-p", "--model", model, "go"])).expect(0)
}

/// Configures Vertex at the server.
fn vertex(bench: &Bench, server: &MockServer, token_url: bool) {
    let url = server.url();
    let token_url = if token_url { format!("token_url = \"{url}/token\"\n") } else { String::new() };
    write(
        bench,
        ".config/becket/config.toml",
        &format!(
            "[providers.vertex]\nauth = \"google\"\nbase_url = \"{url}/v1/projects/p/locations/l\"\n{token_url}"
        ),
    );
}

#[test]
fn google_s_credentials_become_tokens() {
    let user = json!({"type": "authorized_user", "client_id": "id", "client_secret": "cs", "refresh_token": PLANTED});
    let pem = include_str!("../../crates/model/tests/certificate/rsa.pem");
    for (kind, want, token) in [
        ("authorized_user", "grant_type=refresh_token", "given-token"),
        (
            "service_account",
            "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer",
            "given-token",
        ),
        ("external_account", "subject_token=the-subject", "impersonated"),
        ("impersonated_service_account", "grant_type=refresh_token", "impersonated"),
    ] {
        let bench = Bench::new(&[]);
        let server = cloud();
        vertex(&bench, &server, true);
        let subject = write(&bench, "subject.json", &json!({"id": "the-subject"}).to_string());
        let impersonation = format!("{}/v1/x:generateAccessToken", server.url());
        let file = match kind {
            "authorized_user" => user.clone(),
            "service_account" => {
                json!({"type": kind, "client_email": "a@b", "private_key": pem, "private_key_id": "k"})
            }
            "external_account" => json!({
                "type": kind, "audience": "//iam/x", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
                "credential_source": {"file": subject, "format": {"type": "json", "subject_token_field_name": "id"}},
                "service_account_impersonation_url": impersonation,
            }),
            _ => json!({
                "type": kind, "source_credentials": user, "service_account_impersonation_url": impersonation,
            }),
        };
        let file = write(&bench, "adc.json", &file.to_string());
        let with = || {
            let mut command = bench.command();
            command.env("GOOGLE_APPLICATION_CREDENTIALS", &file);
            command
        };
        ask(&mut with(), "vertex/gemini-2.5-pro");
        // A second process reuses the token that the first one got.
        ask(&mut with(), "vertex/gemini-2.5-pro");
        let requests = server.requests();
        let exchanges: Vec<_> = requests.iter().filter(|request| !is_model(request)).collect();
        assert_eq!(exchanges.len(), if token == "impersonated" { 2 } else { 1 }, "{kind}");
        assert!(exchanges[0].text().contains(want), "{kind}: {}", exchanges[0].text());
        for request in requests.iter().filter(|request| is_model(request)) {
            assert_eq!(request.header("authorization"), Some(format!("Bearer {token}").as_str()), "{kind}");
            assert!(!request.text().contains(PLANTED), "{kind}");
        }
    }
}

/// The identity token is a request that AWS would answer with the identity of who signed it.
#[test]
fn keys_of_aws_become_a_token_of_google() {
    let keys = json!({"AccessKeyId": "AKMETA", "SecretAccessKey": PLANTED, "Token": "session-1"});
    for way in ["variables", "machine", "elsewhere"] {
        let bench = Bench::new(&[]);
        let server = cloud()
            .get("/session-token", Reply::body(200, "text/plain", "machine-proof"))
            .get("/zone", Reply::body(200, "text/plain", "eu-west-1b"))
            .get("/roles", Reply::body(200, "text/plain", "the-role"))
            .get("/roles/the-role", Reply::json(200, &keys));
        vertex(&bench, &server, true);
        let url = server.url();
        // An address that is not beside this machine gets no request.
        let near = if way == "elsewhere" { "http://192.0.2.1".to_owned() } else { url.clone() };
        let file = json!({
            "type": "external_account", "audience": "//iam/pool", "subject_token_type": "urn:ietf:params:aws:token-type:aws4_request",
            "credential_source": {
                "environment_id": "aws1", "region_url": format!("{near}/zone"), "url": format!("{near}/roles"),
                "imdsv2_session_token_url": format!("{near}/session-token"),
                "regional_cred_verification_url": "https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15",
            },
        });
        let file = write(&bench, "adc.json", &file.to_string());
        let mut command = bench.command();
        command.env("GOOGLE_APPLICATION_CREDENTIALS", &file);
        if way == "variables" {
            command.env("AWS_REGION", "us-east-1").env("AWS_ACCESS_KEY_ID", "AKENV");
            command.env("AWS_SECRET_ACCESS_KEY", PLANTED);
        }
        if way == "elsewhere" {
            let ran = run(command.args(["-p", "--model", "vertex/gemini-2.5-pro", "go"])).expect(7);
            assert!(ran.stderr.contains("192.0.2.1, which is not on this machine"), "{}", ran.stderr);
            assert_eq!(server.all_requests().len(), 0);
            continue;
        }
        ask(&mut command, "vertex/gemini-2.5-pro");
        let asked = server.all_requests();
        let exchange = asked.iter().find(|request| request.path == "/token").unwrap();
        let fields: std::collections::BTreeMap<String, String> =
            url::form_urlencoded::parse(exchange.body.as_ref()).into_owned().collect();
        assert_eq!(fields["audience"], "//iam/pool");
        let (_, token) = url::form_urlencoded::parse(format!("t={}", fields["subject_token"]).as_bytes())
            .into_owned()
            .next()
            .unwrap();
        let token: Value = serde_json::from_str(&token).unwrap();
        let header = |name: &str| {
            let all = token["headers"].as_array().unwrap();
            all.iter()
                .find(|header| header["key"] == name)
                .map(|header| header["value"].as_str().unwrap().to_owned())
        };
        let (region, key, session) = match way {
            "variables" => ("us-east-1", "AKENV", None),
            _ => ("eu-west-1", "AKMETA", Some("session-1".to_owned())),
        };
        assert_eq!(token["method"], "POST");
        let service = format!("sts.{region}.amazonaws.com");
        assert_eq!(token["url"], format!("https://{service}/?Action=GetCallerIdentity&Version=2011-06-15"));
        assert_eq!(header("host"), Some(service));
        assert_eq!(header("x-goog-cloud-target-resource").as_deref(), Some("//iam/pool"));
        assert_eq!(header("x-amz-security-token"), session);
        let signature = header("authorization").unwrap();
        assert!(signature.contains(&format!("Credential={key}/")), "{signature}");
        assert!(signature.contains(&format!("/{region}/sts/aws4_request")), "{signature}");
        assert!(signature.contains(";x-goog-cloud-target-resource, Signature="), "{signature}");
        let model = asked.iter().find(|request| is_model(request)).unwrap();
        assert_eq!(model.header("authorization"), Some("Bearer given-token"), "{way}");
        assert!(asked.iter().all(|request| !request.text().contains(PLANTED)), "{way}");
        if way == "machine" {
            let zone = asked.iter().find(|request| request.path == "/zone").unwrap();
            assert!(zone.header("x-aws-ec2-metadata-token").is_some());
        }
    }
}

/// A program of the file prints the token, but only if the user allows such programs.
#[cfg(unix)]
#[test]
fn a_program_prints_the_identity_token_if_the_user_allows_it() {
    let bench = Bench::new(&[]);
    let server = cloud();
    vertex(&bench, &server, true);
    let answer = json!({"version": 1, "success": true, "id_token": "the-subject",
        "token_type": "urn:ietf:params:oauth:token-type:id_token"});
    let answer = write(&bench, "answer.json", &answer.to_string());
    let file = json!({
        "type": "external_account", "audience": "//iam/x", "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "credential_source": {"executable": {"command": format!("cat {answer}")}},
    });
    let file = write(&bench, "adc.json", &file.to_string());
    let with = || {
        let mut command = bench.command();
        command.env("GOOGLE_APPLICATION_CREDENTIALS", &file);
        command
    };
    let mut refused = with();
    refused.args(["-p", "--model", "vertex/gemini-2.5-pro", "go"]);
    let ran = run(&mut refused).expect(7);
    assert!(ran.stderr.contains("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES=1"), "{}", ran.stderr);
    assert_eq!(server.requests().len(), 0);
    ask(with().env("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "1"), "vertex/gemini-2.5-pro");
    assert!(server.requests()[0].text().contains("subject_token=the-subject"));
}

#[test]
fn credentials_from_elsewhere_choose_no_host() {
    let bench = Bench::new(&[]);
    let server = cloud();
    let thief = cloud();
    vertex(&bench, &server, false);
    let file = json!({
        "type": "authorized_user", "client_id": "id", "client_secret": "cs", "refresh_token": PLANTED,
        "token_uri": format!("{}/token", thief.url()),
    });
    let file = write(&bench, "adc.json", &file.to_string());
    let mut command = bench.command();
    command.env("GOOGLE_APPLICATION_CREDENTIALS", &file).args([
        "-p",
        "--model",
        "vertex/gemini-2.5-pro",
        "go",
    ]);
    let ran = run(&mut command).expect(7);
    assert!(ran.stderr.contains("not a host of Google"), "{}", ran.stderr);
    assert!(ran.stderr.contains("providers.vertex.token_url"), "{}", ran.stderr);
    assert!(!ran.stderr.contains(PLANTED));
    assert_eq!((thief.requests().len(), server.requests().len()), (0, 0));
    // An address without `auth` is not one for tokens of Google.
    write(
        &bench,
        ".config/becket/config.toml",
        &format!("[providers.vertex]\nbase_url = \"{}/v1/projects/p/locations/l\"\n", thief.url()),
    );
    let mut command = bench.command();
    command.env("GOOGLE_APPLICATION_CREDENTIALS", &file).args([
        "-p",
        "--model",
        "vertex/gemini-2.5-pro",
        "go",
    ]);
    let _ = run(&mut command);
    assert!(thief.requests().iter().all(|request| request.header("authorization").is_none()));
}

#[test]
fn a_machine_of_google_has_a_token() {
    let bench = Bench::new(&[]);
    let token = "/computeMetadata/v1/instance/service-accounts/default/token";
    let given = json!({"access_token": "machine-token", "expires_in": 3000});
    let server = cloud().get(token, Reply::json(200, &given));
    vertex(&bench, &server, false);
    ask(bench.command().env("GCE_METADATA_HOST", server.address().to_string()), "vertex/gemini-2.5-pro");
    let asked = server.all_requests();
    assert_eq!(asked[0].header("metadata-flavor"), Some("Google"));
    assert_eq!(asked[1].header("authorization"), Some("Bearer machine-token"));
}

/// Each way to keys of AWS signs a request to Bedrock.
#[test]
fn keys_of_aws_are_found_in_every_usual_place() {
    let keys = json!({
        "AccessKeyId": "AKID", "SecretAccessKey": "s3cret", "Token": "session-1", "Expiration": "2099-01-01T00:00:00Z",
    });
    let roles = "/latest/meta-data/iam/security-credentials/";
    for way in ["web identity", "role", "sso", "program", "container", "machine"] {
        let bench = Bench::new(&[]);
        let server = cloud()
            .get("/federation/credentials", Reply::json(200, &json!({"roleCredentials": {
                "accessKeyId": "AKID", "secretAccessKey": "s3cret", "sessionToken": "session-1", "expiration": 4_070_908_800_000_u64,
            }})))
            .get("/container", Reply::json(200, &keys))
            .get("/latest/api/token", Reply::body(200, "text/plain", "machine-proof"))
            .get(roles, Reply::body(200, "text/plain", "the-role\n"))
            .get(&format!("{roles}the-role"), Reply::json(200, &keys));
        let url = server.url();
        write(
            &bench,
            ".config/becket/config.toml",
            &format!("[providers.bedrock]\nbase_url = \"{url}\"\nregion = \"eu-west-1\"\n"),
        );
        let token = write(&bench, "token", PLANTED);
        let mut profile = String::new();
        let mut command = bench.command();
        command.env("AWS_EC2_METADATA_DISABLED", "true").env("AWS_ENDPOINT_URL_STS", format!("{url}/sts"));
        command.env("AWS_ENDPOINT_URL_SSO", &url);
        match way {
            "web identity" => {
                command.env("AWS_WEB_IDENTITY_TOKEN_FILE", token).env("AWS_ROLE_ARN", "arn:role");
            }
            "role" => {
                profile = "role_arn = arn:role\nsource_profile = base\n[profile base]\naws_access_key_id = BASE\naws_secret_access_key = b\n".to_owned();
            }
            "sso" => {
                profile = "sso_start_url = https://s/start\nsso_region = eu-west-1\nsso_account_id = 1\nsso_role_name = r\n".to_owned();
                let login = json!({"startUrl": "https://s/start", "accessToken": PLANTED, "expiresAt": "2099-01-01T00:00:00Z"});
                write(&bench, ".aws/sso/cache/one.json", &login.to_string());
            }
            "program" => profile = format!("credential_process = echo '{keys}'\n"),
            "container" => {
                command.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{url}/container"));
                command.env("AWS_CONTAINER_AUTHORIZATION_TOKEN", "container-proof");
            }
            _ => {
                command.env_remove("AWS_EC2_METADATA_DISABLED");
                command.env("AWS_EC2_METADATA_SERVICE_ENDPOINT", &url);
            }
        }
        write(&bench, ".aws/config", &format!("[default]\n{profile}"));
        ask(&mut command, "bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0");
        let asked = server.all_requests();
        let model = asked.iter().find(|request| is_model(request)).unwrap();
        let signature = model.header("authorization").unwrap();
        assert!(signature.contains("Credential=AKID/"), "{way}: {signature}");
        assert!(signature.contains("/eu-west-1/bedrock/"), "{way}: {signature}");
        let session = (way != "program").then_some("session-1");
        assert_eq!(model.header("x-amz-security-token").or(session), Some("session-1"), "{way}");
        let first = &asked[0];
        match way {
            "web identity" => assert!(first.text().contains(PLANTED)),
            "role" => assert!(first.header("authorization").unwrap().contains("Credential=BASE/")),
            "sso" => assert_eq!(first.header("x-amz-sso_bearer_token"), Some(PLANTED)),
            "container" => assert_eq!(first.header("authorization"), Some("container-proof")),
            "machine" => assert_eq!(asked[2].header("x-aws-ec2-metadata-token"), Some("machine-proof")),
            _ => assert_eq!(asked.len(), 1),
        }
        assert!(!model.text().contains(PLANTED), "{way}");
    }
}

#[test]
fn identities_of_azure_and_anthropic_become_tokens() {
    let azure = |url: &str| vec![("AZURE_OPENAI_ENDPOINT", url.to_owned())];
    for (way, model) in [
        ("secret", "azure/deployment"),
        ("token file", "azure/deployment"),
        ("app", "azure/deployment"),
        ("machine", "azure/deployment"),
        ("anthropic", "anthropic/claude-sonnet-4-5"),
    ] {
        let bench = Bench::new(&[]);
        let given = Reply::json(200, &json!({"access_token": "given-token", "expires_in": "3600"}));
        let server = cloud().get("/msi", given.clone()).get("/metadata/identity/oauth2/token", given);
        let url = server.url();
        let file = write(&bench, "token", PLANTED);
        let client = vec![
            ("AZURE_TENANT_ID", "tenant".to_owned()),
            ("AZURE_CLIENT_ID", "client".to_owned()),
            ("AZURE_AUTHORITY_HOST", url.clone()),
        ];
        let variables = match way {
            "secret" => [azure(&url), client, vec![("AZURE_CLIENT_SECRET", PLANTED.to_owned())]].concat(),
            "token file" => [azure(&url), client, vec![("AZURE_FEDERATED_TOKEN_FILE", file)]].concat(),
            "app" => {
                let app = vec![
                    ("IDENTITY_ENDPOINT", format!("{url}/msi")),
                    ("IDENTITY_HEADER", PLANTED.to_owned()),
                ];
                [azure(&url), app].concat()
            }
            "machine" => [azure(&url), vec![("AZURE_POD_IDENTITY_AUTHORITY_HOST", url.clone())]].concat(),
            _ => vec![
                ("ANTHROPIC_BASE_URL", url.clone()),
                ("ANTHROPIC_FEDERATION_RULE_ID", "fdrl_1".to_owned()),
                ("ANTHROPIC_ORGANIZATION_ID", "org".to_owned()),
                ("ANTHROPIC_IDENTITY_TOKEN_FILE", file),
            ],
        };
        ask(bench.command().envs(variables), model);
        let asked = server.all_requests();
        let (exchange, request) = (&asked[0], asked.iter().find(|request| is_model(request)).unwrap());
        assert_eq!(request.header("authorization"), Some("Bearer given-token"), "{way}");
        assert_eq!(request.header("api-key"), None, "{way}");
        match way {
            "secret" | "token file" => {
                assert_eq!(exchange.path, "/tenant/oauth2/v2.0/token");
                assert!(exchange.text().contains(PLANTED), "{way}: {}", exchange.text());
            }
            "app" => assert_eq!(exchange.header("x-identity-header"), Some(PLANTED)),
            "machine" => assert_eq!(exchange.header("metadata"), Some("true")),
            _ => {
                let body: Value = exchange.json();
                assert_eq!(body["assertion"], PLANTED);
                assert_eq!(body["federation_rule_id"], "fdrl_1");
                assert!(request.header("anthropic-beta").unwrap().contains("oauth-2025-04-20"));
            }
        }
        let kept: Vec<u8> = everything(bench.home.root());
        let text = String::from_utf8_lossy(&kept);
        // The token is in one file only: the cache from which the next process takes it.
        assert_eq!(text.matches("given-token").count(), 1, "{way}");
    }
}

fn everything(dir: &std::path::Path) -> Vec<u8> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            out.extend(everything(&path));
        } else {
            out.extend(std::fs::read(&path).unwrap_or_default());
        }
    }
    out
}
