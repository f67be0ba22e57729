//! Content blocks of user messages, in the form of Anthropic's API, and their conversion to parts of a message.
//!
//! Invariant: no block and no part of one is left out in silence. A block is used as it is, or the whole message is refused
//! with the reason.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use becket_types::{ImageSource, Part};
use serde_json::{Map, Value};

const PDF: &str = "application/pdf";

/// Converts content, a string or a list of blocks, to parts.
///
/// # Errors
///
/// Returns the reason why the message cannot be used.
pub(super) fn content_parts(content: &Value) -> Result<Vec<Part>, String> {
    match content {
        Value::String(text) => Ok(vec![Part::text(text.as_str())]),
        Value::Array(blocks) => {
            let parts: Result<Vec<Vec<Part>>, String> = blocks.iter().map(block).collect();
            Ok(parts?.into_iter().flatten().collect())
        }
        _ => Err("`message.content` must be a string or a list of blocks".to_owned()),
    }
}

/// Returns the pasted texts of a message, each in tags of its own. Blocks that are no texts do not count. `None`: there are none.
pub(super) fn pasted_text(pasted: &Value) -> Option<String> {
    let entry = |entry: &Value| match entry {
        Value::String(text) => Some(text.clone()),
        Value::Array(blocks) => {
            let texts: Vec<&str> = blocks.iter().filter_map(|block| field(block, "text")).collect();
            Some(texts.join("\n"))
        }
        _ => None,
    };
    let texts = pasted.as_array()?.iter().filter_map(entry).filter(|text| !becket_types::is_blank(text));
    let texts: Vec<String> =
        texts.map(|text| format!("<pasted_content>\n{text}\n</pasted_content>")).collect();
    Some(texts.join("\n\n")).filter(|text| !text.is_empty())
}

fn field<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

fn block(block: &Value) -> Result<Vec<Part>, String> {
    match field(block, "type") {
        Some("text") => Ok(vec![Part::text(field(block, "text").ok_or("a text block needs `text`")?)]),
        Some("image") => Ok(vec![image(block.get("source").ok_or("an image block needs `source`")?)?]),
        Some("document") => document(block),
        Some("search_result") => {
            let known = |name: &str| field(block, name).unwrap_or_default();
            let text = texts(block.get("content")).ok_or("a search result needs `content` of text blocks")?;
            let text = format!("[Search result: {} ({})]\n{text}", known("title"), known("source"));
            Ok(vec![Part::text(text)])
        }
        Some(other) => Err(format!("content blocks of type `{other}` are not supported in user messages")),
        None => Err("a content block needs a `type`".to_owned()),
    }
}

fn image(source: &Value) -> Result<Part, String> {
    let data = |data: &str, media_type: &str| {
        STANDARD.decode(data).map_err(|e| format!("image data is not base64: {e}"))?;
        Ok(attached(media_type, ImageSource::Base64(data.to_owned()), None))
    };
    match field(source, "type") {
        Some("base64") => data(
            field(source, "data").ok_or("a base64 image needs `data`")?,
            field(source, "media_type").unwrap_or("image/png"),
        ),
        Some("url") => {
            let url = field(source, "url").ok_or("an image url is missing")?;
            match inline(url) {
                Some((media_type, bytes)) => data(bytes, media_type),
                None => Ok(attached("image/*", address("an image", url)?, None)),
            }
        }
        Some("file") => Err(file_id("an image")),
        _ => Err("an image source must be `base64` or `url`".to_owned()),
    }
}

