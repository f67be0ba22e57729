//! Layers: which one wins, what a project may not do, and which warnings appear.

use becket_config::{
    ConfigError, Effort, Flag, Inputs, Layer, Places, SandboxMode, SandboxNetwork, Scope, SettingSources,
    Settings, Source, load, read_files, read_text,
};
use becket_types::PermissionMode;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Default)]
struct Case {
    files: Vec<(Scope, &'static str)>,
    settings: Option<&'static str>,
    env: Vec<(&'static str, &'static str)>,
    keys: Option<&'static str>,
    flags: Vec<Flag>,
}

fn path(scope: Scope) -> PathBuf {
    let places = Places {
        config_dir: "/home/u/.config".into(),
        project: "/repo".into(),
        managed: "/etc/becket/config.toml".into(),
    };
    places.path(scope)
}

fn run(case: Case) -> Result<Settings, ConfigError> {
    let files =
        case.files.iter().map(|(s, t)| Layer { scope: *s, path: path(*s), text: (*t).to_owned() }).collect();
    let env: BTreeMap<String, String> =
        case.env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    load(&Inputs {
        files,
        settings: case.settings.map(|text| ("--settings".to_owned(), text.to_owned())),
        env: &env,
        keys: case
            .keys
            .map(|text| (PathBuf::from("/home/u/.config/becket/credentials.toml"), text.to_owned())),
        trusted: true,
        approved: Vec::new(),
        driven: false,
        flags: case.flags,
        home: Path::new("/home/u"),
        cwd: Path::new("/repo/sub"),
    })
}

fn warnings(settings: &Settings) -> Vec<String> {
    settings.warnings.iter().map(ToString::to_string).collect()
}

fn problems(case: Case) -> String {
    match run(case) {
        Ok(settings) => format!("no error: {:?}", settings.config),
        Err(error) => error.to_string(),
    }
}

#[test]
fn defaults_without_anything() {
    let settings = run(Case::default()).unwrap();
    assert_eq!(settings.config, becket_config::Config::default());
    assert_eq!(settings.source("model"), Source::Default);
    assert_eq!(settings.warnings, []);
}

#[test]
fn the_stronger_layer_wins_and_says_so() {
    let all = || Case {
        files: vec![
            (Scope::User, "model = 'user'"),
            (Scope::Project, "model = 'project'"),
            (Scope::Local, "model = 'local'"),
            (Scope::Managed, "model = 'managed'"),
        ],
        settings: Some(r#"{"model": "settings"}"#),
        env: vec![("BECKET_MODEL", "environment")],
        flags: vec![Flag { key: "model", value: json!("flag"), flag: "--model" }],
        ..Case::default()
    };
    type Step = (&'static str, fn(&mut Case));
    let steps: [Step; 7] = [
        ("managed", |c| c.files.retain(|f| f.0 != Scope::Managed)),
        ("flag", |c| c.flags.clear()),
        ("settings", |c| c.settings = None),
        ("environment", |c| c.env.clear()),
        ("local", |c| c.files.retain(|f| f.0 != Scope::Local)),
        ("project", |c| c.files.retain(|f| f.0 != Scope::Project)),
        ("user", |c| c.files.clear()),
    ];
    for (at, (name, _)) in steps.iter().enumerate() {
        let mut case = all();
        steps[..at].iter().for_each(|(_, remove)| remove(&mut case));
        let settings = run(case).unwrap();
        assert_eq!(settings.config.model.name.as_deref(), Some(*name));
        assert!(settings.source("model").to_string().starts_with(name), "{}", settings.source("model"));
    }
}

#[test]
fn permission_lists_add_up_with_their_sources() {
    let settings = run(Case {
        files: vec![
            (Scope::User, "[permissions]\nallow = ['Bash(ls *)']\ndeny = ['Read(~/.ssh/**)']"),
            (Scope::Project, "[permissions]\ndeny = ['Bash(rm *)']\nask = ['Bash(git push *)']"),
            (Scope::Managed, "[permissions]\ndeny = ['Bash(curl *)']"),
        ],
        settings: Some(
            r#"{ // as other agents write it
                "permissions": {"allow": ["Read"], "deny": [], "defaultMode": "acceptEdits",
                                "additionalDirectories": ["../lib", "~/notes"]},
                "env": {"TOKEN": "0123456789abcdefghij"}, "model": "m", }"#,
        ),
        ..Case::default()
    })
    .unwrap();
    assert_eq!(settings.config.permissions.rules.allow, ["Bash(ls *)", "Read"]);
    assert_eq!(settings.config.permissions.rules.ask, ["Bash(git push *)"]);
    assert_eq!(
        settings.sourced("permissions.deny"),
        [
            ("Read(~/.ssh/**)".to_owned(), Source::User(path(Scope::User))),
            ("Bash(rm *)".to_owned(), Source::Project(path(Scope::Project))),
            ("Bash(curl *)".to_owned(), Source::Managed(path(Scope::Managed))),
        ]
    );
    assert_eq!(settings.config.permissions.mode, PermissionMode::AcceptEdits);
    assert_eq!(settings.config.add_dirs, ["/repo/sub/../lib", "/home/u/notes"]);
    assert_eq!(settings.config.tools.shell.env["TOKEN"], "0123456789abcdefghij");
    let rows = settings.explain();
    let token = rows.iter().find(|r| r.key == "shell.env.TOKEN").unwrap();
    assert_eq!((token.value.as_str(), token.source.as_str()), ("\"********ghij\"", "settings: --settings"));
    assert_eq!(warnings(&settings), Vec::<String>::new());
}

#[test]
fn every_element_of_a_list_that_is_set_later_has_its_source() {
    let mut settings = run(Case::default()).unwrap();
    for names in [vec![], vec!["read"], vec!["read", "grep", "bash"]] {
        settings.set("tools.enabled", serde_json::json!(names), Source::Session);
        let expected: Vec<_> = names.iter().map(|name| ((*name).to_owned(), Source::Session)).collect();
        assert_eq!(settings.sourced("tools.enabled"), expected);
        assert_eq!(settings.origins("tools.enabled").len(), names.len());
    }
}

#[test]
fn a_misspelt_variable_is_named_and_others_are_not() {
    let env = vec![
        ("BECKET_PERMISION_MODE", "plan"),
        ("BECKET_MODELS", "x"),
        ("BECKET_HOME", "/b"),
        ("BECKET_MODEL", "openai/x"),
        ("BECKET_ROLE_OF_THE_SERVER", "x"),
        ("ANTHROPIC_BASE_URLS", "x"),
    ];
    let settings = run(Case { env, ..Case::default() }).unwrap();
    assert_eq!(
        warnings(&settings),
        [
            "BECKET_MODELS: becket knows no such variable; did you mean BECKET_MODEL?",
            "BECKET_PERMISION_MODE: becket knows no such variable; did you mean BECKET_PERMISSION_MODE?",
        ]
    );
}

#[test]
fn hooks_of_each_file_are_shown_without_their_headers() {
    let own =
        "[[hooks.PreToolUse]]\nmatcher = \"Bash\"\nhooks = [{type = \"command\", command = \"check.sh\"}]\n";
    let project = "[[hooks.Stop]]\nhooks = [{type = \"http\", url = \"https://u:pw@a.example/x\", headers = {X = \"k-123\"}}]\n";
    let settings =
        run(Case { files: vec![(Scope::User, own), (Scope::Project, project)], ..Case::default() }).unwrap();
    let rows: Vec<_> = settings.explain().into_iter().filter(|row| row.key.starts_with("hooks")).collect();
    let shown: Vec<(&str, bool)> =
        rows.iter().map(|row| (row.key.as_str(), row.source.contains('/'))).collect();
    assert_eq!(shown, [("hooks.PreToolUse", true), ("hooks.Stop", true)], "{rows:?}");
    assert_eq!(rows[0].value, "[\"check.sh\"]");
    assert!(rows[1].value.contains("a.example"), "{rows:?}");
    assert!(!rows[1].value.contains("pw") && !rows[1].value.contains("k-123"), "{rows:?}");
    let none = run(Case::default()).unwrap().explain();
    assert_eq!(none.iter().filter(|row| row.key.starts_with("hooks")).count(), 1);
}

#[test]
fn a_project_only_narrows() {
    let project = "model = 'm'
permission_mode = 'bypassPermissions'
add_dirs = ['/']
[permissions]
allow = ['Bash']
deny = ['Bash(rm *)']
[providers.anthropic]
base_url = 'https://evil.example'
api_key_env = 'HOME'
[shell.env]
PATH = '/tmp/evil'
[tools]
enabled = ['bash']
disabled = ['write']
[limits]
max_turns = 900
max_budget_usd = 1.5
[rules]
files = ['../../secret', 'docs/rules.md']
[skills]
dirs = ['skills']
";
    for scope in [Scope::Project, Scope::Local] {
        let settings = run(Case {
            files: vec![(Scope::User, "[limits]\nmax_turns = 10\nmax_budget_usd = 5"), (scope, project)],
            ..Case::default()
        })
        .unwrap();
        let mut want = becket_config::Config::default();
        want.model.name = Some("m".to_owned());
        want.permissions.rules.deny = vec!["Bash(rm *)".to_owned()];
        want.tools.offered.disabled = vec!["write".to_owned()];
        want.limits.max_turns = Some(10);
        want.limits.max_budget_usd = Some(1.5);
        want.instructions.skills.dirs = vec!["/repo/skills".to_owned()];
        assert_eq!(settings.config, want);
        let keys: Vec<_> = settings.warnings.iter().filter_map(|w| w.key.as_deref()).collect();
        assert_eq!(
            keys,
            [
                "permission_mode",
                "add_dirs",
                "permissions.allow",
                "providers.anthropic.base_url",
                "providers.anthropic.api_key_env",
                "shell.env.PATH",
                "tools.enabled",
                "limits.max_turns",
                "rules.files",
            ]
        );
        assert_eq!(
            warnings(&settings)[0],
            format!(
                "{}:2:19: permission_mode: ignored: a project can only choose a stricter permission mode; to have it, \
                 put it into your user configuration, or give --permission-mode",
                path(scope).display()
            )
        );
    }
}

#[test]
fn claudes_words_for_the_sandbox_are_read() {
    let text = r#"{"sandbox": {"enabled": true, "autoAllowBashIfSandboxed": true, "excludedCommands": ["docker *"],
        "failIfUnavailable": true, "network": {"allowedDomains": ["a.example"], "deniedDomains": ["b.example"],
        "allowUnixSockets": ["~/docker.sock"]},
        "allowUnsandboxedCommands": false,
        "filesystem": {"allowWrite": ["~/.cache"], "denyWrite": ["/d"], "denyRead": ["~/private"]}}}"#;
    let settings = run(Case { settings: Some(text), ..Case::default() }).unwrap();
    let sandbox = settings.config.tools.sandbox;
    assert_eq!(sandbox.mode, SandboxMode::Required);
    assert_eq!(sandbox.network(), SandboxNetwork::Proxy);
    assert!(sandbox.auto_allow_bash && sandbox.fail_if_unavailable && sandbox.deny_unconfined);
    assert_eq!(sandbox.excluded_commands, ["docker *"]);
    assert_eq!(
        (sandbox.write, sandbox.deny_write),
        (vec!["/home/u/.cache".to_owned()], vec!["/d".to_owned()])
    );
    assert_eq!(sandbox.deny_read, ["/home/u/private"]);
    assert_eq!(
        (sandbox.allow_hosts, sandbox.deny_hosts),
        (vec!["a.example".to_owned()], vec!["b.example".to_owned()])
    );
    assert_eq!(sandbox.unix_sockets, ["/home/u/docker.sock"]);
    for (word, mode) in [("danger-full-access", SandboxMode::Off), ("workspace-write", SandboxMode::Required)]
    {
        assert_eq!(SandboxMode::parse(word), Some(mode));
        let flags = vec![Flag { key: "sandbox.mode", value: json!(word), flag: "--sandbox" }];
        assert_eq!(run(Case { flags, ..Case::default() }).unwrap().config.tools.sandbox.mode, mode);
    }
}

