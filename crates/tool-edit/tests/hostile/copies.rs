//! Edits with mistakes of copying: each mistake on each of nine edits in as many languages. The result must be the intended
//! edit or a refusal, and nothing else.

use crate::{Cases, Want, either};
use serde_json::json;

/// Content, old, new. `old` is in the content once.
const EDITS: [(&str, &str, &str, &str); 9] = [
    (
        "rust",
        "impl<T: Clone> Cache<T> {\n    pub fn get(&self, key: &str) -> Option<&T> {\n        let hash = self.hash(key);\n\n        // Look at the newest first.\n        self.slots.iter().rev().find(|slot| slot.hash == hash).map(|slot| &slot.value)\n    }\n\n    fn hash(&self, key: &str) -> u64 {\n        key.len() as u64\n    }\n}\n",
        "        let hash = self.hash(key);\n\n        // Look at the newest first.\n        self.slots.iter().rev().find(|slot| slot.hash == hash).map(|slot| &slot.value)\n    }",
        "        let hash = self.hash(key);\n\n        // Look at the newest first.\n        let slot = self.slots.iter().rev().find(|slot| slot.hash == hash)?;\n        Some(&slot.value)\n    }",
    ),
    (
        "python",
        "def load(path, *, strict=False):\n    \"\"\"Load a file — never twice.\n\n    Returns a dict.\n    \"\"\"\n    with open(path, encoding='utf-8') as handle:\n        data = json.load(handle)\n\n    if strict and 'id' not in data:\n        raise KeyError(\"id\")\n    return data\n",
        "        data = json.load(handle)\n\n    if strict and 'id' not in data:\n        raise KeyError(\"id\")\n    return data",
        "        data = json.load(handle)\n\n    if strict and 'id' not in data:\n        raise KeyError(f\"id in {path}\")\n    return data",
    ),
    (
        "tsx",
        "export const Row = ({ item }: Props) => {\n  const label = `${item.name} (${item.count})`;\n\n  return (\n    <li className=\"row\" key={item.id}>\n      <span title='full'>{label}</span>\n    </li>\n  );\n};\n",
        "    <li className=\"row\" key={item.id}>\n      <span title='full'>{label}</span>\n    </li>",
        "    <li className=\"row\" key={item.id}>\n      <span title='full'>{label}</span>\n      <Badge count={item.count} />\n    </li>",
    ),
    (
        "make",
        "CFLAGS ?= -O2\n\nall: build test\n\nbuild:\n\tcargo build --release\n\t@echo \"built $$(date)\"\n\ntest: build\n\tcargo test\n",
        "build:\n\tcargo build --release\n\t@echo \"built $$(date)\"",
        "build:\n\tcargo build --release --locked\n\t@echo \"built $$(date)\"",
    ),
    (
        "yaml",
        "services:\n  web:\n    image: \"nginx:1.25\"\n    ports:\n      - \"80:80\"\n\n    environment:\n      - MODE=prod\n  db:\n    image: postgres:16\n",
        "    ports:\n      - \"80:80\"\n\n    environment:\n      - MODE=prod",
        "    ports:\n      - \"8080:80\"\n\n    environment:\n      - MODE=prod",
    ),
    (
        "css",
        ".card {\n  color: #333;\n  padding: 4px 8px;\n}\n\n.card:hover::after {\n  content: \"→ more\";\n  margin: 0 auto;\n}\n",
        ".card:hover::after {\n  content: \"→ more\";\n  margin: 0 auto;\n}",
        ".card:hover::after {\n  content: \"→ more\";\n  margin: 0;\n  opacity: 0.5;\n}",
    ),
    (
        "go",
        "func (s *Server) Close() error {\n\ts.mu.Lock()\n\tdefer s.mu.Unlock()\n\n\tif s.closed {\n\t\treturn ErrClosed\n\t}\n\ts.closed = true\n\treturn s.listener.Close()\n}\n",
        "\tif s.closed {\n\t\treturn ErrClosed\n\t}\n\ts.closed = true",
        "\tif s.closed {\n\t\treturn nil\n\t}\n\ts.closed = true",
    ),
    (
        "shell",
        "#!/bin/sh\nset -eu\n\nfor f in \"$@\"; do\n    case \"$f\" in\n        *.gz) gunzip -c -- \"$f\" ;;\n        *)    cat -- \"$f\" ;;\n    esac\ndone | sort -u\n",
        "    case \"$f\" in\n        *.gz) gunzip -c -- \"$f\" ;;\n        *)    cat -- \"$f\" ;;\n    esac",
        "    case \"$f\" in\n        *.gz) gunzip -c -- \"$f\" ;;\n        *.xz) xz -dc -- \"$f\" ;;\n        *)    cat -- \"$f\" ;;\n    esac",
    ),
    (
        "sql",
        "CREATE TABLE users (\n    id      INTEGER PRIMARY KEY,\n    name    TEXT NOT NULL DEFAULT '',\n    age     INTEGER CHECK (age >= 0)\n);\n\n-- Everyone who may log in.\nCREATE VIEW active AS SELECT * FROM users;\n",
        "    name    TEXT NOT NULL DEFAULT '',\n    age     INTEGER CHECK (age >= 0)\n);",
        "    name    TEXT NOT NULL DEFAULT '',\n    age     INTEGER CHECK (age BETWEEN 0 AND 150)\n);",
    ),
];

