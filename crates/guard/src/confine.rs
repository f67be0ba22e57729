//! Decides the sandbox level of a permitted command, and which commands may run without a question because they are confined.
//!
//! - A command that runs without a question because it only reads, and not because a rule of the user allows it, runs at the
//!   read-only level. So an error in judging the command cannot do harm. If the system cannot enforce that level, such a
//!   command is asked about instead.
//! - In mode `auto`, and in other modes if the user has set it, a command runs without a question at the workspace level.
//!   Exceptions: a rule asks or denies, or the command names a place outside the workspace, a secret, or a file that other
//!   programs obey later.
//! - If the workspace is or contains the user's home folder, `auto` asks as `default` does: the settings of all the user's
//!   programs would be writable at the workspace level.
//! - If deny rules are about files, a command that a rule or the mode allows, and whose text does not show all files that it
//!   opens, runs where those files are hidden from it. If no sandbox can do that, it is asked about.
//! - The user can have every command confined, also those that rules allow.
//!
//! Enforces nothing itself. The caller passes a function that says if a level works on this system.

use crate::findings::Findings;
use crate::path::{inside, is_sink, wide_root};
use crate::rule::CommandPattern;
use crate::wording::raw;
use crate::{Guard, Verdict, command};
use becket_shell_syntax::{Paths, Simple};
use becket_types::{Access, Effect, PermissionMode, SandboxLevel};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Tests if a level works on this system. `Err` says why not. The first call may take some milliseconds.
pub type SandboxWorks = Arc<dyn Fn(SandboxLevel) -> Result<(), String> + Send + Sync>;

/// Rules for the confinement of commands.
#[derive(Clone, Default)]
pub struct SandboxRules {
    /// `None`: there is no sandbox, and commands that only read run unconfined.
    pub works: Option<SandboxWorks>,
    /// The least confinement of every command.
    pub floor: SandboxLevel,
    /// True if commands at the workspace level run without a question also in the modes `default` and `acceptEdits`.
    pub auto_allow: bool,
    /// True if commands are denied, rather than asked about, if their level does not work.
    pub deny_unavailable: bool,
    /// Commands that are never confined, and therefore never run without a rule or a question. Patterns as in `Bash(…)`.
    pub excluded: Vec<String>,
}

impl fmt::Debug for SandboxRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SandboxRules")
            .field("on", &self.works.is_some())
            .field("floor", &self.floor)
            .field("auto_allow", &self.auto_allow)
            .finish_non_exhaustive()
    }
}

impl Guard {
    /// Sets the rules for confinement. Without them no command is confined.
    pub fn with_sandbox(mut self, rules: SandboxRules) -> Self {
        self.sandbox = rules;
        self
    }

    /// The folder of the workspace that is or contains the user's home folder.
    pub(crate) fn wide_root(&self) -> Option<&PathBuf> {
        wide_root(&self.settings.roots, &self.settings.home)
    }

    /// Says in one line what a workspace that contains the home folder means; `None` if it does not contain it.
    pub fn wide_workspace(&self) -> Option<String> {
        let root = self.wide_root()?.display();
        Some(format!(
            "The workspace {root} contains your home folder. Mode auto asks there as mode default does, and acceptEdits asks \
             about your settings; start becket in the folder of a project for more."
        ))
    }

    /// True if the mode lets files of the workspace be changed without a question.
    pub(crate) fn edits_freely(&self) -> bool {
        match self.mode() {
            PermissionMode::AcceptEdits => true,
            PermissionMode::Auto => self.wide_root().is_none(),
            _ => false,
        }
    }

    /// True if a command that the sandbox can keep in the workspace runs without a question.
    pub(crate) fn confines_freely(&self) -> bool {
        let works = self.sandbox.works.as_ref();
        self.mode_confines()
            && self.wide_root().is_none()
            && works.is_some_and(|works| works(SandboxLevel::Workspace).is_ok())
    }

    /// True if the mode lets the sandbox replace questions about commands.
    fn mode_confines(&self) -> bool {
        match self.mode() {
            PermissionMode::Auto => true,
            PermissionMode::Default | PermissionMode::AcceptEdits => self.sandbox.auto_allow,
            _ => false,
        }
    }

