//! Subcommands as a person uses them.

use crate::support::{Api, Bench, run};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};

#[test]
fn the_demo_ends_green_without_key_or_network() {
    let bench = Bench::new(&[]);
    let ran = run(bench.command().arg("demo")).expect(0);
    for word in ["scripted", "compacted", "pass"] {
        assert!(ran.stdout.to_lowercase().contains(word), "{word}: {}", ran.stdout);
    }
    assert!(bench.ledgers().is_empty(), "the demo leaves nothing behind");
    let json = run(bench.command().args(["demo", "--json"])).expect(0).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["completed"], &json["checks_pass"]), (&json!(true), &json!(true)), "{json}");
}

#[test]
fn sessions_context_and_export_show_what_happened() {
    let bench = Bench::new(&[("a.txt", "needle in a file\n")]);
    let server = MockServer::start([
        Answer::tool("c1", "read", json!({ "path": "a.txt" })),
        Answer::text("found the needle"),
    ]);
    run(bench.print(Api::Anthropic, &server).args(["--name", "my search", "look for the needle"])).expect(0);

    let list = run(bench.command().arg("sessions")).expect(0);
    assert!(list.stdout.contains("my search"), "{}", list.stdout);
    let json: Value =
        serde_json::from_str(&run(bench.command().args(["sessions", "--json"])).expect(0).stdout).unwrap();
    assert_eq!(json[0]["title"], "my search");
    let hit = run(bench.command().args(["sessions", "needle"])).expect(0);
    assert!(hit.stdout.contains("my search"), "{}", hit.stdout);
    let miss = run(bench.command().args(["sessions", "zeppelin"])).expect(0);
    assert!(!miss.stdout.contains("my search"), "{}", miss.stdout);

    let context = run(bench.command().arg("context")).expect(0);
    for word in ["system", "tools", "a.txt", "look for the needle"] {
        assert!(context.stdout.to_lowercase().contains(word), "{word}: {}", context.stdout);
    }
    let by_json: Value =
        serde_json::from_str(&run(bench.command().args(["context", "my search", "--json"])).expect(0).stdout)
            .unwrap();
    assert!(by_json["spans"].as_array().unwrap().len() >= 5);

    let md = run(bench.command().args(["export", "my search"])).expect(0);
    assert!(md.stdout.contains("look for the needle") && md.stdout.contains("found the needle"));
    let jsonl = run(bench.command().args(["export", "--format", "jsonl"])).expect(0);
    assert_eq!(jsonl.stdout, std::fs::read_to_string(&bench.ledgers()[0]).unwrap());

    let doctor = run(bench.command().args(["doctor", "session", "my search"])).expect(0);
    assert!(doctor.stdout.contains("chain"), "{}", doctor.stdout);
}

#[test]
fn a_screenshot_is_a_picture_of_the_size_that_was_asked_for() {
    let bench = Bench::new(&[]);
    let events = concat!(env!("CARGO_MANIFEST_DIR"), "/../tui/tests/screens/asking.jsonl");
    for (size, want) in [(None, (1472, 992)), (Some("40x10"), (512, 272)), (Some("1x1"), (44, 56))] {
        let mut command = bench.command();
        command.args(["screenshot", events, "-o", "out.png"]);
        command.args(size.map(|size| ["--size", size]).into_iter().flatten());
        run(&mut command).expect(0);
        let picture = image::open(bench.project.path("out.png")).unwrap().to_rgb8();
        assert_eq!(picture.dimensions(), want, "{size:?}");
        let colours: std::collections::BTreeSet<[u8; 3]> = picture.pixels().map(|pixel| pixel.0).collect();
        assert!(size == Some("1x1") || colours.len() > 3, "{size:?}: {colours:?}");
    }
}

#[test]
fn a_window_that_nobody_knows_is_called_assumed() {
    let script = r#"{"window": 40000, "steps": [{"text": "Done."}]}"#;
    let bench = Bench::new(&[("own.json", script)]);
    let server = MockServer::start([Answer::text("Done.")]);
    let head = |bench: &Bench| {
        let ran = run(bench.command().arg("context")).expect(0);
        ran.stdout.lines().nth(1).unwrap_or_default().to_owned()
    };
    run(bench.command().args(["-p", "--model", "script:own.json", "go"])).expect(0);
    assert!(head(&bench).contains("window 40k  usable"), "{}", head(&bench));
    run(bench.print(Api::Chat, &server).arg("go")).expect(0);
    assert!(head(&bench).contains("window 128k (assumed, because this model is unknown"), "{}", head(&bench));
}

