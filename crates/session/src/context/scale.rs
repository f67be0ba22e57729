//! The size of a context as people see it.
//!
//! Owns the conversion of base estimates to shown tokens: the whole context is as large as the [`Meter`] says, which knows the
//! provider's last report, and each part has its share of that. Every place that shows a size uses it, so that no two places
//! contradict each other, and the parts add up to the whole.

use super::budget::Meter;
use becket_types::Tokens;

/// The shown size of one context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextScale {
    used: Tokens,
    base: Tokens,
}

impl ContextScale {
    /// `used`: the size that is shown. `base`: the base estimate of the same context.
    pub fn new(used: Tokens, base: Tokens) -> Self {
        Self { used, base }
    }

    /// Returns the scale of a context to which nothing was added since `meter` was stored.
    pub fn of_recorded(meter: &Meter, base: Tokens) -> Self {
        Self::new(meter.used(base), base)
    }

    /// Returns the size of the whole context.
    pub fn total(self) -> Tokens {
        self.used
    }

    /// Returns the shown size of a part, or of a slightly different context, whose base estimate is `base`.
    pub fn scaled(self, base: Tokens) -> Tokens {
        match self.base.0 {
            0 => base,
            whole => Tokens((base.0 as f64 * self.used.0 as f64 / whole as f64).round() as u64),
        }
    }

    /// Scales the parts of the whole context in place. They add up to [`Self::total`], unless all of them are empty.
    pub fn split<'a>(self, parts: impl Iterator<Item = &'a mut Tokens>) {
        let parts: Vec<&mut Tokens> = parts.collect();
        let sum = Tokens(parts.iter().map(|part| part.0).sum());
        let scale = Self::new(self.used, sum);
        let (mut seen, mut before) = (0, Tokens(0));
        for part in parts {
            seen += part.0;
            // Rounding each running sum and taking differences makes the parts add up exactly.
            let upto = scale.scaled(Tokens(seen));
            *part = Tokens(upto.0 - before.0);
            before = upto;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_add_up_to_the_whole(
            parts in prop::collection::vec(0u64..100_000, 0..40),
            used in 0u64..2_000_000,
        ) {
            let sum: u64 = parts.iter().sum();
            let mut split: Vec<Tokens> = parts.iter().copied().map(Tokens).collect();
            let scale = ContextScale::new(Tokens(used), Tokens(sum));
            scale.split(split.iter_mut());
            let all: u64 = split.iter().map(|part| part.0).sum();
            prop_assert_eq!(all, if sum == 0 { 0 } else { used });
            for (part, base) in split.iter().zip(&parts) {
                prop_assert!(part.0.abs_diff(scale.scaled(Tokens(*base)).0) <= 1);
            }
        }
    }
}
