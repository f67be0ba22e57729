//! Wrong values of every key about providers, models, caches and limits: one message each, with key, value and next step.

use becket_config::{Inputs, Layer, Scope, Settings, load};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A text that must not be in a message, because it may be a key.
const SECRET: &str = "sk-planted-4711";

/// Key, value in TOML, and the value as the message shows it.
type Row = (&'static str, &'static str, &'static str);

/// A provider with the keys that it needs.
const OWN: &str = "kind = 'openai-chat'\nbase_url = 'https://h/v1'\n";

/// Keys of `[providers.own]`.
const OF_PROVIDER: &[Row] = &[
    ("kind", "'openai'", "\"openai\""),
    ("kind", "3", "3"),
    ("kind", "['gemini']", "a list"),
    ("base_url", "''", "\"\""),
    ("base_url", "'models.example.com'", "\"models.example.com\""),
    ("base_url", "'ftp://h/v1'", "\"ftp://h/v1\""),
    ("base_url", "'https://'", "\"https://\""),
    ("base_url", "'https://h:99999/v1'", "\"https://h:99999/v1\""),
    ("base_url", "'https://h/a b'", "\"https://h/a b\""),
    ("base_url", "'https://me:sk-planted-4711@h/v1'", ""),
    ("base_url", "true", "true"),
    ("api_key_env", "''", ""),
    ("api_key_env", "'sk-planted-4711'", ""),
    ("api_key_env", "'1KEY'", ""),
    ("api_key_env", "7", "7"),
    ("key_command", "[]", "[]"),
    ("key_command", "['']", "\"\""),
    ("key_command", "['print-token --now']", "\"print-token --now\""),
    ("key_command", "['print-token', \"a\\u0000\"]", "zero byte"),
    ("key_command", "'print-token'", "\"print-token\""),
    ("key_command", "[1]", "1"),
    ("auth", "'key'", "\"key\""),
    ("auth", "false", "false"),
    ("headers", "{ Authorization = 'Bearer sk-planted-4711' }", ""),
    ("headers", "{ 'X Y' = 'a' }", "\"X Y\""),
    ("headers", "{ '' = 'a' }", "\"\""),
    ("headers", "{ X-Note = \"sk-planted-4711\\nb\" }", ""),
    ("headers", "{ X-Note = 3 }", "3"),
    ("headers", "'X-Note: a'", "\"X-Note: a\""),
    ("body", "{ messages = [] }", "messages"),
    ("body", "{ stream = false }", "stream"),
    ("body", "{ context_management = {} }", "context_management"),
    ("body", "{ '' = 1 }", "\"\""),
    ("body", "'{}'", "\"{}\""),
    ("compat", "3", "3"),
    ("login", "'https://h'", "\"https://h\""),
    ("models", "{ name = 'm' }", "a table"),
    ("models", "['m']", "\"m\""),
];

/// Keys of `[providers.vertex]`, which is in a cloud.
const OF_CLOUD: &[Row] = &[
    ("region", "''", "\"\""),
    ("region", "'eu west'", "\"eu west\""),
    ("region", "'x.example.com/#'", "\"x.example.com/#\""),
    ("region", "1", "1"),
    ("project", "''", "\"\""),
    ("project", "'a/b'", "\"a/b\""),
    ("project", "[]", "a list"),
    ("token_url", "'token'", "\"token\""),
    ("token_url", "''", "\"\""),
    ("token_url", "3", "3"),
];

/// Keys of `[providers.own.login]`.
const OF_LOGIN: &[Row] = &[
    ("device_authorization_url", "'login.example.com'", "\"login.example.com\""),
    ("device_authorization_url", "'http://login.example.com/device'", "\"http://login.example.com/device\""),
    ("device_authorization_url", "3", "3"),
    ("token_url", "''", "\"\""),
    ("token_url", "'http://login.example.com/token'", "\"http://login.example.com/token\""),
    ("client_id", "''", "\"\""),
    ("client_id", "\"a\\nb\"", "\"a\\nb\""),
    ("client_id", "[]", "a list"),
    ("scope", "\"a\\nb\"", "\"a\\nb\""),
    ("scope", "['a']", "a list"),
];

/// Keys of `[providers.own.compat]`.
const OF_COMPAT: &[Row] = &[
    ("output_limit", "'max'", "\"max\""),
    ("output_limit", "4096", "4096"),
    ("stream_usage", "'yes'", "\"yes\""),
    ("stream_usage", "1", "1"),
    ("prompt_cache_key", "'key'", "\"key\""),
    ("prompt_cache_key", "[]", "a list"),
    ("system_role", "'assistant'", "\"assistant\""),
    ("system_role", "true", "true"),
    ("reasoning_field", "''", "\"\""),
    ("reasoning_field", "'content'", "\"content\""),
    ("reasoning_field", "'a b'", "\"a b\""),
    ("reasoning_field", "true", "true"),
    ("effort", "'high'", "\"high\""),
    ("effort", "3", "3"),
    ("text_calls", "'run'", "\"run\""),
    ("text_calls", "true", "true"),
    ("strict_tools", "'no'", "\"no\""),
    ("strict_tools", "0", "0"),
    ("empty_tools", "'no'", "\"no\""),
    ("empty_tools", "{ a = 1 }", "a table"),
    ("plain_schemas", "'no'", "\"no\""),
    ("plain_schemas", "0.5", "0.5"),
    ("flat_schemas", "'no'", "\"no\""),
    ("flat_schemas", "2", "2"),
    ("call_ids", "'ten'", "\"ten\""),
    ("call_ids", "9", "9"),
    ("null_content", "'null'", "\"null\""),
    ("null_content", "3", "3"),
    ("strict_order", "'yes'", "\"yes\""),
    ("strict_order", "1", "1"),
    ("hour_cache", "'1h'", "\"1h\""),
    ("hour_cache", "1", "1"),
    ("message_threads", "'on'", "\"on\""),
    ("message_threads", "1", "1"),
    ("fatal_codes", "'1308'", "\"1308\""),
    ("fatal_codes", "[1308]", "1308"),
    ("fatal_codes", "['']", "\"\""),
];

/// Keys of an entry of `[[providers.own.models]]`, whose name is `m` unless the row sets it.
const OF_MODEL: &[Row] = &[
    ("name", "''", "\"\""),
    ("name", "' '", "\" \""),
    ("name", "3", "3"),
    ("window", "0", "0"),
    ("window", "3999", "3999"),
    ("window", "-1", "-1"),
    ("window", "1.5", "1.5"),
    ("window", "'128k'", "\"128k\""),
    ("max_output", "0", "0"),
    ("max_output", "-5", "-5"),
    ("max_output", "'all'", "\"all\""),
    ("images", "'yes'", "\"yes\""),
    ("images", "1", "1"),
    ("reasoning", "'high'", "\"high\""),
    ("reasoning", "0", "0"),
    ("prices", "[1, 2, 3]", "3"),
    ("prices", "[1, 2, 3, 4, 5]", "5"),
    ("prices", "[1, 2, 3, -4]", "-4"),
    ("prices", "[1, 2, 3, 'x']", "\"x\""),
    ("prices", "[1, 2, 3, nan]", "\"nan\""),
    ("prices", "3", "3"),
    ("prices", "{ input = 1 }", "a table"),
    ("body", "{ model = 'other' }", "model"),
    ("body", "7", "7"),
];

/// Other keys, with their whole paths.
const OTHERS: &[Row] = &[
    ("models.fallback", "'groq/x'", "\"groq/x\""),
    ("models.fallback", "['']", "\"\""),
    ("models.fallback", "['groq/x', ' ']", "\" \""),
    ("models.fallback", "[3]", "3"),
    ("models.summary", "''", "\"\""),
    ("models.summary", "true", "true"),
    ("models.title", "' '", "\" \""),
    ("models.title", "3", "3"),
    ("models.subagent", "''", "\"\""),
    ("models.subagent", "['groq/x']", "a list"),
    ("models.aliases", "{ 'a/b' = 'groq/x' }", "\"a/b\""),
    ("models.aliases", "{ '' = 'groq/x' }", "\"\""),
    ("models.aliases", "{ fast = '' }", "\"\""),
    ("models.aliases", "{ fast = 'fast' }", "\"fast\""),
    ("models.aliases", "{ fast = 3 }", "3"),
    ("models.aliases", "['fast']", "a list"),
    ("models.catalog", "'models.dev'", "\"models.dev\""),
    ("models.catalog", "''", "\"\""),
    ("models.catalog", "true", "true"),
    ("context.cache_ttl", "'10m'", "\"10m\""),
    ("context.cache_ttl", "5", "5"),
    ("context.cache_warm", "'streaming'", "\"streaming\""),
    ("context.cache_warm", "true", "true"),
    ("context.idle_compaction", "'yes'", "\"yes\""),
    ("context.idle_compaction", "1", "1"),
    ("limits.max_turns", "0", "0"),
    ("limits.max_turns", "-1", "-1"),
    ("limits.max_turns", "1.5", "1.5"),
    ("limits.max_turns", "'many'", "\"many\""),
    ("limits.max_budget_usd", "0", "0"),
    ("limits.max_budget_usd", "-2.5", "-2.5"),
    ("limits.max_budget_usd", "nan", "\"nan\""),
    ("limits.max_budget_usd", "'5$'", "\"5$\""),
    ("limits.max_tokens", "0", "0"),
    ("limits.max_tokens", "-1", "-1"),
    ("limits.max_tokens", "1.5", "1.5"),
    ("limits.max_tokens", "'lots'", "\"lots\""),
    ("limits.max_tokens", "[]", "a list"),
    ("limits.max_wall", "0", "0"),
    ("limits.max_wall", "-5", "-5"),
    ("limits.max_wall", "'soon'", "\"soon\""),
    ("limits.max_wall", "true", "true"),
    ("limits.max_wait", "-5", "-5"),
    ("limits.max_wait", "'5 parsecs'", "\"5 parsecs\""),
    ("limits.max_wait", "{}", "a table"),
    ("limits.wait_for_quota", "'yes'", "\"yes\""),
    ("limits.wait_for_quota", "1", "1"),
];

fn read(text: &str) -> Result<Settings, String> {
    let env = BTreeMap::new();
    let path = "/u/becket/config.toml".into();
    let files = vec![Layer { scope: Scope::User, path, text: text.to_owned() }];
    let home = Path::new("/u");
    load(&Inputs {
        files,
        settings: None,
        env: &env,
        keys: None,
        trusted: true,
        approved: Vec::new(),
        driven: false,
        flags: Vec::new(),
        home,
        cwd: home,
    })
    .map_err(|error| error.to_string())
}

/// The text of a file in which only the row's value is wrong, and the key's whole path.
fn files() -> Vec<(String, String, &'static Row)> {
    let mut out = Vec::new();
    for row @ (key, value, _) in OF_PROVIDER {
        let rest: String =
            OWN.lines().filter(|line| !line.starts_with(key)).flat_map(|l| [l, "\n"]).collect();
        out.push((format!("[providers.own]\n{rest}{key} = {value}\n"), format!("providers.own.{key}"), row));
    }
    for row @ (key, value, _) in OF_CLOUD {
        out.push((format!("[providers.vertex]\n{key} = {value}\n"), format!("providers.vertex.{key}"), row));
    }
    for row @ (key, value, _) in OF_LOGIN {
        let all =
            ["device_authorization_url = 'https://h/d'", "token_url = 'https://h/t'", "client_id = 'i'"];
        let rest: String =
            all.iter().filter(|line| !line.starts_with(key)).flat_map(|line| [line, "\n"]).collect();
        let text = format!("[providers.own]\n{OWN}[providers.own.login]\n{rest}{key} = {value}\n");
        out.push((text, format!("providers.own.login.{key}"), row));
    }
    for row @ (key, value, _) in OF_COMPAT {
        let text = format!("[providers.own]\n{OWN}[providers.own.compat]\n{key} = {value}\n");
        out.push((text, format!("providers.own.compat.{key}"), row));
    }
    for row @ (key, value, _) in OF_MODEL {
        let name = if *key == "name" { "" } else { "name = 'm'\n" };
        let text = format!("[providers.own]\n{OWN}[[providers.own.models]]\n{name}{key} = {value}\n");
        out.push((text, "providers.own.models".to_owned(), row));
    }
    for row @ (key, value, _) in OTHERS {
        out.push((format!("{key} = {value}\n"), (*key).to_owned(), row));
    }
    out
}

#[test]
fn a_wrong_value_is_one_message_with_key_value_and_next_step() {
    const STEPS: &[&str] =
        &["write ", "give ", "correct ", "remove ", "use ", "needs ", "name ", "keep ", "separate "];
    let mut wrong = Vec::new();
    for (text, key, (_, _, shown)) in files() {
        let said = read(&text).map_or_else(|said| said, |_| "nothing".to_owned());
        let whole = said.lines().count() == 1
            && said.starts_with("/u/becket/config.toml")
            && said.contains(&key)
            && said.contains(shown)
            && !said.contains(SECRET)
            && STEPS.iter().any(|step| said.contains(step));
        let jargon = ["invalid", "struct", "sequence", "variant", "u64", "f64"];
        if !whole || jargon.iter().any(|word| said.contains(word)) {
            wrong.push(format!("{text}  said: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), files().len(), wrong.join("\n"));
}

/// Adds the paths of all keys below a schema. Names that the user gives are `*`.
fn keys_of(schema: &Value, path: &str, out: &mut BTreeSet<String>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (schema["properties"].as_object(), &schema["additionalProperties"], &schema["items"]) {
        (Some(properties), ..) => {
            for (key, inner) in properties {
                keys_of(inner, &below(key), out);
            }
        }
        (_, names, _) if names["properties"].is_object() => keys_of(names, &below("*"), out),
        (.., items) if items["properties"].is_object() => keys_of(items, &below("*"), out),
        _ => _ = out.insert(path.to_owned()),
    }
}

/// A new key needs rows in the tables above.
#[test]
fn every_key_about_providers_models_caches_and_limits_has_wrong_values() {
    let schema: Value = serde_json::from_str(include_str!("../../../docs/config.schema.json")).unwrap();
    let mut known = BTreeSet::new();
    keys_of(&schema, "", &mut known);
    let wanted = |key: &&String| {
        ["providers.", "models.", "limits.", "context.cache_", "context.idle_"]
            .iter()
            .any(|start| key.starts_with(start))
    };
    let tables = [
        ("providers.*.", OF_PROVIDER),
        ("providers.*.", OF_CLOUD),
        ("providers.*.login.", OF_LOGIN),
        ("providers.*.compat.", OF_COMPAT),
        ("providers.*.models.*.", OF_MODEL),
        ("", OTHERS),
    ];
    for key in known.iter().filter(wanted) {
        let rows =
            tables.iter().flat_map(|(start, rows)| rows.iter().map(move |row| format!("{start}{}", row.0)));
        let count = rows.filter(|row| row == key).count();
        assert!(count >= 2, "{key} has {count} wrong values in the tables");
    }
}

#[test]
fn values_without_effect_are_told() {
    for (text, want) in [
        ("[providers.groq]\nregion = 'eu'", "providers.groq.region: it has no effect"),
        ("[providers.groq]\nproject = 'p'", "providers.groq.project: it has no effect"),
        ("[providers.groq]\ntoken_url = 'https://h/t'", "providers.groq.token_url: it has no effect"),
        (
            "[providers.groq]\nbase_url = 'https://h/v1?a=sk-planted-4711'",
            "providers.groq.base_url: the part from ?",
        ),
    ] {
        let settings = read(text).unwrap();
        let told: Vec<String> = settings.warnings.iter().map(ToString::to_string).collect();
        assert!(told.len() == 1 && told[0].contains(want) && !told[0].contains(SECRET), "{text}: {told:?}");
    }
    for text in [
        "[providers.bedrock]\nregion = 'eu-west-1'",
        "[providers.vertex]\nregion = 'eu-west1'\nproject = 'example.com:p-1'\ntoken_url = 'https://h/t'",
        "[providers.cloudflare]\nproject = '0123abc'",
        "[providers.own]\nkind = 'gemini'\nbase_url = 'https://h/v1'\nauth = 'google'\nproject = 'p'",
    ] {
        assert_eq!(read(text).unwrap().warnings, [], "{text}");
    }
}

/// Names that the user gives may have dots, where that is possible.
#[test]
fn names_with_dots_are_read_or_refused() {
    let settings =
        read("models.aliases = { 'gpt4.1' = 'openai/gpt-4.1' }\n[providers.groq]\nheaders = { 'X.Y' = 'z' }");
    let config = settings.unwrap().config;
    assert_eq!(config.model.others.aliases["gpt4.1"], "openai/gpt-4.1");
    assert_eq!(config.provider("groq").headers["X.Y"], "z");
    for name in ["a.b", "My", "", "a/b"] {
        let said =
            read(&format!("model = 'x/y'\n[providers.'{name}']\nkind = 'gemini'\nbase_url = 'https://h'"))
                .unwrap_err();
        assert!(said.starts_with("/u/becket/config.toml:2:"), "{said}");
        assert!(
            said.contains(&format!("{name:?} cannot be a provider's name")) && said.lines().count() == 1,
            "{said}"
        );
    }
}

/// A settings file of another program must not lose its deny rules for half of a surrogate pair. A real mistake keeps its line.
#[test]
fn half_a_character_costs_no_setting() {
    let text = "{ // C:\\\n \"a\": \"cut \\ud83d\", \"b\": \"\\ud83d\\ude00 \\\\ud83d\",\n}";
    let value = becket_config::json_value(text).unwrap();
    assert_eq!((value["a"].as_str(), value["b"].as_str()), (Some("cut \u{fffd}"), Some("😀 \\ud83d")));
    let wrong = becket_config::json_value("{\n \"a\": \"\\ud83d\",\n \"b\": x\n}").unwrap_err();
    assert!(wrong.starts_with("line 3: "), "{wrong}");
}
