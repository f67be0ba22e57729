//! Tools that can be added and changed while a session runs: the tools of servers that start in parallel with it.
//!
//! Owns only the interface. Before each request, the agent compares [`ToolSource::generation`] with its last value to find changes.

use crate::Tool;
use std::sync::Arc;

/// A tool of a source.
#[derive(Clone)]
pub struct OfferedTool {
    pub tool: Arc<dyn Tool>,
    /// True if requests contain its definition. Otherwise the model finds it by a search.
    pub offered: bool,
}

impl OfferedTool {
    /// A tool whose definition is in every request.
    pub fn offered(tool: Arc<dyn Tool>) -> Self {
        Self { tool, offered: true }
    }
}

/// A source of tools.
pub trait ToolSource: std::fmt::Debug + Send + Sync {
    /// Returns a number that differs after each change of the tools.
    fn generation(&self) -> u64;

    /// Returns all tools that the source has at present.
    fn tools(&self) -> Vec<OfferedTool>;

    /// Returns a substitute for a tool of a server that is still starting. A call of the substitute waits until the tool exists.
    fn late(&self, name: &str) -> Option<Arc<dyn Tool>>;

    /// Returns the source with all tools, if this source offers only a part of them.
    fn whole(&self) -> Option<Arc<dyn ToolSource>> {
        None
    }
}
