//! Undo, redo and rewind in a running session: planned, shown, confirmed, done; and what makes a plan void.

use crate::support::*;
use becket_session::Session;
use becket_types::{
    Command, Event, MessageId, NoticeLevel, PathFate, RewindWhat, UndoKind, UndoOutcome, UndoPlan,
};
use serde_json::json;
use std::sync::{Arc, Mutex};

/// A session on disk that saves files before calls change them.
fn keeping(replies: Vec<Reply>) -> Setup {
    let mut setup = Setup::new(replies);
    setup.settings.tools.snapshots =
        Some(becket_snapshot::Settings { roots: vec![setup.cwd()], ..becket_snapshot::Settings::default() });
    setup.left(Vec::new())
}

fn put(id: &str, file: &str, text: &str) -> Reply {
    bash(id, &format!("put {file} {text}"))
}

impl Rig {
    fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.dir.path().join("project").join(name)).ok()
    }

    async fn plan(&mut self, command: Command) -> UndoPlan {
        self.send(command).await;
        match self.event(|e| matches!(e, Event::UndoPlanned(_) | Event::Notice { .. })).await {
            Event::UndoPlanned(plan) => *plan,
            other => panic!("{other:?}"),
        }
    }

    async fn carry_out(&mut self, plan: u64, force: bool) -> UndoOutcome {
        self.send(Command::CarryOut { plan, force }).await;
        match self.event(|e| matches!(e, Event::UndoDone(_) | Event::Notice { .. })).await {
            Event::UndoDone(outcome) => *outcome,
            other => panic!("{other:?}"),
        }
    }

    /// Sends a command that cannot be carried out and returns the notice.
    async fn told(&mut self, command: Command) -> (NoticeLevel, String) {
        self.send(command).await;
        let told =
            self.event(|e| matches!(e, Event::Notice { .. } | Event::UndoPlanned(_) | Event::UndoDone(_)));
        match told.await {
            Event::Notice { level, text } => (level, text),
            other => panic!("{other:?}"),
        }
    }

    /// Ends the agent. Returns its session and the temporary folder that holds it.
    async fn left_behind(self) -> (Arc<Mutex<Session>>, tempfile::TempDir) {
        self.send(Command::EndInput).await;
        (self.task.await.unwrap(), self.dir)
    }

    fn messages(&self) -> Vec<MessageId> {
        let user = |event: &Event| match event {
            Event::UserMessage { message, .. } => Some(message.id),
            _ => None,
        };
        self.log.iter().filter_map(user).collect()
    }
}

fn fates(plan: &UndoPlan) -> Vec<(String, PathFate)> {
    let name = |path: &becket_types::PathPlan| path.path.0.file_name().unwrap().to_str().unwrap().to_owned();
    plan.paths.iter().map(|path| (name(path), path.fate.clone())).collect()
}

fn view(session: &Arc<Mutex<Session>>) -> Vec<String> {
    let session = session.lock().unwrap();
    let lines: Vec<String> = session.view().live().flat_map(|message| render(message)).collect();
    lines
}

#[tokio::test]
async fn undo_is_shown_confirmed_and_redone_and_the_next_call_is_recorded_rightly() {
    let replies = vec![
        put("c1", "a.txt", "one"),
        say("1"),
        put("c2", "a.txt", "two"),
        put("c3", "b.txt", "new"),
        say("2"),
    ];
    let mut rig = keeping(replies).start();
    rig.turn("first").await;
    rig.turn("second").await;
    let plan = rig.plan(Command::Undo).await;
    assert_eq!(plan.kind, UndoKind::Undo);
    assert_eq!(
        fates(&plan),
        [("a.txt".to_owned(), PathFate::Restore), ("b.txt".to_owned(), PathFate::Delete)]
    );
    assert_eq!(plan.paths[0].lines, Some((1, 1)));
    assert_eq!(plan.calls.len(), 2);
    assert_eq!(rig.file("a.txt").as_deref(), Some("two"), "a plan changes nothing");
    let outcome = rig.carry_out(plan.plan, false).await;
    assert_eq!((outcome.restored, outcome.deleted, outcome.failed.len()), (1, 1, 0));
    assert_eq!((rig.file("a.txt").as_deref(), rig.file("b.txt")), (Some("one"), None));
    let (_, text) = rig.told(Command::CarryOut { plan: plan.plan, force: false }).await;
    assert!(text.contains("is out of date"), "{text}");
    let plan = rig.plan(Command::Redo).await;
    assert_eq!(plan.kind, UndoKind::Redo);
    rig.carry_out(plan.plan, false).await;
    assert_eq!((rig.file("a.txt").as_deref(), rig.file("b.txt").as_deref()), (Some("two"), Some("new")));
    // Undone again, then a call changes the same file: its undo leads to what the undo left.
    let plan = rig.plan(Command::Undo).await;
    rig.carry_out(plan.plan, false).await;
    rig.model.script.lock().unwrap().replies.extend([put("c4", "a.txt", "three"), say("3")]);
    rig.turn("third").await;
    assert_eq!(
        rig.told(Command::Redo).await.1,
        "Nothing to redo: the last change was not an undo, or a tool call has changed files since the undo."
    );
    let plan = rig.plan(Command::Undo).await;
    assert_eq!(fates(&plan), [("a.txt".to_owned(), PathFate::Restore)]);
    rig.carry_out(plan.plan, false).await;
    assert_eq!(rig.file("a.txt").as_deref(), Some("one"));
}

