//! The encoding of a file: detecting it, decoding the file, and writing back in the same encoding.
//!
//! A file is its bytes. [`Decoded`] shows them as text and maps a range of the text back to a range of bytes;
//! only those bytes are ever replaced. New text is converted by [`Decoded::encode`], which refuses characters
//! that the encoding does not have.
//!
//! Invariant: a file is decoded only if every byte belongs to a character. The mapping back works by
//! decoding, never by encoding the existing text again, because some encodings have two spellings of one
//! character. A damaged file is [`Kind::Bytes`]; there only an exact run of bytes can be replaced.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::Encoding;
use std::borrow::Cow;
use std::ops::Range;

/// The way in which the bytes of a file represent text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Utf8,
    Utf16Le,
    Utf16Be,
    /// A legacy encoding, older than Unicode, with one or more bytes per character.
    Legacy(&'static Encoding),
    /// Not text, or damaged text: raw bytes, in which the bytes of `old` are searched. `utf8` is true if the undamaged
    /// part is UTF-8; otherwise only ASCII can be written.
    Bytes {
        utf8: bool,
    },
}

/// A file as text.
#[derive(Debug)]
pub(crate) struct Decoded<'a> {
    pub kind: Kind,
    /// The text without the byte order mark. Empty for [`Kind::Bytes`].
    pub text: Cow<'a, str>,
    /// Length of the byte order mark in bytes.
    pub bom: usize,
    /// True if the text contains NUL, and for [`Kind::Bytes`]. Only exact matches are then allowed.
    pub binary: bool,
}

const BOM_UTF8: &[u8] = b"\xEF\xBB\xBF";

/// Detects the encoding. Tried in this order: byte order mark, UTF-16 without a mark, UTF-8, a guessed legacy encoding
/// that decodes without an error. Anything else is [`Kind::Bytes`].
pub(crate) fn decode(bytes: &[u8]) -> Decoded<'_> {
    if let Some(rest) = bytes.strip_prefix(BOM_UTF8)
        && let Ok(text) = std::str::from_utf8(rest)
    {
        return Decoded { kind: Kind::Utf8, text: Cow::Borrowed(text), bom: 3, binary: text.contains('\0') };
    }
    if let Some(rest) = bytes.strip_prefix(b"\xFF\xFE")
        && let Some(text) = utf16(rest, u16::from_le_bytes)
    {
        return Decoded { kind: Kind::Utf16Le, binary: text.contains('\0'), text: Cow::Owned(text), bom: 2 };
    }
    if let Some(rest) = bytes.strip_prefix(b"\xFE\xFF")
        && let Some(text) = utf16(rest, u16::from_be_bytes)
    {
        return Decoded { kind: Kind::Utf16Be, binary: text.contains('\0'), text: Cow::Owned(text), bom: 2 };
    }
    if let Some(kind) = utf16_without_mark(bytes) {
        let text = utf16(bytes, if kind == Kind::Utf16Le { u16::from_le_bytes } else { u16::from_be_bytes });
        if let Some(text) = text {
            return Decoded { kind, text: Cow::Owned(text), bom: 0, binary: false };
        }
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            Decoded { kind: Kind::Utf8, text: Cow::Borrowed(text), bom: 0, binary: text.contains('\0') }
        }
        Err(_) => legacy(bytes).unwrap_or(Decoded {
            kind: Kind::Bytes { utf8: mostly_utf8(bytes) },
            text: Cow::Borrowed(""),
            bom: 0,
            binary: true,
        }),
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    char::decode_utf16(pairs.iter().map(|pair| unit(*pair))).collect::<Result<String, _>>().ok()
}

/// Detects UTF-16 without a mark: at least 70 % of the two-byte units are ASCII, and NUL occurs only as the high byte
/// of a unit. No other encoding looks like that.
fn utf16_without_mark(bytes: &[u8]) -> Option<Kind> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() || pairs.is_empty() || !bytes.contains(&0) {
        return None;
    }
    let ascii = |b: u8| matches!(b, 0x20..=0x7E | b'\t' | b'\n' | b'\r');
    let share =
        |high: usize| pairs.iter().filter(|p| p[high] == 0 && ascii(p[1 - high])).count() * 10 / pairs.len();
    let clean = |low: usize| pairs.iter().all(|p| p[low] != 0);
    if share(1) >= 7 && clean(0) {
        Some(Kind::Utf16Le)
    } else if share(0) >= 7 && clean(1) {
        Some(Kind::Utf16Be)
    } else {
        None
    }
}

