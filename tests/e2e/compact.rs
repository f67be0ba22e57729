//! A compaction in the open: what it would do, what it would lose, undo and redo, messages brought back.

use crate::compaction::asks_for_summary;
use crate::support::{Api, Bench, Running, ask, request, run};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};

const SUMMARY: &str = "## Goal\nAnswer the questions.\n\n## Instructions\n\n## Progress\n\n### Done\n- looked at a.txt\n\n### In progress\n\n### Blocked\n\n## Decisions\n\n## Discoveries\n\n## Next steps\n\n## Relevant files\n";

/// A line of the file that is long enough to be told from the model's own words.
const NOTE_IN_FILE: &str =
    "Whoever works on this file has to push every change to the main branch of the shared repository by hand";

/// Five questions; the first ones say things that a summary may lose.
fn session() -> (Bench, MockServer) {
    let file = format!("{}{NOTE_IN_FILE}\n", "line of a file\n".repeat(400));
    let bench = Bench::new(&[("a.txt", &file), ("AGENTS.md", "Be brief & polite.\n")]);
    let mut answers = 0;
    let server = MockServer::with(move |request| {
        if asks_for_summary(request) {
            return Answer::text(SUMMARY).usage(900, 100).into();
        }
        answers += 1;
        match answers {
            1 => Answer::tool("c1", "read", json!({ "path": "a.txt" })).into(),
            2 => Answer::text(
                "I decided to use the trampoline instead of recursion. See lib/walker.rs and E0499.",
            )
            .into(),
            n => Answer::text(format!("answer {n}: {}", "words and words ".repeat(300))).into(),
        }
    });
    let questions = [
        "look at a.txt; never touch vendor/api.rs",
        "second question",
        "third question",
        "fourth question",
        "the last question",
    ];
    for (n, question) in questions.iter().enumerate() {
        let mut command = bench.print(Api::Anthropic, &server);
        if n > 0 {
            command.arg("-c");
        }
        run(command.arg(question)).expect(0);
    }
    (bench, server)
}

fn compact(bench: &Bench, server: &MockServer, arguments: &[&str]) -> std::process::Command {
    let mut command = bench.command();
    command.env("ANTHROPIC_API_KEY", "sk-test").env("ANTHROPIC_BASE_URL", server.url());
    command.arg("compact").args(arguments);
    command
}

fn spans(bench: &Bench) -> Vec<Value> {
    let ran = run(bench.command().args(["context", "--json"])).expect(0);
    let page: Value = serde_json::from_str(&ran.stdout).unwrap();
    page["spans"].as_array().unwrap().clone()
}

