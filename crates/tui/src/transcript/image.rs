//! Images in the transcript as cells, in the form of kitty's graphics protocol with Unicode placeholders.
//!
//! Model: every cell that shows a piece of an image is a character (U+10EEEE) with two combining marks for its row and
//! column. Its colour is the image's number. So an image scrolls, is covered and is copied like text, and frames need
//! no knowledge of images. A terminal with kitty's protocol receives the image once, with its number and its size in
//! columns and rows, and draws the cells itself. For other protocols the painter draws over the cells
//! ([`graphics`](crate::graphics)). The bytes come from the host, scaled to their size on the screen. Nothing is
//! decoded here, and only the size is kept.

use super::row::Row;
use crate::text;
use crate::theme::Theme;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use becket_types::{BlobId, ImageSource, Part};
use ratatui::buffer::Cell;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use std::fmt::Write as _;

/// Largest size of an image in columns and rows.
pub const MOST: (u16, u16) = (MARKS.len() as u16, 20);
/// Bytes in one piece of the transfer, before base64 encoding.
const PIECE: usize = 3_072;
const PLACEHOLDER: char = '\u{10eeee}';

/// The combining marks for row and column 0, 1, … (rowcolumn-diacritics of the protocol).
const MARKS: [char; 80] = [
    '\u{305}', '\u{30d}', '\u{30e}', '\u{310}', '\u{312}', '\u{33d}', '\u{33e}', '\u{33f}', '\u{346}',
    '\u{34a}', '\u{34b}', '\u{34c}', '\u{350}', '\u{351}', '\u{352}', '\u{357}', '\u{35b}', '\u{363}',
    '\u{364}', '\u{365}', '\u{366}', '\u{367}', '\u{368}', '\u{369}', '\u{36a}', '\u{36b}', '\u{36c}',
    '\u{36d}', '\u{36e}', '\u{36f}', '\u{483}', '\u{484}', '\u{485}', '\u{486}', '\u{487}', '\u{592}',
    '\u{593}', '\u{594}', '\u{595}', '\u{597}', '\u{598}', '\u{599}', '\u{59c}', '\u{59d}', '\u{59e}',
    '\u{59f}', '\u{5a0}', '\u{5a1}', '\u{5a8}', '\u{5a9}', '\u{5ab}', '\u{5ac}', '\u{5af}', '\u{5c4}',
    '\u{610}', '\u{611}', '\u{612}', '\u{613}', '\u{614}', '\u{615}', '\u{616}', '\u{617}', '\u{657}',
    '\u{658}', '\u{659}', '\u{65a}', '\u{65b}', '\u{65d}', '\u{65e}', '\u{6d6}', '\u{6d7}', '\u{6d8}',
    '\u{6d9}', '\u{6da}', '\u{6db}', '\u{6dc}', '\u{6df}', '\u{6e0}', '\u{6e1}', '\u{6e2}',
];

/// An image in the transcript.
#[derive(Debug)]
pub struct Image {
    pub name: String,
    pub blob: BlobId,
    /// Number by which the terminal knows the image; at most 24 bits.
    pub number: u32,
    pub state: State,
}

/// State of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// The image has not been in view yet.
    #[default]
    New,
    Asked,
    /// The terminal has the image in this size: columns and rows.
    Shown(u16, u16),
    /// The image cannot be shown.
    Broken,
}

impl Image {
    /// Returns the image of a part, if the part is an image whose bytes are in the session.
    pub fn of(part: &Part, number: u32) -> Option<Self> {
        let Part::Image { name, source: ImageSource::Blob(blob), .. } = part else { return None };
        let name = name.clone().unwrap_or_else(|| "pasted".to_owned());
        Some(Self { name, blob: blob.clone(), number, state: State::New })
    }

    /// Returns the number for the next image.
    pub(super) fn number_behind(&self) -> u32 {
        (self.number + 1) % (1 << 24)
    }

    pub(super) fn lay_out(&self, width: usize, theme: &Theme) -> Vec<Row> {
        let line = format!("  [image {}]", text::visible(&self.name));
        let mut rows = vec![Row::from(Line::styled(text::fit(&line, width).into_owned(), theme.dim))];
        if let State::Shown(columns, height) = self.state {
            rows.extend((0..height).map(|row| self.row(row, columns, width)));
        }
        rows
    }

