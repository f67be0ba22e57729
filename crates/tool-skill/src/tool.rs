//! The `skill` tool: loads a skill's body into the session, once.
//!
//! Owns activation. Active skills are session state (`skills`), with their text, so that a compaction can
//! attach them again as reference. Loading the same text a second time returns a short note. A skill is
//! therefore never in the context twice and never looks like a new request. A skill with `context: fork` is
//! not loaded: its text is the task of a subagent, where the session has subagents. Reads only the skill's own
//! folder; runs nothing.

use crate::{Skill, Skills, Source, catalog, discover, expand, usage};
use becket_tool::input::Parser;
use becket_tool::{Delegation, Keep, Tool, ToolEnv, finish, text};
use becket_types::{Access, Effect, ToolOutput, ToolSpec, cut_end, split_frontmatter};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ALIASES: &[(&str, &str)] = &[("skill", "name"), ("skill_name", "name"), ("args", "arguments")];
/// Maximum number of bytes of an active skill's text that are kept for use after a compaction: about 5,000 tokens.
const KEPT_BYTES: usize = 20_000;
/// Maximum number of a skill's files that are listed.
const MAX_RESOURCES: usize = 50;

#[derive(Debug, Deserialize)]
struct Input {
    name: Option<String>,
    arguments: Option<String>,
    query: Option<String>,
}

/// The two kinds of calls.
enum Call<'a> {
    Load(&'a Skill, String),
    Search(String),
}

/// Number of search results that are shown.
const MOST_FOUND: usize = 10;

/// The `skill` tool for the skills of a session.
pub struct SkillTool {
    spec: ToolSpec,
    skills: Arc<Skills>,
    record: Option<PathBuf>,
    on_load: Option<OnLoad>,
}

/// A function that is called with the name of each skill that was loaded.
pub type OnLoad = Arc<dyn Fn(&str) + Send + Sync>;

impl SkillTool {
    /// Makes the tool. With many skills its input also takes a query instead of a name.
    pub fn new(skills: Arc<Skills>) -> Self {
        let many = skills.iter().filter(|s| s.model_invocable).count() > catalog::MANY;
        let mut properties = json!({"name": {"type": "string"}, "arguments": {"type": "string"}});
        let mut input_schema = json!({"type": "object"});
        if many {
            properties["query"] =
                json!({"type": "string", "description": "Words to search skills by, instead of a name"});
        } else {
            input_schema["required"] = json!(["name"]);
        }
        input_schema["properties"] = properties;
        let description = "Load a skill: instructions to follow for a kind of task.".to_owned();
        Self {
            spec: ToolSpec { name: "skill".to_owned(), description, input_schema: input_schema.into() },
            skills,
            record: None,
            on_load: None,
        }
    }

    /// Calls this function for each loaded skill, before its text is given to the model.
    #[must_use]
    pub fn informing(mut self, on_load: OnLoad) -> Self {
        self.on_load = Some(on_load);
        self
    }

    /// Appends a line to this file for each loaded skill; see [`Skills::count_uses`].
    #[must_use]
    pub fn recorded_in(mut self, file: PathBuf) -> Self {
        self.record = Some(file);
        self
    }

