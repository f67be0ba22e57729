//! The ways to a server. Each is a transport of `rmcp`; each bounds what it reads.

pub(crate) mod channel;
pub(crate) mod http;
pub(crate) mod message;
pub(crate) mod sse;
pub(crate) mod stdio;