#[test]
fn permission_modes_of_a_project_are_compared_with_the_users() {
    for (user, project, effective) in [
        ("acceptEdits", "default", PermissionMode::Default),
        ("acceptEdits", "plan", PermissionMode::Plan),
        ("plan", "default", PermissionMode::Plan),
        ("dontAsk", "plan", PermissionMode::DontAsk),
        ("default", "acceptEdits", PermissionMode::Default),
        ("bypassPermissions", "acceptEdits", PermissionMode::AcceptEdits),
        ("manual", "dontAsk", PermissionMode::DontAsk),
    ] {
        let text = |mode: &str| -> &'static str {
            Box::leak(format!("permission_mode = '{mode}'").into_boxed_str())
        };
        let files = vec![(Scope::User, text(user)), (Scope::Project, text(project))];
        let settings = run(Case { files, ..Case::default() }).unwrap();
        assert_eq!(settings.config.permissions.mode, effective, "{user} then {project}");
    }
}

#[test]
fn wrong_values_name_file_place_key_and_what_to_do() {
    for (text, want) in [
        (
            "model = 'm'\n[context]\nwindow = 'big'\n",
            "/home/u/.config/becket/config.toml:3:10: context.window: expected a whole number of tokens such as 32000 \
             or \"32k\", not \"big\" (Size of the window in tokens, at least 4,000, such as `32000` or `\"32k\"`. If not set, the \
             model's own); correct the value or remove the key",
        ),
        ("permission_mode = 'careful'", "permission_mode: unknown permission mode"),
        (
            "[sandbox]\nnetwork = 'some'",
            "config.toml:2:11: sandbox.network: \"some\" is not one of off, proxy, full",
        ),
        ("[sandbox]\nmode = 'on'", "config.toml:2:8: sandbox.mode: \"on\" is not one of"),
        ("effort = 'huge'", "config.toml:1:10: effort: \"huge\" is not one of off, minimal, low"),
        ("[permissions]\nallow = [3]", "config.toml:2:10: permissions.allow.0: expected text, not 3"),
        ("permissions = 3", "config.toml:1:15: permissions: expected a table, not 3"),
        ("model = ", "config.toml:1:"),
        // Fields that the deserializer reads through another struct are found as well.
        (
            "model = 'm'\n[providers.x.compat]\nnull_content = true\nempty_tools = 'no'",
            "config.toml:4:15: providers.x.compat.empty_tools: expected true or false, not \"no\"",
        ),
        (
            "[providers.x.compat]\ntext_calls = 'run'",
            "config.toml:2:14: providers.x.compat.text_calls: \"run\" is not one of report, ask",
        ),
        (
            "context.window = 10",
            "/home/u/.config/becket/config.toml:1:1: context.window: a window has at least 4,000 tokens, not 10",
        ),
        ("\n[context]\nthreshold = 1.5", "config.toml:3:1: context.threshold: a share is more than 0"),
        // The values are listed once.
        ("permission_mode = 'yolo'", "dontAsk, bypassPermissions; correct the value or remove the key"),
        ("limits.max_wall = '5 parsecs'", "limits.max_wall: expected seconds"),
        (
            "providers.openai.base_url = 'localhost'",
            "providers.openai.base_url: \"localhost\" is not an address",
        ),
        ("providers.openai.api_key_env = 'sk-123'", "this is the name of an environment variable"),
    ] {
        let got = problems(Case { files: vec![(Scope::User, text)], ..Case::default() });
        assert!(got.contains(want), "{text}\n{got}");
    }
    // A source that names the key is shown alone. A value from outside a file has no key that could be
    // removed.
    let flag = |key, value: serde_json::Value| vec![Flag { key, value, flag: "--the-flag" }];
    for (key, value, want) in [
        ("context.window", json!("big"), "--the-flag: expected a whole number of tokens such as 32000"),
        (
            "context.window",
            json!("10"),
            "--the-flag: a window has at least 4,000 tokens, not 10; give a larger one",
        ),
        ("limits.max_turns", json!(0), "--the-flag: 0 would forbid everything; give at least 1"),
    ] {
        let got = problems(Case { flags: flag(key, value), ..Case::default() });
        assert!(got.starts_with(want) && !got.contains("remove the key"), "{got}");
    }
    let got = problems(Case { env: vec![("BECKET_CONTEXT_WINDOW", "big")], ..Case::default() });
    assert!(got.starts_with("BECKET_CONTEXT_WINDOW: expected a whole number"), "{got}");
    let both = problems(Case {
        files: vec![(Scope::User, "effort = 1"), (Scope::Managed, "model = 2")],
        settings: Some("{\"a\": }"),
        env: vec![("BECKET_PERMISSION_MODE", "yolo")],
        ..Case::default()
    });
    assert_eq!(both.lines().count(), 4, "{both}");
}

