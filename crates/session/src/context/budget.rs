//! Sizes and limits of the context: how much fits, how much is used, and the size of each message.
//!
//! A *base estimate* is a pure function of bytes ([`estimate_text`], [`estimate_message`]). It is the same for every model, so sums can be
//! kept incrementally. An [`Estimator`] scales base estimates to one model; it learns its factor from reported usage. [`Meter`] adds two
//! figures: the size that the provider reported last, and the estimate of everything appended since ([`Appended`]: with the costs of the
//! model's own [`Vocabulary`]). So an overflow is detected before the request is sent.
//!
//! Invariants: an estimate is never zero for text that is sent, and at most two tokens per byte. Learning is
//! bounded, and a single outlier changes nothing. There is always a limit: an unknown window, or a window of
//! 0, counts as 128k.
//!
//! Loads no tokenizer: [`Meter::wants_exact_count`] only says when the caller should.

use becket_types::{EntryKind, Message, Part, Tokens, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

mod estimate;
mod vocabulary;
pub use estimate::{estimate_json, estimate_text};
pub use vocabulary::{Appended, Vocabulary};

/// Assumed window of an unknown model, in tokens.
pub(crate) const UNKNOWN_WINDOW: u64 = 128_000;
/// Maximum number of tokens reserved for the output.
const MAX_RESERVE: u64 = 32_000;
/// Tokens that the provider's format adds to each message and each call.
const FRAME: u64 = 4;
/// Maximum size of an image in tokens. An image counts width × height / 750 tokens (Anthropic's vision
/// documentation; other providers are similar or lower).
const IMAGE_TOKENS: u64 = 1_600;
/// Assumed size in tokens of an attached document of unknown length.
const FILE_TOKENS: u64 = 3_000;

/// Returns the base estimate of a message as it is sent.
pub fn estimate_message(message: &Message) -> Tokens {
    Tokens(FRAME) + message.parts.iter().map(estimate_part).sum()
}

/// Returns the base estimate of one part; 0 for parts that are not sent (ignored text, unknown parts).
pub fn estimate_part(part: &Part) -> Tokens {
    match part {
        Part::Text { ignored: true, .. } | Part::Unknown(_) => Tokens(0),
        Part::Text { text, .. } => estimate_text(text),
        Part::Image { width, height, .. } => match (width, height) {
            (Some(w), Some(h)) => Tokens((u64::from(*w) * u64::from(*h) / 750).clamp(85, IMAGE_TOKENS)),
            _ => Tokens(IMAGE_TOKENS),
        },
        Part::File { .. } => Tokens(FILE_TOKENS),
        Part::Reasoning { text, signature, redacted, .. } => {
            // Encrypted reasoning is base64 of the text that is billed: 4.8 characters per token.
            let sealed = if text.is_empty() { signature.as_deref().map_or(0, str::len) } else { 0 }
                + redacted.as_deref().map_or(0, str::len);
            estimate_text(text) + Tokens((sealed as u64 * 10).div_ceil(48))
        }
        Part::ToolCall { name, input, .. } => Tokens(FRAME) + estimate_text(name) + estimate_json(input),
        Part::ToolResult { output, .. } => Tokens(FRAME) + estimate_text(output),
    }
}

/// The limits of a model, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Input and output together.
    pub window: u64,
    /// Limit of the input alone, if the provider has one; otherwise the window.
    pub input_limit: u64,
    /// Maximum length of an answer.
    pub max_output: u64,
}

impl Budget {
    /// Makes a budget. A window of 0 means unknown and counts as 128k. An input or output limit of 0 means the window.
    pub fn new(window: u64, input_limit: u64, max_output: u64) -> Self {
        let window = if window == 0 { UNKNOWN_WINDOW } else { window };
        let or_window = |n: u64| if n == 0 { window } else { n };
        Self { window, input_limit: or_window(input_limit), max_output: or_window(max_output) }
    }

    /// Returns the tokens reserved for the answer: `min(max_output, 32_000, window / 4)`.
    pub fn reserve(&self) -> u64 {
        self.max_output.min(MAX_RESERVE).min(self.window / 4)
    }

    /// Returns the tokens that a request may fill: `min(input_limit, window) − reserve`.
    pub fn usable(&self) -> u64 {
        self.input_limit.min(self.window).saturating_sub(self.reserve()).max(1)
    }

    /// Returns the size at which a compaction is due. `share` is clamped to 0.10 to 1.
    pub fn threshold(&self, share: f64) -> Tokens {
        Tokens(part_of(self.usable(), share.clamp(0.10, 1.0)))
    }

