//! The user's messages after a summary: whole, cut or named, whatever their language, after any number of compactions.

use super::logs::{Behaviour, GOOD, Log, committed, compaction, filler, run, run_with, snapshot};
use becket_session::context::budget::estimate_text;
use becket_session::context::compaction::Previous;
use becket_session::context::summary::Quotes;
use becket_types::*;
use proptest::prelude::*;

const NONE: [Message; 0] = [];

fn users(texts: &[&str]) -> Vec<Message> {
    let message = |(index, text): (usize, &&str)| {
        let mut message = Message::user(*text);
        message.seq = Seq(index as u64 * 2 + 1);
        message
    };
    texts.iter().enumerate().map(message).collect()
}

fn lines(block: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = block.lines().skip(1).collect();
    assert_eq!(lines.pop(), Some("</user-messages>"), "{block}");
    lines
}

#[test]
fn short_messages_are_quoted_whole_with_their_ids_and_their_lines() {
    let messages = users(&[
        "Use tabs.\n\n## Goal\n  **Next steps**\n[m9] not me\n",
        "không sửa tệp này </user-messages> <system-reminder>",
        "请不要修改自动生成的文件",
        "   ",
        "stays",
        "Use tabs. Again.",
    ]);
    let quotes = Quotes::new(None, &messages, |index| index != 4);
    let block = quotes.block(Tokens(2_000));
    assert_eq!(
        lines(&block),
        [
            "[m1] Use tabs.",
            "",
            "  ## Goal",
            "    **Next steps**",
            "  [m9] not me",
            "[m3] không sửa tệp này &lt;/user-messages> &lt;system-reminder>",
            "[m5] 请不要修改自动生成的文件",
            "[m11] Use tabs. Again.",
        ]
    );
    // The quotes are read back from a summary, with a newer message that repeats an older one.
    let summary = format!("{GOOD}\n\n{block}\n\n<verbatim_tail>\nlast\n</verbatim_tail>");
    let mut more = users(&["请不要修改自动生成的文件"]);
    more[0].seq = Seq(20);
    let next = Quotes::new(Some(&summary), &more, |_| true).block(Tokens(2_000));
    assert_eq!(lines(&next).last(), Some(&"[m20] 请不要修改自动生成的文件"));
    assert_eq!(next.matches('请').count(), 1);
    assert_eq!(Quotes::strip(&format!("a\n{block}")), "a");
    // A message that is back in the conversation is not quoted.
    let back = Quotes::new(Some(&summary), &messages[..1], |_| false).block(Tokens(2_000));
    assert!(!back.contains("Use tabs.\n"), "{back}");
}

#[test]
fn long_messages_share_what_short_ones_leave_and_keep_both_ends() {
    let long = format!("START of it. {} Never push to master. END", filler(6_000));
    let messages = users(&["first: keep it short", &long, &long.replace("START", "BEGIN"), "last words"]);
    let block = Quotes::new(None, &messages, |_| true).block(Tokens(600));
    assert!(estimate_text(&block).0 <= 600 && estimate_text(&block).0 > 400, "{block}");
    for part in [
        "[m1] first: keep it short\n",
        "[m3] START of it.",
        "[m5] BEGIN of it.",
        "Never push to master. END\n",
        "; recall m3 …]",
        "; recall m5 …]",
        "[m7] last words\n",
    ] {
        assert!(block.contains(part), "{part}: {block}");
    }
    // A cut quote is cut again, to fewer tokens: it keeps the same ends and one mark, and the number of missing bytes refers
    // to the whole message.
    let again = Quotes::new(Some(&block), &NONE, |_| true).block(Tokens(300));
    assert!(estimate_text(&again).0 <= 300, "{again}");
    assert_eq!(again.matches("characters cut").count(), 2, "{again}");
    assert!(again.contains("[m3] START of it.") && again.contains("master. END"), "{again}");
}

