//! The `web_fetch` and `web_search` tools.
//!
//! Owns fetching, the check of addresses, and the presentation of pages as text from an untrusted source. Does not decide about
//! permissions: a fetch declares its host as `domain:HOST`. A redirect to another host is reported and not followed, because it
//! needs its own permission.
//!
//! | module | contents |
//! |---|---|
//! | `client` | connects only to checked addresses; redirects; size and time limits |
//! | `proxy` | decides which addresses go through a proxy |
//! | `page` | HTML to Markdown, encodings |
//! | `fetch`, `search` | the tools |
//! | `untrusted` | the marks around untrusted text |
//!
//! Invariants: without a proxy, the address that is checked is the one that is connected to, so a name server
//! cannot give two different answers. With a proxy, the address is checked as far as it is known here.
//! Nothing except the request is sent. The answer is bounded while it is received.

mod client;
mod fetch;
mod page;
mod proxy;
mod search;
mod untrusted;

pub use becket_network::Lookup;
pub use client::host_of;
pub use fetch::{FetchSettings, WebFetch};
pub use proxy::Proxies;
pub use search::{Provider, SearchSettings, WebSearch};
