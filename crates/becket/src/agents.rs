//! The agents of a session: the built-in kinds of subagents, and those that files, `--agents` or a driving program define.
//!
//! Owns the locations of the files, which definition of a name counts, and the folders of memories ([`definition`] owns the
//! keys). The files of a trusted project override the user's, those override the built-in kinds, and what the run itself
//! names overrides all. Files are read up to a limit, and a file that cannot be read is left out with a warning.

mod definition;
mod given;
mod session;
mod tool_lists;

use crate::environment::Environment;
use crate::plugins::Plugin;
use crate::trust::{ContentKind, folders, leads_outside};
use becket_agent::subagent::Kind;
use becket_tool_skill::{Head, Skills};
pub(crate) use definition::{DefinedIn, Definition, MemoryScope};
pub(crate) use given::{GivenAgents, parse_agents};
pub(crate) use session::{SessionAgents, with_initial};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Maximum number of files that are read, and of bytes of each.
const MAX_FILES: usize = 100;
const MAX_FILE_BYTES: u64 = 64 * 1024;
/// Limits on what is searched for them: names in one folder of agents, and levels of folders in it.
const MOST_ENTRIES: usize = 2_000;
const DEEPEST: usize = 5;

/// All agents of a session, the strongest definition of each name, and notes for the user.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agents {
    pub all: Vec<Definition>,
    pub warnings: Vec<String>,
}

impl Agents {
    /// Finds all agents: those that the run names first, then those of the project, of the user and of becket.
    pub(crate) fn find(environment: &Environment, cwd: &Path, trusted: bool, given: &[Definition]) -> Self {
        let root = crate::settings::project_root(cwd);
        let mut dirs = if trusted { folders(ContentKind::Agents, &root, cwd) } else { Vec::new() };
        let of_project = dirs.len();
        dirs.push(environment.config_dir.join("agents"));
        dirs.extend(environment.claude_dir().map(|dir| dir.join("agents")));
        let mut out = Self { all: given.to_vec(), warnings: Vec::new() };
        let mut paths = Vec::new();
        for (at, dir) in dirs.iter().enumerate() {
            paths.extend(files(dir, at < of_project, &mut out.warnings).into_iter().map(|path| (at, path)));
        }
        if let Some((_, first)) = paths.get(MAX_FILES) {
            let count = paths.len() - MAX_FILES;
            out.warnings.push(format!(
                "only {MAX_FILES} files of agents are read; {count} are left out, from {} on",
                first.display()
            ));
        }
        for (at, path) in paths.into_iter().take(MAX_FILES) {
            let of_project = at < of_project;
            let readable = if of_project && leads_outside(&root, &path) {
                Err("it is a link to a file outside of the project".to_owned())
            } else {
                text(&path)
            };
            let place =
                if of_project { DefinedIn::Project(path.clone()) } else { DefinedIn::User(path.clone()) };
            match readable.and_then(|text| parse_definition(&path, &text, place)) {
                Ok((definition, wrong)) => {
                    match out.get(&definition.kind.name) {
                        None => {
                            out.all.push(definition);
                            out.warnings.extend(wrong);
                        }
                        // A nearer folder may replace an agent. Of two in one folder, nobody can tell which one counts.
                        Some(other) => {
                            if let Some(first) = other.file().filter(|first| first.starts_with(&dirs[at])) {
                                let name = &definition.kind.name;
                                let text = format!(
                                    "the agent {} is left out: {} has the name {name}, too; change one of the names",
                                    path.display(),
                                    first.display()
                                );
                                out.warnings.push(text);
                            }
                        }
                    }
                }
                Err(why) => out.warnings.push(format!("the agent {} is left out: {why}", path.display())),
            }
        }
        for plugin in environment.plugins.iter() {
            for path in plugin.agents() {
                out.add_of_plugin(plugin, &path);
            }
        }
        for kind in Kind::built_in() {
            if out.get(&kind.name).is_none() {
                out.all.push(Definition { kind, ..Definition::default() });
            }
        }
        for definition in &mut out.all {
            let folder = definition.memory.map(|scope| memory_folder(environment, &root, scope));
            definition.kind.run.memory = folder.map(|folder| folder.join(&definition.kind.name));
        }
        out
    }

    /// Returns the faults of all agents that a run can use, also of those that only a headless run uses, because the user has not
    /// trusted the project.
    pub(crate) fn faults(environment: &Environment, cwd: &Path) -> Vec<String> {
        let config = crate::settings::readable(environment, cwd).config;
        let mut out = Vec::new();
        for trusted in [false, true] {
            let mut found = Self::find(environment, cwd, trusted, &[]);
            found.load_skills(&crate::toolbox::skills(environment, cwd, &config, trusted));
            out.extend(found.warnings);
        }
        let mut seen = HashSet::new();
        out.retain(|warning| seen.insert(warning.clone()));
        out
    }

