//! Calls as models really make them: each slip on each of a dozen edits, over 400 calls. Every one is applied right, or
//! refused with words that name the reason; none is applied wrongly, and a refusal leaves the bytes as they were.

#![expect(clippy::unwrap_used, reason = "a failed set-up fails the test")]

use becket_tool::testing::{env, run};
use becket_tool::{Tool, sha256};
use serde_json::{Value, json};
use std::sync::Arc;

/// File name, content, old, new.
const EDITS: [(&str, &str, &str, &str); 12] = [
    (
        "a.rs",
        "use std::io;\n\nfn main() {\n    let name = \"world\";\n    println!(\"hello {name}\");\n}\n\nfn other() {}\n",
        "    let name = \"world\";\n    println!(\"hello {name}\");",
        "    let name = \"moon\";\n    println!(\"hello {name}\");\n    done();",
    ),
    (
        "b.py",
        "class A:\n    def f(self, x):\n        if x > 1:\n            return \"big\"\n        return \"small\"\n\n    def g(self):\n        pass\n",
        "        if x > 1:\n            return \"big\"\n        return \"small\"",
        "        if x > 10:\n            return \"huge\"\n        return \"small\"",
    ),
    (
        "c.ts",
        "export function add(a: number, b: number): number {\n  const sum = a + b;\n  return sum;\n}\n\nexport const list: Array<string> = [\"x\"];\n",
        "  const sum = a + b;\n  return sum;",
        "  return a + b;",
    ),
    (
        "d.go",
        "package main\n\nfunc run(n int) error {\n\tif n < 0 {\n\t\treturn errNegative\n\t}\n\treturn nil\n}\n",
        "\tif n < 0 {\n\t\treturn errNegative\n\t}",
        "\tif n <= 0 {\n\t\treturn errNegative\n\t}",
    ),
    (
        "e.html",
        "<ul>\n  <li class=\"a\">one &amp; two</li>\n  <li class=\"b\">three</li>\n</ul>\n<p>end</p>\n",
        "  <li class=\"b\">three</li>\n</ul>",
        "  <li class=\"b\">three</li>\n  <li>four</li>\n</ul>",
    ),
    (
        "f.json",
        "{\n  \"name\": \"x\",\n  \"version\": \"1.0.0\",\n  \"private\": true\n}\n",
        "  \"version\": \"1.0.0\",\n  \"private\": true",
        "  \"version\": \"1.1.0\",\n  \"private\": true",
    ),
    (
        "g.c",
        "#include <stdio.h>\n\nint main(void) {\n    char *s = \"a<b && c>d\";\n    puts(s);\n    return 0;\n}\n",
        "    char *s = \"a<b && c>d\";\n    puts(s);",
        "    char *s = \"a<b || c>d\";\n    puts(s);",
    ),
    (
        "h.yml",
        "jobs:\n  test:\n    steps:\n      - run: \"make\"\n      - run: \"make test\"\n  lint:\n    steps: []\n",
        "      - run: \"make\"\n      - run: \"make test\"",
        "      - run: \"make all\"\n      - run: \"make test\"",
    ),
    (
        "i.js",
        "function a() {\n  if (x < 1) {\n    call(\"one\");\n  }\n}\n\nfunction b() {\n  call(\"two\");\n}\n",
        "  if (x < 1) {\n    call(\"one\");\n  }",
        "  if (x < 2) {\n    call(\"one\");\n    call(\"more\");\n  }",
    ),
    (
        "j.md",
        "# Title\n\nSome text with \"quotes\" here.\nAnd a second line - done.\n\nLast paragraph.\n",
        "Some text with \"quotes\" here.\nAnd a second line - done.",
        "Some text with \"quotes\" there.\nAnd a second line - done.",
    ),
    (
        "k.sql",
        "SELECT id, \"name\"\nFROM users\nWHERE age > 18\n  AND active = 1\nORDER BY id;\n",
        "WHERE age > 18\n  AND active = 1",
        "WHERE age >= 21\n  AND active = 1",
    ),
    (
        "l.java",
        "public class L {\n    private Map<String, Integer> m = new HashMap<>();\n\n    public int get(String k) {\n        return m.get(\"k\" + k);\n    }\n}\n",
        "    public int get(String k) {\n        return m.get(\"k\" + k);\n    }",
        "    public int get(String k) {\n        return m.getOrDefault(\"k\" + k, 0);\n    }",
    ),
];

