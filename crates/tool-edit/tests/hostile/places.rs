//! Where an edit belongs: drifted, ambiguous, wrongly indented, with lines left out.

use crate::{Cases, IsOrNo, No, either, is};
use serde_json::{Value, json};

const FUNCTION: &str = "fn total(list: &[Item]) -> u64 {\n    let mut sum = 0;\n    for item in list {\n        if item.hidden {\n            continue;\n        }\n        sum += item.price * item.count;\n    }\n    log(\"summed\");\n    sum\n}\n";

fn around(body: &str) -> String {
    format!("use std::fmt;\n\nstruct Item;\n\n{body}\nfn main() {{\n    run();\n}}\n")
}

pub(super) fn drifted(cases: &mut Cases) {
    let file = around(FUNCTION);
    let new = "fn total(list: &[Item]) -> u64 {\n    list.iter().map(|i| i.price).sum()\n}\n";
    let right = around(new);
    let drift = |from: &str, to: &str| FUNCTION.replace(from, to);
    for (what, old) in [
        ("one word", drift("summed", "summed up")),
        ("a line left out", drift("    log(\"summed\");\n", "")),
        ("a line more", drift("    sum\n}", "    // done\n    sum\n}")),
        ("a renamed variable", drift("item", "it")),
        ("another order", drift("item.price * item.count", "item.count * item.price")),
        (
            "other brackets",
            drift(
                "        if item.hidden {\n            continue;\n        }\n",
                "        if item.hidden { continue; }\n",
            ),
        ),
        ("no blank at all", FUNCTION.replace("    ", "")),
        ("tabs", FUNCTION.replace("    ", "\t")),
        ("two blanks", FUNCTION.replace("    ", "  ")),
    ] {
        let new = match what {
            "tabs" => new.replace("    ", "\t"),
            "two blanks" => new.replace("    ", "  "),
            _ => new.to_owned(),
        };
        cases.edit(
            &format!("whole function, {what}"),
            &file,
            &old,
            &new,
            IsOrNo(right.clone().into_bytes(), "Yours (-) and the file's (+)"),
        );
    }
    // First and last lines fit, but the lines between them are different: they must not be replaced.
    let other = "fn total(list: &[Item]) -> u64 {\n    alpha();\n    beta();\n    gamma();\n    delta();\n    epsilon();\n    zeta();\n    eta();\n    theta();\n    sum\n}\n";
    cases.edit("whole function, another middle", &file, other, new, No("not found|line"));
    // Two functions with the same first and last lines.
    let twice = format!("{file}\n{}", FUNCTION.replace("hidden", "secret").replace("summed", "done"));
    let old = FUNCTION.replace("hidden", "invisible").replace("summed", "ready");
    cases.edit("two functions that could be meant", &twice, &old, new, No("line"));
    let near = "    if a {\n        one();\n        two();\n    }\n";
    let file = format!("fn x() {{\n{near}{near}}}\n");
    cases.edit("the same block twice", &file, near, "", No("2 places|line"));
    cases.edit(
        "the same block twice, wrongly indented",
        &file,
        &near.replace("    ", "  "),
        "x();\n",
        No("line"),
    );
    cases.edit(
        "only braces",
        &file,
        "    }\n}",
        "    }\n    end();\n}",
        is(&format!(
            "fn x() {{\n{near}{}",
            "    if a {\n        one();\n        two();\n    }\n    end();\n}\n"
        )),
    );
    cases.edit("one brace", &file, "}", "};", No("places|line"));
    cases.edit("blanks only", &file, "    ", "\t", No("place"));
    cases.edit("a newline only", &file, "\n", "\n\n", No("place"));
}

pub(super) fn tabs_and_indentation(cases: &mut Cases) {
    let tabs = "class A {\n\tint f() {\n\t\tif (a) {\n\t\t\treturn 1;\n\t\t}\n\t\treturn 2;\n\t}\n}\n";
    let spaces = |text: &str| text.replace('\t', "    ");
    let (old, new) = (
        "\t\tif (a) {\n\t\t\treturn 1;\n\t\t}\n",
        "\t\tif (b) {\n\t\t\tif (c) {\n\t\t\t\treturn 3;\n\t\t\t}\n\t\t}\n",
    );
    let right = tabs.replace(old, new);
    cases.edit("spaces for tabs", tabs, &spaces(old), &spaces(new), is(&right));
    cases.edit("tabs for spaces", spaces(tabs), old, new, is(&spaces(&right)));
    cases.edit(
        "two spaces for tabs",
        tabs,
        &old.replace('\t', "  "),
        &new.replace('\t', "  "),
        either(&right, "not found"),
    );
    cases.edit("spaces in old, tabs in new", tabs, &spaces(old), new, either(&right, "not found"));
    let flat = |text: &str| text.lines().fold(String::new(), |out, line| out + line.trim_start() + "\n");
    cases.edit("no indentation at all", tabs, &flat(old), new, either(&right, "not found"));
    let python = "def f():\n    if a:\n        x()\n    y()\n\ndef g():\n    if a:\n        z()\n    y()\n";
    cases.edit(
        "Python, one level less",
        python,
        "if a:\n    x()\ny()",
        "if b:\n    x()\n    w()\ny()",
        is(&python.replacen(
            "    if a:\n        x()\n    y()",
            "    if b:\n        x()\n        w()\n    y()",
            1,
        )),
    );
    cases.edit("Python, one level more, ambiguous", python, "        if a:", "        if b:", No("2 places"));
    cases.edit(
        "Python, dedent inside of new",
        python,
        "    if a:\n        x()\n",
        "    if a:\n        x()\n    else:\n        v()\n",
        is(&python.replacen("        x()\n", "        x()\n    else:\n        v()\n", 1)),
    );
    cases.edit("a tab inside of a line", "a\tb\nc\n", "a b", "a c", either("a\tc\nc\n", "not found"));
    cases.edit("trailing spaces that matter", "one  \ntwo\n", "one\ntwo", "one\n2", is("one  \n2\n"));
    cases.edit("only spaces change", "a b\n", "a  b", "a b", No("|"));
    cases.edit("trailing space is what goes", "one  \ntwo\n", "one  \n", "one\n", is("one\ntwo\n"));
}

