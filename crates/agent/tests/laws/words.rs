//! Texts of which no piece occurs twice: words of five languages with a mark between every few of them.
//!
//! A mark is `#`, a letter for the kind of source, and eight hexadecimal digits that follow from the text's number. A mark that
//! is found twice is a text that occurs twice, and its letter tells the source.

use std::fmt::Write as _;

/// Source of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    User,
    Assistant,
    Output,
    File,
    Rules,
    Summary,
}

impl Source {
    fn letter(self) -> char {
        match self {
            Self::User => 'u',
            Self::Assistant => 'a',
            Self::Output => 'o',
            Self::File => 'f',
            Self::Rules => 'r',
            Self::Summary => 's',
        }
    }
}

/// English, German, Vietnamese, Chinese, Arabic.
pub(crate) const LANGUAGES: usize = 5;
const WORDS: [[&str; 10]; LANGUAGES] = [
    [
        "please",
        "the reader",
        "must",
        "never",
        "open",
        "that file",
        "before",
        "release",
        "because",
        "customers",
    ],
    [
        "bitte",
        "der Leser",
        "muss",
        "niemals",
        "öffnen",
        "diese Datei",
        "bevor",
        "Auslieferung",
        "weil",
        "Kundschaft",
    ],
    [
        "xin đừng",
        "sửa tệp",
        "trước khi",
        "phát hành",
        "vì",
        "khách hàng",
        "cần",
        "bản cũ",
        "không được",
        "nhánh chính",
    ],
    ["请不要", "修改文件", "发布之前", "因为", "客户", "需要", "旧版本", "禁止", "主分支", "直接提交"],
    [
        "من فضلك",
        "لا تغير",
        "الملف",
        "قبل",
        "الإصدار",
        "لأن",
        "العميل",
        "يحتاج",
        "النسخة القديمة",
        "الفرع الرئيسي",
    ],
];

pub(crate) fn dice(seed: &[u64]) -> u64 {
    seed.iter().fold(0x9e37_79b9_7f4a_7c15, |state, n| {
        let mut x = (state ^ n).wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    })
}

/// A text of at least `bytes` bytes and not many more. Lines of outputs and files are short; people write paragraphs.
pub(crate) fn text(source: Source, number: u64, language: usize, bytes: usize) -> String {
    let words = &WORDS[language % LANGUAGES];
    let mut out = String::with_capacity(bytes + 100);
    let mut n = 0;
    while out.len() < bytes {
        let roll = dice(&[number, source as u64, n, 1]);
        out.push_str(words[(roll % 10) as usize]);
        n += 1;
        out.push_str(match (source, n % 6) {
            (Source::Output | Source::File, 0) => ".\n",
            (_, 0) => ". ",
            _ => " ",
        });
        if n % 5 == 2 {
            let mark = dice(&[number, source as u64, n, 2]) as u32;
            let _ = write!(out, "#{}{mark:08x} ", source.letter());
        }
    }
    out.trim_end().to_owned()
}

/// Places in `text` where a mark begins, with the mark.
pub(crate) fn marks(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.match_indices('#').filter_map(|(at, _)| {
        let mark = text.get(at..at + 10)?;
        let digits = mark.as_bytes()[2..].iter().all(u8::is_ascii_hexdigit);
        (digits && b"uaofrs".contains(&mark.as_bytes()[1])).then_some((at, mark))
    })
}
