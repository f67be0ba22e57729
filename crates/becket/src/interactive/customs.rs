//! Commands of the person's and the project's own: Markdown files whose name is the command's.
//!
//! Owns where they are, their frontmatter (`description`, `argument-hint`), and what becomes of `$ARGUMENTS`, `$1`, `@file`
//! and `` !`command` ``. Nothing of the project runs before the person has seen it: a file of the project that runs something is
//! trusted by its whole text, once. Files are read within bounds; what is too large or not readable is no command.

use super::person::Person;
use crate::environment::Environment;
use crate::trust::{Brought, folders};
use becket_tui::input::{Confirm, Custom, Page, Reply};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Commands that are known at most, and their size; files that are named in one, likewise.
const MOST: usize = 200;
const BYTES: u64 = 64 * 1024;

/// The command by which a person says that they trust a file.
pub(super) const TRUST: &str = "trust-command";

pub(super) struct Customs {
    /// Folders, the strongest first, and whether they are the project's.
    dirs: Vec<(PathBuf, bool)>,
    cwd: PathBuf,
    trusted: PathBuf,
}

/// A command with its file.
struct Found {
    custom: Custom,
    text: String,
    body: String,
    project: bool,
}

impl Customs {
    /// `trusted`: the project is; else its commands are none.
    pub(super) fn new(environment: &Environment, cwd: &Path, root: &Path, trusted: bool) -> Self {
        let of_project = if trusted { folders(Brought::Commands, root, cwd) } else { Vec::new() };
        let mut dirs: Vec<(PathBuf, bool)> = of_project.into_iter().map(|dir| (dir, true)).collect();
        dirs.push((environment.config_dir.join("commands"), false));
        if let Some(home) = &environment.home {
            dirs.push((home.join(".claude/commands"), false));
        }
        Self { dirs, cwd: cwd.to_owned(), trusted: environment.data_dir.join("trusted-commands") }
    }

    pub(super) fn list(&self) -> Vec<Custom> {
        self.all().into_values().map(|found| found.custom).collect()
    }

    /// By name; the strongest of those of one name.
    fn all(&self) -> BTreeMap<String, Found> {
        let mut out = BTreeMap::new();
        for (dir, project) in &self.dirs {
            for (name, path) in files(dir) {
                if out.len() < MOST
                    && !out.contains_key(&name)
                    && let Some(text) = small(&path)
                {
                    out.insert(name.clone(), found(name, text, *project));
                }
            }
        }
        out
    }

    /// The prompt that a command comes to, or the question whether it may run what it wants to.
    pub(super) async fn answer(
        self: Arc<Self>,
        person: Arc<Person>,
        name: String,
        arguments: String,
        trust: bool,
    ) -> Reply {
        let customs = Arc::clone(&self);
        let key = name.clone();
        let found = tokio::task::spawn_blocking(move || customs.all().remove(&key)).await.ok().flatten();
        let Some(found) = found else {
            return Reply::Done(Err(format!("there is no command /{name}; /help lists them")));
        };
        let text = with_arguments(&found.body, &arguments);
        let commands = commands(&text);
        let hash = becket_tool::sha256(found.text.as_bytes());
        if found.project && !commands.is_empty() && !self.trusts(&hash) {
            if !trust {
                return Reply::Page { result: Ok(question(&name, &arguments, &commands)), name };
            }
            if let Err(error) = self.remember(&hash) {
                return Reply::Done(Err(format!("cannot keep that /{name} is trusted: {error}")));
            }
        }
        let mut out = self.with_files(&text);
        for command in commands {
            let output = person.output(command.clone()).await;
            out = out.replace(&format!("!`{command}`"), output.trim_end());
        }
        Reply::Prompt(out)
    }

    fn trusts(&self, hash: &str) -> bool {
        std::fs::read_to_string(&self.trusted).is_ok_and(|text| text.lines().any(|line| line == hash))
    }

    fn remember(&self, hash: &str) -> std::io::Result<()> {
        use std::io::Write as _;
        if let Some(dir) = self.trusted.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(&self.trusted)?;
        file.write_all(format!("{hash}\n").as_bytes())
    }

