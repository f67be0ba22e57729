//! The sandbox: commands that can reach only what their level allows, enforced by the kernel.
//!
//! Owns the levels (`read-only`, `workspace`, `deny-rules`) and what each grants, the choice of a backend with its self-test, and the
//! helper process that confines itself and then becomes the command. Decides nothing about permission: the guard says at
//! which level a command runs. Reads neither the environment nor the configuration, and prints nothing.
//!
//! | module | what it is for |
//! |---|---|
//! | [`policy`] | what a level grants: pure, from the workspace, the home folder and the configuration |
//! | [`helper`], `request` | the helper process: request in, confined command out |
//! | [`Sandbox`] | the handle of a session: backend, self-test, the words that go before a command |
//! | [`Programs`] | formatters, language servers and the status line: how they are confined |
//! | [`Process`] | such a program while it runs: its process group, its streams and its end |
//! | `backend` | the means of confinement |
//! | `bwrap` | a policy as arguments of bubblewrap |
//! | `obeyed`, [`Lease`] | files that other programs obey later, put back during and after a command |
//! | `record` | protected files, put back after becket was killed |
//! | `sockets` | local services that a command may not reach, if it may reach some |
//! | `grants` | a policy as Landlock grants, where "all but" becomes a list of siblings |
//! | `sys` | Landlock, seccomp and opening paths without following links |
//!
//! Mechanism: nothing here is `unsafe`. becket starts itself again with [`helper::WORD`]; that process has one thread, applies the
//! confinement to itself and then replaces itself with the command, which cannot take it off.
//!
//! Invariants:
//! - A confined command never starts with less confinement than asked for: if a part cannot be applied, it does not start.
//! - An empty list grants nothing. A path that cannot be opened without following a link grants nothing.
//! - A backend counts as working only after its self-test: more than twenty forbidden actions must have failed, and a write inside must
//!   have succeeded.

mod backend;
mod bwrap;
mod content;
mod git_folder;
mod gitlinks;
mod grants;
mod handle;
pub mod helper;
mod lease;
mod nested_git;
pub mod policy;
mod probe;
mod process;
mod programs;
mod protected_state;
mod rebase_lists;
mod record;
mod request;
mod running;
mod sockets;
mod stage;
mod sweep;
mod sys;

pub use backend::{Backend, BackendKind};
pub use becket_network::{HostRules, Pass, RefusalLog};
pub use handle::{Backends, Confined, FindSecrets, Refresh, Sandbox, SandboxError, SandboxSettings};
pub use lease::{Lease, Undo};
pub use policy::{Network, Policy, PolicyInputs, ProgramKind};
pub use probe::SelfTest;
pub use process::{Process, ProcessGroup, ProcessLog, Start, Streams};
pub use programs::{Confine, Prepared, Programs, SYSTEM_PATH};
pub use running::running_program;
