//! Sessions outside of becket: exports for people and other programs, and imports.
//!
//! Owns the formats: Markdown, the HTML page, the lines of a ledger with its blobs, and the files of Claude Code, Codex and opencode.
//! Reads sessions through `becket-session` and never changes one; an import is a new session. Prints nothing and knows no command
//! line.

pub mod export;
pub mod import;
