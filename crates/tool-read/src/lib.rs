//! The `read` tool: text by lines, directories, images, PDF, notebooks.
//!
//! Owns the model's view of a path. A path is resolved once. Its first bytes, never its name alone, decide
//! the kind, and one reader per kind makes the output.
//!
//! | module | contents |
//! |---|---|
//! | `text` | lines with numbers; any size by range; UTF-8, UTF-16, legacy encodings |
//! | `scan` | reads the lines of a range and computes the hash, in one pass with bounded memory |
//! | `directory`, `image`, `pdf`, `notebook` | the other kinds |
//! | `near` | suggestions for a path that does not exist |
//!
//! Invariants:
//! - Memory does not grow with the file. The output says what was omitted, with the `offset` that continues.
//! - For a file of up to 64 MB the session is given the hash of all its bytes, so that a later edit can detect a
//!   change. Only shown text is decoded, except that a UTF-16 file is decoded as it is scanned; pixels never are.
//!
//! Does not recognise text in images and does not write.

mod directory;
#[doc(hidden)]
pub mod fuzzing;
mod image;
mod near;
mod notebook;
mod pdf;
mod scan;
mod text;

use becket_tool::input::Parser;
use becket_tool::{PathError, Tool, ToolEnv, paths, sniff};
use becket_types::{Access, ToolOutput, ToolSpec, cut_end};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

/// Files up to this size in bytes are read on the caller's thread, because handing them to another thread
/// costs more.
const INLINE_BYTES: u64 = 128 * 1024;

/// Argument names of other agents' read tools.
const ALIASES: &[(&str, &str)] = &[
    ("file_path", "path"),
    ("filename", "path"),
    ("file", "path"),
    ("absolute_path", "path"),
    ("target_file", "path"),
    ("start_line", "offset"),
    ("line_offset", "offset"),
    ("n_lines", "limit"),
    ("max_lines", "limit"),
];

#[derive(Debug, Deserialize)]
struct Input {
    path: String,
    offset: Option<i64>,
    limit: Option<u64>,
    /// Pages of a PDF, as other agents specify them: `3` or `3-5`.
    pages: Option<String>,
}

impl Input {
    fn range(&self) -> Result<Range, String> {
        let limit = self.limit.map_or(text::MAX_LINES, |n| usize::try_from(n).unwrap_or(usize::MAX));
        let range = Range { offset: self.offset.unwrap_or(1), limit: limit.min(text::MAX_LINES) };
        let Some(pages) = self.pages.as_deref().map(str::trim).filter(|p| !p.is_empty()) else {
            return Ok(range);
        };
        if !self.path.to_ascii_lowercase().ends_with(".pdf") {
            return Err("`pages` is for PDF documents; here `offset` and `limit` count lines.".to_owned());
        }
        let (first, last) = pages.split_once('-').unwrap_or((pages, pages));
        match (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            (Ok(first), Ok(last)) if 0 < first && first <= last => {
                Ok(Range { offset: first.into(), limit: (last - first + 1) as usize })
            }
            _ => Err(format!("`pages` is a page or a range such as 3-5, got `{}`.", cut_end(pages, 60))),
        }
    }
}

/// Range of lines (or names of a directory, or pages of a PDF) that the call requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// First line, from 1. A negative number counts from the end.
    offset: i64,
    limit: usize,
}

impl Range {
    /// Converts to positions from 0 in a list of `len` items. `None` if the range starts after the end.
    fn within(self, len: usize) -> Option<std::ops::Range<usize>> {
        let first = if self.offset < 0 {
            len.saturating_sub(usize::try_from(self.offset.unsigned_abs()).unwrap_or(usize::MAX))
        } else {
            usize::try_from(self.offset.max(1) - 1).unwrap_or(usize::MAX)
        };
        (first < len || len == 0 && first == 0).then(|| first..first.saturating_add(self.limit).min(len))
    }
}

/// The `read` tool.
pub struct Read {
    /// Specification that models see.
    spec: ToolSpec,
    /// Specification of the input that is accepted.
    understood: ToolSpec,
}

impl Default for Read {
    fn default() -> Self {
        Self::new()
    }
}

impl Read {
    /// Makes the tool. Its input also accepts `pages`, which the specification does not offer.
    pub fn new() -> Self {
        let input_schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "offset": {"type": "integer", "description": "first line, from 1; negative counts from the end"},
                "limit": {"type": "integer", "minimum": 1}
            },
            "required": ["path"]
        }).into();
        let description =
            "Read a file (text, image, PDF, notebook) or list a directory. Text comes as line number, tab, line; \
                           at most 2000 lines or 50 KB a call."
                .to_owned();
        let spec = ToolSpec { name: "read".to_owned(), description, input_schema };
        let mut understood = spec.clone();
        Arc::make_mut(&mut understood.input_schema)["properties"]["pages"] = json!({"type": "string"});
        Self { spec, understood }
    }

    fn parse(&self, input: &Value) -> Result<Input, String> {
        Parser::new(&self.understood).aliases(ALIASES).parse(input)
    }
}

