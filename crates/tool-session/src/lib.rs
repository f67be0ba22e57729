//! The `todo` and `recall` tools: access to the session's own state.
//!
//! Owns the format of the todo list, and the retrieval of outputs that were pruned or cut. Both tools touch
//! nothing outside the session.
//!
//! Invariants:
//! - The model always writes the whole list. It has at most one item in progress. It is kept in the session's
//!   state, so it survives compactions.
//! - `recall` returns the original bytes, in pieces within the output limits, and always says that they are
//!   history.
//!
//! Stores nothing itself and does not know the ledger: everything goes through the
//! [`Host`](becket_tool::Host).

mod head;
mod recall;
mod todo;

pub use recall::Recall;
pub use todo::Todo;
