//! Images of a session, scaled for the terminal and encoded for its protocol. They are read and decoded on another
//! thread when they come into view.

use becket_session::{blobs::BlobStore, store::Outside};
use becket_tui::graphics::sixel::{CLEAR, Indexed};
use becket_tui::graphics::{Data, Protocol, Scaled};
use becket_tui::input::Reply;
use becket_tui::transcript::image::MOST;
use becket_types::{BlobId, Blobs as _};
use color_quant::NeuQuant;
use image::codecs::png::PngEncoder;
use image::{ExtendedColorType, ImageEncoder as _};
use std::collections::HashMap;
use std::path::PathBuf;

/// Assumed size of a cell in pixels, for terminals that scale images themselves.
const CELL: (u32, u32) = (10, 20);
/// Maximum number of pixels of an image that the terminal does not scale, because the cost grows with their number.
const MOST_PIXELS: u64 = 480_000;
/// In large images, one of this many pixels is used to learn the colours. In small images, all are used.
const SAMPLE: i32 = 10;
/// Maximum number of pixels of a small image.
const SMALL: usize = 100_000;

/// If the terminal has fewer colours than this, fixed ones are used, spread evenly, instead of ones learned from the image.
const LEARNT: usize = 64;

/// An image: four bytes for each pixel, its width and its height.
struct Pixels {
    rgba: Vec<u8>,
    width: u32,
    height: u32,
}

pub(super) async fn picture(
    session: PathBuf,
    number: u32,
    blob: BlobId,
    protocol: Protocol,
    columns: u16,
) -> Option<Reply> {
    let read = move || {
        let bytes = BlobStore::on_disk(Outside::default().io, &session).get(&blob)?;
        scaled(&bytes, protocol, columns)
    };
    let made = tokio::task::spawn_blocking(read).await;
    // There is always an answer, because text after the image waits for it.
    Some(Reply::Picture { number, scaled: made.ok().flatten() })
}

fn scaled(bytes: &[u8], protocol: Protocol, columns: u16) -> Option<Scaled> {
    let cell = match protocol {
        Protocol::Kitty | Protocol::Iterm => CELL,
        Protocol::Sixel { cell: (width, height), .. } => (u32::from(width.max(1)), u32::from(height.max(1))),
    };
    let (rgba, (width, height)) = becket_model::thumbnail(bytes, max_size(columns, cell))?;
    let cells = |pixels: u32, cell: u32| pixels.div_ceil(cell).max(1) as u16;
    let (columns, rows) = (cells(width, cell.0), cells(height, cell.1));
    let image = Pixels { rgba, width, height };
    let data = match protocol {
        Protocol::Kitty => Data::Png(png(&image)?),
        Protocol::Iterm => Data::Strips(strips(&image, (columns, rows))?),
        Protocol::Sixel { cell, colours } => Data::Pixels { image: reduce_colours(&image, colours), cell },
    };
    Some(Scaled { columns, rows, data })
}

/// Returns the size in pixels of this many columns and [`MOST`] rows, reduced if it has too many pixels.
fn max_size(columns: u16, cell: (u32, u32)) -> (u32, u32) {
    let (mut width, mut height) = (u32::from(columns.clamp(1, MOST.0)) * cell.0, u32::from(MOST.1) * cell.1);
    while u64::from(width) * u64::from(height) > MOST_PIXELS {
        (width, height) = (width - width / 10, height - height / 10);
    }
    (width.max(1), height.max(1))
}

fn png(image: &Pixels) -> Option<Vec<u8>> {
    let mut png = Vec::new();
    let encoder = PngEncoder::new(&mut png);
    encoder.write_image(&image.rgba, image.width, image.height, ExtendedColorType::Rgba8).ok()?;
    Some(png)
}

/// Returns a PNG for each row of cells, filled up with transparent pixels.
fn strips(image: &Pixels, (columns, rows): (u16, u16)) -> Option<Vec<Vec<u8>>> {
    let (width, height) = (u32::from(columns) * CELL.0, CELL.1);
    let strip = |row: u16| {
        let mut rgba = vec![0; (width * height * 4) as usize];
        let lines = image.rgba.chunks(image.width as usize * 4).skip((u32::from(row) * height) as usize);
        for (to, from) in rgba.chunks_mut(width as usize * 4).zip(lines) {
            to[..from.len()].copy_from_slice(from);
        }
        png(&Pixels { rgba, width, height })
    };
    (0..rows).map(strip).collect()
}

