//! Jupyter notebooks as text: cells in order, with their outputs in short. Owns that format.
//!
//! Anything that is not a notebook after all is read as the text it is. Runs nothing; images in outputs are named only.

use crate::scan::Source;
use crate::{Range, text};
use becket_tool::{Keep, ToolEnv, finish};
use becket_types::{ToolOutput, cut_end};
use encoding_rs::UTF_8;
use serde_json::{Value, json};
use std::fmt::Write;
use std::io::{self, Seek, SeekFrom};
use std::path::Path;

/// Larger notebooks are read as plain JSON.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes of an output that are shown.
const OUTPUT_BYTES: usize = 2_000;

pub(crate) fn read(mut source: Source, path: &Path, range: Range, env: &ToolEnv) -> io::Result<ToolOutput> {
    if source.size > MAX_BYTES {
        return text::read(source, UTF_8, path, range, env);
    }
    let file = source.file.try_clone()?;
    let (size, room) = (source.size, source.chunk.len());
    let notebook = Source { file, chunk: std::mem::take(&mut source.chunk), filled: source.filled, size };
    let bytes = notebook.whole(MAX_BYTES)?;
    let parsed = bytes.as_deref().and_then(|b| serde_json::from_slice::<Value>(b).ok());
    let cells = parsed.as_ref().and_then(|v| v.get("cells")).and_then(Value::as_array);
    let (Some(bytes), Some(parsed), Some(cells)) = (&bytes, &parsed, cells) else {
        source.file.seek(SeekFrom::Start(0))?;
        source.chunk = vec![0; room];
        source.filled = 0;
        return text::read(source, UTF_8, path, range, env);
    };
    env.host.note_read(path, &becket_tool::sha256(bytes));
    let language = parsed.pointer("/metadata/kernelspec/language").and_then(Value::as_str).unwrap_or("code");
    let rendered = render(cells, language);
    let lines: Vec<&str> = rendered.lines().collect();
    let Some(asked) = range.of(lines.len()) else {
        let total = lines.len();
        return Ok(ToolOutput::error(format!("offset {} is behind the end: {total} lines.", range.offset)));
    };
    let mut out = format!("[notebook, {} cells; edit and write work on its JSON]\n", cells.len());
    for line in &lines[asked.clone()] {
        out.push_str(line);
        out.push('\n');
    }
    if asked.start > 0 || asked.end < lines.len() {
        let _ = writeln!(out, "[lines {}-{} of {}]", asked.start + 1, asked.end, lines.len());
    }
    let details = json!({"kind": "notebook", "cells": cells.len(), "lines": lines.len()});
    Ok(finish(ToolOutput { details, ..ToolOutput::text(out) }, Keep::Head, env))
}

fn render(cells: &[Value], language: &str) -> String {
    let mut out = String::new();
    for (index, cell) in cells.iter().enumerate() {
        let kind = cell.get("cell_type").and_then(Value::as_str).unwrap_or("unknown");
        let kind = if kind == "code" { language } else { kind };
        let _ = writeln!(out, "## cell {} ({kind})", index + 1);
        push_text(&mut out, cell.get("source"), usize::MAX);
        for output in cell.get("outputs").and_then(Value::as_array).into_iter().flatten() {
            push_output(&mut out, output);
        }
    }
    out
}

fn push_output(out: &mut String, output: &Value) {
    match output.get("output_type").and_then(Value::as_str) {
        Some("stream") => {
            out.push_str("# output\n");
            push_text(out, output.get("text"), OUTPUT_BYTES);
        }
        Some("error") => {
            let field = |name: &str| output.get(name).and_then(Value::as_str).unwrap_or_default();
            let _ = writeln!(out, "# error\n{}: {}", field("ename"), cut_end(field("evalue"), OUTPUT_BYTES));
        }
        _ => {
            let Some(data) = output.get("data").and_then(Value::as_object) else { return };
            if let Some(plain) = data.get("text/plain") {
                out.push_str("# output\n");
                push_text(out, Some(plain), OUTPUT_BYTES);
            }
            for (kind, value) in data.iter().filter(|(k, _)| k.starts_with("image/")) {
                let _ =
                    writeln!(out, "# output: {kind}, {} bytes of base64", value.as_str().map_or(0, str::len));
            }
        }
    }
}

/// Notebook text is a string or a list of strings that are its lines.
fn push_text(out: &mut String, value: Option<&Value>, max: usize) {
    let text = match value {
        Some(Value::String(s)) => s.clone(),
        Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
        _ => return,
    };
    let shown = cut_end(&text, max);
    out.push_str(shown);
    if !shown.is_empty() && !shown.ends_with('\n') {
        out.push('\n');
    }
    if shown.len() < text.len() {
        let _ = writeln!(out, "[{} more bytes]", text.len() - shown.len());
    }
}
