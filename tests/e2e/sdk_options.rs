//! Options of the official SDKs: each one acts, or becket says that it has no effect. The lists are compared with the sources of
//! the installed packages, so a flag, a field or an option of a new version fails until somebody has decided about it.

use crate::sdk_answers::Session;
use crate::sdk_types::{fields, of_package};
use crate::sdks::peers;
use crate::support::{Api, Bench, run_with, says};
use becket_testkit::{Answer, MockServer};
use serde_json::json;

/// Returns the text of a file of the Python package, if it is installed.
fn of_python(test: &str, file: &str) -> Option<String> {
    let lib = peers(test, "python/lib")?.join("python/lib");
    let versions = std::fs::read_dir(lib).ok()?.flatten();
    let mut files = versions.map(|dir| dir.path().join("site-packages/claude_agent_sdk").join(file));
    Some(std::fs::read_to_string(files.find(|file| file.exists())?).unwrap())
}

/// The part of a source from one text to another.
fn between<'a>(source: &'a str, from: &str, to: &str) -> &'a str {
    let rest = &source[source.find(from).unwrap_or_else(|| panic!("{from:?} is gone"))..];
    &rest[..rest.find(to).unwrap_or_else(|| panic!("{to:?} is gone"))]
}

/// Flags with an effect that both packages build, each with a value to try.
const ACTS: &[(&str, Option<&str>)] = &[
    ("add-dir", Some(".")),
    ("agent", Some("general-purpose")),
    ("allow-dangerously-skip-permissions", None),
    ("allowedTools", Some("Read,Bash(echo:*)")),
    ("append-system-prompt", Some("more")),
    ("await-initialize", None),
    ("continue", None),
    ("debug-file", Some("debug.txt")),
    ("disallowedTools", Some("WebFetch")),
    ("effort", Some("low")),
    ("fallback-model", Some("haiku")),
    ("fork-session", None),
    ("include-hook-events", None),
    ("include-partial-messages", None),
    ("initialize-fields", Some("settings")),
    ("input-format", Some("stream-json")),
    ("json-schema", Some("{\"type\":\"object\"}")),
    ("managed-settings", Some("{\"permissions\":{\"deny\":[\"WebFetch\"]}}")),
    ("managed-settings-in-initialize", None),
    ("max-budget-usd", Some("5")),
    ("max-thinking-tokens", Some("2000")),
    ("max-turns", Some("3")),
    ("mcp-config", Some("{\"mcpServers\":{}}")),
    ("model", Some("sonnet")),
    ("no-session-persistence", None),
    ("output-format", Some("stream-json")),
    ("permission-mode", Some("acceptEdits")),
    ("permission-prompt-tool", Some("stdio")),
    ("permission-prompts", Some("none")),
    ("plugin-dir", Some(".")),
    ("plugin-dir-no-mcp", Some(".")),
    ("resume", Some("abc")),
    ("resume-drops-turn", Some("abc")),
    ("resume-session-at", Some("abc")),
    ("session-id", Some("11111111-1111-4111-8111-111111111111")),
    ("session-mirror", None),
    ("setting-sources", Some("user")),
    ("settings", Some("{}")),
    ("strict-mcp-config", None),
    ("system-prompt", Some("")),
    ("system-prompt-file", Some("prompt.md")),
    ("thinking", Some("disabled")),
    ("tools", Some("default")),
    ("verbose", None),
];

/// Flags that both packages build and that becket cannot carry out.
const TOLD: &[(&str, Option<&str>)] = &[
    ("betas", Some("context-1m-2025-08-07")),
    ("channels", Some("a")),
    ("debug", None),
    ("project-config-root", Some(".")),
    ("task-budget", Some("1000")),
    ("thinking-display", Some("omitted")),
    ("workload", Some("x")),
];

/// The names after `--` in a piece of source code.
fn flags(source: &str) -> Vec<String> {
    let is_name = |c: char| c.is_ascii_alphabetic() || c == '-';
    let words = ["\"--", "f\"--"].iter().flat_map(|quote| source.split(quote).skip(1));
    let names = words.map(|rest| rest.chars().take_while(|c| is_name(*c)).collect::<String>());
    let mut names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
    names.sort();
    names.dedup();
    names
}

