//! Images that are drawn over the frame by sixels or iTerm2's protocol: which image the terminal shows at which cells,
//! and which must be drawn again.
//!
//! Model: cells of the frame say which piece of which image belongs there
//! ([`transcript::image`](crate::transcript::image)). The painter leaves those cells blank, which erases what was
//! there. If a row of an image was touched, all complete rows of the image are drawn again. So an image disappears with
//! its cells, and nothing is sent while nothing moves.
//!
//! Invariants:
//! - Nothing is drawn on the last row of the screen, where some terminals would scroll.
//! - The transfer rate is limited ([`RATE`]): an image that moves faster than that stays blank meanwhile.
//! - At most [`KEPT`] bytes of images are kept. An image that was evicted and is needed again is in
//!   [`Pictures::take_missing`].

use crate::graphics::Scaled;
use crate::transcript::image;
use ratatui::buffer::{Buffer, Cell};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of bytes of images that are kept.
const KEPT: usize = 8 << 20;
/// Maximum number of bytes of images that are sent to the terminal in a second.
const RATE: usize = 2 << 20;

#[derive(Debug, Default)]
pub(super) struct Pictures {
    /// Counter of uses, for evicting the oldest image; `None` until the first image arrives by this protocol.
    used: Option<u64>,
    known: BTreeMap<u32, CachedImage>,
    /// Images that the terminal shows, by number, and the rows that are drawn.
    standing: BTreeMap<u32, Vec<Run>>,
    /// Images that lost a cell because the frame overwrote it.
    touched: BTreeSet<u32>,
    /// Time at which the rate limit allows the next transfer.
    free: Option<Instant>,
    /// An image waits for the time in `free`.
    waits: bool,
    missing: BTreeSet<u32>,
}

#[derive(Debug)]
struct CachedImage {
    image: Arc<Scaled>,
    used: u64,
}

/// Complete rows of an image that are consecutive on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    x: u16,
    y: u16,
    /// The first of these rows, counted within the image.
    from: u16,
    rows: u16,
}

impl Pictures {
    /// Adds an image to be drawn over the cells that carry its number (see [`image`]).
    pub(super) fn give(&mut self, number: u32, image: Arc<Scaled>) {
        let used = self.tick();
        self.known.insert(number, CachedImage { image, used });
        self.standing.remove(&number);
        let weight =
            |known: &BTreeMap<u32, CachedImage>| known.values().map(|k| k.image.weight()).sum::<usize>();
        while weight(&self.known) > KEPT
            && let Some(oldest) =
                self.known.iter().filter(|(n, _)| **n != number).min_by_key(|(_, k)| k.used).map(|(n, _)| *n)
        {
            self.known.remove(&oldest);
        }
    }

    /// Drops all images, because the size of a cell has changed.
    pub(super) fn drop_known(&mut self) {
        self.known.clear();
        self.standing.clear();
    }

    /// Records that the screen was cleared.
    pub(super) fn erased(&mut self) {
        self.standing.clear();
    }

    fn tick(&mut self) -> u64 {
        *self.used.insert(self.used.unwrap_or_default() + 1)
    }

    /// True if this cell is a piece of an image and not text.
    pub(super) fn has(&self, cell: &Cell) -> bool {
        self.used.is_some() && image::is_piece(cell)
    }

    /// Records that the cell was written as a blank.
    pub(super) fn touch(&mut self, cell: &Cell) {
        self.touched.extend(image::piece(cell).map(|piece| piece.number));
    }

