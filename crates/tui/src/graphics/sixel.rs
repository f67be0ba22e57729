//! Sixel encoder: pixels of a palette as text, six rows at a time.
//!
//! Pure. Draws whole bands of six rows and nothing below the last requested row, so that an image cannot cover the row
//! of text below it. Up to five rows of pixels at the end are left out for that.

use std::fmt::Write as _;
use std::ops::Range;

/// Rows of pixels in a band.
const BAND: u32 = 6;
/// Palette index of pixels that are not drawn.
pub const CLEAR: u8 = u8::MAX;
/// Runs shorter than this take less space when written out.
const REPEAT: usize = 4;

/// An image as palette indices, row by row, with at most 255 colours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexed {
    pub width: u32,
    pub height: u32,
    /// Red, green and blue of each colour.
    pub palette: Vec<[u8; 3]>,
    /// Palette indices. [`CLEAR`] and indices outside the palette are not drawn.
    pub pixels: Vec<u8>,
}

/// Encodes the rows of pixels `rows`, as far as the image has them, to be drawn at the cursor. Transparent pixels leave
/// the screen unchanged.
pub fn encode(image: &Indexed, rows: Range<u32>) -> String {
    let width = image.width as usize;
    let (top, bottom) = (rows.start.min(image.height), rows.end.min(image.height));
    // Below an image that ends before `rows`, the last band is filled with transparent pixels.
    let bands = if rows.end > image.height {
        (bottom - top).div_ceil(BAND).min((rows.end - rows.start) / BAND)
    } else {
        (bottom - top) / BAND
    };
    let from = top as usize * width;
    let to = ((top + bands * BAND).min(image.height) as usize * width).min(image.pixels.len());
    let shown = image.pixels.get(from..to).unwrap_or_default();
    let mut out = format!("\x1bP0;1;0q\"1;1;{width};{}", bands * BAND);
    let mut used = [false; 256];
    for pixel in shown {
        used[usize::from(*pixel)] = true;
    }
    for (colour, [r, g, b]) in image.palette.iter().take(usize::from(CLEAR)).enumerate() {
        if used[colour] {
            let _ = write!(out, "#{colour};2;{};{};{}", percent(*r), percent(*g), percent(*b));
        }
    }
    let colours = image.palette.len().min(usize::from(CLEAR));
    // Sixels of the current band, one line for each colour.
    let mut sixels: Vec<Vec<u8>> = vec![Vec::new(); colours];
    for (at, band) in shown.chunks(width.max(1) * BAND as usize).enumerate() {
        if at > 0 {
            out.push('-');
        }
        for (y, row) in band.chunks(width.max(1)).enumerate() {
            for (x, pixel) in row.iter().enumerate() {
                if let Some(line) = sixels.get_mut(usize::from(*pixel)) {
                    line.resize(line.len().max(x + 1), 0);
                    line[x] |= 1 << y;
                }
            }
        }
        let mut first = true;
        for (colour, line) in sixels.iter_mut().enumerate().filter(|(_, line)| !line.is_empty()) {
            if !std::mem::take(&mut first) {
                out.push('$');
            }
            let _ = write!(out, "#{colour}");
            repeated(line, &mut out);
            line.clear();
        }
    }
    out.push_str("\x1b\\");
    out
}

/// Converts 0 to 255 into the percent that sixel uses.
fn percent(part: u8) -> u32 {
    (u32::from(part) * 100 + 127) / 255
}

