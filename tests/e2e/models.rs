//! Models: refreshed figures, the lifetime of the provider's cache, and calls that a model writes into its text.

use crate::support::{Bench, run};
use becket_testkit::{Answer, MockServer, Reply};
use serde_json::{Value, json};

fn configured(bench: &Bench, text: &str) {
    bench.home.write(".config/becket/config.toml", text);
}

fn provider(server: &MockServer, kind: &str, more: &str) -> String {
    format!("[providers.mine]\nkind = \"{kind}\"\nbase_url = \"{}/v1\"\n{more}", server.url())
}

#[test]
fn a_refresh_keeps_what_servers_and_a_catalog_say_and_names_the_changes() {
    let bench = Bench::new(&[]);
    let list = |price: &str| {
        json!({ "data": [
            { "id": "big", "context_length": 262_144, "pricing": { "prompt": price, "completion": "0.000004" } },
            { "id": "plain" },
        ] })
    };
    let catalog = json!({ "groq": { "models": { "one-model": {
        "limit": { "context": 65_536, "output": 4_096 }, "cost": { "input": 0.5, "output": 1.5 },
    } } }, "unheard-of": { "models": { "x": {} } } });
    let serve = |price: &str| {
        MockServer::start(Vec::<Answer>::new())
            .get("/v1/models", Reply::json(200, &list(price)))
            .get("/api.json", Reply::json(200, &catalog))
    };
    let refresh = |server: &MockServer| {
        configured(
            &bench,
            &format!(
                "[models]\ncatalog = \"{0}/api.json\"\n{1}",
                server.url(),
                provider(server, "openai-chat", "")
            ),
        );
        run(bench.command().args(["models", "--refresh"])).expect(0).stdout
    };
    let said = refresh(&serve("0.000001"));
    assert!(said.contains("mine: 2 models") && said.contains("groq: 1 models"), "{said}");
    assert!(said.contains("mine/big: new: window 262144, $1 / $4 per M"), "{said}");
    assert!(said.contains("groq/one-model: new: window 65536, $0.5 / $1.5 per M"), "{said}");
    let server = serve("0.000002");
    let said = refresh(&server);
    assert!(said.contains("mine/big: $1 / $4 per M -> $2 / $4 per M"), "{said}");
    assert!(!said.contains("one-model:"), "{said}");
    assert!(refresh(&server).contains("Nothing changed."));
    // The list shows the refreshed figures and asks no server.
    let asked = server.all_requests().len();
    let listed = run(bench.command().args(["models", "--json"])).expect(0);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let big = listed["known"].as_array().unwrap().iter().find(|model| model["id"] == "mine/big").unwrap();
    assert_eq!((&big["window"], &big["prices"]["input"]), (&json!(262_144), &json!(2.0)));
    assert!(big["source"].as_str().unwrap().contains("--refresh, 20"), "{big}");
    assert_eq!(server.all_requests().len(), asked);
    // Figures in the configuration override the refreshed ones.
    let own = provider(&server, "openai-chat", "[[providers.mine.models]]\nname = \"big\"\nwindow = 9000\n");
    configured(&bench, &own);
    let listed = run(bench.command().args(["models", "--json"])).expect(0);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let big = listed["known"].as_array().unwrap().iter().find(|model| model["id"] == "mine/big").unwrap();
    assert_eq!((&big["window"], &big["source"]), (&json!(9_000), &json!("the configuration")));
}

/// A server on this machine may belong to another user. If the user did not name it, it is offered, and nothing is sent to it unasked.
#[test]
fn a_server_on_this_machine_is_offered_if_nothing_is_configured() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("From this machine.")])
        .get("/v1/models", Reply::json(200, &json!({ "data": [{ "id": "qwen" }] })));
    let base = format!("{}/v1", server.url());
    let mut command = bench.command();
    let ran = run(command.env("LMSTUDIO_BASE_URL", &base).args(["-p", "go"])).expect(2);
    assert!(ran.stderr.contains("--model lmstudio/qwen uses it"), "{}", ran.stderr);
    assert_eq!(server.requests().len(), 0);
    let mut command = bench.command();
    let ran =
        run(command.env("LMSTUDIO_BASE_URL", &base).args(["-p", "--model", "lmstudio/qwen", "go"])).expect(0);
    assert_eq!(ran.stdout, "From this machine.\n");
    // If the user names a model of their own, the server on this machine is not asked.
    let (asked, own) = (server.all_requests().len(), MockServer::start([Answer::text("From my own.")]));
    configured(&bench, &provider(&own, "openai-chat", ""));
    let mut command = bench.command();
    command.env("LMSTUDIO_BASE_URL", &base).args(["-p", "--model", "mine/x", "go"]);
    assert_eq!(run(&mut command).expect(0).stdout, "From my own.\n");
    assert_eq!(server.all_requests().len(), asked);
}