    /// Returns the size from which a compaction may be prepared in the background: 0.70 of the usable window. With a
    /// threshold `share` below 0.90 it is seven ninths of the threshold instead.
    pub fn prepare_from(&self, share: f64) -> Tokens {
        Tokens(part_of(self.usable(), 0.70).min(self.threshold(share).0 / 9 * 7))
    }

    /// Applies the limits that the provider's refusals have revealed.
    pub fn limited(self, limits: Limits) -> Self {
        match limits.effective() {
            Some(limit) if limit < self.window.min(self.input_limit) => {
                Self { window: self.window.min(limit), input_limit: limit, ..self }
            }
            _ => self,
        }
    }
}

/// Returns `share` of `whole`, rounded down. A negative share gives 0.
pub fn part_of(whole: u64, share: f64) -> u64 {
    (whole as f64 * share) as u64
}

/// The true window of a model, as learned from its provider's refusals. Plain data, kept in a `State` entry per model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// The largest limit in tokens that an error text named.
    pub named: Option<u64>,
    /// 95 % of the smallest request, in tokens, that was refused without naming a limit.
    pub refused: Option<u64>,
}

impl Limits {
    /// Returns the name of the `State` entry for a model.
    pub fn key(model: &str) -> String {
        format!("limits:{model}")
    }

    /// Learns from a context-overflow error. `named`: the limit in its text. `sent`: becket's figure for the
    /// size of the request.
    ///
    /// A named limit counts if it is plausible, between 1,024 and 10 million. Of several, the largest counts, because error texts also
    /// contain other numbers. A refusal without a plausible number counts as a limit of 95 % of `sent`. Call this only for refusals because
    /// of tokens, not because of bytes. Returns true if anything changed.
    pub fn learn(&mut self, named: Option<u64>, sent: Tokens) -> bool {
        let before = *self;
        let sane = named.filter(|n| (1_024..=10_000_000).contains(n));
        if let Some(limit) = sane {
            self.named = Some(self.named.map_or(limit, |n| n.max(limit)));
        } else if sent.0 >= 1_024 {
            let limit = part_of(sent.0, 0.95);
            self.refused = Some(self.refused.map_or(limit, |n| n.min(limit)));
        }
        *self != before
    }

    /// Learns that a request of `context` tokens was answered, so lower limits were wrong. Returns true if anything changed.
    pub fn drop_refuted(&mut self, context: Tokens) -> bool {
        let before = *self;
        self.named = self.named.filter(|n| *n >= context.0);
        self.refused = self.refused.filter(|n| *n >= context.0);
        *self != before
    }

    /// Returns the limit in force. A named limit is exact and takes precedence over an inferred one.
    pub fn effective(self) -> Option<u64> {
        self.named.or(self.refused)
    }
}

/// Scales base estimates to one model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Estimator {
    /// The model's tokens per base token.
    factor: f64,
    samples: u32,
    /// Factor of a report that was treated as an outlier. A second similar report is believed.
    suspect: Option<f64>,
}

impl Default for Estimator {
    fn default() -> Self {
        Self { factor: 1.0, samples: 0, suspect: None }
    }
}

impl Estimator {
    /// Bounds of the learned factor: about 8 and 1.6 bytes of prose per token.
    const BOUNDS: (f64, f64) = (0.5, 2.5);
    /// Bounds of reported tokens per base token within which the first report is believed.
    const FIRST: (f64, f64) = (0.25, 2.5);

    /// Converts base tokens to tokens of the model with the learned factor, rounded up.
    pub fn scale(&self, base: Tokens) -> Tokens {
        Tokens((base.0 as f64 * self.factor).ceil() as u64)
    }

    /// Estimates a text in tokens of the model.
    pub fn text(&self, text: &str) -> Tokens {
        self.scale(estimate_text(text))
    }

    /// Estimates a message with all its parts in tokens of the model.
    pub fn message(&self, message: &Message) -> Tokens {
        self.scale(estimate_message(message))
    }