#[tokio::test]
async fn what_a_person_changed_is_a_conflict_and_overwritten_only_by_force() {
    let mut rig = keeping(vec![put("c1", "a.txt", "model"), say("1")]).start();
    rig.turn("go").await;
    std::fs::write(rig.dir.path().join("project/a.txt"), "person").unwrap();
    let plan = rig.plan(Command::Undo).await;
    assert!(matches!(&plan.paths[0].fate, PathFate::Conflict { why } if why == "changed since"), "{plan:?}");
    let outcome = rig.carry_out(plan.plan, false).await;
    assert_eq!((outcome.restored + outcome.deleted, outcome.left.len()), (0, 1));
    assert_eq!(rig.file("a.txt").as_deref(), Some("person"));
    let plan = rig.plan(Command::Undo).await;
    let outcome = rig.carry_out(plan.plan, true).await;
    assert_eq!((outcome.deleted, outcome.left.len()), (1, 0));
    assert_eq!(rig.file("a.txt"), None);
    let plan = rig.plan(Command::Redo).await;
    rig.carry_out(plan.plan, false).await;
    assert_eq!(rig.file("a.txt").as_deref(), Some("person"), "what force overwrote was kept first");
}

#[tokio::test]
async fn rewind_takes_back_conversation_files_or_both() {
    for (what, text, lines) in [
        (RewindWhat::Files, None, 8),
        (RewindWhat::Conversation, Some("two"), 4),
        (RewindWhat::Both, Some("one"), 4),
    ] {
        let replies =
            vec![put("c1", "a.txt", "one"), say("1"), put("c2", "a.txt", "two"), say("2"), say("again")];
        let mut rig = keeping(replies).start();
        rig.turn("first").await;
        rig.turn("second").await;
        let to = rig.messages()[usize::from(what != RewindWhat::Files)];
        let plan = rig.plan(Command::Rewind { to, what }).await;
        assert_eq!(plan.kind, UndoKind::Rewind);
        assert_eq!(plan.conversation.is_some(), what != RewindWhat::Files);
        assert_eq!(plan.paths.is_empty(), what == RewindWhat::Conversation);
        let outcome = rig.carry_out(plan.plan, false).await;
        assert_eq!(outcome.conversation, plan.conversation);
        assert_eq!(rig.file("a.txt").as_deref(), text, "{what:?}");
        rig.turn("third").await;
        let seen = rig.model.turns().pop().unwrap().lines();
        assert_eq!(seen.len(), lines + 1, "{what:?}: {seen:#?}");
        assert_eq!(seen.iter().any(|line| line == "user: second"), what == RewindWhat::Files);
        assert_eq!(seen.last().unwrap(), "user: third");
        let (session, _dir) = rig.left_behind().await;
        assert_eq!(view(&session).len(), lines + 2);
        // A front end that attaches later and replays the ledger sees the same conversation.
        let entries: Vec<_> = session.lock().unwrap().entries().unwrap().collect();
        let said: Vec<String> = becket_session::replay::events(entries)
            .into_iter()
            .filter_map(|event| match event {
                Event::UserMessage { message, .. } => Some(message.text()),
                _ => None,
            })
            .collect();
        let want: &[&str] =
            if what == RewindWhat::Files { &["first", "second", "third"] } else { &["first", "third"] };
        assert_eq!(said, want);
    }
}

