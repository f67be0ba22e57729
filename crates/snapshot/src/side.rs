//! Does the same work on many items, with as many threads as make it faster.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, available_parallelism, scope};

/// Limit on threads: more would only wait for the disk and for each other.
const MOST: usize = 8;
/// Number of small items that are worth one more thread.
const FEW: usize = 32;

/// Calls `work` with each number below `large + small` and returns the results in order. `large` items are worth a thread
/// each, `small` ones only [`FEW`] together. All threads have ended when this returns.
pub(crate) fn each<T: Send>(large: usize, small: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let cores = available_parallelism().map_or(1, usize::from);
    let threads = cores.min(MOST).min(large + small.div_ceil(FEW));
    each_on(threads, large + small, work)
}

fn each_on<T: Send>(threads: usize, count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let some = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return done;
            }
            done.push((at, work(at)));
        }
    };
    let mut all = scope(|scope| {
        // If the system cannot start another thread, the existing ones do all of the work.
        let others: Vec<_> =
            (1..threads).map_while(|_| Builder::new().spawn_scoped(scope, some).ok()).collect();
        let mut all = some();
        for other in others {
            all.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        all
    });
    all.sort_unstable_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, done)| done).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_done_once_and_in_its_place_however_many_threads_there_are() {
        for threads in [1, 2, 7] {
            for count in [0, 1, 5, 1000] {
                let times = AtomicUsize::new(0);
                let done = each_on(threads, count, |at| {
                    times.fetch_add(1, Ordering::Relaxed);
                    at * 2
                });
                assert_eq!(done, (0..count).map(|at| at * 2).collect::<Vec<_>>());
                assert_eq!(times.into_inner(), count);
            }
        }
    }
}
