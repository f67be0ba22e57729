//! Side questions: the model sees the conversation, and neither question nor answer becomes a part of it.

use crate::support::{Reply, Scripted, Setup, bash, say};
use becket_model::{ErrorKind, ToolChoice};
use becket_types::{Command, EntryKind, Event, FinishReason, Limit, NoticeLevel, Part};

fn ask(question: &str) -> Command {
    Command::SideQuestion { question: question.to_owned() }
}

fn answers(model: &Scripted, replies: impl IntoIterator<Item = Reply>) {
    model.script.lock().unwrap().summaries.extend(replies);
}

#[tokio::test(start_paused = true)]
async fn a_side_question_sees_the_conversation_and_leaves_no_trace_in_it() {
    let setup = Setup::new(vec![say("it is in a.rs"), say("ok")]);
    let no_usage = becket_types::Usage::default();
    let answer = Reply::Used(vec![Part::text("because of b.rs")], FinishReason::Stop, no_usage);
    answers(&setup.model, [answer]);
    let mut rig = setup.start();
    rig.turn("where is it?").await;
    rig.send(ask("why there?")).await;
    let answer = rig.event(|event| matches!(event, Event::SideAnswer { .. })).await;
    let want = Event::SideAnswer { question: "why there?".into(), answer: "because of b.rs".into() };
    assert_eq!(answer, want);
    rig.turn("go on").await;
    let seen = rig.model.seen();
    let beside = seen.iter().find(|seen| seen.summary).unwrap();
    assert_eq!(beside.tool_choice, ToolChoice::None);
    let lines = beside.lines();
    assert_eq!(lines[lines.len() - 2], "assistant: it is in a.rs");
    assert!(lines.last().unwrap().ends_with("why there?"), "{lines:?}");
    let next = rig.model.turns().pop().unwrap().lines().join("\n");
    assert!(!next.contains("why there?") && !next.contains("b.rs"), "{next}");

    let session = rig.end().await;
    let session = session.lock().unwrap();
    let (mut kept, mut paid) = (0, 0);
    for entry in session.entries().unwrap() {
        match entry.kind {
            EntryKind::Notice { extra, .. } if extra["side_question"]["answer"] == "because of b.rs" => {
                kept += 1;
            }
            EntryKind::Usage { purpose, usage, .. } if purpose == "btw" => {
                assert!(usage.estimated && usage.input > 10 && usage.output > 0, "{usage:?}");
                paid += 1;
            }
            _ => {}
        }
    }
    assert_eq!((kept, paid), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_side_question_is_answered_while_a_tool_runs() {
    let setup = Setup::new(vec![bash("c1", "wait"), say("done")]);
    answers(&setup.model, [Reply::Hang("no"), say("never")]);
    let mut rig = setup.start();
    rig.send(crate::support::prompt("go")).await;
    rig.event(|event| matches!(event, Event::ToolStarted { .. })).await;
    rig.send(ask("first?")).await;
    rig.send(ask("second?")).await;
    let refused = rig.event(|event| matches!(event, Event::Notice { level: NoticeLevel::Error, .. })).await;
    assert!(matches!(&refused, Event::Notice { text, .. } if text.contains("being answered")), "{refused:?}");
    let beside = rig.model.seen().pop().unwrap();
    assert!(beside.summary && !beside.lines().join("\n").contains("c1"), "{:?}", beside.lines());
    // The turn continues while the first question is still unanswered.
    rig.world.go.notify_one();
    assert_eq!(rig.finished().await.text, "done");
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_side_question_without_an_answer_or_without_room_is_one_message() {
    let setup = Setup::new(vec![say("ok")]);
    answers(&setup.model, [Reply::Refuse(ErrorKind::Auth, Some(401)), say(" ")]);
    let mut rig = setup.start();
    rig.turn("go").await;
    rig.send(Command::Limits { change: None }).await;
    for (limit, words) in [
        (None, "The side question has no answer: Auth happened."),
        (None, "The side question has no answer: The model answered without text."),
        (Some(Limit::Usd(Some(0.000_001))), "The limits of the run leave no room for a side question"),
    ] {
        if limit.is_some() {
            rig.send(Command::Limits { change: limit }).await;
        }
        rig.send(ask("why?")).await;
        let told = rig.event(|event| matches!(event, Event::Notice { level: NoticeLevel::Error, .. })).await;
        assert!(matches!(&told, Event::Notice { text, .. } if text.starts_with(words)), "{told:?}");
    }
}
