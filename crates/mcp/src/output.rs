//! Converts the answer of a server to the output of a tool: text, images, and blobs for everything else.
//!
//! Nothing is dropped silently. Text beyond the limits is stored whole for `recall`. Bytes that a model cannot read are
//! stored in the session and mentioned.

use base64::Engine as _;
use becket_tool::{Keep, ToolEnv, finish};
use becket_types::{ImageSource, Part, ToolOutput};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Map, Value, json};

/// Maximum number of images of one result. Further images are only mentioned.
const MOST_IMAGES: usize = 20;
/// Maximum size of an image in bytes. Larger images are only mentioned.
const LARGEST_IMAGE: usize = 5 * 1024 * 1024;

/// Collects the parts of a result.
pub(crate) struct OutputBuilder<'a> {
    env: &'a ToolEnv,
    texts: Vec<String>,
    images: Vec<Part>,
}

impl<'a> OutputBuilder<'a> {
    pub(crate) fn new(env: &'a ToolEnv) -> Self {
        Self { env, texts: Vec::new(), images: Vec::new() }
    }

    pub(crate) fn text(&mut self, text: impl Into<String>) {
        self.texts.push(text.into());
    }

    pub(crate) fn block(&mut self, block: ContentBlock) {
        match block {
            ContentBlock::Text(text) => self.texts.push(text.text),
            ContentBlock::Image(image) => self.bytes(&image.data, &image.mime_type, "image"),
            ContentBlock::Audio(audio) => self.bytes(&audio.data, &audio.mime_type, "audio"),
            ContentBlock::Resource(embedded) => self.resource(embedded.resource),
            ContentBlock::ResourceLink(link) => {
                let kind = link.mime_type.map(|kind| format!(" ({kind})")).unwrap_or_default();
                let about = link.description.map(|text| format!(": {text}")).unwrap_or_default();
                self.texts.push(format!(
                    "[resource {} at {}{kind}{about}; read it with mcp_read_resource]",
                    link.name, link.uri
                ));
            }
            other => self.texts.push(serde_json::to_string(&other).unwrap_or_default()),
        }
    }

    pub(crate) fn resource(&mut self, contents: ResourceContents) {
        match contents {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                self.texts.push(format!("[resource {uri}]\n{text}"));
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let kind = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                self.bytes(&blob, &kind, &format!("resource {uri}"));
            }
            other => self.texts.push(serde_json::to_string(&other).unwrap_or_default()),
        }
    }

    /// Adds an image for the model, or stores the bytes and mentions them.
    fn bytes(&mut self, data: &str, kind: &str, what: &str) {
        let decoded = base64::engine::general_purpose::STANDARD.decode(data.trim());
        let Ok(bytes) = decoded else {
            self.texts.push(format!("[{what} ({kind}) that is not valid base64: left out]"));
            return;
        };
        let shown =
            image_kind(&bytes).filter(|_| bytes.len() <= LARGEST_IMAGE && self.images.len() < MOST_IMAGES);
        match (self.env.host.put_blob(&bytes), shown) {
            (Ok(blob), Some(media_type)) => {
                self.images.push(Part::Image {
                    media_type: media_type.to_owned(),
                    source: ImageSource::Blob(blob),
                    name: None,
                    width: None,
                    height: None,
                    extra: Map::new(),
                });
                self.texts.push(format!("[{what} ({media_type}, {} bytes), attached]", bytes.len()));
            }
            (Ok(blob), None) => self.texts.push(format!(
                "[{what} ({kind}, {} bytes): not shown; kept with the session as blob {blob}]",
                bytes.len()
            )),
            (Err(why), _) => {
                self.texts.push(format!("[{what} ({kind}, {} bytes): not kept: {why}]", bytes.len()));
            }
        }
    }

    pub(crate) fn output(self, details: Value) -> ToolOutput {
        let text = self.texts.join("\n");
        let text = if text.is_empty() { "(no output)".to_owned() } else { text };
        let output =
            ToolOutput { images: self.images, details, ..ToolOutput::text(becket_tool::text::clean(&text)) };
        finish(output, Keep::HeadTail, self.env)
    }
}

/// Returns the output for the result of a call.
pub(crate) fn output(result: CallToolResult, server: &str, tool: &str, env: &ToolEnv) -> ToolOutput {
    let mut gathered = OutputBuilder::new(env);
    for block in result.content {
        gathered.block(block);
    }
    let mut details = json!({"mcp": {"server": server, "tool": tool}});
    if let Some(structured) = result.structured_content {
        // Servers should repeat structured content as text. Sending it twice to the model would cost twice.
        let said = gathered
            .texts
            .iter()
            .any(|text| serde_json::from_str::<Value>(text).is_ok_and(|v| v == structured));
        let text = serde_json::to_string(&structured).unwrap_or_default();
        if text.len() <= 16 * 1024 {
            details["mcp"]["structured"] = structured;
        }
        if !said {
            gathered.text(text);
        }
    }
    let output = gathered.output(details);
    ToolOutput { is_error: result.is_error.unwrap_or(false), ..output }
}

/// Returns the format of an image that providers accept, by its first bytes, because the server's own statement may be
/// wrong.
fn image_kind(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_tool::testing;
    use std::path::Path;

    fn result(value: Value) -> CallToolResult {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn every_kind_of_content_is_shown_or_named() {
        let (env, host) = testing::env(Path::new("/"));
        let png = base64::engine::general_purpose::STANDARD.encode([0x89, b'P', b'N', b'G', 1, 2]);
        let out = output(
            result(json!({"content": [
                {"type": "text", "text": "hello"},
                {"type": "image", "data": png, "mimeType": "image/png"},
                {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
                {"type": "image", "data": "%%%", "mimeType": "image/png"},
                {"type": "resource", "resource": {"uri": "demo://1", "text": "inside"}},
                {"type": "resource", "resource": {"uri": "demo://2", "blob": "AAAB"}},
                {"type": "resource_link", "uri": "demo://3", "name": "three"},
            ], "structuredContent": {"a": 1}, "isError": true})),
            "s",
            "t",
            &env,
        );
        assert!(out.is_error);
        assert_eq!(out.images.len(), 1);
        for piece in [
            "hello",
            "attached]",
            "[audio (audio/wav, 3 bytes)",
            "not valid base64",
            "inside",
            "demo://2",
            "three at demo://3",
            "{\"a\":1}",
        ] {
            assert!(out.content.contains(piece), "{piece} in {}", out.content);
        }
        assert_eq!(host.kept().blobs.len(), 3);
    }

    #[test]
    fn structured_content_is_said_once() {
        let (env, _) = testing::env(Path::new("/"));
        let out = output(
            result(
                json!({"content": [{"type": "text", "text": "{\"a\": 1}"}], "structuredContent": {"a": 1}}),
            ),
            "s",
            "t",
            &env,
        );
        assert_eq!(out.content, "{\"a\": 1}");
        assert_eq!(output(result(json!({"content": []})), "s", "t", &env).content, "(no output)");
    }

    #[test]
    fn a_long_output_is_cut_and_kept_whole() {
        let (env, host) = testing::env(Path::new("/"));
        let text = "0123456789\n".repeat(100_000);
        let out = output(result(json!({"content": [{"type": "text", "text": text}]})), "s", "t", &env);
        assert!(out.content.len() <= 50 * 1024 && out.content.contains("recall"));
        assert!(out.spill.is_some());
        assert_eq!(host.kept().blobs.len(), 1);
    }
}