pub(super) fn elided(cases: &mut Cases) {
    let file = around(FUNCTION);
    for dots in [
        "    ...",
        "    // ...",
        "    …",
        "    // rest of function",
        "    # ... existing code ...",
        "    /* ... */",
        "    // ... (unchanged)",
    ] {
        let old = format!("fn total(list: &[Item]) -> u64 {{\n{dots}\n    sum\n}}\n");
        cases.edit(&format!("left out in old: {dots}"), &file, &old, "fn total() {}\n", No("|"));
        let new = format!("fn total(list: &[Item]) -> u64 {{\n    begin();\n{dots}\n}}\n");
        if dots.contains("...") || dots.contains("existing") {
            cases.edit(
                &format!("left out in new: {dots}"),
                &file,
                FUNCTION,
                &new,
                either(&file.replace(FUNCTION, &new), "placeholder"),
            );
        }
    }
    let stub = "class P:\n    def f(self) -> int:\n        ...\n    def g(self) -> int:\n        ...\n";
    cases.edit(
        "dots that are code",
        stub,
        "    def g(self) -> int:\n        ...",
        "    def h(self) -> int:\n        ...",
        is(&stub.replace("g(self)", "h(self)")),
    );
    cases.edit(
        "spread that is code",
        "f({\n  ...a,\n  b,\n})\n",
        "  ...a,\n  b,",
        "  ...a,\n  ...c,\n  b,",
        is("f({\n  ...a,\n  ...c,\n  b,\n})\n"),
    );
}

pub(super) fn places(cases: &mut Cases) {
    cases.all(
        "all, from within the indentation: exact",
        "    a();\nx\n    a();\n",
        "  a();\nx",
        "b();",
        is("  b();\n    a();\n"),
    );
    cases.all(
        "all, tolerant would be three",
        "\ta();\n\ta();\n\ta();\n",
        "    a();",
        "    b();",
        either("\tb();\n\tb();\n\tb();\n", "|"),
    );
    cases.all("all, with itself in new", "a a a\n", "a", "aa", is("aa aa aa\n"));
    cases.all("all, overlapping", "aaaa\n", "aa", "b", is("bb\n"));
    cases.all("all, none", "a\n", "b", "c", No("not found"));
    cases.edit("overlapping places", "aaa\n", "aa", "b", No("place"));
    let many = "x\n".repeat(500);
    cases.edit("five hundred places", &many, "x", "y", No("500 places"));
    let multi = |edits: Value| json!({"path": "f.txt", "edits": edits});
    let file = "one\ntwo\nthree\nfour\n";
    for (what, edits, want) in [
        (
            "in another order",
            json!([{"old": "three", "new": "3"}, {"old": "one", "new": "1"}]),
            is("1\ntwo\n3\nfour\n"),
        ),
        (
            "side by side",
            json!([{"old": "one\n", "new": ""}, {"old": "two\n", "new": ""}]),
            is("three\nfour\n"),
        ),
        (
            "overlapping",
            json!([{"old": "one\ntwo", "new": "x"}, {"old": "two\nthree", "new": "y"}]),
            No("Edit 2"),
        ),
        (
            "swapped",
            json!([{"old": "one", "new": "two"}, {"old": "two", "new": "one"}]),
            either("two\none\nthree\nfour\n", "Edit 2"),
        ),
        (
            "the second undoes the first",
            json!([{"old": "one", "new": "two"}, {"old": "two\ntwo", "new": "x"}]),
            No("Edit 2"),
        ),
        (
            "all in one, one in the next",
            json!([{"old": "o", "new": "0", "replace_all": true}, {"old": "three", "new": "3"}]),
            is("0ne\ntw0\n3\nf0ur\n"),
        ),
        (
            "a bad one in the middle",
            json!([{"old": "one", "new": "1"}, {"old": "", "new": "x"}, {"old": "two", "new": "2"}]),
            No("Edit 2"),
        ),
        ("not a list of objects", json!(["one", "two"]), No("edits")),
    ] {
        cases.push(&format!("several edits, {what}"), file, "multi_edit", multi(edits), want);
    }
}
