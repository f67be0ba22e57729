//! When the tokenizer is loaded. Alone in its process, because what is loaded once stays loaded.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[expect(dead_code, reason = "shared with the driver's tests, which use the rest")]
#[path = "driver/support.rs"]
mod support;

use becket_model::tokens;
use becket_session::context::budget::estimate_text;
use becket_types::{Command, EntryKind, Event, FinishReason, Part, TurnEnd, Usage};
use support::*;

/// An answer without usage, as some servers send it.
fn silent(text: &str) -> Reply {
    Reply::Used(vec![Part::text(text)], FinishReason::Stop, Usage::default())
}

fn notices(rig: &Rig) -> usize {
    rig.log.iter().filter(|event| matches!(event, Event::Notice { .. })).count()
}

fn compactions(rig: &Rig) -> usize {
    rig.log.iter().filter(|event| matches!(event, Event::CompactBoundary { .. })).count()
}

/// A text of about `tokens` tokens by the estimate, of words that a tokenizer counts as far fewer tokens.
fn words(tokens: usize) -> String {
    let word = " international";
    let estimate = estimate_text(&word.repeat(1_000)).0 as usize;
    word.repeat(tokens * 1_000 / estimate)
}

#[tokio::test(start_paused = true)]
async fn the_tokenizer_is_loaded_only_where_an_estimate_alone_would_decide() {
    // Ordinary turns, long turns and resumed sessions do not load the tokenizer.
    let mut replies: Vec<Reply> =
        (0..20).map(|n| bash(&format!("c{n}"), &format!("big {}", 14_400 + n * 12))).collect();
    replies.push(say("done"));
    let mut rig = Setup::with_window(32_000, replies).left(Vec::new()).start();
    assert_eq!(rig.turn("the task").await.end, TurnEnd::Completed);
    assert!(compactions(&rig) > 0);
    let mut rig = rig.again(vec![say("again")]).await.start();
    rig.turn("more").await;
    let mut rig = Setup::with_window(100_000, vec![silent("ok")]).start();
    rig.turn(&words(50_000)).await;
    assert!(!tokens::is_loaded());

    // Nothing was reported, and by the estimate the window is just too full: the count says that it is not.
    // Usable are 96,000 of 100,000 tokens, the threshold is at 86,400.
    let mut rig = Setup::with_window(100_000, vec![silent("one"), silent("two"), silent("three")]).start();
    assert_eq!(rig.turn(&words(90_000)).await.text, "one");
    assert!(tokens::is_loaded());
    assert_eq!((compactions(&rig), notices(&rig)), (0, 0));
    assert_eq!(rig.turn("and").await.text, "two");

    // Prompts and interrupts are handled while the tokenizer counts.
    let entries = vec![EntryKind::Message { message: becket_types::Message::user(words(90_000)) }];
    let mut rig = Setup::with_window(100_000, vec![]).left(entries).start();
    rig.send(prompt("go")).await;
    rig.send(Command::Interrupt).await;
    assert_eq!(rig.finished().await.end, TurnEnd::Interrupted);
}