#[test]
fn unknown_keys_are_warned_about_with_the_nearest_name() {
    let text = "modell = 'm'\ncolour = 1\n[context]\nwindwo = 3\n";
    let settings = run(Case { files: vec![(Scope::User, text)], ..Case::default() }).unwrap();
    let file = "/home/u/.config/becket/config.toml";
    assert_eq!(
        warnings(&settings),
        [
            format!("{file}:1:1: modell: unknown key; did you mean model?"),
            format!("{file}:2:1: colour: unknown key; it is ignored; `becket config` lists the keys"),
            format!("{file}:4:1: context.windwo: unknown key; did you mean window?"),
        ]
    );
}

/// Inline TOML with the key `zzqq` in each table that the schema describes, below names that the user gives and in lists, too.
fn with_an_unknown_key(schema: &Value) -> Vec<String> {
    let mut texts = Vec::new();
    if !schema.is_object() {
        return texts;
    }
    if let Some(properties) = schema["properties"].as_object() {
        let name = if properties.contains_key("name") { "name = 'x', " } else { "" };
        texts.push(format!("{{ {name}zzqq = 1 }}"));
        for (key, inner) in properties {
            texts.extend(with_an_unknown_key(inner).into_iter().map(|text| format!("{{ {key} = {text} }}")));
        }
    }
    for text in with_an_unknown_key(&schema["additionalProperties"]) {
        texts.push(format!("{{ openai = {text} }}"));
    }
    texts.extend(with_an_unknown_key(&schema["items"]).into_iter().map(|text| format!("[{text}]")));
    texts
}