    fn parse(&self, input: &Value) -> Result<Call<'_>, String> {
        let Input { name, arguments, query } = Parser::new(&self.spec).aliases(ALIASES).parse(input)?;
        let query = query.filter(|query| !query.trim().is_empty());
        let Some(name) = name.filter(|name| !name.trim().is_empty()) else {
            return query.map(Call::Search).ok_or_else(|| "`name` is missing: the skill to load.".to_owned());
        };
        let offered = || self.skills.iter().filter(|s| s.model_invocable).map(|s| s.name.as_str());
        match self.skills.get(&name) {
            Some(skill) if skill.model_invocable => Ok(Call::Load(skill, arguments.unwrap_or_default())),
            Some(skill) => Err(format!("The skill `{}` can only be called by the user.", skill.name)),
            None => {
                let near = text::nearest(cut_end(&name, 100), offered());
                let near = near.map_or(String::new(), |n| format!(" Did you mean `{n}`?"));
                let all = if offered().count() > catalog::MANY {
                    "search them with `query`".to_owned()
                } else {
                    offered().collect::<Vec<_>>().join(", ")
                };
                let all = if all.is_empty() { "none".to_owned() } else { all };
                Err(format!("There is no skill named `{}`.{near} Skills: {all}.", cut_end(name.trim(), 100)))
            }
        }
    }

    /// Calls the function and writes the file that record each loaded skill.
    fn loaded(&self, skill: &Skill) {
        if let Some(on_load) = &self.on_load {
            on_load(&skill.name);
        }
        if let Some(file) = &self.record {
            usage::add(file, &skill.name);
        }
    }

    fn search(&self, query: &str) -> ToolOutput {
        let found = self.skills.search(query);
        let query = cut_end(query.trim(), 100);
        if found.is_empty() {
            return ToolOutput::text(format!(
                "No skill has any of the words `{query}`. Try other words for the task.\n"
            ));
        }
        let mut out: String = found.iter().take(MOST_FOUND).map(|skill| catalog::entry(skill)).collect();
        if found.len() > MOST_FOUND {
            let _ = writeln!(out, "[{MOST_FOUND} of {} shown; give more words]", found.len());
        }
        ToolOutput::text(out)
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
        finish(ToolOutput { details, ..ToolOutput::text(skill_text(skill, &body)) }, Keep::Head, env)
    }
}

impl Tool for SkillTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, _: &ToolEnv) -> Result<Access, String> {
        let (subject, effect) = match self.parse(input)? {
            Call::Load(skill, _) if skill.terms.fork.is_some() => {
                (Some(skill.name.clone()), Effect::Delegate)
            }
            Call::Load(skill, _) => (Some(skill.name.clone()), Effect::Session),
            Call::Search(_) => (None, Effect::Session),
        };
        Ok(Access { effect, subject, ..Access::session() })
    }

    fn delegates(&self, input: &Value) -> Option<Result<Delegation, String>> {
        let Ok(Call::Load(skill, arguments)) = self.parse(input) else { return None };
        let fork = skill.terms.fork.clone()?;
        let prompt = match text(skill, &arguments) {
            Ok(prompt) => prompt,
            Err(why) => return Some(Err(format!("The skill `{}` cannot be loaded: {why}.", skill.name))),
        };
        self.loaded(skill);
        Some(Ok(Delegation {
            description: format!("/{} {arguments}", skill.name).trim_end().to_owned(),
            prompt,
            agent: fork.agent,
            model: skill.terms.model.clone(),
            effort: skill.terms.effort.clone(),
        }))
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            match self.parse(&input) {
                Ok(Call::Load(skill, arguments)) => {
                    let output = Self::activate(skill, &arguments, env);
                    if !output.is_error {
                        self.loaded(skill);
                    }
                    output
                }
                Ok(Call::Search(query)) => self.search(&query),
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
        Source::Folder(_, file) | Source::Plugin(_, file, _) => discover::read(file)?,
    };
    let root = match &skill.source {
        Source::Plugin(_, _, root) => Some(root.to_string_lossy()),
        _ => None,
    };
    split_frontmatter(&text)
        .map(|(_, body)| match root {
            Some(root) => body.replace("${CLAUDE_PLUGIN_ROOT}", &root),
            None => body.to_owned(),
        })
        .ok_or_else(|| "it has no frontmatter any more".to_owned())
}

/// Returns the text of a skill that a user calls: its directory, its body with the arguments inserted, and its files.
pub(crate) fn text(skill: &Skill, arguments: &str) -> Result<String, String> {
    let body = body(skill)?;
    let body =
        expand::expand(body.trim_start_matches(['\r', '\n']), arguments, &skill.arguments, skill.dir());
    Ok(skill_text(skill, &body))
}

/// The text that the model gets: the folder of the skill, its body, and its files.
fn skill_text(skill: &Skill, body: &str) -> String {
    let mut out = match skill.dir() {
        Some(dir) => format!("Skill {}, in {}\n\n", skill.name, dir.display()),
        None => format!("Skill {}\n\n", skill.name),
    };
    out.push_str(body.trim_end());
    out.push('\n');
    if let Some(dir) = skill.dir() {
        push_resources(&mut out, dir);
    }
    out
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