/// The provider of this session counts other tokens than the estimate: fewer, or nearly twice as many.
#[test]
fn estimates_of_a_context_learn_from_what_the_provider_reported() {
    let numbers: Vec<String> = (0..4_000_u64).map(|n| (n * 7_919 * 104_729).to_string()).collect();
    for factor in [0.6, 1.0, 1.8] {
        let bench = Bench::new(&[("n.txt", numbers.join("\n").as_str())]);
        let mut step = 0;
        let reported = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
        let last = std::sync::Arc::clone(&reported);
        let server = MockServer::with(move |request| {
            step += 1;
            let tokens = (request.text().len() as f64 / 3.0 * factor) as u64;
            last.store(tokens, std::sync::atomic::Ordering::Relaxed);
            let read = json!({ "path": "n.txt", "offset": step * 300, "limit": 300 });
            let answer = if step < 6 {
                Answer::tool(&format!("c{step}"), "read", read)
            } else {
                Answer::text("Done.")
            };
            answer.usage(tokens, 5).into()
        });
        run(bench.print(Api::Chat, &server).args(["--", "read it"])).expect(0);
        let shown: Value =
            serde_json::from_str(&run(bench.command().args(["context", "--json"])).expect(0).stdout).unwrap();
        let (shown, reported) =
            (shown["tokens"].as_f64().unwrap(), reported.load(std::sync::atomic::Ordering::Relaxed) as f64);
        // Each report corrects the estimate only in part.
        assert!((0.75..1.3).contains(&(shown / reported)), "{factor}: {shown} of {reported}");
    }
}

#[test]
fn config_shows_each_value_with_its_origin() {
    let bench = Bench::new(&[(".becket/config.toml", "[context]\nthreshold = 0.8\n")]);
    bench.home.write(".config/becket/config.toml", "model = \"openai/from-user\"\n");
    let ran = run(bench.command().arg("config")).expect(0);
    let row = |key: &str| {
        ran.stdout
            .lines()
            .find(|l| l.contains(key))
            .unwrap_or_else(|| panic!("{key}: {}", ran.stdout))
            .to_owned()
    };
    assert!(row("context.threshold").contains("0.8") && row("context.threshold").contains("project"));
    assert!(row("model").contains("openai/from-user") && row("model").contains("user"));
    let schema: Value =
        serde_json::from_str(&run(bench.command().args(["config", "--schema"])).expect(0).stdout).unwrap();
    assert!(schema["properties"].is_object());
}

#[test]
fn doctor_and_models_work_without_any_set_up() {
    let bench = Bench::new(&[]);
    let doctor = run(bench.command().arg("doctor"));
    assert!(doctor.stdout.contains("config") && doctor.stdout.contains("store"), "{}", doctor.stdout);
    let models = run(bench.command().arg("models")).expect(0);
    assert!(models.stdout.contains("anthropic/") && models.stdout.contains("openai/"), "{}", models.stdout);
}

#[test]
fn version_and_help_are_there() {
    let bench = Bench::new(&[]);
    assert_eq!(
        run(bench.command().arg("--version")).expect(0).stdout,
        format!("becket {}\n", env!("CARGO_PKG_VERSION"))
    );
    let help = run(bench.command().arg("--help")).expect(0).stdout;
    for word in ["--print", "--max-turns", "demo", "Exit codes"] {
        assert!(help.contains(word), "{word}");
    }
}

