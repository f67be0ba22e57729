//! Text with line numbers, as the model sees it.
//!
//! Owns the format: `number TAB line`, then at most a few notices in brackets. A file that is shown
//! completely has no notice, so the usual case costs no tokens. Carriage returns and encodings other than
//! UTF-8 are not shown but mentioned in a notice.

use crate::scan::{self, Line, Source};
use crate::{Range, note, sniff};
use becket_tool::{ToolEnv, text::clean};
use becket_types::{ToolOutput, cut_end, cut_end_at_word};
use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8};
use serde_json::json;
use std::borrow::Cow;
use std::fmt::Write;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// Maximum number of lines that one call shows.
pub(crate) const MAX_LINES: usize = 2_000;
/// Maximum number of bytes of lines that one call shows. Together with the notices it stays below the limit
/// of all outputs, 50 KB.
pub(crate) const MAX_BYTES: usize = 50 * 1024 - 1024;
/// Number of bytes that are used to guess a legacy encoding.
const GUESS_BYTES: u64 = 8 * 1024 * 1024;
/// Number of characters shown of one line.
const LINE_CHARS: usize = 2_000;

/// Reads a range of lines and reports the file's hash to the session.
pub(crate) fn read(
    mut source: Source,
    encoding: &'static Encoding,
    path: &Path,
    range: Range,
    env: &ToolEnv,
) -> io::Result<ToolOutput> {
    let size = source.size;
    if range.offset < 0 && size > scan::HASH_BYTES {
        return last_of_large(source, encoding, path, range, env);
    }
    let mut first = u64::try_from(range.offset.max(1)).unwrap_or(1);
    let mut found = scan::scan(&mut source, encoding, first, range.limit, &env.cancel)?;
    if range.offset < 0
        && let Some(total) = found.total
    {
        first = total.saturating_sub(range.offset.unsigned_abs()) + 1;
        source.file.seek(SeekFrom::Start(0))?;
        source.filled = 0;
        found = scan::scan(&mut source, encoding, first, range.limit, &env.cancel)?;
    }
    if found.cancelled {
        return Ok(ToolOutput { interrupted: true, ..ToolOutput::error("Reading was interrupted.") });
    }
    if let Some(hash) = &found.hash {
        // If the file fits into one chunk, its whole content is still in the buffer, and the session can keep a copy.
        match source.chunk.get(..source.filled) {
            Some(whole) if found.bytes == source.filled as u64 => {
                env.host.note_content(path, hash, whole.to_vec());
            }
            _ => note(path, hash, env),
        }
    }
    if let Some(output) = misnamed(&found, path, env) {
        return Ok(output);
    }
    if found.lines.is_empty() {
        return Ok(nothing(found.total.unwrap_or(0), first, path, env));
    }
    let mut shown = OutputBuilder::new(encoding, legacy(&found.lines, &mut source)?, &found.lines);
    for (index, line) in found.lines.iter().enumerate() {
        if !shown.push(Some(first + index as u64), line) {
            break;
        }
    }
    let last = first + shown.count as u64 - 1;
    shown.only_cr = found.only_cr;
    if found.ends_open && found.total == Some(last) {
        shown.leave_last_open(found.lines.get(shown.count - 1));
    }
    match found.total {
        Some(total) if first > 1 || last < total => {
            let _ = write!(shown.out, "[lines {first}-{last} of {total}");
            if last < total {
                let _ = write!(shown.out, "; continue with offset {}", last + 1);
            }
            shown.out.push_str("]\n");
        }
        Some(_) => {}
        None => {
            let next = last + 1;
            let _ = writeln!(
                shown.out,
                "[lines {first}-{last}; the file ({size} bytes) goes on: offset {next}, or negative for its end]"
            );
        }
    }
    if let Some(what) = sniff::named(path) {
        let _ = writeln!(shown.out, "[this is text, no {what} as its name says]");
    }
    let details = json!({"kind": "text", "from": first, "to": last, "lines": found.total, "bytes": size.max(found.bytes)});
    Ok(shown.finish(details))
}