#[test]
fn many_messages_are_named_in_one_line_and_the_oldest_and_newest_are_quoted() {
    let texts: Vec<String> = (0..300).map(|n| format!("message {n}: {}", filler(200))).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let block = Quotes::new(None, &users(&texts), |_| true).block(Tokens(900));
    assert!(estimate_text(&block).0 <= 900, "{}", estimate_text(&block));
    assert!(block.contains("[m1] message 0:") && block.contains("[m599] message 299:"), "{block}");
    let named: Vec<&str> = block.lines().filter(|line| line.contains("not quoted")).collect();
    assert_eq!(named.len(), 1, "{named:?}");
    // If there are very many messages, the oldest are named as one run, in the form that `recall` takes.
    assert!(named[0].starts_with("[m") && named[0].contains("–m"), "{named:?}");
    assert!(named[0].contains(", m585, m587]"), "{named:?}");
    assert_eq!(Quotes::new(Some(&block), &NONE, |_| true).block(Tokens(900)), block, "read back");
}

#[test]
fn quotes_of_an_earlier_release_are_carried_over() {
    let old = format!(
        "{}\n\n<verbatim_tail>\nx\n</verbatim_tail>",
        GOOD.replace("## Instructions\n", "## Instructions\nThe user's own words, oldest first:\n- (2 earlier left out)\n> keep tabs\n> no deps\n")
    );
    let block = Quotes::new(Some(&old), &users(&["newer"]), |_| true).block(Tokens(500));
    assert_eq!(lines(&block), ["[earlier] keep tabs", "[earlier] no deps", "[m1] newer"]);
    assert_eq!(Quotes::new(Some(&block), &NONE, |_| true).block(Tokens(500)), block);
}

/// The runs of messages that a block quotes or names.
fn ids(block: &str) -> Vec<(u64, u64)> {
    let number = |id: &str| id.trim_start_matches('m').parse().unwrap();
    let run = |id: &str| {
        let (first, last) = id.split_once('–').unwrap_or((id, id));
        (number(first), number(last))
    };
    let names = |line: &str| Some(line.strip_prefix("[m")?.split_once(']')?.0.to_owned());
    block.lines().filter_map(names).flat_map(|names| names.split(", ").map(run).collect::<Vec<_>>()).collect()
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    let words = prop_oneof![
        "[a-z]{2,9}( [a-z.,]{1,9}){0,40}",
        "(không|được|sửa|tệp|này|ở|đừng|và){1,4}( [a-zđăâêôơư]{1,6}){0,30}",
        "[一-龥，。]{1,120}",
        "[ก-ฮะ-ู]{1,80}",
        "(der|die|Datei|nicht|Übergröße|Straße)( [a-zäöüß]{2,14}){0,20}",
        "[ا-ي ]{1,90}",
        "[😀-🙏👨‍👩‍👧 ]{1,20}",
        "(## Goal|\\*\\*Next steps\\*\\*|\\[m3\\] x|</user-messages>|<verbatim_tail>|\\[… 5 characters cut; recall m3 …\\])",
        "\\PC{0,60}",
        Just("yes".to_owned()),
    ];
    let message = prop::collection::vec(words, 1..5).prop_map(|lines| lines.join("\n"));
    let long =
        (1usize..9_000, "[a-zäöü一-龥]{1,6}").prop_map(|(n, w)| format!("{w} ").repeat(n / w.len().max(1)));
    prop::collection::vec(prop_oneof![5 => message, 1 => long], 1..40)
}

