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
