//! Copies of a session's messages as records of a Claude Code transcript, for programs that keep sessions in a store of their own
//! (`--session-mirror`). Each copy is a `transcript_mirror` line, which names the file in which Claude Code would keep the record.
//!
//! Nothing is written to such a file. A record names the previous one, so the records of a session are one branch. A program that
//! passes such a file to becket, with `--resume` and the id of the session, continues the conversation (`becket_exchange::import`).
//! A subagent's records belong to a separate file, in a folder named by the id of the session.

use super::lines::CLAUDE_CODE_VERSION;
use becket_types::MessageId;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Longest name of a project's folder, in characters. A longer name is cut, and a hash follows.
const LONGEST: usize = 200;

pub(super) struct Mirror {
    /// Claude Code's folder with one folder for each project.
    projects: PathBuf,
    cwd: String,
    session: String,
    main: Branch,
    /// Running subagents, by the calls that started them.
    tasks: HashMap<String, Branch>,
}

/// The records of one file. Each names the previous record.
#[derive(Default)]
struct Branch {
    file: String,
    /// The id of the last record, which the next record names.
    after: Option<Value>,
    /// The id of the subagent whose records these are; `None` for the main conversation.
    agent: Option<String>,
}

impl Mirror {
    /// `after`: the last message of a session that is continued.
    pub(super) fn new(projects: PathBuf, after: Option<MessageId>) -> Self {
        let (cwd, session, tasks) = Default::default();
        let main = Branch { after: after.map(|id| json!(id)), ..Branch::default() };
        Self { projects, cwd, session, main, tasks }
    }

    /// Sets the folder and the id of the session, before its first message.
    pub(super) fn begin(&mut self, cwd: &Path, session: &str) {
        let real = cwd.canonicalize().unwrap_or_else(|_| cwd.to_path_buf());
        let folder = self.projects.join(project_folder(&real.to_string_lossy()));
        self.main.file = folder.join(format!("{session}.jsonl")).to_string_lossy().into_owned();
        self.cwd = cwd.to_string_lossy().into_owned();
        session.clone_into(&mut self.session);
    }

    /// Begins the file of a subagent. Returns the line with its facts: Claude Code keeps them beside that file.
    pub(super) fn begin_task(&mut self, call: &str, agent: &str, facts: Value) -> Value {
        let folder = self.main.file.strip_suffix(".jsonl").unwrap_or(&self.main.file);
        let file = format!("{folder}/subagents/agent-{agent}.jsonl");
        let mut entry = json!({ "type": "agent_metadata", "toolUseId": call });
        if let (Value::Object(entry), Value::Object(facts)) = (&mut entry, facts) {
            entry.extend(facts);
        }
        let line = json!({ "type": "transcript_mirror", "filePath": file, "entries": [entry] });
        let branch = Branch { file, after: None, agent: Some(agent.to_owned()) };
        self.tasks.insert(call.to_owned(), branch);
        line
    }

    /// Ends the file of a subagent.
    pub(super) fn end_task(&mut self, call: &str) {
        self.tasks.remove(call);
    }

    /// Returns the `transcript_mirror` line for a `user` or `assistant` line of `stream-json`. `None`: the line is from a
    /// subagent that never began.
    pub(super) fn copy(&mut self, line: &Value) -> Option<Value> {
        let branch = match line["parent_tool_use_id"].as_str() {
            Some(call) => self.tasks.get_mut(call)?,
            None => &mut self.main,
        };
        let mut record = json!({
            "parentUuid": branch.after, "isSidechain": branch.agent.is_some(), "userType": "external", "cwd": self.cwd,
            "sessionId": self.session, "version": CLAUDE_CODE_VERSION, "gitBranch": "",
            "type": line["type"], "message": line["message"], "uuid": line["uuid"], "timestamp": timestamp(),
        });
        if let Some(agent) = &branch.agent {
            record["agentId"] = json!(agent);
        }
        if line["isSynthetic"] == true {
            record["isMeta"] = json!(true);
        }
        if !line["tool_use_result"].is_null() {
            record["toolUseResult"] = line["tool_use_result"].clone();
        }
        branch.after = Some(line["uuid"].clone());
        Some(json!({ "type": "transcript_mirror", "filePath": branch.file, "entries": [record] }))
    }
}