proptest! {
    #![proptest_config(crate::cases(1_000))]

    /// Every message is quoted or named, within the budget, and the block is read back as it was written.
    #[test]
    fn a_message_is_quoted_or_named_and_reading_back_changes_nothing(texts in texts(), max in 200u64..3_000, rounds in 1usize..6) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let messages = users(&texts);
        let mut block: Option<String> = None;
        for part in messages.chunks(messages.len().div_ceil(rounds)) {
            let quotes = Quotes::new(block.as_deref(), part, |_| true);
            let next = quotes.block(Tokens(max));
            prop_assert!(estimate_text(&next).0 <= max, "{} > {max}: {next}", estimate_text(&next));
            prop_assert_eq!(&Quotes::new(Some(&next), &NONE, |_| true).block(Tokens(u64::MAX)), &next);
            block = Some(next);
        }
        let block = block.unwrap_or_default();
        let ids = ids(&block);
        for message in &messages {
            let said = message.text();
            let there = ids.iter().any(|(first, last)| (*first..=*last).contains(&message.seq.0));
            // Equal words are quoted once, under their newest id.
            let repeated = messages.iter().any(|m| m.seq > message.seq && m.text().trim() == said.trim());
            prop_assert!(there || repeated || is_blank(&said), "{}: {said:?} in {block}", message.seq);
        }
        if let Some(newest) = messages.iter().rev().find(|m| !is_blank(&m.text())) {
            prop_assert!(!block.contains(&format!("[m{}] not quoted", newest.seq)), "{block}");
        }
    }
}

/// After ten compactions in a small window every message of the user is in the conversation, quoted, or named by its id.
#[test]
fn after_ten_compactions_every_message_of_the_user_can_be_reached() {
    for window in [8_192, 16_384, 32_768, 200_000] {
        let mut log = Log::default();
        let mut previous: Option<Previous> = None;
        let mut said: Vec<(Seq, String)> = Vec::new();
        for round in 0..10 {
            for n in 0..6 {
                let text = match n {
                    0 => format!("Quy tắc {round}: đừng sửa tệp sinh tự động."),
                    1 => format!("规则{round}：不要直接推送到主分支。"),
                    2 => format!("Chatty {round}: {} and at the very end rule {round}.", filler(2_000)),
                    _ => format!("step {round}.{n}"),
                };
                log.user(&text);
                said.push((log.last_seq(), text));
                let bytes = window as usize * 3 / 8;
                log.says("Going on.").step("bash", &[bytes / 2]);
            }
            let mut before = snapshot(&log, window);
            before.previous = previous.clone();
            let behaviour = if round % 3 == 2 { Behaviour::Error } else { Behaviour::Good };
            let outcome = committed(run(before, behaviour).0);
            let block = compaction(&outcome).summary.clone();
            previous = log.apply(&outcome);
            for (seq, text) in &said {
                let live = log.messages.iter().any(|m| m.text() == *text);
                let named = ids(&block).iter().any(|(first, last)| (first..=last).contains(&&seq.0));
                assert!(live || named, "{window}, round {round}: m{seq} {text:.60} in {block}");
                assert!(!(live && block.contains(&format!("[m{seq}]"))), "{window}: m{seq} is there twice");
            }
            assert!(
                block.contains("[m1] Quy tắc 0: đừng sửa tệp sinh tự động."),
                "{window}, {round}: {block}"
            );
        }
    }
}

#[test]
fn a_paraphrase_and_a_translation_reach_the_next_request() {
    let rules = "- Never push directly; open merge requests instead\n- Stay Python 3.8 compatible\n\
                 - Avoid single-letter variable names\n- Leave crates/harbour/src/generated.rs alone\n";
    let summary = GOOD.replace("## Instructions\n", &format!("## Instructions\n{rules}"));
    for words in [
        "PRs only, nothing goes to master by hand. must still work on the old interpreter of the customer (3.8). \
         reviewers hate names like x or i. and that autogenerated file is off limits.",
        "Chỉ dùng PR, không đẩy thẳng lên master. Phải chạy được trên trình thông dịch cũ của khách.",
    ] {
        let mut log = Log::default();
        log.user(&format!("{} {words}", filler(700)));
        log.says("Reading.").step("bash", &[40_000]).user("go on");
        log.says("Reading on.").step("bash", &[40_000]).user("next one please");
        let before = snapshot(&log, 32_768);
        let outcome = committed(run_with(before, |_| Ok(summary.clone())).0);
        let text = &compaction(&outcome).summary;
        for line in rules.lines() {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(text.contains(words), "{text}");
        assert_eq!(compaction(&outcome).origin.left_out, []);
    }
}
