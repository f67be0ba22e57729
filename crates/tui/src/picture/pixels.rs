//! A frame as pixels, for a PNG, in Spleen's bitmap font (12 × 24, BSD-2-Clause, from the crate `spleen-font`).
//!
//! Owns the characters that the interface draws and the font lacks: blocks by eighths of a cell, arrows and marks by
//! strokes. Any other missing character becomes a box of the character's width. Bold is drawn twice, one pixel apart.
//! Italic is not shown.

use super::{Palette, Rgb, rows};
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::Modifier;
use spleen_font::FONT_12X24;
use std::collections::HashMap;

/// Size of a cell and margin around the picture, in pixels.
const CELL: (usize, usize) = (12, 24);
const MARGIN: usize = 16;

/// An image: rows of pixels with three bytes each (red, green, blue).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pixels {
    pub width: usize,
    pub height: usize,
    pub rgb: Vec<u8>,
}

/// Draws a frame as pixels.
pub fn pixels(buffer: &Buffer, palette: Palette) -> Pixels {
    let font = Font::new(FONT_12X24);
    let width = usize::from(buffer.area.width) * CELL.0 + 2 * MARGIN;
    let height = usize::from(buffer.area.height) * CELL.1 + 2 * MARGIN;
    let (r, g, b) = palette.behind;
    let rgb = [r, g, b].repeat(width * height);
    let mut canvas = Canvas { pixels: Pixels { width, height, rgb }, left: 0, top: 0, ink: palette.text };
    for (y, row) in rows(buffer).enumerate() {
        let mut covered = 0;
        for (x, cell) in row.iter().enumerate() {
            if covered == 0 {
                covered = crate::text::width(cell.symbol()).max(1);
                (canvas.left, canvas.top) = (MARGIN + x * CELL.0, MARGIN + y * CELL.1);
                canvas.cell(&font, cell, covered, palette);
            }
            covered -= 1;
        }
    }
    canvas.pixels
}

/// A font in the format PSF 2: a header of 32 bytes, then bitmaps. For each bitmap follow the characters it represents
/// in UTF-8, ended by a byte 255. After a byte 254 come sequences of several characters, which are ignored.
struct Font {
    bitmaps: &'static [u8],
    /// Index of the bitmap for each character.
    at: HashMap<char, usize>,
}

impl Font {
    const HEAD: usize = 32;
    /// Bytes of one row of pixels, and of one bitmap.
    const ROW: usize = CELL.0.div_ceil(8);
    const BITMAP: usize = Self::ROW * CELL.1;

    fn new(file: &'static [u8]) -> Self {
        let number =
            |at: usize| file.get(at..at + 4).map_or(0, |n| u32::from_le_bytes([n[0], n[1], n[2], n[3]]));
        let end = Self::HEAD + number(16) as usize * Self::BITMAP;
        let bitmaps = file.get(Self::HEAD..end).unwrap_or_default();
        let mut at = HashMap::new();
        for (n, characters) in file.get(end..).unwrap_or_default().split(|byte| *byte == 255).enumerate() {
            let single = characters.split(|byte| *byte == 254).next().unwrap_or_default();
            for c in String::from_utf8_lossy(single).chars() {
                at.entry(c).or_insert(n);
            }
        }
        Self { bitmaps, at }
    }

    fn glyph(&self, c: char) -> Option<&'static [u8]> {
        let from = self.at.get(&c)? * Self::BITMAP;
        self.bitmaps.get(from..from + Self::BITMAP)
    }
}

/// The image, and the position of the current cell.
struct Canvas {
    pixels: Pixels,
    left: usize,
    top: usize,
    ink: Rgb,
}

impl Canvas {
    fn set(&mut self, x: usize, y: usize) {
        let (x, y) = (self.left + x, self.top + y);
        if x < self.pixels.width && y < self.pixels.height {
            let at = (y * self.pixels.width + x) * 3;
            self.pixels.rgb[at..at + 3].copy_from_slice(&<[u8; 3]>::from(self.ink));
        }
    }

    fn fill(&mut self, x: std::ops::Range<usize>, y: std::ops::Range<usize>) {
        for y in y {
            x.clone().for_each(|x| self.set(x, y));
        }
    }

