//! Reads the lines of a range and computes the hash of a file, in one pass.
//!
//! Owns memory: regardless of the size of the file and its lines, a scan keeps one chunk, at most about 70 KB
//! of lines and at most 8 KB of one line. It stops as soon as the rest cannot change the result: a file above
//! [`HASH_BYTES`] is read only to the end of the range.
//!
//! Decodes UTF-16, and otherwise knows only bytes and line ends. Line numbers, other encodings and the output belong to `text`.

use encoding_rs::{CoderResult, Decoder, Encoding, UTF_8};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use tokio_util::sync::CancellationToken;

/// Maximum number of bytes read at a time.
pub(crate) const CHUNK: usize = 256 * 1024;
/// Maximum size in bytes of a file that is hashed.
pub(crate) const HASH_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes kept of one line: 2,000 characters of four bytes, and some more.
pub(crate) const LINE_BYTES: usize = 8 * 1024;
/// Bytes of lines after which the range is complete, because more cannot be shown.
const RANGE_BYTES: usize = 60 * 1024;

/// An open file whose first bytes have already been read.
pub(crate) struct Source {
    pub(crate) file: File,
    pub(crate) chunk: Vec<u8>,
    /// Number of valid bytes in `chunk`, which holds the beginning of the file.
    pub(crate) filled: usize,
    /// Size from the metadata; 0 for files that the kernel generates.
    pub(crate) size: u64,
}

impl Source {
    /// Returns all bytes, or `None` if there are more than `max`.
    ///
    /// # Errors
    ///
    /// Fails if reading fails.
    pub(crate) fn whole(mut self, max: u64) -> io::Result<Option<Vec<u8>>> {
        if self.size > max {
            return Ok(None);
        }
        self.chunk.truncate(self.filled);
        let room = (max + 1).saturating_sub(self.filled as u64);
        self.file.take(room).read_to_end(&mut self.chunk)?;
        Ok((self.chunk.len() as u64 <= max).then_some(self.chunk))
    }
}

/// One line without its line feed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// The first bytes of the line, at most [`LINE_BYTES`].
    pub(crate) bytes: Vec<u8>,
    /// Length of the whole line in bytes. If the line was not read to its end, a number greater than
    /// [`LINE_BYTES`].
    pub(crate) len: u64,
}

/// The result of a scan.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) lines: Vec<Line>,
    /// Number of lines of the whole file; `None` if the scan stopped before its end.
    pub(crate) total: Option<u64>,
    /// Hex SHA-256 of the whole file; `None` for files above [`HASH_BYTES`] and after an interrupt.
    pub(crate) hash: Option<String>,
    /// Number of bytes that were read.
    pub(crate) bytes: u64,
    pub(crate) cancelled: bool,
    /// True if the lines end with CR, because the whole file has no line feed.
    pub(crate) only_cr: bool,
    /// True if the last line of the file has no line ending.
    pub(crate) ends_open: bool,
}

/// Collects lines `first..first + limit` (from 1) from bytes that arrive in pieces.
struct Collector {
    first: u64,
    limit: usize,
    /// The byte that ends a line.
    end: u8,
    /// True if a line feed was seen.
    has_lf: bool,
    /// True if a carriage return was seen before any line feed.
    has_cr: bool,
    /// Number of the line that the next byte belongs to.
    line: u64,
    open: Option<Line>,
    lines: Vec<Line>,
    kept: usize,
    ends_open: bool,
}

impl Collector {
    fn new(first: u64, limit: usize) -> Self {
        let first = first.max(1);
        Self {
            first,
            limit,
            end: b'\n',
            has_lf: false,
            has_cr: false,
            line: 1,
            open: None,
            lines: Vec::new(),
            kept: 0,
            ends_open: false,
        }
    }

    fn complete(&self) -> bool {
        // An unfinished line that is longer than the part that is kept counts as a line, because its end is not shown.
        let endless = self.open.as_ref().is_some_and(|line| line.len > LINE_BYTES as u64);
        self.lines.len() + usize::from(endless) >= self.limit || self.kept >= RANGE_BYTES
    }

