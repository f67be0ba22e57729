//! Fields of the user's own in the body of a request: `providers.NAME.body` and that of a model.

use crate::providers::configured;
use crate::support::{Bench, run};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const KINDS: [&str; 4] = ["anthropic", "openai-chat", "openai-responses", "gemini"];

/// OpenRouter's choice of providers is data, in every wire format, and a model's own fields override those of its provider.
#[test]
fn fields_of_the_configuration_are_in_every_request() {
    for kind in KINDS {
        let bench = Bench::new(&[("a.txt", "the-content\n")]);
        let server = MockServer::with(|request| {
            if request.text().contains("the-content") {
                Answer::text("done").into()
            } else {
                Answer::tool("c1", "read", json!({"path": "a.txt"})).into()
            }
        });
        configured(
            &bench,
            &format!(
                "[providers.mine]\nkind = \"{kind}\"\nbase_url = \"{}/v1\"\n\
                 body = {{ provider = {{ order = [\"z-ai\"], allow_fallbacks = false }}, temperature = 0.5 }}\n\
                 [[providers.mine.models]]\nname = \"two\"\nbody = {{ provider = {{ only = [\"azure\"] }} }}\n",
                server.url()
            ),
        );
        for (model, provider) in [
            ("mine/one", json!({"order": ["z-ai"], "allow_fallbacks": false})),
            ("mine/two", json!({"only": ["azure"]})),
        ] {
            let before = server.requests().len();
            run(bench.command().args(["-p", "--model", model, "go"])).expect(0);
            let all = server.requests();
            let new = &all[before..];
            assert_eq!(new.len(), 2, "{kind}");
            for request in new {
                let body = request.json();
                assert_eq!(body["provider"], provider, "{kind} {model}");
                assert_eq!(body["temperature"], 0.5, "{kind} {model}");
            }
            // The second request repeats the bytes of the first.
            let (first, second) = (new[0].text(), new[1].text());
            let same = first.bytes().zip(second.bytes()).take_while(|(a, b)| a == b).count();
            assert!(same + 4 > first.len(), "{kind}: {same} of {}", first.len());
        }
    }
}

/// Every field that becket sends is refused in the configuration.
#[test]
fn fields_that_becket_sends_cannot_be_configured() {
    let mut fields = BTreeSet::new();
    for kind in KINDS {
        for compat in
            ["prompt_cache_key = true\neffort = \"thinking\"", "output_limit = \"max_completion_tokens\"", ""]
        {
            let bench = Bench::new(&[]);
            let server = MockServer::start([Answer::text("fine")]);
            configured(
                &bench,
                &format!(
                    "[providers.mine]\nkind = \"{kind}\"\nbase_url = \"{}/v1\"\n[providers.mine.compat]\n{compat}\n\
                     [[providers.mine.models]]\nname = \"claude-sonnet-5\"\nreasoning = true\n",
                    server.url()
                ),
            );
            let args = ["-p", "--effort", "high", "--model", "mine/claude-sonnet-5", "go"];
            run(bench.command().args(args)).expect(0);
            let body: Value = server.requests()[0].json();
            fields.extend(body.as_object().unwrap().keys().cloned());
        }
    }
    assert!(fields.len() >= 15, "{fields:?}");
    let bench = Bench::new(&[]);
    for field in fields {
        for table in ["[providers.groq]", "[[providers.groq.models]]\nname = \"m\""] {
            configured(&bench, &format!("{table}\nbody = {{ {field} = 1 }}\n"));
            let ran = run(bench.command().args(["config"])).expect(2);
            assert!(
                ran.stderr.contains(&format!("becket sets the field {field} itself; remove it")),
                "{}",
                ran.stderr
            );
        }
    }
}

/// Without the id of the account there is no address, and one message says which variable has it.
#[test]
fn an_address_that_lacks_a_part_says_which() {
    for (model, variables, want) in [
        (
            "cloudflare/x",
            &[("CLOUDFLARE_API_KEY", "k")][..],
            "Set CLOUDFLARE_ACCOUNT_ID or providers.cloudflare.project.",
        ),
        (
            "vertex/gemini-2.5-pro",
            &[("GOOGLE_CLOUD_PROJECT", "p")],
            "Set GOOGLE_CLOUD_LOCATION or providers.vertex.region.",
        ),
        (
            "vertex/gemini-2.5-pro",
            &[("GOOGLE_CLOUD_LOCATION", "l")],
            "Set GOOGLE_CLOUD_PROJECT or providers.vertex.project.",
        ),
        (
            "bedrock/amazon.nova-pro-v1:0",
            &[("AWS_BEARER_TOKEN_BEDROCK", "k")],
            "Set AWS_REGION or providers.bedrock.region.",
        ),
    ] {
        let bench = Bench::new(&[]);
        let ran = run(bench.command().envs(variables.iter().copied()).args(["-p", "--model", model, "go"]))
            .expect(2);
        assert!(ran.stderr.contains(want) && ran.stderr.contains(" lacks "), "{model}: {}", ran.stderr);
    }
}
