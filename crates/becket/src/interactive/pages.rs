//! Pages of the interactive session: the results of subcommands as data ([`sheets`]), or their text as Markdown.
//!
//! Owns the mapping from commands to pages. A session that has not begun is shown as its first request will be.

use super::diff_page::fenced;
use super::sheets::{self, PathDisplay, Status};
use super::tasks_page::Job;
use super::{figures, preferences};
use crate::args::{self, ConfigArgs, ExportArgs};
use crate::assemble::Opening;
use crate::cmd::context::LoadedSession;
use crate::cmd::{self, one_line, pick_session, store_failure, when};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::toolbox;
use becket_agent::{Queries, Query};
use becket_config::Config;
use becket_sandbox::Programs;
use becket_session::Snapshot;
use becket_session::index::Index;
use becket_session::store::SessionSummary;
use becket_tui::input::{ExportFormat, Page, PageRequest, Place, Reply};
use becket_tui::page::Sheet;
use becket_types::{FilePath, Seq, Tokens};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum number of search hits that are read when sessions are searched.
const HITS: usize = 200;

/// Everything from which the pages are made.
pub(super) struct Pages {
    pub environment: Environment,
    pub cwd: PathBuf,
    /// The root of the project.
    pub root: PathBuf,
    /// Id of the session.
    pub session: String,
    pub config: Config,
    pub trusted: bool,
    /// The folders of the workspace.
    pub roots: Vec<PathBuf>,
    /// Contains the session's own sandbox, so that pages describe what applies to the session's commands.
    pub programs: Programs,
    pub mcp: Option<Arc<becket_mcp::Hub>>,
    pub opening: Opening,
    pub hooks: Option<crate::hooks::OutsideHooks>,
    /// Asks the agent of the running session.
    pub queries: Queries,
}

/// Content of a page, as Markdown or as data.
enum Body {
    Markdown(String),
    Sheet(Sheet),
}

impl Pages {
    /// Returns the page. Blocks. `jobs`: the commands in the background.
    pub(super) fn page(&self, wanted: &PageRequest, jobs: &[Job]) -> Reply {
        let body = match wanted {
            PageRequest::Agents => {
                Ok(Body::Sheet(sheets::agents(&self.opening.agents, &self.path_display())))
            }
            PageRequest::Bug => Ok(Body::Markdown(self.bug())),
            PageRequest::Config => self.config_page().map(Body::Sheet),
            PageRequest::Context { used, window, usable } => {
                self.context(*used, *window, *usable).map(Body::Sheet)
            }
            PageRequest::Cost => self.cost().map(Body::Sheet),
            PageRequest::Diff => super::diff_page::page(&self.cwd).map(Body::Markdown),
            PageRequest::Doctor => self.doctor().map(Body::Sheet),
            PageRequest::Hooks => self.hooks_page().map(Body::Sheet),
            PageRequest::Mcp { reconnect } => {
                Ok(Body::Markdown(super::mcp_page::page(self.mcp.as_deref(), reconnect.as_deref())))
            }
            PageRequest::Memory => self.memory().map(Body::Sheet),
            PageRequest::Permissions { mode } => Ok(Body::Sheet(self.permissions(mode))),
            PageRequest::Skills => Ok(Body::Sheet(self.skills())),
            PageRequest::Status { mode } => self.status(mode).map(Body::Sheet),
            PageRequest::Tasks => Ok(Body::Sheet(super::tasks_page::sheet(&self.background_tasks(), jobs))),
            PageRequest::Todos => Ok(Body::Markdown(todos(&self.live_list("todo")))),
            PageRequest::Tools => Ok(Body::Sheet(self.tools())),
        };
        let kept = matches!(wanted, PageRequest::Permissions { .. })
            .then(|| preferences::allowed(&self.environment, &self.root));
        let page = |body| {
            let page = Page { title: wanted.name().to_owned(), kept, ..Page::default() };
            match body {
                Body::Markdown(markdown) => Page { markdown, ..page },
                Body::Sheet(sheet) => Page { sheet: Some(sheet), ..page },
            }
        };
        Reply::Page(body.map(page).map_err(|f| failure_text(&f)))
    }

    fn path_display(&self) -> PathDisplay {
        PathDisplay { cwd: self.cwd.clone(), home: self.environment.home.clone() }
    }

