//! After an edit: formatters and the errors that language servers find. And the `lsp` tool.
//!
//! Owns which formatter or server a file has, their processes, and what the model is told of them. Does not decide about
//! permissions beyond one thing: nothing that a project can steer is started unless the user named it or commands may run
//! without a question. Writes files only for a formatter and for a rename that was permitted.
//!
//! | module | what it is for |
//! |---|---|
//! | [`settings`] | what the binary hands in |
//! | `after` | the hook around edits |
//! | `format`, `replace` | formatters; new content for a file |
//! | `servers`, `pool`, `server` | which server, one per kind and folder, talking to it |
//! | `frames`, `position` | bounded messages; lines and columns |
//! | `diagnostics` | errors that an edit brought |
//! | `tool`, `rename` | the `lsp` tool |
//!
//! Invariants: no edit waits longer than a second for servers; a server or formatter that is missing, slow, broken or hostile
//! costs one line at most; every process ends with us.

mod after;
mod diagnostics;
mod format;
mod frames;
mod pool;
mod position;
mod process;
mod rename;
mod replace;
mod server;
mod servers;
pub mod settings;
mod tool;

pub use after::AfterEdit;
pub use format::formatter_names;
pub use process::Environment;
pub use settings::{CustomFormatter, CustomServer, FormatSettings, LspSettings, Settings};
pub use tool::LspTool;
