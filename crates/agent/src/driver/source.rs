//! Tools that are added and changed while the session runs: checked before each step, and recorded if they changed.
//!
//! Another set of definitions is a boundary: the beginning of requests is then no longer the one that the provider has
//! cached. The ledger records it, and the context engine begins a new generation.

use super::Agent;
use crate::answer::Call;
use becket_session::context::view::KindTotals;
use becket_tool::Registry;
use becket_types::EntryKind;

/// The tools of an agent without those of its source, and the last applied state of the source.
pub(super) struct Sourced {
    own: Registry,
    generation: u64,
}

impl Sourced {
    pub(super) fn new(own: &Registry) -> Self {
        Self { own: own.clone(), generation: 0 }
    }
}

impl Agent {
    /// Updates the tools of the source, if they changed since the last step.
    pub(super) fn take_in_tools(&mut self) {
        let (Some(source), Some(sourced)) = (&self.settings.tool_source, &mut self.sourced) else { return };
        let generation = source.generation();
        if std::mem::replace(&mut sourced.generation, generation) == generation {
            return;
        }
        let mut tools = sourced.own.clone();
        for offer in source.tools() {
            // A tool with an invalid name, or with the name of one of becket's tools, is left out, so that it cannot
            // replace one.
            let _ = if offer.offered { tools.add(offer.tool) } else { tools.add_quiet(offer.tool) };
        }
        let removed = self.guard.removed_tools(&tools.all_names());
        tools.retain(|name| !removed.iter().any(|r| r == name));
        let specs = tools.specs();
        self.tools = tools;
        if *self.specs == *specs {
            return;
        }
        self.specs = specs.into();
        self.budget.floor = None;
        self.budget.kinds = KindTotals::default();
        if self.begun {
            self.record_tools();
        }
    }

    /// Records the definitions of the requests in the ledger.
    pub(super) fn record_tools(&mut self) {
        let (specs, hash) = self.tools.definitions();
        let specs = super::lock(&self.core.session).put_blob(&specs).ok();
        self.core.push(EntryKind::Tools { names: self.tools.names(), hash, specs });
    }

    /// Returns the call to which an indirect call refers. It is judged, recorded and run under its own name.
    pub(super) fn meant(&self, mut call: Call) -> Call {
        let stands_for = self.tools.get(&call.name).and_then(|tool| tool.stands_for(&call.input));
        if let Some((name, input)) = stands_for.filter(|_| call.invalid.is_none()) {
            (call.name, call.input) = (name, input);
        }
        call
    }
}
