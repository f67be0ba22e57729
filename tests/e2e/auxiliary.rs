//! Models beside the session's own: for summaries, titles and subagents, and fallbacks when a key is missing.

use crate::compaction::{SUMMARY, asks_for_summary};
use crate::support::{Bench, run};
use becket_testkit::{Answer, MockServer, Reply};
use serde_json::{Value, json};
use std::process::Command;

/// A command with a provider `mine` at this server, whose key is there.
fn mine(bench: &Bench, server: &MockServer, config: &str) -> Command {
    let text = format!(
        "{config}\n[providers.mine]\nkind = \"openai-chat\"\nbase_url = \"{}/v1\"\napi_key_env = \"MINE\"\n",
        server.url()
    );
    bench.home.write(".config/becket/config.toml", text);
    let mut command = bench.command();
    command.env("MINE", "sk-mine").arg("-p");
    command
}

/// The model named in each request, in order.
fn asked(server: &MockServer) -> Vec<String> {
    server.requests().iter().map(|request| request.json()["model"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_title_is_written_by_its_model_and_has_a_line_in_the_cost() {
    let bench = Bench::new(&[]);
    let server = MockServer::with(|request| match request.json()["model"].as_str() {
        Some("small") => Answer::text("\"Needle in a haystack.\"").usage(50, 5).into(),
        // The command of the first step gives the title time to arrive before the answer.
        _ if request.text().contains("step-one") => Answer::text("fine").usage(100, 10).into(),
        _ => Answer::tool("c1", "bash", json!({ "command": "echo step-one" })).into(),
    });
    let mut command = mine(&bench, &server, "[models]\ntitle = \"mine/small\"\n");
    run(command.args([
        "--model",
        "mine/large",
        "--allowedTools",
        "Bash(echo *)",
        "--",
        "find the needle, please",
    ]))
    .expect(0);
    let titles: Vec<Value> = bench
        .entries()
        .into_iter()
        .filter(|entry| entry["kind"] == "title")
        .map(|e| e["title"].clone())
        .collect();
    assert_eq!(titles, [json!("find the needle, please"), json!("Needle in a haystack")]);
    let title = server.requests().into_iter().find(|r| r.json()["model"] == "small").unwrap();
    assert!(title.text().contains("find the needle") && title.tool_names().is_empty());
    let bill = run(bench.command().args(["cost", "--json"])).expect(0);
    let bill: Value = serde_json::from_str(&bill.stdout).unwrap();
    let purposes: Vec<&str> =
        bill["purposes"].as_array().unwrap().iter().map(|p| p["purpose"].as_str().unwrap()).collect();
    assert_eq!(purposes, ["title", "turn"]);
    let list = run(bench.command().arg("sessions")).expect(0);
    assert!(list.stdout.contains("Needle in a haystack"), "{}", list.stdout);
}

#[test]
fn subagents_and_summaries_have_models_of_their_own() {
    let bench = Bench::new(&[("a.txt", "needle\n")]);
    let server = MockServer::with(|request| {
        if asks_for_summary(request) {
            return Answer::text(SUMMARY).into();
        }
        match request.json()["model"].as_str() {
            Some("scout") => Answer::text("It is in a.txt.").into(),
            _ if request.text().contains("It is in a.txt.") => Answer::text("Found.").into(),
            _ => Answer::tool(
                "t1",
                "task",
                json!({"description": "d", "prompt": "find it", "agent": "explore"}),
            )
            .into(),
        }
    });
    let config = "[models]\nsubagent = \"mine/scout\"\nsummary = \"mine/clerk\"\n";
    let args = ["--model", "mine/large", "find the needle"];
    let ran = run(mine(&bench, &server, config).args(args)).expect(0);
    assert_eq!(ran.stdout, "Found.\n");
    assert_eq!(asked(&server), ["large", "scout", "large"]);
    run(mine(&bench, &server, config).args(["-c", "/compact"])).expect(0);
    assert!(asked(&server).iter().skip(3).all(|model| model == "clerk"), "{:?}", asked(&server));
}

/// Without a key for the first model, the next one of the chain takes its place, and a notice reports it.
#[test]
fn a_chain_works_without_a_key_for_its_first_model() {
    for (config, args) in [
        ("model = \"anthropic/claude-sonnet-4-5\"\n[models]\nfallback = [\"mine/small\"]\n", &[][..]),
        // `fallback_models` is the older name of `models.fallback`.
        ("fallback_models = [\"mine/small\"]\n", &["--model", "groq/large"]),
        ("", &["--model", "anthropic/claude-sonnet-4-5", "--fallback-model", "groq/large,mine/small"]),
    ] {
        let bench = Bench::new(&[]);
        let server = MockServer::start([Answer::text("fine")]);
        let ran = run(mine(&bench, &server, config).args(args).arg("go")).expect(0);
        assert_eq!((ran.stdout.as_str(), asked(&server)), ("fine\n", vec!["small".to_owned()]), "{config}");
        assert!(ran.stderr.contains("The session runs with mine/small"), "{}", ran.stderr);
    }
    // The first model has a key, but no address.
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("fine")]);
    let mut command = mine(&bench, &server, "[models]\nfallback = [\"mine/small\"]\n");
    let ran = run(command.env("AZURE_OPENAI_API_KEY", "k").args(["--model", "azure/x", "go"])).expect(0);
    assert!(ran.stderr.contains("The session runs with mine/small"), "{}", ran.stderr);
    // No model is named, and there is no key but that of the fallback.
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("fine")]);
    run(mine(&bench, &server, "[models]\nfallback = [\"mine/small\"]\n").arg("go")).expect(0);
    assert_eq!(asked(&server), ["small"]);
    // A chain without any key is an error about the first model, and a wrong name is one as well.
    let bench = Bench::new(&[]);
    let chain = ["-p", "--model", "anthropic/claude-sonnet-4-5", "--fallback-model", "groq/large", "go"];
    let ran = run(bench.command().args(chain)).expect(2);
    assert!(ran.stderr.contains("There is no key for Anthropic"), "{}", ran.stderr);
    let wrong = ["-p", "--model", "script:no.json", "--fallback-model", "nosuch/model", "go"];
    run(bench.command().args(wrong)).expect(2);
}

