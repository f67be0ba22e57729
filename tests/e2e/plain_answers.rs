//! Mistakes and ordinary questions on the command line: one plain answer, which names the place and the next step.

use crate::support::{Bench, run, without_privileges};
use becket_testkit::{Answer, MockServer, Reply};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;

fn script(bench: &Bench, steps: &Value) -> String {
    let path = bench.home.root().join("script.json");
    std::fs::write(&path, json!({ "steps": steps }).to_string()).unwrap();
    format!("script:{}", path.display())
}

fn answering(bench: &Bench, text: &str) -> String {
    script(bench, &json!([{ "text": text }]))
}

#[test]
fn a_dash_is_standard_output() {
    let bench = Bench::new(&[]);
    run(bench.command().args(["-p", "--model", &answering(&bench, "An answer."), "a question"])).expect(0);
    let out = |words: &[&str]| run(bench.command().args(words)).expect(0).stdout;
    assert_eq!(out(&["export", "-o", "-"]), out(&["export"]));
    assert!(out(&["export", "--format", "html", "-o", "-"]).contains("<!doctype html>"));
    assert!(out(&["cost", "--html", "-"]).contains("<!doctype html>"));
    assert!(out(&["sessions", "stats", "--html", "-"]).contains("<!doctype html>"));
    for words in [
        &["-p", "--model", "openai/x", "-o", "-", "hi"][..],
        &["-p", "--model", "openai/x", "--record", "-", "hi"],
        &["compact", "--preview", "-o", "-"],
        &["export", "-o", "-", "--json"],
    ] {
        let ran = run(bench.command().args(words)).expect(2);
        assert!(ran.stderr.contains("name"), "{words:?}: {ran:?}");
    }
    assert!(!bench.project.exists("-"));
}

#[test]
fn a_server_that_cannot_be_used_is_one_clear_error() {
    let bench = Bench::new(&[]);
    let model = answering(&bench, "An answer.");
    let good = json!({ "command": "true" });
    for (servers, why) in [
        (json!({ "bad": { "comand": "x" } }), "the key \"comand\" is unknown (did you mean \"command\"?)"),
        // The error is about the server that cannot be used, and not about an unknown key of another one.
        (json!({ "a": { "command": "true", "comand": 1 }, "bad": {} }), "neither a command nor a url"),
        (json!({ "a": good, "bad": { "url": "ftp://x" } }), "is not an address of http or https"),
    ] {
        let config = json!({ "mcpServers": servers }).to_string();
        let ran = run(bench.command().args(["-p", "--model", &model, "--mcp-config", &config, "--", "hi"]))
            .expect(2);
        assert!(ran.stderr.contains(why), "{servers}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("\"bad\" cannot be used") && ran.stderr.contains("nothing was run"),
            "{ran:?}"
        );
        assert_eq!((ran.stdout.as_str(), bench.ledgers().len()), ("", 0));
    }
}

