//! Judging the commands that `becket-shell-syntax` reads out of a script, one by one and by their words.
//!
//! [`readonly`] is the table of commands that only read; [`escape`] finds options that run another program; [`gitcmd`]
//! knows git; [`wrappers`] knows programs that run others. A script with a doubt is never allowed by a rule for single commands.
//!
//! Invariants: nothing is run, and only file names are looked up on disk ([`glob`]).

pub(crate) mod escape;
pub(crate) mod gitcmd;
pub(crate) mod glob;
mod options;
pub(crate) mod readonly;
mod sedscript;
pub(crate) mod wrappers;
