//! The connections to a server. Each is a transport of `rmcp` and limits the size of what it reads.

pub(crate) mod channel;
pub(crate) mod http;
pub(crate) mod message;
pub(crate) mod repaired;
pub(crate) mod sse;
pub(crate) mod stdio;