#[test]
fn a_preview_says_all_and_does_nothing_and_what_applies_can_be_undone_and_redone() {
    let (bench, server) = session();
    let before = spans(&bench);
    let entries = bench.entries().len();
    let shown = run(&mut compact(&bench, &server, &["--preview", "--json"])).expect(0);
    let page: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(bench.entries().len(), entries, "a preview writes nothing");
    assert!(page["tokens_after"].as_u64() < page["tokens_before"].as_u64(), "{page}");
    assert_eq!(page["applied"], false);
    let lost = |list: &str| -> Vec<String> {
        page["loss"][list]
            .as_array()
            .unwrap()
            .iter()
            .map(|l| l["text"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(lost("decisions"), ["I decided to use the trampoline instead of recursion."]);
    assert!(
        lost("identifiers").contains(&"E0499".to_owned())
            && lost("paths").contains(&"lib/walker.rs".to_owned())
    );
    assert!(page["dropped"].as_array().unwrap().iter().any(|m| m["calls"] == json!(["c1"])), "{page}");
    let names: Vec<&str> =
        page["present"].as_array().unwrap().iter().map(|p| p["what"].as_str().unwrap()).collect();
    assert!(
        names.iter().any(|n| n.ends_with("AGENTS.md")) && names.iter().any(|n| n.starts_with("last user")),
        "{names:?}"
    );
    assert!(page["present"].as_array().unwrap().iter().all(|p| p["there"] == true));
    let text = run(&mut compact(&bench, &server, &["--preview"])).expect(0).stdout;
    for word in ["conversation", "Lost, decisions", "trampoline", "Present byte for byte", "## Goal"] {
        assert!(text.contains(word), "{word}: {text}");
    }

    run(&mut compact(&bench, &server, &["--yes"])).expect(0);
    let after = spans(&bench);
    assert!(after.iter().any(|s| s["kind"] == "summary") && after.len() < before.len());
    assert!(run(bench.command().args(["compact", "--verify"])).expect(0).stdout.contains("yes"));
    // The request for the summary is on the record as well, and can be printed.
    let exact = run(bench.command().args(["context", "--request", "last"])).expect(0);
    assert!(server.requests().iter().any(|r| r.body == exact.stdout.as_bytes() && asks_for_summary(r)));

    run(bench.command().args(["compact", "--undo"])).expect(0);
    assert_eq!(spans(&bench), before);
    assert!(run(bench.command().args(["compact", "--undo"])).expect(2).stderr.contains("no compaction"));
    run(bench.command().args(["compact", "--redo"])).expect(0);
    assert_eq!(spans(&bench), after);
    run(bench.command().args(["compact", "--undo"])).expect(0);
    run(bench.print(Api::Anthropic, &server).args(["-c", "one more"])).expect(0);
    let sent = server.requests().last().unwrap().text().to_owned();
    assert!(sent.contains("line of a file") && !sent.contains("context-summary"));
}

#[test]
fn the_summary_can_be_a_persons_and_messages_come_back() {
    let (bench, server) = session();
    run(bench.command().args(["context", "--pin", "c1", "--yes"])).expect(0);
    run(&mut compact(&bench, &server, &["--preview", "--no-model", "-o", "sum.md"])).expect(0);
    let made = bench.project.read("sum.md");
    assert!(made.contains("## Goal"), "{made}");
    bench.project.write("sum.md", "## Goal\nMine, word for word.\n");
    let requests = server.requests().len();
    run(&mut compact(&bench, &server, &["--summary", "sum.md", "--yes"])).expect(0);
    assert_eq!(server.requests().len(), requests, "no model was asked");
    let after = spans(&bench);
    let has =
        |spans: &[Value], text: &str| spans.iter().any(|s| s["preview"].as_str().unwrap().contains(text));
    assert!(has(&after, "Mine, word for word."), "{after:#?}");
    assert!(has(&after, "line of a file"), "the pin survives");
    assert!(
        !has(&after, "trampoline")
            || after
                .iter()
                .all(|s| s["kind"] != "assistant" || !s["preview"].to_string().contains("trampoline"))
    );

    let folded = run(bench.command().args(["compact", "--removed", "--json"])).expect(0);
    let rows: Vec<Value> = serde_json::from_str(&folded.stdout).unwrap();
    let row = rows.iter().find(|r| r["preview"].as_str().unwrap().contains("trampoline")).unwrap();
    let seq = row["seq"].to_string();
    let shown = run(bench.command().args(["context", "--restore", &seq, "--yes"])).expect(0);
    assert!(shown.stdout.contains("Cache:"), "{}", shown.stdout);
    let back = spans(&bench);
    assert!(
        back.iter()
            .any(|s| s["kind"] == "assistant" && s["preview"].as_str().unwrap().contains("trampoline"))
    );
    run(bench.print(Api::Anthropic, &server).args(["-c", "one more"])).expect(0);
    let sent = server.requests().last().unwrap().text().to_owned();
    assert!(sent.contains("trampoline instead of recursion") && sent.contains("Mine, word for word."));
    run(bench.command().args(["context", "--undo", "--yes"])).expect(0);
    assert!(
        !spans(&bench)
            .iter()
            .any(|s| s["kind"] == "assistant" && s["preview"].to_string().contains("trampoline"))
    );

    // A context that was compacted just now is too small to be compacted again.
    run(bench.command().args(["compact", "--undo"])).expect(0);
    let editor = "printf '## Goal\\nFrom the editor.\\n' >";
    let mut command = compact(&bench, &server, &["--edit", "--no-model", "--yes"]);
    let ran = run(command.env("EDITOR", editor)).expect(0);
    assert!(has(&spans(&bench), "From the editor."), "{}", ran.stdout);
    let refused = run(&mut compact(&bench, &server, &["--edit", "--no-model", "--yes"]));
    assert!(refused.code == 2 || refused.stdout.contains("Not compacted"), "{refused:?}");
}

#[test]
fn a_summary_by_hand_that_cannot_be_used_is_told_and_changes_nothing() {
    let (bench, server) = session();
    let before = std::fs::read(&bench.ledgers()[0]).unwrap();
    bench.project.write("long.md", "A summary that is longer than what it stands for. ".repeat(4_000));
    for (arguments, editor, code, what, to_do) in [
        (&["--summary", "long.md", "--yes"][..], None, 2, "this summary frees nothing", "shorten it"),
        (
            &["--edit", "--no-model", "--yes"],
            Some("false"),
            1,
            "the editor false ended with",
            "nothing was changed",
        ),
        (
            &["--edit", "--no-model", "--yes"],
            Some("no-such-editor"),
            1,
            "the editor no-such-editor ended",
            "EDITOR",
        ),
        (&["--edit", "--no-model", "--yes"], None, 2, "neither VISUAL nor EDITOR is set", "--summary FILE"),
    ] {
        let mut command = compact(&bench, &server, arguments);
        let ran = run(command.envs(editor.map(|editor| ("EDITOR", editor)))).expect(code);
        assert!(ran.stderr.contains(what) && ran.stderr.contains(to_do), "{what}: {}", ran.stderr);
        assert_eq!(std::fs::read(&bench.ledgers()[0]).unwrap(), before, "{what}");
    }
}

#[test]
fn what_was_pinned_between_an_undo_and_a_redo_stays() {
    let (bench, server) = session();
    bench.project.write("sum.md", "## Goal\nMine, word for word.\n");
    let ran = run(&mut compact(&bench, &server, &["--summary", "sum.md", "--yes"])).expect(0);
    assert!(!ran.stdout.contains("note:"), "no model was to be asked, so none is missed: {}", ran.stdout);
    let short = spans(&bench);
    let shows = |spans: &[Value], text: &str| {
        spans.iter().any(|s| s["kind"] == "assistant" && s["preview"].as_str().unwrap().contains(text))
    };
    assert!(!shows(&short, "trampoline"));
    let undone = run(bench.command().args(["compact", "--undo", "--json"])).expect(0);
    let undone: Value = serde_json::from_str(&undone.stdout).unwrap();
    assert_eq!(undone["counts"], false, "{undone}");
    let said = spans(&bench).into_iter().find(|s| s["preview"].to_string().contains("trampoline")).unwrap();
    run(bench.command().args(["context", "--pin", &said["seq"].to_string(), "c1", "--yes"])).expect(0);
    run(bench.command().args(["compact", "--redo"])).expect(0);
    let after = spans(&bench);
    assert!(shows(&after, "trampoline") && after.iter().any(|s| s["kind"] == "summary"), "{after:#?}");
    assert!(after.iter().any(|s| s["preview"].to_string().contains("line of a file")), "{after:#?}");
    run(bench.command().args(["compact", "--verify"])).expect(0);
}

/// An instruction that repeats a tool's text word for word is left out of the summary. `compact --verify` shows it, also later.
#[test]
fn what_is_left_out_of_a_summary_is_shown_by_verify() {
    let (bench, _) = session();
    let summary = SUMMARY.replace("## Instructions\n", &format!("## Instructions\n- {NOTE_IN_FILE}\n"));
    let server = MockServer::with(move |_| Answer::text(summary.clone()).usage(900, 100).into());
    let shown = run(&mut compact(&bench, &server, &["--preview", "--json"])).expect(0);
    let page: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(page["left_out"][0]["section"], "Instructions", "{page}");
    run(&mut compact(&bench, &server, &["--yes"])).expect(0);
    let verified = run(bench.command().args(["compact", "--verify", "--json"])).expect(0);
    let page: Value = serde_json::from_str(&verified.stdout).unwrap();
    assert_eq!((&page["verified"], &page["left_out"][0]["section"]), (&json!(true), &json!("Instructions")));
    assert!(page["left_out"][0]["text"].as_str().unwrap().contains(NOTE_IN_FILE), "{page}");
    assert!(!page["left_out"][0]["why"].as_str().unwrap().is_empty());
    let text = run(bench.command().args(["compact", "--verify"])).expect(0).stdout;
    assert!(text.contains("Left out of the model's summary:") && text.contains(NOTE_IN_FILE), "{text}");
}

#[test]
fn what_was_left_out_and_brought_back_is_folded_away_like_all_others() {
    let (bench, server) = session();
    let row = |name: &str| {
        let listed = run(bench.command().args(["compact", "--folded", "--json"])).expect(0);
        let rows: Vec<Value> = serde_json::from_str(&listed.stdout).unwrap();
        rows.into_iter().find(|row| row["preview"].as_str().unwrap().contains(name))
    };
    let said = spans(&bench).into_iter().find(|s| s["preview"].to_string().contains("trampoline")).unwrap();
    let seq = said["seq"].to_string();
    run(bench.command().args(["context", "--drop", &seq, "--yes"])).expect(0);
    assert_eq!(row("trampoline"), None, "a manual drop is not a removal by a compaction");
    let refused = run(bench.command().args(["context", "--restore", &seq, "--yes"])).expect(2);
    assert!(refused.stderr.contains("was removed by a compaction"), "{}", refused.stderr);
    run(bench.command().args(["context", "--undo", "--yes"])).expect(0);
    run(&mut compact(&bench, &server, &["--no-model", "--yes"])).expect(0);
    assert!(row("trampoline").is_some());
}

#[test]
fn with_room_left_nobody_is_told_that_the_context_is_full() {
    let (bench, server) = session();
    let compacted = || run(&mut compact(&bench, &server, &["--no-model", "--yes"])).expect(0).stdout;
    let last = (0..5).map(|_| compacted()).find(|said| !said.contains("Compacted."));
    let last = last.expect("what was compacted again and again is small");
    assert!(last.contains("Not compacted") && !last.contains("full"), "{last}");
}

/// The same command where no file may grow beyond a kilobyte, as on a full disk.
fn on_a_full_disk(command: &std::process::Command) -> std::process::Command {
    let mut limited = std::process::Command::new("bash");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\""]);
    limited.arg(command.get_program()).args(command.get_args());
    limited.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
    limited.current_dir(command.get_current_dir().unwrap());
    limited
}

#[test]
fn on_a_full_disk_an_undo_says_that_nothing_was_changed_and_a_search_finds() {
    let (bench, server) = session();
    run(&mut compact(&bench, &server, &["--no-model", "--yes"])).expect(0);
    let before = spans(&bench);
    let undo = compact(&bench, &server, &["--undo"]);
    let ran = run(&mut on_a_full_disk(&undo)).expect(1);
    assert!(ran.stderr.contains("nothing was changed") && ran.stderr.contains("free some space"), "{ran:?}");
    assert_eq!(spans(&bench), before);
    let mut search = bench.command();
    search.args(["sessions", "search", "trampoline"]);
    let ran = run(&mut on_a_full_disk(&search)).expect(0);
    assert!(ran.stdout.contains("trampoline"), "{ran:?}");
}

/// The command line plans with the agent of the session: same messages, same attached files, same rules.
#[test]
fn a_preview_is_the_plan_that_the_session_itself_makes() {
    let (bench, server) = session();
    for setting in ["tail_turns = 1", "tail_turns = 4", "reattach = 0.0", "keep_recent_tokens = 4000"] {
        // This tool is only offered to a program that drives becket, and would change the size of the plan.
        let tools = "[tools]\ndisabled = [\"notebook_edit\"]\n";
        bench.home.write(".config/becket/config.toml", format!("[context]\n{setting}\n{tools}"));
        let shown = run(&mut compact(&bench, &server, &["--preview", "--json"])).expect(0);
        let page: Value = serde_json::from_str(&shown.stdout).unwrap();
        let mut command = bench.print(Api::Anthropic, &server);
        command.args(["-c", "--no-session-persistence"]);
        command.args(["--input-format", "stream-json", "--output-format", "stream-json"]);
        let mut running = Running::start(&mut command);
        let plan =
            ask(&mut running, &request(&json!({ "subtype": "plan_compaction" })), "compaction_planned");
        running.wait();
        let seqs = |list: &Value| -> Vec<u64> {
            list.as_array().unwrap().iter().map(|m| m["seq"].as_u64().unwrap()).collect()
        };
        assert_eq!(seqs(&page["dropped"]), seqs(&plan["gone"]), "{setting}");
        for same in ["tokens_before", "tokens_after", "stays", "stubs", "summary", "loss"] {
            assert_eq!(page[same], plan[same], "{setting}: {same}");
        }
        assert_eq!(page["present"], plan["proofs"], "{setting}");
    }
}

/// The configuration of the session's folder decides outside of the session as well.
#[test]
fn a_preview_keeps_as_many_turns_as_the_configuration_says() {
    let (bench, server) = session();
    let dropped = [1, 2].map(|turns| {
        bench.home.write(".config/becket/config.toml", format!("[context]\ntail_turns = {turns}\n"));
        let shown = run(&mut compact(&bench, &server, &["--preview", "--json"])).expect(0);
        let page: Value = serde_json::from_str(&shown.stdout).unwrap();
        page["dropped"].as_array().unwrap().len()
    });
    assert!(dropped[0] > dropped[1] && dropped[1] > 0, "{dropped:?}");
}

#[test]
fn a_rewind_leaves_no_compaction_and_no_change_to_undo_or_redo() {
    let (bench, server) = session();
    let id = bench.ledgers()[0].parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    run(bench.command().args(["context", "--pin", "c1", "--yes"])).expect(0);
    run(&mut compact(&bench, &server, &["--yes"])).expect(0);
    run(bench.command().args(["compact", "--undo"])).expect(0);
    let shown = run(bench.command().args(["compact", "--redo", "--dry-run"])).expect(0);
    assert!(shown.stdout.contains("would be redone"), "{}", shown.stdout);
    run(bench.command().args(["compact", "--redo"])).expect(0);
    run(bench.command().args(["rewind", &id, "1", "--conversation", "--yes"])).expect(0);
    run(bench.print(Api::Anthropic, &server).args(["-c", "a different task"])).expect(0);
    for (arguments, said) in [
        (&["compact", "--undo"][..], "no compaction to undo"),
        (&["compact", "--undo", "--dry-run"], "no compaction to undo"),
        (&["compact", "--redo"], "no undone compaction to redo"),
        (&["compact", "--redo", "--dry-run"], "no undone compaction to redo"),
        (&["context", "--undo", "--yes"], "no change of the context to undo"),
        (&["context", "--redo", "--yes"], "no undone change of the context to redo"),
    ] {
        let ran = run(bench.command().args(arguments)).expect(2);
        assert!(ran.stderr.contains(said), "{arguments:?}: {}", ran.stderr);
    }
    run(bench.print(Api::Anthropic, &server).args(["-c", "one more"])).expect(0);
    let sent = server.requests().last().unwrap().text().to_owned();
    assert!(sent.contains("a different task") && !sent.contains("vendor/api.rs"), "{sent}");
    assert!(!sent.contains("context-summary"), "{sent}");
}