/// A model beside the session's own that has no key, or that fails, does not stop the work.
#[test]
fn models_beside_the_session_may_be_missing() {
    let bench = Bench::new(&[]);
    let server = MockServer::with(|request| match request.json()["model"].as_str() {
        Some("small") => Reply::openai_error(500, "server_error", "bad", "broken"),
        _ => Answer::text("fine").into(),
    });
    let config = "[models]\ntitle = \"mine/small\"\nsummary = \"anthropic/claude-haiku-4-5\"\n";
    let ran = run(mine(&bench, &server, config).args(["--model", "mine/large", "go"])).expect(0);
    assert_eq!(ran.stdout, "fine\n");
    assert!(ran.stderr.contains("models.summary: There is no key for Anthropic."), "{}", ran.stderr);
}

/// A note about a model without a key or an address names the configuration's key, the variable, and the model that takes its place.
#[test]
fn a_missing_model_beside_the_session_names_key_and_variable() {
    for (key, model, want) in [
        ("summary", "anthropic/claude-haiku-4-5", "Set ANTHROPIC_API_KEY"),
        ("title", "groq/x", "Set GROQ_API_KEY, or run `becket login groq`."),
        ("subagent", "openai/gpt-5", "Set OPENAI_API_KEY"),
        ("summary", "azure/x", "Set AZURE_OPENAI_ENDPOINT."),
        (
            "subagent",
            "cloudflare/x",
            "lacks the id of your account: {project} has no value. Set CLOUDFLARE_ACCOUNT_ID",
        ),
        ("title", "vertex/gemini-2.5-pro", "Set GOOGLE_CLOUD_"),
        ("fallback", "groq/x", "Set GROQ_API_KEY"),
    ] {
        let bench = Bench::new(&[]);
        let server = MockServer::start([Answer::text("fine")]);
        let value = if key == "fallback" { format!("[\"{model}\"]") } else { format!("\"{model}\"") };
        let ran = run(mine(&bench, &server, &format!("[models]\n{key} = {value}\n")).args([
            "--model",
            "mine/large",
            "go",
        ]));
        let ran = ran.expect(0);
        let note = ran.stderr.lines().find(|line| line.contains(want));
        let note = note.unwrap_or_else(|| panic!("{key} {model}: {}", ran.stderr));
        let named = if key == "fallback" { "the fallback model groq/x" } else { &format!("models.{key}: ") };
        assert!(note.contains(named) && !note.contains(".."), "{note}");
    }
    // A value that is no model's name ends the start. The message names its key in the configuration.
    for (key, value) in [
        ("summary", "\"grok/x\""),
        ("title", "\"qqq\""),
        ("subagent", "\"nobody/x\""),
        ("fallback", "[\"grok/x\"]"),
    ] {
        let bench = Bench::new(&[]);
        let server = MockServer::start([Answer::text("fine")]);
        let ran = run(mine(&bench, &server, &format!("[models]\n{key} = {value}\n")).args([
            "--model",
            "mine/large",
            "go",
        ]));
        let ran = ran.expect(2);
        assert!(ran.stderr.contains(&format!("becket: models.{key}: ")), "{}", ran.stderr);
        assert_eq!(server.requests().len(), 0);
    }
}

/// The first fallback model that has a key writes titles if the model for them has none, and a note says so.
#[test]
fn a_title_comes_from_the_next_fallback_model_if_its_own_has_no_key() {
    let bench = Bench::new(&[]);
    let server = MockServer::with(|request| match request.json()["model"].as_str() {
        Some("small") => Answer::text("Needle in a haystack").usage(50, 5).into(),
        _ if request.text().contains("step-one") => Answer::text("fine").usage(100, 10).into(),
        _ => Answer::tool("c1", "bash", json!({ "command": "echo step-one" })).into(),
    });
    let config =
        "[models]\ntitle = \"anthropic/claude-haiku-4-5\"\nfallback = [\"groq/other\", \"mine/small\"]\n";
    let mut command = mine(&bench, &server, config);
    let ran = run(command.args([
        "--model",
        "mine/large",
        "--verbose",
        "--allowedTools",
        "Bash(echo *)",
        "--",
        "find",
    ]))
    .expect(0);
    assert!(ran.stderr.contains("mine/small, the next fallback model, writes titles"), "{}", ran.stderr);
    let titles: Vec<Value> = bench
        .entries()
        .into_iter()
        .filter(|entry| entry["kind"] == "title")
        .map(|entry| entry["title"].clone())
        .collect();
    assert_eq!(titles, [json!("find"), json!("Needle in a haystack")]);
}