/// Converts a document. A PDF is passed as an image part of type PDF, until the agent stores its bytes. If the part has no field
/// for title and context, these become a text before it.
fn document(block: &Value) -> Result<Vec<Part>, String> {
    let source = block.get("source").ok_or("a document block needs `source`")?;
    let title = field(block, "title");
    let (mut parts, has_title) = match field(source, "type") {
        Some("text") => {
            (vec![Part::text(field(source, "data").ok_or("a text document needs `data`")?)], false)
        }
        Some("content") => (of_content(source.get("content"))?, false),
        Some("base64") => {
            let data = field(source, "data").ok_or("a base64 document needs `data`")?;
            bytes_of_document(data, field(source, "media_type").unwrap_or(PDF), title)?
        }
        Some("url") => {
            let url = field(source, "url").ok_or("a document's url is missing")?;
            match inline(url) {
                Some((media_type, data)) => bytes_of_document(data, media_type, title)?,
                None => (vec![attached(PDF, address("a document", url)?, title)], true),
            }
        }
        Some("file") => return Err(file_id("a document")),
        _ => return Err("a document's source must be `base64`, `text`, `content` or `url`".to_owned()),
    };
    let title = title.filter(|_| !has_title).map(|title| format!("[Document: {title}]"));
    let context = field(block, "context").map(|context| format!("[About the document: {context}]"));
    let before: Vec<String> = title.into_iter().chain(context).collect();
    if !before.is_empty() {
        parts.insert(0, Part::text(before.join("\n")));
    }
    Ok(parts)
}

/// Returns a document of these bytes, and true if the part itself has the title.
fn bytes_of_document(data: &str, media_type: &str, title: Option<&str>) -> Result<(Vec<Part>, bool), String> {
    let bytes = STANDARD.decode(data).map_err(|e| format!("document data is not base64: {e}"))?;
    if media_type.starts_with("text/") {
        return match String::from_utf8(bytes) {
            Ok(text) => Ok((vec![Part::text(text)], false)),
            Err(_) => Err("a text document must be UTF-8".to_owned()),
        };
    }
    if media_type != PDF {
        return Err(format!("documents of type `{media_type}` are not supported, only {PDF} and text"));
    }
    Ok((vec![attached(PDF, ImageSource::Base64(data.to_owned()), title)], true))
}

/// Returns the parts of a document's own blocks: texts and images.
fn of_content(content: Option<&Value>) -> Result<Vec<Part>, String> {
    let wrong = || "a document's content must be text and images".to_owned();
    match content {
        Some(Value::String(text)) => Ok(vec![Part::text(text.as_str())]),
        Some(Value::Array(blocks)) if !blocks.is_empty() => {
            let one = |block: &Value| match field(block, "type") {
                Some("text") => field(block, "text").map(Part::text).ok_or_else(wrong),
                Some("image") => image(block.get("source").unwrap_or(&Value::Null)),
                _ => Err(wrong()),
            };
            blocks.iter().map(one).collect()
        }
        _ => Err(wrong()),
    }
}

fn attached(media_type: &str, source: ImageSource, name: Option<&str>) -> Part {
    Part::Image {
        media_type: media_type.to_owned(),
        source,
        name: name.map(str::to_owned),
        width: None,
        height: None,
        extra: Map::new(),
    }
}

/// Returns an address that a provider may fetch. becket itself fetches none, because the message may come from anywhere.
fn address(what: &str, url: &str) -> Result<ImageSource, String> {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    match scheme.as_deref() {
        Some("http" | "https") => Ok(ImageSource::Url(url.to_owned())),
        _ => Err(format!(
            "the address of {what} must begin with https:// or http://; send other sources as `base64`"
        )),
    }
}

/// Returns the media type and the base64 data of a `data:` address.
fn inline(url: &str) -> Option<(&str, &str)> {
    url.strip_prefix("data:")?.split_once(";base64,")
}

fn file_id(what: &str) -> String {
    format!(
        "{what} by `file_id` is not supported: becket does not use the provider's file store; send it as `base64`"
    )
}

