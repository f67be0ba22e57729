//! Parses a shell command without running it, into simple commands, file redirects and doubts.
//!
//! Owns the only parser of shell text: the permission check, the undo and the shell tool use it to find the effects of
//! a command. tree-sitter's bash grammar gives the tree; [`read`] walks it and knows every node kind by name. A shape
//! that the walk does not know, cannot parse reliably, or that would evaluate text as code becomes a *doubt*
//! ([`Script::doubts`]). [`unwrap`] removes launchers (`env`, `timeout`, `bash -c`).
//!
//! Invariants: nothing is run. The disk is accessed only through the resolver that the caller passes. Every nested
//! command is found, or there is a doubt. No length or count leaves a part out without a doubt.
//!
//! Does not decide about permission: `becket-guard` does.

#[doc(hidden)]
pub mod fuzzing;
mod script;
mod unwrap;
mod vars;
mod word;

pub use script::{Dirs, MAX_CHARS, Paths, Redirect, Script, Simple, assignments, read, read_long};
pub use unwrap::{Unwrapped, base_name, is_launcher, system_name, unwrap};
pub use vars::may_show;
pub use word::{Expansion, Known, Word};