fn lines(text: &str, f: impl Fn(usize, &str) -> String) -> String {
    text.split('\n').enumerate().map(|(i, line)| f(i, line)).collect::<Vec<_>>().join("\n")
}

fn both(old: &str, new: &str, f: impl Fn(&str) -> String) -> (String, String) {
    (f(old), f(new))
}

/// Slips of copying in spite of which the edit must be applied as it was meant.
fn harmless(old: &str, new: &str, first: usize) -> Vec<(&'static str, String, String)> {
    let number =
        |sep: &'static str| move |text: &str| lines(text, |i, line| format!("{:>5}{sep}{line}", first + i));
    let mut out = Vec::new();
    let mut push = |what, (old, new): (String, String)| out.push((what, old, new));
    push("as it is", (old.into(), new.into()));
    push(
        "two more blanks",
        both(old, new, |t| lines(t, |_, l| if l.is_empty() { l.into() } else { format!("  {l}") })),
    );
    push("CRLF", both(old, new, |t| t.replace('\n', "\r\n")));
    push("a newline at the end", both(old, new, |t| format!("{t}\n")));
    push("numbers with tabs", both(old, new, number("\t")));
    push("numbers with arrows in old", (number("→")(old), new.into()));
    push("numbers with bars", both(old, new, number(" | ")));
    push("a fence", both(old, new, |t| format!("```\n{t}\n```")));
    push("a fence with a language", both(old, new, |t| format!("```rust\n{t}\n```\n")));
    out
}

/// Slips of copying for which the edit must be applied as it was meant, or refused.
fn doubtful(old: &str, new: &str, first: usize) -> Vec<(&'static str, String, String)> {
    let mut out = Vec::new();
    let mut push = |what, (old, new): (String, String)| out.push((what, old, new));
    let dedent = |t: &str| {
        let least = t
            .lines()
            .filter(|l| !l.trim().is_empty())
            .map(|l| l.len() - l.trim_start().len())
            .min()
            .unwrap_or(0);
        lines(t, |_, l| l.get(least..).unwrap_or_default().to_owned())
    };
    push("not indented", both(old, new, dedent));
    push("no indentation at all", both(old, new, |t| lines(t, |_, l| l.trim_start().to_owned())));
    push("first line not indented", both(old, new, |t| t.trim_start().to_owned()));
    push("trailing blanks", both(old, new, |t| lines(t, |_, l| format!("{l}  "))));
    push("tabs for blanks", both(old, new, |t| t.replace("    ", "\t")));
    push("blanks for tabs", both(old, new, |t| t.replace('\t', "    ")));
    push(
        "blanks squeezed",
        both(old, new, |t| {
            lines(t, |_, l| {
                let rest = l.trim_start();
                format!(
                    "{}{}",
                    &l[..l.len() - rest.len()],
                    rest.split_whitespace().collect::<Vec<_>>().join(" ")
                )
            })
        }),
    );
    push("smart quotes", both(old, new, |t| t.replace('"', "\u{201d}").replace('\'', "\u{2019}")));
    push("straight for arrows and dashes", both(old, new, |t| t.replace('→', "->").replace('—', "-")));
    push("hard blanks", both(old, new, |t| t.replace(' ', "\u{a0}")));
    push("a zero-width blank", both(old, new, |t| format!("\u{200b}{t}")));
    push("a byte order mark", both(old, new, |t| format!("\u{feff}{t}")));
    push("escaped newlines", both(old, new, |t| t.replace('\n', "\\n")));
    push("escaped quotes", both(old, new, |t| t.replace('"', "\\\"")));
    push(
        "escaped as JSON",
        both(old, new, |t| {
            let text = serde_json::to_string(t).unwrap_or_default();
            text[1..text.len() - 1].to_owned()
        }),
    );
    push("as a JSON string", both(old, new, |t| serde_json::to_string(t).unwrap_or_default()));
    push(
        "entities",
        both(old, new, |t| {
            t.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
        }),
    );
    push(
        "escaped for a regular expression",
        both(old, new, |t| t.replace('(', "\\(").replace(')', "\\)").replace('$', "\\$")),
    );
    push("signs of a diff", (lines(old, |_, l| format!("-{l}")), lines(new, |_, l| format!("+{l}"))));
    push("marks of a quotation", both(old, new, |t| lines(t, |_, l| format!("> {l}"))));
    push("numbers that are wrong", both(old, new, |t| lines(t, |i, l| format!("{}\t{l}", first + 40 + i))));
    push("numbers without order", both(old, new, |t| lines(t, |_, l| format!("7\t{l}"))));
    push("a blank line too much", both(old, new, |t| t.replacen('\n', "\n\n", 1)));
    push("blank lines left out", both(old, new, |t| t.replace("\n\n", "\n")));
    push("blank lines around", both(old, new, |t| format!("\n\n{t}\n\n")));
    push("only old has the last newline", (format!("{old}\n"), format!("{new}\n")));
    push("capitals", (old.to_uppercase(), new.to_owned()));
    push("a fence around old", (format!("```\n{old}\n```"), new.into()));
    push("a tag around both", both(old, new, |t| format!("<code>\n{t}\n</code>")));
    out
}

