//! When the next frame is due: at once for what a person did, at most sixty a second for what streams, never without cause.

use std::time::{Duration, Instant};

/// Between two frames of streaming.
const FRAME: Duration = Duration::from_millis(16);

#[derive(Debug, Default)]
pub struct Scheduler {
    due: Option<Instant>,
    last: Option<Instant>,
}

impl Scheduler {
    /// A person did something: they wait for it.
    pub fn at_once(&mut self, now: Instant) {
        self.due = Some(now);
    }

    /// Something changed that can wait for the next frame.
    pub fn soon(&mut self, now: Instant) {
        let at = self.last.map_or(now, |last| now.max(last + FRAME));
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// When to draw; `None` while nothing changed.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// A frame was drawn.
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
    }
}