    fn push(&mut self, mut piece: &[u8]) {
        if let Some(last) = piece.last() {
            self.ends_open = *last != self.end;
        }
        self.has_lf |= !self.has_lf && memchr::memchr(b'\n', piece).is_some();
        self.has_cr |= !self.has_lf && !self.has_cr && memchr::memchr(b'\r', piece).is_some();
        while !piece.is_empty() {
            if self.line < self.first || self.complete() {
                let breaks = memchr::memchr_iter(self.end, piece).count() as u64;
                if self.complete() || self.line + breaks < self.first {
                    self.line += breaks;
                    return;
                }
                let skip = (self.first - self.line) as usize;
                let Some(at) = memchr::memchr_iter(self.end, piece).nth(skip - 1) else { return };
                self.line = self.first;
                piece = &piece[at + 1..];
                continue;
            }
            let end = memchr::memchr(self.end, piece);
            let part = &piece[..end.unwrap_or(piece.len())];
            let open = self.open.get_or_insert_default();
            let room = LINE_BYTES.saturating_sub(open.bytes.len());
            open.bytes.extend_from_slice(&part[..part.len().min(room)]);
            open.len += part.len() as u64;
            match end {
                Some(at) => {
                    self.close();
                    self.line += 1;
                    piece = &piece[at + 1..];
                }
                None => return,
            }
        }
    }

    fn close(&mut self) {
        if let Some(line) = self.open.take() {
            self.kept += line.bytes.len() + 1;
            self.lines.push(line);
        }
    }

    fn total(&self) -> u64 {
        self.line - 1 + u64::from(self.ends_open)
    }
}

/// Scans a source from its beginning for `limit` lines starting with line `first` (from 1). UTF-16 is
/// decoded. In a file without any line feed, a carriage return ends a line, as it does for `edit`.
///
/// # Errors
///
/// Fails if reading fails.
pub(crate) fn scan(
    source: &mut Source,
    encoding: &'static Encoding,
    first: u64,
    limit: usize,
    cancel: &CancellationToken,
) -> io::Result<Scan> {
    let found = scan_lines(source, encoding, Collector::new(first, limit), cancel)?;
    if !found.only_cr {
        return Ok(found);
    }
    // If the file fits into one chunk, its whole content is still in the buffer.
    if found.bytes != source.filled as u64 {
        source.file.seek(SeekFrom::Start(0))?;
        source.filled = 0;
    }
    let lines = Collector { end: b'\r', ..Collector::new(first, limit) };
    scan_lines(source, encoding, lines, cancel)
}

fn scan_lines(
    source: &mut Source,
    encoding: &'static Encoding,
    mut lines: Collector,
    cancel: &CancellationToken,
) -> io::Result<Scan> {
    let mut hasher = (source.size <= HASH_BYTES).then(Sha256::new);
    let mut decoder = (encoding != UTF_8).then(|| encoding.new_decoder_with_bom_removal());
    let mut decoded = String::new();
    let mut bytes = 0;
    let mut filled = source.filled;
    let mut ended = false;
    let mut cancelled = false;
    loop {
        let piece = &source.chunk[..filled];
        bytes += filled as u64;
        if let Some(hash) = &mut hasher {
            hash.update(piece);
        }
        match &mut decoder {
            Some(decoder) => lines.push(decode(decoder, piece, ended, &mut decoded)),
            None if bytes == filled as u64 => {
                lines.push(piece.strip_prefix(b"\xef\xbb\xbf").unwrap_or(piece));
            }
            None => lines.push(piece),
        }
        if ended {
            break;
        }
        // The file has grown beyond the size that is hashed, so it is treated as a large one.
        if bytes > HASH_BYTES {
            hasher = None;
        }
        cancelled = cancel.is_cancelled();
        if cancelled || (hasher.is_none() && lines.complete()) {
            break;
        }
        filled = read_some(&mut source.file, &mut source.chunk)?;
        ended = filled == 0;
    }
    if ended || lines.complete() {
        lines.close();
    }
    let total = ended.then(|| lines.total());
    let hash = hasher.filter(|_| ended).map(|h| becket_types::hex(&h.finalize()));
    let only_cr = ended && lines.has_cr && !lines.has_lf;
    Ok(Scan {
        lines: lines.lines,
        total,
        hash,
        bytes,
        cancelled,
        only_cr,
        ends_open: ended && lines.ends_open,
    })
}

