//! Reading a shell command without running it: the script taken apart into simple commands, file redirects and doubts.
//!
//! Model: tree-sitter's bash grammar gives the tree; [`script`] walks it and knows every node kind by name. What it
//! does not know, cannot read for sure, or what would evaluate text as code becomes a *doubt*, and a script with a doubt
//! is never allowed by a rule for single commands. [`unwrap`] takes launchers (`env`, `timeout`, `bash -c`) off;
//! [`readonly`] is the table of commands that only read.
//!
//! Invariants: nothing is run or looked up on disk; every nested command is found or there is a doubt; no length or
//! count makes the answer looser.

pub(crate) mod escape;
pub(crate) mod gitcmd;
pub(crate) mod glob;
pub(crate) mod readonly;
pub(crate) mod script;
mod sedscript;
pub(crate) mod unwrap;
pub(crate) mod vars;
pub(crate) mod word;

pub(crate) use script::{Dirs, Script, Simple};
pub(crate) use word::{Known, Word};