    /// `@file` with the file's content below; only files of the project, and only where there is one.
    fn with_files(&self, text: &str) -> String {
        let mut out = text.to_owned();
        let mut seen = Vec::new();
        for word in text.split_whitespace().filter_map(|word| word.strip_prefix('@')) {
            let name = word.trim_end_matches([',', '.', ';', ':', ')']);
            let path = self.cwd.join(name);
            let inside = path.canonicalize().is_ok_and(|path| path.starts_with(&self.cwd) && path.is_file());
            if !inside || seen.contains(&name) {
                continue;
            }
            seen.push(name);
            match small(&path) {
                Some(content) => {
                    let fence =
                        "`".repeat(content.split(|c| c != '`').map(str::len).max().unwrap_or(0).max(2) + 1);
                    let _ = write!(out, "\n\n{name}:\n{fence}\n{}\n{fence}", content.trim_end());
                }
                None => {
                    let _ = write!(out, "\n\n{name} is too large to stand here, or no text; read it.");
                }
            }
        }
        out
    }
}

fn question(name: &str, arguments: &str, commands: &[String]) -> Page {
    let list: String = commands.iter().fold(String::new(), |mut out, c| {
        let _ = writeln!(out, "{}", c.replace("```", "'''"));
        out
    });
    Page {
        title: format!("/{name}"),
        markdown: format!(
            "This command is the project's. Before it becomes a prompt it runs, without asking again while the file stays \
             as it is:\n\n```sh\n{list}```"
        ),
        confirm: Some(Confirm {
            question: "run this?".to_owned(),
            name: TRUST.to_owned(),
            arguments: format!("{name} {arguments}"),
        }),
        ..Page::default()
    }
}

/// Names and files: `a.md` is `/a`, `b/a.md` is `/b:a`. Links are not followed.
fn files(dir: &Path) -> Vec<(String, PathBuf)> {
    let mut out = Vec::new();
    for (path, is_dir) in entries(dir) {
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default().to_owned();
        if is_dir {
            let below = entries(&path).into_iter().filter(|(_, is_dir)| !is_dir);
            out.extend(
                below.filter_map(|(file, _)| Some((format!("{stem}:{}", command_name(&file)?), file))),
            );
        } else if let Some(name) = command_name(&path) {
            out.push((name, path));
        }
    }
    out
}

fn entries(dir: &Path) -> Vec<(PathBuf, bool)> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok).take(4 * MOST);
    let mut out: Vec<(PathBuf, bool)> = entries
        .filter_map(|e| {
            let kind = e.file_type().ok()?;
            (kind.is_file() || kind.is_dir()).then(|| (e.path(), kind.is_dir()))
        })
        .collect();
    out.sort();
    out
}

fn command_name(path: &Path) -> Option<String> {
    if path.extension()? != "md" {
        return None;
    }
    let name = path.file_stem()?.to_str()?;
    let plain = name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'));
    (plain && !name.is_empty()).then(|| name.to_owned())
}

fn small(path: &Path) -> Option<String> {
    let meta = std::fs::metadata(path).ok()?;
    if !meta.is_file() || meta.len() > BYTES {
        return None;
    }
    std::fs::read_to_string(path).ok()
}

fn found(name: String, text: String, project: bool) -> Found {
    let mut custom = Custom { name, ..Custom::default() };
    let mut body = text.as_str();
    if let Some(rest) = text.strip_prefix("---\n")
        && let Some((head, after)) = rest.split_once("\n---")
    {
        for line in head.lines() {
            let Some((key, value)) = line.split_once(':') else { continue };
            let value = value.trim().trim_matches(['"', '\'']).to_owned();
            match key.trim() {
                "description" => custom.description = value,
                "argument-hint" => custom.arguments = value,
                _ => {}
            }
        }
        body = after.trim_start_matches('-').trim_start_matches('\n');
    }
    if custom.description.is_empty() {
        let first = body.lines().find(|l| !l.trim().is_empty()).unwrap_or_default();
        first.trim_start_matches('#').trim().clone_into(&mut custom.description);
    }
    Found { custom, body: body.to_owned(), text, project }
}