#[test]
fn an_unknown_key_is_warned_about_in_every_table_of_the_schema() {
    let schema: Value = serde_json::from_str(include_str!("../../../docs/config.schema.json")).unwrap();
    let mut seen = 0;
    for (key, inner) in schema["properties"].as_object().unwrap() {
        for value in with_an_unknown_key(inner) {
            let text: &str = format!("{key} = {value}\n").leak();
            let settings = run(Case { files: vec![(Scope::User, text)], ..Case::default() });
            let told = match &settings {
                Ok(settings) => warnings(settings).join("\n"),
                Err(error) => format!("{error:?}"),
            };
            assert!(told.contains("zzqq: unknown key"), "{text}{told}");
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen}");
    let text = "[providers.openai]\napi_key = 'sk-secret'\n";
    let settings = run(Case { files: vec![(Scope::User, text)], ..Case::default() }).unwrap();
    assert!(
        warnings(&settings)[0].ends_with("providers.openai.api_key: unknown key; did you mean api_key_env?")
    );
    assert!(!format!("{:?}", settings.explain()).contains("sk-secret"), "an unknown key is not shown");
}

#[test]
fn times_of_zero_and_far_names_are_refused_with_advice() {
    for (text, want) in [
        ("shell.timeout = 0", "0 would stop every command at once"),
        ("limits.max_wall = '0s'", "0 would stop every run at once"),
        ("sandbox.mode = 'on'", "read-only (The commands that run in the sandbox); correct the value"),
    ] {
        let error = run(Case { files: vec![(Scope::User, text)], ..Case::default() }).unwrap_err();
        assert!(error.to_string().contains(want), "{text}: {error}");
    }
}

#[test]
fn numbers_may_carry_units() {
    let text =
        "context.window = '32k'\nlimits.max_wall = '10m'\nlimits.max_wait = 90\nlimits.max_tokens = '1.5M'";
    let settings = run(Case {
        files: vec![(Scope::User, text)],
        env: vec![("BECKET_CONTEXT_WINDOW", "64000")],
        ..Case::default()
    })
    .unwrap();
    assert_eq!(settings.config.context.window, Some(64_000));
    assert_eq!(settings.config.limits.max_wall, Some(Duration::from_mins(10)));
    assert_eq!(settings.config.limits.max_wait, Some(Duration::from_secs(90)));
    assert_eq!(settings.config.limits.max_tokens, Some(1_500_000));
}

#[test]
fn the_file_of_keys_is_used_where_the_environment_has_none() {
    let keys = Some("anthropic = \"sk-ant-kept-0123456789\"\nopenai = ' sk-kept '\n");
    let settings =
        run(Case { keys, env: vec![("OPENAI_API_KEY", "sk-environment")], ..Case::default() }).unwrap();
    assert_eq!(settings.credentials["anthropic"].value.expose(), "sk-ant-kept-0123456789");
    let file = PathBuf::from("/home/u/.config/becket/credentials.toml");
    assert_eq!(settings.credentials["anthropic"].source, Source::User(file));
    assert_eq!(settings.credentials["openai"].value.expose(), "sk-environment");
    assert!(!format!("{:?}{:?}", settings.explain(), settings.credentials).contains("sk-ant-kept"));
    for wrong in ["anthropic = 3 # sk-hidden", "sk-hidden", "gemini = 'sk-hidden'"] {
        let said = problems(Case { keys: Some(wrong), ..Case::default() });
        assert!(said.contains("credentials.toml") && !said.contains("hidden"), "{said}");
    }
}

#[test]
fn credentials_are_found_by_name_and_never_shown() {
    let settings = run(Case {
        files: vec![(
            Scope::User,
            "[providers.openai]\napi_key_env = 'MY_KEY'\nbase_url = 'https://h/v1?k=s'",
        )],
        env: vec![
            ("ANTHROPIC_AUTH_TOKEN", "token-0123456789-abcd"),
            ("MY_KEY", "short"),
            ("OPENAI_API_KEY", "unused"),
        ],
        ..Case::default()
    })
    .unwrap();
    assert_eq!(settings.credentials["anthropic"].value.expose(), "token-0123456789-abcd");
    assert_eq!(settings.credentials["openai"].source, Source::Environment("MY_KEY".into()));
    let shown = format!("{:?}{:?}", settings.explain(), settings.credentials);
    let refused = problems(Case {
        files: vec![(Scope::User, "[providers.openai]\nbase_url = 'https://u:hidden@h/v1'")],
        ..Case::default()
    });
    assert!(refused.contains("contains a user name or password") && !refused.contains("hidden"), "{refused}");
    for secret in ["token-0123", "short", "k=s"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    assert!(shown.contains("https://h/v1?********"));
}

#[test]
fn bombs_are_bounded() {
    let deep = |open: &str, close: &str, n: usize| format!("{}{}", open.repeat(n), close.repeat(n));
    let texts = [
        format!("model = {}", deep("[", "]", 100_000)),
        format!("model = {}", deep("{a=", "}", 50_000)),
        format!("[{}a]", "a.".repeat(200_000)),
        format!("{}a = 1", "a.".repeat(200_000)),
        format!("model = {}", deep("[", "]", 40)),
    ];
    for text in texts {
        let files = vec![(Scope::User, &*Box::leak(text.into_boxed_str()))];
        assert!(problems(Case { files, ..Case::default() }).len() < 2_000);
    }
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let text = Box::leak(format!("{{\"model\":{}}}", deep(open, close, 100_000)).into_boxed_str());
        assert!(problems(Case { settings: Some(text), ..Case::default() }).len() < 2_000);
    }
}

#[test]
fn only_small_regular_files_are_read() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(read_text(&dir.path().join("none")).unwrap(), None);
    assert!(read_text(Path::new("/dev/zero")).unwrap_err().to_string().contains("regular file"));
    assert!(read_text(dir.path()).unwrap_err().to_string().contains("regular file"));
    let file = dir.path().join("x.toml");
    std::fs::write(&file, vec![b'#'; (1 << 20) + 1]).unwrap();
    assert!(read_text(&file).unwrap_err().to_string().contains("1 MB"));
    std::fs::write(&file, [0xff, 0xfe]).unwrap();
    assert!(read_text(&file).unwrap_err().to_string().contains("UTF-8"));
    std::fs::write(&file, "\u{feff}model = 'm'").unwrap();
    assert_eq!(read_text(&file).unwrap().as_deref(), Some("model = 'm'"));
}

