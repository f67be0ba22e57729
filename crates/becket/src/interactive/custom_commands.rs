//! Custom commands of the user and the project: Markdown files named after the command, and skills that the user may
//! call.
//!
//! Owns their locations, their frontmatter (`description`, `argument-hint`, `allowed-tools`, `model`, `effort`, `context`,
//! `agent`), and the expansion of `$ARGUMENTS`, `$1`,
//! `@file` and `` !`command` ``, in the terminal and in headless runs. Nothing of the project runs before the user has
//! seen it: a project file that runs or allows something must be trusted once, with its whole text. Only the file decides what
//! runs, and words of the caller stay words. Files are read up to a limit, and a file that is too large or unreadable
//! is not a command.

mod expansion;

use super::user_shell::UserShell;
use crate::command_files::{MAX_COMMANDS, MAX_FILE_BYTES, files, read_limited};
use crate::environment::Environment;
use crate::hooks::OutsideHooks;
use crate::plugins::Plugins;
use crate::trust::content::{ContentTrust, Item, State};
use crate::trust::scripts::{CommandEnvironment, ProjectCommand, with_scripts};
use crate::trust::{ContentKind, folders};
use becket_tool_skill::{Head, Scope, Skills};
use becket_tui::commands::COMMANDS;
use becket_tui::input::{Confirm, Custom, Page, Reply, Request};
use becket_types::TurnTerms;
use expansion::{Piece, pieces};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The skills of a session.
pub(crate) struct SessionSkills {
    pub find: Box<dyn Fn() -> Skills + Send + Sync>,
    /// The session's hooks. Calling a skill activates the hooks in its frontmatter.
    pub hooks: Option<OutsideHooks>,
}

pub(crate) struct CustomCommands {
    /// Folders, the strongest first. True: the folder belongs to the project.
    dirs: Vec<(PathBuf, bool)>,
    cwd: PathBuf,
    plugins: Arc<Plugins>,
    /// Skills are looked for only when a list or a name is requested.
    skills: SessionSkills,
    trust: ContentTrust,
    surroundings: CommandEnvironment,
}

/// A command with its file.
struct CommandFile {
    custom: Custom,
    text: String,
    body: String,
    terms: TurnTerms,
    project: bool,
}

/// A skill that the user calls.
struct CalledSkill {
    name: String,
    prompt: String,
    terms: TurnTerms,
    project: bool,
}

enum Source {
    Command(CommandFile),
    Skill(CalledSkill),
}

/// The prompt that a command or skill expands to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandPrompt {
    pub text: String,
    pub terms: TurnTerms,
    /// `allowed-tools` rules of a project's file that have no effect, because the user has not agreed to them.
    pub left_out: Vec<String>,
}

/// Treatment of a file of the project to which the user has not agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consent {
    Ask,
    Given,
    /// Nobody can be asked. The tools that the file allows are left out, and a file that runs something is not used.
    Impossible,
}

/// Result of calling a command by its name.
#[derive(Debug)]
pub(crate) enum Called {
    Prompt(Box<CommandPrompt>),
    /// There is no such command.
    Unknown,
    /// The command would run these programs and allow these tools, and the user has not trusted its file. `scripts`: the
    /// project's files that the programs run, with their texts.
    Asks {
        commands: Vec<String>,
        scripts: String,
        allows: Vec<String>,
    },
    Failed(String),
}

impl CustomCommands {
    /// `trusted`: the project is trusted; otherwise its commands are ignored. `everything`: the programs that they run
    /// are trusted as well.
    pub(crate) fn new(
        environment: &Environment,
        cwd: &Path,
        root: &Path,
        trusted: bool,
        everything: bool,
        skills: SessionSkills,
    ) -> Self {
        let of_project = if trusted { folders(ContentKind::Commands, root, cwd) } else { Vec::new() };
        let mut dirs: Vec<(PathBuf, bool)> = of_project.into_iter().map(|dir| (dir, true)).collect();
        dirs.push((environment.config_dir.join("commands"), false));
        dirs.extend(environment.claude_dir().map(|dir| (dir.join("commands"), false)));
        let trust = ContentTrust::for_project(environment, root, everything);
        let surroundings = CommandEnvironment::new(environment, root, cwd);
        let plugins = Arc::clone(&environment.plugins);
        Self { dirs, cwd: cwd.to_owned(), plugins, skills, trust, surroundings }
    }

