//! The size of new messages in the tokens of one family of models.
//!
//! The base estimate is the same for every model, but vocabularies differ by the kind of text: some count each digit as a
//! token, some are poor at certain languages. So messages that were appended since the last report are also measured with
//! costs of the model's own family. Only their share to the base estimate is used ([`Appended`]), so the sums of the view
//! stay as they are.
//!
//! The costs are a least-squares fit, without negative values, to the counts of each family's public vocabulary over 630
//! pieces of 0.4 to 16 kB of 35 kinds of text, ten of them made of `key=value` pairs, logs, ids, hexadecimal digits, base64 and JSON. Anthropic's is that of Claude 2, the last one that was published.
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

/// Maximum size in base tokens of a system prompt with tools to which [`Vocabulary::head`] applies a family's factor. The costs were
/// measured up to this size.
const HEAD: u64 = 8_000;
/// Size in base tokens of the system prompt with the smallest set of tools, which small windows get. A smaller prompt has no tools.
const WITH_TOOLS: f64 = 1_000.0;

/// The costs of bytes in one family of models, in hundredths of a token.
struct Costs {
    /// The first byte of a run and each further byte, as in [`COSTS`].
    runs: [(u8, u8); 16],
    /// The first byte of a run whose previous run has a certain class, in the order of [`CHANGES`].
    changes: [u8; 5],
    /// A byte of a long run of base64 letters (`base64`), or of hexadecimal digits alone (`hex`).
    base64: u8,
    hex: u8,
}

/// Changes of class (from, to) whose first byte costs something else than after other classes: a blank after punctuation,
/// digits after a blank or a capital, and letters after a digit or a sign (`key=value`, hashes).
const CHANGES: [(usize, usize); 5] = [(5, 3), (3, 2), (2, 0), (8, 0), (1, 2)];

const OTHER: Costs = Costs {
    runs: COSTS,
    changes: [COSTS[3].0, COSTS[2].0, COSTS[0].0, COSTS[0].0, COSTS[2].0],
    base64: estimate::BASE64 as u8,
    hex: estimate::BASE64 as u8,
};

const CLAUDE: Costs = Costs {
    runs: [
        (83, 6),
        (82, 14),
        (122, 8),
        (0, 1),
        (122, 33),
        (78, 14),
        (35, 0),
        (92, 0),
        (115, 0),
        (19, 10),
        (255, 27),
        (0, 27),
        (0, 27),
        (66, 27),
        (85, 27),
        (60, 27),
    ],
    changes: [39, 118, 103, 109, 165],
    base64: 70,
    hex: 58,
};
const O200K: Costs = Costs {
    runs: [
        (60, 2),
        (86, 3),
        (133, 8),
        (34, 4),
        (115, 24),
        (61, 48),
        (13, 0),
        (57, 12),
        (89, 0),
        (11, 4),
        (64, 25),
        (0, 25),
        (0, 25),
        (53, 25),
        (70, 25),
        (54, 25),
    ],
    changes: [72, 181, 92, 100, 205],
    base64: 68,
    hex: 56,
};
const GEMINI: Costs = Costs {
    runs: [
        (77, 3),
        (53, 19),
        (146, 78),
        (14, 6),
        (151, 0),
        (85, 12),
        (60, 0),
        (100, 0),
        (92, 0),
        (1, 0),
        (27, 29),
        (0, 29),
        (0, 29),
        (42, 29),
        (68, 29),
        (63, 29),
    ],
    changes: [40, 200, 90, 104, 224],
    base64: 68,
    hex: 88,
};
const QWEN: Costs = Costs {
    runs: [
        (56, 4),
        (92, 2),
        (157, 80),
        (32, 4),
        (105, 6),
        (67, 34),
        (4, 0),
        (61, 7),
        (90, 0),
        (8, 0),
        (191, 27),
        (0, 27),
        (0, 27),
        (52, 27),
        (70, 27),
        (59, 27),
    ],
    changes: [66, 203, 77, 98, 236],
    base64: 73,
    hex: 88,
};
const DEEPSEEK: Costs = Costs {
    runs: [
        (55, 7),
        (87, 17),
        (136, 7),
        (25, 5),
        (110, 66),
        (61, 47),
        (18, 0),
        (66, 0),
        (96, 0),
        (5, 0),
        (146, 26),
        (0, 26),
        (0, 26),
        (56, 26),
        (61, 26),
        (56, 26),
    ],
    changes: [54, 184, 88, 100, 195],
    base64: 69,
    hex: 57,
};
const LLAMA: Costs = Costs {
    runs: [
        (58, 3),
        (99, 0),
        (136, 6),
        (34, 4),
        (115, 15),
        (62, 45),
        (5, 0),
        (56, 12),
        (83, 0),
        (10, 3),
        (179, 24),
        (0, 24),
        (0, 24),
        (47, 24),
        (72, 24),
        (53, 24),
    ],
    changes: [70, 184, 89, 101, 206],
    base64: 71,
    hex: 56,
};