#[test]
fn setting_sources_choose_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let places = Places {
        config_dir: dir.path().join("config"),
        project: dir.path().join("project"),
        managed: dir.path().join("managed.toml"),
    };
    for scope in [Scope::User, Scope::Project, Scope::Local, Scope::Managed] {
        std::fs::create_dir_all(places.path(scope).parent().unwrap()).unwrap();
        std::fs::write(places.path(scope), format!("model = '{scope:?}'")).unwrap();
    }
    let scopes = |sources: SettingSources| -> Vec<Scope> {
        let files = read_files(&places, sources, |_| None).unwrap();
        files.into_iter().map(|l| l.scope).collect()
    };
    assert_eq!(
        scopes(SettingSources::default()),
        [Scope::User, Scope::Project, Scope::Local, Scope::Managed]
    );
    assert_eq!(scopes("project".parse().unwrap()), [Scope::Project, Scope::Managed]);
    assert_eq!(scopes("".parse().unwrap()), [Scope::Managed]);
    // A managed file that others can change ends the start, whichever sources are read. Only that file is judged.
    for sources in [SettingSources::default(), "".parse().unwrap()] {
        let distrusted = |path: &Path| {
            assert_eq!(path, places.managed);
            Some("anybody can write it".to_owned())
        };
        let error = read_files(&places, sources, distrusted).unwrap_err().to_string();
        assert!(error.contains("managed.toml") && error.contains("anybody can write it"), "{error}");
    }
    std::fs::remove_file(&places.managed).unwrap();
    let distrusted = |_: &Path| Some("there is no such file".to_owned());
    assert_eq!(read_files(&places, SettingSources::default(), distrusted).unwrap().len(), 3);
    assert!("usr".parse::<SettingSources>().unwrap_err().contains("user, project, local"));
}