    /// Returns the context page, for the size of the context, the window and its usable part as the interface knows them; 0 while
    /// unknown.
    fn context(&self, used: Tokens, window: Tokens, usable: Tokens) -> Result<Sheet, Failure> {
        let known = |tokens: Tokens| Some(tokens.0).filter(|tokens| *tokens > 0);
        let (window, usable) = (known(window), known(usable));
        // The interface's value may itself be an assumed default. Then the page determines the window.
        let window = window.filter(|window| *window != becket_model::catalog::DEFAULT_WINDOW);
        let mut reading = self.reading()?;
        reading.model = reading.model.take().or_else(|| self.config.model.name.clone());
        let mut filled = reading.context_fill(self.config.context.window.or(window), usable, false);
        // The page shows the same size as the status line.
        if let Some(used) = known(used) {
            filled.scale_to(used);
        }
        let threshold = filled.budget.threshold(self.config.context.threshold).0;
        let mut paths = figures::FilePaths::default();
        reading.for_each_entry(&mut |entry| paths.take(&entry))?;
        Ok(sheets::context(&reading, &filled, threshold, &paths, &self.path_display()))
    }

    /// Returns the rules files that the model reads, in order, with their sizes.
    fn memory(&self) -> Result<Sheet, Failure> {
        let mut reading = self.reading()?;
        let scale = reading.scale();
        let _ = reading.view.context();
        let mut spans = reading.view.spans(&[]);
        for span in &mut spans {
            span.tokens = scale.scaled(span.tokens);
        }
        Ok(sheets::memory(reading.view.system_items(), &spans, &self.path_display()))
    }

    /// Returns the folders of this session, and what its commands can reach. `mode`: the current permission mode.
    fn status(&self, mode: &str) -> Result<Sheet, Failure> {
        let sandbox = self.programs.sandbox();
        let levels = match sandbox {
            Some(sandbox) => cmd::sandbox::levels(&self.config.tools.sandbox, sandbox)?,
            None => Vec::new(),
        };
        let roots = self.folders();
        let status = Status {
            session: &self.session,
            roots: &roots,
            trusted: self.trusted,
            mode,
            opening: &self.opening,
            sandbox: crate::sandbox::summary(&self.config.tools.sandbox, sandbox),
            deny_rules: crate::sandbox::unsearched(&self.environment, &self.config, &roots)
                .filter(|_| sandbox.is_some()),
            sandbox_mode: self.config.tools.sandbox.mode.as_str(),
            levels,
        };
        Ok(sheets::status(status, &self.path_display()))
    }

    /// Returns the text of a bug report. Nothing is sent.
    fn bug(&self) -> String {
        let var = |name: &str| self.environment.var(name).unwrap_or("-").to_owned();
        let text = format!(
            "becket {}\n{} {}\nTERM={} TERM_PROGRAM={} COLORTERM={} TMUX={}\nsession {}\n",
            env!("CARGO_PKG_VERSION"),
            std::env::consts::OS,
            std::env::consts::ARCH,
            var("TERM"),
            var("TERM_PROGRAM"),
            var("COLORTERM"),
            if self.environment.var("TMUX").is_some() { "yes" } else { "no" },
            self.session,
        );
        format!(
            "Say what you did, what you expected and what came instead, and send this along:\n\n{}\n\n\
             `/doctor` checks the rest. `/export jsonl FILE` writes the session; look through it before you send it: it \
             contains the whole conversation and all tool results. Nothing is sent from here.",
            fenced(&text, "text")
        )
    }

    /// Returns the id of another session.
    pub(super) fn find(&self, query: &str) -> Reply {
        let found = pick_session(&self.environment, &self.cwd, Some(query)).and_then(|found| {
            if found.id.to_string() == self.session {
                return Err(Failure::usage("you are already in that session"));
            }
            Ok(found.id.to_string())
        });
        Reply::Found(found.map_err(|f| failure_text(&f)))
    }

    /// Returns ids and descriptions of the other sessions of this directory, newest first.
    pub(super) fn session_list(&self) -> Reply {
        let (environment, cwd) = (&self.environment, Some(self.cwd.as_path()));
        let listed = becket_session::index::list(&environment.index_path(), &environment.sessions_dir(), cwd);
        let sessions = match listed {
            Ok((sessions, _)) => sessions,
            Err(error) => return Reply::Found(Err(error.to_string())),
        };
        let row = |s: &SessionSummary| {
            (s.id.to_string(), format!("{}  {}", when(s.ledger.updated), one_line(s.label(), 60)))
        };
        let own = sessions.iter().filter(|s| s.subagent_of().is_none());
        Reply::Sessions(own.map(row).filter(|(id, _)| *id != self.session).collect())
    }