    /// Adds an agent of a plugin. As in Claude Code, it brings no hooks, servers and permission mode of its own.
    fn add_of_plugin(&mut self, plugin: &Plugin, path: &Path) {
        let read = text(path).map(|text| plugin.fill_variables(&text));
        match read.and_then(|text| parse_definition(path, &text, DefinedIn::User(path.to_owned()))) {
            Ok((mut definition, wrong)) => {
                definition.kind.name = plugin.qualify(&definition.kind.name);
                (definition.hooks, definition.kind.run.mode) = (None, None);
                definition.servers.clear();
                if self.get(&definition.kind.name).is_none() {
                    self.all.push(definition);
                    self.warnings.extend(wrong);
                }
            }
            Err(why) => self.warnings.push(format!("the agent {} is left out: {why}", path.display())),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Definition> {
        self.all.iter().find(|definition| definition.kind.name.eq_ignore_ascii_case(name))
    }

    /// Adds to the prompt of each agent the texts of the skills that its definition names.
    pub(crate) fn load_skills(&mut self, skills: &Skills) {
        for definition in &mut self.all {
            for name in &definition.skills {
                let text = match skills.get(name) {
                    Some(skill) => skill.prompt(""),
                    None => Err("there is no such skill".to_owned()),
                };
                match text {
                    Ok(text) => {
                        let _ = write!(definition.kind.prompt, "\n\n{}", text.trim());
                    }
                    Err(why) => self.warnings.push(format!(
                        "the agent {} works without the skill {name}: {why}",
                        definition.kind.name
                    )),
                }
            }
        }
    }

    pub(crate) fn kinds(&self) -> Vec<Kind> {
        self.all.iter().map(|definition| definition.kind.clone()).collect()
    }
}

/// Returns the folder of all memories of a scope. The user's is outside becket's own folders, because tools may not write to those.
fn memory_folder(environment: &Environment, root: &Path, scope: MemoryScope) -> PathBuf {
    match scope {
        MemoryScope::User => {
            let named =
                environment.var("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
            let state = named.or_else(|| environment.of_home(".local/state"));
            state.unwrap_or_else(|| environment.data_dir.clone()).join("becket/agent-memory")
        }
        MemoryScope::Project => root.join(".becket/agent-memory"),
        MemoryScope::Local => root.join(".becket/agent-memory-local"),
    }
}

/// Returns the Markdown files of a folder and of the folders in it, sorted by path. `of_project`: linked folders are not followed,
/// because they may lead out of the project or in a circle.
fn files(dir: &Path, of_project: bool, warnings: &mut Vec<String>) -> Vec<PathBuf> {
    let (mut files, mut seen) = (Vec::new(), HashSet::new());
    let mut entries = 0;
    let mut folders = vec![(dir.to_path_buf(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        // The user's own links are followed, but each folder is read once.
        if !seen.insert(folder.canonicalize().unwrap_or_else(|_| folder.clone())) {
            continue;
        }
        let listing = match std::fs::read_dir(&folder) {
            Ok(listing) => listing,
            Err(error) => {
                if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) {
                    warnings.push(format!("{}: agents cannot be read: {error}", folder.display()));
                }
                continue;
            }
        };
        for path in listing.flatten().map(|entry| entry.path()).take(MOST_ENTRIES - entries) {
            entries += 1;
            if path.is_dir() {
                let is_hidden =
                    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
                if depth < DEEPEST && !is_hidden && !(of_project && path.is_symlink()) {
                    folders.push((path, depth + 1));
                }
            } else if path.extension().is_some_and(|e| e == "md") && path.is_file() {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

fn text(path: &Path) -> Result<String, String> {
    becket_files::read_text(path, MAX_FILE_BYTES).map_err(|error| match error.kind() {
        std::io::ErrorKind::FileTooLarge => format!("it is larger than {} kB", MAX_FILE_BYTES / 1024),
        _ => format!("it cannot be read ({error})"),
    })
}

fn parse_definition(path: &Path, text: &str, place: DefinedIn) -> Result<(Definition, Vec<String>), String> {
    let (head, body) =
        Head::split(text).ok_or("it does not begin with frontmatter (`---`, name, description)")??;
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let (definition, mut wrong) = Definition::from_keys(stem, &head, body, place)?;
    wrong.extend(head.odd().iter().map(|why| format!("the agent {}: {why}", path.display())));
    Ok((definition, wrong))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(environment: &Environment, cwd: &Path, trusted: bool) -> (Vec<Kind>, Vec<String>) {
        let agents = Agents::find(environment, cwd, trusted, &[]);
        (agents.kinds(), agents.warnings)
    }

    fn write(dir: &Path, name: &str, text: &str) {
        std::fs::create_dir_all(dir).unwrap();
        std::fs::write(dir.join(name), text).unwrap();
    }

    #[test]
    fn files_describe_kinds_and_the_nearest_of_a_name_counts() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::below(dir.path());
        let root = dir.path().join("project");
        write(
            &root.join(".claude/agents"),
            "a.md",
            "---\nname: Reviewer\ndescription: Use when: done\ntools: Read, Grep, WebFetch(*), mcp__x\nmodel: inherit\n---\n\nBe strict.\n",
        );
        write(
            &root.join(".becket/agents"),
            "look.md",
            "---\ndescription: d\ntools: [Read, TodoWrite]\n---\n",
        );
        write(
            &environment.config_dir.join("agents"),
            "b.md",
            "---\nname: reviewer\ndescription: other\n---\n",
        );
        write(
            &environment.config_dir.join("agents"),
            "c.md",
            "---\nname: explore\ndescription: mine\nmodel: fast\ndisallowedTools: Bash\n---\n",
        );
        write(&environment.config_dir.join("agents"), "notes.txt", "no agent");

        let (kinds, warnings) = found(&environment, &root, true);
        assert_eq!(warnings, Vec::<String>::new());
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
        assert_eq!(names, ["look", "reviewer", "explore", "general"]);
        assert_eq!(kinds[0].tools.as_deref().unwrap(), ["read", "todo"]);
        assert!(kinds[0].read_only);
        assert_eq!(
            kinds[1],
            Kind {
                name: "reviewer".into(),
                description: "Use when: done".into(),
                prompt: "Be strict.".into(),
                tools: Some(["read", "grep", "webfetch", "mcp__x"].map(str::to_owned).to_vec()),
                ..Kind::default()
            }
        );
        assert_eq!(
            (kinds[2].model.as_deref(), kinds[2].without.clone()),
            (Some("fast"), vec!["bash".to_owned()])
        );
        assert!(!kinds[2].read_only && kinds[3].tools.is_none());

        let untrusted: Vec<String> =
            found(&environment, &root, false).0.into_iter().map(|kind| kind.description).collect();
        assert_eq!(untrusted[..2], ["other", "mine"]);
    }

    #[test]
    fn a_link_of_the_project_to_a_file_outside_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::below(dir.path());
        let root = dir.path().join("project");
        let agents = root.join(".claude/agents");
        write(dir.path(), "diary.md", "---\ndescription: private\n---\nprivate\n");
        write(&root, "shared.md", "---\ndescription: shared\n---\n");
        write(&agents, "own.md", "---\ndescription: own\n---\n");
        std::os::unix::fs::symlink("../../../diary.md", agents.join("diary.md")).unwrap();
        std::os::unix::fs::symlink("../../shared.md", agents.join("shared.md")).unwrap();
        let (kinds, warnings) = found(&environment, &root, true);
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
        assert_eq!(names, ["own", "shared", "explore", "general"]);
        assert!(
            warnings.len() == 1 && warnings[0].contains("diary.md is left out: it is a link"),
            "{warnings:?}"
        );
        // Links in the user's own folder are followed, because the user made them.
        let own = environment.config_dir.join("agents");
        std::fs::create_dir_all(&own).unwrap();
        std::os::unix::fs::symlink(dir.path().join("diary.md"), own.join("diary.md")).unwrap();
        assert!(found(&environment, &root, true).0.iter().any(|kind| kind.name == "diary"));
    }

    #[test]
    fn what_cannot_be_read_is_left_out_and_said() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::below(dir.path());
        let agents = environment.config_dir.join("agents");
        for (name, text, why) in [
            ("a.md", "no head", "does not begin with frontmatter"),
            ("b.md", "---\nname: b\n---\n", "no description"),
            ("c.md", "---\nname: b c\ndescription: d\n---\n", "its name \"b c\""),
            ("e.md", &"x".repeat(70_000), "larger than 64 kB"),
        ] {
            write(&agents, name, text);
            let (kinds, warnings) = found(&environment, dir.path(), true);
            assert_eq!((kinds.len(), warnings.len()), (2, 1), "{warnings:?}");
            assert!(warnings[0].contains(why), "{}", warnings[0]);
            std::fs::remove_file(agents.join(name)).unwrap();
        }
    }

    #[test]
    fn two_agents_of_one_name_and_text_that_is_not_yaml_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::below(dir.path());
        let agents = environment.config_dir.join("agents");
        write(&agents, "a.md", "---\nname: one\ndescription: first\n---\n");
        write(&agents, "b.md", "---\nname: One\ndescription: second\n---\n");
        let (kinds, warnings) = found(&environment, dir.path(), true);
        assert_eq!(kinds[0].description, "first");
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let (first, second) = (agents.join("a.md"), agents.join("b.md"));
        let text = format!("{} is left out: {} has the name one, too", second.display(), first.display());
        assert!(warnings[0].contains(&text), "{}", warnings[0]);
        std::fs::remove_file(second).unwrap();
        write(&agents, "a.md", "---\nname: one\ndescription: d\ntools: [Read, Grep\n---\n");
        let (_, warnings) = found(&environment, dir.path(), true);
        assert!(warnings.len() == 1 && warnings[0].contains("a.md: "), "{warnings:?}");
    }

    #[test]
    fn what_the_run_names_counts_first_and_memories_have_their_folders() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::below(dir.path());
        let root = dir.path().join("project");
        write(
            &root.join(".becket/agents"),
            "reviewer.md",
            "---\ndescription: of the project\nmemory: project\n---\n",
        );
        write(
            &root.join(".becket/agents"),
            "keeper.md",
            "---\ndescription: d\ntools: Read\nmemory: local\n---\n",
        );
        let json = serde_json::json!({
            "Reviewer": {"prompt": "Strict.", "memory": "user"},
            "a b": {"prompt": "x"},
        });
        let (given, warnings) = parse_agents(&json).unwrap();
        assert!(warnings.len() == 1 && warnings[0].contains("its name \"a b\""), "{warnings:?}");
        let agents = Agents::find(&environment, &root, true, &given);
        let names: Vec<&str> = agents.all.iter().map(|found| found.kind.name.as_str()).collect();
        assert_eq!(names, ["reviewer", "keeper", "explore", "general"]);
        let memory = |name: &str| agents.get(name).unwrap().kind.run.memory.clone();
        assert!(memory("reviewer").unwrap().ends_with("becket/agent-memory/reviewer"));
        assert_eq!(memory("keeper"), Some(root.join(".becket/agent-memory-local/keeper")));
        assert_eq!(memory("explore"), None);
        assert!(parse_agents(&serde_json::json!({"x": {}})).unwrap_err().contains("`prompt` is missing"));
    }

    #[test]
    fn folders_of_a_folder_of_agents_are_read_too() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::below(dir.path());
        let root = dir.path().join("project");
        let agents = root.join(".claude/agents");
        let own = environment.config_dir.join("agents");
        write(&agents.join("team/deep"), "s.md", "---\ndescription: d\n---\n");
        write(&agents.join(".hidden"), "h.md", "---\ndescription: d\n---\n");
        write(&agents.join("1/2/3/4/5/6"), "far.md", "---\ndescription: d\n---\n");
        write(&own.join("a"), "mine.md", "---\ndescription: d\n---\n");
        write(&own.join("b"), "mine.md", "---\ndescription: d\n---\n");
        write(&dir.path().join("elsewhere"), "linked.md", "---\ndescription: d\n---\n");
        for (target, link) in [
            (agents.as_path(), agents.join("team/loop")),
            (&own, own.join("loop")),
            (&dir.path().join("elsewhere"), agents.join("outside")),
            (&dir.path().join("elsewhere"), own.join("outside")),
        ] {
            std::os::unix::fs::symlink(target, link).unwrap();
        }
        let (kinds, warnings) = found(&environment, &root, true);
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
        assert_eq!(names, ["s", "mine", "linked", "explore", "general"]);
        assert!(warnings.len() == 1 && warnings[0].contains("has the name mine, too"), "{warnings:?}");
        for n in 0..MAX_FILES {
            write(&agents, &format!("z{n}.md"), "---\ndescription: d\n---\n");
        }
        let (_, warnings) = found(&environment, &root, true);
        assert!(warnings[0].contains("only 100 files of agents are read; 4 are left out"), "{warnings:?}");
    }

    #[test]
    fn skills_of_an_agent_are_a_part_of_its_prompt() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::below(dir.path());
        let folder = dir.path().join("skills");
        write(&folder.join("lint"), "SKILL.md", "---\nname: lint\ndescription: d\n---\nRun the linter.\n");
        let dirs = [becket_tool_skill::SkillDir {
            path: folder,
            scope: becket_tool_skill::Scope::User,
            trusted: true,
        }];
        let json = serde_json::json!({"a": {"prompt": "Strict.", "skills": ["lint", "none"]}});
        let mut agents = Agents::find(&environment, dir.path(), true, &parse_agents(&json).unwrap().0);
        agents.load_skills(&Skills::discover(&dirs));
        let prompt = &agents.get("a").unwrap().kind.prompt;
        assert!(
            prompt.starts_with("Strict.\n\nSkill lint, in ") && prompt.contains("Run the linter."),
            "{prompt}"
        );
        assert_eq!(agents.warnings, ["the agent a works without the skill none: there is no such skill"]);
    }
}
