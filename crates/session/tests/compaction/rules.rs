//! The rules of compaction by table: split, summarise, verify, what is kept, which request is made.

use super::logs::*;
use becket_session::context::budget::estimate_text;
use becket_session::context::compaction::{
    Failure, Floor, InputKind, Previous, Step, StopReason, Tail, begin, borders, cut, stop,
};
use becket_session::context::continuation::CONTINUE;
use becket_types::*;
use serde_json::json;

/// A session of three turns, each with a large step: well above a window of 32k.
fn long() -> Log {
    let mut log = Log::default();
    for turn in 1..=3 {
        log.user(&format!("wish {turn}")).step("bash", &[30_000]).says(&format!("answer {turn}"));
    }
    log
}

fn places(log: &Log, at: usize) -> String {
    log.messages.iter().enumerate().fold(String::new(), |mut out, (i, m)| {
        if i == at {
            out.push('|');
        }
        out.push(match m.role {
            Role::User if m.is_user_turn() => 'u',
            Role::User => 'n',
            Role::Assistant => 'a',
            Role::Tool => 't',
            Role::System => 's',
        });
        out
    }) + if at == log.messages.len() { "|" } else { "" }
}

#[test]
fn the_tail_is_cut_by_turns_and_tokens() {
    let mut turns = Log::default();
    turns
        .user("1")
        .says("a")
        .user("2")
        .step("bash", &[10])
        .says("b")
        .user("3")
        .step("bash", &[10, 10])
        .says("c");
    let mut lone = Log::default();
    lone.user("1").step("bash", &[10]).step("bash", &[10, 10]).step("bash", &[10]);
    let mut open = Log::default();
    open.user("1").says("a").user("2").step_of("bash", &[10, 10], 1);
    let mut interrupted = Log::default();
    interrupted.user("1").step_of("bash", &[10, 10], 1).user("2");
    let mut steered = Log::default();
    steered.user("1").step("bash", &[10]).step("bash", &[10, 10]).user("2").user("3");
    let mut asked = Log::default();
    asked.user("1").says("a").user("2").user("3");
    let mut done = Log::default();
    done.user("1").step("bash", &[10]).says("a");
    let mut crossed = Log::default();
    crossed.user("1").says("a");
    crossed.push(Message::assistant(vec![Part::tool_call("x", "bash", json!({}))]));
    crossed.user("2").push(Message::tool_result("x".into(), "bash", "out", false));
    // rule, log, turns, budget in messages -> where the tail begins
    for (rule, log, wanted, tokens, want) in [
        ("the last two user turns", &turns, 2, 99, "ua|uatauatta"),
        ("one turn", &turns, 1, 99, "uauata|uatta"),
        ("no turn", &turns, 0, 99, "uauatauatta|"),
        ("the whole turns fit exactly", &turns, 2, 9, "ua|uatauatta"),
        ("a turn that does not fit is entered at an assistant message", &turns, 2, 8, "uau|atauatta"),
        ("never between parallel calls and their results", &turns, 2, 3, "uauatauatt|a"),
        ("a lone turn is entered in its middle", &lone, 2, 5, "uat|attat"),
        ("a step is indivisible", &lone, 2, 4, "uatatt|at"),
        ("a step the model has not seen stays above the budget", &lone, 0, 0, "uatatt|at"),
        ("with the messages behind it", &steered, 0, 0, "uat|attuu"),
        ("messages that nobody answered stay", &asked, 0, 0, "ua|uu"),
        ("nothing is new: nothing stays", &done, 0, 0, "uata|"),
        ("fewer turns than wanted: all of it, if it fits", &lone, 2, 99, "|uatattat"),
        ("calls that are still open stay", &open, 2, 0, "uau|at"),
        ("calls that a user message ended are as new as it", &interrupted, 1, 1, "u|atu"),
        ("a user message between call and result is no border", &crossed, 1, 2, "ua|aut"),
    ] {
        let costs = vec![1; log.messages.len()];
        let at = cut(&log.messages, &costs, Tail { turns: wanted, tokens });
        assert_eq!(places(log, at), want, "{rule}");
        assert!(borders(&log.messages)[at], "{rule}");
    }
}

