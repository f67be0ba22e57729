//! Texts and numbers on the page: masked, escaped, and independent of the machine.

use crate::export::is_hidden_in_export;
use becket_session::secrets::mask;
use becket_types::Millis;
use becket_types::invisible::show_hidden;
use std::fmt::Write as _;

/// Masks and escapes a text.
pub(in super::super) fn text(text: &str, masked: &mut usize) -> String {
    let (text, count) = mask(text);
    *masked += count;
    escape(&text)
}

/// Escapes a text. Characters that nobody would see, or that change the direction of text, are replaced by a visible form, as in the
/// terminal.
pub(in super::super) fn escape(text: &str) -> String {
    let text = show_hidden(text, is_hidden_in_export, |out, c| {
        let _ = write!(out, "⟨U+{:04X}⟩", u32::from(c));
    });
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

pub(in super::super) fn thousands(n: u64) -> String {
    if n < 1_000 { n.to_string() } else { format!("{:.1}k", n as f64 / 1_000.0) }
}

/// Formats a time as `2026-11-21 14:05` in UTC, so that the page does not depend on the time zone.
pub(super) fn moment(time: Millis) -> String {
    let days = i64::try_from(time.0 / 86_400_000).unwrap_or(0);
    let of_day = time.0 % 86_400_000 / 60_000;
    // Converts days since 1970 to a date. The calculation uses eras of 400 years, and years that begin in March, so that a leap day is the
    // last day of its year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", of_day / 60, of_day % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (millis, want) in [
            (0, "1970-01-01 00:00"),
            (951_782_400_000, "2000-02-29 00:00"),
            (1_709_209_815_250, "2024-02-29 12:30"),
            (1_795_269_906_789, "2026-11-21 14:05"),
        ] {
            assert_eq!(moment(Millis(millis)), want);
        }
    }
}
