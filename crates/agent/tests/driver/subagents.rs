//! Subagents: work of their own in a context of their own, with no more rights than the agent they work for.

use crate::support::*;
use becket_agent::subagent::Kind;
use becket_model::ErrorKind;
use becket_types::{
    CallId, Command, Decision, Event, FinishReason, Part, PathFate, PermissionMode, SubagentOf,
    SubagentReport, TurnEnd, TurnResult, Usage,
};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Barrier;

fn with_subagents(replies: Vec<Reply>) -> Setup {
    let mut setup = Setup::new(replies);
    setup.settings.subagents = Kind::built_in().into();
    setup
}

fn task(id: &str, agent: &str, prompt: &str) -> Part {
    call(id, "task", json!({"description": format!("do {prompt}"), "prompt": prompt, "agent": agent}))
}

/// The event of the subagent of call `id` that this event wraps, if it is one.
fn nested<'a>(event: &'a Event, id: &str) -> Option<&'a Event> {
    match event {
        Event::Subagent { call_id, what } if call_id.as_str() == id => Some(what),
        _ => None,
    }
}

fn asked(event: &Event) -> bool {
    matches!(nested(event, "t"), Some(Event::PermissionAsked(_)))
}

fn report(rig: &Rig, id: &str) -> SubagentReport {
    let finished = rig.log.iter().rev().find_map(|event| match event {
        Event::ToolFinished { message, .. } if message.result_of().is_some_and(|c| c.as_str() == id) => {
            Some(message)
        }
        _ => None,
    });
    let details = finished.unwrap().parts.iter().find_map(|part| match part {
        Part::ToolResult { details, .. } => Some(details),
        _ => None,
    });
    SubagentReport::from_details(details.unwrap()).unwrap()
}

fn decide(call: &str, decision: Decision) -> Command {
    let what = Command::Decide { call_id: id(call), decision };
    Command::ToSubagent { call_id: id("t"), what: Box::new(what) }
}