    fn cell(&mut self, font: &Font, cell: &Cell, columns: usize, palette: Palette) {
        let (text, behind) = palette.cell(cell);
        let width = columns * CELL.0;
        if behind != palette.behind {
            self.ink = behind;
            self.fill(0..width, 0..CELL.1);
        }
        self.ink = text;
        let underlined = cell.modifier.contains(Modifier::UNDERLINED);
        let crossed = cell.modifier.contains(Modifier::CROSSED_OUT);
        for (_, y) in [(underlined, 21), (crossed, 12)].into_iter().filter(|(is, _)| *is) {
            self.fill(0..width, y..y + 1);
        }
        let symbol = cell.symbol();
        let Some(c) = symbol.chars().next().filter(|c| *c != ' ') else { return };
        if symbol.chars().count() == 1 && (self.block(c) || self.strokes(c)) {
            return;
        }
        match font.glyph(c).filter(|_| columns == 1) {
            Some(glyph) => {
                let bold = usize::from(cell.modifier.contains(Modifier::BOLD));
                for (y, row) in glyph.chunks(Font::ROW).enumerate() {
                    for x in (0..CELL.0).filter(|x| row[x / 8] & (0x80 >> (x % 8)) != 0) {
                        self.set(x, y);
                        self.set(x + bold, y);
                    }
                }
            }
            None => {
                for edge in [2, CELL.1 - 4] {
                    self.fill(2..width - 2, edge..edge + 1);
                }
                for edge in [2, width - 3] {
                    self.fill(edge..edge + 1, 2..CELL.1 - 3);
                }
            }
        }
    }

    /// Draws a block character by eighths of the cell. Returns false if `c` is not a block character.
    fn block(&mut self, c: char) -> bool {
        let (width, height) = CELL;
        match c {
            '▁'..='█' => {
                let eighths = c as usize - '▁' as usize + 1;
                self.fill(0..width, height - height * eighths / 8..height);
            }
            '▉'..='▏' => {
                let eighths = 7 - (c as usize - '▉' as usize);
                self.fill(0..(width * eighths).div_ceil(8), 0..height);
            }
            '┃' => self.fill(4..8, 0..height),
            '┊' => [1, 7, 13, 19].into_iter().for_each(|y| self.fill(5..7, y..y + 3)),
            '●' => (7..18_usize).for_each(|y| {
                let half = [3, 4, 5, 5, 5, 5, 5, 5, 5, 4, 3][y - 7];
                self.fill(6 - half..6 + half, y..y + 1);
            }),
            '▚' => {
                self.fill(0..width / 2, 0..height / 2);
                self.fill(width / 2..width, height / 2..height);
            }
            _ => return false,
        }
        true
    }

    fn strokes(&mut self, c: char) -> bool {
        let strokes = strokes(c);
        for (from, to) in strokes {
            self.line(*from, *to);
        }
        !strokes.is_empty()
    }

    /// Draws a line that is two pixels wide.
    fn line(&mut self, (x, y): (i32, i32), (to_x, to_y): (i32, i32)) {
        let steps = (to_x - x).abs().max((to_y - y).abs()).max(1);
        for step in 0..=steps {
            let at = |from: i32, to: i32| usize::try_from(from + (to - from) * step / steps).unwrap_or(0);
            let (x, y) = (at(x, to_x), at(y, to_y));
            self.fill(x..x + 2, y..y + 2);
        }
    }
}

/// Start and end of a stroke, in pixels of a cell.
type Stroke = ((i32, i32), (i32, i32));