#[test]
fn own_commands_and_agents_are_used_as_the_book_says() {
    let bench =
        Bench::new(&[(".becket/agents/critic.md", "---\ndescription: Finds faults.\n---\nBe strict.\n")]);
    let model = || answering(&bench, "An answer.");
    // A command of the user wins over the one of becket in a headless run.
    let own = run(bench.command().args(["-p", "--model", &model(), "/cost"])).expect(0);
    assert!(!own.stdout.contains("An answer."), "{own:?}");
    bench.home.write(".config/becket/commands/cost.md", "MY OWN COST\n");
    let own = run(bench.command().args(["-p", "--model", &model(), "/cost"])).expect(0);
    assert!(own.stdout.contains("An answer."), "{own:?}");
    // An agent of a project that nobody has trusted is named with its file.
    let critic = run(bench.command().args(["-p", "--model", &model(), "--agent", "critic", "hi"])).expect(0);
    assert!(
        critic.stderr.contains(".becket/agents/critic.md, which you have not trusted"),
        "{}",
        critic.stderr
    );
    let agreed = run(bench.command().args(["-p", "--model", &model(), "--trust", "--agent", "critic", "hi"]))
        .expect(0);
    assert!(!agreed.stderr.contains("not trusted"), "{}", agreed.stderr);
    // Faults of agents that the run does not use are one line.
    for name in ["one", "two", "three"] {
        bench
            .project
            .write(&format!(".becket/agents/{name}.md"), "---\ndescription: Works.\nmodle: x\n---\nWork.\n");
    }
    let ran = run(bench.command().args(["-p", "--model", &model(), "hi"])).expect(0);
    assert!(ran.stderr.contains("3 warnings about agents; `becket agents` lists them"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("modle"), "{}", ran.stderr);
    let ran = run(bench.command().args(["-p", "--model", &model(), "--agent", "two", "hi"])).expect(0);
    assert_eq!(ran.stderr.matches("modle").count(), 1, "{}", ran.stderr);
}

/// A server that serves two models and describes them as a `/v1/models` list does.
fn serving() -> MockServer {
    MockServer::with(|_| Answer::text("An answer.").into()).get(
        "/v1/models",
        Reply::json(200, &json!({ "data": [{ "id": "tiny-coder" }, { "id": "other-model" }] })),
    )
}

#[test]
fn a_model_of_the_user_s_server_has_its_bare_name_and_one_notice() {
    let (bench, server) = (Bench::new(&[]), serving());
    let command = || {
        let mut command = bench.command();
        command.env("OPENAI_BASE_URL", format!("{}/v1", server.url()));
        command
    };
    let ran = run(command().args(["-p", "--model", "tiny-coder", "hi"])).expect(0);
    assert!(ran.stderr.contains("`tiny-coder` means the model openai/tiny-coder"), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("is not known; 128000 tokens are assumed").count(), 1, "{}", ran.stderr);
    for words in [
        &["-p", "--model", "TINY-CODER", "hi"][..],
        &["-p", "-c", "hi"],
        &["-p", "--model", "openai/tiny-coder", "hi"],
    ] {
        let ran = run(command().args(words)).expect(0);
        assert!(!ran.stderr.contains("are assumed"), "{words:?}: {}", ran.stderr);
    }
    let ran = run(command().args(["-p", "--model", "no-such-model-at-all", "hi"])).expect(2);
    assert!(ran.stderr.contains("names no model"), "{}", ran.stderr);

    let listed = run(command().args(["models", "--remote"])).expect(0).stdout;
    assert!(
        listed.contains("openai serves:\n  openai/tiny-coder") && listed.lines().count() < 12,
        "{listed}"
    );
    let known = run(command().arg("models")).expect(0).stdout;
    assert!(known.contains("* openai (OpenAI)") && !known.contains("openai/gpt-"), "{known}");
    assert!(known.contains("becket models --remote lists the models of this server"), "{known}");
    let plain = run(bench.command().env_remove("LLAMACPP_BASE_URL").arg("models")).expect(0).stdout;
    assert!(plain.contains("- llamacpp") || !plain.contains("llamacpp ("), "{plain}");
    assert!(plain.contains("openai/gpt-"), "{plain}");
}

#[test]
fn relative_folders_of_becket_are_refused() {
    let bench = Bench::new(&[]);
    for name in ["BECKET_HOME", "HOME"] {
        let ran = run(bench.command().env(name, "rel").args(["-p", "--model", "openai/x", "hi"])).expect(2);
        assert!(ran.stderr.contains(&format!("{name} is not an absolute path: rel")), "{}", ran.stderr);
    }
    assert!(!bench.project.exists("rel"));
}

#[test]
fn a_fork_has_a_title_of_its_own_and_names_that_fit_several_are_told_apart() {
    let bench = Bench::new(&[]);
    let model = || answering(&bench, "An answer.");
    run(bench.command().args(["-p", "--model", &model(), "--name", "My fix", "hi"])).expect(0);
    run(bench.command().args(["-p", "--model", &model(), "-c", "--fork-session", "more"])).expect(0);
    let listed = run(bench.command().arg("sessions")).expect(0).stdout;
    assert_eq!(listed.matches("My fix (fork)").count(), 1, "{listed}");
    let resumed = run(bench.command().args(["-p", "--model", &model(), "-r", "My fix", "on"])).expect(0);
    assert!(resumed.stdout.contains("An answer."));
    run(bench.command().args(["-p", "--model", &model(), "--name", "My fix", "hi"])).expect(0);
    let several = run(bench.command().args(["export", "My fix"])).expect(2).stderr;
    let project = bench.project.root().canonicalize().unwrap();
    let project = project.to_string_lossy();
    assert_eq!(several.matches(&*project).count(), 2, "{several}");
    assert!(
        several.lines().skip(1).take(2).all(|line| line.contains("20") && line.contains(':')),
        "{several}"
    );
}

#[test]
fn guessed_words_and_keys_get_the_nearest_ones() {
    let bench = Bench::new(&[]);
    for (words, part) in [
        (&["config", "set", "model", "x"][..], "write them into "),
        (&["permissions", "explain", "ls"], "'Bash(ls)'"),
        (&["permissions", "explain", "git push"], "'Bash(git push)'"),
    ] {
        let ran = run(bench.command().args(words)).expect(2);
        assert!(ran.stderr.contains(part), "{words:?}: {}", ran.stderr);
    }
    bench.home.write(".config/becket/config.toml", "theme = \"light\"\n");
    let ran = run(bench.command().args(["-p", "--model", &answering(&bench, "x"), "hi"])).expect(0);
    assert!(ran.stderr.contains("theme: unknown key; did you mean ui.theme?"), "{}", ran.stderr);
    // A headless run reports an unknown key once for each state of the file; `doctor` always does.
    let told = || {
        let ran = run(bench.command().args(["-p", "--model", &answering(&bench, "x"), "hi"])).expect(0);
        ran.stderr.matches("unknown key").count()
    };
    assert_eq!([told(), told()], [0, 0]);
    bench.home.write(".config/becket/config.toml", "theme = \"light\"\ncolour = 1\n");
    assert_eq!([told(), told()], [2, 0]);
    bench.home.write(".config/becket/config.toml", "theme = \"dark\"\n");
    assert_eq!([told(), told()], [1, 0]);
    for _ in 0..2 {
        let doctor = run(bench.command().arg("doctor"));
        assert!(doctor.stdout.contains("theme: unknown key"), "{doctor:?}");
    }
    let added = run(bench.command().args(["mcp", "add", "web", "notaurl"])).expect(0);
    assert!(added.stdout.contains("notaurl is not in PATH yet"), "{added:?}");
    let added = run(bench.command().args(["mcp", "add", "shell", "sh"])).expect(0);
    assert!(!added.stdout.contains("not found"), "{added:?}");
}

#[test]
fn a_folder_that_others_can_write_is_named_when_a_key_is_kept() {
    let bench = Bench::new(&[]);
    let config = bench.home.path(".config");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::set_permissions(&config, std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = bench.command();
    let ran =
        crate::support::run_with(command.args(["login", "groq", "--file"]), b"gsk_0123456789abcdef0123\n");
    assert!(ran.stderr.contains("is not used") && ran.stderr.contains(".config"), "{ran:?}");
}

#[test]
fn a_folder_that_cannot_be_entered_is_named_itself() {
    let bench = Bench::new(&[("closed/a.txt", "x")]);
    let closed = bench.project.path("closed");
    let mut shell = std::process::Command::new("sh");
    let becket = bench.command();
    shell.envs(becket.get_envs().filter_map(|(k, v)| Some((k, v?)))).current_dir(&closed);
    shell.args(["-c", "chmod 0 . && exec \"$0\" config", &becket.get_program().to_string_lossy()]);
    let Some(mut shell) = without_privileges(&shell) else { return };
    let ran = run(&mut shell);
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(
        ran.code == 2 && ran.stderr.contains("cannot be entered") && !ran.stderr.contains("config.toml"),
        "{ran:?}"
    );
}
