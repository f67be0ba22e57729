//! Images as terminals take them: which protocol one speaks, and an image in the form that the protocol needs.
//!
//! Three protocols. Kitty's gives the terminal an image once and places it by cells that are text
//! ([`transcript::image`](crate::transcript::image)). Sixel and iTerm2's are drawn where the cursor stands: the frame holds the
//! same cells, and whoever paints frames leaves them blank and draws over them (`terminal::pictures`).
//!
//! Decodes nothing and asks nobody: the host scales, the environment and the terminal's answers decide.

pub mod sixel;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sixel::Indexed;

/// What a terminal draws images by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Kitty's, with Unicode placeholders.
    Kitty,
    /// `OSC 1337 ; File=` of iTerm2.
    Iterm,
    /// DEC's sixels, for cells of so many pixels and so many colours at once.
    Sixel { cell: (u16, u16), colours: u16 },
}

/// Whether images are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graphics {
    /// The number of the first image, where the terminal knows them by number.
    pub first: u32,
    /// `None`: the terminal is asked whether it draws sixels.
    pub protocol: Option<Protocol>,
}

/// An image, scaled to be shown in so many cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaled {
    pub columns: u16,
    pub rows: u16,
    pub data: Data,
}

/// Its pixels, as the protocol wants them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// For [`Protocol::Kitty`].
    Png(Vec<u8>),
    /// For [`Protocol::Iterm`]: a PNG for each row of cells, so that a part of the image can be drawn.
    Strips(Vec<Vec<u8>>),
    /// For [`Protocol::Sixel`].
    Pixels { image: Indexed, cell: (u16, u16) },
}

impl Scaled {
    /// The bytes that draw its rows `from..from + rows` below and to the right of the cursor, a piece a row to begin in.
    /// Never below the last of these rows.
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

    /// Bytes that it takes in memory, about.
    pub(crate) fn weight(&self) -> usize {
        match &self.data {
            Data::Png(png) => png.len(),
            Data::Strips(strips) => strips.iter().map(Vec::len).sum(),
            Data::Pixels { image, .. } => image.pixels.len(),
        }
    }
}

/// A PNG in one row of cells, by iTerm2's protocol. The cursor stays, where the terminal can leave it.
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
