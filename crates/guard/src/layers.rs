//! The permission rules of a session, by who set them: the settings, the program that drives the session, the session
//! itself, and the turn that runs.
//!
//! Invariants:
//! - A change affects only the rules of the owner who asks for it. The one exception: whoever removes an allow rule removes
//!   it from all layers, because less is allowed afterwards.
//! - A change that fails changes nothing.
//!
//! Judges nothing.

use crate::rule::{Rule, Rules};
use becket_types::{RuleChange, RuleKind, RuleOwner};
use std::collections::BTreeMap;

/// Rules by owner.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layers {
    /// Rules of the program that drives the session.
    pub(crate) program: Rules,
    /// Rules that name those MCP servers of the program whose calls are judged as in the mode `auto` although the session is in
    /// `bypassPermissions`. They have no effect in other modes, so [`Self::rules`] leaves them out.
    pub(crate) auto: Rules,
    /// Rules that a person, a hook or a program has added for this session.
    pub(crate) session: Rules,
    /// Allow rules that count until the turn ends.
    pub(crate) turn: Vec<Rule>,
    /// True if allow rules count only if they are in the settings.
    pub(crate) is_closed: bool,
}

impl Layers {
    /// Returns the rules of one kind that come on top of the settings.
    pub(crate) fn rules(&self, kind: RuleKind) -> impl Iterator<Item = &Rule> {
        let turn: &[Rule] = if kind == RuleKind::Allow { &self.turn } else { &[] };
        let all = self.program.of_kind(kind).iter().chain(self.session.of_kind(kind)).chain(turn);
        all.filter(move |_| kind != RuleKind::Allow || !self.is_closed)
    }

    /// Changes rules of `owner`. `settings`: the rules of the settings. Returns the number of rules that were removed.
    ///
    /// # Errors
    ///
    /// Fails if a rule that asks or denies is to be removed and belongs to another owner.
    pub(crate) fn change(
        &mut self,
        settings: &mut Rules,
        owner: RuleOwner,
        change: RuleChange,
        lists: &BTreeMap<RuleKind, Vec<Rule>>,
    ) -> Result<usize, String> {
        if change == RuleChange::Remove {
            let tightening = lists.iter().filter(|(kind, _)| **kind != RuleKind::Allow);
            for (kind, rule) in tightening.flat_map(|(kind, list)| list.iter().map(move |rule| (*kind, rule)))
            {
                let of_others =
                    settings.of_kind(kind).iter().chain(self.rules(kind)).any(|known| known == rule);
                if of_others && !self.owned_by(owner).of_kind(kind).contains(rule) {
                    return Err(format!(
                        "the rule {rule} is in your settings, which a session cannot loosen"
                    ));
                }
            }
        }
        let mut removed = 0;
        for (kind, list) in lists {
            let own = match owner {
                RuleOwner::Session => &mut self.session,
                RuleOwner::Program => &mut self.program,
                RuleOwner::Auto => &mut self.auto,
            };
            let own = own.list(*kind);
            match change {
                RuleChange::Add => {}
                RuleChange::Replace => own.clear(),
                RuleChange::Remove if *kind == RuleKind::Allow => {
                    let everywhere = [
                        &mut settings.allow,
                        &mut self.program.allow,
                        &mut self.auto.allow,
                        &mut self.session.allow,
                        &mut self.turn,
                    ];
                    removed += everywhere.into_iter().map(|known| remove(known, list)).sum::<usize>();
                    continue;
                }
                RuleChange::Remove => {
                    removed += remove(own, list);
                    continue;
                }
            }
            for rule in list {
                if !own.contains(rule) {
                    own.push(rule.clone());
                }
            }
        }
        Ok(removed)
    }

    /// Returns the rules of one owner.
    pub(crate) fn owned_by(&self, owner: RuleOwner) -> &Rules {
        match owner {
            RuleOwner::Session => &self.session,
            RuleOwner::Program => &self.program,
            RuleOwner::Auto => &self.auto,
        }
    }
}

/// Removes the rules of `gone` from a list. Returns their number.
fn remove(list: &mut Vec<Rule>, gone: &[Rule]) -> usize {
    let before = list.len();
    list.retain(|rule| !gone.contains(rule));
    before - list.len()
}
