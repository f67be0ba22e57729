//! The `web_fetch` and `web_search` tools.
//!
//! Owns what is fetched, from where it may come, and how it is shown: as text from somebody else. Does not decide about
//! permissions: a fetch says its host as `domain:HOST`, and a redirect to another host is reported, not followed, because it
//! needs a permission of its own.
//!
//! | module | what it is for |
//! |---|---|
//! | `client` | connecting to checked addresses only; redirects; size and time limits |
//! | `proxy` | which addresses go through a proxy |
//! | `page` | HTML to Markdown, encodings |
//! | `fetch`, `search` | the tools |
//! | `untrusted` | the mark around foreign text |
//!
//! Invariants: without a proxy, an address is checked where the connection is made to it, so no name server can answer twice
//! differently; through one it is checked as far as it is known here;
//! nothing is sent but the request; what comes back is bounded while it comes.

mod client;
mod fetch;
mod page;
mod proxy;
mod search;
mod untrusted;

pub use becket_network::Lookup;
pub use fetch::{FetchSettings, WebFetch};
pub use proxy::Proxies;
pub use search::{Provider, SearchSettings, WebSearch};
