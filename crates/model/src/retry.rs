//! Decides if a request is sent again, and after what delay.
//!
//! Pure: takes an error and the number of attempts, returns a delay or the final error. Delays double from one second to half
//! a minute, plus up to a quarter of jitter. If a server asks for a longer wait, that wait is used. If it asks for more than
//! the user's limit, the error is reported at once. A server that loads its model is asked again every few seconds, with a
//! time limit of its own. Permanent errors are not retried.

use crate::{ErrorKind, ModelError};
use becket_types::Millis;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(32);
/// First delay for a server on this machine and for name resolution. Both work at once or not at all, so delays are short
/// and the error is reported within 3 s.
const QUICK_FIRST: Duration = Duration::from_millis(300);
const LOCAL_ATTEMPTS: u32 = 4;
/// Time between two requests to a server that loads its model.
const LOOK: Duration = Duration::from_secs(2);
/// Attempts to resolve a name. Few, because the resolver itself tries several times.
const DNS_ATTEMPTS: u32 = 3;
/// Attempts at an overloaded model if the caller can switch to another one.
const REPLACEABLE_ATTEMPTS: u32 = 3;
/// Attempts if a success status comes with a body that is not an answer.
const MALFORMED_ATTEMPTS: u32 = 2;
/// Attempts after a stalled answer. Few, because each has already cost minutes.
const STALLED_ATTEMPTS: u32 = 2;
/// Attempts if the caller can do without the answer: two retries, after 1 s and 2 s.
const BRIEF_ATTEMPTS: u32 = 3;
/// Longest wait that a server may ask for in that case.
const BRIEF_WAIT: Duration = Duration::from_secs(3);

/// Limits on retries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// Requests in all, the first included.
    pub max_attempts: u32,
    /// Longest wait between two attempts. If a server asks for a longer one, its error is final.
    pub max_wait: Duration,
    /// Longest wait for a model that is being loaded.
    pub max_loading: Duration,
    /// The server is on this machine.
    pub local: bool,
    /// The caller can switch to another model.
    pub replaceable: bool,
    /// The caller can do without the answer: a few seconds of retries, no more.
    pub brief: bool,
}

impl Policy {
    fn attempts_for(&self, kind: ErrorKind) -> u32 {
        let limit = match kind {
            ErrorKind::Stalled | ErrorKind::Timeout if self.brief => 1,
            ErrorKind::Malformed => MALFORMED_ATTEMPTS,
            ErrorKind::Stalled | ErrorKind::Timeout => STALLED_ATTEMPTS,
            ErrorKind::Network if self.local => LOCAL_ATTEMPTS,
            ErrorKind::Dns => DNS_ATTEMPTS,
            ErrorKind::Overloaded if self.replaceable => REPLACEABLE_ATTEMPTS,
            _ => self.max_attempts,
        };
        let most = if self.brief { BRIEF_ATTEMPTS } else { u32::MAX };
        limit.min(self.max_attempts).min(most)
    }

    /// Returns the delay before the next request to a server that loads its model, or the final error. `waited` is the time
    /// spent so far.
    pub(crate) fn next_look(&self, waited: Duration, error: ModelError) -> Result<Duration, ModelError> {
        let left = self.max_loading.saturating_sub(waited);
        if !error.retryable {
            return Err(error);
        }
        if left.is_zero() {
            let seconds = self.max_loading.as_secs();
            return Err(ModelError {
                message: format!("{} (becket waited for it for {seconds} s)", error.message),
                hint: Some("Try again once the model is loaded, or raise --max-wait.".to_owned()),
                retryable: false,
                ..error
            });
        }
        let asked = Duration::from_millis(error.retry_after.unwrap_or_default().0);
        Ok(LOOK.max(asked).min(left))
    }

    /// Number of retries after an error of this kind.
    pub(crate) fn retries_for(&self, kind: ErrorKind) -> u32 {
        self.attempts_for(kind).saturating_sub(1)
    }

    /// Returns the delay before the next attempt, or the final error, after attempt number `attempt` (from 1) failed.
    pub(crate) fn next(&self, attempt: u32, error: ModelError, jitter: f64) -> Result<Duration, ModelError> {
        if !error.retryable || attempt >= self.attempts_for(error.kind) {
            return Err(error);
        }
        if self.brief && error.retry_after.is_some_and(|wait| Duration::from_millis(wait.0) > BRIEF_WAIT) {
            return Err(error);
        }
        if let Some(Millis(wait)) = error.retry_after
            && Duration::from_millis(wait) > self.max_wait
        {
            return Err(self.too_long(wait, error));
        }
        let quick = error.kind == ErrorKind::Dns || (self.local && error.kind == ErrorKind::Network);
        let first = if quick { QUICK_FIRST } else { FIRST };
        let doubled = first.saturating_mul(1 << (attempt - 1).min(16)).min(LONGEST);
        let own = doubled.mul_f64(1.0 + jitter.clamp(0.0, 1.0) / 4.0);
        let server = Duration::from_millis(error.retry_after.unwrap_or_default().0);
        // The own delays must not be longer than the wait that the user allows, either.
        Ok(own.max(server).min(self.max_wait))
    }

