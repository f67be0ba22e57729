//! Single calls as models have made them in kind: lines left out, numbers of a listing, ends of lines, several edits, patches.

use crate::{Cases, No, either, is};
use serde_json::{Value, json};

pub(super) fn left_out(cases: &mut Cases) {
    let file = "import a\nimport b\nimport c\n\n\ndef one():\n    x = 1\n    y = 2\n    z = 3\n    return x + y + z\n\n\ndef two():\n    return 2\n";
    let one = "def one():\n    x = 1\n    y = 2\n    z = 3\n    return x + y + z\n";
    for dots in [
        "    # ... rest of the function ...",
        "    # ... (rest of code unchanged)",
        "    # ... existing code ...",
        "    ...",
        "    # [... unchanged ...]",
        "    # (... existing code ...)",
        "    // ... keep the rest ...",
        "    # rest of the function remains the same",
        "    # rest of the code remains unchanged",
        "    # existing code here",
        "    # unchanged",
        "    # (unchanged)",
        "    # same as before",
        "    <existing code>",
        "    [existing code]",
        "    # ...snip...",
        "    # -- snip --",
        "    # ... 3 more lines ...",
        "    # etc...",
    ] {
        let new = format!("def one():\n    w = 0\n{dots}\n");
        cases.edit(&format!("left out in new: {dots}"), file, one, &new, No("placeholder"));
        let old = format!("def one():\n{dots}\n    return x + y + z\n");
        cases.edit(&format!("left out in old: {dots}"), file, &old, "def one():\n    return 6\n", No("|"));
    }
    for (what, line) in [
        ("a comment that speaks of the rest", "    # The rest of the sum is in z."),
        (
            "a comment that speaks of what exists",
            "    # Keep the existing value of y: it is unchanged by callers.",
        ),
        ("a comment with dots", "    # TODO: more to come..."),
        ("a comment on omitted fields", "    # Omitted fields have their default."),
        ("a comment on what remains", "    # remaining: 3"),
    ] {
        let new = format!("def one():\n{line}\n    return 6\n");
        cases.edit(&format!("left in new: {what}"), file, one, &new, is(&file.replace(one, &new)));
    }
    cases.push("a whole file with lines left out", file, "write", json!({"path": "f.txt", "content": "import a\n# ... existing imports ...\n\n\ndef two():\n    return 3\n"}), No("placeholder"));
    cases.push(
        "a whole file that ends in what is left out",
        file,
        "write",
        json!({"path": "f.txt", "content": "import a\nimport d\n# ... rest of file unchanged ...\n"}),
        No("placeholder"),
    );
    cases.hunk(
        "lines left out in a hunk",
        file,
        "@@\n def one():\n     x = 1\n ...\n-    return x + y + z\n+    return 6",
        either(&file.replace("return x + y + z", "return 6"), "|"),
    );
    cases.hunk(
        "lines left out in what a hunk adds",
        file,
        "@@\n def one():\n-    x = 1\n+    x = 2\n+    # ... existing code ...",
        No("placeholder"),
    );
}