/// True if the complete UTF-8 sequences of several bytes are more than twice as many as the broken ones. The file is
/// then damaged UTF-8 and not another encoding.
fn mostly_utf8(bytes: &[u8]) -> bool {
    let (mut good, mut bad) = (0usize, 0usize);
    for chunk in bytes.utf8_chunks() {
        good += chunk.valid().bytes().filter(|b| *b >= 0xC0).count();
        bad += usize::from(!chunk.invalid().is_empty());
    }
    good > bad * 2
}

fn legacy(bytes: &[u8]) -> Option<Decoded<'_>> {
    if bytes.contains(&0) || mostly_utf8(bytes) {
        return None;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    let encoding = detector.guess(None, Utf8Detection::Deny);
    // `None` for damaged text, which could not be mapped back to its bytes.
    let text = encoding.decode_without_bom_handling_and_without_replacement(bytes)?;
    Some(Decoded { kind: Kind::Legacy(encoding), text: Cow::Owned(text.into_owned()), bom: 0, binary: false })
}

/// Maps `at`, a byte offset in the decoded `text`, to an offset in `bytes`. Lines of text correspond to lines of bytes,
/// because the byte of a line feed is never part of another character. Within a line, bytes are decoded until the text
/// is reached.
fn legacy_offset(encoding: &'static Encoding, bytes: &[u8], text: &str, at: usize) -> Option<usize> {
    let before = text.get(..at)?;
    let line = memchr::memchr_iter(b'\n', before.as_bytes()).count();
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    let start = match line {
        0 => 0,
        n => memchr::memchr_iter(b'\n', bytes).nth(n - 1)? + 1,
    };
    let wanted = at - line_start;
    let mut decoder = encoding.new_decoder_without_bom_handling();
    let mut out = String::with_capacity(16);
    let (mut length, mut end) = (0, start);
    while length < wanted {
        out.clear();
        let piece = bytes.get(end..=end)?;
        let (result, read) = decoder.decode_to_string_without_replacement(piece, &mut out, false);
        if read != 1 || matches!(result, encoding_rs::DecoderResult::Malformed(..)) {
            return None;
        }
        length += out.len();
        end += 1;
    }
    (length == wanted).then_some(end)
}

fn has_bytes(encoding: &'static Encoding, c: char) -> bool {
    let mut buffer = [0; 4];
    let text: &str = c.encode_utf8(&mut buffer);
    let (out, _, unmappable) = encoding.encode(text);
    let back = encoding.decode_without_bom_handling_and_without_replacement(&out);
    !unmappable && back.is_some_and(|back| back == text)
}