    /// Learns from a report for a request whose base estimate was `base`. Returns true if the report is believed.
    ///
    /// A report is an outlier if it is more than 1.5 × or less than 0.4 × both the base estimate and the scaled one. A single outlier
    /// changes nothing; a second one that agrees with it within a quarter is believed. The first report may be up to 2.5 × the estimate,
    /// because the tokenizer is still unknown, and some need that many tokens for digits, code and certain scripts. Each report multiplies
    /// or divides the factor by at most 1.5.
    pub fn learn(&mut self, reported: Tokens, base: Tokens) -> bool {
        if base.0 == 0 || reported.0 == 0 {
            return false;
        }
        let seen = reported.0 as f64 / base.0 as f64;
        let (low, high) = match self.samples {
            0 => Self::FIRST,
            _ => (0.4 * self.factor.min(1.0), 1.5 * self.factor.max(1.0)),
        };
        if seen < low || seen > high {
            let again = self.suspect.is_some_and(|s| (s / seen - 1.0).abs() <= 0.25);
            self.suspect = Some(seen);
            if !again {
                return false;
            }
        } else {
            self.suspect = None;
        }
        let target = seen.clamp(Self::BOUNDS.0, Self::BOUNDS.1);
        let weight = if self.samples == 0 { 1.0 } else { 0.3 };
        let moved = self.factor + weight * (target - self.factor);
        self.factor = moved.clamp(self.factor / 1.5, self.factor * 1.5).clamp(Self::BOUNDS.0, Self::BOUNDS.1);
        self.samples = self.samples.saturating_add(1);
        true
    }
}

/// Measures how much of the window is used. Plain data, kept per model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Meter {
    pub estimator: Estimator,
    /// The last believed report, and the base estimate of the same context.
    last: Option<(Tokens, Tokens)>,
    reported: bool,
    /// True if a tokenizer's exact count was used because no report had arrived. It is counted only once per session.
    counted: bool,
    /// The first report, and the base estimate of its request: mostly system prompt and tools.
    first: Option<(Tokens, Tokens)>,
    /// Reported tokens per base token of the growth between the first report and the last one that was forgotten.
    mix: Option<f64>,
    growth: Growth,
}

/// Growth of the context between reports: by the estimate, and as the provider reported it. Older reports count less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Growth {
    estimated: f64,
    reported: f64,
}

impl Growth {
    /// With this much growth in tokens, the reports count as much as the vocabulary's own costs.
    const TRUST: f64 = 3_000.0;
    /// Factor by which the weight of all earlier reports shrinks when a new one arrives.
    const KEPT: f64 = 0.9;

    /// Returns reported tokens per estimated token. `prior`: the value that is used as long as nothing was reported.
    fn factor(self, prior: f64) -> f64 {
        ((self.reported + Self::TRUST * prior) / (self.estimated + Self::TRUST)).clamp(0.5, 2.5)
    }

    fn learn(&mut self, estimated: f64, reported: f64) {
        self.estimated = self.estimated * Self::KEPT + estimated;
        self.reported = self.reported * Self::KEPT + reported;
    }
}

/// A meter as stored in the ledger, with the model of its reports.
#[derive(Serialize, Deserialize)]
struct StoredMeter {
    model: String,
    meter: Meter,
}

impl Meter {
    /// Name of the `State` entry.
    pub const KEY: &'static str = "meter";

    /// Reads the meter of an earlier process, if the session's last reports are of `model` (`provider/name`).
    pub fn from_state(value: Option<&Value>, model: &str) -> Option<Self> {
        let kept = StoredMeter::deserialize(value?).ok()?;
        (kept.model == model).then_some(kept.meter)
    }

    /// Returns the state entry that stores this meter. `None` if nothing was reported, or if the ledger already has the same value
    /// (`recorded`).
    pub fn entry(&self, recorded: Option<&Value>, model: &str) -> Option<EntryKind> {
        let value = serde_json::to_value(StoredMeter { model: model.to_owned(), meter: *self }).ok()?;
        let is_known = recorded == Some(&value);
        (self.reported && !is_known).then(|| EntryKind::State { key: Self::KEY.to_owned(), value })
    }

    /// Records that the provider reported `usage` for a request whose base estimate was `base_sent` (system,
    /// tools, messages). `base_now` is the base estimate including the answer. Returns true if the report is believed.
    pub fn report(&mut self, usage: &Usage, base_sent: Tokens, base_now: Tokens) -> bool {
        self.report_with(usage, base_sent, base_now, Appended::default())
    }