/// A flag that a package begins to build fails here until it is in one of the two tables.
#[test]
fn every_flag_of_the_packages_acts_or_is_told() {
    let test = "every_flag_of_the_packages_acts_or_is_told";
    let Some(typescript) = of_package(test, "sdk.mjs") else { return };
    let mut built = flags(between(
        &typescript,
        "initialize(){try{let{additionalDirectories",
        "spawnClaudeCodeProcess(ct)",
    ));
    if let Some(source) = of_python(test, "_internal/transport/subprocess_cli.py") {
        built.extend(flags(between(&source, "def _build_command", "\"--input-format\", \"stream-json\"")));
    }
    for flag in &built {
        let known = ACTS.iter().chain(TOLD).any(|(known, _)| known == flag);
        assert!(known, "--{flag} is new: does it act, or does becket say that it has no effect?");
    }
    let bench = Bench::new(&[("prompt.md", "Be brief.\n")]);
    let server = MockServer::with(|_| Answer::text("done").into());
    let with = |(flag, value): &(&str, Option<&str>)| {
        let mut becket = bench.print(Api::Anthropic, &server);
        becket.args(["--input-format", "stream-json", "--output-format", "stream-json"]);
        becket.arg(value.map_or_else(|| format!("--{flag}"), |value| format!("--{flag}={value}")));
        run_with(&mut becket, format!("{}\n", says("go")).as_bytes())
    };
    for row in ACTS {
        let ran = with(row);
        for told in ["has no effect", "unexpected argument"] {
            assert!(!ran.stderr.contains(told), "--{}: {}", row.0, ran.stderr);
        }
    }
    for row in TOLD {
        let ran = with(row).expect(0);
        let told = format!("the option --{} has no effect: ", row.0);
        assert_eq!(ran.stderr.matches(&told).count(), 1, "--{}: {}", row.0, ran.stderr);
        let init = ran.lines().into_iter().find(|line| line["subtype"] == "init").unwrap();
        assert!(init["warnings"][0].as_str().unwrap().starts_with(&told), "{init}");
    }
}

/// Fields of `initialize` that act.
const FIELDS: &[&str] = &[
    "subtype",
    "hooks",
    "sdkMcpServers",
    "sdkMcpServerConfigs",
    "sdkMcpServerManifests",
    "jsonSchema",
    "systemPrompt",
    "appendSystemPrompt",
    "appendSubagentSystemPrompt",
    "perTaskStopAffordance",
    "agents",
    "title",
    "skills",
    "forwardSubagentText",
    "plugins",
    "managedSettings",
    "settings",
    "disallowedTools",
    "excludeDynamicSections",
    "planModeInstructions",
    "toolAliases",
    "mcpServers",
];

#[test]
fn every_field_of_initialize_acts_or_is_told() {
    let Some(source) = of_package("every_field_of_initialize_acts_or_is_told", "sdk.mjs") else { return };
    let fields = between(&source, "return{subtype:\"initialize\",hooks:", "}}");
    let fields: Vec<&str> = fields
        .split([',', '{'])
        .filter_map(|part| part.split_once(':'))
        .map(|(name, _)| name)
        .filter(|name| name.chars().all(char::is_alphanumeric))
        .collect();
    assert!(fields.contains(&"planModeInstructions") && fields.len() > 20, "{fields:?}");
    let mut body = json!({ "subtype": "initialize" });
    let unused: Vec<&str> = fields.iter().copied().filter(|field| !FIELDS.contains(field)).collect();
    for field in &unused {
        body[*field] = json!("x");
    }
    let bench = Bench::new(&[]);
    let server = MockServer::with(|_| Answer::text("done").into());
    let mut session = Session::start(&bench, &server, &[]);
    let answer = session.ask(&body);
    let told = answer["unused_fields"].to_string();
    session.send(&says("go"));
    let init = session.line(&["\"init\""])["warnings"].to_string();
    session.result();
    let ran = session.0.wait().expect(0);
    for field in unused {
        for text in [&told, &init, &ran.stderr] {
            assert!(text.contains(field), "{field} has no effect in silence: {text}");
        }
    }
}

