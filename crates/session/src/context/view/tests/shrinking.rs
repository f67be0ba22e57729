//! Reducing the bytes of a request: the order in which content is shortened, and content that stays.

use super::*;
use crate::context::shrink::shrink;

/// An image of this many bytes.
fn heavy(name: &str, bytes: u64) -> Part {
    let mut part = image(name);
    if let Part::Image { extra, .. } = &mut part {
        extra.insert("bytes".into(), json!(bytes));
    }
    part
}

fn shown(message: Message, ledger: &mut Ledger) -> MessageId {
    let id = message.id;
    ledger.message(message);
    id
}

fn with_image(name: &str, bytes: u64) -> Message {
    Message::new(Role::User, Origin::User, vec![Part::text("look"), heavy(name, bytes)])
}

/// Two images, two outputs and an answer to them; then an image and an output without an answer.
fn ledger() -> (Ledger, [MessageId; 3]) {
    let mut ledger = Ledger::new();
    let first = shown(with_image("first", 30_000), &mut ledger);
    ledger.calls(&["small", "large"]);
    ledger.result("small", &"s".repeat(2_000));
    ledger.result("large", &"l\n".repeat(10_000));
    let second = shown(with_image("second", 30_000), &mut ledger);
    ledger.calls(&["new"]);
    ledger.result("new", &"n\n".repeat(10_000));
    let third = shown(with_image("third", 30_000), &mut ledger);
    (ledger, [first, second, third])
}

/// Returns the choice for this many bytes: images, stubs, cuts.
fn chosen(ledger: &mut Ledger, excess: u64) -> (Vec<MessageId>, Vec<String>, Vec<String>) {
    ledger.view.context();
    let Some(shrunk) = shrink(&ledger.view, excess) else { return Default::default() };
    let EntryKind::Prune { calls, media, cuts, freed_tokens, reason } = shrunk.entry else { panic!() };
    assert_eq!((reason, freed_tokens), (PruneReason::MediaLimit, shrunk.freed));
    assert_eq!((media.len(), calls.len() + cuts.len()), (shrunk.media, shrunk.outputs));
    (
        media.into_iter().map(|(id, _)| id).collect(),
        calls.iter().map(|call| call.call_id.to_string()).collect(),
        cuts.iter().map(|cut| cut.call_id.to_string()).collect(),
    )
}

#[test]
fn old_media_go_first_then_large_outputs_then_what_is_new() {
    let (mut ledger, [first, second, third]) = ledger();
    for (excess, media, stubs, cuts) in [
        (0, vec![], vec![], vec![]),
        (1, vec![first], vec![], vec![]),
        (40_001, vec![first, second], vec![], vec![]),
        (80_001, vec![first, second], vec!["large"], vec![]),
        (100_000, vec![first, second], vec!["large", "small"], vec![]),
        (110_000, vec![first, second], vec!["large", "small"], vec!["new"]),
        (u64::MAX, vec![first, second, third], vec!["large", "small"], vec!["new"]),
    ] {
        let want = (
            media,
            stubs.into_iter().map(str::to_owned).collect(),
            cuts.into_iter().map(str::to_owned).collect(),
        );
        assert_eq!(chosen(&mut ledger, excess), want, "{excess}");
    }
}

#[test]
fn pinned_and_protected_content_stays() {
    let (mut ledger, [first, _, third]) = ledger();
    ledger.push(EntryKind::Pin { target: PinTarget::Message(first) });
    ledger.push(EntryKind::Pin { target: PinTarget::Call("large".into()) });
    ledger.view.set_policy(Policy { protect: vec!["read".into()], ..Policy::default() });
    let (media, stubs, cuts) = chosen(&mut ledger, u64::MAX);
    assert_eq!((media.contains(&first), media.last()), (false, Some(&third)));
    assert_eq!((stubs, cuts), (vec![], vec!["new".to_owned()]));
}

/// Shrinking repeatedly by small amounts ends, every entry frees something, and reverting the entries
/// restores everything.
#[test]
fn it_ends_and_can_be_taken_back() {
    for step in [1_000, 30_000, u64::MAX] {
        let (mut ledger, _) = ledger();
        let before = ledger.lines();
        let size = |ledger: &mut Ledger| ledger.lines().iter().map(String::len).sum::<usize>();
        let mut entries = Vec::new();
        loop {
            let now = size(&mut ledger);
            let Some(shrunk) = shrink(&ledger.view, step) else { break };
            entries.push(ledger.push(shrunk.entry));
            if size(&mut ledger) == now && ledger.view.sent_media().count() == 0 {
                break;
            }
            assert!(entries.len() < 40, "{step}");
        }
        assert_eq!(ledger.view.sent_media().count(), 0, "{step}");
        assert!(size(&mut ledger) < 3_000, "{step}: {}", size(&mut ledger));
        for entry in entries {
            ledger.push(EntryKind::Revert { entry });
        }
        assert_eq!(ledger.lines(), before, "{step}");
    }
}