    /// Returns the sessions of this directory that contain these words, the best match first. Returns none if the
    /// search fails, because the list of sessions works without it.
    pub(super) fn saying(&self, words: String) -> Reply {
        let (environment, cwd) = (&self.environment, Some(self.cwd.as_path()));
        let hits = Index::open(&environment.index_path(), &environment.sessions_dir())
            .and_then(|index| index.search(&words, cwd, HITS))
            .unwrap_or_default();
        let mut sessions: Vec<String> = Vec::new();
        for id in hits.iter().map(|hit| hit.session.to_string()) {
            if !sessions.contains(&id) {
                sessions.push(id);
            }
        }
        Reply::Saying { words, sessions }
    }

    fn doctor(&self) -> Result<Sheet, Failure> {
        let checks = cmd::doctor::all_checks(&self.environment, &self.cwd)?;
        Ok(sheets::doctor(&checks, &self.path_display()))
    }

    /// Exports the session to this file. An existing file is not replaced.
    pub(super) fn export(&self, format: ExportFormat, file: &str) -> Reply {
        Reply::Done(self.export_to_file(format, file).map_err(|f| failure_text(&f)))
    }

    fn export_to_file(&self, format: ExportFormat, file: &str) -> Result<String, Failure> {
        let format = match format {
            ExportFormat::Jsonl => args::ExportFormat::Jsonl,
            ExportFormat::Md => args::ExportFormat::Md,
            ExportFormat::Html => args::ExportFormat::Html,
        };
        let path = self.cwd.join(file);
        if path.symlink_metadata().is_ok() {
            return Err(Failure::usage(format!("{} already exists; name another file", path.display())));
        }
        let args = ExportArgs {
            session: Some(self.session.clone()),
            format,
            output: Some(path.clone()),
            force: false,
            json: false,
            blobs: false,
            with_secrets: false,
            cd: None,
        };
        let masked = cmd::export::run(&self.environment, &self.cwd, &args, &mut std::io::sink())?;
        let told =
            cmd::export::masked_note(masked, format).map(|told| format!("; {told}")).unwrap_or_default();
        Ok(format!("Exported this session to {}{told}", self.path_display().path(&path)))
    }

    fn reading(&self) -> Result<LoadedSession, Failure> {
        let mut reading = self.started()?;
        reading.begin_as(&self.opening);
        Ok(reading)
    }

    /// Asks the agent for the session as it is now. Blocks until the agent answers.
    pub(super) fn started(&self) -> Result<LoadedSession, Failure> {
        LoadedSession::from_snapshot(&self.environment, self.snapshot()?)
    }

    /// Returns the running session at this moment.
    fn snapshot(&self) -> Result<Snapshot, Failure> {
        let snapshot = self.queries.ask(Query::Snapshot).blocking_recv().map_err(|_| session_ended())?;
        snapshot.map_err(store_failure)
    }

    /// Returns the number of the running session's last entry.
    pub(super) fn last_entry(&self) -> Result<Seq, Failure> {
        self.queries.ask(Query::LastEntry).blocking_recv().map_err(|_| session_ended())
    }

    /// Returns one row for each request: how much of its input came from the provider's cache.
    fn cost(&self) -> Result<Sheet, Failure> {
        Ok(sheets::cost(&self.reading()?.entries))
    }

    fn tools(&self) -> Sheet {
        sheets::tools(&self.opening.tools)
    }

    fn skills(&self) -> Sheet {
        sheets::skills(&toolbox::skills(&self.environment, &self.cwd, &self.config, self.trusted))
    }

    /// Returns the subagents in the background, as the session records them.
    fn background_tasks(&self) -> Vec<Value> {
        self.live_list("background_tasks")
    }

    /// Returns the folders of the workspace, also those that joined it while the session runs.
    fn folders(&self) -> Vec<PathBuf> {
        let added = self.live_list(becket_agent::ADDED_FOLDERS).into_iter();
        let added = added.filter_map(|path| Some(serde_json::from_value::<FilePath>(path).ok()?.0));
        let mut all = self.roots.clone();
        for folder in added {
            if !all.contains(&folder) {
                all.push(folder);
            }
        }
        all
    }