/// Costs of a family, by the class of the byte before (high half) and the byte's own class (low half).
struct Table {
    pairs: [u8; 256],
    base64: u8,
    hex: u8,
}

/// The table of each family, indexed by the discriminant of [`Vocabulary`].
static TABLES: [Table; 7] = [
    table(&OTHER),
    table(&CLAUDE),
    table(&O200K),
    table(&GEMINI),
    table(&QWEN),
    table(&DEEPSEEK),
    table(&LLAMA),
];

const fn table(costs: &Costs) -> Table {
    let mut pairs = [0; 256];
    let mut at = 0;
    while at < 256 {
        let (before, this) = (at >> 4, at & 15);
        pairs[at] = if before == this { costs.runs[this].1 } else { costs.runs[this].0 };
        at += 1;
    }
    let mut change = 0;
    while change < CHANGES.len() {
        let (before, this) = CHANGES[change];
        pairs[before << 4 | this] = costs.changes[change];
        change += 1;
    }
    Table { pairs, base64: costs.base64, hex: costs.hex }
}

impl Vocabulary {
    /// Returns the family of a model by its name, with or without a provider.
    pub fn for_model(model: &str) -> Self {
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

    /// Returns the size of a system prompt with tools of `base` base tokens, before anything was reported. Providers write the
    /// tools in forms of their own: OpenAI as types, Google as their texts alone, the others with instructions whose length
    /// does not depend on the tools.
    fn head(self, base: u64) -> u64 {
        // `each`: hundredths of a token per base token. `fixed`: tokens that are added once.
        let (each, fixed) = match self {
            Self::Other => (100.0, 0.0),
            Self::Claude => (102.2, 435.0),
            Self::O200k => (74.9, -42.0),
            Self::Gemini => (70.5, -184.0),
            Self::Qwen => (102.6, 181.0),
            Self::DeepSeek => (103.4, 98.0),
            Self::Llama => (101.8, 112.0),
        };
        let measured = base.min(HEAD) as f64;
        // A prompt without tools is smaller than `WITH_TOOLS`. Most of the fixed part belongs to the tools, so it shrinks with the prompt.
        let fixed = fixed * (measured / WITH_TOOLS).min(1.0);
        (measured * each / 100.0 + fixed).ceil() as u64 + base.saturating_sub(HEAD)
    }

    /// Returns the cost in hundredths of a token.
    fn cost(self, bytes: &[u8]) -> u64 {
        let table = &TABLES[usize::from(self as u8)];
        let (mut sum, mut from) = (0, 0);
        for (start, end) in estimate::long_runs(bytes) {
            let each =
                if bytes[start..end].iter().all(u8::is_ascii_hexdigit) { table.hex } else { table.base64 };
            sum += runs(&table.pairs, &bytes[from..start]) + (end - start) as u64 * u64::from(each);
            from = end;
        }
        sum + runs(&table.pairs, &bytes[from..])
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
                // The image is scaled to at most 2,048 pixels on the long side, then 768 on the short one. It costs 70 tokens, and 140 per
                // tile of 512 × 512 pixels.
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
    // Any class but that of the first byte, so that the first byte starts a run.
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
    /// True if these are all messages of the next request, not only those after the last report.
    is_whole: bool,
}

impl Appended {
    /// Starts an empty sum. `vocabulary` is that of the session's model.
    pub fn new(vocabulary: Vocabulary) -> Self {
        Self { vocabulary, ..Self::default() }
    }

    /// Measures all messages of a request, because no report covers them.
    pub fn whole<'a>(vocabulary: Vocabulary, messages: impl Iterator<Item = &'a Message>) -> Self {
        let mut all = Self { is_whole: true, ..Self::new(vocabulary) };
        messages.for_each(|message| all.add(message));
        all
    }

    /// Adds a message that was appended to the conversation after the last report.
    pub fn add(&mut self, message: &Message) {
        self.base += estimate_message(message);
        self.own += self.vocabulary.message(message);
    }

    /// Empties the sum. Called when a report includes all appended messages.
    pub fn clear(&mut self) {
        *self = Self::new(self.vocabulary);
    }

    pub(super) fn is_whole(self) -> bool {
        self.is_whole
    }

    pub(super) fn is_known(self) -> bool {
        self.vocabulary != Vocabulary::Other
    }

    /// Returns the tokens of the vocabulary per base token. `None` if nothing was appended.
    pub(super) fn share(self) -> Option<f64> {
        (self.base.0 > 0).then(|| (self.own.0 as f64 / self.base.0 as f64).clamp(0.4, 2.5))
    }

    /// Returns the size of a request that nothing was reported for yet: these messages after system prompt and tools. Earlier messages of a
    /// resumed session count as if they belonged to the system prompt. `None` if nothing was appended.
    pub(super) fn size_without_report(self, base_now: Tokens) -> Option<Tokens> {
        let before = base_now.0.checked_sub(self.base.0)?;
        (self.base.0 > 0).then(|| Tokens(self.vocabulary.head(before)) + self.own)
    }

    /// Returns the size of a request whose report was forgotten: all its messages after the same system prompt and tools as in
    /// the first report. `first`: that report, and the base estimate of its request. `growth`: reported tokens for one token of
    /// the vocabulary. `None` if these are not all messages, or if the first report leaves less than a third of their base estimate for system prompt
    /// and tools.
    pub(super) fn size_after_forgotten_report(
        self,
        first: (Tokens, Tokens),
        base_now: Tokens,
        growth: f64,
    ) -> Option<Tokens> {
        let head = base_now.0.checked_sub(self.base.0).filter(|_| self.is_whole)?;
        let head = first.0.0.checked_sub(first.1.0.checked_sub(head)?).filter(|tokens| *tokens > head / 3)?;
        Some(Tokens(head + (self.own.0 as f64 * growth).ceil() as u64))
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
            // The name of the server does not determine the family.
            ("llamacpp/phi-4", Vocabulary::Other),
            ("mistral/devstral", Vocabulary::Other),
        ] {
            assert_eq!(Vocabulary::for_model(model), want, "{model}");
        }
    }

