//! Conversion of a body to text: detects the encoding and converts HTML to Markdown.
//!
//! Pure. Takes the readable part of a page, or all of its text if there is no substantial readable part.

use dom_query::Document;
use dom_smoothie::{Config, Readability, TextMode};
use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// Pages with more elements than this are not searched for their readable part.
const MAX_ELEMENTS: usize = 50_000;
/// If the readable part has fewer characters than this, it is compared with the whole page.
const SHORT: usize = 400;
/// Maximum nesting depth of a page that is parsed. Parsing time grows with the square of the depth.
const MAX_DEPTH: usize = 256;
/// Elements whose text is not part of a page.
const SKIPPED: &[&str] = &["script", "style", "noscript", "template", "svg", "iframe", "head"];

/// Kind of a body, according to its media type and its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Html,
    Text,
    Other,
}

/// Detects the kind. `content_type` is the server's header with its parameters.
pub(crate) fn kind(content_type: &str, start: &[u8]) -> Kind {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "text/html" | "application/xhtml+xml" => Kind::Html,
        "" | "application/octet-stream" => sniffed(start),
        text if text.starts_with("text/") => Kind::Text,
        "application/json"
        | "application/javascript"
        | "application/xml"
        | "application/yaml"
        | "application/toml"
        | "application/x-yaml"
        | "application/x-sh"
        | "application/x-ndjson"
        | "application/sql"
        | "application/graphql"
        | "application/x-tex"
        | "application/ecmascript"
        | "application/typescript"
        | "image/svg+xml" => Kind::Text,
        text if text.ends_with("+json") || text.ends_with("+xml") || text.ends_with("+yaml") => Kind::Text,
        _ => Kind::Other,
    }
}

fn sniffed(start: &[u8]) -> Kind {
    if start.contains(&0) {
        return Kind::Other;
    }
    let text = String::from_utf8_lossy(start).trim_start().to_ascii_lowercase();
    if text.starts_with("<!doctype html") || text.starts_with("<html") {
        Kind::Html
    } else if text.contains('\u{fffd}') && text.chars().filter(|c| *c == '\u{fffd}').count() > 1 {
        Kind::Other
    } else {
        Kind::Text
    }
}

/// Decodes the body. The encoding is taken from the first of these that names one: the byte order mark, the server's header, the
/// page itself. Otherwise UTF-8 if it is valid, and else Windows-1252, which browsers use for Latin-1.
pub(crate) fn decode(content_type: &str, body: &[u8]) -> String {
    let named = |text: &str| {
        let at = text.to_ascii_lowercase().find("charset=")? + "charset=".len();
        let label = text[at..].trim_start_matches(['"', '\'', ' ']);
        Encoding::for_label(label.split(['"', '\'', ';', ' ', '>', '/']).next()?.as_bytes())
    };
    let start = String::from_utf8_lossy(&body[..body.len().min(2_048)]).into_owned();
    let encoding = Encoding::for_bom(body)
        .map(|(encoding, _)| encoding)
        .or_else(|| named(content_type))
        .or_else(|| start.contains('<').then(|| named(&start)).flatten())
        .unwrap_or_else(|| if std::str::from_utf8(body).is_ok() { UTF_8 } else { WINDOWS_1252 });
    encoding.decode(body).0.into_owned()
}

/// Converts a page to Markdown: its title, if it has one, and its text.
pub(crate) fn markdown(html: &str, url: &str) -> (Option<String>, String) {
    if depth(html) > MAX_DEPTH {
        return (None, tidy(&stripped(html)));
    }
    let article = readable(html, url);
    let short = article.as_ref().is_none_or(|(_, text)| text.trim().len() < SHORT);
    if short {
        let whole = Document::from(html);
        let title = whole.select("title").first().text().trim().to_owned();
        let text = whole.md(Some(SKIPPED)).trim().to_owned();
        let readable = article.as_ref().map_or(0, |(_, text)| text.trim().len());
        if text.len() > readable {
            let title = article.and_then(|(title, _)| title).or((!title.is_empty()).then_some(title));
            return (title, tidy(&text));
        }
    }
    article.map_or((None, String::new()), |(title, text)| (title, tidy(&text)))
}

