//! At which level of the sandbox a permitted command runs.
//!
//! A command that runs without a question because it only reads, and not because a rule of the user allows it, runs at the
//! read-only level. So an error in judging what it does cannot do harm. Where nothing enforces that level, such a command
//! is asked about instead.
//!
//! Applies nothing: whether a level works here is told by a function that is handed in.

use crate::command::Findings;
use crate::{Guard, command};
use becket_types::{Access, Effect, PermissionMode, SandboxLevel};
use std::fmt;
use std::sync::Arc;

/// Says why a level does not work here; the first question may take some milliseconds.
pub type SandboxWorks = Arc<dyn Fn(SandboxLevel) -> Result<(), String> + Send + Sync>;

/// How far commands are confined.
#[derive(Clone, Default)]
pub struct SandboxRules {
    /// `None`: commands that only read run unconfined, as if there were no sandbox.
    pub works: Option<SandboxWorks>,
}

impl fmt::Debug for SandboxRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SandboxRules").field("on", &self.works.is_some()).finish()
    }
}

impl Guard {
    /// With a sandbox that commands can be confined in. Without one nothing is.
    pub fn with_sandbox(mut self, rules: SandboxRules) -> Self {
        self.sandbox = rules;
        self
    }

    /// The level at which a permitted call runs. `asked`: a person allowed this very call.
    pub fn sandbox_level(&self, access: &Access, asked: bool) -> SandboxLevel {
        let (Effect::Execute, Some(command)) = (access.effect, &access.command) else {
            return SandboxLevel::Off;
        };
        if asked || self.sandbox.works.is_none() {
            return SandboxLevel::Off;
        }
        let dir = access.paths.first().map_or_else(|| self.cwd().to_path_buf(), Clone::clone);
        self.level_of(&command::judge(self, command, Some(vec![dir])))
    }

    fn level_of(&self, found: &Findings) -> SandboxLevel {
        let by_reading = match self.mode() {
            PermissionMode::BypassPermissions => false,
            PermissionMode::Plan => found.read_only,
            _ => found.read_only && !found.is_ruled(),
        };
        if by_reading { SandboxLevel::ReadOnly } else { SandboxLevel::Off }
    }

    /// Why a command that would run without a question must be asked about: nothing confines it here.
    pub(crate) fn cannot_confine(&self, found: &Findings) -> Option<String> {
        let works = self.sandbox.works.as_ref()?;
        let level = self.level_of(found);
        if !level.is_confined() {
            return None;
        }
        works(level).err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GuardSettings, Rules, Verdict};
    use serde_json::Value;
    use std::path::PathBuf;

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
        Guard::new(settings).with_sandbox(SandboxRules { works: Some(works) })
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
        // With a rule for it, nothing rests on confinement; in `bypassPermissions` nothing is asked.
        for (rules, mode) in
            [(&["Bash(ls *)"][..], PermissionMode::Default), (&[], PermissionMode::BypassPermissions)]
        {
            let verdict = guard(rules, mode, false).check("bash", &Access::execute("ls"), &Value::Null);
            assert!(matches!(verdict, Verdict::Allow { .. }), "{rules:?} {mode}: {verdict:?}");
        }
    }
}
