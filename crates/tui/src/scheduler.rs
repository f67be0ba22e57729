//! Timing of frames: at once after an action of the user, at most sixty a second while text streams, and none if
//! nothing changed.

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
}