fn last_of_large(
    mut source: Source,
    encoding: &'static Encoding,
    path: &Path,
    range: Range,
    env: &ToolEnv,
) -> io::Result<ToolOutput> {
    if encoding != UTF_8 {
        let what = format!(
            "{} is {} and large; its end can only be read with a positive offset.",
            env.display(path),
            encoding.name()
        );
        return Ok(ToolOutput::error(what));
    }
    let back = usize::try_from(range.offset.unsigned_abs()).unwrap_or(usize::MAX);
    let mut lines = scan::last_lines(&mut source, back.min(MAX_LINES))?;
    let skipped = back.min(lines.len());
    let from_end = lines.len() as u64;
    lines.truncate(range.limit.min(skipped));
    let mut shown = OutputBuilder::new(encoding, legacy(&lines, &mut source)?, &lines);
    for line in &lines {
        if !shown.push(None, line) {
            break;
        }
    }
    let to = from_end - shown.count as u64 + 1;
    let _ = writeln!(
        shown.out,
        "[lines {from_end} to {to} from the end of {} bytes; line numbers were not counted]",
        source.size
    );
    let details = json!({"kind": "text", "from_end": from_end, "to_end": to, "bytes": source.size});
    Ok(shown.finish(details))
}

/// An empty file with the name of an image or document is reported as broken.
fn misnamed(found: &scan::Scan, path: &Path, env: &ToolEnv) -> Option<ToolOutput> {
    let what = sniff::named(path).filter(|_| found.total == Some(0))?;
    Some(ToolOutput::error(format!("{} is empty: 0 bytes, no {what}.", env.display(path))))
}

fn nothing(total: u64, first: u64, path: &Path, env: &ToolEnv) -> ToolOutput {
    if total == 0 {
        return ToolOutput {
            details: json!({"kind": "text", "lines": 0}),
            ..ToolOutput::text("[empty file]")
        };
    }
    let lines = if total == 1 { "line" } else { "lines" };
    ToolOutput::error(format!("offset {first} is behind the end: {} has {total} {lines}.", env.display(path)))
}

/// The output of a call while it is assembled.
struct OutputBuilder {
    out: String,
    count: usize,
    encoding: &'static Encoding,
    /// The encoding that was guessed, because the bytes are not UTF-8.
    guessed: Option<&'static Encoding>,
    carriage_returns: usize,
    only_cr: bool,
    /// True if the last line has no line ending in the file.
    last_is_open: bool,
    cut_lines: Vec<u64>,
    replaced: bool,
}

impl OutputBuilder {
    fn new(encoding: &'static Encoding, guessed: Option<&'static Encoding>, lines: &[Line]) -> Self {
        let room = lines.iter().map(|l| l.bytes.len() + 8).sum::<usize>() + 256;
        Self {
            out: String::with_capacity(room.min(MAX_BYTES + 1024)),
            count: 0,
            encoding,
            guessed,
            carriage_returns: 0,
            only_cr: false,
            last_is_open: false,
            cut_lines: Vec::new(),
            replaced: false,
        }
    }

    /// Adds a line; returns false if it does not fit.
    fn push(&mut self, number: Option<u64>, line: &Line) -> bool {
        let mut bytes = line.bytes.as_slice();
        let whole = line.len == bytes.len() as u64;
        let carriage_return = whole && bytes.ends_with(b"\r");
        if carriage_return {
            bytes = &bytes[..bytes.len() - 1];
        }
        let text = self.decode(bytes, whole);
        let fits = text.len() <= LINE_CHARS;
        let end = || text.char_indices().nth(LINE_CHARS).map_or(text.len(), |(at, _)| at);
        let kept = if fits { text.len() } else { cut_end_at_word(&text, end()).len() };
        let cut = !whole || kept < text.len();
        let shown = clean(&text[..kept]);
        if self.count > 0 && self.out.len() + shown.len() + 64 > MAX_BYTES {
            return false;
        }
        if let Some(n) = number {
            let _ = write!(self.out, "{n}\t");
        }
        self.out.push_str(cut_end(&shown, MAX_BYTES - 64));
        if cut {
            self.cut_lines.push(number.unwrap_or(0));
            let _ = write!(self.out, "…[line cut; it has {} bytes]", line.len);
        }
        self.out.push('\n');
        self.count += 1;
        self.carriage_returns += usize::from(carriage_return);
        self.replaced |= text.contains('\u{FFFD}') && matches!(text, Cow::Owned(_));
        true
    }