impl Decoded<'_> {
    /// Returns the encoding's name for people and the model.
    pub(crate) fn name(&self) -> &'static str {
        match self.kind {
            Kind::Utf8 if self.bom > 0 => "UTF-8 with BOM",
            Kind::Utf8 => "UTF-8",
            Kind::Utf16Le => "UTF-16LE",
            Kind::Utf16Be => "UTF-16BE",
            Kind::Legacy(encoding) => encoding.name(),
            Kind::Bytes { .. } => "binary",
        }
    }

    /// True for UTF-8 without a mark, which needs no mention.
    pub(crate) fn is_plain(&self) -> bool {
        self.kind == Kind::Utf8 && self.bom == 0
    }

    /// Maps a range of the text to bytes; `None` if they cannot be separated from their neighbours.
    pub(crate) fn bytes_of(&self, bytes: &[u8], range: &Range<usize>) -> Option<Range<usize>> {
        match self.kind {
            Kind::Utf8 => Some(range.start + self.bom..range.end + self.bom),
            Kind::Utf16Le | Kind::Utf16Be => {
                let units = |s: &str| s.encode_utf16().count() * 2;
                let start = self.bom + units(self.text.get(..range.start)?);
                Some(start..start + units(self.text.get(range.clone())?))
            }
            Kind::Legacy(encoding) => {
                let start = legacy_offset(encoding, bytes, &self.text, range.start)?;
                let end = legacy_offset(encoding, bytes, &self.text, range.end)?;
                // Decoding the cut bytes must give exactly the wanted text. Only then are its borders
                // character borders.
                let part = bytes.get(start..end)?;
                let same = encoding.decode_without_bom_handling_and_without_replacement(part)?
                    == self.text[range.clone()];
                same.then_some(start..end)
            }
            Kind::Bytes { .. } => Some(range.clone()),
        }
    }

    /// Encodes text in the file's encoding.
    ///
    /// # Errors
    ///
    /// Returns the first character that the encoding does not have.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u8>, char> {
        match self.kind {
            Kind::Utf8 | Kind::Bytes { utf8: true } => Ok(text.as_bytes().to_vec()),
            Kind::Utf16Le => Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
            Kind::Utf16Be => Ok(text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
            Kind::Legacy(encoding) => {
                let (out, _, unmappable) = encoding.encode(text);
                // Some characters are encoded to bytes that decode to another character.
                let back = encoding.decode_without_bom_handling_and_without_replacement(&out);
                if !unmappable && back.is_some_and(|back| back == text) {
                    return Ok(out.into_owned());
                }
                Err(text.chars().find(|c| !has_bytes(encoding, *c)).unwrap_or('\u{FFFD}'))
            }
            Kind::Bytes { utf8: false } => match text.chars().find(|c| !c.is_ascii()) {
                Some(c) => Err(c),
                None => Ok(text.as_bytes().to_vec()),
            },
        }
    }

    /// Returns the byte order mark, for a file whose whole content is replaced.
    pub(crate) fn mark(&self) -> &'static [u8] {
        match (self.kind, self.bom) {
            (Kind::Utf8, 3) => BOM_UTF8,
            (Kind::Utf16Le, 2) => b"\xFF\xFE",
            (Kind::Utf16Be, 2) => b"\xFE\xFF",
            _ => b"",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUSSIAN: &str = "Привет, мир. Это обычный текст на русском языке.\nВторая строка.\n";
    const JAPANESE: &str = "これは日本語のテキストです。漢字とひらがなとカタカナ。\n二行目です。\n";
    const CHINESE: &str = "这是一个简体中文的文本文件。\n第二行在这里，我们继续写。\n";
    const KOREAN: &str = "이것은 한국어 텍스트 파일입니다.\n두 번째 줄은 여기에 있습니다.\n";
    const GERMAN: &str = "Übergröße und Straße, schöne Grüße aus Köln.\n";

    #[test]
    fn recognised_encodings() {
        for (label, text, want) in [
            ("windows-1251", RUSSIAN, "windows-1251"),
            ("koi8-r", RUSSIAN, "KOI8-U"),
            ("shift_jis", JAPANESE, "Shift_JIS"),
            ("euc-jp", JAPANESE, "EUC-JP"),
            ("gbk", CHINESE, "GBK"),
            ("euc-kr", KOREAN, "EUC-KR"),
            ("windows-1252", GERMAN, "windows-1252"),
            ("utf-8", JAPANESE, "UTF-8"),
        ] {
            let encoding = Encoding::for_label(label.as_bytes()).unwrap();
            let bytes = encoding.encode(text).0;
            let decoded = decode(&bytes);
            assert_eq!((decoded.name(), &*decoded.text), (want, text), "{label}");
        }
    }

    #[test]
    fn marks_and_utf16() {
        let le: Vec<u8> = "hello\nwörld\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let be: Vec<u8> = "hello\nwörld\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
        for (bytes, name, bom) in [
            ([b"\xFF\xFE".as_slice(), &le].concat(), "UTF-16LE", 2),
            ([b"\xFE\xFF".as_slice(), &be].concat(), "UTF-16BE", 2),
            (le.clone(), "UTF-16LE", 0),
            (be.clone(), "UTF-16BE", 0),
            ([BOM_UTF8, "hello\nwörld\n".as_bytes()].concat(), "UTF-8 with BOM", 3),
        ] {
            let decoded = decode(&bytes);
            assert_eq!((decoded.name(), &*decoded.text, decoded.bom), (name, "hello\nwörld\n", bom));
            let range = decoded.bytes_of(&bytes, &(6..12)).unwrap();
            assert_eq!(decoded.encode("wörld").unwrap(), bytes[range]);
        }
    }

    #[test]
    fn damage_is_bytes_and_knows_whether_it_is_utf8() {
        let damaged = ["äöü äöü äöü\n".as_bytes(), b"\xFF\n"].concat();
        assert_eq!(decode(&damaged).kind, Kind::Bytes { utf8: true });
        assert_eq!(decode(b"\x00\x01\xFF\xFE\x80").kind, Kind::Bytes { utf8: false });
        assert_eq!(decode(b"\x00\x01\xFF\xFE\x80").encode("é"), Err('é'));
    }
}
