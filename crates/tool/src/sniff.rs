//! Detection of a file's kind by its first bytes.
//!
//! Owns the table of magic numbers and the definition of text. The file name is used only if the bytes do not
//! decide (a notebook is JSON). Reads no file itself. `edit` refuses files that `read` does not show as text (images,
//! PDF, other binary files) unless the call sets `binary`; `apply_patch` always refuses them.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};
use std::path::Path;

/// Number of bytes that are examined.
pub const SAMPLE: usize = 8 * 1024;

/// The kind of a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text in UTF-16, or in an encoding in which a line feed is one byte (UTF-8 unless something else is
    /// known).
    Text(&'static Encoding),
    Notebook,
    Pdf,
    Image(Format),
    Binary(Binary),
}

/// The image formats that models read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Png,
    Jpeg,
    Gif,
    Webp,
}

impl Format {
    /// Returns the media type, such as `image/png`.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }

    /// Returns the usual extensions, in lower case and without a dot.
    pub fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::Png => &["png", "apng"],
            Self::Jpeg => &["jpg", "jpeg", "jpe", "jfif"],
            Self::Gif => &["gif"],
            Self::Webp => &["webp"],
        }
    }
}

/// A file that cannot be read as text: its kind, and advice on what to use instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binary {
    /// Name with its article, for example `an ELF binary`.
    pub name: &'static str,
    pub hint: &'static str,
}

/// Byte offset, magic number, name, and advice.
const MAGIC: &[(usize, &[u8], &str, &str)] = &[
    (0, b"\x7fELF", "an ELF binary", ""),
    (0, b"MZ\x90", "a Windows executable", ""),
    (0, b"\xcf\xfa\xed\xfe", "a Mach-O binary", ""),
    (0, b"\xca\xfe\xba\xbe", "a Java class or universal binary", ""),
    (0, b"\0asm", "a WebAssembly module", ""),
    (0, b"PK\x03\x04", "a ZIP archive (or a document built on one)", " `unzip -l FILE` lists it."),
    (0, b"\x1f\x8b", "gzip-compressed data", " `zcat FILE` shows it."),
    (0, b"\x28\xb5\x2f\xfd", "Zstandard-compressed data", " `zstdcat FILE` shows it."),
    (0, b"\xfd7zXZ\0", "xz-compressed data", " `xzcat FILE` shows it."),
    (0, b"BZh", "bzip2-compressed data", " `bzcat FILE` shows it."),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", ""),
    (0, b"SQLite format 3\0", "an SQLite database", " `sqlite3 FILE .schema` shows what is in it."),
    (0, b"OggS", "Ogg media", ""),
    (0, b"fLaC", "FLAC audio", ""),
    (0, b"ID3", "MP3 audio", ""),
    (4, b"ftyp", "an MP4, HEIC or AVIF file", ""),
    (0, b"\0\0\x01\0", "an icon", ""),
    (0, b"II*\0", "a TIFF image", ""),
    (0, b"MM\0*", "a TIFF image", ""),
    (0, b"wOF", "a web font", ""),
    (0, b"\xff\xfe\0\0", "UTF-32 text", " `iconv -f UTF-32 -t UTF-8 FILE` shows it."),
    (0, b"\0\0\xfe\xff", "UTF-32 text", " `iconv -f UTF-32 -t UTF-8 FILE` shows it."),
    (257, b"ustar", "a tar archive", " `tar -tf FILE` lists it."),
];

/// Returns the kind of the file at `path`. `sample` is its beginning.
pub fn kind(sample: &[u8], path: &Path) -> Kind {
    if let Some(format) = image(sample) {
        return Kind::Image(format);
    }
    // PDF readers accept some bytes before the header, because mail programs and printers add them.
    if memchr::memmem::find(&sample[..sample.len().min(1024)], b"%PDF-")
        .is_some_and(|at| at == 0 || !is_text(&sample[..at]))
    {
        return Kind::Pdf;
    }
    for (at, magic, name, hint) in MAGIC {
        if sample.get(*at..).is_some_and(|rest| rest.starts_with(magic)) && !plain_text(sample, magic) {
            return Kind::Binary(Binary { name, hint });
        }
    }
    if let Some((encoding, _)) = Encoding::for_bom(sample) {
        return Kind::Text(encoding);
    }
    let sample = &sample[..sample.len().min(SAMPLE)];
    if sample.contains(&0) {
        return utf16(sample).map_or(Kind::Binary(Binary { name: "a binary file", hint: "" }), Kind::Text);
    }
    if mostly_controls(sample) {
        return Kind::Binary(Binary { name: "a binary file", hint: "" });
    }
    let notebook = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("ipynb"));
    if notebook && sample.trim_ascii_start().starts_with(b"{") { Kind::Notebook } else { Kind::Text(UTF_8) }
}

