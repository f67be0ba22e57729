//! Waiting for a provider whose quota is used up: the length of the wait, its record in the session, and a pause that
//! ends on time although the machine slept meanwhile.
//!
//! Pure except for [`Pause`]. Does not decide if a run may wait; the driver does.

use becket_model::{ErrorKind, ModelError};
use becket_types::Millis;
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// Name of the session state that holds the wait.
pub(crate) const WAITING: &str = "waiting_until";
/// The wait if the provider names none.
const UNNAMED: Duration = Duration::from_mins(5);
/// The longest sleep before the wall clock is read again.
const LOOK: Duration = Duration::from_secs(20);

/// A wait for a quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QuotaWait {
    /// Wall-clock time at which the next request may succeed.
    pub(crate) until: Millis,
    /// `provider/name`.
    pub(crate) model: String,
    /// The provider's message.
    pub(crate) why: String,
}

impl QuotaWait {
    /// The wait after this error of a model; `None` if waiting does not help.
    pub(crate) fn after(error: &ModelError, model: &str, now: Millis) -> Option<Self> {
        if !matches!(error.kind, ErrorKind::WaitTooLong | ErrorKind::RateLimit) {
            return None;
        }
        let wait = error.retry_after.unwrap_or(Millis(UNNAMED.as_millis() as u64));
        let until = Millis(now.0.saturating_add(wait.0));
        Some(Self { until, model: model.to_owned(), why: error.message.clone() })
    }

    /// The rest of the wait; `None` if it is over.
    pub(crate) fn left(&self, now: Millis) -> Option<Duration> {
        let left = self.until.0.saturating_sub(now.0);
        (left > 0).then(|| Duration::from_millis(left))
    }

    /// The end of the wait: `until 14:05 UTC, in 1 h 58 min`.
    pub(crate) fn words(&self, now: Millis) -> String {
        let minutes = self.until.0 / 60_000;
        let seconds = self.until.0.saturating_sub(now.0).div_ceil(1_000);
        let left = match (seconds / 3_600, seconds.div_ceil(60)) {
            (0, _) if seconds < 120 => format!("{seconds} s"),
            (0, minutes) => format!("{minutes} min"),
            (hours, _) => format!("{hours} h {} min", seconds % 3_600 / 60),
        };
        format!("until {:02}:{:02} UTC, in {left}", minutes / 60 % 24, minutes % 60)
    }
}

/// A pause. It ends by the monotonic clock, or by the wall clock if the machine slept meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pause {
    at: Instant,
    wall: SystemTime,
}

impl Pause {
    pub(crate) fn new(delay: Duration) -> Self {
        let now = SystemTime::now();
        Self { at: Instant::now() + delay, wall: now.checked_add(delay).unwrap_or(now) }
    }

    /// Waits for the end. Dropping the future loses nothing.
    pub(crate) async fn over(&self) {
        loop {
            let now = Instant::now();
            if now >= self.at || SystemTime::now() >= self.wall {
                return;
            }
            tokio::time::sleep_until(self.at.min(now + LOOK)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply_error::ended_early;

    fn error(kind: ErrorKind, retry_after: Option<u64>) -> ModelError {
        ModelError { kind, retry_after: retry_after.map(Millis), ..ended_early() }
    }

    #[test]
    fn only_a_used_up_quota_is_waited_for() {
        let now = Millis(1_000_000);
        let until = |kind, asked| QuotaWait::after(&error(kind, asked), "p/m", now).map(|wait| wait.until.0);
        assert_eq!(until(ErrorKind::WaitTooLong, Some(7_200_000)), Some(8_200_000));
        assert_eq!(until(ErrorKind::RateLimit, None), Some(1_300_000));
        for kind in [ErrorKind::Billing, ErrorKind::Overloaded, ErrorKind::Auth, ErrorKind::Server] {
            assert_eq!(until(kind, Some(5)), None, "{kind:?}");
        }
    }

    #[test]
    fn the_end_of_a_wait_in_words() {
        let now = Millis(10 * 3_600_000);
        for (left, want) in [
            (45_000, "until 10:00 UTC, in 45 s"),
            (130_000, "until 10:02 UTC, in 3 min"),
            (2 * 3_600_000 + 300_000, "until 12:05 UTC, in 2 h 5 min"),
            (15 * 3_600_000, "until 01:00 UTC, in 15 h 0 min"),
        ] {
            let wait = QuotaWait { until: Millis(now.0 + left), model: String::new(), why: String::new() };
            assert_eq!(wait.words(now), want);
            assert_eq!(wait.left(now), Some(Duration::from_millis(left)));
            assert_eq!(wait.left(wait.until), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_as_long_as_it_should_be() {
        let started = Instant::now();
        Pause::new(Duration::from_hours(2)).over().await;
        assert_eq!(started.elapsed(), Duration::from_hours(2));
    }
}