/// The name of a project's folder: the path with a dash for everything but letters and digits of ASCII.
fn project_folder(path: &str) -> String {
    let plain: String = path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    if plain.len() <= LONGEST {
        return plain;
    }
    // The hash that the official SDKs compute: 31 times the hash so far, plus the character, in 32 bits.
    let hash = path.chars().fold(0i32, |hash, c| hash.wrapping_mul(31).wrapping_add(c as i32));
    format!("{}-{}", &plain[..LONGEST], base36(hash.unsigned_abs()))
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(number % 36, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

/// The time now, as `2026-11-26T18:05:09.123Z`.
fn timestamp() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_named_as_the_official_sdks_name_them() {
        assert_eq!(project_folder("/home/u/my project_ü"), "-home-u-my-project--");
        assert_eq!(base36(0), "0");
        assert_eq!(base36(1_295), "zz");
        let long = format!("/{}", "a".repeat(300));
        // `_simple_hash` of claude-agent-sdk for this path.
        assert_eq!(project_folder(&long), format!("-{}-vtkmfl", "a".repeat(199)));
    }

    #[test]
    fn each_record_names_the_one_before_it() {
        let first = MessageId::new();
        let mut mirror = Mirror::new(PathBuf::from("/nowhere/projects"), Some(first));
        mirror.begin(Path::new("/nowhere/a b"), "s-1");
        let line = json!({"type": "user", "message": {"role": "user", "content": "hi"}, "uuid": "u-1"});
        let copy = mirror.copy(&line).unwrap();
        assert_eq!(copy["filePath"], "/nowhere/projects/-nowhere-a-b/s-1.jsonl");
        let record = &copy["entries"][0];
        assert_eq!((&record["parentUuid"], &record["uuid"]), (&json!(first), &json!("u-1")));
        assert_eq!(record["message"], line["message"]);
        assert!(record["timestamp"].as_str().is_some_and(|time| time.len() == 24 && time.ends_with('Z')));
        let next =
            mirror.copy(&json!({"type": "user", "message": {}, "uuid": "u-2", "isSynthetic": true})).unwrap();
        assert_eq!(
            (&next["entries"][0]["parentUuid"], &next["entries"][0]["isMeta"]),
            (&json!("u-1"), &json!(true))
        );
    }

    #[test]
    fn a_subagent_has_a_file_and_a_branch_of_its_own() {
        let mut mirror = Mirror::new(PathBuf::from("/nowhere/projects"), None);
        mirror.begin(Path::new("/nowhere/a"), "s-1");
        let of =
            |uuid: &str| json!({"type": "user", "message": {}, "uuid": uuid, "parent_tool_use_id": "c1"});
        assert_eq!(mirror.copy(&of("u-0")), None, "it has not begun");
        let began = mirror.begin_task("c1", "a-1", json!({"agentType": "explore"}));
        let file = "/nowhere/projects/-nowhere-a/s-1/subagents/agent-a-1.jsonl";
        assert_eq!(began["filePath"], file);
        let facts = json!({"type": "agent_metadata", "toolUseId": "c1", "agentType": "explore"});
        assert_eq!(began["entries"][0], facts);
        mirror.copy(&json!({"type": "user", "message": {}, "uuid": "m-1", "parent_tool_use_id": null}));
        for (uuid, before) in [("u-1", Value::Null), ("u-2", json!("u-1"))] {
            let copy = mirror.copy(&of(uuid)).unwrap();
            let record = &copy["entries"][0];
            assert_eq!((&copy["filePath"], &record["parentUuid"]), (&json!(file), &before));
            assert_eq!((&record["isSidechain"], &record["agentId"]), (&json!(true), &json!("a-1")));
            assert_eq!(record["sessionId"], "s-1");
        }
        mirror.end_task("c1");
        assert_eq!(mirror.copy(&of("u-3")), None);
    }
}
