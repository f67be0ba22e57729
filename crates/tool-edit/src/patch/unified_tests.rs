//! Diffs as git writes them and as models write them.

use super::super::parse::parse;
use super::*;

fn one(text: &str) -> Section {
    let mut sections = parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    assert_eq!(sections.len(), 1, "{text}");
    sections.remove(0)
}

fn hunk(line: Option<usize>, old: &str, new: &str) -> Hunk {
    Hunk { line, old: old.into(), new: new.into(), ..Hunk::default() }
}

#[test]
fn the_whole_format() {
    let text = "diff --git a/new.txt b/new.txt\nnew file mode 100644\nindex 0000000..814f4a4\n--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n\
        diff --git a/old.txt b/old.txt\ndeleted file mode 100644\nindex 814f4a4..0000000\n--- a/old.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n\
        diff --git a/a.c b/a.c\nindex 111..222 100644\n--- a/a.c\n+++ b/a.c\n@@ -3,3 +3,4 @@ int main(void)\n x\n-y\n+z\n+zz\n w\n@@ -9 +10 @@\n-q\n+r\n\
        diff --git a/from.c b/to.c\nsimilarity index 90%\nrename from from.c\nrename to to.c\n--- a/from.c\n+++ b/to.c\n@@ -1 +1 @@\n-q\n+r\n\
        diff --git a/m b/n\nsimilarity index 100%\nrename from m\nrename to n\n\
        diff --git a/empty b/empty\nnew file mode 100644\nindex 0000000..e69de29\n";
    let section = |path: &str, action| Section { path: path.into(), action, note: None };
    let update = |to: Option<&str>, hunks| Action::Update { to: to.map(Into::into), hunks };
    assert_eq!(
        parse(text).unwrap(),
        [
            section("new.txt", Action::Add("one\ntwo\n".into())),
            section("old.txt", Action::Delete { held: Some("one\ntwo\n".into()) }),
            section(
                "a.c",
                update(None, vec![hunk(Some(3), "x\ny\nw\n", "x\nz\nzz\nw\n"), hunk(Some(9), "q\n", "r\n")])
            ),
            section("from.c", update(Some("to.c"), vec![hunk(Some(1), "q\n", "r\n")])),
            section("m", update(Some("n"), vec![])),
            section("empty", Action::Add(String::new())),
        ]
    );
}

#[test]
fn deviations_are_understood() {
    let want = Action::Update { to: None, hunks: vec![hunk(Some(1), "a\nb\n", "a\nc\n")] };
    let body = "@@ -1,2 +1,2 @@\n a\n-b\n+c\n";
    for text in [
        format!("--- a/f\n+++ b/f\n{body}"),
        format!("--- f\n+++ f\n{body}"),
        format!("--- f\t2024-01-01 00:00:00\n+++ f\t2024-01-01 00:00:01\n{body}"),
        format!("--- f.orig\n+++ f\n{body}"),
        format!("--- i/f\n+++ w/f\n{body}"),
        format!("--- \"a/f\"\n+++ \"b/f\"\n{body}"),
        format!("diff --git a/f b/f\n--- a/f\n+++ b/f\n{body}"),
        format!("Index: f\n=====\n--- f\n+++ f\n{body}"),
        format!(
            "From 123 Mon\nSubject: [PATCH] x\n\n---\n f | 2 +-\n\ndiff --git a/f b/f\n--- a/f\n+++ b/f\n{body}-- \n2.39.1\n\n"
        ),
        format!("Here it is:\n\n```diff\n--- a/f\n+++ b/f\n{body}```\nIt does:\n- this\n- that\n"),
        format!("--- a/f\n+++ b/f\n{body}\nThat is all.\n"),
        format!("*** Begin Patch\n--- a/f\n+++ b/f\n{body}*** End Patch"),
        format!("--- a/f\r\n+++ b/f\r\n{}", body.replace('\n', "\r\n")),
        // Counts that are wrong, as models write them.
        "--- a/f\n+++ b/f\n@@ -1,9 +1,2 @@\n-b\n+c\n a\n".replace("-b\n+c\n a", " a\n-b\n+c\n \n"),
        "--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n a\n-b\n+c\n".to_owned(),
        "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@ fn above()\n a\n-b\n+c\n".to_owned(),
    ] {
        let section = one(&text);
        assert_eq!((section.path.as_str(), &section.action), ("f", &want), "{text}");
    }
    // Without numbers, the text after `@@` is searched for, like in an envelope.
    let Action::Update { hunks, .. } = one("--- a/f\n+++ b/f\n@@ def g():\n a\n-b\n+c\nd\n").action else {
        panic!()
    };
    assert_eq!((hunks[0].anchors.join(""), hunks[0].old.as_str()), ("def g():".to_owned(), "a\nb\nd\n"));
    // Removed and added lines that look like file headers.
    let sql = "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n x\n--- old\n+++ new\n y\n";
    let Action::Update { hunks, .. } = one(sql).action else { panic!() };
    assert_eq!(hunks, [hunk(Some(1), "x\n-- old\ny\n", "x\n++ new\ny\n")]);
    // A patch inside a diff is content, and so is a diff inside a patch.
    let inner = "--- a/doc\n+++ b/doc\n@@ -1,3 +1,3 @@\n *** Begin Patch\n-*** Delete File: x\n+*** Delete File: y\n *** End Patch\n";
    assert_eq!(one(inner).path, "doc");
    let inner =
        "*** Begin Patch\n*** Add File: p.diff\n+--- a/x\n+++ b/x\n+@@ -1 +1 @@\n+-a\n++b\n*** End Patch";
    assert_eq!(one(inner).action, Action::Add("--- a/x\n++ b/x\n@@ -1 +1 @@\n-a\n+b\n".into()));
    assert_eq!(
        one("--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n").action,
        Action::Add("a".into())
    );
    assert_eq!(
        one("--- \"a/\\303\\251\\t.c\"\n+++ \"b/\\303\\251\\t.c\"\n@@ -1 +1 @@\n-a\n+b\n").path,
        "é\t.c"
    );
    assert_eq!(one("diff --git a/two words b/two words\nnew file mode 100644\n").path, "two words");
    let note = one("--- a/f\n+++ b/f\n@@ -1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n").note;
    assert!(note.unwrap().contains("newline"));
    let note =
        one("diff --git a/f b/f\nnew file mode 100755\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n").note;
    assert!(note.unwrap().contains("100755"));
}