    /// Returns the rules for confinement; the default confines no command.
    pub fn sandbox(&self) -> &SandboxRules {
        &self.sandbox
    }

    /// The level at which a permitted call runs. `asked`: a person has allowed this particular call.
    pub fn sandbox_level(&self, access: &Access, asked: bool) -> SandboxLevel {
        let (Effect::Execute, Some(command)) = (access.effect, &access.command) else {
            return SandboxLevel::Off;
        };
        if asked {
            if self.sandbox.works.is_none() || access.unconfined {
                return SandboxLevel::Off;
            }
            if self.is_excluded(command) || self.sandbox.floor.is_confined() {
                return if self.is_excluded(command) { SandboxLevel::Off } else { self.sandbox.floor };
            }
            // The answer was about the command. It does not lift a rule that denies files.
            let dir = access.paths.first().map_or_else(|| self.cwd().to_path_buf(), Clone::clone);
            return self.hiding(&command::judge(self, command, Some(vec![dir])));
        }
        let dir = access.paths.first().map_or_else(|| self.cwd().to_path_buf(), Clone::clone);
        self.level_found(command, &command::judge(self, command, Some(vec![dir])))
    }

    /// The level of a command that runs without a question.
    pub(crate) fn level_found(&self, command: &str, found: &Findings) -> SandboxLevel {
        if self.sandbox.works.is_none() {
            return SandboxLevel::Off;
        }
        if self.runs_by_reading(found) {
            return SandboxLevel::ReadOnly;
        }
        if self.is_excluded(command) {
            return SandboxLevel::Off;
        }
        let by_confinement = self.runs_by_confinement(found);
        let least = if by_confinement { SandboxLevel::Workspace } else { self.hiding(found) };
        least.max(self.sandbox.floor)
    }

    /// The level that hides what deny rules name from a command whose text does not show which files it opens; `Off` if that is not
    /// needed, or cannot be done.
    fn hiding(&self, found: &Findings) -> SandboxLevel {
        let works = self.sandbox.works.as_ref().filter(|_| found.unseen.is_some());
        let hides = works.is_some_and(|works| works(SandboxLevel::DenyRules).is_ok());
        if hides { SandboxLevel::DenyRules } else { SandboxLevel::Off }
    }

    /// The verdict on a command that would run although deny rules for files can neither be checked on its text nor be enforced.
    pub(crate) fn unhidden(&self, access: &Access, command: &str, found: &Findings) -> Option<Verdict> {
        let unseen = found.unseen.as_ref().filter(|unseen| unseen.by_word)?;
        let why = match &self.sandbox.works {
            None => "no sandbox is used that could hide these files".to_owned(),
            Some(_) if self.is_excluded(command) => return None,
            Some(_) if access.unconfined => {
                "it asks to run outside the sandbox, which hides these files".to_owned()
            }
            Some(_) if self.level_found(command, found).is_confined() => return None,
            Some(works) => {
                let why = works(SandboxLevel::DenyRules).err()?;
                format!("no sandbox works here that could hide these files: {why}")
            }
        };
        let (rule, reason) = (&unseen.rule, &unseen.reason);
        let shown = becket_types::cut_end(command.trim(), 200);
        let reason = format!("the deny rule {rule} cannot be checked on `{shown}`: {reason}, and {why}");
        Some(Verdict::Ask { reason, rule: None })
    }

    /// True if a command that does more than read runs without a rule for any of its parts: because its text shows that it stays
    /// in the workspace, or because the workspace level keeps it there.
    fn runs_by_confinement(&self, found: &Findings) -> bool {
        let by_rule = found.is_ruled() || found.coverage.by_rule || found.coverage.reading_git;
        if by_rule && found.asks.is_empty() || self.mode() == PermissionMode::BypassPermissions {
            return false;
        }
        // A command that its text alone allows also runs without a sandbox, so the level only counts if it works here.
        let by_text = found.asks.is_empty() && !found.why.is_empty();
        !by_text || self.sandbox.works.as_ref().is_some_and(|works| works(SandboxLevel::Workspace).is_ok())
    }

