//! Permissions that the user gave: answers of this session and rules in their settings. `/permissions` shows and
//! withdraws them. Also asks before the mode that skips questions is used for the first time, and announces each change of the mode.
//!
//! Owns the choices of the page. The agent and the host own the rules.

use super::pages;
use crate::input::{Effect, Page, Place, Request};
use crate::keymap;
use crate::modes;
use crate::overlay::{Choice, Overlay};
use crate::page::{Field, Item, Value};
use crate::paths::ShortPaths;
use crate::status::Status;
use crate::transcript::Transcript;
use becket_types::{Command, Decision, Event, PermissionMode};

const BYPASS: &str = "In `bypassPermissions`, becket asks about nothing: every command runs and every file can be \
    written, also outside of the project. Your deny rules still apply.";

/// Marks the call that an answer allows in the transcript. Returns the effects of the answer.
pub(super) fn marked(effects: Vec<Effect>, transcript: &mut Transcript) -> Vec<Effect> {
    let always = effects.iter().any(|effect| matches!(effect, Effect::Ask(Request::Allow { .. })));
    let rules = effects.iter().any(|effect| matches!(effect, Effect::Send(Command::ChangeRules { .. })));
    for effect in &effects {
        let Effect::Send(Command::Decide { call_id, decision }) = effect else { continue };
        let how = match decision {
            _ if always => "allowed from now on",
            Decision::AllowSession => "allowed for this session",
            Decision::AllowOnce if rules => "allowed for this session",
            Decision::AllowOnce => "allowed once",
            _ => continue,
        };
        transcript.allowed(call_id, how);
    }
    effects
}

/// Returns the page with its answers, if there are any.
fn answered((page, choices): (Page, Vec<Choice>)) -> Overlay {
    if choices.is_empty() {
        Overlay::new(page)
    } else {
        Overlay::choosing(page, choices).answered_at_once().with_close()
    }
}

/// Rules that hold until the session ends, the mode, and the user's consent to the mode that skips questions.
#[derive(Default)]
pub(super) struct Permissions {
    /// Rules that the user allowed for the rest of the session.
    grants: Vec<String>,
    /// The permission mode that the agent confirmed last.
    mode: String,
    /// The user agreed to the mode that skips permission questions.
    bypass_agreed: bool,
}

impl Permissions {
    /// Applies an event of the agent. Returns the words for a permission mode that holds from now on.
    pub(super) fn event(&mut self, event: &Event) -> Option<String> {
        match event {
            Event::Grants { rules } => self.grants.clone_from(rules),
            Event::SessionStarted { permission_mode, .. } => self.mode.clone_from(permission_mode),
            // The agent also sends the mode when it refuses to change it.
            Event::ModeChanged { mode } if *mode != self.mode => {
                self.mode.clone_from(mode);
                return Some(modes::announced(mode));
            }
            _ => {}
        }
        None
    }

    /// Returns the page of `/permissions`, with an answer for each rule that can be withdrawn. Paths have their short forms, and the
    /// key `open_key` shows the rules as they are. Other pages stay as they are.
    pub(super) fn page(&self, mut page: Page, paths: &ShortPaths, open_key: Option<&str>) -> Overlay {
        let Some(kept) = page.kept.take() else { return Overlay::new(page) };
        let exact = self.rules(page.clone(), &kept, &str::to_owned);
        // Without a key that shows the exact form, that form is the only one.
        let Some(key) = open_key.map(keymap::pretty) else { return answered(exact) };
        let short = self.rules(page, &kept, &|rule| paths.rule(rule));
        if short == exact {
            return answered(exact);
        }
        let (hint, back) = (format!("{key} shows the exact rules"), format!("{key} shows short paths"));
        answered(short).with_other(answered(exact), hint, back)
    }

    /// Returns the page of `/permissions` and its answers, with each rule as `shown`.
    fn rules(
        &self,
        mut page: Page,
        kept: &[(String, Place)],
        shown: &dyn Fn(&str) -> String,
    ) -> (Page, Vec<Choice>) {
        let mut choices = Vec::new();
        let names: Vec<&str> = kept.iter().map(|(rule, _)| rule.as_str()).collect();
        // A rule that is kept was also granted to this session. It is one answer of the user, so it is listed once.
        let of_session: Vec<&String> =
            self.grants.iter().filter(|rule| !names.contains(&rule.as_str())).collect();
        let session: Vec<String> = of_session.iter().map(|rule| shown(rule)).collect();
        let session = if session.is_empty() { "nothing is allowed".to_owned() } else { session.join("\n") };
        for rule in of_session {
            let shown = shown(rule);
            let effect = Effect::Send(Command::revoke(rule));
            let label = format!("Withdraw {shown} (this session)");
            choices.push(Choice::new(&label, &format!("withdraw {shown}"), effect));
        }
        for (name, place) in kept {
            let scope = match place {
                Place::Local => "this project",
                Place::User => "every project",
            };
            let shown = shown(name);
            let effect = Effect::Ask(Request::Disallow { rule: name.clone(), place: *place });
            let label = format!("Withdraw {shown} (always, in {scope})");
            choices.push(Choice::new(&label, &format!("withdraw {shown}"), effect));
        }
        if let Some(sheet) = &mut page.sheet {
            for item in &mut sheet.items {
                if let Item::Field(Field { value: Value::Text(rules), .. }) = item {
                    // One rule a line.
                    *rules = rules.lines().map(shown).collect::<Vec<_>>().join("\n");
                }
            }
            sheet.field("this session", session);
            sheet.note("/config names the file of each rule.");
        }
        (page, choices)
    }

    /// Returns the page that asks before the mode that skips questions is used for the first time. `current`: the mode of
    /// the session.
    pub(super) fn confirmation(&self, mode: PermissionMode, current: &str) -> Option<Overlay> {
        let bypass = mode == PermissionMode::BypassPermissions;
        let mode = mode.to_string();
        if !bypass || self.bypass_agreed || current == mode {
            return None;
        }
        let title = mode.clone();
        let yes = Choice::new("Yes, ask about nothing", "yes", Effect::Send(Command::SetMode { mode }));
        Some(pages::question(&title, BYPASS.to_owned(), vec![yes]))
    }

    /// Adds the effects that follow from an answer on a page of this module. Returns true if the page closes.
    pub(super) fn answered(&mut self, effects: &mut Vec<Effect>, status: &mut Status) -> bool {
        let mut more = Vec::new();
        for effect in &*effects {
            match effect {
                Effect::Send(Command::SetMode { mode }) => {
                    self.bypass_agreed = true;
                    more.extend(status.set_mode(mode));
                }
                // The running session got the rule from the same settings or the same answer, so it must revoke the
                // rule too.
                Effect::Ask(Request::Disallow { rule, .. }) => {
                    more.push(Effect::Send(Command::revoke(rule)));
                }
                Effect::Send(Command::ChangeRules { .. }) => {}
                _ => return false,
            }
        }
        let closes = !effects.is_empty();
        effects.extend(more);
        closes
    }
}