fn decode<'a>(decoder: &mut Decoder, mut piece: &[u8], last: bool, out: &'a mut String) -> &'a [u8] {
    out.clear();
    out.reserve(decoder.max_utf8_buffer_length(piece.len()).unwrap_or(CHUNK * 3));
    loop {
        let (result, read, _) = decoder.decode_to_string(piece, out, last);
        piece = &piece[read..];
        match result {
            CoderResult::InputEmpty => return out.as_bytes(),
            CoderResult::OutputFull => out.reserve(CHUNK),
        }
    }
}

fn read_some(file: &mut File, chunk: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(chunk) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Returns the last `count` lines of a large file, read from its end. At most [`RANGE_BYTES`] are kept.
///
/// # Errors
///
/// Fails if reading fails.
pub(crate) fn last_lines(source: &mut Source, count: usize) -> io::Result<Vec<Line>> {
    let window = (RANGE_BYTES as u64 + LINE_BYTES as u64).min(source.size);
    source.file.seek(SeekFrom::Start(source.size - window))?;
    let mut tail = Vec::with_capacity(window as usize);
    Read::by_ref(&mut source.file).take(window).read_to_end(&mut tail)?;
    let body = tail.strip_suffix(b"\n").unwrap_or(&tail);
    let mut lines: Vec<Line> = Vec::new();
    let mut kept = 0;
    for line in body.rsplit(|b| *b == b'\n').take(count) {
        kept += line.len() + 1;
        if kept > RANGE_BYTES && !lines.is_empty() {
            break;
        }
        lines.push(Line { bytes: line[..line.len().min(LINE_BYTES)].to_vec(), len: line.len() as u64 });
    }
    lines.reverse();
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_range_is_the_same_however_the_bytes_come(
            text in "([a-c]{0,5}\n?){0,30}", first in 1u64..12, limit in 1usize..12, step in 1usize..9
        ) {
            let mut lines = Collector::new(first, limit);
            for piece in text.as_bytes().chunks(step) {
                lines.push(piece);
            }
            lines.close();
            let all: Vec<&str> = text.lines().collect();
            let want: Vec<Line> = all.iter().skip(first as usize - 1).take(limit)
                .map(|l| Line { bytes: l.as_bytes().to_vec(), len: l.len() as u64 }).collect();
            prop_assert_eq!(&lines.lines, &want);
            prop_assert_eq!(lines.total(), all.len() as u64);
        }
    }

    #[test]
    fn one_endless_line_is_kept_in_part_and_counted_whole() {
        let mut lines = Collector::new(1, 10);
        for _ in 0..100 {
            lines.push(&[b'x'; 1000]);
        }
        lines.push(b"\nend");
        lines.close();
        assert_eq!(lines.lines[0], Line { bytes: vec![b'x'; LINE_BYTES], len: 100_000 });
        assert_eq!(lines.lines[1], Line { bytes: b"end".to_vec(), len: 3 });

        let mut last = Collector::new(1, 1);
        last.push(&[b'x'; LINE_BYTES]);
        assert!(!last.complete(), "it may be all of it");
        last.push(b"x");
        assert!(last.complete(), "nothing more is read for it");
        last.push(b"x\nend\n");
        last.close();
        assert_eq!((last.lines.len(), last.total()), (1, 2));
    }
}
