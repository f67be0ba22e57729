//! The size of new messages in the tokens of one family of models.
//!
//! The base estimate is the same for every model, but vocabularies differ by the kind of text: some count each digit as a
//! token, some are poor at certain languages. So messages that were appended since the last report are also measured with
//! costs of the model's own family. Only their share to the base estimate is used ([`Appended`]), so the sums of the view
//! stay as they are.
//!
//! The costs are a least-squares fit, without negative values, to the counts of each family's public vocabulary over 870
//! pieces of 3 kB of 29 kinds of text. Anthropic's is that of Claude 2, the last one that was published.
//! `benches/estimates` measures the result against other texts.
//!
//! Does not decide anything, and loads no vocabulary.

use super::estimate::{self, CLASSES, COSTS};
use super::{FRAME, estimate_message, estimate_part};
use becket_types::{Message, Part, Tokens};
use serde_json::Value;
use std::io;

/// Models that count tokens alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Vocabulary {
    /// Unknown: the base estimate.
    #[default]
    Other,
    Claude,
    /// OpenAI's models, and those that use their vocabulary.
    O200k,
    Gemini,
    Qwen,
    DeepSeek,
    Llama,
}

/// Largest system prompt with tools, in base tokens, whose size follows [`Vocabulary::head`].
const HEAD: u64 = 8_000;

/// Hundredths of a token of the first byte of a run and of each further byte, as in [`COSTS`].
type Costs = [(u8, u8); 16];

const CLAUDE: Costs = [
    (82, 6),
    (86, 17),
    (136, 4),
    (0, 3),
    (108, 24),
    (74, 21),
    (40, 0),
    (104, 2),
    (130, 0),
    (19, 10),
    (255, 27),
    (0, 27),
    (0, 27),
    (66, 27),
    (85, 27),
    (60, 27),
];
const O200K: Costs = [
    (73, 1),
    (79, 11),
    (168, 0),
    (25, 5),
    (121, 18),
    (48, 35),
    (14, 0),
    (67, 9),
    (112, 0),
    (11, 4),
    (64, 25),
    (0, 25),
    (0, 25),
    (53, 25),
    (70, 25),
    (54, 25),
];
const GEMINI: Costs = [
    (74, 4),
    (61, 15),
    (193, 61),
    (15, 7),
    (144, 1),
    (75, 17),
    (70, 0),
    (111, 8),
    (92, 0),
    (1, 0),
    (27, 29),
    (0, 29),
    (0, 29),
    (42, 29),
    (68, 29),
    (63, 29),
];
const QWEN: Costs = [
    (67, 3),
    (89, 5),
    (199, 63),
    (25, 4),
    (107, 0),
    (67, 15),
    (10, 0),
    (77, 8),
    (100, 0),
    (8, 0),
    (191, 27),
    (0, 27),
    (0, 27),
    (52, 27),
    (70, 27),
    (59, 27),
];
const DEEPSEEK: Costs = [
    (71, 4),
    (83, 20),
    (168, 0),
    (21, 6),
    (123, 88),
    (49, 34),
    (29, 0),
    (77, 0),
    (111, 0),
    (5, 0),
    (146, 26),
    (0, 26),
    (0, 26),
    (56, 26),
    (61, 26),
    (56, 26),
];
const LLAMA: Costs = [
    (74, 1),
    (94, 4),
    (166, 0),
    (26, 5),
    (122, 3),
    (51, 30),
    (8, 0),
    (69, 9),
    (105, 0),
    (10, 3),
    (179, 24),
    (0, 24),
    (0, 24),
    (47, 24),
    (72, 24),
    (53, 24),
];

/// Costs of a byte by the class of the byte before it (high half) and its own class (low half), and of a byte of base64, in
/// the order of [`Vocabulary`].
static TABLES: [([u8; 256], u64); 7] = [
    (pairs(&COSTS), estimate::BASE64),
    (pairs(&CLAUDE), 68),
    (pairs(&O200K), 61),
    (pairs(&GEMINI), 71),
    (pairs(&QWEN), 67),
    (pairs(&DEEPSEEK), 64),
    (pairs(&LLAMA), 61),
];

const fn pairs(costs: &Costs) -> [u8; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let (before, this) = (at >> 4, at & 15);
        table[at] = if before == this { costs[this].1 } else { costs[this].0 };
        at += 1;
    }
    table
}