/// Returns a text, or the texts of blocks; `None` if there is anything else.
fn texts(content: Option<&Value>) -> Option<String> {
    match content? {
        Value::String(text) => Some(text.clone()),
        Value::Array(blocks) => {
            let texts: Option<Vec<&str>> = blocks.iter().map(|block| field(block, "text")).collect();
            texts.map(|texts| texts.join("\n"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// All block and source types of the SDKs' type definitions.
    #[test]
    fn every_source_is_used_or_refused_with_a_reason() {
        let png = "iVBORw0KGgo=";
        let picture = |source: ImageSource| Ok(vec![attached("image/png", source, None)]);
        let base64 = |data: &str| ImageSource::Base64(data.to_owned());
        let url = |url: &str| ImageSource::Url(url.to_owned());
        let (page, paper) = ("https://example.com/a.png", "https://example.com/a.pdf");
        let text = |text: &str| Ok(vec![Part::text(text)]);
        let image = |source: Value| json!({ "type": "image", "source": source });
        let document = |source: Value| json!({ "type": "document", "source": source });
        let content = json!([{ "type": "text", "text": "a" }, image(json!({ "type": "url", "url": page }))]);
        let titled = json!({
            "type": "document", "title": "T", "context": "C", "source": { "type": "text", "data": "x" },
        });
        for (block, want) in [
            (json!({ "type": "text", "text": "a" }), text("a")),
            (
                image(json!({ "type": "base64", "media_type": "image/png", "data": png })),
                picture(base64(png)),
            ),
            (image(json!({ "type": "base64", "media_type": "image/png", "data": "?" })), Err("not base64")),
            (image(json!({ "type": "url", "url": page })), Ok(vec![attached("image/*", url(page), None)])),
            (
                image(json!({ "type": "url", "url": "data:image/png;base64,iVBORw0KGgo=" })),
                picture(base64(png)),
            ),
            (image(json!({ "type": "url", "url": "file:///etc/passwd" })), Err("must begin with https://")),
            (
                image(json!({ "type": "file", "file_id": "f_1" })),
                Err("an image by `file_id` is not supported"),
            ),
            (image(json!({ "type": "later" })), Err("must be `base64` or `url`")),
            (
                document(json!({ "type": "base64", "media_type": PDF, "data": "JVBERi0=" })),
                Ok(vec![attached(PDF, base64("JVBERi0="), None)]),
            ),
            (
                document(json!({ "type": "base64", "media_type": "a/b", "data": "YQ==" })),
                Err("`a/b` are not supported"),
            ),
            (document(json!({ "type": "text", "media_type": "text/plain", "data": "x" })), text("x")),
            (document(json!({ "type": "content", "content": "x" })), text("x")),
            (
                document(json!({ "type": "content", "content": content })),
                Ok(vec![Part::text("a"), attached("image/*", url(page), None)]),
            ),
            (
                document(json!({ "type": "content", "content": [{ "type": "video" }] })),
                Err("must be text and images"),
            ),
            (document(json!({ "type": "url", "url": paper })), Ok(vec![attached(PDF, url(paper), None)])),
            (document(json!({ "type": "url", "url": "ftp://h/a.pdf" })), Err("must begin with https://")),
            (
                document(json!({ "type": "file", "file_id": "f_1" })),
                Err("a document by `file_id` is not supported"),
            ),
            (document(json!({})), Err("must be `base64`, `text`, `content` or `url`")),
            (titled, Ok(vec![Part::text("[Document: T]\n[About the document: C]"), Part::text("x")])),
            (
                json!({
                    "type": "search_result", "source": "s", "title": "t",
                    "content": [{ "type": "text", "text": "x" }],
                }),
                text("[Search result: t (s)]\nx"),
            ),
            (json!({ "type": "tool_result", "tool_use_id": "t" }), Err("`tool_result` are not supported")),
            (
                json!({ "type": "container_upload", "file_id": "f" }),
                Err("`container_upload` are not supported"),
            ),
            (json!({}), Err("needs a `type`")),
        ] {
            match (content_parts(&json!([block])), want) {
                (Ok(parts), Ok(want)) => assert_eq!(parts, want, "{block}"),
                (Err(why), Err(part)) => assert!(why.contains(part), "{block}: {why}"),
                (got, want) => panic!("{block}: {got:?} and not {want:?}"),
            }
        }
    }
}
