//! Changes of the context by hand in a running session: planned, shown, carried out, undone; what is sent afterwards.

use crate::support::*;
use becket_types::{Command, ContextChange, ContextPlan, Event, Role, Seq};

impl Rig {
    async fn planned(&mut self, change: ContextChange) -> Result<ContextPlan, String> {
        self.send(Command::ChangeContext(change)).await;
        match self.event(|e| matches!(e, Event::ContextPlanned(_) | Event::Notice { .. })).await {
            Event::ContextPlanned(plan) => Ok(*plan),
            Event::Notice { text, .. } => Err(text),
            other => panic!("{other:?}"),
        }
    }

    async fn changed(&mut self, plan: u64) -> Result<String, String> {
        self.send(Command::CarryOut { plan, force: false }).await;
        match self.event(|e| matches!(e, Event::ContextChanged { .. } | Event::Notice { .. })).await {
            Event::ContextChanged { text } => Ok(text),
            Event::Notice { text, .. } => Err(text),
            other => panic!("{other:?}"),
        }
    }

    /// The sequence number of the user's message with these words.
    fn said(&self, words: &str) -> Seq {
        let is = |event: &&Event| {
            matches!(event, Event::UserMessage { message, .. }
            if message.role == Role::User && message.text() == words)
        };
        match self.log.iter().find(is) {
            Some(Event::UserMessage { message, .. }) => message.seq,
            _ => panic!("{words} was not said"),
        }
    }
}

fn drop(seq: Seq) -> ContextChange {
    ContextChange::Drop { items: vec![seq.to_string()] }
}

#[tokio::test]
async fn a_message_that_is_dropped_is_not_sent_and_is_back_after_an_undo() {
    let mut rig =
        Setup::new(vec![say("one"), say("two"), say("three"), say("four")]).left(Vec::new()).start();
    rig.turn("first").await;
    rig.turn("second").await;
    let (first, second) = (rig.said("first"), rig.said("second"));
    let sent = |rig: &Rig, words: &str| {
        rig.model.turns().last().unwrap().lines().contains(&format!("user: {words}"))
    };

    let why = rig.planned(drop(second)).await.unwrap_err();
    assert!(why.contains("cannot be dropped"), "the last words of the user stay: {why}");
    let plan = rig.planned(drop(first)).await.unwrap();
    assert_eq!((plan.messages_unchanged, plan.items.as_slice()), (0, &[first.to_string()][..]));
    assert!(plan.tokens_after < plan.tokens_before, "{plan:?}");
    assert_eq!(rig.changed(plan.plan).await.unwrap(), "Left out of the context by hand: 1 message.");
    // A plan can be carried out only once.
    assert!(rig.changed(plan.plan).await.unwrap_err().contains("is out of date"));
    rig.turn("third").await;
    assert!(!sent(&rig, "first") && sent(&rig, "second") && sent(&rig, "third"));

    let plan = rig.planned(ContextChange::Undo).await.unwrap();
    // A turn makes a plan void.
    rig.turn("fourth").await;
    assert!(!sent(&rig, "first"));
    assert!(rig.changed(plan.plan).await.unwrap_err().contains("is out of date"));
    rig.model.script.lock().unwrap().replies.push_back(say("five"));
    let plan = rig.planned(ContextChange::Undo).await.unwrap();
    rig.changed(plan.plan).await.unwrap();
    rig.turn("fifth").await;
    assert!(sent(&rig, "first"));
    assert!(rig.planned(ContextChange::Undo).await.unwrap_err().contains("no change of the context"));
    assert!(rig.planned(drop(Seq(9_999))).await.unwrap_err().contains("no item \"9999\""));
}

#[tokio::test]
async fn nothing_is_planned_while_a_turn_is_under_way() {
    let mut rig = Setup::new(vec![say("one"), Reply::Hang("thinking")]).left(Vec::new()).start();
    rig.turn("first").await;
    let first = rig.said("first");
    rig.send(prompt("second")).await;
    rig.event(|event| matches!(event, Event::StepStarted { .. })).await;
    let why = rig.planned(drop(first)).await.unwrap_err();
    assert!(why.contains("only between turns"), "{why}");
    rig.send(Command::Interrupt).await;
    rig.finished().await;
    let plan = rig.planned(drop(first)).await.unwrap();
    rig.changed(plan.plan).await.unwrap();
    let session = rig.end().await;
    let session = session.lock().unwrap();
    assert!(session.view().live().all(|message| message.text() != "first"));
}