    fn too_long(&self, wait: u64, error: ModelError) -> ModelError {
        let seconds = wait.div_ceil(1000);
        ModelError {
            kind: ErrorKind::WaitTooLong,
            message: format!(
                "{} The server asks to wait {seconds} s; at most {} s are allowed.",
                error.message,
                self.max_wait.as_secs()
            ),
            hint: Some("Wait and try again, raise --max-wait, or choose another model.".to_owned()),
            retryable: false,
            ..error
        }
    }
}

/// A random number in 0..1, of low quality, which is enough for delays.
pub(crate) fn jitter() -> f64 {
    (RandomState::new().hash_one(0u8) % 1000) as f64 / 1000.0
}

/// The wait that a server asks for: `retry-after-ms`, otherwise `retry-after` in seconds or as a date. Invalid values are
/// ignored.
pub(crate) fn wait_from_headers<'a>(
    get: impl Fn(&str) -> Option<&'a str>,
    now: jiff::Timestamp,
) -> Option<Millis> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
    if let Some(ms) = get("retry-after-ms").and_then(number) {
        return Some(Millis(ms.min(1e15) as u64));
    }
    let value = get("retry-after")?;
    if let Some(seconds) = number(value) {
        return Some(Millis((seconds * 1000.0).min(1e15) as u64));
    }
    let date = jiff::fmt::rfc2822::parse(value.trim()).ok()?;
    let millis = date.timestamp().as_millisecond().saturating_sub(now.as_millisecond());
    Some(Millis(millis.max(0) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: Policy = Policy {
        max_attempts: 6,
        max_wait: Duration::from_mins(1),
        max_loading: Duration::from_secs(9),
        local: false,
        replaceable: false,
        brief: false,
    };

    fn failing(kind: ErrorKind, retry_after: Option<u64>) -> ModelError {
        let mut error = ModelError::new(kind, "x");
        error.retry_after = retry_after.map(Millis);
        error
    }

    #[test]
    fn delays_double_from_a_second_and_end_after_six_attempts() {
        let delays: Vec<Option<u64>> = (1..=6)
            .map(|n| POLICY.next(n, failing(ErrorKind::Overloaded, None), 0.0).ok().map(|d| d.as_secs()))
            .collect();
        assert_eq!(delays, [Some(1), Some(2), Some(4), Some(8), Some(16), None]);
    }

    #[test]
    fn a_longer_wait_of_the_server_is_honoured_up_to_the_limit() {
        let next = |ms| POLICY.next(1, failing(ErrorKind::RateLimit, Some(ms)), 0.0);
        assert_eq!(next(0).unwrap(), Duration::from_secs(1));
        assert_eq!(next(5_000).unwrap(), Duration::from_secs(5));
        assert_eq!(next(60_000).unwrap(), Duration::from_mins(1));
        let error = next(3_600_000).unwrap_err();
        assert_eq!((error.kind, error.retryable), (ErrorKind::WaitTooLong, false));
        assert!(error.message.contains("3600 s"), "{}", error.message);
    }

    #[test]
    fn no_delay_is_longer_than_the_wait_that_the_user_allows() {
        let policy = Policy { max_wait: Duration::from_secs(5), ..POLICY };
        for asked in [None, Some(2_000)] {
            let delays: Vec<Duration> = (1..9)
                .map_while(|n| policy.next(n, failing(ErrorKind::RateLimit, asked), 1.0).ok())
                .collect();
            assert_eq!(delays.len(), 5);
            assert!(delays.iter().all(|delay| *delay <= policy.max_wait), "{delays:?}");
            assert!(delays.contains(&policy.max_wait), "{delays:?}");
        }
    }

    #[test]
    fn what_never_heals_is_not_retried() {
        use ErrorKind as K;
        for (kind, attempts) in [
            (K::Auth, 1),
            (K::Billing, 1),
            (K::NotFound, 1),
            (K::Tls, 1),
            (K::ContextOverflow, 1),
            (K::TooLarge, 1),
            (K::InvalidRequest, 1),
            (K::Template, 1),
            (K::Refusal, 1),
            (K::Script, 1),
            (K::WaitTooLong, 1),
            (K::Malformed, 2),
            (K::Stalled, 2),
            (K::Timeout, 2),
            (K::RateLimit, 6),
            (K::Overloaded, 6),
            (K::Server, 6),
            (K::Network, 6),
            (K::Dns, 3),
            (K::StreamBroken, 6),
        ] {
            let mut attempt = 1;
            while POLICY.next(attempt, failing(kind, None), 0.5).is_ok() {
                attempt += 1;
            }
            assert_eq!(attempt, attempts, "{kind:?}");
            let replaceable = Policy { replaceable: true, ..POLICY };
            let fewer = if kind == K::Overloaded { 3 } else { attempts };
            assert!(replaceable.next(fewer, failing(kind, None), 0.5).is_err(), "{kind:?}");
            assert!(fewer == 1 || replaceable.next(fewer - 1, failing(kind, None), 0.5).is_ok(), "{kind:?}");
        }
    }

    #[test]
    fn a_request_that_the_caller_can_do_without_costs_a_few_seconds_at_most() {
        use ErrorKind as K;
        let policy = Policy { brief: true, ..POLICY };
        for (kind, attempts) in [
            (K::Auth, 1),
            (K::Billing, 1),
            (K::NotFound, 1),
            (K::InvalidRequest, 1),
            (K::Stalled, 1),
            (K::Timeout, 1),
            (K::Malformed, 2),
            (K::RateLimit, 3),
            (K::Overloaded, 3),
            (K::Server, 3),
            (K::Network, 3),
            (K::Dns, 3),
        ] {
            for asked in [None, Some(0), Some(3_000), Some(3_001), Some(600_000)] {
                let (mut attempt, mut waited) = (1, Duration::ZERO);
                while let Ok(delay) = policy.next(attempt, failing(kind, asked), 1.0) {
                    waited += delay;
                    attempt += 1;
                }
                assert!(waited <= Duration::from_secs(6), "{kind:?} {asked:?}: {waited:?}");
                let most = if asked > Some(3_000) { 1 } else { attempts };
                assert_eq!(attempt, most, "{kind:?} {asked:?}");
            }
        }
    }

    #[test]
    fn a_local_server_that_is_not_there_fails_within_three_seconds() {
        let policy = Policy { local: true, ..POLICY };
        let total: Duration =
            (1..9).map_while(|n| policy.next(n, failing(ErrorKind::Network, None), 1.0).ok()).sum();
        assert!(total < Duration::from_secs(3) && total > Duration::from_secs(1), "{total:?}");
    }

    #[test]
    fn a_name_that_does_not_resolve_is_given_up_soon() {
        let total: Duration =
            (1..9).map_while(|n| POLICY.next(n, failing(ErrorKind::Dns, None), 1.0).ok()).sum();
        assert!(total < Duration::from_secs(2), "{total:?}");
    }

    #[test]
    fn a_model_that_is_being_loaded_is_looked_at_until_the_time_is_up() {
        let looks = |retry_after| {
            let mut waited = Duration::ZERO;
            let mut looks = Vec::new();
            loop {
                match POLICY.next_look(waited, failing(ErrorKind::Loading, retry_after)) {
                    Ok(delay) => {
                        waited += delay;
                        looks.push(delay.as_secs());
                    }
                    Err(error) => return (looks, error),
                }
            }
        };
        let (seconds, error) = looks(None);
        assert_eq!(seconds, [2, 2, 2, 2, 1]);
        assert!(error.message.contains("9 s") && !error.retryable, "{error:?}");
        assert!(error.hint.unwrap().contains("--max-wait"));
        assert_eq!(looks(Some(5_000)).0, [5, 4], "the server's own wish counts");
        let forbidden = ModelError { retryable: false, ..failing(ErrorKind::Loading, None) };
        assert_eq!(POLICY.next_look(Duration::ZERO, forbidden.clone()), Err(forbidden));
    }

    #[test]
    fn retry_after_in_all_its_forms() {
        let now: jiff::Timestamp = "2026-11-20T10:00:00Z".parse().unwrap();
        for (ms, after, want) in [
            (None, None, None),
            (None, Some("0"), Some(0)),
            (None, Some("1"), Some(1000)),
            (None, Some("1.5"), Some(1500)),
            (None, Some("3600"), Some(3_600_000)),
            (None, Some("Fri, 20 Nov 2026 10:00:30 GMT"), Some(30_000)),
            (None, Some("Fri, 20 Nov 2026 09:00:00 GMT"), Some(0)),
            (None, Some("soon"), None),
            (None, Some("-5"), None),
            (None, Some("NaN"), None),
            (Some("250"), Some("9"), Some(250)),
            (Some("x"), Some("9"), Some(9000)),
        ] {
            let get = |name: &str| if name == "retry-after-ms" { ms } else { after };
            assert_eq!(wait_from_headers(get, now), want.map(Millis), "{ms:?} {after:?}");
        }
    }
}
