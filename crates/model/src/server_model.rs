//! Owns the reports of servers about their models. [`probe`](crate::probe) asks for them.

use becket_types::{Millis, WireLayout};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A server's report about one of its models. A field is `None` if the server did not report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerModel {
    /// The window in tokens with which the model runs.
    #[serde(default)]
    pub window: Option<u64>,
    /// True if the model reads images.
    #[serde(default)]
    pub images: Option<bool>,
    /// The layout of messages that its chat template requires.
    #[serde(default)]
    pub layout: Option<WireLayout>,
    /// True if the window is the server's usual one, because the model was not loaded when the server was asked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub assumed: bool,
    /// Time of the report, since 1970.
    #[serde(default)]
    pub asked: Millis,
}

/// Reports of servers, by base URL and the model's name.
pub type ServerModels = BTreeMap<String, BTreeMap<String, ServerModel>>;
