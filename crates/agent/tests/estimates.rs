//! Accuracy of becket's size estimates compared with a tokenizer, over generated sessions with text of twenty
//! kinds.
//!
//! Each step of a session is a request. becket's figure is taken before the request is "sent"; then the
//! tokenizer's count is returned as its usage, as a provider would report it. The first request of a session
//! calibrates, and all later ones are judged. The material ([`kinds`]) is this repository, a few lines of
//! other languages, and output of machines. Sizes and order come from fixed seeds. The estimate's constants
//! were fitted to other texts (except for a few commits of this repository).

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use becket_model::tokens;
use becket_session::context::budget::{
    Appended, Meter, Vocabulary, estimate_json, estimate_message, estimate_text,
};
use becket_types::{CallId, Message, Part, Tokens, Usage};
use proptest::test_runner::{RngAlgorithm, TestRng};
use rand_like::Rng;
use serde_json::{Value, json};

#[path = "estimates/kinds.rs"]
mod kinds;

/// Numbers from proptest's generator, which is a dependency already.
mod rand_like {
    use proptest::prelude::Rng as _;
    use proptest::test_runner::TestRng;

    pub(crate) struct Rng(pub(crate) TestRng);

    impl Rng {
        pub(crate) fn below(&mut self, n: usize) -> usize {
            (self.0.next_u64() % n as u64) as usize
        }

        /// Between `from` and `to`, each order of magnitude as likely as the next.
        pub(crate) fn size(&mut self, from: usize, to: usize) -> usize {
            let share = self.below(1_000_000) as f64 / 1e6;
            (from as f64 * (to as f64 / from as f64).powf(share)) as usize
        }
    }
}

const STEPS: usize = 40;
/// Number of sessions for each kind of text, in which that kind is the favourite.
const EACH: usize = 1;

/// Texts from which requests are made.
struct Material {
    kinds: Vec<(&'static str, String)>,
}

impl Material {
    fn load(rng: &mut Rng) -> Self {
        Self { kinds: kinds::all(rng) }
    }

    fn at(&self, name: &str) -> usize {
        self.kinds.iter().position(|(kind, _)| *kind == name).unwrap()
    }