/// Returns the strokes of a character that the interface draws and the font lacks.
fn strokes(c: char) -> &'static [Stroke] {
    match c {
        '→' => &[((1, 12), (9, 12)), ((5, 8), (9, 12)), ((5, 16), (9, 12))],
        '←' => &[((1, 12), (9, 12)), ((5, 8), (1, 12)), ((5, 16), (1, 12))],
        '↑' => &[((5, 6), (5, 18)), ((1, 10), (5, 6)), ((9, 10), (5, 6))],
        '↓' => &[((5, 6), (5, 18)), ((1, 14), (5, 18)), ((9, 14), (5, 18))],
        '↳' => &[((2, 6), (2, 14)), ((2, 14), (9, 14)), ((6, 11), (9, 14)), ((6, 17), (9, 14))],
        '↵' => &[((9, 6), (9, 14)), ((9, 14), (1, 14)), ((4, 11), (1, 14)), ((4, 17), (1, 14))],
        '❯' => &[((3, 7), (7, 12)), ((7, 12), (3, 17))],
        '▸' => &[
            ((3, 8), (3, 16)),
            ((4, 9), (4, 15)),
            ((5, 10), (5, 14)),
            ((6, 11), (6, 13)),
            ((7, 12), (7, 12)),
        ],
        '✓' => &[((1, 13), (4, 17)), ((4, 17), (9, 7))],
        '∴' => &[((5, 8), (5, 8)), ((2, 15), (2, 15)), ((8, 15), (8, 15))],
        '◐' => &[
            ((1, 9), (1, 15)),
            ((3, 7), (3, 17)),
            ((4, 6), (4, 18)),
            ((5, 6), (7, 6)),
            ((7, 6), (9, 9)),
            ((9, 9), (9, 15)),
            ((9, 15), (7, 18)),
            ((7, 18), (5, 18)),
        ],
        '◑' => &[
            ((9, 9), (9, 15)),
            ((7, 7), (7, 17)),
            ((6, 6), (6, 18)),
            ((5, 6), (3, 6)),
            ((3, 6), (1, 9)),
            ((1, 9), (1, 15)),
            ((1, 15), (3, 18)),
            ((3, 18), (5, 18)),
        ],
        '◓' => &[
            ((3, 7), (7, 7)),
            ((2, 9), (8, 9)),
            ((1, 11), (9, 11)),
            ((1, 11), (1, 15)),
            ((1, 15), (3, 18)),
            ((3, 18), (7, 18)),
            ((7, 18), (9, 15)),
            ((9, 15), (9, 11)),
        ],
        '◒' => &[
            ((3, 17), (7, 17)),
            ((2, 15), (8, 15)),
            ((1, 13), (9, 13)),
            ((1, 13), (1, 9)),
            ((1, 9), (3, 6)),
            ((3, 6), (7, 6)),
            ((7, 6), (9, 9)),
            ((9, 9), (9, 13)),
        ],
        '◌' => &[
            ((5, 6), (5, 6)),
            ((1, 9), (1, 9)),
            ((9, 9), (9, 9)),
            ((1, 15), (1, 15)),
            ((9, 15), (9, 15)),
            ((5, 18), (5, 18)),
        ],
        '⊟' | '□' => {
            &[((1, 7), (9, 7)), ((1, 17), (9, 17)), ((1, 7), (1, 17)), ((9, 7), (9, 17)), ((3, 12), (7, 12))]
        }
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::Theme;
    use ratatui::layout::Rect;
    use std::collections::HashSet;

    /// Returns the pixels that are set in one cell.
    fn drawn(symbol: &str) -> HashSet<(usize, usize)> {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 2, 1));
        buffer.set_string(0, 0, symbol, ratatui::style::Style::new());
        let palette = Palette::of(&Theme::dark());
        let pixels = pixels(&buffer, palette);
        assert_eq!(pixels.rgb.len(), pixels.width * pixels.height * 3);
        assert_eq!((pixels.width, pixels.height), (2 * 12 + 32, 24 + 32));
        let (r, g, b) = palette.behind;
        let at = |n: usize| (n % pixels.width - MARGIN, n / pixels.width - MARGIN);
        let ink = pixels.rgb.chunks(3).enumerate().filter(|(_, rgb)| *rgb != [r, g, b]);
        ink.map(|(n, _)| at(n)).collect()
    }

    #[test]
    fn every_sign_of_the_interface_is_drawn_as_itself() {
        let signs = "Aa0é─│┃┊┼▄░▒▓●○✗·…•→←↑↓↳❯▸✓∴◐◓◑◒◌⊟▁▂▃▅▆▇▏▚";
        let mut seen = HashSet::new();
        let unknown = drawn("\u{e000}");
        for sign in signs.chars() {
            let pixels = drawn(&sign.to_string());
            assert!(!pixels.is_empty() && pixels != unknown, "{sign}");
            let mut pixels: Vec<_> = pixels.into_iter().collect();
            pixels.sort_unstable();
            assert!(seen.insert(pixels), "{sign} looks like another one");
        }
        assert!(drawn(" ").is_empty());
    }

    #[test]
    fn blocks_fill_their_part_and_what_the_font_lacks_is_a_box() {
        assert_eq!(drawn("█").len(), 12 * 24);
        assert_eq!(drawn("▄").len(), 12 * 12);
        assert_eq!(drawn("▌").len(), 6 * 24);
        let wide = drawn("日");
        assert!(wide.iter().any(|(x, _)| *x > 12), "as wide as it is");
    }
}