    /// Records that the last line has no line feed in the file. A CR at its end is then text and not part of a CRLF, so it is not counted.
    fn leave_last_open(&mut self, line: Option<&Line>) {
        self.last_is_open = true;
        let is_counted =
            line.is_some_and(|line| line.len == line.bytes.len() as u64 && line.bytes.ends_with(b"\r"));
        self.carriage_returns -= usize::from(is_counted);
    }

    fn decode<'l>(&self, bytes: &'l [u8], whole: bool) -> Cow<'l, str> {
        if let Some(encoding) = self.guessed {
            return encoding.decode_without_bom_handling(bytes).0;
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            // The kept part of a long line may end inside a character.
            Err(e) if !whole && e.error_len().is_none() => {
                Cow::Borrowed(std::str::from_utf8(&bytes[..e.valid_up_to()]).unwrap_or_default())
            }
            Err(_) => String::from_utf8_lossy(bytes),
        }
    }

    fn finish(mut self, details: serde_json::Value) -> ToolOutput {
        if let Some(line) = self.cut_lines.first().filter(|n| **n > 0) {
            let _ = writeln!(
                self.out,
                "[lines are cut at {LINE_CHARS} characters; the rest of line {line}: sed -n {line}p FILE | cut -c{}-]",
                LINE_CHARS + 1
            );
        }
        if let Some(encoding) = self.guessed {
            let _ = writeln!(self.out, "[encoding: {}, a guess]", encoding.name());
        } else if self.encoding != UTF_8 {
            let _ = writeln!(self.out, "[encoding: {}]", self.encoding.name());
        }
        if self.replaced {
            self.out.push_str("[bytes that are not UTF-8 are shown as \u{FFFD}]\n");
        }
        if self.only_cr {
            self.out.push_str("[lines end with CR]\n");
        } else if self.carriage_returns > 0 {
            let ends = self.count - usize::from(self.last_is_open);
            let which = if self.carriage_returns == ends { "lines end" } else { "some lines end" };
            let _ = writeln!(self.out, "[{which} with CRLF]");
        }
        ToolOutput { details, ..ToolOutput::text(self.out) }
    }
}

/// Returns the legacy encoding of `lines`; `None` if they are UTF-8, possibly damaged (then most non-ASCII
/// bytes are still valid UTF-8). The guess uses the beginning of the file, so that every range of the file is
/// decoded in the same way.
fn legacy(lines: &[Line], source: &mut Source) -> io::Result<Option<&'static Encoding>> {
    if lines.iter().all(|line| std::str::from_utf8(&line.bytes).is_ok()) {
        return Ok(None);
    }
    let (mut good, mut bad) = (0usize, 0usize);
    for line in lines {
        for chunk in line.bytes.utf8_chunks() {
            good += chunk.valid().bytes().filter(|b| *b >= 0xC0).count();
            bad += usize::from(!chunk.invalid().is_empty());
        }
    }
    // Each long line may have been cut inside a character, which is not an encoding error.
    bad = bad.saturating_sub(lines.iter().filter(|l| l.len > l.bytes.len() as u64).count());
    if bad == 0 || good > bad * 2 {
        return Ok(None);
    }
    let mut sample = Vec::new();
    source.file.seek(SeekFrom::Start(0))?;
    io::Read::by_ref(&mut source.file).take(GUESS_BYTES).read_to_end(&mut sample)?;
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(&sample, true);
    Ok(Some(detector.guess(None, Utf8Detection::Deny)))
}
