//! Tools that come and change while a session runs: those of servers that are started beside it.
//!
//! Owns the seam alone. An agent looks before each request whether the tools are others than before.

use crate::Tool;
use std::sync::Arc;

/// A tool of a source.
#[derive(Clone)]
pub struct OfferedTool {
    pub tool: Arc<dyn Tool>,
    /// True if requests carry its definition; else it is only found when it is called.
    pub offered: bool,
}

impl OfferedTool {
    pub fn offered(tool: Arc<dyn Tool>) -> Self {
        Self { tool, offered: true }
    }
}

/// A source of tools.
pub trait ToolSource: std::fmt::Debug + Send + Sync {
    /// Another number after each change of the tools.
    fn generation(&self) -> u64;

    /// All tools, as they are now.
    fn tools(&self) -> Vec<OfferedTool>;

    /// A tool of this name that may still come: its call waits for it.
    fn late(&self, name: &str) -> Option<Arc<dyn Tool>>;
}