/// `$ARGUMENTS`, `$1` to `$9`; arguments that nothing asks for stand at the end.
fn with_arguments(body: &str, arguments: &str) -> String {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let mut out = String::with_capacity(body.len() + arguments.len());
    let (mut rest, mut used) = (body, false);
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let digit = after.chars().next().and_then(|c| c.to_digit(10)).filter(|n| *n > 0);
        if let Some(behind) = after.strip_prefix("ARGUMENTS") {
            out.push_str(arguments);
            (rest, used) = (behind, true);
        } else if let Some(n) = digit {
            out.push_str(words.get(n as usize - 1).copied().unwrap_or_default());
            (rest, used) = (&after[1..], true);
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    if !used && !arguments.is_empty() {
        let _ = write!(out, "\n\n{arguments}");
    }
    out.trim().to_owned()
}

/// What stands in `` !`…` ``, each once.
fn commands(text: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for piece in text.split("!`").skip(1) {
        if let Some((command, _)) = piece.split_once('`')
            && !command.trim().is_empty()
            && !out.iter().any(|c| c == command)
        {
            out.push(command.to_owned());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_tool_shell::{Shell, ShellSettings};

    fn room() -> (tempfile::TempDir, Arc<Customs>, Arc<Person>) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for (path, text) in [
            (
                ".becket/commands/review.md",
                "---\ndescription: \"Reviews\"\nargument-hint: FILE\n---\nLook at $1 as $2. All: $ARGUMENTS\n",
            ),
            (".claude/commands/review.md", "weaker"),
            (".claude/commands/git/log.md", "# The log\nSay what changed:\n!`echo one` and !`echo two`"),
            ("home/own.md", "See @notes.txt, !`echo mine`"),
            ("home/bad name.md", "x"),
            ("notes.txt", "a note\n"),
        ] {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let customs = Customs {
            dirs: vec![
                (root.join(".becket/commands"), true),
                (root.join(".claude/commands"), true),
                (root.join("home"), false),
            ],
            cwd: root.clone(),
            trusted: root.join("data/trusted"),
        };
        let env = vec![("PATH".into(), std::env::var_os("PATH").unwrap())];
        let shell = Shell::new(ShellSettings::new(env, root.join("spill")));
        let person = Person::new(shell, root.clone(), std::slice::from_ref(&root));
        (dir, Arc::new(customs), Arc::new(person))
    }

    #[tokio::test]
    async fn a_file_is_a_command_and_the_project_s_goes_first() {
        let (_dir, customs, person) = room();
        let names: Vec<String> = customs.list().into_iter().map(|c| c.name).collect();
        assert_eq!(names, ["git:log", "own", "review"]);
        assert_eq!(customs.list()[2].description, "Reviews");
        assert_eq!(customs.list()[0].description, "The log");
        let answer = |name: &str, arguments: &str, trust| {
            Arc::clone(&customs).answer(Arc::clone(&person), name.into(), arguments.into(), trust)
        };
        let said = answer("review", "a.rs  critic", false).await;
        assert_eq!(said, Reply::Prompt("Look at a.rs as critic. All: a.rs  critic".into()));
        let own = answer("own", "", false).await;
        assert_eq!(own, Reply::Prompt("See @notes.txt, mine\n\nnotes.txt:\n```\na note\n```".into()));
        assert!(matches!(answer("none", "", false).await, Reply::Done(Err(_))));
    }

    #[tokio::test]
    async fn what_a_project_runs_is_shown_first_and_trusted_by_its_text() {
        let (dir, customs, person) = room();
        let answer =
            |trust| Arc::clone(&customs).answer(Arc::clone(&person), "git:log".into(), "today".into(), trust);
        let Reply::Page { result: Ok(page), .. } = answer(false).await else { panic!("not asked") };
        assert!(page.markdown.contains("echo one\necho two\n"), "{}", page.markdown);
        let confirm = page.confirm.unwrap();
        assert_eq!((confirm.name.as_str(), confirm.arguments.as_str()), (TRUST, "git:log today"));
        let ran = Reply::Prompt("# The log\nSay what changed:\none and two\n\ntoday".into());
        assert_eq!(answer(true).await, ran);
        assert_eq!(answer(false).await, ran);
        std::fs::write(dir.path().join(".claude/commands/git/log.md"), "!`echo three`").unwrap();
        assert!(matches!(answer(false).await, Reply::Page { .. }));
    }
}
