//! What fills the window, whether a compaction pays, and what a person is told when nothing helps.

use super::super::budget::{Budget, Estimator, estimate_json, estimate_text, part_of};
use becket_types::{Millis, SystemItem, SystemKind, Tokens, ToolSpec};
use std::fmt;

/// A compaction is accepted only up to this share of the usable window …
pub(super) const ACCEPT_SHARE: f64 = 0.60;
/// … and only if it frees at least this share of what was used.
const FREED_SHARE: f64 = 0.25;
/// The last level accepts this share of the usable window for what the model has not answered yet.
pub(super) const LAST_SHARE: f64 = 0.92;
/// A floor above this share of the usable window cannot be helped.
const FLOOR_SHARE: f64 = 0.70;
/// From this share on the floor is tight: the rules then apply to what is above the floor, else a small window with a long
/// system prompt could never be compacted at all.
const TIGHT_SHARE: f64 = 0.45;

/// Below this share of the usable window nobody calls it full.
const FULL_SHARE: f64 = 0.70;

/// Tokens that the wire adds to each tool.
const TOOL_FRAME: Tokens = Tokens(8);

/// What no compaction can free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Floor {
    /// System prompt and environment, without rules and skills.
    pub system: Tokens,
    pub rules: Tokens,
    /// The list of skills.
    pub skills: Tokens,
    pub tools: Tokens,
}

impl Floor {
    /// Base tokens of what a request starts with.
    pub fn of(system: &[SystemItem], tools: &[ToolSpec]) -> Self {
        let mut floor = Self::default();
        for item in system {
            let tokens = estimate_text(&item.text);
            match item.kind {
                SystemKind::Rules => floor.rules += tokens,
                SystemKind::Skills => floor.skills += tokens,
                SystemKind::Prompt | SystemKind::Environment | SystemKind::Appended => floor.system += tokens,
            }
        }
        let cost = |t: &ToolSpec| {
            estimate_text(&t.name)
                + estimate_text(&t.description)
                + estimate_json(&t.input_schema)
                + TOOL_FRAME
        };
        floor.tools = tools.iter().map(cost).sum();
        floor
    }

    pub fn total(&self) -> Tokens {
        self.system + self.rules + self.skills + self.tools
    }

    /// Whether a conversation fits behind it, as this model counts: no compaction could make room otherwise.
    pub fn leaves_room(&self, budget: &Budget, estimator: &Estimator) -> bool {
        estimator.scale(self.total()).0 <= part_of(budget.usable(), FLOOR_SHARE)
    }
}

/// What fills the window, by category, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    pub window: Tokens,
    pub usable: Tokens,
    pub system: Tokens,
    pub rules: Tokens,
    pub skills: Tokens,
    pub tools: Tokens,
    pub summary: Tokens,
    pub state: Tokens,
    /// Content of files that the model was shown.
    pub files: Tokens,
    /// Pins and the user's last message, where they stand before the tail.
    pub kept: Tokens,
    /// What stays verbatim; before a compaction, the whole conversation.
    pub tail: Tokens,
    pub continuation: Tokens,
}

impl Breakdown {
    pub fn floor(&self) -> Tokens {
        self.system + self.rules + self.skills + self.tools
    }

    pub fn total(&self) -> Tokens {
        self.floor() + self.summary + self.state + self.files + self.kept + self.tail + self.continuation
    }

    /// All of them, under the names people know them by.
    pub fn categories(&self) -> [(&'static str, Tokens); 10] {
        [
            ("system prompt", self.system),
            ("rules files", self.rules),
            ("skills", self.skills),
            ("tools", self.tools),
            ("summary", self.summary),
            ("session state", self.state),
            ("attached files", self.files),
            ("kept messages", self.kept),
            ("conversation", self.tail),
            ("continuation", self.continuation),
        ]
    }
}

impl fmt::Display for Breakdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} usable tokens (window {})", self.total(), self.usable, self.window)?;
        let mut sign = ": ";
        for (name, tokens) in self.categories().into_iter().filter(|(_, t)| t.0 > 0) {
            write!(f, "{sign}{name} {tokens}")?;
            sign = ", ";
        }
        Ok(())
    }
}

