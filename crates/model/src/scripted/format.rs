//! The format of scripts: the file as it is written, and the conditions under which a step answers a request.

use crate::ErrorKind;
use becket_types::{FinishReason, Prices, Usage};
use serde::Deserialize;
use serde_json::Value;

/// A script, as in the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Script {
    #[serde(default)]
    pub(super) name: Option<String>,
    /// A remark for people who read the file. It has no effect.
    #[serde(default)]
    #[serde(rename = "about")]
    pub(super) _about: Option<String>,
    #[serde(default = "default_window")]
    pub(super) window: u64,
    #[serde(default = "default_max_output")]
    pub(super) max_output: u64,
    #[serde(default)]
    pub(super) prices: Option<Prices>,
    /// Start with the first step again after the last one.
    #[serde(default, rename = "loop")]
    pub(super) begin_again: bool,
    /// The answer to a request for a summary.
    #[serde(default)]
    pub(super) summary: Option<String>,
    pub(super) steps: Vec<Step>,
}

fn default_window() -> u64 {
    32_000
}

fn default_max_output() -> u64 {
    4_096
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Step {
    pub(super) when: Option<Match>,
    pub(super) expect: Option<Match>,
    /// Number of requests that the step answers.
    pub(super) repeat: Option<u32>,
    pub(super) reasoning: Option<String>,
    pub(super) text: Option<String>,
    pub(super) calls: Vec<ScriptCall>,
    pub(super) usage: Option<Usage>,
    pub(super) finish: Option<FinishReason>,
    pub(super) error: Option<ScriptError>,
    pub(super) delay_ms: u64,
    /// Bytes per delta. Absent: the whole text in one delta.
    pub(super) chunk: Option<usize>,
    pub(super) chunk_delay_ms: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Match {
    /// Texts that must be in the messages since the model's last answer.
    pub(super) contains: Vec<String>,
    /// Texts that must be anywhere in the request.
    pub(super) anywhere: Vec<String>,
    /// Texts that must not be in the request.
    pub(super) absent: Vec<String>,
    /// Tools that the request must offer.
    pub(super) tools: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptCall {
    #[serde(default)]
    pub(super) id: Option<String>,
    pub(super) name: String,
    #[serde(default)]
    pub(super) input: Value,
    /// Argument text that is sent unchanged, valid or not, instead of `input`.
    #[serde(default)]
    pub(super) arguments: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptError {
    pub(super) kind: ErrorKind,
    pub(super) message: String,
    #[serde(default)]
    pub(super) status: Option<u16>,
    #[serde(default)]
    pub(super) retry_after_ms: Option<u64>,
}

/// The parts of a request that a script can match.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) tail: String,
    /// The whole text; empty unless a matcher needs it.
    pub(super) all: String,
    pub(super) tools: Vec<String>,
    pub(super) summary: bool,
    pub(super) bytes: usize,
}

impl Match {
    /// Describes the first condition that is not met.
    pub(super) fn misses(&self, facts: &Facts) -> Option<String> {
        let shown = |text: &str| becket_types::cut_end(text, 300).to_owned();
        for text in &self.contains {
            if !facts.tail.contains(text.as_str()) {
                return Some(format!(
                    "`{text}` in what came since the last answer, which is `{}`",
                    shown(&facts.tail)
                ));
            }
        }
        if let Some(text) = self.anywhere.iter().find(|t| !facts.all.contains(t.as_str())) {
            return Some(format!("`{text}` in the request"));
        }
        if let Some(text) = self.absent.iter().find(|t| facts.all.contains(t.as_str())) {
            return Some(format!("no `{text}` in the request"));
        }
        let missing = self.tools.iter().find(|tool| !facts.tools.contains(tool));
        missing.map(|tool| format!("the tool `{tool}` among {:?}", facts.tools))
    }

    pub(super) fn needs_all(&self) -> bool {
        !self.anywhere.is_empty() || !self.absent.is_empty()
    }
}
