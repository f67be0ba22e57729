//! Reading a shell command without running it: the script taken apart into simple commands, file redirects and doubts.
//!
//! Owns the one reading of shell text: the permission check, the undo and the shell tool ask it what a command would do. tree-sitter's bash grammar gives the tree; [`read`] walks it and knows every node kind by name. A shape that the walk
//! does not know, cannot read for sure, or that would evaluate text as code becomes a *doubt* ([`Script::doubts`]).
//! [`unwrap`] takes launchers (`env`, `timeout`, `bash -c`) off.
//!
//! Invariants: nothing is run, and nothing is looked up on disk but through the resolver that a caller hands in; every
//! nested command is found or there is a doubt; no length or count leaves a part out without a doubt.
//!
//! It does not judge: permission is decided by `becket-guard`.

mod script;
mod unwrap;
mod vars;
mod word;

pub use script::{Dirs, MAX_CHARS, Paths, Redirect, Script, Simple, read, read_long};
pub use unwrap::{Unwrapped, base_name, is_launcher, system_name, unwrap};
pub use vars::may_show;
pub use word::{Known, Word};