/// Expects `right`. Differences in blanks, inside and at the end of lines, are accepted in the lines that the
/// edit writes.
fn like(right: &str, what: &str) -> Want {
    let blanks =
        ["trailing blanks", "tabs for blanks", "blanks squeezed", "patch, blanks at the ends of lines"];
    let right = right.as_bytes().to_vec();
    if blanks.contains(&what) { Want::Like(right, "") } else { Want::IsOrNo(right, "") }
}

pub(super) fn copies(cases: &mut Cases) {
    for (language, file, old, new) in EDITS {
        let at = file.find(old).unwrap_or_default();
        let first = file[..at].matches('\n').count() + 1;
        let right = file.replacen(old, new, 1);
        let crlf = |text: &str| text.replace('\n', "\r\n");
        for (what, old, new) in harmless(old, new, first) {
            // If tabs indent the file, the meaning of two additional blanks is ambiguous.
            let doubt = what == "two more blanks" && file.contains('\t');
            let want = if doubt { either(&right, "") } else { crate::is(&right) };
            cases.edit(&format!("{language}, {what}"), file, &old, &new, want);
            if !doubt {
                let want = crate::is(&crlf(&right));
                cases.edit(&format!("{language} with CRLF, {what}"), crlf(file), &old, &new, want);
            }
        }
        for (what, old, new) in doubtful(old, new, first) {
            cases.edit(&format!("{language}, {what}"), file, &old, &new, like(&right, what));
        }
        wrong(cases, language, file, old, new);
        patches(cases, language, file, (old, new), &right);
    }
}

/// Adds cases that must be refused in any case.
fn wrong(cases: &mut Cases, language: &str, file: &str, old: &str, new: &str) {
    let mut no = |what: &str, file: &str, old: &str, new: &str, words| {
        cases.edit(&format!("{language}, {what}"), file, old, new, Want::No(words));
    };
    let (first, last) =
        (old.split('\n').next().unwrap_or_default(), old.rsplit('\n').next().unwrap_or_default());
    no("the same twice", file, old, old, "are the same");
    no("two places", &format!("{file}{file}"), old, new, "2 places");
    no("two places, trimmed", &format!("{file}{file}"), &lines(old, |_, l| format!("{l} ")), new, "2 places");
    for dots in ["...", "    // ... existing code ...", "# ... rest unchanged ...", "…"] {
        let elided =
            |text: &str| format!("{first}\n{dots}\n{}", text.rsplit('\n').next().unwrap_or_default());
        no("elided in both", file, &elided(old), &format!("{}\nmore", elided(new)), "");
        no("elided in new", file, old, &elided(new), "placeholder");
    }
    no("nothing of it is there", file, "something else\nentirely", new, "not found");
    no(
        "another last line",
        file,
        &format!("{}another end of it", old.strip_suffix(last).unwrap_or(old)),
        "x",
        "",
    );
    no("a line between that is not there", file, &old.replacen('\n', "\nnot_there(1, 2, 3);\n", 1), "x", "");
    no("empty", file, "", new, "empty");
    no("blank", file, "  \n  \n", new, "");
    for unseen in ["\u{feff}", "\u{200b}", "\u{a0}\u{200b}", "\u{202e}", "```\n\u{200b}\n```"] {
        no("nothing that can be seen", file, unseen, new, "");
        no("nothing that can be seen, in a short file", "x\n", unseen, new, "");
    }
}