/// Returns the greatest nesting depth, judged by tags alone. Elements without a closing tag do not count.
fn depth(html: &str) -> usize {
    const ENDING: &[&str] = &[
        "p", "li", "td", "th", "tr", "tbody", "thead", "tfoot", "dt", "dd", "option", "br", "hr", "img",
        "input", "meta", "link", "col", "area", "base", "embed", "source", "track", "wbr", "param", "path",
        "rect", "circle", "use",
    ];
    let (mut deep, mut most) = (0_usize, 0);
    for (at, _) in html.match_indices('<') {
        let rest = &html[at + 1..];
        let (closing, rest) = rest.strip_prefix('/').map_or((false, rest), |rest| (true, rest));
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let name = &rest[..end];
        if name.is_empty() || end > 20 || ENDING.iter().any(|e| e.eq_ignore_ascii_case(name)) {
            continue;
        }
        if closing {
            deep = deep.saturating_sub(1);
        } else if !rest[end..].starts_with("/>") {
            deep += 1;
            most = most.max(deep);
        }
    }
    most
}

/// Returns the text between tags, without scripts and styles.
fn stripped(html: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..at]);
        out.push('\n');
        rest = &rest[at + 1..];
        let start = rest[..rest.floor_char_boundary(8)].to_ascii_lowercase();
        for hidden in ["script", "style"] {
            if start.starts_with(hidden) {
                let close = format!("</{hidden}");
                let end =
                    rest.find(&close).or_else(|| rest.find(&close.to_uppercase())).unwrap_or(rest.len());
                rest = &rest[end..];
            }
        }
        rest = rest.find('>').map_or("", |end| &rest[end + 1..]);
    }
    out.push_str(rest);
    out
}

fn readable(html: &str, url: &str) -> Option<(Option<String>, String)> {
    let config =
        Config { text_mode: TextMode::Markdown, max_elements_to_parse: MAX_ELEMENTS, ..Config::default() };
    let article = Readability::new(html, Some(url), Some(config)).ok()?.parse().ok()?;
    let title = article.title.trim().to_owned();
    Some(((!title.is_empty()).then_some(title), article.text_content.to_string()))
}

