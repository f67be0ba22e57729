//! The tools of the session itself: `todo` and `recall` for its state, `ask_user` and `exit_plan` for its user.
//!
//! Owns the format of the todo list, the retrieval of outputs that were pruned or cut, and the form of questions to the
//! user. The tools touch nothing outside the session.
//!
//! Invariants:
//! - The model always writes the whole list. It has at most one item in progress. It is kept in the session's
//!   state, so it survives compactions.
//! - `recall` returns the original bytes, in pieces within the output limits, and always says that they are
//!   history.
//!
//! Stores nothing itself and does not know the ledger: everything goes through the
//! [`Host`](becket_tool::Host).

mod ask_user;
mod exit_plan;
mod head;
mod recall;
mod todo;

pub use ask_user::AskUser;
pub use exit_plan::ExitPlan;
pub use recall::Recall;
pub use todo::Todo;