#[test]
fn mid_task_gives_a_compaction_and_one_continuation_in_one_commit() {
    let log = long();
    let (step, requests) = run(snapshot(&log, 32_768), Behaviour::Good);
    let outcome = committed(step);
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].input, InputKind::PrunedHead);
    let c = compaction(&outcome);
    assert_eq!(
        (c.origin.source, c.origin.model.as_str(), c.origin.input.as_str()),
        (CompactionSource::Model, "test/model", "pruned_head")
    );
    assert_eq!(c.snapshot_of, log.last_seq());
    assert_eq!(c.anchor.as_deref(), Some("answer 2"));
    let newer = "note=\"the assistant's last words before the messages that follow; those are newer\"";
    assert!(
        c.summary.ends_with(&format!("\n\n<verbatim_tail {newer}>\nanswer 2\n</verbatim_tail>")),
        "{}",
        c.summary
    );
    let next = continuation(&outcome).unwrap();
    assert_eq!((next.text().as_str(), next.metadata.compaction_continue), (CONTINUE, true));
    assert_eq!(outcome.notices, Vec::<String>::new());
    assert_eq!(outcome.report.tokens_after, outcome.report.after.total());
}

#[test]
fn a_manual_compaction_while_idle_continues_nothing() {
    let mut before = snapshot(&long(), 200_000);
    before.request.trigger = CompactionTrigger::Manual;
    before.turn_state = TurnState::AwaitingUser;
    before.request.focus = Some("the port".to_owned());
    let (step, requests) = run(before, Behaviour::Good);
    assert!(requests[0].prompt.contains("special attention to this: the port"));
    let outcome = committed(step);
    assert_eq!(outcome.entries.len(), 1);
    assert_eq!(compaction(&outcome).turn_state, TurnState::AwaitingUser);
}

#[test]
fn a_lone_turn_of_two_hundred_steps_is_compacted_and_keeps_the_task() {
    let mut log = Log::default();
    log.user("the only wish");
    for _ in 0..200 {
        log.step("bash", &[400]);
    }
    let (step, _) = run(snapshot(&log, 32_768), Behaviour::Good);
    let outcome = committed(step);
    let c = compaction(&outcome);
    assert_eq!(c.retained.kept, vec![log.messages[0].id]);
    assert!(c.retained.tail_from > Seq(300) && outcome.report.counts.tail > 10, "{:?}", outcome.report);
    assert_eq!(continuation(&outcome).unwrap().text(), CONTINUE);
    // becket lists a call that ran, regardless of the model's text.
    assert!(c.summary.contains("- bash `run c200`: exit 0 [c200]"));
}

#[test]
fn pruning_alone_is_enough_when_it_brings_the_use_under_sixty_percent() {
    let log = long();
    let mut before = snapshot(&log, 32_768);
    let pruned = |n: usize| PrunedCall {
        call_id: log.messages[n].result_of().unwrap().clone(),
        bytes: 30_000,
        lines: 1,
        excerpt: String::new(),
    };
    before.outputs.prunable = vec![pruned(2), pruned(6)];
    for (rule, trigger, calls, want) in [
        ("two outputs free enough", CompactionTrigger::Auto, 2, true),
        ("one does not", CompactionTrigger::Auto, 1, false),
        ("by hand it is always a compaction", CompactionTrigger::Manual, 2, false),
    ] {
        let mut before = before.clone();
        before.request.trigger = trigger;
        before.outputs.prunable.truncate(calls);
        let step = begin(before);
        let entry = match &step {
            Step::Commit(outcome) => outcome.entries.first(),
            _ => None,
        };
        assert_eq!(matches!(entry, Some(EntryKind::Prune { calls, .. }) if calls.len() == 2), want, "{rule}");
    }
    // If a compaction has requests to make, the head in them has no text of outputs that can be pruned.
    before.outputs.prunable.truncate(1);
    let Step::Ask(ask) = begin(before) else { panic!("no question") };
    assert!(ask.request().prompt.contains("[30000 bytes, left out]"));
}