    /// Like [`Self::report`]. `appended`: the messages of this request that the previous report did not include.
    pub fn report_with(
        &mut self,
        usage: &Usage,
        base_sent: Tokens,
        base_now: Tokens,
        appended: Appended,
    ) -> bool {
        let context = usage.context();
        if context.0 == 0 {
            return false;
        }
        let before = self.last.filter(|_| self.reported);
        self.reported = true;
        let believed = self.estimator.learn(context, base_sent);
        if believed {
            if let (Some((reported, base)), Some(share)) = (before, appended.share())
                && base_sent > base
                && context > reported
            {
                let estimated = (base_sent.0 - base.0) as f64 * share;
                self.growth.learn(estimated, (context.0 - reported.0) as f64);
            }
            self.first.get_or_insert((context, base_sent));
            // Reasoning is left out: many servers bill it and never take it back. If a server does take it back, the size is too low for
            // one request only.
            let answer = usage.output.saturating_sub(usage.reasoning);
            let floor = Tokens(part_of(base_sent.0, 0.4));
            self.last = Some((context.max(floor) + Tokens(answer), base_now));
        }
        believed
    }

    /// Records that a tokenizer counted `exact` tokens for a context whose base estimate is `base`. The count is used until the first
    /// report arrives. The estimator does not learn from it, because the tokenizer may be another vendor's.
    pub fn count(&mut self, exact: Tokens, base: Tokens) {
        self.counted = true;
        self.last = Some((exact, base));
    }

    /// Forgets the last report, because it belongs to another context (compaction, rewind).
    pub fn forget(&mut self) {
        if let (Some((reported, base)), Some((first, first_base))) = (self.last.take(), self.first)
            && base > first_base
            && reported > first
        {
            let mix = (reported.0 - first.0) as f64 / (base.0 - first_base.0) as f64;
            self.mix = Some(mix.clamp(Estimator::BOUNDS.0, Estimator::BOUNDS.1));
        }
    }

    /// Forgets all reports, because the next request goes to another model, which counts differently.
    pub fn forget_model(&mut self) {
        *self = Self { reported: self.reported, counted: self.counted, ..Self::default() };
    }

    /// Returns the tokens used by a context whose base estimate is `base_now` (system, tools, messages).
    pub fn used(&self, base_now: Tokens) -> Tokens {
        match (self.last, self.first, self.mix) {
            (Some((reported, base)), ..) if base_now >= base => {
                reported + self.estimator.scale(Tokens(base_now.0 - base.0))
            }
            // Something was removed since the report, so the report is reduced in proportion.
            (Some((reported, base)), ..) if base.0 > 0 => {
                Tokens((reported.0 as f64 * (base_now.0 as f64 / base.0 as f64)).ceil() as u64)
            }
            // No report covers this context. The content of the first request costs as it did then, and all growth since costs `mix`.
            (None, Some((first, base)), Some(mix)) if base_now >= base => {
                first + Tokens(((base_now.0 - base.0) as f64 * mix).ceil() as u64)
            }
            _ => self.estimator.scale(base_now),
        }
    }

    /// Like [`Self::used`]. `appended`: the messages in this context that the last report does not include.
    pub fn used_with(&self, base_now: Tokens, appended: Appended) -> Tokens {
        // The costs of a known vocabulary are a better start than the first report. For an unknown one, that report is all there is.
        let growth = self.growth.factor(if appended.is_known() { 1.0 } else { self.estimator.factor });
        match (self.last, appended.share(), self.first) {
            (Some((reported, base)), Some(share), _) if base_now >= base => {
                let grown = (base_now.0 - base.0) as f64 * share * growth;
                Some(reported + Tokens(grown.ceil() as u64))
            }
            (None, _, None) => appended.size_without_report(base_now),
            (None, _, Some(first)) => appended.size_after_forgotten_report(first, base_now, growth),
            _ => None,
        }
        .unwrap_or_else(|| self.used(base_now))
    }

    /// True if no report covers the present messages, so all of them should be measured ([`Appended::whole`]).
    pub fn wants_whole(&self, appended: Appended) -> bool {
        self.last.is_none() && !appended.is_whole()
    }

