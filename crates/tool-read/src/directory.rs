//! Listing of a directory: sorted names, directories with `/`, links with their target. Owns that format.
//!
//! Shows hidden and ignored names too, and does not descend.

use crate::Range;
use becket_tool::dir::Dir;
use becket_tool::{ToolEnv, text::clean};
use becket_types::ToolOutput;
use serde_json::json;
use std::fmt::Write;
use std::path::Path;

/// Maximum number of names that are sorted. For a larger directory the output says that there are more.
const MAX_NAMES: usize = 100_000;
/// Maximum number of names that one call shows.
const MAX_SHOWN: usize = 1_000;
const MAX_BYTES: usize = 50 * 1024 - 512;

pub(crate) fn read(path: &Path, range: Range, env: &ToolEnv) -> ToolOutput {
    let mut names: Vec<String> = Vec::new();
    let (mut more, mut cancelled) = (false, false);
    // Permission was given for this path. If a link has replaced the directory since then, `Dir::open` does not follow it.
    let listed = Dir::open(path).and_then(|dir| {
        dir.list(|name, is_dir, target| {
            more = names.len() >= MAX_NAMES;
            cancelled = env.cancel.is_cancelled();
            if more || cancelled {
                return false;
            }
            let mut name = name.to_string_lossy().into_owned();
            match target {
                Some(target) => _ = write!(name, " -> {}", target.display()),
                None if is_dir => name.push('/'),
                None => {}
            }
            names.push(name);
            true
        })
    });
    if let Err(error) = listed {
        return ToolOutput::error(format!("{}: {error}.", env.display(path)));
    }
    if cancelled {
        return ToolOutput { interrupted: true, ..ToolOutput::error("Reading was interrupted.") };
    }
    names.sort_unstable();
    let total = names.len();
    if total == 0 {
        return ToolOutput {
            details: json!({"kind": "directory", "entries": 0}),
            ..ToolOutput::text("[empty directory]")
        };
    }
    let Some(asked) = range.within(total) else {
        return ToolOutput::error(format!("offset {} is behind the end: {total} entries.", range.offset));
    };
    let mut out = String::new();
    let mut last = asked.start;
    for name in &names[asked.clone()] {
        // A line feed in a file name would look like two names.
        let name = name.replace('\n', "\\n");
        let name = clean(&name);
        if last - asked.start >= MAX_SHOWN || out.len() + name.len() >= MAX_BYTES {
            break;
        }
        out.push_str(&name);
        out.push('\n');
        last += 1;
    }
    let plus = if more { "+" } else { "" };
    if asked.start > 0 || last < total || more {
        let _ = write!(out, "[entries {}-{last} of {total}{plus}", asked.start + 1);
        if last < total {
            let _ = write!(out, "; continue with offset {}", last + 1);
        }
        out.push_str("]\n");
    }
    ToolOutput {
        details: json!({"kind": "directory", "entries": total, "shown": last - asked.start}),
        ..ToolOutput::text(out)
    }
}