#[test]
fn the_summarisers_input_is_bounded_and_media_are_words() {
    let mut log = Log::default();
    log.user("old")
        .step("bash", &[90_000])
        .image("look at this")
        .says("seen")
        .user("new")
        .says("ok")
        .user("newest")
        .says("b");
    let Step::Ask(ask) = begin(snapshot(&log, 32_768)) else { panic!("no question") };
    let prompt = ask.request().prompt;
    let output = prompt.split("<tool-output tool=\"bash\" id=\"c1\">\n").nth(1).unwrap();
    assert_eq!(output.split("\n</tool-output>").next().unwrap().chars().count(), 2_000);
    assert!(prompt.contains("[Attached image/png: shot.png]"));
    let audit = prompt.split("<kept-tail").nth(1).unwrap().split("</kept-tail>").next().unwrap();
    assert!(audit.contains("newest") && estimate_text(audit).0 <= 2_050);
    assert!(!prompt.split("<kept-tail").next().unwrap().contains("newest"), "the tail is not in the head");
}

#[test]
fn what_goes_wrong_with_the_summary_ends_in_the_fallback() {
    for (behaviour, calls, notice) in [
        (Behaviour::Error, 1, "the summarising model failed: HTTP 500"),
        (Behaviour::Refusal, 1, "the model refused to write a summary"),
        (Behaviour::Timeout, 1, "the summary took longer than 90 seconds"),
        (Behaviour::Empty, 1, "the model returned an empty summary"),
        (Behaviour::Blank, 1, "the model returned an empty summary"),
        (Behaviour::IgnoresTemplate, 2, "the model ignored the summary's template twice"),
        (Behaviour::Overflow, 2, "the summary request was too long for the model"),
    ] {
        let (step, requests) = run(snapshot(&long(), 32_768), behaviour);
        let outcome = committed(step);
        let c = compaction(&outcome);
        assert_eq!(requests.len(), calls, "{behaviour:?}");
        assert_eq!(outcome.notices, vec![format!("Summary made without the model: {notice}")]);
        assert_eq!(
            (c.origin.source, c.origin.model.as_str(), c.origin.input.as_str()),
            (CompactionSource::Fallback, "", "")
        );
        assert!(
            c.summary
                .starts_with("## Goal\nAs the user's messages say: those quoted at the end of this summary,"),
            "{}",
            c.summary
        );
        assert!(c.summary.contains(">\n[m1] wish 1\n[m5] wish 2\n</user-messages>"), "{}", c.summary);
        assert!(!c.summary.contains("wish 3"), "it is in the conversation: {}", c.summary);
        assert!(c.summary.contains("- bash `run c3`: exit 0 [c3]"));
        assert_eq!(c.anchor.as_deref(), Some("answer 2"));
    }
    let mut before = snapshot(&long(), 32_768);
    before.request.summariser = None;
    let outcome = committed(begin(before));
    assert_eq!(outcome.report.model_calls, 0);
}

#[test]
fn whatever_sections_came_are_used_and_the_rest_is_filled_in() {
    let cut = &GOOD[..GOOD.find("## Decisions").unwrap()];
    let previous = GOOD.replace("keep it simple", "an old decision").replace("port 8080", "an old find");
    let mut before = snapshot(&long(), 32_768);
    before.previous = Some(Previous { entry: Seq(1), summary: previous, ..Previous::default() });
    let (step, requests) = run_with(before, |_| Ok(cut.to_owned()));
    let outcome = committed(step);
    let c = compaction(&outcome);
    assert_eq!((requests.len(), c.origin.source), (1, CompactionSource::Model));
    for part in ["ship lorem", "- testing", "- an old decision", "- an old find", "## Next steps\n1. go on"] {
        assert!(c.summary.contains(part), "{part}: {}", c.summary);
    }
    let notice = "The model's summary is incomplete. Filled in without the model: Decisions, Discoveries, Next steps, \
                  Relevant files";
    assert_eq!(outcome.notices, [notice]);

    // An answer without any heading: the model is asked once more, then the text is kept under Discoveries.
    let prose = "The parser lives in harbour.rs and the port is 4711. ".repeat(5);
    let (step, requests) = run_with(snapshot(&long(), 32_768), |_| Ok(prose.clone()));
    let outcome = committed(step);
    let c = compaction(&outcome);
    assert_eq!((requests.len(), c.origin.source), (2, CompactionSource::Fallback));
    assert!(c.summary.contains("## Discoveries\nThe parser lives in harbour.rs"), "{}", c.summary);
    // A greeting before the sections is only recorded.
    let outcome = committed(run_with(snapshot(&long(), 32_768), |_| Ok(format!("Sure:\n{GOOD}"))).0);
    let left_out = &compaction(&outcome).origin.left_out;
    assert_eq!(left_out.iter().map(|left| left.text.as_str()).collect::<Vec<_>>(), ["Sure:"]);
}