    /// True if a command runs only because it was judged to read.
    fn runs_by_reading(&self, found: &Findings) -> bool {
        match self.mode() {
            PermissionMode::BypassPermissions => false,
            PermissionMode::Plan => found.read_only,
            _ => found.read_only && !found.is_ruled(),
        }
    }

    /// True if each simple command of the text matches a pattern of `excluded`. A `cd` to a fixed folder does not count.
    fn is_excluded(&self, command: &str) -> bool {
        if self.sandbox.excluded.is_empty() {
            return false;
        }
        let patterns: Vec<CommandPattern> =
            self.sandbox.excluded.iter().map(|pattern| CommandPattern::parse(pattern)).collect();
        let paths = Paths { home: &self.settings.home, resolve: &*self.resolve };
        let script = becket_shell_syntax::read(command, Some(vec![self.cwd().to_path_buf()]), &paths);
        let is_named = |one: &Simple| {
            // Variables that are set before a command can change which program runs.
            let written = [one.assigns.as_slice(), &[raw(&one.words)]].concat().join(" ");
            patterns.iter().any(|pattern| pattern.matches(&written))
        };
        let is_move = |one: &Simple| {
            one.assigns.is_empty()
                && one.words.len() == 2
                && one.words[0].text == "cd"
                && one.words[1].is_literal()
        };
        // A redirection of an excluded command writes outside the sandbox as well, so its target must be in the workspace.
        let writes_inside = script.redirects.iter().filter(|redirect| redirect.write).all(|redirect| {
            let places = redirect.dirs.iter().flatten().map(|dir| paths.join(dir, &redirect.target.text));
            let places: Vec<PathBuf> = places.collect();
            redirect.target.is_literal()
                && !places.is_empty()
                && places.iter().all(|path| is_sink(path) || inside(path, &self.settings.roots))
        });
        script.doubts.is_empty()
            && !script.unread
            && writes_inside
            && script.commands.iter().any(is_named)
            && script.commands.iter().all(|one| is_named(one) || is_move(one))
    }

    /// Returns a denial if the command must be confined and the required level does not work on this system.
    pub(crate) fn unavailable(&self, found: &Findings, unconfined: bool) -> Option<Verdict> {
        let works = self.sandbox.works.as_ref()?;
        let by_reading = self.runs_by_reading(found) && self.sandbox.deny_unavailable;
        let level = if by_reading { SandboxLevel::ReadOnly } else { self.sandbox.floor };
        if !level.is_confined() || unconfined {
            return None;
        }
        let why = works(level).err()?;
        let reason = format!("commands must run in the sandbox, and none works here: {why}");
        Some(Verdict::deny(reason))
    }

