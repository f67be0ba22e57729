//! The text of a PDF, page by page, in the order in which it is stored in the file.
//!
//! Owns the conversion from placed characters to lines: a jump across the writing direction starts a line, a
//! gap along it is a space. `hayro`, which forbids unsafe code, parses and interprets the file. It runs on
//! its own thread, so that a malicious file (deep recursion, a panic, an endless page) makes only this call
//! fail.
//!
//! `offset` and `limit` count pages. A page without text is reported as such: scanned pages are images.

use crate::scan::Source;
use crate::{Range, note};
use becket_tool::{Keep, ToolEnv, finish};
use becket_types::{ToolOutput, cut_end};
use hayro_interpret::font::{Glyph, GlyphRun};
use hayro_interpret::hayro_cmap::{BfString, WritingMode};
use hayro_interpret::hayro_syntax::{DecryptionError, LoadPdfError, Pdf};
use hayro_interpret::kurbo::{Affine, BezPath, Point, Rect, Vec2};
use hayro_interpret::{
    BlendMode, ClipPath, Context, Device, DrawMode, DrawProps, Image, ImageDrawProps, InterpreterCache,
    InterpreterSettings, SoftMask, TransformExt as _, interpret_page,
};
use serde_json::json;
use std::fmt::Write;
use std::io;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Maximum size in bytes of a document that is read.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum number of bytes of pages that one call shows. A single longer page is cut like every output.
const SHOWN_BYTES: usize = 48 * 1024;
/// Maximum number of bytes kept of one page.
const PAGE_BYTES: usize = 512 * 1024;
/// Time limit for one document.
const TIME: Duration = Duration::from_secs(20);
/// Interval between checks for an interrupt.
const TICK: Duration = Duration::from_millis(20);
/// Stack size in bytes of the reading thread. Nested forms recurse deeply.
const STACK: usize = 16 * 1024 * 1024;

pub(crate) fn read(source: Source, path: &Path, range: Range, env: &ToolEnv) -> io::Result<ToolOutput> {
    let size = source.size;
    let name = env.display(path);
    let Some(bytes) = source.whole(MAX_BYTES)? else {
        let limit = MAX_BYTES / 1024 / 1024;
        return Ok(ToolOutput::error(format!(
            "{name} is a PDF of {size} bytes; at most {limit} MB are read. `pdftotext -f 1 -l 9 FILE -` may help."
        )));
    };
    let hash = becket_tool::sha256(&bytes);
    let mut document = match Document::open(bytes, range, &|| env.cancel.is_cancelled()) {
        Ok(document) => document,
        Err(Stop::Cancelled) => {
            return Ok(ToolOutput { interrupted: true, ..ToolOutput::error("Reading was interrupted.") });
        }
        Err(Stop::Failed(why)) => return Ok(ToolOutput::error(format!("{name} is a PDF, but {why}."))),
    };
    note(path, &hash, env);
    let total = document.total;
    if total == 0 {
        return Ok(ToolOutput::error(format!(
            "{name} is a PDF, but no page was found in it: it is empty or damaged."
        )));
    }
    let Some(asked) = range.within(total) else {
        return Ok(ToolOutput::error(format!(
            "offset {} is behind the end: {name} has {total} pages.",
            range.offset
        )));
    };
    let mut out = String::new();
    let (mut last, mut empty, mut unknown) = (asked.start, Vec::new(), 0);
    let mut stopped = None;
    while last < asked.end {
        let page = match document.next(&|| env.cancel.is_cancelled()) {
            Ok(page) => page,
            Err(stop) => {
                stopped = Some(stop);
                break;
            }
        };
        if last > asked.start && out.len() + page.text.len() > SHOWN_BYTES {
            break;
        }
        last += 1;
        unknown += page.unknown;
        if page.text.is_empty() {
            empty.push(last);
        }
        let _ = writeln!(out, "## page {last}\n{}", page.text.trim_end());
    }
    match stopped {
        Some(Stop::Cancelled) => {
            return Ok(ToolOutput { interrupted: true, ..ToolOutput::error("Reading was interrupted.") });
        }
        Some(Stop::Failed(why)) if last == asked.start => {
            return Ok(ToolOutput::error(format!("{name} is a PDF, but {why}.")));
        }
        Some(Stop::Failed(why)) => _ = writeln!(out, "[page {} was not read: {why}]", last + 1),
        None => {}
    }
    notices(&mut out, &asked, last, total, &empty, unknown);
    let details = json!({"kind": "pdf", "pages": total, "from": asked.start + 1, "to": last, "bytes": size});
    Ok(finish(ToolOutput { details, ..ToolOutput::text(out) }, Keep::Head, env))
}