/// The largest new view that is accepted: at most 0.60 of the usable window, and at least a quarter freed.
/// `None` when the floor alone takes more than 0.70 of it.
pub(super) fn target(before: Tokens, floor: Tokens, usable: u64) -> Option<Tokens> {
    if floor.0 > part_of(usable, FLOOR_SHARE) {
        return None;
    }
    let tight = floor.0 > part_of(usable, TIGHT_SHARE);
    Some(if tight {
        let free = usable - floor.0;
        let talk = before.0.saturating_sub(floor.0);
        Tokens(floor.0 + (free / 2).min(part_of(talk, 1.0 - FREED_SHARE)))
    } else {
        Tokens(part_of(usable, ACCEPT_SHARE).min(part_of(before.0, 1.0 - FREED_SHARE)))
    })
}

/// Why a session stops instead of compacting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Auto-compaction is off: the user decides.
    AutoOff,
    /// System prompt, rules and tools leave no room, whatever is compacted.
    FloorTooBig,
    /// Nothing that may be dropped would free enough.
    NotEnough,
    /// Two compactions since the last step that succeeded.
    TooMany,
    /// The context has hardly grown since the last compaction, and is full again.
    NotGrown,
    /// Two compactions in a row left no room for anything that is new to the model.
    NothingShown,
    /// Three compactions in a row failed; the next automatic one is tried at this time.
    Breaker { until: Millis },
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AutoOff => "automatic compaction is off",
            Self::FloorTooBig => {
                "the system prompt, rules and tools leave too little room for a conversation"
            }
            Self::NotEnough => "compacting would not free enough",
            Self::TooMany => "two compactions in a row did not lead to a successful step",
            Self::NotGrown => "the last compaction already freed what it could",
            Self::NothingShown => {
                "two compactions in a row left no room to show the model any result of its calls"
            }
            Self::Breaker { .. } => {
                "three compactions in a row failed; automatic compaction rests for an hour"
            }
        })
    }
}

/// The end of a turn that cannot go on in this window: why, what fills it, what can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    pub reason: StopReason,
    pub breakdown: Breakdown,
}

impl Stop {
    /// Choices of a person, without those that cannot help.
    pub fn choices(&self) -> &'static str {
        match self.reason {
            StopReason::FloorTooBig => {
                "switch to a model with a larger window (/model), or begin a session with shorter rules files or fewer tools"
            }
            // A compaction was tried, or would free nothing: what fills the window is the last message or its results.
            StopReason::NotEnough | StopReason::NothingShown => {
                "go back and send less, such as the name of a file in place of its text (/rewind), or switch to a model with a \
                 larger window (/model)"
            }
            StopReason::AutoOff | StopReason::TooMany | StopReason::NotGrown | StopReason::Breaker { .. } => {
                "compact by hand (/compact), switch to a model with a larger window (/model), or go back to an earlier message \
                 (/rewind)"
            }
        }
    }
}

impl Stop {
    /// A compaction that somebody asked for while there was room: no more than why there is none.
    fn with_room(&self) -> Option<String> {
        let full = part_of(self.breakdown.usable.0, FULL_SHARE);
        (self.breakdown.total().0 < full)
            .then(|| format!("There is room, and {}. The context holds {}.", self.reason, self.breakdown))
    }

    /// The same for who sees no prompt to type a command at.
    pub fn headless(&self) -> String {
        if let Some(text) = self.with_room() {
            return text;
        }
        let compact = match self.reason {
            StopReason::AutoOff => "switch automatic compaction on (`context.auto = true`), ",
            _ => "",
        };
        format!(
            "The context is full, and {}. It holds {}. You can {compact}resume with a model that has a larger window \
             (`--model`), or begin a new session.",
            self.reason, self.breakdown
        )
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = self.with_room() {
            return f.write_str(&text);
        }
        write!(
            f,
            "The context is full, and {}. It holds {}. You can {}.",
            self.reason,
            self.breakdown,
            self.choices()
        )
    }
}