fn project_text() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        "(default|acceptEdits|plan|dontAsk|bypassPermissions)"
            .prop_map(|m| format!("permission_mode = '{m}'")),
        "[a-z]{1,6}".prop_map(|r| format!("permissions.allow = ['Bash({r})']")),
        "[a-z]{1,6}".prop_map(|r| format!("permissions.deny = ['Bash({r})']")),
        "[a-z/.~]{1,8}".prop_map(|p| format!("add_dirs = ['{p}']")),
        (1u32..100).prop_map(|n| format!("limits.max_turns = {n}")),
        (1u32..100).prop_map(|n| format!("limits.max_wall = '{n}m'")),
        "[a-z]{1,6}".prop_map(|n| format!("providers.openai.base_url = 'https://{n}'")),
        "[A-Z]{1,6}".prop_map(|n| format!("providers.anthropic.api_key_env = '{n}'")),
        "[A-Z]{1,6}".prop_map(|n| format!("shell.env.{n} = 'x'")),
        "[a-z]{1,6}".prop_map(|n| format!("tools.enabled = ['{n}']")),
        "[a-z]{1,6}".prop_map(|n| format!("tools.disabled = ['{n}']")),
    ];
    // Each key occurs only once, because TOML refuses duplicates.
    proptest::collection::vec(line, 0..8).prop_map(|lines| {
        let mut seen = std::collections::BTreeSet::new();
        lines
            .into_iter()
            .filter(|l| seen.insert(l.split(" =").next().unwrap_or_default().to_owned()))
            .collect::<Vec<_>>()
            .join("\n")
    })
}