    /// The verdict because of the sandbox on a command that no rule asks about or denies; `None` if the sandbox decides nothing.
    pub(crate) fn by_sandbox(
        &self,
        access: &Access,
        command: &str,
        shown: &str,
        found: &Findings,
    ) -> Option<Verdict> {
        let works = self.sandbox.works.as_ref()?;
        if access.unconfined {
            let reason = format!("`{shown}` asks to run outside the sandbox");
            let asks = !found.is_ruled() || self.sandbox.floor.is_confined();
            return asks.then_some(Verdict::Ask { reason, rule: None });
        }
        if found.asks.is_empty() && !found.why.is_empty() {
            let why = self.runs_by_reading(found).then(|| works(SandboxLevel::ReadOnly).err()).flatten()?;
            let reason = format!("`{shown}` should only read, but no sandbox can enforce that here: {why}");
            return Some(Verdict::Ask { reason, rule: found.kind_rule.clone() });
        }
        let free = self.mode_confines();
        let unchecked = found.uncertain && self.has_command_rules();
        let place = found.asks.iter().any(|ask| ask.place);
        if !free || unchecked || place || self.is_excluded(command) {
            return None;
        }
        let wide = self.wide_root().map(|root| format!("{} contains your home folder", root.display()));
        match wide.map_or_else(|| works(SandboxLevel::Workspace), Err) {
            Ok(()) => Some(Verdict::Allow { why: "the sandbox confines it to the workspace".to_owned() }),
            Err(why) => {
                let reason = format!("`{shown}` cannot be confined to the workspace: {why}");
                let rule = found.asks.first().and_then(|ask| ask.rule.clone());
                Some(Verdict::Ask { reason, rule })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GuardSettings, Rules, Verdict};
    use serde_json::Value;

    fn guard(allow: &[&str], mode: PermissionMode, works: bool) -> Guard {
        let settings = GuardSettings {
            rules: Rules::parse(allow, &[], &[]).unwrap(),
            mode,
            roots: vec![PathBuf::from("/repo")],
            home: PathBuf::from("/home/u"),
            own: Vec::new(),
        };
        let works: SandboxWorks =
            Arc::new(move |_| if works { Ok(()) } else { Err("no backend".to_owned()) });
        Guard::new(settings).with_sandbox(SandboxRules { works: Some(works), ..SandboxRules::default() })
    }

    #[test]
    fn commands_that_only_read_are_confined_unless_a_rule_covers_them_whole() {
        use PermissionMode as M;
        for (command, rules, mode, want) in [
            ("ls -l", &[][..], M::Default, SandboxLevel::ReadOnly),
            ("ls && cat a.txt | head", &[], M::Default, SandboxLevel::ReadOnly),
            ("git status", &[], M::Default, SandboxLevel::ReadOnly),
            ("git status", &["Bash(git *)"], M::Default, SandboxLevel::Off),
            ("cat a.txt", &["Bash(cat *)"], M::Default, SandboxLevel::Off),
            ("cat a.txt && ls", &["Bash(cat *)"], M::Default, SandboxLevel::ReadOnly),
            ("cat a.txt && ls", &["Bash(cat a.txt && ls)"], M::Default, SandboxLevel::Off),
            ("ls", &["Bash"], M::Default, SandboxLevel::Off),
            ("ls", &["Bash(ls)"], M::Plan, SandboxLevel::ReadOnly),
            ("ls && make", &["Bash(make)"], M::Default, SandboxLevel::Off),
            ("ls", &[], M::DontAsk, SandboxLevel::ReadOnly),
            ("ls", &[], M::AcceptEdits, SandboxLevel::ReadOnly),
            ("ls", &[], M::BypassPermissions, SandboxLevel::Off),
        ] {
            let access = Access::execute(command);
            let guard = guard(rules, mode, true);
            assert_eq!(guard.sandbox_level(&access, false), want, "{command} {rules:?} {mode}");
            assert_eq!(guard.sandbox_level(&access, true), SandboxLevel::Off, "{command}, asked");
        }
        assert_eq!(
            guard(&[], M::Default, true).sandbox_level(&Access::read("/repo/a".into()), false),
            SandboxLevel::Off
        );
    }

    #[test]
    fn in_auto_mode_commands_run_confined_to_the_workspace() {
        use PermissionMode as M;
        let level = |guard: &Guard, command: &str| {
            let access = Access::execute(command);
            match guard.check("bash", &access, &Value::Null) {
                Verdict::Allow { .. } => Some(guard.sandbox_level(&access, false)),
                _ => None,
            }
        };
        let (off, workspace, reads) =
            (Some(SandboxLevel::Off), Some(SandboxLevel::Workspace), Some(SandboxLevel::ReadOnly));
        for (command, rules, want) in [
            ("cargo test", &[][..], workspace),
            ("npm install && npm test > log", &[], workspace),
            ("rm -r target; x=$(date); echo \"$x\"", &[], workspace),
            ("x=1", &[], workspace),
            ("python3 -c 'print(1)'", &[], workspace),
            ("cc -I/usr/include a.c", &[], workspace),
            ("curl https://a.example/x", &[], workspace),
            ("mkdir d", &[], workspace),
            ("ls", &[], reads),
            ("cargo test", &["Bash(cargo *)"], off),
            // A slash in an argument of `tr` or `cut` is text, no folder.
            ("tr / _ < a.txt | cut -d / -f 1", &[], reads),
            // The sandbox keeps the system's own folders as they are.
            ("touch /etc/x", &[], workspace),
            // Outside the workspace, the sandbox does not change the questions.
            ("rm -r ../other", &[], None),
            ("rm -rf /", &[], None),
            ("rm -rf --no-preserve-root /", &[], None),
            ("find / -delete", &[], None),
            ("cp a.txt ~/b", &[], None),
            ("make --directory=/home/u/x", &[], None),
            ("cd / && make", &[], None),
            ("cat ~/.ssh/id_rsa", &[], None),
            ("python3 x.py .env", &[], None),
            ("echo x > /tmp/y", &[], None),
            ("echo x > .git/hooks/pre-commit", &[], None),
        ] {
            assert_eq!(level(&guard(rules, M::Auto, true), command), want, "{command} {rules:?}");
        }
        // The question names the place, because that is why the sandbox does not settle the matter.
        for (command, place) in [
            ("rm -rf ~", "`rm -rf ~`: ~ is outside the workspace"),
            ("rm -r ../other", "../other is outside the workspace"),
            ("cd / && make", "it changes to a folder that may be outside the workspace"),
            ("python3 x.py .env", ".env"),
        ] {
            let verdict = guard(&[], M::Auto, true).check("bash", &Access::execute(command), &Value::Null);
            let Verdict::Ask { reason, .. } = verdict else { panic!("{command}: {verdict:?}") };
            assert!(reason.contains(place) && !reason.contains("no rule allows"), "{command}: {reason}");
        }
        for command in ["cargo test", "echo x > a.txt"] {
            assert_eq!(level(&guard(&[], M::Default, true), command), None, "{command}");
            let mut guard = guard(&[], M::Default, true);
            guard.sandbox.auto_allow = true;
            assert_eq!(level(&guard, command), workspace, "{command}, allowed where it is confined");
        }
        // Without a sandbox, `auto` allows no more than `acceptEdits`.
        assert_eq!(level(&guard(&[], M::Auto, false), "cargo test"), None);
        assert_eq!(level(&guard(&[], M::Auto, false), "mkdir d"), off);
        let ruled = |deny: &[&str], ask: &[&str]| {
            let mut guard = guard(&[], M::Auto, true);
            guard.settings.rules = Rules::parse(&[] as &[&str], ask, deny).unwrap();
            guard
        };
        assert_eq!(level(&ruled(&["Bash(git push *)"], &[]), "git push origin"), None);
        assert_eq!(level(&ruled(&["Bash(git push *)"], &[]), "$x push origin"), None);
        assert_eq!(level(&ruled(&[], &["Bash(make *)"]), "make all"), None);
        let mut excluded = guard(&[], M::Auto, true);
        excluded.sandbox.excluded = vec!["docker *".to_owned()];
        assert_eq!(level(&excluded, "docker ps"), None);
        assert_eq!(level(&excluded, "cargo test"), workspace);
        // Only commands that the pattern names leave the sandbox, wherever else in the text it fits.
        excluded.sandbox.floor = SandboxLevel::Workspace;
        for (command, want) in [
            ("docker ps", false),
            ("cd app && docker compose up -d", false),
            ("docker ps > list.txt; docker logs x 2>/dev/null", false),
            ("docker --version; echo b > /out/e2", true),
            ("docker ps && make x", true),
            ("docker ps | sh", true),
            ("docker ps $(make x)", true),
            ("docker ps > /out/e2", true),
            ("docker ps > $x", true),
            ("PATH=. docker ps", true),
            ("docker() { make; }; docker ps", true),
            ("for x in 1; do docker ps; make; done", true),
            ("cd app", true),
            ("docker ps; ((", true),
        ] {
            let got = excluded.sandbox_level(&Access::execute(command), true);
            assert_eq!(got.is_confined(), want, "{command}");
        }
    }

    #[test]
    fn in_the_home_folder_auto_asks_as_default_does() {
        use PermissionMode as M;
        for root in ["/home/u", "/home", "/"] {
            let ask = |mode, access: &Access| {
                let mut guard = guard(&[], mode, true);
                guard.settings.roots = vec![PathBuf::from(root)];
                assert!(guard.wide_workspace().is_some_and(|line| line.contains(root)));
                guard.sandbox.auto_allow = mode == M::Default;
                let dir = PathBuf::from("/home/u");
                let access = match &access.command {
                    Some(_) => Access { paths: vec![dir], ..access.clone() },
                    None => access.clone(),
                };
                let tool = if access.command.is_some() { "bash" } else { "write" };
                matches!(guard.check(tool, &access, &Value::Null), Verdict::Ask { .. })
            };
            for command in ["cargo test", "echo x > notes.txt", "mkdir d", "python3 x.py"] {
                assert!(ask(M::Auto, &Access::execute(command)), "{root}: {command}");
            }
            assert!(ask(M::Default, &Access::execute("make")), "{root}");
            assert!(!ask(M::Auto, &Access::execute("ls -l")), "{root}");
            assert!(ask(M::Auto, &Access::write("/home/u/notes.txt".into())), "{root}");
            assert!(!ask(M::AcceptEdits, &Access::write("/home/u/p/notes.txt".into())), "{root}");
            for path in ["/home/u/.config/nvim/init.lua", "/home/u/bin/ls", "/home/u/.local/bin/ls"] {
                assert!(ask(M::AcceptEdits, &Access::write(path.into())), "{root}: {path}");
            }
            assert!(ask(M::AcceptEdits, &Access::execute("cp a .config/autostart.sh")), "{root}");
        }
        assert_eq!(guard(&[], M::Auto, true).wide_workspace(), None);
    }

    #[test]
    fn a_floor_confines_every_command_and_denies_it_where_nothing_works() {
        use PermissionMode as M;
        for (mode, command, rules) in
            [(M::Default, "make", &["Bash(make)"][..]), (M::BypassPermissions, "rm -r /", &[])]
        {
            for floor in [SandboxLevel::Workspace, SandboxLevel::ReadOnly] {
                let mut guard = guard(rules, mode, true);
                guard.sandbox.floor = floor;
                let access = Access::execute(command);
                assert!(matches!(guard.check("bash", &access, &Value::Null), Verdict::Allow { .. }));
                assert_eq!(guard.sandbox_level(&access, false), floor);
                assert_eq!(guard.sandbox_level(&access, true), floor);
                let mut guard = self::guard(rules, mode, false);
                guard.sandbox.floor = floor;
                let Verdict::Deny { reason, .. } = guard.check("bash", &access, &Value::Null) else {
                    panic!("{command} is not denied")
                };
                assert!(reason.contains("none works here: no backend"), "{reason}");
            }
        }
    }

    #[test]
    fn to_run_outside_the_sandbox_is_asked_for() {
        let access = Access { unconfined: true, ..Access::execute("ls") };
        let guard = guard(&[], PermissionMode::Auto, true);
        let verdict = guard.check("bash", &access, &Value::Null);
        assert!(
            matches!(&verdict, Verdict::Ask { reason, .. } if reason.contains("outside the sandbox")),
            "{verdict:?}"
        );
        assert_eq!(guard.sandbox_level(&access, true), SandboxLevel::Off);
        let ruled = self::guard(&["Bash(ls)"], PermissionMode::Default, true);
        assert!(matches!(ruled.check("bash", &access, &Value::Null), Verdict::Allow { .. }));
    }

    #[test]
    fn without_a_backend_they_are_asked_for_once_per_kind() {
        for (command, rule) in [
            ("ls -l", "Bash(ls *)"),
            ("cat a.txt | head", "Bash(cat *)"),
            ("git status -s", "Bash(git status *)"),
        ] {
            let mut guard = guard(&[], PermissionMode::Default, false);
            let access = Access::execute(command);
            let Verdict::Ask { reason, rule: offered } = guard.check("bash", &access, &Value::Null) else {
                panic!("{command} is not asked for")
            };
            assert!(reason.contains("no backend"), "{reason}");
            assert_eq!(offered.as_deref(), Some(rule), "{command}");
            guard.allow_for_session(rule).unwrap();
            if !command.contains('|') {
                let again = guard.check("bash", &access, &Value::Null);
                assert!(matches!(again, Verdict::Allow { .. }), "{command}: {again:?}");
            }
        }
        // With a rule, the verdict does not depend on confinement; `bypassPermissions` asks nothing.
        for (rules, mode) in
            [(&["Bash(ls *)"][..], PermissionMode::Default), (&[], PermissionMode::BypassPermissions)]
        {
            let verdict = guard(rules, mode, false).check("bash", &Access::execute("ls"), &Value::Null);
            assert!(matches!(verdict, Verdict::Allow { .. }), "{rules:?} {mode}: {verdict:?}");
        }
    }
}
