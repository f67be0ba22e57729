//! The `skill` tool: brings a skill's body into the session, once.
//!
//! Owns the activation: what is active is session state (`skills`), with its text, so that a compaction can attach it again
//! as reference. The second activation of the same text is a short note, so a skill is never in the context twice and
//! never looks like a new request. Reads the skill's own folder and nothing else; runs nothing.

use crate::{Skill, Skills, Source, discover, expand, frontmatter};
use becket_tool::input::Parser;
use becket_tool::{Keep, Tool, ToolEnv, finish, text};
use becket_types::{Access, ToolOutput, ToolSpec, cut_end};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

const ALIASES: &[(&str, &str)] = &[("skill", "name"), ("skill_name", "name"), ("args", "arguments")];
/// Text of an active skill that is kept for after a compaction: 5,000 tokens.
const KEPT_BYTES: usize = 20_000;
/// Files of a skill that are named.
const MAX_RESOURCES: usize = 50;

#[derive(Debug, Deserialize)]
struct Input {
    name: String,
    arguments: Option<String>,
}

/// The `skill` tool over the skills of a session.
pub struct SkillTool {
    spec: ToolSpec,
    skills: Arc<Skills>,
}

impl SkillTool {
    pub fn new(skills: Arc<Skills>) -> Self {
        let input_schema = json!({
            "type": "object",
            "properties": {"name": {"type": "string"}, "arguments": {"type": "string"}},
            "required": ["name"]
        });
        let description = "Load a skill: instructions to follow for a kind of task.".to_owned();
        Self { spec: ToolSpec { name: "skill".to_owned(), description, input_schema }, skills }
    }

    fn parse(&self, input: &Value) -> Result<(Input, &Skill), String> {
        let input: Input = Parser::new(&self.spec).aliases(ALIASES).parse(input)?;
        let offered = || self.skills.iter().filter(|s| s.model_invocable).map(|s| s.name.as_str());
        match self.skills.get(&input.name) {
            Some(skill) if skill.model_invocable => Ok((input, skill)),
            Some(skill) => Err(format!("The skill `{}` can only be called by the user.", skill.name)),
            None => {
                let near = text::nearest(cut_end(&input.name, 100), offered());
                let near = near.map_or(String::new(), |n| format!(" Did you mean `{n}`?"));
                let all = offered().collect::<Vec<_>>().join(", ");
                let all = if all.is_empty() { "none".to_owned() } else { all };
                Err(format!(
                    "There is no skill named `{}`.{near} Skills: {all}.",
                    cut_end(input.name.trim(), 100)
                ))
            }
        }
    }

    fn activate(skill: &Skill, arguments: &str, env: &ToolEnv) -> ToolOutput {
        let body = match body(skill) {
            Ok(body) => body,
            Err(why) => {
                return ToolOutput::error(format!("The skill `{}` cannot be loaded: {why}.", skill.name));
            }
        };
        let body =
            expand::expand(body.trim_start_matches(['\r', '\n']), arguments, &skill.arguments, skill.dir());
        let hash = becket_tool::sha256(body.as_bytes());
        let mut active = match env.host.state("skills") {
            Some(Value::Array(list)) => list,
            _ => Vec::new(),
        };
        let details =
            json!({"skill": skill.name, "hash": hash, "dir": skill.dir().map(Path::to_string_lossy)});
        if active.iter().any(|s| s["name"] == skill.name && s["hash"] == hash) {
            let note = format!(
                "The skill `{}` is active already, with the same text. Go on with it; do not begin it again.",
                skill.name
            );
            return ToolOutput { details, ..ToolOutput::text(note) };
        }
        active.retain(|s| s["name"] != skill.name);
        active.push(json!({
            "name": skill.name, "hash": hash, "dir": skill.dir().map(Path::to_string_lossy), "content": cut_end(&body, KEPT_BYTES),
        }));
        env.host.set_state("skills", Value::Array(active));
        let mut out = match skill.dir() {
            Some(dir) => format!("Skill {}, in {}\n\n", skill.name, dir.display()),
            None => format!("Skill {}\n\n", skill.name),
        };
        out.push_str(body.trim_end());
        out.push('\n');
        if let Some(dir) = skill.dir() {
            push_resources(&mut out, dir);
        }
        finish(ToolOutput { details, ..ToolOutput::text(out) }, Keep::Head, env)
    }
}

impl Tool for SkillTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, _: &ToolEnv) -> Result<Access, String> {
        let (_, skill) = self.parse(input)?;
        Ok(Access { subject: Some(skill.name.clone()), ..Access::session() })
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            match self.parse(&input) {
                Ok((input, skill)) => {
                    Self::activate(skill, input.arguments.as_deref().unwrap_or_default(), env)
                }
                Err(message) => ToolOutput::error(message),
            }
        })
    }

    fn protected(&self) -> bool {
        true
    }
}

fn body(skill: &Skill) -> Result<String, String> {
    let text = match &skill.source {
        Source::Bundled(text) => (*text).to_owned(),
        Source::Folder(_, file) => discover::read(file)?,
    };
    frontmatter::split(&text)
        .map(|(_, body)| body.to_owned())
        .ok_or_else(|| "it has no frontmatter any more".to_owned())
}

fn push_resources(out: &mut String, dir: &Path) {
    let mut files = Vec::new();
    list(dir, dir, 0, &mut files);
    files.sort_unstable();
    if files.is_empty() {
        return;
    }
    out.push_str("\nFiles of the skill, to read or run when needed:\n");
    for file in files.iter().take(MAX_RESOURCES) {
        let _ = writeln!(out, "- {file}");
    }
    if files.len() > MAX_RESOURCES {
        let _ = writeln!(out, "- and {} more", files.len() - MAX_RESOURCES);
    }
}

fn list(root: &Path, dir: &Path, depth: usize, files: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        if files.len() > 1_000 {
            return;
        }
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        match entry.file_type() {
            _ if hidden => {}
            Ok(kind) if kind.is_dir() && depth < 3 => list(root, &entry.path(), depth + 1, files),
            Ok(kind) if kind.is_file() => {
                let path = entry.path();
                let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
                if !name.eq_ignore_ascii_case("SKILL.md") {
                    files.push(name);
                }
            }
            _ => {}
        }
    }
}
