//! Formatters and language servers after an edit, and the `lsp` tool.
//!
//! Owns the choice of a formatter or server for a file, their processes, and the report to the model. Makes
//! one decision about permissions: a program that the project can influence is started only if the user named
//! it, or if commands may run without asking. Writes files only for a formatter and for a permitted rename.
//!
//! | module | contents |
//! |---|---|
//! | [`settings`] | settings from the binary |
//! | `after` | the hook after edits |
//! | `format`, `replace` | formatters; replacing the content of a file |
//! | `servers`, `pool`, `server` | choice of a server; one per kind and folder; its protocol |
//! | `frames`, `position` | bounded messages; lines and columns |
//! | `diagnostics`, `problems` | errors that an edit introduced |
//! | `tool`, `rename` | the `lsp` tool |
//!
//! Invariants: no edit waits longer than one second for servers. A server or formatter that is missing, slow,
//! broken or hostile costs at most one line of output. Every process ends together with becket.

mod after;
mod diagnostics;
mod format;
mod frames;
mod pool;
mod position;
mod problems;
mod program;
mod rename;
mod replace;
mod server;
mod servers;
pub mod settings;
mod tool;

pub use after::AfterEdit;
pub use format::formatter_names;
pub use program::Environment;
pub use settings::{CustomFormatter, CustomServer, FormatSettings, LspSettings, Settings};
pub use tool::LspTool;