fn notices(
    out: &mut String,
    asked: &std::ops::Range<usize>,
    last: usize,
    total: usize,
    empty: &[usize],
    unknown: usize,
) {
    if asked.start > 0 || last < total {
        let _ = write!(out, "[pages {}-{last} of {total}", asked.start + 1);
        if last < total {
            let _ = write!(out, "; continue with offset {}", last + 1);
        }
        out.push_str("]\n");
    }
    if !empty.is_empty() {
        let which: Vec<String> = empty.iter().take(20).map(ToString::to_string).collect();
        let more = if empty.len() > 20 { ", …" } else { "" };
        let _ =
            writeln!(out, "[no text on page {}{more}: blank, or an image as scans are]", which.join(", "));
    }
    if unknown > 0 {
        let _ = writeln!(out, "[{unknown} characters have no known meaning and are shown as \u{FFFD}]");
    }
}

/// The text of one page.
#[derive(Debug, Default)]
struct Page {
    text: String,
    /// Number of characters whose font does not map them to Unicode.
    unknown: usize,
}

/// The reason why no further page follows.
#[derive(Debug)]
enum Stop {
    Cancelled,
    /// The error, as the end of a sentence that begins with `FILE is a PDF, but`.
    Failed(String),
}

enum ReaderMessage {
    Total(usize),
    Page(Page),
    Failed(&'static str),
}

/// The pages of a document, received from the thread that reads them.
struct Document {
    news: std::sync::mpsc::Receiver<ReaderMessage>,
    deadline: Instant,
    total: usize,
}

impl Document {
    fn open(bytes: Vec<u8>, range: Range, cancelled: &dyn Fn() -> bool) -> Result<Self, Stop> {
        let (sender, news) = sync_channel(2);
        let spawned = std::thread::Builder::new().name("pdf".to_owned()).stack_size(STACK).spawn(move || {
            // If the receiver is gone, sending fails and the thread stops after the current page.
            let _ = pages(bytes, range, &sender);
        });
        if let Err(error) = spawned {
            return Err(Stop::Failed(format!("no thread could be started for it ({error})")));
        }
        let mut document = Self { news, deadline: Instant::now() + TIME, total: 0 };
        match document.receive(cancelled)? {
            ReaderMessage::Total(total) => document.total = total,
            ReaderMessage::Failed(why) => return Err(Stop::Failed(why.to_owned())),
            ReaderMessage::Page(_) => {}
        }
        Ok(document)
    }

    fn next(&mut self, cancelled: &dyn Fn() -> bool) -> Result<Page, Stop> {
        match self.receive(cancelled)? {
            ReaderMessage::Page(page) => Ok(page),
            ReaderMessage::Failed(why) => Err(Stop::Failed(why.to_owned())),
            ReaderMessage::Total(_) => Err(Stop::Failed("its pages could not be counted".to_owned())),
        }
    }

    fn receive(&mut self, cancelled: &dyn Fn() -> bool) -> Result<ReaderMessage, Stop> {
        loop {
            match self.news.recv_timeout(TICK) {
                Ok(news) => return Ok(news),
                Err(RecvTimeoutError::Timeout) if cancelled() => return Err(Stop::Cancelled),
                Err(RecvTimeoutError::Timeout) if Instant::now() > self.deadline => {
                    return Err(Stop::Failed(format!("it took longer than {} s to read", TIME.as_secs())));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Stop::Failed("it is damaged in a way that cannot be read".to_owned()));
                }
            }
        }
    }
}

/// Sends the page count and the pages; stops when the receiver is gone.
fn pages(
    bytes: Vec<u8>,
    range: Range,
    sender: &SyncSender<ReaderMessage>,
) -> Result<(), std::sync::mpsc::SendError<ReaderMessage>> {
    let pdf = match Pdf::new(bytes) {
        Ok(pdf) => pdf,
        Err(error) => return sender.send(ReaderMessage::Failed(why(error))),
    };
    let all = pdf.pages();
    sender.send(ReaderMessage::Total(all.len()))?;
    let Some(asked) = range.within(all.len()) else { return Ok(()) };
    let cache = InterpreterCache::new();
    for page in &all[asked] {
        let (width, height) = page.render_dimensions();
        let bounds = Rect::new(0.0, 0.0, width.into(), height.into());
        let transform = page.initial_transform(true).to_kurbo();
        let mut context = Context::new(transform, bounds, &cache, pdf.xref(), InterpreterSettings::default());
        let mut lines = Lines::default();
        interpret_page(page, &mut context, &mut lines);
        sender.send(ReaderMessage::Page(lines.page))?;
    }
    Ok(())
}