    pub(crate) fn list(&self) -> Vec<Custom> {
        let mut all: Vec<Custom> = self.commands_by_name().into_values().map(|found| found.custom).collect();
        for skill in (self.skills.find)().iter().filter(|skill| skill.user_invocable) {
            if !all.iter().any(|custom| custom.name == skill.name) {
                all.push(Custom {
                    name: skill.name.clone(),
                    arguments: skill.argument_hint.clone().unwrap_or_default(),
                    description: skill.description.clone(),
                });
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Returns the commands by name. Of several with one name, the strongest wins.
    fn commands_by_name(&self) -> BTreeMap<String, CommandFile> {
        let mut out = BTreeMap::new();
        for (dir, project) in &self.dirs {
            for (name, path) in files(dir) {
                if out.len() < MAX_COMMANDS
                    && !out.contains_key(&name)
                    && let Some(text) = read_limited(&path)
                {
                    out.insert(name.clone(), command_file(name, text, *project));
                }
            }
        }
        for (name, text) in self.plugins.commands() {
            out.entry(name.clone()).or_insert_with(|| command_file(name, text, false));
        }
        out
    }

    /// Returns the text of a command that the user trusts: its file, and the project's files that its programs run. The
    /// caller's words are not a part of it.
    fn content(&self, found: &CommandFile) -> String {
        let pieces = pieces(&found.body, "");
        let commands =
            pieces.iter().filter_map(Piece::command).map(|text| ProjectCommand::Shell(text.to_owned()));
        with_scripts(&found.text, &commands.collect::<Vec<_>>(), &self.surroundings)
    }

    /// Returns why the file of a command cannot be read. Otherwise the call would be sent to the model as text.
    fn unreadable(&self, name: &str) -> Option<String> {
        let mut of_name = self.dirs.iter().flat_map(|(dir, _)| files(dir)).filter(|(other, _)| other == name);
        of_name.find_map(|(_, path)| {
            let error = becket_files::read_text(&path, MAX_FILE_BYTES).err()?;
            Some(format!("{}: {error}", path.display()))
        })
    }

    /// Returns the command or the skill of this name.
    fn find(&self, name: &str, arguments: &str) -> Result<Source, Called> {
        if let Some(found) = self.commands_by_name().remove(name) {
            return Ok(Source::Command(found));
        }
        if let Some(why) = self.unreadable(name) {
            return Err(Called::Failed(format!("/{name} cannot be used: {why}")));
        }
        let skills = (self.skills.find)();
        let Some(skill) = skills.get(name).filter(|skill| skill.user_invocable) else {
            let whole =
                self.plugins.qualified_name(name).and_then(|whole| self.commands_by_name().remove(&whole));
            return whole.map(Source::Command).ok_or(Called::Unknown);
        };
        match skill.prompt(arguments) {
            Ok(prompt) => Ok(Source::Skill(CalledSkill {
                name: skill.name.clone(),
                prompt,
                terms: skill.terms.clone(),
                project: skill.scope == Scope::Project,
            })),
            Err(why) => Err(Called::Failed(format!("/{name} cannot be used: {why}"))),
        }
    }

    fn expand_skill(&self, mut skill: CalledSkill, consent: Consent) -> Result<CommandPrompt, Called> {
        let mut left_out = Vec::new();
        if skill.project {
            // The user agrees to the skill's own text, so it is read here without the words of the caller.
            let skills = (self.skills.find)();
            let content = skills.get(&skill.name).and_then(|skill| skill.prompt("").ok()).unwrap_or_default();
            let allows = skill.terms.allow.join(", ");
            let item = Item {
                kind: "skill".to_owned(),
                name: format!("/{}", skill.name),
                content: format!("allowed-tools: {allows}\n\n{content}"),
            };
            left_out = self.require_consent(&item, &[], String::new(), &mut skill.terms, consent)?;
        }
        if let Some(hooks) = &self.skills.hooks {
            hooks.engine().skill_loaded(&skill.name);
        }
        Ok(CommandPrompt { text: skill.prompt, terms: skill.terms, left_out })
    }

    /// Makes sure that the user agrees to what a file of the project runs and allows. Returns the rules that are left out.
    fn require_consent(
        &self,
        item: &Item,
        commands: &[String],
        scripts: String,
        terms: &mut TurnTerms,
        consent: Consent,
    ) -> Result<Vec<String>, Called> {
        if commands.is_empty() && terms.allow.is_empty() || self.trust.state(item) == State::Trusted {
            return Ok(Vec::new());
        }
        match consent {
            Consent::Given => match self.trust.decide(item, true) {
                Ok(()) => Ok(Vec::new()),
                Err(error) => {
                    Err(Called::Failed(format!("cannot save that you trust {}: {error}", item.name)))
                }
            },
            Consent::Impossible if commands.is_empty() => Ok(std::mem::take(&mut terms.allow)),
            Consent::Ask | Consent::Impossible => {
                Err(Called::Asks { commands: commands.to_vec(), scripts, allows: terms.allow.clone() })
            }
        }
    }

    /// Returns the prompt that `/name arguments` expands to, unless a hook refuses it.
    pub(crate) async fn call(
        self: Arc<Self>,
        user_shell: &UserShell,
        name: &str,
        arguments: &str,
        consent: Consent,
    ) -> Called {
        let hooks = self.skills.hooks.clone();
        match (self.expand(user_shell, name, arguments, consent).await, hooks) {
            (Called::Prompt(prompt), Some(hooks)) => {
                let prompt = *prompt;
                let text = hooks.expansion("slash_command", name, arguments, prompt.text).await;
                let called = |text| {
                    Called::Prompt(Box::new(move_to_subagent(
                        CommandPrompt { text, ..prompt },
                        name,
                        arguments,
                    )))
                };
                text.map_or_else(Called::Failed, called)
            }
            (Called::Prompt(prompt), None) => {
                Called::Prompt(Box::new(move_to_subagent(*prompt, name, arguments)))
            }
            (called, _) => called,
        }
    }

    async fn expand(
        self: Arc<Self>,
        user_shell: &UserShell,
        name: &str,
        arguments: &str,
        consent: Consent,
    ) -> Called {
        let (custom_commands, key, words) = (Arc::clone(&self), name.to_owned(), arguments.to_owned());
        let looked = tokio::task::spawn_blocking(move || custom_commands.find(&key, &words)).await;
        let mut found = match looked {
            Ok(Ok(Source::Command(found))) => found,
            Ok(Ok(Source::Skill(skill))) => {
                return self
                    .expand_skill(skill, consent)
                    .map_or_else(|called| called, |prompt| Called::Prompt(Box::new(prompt)));
            }
            Ok(Err(called)) => return called,
            Err(error) => return Called::Failed(format!("/{name} cannot be read: {error}")),
        };
        let pieces = pieces(&found.body, arguments);
        let commands: Vec<String> = pieces.iter().filter_map(Piece::command).map(str::to_owned).collect();
        let mut left_out = Vec::new();
        if found.project {
            let content = self.content(&found);
            let scripts = content.strip_prefix(&found.text).unwrap_or_default().trim().to_owned();
            let item = Item { kind: "command".to_owned(), name: format!("/{name}"), content };
            match self.require_consent(&item, &commands, scripts, &mut found.terms, consent) {
                Ok(rules) => left_out = rules,
                Err(called) => return called,
            }
        }
        let written: String = pieces.iter().map(Piece::text).collect();
        let mut out = String::new();
        for piece in &pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Command(command) => out.push_str(user_shell.output(command.clone()).await.trim_end()),
            }
        }
        out.truncate(out.trim_end().len());
        out.push_str(&super::included_files::files_of(&self.cwd, &written));
        Called::Prompt(Box::new(CommandPrompt { text: out.trim().to_owned(), terms: found.terms, left_out }))
    }

    /// Returns the prompt of a command, or the question if it may run its programs.
    pub(super) async fn answer(
        self: Arc<Self>,
        user_shell: Arc<UserShell>,
        name: String,
        arguments: String,
        trust: bool,
    ) -> Reply {
        let consent = if trust { Consent::Given } else { Consent::Ask };
        match Arc::clone(&self).call(&user_shell, &name, &arguments, consent).await {
            Called::Prompt(prompt) => {
                let CommandPrompt { text, terms, .. } = *prompt;
                let command = format!("/{name} {arguments}").trim().to_owned();
                Reply::Prompt { command, text, terms }
            }
            Called::Unknown => {
                let own: Vec<Custom> = self.list();
                let known =
                    COMMANDS.iter().map(|(name, ..)| *name).chain(own.iter().map(|c| c.name.as_str()));
                let near = becket_tool::text::nearest(&name, known);
                let near = near.map(|near| format!("did you mean /{near}? ")).unwrap_or_default();
                Reply::Done(Err(format!("there is no command /{name}; {near}/help lists them")))
            }
            Called::Failed(why) => Reply::Done(Err(why)),
            Called::Asks { commands, scripts, allows } => {
                Reply::Page(Ok(question(name, arguments, &commands, &scripts, &allows)))
            }
        }
    }
}

/// For a command with `context: fork`, moves the prompt into its [`TurnTerms`]: a subagent gets the prompt, and the
/// session shows only the command as it was typed.
fn move_to_subagent(mut prompt: CommandPrompt, name: &str, arguments: &str) -> CommandPrompt {
    if let Some(fork) = &mut prompt.terms.fork {
        let typed = format!("/{name} {arguments}").trim_end().to_owned();
        fork.prompt = std::mem::replace(&mut prompt.text, typed);
    }
    prompt
}

fn question(name: String, arguments: String, commands: &[String], scripts: &str, allows: &[String]) -> Page {
    let scripts = match scripts {
        "" => String::new(),
        scripts => {
            format!("\n\nThe project's files that this runs:\n\n```\n{}\n```", scripts.replace("```", "'''"))
        }
    };
    let list = |items: &[String]| {
        items.iter().fold(String::new(), |mut out, item| {
            let _ = writeln!(out, "{}", item.replace("```", "'''"));
            out
        })
    };
    let mut markdown = "This command belongs to the project. becket asks again when its file or one of its \
                        scripts changes."
        .to_owned();
    if !commands.is_empty() {
        let _ = write!(
            markdown,
            "\n\nBefore it becomes a prompt it runs:\n\n```sh\n{}```{scripts}",
            list(commands)
        );
    }
    if !allows.is_empty() {
        let _ = write!(
            markdown,
            "\n\nUntil its turn ends, these calls run without a question:\n\n```text\n{}```",
            list(allows)
        );
    }
    Page {
        title: format!("/{name}"),
        markdown,
        confirm: Some(Confirm {
            question: if commands.is_empty() { "allow this?" } else { "run this?" }.to_owned(),
            request: Request::TrustCustom { name, arguments },
        }),
        ..Page::default()
    }
}

fn command_file(name: String, text: String, project: bool) -> CommandFile {
    let mut wrong = None;
    let (head, body) = match Head::split(&text) {
        Some(Ok((head, body))) => (head, body.trim_start_matches(['\r', '\n'])),
        // If a file has no readable frontmatter, all of its text is the prompt.
        other => {
            wrong = other.and_then(Result::err);
            (Head::default(), text.trim_start_matches('\u{FEFF}'))
        }
    };
    let mut custom = Custom {
        name,
        description: head.text("description").unwrap_or_default(),
        arguments: head.text("argument-hint").unwrap_or_default(),
    };
    if let Some(why) = wrong {
        custom.description = format!("(its frontmatter cannot be read, so it is sent as text: {why})");
    } else if custom.description.is_empty() {
        let first = body.lines().find(|l| !l.trim().is_empty()).unwrap_or_default();
        first.trim_start_matches('#').trim().clone_into(&mut custom.description);
    }
    let (body, terms) = (body.to_owned(), head.turn_terms());
    CommandFile { custom, text, body, terms, project }
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_tool_shell::{Shell, ShellSettings};

    fn prompt(command: &str, text: &str) -> Reply {
        let (command, text) = (command.to_owned(), text.to_owned());
        Reply::Prompt { command, text, terms: TurnTerms::default() }
    }

    fn room() -> (tempfile::TempDir, Arc<CustomCommands>, Arc<UserShell>) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for (path, text) in [
            (
                ".becket/commands/review.md",
                "---\ndescription: \"Reviews\"\nargument-hint: FILE\n---\nLook at $1 as $2. All: $ARGUMENTS\n",
            ),
            (".claude/commands/review.md", "weaker"),
            (
                ".claude/commands/mark.md",
                "\u{FEFF}---\r\ndescription: Marks: it\r\nargument-hint: [a] [b]\r\n---\r\nMark $1\r\n",
            ),
            (".claude/commands/git/log.md", "# The log\nSay what changed:\n!`echo one` and !`echo two`"),
            ("home/own.md", "See @notes.txt, !`echo mine`"),
            ("home/bad name.md", "x"),
            ("notes.txt", "a note\n"),
            (".becket/commands/leak.md", "Look at @.env @plain @token.txt"),
            (".env", "PASSWORD=hunter2\n"),
            ("token.txt", "it is ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8\n"),
        ] {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let custom_commands = CustomCommands {
            dirs: vec![
                (root.join(".becket/commands"), true),
                (root.join(".claude/commands"), true),
                (root.join("home"), false),
            ],
            cwd: root.clone(),
            plugins: Arc::default(),
            skills: SessionSkills { find: Box::new(Skills::default), hooks: None },
            trust: ContentTrust::for_project(&Environment::below(&root), &root, false),
            surroundings: CommandEnvironment::new(&Environment::below(&root), &root, &root),
        };
        std::os::unix::fs::symlink(root.join(".env"), root.join("plain")).unwrap();
        let env = vec![("PATH".into(), std::env::var_os("PATH").unwrap())];
        let shell = Shell::new(ShellSettings::new(env, root.join("spill")));
        let user_shell = UserShell::new(shell, root.clone(), std::slice::from_ref(&root));
        (dir, Arc::new(custom_commands), Arc::new(user_shell))
    }

    #[tokio::test]
    async fn a_file_is_a_command_and_the_project_s_goes_first() {
        let (_dir, custom_commands, user_shell) = room();
        let names: Vec<String> = custom_commands.list().into_iter().map(|c| c.name).collect();
        assert_eq!(names, ["git:log", "leak", "mark", "own", "review"]);
        assert_eq!(custom_commands.list()[4].description, "Reviews");
        let mark = custom_commands.list().remove(2);
        assert_eq!((mark.description.as_str(), mark.arguments.as_str()), ("Marks: it", "[a] [b]"));
        assert_eq!(custom_commands.list()[0].description, "The log");
        let answer = |name: &str, arguments: &str, trust| {
            Arc::clone(&custom_commands).answer(Arc::clone(&user_shell), name.into(), arguments.into(), trust)
        };
        let said = answer("review", "a.rs  critic", false).await;
        assert_eq!(said, prompt("/review a.rs  critic", "Look at a.rs as critic. All: a.rs  critic"));
        assert_eq!(answer("mark", "x", false).await, prompt("/mark x", "Mark x"));
        let own = answer("own", "", false).await;
        assert_eq!(own, prompt("/own", "See @notes.txt, mine\n\nnotes.txt:\n```\na note\n```"));
        assert!(matches!(answer("none", "", false).await, Reply::Done(Err(_))));
    }

    #[tokio::test]
    async fn what_a_project_runs_is_shown_first_and_trusted_by_its_text() {
        let (dir, custom_commands, user_shell) = room();
        let answer = |trust| {
            Arc::clone(&custom_commands).answer(
                Arc::clone(&user_shell),
                "git:log".into(),
                "today".into(),
                trust,
            )
        };
        let Reply::Page(Ok(page)) = answer(false).await else { panic!("not asked") };
        assert!(page.markdown.contains("echo one\necho two\n"), "{}", page.markdown);
        let request = Request::TrustCustom { name: "git:log".into(), arguments: "today".into() };
        assert_eq!(page.confirm.unwrap().request, request);
        let ran = prompt("/git:log today", "# The log\nSay what changed:\none and two\n\ntoday");
        assert_eq!(answer(true).await, ran);
        assert_eq!(answer(false).await, ran);
        std::fs::write(dir.path().join(".claude/commands/git/log.md"), "!`echo three`").unwrap();
        assert!(matches!(answer(false).await, Reply::Page(_)));
    }

    #[tokio::test]
    async fn a_script_that_a_command_runs_is_shown_and_trusted_by_its_text() {
        let (dir, custom_commands, user_shell) = room();
        let script = dir.path().join("say it.sh");
        std::fs::write(&script, "echo four").unwrap();
        std::fs::write(dir.path().join(".claude/commands/git/log.md"), "!`sh './say it.sh'`").unwrap();
        let answer = |trust| {
            Arc::clone(&custom_commands).answer(
                Arc::clone(&user_shell),
                "git:log".into(),
                String::new(),
                trust,
            )
        };
        let Reply::Page(Ok(page)) = answer(false).await else { panic!("not asked") };
        assert!(page.markdown.contains("say it.sh, 9 bytes\necho four"), "{}", page.markdown);
        assert_eq!(answer(true).await, prompt("/git:log", "four"));
        std::fs::write(&script, "echo five").unwrap();
        assert!(matches!(answer(false).await, Reply::Page(_)));
    }

    #[tokio::test]
    async fn what_a_project_allows_is_shown_first_and_left_out_where_nobody_can_be_asked() {
        let (dir, custom_commands, user_shell) = room();
        let head = "---\nallowed-tools: Bash(git add:*), Read\nmodel: haiku\neffort: High\n---\nCommit.";
        for file in [".claude/commands/commit.md", "home/mine.md"] {
            std::fs::write(dir.path().join(file), head).unwrap();
        }
        let called = |name: &'static str, consent| {
            let custom_commands = Arc::clone(&custom_commands);
            let user_shell = Arc::clone(&user_shell);
            async move { custom_commands.call(&user_shell, name, "", consent).await }
        };
        let rules = vec!["Bash(git add:*), Read".to_owned()];
        let model = Some("haiku".to_owned());
        let effort = Some("high".to_owned());
        let terms =
            TurnTerms { allow: rules.clone(), model: model.clone(), effort: effort.clone(), fork: None };
        let full = || CommandPrompt { text: "Commit.".into(), terms: terms.clone(), left_out: Vec::new() };
        let Called::Prompt(own) = called("mine", Consent::Impossible).await else { panic!("not used") };
        assert_eq!(*own, full());
        let Called::Prompt(without) = called("commit", Consent::Impossible).await else { panic!("not used") };
        assert_eq!(without.terms, TurnTerms { allow: Vec::new(), model, effort, fork: None });
        assert_eq!(without.left_out, rules);
        let Called::Asks { commands, allows, .. } = called("commit", Consent::Ask).await else {
            panic!("not asked")
        };
        assert_eq!((commands.len(), &allows), (0, &rules));
        let page = question("commit".into(), String::new(), &commands, "", &allows);
        assert!(page.markdown.contains("without a question:\n\n```text\nBash(git add:*), Read\n"));
        for consent in [Consent::Given, Consent::Ask, Consent::Impossible] {
            let Called::Prompt(agreed) = called("commit", consent).await else { panic!("{consent:?}") };
            assert_eq!(*agreed, full(), "{consent:?}");
        }
        std::fs::write(dir.path().join(".claude/commands/commit.md"), format!("{head} Push.")).unwrap();
        assert!(matches!(called("commit", Consent::Ask).await, Called::Asks { .. }));
    }

    #[tokio::test]
    async fn a_command_includes_no_secrets() {
        let (_dir, custom_commands, user_shell) = room();
        let called = custom_commands.call(&user_shell, "leak", "", Consent::Impossible).await;
        let Called::Prompt(prompt) = called else { panic!("no prompt") };
        let text = prompt.text;
        assert!(!text.contains("hunter2") && !text.contains("ghp_A1b2"), "{text}");
        assert!(text.contains(".env may hold secrets") && text.contains("plain may hold secrets"), "{text}");
        assert!(text.contains("it is ‹"), "{text}");
    }
}
