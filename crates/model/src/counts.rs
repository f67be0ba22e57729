//! Reads the numbers of tokens in the usage that a provider reports.
//!
//! Pure. A number that cannot be right makes the whole report worthless: one such number could end a run at its limit or fill its
//! context at once. The caller then counts with its own estimate, as if nothing had been reported.

use serde_json::Value;

/// Largest believed number of tokens. The largest windows have a tenth of that.
const MOST: u64 = 100_000_000;

/// A report, and if one of its numbers cannot be right.
pub(crate) struct Counts<'a> {
    report: &'a Value,
    pub(crate) is_wrong: bool,
}

impl<'a> Counts<'a> {
    /// Returns `None` if this is not a report.
    pub(crate) fn of(report: &'a Value) -> Option<Self> {
        report.is_object().then_some(Self { report, is_wrong: false })
    }

    /// Returns the number at a JSON pointer; `None` if there is none, or one that cannot be right.
    pub(crate) fn find(&mut self, pointer: &str) -> Option<u64> {
        let value = self.report.pointer(pointer).filter(|value| !value.is_null())?;
        let whole = value.as_f64().filter(|number| number.fract() == 0.0 && *number >= 0.0);
        // Some servers write whole numbers as 12.0.
        let count = value.as_u64().or_else(|| whole.map(|number| number as u64));
        let count = count.filter(|count| *count <= MOST);
        self.is_wrong |= count.is_none();
        count
    }

    /// Returns the number at a JSON pointer, or 0.
    pub(crate) fn at(&mut self, pointer: &str) -> u64 {
        self.find(pointer).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_that_cannot_be_right() {
        for (number, want) in [
            (json!(0), Some(0)),
            (json!(12), Some(12)),
            (json!(12.0), Some(12)),
            (json!(100_000_000), Some(100_000_000)),
            (json!(100_000_001), None),
            (json!(1_000_000_000_000_000_000_u64), None),
            (json!(1e300), None),
            (json!(-1), None),
            (json!(-0.5), None),
            (json!(12.7), None),
            (json!("12"), None),
            (json!([1]), None),
        ] {
            let report = json!({ "a": { "b": number } });
            let mut counts = Counts::of(&report).unwrap();
            assert_eq!((counts.find("/a/b"), counts.is_wrong), (want, want.is_none()), "{report}");
        }
        let report = json!({ "a": null });
        let mut counts = Counts::of(&report).unwrap();
        assert_eq!((counts.at("/a"), counts.at("/b/c"), counts.is_wrong), (0, 0, false));
        assert!(Counts::of(&Value::Null).is_none());
    }
}
