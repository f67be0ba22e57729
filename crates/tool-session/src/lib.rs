//! The `todo` and `recall` tools: what the session knows about itself.
//!
//! Owns the shape of the todo list and the way back to an output that was pruned or cut. Both touch nothing outside the
//! session.
//!
//! Invariants:
//! - The list is written whole, has at most one item in progress, and lives in the session's state, so it survives
//!   compactions.
//! - `recall` gives back the bytes that were there, in pieces that fit, and always says that they are history.
//!
//! Stores nothing itself and knows no ledger: everything goes through the [`Host`](becket_tool::Host).

mod head;
mod recall;
mod todo;

pub use recall::Recall;
pub use todo::Todo;