#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn numbers(cases: &mut Cases) {
    let file = "alpha\n  beta\n\ngamma\ndelta\n";
    for (what, old, new, want) in [
        (
            "cat -n",
            "     1\talpha\n     2\t  beta",
            "     1\talpha\n     2\t  BETA",
            is("alpha\n  BETA\n\ngamma\ndelta\n"),
        ),
        ("arrows", "1→alpha\n2→  beta", "1→ALPHA\n2→  beta", is("ALPHA\n  beta\n\ngamma\ndelta\n")),
        (
            "only the first line",
            "2\t  beta\n\ngamma",
            "2\t  beta\n\nGAMMA",
            either("alpha\n  beta\n\nGAMMA\ndelta\n", "|"),
        ),
        (
            "only the last line",
            "alpha\n2\t  beta",
            "alpha\n2\t  BETA",
            either("alpha\n  BETA\n\ngamma\ndelta\n", "|"),
        ),
        (
            "over a blank line",
            "2\t  beta\n3\t\n4\tgamma",
            "2\t  beta\n3\t\n4\tGAMMA",
            is("alpha\n  beta\n\nGAMMA\ndelta\n"),
        ),
        (
            "over a blank line without its number",
            "2\t  beta\n\n4\tgamma",
            "2\t  beta\n\n4\tGAMMA",
            either("alpha\n  beta\n\nGAMMA\ndelta\n", "|"),
        ),
        (
            "a line more in new, without number",
            "4\tgamma\n5\tdelta",
            "4\tgamma\n\tmore\n5\tdelta",
            either("alpha\n  beta\n\ngamma\nmore\ndelta\n", "|"),
        ),
        (
            "a line more in new, numbers go on",
            "4\tgamma\n5\tdelta",
            "4\tgamma\n5\tmore\n6\tdelta",
            is("alpha\n  beta\n\ngamma\nmore\ndelta\n"),
        ),
        ("a line less in new", "4\tgamma\n5\tdelta", "4\tdelta", is("alpha\n  beta\n\ndelta\n")),
        (
            "colons",
            "1: alpha\n2:   beta",
            "1: alpha\n2:   BETA",
            either("alpha\n  BETA\n\ngamma\ndelta\n", "|"),
        ),
        (
            "bars",
            "  1 | alpha\n  2 |   beta",
            "  1 | alpha\n  2 |   BETA",
            either("alpha\n  BETA\n\ngamma\ndelta\n", "|"),
        ),
        ("grep's context", "4:gamma\n5-delta", "4:gamma\n5-DELTA", No("|")),
        ("grep with its path", "f.txt:4:gamma", "f.txt:4:GAMMA", No("|")),
        ("new alone", "gamma\ndelta", "4\tgamma\n5\tDELTA", No("line numbers")),
        ("old alone", "4\tgamma\n5\tdelta", "gamma\nDELTA", is("alpha\n  beta\n\ngamma\nDELTA\n")),
    ] {
        cases.edit(&format!("numbers of a listing: {what}"), file, old, new, want);
    }
    let table = "1\tone\n2\ttwo\n3\tthree\n";
    cases.edit(
        "numbers that are the file's",
        table,
        "2\ttwo\n3\tthree",
        "2\tzwei\n3\tthree",
        is("1\tone\n2\tzwei\n3\tthree\n"),
    );
    cases.edit(
        "numbers that are the file's, renumbered",
        table,
        "1\tone\n",
        "1\tzero\n2\tone\n",
        is("1\tzero\n2\tone\n2\ttwo\n3\tthree\n"),
    );
    cases.edit(
        "numbers before numbers",
        table,
        "     2\t2\ttwo",
        "     2\t2\tzwei",
        is("1\tone\n2\tzwei\n3\tthree\n"),
    );
    cases.edit(
        "a map of numbers",
        "m:\n  1: a\n  2: b\n",
        "  1: a\n  2: b",
        "  1: a\n  2: c",
        is("m:\n  1: a\n  2: c\n"),
    );
    cases.edit(
        "a map of numbers, its lines elsewhere without",
        "a\nb\n---\n1: x\n",
        "1: a\n2: b",
        "1: a\n2: c",
        either("a\nc\n---\n1: x\n", "|"),
    );
}