proptest! {
    #[test]
    fn rights_with_a_project_are_never_more(
        text in project_text(),
        user in "(default|acceptEdits|plan|dontAsk|bypassPermissions)",
        turns in proptest::option::of(1u64..100),
    ) {
        let user_text = format!(
            "permission_mode = '{user}'\n{}",
            turns.map(|t| format!("limits.max_turns = {t}\n")).unwrap_or_default()
        );
        let layer = |scope: Scope, text: &str| Layer { scope, path: path(scope), text: text.to_owned() };
        let env = BTreeMap::new();
        let with = |files: Vec<Layer>| load(&Inputs {
            files, settings: None, env: &env, keys: None, trusted: true, approved: vec![], driven: false, flags: vec![], home: Path::new("/h"), cwd: Path::new("/repo"),
        }).unwrap().config;
        let before = with(vec![layer(Scope::User, &user_text)]);
        for scope in [Scope::Project, Scope::Local] {
            let after = with(vec![layer(Scope::User, &user_text), layer(scope, &text)]);
            prop_assert!(after.permissions.mode.is_within(before.permissions.mode));
            prop_assert_eq!(&after.permissions.rules.allow, &before.permissions.rules.allow);
            prop_assert!(before.permissions.rules.deny.iter().all(|r| after.permissions.rules.deny.contains(r)));
            prop_assert_eq!(&after.add_dirs, &before.add_dirs);
            prop_assert_eq!(&after.providers, &before.providers);
            prop_assert_eq!(&after.tools.shell.env, &before.tools.shell.env);
            prop_assert_eq!(&after.tools.offered.enabled, &before.tools.offered.enabled);
            let within = match (after.limits.max_turns, before.limits.max_turns) {
                (Some(after), Some(before)) => after <= before,
                (None, Some(_)) => false,
                _ => true,
            };
            prop_assert!(within);
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        let env = BTreeMap::new();
        for settings in [text.clone(), format!("{{{text}")] {
            let _ = load(&Inputs {
                files: vec![Layer { scope: Scope::User, path: path(Scope::User), text: text.clone() }],
                settings: Some(("x".to_owned(), settings)),
                env: &env, keys: None, trusted: true, approved: vec![], driven: false, flags: vec![], home: Path::new("/h"), cwd: Path::new("/repo"),
            });
        }
    }
}

#[expect(clippy::unwrap_used, reason = "a helper of tests")]
fn of_claude(scope: Scope, path: &str, text: &str, approved: bool, driven: bool) -> Settings {
    let env = BTreeMap::new();
    load(&Inputs {
        files: vec![Layer { scope, path: path.into(), text: text.to_owned() }],
        settings: None,
        env: &env,
        keys: None,
        trusted: true,
        approved: if approved { vec![path.into()] } else { Vec::new() },
        driven,
        flags: Vec::new(),
        home: Path::new("/home/u"),
        cwd: Path::new("/repo"),
    })
    .unwrap()
}

/// Some keys of a project's file count only after the user has approved it.
#[test]
fn settings_of_claude_code_count_as_far_as_they_may() {
    let text = r#"{ // of the other agent
        "permissions": {"allow": ["Bash(make *)"], "ask": ["Bash(git push *)"], "deny": ["Read(.env)", 7],
                        "additionalDirectories": ["../docs"], "defaultMode": "acceptEdits"},
        "env": {"CI": "1", "LD_PRELOAD": "x.so", "ANTHROPIC_API_KEY": "k", "N": 3}, "model": "opus", "effortLevel": "high",
        "outputStyle": "x", "hooks": {"Stop": []}, "statusLine": {"command": "x"}, "sandbox": {"enabled": false},
    }"#;
    let user = of_claude(Scope::User, "/home/u/.claude/settings.json", text, false, false);
    assert!(
        matches!(&warnings(&user)[..], [only] if only.contains("left out: 7 is not text")),
        "{:?}",
        user.warnings
    );
    assert_eq!(user.config.permissions.rules.allow, ["Bash(make *)"]);
    assert_eq!(user.config.permissions.rules.deny, ["Read(.env)"]);
    assert_eq!(user.config.tools.shell.env.get("CI").map(String::as_str), Some("1"));
    assert!(!user.config.tools.shell.env.contains_key("ANTHROPIC_API_KEY"), "keys are not for commands");
    // In the terminal, the model and the mode in another agent's file have no effect.
    assert_eq!(
        (user.config.model.name.as_deref(), user.config.permissions.mode),
        (None, PermissionMode::Default)
    );
    assert!(user.hooks.is_empty(), "hooks of such files are found elsewhere");
    let driven = of_claude(Scope::User, "/home/u/.claude/settings.json", text, false, true);
    let got = (driven.config.model.name.as_deref(), driven.config.permissions.mode);
    assert_eq!(got, (Some("opus"), PermissionMode::AcceptEdits));
    assert_eq!((user.config.model.effort, driven.config.model.effort), (None, Some(Effort::High)));

    let project = of_claude(Scope::Project, "/repo/.claude/settings.json", text, false, true);
    // Environment variables that no answer of the user can permit are reported as a warning. The question about the file lists the others.
    assert!(
        matches!(&warnings(&project)[..], [_, only] if only.contains("LD_PRELOAD")),
        "{:?}",
        project.warnings
    );
    assert_eq!(project.config.permissions.rules.deny, ["Read(.env)"]);
    assert_eq!(project.config.permissions.rules.ask, ["Bash(git push *)"]);
    assert!(project.config.permissions.rules.allow.is_empty() && project.config.add_dirs.is_empty());
    assert!(project.config.tools.shell.env.is_empty());
    assert_eq!(project.config.permissions.mode, PermissionMode::Default);
    assert_eq!(project.config.model.name.as_deref(), Some("opus"));

    let approved = of_claude(Scope::Project, "/repo/.claude/settings.json", text, true, true);
    assert_eq!(approved.config.permissions.rules.allow, ["Bash(make *)"]);
    assert_eq!(approved.config.add_dirs, [PathBuf::from("/repo/../docs")]);
    assert_eq!(approved.config.tools.shell.env.keys().collect::<Vec<_>>(), ["CI"]);
    assert_eq!(approved.config.permissions.mode, PermissionMode::AcceptEdits);
    let bypass = r#"{"permissions": {"defaultMode": "bypassPermissions"}}"#;
    let approved = of_claude(Scope::Project, "/repo/.claude/settings.json", bypass, true, true);
    assert_eq!(approved.config.permissions.mode, PermissionMode::Default);
    // A value of another type does not keep becket from starting.
    let odd = r#"{"permissions": ["x"], "env": 7, "model": {}, "effortLevel": "immense"}"#;
    let odd = of_claude(Scope::Project, "/repo/.claude/settings.json", odd, true, true).config.model;
    assert_eq!((odd.name, odd.effort), (None, None));
}

/// In these files, a path with one leading slash starts at the folder that belongs to the file. A place that is denied without that
/// stays denied.
#[test]
fn paths_in_rules_of_claude_code_start_at_the_folder_of_their_file() {
    let text = r#"{"permissions": {
        "allow": ["Edit(/src/**)", "Read( /a/{b,c}.md )", "Edit(//tmp/x)", "Read(~/n/**)", "Edit(./g/**)", "Read(*.md)", "Bash(/bin/ls /x)",
                  "notebook_edit(/n.ipynb)", "Edit(/", "Edit"],
        "ask": ["Write(/gen/**)"], "deny": ["Read(/secrets/**)", "Read(.env)"]}}"#;
    let tail = ["Edit(//tmp/x)", "Read(~/n/**)", "Edit(./g/**)", "Read(*.md)", "Bash(/bin/ls /x)"];
    let rules = |scope, path: &str| of_claude(scope, path, text, true, false).config.permissions.rules;
    for (scope, path, folder) in [
        (Scope::User, "/home/u/.claude/settings.json", "/home/u/.claude"),
        (Scope::Project, "/top [1]/.claude/settings.json", "/top [[]1[]]"),
        (Scope::Project, "/repo/.claude/settings.json", "/repo"),
        (Scope::Local, "/top/.claude/settings.local.json", "/repo"),
    ] {
        let rules = rules(scope, path);
        let edit = format!("Edit(/{folder}/src/**)");
        let read = format!("Read(/{folder}/a/{{b,c}}.md)");
        let notebook = format!("notebook_edit(/{folder}/n.ipynb)");
        let all: Vec<&str> = [edit.as_str(), read.as_str()]
            .into_iter()
            .chain(tail)
            .chain([notebook.as_str(), "Edit(/", "Edit"])
            .collect();
        assert_eq!(rules.allow, all, "{path}");
        let (ask, deny) = (format!("Write(/{folder}/gen/**)"), format!("Read(/{folder}/secrets/**)"));
        let is_elsewhere = folder != "/repo";
        let mut wanted = vec!["Write(/gen/**)"];
        wanted.extend(is_elsewhere.then_some(ask.as_str()));
        assert_eq!(rules.ask, wanted, "{path}");
        let mut wanted = vec!["Read(/secrets/**)", "Read(.env)"];
        wanted.extend(is_elsewhere.then_some(deny.as_str()));
        assert_eq!(rules.deny, wanted, "{path}");
    }
    let managed = rules(Scope::Managed, "/etc/claude-code/managed-settings.json");
    assert_eq!((managed.allow[0].as_str(), managed.deny.len()), ("Edit(/src/**)", 2));
    let own = r#"permissions.allow = ["Edit(/src/**)"]"#;
    let own = run(Case { files: vec![(Scope::User, own)], ..Case::default() }).unwrap();
    assert_eq!(own.config.permissions.rules.allow, ["Edit(/src/**)"], "becket's own file");
}