impl Vocabulary {
    /// Returns the family of a model by its name, with or without a provider.
    pub fn of(model: &str) -> Self {
        let name = model.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        if has(&["claude"]) {
            Self::Claude
        } else if has(&["gemini", "gemma"]) {
            Self::Gemini
        } else if has(&["qwen", "qwq"]) {
            Self::Qwen
        } else if has(&["deepseek"]) {
            Self::DeepSeek
        } else if has(&["llama-3", "llama3", "llama-4", "llama4"]) {
            Self::Llama
        } else if has(&["gpt-4o", "gpt-4.1", "gpt-5", "gpt-oss", "codex", "/o1", "/o3", "/o4"]) {
            Self::O200k
        } else {
            Self::Other
        }
    }

    /// Tokens of the system prompt and the tools for one base token, before anything was reported. Providers write the tools
    /// in forms of their own: OpenAI as types, Google as their texts alone, Anthropic with instructions.
    fn head(self) -> f64 {
        match self {
            Self::Other | Self::DeepSeek | Self::Llama => 1.0,
            Self::Claude => 1.18,
            Self::O200k => 0.8,
            Self::Gemini => 0.7,
            Self::Qwen => 1.06,
        }
    }

    /// Returns the cost in hundredths of a token.
    fn cost(self, bytes: &[u8]) -> u64 {
        let (table, base64) = &TABLES[usize::from(self as u8)];
        let (mut sum, mut from) = (0, 0);
        for (start, end) in estimate::long_runs(bytes) {
            sum += runs(table, &bytes[from..start]) + (end - start) as u64 * base64;
            from = end;
        }
        sum + runs(table, &bytes[from..])
    }

    fn text(self, text: &str) -> Tokens {
        Tokens(self.cost(text.as_bytes()).div_ceil(100))
    }

    fn json(self, value: &Value) -> Tokens {
        let mut counter = Counter { vocabulary: self, sum: 0 };
        // Counting cannot fail. A value that cannot be serialised is not sent either.
        let _ = serde_json::to_writer(&mut counter, value);
        Tokens(counter.sum.div_ceil(100))
    }

    /// Size of an image as the vendor's documentation gives it.
    fn image(self, width: u32, height: u32) -> u64 {
        let (width, height) = (u64::from(width), u64::from(height));
        match self {
            Self::O200k => {
                // At most 2048 pixels, then 768 on the short side; 70 tokens and 140 for each tile of 512.
                let long = width.max(height).clamp(1, 2_048);
                let short = (width.min(height) * long / width.max(height).max(1)).max(1);
                let (long, short) = if short > 768 { (long * 768 / short, 768) } else { (long, short) };
                70 + 140 * long.div_ceil(512) * short.div_ceil(512)
            }
            Self::Gemini if width <= 384 && height <= 384 => 258,
            Self::Gemini => {
                let tile = (width.min(height) * 2 / 3).clamp(256, 768);
                258 * width.div_ceil(tile) * height.div_ceil(tile)
            }
            _ => (width * height / 750).clamp(85, super::IMAGE_TOKENS),
        }
    }

    fn part(self, part: &Part) -> Tokens {
        match part {
            Part::Text { text, ignored: false, .. } => self.text(text),
            Part::ToolCall { name, input, .. } => Tokens(FRAME) + self.text(name) + self.json(input),
            Part::ToolResult { output, .. } => Tokens(FRAME) + self.text(output),
            Part::Image { width: Some(width), height: Some(height), .. } => {
                Tokens(self.image(*width, *height))
            }
            _ => estimate_part(part),
        }
    }

    fn message(self, message: &Message) -> Tokens {
        Tokens(FRAME) + message.parts.iter().map(|part| self.part(part)).sum()
    }
}

/// Returns the cost of the runs in hundredths of a token.
fn runs(table: &[u8; 256], bytes: &[u8]) -> u64 {
    let Some(first) = bytes.first() else { return 0 };
    let class = |byte: u8| usize::from(CLASSES[usize::from(byte)]);
    // Any other class, so that the first byte starts a run.
    let mut before = (class(*first) + 1) & 15;
    let mut sum = 0;
    for byte in bytes {
        let this = class(*byte);
        sum += u64::from(table[before << 4 | this]);
        before = this;
    }
    sum
}

/// Counts hundredths of tokens of everything written to it.
struct Counter {
    vocabulary: Vocabulary,
    sum: u64,
}