#[test]
fn what_cannot_be_done_is_named() {
    let body = "@@ -1,2 +1,2 @@\n a\n-b\n+c\n";
    for (text, want) in [
        ("diff --git a/f b/f\nindex 1..2\nBinary files a/f and b/f differ\n".to_owned(), "binary"),
        ("diff --git a/f b/f\nindex 1..2\nGIT binary patch\nliteral 3\nabc\n".to_owned(), "binary"),
        ("diff --git a/f b/f\nold mode 100644\nnew mode 100755\n".to_owned(), "mode 100755"),
        (
            "diff --git a/f b/f\nnew file mode 120000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n"
                .to_owned(),
            "symbolic link",
        ),
        ("diff --git a/f b/g\nsimilarity index 100%\ncopy from f\ncopy to g\n".to_owned(), "copies"),
        (format!("--- a/f\n+++ b/g\n{body}"), "a rename"),
        ("--- a/f\n+++ b/f\n".to_owned(), "no hunk"),
        ("--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n b\n".to_owned(), "no hunk"),
        (
            "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n".to_owned(),
            "newline at its end",
        ),
        ("--- a/f\n+++ b/f\n@@ -1,4 +1,4 @@\n a\n-b\n-c\n".to_owned(), "cut off"),
        ("--- /dev/null\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n+b\n".to_owned(), "there already"),
        ("--- a/f\n+++ /dev/null\n@@ -1,2 +1,1 @@\n-a\n+b\n".to_owned(), "keeps or adds"),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n".to_owned(), "does not say which file"),
        (format!("--- a/f\n+++ b/f\n{body}stray\n-x\n+y\n"), "belongs to no hunk"),
        (
            format!("```diff\n--- a/f\n+++ b/f\n{body}```\nand\n```diff\n@@ -9 +9 @@\n-x\n+y\n```\n"),
            "belongs to no hunk",
        ),
        ("--- a/f\n+++ b/f\n@@@ -1,2 -1,2 +1,2 @@@\n  a\n--b\n".to_owned(), "merge"),
        (format!("diff --git a/f b/f\nrename to g\n--- a/f\n+++ b/g\n{body}"), "only one of"),
    ] {
        let error = parse(&text).expect_err(&text);
        assert!(
            error.contains(want) && error.to_lowercase().contains("nothing was changed"),
            "{text:?}: {error}"
        );
    }
}
