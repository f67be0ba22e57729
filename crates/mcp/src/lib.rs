//! MCP servers as tools: configuration as data, connections, tools, resources, prompts, authorization.
//!
//! Owns everything between becket and an MCP server. Built on `rmcp`, which speaks both generations of the protocol (before and
//! from 2026-07-28). No type of `rmcp` leaves this crate. Reads no file of the user's and no environment, asks for no permission,
//! prints nothing: configurations, variables, programs and stores are handed in, and calls are judged by the guard like those of
//! any tool.
//!
//! | module | what it is for |
//! |---|---|
//! | [`config`] | servers as data |
//! | [`Hub`] | all servers of a session: start, states, tools, the end |
//! | `offered` | the tools of a hub for an agent |
//! | `server` | one connection: start, listing, reconnection |
//! | `transport` | stdio, HTTP, the older SSE, functions of the host |
//! | `handler` | requests and notifications from a server |
//! | `call`, `output` | one call: time limits, progress, cancellation; its result as text and images |
//! | `tool`, `deferred` | tools as the model sees them; a search for those that are not in every request |
//! | `direct` | calls that becket itself makes, for hooks |
//! | [`naming`], [`schema`] | names and input schemas that every provider takes |
//! | [`elicitation`] | questions of a server |
//! | [`program`] | where the program of a server is found |
//! | [`oauth`] | authorization of HTTP servers |
//! | [`CallbackPort`] | the browser's answer to a login, also to one of a provider |
//!
//! Invariants:
//! - A server is never waited for before the first prompt, unless the user says that it is required.
//! - Everything that a server sends is bounded: lines, events, schemas, descriptions, lists, outputs, notifications.
//! - Text that a server wrote is marked as such, and no tool of a server has the name of one of becket's own tools.

mod call;
mod callback;
pub mod config;
mod deferred;
mod direct;
pub mod elicitation;
mod handler;
mod hub;
pub mod naming;
pub mod oauth;
mod offered;
mod output;
pub mod program;
mod prompts;
mod resources;
pub mod schema;
mod server;
mod shared;
mod tool;
mod transport;

pub use callback::CallbackPort;
pub use config::{Endpoint, Exposure, GrantType, OAuthConfig, Parsed, ServerConfig};
pub use direct::{call_any, call_tool, call_whole};
pub use hub::{DynamicChange, Hub, Proxies};
pub use offered::HubTools;
pub use prompts::{PromptInfo, PromptText};
pub use resources::{ResourceInfo, read_whole};
pub use server::{ServerSummary, State, Status, ToolAbout};
pub use shared::HubSettings;
pub use transport::channel::{Channel, HostServers};
