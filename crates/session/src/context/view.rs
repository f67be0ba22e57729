//! placeholder
use becket_types::{Context, Entry};
use super::{ModelScope, Policy};
pub struct View;