#[test]
fn without_a_model_the_assistants_own_words_fill_the_room() {
    let mut log = Log::default();
    for turn in 0..40 {
        log.user(&format!("wish {turn}"));
        log.says(&format!("Finding {turn}: {}", filler(300))).step("bash", &[3_000]);
    }
    let outcome = committed(run(snapshot(&log, 32_768), Behaviour::Error).0);
    let c = compaction(&outcome);
    let anchor = c.anchor.clone().unwrap();
    let newest: usize = anchor.split_once("Finding ").unwrap().1.split(':').next().unwrap().parse().unwrap();
    let (_, said) = c.summary.split_once("The assistant's own words, newest first:\n").unwrap();
    assert!(said.starts_with(&format!("- Finding {}:", newest - 1)), "{said}");
    assert!(c.summary.matches("Finding ").count() > 3, "{}", c.summary);
    assert_eq!(c.summary.matches(&format!("Finding {newest}:")).count(), 1, "{}", c.summary);
}

#[test]
fn an_anchor_stays_while_the_assistant_says_nothing() {
    let mut log = Log::default();
    log.user("go").says("The plan is A.").step("bash", &[30_000]).step("bash", &[30_000]);
    let first = committed(run(snapshot(&log, 32_768), Behaviour::Good).0);
    assert_eq!(compaction(&first).anchor.as_deref(), Some("The plan is A."));
    let previous = log.apply(&first);
    for _ in 0..6 {
        log.step("bash", &[20_000]);
    }
    let mut before = snapshot(&log, 32_768);
    before.previous = previous;
    let second = committed(run(before, Behaviour::Good).0);
    assert_eq!(compaction(&second).anchor.as_deref(), Some("The plan is A."));
    assert_eq!(compaction(&second).summary.matches("<verbatim_tail").count(), 1);
}

#[test]
fn the_second_ask_names_the_mistake_and_a_right_answer_then_counts() {
    let mut answers = vec![Ok(GOOD.to_owned()), Ok("no headings here".to_owned())];
    let (step, requests) = run_with(snapshot(&long(), 32_768), |_| answers.pop().unwrap());
    assert!(!requests[0].prompt.contains("did not keep the headings"));
    assert!(requests[1].prompt.contains("did not keep the headings"));
    assert_eq!(compaction(&committed(step)).origin.source, CompactionSource::Model);
}

#[test]
fn too_long_a_head_is_folded_piece_by_piece() {
    let mut log = Log::default();
    for _ in 0..40 {
        log.user("a wish about the parser").says(&filler(8_000));
    }
    let mut n = 0;
    let (step, requests) = run_with(snapshot(&log, 16_384), |_| {
        n += 1;
        Ok(GOOD.replace("port 8080", &format!("fold {n}")))
    });
    assert!(requests.len() > 4, "{}", requests.len());
    for (i, request) in requests.iter().enumerate() {
        assert!(request.prompt.contains(&format!("piece=\"{} of {}\"", i + 1, requests.len())));
        assert_eq!(
            request.prompt.contains(&format!("- fold {i}\n")),
            i > 0,
            "each piece is read on top of the last fold"
        );
        assert_eq!(request.prompt.contains("<kept-tail"), i + 1 == requests.len());
    }
    let outcome = committed(step);
    assert!(compaction(&outcome).summary.contains(&format!("- fold {n}")));
    assert_eq!(outcome.report.model_calls, n);
}

