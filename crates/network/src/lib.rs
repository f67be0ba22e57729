//! The network: which addresses are on the internet, which hosts the user allows, and the proxy of confined commands.
//!
//! Owns the judgement of addresses and hosts, and the proxy that enforces it for confined commands. Does not confine
//! anything: the sandbox ensures that a command reaches only the proxy. Reads neither the environment nor the
//! configuration.
//!
//! | module | purpose |
//! |---|---|
//! | [`refusal`] | the reason to refuse an address that is not on the internet: pure |
//! | [`HostRules`] | lists of hosts, with ports and address ranges: pure |
//! | `request` | parses the first bytes of a client to the requested host and port: pure |
//! | [`Proxy`] | the proxy of a session: HTTP, CONNECT and SOCKS5 on one port |
//! | [`enter`] | the command's side: opens a port inside its network that the proxy serves |
//!
//! Invariants:
//! - A name is resolved only if the rules allow it, and only once. A connection is made to exactly the judged
//!   addresses.
//! - An address that is not on the internet is reached only if the user lists it as an address or a range.
//! - A request, host or rule that cannot be parsed is refused.

mod address;
mod door;
mod hosts;
mod proxy;
mod request;

pub use address::refusal;
pub use door::enter;
pub use hosts::{AddressRange, BadHost, HostRules, names_host, split_port};
pub use proxy::{Lookup, Pass, Proxy, RefusalLog, system_lookup};

/// Parses the first bytes of a client, for fuzzing.
#[doc(hidden)]
pub fn read_request(bytes: &[u8]) {
    let _ = request::read(bytes);
}