enum Want {
    Right,
    /// A refusal with these words.
    Refused(&'static str),
    /// Applied as it was meant, or refused with these words.
    Either(&'static str),
    /// As `Either`, but changed lines may have the quotes and the spaces that the model gave them.
    Alike(&'static str),
}
use Want::{Alike, Either, Refused, Right};

fn plain(text: &str) -> String {
    text.replace('\'', "\"")
        .lines()
        .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join("\n")
}

struct Case {
    what: &'static str,
    file: String,
    result: String,
    tool: &'static str,
    input: Value,
    want: Want,
}

fn edit_of(path: &str, old: &str, new: &str) -> Value {
    json!({"path": path, "old": old, "new": new})
}

fn by_lines(text: &str, change: impl Fn(usize, &str) -> String) -> String {
    text.split('\n').enumerate().map(|(i, line)| change(i, line)).collect::<Vec<_>>().join("\n")
}

fn dedented(text: &str, by: usize) -> String {
    by_lines(text, |_, line| line.get(by.min(line.len())..).unwrap_or_default().to_owned())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn cases((path, file, old, new): (&str, &str, &str, &str)) -> Vec<Case> {
    let result = file.replacen(old, new, 1);
    assert_eq!(file.matches(old).count(), 1, "{path}");
    let indent = old.lines().map(|l| l.len() - l.trim_start().len()).min().unwrap();
    let first = file[..file.find(old).unwrap()].matches('\n').count() + 1;
    let numbers = |text: &str, sep: &str| by_lines(text, |i, line| format!("{:>6}{sep}{line}", first + i));
    let deeper = |text: &str| {
        by_lines(text, |_, line| if line.is_empty() { String::new() } else { format!("    {line}") })
    };
    let middle = |text: &str, with: &str| {
        let mut lines: Vec<&str> = text.lines().collect();
        let at = lines.len() / 2;
        lines[at] = with;
        lines.join("\n")
    };
    let typo = old.replacen(|c: char| c.is_ascii_alphabetic(), "Q", 1).replace("re", "er");
    let crlf = |text: &str| text.replace('\n', "\r\n");
    let mut out = Vec::new();
    let mut push = |what, file: &str, result: &str, tool, input, want| {
        out.push(Case { what, file: file.to_owned(), result: result.to_owned(), tool, input, want });
    };
    let mut slip =
        |what, old: &str, new: &str, want| push(what, file, &result, "edit", edit_of(path, old, new), want);
    slip("exact", old, new, Right);
    slip("line ends of another system", &crlf(old), &crlf(new), Right);
    slip("spaces at line ends", &by_lines(old, |_, l| format!("{l}  ")), new, Right);
    slip(
        "spaces at line ends in both",
        &by_lines(old, |_, l| format!("{l} ")),
        &by_lines(new, |_, l| format!("{l} ")),
        Alike("nothing was changed"),
    );
    slip("indentation left out", &dedented(old, indent), &dedented(new, indent), Right);
    slip("indented more", &deeper(old), &deeper(new), Right);
    slip("first line trimmed", old.trim_start(), new.trim_start(), Right);
    slip("a newline more at the end", &format!("{old}\n"), &format!("{new}\n"), Right);
    slip(
        "two newlines more at both ends",
        &format!("\n{old}\n\n"),
        &format!("\n{new}\n\n"),
        Either("nothing was changed"),
    );
    slip("a newline more in front", &format!("\n{old}"), &format!("\n{new}"), Right);
    slip("Markdown fence", &format!("```\n{old}\n```"), &format!("```\n{new}\n```"), Right);
    slip(
        "Markdown fence with a language",
        &format!("```rust\n{old}\n```\n"),
        &format!("```rust\n{new}\n```\n"),
        Right,
    );
    slip("fence around old only", &format!("```\n{old}\n```"), new, Right);
    slip("HTML entities", &escaped(old), &escaped(new), Right);
    slip("numbers and tabs", &numbers(old, "\t"), &numbers(new, "\t"), Right);
    slip("numbers and arrows", &numbers(old, "→"), &numbers(new, "→"), Right);
    slip("numbers in old only", &numbers(old, "\t"), new, Right);
    slip("numbers and bars", &numbers(old, " | "), &numbers(new, " | "), Right);
    slip("numbers in new only", old, &numbers(new, "→"), Refused("line numbers"));
    slip("numbers in the first line", &format!("{first:>6}→{old}"), new, Refused("line numbers"));
    slip("escaped quotes", &old.replace('"', "\\\""), &new.replace('"', "\\\""), Right);
    slip("escaped newlines", &old.replace('\n', "\\n"), &new.replace('\n', "\\n"), Right);
    slip(
        "escaped quotes and newlines",
        &old.replace('"', "\\\"").replace('\n', "\\n"),
        &new.replace('"', "\\\"").replace('\n', "\\n"),
        Right,
    );
    slip("typographic quotes", &old.replace('"', "”"), &new.replace('"', "”"), Either("nothing was changed"));
    slip(
        "spaces that do not break",
        &old.replace(' ', "\u{a0}"),
        &new.replace(' ', "\u{a0}"),
        Either("nothing was changed"),
    );
    slip("a wrong dash", &old.replace('-', "–"), &new.replace('-', "–"), Right);
    slip("the same twice", old, old, Refused("are the same"));
    slip("nothing to replace", "", new, Refused("`old` is empty"));
    slip("lines left out of old", &middle(old, "// ... existing code ..."), new, Refused("placeholder"));
    slip(
        "lines left out of new",
        old,
        &format!("{new}\n// ... rest of the code unchanged ..."),
        Refused("placeholder"),
    );
    slip(
        "lines left out of new, in Python",
        old,
        &format!("# ... existing code ...\n{new}"),
        Refused("placeholder"),
    );
    slip("another letter", &typo, new, Refused("was not found"));
    slip("something else", "completely different text\nof two lines", new, Refused("was not found"));
    slip(
        "done already",
        &format!("{old}\nzzz"),
        &result[result.find(new.lines().last().unwrap()).unwrap()..],
        Either("nothing was changed"),
    );
    slip(
        "one space more inside",
        &old.replacen(' ', "  ", 1),
        &new.replacen(' ', "  ", 1),
        Alike("nothing was changed"),
    );
    slip("swapped quotes", &old.replace('"', "'"), &new.replace('"', "'"), Alike("nothing was changed"));
    let twice = format!("{file}{file}");
    push("twice in the file", &twice, &twice, "edit", edit_of(path, old, new), Refused("at 2 places"));
    let all = json!({"path": path, "old": old, "new": new, "replace_all": "true"});
    push("all, as a text", &twice, &format!("{result}{result}"), "edit", all, Right);
    push("file of another system", &crlf(file), &crlf(&result), "edit", edit_of(path, old, new), Right);
    let open = file.trim_end();
    push("no newline at the end", open, result.trim_end(), "edit", edit_of(path, old, new), Right);
    let spaced = by_lines(file, |_, l| if l.is_empty() { String::new() } else { format!("{l} ") });
    push(
        "file with spaces at line ends",
        &spaced,
        &spaced,
        "edit",
        edit_of(path, "nothing of it", new),
        Refused("was not found"),
    );
    for (what, input) in [
        ("names of another agent", json!({"file_path": path, "old_string": old, "new_string": new})),
        ("camel case", json!({"filePath": path, "oldString": old, "newString": new, "replaceAll": false})),
        (
            "null members",
            json!({"path": path, "old": old, "new": new, "replace_all": null, "description": null}),
        ),
        ("a reason", json!({"path": path, "old_str": old, "new_str": new, "explanation": "because"})),
        ("all of the input as a text", Value::String(edit_of(path, old, new).to_string())),
        ("path in quotes", edit_of(&format!("\"{path}\""), old, new)),
        ("path of a diff", edit_of(&format!("a/{path}"), old, new)),
        ("path as a mention", edit_of(&format!("@{path}"), old, new)),
        ("path with a line", edit_of(&format!("{path}:{first}"), old, new)),
        ("path with a dot", edit_of(&format!("./{path}"), old, new)),
        ("path with spaces", edit_of(&format!(" {path}\n"), old, new)),
    ] {
        push(what, file, &result, "edit", input, Right);
    }
    let one = json!({"old": old, "new": new});
    for (what, edits) in [
        ("one edit for a list", one.clone()),
        ("edits as a text", Value::String(json!([one]).to_string())),
        ("edits by other names", json!([{"old_string": old, "new_string": new}])),
    ] {
        push(what, file, &result, "multi_edit", json!({"path": path, "edits": edits}), Right);
    }
    for (what, edits, want) in [
        (
            "the second is not there",
            json!([one, {"old": "is not there", "new": "x"}]),
            Refused("Edit 2: `old` was not found"),
        ),
        ("the second is in the first", json!([one, {"old": new, "new": "x"}]), Refused("Edit 2:")),
        ("the same edit twice", json!([one, one]), Refused("Edit 2:")),
        ("no edits", json!([]), Refused("`edits` is empty")),
    ] {
        push(what, file, &result, "multi_edit", json!({"path": path, "edits": edits}), want);
    }
    let side = |sign: &str, text: &str| by_lines(text, |_, line| format!("{sign}{line}"));
    let patch = format!(
        "*** Begin Patch\n*** Update File: {path}\n@@\n{}\n{}\n*** End Patch",
        side("-", old),
        side("+", new)
    );
    push("patch", file, &result, "apply_patch", json!({"patch": patch}), Right);
    push("patch by another name", file, &result, "apply_patch", json!({"input": patch}), Right);
    push(
        "patch as a command",
        file,
        &result,
        "apply_patch",
        json!({"command": ["apply_patch", patch]}),
        Right,
    );
    let heredoc = format!("apply_patch <<'EOF'\n{patch}\nEOF");
    push("patch as a here-document", file, &result, "apply_patch", json!({"patch": heredoc}), Right);
    let cut = patch.replace("*** End Patch", "");
    push("patch cut off", file, &result, "apply_patch", json!({"patch": cut}), Refused("cut off"));
    out
}

#[tokio::test]
async fn slips_are_applied_right_or_refused_with_the_reason() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for edit in EDITS {
        for Case { what, file, result, tool, input, want } in cases(edit) {
            count += 1;
            let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
            // The project has parent folders of its own, so a path with `..` reaches nobody's files.
            let project = dir.path().join("1/2/3/project");
            std::fs::create_dir_all(&project).unwrap();
            let (env, host) = env(&project);
            let path = env.cwd.join(edit.0);
            std::fs::write(&path, &file).unwrap();
            host.kept().reads.insert(path.clone(), sha256(file.as_bytes()));
            let tool: Arc<dyn Tool> =
                becket_tool_edit::tools().into_iter().find(|t| t.spec().name == tool).unwrap();
            let output = run(&*tool, &env, input).await;
            let now = std::fs::read_to_string(&path).unwrap();
            let (applied, kept) = (!output.is_error && now == result, output.is_error && now == file);
            let fine = match want {
                Right => applied,
                Refused(words) => kept && output.content.contains(words),
                Alike(_) if !output.is_error => plain(&now) == plain(&result),
                Alike(words) => kept && output.content.contains(words),
                Either(words) => applied || (kept && output.content.contains(words)),
            };
            if !fine {
                wrong.push(format!("{what} on {}: {}\n---\n{now}", edit.0, output.content));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n=====\n"));
    assert!(count >= 400, "{count}");
}
