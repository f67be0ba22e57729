//! Sessions of 200 steps by their shape: the pauses of a person, and the sizes of outputs. Everything follows from the seed.

/// One request of the model and what follows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Seconds since the previous request.
    pub(crate) gap: u64,
    /// Tokens of the user's message before this step; 0 within a turn.
    pub(crate) prompt: u64,
    /// Tokens of the answer.
    pub(crate) answer: u64,
    /// Tokens of the tool's output; 0 at the end of a turn.
    pub(crate) output: u64,
    /// The model needs the output of an earlier step here: the distance to that step, in steps.
    pub(crate) needs: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    /// Minutes between turns, give or take a fifth.
    pause: u64,
    /// Tokens of an output on average.
    output: u64,
    /// One pause of 14 hours in the middle.
    overnight: bool,
    /// Pauses of any length in place of `pause`.
    mixed: bool,
}

const fn shape(name: &'static str, pause: u64, output: u64) -> Shape {
    Shape { name, pause, output, overnight: false, mixed: false }
}

pub(crate) const SHAPES: [Shape; 8] = [
    shape("steady", 1, 1_500),
    shape("pauses of 3 min", 3, 1_500),
    shape("pauses of 8 min", 8, 1_500),
    shape("pauses of 40 min", 40, 1_500),
    Shape { overnight: true, ..shape("a night between", 1, 1_500) },
    shape("large outputs", 8, 6_000),
    shape("small outputs", 8, 300),
    Shape { mixed: true, ..shape("mixed pauses", 1, 1_500) },
];

const STEPS: usize = 200;

/// A number that looks random and is not.
pub(crate) fn dice(seed: &[u64]) -> u64 {
    seed.iter().fold(0x9e37_79b9_7f4a_7c15, |state, n| {
        let mut x = (state ^ n).wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    })
}

impl Shape {
    pub(crate) fn steps(&self, seed: u64) -> Vec<Step> {
        let roll = |n: usize, what: u64| dice(&[seed, n as u64, what]);
        let mut steps = Vec::new();
        let (mut left, mut night) = (0, self.overnight);
        for n in 0..STEPS {
            let begins = left == 0;
            if begins {
                left = 5 + (roll(n, 1) % 11) as usize;
            }
            left -= 1;
            let gap = match (n, begins) {
                (0, _) => 0,
                (_, false) => 5 + roll(n, 2) % 50,
                _ if night && n >= STEPS / 2 => {
                    night = false;
                    14 * 3_600
                }
                _ => self.pause(roll(n, 3), roll(n, 4)),
            };
            // Each doubling of the distance is as likely as the next, up to the whole session.
            let distance = (STEPS as f64).powf((roll(n, 5) % 1_000) as f64 / 1_000.0) as usize;
            steps.push(Step {
                gap,
                prompt: if begins { 50 + roll(n, 6) % 200 } else { 0 },
                answer: if left == 0 { 200 + roll(n, 7) % 400 } else { 60 + roll(n, 7) % 120 },
                output: if left == 0 { 0 } else { self.output / 2 + roll(n, 8) % self.output },
                needs: (n % 4 == 0 && n > 0).then_some(distance.max(1)),
            });
        }
        steps
    }

    /// Seconds between two turns, within a fifth around the shape's own.
    fn pause(&self, which: u64, spread: u64) -> u64 {
        let minutes = match (self.mixed, which % 10) {
            (false, _) => self.pause,
            (true, 0..4) => 1,
            (true, 4 | 5) => 3,
            (true, 6 | 7) => 8,
            (true, 8) => 40,
            (true, _) => 3 * 60,
        };
        minutes * 48 + spread % (minutes * 24)
    }
}