    /// A piece of one kind, of about this many bytes.
    fn piece(&self, kind: usize, bytes: usize, rng: &mut Rng) -> &str {
        let text = &self.kinds[kind].1;
        let from = text.floor_char_boundary(rng.below(text.len().saturating_sub(bytes).max(1)));
        &text[from..text.ceil_char_boundary((from + bytes).min(text.len()))]
    }
}

/// A session so far: its base estimate, and what a tokenizer makes of it.
#[derive(Default)]
struct Sizes {
    base: Tokens,
    exact: Tokens,
    /// Messages that no report includes.
    appended: Appended,
}

impl Sizes {
    fn add(&mut self, message: &Message) {
        self.base += estimate_message(message);
        self.exact += exact(message);
        self.appended.add(message);
    }
}

/// Returns a provider's count: the texts, and some tokens around each message and call.
fn exact(message: &Message) -> Tokens {
    let part = |part: &Part| match part {
        Part::Text { text, .. } => tokens::count(text),
        Part::ToolCall { name, input, .. } => {
            tokens::count(name) + tokens::count(&input.to_string()) + Tokens(8)
        }
        Part::ToolResult { output, .. } => tokens::count(output) + Tokens(6),
        _ => Tokens(0),
    };
    message.parts.iter().map(part).sum::<Tokens>() + Tokens(4)
}

fn arguments(material: &Material, rng: &mut Rng) -> (&'static str, Value) {
    match rng.below(3) {
        0 => ("read", json!({"path": format!("crates/agent/src/file{}.rs", rng.below(100)), "limit": 200})),
        1 => (
            "bash",
            json!({"command": format!("cargo test -p becket-agent step_{} 2>&1 | tail -40", rng.below(99))}),
        ),
        _ => {
            let (code, bytes) = (material.at("Rust"), rng.size(100, 3_000));
            (
                "edit",
                json!({"path": "src/lib.rs", "old": material.piece(code, bytes / 2, rng), "new": material.piece(code, bytes, rng)}),
            )
        }
    }
}

/// One step: sometimes a prompt, an answer with a call, and its result.
fn step(material: &Material, favourite: usize, n: usize, sizes: &mut Sizes, rng: &mut Rng) -> Vec<Message> {
    let mut messages = Vec::new();
    // People and models talk in the language of the session.
    let language = material.kinds[favourite].0;
    let talk = material.at(if kinds::LANGUAGES.contains(&language) { language } else { "English" });
    if n == 0 || rng.below(8) == 0 {
        let bytes = rng.size(40, 1_500);
        sizes.add(&Message::user(material.piece(talk, bytes, rng)));
    }
    let (name, input) = arguments(material, rng);
    let bytes = rng.size(30, 900);
    let text = material.piece(talk, bytes, rng);
    messages.push(Message::assistant(vec![Part::text(text), Part::tool_call(format!("c{n}"), name, input)]));
    let kind = if rng.below(3) == 0 { rng.below(material.kinds.len()) } else { favourite };
    let bytes = rng.size(80, 16_000);
    let output = material.piece(kind, bytes, rng);
    messages.push(Message::tool_result(CallId(format!("c{n}")), name, output, false));
    messages
}

/// Plays sessions. `usage(n, true)` is the usage that the provider reports for request `n`. Returns the relative error of
/// each figure, without the first of each session.
fn play(seed: u8, vocabulary: Vocabulary, mut usage: impl FnMut(usize, Usage) -> Usage) -> Vec<f64> {
    let mut rng = Rng(TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]));
    let material = Material::load(&mut rng);
    let english = material.at("English");
    let prompt = material.kinds[english].1[..6_000].to_owned();
    let schema =
        json!({"type": "object", "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}}});
    let mut errors = Vec::new();
    for session in 0..EACH * material.kinds.len() {
        let mut meter = Meter::default();
        let mut sizes = Sizes {
            base: estimate_text(&prompt) + estimate_json(&schema),
            exact: tokens::count(&prompt) + tokens::count(&schema.to_string()),
            appended: Appended::new(vocabulary),
        };
        for n in 0..STEPS {
            let mut turn =
                step(&material, session % material.kinds.len(), n, &mut sizes, &mut rng).into_iter();
            if n > 0 {
                let figure = meter.used_with(sizes.base, sizes.appended).0 as f64;
                errors.push((figure / sizes.exact.0 as f64 - 1.0).abs());
            }
            let (sent, answer) = (Sizes { ..sizes }, turn.next().unwrap());
            let (base_sent, context, appended) = (sent.base, sent.exact, sent.appended);
            sizes = sent;
            sizes.add(&answer);
            let output = sizes.exact.0 - context.0;
            let cached = context.0 / 10 * 9;
            let true_usage =
                Usage { input: context.0 - cached, cache_read: cached, output, ..Usage::default() };
            if meter.report_with(&usage(n, true_usage), base_sent, sizes.base, appended) {
                sizes.appended.clear();
            }
            turn.for_each(|message| sizes.add(&message));
        }
    }
    errors.sort_by(f64::total_cmp);
    errors
}

fn share(errors: &[f64], of: f64) -> f64 {
    errors[((errors.len() - 1) as f64 * of) as usize]
}

#[test]
fn figures_are_near_a_tokenizers_counts() {
    for seed in [7, 8, 9] {
        let errors = play(seed, Vocabulary::Other, |_, usage| usage);
        let (median, p99) = (share(&errors, 0.5), share(&errors, 0.99));
        println!(
            "{} requests: median {median:.4}, p99 {p99:.4}, largest {:.4}",
            errors.len(),
            share(&errors, 1.0)
        );
        assert!(errors.len() >= 500);
        assert!(median <= 0.005 && p99 <= 0.06, "median {median:.4}, p99 {p99:.4}");
    }
}

/// As above, but the estimate uses the costs of the vocabulary that the tokenizer counts with.
#[test]
fn figures_with_the_costs_of_a_vocabulary_are_near_its_counts() {
    for seed in [7, 8, 9] {
        let errors = play(seed, Vocabulary::O200k, |_, usage| usage);
        let (median, p99) = (share(&errors, 0.5), share(&errors, 0.99));
        println!(
            "{} requests: median {median:.4}, p99 {p99:.4}, largest {:.4}",
            errors.len(),
            share(&errors, 1.0)
        );
        assert!(median <= 0.005 && p99 <= 0.06, "median {median:.4}, p99 {p99:.4}");
    }
}

/// Each kind of text alone, scaled by the one factor that fits English: the largest error that a text of one kind can have.
#[test]
fn no_kind_of_text_is_far_off_by_itself() {
    let mut rng = Rng(TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]));
    let material = Material::load(&mut rng);
    let ratio = |text: &str| tokens::count(text).0 as f64 / estimate_text(text).0 as f64;
    let english = ratio(&material.kinds[material.at("English")].1);
    for (name, text) in &material.kinds {
        let off = ratio(text) / english - 1.0;
        println!(
            "{name:14} {:.2} bytes a token, {off:+.3}",
            text.len() as f64 / tokens::count(text).0 as f64
        );
        assert!((-0.30..=0.25).contains(&off), "{name}: {off:+.3}");
    }
}

/// One report in ten is wrong in one of four ways: counted twice, missing, only the tokens that were not cached, or only a
/// part of those that were.
#[test]
fn a_single_false_report_changes_next_to_nothing() {
    let mut kind = 0;
    let errors = play(7, Vocabulary::Other, |n, usage| {
        if n % 10 != 9 {
            return usage;
        }
        kind += 1;
        match kind % 4 {
            0 => Usage { input: usage.input * 2, cache_read: usage.cache_read * 2, ..usage },
            1 => Usage::default(),
            2 => Usage { cache_read: 0, ..usage },
            _ => Usage { input: 0, cache_read: usage.cache_read / 20, ..usage },
        }
    });
    let (median, p99, most) = (share(&errors, 0.5), share(&errors, 0.99), share(&errors, 1.0));
    println!("{} requests: median {median:.4}, p99 {p99:.4}, largest {most:.4}", errors.len());
    assert!(
        median <= 0.005 && p99 <= 0.06 && most <= 0.20,
        "median {median:.4}, p99 {p99:.4}, largest {most:.4}"
    );
}