/// Removes trailing blanks, repeated empty lines, and pictures that are embedded as `data:` URLs.
fn tidy(text: &str) -> String {
    const PICTURE: &str = "](data:";
    let mut out = String::with_capacity(text.len());
    let mut empty = 0;
    for line in text.lines().map(str::trim_end) {
        empty = if line.is_empty() { empty + 1 } else { 0 };
        if empty <= 1 {
            let mut line = line;
            while let Some(at) = line.find(PICTURE) {
                let (before, data) = line.split_at(at + PICTURE.len());
                out.push_str(before);
                out.push('…');
                line = &data[data.find(')').unwrap_or(data.len())..];
            }
            out.push_str(line);
            out.push('\n');
        }
    }
    out.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAGRAPH: &str = "<p>This paragraph is about the thing that the page is about, with commas, clauses, and \
        enough words to be taken for the body of an article by anything that looks for one, and then some more of them.</p>";

    #[test]
    fn the_readable_part_becomes_markdown() {
        let html = format!(
            "<html><head><title>The Title</title><script>evil()</script></head><body><nav><a href='/x'>menu</a></nav><article>\
             <h2>Part</h2>{}<pre><code>let a = 1;</code></pre><p>See <a href='/rel'>there</a>.</p>\
             <table><tr><th>k</th><th>v</th></tr><tr><td>1</td><td>2</td></tr></table></article></body></html>",
            PARAGRAPH.repeat(4)
        );
        let (title, text) = markdown(&html, "https://example.com/dir/page");
        assert_eq!(title.as_deref(), Some("The Title"));
        for want in ["## Part", "let a = 1;", "[there](https://example.com/rel)", "| k | v |"] {
            assert!(text.contains(want), "{want} in {text}");
        }
        assert!(!text.contains("evil") && !text.contains("menu"), "{text}");
    }

    #[test]
    fn a_page_without_an_article_is_its_text() {
        let html = "<title>T</title><body><div>short</div><script>x()</script><ul><li>one<li>two</ul>";
        let (title, text) = markdown(html, "https://example.com/");
        assert_eq!(title.as_deref(), Some("T"));
        assert!(text.contains("short") && text.contains("one") && !text.contains("x()"), "{text}");
        for html in ["", "plain", "<", "<!--", "<p", "\0", "<html></html>", "<table><tr><td>"] {
            markdown(html, "https://example.com/");
        }
    }

    #[test]
    fn pictures_in_their_own_address_are_no_text() {
        let html = format!("<p>a <img alt=b src='data:image/png;base64,{}'> c</p>", "A".repeat(100_000));
        assert_eq!(markdown(&html, "https://example.com/").1, "a ![b](data:…) c");
    }

    #[test]
    fn hostile_pages_end() {
        let started = std::time::Instant::now();
        for html in [
            "<div>".repeat(200_000),
            format!("{}{}", "<b><i>".repeat(5_000), "x</p>".repeat(5_000)),
            "<table><tr><td>".repeat(3_000),
            format!("<ul>{}", "<li><ul>".repeat(20_000)),
            format!("<p>{}</p>", "a <b>b</b> ".repeat(20_000)),
            format!("<a {}>", "x=1 ".repeat(100_000)),
            "<script>".repeat(20_000),
        ] {
            let (_, text) = markdown(&html, "https://example.com/");
            assert!(text.len() <= html.len() + 1_000);
        }
        // The limit is generous for slow machines. Without the depth check, one of these pages takes minutes.
        assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
    }

    #[test]
    fn depth_is_what_nests() {
        for (html, want) in [
            ("", 0),
            ("a < b <<< 3", 0),
            ("<div><p>x<p>y<br></div><div></div>", 1),
            ("<ul><li>a<li>b<ul><li>c</ul></ul>", 2),
            ("<svg><path/></svg></div></div><b>", 1),
        ] {
            assert_eq!(depth(html), want, "{html}");
        }
        let deep = format!("{}text<script>no</script> &amp; more", "<div>".repeat(300));
        assert_eq!(markdown(&deep, "https://example.com/").1.replace('\n', " ").trim(), "text  &amp; more");
    }

    #[test]
    fn kinds_and_encodings() {
        for (kind_of, start, want) in [
            ("text/html; charset=utf-8", &b""[..], Kind::Html),
            ("Application/XHTML+xml", b"", Kind::Html),
            ("application/ld+json", b"", Kind::Text),
            ("text/x-rust", b"", Kind::Text),
            ("application/pdf", b"%PDF", Kind::Other),
            ("image/png", b"", Kind::Other),
            ("", b"  <!DOCTYPE html>", Kind::Html),
            ("", b"plain", Kind::Text),
            ("application/octet-stream", b"\x7fELF\0", Kind::Other),
            ("", b"\xff\xfe\xff\xff", Kind::Other),
        ] {
            assert_eq!(kind(kind_of, start), want, "{kind_of}");
        }
        for (content_type, body, want) in [
            ("text/plain", "é".as_bytes(), "é"),
            ("text/plain", b"\xe9", "é"),
            ("text/plain; charset=\"Shift_JIS\"", b"\x93\xfa\x96\x7b", "日本"),
            ("text/html", b"<meta charset=windows-1251>\xef\xf0", "<meta charset=windows-1251>пр"),
            ("text/plain; charset=latin1", b"\xff\xfea\0", "a"),
            ("text/plain; charset=nonsense", "é".as_bytes(), "é"),
        ] {
            assert_eq!(decode(content_type, body), want, "{content_type}");
        }
    }
}
