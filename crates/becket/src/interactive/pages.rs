//! Pages of the interactive session: what the subcommands print, as Markdown.
//!
//! Owns which command makes which page. The text is the subcommands' own; only what none of them prints is written here.

use crate::args::{ContextArgs, DoctorArgs, ExportArgs, ExportFormat, SessionsArgs};
use crate::cmd::context::Reading;
use crate::cmd::{self, one_line, pick_session, short, when};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::toolbox;
use becket_config::Config;
use becket_session::store::SessionSummary;
use becket_tui::input::{Page, Reply};
use becket_types::EntryKind;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

/// What pages are made from.
pub(super) struct Pages {
    pub environment: Environment,
    pub cwd: PathBuf,
    /// Id of the session.
    pub session: String,
    pub config: Config,
}

impl Pages {
    /// The answer to a command. Blocks.
    pub(super) fn answer(&self, name: &str, arguments: &str) -> Reply {
        if name == "export" {
            return Reply::Done(self.export(arguments).map_err(|f| said(&f)));
        }
        if name == "resume" {
            return Reply::Found(self.find(arguments).map_err(|f| said(&f)));
        }
        let markdown = match name {
            "context" => self.context(),
            "sessions" => self.sessions(arguments),
            "doctor" => self.doctor(),
            "cost" => self.cost(),
            "tools" => self.tools(),
            "skills" => Ok(self.skills()),
            "permissions" => Ok(self.permissions()),
            "diff" => self.diff(),
            _ => Err(Failure::usage(format!("/{name} is not known here"))),
        };
        let page = |markdown| Page {
            title: format!("{name} {arguments}").trim_end().to_owned(),
            markdown,
            ..Page::default()
        };
        Reply::Page { name: name.to_owned(), result: markdown.map(page).map_err(|f| said(&f)) }
    }

    fn context(&self) -> Result<String, Failure> {
        let args = ContextArgs {
            session: Some(self.session.clone()),
            exact: false,
            json: false,
            context_window: self.config.context.window,
            cd: None,
        };
        printed(|out| cmd::context::run(&self.environment, &self.cwd, &args, out))
    }

    fn sessions(&self, query: &str) -> Result<String, Failure> {
        let query = Some(query.to_owned()).filter(|q| !q.is_empty());
        let args = SessionsArgs { query, all: false, json: false, limit: 100, cd: None };
        printed(|out| cmd::sessions::run(&self.environment, &self.cwd, &args, out))
    }

    /// The id of another session.
    fn find(&self, query: &str) -> Result<String, Failure> {
        let found = pick_session(&self.environment, &self.cwd, Some(query))?;
        if found.id.to_string() == self.session {
            return Err(Failure::usage("you are in that session already"));
        }
        Ok(found.id.to_string())
    }

    /// Ids of the other sessions of this directory and what they are about, newest first.
    pub(super) fn session_list(&self) -> Vec<(String, String)> {
        let (environment, cwd) = (&self.environment, Some(self.cwd.as_path()));
        let (sessions, _) =
            becket_session::index::list(&environment.index_path(), &environment.sessions_dir(), cwd);
        let row = |s: &SessionSummary| {
            (s.id.to_string(), format!("{}  {}", when(s.updated), one_line(s.label(), 60)))
        };
        sessions.iter().map(row).filter(|(id, _)| *id != self.session).collect()
    }

    fn doctor(&self) -> Result<String, Failure> {
        let args = DoctorArgs { what: None, json: false, cd: None };
        printed(|out| cmd::doctor::run(&self.environment, &self.cwd, &args, out).map(drop))
    }

    /// `[md|jsonl] FILE`; a file that is there is left alone.
    fn export(&self, arguments: &str) -> Result<String, Failure> {
        let (format, file) = match arguments.split_once(char::is_whitespace) {
            Some(("md", file)) => (ExportFormat::Md, file),
            Some(("jsonl", file)) => (ExportFormat::Jsonl, file),
            _ if arguments.strip_suffix(".jsonl").is_some() => (ExportFormat::Jsonl, arguments),
            _ => (ExportFormat::Md, arguments),
        };
        let path = self.cwd.join(file.trim());
        if path.symlink_metadata().is_ok() {
            return Err(Failure::usage(format!("{} is there already; name another file", path.display())));
        }
        let args =
            ExportArgs { session: Some(self.session.clone()), format, output: Some(path.clone()), cd: None };
        cmd::export::run(&self.environment, &self.cwd, &args, &mut std::io::sink())?;
        Ok(format!("this session is in {}", path.display()))
    }

    fn reading(&self) -> Result<Reading, Failure> {
        Reading::of(pick_session(&self.environment, &self.cwd, Some(&self.session))?)
    }