impl Tool for Read {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, env: &ToolEnv) -> Result<Access, String> {
        Ok(Access::read(env.path(&self.parse(input)?.path)?))
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let input = match self.parse(&input) {
                Ok(input) => input,
                Err(message) => return ToolOutput::error(message),
            };
            let (range, path) = match input.range().and_then(|range| Ok((range, env.path(&input.path)?))) {
                Ok(both) => both,
                Err(message) => return ToolOutput::error(message),
            };
            let small = match paths::inspect(&path) {
                Ok(meta) => meta.is_file() && meta.len() <= INLINE_BYTES,
                Err(error) => return refused(&input.path, &path, &error, env),
            };
            if small && let Some(output) = read(&input.path, &path, range, env, true) {
                return output;
            }
            let inner = env.clone();
            let task = tokio::task::spawn_blocking(move || read(&input.path, &path, range, &inner, false));
            match task.await {
                Ok(output) => output.unwrap_or_else(|| ToolOutput::error("Reading failed.")),
                Err(error) => ToolOutput::error(format!("Reading failed: {error}.")),
            }
        })
    }
}

/// Reads whatever is at the resolved `path`. `asked` is the path as the model wrote it. `quickly` is set on a thread that must not be
/// blocked: a PDF, which may take long even if it is small, is then not read, and the result is `None`.
fn read(asked: &str, path: &Path, range: Range, env: &ToolEnv, quickly: bool) -> Option<ToolOutput> {
    let (file, meta) = match paths::open_file(path) {
        Ok(opened) => opened,
        Err(PathError::Directory(_)) => return Some(directory::read(path, range, env)),
        Err(error) => return Some(refused(asked, path, &error, env)),
    };
    match read_file(file, &meta, path, range, env, quickly) {
        Ok(output) => output,
        Err(error) => Some(ToolOutput::error(format!("{}: {error}.", env.display(path)))),
    }
}

fn read_file(
    mut file: File,
    meta: &Metadata,
    path: &Path,
    range: Range,
    env: &ToolEnv,
    quickly: bool,
) -> std::io::Result<Option<ToolOutput>> {
    let room =
        usize::try_from(meta.len()).unwrap_or(usize::MAX).saturating_add(1).clamp(4 * 1024, scan::CHUNK);
    let mut chunk = vec![0; room];
    let mut filled = 0;
    // One read may return fewer bytes than requested, above all from files that the kernel generates.
    while filled < sniff::SAMPLE.min(room) {
        match file.read(&mut chunk[filled..])? {
            0 => break,
            n => filled += n,
        }
    }
    let kind = sniff::kind(&chunk[..filled], path);
    let source = scan::Source { file, chunk, filled, size: meta.len() };
    let output = match kind {
        sniff::Kind::Text(encoding) => text::read(source, encoding, path, range, env)?,
        sniff::Kind::Pdf if quickly => return Ok(None),
        sniff::Kind::Pdf => pdf::read(source, path, range, env)?,
        sniff::Kind::Notebook => notebook::read(source, path, range, env)?,
        sniff::Kind::Image(format) => image::read(source, format, path, env)?,
        sniff::Kind::Binary(what) => binary(what, path, meta.len().max(filled as u64), env),
    };
    Ok(Some(output))
}

fn binary(what: sniff::Binary, path: &Path, size: u64, env: &ToolEnv) -> ToolOutput {
    ToolOutput {
        details: json!({"kind": "binary", "what": what.name, "bytes": size}),
        ..ToolOutput::error(format!(
            "{} is {}, {size} bytes; it is not shown.{}",
            env.display(path),
            what.name,
            what.hint
        ))
    }
}

/// Reports the file's hash to the session, so that a later edit can detect a change.
fn note(path: &Path, hash: &str, env: &ToolEnv) {
    env.host.note_read(path, hash);
}

/// Makes an error about a path as the model wrote it. If the path does not exist, similar names are
/// suggested.
fn refused(asked: &str, path: &Path, error: &PathError, env: &ToolEnv) -> ToolOutput {
    if !error.is_not_found() {
        return ToolOutput::error(error.to_string());
    }
    let near: Vec<String> = near::paths(path, env).iter().map(|p| env.display(p)).collect();
    let mut message = format!("{asked} does not exist.");
    if !near.is_empty() {
        message = format!("{message} Did you mean {}?", near.join(" or "));
    } else if asked.starts_with(['~', '$']) {
        message.push_str(" `~` and variables are not expanded; write the absolute path.");
    } else if asked.contains(['*', '?']) {
        message.push_str(" `read` takes one path; `glob` finds files by pattern.");
    }
    ToolOutput::error(becket_tool::text::clean(&message))
}

#[cfg(test)]
mod tests;
