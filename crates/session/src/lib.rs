//! What happened in a session, and what the model sees of it.
//!
//! Owns the ledger (append-only truth), its storage (JSONL and blobs; a SQLite index that is derived), and the context
//! engine, a pure function from the ledger to what the model sees. Knows `types` only; never talks to a model, runs a
//! tool or prints.

pub mod context;
