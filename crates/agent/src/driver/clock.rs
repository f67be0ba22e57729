//! The two clocks of the driver: one for waits, which tests can pause, and one for state that outlives the process.

use becket_types::Millis;
use std::time::SystemTime;
use tokio::time::Instant;

pub(super) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Wall-clock time, for state that outlives the process (the breaker of the compaction governor).
pub(super) fn wall_clock() -> Millis {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Millis(since.map_or(0, |d| d.as_millis() as u64))
}
