//! Content of messages in the formats of OpenAI: Chat Completions and Responses differ only in the names of the types.
//!
//! Owns which parts of a message are content, and what becomes of an attachment that the model does not read. The adapters
//! own the JSON of their media. [`media`] serves the other formats as well.

use crate::adapter::Env;
use crate::ids::wire_name;
use crate::layout::result_text;
use crate::media::{Media, stub};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use becket_types::{Part, is_blank};
use serde_json::{Value, json};

/// The names of one format.
pub(crate) struct ContentForm {
    /// The type of a piece of text.
    pub(crate) text: &'static str,
    /// Returns the JSON of an attachment.
    pub(crate) media: fn(&Part, &Env<'_>) -> Option<Value>,
}

impl ContentForm {
    /// Returns the content of a user's message.
    pub(crate) fn of_user(&self, parts: &[Part], env: &Env<'_>) -> Vec<Value> {
        let one = |part: &Part| match part {
            Part::Text { text, ignored: false, .. } if !is_blank(text) => Some(self.text(text)),
            Part::Image { .. } | Part::File { .. } => (self.media)(part, env),
            _ => None,
        };
        parts.iter().filter_map(one).collect()
    }

    /// Returns the results of calls as content, for a model that gets calls and results as text.
    pub(crate) fn of_results(&self, parts: &[Part], env: &Env<'_>) -> Vec<Value> {
        let one = |part: &Part| match part {
            Part::ToolResult { name, output, .. } => {
                let output = if is_blank(output) { "(no output)" } else { output };
                Some(self.text(&result_text(&wire_name(name), output)))
            }
            Part::Image { .. } => (self.media)(part, env),
            _ => None,
        };
        parts.iter().filter_map(one).collect()
    }

    fn text(&self, text: &str) -> Value {
        json!({"type": self.text, "text": text})
    }
}

/// A PDF of a message: its file name, and its bytes as a data URL. `None` for another part, or if the model reads no PDF.
pub(crate) fn pdf<'a>(part: &'a Part, env: &Env<'_>) -> Option<(&'a str, String)> {
    let Part::File { media_type, blob, name, .. } = part else { return None };
    if media_type != "application/pdf" || !env.compat.messages.pdf {
        return None;
    }
    let bytes = env.blobs.get(blob).filter(|bytes| bytes.starts_with(b"%PDF"))?;
    let data = format!("data:{media_type};base64,{}", STANDARD.encode(&bytes));
    Some((name.as_deref().unwrap_or("document.pdf"), data))
}

/// An image, or a file as text, as far as this model reads it.
pub(crate) fn media(part: &Part, env: &Env<'_>) -> Option<Media> {
    Some(match part {
        Part::Image { media_type, source, name, .. } if env.info.images => {
            env.image(source, media_type, name.as_deref())
        }
        Part::Image { media_type, name, .. } => {
            stub(media_type, name.as_deref(), "this model reads no images")
        }
        Part::File { media_type, blob, name, .. } => {
            let name = name.as_deref();
            match env.blobs.get(blob).map(String::from_utf8) {
                Some(Ok(text)) if media_type.starts_with("text/") => {
                    Media::Text(format!("[Attached {media_type}: {}]\n{text}", name.unwrap_or("unnamed")))
                }
                Some(_) => stub(media_type, name, "this model does not read such files"),
                None => stub(media_type, name, "its bytes are not in the store"),
            }
        }
        _ => return None,
    })
}