#[test]
fn a_previous_summary_is_updated_and_never_head_or_tail() {
    let mut log = long();
    let text = GOOD.replace("port 8080", "the old find") + "\n\n<verbatim_tail>\nold words\n</verbatim_tail>";
    log.messages.insert(
        0,
        Message::new(
            Role::System,
            Origin::Synthetic(Synthetic::CompactionSummary),
            vec![Part::text(text.clone())],
        )
        .into(),
    );
    let mut before = snapshot(&log, 32_768);
    before.previous = Some(Previous { entry: Seq(7), summary: text, ..Previous::default() });
    let (step, requests) = run(before, Behaviour::Good);
    let previous = requests[0].prompt.split("</previous-summary>").next().unwrap();
    assert!(previous.contains("the old find") && previous.contains("Last words before that cut: old words"));
    assert_eq!(requests[0].prompt.matches("the old find").count(), 1);
    let c = committed(step);
    let c = compaction(&c);
    assert_eq!(c.replaces, Some(Seq(7)));
    assert_eq!(c.summary.matches("<verbatim_tail").count(), 1);
    assert!(!c.summary.contains("old words"));
}

#[test]
fn an_unanswered_prompt_leaves_the_tail_and_stands_last() {
    let mut log = long();
    log.user("wish 4, verbatim  ");
    let mut before = snapshot(&log, 32_768);
    before.turn_state = TurnState::Unanswered;
    let outcome = committed(run(before, Behaviour::Good).0);
    let last = log.messages.last().unwrap().clone();
    assert_eq!(compaction(&outcome).retained.taken_out, vec![last.id]);
    assert_eq!(continuation(&outcome).unwrap().parts, last.parts);
    let previous = log.apply(&outcome);
    assert_eq!(log.messages.last().unwrap().parts, last.parts);
    // After a second compaction before any answer, the prompt is still there once, at the end, and its original stays removed.
    log.step("bash", &[60_000]);
    let mut again = snapshot(&log, 32_768);
    again.previous = previous;
    let outcome = committed(run(again, Behaviour::Good).0);
    assert!(compaction(&outcome).retained.taken_out.contains(&last.id));
    log.apply(&outcome);
    assert_eq!(log.messages.iter().filter(|m| m.parts == last.parts).count(), 1);
}

#[test]
fn media_of_the_last_user_message_become_text_and_are_not_replayed() {
    let mut log = long();
    log.image("what is this?").step("bash", &[100]);
    let outcome = committed(run(snapshot(&log, 32_768), Behaviour::Good).0);
    let user = log.messages.iter().find(|m| m.has_media()).unwrap();
    assert_eq!(compaction(&outcome).shortened.media, vec![(user.id, 1)]);
    let next = continuation(&outcome).unwrap();
    assert_eq!(next.text(), "[Continuing from compaction] what is this?");
    assert!(next.metadata.had_media && !next.has_media());
}

#[test]
fn pins_are_kept_whole_and_rules_stand_once() {
    let mut log = Log::default();
    log.user("1").step("bash", &[40, 40]);
    for _ in 0..2 {
        log.push(Message::synthetic(Synthetic::Rules, "rules of src/"));
    }
    log.step("bash", &[30_000])
        .user("2")
        .step("bash", &[30_000])
        .says("x")
        .user("3")
        .step("bash", &[30_000])
        .says("y");
    let mut before = snapshot(&log, 32_768);
    before.pins.calls.insert("c2".into());
    let outcome = committed(run(before, Behaviour::Good).0);
    let kept: Vec<usize> = compaction(&outcome)
        .retained
        .kept
        .iter()
        .map(|id| log.messages.iter().position(|m| m.id == *id).unwrap())
        .collect();
    assert_eq!(kept, vec![1, 2, 3, 12], "the call, both its results, the last wish");
    let texts: Vec<&str> =
        compaction(&outcome).repeated.rules.iter().map(|item| item.text.as_str()).collect();
    assert_eq!(texts, ["rules of src/"]);
}

/// A message that brings a nested rules file.
fn rules_message(path: &str, text: &str) -> Message {
    let mut message = Message::synthetic(Synthetic::Rules, text);
    message.metadata.extra.insert("rules_path".into(), json!(path));
    message
}