/// Reduces an image to at most `colours` colours: its own if it has few enough, otherwise similar ones. Pixels that are
/// more than half transparent are left out.
fn reduce_colours(image: &Pixels, colours: u16) -> Indexed {
    let most = usize::from(colours).clamp(2, usize::from(CLEAR));
    let mut palette: Vec<[u8; 3]> = Vec::new();
    let mut own: HashMap<[u8; 3], u8> = HashMap::new();
    let shown = |pixel: &[u8]| pixel[3] >= 128;
    for pixel in image.rgba.chunks_exact(4).filter(|pixel| shown(pixel)) {
        let colour = [pixel[0], pixel[1], pixel[2]];
        if let std::collections::hash_map::Entry::Vacant(entry) = own.entry(colour) {
            entry.insert(palette.len().min(usize::from(CLEAR)) as u8);
            palette.push(colour);
            if palette.len() > most {
                break;
            }
        }
    }
    let pixels = if palette.len() > most && most < LEARNT {
        let levels: u16 = if most < 27 { 2 } else { 3 };
        let part = |level: u16| (level * 255 / (levels - 1)) as u8;
        palette = (0..levels.pow(3))
            .map(|n| [part(n / (levels * levels)), part(n / levels % levels), part(n % levels)])
            .collect();
        let level = |value: u8| (u16::from(value) * (levels - 1) + 127) / 255;
        let index = |pixel: &[u8]| {
            let [r, g, b] = [level(pixel[0]), level(pixel[1]), level(pixel[2])];
            if shown(pixel) { ((r * levels + g) * levels + b) as u8 } else { CLEAR }
        };
        image.rgba.chunks_exact(4).map(index).collect()
    } else if palette.len() > most {
        let sample = if image.rgba.len() / 4 <= SMALL { 1 } else { SAMPLE };
        let learnt = NeuQuant::new(sample, most, &image.rgba);
        palette = learnt.color_map_rgb().chunks_exact(3).map(|c| [c[0], c[1], c[2]]).collect();
        let index = |pixel: &[u8]| if shown(pixel) { learnt.index_of(pixel) as u8 } else { CLEAR };
        image.rgba.chunks_exact(4).map(index).collect()
    } else {
        let index = |pixel: &[u8]| match own.get(&[pixel[0], pixel[1], pixel[2]]) {
            Some(index) if shown(pixel) => *index,
            _ => CLEAR,
        };
        image.rgba.chunks_exact(4).map(index).collect()
    };
    Indexed { width: image.width, height: image.height, palette, pixels }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(width: u32, height: u32, pixel: impl Fn(u32, u32) -> [u8; 4]) -> Vec<u8> {
        let rgba = (0..width * height).flat_map(|at| pixel(at % width, at / width)).collect();
        png(&Pixels { rgba, width, height }).unwrap()
    }

    fn sixels(bytes: &[u8], cell: (u16, u16), colours: u16) -> (Scaled, Indexed) {
        let scaled = scaled(bytes, Protocol::Sixel { cell, colours }, 78).unwrap();
        let Data::Pixels { image, cell: of } = scaled.data.clone() else { panic!("{scaled:?}") };
        assert_eq!(of, cell);
        assert_eq!(image.pixels.len(), (image.width * image.height) as usize);
        let cells = |pixels: u32, cell: u16| pixels.div_ceil(u32::from(cell)) as u16;
        assert_eq!((scaled.columns, scaled.rows), (cells(image.width, cell.0), cells(image.height, cell.1)));
        (scaled, image)
    }

    #[test]
    fn images_of_any_size_fit_into_the_cells_that_they_are_given() {
        let flat = |_, _| [9, 9, 9, 255];
        for ((width, height), cell, want) in [
            ((1, 1), (10, 20), (1, 1)),
            ((100, 50), (10, 20), (10, 3)),
            ((5_000, 100), (10, 20), (78, 1)),
            ((3, 4_000), (10, 20), (1, 20)),
            ((3_000, 3_000), (10, 20), (40, 20)),
            // The image is reduced to [`MOST_PIXELS`].
            ((3_000, 3_000), (40, 80), (12, 6)),
            ((100, 50), (200, 200), (1, 1)),
        ] {
            let (scaled, _) = sixels(&encoded(width, height, flat), cell, 255);
            assert_eq!((scaled.columns, scaled.rows), want, "{width}×{height} in {cell:?}");
        }
        assert_eq!(scaled(b"no image", Protocol::Iterm, 78), None);
    }

    #[test]
    fn few_colours_are_exact_many_are_near_and_clear_pixels_are_left_out() {
        let (_, image) = sixels(&encoded(4, 2, |x, _| [x as u8 * 60, 7, 200, 255]), (10, 20), 16);
        let shown: Vec<[u8; 3]> = image.pixels.iter().map(|p| image.palette[usize::from(*p)]).collect();
        assert_eq!(shown[..4], [[0, 7, 200], [60, 7, 200], [120, 7, 200], [180, 7, 200]]);
        let many = |x: u32, y: u32| [(x * 5) as u8, (y * 5) as u8, 128, if x == 0 { 10 } else { 255 }];
        let original = encoded(50, 50, many);
        for (colours, most) in [(255, 40), (64, 96), (27, 70), (16, 128)] {
            let (_, image) = sixels(&original, (10, 20), colours);
            assert!(image.palette.len() <= usize::from(colours), "{}", image.palette.len());
            let mut farthest = 0;
            for (at, index) in image.pixels.iter().enumerate() {
                let (x, y) = (at as u32 % 50, at as u32 / 50);
                if x == 0 {
                    assert_eq!(*index, CLEAR);
                } else {
                    let (want, found) = (many(x, y), image.palette[usize::from(*index)]);
                    farthest = (0..3).map(|part| want[part].abs_diff(found[part])).fold(farthest, u8::max);
                }
            }
            assert!(farthest <= most, "{farthest} of {colours}");
        }
    }

    #[test]
    fn strips_are_whole_rows_of_cells_filled_up_with_clear_pixels() {
        let bytes = encoded(15, 30, |x, y| [x as u8, y as u8, 0, 255]);
        let scaled = scaled(&bytes, Protocol::Iterm, 78).unwrap();
        let Data::Strips(strips) = scaled.data else { panic!("no strips") };
        assert_eq!((scaled.columns, scaled.rows, strips.len()), (2, 2, 2));
        let strips: Vec<_> =
            strips.iter().map(|png| image::load_from_memory(png).unwrap().to_rgba8()).collect();
        assert!(strips.iter().all(|strip| strip.dimensions() == (20, 20)));
        assert_eq!(strips[1].get_pixel(14, 9).0, [14, 29, 0, 255]);
        assert_eq!((strips[1].get_pixel(14, 10).0, strips[0].get_pixel(15, 0).0), ([0; 4], [0; 4]));
    }
}