/// The same edit as a patch, with slips.
fn patches(cases: &mut Cases, language: &str, file: &str, (old, new): (&str, &str), right: &str) {
    let side = |sign: &str, text: &str| lines(text, |_, line| format!("{sign}{line}"));
    let body = format!("{}\n{}", side("-", old), side("+", new));
    let diff = similar_hunk(old, new);
    let envelope = |hunk: &str| format!("*** Begin Patch\n*** Update File: f.txt\n{hunk}\n*** End Patch");
    for (what, patch) in [
        ("patch", envelope(&format!("@@\n{body}"))),
        ("patch with context", envelope(&format!("@@\n{diff}"))),
        ("patch with wrong counts", envelope(&format!("@@ -1,1 +1,99 @@\n{diff}"))),
        ("patch in a fence", format!("```patch\n{}\n```", envelope(&format!("@@\n{diff}")))),
        ("patch with a shell around it", format!("apply_patch << 'PATCH'\n{}\nPATCH", envelope(&diff))),
        (
            "git's diff",
            format!(
                "diff --git a/f.txt b/f.txt\nindex 1..2 100644\n--- a/f.txt\n+++ b/f.txt\n@@ -1,9 +1,9 @@\n{diff}\n \n"
            ),
        ),
        (
            "a diff in a fence, with prose",
            format!("Sure:\n```diff\n--- f.txt\n+++ f.txt\n@@\n{diff}\n```\nDone - as asked."),
        ),
    ] {
        cases.patch(&format!("{language}, {what}"), file, &patch, crate::is(right));
    }
    for (what, patch) in [
        ("patch escaped as JSON", envelope(&format!("@@\n{diff}")).replace('\n', "\\n")),
        (
            "patch without its first blanks",
            envelope(&lines(&diff, |_, l| l.strip_prefix(' ').unwrap_or(l).to_owned())),
        ),
        (
            "patch, all two deeper",
            envelope(&lines(&diff, |_, l| {
                if l.len() > 1 { format!("{}  {}", &l[..1], &l[1..]) } else { l.to_owned() }
            })),
        ),
        ("patch, blanks at the ends of lines", envelope(&lines(&diff, |_, l| format!("{l} ")))),
        (
            "patch that adds only, at a made-up line",
            format!("--- a/f.txt\n+++ b/f.txt\n@@ -2,0 +3,1 @@\n{}", side("+", new)),
        ),
        (
            "a diff that is cut off",
            format!("--- a/f.txt\n+++ b/f.txt\n@@ -1,40 +1,40 @@\n{}", side("-", old)),
        ),
    ] {
        cases.patch(&format!("{language}, {what}"), file, &patch, like(right, what));
    }
    for (what, patch, words) in [
        ("patch without its end", envelope(&format!("@@\n{diff}")).replace("\n*** End Patch", ""), "cut off"),
        ("patch of the same", envelope(&side(" ", old)), "at least one hunk"),
        ("patch of another file", envelope(&diff).replace("f.txt", "g.txt"), "g.txt"),
        (
            "patch of what is not there",
            envelope(&format!("@@\n-not there at all\n{}", side("+", new))),
            "not found",
        ),
    ] {
        cases.patch(&format!("{language}, {what}"), file, &patch, Want::No(words));
    }
    let edits = json!({"path": "f.txt", "edits": [{"old": old, "new": new}, {"old": old, "new": "x"}]});
    cases.push(&format!("{language}, the same place twice"), file, "multi_edit", edits, Want::No("Edit 2:"));
}

/// Common lines at both ends as context, what is between as `-` and `+`.
fn similar_hunk(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count().min(rest);
    let mut out: Vec<String> = old[..head].iter().map(|l| format!(" {l}")).collect();
    out.extend(old[head..old.len() - tail].iter().map(|l| format!("-{l}")));
    out.extend(new[head..new.len() - tail].iter().map(|l| format!("+{l}")));
    out.extend(old[old.len() - tail..].iter().map(|l| format!(" {l}")));
    out.join("\n")
}