    /// Returns a list from the state of the running session.
    fn live_list(&self, key: &'static str) -> Vec<Value> {
        let state = self.queries.state(key).blocking_recv().ok().flatten();
        state.and_then(|value| value.as_array().cloned()).unwrap_or_default()
    }

    fn hooks_page(&self) -> Result<Sheet, Failure> {
        let listed = cmd::hooks::list(&self.environment, &ConfigArgs::default())?;
        Ok(sheets::hooks(&listed, &self.path_display()))
    }

    fn config_page(&self) -> Result<Sheet, Failure> {
        let args = ConfigArgs::default();
        let mut settings =
            crate::settings::configuration(&self.environment, &self.cwd, &args, Vec::new(), true)?;
        // Values that flags or the user chose for this session override those of the files.
        let chosen = [
            ("model", serde_json::json!(self.config.model.name)),
            ("effort", serde_json::json!(self.config.model.effort)),
            ("permission_mode", serde_json::json!(self.config.permissions.mode)),
        ];
        for (key, value) in chosen {
            if !value.is_null() && settings.value(key) != Some(&value) {
                settings.remember(key, value);
            }
        }
        if let Ok(snapshot) = self.snapshot() {
            crate::recorded_settings::RecordedSettings::from_view(&snapshot.view).apply(&mut settings);
        }
        let warnings: Vec<String> = settings.warnings.iter().map(ToString::to_string).collect();
        Ok(sheets::config(&settings.explain(), &warnings, &self.path_display()))
    }

    /// Returns the permissions page. `mode`: the session's current mode.
    fn permissions(&self, mode: &str) -> Sheet {
        let rules = &self.config.permissions.rules;
        let start = self.config.permissions.mode.to_string();
        let mode = if mode.is_empty() { &start } else { mode };
        let mut sheet = Sheet::default();
        sheet.heading("Mode", "Shift-Tab or /mode changes it");
        sheet.field("now", mode);
        sheet.field("at the start", start);
        sheet.heading("Rules", "deny goes before ask, and ask before allow");
        // The configuration was read at the start. Rules that the user has added since belong to it, too.
        let kept = preferences::allowed(&self.environment, &self.root);
        let mut allow: Vec<String> =
            rules.allow.iter().filter(|rule| !kept.iter().any(|(kept, _)| kept == *rule)).cloned().collect();
        for (rule, place) in kept {
            let scope = match place {
                Place::Local => "this project",
                Place::User => "every project",
            };
            allow.push(format!("{rule} (always, in {scope})"));
        }
        for (name, list) in [("deny", &rules.deny), ("ask", &rules.ask), ("allow", &allow)] {
            sheet.field(name, if list.is_empty() { "no rules".to_owned() } else { list.join("\n") });
        }
        sheet
    }
}

/// Returns the page of the todo list.
fn todos(list: &[Value]) -> String {
    let mut text = String::new();
    for item in list {
        let mark = match item["status"].as_str() {
            Some("completed") => "[x]",
            Some("in_progress") => "[>]",
            Some("cancelled") => "[-]",
            _ => "[ ]",
        };
        let _ =
            writeln!(text, "{mark} {}", becket_print::clean(item["content"].as_str().unwrap_or_default()));
    }
    match text.as_str() {
        "" => "There is no todo list yet. The model makes one for work of several steps.".to_owned(),
        text => fenced(text, "text"),
    }
}

fn session_ended() -> Failure {
    Failure::error("the session has ended")
}

