//! Jupyter notebooks as text: cells in order, with shortened outputs. Owns that format.
//!
//! A file that turns out not to be a notebook is read as text. Runs nothing. The first [`MAX_IMAGES`] images of the
//! shown lines are attached; the others are only named.

use crate::scan::Source;
use crate::{Range, image, note, sniff, text};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use becket_tool::{Keep, ToolEnv, finish};
use becket_types::{Part, ToolOutput, cut_end, cut_start};
use encoding_rs::UTF_8;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt::Write;
use std::io::{self, Seek, SeekFrom};
use std::path::Path;

/// Maximum size in bytes. Larger notebooks are shown as text, that is, as their JSON.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Number of bytes shown of one output.
const OUTPUT_BYTES: usize = 2_000;
/// Maximum number of images attached by one call.
const MAX_IMAGES: usize = 4;
/// Maximum size in base64 characters. Larger images are only named.
const MAX_BASE64: usize = 5 * 1024 * 1024;

pub(crate) fn read(mut source: Source, path: &Path, range: Range, env: &ToolEnv) -> io::Result<ToolOutput> {
    if source.size > MAX_BYTES {
        return text::read(source, UTF_8, path, range, env);
    }
    let file = source.file.try_clone()?;
    let (size, room) = (source.size, source.chunk.len());
    let notebook = Source { file, chunk: std::mem::take(&mut source.chunk), filled: source.filled, size };
    let bytes = notebook.whole(MAX_BYTES)?;
    let parsed = bytes.as_deref().and_then(parsed_of);
    let cells = parsed.as_ref().and_then(|v| v.get("cells")).and_then(Value::as_array);
    let (Some(bytes), Some(parsed), Some(cells)) = (&bytes, &parsed, cells) else {
        source.file.seek(SeekFrom::Start(0))?;
        source.chunk = vec![0; room];
        source.filled = 0;
        return text::read(source, UTF_8, path, range, env);
    };
    note(path, &becket_tool::sha256(bytes), env);
    let rendered = render(cells, language(parsed));
    let lines: Vec<&str> = rendered.text.lines().collect();
    let Some(asked) = range.within(lines.len()) else {
        let total = lines.len();
        return Ok(ToolOutput::error(format!("offset {} is behind the end: {total} lines.", range.offset)));
    };
    let mut out = format!("[notebook, {} cells; edit and write work on its JSON]\n", cells.len());
    for line in &lines[asked.clone()] {
        out.push_str(line);
        out.push('\n');
    }
    if asked.start > 0 || asked.end < lines.len() {
        let _ = write!(out, "[lines {}-{} of {}", asked.start + 1, asked.end, lines.len());
        if asked.end < lines.len() {
            let _ = write!(out, "; continue with offset {}", asked.end + 1);
        }
        out.push_str("]\n");
    }
    let shown = rendered.images.iter().filter(|image| asked.contains(&image.line));
    let images = shown.filter_map(|image| image.part(env)).take(MAX_IMAGES).collect();
    let details = json!({"kind": "notebook", "cells": cells.len(), "lines": lines.len()});
    Ok(finish(ToolOutput { details, images, ..ToolOutput::text(out) }, Keep::Head, env))
}

/// Returns a notebook as text; `None` if `bytes` are not a notebook.
pub(crate) fn text_of(bytes: &[u8]) -> Option<String> {
    let parsed = parsed_of(bytes)?;
    let cells = parsed.get("cells")?.as_array()?;
    Some(render(cells, language(&parsed)).text)
}

/// Parses the JSON of a notebook. A file that is not UTF-8 is none: it is shown as text, with a note about its bytes.
fn parsed_of(bytes: &[u8]) -> Option<Value> {
    becket_types::parse_json(str::from_utf8(bytes).ok()?).ok()
}

fn language(notebook: &Value) -> &str {
    let named = |at: &str| notebook.pointer(at).and_then(Value::as_str);
    named("/metadata/kernelspec/language").or_else(|| named("/metadata/language_info/name")).unwrap_or("code")
}

/// An image among the outputs.
struct Image {
    /// Line at which the image is named, from 0.
    line: usize,
    base64: String,
}

