//! Patches: right ones, nearly right ones, and other formats.

use crate::{Cases, Is, No, either, is};

#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn patches(cases: &mut Cases) {
    let file = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";
    let right = "one\ntwo\n3\nfour\nfive\nsix\nseven\n";
    for (what, hunk, want) in [
        ("plain", "@@\n two\n-three\n+3\n four", is(right)),
        ("no @@", " two\n-three\n+3\n four", is(right)),
        ("@@ with numbers", "@@ -2,3 +2,3 @@\n two\n-three\n+3\n four", is(right)),
        ("@@ with wrong numbers", "@@ -90,3 +97,3 @@\n two\n-three\n+3\n four", is(right)),
        ("@@ with a line above", "@@ one\n two\n-three\n+3\n four", is(right)),
        ("@@ with a line that is not there", "@@ nowhere\n two\n-three\n+3\n four", either(right, "nowhere")),
        ("context without its blank", "@@\ntwo\n-three\n+3\nfour", either(right, "|")),
        ("wrong context above", "@@\n zwei\n-three\n+3\n four", either(right, "not found")),
        ("wrong context below", "@@\n two\n-three\n+3\n vier", either(right, "not found")),
        ("wrong line removed", "@@\n two\n-drei\n+3\n four", No("at line 2|-drei|+three")),
        (
            "nothing removed, at a context",
            "@@\n two\n+2b\n three",
            is("one\ntwo\n2b\nthree\nfour\nfive\nsix\nseven\n"),
        ),
        ("additions only", "@@\n+eight", either("one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n", "|")),
        (
            "at the end of the file",
            "@@\n seven\n+eight\n*** End of File",
            is("one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n"),
        ),
        (
            "end of file that is not there",
            "@@\n three\n+x\n*** End of File",
            either("one\ntwo\nthree\nx\nfour\nfive\nsix\nseven\n", "|"),
        ),
        ("removes everything", "@@\n-one\n-two\n-three\n-four\n-five\n-six\n-seven", is("")),
        ("changes nothing", "@@\n two\n three", No("|")),
        (
            "two hunks",
            "@@\n-one\n+1\n two\n@@\n-six\n+6\n seven",
            is("1\ntwo\nthree\nfour\nfive\n6\nseven\n"),
        ),
        (
            "two hunks in another order",
            "@@\n-six\n+6\n seven\n@@\n-one\n+1\n two",
            either("1\ntwo\nthree\nfour\nfive\n6\nseven\n", "|"),
        ),
        ("hunks that overlap", "@@\n two\n-three\n+3\n four\n@@\n-three\n+drei\n four", No("|")),
        (
            "no newline marker",
            "@@\n six\n-seven\n+7\n\\ No newline at end of file",
            Is(b"one\ntwo\nthree\nfour\nfive\nsix\n7\n".to_vec()),
        ),
        ("minus without text", "@@\n-\n+x", No("not found")),
        ("nothing at all", "", No("at its end|at least one hunk")),
    ] {
        cases.hunk(&format!("patch, {what}"), file, hunk, want);
    }
    let crlf = |text: &str| text.replace('\n', "\r\n");
    cases.hunk("patch, CRLF file", &crlf(file), "@@\n two\n-three\n+3\n four", is(&crlf(right)));
    cases.hunk("patch, CRLF in the patch", file, "@@\r\n two\r\n-three\r\n+3\r\n four\r", is(right));
    let blank = "a\n\nb\n\nc\n";
    cases.hunk(
        "patch, empty context lines without their blank",
        blank,
        "@@\n a\n\n-b\n+B\n\n c",
        is("a\n\nB\n\nc\n"),
    );
    let minus = "x\n-- sql comment\n++i;\ny\n";
    cases.hunk(
        "patch, lines that begin with signs",
        minus,
        "@@\n x\n--- sql comment\n+-- other comment\n ++i;\n y",
        either("x\n-- other comment\n++i;\ny\n", "|"),
    );
    let twice = "fn a() {\n    x();\n}\n\nfn b() {\n    x();\n}\n";
    cases.hunk("patch, ambiguous", twice, "@@\n-    x();\n+    y();", No("at 2 places|`@@ `|6:"));
    cases.hunk(
        "patch, told apart by @@",
        twice,
        "@@ fn b() {\n-    x();\n+    y();",
        is("fn a() {\n    x();\n}\n\nfn b() {\n    y();\n}\n"),
    );
    cases.hunk(
        "patch, wrongly indented",
        twice,
        "@@ fn b() {\n-  x();\n+  y();",
        either("fn a() {\n    x();\n}\n\nfn b() {\n    y();\n}\n", "|"),
    );
    let body = "@@ -2,3 +2,3 @@\n two\n-three\n+3\n four\n";
    for (what, patch, want) in [
        (
            "git diff",
            format!("diff --git a/f.txt b/f.txt\nindex 123..456 100644\n--- a/f.txt\n+++ b/f.txt\n{body}"),
            either(right, "|"),
        ),
        ("unified diff", format!("--- f.txt\n+++ f.txt\n{body}"), either(right, "|")),
        (
            "unified diff in the envelope",
            format!("*** Begin Patch\n--- a/f.txt\n+++ b/f.txt\n{body}*** End Patch"),
            either(right, "|"),
        ),
        (
            "both heads",
            format!("*** Begin Patch\n*** Update File: f.txt\n--- a/f.txt\n+++ b/f.txt\n{body}*** End Patch"),
            either(right, "|"),
        ),
        (
            "/dev/null",
            "diff --git a/f.txt b/f.txt\ndeleted file mode 100644\n--- a/f.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n".to_owned(),
            No("|"),
        ),
        ("no end", format!("*** Begin Patch\n*** Update File: f.txt\n{body}"), No("cut off")),
        ("no begin", format!("*** Update File: f.txt\n{body}*** End Patch"), either(right, "|")),
        (
            "prose around it",
            format!(
                "Here is the patch:\n\n```diff\n*** Begin Patch\n*** Update File: f.txt\n{body}*** End Patch\n```\nDone."
            ),
            either(right, "|"),
        ),
        (
            "indented as a whole",
            "  *** Begin Patch\n  *** Update File: f.txt\n  @@\n   two\n  -three\n  +3\n   four\n  *** End Patch".to_owned(),
            either(right, "|"),
        ),
        (
            "the same file twice",
            "*** Begin Patch\n*** Update File: f.txt\n@@\n-one\n+1\n*** Update File: f.txt\n@@\n-six\n+6\n*** End Patch".to_owned(),
            either("1\ntwo\nthree\nfour\nfive\n6\nseven\n", "|"),
        ),
        (
            "adds what is there",
            "*** Begin Patch\n*** Add File: f.txt\n+new\n*** End Patch".to_owned(),
            No("exists"),
        ),
        (
            "a file that is not there",
            format!("*** Begin Patch\n*** Update File: g.txt\n{body}*** End Patch"),
            No("g.txt"),
        ),
        (
            "outside by dots",
            format!("*** Begin Patch\n*** Update File: ../f.txt\n{body}*** End Patch"),
            No("|"),
        ),
        (
            "another absolute path",
            format!("*** Begin Patch\n*** Update File: /nowhere/f.txt\n{body}*** End Patch"),
            No("|"),
        ),
        ("an unknown section", "*** Begin Patch\n*** Rename File: f.txt\n*** End Patch".to_owned(), No("|")),
        (
            "one good, one bad: nothing",
            format!(
                "*** Begin Patch\n*** Update File: f.txt\n{body}*** Delete File: nope.txt\n*** End Patch"
            ),
            No("nope.txt"),
        ),
        ("empty", String::new(), No("|")),
        ("envelope only", "*** Begin Patch\n*** End Patch".to_owned(), No("|")),
        ("not a patch", "please change three to 3".to_owned(), No("|")),
    ] {
        cases.patch(&format!("patch: {what}"), file, &patch, want);
    }
}
