//! Sessions: the record of everything that happened, and the view that the model gets of it.
//!
//! Owns the ledger (the append-only truth), its storage (JSONL and blobs, and a derived SQLite index), and
//! the context engine, a pure function from the ledger to the model's view. [`Session`] combines the three.
//! Knows `types` only; never talks to a model, runs a tool or prints.

pub mod adopt;
pub mod blobs;
pub mod context;
pub mod history_search;
pub mod index;
pub mod ledger;
pub mod masked_lines;
pub mod pages;
pub mod replay;
pub mod salvage;
pub mod secrets;
mod session;
pub mod store;
pub mod walk;

pub use session::{CreateOptions, History, Peek, Session, SessionInfo, SessionLabel, Snapshot};
pub use store::{Durability, StoreError};

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: &u8| char::from(*b).to_digit(16).map(|d| d as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[a, b]| Some((digit(a)? << 4) | digit(b)?)).collect()
}