    /// True if an exact count is worthwhile: nothing was reported or counted, and `used` is within 15 % of the threshold.
    pub fn wants_exact_count(&self, used: Tokens, threshold: Tokens) -> bool {
        !self.reported && !self.counted && used.0.abs_diff(threshold.0) as f64 <= 0.15 * threshold.0 as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_types::{CallId, ImageSource};
    use proptest::prelude::*;
    use serde_json::{Map, json};

    #[test]
    fn reserve_and_usable_table() {
        // (window, input limit, max output, (reserve, usable, threshold at 0.90))
        for (window, input, output, want) in [
            (200_000, 200_000, 64_000, (32_000, 168_000, 151_200)),
            (1_000_000, 1_000_000, 64_000, (32_000, 968_000, 871_200)),
            (128_000, 128_000, 4_096, (4_096, 123_904, 111_513)),
            (400_000, 272_000, 128_000, (32_000, 240_000, 216_000)),
            // A small window keeps at least three quarters for the input.
            (16_384, 16_384, 8_192, (4_096, 12_288, 11_059)),
            (32_768, 32_768, 32_768, (8_192, 24_576, 22_118)),
            (65_536, 65_536, 32_000, (16_384, 49_152, 44_236)),
            (40_000, 40_000, 32_000, (10_000, 30_000, 27_000)),
            // No declared window.
            (0, 0, 0, (32_000, 96_000, 86_400)),
        ] {
            let budget = Budget::new(window, input, output);
            assert_eq!((budget.reserve(), budget.usable(), budget.threshold(0.9).0), want, "{window}");
        }
    }

    #[test]
    fn a_limit_learned_from_a_refusal_is_kept_and_is_sane() {
        let budget = Budget::new(1_280_000, 0, 8_000);
        let mut limits = Limits::default();
        for (named, sent, want) in [
            (Some(8), 20_000, 19_000),          // a number that is not a window
            (Some(90_000_000), 15_000, 14_250), // neither is this
            (None, 18_000, 14_250),             // the smallest refusal counts
            (Some(16_384), 18_000, 16_384),     // a named limit wins
            (Some(8_192), 18_000, 16_384),      // the largest named one
            (Some(32_768), 33_000, 32_768),
        ] {
            limits.learn(named, Tokens(sent));
            assert_eq!(limits.effective(), Some(want), "{named:?} {sent}");
        }
        assert_eq!(budget.limited(limits), Budget { window: 32_768, input_limit: 32_768, max_output: 8_000 });
        assert_eq!(budget.limited(Limits::default()), budget);
        assert!(!limits.drop_refuted(Tokens(14_000)));
        assert!(limits.drop_refuted(Tokens(40_000)));
        assert_eq!(limits, Limits::default());
        assert_eq!(budget.prepare_from(1.0), Tokens(890_400));
        assert_eq!(budget.prepare_from(0.45), Tokens(445_200));
    }

    #[test]
    fn parts_that_are_not_sent_cost_nothing_and_media_cost_by_pixels() {
        let image = |width, height| Part::Image {
            media_type: "image/png".into(),
            source: ImageSource::Url("u".into()),
            name: None,
            width,
            height,
            extra: Map::new(),
        };
        let ignored = Part::Text {
            text: "x".repeat(99),
            synthetic: false,
            ignored: true,
            spill: None,
            extra: Map::new(),
        };
        for (part, want) in [
            (ignored, 0),
            (Part::Unknown(Map::new()), 0),
            (image(None, None), 1_600),
            (image(Some(750), Some(500)), 500),
            (image(Some(9_000), Some(9_000)), 1_600),
            (Part::tool_call("c", "bash", json!({"command": "ls"})), 4 + 2 + 5),
        ] {
            assert_eq!(estimate_part(&part), Tokens(want), "{part:?}");
        }
        let result = Message::tool_result(CallId("c".into()), "bash", "x".repeat(36), false);
        assert_eq!(estimate_message(&result), Tokens(4 + 4 + 6));
    }

    #[test]
    fn one_outlier_changes_nothing_and_a_second_like_it_is_believed() {
        let mut e = Estimator::default();
        assert!(e.learn(Tokens(1_200), Tokens(1_000)));
        let settled = e;
        assert!((e.factor - 1.2).abs() < 1e-9);
        // A report of twice the estimate changes nothing, and a correct one after it leaves the factor as it is.
        assert!(!e.learn(Tokens(2_400), Tokens(1_000)));
        assert_eq!(e.scale(Tokens(1_000)), settled.scale(Tokens(1_000)));
        assert!(e.learn(Tokens(1_200), Tokens(1_000)));
        assert_eq!(e, Estimator { samples: 2, ..settled });
        assert!(!e.learn(Tokens(2_000), Tokens(1_000)));
        assert!(e.learn(Tokens(2_100), Tokens(1_000)));
        assert!(e.scale(Tokens(1_000)) > settled.scale(Tokens(1_000)));
        // The first report comes from an unknown tokenizer.
        for (reported, believed) in [(240, false), (260, true), (2_000, true), (2_500, true), (2_600, false)]
        {
            assert_eq!(Estimator::default().learn(Tokens(reported), Tokens(1_000)), believed, "{reported}");
        }
        for nothing in [(0, 10), (10, 0), (0, 0)] {
            assert!(!e.learn(Tokens(nothing.0), Tokens(nothing.1)));
        }
    }

    #[test]
    fn used_is_the_last_report_plus_what_was_appended_since() {
        let usage = |input, cache_read, output| Usage { input, cache_read, output, ..Usage::default() };
        let mut m = Meter::default();
        assert_eq!(m.used(Tokens(900)), Tokens(900));
        m.report(&usage(100, 900, 50), Tokens(1_000), Tokens(1_050));
        assert_eq!(m.used(Tokens(1_050)), Tokens(1_050));
        assert_eq!(m.used(Tokens(9_050)), Tokens(9_050));
        // A spike of ×2 changes nothing; neither does an empty report.
        m.report(&usage(18_000, 0, 50), Tokens(9_050), Tokens(9_100));
        m.report(&Usage::default(), Tokens(9_100), Tokens(9_100));
        assert_eq!(m.used(Tokens(9_100)), Tokens(9_100));
        // After a prune the last report is reduced in proportion; after a compaction it is not used.
        assert_eq!(m.used(Tokens(525)), Tokens(525));
        m.forget();
        assert_eq!(m.used(Tokens(77)), Tokens(77));
    }

    #[test]
    fn growth_is_learned_apart_from_the_head_and_a_compaction_keeps_both() {
        let usage = |input| Usage { input, ..Usage::default() };
        let digits = Message::user("10583 ".repeat(1_000));
        let base = estimate_message(&digits).0;
        let appended = |vocabulary| {
            let mut appended = Appended::new(vocabulary);
            appended.add(&digits);
            appended
        };
        // The first request is mostly tools. For them, this provider counts half of the base estimate.
        let mut m = Meter::default();
        assert!(m.report_with(&usage(1_000), Tokens(2_000), Tokens(2_000), Appended::default()));
        let (plain, own) = (
            m.used_with(Tokens(2_000 + base), appended(Vocabulary::Other)).0,
            m.used_with(Tokens(2_000 + base), appended(Vocabulary::Qwen)).0,
        );
        assert_eq!(plain, 1_000 + m.estimator.scale(Tokens(base)).0, "nothing else is known of this model");
        assert!((5_300..6_700).contains(&own), "each digit is a token: {own}");
        // The provider counts 6,000 tokens for the text. The second estimate of the same text must be nearer to 6,000 than the first.
        assert!(m.report_with(
            &usage(7_000),
            Tokens(2_000 + base),
            Tokens(2_000 + base),
            appended(Vocabulary::Qwen)
        ));
        let again = m.used_with(Tokens(2_000 + 2 * base), appended(Vocabulary::Qwen)).0;
        assert!(again.abs_diff(13_000) < own.abs_diff(7_000).max(50), "{again}");
        // A compaction leaves the system prompt, the tools and one copy of the text: what the second request reported as 7,000.
        m.forget();
        assert!(m.used(Tokens(2_000 + base)).0.abs_diff(7_000) <= 1);
        // Reports of one model say nothing about another, so the base estimate is used again.
        m.forget_model();
        assert_eq!(m.used(Tokens(2_000)), Tokens(2_000));
        assert!(m.reported);
    }

    #[test]
    fn the_exact_count_is_wanted_only_near_the_threshold_and_without_any_report() {
        let mut m = Meter::default();
        for (used, want) in [(84, false), (85, true), (100, true), (115, true), (116, false)] {
            assert_eq!(m.wants_exact_count(Tokens(used), Tokens(100)), want, "{used}");
        }
        m.report(&Usage { input: 10, ..Usage::default() }, Tokens(10), Tokens(12));
        assert!(!m.wants_exact_count(Tokens(100), Tokens(100)));
        // An exact count replaces a report and is not requested twice.
        let mut m = Meter::default();
        m.count(Tokens(130), Tokens(100));
        assert_eq!((m.used(Tokens(100)), m.used(Tokens(110))), (Tokens(130), Tokens(140)));
        assert!(!m.wants_exact_count(Tokens(100), Tokens(100)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]
        #[test]
        fn learning_is_bounded(
            reports in prop::collection::vec((0u64..1_000_000, 0u64..1_000_000), 0..20),
        ) {
            let mut e = Estimator::default();
            for (reported, base) in reports {
                e.learn(Tokens(reported), Tokens(base));
                prop_assert!((0.5..=2.5).contains(&e.factor));
            }
        }
    }
}