#[tokio::test]
async fn a_rewound_session_is_the_same_in_another_process() {
    let mut rig =
        keeping(vec![put("c1", "a.txt", "one"), say("1"), put("c2", "a.txt", "two"), say("2")]).start();
    rig.turn("first").await;
    rig.turn("second").await;
    let to = rig.messages()[1];
    let plan = rig.plan(Command::Rewind { to, what: RewindWhat::Both }).await;
    rig.carry_out(plan.plan, false).await;
    let mut next = rig.again(vec![put("c3", "a.txt", "three"), say("3")]).await;
    next.settings.tools.snapshots =
        Some(becket_snapshot::Settings { roots: vec![next.cwd()], ..becket_snapshot::Settings::default() });
    let mut rig = next.start();
    rig.turn("third").await;
    assert!(!rig.model.turns()[0].lines().iter().any(|line| line.contains("second")));
    let plan = rig.plan(Command::Undo).await;
    rig.carry_out(plan.plan, false).await;
    assert_eq!(rig.file("a.txt").as_deref(), Some("one"));
}

#[tokio::test]
async fn nothing_goes_back_under_a_turn_and_a_turn_voids_a_plan() {
    let mut rig = keeping(vec![put("c1", "a.txt", "one"), say("1"), bash("c2", "wait"), say("2")]).start();
    assert!(rig.told(Command::Undo).await.1.starts_with("Nothing to undo"));
    let nowhere = Command::Rewind { to: MessageId::new(), what: RewindWhat::Both };
    assert!(rig.told(nowhere).await.1.starts_with("There is nothing to go back to"));
    rig.turn("first").await;
    let plan = rig.plan(Command::Undo).await;
    rig.send(prompt("second")).await;
    rig.event(|event| matches!(event, Event::ToolStarted { .. })).await;
    for command in [Command::Undo, Command::Redo, Command::CarryOut { plan: plan.plan, force: true }] {
        let (level, text) = rig.told(command).await;
        assert_eq!(level, NoticeLevel::Warning);
        assert!(text.contains("only between turns"), "{text}");
    }
    rig.world.go.notify_one();
    rig.finished().await;
    let (_, text) = rig.told(Command::CarryOut { plan: plan.plan, force: false }).await;
    assert!(text.contains("is out of date"), "{text}");
    assert_eq!(rig.file("a.txt").as_deref(), Some("one"));
    let (session, _dir) = rig.left_behind().await;
    let kinds = kinds(&session);
    assert!(!kinds.contains(&"revert".to_owned()));
}

#[tokio::test]
async fn a_prompt_that_comes_while_files_go_back_is_answered_behind_it() {
    let mut rig = keeping(vec![put("c1", "a.txt", "one"), say("1"), say("2")]).start();
    rig.turn("first").await;
    let plan = rig.plan(Command::Undo).await;
    rig.send(Command::CarryOut { plan: plan.plan, force: false }).await;
    rig.send(prompt("second")).await;
    rig.send(Command::EndInput).await;
    rig.finished().await;
    let names = rig.names();
    let at = |name: &str| names.iter().rposition(|n| n == name).unwrap();
    assert!(at("undo_done") < at("user_message"), "{names:?}");
    assert_eq!(rig.file("a.txt"), None);
    rig.task.await.unwrap();
}

#[test]
fn commands_and_events_have_these_shapes() {
    let id = MessageId::new();
    let shapes = [
        (Command::Undo, json!({"command": "undo"})),
        (
            Command::Rewind { to: id, what: RewindWhat::Both },
            json!({"command": "rewind", "to": id, "what": "both"}),
        ),
        (
            Command::CarryOut { plan: 3, force: true },
            json!({"command": "carry_out", "plan": 3, "force": true}),
        ),
    ];
    for (command, shape) in shapes {
        assert_eq!(serde_json::to_value(&command).unwrap(), shape);
    }
    let short: Command = serde_json::from_value(json!({"command": "carry_out", "plan": 3})).unwrap();
    assert_eq!(short, Command::CarryOut { plan: 3, force: false });
}