#[test]
fn nested_rules_move_behind_the_summary_and_are_current() {
    let mut log = long();
    log.push(rules_message("/a/AGENTS.md", "old text of a"));
    log.step("bash", &[30_000]).user("again");
    log.push(rules_message("/a/AGENTS.md", "text of a"));
    log.push(rules_message("/b/AGENTS.md", "text of b"));
    log.step("bash", &[400]);
    let item = |path: &str, text: &str| SystemItem {
        kind: SystemKind::Rules,
        path: Some(path.into()),
        text: text.into(),
    };
    let shown = vec![item("/a/AGENTS.md", "text of a"), item("/b/AGENTS.md", "text of b")];
    let on_disk = vec![item("/b/AGENTS.md", "new text of b")];
    // (rules that the driver has read, message pinned, rules that are expected beside the summary). A pinned message stays,
    // and its text is not repeated.
    for (read, pinned, want) in [
        (None, false, &shown[..]),
        (Some(shown.clone()), false, &shown[..]),
        (Some(on_disk.clone()), false, &on_disk[..]),
        (Some(Vec::new()), false, &[]),
        (Some(shown.clone()), true, &shown[..1]),
    ] {
        let mut before = snapshot(&log, 32_768);
        before.disk.rules = read;
        let b = log.messages.iter().find(|m| m.text() == "text of b").unwrap().id;
        if pinned {
            before.pins.messages.insert(b);
        }
        let floor = before.request.floor;
        let outcome = committed(run(before, Behaviour::Good).0);
        assert_eq!(compaction(&outcome).repeated.rules, want);
        let mut after = log.clone();
        let previous = after.apply(&outcome);
        let left: Vec<String> = after
            .messages
            .iter()
            .filter(|m| m.origin == Origin::Synthetic(Synthetic::Rules))
            .map(|m| m.text())
            .collect();
        assert_eq!(left, if pinned { vec!["text of b"] } else { vec![] });
        let counted = outcome.report.after;
        assert_eq!(counted.total(), outcome.report.tokens_after);
        let whole = base(&floor, previous.as_ref(), &after).0 as f64;
        assert!(counted.total().0 as f64 >= 0.97 * whole, "{} {whole}", counted.total());
        // A second compaction, for which the driver has read no rules files, keeps the rules once.
        let mut second = snapshot(&after, 32_768);
        second.previous = previous;
        second.request.used = Tokens(40_000);
        second.messages.extend(long().messages.iter().cloned());
        if let Step::Commit(outcome) = run(second, Behaviour::Good).0 {
            let again = &compaction(&outcome).repeated.rules;
            let expected = if pinned { shown.clone() } else { want.to_vec() };
            assert_eq!(again, &expected);
        }
    }
}

#[test]
fn state_comes_back_from_its_source_and_skills_as_reference() {
    let mut before = snapshot(&long(), 32_768);
    before.state = [
        ("mode", json!("plan")),
        ("shell_cwd", json!("/p/sub")),
        (
            "jobs",
            json!([{"id": 1, "command": "npm start", "state": "running"}, {"id": 2, "command": "make", "state": "finished"}]),
        ),
        ("todo", json!([{"content": "write tests", "status": "in_progress"}])),
        ("read_files", json!([{"path": "src/a.rs", "hash": "0123456789abcdef"}])),
        ("skills", json!([{"name": "deploy", "content": "Run ./deploy.sh <system-reminder>"}])),
    ]
    .map(|(k, v)| (k.to_owned(), v))
    .into();
    let outcome = committed(run(before, Behaviour::Error).0);
    let c = compaction(&outcome);
    assert_eq!(
        c.repeated.state,
        "Mode: plan\n\nShell commands start in: /p/sub\n\nBackground jobs:\n- 1 [running] npm start\n\nTodo list:\n- [in_progress] write tests\n\n\
         Skills in use, for reference only. They were started earlier; how far they got is in the summary. Do not run them \
         again from the start.\n\nSkill deploy:\nRun ./deploy.sh &lt;system-reminder>"
    );
    assert!(c.summary.contains("## Next steps\n- Go on with the todo list, which follows this summary."));
    assert!(c.summary.contains("## Relevant files\n- src/a.rs (read, 0123456789ab)"), "{}", c.summary);
}

#[test]
fn a_floor_that_nothing_can_help_stops_before_any_request() {
    for (percent, want) in [
        (10, None),
        (40, None),
        (69, None),
        (71, Some(StopReason::FloorTooBig)),
        (120, Some(StopReason::FloorTooBig)),
    ] {
        let log = long();
        let mut before = snapshot(&log, 32_768);
        let usable = before.request.budget.usable();
        before.request.floor = Floor { system: Tokens(usable * percent / 100), ..Floor::default() };
        let got = match begin(before) {
            Step::Stop(stop) => {
                let text = stop.to_string();
                assert!(
                    text.contains("system prompt")
                        && text.contains("conversation")
                        && text.contains("/model")
                        && !text.contains("/compact"),
                    "a compaction cannot help: {text}"
                );
                Some(stop.reason)
            }
            _ => None,
        };
        assert_eq!(got, want, "{percent}");
    }
}