fn failure_text(failure: &Failure) -> String {
    match &failure.hint {
        Some(hint) => format!("{}\n{hint}", failure.message),
        None => failure.message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_sandbox::Confine;
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::process::Command;
    use std::sync::Arc;

    fn pages(root: &Path) -> Pages {
        let vars = BTreeMap::from([("TERM".to_owned(), "xterm".to_owned())]);
        let environment = Environment { vars, ..Environment::below(root) };
        let mut config = Config::default();
        config.permissions.rules.deny = vec!["Read(.env)".to_owned()];
        let roots = vec![root.to_owned()];
        let sandbox = crate::sandbox::sandbox(&environment, &config, &roots).map(Arc::new);
        let programs = Programs::new(Confine::IfPossible, sandbox, None);
        Pages {
            environment,
            cwd: root.to_owned(),
            root: root.to_owned(),
            session: "0198".to_owned(),
            config,
            trusted: true,
            roots,
            programs,
            mcp: None,
            opening: Opening::default(),
            hooks: None,
            queries: Queries::channel().0,
        }
    }

    fn page(pages: &Pages, wanted: PageRequest) -> Result<String, String> {
        match pages.page(&wanted, &[]) {
            Reply::Page(result) => {
                result.map(|page| page.sheet.map_or(page.markdown, |sheet| sheet.spoken()))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pages_say_what_is_and_what_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let pages = pages(dir.path());
        let permissions = page(&pages, PageRequest::Permissions { mode: "plan".into() }).unwrap();
        let permissions = permissions.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["now plan at the start default", "deny Read(.env) ask no rules allow no rules"] {
            assert!(permissions.contains(part), "{part}: {permissions}");
        }
        let status = page(&pages, PageRequest::Status { mode: "plan".into() }).unwrap();
        // The width of the columns depends on what confines commands on this machine.
        let status = status.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["session 0198", "permission mode plan", " folder ", " Sandbox ", " reads ", " network "]
        {
            assert!(status.contains(part), "{part}: {status}");
        }
        assert!(page(&pages, PageRequest::Mcp { reconnect: None }).unwrap().contains("No MCP server"));
        let bug = page(&pages, PageRequest::Bug).unwrap();
        assert!(bug.contains("TERM=xterm") && bug.contains("Nothing is sent"), "{bug}");
        let context = PageRequest::Context { used: Tokens(0), window: Tokens(0), usable: Tokens(0) };
        assert!(page(&pages, context).is_err(), "no session was kept");
        assert!(matches!(pages.find("none"), Reply::Found(Err(_))));
        std::fs::write(dir.path().join("there.md"), "").unwrap();
        let Reply::Done(Err(why)) = pages.export(ExportFormat::Md, "there.md") else { panic!("overwritten") };
        assert!(why.contains("already exists"), "{why}");
    }

    #[test]
    fn a_diff_is_of_the_working_tree_and_names_new_files() {
        let dir = tempfile::tempdir().unwrap();
        let git = |args: &[&str]| {
            let status = Command::new("git").args(args).current_dir(dir.path()).output().unwrap();
            assert!(status.status.success(), "{status:?}");
        };
        git(&["init", "-q"]);
        let pages = pages(dir.path());
        assert_eq!(page(&pages, PageRequest::Diff).unwrap(), "Nothing differs from the last commit.");
        std::fs::write(dir.path().join("new.txt"), "x\n").unwrap();
        let text = page(&pages, PageRequest::Diff).unwrap();
        assert_eq!(text, "1 file that git does not track:\n\n```text\nnew.txt\n```");
        git(&["add", "."]);
        let text = page(&pages, PageRequest::Diff).unwrap();
        assert_eq!(text, "**`new.txt`** new file · added 1 line\n\n```diff\n@@ -0,0 +1 @@\n+x\n```");
    }

    #[test]
    fn a_diff_runs_nothing_that_the_repository_names() {
        let dir = tempfile::tempdir().unwrap();
        let repository = dir.path().join("r");
        std::fs::create_dir(&repository).unwrap();
        let git = |args: &[&str]| {
            let done = Command::new("git").args(args).current_dir(&repository).output().unwrap();
            assert!(done.status.success(), "{done:?}");
        };
        git(&["init", "-q"]);
        for name in ["a.txt", ".gitattributes"] {
            std::fs::write(repository.join(name), "a.txt diff=d filter=f\n").unwrap();
        }
        git(&["add", "."]);
        let plain = std::fs::read_to_string(repository.join(".git/config")).unwrap();
        let marker = dir.path().join("ran");
        let program = format!("touch '{}'; cat", marker.display());
        let pages = pages(&repository);
        for (setting, refused) in [
            ("[diff \"d\"]\n\ttextconv", true),
            ("[diff \"d\"]\n\tcommand", true),
            ("[filter \"f\"]\n\tclean", true),
            ("[include]\n\tpath", true),
            ("[core]\n\tfsmonitor", false),
            ("[core]\n\tpager", false),
        ] {
            std::fs::write(repository.join(".git/config"), format!("{plain}\n{setting} = \"{program}\"\n"))
                .unwrap();
            std::fs::write(repository.join("a.txt"), setting).unwrap();
            let shown = page(&pages, PageRequest::Diff);
            assert!(!marker.exists(), "{setting}");
            match shown {
                Err(why) => assert!(refused && why.contains("!git diff"), "{setting}: {why}"),
                Ok(text) => assert!(!refused && text.contains("```diff"), "{setting}: {text}"),
            }
        }
    }
}
