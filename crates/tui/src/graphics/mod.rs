//! Images in a terminal: the protocols, and an image encoded for each of them.
//!
//! There are three protocols. Kitty's sends an image to the terminal once and places it by cells that are text
//! ([`transcript::image`](crate::transcript::image)). Sixel and iTerm2 draw at the cursor: the frame holds the same
//! cells, and the painter of frames leaves them blank and draws the image over them (`terminal::pictures`).
//!
//! Decodes no image and asks no terminal: the host scales images, and the environment and the terminal's answers select
//! the protocol.

pub mod sixel;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sixel::Indexed;

/// Protocol by which a terminal draws images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Kitty's, with Unicode placeholders.
    Kitty,
    /// iTerm2's `OSC 1337 ; File=`.
    Iterm,
    /// DEC's sixels. `cell`: width and height of a cell in pixels. `colours`: most colours in one image.
    Sixel { cell: (u16, u16), colours: u16 },
}

/// Image support of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graphics {
    /// The number of the first image, for terminals that know images by number.
    pub first: u32,
    /// `None`: the terminal is asked if it draws sixels.
    pub protocol: Option<Protocol>,
}

/// An image, scaled to fill this many cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaled {
    pub columns: u16,
    pub rows: u16,
    pub data: Data,
}

/// Bytes of an image in the form that its protocol needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// One PNG, for [`Protocol::Kitty`].
    Png(Vec<u8>),
    /// One PNG for each row of cells, for [`Protocol::Iterm`], so that a part of the image can be drawn.
    Strips(Vec<Vec<u8>>),
    /// Pixels and the size of a cell in pixels, for [`Protocol::Sixel`].
    Pixels { image: Indexed, cell: (u16, u16) },
}

impl Scaled {
    /// Encodes the rows of cells `from..from + rows`, to be drawn at the cursor and to the right. Returns pieces, each
    /// with the row in which it starts. Nothing is drawn below the last of these rows.
    pub(crate) fn draw(&self, from: u16, rows: u16) -> Vec<(u16, String)> {
        match &self.data {
            Data::Png(_) => Vec::new(),
            Data::Strips(strips) => {
                let wanted = strips.iter().skip(usize::from(from)).take(usize::from(rows));
                (0..).zip(wanted.map(|png| strip(png, self.columns))).collect()
            }
            Data::Pixels { image, cell } => {
                let top = u32::from(from) * u32::from(cell.1);
                let bottom = top + u32::from(rows) * u32::from(cell.1);
                vec![(0, sixel::encode(image, top..bottom))]
            }
        }
    }

    /// Returns the approximate size in memory in bytes.
    pub(crate) fn weight(&self) -> usize {
        match &self.data {
            Data::Png(png) => png.len(),
            Data::Strips(strips) => strips.iter().map(Vec::len).sum(),
            Data::Pixels { image, .. } => image.pixels.len(),
        }
    }
}

/// Encodes a PNG that fills one row of cells, by iTerm2's protocol. The cursor stays in place if the terminal supports
/// that.
fn strip(png: &[u8], columns: u16) -> String {
    let mut out = format!(
        "\x1b]1337;File=inline=1;size={};width={columns};height=1;preserveAspectRatio=0;doNotMoveCursor=1:",
        png.len()
    );
    STANDARD.encode_string(png, &mut out);
    out.push('\x07');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_an_image_is_drawn_row_by_row_where_the_terminal_scales() {
        let strips = vec![b"a".to_vec(), b"bc".to_vec(), b"d".to_vec()];
        let image = Scaled { columns: 7, rows: 3, data: Data::Strips(strips) };
        let head = |size| {
            format!(
                "\x1b]1337;File=inline=1;size={size};width=7;height=1;preserveAspectRatio=0;doNotMoveCursor=1:"
            )
        };
        assert_eq!(
            image.draw(1, 2),
            [(0, format!("{}YmM=\x07", head(2))), (1, format!("{}ZA==\x07", head(1)))]
        );
        assert_eq!(image.draw(3, 1), []);
        assert_eq!(image.weight(), 4);
    }

    #[test]
    fn a_part_of_an_image_in_sixels_is_one_piece_that_ends_above_the_next_row() {
        let pixels: Vec<u8> = (0..20).flat_map(|row| [row; 4]).collect();
        let image = Indexed { width: 4, height: 20, palette: vec![[0, 0, 0]; 20], pixels };
        let image = Scaled { columns: 1, rows: 2, data: Data::Pixels { image, cell: (4, 10) } };
        let drawn = image.draw(1, 1);
        // Ten rows of pixels have room for one band of six.
        assert!(matches!(&drawn[..], [(0, text)] if text.starts_with("\x1bP0;1;0q\"1;1;4;6")), "{drawn:?}");
    }
}