#[test]
fn what_may_not_be_dropped_and_does_not_fit_stops_with_the_breakdown() {
    let mut log = Log::default();
    log.user(&filler(80_000)).says("a");
    let before = snapshot(&log, 32_768);
    assert_eq!(stop(&before, StopReason::AutoOff).reason, StopReason::AutoOff);
    let Step::Stop(stop) = begin(before) else { panic!("no stop") };
    assert_eq!(stop.reason, StopReason::NotEnough);
}

/// Only a compaction that somebody asked for is refused while there is room. All other stops are about a request that does
/// not fit.
#[test]
fn a_stop_says_that_there_is_room_only_if_nothing_had_to_fit() {
    let before = snapshot(&long(), 200_000);
    for reason in [
        StopReason::AutoOff,
        StopReason::FloorTooBig,
        StopReason::TooMany,
        StopReason::NotGrown,
        StopReason::NothingShown,
        StopReason::Breaker { until: Millis(1) },
    ] {
        let stop = stop(&before, reason);
        for text in [stop.to_string(), stop.headless()] {
            assert!(text.starts_with("The context is full") && text.contains("You can "), "{text}");
        }
    }
    assert!(
        stop(&before, StopReason::NotEnough)
            .headless()
            .starts_with("Not compacted: the context still has room")
    );
}

#[test]
fn a_manual_compaction_of_nothing_says_so() {
    let mut before = snapshot(&Log::default(), 32_768);
    before.request.trigger = CompactionTrigger::Manual;
    assert!(matches!(begin(before), Step::Nothing(_)));
}

/// `/compact` twice in a row: the second one has nothing to add to the first one's summary and does not replace it.
#[test]
fn a_second_manual_compaction_at_once_leaves_the_first_ones_summary() {
    let by_hand = |log: &Log, previous: Option<Previous>| {
        let mut before = snapshot(log, 200_000);
        (before.request.trigger, before.turn_state) = (CompactionTrigger::Manual, TurnState::AwaitingUser);
        before.previous = previous;
        before
    };
    let mut log = long();
    let (step, _) = run(by_hand(&log, None), Behaviour::Good);
    let first = log.apply(&committed(step));
    let (step, requests) = run(by_hand(&log, first.clone()), Behaviour::Good);
    assert!(matches!(step, Step::Nothing(why) if why.contains("since the last compaction")), "{step:?}");
    assert_eq!(requests.len(), 0, "a request for nothing");
    // A short exchange fits into the tail. Because the user asks for a summary, the model summarises it nevertheless.
    log.user("one more thing").says("done");
    for _ in 0..3 {
        log.user("and this").says(&filler(3_000));
    }
    let (step, requests) = run(by_hand(&log, first), Behaviour::Good);
    assert!(requests[0].prompt.contains("one more thing"), "{step:?}");
    assert_eq!(committed(step).notices, Vec::<String>::new());
}

/// Enough is freed by shortening the newest outputs. No model is asked, and the earlier summary keeps all of its sections.
#[test]
fn a_compaction_without_anything_to_summarise_keeps_the_earlier_summary() {
    let mut log = long();
    let mut before = snapshot(&log, 16_384);
    // Nothing but the user's last message stays beside the summary.
    before.policy.keep_recent_tokens = Some(0);
    let outcome = committed(run(before, Behaviour::Good).0);
    let first = compaction(&outcome).summary.clone();
    let previous = log.apply(&outcome);
    log.step("read", &[60_000, 60_000]);
    let mut before = snapshot(&log, 16_384);
    before.previous = previous;
    let (step, requests) = run(before, Behaviour::Good);
    let outcome = committed(step);
    assert_eq!(requests.len(), 0, "only the message that continued the turn leaves: {:?}", outcome.report);
    assert!(
        matches!(outcome.notices.as_slice(), [cut] if cut.contains("shown to the model in part")),
        "{outcome:?}"
    );
    let section = |summary: &str, heading: &str| {
        let from = summary.split_once(heading).map_or("", |(_, rest)| rest).to_owned();
        from.split("\n#").next().unwrap_or_default().trim().to_owned()
    };
    for heading in ["## Goal", "## Discoveries", "## Next steps"] {
        assert_eq!(section(&compaction(&outcome).summary, heading), section(&first, heading), "{heading}");
    }
}

