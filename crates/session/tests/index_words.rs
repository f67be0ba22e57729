//! Search finds what was written, in every script, and no query gives an error.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod given;

use becket_session::context::Policy;
use becket_session::index::Index;
use becket_session::{CreateOptions, Durability, Session};
use becket_types::{EntryKind, Message};
use given::scope;
use proptest::prelude::*;
use std::time::{Duration, Instant};

/// Makes a session with one message, and its index.
fn index_of(text: &str) -> (tempfile::TempDir, Index) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("sessions");
    let options = CreateOptions { persist: true, ..CreateOptions::default() };
    let mut session = Session::create(&root, dir.path(), options, Policy::default(), scope()).unwrap();
    let said = EntryKind::Message { message: Message::user(text) };
    session.append(vec![said], Durability::Buffered).unwrap();
    let mut index = Index::open(&dir.path().join("index.db"), &root).unwrap();
    index.catch_up().unwrap();
    (dir, index)
}

#[test]
fn words_with_vowel_signs_and_points_are_found() {
    let words = [
        "বাংলা",
        "مَرْحَبًا",
        "قَلَم",
        "שָׁלוֹם",
        "สวัสดีครับ",
        "নমস্কার",
        "ភាសា",
        "བོད་སྐད",
        "नमस्तेदुनिया",
        "தமிழ்",
        "မြန်မာ",
        "ພາສາລາວ",
        "Việt",
        "cafe\u{301}",
        "한국어",
        "አማርኛ",
    ];
    let (_dir, index) = index_of(&format!("start {} end", words.join(" ")));
    for word in words {
        assert_eq!(index.search(word, None, 10).unwrap().len(), 1, "{word}");
        assert_eq!(index.search(&format!("start {word} en"), None, 10).unwrap().len(), 1, "{word}");
        assert_eq!(index.search(&format!("absent {word}"), None, 10).unwrap(), [], "{word}");
    }
    // A part of a text is found in a script without spaces.
    assert_eq!(index.search("ครับ", None, 10).unwrap().len(), 1);
}

/// Forms of one word that make no difference, whichever was written.
#[test]
fn other_forms_of_a_word_are_found() {
    let forms = [
        ("Straße", "STRASSE"),
        ("شدّة", "شدة"),
        ("مَرْحَبًا", "مرحبا"),
        ("مـــرحبا", "مرحبا"),
        ("שָׁלוֹם", "שלום"),
        ("ﬁle", "file"),
        ("oﬃce", "OFFICE"),
        ("ｶﾞｲﾄﾞ", "ガイド"),
        ("ＡＢＣ１", "abc1"),
        ("Übergröße", "ubergrosse"),
        ("οδός", "ΟΔΟΣ"),
        ("Αθήνα", "αθηνα"),
        ("ἀρχῇ", "ΑΡΧΗ"),
        ("Ёлка", "елка"),
        ("йод", "иод"),
        ("їжак", "іжак"),
        ("Łódź", "lodz"),
        ("Øresund", "oresund"),
        ("Đurđa", "durda"),
        ("İSTANBUL", "istanbul"),
        ("ılık", "ILIK"),
        ("cœur", "COEUR"),
        ("Ærø", "aero"),
        ("phở", "PHO"),
    ];
    for (one, other) in forms {
        for (written, asked) in [(one, other), (other, one)] {
            let (_dir, index) = index_of(&format!("before {written} after"));
            let hits = index.search(asked, None, 10).unwrap();
            assert_eq!(hits.len(), 1, "{asked} in {written}");
            assert_eq!(hits[0].snippet, format!("before {written} after"));
            assert_eq!(
                index.search(&format!("after {asked}x"), None, 10).unwrap(),
                [],
                "{asked} in {written}"
            );
        }
    }
}

/// A word of one script with its marks, that begins with a letter which every version of Unicode knows.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-ZäéßÇ][a-zä\u{300}-\u{30f}]{0,5}",
        "[а-яё][а-я\u{306}]{0,5}",
        "[α-ωΑ-ΡΣ-Ωἀ-ἇήώ][α-ω\u{301}]{0,5}",
        "[ßæøłđğİı][a-zßæøłđİı]{0,5}",
        "[א-ת][א-ת\u{5b0}-\u{5bc}]{0,5}",
        "[ا-ي][ا-ي\u{64b}-\u{652}]{0,5}",
        "[क-ह][क-ह\u{93e}-\u{94d}\u{200d}]{0,5}",
        "[ক-ন][ক-ন\u{9be}-\u{9c4}\u{9cd}]{0,5}",
        "[க-ங][கஙசஜ\u{bbe}-\u{bc2}\u{bcd}]{0,5}",
        "[ก-ฮ][ก-ฮ\u{e31}\u{e34}-\u{e3a}\u{e47}-\u{e4e}]{0,5}",
        "[က-အ][က-အ\u{102b}-\u{1032}\u{1037}-\u{103e}]{0,5}",
        "[ក-អ][ក-អ\u{17b6}-\u{17d2}]{0,5}",
        "[ཀ-ཇ][ཀ-ཇ\u{f71}-\u{f7c}་]{0,5}",
        "[가-힣]{1,4}",
        "[一-龥ぁ-んァ-ヶ]{1,4}",
        "[a-zßﬀ-ﬆＡ-Ｚａ-ｚｦ-ﾝ][a-zßﬀ-ﬆＡ-Ｚａ-ｚｦ-ﾟ]{0,5}",
        "[a-z0-9_./:-]{0,4}[a-z]{1,2}[\"'*()^{}+-]{0,2}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_was_written_is_found(
        words in prop::collection::vec(prop_oneof![3 => word(), 1 => (word(), word()).prop_map(|(a, b)| a + &b)], 1..6),
        asked in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
    ) {
        let (_dir, index) = index_of(&words.join(" "));
        let asked: Vec<&str> = asked.iter().map(|at| at.get(&words).as_str()).collect();
        let found = index.search(&asked.join(" "), None, 10).unwrap();
        prop_assert_eq!(found.len(), 1, "{:?} in {:?}", asked, words);
    }

    #[test]
    fn no_query_gives_an_error(query in "\\PC{0,30}", odd in any::<String>(), word in word()) {
        let (_dir, index) = index_of(&word);
        for query in [&query, &odd, &format!("{word} {odd}"), &format!("{query}{word}*\""), &query.repeat(200)] {
            prop_assert!(index.search(query, None, 10).is_ok(), "{:?}", query);
        }
    }
}

#[test]
fn a_long_line_of_matches_costs_linear_time() {
    let cost = |count: usize| {
        let (_dir, index) = index_of(&"👨\u{200d}👩\u{200d}👧\u{200d}👦é".repeat(count));
        let start = Instant::now();
        let hits = index.search("é", None, 10).unwrap();
        assert_eq!(hits.len(), 1);
        assert!(hits[0].snippet.contains('é') && hits[0].snippet.len() < 2_000, "{}", hits[0].snippet.len());
        start.elapsed()
    };
    // Ten times the text may cost 40 times the time on a busy machine, but not 100 times.
    let (small, large) = (cost(15_000), cost(150_000));
    assert!(large < small * 40 + Duration::from_secs(2), "{small:?} and {large:?}");
}