#[test]
fn sessions_are_named_tagged_put_away_thrown_away_and_brought_back() {
    let bench = Bench::new(&[("src/a.txt", "needle\n")]);
    let server = MockServer::start([
        Answer::tool("c1", "read", json!({ "path": "src/a.txt" })).usage(900, 10),
        Answer::text("found the needle").usage(1000, 10),
        Answer::text("other").usage(100, 10),
    ]);
    run(bench.print(Api::Anthropic, &server).args(["--name", "first", "look for the needle"])).expect(0);
    run(bench.print(Api::Anthropic, &server).args(["--name", "second", "something else"])).expect(0);
    let sessions = |arguments: &[&str]| {
        let mut command = bench.command();
        run(command.arg("sessions").args(arguments))
    };
    let titles = |arguments: &[&str]| -> Vec<String> {
        let mut all = arguments.to_vec();
        all.push("--json");
        let rows: Value = serde_json::from_str(&sessions(&all).expect(0).stdout).unwrap();
        let mut titles: Vec<String> = rows
            .as_array()
            .unwrap()
            .iter()
            .map(|r| r["title"].as_str().unwrap_or_default().to_owned())
            .collect();
        titles.sort();
        titles
    };
    sessions(&["rename", "first", "the search"]).expect(0);
    sessions(&["tag", "the search", "bugs", "#parser"]).expect(0);
    sessions(&["tag", "the search", "bugs", "--remove"]).expect(0);
    assert_eq!(titles(&[]), ["second", "the search"]);
    for narrowed in [
        &["--tag", "parser"][..],
        &["--file", "src/a"],
        &["list", "--tag", "parser", "--since", "1d"],
        &["--model", "SONNET", "--file", "a.txt"],
    ] {
        assert_eq!(titles(narrowed), ["the search"], "{narrowed:?}");
    }
    assert!(titles(&["--tag", "bugs"]).is_empty() && titles(&["--until", "2020-01-01"]).is_empty());
    assert!(sessions(&["--since", "someday"]).expect(2).stderr.contains("not a day"));
    let hits = sessions(&["search", "needle", "--json"]).expect(0).stdout;
    assert!(hits.contains("the search") && !hits.contains("second"), "{hits}");
    let none = sessions(&["search", "needle", "--model", "gpt"]).expect(0).stdout;
    assert!(none.contains("No session contains \"needle\" and fits the filters"), "{none}");
    for (wrong, why) in [
        (&["search", " -- "][..], "no word to search for"),
        (&["search", "needle", "--since", "7x"], "is not a day"),
        (&["search", "needle", "--since", "2026-11-21", "--until", "2026-11-21"], "no time between"),
        (&["restore", "nope"], "not in the trash"),
    ] {
        let refused = sessions(wrong).expect(2);
        assert!(refused.stderr.contains(why) && refused.stdout.is_empty(), "{wrong:?}: {refused:?}");
    }

    sessions(&["archive", "second"]).expect(0);
    assert_eq!(titles(&[]), ["the search"]);
    assert_eq!(titles(&["--archived"]), ["second", "the search"]);
    sessions(&["unarchive", "second"]).expect(0);
    assert_eq!(titles(&[]).len(), 2);

    let stats: Value = serde_json::from_str(&sessions(&["stats", "--json"]).expect(0).stdout).unwrap();
    assert_eq!((&stats["all"]["sessions"], &stats["days"][0]["requests"]), (&json!(2), &json!(3)));
    assert_eq!(stats["days"][0]["usage"]["input"], 2000);
    assert_eq!(stats["tools"], json!([{ "tool": "read", "calls": 1, "failed": 0 }]));
    sessions(&["stats", "--html", "stats.html"]).expect(0);
    let page = bench.project.read("stats.html");
    assert!(page.contains("<svg") && page.contains("Calls of tools") && !page.contains("http:"), "{page}");
    assert!(sessions(&["stats"]).expect(0).stdout.contains("by tool"));

    // A session goes to the trash, comes back, and is deleted for good, also from the index.
    sessions(&["rm", "the search"]).expect(0);
    assert_eq!(titles(&[]), ["second"]);
    assert!(sessions(&["trash"]).expect(0).stdout.contains("the search"));
    assert!(sessions(&["gc"]).expect(0).stdout.contains("0 sessions deleted"));
    sessions(&["restore", "the search"]).expect(0);
    assert_eq!(titles(&[]).len(), 2);
    sessions(&["rm", "the search"]).expect(0);
    assert!(sessions(&["gc", "--now", "--dry-run"]).expect(0).stdout.contains("1 session would be"));
    let freed = sessions(&["gc", "--now"]).expect(0).stdout;
    assert!(freed.starts_with("1 session deleted"), "{freed}");
    assert!(sessions(&["trash"]).expect(0).stdout.contains("empty"));
    assert!(sessions(&["search", "needle", "--all"]).expect(0).stdout.contains("No session contains"));
    assert_eq!(bench.ledgers().len(), 1);
}