fn repeated(line: &[u8], out: &mut String) {
    for run in line.chunk_by(|a, b| a == b) {
        let sixel = char::from(b'?' + run[0]);
        if run.len() >= REPEAT {
            let _ = write!(out, "!{}{sixel}", run.len());
        } else {
            out.extend(std::iter::repeat_n(sixel, run.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Decodes as a terminal does: the width, and rows of pixels, each with its colour in percent or `None`.
    fn decode(text: &str) -> (usize, Vec<Vec<Option<[u32; 3]>>>) {
        let body = text.strip_prefix("\x1bP0;1;0q\"").and_then(|t| t.strip_suffix("\x1b\\")).unwrap();
        let numbers = |text: &str| -> (Vec<u32>, usize) {
            let end = text.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(text.len());
            (text[..end].split(';').filter_map(|n| n.parse().ok()).collect(), end)
        };
        let (size, end) = numbers(body);
        let (width, height) = (size[2] as usize, size[3] as usize);
        let mut rest = &body[end..];
        let mut pixels = vec![vec![None; width]; height];
        let mut palette = vec![[0; 3]; 256];
        let (mut x, mut y, mut colour, mut repeat) = (0, 0, 0, 1);
        while let Some(c) = rest.chars().next() {
            rest = &rest[1..];
            match c {
                '#' => {
                    let (said, end) = numbers(rest);
                    rest = &rest[end..];
                    colour = said[0] as usize;
                    if let [_, 2, r, g, b] = said[..] {
                        palette[colour] = [r, g, b];
                    }
                }
                '!' => {
                    let (said, end) = numbers(rest);
                    rest = &rest[end..];
                    repeat = said[0] as usize;
                }
                '$' => x = 0,
                '-' => (x, y) = (0, y + 6),
                '?'..='~' => {
                    for _ in 0..repeat {
                        for bit in (0..6).filter(|bit| (c as u32 - 63) & (1 << bit) != 0) {
                            pixels[y + bit][x] = Some(palette[colour]);
                        }
                        x += 1;
                    }
                    repeat = 1;
                }
                other => panic!("{other:?} is no sixel"),
            }
        }
        (width, pixels)
    }

    #[test]
    fn known_images_have_known_sixels() {
        let image = |width: u32, palette: &[[u8; 3]], pixels: &[u8]| Indexed {
            width,
            height: pixels.len() as u32 / width,
            palette: palette.to_vec(),
            pixels: pixels.to_vec(),
        };
        let red = [[255, 0, 0]];
        for (image, rows, want) in [
            (image(1, &red, &[0]), 0..6, "\"1;1;1;6#0;2;100;0;0#0@"),
            (image(1, &red, &[CLEAR]), 0..6, "\"1;1;1;6"),
            (image(1, &red, &[0]), 0..5, "\"1;1;1;0"),
            (image(5, &red, &[0; 30]), 0..6, "\"1;1;5;6#0;2;100;0;0#0!5~"),
            (image(2, &red, &[0; 24]), 0..12, "\"1;1;2;12#0;2;100;0;0#0~~-#0~~"),
            (
                image(3, &[[0, 0, 0], [255, 255, 255]], &[0, 1, CLEAR]),
                0..6,
                "\"1;1;3;6#0;2;0;0;0#1;2;100;100;100#0@$#1?@",
            ),
            (Indexed::default(), 0..60, "\"1;1;0;0"),
        ] {
            assert_eq!(encode(&image, rows), format!("\x1bP0;1;0q{want}\x1b\\"), "{image:?}");
        }
    }

    proptest! {
        /// For every size and part: a terminal draws exactly the image's pixels, nothing outside them, and the encoding
        /// has a bounded size.
        #[test]
        fn a_terminal_draws_what_the_image_says(
            width in 1_u32..40,
            height in 1_u32..40,
            colours in 1_usize..256,
            from in 0_u32..45,
            count in 0_u32..45,
            seed in proptest::collection::vec(any::<u8>(), 1..200),
        ) {
            let palette: Vec<[u8; 3]> = (0..colours).map(|c| [c as u8, 255 - c as u8, seed[c % seed.len()]]).collect();
            let pixels: Vec<u8> = seed.iter().copied().cycle().take((width * height) as usize).collect();
            let image = Indexed { width, height, palette, pixels };
            let text = encode(&image, from..from + count);
            let (columns, drawn) = decode(&text);
            prop_assert_eq!(columns, width as usize);
            prop_assert!(drawn.len() as u32 <= count);
            let there = height.saturating_sub(from).min(count);
            prop_assert!(drawn.len() as u32 + BAND > there, "{} of {there}", drawn.len());
            for (y, row) in drawn.iter().enumerate() {
                for (x, pixel) in row.iter().enumerate() {
                    let at = (from as usize + y) * width as usize + x;
                    let index = image.pixels.get(at).copied().unwrap_or(CLEAR);
                    let colour = image.palette.get(usize::from(index)).filter(|_| index != CLEAR);
                    prop_assert_eq!(*pixel, colour.map(|c| c.map(percent)));
                }
            }
            // A pixel takes at most one sixel and one repetition. A colour takes its definition, and its name in each
            // band.
            let most = 64 + colours * 20 + (width * height) as usize * 6 + (height as usize).div_ceil(6) * (colours * 6 + 1);
            prop_assert!(text.len() <= most, "{} > {most}", text.len());
        }
    }
}