#[tokio::test(start_paused = true)]
async fn it_works_in_a_context_of_its_own_and_its_last_words_are_the_result() {
    let setup = with_subagents(vec![
        calls(vec![task("t", "general", "look for x")]),
        calls(vec![call("c", "read", json!({"path": "a"})), call("n", "task", json!({"prompt": "deeper"}))]),
        say("x is in a:1"),
        say("thanks"),
    ])
    .left(Vec::new());
    let sessions = setup.dir.path().join("sessions");
    let mut rig = setup.start();
    let result = rig.turn("the big job").await;
    assert_eq!((result.end, result.text.as_str()), (TurnEnd::Completed, "thanks"));

    // The subagent saw its task and nothing else; the agent saw the subagent's last words.
    let seen = rig.model.turns();
    assert_eq!(seen[1].lines().last().unwrap(), "user: look for x");
    assert!(!seen[1].lines().iter().any(|line| line.contains("the big job")));
    assert_eq!((seen[0].tools, seen[1].tools), (3, 2), "it has no subagents");
    let own = seen[2].lines();
    assert_eq!(
        own[own.len() - 2..],
        ["result c: did a", "result n: There is no tool named `task`. Tools: bash, read."]
    );
    assert_eq!(seen[3].last(), "result t: x is in a:1");
    assert_eq!(seen[3].lines().len(), seen[0].lines().len() + 2);

    // The report and the events describe the subagent's run.
    let report = report(&rig, "t");
    assert_eq!((report.agent.as_str(), report.description.as_str()), ("general", "do look for x"));
    assert_eq!(report.steps, 2);
    let calls: Vec<_> =
        report.calls.iter().map(|c| (c.name.as_str(), c.subject.as_str(), c.failed)).collect();
    assert_eq!(calls, [("read", "a", false), ("task", "", true)]);
    let told: Vec<_> = rig.log.iter().filter_map(|event| nested(event, "t")).collect();
    assert!(matches!(told[0], Event::SessionStarted { session, .. } if *session == report.session));
    assert!(matches!(told.last().unwrap(), Event::TurnFinished(_)));
    assert!(!told.iter().any(|e| matches!(e, Event::TextDelta { .. } | Event::ContextUsed { .. })));

    // The subagent has a session of its own; it and the agent's session name each other.
    let summaries = becket_session::store::list(&sessions, None).unwrap();
    let its = summaries.iter().find(|s| s.id == report.session).unwrap();
    let of = its.subagent_of().unwrap();
    let above = {
        rig.log.iter().find_map(|e| match e {
            Event::SessionStarted { session, .. } => Some(*session),
            _ => None,
        })
    };
    assert_eq!(of, SubagentOf { session: above.unwrap(), call_id: id("t"), agent: "general".into() });
    assert_eq!(its.title.as_deref(), Some("do look for x"));
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn those_that_only_read_run_side_by_side_and_change_nothing() {
    let look = |path: &str| {
        let touch = call("d", "bash", json!({"command": "touch x"}));
        calls(vec![call("c", "read", json!({"path": path})), touch])
    };
    let mut setup = with_subagents(vec![
        calls(vec![task("t", "explore", "one"), task("u", "explore", "two")]),
        look("a"),
        look("b"),
        say("read"),
        say("read"),
        say("ok"),
    ]);
    // Neither `read` of the two subagents returns before both run.
    setup.world = Arc::new(World { barrier: Some(Barrier::new(2)), ..World::default() });
    let mut rig = setup.start();
    let result = rig.turn("go").await;
    assert_eq!(result.end, TurnEnd::Completed);
    let mut ran = rig.ran();
    ran.sort();
    assert_eq!(ran, ["read a", "read b"]);
    let denied: Vec<_> = result.denials.iter().map(|d| d.reason.contains("permission mode plan")).collect();
    assert_eq!(denied, [true, true]);
    assert_eq!(rig.model.turns()[5].lines().len(), rig.model.turns()[0].lines().len() + 4);
}

#[tokio::test(start_paused = true)]
async fn others_run_alone() {
    let mut rig = with_subagents(vec![
        calls(vec![task("t", "general", "one"), task("u", "general", "two")]),
        bash("c", "first"),
        say("one done"),
        bash("c", "second"),
        say("two done"),
        say("ok"),
    ])
    .start();
    rig.turn("go").await;
    assert_eq!(rig.ran(), ["bash first", "bash second"]);
    let lines = rig.model.turns()[5].lines();
    assert_eq!(lines[lines.len() - 2..], ["result t: one done", "result u: two done"]);
}

#[tokio::test(start_paused = true)]
async fn a_person_is_asked_for_it_and_what_is_allowed_for_the_session_is_allowed_to_all() {
    let mut setup = with_subagents(vec![
        calls(vec![task("t", "general", "one")]),
        bash("c", "touch x"),
        say("done"),
        bash("c2", "touch x"),
        calls(vec![task("t2", "general", "two")]),
        bash("c", "touch x"),
        say("done"),
        say("ok"),
    ]);
    (setup.mode, setup.settings.asking.headless) = (PermissionMode::Default, false);
    let mut rig = setup.start();
    rig.send(prompt("go")).await;
    rig.event(asked).await;
    assert_eq!(rig.ran(), Vec::<String>::new());
    rig.send(decide("c", Decision::AllowSession)).await;
    assert_eq!(rig.finished().await.end, TurnEnd::Completed);
    assert_eq!(rig.ran(), ["bash touch x"; 3]);
    let all = rig.log.iter().filter(|e| matches!(e, Event::PermissionAsked(_)) || asked(e)).count();
    assert_eq!(all, 1);
}

#[tokio::test(start_paused = true)]
async fn a_mode_that_is_set_meanwhile_holds_for_it_too() {
    let mut rig = with_subagents(vec![
        calls(vec![task("t", "general", "one")]),
        calls(vec![
            call("c", "read", json!({"path": "wait"})),
            call("d", "bash", json!({"command": "touch x"})),
        ]),
        say("no"),
        say("ok"),
    ])
    .start();
    rig.send(prompt("go")).await;
    rig.event(|e| matches!(nested(e, "t"), Some(Event::ToolStarted { .. }))).await;
    rig.send(Command::SetMode { mode: "plan".to_owned() }).await;
    rig.event(|e| matches!(e, Event::ModeChanged { .. })).await;
    rig.world.go.notify_one();
    let result = rig.finished().await;
    assert_eq!(rig.ran(), ["read wait"]);
    assert_eq!(result.denials.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_reaches_it_and_says_how_far_it_came() {
    let setup = with_subagents(vec![calls(vec![task("t", "general", "one")]), bash("c", "gentle")]);
    let mut rig = setup.left(Vec::new()).start();
    rig.send(prompt("go")).await;
    rig.event(|e| matches!(nested(e, "t"), Some(Event::ToolStarted { .. }))).await;
    rig.send(Command::Interrupt).await;
    let result = rig.finished().await;
    assert_eq!(result.end, TurnEnd::Interrupted);
    assert_eq!(report(&rig, "t").calls.len(), 1);
    let session = rig.end().await;
    let session = session.lock().unwrap();
    let last: Vec<String> = session.view().live().flat_map(|message| render(message)).collect();
    assert!(last.last().unwrap().contains("The subagent did not finish: it was interrupted."), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn one_that_is_interrupted_alone_leaves_the_agent_going_on() {
    let mut rig = with_subagents(vec![
        calls(vec![task("t", "general", "one")]),
        bash("c", "gentle"),
        say("I go on without it"),
    ])
    .start();
    rig.send(prompt("go")).await;
    rig.event(|e| matches!(nested(e, "t"), Some(Event::ToolStarted { .. }))).await;
    // Nothing but a decision and an interrupt is passed on.
    for what in [Command::Undo, Command::Interrupt] {
        rig.send(Command::ToSubagent { call_id: id("t"), what: Box::new(what) }).await;
    }
    let result = rig.finished().await;
    assert_eq!((result.end, result.text.as_str()), (TurnEnd::Completed, "I go on without it"));
    assert!(rig.names().contains(&"notice".to_owned()));
    assert!(rig.model.turns()[2].last().contains("did not finish: it was interrupted"));
}

#[tokio::test(start_paused = true)]
async fn one_that_does_not_listen_is_given_up() {
    let setup = with_subagents(vec![calls(vec![task("t", "general", "one")]), bash("c", "stubborn")]);
    let mut rig = setup.start();
    rig.send(prompt("go")).await;
    rig.event(|e| matches!(nested(e, "t"), Some(Event::ToolStarted { .. }))).await;
    rig.send(Command::Interrupt).await;
    assert_eq!(rig.finished().await.end, TurnEnd::Interrupted);
    rig.end().await;
}

async fn failed(replies: Vec<Reply>, change: impl FnOnce(&mut Setup)) -> (String, TurnResult) {
    let mut all = vec![calls(vec![task("t", "general", "one")])];
    all.extend(replies);
    all.push(say("ok"));
    let mut setup = with_subagents(all);
    change(&mut setup);
    let mut rig = setup.start();
    let result = rig.turn("go").await;
    let seen = rig.model.turns();
    let last = seen.last().unwrap();
    let line = last.lines().into_iter().rev().find(|line| line.starts_with("result t")).unwrap();
    (line, result)
}

#[tokio::test(start_paused = true)]
async fn what_did_not_end_well_is_an_error_that_says_why() {
    let (line, result) = failed(vec![Reply::Refuse(ErrorKind::Auth, Some(401))], |_| {}).await;
    assert_eq!(line, "result t: The subagent did not finish: Auth happened.");
    assert_eq!(result.end, TurnEnd::Completed);

    let (line, _) = failed(vec![say(" "), say(" "), say(" "), say(" ")], |_| {}).await;
    assert!(
        line.starts_with(
            "result t: The subagent did not finish: The model answered twice in a row without any text"
        ),
        "{line}"
    );

    let steps = vec![bash("c", "x"), say("half of it")];
    let (line, _) = failed(steps, |setup| setup.settings.limits.run.max_turns = Some(1)).await;
    assert!(
        line.contains("did not finish: it was stopped after 1 request.\nIts last words:\nhalf of it"),
        "{line}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_that_cannot_be_given_is_told_to_the_model() {
    for (input, want) in [
        (
            json!({"prompt": "x", "agent": "nobody"}),
            "There is no agent \"nobody\". Agents: explore, general.",
        ),
        (json!({"description": "x", "agent": "general"}), "Invalid input for task: "),
    ] {
        let mut rig = with_subagents(vec![calls(vec![call("t", "task", input)]), say("ok")]).start();
        rig.turn("go").await;
        let last = rig.model.turns()[1].last();
        assert!(last.contains(want), "{last}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_it_spends_counts_for_all() {
    let million = Usage { input: 1_000_000, ..Usage::default() };
    let dear = |parts, finish| Reply::Used(parts, finish, million);
    let mut setup = with_subagents(vec![
        calls(vec![task("t", "general", "one"), task("u", "general", "two")]),
        dear(vec![call("c", "bash", json!({"command": "x"}))], FinishReason::ToolCalls),
        dear(vec![call("d", "bash", json!({"command": "y"}))], FinishReason::ToolCalls),
    ]);
    setup.settings.limits.run.max_usd = Some(1.5);
    let mut rig = setup.start();
    let result = rig.turn("go").await;
    assert!(
        matches!(&result.end, TurnEnd::Budget { what } if what.contains("of $1.5000")),
        "{:?}",
        result.end
    );
    assert!((result.cost.0 - 2.0).abs() < 0.1, "{:?}", result.cost);
    assert_eq!(result.usage.input / 1_000_000, 0, "only the conversation's own requests");
    assert_eq!((result.models.len(), result.models[0].usage.input / 1_000_000), (1, 2));
    let text = |id: &str| {
        rig.log.iter().rev().find_map(|event| match event {
            Event::ToolFinished { message, .. } => {
                render(message).into_iter().find(|line| line.starts_with(&format!("result {id}")))
            }
            _ => None,
        })
    };
    assert!(text("t").unwrap().contains("stopped at the budget: spent $2.00"));
    assert!(text("u").unwrap().contains("Not run: budget limit reached (spent $2.00"));
}

#[tokio::test(start_paused = true)]
async fn when_nobody_is_there_any_more_its_question_is_answered_with_no() {
    let mut setup = with_subagents(vec![
        calls(vec![task("t", "general", "one")]),
        bash("c", "touch x"),
        say("it was denied"),
        say("ok"),
    ]);
    (setup.mode, setup.settings.asking.headless) = (PermissionMode::Default, false);
    let mut rig = setup.start();
    rig.send(prompt("go")).await;
    rig.event(asked).await;
    let Rig { handle, task, world, .. } = rig;
    let (commands, _events) = (handle.commands, handle.events);
    drop(commands);
    let session = task.await.unwrap();
    assert_eq!(world.ran.lock().unwrap().len(), 0);
    let lines: Vec<String> =
        session.lock().unwrap().view().live().flat_map(|message| render(message)).collect();
    assert!(lines.contains(&"result t: it was denied".to_owned()), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn an_undo_of_the_turn_takes_back_what_it_did_to_files() {
    let mut setup = with_subagents(vec![
        bash("c", "put a.txt mine"),
        calls(vec![task("t", "general", "one")]),
        bash("c", "put a.txt theirs"),
        bash("d", "put b.txt new"),
        say("done"),
        say("ok"),
    ]);
    setup.settings.tools.snapshots =
        Some(becket_snapshot::Settings { roots: vec![setup.cwd()], ..becket_snapshot::Settings::default() });
    let project = setup.cwd();
    std::fs::write(project.join("a.txt"), "first").unwrap();
    let mut rig = setup.left(Vec::new()).start();
    rig.turn("go").await;
    assert_eq!(std::fs::read_to_string(project.join("a.txt")).unwrap(), "theirs");
    rig.send(Command::Undo).await;
    let Event::UndoPlanned(plan) = rig.event(|e| matches!(e, Event::UndoPlanned(_))).await else { panic!() };
    let fates: Vec<_> = plan.paths.iter().map(|path| path.fate.clone()).collect();
    assert!(
        fates.len() == 2 && fates.iter().all(|fate| !matches!(fate, PathFate::Conflict { .. })),
        "{fates:?}"
    );
    rig.send(Command::CarryOut { plan: plan.plan, force: false }).await;
    rig.event(|e| matches!(e, Event::UndoDone(_))).await;
    assert_eq!(std::fs::read_to_string(project.join("a.txt")).unwrap(), "first");
    assert!(!project.join("b.txt").exists());
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_the_result_names_its_session() {
    use becket_types::{EntryKind, JournalState, Message, Origin, Role};
    let journal = |state, result: Value| EntryKind::ToolJournal {
        call_id: CallId::from("t"),
        state,
        tool: Some("task".into()),
        subject: Some("general".into()),
        result,
    };
    let mut asked = Message::user("go");
    asked.parts = vec![task("t", "general", "one")];
    (asked.role, asked.origin) = (Role::Assistant, Origin::Model);
    let setup = with_subagents(vec![say("I look first")]).left(vec![
        EntryKind::System {
            items: vec![becket_types::SystemItem {
                kind: becket_types::SystemKind::Prompt,
                path: None,
                text: "p".into(),
            }],
        },
        EntryKind::Message { message: Message::user("go") },
        EntryKind::Message { message: asked },
        journal(JournalState::Intended, Value::Null),
        journal(JournalState::Started, json!({"subagent": "0192-its-session"})),
    ]);
    let mut rig = setup.start();
    rig.turn("and now?").await;
    let lines = rig.model.turns()[0].lines();
    let line = lines.iter().find(|line| line.starts_with("result t")).unwrap();
    assert!(line.ends_with("The subagent's session is 0192-its-session."), "{line}");
}