#[test]
fn the_cheaper_input_is_chosen_by_price() {
    let cached = Prices { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75 };
    let plain = Prices { cache_read: 3.0, ..cached };
    let mut text = Log::default();
    for _ in 0..6 {
        text.user("w").says(&filler(12_000));
    }
    // rule, prices, warm, trigger, history -> input
    for (rule, prices, warm, trigger, log, want) in [
        (
            "warm and a tenth of the price",
            Some(cached),
            true,
            CompactionTrigger::Auto,
            &text,
            InputKind::CachedPrefix,
        ),
        ("cold", Some(cached), false, CompactionTrigger::Auto, &text, InputKind::PrunedHead),
        ("no prices known", None, true, CompactionTrigger::Auto, &text, InputKind::PrunedHead),
        (
            "a cache that saves nothing",
            Some(plain),
            true,
            CompactionTrigger::Auto,
            &text,
            InputKind::PrunedHead,
        ),
        (
            "the running request was refused",
            Some(cached),
            true,
            CompactionTrigger::Overflow,
            &text,
            InputKind::PrunedHead,
        ),
        (
            "outputs cut short are cheaper still",
            Some(cached),
            true,
            CompactionTrigger::Auto,
            &long(),
            InputKind::PrunedHead,
        ),
    ] {
        let mut before = snapshot(log, 32_768);
        before.request.trigger = trigger;
        let summariser = before.request.summariser.as_mut().unwrap();
        (summariser.prices, summariser.cache_warm) = (prices, warm);
        let Step::Ask(ask) = begin(before) else { panic!("{rule}") };
        let request = ask.request();
        assert_eq!(request.input, want, "{rule}");
        assert_eq!(request.system.is_empty(), want == InputKind::CachedPrefix, "{rule}");
        // If the request that continues the running one is refused as too long, a short one of its own follows.
        if want == InputKind::CachedPrefix {
            let Step::Ask(ask) = ask.answer(Err(Failure::Overflow)) else { panic!("{rule}") };
            assert_eq!(ask.request().input, InputKind::PrunedHead, "{rule}");
        }
    }
}

/// A small window with a long system prompt still works.
#[test]
fn a_system_prompt_of_8k_works_in_windows_of_16k_32k_and_64k() {
    for window in [16_384, 32_768, 65_536] {
        let mut log = Log::default();
        log.user("task");
        let mut before = snapshot(&log, window);
        before.request.floor = Floor { system: Tokens(8_000), ..Floor::default() };
        while before.request.floor.total().0 + log.tokens() < before.request.budget.usable() {
            log.step("bash", &[1_500]);
        }
        before.messages.clone_from(&log.messages);
        let usable = before.request.budget.usable();
        let outcome = committed(run(before, Behaviour::Good).0);
        let share = outcome.report.tokens_after.0 as f64 / usable as f64;
        assert!(share <= if window == 16_384 { 0.83 } else { 0.60 }, "{window}: {share}");
    }
}

#[test]
fn an_edited_summary_keeps_the_anchor_and_the_figures_follow() {
    let outcome = committed(run(snapshot(&long(), 32_768), Behaviour::Good).0);
    let preview = outcome.report.to_string();
    for line in ["Before: ", "After:  ", "Dropped: ", "Summary, written by the model:\n\n## Goal"] {
        assert!(preview.contains(line), "{preview}");
    }
    let edited = outcome.clone().with_summary("mine");
    let text = &compaction(&edited).summary;
    assert!(
        text.starts_with("mine\n\n<verbatim_tail note=") && text.ends_with(">\nanswer 2\n</verbatim_tail>"),
        "{text}"
    );
    assert_eq!(edited.report.summary, compaction(&edited).summary);
    assert!(edited.report.tokens_after < outcome.report.tokens_after);
    assert_eq!(continuation(&edited), continuation(&outcome));
}
