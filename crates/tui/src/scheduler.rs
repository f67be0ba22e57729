//! Timing of frames: at once after an action of the user, at most sixty a second while text streams, and none if
//! nothing changed. Also the timers that panes ask for.

use crate::input::Timer;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Shortest time between two frames while text streams.
const FRAME: Duration = Duration::from_millis(16);

/// Times of the last and the next frame.
#[derive(Debug, Default)]
pub struct Scheduler {
    due: Option<Instant>,
    last: Option<Instant>,
    /// Earliest time of the next frame.
    held: Option<Instant>,
}

impl Scheduler {
    /// Schedules a frame at once, because the user waits for the effect of an action.
    pub fn at_once(&mut self, now: Instant) {
        self.due = Some(now);
    }

    /// Schedules a frame after a change that can wait.
    pub fn soon(&mut self, now: Instant) {
        let at = self.last.map_or(now, |last| now.max(last + FRAME));
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Returns the time of the next frame; `None` if nothing changed.
    pub fn due(&self) -> Option<Instant> {
        self.due.map(|due| self.held.map_or(due, |held| due.max(held)))
    }

    /// Draws no frame before `until`, for any reason.
    pub fn hold(&mut self, until: Instant) {
        self.held = Some(until);
    }

    /// Records that a frame was drawn.
    pub fn drawn(&mut self, now: Instant) {
        self.due = None;
        self.last = Some(now);
    }
}

/// Timers that panes asked for.
///
/// Invariant: seconds of [`Timer::Clock`] are counted by the clock. A busy machine may report them late, but then it
/// reports as many as have passed.
#[derive(Debug, Default)]
pub struct Timers {
    due: BTreeMap<Timer, Instant>,
    /// The time up to which the clock has counted, while it runs.
    counted: Option<Instant>,
}

impl Timers {
    /// Sets a timer that runs out after this many milliseconds.
    pub fn wake(&mut self, millis: u64, timer: Timer, now: Instant) {
        let from = self.counted.filter(|_| timer == Timer::Clock).unwrap_or(now);
        self.due.insert(timer, from + Duration::from_millis(millis));
    }

    /// Returns the time at which the next timer runs out.
    pub fn next(&self) -> Option<Instant> {
        self.due.values().min().copied()
    }

    /// Removes a timer that has run out. Returns how often it has to be reported: once, or for the clock once for each
    /// second that has passed.
    pub fn expire(&mut self, now: Instant) -> Option<(Timer, u64)> {
        let (timer, at) = self.due.iter().min_by_key(|(_, at)| **at).map(|(timer, at)| (*timer, *at))?;
        if at > now {
            return None;
        }
        self.due.remove(&timer);
        let late = if timer == Timer::Clock { (now - at).as_secs() } else { 0 };
        if timer == Timer::Clock {
            self.counted = Some(at + Duration::from_secs(late));
        }
        Some((timer, 1 + late))
    }

    /// Forgets the time of the clock, because nothing counts seconds any more.
    pub(crate) fn stop_clock(&mut self) {
        if !self.due.contains_key(&Timer::Clock) {
            self.counted = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streaming_is_held_to_sixty_frames_and_keys_are_not() {
        let start = Instant::now();
        let ms = |n| start + Duration::from_millis(n);
        let mut scheduler = Scheduler::default();
        assert_eq!(scheduler.due(), None);
        scheduler.soon(start);
        assert_eq!(scheduler.due(), Some(start));
        scheduler.drawn(start);
        assert_eq!(scheduler.due(), None);
        scheduler.soon(ms(1));
        scheduler.soon(ms(2));
        assert_eq!(scheduler.due(), Some(ms(16)));
        scheduler.at_once(ms(3));
        assert_eq!(scheduler.due(), Some(ms(3)));
        scheduler.drawn(ms(3));
        scheduler.soon(ms(40));
        assert_eq!(scheduler.due(), Some(ms(40)));
        scheduler.hold(ms(90));
        scheduler.at_once(ms(41));
        assert_eq!(scheduler.due(), Some(ms(90)));
        scheduler.drawn(ms(90));
        scheduler.at_once(ms(100));
        assert_eq!(scheduler.due(), Some(ms(100)));
    }

    #[test]
    fn seconds_are_counted_by_the_clock_and_not_by_how_often_it_was_looked_at() {
        let start = Instant::now();
        let ms = |n| start + Duration::from_millis(n);
        let mut timers = Timers::default();
        timers.wake(1_000, Timer::Clock, start);
        assert_eq!((timers.next(), timers.expire(ms(999))), (Some(ms(1_000)), None));
        // The machine was busy: the timer is handled late, and the next second began on time all the same.
        assert_eq!(timers.expire(ms(4_300)), Some((Timer::Clock, 4)));
        (0..4).for_each(|_| timers.wake(1_000, Timer::Clock, ms(4_350)));
        assert_eq!(timers.next(), Some(ms(5_000)));
        assert_eq!(timers.expire(ms(5_010)), Some((Timer::Clock, 1)));
        // The turn is over. The next one begins at its own time.
        timers.stop_clock();
        timers.wake(1_000, Timer::Clock, ms(9_000));
        assert_eq!(timers.next(), Some(ms(10_000)));
        // Other timers begin when they are set.
        timers.wake(300, Timer::Arm, ms(9_050));
        assert_eq!(timers.expire(ms(9_900)), Some((Timer::Arm, 1)));
        assert_eq!(timers.expire(ms(9_900)), None);
    }
}