    /// One row for each request: how much of what was read came from the provider's cache.
    fn cost(&self) -> Result<String, Failure> {
        let reading = self.reading()?;
        let mut text = String::from("   seq  for           read   cached  uncached   wrote       $  model\n");
        let (mut sum, mut requests, mut read, mut cached, mut wrote) = (0.0, 0, 0, 0, 0);
        for entry in &reading.entries {
            let EntryKind::Usage { model, usage, cost_usd, purpose, .. } = &entry.kind else { continue };
            let context = usage.context().0;
            (sum, requests, read) = (sum + cost_usd, requests + 1, read + context);
            (cached, wrote) = (cached + usage.cache_read, wrote + usage.output);
            let _ = writeln!(
                text,
                "{:>6}  {purpose:<10} {:>7}  {:>7}  {:>8}  {:>6}  {cost_usd:>6.4}  {model}",
                entry.seq,
                short(context),
                short(usage.cache_read),
                short(context - usage.cache_read),
                short(usage.output),
            );
        }
        let share = if read == 0 { 0.0 } else { 100.0 * cached as f64 / read as f64 };
        let _ = writeln!(
            text,
            "\n{requests} requests read {} ({share:.0} % from the cache) and wrote {}: ${sum:.4} at list prices",
            short(read),
            short(wrote),
        );
        Ok(fenced(&text, "text"))
    }

    fn tools(&self) -> Result<String, Failure> {
        let mut text = String::new();
        for tool in self.reading()?.tools() {
            let first = tool.description.split_once(". ").map_or(tool.description.as_str(), |(s, _)| s);
            let _ = writeln!(text, "{:<14} {}", tool.name, one_line(first, 100));
        }
        Ok(fenced(&text, "text"))
    }

    fn skills(&self) -> String {
        let skills = toolbox::skills(&self.environment, &self.cwd, &self.config);
        let mut text = String::new();
        for skill in skills.iter() {
            let _ = writeln!(text, "{:<20} {}", skill.name, one_line(&skill.description, 100));
        }
        for warning in skills.warnings() {
            let _ = writeln!(text, "! {}", one_line(warning, 200));
        }
        fenced(&text, "text")
    }

    fn permissions(&self) -> String {
        let rules = &self.config.permissions;
        let mut text = format!("mode at the start: {} (/mode changes it)\n", self.config.permission_mode);
        for (name, list) in [("deny", &rules.deny), ("ask", &rules.ask), ("allow", &rules.allow)] {
            let _ = writeln!(text, "\n{name}: {}", if list.is_empty() { "no rules" } else { "" });
            for rule in list {
                let _ = writeln!(text, "  {rule}");
            }
        }
        text.push_str(
            "\ndeny goes before ask, ask before allow. `becket config` says which file a rule is from.\n",
        );
        fenced(&text, "text")
    }

    /// The working tree against the last commit, and what git does not know yet.
    fn diff(&self) -> Result<String, Failure> {
        let git = |args: &[&str]| {
            let mut command = Command::new("git");
            command.arg("--no-optional-locks").args(args).current_dir(&self.cwd);
            let output = command.output().map_err(|e| Failure::error(format!("cannot run git: {e}")))?;
            if !output.status.success() {
                let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Err(Failure::error(format!("git {}: {why}", args[0])));
            }
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        // Before the first commit there is nothing to compare with but the index.
        let against = if git(&["rev-parse", "--verify", "-q", "HEAD"]).is_ok() { "HEAD" } else { "--cached" };
        let diff = git(&["diff", "--no-color", "--no-ext-diff", against])?;
        let untracked = git(&["ls-files", "--others", "--exclude-standard"])?;
        let mut text = String::new();
        if !diff.is_empty() {
            text.push_str(&fenced(&diff, "diff"));
        }
        if !untracked.is_empty() {
            let _ = write!(text, "\n\nnew, and not known to git:\n\n{}", fenced(&untracked, "text"));
        }
        Ok(if text.is_empty() { "Nothing differs from the last commit.".to_owned() } else { text })
    }
}

fn said(failure: &Failure) -> String {
    match &failure.hint {
        Some(hint) => format!("{}\n{hint}", failure.message),
        None => failure.message.clone(),
    }
}

/// What a subcommand prints, as a block of Markdown.
fn printed(run: impl FnOnce(&mut dyn std::io::Write) -> Result<(), Failure>) -> Result<String, Failure> {
    let mut out = Vec::new();
    run(&mut out)?;
    Ok(fenced(&String::from_utf8_lossy(&out), "text"))
}

/// A fence that nothing in `text` closes.
fn fenced(text: &str, language: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", text.trim_end_matches('\n'))
}
