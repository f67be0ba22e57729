//! The network: which addresses are on the internet, which hosts the user allows, and the proxy of confined commands.
//!
//! Owns the judgement of addresses and hosts, and the proxy that enforces it for confined commands. Does not confine anything:
//! the sandbox ensures that a command reaches nothing but the proxy. Reads neither the environment nor the configuration.
//!
//! | module | what it is for |
//! |---|---|
//! | [`refusal`] | an address that is not on the internet, and what it is instead: pure |
//! | [`HostRules`] | lists of hosts, with ports and ranges of addresses: pure |
//! | `request` | the first bytes of a client as the host and port that it wants: pure |
//! | [`Proxy`] | the proxy of a session: HTTP, CONNECT and SOCKS5 on one port |
//! | [`enter`] | the side of the command: a port inside its network that the proxy serves |
//!
//! Invariants:
//! - A name is looked up only if the rules allow it, once, and a connection is made to exactly the addresses that were judged.
//! - An address that is not on the internet is reached only if the user names it as an address or a range.
//! - A request, host or rule that is not understood is refused.

mod address;
mod door;
mod hosts;
mod proxy;
mod request;

pub use address::refusal;
pub use door::enter;
pub use hosts::{AddressRange, BadHost, HostRules, names_host, split_port};
pub use proxy::{Lookup, Pass, Proxy, system_lookup};

/// For fuzzing: reads the first bytes of a client.
#[doc(hidden)]
pub fn read_request(bytes: &[u8]) {
    let _ = request::read(bytes);
}