fn why(error: LoadPdfError) -> &'static str {
    match error {
        LoadPdfError::Decryption(DecryptionError::PasswordProtected) => "it needs a password",
        LoadPdfError::Decryption(_) => "it is encrypted in a way that cannot be read",
        LoadPdfError::Invalid => "it is damaged: it has no readable structure",
    }
}

/// Start, end and size of the previous character on the page. The next character of the same word starts near `end`.
#[derive(Clone, Copy)]
struct Pen {
    start: Point,
    end: Point,
    size: f64,
}

/// Assembles the characters of a page into lines.
#[derive(Default)]
struct Lines {
    page: Page,
    pen: Option<Pen>,
}

impl Lines {
    fn push(&mut self, glyph: &Glyph<'_>, transform: Affine, vertical: bool) {
        if self.page.text.len() > PAGE_BYTES {
            return;
        }
        let start = transform * Point::ORIGIN;
        let em = transform * Point::new(1000.0, 0.0) - start;
        let size = em.hypot().max(0.01);
        let advance = match glyph {
            Glyph::Outline(g) => g.advance_width(),
            Glyph::Type3(g) => g.advance_width(),
        };
        let advance = em * (f64::from(advance.unwrap_or(500.0)) / 1000.0);
        let end = if vertical { start } else { start + advance };
        let mut buffer = [0; 4];
        let unicode = glyph.as_unicode();
        let text = match &unicode {
            Some(BfString::Char(c)) => &*c.encode_utf8(&mut buffer),
            Some(BfString::String(s)) => s.as_str(),
            None => "\u{FFFD}",
        };
        if let Some(pen) = self.pen {
            // Some programs print a character twice in the same place to make it bold.
            if (start - pen.start).hypot() < size * 0.05 && self.page.text.ends_with(text) {
                return;
            }
            self.gap(pen, start, em / size, size, vertical, text);
        }
        self.page.unknown += usize::from(unicode.is_none());
        self.page.text.extend(text.chars().filter(|c| !c.is_control()));
        self.pen = Some(Pen { start, end, size });
    }

    /// Adds whatever separates two characters: nothing, a space, or a line break.
    fn gap(&mut self, pen: Pen, start: Point, along: Vec2, size: f64, vertical: bool, next: &str) {
        let out = &mut self.page.text;
        let way = start - pen.end;
        let (ahead, across) = (way.dot(along), way.cross(along).abs());
        let size = size.max(pen.size);
        let breaks =
            if vertical { way.hypot() > size * 2.0 } else { across > size * 0.5 || ahead < -size * 2.0 };
        if breaks {
            out.truncate(out.trim_end_matches(' ').len());
            if !out.is_empty() && !out.ends_with('\n') {
                out.push('\n');
            }
            if across > size * 1.9 && !out.is_empty() && !out.ends_with("\n\n") {
                out.push('\n');
            }
        } else if !vertical && ahead > size * 0.15 && !out.ends_with([' ', '\n']) && !next.starts_with(' ') {
            out.push_str(if ahead > size * 3.0 { "   " } else { " " });
        }
    }
}

impl<'a> Device<'a> for Lines {
    fn draw_glyph_run(&mut self, run: &GlyphRun<'_, 'a>, props: DrawProps<'a>, _: &DrawMode) {
        let vertical = matches!(run.writing_mode(), WritingMode::Vertical);
        for glyph in run.glyphs() {
            self.push(glyph, props.transform * glyph.transform(), vertical);
        }
    }
    fn draw_path(&mut self, _: &BezPath, _: DrawProps<'a>, _: &DrawMode) {}
    fn push_clip_path(&mut self, _: &ClipPath) {}
    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'a>>, _: BlendMode) {}
    fn draw_image(&mut self, _: Image<'a, '_>, _: ImageDrawProps<'a>) {}
    fn pop_clip(&mut self) {}
    fn pop_transparency_group(&mut self) {}
}

/// Returns the text of the first five pages of a document, through the same code as `read` but without a file.
///
/// # Errors
///
/// Returns the reason if there is no text.
pub(crate) fn text_of(bytes: Vec<u8>) -> Result<String, String> {
    let failed = |stop| match stop {
        Stop::Cancelled => "interrupted".to_owned(),
        Stop::Failed(why) => why,
    };
    let mut document = Document::open(bytes, Range { offset: 1, limit: 5 }, &|| false).map_err(failed)?;
    let mut out = String::new();
    for _ in 0..document.total.min(5) {
        out.push_str(&document.next(&|| false).map_err(failed)?.text);
        out.push('\n');
    }
    Ok(cut_end(&out, SHOWN_BYTES).to_owned())
}