impl io::Write for Counter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.sum += self.vocabulary.cost(buf);
        Ok(buf.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The messages that were appended since the last report, by the base estimate and by the model's own vocabulary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Appended {
    vocabulary: Vocabulary,
    base: Tokens,
    own: Tokens,
}

impl Appended {
    pub fn new(vocabulary: Vocabulary) -> Self {
        Self { vocabulary, ..Self::default() }
    }

    pub fn add(&mut self, message: &Message) {
        self.base += estimate_message(message);
        self.own += self.vocabulary.message(message);
    }

    /// Called when a report includes all of them.
    pub fn clear(&mut self) {
        *self = Self::new(self.vocabulary);
    }

    pub(super) fn is_known(self) -> bool {
        self.vocabulary != Vocabulary::Other
    }

    /// Tokens of the vocabulary for one base token. `None` if nothing was appended.
    pub(super) fn share(self) -> Option<f64> {
        (self.base.0 > 0).then(|| (self.own.0 as f64 / self.base.0 as f64).clamp(0.4, 2.5))
    }

    /// Returns the size of a request that nothing was reported for yet: these messages after system prompt and tools. Earlier
    /// messages of a resumed session count as the base estimate. `None` if nothing was appended.
    pub(super) fn first(self, base_now: Tokens) -> Option<Tokens> {
        let before = base_now.0.checked_sub(self.base.0)?;
        let head = before.min(HEAD);
        let head_now = Tokens((head as f64 * self.vocabulary.head()).ceil() as u64 + before - head);
        (self.base.0 > 0).then(|| head_now + self.own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn models_belong_to_families_by_their_names() {
        for (model, want) in [
            ("anthropic/claude-sonnet-4-5", Vocabulary::Claude),
            ("bedrock/eu.anthropic.claude-sonnet-4-5-20250929-v1:0", Vocabulary::Claude),
            ("openai/gpt-5", Vocabulary::O200k),
            ("openai/o3", Vocabulary::O200k),
            ("groq/openai/gpt-oss-120b", Vocabulary::O200k),
            ("google/gemini-2.5-pro", Vocabulary::Gemini),
            ("ollama/Qwen3-Coder:30b", Vocabulary::Qwen),
            ("bedrock/us.meta.llama3-3-70b-instruct-v1:0", Vocabulary::Llama),
            ("deepseek/deepseek-chat", Vocabulary::DeepSeek),
            // A server's name is not a model's.
            ("llamacpp/phi-4", Vocabulary::Other),
            ("mistral/devstral", Vocabulary::Other),
        ] {
            assert_eq!(Vocabulary::of(model), want, "{model}");
        }
    }

    #[test]
    fn digits_cost_one_token_each_for_families_without_groups() {
        let digits = Message::user("10583 ".repeat(100));
        let of = |vocabulary: Vocabulary| vocabulary.message(&digits).0;
        assert!(of(Vocabulary::Gemini) > 430 && of(Vocabulary::Qwen) > 430, "{}", of(Vocabulary::Gemini));
        assert!(of(Vocabulary::O200k) < 220 && of(Vocabulary::Claude) < 200, "{}", of(Vocabulary::O200k));
    }

    #[test]
    fn images_cost_what_the_vendors_say() {
        for (vocabulary, width, height, want) in [
            (Vocabulary::Claude, 750, 500, 500),
            (Vocabulary::Claude, 9_000, 9_000, 1_600),
            (Vocabulary::O200k, 512, 512, 210),
            (Vocabulary::O200k, 1_024, 1_024, 70 + 140 * 4),
            (Vocabulary::O200k, 4_096, 8_192, 70 + 140 * 6),
            (Vocabulary::Gemini, 384, 384, 258),
            (Vocabulary::Gemini, 1_536, 1_536, 258 * 4),
            (Vocabulary::O200k, 0, 0, 210),
        ] {
            assert_eq!(vocabulary.image(width, height), want, "{vocabulary:?} {width}x{height}");
        }
    }

    proptest! {
        #[test]
        fn an_unknown_family_is_measured_by_the_base_estimate(text in ".{0,80}", run in 0usize..600) {
            let message = Message::user(format!("{text}{}", "A".repeat(run)));
            let mut appended = Appended::default();
            appended.add(&message);
            prop_assert_eq!(appended.base, appended.own);
            prop_assert_eq!(appended.share(), Some(1.0));
            prop_assert_eq!(appended.first(Tokens(appended.base.0 + 50)), Some(appended.base + Tokens(50)));
        }
    }
}
