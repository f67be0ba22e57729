//! Secrets and MCP servers: the variables that a server gets, and what of a server's texts reaches a provider.

use crate::mcp::fixture;
use crate::support::{Api, Bench, run};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};

/// A token of a known form. Put together, so that no tool takes this file for one with a token.
fn token() -> String {
    format!("ghp_{}", "0123456789abcdefghijABCDEFGHIJ012345")
}

/// Variables whose names mean a secret, keys of providers, and copies of them. The values have no known form.
const SECRETS: [(&str, &str); 11] = [
    ("ANTHROPIC_AUTH_TOKEN", "planted-anthropic-auth"),
    ("OPENAI_API_KEY", "planted-of-openai-1"),
    ("GEMINI_API_KEY", "planted-of-gemini-1"),
    ("A_PLAIN_NAME", "planted-of-gemini-1"),
    ("XDG_OF_GEMINI", "planted-of-gemini-1"),
    ("GITHUB_TOKEN", "planted-of-github-1"),
    ("NPM_CONFIG_OF_GITHUB", "https://x:planted-of-github-1@localhost/"),
    ("AWS_SECRET_ACCESS_KEY", "planted-of-aws-1234"),
    ("DB_PASSWORD", "planted-of-the-db-1"),
    ("SESSION_COOKIE", "planted-as-a-cookie"),
    ("NODE_AUTH_TOKEN", "planted-for-node-12"),
];

/// A server that is a shell, and writes its variables into a file of the workspace before it answers.
fn server(name: &str, env: &Value) -> Value {
    let plain = fixture(&["plain"])["args"][0].as_str().unwrap().to_owned();
    let script = format!("env > {name}.env; exec python3 '{plain}' plain");
    json!({"command": "sh", "args": ["-c", script], "env": env})
}

/// The names of the planted variables that a process had, by their values, and the variable `GIVEN`.
fn seen(bench: &Bench, name: &str) -> (Vec<&'static str>, Option<String>) {
    let text = bench.project.read(&format!("{name}.env"));
    assert!(text.contains("PATH="), "{name}: {text}");
    let own = |line: &&str| !line.starts_with("GIVEN=");
    let others: String = text.lines().filter(own).collect::<Vec<_>>().join("\n");
    let leaked = SECRETS.iter().filter(|(_, value)| others.contains(value)).map(|(name, _)| *name);
    let given = text.lines().find_map(|line| line.strip_prefix("GIVEN=")).map(str::to_owned);
    (leaked.collect(), given)
}

/// Servers of a flag, of the user and of the project, one that names a secret and one that names none; and a program that
/// prints headers.
#[test]
fn a_server_gets_only_the_secrets_that_its_configuration_names() {
    let named = json!({"GIVEN": "${GITHUB_TOKEN}"});
    let of_provider = json!({"GIVEN": "${GEMINI_API_KEY:-nothing}"});
    let bench = Bench::new(&[(
        ".mcp.json",
        &json!({"mcpServers": {"theirs": server("theirs", &named), "sly": server("sly", &of_provider)}})
            .to_string(),
    )]);
    let becket = |args: &[&str]| run(bench.command().envs(SECRETS).args(args)).expect(0);
    for (name, env) in [("mine", &named), ("own", &of_provider), ("bare", &json!({}))] {
        becket(&["mcp", "add-json", name, &server(name, env).to_string(), "--scope", "user"]);
    }
    for name in ["theirs", "sly"] {
        becket(&["mcp", "approve", name]);
    }
    let helped = json!({"url": "http://127.0.0.1:1/mcp", "headersHelper": "env > helped.env; echo '{}'"});
    let flag = json!({"mcpServers": {"flag": server("flag", &named), "plain": server("plain", &json!({})), "helped": helped}});
    let model = MockServer::with(|_| Answer::text("done").into());
    let mut command = bench.print(Api::Anthropic, &model);
    run(command.envs(SECRETS).args(["--mcp-config", &flag.to_string(), "--", "go"])).expect(0);
    // Each server has been started by one of these commands, and has written its variables before it was connected.
    becket(&["mcp", "list"]);
    let github = Some("planted-of-github-1".to_owned());
    let gemini = Some("planted-of-gemini-1".to_owned());
    for (name, given) in [
        ("mine", &github),
        ("own", &gemini),
        ("bare", &None),
        ("theirs", &github),
        // The project chooses the program, so it gets no key of a provider.
        ("sly", &Some("nothing".to_owned())),
        ("flag", &github),
        ("plain", &None),
        ("helped", &None),
    ] {
        assert_eq!(seen(&bench, name), (Vec::new(), given.clone()), "{name}");
    }
}

