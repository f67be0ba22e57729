//! Questions about the session: answered while the agent works, from memory, without an entry.

use crate::support::*;
use becket_agent::Query;
use becket_session::context::View;
use becket_types::Event;
use serde_json::json;

/// Asks in the middle of a call, for a session in memory and for one on disk.
#[tokio::test(start_paused = true)]
async fn a_running_session_is_shown_as_its_ledger_has_it() {
    for on_disk in [false, true] {
        let replies = vec![calls(vec![call("c", "read", json!({"path": "wait"}))]), say("done")];
        let setup = Setup::new(replies);
        let mut rig = if on_disk { setup.left(Vec::new()) } else { setup }.start();
        rig.send(prompt("go")).await;
        rig.event(|event| matches!(event, Event::ToolStarted { .. })).await;
        let queries = rig.handle.queries.clone();
        let last = queries.ask(Query::LastEntry).await.unwrap();
        let mut snapshot = queries.ask(Query::Snapshot).await.unwrap().unwrap();
        assert_eq!((snapshot.is_persistent, snapshot.view.last_seq()), (on_disk, last));
        rig.world.go.notify_one();
        rig.finished().await;
        assert!(queries.ask(Query::LastEntry).await.unwrap() > last, "the turn went on");
        // The snapshot has the entries up to the moment of the question, even if it is read later.
        let mut entries = Vec::new();
        let (bad, _) = snapshot.history.read(&[], &mut |entry| entries.push(entry)).unwrap();
        assert!(bad.is_empty(), "{bad:?}");
        assert_eq!(entries.last().unwrap().seq, last);
        assert!(entries.iter().map(|entry| entry.seq.0).eq(1..=last.0), "no question left an entry");
        let (policy, scope) = (snapshot.view.policy().clone(), snapshot.view.scope().clone());
        let mut derived = View::fold(policy, scope, &entries);
        derived.set_calls_may_run(true);
        snapshot.view.set_calls_may_run(true);
        let shown = |view: &mut View| {
            format!("{:?}", view.context().messages) + &format!("{:?}", view.system_items())
        };
        assert_eq!(shown(&mut snapshot.view), shown(&mut derived));
        rig.end().await;
        assert!(queries.ask(Query::LastEntry).await.is_err(), "the agent has ended");
    }
}
