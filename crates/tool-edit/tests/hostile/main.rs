//! Edits, patches and writes at their worst: encodings, ends of lines, drifted and ambiguous places, patches of other
//! kinds. Each case says the bytes that must come out, or words of the refusal; a refusal leaves the bytes as they were.

#![expect(clippy::unwrap_used, reason = "a failed set-up fails the test")]

mod bytes;
mod calls;
mod copies;
mod patches;
mod places;
mod slips;

use becket_tool::testing::{env, run};
use becket_tool::{Tool, sha256};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

enum Want {
    Is(Vec<u8>),
    /// A refusal with all of these words, separated by `|`.
    No(&'static str),
    /// The edit gives these bytes, or is refused with these words.
    IsOrNo(Vec<u8>, &'static str),
    /// As `IsOrNo`, but runs of blanks within lines and at their ends may have another length.
    Like(Vec<u8>, &'static str),
}
use Want::{Is, IsOrNo, Like, No};

struct Case {
    what: String,
    name: &'static str,
    file: Vec<u8>,
    tool: &'static str,
    input: Value,
    want: Want,
}

#[derive(Default)]
struct Cases(Vec<Case>);

impl Cases {
    fn edit(&mut self, what: &str, file: impl AsRef<[u8]>, old: &str, new: &str, want: Want) {
        let input = json!({"path": "f.txt", "old": old, "new": new});
        self.push(what, file, "edit", input, want);
    }

    fn all(&mut self, what: &str, file: &str, old: &str, new: &str, want: Want) {
        let input = json!({"path": "f.txt", "old": old, "new": new, "replace_all": true});
        self.push(what, file, "edit", input, want);
    }

    fn patch(&mut self, what: &str, file: &str, patch: &str, want: Want) {
        self.push(what, file, "apply_patch", json!({"patch": patch}), want);
    }

    /// A patch of `f.txt` in its envelope.
    fn hunk(&mut self, what: &str, file: &str, hunk: &str, want: Want) {
        let patch = format!("*** Begin Patch\n*** Update File: f.txt\n{hunk}\n*** End Patch\n");
        self.patch(what, file, &patch, want);
    }

    fn push(&mut self, what: &str, file: impl AsRef<[u8]>, tool: &'static str, input: Value, want: Want) {
        let (what, file) = (what.to_owned(), file.as_ref().to_vec());
        self.0.push(Case { what, name: "f.txt", file, tool, input, want });
    }
}

fn is(text: &str) -> Want {
    Is(text.as_bytes().to_vec())
}

fn either(text: &str, words: &'static str) -> Want {
    IsOrNo(text.as_bytes().to_vec(), words)
}

/// Lines with their indentation, each run of blanks within as one.
fn squeezed(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let line = |line: &str| {
        let rest = line.trim_start();
        let words: Vec<&str> = rest.split_whitespace().collect();
        format!("{}{}", if words.is_empty() { "" } else { &line[..line.len() - rest.len()] }, words.join(" "))
    };
    text.lines().map(line).collect()
}

/// A hash of every name and content below `root` but for the project.
fn outside(root: &Path, project: &Path) -> String {
    let mut seen = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path == project {
                continue;
            }
            let bytes = if path.is_dir() { Vec::new() } else { std::fs::read(&path).unwrap() };
            seen.push((path.clone(), sha256(&bytes)));
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    seen.sort();
    sha256(format!("{seen:?}").as_bytes())
}

#[tokio::test]
async fn the_worst_is_applied_right_or_refused_with_the_reason() {
    let mut cases = Cases::default();
    let makers = [
        places::drifted,
        places::tabs_and_indentation,
        places::elided,
        places::places,
        bytes::ends_of_lines,
        bytes::encodings,
        bytes::unicode,
        bytes::escapes,
        patches::patches,
        copies::copies,
        slips::indentation,
        slips::escapes,
        slips::typography,
        calls::left_out,
        calls::numbers,
        calls::ends,
        calls::several,
        calls::patches,
    ];
    for make in makers {
        make(&mut cases);
    }
    let count = cases.0.len();
    let mut wrong = Vec::new();
    let (mut applied, mut refused) = (0, 0);
    for Case { what, name, file, tool, input, want } in cases.0 {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        // The project has folders of its own above it, so that no case reaches anybody's files; in each is a file that a
        // patch may try to move onto.
        let project = dir.path().join("1/2/3/4/5/project");
        std::fs::create_dir_all(&project).unwrap();
        for above in project.ancestors().skip(1).take_while(|above| above.starts_with(dir.path())) {
            std::fs::write(above.join("f.txt"), "outside").unwrap();
        }
        let surroundings = outside(dir.path(), &project);
        let (env, host) = env(&project);
        let path = env.cwd.join(name);
        std::fs::write(&path, &file).unwrap();
        host.kept().reads.insert(path.clone(), sha256(&file));
        let tool: Arc<dyn Tool> =
            becket_tool_edit::tools().into_iter().find(|t| t.spec().name == tool).unwrap();
        let output = run(&*tool, &env, input).await;
        let now = std::fs::read(&path).unwrap_or_else(|_| b"(no file)".to_vec());
        let beside = std::fs::read_dir(&env.cwd).unwrap().count();
        let said = |words: &str| words.split('|').all(|word| output.content.contains(word));
        let kept = output.is_error && now == file && !output.content.trim().is_empty();
        let fine = match &want {
            Is(right) => !output.is_error && now == *right,
            No(words) => kept && said(words),
            IsOrNo(right, words) => !output.is_error && now == *right || kept && said(words),
            Like(right, words) => {
                !output.is_error && squeezed(&now) == squeezed(right) || kept && said(words)
            }
        } && beside == 1
            && outside(dir.path(), &project) == surroundings;
        if output.is_error {
            refused += 1;
        } else {
            applied += 1;
        }
        if !fine {
            wrong.push(format!(
                "{what}: {}\n---\n{}",
                output.content,
                String::from_utf8_lossy(&now).chars().take(600).collect::<String>()
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n=====\n"));
    assert!(applied > 300 && refused > 250, "{applied} applied, {refused} refused");
}
