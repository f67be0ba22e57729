//! Patches as models write them.

use super::*;
use proptest::prelude::*;

fn update(old: &str, new: &str) -> Vec<Section> {
    let hunks = vec![Hunk { old: old.into(), new: new.into(), ..Hunk::default() }];
    vec![Section { path: "f".into(), action: Action::Update { to: None, hunks }, note: None }]
}

#[test]
fn the_whole_format() {
    let text = "*** Begin Patch\n*** Add File: new.txt\n+one\n+\n+two\n*** Update File: f\n*** Move to: g\n@@ class A\n@@ def f():\n a\n-b\n+c\n@@\n-x\n*** End of File\n*** Delete File: old\n*** End Patch";
    let anchors = vec!["class A".to_owned(), "def f():".to_owned()];
    let hunks = vec![
        Hunk { anchors, old: "a\nb\n".into(), new: "a\nc\n".into(), ..Hunk::default() },
        Hunk { old: "x\n".into(), at_end: true, ..Hunk::default() },
    ];
    let section = |path: &str, action| Section { path: path.into(), action, note: None };
    assert_eq!(
        parse(text).unwrap(),
        [
            section("new.txt", Action::Add("one\n\ntwo\n".into())),
            section("f", Action::Update { to: Some("g".into()), hunks }),
            section("old", Action::Delete { held: None }),
        ]
    );
}

#[test]
fn deviations_are_understood() {
    let core = "*** Update File: f\n@@\n a\n-b\n+c\n";
    for text in [
        format!("*** Begin Patch\n{core}*** End Patch"),
        format!("apply_patch <<'EOF'\n*** Begin Patch\n{core}*** End Patch\nEOF\n"),
        format!("```diff\n*** Begin Patch\n{core}*** End Patch\n```"),
        format!("\n  *** Begin Patch\n{core}\n\n*** End Patch  \n\n"),
        format!("{core}*** End Patch"),
        format!(
            "***Begin Patch***\n{}*** end patch ***",
            core.replace("*** Update File:", "*** update file :")
        ),
        format!("*** Begin Patch\r\n{}*** End Patch\r\n", core.replace('\n', "\r\n")),
        "*** Begin Patch\n*** Update File: f\na\n-b\n+c\n*** End Patch".to_owned(),
        "*** Begin Patch\n*** Update File: f ***\n--- a/f\n+++ b/f\n@@\n a\n-b\n+c\n*** End Patch".to_owned(),
    ] {
        assert_eq!(parse(&text), Ok(update("a\nb\n", "a\nc\n")), "{text}");
    }
    let unified = parse("*** Update File: f\n@@ -12,3 +12,4 @@ fn x()\n a\n\n-b\n*** End Patch").unwrap();
    let Action::Update { hunks, .. } = &unified[0].action else { panic!("no update") };
    assert_eq!((hunks[0].line, hunks[0].anchors.as_slice()), (Some(12), &["fn x()".to_owned()][..]));
    assert_eq!(hunks[0].old, "a\n\nb\n");
    let added = parse("*** Add File: f\nfn a() {}\n\nb\n\n*** End Patch").unwrap();
    assert_eq!(added[0].action, Action::Add("fn a() {}\n\nb\n".into()));
}

#[test]
fn what_is_wrong_is_named() {
    for (text, want) in [
        ("", "This is no patch"),
        ("fix it", "This is no patch"),
        ("*** Begin Patch\n*** End Patch", "changes no file"),
        ("*** Begin Patch\n*** Update File: f\n-a\n+b\n", "may be cut off"),
        ("*** Begin Patch\n*** Update File: f\n a\n*** End Patch", "at least one hunk"),
        ("*** Begin Patch\nhello\n*** End Patch", "wrong at `hello`"),
        (
            "*** Begin Patch\n*** Add File: f\n+a\nb\n*** End Patch",
            "wrong at `b`: each line of an added file",
        ),
        ("*** Begin Patch\n*** Add File:\n+a\n*** End Patch", "no path"),
        ("*** Begin Patch\n*** Update File: f\n-a\n+b\n*** Move to: g\n*** End Patch", "belongs elsewhere"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(want), "{text:?}: {error}");
    }
}

proptest! {
    /// Parsing any input ends without a panic, and every parsed hunk consists of whole lines.
    #[test]
    fn anything_is_parsed_or_refused(
        lines in proptest::collection::vec(prop_oneof![
            Just("*** Begin Patch"), Just("*** End Patch"), Just("*** Update File: f"), Just("*** Add File: g"),
            Just("*** Delete File: h"), Just("*** Move to: i"), Just("*** End of File"), Just("@@"), Just("@@ -1 +1 @@ x"),
            Just("+a"), Just("-b"), Just(" c"), Just(""), Just("d"), Just("***"), Just("*** é"),
        ], 0..14)
    ) {
        for section in parse(&lines.join("\n")).into_iter().flatten() {
            if let Action::Update { hunks, .. } = section.action {
                for hunk in hunks {
                    prop_assert!(hunk.old.is_empty() || hunk.old.ends_with('\n'));
                    prop_assert!(hunk.new.is_empty() || hunk.new.ends_with('\n'));
                    prop_assert_ne!(hunk.old, hunk.new);
                }
            }
        }
    }
}
