//! Pictures of the interface: a frame as SVG or as pixels, drawn by the panes themselves from a list of events.
//!
//! Owns the drawing of cells as text on rectangles; `pixels` draws cells as pixels. Reads no file. The SVG names no
//! font file: the reader's monospaced font is used, and every run of text is stretched to the width of its cells.

mod pixels;

use crate::app::App;
use crate::highlight::Job;
use crate::input::{Effect, Input};
use crate::terminal::surface::Surface;
use crate::theme::{Syntax, Theme};
use becket_types::Event;
pub use pixels::{Pixels, pixels};
pub use ratatui::buffer::Buffer as Frame;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Size;
use ratatui::style::{Color, Modifier};
use std::fmt::Write as _;
use std::io;

/// Size of a cell and of its text, and margin around the picture, in pixels.
const CELL: (f32, f32) = (8.4, 18.0);
const FONT: f32 = 14.0;
const BASELINE: f32 = 13.5;
const MARGIN: f32 = 12.0;

/// Red, green and blue.
pub type Rgb = (u8, u8, u8);

/// Colours that replace the terminal's default colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Palette {
    pub text: Rgb,
    pub behind: Rgb,
}

impl Palette {
    /// Returns the palette that fits a theme.
    pub fn of(theme: &Theme) -> Self {
        if theme.syntax == Some(Syntax::Light) {
            Self { text: (31, 35, 40), behind: (255, 255, 255) }
        } else {
            Self { text: (230, 237, 243), behind: (13, 17, 23) }
        }
    }

    /// Returns the foreground and the background of a cell.
    pub fn cell(self, cell: &Cell) -> (Rgb, Rgb) {
        let (text, behind) = (rgb(cell.fg).unwrap_or(self.text), rgb(cell.bg).unwrap_or(self.behind));
        let (text, behind) =
            if cell.modifier.contains(Modifier::REVERSED) { (behind, text) } else { (text, behind) };
        if cell.modifier.contains(Modifier::DIM) { (faint(text, behind), behind) } else { (text, behind) }
    }
}

/// Returns the colour of dim text: nearer to the background, as most terminals draw it.
fn faint((r, g, b): Rgb, behind: Rgb) -> Rgb {
    let mix = |ink: u8, ground: u8| ((u16::from(ink) * 2 + u16::from(ground)) / 3) as u8;
    (mix(r, behind.0), mix(g, behind.1), mix(b, behind.2))
}

/// Draws the interface after `events`, with code in colours.
///
/// # Errors
///
/// Fails if the frame cannot be drawn.
pub fn frame(events: impl IntoIterator<Item = Event>, size: Size, theme: Theme) -> io::Result<Buffer> {
    let mut app = App::new(theme);
    app.update(Input::Resize { columns: size.width, rows: size.height });
    for event in events {
        app.update(Input::Agent(event));
    }
    let mut surface = Surface::new(size)?;
    let mut effects = Vec::new();
    surface.cells(size, |frame| effects = app.draw(frame))?;
    for effect in &effects {
        if let Effect::Highlight(jobs) = effect {
            jobs.iter().for_each(Job::run);
        }
    }
    let (cells, _) = surface.cells(size, |frame| drop(app.draw(frame)))?;
    Ok(cells.clone())
}