/// Returns the name of a kind of file that is not text, with its article; `None` for text.
pub fn not_text(bytes: &[u8], path: &Path) -> Option<&'static str> {
    match kind(&bytes[..bytes.len().min(SAMPLE)], path) {
        Kind::Binary(what) => Some(what.name),
        Kind::Image(_) => Some("an image"),
        Kind::Pdf => Some("a PDF document"),
        Kind::Text(_) | Kind::Notebook => None,
    }
}

/// Returns the kind that the file's name suggests; `None` if it suggests text.
pub fn named(path: &Path) -> Option<&'static str> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    let formats = [Format::Png, Format::Jpeg, Format::Gif, Format::Webp];
    if formats.iter().any(|f| f.extensions().contains(&extension.as_str())) {
        Some("image")
    } else {
        (extension == "pdf").then_some("PDF document")
    }
}

/// True for text that happens to begin with a magic number made of letters ("BZh…", "ID3 tags are …").
fn plain_text(sample: &[u8], magic: &[u8]) -> bool {
    let ambiguous = magic.iter().all(|b| b.is_ascii_alphanumeric());
    ambiguous && is_text(sample)
}

fn is_text(sample: &[u8]) -> bool {
    sample.iter().all(|b| *b >= 0x20 && *b < 0x7f || matches!(b, b'\n' | b'\r' | b'\t'))
}

fn image(sample: &[u8]) -> Option<Format> {
    if sample.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some(Format::Png)
    } else if sample.starts_with(b"\xff\xd8\xff") {
        Some(Format::Jpeg)
    } else if sample.starts_with(b"GIF87a") || sample.starts_with(b"GIF89a") {
        Some(Format::Gif)
    } else if sample.starts_with(b"RIFF") && sample.get(8..12) == Some(b"WEBP") {
        Some(Format::Webp)
    } else {
        None
    }
}

/// Detects UTF-16 without a byte order mark. In Western text every second byte is 0 and the others are not.
fn utf16(sample: &[u8]) -> Option<&'static Encoding> {
    let pairs = sample.len() / 2;
    let zeros = |side: usize| sample.iter().skip(side).step_by(2).filter(|b| **b == 0).count();
    let (even, odd) = (zeros(0), zeros(1));
    match (even, odd) {
        (0, n) if pairs >= 2 && n * 10 >= pairs * 6 => Some(UTF_16LE),
        (n, 0) if pairs >= 2 && n * 10 >= pairs * 6 => Some(UTF_16BE),
        _ => None,
    }
}

fn mostly_controls(sample: &[u8]) -> bool {
    let controls = sample.iter().filter(|b| matches!(b, 1..=6 | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f)).count();
    controls * 10 > sample.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_table() {
        let binary = |sample: &[u8]| match kind(sample, Path::new("x")) {
            Kind::Binary(b) => b.name,
            _ => "",
        };
        for (sample, want) in [
            (&b"\x7fELF\x02\x01\x01\0"[..], "an ELF binary"),
            (b"PK\x03\x04\x14\0", "a ZIP archive (or a document built on one)"),
            (b"abc\0def", "a binary file"),
            (b"\x01\x02\x03\x04\x05abc", "a binary file"),
            (b"BZhang wrote this\n", ""),
            (b"BZh91AY&SY\x01\x02", "bzip2-compressed data"),
            (b"plain text\n", ""),
            (b"caf\xe9\n", ""),
            (b"", ""),
        ] {
            assert_eq!(binary(sample), want, "{sample:?}");
        }
        let text = |sample: &[u8], name: &str| kind(sample, Path::new(name));
        assert_eq!(text(b"\xff\xfea\0\n\0", "x"), Kind::Text(UTF_16LE));
        assert_eq!(text(b"h\0e\0l\0l\0o\0", "x"), Kind::Text(UTF_16LE));
        assert_eq!(text(b"\0h\0e\0l\0l\0o", "x"), Kind::Text(UTF_16BE));
        assert_eq!(text(b" {\"cells\":[]}", "a.IPYNB"), Kind::Notebook);
        assert_eq!(text(b"not json", "a.ipynb"), Kind::Text(UTF_8));
        assert_eq!(text(b"%PDF-1.7\n%\xe2\xe3", "x"), Kind::Pdf);
        assert_eq!(text(b"\0\x01%PDF-1.7\n", "x"), Kind::Pdf);
        assert_eq!(text(b"files that begin with %PDF-\n", "x"), Kind::Text(UTF_8));
        assert_eq!(text(b"\x89PNG\r\n\x1a\nrest", "photo.jpg"), Kind::Image(Format::Png));
        assert_eq!(text(b"RIFF\x10\0\0\0WEBPVP8 ", "x"), Kind::Image(Format::Webp));
    }
}