    /// Returns the numbers of images in the frame that were evicted or never sent.
    pub(super) fn take_missing(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.missing).into_iter().collect()
    }

    /// Returns the time at which a waiting image may be drawn.
    pub(super) fn due(&self) -> Option<Instant> {
        self.free.filter(|_| self.waits)
    }

    /// Writes the bytes that draw all images which are due. The position of the cursor is undefined afterwards.
    pub(super) fn paint(&mut self, next: &Buffer, now: Instant, out: &mut Vec<u8>) -> io::Result<()> {
        if self.used.is_none() {
            return Ok(());
        }
        self.waits = false;
        let used = self.tick();
        let runs = self.runs(next);
        let touched = std::mem::take(&mut self.touched);
        self.standing.retain(|number, _| runs.contains_key(number) && !touched.contains(number));
        for (number, runs) in runs {
            let Some(known) = self.known.get_mut(&number) else { continue };
            known.used = used;
            if self.standing.get(&number) == Some(&runs) {
                continue;
            }
            self.standing.remove(&number);
            if self.free.is_some_and(|free| free > now) {
                self.waits = true;
                continue;
            }
            let before = out.len();
            for run in &runs {
                for (row, bytes) in known.image.draw(run.from, run.rows) {
                    write!(out, "\x1b[{};{}H", run.y + row + 1, run.x + 1)?;
                    out.extend_from_slice(bytes.as_bytes());
                }
            }
            let sent = (out.len() - before) as u64;
            self.free = Some(now + Duration::from_micros(sent * 1_000_000 / RATE as u64));
            self.standing.insert(number, runs);
        }
        Ok(())
    }

    /// Finds the complete rows of images in the frame.
    fn runs(&mut self, next: &Buffer) -> BTreeMap<u32, Vec<Run>> {
        let mut runs: BTreeMap<u32, Vec<Run>> = BTreeMap::new();
        let width = usize::from(next.area.width).max(1);
        let last = usize::from(next.area.height).saturating_sub(1);
        for (y, row) in next.content.chunks(width).take(last).enumerate() {
            let mut x = 0;
            while x < row.len() {
                let Some(piece) = image::piece(&row[x]) else {
                    x += 1;
                    continue;
                };
                let belongs = |(i, cell): &(usize, &Cell)| {
                    image::piece(cell).is_some_and(|p| {
                        (p.number, p.row, usize::from(p.column))
                            == (piece.number, piece.row, usize::from(piece.column) + i)
                    })
                };
                let count = row[x..].iter().enumerate().take_while(belongs).count();
                match self.known.get(&piece.number) {
                    Some(known) if piece.column == 0 && count == usize::from(known.image.columns) => {
                        let of = runs.entry(piece.number).or_default();
                        let (x, y) = (x as u16, y as u16);
                        match of.last_mut() {
                            Some(run)
                                if (run.x, run.y + run.rows, run.from + run.rows) == (x, y, piece.row) =>
                            {
                                run.rows += 1;
                            }
                            _ => of.push(Run { x, y, from: piece.row, rows: 1 }),
                        }
                    }
                    Some(_) => {}
                    None => drop(self.missing.insert(piece.number)),
                }
                x += count.max(1);
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graphics::Data;
    use ratatui::layout::Rect;

    /// Returns a screen of ten rows with pieces of an image at these places. The image is two columns wide and has one
    /// byte for each row.
    fn frame(pieces: &[(u16, u16, u16)], number: u32) -> Buffer {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 8, 10));
        for (x, y, row) in pieces {
            for column in 0..2 {
                image::place(&mut buffer[(x + column, *y)], number, *row, column);
            }
        }
        buffer
    }

    fn image(rows: u8) -> Arc<Scaled> {
        Arc::new(Scaled {
            columns: 2,
            rows: rows.into(),
            data: Data::Strips((0..rows).map(|r| vec![r]).collect()),
        })
    }

    /// Returns the screen positions that the bytes draw at.
    fn places(bytes: &[u8]) -> Vec<String> {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        text.split("\x1b[").filter_map(|t| t.split_once('H').map(|(at, _)| at.to_owned())).collect()
    }

    fn painted(pictures: &mut Pictures, next: &Buffer, now: Instant) -> Vec<String> {
        let mut out = Vec::new();
        pictures.paint(next, now, &mut out).unwrap();
        places(&out)
    }

    #[test]
    fn an_image_is_drawn_once_where_it_is_whole_and_anew_where_it_moved() {
        let mut pictures = Pictures::default();
        let now = Instant::now();
        let at = |n: u64| now + Duration::from_secs(n);
        let first = frame(&[(1, 2, 0), (1, 3, 1), (1, 4, 2)], 7);
        assert!(!pictures.has(&first[(1, 2)]), "nothing was given");
        pictures.give(7, image(3));
        assert!(pictures.has(&first[(1, 2)]) && !pictures.has(&first[(0, 2)]));
        assert_eq!(painted(&mut pictures, &first, at(0)), ["3;2", "4;2", "5;2"]);
        assert_eq!(painted(&mut pictures, &first, at(1)), [""; 0]);
        let moved = frame(&[(1, 0, 1), (1, 1, 2)], 7);
        assert_eq!(painted(&mut pictures, &moved, at(2)), ["1;2", "2;2"]);
        // Text covers the second row and then disappears.
        let mut covered = first.clone();
        covered[(2, 3)].set_symbol("x");
        assert_eq!(painted(&mut pictures, &covered, at(3)), ["3;2", "5;2"]);
        assert_eq!(painted(&mut pictures, &first, at(4)), ["3;2", "4;2", "5;2"]);
        // A cell was overwritten, as when the colours of its row change.
        pictures.touch(&first[(1, 3)]);
        assert_eq!(painted(&mut pictures, &first, at(5)), ["3;2", "4;2", "5;2"]);
        pictures.erased();
        assert_eq!(painted(&mut pictures, &first, at(6)), ["3;2", "4;2", "5;2"]);
        // Nothing is drawn on the last row.
        assert_eq!(painted(&mut pictures, &frame(&[(0, 8, 0), (0, 9, 1)], 7), at(7)), ["9;1"]);
    }

    #[test]
    fn images_wait_until_what_was_sent_is_paid_for() {
        let mut pictures = Pictures::default();
        let now = Instant::now();
        let large = Scaled { columns: 2, rows: 1, data: Data::Strips(vec![vec![0; RATE]]) };
        pictures.give(7, Arc::new(large));
        assert_eq!(painted(&mut pictures, &frame(&[(0, 2, 0)], 7), now).len(), 1);
        assert_eq!(pictures.due(), None);
        let moved = frame(&[(0, 1, 0)], 7);
        assert_eq!(painted(&mut pictures, &moved, now + Duration::from_secs(1)).len(), 0);
        let due = pictures.due().unwrap();
        assert_eq!(painted(&mut pictures, &moved, due).len(), 1);
        assert_eq!(pictures.due(), None);
    }

    #[test]
    fn what_is_kept_is_bounded_and_what_is_gone_is_asked_for_when_it_is_seen() {
        let mut pictures = Pictures::default();
        let half = |_| Arc::new(Scaled { columns: 2, rows: 1, data: Data::Strips(vec![vec![0; KEPT / 2]]) });
        (1..=3).for_each(|number| pictures.give(number, half(number)));
        let now = Instant::now();
        assert!(painted(&mut pictures, &frame(&[(0, 2, 0)], 1), now).is_empty());
        assert_eq!(pictures.take_missing(), [1]);
        assert!(pictures.take_missing().is_empty());
        assert_eq!(painted(&mut pictures, &frame(&[(0, 2, 0)], 3), now).len(), 1);
        pictures.drop_known();
        assert!(painted(&mut pictures, &frame(&[(0, 2, 0)], 3), now).is_empty());
        assert_eq!(pictures.take_missing(), [3]);
    }
}
