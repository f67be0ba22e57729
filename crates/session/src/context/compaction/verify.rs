//! The size of the context by category, the acceptance test for a compaction, and the messages if no
//! compaction helps.

use super::super::budget::{Budget, Estimator, estimate_json, estimate_text, part_of};
use becket_types::{Millis, SystemItem, SystemKind, Tokens, ToolSpec};
use std::fmt;

/// Maximum share of the usable window that the view after an accepted compaction may fill.
pub(super) const ACCEPT_SHARE: f64 = 0.60;
/// Minimum share of the used tokens that an accepted compaction must free.
const FREED_SHARE: f64 = 0.25;
/// From level 3 on, the view may grow to this share of the compaction threshold and of its previous size, to show messages that the model
/// has not answered yet.
pub(super) const LAST_SHARE: f64 = 0.92;
/// If the floor exceeds this share of the usable window, no compaction can help.
const FLOOR_SHARE: f64 = 0.70;
/// From this share on, the floor counts as tight. The acceptance rules then apply only to the part above the
/// floor. Otherwise a small window with a long system prompt could never be compacted.
const TIGHT_SHARE: f64 = 0.45;

/// Below this share of the usable window, a manual compaction that frees too little is no sign of a full context.
const FULL_SHARE: f64 = 0.70;

/// Tokens that the provider's format adds to each tool.
const TOOL_FRAME: Tokens = Tokens(8);

/// The part of a request that no compaction can free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Floor {
    /// System prompt and environment, without rules and skills.
    pub system: Tokens,
    pub rules: Tokens,
    /// List of skills.
    pub skills: Tokens,
    pub tools: Tokens,
}

impl Floor {
    /// Returns the base tokens of system prompt, rules, skills and tools.
    pub fn measure(system: &[SystemItem], tools: &[ToolSpec]) -> Self {
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

    /// Returns the sum of all parts, in base tokens.
    pub fn total(&self) -> Tokens {
        self.system + self.rules + self.skills + self.tools
    }

    /// True if the system prompt, rules and tools take at most 70 % of this model's usable window. Otherwise no compaction could make room
    /// for a conversation.
    pub fn leaves_room(&self, budget: &Budget, estimator: &Estimator) -> bool {
        estimator.scale(self.total()).0 <= part_of(budget.usable(), FLOOR_SHARE)
    }
}

/// Size of the context by category, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// The model's context window: input and output together.
    pub window: Tokens,
    /// Tokens that a request may fill: the window without the reserve for the answer.
    pub usable: Tokens,
    /// System prompt and environment, without rules and skills.
    pub system: Tokens,
    /// Rules files, in the system prompt and below the working directory.
    pub rules: Tokens,
    /// List of skills.
    pub skills: Tokens,
    /// Specifications of the tools.
    pub tools: Tokens,
    pub summary: Tokens,
    /// Session state: todos, mode, changed files.
    pub state: Tokens,
    /// Contents of files that a compaction attached for the model.
    pub files: Tokens,
    /// Pinned messages and the user's last message, if they are before the tail.
    pub kept: Tokens,
    /// Messages after the cut, which stay word for word; before a compaction, the whole conversation.
    pub tail: Tokens,
    /// The message after a compaction that tells the model to continue.
    pub continuation: Tokens,
}

impl Breakdown {
    /// Returns the sum of the parts that every request contains: system prompt, rules, skills and tools.
    pub fn floor(&self) -> Tokens {
        self.system + self.rules + self.skills + self.tools
    }

    /// Returns the size of the whole request.
    pub fn total(&self) -> Tokens {
        self.floor() + self.summary + self.state + self.files + self.kept + self.tail + self.continuation
    }

    /// Returns all categories with the names that user interfaces show.
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

/// Returns the largest size of the new view that is accepted: at most 0.60 of the usable window, and at least a quarter freed. If the floor
/// is tight ([`TIGHT_SHARE`]): at most half of the space above it, and a quarter of the conversation freed. `None` if the floor alone takes
/// more than 0.70 of the usable window.
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

/// The reason why a turn stops instead of compacting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Automatic compaction is off, so the user decides.
    AutoOff,
    /// System prompt, rules and tools leave no room, regardless of any compaction.
    FloorTooBig,
    /// Removing everything that may be removed would not free enough.
    NotEnough,
    /// There were already two compactions since the last successful step.
    TooMany,
    /// The context has hardly grown since the last compaction and is full again.
    NotGrown,
    /// After two compactions in a row there was still no room for messages that are new to the model.
    NothingShown,
    /// Three compactions in a row failed. The next automatic one is tried at this time.
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
                "three compactions in a row failed; automatic compaction is paused for an hour"
            }
        })
    }
}

/// The end of a turn that cannot continue in this window: the reason, the sizes, and the user's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    pub reason: StopReason,
    pub breakdown: Breakdown,
}

impl Stop {
    /// Returns the user's options, without those that cannot help.
    pub fn choices(&self) -> &'static str {
        match self.reason {
            StopReason::FloorTooBig => {
                "switch to a model with a larger window (/model), or begin a session with shorter rules files or fewer tools"
            }
            // No compaction helps: the last message or its results alone fill the window.
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
    /// Returns the message for a manual compaction that would not free enough while the context is not full: only that reason, without
    /// advice. `None` if the context is full or for any other reason.
    fn with_room(&self) -> Option<String> {
        let full = part_of(self.breakdown.usable.0, FULL_SHARE);
        (self.reason == StopReason::NotEnough && self.breakdown.total().0 < full).then(|| {
            format!(
                "Not compacted: the context still has room, and {}. It holds {}.",
                self.reason, self.breakdown
            )
        })
    }

    /// Returns the message for headless use, where no command can be typed.
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