impl Image {
    /// Returns the image for the model; `None` if the data is not an image or is too large.
    fn part(&self, env: &ToolEnv) -> Option<Part> {
        if self.base64.len() > MAX_BASE64 {
            return None;
        }
        let text: String = self.base64.split_ascii_whitespace().collect();
        let bytes = STANDARD.decode(text).ok()?;
        let sniff::Kind::Image(format) = sniff::kind(&bytes, Path::new("")) else { return None };
        let (width, height) = image::dimensions(&bytes, format).ok()?;
        let blob = env.host.put_blob(&bytes).ok()?;
        Some(image::part(format, blob, None, (width, height), bytes.len()))
    }
}

#[derive(Default)]
struct Rendered {
    text: String,
    images: Vec<Image>,
}

fn render(cells: &[Value], language: &str) -> Rendered {
    let mut out = Rendered::default();
    for (index, cell) in cells.iter().enumerate() {
        let kind = cell.get("cell_type").and_then(Value::as_str).unwrap_or("unknown");
        let kind = if kind == "code" { language } else { kind };
        let id = cell.get("id").and_then(Value::as_str).map(|id| format!(", id {id}")).unwrap_or_default();
        let _ = writeln!(out.text, "## cell {} ({kind}{id})", index + 1);
        if let Some(source) = text_in(cell.get("source")) {
            push_text(&mut out.text, &source, usize::MAX);
        }
        for output in cell.get("outputs").and_then(Value::as_array).into_iter().flatten() {
            push_output(&mut out, output);
        }
    }
    out
}

fn push_output(out: &mut Rendered, output: &Value) {
    match output.get("output_type").and_then(Value::as_str) {
        Some("stream") => {
            out.text.push_str("# output\n");
            let text = text_in(output.get("text")).unwrap_or_default();
            push_text(&mut out.text, &without_colours(&text), OUTPUT_BYTES);
        }
        Some("error") => push_error(&mut out.text, output),
        _ => {
            let Some(data) = output.get("data").and_then(Value::as_object) else { return };
            let plain =
                ["text/plain", "text/markdown", "text/latex"].iter().find_map(|k| text_in(data.get(*k)));
            if let Some(plain) = &plain {
                out.text.push_str("# output\n");
                push_text(&mut out.text, &without_colours(plain), OUTPUT_BYTES);
            }
            for (kind, value) in data {
                let is_image = kind.starts_with("image/");
                if !is_image && plain.is_some() {
                    continue;
                }
                let text = text_in(Some(value)).unwrap_or_else(|| value.to_string());
                if is_image {
                    let line = out.text.bytes().filter(|b| *b == b'\n').count();
                    let _ = writeln!(out.text, "# output: {kind}, {} bytes of base64", text.len());
                    out.images.push(Image { line, base64: text });
                } else {
                    let _ = writeln!(out.text, "# output: {kind}, {} bytes", text.len());
                }
            }
        }
    }
}

/// Adds the error's name and message and the end of the traceback, which shows where it happened.
fn push_error(out: &mut String, output: &Value) {
    let field = |name: &str| output.get(name).and_then(Value::as_str).unwrap_or_default();
    let _ = writeln!(out, "# error\n{}: {}", field("ename"), cut_end(field("evalue"), OUTPUT_BYTES));
    let frames = output.get("traceback").and_then(Value::as_array).into_iter().flatten();
    let frames: Vec<&str> = frames.filter_map(Value::as_str).collect();
    let all = frames.join("\n");
    let all = without_colours(&all);
    let shown = cut_start(&all, OUTPUT_BYTES);
    if shown.len() < all.len() {
        let _ = writeln!(out, "[{} bytes of traceback before]", all.len() - shown.len());
    }
    push_text(out, shown, usize::MAX);
}

/// Returns the text of a notebook field: either a string, or a list of strings that are its lines.
fn text_in(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(s) => Some(s.clone()),
        Value::Array(lines) => Some(lines.iter().filter_map(Value::as_str).collect()),
        _ => None,
    }
}

fn push_text(out: &mut String, text: &str, max: usize) {
    let shown = cut_end(text, max);
    out.push_str(shown);
    if !shown.is_empty() && !shown.ends_with('\n') {
        out.push('\n');
    }
    if shown.len() < text.len() {
        let _ = writeln!(out, "[{} more bytes]", text.len() - shown.len());
    }
}

/// Removes terminal colour escapes.
fn without_colours(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        out.push_str(&rest[..at]);
        let inside = &rest[at + 2..];
        let end = inside.find(|c: char| !matches!(c, '0'..='?' | ' '..='/'));
        rest = end.map_or("", |end| &inside[end + inside[end..].chars().next().map_or(0, char::len_utf8)..]);
    }
    out.push_str(rest);
    Cow::Owned(out)
}