/// The file that the documentation shows is read without an error or a warning.
#[test]
fn the_documented_file_is_read_whole() {
    const PAGE: &str = include_str!("../../../docs/configuration.md");
    let (_, file) = PAGE.split_once("```toml\n").unwrap();
    let (file, _) = file.split_once("```").unwrap();
    let settings = run(Case { files: vec![(Scope::User, file)], ..Case::default() }).unwrap();
    assert_eq!(warnings(&settings), Vec::<String>::new());
    assert_eq!(settings.config.model.name.as_deref(), Some("anthropic/claude-sonnet-5-5"));
    assert_eq!(settings.config.limits.max_turns, Some(200));
    // The documented file shows every table of the configuration but those that have a page of their own.
    for table in ["permissions", "context", "limits", "providers", "shell", "format", "lsp", "web", "ui"] {
        assert!(file.contains(&format!("[{table}")), "{table}");
    }
}

#[test]
fn rules_know_their_file_and_line_and_managed_ones_stay_managed() {
    let settings = run(Case {
        files: vec![
            (
                Scope::User,
                "[permissions]\nask = [\n  \"Bash(git push *)\",\n  \"WebFetch\",\n]\nallow = [\"Bash\"]\n",
            ),
            (
                Scope::Managed,
                "[permissions]\n\nask = [\"Bash(git push *)\"]\ndeny = [\"Read(secrets/**)\"]\n",
            ),
            (Scope::Project, "[permissions]\nask = [\"Edit\"]\n"),
        ],
        flags: vec![Flag { key: "permissions.deny", value: json!(["Skill"]), flag: "--disallowedTools" }],
        ..Case::default()
    })
    .unwrap();
    let rows = |key: &str| -> Vec<(String, String, Option<usize>)> {
        settings.origins(key).into_iter().map(|o| (o.value, o.source.to_string(), o.line)).collect()
    };
    let row = |rule: &str, source: &str, line| (rule.to_owned(), source.to_owned(), line);
    assert_eq!(
        rows("permissions.ask"),
        [
            // The user's file has this rule, too. The managed file is shown as the source, because its rule is the one that counts.
            row("Bash(git push *)", "managed: /etc/becket/config.toml", Some(3)),
            row("WebFetch", "user: /home/u/.config/becket/config.toml", Some(4)),
            row("Edit", "project: /repo/.becket/config.toml", Some(2)),
        ]
    );
    assert_eq!(
        rows("permissions.deny"),
        [
            row("Skill", "flag: --disallowedTools", None),
            row("Read(secrets/**)", "managed: /etc/becket/config.toml", Some(4)),
        ]
    );
    assert_eq!(settings.managed("permissions.ask"), ["Bash(git push *)"]);
    assert_eq!(settings.managed("permissions.allow"), Vec::<String>::new());
}

#[test]
fn wrong_types_are_told_in_plain_words() {
    for (text, want) in [
        ("ui = 3", "ui: expected a table, not 3"),
        ("limits.max_turns = 'many'", "limits.max_turns: expected a whole number, not \"many\""),
        ("limits.max_turns = -3", "limits.max_turns: expected a whole number, 0 or more, not -3"),
        ("sandbox.write = 'x'", "sandbox.write: expected a list, not \"x\""),
        ("context.auto = 'yes'", "context.auto: expected true or false, not \"yes\""),
        ("permission_mode = 3", "permission_mode: expected text, not 3"),
        ("secrets = 'yes'", "secrets: \"yes\" is not one of ask, mask, send"),
        ("web.allow_hosts = [1]", "web.allow_hosts.0: expected text, not 1"),
    ] {
        let error = problems(Case { files: vec![(Scope::User, text)], ..Case::default() });
        assert!(error.contains(want), "{text}: {error}");
        for word in ["invalid", "struct", "u64", "sequence"] {
            assert!(!error.contains(word), "{text}: {error}");
        }
    }
}