/// A run with the server `fix`, which puts the token into everything. Returns all that was sent to the provider.
fn sent(config: &str, flags: &[&str], calls: &[(&str, Value)], prompt: &str) -> String {
    let bench = Bench::new(&[]);
    bench.home.write(".config/becket/config.toml", config);
    let call =
        |(n, (name, input)): (usize, &(&str, Value))| Answer::tool(&format!("c{n}"), name, input.clone());
    let mut answers: Vec<Answer> = calls.iter().enumerate().map(call).collect();
    answers.push(Answer::text("done"));
    let model = MockServer::start(answers);
    let mut leaks = fixture(&["leaks", &token()]);
    leaks["required"] = json!(true);
    let servers = json!({"mcpServers": {"fix": leaks}}).to_string();
    let mut command = bench.print(Api::Anthropic, &model);
    let ran = run(command.args(["--mcp-config", &servers]).args(flags).args(["--", prompt]));
    assert!(ran.code == 0 || ran.code == 5, "{ran:?}");
    let requests = model.requests();
    assert_eq!(requests.len(), calls.len() + 1, "{ran:?}");
    requests.iter().map(|request| request.text().to_owned()).collect()
}

const BYPASS: [&str; 2] = ["--permission-mode", "bypassPermissions"];

#[test]
fn no_text_of_a_server_brings_a_token_to_a_provider() {
    let none = json!({});
    for (what, flags, calls, prompt) in [
        ("a description", &BYPASS[..], vec![], "go"),
        ("a result", &BYPASS[..], vec![("mcp__fix__leak", none.clone())], "go"),
        ("an object", &BYPASS[..], vec![("mcp__fix__object", none.clone())], "go"),
        ("an error of a tool", &BYPASS[..], vec![("mcp__fix__fault", none.clone())], "go"),
        ("an error of the protocol", &BYPASS[..], vec![("mcp__fix__refuse", none.clone())], "go"),
        ("an embedded resource", &BYPASS[..], vec![("mcp__fix__embed", none.clone())], "go"),
        ("the end of a server", &BYPASS[..], vec![("mcp__fix__die", none.clone())], "go"),
        (
            "a resource",
            &BYPASS[..],
            vec![("mcp_read_resource", json!({"server": "fix", "uri": "fix://r"}))],
            "go",
        ),
        ("a list of resources", &BYPASS[..], vec![("mcp_list_resources", none.clone())], "go"),
        ("a search", &BYPASS[..], vec![("mcp_search", json!({"query": "leak"}))], "go"),
        ("an attached resource", &BYPASS[..], vec![], "look at @fix:fix://r now"),
        ("a prompt", &BYPASS[..], vec![], "/mcp__fix__greet Ada"),
        (
            "a decision",
            &["--permission-prompt-tool", "mcp__fix__decide"],
            vec![("bash", json!({"command": "touch x"}))],
            "go",
        ),
    ] {
        let text = sent("", flags, &calls, prompt);
        assert!(!text.contains(&token()), "{what}: {text}");
        assert!(text.contains("‹GitHub token masked›"), "{what}: {text}");
    }
    let text = sent("secrets = \"send\"", &BYPASS, &[("mcp__fix__leak", none)], "go");
    assert!(text.contains(&token()), "{text}");
}

/// Half of a token has no form by which it could be masked.
#[test]
fn no_cut_of_a_long_result_parts_a_token() {
    // The result is cut in its middle. The key is shifted so that both edges of the cut fall into it once.
    let calls: Vec<(&str, Value)> = (0..12)
        .flat_map(|step| {
            let near = 25 * 1024 - 60 + step * 8;
            [json!({"lead": near, "trail": 60_000}), json!({"lead": 60_000, "trail": near})]
        })
        .map(|input| ("mcp__fix__leak", input))
        .collect();
    let text = sent("", &BYPASS, &calls, "go");
    for piece in token().as_bytes().windows(12) {
        let piece = std::str::from_utf8(piece).unwrap();
        assert!(!text.contains(piece), "{piece}");
    }
    assert!(text.contains("‹GitHub token masked›"));
}