/// The way of each option of the packages to becket: a flag or a field of the tables above, or neither.
const OPTIONS: &[(&str, &str)] = &[
    ("abortController", "in the SDK"),
    ("additionalDirectories", "--add-dir"),
    ("agent", "--agent"),
    ("agentProgressSummaries", "initialize"),
    ("agents", "initialize"),
    ("allowDangerouslySkipPermissions", "--allow-dangerously-skip-permissions"),
    ("allowedTools", "--allowedTools"),
    ("betas", "--betas"),
    ("canUseTool", "--permission-prompt-tool"),
    ("continue", "--continue"),
    ("cwd", "in the SDK"),
    ("debug", "--debug"),
    ("debugFile", "--debug-file"),
    ("disallowedTools", "--disallowedTools"),
    ("effort", "--effort"),
    // Files are recorded in any case.
    ("enableFileCheckpointing", "in the SDK"),
    ("env", "in the SDK"),
    ("executable", "in the SDK"),
    ("executableArgs", "in the SDK"),
    ("extraArgs", "in the SDK"),
    ("fallbackModel", "--fallback-model"),
    ("forkSession", "--fork-session"),
    ("forwardSubagentText", "initialize"),
    ("hooks", "initialize"),
    ("includeHookEvents", "--include-hook-events"),
    ("includePartialMessages", "--include-partial-messages"),
    ("loadTimeoutMs", "in the SDK"),
    ("managedSettings", "--managed-settings"),
    ("maxBudgetUsd", "--max-budget-usd"),
    ("maxThinkingTokens", "--max-thinking-tokens"),
    ("maxTurns", "--max-turns"),
    ("mcpServers", "--mcp-config"),
    ("mcpServersDelivery", "in the SDK"),
    ("model", "--model"),
    ("onElicitation", "in the SDK"),
    ("onUserDialog", "in the SDK"),
    ("outputFormat", "--json-schema"),
    ("pathToClaudeCodeExecutable", "in the SDK"),
    ("perTaskStopAffordance", "initialize"),
    ("permissionMode", "--permission-mode"),
    ("permissionPromptToolName", "--permission-prompt-tool"),
    ("permissionPrompts", "--permission-prompts"),
    ("persistSession", "--no-session-persistence"),
    ("planModeInstructions", "initialize"),
    ("pluginDelivery", "in the SDK"),
    ("plugins", "--plugin-dir"),
    ("projectConfigRoot", "--project-config-root"),
    ("promptSuggestions", "initialize"),
    ("resume", "--resume"),
    ("resumeDropsTurn", "--resume-drops-turn"),
    ("resumeSessionAt", "--resume-session-at"),
    ("sandbox", "--settings"),
    ("sessionId", "--session-id"),
    ("sessionStore", "--session-mirror"),
    ("sessionStoreFlush", "in the SDK"),
    ("settingSources", "--setting-sources"),
    ("settings", "--settings"),
    ("skills", "initialize"),
    ("spawnClaudeCodeProcess", "in the SDK"),
    ("stderr", "in the SDK"),
    ("strictMcpConfig", "--strict-mcp-config"),
    ("supportedDialogKinds", "initialize"),
    ("systemPrompt", "initialize"),
    ("taskBudget", "--task-budget"),
    ("thinking", "--thinking"),
    ("title", "initialize"),
    ("toolAliases", "initialize"),
    ("toolConfig", "in the environment"),
    ("tools", "--tools"),
    ("verbatimPrompts", "in the SDK"),
];

#[test]
fn every_option_of_the_packages_has_a_way() {
    let test = "every_option_of_the_packages_has_a_way";
    let Some(types) = of_package(test, "sdk.d.ts") else { return };
    for (option, _) in fields(&types, "Options") {
        let way = OPTIONS.iter().find(|(known, _)| *known == option).map(|(_, way)| *way);
        let way = way.unwrap_or_else(|| panic!("the option {option} is new: how does it reach becket?"));
        if let Some(flag) = way.strip_prefix("--") {
            assert!(ACTS.iter().chain(TOLD).any(|(known, _)| *known == flag), "{option}: {way}");
        }
    }
    let Some(source) = of_python(test, "types.py") else { return };
    let class = &source[source.find("class ClaudeAgentOptions").unwrap()..];
    let class = class[1..].split("\nclass ").next().unwrap();
    let indented = class.lines().filter_map(|line| line.strip_prefix("    ")?.split_once(": "));
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let names: Vec<&str> = indented.map(|(name, _)| name).filter(|name| is_name(name)).collect();
    assert!(names.len() > 40, "{names:?}");
    for name in names {
        let known = OPTIONS.iter().any(|(known, _)| snake(known) == name) || OF_PYTHON.contains(&name);
        assert!(known, "the Python option {name} is new: how does it reach becket?");
    }
}

/// Options of the Python package with another name than in TypeScript, or that stay in it.
const OF_PYTHON: &[&str] = &[
    "add_dirs",
    "cli_path",
    "client_app",
    "continue_conversation",
    "debug_stderr",
    "max_buffer_size",
    "user",
];

fn snake(name: &str) -> String {
    let one = |c: char| if c.is_uppercase() { format!("_{}", c.to_lowercase()) } else { c.to_string() };
    name.chars().map(one).collect()
}