/// Returns the text of a frame without the spaces at the ends of lines.
pub fn text(buffer: &Buffer) -> String {
    let mut out = String::new();
    for row in rows(buffer) {
        let mut line = String::new();
        let mut covered = 0;
        for cell in row {
            if covered == 0 {
                line.push_str(cell.symbol());
                covered = crate::text::width(cell.symbol());
            }
            covered = covered.saturating_sub(1);
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn rows(buffer: &Buffer) -> impl Iterator<Item = &[Cell]> {
    buffer.content.chunks(usize::from(buffer.area.width).max(1))
}

/// Returns a frame as an SVG document.
pub fn svg(buffer: &Buffer, palette: Palette) -> String {
    let area = buffer.area;
    let width = f32::from(area.width) * CELL.0 + 2.0 * MARGIN;
    let height = f32::from(area.height) * CELL.1 + 2.0 * MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.1} {height:.1}\" font-family=\"ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace\" font-size=\"{FONT}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{}\"/>\n",
        hex(palette.behind)
    );
    for (y, row) in rows(buffer).enumerate() {
        let top = y as f32 * CELL.1 + MARGIN;
        let mut at = 0;
        while at < row.len() {
            let run = Run::of(row, at, palette);
            run.write(&mut out, at as f32 * CELL.0 + MARGIN, top, palette);
            at = run.end;
        }
    }
    out.push_str("</svg>\n");
    out
}

/// A run of cells with the same style.
struct Run {
    end: usize,
    text: String,
    columns: usize,
    look: (Rgb, Rgb),
    modifier: Modifier,
}

impl Run {
    fn of(row: &[Cell], from: usize, palette: Palette) -> Self {
        let look = palette.cell(&row[from]);
        let modifier = row[from].modifier;
        let mut run = Self { end: from, text: String::new(), columns: 0, look, modifier };
        while let Some(cell) = row.get(run.end) {
            if (palette.cell(cell), cell.modifier) != (look, modifier) {
                break;
            }
            let width = crate::text::width(cell.symbol()).max(1);
            run.text.push_str(cell.symbol());
            run.columns += width;
            run.end += width;
            // Characters that are not ASCII are placed one by one, so that no font shifts the text after them.
            let alone = |cell: &Cell| !cell.symbol().is_ascii();
            if alone(cell) || row.get(run.end).is_some_and(alone) {
                break;
            }
        }
        run.end = run.end.min(row.len()).max(from + 1);
        run
    }

    fn write(&self, out: &mut String, left: f32, top: f32, palette: Palette) {
        let width = self.columns as f32 * CELL.0;
        let (text, behind) = self.look;
        if behind != palette.behind {
            let _ = writeln!(
                out,
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{}\"/>",
                CELL.1,
                hex(behind)
            );
        }
        let begin = self.text.len() - self.text.trim_start_matches(' ').len();
        let shown = self.text.trim_matches(' ');
        if shown.is_empty() {
            return;
        }
        let x = left + begin as f32 * CELL.0;
        let length = crate::text::width(shown) as f32 * CELL.0;
        let _ = write!(
            out,
            "<text x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{length:.1}\" lengthAdjust=\"spacingAndGlyphs\" xml:space=\"preserve\" fill=\"{}\"",
            top + BASELINE,
            hex(text)
        );
        for (modifier, attribute) in [
            (Modifier::BOLD, " font-weight=\"bold\""),
            (Modifier::ITALIC, " font-style=\"italic\""),
            (Modifier::UNDERLINED, " text-decoration=\"underline\""),
            (Modifier::CROSSED_OUT, " text-decoration=\"line-through\""),
        ] {
            if self.modifier.contains(modifier) {
                out.push_str(attribute);
            }
        }
        out.push('>');
        for c in shown.chars() {
            match c {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                c if c.is_control() => out.push('\u{fffd}'),
                c => out.push(c),
            }
        }
        out.push_str("</text>\n");
    }
}

fn hex((r, g, b): Rgb) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// The sixteen colours as common terminals show them.
const SIXTEEN: [Rgb; 16] = [
    (48, 54, 61),
    (255, 123, 114),
    (63, 185, 80),
    (210, 153, 34),
    (88, 166, 255),
    (188, 140, 255),
    (57, 197, 207),
    (177, 186, 196),
    (110, 118, 129),
    (255, 161, 152),
    (86, 211, 100),
    (227, 179, 65),
    (121, 192, 255),
    (210, 168, 255),
    (86, 212, 221),
    (240, 246, 252),
];

/// Returns `None` for the terminal's default colour.
fn rgb(color: Color) -> Option<Rgb> {
    let index = match color {
        Color::Rgb(r, g, b) => return Some((r, g, b)),
        Color::Indexed(n) => n,
        named => crate::ansi::number(named)?,
    };
    Some(match index {
        0..16 => SIXTEEN[usize::from(index)],
        // A cube of 6 × 6 × 6 colours, then greys, as in xterm.
        16..232 => {
            let level = |n: u8| if n == 0 { 0 } else { 55 + 40 * n };
            let n = index - 16;
            (level(n / 36), level(n / 6 % 6), level(n % 6))
        }
        _ => {
            let grey = 8 + 10 * (index - 232);
            (grey, grey, grey)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_types::{Message, MessageId};

    #[test]
    fn a_frame_is_a_document_with_its_text() {
        let events = [
            Event::UserMessage {
                message: Message::user("is 1 < 2 & 3 日本?"),
                client_id: None,
                steered: false,
            },
            Event::TextDelta { message: MessageId::new(), index: 0, text: "```rust\nlet x = 1;\n```".into() },
        ];
        let theme = Theme::dark();
        let buffer = frame(events, Size::new(40, 8), theme.clone()).unwrap();
        assert_eq!(text(&buffer).trim_start().lines().next(), Some("› is 1 < 2 & 3 日本?"));
        let svg = svg(&buffer, Palette::of(&theme));
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("1 &lt; 2 &amp; 3"), "{svg}");
        assert!(svg.contains(&format!("fill=\"{}\">let</text>", hex((118, 227, 190)))), "{svg}");
        assert_eq!(
            (rgb(Color::Indexed(16)), rgb(Color::Indexed(231))),
            (Some((0, 0, 0)), Some((255, 255, 255)))
        );
    }
}