/// A server that is there and cannot list its models yet is not the same as none.
#[test]
fn a_server_on_this_machine_that_has_no_list_yet_is_named() {
    let loading = json!({"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}});
    let refusal = json!({"error": "Unauthorized"});
    for (reply, words) in [
        (Reply::json(503, &loading), "is still loading its model; try again in a moment"),
        (Reply::json(401, &refusal), "wants a key: if it serves models, becket login vllm saves one"),
    ] {
        let bench = Bench::new(&[]);
        let server = MockServer::start([Answer::text("never")]).get("/v1/models", reply);
        let base = format!("{}/v1", server.url());
        let ran = run(bench.command().env("VLLM_BASE_URL", &base).args(["-p", "go"])).expect(2);
        let said = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(&format!("the server at {base} {words}")), "{said}");
        assert_eq!(server.requests().len(), 0);
    }
}

#[test]
fn a_refresh_without_anybody_to_ask_says_what_to_do() {
    let bench = Bench::new(&[]);
    let ran = run(bench.command().args(["models", "--refresh"])).expect(2);
    assert!(ran.stderr.contains("models.catalog"), "{}", ran.stderr);
}

#[test]
fn the_lifetime_of_the_cache_is_that_of_the_configuration() {
    for (ttl, wanted) in [("1h", true), ("5m", false), ("auto", false)] {
        let bench = Bench::new(&[]);
        let server = MockServer::start([Answer::text("Done.")]);
        let compat = "[providers.mine.compat]\nhour_cache = true\n";
        let text = format!("[context]\ncache_ttl = \"{ttl}\"\n{}", provider(&server, "anthropic", compat));
        configured(&bench, &text);
        let ran = run(bench.command().args(["-p", "--model", "mine/claude-sonnet-4-5", "go"])).expect(0);
        assert_eq!(ran.stdout, "Done.\n");
        let body = server.requests()[0].json();
        assert_eq!(body["cache_control"]["ttl"] == "1h", wanted, "{ttl}: {}", body["cache_control"]);
        // The bytes of a stored request are made again with the lifetime that it had.
        let shown = run(bench.command().args(["context", "--request", "1"])).expect(0);
        assert_eq!(shown.stdout.trim_end().as_bytes(), &server.requests()[0].body[..], "{ttl}");
    }
}

#[test]
fn a_call_in_the_text_is_refused_where_nobody_can_be_asked() {
    let call = "<tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a.txt\"}}</tool_call>";
    for (compat, code, asked) in [("", 12, 1), ("[providers.mine.compat]\ntext_calls = \"ask\"\n", 5, 2)] {
        let bench = Bench::new(&[("a.txt", "private words\n")]);
        let server = MockServer::start([Answer::text(call), Answer::text("Then not.")]);
        configured(&bench, &provider(&server, "openai-chat", compat));
        let ran = run(bench.command().args(["-p", "--model", "mine/small", "go"])).expect(code);
        assert_eq!(server.requests().len(), asked, "{}", ran.stderr);
        for request in server.requests() {
            let body = String::from_utf8_lossy(&request.body).into_owned();
            assert!(!body.contains("private words"), "{body}");
        }
    }
}

/// Each key of a built-in provider is enough to begin, or becket says in one message what else it needs.
#[test]
fn one_key_is_enough_to_begin() {
    for (variables, model) in [
        (&["GEMINI_API_KEY"][..], "google/gemini"),
        (&["GROQ_API_KEY"], "groq/openai/gpt-oss-120b"),
        (&["CEREBRAS_API_KEY"], "cerebras/gpt-oss-120b"),
        (&["HF_TOKEN"], "huggingface/"),
        (&["AI_GATEWAY_API_KEY"], "vercel/"),
        (&["DASHSCOPE_API_KEY"], "qwen/"),
        (&["AWS_BEARER_TOKEN_BEDROCK", "AWS_REGION"], "bedrock/"),
    ] {
        let bench = Bench::new(&[]);
        let mut command = bench.command();
        command.envs(variables.iter().map(|name| (*name, "key-0123456789abcdef")));
        let ran = run(command.args(["doctor", "--json"]));
        let checks: Value = serde_json::from_str(&ran.stdout).unwrap();
        let text = checks.to_string();
        assert!(text.contains(&format!("a session begins with {model}")), "{variables:?}: {text}");
    }
    for (variables, said) in [
        (&["AZURE_OPENAI_API_KEY"][..], "AZURE_OPENAI_DEPLOYMENT"),
        (&["CLOUDFLARE_API_KEY"], "CLOUDFLARE_ACCOUNT_ID"),
        (&["LITELLM_API_KEY"], "--model litellm/NAME"),
    ] {
        let bench = Bench::new(&[]);
        let mut command = bench.command();
        command.envs(variables.iter().map(|name| (*name, "key-0123456789abcdef")));
        let ran = run(command.args(["-p", "go"])).expect(2);
        assert!(ran.stderr.contains(said), "{variables:?}: {}", ran.stderr);
    }
}

/// The user's own names, and a part of a name, are enough where they fit one model.
#[test]
fn aliases_and_parts_of_names_are_enough() {
    let bench = Bench::new(&[]);
    let server = MockServer::with(|request| Answer::text(request.json()["model"].as_str().unwrap()).into());
    let own = provider(&server, "openai-chat", "[[providers.mine.models]]\nname = \"house-model-2\"\n");
    configured(&bench, &format!("[models.aliases]\nfast = \"mine/small\"\n{own}"));
    let ran = |model: &str| run(bench.command().args(["-p", "--model", model, "go"]));
    let fast = ran("fast").expect(0);
    assert_eq!(
        (fast.stdout.as_str(), fast.stderr.contains("means the model")),
        ("small\n", false),
        "{}",
        fast.stderr
    );
    let part = ran("house").expect(0);
    assert_eq!(part.stdout, "house-model-2\n");
    assert!(part.stderr.contains("`house` means the model mine/house-model-2"), "{}", part.stderr);
    let several = ran("kimi").expect(2);
    assert!(
        several.stderr.contains("fits several models") && several.stderr.contains("moonshot/kimi-k3"),
        "{}",
        several.stderr
    );
    let none = ran("fsat").expect(2);
    assert!(none.stderr.contains("did you mean fast?"), "{}", none.stderr);
}

#[test]
fn wrong_values_of_a_provider_are_named() {
    for (config, said) in [
        ("[[providers.groq.models]]\nname = \"m\"\nprices = [-1, 2, 3, 4]\n", "a price is 0 or more"),
        (
            "[[providers.groq.models]]\nname = \"m\"\nwindow = 8000\nmax_output = 900000\n",
            "max_output 900000 is larger than the window 8000",
        ),
        (
            "[[providers.groq.models]]\nname = \"m\"\n[[providers.groq.models]]\nname = \"m\"\n",
            "m is listed twice",
        ),
        ("[providers.bedrock]\nregion = \"eu west/evil.com\"\n", "is not a region; write it with letters"),
        ("[models]\ncatalog = \"nonsense\"\n", "not an address"),
        ("[models.aliases]\n\"a/b\" = \"groq/x\"\n", "cannot be an alias"),
        ("[providers.groq]\nbase_url = \"http://127.0.0.1:99999/v1\"\n", "not an address"),
        ("[providers.groq]\nbase_url = \"http://[::1/v1\"\n", "not an address"),
        ("[providers.groq]\nheaders = { \"x team\" = \"a\" }\n", "is not the name of a header"),
        ("[providers.groq]\nheaders = { x-team = \"a\\nb\" }\n", "contains a line break"),
    ] {
        let bench = Bench::new(&[]);
        configured(&bench, config);
        let ran = run(bench.command().args(["-p", "--model", "groq/m", "go"])).expect(2);
        assert!(ran.stderr.contains(said) && ran.stderr.contains("config.toml"), "{config}: {}", ran.stderr);
    }
}

#[test]
fn a_refresh_that_reaches_nobody_fails() {
    let bench = Bench::new(&[]);
    configured(&bench, "[models]\ncatalog = \"http://127.0.0.1:1/api.json\"\n");
    run(bench.command().args(["models", "--refresh"])).expect(7);
}

/// Only servers that may have them are asked for llama.cpp's properties and for the windows of Ollama and LM Studio. The clouds of
/// Google and AWS are not even asked for a list.
#[test]
fn servers_are_asked_only_for_what_they_can_have() {
    let key = "api_key_env = \"MINE\"";
    for (provider, config, model, want) in [
        ("azure", key, "azure/deployment", &["/openai/v1/models"][..]),
        ("google", key, "google/gemini-2.5-pro", &["/v1beta/models"]),
        ("own-gemini", "kind = \"gemini\"", "own-gemini/m", &["/v1beta/models"]),
        ("vertex", "auth = \"google\"\nkey_command = [\"echo\", \"t\"]", "vertex/gemini-2.5-pro", &[]),
        ("own", "kind = \"anthropic\"", "own/m", &[]),
        ("own", "kind = \"openai-chat\"", "own/m", &["/api/ps", "/api/v0/models", "/props", "/v1/models"]),
    ] {
        let bench = Bench::new(&[]);
        let server = MockServer::start([Answer::text("fine")]);
        let path = match provider {
            "azure" => "/openai/v1",
            "vertex" => "/v1/projects/p/locations/l",
            "google" | "own-gemini" => "/v1beta",
            _ => "/v1",
        };
        configured(
            &bench,
            &format!("[providers.{provider}]\n{config}\nbase_url = \"{}{path}\"\n", server.url()),
        );
        run(bench.command().env("MINE", "k").args(["-p", "--model", model, "go"])).expect(0);
        let mut asked: Vec<String> =
            server.all_requests().into_iter().filter(|r| r.method == "GET").map(|r| r.path).collect();
        asked.sort();
        asked.dedup();
        assert_eq!(asked, want, "{provider}");
    }
}