pub(super) fn ends(cases: &mut Cases) {
    let mixed = "a\r\nb\nc\r\nd\ne\r\n";
    cases.edit(
        "mixed ends, a line added behind CRLF",
        mixed,
        "c\n",
        "c\nc2\n",
        is("a\r\nb\nc\r\nc2\r\nd\ne\r\n"),
    );
    cases.edit(
        "mixed ends, a line added behind LF",
        mixed,
        "b\n",
        "b\nb2\n",
        is("a\r\nb\nb2\nc\r\nd\ne\r\n"),
    );
    cases.edit(
        "mixed ends, old with the wrong ends",
        mixed,
        "b\r\nc\r\nd\r\n",
        "b\r\nC\r\nd\r\n",
        is("a\r\nb\nC\r\nd\ne\r\n"),
    );
    cases.edit("mixed ends, lines go", mixed, "b\nc\nd\n", "", is("a\r\ne\r\n"));
    cases.edit("CRLF in new alone", "a\nb\n", "b", "b\r\nc", is("a\nb\nc\n"));
    cases.edit(
        "CRLF file, \\r\\n written out",
        "a\r\nb\r\n",
        "a\\r\\nb",
        "a\\r\\nc",
        either("a\r\nc\r\n", "not found"),
    );
    cases.edit("a lone CR that is content", "a\rb\nc\n", "c", "d", is("a\rb\nd\n"));
    cases.edit("CR CR LF", "a\r\r\nb\r\r\n", "b", "c", is("a\r\r\nc\r\r\n"));
    cases.edit("BOM and CRLF", "\u{feff}a\r\nb\r\n", "a\nb", "a\nc", is("\u{feff}a\r\nc\r\n"));
    cases.edit("BOM in new alone", "\u{feff}a\nb\n", "a", "\u{feff}z", either("\u{feff}z\nb\n", "|"));
    cases.edit(
        "BOM in old and new, none in the file",
        "a\nb\n",
        "\u{feff}a",
        "\u{feff}z",
        either("z\nb\n", "|"),
    );
    cases.edit("a BOM in the middle", "a\n\u{feff}b\n", "b", "c", is("a\n\u{feff}c\n"));
    cases.hunk("mixed ends, a hunk over both", mixed, "@@\n b\n-c\n+C\n d", is("a\r\nb\nC\r\nd\ne\r\n"));
    cases.hunk(
        "CRLF, a hunk that adds at the end",
        "a\r\nb\r\n",
        "@@\n b\n+c\n*** End of File",
        is("a\r\nb\r\nc\r\n"),
    );
    cases.hunk("no newline at the end, a hunk that adds", "a\nb", "@@\n b\n+c", either("a\nb\nc", "|"));
    cases.hunk("no newline at the end, a hunk that removes the last", "a\nb", "@@\n a\n-b", is("a"));
    cases.push(
        "write of LF over CRLF",
        "a\r\nb\r\n",
        "write",
        json!({"path": "f.txt", "content": "a\nc\n"}),
        either("a\r\nc\r\n", "|"),
    );
}

pub(super) fn several(cases: &mut Cases) {
    let file = "fn a() { x(); }\nfn b() { x(); }\nfn c() { y(); }\n";
    let multi = |edits: Value| json!({"path": "f.txt", "edits": edits});
    let e = |old: &str, new: &str| json!({"old": old, "new": new});
    for (what, edits, want) in [
        (
            "one within the other",
            json!([e("fn b() { x(); }", "fn b() {}"), e("x(); }\nfn c", "z(); }\nfn c")]),
            No("Edit 2"),
        ),
        ("the inner first", json!([e("y();", "z();"), e("fn c() { y(); }", "fn c() {}")]), No("Edit 2")),
        (
            "the second needs the first's result",
            json!([e("fn c", "fn d"), e("fn d() { y(); }", "fn d() {}")]),
            No("Edit 2"),
        ),
        (
            "the first makes the second unique",
            json!([e("fn a() { x(); }\n", ""), e("x();", "w();")]),
            either("fn b() { w(); }\nfn c() { y(); }\n", "Edit 2"),
        ),
        (
            "the first makes the second ambiguous",
            json!([e("y();", "x();"), e("fn c() {", "fn d() {")]),
            is("fn a() { x(); }\nfn b() { x(); }\nfn d() { x(); }\n"),
        ),
        (
            "all, then one of them",
            json!([{"old": "x();", "new": "w();", "replace_all": true}, e("fn a() { x(); }", "fn a() {}")]),
            No("Edit 2"),
        ),
        (
            "two inserts at one line",
            json!([e("fn c", "// one\nfn c"), e("fn c", "// two\nfn c")]),
            No("Edit 2"),
        ),
        (
            "touching",
            json!([
                e("fn a() { x(); }\n", "fn a() {}\n"),
                e("fn b() { x(); }\n", "fn b() {}\n"),
                e("fn c() { y(); }\n", "fn c() {}\n")
            ]),
            is("fn a() {}\nfn b() {}\nfn c() {}\n"),
        ),
        (
            "backwards",
            json!([e("fn c() { y(); }", "C"), e("fn b() { x(); }", "B"), e("fn a() { x(); }", "A")]),
            is("A\nB\nC\n"),
        ),
        (
            "one that changes nothing",
            json!([e("fn a", "fn a"), e("fn b", "fn B")]),
            either("fn a() { x(); }\nfn B() { x(); }\nfn c() { y(); }\n", "Edit 1"),
        ),
        ("an ambiguous one at the end", json!([e("fn a", "fn A"), e("x();", "w();")]), No("Edit 2")),
        ("none", json!([]), No("edits")),
        (
            "names of another tool",
            json!([{"old_string": "fn a", "new_string": "fn A"}]),
            is(&file.replace("fn a", "fn A")),
        ),
        (
            "as text",
            json!("[{\"old\": \"fn a\", \"new\": \"fn A\"}]"),
            either(&file.replace("fn a", "fn A"), "edits"),
        ),
        (
            "one, not in a list",
            json!({"old": "fn a", "new": "fn A"}),
            either(&file.replace("fn a", "fn A"), "edits"),
        ),
        ("a null", json!([e("fn a", "fn A"), null]), No("edits")),
        (
            "all as text",
            json!([{"old": "x();", "new": "w();", "replace_all": "true"}]),
            either(&file.replace("x();", "w();"), "replace_all"),
        ),
        ("a path in each", json!([{"path": "g.txt", "old": "fn a", "new": "fn A"}]), No("path")),
    ] {
        cases.push(&format!("several edits: {what}"), file, "multi_edit", multi(edits), want);
    }
}