    /// Returns a row of the image's cells, which are not text.
    fn row(&self, row: u16, columns: u16, width: usize) -> Row {
        let cells: String =
            (0..columns).take(width.saturating_sub(2)).flat_map(|column| symbol(row, column)).collect();
        let style = Style::new().fg(color(self.number));
        let line = Line::from(vec![Span::raw("  "), Span::styled(cells, style)]);
        Row { line, gutter: 2 + usize::from(columns), ..Row::default() }
    }
}

fn mark(of: u16) -> char {
    MARKS.get(usize::from(of)).copied().unwrap_or(MARKS[0])
}

fn symbol(row: u16, column: u16) -> [char; 3] {
    [PLACEHOLDER, mark(row), mark(column)]
}

fn color(number: u32) -> Color {
    let [_, red, green, blue] = number.to_be_bytes();
    Color::Rgb(red, green, blue)
}

/// The piece of an image that a cell shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub number: u32,
    pub row: u16,
    pub column: u16,
}

/// True if this cell is a piece of an image and not text.
pub(crate) fn is_piece(cell: &Cell) -> bool {
    cell.symbol().starts_with(PLACEHOLDER)
}

/// Returns the piece of an image in this cell, if it is one.
pub fn piece(cell: &Cell) -> Option<Piece> {
    let mut marks = cell.symbol().strip_prefix(PLACEHOLDER)?.chars();
    let mut next = || {
        let mark = marks.next()?;
        MARKS.iter().position(|known| *known == mark).map(|at| at as u16)
    };
    let (row, column) = (next()?, next()?);
    let Color::Rgb(red, green, blue) = cell.fg else { return None };
    Some(Piece { number: u32::from_be_bytes([0, red, green, blue]), row, column })
}

/// Makes the cell a piece of an image.
#[cfg(test)]
pub(crate) fn place(cell: &mut Cell, number: u32, row: u16, column: u16) {
    cell.set_symbol(&symbol(row, column).iter().collect::<String>()).set_fg(color(number));
}

/// Returns the bytes that send an image to the terminal under a number, for this many columns and rows. The terminal is
/// asked not to answer.
pub fn transfer(number: u32, (columns, rows): (u16, u16), png: &[u8]) -> String {
    let mut out = String::with_capacity(png.len() * 4 / 3 + png.len() / PIECE * 16 + 64);
    let pieces = png.chunks(PIECE);
    let last = pieces.len().saturating_sub(1);
    for (at, piece) in pieces.enumerate() {
        out.push_str("\x1b_Gq=2,");
        if at == 0 {
            let _ = write!(out, "a=T,U=1,f=100,t=d,i={number},c={columns},r={rows},");
        }
        let _ = write!(out, "m={};", u8::from(at < last));
        STANDARD.encode_string(piece, &mut out);
        out.push_str("\x1b\\");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transfer_is_in_pieces_and_asks_for_no_answer() {
        let bytes = transfer(0x01_02_03, (40, 12), &[7; PIECE + 1]);
        let pieces: Vec<&str> = bytes.split_terminator("\x1b\\").collect();
        assert_eq!(pieces.len(), 2);
        assert!(pieces[0].starts_with("\x1b_Gq=2,a=T,U=1,f=100,t=d,i=66051,c=40,r=12,m=1;"), "{}", pieces[0]);
        assert_eq!(pieces[1], "\x1b_Gq=2,m=0;Bw==");
        assert!(pieces[0].len() <= 4_096 + 64);
    }

    #[test]
    fn each_cell_says_which_it_is_and_none_is_text() {
        let part = Part::Image {
            media_type: "image/png".into(),
            source: ImageSource::Blob(BlobId("b".into())),
            name: Some("a\u{1b}.png".into()),
            width: None,
            height: None,
            extra: serde_json::Map::new(),
        };
        let mut image = Image::of(&part, 0x01_02_03).unwrap();
        let theme = Theme::dark();
        assert_eq!(image.lay_out(40, &theme).len(), 1);
        image.state = State::Shown(3, 2);
        let rows = image.lay_out(40, &theme);
        assert_eq!(rows.len(), 3);
        assert!(!rows[0].line.to_string().contains('\x1b'));
        let cells = "\u{10eeee}\u{30d}\u{305}\u{10eeee}\u{30d}\u{30d}\u{10eeee}\u{30d}\u{30e}";
        assert_eq!(rows[2].line.spans[1].content, cells);
        assert_eq!(rows[2].line.spans[1].style.fg, Some(Color::Rgb(1, 2, 3)));
        assert_eq!(rows[2].line.width(), 5);
        assert_eq!(rows[2].text(), "");
        assert_eq!(image.lay_out(4, &theme)[1].line.width(), 4, "no more than there is room");
    }
}