    #[test]
    fn digits_cost_one_token_each_for_families_without_groups() {
        let digits = Message::user("10583 ".repeat(100));
        let of = |vocabulary: Vocabulary| vocabulary.message(&digits).0;
        assert!(of(Vocabulary::Gemini) > 430 && of(Vocabulary::Qwen) > 430, "{}", of(Vocabulary::Gemini));
        // The real counts are 600 for Gemini and Qwen, 300 for O200k, and 201 for Claude.
        assert!(of(Vocabulary::O200k) < 300 && of(Vocabulary::Claude) < 240, "{}", of(Vocabulary::O200k));
    }

    #[test]
    fn long_runs_of_hexadecimal_digits_are_no_base64() {
        // 1,500 hexadecimal digits (sums of SHA-256), with the real counts of each vocabulary.
        let hex: String = HEX.repeat(3);
        for (vocabulary, count) in HEX_COUNTS {
            let own = vocabulary.message(&Message::user(&*hex)).0;
            let error = own as f64 / count as f64 - 1.0;
            assert!(error.abs() < 0.08, "{vocabulary:?}: {own}, counted {count}");
        }
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

    /// First requests with the prompts and tools of two windows, 12,000 and 128,000 tokens, and what each vocabulary counts with the
    /// text around tools. A llama.cpp server with Qwen2.5 counted 1,316 and 2,845.
    #[test]
    fn a_first_request_is_estimated_for_short_and_long_prompts() {
        for (vocabulary, short, long) in [
            (Vocabulary::Claude, 1_563, 3_086),
            (Vocabulary::O200k, 787, 1_902),
            (Vocabulary::Gemini, 596, 1_646),
            (Vocabulary::Qwen, 1_314, 2_843),
            (Vocabulary::DeepSeek, 1_239, 2_779),
            (Vocabulary::Llama, 1_236, 2_753),
        ] {
            for (base, counted) in [(1_104, short), (2_594, long)] {
                let appended = Appended::whole(vocabulary, [Message::user("Work. go")].iter());
                let estimate = appended.size_without_report(Tokens(base)).unwrap().0;
                let error = estimate as f64 / f64::from(counted) - 1.0;
                assert!(error.abs() < 0.01, "{vocabulary:?}: {estimate}, counted {counted}");
            }
            assert!(vocabulary.head(100) < 160, "{vocabulary:?}: a prompt without tools");
        }
    }

    const HEX: &str = "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e96b86b273ff34fce19d6b804eff5a3f5747ad\
        a4eaa22f1d49c01e52ddb7875b4bd4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab354e074085\
        62bedb8b60ce05c1decfe3ad16b72230967de01f640b7e4729b49fce4b227777d4dd1fc61c6f884f48641d02b4d121d3fd32\
        8cb08b5531fcacdabf8aef2d127de37b942baad06145e54b0c619a1f22327b2ebbcfbec78f5564afe39de7f6c011776e8db7\
        cd330b54174fd76f7d0216b612387a5ffcfb81e6f09196837902699be42c8a8e46fbbb4501726517e86b22c56a189f7625a6";
    const HEX_COUNTS: [(Vocabulary, u64); 6] = [
        (Vocabulary::Claude, 883),
        (Vocabulary::O200k, 865),
        (Vocabulary::Gemini, 1308),
        (Vocabulary::Qwen, 1311),
        (Vocabulary::DeepSeek, 874),
        (Vocabulary::Llama, 856),
    ];

    proptest! {
        #[test]
        fn an_unknown_family_is_measured_by_the_base_estimate(text in ".{0,80}", run in 0usize..600) {
            let message = Message::user(format!("{text}{}", "A".repeat(run)));
            let mut appended = Appended::default();
            appended.add(&message);
            prop_assert_eq!(appended.base, appended.own);
            prop_assert_eq!(appended.share(), Some(1.0));
            prop_assert_eq!(appended.size_without_report(Tokens(appended.base.0 + 50)), Some(appended.base + Tokens(50)));
        }

        /// A larger system prompt is never estimated as a smaller one.
        #[test]
        fn the_size_of_a_system_prompt_grows_with_it(base in 0u64..12_000, more in 1u64..4_000) {
            for (vocabulary, _) in HEX_COUNTS {
                prop_assert!(vocabulary.head(base + more) >= vocabulary.head(base), "{:?} {}", vocabulary, base);
            }
        }
    }
}