const RS: &str = "impl A {\n    fn get(&self) -> u32 {\n        self.value\n    }\n\n    fn set(&mut self) {\n        self.value = 1;\n    }\n}\n\nimpl B {\n    fn get(&self) -> u32 {\n        self.value\n    }\n}\n";

#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn patches(cases: &mut Cases) {
    let of_b = RS.replace(
        "impl B {\n    fn get(&self) -> u32 {\n        self.value\n",
        "impl B {\n    fn get(&self) -> u32 {\n        self.value + 1\n",
    );
    let of_a = RS.replacen("        self.value\n", "        self.value + 1\n", 1);
    for (what, hunk, want) in [
        (
            "two headers",
            "@@ impl B {\n@@     fn get(&self) -> u32 {\n-        self.value\n+        self.value + 1",
            is(&of_b),
        ),
        (
            "two headers without indentation",
            "@@ impl B\n@@ fn get(&self) -> u32 {\n-        self.value\n+        self.value + 1",
            is(&of_b),
        ),
        (
            "a header as git has it",
            "@@ -13,3 +13,3 @@ impl B {\n     fn get(&self) -> u32 {\n-        self.value\n+        self.value + 1\n     }",
            is(&of_b),
        ),
        (
            "a header of another block, with numbers that are near",
            "@@ -13,3 +13,3 @@ impl A {\n     fn get(&self) -> u32 {\n-        self.value\n+        self.value + 1\n     }",
            is(&of_a),
        ),
        (
            "a header that begins above, with exact numbers",
            "@@ -12,3 +12,3 @@ impl A {\n     fn get(&self) -> u32 {\n-        self.value\n+        self.value + 1\n     }",
            is(&of_b),
        ),
        (
            "a header with its closing signs",
            "@@ impl B { @@\n     fn get(&self) -> u32 {\n-        self.value\n+        self.value + 1",
            is(&of_b),
        ),
        (
            "nothing that says which",
            "@@\n     fn get(&self) -> u32 {\n-        self.value\n+        self.value + 1\n     }",
            No("2 places"),
        ),
        (
            "wrong numbers, two places",
            "@@ -99,3 +99,3 @@\n     fn get(&self) -> u32 {\n-        self.value\n+        self.value + 1\n     }",
            No("|"),
        ),
        (
            "numbers near the first",
            "@@ -2,3 +2,3 @@\n     fn get(&self) -> u32 {\n-        self.value\n+        self.value + 1\n     }",
            is(&of_a),
        ),
        (
            "context from both places",
            "@@\n impl B {\n     fn get(&self) -> u32 {\n-        self.value\n+        self.value + 1\n     }\n \n     fn set(&mut self) {",
            No("|"),
        ),
        (
            "a line of context left out",
            "@@\n impl B {\n-        self.value\n+        self.value + 1\n     }",
            No("|"),
        ),
        (
            "a line of context more",
            "@@\n impl B {\n     #[inline]\n     fn get(&self) -> u32 {\n-        self.value\n+        self.value + 1",
            either(&of_b, "|"),
        ),
        (
            "what is removed, in context too",
            "@@\n impl B {\n     fn get(&self) -> u32 {\n         self.value\n-        self.value\n+        self.value + 1",
            No("|"),
        ),
        (
            "removed and kept, order turned",
            "@@\n impl B {\n     fn get(&self) -> u32 {\n+        self.value + 1\n-        self.value\n     }",
            is(&of_b),
        ),
        (
            "signs behind the indentation",
            "@@ impl B {\n     fn get(&self) -> u32 {\n        -self.value\n        +self.value + 1",
            No("|"),
        ),
        (
            "a blank behind the signs",
            "@@ impl B {\n     fn get(&self) -> u32 {\n-         self.value\n+         self.value + 1",
            either(&of_b, "|"),
        ),
        (
            "no indentation at all",
            "@@ impl B {\n fn get(&self) -> u32 {\n-self.value\n+self.value + 1",
            either(&of_b, "|"),
        ),
        (
            "tabs for blanks",
            "@@ impl B {\n \tfn get(&self) -> u32 {\n-\t\tself.value\n+\t\tself.value + 1",
            either(&of_b, "|"),
        ),
        (
            "numbers of a listing in it",
            "@@ impl B {\n 12\t    fn get(&self) -> u32 {\n-13\t        self.value\n+13\t        self.value + 1",
            either(&of_b, "|"),
        ),
        ("dots between", "@@\n impl B {\n ...\n-        self.value\n+        self.value + 1", No("|")),
        (
            "only what is removed, and a blank line that is not there",
            "@@\n-    fn set(&mut self) {\n-        self.value = 1;\n-    }\n-",
            No("not found"),
        ),
        (
            "only what is removed",
            "@@\n-\n-    fn set(&mut self) {\n-        self.value = 1;\n-    }",
            is(&RS.replace("\n    fn set(&mut self) {\n        self.value = 1;\n    }\n", "")),
        ),
        (
            "only additions below a header",
            "@@ impl B {\n+    const N: u32 = 1;",
            is(&RS.replace("impl B {\n", "impl B {\n    const N: u32 = 1;\n")),
        ),
        (
            "only additions below a header that is there twice",
            "@@     fn get(&self) -> u32 {\n+        log();",
            No("|"),
        ),
        (
            "only additions below a header that is not there",
            "@@ impl C {\n+    const N: u32 = 1;",
            No("impl C"),
        ),
        (
            "the end marker within",
            "@@ impl B {\n     fn get(&self) -> u32 {\n-        self.value\n+        self.value + 1\n*** End of File",
            either(&of_b, "|"),
        ),
    ] {
        cases.hunk(&format!("hunk: {what}"), RS, hunk, want);
    }
    let three = "one\ntwo\nthree\n";
    let right = "one\n2\nthree\n";
    let hunk = "@@\n one\n-two\n+2\n three";
    for (what, patch, want) in [
        ("no blanks in its markers", format!("***Begin Patch\n***Update File: f.txt\n{hunk}\n***End Patch"), is(right)),
        ("small letters", format!("*** begin patch\n*** update file: f.txt\n{hunk}\n*** end patch"), is(right)),
        ("bold markers", format!("**Begin Patch**\n**Update File: f.txt**\n{hunk}\n**End Patch**"), either(right, "|")),
        ("stars at both ends", format!("*** Begin Patch ***\n*** Update File: f.txt ***\n{hunk}\n*** End Patch ***"), is(right)),
        ("a path in quotes", format!("*** Begin Patch\n*** Update File: \"f.txt\"\n{hunk}\n*** End Patch"), is(right)),
        ("a path in backticks", format!("*** Begin Patch\n*** Update File: `f.txt`\n{hunk}\n*** End Patch"), is(right)),
        ("a path of git", format!("*** Begin Patch\n*** Update File: a/f.txt\n{hunk}\n*** End Patch"), is(right)),
        ("a path with a line", format!("*** Begin Patch\n*** Update File: f.txt:2\n{hunk}\n*** End Patch"), either(right, "f.txt")),
        ("two paths", format!("*** Begin Patch\n*** Update File: f.txt, g.txt\n{hunk}\n*** End Patch"), No("|")),
        ("no path", format!("*** Begin Patch\n*** Update File:\n{hunk}\n*** End Patch"), No("path")),
        ("cut in the middle of a line", "*** Begin Patch\n*** Update File: f.txt\n@@\n one\n-two\n+2\n th".to_owned(), No("cut off")),
        ("cut before its last sign", format!("*** Begin Patch\n*** Update File: f.txt\n{hunk}\n*** End"), No("cut off")),
        ("two envelopes", format!("*** Begin Patch\n*** Update File: f.txt\n{hunk}\n*** End Patch\n*** Begin Patch\n*** Update File: f.txt\n@@\n-three\n+3\n*** End Patch"), either("one\n2\n3\n", "|")),
        ("update, then delete", format!("*** Begin Patch\n*** Update File: f.txt\n{hunk}\n*** Delete File: f.txt\n*** End Patch"), No("f.txt")),
        ("delete, then add", "*** Begin Patch\n*** Delete File: f.txt\n*** Add File: f.txt\n+new\n*** End Patch".to_owned(), either("new\n", "f.txt")),
        ("add over it, then update", format!("*** Begin Patch\n*** Add File: f.txt\n+one\n*** Update File: f.txt\n{hunk}\n*** End Patch"), No("f.txt")),
        ("moved onto itself", format!("*** Begin Patch\n*** Update File: f.txt\n*** Move to: f.txt\n{hunk}\n*** End Patch"), either(right, "|")),
        ("moved onto a file outside", format!("*** Begin Patch\n*** Update File: f.txt\n*** Move to: ../../f.txt\n{hunk}\n*** End Patch"), No("exists")),
        ("SEARCH and REPLACE", "f.txt\n<<<<<<< SEARCH\ntwo\n=======\n2\n>>>>>>> REPLACE".to_owned(), No("no patch")),
        ("SEARCH and REPLACE in the envelope", "*** Begin Patch\n*** Update File: f.txt\n<<<<<<< SEARCH\ntwo\n=======\n2\n>>>>>>> REPLACE\n*** End Patch".to_owned(), No("|")),
        ("a context diff", "*** f.txt\n--- f.txt\n***************\n*** 1,3 ****\n  one\n! two\n  three\n--- 1,3 ----\n  one\n! 2\n  three\n".to_owned(), No("|")),
        ("an ed script", "2c\n2\n.\nw\n".to_owned(), No("no patch")),
        ("a sed command", "s/two/2/".to_owned(), No("no patch")),
        ("as a JSON text", serde_json::to_string(&format!("*** Begin Patch\n*** Update File: f.txt\n{hunk}\n*** End Patch")).unwrap_or_default(), either(right, "|")),
        ("its newlines escaped", format!("*** Begin Patch\n*** Update File: f.txt\n{hunk}\n*** End Patch").replace('\n', "\\n"), either(right, "|")),
        ("as a function call", format!("apply_patch(\"\"\"\n*** Begin Patch\n*** Update File: f.txt\n{hunk}\n*** End Patch\n\"\"\")"), is(right)),
        ("git's diff with counts that are too small", "--- a/f.txt\n+++ b/f.txt\n@@ -1,1 +1,1 @@\n one\n-two\n+2\n three\n".to_owned(), either(right, "|")),
        ("git's diff with counts that are too large", "--- a/f.txt\n+++ b/f.txt\n@@ -1,9 +1,9 @@\n one\n-two\n+2\n three\n".to_owned(), either(right, "|")),
        ("git's diff without counts", "--- a/f.txt\n+++ b/f.txt\n@@ -1 +1 @@\n one\n-two\n+2\n three\n".to_owned(), either(right, "|")),
        ("git's diff, its context wrong", "--- a/f.txt\n+++ b/f.txt\n@@ -1,3 +1,3 @@\n zero\n-two\n+2\n three\n".to_owned(), No("|")),
        ("git's diff of two other names", "--- a/f.txt\n+++ b/g.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n".to_owned(), No("|")),
        ("a new file by git that is there", "--- /dev/null\n+++ b/f.txt\n@@ -0,0 +1 @@\n+new\n".to_owned(), No("exists")),
        ("a deletion by git of other text", "--- a/f.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-zwei\n".to_owned(), No("|")),
        ("all plus: the file as it shall be", "*** Begin Patch\n*** Update File: f.txt\n@@\n+one\n+2\n+three\n*** End Patch".to_owned(), either(right, "|")),
    ] {
        cases.patch(&format!("call: {what}"), three, &patch, want);
    }
}