#[test]
fn branches_are_forked_at_a_message_listed_and_compared() {
    let bench = Bench::new(&[]);
    let server = MockServer::with(|request| {
        let last = request.messages().last().map(ToString::to_string).unwrap_or_default();
        let word = ["alpha", "beta", "gamma"].into_iter().find(|w| last.contains(w)).unwrap_or("?");
        Answer::text(format!("answer to {word}")).usage(100, 10).into()
    });
    run(bench.print(Api::Anthropic, &server).args(["--name", "trunk", "alpha"])).expect(0);
    run(bench.print(Api::Anthropic, &server).args(["-c", "beta"])).expect(0);
    let fork =
        run(bench.command().args(["sessions", "fork", "trunk", "2", "--name", "twig", "--json"])).expect(0);
    let fork: Value = serde_json::from_str(&fork.stdout).unwrap();
    let went = run(bench.print(Api::Anthropic, &server).args(["--resume", "twig", "gamma"])).expect(0);
    assert_eq!(went.stdout, "answer to gamma\n");
    let sent = server.requests();
    let body = sent.last().unwrap().text();
    assert!(body.contains("alpha") && !body.contains("beta"), "{body}");

    for (bad, why) in [
        (vec!["trunk", "@99999"], "its entries are @1 to @"),
        (vec!["trunk", "@0"], "its entries are @1 to @"),
        (vec!["trunk", "@x"], "is not an entry"),
        (vec!["trunk", "99"], "no message"),
        (vec!["nosuch"], "no session"),
        (vec!["trunk", "--name", " "], "needs a letter"),
    ] {
        let refused = run(bench.command().args(["sessions", "fork"]).args(&bad)).expect(2);
        assert!(refused.stderr.contains(why), "{bad:?}: {}", refused.stderr);
    }
    let tree = run(bench.command().args(["sessions", "tree"])).expect(0).stdout;
    let lines: Vec<&str> = tree.lines().collect();
    assert!(lines[0].contains("trunk") && lines[1].contains("└") && lines[1].contains("twig"), "{tree}");
    let compared = run(bench.command().args(["sessions", "compare", "trunk", "twig", "--json"])).expect(0);
    let compared: Value = serde_json::from_str(&compared.stdout).unwrap();
    assert_eq!(compared["shared_messages"], 2, "{compared}");
    let words = |side: &str| -> Vec<String> {
        let list = compared[side]["messages"].as_array().unwrap();
        list.iter().map(|m| m["preview"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(words("one"), ["beta", "answer to beta"]);
    assert_eq!(words("other"), ["gamma", "answer to gamma"]);
    assert_eq!(compared["other"]["session"], fork["session"]);
    let of = |side: &str, key: &str| compared[side][key].as_u64().unwrap();
    assert_eq!((of("one", "own_tokens"), of("one", "tokens")), (110, 220));
    assert_eq!((of("other", "own_tokens"), of("other", "tokens")), (110, 220));
    // The requests that both sessions share were paid once.
    let spent = run(bench.command().args(["sessions", "stats", "--json"])).expect(0);
    let spent: Value = serde_json::from_str(&spent.stdout).unwrap();
    assert_eq!(spent["all"]["models"][0]["requests"], 3, "{spent}");
    // A message that was left out and brought back is a message like others.
    run(bench.command().args(["context", "trunk", "--drop", "6", "--yes"])).expect(0);
    run(bench.command().args(["context", "trunk", "--undo", "--yes"])).expect(0);
    let again = run(bench.command().args(["sessions", "compare", "trunk", "twig"])).expect(0).stdout;
    assert!(again.contains("They share 2 messages"), "{again}");
    // Requests of a branch can be printed as well, those before the fork included.
    let exact = run(bench.command().args(["context", "twig", "--request", "1"])).expect(0);
    assert_eq!(exact.stdout.as_bytes(), sent[0].body);
}

/// A word that is no command is refused before anything is asked of a model.
#[test]
fn a_mistyped_command_is_never_a_paid_prompt() {
    let bench = Bench::new(&[]);
    let server = MockServer::with(|_| Answer::text("paid").into());
    let typed = |arguments: &[&str]| {
        let mut command = bench.command();
        command.env("ANTHROPIC_API_KEY", "sk-test").env("ANTHROPIC_BASE_URL", server.url());
        run(command.args(arguments))
    };
    for (arguments, instead) in [
        (&["sesions"][..], "becket sessions"),
        (&["doctr"], "becket doctor"),
        (&["sesions", "--all"], "becket sessions"),
        (&["exprot", "last", "--format", "md"], "becket export"),
        (&["resume"], "becket --resume"),
        (&["--", "resume"], "needs a terminal"),
        (&["refactor"], "becket help"),
        (&["-p", "hlep"], "type: becket help; to send the word as a task: becket -p -- hlep"),
        (&["-p", "undo"], "`undo` looks like a command, so it is not sent as a task"),
        (&["-p", "--continue", "doctr"], "becket doctor"),
    ] {
        let ran = typed(arguments).expect(2);
        assert!(ran.stderr.contains(instead), "{arguments:?}: {}", ran.stderr);
    }
    assert_eq!(server.requests().len(), 0);
    assert!(bench.ledgers().is_empty());
    // The line of a hint, as a shell takes it, sends the word or the words with the options that were typed.
    let model = ["--model", "anthropic/m"];
    for (arguments, task) in [
        (&["-p", "continue"][..], "continue"),
        (&["start", "--max-turns", "3"], "start"),
        (&["-p", "fix", "the", "test"], "fix the test"),
        (&["-p", "--max-turns", "3", "foo", "bar"], "foo bar"),
        (&["-p", "pay", "5$", "`now`", "it's", "--allowedTools", "Read"], "pay 5$ `now` it's"),
    ] {
        let refused = typed(&[&model[..], arguments].concat()).expect(2).stderr;
        let (_, line) = refused.trim_end().rsplit_once(": becket ").unwrap();
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &format!("printf '%s\\n' {line}")]);
        let words = String::from_utf8(shell.output().unwrap().stdout).unwrap();
        typed(&words.lines().collect::<Vec<_>>()).expect(0);
        let sent = server.requests();
        assert!(sent.last().unwrap().text().contains(task), "{arguments:?}: {line}");
    }
    let before = server.requests().len();
    typed(&["-p", "--model", "anthropic/m", "summarize"]).expect(0);
    typed(&["-p", "--model", "anthropic/m", "--", "resume"]).expect(0);
    let sent = server.requests();
    assert!(sent[before].text().contains("summarize") && sent[before + 1].text().contains("resume"));
}

#[test]
fn help_version_completions_and_manual_pages_are_commands() {
    let bench = Bench::new(&[]);
    let printed = |arguments: &[&str]| run(bench.command().args(arguments)).expect(0).stdout;
    let help = printed(&["help"]);
    assert_eq!(help, printed(&["--help"]));
    assert!(help.contains("Commands:") && help.contains("Examples:"), "{help}");
    assert!(printed(&["help", "sessions", "fork"]).contains("becket sessions fork"));
    assert_eq!(printed(&["version"]), printed(&["--version"]));
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = printed(&["completions", shell]);
        assert!(script.contains("sessions"), "{shell}");
        // The other two offer no values.
        if ["bash", "zsh", "fish"].contains(&shell) {
            for word in ["acceptEdits", "read-only", "xhigh"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }
    let page = printed(&["man"]);
    assert!(page.contains(".TH becket 1") && page.contains("max\\-turns"), "{page}");
    assert!(printed(&["man", "undo"]).contains("Undo the changes"));
    let wrong = run(bench.command().args(["help", "sesions"])).expect(2);
    assert!(wrong.stderr.contains("did you mean sessions?"), "{}", wrong.stderr);
    let wrong = run(bench.command().args(["help", "undo", "x"])).expect(2);
    assert!(wrong.stderr.contains("has no subcommands"), "{}", wrong.stderr);
}
